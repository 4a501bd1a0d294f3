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
	const struct kv_dev *mapped;	/* that addresses this host memory; or NULL */
};

static inline struct end end_of(const struct kv_pool_view *view, const u32 *block)
{
	return (struct end){ view->ops, view->dev, view->dev_number, view->planes, block, NULL };
}

/* One copy of blocks [@first, @first + @nr). */
struct copy {
	bool busy;			/* it is on its way */
	u32 first;
	u32 nr;
	u32 path;			/* enum kvmm_migrate_path */
	const struct kv_dev_ops *ops;	/* of the device that copies */
	struct kv_dev *dev;
	struct kv_fence fence;
};

enum lane_state { LANE_IDLE, LANE_OUT, LANE_FULL, LANE_IN };

struct lane {
	enum lane_state state;
	struct copy copy;		/* OUT and IN; its blocks: FULL, too */
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
	struct lane lane[NR_LANES];
};

/* Where a block's pieces lie in memory of their own, one plane behind the other. */
u64 stage_bytes(const struct kv_planes *planes, u32 nr_blocks);
void stage_planes(const struct kv_planes *like, u64 base, u32 nr_blocks, struct kvmm_plane *planes);

/*
 * Begin @copy of the blocks that it says: how many descriptors that took, of which @move has room
 * for one a block; or an error, -EOPNOTSUPP not in one go.
 */
int copy_begin(struct copy *copy, const struct end *from, const struct end *to,
	       struct kv_move *move, u32 flags);
/* 0 it is through, or there was none; -EINPROGRESS; or an error, and it is not busy any more. */
int copy_poll(struct copy *copy);
void copy_wait(struct copy *copy);

/* @from, @to, @flags, and as @nr what there may be, are set, all else is 0: 0, -ENOMEM. Memory to
 * stage in is had when it is needed. */
int mover_init(struct mover *mover, u64 chunk_bytes);
/* All is copied of what there was, and these @nr begin with it. */
void mover_list(struct mover *mover, const u32 *from, const u32 *to, u32 nr);
/* Waits for copies on their way. */
void mover_exit(struct mover *mover);

/* Get on: 0 all is copied; -EINPROGRESS; or an error, and nothing is on its way any more. */
int mover_step(struct mover *mover);
/* From now on mover_step() ends with @err as soon as nothing is on its way. */
void mover_stop(struct mover *mover, int err);

/* So many blocks are summed up in one go: they have at most 16 MiB, or are one. */
u32 sum_portion(u64 block_bytes);

/*
 * @sums[i] := checksum of block @first + i of @end, for @nr of them. Pools of ids only have none:
 * 0. The device is waited for, and each sums up its own blocks, by the same formula: those of the
 * destination after the copy, since the word of the device that wrote them is not believed. 0;
 * -EIO; -ENOMEM. @end is a pool's.
 */
int sum_list(const struct end *end, u32 first, u32 nr, u64 *sums);

#endif /* NET_MOVER_H */
