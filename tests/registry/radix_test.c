// SPDX-License-Identifier: Apache-2.0
/* The registry of prefixes, guarantee by guarantee; numbers are those of Documentation/registry.rst. */
#include <pthread.h>

#include <kv/rcu.h>
#include <kv/registry_radix.h>

#include "radix_util.h"
#include "registry/radix.h"
#include "tests/support/length.h"

#define ALL	0xfu		/* tiers */

static u64 bytes_of(struct kvmm_registry *reg)
{
	struct kvmm_registry_stat stat;

	kvmm_registry_get_stat(reg, &stat);
	return stat.bytes;
}

static int len_in(struct kvmm_registry *reg, const struct chain *chain, u32 tiers)
{
	return kvmm_registry_len(reg, &chain->prefix, tiers);
}

/* ---- what tiers have ---- */

REGISTRY_TEST(radix, the_longest_prefix_is_that_of_all_tiers_together, make_registry(64, 4, 0))
{
	struct kvmm_prefix part;
	struct chain chain;

	chain_fill(&chain, 1, 10);
	part = chain.prefix;
	part.nr = 4;
	cr_assert_eq(kvmm_registry_present(reg, 0, &part), 0);
	part = (struct kvmm_prefix){ chain.key + 4, 3, 4, &chain.key[3], TEST_DOMAIN };
	cr_assert_eq(kvmm_registry_present(reg, 2, &part), 0);
	cr_expect_eq(len_in(reg, &chain, 1), 4);
	cr_expect_eq(len_in(reg, &chain, 4), 0);
	cr_expect_eq(len_in(reg, &chain, 5), 7);
	cr_expect_eq(len_in(reg, &chain, 2), 0);
	cr_expect_eq(len_in(reg, &chain, 0), 0);
	expect_sound(reg, 7);
}

REGISTRY_TEST(radix, bisection_finds_every_length_and_tier,
	  make_registry(64, 2, KVMM_REGISTRY_PREFIX_CLOSED))
{
	struct chain chain;

	for (u32 len = 0; len <= MAX_CHAIN; len++) {
		chain_fill(&chain, len, MAX_CHAIN);
		chain.prefix.nr = len;
		cr_assert_eq(kvmm_registry_present(reg, len % 2, &chain.prefix), 0);
		chain.prefix.nr = MAX_CHAIN;
		cr_expect_eq(len_in(reg, &chain, 3), len);
		cr_expect_eq(len_in(reg, &chain, 1u << len % 2), len);
		cr_expect_eq(len_in(reg, &chain, 2u >> len % 2), 0);
	}
}

static bool has_any(struct kvmm_registry *reg, const struct kvmm_name *name, uint32_t tiers)
{
	struct kvmm_prefix prefix = { &name->key, 1, name->position, NULL, name->domain };

	return kvmm_registry_len(reg, &prefix, tiers) == 1;
}

REGISTRY_TEST(radix, a_tier_has_a_name_until_its_last_block_goes, make_registry(64, 4, 0))
{
	struct chain chain;
	struct kvmm_name name;

	chain_fill(&chain, 1, 3);
	name = name_at(&chain, 2);
	cr_assert_eq(kvmm_registry_present(reg, 1, &chain.prefix), 0);
	cr_assert_eq(kvmm_registry_present(reg, 1, &chain.prefix), 0);
	cr_expect_eq(count_of(reg, node_at_name(reg, &chain, 2), 1), 2);
	cr_expect_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 3);
	cr_expect(has_any(reg, &name, BIT(1)));
	cr_expect_not(has_any(reg, &name, BIT(0)));
	cr_expect(has_any(reg, &name, ALL));
	cr_expect(has_any(reg, &name, UINT32_MAX));
	cr_expect_eq(len_in(reg, &chain, ~BIT(1)), 0, "no other tier, there or not");
	cr_expect_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 3);
	cr_expect_not(has_any(reg, &name, ALL));
	cr_expect_eq(node_at_name(reg, &chain, 2).gen, 0);
	cr_expect_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 0);
	expect_sound(reg, 0);
}

