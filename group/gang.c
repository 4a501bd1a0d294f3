// SPDX-License-Identifier: Apache-2.0
/*
 * Gangs: parts of several pools, and the two phases.
 *
 * All pools of a gang are locked in the order of their ids. A pool with a closed gate is waited for
 * with none of them held, from the start again.
 */
#include <kv/mem.h>
#include <pool/determ.h>
#include <lease/lease.h>

#include "gang.h"

/* ---- the pools of a gang ---- */

static void unlock_pools(struct kvmm_gang *gang, u32 nr)
{
	while (nr--)
		pool_leave(gang->pool[nr]);
}

static int lock_pools(struct kvmm_gang *gang)
{
	for (u32 i = 0; i < gang->nr_pools;) {
		struct kvmm_pool *pool = gang->pool[i];
		int err;

		kv_lock(&pool->lock);
		if (likely(!pool->gate)) {
			i++;
			continue;
		}
		unlock_pools(gang, i + 1);
		err = pool_enter(pool);
		if (err)
			return err;
		pool_leave(pool);
		i = 0;
	}
	return 0;
}

/* No lock held any more. */
static void leave_pools(struct kvmm_gang *gang)
{
	unlock_pools(gang, gang->nr_pools);
	for (u32 i = 0; i < gang->nr_pools; i++)
		pool_tell(gang->pool[i], settle);
	kv_rcu_reap();
}

/* ---- reserve ---- */

static bool want_is_bad(const struct kvmm_gang_attr *attr, const struct kvmm_gang_want *want)
{
	struct kvmm_range_attr range = { .nr = want->nr, .max_runs = want->max_runs,
					 .prio = want->prio, .flags = want->flags };

	if (want->pool >= attr->nr_pools || want->kind >= KVMM_NR_GANG_KINDS || !want->nr)
		return true;
	if (want->kind == KVMM_GANG_RANGE)
		return want->reserve || range_check_attr(attr->pools[want->pool], &range);
	return want->max_runs || want->prio || want->flags || want->seq ||
	       want->nr > attr->pools[want->pool]->nr_blocks;
}

static int check_attr(const struct kvmm_gang_attr *attr)
{
	if (!attr->pools || !attr->nr_pools || attr->nr_pools > KVMM_GANG_MAX_POOLS ||
	    !attr->wants || !attr->nr || attr->nr > KVMM_GANG_MAX_WANTS)
		return -EINVAL;
	for (u32 i = 0; i < attr->nr_pools; i++) {
		if (!attr->pools[i])
			return -EINVAL;
		if (kv_inherited(attr->pools[i]))
			return -ECHILD;
		for (u32 k = 0; k < i; k++)
			if (attr->pools[k] == attr->pools[i])
				return -EINVAL;
	}
	for (u32 i = 0; i < attr->nr; i++)
		if (want_is_bad(attr, &attr->wants[i]))
			return -EINVAL;
	for (u32 i = 0; i < attr->nr; i++)
		if (attr->wants[i].kind == KVMM_GANG_BLOCKS &&
		    !attr->pools[attr->wants[i].pool]->caches)
			return -EOPNOTSUPP;
	return 0;
}

static u32 nr_muts(const struct kvmm_gang_want *want)
{
	return want->kind == KVMM_GANG_BLOCKS ? want->nr : 0;
}

/* NULL: no memory. */
static struct kvmm_gang *new_gang(const struct kvmm_gang_attr *attr)
{
	struct kvmm_gang *gang;
	kvmm_mut_t *muts;
	u64 nr = 0;

