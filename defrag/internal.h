/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by planners: the holes between the items of a picture, and packing. */
#ifndef DEFRAG_INTERNAL_H
#define DEFRAG_INTERNAL_H

#include <kv/defrag.h>
#include <kv/err.h>

/*
 * Hole @i lies before item @i, hole @nr_items behind the last one. A hole may be empty.
 */
static inline u32 hole_start(const struct kv_plan_req *req, u32 i)
{
	kv_assert(i <= req->nr_items);
	return i ? req->items[i - 1].start + req->items[i - 1].nr : 0;
}

static inline u32 hole_end(const struct kv_plan_req *req, u32 i)
{
	kv_assert(i <= req->nr_items);
	return i < req->nr_items ? req->items[i].start : req->nr_blocks;
}

static inline u32 hole_nr(const struct kv_plan_req *req, u32 i)
{
	kv_assert(hole_end(req, i) >= hole_start(req, i));
	return hole_end(req, i) - hole_start(req, i);
}

/* Append one move; false if it would go over the budget or the room. */
bool plan_add(const struct kv_plan_req *req, struct kv_plan *plan, u32 src, u32 dst, u32 nr);

/* The holes first..last and the items between them, which can all move. */
struct stretch {
	u32 first;	/* KV_NONE: there is none */
	u32 last;
	u64 cost;	/* blocks of the items in between */
};

/* The cheapest with @want blocks free; cost 0 = such a hole exists. */
struct stretch plan_cheapest_stretch(const struct kv_plan_req *req);

/* Slide all of it down; -ENOSPC, and no moves, if that goes over the budget or the room. */
int plan_slide(const struct kv_plan_req *req, struct kv_plan *plan, const struct stretch *stretch);

/*
 * As much free in as few runs as can be, or what is wanted in so many runs as it may lie in: 0, or
 * -EALREADY it is so, or -ENOSPC. plan_pack_scratch() bytes.
 */
int plan_pack(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch);
size_t plan_pack_scratch(u32 nr_items);

#endif /* DEFRAG_INTERNAL_H */
