/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for blocks in full: with priorities, watermarks, deadlines and promises.
 *
 * kvmm_alloc() and kvmm_range_alloc() are the short forms: they take the blocks now or fail. Here a
 * request says what it is worth:
 *
 *	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
 *
 *	ctl.nr = 64;
 *	ctl.flags = KVMM_ALLOC_HIGH | KVMM_ALLOC_RELATIVE;
 *	ctl.deadline_ns = 5 * 1000 * 1000;	// wait at most 5 ms until so many are free
 *	err = kvmm_alloc_as(pool, &ctl, blocks);
 *
 * struct kvmm_range_attr says the same for ranges. Documentation/allocation.rst has the order in
 * which the pool makes room, and a table of the flags. kvmm's clock is CLOCK_MONOTONIC.
 */
#ifndef KVMM_EXT_ADMISSION_H
#define KVMM_EXT_ADMISSION_H

#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- private blocks ---- */

/**
 * struct kvmm_alloc_ctl - one request for private blocks
 * @size: sizeof(struct kvmm_alloc_ctl); set by KVMM_ALLOC_CTL_INIT
 * @nr: blocks; 0 is success
 * @flags: KVMM_ALLOC_*
 * @prio: enum kvmm_priority; KVMM_ALLOC_HIGH and KVMM_ALLOC_URGENT say the same
 * @tenant: the tenant that is charged for the blocks; see enum kvmm_zero
 * @seq: the engine's name of the request, for kvmm_alloc_cancel(); 0 = none
 * @deadline_ns: wait until this time of kvmm's clock (with KVMM_ALLOC_RELATIVE: for so long); 0 =
 *	do not wait. In pools with KVMM_POOL_DETERMINISTIC the clock is the one that is told, and
 *	only tickets wait: else -EINVAL
 * @promise: promise to take the blocks from, or zeros; see kvmm_promise_make()
 * @report: NULL, or filled on success and on -ENOSPC, -EAGAIN, -ETIMEDOUT and -ECANCELED
 * @cls: KVMM_IN_CLASS(), see struct kvmm_class; 0 = none
 */
struct kvmm_alloc_ctl {
	size_t size;
	uint32_t nr;
	uint32_t flags;
	uint32_t prio;
	uint32_t tenant;
	uint64_t seq;
	uint64_t deadline_ns;
	kvmm_promise_t promise;
	struct kvmm_alloc_report *report;
	uint32_t cls;
	uint32_t reserved;
};

#define KVMM_ALLOC_CTL_INIT \
	{ sizeof(struct kvmm_alloc_ctl), 0, 0, 0, 0, 0, 0, { 0, 0 }, NULL, 0, 0 }

/** A request that waits without a thread, for event loops. */
typedef struct {
	uint64_t id;
} kvmm_ticket_t;

/**
 * kvmm_alloc_submit() - take @ctl->nr private blocks, all or none, or queue up for them
 * @blocks: room for @ctl->nr; untouched on failure. With a ticket until that is gone, and
 *	@ctl->report likewise
 * @ticket: NULL: the call sleeps until the deadline; else it never does: @ctl must have a deadline,
 *	and the ticket is set on -EINPROGRESS. One that may be given up needs a @ctl->seq: see
 *	kvmm_alloc_cancel()
 *
 * With KVMM_ALLOC_CONTIG the blocks are one run, by address. If enough blocks are free but
 * scattered, the pool moves others to make the run, unless KVMM_ALLOC_NO_COMPACT forbids it.
 *
 * A ticket queues like a thread that sleeps. While it is first, it holds up all others of its
 * priority until the caller polls it or its deadline passes.
 *
 * Context: may sleep while blocks move; never with KVMM_ALLOC_NOWAIT.
 * Return: 0; -EINVAL a bad argument, or flags that contradict each other; -ENOSPC too few blocks
 * for a request of this priority, or others wait already; -EDQUOT @ctl->tenant
 * (<kvmm/ext/evict.h>) or @ctl->cls (KVMM_CLASS_REFUSE) may not have so many: no request waits for
 * that; -EAGAIN with KVMM_ALLOC_NOWAIT: room has to be made first (by eviction or moves), or a
 * compaction is going on;
 * -ETIMEDOUT the deadline has passed; -ECANCELED kvmm_alloc_cancel(); -ESHUTDOWN the pool is being
 * destroyed; -EOPNOTSUPP the pool has no policy; -ENOMEM, -EIO, -EUCLEAN as
 * kvmm_range_alloc_attr(); -EINPROGRESS see kvmm_alloc_poll().
 */
KVMM_API int kvmm_alloc_submit(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
			       kvmm_mut_t *blocks, kvmm_ticket_t *ticket);

/** kvmm_alloc_as() - kvmm_alloc_submit() without a ticket. */
static inline int kvmm_alloc_as(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
				kvmm_mut_t *blocks)
{
	return kvmm_alloc_submit(pool, ctl, blocks, NULL);
}

