// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that runs out, and a driver that fails: at the first call, at the second, and so on
 * until all goes well. What is readable is right, nothing is held, nothing is left behind.
 */
#include <kv/rcu.h>

#include "tests/cuda/soft.h"
#include "tests/support/fault.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"
#include "tests/tier/util.h"

#define NR_BLOCKS	8u
#define BYTES		256u

TestSuite(tier_fault, .init = fault_begin, .fini = fault_end);

/* ---- host memory ---- */

static u64 live;

static void refuse(u32 nth)
{
	kv_rcu_barrier();
	live = fake.nr_live;
	fake_env_fail(&fake, nth, false);
}

/* True: one was refused, and so the call had to fail, and leave nothing. */
static bool was_refused(int err)
{
	bool failed = fake_env_failed(&fake);

	fake_env_fail(&fake, 0, false);
	if (!failed) {
		cr_assert_eq(err, 0, "%d", err);
		return false;
	}
	kv_rcu_barrier();
	cr_expect_eq(err, -ENOMEM, "%d", err);
	cr_expect_eq(fake.nr_live, live);
	return true;
}

Test(tier_fault, a_tier_is_made_and_attached_as_a_whole_or_not_at_all)
{
	struct kvmm_tier_client_attr attr = { .size = sizeof(attr), .registry_tier = 1 };
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr pool_attr = { .size = sizeof(pool_attr), .nr_blocks = NR_BLOCKS,
					    .policy = "lru", .block_bytes = BYTES };
	struct kvmm_tier_attr tier_attr = { .size = sizeof(tier_attr), .numa_node = -1,
					    .capacity_blocks = NR_BLOCKS, .block_bytes = BYTES };
	struct kvmm_registry *reg;
	struct kvmm_tier *tier;
	struct kvmm_pool *pool;
	u32 n;

	cr_assert_eq(kvmm_registry_create(&reg_attr, &reg), 0);
	pool_attr.registry = reg;
	pool = make_pool_of(&pool_attr);
	for (n = 1; refuse(n), was_refused(kvmm_tier_host_create(&tier_attr, &tier)); n++)
		;
	cr_expect_gt(n, 5);
	for (n = 1; refuse(n), was_refused(kvmm_tier_attach(pool, tier, &attr)); n++)
		;
	cr_expect_gt(n, 20);
	end_both(pool, tier);
	kvmm_registry_destroy(reg);
}

TIER_TEST(tier_fault, operations_need_memory_before_anything_is_taken, NR_BLOCKS, NR_BLOCKS)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 4 };
	struct kvmm_tier_load_args up = { .size = sizeof(up) };
	kvmm_ref_t refs[4];
	kvmm_tier_op_t op;
	u32 n;

	make_blocks(pool, 1, 4, refs);
	down.refs = refs;
	for (n = 1; refuse(n), was_refused(kvmm_tier_offload(pool, &down, &op)); n++)
		cr_expect_eq(client_of(pool).queued, 0);
	cr_expect_eq(n, 4);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(result_of(pool, op, 4, refs), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 4);
	up.prefix = prefix_of(1, 4);
	for (n = 1; refuse(n), was_refused(kvmm_tier_load(pool, &up, &op)); n++) {
		cr_expect_str_eq(tier_picture(tier), "rrrr....");
		cr_expect_str_eq(picture(pool), "........");
	}
	cr_expect_eq(n, 5);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(result_of(pool, op, 4, refs), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
}

/* ---- the driver ---- */

struct scene {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
};

static void scene_init(struct scene *scene, kcu_stream stream)
{
	struct both both = both_of(NR_BLOCKS, NR_BLOCKS);
	kvmm_stream_t id;

	both.attr.device = both.host.device = "soft:0";
	both.attr.block_bytes = both.host.block_bytes = BYTES;
	both.host.chunk_bytes = 4 * BYTES;
	both.client.batch_blocks = 3;
	both_make(&both);
	*scene = (struct scene){ both.pool, both.tier };
	cache_blocks(scene->pool, 1, 6);
	cr_assert_eq(kvmm_stream_add(scene->pool, stream, 0, &id), 0);
}

static void poll(struct scene *scene)
{
	for (u32 i = 0; i < 4; i++) {
		kvmm_tier_poll(scene->pool);
		ctl->run();
	}
	kvmm_tier_poll(scene->pool);
}

