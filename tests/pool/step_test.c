// SPDX-License-Identifier: Apache-2.0
/* Steps, and blocks that move beside or between them. A dark block, which is nobody's, shows as '.'. */
#include "tests/pool/step_util.h"
#include "tests/support/fault.h"

#define NO_STREAM	((void *)0)

static kvmm_stream_t add_stream(struct kvmm_pool *pool, u32 flags)
{
	kvmm_stream_t id = { 0, 0 };

	cr_assert_eq(kvmm_stream_add(pool, NO_STREAM, flags, &id), 0);
	return id;
}

static u64 begin(struct kvmm_pool *pool, kvmm_stream_t id)
{
	uint64_t epoch = 0;

	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	return epoch;
}

static void end(struct kvmm_pool *pool, kvmm_stream_t id, u64 epoch)
{
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
}

static u32 largest(struct kvmm_pool *pool)
{
	return stat_of(pool).largest;
}

/* ---- epochs ---- */

POOL_TEST(step, old_places_are_kept_until_the_steps_that_saw_them_have_ended, scattered())
{
	kvmm_stream_t old = add_stream(pool, 0), young = add_stream(pool, 0);
	u64 before = begin(pool, old), after;

	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	after = begin(pool, young);
	cr_expect_gt(after, before);
	cr_expect_eq(steps_of_pool(pool).limbo_blocks, 2);
	cr_expect_eq(largest(pool), 2, "it was free before the first step ended");
	cr_expect_eq(kvmm_validate(pool), 0);
	end(pool, young, after);
	cr_expect_eq(kvmm_compact_poll(pool), 1);
	end(pool, old, before);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_eq(steps_of_pool(pool).limbo_blocks, 0);
	cr_expect_geq(largest(pool), 5);
	expect_content(pool);
}

POOL_TEST(step, without_steps_old_places_are_free_at_once, scattered())
{
	kvmm_range_t got;

	cr_expect_eq(start(pool, 6, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &got), 0);
	expect_content(pool);
}

POOL_TEST(step, a_new_step_is_told_the_new_places, scattered())
{
	kvmm_stream_t id = add_stream(pool, 0);
	struct kvmm_extent old[4][2], now[2];
	u32 nr_moved = 0;
	u64 epoch = begin(pool, id);

	for (u32 i = 0; i < 4; i++)
		kvmm_range_extents(pool, range[i], old[i], 2);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	end(pool, id, epoch);
	epoch = begin(pool, id);
	for (u32 i = 0; i < 4; i++) {
		kvmm_range_extents(pool, range[i], now, 2);
		nr_moved += now[0].start != old[i][0].start;
	}
	cr_expect_eq(nr_moved, 1);
	end(pool, id, epoch);
}

POOL_TEST(step, misuse_is_refused, make_pool(4))
{
	kvmm_stream_t id, made_up = { 3, 1 };
	uint64_t epoch;

	cr_expect_eq(kvmm_step_begin(pool, made_up, &epoch), -EINVAL);
	id = add_stream(pool, 0);
	cr_expect_eq(kvmm_step_end(pool, id, 1), -EINVAL);
	epoch = begin(pool, id);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -EBUSY);
	cr_expect_eq(kvmm_step_end(pool, id, epoch + 1), -EINVAL);
	cr_expect_eq(kvmm_stream_del(pool, id), -EBUSY);
	end(pool, id, epoch);
	cr_expect_eq(kvmm_relocations(pool, id, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_stream_del(pool, id), 0);
	cr_expect_eq(kvmm_stream_del(pool, id), -ESTALE);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -ESTALE);
	cr_expect_eq(kvmm_pool_resume(pool), -EINVAL);
	cr_expect_eq(start(pool, 0, KVMM_MOVE_BESIDE), -EINVAL);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), -EINVAL);
	cr_expect_eq(start(pool, 2, KVMM_NR_MOVE_MODES), -EINVAL);
}

POOL_TEST(step, there_is_room_for_so_many_streams, make_pool(4))
{
	kvmm_stream_t id;

	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++)
		add_stream(pool, 0);
	cr_expect_eq(kvmm_stream_add(pool, NO_STREAM, 0, &id), -EUSERS);
	cr_expect_eq(steps_of_pool(pool).nr_streams, KVMM_MAX_STREAMS);
}

