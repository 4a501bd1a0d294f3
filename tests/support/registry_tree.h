/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of tests in a registry of prefixes. */
#ifndef REGISTRY_TREE_H
#define REGISTRY_TREE_H

#include <kv/registry_radix.h>
#include <kvmm/ext/registry.h>

#include "registry/radix.h"

/* .gen 0: none is registered, or the node is stale. */
static inline kvmm_node_t parent_of(struct kvmm_registry *reg, kvmm_node_t node)
{
	struct kvmm_node_info info = { 0 };

	kvmm_node_get_info(reg, node, &info);
	return info.parent;
}

/* The node, its parent, and so on: how many, at most @max. */
static inline int lineage_of(struct kvmm_registry *reg, kvmm_node_t node, kvmm_node_t *nodes, int max)
{
	int nr = 0;

	for (; node.gen && nr < max; node = parent_of(reg, node))
		nodes[nr++] = node;
	return nr;
}

/* Blocks of this name in @tier, while no other thread writes; -1: it has gone. */
static inline int count_of(struct kvmm_registry *reg, kvmm_node_t node, u32 tier)
{
	const struct node *at = node_at(reg, node.index);

	return at->gen == node.gen ? (int)at->count[tier] : -1;
}

/* Nodes at this position; 64 or more count as 64. */
static inline int nr_at(struct kvmm_registry *reg, u32 position)
{
	kvmm_node_t nodes[64];

	return kv_radix_at(reg, position, nodes, 64);
}

struct children {
	kvmm_node_t *nodes;
	int nr, max;
};

static inline int see_child(void *ctx, kvmm_node_t node, uint32_t depth)
{
	struct children *seen = ctx;

	if (depth == 1 && seen->nr < seen->max)
		seen->nodes[seen->nr++] = node;
	return 0;
}

/* How many, at most @max. */
static inline int children_of(struct kvmm_registry *reg, kvmm_node_t node, kvmm_node_t *nodes, int max)
{
	struct children seen = { nodes, 0, max };

	return kvmm_node_walk(reg, node, see_child, &seen) ? 0 : seen.nr;
}

#endif /* REGISTRY_TREE_H */
