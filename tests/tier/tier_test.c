// SPDX-License-Identifier: Apache-2.0
/* A pool above a host tier, on the device that copies at once. */
#include <kv/pool.h>
#include <kvmm/ext/ids.h>
#include <kvmm/ext/name.h>

#include "pool/internal.h"
#include "tests/support/between.h"
#include "tests/support/tier_wait.h"
#include "tests/tier/util.h"

TIER_TEST(tier, a_copy_goes_down_and_the_device_block_stays, 8, 8)
{
	cache_blocks(pool, 1, 3);
	offload_keys(pool, 1, 2, 0);
	cr_expect_str_eq(picture(pool), "III.....");
	cr_expect_str_eq(tier_picture(tier), "rr......");
	cr_expect_eq(client_of(pool).clean, 2);
	cr_expect_eq(client_of(pool).offloads, 2);
	cr_expect_eq(client_of(pool).offload_bytes, 2 * TEST_BLOCK_BYTES);
	cr_expect_str_eq(answers(pool, 1, 4), "000-");
}

TIER_TEST(tier, a_copy_whose_device_block_was_evicted_is_found_and_loaded, 8, 8)
{
	cache_blocks(pool, 1, 6);
	offload_keys(pool, 1, 4, 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 6);
	cr_expect_str_eq(answers(pool, 1, 6), "1111--");
	cr_expect_eq(load_keys(pool, 1, 4), 0);
	cr_expect_str_eq(answers(pool, 1, 6), "0000--");
	cr_expect_str_eq(tier_picture(tier), "rrrr....", "inclusive");
	cr_expect_eq(client_of(pool).loads, 4);
	cr_expect_eq(client_of(pool).clean, 4, "what was loaded has a copy");
	cr_expect_eq(load_keys(pool, 1, 5), -ENOENT, "all or nothing");
}

TIER_TEST(tier, a_match_goes_on_below_where_the_device_ends, 8, 8)
{
	kvmm_ref_t refs[8];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .refs = refs };

	cache_blocks(pool, 1, 5);
	offload_keys(pool, 3, 3, 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 5);
	cache_blocks(pool, 1, 2);
	cache_blocks(pool, 4, 1);
	match.prefix = prefix_of(1, 6);
	cr_expect_eq(kvmm_tier_match(pool, &match), 5);
	cr_expect_eq(match.nr_device, 2);
	cr_expect_eq(match.nr_lower, 3);
	cr_expect_eq(match.stop, KVMM_TIER_MISS);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
	cr_expect_str_eq(answers(pool, 1, 6), "00101-");
	cr_expect_eq(load_keys(pool, 3, 3), 0);
	cr_expect_eq(client_of(pool).loads, 2, "one was there");
}

/* Of 10 blocks the device has 2 and the host 2. */
TIER_TEST(tier, a_request_counts_once_however_often_it_asks, 12, 8)
{
	struct kvmm_tier_match_args match = { .size = sizeof(match) };
	struct kvmm_pool_stat before;
	kvmm_ref_t refs[10];
	kvmm_mut_t held[10], rest[6];
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .reserved = 1 };

	cache_blocks(pool, 1, 4);
	offload_keys(pool, 3, 2, KVMM_TIER_DROP);
	cr_assert_eq(kvmm_alloc(pool, 9, held), 0);
	before = stat_of(pool);
	match.refs = refs;
	for (u32 i = 0; i < 3; i++) {
		match.prefix = prefix_of(1, 10);
		cr_expect_eq(kvmm_tier_match(pool, &match), 4);
		cr_expect_eq(load_keys(pool, 3, 2), -ENOSPC);
		cr_assert_eq(kvmm_put_many(pool, refs, match.nr_device), 0);
		match.flags = KVMM_TIER_AGAIN;
	}
	cr_expect_eq(kvmm_free(pool, held, 9), 0);
	match.prefix = prefix_of(1, 10);
	cr_expect_eq(kvmm_tier_match(pool, &match), 4);
	cr_expect_eq(load_keys(pool, 3, 2), 0);
	cr_expect_eq(kvmm_alloc(pool, 6, rest), 0);
	cr_expect_eq(stat_of(pool).hit_blocks + client_of(pool).hits, before.hit_blocks + 4);
	cr_expect_eq(stat_of(pool).hit_blocks + stat_of(pool).miss_blocks,
		     before.hit_blocks + before.miss_blocks + 10);
	cr_expect_eq(client_of(pool).misses, 1);
	match.flags = 8;
	cr_expect_eq(kvmm_tier_match(pool, &match), -EINVAL);
	match.flags = 0;
	match.reserved = 1;
	cr_expect_eq(kvmm_tier_match(pool, &match), -EINVAL);
	cr_expect_eq(kvmm_tier_offload(pool, &down, NULL), -EINVAL);
	cr_expect_eq(kvmm_free(pool, rest, 6), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, match.nr_device), 0);
}

