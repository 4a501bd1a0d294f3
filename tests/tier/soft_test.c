// SPDX-License-Identifier: Apache-2.0
/*
 * A pool on the software device: copies that take their time, and a driver that sees races.
 *
 * Device work runs when the test says so (ctl->run()), so what is on its way stays there.
 */
#include <kv/tier.h>

#include "pool/internal.h"
#include "tests/cuda/soft.h"
#include "tests/support/tier_wait.h"
#include "tests/tier/util.h"

#define NR_BLOCKS	16u
#define BYTES		4096u

struct scene {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_stream_t id;
	kcu_stream stream;
};

/* The engine's own memory: a block is two pieces, far apart. */
static struct kvmm_plane planes[2];

static struct kvmm_pool *make_soft_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .policy = "lru",
				       .nr_blocks = NR_BLOCKS };

	for (u32 i = 0; i < 2; i++) {
		planes[i].base = dev_alloc(NR_BLOCKS * BYTES / 2);
		planes[i].stride = planes[i].bytes = BYTES / 2;
	}
	attr.planes = planes;
	attr.nr_planes = 2;
	return make_pool_of(&attr);
}

static struct kvmm_tier *make_soft_tier(u32 nr_units)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .device = "soft:0",
				       .block_bytes = BYTES, .capacity_blocks = nr_units };

	return make_tier_of(&attr);
}

static void begin(struct scene *scene)
{
	start("");
	scene->stream = stream_new();
	scene->pool = make_soft_pool();
	scene->tier = make_soft_tier(NR_BLOCKS);
	cr_assert_eq(kvmm_stream_add(scene->pool, scene->stream, 0, &scene->id), 0);
	attach(scene->pool, scene->tier);
}

static void expect_no_races(void)
{
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		cr_expect_eq(ctl->nr_reports(i), 0, "%s", ctl->report(0));
}

static void end(struct scene *scene)
{
	cr_expect_eq(kvmm_stream_del(scene->pool, scene->id), 0);
	end_both(scene->pool, scene->tier);
	expect_no_races();
}

#define SCENE_TEST(name) TEST_ON(struct scene, s, begin(s), end(s), tier_soft, name)

static void poll_to_the_end(struct scene *scene)
{
	for (u32 i = 0; i < 100 && kvmm_tier_poll(scene->pool); i++)
		ctl->run();
	cr_assert_eq(kvmm_tier_poll(scene->pool), 0);
}

SCENE_TEST(content_goes_down_and_up)
{
	cache_blocks(s->pool, 1, 8);
	offload_keys(s->pool, 1, 8, KVMM_TIER_DROP);
	cr_expect_str_eq(answers(s->pool, 1, 9), "11111111-");
	cr_expect_eq(load_keys(s->pool, 1, 8), 0);
	cr_expect_gt(tier_of(s->tier).bytes_pinned, 0);
}

SCENE_TEST(what_has_been_looked_at_goes_down_without_another_tick)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };

	cr_assert_eq(kvmm_verify_set(s->pool, &verify), 0);
	cache_blocks(s->pool, 1, 8);
	cr_assert_eq(kvmm_verify_tick(s->pool), 0);
	ctl->run();
	offload_keys(s->pool, 1, 8, KVMM_TIER_DROP);
	cr_expect_str_eq(answers(s->pool, 1, 9), "11111111-");
}

