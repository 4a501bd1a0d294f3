// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences, as seen in their block tables; pictures are explained in request_util.h. Blocks have 4
 * tokens.
 */
#include <kvmm/ext/evict.h>

#include "request_util.h"
#include "seq/internal.h"

static struct kvmm_pool *pool;
static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	pool = make_token_pool(16);
	ctx = make_ctx(NULL);
}

static void tear_down(void)
{
	cr_expect(pool_is_idle(pool));
	end_pool(pool);
	kvmm_key_ctx_destroy(ctx);
}

TestSuite(request, .init = set_up, .fini = tear_down);

#define expect_table(seq, want)						\
	do {								\
		cr_expect_str_eq(table_picture(seq), want, "%s instead of %s",	\
				 table_picture(seq), want);		\
		cr_expect_eq(kvmm_validate(pool), 0);			\
	} while (0)

#define expect_refusal(call, why_not)					\
	do {								\
		char before[64], after[64];				\
		strcpy(before, table_picture(seq));			\
		cr_expect_eq(call, kv_seq_errno(why_not));		\
		cr_expect_eq(info_of(seq).why, why_not);		\
		strcpy(after, table_picture(seq));			\
		cr_expect_str_eq(after, before);			\
	} while (0)

/* ---- prefill ---- */

Test(request, a_prompt_is_published_but_for_its_tail)
{
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 10, 5);
	u32 token = 100;

	expect_table(seq, " 0/10");
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 10), 0);
	expect_table(seq, "... 0/10");
	cr_expect_eq(kvmm_seq_apply(seq, &token, 1), 2);
	expect_table(seq, "PPp 10/11");
	kvmm_seq_destroy(seq);
	cr_expect_str_eq(picture(pool), "II..............");
}

/* What README.md shows: ranges and sequences, without a word about policies. */
Test(request, a_pool_that_was_told_nothing_else_has_ranges_and_sequences)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *plain;
	struct kvmm_seq *seq;
	kvmm_range_t range;

	attr.nr_blocks = 8;
	attr.block_tokens = BLOCK_TOKENS;
	plain = make_pool_of(&attr);
	cr_assert_eq(kvmm_range_alloc(plain, 3, 0, &range), 0);
	seq = make_seq(plain, ctx, 0, 10, 8);
	prefill(seq, 10);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 2);
	cr_expect_str_eq(table_picture(seq), "HH. 8/11");
	kvmm_seq_destroy(seq);
	cr_expect_eq(kvmm_range_free(plain, range), 0);
	end_pool(plain);
}

Test(request, chunks_take_the_blocks_that_they_need)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 10, 5);
	u32 token = 100;

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 3), 0);
	expect_table(seq, ". 0/10");
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 0);
	expect_table(seq, "p 3/10");
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 6), 0);
	expect_table(seq, "p.. 3/10");
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 2);
	expect_table(seq, "PPp 9/10");
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 1), 0);
	cr_expect_eq(kvmm_seq_apply(seq, &token, 1), 0);
	expect_table(seq, "PPp 10/11");
}

Test(request, a_match_counts_when_its_first_step_has_its_blocks)
{
	struct kvmm_seq *one = make_seq(pool, ctx, 0, 8, 1), *two = make_seq(pool, ctx, 0, 14, 1);
	u32 nr = stat_of(pool).nr_available;
	kvmm_mut_t held[256];

	prefill(one, 100);
	kvmm_seq_destroy(one);
	cr_assert_eq(kvmm_alloc(pool, nr - 2, held), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(kvmm_seq_match(two), 2);
		cr_expect_eq(kvmm_seq_schedule_prefill(two, 6), -ENOSPC);
		cr_expect_eq(kvmm_seq_release(two), 0);
	}
	cr_expect_eq(stat_of(pool).hit_blocks, 0);
	cr_expect_eq(kvmm_free(pool, held, nr - 2), 0);
	cr_expect_eq(kvmm_seq_match(two), 2);
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(kvmm_seq_schedule_prefill(two, 6), 0);
		cr_expect_eq(kvmm_seq_revert(two), 0);
		cr_expect_eq(stat_of(pool).hit_blocks, 2);
		cr_expect_eq(stat_of(pool).miss_blocks, 1);
		cr_expect_eq(stat_of(pool).nr_missed[KVMM_MISS_NEVER], 1);
	}
	kvmm_seq_destroy(two);
}

