// SPDX-License-Identifier: Apache-2.0
/*
 * The binary buddy: free blocks of 2^order, split in halves, merged by address xor size.
 *
 * Two engines share it. "buddy" is the classic one: a request holds a whole block and gives the
 * whole block back. "buddy-trim" searches in the same way, then gives the tail beyond the request
 * back as maximal aligned blocks, and takes any part of anything back.
 *
 * Hard part: "lowest address of the smallest order" must be exact, so free lists in the order of
 * their history will not do. Each order has a bitmap with summaries instead: finding the lowest
 * block costs one word per level, and the buddy test of a merge is a bit test. Since free buddies
 * always merge, the free state is a function of what is allocated, with any history.
 *
 * Metadata: 2 bits a block for the maps (1/63 of that for summaries), and for the classic engine
 * one byte a block: 1.3 bytes a block, or 0.3 with trimming. All under the zone's lock.
 */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/zone.h>

#include "internal.h"
#include "map.h"

#define NR_ORDERS	25u		/* a block of 2^24 is the whole of the largest zone */

static_assert(KVMM_MAX_BLOCKS == BIT(NR_ORDERS - 1), "one order for each block size");

struct free_area {
	struct bitree	map;		/* bit i: block i << order is free as a whole */
	u32		nr;		/* bits set */
};

struct buddy {
	/* Fixed by init. */
	u32			nr_blocks;
	u32			max_order;
	u8			*held_order;	/* classic: order + 1 at a held head, else 0 */

	u32			nr_free;	/* blocks */
	u32			nonempty;	/* bit o: area[o] has a block */
	struct free_area	area[NR_ORDERS];
};

/* A bit for each block that begins in the zone and, so that it can be asked for, its buddy. */
static u32 area_bits(u32 nr_blocks, unsigned int order)
{
	u32 nr = ((nr_blocks - 1) >> order) + 1;

	return kv_align_up(nr, 2);
}

static void add_block(struct buddy *b, u32 head, unsigned int order)
{
	struct free_area *area = &b->area[order];

	kv_assert(order <= b->max_order && head < b->nr_blocks);
	bitree_set(&area->map, head >> order);
	area->nr++;
	b->nonempty |= BIT(order);
	b->nr_free += BIT(order);
}

static void del_block(struct buddy *b, u32 head, unsigned int order)
{
	struct free_area *area = &b->area[order];

	kv_assert(order <= b->max_order && head < b->nr_blocks);
	bitree_clear(&area->map, head >> order);
	if (!--area->nr)
		b->nonempty &= ~BIT(order);
	kv_assert(b->nr_free >= BIT(order));
	b->nr_free -= BIT(order);
}

static bool block_is_free(const struct buddy *b, u32 head, unsigned int order)
{
	kv_assert(order <= b->max_order);
	return bitree_test(&b->area[order].map, head >> order);
}

/* Merge with the buddy for as long as it is free as a whole. */
static void free_block(struct buddy *b, u32 head, unsigned int order)
{
	KV_BUG_ON(head & (BIT(order) - 1));

	for (; order < b->max_order; order++) {
		u32 buddy = head ^ BIT(order);

		if (!block_is_free(b, buddy, order))
			break;
		del_block(b, buddy, order);
		head &= ~BIT(order);			/* now the pair's head */
	}
	add_block(b, head, order);
}

/*
 * Take the block (at, low) out of the free block (head, high) around it. For at == head the upper
 * half goes back at each order: live blocks pack downward and the top drains by itself.
 */
static void split_block(struct buddy *b, u32 head, unsigned int high, u32 at, unsigned int low)
{
	KV_BUG_ON(high < low || at - head >= BIT(high));

	del_block(b, head, high);
	while (high > low) {
		high--;
		if (at & BIT(high)) {
			add_block(b, head, high);
			head += BIT(high);
		} else {
			add_block(b, head + BIT(high), high);
		}
	}
}

/* Order of the largest aligned block that begins at @start and ends by @end. */
static unsigned int piece_order(u32 start, u32 end)
{
	unsigned int fits = kv_log2(end - start);

	kv_assert(start < end);
	return start ? min(kv_lowest64(start), fits) : fits;
}

/* The free block that holds all of (at, order): its order, or -1. */
static int order_around(const struct buddy *b, u32 at, unsigned int order)
{
	kv_assert(at < b->nr_blocks);
	for (; order <= b->max_order; order++)
		if (block_is_free(b, at & ~(BIT(order) - 1), order))
			return order;
	return -1;
}

/* Give [start, end) back as maximal aligned blocks, low to high. */
static void free_pieces(struct buddy *b, u32 start, u32 end)
{
	kv_assert(end <= b->nr_blocks);
	while (start < end) {
		unsigned int order = piece_order(start, end);

		free_block(b, start, order);
		start += BIT(order);
	}
}

