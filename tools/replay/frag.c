// SPDX-License-Identifier: Apache-2.0
/*
 * Mode frag: each request holds its memory in one run (or a few) from admission to its end. How
 * much of the pool can be used is then a question of where the runs lie. First come, first
 * served: a head that does not fit blocks everybody behind it until something is freed.
 */
#include "../map.h"
#include "frag.h"
#include "live.h"
#include "readers.h"

u32 frag_blocks_wanted(const struct frag *frag, u32 q)
{
	const struct trace_request *req = &frag->run->trace->req[q];

	return blocks_of(frag->run->opt, (u64)req->input + req->output);
}

u64 frag_ext_ppm(const struct frag_free *free)
{
	return free->nr_free ? (u64)(free->nr_free - free->largest) * 1000000 / free->nr_free : 0;
}

/* Blocks that no request holds, be they on their way or not. */
static u32 nr_free_of(const struct frag *frag)
{
	struct kvmm_step_stat steps;

	kvmm_step_get_stat(frag->pool, &steps);
	return frag_free_now(frag).nr_free + steps.copying_blocks + steps.limbo_blocks;
}

bool frag_is_pinned(const struct frag *frag, u32 q)
{
	const struct options *opt = frag->run->opt;

	return mix64(opt->seed ^ mix64(q + 1)) % 100 < opt->pinned;
}

/* ---- the content of a range ---- */

enum exit_code frag_check(struct frag *frag, u32 q, const struct kvmm_extent *ext, u32 nr_ext,
			  const char *when)
{
	enum exit_code code = EXIT_GOOD;
	u32 ordinal = 0;

	for (u32 e = 0; frag->pattern.want && e < nr_ext; e++) {
		for (u32 i = 0; !code && i < ext[e].nr; i++, ordinal++) {
			u64 name = pattern_of_request(q, ordinal);
			u32 block = ext[e].start + i;

			code = when ? pattern_check(&frag->pattern, block, name, q, when) :
				      pattern_write(&frag->pattern, block, name);
		}
	}
	if (!code && frag->pattern.want && ordinal != frag->live[q]->nr)
		code = complain(EXIT_WRONG, "request %u has %u blocks instead of %u", q, ordinal,
				frag->live[q]->nr);
	return code;
}

static enum exit_code for_each_block(struct frag *frag, u32 q, const char *check)
{
	return frag_check(frag, q, frag->live[q]->ext, frag->live[q]->nr_ext, check);
}

int frag_look_up(struct frag *frag, u32 q, bool *moved)
{
	struct live *live = frag->live[q];
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	int n = kvmm_range_extents(frag->pool, live->range, ext, KVMM_MAX_RUNS);

	if (n < 0)
		return n;
	*moved = live->nr_ext != (u32)n || memcmp(live->ext, ext, n * sizeof(*ext));
	live->nr_ext = (u32)n;
	memcpy(live->ext, ext, n * sizeof(*ext));
	return 0;
}

enum exit_code frag_follow_moves(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	for (u32 i = 0; !code && i < frag->nr_running; i++) {
		u32 q = frag->running[i];
		bool moved = false;
		int err = frag_look_up(frag, q, &moved);

		if (err)
			code = complain_of(err, "find request %u after a compaction", q);
		else if (moved && frag_is_pinned(frag, q))
			code = complain(EXIT_WRONG, "request %u is pinned, but was moved", q);
		else if (moved)
			code = for_each_block(frag, q, "after a move");
	}
	return code;
}

/* ---- one attempt ---- */

static void count_failure(struct frag *frag, u32 nr)
{
	struct frag_count *count = &frag->count;
	struct layout *layout = &frag->layout;

	if (nr_free_of(frag) < nr) {
		count->fail_capacity++;
		return;
	}
	frag_find_holes(frag);
	layout_clear_runs(layout);
	for (u32 i = 0; i < frag->nr_running; i++) {
		const struct live *live = frag->live[frag->running[i]];

		for (u32 e = 0; e < live->nr_ext; e++)
			layout_add_run(layout, live->ext[e].start);
	}
	layout_sort_runs(layout, frag->run->opt->nr_blocks);
	count->fail_frag++;
	count->fail_but_extent += layout_longest_hole(layout) >= nr;
	count->slide_blocks += layout_slide_cost(layout, nr);
	count->bound_blocks += layout_bound_cost(layout, frag->run->opt->nr_blocks, nr);
}

