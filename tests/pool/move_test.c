// SPDX-License-Identifier: Apache-2.0
/* What moves: private and staged blocks between steps, and what is sealed of a range that grows. */
#include "tests/pool/step_util.h"
#include "tests/support/random.h"

static void write_block(struct kvmm_pool *pool, kvmm_mut_t mut, u8 value)
{
	u8 buf[TEST_BLOCK_BYTES];

	memset(buf, value, sizeof(buf));
	cr_assert_eq(kvmm_mut_write(pool, mut, 0, buf, sizeof(buf)), 0);
}

static void expect_block(struct kvmm_pool *pool, u32 block, u8 value)
{
	u8 buf[TEST_BLOCK_BYTES];

	cr_assert_eq(kvmm_block_read(pool, block, 0, buf, sizeof(buf)), 0);
	for (u32 i = 0; i < sizeof(buf); i++)
		cr_assert_eq(buf[i], value, "block %u, byte %u", block, i);
}

/* ---- single blocks ---- */

static kvmm_mut_t mut[4];
static kvmm_staged_t staged[2];

/* "P.P.P.P.", of which the last two are staged. */
static struct kvmm_pool *sparse(void)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	kvmm_key_t key[2] = { key_of(2), key_of(3) };
	struct kvmm_prefix prefix = { .keys = key, .nr = 2 };
	kvmm_mut_t all[8];

	cr_assert_eq(kvmm_alloc(pool, 8, all), 0);
	for (u32 i = 0; i < 4; i++) {
		mut[i] = all[2 * i];
		write_block(pool, mut[i], i + 1);
		cr_assert_eq(kvmm_free(pool, &all[2 * i + 1], 1), 0);
	}
	cr_assert_eq(kvmm_reset_inactive(pool), 0);	/* what is parked is free */
	cr_assert_eq(kvmm_stage(pool, &prefix, mut + 2, staged), 0);
	return pool;
}

POOL_TEST(move, private_and_staged_blocks_move_between_steps, sparse())
{
	kvmm_ref_t ref[2];
	u32 block[4];

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_expect_eq(start(pool, 4, KVMM_MOVE_BETWEEN), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_geq(stat_of(pool).largest, 4);
	cr_expect_geq(steps_of_pool(pool).published_blocks, 2);

	for (u32 i = 0; i < 4; i++)
		block[i] = i < 2 ? kvmm_block_of_mut(pool, mut[i]) : 0;
	cr_expect_eq(kvmm_publish(pool, &(struct kvmm_publish_args){ .staged = staged, .nr = 2,
							      .refs = ref }), 0);
	cr_expect_eq(kvmm_blocks_of_refs(pool, ref, 2, block + 2), 0);
	for (u32 i = 0; i < 4; i++)
		expect_block(pool, block[i], i + 1);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(move, what_private_blocks_have_moved_is_told, sparse())
{
	struct kvmm_relocation moves[4];
	kvmm_stream_t id;
	uint64_t epoch;
	u32 old[2], now[2];
	int nr;

	cr_assert_eq(kvmm_stream_add(pool, NULL, KVMM_STREAM_TABLES, &id), 0);
	for (u32 i = 0; i < 2; i++)
		old[i] = kvmm_block_of_mut(pool, mut[i]);
	cr_expect_eq(start(pool, 4, KVMM_MOVE_BETWEEN), 0);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -EAGAIN, "it may write what has moved");
	nr = kvmm_relocations(pool, id, moves, 4);
	cr_assert_gt(nr, 0);
	for (int i = 0; i < nr; i++)
		for (u32 k = 0; k < 2; k++)
			if (moves[i].from == old[k])
				old[k] = moves[i].to;
	for (u32 i = 0; i < 2; i++)
		now[i] = kvmm_block_of_mut(pool, mut[i]);
	cr_expect_eq(memcmp(old, now, sizeof(now)), 0);
	cr_expect_eq(kvmm_relocations_ack(pool, id, nr), 0);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
}

/* ---- ranges that grow ---- */

/* A range that grows, with a hole in front of it. */
static struct kvmm_pool *growing(void)
{
	struct kvmm_pool *pool = make_pool(16);
	kvmm_range_t front = take(pool, 4, 0);

	range[0] = take_seq(pool, 6, KVMM_ALLOC_GROWS, 'a');
	write_pattern(pool, range[0], 1);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_assert_str_eq(picture(pool), "....aaaaaa......");
	return pool;
}

POOL_TEST(move, a_growth_that_lacks_blocks_publishes_what_was_begun_beside_steps, make_pool(16))
{
	kvmm_range_t front = take(pool, 4, 0);
	struct kvmm_extent ext;

	range[0] = take_seq(pool, 6, KVMM_ALLOC_GROWS | KVMM_ALLOC_NO_COMPACT, 'a');
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_assert_eq(kvmm_range_seal(pool, range[0], 4), 0);
	cr_expect_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(steps_of_pool(pool).published_moves, 0);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 7), 0, "six would be free");
	cr_expect_eq(steps_of_pool(pool).published_moves, 1);
	cr_expect_gt(kvmm_range_extents(pool, range[0], &ext, 1), 0);
	cr_expect_neq(ext.start, 4);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(move, what_is_sealed_of_a_range_that_grows_moves_beside_steps, growing())
{
	struct kvmm_extent ext[4];

	cr_expect_eq(start(pool, 7, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_assert_eq(kvmm_range_seal(pool, range[0], 3), 0);
	cr_expect_eq(start(pool, 8, KVMM_MOVE_BESIDE), -ENOSPC, "the rest stays where it is");
	cr_assert_eq(kvmm_range_seal(pool, range[0], 4), 0);
	cr_expect_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 1), 0, "it goes on growing");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_eq(kvmm_range_extents(pool, range[0], ext, 4), 3, "its new block lies elsewhere");
	cr_expect_eq(ext[0].nr, 4);
	cr_expect_eq(ext[1].start, 8);
	cr_expect_eq(ext[1].nr, 2);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 1), 0);
	cr_expect(has_pattern(pool, range[0], 1));
}