/* With @parks_first parked blocks are the next victims. 3 of 8 blocks are in use, and then 5. */
static void expect_full_without_parked(struct kvmm_pool *pool, bool parks_first)
{
	kvmm_mut_t muts[6];

	cr_assert_eq(kvmm_alloc(pool, 6, muts), 0);
	if (!parks_first)
		cache_blocks(pool, 1, 2);
	cr_assert_eq(kvmm_park(pool, muts, 5), 0);
	if (parks_first)
		cache_blocks(pool, 1, 2);
	poll_all(pool);
	cr_expect_str_eq(answers(pool, 1, 2), "00");
	cr_assert_eq(kvmm_unpark(pool, muts, 2), 0);
	poll_all(pool);
	cr_expect_str_eq(answers(pool, 1, 2), "11");
	cr_expect_eq(kvmm_free(pool, muts, 2), 0);
	cr_expect_eq(kvmm_free(pool, muts + 5, 1), 0);
}

#define TAKES_HALF	both.config.write = KVMM_TIER_THRESHOLD; both.config.high_pm = 500; \
			both.config.low_pm = 400

TIER_TEST(tier, parked_blocks_do_not_make_a_pool_full, 8, 8, TAKES_HALF)
{
	expect_full_without_parked(pool, false);
}

TIER_TEST(tier, parked_blocks_do_not_stand_before_those_that_go_down, 8, 8, TAKES_HALF)
{
	expect_full_without_parked(pool, true);
}

Test(tier, a_pool_without_one_is_asked_alike)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_tier_load_args load = { .size = sizeof(load), .prefix = prefix_of(1, 2) };
	kvmm_tier_op_t op;

	cache_blocks(pool, 1, 2);
	cr_expect_str_eq(answers(pool, 1, 3), "00-");
	cr_expect_eq(kvmm_tier_load(pool, &load, &op), -EOPNOTSUPP);
	cr_expect_eq(kvmm_tier_poll(pool), -EOPNOTSUPP);
	cr_expect_eq(kvmm_tier_detach(pool), -EOPNOTSUPP);
	end_pool(pool);
}

TIER_TEST(tier, what_is_dropped_is_free_above, 8, 8)
{
	cache_blocks(pool, 1, 4);
	offload_keys(pool, 1, 2, KVMM_TIER_DROP);
	cr_expect_str_eq(picture(pool), "..II....");
	cr_expect_str_eq(answers(pool, 1, 4), "1100");
	offload_keys(pool, 3, 1, 0);
	offload_keys(pool, 3, 1, KVMM_TIER_DROP);
	cr_expect_str_eq(picture(pool), "...I....", "also if the copy was there");
	cr_expect_eq(stat_of(pool).evictions, 3);
}

static void put_some(struct kvmm_pool *pool, kvmm_ref_t *refs)
{
	make_blocks(pool, 1, 1, &refs[0]);
	make_blocks(pool, 11, 3, &refs[1]);
	cr_assert_eq(kvmm_put(pool, refs[2]), 0);
	cr_assert_eq(kvmm_put(pool, refs[3]), 0);
	cr_assert_eq(kvmm_put(pool, refs[0]), 0);
	cr_assert_eq(kvmm_put(pool, refs[1]), 0);
}

/* The order of eviction is what it would be without tiers. */
TIER_TEST(tier, going_down_is_no_use, 4, 8)
{
	struct kvmm_pool *other = make_cache(4, "lru");
	kvmm_ref_t refs[4], same[4];
	u32 order[4], want[4];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .nr = 4, .refs = refs };

	put_some(pool, refs);
	put_some(other, same);
	cr_assert_eq(kvmm_tier_offload(pool, &req, NULL), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(client_of(pool).offloads, 4);
	cr_expect_eq(eviction_order(pool, order, 4), 4);
	cr_expect_eq(eviction_order(other, want, 4), 4);
	cr_expect_arr_eq(order, want, sizeof(order));
	end_pool(other);
}

TIER_TEST(tier, higher_priorities_go_first, 8, 8, both.config.step_blocks = 1)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .nr = 1 };
	const u32 priority[5] = { 1, 7, 1, 200, 7 }, order[5] = { 4, 2, 5, 1, 3 };
	kvmm_ref_t refs[5];

	make_blocks(pool, 1, 5, refs);
	for (u32 i = 0; i < 5; i++) {
		req.refs = &refs[i];
		req.priority = priority[i];
		cr_assert_eq(kvmm_tier_offload(pool, &req, NULL), 0);
	}
	cr_expect_eq(client_of(pool).queued, 5);
	for (u32 i = 0; i < 5; i++) {
		cr_expect_eq(kvmm_tier_poll(pool), 4 - i, "one a step");
		cr_expect_eq(client_of(pool).offloads, i + 1);
		cr_assert_eq(kvmm_put(pool, refs[order[i] - 1]), 0);
		cr_assert_eq(kvmm_reset_inactive(pool), 1);
		cr_expect_str_eq(answers(pool, order[i], 1), "1");
	}
}