/*
 * First place for @req among the free blocks of one order, in the direction asked for. Blocks
 * that are aligned fail only at the window's two edges; others are skipped an alignment at a time.
 */
static u32 place_in_order(const struct buddy *b, unsigned int order,
			  const struct kv_zone_req *req)
{
	const struct bitree *map = &b->area[order].map;
	u32 step = req->align > BIT(order) ? req->align >> order : 1;
	u32 first = req->lo >> order, last = (req->hi - 1) >> order;
	u32 i = req->topdown ? bitree_prev(map, last) : bitree_next(map, first);

	kv_assert(order <= b->max_order && req->lo < req->hi);
	while (i != KV_NONE && i >= first && i <= last) {
		u32 at = place_in_hole((struct kvmm_extent){ i << order, BIT(order) }, req);

		if (at != KV_NONE)
			return at;
		if (!req->topdown)
			i = bitree_next(map, (i & ~(step - 1)) + step);
		else if (i)
			i = bitree_prev(map, (i - 1) & ~(step - 1));
		else
			break;
	}
	return KV_NONE;
}

/* Smallest order that serves; with first fit, the order that serves at the lowest address. */
static u32 search_orders(const struct buddy *b, unsigned int low, const struct kv_zone_req *req,
			 unsigned int *high)
{
	u32 best = KV_NONE;

	kv_assert(low <= b->max_order);
	for (u32 left = b->nonempty >> low << low; left; left &= left - 1) {
		unsigned int order = kv_lowest64(left);
		u32 at = place_in_order(b, order, req);

		if (at == KV_NONE)
			continue;
		if (best == KV_NONE || (req->topdown ? at > best : at < best)) {
			best = at;
			*high = order;
		}
		if (req->fit == KV_FIT_BEST)
			break;
	}
	return best;
}

/*
 * Take a block of 2^order for @req, of which at least @held blocks must lie in the window.
 * Returns its head or KV_NONE.
 */
static u32 take_block(struct buddy *b, const struct kv_zone_req *req, unsigned int order,
		      u32 held)
{
	u32 avail = b->nonempty >> order, at;
	unsigned int high = order;

	kv_assert(held && held <= BIT(order));
	if (!avail)
		return KV_NONE;
	if (likely(req_is_plain(req, b->nr_blocks, BIT(order)))) {
		high += kv_lowest64(avail);
		at = bitree_lowest(&b->area[high].map) << high;
	} else {
		struct kv_zone_req aligned = *req;

		aligned.nr = held;
		aligned.align = max(req->align, BIT(order));
		at = search_orders(b, order, &aligned, &high);
		if (at == KV_NONE)
			return KV_NONE;
	}
	split_block(b, at & ~(BIT(high) - 1), high, at, order);
	return at;
}

/* The classic engine. */

static u32 classic_take(void *engine, const struct kv_zone_req *req)
{
	struct buddy *b = engine;
	unsigned int order = kv_order(req->nr);
	u32 head = take_block(b, req, order, BIT(order));

	kv_assert(req->nr && req->nr <= b->nr_blocks);
	if (likely(head != KV_NONE))
		b->held_order[head] = order + 1;
	return head;
}

static int classic_take_at(void *engine, u32 start, u32 nr)
{
	struct buddy *b = engine;
	unsigned int order = kv_order(nr);
	int high;

	kv_assert(nr && start + nr <= b->nr_blocks);
	if (!kv_is_pow2(nr) || start & (nr - 1))
		return -EOPNOTSUPP;
	high = order_around(b, start, order);
	if (high < 0)
		return -EBUSY;
	split_block(b, start & ~(BIT(high) - 1), high, start, order);
	b->held_order[start] = order + 1;
	return 0;
}

static int classic_give(void *engine, u32 start, u32 nr)
{
	struct buddy *b = engine;
	unsigned int order = kv_order(nr);

	kv_assert(nr && start + nr <= b->nr_blocks);
	/* No head of that order: a half, a double, an unaligned free, or free already. */
	if (b->held_order[start] != order + 1)
		return -EINVAL;
	b->held_order[start] = 0;
	free_block(b, start, order);
	return 0;
}

static u32 classic_held(u32 nr)
{
	return BIT(kv_order(nr));
}

/* The trimming engine. */

static u32 trim_take(void *engine, const struct kv_zone_req *req)
{
	struct buddy *b = engine;
	unsigned int order = kv_order(req->nr);
	u32 head = take_block(b, req, order, req->nr);

	kv_assert(req->nr && req->nr <= b->nr_blocks);
	if (likely(head != KV_NONE))
		free_pieces(b, head + req->nr, head + BIT(order));
	return head;
}

