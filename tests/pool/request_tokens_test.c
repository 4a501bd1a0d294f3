// SPDX-License-Identifier: Apache-2.0
/*
 * Partial blocks: tokens of private blocks, and blocks that are named by them. Blocks have 4 tokens.
 */
#include <pthread.h>

#include <kv/rcu.h>
#include <kvmm/cache.h>
#include <kvmm/ext/lease.h>

#include "request_util.h"
#include "tests/support/fake_env.h"

#define NR_BLOCKS	600u	/* three chunks of the table */

static struct kvmm_pool *pool;
static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	pool = make_token_pool(NR_BLOCKS);
	ctx = make_ctx(NULL);
}

static void tear_down(void)
{
	cr_expect(pool_is_idle(pool));
	end_pool(pool);
	kvmm_key_ctx_destroy(ctx);
}

TestSuite(request_tokens, .init = set_up, .fini = tear_down);

static kvmm_mut_t take_block(void)
{
	kvmm_mut_t block;

	cr_assert_eq(kvmm_alloc(pool, 1, &block), 0);
	return block;
}

static void expect_tokens(kvmm_mut_t block, const u32 *want, u32 nr)
{
	u32 got[BLOCK_TOKENS];

	cr_assert_eq(kvmm_block_tokens(pool, block, got, BLOCK_TOKENS), nr);
	cr_assert_arr_eq(got, want, nr * sizeof(*want));
}

#define NR_APPENDED	256u	/* by each of two threads */

struct appending {
	struct kvmm_pool *pool;
	kvmm_mut_t block;
};

static void *append_many(void *arg)
{
	struct appending *a = arg;
	u32 token = 1;

	for (u32 i = 0; i < NR_APPENDED; i++)
		cr_assert_gt(kvmm_block_append_tokens(a->pool, a->block, &token, 1), 0);
	return NULL;
}

/* An append that looks first and writes then loses tokens in one of seven rounds. */
Test(request_tokens, of_two_threads_that_append_are_all_there)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 200, .policy = "lru",
				       .block_tokens = 2 * NR_APPENDED,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct appending a = { .pool = make_pool_of(&attr) };
	pthread_t other;

	for (u32 round = 0; round < 200; round++) {
		cr_assert_eq(kvmm_alloc(a.pool, 1, &a.block), 0);
		cr_assert_eq(pthread_create(&other, NULL, append_many, &a), 0);
		append_many(&a);
		cr_assert_eq(pthread_join(other, NULL), 0);
		cr_assert_eq(kvmm_block_nr_tokens(a.pool, a.block), 2 * NR_APPENDED);
		cr_assert_eq(kvmm_free(a.pool, &a.block, 1), 0);
	}
	end_pool(a.pool);
}

Test(request_tokens, are_appended_and_popped)
{
	const u32 tokens[] = { 11, 12, 13, 14, 15 };
	kvmm_mut_t block = take_block();
	u32 two[2];

	cr_expect_eq(kvmm_block_nr_tokens(pool, block), 0);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block, 0), 0);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block, 1), -ERANGE);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, tokens, 3), 3);
	expect_tokens(block, tokens, 3);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, tokens + 3, 2), -ENOSPC);
	expect_tokens(block, tokens, 3);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, tokens + 3, 1), 4);
	expect_tokens(block, tokens, 4);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, NULL, 0), 4);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block, 5), -ERANGE);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block, 3), 1);
	expect_tokens(block, tokens, 1);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, tokens + 4, 1), 2);
	expect_tokens(block, (u32[]){ 11, 15 }, 2);
	cr_expect_eq(kvmm_block_tokens(pool, block, two, 1), 2);
	cr_expect_eq(two[0], 11);
	cr_expect_eq(kvmm_free(pool, &block, 1), 0);
}

Test(request_tokens, are_forgotten_when_the_block_is_freed)
{
	const u32 tokens[] = { 11, 12, 13, 14 };
	kvmm_mut_t block[NR_BLOCKS], old = take_block();

	cr_expect_eq(kvmm_block_append_tokens(pool, old, tokens, 4), 4);
	cr_expect_eq(kvmm_free(pool, &old, 1), 0);
	cr_expect_eq(kvmm_block_append_tokens(pool, old, tokens, 1), -ESTALE);
	cr_expect_eq(kvmm_block_pop_tokens(pool, old, 1), -ESTALE);
	cr_expect_eq(kvmm_block_nr_tokens(pool, old), -ESTALE);
	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS, block), 0);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		cr_assert_eq(kvmm_block_nr_tokens(pool, block[i]), 0);
	cr_expect_eq(kvmm_free(pool, block, NR_BLOCKS), 0);
}

