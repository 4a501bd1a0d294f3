// SPDX-License-Identifier: Apache-2.0
/* Up to the high watermark: blocks are evicted before a request has to wait for it. */
#include <kv/env.h>
#include <pool/local.h>

#define BATCH	64u

struct progress {
	u64 until_ns;		/* 0: no limit */
	u32 left;		/* of the budget of blocks */
	u32 nr_evicted;
	u32 nr_free;
};

/* As many as are missing, at most a batch: 0 there is more to do, else the end. Both locks held. */
static int evict_some(struct kvmm_pool *pool, struct progress *p, bool *done)
{
	u32 high = pool->door.marks.high, nr_free = pool_nr_free(pool) + pool_nr_parked(pool);
	struct victims victims = NO_VICTIMS;
	u32 nr;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	nr_free += nr_free < high ? pool_drain_local(pool) : 0;
	p->nr_free = nr_free + pool_nr_local(pool);
	*done = nr_free >= high;
	if (*done)
		return 0;
	if (!p->left || (p->until_ns && kv_clock_ns() >= p->until_ns))
		return -EAGAIN;
	victims_pick_named(pool, min(min(high - nr_free, BATCH), p->left), &victims);
	victims_spare_parked(pool, &victims);
	nr = victims.nr;
	p->nr_evicted += victims_evict(pool, &victims);
	p->left -= nr;
	p->nr_free += nr;
	return nr ? 0 : -ENOSPC;
}

/* Fields that an older caller has no room for are not written. */
int kvmm_reclaim(struct kvmm_pool *pool, struct kvmm_reclaim_args *req)
{
	struct kvmm_reclaim_args known;
	struct progress p = { 0 };
	bool done = false;
	int err;

	if (!pool || !req)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), req);
	if (err)
		return -EINVAL;
	p.left = known.max_blocks ? known.max_blocks : UINT32_MAX;
	if (known.max_us && pool->deterministic)	/* a count: of 1 us for each block */
		p.left = min(p.left, known.max_us);
	else if (known.max_us)
		p.until_ns = kv_clock_ns() + known.max_us * 1000ull;
	do {
		err = cache_enter(pool);
		if (err)
			break;
		order_enter(&pool->order);
		err = evict_some(pool, &p, &done);
		order_leave(&pool->order);
		cache_leave(pool);
	} while (!err && !done);
	known.nr_evicted = p.nr_evicted;
	known.nr_free = p.nr_free;
	kv_give_sized(req, &known, sizeof(known));
	return err;
}