static int trim_take_at(void *engine, u32 start, u32 nr)
{
	struct buddy *b = engine;
	u32 end = start + nr;

	kv_assert(start < end && end <= b->nr_blocks);
	for (u32 at = start; at < end; at += BIT(piece_order(at, end)))
		if (order_around(b, at, piece_order(at, end)) < 0)
			return -EBUSY;
	while (start < end) {
		unsigned int order = piece_order(start, end);
		int high = order_around(b, start, order);

		split_block(b, start & ~(BIT(high) - 1), high, start, order);
		start += BIT(order);
	}
	return 0;
}

static int trim_give(void *engine, u32 start, u32 nr)
{
	struct buddy *b = engine;

	kv_assert(nr && start + nr <= b->nr_blocks);
	for (u32 left = b->nonempty; left; left &= left - 1) {
		unsigned int order = kv_lowest64(left);

		if (bitree_next(&b->area[order].map, start >> order) <= (start + nr - 1) >> order)
			return -EINVAL;
	}
	free_pieces(b, start, start + nr);
	return 0;
}

/* Set-up and reading, the same for both. */

static size_t trim_bytes(u32 nr_blocks)
{
	size_t words = 0;

	for (unsigned int order = 0; order <= kv_log2(nr_blocks); order++)
		words += bitree_words(area_bits(nr_blocks, order));
	return sizeof(struct buddy) + words * sizeof(u64);
}

static size_t classic_bytes(u32 nr_blocks)
{
	return trim_bytes(nr_blocks) + nr_blocks;
}

static u64 *init_maps(struct buddy *b, u32 nr_blocks)
{
	u64 *mem = (u64 *)(b + 1);

	b->nr_blocks = nr_blocks;
	b->max_order = kv_log2(nr_blocks);
	for (unsigned int order = 0; order <= b->max_order; order++)
		mem = bitree_init(&b->area[order].map, mem, area_bits(nr_blocks, order));
	free_pieces(b, 0, nr_blocks);
	return mem;
}

static void trim_init(void *engine, u32 nr_blocks)
{
	init_maps(engine, nr_blocks);
}

static void classic_init(void *engine, u32 nr_blocks)
{
	struct buddy *b = engine;

	b->held_order = (u8 *)init_maps(b, nr_blocks);
}

struct kvmm_extent kv_buddy_next_block(const void *engine, u32 from)
{
	const struct buddy *b = engine;
	struct kvmm_extent first = { KV_NONE, 0 };

	kv_assert(from <= b->nr_blocks);
	for (u32 left = b->nonempty; left; left &= left - 1) {
		unsigned int order = kv_lowest64(left);
		u32 i = bitree_next(&b->area[order].map, from >> order);

		if (i != KV_NONE && i << order < first.start)
			first = (struct kvmm_extent){ i << order, BIT(order) };
	}
	return first;
}

/* Neighbouring blocks that are no buddies are one run of free blocks all the same. */
static struct kvmm_extent buddy_next_free(const void *engine, u32 from)
{
	const struct buddy *b = engine;
	struct kvmm_extent run = kv_buddy_next_block(b, from), next;
	unsigned int order = 0;

	/* The free block that ends right before the run is aligned to its own length. */
	while (run.nr && run.start && order <= b->max_order && !(run.start & (BIT(order) - 1))) {
		if (!block_is_free(b, run.start - BIT(order), order)) {
			order++;
			continue;
		}
		run.start -= BIT(order);
		run.nr += BIT(order);
		order = 0;
	}
	if (!run.nr)
		return run;
	while (next = kv_buddy_next_block(b, run.start + run.nr),
	       next.start == run.start + run.nr)
		run.nr += next.nr;
	return run;
}

static bool buddy_is_free(const void *engine, u32 block)
{
	return order_around(engine, block, 0) >= 0;
}

/* Free buddies of up to a word lie in it; larger ones cover it. */
static u64 buddy_peek(const void *engine, u32 word)
{
	const struct buddy *b = engine;
	u32 first = word * KV_WORD_BITS;
	u64 bits = 0;

	kv_assert(word < KV_WORDS(b->nr_blocks));
	for (unsigned int order = 0; order <= b->max_order; order++) {
		u32 at = first >> order, nr = max(KV_WORD_BITS >> order, 1u);
		u64 heads = kv_peek(&b->area[order].map.level[0][at / KV_WORD_BITS]);

		heads = heads >> at % KV_WORD_BITS & kv_mask64(0, nr);
		for (; heads; heads &= heads - 1) {
			u32 lo = (kv_lowest64(heads) << order) % KV_WORD_BITS;

			bits |= kv_mask64(lo, lo + min(BIT(order), KV_WORD_BITS));
		}
	}
	return bits;
}

