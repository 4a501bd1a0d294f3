// SPDX-License-Identifier: Apache-2.0
/*
 * Any call of the driver may fail while blocks move beside or between steps, once or from then on:
 * content that can still be read is right, nothing is lost between owners, nothing leaks.
 */
#include "soft.h"
#include "tests/support/length.h"

#define NR_BLOCKS	16u
#define NR_RANGES	4u
#define BYTES		256u

struct scene {
	struct kvmm_pool *pool;
	kvmm_stream_t id;
	kvmm_range_t range[NR_RANGES];
	bool has_stream;
};

/* "aa..bb..cc..dd..": each range is its own number, over and over. */
static void fill_scene(struct scene *scene)
{
	kvmm_range_t hole[NR_RANGES];
	u8 buf[BYTES];

	for (u32 i = 0; i < NR_RANGES; i++) {
		struct kvmm_extent ext;

		cr_assert_eq(kvmm_range_alloc(scene->pool, 2, KVMM_RUNS(1), &scene->range[i]), 0);
		cr_assert_eq(kvmm_range_alloc(scene->pool, 2, KVMM_RUNS(1), &hole[i]), 0);
		cr_assert_eq(kvmm_range_extents(scene->pool, scene->range[i], &ext, 1), 1);
		memset(buf, 1 + i, BYTES);
		for (u32 b = 0; b < 2; b++)
			cr_assert_eq(kvmm_block_write(scene->pool, ext.start + b, 0, buf, BYTES), 0);
		cr_assert_eq(kvmm_range_seal(scene->pool, scene->range[i], 2), 0);
	}
	for (u32 i = 0; i < NR_RANGES; i++)
		cr_assert_eq(kvmm_range_free(scene->pool, hole[i]), 0);
}

static void scene_init(struct scene *scene)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BYTES };

	*scene = (struct scene){ 0 };
	cr_assert_eq(kvmm_pool_create(&attr, &scene->pool), 0);
	fill_scene(scene);
}

/* Errors are allowed; what they leave behind is looked at later. */
static void act(struct scene *scene, kcu_stream stream, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 5 };
	uint64_t epoch;

	scene->has_stream = !kvmm_stream_add(scene->pool, stream, 0, &scene->id);
	for (u32 i = 0; scene->has_stream && i < 3; i++) {
		bool open = !kvmm_step_begin(scene->pool, scene->id, &epoch);

		goal.want_run = 5 + i;
		kvmm_compact_start(scene->pool, &goal, mode);
		if (open && kvmm_step_end(scene->pool, scene->id, epoch))
			kvmm_step_end(scene->pool, scene->id, epoch);
		kvmm_compact_start(scene->pool, &goal, mode);
		ctl->run();
		kvmm_compact_poll(scene->pool);
	}
}

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

/* With a driver that works again, unless the device is lost: then nothing can be read at all. */
static void check_scene(struct scene *scene, bool may_be_lost)
{
	u32 nr;
	struct kvmm_step_stat steps;
	struct kvmm_pool_stat stat;

	ctl->run();
	for (u32 i = 0; i < 4; i++)
		kvmm_compact_poll(scene->pool);
	cr_expect_eq(kvmm_validate(scene->pool), 0);
	cr_assert_eq(kvmm_step_get_stat(scene->pool, &steps), 0);
	nr = nr_readable(scene);
	cr_expect(nr == 2 * NR_RANGES || (may_be_lost && !nr) || steps.lost_blocks, "%u", nr);
	if (scene->has_stream && !steps.nr_open) {
		cr_expect_eq(kvmm_stream_del(scene->pool, scene->id), 0);
		kvmm_compact_poll(scene->pool);
		cr_assert_eq(kvmm_pool_get_stat(scene->pool, &stat), 0);
		cr_assert_eq(kvmm_step_get_stat(scene->pool, &steps), 0);
		nr = steps.limbo_blocks + steps.unseen_blocks;
		cr_expect(!nr || may_be_lost, "%u", nr);
		cr_expect_eq(stat.nr_free + nr, NR_BLOCKS - 2 * NR_RANGES);
	}
}

static u64 nr_calls(void)
{
	u64 nr = 0;

#define ADD(field, name, type, version)	nr += ctl->calls(#name);
	KCU_ALL(ADD)
	return nr;
}

/* Whether the failure came about. */
static bool run(u32 nth, kcu_result code, bool persistent, bool async, u32 mode)
{
	struct scene scene;
	kcu_stream stream;
	u64 before;
	bool struck;

	start("");
	stream = stream_new();
	scene_init(&scene);
	before = nr_calls();
	if (nth)
		cr_assert_eq(ctl->fail("*", nth, code, persistent, async), 0);
	act(&scene, stream, mode);
	struck = nth && nr_calls() >= before + nth;
	ctl->fail_none();
	check_scene(&scene, struck && (persistent || kcu_class_of(code) == KCU_FATAL));
	kvmm_pool_destroy(scene.pool);
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		if (i == SW_REPORT_RACE || i == SW_REPORT_IN_USE || i == SW_REPORT_DEADLOCK)
			cr_expect_eq(ctl->nr_reports(i), 0, "call %u, code %d: %s", nth, code,
				     ctl->report(0));
	ctl->reset("");
	return struck;
}

static void fail_each(kcu_result code, bool persistent, bool async)
{
	for (u32 mode = 0; mode < KVMM_NR_MOVE_MODES; mode++) {
		u32 nth = 1;

		while (run(nth, code, persistent, async, mode))
			nth += test_stride();
		cr_expect_gt(nth, 20, "%u", nth);
	}
}

Test(steps_fault, nothing_fails)
{
	cr_expect_eq(run(0, KCU_E_SUCCESS, false, false, KVMM_MOVE_BESIDE), false);
	cr_expect_eq(run(0, KCU_E_SUCCESS, false, false, KVMM_MOVE_BETWEEN), false);
}

TEST_CALL(steps_fault, any_call_may_be_out_of_memory_once,
	  fail_each(KCU_E_OUT_OF_MEMORY, false, false))
TEST_CALL(steps_fault, any_call_may_be_out_of_memory_from_then_on,
	  fail_each(KCU_E_OUT_OF_MEMORY, true, false))
TEST_CALL(steps_fault, any_call_may_be_refused_once, fail_each(KCU_E_INVALID_VALUE, false, false))
TEST_CALL(steps_fault, the_device_may_be_lost_at_any_call,
	  fail_each(KCU_E_LAUNCH_FAILED, true, false))
TEST_CALL(steps_fault, what_was_submitted_may_fail_when_it_runs,
	  fail_each(KCU_E_ILLEGAL_ADDRESS, false, true))
