// SPDX-License-Identifier: Apache-2.0
/*
 * Calls about tenants.
 *
 * A call that adds or deletes accounts holds compact_lock from before it has looked to after it has
 * done, so memory is allocated without the locks of the pool. The first call of all closes the
 * gate: from then on no thread takes or frees blocks without those.
 */
#include <pool/local.h>

/* ---- setting ---- */

/* Memory that a call brings along, so that nothing can fail once it has begun. */
struct setting {
	const u32 *tenants;
	const struct kvmm_tenant_attr *attrs;
	u32 nr;
	struct quotas *quotas;		/* ours until they are the pool's; NULL: it has some */
	struct account *account[MAX_ACCOUNTS];	/* ours until they are the pool's */
	u32 nr_accounts;
};

static int bring_account(const struct kvmm_pool *pool, struct setting *set, u32 tenant)
{
	const struct quotas *quotas = pool->order.quotas;
	u32 nr = quotas ? quotas->nr : 1;

	if (tenant == KVMM_TENANT_REST || (quotas && find_account(quotas, tenant) != QUOTA_REST))
		return 0;
	for (u32 i = 0; i < set->nr_accounts; i++)
		if (set->account[i]->tenant == tenant)
			return 0;
	if (nr + set->nr_accounts == MAX_ACCOUNTS)
		return -EUSERS;
	set->account[set->nr_accounts] = account_make(&pool->order, tenant);
	return set->account[set->nr_accounts++] ? 0 : -ENOMEM;
}

static int bring(struct kvmm_pool *pool, struct setting *set)
{
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	if (!pool->order.quotas) {
		set->quotas = quotas_make(&pool->order, pool->nr_blocks);
		err = set->quotas ? 0 : -ENOMEM;
	}
	for (u32 i = 0; i < set->nr && !err; i++)
		err = bring_account(pool, set, set->tenants[i]);
	return err;
}

/* The world has stopped: blocks handed out so far are counted, all of them as the rest's. */
static void begin_quotas(struct kvmm_pool *pool, struct setting *set)
{
	struct account *rest = set->quotas->account[QUOTA_REST];

	kv_assert_held(&pool->lock);
	mags_off(pool);		/* takes from there are not seen */
	arenas_rest(pool);
	rest->nr_claimed = pool->claims.nr;
	rest->nr_due = pool->claims.nr_due;
	rest->usage = pool_counts(pool).range_blocks + pool->count.nr_held + pool->claims.nr_lent +
		      rest->nr_due - rest->nr_claimed;
	rest->peak = rest->usage;
	pool->metadata_bytes += quotas_bytes(set->quotas);
	/* Pairs with kv_pool_glance_tenants(): the struct behind the pointer is complete. */
	smp_store_release(&pool->order.quotas, set->quotas);
	set->quotas = NULL;
	quota_end(&pool->order);
}

/* All locks held. */
static void apply(struct kvmm_pool *pool, struct setting *set)
{
	struct quotas *quotas = pool->order.quotas;

	kv_assert_held(&pool->lock);
	credits_recall(pool);	/* the rest's may be of a tenant that gets an account */
	pool->metadata_bytes += set->nr_accounts * account_bytes(&pool->order);
	while (set->nr_accounts)
		account_add(quotas, set->account[--set->nr_accounts]);
	for (u32 i = 0; i < set->nr; i++)
		account_set(quotas, find_account(quotas, set->tenants[i]), &set->attrs[i]);
	for (u32 i = 0; i < set->nr && pool->caches; i++) {
		u32 id = find_account(quotas, set->tenants[i]);
		const struct account *account = quotas->account[id];
		u32 limit = min(account->limit.high, account->limit.max);

		if (account->usage > limit)
			quota_reclaim(pool, id, account->usage - limit);
	}
}

static void order_enter_any(struct kvmm_pool *pool)
{
	if (pool->caches)
		order_enter(&pool->order);
}

static void order_leave_any(struct kvmm_pool *pool)
{
	if (pool->caches)
		order_leave(&pool->order);
}

