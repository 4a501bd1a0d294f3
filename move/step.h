/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the engine, and the moves beside or between them.
 *
 * Each publication of new places begins an epoch. A step belongs to the epoch in which it began:
 * it may have been told any place of that epoch, and of later ones while it is open. Old places of
 * epoch E are free when no step of an epoch before E can run any more on the device.
 *
 * A *flight* is a batch of moves: copying, then published, then landed when its old places are
 * free. Destinations belong to OWNER_MOVE until the publication, old places from then on; so no
 * owner is given either. While content is copied out of a block of a range, its bit in transit.h
 * keeps it from being used again, even if the range is gone (it is OWNER_MOVE then, too). Entries
 * are MOVING meanwhile, which says the same.
 *
 * Locks: compact_lock for flights, ->lock for streams and epochs, pool->lock for places.
 */
#ifndef POOL_STEP_H
#define POOL_STEP_H

#include <kv/bits.h>
#include <kv/dev.h>
#include <kv/lock.h>
#include <kvmm/step.h>
#include <pool/internal.h>

#include "pace.h"

/* Steps of one stream that have been given to the device, and may not be through. */
#define NR_ENDED	8u

/* Guard: steps->lock, as of all in struct stream and struct relocation. */
struct ended {
	u64 epoch;		/* of the oldest of them */
	u64 since;		/* in which that began: with old tables it is of an earlier one */
	struct kv_fence fence;	/* behind the youngest */
	struct completion completion;	/* likewise */
};

struct stream {
	u32 gen;
	bool used;
	bool tables;		/* KVMM_STREAM_TABLES */
	bool open;
	u32 nr_ended;
	void *stream;		/* the driver's */
	u64 epoch;		/* of the open step ... */
	u64 since;		/* ... which began in this one */
	u64 acked;		/* relocations, since the pool's creation */
	struct ended ended[NR_ENDED];	/* oldest first */
};

/* Most relocations that a reader has not acknowledged, unless one flight alone has more. */
#define NR_RELOCATIONS	4096u	/* a power of two */

struct relocation {
	struct kvmm_relocation move;
	u64 epoch;
	bool between;		/* no step may begin before it is acknowledged */
};

/* The owner that a run of blocks had when its move began. */
struct leg {
	u32 owner;
	u32 gen;
	bool done;		/* it has the new place */
	bool cuts;		/* only the first part of its extent */
	bool marked;		/* an entry that is MOVING */
	bool asked;		/* the device sums the copy, or has */
	bool seen;		/* the copy has been verified ... */
	bool bad;		/* ... and is wrong */
};

/* Guard: compact_lock; for its effect on places, pool->lock as well. */
enum flight_state { FLIGHT_COPYING, FLIGHT_PUBLISHED };

struct flight {
	struct flight *next;		/* younger */
	enum flight_state state;
	u32 mode;			/* enum kvmm_move_mode */
	u64 epoch;			/* begun by its publication */
	struct kv_fence after;		/* before the copy */
	struct kv_fence fence;		/* of the copy, or of its last portion */
	bool summing;			/* ->fence is of checksums of the copies */
	bool is_lost;			/* its copy has failed, and its owners know */
	int error;			/* of a copy that could not begin, to be told; or 0 */
	struct completion completion;
	u32 at;				/* the move that is to be submitted next ... */
	u32 at_block;			/* ... from its block of that number on */
	u32 nr;
	u32 nr_blocks;
	struct kv_move *move;		/* ours */
	struct leg *leg;		/* ours */
};

#define MAX_FLIGHTS	8u

struct steps {
	/* compact_lock. */
	struct flight *oldest;
	u32 nr_quiet;
	u32 nr_useless;			/* runs that could not be made, one after the other */
	u32 nr_skip;			/* requests for one that are not listened to */

	struct kv_lock lock;
	u64 epoch;			/* ->lock */
	u64 nr_steps;			/* ->lock; that were begun */
	u32 nr_streams;			/* ->lock */
	u64 nr_relocations;		/* ->lock; since the pool's creation */
	u32 max_relocations;		/* compact_lock and ->lock: at a time; a power of two */
	struct relocation *relocation;	/* ->lock; ours; by number modulo */
	struct stream stream[KVMM_MAX_STREAMS];		/* ->lock */
	struct pace pace;		/* ->lock */
	struct kv_fence between;	/* ->lock; of the last copy between steps */

