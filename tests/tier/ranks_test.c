// SPDX-License-Identifier: Apache-2.0
/* Ranks whose devices end their work in different orders: what is told, and what comes of it. */
#include "pool/internal.h"
#include "ranks.h"

#define RANKS_TEST(name)								\
	TEST_ON(struct ranks, ranks,							\
		(*ranks = (struct ranks){ 0 }, ranks_begin(ranks, "", KVMM_TIER_EXPLICIT)), \
		ranks_end(ranks), ranks, name)

static struct kvmm_step_stat steps_of_rank(struct rank *rank)
{
	struct kvmm_step_stat stat;

	cr_assert_eq(kvmm_step_get_stat(rank->pool, &stat), 0);
	return stat;
}

/* "....aaaa....####": a sealed range between two holes, and no more room. */
static kvmm_range_t scatter(struct rank *rank)
{
	kvmm_range_t hole[2], range, rest;

	cr_assert_eq(kvmm_range_alloc(rank->pool, 4, KVMM_RUNS(1), &hole[0]), 0);
	cr_assert_eq(kvmm_range_alloc(rank->pool, 4, KVMM_RUNS(1), &range), 0);
	cr_assert_eq(kvmm_range_alloc(rank->pool, 4, KVMM_RUNS(1), &hole[1]), 0);
	cr_assert_eq(kvmm_range_alloc(rank->pool, RANK_BLOCKS - 12, KVMM_RUNS(1), &rest), 0);
	cr_assert_eq(kvmm_range_seal(rank->pool, range, 4), 0);
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_range_free(rank->pool, hole[i]), 0);
	return range;
}

static u32 start_of(struct rank *rank, kvmm_range_t range)
{
	struct kvmm_extent ext = { 0, 0 };

	cr_assert_eq(kvmm_range_extents(rank->pool, range, &ext, 1), 1);
	return ext.start;
}

/* Nothing of this rank's ends before that: what kvmm does comes behind the engine's work. */
static kcu_deviceptr hold_up(struct rank *rank)
{
	kcu_deviceptr word = dev_alloc(8);

	ok(cu.stream_write_value64(rank->stream, word, 0, 0));
	finish(rank->stream);
	ok(cu.stream_wait_value64(rank->stream, word, 1, 0));
	return word;
}

static void let_go(kcu_deviceptr word)
{
	kcu_stream stream = stream_new();

	ok(cu.stream_write_value64(stream, word, 1, 0));
	finish(stream);
	ctl->run();
}

static int compact(struct rank *rank, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 8 };

	return kvmm_compact_start(rank->pool, &goal, mode);
}

/* ---- moves ---- */

RANKS_TEST(a_move_takes_effect_when_it_is_told_not_when_it_is_complete)
{
	kvmm_range_t range;

	for each_rank(rank) {
		range = scatter(rank);
		cr_assert_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
	}
	ctl->run();
	for each_rank(rank) {
		cr_expect_eq(kvmm_compact_poll(rank->pool), 1);
		cr_expect_eq(start_of(rank, range), 4);
		cr_expect_eq(rank_found(rank).upto, 1);
	}
	ranks_agree(ranks);
	for each_rank(rank) {
		cr_expect_eq(start_of(rank, range), 4);
		cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
		cr_expect_neq(start_of(rank, range), 4);
	}
	ranks_expect_alike(ranks);
}

RANKS_TEST(an_old_place_is_free_when_the_end_of_the_step_is_told)
{
	struct kvmm_pool_stat stat;
	uint64_t epoch[NR_RANKS];
	u32 i = 0;

	for each_rank(rank) {
		scatter(rank);
		cr_assert_eq(kvmm_step_begin(rank->pool, rank->id, &epoch[i++]), 0);
		cr_assert_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
	}
	ctl->run();
	ranks_agree(ranks);
	i = 0;
	for each_rank(rank) {
		cr_expect_eq(kvmm_compact_poll(rank->pool), 1);
		cr_assert_eq(kvmm_step_end(rank->pool, rank->id, epoch[i++]), 0);
		ctl->run();
		cr_expect_eq(kvmm_compact_poll(rank->pool), 1, "the step has ended, but no rank was told");
		cr_expect_eq(steps_of_rank(rank).limbo_blocks, 4);
	}
	cr_expect_eq(ranks_agree(ranks).upto, 2);
	for each_rank(rank) {
		cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
		cr_expect_eq(steps_of_rank(rank).limbo_blocks, 0);
		cr_assert_eq(kvmm_pool_get_stat(rank->pool, &stat), 0);
		cr_expect_eq(stat.nr_free, 8);
	}
	ranks_expect_alike(ranks);
}

