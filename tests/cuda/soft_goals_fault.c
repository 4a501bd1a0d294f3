// SPDX-License-Identifier: Apache-2.0
/*
 * Any call of the driver may fail while a pool with checksums moves blocks for goals, in portions, loses
 * cached ones for them, and gives memory back and has it again: what can be read is right, no block is
 * lost between owners, nothing leaks.
 *
 * What is at stake is in four ranges and six cached blocks of a pool of 32.
 */
#include "soft.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"

#define NR_BLOCKS	32u
#define NR_RANGES	4u
#define NR_KEYS		6u
#define BYTES		256u

struct scene {
	struct kvmm_pool *pool;
	kcu_deviceptr base;
	kcu_stream stream;
	kvmm_stream_t id;
	bool has_stream;
	kvmm_range_t range[NR_RANGES];
	u32 mode;
};

static kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { .byte = { 7, number } };

	return key;
}

static void write_block(struct scene *scene, u32 block, u8 value)
{
	u8 buf[BYTES];

	memset(buf, value, BYTES);
	cr_assert_eq(kvmm_block_write(scene->pool, block, 0, buf, BYTES), 0);
}

/* In two extents: a hole lies between. */
static void make_range(struct scene *scene, u32 i)
{
	kvmm_range_t hole;
	struct kvmm_extent ext[2];
	int nr;

	cr_assert_eq(kvmm_range_alloc(scene->pool, 1, KVMM_RUNS(2), &scene->range[i]), 0);
	cr_assert_eq(kvmm_range_alloc(scene->pool, 1, KVMM_RUNS(1), &hole), 0);
	cr_assert_eq(kvmm_range_grow(scene->pool, scene->range[i], 1), 0);
	cr_assert_eq(kvmm_range_free(scene->pool, hole), 0);
	nr = kvmm_range_extents(scene->pool, scene->range[i], ext, 2);
	for (int k = 0; k < nr; k++)
		for (u32 b = 0; b < ext[k].nr; b++)
			write_block(scene, ext[k].start + b, 1 + i);
	cr_assert_eq(kvmm_range_seal(scene->pool, scene->range[i], 2), 0);
}

static void make_cached(struct scene *scene, u32 i)
{
	kvmm_key_t key = key_of(i);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc(scene->pool, 1, &mut), 0);
	write_block(scene, kvmm_block_of_mut(scene->pool, mut), 100 + i);
	cr_assert_eq(kvmm_register(scene->pool, &mut, &key, 1, &ref), 0);
	cr_assert_eq(kvmm_put(scene->pool, ref), 0);
}

static void scene_init(struct scene *scene, u32 mode)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = 4 * BYTES,
					     .pageblock_blocks = 4 };
	struct kvmm_alloc_attr alloc = { .size = sizeof(alloc), .costs = { 2000, 100, 0 } };
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .policy = "default" };
	kvmm_range_t hole[NR_KEYS];
	struct kvmm_plane plane;

	*scene = (struct scene){ .mode = mode, .base = dev_alloc(NR_BLOCKS * BYTES),
				 .stream = stream_new() };
	plane = (struct kvmm_plane){ scene->base, BYTES, BYTES };
	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.nr_blocks = NR_BLOCKS;
	attr.alloc = &alloc;
	cr_assert_eq(kvmm_pool_create(&attr, &scene->pool), 0);
	cr_assert_eq(kvmm_pool_elastic_setup(scene->pool, &elastic), 0);
	cr_assert_eq(kvmm_verify_set(scene->pool, &verify), 0);
	for (u32 i = 0; i < NR_KEYS; i++) {
		make_cached(scene, i);
		if (i < NR_RANGES)
			make_range(scene, i);
		cr_assert_eq(kvmm_range_alloc(scene->pool, 2, KVMM_RUNS(1), &hole[i]), 0);
	}
	for (u32 i = 0; i < NR_KEYS; i++)
		cr_assert_eq(kvmm_range_free(scene->pool, hole[i]), 0);
	kvmm_verify_tick(scene->pool);
	ctl->run();
	kvmm_compact_poll(scene->pool);		/* they are summed */
}

/* ---- what is done; errors are allowed ---- */

static bool open_step(struct scene *scene, uint64_t *epoch)
{
	return scene->has_stream && !kvmm_step_begin(scene->pool, scene->id, epoch);
}

static void end_step(struct scene *scene, uint64_t epoch)
{
	for (u32 i = 0; i < 3; i++)
		if (kvmm_step_end(scene->pool, scene->id, epoch) != -EAGAIN)
			return;
}

static void make_steps(struct scene *scene, u32 nr)
{
	uint64_t epoch;

	for (; nr; nr--) {
		if (open_step(scene, &epoch))
			end_step(scene, epoch);
		ctl->run();
		kvmm_compact_poll(scene->pool);
		kvmm_pool_shrink_poll(scene->pool, NULL);
	}
}