	u32 nr_moving;			/* pool->lock: copying, of entries */
	struct kvmm_step_stat stat;	/* pool->lock: events, and blocks */
};

/* ---- step.c ---- */

/* Free the places that no step reads any more, if known without waiting. No lock held. */
void __steps_settle(struct kvmm_pool *pool);

/* The same where there are steps; @pool may be NULL. */
static inline void steps_settle(struct kvmm_pool *pool)
{
	if (unlikely(pool && READ_ONCE(pool->steps)))
		__steps_settle(pool);
}

/* They are there, or NULL: no caller has asked for any. */
struct steps *steps_of(struct kvmm_pool *pool);
/* They are there from now on, or NULL: no memory. No lock held below compact_lock. */
struct steps *steps_get(struct kvmm_pool *pool);

/* Is a step open? ->lock held. */
bool steps_are_open(const struct steps *steps);
/*
 * The oldest epoch that a step may be of that is not through; or, with @began, in which such a step
 * began. ->lock held.
 */
u64 steps_oldest(struct kvmm_pool *pool, struct steps *steps, bool began);
/* Each end of a step meets the walk. ->lock held. */
void steps_walk(struct kvmm_pool *pool, struct steps *steps, struct completion_walk *walk);
/* All that the engine's streams have been given. ->lock held. 0, -EIO, -ENOMEM. */
int steps_signal(struct kvmm_pool *pool, struct steps *steps, struct kv_fence *fence);
/* The engine's streams go on after @fence only. ->lock held. 0 or -EIO. */
int steps_stall(struct kvmm_pool *pool, struct steps *steps, struct kv_fence fence);
/*
 * There will be room for @nr relocations at once, read or not: 0 or -ENOMEM. A reader may come when
 * they are on their way: whether there is one does not matter. compact_lock and ->lock held.
 */
int steps_make_room(struct steps *steps, u32 nr);
/* Is there room for @nr of them now? ->lock held. */
bool steps_have_room(const struct steps *steps, u32 nr);
/* There is room for @nr besides those not read, if there are readers: 0 or -ENOMEM. As above. */
int steps_will_tell(struct steps *steps, u32 nr);
/* Tell readers that keep tables; of the epoch that begins next. ->lock held. */
void steps_relocated(struct steps *steps, const struct kv_move *move, bool between);

/*
 * The engine stands still: wait for the work it has given the device; or -EBUSY, also if it has not
 * read of too many moves. On success no step can begin until steps_let_go(). compact_lock held.
 */
int steps_stand_still(struct kvmm_pool *pool);
void steps_let_go(struct kvmm_pool *pool);

/* ---- flight.c, flight_start.c ---- */

/* Publish and land flights that are ready. compact_lock held. */
void flights_poll(struct kvmm_pool *pool);
/* Land only: no owner sees a new place. The same. */
void flights_land(struct kvmm_pool *pool);
/* Each flight and each end of a step meets the walk. compact_lock held. */
void flights_walk(struct kvmm_pool *pool, struct completion_walk *walk);
/* A request found no run while a step was open: one may come later. compact_lock held. */
void flights_make_run(struct kvmm_pool *pool, u32 nr);
/* @fence comes behind published copies as well; -EIO one of them failed. ->lock held. */
int flights_signal(struct kvmm_pool *pool, struct steps *steps, struct kv_fence *fence);
extern const struct transit_ops flight_ops;
void flights_exit(struct kvmm_pool *pool, struct steps *steps);
/*
 * Moves to free places that were planned elsewhere take off: 0, -EAGAIN something has changed,
 * -EBUSY, -ENOSPC, -EIO, -ENOMEM, and nothing moves. compact_lock held.
 */
int flights_start(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr, u32 mode);

/* ---- step.c, pace.c ---- */

/* What the calls of statistics read; without their locks each number is of its own moment. */
void step_stat_peek(struct kvmm_pool *pool, struct kvmm_step_stat *stat);
void pace_stat_peek(struct kvmm_pool *pool, struct kvmm_pace_stat *stat);

#endif /* POOL_STEP_H */
