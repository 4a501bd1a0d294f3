// SPDX-License-Identifier: Apache-2.0
/*
 * Gangs: the set of pools, its table of reservations, and the two phases.
 *
 * A reservation is made outside of the table, with the pools locked, and put there last. The thread
 * that commits, aborts or expires it takes it out of the table first: so only one of them does it,
 * and the set's lock is never held with another one.
 *
 * All pools of a gang are locked in the order of their ids. A pool with a closed gate is waited for
 * with none of them held, from the start again.
 */
#include <kv/mem.h>
#include <kv/pool.h>
#include <pool/determ.h>
#include <pool/lease.h>

#include "gang.h"

#define DEFAULT_MAX_GANGS	256u
#define MAX_GANGS		65536u

/* Guard: ->lock of the set. */
struct gang_slot {
	struct gang	*gang;		/* ours; NULL: free, or reserved for one to come */
	u32		gen;
	u32		next;		/* in the free list; KV_NONE ends it */
};

struct kvmm_gangs {
	/* Fixed at creation. */
	u32			nr_pools;
	u32			nr_slots;
	bool			deterministic;	/* one of the pools is */
	struct kvmm_pool	*pool[KVMM_GANG_MAX_POOLS];	/* borrowed */
	u8			by_id[KVMM_GANG_MAX_POOLS];	/* numbers, in the order of locks */

	struct kv_lock		lock;
	u32			free;		/* ->lock; KV_NONE: none */
	struct kv_gang_stat	stat;		/* ->lock */
	struct gang_slot	slot[];		/* ->lock */
};

/* ---- the set ---- */

static int check_pools(const struct kvmm_gangs_attr *attr)
{
	if (!attr->pools || !attr->nr_pools || attr->nr_pools > KVMM_GANG_MAX_POOLS)
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
	return attr->max_gangs > MAX_GANGS ? -EINVAL : 0;
}

static void add_pool(struct kvmm_gangs *gangs, struct kvmm_pool *pool)
{
	u32 at = gangs->nr_pools++;

	gangs->pool[at] = pool;
	gangs->deterministic |= pool->deterministic;
	while (at && gangs->pool[gangs->by_id[at - 1]]->lock.id > pool->lock.id) {
		gangs->by_id[at] = gangs->by_id[at - 1];
		at--;
	}
	gangs->by_id[at] = gangs->nr_pools - 1;
}

int kvmm_gangs_create(const struct kvmm_gangs_attr *attr, struct kvmm_gangs **result)
{
	struct kvmm_gangs_attr known;
	struct kvmm_gangs *gangs;
	u32 nr;
	int err;

	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_pools(&known);
	if (err)
		return err;
	nr = known.max_gangs ? known.max_gangs : DEFAULT_MAX_GANGS;
	gangs = kv_alloc(sizeof(*gangs) + nr * sizeof(gangs->slot[0]));
	if (!gangs)
		return -ENOMEM;
	kv_lock_init(&gangs->lock, KV_RANK_LEAF, 0);
	for (u32 i = 0; i < known.nr_pools; i++)
		add_pool(gangs, known.pools[i]);
	gangs->nr_slots = nr;
	for (u32 i = 0; i < nr; i++)
		gangs->slot[i] = (struct gang_slot){ .gen = 1,
						     .next = i + 1 < nr ? i + 1 : KV_NONE };
	*result = gangs;
	return 0;
}

/* ---- the pools of a gang ---- */

static void unlock_pools(struct kvmm_gangs *gangs, u32 pools, u32 nr)
{
	while (nr--)
		if (pools & BIT(gangs->by_id[nr]))
			pool_leave(gangs->pool[gangs->by_id[nr]]);
}

