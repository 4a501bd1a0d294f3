// SPDX-License-Identifier: Apache-2.0
/*
 * The classic buddy at 4, 8 and 16 blocks: every reachable state, every call in each of them.
 *
 * A state is the set of allocated blocks, each with its order; the free blocks follow from it,
 * because free buddies always merge. A zone of 2^n blocks has T(n) states with T(0) = 2 and
 * T(n) = T(n-1)^2 + 1: its halves in any two states, or all of it allocated at once.
 *
 * The model works on the bare list of allocated orders and shares nothing with the engine. What
 * the engine holds must be the same, byte for byte, whichever way a state is reached.
 */
#include <inttypes.h>

#include <kv/bits.h>
#include <kv/zone.h>

#include "tests/support/length.h"
#include "tests/support/test.h"

#define MAX_BLOCKS	16u
#define MAX_BYTES	4096u

/* order + 1 at the head of each allocation, 0 elsewhere; four bits a block. */
typedef u64 state_t;

static unsigned int held_at(state_t state, u32 block)
{
	return state >> (4 * block) & 15;
}

static state_t with_held(state_t state, u32 block, unsigned int held)
{
	return (state & ~(15ull << (4 * block))) | (u64)held << (4 * block);
}

/* A bit for each block in no allocation. */
static u32 free_blocks(state_t state, u32 nr)
{
	u32 map = 0;

	for (u32 at = 0; at < nr;) {
		unsigned int held = held_at(state, at);

		if (!held)
			map |= BIT(at);
		at += held ? BIT(held - 1) : 1;
	}
	return map;
}

static bool block_is_free(u32 map, u32 head, u32 size)
{
	u32 mask = (u32)kv_mask64(head, head + size);

	return (map & mask) == mask;
}

/* Where a request of this order must go, from the definition: smallest free block, then lowest. */
static u32 model_take(u32 map, u32 nr, unsigned int order)
{
	for (u32 size = BIT(order); size <= nr; size *= 2)
		for (u32 head = 0; head < nr; head += size) {
			bool whole = size < nr && block_is_free(map, head & ~(2 * size - 1), 2 * size);

			if (block_is_free(map, head, size) && !whole)
				return head;
		}
	return KV_NONE;
}

/* States seen, in order of discovery; an open hash table finds them again. */
struct seen {
	state_t	*state;
	u64	*print;		/* of the engine's bytes when it was first there */
	u32	nr;
	u32	*slot;		/* index + 1, or 0 */
	u32	mask;
};