Test(tier_soft, without_streams_and_without_a_promise_nothing_is_copied)
{
	struct kvmm_tier_client_attr attr = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 1 };
	struct kvmm_tier_load_args up = { .size = sizeof(up) };
	struct scene s;
	kvmm_tier_op_t op;
	kvmm_ref_t ref;

	start("");
	s.pool = make_soft_pool();
	s.tier = make_soft_tier(4);
	attach(s.pool, s.tier);
	make_blocks(s.pool, 1, 1, &ref);
	down.refs = &ref;
	up.prefix = prefix_of(1, 1);
	cr_expect_eq(kvmm_tier_offload(s.pool, &down, &op), -EINVAL);
	cr_expect_eq(kvmm_tier_load(s.pool, &up, &op), -EINVAL);
	cr_assert_eq(kvmm_put(s.pool, ref), 0);
	cr_assert_eq(kvmm_tier_detach(s.pool), 0);
	attr.flags = KVMM_TIER_COMPLETE;
	attach_as(s.pool, s.tier, &attr);
	offload_keys(s.pool, 1, 1, KVMM_TIER_DROP);
	cr_expect_eq(load_keys(s.pool, 1, 1), 0);
	end_both(s.pool, s.tier);
	expect_no_races();
}

/* The engine's stream waits for a word; calls that promise not to wait for the device do not. */
SCENE_TEST(work_that_does_not_end_holds_up_no_call_that_never_waits)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 4 };
	kcu_deviceptr word;
	kvmm_tier_op_t op[2];
	uint64_t epoch;
	kvmm_ref_t ref;

	cache_blocks(s->pool, 1, 6);
	word = dev_alloc(8);
	ok(cu.stream_write_value64(s->stream, word, 0, 0));
	finish(s->stream);
	ok(cu.stream_wait_value64(s->stream, word, 1, 0));
	cr_assert_eq(kvmm_step_begin(s->pool, s->id, &epoch), 0);
	cr_assert_eq(kvmm_step_end(s->pool, s->id, epoch), 0);
	cr_assert_eq(kvmm_prefix_match(s->pool, prefix_of(1, 1), &ref), 1);
	for (u32 i = 0; i < 2; i++)
		op[i] = begin_offload(s->pool, &ref, 1, 0);
	cr_expect_eq(tier_wait(s->pool, op[0], 20000000), -ETIMEDOUT);
	cr_expect_eq(kvmm_tier_abort(s->pool, op[1]), 0);
	cr_expect_eq(kvmm_put(s->pool, ref), 0);
	kvmm_compact_start(s->pool, &goal, KVMM_MOVE_BESIDE);
	for (u32 i = 0; i < 100; i++) {
		cr_expect_geq(kvmm_tier_poll(s->pool), 1, "the copy is under way");
		cr_expect_geq(kvmm_compact_poll(s->pool), 0);
		cr_expect_eq(kvmm_step_begin(s->pool, s->id, &epoch), 0);
		cr_expect_eq(kvmm_step_end(s->pool, s->id, epoch), 0);
	}
	cr_expect_eq(ctl->nr_reports(SW_REPORT_DEADLOCK), 0);
	cr_expect_eq(kvmm_validate(s->pool), 0);
	*(volatile u64 *)word = 1;
	cr_expect_eq(tier_wait(s->pool, op[0], 60000000000ull), 0);
	cr_expect_eq(result_of(s->pool, op[0], 1, NULL), 0);
	poll_to_the_end(s);
	kvmm_reset_inactive(s->pool);
	cr_expect_eq(load_keys(s->pool, 1, 1), 0);
}

/* With work on it, and again when all is done: nothing hangs, and nothing goes down in no order. */
Test(tier_soft, a_stream_that_the_engine_destroys_too_early_costs_its_step)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 1 };
	kvmm_tier_op_t op;
	uint64_t epoch;
	kvmm_ref_t ref;
	struct scene s;

	begin(&s);
	make_blocks(s.pool, 1, 1, &ref);
	down.refs = &ref;
	cr_assert_eq(kvmm_step_begin(s.pool, s.id, &epoch), 0);
	fill(dev_alloc(4096), 7, 4096, s.stream);
	cr_assert_eq(kvmm_step_end(s.pool, s.id, epoch), 0);
	cr_assert_eq(kvmm_step_begin(s.pool, s.id, &epoch), 0);
	ok(cu.stream_destroy(s.stream));
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(kvmm_step_end(s.pool, s.id, epoch), -EAGAIN, "it is still open");
		if (!kvmm_tier_offload(s.pool, &down, &op)) {
			struct kvmm_tier_result res = { .size = sizeof(res), .nr = 1 };

			cr_expect_eq(tier_wait(s.pool, op, 60000000000ull), 0);
			cr_expect(kvmm_tier_get_result(s.pool, op, &res) || res.nr_failed == 1);
		}
		ctl->run();
		kvmm_compact_poll(s.pool);
	}
	cr_expect(has_content(s.pool, ref, 1));
	cr_expect_str_eq(answers(s.pool, 1, 1), "0");
	cr_expect_eq(kvmm_stream_del(s.pool, s.id), -EBUSY);
	cr_expect_eq(kvmm_put(s.pool, ref), 0);
	end_both(s.pool, s.tier);
	expect_no_races();
}

