// SPDX-License-Identifier: Apache-2.0
/* Names of registered blocks change: other names, more names, none. */
#include <kvmm/event.h>
#include <kvmm/ext/name.h>

#include "tests/pool/life_util.h"

static struct kvmm_name name_of(u32 number)
{
	return (struct kvmm_name){ .key = key_of(number), .position = number };
}

/* One name of one block. */
static int change(struct kvmm_pool *pool, u32 op, u32 number, kvmm_ref_t ref)
{
	struct kvmm_name name = name_of(number);

	return kvmm_names_change(pool, &name, &ref, 1, op);
}

#define add(number, ref)	change(pool, KVMM_NAME_ADD, number, ref)
#define rename_to(number, ref)	change(pool, KVMM_NAME_RENAME, number, ref)
#define remove_it(number, ref)	change(pool, KVMM_NAME_REMOVE, number, ref)

/* Blocks that are found under names 0 to 9, '.' where there is none; all look-ups agree. */
static const char *hits(struct kvmm_pool *pool)
{
	static char line[11];
	struct kvmm_prefix all = prefix_of(keys_from(0, 10), 10);
	kvmm_ref_t ref[10], match;
	u64 present;
	u32 nr = 0;

	cr_expect_geq(kvmm_prefix_scan(pool, &all, ref), 0);
	cr_expect_geq(kvmm_prefix_probe(pool, &all, &present), 0);
	for (u32 i = 0; i < 10; i++) {
		int found = kvmm_match(pool, keys_from(i, 1), 1, &match);

		cr_expect_eq(found, ref[i].gen != 0);
		cr_expect_eq(present >> i & 1, found);
		line[i] = found ? '0' + kvmm_block_of_ref(pool, ref[i]) : '.';
		if (!found)
			continue;
		cr_expect(match.index == ref[i].index && match.gen == ref[i].gen);
		cr_expect_eq(kvmm_put(pool, match), 0);
		ref[nr++] = ref[i];
	}
	cr_expect_eq(kvmm_put_many(pool, ref, nr), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	return line;
}

/* "3 1 2 ": the first one, and added ones. */
static const char *names_of(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	static char line[128];
	struct kvmm_name name[16];
	int nr = kvmm_names_get(pool, ref, name, 16);

	line[0] = '\0';
	for (int i = 0; i < nr; i++) {
		cr_expect_eq(name[i].position, number_of(&name[i].key));
		snprintf(line + strlen(line), 8, "%u ", number_of(&name[i].key));
	}
	cr_expect_geq(nr, 0);
	return line;
}

POOL_TEST(rename, gives_a_held_block_another_name, make_cache(8, "lru"))
{
	kvmm_ref_t ref[3], got;

	make_active(pool, 0, 3, ref);
	cr_expect_eq(rename_to(5, ref[1]), 0);
	cr_expect_str_eq(hits(pool), "0.2..1....");
	cr_expect_str_eq(names_of(pool, ref[1]), "5 ");
	/* Handle and references are what they were. */
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_eq(kvmm_match(pool, keys_from(5, 1), 1, &got), 1);
	cr_expect(got.index == ref[1].index && got.gen == ref[1].gen);
	cr_expect_eq(kvmm_put(pool, got), 0);
	cr_expect_eq(rename_to(1, ref[1]), 0);
	cr_expect_str_eq(hits(pool), "012.......");
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(hits(pool), "012.......");
}

POOL_TEST(rename, keeps_the_place_in_the_order_of_eviction, make_cache(4, "lru"))
{
	kvmm_ref_t ref[4];

	/* Names that are no chain, so that only the times of use count. */
	for (u32 i = 0; i < 4; i++)
		make_active(pool, 2 * i, 1, &ref[i]);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_upgrade(pool, kvmm_weak_of(ref[1]), &ref[1]), 1);
	cr_expect_eq(rename_to(9, ref[1]), 0);
	cr_expect_eq(kvmm_put(pool, ref[1]), 0);
	expect_order(pool, "0 4 6 9 ");
}

/* Of eight blocks, the fourth used again, as block 9 by now if @is_renamed. */
static u32 order_of(const char *policy, bool is_renamed, u32 *order)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_life(8, policy, KVMM_POOL_DETERMINISTIC, 0);
	kvmm_ref_t ref[8];
	u32 nr;

	for (u32 i = 0; i < 8; i++)
		make_active(pool, 2 * i, 1, &ref[i]);
	for (u32 i = 0; i < 8; i++)
		cr_expect_eq(kvmm_put(pool, ref[i]), 0);
	cr_expect_eq(kvmm_upgrade(pool, kvmm_weak_of(ref[3]), &ref[3]), 1);
	if (is_renamed)
		cr_expect_eq(rename_to(9, ref[3]), 0);
	cr_expect_eq(kvmm_put(pool, ref[3]), 0);
	nr = eviction_order(pool, order, 8);
	for (u32 i = 0; i < nr; i++)
		order[i] = order[i] == 9 ? 6 : order[i];
	return nr;
}

