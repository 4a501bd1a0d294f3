/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of tenants: which account pays for a block, and which one gives up a block for another.
 *
 * An *account* is a tenant that limits were given to; the first one is of all others together. Each
 * has an order of eviction of its own, an instance of the policy (with classes: one a class), so
 * the next victim of a given tenant is found as the next one of a pool is, and no tenant can see in
 * its order what another one does. Between tenants that are equally entitled age decides: the block
 * that came into its order first goes. With "lru" that is the order of the pool as a whole.
 *
 * Invariants, recomputed by accounts_check():
 *
 *  1. ->usage of an account is the number of entries with a block whose ->of is that account, plus
 *     the blocks of ranges with that ->account. All of them together are what the pool has handed
 *     out. Victims that a reserved gang has claimed are charged to the account that gets them
 *     (->nr_due of entries, or by its range), not to the one that had them (->nr_claimed): that one
 *     can neither use nor evict them. Arenas have credit besides, until it is recalled: see
 *     percpu/credit.c.
 *  2. ->of of an entry without a block is 0. Marks stand on claimed entries only, and ->nr_picked
 *     is their number; 0 between calls.
 *  3. An entry is in the order of its account and class, or in none.
 *  4. Where tenants have limits ->next is unknown, or the victim that ->pick of that instance would
 *     return.
 *  5. A tenant has one account at most, and find_account() finds it.
 *
 * Locks: limits, usage and events are pool->lock's. The account of an entry, and the orders, are
 * order.lock's, too: they are written with both, so either will do for reading. Accounts come and
 * go with compact_lock and both of these held.
 */
#ifndef ORDER_ACCOUNT_H
#define ORDER_ACCOUNT_H

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/types.h>
#include <kvmm/ext/evict.h>

struct order;

/* ---- accounts ---- */

/* The account that pays for an entry, in 16 bits, and why the entry was claimed, if it is. */
#define QUOTA_ACCOUNT	0x3ffu
#define QUOTA_PICKED	BIT(15)
#define QUOTA_LOW	BIT(14)	/* although it was protected by ->low */
#define QUOTA_OWN	BIT(13)	/* for its tenant's own limits */

#define MAX_ACCOUNTS	(KVMM_MAX_TENANTS + 1)

static_assert(MAX_ACCOUNTS == QUOTA_ACCOUNT + 1, "an account fits its bits");

/* Accounts by tenant: open addressing, at most half full. */
#define QUOTA_SLOT_BITS		11u
#define QUOTA_SLOTS		BIT(QUOTA_SLOT_BITS)

static_assert(QUOTA_SLOTS == 2 * MAX_ACCOUNTS, "at most half full");

/* Limits that an allocation would have exceeded. Counted when it has succeeded, or for that. */
#define BEYOND_HIGH		BIT(0)
#define BEYOND_MAX		BIT(1)

/* The account of tenants without one. */
#define QUOTA_REST	0u

struct account {
	void *policy[KVMM_MAX_CLASSES];	/* ours; by class; the content: order.lock */
	u32 next[KVMM_MAX_CLASSES];	/* order.lock; the next victim, or KV_NONE: unknown */
	u32 id;				/* fixed at creation */
	u32 tenant;			/* fixed at creation */
	u32 usage;			/* ->lock */
	u32 peak;			/* ->lock; as of the last allocation, see ->nr_credits */
	u32 nr_credits;			/* ->lock; of arenas, in ->usage and not in ->peak yet */
	u32 nr_picked;			/* both locks; claimed and not yet forgotten */
	u32 nr_claimed;			/* ->lock; of its entries, by gangs that are reserved */
	u32 nr_due;			/* ->lock; its part of the claimed, as entries */
	u32 nr_hits;			/* both locks; scratch of quota_check_fit(), else 0 */
	u32 beyond;			/* ->lock; of the allocation under way: BEYOND_* */
	struct kvmm_tenant_attr limit;	/* ->lock */
	u64 nr_low;			/* ->lock, as those below */
	u64 nr_high;
	u64 nr_max;
	u64 nr_oom;
	u64 nr_reclaimed;
	u64 nr_evicted;
};

/* The blocks that may be picked. */
enum quota_mode {
	QUOTA_ANY,	/* everything goes; always so where no tenant has limits */
	QUOTA_FOR_ONE,	/* room for one account, or for no tenant in particular */
	QUOTA_OF_ONE,	/* only blocks of one account, also protected ones */
};

#define QUOTA_NONE	UINT32_MAX

/* One instance of the policy that has blocks, and its worth; see turn.c. */
struct turn {
	struct account *account;
	u32 class;
	u32 rank;		/* KV_NONE: there is none */
	bool has_rival;		/* another one of that rank */
	u32 rival;		/* when the next of the rivals came into the order */
};

struct quotas {
	u32 nr_blocks;			/* fixed at creation */
	u32 nr;				/* accounts */
	u64 limits;			/* sum of tenants and limits: a recount finds a flip */
	u16 live[MAX_ACCOUNTS];		/* the first ->nr: all accounts, in no order */
	struct account *account[MAX_ACCOUNTS];	/* ours but for the order's; NULL: there is none */
	u16 slot[QUOTA_SLOTS];		/* by hash of tenant: account, or QUOTA_REST */
	u16 *of;			/* ours; by entry; NULL without a policy */
	u32 *entered;			/* ours; by entry: ->clock when it came into the order */
	u32 clock;			/* both locks */
};