REGISTRY_TEST(radix, sixteen_tiers_are_counted_apart, make_registry(64, KVMM_MAX_TIERS, 0))
{
	struct chain chain;
	uint16_t tiers[4];

	chain_fill(&chain, 1, 4);
	for (u32 tier = 0; tier < KVMM_MAX_TIERS; tier++) {
		for (u32 i = 0; i <= tier; i++)
			cr_assert_eq(kvmm_registry_present(reg, tier, &chain.prefix), 0);
		cr_expect_eq(kvmm_registry_presence(reg, &chain.prefix, tiers), 4);
		cr_expect_eq(tiers[3], (2u << tier) - 1);
	}
	for (u32 tier = 0; tier < KVMM_MAX_TIERS; tier++)
		cr_expect_eq(count_of(reg, node_at_name(reg, &chain, 1), tier), tier + 1);
	expect_sound(reg, 4);
}

REGISTRY_TEST(radix, names_differ_in_each_of_their_parts, make_registry(64, 1, 0))
{
	kvmm_key_t keys[2] = { number_key(7), number_key(7) };
	struct kvmm_prefix prefix = { keys, 1, 5, NULL, TEST_DOMAIN };
	struct kvmm_prefix other[5] = { prefix, prefix, prefix, prefix, prefix };
	kvmm_node_t node;

	other[0].position = 4;
	other[1].domain.tenant++;
	other[2].domain.layout++;
	other[3].domain.group++;
	/* One half of the key is the same, the other differs in a bit. */
	keys[1].byte[15] ^= 0x80;
	other[4].keys = &keys[1];
	cr_assert_eq(kvmm_registry_present(reg, 0, &prefix), 0);
	for (u32 i = 0; i < ARRAY_SIZE(other); i++)
		cr_expect_eq(kvmm_registry_find(reg, &other[i], &node, NULL), 0, "%u", i);
	for (u32 i = 0; i < ARRAY_SIZE(other); i++)
		cr_assert_eq(kvmm_registry_present(reg, 0, &other[i]), 0);
	expect_sound(reg, 6);
	cr_expect_eq(nr_at(reg, 5), 5);
}

REGISTRY_TEST(radix, a_transfer_is_no_access_and_keeps_the_node, make_registry(64, 4, 0))
{
	struct chain chain;
	kvmm_node_t node;

	chain_fill(&chain, 1, 6);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	node = node_at_name(reg, &chain, 3);
	cr_expect_eq(kvmm_registry_transfer(reg, 0, 3, &chain.prefix), 6);
	cr_expect(same_node(node_at_name(reg, &chain, 3), node));
	cr_expect_eq(len_in(reg, &chain, 8), 6);
	cr_expect_eq(len_in(reg, &chain, 7), 0);
	cr_expect_eq(kvmm_registry_transfer(reg, 0, 3, &chain.prefix), 0);
	expect_sound(reg, 6);
}

REGISTRY_TEST(radix, names_come_from_no_tier_and_go_to_none, make_registry(64, 4, 0))
{
	struct chain chain;

	chain_fill(&chain, 1, 6);
	cr_expect_eq(kvmm_registry_transfer(reg, KVMM_NO_TIER, 2, &chain.prefix), 0);
	cr_expect_eq(len_in(reg, &chain, 4), 6);
	cr_expect_eq(kvmm_registry_present(reg, 2, &chain.prefix), 0);
	cr_expect_eq(kvmm_registry_transfer(reg, 2, KVMM_NO_TIER, &chain.prefix), 6);
	cr_expect_eq(len_in(reg, &chain, 4), 6, "the other block of each");
	cr_expect_eq(kvmm_registry_absent(reg, 2, &chain.prefix), 6);
	expect_sound(reg, 0);
}