/* Submitted on both ranks, in vain on one: it is as if it had failed on both, later. */
RANKS_TEST(a_copy_that_fails_on_one_rank_has_failed_on_all)
{
	struct kvmm_completions all;
	kvmm_range_t range;

	for each_rank(rank) {
		range = scatter(rank);
		if (rank == ranks->of)
			cr_assert_eq(ctl->fail("cuEventRecord", 1, KCU_E_NOT_PERMITTED, true, false), 0);
		cr_expect_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
		ctl->fail_none();
	}
	ctl->run();
	cr_expect_eq(rank_found(&ranks->of[1]).failed[0], 0);
	all = ranks_agree(ranks);
	cr_expect_eq(all.upto, 1);
	cr_expect_eq(all.failed[0], 1);
	for each_rank(rank) {
		cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
		cr_expect_eq(start_of(rank, range), 4);
		cr_expect_eq(steps_of_rank(rank).failed_moves, 1);
	}
	ranks_expect_alike(ranks);
}

RANKS_TEST(a_rank_that_is_behind_is_told_again)
{
	struct kvmm_completions all, mine;
	struct rank *late = &ranks->of[1];
	kcu_deviceptr word = hold_up(late);

	for each_rank(rank) {
		scatter(rank);
		cr_assert_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
	}
	ctl->run();
	all = rank_found(&ranks->of[0]);
	cr_expect_eq(all.upto, 1);
	cr_assert_eq(kvmm_completions_set(ranks->of[0].pool, &all), 0);
	cr_expect_eq(kvmm_completions_set(late->pool, &all), -EAGAIN);
	mine = rank_found(late);
	cr_expect_eq(mine.base, 0);
	cr_expect_eq(mine.upto, 0);
	let_go(word);
	cr_expect_eq(kvmm_completions_set(late->pool, &all), 0);
	ranks_expect_alike(ranks);
}

RANKS_TEST(what_was_not_begun_or_told_before_is_refused)
{
	struct kvmm_completions told;
	struct rank *rank = ranks->of;

	scatter(rank);
	cr_assert_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
	ctl->run();
	told = rank_found(rank);
	told.upto = 2;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), -EINVAL);
	told.upto = 1;
	told.failed[0] = 2;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), -EINVAL);
	told.failed[0] = 0;
	told.base = 1;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), -ESTALE);
	cr_expect_eq(kvmm_completions_set(rank->pool, NULL), -EINVAL);
	told.base = 0;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), 0);
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), -ESTALE);
	cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
}

RANKS_TEST(a_failure_that_only_this_rank_knows_of_is_not_passed_over)
{
	struct rank *rank = ranks->of;
	struct kvmm_completions told;

	scatter(rank);
	cr_assert_eq(ctl->fail("cuEventRecord", 1, KCU_E_NOT_PERMITTED, true, false), 0);
	cr_assert_eq(compact(rank, KVMM_MOVE_BESIDE), 0);
	ctl->fail_none();
	told = rank_found(rank);
	cr_expect_eq(told.failed[0], 1);
	told.failed[0] = 0;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), -EIO);
	told.failed[0] = 1;
	cr_expect_eq(kvmm_completions_set(rank->pool, &told), 0);
	cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
}

/* ---- tiers ---- */

static kvmm_tier_op_t send_keys(struct rank *rank, u32 first, u32 nr)
{
	kvmm_ref_t refs[8];

	cr_assert_eq(kvmm_prefix_match(rank->pool, prefix_of(first, nr), refs), nr);
	cr_assert_eq(kvmm_put_many(rank->pool, refs, nr), 0);
	return begin_offload(rank->pool, refs, nr, KVMM_TIER_DROP);
}

/* Keys 1 to 4 are below alone, on all ranks. */
static void send_down_alike(struct ranks *ranks)
{
	for each_rank(rank) {
		cache_blocks(rank->pool, 1, 4);
		send_keys(rank, 1, 4);
		cr_assert_eq(kvmm_tier_poll(rank->pool), 4);
	}
	ctl->run();
	ranks_agree(ranks);
	for each_rank(rank) {
		cr_assert_eq(kvmm_tier_poll(rank->pool), 0);
		cr_assert_str_eq(answers(rank->pool, 1, 4), "1111");
	}
}

