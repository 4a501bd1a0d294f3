// SPDX-License-Identifier: Apache-2.0
/* Pools, keys and prompts that the bench builds. */
#include <kv/pool.h>
#include <kv/zone.h>
#include <kvmm/ext/testing.h>

#include "tests/support/test.h"

static struct kvmm_testing *t;

static void set_up(void)
{
	cr_assert_eq(kvmm_testing_begin(&t), 0);
}

/* Tests that expect a failure end the bench themselves. */
static void tear_down(void)
{
	char why[KVMM_TESTING_WHY] = "";

	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), 0, "%s", why);
}

TestSuite(builder, .init = set_up, .fini = tear_down);

static void end_with_failures(void)
{
	cr_expect_eq(kvmm_testing_end(t, NULL, 0), -EBADMSG);
	t = NULL;
}

static struct kvmm_pool *make(struct kvmm_testing_pool spec)
{
	struct kvmm_pool *pool = NULL;

	cr_assert_eq(kvmm_testing_pool_make(t, &spec, &pool), 0, "%s", kvmm_testing_why(t));
	return pool;
}

#define expect_picture(pool, want) cr_expect_str_eq(kvmm_testing_picture(t, pool), want)

Test(builder, defaults_are_a_small_cache_in_host_memory)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ 0 });
	struct kvmm_pool_stat stat;

	expect_picture(pool, "................");
	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.block_tokens, 16);
	cr_expect_eq(stat.block_bytes, 0);
	cr_expect_eq(kvmm_testing_cache(t, pool, 0, 1), 0, "it has a policy");
}

Test(builder, fields_are_what_the_pool_gets)
{
	struct kvmm_testing_pool base = { .nr_blocks = 6, .block_bytes = 128, .block_tokens = 32,
					  .flags = KVMM_POOL_NULL_BLOCK };
	struct kvmm_testing_pool more = base;
	struct kvmm_pool_stat stat;
	struct kvmm_pool *pool = make(base);

	expect_picture(pool, "N.....");
	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.block_tokens, 32);
	cr_expect_eq(stat.block_bytes, 128);
	more.nr_cached = 2;
	expect_picture(make(more), "NII...");
	more = base;
	more.policy = "";
	cr_expect_eq(kvmm_match_len(make(more), NULL, 0), -EOPNOTSUPP);
}

Test(builder, cached_keys_go_tail_first)
{
	static const uint32_t order[] = { 3, 2, 1, 0 };
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 8,
								  .nr_cached = 4 });

	expect_picture(pool, "IIII....");
	cr_expect_eq(kvmm_testing_expect_victims(t, pool, order, 4), 0, "%s", kvmm_testing_why(t));
	expect_picture(pool, "........");
}

Test(builder, more_keys_than_a_batch_has)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 200,
								  .nr_cached = 150 });
	kvmm_key_t keys[151];
	kvmm_ref_t refs[40];

	kvmm_testing_keys(0, 151, keys);
	cr_expect_eq(kvmm_testing_expect_prefix(t, pool, keys, 151, 150), 0);
	cr_assert_eq(kvmm_testing_reference(t, pool, 1000, 40, refs), 0);
	cr_expect_eq(kvmm_put_many(pool, refs, 40), 0);
}

Test(builder, a_reference_that_does_not_fit_leaves_none)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 100 });
	kvmm_ref_t refs[101];

	cr_expect_eq(kvmm_testing_reference(t, pool, 0, 101, refs), -ENOSPC);
	cr_expect(strstr(kvmm_testing_why(t), "keys 0 to 100"), "%s", kvmm_testing_why(t));
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), 0);
	end_with_failures();
}

Test(builder, a_pool_that_cannot_be_made_says_why)
{
	struct kvmm_testing_pool bad[] = {
		{ .policy = "none such" }, { .device = "none such" }, { .allocator = "none such" },
		{ .block_tokens = 65537 }, { .nr_blocks = 4, .nr_cached = 5 },
		{ .policy = "", .nr_cached = 1 },
	};
	const int err[] = { -ENOENT, -ENOENT, -ENOENT, -EINVAL, -ENOSPC, -EOPNOTSUPP };
	uint64_t before = kvmm_testing_host_bytes(t);
	struct kvmm_pool *pool = NULL;

	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(kvmm_testing_pool_make(t, &bad[i], &pool), err[i], "%u", i);
		cr_expect_eq(kvmm_testing_nr_failures(t), i + 1);
		cr_expect_null(pool);
	}
	cr_expect_eq(kvmm_testing_host_bytes(t), before, "nothing is left of them");
	end_with_failures();
}

