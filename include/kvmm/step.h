/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: blocks that move while the engine works on them.
 *
 * An engine works in steps: it asks where blocks lie, gives the device its work on a stream, and
 * asks anew for the next step. That is enough to move blocks without stopping any thread, as RCU
 * does for host memory: copy, publish the new place, and reuse the old one when every step that may
 * know it has ended on the device.
 *
 *	stream	[ step 1 ] [ step 2    ] [ step 3 ]
 *	kvmm	     [ copy ]| publish   ^ the old place is free
 *	                       step 2 goes on reading there; step 3 is told the new one
 *
 * Two modes. *Beside the engine*: the copy runs on a stream of kvmm's own, slowly, while steps are
 * under way; only blocks without writers move: registered ones, and sealed parts of ranges.
 * *Between steps*: no step is open, so everything that is not pinned may move; the engine's streams
 * wait for the copy on the device, the host does not.
 *
 * The engine's part of it:
 *
 *	- each stream on which blocks are read or written is added; work on blocks is given to it
 *	  between kvmm_step_begin() and kvmm_step_end() only;
 *	- the engine asks where blocks lie after kvmm_step_begin() and relies on it until
 *	  kvmm_step_end(); or it keeps block tables, applies kvmm_relocations(), acknowledges;
 *	- what must stay where it is, is pinned.
 *
 * Pools of ids only, and device "host", have no streams: there NULL is one, and a step has ended
 * when kvmm_step_end() is called.
 */
#ifndef KVMM_STEP_H
#define KVMM_STEP_H

#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most streams of a pool. */
#define KVMM_MAX_STREAMS	32u

/** A stream of a pool. Stale once it is removed; all zeros is never one. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_stream_t;

/** This stream's engine keeps block tables: it reads and acknowledges kvmm_relocations(). */
#define KVMM_STREAM_TABLES	(1u << 0)

/**
 * kvmm_stream_add() - the engine works on blocks of @pool on this stream
 * @stream: of the device's driver (CUstream), not a default one; NULL where there are none
 * @flags: KVMM_STREAM_*
 * @id: set on success only
 *
 * Return: 0; -EINVAL; -EUSERS KVMM_MAX_STREAMS are there; -EEXIST this one is; -ENOMEM.
 */
KVMM_API int kvmm_stream_add(struct kvmm_pool *pool, void *stream, uint32_t flags,
			     kvmm_stream_t *id);

/** kvmm_stream_del() - remove a stream. Waits until its steps have ended on the device.
 * Return: 0; -EBUSY a step is open; -ESTALE, -EINVAL. */
KVMM_API int kvmm_stream_del(struct kvmm_pool *pool, kvmm_stream_t id);

/**
 * kvmm_step_begin() - from here on the engine asks where blocks lie
 * @epoch: out; for kvmm_step_end()
 *
 * Publishes finished copies, so that this step learns the new places. Never waits for the device.
 *
 * Return: 0; -EBUSY a step is open on this stream; -EAGAIN blocks that the step may write have
 * moved, and their relocations are not acknowledged; -ESTALE, -EINVAL.
 */
KVMM_API int kvmm_step_begin(struct kvmm_pool *pool, kvmm_stream_t id, uint64_t *epoch);

/**
 * kvmm_step_end() - the stream has been given all work of this step
 *
 * Records an event on the stream: places that the step knows stay until the device has passed it.
 *
 * Return: 0; -EINVAL no such step is open; -EBUSY the stream is capturing a graph, -ENOMEM, -EAGAIN
 * the driver would not record it (the step stays open: end it again); -EIO the device is lost (the
 * step is over); -ESTALE.
 */
KVMM_API int kvmm_step_end(struct kvmm_pool *pool, kvmm_stream_t id, uint64_t epoch);

/**
 * struct kvmm_relocation - a run of blocks has moved
 * @from: where its first block was, a block id
 * @to: where it is now
 * @nr: blocks
 *
 * Fixed: from, to, how many; @reserved is 0.
 */
