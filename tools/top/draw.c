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

/* Of a counter, a second. */
static double rate(const struct top_data *data, const char *column)
{
	uint64_t ns = data->now_ns - data->before_ns, now = top_number(data, column);
	uint64_t before = table_number(&data->before, 0, column);

	return data->before_ns && ns && now >= before ? 1e9 * (now - before) / ns : 0;
}

typedef unsigned long long llu;

/* A number of the pool, for a line. */
static llu at(const struct top_data *data, const char *column)
{
	return top_number(data, column);
}

static void draw_blocks(struct canvas *canvas, const struct top_data *data)
{
	llu blocks = at(data, "blocks"), free = at(data, "free"), cached = at(data, "inactive");
	llu away = at(data, "away"), idle = free + cached + away, used = blocks > idle ? blocks - idle : 0;
	llu bytes = at(data, "block_bytes"), runs = at(data, "runs"), reserved = at(data, "reserved_blocks");
	char size[16], all[16], kept[64] = "";

	canvas_print(canvas, 1, canvas_plain,
		     "Blocks  %8llu total %8llu used %8llu cached %8llu free %6llu away, %s each, %s in all",
		     blocks, used, cached, free, away, bytes_text(bytes, size),
		     bytes_text(bytes * blocks, all));
	canvas_print(canvas, 2, canvas_plain,
		     "Used    %7.1f%%  ranges %llu (%llu blocks)  private %llu  staged %llu  active %llu",
		     percent(used, blocks), at(data, "ranges"), at(data, "ranges_blocks"),
		     at(data, "private"), at(data, "staged"), at(data, "active"));
	if (reserved)
		snprintf(kept, sizeof(kept), "; %llu kept behind ranges that grow", reserved);
	canvas_print(canvas, 3, canvas_plain, "Free    %7.1f%%  in %llu run%s, the longest %llu%s",
		     percent(free, blocks), runs, runs == 1 ? "" : "s", at(data, "largest"), kept);
}

static void draw_rates(struct canvas *canvas, const struct top_data *data)
{
	double hits = rate(data, "hit_blocks"), all = hits + rate(data, "miss_blocks");

	canvas_print(canvas, 4, canvas_plain,
		     "Per s   %8.0f allocs %8.0f frees %6.0f evicted %4.0f failed, hits %.1f%%",
		     rate(data, "allocs"), rate(data, "frees"), rate(data, "evictions"),
		     rate(data, "fail_nospc"), all > 0 ? 100 * hits / all : 0);
	canvas_print(canvas, 5, canvas_plain,
		     "Moves   %8.0f blocks/s in %.0f runs/s; %llu being copied, %llu in limbo; %llu waiting",
		     rate(data, "moved_blocks"), rate(data, "moves"), at(data, "copying_blocks"),
		     at(data, "limbo_blocks"), at(data, "waiting"));
}

