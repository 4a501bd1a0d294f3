// SPDX-License-Identifier: Apache-2.0
/*
 * Advice: hints of owners about their blocks go to the policy, and priorities are remembered, so
 * that no more than a part of the pool is protected by them.
 *
 * Pins count, too: pinned blocks are protected better than any. The more are pinned, the fewer a
 * priority may protect.
 */

#include "internal.h"

static bool value_is_bad(u32 what, u64 value)
{
	return (what == KVMM_ADVISE_PRIORITY && value > KV_MAX_PRIORITY) ||
	       (what == KVMM_ADVISE_COST && !value);
}

static const enum kv_evict_advice advice_of[] = {
	[KVMM_ADVISE_PRIORITY]	= KV_ADVISE_PRIORITY,
	[KVMM_ADVISE_TTL]	= KV_ADVISE_TTL,
	[KVMM_ADVISE_COST]	= KV_ADVISE_COST,
};

static int advise(struct kvmm_pool *pool, u32 index, u32 what, u64 value)
{
	const struct kv_evict_ops *ops = pool->order.ops;
	void *policy = order_policy(&pool->order, index);

	kv_assert_held(&pool->order.lock);
	order_history(&pool->order, HISTORY_ADVISED + what, index, value);
	order_changed(&pool->order);
	if (what != KVMM_ADVISE_NEXT_USE)
		return ops->advise ? ops->advise(policy, index, advice_of[what], value) :
				     -EOPNOTSUPP;
	if (!ops->hint)
		return -EOPNOTSUPP;
	ops->hint(policy, index, value);
	return 0;
}

/* ---- the limit ---- */

/* As any other. It waits where it would if it had been put back now. */
static void unprotect(struct kvmm_pool *pool, u32 index)
{
	struct order *order = &pool->order;
	kvmm_key_t key = kv_entry_key(entry_at(pool, index));
	void *policy = order_policy(order, index);
	bool has = order_has(order, index);

	kv_assert(index < pool->entries.nr);
	if (has)
		order->ops->leave(policy, index);
	advise(pool, index, KVMM_ADVISE_PRIORITY, KV_NO_PRIORITY);
	if (has) {
		order->ops->enter(policy, index, &key);
		quota_entered(order->quotas, index);
	}
	protect_forget(order->classes, index);
}

static void limit_protected(struct kvmm_pool *pool)
{
	struct classes *classes = pool->order.classes;
	u64 nr_pins = tally_sum(pool, TALLY_PINS);
	u32 max = classes->max_protected - min(nr_pins, (u64)classes->max_protected);

	kv_assert_held(&pool->order.lock);
	if (classes->max_protected == UINT32_MAX)
		return;
	while (classes->nr_protected > max)
		unprotect(pool, protect_oldest(classes));
}

/* ---- calls ---- */

/* A policy knows a kind of advice for all blocks or for none: only the first can be refused. */
static int advise_all(struct kvmm_pool *pool, const struct kv_handle *handles, u32 what,
		      const u64 *values, u32 nr)
{
	int err = 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr && !err; i++)
		err = entry_check(pool, handles[i], KV_ENTRY_REGISTERED, true);
	for (u32 i = 0; i < nr && !err; i++) {
		if (pool->order.classes)	/* else it would be filled anew */
			order_apply(&pool->order, NOTE_FILL, handles[i]);
		err = advise(pool, handles[i].index, what, values[i]);
		if (!err && what == KVMM_ADVISE_PRIORITY && pool->order.classes)
			protect_set(pool->order.classes, handles[i].index, values[i]);
	}
	if (!err && pool->order.classes)
		limit_protected(pool);
	return err;
}

int kvmm_advise_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t what,
		     const uint64_t *values, uint32_t nr)
{
	int err;

	if ((nr && (!refs || !values)) || what >= KVMM_NR_ADVICES)
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (value_is_bad(what, values[i]))
			return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	err = advise_all(pool, as_handles(refs), what, values, nr);
	order_leave(&pool->order);
	cache_leave(pool);
	return err;
}

int kv_nr_protected(struct kvmm_pool *pool)
{
	int ret = cache_enter(pool);

	if (ret)
		return ret;
	ret = -EOPNOTSUPP;
	if (pool->order.classes && pool->order.classes->max_protected != UINT32_MAX) {
		order_enter(&pool->order);
		ret = pool->order.classes->nr_protected;
		order_leave(&pool->order);
	}
	pool_leave(pool);
	return ret;
}
