// SPDX-License-Identifier: Apache-2.0
/* Slots of a host tier, as its clients see them: states, room, shares, who is told what. */
#include "tests/tier/util.h"
#include "tier/internal.h"

#define S	1000000000ull

static const kvmm_domain_t domain = { 1, 2, 3 };

static struct kv_tier_client *join(struct kvmm_tier *tier, u64 layout, u32 min_units, u32 max_units)
{
	static const struct kvmm_plane plane = { 4096, TEST_BLOCK_BYTES, TEST_BLOCK_BYTES };
	struct kv_tier_client_attr attr = {
		.plane = &plane, .nr_planes = 1, .block_bytes = TEST_BLOCK_BYTES, .layout = layout,
		.min_units = min_units, .max_units = max_units,
	};
	struct kv_tier_client *client;

	cr_assert_eq(kv_tier_join(tier, &attr, &client), 0);
	return client;
}

static struct kvmm_tier *make_told_tier(u32 nr)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .capacity_blocks = nr,
				       .flags = KVMM_TIER_TOLD_CLOCK };
	struct kvmm_tier *tier;

	cr_assert_eq(kvmm_tier_host_create(&attr, &tier), 0);
	return tier;
}

static struct kv_tier_client *join_ids(struct kvmm_tier *tier)
{
	struct kv_tier_client_attr attr = { .layout = 7 };
	struct kv_tier_client *client;

	cr_assert_eq(kv_tier_join(tier, &attr, &client), 0);
	return client;
}

static struct kv_tier_name name_of(const struct kv_tier_client *client, u32 number)
{
	return (struct kv_tier_name){ .key = key_of(number), .domain = domain,
				      .layout = client->layout, .position = number };
}

static int reserve(struct kv_tier_client *client, u32 number, struct kv_tier_slot *slot)
{
	struct kv_tier_name name = name_of(client, number);

	return kv_tier_reserve(client, &name, slot);
}

static void store(struct kv_tier_client *client, u32 number)
{
	struct kv_tier_slot slot;

	cr_assert_eq(reserve(client, number, &slot), 0);
	kv_tier_commit(client, slot, NULL);
}

static enum kvmm_tier_answer find(struct kv_tier_client *client, u32 number, enum kv_tier_find how,
				  struct kv_tier_slot *slot)
{
	kvmm_key_t key = key_of(number);

	return kv_tier_find(client, &key, domain, how, slot);
}

static bool has(struct kv_tier_client *client, u32 number)
{
	struct kv_tier_slot slot;

	return find(client, number, KV_TIER_PEEK, &slot) == KVMM_TIER_HIT;
}

static void end(struct kvmm_tier *tier)
{
	cr_expect_eq(kv_tier_check(tier), 0);
	kvmm_tier_destroy(tier);
}

#define SLOT_TEST(suite, name, make) TEST_WITH(struct kvmm_tier *tier, make, end, suite, name)

SLOT_TEST(slot, is_found_only_once_it_is_written, make_tier(4))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0);
	struct kv_tier_slot slot, found;

	cr_assert_eq(reserve(client, 1, &slot), 0);
	cr_expect_str_eq(tier_picture(tier), "w...");
	cr_expect_eq(find(client, 1, KV_TIER_PEEK, &found), KVMM_TIER_RETRY);
	kv_tier_commit(client, slot, NULL);
	cr_expect_str_eq(tier_picture(tier), "r...");
	cr_expect_eq(find(client, 1, KV_TIER_PEEK, &found), KVMM_TIER_HIT);
	cr_expect_eq(found.index, slot.index);
	cr_expect_eq(find(client, 2, KV_TIER_PEEK, &found), KVMM_TIER_MISS);
	kv_tier_leave(client);
}

SLOT_TEST(slot, a_write_that_failed_leaves_nothing, make_tier(4))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0);
	struct kv_tier_slot slot;

	cr_assert_eq(reserve(client, 1, &slot), 0);
	kv_tier_cancel(client, slot);
	cr_expect_str_eq(tier_picture(tier), "....");
	cr_expect_not(has(client, 1));
	cr_expect_not(kv_tier_has(client, slot));
	kv_tier_leave(client);
}

