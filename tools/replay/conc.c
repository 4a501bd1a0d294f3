// SPDX-License-Identifier: Apache-2.0
/*
 * Mode conc: requests arrive when the trace says so and run side by side; the time of one is what
 * its misses and its answer take. First come, first served: the head of the queue waits until its
 * blocks fit and all requests behind it wait too.
 *
 * --grow: a request is admitted with blocks for its prompt alone, and takes another one whenever
 * its answer has filled those it has. Where there is none, the request that was admitted last gives
 * up all that it has, and goes to the front of the queue; what it has said is part of its prompt
 * from then on. Full blocks of answers get keys of their own, so a request finds again what is left
 * of it.
 *
 * A growing request has one event at a time: the moment when its blocks are full, or its answer is
 * complete. A request that is preempted leaves an event behind that is no longer the one noted for
 * it.
 */
#include "cache.h"
#include "live.h"
#include "maps.h"
#include "record.h"
#include "tiers.h"

/**
 * struct growing - a request, while it runs
 * @event_us: its next event; UINT64_MAX: none
 * @event_said: tokens of its answer at that moment
 * @said_us: when it had said @said of them, and from when on it says more; UINT64_MAX: not yet
 */
struct growing {
	u64 event_us;
	u64 said_us;
	u64 preempted_us;
	u32 event_said;
	u32 said;
	bool was_preempted;
};

/**
 * struct grow - what --grow adds to the simulation
 * @order, @nr_order: requests that run, in order of admission
 * @again, @nr_again: that were preempted; the last one is the next to be admitted
 * @is_quiet: somebody has been preempted at this moment, so nobody is admitted before the next one
 */
struct grow {
	struct growing *of;
	u32 *order;
	u32 *again;
	u32 nr_order;
	u32 nr_again;
	bool is_quiet;

	u32 preemptions;
	u32 preempted_requests;
	u32 self;
	u32 unloaded;
	u64 grown_blocks;
	u128 waited_us;
};

/**
 * struct conc - the simulation
 * @running: what each running request has, by request
 * @finish: when they will be done
 * @loading, @nr_loading: running requests that wait for their hits, in order of admission
 * @head: the first request that waits
 * @arrived: requests that have arrived so far
 * @stuck: the head did not fit and nothing was freed since
 * @used: blocks that have a reference, now
 * @grows, @grow: for --grow: see there
 */
struct conc {
	struct cache cache;
	struct held **running;
	struct heap finish;
	u32 *loading;
	u32 nr_loading;
	u64 now;
	u32 head;
	u32 arrived;
	bool stuck;

	u32 used;
	u32 peak_used;
	u32 delayed;
	u128 used_area;
	u128 wait_us;
	u64 makespan_us;

	bool grows;
	struct grow grow;
};

/* ---- events of requests that grow ---- */

/* From @now on it goes on talking, until its blocks are full, or it is done. */
static void go_on(struct conc *conc, struct held *held, u64 now)
{
	const struct trace_request *req = &conc->cache.run->trace->req[held->q];
	struct growing *of = &conc->grow.of[held->q];
	u64 room = (u64)(held->nr_refs + held->nr_muts) * conc->cache.run->opt->block_tokens;

	of->said = conc->cache.done[held->q];
	of->said_us = now;
	of->event_said = (u32)min_u64(req->output, room - req->input);
	of->event_us = now + (u64)(of->event_said - of->said) * US_PER_OUTPUT_TOKEN;
	heap_push(&conc->finish, of->event_us, held->q);
}

static void leave_order(struct grow *grow, u32 q)
{
	u32 i = grow->nr_order;

	while (grow->order[--i] != q)
		;
	memmove(grow->order + i, grow->order + i + 1, (--grow->nr_order - i) * sizeof(*grow->order));
}

/* What it has said until now is kept, as a longer prompt. */
static enum exit_code preempt(struct conc *conc, u32 q)
{
	struct held *held = conc->running[q];
	struct grow *grow = &conc->grow;
	struct growing *of = &grow->of[q];
	enum exit_code code;
	u32 kept = 0;

	if (of->said_us < conc->now)
		conc->cache.done[q] = of->said + (u32)((conc->now - of->said_us) / US_PER_OUTPUT_TOKEN);
	for (u32 i = 0; i < conc->nr_loading; i++)
		if (conc->loading[i] != q)
			conc->loading[kept++] = conc->loading[i];
	grow->unloaded += kept < conc->nr_loading;
	conc->nr_loading = kept;
	code = cache_keep(&conc->cache, held);
	leave_order(grow, q);
	conc->running[q] = NULL;
	grow->again[grow->nr_again++] = q;
	grow->preemptions++;
	grow->preempted_requests += !of->was_preempted;
	grow->is_quiet = of->was_preempted = true;
	of->preempted_us = conc->now;
	of->event_us = UINT64_MAX;
	conc->stuck = true;
	return code ? code : cache_preempt(&conc->cache, held);
}

