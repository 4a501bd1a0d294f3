// SPDX-License-Identifier: Apache-2.0
/*
 * --grow: answers that take their blocks as they become longer, and requests that are preempted.
 *
 * A request has one event at a time: the moment when its blocks are full, or its answer is complete. Who is
 * preempted leaves an event behind that is nobody's, since it is not the one that is noted for it.
 */
#include <stdlib.h>
#include <string.h>

#include "conc.h"
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

int grow_begin(struct conc *conc)
{
	u32 nr = conc->cache.run->trace->nr;
	struct grow *grow = calloc(1, sizeof(*grow));

	conc->grow = grow;
	if (!grow)
		return -ENOMEM;
	grow->of = calloc(nr, sizeof(*grow->of));
	grow->order = calloc(nr, sizeof(*grow->order));
	grow->again = calloc(nr, sizeof(*grow->again));
	return grow->of && grow->order && grow->again ? 0 : -ENOMEM;
}

void grow_end(struct conc *conc)
{
	struct grow *grow = conc->grow;

	if (!grow)
		return;
	free(grow->again);
	free(grow->order);
	free(grow->of);
	free(grow);
	conc->grow = NULL;
}

u32 grow_running(const struct conc *conc)
{
	return conc->grow->nr_order;
}

/* ---- admission ---- */

bool grow_next(const struct conc *conc, u32 *q, u32 *nr_blocks)
{
	struct grow *grow = conc->grow;
	struct cache *cache = (struct cache *)&conc->cache;

	if (!grow->nr_again && conc->head == conc->arrived)
		return false;
	cache->resumed = grow->nr_again;
	*q = grow->nr_again ? grow->again[grow->nr_again - 1] : conc->head;
	*nr_blocks = cache_shape(cache, *q).prompt;
	return true;
}

void grow_admitted(struct conc *conc, const struct held *held)
{
	struct grow *grow = conc->grow;
	struct growing *of = &grow->of[held->q];

	grow->order[grow->nr_order++] = held->q;
	of->event_us = of->said_us = UINT64_MAX;
	of->said = conc->cache.done[held->q];
	if (!conc->cache.resumed)
		return;
	grow->nr_again--;
	grow->waited_us += conc->now - of->preempted_us;
}

/* ---- events ---- */

/* From @now on it goes on talking, until its blocks are full, or it is done. */
static enum exit_code go_on(struct conc *conc, struct held *held, u64 now)
{
	const struct trace_request *req = &conc->cache.run->trace->req[held->q];
	struct growing *of = &conc->grow->of[held->q];
	u64 room = (u64)(held->nr_refs + held->nr_muts) * conc->cache.run->opt->block_tokens;

	of->said = conc->cache.done[held->q];
	of->said_us = now;
	of->event_said = (u32)min_u64(req->output, room - req->input);
	of->event_us = now + (u64)(of->event_said - of->said) * US_PER_OUTPUT_TOKEN;
	return heap_push(&conc->finish, of->event_us, held->q) ?
	       complain_of(-ENOMEM, "run request %u", held->q) : EXIT_GOOD;
}

enum exit_code grow_run(struct conc *conc, struct held *held)
{
	return go_on(conc, held, conc->now + cache_prefill_us(&conc->cache, held));
}

static void forget_loading(struct conc *conc, u32 q)
{
	u32 kept = 0;

	for (u32 i = 0; i < conc->nr_loading; i++)
		if (conc->loading[i] != q)
			conc->loading[kept++] = conc->loading[i];
	conc->grow->unloaded += kept < conc->nr_loading;
	conc->nr_loading = kept;
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
	struct grow *grow = conc->grow;
	struct growing *of = &grow->of[q];
	enum exit_code code;

	if (of->said_us < conc->now)
		conc->cache.done[q] = of->said + (u32)((conc->now - of->said_us) / US_PER_OUTPUT_TOKEN);
	forget_loading(conc, q);
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

/* One block more, whoever has to go for it; perhaps itself. */
static enum exit_code grow(struct conc *conc, struct held *held)
{
	struct grow *grow = conc->grow;
	enum exit_code code;
	bool got;

	for (;;) {
		u32 last = grow->order[grow->nr_order - 1];

		code = cache_grow(&conc->cache, held, &got);
		if (code || got)
			break;
		grow->self += last == held->q;
		if (last == held->q)
			return preempt(conc, last);
		code = preempt(conc, last);
		if (code)
			return code;
	}
	grow->grown_blocks += got;
	return code ? code : go_on(conc, held, conc->now);
}

static enum exit_code finish(struct conc *conc, struct held *held)
{
	leave_order(conc->grow, held->q);
	conc->running[held->q] = NULL;
	conc->grow->of[held->q].event_us = UINT64_MAX;
	conc->stuck = conc->grow->is_quiet;
	conc->makespan_us = conc->now;
	return cache_release(&conc->cache, held);
}

static enum exit_code handle(struct conc *conc, u32 q)
{
	struct held *held = conc->running[q];
	enum exit_code code;

	conc->cache.done[q] = conc->grow->of[q].event_said;
	code = cache_keep(&conc->cache, held);
	if (code)
		return code;
	return conc->cache.done[q] == conc->cache.run->trace->req[q].output ? finish(conc, held) :
									    grow(conc, held);
}

void grow_skip(struct conc *conc)
{
	while (conc->finish.nr &&
	       conc->grow->of[conc->finish.event[0].index].event_us != conc->finish.event[0].time)
		heap_pop(&conc->finish);
}

enum exit_code grow_events(struct conc *conc)
{
	enum exit_code code = EXIT_GOOD;

	if (conc->grow->is_quiet)
		conc->stuck = false;
	conc->grow->is_quiet = false;
	for (;;) {
		grow_skip(conc);
		if (code || !conc->finish.nr || conc->finish.event[0].time != conc->now)
			return code;
		code = handle(conc, heap_pop(&conc->finish).index);
	}
}

enum exit_code grow_check(const struct conc *conc)
{
	const struct grow *grow = conc->grow;

	if (!grow || (!grow->nr_order && !grow->nr_again))
		return EXIT_GOOD;
	return complain(EXIT_WRONG, "%u requests run and %u wait in the end", grow->nr_order,
			grow->nr_again);
}

/* ---- results ---- */

void grow_describe(const struct conc *conc)
{
	struct results *results = conc->cache.run->results;
	const struct cache *cache = &conc->cache;
	const struct grow *grow = conc->grow;

	if (!grow)
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
}

void grow_say(const struct conc *conc)
{
	struct results *results = conc->cache.run->results;
	const struct cache *cache = &conc->cache;
	const struct grow *grow = conc->grow;
	char a[32], b[32];

	if (!grow)
		return;
	results_tile(results, "preemptions", "%s", format_grouped(grow->preemptions, a));
	results_say(results, "preemptions", "%s, of %s requests: %.2f of 100 admissions",
		    format_grouped(grow->preemptions, a),
		    format_grouped(grow->preempted_requests, b),
		    100 * share(grow->preemptions, cache->admitted));
	results_say(results, "resumed", "%s blocks, of which %s were found again; after %.3f s in the mean",
		    format_grouped(cache->resumed_blocks, a),
		    format_grouped(cache->resumed_hits, b),
		    share(grow->waited_us, grow->preemptions) / 1e6);
}
