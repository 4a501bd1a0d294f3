// SPDX-License-Identifier: Apache-2.0
/*
 * Leaf first: chains that branch, random requests, and whatever is evicted has no child left that
 * nobody holds; for every policy.
 */
#include <kvmm/ext/name.h>

#include "pool/internal.h"
#include "tests/pool/life_util.h"

#define NR_BLOCKS	48u
#define NR_NODES	160u
#define MAX_DEPTH	12u

struct tree {
	struct kvmm_pool *pool;
	u32 parent[NR_NODES];		/* node 0 and others that say so are roots: KV_NONE */
	u32 depth[NR_NODES];
	bool cached[NR_NODES];
	u64 random;
	u32 nr_evicted;
};

static u32 below(struct tree *tree, u32 limit)
{
	tree->random = tree->random * 6364136223846793005ull + 1442695040888963407ull;
	return (tree->random >> 33) % limit;
}

static void grow(struct tree *tree)
{
	for (u32 node = 0; node < NR_NODES; node++) {
		u32 parent = node && below(tree, 16) ? below(tree, node) : KV_NONE;

		if (parent != KV_NONE && tree->depth[parent] + 1 == MAX_DEPTH)
			parent = KV_NONE;
		tree->parent[node] = parent;
		tree->depth[node] = parent == KV_NONE ? 0 : tree->depth[parent] + 1;
	}
}

static u32 path_to(const struct tree *tree, u32 node, kvmm_key_t *keys)
{
	u32 nr = tree->depth[node] + 1;

	for (u32 i = nr; i--; node = tree->parent[node])
		keys[i] = key_of(node);
	return nr;
}

/* In the order in which they went. */
static void expect_leaves(struct tree *tree, const kvmm_key_t *evicted, u32 nr, const char *policy)
{
	for (u32 i = 0; i < nr; i++) {
		u32 gone = number_of(&evicted[i]);

		tree->cached[gone] = false;
		for (u32 node = 0; node < NR_NODES; node++)
			cr_assert(tree->parent[node] != gone || !tree->cached[node],
				  "%s: %u was evicted before its child %u", policy, gone, node);
	}
	tree->nr_evicted += nr;
}

static void advise(struct tree *tree, const kvmm_ref_t *refs, u32 nr)
{
	struct order *order = &tree->pool->order;

	if (!order->ops->advise)
		return;
	order_enter(order);
	for (u32 i = 0; i < nr; i++)
		order->ops->advise(order->rest.policy[0], refs[i].index, below(tree, 3), below(tree, 100));
	order_leave(order);
}

static void request(struct tree *tree, u32 node, const char *policy)
{
	kvmm_key_t keys[MAX_DEPTH], evicted[MAX_DEPTH];
	kvmm_ref_t refs[MAX_DEPTH];
	kvmm_mut_t fresh[MAX_DEPTH];
	u32 nr = path_to(tree, node, keys);
	struct kvmm_acquire_args acquire = {
		.keys = keys, .nr_keys = nr, .max_hits = nr, .nr_blocks = nr, .hits = refs,
		.fresh = fresh, .evicted = evicted,
	};
	struct kvmm_prefix rest;

	cr_assert_eq(kvmm_acquire(tree->pool, &acquire), 0);
	expect_leaves(tree, evicted, acquire.nr_evicted, policy);
	rest = (struct kvmm_prefix){
		.keys		= keys + acquire.nr_hits,
		.nr		= nr - acquire.nr_hits,
		.position	= acquire.nr_hits,
		.parent		= acquire.nr_hits ? &keys[acquire.nr_hits - 1] : NULL,
	};
	cr_assert_eq(kvmm_prefix_register(tree->pool, &rest, fresh, refs + acquire.nr_hits), 0);
	for (u32 i = 0; i < nr; i++)
		tree->cached[number_of(&keys[i])] = true;
	advise(tree, refs, nr);
	cr_assert_eq(kvmm_put_many(tree->pool, refs, nr), 0);
}

static void live_with(const char *policy, u64 seed)
{
	struct tree tree = { .pool = make_cache(NR_BLOCKS, policy), .random = seed };

	grow(&tree);
	for (u32 i = 0; i < 3000; i++)
		request(&tree, below(&tree, NR_NODES), policy);
	cr_expect_gt(tree.nr_evicted, 1000);
	end_pool(tree.pool);
}

Test(leaf, no_policy_evicts_a_block_before_its_child)
{
	const char *name[32];
	u32 nr = kvmm_policies(name, 32);

	for (u32 i = 0; i < nr; i++)
		live_with(name[i], 7 + i);
}

/* The first block was put back last, but first-in first-out would take it first. */
POOL_TEST(leaf, a_chain_goes_from_its_end, make_cache(8, "fifo"))
{
	u32 numbers[8];

	cache_keys(pool, 0, 5);
	cr_assert_eq(eviction_order(pool, numbers, 8), 5);
	for (u32 i = 0; i < 5; i++)
		cr_expect_eq(numbers[i], 4 - i);
}