Test(request_tokens, bad_arguments_are_refused)
{
	kvmm_mut_t block = take_block(), bad = { NR_BLOCKS, block.gen };
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(4);
	u32 token = 1;

	cr_expect_eq(kvmm_block_append_tokens(NULL, block, &token, 1), -EINVAL);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, &token, ~0u), -ENOSPC);
	cr_expect_eq(kvmm_block_append_tokens(plain, block, &token, 1), -EOPNOTSUPP);
	cr_expect_lt(kvmm_block_append_tokens(pool, bad, &token, 1), 0);
	cr_expect_eq(kvmm_block_append_tokens(pool, (kvmm_mut_t){ 0, 0 }, &token, 1), -EINVAL);
	cr_expect_eq(kvmm_block_pop_tokens(NULL, block, 1), -EINVAL);
	cr_expect_eq(kvmm_block_tokens(NULL, block, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_block_tokens(pool, block, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_free(pool, &block, 1), 0);
}

/* Many blocks, in all chunks, at random, against a plain table. */
Test(request_tokens, agree_with_a_plain_table)
{
	static struct plain { kvmm_mut_t mut; u32 token[BLOCK_TOKENS], nr; bool held; } p[NR_BLOCKS];
	u64 bytes = stat_of(pool).metadata_bytes;

	srand(1);
	for (u32 i = 0; i < 40000; i++) {
		struct plain *b = &p[rand() % NR_BLOCKS];
		u32 nr = rand() % 3, token[2] = { i, ~i };

		if (!b->held) {
			b->mut = take_block();
			b->held = true;
			b->nr = 0;
		} else if (rand() % 8 == 0) {
			cr_assert_eq(kvmm_free(pool, &b->mut, 1), 0);
			b->held = false;
		} else if (rand() % 3) {
			int got = kvmm_block_append_tokens(pool, b->mut, token, nr);

			cr_assert_eq(got, b->nr + nr > BLOCK_TOKENS ? -ENOSPC : (int)(b->nr + nr));
			for (u32 t = 0; got >= 0 && t < nr; t++)
				b->token[b->nr++] = token[t];
		} else {
			int got = kvmm_block_pop_tokens(pool, b->mut, nr);

			cr_assert_eq(got, nr > b->nr ? -ERANGE : (int)(b->nr - nr));
			b->nr -= got >= 0 ? nr : 0;
		}
		if (b->held)
			expect_tokens(b->mut, b->token, b->nr);
	}
	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (p[i].held) {
			expect_tokens(p[i].mut, p[i].token, p[i].nr);
			cr_assert_eq(kvmm_free(pool, &p[i].mut, 1), 0);
		}
	cr_expect_gt(stat_of(pool).metadata_bytes, bytes + NR_BLOCKS * BLOCK_TOKENS * sizeof(u32));
}

/* ---- naming ---- */

static void fill(const kvmm_mut_t *blocks, u32 nr, u32 first)
{
	for (u32 i = 0; i < nr * BLOCK_TOKENS; i++) {
		u32 token = first + i;

		cr_assert_gt(kvmm_block_append_tokens(pool, blocks[i / BLOCK_TOKENS], &token, 1), 0);
	}
}

/* Blocks named by their tokens are hits for who computes the keys of the same tokens. */
Test(request_tokens, name_full_blocks)
{
	const struct kvmm_key_extra extra = { KVMM_KEY_MM, 3, "cat", 2, 7 };
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	kvmm_key_t keys[3], want[3];
	kvmm_mut_t block[3];
	kvmm_staged_t staged[3];
	kvmm_ref_t ref[3], hit[3];
	struct kvmm_stage_tokens_args req = { .blocks = block, .nr = 3, .ctx = ctx,
					      .extras = &extra,
					      .nr_extras = 1, .staged = staged, .keys = keys };
	struct kvmm_publish_args publish = { .staged = staged, .nr = 3, .refs = ref };
	u32 tokens[12];

	cr_assert_eq(kvmm_alloc(pool, 3, block), 0);
	fill(block, 3, 50);
	cr_assert_eq(kvmm_stage_tokens(pool, &req), 0);
	for (u32 i = 0; i < 12; i++)
		tokens[i] = 50 + i;
	what.tokens = tokens;
	what.nr_tokens = 12;
	what.extras = &extra;
	what.nr_extras = 1;
	cr_assert_eq(kvmm_key_chain(ctx, &what, want, 3), 3);
	cr_expect_arr_eq(keys, want, sizeof(want));
	cr_expect_eq(kvmm_match(pool, want, 3, hit), 0);	/* nobody finds them yet */
	cr_expect_eq(kvmm_block_nr_tokens(pool, block[0]), -ESTALE);
	cr_assert_eq(kvmm_publish(pool, &publish), 0);
	cr_expect_eq(kvmm_match(pool, want, 3, hit), 3);
	cr_expect_eq(kvmm_put_many(pool, hit, 3), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
}

/* One after the other, each with the one before as its parent, is the same chain. */
static void name_one_by_one(const char *algo)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	struct kvmm_key_ctx *own __cleanup(kvmm_key_ctx_destroy) = make_ctx(algo);
	bool whole = !strncmp(algo, "vllm", 4);
	kvmm_key_t keys[3], want[3];
	kvmm_digest_t digest[3];
	kvmm_staged_t staged[3];
	kvmm_mut_t block[3];
	u32 tokens[12];

	cr_assert_eq(kvmm_alloc(pool, 3, block), 0);
	fill(block, 3, 0);
	for (u32 i = 0; i < 3; i++) {
		struct kvmm_stage_tokens_args req = {
			.blocks = &block[i], .nr = 1, .ctx = own, .position = i,
			.parent = i && !whole ? &keys[i - 1] : NULL,
			.parent_digest = i && whole ? &digest[i - 1] : NULL,
			.staged = &staged[i], .keys = &keys[i], .digests = whole ? &digest[i] : NULL,
		};

		cr_assert_eq(kvmm_stage_tokens(pool, &req), 0, "%s", algo);
	}
	for (u32 i = 0; i < 12; i++)
		tokens[i] = i;
	what.tokens = tokens;
	what.nr_tokens = 12;
	cr_assert_eq(kvmm_key_chain(own, &what, want, 3), 3);
	cr_expect_arr_eq(keys, want, sizeof(want), "%s", algo);
	cr_expect_eq(kv_free_staged(pool, staged, 3), 0);
}

Test(request_tokens, name_blocks_one_by_one)
{
	const char *algo[8];
	u32 nr = kvmm_key_algos(algo, 8);

	for (u32 i = 0; i < nr; i++)
		name_one_by_one(algo[i]);
}

Test(request_tokens, stay_when_a_name_is_taken_back)
{
	kvmm_mut_t block[2];
	kvmm_staged_t staged[2];
	kvmm_key_t keys[2];
	struct kvmm_stage_tokens_args req = { .blocks = block, .nr = 2, .ctx = ctx,
					      .staged = staged,
					      .keys = keys };

	cr_assert_eq(kvmm_alloc(pool, 2, block), 0);
	fill(block, 2, 7);
	cr_assert_eq(kvmm_stage_tokens(pool, &req), 0);
	cr_assert_eq(kvmm_unstage(pool, staged, 2, block), 0);
	expect_tokens(block[1], (u32[]){ 11, 12, 13, 14 }, 4);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block[1], 1), 3);
	cr_expect_eq(kvmm_free(pool, block, 2), 0);
}

