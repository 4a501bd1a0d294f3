/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks reserved behind the end of ranges that grow.
 *
 * A reservation is soft. Its blocks are taken in the zone, so that no request gets them by
 * accident, and belong to OWNER_RESERVED with the range's index; but they count as free everywhere,
 * and code that would refuse, evict, move or scatter for want of free blocks takes them first. The
 * range itself has no right to them.
 *
 *  1. A reservation begins right behind the last extent of its range, and is in the list of its
 *     pool if and only if it has a block.
 *  2. The list is in the order of last use: growth into it, or its making. clock counts growths.
 *  3. nr_reserved is the number of blocks of kind OWNER_RESERVED, and the sum of the list.
 *
 * Guard of everything: pool->lock, but for those marked RCU. Choices depend on calls only, never on
 * time: pools fed the same calls reserve and steal alike.
 */
#ifndef POOL_GROW_H
#define POOL_GROW_H

#include <kv/rcu.h>
#include <kv/types.h>
#include <kvmm/types.h>

/* Extents from number KVMM_MAX_RUNS on. Replaced as a whole when it gets too small. */
struct more_extents {
	struct kv_rcu_head	rcu;
	u32			nr_room;	/* fixed at creation */
	struct kvmm_extent	ext[];		/* as those of the slot */
};

/* Of one slot: a line of its side record. True of the slot's range if that has SLOT_GREW. */
struct grow {
	struct more_extents	*more;		/* RCU; NULL until there were so many; stays */
	struct grow		*older, *newer;	/* in the list, while res.nr */
	struct kvmm_extent	res;		/* reserved; .nr 0: nothing */
	u64			used;		/* clock at the last use */
	u16			chunk;		/* the last reservation's blocks */
	u16			chunk_before;	/* the same before it grew the last time */
	u32			expect;		/* blocks of the range in the end; 0: unknown */
	u32			calls;		/* growths of the range, or announced: not 0 */
	u32			index;		/* of the slot; fixed at creation */
	u32			in_place;	/* times the range grew behind its end */
	u32			elsewhere;	/* ... by a further extent */
};

#define GROW_HIST	8u	/* extents 1, 2, 3-4, 5-8, ... 65 and more */

/* Of a pool. */
struct pool_grow {
	struct grow	*oldest, *newest;	/* by last use */
	u64		clock;
	u32		nr_reserved;
	u32		nr_lists;		/* reservations in the list */

	/* Events. */
	u64		in_place;
	u64		elsewhere;
	u64		steals;
	u64		stolen_blocks;
	u64		finished_ext;		/* extents of ranges that were freed */
	u64		finished[GROW_HIST];	/* ranges that were freed, by their extents */
	u32		finished_max;
};

#endif /* POOL_GROW_H */
