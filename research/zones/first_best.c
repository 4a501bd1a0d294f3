// SPDX-License-Identifier: Apache-2.0
/*
 * The reference engines: one array of holes in address order, searched from end to end.
 *
 * "first" always takes the lowest hole that fits, "best" the shortest (lowest among equals) unless
 * a request says otherwise. They define what the fast engines must answer, so they have to be
 * right at a glance; an allocation costs time in proportion to the number of holes.
 *
 * Metadata: 8 bytes a hole, at most one hole for each two blocks: 4 bytes a block; and a bit a block
 * for those that look without the lock. All else is under the zone's lock.
 */
#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/zone.h>

#include "holes.h"
#include "research/research.h"

struct holes {
	u32			nr_blocks;	/* fixed by init */
	u32			nr_holes;
	u32			nr_free;
	u64			*free;		/* behind the holes; bit set: block is free */
	struct kvmm_extent	hole[];		/* ascending, never touching each other */
};

static size_t max_holes(u32 nr_blocks)
{
	return ((size_t)nr_blocks + 1) / 2;
}

static size_t holes_bytes(u32 nr_blocks)
{
	return sizeof(struct holes) + max_holes(nr_blocks) * sizeof(struct kvmm_extent) +
	       KV_WORDS((size_t)nr_blocks) * sizeof(u64);
}

static void holes_init(void *engine, u32 nr_blocks)
{
	struct holes *h = engine;

	h->nr_blocks = nr_blocks;
	h->nr_free = nr_blocks;
	h->nr_holes = 1;
	h->hole[0] = (struct kvmm_extent){ 0, nr_blocks };
	h->free = (u64 *)&h->hole[max_holes(nr_blocks)];
	map_set(h->free, 0, nr_blocks);
}

static u32 end_of(struct kvmm_extent run)
{
	return run.start + run.nr;
}

