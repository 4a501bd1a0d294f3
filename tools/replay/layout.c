// SPDX-License-Identifier: Apache-2.0
/* Holes and runs by address. Both costs are found with two pointers that only go up. */
#include <stdlib.h>
#include <string.h>

#include "layout.h"

static void add(struct kvmm_extent **array, u32 *nr, u32 *cap, struct kvmm_extent extent)
{
	if (*nr == *cap) {
		*cap = *cap ? *cap * 2 : 256;
		*array = must_resize(*array, *cap * sizeof(extent));
	}
	(*array)[(*nr)++] = extent;
}

void layout_clear_holes(struct layout *layout)
{
	layout->nr_holes = 0;
}

void layout_add_hole(struct layout *layout, struct kvmm_extent hole)
{
	add(&layout->hole, &layout->nr_holes, &layout->cap_holes, hole);
}

void layout_clear_runs(struct layout *layout)
{
	layout->nr_runs = 0;
}

void layout_add_run(struct layout *layout, u32 start)
{
	add(&layout->run, &layout->nr_runs, &layout->cap_runs, (struct kvmm_extent){ start, 0 });
}

/* What an engine holds for a run ends where the next run or a hole begins. */
void layout_sort_runs(struct layout *layout, u32 nr_blocks)
{
	u32 h = 0;

	qsort(layout->run, layout->nr_runs, sizeof(*layout->run), compare_u32);	/* by ->start */
	for (u32 i = 0; i < layout->nr_runs; i++) {
		struct kvmm_extent *run = &layout->run[i];
		u64 end = i + 1 < layout->nr_runs ? run[1].start : nr_blocks;

		while (h < layout->nr_holes && layout->hole[h].start < run->start)
			h++;
		if (h < layout->nr_holes)
			end = min_u64(end, layout->hole[h].start);
		run->nr = (u32)end - run->start;
	}
}

void layout_exit(struct layout *layout)
{
	free(layout->hole);
	free(layout->run);
	memset(layout, 0, sizeof(*layout));
}

u32 layout_longest_hole(const struct layout *layout)
{
	u32 longest = 0;

	for (u32 i = 0; i < layout->nr_holes; i++)
		longest = (u32)max_u64(longest, layout->hole[i].nr);
	return longest;
}

u64 layout_slide_cost(const struct layout *layout, u32 nr)
{
	const struct kvmm_extent *hole = layout->hole;
	u64 best = UINT64_MAX, total = 0;
	u32 j = 0;

	/* @total is the length of the holes from i to before j. */
	for (u32 i = 0; i < layout->nr_holes; i++) {
		while (total < nr && j < layout->nr_holes)
			total += hole[j++].nr;
		if (total < nr)
			break;
		best = min_u64(best, hole[j - 1].start - hole[i].start - (total - hole[j - 1].nr));
		total -= hole[i].nr;
	}
	return best == UINT64_MAX ? 0 : best;
}

u64 layout_bound_cost(const struct layout *layout, u32 nr_blocks, u32 nr)
{
	const struct kvmm_extent *run = layout->run;
	u64 best = UINT64_MAX, total = 0;
	u32 j = 0;

	if (layout_longest_hole(layout) >= nr)
		return 0;
	/* @total is the length of the runs from i to before j; without them [lo, hi) is free. */
	for (u32 i = 0; i < layout->nr_runs; i++) {
		u64 lo = i ? run[i - 1].start + run[i - 1].nr : 0;
		u64 hi = j < layout->nr_runs ? run[j].start : nr_blocks;

		while (hi - lo < nr && j < layout->nr_runs) {
			total += run[j++].nr;
			hi = j < layout->nr_runs ? run[j].start : nr_blocks;
		}
		if (hi - lo < nr)
			break;
		best = min_u64(best, total);
		total -= run[i].nr;
	}
	return best == UINT64_MAX ? 0 : best;
}