Test(request, a_prompt_without_output_ends_with_its_last_chunk)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 8, 0);
	u32 token = 1;

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 8), 0);
	expect_refusal(kvmm_seq_apply(seq, &token, 1), KVMM_SEQ_COMPLETE);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 2);
	expect_table(seq, "PP 8/8");
	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_COMPLETE);
}

/* ---- decode ---- */

/* A block has all of its tokens one step before it has all of their K/V. */
Test(request, a_block_is_published_when_its_last_token_is_computed)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 2, 9);

	prefill(seq, 100);
	expect_table(seq, "p 2/3");
	decode(seq, 101);
	expect_table(seq, "p 3/4");
	decode(seq, 102);
	expect_table(seq, "P 4/5");
	decode(seq, 103);
	expect_table(seq, "Pp 5/6");
}

Test(request, output_ends_at_its_maximum)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 4, 3);
	u32 tokens[2] = { 1, 2 };

	prefill(seq, 100);
	decode(seq, 101);
	expect_refusal(kvmm_seq_append(seq, tokens, 2), KVMM_SEQ_COMPLETE);
	decode(seq, 102);
	expect_table(seq, "Pp 6/7");
	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_COMPLETE);
	expect_refusal(kvmm_seq_schedule_speculative(seq, NULL, 3), KVMM_SEQ_COMPLETE);
}

/* ---- speculation ---- */

Test(request, accepted_drafts_are_kept_and_the_blocks_of_others_given_back)
{
	const u32 draft[] = { 201, 202, 203, 204, 205, 206 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 3, 20);
	u32 tokens[8];

	prefill(seq, 200);
	expect_table(seq, "p 3/4");
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, draft, 6), 6);
	expect_table(seq, "p.. 3/4");
	cr_expect_eq(kvmm_seq_accept(seq, 2, 999), 1);
	expect_table(seq, "Pp 6/7");
	cr_expect_eq(kvmm_seq_tokens(seq, 3, tokens, 8), 4);
	cr_expect_arr_eq(tokens, ((u32[]){ 200, 201, 202, 999 }), 4 * sizeof(u32));
}

Test(request, rejected_drafts_are_never_published)
{
	const u32 draft[] = { 201, 202, 203, 204, 205, 206 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 3, 20);

	prefill(seq, 200);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, draft, 6), 6);
	cr_expect_eq(kvmm_seq_accept(seq, 0, 999), 1);
	expect_table(seq, "P. 4/5");
	cr_expect_eq(stat_of(pool).registered, 1);
}

Test(request, all_drafts_and_the_models_own_token_may_be_right)
{
	const u32 draft[] = { 201, 202, 203 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 4, 20);

	prefill(seq, 200);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, draft, 3), 3);
	cr_expect_eq(kvmm_seq_accept(seq, 3, 204), 1);
	expect_table(seq, "PP 8/9");
}

Test(request, drafts_may_come_with_the_answer)
{
	const u32 verified[] = { 201, 202 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 4, 20);

	prefill(seq, 200);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, NULL, 3), 3);
	expect_refusal(kvmm_seq_accept(seq, 1, 7), KVMM_SEQ_NO_DRAFT);
	cr_expect_eq(kvmm_seq_apply(seq, verified, 2), 0);
	expect_table(seq, "Pp 6/7");
}

Test(request, drafts_end_where_output_ends)
{
	const u32 draft[] = { 201, 202, 203 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 4, 3);

	prefill(seq, 200);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, draft, 3), 1);
	expect_refusal(kvmm_seq_accept(seq, 2, 9), KVMM_SEQ_TOO_MANY_TOKENS);
	cr_expect_eq(kvmm_seq_accept(seq, 1, 202), 0);
	expect_table(seq, "Pp 6/7");
	cr_expect_eq(info_of(seq).nr_remaining, 0);
}

