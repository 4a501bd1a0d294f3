// SPDX-License-Identifier: Apache-2.0
/* Cached blocks by block id: what the calls do, and what they refuse without a trace. */
#include <kv/cuda.h>
#include <kv/rcu.h>
#include <kvmm/ext/ids.h>

#include "tests/pool/life_util.h"
#include "tests/support/fault.h"

static struct kvmm_pool *make_ids(u32 nr_blocks, const char *policy, u32 flags, u32 dup)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .compactor = "off", .flags = flags,
				       .dup_policy = dup };

	return make_pool_of(&attr);
}

/* Blocks named @first ... with a reference each. */
static void make_named(struct kvmm_pool *pool, u32 first, u32 nr, int32_t *ids)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(first, nr), nr);

	cr_assert_eq(kvmm_ids_alloc(pool, nr, 0, ids), 0);
	cr_assert_eq(kvmm_ids_register(pool, &prefix, ids, 0), 0);
}

static int find(struct kvmm_pool *pool, u32 first, u32 nr, int32_t *ids, u32 flags)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(first, nr), nr);

	return kvmm_ids_find(pool, &prefix, ids, flags);
}

static struct kvmm_id_info info_of(struct kvmm_pool *pool, int32_t id)
{
	struct kvmm_id_info info;

	cr_assert_eq(kvmm_ids_info(pool, &id, 1, &info), 0);
	return info;
}

POOL_TEST(ids, a_block_goes_its_way_by_its_id, make_ids(8, "lru", 0, 0))
{
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 3), 3);
	int32_t ids[3], found[3];

	cr_expect_eq(kvmm_ids_alloc(pool, 3, 0, ids), 0);
	cr_expect_str_eq(picture(pool), "PPP.....");
	cr_expect_eq(kvmm_ids_register(pool, &prefix, ids, 0), 0);
	cr_expect_str_eq(picture(pool), "AAA.....");
	cr_expect_eq(kvmm_ids_put(pool, ids, 3, 0), 0);
	cr_expect_str_eq(picture(pool), "III.....");
	cr_expect_eq(kvmm_ids_find(pool, &prefix, found, 0), 3);
	cr_expect_arr_eq(found, ids, sizeof(ids));
	cr_expect_eq(kvmm_ids_get(pool, ids + 1, 2, 0), 0);
	cr_expect_str_eq(refs_picture(pool), "122.....");
	cr_expect_eq(kvmm_ids_put(pool, ids + 1, 2, 0), 0);
	cr_expect_eq(kvmm_ids_free(pool, ids, 3), 0);
	cr_expect_str_eq(refs_picture(pool), "000.....");
}

POOL_TEST(ids, private_blocks_are_freed, make_ids(8, "lru", 0, 0))
{
	int32_t ids[4];

	cr_expect_eq(kvmm_ids_alloc(pool, 4, 0, ids), 0);
	cr_expect_eq(kvmm_ids_put(pool, ids + 1, 2, 0), 0);
	cr_expect_str_eq(picture(pool), "P..P....");
	cr_expect_eq(kvmm_ids_put(pool, ids + 1, 1, 0), -ESTALE);
}