/* Index of the first hole that ends after @block; nr_holes if there is none. */
static u32 find_hole(const struct holes *h, u32 block)
{
	u32 lo = 0, hi = h->nr_holes;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (end_of(h->hole[mid]) > block)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void insert_hole(struct holes *h, u32 i, u32 start, u32 nr)
{
	memmove(&h->hole[i + 1], &h->hole[i], (h->nr_holes - i) * sizeof(h->hole[0]));
	h->hole[i] = (struct kvmm_extent){ start, nr };
	h->nr_holes++;
}

static void remove_hole(struct holes *h, u32 i)
{
	h->nr_holes--;
	memmove(&h->hole[i], &h->hole[i + 1], (h->nr_holes - i) * sizeof(h->hole[0]));
}

/* Take [start, start + nr) out of hole @i, which holds it. */
static void carve(struct holes *h, u32 i, u32 start, u32 nr)
{
	u32 front = start - h->hole[i].start;
	u32 back = end_of(h->hole[i]) - (start + nr);

	h->nr_free -= nr;
	map_clear(h->free, start, start + nr);
	if (front && back) {
		h->hole[i].nr = front;
		insert_hole(h, i + 1, start + nr, back);
	} else if (front) {
		h->hole[i].nr = front;
	} else if (back) {
		h->hole[i] = (struct kvmm_extent){ start + nr, back };
	} else {
		remove_hole(h, i);
	}
}

static u32 best_take(void *engine, const struct kv_zone_req *req)
{
	struct holes *h = engine;
	struct pick best = PICK_NONE;

	for (u32 i = 0; i < h->nr_holes; i++)
		if (h->hole[i].nr >= req->nr)
			pick_offer(&best, h->hole[i], req);
	if (best.start != KV_NONE)
		carve(h, find_hole(h, best.start), best.start, req->nr);
	return best.start;
}

static u32 first_take(void *engine, const struct kv_zone_req *req)
{
	struct kv_zone_req first = *req;

	first.fit = KV_FIT_FIRST;
	return best_take(engine, &first);
}

static int holes_take_at(void *engine, u32 start, u32 nr)
{
	struct holes *h = engine;
	u32 i = find_hole(h, start);

	if (i == h->nr_holes || h->hole[i].start > start || end_of(h->hole[i]) < start + nr)
		return -EBUSY;
	carve(h, i, start, nr);
	return 0;
}

static int holes_give(void *engine, u32 start, u32 nr)
{
	struct holes *h = engine;
	u32 i = find_hole(h, start);
	bool joins_next = i < h->nr_holes && h->hole[i].start == start + nr;
	bool joins_prev = i > 0 && end_of(h->hole[i - 1]) == start;

	if (i < h->nr_holes && h->hole[i].start < start + nr)
		return -EINVAL;
	h->nr_free += nr;
	map_set(h->free, start, start + nr);
	if (joins_prev && joins_next) {
		h->hole[i - 1].nr += nr + h->hole[i].nr;
		remove_hole(h, i);
	} else if (joins_prev) {
		h->hole[i - 1].nr += nr;
	} else if (joins_next) {
		h->hole[i] = (struct kvmm_extent){ start, nr + h->hole[i].nr };
	} else {
		insert_hole(h, i, start, nr);
	}
	return 0;
}

static struct kvmm_extent holes_next_free(const void *engine, u32 from)
{
	const struct holes *h = engine;
	u32 i = find_hole(h, from);

	return i < h->nr_holes ? h->hole[i] : (struct kvmm_extent){ KV_NONE, 0 };
}

static bool holes_is_free(const void *engine, u32 block)
{
	return holes_next_free(engine, block).start <= block;
}

static u64 holes_peek(const void *engine, u32 word)
{
	return kv_peek(&((const struct holes *)engine)->free[word]);
}

static u32 holes_nr_free(const void *engine)
{
	return kv_peek(&((const struct holes *)engine)->nr_free);
}

static u32 holes_nr_runs(const void *engine)
{
	return ((const struct holes *)engine)->nr_holes;
}

static unsigned int holes_kth_largest(const void *engine, u32 *len, unsigned int k)
{
	const struct holes *h = engine;
	unsigned int have = 0;

	for (u32 i = 0; i < h->nr_holes; i++)
		have = keep_longest(len, k, have, h->hole[i].nr);
	return have;
}

static u32 holes_largest(const void *engine)
{
	u32 len = 0;

	holes_kth_largest(engine, &len, 1);
	return len;
}

static u32 holes_usable(const void *engine, u32 nr, u32 *pieces)
{
	const struct holes *h = engine;
	u32 blocks = 0;

	*pieces = 0;
	for (u32 i = 0; i < h->nr_holes; i++) {
		if (h->hole[i].nr < nr)
			continue;
		blocks += h->hole[i].nr;
		++*pieces;
	}
	return blocks;
}

static int holes_check(const void *engine)
{
	const struct holes *h = engine;
	u64 nr_free = 0, end = 0;

	for (u32 i = 0; i < h->nr_holes; i++) {
		/* Equality would be two holes that should have been joined. */
		if (!h->hole[i].nr || (i && h->hole[i].start <= end))
			return -EUCLEAN;
		if (!map_is_clear(h->free, end, h->hole[i].start) ||
		    !map_is_set(h->free, h->hole[i].start, end_of(h->hole[i])))
			return -EUCLEAN;
		end = (u64)h->hole[i].start + h->hole[i].nr;
		nr_free += h->hole[i].nr;
	}
	if (end > h->nr_blocks || nr_free != h->nr_free)
		return -EUCLEAN;
	return map_is_clear(h->free, end, h->nr_blocks) ? 0 : -EUCLEAN;
}

#define HOLES_OPS									\
	.metadata_bytes = holes_bytes, .init = holes_init,				\
	.take_at = holes_take_at, .give = holes_give,					\
	.next_free = holes_next_free, .is_free = holes_is_free,				\
	.nr_free = holes_nr_free, .nr_runs = holes_nr_runs,				\
	.largest = holes_largest, .usable = holes_usable,				\
	.kth_largest = holes_kth_largest, .check = holes_check, .peek = holes_peek

const struct kv_zone_ops kv_zone_first = {
	.name		= "first",
	.take		= first_take,
	HOLES_OPS,
};

const struct kv_zone_ops kv_zone_best = {
	.name		= "best",
	.take		= best_take,
	HOLES_OPS,
};
