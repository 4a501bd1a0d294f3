// SPDX-License-Identifier: Apache-2.0
/* The ring of lists against a plain table: enter, leave, take, undo, and time that goes on. */
#include <kv/bits.h>

#include "evict/vtime.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#define NR	40u

/* Smaller ranks first; of one rank, smaller places. */
struct place {
	bool in;
	u64 rank;		/* the bucket */
	s64 place;
};

struct ring {
	struct vtime *vtime;
	struct place block[NR];
	u64 base;
	s64 first, last;
	u64 random;
};

static void ring_init(struct ring *ring, u64 seed)
{
	*ring = (struct ring){ .vtime = kv_alloc(sizeof(struct vtime) + vtime_bytes(NR)),
			       .random = seed };
	cr_assert(ring->vtime);
	vtime_init(ring->vtime, NR, ring->vtime + 1);
}

static u32 first_of(const struct ring *ring)
{
	u32 first = KV_NONE;

	for (u32 i = 0; i < NR; i++) {
		const struct place *a = &ring->block[i], *b = first == KV_NONE ? a : &ring->block[first];

		if (a->in && (first == KV_NONE || a->rank < b->rank ||
			      (a->rank == b->rank && a->place < b->place)))
			first = i;
	}
	return first;
}

static u64 in_window(const struct ring *ring, u64 bucket)
{
	u64 low = bucket < ring->base ? ring->base : bucket;

	return low > ring->base + 4095 ? ring->base + 4095 : low;
}

static void enter(struct ring *ring, u32 block)
{
	u64 bucket = ring->base + any_of(&ring->random, 5000) - min(ring->base, 300ull);
	struct place *place = &ring->block[block];
	u32 how = any_of(&ring->random, 8);

	*place = (struct place){ true, in_window(ring, bucket), ++ring->last };
	if (how == 1) {
		place->place = --ring->first;
		vtime_enter_front(ring->vtime, block, bucket);
	} else if (how == 2) {
		vtime_enter_many(ring->vtime, (u32[]){ block, block }, 2, bucket);
	} else {
		vtime_enter(ring->vtime, block, bucket);
	}
}

/* Some that are next to each other in the order, and others; those that are in leave before. */
static void enter_some(struct ring *ring)
{
	u64 bucket = ring->base + any_of(&ring->random, 3);
	u32 blocks[NR], nr = 1 + any_of(&ring->random, 8);

	blocks[0] = any_of(&ring->random, NR);
	for (u32 i = 1; i < nr; i++) {
		u32 next = ring->vtime->link[blocks[i - 1]].next;

		blocks[i] = next < NR && any_of(&ring->random, 6) ? next : any_of(&ring->random, NR);
	}
	vtime_enter_many(ring->vtime, blocks, nr, bucket);
	for (u32 i = 0; i < nr; i++)
		ring->block[blocks[i]] = (struct place){ true, in_window(ring, bucket),
							 ++ring->last };
}

/* Of those of smaller ranks the one that goes last, or KV_NONE. */
static u32 last_before(const struct ring *ring, u64 rank)
{
	u32 last = KV_NONE;

	for (u32 i = 0; i < NR; i++) {
		const struct place *a = &ring->block[i], *b = last == KV_NONE ? a : &ring->block[last];

		if (a->in && a->rank < rank &&
		    (last == KV_NONE || a->rank > b->rank ||
		     (a->rank == b->rank && a->place > b->place)))
			last = i;
	}
	return last;
}

/* Those of buckets that have passed go in front of those of the first one, the last one first. */
static void advance(struct ring *ring)
{
	u32 block;

	ring->base += any_of(&ring->random, 2000);
	vtime_advance(ring->vtime, ring->base);
	for (block = last_before(ring, ring->base); block != KV_NONE;
	     block = last_before(ring, ring->base)) {
		ring->block[block].rank = ring->base;
		ring->block[block].place = --ring->first;
	}
}

/* Victims, some from the middle, all put back: and the order is what it was. */
static void take_and_undo(struct ring *ring)
{
	u32 taken[NR], nr = 0;

	while (nr < NR && ring->vtime->nr) {
		u32 block = any_of(&ring->random, NR);

		if (any_of(&ring->random, 2)) {
			nr += vtime_pick_many(ring->vtime, any_of(&ring->random, NR - nr + 1), taken + nr);
		} else if (vtime_has(ring->vtime, block)) {
			vtime_take(ring->vtime, block);
			taken[nr++] = block;
		}
		if (!any_of(&ring->random, 20))
			break;
	}
	cr_assert_eq(vtime_check(ring->vtime), 0);
	while (nr)
		vtime_unpick(ring->vtime, taken[--nr]);
}

