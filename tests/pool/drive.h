/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that calls a pool at random, and sums up all that it is told.
 *
 * What is called depends on the seed and on the answers so far only: two drivers of one seed call
 * alike for as long as their pools answer alike.
 */
#ifndef POOL_TEST_DRIVE_H
#define POOL_TEST_DRIVE_H

#include <kv/types.h>
#include <kvmm/kvmm.h>

#define DRIVE_HELD	128u	/* of each kind */
#define DRIVE_BATCH	24u

struct drive {
	struct kvmm_pool *pool;
	u64 random;
	u64 sum;		/* of every answer */
	u64 nr_calls;
	u64 now_ns;
	u32 nr_muts, nr_refs, nr_ranges, nr_holds;
	kvmm_mut_t mut[DRIVE_HELD];
	kvmm_ref_t ref[DRIVE_HELD];
	kvmm_range_t range[DRIVE_HELD];
	kvmm_lease_t hold[DRIVE_HELD];
};

void drive_init(struct drive *d, struct kvmm_pool *pool, u64 seed);

/* One call; what it was, for messages. */
const char *drive_step(struct drive *d);

/* Give back all that is held. */
void drive_end(struct drive *d);

#endif /* POOL_TEST_DRIVE_H */
