// SPDX-License-Identifier: Apache-2.0
/* Moves on a device that takes its time: what the host does meanwhile, and what the driver refuses. */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/env.h>

#include "pool/internal.h"
#include "soft.h"

#define BYTES	256u

static struct kvmm_pool *make(u32 nr_blocks, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .nr_blocks = nr_blocks, .block_bytes = BYTES,
				       .policy = policy };
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	return pool;
}

static int start_moves(struct kvmm_pool *pool, u32 want, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = want };

	return kvmm_compact_start(pool, &goal, mode);
}

static struct kvmm_step_stat stat_of(struct kvmm_pool *pool)
{
	struct kvmm_step_stat stat;

	cr_assert_eq(kvmm_step_get_stat(pool, &stat), 0);
	return stat;
}

static void write_range(struct kvmm_pool *pool, kvmm_range_t range, u32 at, u8 value)
{
	u8 buf[BYTES];

	memset(buf, value, BYTES);
	cr_assert_eq(kvmm_range_write(pool, range, at, 0, buf, BYTES), 0);
}

static void expect_range(struct kvmm_pool *pool, kvmm_range_t range, u32 at, u8 value)
{
	u8 buf[BYTES];

	cr_assert_eq(kvmm_range_read(pool, range, at, 0, buf, BYTES), 0);
	cr_expect(all_bytes(buf, value, BYTES), "block %u: %u, not %u", at, buf[0], value);
}

/* "....aa..#...": a sealed range between holes, and one that stays. */
static struct kvmm_pool *one_range_of(const char *policy, kvmm_range_t *range)
{
	struct kvmm_pool *pool = make(12, policy);
	kvmm_range_t hole[2], last;

	cr_assert_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &hole[0]), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(1), range), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(1), &hole[1]), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 1, KVMM_RUNS(1), &last), 0);
	cr_assert_eq(kvmm_range_pin(pool, last), 0);
	cr_assert_eq(kvmm_range_free(pool, hole[0]), 0);
	cr_assert_eq(kvmm_range_free(pool, hole[1]), 0);
	for (u32 i = 0; i < 2; i++)
		write_range(pool, *range, i, 1 + i);
	cr_assert_eq(kvmm_range_seal(pool, *range, 2), 0);
	return pool;
}

static struct kvmm_pool *one_range(kvmm_range_t *range)
{
	return one_range_of(NULL, range);
}

static void end(struct kvmm_pool *pool)
{
	ctl->run();
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_destroy(pool);
}

Test(moves, a_write_by_handle_voids_the_copy_that_is_under_way)
{
	kvmm_range_t range;
	struct kvmm_pool *pool;

	start("");
	pool = one_range(&range);
	cr_assert_eq(start_moves(pool, 8, KVMM_MOVE_BESIDE), 0);
	write_range(pool, range, 1, 9);
	ctl->run();
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).void_moves, 1);
	cr_expect_eq(stat_of(pool).published_moves, 0);
	expect_range(pool, range, 0, 1);
	expect_range(pool, range, 1, 9);
	end(pool);
}

/* The new place is published while the device has yet to fill it. */
Test(moves, a_write_by_handle_comes_after_a_copy_that_is_published)
{
	kvmm_range_t range;
	struct kvmm_pool *pool;

	start("");
	pool = one_range(&range);
	cr_assert_eq(start_moves(pool, 8, KVMM_MOVE_BETWEEN), 0);
	cr_assert_eq(stat_of(pool).published_moves, 1);
	write_range(pool, range, 1, 9);
	ctl->run();
	expect_range(pool, range, 0, 1);
	expect_range(pool, range, 1, 9);
	cr_expect_eq(races(), 0, "%s", ctl->report(0));
	end(pool);
}

