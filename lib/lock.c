// SPDX-License-Identifier: Apache-2.0
/*
 * The slow half of locking, and the rank checker of debug builds.
 *
 * A thread about to sleep says so in lock->waiters, and sleeps on that word. kv_unlock() stores
 * 0 into lock->held and then looks there; where there are waiters it takes the mark down and
 * wakes them. A thread that was not asleep yet finds the mark down, and does not sleep: so the
 * next holder may come as early as it likes. (Waiters slept on lock->held once. A busy holder
 * had it again before they slept, with the mark taken down, and nearly each sleep lasted until
 * its time-out: two threads got less done than one.)
 *
 * Nothing orders the store of kv_unlock() and its look: the load may be done while the store
 * still sits in the store buffer. A fence would cost as much as the exchange in kv_lock(), on
 * every unlock, for an event that is rare. So a wake-up may get lost, like this (E: the epoch of
 * this process):
 *
 *	kv_unlock()				__kv_lock_slow()
 *
 *	waiters == 0 (load, early)
 *						waiters = 1
 *						xchg(held, E) == E
 *						wait(waiters, 1): sleeps
 *	held = 0 (store, drains)
 *	returns, wakes no thread
 *						the next kv_unlock() wakes it, or its
 *						time-out: xchg(held, E) == 0
 *
 * Sleepers have a time-out for that reason: a lost wake-up costs at most LOCK_SLEEP_NS, and no
 * lock is ever lost. The data that the lock guards is ordered by the release store and the acquire
 * exchange alone; lock->waiters orders nothing.
 *
 * It is a flag that the waker takes down, and no count, because woken threads may need long to
 * get a core: with a count every unlock until then made a useless system call (8 threads on 2
 * cores: 18 ns an operation with the count, 5 to 10 with the flag, pthread mutex 11).
 *
 * Waiters do not queue: the thread that comes at the right moment goes first. Sections are shorter
 * than a switch of threads, and a lock handed to a sleeping thread would be idle meanwhile.
 */
#include <kv/env.h>
#include <kv/lock.h>

/*
 * Some dozens of microseconds: as long as it takes to sleep and be woken, which costs the thread
 * that wakes as well (a virtual processor that has gone to sleep is far away). Where there are
 * more threads than cores that is little beside a thread's turn.
 */
#define LOCK_SPINS	2000u
/* Pauses before the first look at the lock; twice as many before each next one, up to the most. */
#define LOCK_FIRST	32u
#define LOCK_MOST	512u
#define LOCK_SLEEP_NS	1000000ull

/*
 * Looks come at longer and longer intervals: each one takes a line from the owner, and a section
 * that is another thread's than the last one was fetches all the lines that it writes to.
 */
static bool lock_by_spinning(struct kv_lock *lock)
{
	for (u32 i = 0, nr = LOCK_FIRST; i < LOCK_SPINS; i += nr, nr = min(2 * nr, LOCK_MOST)) {
		for (u32 k = 0; k < nr; k++)
			cpu_relax();
		/* Look before the exchange: a load shares the line, an exchange takes it. */
		if (kv_lock_is_held(lock))
			continue;
		/* Acquire pairs with the release in kv_unlock(), as in kv_lock(). */
		if (kv_xchg_acquire(&lock->held, kv_epoch) != kv_epoch)
			return true;
	}
	return false;
}

/*
 * The exchange of kv_lock() found @was: of another process, and the lock is taken, or of this one.
 * 0: this is a child that had no epoch to exchange.
 */
noinline void __kv_lock_slow(struct kv_lock *lock, u32 was)
{
	const struct kv_env_ops *env = kv_env();

	if (!was) {
		kv_fork_look();
		/* Acquire as in kv_lock(). */
		was = kv_xchg_acquire(&lock->held, kv_epoch);
	}
	if (was != kv_epoch || lock_by_spinning(lock))
		return;

	for (;;) {
		WRITE_ONCE(lock->waiters, 1);
		/* Acquire pairs with the release in kv_unlock(), as in kv_lock(). */
		if (kv_xchg_acquire(&lock->held, kv_epoch) != kv_epoch)
			return;
		env->wait(env->ctx, &lock->waiters, 1, LOCK_SLEEP_NS);
	}
}

noinline void __kv_unlock_wake(struct kv_lock *lock)
{
	const struct kv_env_ops *env = kv_env();

	/* Before the wake-up: the threads that wake set it again if they have to sleep again. */
	WRITE_ONCE(lock->waiters, 0);
	env->wake(env->ctx, &lock->waiters);
}

#ifdef KVMM_DEBUG

/* One lock of each rank and a fair number of zones. */
#define MAX_HELD	64

/* Locks that this thread holds, in the order taken; owner thread. */
static __thread const struct kv_lock *held_locks[MAX_HELD];
static __thread unsigned int nr_held;

void kv_rank_acquire(const struct kv_lock *lock)
{
	for (unsigned int i = 0; i < nr_held; i++)
		KV_BUG_ON(held_locks[i]->rank > lock->rank ||
			  (held_locks[i]->rank == lock->rank && held_locks[i]->id >= lock->id));
	if (KV_BUG_ON(nr_held == MAX_HELD))
		return;
	held_locks[nr_held++] = lock;
}

/* Locks may be released in any order. */
void kv_rank_release(const struct kv_lock *lock)
{
	unsigned int i = nr_held;

	while (i && held_locks[i - 1] != lock)
		i--;
	if (KV_BUG_ON(!i))
		return;
	for (nr_held--; i <= nr_held; i++)
		held_locks[i - 1] = held_locks[i];
}

bool kv_rank_is_held(const struct kv_lock *lock)
{
	for (unsigned int i = 0; i < nr_held; i++)
		if (held_locks[i] == lock)
			return true;
	return false;
}

#endif /* KVMM_DEBUG */
