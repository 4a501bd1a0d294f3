/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the control socket. */
#ifndef CTL_CONTROL_H
#define CTL_CONTROL_H

#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/sock.h>

#include "command.h"
#include "metrics.h"
#include "peer.h"

struct kvmm_control {
	/* Fixed at creation. */
	struct kvmm_control_attr	attr;
	char				name[KVMM_CONTROL_NAME];
	char				path[108];
	const struct kv_command_set	*const *sets;	/* KV_NR_COMMAND_SETS of them */
	int				fd;		/* ours; listens; -1 in a child */
	int				watch;		/* ours */
	int				bell;		/* ours; ends the thread; -1: none */
	void				*thread;	/* NULL: there is none */

	/* The pools, and the work begun with them. Held while a command is carried out. */
	struct kv_lock			lock;
	struct kv_control_pool		*pools;		/* ->lock; ours; in the order of names */
	struct views			views;		/* ->lock; ours; of all pools; ... */
	u64				viewed_ns;	/* ->lock; ...taken then */
	bool				has_views;	/* ->lock */

	/* The poller's; only tried. Guards all that follows, but for atomic fields. */
	struct kv_lock			poll_lock;
	struct kv_peer			**peer;		/* ours; attr.max_clients, or NULL each */
	u32				turn;		/* the peer that is served first */
	bool				is_shut;	/* no client is let in for a while... */
	u64				shut_ns;	/* ...since then */
	struct kvmm_control_stat	stat;		/* atomic; the poller writes */

	u32				stop;		/* atomic; set by kvmm_control_close() */
	struct kv_fork_node		fork_node;	/* its list's */
};

static inline int control_refusal(const struct kvmm_control *control)
{
	if (!control)
		return -EINVAL;
	return kv_inherited(control) ? -ECHILD : 0;
}

/*
 * The pools as they were within the last millisecond, however often a client asks: the call's pool,
 * else the one that argument @i names, else all. Valid while ->lock is held.
 */
int control_views(struct kv_control_call *call, u32 i, struct views *shown);
/* The same by the first argument, and -EUCLEAN if the one pool is closed. */
int control_open_views(struct kv_control_call *call, struct views *shown);

/*
 * Under @head, rows of the pool that the only argument names, or of all if there is none. One that
 * is closed is left out of all, and an error by name.
 */
int control_rows(struct kv_control_call *call, const char *head,
		 void (*write)(struct kv_text *text, const struct pool_view *view));

/* Pools came or went, or something is steered: look anew. ->lock held, or the end. */
void control_forget_views(struct kvmm_control *control);

/* All pools are removed: nothing serves any more. */
void control_end_pools(struct kvmm_control *control);

/* One round: wait at most @timeout_ms, then serve. Milliseconds to the next. ->poll_lock held. */
u32 control_round(struct kvmm_control *control, int timeout_ms);

/* A socket and its folder, as the attributes say: 0, or -errno and nothing is left. In socket.c. */
int control_listen(struct kvmm_control *control);

#endif /* CTL_CONTROL_H */
