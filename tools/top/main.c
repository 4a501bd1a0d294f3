// SPDX-License-Identifier: Apache-2.0
/* kvmm-top: the memory of a pool, live. */
#include <argp.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../client/options.h"
#include "../tool.h"
#include "draw.h"
#include "screen.h"

#define MIN_SECONDS	0.01
#define MAX_SECONDS	86400.0

struct top {
	struct client_options opt;
	char pool[TOP_NAME];	/* empty: the first one */
	bool batch;
	bool ascii;
	unsigned int width;
	struct top_look look;
	struct client client;
	struct top_data data;
	struct canvas canvas;
};

static const char *const sorts[NR_SORTS + 1] = { "blocks", "pinned", "age" };
static const char *const panes[NR_PANES + 1] = { "owners", "sequences", "holds" };

static const struct option_row rows[] = {
	ROW_FLAG("batch", 'b', struct top, batch, "Plain text, page after page, rather than a screen"),
	CLIENT_INTERVAL("1"), CLIENT_DELAY,
	CLIENT_COUNT("--batch, --json: 1, else no end"),
	ROW_SCALED("iterations", 0, NULL, struct top, opt.count, 1, 1, LONG_MAX, NULL),
	CLIENT_SOCKET, CLIENT_POOL("the first"), CLIENT_JSON,
	ROW_NUMBER("width", 'w', "N", struct top, width, 40, 500, "--batch: columns, 40 to 500 [80]"),
	ROW_FLAG("ascii", 'a', struct top, ascii, "Letters instead of half blocks"),
	ROW_FLAG("by-owner", 'o', struct top, look.by_owner,
		"The map in colours of owners, not of states"),
	ROW_WORD("sort", 's', "WHAT", struct top, look.sort, sorts, "blocks, pinned or age [blocks]"),
	ROW_WORD("table", 't', "WHAT", struct top, look.pane, panes,
		"owners, sequences or holds [owners]"),
};

static const char doc[] =
	"Show the memory of a pool as it changes: a map of all blocks, what is used, what moves, and who has "
	"most of it.\v"
	"Keys: q ends, ? lists all others.\n"
	"\n"
	"Looking takes no lock that an allocation takes. In --batch mode without a terminal the map is of "
	"letters: . free, # range, P pinned, p private, a active, c cached, m moving, - given back.\n"
	"\n"
	"Example:\n"
	"  kvmm-top\n"
	"  kvmm-top --pool kv --delay 0.2 --by-owner\n"
	"  kvmm-top --batch -n 3 --table sequences > log\n"
	"\n"
	"Exit code: 0 good; 1 no engine, or it went away, or no such pool; 2 bad usage.";

static int fail(const char *why)
{
	return complain(EXIT_WRONG, "%s", why);
}

static int fetch(struct top *top)
{
	return top_fetch(&top->data, &top->client, *top->pool ? top->pool : NULL, top->look.by_owner);
}

/* ---- page after page ---- */

static int print_page(struct top *top)
{
	if (fetch(top))
		return fail(top->client.why);
	draw_page(&top->canvas, &top->data, &top->look, top->client.name);
	canvas_write(&top->canvas, stdout);
	return finish_output(EXIT_GOOD);
}

static int print_object(struct top *top)
{
	if (top_print_json(&top->client, *top->pool ? top->pool : NULL, stdout))
		return fail(top->client.why);
	return finish_output(EXIT_GOOD);
}

static int batch(struct top *top)
{
	int (*print)(struct top *top) = top->opt.json ? print_object : print_page;
	struct timespec pause = { .tv_sec = (time_t)top->opt.interval };
	unsigned int height = 30 + TOP_ROWS / 4;
	int code;

	pause.tv_nsec = (long)(1e9 * (top->opt.interval - (double)pause.tv_sec));
	top->look.ascii = true;		/* colours are what half blocks are about */
	if (canvas_make(&top->canvas, top->width, height))
		return fail(strerror(ENOMEM));
	code = print(top);
	for (unsigned long i = 1; !code && i < top->opt.count; i++) {
		nanosleep(&pause, NULL);
		if (!top->opt.json)
			putchar('\n');
		code = print(top);
	}
	return code;
}