/* What is in the block was computed from the draft: another token's name must not be on it. */
Test(request, a_token_that_was_not_the_draft_is_refused)
{
	const u32 draft[] = { 201, 202, 203 }, other[] = { 201, 222, 203 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 4, 20);

	prefill(seq, 200);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, draft, 3), 3);
	expect_refusal(kvmm_seq_apply(seq, other, 3), KVMM_SEQ_OTHER_DRAFT);
	cr_expect_eq(kvmm_seq_apply(seq, other, 2), 0);		/* 222 is the model's own */
	expect_table(seq, "Pp 6/7");
}

/* ---- revert ---- */

Test(request, a_reverted_step_leaves_nothing)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 6, 20);
	char before[17];

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 6), 0);
	cr_expect_eq(kvmm_seq_revert(seq), 0);
	expect_table(seq, " 0/6");
	cr_expect_str_eq(picture(pool), "................");

	prefill(seq, 100);
	strcpy(before, picture(pool));
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, NULL, 15), 15);
	expect_table(seq, "Pp.... 6/7");
	cr_expect_eq(kvmm_seq_revert(seq), 0);
	expect_table(seq, "Pp 6/7");
	cr_expect_str_eq(picture(pool), before);
	decode(seq, 101);
	expect_table(seq, "Pp 7/8");
}

/* ---- sharing ---- */

Test(request, the_second_request_finds_what_the_first_published)
{
	struct kvmm_seq *one = make_seq(pool, ctx, 0, 10, 5), *two = make_seq(pool, ctx, 0, 10, 5);
	u32 id[2][3];

	prefill(one, 100);
	cr_expect_eq(kvmm_seq_match(two), 2);
	expect_table(two, "HH 8/10");
	prefill(two, 100);
	expect_table(two, "HHp 10/11");
	cr_expect_eq(kvmm_seq_block_table(one, id[0], 3), 3);
	cr_expect_eq(kvmm_seq_block_table(two, id[1], 3), 3);
	cr_expect_arr_eq(id[0], id[1], 2 * sizeof(u32));
	cr_expect_neq(id[0][2], id[1][2]);
	kvmm_seq_destroy(one);
	kvmm_seq_destroy(two);
}

/* Else there would be nothing to compute, and no answer. */
Test(request, the_last_token_is_never_a_hit)
{
	struct kvmm_seq *one = make_seq(pool, ctx, 0, 8, 5), *two = make_seq(pool, ctx, 0, 8, 5);

	prefill(one, 100);
	cr_expect_eq(kvmm_seq_match(two), 1);
	expect_table(two, "H 4/8");
	prefill(two, 100);
	expect_table(two, "HP 8/9");
	kvmm_seq_destroy(two);
	kvmm_seq_destroy(one);
}

/* The pool is empty: it is the tenant's limit that is in the way, and output is left. */
Test(request, a_tenant_s_limit_is_told_from_a_full_pool)
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	u32 prompt[12] = { 0 }, tokens[6] = { 0 };
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;

	limit.max = 2;
	cr_assert_eq(kvmm_tenant_set(pool, 7, &limit), 0);
	attr.keys = ctx;
	attr.prompt = prompt;
	attr.nr_prompt = 12;
	attr.max_output = 5;
	attr.domain.tenant = 7;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	cr_expect_eq(kv_seq_errno(KVMM_SEQ_NO_QUOTA), -EDQUOT);
	expect_refusal(kvmm_seq_acquire(seq), KVMM_SEQ_NO_QUOTA);
	cr_expect_eq(info_of(seq).nr_missing, 3);
	expect_refusal(kvmm_seq_schedule_prefill(seq, 12), KVMM_SEQ_NO_QUOTA);
	cr_expect_eq(info_of(seq).nr_missing, 3);
	expect_refusal(kvmm_seq_append(seq, tokens, 6), KVMM_SEQ_COMPLETE);
	limit.max = 4;
	cr_assert_eq(kvmm_tenant_set(pool, 7, &limit), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 0);
}