RANKS_TEST(a_copy_down_is_there_when_it_is_told)
{
	kvmm_tier_op_t op[NR_RANKS];
	u32 i = 0;

	for each_rank(rank) {
		cache_blocks(rank->pool, 1, 4);
		op[i++] = send_keys(rank, 1, 4);
		cr_assert_eq(kvmm_tier_poll(rank->pool), 4);
	}
	ctl->run();
	for each_rank(rank) {
		cr_expect_eq(kvmm_tier_poll(rank->pool), 4);
		cr_expect_str_eq(answers(rank->pool, 1, 4), "0000");
	}
	ranks_agree(ranks);
	i = 0;
	for each_rank(rank) {
		cr_expect_eq(kvmm_tier_poll(rank->pool), 0);
		cr_expect_eq(result_of(rank->pool, op[i++], 4, NULL), 0);
		cr_expect_str_eq(answers(rank->pool, 1, 4), "1111");
	}
	ranks_expect_alike(ranks);
}

RANKS_TEST(a_copy_that_is_wrong_on_one_rank_is_a_miss_on_all)
{
	kvmm_tier_op_t op[NR_RANKS];
	kvmm_ref_t refs[4];
	u32 i = 0;

	send_down_alike(ranks);
	tier_flip(ranks->of[1].tier, 2);
	for each_rank(rank)
		op[i++] = begin_load(rank->pool, 1, 4);
	ctl->run();
	cr_expect_eq(rank_found(&ranks->of[0]).failed[0], 0);
	cr_expect_eq(ranks_agree(ranks).failed[0], 1);
	i = 0;
	for each_rank(rank) {
		cr_expect_eq(kvmm_tier_poll(rank->pool), 0);
		cr_expect_eq(result_of(rank->pool, op[i++], 4, refs), -EBADMSG);
		cr_expect_str_eq(answers(rank->pool, 1, 4), "----");
	}
	ranks_expect_alike(ranks);
}

RANKS_TEST(what_is_right_on_all_ranks_comes_up)
{
	kvmm_tier_op_t op[NR_RANKS];
	kvmm_ref_t refs[NR_RANKS][4];
	u32 i = 0;

	send_down_alike(ranks);
	for each_rank(rank)
		op[i++] = begin_load(rank->pool, 1, 4);
	ctl->run();
	for each_rank(rank)
		cr_expect_eq(kvmm_tier_get_result(rank->pool, op[0], NULL), -EAGAIN);
	cr_expect_eq(ranks_agree(ranks).failed[0], 0);
	for (i = 0; i < NR_RANKS; i++) {
		cr_expect_eq(kvmm_tier_poll(ranks->of[i].pool), 0);
		cr_assert_eq(result_of(ranks->of[i].pool, op[i], 4, refs[i]), 0);
		for (u32 k = 0; k < 4; k++)
			cr_expect(has_content(ranks->of[i].pool, refs[i][k], 1 + k));
		cr_assert_eq(kvmm_put_many(ranks->of[i].pool, refs[i], 4), 0);
	}
	cr_expect_eq(memcmp(refs[0], refs[1], sizeof(refs[0])), 0);
	ranks_expect_alike(ranks);
}

/* ---- time ---- */

RANKS_TEST(a_budget_of_time_is_one_count_on_all_ranks)
{
	struct kvmm_completions told;

	for each_rank(rank) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 8,
					     .max_us = 5 };

		scatter(rank);
		told = rank_found(rank);
		told.block_ns = 2500;
		told.now_ns = 0;
		cr_assert_eq(kvmm_completions_set(rank->pool, &told), 0);
		cr_expect_eq(kvmm_pool_compact(rank->pool, &goal), -ENOSPC);
		cr_expect_eq(goal.moved, 0, "an extent of 4 does not go in 2 parts");
		goal.max_us = 10;
		cr_expect_eq(kvmm_pool_compact(rank->pool, &goal), 0);
		cr_expect_eq(goal.moved, 4);
		cr_expect_eq(goal.max_us, 10);
		cr_expect_eq(goal.max_blocks, 0);
	}
	ranks_expect_alike(ranks);
}

RANKS_TEST(background_work_goes_by_the_time_that_was_told)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	struct kvmm_background_stat stat;

	how.interval_ms = 10;
	how.request_blocks = 2;
	how.flags = KVMM_BACKGROUND_THREAD;
	for each_rank(rank) {
		how.flags = KVMM_BACKGROUND_THREAD;
		cr_expect_eq(kvmm_background_set(rank->pool, &how), -EOPNOTSUPP);
		how.flags = 0;
		cr_assert_eq(kvmm_background_set(rank->pool, &how), 0);
		for (u32 i = 0; i < 5; i++)
			cr_expect_eq(kvmm_background_tick(rank->pool), 0);
		cr_assert_eq(kvmm_background_get_stat(rank->pool, &stat), 0);
		cr_expect_eq(stat.checks, 1);
		for (u32 i = 1; i <= 20; i++) {
			struct kvmm_completions told = rank_found(rank);

			told.now_ns = i * 1000000;
			cr_assert_eq(kvmm_completions_set(rank->pool, &told), 0);
			kvmm_background_tick(rank->pool);
		}
		cr_assert_eq(kvmm_background_get_stat(rank->pool, &stat), 0);
		cr_expect_eq(stat.checks, 3);
	}
	ranks_expect_alike(ranks);
}

