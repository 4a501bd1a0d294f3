// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of a pool's own that is unmapped and mapped again, on the software driver: what is unmapped is
 * read by nobody, what is live keeps its content, and any call of the driver may fail.
 *
 * 64 blocks of 256 KiB, 8 to a unit of 2 MiB.
 */
#include "pool/internal.h"
#include "soft.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"

#define NR_BLOCKS	64u
#define NR_RANGES	16u
#define BLOCK_BYTES	(256ull << 10)
#define UNIT		(2ull << 20)
#define HEAD		64u	/* bytes of a block that are looked at */

struct scene {
	struct kvmm_pool *pool;
	kvmm_range_t range[NR_RANGES];
};

static u32 block_of(struct scene *scene, u32 i)
{
	struct kvmm_extent ext = { 0, 0 };

	cr_assert_eq(kvmm_range_extents(scene->pool, scene->range[i], &ext, 1), 1);
	return ext.start;
}

/* Every fourth block is held, each by a range of its own that is full of its number. */
static void fill_scene(struct scene *scene)
{
	kvmm_range_t hole[NR_RANGES];
	u8 buf[HEAD];

	for (u32 i = 0; i < NR_RANGES; i++) {
		cr_assert_eq(kvmm_range_alloc(scene->pool, 1, KVMM_RUNS(1), &scene->range[i]), 0);
		cr_assert_eq(kvmm_range_alloc(scene->pool, 3, KVMM_RUNS(1), &hole[i]), 0);
		memset(buf, 1 + i, HEAD);
		cr_assert_eq(kvmm_block_write(scene->pool, block_of(scene, i), 0, buf, HEAD), 0);
		cr_assert_eq(kvmm_range_seal(scene->pool, scene->range[i], 1), 0);
	}
	for (u32 i = 0; i < NR_RANGES; i++)
		cr_assert_eq(kvmm_range_free(scene->pool, hole[i]), 0);
}

static void scene_init(struct scene *scene)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BLOCK_BYTES,
				       .flags = KVMM_POOL_ELASTIC, .unit_bytes = UNIT };

	*scene = (struct scene){ 0 };
	cr_assert_eq(kvmm_pool_create(&attr, &scene->pool), 0);
	fill_scene(scene);
}

static u32 nr_readable(struct scene *scene)
{
	u32 nr = 0;
	u8 buf[HEAD];

	for (u32 i = 0; i < NR_RANGES; i++) {
		if (kvmm_block_read(scene->pool, block_of(scene, i), 0, buf, HEAD))
			continue;
		cr_expect(all_bytes(buf, 1 + i, HEAD), "range %u", i);
		nr++;
	}
	return nr;
}

static u32 nr_mapped(void)
{
	struct sw_live live;

	ctl->live(&live);
	return live.nr_mappings;
}

static struct kvmm_elastic_stat elastic_of_pool(struct kvmm_pool *pool)
{
	struct kvmm_elastic_stat stat;

	cr_assert_eq(kvmm_elastic_get_stat(pool, &stat), 0);
	return stat;
}

static u32 nr_free_of(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	return stat.nr_free;
}

static int shrink(struct kvmm_pool *pool, u64 bytes, u64 least, struct kvmm_shrink *req)
{
	*req = (struct kvmm_shrink){ .size = sizeof(*req), .bytes = bytes, .min_bytes = least };
	return kvmm_pool_shrink(pool, req);
}

static int grow(struct kvmm_pool *pool, u64 bytes)
{
	struct kvmm_regain req = { .size = sizeof(req), .bytes = bytes };

	return kvmm_pool_grow(pool, &req);
}

/* ---- what is unmapped ---- */

