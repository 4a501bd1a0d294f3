// SPDX-License-Identifier: Apache-2.0
/* Blocks that are free, and readable until their memory is used again. */
#include <kvmm/event.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/evict.h>
#include <kvmm/ext/ids.h>

#include "tests/pool/life_util.h"

static struct kvmm_pool *make_ids(u32 nr_blocks, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .compactor = "off",
				       .block_bytes = TEST_BLOCK_BYTES };

	return make_pool_of(&attr);
}

static void fill(struct kvmm_pool *pool, kvmm_mut_t mut, u32 seed)
{
	cr_assert_eq(kvmm_block_write(pool, kvmm_block_of_mut(pool, mut), 0, &seed,
				      sizeof(seed)), 0);
}

static u32 content(struct kvmm_pool *pool, kvmm_mut_t mut)
{
	u32 seed = 0;

	cr_assert_eq(kvmm_block_read(pool, kvmm_block_of_mut(pool, mut), 0, &seed,
				     sizeof(seed)), 0);
	return seed;
}

POOL_TEST(park, a_parked_block_is_free_and_comes_back_as_it_was, make_ids(8, "lru"))
{
	kvmm_mut_t mut[3];

	make_private(pool, 3, mut);
	for (u32 i = 0; i < 3; i++)
		fill(pool, mut[i], 100 + i);
	cr_expect_eq(kvmm_park(pool, mut, 2), 0);
	cr_expect_str_eq(picture(pool), "..P.....");
	cr_expect_eq(stat_of(pool).nr_free, 7);
	cr_expect_eq(stat_of(pool).nr_available, 7);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_block_of_mut(pool, mut[0]), -ESTALE);
	cr_expect_eq(kvmm_unpark(pool, mut, 2), 0);
	cr_expect_str_eq(picture(pool), "PPP.....");
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(content(pool, mut[i]), 100 + i);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

/* "lru-classic" keeps blocks that lose their name with their content, as parked ones. */
POOL_TEST(park, a_weak_reference_does_not_find_what_is_named_anew, make_ids(8, "lru-classic"))
{
	kvmm_mut_t mut;
	kvmm_ref_t ref, other;
	kvmm_weak_t weak;
	int32_t id;
	struct kvmm_id_info info;

	make_active(pool, 0, 1, &ref);
	weak = kvmm_weak_of(ref);
	id = kvmm_block_of_ref(pool, ref);
	cr_assert_eq(kvmm_set_reset(pool, &ref, 1, 1), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_ids_take(pool, &id, 1, 0, KVMM_IDS_PARKED), 0);
	cr_assert_eq(kvmm_ids_info(pool, &id, 1, &info), 0);
	mut = (kvmm_mut_t){ info.handle.index, info.handle.gen };
	cr_assert_eq(kvmm_register(pool, &mut, &(kvmm_key_t){ { 7 } }, 1, &other), 0);
	cr_expect_eq(kvmm_upgrade(pool, weak, &ref), 0);
	cr_expect_eq(kvmm_put(pool, other), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(park, it_goes_after_all_free_blocks_and_all_that_was_used_before, make_ids(8, "lru"))
{
	kvmm_mut_t mut[2], more[6];
	kvmm_ref_t ref[3];

	make_active(pool, 0, 3, ref);
	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	make_private(pool, 6, more);		/* 3 free ones, and 3 cached */
	cr_expect_eq(stat_of(pool).evictions, 3);
	cr_expect_eq(stat_of(pool).nr_free, 2);
	cr_expect_eq(kvmm_unpark(pool, mut, 2), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, more), -ENOSPC);
}

POOL_TEST(park, its_handle_ends_when_it_is_used_otherwise, make_ids(4, "lru"))
{
	kvmm_mut_t mut[2], more[3];

	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	make_private(pool, 3, more);
	/* The last was parked first. One is left, and stays. */
	expect_refused(pool, kvmm_unpark(pool, mut, 2), -ESTALE);
	expect_refused(pool, kvmm_unpark(pool, mut + 1, 1), -ESTALE);
	cr_expect_eq(kvmm_unpark(pool, mut, 1), 0);
	expect_refused(pool, kvmm_free(pool, mut + 1, 1), -ESTALE);
}

POOL_TEST(park, what_is_not_parked_is_refused, make_ids(8, "lru"))
{
	kvmm_mut_t mut[3];
	kvmm_ref_t ref;

	make_private(pool, 3, mut);
	make_active(pool, 0, 1, &ref);
	expect_refused(pool, kvmm_unpark(pool, mut, 1), -EINVAL);
	expect_refused(pool, kvmm_park(pool, (kvmm_mut_t[]){ mut[0], mut[0] }, 2), -EINVAL);
	expect_refused(pool, kvmm_park(pool, (kvmm_mut_t[]){ mut[0], { ref.index, ref.gen } }, 2),
		       -ESTALE);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	expect_refused(pool, kvmm_park(pool, mut, 1), -ESTALE);
	expect_refused(pool, kvmm_unpark(pool, (kvmm_mut_t[]){ mut[0], mut[0] }, 2), -EINVAL);
	expect_refused(pool, kvmm_unpark(pool, mut, 3), -EINVAL);
	cr_assert_eq(kvmm_free(pool, mut + 2, 1), 0);
	expect_refused(pool, kvmm_unpark(pool, mut, 3), -ESTALE);
	cr_expect_eq(kvmm_unpark(pool, mut, 2), 0);
	cr_expect_eq(kvmm_park(NULL, mut, 1), -EINVAL);
}

POOL_TEST(park, reuse_is_told, make_ids(4, "lru"))
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;
	struct kvmm_event event[8];
	kvmm_mut_t mut[2], more[4];
	uint64_t lost;
	int block;

	attr.kinds = 0;
	attr.flags = KVMM_EVENTS_REUSED;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	make_private(pool, 2, mut);
	block = kvmm_block_of_mut(pool, mut[1]);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	make_private(pool, 2, more);
	cr_expect_eq(kvmm_events_read(events, event, 8, &lost), 0);
	make_private(pool, 1, more + 2);
	cr_expect_eq(kvmm_events_read(events, event, 8, &lost), 1);
	cr_expect_eq(event[0].kind, KVMM_EVENT_REUSED);
	cr_expect_eq(event[0].block, (u32)block);
	cr_expect_eq(kvmm_unpark(pool, mut, 1), 0);
	cr_expect_eq(kvmm_events_read(events, event, 8, &lost), 0);
	kvmm_events_close(events);
}

