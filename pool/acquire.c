// SPDX-License-Identifier: Apache-2.0
/*
 * Match and allocate in one step.
 *
 * The hits are referenced before the pool's lock is taken, so they are safe; but they stay in the
 * order of eviction until it is sure that the rest fits: undoing then leaves no trace there.
 */
#include <kv/env.h>

#include "local.h"

static bool acquire_is_bad(const struct kvmm_acquire *req)
{
	u32 max_hits;

	if (!req)
		return true;
	max_hits = min(req->nr_keys, req->max_hits);
	return (req->nr_keys && !req->keys) || (max_hits && !req->hits) ||
	       (req->nr_blocks && !req->fresh);
}

/* What was matched. */
struct hits {
	struct kv_handle *refs;
	u32 nr;
	u32 nr_first;		/* nobody referenced them: they are in the order of eviction */
};

static int take_hits(struct kvmm_pool *pool, const struct kvmm_acquire *req, struct hits *hits)
{
	struct kv_query query = { req->keys, min(req->nr_keys, req->max_hits), req->domain };
	int err = cache_begin(pool);

	if (err)
		return err;
	hits->refs = (struct kv_handle *)req->hits;
	hits->nr = match_refs(pool, &query, hits->refs, &hits->nr_first);
	tally_add(pool, TALLY_REFS, hits->nr);
	tally_add(pool, TALLY_ACTIVE, hits->nr_first);
	cache_end(pool);
	return 0;
}

/* Who is in the order is where it was; who is not was dropped from there, and comes back. */
void undo_hit(struct kvmm_pool *pool, struct kv_handle ref)
{
	int ret = kv_entry_put(&pool->entries, ref);

	if (unlikely(ret < 0))	/* somebody has put what was not his */
		return;
	tally_add(pool, TALLY_REFS, -1);
	tally_add(pool, TALLY_ACTIVE, ret > 0 ? -1 : 0);
	if (ret == 1) {
		order_catch_up(&pool->order);
		if (!order_has(&pool->order, ref.index))
			order_apply(&pool->order, NOTE_PUT, ref);
	}
	if (ret != 2)
		return;
	order_forget(&pool->order, ref.index);
	entry_forget(pool, ref.index);
	entry_release(pool, ref);
}

static void undo_hits(struct kvmm_pool *pool, const struct hits *hits)
{
	for (u32 i = hits->nr; i-- > 0;)
		undo_hit(pool, hits->refs[i]);
}

/*
 * Hits that are counted as available. Not those that are about to enter the order: whoever put them
 * last has not noted it yet.
 */
static u32 nr_in_order(struct kvmm_pool *pool, const struct hits *hits)
{
	u32 nr = 0;

	for (u32 i = 0; i < hits->nr && nr < hits->nr_first; i++)
		nr += order_has(&pool->order, hits->refs[i].index);
	return nr;
}

static const struct ask normal_ask;

static int check_quota(struct kvmm_pool *pool, const struct kvmm_acquire *req,
		       const struct hits *hits)
{
	struct quota_want want = {
		.tenant = req->domain.tenant, .nr = req->nr_blocks - hits->nr,
		.reserve = (u64)req->reserve + door_keep(pool, &normal_ask),
		.hits = hits->refs, .nr_hits = hits->nr,
	};

	return quota_check_fit(pool, &want);
}

/* What is left besides the hits, once they have left the order. */
static int check_fit(struct kvmm_pool *pool, const struct kvmm_acquire *req,
		     const struct hits *hits)
{
	u64 nr_fresh = req->nr_blocks - hits->nr, nr;

	if (req->nr_blocks < hits->nr)
		return -EINVAL;
	if (unlikely(pool->order.quotas != NULL))
		return check_quota(pool, req, hits);
	nr = nr_fresh + req->reserve + door_keep(pool, &normal_ask);
	if (likely(!nr_fresh || nr + hits->nr_first <= cache_nr_available(pool)))
		return 0;
	nr += nr_in_order(pool, hits);
	pool_drain_local(pool);
	return nr <= cache_nr_available(pool) ? 0 : -ENOSPC;
}

static void keep_hits(struct kvmm_pool *pool, const struct hits *hits)
{
	u32 now = hits->nr ? mags_tick(pool) : 0;

	for (u32 i = 0; i < hits->nr; i++) {
		order_apply(&pool->order, NOTE_HIT, hits->refs[i]);
		WRITE_ONCE(entry_at(pool, hits->refs[i].index)->vtime, now);
	}
}

static int take_rest(struct kvmm_pool *pool, struct kvmm_acquire *req, const struct hits *hits)
{
	struct take take = { .nr = req->nr_blocks - hits->nr, .blocks = req->fresh,
			     .evicted = req->evicted, .max_evicted = req->nr_blocks,
			     .tenant = req->domain.tenant };
	int err;

	order_seen(&pool->order, req->domain.tenant, req->keys, req->nr_keys);
	keep_hits(pool, hits);
	err = cache_take(pool, &take);
	if (err)
		return err;
	req->nr_hits = hits->nr;
	req->nr_fresh = take.nr;
	req->nr_evicted = req->evicted ? min(take.nr_evicted, req->nr_blocks) : take.nr_evicted;
	req->nr_untold = take.nr_evicted - req->nr_evicted;
	pool_tell(pool, hit, hits->refs, hits->nr);
	if (take.nr)
		kv_probe3(alloc, pool, take.nr, take.tenant);
	return 0;
}