/* ---- what may move when ---- */

POOL_TEST(step, what_may_be_written_stays_while_steps_run, make_pool(16))
{
	kvmm_stream_t id = add_stream(pool, 0);
	u64 epoch;

	paint(pool, "aa..bb..cc..dd..", range);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), -ENOSPC);
	epoch = begin(pool, id);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BETWEEN), -EBUSY);
	end(pool, id, epoch);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BETWEEN), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_geq(largest(pool), 5);
}

POOL_TEST(step, an_extent_moves_only_when_all_of_it_is_sealed, make_pool(12))
{
	paint(pool, "aa..bbb..cc.", range);
	cr_expect_eq(kvmm_range_seal(pool, range[1], 4), -EINVAL);
	cr_expect_eq(kvmm_range_seal(pool, range[1], 2), 0);
	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_expect_eq(kvmm_range_seal(pool, range[2], 2), 0);
	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_eq(strncmp(picture(pool) + 4, "bbb", 3), 0);
}

POOL_TEST(step, seals_follow_their_blocks, make_pool(16))
{
	kvmm_range_t tail;

	paint(pool, "aaaaaa..........", range);
	cr_expect_eq(kvmm_range_seal(pool, range[0], 4), 0);
	cr_expect_eq(kvmm_range_split(pool, range[0], 3, &tail), 0);
	cr_expect_eq(kvmm_range_shrink_front(pool, range[0], 1), 0);
	/* 2 sealed of 2, then 1 sealed of 3, which stays. */
	cr_expect_eq(start(pool, 12, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_expect_eq(kvmm_range_shrink(pool, tail, 2), 0);
	cr_expect_eq(start(pool, 12, KVMM_MOVE_BESIDE), 0);
}

POOL_TEST(step, what_is_pinned_stays, scattered())
{
	kvmm_range_pin(pool, range[1]);
	kvmm_range_pin(pool, range[2]);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	kvmm_compact_poll(pool);
	cr_expect_eq(strncmp(picture(pool) + 4, "bb..cc", 6), 0);
	kvmm_range_unpin(pool, range[1]);
	kvmm_range_unpin(pool, range[2]);
	expect_content(pool);
}

static kvmm_ref_t ref[8];

/* Eight cached blocks, of which every second one is gone: "A.A.A.A.". */
static struct kvmm_pool *sparse_cache(void)
{
	struct kvmm_pool *pool = make_cache(8, "lru");

	register_keys(pool, 0, 8, ref);
	for (u32 i = 1; i < 8; i += 2) {
		cr_assert_eq(kvmm_set_reset(pool, &ref[i], 1, 1), 0);
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
	}
	cr_assert_str_eq(picture(pool), "A.A.A.A.");
	return pool;
}

/* The one of them that is on its way. */
static u32 find_moving(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 8; i += 2) {
		int err = kvmm_pin(pool, ref[i]);

		if (err == -EBUSY)
			return i;
		cr_assert_eq(err, 0);
		cr_assert_eq(kvmm_unpin(pool, ref[i]), 0);
	}
	cr_assert(false, "none is");
	return 8;
}

POOL_TEST(step, referenced_cached_blocks_move_beside_steps, sparse_cache())
{
	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_geq(largest(pool), 3);
	for (u32 i = 0; i < 8; i += 2) {
		int block = kvmm_block_of_ref(pool, ref[i]);

		cr_assert_geq(block, 0);
		cr_expect_eq(picture(pool)[block], 'A');
		cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	}
	cr_expect_eq(kvmm_reset_inactive(pool), 4);
}

/* ---- what happens meanwhile ---- */

POOL_TEST(step, a_cached_block_may_lose_its_last_reference_while_it_is_copied, sparse_cache())
{
	kvmm_key_t key;
	u32 i;

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	i = find_moving(pool);
	cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	key = key_of(i);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref[i]), 1);
	cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	for (u32 k = 0; k < 8; k += 2)
		cr_expect_eq(kvmm_put(pool, ref[k]), k == i ? -ESTALE : 0);
}