POOL_TEST(ids, pools_that_move_blocks_have_no_ids, make_cache(8, "lru"))
{
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 1), 1);
	struct kvmm_id_info info;
	int32_t id = 0;

	cr_expect_eq(kvmm_ids_alloc(pool, 1, 0, &id), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_register(pool, &prefix, &id, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_find(pool, &prefix, &id, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_get(pool, &id, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_put(pool, &id, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_info(pool, &id, 1, &info), -EOPNOTSUPP);
}

POOL_TEST(ids, pools_of_ranges_have_no_ids, make_ids(8, NULL, 0, 0))
{
	int32_t id = 0;

	cr_expect_eq(kvmm_ids_alloc(pool, 1, 0, &id), -EOPNOTSUPP);
	cr_expect_eq(kvmm_ids_put(pool, &id, 1, 0), -EOPNOTSUPP);
}

POOL_TEST(ids, what_is_no_block_is_refused, make_ids(8, "lru", KVMM_POOL_NULL_BLOCK, 0))
{
	const int32_t none[] = { -1, 8, INT32_MIN, INT32_MAX, 0 };
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 2), 2);
	struct kvmm_id_info info[2];
	int32_t named, mine;

	make_named(pool, 0, 1, &named);
	cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, &mine), 0);
	for (u32 i = 0; i < ARRAY_SIZE(none); i++) {
		int32_t refs[2] = { named, none[i] }, muts[2] = { mine, none[i] };

		expect_refused(pool, kvmm_ids_get(pool, refs, 2, 0), -EINVAL);
		expect_refused(pool, kvmm_ids_get(pool, refs, 2, KVMM_IDS_INACTIVE), -EINVAL);
		expect_refused(pool, kvmm_ids_put(pool, refs, 2, 0), -EINVAL);
		expect_refused(pool, kvmm_ids_put(pool, muts, 2, KVMM_IDS_FIRST_OUT), -EINVAL);
		expect_refused(pool, kvmm_ids_register(pool, &prefix, muts, 0), -EINVAL);
		if (none[i])
			expect_refused(pool, kvmm_ids_info(pool, refs, 2, info), -EINVAL);
	}
	expect_refused(pool, kvmm_ids_get(pool, &named, 1, ~0u), -EINVAL);
	expect_refused(pool, kvmm_ids_put(pool, &named, 1, ~0u), -EINVAL);
	expect_refused(pool, kvmm_ids_register(pool, &prefix, &mine, 1), -EINVAL);
	expect_refused(pool, kvmm_ids_register(pool, NULL, &mine, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_get(pool, NULL, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_alloc(pool, 1, 0, NULL), -EINVAL);
	cr_expect_eq(info_of(pool, 0).state, KVMM_BLOCK_NULL);
}

/* One block in each state, and what each call says of it. */
POOL_TEST(ids, blocks_in_another_state_are_refused, make_ids(16, "lru", 0, 0))
{
	int32_t mine, named, idle, unused = 15;
	struct kvmm_prefix prefix = prefix_of(keys_from(9, 1), 1);
	kvmm_range_t range;
	kvmm_staged_t staged;
	int32_t in_range, in_stage;
	struct kvmm_extent ext;

	cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, &mine), 0);
	make_named(pool, 0, 1, &named);
	make_named(pool, 1, 1, &idle);
	cr_assert_eq(kvmm_ids_put(pool, &idle, 1, 0), 0);
	range = take(pool, 1, 0);
	cr_assert_eq(kvmm_range_extents(pool, range, &ext, 1), 1);
	in_range = ext.start;
	make_staged(pool, 5, 1, &staged);
	in_stage = entry_block(entry_at(pool, staged.index));

	expect_refused(pool, kvmm_ids_get(pool, &mine, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_get(pool, &in_stage, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_get(pool, &in_range, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_get(pool, &idle, 1, 0), -ESTALE);
	expect_refused(pool, kvmm_ids_get(pool, &unused, 1, KVMM_IDS_INACTIVE), -ESTALE);
	expect_refused(pool, kvmm_ids_put(pool, &idle, 1, 0), -ESTALE);
	expect_refused(pool, kvmm_ids_put(pool, &in_stage, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_put(pool, &in_range, 1, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_put(pool, &unused, 1, 0), -ESTALE);
	expect_refused(pool, kvmm_ids_register(pool, &prefix, &named, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_register(pool, &prefix, &in_range, 0), -EINVAL);
	expect_refused(pool, kvmm_ids_register(pool, &prefix, &unused, 0), -ESTALE);
	cr_expect_eq(kvmm_ids_get(pool, &idle, 1, KVMM_IDS_INACTIVE), 0);
	cr_expect_eq(info_of(pool, idle).state, KVMM_BLOCK_ACTIVE);
}

POOL_TEST(ids, an_id_counts_as_often_as_it_stands_there, make_ids(8, "lru", 0, 0))
{
	int32_t ids[5] = { 0 };

	make_named(pool, 0, 1, ids);
	for (u32 i = 1; i < 5; i++)
		ids[i] = ids[0];
	cr_expect_eq(kvmm_ids_get(pool, ids, 3, 0), 0);
	cr_expect_str_eq(refs_picture(pool), "4.......");
	expect_refused(pool, kvmm_ids_put(pool, ids, 5, 0), -EINVAL);
	cr_expect_str_eq(refs_picture(pool), "4.......");
	cr_expect_eq(kvmm_ids_put(pool, ids, 4, 0), 0);
	cr_expect_str_eq(picture(pool), "I.......");
}

POOL_TEST(ids, registered_and_private_ones_are_put_together, make_ids(8, "lru", 0, 0))
{
	int32_t ids[6];

	make_named(pool, 0, 3, ids);
	cr_assert_eq(kvmm_ids_alloc(pool, 3, 0, ids + 3), 0);
	cr_expect_eq(kvmm_ids_put(pool, (int32_t[]){ ids[3], ids[0], ids[4], ids[1] }, 4, 0), 0);
	cr_expect_str_eq(picture(pool), "IIA..P..");
	cr_expect_eq(stat_of(pool).frees, 1);
	expect_order(pool, "1 0 ");
}

/* Whatever is wrong, and wherever it stands. */
POOL_TEST(ids, a_mixed_list_is_put_as_a_whole_or_not_at_all, make_ids(8, "lru", 0, 0))
{
	int32_t named[2], mine[2], bad[4];
	struct {
		int32_t id;
		int err;
	} what[4];

	make_named(pool, 0, 2, named);
	cr_assert_eq(kvmm_ids_alloc(pool, 2, 0, mine), 0);
	what[0].id = mine[0], what[0].err = -EINVAL;	/* twice */
	what[1].id = named[0], what[1].err = -EINVAL;	/* more often than it has references */
	what[2].id = 7, what[2].err = -ESTALE;
	what[3].id = 9, what[3].err = -EINVAL;
	for (u32 i = 0; i < ARRAY_SIZE(what); i++)
		for (u32 at = 0; at < 4; at++) {
			int32_t list[4] = { named[0], mine[0], named[1], mine[1] };
			u32 nr = 0;

			for (u32 k = 0; k < 4; k++)
				bad[nr++] = k == at ? what[i].id : list[k];
			if (bad[0] == list[0] && bad[1] == list[1] && bad[2] == list[2] &&
			    bad[3] == list[3])
				continue;
			expect_refused(pool, kvmm_ids_put(pool, bad, 4, 0), what[i].err);
			expect_refused(pool, kvmm_ids_put(pool, bad, 4, KVMM_IDS_FIRST_OUT),
				       what[i].err);
		}
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(ids, the_last_is_evicted_first, make_ids(8, "lru", 0, 0))
{
	int32_t ids[4];

	for (u32 i = 0; i < 4; i++)
		make_named(pool, 10 * i, 1, &ids[i]);
	cr_expect_eq(kvmm_ids_put(pool, ids, 4, 0), 0);
	expect_order(pool, "30 20 10 0 ");
}

POOL_TEST(ids, the_first_is_evicted_first_if_told_so, make_ids(8, "lru", 0, 0))
{
	int32_t ids[4];

	for (u32 i = 0; i < 4; i++)
		make_named(pool, 10 * i, 1, &ids[i]);
	cr_expect_eq(kvmm_ids_put(pool, ids, 4, KVMM_IDS_FIRST_OUT), 0);
	expect_order(pool, "0 10 20 30 ");
}

POOL_TEST(ids, a_rejected_block_is_replaced_by_the_older_one,
	  make_ids(8, "lru", 0, KVMM_DUP_REJECT))
{
	struct kvmm_prefix prefix;
	int32_t older[2], ids[3], want[3];

	make_named(pool, 2, 2, older);
	prefix = prefix_of(keys_from(1, 3), 3);
	cr_assert_eq(kvmm_ids_alloc(pool, 3, 0, ids), 0);
	want[0] = ids[0], want[1] = older[0], want[2] = older[1];
	cr_expect_eq(kvmm_ids_register(pool, &prefix, ids, 0), 0);
	cr_expect_arr_eq(ids, want, sizeof(want));
	cr_expect_str_eq(refs_picture(pool), "221.....");
}

POOL_TEST(ids, a_key_that_is_not_cached_has_no_id, make_ids(8, "lru", 0, 0))
{
	int32_t ids[3], found[4] = { 5, 5, 5, 5 };

	make_named(pool, 0, 3, ids);
	cr_expect_eq(kvmm_evict_blocks(pool, (uint32_t[]){ ids[1] }, 1), 1);
	cr_expect_eq(find(pool, 0, 4, found, 0), 1);
	cr_expect_eq(found[0], ids[0]);
	cr_expect_eq(found[1], 5);
	cr_expect_eq(find(pool, 0, 4, found, KVMM_FIND_ALL), 2);
	cr_expect_arr_eq(found, ((int32_t[]){ ids[0], KVMM_NO_ID, ids[2], KVMM_NO_ID }),
			 sizeof(found));
	cr_expect_eq(find(pool, 0, 4, found, 1u << 30), -EINVAL);
}

POOL_TEST(ids, a_forgotten_block_goes_with_its_last_reference, make_ids(8, "lru", 0, 0))
{
	int32_t ids[3];

	make_named(pool, 0, 2, ids);
	cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, ids + 2), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, (uint32_t[]){ ids[0] }, 1), 1);
	cr_expect_eq(kvmm_ids_get(pool, ids, 1, 0), 0);
	cr_expect_eq(kvmm_ids_get(pool, ids, 1, KVMM_IDS_INACTIVE), -ESTALE);
	cr_expect_eq(kvmm_ids_put(pool, ids, 1, 0), 0);
	cr_expect_eq(kvmm_ids_put(pool, ids, 3, 0), 0);
	cr_expect_str_eq(picture(pool), ".I......");
}

POOL_TEST(ids, blocks_tell_what_they_are, make_ids(16, "lru", 0, 0))
{
	struct kvmm_prefix prefix = { .keys = keys_from(3, 2), .nr = 2, .position = 7,
				      .domain = { 1, 2, 3 } };
	const uint32_t tokens[5] = { 1, 2, 3, 4, 5 };
	struct kvmm_id_info info[3];
	int32_t ids[3];

	cr_assert_eq(kvmm_ids_alloc(pool, 3, 1, ids), 0);
	cr_assert_eq(kvmm_ids_register(pool, &prefix, ids, 0), 0);
	cr_assert_eq(kvmm_ids_get(pool, ids + 1, 1, 0), 0);
	info[0] = info_of(pool, ids[2]);
	cr_assert_eq(kvmm_block_set_tokens(pool, (kvmm_mut_t){ info[0].handle.index,
							       info[0].handle.gen },
					   0, tokens, 5), 5);
	cr_assert_eq(kvmm_ids_info(pool, ids, 3, info), 0);
	cr_expect_eq(number_of(&info[0].key), 3);
	cr_expect_eq(number_of(&info[1].key), 4);
	cr_expect_eq(info[1].position, 8);
	cr_expect_eq(info[1].refs, 2);
	cr_expect_eq(info[1].state, KVMM_BLOCK_ACTIVE);
	cr_expect_eq(info[1].tokens, 16);
	cr_expect_arr_eq(&info[1].domain, &prefix.domain, sizeof(prefix.domain));
	cr_expect_eq(info[2].state, KVMM_BLOCK_PRIVATE);
	cr_expect_eq(info[2].refs, 1);
	cr_expect_eq(info[2].tokens, 5);
	cr_expect_eq(info_of(pool, 15).handle.gen, 0);
	/* The handle is good for calls by handle. */
	cr_expect_eq(kvmm_block_of_ref(pool, (kvmm_ref_t){ info[0].handle.index,
							   info[0].handle.gen }), ids[0]);
	cr_expect_eq(kvmm_ids_info_sized(pool, ids, 3, info, 0), -EINVAL);
}

POOL_TEST(ids, an_older_caller_gets_what_it_knows, make_ids(8, "lru", 0, 0))
{
	struct {
		kvmm_key_t key;
		kvmm_domain_t domain;
	} known[2];
	int32_t ids[2];

	make_named(pool, 6, 2, ids);
	cr_assert_eq(kvmm_ids_info_sized(pool, ids, 2, (struct kvmm_id_info *)known,
					 sizeof(known[0])), 0);
	cr_expect_eq(number_of(&known[0].key), 6);
	cr_expect_eq(number_of(&known[1].key), 7);
}

POOL_TEST(ids, touched_blocks_are_evicted_later, make_ids(8, "lru", 0, 0))
{
	int32_t ids[4], unused = 7;

	for (u32 i = 0; i < 4; i++)
		make_named(pool, 10 * i, 1, &ids[i]);
	cr_assert_eq(kvmm_ids_put(pool, ids, 4, KVMM_IDS_FIRST_OUT), 0);
	cr_expect_eq(kvmm_ids_touch(pool, ids, 1), 0);
	expect_refused(pool, kvmm_ids_touch(pool, (int32_t[]){ ids[1], unused }, 2), -ESTALE);
	expect_refused(pool, kvmm_ids_touch(pool, (int32_t[]){ ids[1], 8 }, 2), -EINVAL);
	cr_expect_str_eq(refs_picture(pool), "0000....");
	expect_order(pool, "10 20 30 0 ");
}

POOL_TEST(ids, named_blocks_are_taken_free_or_cached, make_ids(8, "lru", 0, 0))
{
	int32_t ids[4], want[3];

	for (u32 i = 0; i < 4; i++)
		make_named(pool, 10 * i, 1, &ids[i]);
	cr_assert_eq(kvmm_ids_put(pool, ids, 3, KVMM_IDS_FIRST_OUT), 0);
	want[0] = 6, want[1] = ids[1], want[2] = 4;
	cr_expect_eq(kvmm_ids_take(pool, want, 3, 0, 0), 0);
	cr_expect_str_eq(picture(pool), "IPIAP.P.");
	cr_expect_eq(stat_of(pool).evictions, 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(found_under(pool, 10), -1);
	cr_expect_eq(kvmm_ids_free(pool, want, 3), 0);
	cr_expect_str_eq(picture(pool), "I.IA....");
	expect_order(pool, "0 20 ");
}

POOL_TEST(ids, blocks_in_use_are_not_taken, make_ids(8, "lru", KVMM_POOL_NULL_BLOCK, 0))
{
	int32_t idle, held, mine;

	make_named(pool, 0, 1, &idle);
	make_named(pool, 5, 1, &held);
	cr_assert_eq(kvmm_ids_put(pool, &idle, 1, 0), 0);
	cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, &mine), 0);
	take(pool, 1, 0);
	const struct {
		int32_t id;
		int err;
	} bad[] = {
		{ held, -EBUSY }, { mine, -EBUSY }, { 4, -EBUSY }, { 0, -EINVAL }, { 8, -EINVAL },
		{ -1, -EINVAL }, { idle, -EINVAL }, { 6, -EINVAL },
	};
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ idle, 6, 7, bad[i].id }, 4,
						   0, 0), bad[i].err);
	expect_refused(pool, kvmm_ids_take(pool, &idle, 1, 0, 1), -EINVAL);
	/* That one is held, or stands there twice, is said before that so many are not to be had. */
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ idle, 6, 7, 5, held }, 5, 0, 0), -EBUSY);
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ 6, 7, idle, 6, 7 }, 5, 0, 0), -EINVAL);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_ids_take(pool, (int32_t[]){ idle, 6, 7 }, 3, 0, 0), 0);
}

