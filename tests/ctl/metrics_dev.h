/* SPDX-License-Identifier: Apache-2.0 */
/* The device "host" of a pool, which fails when it is told to, and counts what it does. */
#ifndef KVMM_TESTS_METRICS_DEV_H
#define KVMM_TESTS_METRICS_DEV_H

#include <kv/types.h>

struct kvmm_pool;

#define METRICS_DEV_BLOCKS	128u

struct metrics_dev {
	/* The test's. */
	bool refuses;		/* copies */
	bool is_slow;		/* copies are under way, and nobody can wait for them */
	bool fails;		/* copies have failed */
	bool is_blind;		/* it cannot see whether what has failed has ended */
	bool spoils;		/* the first byte of all that is copied is another one afterwards */
	/* Its own. */
	u64 nr_copies;		/* calls, refused ones included */
	u64 refused_moves;
	u64 copied_blocks;	/* of copies beside steps that were taken */
	bool has_flown[METRICS_DEV_BLOCKS];	/* blocks that were copied beside steps; the test's to clear */
};

extern struct metrics_dev metrics_dev;

/* From now on the pool's device is this one. */
void metrics_dev_of(struct kvmm_pool *pool);

#endif