POOL_TEST(step, what_is_not_to_be_cached_goes_when_its_copy_ends, sparse_cache())
{
	u32 i;

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	i = find_moving(pool);
	cr_expect_eq(kvmm_set_reset(pool, &ref[i], 1, 1), 0);
	cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE], 3);
	cr_expect_eq(stat_of(pool).nr_free, 5);
}

POOL_TEST(step, what_is_forgotten_goes_when_its_copy_ends, sparse_cache())
{
	kvmm_key_t key;
	uint32_t block;
	u32 i;

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	i = find_moving(pool);
	block = kvmm_block_of_ref(pool, ref[i]);
	cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	key = key_of(i);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).nr_free, 5);
}

/* An evictor skips it, and would never come back to it. */
POOL_TEST(step, who_could_not_be_evicted_while_copied_can_be_afterwards, sparse_cache())
{
	struct kvmm_watermarks marks = { .high = 8 };
	struct kvmm_reclaim_args req = { .size = sizeof(req) };

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	for (u32 i = 0; i < 8; i += 2)
		cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_reclaim(pool, &req), -ENOSPC);
	cr_expect_eq(req.nr_evicted, 3);
	cr_expect_eq(steps_of_pool(pool).copying_blocks, 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 1);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(stat_of(pool).nr_free, 8);
}

static void change(struct kvmm_pool *pool, kvmm_range_t range, u32 how)
{
	kvmm_range_t tail;

	switch (how) {
	case 0:
		cr_expect_eq(kvmm_range_free(pool, range), 0);
		break;
	case 1:
		cr_expect_eq(kvmm_range_shrink(pool, range, 1), 0);
		break;
	case 2:
		cr_expect_eq(kvmm_range_shrink_front(pool, range, 1), 0);
		break;
	case 3:
		cr_expect_eq(kvmm_range_split(pool, range, 1, &tail), 0);
		break;
	case 4:
		cr_expect_eq(kvmm_range_grow(pool, range, 1), 0);
		break;
	default:
		cr_expect_eq(kvmm_range_pin(pool, range), 0);
		break;
	}
}

#define NR_CHANGES	6u

/* One of the four is on its way; whatever happens to it before it has a new place, it stays. */
Test(step, who_changes_while_it_is_copied_stays)
{
	for (u32 i = 0; i < 4 * NR_CHANGES; i++) {
		struct kvmm_pool *pool __cleanup(end_pool) = scattered();
		u32 how = i / 4, which = i % 4;

		cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
		change(pool, range[which], how);
		cr_expect_eq(kvmm_validate(pool), 0);
		cr_expect_eq(kvmm_compact_poll(pool), 0);
		for (u32 k = 0; k < 4; k++)
			cr_expect(k == which || has_pattern(pool, range[k], k));
		if (how == 5)
			cr_expect_eq(kvmm_range_unpin(pool, range[which]), 0);
	}
}

Test(step, what_is_given_back_while_it_is_copied_is_free_afterwards)
{
	u32 nr_void = 0;

	for (u32 which = 0; which < 4; which++) {
		kvmm_range_t got;
		struct kvmm_pool *pool __cleanup(end_pool) = scattered();

		cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
		cr_expect_eq(kvmm_range_free(pool, range[which]), 0);
		cr_expect_lt(stat_of(pool).nr_free, 10, "copied from, or to");
		kvmm_compact_poll(pool);
		cr_expect_eq(stat_of(pool).nr_free, 10);
		nr_void += steps_of_pool(pool).void_moves;
		cr_expect_eq(kvmm_range_alloc(pool, 10, 0, &got), 0);
	}
	cr_expect_eq(nr_void, 1);
}

POOL_TEST(step, cancelled_moves_leave_everything_as_it_was, scattered())
{
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_cancel(pool), 2);
	cr_expect_eq(kvmm_compact_cancel(pool), 0);
	cr_expect_str_eq(picture(pool), "aa..bb..cc..dd..");
	cr_expect_eq(stat_of(pool).nr_free, 8);
	cr_expect_eq(steps_of_pool(pool).cancelled_moves, 1);
	expect_content(pool);
}