/* Those that a thread keeps aside are free as well. */
POOL_TEST(ids, blocks_in_a_magazine_are_taken, make_ids(1024, "lru", 0, 0))
{
	int32_t ids[1024], none;

	for (u32 i = 0; i < 200; i++) {
		cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, ids), 0);
		cr_assert_eq(kvmm_ids_put(pool, ids, 1, 0), 0);
	}
	for (u32 i = 0; i < 1024; i++)
		ids[i] = i;
	cr_expect_eq(kvmm_ids_take(pool, ids, 1024, 0, 0), 0);
	cr_expect_eq(kvmm_ids_alloc(pool, 1, 0, &none), -ENOSPC);
	cr_expect_eq(kvmm_ids_free(pool, ids, 1024), 0);
}

/* Of a tenant no more than its limit. */
POOL_TEST(ids, limits_hold_for_blocks_that_are_named, make_ids(8, "lru", 0, 0))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	attr.max = 2;
	cr_assert_eq(kvmm_tenant_set(pool, 3, &attr), 0);
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ 1, 3, 5 }, 3, 3, 0), -EDQUOT);
	cr_expect_eq(kvmm_ids_take(pool, (int32_t[]){ 1, 3 }, 2, 3, 0), 0);
	cr_expect_eq(kvmm_ids_take(pool, (int32_t[]){ 5 }, 1, 4, 0), 0);
	cr_expect_str_eq(picture(pool), ".P.P.P..");
}

