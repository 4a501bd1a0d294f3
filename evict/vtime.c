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

/* Whole words are read and written: a bit that is set is in the way of its word's next reader. */

/* Between @prev and its successor. */
static void link_add(struct vtime *vtime, u32 prev, u32 block)
{
	struct vtime_link *links = vtime->link;
	u32 next = links[prev].next;

	links[block] = (struct vtime_link){ next, prev, 1, links[block].ahead, 0 };
	links[prev].next = block;
	links[next].prev = block;
	vtime->nr++;
}

/* A list of one has its head on both sides. */
static void link_del(struct vtime *vtime, u32 block)
{
	struct vtime_link *links = vtime->link, was = links[block];

	links[block] = (struct vtime_link){ was.next, was.prev, 0, was.ahead, 0 };
	links[was.prev].next = was.next;
	links[was.next].prev = was.prev;
	kv_assert(vtime->nr);
	vtime->nr--;
	if (was.prev == was.next && was.prev >= vtime->nr_blocks)
		unmark_slot(vtime, was.prev - vtime->nr_blocks);
}

static bool block_is_bad(const struct vtime *vtime, u32 block, bool in)
{
	return KV_BUG_ON(block >= vtime->nr_blocks) || KV_BUG_ON(vtime->link[block].in != in);
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
		vtime->link[head].next = head;
		vtime->link[head].prev = head;
	}
}

static u32 slot_of(const struct vtime *vtime, u64 bucket)
{
	u64 inside = max(bucket, vtime->base);

	return min(inside, vtime->base + VTIME_BUCKETS - 1) & SLOT_MASK;
}

void vtime_enter(struct vtime *vtime, u32 block, u64 bucket)
{
	u32 slot = slot_of(vtime, bucket), *before;

	if (block_is_bad(vtime, block, false))
		return;
	vtime->nr_picked = 0;
	mark_slot(vtime, slot);
	link_add(vtime, vtime->link[head_of_slot(vtime, slot)].prev, block);
	/* The block that came VTIME_AHEAD before is told. */
	before = &vtime->last[vtime->nr_entered++ % VTIME_AHEAD];
	vtime->ahead_sum += (u64)block - vtime->link[*before].ahead;
	vtime->link[*before].ahead = block;
	*before = block;
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

/* Its links, and then those of its neighbours. */
void vtime_expect(const void *policy, u32 block, bool soon)
{
	const struct vtime *vtime = policy;
	const struct vtime_link *link = &vtime->link[block];

	kv_assert(block < vtime->nr_blocks);
	if (!soon) {
		kv_prefetch_write(link);
		return;
	}
	kv_prefetch_write(&vtime->link[link->prev]);
	kv_prefetch_write(&vtime->link[link->next]);
}

u32 vtime_ahead(const void *policy, u32 block)
{
	const struct vtime *vtime = policy;

	kv_assert(block < vtime->nr_blocks);
	return vtime->link[block].ahead;
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

u32 vtime_pick(void *policy)
{
	struct vtime *vtime = policy;
	u32 block = vtime_first(vtime);

	if (likely(block != KV_NONE))
		vtime_take(vtime, block);
	return block;
}

void vtime_unpick(void *policy, u32 block)
{
	struct vtime *vtime = policy;
	u32 prev = vtime->link[block].prev;

	if (block_is_bad(vtime, block, false))
		return;
	if (unlikely(!vtime->nr_picked)) {
		vtime_enter_front(vtime, block, vtime->base);
		return;
	}
	vtime->nr_picked--;
	/* Victims taken later that are lost, as their entries are worn out, kept their links. */
	while (unlikely(prev < vtime->nr_blocks && !vtime->link[prev].in))
		prev = vtime->link[prev].prev;
	if (prev >= vtime->nr_blocks)
		mark_slot(vtime, prev - vtime->nr_blocks);
	link_add(vtime, prev, block);
}

/* ---- the window ---- */

/* All of one list, in its order, in front of another. */
static void splice(struct vtime *vtime, u32 from, u32 to)
{
	u32 first = vtime->link[from].next, last = vtime->link[from].prev;

	vtime->link[last].next = vtime->link[to].next;
	vtime->link[vtime->link[to].next].prev = last;
	vtime->link[to].next = first;
	vtime->link[first].prev = to;
	vtime->link[from].next = from;
	vtime->link[from].prev = from;
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
		if (nr++ == vtime->nr || !vtime->link[at].in || vtime->link[at].prev != prev)
			return KV_NONE;
		prev = at;
	}
	return at == head && vtime->link[head].prev == prev ? nr : KV_NONE;
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
		nr_in += vtime->link[block].in;
	if (!aheads_are_sound(vtime))
		return -EUCLEAN;
	return nr == vtime->nr && nr_in == nr ? 0 : -EUCLEAN;
}
