// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences that take their time: blocks of tiers below are loaded, and blocks that are not free are
 * waited for. Time stands still unless a test turns it; a copy ends when the sequence looks.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/cuda/soft.h"
#include "tests/pool/request_util.h"
#include "tests/support/fault.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"
#include "tests/tier/util.h"

#define NR_BLOCKS	8u
#define NR_UNITS	16u
#define WAIT_NS		1000000u

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	fault_begin();
	pool = make_token_pool(NR_BLOCKS);
	tier = make_tier(NR_UNITS);
	attach(pool, tier);
	ctx = make_ctx(NULL);
}

static void tear_down(void)
{
	cr_expect(pool_is_idle(pool));
	cr_expect_eq(client_of(pool).nr_ops, 0);
	end_both(pool, tier);
	kvmm_key_ctx_destroy(ctx);
	fault_end();
}

TestSuite(tier_seq, .init = set_up, .fini = tear_down);

/* ---- scenes ---- */

static struct kvmm_seq *waiting(u32 first, u32 nr)
{
	return make_waiting_seq(pool, ctx, first, nr, 8, WAIT_NS);
}

/* Block @b of the prompt that begins with @first. */
static void paint_block(u8 *buf, u32 first, u32 b)
{
	for (u32 i = 0; i < TEST_BLOCK_BYTES; i++)
		buf[i] = first * 31 + b * 89 + i * 7;
}

/* The prompt of @nr tokens, computed and cached. */
static struct kvmm_seq *compute(struct kvmm_pool *to, u32 first, u32 nr)
{
	struct kvmm_seq *seq = make_seq(to, ctx, first, nr, 8);
	u32 ids[64], token = 1000;
	u8 buf[TEST_BLOCK_BYTES];
	int blocks;

	cr_assert_eq(kvmm_seq_schedule_prefill(seq, nr), 0);
	blocks = kvmm_seq_block_table(seq, ids, 64);
	for (int b = 0; b < blocks && stat_of(to).block_bytes; b++) {
		paint_block(buf, first, b);
		cr_assert_eq(kvmm_block_write(to, ids[b], 0, buf, sizeof(buf)), 0);
	}
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
	return seq;
}

/* Its full blocks, but for the first @nr_above, lie in the host tier only. */
static void send_below(u32 first, u32 nr, u32 nr_above)
{
	struct kvmm_seq *seq = compute(pool, first, nr);
	struct kvmm_tier_offload_args req = { .size = sizeof(req) };
	kvmm_ref_t refs[64];
	u32 ids[64];

	req.nr = kvmm_seq_refs(seq, refs, NULL, 64);
	req.refs = refs;
	cr_assert_eq(kvmm_blocks_of_refs(pool, refs, req.nr, ids), 0);
	cr_assert_eq(kvmm_tier_offload(pool, &req, NULL), 0);
	cr_assert_eq(kvmm_seq_release(seq), 0);
	poll_all(pool);
	cr_assert_eq(kvmm_evict_blocks(pool, ids + nr_above, req.nr - nr_above), req.nr - nr_above);
	kvmm_seq_destroy(seq);
}

static void expect_content(struct kvmm_seq *seq, u32 first)
{
	u8 got[TEST_BLOCK_BYTES], want[TEST_BLOCK_BYTES];
	u32 ids[64];

	cr_assert_geq(kvmm_seq_block_table(seq, ids, 64), 0);
	for (u32 b = 0; b < info_of(seq).nr_published; b++) {
		paint_block(want, first, b);
		cr_assert_eq(kvmm_block_read(pool, ids[b], 0, got, sizeof(got)), 0);
		cr_expect_arr_eq(got, want, sizeof(want), "block %u", b);
	}
}

/* Until it is neither loading nor in the queue. */
static int take_all(struct kvmm_seq *seq, int whole)
{
	int ret;

	while ((ret = kvmm_seq_take(seq, whole)) == -EINPROGRESS)
		;
	return ret;
}

/* A @seq of @nr tokens, of which 18 are below but for the first @nr_above blocks. */
static struct kvmm_seq *make_below(u32 nr_above, u32 nr)
{
	send_below(0, 18, nr_above);
	return waiting(0, nr);
}

#define BELOW_TEST(name, nr_above, nr) \
	TEST_WITH(struct kvmm_seq *seq, make_below(nr_above, nr), kvmm_seq_destroy, tier_seq, name)

