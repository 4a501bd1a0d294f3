// SPDX-License-Identifier: Apache-2.0
/* Accounts of tenants: finding them, their charges, and whether these are right. */
#include <kv/mem.h>

#include "quota_call.h"

/* ---- by tenant ---- */

/* Where it stands, or where it would have to. */
static u32 find_slot(const struct quotas *quotas, u32 tenant)
{
	u32 at = tenant * 0x9e3779b1u >> (32 - QUOTA_SLOT_BITS);

	while (quotas->slot[at] != QUOTA_REST &&
	       quotas->account[quotas->slot[at]]->tenant != tenant)
		at = (at + 1) & (QUOTA_SLOTS - 1);
	return at;
}

u32 find_account(const struct quotas *quotas, u32 tenant)
{
	return quotas->slot[find_slot(quotas, tenant)];
}

/* ---- accounts ---- */

void account_free(const struct order *order, struct account *account)
{
	u32 nr = account && account->tenant != KVMM_TENANT_REST ? order->nr_policies : 0;

	for (u32 class = 0; class < nr; class++) {
		if (account->policy[class] && order->ops->exit)
			order->ops->exit(account->policy[class]);
		kv_free(account->policy[class]);
	}
	kv_free(account);
}

struct account *account_make(const struct order *order, u32 tenant)
{
	struct account *account = kv_alloc(sizeof(*account));
	int err = 0;

	if (!account)
		return NULL;
	account->tenant = tenant;
	account->limit = (struct kvmm_tenant_attr)KVMM_TENANT_ATTR_INIT;
	for (u32 class = 0; class < KVMM_MAX_CLASSES; class++)
		account->next[class] = KV_NONE;
	if (tenant == KVMM_TENANT_REST) {
		memcpy(account->policy, order->policies, sizeof(account->policy));
		return account;
	}
	for (u32 class = 0; class < order->nr_policies && !err; class++)
		err = order_make_policy(order, &account->policy[class]);
	if (!err)
		return account;
	account_free(order, account);
	return NULL;
}

u64 account_bytes(const struct order *order)
{
	return sizeof(struct account) + order->nr_policies * order_policy_bytes(order);
}

static u64 limits_of(const struct account *account)
{
	const struct kvmm_tenant_attr *limit = &account->limit;

	return limit->min + 3ull * limit->low + 5ull * limit->high + 7ull * limit->max +
	       11ull * account->tenant;
}

void account_set(struct quotas *quotas, u32 i, const struct kvmm_tenant_attr *limit)
{
	kv_assert(i < MAX_ACCOUNTS);
	quotas->limits -= limits_of(quotas->account[i]);
	quotas->account[i]->limit = *limit;
	quotas->limits += limits_of(quotas->account[i]);
}

void account_add(struct quotas *quotas, struct account *account)
{
	u32 i = 0;

	while (quotas->account[i])
		i++;
	/* Pairs with glance_tenants(): the account behind the pointer is complete. */
	smp_store_release(&quotas->account[i], account);
	quotas->live[quotas->nr++] = i;
	quotas->limits += limits_of(account);
	if (i != QUOTA_REST)
		quotas->slot[find_slot(quotas, account->tenant)] = i;
}

struct account *account_del(struct quotas *quotas, u32 i)
{
	struct account *account = quotas->account[i];
	u32 at = 0;

	kv_assert(i < MAX_ACCOUNTS);
	while (quotas->live[at] != i)
		at++;
	quotas->live[at] = quotas->live[--quotas->nr];
	WRITE_ONCE(quotas->account[i], NULL);
	quotas->limits -= limits_of(account);
	memset(quotas->slot, 0, sizeof(quotas->slot));
	for_each_account(quotas, k, other)
		if (other != QUOTA_REST)
			quotas->slot[find_slot(quotas, quotas->account[other]->tenant)] = other;
	return account;
}

/* ---- all of them ---- */

void quotas_free(const struct order *order, struct quotas *quotas)
{
	if (!quotas)
		return;
	for_each_account(quotas, at, i)
		account_free(order, quotas->account[i]);
	kv_free(quotas->entered);
	kv_free(quotas->of);
	kv_free(quotas);
}