static void expect_same(struct ring *ring)
{
	struct ring copy = *ring;
	u32 picked[NR], nr = 0;

	cr_assert_eq(vtime_check(ring->vtime), 0);
	for (u32 block = first_of(&copy); block != KV_NONE; block = first_of(&copy)) {
		cr_assert_eq(vtime_first(ring->vtime), block);
		picked[nr] = vtime_pick(ring->vtime);
		cr_assert_eq(picked[nr++], block);
		copy.block[block].in = false;
	}
	cr_assert_eq(vtime_pick(ring->vtime), KV_NONE);
	while (nr)
		vtime_unpick(ring->vtime, picked[--nr]);
}

Test(evict_vtime, is_a_sorted_table)
{
	struct ring ring;

	ring_init(&ring, 11);
	for (u32 i = 0; i < 4000; i++) {
		u32 block = any_of(&ring.random, NR), what = any_of(&ring.random, 40);

		if (what == 0) {
			advance(&ring);
		} else if (what < 10) {
			take_and_undo(&ring);
		} else if (what < 16) {
			enter_some(&ring);
		} else if (!ring.block[block].in) {
			enter(&ring, block);
		} else {
			vtime_leave(ring.vtime, block);
			ring.block[block].in = false;
		}
		expect_same(&ring);
	}
	kv_free(ring.vtime);
}

Test(evict_vtime, a_block_taken_before_others_changed_goes_before_all)
{
	struct ring ring;

	ring_init(&ring, 1);
	for (u32 i = 0; i < 4; i++)
		vtime_enter(ring.vtime, i, 10 + i);
	vtime_take(ring.vtime, 2);
	vtime_leave(ring.vtime, 1);
	vtime_unpick(ring.vtime, 2);
	cr_expect_eq(vtime_check(ring.vtime), 0);
	cr_expect_eq(vtime_pick(ring.vtime), 2);
	cr_expect_eq(vtime_pick(ring.vtime), 0);
	cr_expect_eq(vtime_pick(ring.vtime), 3);
	kv_free(ring.vtime);
}

/* A victim whose entry is worn out is not put back: those taken before it are, where they were. */
Test(evict_vtime, victims_come_back_although_a_later_one_does_not)
{
	static const u32 taken[][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 2, 1, 0 }, { 1, 2, 0 } };

	for (u32 i = 0; i < ARRAY_SIZE(taken); i++) {
		struct ring ring;

		ring_init(&ring, 1);
		for (u32 block = 0; block < 3; block++)
			vtime_enter(ring.vtime, block, 10);
		for (u32 k = 0; k < 3; k++)
			vtime_take(ring.vtime, taken[i][k]);
		for (u32 k = 2; k--;)
			vtime_unpick(ring.vtime, taken[i][k]);
		cr_expect_eq(vtime_check(ring.vtime), 0, "case %u", i);
		for (u32 block = 0; block < 3; block++)
			if (block != taken[i][2])
				cr_expect_eq(vtime_pick(ring.vtime), block, "case %u", i);
		cr_expect_eq(vtime_pick(ring.vtime), KV_NONE, "case %u", i);
		kv_free(ring.vtime);
	}
}

Test(evict_vtime, check_notices_what_contradicts_itself)
{
	struct ring ring;
	u64 *link;

	ring_init(&ring, 1);
	for (u32 i = 0; i < 8; i++)
		vtime_enter(ring.vtime, i, i / 2 * 100);
	link = (u64 *)ring.vtime->link;
	for (u32 bit = 0; bit < 8 * 128; bit++) {
		link[bit / 64] ^= BIT64(bit % 64);
		cr_expect_eq(vtime_check(ring.vtime), -EUCLEAN, "bit %u", bit);
		link[bit / 64] ^= BIT64(bit % 64);
	}
	ring.vtime->bits[0] ^= 1;
	cr_expect_eq(vtime_check(ring.vtime), -EUCLEAN);
	ring.vtime->bits[0] ^= 1;
	ring.vtime->words ^= 2;
	cr_expect_eq(vtime_check(ring.vtime), -EUCLEAN);
	ring.vtime->words ^= 2;
	ring.vtime->nr++;
	cr_expect_eq(vtime_check(ring.vtime), -EUCLEAN);
	ring.vtime->nr--;
	cr_expect_eq(vtime_check(ring.vtime), 0);
	kv_free(ring.vtime);
}