/* ---- loads ---- */

BELOW_TEST(a_match_goes_on_below, 1, 18)
{
	cr_expect_str_eq(picture(pool), "I.......");
	cr_expect_str_eq(tier_picture(tier), "rrrr............");
	cr_expect_eq(kvmm_seq_match(seq), -EINPROGRESS);
	cr_expect_str_eq(table_picture(seq), "H 4/18");
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_TAKING);
	cr_expect_eq(kvmm_seq_match(seq), 4);
	cr_expect_str_eq(table_picture(seq), "HHHH 16/18");
	cr_expect_str_eq(picture(pool), "AAAA....");
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_IDLE);
	expect_content(seq, 0);
	prefill(seq, 99);
	cr_expect_str_eq(table_picture(seq), "HHHHp 18/19");
}

BELOW_TEST(the_whole_prompt_is_loaded_and_gets_blocks_for_the_rest, 0, 26)
{
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(seq), 4);
	cr_expect_str_eq(table_picture(seq), "HHHH... 16/26");
	cr_expect_str_eq(picture(pool), "AAAAPPP.");
	expect_content(seq, 0);
}

Test(tier_seq, without_time_only_the_device_is_asked)
{
	struct kvmm_seq *seq;

	send_below(0, 18, 2);
	seq = make_seq(pool, ctx, 0, 18, 8);
	cr_expect_eq(kvmm_seq_match(seq), 2);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 2);
	cr_expect_str_eq(table_picture(seq), "HH... 8/18");
	cr_expect_eq(client_of(pool).loads, 0);
	cr_expect_eq(client_of(pool).misses, 0, "the tier was asked");
	kvmm_seq_destroy(seq);
}

/* No load can have as many blocks; and a second sequence waits until there is room on the link. */
Test(tier_seq, a_prompt_longer_than_the_load_quota_comes_in_parts)
{
	struct both both = both_of(NR_BLOCKS, NR_UNITS);
	struct kvmm_seq *seq, *other;

	send_below(0, 22, 0);
	cr_assert_eq(kvmm_tier_detach(pool), 0);
	both.client.config = &both.config;
	both.client.max_up = 2;
	attach_as(pool, tier, &both.client);
	seq = waiting(0, 22);
	other = waiting(0, 22);
	cr_expect_eq(kvmm_seq_match(seq), -EINPROGRESS);
	cr_expect_eq(client_of(pool).loading, 2);
	cr_expect_eq(take_all(seq, 0), 5);
	cr_expect_str_eq(table_picture(seq), "HHHHH 20/22");
	expect_content(seq, 0);
	cr_expect_eq(kvmm_seq_match(other), 5);
	kvmm_seq_destroy(other);
	kvmm_seq_destroy(seq);
}

Test(tier_seq, two_sequences_share_a_load)
{
	struct kvmm_seq *seq[2];

	send_below(0, 18, 0);
	for (u32 i = 0; i < 2; i++) {
		seq[i] = waiting(0, 18);
		cr_expect_eq(kvmm_seq_match(seq[i]), -EINPROGRESS);
	}
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(kvmm_seq_match(seq[i]), 4);
	cr_expect_str_eq(picture(pool), "AAAA....");
	cr_expect_eq(client_of(pool).loads, 4);
	for (u32 i = 0; i < 2; i++)
		kvmm_seq_destroy(seq[i]);
}

/* Hit rate over all tiers: Documentation/tiers.rst. A load is a hit below, and a miss above. */
BELOW_TEST(a_request_counts_each_key_once, 1, 18)
{
	struct kvmm_pool_stat before, after;

	before = stat_of(pool);
	cr_expect_eq(take_all(seq, 1), 4);
	cr_expect_eq(stat_of(pool).hit_blocks, before.hit_blocks);
	prefill(seq, 99);
	after = stat_of(pool);
	cr_expect_eq(after.hit_blocks - before.hit_blocks, 1);
	cr_expect_eq(after.miss_blocks - before.miss_blocks, 3);
	cr_expect_eq(client_of(pool).hits, 3);
}

/* ---- while blocks are on their way ---- */