Test(moves, a_read_by_handle_comes_after_it_as_well)
{
	kvmm_range_t range;
	struct kvmm_pool *pool;

	start("");
	pool = one_range(&range);
	cr_assert_eq(start_moves(pool, 8, KVMM_MOVE_BETWEEN), 0);
	expect_range(pool, range, 1, 2);
	cr_expect_eq(races(), 0);
	end(pool);
}

/* Else its work would go on in places that somebody else is given. */
Test(moves, a_step_whose_end_is_not_recorded_is_still_open)
{
	kvmm_range_t range;
	struct kvmm_pool *pool;
	kcu_stream stream;
	kvmm_stream_t id;
	uint64_t epoch;

	start("");
	stream = stream_new();
	pool = one_range(&range);
	cr_assert_eq(kvmm_stream_add(pool, stream, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_assert_eq(start_moves(pool, 8, KVMM_MOVE_BESIDE), 0);
	ctl->run();
	kvmm_compact_poll(pool);
	cr_assert_eq(stat_of(pool).limbo_blocks, 2);

	cr_assert_eq(ctl->fail("cuEventRecord", 1, KCU_E_INVALID_VALUE, false, false), 0);
	cr_expect_eq(kvmm_step_end(pool, id, epoch), -EAGAIN);
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).nr_open, 1);
	cr_expect_eq(stat_of(pool).limbo_blocks, 2, "it may still read there");
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
	ctl->run();
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).limbo_blocks, 0);
	cr_expect_eq(kvmm_stream_del(pool, id), 0);
	end(pool);
}

/* ---- drivers that lack something ---- */

/* A pool on it is there or not; if it is then blocks move, and content with them. */
static void with_driver(const char *options, int expected)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .nr_blocks = 4,
				       .block_bytes = BYTES };
	struct kvmm_pool *pool = NULL;
	kvmm_range_t range;

	load(options);
	cr_assert_eq(kvmm_pool_create(&attr, &pool), expected, "%s", options);
	if (expected) {
		cr_expect_null(pool);
		cr_expect_eq(kvmm_pool_create(&attr, &pool), expected, "again");
		return;
	}
	kvmm_pool_destroy(pool);
	pool = one_range(&range);
	cr_expect_geq(start_moves(pool, 8, KVMM_MOVE_BESIDE), 0);
	ctl->run();
	kvmm_compact_poll(pool);
	for (u32 i = 0; i < 2; i++)
		expect_range(pool, range, i, 1 + i);
	end(pool);
}

TEST_CALL(moves, on_the_oldest_driver, with_driver("driver=11040", 0))

Test(moves, on_a_driver_without_virtual_memory_batches_and_peers)
{
	with_driver("missing=cuMemCreate,missing=cuMemcpyBatchAsync,missing=cuMemcpyBatchAsync_v2,"
		    "missing=cuMemcpyPeerAsync", 0);
}

TEST_CALL(moves, on_a_driver_whose_calls_are_found_by_asking_alone,
	  with_driver("hidden=cuEventRecord,hidden=cuStreamSynchronize,"
		      "hidden=cuMemcpyHtoDAsync_v2", 0))
TEST_CALL(moves, not_on_a_driver_without_events, with_driver("missing=cuEventRecord", -ENODEV))
TEST_CALL(moves, not_on_a_driver_that_is_too_old_for_the_system,
	  with_driver("fail=cuInit:1+:SYSTEM_DRIVER_MISMATCH", -ENODEV))

Test(moves, not_on_a_driver_that_is_not_there)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "cuda:0", .nr_blocks = 4,
				       .block_bytes = BYTES };
	struct kvmm_pool *pool = NULL;

	setenv("KVMM_CUDA_DRIVER", "./no-such-library.so", 1);
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENODEV);
	cr_expect_null(pool);
}

/* ---- private blocks whose copy fails ---- */