REGISTRY_TEST(radix, wrong_arguments_are_refused, make_registry(64, 2, 0))
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_registry *other = NULL;
	struct chain chain;

	chain_fill(&chain, 1, 4);
	cr_expect_eq(kvmm_registry_present(reg, 2, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_absent(reg, 2, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_transfer(reg, 1, 1, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_transfer(reg, 0, 2, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_transfer(reg, KVMM_NO_TIER, KVMM_NO_TIER, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_transfer(reg, KVMM_MAX_TIERS, 0, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_transfer(reg, 0, KVMM_MAX_TIERS, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_present(reg, KVMM_NO_TIER, &chain.prefix), -EINVAL);
	cr_expect_eq(kvmm_registry_absent(reg, KVMM_NO_TIER, &chain.prefix), -EINVAL);
	chain.prefix.position = UINT32_MAX - 3;
	cr_expect_eq(kvmm_registry_present(reg, 0, &chain.prefix), -EINVAL);
	cr_expect_eq(len_in(reg, &chain, 1), -EINVAL);
	chain.prefix.keys = NULL;
	cr_expect_eq(kvmm_registry_present(reg, 0, &chain.prefix), -EINVAL);
	attr.nr_tiers = KVMM_MAX_TIERS + 1;
	cr_expect_eq(kvmm_registry_create(&attr, &other), -EINVAL);
	attr.nr_tiers = 0;
	cr_expect_eq(kvmm_registry_create(&attr, &other), -EINVAL);
	cr_expect_null(other);
	expect_sound(reg, 0);
}

/* ---- nodes ---- */

REGISTRY_TEST(radix, an_orphan_finds_its_parent_when_that_appears, make_registry(64, 1, 0))
{
	struct kvmm_prefix one;
	struct chain chain;
	kvmm_node_t orphan, nodes[4];

	chain_fill(&chain, 1, 4);
	one = one_of(&chain, 3);
	cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
	orphan = node_at_name(reg, &chain, 3);
	cr_expect_eq(parent_of(reg, orphan).gen, 0);
	for (u32 i = 3; i--;) {
		one = one_of(&chain, i);
		cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
		cr_expect_eq(lineage_of(reg, orphan, nodes, 4), 4 - i);
	}
	cr_expect(same_node(nodes[0], orphan));
	cr_expect(same_node(nodes[3], node_at_name(reg, &chain, 0)));
	/* The parent goes and comes: another node, the same child. */
	one = one_of(&chain, 2);
	cr_expect_eq(kvmm_registry_absent(reg, 0, &one), 1);
	cr_expect_eq(lineage_of(reg, orphan, nodes, 4), 1);
	cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
	cr_expect_eq(lineage_of(reg, orphan, nodes, 4), 4);
	cr_expect_eq(children_of(reg, nodes[1], nodes, 4), 1);
	cr_expect(same_node(nodes[0], orphan));
	expect_sound(reg, 4);
}

REGISTRY_TEST(radix, a_parent_that_is_told_later_is_learnt_and_then_kept, make_registry(64, 1, 0))
{
	kvmm_key_t child = number_key(1), parents[2] = { number_key(10), number_key(11) };
	struct kvmm_prefix prefix = { parents, 2, 0, NULL, TEST_DOMAIN };
	struct kvmm_prefix one = { &child, 1, 1, NULL, TEST_DOMAIN };
	struct kvmm_node_info info;
	kvmm_node_t node;

	for (u32 i = 0; i < 2; i++) {
		prefix = (struct kvmm_prefix){ &parents[i], 1, 0, NULL, TEST_DOMAIN };
		cr_assert_eq(kvmm_registry_present(reg, 0, &prefix), 0);
	}
	cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
	cr_assert_eq(kvmm_registry_find(reg, &one, &node, NULL), 1);
	cr_expect_eq(parent_of(reg, node).gen, 0);
	for (u32 i = 0; i < 2; i++) {
		one.parent = &parents[i];
		cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
		cr_assert_eq(kvmm_node_get_info(reg, parent_of(reg, node), &info), 0);
		cr_expect_arr_eq(&info.name.key, &parents[0], sizeof(parents[0]));
	}
}

REGISTRY_TEST(radix, a_held_node_stays_without_a_tier, make_registry(64, 1, 0))
{
	struct kvmm_node_info info;
	kvmm_node_t nodes[5];
	struct chain chain;

	chain_fill(&chain, 1, 5);
	cr_assert_eq(kvmm_registry_hold(reg, &chain.prefix, nodes), 0);
	cr_expect_eq(kvmm_registry_find(reg, &chain.prefix, nodes, NULL), 5);
	cr_expect_eq(len_in(reg, &chain, 1), 0);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 5);
	cr_assert_eq(kvmm_node_get_info(reg, nodes[4], &info), 0);
	cr_expect_eq(info.tiers, 0);
	cr_assert_eq(kvmm_registry_hold(reg, &chain.prefix, nodes), 0);
	cr_assert_eq(kvmm_node_put(reg, nodes, 5), 0);
	expect_sound(reg, 5);
	cr_assert_eq(kvmm_node_put(reg, nodes, 5), 0);
	expect_sound(reg, 0);
	cr_expect_eq(kvmm_node_get_info(reg, nodes[4], &info), -ESTALE);
}

REGISTRY_TEST(radix, more_puts_than_holds_put_nothing, make_registry(64, 1, 0))
{
	kvmm_node_t nodes[5];
	struct chain chain;

	chain_fill(&chain, 1, 4);
	cr_assert_eq(kvmm_registry_hold(reg, &chain.prefix, nodes), 0);
	nodes[4] = nodes[1];
	cr_expect_eq(kvmm_node_put(reg, nodes, 5), -EINVAL);
	expect_sound(reg, 4);
	cr_assert_eq(radix_node_get(reg, nodes[1]), 0);
	cr_expect_eq(kvmm_node_put(reg, nodes, 5), 0);
	expect_sound(reg, 0);
}

Test(radix, handles_that_are_stale_or_made_up_are_refused)
{
	struct kvmm_registry *reg = make_registry(64, 1, 0), *other = make_registry(64, 1, 0);
	kvmm_node_t node, bad[3];
	struct kvmm_node_info info;
	struct chain chain;

	chain_fill(&chain, 1, 1);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_assert_eq(kvmm_registry_present(other, 0, &chain.prefix), 0);
	node = node_at_name(reg, &chain, 0);
	bad[0] = (kvmm_node_t){ node.index, node.gen + 2 };
	bad[1] = (kvmm_node_t){ 0xfffffff0, node.gen };
	bad[2] = (kvmm_node_t){ 0, 0 };
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect_eq(kvmm_node_get_info(reg, bad[i], &info), -EINVAL);
		cr_expect_eq(radix_node_get(reg, bad[i]), -EINVAL);
		cr_expect_eq(kvmm_node_put(reg, &bad[i], 1), -EINVAL);
	}
	cr_expect_neq(kvmm_node_get_info(other, node, &info), 0);
	/* A hundred lives later it is still refused. */
	for (u32 i = 0; i < 100; i++) {
		cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 1);
		kv_rcu_barrier();
		cr_expect_eq(kvmm_node_get_info(reg, node, &info), -ESTALE);
		cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
		cr_expect_eq(kvmm_node_get_info(reg, node, &info), -ESTALE);
		cr_expect_eq(kvmm_node_walk(reg, node, NULL, NULL), -EINVAL);
	}
	kvmm_registry_destroy(other);
	end_registry(reg);
}

REGISTRY_TEST(radix, a_slot_whose_lives_are_used_up_is_never_used_again, make_registry(64, 1, 0))
{
	struct chain chain;
	kvmm_node_t last, next;

	chain_fill(&chain, 1, 1);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	last = node_at_name(reg, &chain, 0);
	node_at(reg, last.index)->gen = last.gen = LAST_GEN - 1;
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 1);
	kv_rcu_barrier();
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	next = node_at_name(reg, &chain, 0);
	cr_expect_neq(next.index, last.index);
	cr_expect_eq(radix_node_get(reg, last), -ESTALE);
	expect_sound(reg, 1);
}

/* ---- trees ---- */

struct tally {
	u32 nr;
	u32 depth[8];
};

static int tally(void *ctx, kvmm_node_t node, u32 depth)
{
	struct tally *sum = ctx;

	sum->nr++;
	if (depth < ARRAY_SIZE(sum->depth))
		sum->depth[depth]++;
	return 0;
}

static int stop_at_three(void *ctx, kvmm_node_t node, u32 depth)
{
	return ++*(u32 *)ctx == 3 ? 42 : 0;
}

/* Each node of a level has three children on the next: 1, 3, 9, 27. */
static void grow_tree(struct kvmm_registry *reg)
{
	u32 first = 0, nr = 1;

	for (u32 position = 0; position < 4; position++, first += nr, nr *= 3) {
		for (u32 i = 0; i < nr; i++) {
			kvmm_key_t key = number_key(first + nr + i);
			kvmm_key_t parent = number_key(first + i / 3);
			struct kvmm_prefix one = { &key, 1, position, position ? &parent : NULL,
						   TEST_DOMAIN };

			cr_assert_eq(kvmm_registry_present(reg, 0, &one), 0);
		}
	}
}

REGISTRY_TEST(radix, a_walk_visits_a_tree_level_by_level_of_depth, make_registry(64, 1, 0))
{
	kvmm_key_t key = number_key(1);
	struct kvmm_prefix top = { &key, 1, 0, NULL, TEST_DOMAIN };
	struct kvmm_node_info info;
	struct tally sum = { 0 };
	kvmm_node_t root, nodes[40];
	u32 nr = 0;

	grow_tree(reg);
	cr_assert_eq(kvmm_registry_find(reg, &top, &root, NULL), 1);
	cr_assert_eq(kvmm_node_walk(reg, root, tally, &sum), 0);
	cr_expect_eq(sum.nr, 40);
	cr_expect_eq(sum.depth[0], 1);
	cr_expect_eq(sum.depth[1], 3);
	cr_expect_eq(sum.depth[2], 9);
	cr_expect_eq(sum.depth[3], 27);
	cr_expect_eq(kvmm_node_walk(reg, root, stop_at_three, &nr), 42);
	cr_expect_eq(nr, 3);
	cr_expect_eq(kv_radix_at(reg, 3, nodes, 40), 27);
	cr_expect_eq(kv_radix_at(reg, 3, nodes, 5), 5);
	cr_expect_eq(nr_at(reg, 2), 9);
	cr_expect_eq(nr_at(reg, 4), 0);
	cr_assert_eq(kvmm_node_get_info(reg, root, &info), 0);
	cr_expect_eq(info.children, 3);
}

#define DEEP	((u32)test_length(NULL, 1000000))

struct deep {
	struct kvmm_registry *reg;
	kvmm_key_t *keys;
	kvmm_node_t *nodes;
	u32 nr_visited;
};

static int count_visit(void *ctx, kvmm_node_t node, u32 depth)
{
	struct deep *deep = ctx;

	return depth == deep->nr_visited++ ? 0 : -EUCLEAN;
}

/* On a stack that would not hold a frame for each of a thousand nodes. */
static void *go_deep(void *arg)
{
	struct deep *deep = arg;
	struct kvmm_prefix prefix = { deep->keys, DEEP, 0, NULL, TEST_DOMAIN };

	cr_assert_eq(kvmm_registry_present(deep->reg, 0, &prefix), 0);
	cr_assert_eq(kvmm_registry_find(deep->reg, &prefix, deep->nodes, NULL), DEEP);
	cr_assert_eq(kvmm_node_walk(deep->reg, deep->nodes[0], count_visit, deep), 0);
	cr_assert_eq(kv_radix_check(deep->reg), 0);
	cr_assert_eq(kvmm_registry_absent(deep->reg, 0, &prefix), DEEP);
	return NULL;
}

Test(radix, a_million_generations_need_no_recursion)
{
	struct deep deep = { .reg = make_registry(16, 1, KVMM_REGISTRY_PREFIX_CLOSED) };
	pthread_attr_t attr;
	pthread_t thread;

	deep.keys = malloc(DEEP * sizeof(*deep.keys));
	deep.nodes = malloc(DEEP * sizeof(*deep.nodes));
	cr_assert(deep.keys && deep.nodes);
	for (u32 i = 0; i < DEEP; i++)
		deep.keys[i] = number_key(i);
	pthread_attr_init(&attr);
	cr_assert_eq(pthread_attr_setstacksize(&attr, 64 << 10), 0);
	cr_assert_eq(pthread_create(&thread, &attr, go_deep, &deep), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(deep.nr_visited, DEEP);
	expect_sound(deep.reg, 0);
	free(deep.keys);
	free(deep.nodes);
	end_registry(deep.reg);
}

/* Two names by turns: each is the parent of the other, and at last of itself. */
REGISTRY_TEST(radix, keys_that_follow_themselves_are_one_node_a_position, make_registry(16, 1, 0))
{
	kvmm_node_t nodes[8], lineage[16];
	struct tally sum = { 0 };
	struct chain chain;

	chain_fill(&chain, 1, 8);
	for (u32 i = 2; i < 8; i++)
		chain.key[i] = chain.key[i < 5 ? i - 2 : 4];
	chain.prefix.position = 1;
	chain.prefix.parent = &chain.key[0];
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_assert_eq(kvmm_registry_find(reg, &chain.prefix, nodes, NULL), 8);
	cr_expect_eq(lineage_of(reg, nodes[7], lineage, 16), 8);
	for (u32 i = 0; i < 8; i++)
		cr_expect(same_node(lineage[i], nodes[7 - i]));
	cr_assert_eq(kvmm_node_walk(reg, nodes[0], tally, &sum), 0);
	cr_expect_eq(sum.nr, 8);
	cr_expect_eq(parent_of(reg, nodes[0]).gen, 0);
	expect_sound(reg, 8);
	cr_expect_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 8);
	expect_sound(reg, 0);
}

REGISTRY_TEST(radix, the_last_positions_are_as_good_as_others, make_registry(16, 2, 0))
{
	kvmm_node_t nodes[5], lineage[8];
	struct chain chain;

	chain_fill(&chain, 1, 5);
	chain.prefix.position = UINT32_MAX - 5;
	chain.prefix.parent = &chain.key[4];
	cr_assert_eq(kvmm_registry_hold(reg, &chain.prefix, nodes), 0);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_expect_eq(kvmm_registry_transfer(reg, 0, 1, &chain.prefix), 5);
	cr_expect_eq(len_in(reg, &chain, 2), 5);
	cr_expect_eq(kv_radix_at(reg, UINT32_MAX - 1, lineage, 8), 1);
	cr_expect(same_node(lineage[0], nodes[4]));
	cr_expect_eq(nr_at(reg, UINT32_MAX), 0);
	cr_expect_eq(lineage_of(reg, nodes[4], lineage, 8), 5);
	expect_sound(reg, 5);
	cr_expect_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 5);
	cr_expect_eq(kvmm_node_put(reg, nodes, 5), 0);
	expect_sound(reg, 0);
}

/* ---- memory ---- */

/* Else each name of the batch would go through a chain of those before it. */
REGISTRY_TEST(radix, a_batch_enters_a_table_that_is_large_enough_for_it, make_registry(16, 1, 0))
{
	kvmm_key_t *keys = calloc(20000, sizeof(*keys));
	kvmm_node_t *nodes = calloc(20000, sizeof(*nodes));
	struct kvmm_prefix prefix = { keys, 20000, 0, NULL, TEST_DOMAIN };
	u32 nr_chains;

	cr_assert(keys && nodes);
	for (u32 i = 0; i < 20000; i++)
		keys[i] = number_key(i);
	cr_assert_eq(kvmm_registry_present(reg, 0, &prefix), 0);
	nr_chains = reg->table->nr_chains;
	cr_expect_geq(nr_chains, 20000);
	prefix.position = 20000;
	prefix.nr = 10000;
	cr_assert_eq(kvmm_registry_hold(reg, &prefix, nodes), 0);
	cr_expect_geq(reg->table->nr_chains, 30000);
	/* Names that are there need no room of their own for long. */
	for (u32 i = 0; i < 10; i++)
		cr_assert_eq(kvmm_registry_present(reg, 0, &prefix), 0);
	cr_expect_leq(reg->table->nr_chains, 4 * nr_chains);
	expect_sound(reg, 30000);
	cr_assert_eq(kvmm_node_put(reg, nodes, 10000), 0);
	free(keys);
	free(nodes);
}

static void probe(struct kvmm_registry *reg, u64 number)
{
	kvmm_key_t key = number_key(number);
	struct kvmm_prefix prefix = { &key, 1, (u32)(number * 2654435761u), NULL, TEST_DOMAIN };
	struct kvmm_name name = { key, { (u32)number, 0, 0 }, (u32)number };
	kvmm_node_t node;
	uint16_t tiers;

	cr_assert_eq(kvmm_registry_len(reg, &prefix, 1), 0);
	cr_assert_eq(kvmm_registry_presence(reg, &prefix, &tiers), 0);
	cr_assert_eq(kvmm_registry_find(reg, &prefix, &node, NULL), 0);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &prefix), 0);
	cr_assert_eq(kvmm_registry_transfer(reg, 0, 1, &prefix), 0);
	cr_assert_not(has_any(reg, &name, 3));
	cr_assert_eq(nr_at(reg, prefix.position), 0);
}

