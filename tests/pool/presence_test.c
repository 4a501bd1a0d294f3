// SPDX-License-Identifier: Apache-2.0
/*
 * Two pools that are tiers of one registry of prefixes: what it says of them is what they have,
 * whichever way a block came or went, and its hooks are called with no lock held.
 */
#include <kv/mem.h>
#include <kv/registry_radix.h>
#include <kvmm/ext/name.h>

#include "tests/pool/util.h"
#include "tests/support/fault.h"
#include "tests/support/registry_tree.h"

#define NR	8u
#define TIER0	0u
#define TIER1	1u

static struct kvmm_registry *reg;
static struct kvmm_pool *pool[2];
static char events[256];

/* Hooks may call any pool: that would hang if a lock of it were held. */
static void note(char what, u32 tier, const struct kvmm_name *names, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%c%u:%u ", what, tier, number_of(&names[i].key));
		strncat(events, text, sizeof(events) - strlen(events) - 1);
	}
	for (u32 i = 0; i < 2; i++)
		if (pool[i])
			stat_of(pool[i]);
}

static void on_present(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	note('+', tier, names, nr);
}

static void on_absent(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	note('-', tier, names, nr);
}

static void on_touch(void *ctx, const struct kvmm_name *names, u32 nr)
{
	note('t', 0, names, nr);
}

static struct kvmm_pool *make_tier(u32 tier, u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .registry = reg, .tier = tier };

	return make_pool_of(&attr);
}

static void set_up(void)
{
	struct kvmm_registry_attr attr = { .size = sizeof(attr), .capacity = 1024, .nr_tiers = 2 };
	struct kvmm_delegate delegate = { .on_present = on_present, .on_absent = on_absent };

	fault_begin();
	cr_assert_eq(kvmm_registry_create(&attr, &reg), 0);
	cr_assert_eq(kvmm_registry_delegate(reg, &delegate), 0);
	pool[0] = make_tier(TIER0, NR);
	pool[1] = make_tier(TIER1, NR);
	events[0] = '\0';
}

/* Pools first: the registry outlives them. */
static void tear_down(void)
{
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool *last __cleanup(end_pool) = pool[i];

		pool[i] = NULL;
	}
	kvmm_registry_destroy(reg);
	fault_end();
}

TestSuite(presence, .init = set_up, .fini = tear_down);

static void expect_events(const char *want)
{
	cr_expect_str_eq(events, want);
	events[0] = '\0';
}

/* One letter a key: the tiers that have it, in hexadecimal; '.' none. */
static const char *tiers_of(u32 nr)
{
	static char text[65];
	kvmm_key_t key[64];
	uint16_t tiers[64];

	for (u32 i = 0; i < nr; i++)
		key[i] = key_of(i);
	for (u32 i = 0; i < nr; i++) {
		struct kvmm_prefix one = { .keys = &key[i], .nr = 1, .position = i };

		cr_assert_geq(kvmm_registry_presence(reg, &one, &tiers[i]), 0);
		text[i] = tiers[i] ? "0123456789abcdef"[tiers[i]] : '.';
	}
	text[nr] = '\0';
	return text;
}

static void register_from(struct kvmm_pool *in, u32 first, u32 nr, kvmm_ref_t *ref)
{
	kvmm_key_t key[NR], parent = key_of(first - 1);
	struct kvmm_prefix prefix = { .keys = key, .nr = nr, .position = first,
				      .parent = first ? &parent : NULL };
	kvmm_mut_t mut[NR];

	for (u32 i = 0; i < nr; i++)
		key[i] = key_of(first + i);
	cr_assert_eq(kvmm_alloc(in, nr, mut), 0);
	cr_assert_eq(kvmm_prefix_register(in, &prefix, mut, ref), 0);
}

Test(presence, says_which_tier_has_what)
{
	kvmm_ref_t ref[NR], other[NR];

	register_from(pool[0], 0, 3, ref);
	register_from(pool[1], 2, 2, other);
	cr_expect_str_eq(tiers_of(5), "1132.");
	expect_events("+0:0 +0:1 +0:2 +1:2 +1:3 ");
	cr_expect_eq(kvmm_put_many(pool[0], ref, 3), 0);
	cr_expect_eq(kvmm_put_many(pool[1], other, 2), 0);
	cr_expect_str_eq(tiers_of(5), "1132.");
	expect_events("");
}