/* ---- memory that goes ---- */

RANKS_TEST(memory_goes_beside_steps_when_all_ranks_know_that_it_may)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 8 };

	for each_rank(rank) {
		scatter(rank);
		cr_assert_eq(kvmm_pool_shrink_start(rank->pool, &req, KVMM_MOVE_BESIDE), 0);
	}
	for (u32 i = 0; i < 4; i++) {
		ctl->run();
		for each_rank(rank)
			cr_expect_eq(kvmm_pool_shrink_poll(rank->pool, NULL), 1);
	}
	for (u32 i = 0; i < 2; i++) {
		ranks_agree(ranks);
		for each_rank(rank)
			kvmm_pool_shrink_poll(rank->pool, NULL);
		ranks_expect_alike(ranks);
	}
	for each_rank(rank) {
		struct kvmm_elastic_stat stat;

		cr_expect_eq(kvmm_pool_shrink_poll(rank->pool, NULL), 0);
		cr_assert_eq(kvmm_elastic_get_stat(rank->pool, &stat), 0);
		cr_expect_eq(stat.away_blocks, 8);
	}
}

/* ---- verified content ---- */

static struct kvmm_verify_stat verified_of(struct rank *rank)
{
	struct kvmm_verify_stat stat;

	cr_assert_eq(kvmm_verify_get_stat(rank->pool, &stat), 0);
	return stat;
}

static void tick_and_agree(struct ranks *ranks)
{
	for each_rank(rank)
		cr_assert_geq(kvmm_verify_tick(rank->pool), 0);
	ctl->run();
	ranks_agree(ranks);
	ranks_expect_alike(ranks);
}

/* Keys 1 to 8 are cached and summed. */
static void sum_alike(struct ranks *ranks)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };

	for each_rank(rank) {
		cr_assert_eq(kvmm_verify_set(rank->pool, &verify), 0);
		cache_blocks(rank->pool, 1, 8);
	}
	tick_and_agree(ranks);
	tick_and_agree(ranks);
	for each_rank(rank)
		cr_assert_eq(verified_of(rank).summed, 8);
}

RANKS_TEST(sums_count_when_they_are_told)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct rank *rank = ranks->of;

	cr_assert_eq(kvmm_verify_set(rank->pool, &verify), 0);
	cache_blocks(rank->pool, 1, 8);
	cr_assert_eq(kvmm_verify_tick(rank->pool), 0);
	ctl->run();
	cr_expect_eq(kvmm_verify_tick(rank->pool), 0, "complete, but not told");
	cr_expect_eq(verified_of(rank).summed, 0);
	cr_expect_eq(rank_found(rank).upto, 1);
	cr_expect_eq(kvmm_completions_set(rank->pool, &(struct kvmm_completions){
		.size = sizeof(struct kvmm_completions), .upto = 1 }), 0);
	cr_expect_eq(kvmm_verify_tick(rank->pool), 8);
	cr_expect_eq(verified_of(rank).summed, 8);
	cr_expect_eq(kvmm_validate(rank->pool), 0);
}

RANKS_TEST(a_block_that_is_wrong_on_one_rank_is_lost_on_all)
{
	struct rank *wrong = &ranks->of[1];
	kvmm_ref_t ref;

	sum_alike(ranks);
	for each_rank(rank) {
		cr_assert_eq(kvmm_prefix_match(rank->pool, prefix_of(3, 1), &ref), 1);
		if (rank == wrong)
			rank_flip(rank, kvmm_block_of_ref(rank->pool, ref));
		cr_assert_eq(kvmm_put(rank->pool, ref), 0);
	}
	for (u32 n = 0; n < 12; n++)
		tick_and_agree(ranks);
	for each_rank(rank) {
		cr_expect_str_eq(answers(rank->pool, 1, 8), "00------");
		cr_expect_str_eq(answers(rank->pool, 4, 5), "00000");
		cr_expect_eq(verified_of(rank).bad_blocks, 1);
		cr_expect_eq(verified_of(rank).pending, 0);
		cr_expect_eq(kvmm_validate(rank->pool), 0);
	}
}