Test(request, output_is_shared_as_prompts_are)
{
	struct kvmm_seq *one = make_seq(pool, ctx, 0, 6, 9), *two = make_seq(pool, ctx, 0, 11, 9);

	prefill(one, 6);
	for (u32 token = 7; token < 10; token++)
		decode(one, token);
	expect_table(one, "PPp 9/10");
	cr_expect_eq(kvmm_seq_match(two), 2);
	kvmm_seq_destroy(one);
	kvmm_seq_destroy(two);
}

Test(request, acquire_takes_the_whole_prompt_or_nothing)
{
	struct kvmm_seq *one = make_seq(pool, ctx, 0, 9, 5), *seq = make_seq(pool, ctx, 0, 70, 5);
	u32 token = 9;

	prefill(one, 100);
	expect_refusal(kvmm_seq_acquire(seq), KVMM_SEQ_NO_BLOCKS);
	cr_expect_eq(info_of(seq).nr_missing, 16);
	cr_expect_eq(kvmm_seq_truncate(seq, 50), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 2);
	expect_table(seq, "HH........... 8/50");
	expect_refusal(kvmm_seq_acquire(seq), KVMM_SEQ_HOLDS_BLOCKS);
	expect_refusal(kvmm_seq_match(seq), KVMM_SEQ_HOLDS_BLOCKS);
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 11), 0);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 2);
	expect_table(seq, "HHPPp........ 19/50");
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 31), 0);
	cr_expect_eq(kvmm_seq_apply(seq, &token, 1), 8);
	expect_table(seq, "HHPPPPPPPPPPp 50/51");
	kvmm_seq_destroy(one);
	kvmm_seq_destroy(seq);
}

static struct kvmm_seq *make_seq_of(kvmm_domain_t domain)
{
	u32 prompt[10] = { 1, 2, 3 };
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = ctx, .prompt = prompt,
				      .nr_prompt = 10, .max_output = 5, .domain = domain };
	struct kvmm_seq *seq = NULL;

	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	return seq;
}

/* The same tokens, and the same keys: still nobody else's. */
Test(request, domains_share_nothing)
{
	const kvmm_domain_t domain[] = { { 0, 0, 0 }, { 7, 0, 0 }, { 0, 7, 0 }, { 0, 0, 7 } };
	struct kvmm_seq *seq[4], *again;

	for (u32 i = 0; i < 4; i++) {
		seq[i] = make_seq_of(domain[i]);
		cr_expect_eq(kvmm_seq_match(seq[i]), 0);
		prefill(seq[i], 100);
	}
	for (u32 i = 0; i < 4; i++) {
		again = make_seq_of(domain[i]);
		cr_expect_eq(kvmm_seq_acquire(again), 2);
		kvmm_seq_destroy(again);
		cr_expect_eq(kvmm_seq_release(seq[i]), 0);
		cr_expect_eq(kvmm_seq_match(seq[i]), 2);
		kvmm_seq_destroy(seq[i]);
	}
}

/* Two that computed the same at the same time, in a pool that keeps one of each. */
Test(request, a_duplicate_is_replaced_by_its_elder)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8,
				       .block_tokens = BLOCK_TOKENS, .policy = "lru",
				       .dup_policy = KVMM_DUP_REJECT };
	struct kvmm_seq *one, *two;
	u32 id[2][3];
	struct kvmm_pool *other __cleanup(end_pool) = make_pool_of(&attr);

	one = make_seq(other, ctx, 0, 10, 5);
	two = make_seq(other, ctx, 0, 10, 5);
	prefill(one, 100);
	prefill(two, 200);
	cr_expect_str_eq(table_picture(two), "PPp 10/11");
	cr_expect_eq(kvmm_seq_block_table(one, id[0], 3), 3);
	cr_expect_eq(kvmm_seq_block_table(two, id[1], 3), 3);
	cr_expect_arr_eq(id[0], id[1], 2 * sizeof(u32));
	cr_expect_eq(stat_of(other).nr_free, 4);
	kvmm_seq_destroy(one);
	cr_expect_eq(kvmm_validate(other), 0);
	decode(two, 201);
	kvmm_seq_destroy(two);
	cr_expect(pool_is_idle(other));
}

/* ---- giving back ---- */

