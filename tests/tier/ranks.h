/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks: pools of one seed on the software device, each above a tier of its own. They are called
 * alike; which copy ends when differs, as the test lets the device work a piece at a time, in an order
 * of its dice. What they decide must not differ.
 */
#ifndef TIER_TEST_RANKS_H
#define TIER_TEST_RANKS_H

#include "tests/cuda/soft.h"
#include "tests/support/sim_disk.h"
#include "tests/tier/util.h"

#define NR_RANKS	2u
#define RANK_BLOCKS	64u
#define RANK_BYTES	512u
#define RANK_UNITS	20u	/* of a tier above a disk; else it has RANK_BLOCKS */

struct rank {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_stream_t id;
	kcu_stream stream;
	struct kvmm_plane plane;
	struct sim_disk sim;
	struct kvmm_disk *disk;		/* on ->sim; NULL: none */
	int (*reap)(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait);
	u64 dice;			/* of the moments at which it is through with something */
	u32 slowness;			/* one time in so many; 0: at once */
};

struct ranks {
	struct rank of[NR_RANKS];
	u32 nr_segments;		/* of disks below the tiers, which are small then; 0: none */
};

#define each_rank(rank) \
	(struct rank *rank = ranks->of; rank < ranks->of + NR_RANKS; rank++)

/* On a driver with these options, with copies down as @write (enum kvmm_tier_write) says. */
void ranks_begin(struct ranks *ranks, const char *options, u32 write);
/* Expects that the driver has nothing to report. */
void ranks_end(struct ranks *ranks);
/* The same, with disks below: they are there, and empty, until they are removed. */
void ranks_make_disks(struct ranks *ranks, u32 nr_segments);
void ranks_remove_disks(struct ranks *ranks);

/* Above its tier, once more. */
void rank_attach(struct rank *rank, u32 write);

/* A bit of that block is another one from now on, behind the device's back. */
void rank_flip(struct rank *rank, u32 block);
/* What its device has done; and the same of all ranks. */
struct kvmm_completions rank_found(struct rank *rank);
struct kvmm_completions ranks_found(struct ranks *ranks);
/* What an engine does: all say, all hear the same. No time is told. */
struct kvmm_completions ranks_agree(struct ranks *ranks);
/* All that they are is the same. */
void ranks_expect_alike(struct ranks *ranks);

#endif /* TIER_TEST_RANKS_H */