BELOW_TEST(nothing_else_can_be_done_meanwhile, 1, 18)
{
	u32 token = 1;

	cr_expect_eq(kvmm_seq_match(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_schedule_prefill(seq, 1), -EBUSY);
	cr_expect_eq(kvmm_seq_schedule_decode(seq), -EBUSY);
	cr_expect_eq(kvmm_seq_schedule_speculative(seq, NULL, 1), -EBUSY);
	cr_expect_eq(kvmm_seq_append(seq, &token, 1), -EBUSY);
	cr_expect_eq(kvmm_seq_truncate(seq, 3), -EBUSY);
	cr_expect_eq(kvmm_seq_apply(seq, &token, 1), -EPERM);
	cr_expect_eq(kvmm_seq_accept(seq, 0, 1), -EPERM);
	cr_expect_eq(kvmm_seq_revert(seq), -EPERM);
	cr_expect_str_eq(table_picture(seq), "H 4/18");
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_TAKING);
	cr_expect_eq(kvmm_seq_match(seq), 4);
}

BELOW_TEST(a_release_gives_up_the_load, 1, 18)
{
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(client_of(pool).nr_ops, 1);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	cr_expect_eq(client_of(pool).nr_ops, 0);
	cr_expect_str_eq(table_picture(seq), " 0/18");
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_IDLE);
	poll_all(pool);
	cr_expect_str_eq(tier_picture(tier), "rrrr............");
	cr_expect_eq(take_all(seq, 1), 4);
	cr_expect_str_eq(table_picture(seq), "HHHH. 16/18");
}

Test(tier_seq, a_sequence_may_be_destroyed_meanwhile)
{
	struct kvmm_seq *loads, *waits;
	kvmm_mut_t muts[NR_BLOCKS];

	send_below(0, 18, 1);
	loads = waiting(0, 18);
	cr_expect_eq(kvmm_seq_acquire(loads), -EINPROGRESS);
	kvmm_seq_destroy(loads);
	poll_all(pool);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS, muts), 0);
	waits = waiting(500, 9);
	cr_expect_eq(kvmm_seq_acquire(waits), -EINPROGRESS);
	kvmm_seq_destroy(waits);
	cr_assert_eq(kvmm_free(pool, muts, NR_BLOCKS), 0);
	cr_expect_str_eq(picture(pool), "........");
}

/* ---- loads that fail ---- */

BELOW_TEST(what_comes_up_wrong_is_computed, 1, 18)
{
	tier_flip(tier, 2);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(seq), 1);
	cr_expect_str_eq(table_picture(seq), "H.... 4/18");
	cr_expect_eq(client_of(pool).corrupt, 1);
	prefill(seq, 99);
	cr_expect_str_eq(table_picture(seq), "HPPPp 18/19");
}

BELOW_TEST(what_another_thread_aborts_is_computed, 1, 18)
{
	cr_expect_eq(kvmm_seq_match(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_tier_abort_all(pool), 1);
	cr_expect_eq(kvmm_seq_match(seq), 1);
	cr_expect_str_eq(table_picture(seq), "H 4/18");
}

BELOW_TEST(what_is_forgotten_on_its_way_is_computed, 0, 18)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	kvmm_key_t keys[4];
	u32 tokens[16];

	for (u32 i = 0; i < 16; i++)
		tokens[i] = i;
	what.tokens = tokens;
	what.nr_tokens = 16;
	cr_assert_eq(kvmm_key_chain(ctx, &what, keys, 4), 4);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_tier_forget(pool, &(struct kvmm_prefix){ .keys = keys + 2, .nr = 1 }), 1);
	cr_expect_eq(kvmm_seq_acquire(seq), 0);
	cr_expect_str_eq(table_picture(seq), "..... 0/18");
	cr_expect_eq(info_of(seq).nr_hits, 0);
}

BELOW_TEST(a_pool_is_reset_once_its_loads_are_given_up, 0, 18)
{
	cr_expect_eq(kvmm_seq_match(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_reset_cache(pool), -EBUSY);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	poll_all(pool);
	cr_expect_geq(kvmm_reset_cache(pool), 0);
	cr_expect_eq(kvmm_seq_match(seq), 0);
	cr_expect_str_eq(tier_picture(tier), "................");
}

BELOW_TEST(what_does_not_fit_is_computed, 1, 18)
{
	kvmm_mut_t muts[NR_BLOCKS];

	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS - 3, muts), 0);
	cr_expect_eq(kvmm_seq_match(seq), 1);
	cr_expect_str_eq(table_picture(seq), "H 4/18");
	cr_assert_eq(kvmm_free(pool, muts, NR_BLOCKS - 3), 0);
}

