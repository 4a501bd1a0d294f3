/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the engines: where a request fits in a hole. */
#ifndef BUDDY_INTERNAL_H
#define BUDDY_INTERNAL_H

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/types.h>
#include <kv/zone.h>

/* No window, no direction, nothing but a length: a request of the fast paths. */
static inline bool req_is_plain(const struct kv_zone_req *req, u32 nr_blocks, u32 align)
{
	return !(req->lo | req->topdown | req->fit) && req->hi == nr_blocks &&
	       req->align <= align;
}

/* Where the request would lie in this hole, or KV_NONE. */
static inline u32 place_in_hole(struct kvmm_extent hole, const struct kv_zone_req *req)
{
	u64 lo = max(hole.start, req->lo);
	u64 hi = min(hole.start + hole.nr, req->hi);
	u64 start;

	kv_assert(kv_is_pow2(req->align));
	if (hi < lo + req->nr)
		return KV_NONE;
	if (req->topdown)
		start = (hi - req->nr) & ~((u64)req->align - 1);
	else
		start = kv_align_up(lo, req->align);
	return start >= lo && start + req->nr <= hi ? start : KV_NONE;
}

/* A length that the zone has? */
static inline bool zone_can_hold(const struct kv_zone *zone, u32 nr)
{
	return nr && nr <= zone->nr_blocks;
}

static inline u32 nr_pageblocks(const struct kv_zone *zone)
{
	return ((zone->nr_blocks - 1) >> zone->pageblock_order) + 1;
}

/* buddyinfo's counts of one run, added to @counts: kv_zone_glance(). */
void kv_zone_count_run(const struct kv_zone *zone, struct kvmm_extent run, u64 *counts);

/* First free buddy block that ends after @from, or .nr = 0. For tests: splits a run in blocks. */
struct kvmm_extent kv_buddy_next_block(const void *engine, u32 from);

#endif /* BUDDY_INTERNAL_H */