RANKS_TEST(a_move_that_is_wrong_on_one_rank_is_made_on_none)
{
	struct rank *wrong = &ranks->of[1];
	kvmm_ref_t ref[8];
	u32 block[8];

	sum_alike(ranks);
	for each_rank(rank) {
		cr_assert_eq(kvmm_prefix_match(rank->pool, prefix_of(1, 8), ref), 8);
		for (u32 k = 1; k < 8; k += 2)
			cr_assert_eq(kvmm_set_reset(rank->pool, &ref[k], 1, 1), 0);
		for (u32 k = 0; k < 8; k++)
			block[k] = kvmm_block_of_ref(rank->pool, ref[k]);
		cr_assert_eq(kvmm_put_many(rank->pool, ref, 8), 0);
		cr_assert_eq(kvmm_compact_start(rank->pool, &(struct kvmm_compact){
			.size = sizeof(struct kvmm_compact), .want_run = 60 },
			KVMM_MOVE_BESIDE), 0);
		cr_expect_gt(steps_of_rank(rank).copying_blocks, 0);
	}
	for (u32 k = 0; k < 8; k += 2)
		rank_flip(wrong, block[k]);
	for (u32 n = 0; n < 3; n++) {
		ctl->run();
		ranks_agree(ranks);
	}
	for each_rank(rank) {
		cr_expect_eq(kvmm_compact_poll(rank->pool), 0);
		cr_expect_eq(steps_of_rank(rank).published_moves, 0);
		cr_expect_gt(verified_of(rank).pending, 0);
	}
	for (u32 n = 0; n < 12; n++)
		tick_and_agree(ranks);
	for each_rank(rank)
		for (u32 k = 1; k < 8; k += 2)
			cr_expect_str_eq(answers(rank->pool, k, 1), "-");
}

RANKS_TEST(blocks_that_are_asked_for_are_compared_by_the_next_ticks)
{
	kvmm_ref_t ref;

	sum_alike(ranks);
	for each_rank(rank) {
		cr_assert_eq(kvmm_prefix_match(rank->pool, prefix_of(4, 1), &ref), 1);
		if (rank == ranks->of)
			rank_flip(rank, kvmm_block_of_ref(rank->pool, ref));
		cr_expect_eq(kvmm_verify_blocks(rank->pool, &ref, 1), 1);
		cr_expect_eq(verified_of(rank).pending, 1);
		cr_assert_eq(kvmm_put(rank->pool, ref), 0);
	}
	for (u32 n = 0; n < 4; n++)
		tick_and_agree(ranks);
	for each_rank(rank)
		cr_expect_str_eq(answers(rank->pool, 1, 5), "000--");
}

RANKS_TEST(sums_that_one_rank_cannot_take_are_taken_again_on_all)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };

	for each_rank(rank) {
		cr_assert_eq(kvmm_verify_set(rank->pool, &verify), 0);
		cache_blocks(rank->pool, 1, 8);
		if (rank == ranks->of)
			cr_assert_eq(ctl->fail("cuEventRecord", 1, KCU_E_NOT_PERMITTED, true, false), 0);
		cr_assert_eq(kvmm_verify_tick(rank->pool), 0);
		ctl->fail_none();
	}
	ctl->run();
	cr_expect_eq(ranks_agree(ranks).failed[0], 1);
	for (u32 i = 0; i < 9; i++) {
		for each_rank(rank)
			cr_expect_eq(verified_of(rank).summed, i ? i - 1 : 0);
		tick_and_agree(ranks);
	}
	for each_rank(rank)
		cr_expect_eq(verified_of(rank).summed, 8);
}

/* Blocks that a job holds in place are let go by a reset, told or not. */
RANKS_TEST(a_reset_ends_what_was_not_told)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };

	for each_rank(rank) {
		cr_assert_eq(kvmm_verify_set(rank->pool, &verify), 0);
		cache_blocks(rank->pool, 1, 8);
		cr_assert_eq(kvmm_verify_tick(rank->pool), 0);
		if (rank == ranks->of)
			ctl->run();
		cr_assert_eq(kvmm_reset_cache(rank->pool), 8);
		cr_expect_eq(kvmm_validate(rank->pool), 0);
	}
	ctl->run();
	ranks_agree(ranks);
	ranks_expect_alike(ranks);
}

/* ---- what is not for ranks ---- */

Test(ranks, pools_without_ranks_are_told_nothing)
{
	struct kvmm_completions told = KVMM_COMPLETIONS_INIT;
	struct kvmm_pool *pool = make_cache(8, "lru");

	cr_expect_eq(kvmm_completions_get(pool, &told), -EOPNOTSUPP);
	cr_expect_eq(kvmm_completions_set(pool, &told), -EOPNOTSUPP);
	end_pool(pool);
}

