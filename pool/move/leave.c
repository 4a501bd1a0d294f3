// SPDX-License-Identifier: Apache-2.0
/*
 * Pageblocks that leave and come back; see leave.h.
 *
 * The zone believes blocks that are away to be taken; setting them aside and giving them back is no
 * allocation and no free, so the calls for soft reservations serve.
 */
#include <kv/log.h>
#include <kv/mem.h>

#include "../digest.h"
#include "leave.h"

static const u32 away = (u32)OWNER_AWAY << OWNER_INDEX_BITS;

/* ---- blocks ---- */

/* The content left there by an entry is still there. */
static void run_away(struct kvmm_pool *pool, struct elastic *el, u32 start, u32 nr)
{
	for (u32 at = start; at < start + nr; at++) {
		u32 was = pool->owner[at];

		owner_fill(pool, at, 1, away);
		if (owner_kind(was) == OWNER_LEFT)
			pool->owner[at] = make_owner(OWNER_LEFT_AWAY, owner_index(was));
	}
	tenant_forget(pool, start, nr);
	el->nr_away += nr;
}

/* Blocks that others keep aside in the zone are not free there, and come to us later. */
void leave_claim(struct kvmm_pool *pool, struct elastic *el, u32 pb)
{
	u32 at = pb_start(el, pb), end = pb_end(pool, el, pb);
	struct kvmm_extent run;

	kv_assert_held(&pool->lock);
	for (; at < end && !kvmm_zone_next_free(pool->zone, at, &run) && run.start < end;
	     at = run.start + run.nr) {
		u32 lo = max(run.start, at), hi = min(run.start + run.nr, end);

		if (POOL_BUG_ON(pool, kv_reserve_behind(pool->zone, lo, hi - lo, hi - lo) !=
				hi - lo))
			return;
		run_away(pool, el, lo, hi - lo);
	}
}

void leave_begin(struct kvmm_pool *pool, struct elastic *el, u32 pb)
{
	el->state[pb] = PB_LEAVING;
	pool->nr_leaving++;
	leave_claim(pool, el, pb);
}

static void run_is_back(struct kvmm_pool *pool, struct elastic *el, u32 start, u32 nr)
{
	for (u32 at = start; at < start + nr; at++) {
		u32 was = pool->owner[at];

		owner_clear(pool, at, 1);
		if (owner_kind(was) == OWNER_LEFT_AWAY)
			pool->owner[at] = make_owner(OWNER_LEFT, owner_index(was));
	}
	if (unlikely(kv_unreserve(pool->zone, start, nr)))
		pool_poison(pool);
	el->nr_away -= nr;
}

void leave_undo(struct kvmm_pool *pool, struct elastic *el, u32 pb)
{
	u32 end = pb_end(pool, el, pb);

	pool->nr_leaving -= el->state[pb] == PB_LEAVING;
	el->state[pb] = PB_HERE;
	for (u32 at = pb_start(el, pb), nr; at < end; at += max(nr, 1u)) {
		for (nr = 0; at + nr < end && owner_is_away(pool->owner[at + nr]); nr++)
			;
		if (!nr)
			continue;
		run_is_back(pool, el, at, nr);
		release_post(pool, nr);
	}
}

bool leave_settle(struct kvmm_pool *pool, struct elastic *el, u32 pb)
{
	for (u32 at = pb_start(el, pb); at < pb_end(pool, el, pb); at++)
		if (!owner_is_away(pool->owner[at]))
			return false;
	/* Content left there goes with the memory. */
	for (u32 at = pb_start(el, pb); at < pb_end(pool, el, pb); at++)
		pool->owner[at] = away;
	el->state[pb] = PB_AWAY;
	pool->nr_leaving--;
	return true;
}

/* ---- questions of other files ---- */

void elastic_free(struct kvmm_pool *pool, struct kvmm_extent run)
{
	run_away(pool, pool->elastic, run.start, run.nr);
}