Test(rename, keeps_the_place_in_the_order_of_any_policy)
{
	u32 plain[8], renamed[8];

	for_each_policy(policy) {
		cr_expect_eq(order_of(policy, false, plain), 8, "%s", policy);
		cr_expect_eq(order_of(policy, true, renamed), 8, "%s", policy);
		cr_expect_arr_eq(plain, renamed, sizeof(plain), "%s", policy);
	}
}

POOL_TEST(rename, is_all_or_nothing, make_cache(8, "lru"))
{
	struct kvmm_name name[3] = { name_of(5), name_of(6), name_of(2) };
	kvmm_ref_t ref[3];
	u32 block = 2;

	make_active(pool, 0, 3, ref);
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 3), -EEXIST, "its own name");
	cr_expect_str_eq(hits(pool), "012.......");
	name[2] = name_of(7);
	ref[2] = ref[0];
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 3), -EINVAL, "renamed twice");
	cr_expect_str_eq(hits(pool), "012.......");
	make_active(pool, 3, 1, &ref[2]);
	block = kvmm_block_of_ref(pool, ref[2]);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 3), -ESTALE, "its names are forgotten");
	cr_expect_str_eq(hits(pool), "012.......");
	cr_expect_eq(kvmm_put(pool, ref[2]), 0);
	expect_refused(pool, kvmm_names_rename(pool, name, ref, 3), -ESTALE);
	expect_refused(pool, kvmm_names_change(pool, name, ref, 2, KVMM_NR_NAME_OPS), -EINVAL);
	expect_refused(pool, kvmm_names_rename(pool, NULL, ref, 2), -EINVAL);
	expect_refused(pool, kvmm_names_rename(pool, name, NULL, 2), -EINVAL);
	expect_refused(pool, kvmm_names_rename(pool, NULL, NULL, 0), 0);
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 2), 0);
	cr_expect_str_eq(hits(pool), "..2..01...");
}

POOL_TEST(rename, to_a_taken_name_waits_behind_the_older_block, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2];
	u32 block = 0;

	make_active(pool, 0, 2, ref);
	cr_expect_eq(rename_to(0, ref[1]), 0);
	cr_expect_str_eq(hits(pool), "0.........");
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(hits(pool), "1.........");
	cr_expect_eq(rename_to(4, ref[1]), 0);
	cr_expect_str_eq(hits(pool), "....1.....");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(rename, leaves_its_name_to_the_next_of_that_name, make_cache(8, "lru"))
{
	kvmm_ref_t old, young;

	make_active(pool, 0, 1, &old);
	publish_as(pool, KVMM_DUP_ALLOW, 0, 1, &young);
	cr_expect_eq(rename_to(3, old), 0);
	cr_expect_str_eq(hits(pool), "1..0......");
	cr_expect_eq(rename_to(0, old), 0);
	cr_expect_str_eq(hits(pool), "1.........");
	cr_expect_eq(kvmm_put(pool, young), 0);
	cr_expect_eq(kvmm_put(pool, old), 0);
}

POOL_TEST(rename, of_a_duplicate_drops_the_elder_it_held, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t elder, dup;

	make_active(pool, 0, 1, &elder);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(rename_to(5, dup), 0);
	cr_expect_str_eq(picture(pool), "IA......");
	cr_expect_eq(kvmm_put(pool, dup), 0);
	cr_expect_str_eq(picture(pool), "II......", "it is cached as any block");
	cr_expect_str_eq(hits(pool), "0....1....");
}

POOL_TEST(added_name, is_a_hit_until_the_block_goes, make_cache(4, "lru"))
{
	kvmm_ref_t ref;
	kvmm_mut_t mut[4];

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(add(7, ref), 0);
	cr_expect_eq(add(3, ref), 0);
	cr_expect_str_eq(hits(pool), "0..0...0..");
	cr_expect_str_eq(names_of(pool, ref), "0 7 3 ");
	cr_expect_eq(kvmm_names_get(pool, ref, NULL, 0), 3);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_str_eq(hits(pool), "0..0...0..");
	cr_expect_eq(kvmm_names_get(pool, ref, NULL, 0), -ESTALE);
	make_private(pool, 4, mut);
	cr_expect_str_eq(hits(pool), "..........");
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

POOL_TEST(added_name, is_a_hit_for_acquire_as_well, make_cache(8, "lru"))
{
	kvmm_key_t key[2] = { key_of(0), key_of(7) };
	kvmm_ref_t ref, hit[2];
	kvmm_mut_t fresh[2];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 2, .max_hits = 2, .nr_blocks = 2,
					 .hits = hit, .fresh = fresh };

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(add(7, ref), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 2);
	cr_expect_str_eq(refs_picture(pool), "3.......");
	cr_expect_eq(kvmm_put_many(pool, hit, 2), 0);
	cr_expect_eq(kvmm_put(pool, ref), 0);
}