#define expect_bad(change, err)							\
	do {									\
		struct kvmm_stage_tokens_args bad = req;				\
		change;								\
		cr_expect_eq(kvmm_stage_tokens(pool, &bad), err, #change);	\
		cr_expect_arr_eq(keys, untouched, sizeof(keys));		\
		expect_tokens(block[0], (u32[]){ 7, 8, 9, 10 }, 4);		\
		expect_tokens(block[1], (u32[]){ 11, 12, 13 }, 3);		\
	} while (0)

Test(request_tokens, a_block_that_is_not_full_comes_back_untouched)
{
	const struct kvmm_key_extra extra = { KVMM_KEY_MM, 3, NULL, 2, 7 };
	struct kvmm_key_attr other_attr = KVMM_KEY_ATTR_INIT;
	kvmm_key_t keys[2] = { { { 1 } } }, untouched[2] = { { { 1 } } };
	struct kvmm_key_ctx *other, *sip __cleanup(kvmm_key_ctx_destroy) = make_ctx("siphash");
	kvmm_mut_t block[2], twice[2], gone = take_block();
	kvmm_digest_t digest[2];
	kvmm_staged_t staged[2];
	struct kvmm_stage_tokens_args req = { .blocks = block, .nr = 2, .ctx = ctx,
					      .staged = staged,
					      .keys = keys };

	cr_assert_eq(kvmm_key_ctx_create(&other_attr, &other), 0);	/* 16 tokens a block */
	cr_assert_eq(kvmm_alloc(pool, 2, block), 0);
	fill(block, 2, 7);
	cr_assert_eq(kvmm_free(pool, &gone, 1), 0);
	twice[0] = twice[1] = block[0];
	cr_assert_eq(kvmm_block_pop_tokens(pool, block[1], 1), 3);
	expect_bad((void)bad, -ENODATA);
	expect_bad(bad.blocks = NULL, -EINVAL);
	expect_bad(bad.nr = 0, -EINVAL);
	expect_bad(bad.nr = ~0u, -EINVAL);
	expect_bad(bad.ctx = NULL, -EINVAL);
	expect_bad(bad.ctx = other, -EINVAL);
	expect_bad(bad.staged = NULL, -EINVAL);
	expect_bad(bad.keys = NULL, -EINVAL);
	expect_bad(bad.nr = 1; bad.extras = &extra; bad.nr_extras = 1, -EINVAL);
	expect_bad(bad.nr = 1; bad.digests = digest; bad.ctx = sip, -EOPNOTSUPP);
	expect_bad(bad.blocks = twice, -EINVAL);
	expect_bad(bad.nr = 1; bad.blocks = &gone, -ESTALE);
	cr_expect_eq(kvmm_stage_tokens(NULL, &req), -EINVAL);
	cr_expect_eq(kvmm_stage_tokens(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_free(pool, block, 2), 0);
	kvmm_key_ctx_destroy(other);
}

/* ---- by key ---- */

/* Each way to name @nr blocks by a key of their own refuses them, and leaves them private. */
static void expect_partial(const kvmm_mut_t *block, u32 nr)
{
	const kvmm_key_t keys[3] = { { { 1 } }, { { 2 } }, { { 3 } } };
	const struct kvmm_prefix prefix = { .keys = keys, .nr = nr };
	struct kvmm_pool_stat before = stat_of(pool), after;
	kvmm_staged_t staged[3] = { { 0 } };
	kvmm_ref_t refs[3] = { { 0 } };

	cr_expect_eq(kvmm_stage(pool, &prefix, block, staged), -ENODATA);
	cr_expect_eq(kvmm_register(pool, block, keys, nr, refs), -ENODATA);
	cr_expect_eq(kvmm_prefix_register(pool, &prefix, block, refs), -ENODATA);
	cr_expect_eq(kvmm_match_len(pool, keys, nr), 0);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	for (u32 i = 0; i < nr; i++) {
		cr_expect_eq(staged[i].gen | refs[i].gen, 0);
		cr_expect_geq(kvmm_block_of_mut(pool, block[i]), 0);
	}
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* All of @nr become hits, and are given back. */
static void expect_full(const kvmm_mut_t *block, u32 nr)
{
	const kvmm_key_t keys[3] = { { { 1 } }, { { 2 } }, { { 3 } } };
	kvmm_ref_t refs[3];

	cr_assert_eq(kvmm_register(pool, block, keys, nr, refs), 0);
	cr_expect_eq(kvmm_match_len(pool, keys, nr), nr);
	cr_expect_eq(kvmm_put_many(pool, refs, nr), 0);
	cr_expect_eq(kvmm_reset_cache(pool), nr);
}

Test(request_tokens, a_partial_block_is_not_registered_by_key)
{
	const u32 tokens[] = { 11, 12, 13, 14 };
	kvmm_mut_t block[3];

	cr_assert_eq(kvmm_alloc(pool, 3, block), 0);
	cr_assert_eq(kvmm_block_append_tokens(pool, block[0], tokens, 4), 4);
	cr_assert_eq(kvmm_block_append_tokens(pool, block[2], tokens, 3), 3);
	expect_partial(block, 3);	/* of block[1] the pool knows nothing */
	expect_tokens(block[0], tokens, 4);
	expect_tokens(block[2], tokens, 3);
	cr_assert_eq(kvmm_block_append_tokens(pool, block[2], tokens + 3, 1), 4);
	expect_full(block, 3);
}

Test(request_tokens, a_block_that_lost_tokens_is_not_registered_by_key)
{
	const u32 tokens[] = { 11, 12, 13, 14 };
	const kvmm_key_t key = { { 1 } };
	const struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_mut_t block = take_block();
	kvmm_staged_t staged;

	cr_assert_eq(kvmm_block_append_tokens(pool, block, tokens, 4), 4);
	cr_assert_eq(kvmm_stage(pool, &prefix, &block, &staged), 0);
	cr_assert_eq(kvmm_unstage(pool, &staged, 1, &block), 0);
	cr_assert_eq(kvmm_block_pop_tokens(pool, block, 1), 3);
	expect_partial(&block, 1);
	cr_assert_eq(kvmm_block_pop_tokens(pool, block, 3), 0);
	expect_partial(&block, 1);
	cr_assert_eq(kvmm_free(pool, &block, 1), 0);
}

/* Owned blocks are marked while they are named: another way through the same step. */
Test(request_tokens, a_partial_block_with_an_owner_is_not_registered_by_key)
{
	const struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 7 };
	const u32 tokens[] = { 11, 12, 13, 14 };
	kvmm_mut_t block = take_block();

	cr_assert_eq(kvmm_lease_own_muts(pool, &own, &block, 1), 0);
	cr_assert_eq(kvmm_block_append_tokens(pool, block, tokens, 1), 1);
	expect_partial(&block, 1);
	cr_assert_eq(kvmm_block_append_tokens(pool, block, tokens + 1, 3), 4);
	expect_full(&block, 1);
}

Test(request_tokens, a_block_of_which_nothing_was_said_is_registered_by_key)
{
	const u32 tokens[] = { 11, 12, 13, 14, 15 };
	kvmm_mut_t block[3], old = take_block();

	cr_assert_eq(kvmm_block_append_tokens(pool, old, tokens, 3), 3);
	cr_assert_eq(kvmm_free(pool, &old, 1), 0);
	cr_assert_eq(kvmm_alloc(pool, 3, block), 0);
	cr_expect_eq(kvmm_block_append_tokens(pool, block[0], tokens, 5), -ENOSPC);
	cr_expect_eq(kvmm_block_append_tokens(pool, block[0], NULL, 0), 0);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block[1], 0), 0);
	cr_expect_eq(kvmm_block_nr_tokens(pool, block[2]), 0);
	cr_expect_eq(kvmm_register(pool, &old, &(kvmm_key_t){ { 9 } }, 1, &(kvmm_ref_t){ 0 }),
		     -ESTALE);
	expect_full(block, 3);
}

