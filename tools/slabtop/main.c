// SPDX-License-Identifier: Apache-2.0
/* kvmm-slabtop: slab caches of an engine, as slabtop shows those of Linux. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "../client/options.h"
#include "../tool.h"
#include "../top/screen.h"

#define MAX_CACHES	1024u
#define ONCE_WIDTH	100u

/* What can be sorted by; the same letters as slabtop's where it has them. */
static const struct {
	char key;
	const char *column;
	const char *what;
} sorts[] = {
	{ 'o', "objects", "objects that live" }, { 'c', "held_bytes", "size of the cache" },
	{ 'l', "slabs", "slabs" },		 { 's', "object_bytes", "size of an object" },
	{ 'n', "name", "name" },		 { 'w', "waste_pm", "waste" },
	{ 'u', "use", "use" },			 { 'p', "blocks_per_slab", "blocks of a slab" },
	{ 'v', "slots", "objects there is room for" },
};

#define NR_SORTS	(sizeof(sorts) / sizeof(*sorts))

struct slabtop {
	struct client_options opt;
	bool once;
	unsigned int sort;		/* of sorts[] */
	bool help;
	struct client client;
	struct table table;
	unsigned int order[MAX_CACHES];
	unsigned int nr;
	struct canvas canvas;
};

/* NR_SORTS: none. */
static unsigned int sort_of(int key)
{
	unsigned int i = 0;

	while (i < NR_SORTS && sorts[i].key != key)
		i++;
	return i;
}

static void take_sort(struct argp_state *state, void *base, const char *arg)
{
	struct slabtop *top = base;

	top->sort = arg[0] && !arg[1] ? sort_of(arg[0]) : NR_SORTS;
	if (top->sort == NR_SORTS)
		bad_option(state, "--sort: nothing is sorted by '%s'", arg);
}

static const struct option_row rows[] = {
	ROW_FLAG("once", 'o', struct slabtop, once, "Print the table once, and end"),
	CLIENT_INTERVAL("3"), CLIENT_DELAY,
	ROW_TAKE("sort", 's', "KEY", take_sort, "By o, c, l, s, n, w, u, p or v, as the keys do [o]"),
	CLIENT_SOCKET, CLIENT_JSON,
};

static const char doc[] =
	"Show the slab caches of an engine: objects, slabs, and what is wasted.\v"
	"Keys: q ends, ? lists the others; o c l s n w u p v sort by objects, cache size, slabs, object size, "
	"name, waste, use, blocks of a slab, slots.\n"
	"\n"
	"Columns: OBJS that there is room for; ACTIVE, those that live; USE, the latter of the former; OBJ SIZE; "
	"SLABS; OBJ/SLAB, objects of a slab; BLOCKS of the pool in a slab; CACHE SIZE, memory held; WASTE, what "
	"of it is no living object; NAME.\n"
	"\n"
	"Example:\n"
	"  kvmm-slabtop\n"
	"  kvmm-slabtop --once --sort w\n"
	"  kvmm-slabtop --json | jq '.[] | select(.waste_pm > 100) | .name'\n"
	"\n"
	"Exit code: 0 good; 1 no engine, or it went away; 2 bad usage.";

static int fail(const char *why)
{
	return complain(EXIT_WRONG, "%s", why);
}

/* ---- caches ---- */

static uint64_t number(const struct slabtop *top, unsigned int row, const char *column)
{
	return table_number(&top->table, row, column);
}

static uint64_t use_of(const struct slabtop *top, unsigned int row)
{
	uint64_t slots = number(top, row, "slots");

	return slots ? 1000 * number(top, row, "objects") / slots : 1000;
}

static const char *name_of(const struct slabtop *top, unsigned int row)
{
	const char *name = table_cell(&top->table, row, "name");

	return name ? name : "?";
}

static const struct slabtop *sorted;

static int compare(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;
	const char *column = sorts[sorted->sort].column;
	uint64_t p, q;

	if (strcmp(column, "name")) {
		bool use = !strcmp(column, "use");

		p = use ? use_of(sorted, x) : number(sorted, x, column);
		q = use ? use_of(sorted, y) : number(sorted, y, column);
		if (p != q)
			return p > q ? -1 : 1;
	}
	return strcmp(name_of(sorted, x), name_of(sorted, y));
}

static void sort(struct slabtop *top)
{
	sorted = top;
	qsort(top->order, top->nr, sizeof(*top->order), compare);
}

/* 0, or -1 and ->client.why. */
static int fetch(struct slabtop *top)
{
	table_free(&top->table);
	if (client_table(&top->client, &top->table, "slabs"))
		return -1;
	top->nr = top->table.nr_rows < MAX_CACHES ? top->table.nr_rows : MAX_CACHES;
	for (unsigned int i = 0; i < top->nr; i++)
		top->order[i] = i;
	return 0;
}

/* ---- the page ---- */

static uint64_t sum(const struct slabtop *top, const char *column)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < top->nr; i++)
		sum += number(top, i, column);
	return sum;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

