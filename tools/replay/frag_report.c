// SPDX-License-Identifier: Apache-2.0
/* Output of mode frag. */
#include <stdlib.h>
#include <string.h>

#include "frag.h"
#include "readers.h"

const char *const compact_modes[] = { "off", "slide", "direct", "background", "beside", "between",
				      NULL };

static void paint(const struct frag *frag, struct recorder *rec)
{
	recorder_clear(rec);
	for (u32 i = 0; i < frag->nr_running; i++) {
		u32 q = frag->running[i];
		const struct live *live = frag->live[q];
		struct cell cell = { q, frag_is_pinned(frag, q) ? CELL_PINNED : CELL_ACTIVE };

		for (u32 e = 0; e < live->nr_ext; e++)
			recorder_paint(rec, live->ext[e].start, live->ext[e].nr, cell);
	}
}

void frag_record(struct frag *frag)
{
	struct record *record = frag->run->record;
	struct kvmm_zone_stat stat;

	if (!record_due(record, frag->now, frag->head))
		return;
	stat = frag_zone_stat(frag);
	paint(frag, &record->rec);
	record_add(record, frag->now, frag->head, &(struct sample){
		.held		= stat.nr_blocks - stat.nr_free,
		.largest	= stat.largest,
		.free_runs	= stat.nr_runs,
		.running	= frag->nr_running,
		.requests	= frag->count.admitted,
		.runs		= frag->count.runs,
		.fails		= frag->count.fail_frag,
		.moved		= frag->count.moved_blocks,
	});
}

static void describe_curve(const struct frag *frag)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	for (u32 i = 0; i < frag->nr_curve; i++) {
		const struct curve_row *row = &frag->curve[i];

		fprintf(out, "%s[%u, %llu, %u, %u, %u, %u, %u]", i ? ", " : "[", row->admitted,
			(unsigned long long)row->now, row->held, row->asked, row->free,
			row->largest, row->nr_holes);
	}
	fputs(frag->nr_curve ? "]" : "[]", out);
	fclose(out);
	if (text)
		results_raw(frag->run->results, "curve", text);
	free(text);
}

static void describe_setup(const struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	struct results *results = frag->run->results;

	results_str(results, "trace", frag->run->trace->name);
	results_str(results, "kind", "frag");
	results_str(results, "alloc", opt->alloc);
	results_num(results, "size", opt->nr_blocks);
	results_num(results, "bs", opt->block_tokens);
	results_str(results, "arrivals", opt->by_time ? "ts" : "sat");
	results_num(results, "mark", opt->mark);
	results_num(results, "max_runs", opt->max_runs);
	results_num(results, "pinned", opt->pinned);
	results_bool(results, "compact", opt->compact != COMPACT_OFF);
	results_str(results, "compactor", compact_modes[opt->compact]);
	results_num(results, "requests", frag->run->trace->nr);
}

static void describe_window(const struct frag *frag)
{
	const struct frag_window *window = &frag->window;
	struct results *results = frag->run->results;
	u128 whole = (u128)frag->run->opt->nr_blocks * window->us;

	results_num(results, "window_us", window->us);
	results_num(results, "win_held", window->held);
	results_num(results, "win_asked", window->asked);
	results_num(results, "win_tokens", window->tokens);
	results_num(results, "win_ext_ppm", window->ext_ppm);
	results_num(results, "occupancy_ppm", whole ? window->held * 1000000 / whole : 0);
	results_num(results, "asked_occupancy_ppm", whole ? window->asked * 1000000 / whole : 0);
}

