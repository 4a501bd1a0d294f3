// SPDX-License-Identifier: Apache-2.0
/*
 * Takers: the listener, the givers that come, the migrations that are remembered.
 *
 * A committed migration is remembered by its identifier, so that a giver that did not hear of it
 * can be told again. That list is bounded: should one be forgotten, its cached blocks are found to
 * be there already, and its ranges come twice.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/probe.h>

#include "server.h"
#include "transport.h"

#define DEFAULT_WINDOW_BYTES	(8ull << 20)
#define DEFAULT_LEASE_NS	10000000000ull
#define DEFAULT_LINKS		8u

/* How long a far giver may take until it has the window. */
#define GREETING_NS		10000000000ull

#define DOOR_TICKS	8u

/* How long the door stays shut where descriptors or memory are short. */
#define SHUT_NS			50000000ull

/* ---- committed migrations ---- */

bool server_knows(const struct kvmm_migrate_server *server, const struct wire_id *id)
{
	u64 nr = min(server->nr_ledger, (u64)NR_LEDGER);

	for (u64 i = 0; i < nr; i++)
		if (wire_id_equal(&server->ledger[i], id))
			return true;
	return false;
}

static void push_arrival(struct kvmm_migrate_server *server, const struct intake *intake,
			 kvmm_range_t range, const struct kv_range_kind *kind)
{
	server->arrival[server->nr_arrived++ % NR_ARRIVALS] = (struct kvmm_migrate_arrival){
		.id = { intake->id.half[0], intake->id.half[1] }, .range = range,
		.seq = kind ? kind->seq : 0, .nr_blocks = kind ? kind->nr : intake->offer.nr_refs,
	};
	if (server->nr_arrived - server->nr_told > NR_ARRIVALS)
		server->nr_told = server->nr_arrived - NR_ARRIVALS;
}

void server_committed(struct kvmm_migrate_server *server, struct intake *intake)
{
	static const kvmm_range_t none;

	server->ledger[server->nr_ledger++ % NR_LEDGER] = intake->id;
	server->stat.commits++;
	kv_probe3(migrate, server, intake->offer.nr_refs, intake->offer.nr_ranges);
	if (intake->offer.nr_refs)
		push_arrival(server, intake, none, NULL);
	for (u32 i = 0; i < intake->offer.nr_ranges; i++)
		push_arrival(server, intake, intake->store.range[i], &intake->kind[i]);
}

/* ---- intakes that wait for their giver ---- */

static void give_up(struct kvmm_migrate_server *server, struct intake **at)
{
	struct intake *intake = *at;

	*at = intake->next;
	server->stat.nr_waiting--;
	server->stat.failed++;
	intake_free(intake);
}

void server_keep(struct kvmm_migrate_server *server, struct intake *intake)
{
	struct intake **at = &server->waiting;

	intake->deadline_ns = kv_ns_after(kv_clock_ns(), server->lease_ns);
	intake->next = server->waiting;
	server->waiting = intake;
	server->stat.nr_waiting++;
	if (server->stat.nr_waiting <= MAX_WAITING)
		return;
	while ((*at)->next)
		at = &(*at)->next;
	give_up(server, at);
}

/* By its next attempt a giver says that it has done with the one before. */
static void cut_others(struct kvmm_migrate_server *server, const struct intake *offered)
{
	for (u32 i = 0; i < MAX_SESSIONS; i++) {
		struct session *session = server->session[i];
		struct intake *intake = session ? session->intake : NULL;

		if (!intake || intake == offered || !wire_id_equal(&intake->id, &offered->id))
			continue;
		session_free(server, session);
		server->session[i] = NULL;
	}
}

struct intake *server_resume(struct kvmm_migrate_server *server, const struct intake *offered)
{
	cut_others(server, offered);
	for (struct intake **at = &server->waiting; *at; at = &(*at)->next) {
		struct intake *found = *at;

		if (!wire_id_equal(&found->id, &offered->id))
			continue;
		if (!intake_is_same(found, offered)) {
			give_up(server, at);
			return NULL;
		}
		*at = found->next;
		server->stat.nr_waiting--;
		server->stat.resumed++;
		return found;
	}
	return NULL;
}

static void expire(struct kvmm_migrate_server *server)
{
	u64 now = server->waiting ? kv_clock_ns() : 0;

	for (struct intake **at = &server->waiting; *at;) {
		if ((*at)->deadline_ns <= now)
			give_up(server, at);
		else
			at = &(*at)->next;
	}
}

/* ---- givers that come ---- */

/* A link that a giver keeps for a job to come gives way: that one makes another then. */
static struct session **free_place(struct kvmm_migrate_server *server)
{
	struct session **idle = NULL;

	for (u32 i = 0; i < server->max_links; i++) {
		if (!server->session[i])
			return &server->session[i];
		if (server->session[i]->idle && !server->session[i]->conn.nr_out &&
		    !server->session[i]->conn.nr_in)
			idle = &server->session[i];
	}
	return idle;
}

