/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taker: its listener, its sessions, and its memory of them.
 *
 * All of it belongs to the thread that ticks.
 */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include "conn.h"
#include "intake.h"
#include "window.h"

#define MAX_SESSIONS	64u
#define MAX_WAITING	16u
#define NR_LEDGER	1024u
#define NR_ARRIVALS	256u

enum session_state { SESSION_GREETING, SESSION_WINDOW, SESSION_READY };

/*
 * One link. When it breaks, or a migration on it is given up, copies that are under way end first:
 * until then nothing else is looked at.
 */
struct session {
	struct conn conn;
	enum session_state state;
	struct window window;		/* ours */
	struct intake *intake;		/* ours, or NULL */
	u64 deadline_ns;		/* of its greeting; 0: none */
	bool dropping;			/* the intake goes as soon as no copy is under way */
	bool over;			/* so does the session */
	bool idle;			/* nothing was offered since the last commit */
};

struct kvmm_migrate_server {
	/* Fixed at creation. */
	struct kvmm_pool *pool;		/* borrowed */
	struct kv_pool_view view;
	char *path;			/* ours; or the address of far givers, as it was said */
	u32 far_kind;			/* enum window_kind, of these; or WINDOW_NONE */
	u64 label;			/* wire_label() */
	struct tls_key key;		/* which they know */
	u64 window_bytes;
	u64 lease_ns;
	u32 max_links;
	u32 flags;

	bool is_busy;			/* at the last tick */
	u32 nr_ticks;
	int fd;				/* ours; that listens */
	int watch;			/* ours; all that may be read */
	int timer;			/* ours; watched: the door may be opened again */
	bool door_is_shut;		/* fd is not watched */
	u64 shut_until_ns;
	u64 timer_at_ns;		/* that the timer is set for; 0: it is not */
	struct session *session[MAX_SESSIONS];	/* ours, or NULL */
	struct intake *waiting;		/* ours; without a link, oldest last */
	struct wire_id ledger[NR_LEDGER];	/* committed; a ring */
	u64 nr_ledger;
	struct kvmm_migrate_arrival arrival[NR_ARRIVALS];	/* a ring */
	u64 nr_arrived;
	u64 nr_told;
	struct kvmm_migrate_serve_stat stat;
};

/* ---- session.c ---- */

/* Takes @fd and @tls. NULL: no memory. */
struct session *session_make(int fd, struct tls *tls);
/* Its next work; returns whether it is over, and can be freed. */
bool session_tick(struct kvmm_migrate_server *server, struct session *session);
/* Waits for copies. */
void session_free(struct kvmm_migrate_server *server, struct session *session);

/* ---- server.c ---- */

/* Was it committed? */
bool server_knows(const struct kvmm_migrate_server *server, const struct wire_id *id);
/* It is: told to givers that ask. */
void server_committed(struct kvmm_migrate_server *server, struct intake *intake);
/* The record of the same migration, on a link that broke or will now; or NULL. The caller's. */
struct intake *server_resume(struct kvmm_migrate_server *server, const struct intake *offered);
/* Its link is gone; no copy is under way. Takes it. */
void server_keep(struct kvmm_migrate_server *server, struct intake *intake);

#endif /* NET_SERVER_H */
