// SPDX-License-Identifier: Apache-2.0
/*
 * A pool with classes when host memory runs out at the n-th allocation: made as a whole or not at
 * all; and nothing that evicts, demotes or tells needs any.
 */
#include <kv/rcu.h>

#include "tests/pool/class_util.h"
#include "tests/support/fault.h"

TestSuite(class_fault, .init = fault_begin, .fini = fault_end);

static int make(struct kvmm_pool **pool)
{
	struct kvmm_class classes[] = KVMM_PHASES(400);
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = KVMM_NR_PHASES, .run_window = 4, .pageblock_blocks = 4,
					 .default_class = KVMM_PHASE_OUTPUT_CRITICAL,
					 .protect_permille = 100 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 32, .policy = "priority",
				       .evict = &evict };

	return kvmm_pool_create(&attr, pool);
}

static struct kvmm_pool *make_in_the_end(u32 *nr_failed)
{
	struct kvmm_pool *pool;

	for (*nr_failed = 0;; ++*nr_failed) {
		u64 live;
		int err;

		kv_rcu_barrier();
		live = fake.nr_live;
		fake_env_fail(&fake, *nr_failed + 1, false);
		err = make(&pool);
		if (!fake_env_failed(&fake)) {
			fake_env_fail(&fake, 0, false);
			cr_assert_eq(err, 0);
			return pool;
		}
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", *nr_failed, err);
		cr_assert_eq(fake.nr_live, live, "allocation %u", *nr_failed);
	}
}

Test(class_fault, a_pool_with_classes_is_made_as_a_whole_or_not_at_all)
{
	u32 nr_failed;
	struct kvmm_pool *pool __cleanup(end_pool) = make_in_the_end(&nr_failed);

	cr_expect_geq(nr_failed, 20);
}

Test(class_fault, nothing_here_needs_memory)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 30 };
	struct kvmm_class_event event;
	struct kvmm_pool *pool;
	const u64 priority = 80;
	kvmm_ref_t ref[3];
	kvmm_mut_t mut[8];

	cr_assert_eq(make(&pool), 0);
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
	end_pool(pool);
}
