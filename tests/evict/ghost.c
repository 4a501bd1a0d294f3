// SPDX-License-Identifier: Apache-2.0
/* Ghosts: what a set remembers, and that both ways of looking at one see the same. */
#include "evict/ghost.h"
#include "tests/support/test.h"

#define NR_BLOCKS	16u
#define NR_ROUNDS	20000u

static u64 rnd(u64 *random)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return *random ^ *random >> 29;
}

static struct ghosts *make(void)
{
	struct ghosts *ghosts = kv_alloc_lines(1, ghosts_bytes(NR_BLOCKS));

	cr_assert(ghosts);
	ghosts_init(ghosts, NR_BLOCKS);
	return ghosts;
}

/* All of one set, with tags from 1 on. */
static u64 hash_in_set(u32 nr)
{
	return BIT64(47) | (nr + 1);
}

static void put(struct ghosts *ghosts, u32 nr, u64 last)
{
	struct ghost_past past = { .credit = 2 * nr, .last = last, .turn = last };

	ghost_put(ghosts, hash_in_set(nr), &past, last);
}

static bool take(struct ghosts *ghosts, u32 nr, u64 now, struct ghost_past *past)
{
	*past = (struct ghost_past){ .last = now, .turn = now };
	return ghost_take(ghosts, hash_in_set(nr), past);
}

Test(ghost, is_taken_once_with_what_was_put)
{
	struct ghosts *ghosts = make();
	struct ghost_past past;

	for (u32 nr = 0; nr < GHOST_WAYS; nr++)
		put(ghosts, nr, 100 + nr);
	for (u32 nr = 0; nr < GHOST_WAYS; nr++) {
		cr_expect(take(ghosts, nr, 500, &past), "%u", nr);
		cr_expect_eq(past.credit, 2 * nr);
		cr_expect_leq(past.last, 500u);
		cr_expect_geq(past.last + BIT(ghosts->step_shift), 100u + nr);
		cr_expect(!take(ghosts, nr, 500, &past), "%u", nr);
	}
	kv_free(ghosts);
}

Test(ghost, of_the_key_used_longest_ago_makes_room)
{
	struct ghosts *ghosts = make();
	u64 step = BIT64(ghosts->step_shift), last[] = { 7, 3, 9, 1, 5, 8, 2, 6 };
	struct ghost_past past;

	static_assert(ARRAY_SIZE(last) == GHOST_WAYS, "a set is full");
	for (u32 nr = 0; nr < GHOST_WAYS; nr++)
		put(ghosts, nr, last[nr] * step);
	put(ghosts, 5, 8 * step);	/* its former self makes room */
	put(ghosts, 20, 10 * step);
	put(ghosts, 21, 11 * step);
	for (u32 nr = 0; nr < GHOST_WAYS; nr++)
		cr_expect_eq(take(ghosts, nr, 12 * step, &past), nr != 3 && nr != 6, "%u", nr);
	cr_expect(take(ghosts, 20, 12 * step, &past));
	cr_expect(take(ghosts, 21, 12 * step, &past));
	kv_free(ghosts);
}

Test(ghost, set_is_seen_alike_word_by_word_and_at_once)
{
	u64 random = 1, *set = kv_alloc_lines(1, GHOST_WAYS * sizeof(*set));

	cr_assert(set);
	for (u32 round = 0; round < NR_ROUNDS; round++) {
		u32 step = rnd(&random), tag;

		for (u32 i = 0; i < GHOST_WAYS; i++) {
			set[i] = rnd(&random) % 4 ? rnd(&random) | 1 : 0;
			if (rnd(&random) % 2)	/* few values: equals are frequent */
				set[i] &= ~(6ull << GHOST_LAST_SHIFT | 0xffffeull);
		}
		tag = rnd(&random) % 2 ? set[rnd(&random) % GHOST_WAYS] & GHOST_TAG_MASK : 1;
		cr_assert_eq(ghost_ways_with(set, tag), ghost_ways_with_words(set, tag));
		cr_assert_eq(ghost_ways_with(set, 0), ghost_ways_with_words(set, 0));
		cr_assert_eq(kv_lowest64(ghost_oldest(set, step)),
			     kv_lowest64(ghost_oldest_words(set, step)));
	}
	kv_free(set);
}
