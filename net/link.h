/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A giver's connection: the greeting, the window, and one job at a time.
 *
 *	GREETING --hello--> WINDOWING --window--> READY
 */
#ifndef NET_LINK_H
#define NET_LINK_H

#include "conn.h"
#include "job.h"
#include "window.h"

enum link_state { LINK_NEW, LINK_GREETING, LINK_READY };

struct kvmm_migrate_link {
	struct kv_pool_view view;	/* of the pool on this side */
	struct kvmm_pool *pool;		/* borrowed */
	struct conn conn;
	enum link_state state;
	struct window window;		/* ours; READY */
	struct kvmm_migrate *job;	/* that uses it, or NULL */
};

/* Until it is READY: 0; -EINPROGRESS; or why not. */
int link_greet(struct kvmm_migrate_link *link);
/* A message of migration @id, attempt @gen: 1; 0; or why the link is broken. Others are skipped. */
int link_next(struct kvmm_migrate_link *link, const struct wire_id *id, u32 gen,
	      struct wire_msg *msg);

#endif /* NET_LINK_H */
