/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool by address at one moment: free runs ("holes") and held runs. From these follows what
 * the two simplest ways of making room would have to move.
 */
#ifndef REPLAY_LAYOUT_H
#define REPLAY_LAYOUT_H

#include <kvmm/kvmm.h>

#include "common.h"

/* Arrays are kept from one reading to the next. */
struct layout {
	struct kvmm_extent *hole;	/* by address */
	struct kvmm_extent *run;	/* by address, as the engine holds them, rounding included */
	u32 nr_holes;
	u32 nr_runs;
	u32 cap_holes;
	u32 cap_runs;
};

/** layout_clear_holes(), layout_add_hole() - collect the holes, by address */
void layout_clear_holes(struct layout *layout);
void layout_add_hole(struct layout *layout, struct kvmm_extent hole);

/** layout_clear_runs(), layout_add_run(), layout_sort_runs() - collect the runs; holes are read */
void layout_clear_runs(struct layout *layout);
void layout_add_run(struct layout *layout, u32 start);
void layout_sort_runs(struct layout *layout, u32 nr_blocks);

void layout_exit(struct layout *layout);

u32 layout_longest_hole(const struct layout *layout);

/* Fewest held blocks between neighbouring holes that hold @nr together. */
u64 layout_slide_cost(const struct layout *layout, u32 nr);

/* Fewest blocks in consecutive runs whose removal leaves a gap of @nr. */
u64 layout_bound_cost(const struct layout *layout, u32 nr_blocks, u32 nr);

#endif /* REPLAY_LAYOUT_H */
