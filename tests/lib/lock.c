// SPDX-License-Identifier: Apache-2.0
/* Locks: exclusion, waiting and, in debug builds, ranks. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/env.h>
#include <kv/lock.h>

#include "tests/support/fake_env.h"

#define MS		1000000ull
#define A_LONG_TIME	(30000 * MS)	/* for a machine that is busy otherwise */

struct shared {
	struct kv_lock lock;
	u64 count;		/* ->lock; not atomic on purpose */
	u64 nr_each;
};

static void *count_up(void *arg)
{
	struct shared *shared = arg;

	for (u64 i = 0; i < shared->nr_each; i++) {
		kv_lock(&shared->lock);
		shared->count++;
		kv_unlock(&shared->lock);
	}
	return NULL;
}

Test(lock, lets_one_thread_in_at_a_time)
{
	struct shared shared = { .nr_each = 200000 };
	pthread_t thread[4];

	kv_lock_init(&shared.lock, KV_RANK_ZONE, 0);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, count_up, &shared);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	cr_expect_eq(shared.count, 4 * shared.nr_each);
	cr_expect_eq(shared.lock.held, 0);
}

static void start_waiter(pthread_t *thread, struct shared *shared)
{
	shared->nr_each = 1;
	kv_lock_init(&shared->lock, KV_RANK_ZONE, 0);
	kv_lock(&shared->lock);
	pthread_create(thread, NULL, count_up, shared);
	while (!READ_ONCE(shared->lock.waiters))
		sched_yield();
}

/* The wake-up of kv_unlock() is lost on purpose: only the time-out is left. */
Test(lock, waiter_survives_a_lost_wake_up, .timeout = 60)
{
	struct shared shared = { 0 };
	pthread_t thread;
	u64 begin;

	start_waiter(&thread, &shared);
	kv_env_system.wait(NULL, &shared.lock.held, 1, 5 * MS);
	begin = kv_clock_ns();
	kv_rank_release(&shared.lock);
	smp_store_release(&shared.lock.held, 0);
	pthread_join(thread, NULL);
	cr_expect_eq(shared.count, 1);
	cr_expect_lt(kv_clock_ns() - begin, A_LONG_TIME);
}

/* The opposite: without a time-out to help, the wake-up alone must do. */
static void wait_long(void *ctx, u32 *word, u32 old, u64 ns)
{
	kv_env_system.wait(ctx, word, old, 2 * A_LONG_TIME);
}

Test(lock, unlock_wakes_a_sleeper)
{
	struct kv_env_ops patient = kv_env_system;
	struct shared shared = { 0 };
	pthread_t thread;
	u64 begin;

	patient.wait = wait_long;
	kv_env_set(&patient);
	start_waiter(&thread, &shared);
	kv_env_system.wait(NULL, &shared.lock.held, 1, 20 * MS);
	begin = kv_clock_ns();
	kv_unlock(&shared.lock);
	pthread_join(thread, NULL);
	cr_expect_eq(shared.count, 1);
	cr_expect_lt(kv_clock_ns() - begin, A_LONG_TIME);
	kv_env_set(NULL);
}

static u32 is_about_to_sleep, may_sleep;

/* The first waiter to come here does not sleep before the lock was let go of, and taken again. */
static void wait_late(void *ctx, u32 *word, u32 old, u64 ns)
{
	smp_store_release(&is_about_to_sleep, 1);
	while (!smp_load_acquire(&may_sleep))
		sched_yield();
	wait_long(ctx, word, old, ns);
}

Test(lock, a_busy_holder_does_not_take_the_wake_up_of_a_thread_that_is_not_asleep_yet)
{
	struct kv_env_ops late = kv_env_system;
	struct shared shared = { 0 };
	pthread_t thread;
	u64 begin;

	late.wait = wait_late;
	kv_env_set(&late);
	start_waiter(&thread, &shared);
	while (!smp_load_acquire(&is_about_to_sleep))
		sched_yield();
	kv_unlock(&shared.lock);
	kv_lock(&shared.lock);
	smp_store_release(&may_sleep, 1);
	begin = kv_clock_ns();
	kv_env_system.wait(NULL, &shared.lock.held, 1, 20 * MS);
	kv_unlock(&shared.lock);
	pthread_join(thread, NULL);
	cr_expect_eq(shared.count, 1);
	cr_expect_lt(kv_clock_ns() - begin, A_LONG_TIME);
	kv_env_set(NULL);
}

Test(lock, no_sleep_is_longer_than_a_millisecond)
{
	struct shared shared = { 0 };
	struct fake_env fake;
	pthread_t thread;
	u64 begin_ns;

	fake_env_install(&fake);
	begin_ns = fake.now_ns;
	start_waiter(&thread, &shared);
	while (READ_ONCE(fake.nr_waits) < 5)
		sched_yield();
	kv_unlock(&shared.lock);
	pthread_join(thread, NULL);
	cr_expect_gt(fake.now_ns, begin_ns);
	cr_expect_leq(fake.now_ns - begin_ns, fake.nr_waits * MS);
	cr_expect_geq(fake.nr_wakes, 1);
	fake_env_remove(&fake);
}