/* All but how many may be evicted, which the order knows, and the size. */
static inline struct kvmm_tenant_stat account_stat_of(const struct account *account)
{
	return (struct kvmm_tenant_stat){
		.tenant = account->tenant, .min = account->limit.min, .low = account->limit.low,
		.high = account->limit.high, .max = account->limit.max, .usage = account->usage,
		.peak = account->peak, .nr_low = account->nr_low, .nr_high = account->nr_high,
		.nr_max = account->nr_max, .nr_oom = account->nr_oom,
		.nr_reclaimed = account->nr_reclaimed, .nr_evicted = account->nr_evicted,
	};
}

static inline u32 quota_of(const struct quotas *quotas, u32 index)
{
	return quotas->of[index] & QUOTA_ACCOUNT;
}

/* ---- turn.c: the order of eviction, for order.c ---- */

/* Out of the order to be evicted, perhaps only to be looked at; and back. */
void quota_picked(struct order *order, u32 index);
void quota_unpicked(struct quotas *quotas, u32 index);

/* May it go to make room for the account that asks? Both locks held. */
bool quota_spares(struct order *order, u32 index);

static inline void quota_entered(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		quotas->entered[index] = quotas->clock++;
}

/* ---- account.c: accounts ---- */

/* Nothing is done with NULL. Fixed at creation: the fields they need of @order. */
struct quotas *quotas_make(struct order *order, u32 nr_blocks);
void quotas_free(const struct order *order, struct quotas *quotas);
u64 quotas_bytes(const struct quotas *quotas);

/* Without policies; not in use yet. */
void account_init(struct account *account, u32 tenant);
/* NULL: no memory. */
struct account *account_make(const struct order *order, u32 tenant);
void account_free(const struct order *order, struct account *account);
/* Its policies. */
void account_exit(const struct order *order, struct account *account);
u64 account_bytes(const struct order *order);

/* compact_lock and both locks held. There is a place; takes @account. */
void account_add(struct quotas *quotas, struct account *account);
/* Nothing is charged to it. Returns the account to be freed. */
struct account *account_del(struct quotas *quotas, u32 i);
/* ->lock held. */
void account_set(struct quotas *quotas, u32 i, const struct kvmm_tenant_attr *limit);

static inline bool has_account(const struct quotas *quotas, u32 i)
{
	return i < MAX_ACCOUNTS && quotas->account[i];
}

/* Accounts come and go: one of the three locks held, or the one that is found may be gone. */
u32 find_account(const struct quotas *quotas, u32 tenant);

/*
 * 0 or -EUCLEAN. @usage: blocks of ranges by account; those of entries are added. @nr_claimed and
 * @nr_due: by gangs, in all. Both locks held.
 */
int accounts_check(const struct order *order, u32 *usage, u32 nr_claimed, u32 nr_due);

/* ---- account.c: charges ---- */

/* Its arenas may have taken all that they have credit for, at a time when it had all of this. */
static inline void account_loses(struct account *account)
{
	if (unlikely(account->nr_credits))
		account->peak = max(account->peak, account->usage - account->nr_picked);
}

void __quota_uncharge_entry(struct quotas *quotas, u32 index);

/* It loses its block, or its content. Both locks held. */
static inline void quota_uncharge_entry(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		__quota_uncharge_entry(quotas, index);
}

/* A range got @nr blocks, or, if that is negative, lost some. ->lock held. */
static inline void quota_charge_range(struct quotas *quotas, u32 account, s64 nr)
{
	kv_assert(account < MAX_ACCOUNTS);
	if (likely(!quotas))
		return;
	if (nr < 0)
		account_loses(quotas->account[account]);
	quotas->account[account]->usage += (u32)nr;
}

void __quota_took(struct quotas *quotas, u32 account);

/* An allocation is complete. ->lock held. */
static inline void quota_took(struct quotas *quotas, u32 account)
{
	if (unlikely(quotas != NULL))
		__quota_took(quotas, account);
}

/* A victim waits, claimed by a gang: no account's turn, and charged to none. Both locks held. */
void quota_lend(struct quotas *quotas, u32 index);
/* It goes now, or goes back. Both locks held. */
void quota_unlend(struct order *order, u32 index);
/* @nr waiting victims will be entries of @account, or, if negative, will not. ->lock held. */
void quota_due(struct quotas *quotas, u32 account, s64 nr);
/*
 * An arena has @nr blocks more of credit, which is @fresh or not. Or its credit goes: @least were
 * left at least, @left are now. ->lock held.
 */
void quota_credit(struct quotas *quotas, u32 account, u32 nr, bool fresh);
void quota_credit_end(struct quotas *quotas, u32 account, u32 least, u32 left);
/* The second half of one that was counted when it began. ->lock held. */
void quota_peak(struct quotas *quotas, u32 account);

#endif /* ORDER_ACCOUNT_H */