Test(builder, what_is_not_returned_is_a_failure)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 4 });
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_testing_pool_end(t, pool), -EBADMSG);
	cr_expect(strstr(kvmm_testing_why(t), "1 blocks were not returned, first block 0: private"),
		  "%s", kvmm_testing_why(t));
	cr_expect_eq(kvmm_testing_pool_end(t, pool), -EINVAL, "it is gone");
	end_with_failures();
}

Test(builder, what_may_be_held_is_none)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 4 });
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc(pool, 2, 0, &range), 0);
	kvmm_testing_forget_held(t, pool);
}

/* ---- pictures ---- */

Test(builder, pools_look_like_their_pictures)
{
	static const char *const pictures[] = {
		".", "N", "N.", "a", "I", "A", "P", "NaabbAIPa..II.z", "abababab", "..a..b..",
		"IIIIAAAAPPPP", "NAPI.A.P.I.", "zzzz.yyyy", "a.a.a.a.a.a.a.a", "NI",
	};

	for (uint32_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
		struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .picture = pictures[i] });

		cr_expect_eq(kvmm_testing_expect_picture(t, pool, pictures[i]), 0);
		cr_expect_eq(kvmm_testing_pool_end(t, pool), 0, "%s", kvmm_testing_why(t));
	}
}

Test(builder, every_policy_and_zone_can_be_painted)
{
	const char *policy[32], *engine[16];
	uint32_t nr = kvmm_policies(policy, 32), nr_engines = kv_zone_engines(engine, 16);
	struct kvmm_testing_pool spec = { .picture = "NaabbAIPa..II.z" };

	for (uint32_t i = 0; i < nr; i++) {
		spec.policy = policy[i];
		expect_picture(make(spec), spec.picture);
	}
	spec.policy = "lru";
	for (uint32_t i = 0; i < nr_engines; i++) {
		if (!strncmp(engine[i], "buddy", 5))
			continue;		/* they cannot cut, or round up */
		spec.allocator = engine[i];
		expect_picture(make(spec), spec.picture);
	}
}

Test(builder, painted_handles_are_good)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 8 });
	struct kvmm_testing_painted paint;
	kvmm_key_t key = kvmm_testing_key(5);

	cr_assert_eq(kvmm_testing_paint(t, pool, "aaPb.Ab.", &paint), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, paint.ref[5]), 5);
	cr_expect_eq(kvmm_block_of_mut(pool, paint.mut[2]), 2);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 1, "its key is that of its block");
	cr_expect_eq(kvmm_range_free(pool, paint.range['a' - 'a']), 0);
	expect_picture(pool, "..Pb.Ab.");
	cr_expect_eq(kvmm_range_free(pool, paint.range['b' - 'a']), 0);
	cr_expect_eq(kvmm_put_many(pool, &paint.ref[5], 1), 0);
	cr_expect_eq(kvmm_free(pool, &paint.mut[2], 1), 0);
	expect_picture(pool, ".....I..");
}

Test(builder, staged_blocks_have_a_letter)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 3 });
	kvmm_key_t key = kvmm_testing_key(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged;
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, &mut, &staged), 0);
	expect_picture(pool, "S..");
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), -EBADMSG);
	cr_expect_eq(kv_free_staged(pool, &staged, 1), 0);
	end_with_failures();
}

Test(builder, of_two_inactive_blocks_the_left_one_goes_first)
{
	static const uint32_t order[] = { 1, 2, 4 };
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .picture = ".II.I" });

	cr_expect_eq(kvmm_testing_expect_victims(t, pool, order, 3), 0, "%s", kvmm_testing_why(t));
}

Test(builder, pictures_that_are_none)
{
	static const char *const bad[] = { "", "...", ".....", "..X.", "N...", "..N.", "..#." };
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 4 });
	kvmm_range_t range;

	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(kvmm_testing_paint(t, pool, bad[i], NULL), -EINVAL, "%s", bad[i]);
		expect_picture(pool, "....");
	}
	cr_assert_eq(kvmm_range_alloc(pool, 1, 0, &range), 0);
	cr_expect_eq(kvmm_testing_paint(t, pool, "....", NULL), -EINVAL, "it is not empty");
	kvmm_range_free(pool, range);
	end_with_failures();
}

Test(builder, host_memory_may_run_out_while_painting)
{
	struct kvmm_testing_pool spec = { .picture = "NaabAIPa.IIb" };
	struct kvmm_pool *pool;
	uint64_t nth = 0;
	int err = 1;

	while (kvmm_testing_next_failure(t, &nth)) {
		err = kvmm_testing_pool_make(t, &spec, &pool);
		cr_expect_eq(err, kvmm_testing_alloc_failed(t) ? -ENOMEM : 0, "%d", err);
	}
	cr_expect_eq(err, 0);
	cr_expect_eq(kvmm_testing_nr_failures(t), nth - 1, "each one was told");
	end_with_failures();
}

