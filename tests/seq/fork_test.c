// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences that begin as copies of others: what they share, when a block is copied, and which of
 * them goes on. Blocks of 4 tokens; pictures as in request_util.h.
 */
#include "tests/pool/request_util.h"

static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	ctx = make_ctx(NULL);
}

static void tear_down(void)
{
	kvmm_key_ctx_destroy(ctx);
}

TestSuite(fork, .init = set_up, .fini = tear_down);

static struct kvmm_pool *make_ids(u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .block_tokens = BLOCK_TOKENS };

	return make_pool_of(&attr);
}

static struct kvmm_seq *prefilled(struct kvmm_pool *pool, u32 nr, u32 max_output)
{
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, nr, max_output);

	prefill(seq, 90);
	return seq;
}

static u32 block_of(struct kvmm_seq *seq, u32 i)
{
	u32 ids[16];

	cr_assert_lt(i, kvmm_seq_block_table(seq, ids, 16));
	return ids[i];
}

static u32 newest_of(struct kvmm_seq *seq)
{
	u32 token;

	cr_assert_eq(kvmm_seq_tokens(seq, info_of(seq).nr_tokens - 1, &token, 1), 1);
	return token;
}

static void destroy_all(struct kvmm_seq **seq, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		kvmm_seq_destroy(seq[i]);
}

/* ---- sharing ---- */

POOL_TEST(fork, takes_no_blocks, make_token_pool(8))
{
	struct kvmm_seq *seq[3] = { prefilled(pool, 6, 8) };

	cr_expect_str_eq(picture(pool), "AP......");
	cr_expect_eq(kvmm_seq_fork(seq[0], 2, seq + 1), 0);
	cr_expect_str_eq(picture(pool), "AP......");
	for (u32 i = 1; i < 3; i++) {
		cr_expect_str_eq(table_picture(seq[i]), "Pp 6/7");
		cr_expect_eq(block_of(seq[i], 0), block_of(seq[0], 0));
		cr_expect_eq(block_of(seq[i], 1), block_of(seq[0], 1));
		cr_expect_eq(info_of(seq[i]).nr_remaining, 7);
		cr_expect_eq(newest_of(seq[i]), 90);
	}
	cr_expect_eq(kvmm_validate(pool), 0);
	destroy_all(seq, 2);
	cr_expect_str_eq(picture(pool), "AP......");
	kvmm_seq_destroy(seq[2]);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, leaves_blocks_for_tokens_to_come_to_the_parent, make_token_pool(8))
{
	struct kvmm_seq *seq[2] = { make_seq(pool, ctx, 0, 14, 8) };

	cr_assert_eq(kvmm_seq_acquire(seq[0]), 0);
	cr_assert_eq(kvmm_seq_schedule_prefill(seq[0], 6), 0);
	cr_assert_eq(kvmm_seq_apply(seq[0], NULL, 0), 1);
	cr_expect_str_eq(table_picture(seq[0]), "Pp.. 6/14");
	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_expect_str_eq(table_picture(seq[1]), "Pp 6/14");
	prefill(seq[1], 91);
	cr_expect_str_eq(table_picture(seq[1]), "PPPp 14/15");
	cr_expect_str_eq(table_picture(seq[0]), "Pp.. 6/14");
	prefill(seq[0], 92);
	cr_expect_str_eq(table_picture(seq[0]), "PPPp 14/15");
	destroy_all(seq, 2);
	cr_expect(pool_is_idle(pool));
}

/* ---- copies ---- */

