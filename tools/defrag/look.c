// SPDX-License-Identifier: Apache-2.0
/* What replay/look.c finds inside the library, by calls that it exports: free runs, as the default allocator
 * has them. A walk over all blocks, where that one knows. */
#include <kvmm/ext/inspect.h>

#include "defrag.h"

#define NR_RUNS	64

struct frag_free frag_free_now(const struct frag *frag)
{
	struct kvmm_pool_stat stat = { 0 };

	kvmm_pool_get_stat(frag->pool, &stat);
	return (struct frag_free){ stat.nr_blocks, stat.nr_free, stat.nr_runs, stat.largest };
}

/* A reading has an end at some block, where no hole need have one. */
static void add_hole(struct layout *layout, const struct kvmm_map_run *run)
{
	struct kvmm_extent *last = layout->hole + layout->nr_holes - 1;

	if (layout->nr_holes && last->start + last->nr == run->first)
		last->nr += run->nr;
	else
		layout_add_hole(layout, (struct kvmm_extent){ run->first, run->nr });
}

void frag_find_holes(struct frag *frag)
{
	struct kvmm_map_run run[NR_RUNS];
	u32 at = 0;
	int nr;

	layout_clear_holes(&frag->layout);
	while ((nr = kvmm_map_read(frag->pool, &at, KVMM_MAP_COARSE, run, NR_RUNS)) > 0)
		for (int i = 0; i < nr; i++)
			if (run[i].state == KVMM_MAP_FREE)
				add_hole(&frag->layout, &run[i]);
}

u64 frag_unusable_ppm(struct frag *frag, u32 nr)
{
	u64 nr_free = 0, nr_short = 0;

	frag_find_holes(frag);
	for (u32 i = 0; i < frag->layout.nr_holes; i++) {
		u32 have = frag->layout.hole[i].nr;

		nr_free += have;
		nr_short += have < nr ? have : 0;
	}
	return nr_free ? nr_short * 1000000 / nr_free : 1000000;
}