SLOT_TEST(slot, of_one_name_there_is_one, make_tier(4))
{
	struct kv_tier_client *a = join(tier, 7, 0, 0), *b = join(tier, 7, 0, 0);
	struct kv_tier_slot slot, other;

	cr_assert_eq(reserve(a, 1, &slot), 0);
	cr_expect_eq(reserve(b, 1, &other), -EALREADY);
	kv_tier_commit(a, slot, NULL);
	cr_expect_eq(reserve(b, 1, &other), -EEXIST);
	cr_expect_eq(other.gen, slot.gen);
	cr_expect(has(b, 1), "clients of one layout find each other's blocks");
	kv_tier_leave(a);
	cr_expect(has(b, 1), "and go on to when one leaves");
	kv_tier_leave(b);
}

/* Each part of a name alone makes it another one. */
SLOT_TEST(slot, names_are_compared_in_full, make_tier(4))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0), *other = join(tier, 8, 0, 0);
	kvmm_key_t key = key_of(1);
	struct kv_tier_slot slot;

	store(client, 1);
	cr_expect_not(has(other, 1), "layout id");
	for (u32 part = 0; part < 3; part++) {
		kvmm_domain_t strange = domain;

		strange.tenant += part == 0;
		strange.layout += part == 1;
		strange.group += part == 2;
		cr_expect_eq(kv_tier_find(client, &key, strange, KV_TIER_PEEK, &slot),
			     KVMM_TIER_MISS, "part %u", part);
	}
	for (u32 byte = 0; byte < sizeof(key); byte++) {
		kvmm_key_t strange = key;

		strange.byte[byte] ^= 0x80;
		cr_expect_eq(kv_tier_find(client, &strange, domain, KV_TIER_PEEK, &slot),
			     KVMM_TIER_MISS, "byte %u", byte);
	}
	kv_tier_leave(client);
	kv_tier_leave(other);
}

