/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pressure stall information, in the arithmetic of Linux (kernel/sched/psi.c).
 *
 * Linux samples every 2 s from a worker. There is no worker here: a thread that changes the state,
 * or reads it, first brings the averages up to now, period by period. Since the state did not
 * change in between, the time lost in each of these periods is known exactly, and the result is
 * that of a worker that was never late.
 */
#ifndef KV_PRESSURE_H
#define KV_PRESSURE_H

#include <kv/lock.h>
#include <kv/types.h>
#include <kvmm/ext/admission.h>

enum stall { STALL_SOME, STALL_FULL, NR_STALLS };

/* A request is held up by its turn in the queue, or by room that is made for it. */
enum delay { DELAY_QUEUE, DELAY_ROOM, NR_DELAYS };

struct pressure {
	struct kv_lock	lock;
	u32		nr_queued;		/* ->lock; requests in the queue */
	u32		nr_working;		/* ->lock; threads for which room is being made */
	u64		since_ns;		/* ->lock; up to here all is accounted for */
	u64		next_ns;		/* ->lock; end of this period */
	u64		total_ns[NR_STALLS];	/* ->lock */
	u64		period_ns[NR_STALLS];	/* ->lock; of total, in this period */
	u64		avg[NR_STALLS][KVMM_NR_AVGS];	/* ->lock */
	struct kvmm_latency_stat took[NR_DELAYS];	/* ->lock */
};

void pressure_init(struct pressure *p, u32 id);
/* So many more, or fewer, are in the queue, or have room made for them. */
void pressure_change(struct pressure *p, int queued, int working);
/* One fewer, for which it has lasted since then. */
void pressure_over(struct pressure *p, enum delay delay, u64 since_ns);
void pressure_read(struct pressure *p, struct kvmm_pressure *out);

#endif /* KV_PRESSURE_H */
