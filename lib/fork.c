// SPDX-License-Identifier: Apache-2.0
/*
 * The list of those who have to know of a fork.
 *
 * The list's lock is held over the fork, so that the child gets a whole list. It has no other lock
 * inside it, and is taken by nobody who waits for a grace period: a fork waits for as long as a
 * node needs to be linked.
 */
#include <kv/fork.h>
#include <kv/lock.h>

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

void kv_fork_before(void)
{
	kv_lock(&list_lock);
}

void kv_fork_after(bool is_child)
{
	for (struct kv_fork_node *node = is_child ? list : NULL; node; node = node->next)
		node->in_child(node);
	kv_unlock(&list_lock);
}
