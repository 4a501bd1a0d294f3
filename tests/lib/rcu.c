// SPDX-License-Identifier: Apache-2.0
/* Read-copy-update: nothing is freed under a reader, everything is freed at last. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/lock.h>
#include <kv/rcu.h>

#include "tests/support/test.h"

#define FRESH		0x12345678u
#define POISON		0xdeadbeefu
#define NR_REAPED	256		/* as many as kv_rcu_reap() waits for */

struct item {
	u32 value;
	struct kv_rcu_head rcu;
};

static struct item *published;		/* RCU */
static u32 nr_freed;
static u32 reader_is_in;
static u32 reader_may_go;

static void nap(void)
{
	static u32 word;

	kv_env_system.wait(NULL, &word, 0, 1000000);
}

static void free_item(struct kv_rcu_head *head)
{
	struct item *item = container_of(head, struct item, rcu);

	WRITE_ONCE(item->value, POISON);
	kv_free(item);
	kv_fetch_add(&nr_freed, 1);
}

static struct item *new_item(void)
{
	struct item *item = kv_alloc(sizeof(*item));

	cr_assert_not_null(item);
	item->value = FRESH;
	return item;
}

Test(rcu, thread_knows_whether_it_is_in_a_section)
{
	cr_expect(!kv_rcu_is_reading());
	kv_rcu_read_lock();
	kv_rcu_read_lock();
	kv_rcu_read_unlock();
	cr_expect(kv_rcu_is_reading());
	kv_rcu_read_unlock();
	cr_expect(!kv_rcu_is_reading());
}

static void defer_items(unsigned int nr)
{
	while (nr--)
		kv_rcu_defer(&new_item()->rcu, free_item);
}

/* Returns whether the item stayed as it was during all of the section. */
static void *read_slowly(void *arg)
{
	bool *was_fresh = arg;
	struct item *item;

	kv_rcu_read_lock();
	item = kv_rcu_dereference(published);
	smp_store_release(&reader_is_in, 1);
	while (!smp_load_acquire(&reader_may_go))
		nap();
	*was_fresh = READ_ONCE(item->value) == FRESH;
	kv_rcu_read_unlock();
	return NULL;
}

/* Threads in the order of their arrival may go when *may_go says so. The argument: nr_in, may_go. */
static void *read_in_crowd(void *arg)
{
	u32 **words = arg, mine;

	kv_rcu_read_lock();
	kv_rcu_read_lock();
	mine = kv_fetch_add(words[0], 1);
	while (smp_load_acquire(words[1]) <= mine)
		nap();
	kv_rcu_read_unlock();
	kv_rcu_read_unlock();
	kv_fetch_sub(words[0], 1);
	return NULL;
}

static void *call_barrier(void *done)
{
	kv_rcu_barrier();
	smp_store_release((u32 *)done, 1);
	return NULL;
}

Test(rcu, frees_only_after_the_last_reader_has_left, .timeout = 60)
{
	pthread_t reader, writer;
	struct item *old = new_item();
	bool was_fresh = false;
	u32 done = 0;

	kv_rcu_assign(published, old);
	pthread_create(&reader, NULL, read_slowly, &was_fresh);
	while (!smp_load_acquire(&reader_is_in))
		sched_yield();

	kv_rcu_assign(published, NULL);
	kv_rcu_defer(&old->rcu, free_item);
	pthread_create(&writer, NULL, call_barrier, &done);
	for (int i = 0; i < 20; i++)
		nap();
	cr_expect_eq(READ_ONCE(done), 0);
	cr_expect_eq(READ_ONCE(nr_freed), 0);

	smp_store_release(&reader_may_go, 1);
	pthread_join(reader, NULL);
	pthread_join(writer, NULL);
	cr_expect(was_fresh);
	cr_expect_eq(nr_freed, 1);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(rcu, reap_waits_until_enough_have_piled_up)
{
	defer_items(NR_REAPED - 1);
	kv_rcu_reap();
	cr_expect_eq(nr_freed, 0);

	defer_items(1);
	kv_rcu_reap();
	cr_expect_eq(nr_freed, NR_REAPED);

	kv_rcu_reap();
	defer_items(1);
	kv_rcu_reap();
	cr_expect_eq(nr_freed, NR_REAPED);
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, NR_REAPED + 1);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(rcu, barrier_of_nothing_returns)
{
	kv_rcu_barrier();
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, 0);
}

Test(rcu, sections_nest)
{
	kv_rcu_read_lock();
	kv_rcu_read_lock();
	kv_rcu_read_unlock();
	kv_rcu_read_unlock();
	defer_items(1);
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, 1);
}

/* Any lock may be held, even one of the last rank. */
Test(rcu, defer_works_under_every_lock)
{
	for (enum kv_lock_rank rank = KV_RANK_CONTROL; rank <= KV_RANK_LEAF; rank++) {
		struct kv_lock lock;

		kv_lock_init(&lock, rank, 0);
		kv_lock(&lock);
		defer_items(1);
		kv_unlock(&lock);
	}
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, KV_RANK_LEAF);
}

static void defer_another(struct kv_rcu_head *head)
{
	free_item(head);
	defer_items(1);
}

Test(rcu, what_a_free_defers_is_left_for_the_next_time)
{
	kv_rcu_defer(&new_item()->rcu, defer_another);
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, 1);
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, 2);
}

static u32 slow_free_began;

static void free_slowly(struct kv_rcu_head *head)
{
	smp_store_release(&slow_free_began, 1);
	for (int i = 0; i < 20; i++)
		nap();
	free_item(head);
}