POOL_TEST(move, one_run_by_contract_is_not_cut, make_pool(16))
{
	kvmm_range_t front = take(pool, 4, 0), one;

	one = take_seq(pool, 6, KVMM_ALLOC_GROWS | KVMM_ALLOC_CONTIG, 1);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_assert_eq(kvmm_range_seal(pool, one, 4), 0);
	cr_expect_eq(start(pool, 8, KVMM_MOVE_BESIDE), -ENOSPC);
}

/* ---- pace ---- */

/* "aaaa....bb..": four blocks are to move. */
static struct kvmm_pool *wide(void)
{
	struct kvmm_pool *pool = make_pool(16);

	paint(pool, "..aaaa..b.......", range);
	write_pattern(pool, range[0], 1);
	cr_assert_eq(kvmm_range_seal(pool, range[0], 4), 0);
	return pool;
}

static struct kvmm_pace_stat pace_of(struct kvmm_pool *pool)
{
	struct kvmm_pace_stat stat;

	cr_assert_eq(kvmm_pace_get_stat(pool, &stat), 0);
	return stat;
}

static void set_pace(struct kvmm_pool *pool, u64 bytes_per_ms, u64 bytes_per_step)
{
	struct kvmm_pace pace = { .size = sizeof(pace), .bytes_per_ms = bytes_per_ms,
				  .bytes_per_step = bytes_per_step, .groups = 8 };

	cr_assert_eq(kvmm_pace_set(pool, &pace), 0);
}

POOL_TEST(pace, a_step_bears_so_many_bytes, wide())
{
	uint64_t epoch, other_epoch;
	kvmm_stream_t id, other;
	u32 nr = 0;

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &other), 0);
	cr_assert_eq(kvmm_step_begin(pool, other, &other_epoch), 0);
	set_pace(pool, 0, TEST_BLOCK_BYTES);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_assert_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	for (; steps_of_pool(pool).copying_blocks; nr++) {
		cr_assert_eq(pace_of(pool).bytes, (nr + 1) * TEST_BLOCK_BYTES);
		cr_assert_eq(kvmm_validate(pool), 0);
		kvmm_compact_poll(pool);
		kvmm_compact_poll(pool);
		cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
		cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
		kvmm_compact_poll(pool);
		cr_assert_lt(nr, 10);
	}
	cr_expect_eq(pace_of(pool).bytes, 4 * TEST_BLOCK_BYTES);
	cr_expect_eq(pace_of(pool).portions, 4, "%u", (u32)pace_of(pool).portions);
	cr_expect_gt(pace_of(pool).denied, 0);
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
	cr_expect_eq(kvmm_step_end(pool, other, other_epoch), 0);
	kvmm_compact_poll(pool);
	cr_expect(has_pattern(pool, range[0], 1));
	cr_expect_geq(stat_of(pool).largest, 8);
}

POOL_TEST(pace, nobody_waits_for_a_limit_per_step_while_none_is_open, wide())
{
	set_pace(pool, 0, 1);
	cr_assert_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect(has_pattern(pool, range[0], 1));
}

POOL_TEST(pace, a_limit_can_be_lifted_while_something_waits_for_it, wide())
{
	set_pace(pool, 1, 0);
	cr_assert_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_expect_gt(kvmm_compact_poll(pool), 0, "a byte a millisecond: not yet");
	set_pace(pool, 0, 0);
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect(has_pattern(pool, range[0], 1));
}