Test(request, what_was_released_is_found_again)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 6, 20);
	u32 token = 104;

	prefill(seq, 100);
	for (u32 i = 1; i < 4; i++)
		decode(seq, 100 + i);
	expect_table(seq, "PPp 9/10");
	cr_expect_eq(kvmm_seq_release(seq), 0);
	expect_table(seq, " 0/10");
	cr_expect_str_eq(picture(pool), "II..............");

	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_PREFILL_INCOMPLETE);
	cr_expect_eq(kvmm_seq_acquire(seq), 2);
	expect_table(seq, "HH. 8/10");
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 2), 0);
	cr_expect_eq(kvmm_seq_apply(seq, &token, 1), 0);
	expect_table(seq, "HHp 10/11");
}

Test(request, the_tail_is_the_first_to_be_evicted)
{
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 16, 0), *again = make_seq(pool, ctx, 0, 16, 0);
	kvmm_mut_t mut[14];

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 16), 0);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 4);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	cr_expect_eq(kvmm_alloc(pool, 14, mut), 0);	/* evicts two */
	cr_expect_eq(kvmm_seq_match(again), 2);
	cr_expect_eq(kvmm_free(pool, mut, 14), 0);
	kvmm_seq_destroy(again);
	kvmm_seq_destroy(seq);
}

Test(request, only_blocks_that_hold_nothing_are_dropped)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 18, 5);

	cr_expect_eq(kvmm_seq_acquire(seq), 0);
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 6), 0);
	expect_refusal(kvmm_seq_truncate(seq, 18), KVMM_SEQ_NOT_IDLE);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 1);
	expect_table(seq, "Pp... 6/18");
	cr_expect_eq(kvmm_seq_truncate(seq, 18), 0);
	expect_table(seq, "Pp 6/18");
	cr_expect_eq(kvmm_seq_truncate(seq, 18), 0);
	expect_table(seq, "Pp 6/18");
	prefill(seq, 100);
	expect_table(seq, "PPPPp 18/19");
}

/* ---- tokens ---- */

Test(request, truncation_leaves_a_token_to_compute)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 10, 20);

	prefill(seq, 100);
	decode(seq, 101);
	expect_table(seq, "PPp 11/12");
	cr_expect_eq(kvmm_seq_truncate(seq, 12), 0);
	expect_table(seq, "PPp 11/12");
	cr_expect_eq(kvmm_seq_truncate(seq, 11), 0);	/* inside a private block: rewritten there */
	expect_table(seq, "PPp 10/11");
	cr_expect_eq(info_of(seq).nr_waiting, 1);
	cr_expect_eq(kvmm_seq_truncate(seq, 9), 0);
	expect_table(seq, "PP 8/9");
	cr_expect_eq(kvmm_seq_truncate(seq, 8), 0);	/* inside a published one: left */
	expect_table(seq, "P 4/8");
	cr_expect_eq(kvmm_seq_truncate(seq, 2), 0);
	expect_table(seq, " 0/2");
	cr_expect_eq(info_of(seq).nr_prompt, 2);
	prefill(seq, 200);
	expect_table(seq, "p 2/3");
}

/* Other tokens behind the cut are other blocks. */
Test(request, names_follow_the_tokens_after_a_cut)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 10, 20), *other;
	u32 tokens[] = { 70, 71, 72, 73 };
	kvmm_key_t key[2][4];

	prefill(seq, 100);
	cr_expect_eq(kvmm_seq_truncate(seq, 5), 0);
	cr_expect_eq(kvmm_seq_append(seq, tokens, 4), 0);
	expect_table(seq, "P 4/9");
	prefill(seq, 100);
	expect_table(seq, "PPp 9/10");
	cr_expect_eq(kvmm_seq_refs(seq, NULL, key[0], 4), 2);

	other = make_seq(pool, ctx, 0, 10, 20);
	prefill(other, 100);
	cr_expect_eq(kvmm_seq_refs(other, NULL, key[1], 4), 2);
	cr_expect_arr_eq(&key[0][0], &key[1][0], sizeof(kvmm_key_t));
	cr_expect_arr_neq(&key[0][1], &key[1][1], sizeof(kvmm_key_t));
	kvmm_seq_destroy(other);
}

