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

#define MOST_BOXES	500u	/* what dot draws while one waits */

struct view {
	struct client_options opt;
	const char *what;
	const char *from;
	const char *out;
	bool all;
	uint32_t max_boxes;
};

static const struct option_row rows[] = {
	ROW_TEXT("from", 'f', "FILE", struct view, from,
		"A snapshot that was written before, - is standard input"),
	ROW_TEXT("output", 'o', "FILE", struct view, out, "Write to FILE rather than standard output"),
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_JSON,
	ROW_FLAG("all", 'a', struct view, all, "graphviz: a box for each block, not for each stretch"),
	ROW_NUMBER("boxes", 'b', "N", struct view, max_boxes, 1, UINT32_MAX,
		"graphviz: at most so many, those that most names hang on [500]"),
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

static void refuse(struct argp_state *state, void *base, const char *arg)
{
	bad_option(state, "unexpected argument '%s'; a snapshot is read by --from FILE", arg);
}

static void check(struct argp_state *state, void *base)
{
	const struct view *view = base;

	if (view->from && (view->opt.socket || view->opt.pool))
		bad_option(state, "--from is a file, --socket and --pool are an engine");
	if (view->opt.json && strcmp(view->what, "show"))
		bad_option(state, "--json is for show; %s has a format of its own", view->what);
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
	static const struct usage usage = {
		OPTION_ROWS(rows), NULL, view_doc, refuse, check, false,
	};
	struct view view = { .what = argv[0], .max_boxes = MOST_BOXES };
	struct snap snap = { 0 };
	char name[32];
	int code;

	snprintf(name, sizeof(name), "kvmm-dump %s", argv[0]);
	argv[0] = name;
	view.what = name + strlen("kvmm-dump ");
	read_options(&usage, argc, argv, &view);
	code = get(&view, &snap);
	if (code == EXIT_GOOD)
		code = write_out(&view, &snap);
	snap_free(&snap);
	return code;
}
