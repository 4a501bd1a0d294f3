// SPDX-License-Identifier: Apache-2.0
/*
 * What a page looks like: a head, the map, its key, tiers and pressure, and who has most of it.
 *
 * A cell of the map is two stretches of memory, one above the other: the upper half block in the colour of
 * the first on the colour of the second. A stretch has the colour of what there is most of in it; but a
 * single pinned or moving block is seen. Without half blocks a cell is one stretch, and a letter.
 */
#include <stdlib.h>
#include <string.h>

#include "draw.h"

/* ---- the head ---- */

static const char *bytes_text(uint64_t bytes, char text[16])
{
	static const char units[] = "BKMGTPE";
	unsigned int unit = 0;
	double number = bytes;

	for (; number >= 1024 && unit < sizeof(units) - 2; unit++)
		number /= 1024;
	snprintf(text, 16, unit ? "%.1f%c" : "%.0f%c", number, units[unit]);
	return text;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

#define PAPER_LINES	12u	/* of the map, with --batch */

typedef unsigned long long llu;

/* A number of the pool, for a line. */
static llu at(const struct top_data *data, const char *column)
{
	return top_number(data, column);
}

/* A line that goes on behind its name. */
static struct flow flow_begin(struct canvas *canvas, unsigned int line, const char *name)
{
	struct flow flow = { canvas, line, 0, 8, canvas_plain };

	flow_add(&flow, "%-8s", name);
	return flow;
}

static unsigned int draw_blocks(struct canvas *canvas, const struct top_data *data, unsigned int line)
{
	llu blocks = at(data, "blocks"), free = at(data, "free"), cached = at(data, "inactive");
	llu away = at(data, "away"), idle = free + cached + away, used = blocks > idle ? blocks - idle : 0;
	llu bytes = at(data, "block_bytes"), runs = at(data, "runs"), reserved = at(data, "reserved_blocks");
	struct flow flow = flow_begin(canvas, line, "Blocks");
	char size[16], all[16];

	flow_add(&flow, "%8llu total", blocks);
	flow_add(&flow, " %8llu used", used);
	flow_add(&flow, " %8llu cached", cached);
	flow_add(&flow, " %8llu free", free);
	flow_add(&flow, " %6llu away", away);
	flow = flow_begin(canvas, flow.line + 1, "Used");
	flow_add(&flow, "%7.1f%%", percent(used, blocks));
	flow_add(&flow, "  ranges %llu (%llu blocks)", at(data, "ranges"), at(data, "ranges_blocks"));
	flow_add(&flow, "  private %llu", at(data, "private"));
	flow_add(&flow, "  staged %llu", at(data, "staged"));
	flow_add(&flow, "  active %llu", at(data, "active"));
	flow = flow_begin(canvas, flow.line + 1, "Free");
	flow_add(&flow, "%7.1f%%  in %llu run%s, the longest %llu", percent(free, blocks), runs,
		 runs == 1 ? "" : "s", at(data, "largest"));
	if (reserved)
		flow_add(&flow, "; %llu kept behind ranges", reserved);
	if (bytes)
		flow_add(&flow, "; %s of %s each", bytes_text(bytes * blocks, all), bytes_text(bytes, size));
	return flow.line + 1;
}

static unsigned int draw_rates(struct canvas *canvas, const struct top_data *data, unsigned int line)
{
	struct flow flow = flow_begin(canvas, line, "Per s");

	flow_add(&flow, "%8.0f allocs", top_rate(data, "allocs"));
	flow_add(&flow, " %7.0f frees", top_rate(data, "frees"));
	flow_add(&flow, " %7.0f evicted", top_rate(data, "evictions"));
	flow_add(&flow, " %7.0f hits", top_rate(data, "hit_blocks"));
	flow_add(&flow, " %5.0f failed", top_rate(data, "fail_nospc"));
	flow = flow_begin(canvas, flow.line + 1, "Moves");
	flow_add(&flow, "%8.0f blocks/s in %.0f runs/s", top_rate(data, "moved_blocks"),
		 top_rate(data, "moves"));
	flow_add(&flow, "; %llu copying", at(data, "copying_blocks"));
	flow_add(&flow, ", %llu in limbo", at(data, "limbo_blocks"));
	flow_add(&flow, "; %llu waiting", at(data, "waiting"));
	return flow.line + 1;
}

static unsigned int draw_title(struct canvas *canvas, const struct top_data *data,
			       const struct top_look *look, const char *engine)
{
	struct flow title = { canvas, 0, 0, 2, canvas_strong };

	flow_add(&title, "kvmm-top - %s: %s,", engine, data->pool);
	flow_add(&title, " one of %u pools", data->nr_pools);
	if (data->nr_closed)
		flow_add(&title, " (%u closed: %s)", data->nr_closed, data->closed);
	flow_add(&title, "; every %g s", look->seconds);
	if (look->waits_for) {
		flow_add(&title, "; WAITING: ");
		flow_words(&title, look->waits_for);
	} else if (look->paused)
		flow_add(&title, "  PAUSED");
	return title.line + 1;
}

/* ---- the last two minutes ---- */

#define NR_LEVELS	8u
#define SIDE_WIDTH	24u	/* what is behind a strip */

static const struct {
	const char *name, *unit;
	double full;		/* a strip is as high as it gets; 0: as the largest of it */
	uint8_t colour;
} strips[NR_HISTORY_ROWS] = {
	[HISTORY_USED]	   = { "used", "%", 100, 4 },
	[HISTORY_HITS]	   = { "hits", "%", 100, 2 },
	[HISTORY_MOVES]	   = { "moves", "/s", 0, 3 },
	[HISTORY_FAILURES] = { "failed", "/s", 0, 1 },
};

/* Eighths of a block from below, or letters; nothing is a line, and what is not known is blank. */
static void draw_bar(struct cell *cell, unsigned int level, bool ascii, uint8_t colour)
{
	static const char letters[NR_LEVELS + 1] = "_.:-=+*#@";

	if (!cell)
		return;
	cell->fg = colour;
	cell->text[0] = letters[level];
	cell->text[1] = '\0';
	if (level && !ascii) {
		memcpy(cell->text, "\xe2\x96\x80", 4);
		cell->text[2] += level;		/* U+2581 to U+2588 */
	}
}

static void draw_strip(struct canvas *canvas, const struct history *history, enum history_row row,
		       unsigned int line, bool ascii)
{
	unsigned int width = canvas->width - 8 - SIDE_WIDTH;
	double most = history_most(history, row, 0, 1, 1), full = strips[row].full;
	double now = history_most(history, row, HISTORY_SECONDS - 1, HISTORY_SECONDS, HISTORY_SECONDS);
	const char *unit = strips[row].unit;
	char side[64] = "";

	canvas_print(canvas, line, canvas_plain, "%8s", "");
	canvas_put(canvas, line, 0, canvas_plain, strips[row].name);
	full = full > 0 ? full : most;
	for (unsigned int i = 0; i < width; i++) {
		double value = history_most(history, row, i, i + 1, width);
		unsigned int level = full > 0 && value > 0 ? 1 + (NR_LEVELS - 1) * value / full : 0;

		if (value >= 0)
			draw_bar(canvas_cell(canvas, line, 8 + i), level, ascii, strips[row].colour);
	}
	if (now >= 0)
		snprintf(side, sizeof(side), " %.0f%s, most %.0f%s", now, unit, most, unit);
	else if (most >= 0)
		snprintf(side, sizeof(side), " most %.0f%s", most, unit);
	canvas_put(canvas, line, 8 + width, canvas_plain, side);
}

/* Not where there is little room, nor of a single page. */
static unsigned int draw_history(struct canvas *canvas, const struct top_data *data,
				 const struct top_look *look, unsigned int line)
{
	if (canvas->height < line + 12 || canvas->width < 48 || (look->batch && !data->before_ns))
		return line;
	for (unsigned int row = 0; row < NR_HISTORY_ROWS; row++)
		draw_strip(canvas, &data->history, row, line + row, look->ascii);
	return line + NR_HISTORY_ROWS;
}

/* ---- the map ---- */

static const struct {
	const char *name;
	char letter;
	uint8_t colour;
} classes[TOP_NR_CLASSES] = {
	[TOP_FREE]    = { "free", '.', 0 },	  [TOP_RANGE]	= { "range", '#', 4 },
	[TOP_PINNED]  = { "pinned", 'P', 1 },	  [TOP_PRIVATE] = { "private", 'p', 5 },
	[TOP_ACTIVE]  = { "active", 'a', 6 },	  [TOP_CACHED]	= { "cached", 'c', 2 },
	[TOP_MOVING]  = { "moving", 'm', 3 },	  [TOP_AWAY]	= { "away", '-', 7 },
};

/* What there is in a stretch. */
struct stretch {
	uint64_t nr[TOP_NR_CLASSES];
	uint64_t owner;			/* of whom there is most, roughly: of the longest run */
	uint32_t longest;
};

static void add_part(struct stretch *stretch, const struct top_run *run, uint64_t nr)
{
	stretch->nr[run->cls] += nr;
	if (run->cls != TOP_FREE && nr > stretch->longest) {
		stretch->longest = nr;
		stretch->owner = run->owner;
	}
}

/* Equal parts of all blocks; with more parts than blocks a block is in several of them. */
static void fill_stretches(const struct top_data *data, struct stretch *stretch, unsigned int nr,
			   uint64_t nr_blocks)
{
	size_t at = 0;

	for (unsigned int i = 0; i < nr; i++) {
		uint64_t from = (uint64_t)i * nr_blocks / nr, to = (uint64_t)(i + 1) * nr_blocks / nr;

		to = to > from ? to : from + 1;
		while (at < data->nr_runs && (uint64_t)data->run[at].first + data->run[at].nr <= from)
			at++;
		for (size_t r = at; r < data->nr_runs && data->run[r].first < to; r++) {
			uint64_t start = data->run[r].first, end = start + data->run[r].nr;

			start = start > from ? start : from;
			add_part(&stretch[i], &data->run[r], (end < to ? end : to) - start);
		}
	}
}

static enum top_class class_of(const struct stretch *stretch)
{
	enum top_class best = TOP_FREE;

	if (stretch->nr[TOP_MOVING])
		return TOP_MOVING;
	if (stretch->nr[TOP_PINNED])
		return TOP_PINNED;
	for (unsigned int i = 0; i < TOP_NR_CLASSES; i++)
		if (stretch->nr[i] > stretch->nr[best])
			best = i;
	return best;
}

/* Owners have one of 24 colours; what is nobody's has that of its class, darker the less there is of it. */
static uint8_t colour_of(const struct stretch *stretch, bool by_owner)
{
	enum top_class cls = class_of(stretch);
	uint64_t all = 0, most = stretch->nr[cls];

	if (by_owner && stretch->owner && cls != TOP_FREE && cls != TOP_AWAY)
		return COLOUR_OTHER(stretch->owner * 0x9e3779b97f4a7c15ull / (UINT64_MAX / NR_OTHERS + 1));
	for (unsigned int i = 0; i < TOP_NR_CLASSES; i++)
		all += stretch->nr[i];
	if (cls == TOP_MOVING || cls == TOP_PINNED)
		most = all;
	return COLOUR(classes[cls].colour, 4 * most >= 3 * all ? 0 : 8 * most >= 3 * all ? 1 : 2);
}

static char letter_of(const struct stretch *stretch, bool by_owner)
{
	enum top_class cls = class_of(stretch);

	if (by_owner && stretch->owner && cls != TOP_FREE && cls != TOP_AWAY)
		return 'A' + stretch->owner % 26;
	return classes[cls].letter;
}

static void draw_cell(struct cell *cell, const struct stretch *upper, const struct stretch *lower,
		      bool by_owner)
{
	memcpy(cell->text, "\xe2\x96\x80", 4);	/* upper half block */
	cell->fg = colour_of(upper, by_owner);
	cell->bg = colour_of(lower, by_owner);
}

static void draw_letter(struct cell *cell, const struct stretch *stretch, bool by_owner)
{
	cell->text[0] = letter_of(stretch, by_owner);
	cell->text[1] = '\0';
	cell->fg = class_of(stretch) == TOP_FREE ? COLOUR_PLAIN : colour_of(stretch, by_owner);
}

/* Blocks go along the lines of stretches: in a cell with two of them the second is a line further on. */
static void draw_map(struct canvas *canvas, const struct top_data *data, const struct top_look *look,
		     unsigned int line, unsigned int height)
{
	unsigned int lines = look->ascii ? height : 2 * height, width = canvas->width;
	uint64_t nr_blocks = top_number(data, "blocks") + top_number(data, "null");
	struct stretch *stretch = calloc((size_t)lines * width + 1, sizeof(*stretch));

	if (!stretch || !nr_blocks) {
		free(stretch);
		return;
	}
	fill_stretches(data, stretch, lines * width, nr_blocks);
	for (unsigned int y = 0; y < height; y++)
		for (unsigned int x = 0; x < width; x++) {
			struct cell *cell = canvas_cell(canvas, line + y, x);

			if (!cell)
				continue;
			if (look->ascii)
				draw_letter(cell, &stretch[y * width + x], look->by_owner);
			else
				draw_cell(cell, &stretch[2 * y * width + x],
					  &stretch[(2 * y + 1) * width + x], look->by_owner);
		}
	free(stretch);
}

static unsigned int draw_key(struct canvas *canvas, const struct top_look *look, unsigned int line)
{
	struct flow flow = { canvas, line, 0, 0, canvas_plain };

	if (look->by_owner) {
		flow_add(&flow, "a colour an owner; nobody's: as by state (o)");
		return line + 1;
	}
	for (unsigned int i = 0; i < TOP_NR_CLASSES; i++) {
		unsigned int column = flow.column;
		struct cell *cell;

		flow_add(&flow, "%c %s  ", look->ascii ? classes[i].letter : '.', classes[i].name);
		cell = canvas_cell(canvas, flow.line, flow.line == line ? column : 0);
		if (!cell)
			continue;
		cell->bold = true;
		cell->fg = i == TOP_FREE ? COLOUR_PLAIN : classes[i].colour;
		if (!look->ascii && i != TOP_FREE) {
			memcpy(cell->text, "\xe2\x96\x88", 4);	/* a full block */
			cell->bold = false;
		}
	}
	return flow.line + 1;
}

/* ---- what is below, and who waits ---- */

/* Of each tier all that is not zero. */
static unsigned int draw_tiers(struct canvas *canvas, const struct table *tiers, unsigned int line)
{
	for (size_t row = 0; row < tiers->nr_rows; row++) {
		struct flow flow = flow_begin(canvas, line, "Tier");

		flow_add(&flow, "%s:", table_cell(tiers, row, "name") ?: "?");
		for (unsigned int i = 0; i < tiers->nr_columns; i++) {
			const char *name = tiers->name[i], *cell = tiers->cell[row * tiers->nr_columns + i];

			if (strcmp(name, "pool") && strcmp(name, "tier") && strcmp(name, "name") && strcmp(cell, "0") &&
			    strcmp(cell, "-"))
				flow_add(&flow, "  %s %s", name, cell);
		}
		line = flow.line + 1;
	}
	return line;
}

static const char *const averages[] = { "avg10", "avg60", "avg300" };

static bool has_anybody_waited(const struct table *pressure)
{
	for (size_t row = 0; row < pressure->nr_rows; row++)
		for (unsigned int i = 0; i < 3; i++)
			if (strtod(table_cell(pressure, row, averages[i]) ?: "0", NULL) > 0)
				return true;
	return false;
}

static unsigned int draw_pressure(struct canvas *canvas, const struct table *pressure, unsigned int line)
{
	struct flow flow;

	if (!has_anybody_waited(pressure))
		return line;
	flow = flow_begin(canvas, line, "Waits");
	for (size_t row = 0; row < pressure->nr_rows; row++) {
		flow_add(&flow, "%s", table_cell(pressure, row, "kind") ?: "?");
		for (unsigned int i = 0; i < 3; i++)
			flow_add(&flow, " %s%%", table_cell(pressure, row, averages[i]) ?: "-");
		flow_add(&flow, row + 1 < pressure->nr_rows ? ", " : " of 10, 60, 300 s");
	}
	return flow.line + 1;
}

/* ---- tables ---- */

static enum top_sort sort_by;

static int compare(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	uint64_t p = sort_by == SORT_PINNED ? x->pinned : sort_by == SORT_AGE ? x->age_ns : x->blocks;
	uint64_t q = sort_by == SORT_PINNED ? y->pinned : sort_by == SORT_AGE ? y->age_ns : y->blocks;

	if (p != q)
		return p > q ? -1 : 1;
	return strcmp(x->id, y->id);
}

static const char *const sort_names[NR_SORTS] = { "blocks", "pinned", "age" };

/* A head, over the whole width. */
static void draw_table_head(struct canvas *canvas, unsigned int line, const char *text)
{
	unsigned int end = canvas_print(canvas, line, canvas_inverse, "%s", text);

	for (; end < canvas->width; end++)
		canvas_put(canvas, line, end, canvas_inverse, " ");
}

/* True: line @at is the last one, and there are more rows than that. */
static bool is_full(struct canvas *canvas, unsigned int at, unsigned int nr_left)
{
	if (at + 1 != canvas->height || nr_left < 2)
		return at >= canvas->height;
	canvas_print(canvas, at, canvas_plain, "%16s", "");
	canvas_print(canvas, at, canvas_plain, "%16s %u more", "...", nr_left);
	return true;
}

static void draw_rows(struct canvas *canvas, struct top_data *data, const struct top_look *look,
		      unsigned int line)
{
	bool seqs = look->pane == PANE_SEQUENCES;
	struct top_row *row = seqs ? data->seq : data->owner;
	unsigned int nr = seqs ? data->nr_seqs : data->nr_owners;
	char head[96];

	sort_by = look->sort;
	qsort(row, nr, sizeof(*row), compare);
	snprintf(head, sizeof(head), "%16s %9s %6s %7s %7s %9s %16s", seqs ? "SEQUENCE" : "OWNER", "BLOCKS",
		 "%", "RUNS", "PINNED", "AGE s", seqs ? "OWNER" : "HELD");
	draw_table_head(canvas, line++, head);
	for (unsigned int i = 0; i < nr && !is_full(canvas, line, nr - i); i++, line++)
		canvas_print(canvas, line, canvas_plain,
			     "%16s %9llu %6.2f %7llu %7llu %9.3f %16s", row[i].id, (llu)row[i].blocks,
			     percent(row[i].blocks, top_number(data, "blocks")), (llu)row[i].runs,
			     (llu)row[i].pinned, row[i].age_ns / 1e9, row[i].other);
}

/* What is said of a hold goes on in the next line if there is no room for it. */
static void draw_holds(struct canvas *canvas, const struct table *holds, unsigned int line)
{
	char head[96];

	snprintf(head, sizeof(head), "%16s %9s %7s %9s %-10s %s", "OWNER", "BLOCKS", "PINNED", "AGE s",
		 "REASON", "TEXT");
	draw_table_head(canvas, line++, head);
	for (size_t i = 0; i < holds->nr_rows && !is_full(canvas, line, holds->nr_rows - i); i++) {
		struct flow flow = { canvas, line, 0, 17, canvas_plain };

		flow_add(&flow, "%16s %9llu %7llu %9.3f %-10s ", table_cell(holds, i, "owner") ?: "-",
			 (llu)table_number(holds, i, "blocks"), (llu)table_number(holds, i, "pinned"),
			 table_number(holds, i, "age_ns") / 1e9, table_cell(holds, i, "reason") ?: "-");
		flow_add(&flow, "%s", table_cell(holds, i, "text") ?: "");
		line = flow.line + 1;
	}
}

static void draw_pane(struct canvas *canvas, struct top_data *data, const struct top_look *look,
		      unsigned int line)
{
	if (line >= canvas->height)
		return;
	if (look->pane != PANE_HOLDS)
		draw_rows(canvas, data, look, line);
	else if (data->holds.nr_rows)
		draw_holds(canvas, &data->holds, line);
	else
		canvas_print(canvas, line, canvas_plain, "no holds");
}

static unsigned int pane_lines(const struct top_data *data, const struct top_look *look)
{
	size_t nr = look->pane == PANE_HOLDS ? data->holds.nr_rows :
		    look->pane == PANE_SEQUENCES ? data->nr_seqs : data->nr_owners;

	return 1 + (nr < 4 ? 4 : nr > 40 ? 40 : nr);
}

/* ---- help ---- */

static const char *const help[] = {
	"  q        end                          space, p  stop, and go on",
	"  ? h      this page, and back          r         look now",
	"  t        owners, sequences, holds     s         sort by blocks, pinned, age",
	"  o        colours by state, by owner   u         letters, not half blocks",
	"  + -      look less, more often        n         the next pool",
	"",
	"The strips are the last two minutes, now at the right: blocks in use, hits of",
	"lookups, blocks moved a second, allocations that failed a second.",
	"",
	"A cell of the map is two stretches of memory, the upper one first. It has the",
	"colour of what there is most of, darker where that is not all; a pinned or",
	"moving block is seen in any case.",
};

static void draw_help(struct canvas *canvas, const struct top_look *look)
{
	canvas_print(canvas, 0, canvas_strong, "kvmm-top: keys");
	for (unsigned int i = 0; i < sizeof(help) / sizeof(*help); i++)
		canvas_put(canvas, 2 + i, 0, canvas_plain, help[i]);
	canvas_print(canvas, 3 + sizeof(help) / sizeof(*help), canvas_plain, "sorted by %s, every %g s",
		     sort_names[look->sort], look->seconds);
}

static void draw_waiting(struct canvas *canvas, const char *why)
{
	struct flow flow = { canvas, 0, 0, 2, canvas_strong };

	flow_add(&flow, "kvmm-top: WAITING for an engine; q ends");
	flow = (struct flow){ canvas, flow.line + 2, 0, 0, canvas_plain };
	flow_words(&flow, why);
}

/* The map has what the tables leave, and a third of the rest at least; on paper no more than it needs. */
static unsigned int map_height(const struct canvas *canvas, const struct top_data *data,
			       const struct top_look *look, unsigned int line)
{
	unsigned int rest = canvas->height > line ? canvas->height - line : 0, want = pane_lines(data, look) + 1;
	unsigned int height = rest > want + rest / 3 ? rest - want : rest / 3;

	return look->batch && height > PAPER_LINES ? PAPER_LINES : height;
}

void draw_page(struct canvas *canvas, struct top_data *data, const struct top_look *look,
	       const char *engine)
{
	unsigned int line, height;

	canvas_clear(canvas);
	if (look->help) {
		draw_help(canvas, look);
		return;
	}
	if (look->waits_for && !data->stat.nr_rows) {
		draw_waiting(canvas, look->waits_for);
		return;
	}
	line = draw_title(canvas, data, look, engine);
	line = draw_blocks(canvas, data, line);
	line = draw_rates(canvas, data, line);
	line = draw_tiers(canvas, &data->tiers, line);
	line = draw_pressure(canvas, &data->pressure, line);
	line = draw_history(canvas, data, look, line);
	height = map_height(canvas, data, look, line);
	draw_map(canvas, data, look, line, height);
	line += height;
	if (height)
		line = draw_key(canvas, look, line);
	draw_pane(canvas, data, look, line);
}
