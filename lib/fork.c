// SPDX-License-Identifier: Apache-2.0
/*
 * Forks: the epoch of this process, and the list of objects that are told of one.
 *
 * The list's lock and that of deferred frees are held over the fork, so that the child gets both whole.
 * Threads hold them for a few instructions, wait for nothing meanwhile and call nothing outside this
 * file and lib/rcu.c: a fork waits for no reader, no grace period and no other library, and cannot
 * deadlock with handlers of theirs, nor with those of a second copy of this library in the process.
 */
#include <pthread.h>

#include <kv/fork.h>
#include <kv/lock.h>

#include "internal.h"

u32 kv_epoch = 1;

static struct kv_lock list_lock = { .rank = KV_RANK_CONFIG, .id = UINT32_MAX };
static struct kv_fork_node *list;	/* list_lock */

void kv_fork_add(struct kv_fork_node *node, void (*in_child)(struct kv_fork_node *node))
{
	kv_lock(&list_lock);
	node->in_child = in_child;
	node->next = list;
	node->prev = &list;
	if (list)
		list->prev = &node->next;
	list = node;
	kv_unlock(&list_lock);
}

void kv_fork_del(struct kv_fork_node *node)
{
	kv_lock(&list_lock);
	if (node->prev) {
		*node->prev = node->next;
		if (node->next)
			node->next->prev = node->prev;
		node->prev = NULL;
	}
	kv_unlock(&list_lock);
}

static void before_fork(void)
{
	kv_lock(&list_lock);
	rcu_before_fork();
}

static void after_fork(void)
{
	rcu_after_fork();
	kv_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
	/* First: from here on the locks of other threads are free. */
	WRITE_ONCE(kv_epoch, kv_epoch + 1);
	stat_forked();
	rcu_forked();
	for (struct kv_fork_node *node = list; node; node = node->next)
		node->in_child(node);
	after_fork();
}

/* If this fails (out of memory at start-up), only a child that goes on using us may hang. */
static void __attribute__((constructor)) watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
