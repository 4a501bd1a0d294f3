/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine above the driver's table: the body of "soft" and "cuda" devices.
 *
 * dev->lock serialises submissions: it is held while work is queued, never until work is done
 * (but for room in one of the two rings, which is counted as a stall). Functions that take a
 * struct kv_dev expect its context to be entered, unless they say otherwise; kv_dev_begin() does
 * that and takes the lock.
 *
 * Work is ordered by events alone. Work submitted in part is never an error of the call: it
 * gets a fence like all other work, and that fence has failed.
 */
#ifndef KV_CUDA_ENGINE_H
#define KV_CUDA_ENGINE_H

#include <kv/cuda.h>
#include <kv/lock.h>

#include "internal.h"
#include "kernel/launch.h"

#define KV_NR_FENCES		256u
#define KV_SUM_BYTES		32768u		/* results of a round of checksums */
#define KV_NR_SUM_BUFFERS	3u
#define KV_NR_LISTS		8u
#define KV_LIST_BYTES		(128u << 10)
#define KV_WAVE_MOVES		4096u		/* most in a wave; its list fits in KV_LIST_BYTES */
#define KV_BATCH_PIECES		4096u		/* most in a batched copy */
#define KV_BACKGROUND_GROUPS	16u

/*
 * Locks are of the rank KV_RANK_TIER, so that tiers can call in with theirs, and no lock below a
 * pool is held across a driver call; among themselves in this order.
 */
#define KV_AREA_LOCK_ID		0x100000u
#define KV_SUM_LOCK_ID		0x200000u
#define KV_READ_LOCK_ID		0x280000u
#define KV_DEV_LOCK_ID		0x300000u

#define KV_READ_BYTES		(256u << 10)	/* read at a time */

/* One submission that can be waited for. The ring reuses a slot only when it is done. */
struct fence {
	u64 id;				/* dev->lock; 0: never used */
	kcu_event event;		/* fixed once created; recorded under dev->lock */
	kcu_stream stream;		/* dev->lock */
	u64 doubts;			/* dev->lock; kv_gpu_doubts() before it was queued */
	int status;			/* dev->lock; -EIO: failed, done or not */
	bool is_done;			/* dev->lock */
};

/* Room for the planes and moves of a launch, on the host and on the device. */
struct list {
	kcu_event event;		/* recorded behind the last launch that used it */
	kcu_stream stream;		/* dev->lock; of that launch */
	bool is_used;			/* dev->lock */
};

enum kernel_id {
	KERNEL_MOVE16, KERNEL_MOVE16_LIST, KERNEL_MOVE1, KERNEL_MOVE1_LIST,
	KERNEL_SUM, KERNEL_MOVE_SUM, NR_KERNELS,
};

/* Costs of one kind of copy. */
struct cost {
	u32 call_ns;			/* each call, or each piece of a batch */
	u32 mib_per_s;
};

struct costs {
	struct cost cost[KV_NR_COPY_DIRS][KV_NR_PATHS];
	u32 groups;
	u32 measured[KV_NR_COPY_DIRS];	/* bits: paths; of the others the cost is a default */
};

/* Scratch for finding out what may run side by side; see wave.c. */
struct wave_room {
	struct kv_move move[KV_WAVE_MOVES];
	u64 key[2][2 * KV_WAVE_MOVES];
};

struct batch_room {
	kcu_deviceptr dst[KV_BATCH_PIECES];
	kcu_deviceptr src[KV_BATCH_PIECES];
	size_t bytes[KV_BATCH_PIECES];
};

struct kv_driver;

struct kv_dev {
	/* Fixed at creation. */
	struct kv_gpu *gpu;
	struct kv_driver *driver;	/* a reference on it is ours */
	kcu_module module;		/* NULL: no kernels */
	kcu_function kernel[NR_KERNELS];
	struct wave_room *waves;	/* content: ->lock */
	struct batch_room *batch;	/* content: ->lock */
	u8 *lists_host;			/* pinned; NULL: no lists */
	u8 *read_room;			/* content: ->read_lock, and the device */
	kcu_deviceptr lists;		/* images, and KV_NR_SUM_BUFFERS of KV_SUM_BYTES: sum.c */
	struct costs costs;