SLOT_TEST(slot, the_one_used_longest_ago_goes, make_tier(3))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0);
	struct kv_tier_slot slot;

	store(client, 1);
	store(client, 2);
	store(client, 3);
	cr_assert_eq(find(client, 1, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	kv_tier_put(client, slot);
	store(client, 4);
	cr_expect(has(client, 1));
	cr_expect_not(has(client, 2));
	cr_expect_eq(tier_of(tier).evicted, 1);
	kv_tier_leave(client);
}

/* 1 is loaded at an age of 40 s and kept; 2 goes at 70 s. */
SLOT_TEST(slot, how_old_copies_are_when_they_are_loaded_and_go_is_known, make_told_tier(2))
{
	struct kv_tier_client *client = join_ids(tier);
	struct kv_tier_slot slot;
	struct kvmm_tier_stat stat;

	store(client, 1);
	store(client, 2);
	cr_assert_eq(kvmm_tier_clock(tier, 40 * S), 0);
	cr_assert_eq(find(client, 1, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	cr_expect_eq(kv_tier_hit(client, slot), 40 * S);
	kv_tier_put(client, slot);
	cr_assert_eq(kvmm_tier_clock(tier, 70 * S), 0);
	store(client, 3);
	stat = tier_of(tier);
	cr_expect_eq(stat.hit_age.sum_ns, 40 * S);
	cr_expect_eq(stat.hit_age.bucket[15], 1, "above 30 s, up to 60 s");
	cr_expect_eq(stat.evict_age.sum_ns, 70 * S);
	cr_expect_eq(stat.evict_age.bucket[16], 1, "above 60 s, up to 120 s");
	kv_tier_leave(client);
}

SLOT_TEST(slot, who_is_read_or_written_does_not_go, make_tier(3))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0);
	struct kv_tier_slot read, write, slot;

	store(client, 1);
	cr_assert_eq(find(client, 1, KV_TIER_READ, &read), KVMM_TIER_HIT);
	cr_assert_eq(reserve(client, 2, &write), 0);
	store(client, 3);
	cr_expect_str_eq(tier_picture(tier), "Rwr");
	store(client, 4);
	cr_expect_str_eq(tier_picture(tier), "Rwr");
	cr_expect_not(has(client, 3));
	cr_assert_eq(find(client, 4, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	cr_expect_eq(reserve(client, 5, &slot), -ENOSPC);
	cr_assert_eq(find(client, 4, KV_TIER_PEEK, &slot), KVMM_TIER_HIT);
	kv_tier_put(client, slot);
	kv_tier_put(client, read);
	kv_tier_cancel(client, write);
	kv_tier_leave(client);
}

SLOT_TEST(slot, what_is_bad_is_found_no_more_and_goes_with_its_last_reader, make_tier(2))
{
	struct kv_tier_client *client = join(tier, 7, 0, 0);
	struct kv_tier_slot slot;

	store(client, 1);
	cr_assert_eq(find(client, 1, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	cr_assert_eq(find(client, 1, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	kv_tier_put_bad(client, slot, &(struct kv_tier_name){ .key = key_of(1), .domain = domain });
	cr_expect_str_eq(tier_picture(tier), "D.");
	cr_expect_not(has(client, 1));
	store(client, 1);
	cr_expect_str_eq(tier_picture(tier), "Dr");
	cr_expect_eq(kv_tier_check(tier), 0);
	kv_tier_put(client, slot);
	cr_expect_str_eq(tier_picture(tier), ".r");
	kv_tier_leave(client);
}

SLOT_TEST(slot, shares_are_kept, make_tier(6))
{
	struct kv_tier_client *a = join(tier, 1, 2, 0), *b = join(tier, 2, 0, 4);
	struct kvmm_tier_client_stat stat;
	struct kv_tier_slot slot;

	for (u32 i = 0; i < 3; i++)
		store(a, i);
	for (u32 i = 0; i < 10; i++)
		store(b, i);
	cr_expect_not(has(a, 0), "beyond its share it gives way");
	cr_expect(has(a, 1) && has(a, 2), "up to its share it does not");
	kv_tier_client_glance(b, &stat);
	cr_expect_eq(stat.units, 4);
	cr_expect_eq(stat.evicted, 6);
	cr_expect(has(b, 6) && has(b, 9) && !has(b, 5));
	for (u32 i = 6; i < 10; i++)
		cr_assert_eq(find(b, i, KV_TIER_READ, &slot), KVMM_TIER_HIT);
	cr_expect_eq(reserve(b, 10, &slot), -EDQUOT, "its own are all being read");
	for (u32 i = 6; i < 10; i++) {
		cr_assert_eq(find(b, i, KV_TIER_PEEK, &slot), KVMM_TIER_HIT);
		kv_tier_put(b, slot);
	}
	kv_tier_leave(a);
	kv_tier_leave(b);
}

SLOT_TEST(slot, what_is_left_behind_goes_in_its_order, make_tier(4))
{
	struct kv_tier_client *a = join(tier, 7, 3, 0), *b = join(tier, 7, 0, 0);

	store(a, 1);
	store(b, 2);
	store(a, 3);
	store(a, 4);
	kv_tier_leave(a);
	cr_expect_eq(kv_tier_check(tier), 0);
	store(b, 5);
	cr_expect_not(has(b, 1), "its share went with it");
	store(b, 6);
	cr_expect_not(has(b, 2));
	store(b, 7);
	cr_expect_not(has(b, 3));
	cr_expect(has(b, 4));
	kv_tier_leave(b);
}

/* A block of two and a half units takes three, in one run. */
SLOT_TEST(slot, blocks_of_several_units_lie_in_one_run, make_tier(8))
{
	static const struct kvmm_plane plane = { 4096, 160, 160 };
	struct kv_tier_client_attr attr = { .plane = &plane, .nr_planes = 1, .block_bytes = 160,
					    .layout = 9 };
	struct kv_tier_client *small = join(tier, 7, 0, 0), *large;

	cr_assert_eq(kv_tier_join(tier, &attr, &large), 0);
	cr_expect_eq(large->block_units, 3);
	store(large, 1);
	store(small, 1);
	store(large, 2);
	cr_expect_str_eq(tier_picture(tier), "r--rr--.");
	cr_expect_eq(tier_of(tier).units_used, 7);
	store(small, 2);
	store(small, 3);
	cr_expect_str_eq(tier_picture(tier), "r..rr--r", "the first large one gave way");
	cr_expect_eq(kv_tier_check(tier), 0);
	store(large, 3);
	cr_expect_eq(kv_tier_check(tier), 0);
	cr_expect(has(large, 3));
	kv_tier_leave(small);
	kv_tier_leave(large);
}

Test(slot, memory_comes_in_portions_and_no_block_lies_across)
{
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;
	struct kv_tier_client *client;
	struct kvmm_tier *tier;

	attr.capacity_bytes = 7 * TEST_BLOCK_BYTES;
	attr.block_bytes = TEST_BLOCK_BYTES;
	attr.chunk_bytes = 3 * TEST_BLOCK_BYTES;
	tier = make_tier_of(&attr);
	client = join(tier, 7, 0, 0);
	cr_expect_eq(tier_of(tier).units_ready, 3);
	for (u32 i = 0; i < 4; i++)
		store(client, i);
	cr_expect_str_eq(tier_picture(tier), "rrr....", "the first portion is used");
	cr_expect_eq(kvmm_tier_tick(tier), 1);
	store(client, 4);
	cr_expect_str_eq(tier_picture(tier), "rrrr...");
	cr_expect_eq(kvmm_tier_tick(tier), 1);
	cr_expect_eq(kvmm_tier_tick(tier), 0);
	cr_expect_eq(tier_of(tier).units_ready, 7);
	for (u32 i = 5; i < 8; i++)
		store(client, i);
	cr_expect_str_eq(tier_picture(tier), "rrrrrrr");
	cr_expect_eq(tier_of(tier).evicted, 1);
	kv_tier_leave(client);
	end(tier);
}

/* The third portion is one unit: shorter than a block of two. */
Test(slot, a_portion_may_be_shorter_than_a_block)
{
	static const struct kvmm_plane plane = { 4096, 2 * TEST_BLOCK_BYTES, 2 * TEST_BLOCK_BYTES };
	struct kv_tier_client_attr of_two = { .plane = &plane, .nr_planes = 1, .layout = 9,
					      .block_bytes = 2 * TEST_BLOCK_BYTES };
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;
	struct kv_tier_client *client;
	struct kvmm_tier *tier;

	attr.capacity_bytes = 7 * TEST_BLOCK_BYTES;
	attr.block_bytes = TEST_BLOCK_BYTES;
	attr.chunk_bytes = 3 * TEST_BLOCK_BYTES;
	tier = make_tier_of(&attr);
	cr_assert_eq(kv_tier_join(tier, &of_two, &client), 0);
	while (kvmm_tier_tick(tier) > 0)
		;
	for (u32 i = 0; i < 4; i++)
		store(client, i);
	cr_expect_eq(tier_of(tier).units_used, 4, "one block in each portion that has room");
	cr_expect_eq(kv_tier_check(tier), 0);
	kv_tier_leave(client);
	end(tier);
}

SLOT_TEST(slot, a_client_is_told_what_is_gone, make_tier(2))
{
	static const struct kvmm_plane plane = { 4096, TEST_BLOCK_BYTES, TEST_BLOCK_BYTES };
	struct kv_tier_client_attr attr = { .plane = &plane, .nr_planes = 1, .layout = 7,
					    .block_bytes = TEST_BLOCK_BYTES, .is_told = true };
	struct kv_tier_client *client, *other = join(tier, 8, 0, 0);
	struct kv_tier_name names[4];

	cr_assert_eq(kv_tier_join(tier, &attr, &client), 0);
	store(client, 1);
	store(client, 2);
	store(other, 3);
	cr_expect_eq(kv_tier_take_gone(client, names, 4), 1);
	cr_expect_eq(number_of(&names[0].key), 1);
	cr_expect_eq(names[0].position, 1);
	cr_expect_eq(names[0].domain.group, 3);
	cr_expect_eq(kv_tier_take_gone(client, names, 4), 0);
	kv_tier_leave(client);
	kv_tier_leave(other);
}

Test(slot, attributes_that_make_no_sense_are_refused)
{
	struct kvmm_tier_attr good = KVMM_TIER_ATTR_INIT, attr;
	struct kvmm_tier *tier;

	good.capacity_blocks = 4;
	good.block_bytes = 64;
#define REFUSES(err, change) do {						\
		attr = good;							\
		change;								\
		cr_expect_eq(kvmm_tier_host_create(&attr, &tier), err, #change); \
	} while (0)
	REFUSES(-EINVAL, attr.capacity_blocks = 0);
	REFUSES(-EINVAL, attr.capacity_bytes = 4096);
	REFUSES(-EINVAL, attr.capacity_blocks = KVMM_MAX_BLOCKS + 1);
	REFUSES(-EINVAL, attr.block_bytes = ~0ull);
	REFUSES(-EINVAL, (attr.capacity_blocks = 0, attr.capacity_bytes = ~0ull, attr.block_bytes = 1));
	REFUSES(-EINVAL, (attr.capacity_blocks = 0, attr.capacity_bytes = attr.block_bytes = ~0ull));
	REFUSES(-EINVAL, attr.reserved = 1);
	REFUSES(-EINVAL, attr.numa_node = -2);
	REFUSES(-EINVAL, attr.flags = 1u << 31);
	REFUSES(-EINVAL, attr.name = "");
	REFUSES(-EINVAL, attr.name = "below\x1b[2J");
	REFUSES(-EINVAL, attr.policy = "lru-classic");
	REFUSES(-EINVAL, attr.policy = "lru:3");
	REFUSES(-ENOENT, attr.policy = "none");
	REFUSES(-ENOENT, attr.device = "tape:0");
	REFUSES(-EINVAL, attr.size = 3);
#undef REFUSES
	cr_expect_eq(kvmm_tier_host_create(NULL, &tier), -EINVAL);
}

Test(slot, any_policy_will_do)
{
	const char *names[32];
	u32 nr = kvmm_policies(names, 32);

	for (u32 i = 0; i < nr; i++) {
		struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;
		struct kv_tier_client *client;
		struct kvmm_tier *tier;

		attr.capacity_blocks = 8;
		attr.block_bytes = TEST_BLOCK_BYTES;
		attr.policy = names[i];
		if (kvmm_tier_host_create(&attr, &tier) == -EINVAL)
			continue;	/* it hands out free blocks itself */
		client = join(tier, 7, 0, 0);
		for (u32 k = 0; k < 40; k++) {
			struct kv_tier_slot slot;

			store(client, k);
			if (k % 3 || find(client, k / 2, KV_TIER_READ, &slot) != KVMM_TIER_HIT)
				continue;
			kv_tier_put(client, slot);
		}
		cr_expect_eq(kv_tier_check(tier), 0, "%s", names[i]);
		cr_expect_eq(tier_of(tier).blocks, 8, "%s", names[i]);
		kv_tier_leave(client);
		end(tier);
	}
}

/* ---- forgetting ---- */

static int forget(struct kv_tier_client *client, u32 number)
{
	kvmm_key_t key = key_of(number);

	return kv_tier_forget(client, &(struct kvmm_prefix){ &key, 1, 0, NULL, domain });
}

Test(slot, what_is_being_written_when_it_is_forgotten_is_not_found_when_it_is_there)
{
	struct kvmm_tier *tier = make_tier(4);
	struct kv_tier_client *a = join(tier, 1, 0, 0);
	struct kv_tier_slot slot;

	cr_assert_eq(reserve(a, 1, &slot), 0);
	cr_expect_eq(forget(a, 1), 0, "there was no copy");
	kv_tier_commit(a, slot, NULL);
	cr_expect_not(has(a, 1));
	cr_expect_str_eq(tier_picture(tier), "....");
	cr_assert_eq(reserve(a, 1, &slot), 0);
	cr_expect_eq(forget(a, 1), 0);
	kv_tier_commit_read(a, slot, NULL);
	cr_expect_str_eq(tier_picture(tier), ".D..", "its reader has it until it is done");
	cr_expect_eq(kv_tier_check(tier), 0);
	kv_tier_put(a, slot);
	cr_expect_str_eq(tier_picture(tier), "....");
	store(a, 1);
	cr_expect(has(a, 1), "it may come again");
	kv_tier_leave(a);
	kvmm_tier_destroy(tier);
}

/* Copies of other clients, too: they have the same content. */
Test(slot, a_reset_takes_all_copies_of_a_layout_and_no_others)
{
	struct kvmm_tier *tier = make_tier(8);
	struct kv_tier_client *a = join(tier, 1, 0, 0), *b = join(tier, 1, 0, 0);
	struct kv_tier_client *other = join(tier, 2, 0, 0);
	struct kv_tier_slot slot, read;

	store(a, 1);
	store(b, 2);
	store(other, 1);
	cr_assert_eq(reserve(b, 3, &slot), 0);
	cr_assert_eq(find(a, 2, KV_TIER_READ, &read), KVMM_TIER_HIT);
	cr_expect_eq(kv_tier_reset(a), 0);
	kv_tier_commit(b, slot, NULL);
	for (u32 n = 1; n < 4; n++)
		cr_expect_not(has(a, n), "%u", n);
	cr_expect(has(other, 1));
	cr_expect_eq(kv_tier_check(tier), 0);
	kv_tier_put(a, read);
	kv_tier_leave(a);
	kv_tier_leave(b);
	kv_tier_leave(other);
	cr_expect_eq(tier_of(tier).blocks, 1);
	kvmm_tier_destroy(tier);
}