TIER_TEST(tier, bad_content_is_a_miss_and_is_never_looked_at_again, 8, 8)
{
	cache_blocks(pool, 1, 3);
	offload_keys(pool, 1, 3, KVMM_TIER_DROP);
	tier_flip(tier, 1);
	cr_expect_eq(load_keys(pool, 1, 3), -EBADMSG);
	cr_expect_str_eq(answers(pool, 1, 3), "0--", "what arrived stays cached");
	cr_expect_str_eq(tier_picture(tier), "r.r.....");
	cr_expect_eq(client_of(pool).corrupt, 1);
	cr_expect_eq(client_of(pool).failed, 1);
	cr_expect_eq(load_keys(pool, 3, 1), 0);
}

TIER_TEST(tier, one_in_so_many_is_verified, 64, 64, both.config.verify_every = 4)
{
	u32 nr_bad = 0;

	cache_blocks(pool, 0, 64);
	offload_keys(pool, 0, 64, KVMM_TIER_DROP);
	for (u32 i = 0; i < 64; i++)
		tier_flip(tier, i);
	for (u32 i = 0; i < 64; i++) {
		kvmm_tier_op_t op = begin_load(pool, i, 1);
		kvmm_ref_t ref;

		cr_assert_eq(tier_wait(pool, op, 60000000000ull), 0);
		nr_bad += result_of(pool, op, 1, &ref) == -EBADMSG;
	}
	cr_expect(nr_bad > 4 && nr_bad < 40, "%u of 64", nr_bad);
}

TIER_TEST(tier, positions_end_before_they_come_round, 8, 8)
{
	struct kvmm_tier_load_args req = { .size = sizeof(req) };
	struct kvmm_prefix prefix = *prefix_of(1, 2);
	kvmm_tier_op_t op;

	prefix.position = UINT32_MAX - 2;
	req.prefix = &prefix;
	cr_expect_eq(kvmm_tier_load(pool, &req, &op), -ENOENT);
	prefix.position++;
	cr_expect_eq(kvmm_tier_load(pool, &req, &op), -EINVAL);
}

TIER_TEST(tier, a_load_has_no_flags, 8, 8)
{
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = prefix_of(1, 2) };
	kvmm_tier_op_t op;

	cache_blocks(pool, 1, 2);
	offload_keys(pool, 1, 2, KVMM_TIER_DROP);
	for (u32 bit = 0; bit < 32; bit++) {
		req.flags = 1u << bit;
		cr_expect_eq(kvmm_tier_load(pool, &req, &op), -EINVAL, "bit %u", bit);
		cr_expect_eq(kvmm_tier_load(pool, &req, NULL), -EINVAL, "bit %u", bit);
	}
	cr_expect_eq(client_of(pool).loading, 0);
	cr_expect_eq(load_keys(pool, 1, 2), 0);
}

TIER_TEST(tier, what_does_not_fit_is_to_be_computed, 4, 8)
{
	kvmm_ref_t refs[2];

	cache_blocks(pool, 1, 3);
	offload_keys(pool, 1, 3, KVMM_TIER_DROP);
	make_blocks(pool, 11, 2, refs);
	cr_expect_eq(load_keys(pool, 1, 3), -ENOSPC);
	cr_expect_eq(client_of(pool).refused, 1);
	cr_expect_eq(client_of(pool).loading, 0);
	cr_expect_str_eq(tier_picture(tier), "rrr.....", "nobody reads them");
	cr_expect_eq(load_keys(pool, 1, 2), 0);
}

TIER_TEST(tier, a_load_has_a_quota_and_a_minimum, 8, 8, both.config.min_load = 2,
	  both.client.max_up = 3)
{
	cache_blocks(pool, 1, 4);
	offload_keys(pool, 1, 4, KVMM_TIER_DROP);
	cr_expect_eq(load_keys(pool, 1, 4), -E2BIG);
	cr_expect_eq(load_keys(pool, 1, 1), -ERANGE);
	cr_expect_eq(load_keys(pool, 1, 3), 0);
	cr_expect_eq(load_keys(pool, 1, 3), 0, "what is there need not be loaded");
	cr_expect_eq(load_keys(pool, 3, 2), -ERANGE, "one of them is not worth it");
}

