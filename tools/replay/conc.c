// SPDX-License-Identifier: Apache-2.0
/*
 * Mode conc: requests arrive when the trace says so and run side by side; the time of one is what
 * its misses and its answer take. First come, first served: the head of the queue waits until its
 * blocks fit and everybody behind it waits too.
 */
#include <stdlib.h>

#include "conc.h"
#include "progress.h"
#include "record.h"
#include "tell.h"
#include "tiers.h"

static u32 blocks_wanted(const struct run *run, const struct trace_request *req)
{
	u32 prompt = shape_of(run->opt, req).prompt;

	return (u32)max_u64(prompt, blocks_of(run->opt, (u64)req->input + req->output));
}

/* Its hits are there, so it runs. */
static enum exit_code run_request(struct conc *conc, struct held *held)
{
	u64 us;

	if (conc->grow)
		return grow_run(conc, held);
	us = cache_service_us(&conc->cache, held);
	if (heap_push(&conc->finish, conc->now + us, held->q))
		return complain_of(-ENOMEM, "start request %u", held->q);
	return EXIT_GOOD;
}

static void note_start(struct conc *conc, const struct held *held)
{
	struct cache *cache = &conc->cache;
	const struct trace_request *req = &cache->run->trace->req[held->q];

	cache->fp = fold(fold(cache->fp, held->q), held->nr_hits);
	if (conc->grow)
		grow_admitted(conc, held);
	if (cache->resumed)
		return;
	conc->wait_us += conc->now - req->arrival_us;
	conc->delayed += conc->now > req->arrival_us;
	record_latency(cache->run->record, RECORD_WAIT, conc->now - req->arrival_us);
}

static enum exit_code start(struct conc *conc, struct held *held)
{
	conc->running[held->q] = held;
	note_start(conc, held);
	if (!held->nr_lower)
		return run_request(conc, held);
	conc->loading[conc->nr_loading++] = held->q;
	return EXIT_GOOD;
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
			code = run_request(conc, held);
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

/* Who is next, and what it needs; false: nobody waits. */
static bool next_request(const struct conc *conc, u32 *q, u32 *nr_blocks)
{
	const struct run *run = conc->cache.run;

	if (conc->grow)
		return grow_next(conc, q, nr_blocks);
	if (conc->head == conc->arrived)
		return false;
	*q = conc->head;
	*nr_blocks = blocks_wanted(run, &run->trace->req[*q]);
	return true;
}

/* It is admitted, or *@held is NULL. */
static enum exit_code admit_one(struct conc *conc, u32 q, u32 nr_blocks, struct held **held)
{
	enum exit_code code = cache_admit(&conc->cache, q, nr_blocks, held);

	if (!*held) {
		conc->stuck = true;
		return code;
	}
	if (!code)
		return start(conc, *held);
	free(*held);
	return code;
}

/* Admit from the head of the queue until somebody does not fit. */
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
		code = admit_one(conc, q, nr, &held);
		if (held && !conc->cache.resumed)
			conc->head++;
	}
	conc->used = run->opt->nr_blocks - cache_available(&conc->cache);
	conc->peak_used = (u32)max_u64(conc->peak_used, conc->used);
	return code;
}

static enum exit_code complete(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;

	if (conc->grow)
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

/* When the next copy has ended, in whole microseconds. */
static u64 due_us(const struct conc *conc)
{
	u64 ns = tiers_due(&conc->cache);

	return ns == UINT64_MAX ? ns : max_u64(DIV_ROUND_UP(ns, NS_PER_US), conc->now);
}

/* Go on to the next moment at which anything happens. */
static bool advance(struct conc *conc)
{
	const struct trace *trace = conc->cache.run->trace;
	u64 next = UINT64_MAX;

	if (conc->grow)
		grow_skip(conc);
	if (conc->finish.nr)
		next = conc->finish.event[0].time;
	if (conc->arrived < trace->nr)
		next = min_u64(next, trace->req[conc->arrived].arrival_us);
	if (conc->nr_loading || (conc->stuck && !conc->finish.nr))
		next = min_u64(next, due_us(conc));
	if (next == UINT64_MAX)
		return false;
	conc->used_area += (u128)conc->used * (next - conc->now);
	conc->now = next;
	cache_time(&conc->cache, next);
	return true;
}

static u32 nr_running(const struct conc *conc)
{
	return conc->grow ? grow_running(conc) : conc->finish.nr + conc->nr_loading;
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
		cache_record(&conc->cache, conc->now, conc->head, nr_running(conc));
		progress_step(conc->cache.run, conc->head);
	}
	progress_stop(conc->cache.run);
	if (!code)
		code = grow_check(conc);
	return code ? code : cache_finish(&conc->cache);
}

static void report(const struct conc *conc)
{
	const struct options *opt = conc->cache.run->opt;
	struct results *results = conc->cache.run->results;
	u128 whole = (u128)opt->nr_blocks * conc->makespan_us;

	cache_describe(&conc->cache, "conc");
	results_num(results, "a", opt->block_tokens * US_PER_MISSED_TOKEN);
	results_num(results, "b", US_PER_OUTPUT_TOKEN);
	results_num(results, "peak_used", conc->peak_used);
	results_num(results, "used_area_us", conc->used_area);
	results_num(results, "makespan_us", conc->makespan_us);
	results_num(results, "delayed", conc->delayed);
	results_num(results, "wait_us", conc->wait_us);
	grow_describe(conc);
	results_num(results, "hit_tokens", conc->cache.hit_tokens);
	results_num(results, "input_tokens", conc->cache.input_tokens);
	results_hex(results, "fp", conc->cache.fp);

	cache_say(&conc->cache);
	results_tile(results, "of the pool in use", "%.1f %%",
		     100 * share(conc->used_area, whole));
	results_tile(results, "requests had to wait", "%u", conc->delayed);
	results_say(results, "in use", "%.2f %% of the pool in the mean, %u blocks at most",
		    100 * share(conc->used_area, whole), conc->peak_used);
	results_say(results, "all done after", "%.1f s", (double)conc->makespan_us / 1e6);
	results_say(results, "waiting", "%u requests had to, %.3f s a request in the mean",
		    conc->delayed, share(conc->wait_us, conc->cache.admitted) / 1e6);
	grow_say(conc);
}

enum exit_code run_conc(const struct run *run)
{
	struct conc conc = { 0 };
	enum exit_code code;

	if (!run->trace->has_arrivals)
		return complain(EXIT_INPUT, "the trace has no arrival times; conc needs them");
	code = cache_init(&conc.cache, run, "us");
	conc.running = calloc(run->trace->nr, sizeof(*conc.running));
	if (!code && conc.cache.tiers)
		conc.loading = calloc(run->trace->nr, sizeof(*conc.loading));
	if (!code && run->opt->grow && grow_begin(&conc))
		code = complain_of(-ENOMEM, "start");
	if (!code && (!conc.running || (conc.cache.tiers && !conc.loading)))
		code = complain_of(-ENOMEM, "start");
	if (!code && cache_record_begin(&conc.cache, true))
		code = complain_of(-ENOMEM, "record");
	if (!code)
		code = simulate(&conc);
	if (!code)
		report(&conc);

	for (u32 q = 0; conc.running && q < run->trace->nr; q++)
		free(conc.running[q]);
	grow_end(&conc);
	heap_exit(&conc.finish);
	free(conc.loading);
	free(conc.running);
	cache_exit(&conc.cache);
	return code;
}