static int32_t make_cached_of(struct kvmm_pool *pool, u32 tenant, u32 number)
{
	struct kvmm_prefix prefix = { .keys = (kvmm_key_t[]){ key_of(number) }, .nr = 1 };
	int32_t id;

	cr_assert_eq(kvmm_ids_alloc(pool, 1, tenant, &id), 0);
	cr_assert_eq(kvmm_ids_register(pool, &prefix, &id, 0), 0);
	cr_assert_eq(kvmm_ids_put(pool, &id, 1, 0), 0);
	return id;
}

static struct kvmm_tenant_stat tenant_of(struct kvmm_pool *pool, u32 tenant)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_tenant_get_stat(pool, tenant, &stat), 0);
	return stat;
}

POOL_TEST(ids, blocks_that_another_tenant_is_promised_are_not_taken, make_ids(8, "lru", 0, 0))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	int32_t ids[3];

	attr.min = 2;
	cr_assert_eq(kvmm_tenant_set(pool, 3, &attr), 0);
	for (u32 i = 0; i < 3; i++)
		ids[i] = make_cached_of(pool, 3, i);
	/* One of the three is beyond what is promised, whichever. */
	expect_refused(pool, kvmm_ids_take(pool, ids, 2, 4, 0), -ENOSPC);
	cr_expect_eq(kvmm_ids_take(pool, &ids[1], 1, 4, 0), 0);
	cr_expect_eq(tenant_of(pool, 3).usage, 2);
	cr_expect_eq(tenant_of(pool, 3).nr_evicted, 1);
	expect_refused(pool, kvmm_ids_take(pool, &ids[0], 1, 4, 0), -ENOSPC);
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ 7, ids[0] }, 2, 4, 0), -ENOSPC);
	cr_expect_eq(kvmm_validate(pool), 0);
	/* From itself the tenant takes what it likes. */
	cr_expect_eq(kvmm_ids_take(pool, (int32_t[]){ ids[0], ids[2] }, 2, 3, 0), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(ids, a_tenant_at_its_limit_takes_its_own_cached_blocks, make_ids(8, "lru", 0, 0))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	int32_t own[2], other;

	attr.max = 2;
	cr_assert_eq(kvmm_tenant_set(pool, 3, &attr), 0);
	for (u32 i = 0; i < 2; i++)
		own[i] = make_cached_of(pool, 3, i);
	other = make_cached_of(pool, 4, 9);
	expect_refused(pool, kvmm_ids_take(pool, (int32_t[]){ own[0], 7 }, 2, 3, 0), -EDQUOT);
	expect_refused(pool, kvmm_ids_take(pool, &other, 1, 3, 0), -EDQUOT);
	cr_expect_eq(kvmm_ids_take(pool, own, 2, 3, 0), 0);
	cr_expect_eq(tenant_of(pool, 3).usage, 2);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* An entry in its last life goes with its name, so there may be fewer entries than blocks. */
POOL_TEST(ids, blocks_are_taken_as_long_as_there_are_entries, make_ids(4, "lru", 0, 0))
{
	int32_t ids[4], all[4] = { 0, 1, 2, 3 };

	pool->entries.gen_last = pool->entries.gen_first;
	make_named(pool, 0, 2, ids);
	cr_assert_eq(kvmm_ids_put(pool, ids, 2, 0), 0);
	expect_refused(pool, kvmm_ids_take(pool, all, 4, 0, 0), -ENOSPC);
	expect_refused(pool, kvmm_ids_take(pool, all, 3, 0, 0), -ENOSPC);
	cr_expect_eq(kvmm_ids_take(pool, ids, 2, 0, 0), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_ids_put(pool, ids, 2, 0), 0);
	expect_refused(pool, kvmm_ids_take(pool, all, 1, 0, 0), -ENOSPC);
}

/* The first generation again after the last one: ids are of the block of now. */
POOL_TEST(ids, generations_begin_again, make_ids(4, "lru", 0, 0))
{
	u32 first = KV_ENTRY_GEN_MASK - 2;
	int32_t ids[4];

	pool->entries.gen_first = first;	/* none has been taken: it is that of all */
	pool->entries.gen_last = first - 1;
	pool->count.entry_gens = (u64)first * pool->nr_blocks;
	for (u32 round = 0; round < 8; round++) {
		make_named(pool, 10 * round, 4, ids);
		cr_expect_eq(kvmm_ids_put(pool, ids, 4, 0), 0);
		cr_expect_eq(kvmm_ids_take(pool, ids, 4, 0, 0), 0);
		cr_expect_eq(found_under(pool, 10 * round), -1);
		cr_expect_eq(kvmm_ids_get(pool, ids, 4, KVMM_IDS_INACTIVE), -EINVAL);
		cr_expect_eq(kvmm_ids_put(pool, ids, 4, 0), 0);
	}
}

static u32 fills_left;

static int failing_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	if (!fills_left)
		return -EIO;
	fills_left--;
	return kv_dev_host.fill(dev, addr, byte, bytes);
}