/* Descriptors or memory are short: a giver at the door would call for ever, and cannot get in. */
static void shut_for_a_while(struct kvmm_migrate_server *server)
{
	server->shut_until_ns = kv_clock_ns() + SHUT_NS;
	server->stat.shut++;
}

/* The door is watched while there is a place, and no shortage. */
static void mind_the_door(struct kvmm_migrate_server *server)
{
	const struct kv_sock_ops *ops = kv_sock();
	bool shut = server->shut_until_ns || !free_place(server);

	if (shut != server->door_is_shut &&
	    !ops->watch_set(ops->ctx, server->watch, server->fd, shut ? 0 : KV_SOCK_IN, false))
		server->door_is_shut = shut;
}

/* For what comes first: the door is opened again, or a giver has been silent for too long. */
static void set_the_timer(struct kvmm_migrate_server *server)
{
	const struct kv_sock_ops *ops = kv_sock();
	u64 at = server->shut_until_ns, now;

	for (u32 i = 0; i < MAX_SESSIONS && server->far_kind; i++) {
		const struct session *session = server->session[i];

		if (session && session->deadline_ns && (!at || session->deadline_ns < at))
			at = session->deadline_ns;
	}
	if (at == server->timer_at_ns)
		return;
	server->timer_at_ns = at;
	now = kv_clock_ns();
	ops->timer(ops->ctx, server->timer, !at ? 0 : at > now ? at - now : 1);
}

/* Of a far one nothing is known but that it has to greet, and soon. NULL: no memory. */
static struct session *meet(struct kvmm_migrate_server *server, int fd)
{
	struct session *session;
	struct tls *tls = NULL;

	if (server->far_kind && tls_make(&server->key, true, &tls)) {
		kv_sock()->close(kv_sock()->ctx, fd);
		return NULL;
	}
	session = session_make(fd, tls);
	if (session && server->far_kind)
		session->deadline_ns = kv_clock_ns() + GREETING_NS;
	return session;
}

/* 0, or -EAGAIN no giver is there, or it cannot be let in now. */
static int let_in(struct kvmm_migrate_server *server)
{
	const struct kv_sock_ops *ops = kv_sock();
	struct session **place = free_place(server);
	int fd;

	/* An offer may lie there: that one is idle no more. */
	if (place && *place)
		conn_look(&(*place)->conn);
	if (!place || (*place && (*place)->conn.nr_in))
		return -EAGAIN;
	fd = server->far_kind ? ops->tcp_accept(ops->ctx, server->fd) :
				ops->accept(ops->ctx, server->fd, false);
	if (fd == -EPERM) {
		server->stat.refused++;
		return 0;
	}
	if (fd < 0 && fd != -EAGAIN)
		shut_for_a_while(server);
	if (fd < 0)
		return -EAGAIN;
	if (*place)
		session_free(server, *place);
	*place = meet(server, fd);
	if (*place && ops->watch_set(ops->ctx, server->watch, fd, KV_SOCK_IN, true)) {
		session_free(server, *place);
		*place = NULL;
	}
	return 0;
}

static void let_all_in(struct kvmm_migrate_server *server)
{
	for (u32 i = 0; i < MAX_SESSIONS; i++) {
		if (server->shut_until_ns && kv_clock_ns() < server->shut_until_ns)
			return;
		server->shut_until_ns = 0;
		if (let_in(server))
			return;
	}
}

static void give_arrival(struct kvmm_migrate_server *server, struct kvmm_migrate_arrival *arrival,
			 size_t size)
{
	static const struct kvmm_migrate_arrival none;
	bool any = server->nr_told < server->nr_arrived;

	kv_give(arrival, size, any ? &server->arrival[server->nr_told % NR_ARRIVALS] : &none,
		sizeof(none));
	server->nr_told += any;
}

/* What UCX has to do until it knows the other side makes no descriptor readable. */
static bool is_busy(const struct kvmm_migrate_server *server, const struct session *session)
{
	return session->intake || (server->far_kind && session->state == SESSION_WINDOW);
}

int kvmm_migrate_serve_tick_sized(struct kvmm_migrate_server *server,
				  struct kvmm_migrate_arrival *arrival, size_t size)
{
	u32 nr_busy = 0;

	if (!server || (arrival && kv_size_is_bad(arrival, size)))
		return -EINVAL;
	if (kv_pool_refusal(server->pool) == -ECHILD)
		return -ECHILD;
	/* Those at the door need not wait long, and each look is a call of the system. */
	if (!server->is_busy || server->nr_ticks++ % DOOR_TICKS == 0)
		let_all_in(server);
	for (u32 i = 0; i < MAX_SESSIONS; i++) {
		if (!server->session[i])
			continue;
		if (session_tick(server, server->session[i])) {
			session_free(server, server->session[i]);
			server->session[i] = NULL;
		} else {
			nr_busy += is_busy(server, server->session[i]);
		}
	}
	mind_the_door(server);
	set_the_timer(server);
	expire(server);
	if (arrival)
		give_arrival(server, arrival, size);
	server->is_busy = nr_busy;
	return nr_busy + server->stat.nr_waiting;
}

