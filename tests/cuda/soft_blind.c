// SPDX-License-Identifier: Apache-2.0
/*
 * The driver cannot say any more whether a copy has ended: nothing that it may still write is given to
 * anybody, until the driver can say so, or for good if the device is lost.
 */
#include "soft.h"

#define NR_BLOCKS	16u
#define NR_RANGES	4u
#define BYTES		256u

struct scene {
	struct kvmm_pool *pool;
	kcu_stream stream;
	kvmm_stream_t id;
	kvmm_range_t range[NR_RANGES];
};

/* "a.b.c.d.", and behind it as much that is free. */
static struct scene scene_make_with(const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BYTES };
	kvmm_range_t hole[NR_RANGES];
	struct scene scene = { 0 };
	u8 buf[BYTES];

	start("");
	scene.stream = stream_new();
	attr.policy = policy;
	cr_assert_eq(kvmm_pool_create(&attr, &scene.pool), 0);
	for (u32 i = 0; i < NR_RANGES; i++) {
		cr_assert_eq(kvmm_range_alloc(scene.pool, 2, KVMM_RUNS(1), &scene.range[i]), 0);
		cr_assert_eq(kvmm_range_alloc(scene.pool, 2, KVMM_RUNS(1), &hole[i]), 0);
		memset(buf, 1 + i, BYTES);
		for (u32 b = 0; b < 2; b++)
			cr_assert_eq(kvmm_block_write(scene.pool, 4 * i + b, 0, buf, BYTES), 0);
		cr_assert_eq(kvmm_range_seal(scene.pool, scene.range[i], 2), 0);
	}
	for (u32 i = 0; i < NR_RANGES; i++)
		cr_assert_eq(kvmm_range_free(scene.pool, hole[i]), 0);
	cr_assert_eq(kvmm_stream_add(scene.pool, scene.stream, 0, &scene.id), 0);
	return scene;
}

static struct scene scene_make(void)
{
	return scene_make_with(NULL);
}

/* Neither events nor streams can be asked, while work is queued as ever. */
static void blindfold(void)
{
	static const char *const calls[] = { "cuEventQuery", "cuEventSynchronize", "cuStreamQuery",
					     "cuStreamSynchronize" };

	for (u32 i = 0; i < ARRAY_SIZE(calls); i++)
		cr_assert_eq(ctl->fail(calls[i], 1, KCU_E_INVALID_VALUE, true, false), 0);
}

static struct kvmm_step_stat steps_of_pool(struct kvmm_pool *pool)
{
	struct kvmm_step_stat stat;

	cr_assert_eq(kvmm_step_get_stat(pool, &stat), 0);
	return stat;
}

static void expect_free(struct kvmm_pool *pool, u32 nr_free, u32 nr_unseen)
{
	struct kvmm_pool_stat stat;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.nr_free, nr_free, "%u free", stat.nr_free);
	cr_expect_eq(steps_of_pool(pool).unseen_blocks, nr_unseen, "%llu unseen",
		     (unsigned long long)steps_of_pool(pool).unseen_blocks);
	cr_expect_eq(kvmm_validate(pool), 0);
}

static u32 start_moves(struct scene *scene, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 4 };

	cr_assert_eq(kvmm_compact_start(scene->pool, &goal, mode), 0);
	cr_assert_gt(goal.moved, 0);
	return goal.moved;
}

static void scene_end(struct scene *scene)
{
	kvmm_pool_destroy(scene->pool);
	cr_expect_eq(ctl->nr_reports(SW_REPORT_RACE), 0, "%s", ctl->report(0));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_IN_USE), 0, "%s", ctl->report(0));
	ctl->reset("");
}

static void expect_content(struct scene *scene)
{
	u8 buf[BYTES];

	for (u32 i = 0; i < NR_RANGES; i++) {
		struct kvmm_extent ext;

		cr_assert_eq(kvmm_range_extents(scene->pool, scene->range[i], &ext, 1), 1);
		cr_assert_eq(kvmm_block_read(scene->pool, ext.start, 0, buf, BYTES), 0);
		cr_expect(all_bytes(buf, 1 + i, BYTES));
	}
}

/*
 * Once the queued copy has run, and the driver says so, all is as before. Each question lets the driver
 * run a random number of pieces, maybe all.
 */
static void expect_recovery(struct scene *scene)
{
	struct kvmm_step_stat stat;

	kvmm_compact_poll(scene->pool);
	cr_expect_gt(steps_of_pool(scene->pool).unseen_blocks, 0, "nobody can say that it has ended");
	ctl->fail_none();
	kvmm_compact_poll(scene->pool);
	stat = steps_of_pool(scene->pool);
	cr_expect_eq(stat.unseen_blocks > 0, stat.is_blind, "it still runs");
	ctl->run();
	cr_expect_eq(kvmm_compact_poll(scene->pool), 0);
	cr_expect_eq(steps_of_pool(scene->pool).is_blind, 0);
	expect_free(scene->pool, NR_BLOCKS - 2 * NR_RANGES, 0);
}