Test(tier, two_pools_share_what_has_one_layout)
{
	struct kvmm_tier_client_attr strange = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_pool *a = make_cache(8, "lru"), *b = make_cache(8, "lru");
	struct kvmm_pool *c = make_cache(8, "lru");
	struct kvmm_tier *tier = make_tier(8);

	attach(a, tier);
	attach(b, tier);
	strange.layout_id = 5;
	attach_as(c, tier, &strange);
	cr_expect_eq(tier_of(tier).clients, 3);
	cache_blocks(a, 1, 3);
	offload_keys(a, 1, 3, 0);
	cr_expect_str_eq(answers(b, 1, 3), "111");
	cr_expect_eq(load_keys(b, 1, 3), 0);
	cr_expect_str_eq(answers(c, 1, 3), "---", "another model's are never found");
	cr_expect_eq(client_of(a).blocks, 3);
	cr_expect_eq(client_of(b).blocks, 0, "they are the first one's");
	end_pool(a);
	cr_expect_str_eq(answers(b, 1, 3), "000");
	end_pool(b);
	end_both(c, tier);
}

TIER_TEST(tier, tenants_and_groups_never_hit_each_other, 8, 8)
{
	struct kvmm_prefix other = *prefix_of(1, 1);
	struct kvmm_tier_load_args load = { .size = sizeof(load), .prefix = &other };
	kvmm_tier_op_t op;

	cache_blocks(pool, 1, 1);
	offload_keys(pool, 1, 1, KVMM_TIER_DROP);
	other.domain.tenant = 9;
	cr_expect_eq(kvmm_tier_load(pool, &load, &op), -ENOENT);
	other.domain.tenant = 0;
	other.domain.group = 1;
	cr_expect_eq(kvmm_tier_load(pool, &load, &op), -ENOENT);
}

Test(tier, what_is_attached_can_be_detached_and_found_again)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_tier *tier = make_tier(8);
	u64 before = stat_of(pool).metadata_bytes;

	attach(pool, tier);
	cr_expect_eq(kvmm_tier_attach(pool, tier, NULL), -EBUSY);
	cr_expect_eq(kvmm_tier_attach(pool, NULL, &(struct kvmm_tier_client_attr)KVMM_TIER_CLIENT_ATTR_INIT),
		     -EINVAL, "how to attach nothing");
	cr_expect_gt(stat_of(pool).metadata_bytes, before);
	cache_blocks(pool, 1, 3);
	offload_keys(pool, 1, 3, KVMM_TIER_DROP);
	cr_expect_eq(kvmm_tier_detach(pool), 0);
	cr_expect_eq(stat_of(pool).metadata_bytes, before);
	cr_expect_str_eq(answers(pool, 1, 3), "---");
	attach(pool, tier);
	cr_expect_str_eq(answers(pool, 1, 3), "111");
	cr_expect_eq(load_keys(pool, 1, 3), 0);
	end_both(pool, tier);
}

Test(tier, a_registry_is_told_what_is_below)
{
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_tier_client_attr attr = { .size = sizeof(attr), .registry_tier = 0 };
	struct kvmm_pool_attr pool_attr = { .size = sizeof(pool_attr), .nr_blocks = 8,
					    .policy = "lru", .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_tier *tier = make_tier(2);
	struct kvmm_registry *reg;
	struct kvmm_pool *pool;
	u16 masks[3];

	cr_assert_eq(kvmm_registry_create(&reg_attr, &reg), 0);
	pool_attr.registry = reg;
	pool = make_pool_of(&pool_attr);
	cr_expect_eq(kvmm_tier_attach(pool, tier, &attr), -EINVAL, "that is the pool's");
	attr.registry_tier = 1;
	attach_as(pool, tier, &attr);
	cache_blocks(pool, 0, 3);
	offload_keys(pool, 0, 2, 0);
	tiers_of(reg, 0, 3, masks);
	cr_expect(masks[0] == 3 && masks[1] == 3 && masks[2] == 1);
	offload_keys(pool, 2, 1, 0);
	tiers_of(reg, 0, 3, masks);
	cr_expect(masks[0] == 1 && masks[1] == 3 && masks[2] == 3, "the first gave way");
	offload_keys(pool, 2, 1, KVMM_TIER_DROP);
	tiers_of(reg, 0, 3, masks);
	cr_expect(masks[1] == 3 && masks[2] == 2);
	cr_expect_eq(kvmm_tier_detach(pool), 0);
	tiers_of(reg, 0, 3, masks);
	cr_expect(masks[1] == 1 && masks[2] == 0);
	end_both(pool, tier);
	kvmm_registry_destroy(reg);
}

Test(tier, attributes_of_clients_that_make_no_sense_are_refused)
{
	struct kvmm_tier_client_attr good = KVMM_TIER_CLIENT_ATTR_INIT, attr;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool *pool = make_cache(8, "lru"), *plain = make_pool(8);
	struct kvmm_tier_attr ids = { .size = sizeof(ids), .numa_node = -1, .capacity_blocks = 4 };
	struct kvmm_tier *tier = make_tier(8), *empty;

	good.config = &config;
#define REFUSES(err, change) do {						\
		attr = good;							\
		config = (struct kvmm_tier_config)KVMM_TIER_CONFIG_INIT;	\
		change;								\
		cr_expect_eq(kvmm_tier_attach(pool, tier, &attr), err, #change); \
	} while (0)
	REFUSES(-EINVAL, attr.flags = 2);
	REFUSES(-EINVAL, attr.max_down = 1u << 30);
	REFUSES(-EINVAL, attr.batch_blocks = 1u << 20);
	REFUSES(-EINVAL, attr.registry_tier = 1);
	REFUSES(-EINVAL, (attr.min_units = 3, attr.max_units = 2));
	REFUSES(-EINVAL, config.write = KVMM_NR_TIER_WRITES);
	REFUSES(-EINVAL, config.touches = 0);
	REFUSES(-EINVAL, config.low_pm = 950);
	REFUSES(-EINVAL, config.high_pm = 1001);
#undef REFUSES
	cr_expect_eq(kvmm_tier_attach(plain, tier, NULL), -EOPNOTSUPP, "no cached blocks");
	empty = make_tier_of(&ids);
	cr_expect_eq(kvmm_tier_attach(pool, empty, NULL), -EOPNOTSUPP, "no memory below");
	kvmm_tier_destroy(empty);
	end_pool(plain);
	end_both(pool, tier);
}

/* ---- policies ---- */

static void hit(struct kvmm_pool *pool, u32 first, u32 nr)
{
	kvmm_ref_t refs[64];

	cr_assert_eq(kvmm_prefix_match(pool, prefix_of(first, nr), refs), nr);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
}

TIER_TEST(tier_policy, selective_copies_what_is_used_again, 8, 8,
	  both.config.write = KVMM_TIER_SELECTIVE)
{
	cache_blocks(pool, 1, 6);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 0);
	hit(pool, 1, 2);
	cr_expect_eq(client_of(pool).queued, 2);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 2);
	for (u32 i = 0; i < 5; i++)
		hit(pool, 1, 2);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 2, "they have a copy");
	cr_assert_eq(kvmm_reset_inactive(pool), 6);
	cr_expect_str_eq(answers(pool, 1, 3), "11-");
}

