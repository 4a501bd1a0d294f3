/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of eviction of one pool: a policy, its lock, and a log of notes it has not heard of
 * yet.
 *
 * A thread that matches or puts a block only notes it in the log, a batch at a time. A thread that
 * needs the order applies the log first, so in one thread the policy sees exactly what it would
 * have seen without; between threads it sees the notes in the order in which they were made. Since
 * a reference is noted before it can be put, the last put of a block comes behind all of its hits.
 *
 * Most blocks that are hit are put before a thread looks at the order, and they do not leave it in
 * between: the put moves them, and those that were not put leave when a thread looks. No caller
 * sees the difference.
 *
 * A note of a hit may be lost if the log is full and its lock is busy. The block is then in the
 * order while it is referenced; it is dropped from there when it is met, and its put brings it
 * back. Notes of puts are never lost. In deterministic pools notes are applied at once: the time at
 * which a log is applied depends on which threads look at the pool.
 *
 * Leaf first: under any policy no block is evicted before a block that follows it in its chain and
 * is in the order, too. If the policy picks one that has such children, it gets that back, and a
 * leaf below goes instead. The block picked once and the place below it that was reached are
 * remembered, so a chain is walked down once, however many blocks of it are evicted.
 *
 * With classes each has a policy of its own, and is an order of its own; so has each tenant with an
 * account of its own, one for each class. Leaf first holds inside of these. turn_next() says which
 * of them gives up a block; see account.h.
 */
#ifndef ORDER_ORDER_H
#define ORDER_ORDER_H

#include <kv/entry.h>
#include <kv/evict.h>
#include <kv/evict_family.h>
#include <kv/lock.h>

#include "account.h"
#include "class.h"
#include "digest.h"

enum order_note {
	NOTE_HIT,	/* out of the order, and used */
	NOTE_PUT,	/* the last reference is gone: to where a block goes now */
	NOTE_FILL,	/* it got content and a name */
	NOTE_HELD,	/* the last reference was dropped by mistake: out of the order */
};

#define ORDER_LOG	512u
#define ORDER_STAYS	1024u	/* blocks that stay in the order though they have been hit */
#define ORDER_PICKS	KV_EVICT_MANY

/* Where the search for leaves has come to. */
struct order_mark {
	u32 top;		/* picked before its time last, or KV_NONE */
	u32 above;		/* parent of the leaf that went instead */
};

struct order {
	/* Fixed at creation. */
	const struct kv_evict_ops *ops;
	struct kv_entries *entries;	/* borrowed */
	u32 nr_policies;		/* classes, or 1 */
	bool deterministic;		/* notes are applied at once, and all is in ->history */
	struct classes *classes;	/* ours; NULL: there are none */
	char *args;			/* ours; of each policy, or NULL */

	struct account rest;		/* of all tenants without limits; see account.h */
	struct quotas *quotas;		/* see there; ours; NULL: no tenant has limits */

	/* Where tenants have limits guarded by both locks, else by ->lock. */
	u32 asking;			/* account that asks for blocks; QUOTA_NONE between calls */
	enum quota_mode mode;		/* QUOTA_FOR_ONE between calls; no limits: QUOTA_ANY */
	struct turn turn;		/* of the last victim */
	bool goes_on;			/* ->turn may hold again: nothing but picking since */

	u32 nr_vain;			/* ->lock; picks in vain, one after the other */

	struct kv_lock lock __cacheline_aligned;
	struct family family;		/* ours; ->lock: children in the order */
	struct order_mark mark;		/* ->lock; giving back all victims restores it */
	struct sum history;		/* ->lock; see digest.h */
	u64 stamp;			/* ->lock; see order_changed() */
	u64 *stays;			/* ours; ->lock; a bit a block: hit, and still in */
	u32 nr_stays;			/* ->lock; bits that are set; none while a thread looks */
	u32 nr_stayed;			/* ->lock */
	u32 stayed[ORDER_STAYS];	/* ->lock; that were set since, and may have been cleared */
	u64 applied[ORDER_LOG];		/* ->lock */

	struct kv_lock log_lock __cacheline_aligned;
	u32 nr_log;			/* ->log_lock */
	u64 log[ORDER_LOG];		/* ->log_lock */
};