	for (u32 i = 0; i < attr->nr; i++)
		nr += nr_muts(&attr->wants[i]);
	gang = kv_alloc(sizeof(*gang) + attr->nr * sizeof(gang->part[0]) + nr * sizeof(*muts));
	if (!gang)
		return NULL;
	gang->id = attr->id;
	gang->nr = attr->nr;
	muts = (kvmm_mut_t *)&gang->part[gang->nr];
	for (u32 i = 0; i < gang->nr; i++) {
		struct part *part = &gang->part[i];

		part->want = attr->wants[i];
		part->pool = attr->pools[part->want.pool];
		part->req.ctx.blocks = muts;
		muts += nr_muts(&part->want);
	}
	for (u32 i = 0; i < gang->nr; i++) {	/* each pool once, in the order of locks */
		struct kvmm_pool *pool = gang->part[i].pool;
		u32 at = 0;

		while (at < gang->nr_pools && gang->pool[at]->lock.id < pool->lock.id)
			at++;
		if (at < gang->nr_pools && gang->pool[at] == pool)
			continue;
		memmove(&gang->pool[at + 1], &gang->pool[at],
			(gang->nr_pools++ - at) * sizeof(pool));
		gang->pool[at] = pool;
	}
	return gang;
}

/* In the order of wants, so that it does not depend on which pool was made first. */
static void sum_gang(const struct kvmm_gang *gang, int err, struct sum *sum)
{
	for (u32 i = 0; i < gang->nr; i++) {
		struct kvmm_pool *pool = gang->part[i].pool;

		sum_add_bytes(sum, &gang->part[i].want, sizeof(gang->part[i].want));
		if (!pool->deterministic)
			continue;
		sum_add_sum(sum, &pool->history);
		/* Under ->lock the order still hears of puts, but not by callers that act alike. */
		if (pool->caches) {
			order_enter(&pool->order);
			sum_add_sum(sum, &pool->order.history);
			order_leave(&pool->order);
		}
		if (!err)
			part_sum(&gang->part[i], sum);
	}
}

/* All parts, or none and @failed is the one that was not to be had. */
static int take_once(struct kvmm_gang *gang, struct sum *sum, struct part **failed,
		     bool *scattered)
{
	int err = lock_pools(gang);
	u32 i;

	if (err)
		return err;
	for (i = 0; i < gang->nr && !err; i++)
		err = part_take(gang, &gang->part[i]);
	if (err)
		*failed = &gang->part[--i];
	while (err && i--)
		part_undo(gang, &gang->part[i]);
	*scattered = err == -ENOSPC && part_is_scattered(*failed);
	sum_gang(gang, err, sum);
	leave_pools(gang);
	return err;
}

static int take_gang(struct kvmm_gang *gang, struct sum *sum)
{
	struct sum begin = *sum;
	struct part *failed = NULL;
	bool scattered = false, was_scattered = false;
	int err = 0;

	for (u32 tries = 0; tries <= gang->nr; tries++) {
		*sum = begin;
		err = take_once(gang, sum, &failed, &scattered);
		if (err != -ENOSPC || !scattered || tries == gang->nr)
			break;
		was_scattered = true;
		/* Each pool is compacted at most once for each of its wants. */
		if (kvmm_pool_compact(failed->pool, &(struct kvmm_compact){
				.size = sizeof(struct kvmm_compact), .want_run = failed->want.nr,
				.max_blocks = failed->pool->compact_max_blocks }))
			break;
	}
	if (!failed)
		return err;
	/* Once, however often the gang was tried: a part was not to be had, or not at once. */
	kv_lock(&failed->pool->lock);
	failed->req.ctx.scattered |= was_scattered;
	alloc_count(failed->pool, &failed->req.ctx, err);
	pool_leave(failed->pool);
	return err;
}

int kvmm_gang_reserve(const struct kvmm_gang_attr *attr, struct kvmm_gang **result,
		      kvmm_sum_t *digest)
{
	struct kvmm_gang_attr known;
	struct sum sum = { { 0 } };
	struct kvmm_gang *gang;
	int err;

	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	if (err)
		return err;
	sum_add_two(&sum, known.id, known.nr);
	gang = new_gang(&known);
	err = gang ? take_gang(gang, &sum) : -ENOMEM;
	if (err)
		kv_free(gang);
	else
		*result = gang;
	sum_add(&sum, (u64)err);
	if (digest)
		*digest = (kvmm_sum_t){ { sum.lane[0], sum.lane[1] } };
	return err;
}

/* ---- abort ---- */