static unsigned int draw_head(struct canvas *canvas, const struct top_data *data,
			      const struct top_look *look, const char *engine)
{
	char closed[TOP_NAME + 32] = "";

	if (data->nr_closed)
		snprintf(closed, sizeof(closed), " (%u closed: %s)", data->nr_closed, data->closed);
	canvas_print(canvas, 0, canvas_strong, "kvmm-top - %s: %s, one of %u pools%s; every %g s%s",
		     engine, data->pool, data->nr_pools, closed, look->seconds,
		     look->paused ? "  PAUSED" : "");
	draw_blocks(canvas, data);
	draw_rates(canvas, data);
	return 6;
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

/* Owners have one of six colours; what is nobody's has that of its class. */
static uint8_t colour_of(const struct stretch *stretch, bool by_owner)
{
	enum top_class cls = class_of(stretch);

	if (by_owner && stretch->owner && cls != TOP_FREE && cls != TOP_AWAY)
		return 1 + stretch->owner * 0x9e3779b97f4a7c15ull / (UINT64_MAX / 6 + 1);
	return classes[cls].colour;
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

static void draw_key(struct canvas *canvas, const struct top_look *look, unsigned int line)
{
	unsigned int column = 0;

	if (look->by_owner) {
		canvas_print(canvas, line, canvas_plain, "a colour an owner; nobody's: as by state (o)");
		return;
	}
	for (unsigned int i = 0; i < TOP_NR_CLASSES; i++) {
		struct style style = { classes[i].colour, true, false };
		char letter[2] = { classes[i].letter, '\0' };

		if (i == TOP_FREE)
			style.fg = COLOUR_PLAIN;
		column = canvas_put(canvas, line, column, style, look->ascii ? letter : i ? "##" : "..");
		column = canvas_put(canvas, line, column + 1, canvas_plain, classes[i].name) + 2;
	}
}

/* ---- tables ---- */

/* A text of several lines, at most @max of them: how many. */
static unsigned int draw_text(struct canvas *canvas, unsigned int line, unsigned int max,
			      const char *name, const char *text)
{
	unsigned int nr = 0;

	if (!text || max < 3)
		return 0;
	canvas_print(canvas, line, canvas_strong, "%s", name);
	for (; text && *text && nr + 1 < max; nr++) {
		canvas_put(canvas, line + 1 + nr, 2, canvas_plain, text);
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return nr + 1;
}

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

static void draw_rows(struct canvas *canvas, struct top_data *data, const struct top_look *look,
		      unsigned int line)
{
	bool seqs = look->pane == PANE_SEQUENCES;
	struct top_row *row = seqs ? data->seq : data->owner;
	unsigned int nr = seqs ? data->nr_seqs : data->nr_owners, end;

	sort_by = look->sort;
	qsort(row, nr, sizeof(*row), compare);
	end = canvas_print(canvas, line, canvas_inverse, "%16s %9s %6s %7s %7s %9s %16s",
			   seqs ? "SEQUENCE" : "OWNER", "BLOCKS", "%", "RUNS", "PINNED", "AGE s",
			   seqs ? "OWNER" : "HELD");
	for (; end < canvas->width; end++)
		canvas_put(canvas, line, end, canvas_inverse, " ");
	for (unsigned int i = 0; i < nr && line + 1 + i < canvas->height; i++)
		canvas_print(canvas, line + 1 + i, canvas_plain,
			     "%16s %9llu %6.2f %7llu %7llu %9.3f %16s", row[i].id, (llu)row[i].blocks,
			     percent(row[i].blocks, top_number(data, "blocks")), (llu)row[i].runs,
			     (llu)row[i].pinned, row[i].age_ns / 1e9, row[i].other);
}

static void draw_pane(struct canvas *canvas, struct top_data *data, const struct top_look *look,
		      unsigned int line)
{
	if (line >= canvas->height)
		return;
	if (look->pane != PANE_HOLDS)
		draw_rows(canvas, data, look, line);
	else if (!draw_text(canvas, line, canvas->height - line, "Holds", data->holds))
		canvas_print(canvas, line, canvas_plain, "no holds");
}

/* ---- help ---- */

static const char *const help[] = {
	"  q        end                          space, p  stop, and go on",
	"  ? h      this page, and back          r         look now",
	"  t        owners, sequences, holds     s         sort by blocks, pinned, age",
	"  o        colours by state, by owner   u         letters instead of half blocks",
	"  + -      look less, more often        n         the next pool",
	"",
	"A cell of the map is two stretches of memory, the upper one first. It has the colour of what",
	"there is most of; a pinned or moving block is seen in any case.",
};

static void draw_help(struct canvas *canvas, const struct top_look *look)
{
	canvas_print(canvas, 0, canvas_strong, "kvmm-top: keys");
	for (unsigned int i = 0; i < sizeof(help) / sizeof(*help); i++)
		canvas_put(canvas, 2 + i, 0, canvas_plain, help[i]);
	canvas_print(canvas, 3 + sizeof(help) / sizeof(*help), canvas_plain, "sorted by %s, every %g s",
	      sort_names[look->sort], look->seconds);
}

void draw_page(struct canvas *canvas, struct top_data *data, const struct top_look *look,
	       const char *engine)
{
	unsigned int line, height, rest;

	canvas_clear(canvas);
	if (look->help) {
		draw_help(canvas, look);
		return;
	}
	line = draw_head(canvas, data, look, engine) + 1;
	rest = canvas->height > line ? canvas->height - line : 0;
	height = rest / 3 < 12 ? rest / 3 : 12;
	draw_map(canvas, data, look, line, height);
	line += height;
	if (height)
		draw_key(canvas, look, line++);
	line++;
	rest = canvas->height > line ? canvas->height - line : 0;
	line += draw_text(canvas, line, rest / 4, "Tiers", data->tiers);
	line += draw_text(canvas, line, rest / 4, "Pressure", data->pressure);
	line += data->tiers || data->pressure;
	draw_pane(canvas, data, look, line);
}