/* The first pool with a closed gate, in the order of locking; or all are locked, and NULL. */
static struct kvmm_pool *try_lock_pools(struct kvmm_gangs *gangs, u32 pools)
{
	kv_assert_not_held(&gangs->lock);
	for (u32 i = 0; i < gangs->nr_pools; i++) {
		struct kvmm_pool *pool = gangs->pool[gangs->by_id[i]];

		if (!(pools & BIT(gangs->by_id[i])))
			continue;
		kv_lock(&pool->lock);
		if (likely(!pool->gate))
			continue;
		unlock_pools(gangs, pools, i + 1);
		return pool;
	}
	return NULL;
}

static int lock_pools(struct kvmm_gangs *gangs, u32 pools)
{
	struct kvmm_pool *closed;

	while ((closed = try_lock_pools(gangs, pools))) {
		int err = pool_enter(closed);

		if (err)
			return err;
		pool_leave(closed);
	}
	return 0;
}

/* No lock held any more. */
static void leave_pools(struct kvmm_gangs *gangs, u32 pools)
{
	unlock_pools(gangs, pools, gangs->nr_pools);
	for (u32 i = 0; i < gangs->nr_pools; i++) {
		if (!(pools & BIT(i)))
			continue;
		pool_tell(gangs->pool[i], settle);
		class_tell(gangs->pool[i]);
	}
	kv_rcu_reap();
}

/* ---- the table ---- */

/* *@epoch is the number of this call. */
static int find_room(struct kvmm_gangs *gangs, kvmm_gang_t *handle, u64 *epoch)
{
	int err = -EBUSY;

	kv_lock(&gangs->lock);
	*epoch = ++gangs->stat.epoch;
	if (gangs->free != KV_NONE) {
		*handle = (kvmm_gang_t){ gangs->free, gangs->slot[gangs->free].gen };
		gangs->free = gangs->slot[gangs->free].next;
		err = 0;
	}
	gangs->stat.refused += !!err;
	kv_unlock(&gangs->lock);
	return err;
}

static void push_slot(struct kvmm_gangs *gangs, u32 index)
{
	kv_assert_held(&gangs->lock);
	gangs->slot[index].next = gangs->free;
	gangs->free = index;
}

/* ->lock held. Its handle is stale from here on. A generation is used again after 2^32 gangs. */
static struct gang *take_out(struct kvmm_gangs *gangs, u32 index, u64 *count)
{
	struct gang_slot *slot = &gangs->slot[index];
	struct gang *gang = slot->gang;

	kv_assert_held(&gangs->lock);
	kv_assert(gangs->stat.nr_reserved);
	slot->gang = NULL;
	slot->gen = next_gen(slot->gen);
	push_slot(gangs, index);
	gangs->stat.nr_reserved--;
	++*count;
	return gang;
}

static int find_gang(struct kvmm_gangs *gangs, kvmm_gang_t handle, u64 *count, struct gang **gang)
{
	int err = 0;

	kv_lock(&gangs->lock);
	if (handle.index >= gangs->nr_slots || !handle.gen ||
	    handle.gen > gangs->slot[handle.index].gen)
		err = -EINVAL;
	else if (handle.gen != gangs->slot[handle.index].gen)
		err = -ESTALE;
	else if (!gangs->slot[handle.index].gang)
		err = -EINVAL;
	else
		*gang = take_out(gangs, handle.index, count);
	kv_unlock(&gangs->lock);
	return err;
}

/* ---- reserve ---- */

static bool want_is_bad(const struct kvmm_gangs *gangs, const struct kvmm_gang_want *want)
{
	struct kvmm_range_attr range = { .nr = want->nr, .max_runs = want->max_runs,
					 .prio = want->prio, .flags = want->flags };

	if (want->pool >= gangs->nr_pools || want->kind >= KVMM_NR_GANG_KINDS || !want->nr)
		return true;
	if (want->kind == KVMM_GANG_RANGE)
		return want->reserve || want->flags & KVMM_ALLOC_GROWS ||
		       range_check_attr(gangs->pool[want->pool], &range);
	return want->max_runs || want->prio || want->flags || want->seq ||
	       want->nr > gangs->pool[want->pool]->nr_blocks;
}

