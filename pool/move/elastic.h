/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the rest of the pool about memory that was given back; see leave.h.
 *
 * Part of internal.h, and included by that alone. One untaken branch each where nothing is away.
 */
#ifndef POOL_ELASTIC_H
#define POOL_ELASTIC_H

struct elastic;
struct sum;

/* The run lost its owner in a pageblock that is leaving: it is away. ->lock held. */
void elastic_free(struct kvmm_pool *pool, struct kvmm_extent run);
/*
 * victim_left() and victim_return() where the block is in a pageblock that is leaving. The latter
 * leaves it free, and left by @index, if it was left by that. ->lock held.
 */
void elastic_victim_left(struct kvmm_pool *pool, u32 block, u32 index);
void elastic_victim_return(struct kvmm_pool *pool, u32 block, u32 index);
/* Blocks from @start on that are away. ->lock held. */
struct kvmm_extent elastic_run(const struct kvmm_pool *pool, u32 start);
/* There is no memory behind the block, or soon will not be. compact_lock held. */
bool elastic_is_away(const struct kvmm_pool *pool, u32 block);
bool __elastic_is_leaving(const struct kvmm_pool *pool, struct kvmm_extent run);

/* Its content goes with the memory, or to another place, as soon as may be; it makes no room. */
static inline bool elastic_is_leaving(const struct kvmm_pool *pool, struct kvmm_extent run)
{
	return unlikely(pool->nr_leaving) && __elastic_is_leaving(pool, run);
}

/* How many are. ->lock held. */
u32 elastic_nr_away(const struct kvmm_pool *pool);

int __elastic_tick(struct kvmm_pool *pool);
u64 __elastic_relent(struct kvmm_pool *pool, const struct alloc_ctx *room);
void __elastic_unrelent(struct kvmm_pool *pool, u64 target);

/* Work that is due of a shrink beside steps, or of the balloon. No lock held. */
static inline void elastic_tick(struct kvmm_pool *pool)
{
	if (unlikely(READ_ONCE(pool->elastic_due)))
		__elastic_tick(pool);
}

/*
 * The request does not fit as things are: it may have the balloon's memory. Returns the target that
 * the balloon had, or 0 if it has not left anything. compact_lock held.
 */
static inline u64 elastic_relent(struct kvmm_pool *pool, const struct alloc_ctx *room)
{
	return unlikely(room->prio && pool->elastic) ? __elastic_relent(pool, room) : 0;
}

/* Refused all the same: by ticks the balloon comes to @target again. compact_lock held. */
static inline void elastic_unrelent(struct kvmm_pool *pool, u64 target)
{
	if (unlikely(target))
		__elastic_unrelent(pool, target);
}

void elastic_sum(struct sum *sum, const struct kvmm_pool *pool);

#endif /* POOL_ELASTIC_H */
