// SPDX-License-Identifier: Apache-2.0
/* Blocks ordered by virtual time; see vtime.h. */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kvmm/types.h>

#include "vtime.h"

#define SLOT_MASK	(VTIME_BUCKETS - 1)

static_assert(VTIME_WORDS == 64, "one word names the words that are not 0");
static_assert(sizeof(struct vtime_link) == 16, "side memory is 16 bytes a block");
static_assert(KVMM_MAX_BLOCKS + VTIME_BUCKETS <= BIT(31), "a block id fits the links");

/* ---- heads and bits ---- */

static u32 head_of_slot(const struct vtime *vtime, u32 slot)
{
	return vtime->nr_blocks + slot;
}

static void mark_slot(struct vtime *vtime, u32 slot)
{
	vtime->bits[slot / 64] |= BIT64(slot % 64);
	vtime->words |= BIT64(slot / 64);
}

static void unmark_slot(struct vtime *vtime, u32 slot)
{
	vtime->bits[slot / 64] &= ~BIT64(slot % 64);
	if (!vtime->bits[slot / 64])
		vtime->words &= ~BIT64(slot / 64);
}

/* Slot of the first bucket at or behind @base that is not empty, around the ring; or KV_NONE. */
static u32 first_slot(const struct vtime *vtime)
{
	u32 start = vtime->base & SLOT_MASK, word = start / 64;
	u64 here = vtime->bits[word], later = here & (~0ull << start % 64), words;

	if (later)
		return word * 64 + kv_lowest64(later);
	words = vtime->words & ~BIT64(word);
	if (words) {
		u64 above = words & ~(~0ull >> (63 - word));

		word = kv_lowest64(above ? above : words);
		return word * 64 + kv_lowest64(vtime->bits[word]);
	}
	return here ? word * 64 + kv_lowest64(here) : KV_NONE;
}

/* ---- links ---- */

static u32 prev_of(const struct vtime_link *link)
{
	return link->prev & ~VTIME_IN;
}

static bool is_in(const struct vtime_link *link)
{
	return link->prev & VTIME_IN;
}

/* All that is next to a block that is in a list is in it, too. */
static void join(struct vtime_link *links, u32 prev, u32 next)
{
	links[prev].next = next;
	links[next].prev = prev | VTIME_IN;
}

/* Between @prev and its successor. */
static void link_add(struct vtime *vtime, u32 prev, u32 block)
{
	struct vtime_link *links = vtime->link;
	u32 next = links[prev].next;

	join(links, prev, block);
	join(links, block, next);
	vtime->nr++;
}

/* All from @first to @last out of a list, but not from each other. An empty one is its head. */
static void cut(struct vtime *vtime, u32 first, u32 last)
{
	u32 prev = prev_of(&vtime->link[first]), next = vtime->link[last].next;

	join(vtime->link, prev, next);
	if (prev == next && prev >= vtime->nr_blocks)
		unmark_slot(vtime, prev - vtime->nr_blocks);
}

static void link_del(struct vtime *vtime, u32 block)
{
	cut(vtime, block, block);
	vtime->link[block].prev &= ~VTIME_IN;
	kv_assert(vtime->nr);
	vtime->nr--;
}

static bool block_is_bad(const struct vtime *vtime, u32 block, bool in)
{
	return KV_BUG_ON(block >= vtime->nr_blocks) || KV_BUG_ON(is_in(&vtime->link[block]) != in);
}

/* ---- calls ---- */

size_t vtime_bytes(u32 nr_blocks)
{
	return ((size_t)nr_blocks + VTIME_BUCKETS) * sizeof(struct vtime_link);
}

void vtime_init(struct vtime *vtime, u32 nr_blocks, void *links)
{
	vtime->nr_blocks = nr_blocks;
	vtime->link = links;
	for (u32 head = nr_blocks; head < nr_blocks + VTIME_BUCKETS; head++) {
		join(links, head, head);
	}
}

static u32 slot_of(const struct vtime *vtime, u64 bucket)
{
	u64 inside = max(bucket, vtime->base);

	return min(inside, vtime->base + VTIME_BUCKETS - 1) & SLOT_MASK;
}

/* The block that came VTIME_AHEAD before is told. */
static inline void tell_before(struct vtime *vtime, u32 block)
{
	u32 *last = &vtime->last[vtime->nr_entered++ % VTIME_AHEAD], *ahead;

	ahead = &vtime->link[*last].ahead;
	vtime->ahead_sum += (u64)block - *ahead;
	*ahead = block;
	*last = block;
}