/* The list is empty already, but what was on it is not freed yet. */
Test(rcu, barrier_waits_for_the_frees_of_other_threads)
{
	pthread_t other;
	u32 done = 0;

	kv_rcu_defer(&new_item()->rcu, free_slowly);
	pthread_create(&other, NULL, call_barrier, &done);
	while (!smp_load_acquire(&slow_free_began))
		sched_yield();
	kv_rcu_barrier();
	cr_expect_eq(READ_ONCE(nr_freed), 1);
	pthread_join(other, NULL);
}

/* More threads than there are rows of counters: all of them are waited for. */
Test(rcu, grace_periods_wait_for_any_number_of_readers, .timeout = 60)
{
	static struct crowd {
		pthread_t thread;
		u32 *nr_in;
		u32 *may_go;
	} crowd[KV_STAT_ROWS + 20];
	u32 nr_in = 0, may_go = 0, done = 0;
	pthread_t writer;

	for (u32 i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i] = (struct crowd){ 0, &nr_in, &may_go };
		pthread_create(&crowd[i].thread, NULL, read_in_crowd, &crowd[i].nr_in);
	}
	while (READ_ONCE(nr_in) < ARRAY_SIZE(crowd))
		nap();
	defer_items(1);
	pthread_create(&writer, NULL, call_barrier, &done);
	/* All but the last one, which most likely has no row. */
	smp_store_release(&may_go, ARRAY_SIZE(crowd) - 1);
	while (READ_ONCE(nr_in) != 1)
		nap();
	for (int i = 0; i < 20; i++)
		nap();
	cr_expect_eq(READ_ONCE(done), 0);
	smp_store_release(&may_go, ARRAY_SIZE(crowd));
	for (u32 i = 0; i < ARRAY_SIZE(crowd); i++)
		pthread_join(crowd[i].thread, NULL);
	pthread_join(writer, NULL);
	cr_expect_eq(nr_freed, 1);
}

/* Status of a child, which is killed if it hangs: liburcu waits with all signals blocked. */
static int reap_child(pid_t pid)
{
	int status = 0, nr_naps = 20000;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (!nr_naps--)
			kill(pid, SIGKILL);
		nap();
	}
	return status;
}

/* Once around a fork, by the first of them: they take liburcu's locks, which do not nest. */
Test(rcu, an_engine_may_bracket_forks_for_liburcu_itself, .timeout = 60)
{
	void *lib = dlopen("liburcu-bp.so.8", RTLD_NOW | RTLD_GLOBAL);
	void (*before)(void), (*after_in_parent)(void), (*after_in_child)(void);
	int status = -1;
	pid_t pid;

	if (!lib)
		cr_skip_test("no liburcu-bp.so.8");
	before = dlsym(lib, "urcu_bp_before_fork");
	after_in_parent = dlsym(lib, "urcu_bp_after_fork_parent");
	after_in_child = dlsym(lib, "urcu_bp_after_fork_child");
	defer_items(1);
	pid = fork();
	if (!pid) {
		before();
		pid = fork();
		(pid ? after_in_parent : after_in_child)();
		defer_items(1);
		kv_rcu_barrier();
		_exit(nr_freed != 2 || (pid && (waitpid(pid, &status, 0) != pid || status)));
	}
	status = reap_child(pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	kv_rcu_barrier();
}

/* The allocator that a sanitizer brings along has locks that a fork copies: children wait for those. */
#ifndef __SANITIZE_ADDRESS__

static void *defer_for_ever(void *arg)
{
	while (!smp_load_acquire(&reader_may_go)) {
		defer_items(1);
		kv_rcu_reap();
	}
	return NULL;
}

/* In liburcu's locks, or ours: a child can defer, free and wait at any point of theirs. */
Test(rcu, children_free_whatever_other_threads_were_doing, .timeout = 120)
{
	pthread_t other[2];

	for (u32 i = 0; i < 2; i++)
		pthread_create(&other[i], NULL, defer_for_ever, NULL);
	for (u32 i = 0; i < 100; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			defer_items(NR_REAPED);
			kv_rcu_reap();
			kv_rcu_read_lock();
			kv_rcu_read_unlock();
			kv_rcu_synchronize();
			kv_rcu_barrier();
			_exit(0);
		}
		status = reap_child(pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	}
	smp_store_release(&reader_may_go, 1);
	for (u32 i = 0; i < 2; i++)
		pthread_join(other[i], NULL);
	kv_rcu_barrier();
	cr_expect_eq(kv_mem_bytes(), 0);
}

#endif /* !__SANITIZE_ADDRESS__ */

/* The reader of the parent does not exist in the child, which must not wait for it. */
Test(rcu, child_of_fork_can_free_what_it_inherited, .timeout = 60)
{
	bool was_fresh = false;
	pthread_t reader;
	int status;
	pid_t pid;

	kv_rcu_assign(published, new_item());
	pthread_create(&reader, NULL, read_slowly, &was_fresh);
	while (!smp_load_acquire(&reader_is_in))
		sched_yield();
	defer_items(3);

	pid = fork();
	if (!pid) {
		kv_rcu_barrier();
		_exit(nr_freed == 3 ? 0 : 1);
	}
	cr_assert_gt(pid, 0);
	status = reap_child(pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);

	smp_store_release(&reader_may_go, 1);
	pthread_join(reader, NULL);
	cr_expect_eq(nr_freed, 0);
	kv_rcu_barrier();
	cr_expect_eq(nr_freed, 3);
	kv_free(published);
	cr_expect_eq(kv_mem_bytes(), 0);
}
