/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast copies beside steps go: in portions, each submitted when the one before is complete and
 * there is credit for it. Guard of all: steps->lock.
 *
 * Credit comes with time, up to a millisecond's worth, and with steps; it may go below zero by the
 * last block that was paid from it. While no step is open no work is disturbed, and a limit per
 * step does not count.
 */
#ifndef POOL_PACE_H
#define POOL_PACE_H

#include <kv/types.h>
#include <kvmm/ext/moves.h>
#include <kvmm/step.h>

struct steps;
struct kvmm_pool;

struct pace {
	struct kvmm_pace	how;
	struct kvmm_pace_stat	stat;
	s64			credit;		/* bytes, of how.bytes_per_ms */
	s64			step_credit;	/* bytes, of how.bytes_per_step */
	u64			since_ns;	/* when credit was looked at last */
};

/* Blocks that may be submitted now; ~0: any number. ->lock held. */
u32 pace_may(struct kvmm_pool *pool, struct steps *steps);
/* So many are. ->lock held. */
void pace_pay(struct kvmm_pool *pool, struct steps *steps, u32 nr_blocks);
/* A step begins. ->lock held. */
void pace_step(struct steps *steps);

#endif /* POOL_PACE_H */