POOL_TEST(added_name, goes_singly_and_with_evicted_ids, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2];
	u32 block = 0;

	make_active(pool, 0, 2, ref);
	cr_expect_eq(add(5, ref[0]), 0);
	cr_expect_eq(add(6, ref[0]), 0);
	cr_expect_eq(add(5, ref[1]), 0);
	cr_expect_eq(add(5, ref[0]), -EEXIST);
	cr_expect_eq(add(0, ref[0]), -EEXIST);
	cr_expect_eq(remove_it(9, ref[0]), -ENOENT);
	cr_expect_eq(remove_it(6, ref[1]), -ENOENT);
	cr_expect_str_eq(hits(pool), "01...00...");
	cr_expect_eq(remove_it(5, ref[0]), 0);
	cr_expect_str_eq(hits(pool), "01...10...");
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(hits(pool), ".1...1....");
	cr_expect_str_eq(names_of(pool, ref[0]), "");
	cr_expect_eq(add(8, ref[0]), -ESTALE);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_str_eq(hits(pool), "..........");
}

POOL_TEST(added_name, takes_the_place_of_the_first_one, make_cache(8, "lru"))
{
	kvmm_ref_t ref;

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(add(4, ref), 0);
	cr_expect_eq(add(5, ref), 0);
	cr_expect_eq(remove_it(0, ref), 0);
	cr_expect_str_eq(names_of(pool, ref), "4 5 ");
	cr_expect_str_eq(hits(pool), "....00....");
	cr_expect_eq(rename_to(6, ref), 0);
	cr_expect_str_eq(names_of(pool, ref), "6 5 ");
	cr_expect_eq(remove_it(5, ref), 0);
	cr_expect_eq(remove_it(6, ref), 0);
	cr_expect_str_eq(names_of(pool, ref), "");
	cr_expect_str_eq(refs_picture(pool), "1.......");
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_str_eq(picture(pool), "........");
}

POOL_TEST(added_name, moves_from_block_to_block, make_cache(8, "lru"))
{
	struct kvmm_name name[3] = { name_of(0), name_of(4), name_of(5) };
	kvmm_ref_t ref[2], from[3], to[3];

	make_active(pool, 0, 2, ref);
	for (u32 i = 0; i < 3; i++) {
		from[i] = ref[0];
		to[i] = ref[1];
	}
	cr_expect_eq(kvmm_names_add(pool, &name[1], from, 2), 0);
	cr_expect_eq(kvmm_names_add(pool, name, to, 3), 0);
	cr_expect_str_eq(hits(pool), "01..00....");
	cr_expect_eq(kvmm_names_remove(pool, name, from, 3), 0);
	cr_expect_str_eq(hits(pool), "11..11....");
	cr_expect_str_eq(names_of(pool, ref[1]), "1 0 4 5 ");
	cr_expect_eq(kvmm_put(pool, ref[0]), 0);
	cr_expect_str_eq(picture(pool), ".A......");
	cr_expect_eq(kvmm_put(pool, ref[1]), 0);
}

POOL_TEST(rename, of_an_elder_frees_it_from_duplicates, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t elder, dup;

	make_active(pool, 0, 1, &elder);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup);
	cr_expect_str_eq(refs_picture(pool), "21......");
	cr_expect_eq(rename_to(5, elder), 0);
	cr_expect_str_eq(hits(pool), "1....0....");
	cr_expect_str_eq(refs_picture(pool), "11......");
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(kvmm_put(pool, dup), 0);
	cr_expect_str_eq(picture(pool), "I.......", "its last reference frees it, as before");
	cr_expect_str_eq(hits(pool), ".....0....");
}

/* The older one is found, the younger one holds neither it nor the block that has gone. */
POOL_TEST(rename, of_an_elder_leaves_its_name_to_duplicates, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t elder, dup[2];

	make_active(pool, 0, 1, &elder);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup[0]);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup[1]);
	cr_expect_str_eq(refs_picture(pool), "311.....");
	cr_expect_eq(rename_to(5, elder), 0);
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_str_eq(hits(pool), "1....0....");
	cr_expect_eq(kvmm_put(pool, dup[0]), 0);
	cr_expect_str_eq(hits(pool), "2....0....");
	cr_expect_eq(kvmm_put(pool, dup[1]), 0);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_str_eq(picture(pool), "I.......");
}

