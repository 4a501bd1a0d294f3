// SPDX-License-Identifier: Apache-2.0
/* Accounts of tenants: finding them, their charges, and whether these are right. */
#include <kv/err.h>
#include <kv/mem.h>

#include "order.h"

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

void account_exit(const struct order *order, struct account *account)
{
	for (u32 class = 0; class < KVMM_MAX_CLASSES; class++) {
		if (account->policy[class] && order->ops->exit)
			order->ops->exit(account->policy[class]);
		kv_free(account->policy[class]);
	}
}

void account_free(const struct order *order, struct account *account)
{
	if (account)
		account_exit(order, account);
	kv_free(account);
}

void account_init(struct account *account, u32 tenant)
{
	account->tenant = tenant;
	account->limit = (struct kvmm_tenant_attr)KVMM_TENANT_ATTR_INIT;
	for (u32 class = 0; class < KVMM_MAX_CLASSES; class++)
		account->next[class] = KV_NONE;
}

int order_make_policy(const struct order *order, void **policy)
{
	const struct kv_evict_ops *ops = order->ops;
	u32 nr = order->entries->nr;

	*policy = kv_alloc_lines(1, ops->bytes(nr));
	if (!*policy)
		return -ENOMEM;
	ops->init(*policy, nr);
	if (ops->setup)
		return ops->setup(*policy, order->args);
	return order->args ? -EINVAL : 0;
}

struct account *account_make(const struct order *order, u32 tenant)
{
	struct account *account = kv_alloc(sizeof(*account));
	int err = 0;

	if (!account)
		return NULL;
	account_init(account, tenant);
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
	/* That of the rest is fixed: threads that evict read it while the pool gets its limits. */
	if (i != QUOTA_REST)
		account->id = i;
	/* Pairs with kv_pool_glance_tenants(): the account behind the pointer is complete. */
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
	for (u32 k = 0; k < quotas->nr; k++)
		if (quotas->live[k] != QUOTA_REST)
			quotas->slot[find_slot(quotas, quotas->account[quotas->live[k]]->tenant)] =
				quotas->live[k];
	return account;
}

/* ---- all of them ---- */

void quotas_free(const struct order *order, struct quotas *quotas)
{
	if (!quotas)
		return;
	for (u32 i = QUOTA_REST + 1; i < MAX_ACCOUNTS; i++)
		account_free(order, quotas->account[i]);
	kv_free(quotas->entered);
	kv_free(quotas->of);
	kv_free(quotas);
}

/* Everything that was handed out before is the rest's. */
struct quotas *quotas_make(struct order *order, u32 nr_blocks)
{
	struct quotas *quotas = kv_alloc(sizeof(*quotas));

	if (!quotas)
		return NULL;
	quotas->nr_blocks = nr_blocks;
	quotas->clock = 1;
	account_add(quotas, &order->rest);
	if (!order->nr_policies)
		return quotas;
	quotas->of = kv_alloc_array(quotas->nr_blocks, sizeof(*quotas->of));
	quotas->entered = kv_alloc_array(quotas->nr_blocks, sizeof(*quotas->entered));
	if (quotas->of && quotas->entered)
		return quotas;
	quotas_free(order, quotas);
	return NULL;
}

u64 quotas_bytes(const struct quotas *quotas)
{
	u64 a_block = sizeof(*quotas->of) + sizeof(*quotas->entered);

	return sizeof(*quotas) + (quotas->of ? quotas->nr_blocks * a_block : 0);
}

/* ---- charges ---- */

void __quota_charge_entry(struct order *order, u32 index)
{
	u32 i = order->asking == QUOTA_NONE ? QUOTA_REST : order->asking;

	kv_assert(index < order->quotas->nr_blocks);
	order->quotas->of[index] = i;
	order->quotas->account[i]->usage++;
}

void __quota_uncharge_entry(struct quotas *quotas, u32 index)
{
	struct account *account = quotas->account[quota_of(quotas, index)];
	u32 mark = quotas->of[index];

	kv_assert(index < quotas->nr_blocks);
	kv_assert(account->usage);
	account_loses(account);
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
	quota_unpicked(quotas, index);
	account->nr_claimed++;
	account->usage--;
}