REGISTRY_TEST(radix, probing_a_million_unknown_names_leaves_memory_as_it_was,
	  make_registry(64, 2, 0))
{
	u64 held = kv_mem_bytes(), bytes = bytes_of(reg);

	for (u64 i = 0; i < 1000000; i++)
		probe(reg, i);
	cr_expect_eq(kv_mem_bytes(), held);
	cr_expect_eq(bytes_of(reg), bytes);
	cr_expect_eq(reg->slab[NODE].top, 0);
	cr_expect_eq(reg->slab[RECORD].top, 0);
	expect_sound(reg, 0);
}

REGISTRY_TEST(radix, names_that_come_and_go_leave_memory_as_it_was, make_registry(4096, 2, 0))
{
	u64 held = kv_mem_bytes(), bytes = bytes_of(reg);
	struct chain chain;

	for (u64 i = 0; i < 20000; i++) {
		chain_fill(&chain, i, 16);
		chain.prefix.position = (u32)(i * 2654435761u) >> 1;
		cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
		cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 16);
	}
	cr_expect_eq(kv_mem_bytes(), held);
	cr_expect_eq(bytes_of(reg), bytes);
	expect_sound(reg, 0);
}

REGISTRY_TEST(radix, it_grows_beyond_its_capacity_and_says_so, make_registry(16, 1, 0))
{
	u64 bytes = bytes_of(reg);
	struct kvmm_registry_stat stat;
	struct chain chain;

	for (u64 i = 0; i < 100; i++) {
		chain_fill(&chain, i, MAX_CHAIN);
		cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	}
	kvmm_registry_get_stat(reg, &stat);
	cr_expect_geq(stat.capacity, 100 * MAX_CHAIN);
	cr_expect_eq(stat.positions, MAX_CHAIN);
	cr_expect_eq(stat.names[0], 100 * MAX_CHAIN);
	cr_expect_gt(stat.bytes, bytes + 100 * MAX_CHAIN * 128);
	cr_expect_geq(reg->table->nr_chains, 4096);
	cr_expect_eq(stat.bytes, kv_mem_bytes());
	for (u64 i = 0; i < 100; i++) {
		chain_fill(&chain, i, MAX_CHAIN);
		cr_expect_eq(len_in(reg, &chain, 1), MAX_CHAIN);
	}
	expect_sound(reg, 100 * MAX_CHAIN);
}