/* Blocks that were to be taken are free then: those that were cached have lost their names. */
Test(ids, blocks_that_cannot_be_zeroed_are_not_taken)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .compactor = "off",
				       .block_bytes = TEST_BLOCK_BYTES, .zero = KVMM_ZERO_ALWAYS };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .map = &kv_map_flat,
				       .evict = &kv_evict_lru };
	static struct kv_dev_ops dev;
	struct kvmm_pool *pool;
	int32_t ids[3];

	dev = kv_dev_host;
	dev.fill = failing_fill;
	parts.dev = &dev;
	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
	for (u32 nr = 0; nr < 3; nr++) {
		fills_left = 2;
		make_named(pool, 10 * nr, 2, ids);
		cr_assert_eq(kvmm_ids_put(pool, ids, 2, 0), 0);
		ids[2] = 7;
		fills_left = nr;
		cr_expect_eq(kvmm_ids_take(pool, ids, 3, 0, 0), -EIO);
		cr_expect_str_eq(picture(pool), "........");
		cr_expect_eq(found_under(pool, 10 * nr), -1);
		cr_expect_eq(kvmm_validate(pool), 0);
	}
	fills_left = 3;
	cr_expect_eq(kvmm_ids_take(pool, ids, 3, 0, 0), 0);
	cr_expect_eq(kvmm_ids_put(pool, ids, 3, 0), 0);
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

