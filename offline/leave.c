// SPDX-License-Identifier: Apache-2.0
/* What is kept of memory that leaves and comes back: made, checked and ended; see leave.h. */
#include <kv/mem.h>

#include "leave.h"

/* ---- making ---- */

static void free_elastic(struct elastic *el)
{
	units_exit(el);
	kv_free(el->waiting);
	kv_free(el->heap);
	kv_free(el->mark);
	kv_free(el->move);
	kv_free(el);
}

static int fill(struct kvmm_pool *pool, struct elastic *el, const struct kvmm_elastic_attr *attr,
		struct pageblocks *pbs)
{
	struct kv_area_info info;
	u32 size;

	kv_assert_held(&pool->compact_lock);
	if (pool->rounds)
		return -EOPNOTSUPP;
	if (pool->area) {
		pool->parts.dev->area_info(pool->area, &info);
		el->unit_bytes = info.unit_bytes;
	} else if (pool->nr_planes) {
		el->unit_bytes = attr->unit_bytes ?: DEFAULT_UNIT;
	}
	if (pool->own_addr && !pool->area)
		return -EOPNOTSUPP;
	if (units_init(pool, el))
		return -ENOMEM;
	if (el->unit_bytes && !el->nr_spans)
		return -EOPNOTSUPP;
	size = el->unit_bytes ? 1 : BIT(pool->zone->pageblock_order);
	/* Below this a pageblock covers less than a unit, or wastes over an eighth at its ends. */
	for (u32 i = 0; i < el->nr_spans; i++) {
		u64 stride = el->span[i].stride, least = 1;
		u64 exact = el->unit_bytes >> min((u64)kv_lowest64(stride),
						  (u64)kv_log2(el->unit_bytes));

		while (least < exact && least * stride < 8 * el->unit_bytes)
			least *= 2;
		size = max(size, (u32)least);
	}
	pbs->size = attr->pageblock_blocks ?: min(size, BIT(kv_order(pool->nr_blocks)));
	pbs->shift = kv_log2(pbs->size);
	pbs->nr = ((pool->nr_blocks - 1) >> pbs->shift) + 1;
	pbs->state = kv_alloc(pbs->nr);
	el->waiting = kv_alloc(pbs->nr);
	el->heap = kv_alloc_array(pbs->nr, sizeof(*el->heap));
	el->mark = kv_alloc(pbs->nr);
	el->move = kv_alloc_array(LEAVE_MOVES, sizeof(*el->move));
	return pbs->state && el->waiting && el->heap && el->mark && el->move ? 0 : -ENOMEM;
}

static int get_as(struct kvmm_pool *pool, const struct kvmm_elastic_attr *attr,
		  struct elastic **result)
{
	struct elastic *el = pool->elastic;
	struct pageblocks pbs = { 0 };
	int err;

	kv_assert_held(&pool->compact_lock);
	*result = el;
	if (el)
		return 0;
	el = kv_alloc(sizeof(*el));
	if (!el)
		return -ENOMEM;
	err = fill(pool, el, attr, &pbs);
	if (err) {
		kv_free(pbs.state);
		free_elastic(el);
		return err;
	}
	kv_lock(&pool->lock);
	pool->pb.size = pbs.size;	/* what is read without a lock, .nr_away, stays 0 */
	pool->pb.shift = pbs.shift;
	pool->pb.nr = pbs.nr;
	pool->pb.state = pbs.state;
	kv_unlock(&pool->lock);
	*result = el;
	/* Pairs with elastic_of(): a thread that sees it sees it filled. */
	smp_store_release(&pool->elastic, el);
	return 0;
}

int elastic_get(struct kvmm_pool *pool, struct elastic **el)
{
	const struct kvmm_elastic_attr defaults = { .size = sizeof(defaults) };

	kv_assert_held(&pool->compact_lock);
	return get_as(pool, &defaults, el);
}

static void elastic_exit(struct kvmm_pool *pool)
{
	if (pool->elastic)
		free_elastic(pool->elastic);
	pool->elastic = NULL;
	kv_free(pool->pb.state);
	pool->pb.state = NULL;
}

static u64 elastic_bytes(struct kvmm_pool *pool)
{
	const struct elastic *el = elastic_of(pool);
	u64 bytes;

	if (!el)
		return 0;
	bytes = sizeof(*el) + pool->pb.nr * (3 + sizeof(*el->heap)) +
		LEAVE_MOVES * sizeof(*el->move);
	for (u32 i = 0; i < el->nr_spans; i++)
		bytes += sizeof(*el->span) + el->span[i].nr_units;
	return bytes;
}

int elastic_setup(struct kvmm_pool *pool, const void *src)
{
	struct kvmm_elastic_attr attr;
	struct elastic *el;
	int err;

	if (!src)
		return -EINVAL;
	err = kv_copy_attr(&attr, sizeof(attr), src);
	if (err || attr.reserved || (attr.unit_bytes && !kv_is_pow2(attr.unit_bytes)) ||
	    (attr.pageblock_blocks && (!kv_is_pow2(attr.pageblock_blocks) ||
				       attr.pageblock_blocks > KVMM_MAX_BLOCKS)) ||
	    (attr.unit_bytes && (pool->area || !pool->nr_planes)))
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	err = pool_refusal(pool);
	if (!err)
		err = pool->elastic ? -EBUSY : get_as(pool, &attr, &el);
	kv_unlock(&pool->compact_lock);
	return err;
}

/* ---- checking ---- */

static int check_pageblock(const struct kvmm_pool *pool, const struct elastic *el, u32 pb)
{
	u32 nr = 0, nr_left = 0;

	for (u32 at = pb_start(pool, pb); at < pb_end(pool, pb); at++) {
		nr += owner_is_away(pool->owner[at]);
		nr_left += owner_kind(pool->owner[at]) == OWNER_LEFT_AWAY;
	}
	if (pool->pb.state[pb] > PB_AWAY || el->waiting[pb] > WAIT_EPOCH ||
	    (el->waiting[pb] && pool->pb.state[pb] != PB_AWAY))
		return -EUCLEAN;
	if (pool->pb.state[pb] == PB_HERE)
		return nr ? -EUCLEAN : 0;
	return pool->pb.state[pb] == PB_AWAY && (nr != pb_nr(pool, pb) || nr_left) ? -EUCLEAN : 0;
}

static int elastic_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct elastic *el = pool->elastic;
	u32 nr_leaving = 0, nr_waiting = 0;

	if (!el)
		return re->nr_owned[OWNER_AWAY] || pool->nr_leaving ? -EUCLEAN : 0;
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		if (check_pageblock(pool, el, pb))
			return -EUCLEAN;
		nr_leaving += pool->pb.state[pb] == PB_LEAVING;
		nr_waiting += el->waiting[pb] != WAIT_NO;
	}
	if (re->nr_owned[OWNER_AWAY] != pool->pb.nr_away || nr_leaving != pool->nr_leaving ||
	    nr_waiting != el->wait.nr || (nr_leaving && !el->job.active))
		return -EUCLEAN;
	return units_check(pool, el);
}

POOL_PART(elastic) = {
	.name	= "blocks that are away",
	.exit	= elastic_exit,
	.bytes	= elastic_bytes,
	.check	= elastic_check,
};