static void evict_one(struct kvmm_pool *pool, u32 number)
{
	kvmm_ref_t ref;
	u32 block;

	cr_assert_eq(kvmm_prefix_match(pool, prefix_of(number, 1), &ref), 1);
	cr_assert_eq(kvmm_blocks_of_refs(pool, &ref, 1, &block), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
}

static const char *const call_of_path[KV_NR_PATHS] = {
	[KV_PATH_KERNEL] = "cuLaunchKernel",
	[KV_PATH_BATCH] = "cuMemcpyBatchAsync_v2",
	[KV_PATH_SINGLE] = "cuMemcpyDtoDAsync_v2",
};

/*
 * "P.P.P.P." becomes a run between steps, each copy of it fails, and another pool is told. Whether its
 * copy has failed or is under way, a block that was moved does not go down as good.
 */
static void send_down_what_failed(u32 path, bool is_over)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 1,
					       .flags = KVMM_TIER_DROP };
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 8 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .nr_blocks = 1,
				       .block_bytes = BYTES };
	struct kvmm_pool *other;
	kvmm_tier_op_t op;
	kvmm_ref_t ref;
	struct scene s;
	u8 byte = 1;
	int err;

	begin(&s);
	cr_assert_eq(kvmm_pool_create(&attr, &other), 0);
	cache_blocks(s.pool, 1, NR_BLOCKS);
	for (u32 i = 2; i <= NR_BLOCKS; i += 2)
		evict_one(s.pool, i);
	cr_assert_eq(s.pool->parts.dev->tune(s.pool->dev, KV_KNOB_PATH, path), 0);
	ctl->fail_rate(call_of_path[path], 1000, KCU_E_OUT_OF_MEMORY, true);
	cr_assert_eq(kvmm_compact_start(s.pool, &goal, KVMM_MOVE_BETWEEN), 0);
	ctl->fail_none();
	if (is_over)
		ctl->run();
	err = kvmm_block_write(other, 0, 0, &byte, 1);
	if (is_over)
		cr_expect_eq(err, -EIO, "it is told");
	for (u32 i = 1; i <= NR_BLOCKS; i += 2) {
		if (kvmm_prefix_match(s.pool, prefix_of(i, 1), &ref) != 1)
			continue;
		down.refs = &ref;
		if (!kvmm_tier_offload(s.pool, &down, &op)) {
			tier_wait(s.pool, op, 60000000000ull);
			result_of(s.pool, op, 1, NULL);
		}
		cr_assert_eq(kvmm_put(s.pool, ref), 0);
	}
	ctl->run();
	kvmm_compact_poll(s.pool);
	kvmm_reset_inactive(s.pool);
	for (u32 i = 1; i <= NR_BLOCKS; i += 2)
		load_keys(s.pool, i, 1);
	kvmm_pool_destroy(other);
	end(&s);
}

Test(tier_soft, what_a_failed_copy_between_steps_destroyed_does_not_go_down)
{
	for (u32 path = KV_PATH_AUTO + 1; path < KV_NR_PATHS; path++)
		send_down_what_failed(path, true);
}