/* Twice the longest batch that needs no memory. */
#define LONG	1024u

TestSuite(ids_fault, .init = fault_begin, .fini = fault_end);

Test(ids_fault, long_batches_need_memory_and_change_nothing_without)
{
	static int32_t ids[LONG], found[LONG];
	static kvmm_key_t keys[LONG];
	struct kvmm_prefix prefix = { .keys = keys, .nr = LONG };
	struct kvmm_pool *pool = make_ids(LONG, "lru", 0, 0);

	for (u32 i = 0; i < LONG; i++)
		keys[i] = key_of(i);
	expect_no_memory(kvmm_ids_alloc(pool, LONG, 0, ids));
	cr_expect_eq(stat_of(pool).nr_free, LONG);
	cr_expect_eq(kvmm_ids_alloc(pool, LONG, 0, ids), 0);
	expect_no_memory(kvmm_ids_register(pool, &prefix, ids, 0));
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], LONG);
	cr_expect_eq(kvmm_ids_register(pool, &prefix, ids, 0), 0);
	expect_no_memory(kvmm_ids_get(pool, ids, LONG, 0));
	expect_no_memory(kvmm_ids_put(pool, ids, LONG, 0));
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE], LONG);
	cr_expect_eq(kvmm_ids_put(pool, ids, LONG, 0), 0);
	expect_no_memory(kvmm_ids_find(pool, &prefix, found, 0));
	cr_expect_eq(stat_of(pool).nr_inactive, LONG);
	cr_expect_eq(kvmm_ids_find(pool, &prefix, found, KVMM_FIND_ALL), LONG);
	cr_expect_arr_eq(found, ids, sizeof(ids));
	cr_expect_eq(kvmm_ids_get(pool, ids, LONG, 0), 0);
	expect_no_memory(kvmm_ids_touch(pool, ids, LONG));
	cr_expect_eq(kvmm_ids_put(pool, ids, LONG, 0), 0);
	cr_expect_eq(kvmm_ids_put(pool, ids, LONG, 0), 0);
	expect_no_memory(kvmm_ids_take(pool, ids, LONG, 0, 0));
	cr_expect_eq(stat_of(pool).nr_inactive, LONG);
	cr_expect_eq(kvmm_ids_take(pool, ids, LONG, 0, 0), 0);
	end_pool(pool);
}