/* ---- disks below ---- */

#define DISKS_TEST(name)								\
	TEST_ON(struct ranks, ranks, begin_with_disks(ranks), end_with_disks(ranks), ranks, name)

static void begin_with_disks(struct ranks *ranks)
{
	*ranks = (struct ranks){ 0 };
	ranks_make_disks(ranks, 8);
	ranks_begin(ranks, "", KVMM_TIER_EXPLICIT);
}

static void end_with_disks(struct ranks *ranks)
{
	ranks_end(ranks);
	ranks_remove_disks(ranks);
}

/* All say what they have, hear the same, and look what comes of it; their devices are through. */
static int agree_and_poll(struct ranks *ranks)
{
	int nr[NR_RANKS];

	ctl->run();
	ranks_agree(ranks);
	for (u32 i = 0; i < NR_RANKS; i++)
		nr[i] = kvmm_tier_poll(ranks->of[i].pool);
	cr_assert_geq(nr[0], 0);
	cr_assert_eq(nr[0], nr[1]);
	ranks_expect_alike(ranks);
	return nr[0];
}

/* Keys @first ... go down, and out of the device. */
static void push(struct ranks *ranks, u32 first, u32 nr)
{
	kvmm_tier_op_t op[NR_RANKS];
	u32 i = 0;

	for each_rank(rank) {
		cache_blocks(rank->pool, first, nr);
		op[i++] = send_keys(rank, first, nr);
	}
	while (agree_and_poll(ranks))
		;
	for (i = 0; i < NR_RANKS; i++)
		cr_assert_eq(result_of(ranks->of[i].pool, op[i], nr, NULL), 0);
}

/* Keys 1 to 4 are on the disks alone: others have their places in the tiers. */
static void put_on_disks(struct ranks *ranks)
{
	for (u32 first = 1; first < 40; first += 8)
		push(ranks, first, 8);
	for each_rank(rank)
		cr_assert_str_eq(answers(rank->pool, 1, 4), "2222");
}

static void begin_loads(struct ranks *ranks, kvmm_tier_op_t *op)
{
	for each_rank(rank)
		*op++ = begin_load(rank->pool, 1, 4);
}

/* As often as it takes to come from the disk, and from the host. */
static void end_loads(struct ranks *ranks, const kvmm_tier_op_t *op, int want)
{
	kvmm_ref_t refs[NR_RANKS][4];

	while (agree_and_poll(ranks))
		;
	for (u32 i = 0; i < NR_RANKS; i++) {
		struct kvmm_pool *pool = ranks->of[i].pool;

		cr_expect_eq(result_of(pool, op[i], 4, refs[i]), want);
		for (u32 k = 0; k < 4 && !want; k++)
			cr_expect(has_content(pool, refs[i][k], 1 + k));
		if (!want)
			cr_assert_eq(kvmm_put_many(pool, refs[i], 4), 0);
	}
	ranks_expect_alike(ranks);
}

DISKS_TEST(what_a_disk_has_is_found_when_all_ranks_were_told)
{
	kvmm_tier_op_t op[NR_RANKS];

	ranks->of[1].slowness = 30;
	put_on_disks(ranks);
	begin_loads(ranks, op);
	for each_rank(rank)
		cr_expect_str_eq(answers(rank->pool, 1, 4), "pppp");
	end_loads(ranks, op, 0);
	for each_rank(rank) {
		cr_expect_str_eq(answers(rank->pool, 1, 4), "0000");
		cr_expect_eq(client_of(rank->pool).disk_loads, 4);
	}
}

/* The first rank's disk is through with all of it, and that changes nothing. */
DISKS_TEST(a_disk_that_is_slow_is_waited_for_by_all)
{
	struct rank *slow = &ranks->of[1];
	kvmm_tier_op_t op[NR_RANKS];
	struct kvmm_completions told;

	put_on_disks(ranks);
	slow->slowness = UINT32_MAX;
	begin_loads(ranks, op);
	do {
		told = rank_found(ranks->of);
	} while (told.upto < told.base + 4);
	cr_expect_eq(kvmm_completions_set(slow->pool, &told), -EAGAIN);
	for (u32 i = 0; i < 3; i++)
		agree_and_poll(ranks);
	for each_rank(rank)
		cr_expect_str_eq(answers(rank->pool, 1, 4), "pppp");
	slow->slowness = 0;
	end_loads(ranks, op, 0);
}