void quota_unlend(struct order *order, u32 index)
{
	struct account *account = account_of(order, index);

	if (likely(!order->quotas))
		return;
	kv_assert(account->nr_claimed);
	account->nr_claimed--;
	account->usage++;
	quota_picked(order, index);
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

void quota_credit(struct quotas *quotas, u32 i, u32 nr, bool fresh)
{
	kv_assert(i < MAX_ACCOUNTS);
	quotas->account[i]->nr_credits += fresh;
	quotas->account[i]->usage += nr;
}

void quota_credit_end(struct quotas *quotas, u32 i, u32 least, u32 left)
{
	struct account *account = quotas->account[i];

	kv_assert(i < MAX_ACCOUNTS && account->nr_credits);
	kv_assert(least <= left && left <= account->usage);
	account->peak = max(account->peak, account->usage - least);
	account->usage -= left;
	account->nr_credits--;
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

/* @nr_claimed: of each account, by gangs, or on their way out. */
static int recount_entries(const struct order *order, u32 *usage, u32 *nr_claimed)
{
	const struct quotas *quotas = order->quotas;

	for (u32 i = 0; i < order->entries->nr; i++) {
		enum kv_entry_state state = kv_word_state(order->entries->entry[i].word);
		bool has_block = state != KV_ENTRY_FREE && state != KV_ENTRY_RETIRED;

		if (quotas->of[i] & ~QUOTA_ACCOUNT || !has_account(quotas, quotas->of[i]))
			return -EUCLEAN;
		if (!has_block && quotas->of[i])
			return -EUCLEAN;
		usage[quotas->of[i]] += has_block;
		nr_claimed[quotas->of[i]] += state == KV_ENTRY_EVICTING;
	}
	return 0;
}

static int check_account(const struct quotas *quotas, u32 i, u32 usage, u32 nr_claimed)
{
	const struct account *account = quotas->account[i];

	if (account->usage + account->nr_claimed - account->nr_due != usage ||
	    account->nr_claimed > nr_claimed)
		return -EUCLEAN;
	if (account->peak < account->usage || account->nr_picked || account->nr_hits ||
	    account->nr_credits)
		return -EUCLEAN;
	if (account->nr_evicted < account->nr_low || account->nr_evicted < account->nr_reclaimed ||
	    account->nr_max < account->nr_oom)
		return -EUCLEAN;
	return account->id == i && (i == QUOTA_REST) == (account->tenant == KVMM_TENANT_REST) &&
	       find_account(quotas, account->tenant) == i ? 0 : -EUCLEAN;
}

/* As many slots are in use as there are accounts, so each stands in one. */
static int check_table(const struct quotas *quotas)
{
	u32 nr_slots = 0, nr_accounts = 0;

	if (!quotas->nr || quotas->nr > MAX_ACCOUNTS || !quotas->account[QUOTA_REST])
		return -EUCLEAN;
	for (u32 at = 0; at < QUOTA_SLOTS; at++) {
		if (!has_account(quotas, quotas->slot[at]))
			return -EUCLEAN;
		nr_slots += quotas->slot[at] != QUOTA_REST;
	}
	for (u32 i = 0; i < MAX_ACCOUNTS; i++)
		nr_accounts += quotas->account[i] != NULL;
	return nr_slots == quotas->nr - 1 && nr_accounts == quotas->nr ? 0 : -EUCLEAN;
}

int accounts_check(const struct order *order, u32 *usage, u32 nr_claimed, u32 nr_due)
{
	const struct quotas *quotas = order->quotas;
	u32 nr_going[MAX_ACCOUNTS] = { 0 };
	u64 limits = 0;

	if (order->asking != QUOTA_NONE || order->mode != QUOTA_FOR_ONE || check_table(quotas))
		return -EUCLEAN;
	if (quotas->of && recount_entries(order, usage, nr_going))
		return -EUCLEAN;
	for (u32 at = 0; at < quotas->nr; at++) {
		u32 i = quotas->live[at];

		if (!has_account(quotas, i) || check_account(quotas, i, usage[i], nr_going[i]))
			return -EUCLEAN;
		limits += limits_of(quotas->account[i]);
		nr_claimed -= quotas->account[i]->nr_claimed;
		nr_due -= quotas->account[i]->nr_due;
	}
	return limits == quotas->limits && !nr_claimed && !nr_due ? 0 : -EUCLEAN;
}
