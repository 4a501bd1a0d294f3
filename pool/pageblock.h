/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pageblocks that leave the pool, with the memory behind them: as far as blocks, owners and the
 * zone are concerned. Which of them leave, and when, is decided above; see leave.h.
 *
 *	HERE ---> LEAVING --empty--> AWAY ---> HERE
 *
 * Blocks of a pageblock that is leaving go to OWNER_AWAY as they become free: blocks_free() looks
 * at pool->nr_leaving. In the zone they are taken, so no request gets one, and no count of free
 * blocks has them. Blocks that threads keep aside are drained before, and at each poll. The block
 * of a victim is OWNER_LEFT_AWAY as long as its pageblock is LEAVING: if the request fails the
 * victim has it back.
 *
 * Part of internal.h, and included by that alone. One untaken branch each where nothing is away.
 */
#ifndef POOL_PAGEBLOCK_H
#define POOL_PAGEBLOCK_H

enum pageblock_state { PB_HERE, PB_LEAVING, PB_AWAY };

static inline u32 pb_start(const struct kvmm_pool *pool, u32 pb)
{
	return pb << pool->pb.shift;
}

static inline u32 pb_end(const struct kvmm_pool *pool, u32 pb)
{
	return min(pb_start(pool, pb + 1), pool->nr_blocks);
}

static inline u32 pb_nr(const struct kvmm_pool *pool, u32 pb)
{
	return pb_end(pool, pb) - pb_start(pool, pb);
}

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

struct sum;
void elastic_sum(struct sum *sum, const struct kvmm_pool *pool);

/* The calls below: compact_lock and pool->lock held. */

/* LEAVING from here on, and its free blocks are AWAY. */
void leave_begin(struct kvmm_pool *pool, u32 pb);
/* The same for blocks that threads kept aside and have freed since. */
void leave_claim(struct kvmm_pool *pool, u32 pb);
/* HERE again, with all that is free in it. */
void leave_undo(struct kvmm_pool *pool, u32 pb);
/* From LEAVING to AWAY, if it is empty. */
bool leave_settle(struct kvmm_pool *pool, u32 pb);

/* ---- offline: memory ---- */

u64 __elastic_relent(struct kvmm_pool *pool, const struct alloc_ctx *room);
void __elastic_unrelent(struct kvmm_pool *pool, u64 target);

/*
 * Work that is due of a shrink beside steps, or of the balloon: written with compact_lock held; a
 * hint. No lock held.
 */
static inline void elastic_tick(struct kvmm_pool *pool)
{
	int (*tick)(struct kvmm_pool *pool) = READ_ONCE(pool->elastic_tick);

	if (unlikely(tick != NULL))
		tick(pool);
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

#endif /* POOL_PAGEBLOCK_H */