void vtime_enter(struct vtime *vtime, u32 block, u64 bucket)
{
	vtime_enter_many(vtime, &block, !block_is_bad(vtime, block, false), bucket);
}

/*
 * The first ones, as many as follow each other in one list, go behind the others of @head's, which
 * ends with @last so far: how many. A chain that is used again does.
 */
static u32 move_row(struct vtime *vtime, u32 head, u32 last, const u32 *blocks, u32 nr)
{
	struct vtime_link *links = vtime->link;
	u32 row = 1;

	join(links, last, head);
	while (row < nr && links[blocks[row - 1]].next == blocks[row])
		row++;
	cut(vtime, blocks[0], blocks[row - 1]);
	vtime->nr -= row;
	join(links, prev_of(&links[head]), blocks[0]);
	for (u32 i = 0; i < row; i++)
		tell_before(vtime, blocks[i]);
	return row;
}

/* Blocks that come between the last one and the head: that one's link is written at the end. */
void vtime_enter_many(struct vtime *vtime, const u32 *blocks, u32 nr, u64 bucket)
{
	struct vtime_link *links = vtime->link;
	u32 slot = slot_of(vtime, bucket), head = head_of_slot(vtime, slot);
	u32 last = prev_of(&links[head]);

	if (unlikely(!nr))
		return;
	vtime->nr_picked = 0;
	vtime->nr += nr;
	for (u32 i = 0; i < nr; i++) {
		kv_assert(blocks[i] < vtime->nr_blocks);
		if (is_in(&links[blocks[i]])) {
			i += move_row(vtime, head, last, blocks + i, nr - i) - 1;
		} else {
			join(links, last, blocks[i]);
			tell_before(vtime, blocks[i]);
		}
		last = blocks[i];
	}
	join(links, last, head);
	mark_slot(vtime, slot);
}

void vtime_enter_front(struct vtime *vtime, u32 block, u64 bucket)
{
	u32 slot = slot_of(vtime, bucket);

	if (block_is_bad(vtime, block, false))
		return;
	vtime->nr_picked = 0;
	mark_slot(vtime, slot);
	link_add(vtime, head_of_slot(vtime, slot), block);
}

void vtime_leave(void *policy, u32 block)
{
	struct vtime *vtime = policy;

	if (block_is_bad(vtime, block, true))
		return;
	vtime->nr_picked = 0;
	link_del(vtime, block);
}

/* Their links, and then those of their neighbours. */
void vtime_expect(const void *policy, const u32 *blocks, u32 nr, bool soon)
{
	const struct vtime *vtime = policy;

	for (u32 i = 0; i < nr && !soon; i++)
		kv_prefetch_write(&vtime->link[blocks[i]]);
	for (u32 i = 0; i < nr && soon; i++) {
		const struct vtime_link *link = &vtime->link[blocks[i]];

		kv_prefetch_write(&vtime->link[prev_of(link)]);
		kv_prefetch_write(&vtime->link[link->next]);
	}
}

void vtime_ahead(const void *policy, const u32 *blocks, u32 nr, u32 *ahead)
{
	const struct vtime *vtime = policy;

	for (u32 i = 0; i < nr; i++) {
		kv_assert(blocks[i] < vtime->nr_blocks);
		ahead[i] = vtime->link[blocks[i]].ahead;
	}
}

u32 vtime_nr(const void *policy)
{
	const struct vtime *vtime = policy;

	return vtime->nr;
}

u32 vtime_first(const struct vtime *vtime)
{
	u32 slot = first_slot(vtime);

	return slot == KV_NONE ? KV_NONE : vtime->link[head_of_slot(vtime, slot)].next;
}

u32 vtime_first_in(const struct vtime *vtime, u64 bucket)
{
	u32 next = vtime->link[head_of_slot(vtime, slot_of(vtime, bucket))].next;

	return next < vtime->nr_blocks ? next : KV_NONE;
}

void vtime_take(void *policy, u32 block)
{
	struct vtime *vtime = policy;

	if (block_is_bad(vtime, block, true))
		return;
	vtime->nr_picked++;
	link_del(vtime, block);
}