static u32 buddy_nr_free(const void *engine)
{
	return kv_peek(&((const struct buddy *)engine)->nr_free);
}

static u32 buddy_usable(const void *engine, u32 nr, u32 *pieces)
{
	const struct buddy *b = engine;
	unsigned int end = min(b->max_order + 1, NR_ORDERS);
	u32 blocks = 0;

	kv_assert(nr && nr <= b->nr_blocks);
	*pieces = 0;
	for (unsigned int order = kv_order(nr); order < end; order++) {
		*pieces += b->area[order].nr;
		blocks += b->area[order].nr << order;
	}
	return blocks;
}

static u32 buddy_nr_runs(const void *engine)
{
	u32 pieces;

	buddy_usable(engine, 1, &pieces);
	return pieces;
}

static u32 buddy_largest(const void *engine)
{
	const struct buddy *b = engine;

	return b->nonempty ? BIT(kv_log2(b->nonempty)) : 0;
}

static unsigned int buddy_kth_largest(const void *engine, u32 *len, unsigned int k)
{
	const struct buddy *b = engine;
	unsigned int have = 0;

	for (unsigned int order = b->max_order + 1; order-- > 0;)
		for (u32 nr = b->area[order].nr; nr && have < k; nr--)
			len[have++] = BIT(order);
	return have;
}

/* Bits, counters and summaries of one order; adds its blocks to @nr_free. */
static int check_order(const struct buddy *b, unsigned int order, u32 *nr_free)
{
	const struct free_area *area = &b->area[order];
	const struct bitree *map = &area->map;

	kv_assert(order <= b->max_order);
	if (!bitree_is_sound(map) || bitree_count(map) != area->nr ||
	    !area->nr != !(b->nonempty & BIT(order)))
		return -EUCLEAN;
	for (u32 i = bitree_next(map, 0); i != KV_NONE; i = bitree_next(map, i + 1)) {
		if (((u64)i + 1) << order > b->nr_blocks)
			return -EUCLEAN;
		if (order < b->max_order && bitree_test(map, i ^ 1))
			return -EUCLEAN;		/* two free buddies: not merged */
		if (order_around(b, i << order, order + 1) >= 0)
			return -EUCLEAN;		/* inside a larger free block */
	}
	*nr_free += area->nr << order;
	return 0;
}

static int trim_check(const void *engine)
{
	const struct buddy *b = engine;
	u32 nr_free = 0;
	int err = 0;

	for (unsigned int order = 0; order <= b->max_order && !err; order++)
		err = check_order(b, order, &nr_free);
	if (err || nr_free != b->nr_free || b->nonempty >> b->max_order > 1)
		return -EUCLEAN;
	return 0;
}

/* Allocations are aligned and, with the free blocks, fill the zone. */
static int classic_check(const void *engine)
{
	const struct buddy *b = engine;
	u32 at = 0;

	if (trim_check(b))
		return -EUCLEAN;
	while (at < b->nr_blocks) {
		struct kvmm_extent next = kv_buddy_next_block(b, at);
		u32 nr;

		if (b->held_order[at] > b->max_order + 1)
			return -EUCLEAN;
		nr = BIT(b->held_order[at]) >> 1;
		if (next.nr && next.start == at) {
			if (nr)
				return -EUCLEAN;
			nr = next.nr;
		}
		if (!nr || at & (nr - 1) || at + nr > b->nr_blocks)
			return -EUCLEAN;
		for (u32 i = 1; i < nr; i++)
			if (b->held_order[at + i])
				return -EUCLEAN;
		at += nr;
	}
	return 0;
}

#define BUDDY_OPS									\
	.next_free = buddy_next_free, .is_free = buddy_is_free,				\
	.nr_free = buddy_nr_free, .nr_runs = buddy_nr_runs,				\
	.largest = buddy_largest, .usable = buddy_usable,				\
	.kth_largest = buddy_kth_largest, .peek = buddy_peek

const struct kv_zone_ops kv_zone_buddy = {
	.name		= "buddy",
	.aligned	= true,
	.metadata_bytes	= classic_bytes,
	.init		= classic_init,
	.take		= classic_take,
	.take_at	= classic_take_at,
	.give		= classic_give,
	.held		= classic_held,
	.check		= classic_check,
	BUDDY_OPS,
};

const struct kv_zone_ops kv_zone_buddy_trim = {
	.name		= "buddy-trim",
	.aligned	= true,
	.metadata_bytes	= trim_bytes,
	.init		= trim_init,
	.take		= trim_take,
	.take_at	= trim_take_at,
	.give		= trim_give,
	.check		= trim_check,
	BUDDY_OPS,
};