static u64 mix(u64 x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

static u64 fingerprint(const void *bytes, size_t nr)
{
	u64 print = 0, word;

	for (size_t at = 0; at + sizeof(word) <= nr; at += sizeof(word)) {
		memcpy(&word, (const char *)bytes + at, sizeof(word));
		print = mix(print ^ word);
	}
	return print;
}

static void seen_init(struct seen *seen, u32 room)
{
	seen->mask = (2u << kv_order(room)) - 1;
	seen->state = calloc(room, sizeof(*seen->state));
	seen->print = calloc(room, sizeof(*seen->print));
	seen->slot = calloc(seen->mask + 1ul, sizeof(*seen->slot));
	cr_assert(seen->state && seen->print && seen->slot);
	seen->nr = 0;
}

static void seen_exit(struct seen *seen)
{
	free(seen->state);
	free(seen->print);
	free(seen->slot);
}

/* A state with the engine's fingerprint: is it new? One that is known must look the same. */
static void seen_add(struct seen *seen, state_t state, u64 print, u32 room)
{
	u32 i = mix(state) & seen->mask;

	for (; seen->slot[i]; i = (i + 1) & seen->mask) {
		u32 known = seen->slot[i] - 1;

		if (seen->state[known] != state)
			continue;
		cr_assert_eq(seen->print[known], print, "state %" PRIx64 " depends on history", state);
		return;
	}
	cr_assert_lt(seen->nr, room, "more states than there can be");
	seen->state[seen->nr] = state;
	seen->print[seen->nr] = print;
	seen->slot[i] = ++seen->nr;
}

struct run {
	const struct kv_zone_ops *ops;
	u32 nr;				/* blocks */
	u32 room;			/* states there can be */
	size_t bytes;
	struct seen seen;
	u64 nr_calls;
	char engine[MAX_BYTES] __cacheline_aligned;
	char saved[MAX_BYTES];
};

static void rebuild(struct run *run, state_t state)
{
	memset(run->engine, 0, run->bytes);
	run->ops->init(run->engine, run->nr);
	for (u32 at = 0; at < run->nr; at++) {
		unsigned int held = held_at(state, at);

		if (held)
			cr_assert_eq(run->ops->take_at(run->engine, at, BIT(held - 1)), 0);
	}
	memcpy(run->saved, run->engine, run->bytes);
}

/* The call changed the engine into @next, which may be new. */
static void reached(struct run *run, state_t next)
{
	seen_add(&run->seen, next, fingerprint(run->engine, run->bytes), run->room);
	memcpy(run->engine, run->saved, run->bytes);
}

static void try_take(struct run *run, state_t state, u32 nr)
{
	struct kv_zone_req req = { .nr = nr, .align = 1, .hi = run->nr };
	unsigned int order = kv_order(nr);
	u32 want = model_take(free_blocks(state, run->nr), run->nr, order);
	u32 got = run->ops->take(run->engine, &req);

	run->nr_calls++;
	cr_assert_eq(got, want, "state %" PRIx64 ": %u blocks at %u, not %u", state, nr, got, want);
	if (got == KV_NONE)
		cr_assert_eq(memcmp(run->engine, run->saved, run->bytes), 0);
	else
		reached(run, with_held(state, got, order + 1));
}

static void try_take_at(struct run *run, state_t state, u32 start, u32 nr)
{
	bool aligned = kv_is_pow2(nr) && !(start & (nr - 1));
	int err = run->ops->take_at(run->engine, start, nr);
	int want = 0;

	run->nr_calls++;
	if (!aligned)
		want = -EOPNOTSUPP;
	else if (!block_is_free(free_blocks(state, run->nr), start, nr))
		want = -EBUSY;
	cr_assert_eq(err, want, "state %" PRIx64 ": claim %u+%u is %d", state, start, nr, err);
	if (err)
		cr_assert_eq(memcmp(run->engine, run->saved, run->bytes), 0);
	else
		reached(run, with_held(state, start, kv_order(nr) + 1));
}

static void try_give(struct run *run, state_t state, u32 start, u32 nr)
{
	bool whole = held_at(state, start) == kv_order(nr) + 1;
	int err = run->ops->give(run->engine, start, nr);

	run->nr_calls++;
	cr_assert_eq(err, whole ? 0 : -EINVAL, "state %" PRIx64 ": free %u+%u is %d", state, start,
		     nr, err);
	if (err)
		cr_assert_eq(memcmp(run->engine, run->saved, run->bytes), 0);
	else
		reached(run, with_held(state, start, 0));
}

static void compare_reading(const struct run *run, state_t state)
{
	u32 map = free_blocks(state, run->nr);

	cr_assert_eq(run->ops->check(run->engine), 0, "state %" PRIx64, state);
	cr_assert_eq(run->ops->nr_free(run->engine), __builtin_popcount(map));
	for (u32 block = 0; block < run->nr; block++)
		cr_assert_eq(run->ops->is_free(run->engine, block), map >> block & 1);
}

static void try_everything(struct run *run, u32 i)
{
	state_t state = run->seen.state[i];

	rebuild(run, state);
	cr_assert_eq(run->seen.print[i], fingerprint(run->engine, run->bytes));
	compare_reading(run, state);
	for (u32 nr = 1; nr <= run->nr; nr++) {
		try_take(run, state, nr);
		for (u32 start = 0; start + nr <= run->nr; start++) {
			try_take_at(run, state, start, nr);
			try_give(run, state, start, nr);
		}
	}
}

static u32 visit_all(u32 nr, u32 room)
{
	static struct run run;

	run = (struct run){ .ops = &kv_zone_buddy, .nr = nr, .room = room,
			    .bytes = kv_align_up(kv_zone_buddy.metadata_bytes(nr), sizeof(u64)) };
	cr_assert_leq(run.bytes, MAX_BYTES);
	seen_init(&run.seen, room);
	rebuild(&run, 0);
	reached(&run, 0);
	for (u32 i = 0; i < run.seen.nr; i++)
		try_everything(&run, i);
	printf("%u blocks: %u states, %" PRIu64 " calls\n", nr, run.seen.nr, run.nr_calls);
	fflush(stdout);
	seen_exit(&run.seen);
	return run.seen.nr;
}

TEST_CALL(exhaustive_buddy, four_blocks_have_26_states, cr_expect_eq(visit_all(4, 26), 26))
TEST_CALL(exhaustive_buddy, eight_blocks_have_677_states, cr_expect_eq(visit_all(8, 677), 677))
TEST_CALL(exhaustive_buddy, twelve_blocks_have_17602_states,
	  cr_expect_eq(visit_all(12, 17602), 17602))

Test(exhaustive_buddy, sixteen_blocks_have_458330_states)
{
	if (test_is_short())
		cr_skip_test("twelve do");
	cr_expect_eq(visit_all(16, 458330), 458330);
}