	struct kv_lock sum_lock;	/* one round of checksums at a time */
	struct kv_lock read_lock;	/* one part of a read at a time */
	bool is_summing;		/* ->lock; the second buffer has sums not fetched */
	struct kv_lock lock;
	struct fence fence[KV_NR_FENCES];	/* by id % KV_NR_FENCES */
	u64 last_id;			/* ->lock; of the fence given out last */
	u64 lost_id;			/* ->lock; last failed fence with a reused slot */
	u64 doubts;			/* ->lock; of the fence reserved last */
	bool is_tied;			/* ->lock; its dependencies were queued: ->doubts stays */
	struct list list[KV_NR_LISTS];	/* ->lock */
	u32 next_list;			/* ->lock */
	u32 list_stamp;			/* ->lock; of the list that was filled last */
	u64 knob[KV_NR_KNOBS];		/* ->lock */
	u32 refused_paths;		/* ->lock; bits: the driver will not do it at all */
	struct kv_dev_stat count;	/* ->lock */

	/* Work may be under way, with an end that cannot be seen any more: nothing new is begun. */
	u32 is_blind;			/* atomic */
};

/* ---- transfer.c; kv_dev_ops, take the lock themselves ---- */

int kv_dev_write(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes);
int kv_dev_read(struct kv_dev *dev, u64 addr, void *buf, u64 bytes);
int kv_dev_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes);

/* ---- fence.c; all but the ops with dev->lock held ---- */

/*
 * Enter the context, trying more than once: for callers that are to give back, or to see the end of
 * work, and cannot fail.
 */
int kv_dev_enter_surely(struct kv_dev *dev, struct kv_gpu_scope *scope);

/*
 * Enter the context and take the lock: 0, -ECHILD, -EIO, or the driver's error. Relaxed, since to
 * ask for the end of work would end the captures of others, too.
 */
int kv_dev_begin(struct kv_dev *dev, struct kv_gpu_scope *scope);

void kv_dev_end(struct kv_dev *dev, struct kv_gpu_scope *scope);

/* Room for one more fence, after any wait that it takes. NULL: -EIO. */
struct fence *kv_fence_reserve(struct kv_dev *dev);

/*
 * All that was put on @stream since kv_fence_reserve() ends with @slot. @status: -EIO if it is not
 * all that should be there. Cannot fail: work that cannot be recorded is waited for.
 */
struct kv_fence kv_fence_commit(struct kv_dev *dev, struct fence *slot, kcu_stream stream,
				int status);

/* Work that @stream is given from now on starts after @after: 0; -EINVAL; -EIO. */
int kv_fence_order(struct kv_dev *dev, kcu_stream stream, struct kv_fence after);

/*
 * All that is to be queued for the fence reserved last is queued again, since the driver refused a
 * part: the refusal puts others in doubt, and not this one unless it depends on others.
 */
void kv_fence_again(struct kv_dev *dev);

/*
 * Until the event is complete, else the stream: 0, or -EIO and the device is blind. 0 says that the
 * end was seen, not that the work is good: that is for the fence to say.
 */
int kv_event_settle(struct kv_dev *dev, kcu_event event, kcu_stream stream);
int kv_stream_settle(struct kv_dev *dev, kcu_stream stream);

/* In the context, without the lock. False: leave memory as it is, for good. */
bool kv_dev_sees_end(struct kv_dev *dev);

int kv_fence_create(struct kv_dev *dev);
void kv_fence_destroy(struct kv_dev *dev);		/* waits for all of them */

/* kv_dev_ops; take the lock themselves. */
int kv_fence_signal(struct kv_dev *dev, void *stream, struct kv_fence *fence);
int kv_fence_stall(struct kv_dev *dev, void *stream, struct kv_fence fence);
int kv_fence_join(struct kv_dev *dev, const struct kv_fence *fences, u32 nr,
		  struct kv_fence *fence);
int kv_fence_poll(struct kv_dev *dev, struct kv_fence fence);
int kv_fence_wait(struct kv_dev *dev, struct kv_fence fence);
int kv_fence_sees_end(struct kv_dev *dev);

/* ---- wave.c; pure ---- */

/* How far a list of moves has been cut into waves. */
struct wave_cursor {
	const struct kv_move *moves;	/* borrowed */
	u32 nr;
	u32 next;
	u32 done;			/* blocks of moves[next], if it overlaps itself */
	bool is_one_space;		/* sources and destinations are blocks of the same planes */
};

