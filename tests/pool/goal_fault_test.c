// SPDX-License-Identifier: Apache-2.0
/* Host memory runs out at any point of a plan, or of its beginning: nothing has happened then. */
#include "tests/pool/util.h"
#include "tests/support/fault.h"

TestSuite(goal_fault, .init = fault_begin, .fini = fault_end);

/* Three cached blocks that nobody references, and ranges of two extents. */
static struct kvmm_pool *scene(void)
{
	struct kvmm_alloc_attr alloc = { .size = sizeof(alloc), .costs = { .copy_block_ns = 100,
									   .drop_block_ns = 10 } };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 32,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .alloc = &alloc, .flags = KVMM_POOL_NO_MAGAZINES };
	kvmm_range_t hole[8];
	struct kvmm_pool *pool = make_pool_of(&attr);

	for (u32 i = 0; i < 8; i++) {
		cache_keys(pool, i, i % 2);
		take_seq(pool, 1, 0, 7);
		hole[i] = take(pool, 2, 0);
	}
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(kvmm_range_free(pool, hole[i]), 0);
	return pool;
}

static int try_goal(struct kvmm_pool *pool, u32 goal)
{
	static const u32 want[KVMM_NR_GOALS] = { 6, 3, 0, 0 };
	struct kvmm_compact_goal ask = { .size = sizeof(ask), .goal = goal, .want = want[goal],
					 .mode = KVMM_MOVE_BETWEEN,
					 .flags = KVMM_GOAL_DROP | KVMM_GOAL_CALM,
					 .pageblock_blocks = 4, .seq = 7 };
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

	return kvmm_compact_goal_start(pool, &ask, &plan);
}

static u32 fail_each(u32 goal)
{
	for (u32 n = 1;; n++) {
		struct kvmm_pool *pool = scene();
		struct kvmm_pool_stat before = stat_of(pool), after;
		char old[64];
		bool failed;
		int err;

		strcpy(old, picture(pool));
		err = fault_at(n, try_goal(pool, goal), &failed);
		cr_assert(err == 0 || err == -ENOMEM || err == -ENOSPC, "%u: %d", n, err);
		if (err == -ENOMEM) {
			after = stat_of(pool);
			cr_expect(failed);
			cr_expect_str_eq(picture(pool), old);
			cr_expect_eq(after.evictions, before.evictions);
			cr_expect_eq(after.nr_free, before.nr_free);
		}
		end_pool(pool);
		if (!failed)
			return n;
	}
}

Test(goal_fault, nothing_has_happened_without_host_memory)
{
	for (u32 goal = 0; goal < KVMM_NR_GOALS; goal++)
		cr_expect_gt(fail_each(goal), 3);
}
