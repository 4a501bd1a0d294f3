// SPDX-License-Identifier: Apache-2.0
/* Moves on a device that takes its time: what the host does meanwhile, and what the driver refuses. */
#include <string.h>

#include <kvmm/kvmm.h>

#include "soft.h"

#define BYTES	256u

static struct kvmm_pool *make(u32 nr_blocks, const char *policy)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.device = "soft:0";
	attr.nr_blocks = nr_blocks;
	attr.block_bytes = BYTES;
	attr.policy = policy;
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

	cr_assert_eq(kvmm_step_stat(pool, &stat), 0);
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
static struct kvmm_pool *one_range(kvmm_range_t *range)
{
	struct kvmm_pool *pool = make(12, NULL);
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