Test(blind, a_copy_beside_that_cannot_be_seen_keeps_its_destination)
{
	struct scene scene = scene_make();
	u32 nr = start_moves(&scene, KVMM_MOVE_BESIDE);

	blindfold();
	for (u32 i = 0; i < 3; i++)
		cr_expect_gt(kvmm_compact_poll(scene.pool), 0, "it may see again");
	cr_expect_eq(steps_of_pool(scene.pool).is_blind, 1);
	cr_expect_eq(steps_of_pool(scene.pool).published_moves, 0);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, nr);
	expect_recovery(&scene);
	expect_content(&scene);
	scene_end(&scene);
}

Test(blind, so_does_one_that_is_cancelled)
{
	struct scene scene = scene_make();
	u32 nr = start_moves(&scene, KVMM_MOVE_BESIDE);

	blindfold();
	cr_expect_eq(kvmm_compact_cancel(scene.pool), (int)nr);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, nr);
	expect_recovery(&scene);
	expect_content(&scene);
	scene_end(&scene);
}

/* The streams wait for it, so the content is lost, and its owner gives it back. */
Test(blind, what_a_copy_between_steps_may_write_is_kept_when_its_owner_gives_it_back)
{
	struct scene scene = scene_make();
	u32 nr = start_moves(&scene, KVMM_MOVE_BETWEEN);

	blindfold();
	kvmm_compact_poll(scene.pool);
	cr_expect_eq(steps_of_pool(scene.pool).lost_blocks, nr);
	cr_expect_eq(steps_of_pool(scene.pool).limbo_blocks, nr);
	for (u32 i = 0; i < NR_RANGES; i++)
		cr_assert_eq(kvmm_range_free(scene.pool, scene.range[i]), 0);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, 2 * NR_RANGES);
	ctl->fail_none();
	ctl->run();
	kvmm_compact_poll(scene.pool);
	expect_free(scene.pool, NR_BLOCKS, 0);
	scene_end(&scene);
}

Test(blind, old_places_are_kept_while_nobody_sees_whether_a_step_has_ended)
{
	struct scene scene = scene_make();
	uint64_t epoch;
	u32 nr;

	cr_assert_eq(kvmm_step_begin(scene.pool, scene.id, &epoch), 0);
	nr = start_moves(&scene, KVMM_MOVE_BESIDE);
	ctl->run();
	kvmm_compact_poll(scene.pool);
	cr_expect_eq(steps_of_pool(scene.pool).limbo_blocks, nr);
	blindfold();
	cr_assert_eq(kvmm_step_end(scene.pool, scene.id, epoch), 0);
	for (u32 i = 0; i < 3; i++)
		kvmm_compact_poll(scene.pool);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, 0);
	cr_expect_eq(steps_of_pool(scene.pool).limbo_blocks, nr);
	ctl->fail_none();
	ctl->run();
	kvmm_compact_poll(scene.pool);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES, 0);
	scene_end(&scene);
}

Test(blind, a_compaction_that_stops_the_world_keeps_what_it_may_have_written)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 4 };
	struct scene scene = scene_make();
	struct kvmm_pool_stat stat;

	blindfold();
	cr_expect_eq(kvmm_pool_compact(scene.pool, &goal), -EIO);
	cr_assert_eq(kvmm_pool_get_stat(scene.pool, &stat), 0);
	cr_expect_gt(steps_of_pool(scene.pool).unseen_blocks, 0);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - steps_of_pool(scene.pool).unseen_blocks,
		    steps_of_pool(scene.pool).unseen_blocks);
	expect_recovery(&scene);
	scene_end(&scene);
}

/* Who cannot get room looks again, without anybody's asking. */
Test(blind, an_allocation_finds_what_the_device_has_let_go)
{
	struct scene scene = scene_make();
	kvmm_range_t all;
	u32 nr = start_moves(&scene, KVMM_MOVE_BESIDE);

	blindfold();
	kvmm_compact_poll(scene.pool);
	cr_expect_eq(kvmm_range_alloc(scene.pool, NR_BLOCKS - 2 * NR_RANGES, KVMM_RUNS(4), &all),
		     -ENOSPC, "%u blocks are unseen", nr);
	ctl->fail_none();
	ctl->run();
	cr_expect_eq(kvmm_range_alloc(scene.pool, NR_BLOCKS - 2 * NR_RANGES, KVMM_RUNS(4), &all), 0);
	expect_free(scene.pool, 0, 0);
	scene_end(&scene);
}