/* Both locks held. */
static int acquire(struct kvmm_pool *pool, struct kvmm_acquire *req, const struct hits *hits)
{
	int err = check_fit(pool, req, hits);

	if (!err)
		err = take_rest(pool, req, hits);
	if (err)
		undo_hits(pool, hits);
	pool->count.fail_nospc += err == -ENOSPC;
	return err;
}

/* The content of new blocks could not be zeroed. */
static int give_back(struct kvmm_pool *pool, struct kvmm_acquire *req)
{
	kvmm_free(pool, req->fresh, req->nr_fresh);
	kvmm_put_many(pool, req->hits, req->nr_hits);
	req->nr_fresh = req->nr_hits = 0;
	return -EIO;
}

int acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire *req)
{
	struct hits hits = { 0 };
	int err;

	if (acquire_is_bad(req))
		return -EINVAL;
	err = take_hits(pool, req, &hits);
	if (err)
		return err;
	steps_settle(pool);
	err = pool_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	err = acquire(pool, req, &hits);
	order_leave(&pool->order);
	cache_leave(pool);
	if (!err)
		pool_tell(pool, touched, hits.refs, hits.nr);
	if (!err && tenant_take_muts(pool, req->fresh, req->nr_fresh, req->domain.tenant))
		err = give_back(pool, req);
	return err;
}

int kvmm_acquire(struct kvmm_pool *pool, struct kvmm_acquire *req)
{
	int err = acquire_uncounted(pool, req);
	struct kv_query query;

	if (err)
		return err;
	query = (struct kv_query){ req->keys, req->nr_keys, req->domain };
	kv_lookup_end(pool, &query, min(req->nr_keys, req->max_hits), req->nr_hits,
		      req->nr_blocks);
	tally_add(pool, TALLY_SHORT, !req->nr_keys && req->nr_blocks);
	return 0;
}

/* ---- without keys ---- */

static int check_take(struct kvmm_pool *pool, const struct take *take)
{
	u32 keep = door_keep(pool, &take->ask);
	struct quota_want want = { .tenant = take->tenant, .nr = take->nr, .reserve = keep };
	u64 nr = (u64)take->nr + keep;

	if (unlikely(keep == DOOR_SHUT))
		return -ENOSPC;
	if (unlikely(pool->order.quotas != NULL))
		return quota_check_fit(pool, &want);
	if (likely(nr <= cache_nr_available(pool)))
		return 0;
	return pool_drain_local(pool) && nr <= cache_nr_available(pool) ? 0 : -ENOSPC;
}

int private_take(struct kvmm_pool *pool, struct take *take)
{
	int err;

	order_enter(&pool->order);
	err = check_take(pool, take);
	if (likely(!err))
		err = cache_take(pool, take);
	order_leave(&pool->order);
	pool->count.fail_nospc += err == -ENOSPC && !take->ask.waits;
	return err;
}

static int alloc_locked(struct kvmm_pool *pool, u32 nr, u32 tenant, kvmm_mut_t *blocks)
{
	struct take take = { .nr = nr, .blocks = blocks, .tenant = tenant };
	int err;

	mag_make(pool, nr);
	steps_settle(pool);
	err = cache_enter(pool);
	if (err)
		return err;
	err = private_take(pool, &take);
	if (!err)
		mag_fill(pool, nr);
	cache_leave(pool);
	return err;
}

static noinline int zero_content(struct kvmm_pool *pool, u32 nr, u32 tenant, kvmm_mut_t *blocks)
{
	if (!tenant_take_muts(pool, blocks, nr, tenant))
		return 0;
	kvmm_free(pool, blocks, nr);
	return -EIO;
}

/* Nothing is had whatever has to stay free, or waits; pools that refuse calls refuse this one. */
static int alloc_none(struct kvmm_pool *pool)
{
	int err = cache_enter(pool);

	if (!err)
		cache_leave(pool);
	return err;
}

static noinline int alloc_some(struct kvmm_pool *pool, u32 nr, u32 tenant, kvmm_mut_t *blocks)
{
	int err = 0;

	if (!pool || (!blocks && nr))
		return -EINVAL;
	if (!nr)
		return alloc_none(pool);
	if (!mag_alloc_some(pool, nr, blocks))
		err = alloc_locked(pool, nr, tenant, blocks);
	if (!err)
		err = zero_content(pool, nr, tenant, blocks);
	if (!err)
		kv_probe3(alloc, pool, nr, tenant);
	return err;
}

int kvmm_alloc_for(struct kvmm_pool *pool, uint32_t nr, uint32_t tenant, kvmm_mut_t *blocks)
{
	if (likely(nr == 1) && likely(pool) && likely(blocks) &&
	    likely(mag_alloc_one(pool, blocks))) {
		kv_probe3_hot(alloc, pool, 1u, tenant);
		return 0;
	}
	return alloc_some(pool, nr, tenant, blocks);
}