POOL_TEST(fork, copies_the_last_block_when_one_writes_to_it, make_token_pool(8))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 6, 8) };
	u32 shared = block_of(seq[0], 1), full[2], token = 91;
	u8 want[4] = { 5, 6, 7, 8 }, got[4] = { 0 };

	cr_assert_eq(kvmm_block_write(pool, shared, 8, want, 4), 0);
	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_expect_eq(kvmm_seq_schedule_decode(seq[1]), 0);
	cr_expect_str_eq(picture(pool), "APP.....");
	cr_expect_eq(block_of(seq[0], 1), shared);
	cr_expect_neq(block_of(seq[1], 1), shared);
	cr_expect_eq(kvmm_block_read(pool, block_of(seq[1], 1), 8, got, 4), 0);
	cr_expect_arr_eq(got, want, 4);
	cr_expect_eq(info_of(seq[1]).copy_from, UINT32_MAX);
	cr_expect_eq(kvmm_seq_apply(seq[1], &token, 1), 0);
	/* Alone, the other one writes in place. */
	decode(seq[0], 92);
	cr_expect_eq(block_of(seq[0], 1), shared);
	cr_expect_str_eq(picture(pool), "APP.....");
	decode(seq[0], 93);
	decode(seq[1], 93);
	full[0] = block_of(seq[0], 1);
	full[1] = block_of(seq[1], 1);
	cr_expect_str_eq(table_picture(seq[0]), "PP 8/9");
	cr_expect_str_eq(table_picture(seq[1]), "PP 8/9");
	cr_expect_neq(full[0], full[1]);	/* 92 and 91: other names */
	destroy_all(seq, 2);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, copies_nothing_where_the_last_block_is_full, make_token_pool(8))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 8, 8) };

	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	decode(seq[0], 91);
	cr_expect_eq(kvmm_seq_schedule_decode(seq[1]), 0);
	cr_expect_str_eq(picture(pool), "AAPP....");
	cr_expect_eq(kvmm_seq_revert(seq[1]), 0);
	cr_expect_str_eq(picture(pool), "AAP.....");
	destroy_all(seq, 2);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, a_step_given_up_has_the_shared_block_again, make_token_pool(8))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 6, 8) };
	u32 shared = block_of(seq[0], 1);

	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq[1], NULL, 5), 5);
	cr_expect_str_eq(picture(pool), "APPP....");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_seq_revert(seq[1]), 0);
	cr_expect_str_eq(picture(pool), "AP......");
	cr_expect_eq(block_of(seq[1], 1), shared);
	cr_expect_eq(kvmm_seq_schedule_decode(seq[1]), 0);
	kvmm_seq_destroy(seq[1]);		/* in any state */
	cr_expect_str_eq(picture(pool), "AP......");
	kvmm_seq_destroy(seq[0]);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, without_room_for_the_copy_both_are_as_they_were, make_token_pool(4))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 6, 8) };
	kvmm_mut_t mut[2];
	u32 token = 91;

	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(kvmm_seq_schedule_decode(seq[i]), -ENOSPC);
		cr_expect_eq(info_of(seq[i]).nr_missing, 1);
		cr_expect_eq(info_of(seq[i]).state, KVMM_SEQ_IDLE);
		cr_expect_str_eq(table_picture(seq[i]), "Pp 6/7");
		cr_expect_eq(block_of(seq[i], 1), 1);
	}
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
	/* The copy and one more: all or none. */
	cr_expect_eq(kvmm_seq_schedule_speculative(seq[1], NULL, 3), -ENOSPC);
	cr_expect_eq(info_of(seq[1]).nr_missing, 2);
	cr_expect_eq(kvmm_seq_schedule_decode(seq[1]), 0);
	cr_expect_eq(kvmm_seq_apply(seq[1], &token, 1), 0);
	cr_expect_eq(kvmm_free(pool, mut + 1, 1), 0);
	destroy_all(seq, 2);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, of_a_pool_of_ids_tells_what_is_to_be_copied, make_ids(8))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 6, 8) };
	u32 shared = block_of(seq[0], 1), token = 91;

	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_expect_eq(info_of(seq[1]).copy_from, UINT32_MAX);
	cr_expect_eq(kvmm_seq_schedule_decode(seq[1]), 0);
	cr_expect_eq(info_of(seq[1]).copy_from, shared);
	cr_expect_eq(info_of(seq[1]).copy_to, block_of(seq[1], 1));
	cr_expect_neq(block_of(seq[1], 1), shared);
	/* What is to be copied stays, whatever the other one does. */
	kvmm_seq_destroy(seq[0]);
	cr_expect_str_eq(picture(pool), "APP.....");
	cr_expect_eq(kvmm_seq_apply(seq[1], &token, 1), 0);
	cr_expect_str_eq(picture(pool), "A.P.....");
	cr_expect_eq(info_of(seq[1]).copy_from, UINT32_MAX);
	kvmm_seq_destroy(seq[1]);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, a_cut_inside_the_shared_block_is_copied_too, make_token_pool(8))
{
	struct kvmm_seq *seq[2] = { prefilled(pool, 7, 8) };
	u32 shared = block_of(seq[0], 1);

	cr_expect_eq(kvmm_seq_fork(seq[0], 1, seq + 1), 0);
	cr_expect_eq(kvmm_seq_truncate(seq[1], 6), 0);
	cr_expect_str_eq(table_picture(seq[1]), "Pp 5/6");
	prefill(seq[1], 91);
	cr_expect_neq(block_of(seq[1], 1), shared);
	cr_expect_eq(kvmm_seq_truncate(seq[0], 3), 0);
	cr_expect_str_eq(table_picture(seq[0]), " 0/3");
	cr_expect_str_eq(picture(pool), "A.P.....");
	destroy_all(seq, 2);
	cr_expect(pool_is_idle(pool));
}

/* ---- refusals ---- */

POOL_TEST(fork, of_a_scheduled_sequence_is_refused, make_token_pool(8))
{
	struct kvmm_seq *seq = prefilled(pool, 6, 8), *child = NULL, *other;

	cr_expect_eq(kvmm_seq_fork(seq, 1, &child), 0);
	other = child;
	cr_expect_eq(kvmm_seq_schedule_decode(seq), 0);
	cr_expect_eq(kvmm_seq_fork(seq, 1, &other), -EBUSY);
	cr_expect_eq(info_of(seq).why, KVMM_SEQ_NOT_IDLE);
	cr_expect_eq(other, child);
	cr_expect_eq(kvmm_seq_adopt(seq, child), -EBUSY);
	cr_expect_eq(kvmm_seq_adopt(child, seq), -EBUSY);
	cr_expect_eq(kvmm_seq_adopt(child, child), -EINVAL);
	cr_expect_eq(kvmm_seq_fork(child, 0, &other), -EINVAL);
	cr_expect_eq(kvmm_seq_fork(NULL, 1, &other), -EINVAL);
	cr_expect_eq(kvmm_seq_fork(child, 1, NULL), -EINVAL);
	kvmm_seq_destroy(seq);
	kvmm_seq_destroy(child);
	cr_expect(pool_is_idle(pool));
}