void elastic_victim_left(struct kvmm_pool *pool, u32 block, u32 index)
{
	const struct elastic *el = pool->elastic;

	if (pool->owner[block] == away && el->state[block >> el->shift] == PB_LEAVING)
		pool->owner[block] = make_owner(OWNER_LEFT_AWAY, index);
}

void elastic_victim_return(struct kvmm_pool *pool, u32 block, u32 index)
{
	if (pool->owner[block] == make_owner(OWNER_LEFT_AWAY, index))
		run_is_back(pool, pool->elastic, block, 1);
}

struct kvmm_extent elastic_run(const struct kvmm_pool *pool, u32 start)
{
	u32 end = start;

	while (end < pool->nr_blocks && owner_is_away(pool->owner[end]))
		end++;
	return (struct kvmm_extent){ start, end - start };
}

bool elastic_is_away(const struct kvmm_pool *pool, u32 block)
{
	const struct elastic *el = pool->elastic;

	return unlikely(el != NULL) && el->state[block >> el->shift] == PB_AWAY;
}

bool __elastic_is_leaving(const struct kvmm_pool *pool, struct kvmm_extent run)
{
	const struct elastic *el = pool->elastic;

	kv_assert_held(&pool->lock);
	for (u32 pb = run.start >> el->shift; pb <= (run.start + run.nr - 1) >> el->shift; pb++)
		if (el->state[pb] == PB_LEAVING)
			return true;
	return false;
}

u32 elastic_nr_away(const struct kvmm_pool *pool)
{
	const struct elastic *el = elastic_of(pool);

	return el ? el->nr_away : 0;
}

/* ---- making ---- */

static int alloc_tables(struct kvmm_pool *pool, struct elastic *el)
{
	el->nr = ((pool->nr_blocks - 1) >> el->shift) + 1;
	el->state = kv_alloc(el->nr);
	el->waiting = kv_alloc(el->nr);
	el->heap = kv_alloc_array(el->nr, sizeof(*el->heap));
	el->mark = kv_alloc(el->nr);
	el->move = kv_alloc_array(LEAVE_MOVES, sizeof(*el->move));
	return el->state && el->waiting && el->heap && el->mark && el->move ? 0 : -ENOMEM;
}

static void free_elastic(struct elastic *el)
{
	units_exit(el);
	kv_free(el->state);
	kv_free(el->waiting);
	kv_free(el->heap);
	kv_free(el->mark);
	kv_free(el->move);
	kv_free(el);
}

/* Below this a pageblock covers less than a unit, or wastes more than an eighth at its ends. */
static u32 size_for_span(const struct elastic *el, const struct span *span)
{
	u64 exact = el->unit_bytes >> min((u64)kv_lowest64(span->stride),
					  (u64)kv_log2(el->unit_bytes));
	u64 size = 1;

	while (size < exact && size * span->stride < 8 * el->unit_bytes)
		size *= 2;
	return size;
}

static u32 size_for(const struct kvmm_pool *pool, const struct elastic *el)
{
	u32 size = el->unit_bytes ? 1 : BIT(pool->zone->pageblock_order);

	for (u32 i = 0; i < el->nr_spans; i++)
		size = max(size, size_for_span(el, &el->span[i]));
	return min(size, BIT(kv_order(pool->nr_blocks)));
}

