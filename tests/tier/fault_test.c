// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that runs out, and a driver that fails: at the first call, at the second, and so on
 * until all goes well. What is readable is right, nothing is held, nothing is left behind.
 */
#include <kv/rcu.h>

#include "tests/cuda/soft.h"
#include "tests/support/fault.h"
#include "tests/support/length.h"
#include "tests/tier/util.h"

#define NR_BLOCKS	8u
#define BYTES		256u

TestSuite(tier_fault, .init = fault_begin, .fini = fault_end);

/* ---- host memory ---- */

/* True: one was refused, and so the call had to fail, and leave nothing. */
static bool refused(int err, u64 live)
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
	u64 live;
	u32 n;

	cr_assert_eq(kvmm_registry_create(&reg_attr, &reg), 0);
	pool_attr.registry = reg;
	pool = make_pool_of(&pool_attr);
	for (n = 1;; n++) {
		kv_rcu_barrier();
		live = fake.nr_live;
		fake_env_fail(&fake, n, false);
		if (!refused(kvmm_tier_host_create(&tier_attr, &tier), live))
			break;
	}
	cr_expect_gt(n, 5);
	for (n = 1;; n++) {
		kv_rcu_barrier();
		live = fake.nr_live;
		fake_env_fail(&fake, n, false);
		if (!refused(kvmm_tier_attach(pool, tier, &attr), live))
			break;
	}
	cr_expect_gt(n, 20);
	end_both(pool, tier);
	kvmm_registry_destroy(reg);
}

Test(tier_fault, operations_need_memory_before_anything_is_taken)
{
	struct kvmm_pool *pool = make_cache(NR_BLOCKS, "lru");
	struct kvmm_tier *tier = make_tier(NR_BLOCKS);
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .nr = 4 };
	struct kvmm_tier_load_args up = { .size = sizeof(up) };
	kvmm_ref_t refs[4];
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = 4, .refs = refs };
	kvmm_tier_op_t op;
	u32 n;

	attach(pool, tier);
	make_blocks(pool, 1, 4, refs);
	down.refs = refs;
	for (n = 1;; n++) {
		u64 live = fake.nr_live;

		fake_env_fail(&fake, n, false);
		if (!refused(kvmm_tier_offload(pool, &down, &op), live))
			break;
		cr_expect_eq(client_of(pool).queued, 0);
	}
	cr_expect_eq(n, 4);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(kvmm_tier_get_result(pool, op, &result), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 4);
	up.prefix = prefix_of(1, 4);
	for (n = 1;; n++) {
		u64 live = fake.nr_live;

		fake_env_fail(&fake, n, false);
		if (!refused(kvmm_tier_load(pool, &up, &op), live))
			break;
		cr_expect_str_eq(tier_picture(tier), "rrrr....");
		cr_expect_str_eq(picture(pool), "........");
	}
	cr_expect_eq(n, 5);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(kvmm_tier_get_result(pool, op, &result), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
	end_both(pool, tier);
}

/* ---- the driver ---- */

struct scene {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_stream_t id;
	bool has_stream;
};

static bool scene_init(struct scene *scene, kcu_stream stream)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_tier_attr tier = KVMM_TIER_ATTR_INIT;

	*scene = (struct scene){ 0 };
	attr.device = tier.device = "soft:0";
	attr.policy = "lru";
	attr.nr_blocks = tier.capacity_blocks = NR_BLOCKS;
	attr.block_bytes = tier.block_bytes = BYTES;
	tier.chunk_bytes = 4 * BYTES;
	config.write = KVMM_TIER_EXPLICIT;
	client.config = &config;
	client.batch_blocks = 3;
	scene->pool = make_pool_of(&attr);
	cache_blocks(scene->pool, 1, 6);
	if (kvmm_tier_host_create(&tier, &scene->tier))
		return false;
	attach_as(scene->pool, scene->tier, &client);
	scene->has_stream = !kvmm_stream_add(scene->pool, stream, 0, &scene->id);
	return true;
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

static u64 nr_calls(void)
{
	u64 nr = 0;

#define ADD(field, name, type, version)	nr += ctl->calls(#name);
	KCU_ALL(ADD)
	return nr;
}

/* Whether the failure came about. */
static bool run(u32 nth, kcu_result code, bool persistent, bool async)
{
	struct scene scene;
	kcu_stream stream;
	u64 before;
	bool struck, is_made, is_lost;

	start("");
	stream = stream_new();
	before = nr_calls();
	is_made = scene_init(&scene, stream);
	cr_assert(is_made);
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
	for (u32 i = 0; i < SW_NR_REPORT_KINDS && !is_lost; i++)
		if (i == SW_REPORT_RACE || i == SW_REPORT_IN_USE || i == SW_REPORT_DEADLOCK)
			cr_expect_eq(ctl->nr_reports(i), 0, "call %u, code %d: %s", nth, code,
				     ctl->report(0));
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