/* ---- which of them goes on ---- */

POOL_TEST(fork, a_beam_that_ends_goes_on_as_a_better_one, make_token_pool(8))
{
	struct kvmm_seq *beam[2] = { prefilled(pool, 6, 8) }, *more;

	cr_expect_eq(kvmm_seq_fork(beam[0], 1, beam + 1), 0);
	decode(beam[0], 91);
	decode(beam[1], 92);
	/* The best two are both behind beam 0. */
	cr_expect_eq(kvmm_seq_fork(beam[0], 1, &more), 0);
	cr_expect_eq(kvmm_seq_adopt(beam[1], more), 0);
	cr_expect_eq(newest_of(beam[1]), 91);
	cr_expect_eq(block_of(beam[1], 1), block_of(beam[0], 1));
	cr_expect_eq(stat_of(pool).nr_free, 6);
	decode(beam[0], 93);
	decode(beam[1], 94);
	cr_expect_neq(block_of(beam[1], 1), block_of(beam[0], 1));
	cr_expect_eq(kvmm_validate(pool), 0);
	destroy_all(beam, 2);
	cr_expect(pool_is_idle(pool));
}

/* Paths of a tree of drafts behind 90: 10 11, 10 12 13, 14. The model says 10 12, and then 15. */
POOL_TEST(fork, the_accepted_path_of_a_tree_is_kept, make_token_pool(16))
{
	static const u32 path[3][3] = { { 10, 11 }, { 10, 12, 13 }, { 14 } };
	static const u32 len[3] = { 2, 3, 1 };
	struct kvmm_seq *seq = prefilled(pool, 6, 8), *branch[3];
	u32 got[3];

	cr_expect_eq(kvmm_seq_fork(seq, 3, branch), 0);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_seq_schedule_speculative(branch[i], path[i], len[i]), len[i]);
	cr_expect_eq(kvmm_seq_accept(branch[1], 2, 15), 1);
	cr_expect_eq(kvmm_seq_adopt(seq, branch[1]), 0);
	kvmm_seq_destroy(branch[0]);
	kvmm_seq_destroy(branch[2]);
	cr_expect_str_eq(table_picture(seq), "PPp 9/10");
	cr_expect_eq(kvmm_seq_tokens(seq, 7, got, 3), 3);
	cr_expect_eq(got[0], 10);
	cr_expect_eq(got[1], 12);
	cr_expect_eq(got[2], 15);
	cr_expect_eq(stat_of(pool).nr_free, 13);
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_seq_destroy(seq);
	cr_expect(pool_is_idle(pool));
}

POOL_TEST(fork, children_name_their_blocks_as_one_sequence_does, make_token_pool(16))
{
	static const char *const algos[] = { NULL, "vllm-sha256-cbor" };

	for (u32 a = 0; a < ARRAY_SIZE(algos); a++) {
		struct kvmm_key_ctx *how = make_ctx(algos[a]);
		struct kvmm_key_extra extra = { KVMM_KEY_MM, 3, "cat", 5, 3 };
		struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
		u32 prompt[6] = { 1, 2, 3, 4, 5, 6 }, whole[12] = { 1, 2, 3, 4, 5, 6, 90 };
		struct kvmm_seq *seq[2], *plain;
		kvmm_key_t keys[2][3];

		attr.keys = how;
		attr.prompt = prompt;
		attr.nr_prompt = 6;
		attr.max_output = 8;
		attr.extras = &extra;
		attr.nr_extras = 1;
		cr_assert_eq(kvmm_seq_create(pool, &attr, &seq[0]), 0);
		prefill(seq[0], 90);
		cr_assert_eq(kvmm_seq_fork(seq[0], 1, &seq[1]), 0);
		kvmm_seq_destroy(seq[0]);
		for (u32 i = 7; i < 12; i++)
			decode(seq[1], whole[i] = 80 + i);
		cr_expect_eq(kvmm_seq_refs(seq[1], NULL, keys[0], 3), 2);
		attr.prompt = whole;
		attr.nr_prompt = 12;
		cr_assert_eq(kvmm_seq_create(pool, &attr, &plain), 0);
		cr_expect_eq(kvmm_seq_match(plain), 2);
		cr_expect_eq(kvmm_seq_refs(plain, NULL, keys[1], 3), 2);
		cr_expect_arr_eq(keys[0], keys[1], 2 * sizeof(kvmm_key_t));
		kvmm_seq_destroy(seq[1]);
		kvmm_seq_destroy(plain);
		kvmm_key_ctx_destroy(how);
	}
	cr_expect(pool_is_idle(pool));
}