static void make_as(struct both *both)
{
	both->attr.block_tokens = BLOCK_TOKENS;
	both_make(both);
	pool = both->pool;
	tier = both->tier;
}

/* A pool of ids whose copies last as long as the test says. */
static void make_slow(void)
{
	struct both both = both_of_ids(NR_BLOCKS, NR_UNITS, TEST_BLOCK_BYTES);

	end_both(pool, tier);
	both.host.up.latency_ns = 10;
	make_as(&both);
}

Test(tier_seq, what_takes_too_long_is_computed)
{
	struct kvmm_seq *late, *waits;

	make_slow();
	send_below(0, 18, 1);
	late = waiting(0, 18);
	cr_expect_eq(kvmm_seq_acquire(late), -EINPROGRESS);
	fake_env_advance(&fake, WAIT_NS - 1);
	cr_expect_eq(kvmm_seq_acquire(late), -EINPROGRESS);
	waits = waiting(0, 18);
	cr_expect_eq(kvmm_seq_match(waits), -EINPROGRESS);
	fake_env_advance(&fake, 1);
	cr_expect_eq(kvmm_seq_acquire(late), 1);
	cr_expect_str_eq(table_picture(late), "H.... 4/18");
	cr_expect_eq(kvmm_seq_release(late), 0);
	cr_expect_eq(kvmm_seq_match(late), -EINPROGRESS);
	fake_env_advance(&fake, WAIT_NS);
	cr_expect_eq(kvmm_seq_match(late), 1);
	cr_expect_eq(client_of(pool).nr_ops, 1);
	cr_assert_eq(kvmm_tier_clock(tier, 10), 0);
	cr_expect_eq(kvmm_seq_match(waits), 4);		/* there, though it is late */
	kvmm_seq_destroy(waits);
	kvmm_seq_destroy(late);
}

/* ---- blocks for the rest ---- */

Test(tier_seq, a_sequence_waits_for_blocks_until_they_are_free)
{
	struct kvmm_seq *seq = waiting(0, 18);
	kvmm_mut_t muts[4];

	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_str_eq(table_picture(seq), " 0/18");
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_TAKING);
	fake_env_advance(&fake, WAIT_NS - 1);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_assert_eq(kvmm_free(pool, muts, 1), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 0);
	cr_expect_str_eq(table_picture(seq), "..... 0/18");
	kvmm_seq_destroy(seq);
	cr_assert_eq(kvmm_free(pool, muts + 1, 3), 0);
}

Test(tier_seq, after_its_time_a_sequence_has_nothing)
{
	struct kvmm_seq *seq;
	kvmm_mut_t muts[4];

	kvmm_seq_destroy(compute(pool, 0, 10));
	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	seq = waiting(0, 22);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_str_eq(table_picture(seq), "HH 8/22");
	cr_expect_str_eq(picture(pool), "AAPPPP..");
	fake_env_advance(&fake, WAIT_NS);
	cr_expect_eq(kvmm_seq_acquire(seq), -ENOSPC);
	cr_expect_eq(info_of(seq).why, KVMM_SEQ_NO_BLOCKS);
	cr_expect_eq(info_of(seq).nr_missing, 4);
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_IDLE);
	cr_expect_str_eq(table_picture(seq), " 0/22");
	cr_expect_str_eq(picture(pool), "IIPPPP..");
	cr_assert_eq(kvmm_free(pool, muts, 4), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), 2);
	cr_expect_str_eq(table_picture(seq), "HH.... 8/22");
	kvmm_seq_destroy(seq);
}

Test(tier_seq, sequences_get_blocks_in_the_order_in_which_they_came)
{
	struct kvmm_seq *first = waiting(0, 18), *second = waiting(100, 6);
	kvmm_mut_t muts[4];

	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	cr_expect_eq(kvmm_seq_acquire(first), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_assert_eq(kvmm_free(pool, muts, 1), 0);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(first), 0);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);	/* only three are left */
	kvmm_seq_destroy(first);
	cr_expect_eq(kvmm_seq_acquire(second), 0);
	kvmm_seq_destroy(second);
	cr_assert_eq(kvmm_free(pool, muts + 1, 3), 0);
}

