// SPDX-License-Identifier: Apache-2.0
/*
 * What quotas of classes want of a pool when blocks are taken and registered, and the accounts of
 * tenants as a part of it; see quota_take.c for what their limits want.
 */
#include "local.h"

/* ---- classes ---- */

bool class_is_none(const struct kvmm_pool *pool, u32 cls)
{
	return !pool->order.classes || cls > pool->order.classes->nr;
}

/* The order picks from those first that are over their quota. */
u32 class_trim_held(struct kvmm_pool *pool)
{
	struct victims victims = NO_VICTIMS;
	u32 index;

	kv_assert_held(&pool->lock);
	while (order_is_over(&pool->order)) {
		if (order_pick(&pool->order, 1, &index))
			victims_add(pool, &victims, index);
		else if (order_is_spent(&pool->order))
			break;
	}
	return victims_evict(pool, &victims);
}

void __class_trim(struct kvmm_pool *pool)
{
	if (cache_enter(pool))
		return;
	order_enter(&pool->order);
	class_trim_held(pool);
	order_leave(&pool->order);
	cache_leave(pool);
}

int __class_admit(struct kvmm_pool *pool, u32 cls, u32 nr)
{
	const struct class *class = &pool->order.classes->class[cls - 1];
	int err;

	kv_assert_held(&pool->lock);
	if (!class_refuses(class))
		return 0;
	order_enter(&pool->order);
	err = order_admit(&pool->order, class, nr);
	order_leave(&pool->order);
	return err;
}

u32 __class_take(struct kvmm_pool *pool, u32 cls, const kvmm_mut_t *blocks, u32 nr)
{
	struct classes *classes = pool->order.classes;
	u32 nr_evicted;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	for (u32 i = 0; i < nr; i++)
		classes->mark[blocks[i].index] = (cls - 1) | CLASS_GIVEN;
	class_charge(classes, cls, nr);
	nr_evicted = class_trim_held(pool);
	order_leave(&pool->order);
	return nr_evicted;
}

/* ---- accounts ---- */

static void quotas_exit(struct kvmm_pool *pool)
{
	quotas_free(&pool->order, pool->order.quotas);
}

static int quotas_check(struct kvmm_pool *pool)
{
	const struct quotas *quotas = pool->order.quotas;
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	u32 usage[MAX_ACCOUNTS] = { 0 };

	kv_assert_held(&pool->lock);
	if (!quotas)
		return 0;
	credits_recall(pool);	/* so arenas take and free no range either */
	for (u32 i = 0; i < nr_slots; i++) {
		const struct slot *slot = slot_at(pool, i);

		if (!slot->nr_ext)
			continue;
		if (!has_account(quotas, slot->account))
			return -EUCLEAN;
		usage[slot->account] += slot->nr;
	}
	return accounts_check(&pool->order, usage, pool->claims.nr, pool->claims.nr_due);
}

POOL_PART(quotas) = {
	.name		= "accounts of tenants",
	.exit		= quotas_exit,
	.check_base	= quotas_check,
};