/* Nothing of it is lost in any order, with requests of each kind. */
Test(park, every_policy_keeps_parked_blocks_until_they_are_wanted)
{
	for_each_policy(name) {
		struct kvmm_pool *pool = make_ids(16, name);
		kvmm_mut_t mut[6], all[16];
		kvmm_range_t range;

		cache_keys(pool, 0, 6);
		make_private(pool, 6, mut);
		cr_assert_eq(kvmm_park(pool, mut, 6), 0, "%s", name);
		cr_expect_eq(kvmm_validate(pool), 0, "%s", name);
		range = take(pool, 5, KVMM_ALLOC_NO_EVICT);	/* 4 in the zone, one parked */
		cr_expect_eq(kvmm_validate(pool), 0, "%s", name);
		cr_expect_eq(stat_of(pool).nr_free, 5, "%s", name);
		cr_assert_eq(kvmm_range_free(pool, range), 0);
		make_private(pool, 16, all);
		cr_expect_eq(kvmm_unpark(pool, mut, 1), -ESTALE, "%s", name);
		cr_assert_eq(kvmm_park(pool, all, 16), 0);
		cr_expect_eq(kvmm_reset_inactive(pool), 0, "%s", name);
		cr_expect_eq(stat_of(pool).nr_free, 16, "%s", name);
		end_pool(pool);
	}
}

POOL_TEST(park, limits_of_tenants_know_no_parked_blocks, make_ids(8, "lru"))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	kvmm_mut_t mut[2], more[8];

	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_park(pool, mut, 1), 0);
	cr_assert_eq(kvmm_tenant_set(pool, 3, &attr), 0);
	cr_expect_eq(kvmm_park(pool, mut + 1, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_unpark(pool, mut, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_validate(pool), 0);
	make_private(pool, 7, more);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(park, blocks_are_parked_and_taken_back_by_id, make_ids(8, "lru"))
{
	int32_t ids[4], named;
	struct kvmm_id_info info;
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 1), 1);

	cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, &named), 0);
	cr_assert_eq(kvmm_ids_register(pool, &prefix, &named, 0), 0);
	cr_assert_eq(kvmm_ids_alloc(pool, 3, 0, ids), 0);
	ids[3] = named;
	cr_expect_eq(kvmm_ids_put(pool, ids + 1, 3, KVMM_IDS_PARK), 0);
	cr_expect_str_eq(picture(pool), "IP......");
	cr_assert_eq(kvmm_ids_info(pool, ids + 1, 1, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_FREE);
	cr_expect_neq(info.handle.gen, 0);
	expect_refused(pool, kvmm_ids_put(pool, ids + 1, 1, 0), -ESTALE);
	expect_refused(pool, kvmm_ids_take(pool, ids, 2, 0, KVMM_IDS_PARKED), -ESTALE);
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ ids[1], 7 }, 2, 0, KVMM_IDS_PARKED),
		       -ESTALE);
	cr_expect_eq(kvmm_ids_take(pool, ids + 1, 1, 0, KVMM_IDS_PARKED), 0);
	cr_assert_eq(kvmm_ids_info(pool, ids + 1, 1, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_PRIVATE);
	/* The other one as any free block. */
	cr_expect_eq(kvmm_ids_take(pool, ids + 2, 1, 0, 0), 0);
	cr_expect_str_eq(picture(pool), "IPPP....");
	cr_expect_eq(kvmm_ids_put(pool, ids, 3, KVMM_IDS_PARK), 0);
	cr_expect_eq(stat_of(pool).nr_free, 7);
}