/* ---- without memory ---- */

/* The first append makes the table and a chunk of it; later ones need nothing. */
Test(request_tokens_fault, without_memory_nothing_is_appended)
{
	const u32 tokens[] = { 1, 2, 3, 4 };
	kvmm_staged_t staged;
	struct fake_env fake;
	kvmm_mut_t block;
	kvmm_key_t key;
	u32 n;

	fake_env_install(&fake);
	set_up();
	block = take_block();
	for (n = 1;; n++) {
		fake_env_fail(&fake, n, false);
		if (kvmm_block_append_tokens(pool, block, tokens, 4) == 4)
			break;
		cr_assert(fake_env_failed(&fake));
		cr_assert_eq(kvmm_block_nr_tokens(pool, block), 0);
		cr_assert_eq(kvmm_validate(pool), 0);
	}
	cr_expect_eq(n, 3);
	cr_expect_not(fake_env_failed(&fake));
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_block_pop_tokens(pool, block, 2), 2);
	cr_expect_eq(kvmm_block_append_tokens(pool, block, tokens + 2, 2), 4);
	cr_expect_eq(kvmm_stage_tokens(pool, &(struct kvmm_stage_tokens_args){
			.blocks = &block, .nr = 1, .ctx = ctx, .staged = &staged, .keys = &key,
		     }), -ENOMEM);
	expect_tokens(block, tokens, 4);
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(kvmm_free(pool, &block, 1), 0);
	tear_down();
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}