/* Errors are allowed; what they leave behind is looked at later. */
static void act(struct scene *scene)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .flags = KVMM_TIER_DROP };
	struct kvmm_tier_load_args up = { .size = sizeof(up) };
	kvmm_ref_t refs[6];
	kvmm_tier_op_t op;

	kvmm_tier_tick(scene->tier);
	down.nr = kvmm_prefix_match(scene->pool, prefix_of(1, 6), refs);
	down.refs = refs;
	cr_assert_eq(kvmm_put_many(scene->pool, refs, down.nr), 0);
	if (!kvmm_tier_offload(scene->pool, &down, &op))
		poll(scene);
	up.prefix = prefix_of(1, 2);
	kvmm_tier_load(scene->pool, &up, &op);
	up.prefix = prefix_of(2, 4);
	kvmm_tier_load(scene->pool, &up, &op);
	poll(scene);
}

static void check_content(struct scene *scene, bool may_be_lost)
{
	for (u32 i = 1; i <= 6; i++) {
		kvmm_ref_t ref;
		u8 buf[BYTES];

		if (kvmm_prefix_match(scene->pool, prefix_of(i, 1), &ref) != 1)
			continue;
		if (!kvmm_block_read(scene->pool, kvmm_block_of_ref(scene->pool, ref), 0, buf, BYTES))
			cr_expect(has_content(scene->pool, ref, i), "key %u", i);
		else
			cr_expect(may_be_lost);
		cr_assert_eq(kvmm_put(scene->pool, ref), 0);
	}
}

/* With a driver that works again, unless the device is lost: everything is given back. */
static void check_scene(struct scene *scene, bool may_be_lost)
{
	struct kvmm_tier_stat stat;

	poll(scene);
	check_content(scene, may_be_lost);
	kvmm_tier_abort_all(scene->pool);
	poll(scene);
	cr_expect_eq(kvmm_tier_poll(scene->pool), 0);
	cr_expect_eq(kvmm_validate(scene->pool), 0);
	stat = tier_of(scene->tier);
	cr_expect_eq(stat.writing, 0);
	cr_expect_eq(stat.pinned, 0);
	cr_expect_eq(stat_of(scene->pool).nr_state[KVMM_BLOCK_PRIVATE], 0);
	cr_expect_eq(stat_of(scene->pool).nr_state[KVMM_BLOCK_ACTIVE], 0);
	for (u32 i = 1; !may_be_lost && i <= 6; i++)
		load_keys(scene->pool, i, 1);
}

/* Whether the failure came about. */
static bool run(u32 nth, kcu_result code, bool persistent, bool async)
{
	struct scene scene;
	kcu_stream stream;
	u64 before;
	bool struck, is_lost;

	start("");
	stream = stream_new();
	scene_init(&scene, stream);
	before = nr_calls();
	if (nth)
		cr_assert_eq(ctl->fail("*", nth, code, persistent, async), 0);
	act(&scene);
	struck = nth && nr_calls() >= before + nth;
	is_lost = struck && (persistent || kcu_class_of(code) == KCU_FATAL);
	ctl->fail_none();
	check_scene(&scene, is_lost);
	kvmm_pool_destroy(scene.pool);
	kvmm_tier_destroy(scene.tier);
	/* A lost device writes nothing any more; the software one, which only says that it is, does. */
	if (!is_lost)
		expect_no_races(nth, code);
	ctl->reset("");
	kv_rcu_barrier();
	return struck;
}

static void fail_each(kcu_result code, bool persistent, bool async)
{
	u32 nth = 1;

	while (run(nth, code, persistent, async))
		nth += test_stride();
	cr_expect_gt(nth, 20, "%u", nth);
}

TEST_CALL(tier_fault, nothing_fails, cr_expect_eq(run(0, KCU_E_SUCCESS, false, false), false))
TEST_CALL(tier_fault, any_call_may_be_out_of_memory_once,
	  fail_each(KCU_E_OUT_OF_MEMORY, false, false))
TEST_CALL(tier_fault, any_call_may_be_refused_from_then_on,
	  fail_each(KCU_E_INVALID_VALUE, true, false))
TEST_CALL(tier_fault, the_device_may_be_lost_at_any_call,
	  fail_each(KCU_E_LAUNCH_FAILED, true, false))
TEST_CALL(tier_fault, what_was_submitted_may_fail_when_it_runs,
	  fail_each(KCU_E_ILLEGAL_ADDRESS, false, true))