struct kvmm_relocation {
	uint32_t from;
	uint32_t to;
	uint32_t nr;
	uint32_t reserved;
};

/**
 * kvmm_relocations() - moves that this stream's engine has not acknowledged, oldest first
 * @moves: room for @max
 *
 * A run may move more than once: apply them in order, and before the places of later allocations.
 * Steps that begin before the acknowledgement may go on using the old places, which keep their
 * content and take no other blocks: a stream without work still reads, or is deleted.
 *
 * Return: how many were written; -EINVAL not a stream of KVMM_STREAM_TABLES; -ESTALE.
 */
KVMM_API int kvmm_relocations(struct kvmm_pool *pool, kvmm_stream_t id,
			      struct kvmm_relocation *moves, uint32_t max);

/** kvmm_relocations_ack() - the oldest @nr are in the engine's tables. No step may be open there.
 * Return: 0; -EBUSY one is; -EINVAL there are not so many; -ESTALE. */
KVMM_API int kvmm_relocations_ack(struct kvmm_pool *pool, kvmm_stream_t id, uint32_t nr);

/** kvmm_range_seal() - no owner writes the first @nr blocks of the range any more: they may move
 * beside running steps. Cannot be undone. Return: 0; -EINVAL more than there are; -ESTALE. */
KVMM_API int kvmm_range_seal(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr);

/** enum kvmm_move_mode - when blocks move; see the head of this file */
enum kvmm_move_mode {
	KVMM_MOVE_BESIDE,
	KVMM_MOVE_BETWEEN,
	KVMM_NR_MOVE_MODES,
};

/**
 * kvmm_compact_start() - plan moves that make a free run, and let them begin
 * @goal: as for kvmm_pool_compact(), with want_run of 1 or more; out: moved and nr_moves are what
 *	is on its way, largest_after what there will be
 * @mode: enum kvmm_move_mode
 *
 * The run is free when the moves have been published and all steps that were told of the old places
 * have ended: later calls of kvmm_step_begin(), kvmm_step_end() and kvmm_compact_poll() see to it.
 * Until then no request gets the old or the new places.
 *
 * Return: 0 (nothing is on its way if there is such a run); -ENOSPC no allowed moves reach the
 * goal, or their new places are promised; -EBUSY a step is open (KVMM_MOVE_BETWEEN), too many
 * blocks are on their way, or the pool is quiescent; -EAGAIN blocks kept changing hands during
 * planning, or a budget ended it; -EIO, -ENOMEM; -EOPNOTSUPP as kvmm_pool_compact(); -EINVAL.
 */
KVMM_API int kvmm_compact_start(struct kvmm_pool *pool, struct kvmm_compact *goal, uint32_t mode);

/** kvmm_compact_poll() - publish what is finished, free blocks without readers and writers: see
 * unseen_blocks of struct kvmm_step_stat. Never waits.
 * Return: moves whose old places are not free yet, which goes down to 0 once steps end and the
 * device is not blind (is_blind of struct kvmm_step_stat); -EIO the device is lost: there are such
 * places, and they stay until the pool is destroyed; -EINVAL. */
KVMM_API int kvmm_compact_poll(struct kvmm_pool *pool);

/** kvmm_compact_cancel() - unpublished moves do not happen. Waits for running copies, not for
 * steps. Return: blocks that stay; -EINVAL. */
KVMM_API int kvmm_compact_cancel(struct kvmm_pool *pool);

/**
 * kvmm_pool_quiesce() - no block moves until kvmm_pool_resume(), as while a graph is captured
 *
 * As kvmm_compact_cancel(), and nothing starts. Counted.
 *
 * Return: 0; -ENOMEM, never for a pool that has had a stream, or -EOVERFLOW: it is not counted, and
 * blocks move as before; -EINVAL.
 */