DISKS_TEST(what_one_disk_has_lost_is_a_miss_on_all)
{
	struct kvmm_completions told;
	kvmm_tier_op_t op[NR_RANKS];

	put_on_disks(ranks);
	sim_disk_fail(&ranks->of[1].sim, 1, SIM_EIO, true);
	begin_loads(ranks, op);
	do {
		told = ranks_found(ranks);
	} while (told.upto < told.base + 4);
	cr_expect_eq(rank_found(&ranks->of[0]).failed[0], 0);
	cr_expect_neq(told.failed[0], 0);
	cr_expect_eq(kvmm_completions_set(ranks->of[1].pool, &(struct kvmm_completions){
		.size = sizeof(told), .base = told.base, .upto = told.upto }), -EIO);
	end_loads(ranks, op, -EBADMSG);
	for each_rank(rank)
		cr_expect_str_eq(answers(rank->pool, 1, 4), "----");
}

/* A write that fails on one rank leaves its block in the tiers of all, to be written again. */
DISKS_TEST(what_one_disk_has_not_written_is_on_none)
{
	for (u32 first = 1; first < 17; first += 8)
		push(ranks, first, 8);
	for each_rank(rank)
		cr_expect_str_eq(answers(rank->pool, 1, 4), "1111");
	sim_disk_fail(&ranks->of[0].sim, 1, SIM_EIO, true);
	push(ranks, 17, 4);
	for each_rank(rank) {
		cr_expect_gt(tier_of(rank->tier).below_failed, 0);
		cr_expect_eq(tier_of(rank->tier).below_failed,
			     tier_of(ranks->of[0].tier).below_failed);
	}
}

DISKS_TEST(what_is_forgotten_is_on_no_disk)
{
	put_on_disks(ranks);
	for each_rank(rank)
		cr_expect_eq(kvmm_tier_forget(rank->pool, prefix_of(2, 1)), 1);
	for each_rank(rank) {
		cr_expect_str_eq(answers(rank->pool, 1, 1), "2");
		cr_expect_str_eq(answers(rank->pool, 2, 1), "-");
		cr_expect_str_eq(answers(rank->pool, 3, 1), "2");
		cr_expect_eq(kvmm_reset_cache(rank->pool), 0);
		cr_expect_str_eq(answers(rank->pool, 1, 1), "-");
	}
	ranks_expect_alike(ranks);
}

DISKS_TEST(a_disk_is_below_one_pool_of_a_rank)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .policy = "lru",
				       .nr_blocks = RANK_BLOCKS, .nr_planes = 1,
				       .planes = &ranks->of[0].plane };
	struct kvmm_pool *other = make_pool_of(&attr);

	cr_expect_eq(kvmm_tier_attach(other, ranks->of[0].tier, NULL), -EOPNOTSUPP);
	kvmm_pool_destroy(other);
	attr.flags = KVMM_POOL_DETERMINISTIC;
	attr.seed = 7;
	other = make_pool_of(&attr);
	cr_expect_eq(kvmm_tier_attach(other, ranks->of[0].tier, NULL), -EUSERS);
	kvmm_pool_destroy(other);
	/* A pool whose copies are complete at once is not told when a disk is through. */
	attr.device = "host";
	other = make_pool_of(&attr);
	cr_expect_eq(kvmm_tier_attach(other, ranks->of[0].tier, NULL), -EOPNOTSUPP);
	kvmm_pool_destroy(other);
}

/* Another process: the disks have it, but no rank was told; and a name that none of them has. */
DISKS_TEST(after_a_restart_ranks_find_what_they_are_told_one_has_found)
{
	kvmm_tier_op_t op[NR_RANKS];

	put_on_disks(ranks);
	ranks_end(ranks);
	ranks_begin(ranks, "", KVMM_TIER_EXPLICIT);
	for each_rank(rank) {
		cr_expect_str_eq(answers(rank->pool, 1, 4), "----");
		cr_expect_eq(kvmm_tier_recall(rank->pool, prefix_of(1, 4)), 0);
		cr_expect_eq(kvmm_tier_recall(rank->pool, prefix_of(77, 1)), 0);
		cr_expect_eq(kvmm_tier_recall(rank->pool, NULL), -EINVAL);
		cr_expect_str_eq(answers(rank->pool, 1, 4), "2222");
		cr_expect_str_eq(answers(rank->pool, 77, 1), "2");
	}
	begin_loads(ranks, op);
	end_loads(ranks, op, 0);
	for (u32 i = 0; i < NR_RANKS; i++)
		op[i] = begin_load(ranks->of[i].pool, 77, 1);
	while (agree_and_poll(ranks))
		;
	for (u32 i = 0; i < NR_RANKS; i++) {
		cr_expect_eq(result_of(ranks->of[i].pool, op[i], 1, NULL), -EBADMSG);
		cr_expect_str_eq(answers(ranks->of[i].pool, 77, 1), "-");
	}
}

