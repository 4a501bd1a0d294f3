// SPDX-License-Identifier: Apache-2.0
/*
 * Grace periods, and the list of deferred frees.
 *
 * The problem is which thread pays for grace periods when none runs in the background. Deferring
 * only links the object into the limbo list. A caller that may wait calls kv_rcu_reap() now and
 * then: once enough has piled up, it takes the whole list, waits for one grace period on behalf
 * of all of it, and frees.
 *
 * More threads than rows share two counts of open sections: new sections are counted in the one
 * that is not waited for, so that a grace period ends, however many there are.
 *
 * Grace periods are no points of cancellation: a thread that ended in one would keep its locks.
 *
 * Locks: drain_lock serialises threads that free, so that kv_rcu_barrier() also waits for a list
 * that another thread has taken already; it is held over the grace period. limbo.lock guards the
 * list; it is the last of all locks, because any may be held around kv_rcu_defer().
 */
#include <kv/env.h>
#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/rcu.h>
#include <kv/sys.h>
#include <kv/thread.h>

#include "internal.h"

/* A grace period costs microseconds; shared by this many frees it is lost in their own cost. */
#define REAP_AT		256

static struct {
	struct kv_lock		lock;
	struct kv_rcu_head	*first;		/* ->lock; newest first */
	u32			nr;		/* ->lock; READ_ONCE() as a hint */
} limbo = {
	.lock = { .rank = KV_RANK_LEAF, .id = UINT32_MAX },
};

static struct kv_lock drain_lock = { .rank = KV_RANK_CONFIG };

/* A section is over within tens of instructions, unless its thread has lost its core. */
#define SECTION_SPINS	200u
#define SECTION_SLEEP_NS	50000ull

/* Until stores of readers without a fence are visible, once the system refuses kv_fence_all(). */
#define FENCE_LOST_NS	10000000ull

u32 kv_rcu_fenced;

/* Sections of threads without a row. */
static struct {
	u32 used;		/* atomic; there were some */
	u32 now;		/* atomic; 0 or 1: where new ones are counted */
	u32 nr[2];		/* atomic; open ones */
} spare;

/* Of this thread, if it has no row: twice the nesting, and the index into spare.nr[]. */
static __thread u32 spare_section;

static void nap(u64 ns)
{
	const struct kv_env_ops *env = kv_env();
	u32 word = 0;

	env->wait(env->ctx, &word, 0, ns);
}

/* ---- sections ---- */

noinline void __kv_rcu_read_lock_slow(void)
{
	kv_fork_look();
	if (!spare_section && kv_thread_claim_slot() != KV_NONE) {
		kv_rcu_read_lock();
		return;
	}
	if (!spare_section) {
		u32 at = READ_ONCE(spare.now);

		WRITE_ONCE(spare.used, 1);
		kv_fetch_add(&spare.nr[at], 1);
		spare_section = at;
		/* Pairs with fence_readers(), as in kv_rcu_read_lock(). */
		kv_fence_full();
	}
	spare_section += 2;
}

noinline void __kv_rcu_read_unlock_slow(void)
{
	if (KV_BUG_ON(spare_section < 2))
		return;
	spare_section -= 2;
	if (spare_section >= 2)
		return;
	/* Pairs with wait_for_spare(), as in kv_rcu_read_unlock(). */
	kv_fetch_sub_release(&spare.nr[spare_section], 1);
	spare_section = 0;
}

bool kv_rcu_is_reading(void)
{
	struct kv_stat_row *row = kv_stat_row;

	return spare_section || (row && row->section & KV_RCU_NESTING);
}

/* ---- grace periods ---- */

/* A system that refuses now may have agreed before. */
static void fence_readers(void)
{
	if (!READ_ONCE(kv_rcu_fenced) && kv_fence_all()) {
		WRITE_ONCE(kv_rcu_fenced, 1);
		nap(FENCE_LOST_NS);
	}
	kv_fence_full();
}

static void wait_for_section(const struct kv_stat_row *row)
{
	/* Acquire pairs with kv_rcu_read_unlock(): objects read there are not freed before. */
	u64 seen = smp_load_acquire(&row->section), now = seen;

	for (u32 i = 0; now & KV_RCU_NESTING && !((now ^ seen) & ~KV_RCU_NESTING); i++) {
		if (i >= SECTION_SPINS)
			nap(SECTION_SLEEP_NS);
		now = smp_load_acquire(&row->section);
	}
}

static void wait_for_spare(void)
{
	for (u32 at = 0; at < 2; at++) {
		WRITE_ONCE(spare.now, !at);
		/* Acquire pairs with __kv_rcu_read_unlock_slow(), as in wait_for_section(). */
		while (smp_load_acquire(&spare.nr[at]))
			nap(SECTION_SLEEP_NS);
	}
}

static void wait_for_readers(void)
{
	int cancel = kv_cancel_off();
	u32 nr;

	kv_fork_look();
	fence_readers();
	/* A row that is not counted yet has its first section after our fence: see count_row(). */
	nr = stat_nr_rows();
	for (u32 i = 0; i < nr; i++)
		wait_for_section(stat_row(i));
	if (READ_ONCE(spare.used))
		wait_for_spare();
	kv_cancel_restore(cancel);
}

/* ---- frees ---- */

void kv_rcu_defer(struct kv_rcu_head *head, void (*free)(struct kv_rcu_head *head))
{
	head->free = free;
	kv_lock(&limbo.lock);
	head->next = limbo.first;
	/* Pairs with take_limbo() of a child, which may find the list without its lock: whole. */
	smp_store_release(&limbo.first, head);
	WRITE_ONCE(limbo.nr, limbo.nr + 1);
	kv_unlock(&limbo.lock);
}

static struct kv_rcu_head *take_limbo(void)
{
	struct kv_rcu_head *first;

	kv_lock(&limbo.lock);
	first = limbo.first;
	limbo.first = NULL;
	WRITE_ONCE(limbo.nr, 0);
	kv_unlock(&limbo.lock);
	return first;
}

/* Freeing may defer more; that is left for the next time. */
static void drain(void)
{
	struct kv_rcu_head *head, *next;

	/* Inside a read section the grace period would wait for ourselves. */
	if (KV_BUG_ON(kv_rcu_is_reading()))
		return;

	kv_lock(&drain_lock);
	head = take_limbo();
	if (head)
		wait_for_readers();
	for (; head; head = next) {
		next = head->next;
		head->free(head);
	}
	kv_unlock(&drain_lock);
}

void kv_rcu_reap(void)
{
	/* Both are hints. If a thread drains already, later ones can wait for the next. */
	if (READ_ONCE(limbo.nr) >= REAP_AT && !kv_lock_is_held(&drain_lock))
		drain();
}

void kv_rcu_synchronize(void)
{
	if (KV_BUG_ON(kv_rcu_is_reading()))
		return;
	wait_for_readers();
}

void kv_rcu_barrier(void)
{
	drain();
}

/* ---- forks ---- */

/* Only sections of this thread are open here; stat_forked() has ended those of rows. */
void rcu_forked(void)
{
	spare.nr[0] = spare.nr[1] = 0;
	spare.nr[spare_section & 1] = spare_section >= 2;
}

/* Before there are readers. A system without kv_fence_all() is known from here on. */
static void __attribute__((constructor)) ask_for_fence(void)
{
	kv_rcu_fenced = kv_fence_all() != 0;
}