Test(tier_soft, what_a_copy_between_steps_is_about_to_destroy_does_not_go_down)
{
	for (u32 path = KV_PATH_AUTO + 1; path < KV_NR_PATHS; path++)
		send_down_what_failed(path, false);
}

/* The engine writes the block on its stream, registers it at once, and sends it down at once. */
SCENE_TEST(a_copy_waits_for_the_last_writer)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 1 };
	kvmm_key_t key = key_of(1);
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u8 buf[BYTES];

	cr_assert_eq(kvmm_alloc(s->pool, 1, &mut), 0);
	for (u32 i = 0; i < 2; i++)
		fill(planes[i].base + kvmm_block_of_mut(s->pool, mut) * planes[i].stride, 0x5a,
		     planes[i].bytes, s->stream);
	cr_assert_eq(kvmm_register(s->pool, &mut, &key, 1, &ref), 0);
	down.refs = &ref;
	cr_assert_eq(kvmm_tier_offload(s->pool, &down, NULL), 0);
	cr_assert_gt(kvmm_tier_poll(s->pool), 0);
	poll_to_the_end(s);
	cr_assert_eq(kvmm_put(s->pool, ref), 0);
	cr_assert_eq(kvmm_reset_inactive(s->pool), 1);
	cr_expect_eq(load_keys_raw(s->pool, &key, 1, &ref), 0);
	cr_assert_eq(kvmm_block_read(s->pool, kvmm_block_of_ref(s->pool, ref), 0, buf, BYTES), 0);
	cr_expect(all_bytes(buf, 0x5a, BYTES));
}

SCENE_TEST(nothing_is_readable_before_its_copy_is_complete)
{
	kvmm_ref_t refs[2];
	kvmm_tier_op_t op;

	make_blocks(s->pool, 1, 2, refs);
	cr_assert_eq(kvmm_put_many(s->pool, refs, 2), 0);
	op = begin_offload(s->pool, refs, 2, 0);
	cr_expect_eq(kvmm_tier_poll(s->pool), 2);
	cr_expect_str_eq(tier_picture(s->tier), "ww..............");
	cr_expect_str_eq(picture(s->pool), "AA..............", "neither evicted nor moved");
	cr_expect_eq(client_of(s->pool).writing, 2);
	cr_expect_eq(kvmm_reset_inactive(s->pool), 0);
	cr_expect_eq(kvmm_validate(s->pool), 0);
	cr_expect_eq(result_of(s->pool, op, 2, NULL), -EAGAIN);
	ctl->run();
	cr_expect_eq(kvmm_tier_poll(s->pool), 0);
	cr_expect_eq(result_of(s->pool, op, 2, NULL), 0);
	cr_expect_str_eq(picture(s->pool), "II..............");
	cr_expect_str_eq(tier_picture(s->tier), "rr..............");
}

SCENE_TEST(the_second_caller_waits_for_the_same_copy)
{
	kvmm_ref_t a[3], b[2];
	kvmm_tier_op_t first, second;

	cache_blocks(s->pool, 1, 3);
	offload_keys(s->pool, 1, 3, KVMM_TIER_DROP);
	first = begin_load(s->pool, 1, 3);
	cr_expect_str_eq(picture(s->pool), "PPP.............");
	cr_expect_str_eq(answers(s->pool, 1, 4), "ppp-");
	cr_expect_str_eq(tier_picture(s->tier), "RRR.............");
	second = begin_load(s->pool, 2, 2);
	cr_expect_str_eq(picture(s->pool), "PPP.............", "no block is loaded twice");
	cr_expect_eq(client_of(s->pool).shared, 2);
	cr_expect_eq(kvmm_validate(s->pool), 0);
	poll_to_the_end(s);
	cr_expect_eq(result_of(s->pool, first, 3, a), 0);
	cr_expect_eq(result_of(s->pool, second, 2, b), 0);
	cr_expect_eq(a[1].index, b[0].index);
	cr_expect_eq(client_of(s->pool).loads, 3);
	cr_assert_eq(kvmm_put_many(s->pool, a, 3), 0);
	cr_expect_str_eq(picture(s->pool), "IAA.............");
	cr_assert_eq(kvmm_put_many(s->pool, b, 2), 0);
	cr_expect_str_eq(tier_picture(s->tier), "rrr.............");
}