REGISTRY_TEST(radix, one_name_more_than_it_was_made_for_takes_a_quarter_more,
	  make_registry(4096, 1, 0))
{
	u64 bytes = bytes_of(reg);
	struct chain chain;

	for (u64 i = 0; i < 4096 / MAX_CHAIN; i++) {
		chain_fill(&chain, i, MAX_CHAIN);
		cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	}
	chain_fill(&chain, 100, MAX_CHAIN);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_expect_gt(bytes_of(reg), bytes);
	cr_expect_lt(bytes_of(reg), bytes * 13 / 10);
	expect_sound(reg, 4096 + MAX_CHAIN);
}

/* ---- what pools call ---- */

REGISTRY_TEST(radix, pools_and_callers_mean_the_same_names, make_registry(64, 2, 0))
{
	struct kv_radix_name names[20];
	kvmm_node_t nodes[20];
	struct kvmm_prefix half;
	struct chain chain;

	chain_fill(&chain, 1, 20);
	for (u32 i = 0; i < chain.prefix.nr; i++) {
		names[i] = (struct kv_radix_name){
			.key = chain.key[i], .domain = TEST_DOMAIN, .position = i,
			.has_parent = i > 0,
		};
		if (i)
			names[i].parent = chain.key[i - 1];
	}
	cr_assert_eq(kv_radix_reserve(reg, 30), 0);
	kv_radix_present(reg, 0, names, 20);
	kv_radix_unreserve(reg, 10);
	cr_expect_eq(len_in(reg, &chain, 1), 20);
	cr_expect_eq(lineage_of(reg, node_at_name(reg, &chain, 19), nodes, 20), 20);
	cr_assert_eq(kvmm_registry_present(reg, 1, &chain.prefix), 0);
	half = chain.prefix;
	half.nr = 10;
	cr_expect_eq(kvmm_registry_transfer(reg, 0, 1, &half), 10);
	cr_expect_eq(kv_radix_absent(reg, 0, names, 20), 10);
	cr_expect_eq(kv_radix_absent(reg, 1, names, 20), 20);
	cr_expect_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 10);
	cr_expect(kv_radix_has_tier(reg, 1));
	cr_expect_not(kv_radix_has_tier(reg, 2));
	expect_sound(reg, 0);
	cr_expect_eq(reg->slab[NODE].reserved, 0);
	cr_expect_eq(reg->slab[RECORD].reserved, 0);
}

