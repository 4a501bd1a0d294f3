// SPDX-License-Identifier: Apache-2.0
/* Free blocks as the pool's allocator has them: a buddy's pieces side by side are several holes. */
#include <kv/pool.h>
#include <kv/zone.h>

#include "frag.h"

struct frag_free frag_free_now(const struct frag *frag)
{
	struct kv_zone_stat stat;

	kv_zone_get_stat(kv_pool_zone(frag->pool), &stat);
	return (struct frag_free){ stat.nr_blocks, stat.nr_free, stat.nr_runs, stat.largest };
}

u64 frag_unusable_ppm(struct frag *frag, u32 nr)
{
	return (u64)kv_zone_unusable(kv_pool_zone(frag->pool), nr);
}

void frag_find_holes(struct frag *frag)
{
	struct kv_zone *zone = kv_pool_zone(frag->pool);
	struct kvmm_extent hole = { 0, 0 };

	layout_clear_holes(&frag->layout);
	while (!kv_zone_next_free(zone, hole.start + hole.nr, &hole))
		layout_add_hole(&frag->layout, hole);
}
