// SPDX-License-Identifier: Apache-2.0
/*
 * What happens around blocks while they are copied: extents that are joined meanwhile, callers who wait
 * for the run. Time stands still but for what a test lets pass; a limit of pace holds copies up.
 */
#include "tests/pool/step_util.h"
#include "tests/support/fault.h"

#define MS	1000000ull

TestSuite(flight, .init = fault_begin, .fini = fault_end);

static void set_pace(struct kvmm_pool *pool, u64 bytes_per_ms)
{
	const struct kvmm_pace pace = { .size = sizeof(pace), .bytes_per_ms = bytes_per_ms };

	cr_assert_eq(kvmm_pace_set(pool, &pace), 0);
}

static int gather(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct kvmm_compact_goal ask = { .size = sizeof(ask), .goal = KVMM_GOAL_GATHER,
					 .mode = KVMM_MOVE_BETWEEN, .range = range };
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

	return kvmm_compact_goal_start(pool, &ask, &plan);
}

static u32 nr_extents(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_extents(pool, range, NULL, 0);
}

/* A portion is submitted by one poll, and published by another. */
static void settle(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 8 && kvmm_compact_poll(pool); i++)
		;
	cr_assert_eq(kvmm_compact_poll(pool), 0);
}

/* ---- extents that are joined ---- */

/*
 * 'a' has two extents. The first one, which alone is sealed, is being copied to make a run of six, and
 * the copy waits for its credit. Meanwhile the second one comes to lie behind it.
 */
static struct kvmm_pool *joined_under_a_copy(void)
{
	struct kvmm_pool *pool = make_pool(17);

	paint(pool, "..aa..baab..b....", range);
	write_pattern(pool, range[0], 1);
	cr_assert_eq(kvmm_range_seal(pool, range[0], 2), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[1]), 0);
	set_pace(pool, 1);
	cr_assert_eq(start(pool, 6, KVMM_MOVE_BESIDE), 0);
	cr_assert_eq(steps_of_pool(pool).copying_blocks, 2);
	cr_assert_eq(gather(pool, range[0]), 0);
	kvmm_compact_poll(pool);
	cr_assert_eq(nr_extents(pool, range[0]), 1);
	cr_assert_str_eq(picture(pool), "..aaaab..b..b....");
	cr_assert_eq(steps_of_pool(pool).copying_blocks, 2, "half of it is still on its way");
	cr_assert_eq(kvmm_validate(pool), 0);
	return pool;
}

static void expect_void(struct kvmm_pool *pool)
{
	struct kvmm_step_stat steps = steps_of_pool(pool);

	cr_expect_str_eq(picture(pool), "..aaaab..b..b....");
	cr_expect_eq(steps.copying_blocks + steps.limbo_blocks, 0);
	cr_expect_eq(stat_of(pool).nr_free, 10);
	cr_expect(has_pattern(pool, range[0], 1));
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(flight, a_copy_of_half_an_extent_is_void, joined_under_a_copy())
{
	set_pace(pool, 0);
	settle(pool);
	cr_expect_eq(steps_of_pool(pool).void_moves, 1);
	cr_expect_eq(stat_of(pool).compactions, 1, "that which joined them");
	cr_expect_eq(stat_of(pool).moves, 1);
	cr_expect_eq(stat_of(pool).moved_blocks, 2);
	expect_void(pool);
}

POOL_TEST(flight, what_was_joined_stays_while_half_of_it_flies_and_then_moves_as_a_whole,
	  joined_under_a_copy())
{
	cr_assert_eq(kvmm_range_seal(pool, range[0], 4), 0);
	cr_expect_eq(start(pool, 6, KVMM_MOVE_BESIDE), -ENOSPC, "nothing else could make the run");
	cr_expect_eq(start(pool, 6, KVMM_MOVE_BETWEEN), -ENOSPC);
	set_pace(pool, 0);
	settle(pool);
	expect_void(pool);
	cr_expect_eq(start(pool, 6, KVMM_MOVE_BESIDE), 0);
	settle(pool);
	cr_expect_str_eq(picture(pool), "......b..b..baaaa");
	cr_expect_eq(steps_of_pool(pool).published_blocks, 2 + 4);
	cr_expect_eq(stat_of(pool).moved_blocks, 2 + 4);
	cr_expect_eq(stat_of(pool).compactions, 2);
	cr_expect(has_pattern(pool, range[0], 1));
}

/* One block of the first half has been copied, one has not: neither is looked at again. */
POOL_TEST(flight, a_copy_of_half_an_extent_can_be_cancelled_half_way, joined_under_a_copy())
{
	fake_env_advance(&fake, 1 * MS);
	kvmm_compact_poll(pool);
	cr_expect_eq(steps_of_pool(pool).copying_blocks, 2);
	write_pattern(pool, range[0], 1);
	cr_expect_eq(kvmm_compact_cancel(pool), 2);
	expect_void(pool);
}

POOL_TEST(flight, what_was_joined_can_be_given_back_while_half_of_it_flies, joined_under_a_copy())
{
	cr_assert_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_free, 14 - 2 - 2, "source and destination of the copy are nobody's");
	set_pace(pool, 0);
	settle(pool);
	cr_expect_eq(stat_of(pool).nr_free, 14);
	cr_expect_str_eq(picture(pool), "......b..b..b....");
}