/* "P.P.P.P.", which is to become a run: false, it went well. */
static bool lose(u32 nth)
{
	struct kvmm_pool *pool;
	kvmm_mut_t all[8], mut[4];
	kvmm_staged_t staged;
	u32 nr_lost = 0;

	start("");
	pool = make(8, "lru");
	cr_assert_eq(kvmm_alloc(pool, 8, all), 0);
	for (u32 i = 0; i < 4; i++) {
		mut[i] = all[2 * i];
		cr_assert_eq(kvmm_free(pool, &all[2 * i + 1], 1), 0);
	}
	cr_assert_eq(kvmm_reset_inactive(pool), 0);
	cr_assert_eq(ctl->fail("*", nth, KCU_E_ILLEGAL_ADDRESS, false, true), 0);
	start_moves(pool, 4, KVMM_MOVE_BETWEEN);
	ctl->run();
	ctl->fail_none();
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < 4; i++) {
		kvmm_key_t key = { { i } };
		struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
		u32 block;
		int err = kvmm_blocks_of_muts(pool, &mut[i], 1, &block);

		nr_lost += err == -EIO;
		cr_expect_eq(kvmm_stage(pool, &prefix, &mut[i], &staged), err);
		if (err)
			cr_expect_eq(kvmm_free(pool, &mut[i], 1), 0);
	}
	cr_expect_eq(nr_lost, stat_of(pool).lost_blocks);
	cr_assert_eq(kvmm_alloc(pool, nr_lost, mut), 0);
	for (u32 i = 0; i < nr_lost; i++) {
		u32 block;

		cr_expect_eq(kvmm_blocks_of_muts(pool, &mut[i], 1, &block), 0, "it is another one");
	}
	kvmm_pool_destroy(pool);
	ctl->reset("");
	return nr_lost;
}

Test(moves, who_has_a_private_block_is_told_that_its_copy_failed)
{
	u32 nr = 0;

	for (u32 nth = 1; nth < 12; nth++)
		nr += lose(nth);
	cr_expect_gt(nr, 0);
}

/* The same, and content is read before anything else is asked: false, the move went well. */
static bool read_lost(u32 nth, kcu_result code, bool is_range)
{
	kvmm_mut_t all[8];
	kvmm_range_t range[8];
	struct kvmm_pool *pool;
	u32 nr_refused = 0;
	u8 buf[BYTES];

	start("");
	pool = make(8, "lru");
	for (u32 i = 0; i < 8 && is_range; i++)
		cr_assert_eq(kvmm_range_alloc(pool, 1, KVMM_RUNS(1), &range[i]), 0);
	if (!is_range)
		cr_assert_eq(kvmm_alloc(pool, 8, all), 0);
	for (u32 i = 0; i < 8; i++) {
		memset(buf, 0x31 + i, BYTES);
		cr_assert_eq(is_range ? kvmm_range_write(pool, range[i], 0, 0, buf, BYTES) :
			     kvmm_mut_write(pool, all[i], 0, buf, BYTES), 0);
		if (i % 2)
			cr_assert_eq(is_range ? kvmm_range_free(pool, range[i]) :
				     kvmm_free(pool, &all[i], 1), 0);
		else if (is_range)
			cr_assert_eq(kvmm_range_seal(pool, range[i], 1), 0);
	}
	cr_assert_eq(ctl->fail("*", nth, code, false, true), 0);
	start_moves(pool, 4, KVMM_MOVE_BETWEEN);
	ctl->fail_none();
	for (u32 i = 0; i < 8; i += 2) {
		int err = is_range ? kvmm_range_read(pool, range[i], 0, 0, buf, BYTES) :
			  kvmm_mut_read(pool, all[i], 0, buf, BYTES);

		nr_refused += err == -EIO;
		for (u32 b = 0; b < BYTES && !err; b++)
			cr_assert_eq(buf[b], 0x31 + i, "call %u, block %u", nth, i);
	}
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_destroy(pool);
	ctl->reset("");
	return nr_refused;
}

