// SPDX-License-Identifier: Apache-2.0
/* Magazines where few blocks are free: behind watermarks, and in a full cache. */
#include <kvmm/ext/admission.h>
#include <kvmm/ext/evict.h>

#include "tests/pool/mag_util.h"

#define MAG_TEST(name)		MAG_TEST_OF(mag_full, name)

/* ---- behind watermarks ---- */

/* What is aside counts as free: exactly so many are handed out, wherever they are. */
MAG_TEST(watermarks_are_kept_to_the_block)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	struct kvmm_watermarks marks = { 8, 16, 32 };
	struct kvmm_alloc_ctl urgent = { .size = sizeof(urgent), .nr = 1,
					 .flags = KVMM_ALLOC_URGENT };
	u32 nr;

	load_one(pool);
	start_other();
	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_expect_geq(zone_free(pool), marks.low);
	for (nr = 0; !kvmm_alloc(pool, 1, &mut[nr]); nr++)
		cr_assert(!nr_aside(pool) || zone_free(pool) >= marks.low);
	cr_expect_eq(nr, NR_BLOCKS - marks.low);
	cr_expect_eq(kvmm_validate(pool), 0);
	while (!kvmm_alloc_as(pool, &urgent, &mut[nr]))
		nr++;
	cr_expect_eq(nr, NR_BLOCKS);
	cr_expect_eq(kvmm_free(pool, mut, nr), 0);
	end_other();
}

MAG_TEST(what_is_aside_is_free_for_a_reclaim)
{
	struct kvmm_watermarks marks = { 8, 16, 32 };
	struct kvmm_reclaim_args req = { .size = sizeof(req) };

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	load_one(pool);
	cr_expect_eq(kvmm_reclaim(pool, &req), 0);
	cr_expect_eq(req.nr_free, NR_BLOCKS);
}

MAG_TEST(single_blocks_behind_watermarks_need_no_lock)
{
	struct kvmm_watermarks marks = { 8, 16, 32 };
	kvmm_mut_t mut[MAG_ROUNDS];

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	load_one(pool);
	kv_lock(&pool->lock);
	for (u32 i = 0; i < MAG_ROUNDS; i++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
	cr_assert_eq(kvmm_free(pool, mut, MAG_ROUNDS), 0);
	kv_unlock(&pool->lock);
}

/* The mark is raised: blocks that are aside go to the zone if that has fewer. */
MAG_TEST(a_mark_beyond_what_the_zone_has_takes_blocks_back)
{
	struct kvmm_watermarks marks = { 8, 16, 32 };
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	load_one(pool);
	marks = (struct kvmm_watermarks){ 8, NR_BLOCKS - 16, NR_BLOCKS };
	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_expect_eq(nr_aside(pool), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < 16; i++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), -ENOSPC);
}

MAG_TEST(promised_blocks_are_not_kept_aside)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = NR_BLOCKS - 100 };
	kvmm_promise_t promise;
	kvmm_mut_t mut;
	u32 nr = 0;

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	while (!kvmm_alloc(pool, 1, &mut))
		nr++;
	cr_expect_eq(nr, 100);
	cr_expect_eq(nr_aside(pool), 0);
}

/* ---- in a full cache ---- */

#define NR_MANY		16384u		/* enough to have some to spare */

static struct kvmm_pool *full_cache(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_MANY,
				       .policy = "lru" };
	struct kvmm_pool *full = make_pool_of(&attr);

	for (u32 i = 0; i < NR_MANY; i += 512)
		cache_keys(full, i, 512);
	return full;
}

static u32 nr_cached(u32 first, u32 end)
{
	u32 nr = 0;

	for (; first < end; first++) {
		kvmm_key_t key = key_of(first);

		nr += kvmm_match_len(pool, &key, 1);
	}
	return nr;
}

/* A batch is evicted at a time: the oldest ones, and no more than may be aside. */
Test(mag_full, single_blocks_of_a_full_cache_need_no_lock)
{
	kvmm_mut_t mut[4 * MAG_ROUNDS];
	u32 nr = 1;

	pool = full_cache();
	cr_expect_geq(pool->spare, MAG_ENTRIES);
	cr_assert_eq(kvmm_alloc(pool, 1, mut), 0);
	kv_lock(&pool->lock);
	for (; nr <= MAG_ROUNDS; nr++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[nr]), 0);
	kv_unlock(&pool->lock);
	for (; nr < ARRAY_SIZE(mut); nr++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[nr]), 0);
	cr_expect_eq(stat_of(pool).nr_available, NR_MANY - nr);
	cr_expect_leq(stat_of(pool).evictions, nr + MAG_ROUNDS);
	/* The first 512 went into the order at once. */
	cr_expect_eq(nr_cached(0, 512), 512 - stat_of(pool).evictions);
	end_pool(pool);
}