/*
 * The next moves that may run in any order, in room->move: how many; 0 = no more. Doing all waves
 * one after the other is doing all moves one after the other.
 */
u32 kv_wave_next(struct wave_room *room, struct wave_cursor *at);

/* ---- path.c; with dev->lock held ---- */

/* A wave on its way. */
struct job {
	struct kv_dev *dev;
	const struct kv_copy *copy;
	const struct kv_move *moves;
	u32 nr;
	u64 nr_blocks;
	kcu_stream stream;
	u32 nr_calls;			/* of the driver that queued something */
	u64 nr_pieces;
	u32 nr_batch;			/* pieces collected for a batched copy */
};

/* Whether that path can do the job: 0, or why not as enum kv_fallback + 1. */
u32 kv_path_refusal(const struct job *job, u32 path);

/* Queue all of it on that path. An error may come after part of it was queued: job->nr_calls. */
int kv_path_submit(struct job *job, u32 path);

/* Expected, on that path. */
u64 kv_cost_ns(const struct kv_dev *dev, u32 dir, u32 path, u64 calls, u64 bytes);

/* Pieces that single calls, or entries of a batch, would be needed for. */
u64 kv_job_pieces(const struct job *job);

/* ---- kernel_path.c; with dev->lock held ---- */

int kv_kernels_load(struct kv_dev *dev);	/* 0; else there are none, and the log says why */
void kv_kernels_unload(struct kv_dev *dev);
int kv_kernel_submit(struct job *job);
bool kv_kernel_serves(const struct kv_planes *src, const struct kv_planes *dst);

/* Adds the sums of @nr blocks up at @sums, which is memory of the device. */
int kv_kernel_sum(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		  kcu_deviceptr sums);

/* Can one launch move and sum all of a job that the kernel serves? The sums are added to @sums. */
bool kv_kernel_sums(const struct job *job);
int kv_kernel_move_sum(struct job *job, kcu_deviceptr sums);

/* ---- copy.c ---- */

int kv_copy_submit(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence);
bool kv_copy_is_good(const struct kv_copy *copy);

/* ---- sum.c ---- */

int kv_sum_blocks(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		  struct kv_fence after, u64 *sums);
int kv_sum_start(struct kv_dev *dev, const struct kv_planes *planes, const struct kv_move *runs,
		 u32 nr, struct kv_fence after, struct kv_fence *fence);
int kv_sum_fetch(struct kv_dev *dev, u64 *sums, u32 nr);

/*
 * Behind the lists, which a device without room for them does not have: for rounds; for sums not
 * fetched; for copies that sum, one after the other on the stream of transfers.
 */
static inline kcu_deviceptr kv_sum_buffer(const struct kv_dev *dev, u32 i)
{
	return dev->lists + KV_NR_LISTS * KV_LIST_BYTES + i * KV_SUM_BYTES;
}

/* ---- calibrate.c ---- */

/* Without the lock; never fails: costs that cannot be measured are from a table. */
void kv_calibrate(struct kv_dev *dev);

/* ---- gpu_info.c; takes the lock itself ---- */

int kv_gpu_info(struct kv_dev *dev, struct kvmm_device_info *info);

/* ---- hostmem.c ---- */

int kv_hostmem_alloc(struct kv_dev *dev, u64 bytes, int node, struct kv_host_mem *mem);
void kv_hostmem_free(struct kv_dev *dev, struct kv_host_mem *mem);

/* ---- vmm.c ---- */

int kv_area_create(struct kv_dev *dev, const struct kv_area_attr *attr, struct kv_area **area);
void kv_area_destroy(struct kv_area *area);
void kv_area_info(struct kv_area *area, struct kv_area_info *info);
int kv_area_grow(struct kv_area *area, u64 offset, u64 bytes);
int kv_area_shrink(struct kv_area *area, u64 offset, u64 bytes);
int kv_area_export(struct kv_area *area, u64 offset, int *fd);
int kv_area_import(struct kv_dev *dev, int fd, u64 bytes, struct kv_area **area);

static inline bool kv_dev_is_blind(struct kv_dev *dev)
{
	return READ_ONCE(dev->is_blind);
}

#endif /* KV_CUDA_ENGINE_H */