POOL_TEST(pace, what_waits_for_its_turn_can_be_cancelled, wide())
{
	set_pace(pool, 1, 0);
	cr_assert_eq(start(pool, 8, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_cancel(pool), 4);
	cr_expect_eq(stat_of(pool).nr_free, 11);
	cr_expect(has_pattern(pool, range[0], 1));
	cr_expect_eq(start(pool, 8, KVMM_MOVE_BETWEEN), 0, "not limited");
	cr_expect_eq(kvmm_compact_poll(pool), 0);
}

POOL_TEST(pace, misuse_is_refused, make_pool(4))
{
	struct kvmm_pace pace = { .size = sizeof(pace), .bytes_per_ms = UINT64_MAX };

	cr_expect_eq(kvmm_pace_set(pool, &pace), -EINVAL);
	pace = (struct kvmm_pace){ .size = sizeof(pace), .reserved = 1 };
	cr_expect_eq(kvmm_pace_set(pool, &pace), -EINVAL);
	cr_expect_eq(kvmm_pace_set(NULL, &pace), -EINVAL);
	cr_expect_eq(kvmm_pace_get_stat(pool, NULL), -EINVAL);
}

/* ---- for somebody who needs a run ---- */

POOL_TEST(move, who_fails_beside_an_open_step_finds_the_run_later, scattered())
{
	kvmm_range_t got;
	kvmm_stream_t id;
	uint64_t epoch;

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &got), -ENOSPC);
	cr_expect_eq(steps_of_pool(pool).copying_blocks, 0, "it is not to move anything");
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_gt(steps_of_pool(pool).copying_blocks, 0);
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_gt(steps_of_pool(pool).limbo_blocks, 0, "the step may still read there");
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &got), 0);
	expect_content(pool);
}

/* Two streams: the engine is never between steps. */
POOL_TEST(move, what_cannot_be_made_is_not_planned_each_time, make_pool(16))
{
	kvmm_range_t got;
	struct kvmm_stay stay;
	kvmm_stream_t id;
	uint64_t epoch;
	u32 nr = 0;

	paint(pool, "aa..bb..cc..dd..", range);
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	for (u32 i = 0; i < 8; i++) {
		if (i == 1)
			cr_assert_eq(kvmm_range_pin(pool, range[0]), 0);
		cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1), &got), -ENOSPC);
		cr_assert_eq(kvmm_stay_last(pool, &stay), 0);
		nr += stay.blocks[KVMM_STAY_PIN_USER] != 0;
	}
	cr_expect_gt(nr, 0);
	cr_expect_lt(nr, 7, "the second look comes later");
	cr_assert_eq(kvmm_range_unpin(pool, range[0]), 0);
}

/* ---- a run for a request in a large pool ---- */

#define LARGE		(1u << 14)
#define MAX_PART	8192u	/* blocks that are looked at, if that will do */

static kvmm_range_t held[LARGE];
static u32 nr_held;

/* Full of ranges of 1 to 16 blocks, of which each second one is freed, in random order. */
static struct kvmm_pool *half_full(u32 nr_blocks)
{
	struct kvmm_pool *pool = make_pool(nr_blocks);
	u64 r = 20261128;	/* the seed */

	for (nr_held = 0; stat_of(pool).nr_free; nr_held++)
		held[nr_held] = take(pool, min(1 + any_of(&r, 16), stat_of(pool).nr_free), 0);
	for (u32 left = nr_held / 2; nr_held > left;) {
		u32 at = any_of(&r, nr_held);

		cr_assert_eq(kvmm_range_free(pool, held[at]), 0);
		held[at] = held[--nr_held];
	}
	for (u32 i = 0; i < nr_held; i++)
		write_pattern(pool, held[i], i);
	return pool;
}

static struct kvmm_stay what_was_seen(struct kvmm_pool *pool)
{
	struct kvmm_stay stay;

	cr_assert_eq(kvmm_stay_last(pool, &stay), 0);
	return stay;
}

static void expect_patterns(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < nr_held; i++)
		cr_assert(has_pattern(pool, held[i], i), "range %u", i);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(move, a_request_looks_at_a_part_of_a_large_pool, half_full(LARGE))
{
	for (u32 i = 0; i < 8; i++) {
		kvmm_range_t run;
		struct kvmm_stay stay;

		cr_assert_eq(kvmm_range_alloc(pool, 256, KVMM_RUNS(1), &run), 0, "%u", i);
		stay = what_was_seen(pool);
		cr_expect_leq(stay.movable + stay.staying, MAX_PART, "%u", i);
		cr_expect_eq(stay.staying, 0);
		expect_patterns(pool);
	}
	cr_expect_geq(stat_of(pool).moved_blocks, 8);
}

