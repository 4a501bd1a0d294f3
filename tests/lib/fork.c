// SPDX-License-Identifier: Apache-2.0
/* Forks: the epoch of a child, whoever asks for it first and whether or not the kernel helps. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/lock.h>
#include <kv/sys.h>

#include "tests/support/test.h"

static struct kv_lock a_lock = { .rank = KV_RANK_POOL };
static u32 nr_told;

static void count_told(struct kv_fork_node *node)
{
	nr_told++;
}

static bool exits_with_0(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid && !status;
}

/* What a child is, once its handlers have run: 0, or the line that is wrong. */
static int check_child(const void *inherited, u32 before)
{
	void *own;

	alarm(20);
	if (kv_epoch != before + 1 || nr_told != 1)
		return 1;
	if (!kv_inherited(inherited) || kv_lock_is_held(&a_lock) || !kv_trylock(&a_lock))
		return 2;
	own = kv_alloc(1);
	if (!own || kv_inherited(own))
		return 3;
	kv_free(own);
	return 0;
}

static void fork_once(void)
{
	struct kv_fork_node node = { 0 };
	void *object = kv_alloc(1);
	u32 before = kv_epoch;
	pid_t pid;

	kv_fork_add(&node, count_told);
	a_lock.held = kv_epoch;	/* by another thread */
	pid = fork();
	if (!pid)
		_exit(check_child(object, before));
	cr_expect(exits_with_0(pid));
	cr_expect_eq(kv_epoch, before);
	cr_expect_eq(nr_told, 0);
	a_lock.held = 0;
	kv_fork_del(&node);
	kv_free(object);
}

Test(fork, child_has_the_next_epoch)
{
	fork_once();
}

static int refuse(void *ctx, void *pages, size_t bytes)
{
	return -EINVAL;
}

Test(fork, child_has_the_next_epoch_where_the_kernel_clears_no_page)
{
	struct kv_sys_ops sys = kv_sys_system;

	sys.wipe_on_fork = refuse;
	kv_sys_set(&sys);
	kv_fork_wipe();
	kv_sys_set(NULL);
	cr_assert_eq(madvise(&kv_epoch_page, sizeof(kv_epoch_page), MADV_KEEPONFORK), 0);
	fork_once();
	kv_fork_wipe();
	fork_once();
}

static u32 nr_counted;		/* a_lock; not atomic on purpose */

static void *count_up(void *arg)
{
	for (u32 i = 0; i < 1000; i++) {
		kv_lock(&a_lock);
		nr_counted++;
		kv_unlock(&a_lock);
	}
	return NULL;
}

/* As in a handler that is older than ours: no handler has run, and threads come at the same moment. */
static int race_for_epoch(u32 before)
{
	pthread_t thread[4];

	alarm(20);
	if (kv_epoch)
		return 1;
	for (u32 i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, count_up, NULL);
	for (u32 i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return kv_epoch != before + 1 || nr_told != 1 || nr_counted != 4000;
}

Test(fork, child_has_one_epoch_whichever_thread_needs_it_first, .timeout = 60)
{
	struct kv_fork_node node = { 0 };
	u32 before = kv_epoch;

	if (madvise(&kv_epoch_page, sizeof(kv_epoch_page), MADV_WIPEONFORK))
		cr_skip_test("the kernel clears no page in children");
	kv_fork_add(&node, count_told);
	a_lock.held = kv_epoch;	/* by another thread */
	for (u32 i = 0; i < 100; i++) {
		pid_t pid = _Fork();

		if (!pid)
			_exit(race_for_epoch(before));
		cr_assert(exits_with_0(pid));
	}
	kv_fork_del(&node);
}