/* Newest first, as it was taken. What a closed pool lent is lost with it, and nothing else is. */
static int undo_gang(struct kvmm_gang *gang)
{
	int ret = 0, err;

	while ((err = lock_pools(gang))) {
		u32 nr = 0;

		ret = err;
		for (u32 i = 0; i < gang->nr_pools; i++)
			if (!pool_refusal(gang->pool[i]))
				gang->pool[nr++] = gang->pool[i];
		gang->nr_pools = nr;
	}
	for (u32 i = gang->nr; i-- > 0;)
		if (!pool_refusal(gang->part[i].pool))
			part_undo(gang, &gang->part[i]);
	leave_pools(gang);
	return ret;
}

int kvmm_gang_abort(struct kvmm_gang *gang)
{
	int err;

	if (kv_inherited(gang))
		return -ECHILD;
	if (!gang)
		return -EINVAL;
	err = undo_gang(gang);
	kv_free(gang);
	return err;
}

/* ---- commit ---- */

/* @nr parts were committed, and are given back as their owner would. No lock held. */
static void give_back(struct kvmm_gang *gang, u32 nr)
{
	for (u32 i = nr; i-- > 0;) {
		struct part *part = &gang->part[i];

		if (part->want.kind == KVMM_GANG_BLOCKS)
			kvmm_free(part->pool, part->req.ctx.blocks, part->want.nr);
		else if (part->req.range.gen)
			kvmm_range_free(part->pool, part->req.range);
	}
}

static bool is_zeroed(const struct part *part)
{
	return part->pool->zero || part->want.flags & KVMM_ALLOC_ZERO;
}

static int zero_gang(struct kvmm_gang *gang)
{
	int err = 0;

	for (u32 i = 0; i < gang->nr; i++) {
		struct part *part = &gang->part[i];
		int failed;

		if (!is_zeroed(part))
			continue;
		if (part->want.kind == KVMM_GANG_BLOCKS) {
			failed = tenant_take_muts(part->pool, part->req.ctx.blocks, part->want.nr,
						  part->want.tenant);
		} else {
			failed = range_zero(part->pool, part->req.range);
			if (failed)	/* it is gone */
				part->req.range.gen = 0;
		}
		err = err ? err : failed;
	}
	if (err)
		give_back(gang, gang->nr);
	return err ? -EIO : 0;
}

/* All parts are committed, or the rest is undone and they are given back. */
static int commit_gang(struct kvmm_gang *gang)
{
	int err = lock_pools(gang);
	u32 nr = 0;

	if (err)
		return undo_gang(gang);
	while (nr < gang->nr && !err) {
		err = part_commit(&gang->part[nr]);
		nr += !err;
	}
	for (u32 i = gang->nr; err && i-- > nr + 1;)
		part_undo(gang, &gang->part[i]);
	leave_pools(gang);
	for (u32 i = 0; i < nr && err; i++)
		if (gang->part[i].want.kind == KVMM_GANG_RANGE && is_zeroed(&gang->part[i]))
			kvmm_range_unpin(gang->part[i].pool, gang->part[i].req.range);
	if (err)
		give_back(gang, nr);
	return err ? err : zero_gang(gang);
}

int kvmm_gang_commit(struct kvmm_gang *gang, kvmm_mut_t *blocks, kvmm_range_t *ranges)
{
	int err;

	if (kv_inherited(gang))
		return -ECHILD;
	if (!gang)
		return -EINVAL;
	for (u32 i = 0; i < gang->nr; i++)
		if (gang->part[i].want.kind == KVMM_GANG_RANGE ? !ranges : !blocks)
			return -EINVAL;
	err = commit_gang(gang);
	for (u32 i = 0; i < gang->nr && !err; i++) {
		const struct part *part = &gang->part[i];

		if (part->want.kind == KVMM_GANG_RANGE) {
			*ranges++ = part->req.range;
		} else {
			memcpy(blocks, part->req.ctx.blocks, part->want.nr * sizeof(*blocks));
			blocks += part->want.nr;
		}
	}
	kv_free(gang);
	return err;
}