/* Each loads its prefix, and lacks one block more than that. */
Test(tier_seq, those_that_wait_do_not_keep_what_the_first_lacks)
{
	struct kvmm_seq *seq[4];
	u32 nr_left = 4;

	for (u32 i = 0; i < 4; i++)
		send_below(100 * i, 14, 0);
	for (u32 i = 0; i < 4; i++)
		seq[i] = waiting(100 * i, 14);
	for (u32 round = 0; nr_left && round < 100; round++)
		for (u32 i = 0; i < 4; i++) {
			int ret = seq[i] ? kvmm_seq_acquire(seq[i]) : -EINPROGRESS;

			cr_assert_eq(kvmm_validate(pool), 0);
			if (ret == -EINPROGRESS)
				continue;
			cr_assert_eq(ret, 3, "sequence %u: %d", i, ret);
			cr_expect_str_eq(table_picture(seq[i]), "HHH. 12/14");
			expect_content(seq[i], 100 * i);
			prefill(seq[i], 99);
			kvmm_seq_destroy(seq[i]);
			seq[i] = NULL;
			nr_left--;
		}
	cr_expect_eq(nr_left, 0);
	for (u32 i = 0; i < 4; i++)
		kvmm_seq_destroy(seq[i]);
}

/* Only the first of the queue keeps its prefix; the next finds its own again at its turn. */
Test(tier_seq, a_prefix_is_kept_by_the_first_of_the_queue_only)
{
	struct kvmm_seq *first, *second;
	kvmm_mut_t muts[4];
	u64 hits;

	kvmm_seq_destroy(compute(pool, 0, 10));
	kvmm_seq_destroy(compute(pool, 100, 10));
	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	first = waiting(0, 22);
	second = waiting(100, 22);
	cr_expect_eq(kvmm_seq_acquire(first), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_expect_str_eq(table_picture(first), "HH 8/22");
	cr_expect_str_eq(table_picture(second), " 0/22");
	cr_expect_str_eq(picture(pool), "AAIIPPPP");
	cr_assert_eq(kvmm_free(pool, muts, 4), 0);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(first), 2);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_expect_str_eq(table_picture(second), "HH 8/22");
	kvmm_seq_destroy(first);
	cr_expect_eq(kvmm_seq_acquire(second), 2);
	hits = stat_of(pool).hit_blocks;
	prefill(second, 99);
	cr_expect_eq(stat_of(pool).hit_blocks - hits, 2);
	kvmm_seq_destroy(second);
}

/* For a prefix below there is no room: it is loaded when there is, and not computed. */
BELOW_TEST(a_prefix_waits_for_blocks_as_the_rest_does, 1, 18)
{
	kvmm_mut_t muts[6];

	cr_assert_eq(kvmm_alloc(pool, 6, muts), 0);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_str_eq(table_picture(seq), "H 4/18");
	cr_expect_leq(client_of(pool).refused, 2, "tried without need");
	cr_assert_eq(kvmm_free(pool, muts, 6), 0);
	cr_expect_eq(take_all(seq, 1), 4);
	cr_expect_str_eq(table_picture(seq), "HHHH. 16/18");
	expect_content(seq, 0);
}

Test(tier_seq, a_match_leaves_the_queue_with_what_was_found)
{
	struct kvmm_seq *seq;
	kvmm_mut_t muts[4];

	kvmm_seq_destroy(compute(pool, 0, 10));
	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	seq = waiting(0, 22);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_match(seq), 2);
	cr_expect_str_eq(table_picture(seq), "HH 8/22");
	cr_assert_eq(kvmm_free(pool, muts, 4), 0);
	cr_expect_str_eq(picture(pool), "AA......");
	kvmm_seq_destroy(seq);
}

Test(tier_seq, more_than_the_pool_has_is_not_waited_for)
{
	struct kvmm_seq *seq = waiting(0, 4 * NR_BLOCKS + 1);

	cr_expect_eq(kvmm_seq_acquire(seq), -ENOSPC);
	cr_expect_eq(info_of(seq).nr_missing, NR_BLOCKS + 1);
	cr_expect_str_eq(table_picture(seq), " 0/33");
	kvmm_seq_destroy(seq);
}