POOL_TEST(rename, of_a_duplicate_that_was_let_go_caches_it, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t elder, dup[2];

	make_active(pool, 0, 1, &elder);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup[0]);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup[1]);
	cr_expect_eq(remove_it(0, elder), 0);
	cr_expect_eq(rename_to(6, dup[0]), 0);
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put(pool, dup[0]), 0);
	cr_expect_eq(kvmm_put(pool, dup[1]), 0);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_str_eq(picture(pool), ".I......", "only the renamed one is cached");
	cr_expect_str_eq(hits(pool), "......1...");
}

/* Both lose the name in one call. */
POOL_TEST(rename, of_an_elder_and_its_duplicate_at_once, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	struct kvmm_name name[2] = { name_of(5), name_of(6) };
	kvmm_ref_t ref[2];

	make_active(pool, 0, 1, &ref[0]);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &ref[1]);
	cr_expect_str_eq(refs_picture(pool), "21......");
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 2), 0);
	cr_expect_str_eq(refs_picture(pool), "11......");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(picture(pool), "II......");
}

/* As above, but the duplicate is of the added name 4; the block loses @gone, one of its two. */
static void lose_name_beside_duplicate(struct kvmm_pool *pool, u32 gone, const char *found,
				       const char *held)
{
	kvmm_ref_t elder, dup;

	make_active(pool, 0, 1, &elder);
	cr_expect_eq(add(4, elder), 0);
	publish_as(pool, KVMM_DUP_HOLD, 4, 1, &dup);
	cr_expect_str_eq(refs_picture(pool), "21......");
	cr_expect_str_eq(hits(pool), "0...0.....");
	cr_expect_eq(remove_it(gone, elder), 0);
	cr_expect_str_eq(hits(pool), found);
	cr_expect_str_eq(refs_picture(pool), held);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(kvmm_put(pool, dup), 0);
}

/* From an added name it becomes a first one: duplicates hold on to the same. */
POOL_TEST(added_name, is_what_duplicates_hold_on_to, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	lose_name_beside_duplicate(pool, 0, "....0.....", "21......");
	cr_expect_str_eq(picture(pool), "I.......");
	cr_expect_str_eq(hits(pool), "....0.....");
}

POOL_TEST(added_name, that_goes_is_held_no_more, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	lose_name_beside_duplicate(pool, 4, "0...1.....", "11......");
}

/* A refused change leaves holds as they were. */
POOL_TEST(rename, that_is_refused_keeps_holds, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	struct kvmm_name name[2] = { name_of(5), name_of(3) };
	kvmm_ref_t ref[2], dup;

	make_active(pool, 0, 1, &ref[0]);
	publish_as(pool, KVMM_DUP_HOLD, 0, 1, &dup);
	make_active(pool, 3, 1, &ref[1]);
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 2), -EEXIST);
	cr_expect_str_eq(refs_picture(pool), "211.....");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(picture(pool), "AAI.....");
	cr_expect_eq(kvmm_put(pool, dup), 0);
	cr_expect_str_eq(picture(pool), "I.I.....");
}

POOL_TEST(added_name, rejects_duplicates, make_life(8, "lru", 0, KVMM_DUP_REJECT))
{
	kvmm_ref_t elder, other;

	make_active(pool, 0, 1, &elder);
	cr_expect_eq(add(4, elder), 0);
	publish_as(pool, KVMM_DUP_REJECT, 4, 1, &other);
	cr_expect(other.index == elder.index && other.gen == elder.gen);
	cr_expect_str_eq(refs_picture(pool), "2.......");
	cr_expect_eq(stat_of(pool).duplicates, 1);
	cr_expect_eq(kvmm_put(pool, other), 0);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(added_name, gives_room_for_more_than_the_index_was_made_for, make_cache(64, "lru"))
{
	u64 bytes = stat_of(pool).metadata_bytes;
	kvmm_ref_t ref[64];
	u32 nr = 0;

	make_active(pool, 0, 64, ref);
	while (nr < 256 && !add(1000 + nr, ref[nr % 64]))
		nr++;
	cr_expect_eq(nr, 256);
	for (u32 i = 0; i < nr; i++)
		cr_expect_eq(found_under(pool, 1000 + i), (int)(i % 64));
	cr_expect_eq(add(999, ref[0]), -ENOSPC);
	cr_expect_eq(rename_to(999, ref[0]), -ENOSPC);
	cr_expect_eq(add(1000, ref[0]), -EEXIST, "there is room enough for a name that is there");
	cr_expect_eq(rename_to(1000, ref[0]), -EEXIST);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_gt(stat_of(pool).metadata_bytes, bytes);
	cr_expect_eq(remove_it(1000, ref[0]), 0);
	cr_expect_eq(rename_to(999, ref[0]), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 64), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 64);
	cr_expect_eq(pool->entries.nr_names, 0);
}

