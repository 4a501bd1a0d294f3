/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a pool to a registry of prefixes (<kvmm/ext/registry.h>) that has the pool as a tier.
 *
 * A pool must not fail after it has published, so memory comes first:
 *
 *	err = kv_radix_reserve(reg, nr);		// may fail, nothing happened
 *	... publish ...
 *	kv_radix_present(reg, tier, names, nr);		// cannot fail, uses up the reservation
 *
 * All of these call hooks of the engine's but reserve: no lock is held by the caller.
 */
#ifndef KV_REGISTRY_RADIX_H
#define KV_REGISTRY_RADIX_H

#include <kv/types.h>
#include <kvmm/ext/registry.h>

/* A block's name, and that of the block before it, if known. */
struct kv_radix_name {
	kvmm_key_t key;
	kvmm_key_t parent;		/* if ->has_parent */
	kvmm_domain_t domain;
	u32 position;
	bool has_parent;		/* ignored at position 0 */
};

/* Memory for @nr more presents: 0 or -ENOMEM. May wait for a grace period: no read section. */
int kv_radix_reserve(struct kvmm_registry *reg, u32 nr);

/* Give back reserved slots that are not needed. */
void kv_radix_unreserve(struct kvmm_registry *reg, u32 nr);

/* @tier has one block more of each; @nr were reserved. Never allocates or waits. */
void kv_radix_present(struct kvmm_registry *reg, u32 tier, const struct kv_radix_name *names,
		      u32 nr);

/* @tier has one block less of each, last first. Returns how many it had. No allocation, no wait. */
u32 kv_radix_absent(struct kvmm_registry *reg, u32 tier, const struct kv_radix_name *names, u32 nr);

/* They are used. They are not looked up: the pool knows that it has them. */
void kv_radix_touch(struct kvmm_registry *reg, const struct kv_radix_name *names, u32 nr);

/* Does a consumer listen to touches? If not, there is no need to gather names. */
bool kv_radix_wants_touches(const struct kvmm_registry *reg);

/*
 * Nodes at this position, of all domains, youngest first: how many were given, at most @max;
 * -EINVAL. @nodes may be NULL if @max is 0.
 */
int kv_radix_at(struct kvmm_registry *reg, u32 position, kvmm_node_t *nodes, u32 max);

/* Is @tier one of the registry's? */
bool kv_radix_has_tier(const struct kvmm_registry *reg, u32 tier);

/* Recompute all that is kept twice, while it does not change: 0; -EUCLEAN; -ENOMEM. */
int kv_radix_check(struct kvmm_registry *reg);

#endif /* KV_REGISTRY_RADIX_H */