Test(request, appended_tokens_wait_for_a_prefill)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 3, 20);
	const u32 forced[] = { 50, 51, 52, 53 };

	prefill(seq, 100);
	cr_expect_eq(kvmm_seq_append(seq, forced, 4), 0);
	expect_table(seq, "p 3/8");
	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_PREFILL_INCOMPLETE);
	cr_expect_eq(info_of(seq).nr_waiting, 5);
	prefill(seq, 101);
	expect_table(seq, "PP 8/9");
	decode(seq, 102);
	expect_table(seq, "PPp 9/10");
}

/* ---- refusals ---- */

Test(request, each_refusal_has_its_errno_and_its_words)
{
	for (u32 a = 1; a < KVMM_NR_SEQ_ERRORS; a++) {
		cr_expect_lt(kv_seq_errno(a), 0);
		for (u32 b = 0; b < a; b++)
			cr_expect_neq(kv_seq_errno(a), kv_seq_errno(b));
		cr_expect_str_neq(kvmm_strerror(kv_seq_errno(a)), "unknown error");
		cr_expect_neq(kv_seq_errno(a), -EINVAL);
		cr_expect_neq(kv_seq_errno(a), -ENOMEM);
	}
	cr_expect_eq(kv_seq_errno(KVMM_NR_SEQ_ERRORS), 0);
}

Test(request, what_comes_at_the_wrong_time_changes_nothing)
{
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 8, 5);
	u32 token[3] = { 1, 2, 3 };

	expect_refusal(kvmm_seq_apply(seq, token, 1), KVMM_SEQ_NOT_SCHEDULED);
	expect_refusal(kvmm_seq_accept(seq, 0, 1), KVMM_SEQ_NOT_SCHEDULED);
	expect_refusal(kvmm_seq_revert(seq), KVMM_SEQ_NOT_SCHEDULED);
	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_PREFILL_INCOMPLETE);
	expect_refusal(kvmm_seq_schedule_speculative(seq, NULL, 2), KVMM_SEQ_PREFILL_INCOMPLETE);
	expect_refusal(kvmm_seq_schedule_prefill(seq, 9), KVMM_SEQ_PREFILL_OVERRUN);
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 0), -EINVAL);

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 5), 0);
	expect_refusal(kvmm_seq_apply(seq, token, 1), KVMM_SEQ_EARLY_TOKEN);
	expect_refusal(kvmm_seq_accept(seq, 0, 1), KVMM_SEQ_EARLY_TOKEN);
	expect_refusal(kvmm_seq_accept(seq, 1, 1), KVMM_SEQ_NOT_SCHEDULED);
	cr_expect_eq(kvmm_seq_schedule(seq, KVMM_SEQ_TAKING, NULL, 1), -EINVAL);
	expect_refusal(kvmm_seq_schedule_prefill(seq, 1), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_schedule_decode(seq), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_schedule_speculative(seq, NULL, 1), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_match(seq), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_acquire(seq), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_release(seq), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_append(seq, token, 1), KVMM_SEQ_NOT_IDLE);
	expect_refusal(kvmm_seq_truncate(seq, 3), KVMM_SEQ_NOT_IDLE);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 0), 1);

	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 3), 0);
	expect_refusal(kvmm_seq_apply(seq, NULL, 0), KVMM_SEQ_MISSING_TOKEN);
	expect_refusal(kvmm_seq_apply(seq, token, 2), KVMM_SEQ_TOO_MANY_TOKENS);
	cr_expect_eq(kvmm_seq_apply(seq, token, 1), 1);
	expect_refusal(kvmm_seq_schedule_prefill(seq, 1), KVMM_SEQ_PREFILL_COMPLETE);

	cr_expect_eq(kvmm_seq_schedule_decode(seq), 0);
	expect_refusal(kvmm_seq_apply(seq, NULL, 0), KVMM_SEQ_MISSING_TOKEN);
	expect_refusal(kvmm_seq_apply(seq, token, 2), KVMM_SEQ_TOO_MANY_TOKENS);
	cr_expect_eq(kvmm_seq_revert(seq), 0);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, NULL, 1), 1);
	expect_refusal(kvmm_seq_apply(seq, NULL, 0), KVMM_SEQ_MISSING_TOKEN);
	expect_refusal(kvmm_seq_apply(seq, token, 3), KVMM_SEQ_TOO_MANY_TOKENS);
	kvmm_seq_destroy(seq);		/* in the middle of a step */
}