static void draw_head(struct slabtop *top)
{
	typedef unsigned long long llu;
	uint64_t objects = sum(top, "objects"), slots = sum(top, "slots"), slabs = sum(top, "slabs");
	uint64_t held = sum(top, "held_bytes"), live = sum(top, "live_bytes");

	canvas_print(&top->canvas, 0, canvas_plain, " Active / Total Objects (%% used)    : %llu / %llu (%.1f%%)",
		     (llu)objects, (llu)slots, percent(objects, slots));
	canvas_print(&top->canvas, 1, canvas_plain, " Active / Total Slabs (%% used)      : %llu / %llu (%.1f%%)",
		     (llu)(slabs - sum(top, "empty")), (llu)slabs,
		     percent(slabs - sum(top, "empty"), slabs));
	canvas_print(&top->canvas, 2, canvas_plain, " Caches                             : %u", top->nr);
	canvas_print(&top->canvas, 3, canvas_plain,
		     " Active / Total Size (%% used)       : %.2fK / %.2fK (%.1f%%)", live / 1024.0,
		     held / 1024.0, percent(live, held));
}

static void draw_row(struct slabtop *top, unsigned int line, unsigned int row)
{
	typedef unsigned long long llu;

	canvas_print(&top->canvas, line, canvas_plain,
		     "%8llu %8llu %4llu%% %9.2fK %7llu %8llu %7llu %9.0fK %5.1f%% %s",
		     (llu)number(top, row, "slots"), (llu)number(top, row, "objects"),
		     (llu)use_of(top, row) / 10, number(top, row, "object_bytes") / 1024.0,
		     (llu)number(top, row, "slabs"), (llu)number(top, row, "objects_per_slab"),
		     (llu)number(top, row, "blocks_per_slab"), number(top, row, "held_bytes") / 1024.0,
		     number(top, row, "waste_pm") / 10.0, name_of(top, row));
}

static void draw_help(struct slabtop *top)
{
	canvas_print(&top->canvas, 0, canvas_strong, "kvmm-slabtop: keys");
	canvas_print(&top->canvas, 2, canvas_plain, "  q  end      ? h  this page, and back      r  look now");
	for (unsigned int i = 0; i < NR_SORTS; i++)
		canvas_print(&top->canvas, 3 + i, canvas_plain, "  %c  sort by %s", sorts[i].key,
			     sorts[i].what);
}

static void draw(struct slabtop *top)
{
	unsigned int end;

	canvas_clear(&top->canvas);
	if (top->help) {
		draw_help(top);
		return;
	}
	sort(top);
	draw_head(top);
	end = canvas_print(&top->canvas, 5, canvas_inverse, "%8s %8s %5s %10s %7s %8s %7s %10s %6s %s",
			   "OBJS", "ACTIVE", "USE", "OBJ SIZE", "SLABS", "OBJ/SLAB", "BLOCKS", "CACHE SIZE",
			   "WASTE", "NAME");
	for (; end < top->canvas.width; end++)
		canvas_put(&top->canvas, 5, end, canvas_inverse, " ");
	for (unsigned int i = 0; i < top->nr; i++)
		draw_row(top, 6 + i, top->order[i]);
}

/* ---- once ---- */

static int once(struct slabtop *top)
{
	if (fetch(top))
		return fail(top->client.why);
	if (top->opt.json) {
		table_print_json(&top->table, stdout);
		return finish_output(EXIT_GOOD);
	}
	if (canvas_make(&top->canvas, ONCE_WIDTH, 6 + top->nr))
		return fail(strerror(ENOMEM));
	draw(top);
	canvas_write(&top->canvas, stdout);
	return finish_output(EXIT_GOOD);
}

/* ---- a screen ---- */

static int redraw(struct slabtop *top)
{
	if (screen_fit(&top->canvas)) {
		snprintf(top->client.why, sizeof(top->client.why), "%s", strerror(ENOMEM));
		return -1;
	}
	draw(top);
	screen_show(&top->canvas);
	return 0;
}

/* 1: end. */
static int take_key(struct slabtop *top, int key)
{
	unsigned int sort = key > 0 ? sort_of(key) : NR_SORTS;

	if (key == 'q' || key == SCREEN_ENDED)
		return 1;
	if (key == '?' || key == 'h' || (key == SCREEN_ESCAPE && top->help))
		top->help = !top->help;
	else if (sort < NR_SORTS)
		top->sort = sort;
	return 0;
}

static int watch(struct slabtop *top)
{
	int ret = 0;

	while (!ret) {
		int key;

		ret = redraw(top);
		if (ret)
			break;
		key = screen_key((int)(top->opt.interval * 1000));
		ret = take_key(top, key);
		if (!ret && (key == SCREEN_NOTHING || key == 'r'))
			ret = fetch(top);
	}
	return ret < 0 ? -1 : 0;
}

static int show(struct slabtop *top)
{
	int err;

	if (fetch(top))
		return fail(top->client.why);
	if (screen_begin())
		return fail("this is no terminal; there is --once");
	err = watch(top);
	screen_end();
	return err ? fail(top->client.why) : EXIT_GOOD;
}

int main(int argc, char **argv)
{
	static const struct usage usage = { OPTION_ROWS(rows), NULL, doc, NULL, NULL, false };
	static struct slabtop top = { .opt.interval = 3, .client = { .fd = -1 } };
	int code;

	setlocale(LC_CTYPE, "");
	read_options(&usage, argc, argv, &top);
	if (client_open(&top.client, top.opt.socket))
		return fail(top.client.why);
	code = top.once || top.opt.json ? once(&top) : show(&top);
	client_close(&top.client);
	canvas_free(&top.canvas);
	table_free(&top.table);
	return code;
}
