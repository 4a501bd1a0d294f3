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
 * Block @from + i is @to + i now, of all @nr at once, as by memmove(): if the pool was compacted
 * with no step open (by a request for a run, or kvmm_pool_compact()), @from and @to may lie less
 * than @nr apart, and later moves of that compaction may go to where earlier ones came from. Of
 * moves that begin together by kvmm_compact_goal_start() none goes to where one of them was.
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
 * kvmm_relocations_next() - moves that this stream's engine has not acknowledged, oldest first
 * @nr_done: so many, the oldest ones, are in the engine's tables: forget them. No step may be open
 *	there; 0: none
 * @moves: room for @max
 *
 * A run may move more than once: apply them in order, and before the places of later allocations.
 * Steps that begin before the acknowledgement may go on using the old places, which keep their
 * content and take no other blocks: a stream without work still reads, or is deleted. While more
 * than 4,096 would not be acknowledged new places are not told, but for those of one larger plan,
 * or of a compaction with no step open that began with fewer.
 *
 * Return: how many were written; -EINVAL not a stream of KVMM_STREAM_TABLES, or there are not
 * @nr_done; -EBUSY @nr_done, and a step is open; -ESTALE.
 */
KVMM_API int kvmm_relocations_next(struct kvmm_pool *pool, kvmm_stream_t id, uint32_t nr_done,
				   struct kvmm_relocation *moves, uint32_t max);

/** kvmm_relocations() - kvmm_relocations_next(), without an acknowledgement. */
static inline int kvmm_relocations(struct kvmm_pool *pool, kvmm_stream_t id,
				   struct kvmm_relocation *moves, uint32_t max)
{
	return kvmm_relocations_next(pool, id, 0, moves, max);
}

/** kvmm_relocations_ack() - kvmm_relocations_next(): the oldest @nr are in the engine's tables. */
static inline int kvmm_relocations_ack(struct kvmm_pool *pool, kvmm_stream_t id, uint32_t nr)
{
	return kvmm_relocations_next(pool, id, nr, NULL, 0);
}

/** enum kvmm_move_mode - when blocks move; see the head of this file */
enum kvmm_move_mode {
	KVMM_MOVE_BESIDE,
	KVMM_MOVE_BETWEEN,
	KVMM_NR_MOVE_MODES,
};

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

/** kvmm_step_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_STEP. */
static inline int kvmm_step_get_stat(struct kvmm_pool *pool, struct kvmm_step_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_STEP, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_STEP_H */