Test(request, bad_arguments_are_refused)
{
	struct kvmm_seq_attr good = KVMM_SEQ_ATTR_INIT, attr;
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_pool *plain = make_pool(4);
	struct kvmm_key_ctx *other;
	struct kvmm_seq *seq;
	u32 token = 1;

	good.keys = ctx;
	good.prompt = &token;
	good.nr_prompt = 1;
	cr_assert_eq(kvmm_key_ctx_create(&key_attr, &other), 0);	/* 16 tokens a block */
	cr_expect_eq(kvmm_seq_create(NULL, &good, &seq), -EINVAL);
	cr_expect_eq(kvmm_seq_create(pool, NULL, &seq), -EINVAL);
	cr_expect_eq(kvmm_seq_create(pool, &good, NULL), -EINVAL);
	cr_expect_eq(kvmm_seq_create(plain, &good, &seq), -EOPNOTSUPP);
#define expect_bad(field, value)							\
	do {										\
		attr = good;								\
		attr.field = value;							\
		cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL, #field);	\
	} while (0)
	expect_bad(size, 3);
	expect_bad(keys, NULL);
	expect_bad(keys, other);
	expect_bad(prompt, NULL);
	expect_bad(nr_prompt, 0);
	expect_bad(nr_prompt, 1u << 31);
	expect_bad(max_output, 0x7fffffffu);
	expect_bad(nr_extras, 1);
	kvmm_key_ctx_destroy(other);
	end_pool(plain);
}