/* A part would be a half or more: the picture is hardly dearer, and the plans are better. */
POOL_TEST(move, a_request_looks_at_all_of_a_pool_that_is_not_large, half_full(8192))
{
	struct kvmm_stay stay;
	kvmm_range_t run;

	cr_assert_eq(kvmm_range_alloc(pool, 256, KVMM_RUNS(1), &run), 0);
	stay = what_was_seen(pool);
	cr_expect_eq(stay.movable + stay.staying, 8192 - 256 - stat_of(pool).nr_free);
	expect_patterns(pool);
}

POOL_TEST(move, a_request_looks_at_all_where_the_emptiest_part_stays, half_full(LARGE))
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	kvmm_range_t run, full;
	u32 nr_low = 0;

	/* All is pinned but the last 600 blocks. */
	for (u32 i = 0; i < nr_held; i++) {
		int nr = kvmm_range_extents(pool, held[i], ext, KVMM_MAX_RUNS);

		if (nr == 1 && ext[0].start + ext[0].nr >= LARGE - 600)
			continue;
		cr_assert_eq(kvmm_range_pin(pool, held[i]), 0);
		nr_low++;
	}
	cr_assert_gt(nr_low, 0);
	cr_assert_eq(kvmm_range_alloc(pool, 256, KVMM_RUNS(1), &run), 0);
	cr_expect_gt(what_was_seen(pool).staying, MAX_PART / 4);
	expect_patterns(pool);
	cr_expect_eq(kvmm_range_alloc(pool, 600, KVMM_RUNS(1), &full), -ENOSPC);
	expect_patterns(pool);
}

/* ---- beside the longer neighbour ---- */

/* "aabb............" once, when blocks were moved; then "xx......yyyy....". */
static struct kvmm_pool *has_compacted(void)
{
	struct kvmm_pool *pool = make_pool(16);
	kvmm_range_t all[4], hole;

	for (u32 i = 0; i < 4; i++)
		all[i] = take(pool, 4, KVMM_RUNS(1));
	cr_assert_eq(kvmm_range_free(pool, all[0]), 0);
	cr_assert_eq(kvmm_range_free(pool, all[2]), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &hole), 0);
	cr_assert_eq(stat_of(pool).compactions, 1);
	cr_assert_eq(kvmm_range_free(pool, hole), 0);
	cr_assert_eq(kvmm_range_free(pool, all[1]), 0);
	cr_assert_eq(kvmm_range_free(pool, all[3]), 0);
	range[0] = take_seq(pool, 2, KVMM_RUNS(4), 'x');
	hole = take(pool, 6, KVMM_RUNS(4));
	range[1] = take_seq(pool, 4, KVMM_RUNS(4), 'y');
	take_seq(pool, 4, KVMM_RUNS(4), 'z');
	cr_assert_eq(kvmm_range_free(pool, hole), 0);
	cr_assert_str_eq(picture(pool), "xx......yyyyzzzz");
	return pool;
}

POOL_TEST(move, one_run_lies_beside_the_longer_neighbour_where_blocks_are_moved, has_compacted())
{
	kvmm_range_t high = take_seq(pool, 2, KVMM_RUNS(1), 'h');

	cr_expect_str_eq(picture(pool), "xx....hhyyyyzzzz");
	cr_assert_eq(kvmm_range_free(pool, high), 0);
	high = take_seq(pool, 5, KVMM_ALLOC_CONTIG, 'c');
	cr_expect_str_eq(picture(pool), "xx.cccccyyyyzzzz");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_range_free(pool, high), 0);
	take_seq(pool, 6, KVMM_RUNS(1), 'f');
	cr_expect_str_eq(picture(pool), "xxffffffyyyyzzzz");
}

POOL_TEST(move, what_may_lie_in_several_runs_or_grows_has_room_behind_it, has_compacted())
{
	take_seq(pool, 2, KVMM_RUNS(2), 's');
	take_seq(pool, 1, KVMM_RUNS(1) | KVMM_ALLOC_GROWS, 'g');
	cr_expect_str_eq(picture(pool), "xxssg...yyyyzzzz");
}

POOL_TEST(move, the_lower_end_is_taken_where_the_longer_neighbour_is_there, has_compacted())
{
	cr_assert_eq(kvmm_range_shrink_front(pool, range[1], 3), 0);
	cr_assert_str_eq(picture(pool), "xx.........yzzzz");
	take_seq(pool, 3, KVMM_RUNS(1), 'l');
	cr_expect_str_eq(picture(pool), "xxlll......yzzzz");
}
