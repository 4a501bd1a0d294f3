// SPDX-License-Identifier: Apache-2.0
/*
 * News of the tier below for a registry of prefixes: as feed/presence.c does for the device. Memory
 * comes before a copy is made readable, and a copy that is gone is told when no lock is held.
 */
#include "tier.h"

#define BATCH	32u

static bool is_told(const struct lower *lower)
{
	return unlikely(lower->registry_tier != KVMM_TIER_UNTOLD);
}

static struct kv_radix_name radix_name(const struct kv_tier_name *name)
{
	struct kv_radix_name radix = { .key = name->key, .domain = name->domain,
				       .position = name->position, .has_parent = name->has_parent };

	if (name->has_parent)
		radix.parent = name->parent;
	return radix;
}

int told_reserve(struct kvmm_pool *pool, struct lower *lower, u32 nr)
{
	return is_told(lower) ? kv_radix_reserve(pool->presence.reg, nr) : 0;
}

void told_present(struct kvmm_pool *pool, struct lower *lower, const struct kv_tier_name *name)
{
	struct kv_radix_name radix = radix_name(name);

	kv_assert_not_held(&lower->lock);
	if (is_told(lower))
		kv_radix_present(pool->presence.reg, lower->registry_tier, &radix, 1);
}

static void absent(struct kvmm_pool *pool, struct lower *lower, const struct kv_tier_name *names,
		   u32 nr)
{
	struct kv_radix_name radix[BATCH];

	kv_assert_not_held(&lower->lock);
	kv_assert(nr <= BATCH);
	for (u32 i = 0; i < nr; i++)
		radix[i] = radix_name(&names[i]);
	kv_radix_absent(pool->presence.reg, lower->registry_tier, radix, nr);
}

void told_flush(struct kvmm_pool *pool, struct lower *lower)
{
	struct kv_tier_name names[BATCH];
	u32 nr;

	while (is_told(lower) && (nr = kv_tier_take_gone(lower->client, names, BATCH)))
		absent(pool, lower, names, nr);
}

void told_exit(struct kvmm_pool *pool, struct lower *lower)
{
	struct kv_tier_name name;
	u32 at = 0;

	if (!is_told(lower))
		return;
	told_flush(pool, lower);
	while (kv_tier_next_name(lower->client, &at, &name))
		absent(pool, lower, &name, 1);
}
