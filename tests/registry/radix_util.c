// SPDX-License-Identifier: Apache-2.0
/* See radix_util.h. */
#include <kv/rcu.h>

#include "radix_util.h"

struct kvmm_registry *make_registry(u32 capacity, u32 nr_tiers, u32 flags)
{
	struct kvmm_registry_attr attr = { .size = sizeof(attr), .capacity = capacity,
					   .nr_tiers = nr_tiers, .flags = flags };
	struct kvmm_registry *reg;

	cr_assert_eq(kvmm_registry_create(&attr, &reg), 0);
	return reg;
}

void end_registry(struct kvmm_registry *reg)
{
	cr_expect_eq(kv_radix_check(reg), 0);
	kvmm_registry_destroy(reg);
	cr_expect_eq(kv_mem_bytes(), 0);
}

kvmm_key_t number_key(u64 number)
{
	u64 word[2] = { number, ~number };
	kvmm_key_t key;

	memcpy(&key, word, sizeof(key));
	return key;
}

void chain_fill(struct chain *chain, u64 number, u32 nr)
{
	cr_assert_leq(nr, MAX_CHAIN);
	for (u32 i = 0; i < nr; i++)
		chain->key[i] = number_key(1000 * number + i);
	chain->prefix = (struct kvmm_prefix){ chain->key, nr, 0, NULL, TEST_DOMAIN };
}

struct kvmm_prefix one_of(const struct chain *chain, u32 i)
{
	return (struct kvmm_prefix){ &chain->key[i], 1, i, i ? &chain->key[i - 1] : NULL,
				     TEST_DOMAIN };
}

struct kvmm_name name_at(const struct chain *chain, u32 i)
{
	return (struct kvmm_name){ chain->key[i], TEST_DOMAIN, i };
}

kvmm_node_t node_at_name(struct kvmm_registry *reg, const struct chain *chain, u32 i)
{
	struct kvmm_prefix one = one_of(chain, i);
	kvmm_node_t node;

	cr_assert_geq(kvmm_registry_find(reg, &one, &node, NULL), 0);
	return node;
}

void expect_sound(struct kvmm_registry *reg, u32 nr_nodes)
{
	struct kvmm_registry_stat stat;

	kvmm_registry_get_stat(reg, &stat);
	cr_expect_eq(stat.nodes, nr_nodes, "%u nodes, not %u", stat.nodes, nr_nodes);
	cr_expect_eq(kv_radix_check(reg), 0);
}

bool same_node(kvmm_node_t a, kvmm_node_t b)
{
	return a.index == b.index && a.gen == b.gen;
}