/* Old places count as free once the moves have landed; a request that may wait looks for it. */
POOL_TEST(step, what_moves_would_free_is_worth_asking_for_again, scattered())
{
	const u32 as_is = KVMM_RUNS(8) | KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT;
	kvmm_range_t got;

	add_stream(pool, 0);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	cr_assert_lt(stat_of(pool).nr_free, 8);
	cr_expect_eq(kvmm_range_alloc(pool, 8, as_is | KVMM_ALLOC_NOWAIT, &got), -EAGAIN);
	cr_expect_eq(kvmm_range_alloc(pool, 9, as_is | KVMM_ALLOC_NOWAIT, &got), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 8, as_is, &got), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 1, as_is | KVMM_ALLOC_NOWAIT, &got), -ENOSPC);
}

/* ---- tables ---- */

POOL_TEST(step, relocations_are_told_in_order_and_old_places_kept_until_they_are_read, scattered())
{
	kvmm_stream_t id = add_stream(pool, KVMM_STREAM_TABLES);
	struct kvmm_relocation moves[4];
	struct kvmm_extent ext;
	u64 epoch = begin(pool, id);
	int nr;

	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 1);
	cr_expect_eq(kvmm_relocations_ack(pool, id, 1), -EBUSY);
	end(pool, id, epoch);
	end(pool, id, begin(pool, id));
	cr_expect_eq(kvmm_compact_poll(pool), 1, "the tables still say the old place");
	nr = kvmm_relocations(pool, id, moves, 4);
	cr_assert_eq(nr, 1);
	cr_expect_eq(moves[0].nr, 2);
	cr_expect_eq(kvmm_range_extents(pool, range[moves[0].from / 4], &ext, 1), 1);
	cr_expect_eq(ext.start, moves[0].to);
	cr_expect_eq(kvmm_relocations_ack(pool, id, 2), -EINVAL);
	cr_expect_eq(kvmm_relocations_ack(pool, id, 1), 0);
	cr_expect_eq(kvmm_relocations(pool, id, moves, 4), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
}

POOL_TEST(step, what_moved_between_steps_is_read_before_the_next_one, scattered())
{
	kvmm_stream_t id = add_stream(pool, KVMM_STREAM_TABLES);
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_relocation moves[8];
	uint64_t epoch;

	cr_expect_eq(start(pool, 5, KVMM_MOVE_BETWEEN), 0);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -EAGAIN);
	cr_expect_eq(kvmm_relocations_ack(pool, id, kvmm_relocations(pool, id, moves, 8)), 0);
	end(pool, id, begin(pool, id));
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -EAGAIN);
	cr_expect_eq(kvmm_relocations(pool, id, moves, 8), (int)goal.nr_moves);
	cr_expect_eq(kvmm_relocations_ack(pool, id, goal.nr_moves), 0);
	end(pool, id, begin(pool, id));
	expect_content(pool);
}

POOL_TEST(step, a_run_that_moves_by_less_than_its_length_is_told_as_one, make_pool(16))
{
	kvmm_stream_t id = add_stream(pool, KVMM_STREAM_TABLES);
	kvmm_range_t front = take(pool, 3, 0), run = take(pool, 10, 0);
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 6 };
	struct kvmm_relocation move;
	struct kvmm_extent ext;

	write_pattern(pool, run, 1);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_assert_eq(kvmm_relocations(pool, id, &move, 1), 1);
	cr_expect_eq(move.from, 3);
	cr_expect_eq(kvmm_range_extents(pool, run, &ext, 1), 1);
	cr_expect_eq(move.to, ext.start);
	cr_expect_lt(abs((int)move.to - 3), 10);
	cr_expect_eq(move.nr, 10);
	cr_expect(has_pattern(pool, run, 1));
	cr_expect_eq(kvmm_relocations_ack(pool, id, 1), 0);
}

/* @holder: by block, as tables would say it. How many moves it took. */
static u32 read_tables(struct kvmm_pool *pool, kvmm_stream_t id, u32 *holder)
{
	struct kvmm_relocation move;
	u32 nr = 0;

	for (; kvmm_relocations_next(pool, id, nr ? 1 : 0, &move, 1) > 0; nr++)
		memmove(&holder[move.to], &holder[move.from], move.nr * sizeof(*holder));
	return nr;
}