static int check_attr(const struct kvmm_gangs *gangs, const struct kvmm_gang_attr *attr)
{
	if (!attr->wants || !attr->nr || attr->nr > KVMM_GANG_MAX_WANTS || attr->reserved)
		return -EINVAL;
	if (attr->lease_ns && !attr->now_ns && gangs->deterministic)
		return -EINVAL;
	for (u32 i = 0; i < attr->nr; i++)
		if (want_is_bad(gangs, &attr->wants[i]))
			return -EINVAL;
	for (u32 i = 0; i < attr->nr; i++)
		if (attr->wants[i].kind == KVMM_GANG_BLOCKS &&
		    !gangs->pool[attr->wants[i].pool]->caches)
			return -EOPNOTSUPP;
	return 0;
}

static u32 nr_muts(const struct kvmm_gang_want *want)
{
	return want->kind == KVMM_GANG_BLOCKS ? want->nr : 0;
}

/* NULL: no memory. */
static struct gang *new_gang(const struct kvmm_gangs *gangs, const struct kvmm_gang_attr *attr)
{
	struct gang *gang;
	kvmm_mut_t *muts;
	u64 nr = 0;

	for (u32 i = 0; i < attr->nr; i++)
		nr += nr_muts(&attr->wants[i]);
	gang = kv_alloc(sizeof(*gang) + attr->nr * sizeof(gang->part[0]) + nr * sizeof(*muts));
	if (!gang)
		return NULL;
	gang->id = attr->id;
	gang->nr = attr->nr;
	gang->deadline_ns = lease_deadline(attr->now_ns ? attr->now_ns : kv_clock_ns(),
					   attr->lease_ns);
	muts = (kvmm_mut_t *)&gang->part[gang->nr];
	for (u32 i = 0; i < gang->nr; i++) {
		struct part *part = &gang->part[i];

		part->want = attr->wants[i];
		part->pool = gangs->pool[part->want.pool];
		part->req.ctx.blocks = muts;
		muts += nr_muts(&part->want);
		gang->pools |= BIT(part->want.pool);
	}
	return gang;
}

/* In the order of numbers, so that it does not depend on which was made first. */
static void sum_gang(struct kvmm_gangs *gangs, const struct gang *gang, int err, struct sum *sum)
{
	sum_add(sum, gang->id);
	sum_add_two(sum, gang->nr, err);
	for (u32 i = 0; i < gang->nr; i++)
		sum_add_bytes(sum, &gang->part[i].want, sizeof(gang->part[i].want));
	for (u32 i = 0; i < gangs->nr_pools; i++) {
		struct kvmm_pool *pool = gangs->pool[i];

		if (!(gang->pools & BIT(i)) || !pool->deterministic)
			continue;
		sum_add_sum(sum, &pool->history);
		/* Under ->lock the order still hears of puts, but not by callers that act alike. */
		if (pool->caches) {
			order_enter(&pool->order);
			sum_add_sum(sum, &pool->order.history);
			order_leave(&pool->order);
		}
	}
	for (u32 i = 0; i < gang->nr && !err; i++)
		if (gang->part[i].pool->deterministic)
			part_sum(&gang->part[i], sum);
}

/* All parts, or none and @failed is the one that was not to be had. */
static int take_once(struct kvmm_gangs *gangs, struct gang *gang, struct sum *sum,
		     struct part **failed, bool *scattered)
{
	int err = lock_pools(gangs, gang->pools);
	u32 i;

	kv_assert_not_held(&gangs->lock);
	if (err)
		return err;
	for (i = 0; i < gang->nr && !err; i++)
		err = part_take(gang, &gang->part[i]);
	if (err)
		*failed = &gang->part[--i];
	while (err && i--)
		part_undo(gang, &gang->part[i]);
	*scattered = err == -ENOSPC && part_is_scattered(*failed);
	sum_gang(gangs, gang, err, sum);
	leave_pools(gangs, gang->pools);
	return err;
}