static int fill(struct kvmm_pool *pool, struct elastic *el, const struct kvmm_elastic_attr *attr)
{
	struct kv_area_info info;

	if (pool->rounds)
		return -EOPNOTSUPP;
	if (pool->area) {
		pool->parts.dev->area_info(pool->area, &info);
		if (!info.is_elastic)
			return -EOPNOTSUPP;
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
	el->size = attr->pageblock_blocks ?: size_for(pool, el);
	el->shift = kv_log2(el->size);
	return alloc_tables(pool, el);
}

int elastic_get_as(struct kvmm_pool *pool, const struct kvmm_elastic_attr *attr,
		   struct elastic **result)
{
	struct elastic *el = pool->elastic;
	int err;

	kv_assert_held(&pool->compact_lock);
	*result = el;
	if (el)
		return 0;
	el = kv_alloc(sizeof(*el));
	if (!el)
		return -ENOMEM;
	err = fill(pool, el, attr);
	if (err) {
		free_elastic(el);
		return err;
	}
	*result = el;
	/* Pairs with elastic_of(): a thread that sees it sees it filled. */
	smp_store_release(&pool->elastic, el);
	return 0;
}

int elastic_get(struct kvmm_pool *pool, struct elastic **el)
{
	const struct kvmm_elastic_attr defaults = { .size = sizeof(defaults) };

	return elastic_get_as(pool, &defaults, el);
}

static void elastic_exit(struct kvmm_pool *pool)
{
	if (pool->elastic)
		free_elastic(pool->elastic);
	pool->elastic = NULL;
}

static u64 elastic_bytes(struct kvmm_pool *pool)
{
	const struct elastic *el = elastic_of(pool);
	u64 bytes;

	if (!el)
		return 0;
	bytes = sizeof(*el) + el->nr * (3 + sizeof(*el->heap)) +
		LEAVE_MOVES * sizeof(*el->move);
	for (u32 i = 0; i < el->nr_spans; i++)
		bytes += sizeof(*el->span) + 3 * KV_WORDS(el->span[i].nr_units) * sizeof(u64);
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
		err = pool->elastic ? -EBUSY : elastic_get_as(pool, &attr, &el);
	kv_unlock(&pool->compact_lock);
	return err;
}

/* ---- checking ---- */

static int check_pageblock(const struct kvmm_pool *pool, const struct elastic *el, u32 pb)
{
	u32 nr = 0, nr_left = 0;

	for (u32 at = pb_start(el, pb); at < pb_end(pool, el, pb); at++) {
		nr += owner_is_away(pool->owner[at]);
		nr_left += owner_kind(pool->owner[at]) == OWNER_LEFT_AWAY;
	}
	if (el->state[pb] > PB_AWAY || el->waiting[pb] > WAIT_EPOCH ||
	    (el->waiting[pb] && el->state[pb] != PB_AWAY))
		return -EUCLEAN;
	if (el->state[pb] == PB_HERE)
		return nr ? -EUCLEAN : 0;
	return el->state[pb] == PB_AWAY && (nr != pb_nr(pool, el, pb) || nr_left) ? -EUCLEAN : 0;
}

static int elastic_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct elastic *el = pool->elastic;
	u32 nr_leaving = 0, nr_waiting = 0;

	if (!el)
		return re->nr_owned[OWNER_AWAY] || pool->nr_leaving ? -EUCLEAN : 0;
	for (u32 pb = 0; pb < el->nr; pb++) {
		if (check_pageblock(pool, el, pb))
			return -EUCLEAN;
		nr_leaving += el->state[pb] == PB_LEAVING;
		nr_waiting += el->waiting[pb] != WAIT_NO;
	}
	if (re->nr_owned[OWNER_AWAY] != el->nr_away || nr_leaving != pool->nr_leaving ||
	    nr_waiting != el->wait.nr || (nr_leaving && !el->job.active))
		return -EUCLEAN;
	return units_check(pool, el);
}

void elastic_sum(struct sum *sum, const struct kvmm_pool *pool)
{
	const struct elastic *el = pool->elastic;

	for (u32 pb = 0; el && pb < el->nr; pb++)
		if (el->state[pb] != PB_HERE)
			sum_add_two(sum, pb, el->size);
}

POOL_PART(elastic) = {
	.name	= "blocks that are away",
	.exit	= elastic_exit,
	.bytes	= elastic_bytes,
	.check	= elastic_check,
};