/* One block more, for which requests may have to go, the last one first; perhaps itself. */
static enum exit_code grow(struct conc *conc, struct held *held)
{
	struct grow *grow = &conc->grow;
	u32 q = held->q, last = U32_NONE;
	enum exit_code code;
	bool got;

	do {
		code = cache_grow(&conc->cache, held, &got);
		if (code || got)
			break;
		last = grow->order[grow->nr_order - 1];
		code = preempt(conc, last);
	} while (!code && last != q);
	grow->self += last == q;
	if (code || last == q)
		return code;
	grow->grown_blocks++;
	go_on(conc, held, conc->now);
	return EXIT_GOOD;
}

/* Its blocks are full, or it is done. */
static enum exit_code handle(struct conc *conc, u32 q)
{
	struct held *held = conc->running[q];
	enum exit_code code;

	conc->cache.done[q] = conc->grow.of[q].event_said;
	code = cache_keep(&conc->cache, held);
	if (code || conc->cache.done[q] < conc->cache.run->trace->req[q].output)
		return code ? code : grow(conc, held);
	leave_order(&conc->grow, q);
	conc->running[q] = NULL;
	conc->grow.of[q].event_us = UINT64_MAX;
	conc->stuck = conc->grow.is_quiet;
	conc->makespan_us = conc->now;
	return cache_release(&conc->cache, held);
}

/* The event of a request that has been preempted stays behind. */
static void grow_skip(struct conc *conc)
{
	while (conc->finish.nr &&
	       conc->grow.of[conc->finish.event[0].index].event_us != conc->finish.event[0].time)
		heap_pop(&conc->finish);
}

/* All events of this moment. */
static enum exit_code grow_events(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;

	if (conc->grow.is_quiet)
		conc->stuck = false;
	conc->grow.is_quiet = false;
	for (;;) {
		grow_skip(conc);
		if (code || !conc->finish.nr || conc->finish.event[0].time != conc->now)
			return code;
		code = handle(conc, heap_pop(&conc->finish).index);
	}
}

/* ---- results ---- */

static void grow_report(const struct conc *conc)
{
	struct results *results = conc->cache.run->results;
	const struct cache *cache = &conc->cache;
	const struct grow *grow = &conc->grow;

	if (!conc->grows)
		return;
	results_num(results, "preemptions", grow->preemptions);
	results_num(results, "preempted_requests", grow->preempted_requests);
	results_num(results, "preempted_themselves", grow->self);
	results_num(results, "preempted_loading", grow->unloaded);
	results_num(results, "preempt_ppm",
		    cache->admitted ? grow->preemptions * 1000000ull / cache->admitted : 0);
	results_num(results, "preempted_us", grow->waited_us);
	results_num(results, "grown_blocks", grow->grown_blocks);
	results_num(results, "resumed_blocks", cache->resumed_blocks);
	results_num(results, "resumed_hits", cache->resumed_hits);
	results_num(results, "recomputed_blocks", cache->resumed_blocks - cache->resumed_hits);
	results_tile(results, "preemptions", "%s", grouped(grow->preemptions));
	results_say(results, "preemptions", "%s, of %s requests: %.2f of 100 admissions",
		    grouped(grow->preemptions), grouped(grow->preempted_requests),
		    100 * share(grow->preemptions, cache->admitted));
	results_say(results, "resumed", "%s blocks, of which %s were found again; after %.3f s in the mean",
		    grouped(cache->resumed_blocks),
		    grouped(cache->resumed_hits),
		    share(grow->waited_us, grow->preemptions) / 1e6);
}

/* ---- the simulation ---- */

static u32 blocks_wanted(const struct run *run, const struct trace_request *req)
{
	u32 prompt = shape_of(run->opt, req).prompt;

	return (u32)max_u64(prompt, blocks_of(run->opt, (u64)req->input + req->output));
}

/* Its hits are there, so it runs. */
static void run_request(struct conc *conc, struct held *held)
{
	if (conc->grows)
		go_on(conc, held, conc->now + cache_prefill_us(&conc->cache, held));
	else
		heap_push(&conc->finish, conc->now + cache_service_us(&conc->cache, held), held->q);
}