/* With its prefix it lacked 7 blocks; that is evicted while it waits, and it lacks all 9. */
Test(tier_seq, what_turns_out_to_be_more_than_the_pool_has_does_not_hold_up_the_queue)
{
	struct kvmm_seq *first, *second, *third;
	kvmm_mut_t muts[4];

	kvmm_seq_destroy(compute(pool, 0, 10));
	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	first = waiting(100, 22);
	second = waiting(0, 4 * NR_BLOCKS + 1);
	third = waiting(200, 6);
	cr_expect_eq(kvmm_seq_acquire(first), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(second), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_acquire(third), -EINPROGRESS);
	cr_expect_str_eq(picture(pool), "IIPPPP..");
	cr_assert_eq(kvmm_free(pool, muts, 2), 0);
	cr_expect_eq(kvmm_seq_acquire(first), 0);
	kvmm_seq_destroy(first);
	cr_expect_eq(kvmm_seq_acquire(third), -EINPROGRESS, "it is not its turn");
	cr_expect_eq(kvmm_seq_acquire(second), -ENOSPC);
	cr_expect_eq(info_of(second).why, KVMM_SEQ_NO_BLOCKS);
	cr_expect_eq(info_of(second).nr_missing, NR_BLOCKS + 1);
	cr_expect_eq(info_of(second).state, KVMM_SEQ_IDLE);
	cr_expect_eq(kvmm_seq_acquire(third), 0);
	kvmm_seq_destroy(third);
	kvmm_seq_destroy(second);
	cr_assert_eq(kvmm_free(pool, muts + 2, 2), 0);
}

/* Where all decide alike a sequence waits for as long as the pool is told. */
Test(tier_seq, a_deterministic_pool_has_the_time_that_it_is_told)
{
	struct kvmm_completions told = KVMM_COMPLETIONS_INIT;
	kvmm_mut_t all[NR_BLOCKS];
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	u32 prompt[4] = { 1, 2, 3, 4 };
	struct kvmm_pool *alike;
	struct kvmm_seq *seq;

	pool_attr.nr_blocks = NR_BLOCKS;
	pool_attr.policy = "lru";
	pool_attr.block_tokens = BLOCK_TOKENS;
	pool_attr.flags = KVMM_POOL_DETERMINISTIC;
	alike = make_pool_of(&pool_attr);
	attr.keys = ctx;
	attr.prompt = prompt;
	attr.nr_prompt = 4;
	attr.wait_ns = 1000;
	cr_assert_eq(kvmm_alloc(alike, NR_BLOCKS, all), 0);
	cr_assert_eq(kvmm_seq_create(alike, &attr, &seq), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	told.now_ns = 999;
	cr_assert_eq(kvmm_completions_set(alike, &told), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	told.now_ns = 1000;
	cr_assert_eq(kvmm_completions_set(alike, &told), 0);
	cr_expect_eq(kvmm_seq_acquire(seq), -ENOSPC);
	cr_assert_eq(kvmm_free(alike, all, NR_BLOCKS), 0);
	kvmm_seq_destroy(seq);
	end_pool(alike);
}

/* ---- each allocation, each call of the driver ---- */

/* @n-th allocation of the whole way fails: it is a miss, or refused without a trace. */
static bool take_without(u32 n, int whole)
{
	struct kvmm_seq *seq;
	bool failed;
	u64 live;
	int ret;

	send_below(0, 18, 1);
	seq = waiting(0, 26);
	live = fake.nr_live;
	fake_env_fail(&fake, n, false);
	ret = take_all(seq, whole);
	failed = fake_env_failed(&fake);
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_IDLE);
	if (ret < 0) {
		cr_expect(failed && ret == -ENOMEM, "allocation %u: %d", n, ret);
		cr_expect_str_eq(table_picture(seq), " 0/26");
		cr_expect_eq(fake.nr_live, live);
	} else {
		cr_expect(ret == 4 || (failed && ret == 1), "allocation %u: %d", n, ret);
		cr_expect_eq(info_of(seq).nr_blocks, whole ? 7 : ret);
		expect_content(seq, 0);
	}
	kvmm_seq_destroy(seq);
	cr_expect_eq(client_of(pool).nr_ops, 0);
	cr_expect_geq(kvmm_reset_cache(pool), 0);
	cr_expect_str_eq(picture(pool), "........");
	cr_expect_str_eq(tier_picture(tier), "................");
	cr_assert_eq(kvmm_validate(pool), 0);
	return failed;
}

Test(tier_seq, any_allocation_may_fail)
{
	for (int whole = 0; whole < 2; whole++) {
		u32 n = 1;

		while (take_without(n, whole))
			n++;
		cr_expect_gt(n, 3);
	}
}

/* Without memory for the ticket no block is waited for, and the hits are given back. */
Test(tier_seq, a_queue_without_memory_is_not_entered)
{
	kvmm_mut_t muts[NR_BLOCKS];
	struct kvmm_seq *seq = waiting(0, 18);
	u64 live;

	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS, muts), 0);
	live = fake.nr_live;
	fake_env_fail(&fake, 1, false);
	cr_expect_eq(kvmm_seq_acquire(seq), -ENOMEM);
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(fake.nr_live, live);
	cr_expect_eq(info_of(seq).state, KVMM_SEQ_IDLE);
	cr_expect_eq(kvmm_seq_acquire(seq), -EINPROGRESS);
	cr_expect_eq(kvmm_seq_release(seq), 0);
	cr_expect_eq(fake.nr_live, live);
	kvmm_seq_destroy(seq);
	cr_assert_eq(kvmm_free(pool, muts, NR_BLOCKS), 0);
}