/* Blocks 0 and 1 are a chain. The first went, and another block at position 0 is in its entry. */
static void expect_apart(struct kvmm_pool *pool, const kvmm_ref_t chain[2])
{
	kvmm_ref_t other;
	u32 index = chain[0].index, block = kvmm_block_of_ref(pool, chain[0]);

	cr_assert_eq(kvmm_put(pool, chain[0]), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	make_active(pool, 7, 1, &other);
	cr_assert_eq(other.index, index);
	cr_assert_eq(kvmm_put(pool, other), 0);
	cr_assert_eq(kvmm_put(pool, chain[1]), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	expect_order(pool, "7 1 ");
}

POOL_TEST(leaf, a_block_does_not_follow_the_one_that_came_in_place_of_its_parent,
	  make_cache(2, "lru"))
{
	kvmm_ref_t chain[2];

	make_active(pool, 0, 2, chain);
	expect_apart(pool, chain);
}

POOL_TEST(leaf, nor_does_the_first_block_of_a_batch, make_cache(2, "lru"))
{
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 1), 1);
	kvmm_key_t parent = key_of(0), key = key_of(1);
	kvmm_ref_t chain[2];
	kvmm_mut_t mut;

	make_active(pool, 0, 1, chain);
	make_private(pool, 1, &mut);
	prefix.keys = &key;
	prefix.position = 1;
	prefix.parent = &parent;
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, chain + 1), 0);
	expect_apart(pool, chain);
}

/* It got another position while it was held, and the order had not heard that it was. */
POOL_TEST(leaf, a_block_that_follows_none_any_more_is_looked_at, make_cache(4, "lru"))
{
	struct kvmm_victim victim;
	kvmm_ref_t chain[2];

	make_active(pool, 0, 2, chain);
	cr_assert_eq(kvmm_put_many(pool, chain, 2), 0);
	cr_assert_eq(kvmm_evict_next(pool, &victim, 1), 1);
	WRITE_ONCE(entry_at(pool, chain[1].index)->position, 7);
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(kvmm_evict_next(pool, &victim, 1), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	expect_order(pool, "1 0 ");
}

/* Of a chain of three, with @at of them renamed before they are put, the first one first. */
static void expect_order_renamed(const char *policy, u32 at, const char *order)
{
	struct kvmm_pool *pool = make_cache(8, policy);
	struct kvmm_name name = { .key = key_of(9), .position = at };
	kvmm_ref_t chain[3];

	make_active(pool, 0, 3, chain);
	cr_assert_eq(kvmm_names_rename(pool, &name, &chain[at], 1), 0);
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_put(pool, chain[i]), 0);
	expect_order(pool, order);
	end_pool(pool);
}

Test(leaf, a_block_that_is_renamed_in_its_place_follows_the_one_before)
{
	static const char *const policy[] = { "lru", "fifo", "lrfu", "lineage" };

	for (u32 i = 0; i < ARRAY_SIZE(policy); i++) {
		expect_order_renamed(policy[i], 0, "2 1 9 ");
		expect_order_renamed(policy[i], 1, "2 9 0 ");
		expect_order_renamed(policy[i], 2, "9 1 0 ");
	}
}

/* @nr blocks of a chain are there; three are published by @dup, and put, the first one first. */
static void expect_order_behind(const char *policy, u32 dup, u32 nr, bool elders_last)
{
	struct kvmm_pool *pool = make_life(8, policy, 0, dup);
	kvmm_ref_t elders[2], refs[3];

	make_active(pool, 0, nr, elders);
	cr_assert_eq(publish_as(pool, dup, 0, 3, refs), nr);
	for (u32 i = 0; i < nr && !elders_last; i++)
		cr_assert_eq(kvmm_put(pool, elders[i]), 0);
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_put(pool, refs[i]), 0);
	for (u32 i = 0; i < nr && elders_last; i++)
		cr_assert_eq(kvmm_put(pool, elders[i]), 0);
	expect_order(pool, "2 1 0 ");
	end_pool(pool);
}

Test(leaf, a_block_behind_a_duplicate_follows_the_elder)
{
	static const char *const policy[] = { "lru", "fifo", "lrfu", "lineage" };
	static const u32 dups[] = { KVMM_DUP_HOLD, KVMM_DUP_REJECT };

	for (u32 i = 0; i < ARRAY_SIZE(policy) * ARRAY_SIZE(dups); i++)
		for (u32 nr = 0; nr < 3; nr++) {
			expect_order_behind(policy[i / 2], dups[i % 2], nr, false);
			expect_order_behind(policy[i / 2], dups[i % 2], nr, true);
		}
}

Test(leaf, args_of_policies_are_checked)
{
	static const char *const good[] = { "multilru:3,8,15", "multilru", "t-lru:64", "default" };
	static const char *const bad[] = { "multilru:", "multilru:3,8", "multilru:8,3,15",
		"multilru:3,8,16", "multilru:0,1,2", "multilru:3,8,15,", "multilru:3,,15",
		"t-lru:", "t-lru:x", "lru:1", "lrfu:" };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16 };
	struct kvmm_pool *pool;

	for (u32 i = 0; i < ARRAY_SIZE(good); i++) {
		attr.policy = good[i];
		cr_assert_eq(kvmm_pool_create(&attr, &pool), 0, "%s", good[i]);
		end_pool(pool);
	}
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		attr.policy = bad[i];
		cr_expect_eq(kvmm_pool_create(&attr, &pool), -EINVAL, "%s", bad[i]);
	}
	attr.policy = "multilru2";
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
	attr.policy = ":3";
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
	cr_expect_eq(kv_mem_bytes(), 0);
}