static int allocate(struct frag *frag, u32 nr, u32 flags, kvmm_range_t *range)
{
	u32 q = frag->head;
	struct kvmm_alloc_report report = { 0 };
	struct kvmm_range_attr attr = {
		.size		= sizeof(attr),
		.nr		= nr,
		.max_runs	= frag->run->opt->max_runs,
		.seq		= (u64)q + 1,
		.flags		= flags | (frag_is_pinned(frag, q) ? KVMM_ALLOC_PINNED : 0),
		.report		= &report,
	};
	u64 since = record_call_begin(frag->run->record);
	int err = kvmm_range_alloc_attr(frag->pool, &attr, range);

	record_call_end(frag->run->record, since);
	frag->count.moved_blocks += report.moved;
	frag->count.compactions += report.moved > 0;
	return err;
}

/*
 * Try to place the head. First without moving anything, so that a failure can be looked at; then,
 * if it is one of fragmentation and the user wants it, with compaction; with steps blocks are moved
 * beside them. *@err says how it went.
 */
static enum exit_code try_head(struct frag *frag, u32 nr, kvmm_range_t *range, int *err)
{
	const struct options *opt = frag->run->opt;
	struct frag_free stat = frag_free_now(frag);
	bool first = !frag->head_tried;
	enum exit_code code = EXIT_GOOD;

	if (first) {
		frag->count.first_tries++;
		frag->count.ext_ppm += frag_ext_ppm(&stat);
		frag->count.unusable_ppm += frag_unusable_ppm(frag, nr);
	}
	frag->count.retries += !first;
	frag->head_tried = true;
	*err = allocate(frag, nr, KVMM_ALLOC_NO_COMPACT, range);
	if (*err != -ENOSPC)
		return *err ? complain_of(*err, "allocate %u blocks", nr) : EXIT_GOOD;
	if (first) {
		frag->head_failed = frag->now;
		count_failure(frag, nr);
	}
	if (stat.nr_free >= nr && !frag->readers.nr &&
	    (opt->compact == COMPACT_SLIDE || opt->compact == COMPACT_DIRECT)) {
		*err = allocate(frag, nr, 0, range);
		frag->count.fail_compacted += *err == -ENOSPC;
		code = frag_follow_moves(frag);
	}
	if (!code && *err && *err != -ENOSPC)
		code = complain_of(*err, "allocate %u blocks with compaction", nr);
	return code;
}

/* ---- admission ---- */

static void close_window(struct frag *frag)
{
	if (!frag->window.inside)
		return;
	frag->window.inside = false;
	frag->window.us = frag->now - frag->window.begin;
}

static void update_curve(struct frag *frag)
{
	u32 step = frag->run->trace->nr / FRAG_CURVE_ROWS, n = (u32)frag->count.admitted;
	struct frag_free stat = frag_free_now(frag);
	struct curve_row *row;

	if (!step || n % step || frag->nr_curve == FRAG_CURVE_ROWS)
		return;
	row = &frag->curve[frag->nr_curve++];
	frag_find_holes(frag);
	*row = (struct curve_row){
		.now		= frag->now,
		.admitted	= n,
		.held		= stat.nr_blocks - stat.nr_free,
		.asked		= (u32)frag->asked,
		.free		= stat.nr_free,
		.largest	= stat.largest,
		.nr_holes	= frag->layout.nr_holes,
	};
	pool_map(frag->pool, row->map, FRAG_MAP_WIDTH);
}

static u64 service_us(const struct trace_request *req)
{
	return (u64)req->input * US_PER_INPUT_TOKEN + (u64)req->output * US_PER_OUTPUT_TOKEN;
}

static void next_head(struct frag *frag)
{
	frag->head++;
	frag->head_tried = false;
}

/* The head has got @range, and @held blocks with it. */
static enum exit_code start(struct frag *frag, kvmm_range_t range, u32 nr, u32 held)
{
	u32 q = frag->head, nr_requests = frag->run->trace->nr;
	const struct trace_request *req = &frag->run->trace->req[q];
	u64 wait_us = frag->now - (frag->run->opt->by_time ? req->arrival_us : 0);
	struct live *live = must_alloc(sizeof(*live));
	struct frag_count *count = &frag->count;
	enum exit_code code;
	bool moved;
	int err;

