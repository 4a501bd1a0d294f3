/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registries of prefixes for tests, and names made of numbers.
 *
 *	struct kvmm_registry *reg = make_registry(64, 4, 0);
 *	struct chain chain;
 *
 *	chain_fill(&chain, 1, 8);		// keys 1000 to 1007, positions 0 to 7
 *
 *	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
 *	end_registry(reg);			// checks, and that nothing is left
 */
#ifndef RADIX_UTIL_H
#define RADIX_UTIL_H

#include <kv/registry_radix.h>
#include <kv/types.h>

#include "tests/support/cleanup.h"
#include "tests/support/registry_tree.h"

#define MAX_CHAIN	64u

#define TEST_DOMAIN	((kvmm_domain_t){ .tenant = 1, .layout = 2, .group = 3 })

/* Consecutive blocks of a prompt. Points into itself: not to be copied. */
struct chain {
	struct kvmm_prefix prefix;
	kvmm_key_t key[MAX_CHAIN];
};

struct kvmm_registry *make_registry(u32 capacity, u32 nr_tiers, u32 flags);
/* Also checks that all memory is given back. */
void end_registry(struct kvmm_registry *reg);
DEFINE_CLEANUP(end_registry, struct kvmm_registry *)

/* A test with a @reg that @make makes. */
#define REGISTRY_TEST(suite, name, make, ...) \
	TEST_WITH(struct kvmm_registry *reg, make, end_registry, suite, name, ##__VA_ARGS__)

kvmm_key_t number_key(u64 number);
/* Keys 1000 * @number and on, from position 0, of TEST_DOMAIN. */
void chain_fill(struct chain *chain, u64 number, u32 nr);
/* Name @i of the chain alone, with its parent. */
struct kvmm_prefix one_of(const struct chain *chain, u32 i);
struct kvmm_name name_at(const struct chain *chain, u32 i);
/* The node of it, or one with .gen 0. */
kvmm_node_t node_at_name(struct kvmm_registry *reg, const struct chain *chain, u32 i);

void expect_sound(struct kvmm_registry *reg, u32 nr_nodes);
bool same_node(kvmm_node_t a, kvmm_node_t b);

#endif /* RADIX_UTIL_H */