/* It has been admitted, for the first time or after it was preempted. */
static void start(struct conc *conc, struct held *held)
{
	struct cache *cache = &conc->cache;
	u64 wait_us = conc->now - cache->run->trace->req[held->q].arrival_us;
	struct grow *grow = &conc->grow;

	conc->running[held->q] = held;
	cache->fp = fold(fold(cache->fp, held->q), held->nr_hits);
	if (conc->grows) {
		struct growing *of = &grow->of[held->q];

		grow->order[grow->nr_order++] = held->q;
		of->event_us = of->said_us = UINT64_MAX;
		of->said = cache->done[held->q];
		grow->nr_again -= cache->resumed;
		grow->waited_us += cache->resumed ? conc->now - of->preempted_us : 0;
	}
	if (!cache->resumed) {
		conc->wait_us += wait_us;
		conc->delayed += wait_us > 0;
		record_latency(cache->run->record, RECORD_WAIT, wait_us);
	}
	if (held->nr_lower)
		conc->loading[conc->nr_loading++] = held->q;
	else
		run_request(conc, held);
}

/* Those whose hits have arrived run from now on. */
static enum exit_code fetch_loaded(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;
	u32 nr = conc->nr_loading, kept = 0;

	for (u32 i = 0; i < nr; i++) {
		struct held *held = conc->running[conc->loading[i]];
		bool done = false;

		if (!code)
			code = tiers_fetch(&conc->cache, held, &done);
		if (!code && done)
			run_request(conc, held);
		if (!done)
			conc->loading[kept++] = held->q;
	}
	conc->nr_loading = kept;
	return code;
}

/* Copies end, which frees blocks, or lets requests run. */
static enum exit_code copy(struct conc *conc)
{
	enum exit_code code;

	if (!conc->cache.tiers)
		return EXIT_GOOD;
	if (conc->now * NS_PER_US >= tiers_due(&conc->cache))
		conc->stuck = false;
	code = tiers_time(&conc->cache, conc->now * NS_PER_US);
	return code ? code : fetch_loaded(conc);
}

/* Which request is next, and what it needs at first; false: none waits. */
static bool next_request(struct conc *conc, u32 *q, u32 *nr_blocks)
{
	struct cache *cache = &conc->cache;
	u32 nr_again = conc->grow.nr_again;

	if (!nr_again && conc->head == conc->arrived)
		return false;
	cache->resumed = nr_again;
	*q = nr_again ? conc->grow.again[nr_again - 1] : conc->head;
	*nr_blocks = conc->grows ? cache_shape(cache, *q).prompt :
				   blocks_wanted(cache->run, &cache->run->trace->req[*q]);
	return true;
}

/* Admit from the head of the queue until a request does not fit. */
static enum exit_code admit(struct conc *conc)
{
	const struct run *run = conc->cache.run;
	enum exit_code code = EXIT_GOOD;
	u32 q, nr;

	while (!code && !conc->stuck && next_request(conc, &q, &nr)) {
		struct held *held;

		if (blocks_wanted(run, &run->trace->req[q]) > run->opt->nr_blocks) {
			conc->cache.rejected++;
			code = tell_over(&conc->cache, conc->head++, 0);
			continue;
		}
		code = cache_admit(&conc->cache, q, nr, &held);
		conc->stuck = !held;
		conc->head += held && !conc->cache.resumed;
		if (held && !code)
			start(conc, held);
		else
			free(held);
	}
	conc->used = run->opt->nr_blocks - cache_available(&conc->cache);
	conc->peak_used = (u32)max_u64(conc->peak_used, conc->used);
	return code;
}

static enum exit_code complete(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;

	if (conc->grows)
		return grow_events(conc);
	while (!code && conc->finish.nr && conc->finish.event[0].time == conc->now) {
		u32 q = heap_pop(&conc->finish).index;
		struct held *held = conc->running[q];

		conc->running[q] = NULL;
		code = cache_release(&conc->cache, held);
		conc->stuck = false;
		conc->makespan_us = conc->now;
	}
	return code;
}

static enum exit_code arrive(struct conc *conc)
{
	const struct trace *trace = conc->cache.run->trace;
	enum exit_code code = EXIT_GOOD;

	while (!code && conc->arrived < trace->nr &&
	       trace->req[conc->arrived].arrival_us <= conc->now)
		code = tell_request(&conc->cache, conc->arrived++);
	return code;
}