	*live = (struct live){ .range = range, .nr = nr, .at = frag->nr_running,
			       .ends = frag->now + service_us(req) };
	frag->live[q] = live;
	frag->running[frag->nr_running++] = q;
	err = frag_look_up(frag, q, &moved);
	if (err)
		return complain_of(err, "start request %u", q);
	if (!frag->readers.nr)	/* with steps a request ends with one */
		heap_push(&frag->finish, live->ends, q);
	if (frag->head_failed != UINT64_MAX)
		count->stall_us += frag->now - frag->head_failed;
	frag->head_failed = UINT64_MAX;
	frag->asked += nr;
	frag->tokens += (u64)req->input + req->output;
	count->admitted++;
	count->asked_blocks += nr;
	count->held_blocks += held;
	count->runs += live->nr_ext;
	count->wait_us += wait_us;
	record_latency(frag->run->record, RECORD_WAIT, wait_us);
	frag->fp = fold(fold(frag->fp, q), live->ext[0].start);
	if (count->admitted == nr_requests / 10) {
		frag->window.inside = true;
		frag->window.begin = frag->now;
	}
	if (count->admitted == (u64)nr_requests * 9 / 10)
		close_window(frag);
	update_curve(frag);
	next_head(frag);
	code = for_each_block(frag, q, NULL);
	return code || !frag->readers.nr ? code : readers_join(frag, q);
}

enum exit_code frag_admit(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	while (!code && !frag->stuck && frag->head < frag->arrived) {
		u32 nr = frag_blocks_wanted(frag, frag->head), before, held;
		kvmm_range_t range;
		int err;

		if (nr > frag->limit) {
			frag->count.rejected++;
			next_head(frag);
			continue;
		}
		if (frag->asked + nr > frag->limit)
			break;
		before = frag_free_now(frag).nr_free;
		code = try_head(frag, nr, &range, &err);
		frag->stuck = err != 0;
		/* Beside moves blocks come back meanwhile: then the rounding is not seen. */
		held = frag->readers.nr ? nr : before - frag_free_now(frag).nr_free;
		if (!code && !err)
			code = start(frag, range, nr, held);
	}
	return code;
}

/* ---- events ---- */

enum exit_code frag_finish(struct frag *frag, u32 q)
{
	const struct trace_request *req = &frag->run->trace->req[q];
	struct live *live = frag->live[q];
	u32 last = frag->running[--frag->nr_running];
	enum exit_code code = for_each_block(frag, q, "at free");
	int err = kvmm_range_free(frag->pool, live->range);

	frag->running[live->at] = last;
	frag->live[last]->at = live->at;
	frag->asked -= live->nr;
	frag->tokens -= (u64)req->input + req->output;
	frag->stuck = false;
	frag->live[q] = NULL;
	free(live);
	return err ? complain_of(err, "free request %u", q) : code;
}

void frag_arrive(struct frag *frag)
{
	const struct trace *trace = frag->run->trace;

	while (frag->arrived < trace->nr &&
	       (!frag->run->opt->by_time || trace->req[frag->arrived].arrival_us <= frag->now))
		frag->arrived++;
}

void frag_integrate(struct frag *frag, u64 us)
{
	struct frag_free stat = frag_free_now(frag);
	struct frag_window *window = &frag->window;

	if (!window->inside)
		return;
	window->held += (u128)(stat.nr_blocks - nr_free_of(frag)) * us;
	window->asked += (u128)frag->asked * us;
	window->tokens += (u128)frag->tokens * us;
	window->ext_ppm += (u128)frag_ext_ppm(&stat) * us;
}

static u64 next_event(const struct frag *frag)
{
	const struct trace *trace = frag->run->trace;
	u64 next = UINT64_MAX;

	if (frag->finish.nr)
		next = frag->finish.event[0].time;
	if (frag->arrived < trace->nr)
		next = min_u64(next, trace->req[frag->arrived].arrival_us);
	return next;
}

static bool advance(struct frag *frag)
{
	u64 next = next_event(frag);

	if (next == UINT64_MAX)
		return false;
	frag_integrate(frag, next - frag->now);
	frag->now = next;
	return true;
}

static enum exit_code do_events(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	while (!code && frag->finish.nr && frag->finish.event[0].time == frag->now)
		code = frag_finish(frag, heap_pop(&frag->finish).index);
	frag_arrive(frag);
	if (!code)
		code = frag_admit(frag);
	frag_record(frag);
	progress_step(frag->run, frag->head);
	return code;
}

bool frag_has_stopped(const struct frag *frag)
{
	u64 percent = (u64)frag->stop_percent * frag->run->opt->nr_blocks;

	return (frag->stop_after && frag->count.admitted >= frag->stop_after) ||
	       (percent && frag->asked * 100 >= percent);
}

enum exit_code frag_play(struct frag *frag, u64 until_us, bool *more)
{
	enum exit_code code = do_events(frag);

	while (!code && !frag_has_stopped(frag) && next_event(frag) <= until_us && advance(frag))
		code = do_events(frag);
	*more = next_event(frag) != UINT64_MAX;
	return code;
}

