// SPDX-License-Identifier: Apache-2.0
/*
 * Forks: the epoch of this process, and the list of objects that are told of one.
 *
 * No lock is held over a fork, so that handlers which run inside ours can use the library: those of
 * libraries that registered theirs before ours was loaded. A lock of the parent is free in a child,
 * and the list can be followed there at any moment: one store adds a node or takes it off.
 *
 * A kernel that does not clear the page leaves a child the parent's epoch until our handler runs.
 */
#include <pthread.h>

#include <kv/env.h>
#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/sys.h>

#include "internal.h"

/* Another thread closes the objects of the parent: microseconds. */
#define BEGIN_SLEEP_NS	50000ull

struct kv_epoch_page kv_epoch_page;

static u32 newest;			/* the last one given; the thread that set ->begun */
static bool is_wiped;			/* children find the page cleared */

static struct kv_lock list_lock = { .rank = KV_RANK_CONFIG, .id = UINT32_MAX };
static struct kv_fork_node *list;	/* list_lock; followed by begin() without */

void kv_fork_add(struct kv_fork_node *node, void (*in_child)(struct kv_fork_node *node))
{
	kv_lock(&list_lock);
	node->in_child = in_child;
	node->next = list;
	node->prev = &list;
	if (list)
		list->prev = &node->next;
	/* Pairs with begin(): a child that finds the node finds it whole. */
	smp_store_release(&list, node);
	kv_unlock(&list_lock);
}

void kv_fork_del(struct kv_fork_node *node)
{
	kv_lock(&list_lock);
	if (node->prev) {
		WRITE_ONCE(*node->prev, node->next);
		if (node->next)
			node->next->prev = node->prev;
		node->prev = NULL;
	}
	kv_unlock(&list_lock);
}

static void begin(void)
{
	struct kv_fork_node *node;

	stat_forked();
	rcu_forked();
	sys_forked();
	for (struct kv_fork_node **at = &list; (node = *at); at = &node->next) {
		/* It may be that of before a change that was under way. */
		node->prev = at;
		node->in_child(node);
	}
	/* Pairs with kv_fork_look(). */
	smp_store_release(&kv_epoch, ++newest);
}

/* Threads of a child are there before its epoch if another library's handler has started them. */
noinline void __kv_fork_begin(void)
{
	const struct kv_env_ops *env = kv_env();
	u32 none = 0;

	if (kv_cas(&kv_epoch_page.begun, &none, 1))
		begin();
	/* Acquire pairs with begin(). */
	while (!smp_load_acquire(&kv_epoch))
		env->wait(env->ctx, &kv_epoch, 0, BEGIN_SLEEP_NS);
}

static void after_fork_in_child(void)
{
	if (!is_wiped)
		kv_epoch_page = (struct kv_epoch_page){ 0 };
	kv_fork_look();
	stat_drop_aside();
}

void kv_fork_wipe(void)
{
	const struct kv_sys_ops *ops = kv_sys();

	is_wiped = ops->wipe_on_fork && !ops->wipe_on_fork(ops->ctx, &kv_epoch_page,
							   sizeof(kv_epoch_page));
}

/* If this fails (out of memory at start-up), a child is not known where the page is not cleared. */
static void __attribute__((constructor)) watch_forks(void)
{
	kv_fork_look();
	kv_fork_wipe();
	pthread_atfork(stat_set_aside, stat_take_back, after_fork_in_child);
}