/* ---- who waits ---- */

/* An engine that is asleep in an allocation, and whose step ends meanwhile. */
struct sleeper {
	struct kvmm_pool *pool;
	kvmm_stream_t stream;
	uint64_t epoch;
	u32 nr_waits;
	u32 ends_at;		/* the step ends in the wait of this number; 0: never */
};

static struct sleeper sleeper;

static void (*wait_of_fake)(void *ctx, u32 *word, u32 expected, u64 timeout_ns);

static void end_step_in_time(void *ctx, u32 *word, u32 expected, u64 timeout_ns)
{
	if (++sleeper.nr_waits == sleeper.ends_at)
		cr_expect_eq(kvmm_step_end(sleeper.pool, sleeper.stream, sleeper.epoch), 0);
	wait_of_fake(ctx, word, expected, timeout_ns);
}

/* That of scattered(), and a step that may read all of it. */
static struct kvmm_pool *asleep(u32 ends_at)
{
	struct kvmm_pool *pool = scattered();

	sleeper = (struct sleeper){ .pool = pool, .ends_at = ends_at };
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &sleeper.stream), 0);
	cr_assert_eq(kvmm_step_begin(pool, sleeper.stream, &sleeper.epoch), 0);
	wait_of_fake = fake.ops.wait;
	fake.ops.wait = end_step_in_time;
	return pool;
}

static int take_run(struct kvmm_pool *pool, u64 deadline_ns, u32 flags, kvmm_range_t *got)
{
	const struct kvmm_range_attr attr = {
		.size = sizeof(attr), .nr = 5, .max_runs = 1, .deadline_ns = deadline_ns,
		.flags = flags | (deadline_ns ? KVMM_ALLOC_RELATIVE : 0),
	};

	return kvmm_range_alloc_attr(pool, &attr, got);
}

POOL_TEST(flight, one_with_a_deadline_waits_for_the_step_that_reads_where_its_run_will_be,
	  asleep(3))
{
	kvmm_range_t got;

	cr_expect_eq(take_run(pool, 1000 * MS, 0, &got), 0);
	cr_expect_eq(sleeper.nr_waits, 3, "and not a moment longer");
	cr_expect_eq(nr_extents(pool, got), 1);
	cr_expect_gt(steps_of_pool(pool).published_moves, 0);
	cr_expect_eq(steps_of_pool(pool).limbo_blocks, 0);
	expect_content(pool);
}

POOL_TEST(flight, the_deadline_comes_first_and_the_moves_go_on, asleep(0))
{
	kvmm_range_t got;
	u64 since = kv_clock_ns();

	cr_expect_eq(take_run(pool, 20 * MS, 0, &got), -ETIMEDOUT);
	cr_expect_geq(kv_clock_ns() - since, 20 * MS);
	cr_expect_lt(kv_clock_ns() - since, 40 * MS);
	cr_expect_gt(steps_of_pool(pool).limbo_blocks, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_step_end(pool, sleeper.stream, sleeper.epoch), 0);
	cr_expect_eq(take_run(pool, 0, KVMM_ALLOC_NO_COMPACT, &got), 0, "it is there for the next one");
	expect_content(pool);
}

POOL_TEST(flight, who_is_not_to_move_anything_waits_for_blocks_only, asleep(2))
{
	kvmm_range_t got;

	cr_expect_neq(take_run(pool, 20 * MS, KVMM_ALLOC_NO_COMPACT, &got), 0);
	cr_expect_eq(steps_of_pool(pool).published_moves, 0);
	cr_expect_str_eq(picture(pool), "aa..bb..cc..dd..");
}

