// SPDX-License-Identifier: Apache-2.0
/*
 * Engine "zone", the library's own: the run index behind the zone layer's ops table.
 *
 * Exact lengths, exact best fit, lowest address among equals; see runs.h for how.
 */
#include <kv/atomic.h>

#include "internal.h"
#include "runs.h"

/* A run index starts with every block used. */
static void runs_init(void *engine, u32 nr_blocks)
{
	KV_BUG_ON(kv_runs_init(engine, nr_blocks));
	KV_BUG_ON(kv_runs_free(engine, 0, nr_blocks));
}

static noinline u32 __runs_take_slow(struct kv_runs *runs, const struct kv_zone_req *zone_req)
{
	struct kv_runs_req req = {
		.n = zone_req->nr, .align = zone_req->align,
		.lo = zone_req->lo, .hi = zone_req->hi,
		.flags = (zone_req->topdown ? KV_RUNS_TOPDOWN : 0) |
			 (zone_req->fit == KV_FIT_FIRST ? KV_RUNS_FIRST : 0),
	};
	u32 start;

	kv_assert(zone_req->lo < zone_req->hi && zone_req->hi <= runs->nr_blocks);
	return kv_runs_alloc_req(runs, &req, &start) ? KV_NONE : start;
}

static u32 runs_take(void *engine, const struct kv_zone_req *req)
{
	struct kv_runs *runs = engine;

	kv_assert(req->nr && req->nr <= runs->nr_blocks);
	if (unlikely(!req_is_plain(req, runs->nr_blocks, 1)))
		return __runs_take_slow(runs, req);
	return kv_runs_alloc(runs, req->nr);
}

static int runs_take_at(void *engine, u32 start, u32 nr)
{
	return kv_runs_alloc_at(engine, start, nr);
}

static void runs_take_many(void *engine, u32 nr, u32 *ids)
{
	KV_BUG_ON(kv_runs_alloc_scattered(engine, ids, nr));
}

static int runs_give(void *engine, u32 start, u32 nr)
{
	return kv_runs_free(engine, start, nr);
}

static int runs_give_many(void *engine, const u32 *ids, u32 nr)
{
	return kv_runs_free_many(engine, ids, nr);
}

static struct kvmm_extent runs_next_free(const void *engine, u32 from)
{
	struct kv_run run;

	if (!kv_runs_next(engine, from, &run))
		return (struct kvmm_extent){ 0, 0 };
	return (struct kvmm_extent){ run.start, run.len };
}

static bool runs_is_free(const void *engine, u32 block)
{
	return kv_runs_range_is_free(engine, block, 1);
}

static u32 runs_nr_free(const void *engine)
{
	const struct kv_runs *runs = engine;

	return kv_peek(&runs->nr_free);
}

static u32 runs_nr_runs(const void *engine)
{
	const struct kv_runs *runs = engine;

	return runs->nr_runs;
}

static u32 runs_largest(const void *engine)
{
	return kv_runs_largest(engine).len;
}

static u32 runs_usable(const void *engine, u32 nr, u32 *pieces)
{
	*pieces = kv_runs_count_at_least(engine, nr);
	return kv_runs_blocks_at_least(engine, nr);
}

static unsigned int runs_kth_largest(const void *engine, u32 *len, unsigned int k)
{
	struct kv_run top[KVMM_MAX_RUNS];
	unsigned int i, nr = kv_runs_top(engine, top, min(k, KVMM_MAX_RUNS));

	for (i = 0; i < nr; i++)
		len[i] = top[i].len;
	return nr;
}

static int runs_check(const void *engine)
{
	return kv_runs_check(engine);
}

static u64 runs_peek(const void *engine, u32 word)
{
	return kv_peek(&((const struct kv_runs *)engine)->map[word]);
}

const struct kv_zone_ops kv_zone_runs = {
	.name		= "zone",
	.metadata_bytes	= kv_runs_bytes,
	.init		= runs_init,
	.take		= runs_take,
	.take_best	= kv_runs_alloc,
	.take_at	= runs_take_at,
	.take_many	= runs_take_many,
	.give		= runs_give,
	.give_many	= runs_give_many,
	.next_free	= runs_next_free,
	.is_free	= runs_is_free,
	.nr_free	= runs_nr_free,
	.nr_runs	= runs_nr_runs,
	.largest	= runs_largest,
	.usable		= runs_usable,
	.kth_largest	= runs_kth_largest,
	.check		= runs_check,
	.peek		= runs_peek,
};