static enum exit_code simulate(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;
	int err;

	progress_start(frag->run, "frag", frag->run->trace->nr);
	if (frag->readers.nr) {
		code = readers_run(frag);
	} else {
		do {
			code = do_events(frag);
		} while (!code && advance(frag));
	}
	progress_stop(frag->run);
	close_window(frag);	/* where requests were rejected it may still be open */
	if (code)
		return code;
	err = kvmm_validate(frag->pool);
	if (err)
		return complain_of(err, "validate the pool");
	if (frag_free_now(frag).nr_free != frag->run->opt->nr_blocks)
		return complain(EXIT_WRONG, "blocks are missing after the last request");
	return EXIT_GOOD;
}

/* ---- output ---- */

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
	struct frag_free stat;

	if (!record_due(record, frag->now, frag->head))
		return;
	stat = frag_free_now(frag);
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

static void report_setup(const struct frag *frag)
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
	results_say(results, "trace", "%s, %s requests, %s", frag->run->trace->name,
		    grouped(frag->run->trace->nr),
		    opt->by_time ? "arriving as recorded" : "all waiting from the start");
	results_say(results, "pool", "%s blocks of %u tokens, allocator %s, mark %u %%",
		    grouped(opt->nr_blocks), opt->block_tokens, opt->alloc, opt->mark);
	results_say(results, "placement", "at most %u run%s a request, compaction %s",
		    opt->max_runs, opt->max_runs > 1 ? "s" : "", compact_modes[opt->compact]);
	if (opt->pinned)
		results_say(results, "pinned", "%u %% of the requests", opt->pinned);
}

static void report_window(const struct frag *frag)
{
	const struct frag_count *count = &frag->count;
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
	results_tile(results, "of the pool held", "%.2f %%",
		     100 * share(window->held, whole));
	results_tile(results, "found no room at first", "%.1f %%",
		     100 * share(count->fail_frag, count->first_tries));
	results_tile(results, "runs a request", "%.2f", share(count->runs, count->admitted));
	if (frag->run->opt->compact != COMPACT_OFF)
		results_tile(results, "blocks moved a block allocated", "%.3f",
			     share(count->moved_blocks, count->asked_blocks));
}

static void report_counts(const struct frag *frag)
{
	const struct frag_window *window = &frag->window;
	const struct frag_count *count = &frag->count;
	struct results *results = frag->run->results;
	u128 whole = (u128)frag->run->opt->nr_blocks * window->us;

	results_num(results, "admitted", count->admitted);
	results_num(results, "rejected", count->rejected);
	results_num(results, "makespan_us", frag->now);
	results_num(results, "wait_us", count->wait_us);
	results_num(results, "first_tries", count->first_tries);
	results_num(results, "retries", count->retries);
	results_num(results, "fail_frag", count->fail_frag);
	results_num(results, "fail_capacity", count->fail_capacity);
	results_num(results, "fail_but_extent", count->fail_but_extent);
	results_num(results, "fail_compacted", count->fail_compacted);
	results_num(results, "slide_blocks", count->slide_blocks);
	results_num(results, "bound_blocks", count->bound_blocks);
	results_num(results, "compactions", count->compactions);
	results_num(results, "moved_blocks", count->moved_blocks);
	results_num(results, "ext_ppm", count->ext_ppm);
	results_num(results, "unusable_ppm", count->unusable_ppm);
	results_num(results, "asked_blocks", count->asked_blocks);
	results_num(results, "held_blocks", count->held_blocks);
	results_num(results, "runs", count->runs);
	results_num(results, "checked_blocks", frag->pattern.nr_checked);
	results_say(results, "occupancy", "%.2f %% held, %.2f %% asked for (middle 80 %%)",
		    100 * share(window->held, whole), 100 * share(window->asked, whole));
	results_say(results, "runs", "%.2f a request in the mean",
		    share(count->runs, count->admitted));
	results_say(results, "all done after", "%.1f s", (double)frag->now / 1e6);
	results_say(results, "unusable", "%.2f %% of the free blocks, when a request came first",
		    share(count->unusable_ppm, count->first_tries) / 1e4);
	results_say(results, "found no room", "%s of %s requests though enough was free",
		    grouped(count->fail_frag), grouped(count->first_tries));
	if (count->fail_capacity)
		results_say(results, "too few free", "%s requests, for the rounding",
			    grouped(count->fail_capacity));
	if (frag->run->opt->compact != COMPACT_OFF)
		results_say(results, "moved", "%s blocks in %s compactions, %.3f a block allocated",
			    grouped(count->moved_blocks), grouped(count->compactions),
			    share(count->moved_blocks, count->asked_blocks));
	if (count->fail_compacted)
		results_say(results, "not helped", "%s times by compaction",
			    grouped(count->fail_compacted));
	if (count->rejected)
		results_say(results, "rejected", "%s requests larger than the mark",
			    grouped(count->rejected));
	if (frag->run->opt->verify)
		results_say(results, "verified", "%s blocks read back, all as written",
			    grouped(frag->pattern.nr_checked));
}

