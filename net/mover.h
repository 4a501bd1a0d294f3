/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content from one list of blocks to another, on any two devices, a bounded part at a time.
 *
 * Two lanes, so that one is filled while the other is emptied. Directly, a lane is one copy:
 *
 *	IDLE --> OUT --> IDLE
 *
 * By host memory of our own it is two:
 *
 *	IDLE --> OUT --> FULL --> IN --> IDLE
 *
 * No lock: a mover belongs to one job, or one session.
 */
#ifndef NET_MOVER_H
#define NET_MOVER_H

#include <kv/dev.h>
#include <kv/pool_migrate.h>
#include <kv/types.h>
#include <kvmm/ext/migrate.h>

/* One side: blocks of a pool, or memory without a pool. Borrowed. */
struct end {
	const struct kv_dev_ops *ops;	/* NULL: host memory */
	struct kv_dev *dev;
	unsigned int dev_number;
	struct kv_planes planes;
	const u32 *block;		/* by number; NULL: 0, 1, ... */
};

static inline struct end end_of(const struct kv_pool_view *view, const u32 *block)
{
	return (struct end){ view->ops, view->dev, view->dev_number, view->planes, block };
}

/* Which device copies, and how. */
struct route {
	const struct kv_dev_ops *ops;
	struct kv_dev *dev;
	u32 dir;			/* enum kv_copy_dir */
	struct kv_dev *peer;
};

enum lane_state { LANE_IDLE, LANE_OUT, LANE_FULL, LANE_IN };

struct lane {
	enum lane_state state;
	u32 first;			/* number of its first block */
	u32 nr;
	struct kv_fence fence;		/* of @route; OUT and IN */
	struct route route;
	struct kv_host_mem mem;		/* ours; staged only */
	struct kvmm_plane *plane;	/* ours; the same */
};

#define NR_LANES	2u

struct mover {
	/* Fixed at creation. */
	struct end from;
	struct end to;
	u32 nr;				/* blocks */
	u32 chunk;			/* blocks a lane */
	u32 flags;			/* KV_COPY_BACKGROUND */
	u64 block_bytes;
	struct kv_move *move;		/* ours; room for a chunk */

	u32 path;			/* enum kvmm_migrate_path */
	u32 next;			/* number of the first block that no lane has had */
	u32 nr_done;
	u32 nr_descriptors;
	int err;			/* nothing is begun any more */
	const struct kv_dev_ops *stage_ops;	/* of the lanes' memory */
	struct kv_dev *stage_dev;
	struct lane lane[NR_LANES];
};

/* Where a block's pieces lie in memory of their own, one plane behind the other. */
u64 stage_bytes(const struct kv_planes *planes, u32 nr_blocks);
void stage_planes(const struct kv_planes *like, u64 base, u32 nr_blocks, struct kvmm_plane *planes);

/* How to copy between the two: KVMM_MIGRATE_PATH_STAGED: not in one go. */
u32 route_find(const struct end *from, const struct end *to, struct route *route);

/* Runs that are consecutive on both sides. Room for @nr; how many. */
u32 moves_make(const u32 *src, const u32 *dst, u32 first, u32 nr, struct kv_move *move);

struct mover_attr {
	struct end from;
	struct end to;
	u32 nr;
	u64 chunk_bytes;
	u32 flags;
};

/* 0, -ENOMEM. Memory to stage in is had when it is needed. */
int mover_init(struct mover *mover, const struct mover_attr *attr);
/* Waits for copies on their way. */
void mover_exit(struct mover *mover);

/* Get on: 0 all is copied; -EINPROGRESS; or an error, and nothing is on its way any more. */
int mover_step(struct mover *mover);
/* From now on mover_step() ends with @err as soon as nothing is on its way. */
void mover_stop(struct mover *mover, int err);

#endif /* NET_MOVER_H */
