// SPDX-License-Identifier: Apache-2.0
/* kvmm-dump snapshot, show, pickle, graphviz: a snapshot, from an engine or a file, in another form. */
#define _GNU_SOURCE	/* program_invocation_short_name */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "../client/options.h"
#include "../tool.h"
#include "dump.h"
#include "fetch.h"
#include "view.h"

enum { KEY_FROM = 'f', KEY_OUT = 'o', KEY_ALL = 'a', KEY_BOXES = 'b' };

#define MOST_BOXES	500u	/* what dot draws while one waits */

struct view {
	const char *what;
	const char *from;
	const char *out;
	struct client_options opt;
	bool all;
	uint32_t max_boxes;
};

static const struct argp_option view_options[] = {
	{ "from", KEY_FROM, "FILE", 0, "A snapshot that was written before, - is standard input", 0 },
	{ "output", KEY_OUT, "FILE", 0, "Write to FILE rather than standard output", 0 },
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_JSON,
	{ "all", KEY_ALL, NULL, 0, "graphviz: a box for each block, not for each stretch", 0 },
	{ "boxes", KEY_BOXES, "N", 0, "graphviz: at most so many, those that most names hang on [500]", 0 },
	{ 0 },
};

static const char view_doc[] =
	"The memory of a pool, block by block: as text (snapshot), in a page (show), for PyTorch's "
	"memory_viz (pickle), or the graph of its prefixes (graphviz).\v"
	"A snapshot is asked for in portions while the engine goes on: each block is told once, as it was "
	"at some moment. Nothing in the engine waits for it. Documentation/tools.rst has the format.\n"
	"\n"
	"Example:\n"
	"  kvmm-dump snapshot -o now.snap\n"
	"  kvmm-dump show --from now.snap\n"
	"  kvmm-dump pickle --from now.snap -o now.pickle    # to https://pytorch.org/memory_viz\n"
	"  kvmm-dump graphviz --pool kv | dot -Tsvg -o prefixes.svg\n"
	"\n"
	"Exit code: 0 good; 1 no engine, no such pool, a file cannot be read or written or is no snapshot; "
	"2 bad usage.";

static error_t parse_view(int key, char *arg, struct argp_state *state)
{
	struct view *view = state->input;

	switch (key) {
	case KEY_FROM:
		view->from = arg;
		return 0;
	case KEY_OUT:
		view->out = arg;
		return 0;
	case KEY_ALL:
		view->all = true;
		return 0;
	case KEY_BOXES:
		view->max_boxes = option_number(state, "boxes", arg, 1, UINT32_MAX);
		return 0;
	case ARGP_KEY_ARG:
		bad_option(state, "unexpected argument '%s'; a snapshot is read by --from FILE", arg);
		return 0;
	case ARGP_KEY_END:
		if (view->from && (view->opt.socket || view->opt.pool))
			bad_option(state, "--from is a file, --socket and --pool are an engine");
		if (view->opt.json && strcmp(view->what, "show"))
			bad_option(state, "--json is for show; %s has a format of its own", view->what);
		return 0;
	default:
		return client_option(&view->opt, key, arg, state);
	}
}

static int fail(const char *what, const char *why)
{
	return complain(EXIT_WRONG, "%s: %s", what, why);
}

/* Why not has been said. */
static int get(const struct view *view, struct snap *snap)
{
	struct client client;
	int err;

	if (view->from)
		return snap_read(snap, view->from) ? fail(view->from, snap->why) : EXIT_GOOD;
	if (client_open(&client, view->opt.socket))
		return client_wrong(&client);
	err = snap_fetch(snap, &client, view->opt.pool);
	client_close(&client);
	if (!err && snap->is_closed)
		fprintf(stderr, "%s: the pool '%s' contradicts itself and is closed; this is how it was found\n",
			program_invocation_short_name, snap->pool);
	return err ? complain(EXIT_WRONG, "%s", snap->why) : EXIT_GOOD;
}

static int put(const struct view *view, const struct snap *snap, FILE *out)
{
	if (!strcmp(view->what, "pickle"))
		return snap_pickle(snap, out);
	if (!strcmp(view->what, "graphviz"))
		return snap_graphviz(snap, view->all, view->max_boxes, out);
	if (!strcmp(view->what, "show"))
		snap_summary(snap, view->opt.json, out);
	else
		snap_write(snap, out);
	return 0;
}

static int write_out(const struct view *view, const struct snap *snap)
{
	FILE *out = view->out ? fopen(view->out, "w") : stdout;
	int err, bad;

	if (!out)
		return fail(view->out, strerror(errno));
	err = put(view, snap, out);
	bad = ferror(out);
	bad |= out == stdout ? fflush(out) : fclose(out);
	if (bad)
		return fail(view->out ? view->out : "standard output", strerror(errno));
	return err ? fail("standard output", strerror(ENOMEM)) : EXIT_GOOD;
}

bool is_view(const char *word)
{
	return !strcmp(word, "snapshot") || !strcmp(word, "show") || !strcmp(word, "pickle") ||
	       !strcmp(word, "graphviz");
}

int dump_view(int argc, char **argv)
{
	static const struct argp argp = { view_options, parse_view, NULL, view_doc, NULL, NULL, NULL };
	struct view view = { .what = argv[0], .max_boxes = MOST_BOXES };
	struct snap snap = { 0 };
	char name[32];
	int code;

	snprintf(name, sizeof(name), "kvmm-dump %s", argv[0]);
	argv[0] = name;
	view.what = name + strlen("kvmm-dump ");
	read_options(&argp, argc, argv, 0, &view);
	code = get(&view, &snap);
	if (code == EXIT_GOOD)
		code = write_out(&view, &snap);
	snap_free(&snap);
	return code;
}