/*
 * 0; -ENOMEM; -EINVAL: the policy does not take @args. @args: the text behind the colon of its
 * name, or NULL. @id: of the pool. @order->classes is set, or NULL.
 */
int order_init(struct order *order, const struct kv_evict_ops *ops, const char *args,
	       struct kv_entries *entries, u32 id);
/* Host memory that it holds. */
u64 order_bytes(const struct order *order);
void order_exit(struct order *order);

/* Note it for all of @handles, first to last. No lock held; hits never wait. */
void order_note(struct order *order, enum order_note note, const struct kv_handle *handles,
		u32 nr);

/*
 * A hit on each of @handles, and its put if no thread holds it: as a caller that takes references
 * on all of them and drops them, last first, but none leaves the order in between. At most half of
 * ORDER_LOG. No lock held.
 */
void order_touch(struct order *order, const struct kv_handle *handles, u32 nr);

void __order_note_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr);
void __order_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr);

/* The keys of a tenant's request, resident or not, for policies that count them. Never waits. */
static inline void order_note_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr)
{
	if (unlikely(order->ops->seen != NULL))
		__order_note_seen(order, tenant, keys, nr);
}

/* Take the lock and apply the log: everything below is called with that held. */
void order_enter(struct order *order);
static inline void order_leave(struct order *order)
{
	kv_unlock(&order->lock);
}

/* Apply the notes made since. */
void order_catch_up(struct order *order);
/* As if it had been noted. A thread that drops a last reference so catches up in between. */
void order_apply(struct order *order, enum order_note note, struct kv_handle handle);
/* As order_note_seen(). */
static inline void order_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr)
{
	kv_assert_held(&order->lock);
	if (unlikely(order->ops->seen != NULL))
		__order_seen(order, tenant, keys, nr);
}
/* From one class to another: a fresh block there, that was put back now if it is in the order. */
void order_reclass(struct order *order, u32 index, u32 class);
/* A parked block waits in the order, too. */
void order_park(struct order *order, u32 index);
/*
 * Up to @nr victims, at most ORDER_PICKS, which are claimed, and out of the order. Returns how
 * many: fewer than there are, even none, if others were found referenced; see order_is_spent().
 */
u32 order_pick(struct order *order, u32 nr, u32 *victims);
/* Give it back to where it was. Newest first. */
void order_unpick(struct order *order, u32 index);
/* The same when something else has happened since: among the first to be picked again. */
void order_unpick_late(struct order *order, u32 index);
/* The same without a claim: only to see the next victim. */
u32 order_peek(struct order *order);
void order_unpeek(struct order *order, u32 index);
/*
 * This one, as if it had been picked. False: it has children in the order, or is referenced, which
 * drops it from there.
 */
bool order_take(struct order *order, u32 index);
/* In the order, the child of @parent in its chain behind @after or KV_NONE; or KV_NONE. */
u32 order_child(const struct order *order, u32 parent, u32 after);
/* 0 or -EUCLEAN. */
int order_check(struct order *order);
/* It is gone. The order need not have it. */
void order_forget(struct order *order, u32 index);

/* One more instance of the policy: 0 or -ENOMEM. The caller has to free the one in *@policy. */
int order_make_policy(const struct order *order, void **policy);

/* Account number @at of those that there are, in no order; NULL: no more. */
static inline struct account *order_account(struct order *order, u32 at)
{
	if (likely(!order->quotas))
		return at ? NULL : &order->rest;
	return at < order->quotas->nr ? order->quotas->account[order->quotas->live[at]] : NULL;
}

#define for_each_account(order, account)						\
	for (u32 __at = 0; ((account) = order_account(order, __at)); __at++)

/* The one that pays for an entry. */
static inline struct account *account_of(struct order *order, u32 index)
{
	return likely(!order->quotas) ? &order->rest :
	       order->quotas->account[quota_of(order->quotas, index)];
}

void *turn_find(struct order *order);

/*
 * Where the next victim is to be picked, or NULL: there is none. The order's lock held; where
 * tenants have limits, both.
 */