/**
 * kvmm_alloc_cancel() - requests of this name stop waiting: their callers get -ECANCELED, or, of a
 * ticket, the thread that polls it
 *
 * Any thread. A request that has got its blocks meanwhile succeeds.
 *
 * Return: how many; -EINVAL @seq is 0.
 */
KVMM_API int kvmm_alloc_cancel(struct kvmm_pool *pool, uint64_t seq);

/**
 * kvmm_alloc_poll() - take the blocks of a ticket, if they are there
 *
 * Cheap while no block has been freed and no copy has ended. One thread at a time polls a ticket.
 *
 * Return: 0 done, the blocks are the caller's; -EINPROGRESS not yet; -ESTALE no such ticket; else
 * what kvmm_alloc_as() would have returned. Any answer but -EINPROGRESS ends the ticket.
 */
KVMM_API int kvmm_alloc_poll(struct kvmm_pool *pool, kvmm_ticket_t ticket);

/* ---- watermarks ---- */

/**
 * struct kvmm_watermarks - free blocks that are kept back
 * @min: below this only urgent requests take blocks
 * @low: below this only high and urgent ones do; others evict first, so that @low blocks stay free
 * @high: kvmm_reclaim() evicts until so many blocks are free
 *
 * @min <= @low <= @high <= blocks of the pool. All 0: watermarks are off.
 *
 * Evictable blocks are not free in this sense. A normal request takes free blocks down to @low and
 * evicts for the rest, so that an urgent one finds blocks that need no eviction.
 *
 * Fixed: the three marks.
 */
struct kvmm_watermarks {
	uint32_t min;
	uint32_t low;
	uint32_t high;
};

/** kvmm_watermarks_set() - set them. Return: 0; -EINVAL not in that order, or too high. */
static inline int kvmm_watermarks_set(struct kvmm_pool *pool, const struct kvmm_watermarks *marks)
{
	return kvmm_pool_set(pool, KVMM_SET_WATERMARKS, marks);
}

/**
 * struct kvmm_reclaim_args - budget and result of one reclaim
 * @size: sizeof(struct kvmm_reclaim_args)
 * @max_blocks: evict at most so many; 0 = no limit
 * @max_us: evict no further batch after so long; 0 = no limit. In a deterministic pool a
 *	count: of a block for each microsecond
 * @nr_evicted: out: cached blocks that lost their key
 * @nr_free: out: free blocks now
 */
struct kvmm_reclaim_args {
	size_t size;
	uint32_t max_blocks;
	uint32_t max_us;
	uint32_t nr_evicted;
	uint32_t nr_free;
};

/**
 * kvmm_reclaim() - evict until the high watermark is free; between steps, or in a thread of its own
 *
 * Drops the pool's lock every 64 blocks. Passes over blocks that are being copied (<kvmm/step.h>)
 * or verified (<kvmm/ext/inspect.h>): it neither waits for a verification nor restarts it.
 * Parked blocks (kvmm_park()) are free, and stay readable.
 *
 * Return: 0 the high watermark is free; -EAGAIN the budget is used up; -ENOSPC nothing more can be
 * evicted; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_reclaim(struct kvmm_pool *pool, struct kvmm_reclaim_args *reclaim);

/* ---- promises: blocks reserved ahead ---- */

/**
 * kvmm_promise_set() - reserve blocks that are taken later, or end that
 * @ctl: @nr blocks; @prio, @flags, @deadline_ns and @report as for kvmm_alloc_as(): the promise is
 *	made when such a request would succeed. -EINVAL with KVMM_ALLOC_ZERO, KVMM_ALLOC_CONTIG or a
 *	placement: these are for the requests that take the blocks. NULL: *@promise ends; its blocks
 *	left are free for all
 *
 * With @cls a promise is no larger than what the class may take now (KVMM_CLASS_REFUSE: -EDQUOT).
 * The quota of the class and limits of tenants apply again when blocks are taken.
 *
 * From now on the pool keeps so many blocks free, not particular ones. Requests with @promise take
 * from them, past watermarks and queue, and never fail for want of blocks. A range may still fail
 * if the blocks lie in more runs than it allows.
 *
 * Return: as kvmm_alloc_as(); of an end, how many were left; -ESTALE; -EINVAL.
 */
KVMM_API int kvmm_promise_set(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
			      kvmm_promise_t *promise);

/** kvmm_promise_make() - kvmm_promise_set() of a new one. */
static inline int kvmm_promise_make(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
				    kvmm_promise_t *promise)
{
	return ctl ? kvmm_promise_set(pool, ctl, promise) : -22 /* EINVAL */;
}

/** kvmm_promise_end() - kvmm_promise_set() of its end. */
static inline int kvmm_promise_end(struct kvmm_pool *pool, kvmm_promise_t promise)
{
	return kvmm_promise_set(pool, NULL, &promise);
}

/* ---- what room costs ---- */

