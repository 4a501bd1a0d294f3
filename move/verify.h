/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of content: see <kvmm/ext/inspect.h>.
 *
 *  1. An entry has a checksum as long as gen[] has its generation; 0 is none.
 *  2. Entries of the job are MOVING: they stay where they are, and have no other owner.
 *  3. Where completions are told a job is one of them. It has failed if a block of it is wrong on
 *     any rank; its blocks are then looked at one by one, so that all ranks lose the same one.
 */
#ifndef POOL_VERIFY_H
#define POOL_VERIFY_H

#include <kvmm/ext/inspect.h>
#include <pool/internal.h>

#define VERIFY_BATCH	64u

struct verify_job {
	u32			nr;		/* 0: there is none */
	bool			on_device;	/* fetch the sums; else take them */
	bool			is_cheap;	/* READ_ONCE(); to end it waits for nothing */
	bool			has_begun;	/* else the device has been at other sums so far */
	bool			is_read;	/* ->sum is filled */
	int			error;		/* of the device; -EBADMSG: a wrong block */
	struct kv_fence		after;		/* of the engine's work so far */
	struct kv_fence		fence;
	struct completion	completion;
	u64			sum[VERIFY_BATCH];
	struct kv_handle	handle[VERIFY_BATCH];
	struct kv_move		run[VERIFY_BATCH];	/* .dst: where it lies; .nr 1 */
};

struct flight;

/* Guard of all fields without a mark: compact_lock. */
struct verify {
	u32			sample_pm;	/* READ_ONCE() */
	u32			cursor;		/* of the next entry to be looked at */
	u32			nr_alone;	/* so many jobs are of one block */
	u32			nr_todo;	/* atomic; bits set and not looked at, at least */
	u64			*sum;		/* ours; by entry */
	u32			*gen;		/* ours; by entry */
	u64			*todo;		/* ours; atomic; a bit an entry: look at it */
	struct verify_job	job;
	struct kvmm_verify_stat	stat;
};

static inline struct verify *verify_of(struct kvmm_pool *pool)
{
	/* Pairs with kvmm_verify_set(): the struct behind the pointer is complete. */
	return smp_load_acquire(&pool->verify);
}

void __verify_moved(struct kvmm_pool *pool, u32 index);
u32 __verify_nr_moving(const struct kvmm_pool *pool);

/* An entry has another place, and no job has looked there yet. compact_lock held. */
static inline void verify_moved(struct kvmm_pool *pool, u32 index)
{
	if (unlikely(pool->verify))
		__verify_moved(pool, index);
}

/*
 * kvmm_verify_tick(), which without @scrubs leaves alone the blocks it need not look at.
 * @is_under_way: a job waits for the device. No lock held but that of the background.
 */
u32 verify_look(struct kvmm_pool *pool, bool scrubs, bool *is_under_way);
/* There are blocks to be summed, or to be checked after a move. A hint. */
bool verify_is_pending(struct kvmm_pool *pool);

/* The device sums, or has summed, and to end the job is cheap. A hint. */
static inline bool verify_is_cheap(struct kvmm_pool *pool)
{
	struct verify *verify = verify_of(pool);

	return unlikely(verify) && READ_ONCE(verify->job.is_cheap);
}

void __verify_walk(struct kvmm_pool *pool, struct completion_walk *walk);

/* A job meets the walk. compact_lock held. */
static inline void verify_walk(struct kvmm_pool *pool, struct completion_walk *walk)
{
	if (unlikely(pool->verify))
		__verify_walk(pool, walk);
}

void __verify_poll(struct kvmm_pool *pool);

/* A job that has ended keeps no block in place. compact_lock held. */
static inline void verify_poll(struct kvmm_pool *pool)
{
	if (unlikely(pool->verify))
		__verify_poll(pool);
}

void __verify_cancel(struct kvmm_pool *pool);

/* No job keeps a block in place any more: waits for sums of the device. compact_lock held. */
static inline void verify_cancel(struct kvmm_pool *pool)
{
	if (unlikely(pool->verify))
		__verify_cancel(pool);
}

/* Entries that are MOVING for a job. compact_lock held. */
static inline u32 verify_nr_moving(const struct kvmm_pool *pool)
{
	return unlikely(pool->verify) ? __verify_nr_moving(pool) : 0;
}

/*
 * The copy of @flight is complete. 0: wrong moves of it have ->bad; -EAGAIN: the device is at it,
 * and ->fence is that. Both locks of flights held.
 */
int verify_flight(struct kvmm_pool *pool, struct flight *flight);
/* The same, where that is told: -EIO one of its moves is wrong. */
int verify_told_flight(struct kvmm_pool *pool, struct flight *flight);
/* It ends otherwise; where that is told, all of it is to be looked at. */
void verify_drop_flight(struct kvmm_pool *pool, struct flight *flight);

#endif /* POOL_VERIFY_H */