Test(builder, host_memory_may_run_out_while_caching)
{
	struct kvmm_pool *pool = make((struct kvmm_testing_pool){ .nr_blocks = 512 });
	uint32_t nr_failed = 0;
	uint64_t nth = 0;
	int err;

	while (kvmm_testing_next_failure(t, &nth)) {
		err = kvmm_testing_cache(t, pool, 1000 * nth, 300);
		nr_failed += err == -ENOMEM;
		cr_expect(!err || err == -ENOMEM, "%d", err);
		cr_expect_eq(kvmm_testing_expect_unheld(t, pool), 0, "round %lu", nth);
	}
	if (nr_failed)
		end_with_failures();
}

/* ---- keys and prompts ---- */

Test(builder, keys_have_numbers)
{
	kvmm_key_t keys[3], other = { { 1, 2, 3 } };

	kvmm_testing_keys(0xfffffffe, 3, keys);
	cr_expect_eq(kvmm_testing_key_number(&keys[0]), 0xfffffffe);
	cr_expect_eq(kvmm_testing_key_number(&keys[1]), 0xffffffff);
	cr_expect_eq(kvmm_testing_key_number(&keys[2]), 0);
	cr_expect_eq(kvmm_testing_key_number(&other), -1);
}

static uint32_t nr_common_keys(struct kvmm_testing_prompt a, struct kvmm_testing_prompt b)
{
	kvmm_key_t of_a[32], of_b[32];
	uint32_t nr = 0, nr_anywhere = 0;

	kvmm_testing_prompt_keys(&a, of_a);
	kvmm_testing_prompt_keys(&b, of_b);
	while (nr < a.nr_blocks && nr < b.nr_blocks &&
	       !memcmp(&of_a[nr], &of_b[nr], sizeof(kvmm_key_t)))
		nr++;
	for (uint32_t i = 0; i < a.nr_blocks; i++)
		for (uint32_t j = 0; j < b.nr_blocks; j++)
			nr_anywhere += !memcmp(&of_a[i], &of_b[j], sizeof(kvmm_key_t));
	cr_expect_eq(nr, nr_anywhere, "what differs once is different for ever");
	return nr;
}

static uint32_t nr_common_tokens(struct kvmm_testing_prompt a, struct kvmm_testing_prompt b)
{
	uint32_t of_a[512], of_b[512], nr = 0;
	uint32_t nr_a = kvmm_testing_prompt_tokens(&a, of_a), nr_b = kvmm_testing_prompt_tokens(&b, of_b);

	while (nr < nr_a && nr < nr_b && of_a[nr] == of_b[nr])
		nr++;
	return nr;
}

Test(builder, prompts_share_what_they_shall)
{
	struct kvmm_testing_prompt a = { .nr_blocks = 10, .nr_shared = 4, .family = 1, .member = 1 };
	struct kvmm_testing_prompt b = a, longer = a, stranger = a, wide = a;

	b.member = 2;
	longer.nr_shared = 7;
	longer.member = 3;
	stranger.family = 2;
	cr_expect_eq(nr_common_keys(a, a), 10);
	cr_expect_eq(nr_common_keys(a, b), 4);
	cr_expect_eq(nr_common_keys(a, longer), 4);
	cr_expect_eq(nr_common_keys(a, stranger), 0);
	cr_expect_eq(nr_common_tokens(a, a), 160);
	cr_expect_eq(nr_common_tokens(a, b), 64);
	cr_expect_eq(nr_common_tokens(a, longer), 64);
	cr_expect_eq(nr_common_tokens(a, stranger), 0);
	wide.block_tokens = 32;
	cr_expect_eq(nr_common_tokens(wide, wide), 320);
}

/* The library's own keys of the tokens say the same about prefixes. */
Test(builder, tokens_agree_with_computed_keys)
{
	struct kvmm_testing_prompt a = { .nr_blocks = 8, .nr_shared = 3, .member = 1 }, b = a;
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	kvmm_key_t keys[2][8];
	struct kvmm_key_ctx *ctx;
	uint32_t tokens[128];

	b.member = 2;
	cr_assert_eq(kvmm_key_ctx_create(&attr, &ctx), 0);
	seq.tokens = tokens;
	seq.nr_tokens = kvmm_testing_prompt_tokens(&a, tokens);
	cr_assert_eq(kvmm_key_chain(ctx, &seq, keys[0], 8), 8);
	kvmm_testing_prompt_tokens(&b, tokens);
	cr_assert_eq(kvmm_key_chain(ctx, &seq, keys[1], 8), 8);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect_eq(!memcmp(&keys[0][i], &keys[1][i], sizeof(kvmm_key_t)), i < 3);
	kvmm_key_ctx_destroy(ctx);
}