Test(moves, what_a_failed_copy_destroyed_is_not_read_before_the_copy_is_asked_about)
{
	u32 nr[2] = { 0 };

	for (u32 nth = 1; nth < 12; nth++)
		for (u32 is_range = 0; is_range < 2; is_range++)
			nr[is_range] += read_lost(nth, KCU_E_OUT_OF_MEMORY, is_range);
	cr_expect_gt(nr[0], 0);
	cr_expect_gt(nr[1], 0);
}

/* ---- checksums by the device ---- */

/* "A.A.A.A." */
static struct kvmm_pool *cached(kvmm_ref_t *ref)
{
	struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 1000 };
	struct kvmm_pool *pool = make(8, "lru");
	kvmm_mut_t mut[8];
	kvmm_key_t key[8];
	u8 buf[BYTES];

	cr_assert_eq(kvmm_verify_set(pool, &attr), 0);
	cr_assert_eq(kvmm_alloc(pool, 8, mut), 0);
	for (u32 i = 0; i < 8; i++) {
		key[i] = (kvmm_key_t){ { i } };
		memset(buf, 1 + i, BYTES);
		cr_assert_eq(kvmm_mut_write(pool, mut[i], 0, buf, BYTES), 0);
	}
	cr_assert_eq(kvmm_register(pool, mut, key, 8, ref), 0);
	for (u32 i = 1; i < 8; i += 2) {
		cr_assert_eq(kvmm_set_reset(pool, &ref[i], 1, 1), 0);
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
	}
	return pool;
}

static struct kvmm_verify_stat verified(struct kvmm_pool *pool)
{
	struct kvmm_verify_stat stat;

	cr_assert_eq(kvmm_verify_get_stat(pool, &stat), 0);
	return stat;
}

static void settle_sums(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 4; i++) {
		kvmm_verify_tick(pool);
		ctl->run();
	}
	kvmm_verify_tick(pool);
	ctl->run();
	kvmm_compact_poll(pool);
	cr_assert_eq(kvmm_validate(pool), 0);
}

static void end_cached(struct kvmm_pool *pool)
{
	cr_expect_eq(races(), 0, "%s", ctl->report(0));
	end(pool);
}

Test(moves, sums_are_taken_behind_the_writer)
{
	kvmm_ref_t ref[8];
	struct kvmm_pool *pool;
	kcu_stream stream;
	kvmm_stream_t id;
	uint64_t epoch;

	start("");
	stream = stream_new();
	pool = cached(ref);
	cr_assert_eq(kvmm_stream_add(pool, stream, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_verify_tick(pool), 0, "the device has not begun");
	cr_expect_eq(verified(pool).sums, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	ctl->run();
	cr_expect_gt(kvmm_verify_tick(pool), 0);
	cr_expect_eq(verified(pool).summed, 4);
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
	settle_sums(pool);
	cr_expect_eq(kvmm_stream_del(pool, id), 0);
	end_cached(pool);
}

Test(moves, copies_are_published_when_their_sums_are_right)
{
	kvmm_ref_t ref[8];
	struct kvmm_pool *pool;
	u64 checks;

	start("");
	pool = cached(ref);
	settle_sums(pool);
	checks = verified(pool).checks;
	cr_assert_eq(start_moves(pool, 3, KVMM_MOVE_BESIDE), 0);
	for (u32 i = 0; i < 3; i++) {
		ctl->run();
		kvmm_compact_poll(pool);
	}
	cr_expect_eq(stat_of(pool).published_moves, 1);
	cr_expect_eq(verified(pool).checks, checks + 1);
	cr_expect_eq(verified(pool).bad_copies, 0);
	end_cached(pool);
}

Test(moves, a_sum_under_way_can_be_cancelled)
{
	kvmm_ref_t ref[8];
	struct kvmm_pool *pool;

	start("");
	pool = cached(ref);
	settle_sums(pool);
	cr_assert_eq(start_moves(pool, 3, KVMM_MOVE_BESIDE), 0);
	ctl->run();
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_compact_cancel(pool), 1);
	settle_sums(pool);
	cr_assert_eq(start_moves(pool, 3, KVMM_MOVE_BESIDE), 0, "the device can sum again");
	for (u32 i = 0; i < 3; i++) {
		ctl->run();
		kvmm_compact_poll(pool);
	}
	cr_expect_eq(stat_of(pool).published_moves, 1);
	end_cached(pool);
}

/* "A.A.A.A.", inactive, and a tick has begun to look at them behind work that has yet to be done. */
static struct kvmm_pool *looked_at(void)
{
	struct kvmm_pool *pool;
	kvmm_ref_t ref[8];

	start("");
	pool = cached(ref);
	for (u32 i = 0; i < 8; i += 2)
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
	cr_assert_eq(kvmm_verify_tick(pool), 0);
	cr_assert_eq(verified(pool).sums, 0);
	return pool;
}

static u32 nr_found(struct kvmm_pool *pool)
{
	u32 nr = 0;

	for (u32 i = 0; i < 8; i++)
		nr += kvmm_match_len(pool, &(kvmm_key_t){ { i } }, 1);
	return nr;
}

Test(moves, blocks_that_are_looked_at_are_forgotten_by_a_reset)
{
	int (*const reset[])(struct kvmm_pool *) = { kvmm_reset_cache, kvmm_reset_inactive };

	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool *pool = looked_at();

		cr_expect_eq(nr_found(pool), 4);
		cr_expect_eq(reset[i](pool), 4);
		cr_expect_eq(nr_found(pool), 0);
		settle_sums(pool);
		cr_expect_eq(nr_found(pool), 0);
		end_cached(pool);
		ctl->reset("");
	}
}