/* ---- each call of the driver ---- */

TestSuite(tier_seq_soft, .init = fault_begin, .fini = fault_end);

static void make_soft(kvmm_stream_t *id)
{
	struct both both = both_of(NR_BLOCKS, NR_UNITS);

	start("");
	both.attr.device = both.host.device = "soft:0";
	both.client.batch_blocks = 2;
	make_as(&both);
	cr_assert_eq(kvmm_stream_add(pool, stream_new(), 0, id), 0);
	ctx = make_ctx(NULL);
}

/* In the end it has what arrived, and the time is over for the rest. */
static int take_by_steps(struct kvmm_seq *seq)
{
	int ret = -EINPROGRESS;

	for (u32 i = 0; i < 8 && ret == -EINPROGRESS; i++) {
		ret = kvmm_seq_acquire(seq);
		ctl->run();
	}
	fake_env_advance(&fake, WAIT_NS);
	return ret == -EINPROGRESS ? take_all(seq, 1) : ret;
}

/* Whether the failure came about. */
static bool take_with(u32 nth, kcu_result code, bool persistent)
{
	struct kvmm_seq *seq;
	kvmm_stream_t id;
	bool struck;
	u64 before;
	int ret;

	make_soft(&id);
	send_below(0, 18, 1);
	seq = waiting(0, 26);
	before = nr_calls();
	if (nth)
		cr_assert_eq(ctl->fail("*", nth, code, persistent, false), 0);
	ret = take_by_steps(seq);
	struck = nth && nr_calls() >= before + nth;
	ctl->fail_none();
	cr_expect_neq(info_of(seq).state, KVMM_SEQ_TAKING);
	cr_expect(ret == 4 || (struck && (ret == 1 || ret < 0)), "call %u: %d", nth, ret);
	cr_expect_eq(info_of(seq).nr_blocks, ret < 0 ? 0 : 7);
	if (!persistent)
		expect_content(seq, 0);
	kvmm_seq_destroy(seq);
	for (u32 i = 0; i < 8; i++) {
		kvmm_tier_poll(pool);
		ctl->run();
	}
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(client_of(pool).nr_ops, 0);
	/* Blocks that a lost device may still write are not given out again. */
	cr_expect(persistent || pool_is_idle(pool), "call %u: %s", nth, picture(pool));
	cr_expect_null(strpbrk(picture(pool), "PA"), "call %u: %s", nth, picture(pool));
	end_both(pool, tier);
	kvmm_key_ctx_destroy(ctx);
	ctl->reset("");
	kv_rcu_barrier();
	return struck;
}

TEST_CALL(tier_seq_soft, nothing_fails, cr_expect_not(take_with(0, KCU_E_SUCCESS, false)))

static void fail_each(kcu_result code, bool persistent)
{
	u32 nth = 1;

	while (take_with(nth, code, persistent))
		nth += test_stride();
	cr_expect_gt(nth, 3, "%u", nth);
}

TEST_CALL(tier_seq_soft, any_call_may_be_refused_once, fail_each(KCU_E_OUT_OF_MEMORY, false))
TEST_CALL(tier_seq_soft, any_call_may_be_refused_from_then_on, fail_each(KCU_E_INVALID_VALUE, true))
TEST_CALL(tier_seq_soft, the_device_may_be_lost_at_any_call, fail_each(KCU_E_LAUNCH_FAILED, true))