Test(request, bad_arguments_of_calls_are_refused)
{
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 8, 5);
	struct kvmm_seq_info info;
	char before[64];

	cr_expect_eq(kvmm_seq_get_info(NULL, &info), -EINVAL);
	cr_expect_eq(kvmm_seq_get_info(seq, NULL), -EINVAL);
	cr_expect_eq(kvmm_seq_match(NULL), -EINVAL);
	cr_expect_eq(kvmm_seq_acquire(NULL), -EINVAL);
	cr_expect_eq(kvmm_seq_release(NULL), -EINVAL);
	cr_expect_eq(kvmm_seq_schedule_prefill(NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_seq_apply(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_seq_apply(seq, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_seq_append(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_seq_append(seq, NULL, 1), -EINVAL);
	cr_assert_geq(kvmm_seq_acquire(seq), 0);
	strcpy(before, table_picture(seq));
	cr_expect_eq(kvmm_seq_append(seq, NULL, 0), 0);
	expect_table(seq, before);
	cr_expect_eq(kvmm_seq_truncate(seq, 0), -EINVAL);
	cr_expect_eq(kvmm_seq_truncate(seq, 9), -EINVAL);
	cr_expect_eq(kvmm_seq_tokens(seq, 9, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_seq_tokens(seq, 8, NULL, 0), 0);
	cr_expect_eq(kvmm_seq_tokens(seq, 0, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_seq_block_table(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_seq_block_table(seq, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_seq_refs(seq, NULL, NULL, 1), -EINVAL);
	kvmm_seq_destroy(seq);
	kvmm_seq_destroy(NULL);
}

/* ---- names ---- */

/*
 * The keys of a whole prompt, by one call, and those of a sequence, step by step. Of 9 tokens of
 * prompt, of which @given blocks have their keys already.
 */
static void compare_keys(const char *algo, const struct kvmm_key_extra *extras, size_t nr_extras,
			 u32 given)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct kvmm_key_ctx *own __cleanup(kvmm_key_ctx_destroy) = make_ctx(algo);
	bool whole = !strcmp(algo, "vllm-sha256-cbor");
	kvmm_key_t want[5], got[5];
	kvmm_digest_t digests[5];
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;
	u32 tokens[20];

	for (u32 i = 0; i < 20; i++)
		tokens[i] = 1000 - i;
	what.tokens = attr.prompt = tokens;
	what.extras = attr.extras = extras;
	what.nr_extras = attr.nr_extras = nr_extras;
	what.nr_tokens = 20;
	attr.keys = own;
	attr.nr_prompt = 9;
	attr.max_output = 12;
	cr_assert_eq(kvmm_key_hash(own, &what, want, whole ? digests : NULL, 5), 5);
	attr.nr_prompt_keys = given;
	attr.prompt_keys = given && !whole ? want : NULL;
	attr.prompt_digests = given && whole ? digests : NULL;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	prefill(seq, tokens[9]);
	for (u32 i = 10; i < 12; i++)
		decode(seq, tokens[i]);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, tokens + 12, 8), 8);
	cr_expect_eq(kvmm_seq_accept(seq, 8, 0), 3);
	cr_expect_eq(kvmm_seq_refs(seq, NULL, got, 5), 5);
	cr_expect_arr_eq(got, want, sizeof(want), "%s", algo);
}

Test(request, keys_are_those_of_the_whole_chain)
{
	const struct kvmm_key_extra extra[] = {
		{ KVMM_KEY_MM, 3, "cat", 2, 3 }, { KVMM_KEY_MM, 3, "dog", 9, 6 },
		{ KVMM_KEY_SALT, 4, "salt", 5, 100 },
	};
	const char *algo[8];
	u32 nr = kvmm_key_algos(algo, 8);

	for (u32 i = 0; i < nr; i++) {
		compare_keys(algo[i], NULL, 0, i % 3);
		for (u32 given = 0; given < 3; given++)
			compare_keys(algo[i], extra, 2, given);
	}
	compare_keys("sha256", extra, 3, 2);
}

/* They are believed: a sequence that was given those of other tokens has their blocks. */
Test(request, keys_that_are_given_are_not_computed_again)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct kvmm_seq *seq, *first = make_seq(pool, ctx, 1, 9, 1);
	u32 others[9] = { 0 }, tokens[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	kvmm_key_t keys[2];

	prefill(first, 10);
	what.tokens = tokens;
	what.nr_tokens = 9;
	cr_assert_eq(kvmm_key_chain(ctx, &what, keys, 2), 2);
	attr.keys = ctx;
	attr.prompt = others;
	attr.nr_prompt = 9;
	attr.prompt_keys = keys;
	attr.nr_prompt_keys = 2;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	cr_expect_eq(kvmm_seq_match(seq), 2);
	kvmm_seq_destroy(seq);
	kvmm_seq_destroy(first);
}

Test(request, keys_without_their_blocks_or_of_another_length_are_refused)
{
	struct kvmm_key_ctx *vllm __cleanup(kvmm_key_ctx_destroy) = make_ctx("vllm-sha256-cbor");
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	kvmm_digest_t digests[3] = { 0 };
	kvmm_key_t keys[3] = { 0 };
	u32 tokens[9] = { 0 };
	struct kvmm_seq *seq;

	attr.keys = ctx;
	attr.prompt = tokens;
	attr.nr_prompt = 9;
	attr.nr_prompt_keys = 1;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.prompt_digests = digests;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.prompt_keys = keys;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.prompt_digests = NULL;
	attr.nr_prompt_keys = 3;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.nr_prompt_keys = SIZE_MAX;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.keys = vllm;
	attr.nr_prompt_keys = 1;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
}

Test(request, extras_that_began_before_or_are_out_of_order_are_refused)
{
	struct kvmm_key_extra extra[] = { { KVMM_KEY_MM, 3, "dog", 9, 6 },
					  { KVMM_KEY_MM, 3, "cat", 2, 3 } };
	struct kvmm_seq *seq;
	u32 tokens[20] = { 0 };
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = ctx, .prompt = tokens,
				      .nr_prompt = 20, .extras = extra, .nr_extras = 2 };

	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	attr.nr_extras = 1;
	extra[0].start = -1;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
	extra[0].start = 1;
	extra[0].data = NULL;
	cr_expect_eq(kvmm_seq_create(pool, &attr, &seq), -EINVAL);
}