static void report(const struct frag *frag)
{
	report_setup(frag);
	report_counts(frag);
	readers_report(frag);
	report_window(frag);
	results_hex(frag->run->results, "fp", frag->fp);
	describe_curve(frag);
	/* The memory at each tenth of the run: from ' ' all free to '@' all held, 'P' pinned. */
	for (u32 i = 0; i < frag->nr_curve; i++)
		results_say(frag->run->results, i ? "" : "memory", "|%s| after %s",
			    frag->curve[i].map, grouped(frag->curve[i].admitted));
}

/* ---- beginning and end ---- */

static void find_median(struct frag *frag)
{
	u32 nr = frag->run->trace->nr;

	for (u32 q = 0; q < nr; q++)
		frag->running[q] = frag_blocks_wanted(frag, q);
	qsort(frag->running, nr, sizeof(*frag->running), compare_u32);
	frag->median = frag->running[nr / 2];
}

/* What the library calls them. */
static const char *const compactors[] = {
	[COMPACT_OFF]		= "off",
	[COMPACT_SLIDE]		= "slide",
	[COMPACT_DIRECT]	= "window",
	[COMPACT_BACKGROUND]	= "window",
	[COMPACT_BESIDE]	= "window",
	[COMPACT_BETWEEN]	= "window",
};

static int make_pool(struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "replay",
				       .device = opt->device, .allocator = opt->alloc,
				       .compactor = compactors[opt->compact],
				       .block_bytes = opt->block_bytes, .nr_blocks = opt->nr_blocks,
				       .block_tokens = opt->block_tokens };
	int err = kvmm_pool_create(&attr, &frag->pool);

	return err ? err : live_add(frag->run, frag->pool);
}

/* About as long as if the pool were full all the time. */
static int frag_begin_record(struct frag *frag)
{
	const struct trace *trace = frag->run->trace;
	u128 block_us = 0;
	u64 span;

	for (u32 q = 0; q < trace->nr; q++)
		block_us += (u128)frag_blocks_wanted(frag, q) * service_us(&trace->req[q]);
	span = (u64)(block_us / max_u64(1, frag->limit));
	if (frag->run->opt->by_time)
		span = max_u64(span, record_span(trace));
	return record_begin(frag->run->record, "us", span, IN_FRAG | IN_TIME |
			    (frag->run->opt->compact != COMPACT_OFF ? IN_MOVES : 0));
}

enum exit_code frag_open(struct frag *frag, const struct run *run)
{
	const struct options *opt = run->opt;
	u32 nr = run->trace->nr;
	int err;

	*frag = (struct frag){ .run = run, .head_failed = UINT64_MAX };
	if (opt->by_time && !run->trace->has_arrivals)
		return complain(EXIT_INPUT, "the trace has no arrival times; use --arrivals sat");
	err = readers_clock(frag);
	if (!err)
		err = make_pool(frag);
	if (err)
		return complain_of(err, "a pool of %u blocks, allocator '%s', compactor '%s', "
				   "device '%s'", opt->nr_blocks, opt->alloc,
				   compactors[opt->compact], opt->device ? opt->device : "none");
	frag->limit = (u64)opt->nr_blocks * opt->mark / 100;
	frag->live = must_alloc(nr * sizeof(*frag->live));
	frag->running = must_alloc(nr * sizeof(*frag->running));
	err = frag_begin_record(frag);
	if (err)
		return complain_of(err, "start");
	pattern_init(&frag->pattern, opt, frag->pool);
	find_median(frag);
	return readers_init(frag);
}

void frag_close(struct frag *frag)
{
	for (u32 i = 0; i < frag->nr_running; i++)
		free(frag->live[frag->running[i]]);
	live_remove(frag->run, frag->pool);
	kvmm_pool_destroy(frag->pool);
	readers_exit(frag);
	pattern_exit(&frag->pattern);
	layout_exit(&frag->layout);
	heap_exit(&frag->finish);
	free(frag->live);
	free(frag->running);
}

enum exit_code run_frag(const struct run *run)
{
	struct frag frag;
	enum exit_code code = frag_open(&frag, run);

	if (!code)
		code = simulate(&frag);
	if (!code)
		report(&frag);
	frag_close(&frag);
	return code;
}