/* Everything that was handed out before is the rest's. */
struct quotas *quotas_make(const struct kvmm_pool *pool)
{
	struct quotas *quotas = kv_alloc(sizeof(*quotas));
	struct account *rest = account_make(&pool->order, KVMM_TENANT_REST);

	if (quotas && rest) {
		quotas->nr_blocks = pool->nr_blocks;
		quotas->who = QUOTA_NOBODY;
		quotas->clock = 1;
		account_add(quotas, rest);
		rest = NULL;
		if (!pool->caches)
			return quotas;
		quotas->of = kv_alloc_array(quotas->nr_blocks, sizeof(*quotas->of));
		quotas->entered = kv_alloc_array(quotas->nr_blocks, sizeof(*quotas->entered));
		if (quotas->of && quotas->entered)
			return quotas;
	}
	kv_free(rest);
	quotas_free(&pool->order, quotas);
	return NULL;
}

u64 quotas_bytes(const struct quotas *quotas)
{
	u64 a_block = sizeof(*quotas->of) + sizeof(*quotas->entered);

	return sizeof(*quotas) + sizeof(struct account) +
	       (quotas->of ? quotas->nr_blocks * a_block : 0);
}

static void quotas_exit(struct kvmm_pool *pool)
{
	quotas_free(&pool->order, pool->order.quotas);
}

/* ---- charges ---- */

void __quota_charge_entry(struct quotas *quotas, u32 index)
{
	u32 i = quotas->who == QUOTA_NOBODY ? QUOTA_REST : quotas->who;

	kv_assert(index < quotas->nr_blocks);
	quotas->of[index] = i;
	quotas->account[i]->usage++;
}

void __quota_uncharge_entry(struct quotas *quotas, u32 index)
{
	struct account *account = quotas->account[quota_of(quotas, index)];
	u32 mark = quotas->of[index];

	kv_assert(index < quotas->nr_blocks);
	kv_assert(account->usage);
	account->usage--;
	if (mark & QUOTA_PICKED) {
		kv_assert(account->nr_picked);
		account->nr_picked--;
		account->nr_evicted++;
		account->nr_low += !!(mark & QUOTA_LOW);
		account->nr_reclaimed += !!(mark & QUOTA_OWN);
	}
	quotas->of[index] = 0;
}

void quota_lend(struct quotas *quotas, u32 index)
{
	struct account *account;

	if (likely(!quotas))
		return;
	account = quotas->account[quota_of(quotas, index)];
	kv_assert(account->usage);
	__quota_unpicked(quotas, index);
	account->nr_claimed++;
	account->usage--;
}

void quota_unlend(struct quotas *quotas, u32 index)
{
	struct account *account;

	if (likely(!quotas))
		return;
	account = quotas->account[quota_of(quotas, index)];
	kv_assert(account->nr_claimed);
	account->nr_claimed--;
	account->usage++;
	__quota_picked(quotas, index);
}

void quota_due(struct quotas *quotas, u32 i, s64 nr)
{
	kv_assert(i < MAX_ACCOUNTS);
	if (likely(!quotas))
		return;
	quotas->account[i]->nr_due += (u32)nr;
	quotas->account[i]->usage += (u32)nr;
}

void quota_peak(struct quotas *quotas, u32 i)
{
	kv_assert(i < MAX_ACCOUNTS);
	if (unlikely(quotas != NULL))
		quotas->account[i]->peak = max(quotas->account[i]->peak,
					       quotas->account[i]->usage);
}

void __quota_took(struct quotas *quotas, u32 i)
{
	struct account *account = quotas->account[i];

	kv_assert(i < MAX_ACCOUNTS);
	account->nr_high += !!(account->beyond & BEYOND_HIGH);
	account->nr_max += !!(account->beyond & BEYOND_MAX);
	/* Blocks of its own that a range got are charged until the victims are forgotten. */
	account->peak = max(account->peak, account->usage - account->nr_picked);
}

/* ---- check ---- */

/* Sums of charges, by account. */
struct recount {
	u32 usage[MAX_ACCOUNTS];
	u32 nr_claimed[MAX_ACCOUNTS];	/* of them: by gangs, or on their way out */
};

