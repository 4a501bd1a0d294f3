/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the control socket. */
#ifndef CTL_CONTROL_H
#define CTL_CONTROL_H

#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/sock.h>

#include "command.h"
#include "peer.h"

struct kvmm_control {
	/* Fixed at creation. */
	struct kvmm_control_attr	attr;
	char				name[KVMM_CONTROL_NAME];
	char				path[108];
	int				fd;		/* ours; listens; -1 in a child */
	int				watch;		/* ours */
	int				bell;		/* ours; ends the thread; -1: none */
	void				*thread;	/* NULL: there is none */

	/* The pools, and the work begun with them. Held while a command is carried out. */
	struct kv_lock			lock;
	struct kv_control_pool		*pools;		/* ->lock; ours; in the order of names */
	struct views			*views;		/* ->lock; ours; of all, or NULL; ... */
	u64				viewed_ns;	/* ->lock; ...since then: cmd_metrics.c */

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

#define CONTROL_GLANCE_NS	1000000ull	/* a glance counts for so long */

/* Pools came or went, or something is steered: look anew. ->lock held, or the end. */
void control_forget_views(struct kvmm_control *control);

/* One round: wait at most @timeout_ms, then serve. Milliseconds to the next. ->poll_lock held. */
u32 control_round(struct kvmm_control *control, int timeout_ms);

/* A socket and its folder, as the attributes say: 0, or -errno and nothing is left. In socket.c. */
int control_listen(struct kvmm_control *control);

#endif /* CTL_CONTROL_H */
