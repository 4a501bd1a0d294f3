// SPDX-License-Identifier: Apache-2.0
/* Tokens by key: the newest are there, the oldest have gone, against a list that is searched. */
#include "ctl/stash.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

#define TOKENS	4u
#define NOTE	8u

static void put(struct stash *stash, u32 number, u32 first)
{
	u32 token[TOKENS] = { first, first + 1, first + 2, first + 3 };
	kvmm_key_t key = key_of(number);

	stash_put(stash, &key, &(struct stash_copy){ .token = token });
}

/* The first token of @number; 0: it has gone. */
static u32 get(struct stash *stash, u32 number)
{
	u32 token[TOKENS] = { 0 };
	kvmm_key_t key = key_of(number);

	if (!stash_get(stash, &key, &(struct stash_copy){ .token = token }))
		return 0;
	for (u32 i = 1; i < TOKENS; i++)
		cr_assert_eq(token[i], token[0] + i);
	return token[0];
}

Test(stash, newest_take_the_places_of_the_oldest)
{
	struct stash stash;

	cr_assert_eq(stash_init(&stash, 3, TOKENS, NOTE), 0);
	for (u32 i = 1; i <= 3; i++)
		put(&stash, i, 10 * i);
	put(&stash, 1, 11);	/* the newest again */
	put(&stash, 4, 40);
	cr_expect_eq(get(&stash, 1), 11);
	cr_expect_eq(get(&stash, 2), 0);
	cr_expect_eq(get(&stash, 3), 30);
	cr_expect_eq(get(&stash, 4), 40);
	stash_exit(&stash);
	cr_expect_eq(kv_mem_bytes(), 0);
}

/* Each block has its own, and a key is all of its bytes. */
Test(stash, blocks_that_are_told_together_are_told_apart)
{
	enum { NR_KEYS = 64 };
	u32 token[NR_KEYS * TOKENS], got[TOKENS];
	kvmm_key_t key[NR_KEYS];
	struct stash stash;

	for (u32 i = 0; i < NR_KEYS; i++) {
		key[i] = key_of(1);
		key[i].byte[15] = i;
		for (u32 t = 0; t < TOKENS; t++)
			token[i * TOKENS + t] = 10 * i + t;
	}
	cr_assert_eq(stash_init(&stash, NR_KEYS, TOKENS, NOTE), 0);
	for (u32 i = 0; i < NR_KEYS; i++)
		stash_put(&stash, &key[i], &(struct stash_copy){ .token = token + i * TOKENS });
	for (u32 i = 0; i < NR_KEYS; i++) {
		cr_assert(stash_get(&stash, &key[i], &(struct stash_copy){ .token = got }));
		cr_expect_eq(memcmp(got, token + i * TOKENS, sizeof(got)), 0);
	}
	stash_exit(&stash);
}

/* With tokens or without; what is told later counts, also where that is less. */
Test(stash, notes_are_those_told_last)
{
	u32 token[TOKENS] = { 1, 2, 3, 4 }, got[TOKENS];
	u8 note[NOTE] = "session", read[NOTE] = "";
	struct stash_copy copy = { .token = got, .note = read };
	kvmm_key_t key = key_of(1);
	struct stash stash;

	cr_assert_eq(stash_init(&stash, 2, TOKENS, NOTE), 0);
	stash_put(&stash, &key, &(struct stash_copy){ .note = note, .note_bytes = NOTE });
	cr_assert(stash_get(&stash, &key, &copy));
	cr_expect_null(copy.token, "none are told");
	cr_expect_eq(copy.note_bytes, NOTE);
	cr_expect_eq(memcmp(read, note, NOTE), 0);
	stash_put(&stash, &key, &(struct stash_copy){ .token = token, .note = note, .note_bytes = 3 });
	copy.token = got;
	cr_assert(stash_get(&stash, &key, &copy));
	cr_expect_eq(copy.token, got);
	cr_expect_eq(memcmp(got, token, sizeof(got)), 0);
	cr_expect_eq(copy.note_bytes, 3);
	stash_put(&stash, &key, &(struct stash_copy){ .note = note, .note_bytes = 1 });
	cr_assert(stash_get(&stash, &key, &copy));
	cr_expect_null(copy.token, "not told any more");
	stash_exit(&stash);
}

Test(stash, none_are_kept_unless_asked_for)
{
	struct stash stash;

	cr_assert_eq(stash_init(&stash, 0, TOKENS, NOTE), 0);
	put(&stash, 1, 10);
	cr_expect_eq(get(&stash, 1), 0);
	stash_exit(&stash);
	cr_expect_eq(stash_init(&stash, 1, 0, NOTE), -EINVAL);
	cr_expect_eq(stash_init(&stash, UINT32_MAX, TOKENS, NOTE), -EINVAL);
}

Test(stash, want_of_memory_leaves_nothing_behind)
{
	struct fake_env fake;
	struct stash stash;
	int err = -ENOMEM;

	fake_env_install(&fake);
	for (u64 n = 1; err; n++) {
		fake_env_fail(&fake, n, false);
		err = stash_init(&stash, 8, TOKENS, NOTE);
		cr_assert(!err || err == -ENOMEM);
		cr_assert_lt(n, 10);
		cr_expect(!err || !fake.nr_live);
	}
	stash_exit(&stash);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

/* What was said of each name, and when. */
#define NAMES	64u
#define PLACES	24u

/* How many others were told of later. */
static u32 nr_newer(const u32 *when, u32 number)
{
	u32 nr = 0;

	for (u32 i = 0; i < NAMES; i++)
		nr += when[i] > when[number];
	return nr;
}

Test(stash, random_calls_agree_with_a_list)
{
	u32 first[NAMES] = { 0 }, when[NAMES] = { 0 }, now = 0;
	u64 seed = 20261121, state = seed;
	struct stash stash;

	cr_assert_eq(stash_init(&stash, PLACES, TOKENS, NOTE), 0);
	for (u32 i = 0; i < 20000; i++) {
		u32 number;

		state = state * 6364136223846793005ull + 1442695040888963407ull;
		number = (state >> 33) % NAMES;
		if (state >> 60 & 1) {
			put(&stash, number, i + 1);
			first[number] = i + 1;
			when[number] = ++now;
		}
		cr_assert_eq(get(&stash, number), when[number] && nr_newer(when, number) < PLACES ?
			     first[number] : 0, "seed %lu, call %u", seed, i);
	}
	stash_exit(&stash);
}