/* ---- birth and death ---- */

static int open_socket(struct kvmm_migrate_server *server, const char *addr)
{
	const struct kv_sock_ops *ops = kv_sock();
	u16 port = 0;
	int err;

	server->watch = ops->watch(ops->ctx);
	if (server->watch < 0)
		return server->watch;
	server->fd = server->far_kind ? ops->tcp_listen(ops->ctx, addr, &port) :
					ops->listen(ops->ctx, server->path);
	if (server->fd < 0)
		return server->fd;
	server->stat.port = port;
	server->timer = ops->timer(ops->ctx, -1, 0);
	if (server->timer < 0)
		return server->timer;
	err = ops->watch_set(ops->ctx, server->watch, server->timer, KV_SOCK_IN, true);
	return err ? err : ops->watch_set(ops->ctx, server->watch, server->fd, KV_SOCK_IN, true);
}

/* Far givers: how content goes, where they come, and the key: before anything listens. */
static int find_door(struct kvmm_migrate_server *server, const char *key_file, const char **addr)
{
	int kind = transport_find(server->path, addr), err;
	struct tls *tls;

	if (kind <= 0)
		return kind ? kind : key_file ? -EINVAL : 0;
	server->far_kind = kind;
	err = key_file ? tls_read_key(key_file, &server->key) : -EINVAL;
	if (!err)
		err = tls_make(&server->key, true, &tls);
	if (!err)
		tls_free(tls);
	return err;
}

static int check_attr(const struct kvmm_migrate_serve_attr *attr)
{
	struct kv_pool_view view;

	if (!attr->pool || !attr->path || !kv_name_is_good("socket", attr->path, SIZE_MAX) ||
	    attr->max_links > MAX_SESSIONS ||
	    attr->flags & ~KVMM_MIGRATE_SERVE_SHARED)
		return -EINVAL;
	kv_pool_view(attr->pool, &view);
	return view.dev ? kv_pool_refusal(attr->pool) : -EOPNOTSUPP;
}

int kvmm_migrate_serve(const struct kvmm_migrate_serve_attr *attr,
		       struct kvmm_migrate_server **result)
{
	struct kvmm_migrate_serve_attr known;
	struct kvmm_migrate_server *server;
	const char *addr = NULL;
	int err;

	kv_why_clear();
	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	if (err)
		return err;
	server = kv_alloc(sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->pool = known.pool;
	kv_pool_view(known.pool, &server->view);
	server->window_bytes = known.window_bytes ? known.window_bytes : DEFAULT_WINDOW_BYTES;
	server->lease_ns = known.lease_ns ? known.lease_ns : DEFAULT_LEASE_NS;
	server->max_links = known.max_links ? known.max_links : DEFAULT_LINKS;
	server->flags = known.flags;
	server->label = wire_label(known.label);
	server->fd = server->watch = server->timer = -1;
	server->path = kv_alloc_array(strlen(known.path) + 1, 1);
	if (server->path)
		strcpy(server->path, known.path);
	err = server->path ? find_door(server, known.key_file, &addr) : -ENOMEM;
	if (!err)
		err = open_socket(server, addr);
	if (err)
		kvmm_migrate_serve_end(server);
	else
		*result = server;
	return err;
}

/* The path of a process that was forked is its parent's. */
void kvmm_migrate_serve_end(struct kvmm_migrate_server *server)
{
	const struct kv_sock_ops *ops = kv_sock();

	if (!server || kv_inherited(server))
		return;
	for (u32 i = 0; i < MAX_SESSIONS; i++)
		if (server->session[i])
			session_free(server, server->session[i]);
	while (server->waiting)
		give_up(server, &server->waiting);
	if (server->fd >= 0) {
		ops->close(ops->ctx, server->fd);
		if (!server->far_kind && kv_pool_refusal(server->pool) != -ECHILD)
			ops->unlink(ops->ctx, server->path);
	}
	if (server->timer >= 0)
		ops->close(ops->ctx, server->timer);
	if (server->watch >= 0)
		ops->close(ops->ctx, server->watch);
	kv_free(server->path);
	tls_forget_key(&server->key);
	kv_free(server);
}

/* ---- looking ---- */

int kvmm_migrate_serve_get_stat_sized(const struct kvmm_migrate_server *server,
				      struct kvmm_migrate_serve_stat *stat, size_t size)
{
	struct kvmm_migrate_serve_stat now;

	if (kv_inherited(server))
		return -ECHILD;
	if (!server || kv_size_is_bad(stat, size))
		return -EINVAL;
	now = server->stat;
	now.nr_links = 0;
	now.fd = server->watch;
	for (u32 i = 0; i < MAX_SESSIONS; i++)
		now.nr_links += server->session[i] != NULL;
	kv_give(stat, size, &now, sizeof(now));
	return 0;
}