TIER_TEST(tier_policy, what_is_used_on_is_copied_again_when_its_copy_has_gone, 8, 2,
	  both.config.write = KVMM_TIER_SELECTIVE)
{
	cache_blocks(pool, 1, 1);
	hit(pool, 1, 1);
	kvmm_tier_poll(pool);
	cache_blocks(pool, 11, 2);
	hit(pool, 11, 2);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).evicted, 1);
	for (u32 i = 0; i < 20; i++)
		hit(pool, 1, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 4);
}

TIER_TEST(tier_policy, another_block_of_that_entry_starts_anew, 1, 8,
	  both.config.write = KVMM_TIER_SELECTIVE)
{
	cache_blocks(pool, 1, 1);
	hit(pool, 1, 1);
	cache_blocks(pool, 2, 1);
	cr_expect_eq(kvmm_tier_poll(pool), 0, "who was queued is gone");
	cr_expect_eq(client_of(pool).offloads, 0);
	hit(pool, 2, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 1);
}

TIER_TEST(tier_policy, through_copies_what_is_registered, 8, 8,
	  both.config.write = KVMM_TIER_THROUGH)
{
	cache_blocks(pool, 1, 6);
	cr_expect_eq(client_of(pool).queued, 6);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 6);
	cr_expect_eq(client_of(pool).clean, 6);
}

/* 10 blocks, marks at 9 and 8: with 10 in use the next two victims are copied, and stay. */
TIER_TEST(tier_policy, back_copies_the_next_victims_above_the_high_mark, 10, 16,
	  both.config.write = KVMM_TIER_BACK)
{
	kvmm_ref_t held[3];

	make_blocks(pool, 21, 3, held);
	for (u32 i = 1; i <= 5; i++)
		cache_blocks(pool, 10 * i, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 0, "8 of 10");
	cache_blocks(pool, 60, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 0, "9 of 10 is not fuller than 900 per mille");
	cache_blocks(pool, 70, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 2);
	cr_expect_eq(stat_of(pool).nr_inactive, 7, "nothing is evicted");
	cache_blocks(pool, 80, 2);
	cr_expect_str_eq(answers(pool, 10, 1), "1", "the first victim had been copied");
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 4);
	cr_assert_eq(kvmm_put_many(pool, held, 3), 0);
}

static kvmm_tier_op_t late_op;