/* Go on to the next moment at which anything happens. */
static bool advance(struct conc *conc)
{
	const struct trace *trace = conc->cache.run->trace;
	u64 next = UINT64_MAX, due_ns = UINT64_MAX;

	if (conc->grows)
		grow_skip(conc);
	if (conc->finish.nr)
		next = conc->finish.event[0].time;
	if (conc->arrived < trace->nr)
		next = min_u64(next, trace->req[conc->arrived].arrival_us);
	if (conc->nr_loading || (conc->stuck && !conc->finish.nr))
		due_ns = tiers_due(&conc->cache);
	if (due_ns != UINT64_MAX)	/* a copy ends: in whole microseconds */
		next = min_u64(next, max_u64(DIV_ROUND_UP(due_ns, NS_PER_US), conc->now));
	if (next == UINT64_MAX)
		return false;
	conc->used_area += (u128)conc->used * (next - conc->now);
	conc->now = next;
	cache_time(&conc->cache, next);
	return true;
}

static enum exit_code simulate(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;

	progress_start(conc->cache.run, "conc", conc->cache.run->trace->nr);
	while (!code && advance(conc)) {
		code = complete(conc);
		if (!code)
			code = arrive(conc);
		if (!code)
			code = copy(conc);
		if (!code)
			code = admit(conc);
		cache_record(&conc->cache, conc->now, conc->head, conc->grows ? conc->grow.nr_order :
			     conc->finish.nr + conc->nr_loading);
		progress_step(conc->cache.run, conc->head);
	}
	progress_stop(conc->cache.run);
	if (!code && (conc->grow.nr_order || conc->grow.nr_again))
		code = complain(EXIT_WRONG, "%u requests run and %u wait in the end",
				conc->grow.nr_order, conc->grow.nr_again);
	return code ? code : cache_finish(&conc->cache);
}

static void report(const struct conc *conc)
{
	const struct options *opt = conc->cache.run->opt;
	struct results *results = conc->cache.run->results;
	u128 whole = (u128)opt->nr_blocks * conc->makespan_us;

	cache_report(&conc->cache, "conc");
	results_num(results, "a", opt->block_tokens * US_PER_INPUT_TOKEN);
	results_num(results, "b", US_PER_OUTPUT_TOKEN);
	results_num(results, "peak_used", conc->peak_used);
	results_num(results, "used_area_us", conc->used_area);
	results_num(results, "makespan_us", conc->makespan_us);
	results_num(results, "delayed", conc->delayed);
	results_num(results, "wait_us", conc->wait_us);
	results_tile(results, "of the pool in use", "%.1f %%",
		     100 * share(conc->used_area, whole));
	results_tile(results, "requests had to wait", "%u", conc->delayed);
	results_say(results, "in use", "%.2f %% of the pool in the mean, %u blocks at most",
		    100 * share(conc->used_area, whole), conc->peak_used);
	results_say(results, "all done after", "%.1f s", (double)conc->makespan_us / 1e6);
	results_say(results, "waiting", "%u requests had to, %.3f s a request in the mean",
		    conc->delayed, share(conc->wait_us, conc->cache.admitted) / 1e6);
	grow_report(conc);
	results_num(results, "hit_tokens", conc->cache.hit_tokens);
	results_num(results, "input_tokens", conc->cache.input_tokens);
	results_hex(results, "fp", conc->cache.fp);
}

enum exit_code run_conc(const struct run *run)
{
	struct conc conc = { 0 };
	enum exit_code code;

	if (!run->trace->has_arrivals)
		return complain(EXIT_INPUT, "the trace has no arrival times; conc needs them");
	code = cache_init(&conc.cache, run, "us");
	conc.running = must_alloc(run->trace->nr * sizeof(*conc.running));
	conc.loading = must_alloc(run->trace->nr * sizeof(*conc.loading));
	conc.grows = run->opt->grow;
	conc.grow.of = must_alloc(run->trace->nr * sizeof(*conc.grow.of));
	conc.grow.order = must_alloc(run->trace->nr * sizeof(*conc.grow.order));
	conc.grow.again = must_alloc(run->trace->nr * sizeof(*conc.grow.again));
	if (!code)
		code = cache_record_begin(&conc.cache, true);
	if (!code)
		code = simulate(&conc);
	if (!code)
		report(&conc);

	for (u32 q = 0; q < run->trace->nr; q++)
		free(conc.running[q]);
	free(conc.grow.again);
	free(conc.grow.order);
	free(conc.grow.of);
	heap_exit(&conc.finish);
	free(conc.loading);
	free(conc.running);
	cache_exit(&conc.cache);
	return code;
}