POOL_TEST(added_names, count_as_memory_of_the_pool, make_cache(64, "lru"))
{
	u64 bytes = stat_of(pool).metadata_bytes - pool->map->ops->bytes(pool->map);
	kvmm_ref_t ref;

	make_active(pool, 0, 1, &ref);
	for (u32 i = 1; i < 4; i++) {
		cr_assert_eq(add(1000 + i, ref), 0);
		cr_expect_eq(stat_of(pool).metadata_bytes - pool->map->ops->bytes(pool->map),
			     bytes + 64 * sizeof(u32) + i * sizeof(struct kv_entry));
	}
	cr_expect_eq(kvmm_put(pool, ref), 0);
}

/* A block that is held gives the room of its names back when it is forgotten. */
POOL_TEST(added_names, of_a_forgotten_block_leave_their_room_to_others, make_cache(64, "lru"))
{
	u32 nr = 0, block;
	kvmm_ref_t ref[2];

	make_active(pool, 0, 2, ref);
	block = kvmm_block_of_ref(pool, ref[0]);
	while (nr < 256 && !add(1000 + nr, ref[nr >= 50]))
		nr++;
	cr_assert_eq(nr, 256);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(pool->entries.nr_names, 206);
	for (; nr < 306; nr++)
		cr_expect_eq(add(1000 + nr, ref[1]), 0, "%u", nr);
	for (u32 i = 0; i < nr; i++)
		cr_expect_eq(found_under(pool, 1000 + i), i < 50 ? -1 : 1, "%u", i);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* By any of the blocks that have it; the other one is found by it then. */
POOL_TEST(added_name, of_a_forgotten_block_leaves_its_room_though_others_have_it,
	  make_cache(8, "lru"))
{
	kvmm_ref_t ref[4];

	make_active(pool, 0, 4, ref);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(add(10 + i / 2, ref[i]), 0);
	for (u32 i = 0; i < 4; i += 3) {	/* the elder of one name, the younger of the other */
		u32 block = kvmm_block_of_ref(pool, ref[i]);

		cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
		cr_expect_eq(pool->entries.nr_names, i ? 2 : 3);
		cr_expect_eq(kvmm_validate(pool), 0);
	}
	cr_expect_eq(found_under(pool, 10), (int)kvmm_block_of_ref(pool, ref[1]));
	cr_expect_eq(found_under(pool, 11), (int)kvmm_block_of_ref(pool, ref[2]));
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(pool->entries.nr_names, 2);
}

/* They hold it, and by that name. */
POOL_TEST(added_name, of_a_forgotten_block_stays_while_duplicates_hold_it,
	  make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	u32 block;
	kvmm_ref_t elder, dup;

	make_active(pool, 0, 1, &elder);
	cr_expect_eq(add(4, elder), 0);
	cr_expect_eq(add(5, elder), 0);
	publish_as(pool, KVMM_DUP_HOLD, 4, 1, &dup);
	block = kvmm_block_of_ref(pool, elder);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(pool->entries.nr_names, 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(pool->entries.nr_names, 1);
	cr_expect_eq(kvmm_put(pool, dup), 0);
	cr_expect_eq(pool->entries.nr_names, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* Not as long as the block is held otherwise. */
POOL_TEST(added_name, of_a_forgotten_block_goes_with_the_last_duplicate_that_holds_it,
	  make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	u32 block;
	kvmm_ref_t elder, dup[2];

	make_active(pool, 0, 1, &elder);
	cr_expect_eq(add(4, elder), 0);
	publish_as(pool, KVMM_DUP_HOLD, 4, 1, &dup[0]);
	publish_as(pool, KVMM_DUP_HOLD, 4, 1, &dup[1]);
	block = kvmm_block_of_ref(pool, elder);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_put(pool, dup[0]), 0);
	cr_expect_eq(pool->entries.nr_names, 1);
	cr_expect_eq(rename_to(7, dup[1]), 0);
	cr_expect_eq(pool->entries.nr_names, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put(pool, elder), 0);
	cr_expect_eq(kvmm_put(pool, dup[1]), 0);
	cr_expect_str_eq(hits(pool), ".......2..");
}

POOL_TEST(added_name, may_be_one_of_many_of_a_block_and_comes_with_its_batch_or_not,
	  make_cache(2, "lru"))
{
	struct kvmm_name name[2] = { name_of(500), name_of(501) };
	kvmm_ref_t ref[2];

	make_active(pool, 0, 2, ref);
	for (u32 i = 0; i < 255; i++)
		cr_assert_eq(add(1000 + i, ref[0]), 0);
	cr_expect_eq(kvmm_names_add(pool, name, ref, 2), -ENOSPC);
	cr_expect_eq(found_under(pool, 500), -1);
	cr_expect_eq(kvmm_names_add(pool, name + 1, ref + 1, 1), 0);
	cr_expect_eq(kvmm_names_get(pool, ref[0], name, 2), 256);
	cr_expect_eq(found_under(pool, 1254), 0);
	cr_expect_eq(found_under(pool, 501), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

/* There is no room for the first name; the second one would be refused in any case. */
POOL_TEST(added_names, that_are_there_are_said_to_be_even_where_there_is_no_room,
	  make_cache(2, "lru"))
{
	struct kvmm_name name[2] = { name_of(500), name_of(1000) };
	kvmm_ref_t ref[2];
	u32 block;

	make_active(pool, 0, 2, ref);
	for (u32 i = 0; i < 256; i++)
		cr_assert_eq(add(1000 + i, ref[1]), 0);
	cr_expect_eq(kvmm_names_add(pool, name, ref, 2), -EEXIST);
	cr_expect_eq(kvmm_names_rename(pool, name, ref, 2), -EEXIST);
	name[1] = name_of(501);
	cr_expect_eq(kvmm_names_add(pool, name, ref, 2), -ENOSPC);
	cr_expect_eq(kvmm_names_rename(pool, name, (kvmm_ref_t[2]){ ref[0], ref[0] }, 2), -EINVAL);
	block = kvmm_block_of_ref(pool, ref[0]);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_names_add(pool, name, (kvmm_ref_t[2]){ ref[1], ref[0] }, 2), -ESTALE);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

#define OF_ONE	4000u

/* They are in the order of age, whichever go. */
POOL_TEST(added_names, may_be_very_many_of_one_block, make_cache(OF_ONE / 2, "lru"))
{
	static struct kvmm_name name[OF_ONE], back[OF_ONE], left[OF_ONE];
	static kvmm_ref_t ref[OF_ONE];

	make_active(pool, 0, 1, ref);
	for (u32 i = 0; i < OF_ONE; i++) {
		ref[i] = ref[0];
		name[i] = name_of(1000 + i);
		back[OF_ONE - 1 - i] = name[i];
	}
	cr_assert_eq(kvmm_names_add(pool, name, ref, OF_ONE), 0);
	cr_expect_eq(kvmm_names_get(pool, ref[0], left, OF_ONE), OF_ONE + 1);
	cr_expect_eq(number_of(&left[OF_ONE - 1].key), 1000 + OF_ONE - 2);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_names_remove(pool, back, ref, OF_ONE / 2), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(add(7, ref[0]), 0);
	cr_expect_eq(kvmm_names_get(pool, ref[0], left, OF_ONE), OF_ONE / 2 + 2);
	cr_expect_eq(number_of(&left[OF_ONE / 2 + 1].key), 7);
	cr_expect_eq(kvmm_names_remove(pool, name, ref, OF_ONE / 2), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(pool->entries.nr_names, 1);
	cr_expect_eq(kvmm_put(pool, ref[0]), 0);
}

/* Why a key is missed: it is that of another tenant, or in another group; or it went. */
static enum kvmm_miss why_missed(struct kvmm_pool *pool, u32 number, kvmm_domain_t domain)
{
	struct kvmm_pool_stat before = stat_of(pool), after;
	kvmm_key_t key = key_of(number);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain = domain };
	enum kvmm_miss why = 0;
	kvmm_ref_t ref;

	cr_expect_eq(kvmm_prefix_match(pool, &prefix, &ref), 0);
	after = stat_of(pool);
	while (why < KVMM_NR_MISSES && after.nr_missed[why] == before.nr_missed[why])
		why++;
	return why;
}

POOL_TEST(added_name, is_known_to_misses_as_first_ones_are, make_cache(8, "lru"))
{
	const kvmm_domain_t own = { 0 }, tenant = { .tenant = 1 }, group = { .group = 1 };
	kvmm_ref_t ref;

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(why_missed(pool, 5, own), KVMM_MISS_NEVER);
	cr_expect_eq(add(5, ref), 0);
	cr_expect_eq(add(6, ref), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(why_missed(pool, 5, tenant), KVMM_MISS_TENANT, "%u", i);
		cr_expect_eq(why_missed(pool, 5, group), KVMM_MISS_GROUP, "%u", i);
		if (!i)
			cr_expect_eq(remove_it(0, ref), 0, "5 is the first one now");
		if (i == 1)
			cr_expect_eq(rename_to(7, ref), 0);
		if (i == 1)
			cr_expect_eq(add(5, ref), 0);
	}
	cr_expect_eq(why_missed(pool, 0, own), KVMM_MISS_EVICTED);
	cr_expect_eq(why_missed(pool, 0, tenant), KVMM_MISS_NEVER);
	cr_expect_eq(remove_it(5, ref), 0);
	cr_expect_eq(why_missed(pool, 5, own), KVMM_MISS_EVICTED);
	cr_expect_eq(why_missed(pool, 5, tenant), KVMM_MISS_NEVER);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(why_missed(pool, 6, own), KVMM_MISS_EVICTED);
	cr_expect_eq(why_missed(pool, 6, group), KVMM_MISS_NEVER);
}

/* Once by eviction, which hides it; once by the end of its only name. */
POOL_TEST(forgotten_block, is_no_reason_for_a_miss_while_it_is_held, make_cache(8, "lru"))
{
	const kvmm_domain_t own = { 0 }, tenant = { .tenant = 1 }, group = { .group = 1 };
	kvmm_ref_t ref, other;

	for (u32 i = 0; i < 2; i++) {
		struct kvmm_prefix prefix = { .keys = keys_from(i, 1), .nr = 1 };
		u32 block;
		kvmm_mut_t mut;

		make_active(pool, i, 1, &ref);
		block = kvmm_block_of_ref(pool, ref);
		if (i)
			cr_expect_eq(remove_it(i, ref), 0);
		else
			kvmm_evict_blocks(pool, &block, 1);
		cr_expect_eq(why_missed(pool, i, own), KVMM_MISS_EVICTED, "%u", i);
		cr_expect_eq(why_missed(pool, i, tenant), KVMM_MISS_NEVER, "%u", i);
		cr_expect_eq(why_missed(pool, i, group), KVMM_MISS_NEVER, "%u", i);
		prefix.domain.tenant = 2;
		make_private(pool, 1, &mut);
		cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, &other), 0);
		cr_expect_eq(why_missed(pool, i, own), KVMM_MISS_TENANT, "%u", i);
		cr_expect_eq(why_missed(pool, i, tenant), KVMM_MISS_TENANT, "%u", i);
		cr_expect_eq(why_missed(pool, i, group), KVMM_MISS_TENANT, "%u", i);
		cr_expect_eq(kvmm_put(pool, ref), 0);
		cr_expect_eq(kvmm_put(pool, other), 0);
	}
	kvmm_reset_inactive(pool);
}

#define MANY		200u
#define MANY_NAMES	(2 * MANY)

/* As many names as can be added, in more domains than the map knows by themselves. */
POOL_TEST(added_names, leave_room_for_reasons_of_all_others, make_cache(MANY, "lru"))
{
	const kvmm_domain_t tenant = { .tenant = 777 };
	kvmm_staged_t staged[MANY / 2];
	kvmm_ref_t ref[MANY / 2];
	kvmm_mut_t mut;

	make_active(pool, 0, MANY / 2, ref);
	for (u32 i = 0; i < MANY_NAMES; i++) {
		struct kvmm_name name = { key_of(1000 + i), { .tenant = i % 20 }, 0 };

		cr_assert_eq(kvmm_names_add(pool, &name, &ref[i % (MANY / 2)], 1), 0);
	}
	for (u32 i = 0; i < MANY / 2; i++) {
		struct kvmm_prefix prefix = { .keys = keys_from(5000 + i, 1), .nr = 1,
					      .domain.tenant = i % 20 };

		make_private(pool, 1, &mut);
		cr_assert_eq(kvmm_stage(pool, &prefix, &mut, &staged[i]), 0);
	}
	for (u32 i = 0; i < MANY / 2; i++)
		cr_expect_eq(why_missed(pool, 5000 + i, (kvmm_domain_t){ .tenant = i % 20 }),
			     KVMM_MISS_STAGED, "%u", i);
	for (u32 i = 0; i < MANY_NAMES; i++)
		cr_expect_eq(why_missed(pool, 1000 + i, tenant), KVMM_MISS_TENANT, "%u", i);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kv_free_staged(pool, staged, MANY / 2), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, MANY / 2), 0);
	kvmm_reset_inactive(pool);
}

static void expect_free_again(u32 policy, bool evicted)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_life(8, "lru", 0, policy);
	u32 block = 0;
	kvmm_ref_t old, new;

	make_active(pool, 0, 1, &old);
	cr_expect_eq(evicted ? kvmm_evict_blocks(pool, &block, 1) - 1 : remove_it(0, old), 0);
	cr_expect_eq(found_under(pool, 0), -1);
	cr_expect_eq(publish_as(pool, policy, 0, 1, &new), 0, "%u", policy);
	cr_expect_eq(stat_of(pool).duplicates, 0, "%u", policy);
	cr_expect_eq(found_under(pool, 0), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put(pool, old), 0);
	cr_expect_eq(kvmm_put(pool, new), 0);
}