Test(soft_shrink, memory_goes_back_to_the_device_and_comes_again)
{
	struct scene scene;
	struct kvmm_shrink req;

	start("");
	scene_init(&scene);
	cr_expect_eq(nr_mapped(), 8);
	cr_expect_eq(shrink(scene.pool, 4 * UNIT, 0, &req), 0);
	cr_expect_eq(req.given_bytes, 4 * UNIT);
	cr_expect_eq(req.moved, 8);
	cr_expect_eq(nr_mapped(), 4);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	cr_expect_eq(grow(scene.pool, 3 * UNIT), 0);
	cr_expect_eq(nr_mapped(), 7);
	cr_expect_eq(nr_free_of(scene.pool), 7 * 8 - NR_RANGES);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	cr_expect_eq(elastic_of_pool(scene.pool).given_bytes, UNIT);
	kvmm_pool_destroy(scene.pool);
	cr_expect_eq(nr_mapped(), 0);
	soft_expect_quiet();
}

Test(soft_shrink, who_reads_what_is_unmapped_is_caught)
{
	struct scene scene;
	struct kvmm_shrink req;
	u8 buf[HEAD];
	u64 addr;

	start("");
	scene_init(&scene);
	cr_expect_eq(shrink(scene.pool, UNIT, 0, &req), 0);
	addr = scene.pool->own_addr + 7 * UNIT;
	cr_expect_eq(kvmm_block_read(scene.pool, NR_BLOCKS - 1, 0, buf, HEAD), -ENXIO);
	cr_expect_neq(cu.memcpy_async((u64)(uintptr_t)buf, addr, HEAD, stream_new()), KCU_E_SUCCESS);
}

/* A step that reads the block that leaves is on its way: nothing is unmapped before it is through. */
Test(soft_shrink, beside_steps_nothing_is_unmapped_that_is_still_read)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 4 * UNIT };
	struct scene scene;
	kvmm_stream_t id;
	kcu_stream stream;
	uint64_t epoch;
	void *buf;
	int ret = 1;

	start("");
	scene_init(&scene);
	stream = stream_new();
	buf = host_alloc(BLOCK_BYTES);
	cr_assert_eq(kvmm_stream_add(scene.pool, stream, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(scene.pool, id, &epoch), 0);
	for (u32 i = 0; i < NR_RANGES; i++)
		ok(cu.memcpy_dtoh_async(buf, scene.pool->own_addr + block_of(&scene, i) * BLOCK_BYTES,
					HEAD, stream));
	cr_expect_eq(kvmm_pool_shrink_start(scene.pool, &req, KVMM_MOVE_BESIDE), 0);
	for (u32 i = 0; i < 8; i++)
		cr_expect_eq(kvmm_pool_shrink_poll(scene.pool, NULL), 1);
	cr_expect_eq(nr_mapped(), 8);
	cr_assert_eq(kvmm_step_end(scene.pool, id, epoch), 0);
	for (u32 i = 0; i < 64 && ret == 1; i++) {
		ctl->run();
		ret = kvmm_pool_shrink_poll(scene.pool, &req);
	}
	cr_expect_eq(ret, 0);
	cr_expect_eq(req.given_bytes, 4 * UNIT);
	cr_expect_eq(nr_mapped(), 4);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	cr_expect_eq(kvmm_stream_del(scene.pool, id), 0);
	kvmm_pool_destroy(scene.pool);
	soft_expect_quiet();
}