/* Writes that are under way when the pools go have failed on all; what was told stays. */
DISKS_TEST(a_pool_that_comes_back_finds_what_was_told_before)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	kvmm_tier_op_t op[NR_RANKS];

	put_on_disks(ranks);
	config.write = KVMM_TIER_EXPLICIT;
	client.config = &config;
	for each_rank(rank) {
		cr_assert_eq(kvmm_tier_detach(rank->pool), 0);
		cr_expect_geq(kvmm_tier_tick(rank->tier), 0);
		attach_as(rank->pool, rank->tier, &client);
		cr_expect_str_eq(answers(rank->pool, 1, 4), "2222");
	}
	begin_loads(ranks, op);
	end_loads(ranks, op, 0);
}

/* ---- what could not be wiped ---- */

#define NEW_CONTENT	100u	/* of a key with other weights, beyond its number */

/* As push(), with other content than under these keys before. */
static void push_new(struct ranks *ranks, u32 first, u32 nr)
{
	kvmm_tier_op_t op[NR_RANKS];
	u8 buf[RANK_BYTES];
	kvmm_ref_t refs[8];
	u32 i = 0;

	for each_rank(rank) {
		make_blocks(rank->pool, first, nr, refs);
		for (u32 k = 0; k < nr; k++) {
			int block = kvmm_block_of_ref(rank->pool, refs[k]);

			memset(buf, NEW_CONTENT + first + k, sizeof(buf));
			cr_assert_eq(kvmm_block_write(rank->pool, block, 0, buf, sizeof(buf)), 0);
		}
		cr_assert_eq(kvmm_put_many(rank->pool, refs, nr), 0);
		op[i++] = send_keys(rank, first, nr);
	}
	while (agree_and_poll(ranks))
		;
	for (i = 0; i < NR_RANKS; i++)
		cr_assert_eq(result_of(ranks->of[i].pool, op[i], nr, NULL), 0);
}

/* Keys 1 to 4 come from the disks. */
static void expect_new(struct ranks *ranks)
{
	kvmm_tier_op_t op[NR_RANKS];
	u8 buf[RANK_BYTES];
	kvmm_ref_t refs[4];

	for each_rank(rank)
		cr_assert_str_eq(answers(rank->pool, 1, 4), "2222");
	begin_loads(ranks, op);
	while (agree_and_poll(ranks))
		;
	for (u32 i = 0; i < NR_RANKS; i++) {
		struct kvmm_pool *pool = ranks->of[i].pool;

		cr_assert_eq(result_of(pool, op[i], 4, refs), 0);
		for (u32 k = 0; k < 4; k++) {
			int block = kvmm_block_of_ref(pool, refs[k]);

			cr_assert_eq(kvmm_block_read(pool, block, 0, buf, sizeof(buf)), 0);
			cr_expect_eq(buf[9], NEW_CONTENT + 1 + k, "rank %u, key %u", i, 1 + k);
		}
		cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
	}
}

/* Of one rank's disk; in the end all are started again, with other weights. */
static void wipe_twice(struct ranks *ranks, int (*wipe)(struct kvmm_pool *pool))
{
	for (u32 first = 1; first < 24; first += 8)
		push(ranks, first, 8);
	sim_disk_fail(&ranks->of[1].sim, 1, SIM_EIO, true);
	cr_expect_geq(wipe(ranks->of[0].pool), 0);
	cr_expect_eq(wipe(ranks->of[1].pool), -EIO, "the engine does not know of it");
	sim_disk_fail(&ranks->of[1].sim, 0, 0, false);
	ranks_expect_alike(ranks);
	for each_rank(rank) {
		cr_expect_str_eq(answers(rank->pool, 1, 1), "-");
		cr_expect_geq(wipe(rank->pool), 0);
	}
	ranks_end(ranks);
	ranks_begin(ranks, "", KVMM_TIER_EXPLICIT);
	for (u32 first = 1; first < 24; first += 8)
		push_new(ranks, first, 8);
	expect_new(ranks);
}

DISKS_TEST(a_disk_that_could_not_be_emptied_says_so_before_it_takes_old_records_for_new_ones)
{
	wipe_twice(ranks, kvmm_reset_cache);
}

static int forget_all(struct kvmm_pool *pool)
{
	return kvmm_tier_forget(pool, prefix_of(1, 24));
}

DISKS_TEST(a_disk_that_could_not_forget_says_so_before_it_takes_old_records_for_new_ones)
{
	wipe_twice(ranks, forget_all);
}