/* With no step open the world can be stopped: what was begun beside is given up for that. */
POOL_TEST(flight, a_slow_copy_is_not_waited_for_once_the_step_has_ended, asleep(2))
{
	kvmm_range_t got;

	set_pace(pool, 1);
	cr_expect_eq(take_run(pool, 1000 * MS, 0, &got), 0);
	cr_expect_eq(sleeper.nr_waits, 2);
	cr_expect_gt(steps_of_pool(pool).cancelled_moves, 0);
	cr_expect_eq(steps_of_pool(pool).published_moves, 0);
	expect_content(pool);
}

/* ---- victims where memory is going ---- */

static void touch(struct kvmm_pool *pool, u32 number)
{
	kvmm_key_t key = key_of(number);
	kvmm_ref_t ref;

	if (kvmm_match(pool, &key, 1, &ref) == 1)
		cr_assert_eq(kvmm_put(pool, ref), 0);
}

/*
 * "IIIIIIIIIIIIIIII": the oldest of each four is evicted, for the last four blocks are to go. The three that
 * are left there are being moved when that is called off: so they stay, and are the oldest by now.
 */
static struct kvmm_pool *going(void)
{
	static u8 memory[16 * TEST_BLOCK_BYTES] __attribute__((aligned(4096)));
	struct kvmm_plane plane = { (uintptr_t)memory, TEST_BLOCK_BYTES, TEST_BLOCK_BYTES };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic),
					     .unit_bytes = 4 * TEST_BLOCK_BYTES };
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 4 };
	struct kvmm_alloc_attr alloc = { .size = sizeof(alloc), .costs = { .copy_block_ns = 1,
									   .drop_block_ns = 1000 } };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .policy = "lru",
				       .planes = &plane, .nr_planes = 1, .alloc = &alloc };
	struct kvmm_pool *pool = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	for (u32 i = 0; i < 16; i++)
		cache_keys(pool, i, 1);
	for (u32 i = 0; i < 16; i++)
		if (i % 5)
			touch(pool, i);
	set_pace(pool, 1);
	cr_assert_eq(kvmm_pool_shrink_start(pool, &req, KVMM_MOVE_BESIDE), 0);
	kvmm_compact_cancel(pool);
	while (stat_of(pool).nr_free)
		take(pool, 1, KVMM_ALLOC_NO_EVICT);
	for (u32 i = 0; i < 12; i++)
		touch(pool, i);
	return pool;
}

static u32 nr_leaving(struct kvmm_pool *pool)
{
	struct kvmm_elastic_stat stat;

	cr_assert_eq(kvmm_elastic_get_stat(pool, &stat), 0);
	return stat.leaving_blocks;
}

POOL_TEST(flight, victims_where_memory_is_going_are_made_up_for, going())
{
	kvmm_range_t got;
	u32 nr = nr_leaving(pool);

	cr_assert_gt(nr, 0, "%s", picture(pool));
	cr_expect_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(2), &got), 0, "there are enough others");
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_shrink_cancel(pool);
}

/* ---- more moves than a reader is told of at once as a rule ---- */

#define NR_SHORT	4100u

/* Ranges of two blocks each, which lie apart. */
static struct kvmm_pool *torn(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4 * NR_SHORT };
	struct kvmm_pool *pool = make_pool_of(&attr);
	kvmm_range_t *torn = calloc(NR_SHORT, sizeof(*torn));

	for (u32 i = 0; i < NR_SHORT; i++)
		torn[i] = take(pool, 1, 0);
	take(pool, 1, 0);
	cr_assert_eq(kvmm_range_grow_many(pool, torn, NR_SHORT, 1), 0);
	for (u32 i = 0; i < NR_SHORT; i++)
		cr_assert_eq(kvmm_range_seal(pool, torn[i], 2), 0);
	free(torn);
	return pool;
}

static u32 shorten_by(struct kvmm_pool *pool, u32 nr, u32 mode)
{
	struct kvmm_compact_goal ask = { .size = sizeof(ask), .goal = KVMM_GOAL_SHORTEN, .mode = mode,
					 .want = nr };
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

	cr_assert_eq(kvmm_compact_goal_start(pool, &ask, &plan), 0);
	return plan.nr_moves;
}

static void shorten(struct kvmm_pool *pool, u32 mode)
{
	cr_assert_gt(shorten_by(pool, 0, mode), 4096);
}