/* All blocks come back here, and ends of chains as often as the others. */
POOL_TEST(park, a_parked_block_is_not_taken_for_the_end_of_a_chain, make_ids(512, "lrfu"))
{
	kvmm_mut_t mut[101], rest[512];
	kvmm_ref_t ref[16];

	for (u32 i = 0; i < 12; i++) {
		cache_keys(pool, 16 * i, 16);
		cr_assert_eq(kvmm_match(pool, keys_from(16 * i, 16), 16, ref), 16);
		cr_assert_eq(kvmm_put_many(pool, ref, 16), 0);
	}
	make_private(pool, 101, mut);
	cr_assert_eq(kvmm_park(pool, mut, 100), 0);
	cr_assert_eq(kvmm_unpark(pool, mut, 100), 0);
	cache_keys(pool, 1000, 2);
	cr_assert_eq(kvmm_park(pool, &mut[100], 1), 0);
	make_private(pool, stat_of(pool).nr_free - 1, rest);
	cr_assert_eq(stat_of(pool).evictions, 0);
	make_private(pool, 2, rest);
	cr_expect_eq(stat_of(pool).evictions, 2, "older ones go first");
	cr_expect_eq(kvmm_unpark(pool, &mut[100], 1), 0);
}

/* ---- room is made ---- */

static u32 make_room(struct kvmm_pool *pool, u32 nr_blocks)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = nr_blocks };

	cr_assert_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_eq(req.nr_free, stat_of(pool).nr_free);
	cr_expect_eq(kvmm_validate(pool), 0);
	return req.nr_evicted;
}

/* 8 blocks: the first 2 of @mut parked, the third private, 3 cached later, and 2 free. */
static struct kvmm_pool *make_mixed(const char *policy, kvmm_mut_t mut[3])
{
	struct kvmm_pool *pool = make_ids(8, policy);

	make_private(pool, 3, mut);
	fill(pool, mut[0], 100);
	fill(pool, mut[1], 101);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	cache_keys(pool, 0, 3);
	return pool;
}

/* @mut is there still. */
static void expect_parked(struct kvmm_pool *pool, const kvmm_mut_t mut[3])
{
	cr_expect_eq(kvmm_unpark(pool, mut, 2), 0);
	cr_expect_eq(content(pool, mut[0]), 100);
	cr_expect_eq(content(pool, mut[1]), 101);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	end_pool(pool);
}

Test(park, room_that_parked_blocks_are_is_not_made_by_eviction)
{
	for_each_policy(name) {
		kvmm_mut_t mut[3];
		struct kvmm_pool *pool = make_mixed(name, mut);
		struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 8 };

		cr_assert_eq(stat_of(pool).nr_free, 4, "%s", name);
		cr_expect_eq(make_room(pool, 4), 0, "%s", name);
		cr_expect_eq(make_room(pool, 5), 1, "%s", name);
		cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC, "%s", name);
		cr_expect_eq(stat_of(pool).evictions, 1, "%s", name);
		cr_expect_eq(make_room(pool, 7), 2, "%s", name);
		expect_parked(pool, mut);
	}
}

Test(park, parked_blocks_are_free_for_a_reclaim)
{
	for_each_policy(name) {
		kvmm_mut_t mut[3];
		struct kvmm_pool *pool = make_mixed(name, mut);
		struct kvmm_watermarks marks = { 1, 1, 5 };
		struct kvmm_reclaim_args req = { .size = sizeof(req) };

		cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
		cr_expect_eq(kvmm_reclaim(pool, &req), 0, "%s", name);
		cr_expect_eq(req.nr_evicted, 1, "%s", name);
		cr_expect_eq(req.nr_free, 5, "%s", name);
		marks.high = 8;
		cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
		cr_expect_eq(kvmm_reclaim(pool, &req), -ENOSPC, "%s", name);
		cr_expect_eq(req.nr_evicted, 2, "%s", name);
		cr_expect_eq(req.nr_free, 7, "%s", name);
		cr_expect_eq(stat_of(pool).nr_free, 7, "%s", name);
		marks.low = marks.min = 0;
		cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
		expect_parked(pool, mut);
	}
}