/* Every other block of 20,000 is free: packing them takes 5,000 moves. */
POOL_TEST(step, a_compaction_between_steps_tells_of_any_number_of_moves, make_pool(20000))
{
	kvmm_stream_t id = add_stream(pool, KVMM_STREAM_TABLES);
	kvmm_range_t *held = calloc(20000, sizeof(*held)), got;
	u32 *holder = calloc(20000, sizeof(*holder)), nr_wrong = 0;
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_extent ext;

	for (u32 i = 0; i < 20000; i++)
		held[i] = take(pool, 1, 0);
	for (u32 i = 0; i < 20000; i++) {
		holder[i] = i;
		if (i % 2)
			cr_assert_eq(kvmm_range_free(pool, held[i]), 0);
	}
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(stat_of(pool).largest, 10000);
	cr_expect_gt(goal.nr_moves, 4096);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EBUSY, "the tables have to be read first");
	cr_expect_gt(read_tables(pool, id, holder), 4096);
	for (u32 i = 0; i < 20000; i += 2) {
		cr_assert_eq(kvmm_range_extents(pool, held[i], &ext, 1), 1);
		nr_wrong += holder[ext.start] != i;
	}
	cr_expect_eq(nr_wrong, 0);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 10000, KVMM_RUNS(1), &got), 0);
	free(held);
	free(holder);
}

POOL_TEST(step, an_open_step_bars_stopping_the_world, scattered())
{
	kvmm_range_t got;
	kvmm_stream_t id = add_stream(pool, 0);
	struct kvmm_compact goal = { .size = sizeof(goal) };
	u64 epoch = begin(pool, id);

	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EBUSY);
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1), &got), -ENOSPC);
	end(pool, id, epoch);
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1), &got), 0);
	expect_content(pool);
}

/* ---- standing still ---- */

/* What is refused has done nothing: a copy that is under way is not ended for it. */
POOL_TEST(step, who_may_not_stop_the_world_does_not_cancel_copies_either, scattered())
{
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = 5 };
	kvmm_stream_t id = add_stream(pool, 0);
	u64 epoch = begin(pool, id);

	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_pool_compact(pool, &compact), -EBUSY);
	cr_expect_eq(steps_of_pool(pool).cancelled_moves, 0);
	end(pool, id, epoch);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_geq(largest(pool), 5);
	expect_content(pool);
	cr_expect_eq(kvmm_stream_del(pool, id), 0);
}

POOL_TEST(step, nothing_moves_in_a_quiescent_pool, scattered())
{
	struct kvmm_compact goal = { .size = sizeof(goal) };

	cr_expect_eq(kvmm_pool_quiesce(pool), 0);
	cr_expect_eq(kvmm_pool_quiesce(pool), 0);
	cr_expect_eq(kvmm_pool_resume(pool), 0);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), -EBUSY);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EBUSY);
	cr_expect_str_eq(picture(pool), "aa..bb..cc..dd..");
	cr_expect_eq(kvmm_pool_resume(pool), 0);
	cr_expect_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
}

Test(step, a_pool_that_could_not_be_made_quiescent_is_as_before)
{
	struct kvmm_pool_stat before, after;
	struct kvmm_pool *pool;

	fault_begin();
	pool = make_pool(16);
	before = stat_of(pool);
	expect_no_memory(kvmm_pool_quiesce(pool));
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_pool_resume(pool), -EINVAL);
	cr_expect_eq(kvmm_pool_quiesce(pool), 0);
	cr_expect_eq(kvmm_pool_resume(pool), 0);
	end_pool(pool);
	fault_end();
}

/* A move has two places until it has landed. */
POOL_TEST(step, moves_leave_what_is_promised, scattered())
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 7 };
	kvmm_promise_t promise;

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	cr_expect_eq(start(pool, 4, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_expect_str_eq(picture(pool), "aa..bb..cc..dd..");
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_promise_end(pool, promise), 7);
	ctl.nr = 4;
	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	cr_expect_eq(start(pool, 4, KVMM_MOVE_BESIDE), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_compact_cancel(pool), 2);
	cr_assert_eq(kvmm_promise_end(pool, promise), 4);
}

/* Nobody has made a step, or polled, since the copy ended. */
POOL_TEST(step, an_allocation_finds_what_a_finished_copy_has_left, sparse_cache())
{
	kvmm_mut_t mut[8];

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_alloc(pool, 4, mut), 0);
	cr_expect_eq(stat_of(pool).fail_nospc, 0);
}