Test(presence, knows_the_parents_across_batches)
{
	kvmm_key_t key = key_of(3);
	struct kvmm_prefix last = { .keys = &key, .nr = 1, .position = 3 };
	kvmm_node_t node, lineage[8];
	kvmm_ref_t ref[NR];

	register_from(pool[0], 0, 2, ref);
	register_from(pool[0], 2, 2, ref + 2);
	cr_assert_eq(kvmm_registry_find(reg, &last, &node, NULL), 1);
	cr_expect_eq(lineage_of(reg, node, lineage, 8), 4);
	cr_expect_eq(kvmm_put_many(pool[0], ref, 4), 0);
}

Test(presence, ends_with_eviction_by_an_allocation)
{
	kvmm_ref_t ref[NR];
	kvmm_mut_t mut[NR];

	register_from(pool[0], 0, 6, ref);
	cr_expect_eq(kvmm_put_many(pool[0], ref, 6), 0);
	events[0] = '\0';
	cr_assert_eq(kvmm_alloc(pool[0], 4, mut), 0);
	cr_expect_str_eq(tiers_of(6), "1111..");
	cr_expect_eq(strlen(events), strlen("-0:5 -0:4 "));
	cr_expect_eq(kvmm_free(pool[0], mut, 4), 0);
}

Test(presence, ends_with_every_way_to_forget)
{
	uint32_t blocks[2];
	kvmm_ref_t ref[NR];
	kvmm_range_t range;

	register_from(pool[0], 0, 8, ref);
	cr_expect_eq(kvmm_blocks_of_refs(pool[0], ref, 2, blocks), 0);
	cr_expect_eq(kvmm_set_reset(pool[0], &ref[7], 1, 1), 0);
	cr_expect_eq(kvmm_put_many(pool[0], ref + 1, 7), 0);
	cr_expect_str_eq(tiers_of(8), "1111111.");
	cr_expect_eq(kvmm_evict_blocks(pool[0], blocks, 2), 2);
	cr_expect_str_eq(tiers_of(8), "1.11111.");	/* 0 is held, and has its place still */
	cr_expect_eq(kvmm_put_many(pool[0], ref, 1), 0);
	cr_expect_str_eq(tiers_of(8), "..11111.");
	cr_assert_eq(kvmm_range_alloc(pool[0], 5, 0, &range), 0);
	cr_expect_str_eq(tiers_of(8), "..111...");
	cr_expect_eq(kvmm_range_free(pool[0], range), 0);
	cr_expect_eq(kvmm_reset_inactive(pool[0]), 3);
	cr_expect_str_eq(tiers_of(8), "........");
	register_from(pool[0], 0, 2, ref);
	cr_expect_eq(kvmm_put_many(pool[0], ref, 2), 0);
	cr_expect_eq(kvmm_reset_cache(pool[0]), 2);
	cr_expect_str_eq(tiers_of(8), "........");
}

Test(presence, a_duplicate_counts_until_it_is_gone)
{
	kvmm_ref_t ref[2];

	register_from(pool[0], 0, 1, &ref[0]);
	register_from(pool[0], 0, 1, &ref[1]);
	expect_events("+0:0 ");
	cr_expect_eq(kvmm_set_reset(pool[0], ref, 1, 1), 0);
	cr_expect_eq(kvmm_put_many(pool[0], &ref[0], 1), 0);
	cr_expect_str_eq(tiers_of(1), "1");
	expect_events("");
	cr_expect_eq(kvmm_put_many(pool[0], &ref[1], 1), 0);
	cr_expect_eq(kvmm_reset_inactive(pool[0]), 1);
	expect_events("-0:0 ");
}

Test(presence, a_newcomer_that_is_rejected_never_was)
{
	kvmm_key_t key = key_of(0);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_publish_args publish = { .nr = 1, .dup = KVMM_DUP_REJECT };
	kvmm_staged_t staged;
	kvmm_ref_t ref[2];
	kvmm_mut_t mut;

	register_from(pool[0], 0, 1, &ref[0]);
	cr_assert_eq(kvmm_alloc(pool[0], 1, &mut), 0);
	cr_assert_eq(kvmm_stage(pool[0], &prefix, &mut, &staged), 0);
	publish.staged = &staged;
	publish.refs = &ref[1];
	cr_assert_eq(kvmm_publish(pool[0], &publish), 0);
	expect_events("+0:0 ");
	cr_expect_eq(kvmm_put_many(pool[0], ref, 2), 0);
	cr_expect_eq(kvmm_reset_inactive(pool[0]), 1);
	expect_events("-0:0 ");
	cr_expect_str_eq(tiers_of(1), ".");
}

