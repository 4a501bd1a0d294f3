/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks with ranks.
 *
 * A thread may only take a lock of a higher rank than that of every lock it holds (outermost
 * is lowest; zones among themselves in id order). Debug builds check it on every acquisition.
 *
 * The uncontended path is one exchange to lock and one plain store to unlock, about half a
 * pthread mutex: the hot sections here are shorter than the lock. Waiters spin a little, then
 * sleep in the kernel; a wake-up lost to the missing fence in unlock costs at most the sleep's
 * time-out (see lib/lock.c).
 *
 * A lock that is held says in which process (kv/fork.h). In a child a lock of an older process is
 * held by a thread that the child does not have, so the next thread takes it; the thread of the
 * child that has forked may still let go of it.
 */
#ifndef KV_LOCK_H
#define KV_LOCK_H

#include <kv/atomic.h>
#include <kv/fork.h>
#include <kv/types.h>

/* Outermost first. */
enum kv_lock_rank {
	KV_RANK_CONTROL = 1,
	KV_RANK_CONFIG,
	KV_RANK_TICK,
	KV_RANK_COMPACT,
	KV_RANK_STEP,
	KV_RANK_TIER,
	KV_RANK_POOL,
	KV_RANK_EVICT,
	KV_RANK_ARENA,
	KV_RANK_ZONE,
	KV_RANK_BUCKET,
	KV_RANK_ATTACH,
	KV_RANK_LEAF,
};

struct kv_lock {
	u32	held;		/* 0, or the kv_epoch of the holder; the lock itself */
	u32	waiters;	/* 1: threads may sleep, on this word; see lib/lock.c; atomic */
	u32	rank;		/* enum kv_lock_rank; fixed at creation */
	u32	id;		/* order among locks of one rank; fixed at creation */
};

static inline void kv_lock_init(struct kv_lock *lock, enum kv_lock_rank rank, u32 id)
{
	*lock = (struct kv_lock){ .rank = rank, .id = id };
}

void __kv_lock_slow(struct kv_lock *lock, u32 was);
void __kv_unlock_wake(struct kv_lock *lock);

static inline bool kv_lock_is_held(const struct kv_lock *lock)
{
	return READ_ONCE(lock->held) == READ_ONCE(kv_epoch);
}

#ifdef KVMM_DEBUG
void kv_rank_acquire(const struct kv_lock *lock);
void kv_rank_release(const struct kv_lock *lock);
#else
static inline void kv_rank_acquire(const struct kv_lock *lock) {}
static inline void kv_rank_release(const struct kv_lock *lock) {}
#endif

/* By this thread. Debug builds only. */
bool kv_rank_is_held(const struct kv_lock *lock);

static __always_inline void kv_lock(struct kv_lock *lock)
{
	u32 epoch = READ_ONCE(kv_epoch), was = 0;

	kv_rank_acquire(lock);
	/* Acquire pairs with the release in kv_unlock(): the last holder's writes are visible. */
	if (unlikely(!epoch) || unlikely(was = kv_xchg_acquire(&lock->held, epoch)))
		__kv_lock_slow(lock, was);
}

/* Take it if it is free. */
static __always_inline bool kv_trylock(struct kv_lock *lock)
{
	kv_fork_look();
	/* Acquire as in kv_lock(). The look before saves the line from threads that fail. */
	if (kv_lock_is_held(lock) || kv_xchg_acquire(&lock->held, READ_ONCE(kv_epoch)) == kv_epoch)
		return false;
	kv_rank_acquire(lock);
	return true;
}

static __always_inline void kv_unlock(struct kv_lock *lock)
{
	kv_rank_release(lock);
	/* Release pairs with the acquire in kv_lock() and in __kv_lock_slow(). */
	smp_store_release(&lock->held, 0);
	if (unlikely(READ_ONCE(lock->waiters)))
		__kv_unlock_wake(lock);
}

#define kv_assert_held(lock)		kv_assert(kv_rank_is_held(lock))
#define kv_assert_not_held(lock)	kv_assert(!kv_rank_is_held(lock))

#include <kv/err.h>

#endif /* KV_LOCK_H */