SCENE_TEST(what_was_aborted_gives_everything_back)
{
	kvmm_tier_op_t op;

	cache_blocks(s->pool, 1, 3);
	offload_keys(s->pool, 1, 3, KVMM_TIER_DROP);
	op = begin_load(s->pool, 1, 3);
	cr_expect_eq(kvmm_tier_abort(s->pool, op), 0);
	cr_expect_eq(kvmm_tier_abort(s->pool, op), -ESTALE);
	cr_expect_eq(result_of(s->pool, op, 3, NULL), -ESTALE);
	cr_expect_str_eq(picture(s->pool), "PPP.............", "the device may still write there");
	cr_expect_str_eq(tier_picture(s->tier), "RRR.............");
	cr_expect_eq(kvmm_tier_detach(s->pool), -EBUSY);
	poll_to_the_end(s);
	cr_expect_str_eq(picture(s->pool), "................");
	cr_expect_str_eq(tier_picture(s->tier), "rrr.............");
	cr_expect_eq(client_of(s->pool).aborted, 1);
	cr_expect_eq(load_keys(s->pool, 1, 3), 0);
}

/* -EINVAL would be the caller's mistake, and the operation still there. */
SCENE_TEST(what_the_driver_calls_invalid_is_an_error_of_the_copy)
{
	kcu_context context;
	kvmm_tier_op_t op;
	int err;

	cache_blocks(s->pool, 1, 3);
	offload_keys(s->pool, 1, 3, KVMM_TIER_DROP);
	cr_assert_eq(cu.ctx_pop_current(&context), 0);
	cr_assert_eq(ctl->fail("cuCtxPushCurrent_v2", 1, KCU_E_INVALID_VALUE, false, false), 0);
	op = begin_load(s->pool, 1, 3);
	poll_to_the_end(s);
	cr_assert_eq(cu.ctx_push_current(context), 0);
	err = result_of(s->pool, op, 3, NULL);
	cr_expect_eq(err, -EIO, "%d", err);
	cr_expect_eq(result_of(s->pool, op, 3, NULL), -ESTALE);
}

/* Some calls are for what a pool can do without. */
Test(tier_soft, what_the_driver_calls_invalid_is_no_bad_attribute)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_tier_attr below = KVMM_TIER_ATTR_INIT;
	u32 nr_failed = 0;

	attr.device = below.device = "soft:0";
	attr.nr_blocks = below.capacity_blocks = NR_BLOCKS;
	attr.block_bytes = below.block_bytes = BYTES;
	start("");
	for (u32 nth = 1; nth <= 64; nth++) {
		struct kvmm_pool *pool = NULL;
		struct kvmm_tier *tier = NULL;
		int err;

		ctl->fail("*", nth, KCU_E_INVALID_VALUE, false, false);
		err = kvmm_pool_create(&attr, &pool);
		if (!err)
			err = kvmm_tier_host_create(&below, &tier);
		cr_expect(!err || err == -EIO || err == -ENODEV, "call %u: %d", nth, err);
		nr_failed += !!err;
		ctl->fail_none();
		kvmm_tier_destroy(tier);
		kvmm_pool_destroy(pool);
	}
	cr_expect_gt(nr_failed, 4);
}