/* A list is cut once, and its links are as if they had gone one by one. */
u32 vtime_pick_many(void *policy, u32 nr, u32 *victims)
{
	struct vtime *vtime = policy;
	struct vtime_link *links = vtime->link;
	u32 nr_done = 0, slot;

	while (nr_done < nr && (slot = first_slot(vtime)) != KV_NONE) {
		u32 head = head_of_slot(vtime, slot), at = links[head].next;

		for (; at != head && nr_done < nr; at = links[at].next) {
			links[at].prev = head;
			victims[nr_done++] = at;
		}
		join(links, head, at);
		if (at == head)
			unmark_slot(vtime, slot);
	}
	kv_assert(vtime->nr >= nr_done);
	vtime->nr -= nr_done;
	vtime->nr_picked += nr_done;
	return nr_done;
}

u32 vtime_pick(void *policy)
{
	u32 block;

	return vtime_pick_many(policy, 1, &block) ? block : KV_NONE;
}

void vtime_unpick(void *policy, u32 block)
{
	struct vtime *vtime = policy;
	u32 prev = prev_of(&vtime->link[block]);

	if (block_is_bad(vtime, block, false))
		return;
	if (unlikely(!vtime->nr_picked)) {
		vtime_enter_front(vtime, block, vtime->base);
		return;
	}
	vtime->nr_picked--;
	/* Victims taken later that are lost, as their entries are worn out, kept their links. */
	while (unlikely(!is_in(&vtime->link[prev])))
		prev = prev_of(&vtime->link[prev]);
	if (prev >= vtime->nr_blocks)
		mark_slot(vtime, prev - vtime->nr_blocks);
	link_add(vtime, prev, block);
}

/* ---- the window ---- */

/* All of one list, in its order, in front of another. */
static void splice(struct vtime *vtime, u32 from, u32 to)
{
	struct vtime_link *links = vtime->link;
	u32 first = links[from].next, last = prev_of(&links[from]);

	join(links, last, links[to].next);
	join(links, to, first);
	join(links, from, from);
}

/* From the oldest on, each list goes in front of the next one, the last into @base. */
void vtime_advance(struct vtime *vtime, u64 base)
{
	while (vtime->base < base) {
		u32 slot = first_slot(vtime), next;
		u64 bucket = vtime->base + ((slot - (u32)vtime->base) & SLOT_MASK), to = base;

		if (slot == KV_NONE || bucket >= base) {
			vtime->base = base;
			return;
		}
		unmark_slot(vtime, slot);
		next = first_slot(vtime);
		if (next != KV_NONE)
			to = min(vtime->base + ((next - (u32)vtime->base) & SLOT_MASK), base);
		splice(vtime, head_of_slot(vtime, slot), head_of_slot(vtime, to & SLOT_MASK));
		mark_slot(vtime, to & SLOT_MASK);
		vtime->base = to;
		vtime->nr_picked = 0;
	}
}

/* ---- check ---- */

/* Blocks in one list, or KV_NONE: its links contradict each other. */
static u32 count_list(const struct vtime *vtime, u32 head)
{
	u32 prev = head, nr = 0, at;

	for (at = vtime->link[head].next; at < vtime->nr_blocks; at = vtime->link[at].next) {
		if (nr++ == vtime->nr || vtime->link[at].prev != (prev | VTIME_IN))
			return KV_NONE;
		prev = at;
	}
	return at == head && vtime->link[head].prev == (prev | VTIME_IN) ? nr : KV_NONE;
}

static bool aheads_are_sound(const struct vtime *vtime)
{
	u64 sum = 0;

	for (u32 i = 0; i < vtime->nr_blocks + VTIME_BUCKETS; i++) {
		const struct vtime_link *link = &vtime->link[i];

		if (link->reserved || link->ahead >= max(vtime->nr_blocks, 1u))
			return false;
		sum += link->ahead;
	}
	return sum == vtime->ahead_sum;
}

int vtime_check(const void *policy)
{
	const struct vtime *vtime = policy;
	u32 nr = 0, nr_in = 0;

	for (u32 slot = 0; slot < VTIME_BUCKETS; slot++) {
		u32 nr_here = count_list(vtime, head_of_slot(vtime, slot));
		bool bit = vtime->bits[slot / 64] & BIT64(slot % 64);
		bool word = vtime->words & BIT64(slot / 64);

		if (nr_here == KV_NONE || bit != (nr_here != 0) ||
		    word != (vtime->bits[slot / 64] != 0))
			return -EUCLEAN;
		nr += nr_here;
	}
	for (u32 block = 0; block < vtime->nr_blocks; block++)
		nr_in += is_in(&vtime->link[block]);
	if (!aheads_are_sound(vtime))
		return -EUCLEAN;
	return nr == vtime->nr && nr_in == nr ? 0 : -EUCLEAN;
}