Test(presence, matches_are_touches)
{
	kvmm_key_t key[3] = { key_of(0), key_of(9), key_of(1) };
	struct kvmm_prefix scan = { .keys = key, .nr = 3 };
	struct kvmm_delegate touches = { .on_touch = on_touch, .ctx = &reg };
	kvmm_ref_t ref[NR], hit[3];

	cr_assert_eq(kvmm_registry_delegate(reg, &touches), 0);
	register_from(pool[0], 0, 2, ref);
	events[0] = '\0';
	cr_expect_eq(kvmm_prefix_match(pool[0], &scan, hit), 1);
	expect_events("t0:0 ");
	cr_expect_eq(kvmm_put_many(pool[0], hit, 1), 0);
	cr_expect_eq(kvmm_prefix_scan(pool[0], &scan, hit), 2);
	expect_events("t0:0 t0:1 ");
	cr_expect_eq(kvmm_put_many(pool[0], &hit[0], 1), 0);
	cr_expect_eq(kvmm_put_many(pool[0], &hit[2], 1), 0);
	cr_expect_eq(kvmm_touch_many(pool[0], ref, 2), 0);
	expect_events("t0:0 t0:1 ");
	cr_expect_eq(kvmm_put_many(pool[0], ref, 2), 0);
}

Test(presence, a_pool_that_ends_takes_its_blocks_along)
{
	struct kvmm_pool *last;
	kvmm_ref_t ref[NR];

	register_from(pool[1], 0, 4, ref);
	cr_expect_eq(kvmm_put_many(pool[1], ref, 2), 0);
	cr_expect_str_eq(tiers_of(4), "2222");
	last = pool[1];
	pool[1] = NULL;
	kvmm_pool_destroy(last);
	pool[1] = make_tier(TIER1, NR);
	cr_expect_str_eq(tiers_of(4), "....");
}

Test(presence, a_tier_that_the_registry_does_not_have_is_refused)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR, .policy = "lru",
				       .registry = reg, .tier = 2 };
	struct kvmm_pool *none;

	cr_expect_eq(kvmm_pool_create(&attr, &none), -EINVAL);
	attr.registry = NULL;
	cr_expect_eq(kvmm_pool_create(&attr, &none), -EINVAL);
	attr.registry = reg;
	attr.tier = 1;
	attr.policy = NULL;
	cr_expect_eq(kvmm_pool_create(&attr, &none), -EINVAL);
}

/* ---- memory that runs out ---- */

/* More names than the registry has memory for, and none to be had. */
Test(presence, without_memory_nothing_is_published)
{
	struct kvmm_pool *large = make_tier(TIER0, 4096);
	kvmm_key_t key[2048];
	kvmm_mut_t mut[2048];
	kvmm_ref_t ref[2048];
	struct kvmm_prefix prefix = { .keys = key, .nr = 2048 };
	u32 nr_failed = 0;
	int err;

	for (u32 i = 0; i < 2048; i++)
		key[i] = key_of(1000 + i);
	cr_assert_eq(kvmm_alloc(large, 2048, mut), 0);
	do {
		fake_env_fail(&fake, nr_failed + 1, false);
		err = kvmm_prefix_register(large, &prefix, mut, ref);
		fake_env_fail(&fake, 0, false);
		cr_assert(!err || err == -ENOMEM);
		cr_expect_eq(kvmm_validate(large), 0);
		cr_expect_eq(kvmm_match_len(large, key, 2048), err ? 0 : 2048);
		nr_failed += err != 0;
	} while (err);
	cr_expect_geq(nr_failed, 1);
	cr_expect_eq(kvmm_put_many(large, ref, 2048), 0);
	kvmm_pool_destroy(large);
	cr_expect_eq(kv_radix_check(reg), 0);
}

/* ---- names that change ---- */

static int change_in(struct kvmm_pool *in, u32 op, u32 number, kvmm_ref_t ref)
{
	struct kvmm_name name = { .key = key_of(number), .position = number };

	return kvmm_names_change(in, &name, &ref, 1, op);
}