/* Two blocks take the place of the next victims, and are asked to go down. */
static bool replace_victims(void *arg)
{
	struct kvmm_pool *pool = arg;
	kvmm_ref_t refs[2];

	make_blocks(pool, 200, 2, refs);
	late_op = begin_offload(pool, refs, 2, 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
	return true;
}

Test(tier_policy, what_takes_a_victim_s_place_after_the_look_is_copied_as_it_was_asked_for)
{
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = 2 };
	struct both both = both_of(10, 16);
	struct fake_env fake;

	fake_env_install(&fake);
	both.config.write = KVMM_TIER_BACK;
	both_make(&both);
	for (u32 i = 1; i <= 10; i++)
		cache_blocks(both.pool, 10 * i, 1);
	between_arm(&fake, &both.pool->lock, replace_victims, both.pool);
	kvmm_tier_poll(both.pool);
	cr_assert(between_is_done());
	cr_expect_eq(tier_wait(both.pool, late_op, UINT64_MAX), 0);
	cr_expect_eq(kvmm_tier_get_result(both.pool, late_op, &result), 0);
	cr_expect_eq(result.nr_failed, 0);
	end_both(both.pool, both.tier);
	fake_env_remove(&fake);
}

TIER_TEST(tier_policy, threshold_makes_room_down_to_the_low_mark, 10, 16,
	  both.config.write = KVMM_TIER_THRESHOLD)
{
	for (u32 i = 1; i <= 8; i++)
		cache_blocks(pool, 10 * i, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 0);
	cache_blocks(pool, 90, 1);
	cache_blocks(pool, 100, 1);
	kvmm_tier_poll(pool);
	cr_expect_eq(client_of(pool).offloads, 2);
	cr_expect_eq(stat_of(pool).nr_free, 2);
	cr_expect_str_eq(answers(pool, 10, 1), "1");
	cr_expect_str_eq(answers(pool, 20, 1), "1");
	cr_expect_str_eq(answers(pool, 30, 1), "0");
}

TIER_TEST(tier_policy, looking_at_victims_changes_nothing, 32, 64,
	  both.config.write = KVMM_TIER_BACK)
{
	struct kvmm_pool *other = make_cache(32, "lru");
	u32 order[32], want[32];

	for (u32 i = 0; i < 8; i++) {
		cache_blocks(pool, 10 * i, 4);
		cache_blocks(other, 10 * i, 4);
		kvmm_tier_poll(pool);
	}
	hit(pool, 30, 2);
	hit(other, 30, 2);
	kvmm_tier_poll(pool);
	cr_expect_gt(client_of(pool).offloads, 0);
	cr_expect_eq(eviction_order(pool, order, 32), 32);
	cr_expect_eq(eviction_order(other, want, 32), 32);
	cr_expect_arr_eq(order, want, sizeof(order));
	end_pool(other);
}

TIER_TEST(tier_policy, a_step_has_a_budget, 16, 16, both.config.write = KVMM_TIER_THROUGH)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	config.write = KVMM_TIER_THROUGH;
	config.step_blocks = 5;
	cr_assert_eq(kvmm_tier_configure(pool, &config), 0);
	cache_blocks(pool, 1, 12);
	cr_expect_eq(kvmm_tier_poll(pool), 7);
	config.step_blocks = 0;
	config.step_bytes = 3 * TEST_BLOCK_BYTES;
	cr_assert_eq(kvmm_tier_configure(pool, &config), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 4);
	cr_expect_eq(kvmm_tier_get_config(pool, &config), 0);
	cr_expect_eq(config.step_bytes, 3 * TEST_BLOCK_BYTES);
}

/* ---- prefetch, and whether it is worth it ---- */

TIER_TEST(tier_policy, a_prefetch_stops_at_the_first_miss_and_holds_nothing, 8, 16)
{
	cache_blocks(pool, 1, 6);
	offload_keys(pool, 1, 3, KVMM_TIER_DROP);
	offload_keys(pool, 5, 2, KVMM_TIER_DROP);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(kvmm_tier_prefetch(pool, prefix_of(1, 6), 0), 3);
	kvmm_tier_poll(pool);
	cr_expect_str_eq(picture(pool), "III.....");
	cr_expect_str_eq(answers(pool, 1, 6), "000---");
	cr_expect_eq(kvmm_tier_prefetch(pool, prefix_of(1, 6), 0), 0);
	cr_expect_eq(kvmm_tier_prefetch(pool, prefix_of(5, 2), 7), -ENOSPC, "others need the room");
	cr_expect_eq(kvmm_tier_prefetch(pool, prefix_of(5, 2), 6), 2);
}

TIER_TEST(tier_policy, a_plan_lets_both_parts_end_together, 8, 40)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	kvmm_ref_t refs[40];

	for (u32 first = 0; first < 40; first += 8) {
		cache_blocks(pool, first, 8);
		offload_keys(pool, first, 8, KVMM_TIER_DROP);
	}
	for (u32 nr = 0; nr <= 40; nr++) {
		for (u32 recompute = 0; recompute < 8; recompute++) {
			struct kvmm_tier_match_args plan = { .size = sizeof(plan), .refs = refs,
							     .prefix = prefix_of(0, nr) };
			u64 best = UINT64_MAX, best_s = 0;

			config.recompute_ns = recompute * recompute;
			config.up.latency_ns = 1000;
			config.up.bytes_per_s = TEST_BLOCK_BYTES * 1000000000ull / 160;
			cr_assert_eq(kvmm_tier_configure(pool, &config), 0);
			cr_assert_eq(kvmm_tier_match(pool, &plan), nr);
			for (u64 s = 0; s <= nr; s++) {
				u64 load = s ? 1000 + 160 * s : 0;
				u64 compute = (nr - s) * 16 * config.recompute_ns;

				if (max(load, compute) < best) {
					best = max(load, compute);
					best_s = s;
				}
			}
			cr_expect_eq(plan.nr_load, recompute ? best_s : nr, "%u blocks, %u: %u, not %u",
				     nr, recompute, plan.nr_load, (u32)best_s);
		}
	}
}