/**
 * struct kvmm_alloc_costs - what the slow path weighs, in nanoseconds
 * @copy_block_ns: to move a block; 0 = 2,000
 * @drop_block_ns: to drop a cached block: the time to compute it again, times the chance of a hit;
 *	0 = 200,000. Of both, no more than 2^39 (nine minutes) counts
 * @wait_block_ns: to wait until a block becomes free by itself; 0 = waiting costs more than all
 *	else
 */
struct kvmm_alloc_costs {
	uint64_t copy_block_ns;
	uint64_t drop_block_ns;
	uint64_t wait_block_ns;
};

/**
 * struct kvmm_alloc_attr - watermarks and costs of a pool, in struct kvmm_pool_attr
 * @size: sizeof(struct kvmm_alloc_attr)
 * @marks: watermarks to begin with
 * @costs: what the slow path weighs
 */
struct kvmm_alloc_attr {
	size_t size;
	struct kvmm_watermarks marks;
	uint32_t reserved;
	struct kvmm_alloc_costs costs;
};

/**
 * enum kvmm_step - what the slow path does to make room, in this order
 * @KVMM_STEP_DRAIN: take back free blocks that threads keep aside
 * @KVMM_STEP_STEAL: take free blocks that growing ranges have reserved softly; part of each try
 * @KVMM_STEP_EVICT: evict exactly the missing number of cached blocks
 * @KVMM_STEP_DROP: evict further blocks to make a run, where that is cheaper than moving them
 * @KVMM_STEP_COMPACT: move blocks to make a run
 * @KVMM_STEP_OFFLOAD: move held blocks to another tier (no tier does that yet)
 * @KVMM_STEP_WAIT: wait until other threads give blocks back
 */
enum kvmm_step {
	KVMM_STEP_DRAIN,
	KVMM_STEP_STEAL,
	KVMM_STEP_EVICT,
	KVMM_STEP_DROP,
	KVMM_STEP_COMPACT,
	KVMM_STEP_OFFLOAD,
	KVMM_STEP_WAIT,
	KVMM_NR_STEPS,
};

/** kvmm_step_name() - "drain" and so on; "?" if there is no such step. */
static inline const char *kvmm_step_name(uint32_t step)
{
	return kvmm_enum_name(KVMM_NAME_STEP, step);
}

/**
 * struct kvmm_alloc_stat - allocation of one pool, as of one moment; counts are since creation
 * @taken: by step: times that it changed something
 * @skipped: by step: times that another step was cheaper
 * @saved: by step: times that the request fitted after it
 * @nr_waiting: requests that wait now
 * @nr_promised: blocks promised and not taken yet
 * @nr_timed_out, @nr_cancelled: requests that waited without success
 * @marks, @costs: in force
 */
struct kvmm_alloc_stat {
	uint64_t taken[KVMM_NR_STEPS];
	uint64_t skipped[KVMM_NR_STEPS];
	uint64_t saved[KVMM_NR_STEPS];
	uint32_t nr_waiting;
	uint32_t nr_promised;
	uint64_t nr_timed_out;
	uint64_t nr_cancelled;
	struct kvmm_watermarks marks;
	uint32_t reserved;
	struct kvmm_alloc_costs costs;
};

/** kvmm_alloc_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_ALLOC. */
static inline int kvmm_alloc_get_stat(struct kvmm_pool *pool, struct kvmm_alloc_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_ALLOC, stat, sizeof(*stat));
}

/* ---- pressure ---- */

/** Averages over 10, 60 and 300 seconds. */
#define KVMM_NR_AVGS		3u

/** Fraction bits of an average; 100 << KVMM_AVG_SHIFT is all of the time. */
#define KVMM_AVG_SHIFT		11u

/**
 * struct kvmm_pressure_line - the share of time that requests stalled
 * @avg: percent, over 10 s, 60 s and 300 s, with KVMM_AVG_SHIFT fraction bits
 * @total_us: stalled since creation
 */
struct kvmm_pressure_line {
	uint32_t avg[KVMM_NR_AVGS];
	uint32_t reserved;
	uint64_t total_us;
};

/**
 * struct kvmm_pressure - pressure stall information of a pool
 * @some: at least one request waited in the queue, or for room to be made
 * @full: requests waited, and the pool made room for none of them. Requests that take blocks
 *	without waiting are too short to be sampled: they do not count as progress
 * @queue: time that each request waited in the queue, with or without success
 * @room: time of each attempt to make room, with or without success
 */
struct kvmm_pressure {
	struct kvmm_pressure_line some;
	struct kvmm_pressure_line full;
	struct kvmm_latency_stat queue;
	struct kvmm_latency_stat room;
};

/** kvmm_pool_get_pressure() - as Linux's /proc/pressure has it, sampled every 2 s. */
static inline int kvmm_pool_get_pressure(struct kvmm_pool *pool, struct kvmm_pressure *pressure)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PRESSURE, pressure, sizeof(*pressure));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_ADMISSION_H */