Test(moves, blocks_on_the_move_are_forgotten_by_a_reset)
{
	struct kvmm_pool *pool = looked_at();

	settle_sums(pool);
	cr_assert_eq(start_moves(pool, 3, KVMM_MOVE_BESIDE), 0);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 4);
	cr_expect_eq(nr_found(pool), 0);
	end_cached(pool);
}

Test(moves, blocks_that_were_looked_at_can_be_had_without_a_tick)
{
	struct kvmm_pool *pool = looked_at();
	kvmm_mut_t mut[8];

	ctl->run();
	cr_expect_eq(kvmm_alloc(pool, 8, mut), 0);
	cr_expect_eq(verified(pool).sums, 4);
	cr_expect_eq(kvmm_free(pool, mut, 8), 0);
	end_cached(pool);
}

Test(moves, a_block_found_wrong_while_it_is_looked_at_gets_no_new_sum)
{
	struct kvmm_verify_stat before, now;
	struct kvmm_pool *pool;
	kvmm_ref_t ref[8];
	u8 buf[BYTES] = { 0 };
	u32 block;

	start("");
	pool = cached(ref);
	settle_sums(pool);
	cr_assert_eq(kvmm_blocks_of_refs(pool, &ref[0], 1, &block), 0);
	cr_assert_eq(kvmm_block_write(pool, block, 0, buf, BYTES), 0);
	before = verified(pool);
	cr_assert_eq(kvmm_verify_tick(pool), 0, "the device has not begun");
	cr_expect_eq(kvmm_verify_blocks(pool, &ref[0], 1), -EIO);
	ctl->run();
	cr_expect_gt(kvmm_verify_tick(pool), 0);
	now = verified(pool);
	cr_expect_eq(now.bad_blocks, before.bad_blocks + 1);
	cr_expect_eq(now.sums, before.sums);
	cr_expect_eq(now.summed, 3);
	settle_sums(pool);
	end_cached(pool);
}