Test(lock, uncontended_calls_need_no_system)
{
	struct fake_env fake;
	struct kv_lock lock;

	fake_env_install(&fake);
	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	for (int i = 0; i < 100; i++) {
		kv_lock(&lock);
		cr_assert(kv_lock_is_held(&lock));
		kv_unlock(&lock);
	}
	cr_expect_eq(fake.nr_waits, 0);
	cr_expect_eq(fake.nr_wakes, 0);
	fake_env_remove(&fake);
}

static void *hold_for_ever(void *lock)
{
	kv_lock(lock);
	for (;;)
		pause();
	return NULL;
}

/* The holder is in the parent: the child takes the lock at once, and keeps its own threads out. */
Test(lock, a_child_takes_what_a_thread_of_its_parent_holds, .timeout = 60)
{
	struct shared shared = { .nr_each = 20000 };
	pthread_t thread[2];
	int status = -1;
	pid_t pid;

	kv_lock_init(&shared.lock, KV_RANK_ZONE, 0);
	pthread_create(&thread[0], NULL, hold_for_ever, &shared.lock);
	while (!kv_lock_is_held(&shared.lock))
		sched_yield();
	pid = fork();
	if (!pid) {
		alarm(20);
		if (kv_lock_is_held(&shared.lock) || !kv_trylock(&shared.lock) ||
		    kv_trylock(&shared.lock))
			_exit(1);
		shared.lock.held = 1;		/* as at the fork */
		for (int i = 0; i < 2; i++)
			pthread_create(&thread[i], NULL, count_up, &shared);
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
		_exit(shared.count != 2 * shared.nr_each);
	}
	cr_expect_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "%x", status);
	cr_expect(kv_lock_is_held(&shared.lock));
}

#ifdef KVMM_DEBUG

static void take_both(enum kv_lock_rank first, u32 first_id, enum kv_lock_rank second,
		      u32 second_id)
{
	struct kv_lock a, b;

	kv_lock_init(&a, first, first_id);
	kv_lock_init(&b, second, second_id);
	kv_lock(&a);
	kv_lock(&b);
	kv_unlock(&a);
	cr_expect(!kv_rank_is_held(&a));
	cr_expect(kv_rank_is_held(&b));
	kv_unlock(&b);
}

Test(lock, ranks_going_up_are_fine)
{
	take_both(KV_RANK_CONFIG, 9, KV_RANK_LEAF, 0);
	take_both(KV_RANK_POOL, 0, KV_RANK_ZONE, 0);
	take_both(KV_RANK_ZONE, 1, KV_RANK_ZONE, 2);
	take_both(KV_RANK_LEAF, 0, KV_RANK_LEAF, UINT32_MAX);
}

Test(lock, rank_going_down_is_a_bug, .signal = SIGILL)
{
	take_both(KV_RANK_ZONE, 0, KV_RANK_POOL, 1);
}

Test(lock, zones_out_of_id_order_are_a_bug, .signal = SIGILL)
{
	take_both(KV_RANK_ZONE, 2, KV_RANK_ZONE, 1);
}

Test(lock, taking_a_lock_twice_is_a_bug, .signal = SIGILL)
{
	struct kv_lock lock;

	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	kv_lock(&lock);
	kv_lock(&lock);
}

/* The second is released first: the checker must still know of the first. */
Test(lock, rank_of_the_lock_below_still_counts, .signal = SIGILL)
{
	struct kv_lock zone, leaf, pool;

	kv_lock_init(&zone, KV_RANK_ZONE, 0);
	kv_lock_init(&leaf, KV_RANK_LEAF, 0);
	kv_lock_init(&pool, KV_RANK_POOL, 0);
	kv_lock(&zone);
	kv_lock(&leaf);
	kv_unlock(&leaf);
	kv_lock(&pool);
}

Test(lock, unlocking_what_is_not_held_is_a_bug, .signal = SIGILL)
{
	struct kv_lock lock;

	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	kv_unlock(&lock);
}

static void *assert_held(void *lock)
{
	kv_assert_held((struct kv_lock *)lock);
	return NULL;
}

Test(lock, asserting_what_is_so_is_none)
{
	struct kv_lock lock;

	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	kv_assert_not_held(&lock);
	kv_lock(&lock);
	kv_assert_held(&lock);
	kv_unlock(&lock);
	kv_assert_not_held(&lock);
}

Test(lock, asserting_that_a_held_lock_is_free_is_a_bug, .signal = SIGILL)
{
	struct kv_lock lock;

	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	kv_lock(&lock);
	kv_assert_not_held(&lock);
}

Test(lock, held_by_another_thread_is_not_held, .signal = SIGILL)
{
	struct kv_lock lock;
	pthread_t thread;

	kv_lock_init(&lock, KV_RANK_LEAF, 0);
	kv_lock(&lock);
	pthread_create(&thread, NULL, assert_held, &lock);
	pthread_join(thread, NULL);
}

#endif /* KVMM_DEBUG */