/* The first call of all closes the gate meanwhile. */
static int set_all(struct kvmm_pool *pool, struct setting *set)
{
	bool first = set->quotas != NULL;
	int err = pool_enter(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	if (first) {
		pool_stop(pool);
		kv_lock(&pool->lock);
	}
	order_enter_any(pool);
	if (first)
		begin_quotas(pool, set);
	apply(pool, set);
	order_leave_any(pool);
	if (first)
		pool_resume(pool);
	pool_leave(pool);
	return 0;
}

/* ---- one account ---- */

/* ->lock, and if there is a policy the order's; or an error. */
static int tenant_enter(struct kvmm_pool *pool, u32 tenant, u32 *account)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	*account = quota_account(pool, tenant);
	if (!pool->order.quotas || (*account == QUOTA_REST && tenant != KVMM_TENANT_REST)) {
		pool_leave(pool);
		return -ENOENT;
	}
	credits_recall(pool);
	order_enter_any(pool);
	return 0;
}

static void tenant_leave(struct kvmm_pool *pool)
{
	order_leave_any(pool);
	cache_leave(pool);
}

/* In *@gone the account to be freed. */
static int del(struct kvmm_pool *pool, u32 tenant, struct account **gone)
{
	u32 i;
	int err = tenant_enter(pool, tenant, &i);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	if (pool->order.quotas->account[i]->usage || pool->order.quotas->account[i]->nr_claimed) {
		err = -EBUSY;
	} else {
		*gone = account_del(pool->order.quotas, i);
		kv_assert(pool->metadata_bytes >= account_bytes(&pool->order));
		pool->metadata_bytes -= account_bytes(&pool->order);
	}
	tenant_leave(pool);
	return err;
}

int kvmm_tenant_set_many(struct kvmm_pool *pool, const uint32_t *tenants,
			 const struct kvmm_tenant_attr *attrs, uint32_t nr)
{
	struct setting set = { .tenants = tenants, .attrs = attrs, .nr = nr };
	struct account *gone = NULL;
	int err;

	if (pool && tenants && !attrs && nr == 1 && *tenants != KVMM_TENANT_REST) {
		kv_lock(&pool->compact_lock);
		err = del(pool, *tenants, &gone);
		if (gone)
			kv_rcu_synchronize();	/* for kv_pool_glance_tenants() */
		account_free(&pool->order, gone);
		kv_unlock(&pool->compact_lock);
		return err;
	}
	if (!pool || !tenants || !attrs || !nr)
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (attrs[i].size != sizeof(attrs[i]))
			return -EINVAL;
	if (pool->caches && pool->parts.evict->keeps_unnamed)
		return -EOPNOTSUPP;
	kv_lock(&pool->compact_lock);
	err = bring(pool, &set);
	if (!err)
		err = set_all(pool, &set);
	for (u32 i = 0; i < set.nr_accounts; i++)
		account_free(&pool->order, set.account[i]);
	quotas_free(&pool->order, set.quotas);
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return err;
}

/* ---- statistics ---- */

int kvmm_tenant_get_stat_of(struct kvmm_pool *pool, uint32_t tenant, uint32_t *cursor,
			    struct kvmm_tenant_stat *stat)
{
	struct kvmm_tenant_stat now;
	u32 i;
	int err;

	if (!stat || kv_size_is_bad(stat, stat->size))
		return -EINVAL;
	err = tenant_enter(pool, cursor ? KVMM_TENANT_REST : tenant, &i);
	if (err)
		return err;
	for (i = cursor ? *cursor : i; cursor && i < MAX_ACCOUNTS; i++)
		if (pool->order.quotas->account[i])
			break;
	if (i < MAX_ACCOUNTS) {
		if (cursor)
			*cursor = i + 1;
		now = account_stat_of(pool->order.quotas->account[i]);
		now.nr_inactive = account_nr_inactive(&pool->order, pool->order.quotas->account[i]);
		now.size = stat->size;
		kv_give(stat, now.size, &now, sizeof(now));
	} else {
		err = -ENOENT;
	}
	tenant_leave(pool);
	return err;
}