static struct kv_map_ops looking;
static u32 nr_looks;

/*
 * Names go for a magazine, within a change of it: one that began within that would look even. One
 * name goes for a request itself.
 */
static int remove_and_look(struct kv_map *map, const struct kv_handle *handles, u32 *nr)
{
	if (*nr > 1) {
		cr_expect_eq(pool->mag_seq % 2, 1, "readers are to come again");
		nr_looks++;
	}
	return kv_map_flat.remove(map, handles, nr);
}

/* Another thread has a batch aside: it stays there. */
Test(mag_full, a_batch_is_evicted_within_one_change_that_readers_see)
{
	kvmm_mut_t mut[2 * MAG_ROUNDS];

	pool = full_cache();
	start_other();
	nr_looks = 0;
	looking = *pool->map->ops;
	looking.remove = remove_and_look;
	pool->map->ops = &looking;
	for (u32 i = 0; i < ARRAY_SIZE(mut); i++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
	pool->map->ops = &kv_map_flat;
	cr_expect_gt(nr_looks, 0);
	cr_expect_eq(pool->mag_seq % 2, 0);
	cr_expect_gt(nr_aside(pool), own(pool)->nr);
	end_other();
	end_pool(pool);
}

/* Reports say all that was evicted, a batch that is kept aside included. */
Test(mag_full, a_batch_that_is_evicted_is_told)
{
	struct kvmm_alloc_report report;
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1, .report = &report };
	kvmm_mut_t mut;
	u64 nr = 0;

	pool = full_cache();
	for (u32 i = 0; i < 3 * MAG_ROUNDS; i++) {
		cr_assert_eq(kvmm_alloc_as(pool, &ctl, &mut), 0);
		nr += report.evicted;
		cr_expect_eq(nr, stat_of(pool).evictions);
	}
	cr_expect_geq(nr, 3 * MAG_ROUNDS);
	end_pool(pool);
}

/* Else threads would take each other's batches all the time, for a membarrier each. */
Test(mag_full, a_few_blocks_stay_aside_while_others_are_evicted)
{
	kvmm_mut_t mut;

	pool = full_cache();
	start_other();
	cr_expect_eq(nr_aside(pool), MAG_ROUNDS + 1);
	for (u32 i = 0; i < 4 * MAG_ROUNDS; i++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_gt(nr_aside(pool), MAG_ROUNDS);
	cr_expect_leq(nr_aside(pool), pool->spare);
	end_other();
	end_pool(pool);
}

Test(mag_full, a_full_cache_gives_every_block_before_enospc)
{
	static kvmm_mut_t mut[NR_MANY];
	u32 nr;

	pool = full_cache();
	start_other();
	for (nr = 0; !kvmm_alloc(pool, 1, &mut[nr]); nr++)
		cr_assert_eq(stat_of(pool).nr_available, NR_MANY - nr - 1);
	cr_expect_eq(nr, NR_MANY);
	cr_expect_eq(nr_aside(pool), 0);
	end_other();
	end_pool(pool);
}

/* As an engine that evicts by itself, one block for each that it takes. */
Test(mag_full, a_request_that_finds_a_free_block_evicts_no_batch)
{
	struct kvmm_evict_for_args room = { .size = sizeof(room), .nr_blocks = 1 };
	kvmm_mut_t mut;

	pool = full_cache();
	for (u32 i = 1; i <= 4; i++) {
		cr_assert_eq(kvmm_evict_for(pool, &room), 0);
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cr_expect_eq(stat_of(pool).evictions, i);
	}
	end_pool(pool);
}

/* A request that may not evict has nothing evicted for its magazine. */
Test(mag_full, a_request_that_may_not_evict_evicts_no_batch)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1,
				      .flags = KVMM_ALLOC_NO_EVICT };
	kvmm_mut_t mut[8];

	pool = full_cache();
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), -ENOSPC);
	cr_assert_eq(kvmm_alloc(pool, 8, mut), 0);
	cr_assert_eq(kvmm_free(pool, mut, 8), 0);
	kv_lock(&pool->lock);
	pool_drain_local(pool);
	kv_unlock(&pool->lock);
	for (u32 before = stat_of(pool).evictions, i = 0; i < 8; i++) {
		cr_expect_eq(kvmm_alloc_as(pool, &ctl, &mut[i]), 0);
		cr_expect_eq(stat_of(pool).evictions, before);
	}
	end_pool(pool);
}