/* Ids only: copies take what the link says, by the clock of the caller. */
Test(tier_policy, without_content_a_link_says_when_a_copy_is_over)
{
	struct both both = both_of_ids(8, 8, 1000);
	struct kvmm_tier *tier;
	struct kvmm_pool *pool;
	kvmm_ref_t refs[4];
	kvmm_tier_op_t op;

	both.host.down.bytes_per_s = 1000000000;
	both.host.up = (struct kvmm_tier_link){ 500, 2000000000 };
	both.config.write = KVMM_TIER_THROUGH;
	both.attr.flags = KVMM_POOL_DETERMINISTIC;
	both_make(&both);
	pool = both.pool;
	tier = both.tier;
	cache_blocks(pool, 1, 4);
	cr_expect_eq(kvmm_tier_poll(pool), 4);
	cr_assert_eq(kvmm_tier_clock(tier, 3999), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 4);
	cr_assert_eq(kvmm_tier_clock(tier, 4000), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(kvmm_tier_clock(tier, 3000), -EINVAL);
	cr_assert_eq(kvmm_reset_inactive(pool), 4);
	op = begin_load(pool, 1, 4);
	cr_assert_eq(kvmm_tier_clock(tier, 6499), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 4);
	cr_assert_eq(kvmm_tier_clock(tier, 6500), 0);
	cr_expect_eq(kvmm_tier_poll(pool), 0);
	cr_expect_eq(result_of(pool, op, 4, refs), 0);
	cr_expect_eq(client_of(pool).load_ns, 2500);
	cr_expect_eq(client_of(pool).load_took.bucket[2], 1, "up to 5 us");
	cr_expect_eq(client_of(pool).load_took.sum_ns, 2500);
	cr_expect_eq(client_of(pool).offload_ns, 4000);
	cr_expect_eq(client_of(pool).offload_took.bucket[2], 1);
	cr_expect_eq(client_of(pool).offload_took.sum_ns, 4000);
	cr_expect_eq(client_of(pool).reloads, 4);
	cr_expect_eq(client_of(pool).load_bytes, 4000);
	cr_assert_eq(kvmm_put_many(pool, refs, 4), 0);
	end_both(pool, tier);
}

/* "..": both keys are below, and come back with a call that has room for their references. */
TIER_TEST(tier, a_result_that_cannot_be_given_stays, 4, 4)
{
	kvmm_ref_t refs[2];
	kvmm_tier_op_t op;

	cache_blocks(pool, 1, 2);
	send_down(pool, 1, 2);
	poll_all(pool);
	cr_assert_eq(kvmm_reset_inactive(pool), 2);
	op = begin_load(pool, 1, 2);
	cr_assert_eq(tier_wait(pool, op, UINT64_MAX), 0);
	cr_expect_eq(result_of(pool, op, 2, NULL), -EINVAL);
	cr_assert_eq(result_of(pool, op, 2, refs), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
}

/* Types of pins that come into being before, while and after blocks are copied. */
TIER_TEST(tier, copies_get_along_with_types_of_pins, 8, 8)
{
	kvmm_ref_t refs[3];

	make_blocks(pool, 1, 3, refs);
	cr_assert_eq(kvmm_pin_many_as(pool, refs, 2, KVMM_PIN_RDMA), 0);
	offload_keys(pool, 1, 3, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(client_of(pool).offloads, 3);
	cr_assert_eq(kvmm_unpin_many_as(pool, refs, 2, KVMM_PIN_RDMA), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 3), 0);
}

/* They are counted in portions. */
TIER_TEST(tier, all_that_are_clean_are_counted_once, 600, 600)
{
	const u32 nr[] = { 255, 1, 1, 255, 1, 1 };
	u32 first = 0;

	for (u32 i = 0; i < ARRAY_SIZE(nr); first += nr[i++]) {
		cache_blocks(pool, first, nr[i]);
		offload_keys(pool, first, nr[i], 0);
		cr_expect_eq(client_of(pool).clean, first + nr[i]);
	}
}

/* ---- names that change ---- */

TIER_TEST(tier, a_renamed_block_is_copied_under_its_new_name, 8, 8)
{
	struct kvmm_name name = { prefix_of(5, 1)->keys[0], prefix_of(5, 1)->domain, 5 };
	kvmm_ref_t ref;

	make_blocks(pool, 1, 1, &ref);
	poll_all(pool);
	begin_offload(pool, &ref, 1, 0);
	poll_all(pool);
	cr_expect_str_eq(tier_picture(tier), "r.......");
	cr_expect_eq(kvmm_names_rename(pool, &name, &ref, 1), 0);
	cr_expect_str_eq(answers(pool, 1, 1), "1", "what was copied stays");
	cr_expect_str_eq(answers(pool, 5, 1), "0");
	begin_offload(pool, &ref, 1, 0);
	poll_all(pool);
	cr_expect_str_eq(tier_picture(tier), "rr......");
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_str_eq(answers(pool, 1, 1), "1");
	cr_expect_str_eq(answers(pool, 5, 1), "1");
}

TIER_TEST(tier, a_copy_under_way_is_of_the_old_name, 8, 8)
{
	struct kvmm_name name = { prefix_of(5, 1)->keys[0], prefix_of(5, 1)->domain, 5 };
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	make_blocks(pool, 1, 1, &ref);
	begin_offload(pool, &ref, 1, KVMM_TIER_DROP);
	kvmm_tier_poll(pool);
	cr_expect_eq(kvmm_names_rename(pool, &name, &ref, 1), 0);
	poll_all(pool);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_str_eq(answers(pool, 5, 1), "0", "it is dropped for a copy of its own only");
	cr_assert_eq(kvmm_match(pool, prefix_of(5, 1)->keys, 1, &ref), 1);
	begin_offload(pool, &ref, 1, 0);
	poll_all(pool);
	cr_expect_eq(kvmm_unpublish(pool, &ref, 1, &mut), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_str_eq(answers(pool, 5, 1), "1", "copies stay");
}

static void add_name(struct kvmm_pool *pool, u32 number, kvmm_ref_t ref)
{
	const struct kvmm_prefix *prefix = prefix_of(number, 1);
	struct kvmm_name name = { prefix->keys[0], prefix->domain, number };

	cr_assert_eq(kvmm_names_add(pool, &name, &ref, 1), 0);
}

TIER_TEST(tier, a_block_is_copied_under_each_of_its_names, 8, 8)
{
	kvmm_ref_t ref;

	make_blocks(pool, 1, 1, &ref);
	add_name(pool, 4, ref);
	add_name(pool, 6, ref);
	begin_offload(pool, &ref, 1, KVMM_TIER_DROP);
	poll_all(pool);
	cr_expect_str_eq(tier_picture(tier), "rrr.....");
	cr_expect_eq(kvmm_put(pool, ref), 0);
	kvmm_reset_inactive(pool);
	cr_expect_eq(kvmm_match_len(pool, prefix_of(4, 1)->keys, 1), 0);
	cr_expect_str_eq(answers(pool, 1, 1), "1");
	cr_expect_str_eq(answers(pool, 4, 1), "1");
	cr_expect_str_eq(answers(pool, 6, 1), "1");
	cr_expect_str_eq(answers(pool, 5, 1), "-");
}

TIER_TEST(tier, a_name_that_is_added_goes_down_if_the_block_has_a_copy, 8, 8)
{
	kvmm_ref_t ref[2];

	make_blocks(pool, 1, 2, ref);
	begin_offload(pool, ref, 1, 0);
	poll_all(pool);
	add_name(pool, 4, ref[0]);
	add_name(pool, 5, ref[1]);
	poll_all(pool);
	cr_expect_str_eq(tier_picture(tier), "rr......");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_str_eq(answers(pool, 4, 1), "1");
	cr_expect_str_eq(answers(pool, 5, 1), "-");
}

Test(tier_policy, a_copy_that_is_asked_for_after_a_rename_is_of_the_new_name)
{
	struct kvmm_name name = { prefix_of(5, 1)->keys[0], prefix_of(5, 1)->domain, 5 };
	struct both both = both_of_ids(8, 8, 1000);
	struct kvmm_pool *pool;
	kvmm_ref_t ref;

	both.host.down.latency_ns = 1000;
	both_make(&both);
	pool = both.pool;
	make_blocks(pool, 1, 1, &ref);
	begin_offload(pool, &ref, 1, 0);
	cr_expect_eq(kvmm_tier_poll(pool), 1);
	cr_expect_eq(kvmm_names_rename(pool, &name, &ref, 1), 0);
	begin_offload(pool, &ref, 1, 0);
	for (u64 now = 1000; now < 10000; now += 1000) {
		cr_assert_eq(kvmm_tier_clock(both.tier, now), 0);
		kvmm_tier_poll(pool);
	}
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_str_eq(answers(pool, 1, 1), "1");
	cr_expect_str_eq(answers(pool, 5, 1), "1");
	end_both(pool, both.tier);
}
