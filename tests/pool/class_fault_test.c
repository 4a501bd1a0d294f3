// SPDX-License-Identifier: Apache-2.0
/*
 * A pool with classes when host memory runs out at the n-th allocation: made as a whole or not at
 * all; and nothing that evicts, demotes or tells needs any.
 */
#include "tests/pool/class_util.h"
#include "tests/support/fault.h"

TestSuite(class_fault, .init = fault_begin, .fini = fault_end);

static const struct kvmm_class classes[] = KVMM_PHASES(400);

static const struct kvmm_evict_attr evict = {
	.size = sizeof(evict), .classes = classes, .nr_classes = KVMM_NR_PHASES, .run_window = 4,
	.pageblock_blocks = 4, .default_class = KVMM_PHASE_OUTPUT_CRITICAL, .protect_permille = 100,
};

static const struct kvmm_pool_attr attr = {
	.size = sizeof(attr), .nr_blocks = 32, .policy = "priority", .evict = &evict,
};

Test(class_fault, a_pool_with_classes_is_made_as_a_whole_or_not_at_all)
{
	struct kvmm_pool *pool;

	cr_expect_geq(fault_create(&attr, &pool), 20);
	end_pool(pool);
}

POOL_TEST(class_fault, nothing_here_needs_memory, make_pool_of(&attr))
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 30 };
	struct kvmm_class_event event;
	const u64 priority = 80;
	kvmm_ref_t ref[3];
	kvmm_mut_t mut[8];

	for (u32 i = 0; i < 3; i++)
		ref[i] = fill(pool, 'a' + i, KVMM_PHASE_OUTPUT_CRITICAL);
	fill_all(pool, "defghijklmnopqrstuvwxyz", KVMM_PHASE_OUTPUT_CRITICAL);
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_set_owner(pool, ref, 3, 9), 0);
	cr_expect_eq(kvmm_advise_many(pool, ref, KVMM_ADVISE_PRIORITY, &priority, 1), 0);
	cr_expect_eq(kvmm_class_set(pool, ref, 1, KVMM_PHASE_ACTIVE_THOUGHT), 0);
	cr_expect_eq(kvmm_demote_owner(pool, 9, KVMM_PHASE_FINISHED_THOUGHT), 3);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_eq(kvmm_alloc(pool, 8, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, 8), 0);
	cr_expect_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_eq(kvmm_class_events(pool, &event, 1, NULL), 1);
	cr_expect_not(fake_env_failed(&fake));
	fake_env_fail(&fake, 0, false);
}