/* Its owner gave it back while a step reads it: nothing has to move, and still it has to wait. */
Test(soft_shrink, what_was_freed_under_a_step_is_kept_until_that_has_ended)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = UNIT };
	struct scene scene;
	kvmm_stream_t id;
	kcu_stream stream;
	uint64_t epoch;
	void *buf;
	int ret = 1;

	start("");
	scene_init(&scene);
	stream = stream_new();
	buf = host_alloc(HEAD);
	cr_assert_eq(kvmm_stream_add(scene.pool, stream, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(scene.pool, id, &epoch), 0);
	for (u32 i = NR_RANGES - 2; i < NR_RANGES; i++) {
		ok(cu.memcpy_dtoh_async(buf, scene.pool->own_addr + block_of(&scene, i) * BLOCK_BYTES,
					HEAD, stream));
		cr_assert_eq(kvmm_range_free(scene.pool, scene.range[i]), 0);
	}
	cr_expect_eq(kvmm_pool_shrink_start(scene.pool, &req, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_pool_shrink_poll(scene.pool, NULL), 1);
	cr_expect_eq(nr_mapped(), 8);
	cr_assert_eq(kvmm_step_end(scene.pool, id, epoch), 0);
	for (u32 i = 0; i < 64 && ret == 1; i++)
		ret = kvmm_pool_shrink_poll(scene.pool, NULL);
	ctl->run();
	cr_expect_eq(kvmm_pool_shrink_poll(scene.pool, NULL), 0);
	cr_expect_eq(nr_mapped(), 7);
	kvmm_pool_destroy(scene.pool);
	soft_expect_quiet();
}

/* Were it unmapped at once, the checker would say so. */
Test(soft_shrink, unmapping_under_a_reader_is_noticed)
{
	struct scene scene;
	kcu_stream stream;
	void *buf;

	start("");
	scene_init(&scene);
	stream = stream_new();
	buf = host_alloc(BLOCK_BYTES);
	ok(cu.memcpy_dtoh_async(buf, scene.pool->own_addr, HEAD, stream));
	scene.pool->parts.dev->area_shrink(scene.pool->area, 0, UNIT);
	ctl->run();
	cr_expect_gt(ctl->nr_reports(SW_REPORT_IN_USE), 0);
}

/* ---- what fails ---- */

Test(soft_shrink, a_device_that_has_no_memory_left_changes_nothing)
{
	struct scene scene;
	struct kvmm_shrink req;

	start("");
	scene_init(&scene);
	cr_expect_eq(shrink(scene.pool, 4 * UNIT, 0, &req), 0);
	cr_assert_eq(ctl->fail("cuMemCreate", 3, KCU_E_OUT_OF_MEMORY, true, false), 0);
	cr_expect_eq(grow(scene.pool, 4 * UNIT), -ENOMEM);
	cr_expect_eq(nr_mapped(), 4);
	cr_expect_eq(elastic_of_pool(scene.pool).given_bytes, 4 * UNIT);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	ctl->fail_none();
	cr_expect_eq(grow(scene.pool, 4 * UNIT), 0);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	kvmm_pool_destroy(scene.pool);
	soft_expect_quiet();
}

Test(soft_shrink, what_the_driver_does_not_unmap_is_stuck_and_the_rest_is_there)
{
	struct scene scene;
	struct kvmm_shrink req;

	start("");
	scene_init(&scene);
	cr_assert_eq(ctl->fail("cuMemUnmap", 2, KCU_E_INVALID_VALUE, false, false), 0);
	cr_expect_eq(shrink(scene.pool, 4 * UNIT, 0, &req), -EIO);
	cr_expect_eq(elastic_of_pool(scene.pool).stuck_bytes, UNIT);
	cr_expect_eq(elastic_of_pool(scene.pool).given_bytes, 0);
	cr_expect_eq(nr_free_of(scene.pool), 7 * 8 - NR_RANGES);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	cr_expect_eq(shrink(scene.pool, 4 * UNIT, 0, &req), 0);
	cr_expect_eq(grow(scene.pool, 0), 0);
	cr_expect_eq(nr_free_of(scene.pool), 7 * 8 - NR_RANGES);
	kvmm_pool_destroy(scene.pool);
}

Test(soft_shrink, who_is_content_with_less_keeps_it)
{
	struct scene scene;
	struct kvmm_shrink req;

	start("");
	scene_init(&scene);
	cr_assert_eq(ctl->fail("cuMemUnmap", 2, KCU_E_INVALID_VALUE, false, false), 0);
	cr_expect_eq(shrink(scene.pool, 4 * UNIT, UNIT, &req), 0);
	cr_expect_eq(req.given_bytes, 3 * UNIT);
	cr_expect_eq(elastic_of_pool(scene.pool).stuck_bytes, UNIT);
	cr_expect_eq(nr_readable(&scene), NR_RANGES);
	cr_expect_eq(kvmm_validate(scene.pool), 0);
	kvmm_pool_destroy(scene.pool);
}

/* Errors are allowed; what they leave behind is looked at later. */
static void act(struct scene *scene, kcu_stream stream)
{
	struct kvmm_shrink req;
	kvmm_stream_t id;
	uint64_t epoch;

	shrink(scene->pool, 2 * UNIT, 0, &req);
	if (kvmm_stream_add(scene->pool, stream, 0, &id))
		return;
	req = (struct kvmm_shrink){ .size = sizeof(req), .bytes = 2 * UNIT, .min_bytes = UNIT };
	kvmm_pool_shrink_start(scene->pool, &req, KVMM_MOVE_BESIDE);
	for (u32 i = 0; i < 6; i++) {
		bool open = !kvmm_step_begin(scene->pool, id, &epoch);

		if (open && kvmm_step_end(scene->pool, id, epoch))
			kvmm_step_end(scene->pool, id, epoch);
		ctl->run();
		kvmm_pool_shrink_poll(scene->pool, NULL);
	}
	kvmm_pool_shrink_cancel(scene->pool);
	grow(scene->pool, UNIT);
	kvmm_stream_del(scene->pool, id);
}

/* Whether the failure came about. */
static bool run(u32 nth, kcu_result code, bool persistent)
{
	struct kvmm_elastic_stat elastic;
	struct kvmm_step_stat steps;
	struct scene scene;
	kcu_stream stream;
	u64 before;
	bool struck;
	u32 nr;

	start("");
	stream = stream_new();
	scene_init(&scene);
	before = nr_calls();
	if (nth)
		cr_assert_eq(ctl->fail("*", nth, code, persistent, false), 0);
	act(&scene, stream);
	struck = nth && nr_calls() >= before + nth;
	ctl->fail_none();
	ctl->run();
	for (u32 i = 0; i < 4; i++)
		kvmm_compact_poll(scene.pool);
	cr_expect_eq(kvmm_validate(scene.pool), 0, "call %u", nth);
	nr = nr_readable(&scene);
	cr_expect(nr == NR_RANGES || (kcu_class_of(code) == KCU_FATAL && !nr) || persistent, "%u", nr);
	elastic = elastic_of_pool(scene.pool);
	cr_assert_eq(kvmm_step_get_stat(scene.pool, &steps), 0);
	nr = steps.unseen_blocks + steps.limbo_blocks;
	cr_expect(!nr || kcu_class_of(code) == KCU_FATAL, "call %u", nth);
	cr_expect_eq(nr_free_of(scene.pool) + NR_RANGES + elastic.away_blocks + nr, NR_BLOCKS,
		     "call %u, code %d: lost", nth, code);
	kvmm_pool_destroy(scene.pool);
	expect_no_races(nth, code);
	ctl->reset("");
	return struck;
}

static void fail_each(kcu_result code, bool persistent)
{
	u32 nth = 1;

	while (run(nth, code, persistent))
		nth += test_stride();
	cr_expect_gt(nth, 40, "%u", nth);
}

TEST_CALL(soft_shrink, nothing_fails, cr_expect_eq(run(0, KCU_E_SUCCESS, false), false))
TEST_CALL(soft_shrink, any_call_may_be_refused_once, fail_each(KCU_E_INVALID_VALUE, false))
TEST_CALL(soft_shrink, any_call_may_be_out_of_memory_from_then_on,
	  fail_each(KCU_E_OUT_OF_MEMORY, true))
TEST_CALL(soft_shrink, the_device_may_be_lost_at_any_call, fail_each(KCU_E_LAUNCH_FAILED, true))