/* All in one go; between steps not while one is open. */
static void move_for_a_run(struct scene *scene)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 14 };
	uint64_t epoch;
	bool open = open_step(scene, &epoch);

	kvmm_compact_start(scene->pool, &goal, scene->mode);
	if (open)
		end_step(scene, epoch);
	kvmm_compact_start(scene->pool, &goal, scene->mode);
	make_steps(scene, 2);
}

static void move_for_goals(struct scene *scene)
{
	static const u32 want[KVMM_NR_GOALS] = { 18, 4, 0, 0 };
	uint64_t epoch;

	for (u32 i = 0; i < KVMM_NR_GOALS; i++) {
		struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
		bool open = scene->mode == KVMM_MOVE_BESIDE && open_step(scene, &epoch);
		struct kvmm_compact_goal goal = { .size = sizeof(goal), .goal = i, .want = want[i],
						  .mode = scene->mode,
						  .flags = KVMM_GOAL_DROP | KVMM_GOAL_BEST,
						  .pageblock_blocks = 4, .range = scene->range[3] };

		kvmm_compact_goal_start(scene->pool, &goal, &plan);
		ctl->run();
		if (open)
			end_step(scene, epoch);
		make_steps(scene, 4);
		kvmm_verify_tick(scene->pool);
		ctl->run();
	}
}

static void hand_back(struct scene *scene)
{
	struct kvmm_mem_range told[NR_BLOCKS];
	struct kvmm_regain req = { .size = sizeof(req), .ranges = told };
	int nr = kvmm_pool_freed(scene->pool, told, NR_BLOCKS);

	req.nr_ranges = nr > 0 ? nr : 0;
	if (req.nr_ranges)
		kvmm_pool_grow(scene->pool, &req);
}

static void give_and_take(struct scene *scene)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 12, .min_blocks = 4 };

	kvmm_pool_shrink_start(scene->pool, &req, scene->mode);
	make_steps(scene, 4);
	kvmm_pool_shrink_cancel(scene->pool);
	hand_back(scene);
	kvmm_pool_shrink(scene->pool, &req);
	hand_back(scene);
}

static void act(struct scene *scene)
{
	struct kvmm_pace pace = { .size = sizeof(pace), .bytes_per_step = BYTES };

	scene->has_stream = !kvmm_stream_add(scene->pool, scene->stream, 0, &scene->id);
	move_for_a_run(scene);
	kvmm_pace_set(scene->pool, &pace);
	move_for_goals(scene);
	give_and_take(scene);
}

/* ---- what has to be true then ---- */

static u32 nr_readable(struct scene *scene)
{
	u32 nr = 0;
	u8 buf[BYTES];

	for (u32 i = 0; i < NR_RANGES; i++) {
		struct kvmm_extent ext[2];
		int nr_ext = kvmm_range_extents(scene->pool, scene->range[i], ext, 2);

		for (int k = 0; k < nr_ext; k++)
			for (u32 b = 0; b < ext[k].nr; b++) {
				if (kvmm_block_read(scene->pool, ext[k].start + b, 0, buf, BYTES))
					continue;
				cr_expect(all_bytes(buf, 1 + i, BYTES), "range %u", i);
				nr++;
			}
	}
	return nr;
}

/* Some may be gone, and none may be wrong. */
static void check_cached(struct scene *scene)
{
	for (u32 i = 0; i < NR_KEYS; i++) {
		kvmm_key_t key = key_of(i);
		kvmm_ref_t ref;
		u8 buf[BYTES];

		if (kvmm_match(scene->pool, &key, 1, &ref) != 1)
			continue;
		if (!kvmm_block_read(scene->pool, kvmm_block_of_ref(scene->pool, ref), 0, buf, BYTES))
			cr_expect(all_bytes(buf, 100 + i, BYTES), "key %u", i);
		cr_expect_eq(kvmm_put(scene->pool, ref), 0);
	}
}

/* What a lost device may still write, or read, is nobody's. */
static void expect_all_there(struct scene *scene, u32 nth, bool may_be_lost)
{
	struct kvmm_step_stat steps;
	struct kvmm_pool_stat stat;
	u32 dark;

	cr_assert_eq(kvmm_pool_get_stat(scene->pool, &stat), 0);
	cr_assert_eq(kvmm_step_get_stat(scene->pool, &steps), 0);
	dark = steps.limbo_blocks + steps.unseen_blocks;
	cr_expect(!dark || may_be_lost, "call %u: %u", nth, dark);
	cr_expect_eq(stat.nr_free + stat.nr_away + 2 * NR_RANGES + stat.nr_inactive + dark, NR_BLOCKS,
		     "call %u: %u free, %u away, %u cached", nth, stat.nr_free, stat.nr_away,
		     stat.nr_inactive);
}