static int change(u32 op, u32 number, kvmm_ref_t ref)
{
	return change_in(pool[0], op, number, ref);
}

Test(presence, knows_all_names_of_a_block)
{
	kvmm_ref_t ref[2];
	kvmm_mut_t mut;
	u32 block;

	register_from(pool[0], 0, 2, ref);
	cr_expect_eq(change(KVMM_NAME_ADD, 4, ref[0]), 0);
	cr_expect_str_eq(tiers_of(8), "11..1...");
	cr_expect_eq(change(KVMM_NAME_RENAME, 5, ref[0]), 0);
	cr_expect_str_eq(tiers_of(8), ".1..11..");
	cr_expect_eq(change(KVMM_NAME_ADD, 6, ref[0]), 0);
	cr_expect_eq(change(KVMM_NAME_REMOVE, 5, ref[0]), 0);
	cr_expect_str_eq(tiers_of(8), ".1..1.1.");
	cr_expect_eq(change(KVMM_NAME_REMOVE, 4, ref[0]), 0);
	cr_expect_str_eq(tiers_of(8), ".1....1.");
	/* Another block with that name keeps it. */
	cr_expect_eq(change(KVMM_NAME_ADD, 6, ref[1]), 0);
	cr_expect_eq(kvmm_unpublish(pool[0], &ref[0], 1, &mut), 0);
	cr_expect_eq(kvmm_free(pool[0], &mut, 1), 0);
	cr_expect_str_eq(tiers_of(8), ".1....1.");
	block = kvmm_block_of_ref(pool[0], ref[1]);
	cr_expect_eq(kvmm_put(pool[0], ref[1]), 0);
	cr_expect_eq(kvmm_evict_blocks(pool[0], &block, 1), 1);
	cr_expect_str_eq(tiers_of(8), "........");
}

/* More than there are blocks: the hooks are called when the lock has been given back all the same. */
Test(presence, tells_of_all_added_names_without_a_lock)
{
	kvmm_ref_t ref[NR];
	u32 number = NR;

	register_from(pool[0], 0, NR, ref);
	for (u32 i = 0; i < NR; i++)
		for (u32 k = 0; k < 3; k++)
			cr_assert_eq(change(KVMM_NAME_ADD, number++, ref[i]), 0);
	cr_assert_eq(kvmm_put_many(pool[0], ref, NR), 0);
	events[0] = '\0';
	cr_expect_eq(kvmm_reset_inactive(pool[0]), NR);
	for (u32 i = 0; i < number; i++) {
		char text[16];

		snprintf(text, sizeof(text), "-0:%u ", i);
		cr_expect_neq(strstr(events, text), NULL, "%u", i);
	}
}

Test(presence, of_added_names_ends_with_the_pool)
{
	kvmm_ref_t ref;

	register_from(pool[0], 0, 1, &ref);
	cr_expect_eq(change(KVMM_NAME_ADD, 4, ref), 0);
	cr_expect_eq(kvmm_put(pool[0], ref), 0);
	end_pool(pool[0]);
	pool[0] = NULL;
	cr_expect_str_eq(tiers_of(8), "........");
	pool[0] = make_tier(TIER0, NR);
}

/* ---- names that go before they are told ---- */

#define NR_LARGE	96u

static struct kvmm_pool *large;
static u32 late, nr_renames;	/* the block that the hook renames, and how often */

/* The first call for the blocks of one publication, in the middle of it. */
static void change_late(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	kvmm_key_t key = key_of(late);
	struct kvmm_prefix one = { .keys = &key, .nr = 1, .position = late };
	u32 nr_times = nr_renames;
	kvmm_ref_t ref;

	nr_renames = 0;
	if (!nr_times)
		return;
	cr_assert_eq(kvmm_prefix_match(large, &one, &ref), 1);
	for (u32 i = 0; i < nr_times; i++) {
		struct kvmm_name name = { .key = key_of(1000 + i), .position = 1000 + i };

		cr_assert_eq(kvmm_names_rename(large, &name, &ref, 1), 0);
	}
	cr_assert_eq(kvmm_put(large, ref), 0);
}