static kvmm_stream_t reader(struct kvmm_pool *pool)
{
	kvmm_stream_t id;

	cr_assert_eq(kvmm_stream_add(pool, NULL, KVMM_STREAM_TABLES, &id), 0);
	return id;
}

/* Each move, once. */
static u32 read_all(struct kvmm_pool *pool, kvmm_stream_t id)
{
	struct kvmm_relocation moves[256];
	u32 nr_all = 0;
	int nr = 0;

	while ((nr = kvmm_relocations_next(pool, id, nr, moves, 256)) > 0) {
		for (int i = 0; i < nr; i++) {
			struct kvmm_block_info info;

			cr_assert_eq(kvmm_block_get_info(pool, moves[i].to, &info), 0);
			cr_assert_eq(info.state, KVMM_BLOCK_RANGE, "move %u", nr_all + i);
		}
		nr_all += nr;
	}
	cr_assert_eq(nr, 0);
	return nr_all;
}

static void expect_shorter(struct kvmm_pool *pool)
{
	struct kvmm_step_stat steps;

	settle(pool);
	steps = steps_of_pool(pool);
	cr_expect_gt(steps.published_moves, 4096);
	cr_expect_eq(steps.copying_blocks + steps.limbo_blocks, 0);
	cr_expect_eq(stat_of(pool).nr_free, 2 * NR_SHORT - 1);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(flight, a_large_plan_is_carried_out_where_no_tables_are_kept, torn())
{
	kvmm_stream_t id;

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	shorten(pool, KVMM_MOVE_BESIDE);
	expect_shorter(pool);
}

POOL_TEST(flight, tables_are_told_of_all_moves_of_a_large_plan, torn())
{
	kvmm_stream_t id = reader(pool);

	shorten(pool, KVMM_MOVE_BESIDE);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_expect_eq(read_all(pool, id), steps_of_pool(pool).published_moves);
	expect_shorter(pool);
}

POOL_TEST(flight, so_are_tables_that_come_when_it_is_under_way, torn())
{
	kvmm_stream_t id;

	shorten(pool, KVMM_MOVE_BESIDE);
	id = reader(pool);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_expect_eq(read_all(pool, id), steps_of_pool(pool).published_moves);
	expect_shorter(pool);
}

POOL_TEST(flight, a_large_plan_between_steps_waits_for_no_reader_that_is_up_to_date, torn())
{
	kvmm_stream_t id = reader(pool);
	uint64_t epoch;

	shorten(pool, KVMM_MOVE_BETWEEN);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), -EAGAIN);
	cr_expect_eq(read_all(pool, id), steps_of_pool(pool).published_moves);
	expect_shorter(pool);
	cr_expect_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_step_end(pool, id, epoch), 0);
}

/* Once it has all that it wants to move them; what it would remember of them is not of that. */
POOL_TEST(flight, a_large_plan_moves_nothing_without_memory, torn())
{
	struct kvmm_compact_goal ask = { .size = sizeof(ask), .goal = KVMM_GOAL_SHORTEN,
					 .mode = KVMM_MOVE_BESIDE };
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	kvmm_stream_t id = reader(pool);
	u64 live = fake.nr_live;
	int err = -ENOMEM;
	bool failed;
	u32 n;

	for (n = 0; err == -ENOMEM; n++) {
		cr_assert_eq(fake.nr_live, live, "allocation %u", n);
		cr_assert_eq(steps_of_pool(pool).copying_blocks, 0);
		err = fault_at(n + 1, kvmm_compact_goal_start(pool, &ask, &plan), &failed);
	}
	cr_expect_eq(err, 0);
	cr_expect_gt(n, 7);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_expect_gt(read_all(pool, id), 4096);
	expect_shorter(pool);
}

/* What a reader has not read before the room grew is there afterwards, in order. */
POOL_TEST(flight, older_moves_are_still_told_behind_a_large_plan, torn())
{
	kvmm_stream_t id = reader(pool);
	struct kvmm_relocation first[2], later[2];

	cr_assert_gt(shorten_by(pool, 1, KVMM_MOVE_BESIDE), 0);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_assert_gt(kvmm_relocations(pool, id, first, 2), 0);
	shorten(pool, KVMM_MOVE_BESIDE);
	cr_expect_gt(kvmm_compact_poll(pool), 0);
	cr_assert_gt(kvmm_relocations(pool, id, later, 2), 0);
	cr_expect_eq(memcmp(first, later, sizeof(*first)), 0);
	cr_expect_gt(read_all(pool, id), 4096);
	expect_shorter(pool);
}