/* With a driver that works again, unless the device is lost: then nothing can be read at all. */
static void check_scene(struct scene *scene, u32 nth, bool may_be_lost)
{
	struct kvmm_step_stat steps;
	u32 nr;

	make_steps(scene, 4);
	cr_expect_eq(kvmm_validate(scene->pool), 0, "call %u", nth);
	cr_assert_eq(kvmm_step_get_stat(scene->pool, &steps), 0);
	nr = nr_readable(scene);
	cr_expect(nr == 2 * NR_RANGES || (may_be_lost && !nr) || steps.lost_blocks, "call %u: %u",
		  nth, nr);
	check_cached(scene);
	if (scene->has_stream && !steps.nr_open)
		cr_expect_eq(kvmm_stream_del(scene->pool, scene->id), 0);
	kvmm_compact_cancel(scene->pool);
	kvmm_compact_poll(scene->pool);
	if (!steps.nr_open)
		expect_all_there(scene, nth, may_be_lost);
	cr_expect_eq(kvmm_validate(scene->pool), 0, "call %u", nth);
}

/* Or the rest would show little. */
static void expect_all_done(struct scene *scene)
{
	struct kvmm_elastic_stat elastic;
	struct kvmm_verify_stat verify;
	struct kvmm_step_stat steps;
	struct kvmm_pool_stat stat;
	struct kvmm_pace_stat pace;

	cr_assert_eq(kvmm_step_get_stat(scene->pool, &steps), 0);
	cr_assert_eq(kvmm_pace_get_stat(scene->pool, &pace), 0);
	cr_assert_eq(kvmm_verify_get_stat(scene->pool, &verify), 0);
	cr_assert_eq(kvmm_pool_get_stat(scene->pool, &stat), 0);
	cr_assert_eq(kvmm_elastic_get_stat(scene->pool, &elastic), 0);
	cr_expect_gt(steps.published_blocks, 4);
	cr_expect_gt(stat.evictions, 0);
	cr_expect_gt(verify.checks, 0);
	cr_expect_gt(elastic.shrunk_bytes, 0);
	cr_expect_eq(elastic.shrunk_bytes, elastic.grown_bytes);
	if (scene->mode == KVMM_MOVE_BESIDE)
		cr_expect_gt(pace.portions, 2);
}

/* Whether the failure came about. */
static bool run(u32 nth, kcu_result code, bool persistent, bool async, u32 mode)
{
	struct scene scene;
	u64 before;
	bool struck;

	start("");
	scene_init(&scene, mode);
	before = nr_calls();
	if (nth)
		cr_assert_eq(ctl->fail("*", nth, code, persistent, async), 0);
	act(&scene);
	struck = nth && nr_calls() >= before + nth;
	ctl->fail_none();
	if (!nth)
		expect_all_done(&scene);
	check_scene(&scene, nth, struck && (persistent || kcu_class_of(code) == KCU_FATAL));
	kvmm_pool_destroy(scene.pool);
	expect_no_races(nth, code);
	cr_expect_eq(kv_mem_bytes(), 0, "call %u: memory of the host leaks", nth);
	ctl->reset("");
	return struck;
}

static void fail_each(kcu_result code, bool persistent, bool async)
{
	for (u32 mode = 0; mode < KVMM_NR_MOVE_MODES; mode++) {
		u32 nth = 1;

		while (run(nth, code, persistent, async, mode))
			nth += test_stride();
		cr_expect_gt(nth, 100, "%u", nth);
	}
}

Test(goals_fault, nothing_fails)
{
	for (u32 mode = 0; mode < KVMM_NR_MOVE_MODES; mode++)
		cr_expect_eq(run(0, KCU_E_SUCCESS, false, false, mode), false);
}

TEST_CALL(goals_fault, any_call_may_be_out_of_memory_once,
	  fail_each(KCU_E_OUT_OF_MEMORY, false, false))
TEST_CALL(goals_fault, any_call_may_be_out_of_memory_from_then_on,
	  fail_each(KCU_E_OUT_OF_MEMORY, true, false))
TEST_CALL(goals_fault, any_call_may_be_refused_once, fail_each(KCU_E_INVALID_VALUE, false, false))
TEST_CALL(goals_fault, any_call_may_be_refused_from_then_on,
	  fail_each(KCU_E_INVALID_VALUE, true, false))
TEST_CALL(goals_fault, the_device_may_be_lost_at_any_call,
	  fail_each(KCU_E_LAUNCH_FAILED, true, false))
TEST_CALL(goals_fault, what_was_submitted_may_fail_when_it_runs,
	  fail_each(KCU_E_ILLEGAL_ADDRESS, false, true))
