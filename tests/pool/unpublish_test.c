// SPDX-License-Identifier: Apache-2.0
/* Registered blocks become private again. */
#include <kvmm/event.h>
#include <kvmm/ext/name.h>

#include "tests/pool/life_util.h"

POOL_TEST(unpublish, makes_the_only_holders_blocks_private_again, make_cache(8, "lru"))
{
	kvmm_ref_t ref[3];
	kvmm_mut_t mut[2];
	kvmm_weak_t weak;

	make_active(pool, 0, 3, ref);
	weak = kvmm_weak_of(ref[1]);
	cr_expect_eq(kvmm_unpublish(pool, ref, 2, mut), 0);
	cr_expect_str_eq(picture(pool), "PPA.....");
	cr_expect_eq(kvmm_block_of_mut(pool, mut[1]), 1);
	cr_expect_eq(found_under(pool, 1), -1);
	cr_expect_eq(found_under(pool, 2), 2);
	cr_expect_eq(kvmm_upgrade(pool, weak, &ref[1]), 0);
	cr_expect_eq(kvmm_put(pool, (kvmm_ref_t){ weak.index, weak.gen }), -ESTALE);
	/* They may be named again, as others. */
	cr_expect_eq(kvmm_register(pool, mut, keys_from(7, 2), 2, ref), 0);
	cr_expect_eq(found_under(pool, 8), 1);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(picture(pool), "III.....");
}

POOL_TEST(unpublish, is_refused_for_all_if_one_has_another_holder, make_cache(8, "lru"))
{
	kvmm_ref_t ref[3], twice[2];
	kvmm_mut_t mut[3];

	make_active(pool, 0, 3, ref);
	cr_expect_eq(kvmm_get(pool, ref[1]), 0);
	expect_refused(pool, kvmm_unpublish(pool, ref, 3, mut), -EBUSY);
	cr_expect_eq(kvmm_put(pool, ref[1]), 0);
	cr_expect_eq(kvmm_pin(pool, ref[2]), 0);
	cr_expect_eq(kvmm_put(pool, ref[2]), 0);
	expect_refused(pool, kvmm_unpublish(pool, ref, 3, mut), -EBUSY);
	cr_expect_eq(kvmm_get(pool, ref[2]), 0);
	cr_expect_eq(kvmm_unpin(pool, ref[2]), 0);
	twice[0] = twice[1] = ref[0];
	expect_refused(pool, kvmm_unpublish(pool, twice, 2, mut), -EINVAL);
	expect_refused(pool, kvmm_unpublish(pool, NULL, 1, mut), -EINVAL);
	expect_refused(pool, kvmm_unpublish(pool, ref, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_unpublish(pool, ref, 3, mut), 0);
	expect_refused(pool, kvmm_unpublish(pool, ref, 3, mut), -ESTALE);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

POOL_TEST(unpublish, refuses_handles_that_are_none, make_cache(8, "lru"))
{
	struct bad_handle bad[NR_BAD_HANDLES];
	kvmm_ref_t ref[2];
	kvmm_mut_t mut[2];

	make_active(pool, 0, 1, ref);
	bad_handles(pool, bad);
	for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
		memcpy(&ref[1], &bad[i].handle, sizeof(ref[1]));
		expect_refused(pool, kvmm_unpublish(pool, ref, 2, mut), bad[i].err);
	}
	make_private(pool, 1, mut);
	memcpy(&ref[1], mut, sizeof(ref[1]));
	expect_refused(pool, kvmm_unpublish(pool, ref, 2, mut), -EINVAL);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
	cr_expect_eq(kvmm_put(pool, ref[0]), 0);
	expect_refused(pool, kvmm_unpublish(pool, ref, 1, mut), -ESTALE);
}

POOL_TEST(unpublish, of_a_duplicate_lets_its_elder_go_idle, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t elder, dup;
	kvmm_mut_t mut;

	make_active(pool, 0, 1, &elder);
	cr_expect_eq(publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup), 1);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_str_eq(picture(pool), "AA......");
	cr_expect_eq(kvmm_unpublish(pool, &dup, 1, &mut), 0);
	cr_expect_str_eq(picture(pool), "IP......");
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(unpublish, of_the_oldest_leaves_the_name_to_the_next, make_cache(8, "lru"))
{
	kvmm_ref_t old, young;
	kvmm_mut_t mut;

	make_active(pool, 0, 1, &old);
	publish_as(pool, KVMM_DUP_ALLOW, 0, 1, &young);
	cr_expect_eq(kvmm_unpublish(pool, &old, 1, &mut), 0);
	cr_expect_eq(found_under(pool, 0), 1);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_put(pool, young), 0);
}

POOL_TEST(unpublish, of_a_block_without_name_keeps_it_from_going, make_cache(8, "lru"))
{
	kvmm_ref_t ref;
	kvmm_mut_t mut;
	u32 block = 0;

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_unpublish(pool, &ref, 1, &mut), 0);
	cr_expect_str_eq(picture(pool), "P.......");
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(unpublish, is_refused_in_the_last_life_of_a_handle, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2];
	kvmm_mut_t mut[2];
	u32 last = pool->entries.gen_last;

	make_active(pool, 0, 2, ref);
	pool->entries.gen_last = ref[1].gen;
	cr_expect_eq(kvmm_unpublish(pool, ref, 2, mut), -ENOSPC);
	pool->entries.gen_last = last;
	cr_expect_str_eq(refs_picture(pool), "11......");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

Test(unpublish, is_for_pools_that_cache)
{
	struct kvmm_pool *pool = make_pool(4);
	kvmm_ref_t ref = { 0, 1 };
	kvmm_mut_t mut;

	cr_expect_eq(kvmm_unpublish(NULL, &ref, 1, &mut), -EINVAL);
	cr_expect_eq(kvmm_unpublish(pool, &ref, 1, &mut), -EOPNOTSUPP);
	end_pool(pool);
}