/* Blocks of victims would not become free, either. */
Test(blind, a_request_that_fails_evicts_nothing)
{
	const kvmm_key_t keys[4] = { { { 1 } }, { { 2 } }, { { 3 } }, { { 4 } } };
	struct kvmm_evict_for_args room = { .size = sizeof(room) };
	struct scene scene = scene_make_with("lru");
	struct kvmm_pool_stat stat;
	kvmm_range_t range;
	kvmm_mut_t mut[4];
	kvmm_ref_t ref[4];

	cr_assert_eq(kvmm_alloc(scene.pool, 4, mut), 0);
	cr_assert_eq(kvmm_register(scene.pool, mut, keys, 4, ref), 0);
	cr_assert_eq(kvmm_put_many(scene.pool, ref, 4), 0);
	start_moves(&scene, KVMM_MOVE_BESIDE);
	blindfold();
	kvmm_compact_poll(scene.pool);
	cr_assert_eq(kvmm_pool_get_stat(scene.pool, &stat), 0);
	room.nr_blocks = stat.nr_free + 1;
	cr_expect_eq(kvmm_range_alloc(scene.pool, stat.nr_free + 1, KVMM_RUNS(8), &range), -ENOSPC);
	cr_expect_eq(kvmm_evict_for(scene.pool, &room), -ENOSPC);
	cr_expect_eq(kvmm_match_len(scene.pool, keys, 4), 4);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	ctl->fail_none();
	ctl->run();
	kvmm_compact_poll(scene.pool);
	cr_expect_eq(kvmm_evict_for(scene.pool, &room), 0);
	scene_end(&scene);
}

Test(blind, of_a_lost_device_nothing_comes_back)
{
	struct scene scene = scene_make();
	u32 nr = start_moves(&scene, KVMM_MOVE_BESIDE);

	cr_assert_eq(ctl->fail("cuEventQuery", 1, KCU_E_ILLEGAL_ADDRESS, false, false), 0);
	kvmm_compact_poll(scene.pool);
	ctl->fail_none();
	ctl->run();
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_compact_poll(scene.pool), -EIO, "who waits for 0 waits for ever");
	cr_expect_eq(steps_of_pool(scene.pool).is_blind, 1);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, nr);
	cr_assert_eq(kvmm_range_free(scene.pool, scene.range[0]), 0);
	expect_free(scene.pool, NR_BLOCKS - 2 * NR_RANGES - nr, nr + 2);
	kvmm_pool_destroy(scene.pool);
	ctl->reset("");
}

/*
 * Neighbours that such an engine gave one by one, some with blocks behind them that they only round
 * up to: together they are no allocation of it, nor is a part of one.
 */
Test(blind, an_engine_that_rounds_up_gets_back_what_it_gave)
{
	static const u32 lens[] = { 4, 1, 1, 2, 3, 2 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BYTES,
				       .allocator = "buddy", .policy = "lru" };
	kvmm_range_t range[ARRAY_SIZE(lens)], all;
	struct scene scene = { 0 };
	kvmm_mut_t mut[2];
	u8 buf[BYTES];

	start("");
	cr_assert_eq(kvmm_pool_create(&attr, &scene.pool), 0);
	for (u32 i = 0; i < ARRAY_SIZE(lens); i++)
		cr_assert_eq(kvmm_range_alloc(scene.pool, lens[i], KVMM_RUNS(1), &range[i]), 0);
	cr_assert_eq(kvmm_alloc(scene.pool, 2, mut), 0);
	blindfold();
	cr_assert_eq(kvmm_block_read(scene.pool, 0, 0, buf, BYTES), -EIO);
	for (u32 i = 0; i < ARRAY_SIZE(lens); i++)
		cr_assert_eq(kvmm_range_free(scene.pool, range[i]), 0);
	cr_assert_eq(kvmm_free(scene.pool, mut, 2), 0);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	cr_expect_eq(steps_of_pool(scene.pool).unseen_blocks, 15);
	ctl->fail_none();
	ctl->run();
	cr_expect_eq(kvmm_range_alloc(scene.pool, NR_BLOCKS, KVMM_RUNS(1), &all), 0);
	expect_free(scene.pool, 0, 0);
	scene_end(&scene);
}

/* The copy is queued, and runs when the caller has been told that it failed and uses the buffer otherwise. */
Test(blind, nothing_is_written_into_a_buffer_whose_read_has_failed)
{
	struct scene scene = scene_make();
	u8 buf[BYTES], want[BYTES];

	memset(want, 0x33, BYTES);
	blindfold();
	cr_expect_eq(kvmm_block_read(scene.pool, 0, 0, buf, BYTES), -EIO);
	memset(buf, 0x33, BYTES);
	ctl->fail_none();
	ctl->run();
	cr_expect(!memcmp(buf, want, BYTES));
	kvmm_compact_poll(scene.pool);
	cr_expect_eq(kvmm_block_read(scene.pool, 0, 0, buf, BYTES), 0);
	memset(want, 1, BYTES);
	cr_expect(!memcmp(buf, want, BYTES));
	scene_end(&scene);
}