static int take_gang(struct kvmm_gangs *gangs, struct gang *gang, struct sum *sum)
{
	struct sum begin = *sum;
	struct part *failed = NULL;
	bool scattered = false, was_scattered = false;
	int err = 0;

	for (u32 tries = 0; tries <= gang->nr; tries++) {
		*sum = begin;
		err = take_once(gangs, gang, sum, &failed, &scattered);
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

/* @handle is the gang's from here on, or none's. */
static int reserve(struct kvmm_gangs *gangs, const struct kvmm_gang_attr *attr,
		   kvmm_gang_t handle, struct sum *sum)
{
	struct gang *gang = new_gang(gangs, attr);
	int err = gang ? take_gang(gangs, gang, sum) : -ENOMEM;

	kv_assert_not_held(&gangs->lock);
	kv_lock(&gangs->lock);
	if (!err) {
		gangs->slot[handle.index].gang = gang;
		gangs->stat.nr_reserved++;
	} else {
		gangs->stat.refused++;
		push_slot(gangs, handle.index);
	}
	kv_unlock(&gangs->lock);
	if (err) {
		kv_free(gang);
		sum_add(sum, (u64)err);
	}
	return err;
}

int kvmm_gang_reserve(struct kvmm_gangs *gangs, const struct kvmm_gang_attr *attr,
		      kvmm_gang_t *gang, kvmm_sum_t *digest)
{
	struct kvmm_gang_attr known;
	struct sum sum = { { 0 } };
	kvmm_gang_t handle;
	u64 epoch;
	int err;

	if (kv_inherited(gangs))
		return -ECHILD;
	if (!gangs || !attr || !gang)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(gangs, &known);
	if (err)
		return err;
	err = find_room(gangs, &handle, &epoch);
	sum_add(&sum, epoch);
	if (!err)
		err = reserve(gangs, &known, handle, &sum);
	else
		sum_add(&sum, (u64)err);
	if (!err)
		*gang = handle;
	if (digest)
		*digest = (kvmm_sum_t){ { sum.lane[0], sum.lane[1] } };
	return err;
}

/* ---- abort ---- */

/* Newest first, as it was taken. A pool that refuses has lost track of itself anyhow. */
static int undo_gang(struct kvmm_gangs *gangs, struct gang *gang)
{
	int err = lock_pools(gangs, gang->pools);

	kv_assert_not_held(&gangs->lock);
	if (!err) {
		for (u32 i = gang->nr; i-- > 0;)
			part_undo(gang, &gang->part[i]);
		leave_pools(gangs, gang->pools);
	}
	kv_free(gang);
	return err;
}

int kvmm_gang_abort(struct kvmm_gangs *gangs, kvmm_gang_t handle)
{
	struct gang *gang;
	int err;

	if (kv_inherited(gangs))
		return -ECHILD;
	err = gangs ? find_gang(gangs, handle, &gangs->stat.aborted, &gang) : -EINVAL;
	return err ? err : undo_gang(gangs, gang);
}

static struct gang *take_expired(struct kvmm_gangs *gangs, u32 *at, u64 now_ns)
{
	struct gang *gang = NULL;

	kv_lock(&gangs->lock);
	for (; *at < gangs->nr_slots && !gang; ++*at) {
		const struct gang *here = gangs->slot[*at].gang;

		if (here && here->deadline_ns && here->deadline_ns <= now_ns)
			gang = take_out(gangs, *at, &gangs->stat.expired);
	}
	kv_unlock(&gangs->lock);
	return gang;
}

int kvmm_gang_expire(struct kvmm_gangs *gangs, uint64_t now_ns)
{
	struct gang *gang;
	u32 at = 0, nr = 0;

	if (kv_inherited(gangs))
		return -ECHILD;
	if (!gangs || (!now_ns && gangs->deterministic))
		return -EINVAL;
	if (!now_ns)
		now_ns = kv_clock_ns();
	for (; (gang = take_expired(gangs, &at, now_ns)); nr++)
		undo_gang(gangs, gang);
	return nr;
}

void kvmm_gangs_destroy(struct kvmm_gangs *gangs)
{
	if (!gangs || kv_inherited(gangs))
		return;
	for (u32 i = 0; i < gangs->nr_slots; i++)
		if (gangs->slot[i].gang)
			undo_gang(gangs, gangs->slot[i].gang);
	kv_free(gangs);
}

/* ---- commit ---- */

/* @nr parts were committed, and are given back as their owner would. No lock held. */
static void give_back(struct gang *gang, u32 nr)
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

static int zero_gang(struct gang *gang)
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

/* The pools are locked. How many parts were committed: all, or *@err, and the rest is undone. */
static u32 commit_parts(struct gang *gang, int *err)
{
	u32 nr = 0;

	*err = 0;
	while (nr < gang->nr && !*err) {
		*err = part_commit(&gang->part[nr]);
		nr += !*err;
	}
	for (u32 i = gang->nr; *err && i-- > nr + 1;)
		part_undo(gang, &gang->part[i]);
	return nr;
}

static int commit_gang(struct kvmm_gangs *gangs, struct gang *gang)
{
	int err = lock_pools(gangs, gang->pools);
	u32 nr;

	kv_assert_not_held(&gangs->lock);
	if (err)
		return err;
	nr = commit_parts(gang, &err);
	leave_pools(gangs, gang->pools);
	for (u32 i = 0; i < nr && err; i++)
		if (gang->part[i].want.kind == KVMM_GANG_RANGE && is_zeroed(&gang->part[i]))
			kvmm_range_unpin(gang->part[i].pool, gang->part[i].req.range);
	if (err)
		give_back(gang, nr);
	return err ? err : zero_gang(gang);
}

/* Is an array missing for its handles? The caller has a handle, which may be stale. */
static bool room_is_missing(struct kvmm_gangs *gangs, kvmm_gang_t handle, const void *blocks,
			    const void *ranges)
{
	const struct gang *gang = NULL;
	bool missing = false;

	kv_lock(&gangs->lock);
	if (handle.index < gangs->nr_slots && handle.gen == gangs->slot[handle.index].gen)
		gang = gangs->slot[handle.index].gang;
	for (u32 i = 0; gang && i < gang->nr; i++)
		missing |= gang->part[i].want.kind == KVMM_GANG_RANGE ? !ranges : !blocks;
	kv_unlock(&gangs->lock);
	return missing;
}

int kvmm_gang_commit(struct kvmm_gangs *gangs, kvmm_gang_t handle, kvmm_mut_t *blocks,
		     kvmm_range_t *ranges)
{
	struct gang *gang;
	int err;

	if (kv_inherited(gangs))
		return -ECHILD;
	if (!gangs || room_is_missing(gangs, handle, blocks, ranges))
		return -EINVAL;
	err = find_gang(gangs, handle, &gangs->stat.committed, &gang);
	if (err)
		return err;
	err = commit_gang(gangs, gang);
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

/* ---- looking ---- */

int kv_gang_read_stat(struct kvmm_gangs *gangs, struct kv_gang_stat *stat)
{
	if (kv_inherited(gangs))
		return -ECHILD;
	if (!gangs || !stat)
		return -EINVAL;
	kv_lock(&gangs->lock);
	*stat = gangs->stat;
	kv_unlock(&gangs->lock);
	return 0;
}

int kv_gangs_digest(struct kvmm_gangs *gangs, struct kvmm_digest_info *infos, uint32_t max)
{
	if (!gangs || (max && !infos))
		return -EINVAL;
	for (u32 i = 0; i < min(gangs->nr_pools, max); i++) {
		int err;

		infos[i].size = sizeof(infos[i]);
		err = kvmm_pool_digest(gangs->pool[i], &infos[i]);
		if (err)
			return err;
	}
	return gangs->nr_pools;
}