static bool is_told(u32 number)
{
	kvmm_key_t key = key_of(number);
	struct kvmm_prefix one = { .keys = &key, .nr = 1, .position = number };
	uint16_t tiers;

	cr_assert_geq(kvmm_registry_presence(reg, &one, &tiers), 0);
	return tiers;
}

static void rename_late(u32 number, u32 nr_times)
{
	struct kvmm_delegate renames = { .on_present = change_late, .ctx = &large };
	kvmm_ref_t ref[NR_LARGE];
	kvmm_mut_t mut[NR_LARGE];
	kvmm_key_t key[NR_LARGE];
	struct kvmm_prefix prefix = { .keys = key, .nr = NR_LARGE };

	large = make_tier(TIER0, NR_LARGE);
	late = number;
	nr_renames = nr_times;
	cr_assert_eq(kvmm_registry_delegate(reg, &renames), 0);
	for (u32 i = 0; i < NR_LARGE; i++)
		key[i] = key_of(i);
	cr_assert_eq(kvmm_alloc(large, NR_LARGE, mut), 0);
	cr_assert_eq(kvmm_prefix_register(large, &prefix, mut, ref), 0);
	cr_expect_eq(nr_renames, 0, "the hook was called");
	for (u32 i = 0; i < NR_LARGE; i++)
		cr_expect_eq(is_told(i), i != late, "%u", i);
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(is_told(1000 + i), i + 1 == nr_times);
	cr_expect_eq(kvmm_put_many(large, ref, NR_LARGE), 0);
	cr_expect_eq(kvmm_reset_inactive(large), NR_LARGE);
	for (u32 i = 0; i < 1002; i++)
		cr_expect_not(is_told(i), "%u is left", i);
	cr_expect_eq(kv_radix_check(reg), 0);
	cr_expect_eq(kvmm_registry_delegate(reg, &(struct kvmm_delegate){ .ctx = &large }), 0);
	kvmm_pool_destroy(large);
}

/* One entry with a name that was read already to be told, and one of those behind it. */
Test(presence, of_a_block_that_is_renamed_before_it_is_told_has_no_trace_of_the_old_name)
{
	for (u32 nr_times = 1; nr_times <= 2; nr_times++)
		for (u32 number = 0; number < NR_LARGE; number += 19)
			rename_late(number, nr_times);
}

#define NR_MANY	4096u

static struct kvmm_pool *make_many(struct kvmm_registry *of)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_MANY, .policy = "lru",
				       .registry = of, .tier = of ? TIER1 : 0 };

	return make_pool_of(&attr);
}

/* @nr names for its first block. */
static u64 metadata_with(struct kvmm_registry *of, u32 nr)
{
	struct kvmm_pool *made __cleanup(end_pool) = make_many(of);
	kvmm_ref_t ref[1];
	u64 bytes;

	register_from(made, 0, 1, ref);
	for (u32 i = 1; i < nr; i++)
		cr_assert_eq(change_in(made, KVMM_NAME_ADD, i, ref[0]), 0);
	bytes = stat_of(made).metadata_bytes;
	cr_assert_eq(kvmm_put(made, ref[0]), 0);
	return bytes;
}

/* A name that goes takes 28 bytes while it waits, and a block's parent and mark 17. */
Test(presence, takes_room_for_names_that_go_once_for_each_name_there_may_be)
{
	u64 few = metadata_with(reg, 1) - metadata_with(NULL, 1);
	u64 many = metadata_with(reg, NR_MANY) - metadata_with(NULL, NR_MANY);

	cr_expect_leq(few, NR_MANY * 17 + NR_MANY / 8 * 9 * 28 + 1024);
	cr_expect_geq(few, NR_MANY * 17 + NR_MANY * 28);
	cr_expect_geq(many, NR_MANY * 17 + 2 * NR_MANY * 28);
}

/* Bytes that a pool takes and does not tell, for lists of other folders. */
static u64 untold_bytes(struct kvmm_registry *of)
{
	u64 before = kv_mem_bytes();
	struct kvmm_pool *made __cleanup(end_pool) = make_many(of);

	return kv_mem_bytes() - before - stat_of(made).metadata_bytes;
}

Test(presence, what_it_takes_is_told_in_metadata_bytes)
{
	u64 extra = untold_bytes(reg) - untold_bytes(NULL);

	cr_expect_lt(extra, 512, "%llu bytes more", (unsigned long long)extra);
}