static inline int kvmm_pool_quiesce(struct kvmm_pool *pool)
{
	uint32_t on = 1;

	return kvmm_pool_set(pool, KVMM_SET_QUIESCENT, &on);
}

/** kvmm_pool_resume() - undo one kvmm_pool_quiesce(). Return: 0; -EINVAL there is none to undo. */
static inline int kvmm_pool_resume(struct kvmm_pool *pool)
{
	uint32_t on = 0;

	return kvmm_pool_set(pool, KVMM_SET_QUIESCENT, &on);
}

/**
 * struct kvmm_step_stat - since the pool's creation, but for the first four
 * @nr_streams, @nr_open: streams; those with an open step
 * @copying_blocks: on their way, not published
 * @limbo_blocks: old places that a step may still read
 * @steps: steps that were begun
 * @published_blocks, @published_moves: that have a new place
 * @void_moves: given up because their owner changed meanwhile
 * @failed_moves: copies that failed; the blocks stayed, or, between steps, are lost
 * @cancelled_moves: by kvmm_compact_cancel()
 * @lost_blocks: blocks that lost their content by a failed copy between steps
 * @unseen_blocks: now: given back, but no request gets them until the device sees the end of a
 *	failed copy. Of a lost device: until the pool is destroyed
 * @is_blind: now; the device cannot see whether a copy that failed has ended, so no old place
 *	becomes free. It is asked again by each call that publishes
 */
struct kvmm_step_stat {
	uint32_t nr_streams;
	uint32_t nr_open;
	uint32_t copying_blocks;
	uint32_t limbo_blocks;
	uint64_t steps;
	uint64_t published_blocks;
	uint64_t published_moves;
	uint64_t void_moves;
	uint64_t failed_moves;
	uint64_t cancelled_moves;
	uint64_t lost_blocks;
	uint64_t unseen_blocks;
	uint64_t is_blind;
};

/**
 * struct kvmm_pace - how fast blocks are copied beside steps
 * @size: sizeof(struct kvmm_pace)
 * @bytes_per_ms: at most so many bytes a millisecond on average; 0 = no limit
 * @bytes_per_step: at most so many from the beginning of a step to that of the next one, on any
 *	stream; does not count while no step is open; 0 = no limit
 * @groups: of threads that a copy occupies; 0 = 16
 * @reserved: 0
 *
 * With a limit, kvmm copies moves in portions: it gives the device the next one when the last is
 * complete, so the device has no long queue of copies. A portion is one block at least. Calls that
 * publish (kvmm_step_begin(), kvmm_step_end(), kvmm_compact_poll()) submit the next portion: fewer
 * calls make it slower. Moves between steps are not limited.
 */
struct kvmm_pace {
	size_t size;
	uint64_t bytes_per_ms;
	uint64_t bytes_per_step;
	uint32_t groups;
	uint32_t reserved;
};

/** kvmm_pace_set() - from now on, moves under way included. Return: 0; -EINVAL; -ENOMEM. */
static inline int kvmm_pace_set(struct kvmm_pool *pool, const struct kvmm_pace *how)
{
	return kvmm_pool_set(pool, KVMM_SET_PACE, how);
}

/**
 * struct kvmm_pace_stat - copies beside steps, as paced
 * @bytes_per_ms, @bytes_per_step: as set
 * @bytes, @portions: submitted beside steps, since the pool's creation
 * @denied: times that a copy had to wait
 */
struct kvmm_pace_stat {
	uint64_t bytes_per_ms;
	uint64_t bytes_per_step;
	uint64_t bytes;
	uint64_t portions;
	uint64_t denied;
};

/** kvmm_pace_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_PACE. */
static inline int kvmm_pace_get_stat(struct kvmm_pool *pool, struct kvmm_pace_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PACE, stat, sizeof(*stat));
}

/** kvmm_step_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_STEP. */
static inline int kvmm_step_get_stat(struct kvmm_pool *pool, struct kvmm_step_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_STEP, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_STEP_H */