POOL_TEST(step, so_does_a_request_with_keys, sparse_cache())
{
	kvmm_mut_t mut[8];
	struct kvmm_acquire_args req = { .nr_blocks = 4, .fresh = mut };

	cr_expect_eq(start(pool, 3, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
}

/* 'a' has been copied, but has no new place; two blocks are cached, 'c' stays, and none is free. */
static kvmm_range_t full_beside_a_copy(struct kvmm_pool *pool, u32 flags)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 2, .flags = KVMM_ALLOC_CONTIG };
	const kvmm_key_t key[2] = { key_of(1), key_of(2) };
	kvmm_range_t grows;
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[2];

	paint(pool, ".abbbbc..", range);
	cr_assert_eq(kvmm_range_seal(pool, range[0], 1), 0);
	cr_assert_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
	cr_assert_eq(kvmm_register(pool, mut, key, 2, ref), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_assert_eq(kvmm_range_free(pool, range['b' - 'a']), 0);
	cr_assert_str_eq(picture(pool), ".a....cII");
	cr_assert_eq(start(pool, 5, KVMM_MOVE_BESIDE), 0);
	grows = take(pool, 4, flags);
	cr_assert_eq(stat_of(pool).nr_free, 0);
	cr_assert_eq(steps_of_pool(pool).copying_blocks, 1);
	return grows;
}

POOL_TEST(step, growth_finds_what_a_finished_copy_has_left, make_cache(9, "lru"))
{
	kvmm_range_t grows = full_beside_a_copy(pool, 0);

	cr_expect_eq(kvmm_range_grow(pool, grows, 1), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 1);
	cr_expect_eq(stat_of(pool).evictions, 0);
}

POOL_TEST(step, growth_that_would_rather_fail_than_move_publishes_no_copy_but_for_a_refusal,
	  make_cache(9, "lru"))
{
	kvmm_range_t grows = full_beside_a_copy(pool, KVMM_ALLOC_NO_COMPACT);

	cr_expect_eq(kvmm_range_grow(pool, grows, 1), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 0);
	cr_expect_eq(stat_of(pool).evictions, 1);
	cr_expect_eq(kvmm_range_grow(pool, grows, 2), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 1);
	cr_expect_eq(stat_of(pool).evictions, 2);
	cr_expect_eq(kvmm_range_grow(pool, grows, 1), -ENOSPC);
}

static void limit_all(struct kvmm_pool *pool, u32 max)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	attr.max = max;
	cr_assert_eq(kvmm_tenant_set(pool, KVMM_TENANT_REST, &attr), 0);
}

/* Its limit takes two cached blocks in any case: with them alone it is refused for want of room. */
POOL_TEST(step, growth_within_a_limit_has_room_that_a_copy_left, make_cache(9, "lru"))
{
	kvmm_range_t grows = full_beside_a_copy(pool, KVMM_ALLOC_NO_COMPACT);

	limit_all(pool, 9);
	cr_expect_eq(kvmm_range_grow(pool, grows, 3), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 1);
	cr_expect_eq(stat_of(pool).evictions, 2);
}

POOL_TEST(step, growth_of_many_within_limits_has_room_that_a_copy_left, make_cache(9, "lru"))
{
	kvmm_range_t grows = full_beside_a_copy(pool, KVMM_ALLOC_NO_COMPACT);

	limit_all(pool, 9);
	cr_expect_eq(kvmm_range_grow_many(pool, (kvmm_range_t[]){ grows, grows, grows }, 3, 1), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 1);
	cr_expect_eq(stat_of(pool).evictions, 2);
}

POOL_TEST(step, growth_of_many_in_turn_publishes_no_copy_while_blocks_can_be_evicted,
	  make_cache(9, "lru"))
{
	kvmm_range_t grows = full_beside_a_copy(pool, KVMM_ALLOC_NO_COMPACT);

	limit_all(pool, KVMM_TENANT_NO_LIMIT);
	cr_expect_eq(kvmm_range_grow_many(pool, (kvmm_range_t[]){ grows, grows }, 2, 1), 0);
	cr_expect_eq(steps_of_pool(pool).published_blocks, 0);
	cr_expect_eq(stat_of(pool).evictions, 2);
}