static bool has_account(const struct quotas *quotas, u32 i)
{
	return i < MAX_ACCOUNTS && quotas->account[i];
}

static int recount_entries(const struct kvmm_pool *pool, const struct quotas *quotas,
			   struct recount *re)
{
	for (u32 i = 0; i < quotas->nr_blocks; i++) {
		enum kv_entry_state state = kv_word_state(entry_at(pool, i)->word);
		bool has_block = state != KV_ENTRY_FREE && state != KV_ENTRY_RETIRED;

		if (quotas->of[i] & ~QUOTA_ACCOUNT || !has_account(quotas, quotas->of[i]))
			return -EUCLEAN;
		if (!has_block && quotas->of[i])
			return -EUCLEAN;
		re->usage[quotas->of[i]] += has_block;
		re->nr_claimed[quotas->of[i]] += state == KV_ENTRY_EVICTING;
	}
	return 0;
}

static int check_account(const struct quotas *quotas, u32 i, const struct recount *re)
{
	const struct account *account;

	if (!has_account(quotas, i))
		return -EUCLEAN;
	account = quotas->account[i];
	if (account->usage + account->nr_claimed - account->nr_due != re->usage[i] ||
	    account->nr_claimed > re->nr_claimed[i])
		return -EUCLEAN;
	if (account->peak < account->usage || account->nr_picked || account->nr_hits)
		return -EUCLEAN;
	if (account->nr_evicted < account->nr_low || account->nr_evicted < account->nr_reclaimed ||
	    account->nr_max < account->nr_oom)
		return -EUCLEAN;
	return (i == QUOTA_REST) == (account->tenant == KVMM_TENANT_REST) &&
	       find_account(quotas, account->tenant) == i ? 0 : -EUCLEAN;
}

/* As many slots are in use as there are accounts, so each stands in one. */
static int check_table(const struct kvmm_pool *pool, const struct recount *re)
{
	const struct quotas *quotas = pool->order.quotas;
	u32 nr_slots = 0, nr_accounts = 0, nr_claimed = 0, nr_due = 0;
	u64 limits = 0;

	if (!quotas->nr || quotas->nr > MAX_ACCOUNTS || !quotas->account[QUOTA_REST])
		return -EUCLEAN;
	for (u32 at = 0; at < QUOTA_SLOTS; at++) {
		if (!has_account(quotas, quotas->slot[at]))
			return -EUCLEAN;
		nr_slots += quotas->slot[at] != QUOTA_REST;
	}
	for (u32 i = 0; i < MAX_ACCOUNTS; i++)
		nr_accounts += quotas->account[i] != NULL;
	if (nr_slots != quotas->nr - 1 || nr_accounts != quotas->nr)
		return -EUCLEAN;
	for_each_account(quotas, at, i) {
		if (check_account(quotas, i, re))
			return -EUCLEAN;
		limits += limits_of(quotas->account[i]);
		nr_claimed += quotas->account[i]->nr_claimed;
		nr_due += quotas->account[i]->nr_due;
	}
	return limits == quotas->limits && nr_claimed == pool->claims.nr &&
	       nr_due == pool->claims.nr_due ? 0 : -EUCLEAN;
}

static int quotas_check(struct kvmm_pool *pool)
{
	const struct quotas *quotas = pool->order.quotas;
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	struct recount re = { 0 };

	if (!quotas)
		return 0;
	if (quotas->who != QUOTA_NOBODY || quotas->mode != QUOTA_FOR_WHO)
		return -EUCLEAN;
	if (pool->caches && recount_entries(pool, quotas, &re))
		return -EUCLEAN;
	for (u32 i = 0; i < nr_slots; i++) {
		const struct slot *slot = slot_at(pool, i);

		if (!slot->nr_ext)
			continue;
		if (!has_account(quotas, slot->account))
			return -EUCLEAN;
		re.usage[slot->account] += slot->nr;
	}
	return check_table(pool, &re);
}

POOL_PART(quotas) = {
	.name		= "accounts of tenants",
	.exit		= quotas_exit,
	.check_base	= quotas_check,
};