/* Any call fails once: content that is found is right, and nothing is stuck. */
static void sum_with_failure(u32 nth)
{
	struct kvmm_pool *pool;
	kvmm_ref_t ref[8];

	start("");
	pool = cached(ref);
	cr_assert_eq(ctl->fail("*", nth, KCU_E_INVALID_VALUE, false, false), 0);
	for (u32 i = 0; i < 3; i++) {
		kvmm_verify_tick(pool);
		start_moves(pool, 3 + i, i % 2 ? KVMM_MOVE_BETWEEN : KVMM_MOVE_BESIDE);
		ctl->run();
		kvmm_compact_poll(pool);
		ctl->run();
		kvmm_compact_poll(pool);
	}
	ctl->fail_none();
	settle_sums(pool);
	cr_expect_eq(verified(pool).pending, 0, "call %u", nth);
	for (u32 i = 0; i < 8; i += 2) {
		u32 block;
		u8 buf[BYTES];

		if (kvmm_blocks_of_refs(pool, &ref[i], 1, &block))
			continue;
		cr_assert_eq(kvmm_block_read(pool, block, 0, buf, BYTES), 0);
		cr_expect(all_bytes(buf, 1 + i, BYTES), "call %u", nth);
	}
	end_cached(pool);
	ctl->reset("");
}

Test(moves, any_call_may_be_refused_once_while_content_is_verified)
{
	u32 nth = 1;

	while (nth < 120)
		sum_with_failure(nth++);
}

/* ---- places that moves have left, for requests that take any blocks ---- */

/* All is taken but the old places of two blocks that are being moved. */
static struct kvmm_pool *full_but_for_moves(void)
{
	struct kvmm_pool *pool;
	kvmm_range_t range;
	kvmm_mut_t mut[7];

	start("");
	pool = one_range_of("lru", &range);
	cr_assert_eq(start_moves(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_assert_eq(ctl->fail("cuEventQuery", 1, KCU_E_NOT_READY, true, false), 0);
	cr_assert_eq(kvmm_alloc(pool, 7, mut), 0);
	return pool;
}

static void end_copies(void)
{
	ctl->fail_none();
	ctl->run();
}

/* Only what a thread waits for takes time: a busy machine makes no deadline pass. */
static u64 now_ns;

static u64 time_waited(void *ctx)
{
	return now_ns;
}

static void end_copies_and_wait(void *ctx, u32 *word, u32 old, u64 ns)
{
	end_copies();
	now_ns += ns;
}

Test(moves, a_thread_that_waits_has_the_places_once_the_copies_have_ended)
{
	struct kvmm_pool *pool = full_but_for_moves();
	struct kvmm_alloc_ctl want = { .size = sizeof(want), .nr = 2, .flags = KVMM_ALLOC_RELATIVE,
				       .deadline_ns = 200000000ull };
	struct kv_env_ops env = kv_env_system;
	kvmm_mut_t mut[2];

	now_ns = kv_clock_ns();
	env.clock_ns = time_waited;
	env.wait = end_copies_and_wait;
	kv_env_set(&env);
	cr_expect_eq(kvmm_alloc_as(pool, &want, mut), 0);
	kv_env_set(NULL);
	end(pool);
}

Test(moves, a_ticket_has_the_places_once_the_copies_have_ended)
{
	struct kvmm_pool *pool = full_but_for_moves();
	struct kvmm_alloc_ctl want = { .size = sizeof(want), .nr = 2, .deadline_ns = UINT64_MAX };
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[2];

	cr_assert_eq(kvmm_alloc_submit(pool, &want, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	end_copies();
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	end(pool);
}

/* The driver is the parent's: no call in the child asks it anything. */
Test(moves, a_child_leaves_the_copies_of_its_parent_alone)
{
	struct kvmm_pool *pool = full_but_for_moves();
	int status;
	pid_t child;

	end_copies();
	child = fork();
	cr_assert_geq(child, 0);
	if (!child) {
		kvmm_mut_t mut[2];
		bool refused = kvmm_alloc(pool, 2, mut) == -ECHILD;

		_exit(refused && !pool->blind ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
	end(pool);
}