/* ---- the check ---- */

static u32 nr_noticed(struct kvmm_registry *reg, void *field, u32 bits)
{
	u8 *byte = field;
	u32 nr = 0;

	for (u32 bit = 0; bit < bits; bit++) {
		byte[bit / 8] ^= BIT(bit % 8);
		nr += kv_radix_check(reg) == -EUCLEAN;
		byte[bit / 8] ^= BIT(bit % 8);
	}
	return nr;
}

/* All of it, that is; of a name a flip may lead to the same chain. */
#define EXPECT_NOTICED(reg, field) \
	cr_expect_eq(nr_noticed(reg, &(field), 8 * sizeof(field)), 8 * sizeof(field), #field)

static u32 flip_node(struct kvmm_registry *reg, struct node *node)
{
	EXPECT_NOTICED(reg, node->up);
	EXPECT_NOTICED(reg, node->down);
	EXPECT_NOTICED(reg, node->next[SIBLINGS]);
	EXPECT_NOTICED(reg, node->prev[SIBLINGS]);
	EXPECT_NOTICED(reg, node->next[PEERS]);
	EXPECT_NOTICED(reg, node->prev[PEERS]);
	EXPECT_NOTICED(reg, node->marks);
	EXPECT_NOTICED(reg, node->name.mask);
	EXPECT_NOTICED(reg, node->name.hash_next[0]);
	return nr_noticed(reg, node->name.key, 128) + nr_noticed(reg, &node->name.domain, 64) +
	       nr_noticed(reg, &node->name.position, 32);
}

static void flip_record(struct kvmm_registry *reg, struct record *record)
{
	EXPECT_NOTICED(reg, record->hash);
	EXPECT_NOTICED(reg, record->first);
	EXPECT_NOTICED(reg, record->nr);
	EXPECT_NOTICED(reg, record->last);
	EXPECT_NOTICED(reg, record->name.mask);
	EXPECT_NOTICED(reg, record->name.hash_next[0]);
	EXPECT_NOTICED(reg, record->name.domain);
	EXPECT_NOTICED(reg, record->name.position);
}

REGISTRY_TEST(radix, check_notices_flipped_bits, make_registry(64, 2, 0))
{
	u32 nr = 0;

	grow_tree(reg);
	cr_assert_eq(kv_radix_check(reg), 0);
	for (u32 i = 1; i <= reg->slab[NODE].top; i++)
		nr += flip_node(reg, node_at(reg, i));
	cr_expect_geq(nr, reg->slab[NODE].top * 224 * 98 / 100, "%u", nr);
	for (u32 i = 1; i <= reg->slab[RECORD].top; i++)
		if (record_at(reg, i)->nr)
			flip_record(reg, record_at(reg, i));
	EXPECT_NOTICED(reg, reg->seed);
	for (u32 i = 0; i < NR_STRIPES; i += 17) {
		EXPECT_NOTICED(reg, reg->stripe[i].nr_nodes);
		EXPECT_NOTICED(reg, reg->stripe[i].nr_positions);
		EXPECT_NOTICED(reg, reg->stripe[i].nr_names[0]);
	}
	expect_sound(reg, 40);
}