SCENE_TEST(who_shares_a_copy_gets_it_though_the_other_has_given_up)
{
	kvmm_tier_op_t first, second;
	kvmm_ref_t refs[2];

	cache_blocks(s->pool, 1, 3);
	offload_keys(s->pool, 1, 3, KVMM_TIER_DROP);
	first = begin_load(s->pool, 1, 3);
	second = begin_load(s->pool, 2, 2);
	cr_expect_eq(kvmm_tier_abort(s->pool, first), 0);
	poll_to_the_end(s);
	cr_expect_eq(result_of(s->pool, second, 2, refs), 0);
	cr_expect(has_content(s->pool, refs[0], 2) && has_content(s->pool, refs[1], 3));
	cr_expect_str_eq(picture(s->pool), ".AA.............");
	cr_assert_eq(kvmm_put_many(s->pool, refs, 2), 0);
}

SCENE_TEST(who_joins_after_an_abort_gets_it)
{
	kvmm_tier_op_t op;
	kvmm_ref_t refs[3];

	cache_blocks(s->pool, 1, 3);
	offload_keys(s->pool, 1, 3, KVMM_TIER_DROP);
	cr_expect_eq(kvmm_tier_abort(s->pool, begin_load(s->pool, 1, 3)), 0);
	op = begin_load(s->pool, 1, 3);
	cr_expect_str_eq(picture(s->pool), "PPP.............");
	poll_to_the_end(s);
	cr_expect_eq(result_of(s->pool, op, 3, refs), 0);
	cr_assert_eq(kvmm_put_many(s->pool, refs, 3), 0);
}

/* The engine computes a block that is being loaded: its own is the one that is found. */
SCENE_TEST(what_was_computed_meanwhile_is_kept)
{
	kvmm_tier_op_t op;
	kvmm_ref_t own, refs[2];

	cache_blocks(s->pool, 1, 2);
	offload_keys(s->pool, 1, 2, KVMM_TIER_DROP);
	op = begin_load(s->pool, 1, 2);
	make_blocks(s->pool, 1, 1, &own);
	poll_to_the_end(s);
	cr_expect_eq(result_of(s->pool, op, 2, refs), 0);
	cr_expect_eq(refs[0].index, own.index);
	cr_expect_str_eq(picture(s->pool), ".AA.............");
	cr_assert_eq(kvmm_put_many(s->pool, refs, 2), 0);
	cr_assert_eq(kvmm_put(s->pool, own), 0);
}

Test(tier_soft, a_pool_may_go_while_copies_are_under_way)
{
	struct scene s;

	begin(&s);
	cache_blocks(s.pool, 1, 6);
	offload_keys(s.pool, 1, 3, KVMM_TIER_DROP);
	send_down(s.pool, 4, 3);
	cr_expect_eq(kvmm_tier_poll(s.pool), 3);
	begin_load(s.pool, 1, 3);
	cr_expect_not_null(strpbrk(tier_picture(s.tier), "Rw"));
	kvmm_pool_destroy(s.pool);
	cr_expect_null(strpbrk(tier_picture(s.tier), "Rw"));
	cr_expect_eq(kv_tier_check(s.tier), 0);
	kvmm_tier_destroy(s.tier);
	expect_no_races();
}

SCENE_TEST(a_descriptor_says_that_something_is_over)
{
	kvmm_tier_op_t op;
	kvmm_ref_t refs[2];
	int fd;

	fd = kvmm_tier_eventfd(s->pool);
	cr_assert_geq(fd, 0);
	cr_expect_eq(kvmm_tier_eventfd(s->pool), fd);
	cache_blocks(s->pool, 1, 2);
	offload_keys(s->pool, 1, 2, KVMM_TIER_DROP);
	cr_expect_not(is_readable(fd));
	op = begin_load(s->pool, 1, 2);
	cr_expect_not(is_readable(fd));
	poll_to_the_end(s);
	cr_expect(is_readable(fd));
	cr_expect_eq(result_of(s->pool, op, 2, refs), 0);
	cr_expect_not(is_readable(fd));
	cr_assert_eq(kvmm_put_many(s->pool, refs, 2), 0);
}