Test(names_remove, frees_the_name_for_others_as_eviction_of_a_held_block_does)
{
	for (u32 policy = KVMM_DUP_ALLOW; policy <= KVMM_DUP_REJECT; policy++) {
		expect_free_again(policy, true);
		expect_free_again(policy, false);
	}
}

POOL_TEST(added_name, is_found_by_age_like_first_ones, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2], young;
	u32 block = 0;

	make_active(pool, 0, 1, ref);
	cr_expect_eq(add(5, ref[0]), 0);
	make_active(pool, 5, 1, &young);
	cr_expect_str_eq(hits(pool), "0....0....");
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(hits(pool), ".....1....");
	cr_expect_eq(kvmm_put(pool, young), 0);
	cr_expect_eq(kvmm_put(pool, ref[0]), 0);
}

POOL_TEST(added_name, changes_are_all_or_nothing, make_cache(8, "lru"))
{
	struct kvmm_name name[3] = { name_of(5), name_of(6), name_of(5) };
	kvmm_ref_t ref[3];

	make_active(pool, 0, 2, ref);
	ref[2] = ref[0];
	cr_expect_eq(kvmm_names_add(pool, name, ref, 3), -EEXIST, "twice in the batch");
	cr_expect_str_eq(hits(pool), "01........");
	cr_expect_eq(kvmm_names_add(pool, name, ref, 2), 0);
	cr_expect_eq(kvmm_names_remove(pool, name, ref, 3), -ENOENT, "twice in the batch");
	cr_expect_str_eq(hits(pool), "01...01...");
	name[2] = name_of(0);
	name[1] = name_of(9);
	cr_expect_eq(kvmm_names_remove(pool, name, ref, 3), -ENOENT);
	cr_expect_str_eq(hits(pool), "01...01...");
	name[1] = name_of(1);
	cr_expect_eq(kvmm_names_remove(pool, name, ref, 3), 0);
	cr_expect_str_eq(hits(pool), "......1...");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(unpublish, forgets_added_names, make_cache(8, "lru"))
{
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(add(5, ref), 0);
	cr_expect_eq(kvmm_unpublish(pool, &ref, 1, &mut), 0);
	cr_expect_str_eq(hits(pool), "..........");
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

static struct kvmm_pool *make_holding(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4, .policy = "lru",
				       .dup_policy = KVMM_DUP_HOLD };

	return make_pool_of(&attr);
}

POOL_TEST(name, a_duplicate_lets_its_elder_go_when_both_lose_the_name, make_holding())
{
	kvmm_key_t keys[2] = { key_of(1), key_of(1) };
	struct kvmm_name lost[2] = { { key_of(1), { 0, 0, 0 }, 0 }, { key_of(1), { 0, 0, 0 }, 0 } };
	struct kvmm_name added = { key_of(2), { 0, 0, 0 }, 0 };
	kvmm_ref_t ref[2], both[2];
	kvmm_mut_t mut[2];

	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_register(pool, &mut[0], keys, 1, &ref[0]), 0);
	cr_assert_eq(kvmm_register(pool, &mut[1], keys, 1, &ref[1]), 0);
	cr_assert_eq(kvmm_names_add(pool, &added, &ref[0], 1), 0);
	both[0] = ref[1];
	both[1] = ref[0];
	cr_expect_eq(kvmm_names_remove(pool, lost, both, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(stat_of(pool).nr_available, 4);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(name, a_block_named_as_another_is_by_an_added_name_is_told_once, make_cache(4, "lru"))
{
	struct kvmm_name added = { key_of(2), { 0, 0, 0 }, 0 };
	kvmm_key_t first = key_of(1);
	u32 stored = 0, removed = 0;
	struct kvmm_event event[16];
	struct kvmm_events *events;
	kvmm_ref_t ref[2];
	kvmm_mut_t mut[2];
	u64 nr_lost;
	int nr;

	cr_assert_eq(kvmm_events_open(pool, NULL, &events), 0);
	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_register(pool, &mut[0], &first, 1, &ref[0]), 0);
	cr_assert_eq(kvmm_names_add(pool, &added, &ref[0], 1), 0);
	cr_assert_eq(kvmm_register(pool, &mut[1], &added.key, 1, &ref[1]), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	nr = kvmm_events_read(events, event, 16, &nr_lost);
	for (int i = 0; i < nr; i++) {
		if (memcmp(&event[i].key, &added.key, sizeof(added.key)))
			continue;
		stored += event[i].kind == KVMM_EVENT_STORED;
		removed += event[i].kind == KVMM_EVENT_REMOVED;
	}
	cr_expect_eq(stored, 1);
	cr_expect_eq(removed, 1);
	kvmm_events_close(events);
}