/* ---- a screen ---- */

static int redraw(struct top *top)
{
	if (screen_fit(&top->canvas)) {
		snprintf(top->client.why, sizeof(top->client.why), "%s", strerror(ENOMEM));
		return -1;
	}
	top->look.ascii = top->ascii || !screen_has_blocks();
	draw_page(&top->canvas, &top->data, &top->look, top->client.name);
	screen_show(&top->canvas);
	return 0;
}

static double clamp(double seconds)
{
	return seconds < MIN_SECONDS ? MIN_SECONDS : seconds > MAX_SECONDS ? MAX_SECONDS : seconds;
}

/* What a key changes; true: look again at once. */
static bool take_key(struct top *top, int key)
{
	struct top_look *look = &top->look;

	switch (key) {
	case '?': case 'h':
		look->help = !look->help;
		return false;
	case SCREEN_ESCAPE:
		look->help = false;
		return false;
	case ' ': case 'p':
		look->paused = !look->paused;
		return !look->paused;
	case 't':
		look->pane = (look->pane + 1) % NR_PANES;
		return false;
	case 's':
		look->sort = (look->sort + 1) % NR_SORTS;
		return false;
	case 'u':
		top->ascii = !top->ascii;
		return false;
	case '+':
		look->seconds = clamp(look->seconds * 2);
		return false;
	case '-':
		look->seconds = clamp(look->seconds / 2);
		return false;
	case 'o':
		look->by_owner = !look->by_owner;
		return true;
	case 'n':
		top_next_pool(&top->data, &top->client, top->pool);
		top_forget(&top->data);
		top->data.is_named = false;
		return true;
	default:
		return key == 'r';
	}
}

static double now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Keys until it is time to look again: 0, or 1 it is to end, or -1. */
static int take_keys(struct top *top, double until)
{
	bool again = false;

	while (!again) {
		double left = until - now();
		int key = screen_key(top->look.paused ? 1000 : left > 0 ? (int)ceil(left * 1000) : 0);

		if (key == 'q' || key == SCREEN_ENDED)
			return 1;
		if (key != SCREEN_NOTHING)
			again = take_key(top, key);
		else if (!top->look.paused && now() >= until)
			return 0;
		if (redraw(top))
			return -1;
	}
	return 0;
}

static int watch(struct top *top)
{
	int ret = 0;

	for (unsigned long i = 0; !ret && (!top->opt.count || i < top->opt.count); i++) {
		double start = now();

		if (fetch(top))
			return -1;
		ret = redraw(top);
		if (!ret)
			ret = take_keys(top, start + top->look.seconds);
	}
	return ret < 0 ? -1 : 0;
}

/* The terminal is itself again before anything is said. */
static int show(struct top *top)
{
	int err;

	if (fetch(top))
		return fail(top->client.why);
	if (screen_begin())
		return fail("this is no terminal; there is --batch");
	err = watch(top);
	screen_end();
	return err ? fail(top->client.why) : EXIT_GOOD;
}

int main(int argc, char **argv)
{
	static const struct usage usage = { OPTION_ROWS(rows), NULL, doc, NULL, NULL, false };
	static struct top top = { .width = 80, .opt = { .interval = 1 }, .client = { .fd = -1 } };
	int code;

	setlocale(LC_CTYPE, "");
	read_options(&usage, argc, argv, &top);
	top.look.seconds = top.opt.interval;
	top.data.is_named = top.opt.pool;
	if (top.opt.pool)
		strcpy(top.pool, top.opt.pool);
	if (client_open(&top.client, top.opt.socket))
		return fail(top.client.why);
	code = top.batch || top.opt.json ? batch(&top) : show(&top);
	client_close(&top.client);
	canvas_free(&top.canvas);
	top_free(&top.data);
	return code;
}
