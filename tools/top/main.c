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
#define MAX_WAIT	1.0		/* until an engine is looked for again */

struct top {
	struct client_options opt;
	char pool[TOP_NAME];	/* empty: the first one */
	bool ascii;
	unsigned int width;
	struct top_look look;
	struct client client;
	char engine[sizeof(((struct client *)0)->name)];	/* that was looked at last */
	struct top_data data;
	struct canvas canvas;
};

static const char *const sorts[NR_SORTS + 1] = { "blocks", "pinned", "age" };
static const char *const panes[NR_PANES + 1] = { "owners", "sequences", "holds" };

static const struct option_row rows[] = {
	ROW_FLAG("batch", 'b', struct top, look.batch, "Plain text, page after page, rather than a screen"),
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
	"Head: blocks in all, used, cached (in use by no request), free, and away (memory given back); what "
	"those used are; runs of free blocks; a second, since the look before: allocations, frees, blocks "
	"evicted, blocks that lookups hit, allocations that failed; moves, and requests that wait. Then each "
	"tier below, and the share of time that somebody waited, where there is any.\n"
	"\n"
	"Strips: the last two minutes, now at the right; used of all blocks, hits of lookups, blocks moved and "
	"allocations failed a second, with the value of now and the largest.\n"
	"\n"
	"Map: all blocks, line by line: . free, # range, P pinned, p private, a active, c cached, m moving, "
	"- away. A cell has the colour of what there is most of in it, darker where that is not all, with 256 "
	"colours; pinned and moving blocks are seen in any case.\n"
	"\n"
	"Table of owners: OWNER, as the engine names it, 0 nobody; BLOCKS held by it, % of all; RUNS in which "
	"they lie; PINNED; AGE of the oldest in seconds; HELD: cached blocks it holds by leases. Of "
	"sequences: SEQUENCE, and its OWNER. Of holds: REASON and TEXT as given with the lease.\n"
	"\n"
	"An engine, or a pool, that is not there is waited for, on a terminal.\n"
	"\n"
	"Example:\n"
	"  kvmm-top\n"
	"  kvmm-top --pool kv --delay 0.2 --by-owner\n"
	"  kvmm-top --batch -n 3 --table sequences > log\n"
	"\n"
	"Exit code: 0 good; 1 no engine, or no such pool, at the end; 2 bad usage.";

static int fail(const char *why)
{
	return complain(EXIT_WRONG, "%s", why);
}

/* Of an engine that has been started anew, counters are not those of before. */
static int fetch(struct top *top)
{
	if (top->client.fd < 0) {
		if (client_open(&top->client, top->opt.socket))
			return -1;
		top_forget(&top->data);
	}
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
	if (client_open(&top->client, top->opt.socket))
		return fail(top->client.why);
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
	draw_page(&top->canvas, &top->data, &top->look, top->engine);
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
		top->data.history = (struct history){ 0 };
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

/* False: a signal has ended it. */
static bool look_again(struct top *top)
{
	if (!fetch(top)) {
		top->look.waits_for = NULL;
		strcpy(top->engine, top->client.name);
	} else if (client_stop && *client_stop) {
		return false;
	} else {
		top->look.waits_for = top->client.why;
	}
	return true;
}

/* An engine that is not there is waited for, and so is a pool. Looks in vain do not count. */
static int watch(struct top *top)
{
	unsigned long nr = 0;
	int ret = 0;

	while (!ret && (!top->opt.count || nr < top->opt.count)) {
		double start = now(), seconds = top->look.seconds;

		if (!look_again(top))
			break;
		nr += !top->look.waits_for;
		if (top->look.waits_for && seconds > MAX_WAIT)
			seconds = MAX_WAIT;
		ret = redraw(top);
		if (!ret)
			ret = take_keys(top, start + seconds);
	}
	return ret < 0 || top->look.waits_for ? -1 : 0;
}

/* The terminal is itself again before anything is said. */
static int show(struct top *top)
{
	int err;

	if (screen_begin())
		return fail(fetch(top) ? top->client.why : "this is no terminal; there is --batch");
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
	code = top.look.batch || top.opt.json ? batch(&top) : show(&top);
	client_close(&top.client);
	canvas_free(&top.canvas);
	top_free(&top.data);
	return code;
}
