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
 * Invariants, recomputed by quotas_check():
 *
 *  1. ->usage of an account is the number of entries with a block whose ->of is that account, plus
 *     the blocks of ranges with that ->account. All of them together are what the pool has handed
 *     out. Victims that a reserved gang has claimed are charged to the account that gets them
 *     (->nr_due of entries, or by its range), not to the one that had them (->nr_claimed): that one
 *     can neither use nor evict them.
 *  2. ->of of an entry without a block is 0. Marks stand on claimed entries only, and ->nr_picked
 *     is their number; 0 between calls.
 *  3. An entry is in the order of its account and class, or in none.
 *  4. ->next is unknown, or the victim that ->pick of that instance would return.
 *  5. A tenant has one account at most, and find_account() finds it.
 *
 * Locks: limits, usage and events are pool->lock's. The account of an entry, and the orders, are
 * order.lock's, too: they are written with both, so either will do for reading. Accounts come and
 * go with compact_lock and both of these held.
 */
#ifndef POOL_QUOTA_H
#define POOL_QUOTA_H

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/types.h>
#include <kvmm/ext/evict.h>

struct kv_handle;
struct kvmm_pool;
struct order;
struct slot;
struct alloc_ctx;
struct victims;

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
	u32 tenant;			/* fixed at creation */
	u32 usage;			/* ->lock */
	u32 peak;			/* ->lock */
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
	u32 next[KVMM_MAX_CLASSES];	/* order.lock; the next victim, or KV_NONE: unknown */
	void *policy[KVMM_MAX_CLASSES];	/* ours, but those of QUOTA_REST, which are the order's */
};

/* The blocks that may be picked. */
enum quota_mode {
	QUOTA_FOR_WHO,	/* room for one account, or for no tenant in particular */
	QUOTA_OF_WHO,	/* only blocks of one account, also protected ones */
	QUOTA_ANY,	/* everything goes */
};

#define QUOTA_NOBODY	UINT32_MAX

/* One instance of the policy that has blocks, and its worth; see quota_order.c. */
struct turn {
	u32 account;
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
	struct account *account[MAX_ACCOUNTS];	/* ours; NULL: there is none */
	u16 slot[QUOTA_SLOTS];		/* by hash of tenant: account, or QUOTA_REST */
	u16 *of;			/* ours; by entry; NULL without a policy */
	u32 *entered;			/* ours; by entry: ->clock when it came into the order */

	/* Both locks. */
	u32 clock;
	u32 who;			/* QUOTA_NOBODY between calls */
	enum quota_mode mode;		/* QUOTA_FOR_WHO between calls */
	struct turn turn;		/* of the last victim */
	bool goes_on;			/* ->turn may hold again: nothing but picking since */
};

#define for_each_account(quotas, at, i)						\
	for (u32 at = 0, i = QUOTA_REST;					\
	     at < (quotas)->nr && (i = (quotas)->live[at], true); at++)

static inline u32 quota_of(const struct quotas *quotas, u32 index)
{
	return quotas->of[index] & QUOTA_ACCOUNT;
}

/* ---- quota_order.c: the order of eviction, for order.c ---- */

/* Where the next victim is to be picked, or NULL: there is none. Both locks held. */
void *quota_next(struct order *order);
u32 quota_order_nr_in(const struct order *order, u32 class);
int quota_order_check(const struct order *order);
void quota_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr);
/* Out of the order to be evicted, perhaps only to be looked at; and back. */
void __quota_picked(struct quotas *quotas, u32 index);
void __quota_unpicked(struct quotas *quotas, u32 index);

static inline void quota_picked(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		__quota_picked(quotas, index);
}

static inline void quota_unpicked(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		__quota_unpicked(quotas, index);
}

static inline void quota_entered(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		quotas->entered[index] = quotas->clock++;
}

/* The next victim is to be found anew. */
static inline void quota_restart(struct quotas *quotas)
{
	if (unlikely(quotas != NULL))
		quotas->goes_on = false;
}

static inline bool quota_is_same(const struct quotas *quotas, u32 a, u32 b)
{
	return likely(!quotas) || quota_of(quotas, a) == quota_of(quotas, b);
}

static inline u32 quota_rank(const struct quotas *quotas)
{
	return likely(!quotas) ? 0 : quotas->turn.rank;
}

/* ---- quota.c: accounts ---- */

/* Accounts come and go: one of the three locks held, or the one that is found may be gone. */
u32 find_account(const struct quotas *quotas, u32 tenant);

/* From now on, until quota_end(). Both locks held. */
static inline void quota_begin(struct quotas *quotas, u32 account, enum quota_mode mode)
{
	if (unlikely(quotas != NULL)) {
		quotas->who = account;
		quotas->mode = mode;
	}
}

static inline void quota_end(struct quotas *quotas)
{
	quota_begin(quotas, QUOTA_NOBODY, QUOTA_FOR_WHO);
}

/* ---- quota.c: charges ---- */

void __quota_charge_entry(struct quotas *quotas, u32 index);
void __quota_uncharge_entry(struct quotas *quotas, u32 index);

/* It gets a block, for the tenant that quota_begin() has named. Both locks held. */
static inline void quota_charge_entry(struct quotas *quotas, u32 index)
{
	if (unlikely(quotas != NULL))
		__quota_charge_entry(quotas, index);
}

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
	if (unlikely(quotas != NULL))
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
void quota_unlend(struct quotas *quotas, u32 index);
/* @nr waiting victims will be entries of @account, or, if negative, will not. ->lock held. */
void quota_due(struct quotas *quotas, u32 account, s64 nr);
/* The second half of one that was counted when it began. ->lock held. */
void quota_peak(struct quotas *quotas, u32 account);

/* ---- quota_take.c ---- */

/* 0, -EDQUOT, or -ENOSPC; changes nothing but events. @keep: to stay free. Both locks held. */
int quota_check_fit(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 keep);
/* @nr victims for @ctx, its tenant's own first: 0, -EDQUOT, or -ENOSPC and nothing has changed. */
int quota_pick(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr);

/*
 * May a range of @account get so many blocks as they are? 0; -ENOSPC: not yet, the tenant's own
 * blocks come first; -EDQUOT. ->lock held.
 */
int __quota_admit(struct kvmm_pool *pool, u32 account, struct alloc_ctx *ctx);
/* Will its tenant's limits refuse it, though blocks are free? Counts nothing. Both locks held. */
bool __quota_bars(struct kvmm_pool *pool, const struct alloc_ctx *ctx);
/* Make the tenant's own blocks free, as far as its limits want that. 0 or -EDQUOT. ->lock held. */
int quota_squeeze(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* Evict up to @nr of one account's. How many. Both locks held. */
u32 quota_reclaim(struct kvmm_pool *pool, u32 account, u32 nr);

#endif /* POOL_QUOTA_H */