/* Behind the call: names in the index, a copy of the batch, and the batch of handles if it is long. */
static u32 register_until(const char *index, u32 dup, u32 nr)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2 * LONG, .policy = "lru",
				       .compactor = "off", .dup_policy = dup, .index = index };
	static int32_t ids[LONG], before[LONG], elder[LONG];
	static kvmm_key_t keys[LONG];
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr };
	struct kvmm_pool *pool = make_pool_of(&attr);
	bool failed = true;
	u32 n;

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(i);
	make_named(pool, 1, 2, elder);
	cr_assert_eq(kvmm_ids_alloc(pool, nr, 0, ids), 0);
	memcpy(before, ids, nr * sizeof(*ids));
	for (n = 0; failed; n++) {
		u64 nr_live = (kv_rcu_barrier(), fake.nr_live);
		int err = fault_at(n + 1, kvmm_ids_register(pool, &prefix, ids, 0), &failed);

		cr_assert_eq(err, failed ? -ENOMEM : 0, "allocation %u: %d", n + 1, err);
		if (!failed)
			break;
		cr_assert_arr_eq(ids, before, nr * sizeof(*ids), "allocation %u", n + 1);
		cr_assert_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], nr);
		cr_assert_eq(kvmm_match_len(pool, keys + 3, nr - 3), 0);
		cr_assert_eq(kvmm_validate(pool), 0);
		cr_assert_eq(fake.nr_live, nr_live, "allocation %u left memory", n + 1);
	}
	cr_expect_eq(ids[1] == elder[0], dup == KVMM_DUP_REJECT);
	cr_expect_eq(kvmm_ids_put(pool, ids, nr, 0), 0);
	cr_expect_eq(kvmm_ids_put(pool, elder, 2, 0), 0);
	end_pool(pool);
	return n;
}

Test(ids_fault, a_registration_names_all_blocks_or_none)
{
	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		cr_expect_eq(register_until("flat", dup, 6), 0);
		cr_expect_eq(register_until("lfht", dup, 6), 6);
		cr_expect_eq(register_until("flat", dup, LONG), 1 + (dup == KVMM_DUP_REJECT));
		cr_expect_geq(register_until("lfht", dup, LONG), LONG);
	}
}