static inline void *turn_next(struct order *order)
{
	kv_assert_held(&order->lock);
	if (likely(!order->classes && !order->quotas))
		return order->rest.policy[0];
	return turn_find(order);
}

/* Is a class over its quota, and has a block without references? There are classes. */
bool order_is_over(struct order *order);
/* May @nr blocks more be in use, of a class with a quota? 0 or -EDQUOT. */
int order_admit(struct order *order, const struct class *class, u32 nr);

/* From now on, until quota_end(). Both locks held. */
static inline void quota_begin(struct order *order, u32 account, enum quota_mode mode)
{
	if (unlikely(order->quotas != NULL)) {
		order->asking = account;
		order->mode = mode;
	}
}

static inline void quota_end(struct order *order)
{
	quota_begin(order, QUOTA_NONE, QUOTA_FOR_ONE);
}

void __quota_charge_entry(struct order *order, u32 index);

/* It gets a block, for the tenant that quota_begin() has named. Both locks held. */
static inline void quota_charge_entry(struct order *order, u32 index)
{
	if (unlikely(order->quotas != NULL))
		__quota_charge_entry(order, index);
}

static inline u64 order_policy_bytes(const struct order *order)
{
	return order->nr_policies ? order->ops->bytes(order->entries->nr) : 0;
}

/* The policy that has, or would have, this block: to change something there. */
static inline void *order_policy(struct order *order, u32 index)
{
	u32 class = class_of(order->classes, index);
	struct account *account;

	kv_assert_held(&order->lock);
	if (likely(!order->quotas))
		return order->rest.policy[class];
	account = account_of(order, index);
	account->next[class] = KV_NONE;
	return account->policy[class];
}

static inline bool order_has(struct order *order, u32 index)
{
	u32 class = class_of(order->classes, index);
	void *policy = order->rest.policy[class];

	if (unlikely(order->quotas != NULL))
		policy = account_of(order, index)->policy[class];
	return order->ops->has(policy, index);
}

/* Is NOTE_FILL to be noted? */
static inline bool order_wants_fill(const struct order *order)
{
	return order->ops->fill || order->ops->place || order->classes || order->deterministic;
}

/*
 * A victim can be put back exactly as long as nothing else has happened but picks that were undone,
 * newest first: then ->stamp is what it was after the pick. A caller that keeps victims for longer
 * than a call compares it, and one that looks ahead learns from it how many blocks came or went.
 */
static inline void order_changes(struct order *order, u32 nr)
{
	kv_assert_held(&order->lock);
	order->stamp += (u64)nr << 32;
}

static inline void order_changed(struct order *order)
{
	order_changes(order, 1);
}

/* Two words for the history. One untaken branch where there is none. */
static inline void order_history(struct order *order, enum history_mark mark, u32 index, u64 word)
{
	kv_assert_held(&order->lock);
	if (likely(!order->deterministic))
		return;
	sum_add(&order->history, history_word(mark, 0, index));
	sum_add(&order->history, word);
}

static inline u32 order_nr_in(struct order *order, u32 class)
{
	struct account *account;
	u32 nr = 0;

	kv_assert(class < KVMM_MAX_CLASSES);
	for_each_account(order, account)
		nr += order->ops->nr(account->policy[class]);
	return nr;
}

static inline u32 account_nr_inactive(const struct order *order, const struct account *account)
{
	u32 nr = 0;

	for (u32 class = 0; class < order->nr_policies; class++)
		nr += order->ops->nr(account->policy[class]);
	return nr;
}

static inline u32 order_nr(struct order *order)
{
	struct account *account;
	u32 nr = 0;

	for_each_account(order, account)
		nr += account_nr_inactive(order, account);
	return nr;
}

/*
 * Is there no block left that may be picked? After a pick in vain. Each of those takes a block out
 * of the order that is referenced: a policy that goes on like that for longer is broken. Both locks
 * held.
 */
static inline bool order_is_spent(struct order *order)
{
	bool spent;

	kv_assert_held(&order->lock);
	order->goes_on = false;
	spent = !turn_next(order) || !order_nr(order);
	if (likely(!spent) && ++order->nr_vain <= order->entries->nr)
		return false;
	order->nr_vain = 0;
	return true;
}

#endif /* ORDER_ORDER_H */
