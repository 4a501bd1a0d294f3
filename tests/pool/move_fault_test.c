// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory runs out at any point of a call that readies a pool for moves: pins by type, checksums,
 * pace, background, streams, seals. Nothing has happened then, and the same call succeeds later.
 */
#include "tests/pool/util.h"
#include "tests/support/fault.h"

#define NR_REFS		4u
#define NR_BLOCKS	16u

struct scene {
	struct kvmm_pool *pool;
	kvmm_ref_t ref[NR_REFS];
	kvmm_range_t range;
	kvmm_stream_t stream;
};

/* What of the pool such a call may change. */
struct seen {
	struct kvmm_pin_stat pins;
	struct kvmm_verify_stat verify;
	struct kvmm_pace_stat pace;
	struct kvmm_background_stat background;
	struct kvmm_step_stat steps;
	char picture[NR_BLOCKS + 1];
};

TestSuite(move_fault, .init = fault_begin, .fini = fault_end);

static void open_scene(struct scene *scene)
{
	scene->pool = make_cache(NR_BLOCKS, "lru");
	register_keys(scene->pool, 0, NR_REFS, scene->ref);
	scene->range = take_seq(scene->pool, 3, 0, 'a');
}

static void close_scene(struct scene *scene)
{
	cr_expect_eq(kvmm_background_set(scene->pool, NULL), 0);
	end_pool(scene->pool);
}

static struct seen look(struct kvmm_pool *pool)
{
	struct seen seen = { 0 };

	kvmm_pin_get_stat(pool, &seen.pins);
	kvmm_verify_get_stat(pool, &seen.verify);
	kvmm_pace_get_stat(pool, &seen.pace);
	kvmm_background_get_stat(pool, &seen.background);
	kvmm_step_get_stat(pool, &seen.steps);
	strcpy(seen.picture, picture(pool));
	return seen;
}

/* ---- the calls ---- */

static int pin_blocks(struct scene *scene)
{
	return kvmm_pin_many_as(scene->pool, scene->ref, NR_REFS, KVMM_PIN_RDMA);
}

static int pin_range(struct scene *scene)
{
	return kvmm_range_pin_as(scene->pool, scene->range, KVMM_PIN_GDS);
}

static int verify(struct scene *scene)
{
	const struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 500 };

	return kvmm_verify_set(scene->pool, &attr);
}

static int pace(struct scene *scene)
{
	const struct kvmm_pace how = { .size = sizeof(how), .bytes_per_ms = 4096,
				       .bytes_per_step = 8192 };

	return kvmm_pace_set(scene->pool, &how);
}

static int background(struct scene *scene)
{
	const struct kvmm_background how = KVMM_BACKGROUND_INIT;

	return kvmm_background_set(scene->pool, &how);
}

static int add_stream(struct scene *scene)
{
	return kvmm_stream_add(scene->pool, NULL, KVMM_STREAM_TABLES, &scene->stream);
}

/* ---- each allocation of each of them ---- */

/* @pinned: pins by type are there already, so that fewer allocations are left to fail. */
static u32 fail_each(int (*call)(struct scene *), bool pinned)
{
	for (u32 n = 1;; n++) {
		struct scene scene;
		struct seen before, after;
		bool failed;
		int err;

		open_scene(&scene);
		if (pinned)
			cr_assert_eq(pin_blocks(&scene), 0);
		before = look(scene.pool);
		err = fault_at(n, call(&scene), &failed);
		cr_assert_eq(err, failed ? -ENOMEM : 0, "allocation %u: %d", n, err);
		if (failed) {
			after = look(scene.pool);
			cr_expect_arr_eq(&before, &after, sizeof(before), "allocation %u", n);
			cr_expect_eq(kvmm_validate(scene.pool), 0);
			cr_expect_eq(call(&scene), 0, "there is memory again");
		}
		close_scene(&scene);
		if (!failed)
			return n - 1;
	}
}

Test(move_fault, pins_by_type_are_all_there_or_none)
{
	cr_expect_eq(fail_each(pin_blocks, false), 1, "all counts are one piece");
	cr_expect_geq(fail_each(pin_range, false), 3);
	cr_expect_geq(fail_each(pin_range, true), 1, "counts of ranges are made for the first one");
}

Test(move_fault, what_is_set_is_as_it_was_without_memory)
{
	cr_expect_geq(fail_each(verify, false), 4);
	cr_expect_geq(fail_each(pace, false), 1);
	cr_expect_geq(fail_each(background, false), 1);
	cr_expect_geq(fail_each(add_stream, false), 1);
}

/* What was set before goes on as it was. */
Test(move_fault, pins_that_are_there_are_undone_without_memory)
{
	struct kvmm_pin_stat pins;
	struct scene scene;

	open_scene(&scene);
	cr_assert_eq(pin_blocks(&scene), 0);
	cr_assert_eq(pin_range(&scene), 0);
	cr_assert_eq(verify(&scene), 0);
	cr_assert_eq(pace(&scene), 0);
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_pin_many_as(scene.pool, scene.ref, NR_REFS, KVMM_PIN_IPC), 0);
	cr_expect_eq(kvmm_unpin_many_as(scene.pool, scene.ref, NR_REFS, KVMM_PIN_IPC), 0);
	cr_expect_eq(kvmm_unpin_many_as(scene.pool, scene.ref, NR_REFS, KVMM_PIN_RDMA), 0);
	cr_expect_eq(kvmm_range_unpin_as(scene.pool, scene.range, KVMM_PIN_GDS), 0);
	cr_expect_eq(verify(&scene), 0);
	cr_expect_eq(pace(&scene), 0);
	kvmm_verify_tick(scene.pool);
	cr_expect_not(fake_env_failed(&fake));
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(kvmm_pin_get_stat(scene.pool, &pins), 0);
	cr_expect_eq(pins.blocks[KVMM_PIN_RDMA] + pins.ranges[KVMM_PIN_GDS], 0);
	close_scene(&scene);
}

/* Leases of ranges, which count their pins, come 128 at a time: the pins so far stay counted. */
POOL_TEST(move_fault, pins_stay_when_their_table_cannot_grow, make_pool(300))
{
	struct kvmm_pin_stat pins;
	kvmm_range_t range[300];

	for (u32 i = 0; i < 256; i++)
		range[i] = take(pool, 1, 0);
	cr_assert_eq(kvmm_range_pin_as(pool, range[0], KVMM_PIN_GDS), 0);
	for (u32 i = 256; i < 300; i++)
		range[i] = take(pool, 1, 0);
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_range_pin_as(pool, range[127], KVMM_PIN_GDS), 0);
	cr_expect_eq(kvmm_range_pin_as(pool, range[299], KVMM_PIN_GDS), -ENOMEM);
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(kvmm_pin_get_stat(pool, &pins), 0);
	cr_expect_eq(pins.ranges[KVMM_PIN_GDS], 2);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_pin_as(pool, range[299], KVMM_PIN_GDS), 0);
	cr_expect_eq(kvmm_range_unpin_as(pool, range[0], KVMM_PIN_GDS), 0, "counted as before");
}