static void describe_counts(const struct frag *frag)
{
	const struct frag_count *count = &frag->count;
	struct results *results = frag->run->results;
	const struct {
		const char *key;
		u128 value;
	} fields[] = {
		{ "admitted", count->admitted },
		{ "rejected", count->rejected },
		{ "makespan_us", frag->now },
		{ "wait_us", count->wait_us },
		{ "first_tries", count->first_tries },
		{ "retries", count->retries },
		{ "fail_frag", count->fail_frag },
		{ "fail_capacity", count->fail_capacity },
		{ "fail_but_extent", count->fail_but_extent },
		{ "fail_compacted", count->fail_compacted },
		{ "slide_blocks", count->slide_blocks },
		{ "bound_blocks", count->bound_blocks },
		{ "compactions", count->compactions },
		{ "moved_blocks", count->moved_blocks },
		{ "ext_ppm", count->ext_ppm },
		{ "unusable_ppm", count->unusable_ppm },
		{ "asked_blocks", count->asked_blocks },
		{ "held_blocks", count->held_blocks },
		{ "runs", count->runs },
		{ "checked_blocks", frag->pattern.nr_checked },
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		results_num(results, fields[i].key, fields[i].value);
}

static void say_setup(const struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	struct results *results = frag->run->results;
	char a[32];

	results_say(results, "trace", "%s, %s requests, %s", frag->run->trace->name,
		    format_grouped(frag->run->trace->nr, a),
		    opt->by_time ? "arriving as recorded" : "all waiting from the start");
	results_say(results, "pool", "%s blocks of %u tokens, allocator %s, mark %u %%",
		    format_grouped(opt->nr_blocks, a), opt->block_tokens, opt->alloc, opt->mark);
	results_say(results, "placement", "at most %u run%s a request, compaction %s",
		    opt->max_runs, opt->max_runs > 1 ? "s" : "", compact_modes[opt->compact]);
	if (opt->pinned)
		results_say(results, "pinned", "%u %% of the requests", opt->pinned);
}

static void say_use(const struct frag *frag)
{
	const struct frag_window *window = &frag->window;
	const struct frag_count *count = &frag->count;
	struct results *results = frag->run->results;
	u128 whole = (u128)frag->run->opt->nr_blocks * window->us;

	results_say(results, "occupancy", "%.2f %% held, %.2f %% asked for (middle 80 %%)",
		    100 * share(window->held, whole), 100 * share(window->asked, whole));
	results_say(results, "runs", "%.2f a request in the mean",
		    share(count->runs, count->admitted));
	results_say(results, "all done after", "%.1f s", (double)frag->now / 1e6);
	results_say(results, "unusable", "%.2f %% of the free blocks, when a request came first",
		    share(count->unusable_ppm, count->first_tries) / 1e4);
}

static void say_failures(const struct frag *frag)
{
	const struct frag_count *count = &frag->count;
	struct results *results = frag->run->results;
	char a[32], b[32];

	results_say(results, "found no room", "%s of %s requests though enough was free",
		    format_grouped(count->fail_frag, a), format_grouped(count->first_tries, b));
	if (count->fail_capacity)
		results_say(results, "too few free", "%s requests, for the rounding",
			    format_grouped(count->fail_capacity, a));
	if (frag->run->opt->compact != COMPACT_OFF)
		results_say(results, "moved", "%s blocks in %s compactions, %.3f a block allocated",
			    format_grouped(count->moved_blocks, a),
			    format_grouped(count->compactions, b),
			    share(count->moved_blocks, count->asked_blocks));
	if (count->fail_compacted)
		results_say(results, "not helped", "%s times by compaction",
			    format_grouped(count->fail_compacted, a));
	if (count->rejected)
		results_say(results, "rejected", "%s requests larger than the mark",
			    format_grouped(count->rejected, a));
	if (frag->run->opt->verify)
		results_say(results, "verified", "%s blocks read back, all as written",
			    format_grouped(frag->pattern.nr_checked, a));
}

/* The memory at each tenth of the run: from ' ' all free to '@' all held, 'P' pinned. */
static void say_memory(const struct frag *frag)
{
	char a[32];

	for (u32 i = 0; i < frag->nr_curve; i++)
		results_say(frag->run->results, i ? "" : "memory", "|%s| after %s",
			    frag->curve[i].map, format_grouped(frag->curve[i].admitted, a));
}

static void tile(const struct frag *frag)
{
	const struct frag_count *count = &frag->count;
	struct results *results = frag->run->results;
	u128 whole = (u128)frag->run->opt->nr_blocks * frag->window.us;

	results_tile(results, "of the pool held", "%.2f %%",
		     100 * share(frag->window.held, whole));
	results_tile(results, "found no room at first", "%.1f %%",
		     100 * share(count->fail_frag, count->first_tries));
	results_tile(results, "runs a request", "%.2f", share(count->runs, count->admitted));
	if (frag->run->opt->compact != COMPACT_OFF)
		results_tile(results, "blocks moved a block allocated", "%.3f",
			     share(count->moved_blocks, count->asked_blocks));
}

void frag_report(const struct frag *frag)
{
	describe_setup(frag);
	describe_counts(frag);
	readers_describe(frag);
	describe_window(frag);
	results_hex(frag->run->results, "fp", frag->fp);
	describe_curve(frag);

	tile(frag);
	say_setup(frag);
	say_use(frag);
	say_failures(frag);
	readers_say(frag);
	say_memory(frag);
}
