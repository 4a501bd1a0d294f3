// SPDX-License-Identifier: Apache-2.0
/*
 * One giver, as its taker sees it.
 *
 * A message is handled when it is its time, and a link that sends one at another time is cut: there
 * is nothing to be learnt from a peer that does not keep to the protocol. A request that fails is
 * answered with a status, and the link goes on.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "server.h"

struct session *session_make(int fd, struct tls *tls)
{
	struct session *session = kv_alloc(sizeof(*session));

	if (!session || conn_init(&session->conn, fd, tls)) {
		if (!session) {
			kv_sock()->close(kv_sock()->ctx, fd);
			tls_free(tls);
		}
		kv_free(session);
		return NULL;
	}
	session->window.fd = -1;
	return session;
}

/* ---- answers ---- */

/* About the record of this link. */
static void answer(struct session *session, u32 type, const void *fixed, u32 bytes)
{
	conn_say(&session->conn, type, &session->intake->id, session->intake->gen, fixed, bytes);
}

/* To an offer that there is no record of, or will be none. */
static void answer_accept(struct session *session, const struct wire_id *id, u32 gen, u32 what,
			  s32 status)
{
	const struct wire_accept accept = { status, what, 0, 0 };

	conn_say(&session->conn, WIRE_ACCEPT, id, gen, &accept, sizeof(accept));
}

static void answer_status(struct session *session, u32 type, const struct wire_id *id, u32 gen,
			  s32 status)
{
	const struct wire_status what = { status, 0 };

	conn_say(&session->conn, type, id, gen, &what, sizeof(what));
}

/* ---- the greeting ---- */

static int offer_window(struct kvmm_migrate_server *server, struct session *session, u32 kind)
{
	int err = window_make(&session->window, &server->view, kind, server->window_bytes);

	if (err)
		return err;
	conn_send(&session->conn, &(struct conn_out){
		.type = WIRE_WINDOW, .fixed = &session->window.shape,
		.fixed_bytes = sizeof(session->window.shape), .more = session->window.blob,
		.more_bytes = session->window.blob_bytes, .fd = session->window.fd });
	session->state = SESSION_WINDOW;
	return 0;
}

static int greet(struct kvmm_migrate_server *server, struct session *session,
		 const struct wire_msg *msg)
{
	struct wire_hello hello = wire_hello_of(&server->view), theirs;
	int err = msg->head.type == WIRE_HELLO ? wire_get_hello(msg, &server->view, &theirs) :
						 -EPROTO;
	struct kvmm_pool_stat stat;

	hello.nr_free = kvmm_pool_get_stat(server->pool, &stat) ? 0 : stat.nr_free;
	hello.label = server->label;
	if (err != -EPROTO)
		conn_say(&session->conn, WIRE_HELLO, NULL, 0, &hello, sizeof(hello));
	if (err)
		return err;
	if (server->far_kind)
		return offer_window(server, session, server->far_kind);
	err = server->flags & KVMM_MIGRATE_SERVE_SHARED ? -EOPNOTSUPP :
	      offer_window(server, session, WINDOW_DEVICE);
	return err ? offer_window(server, session, WINDOW_SHARED) : 0;
}

/* It has mapped it, or cannot. */
static int hear_window(struct kvmm_migrate_server *server, struct session *session,
		       const struct wire_msg *msg)
{
	u32 kind = session->window.shape.kind;
	struct wire_window answer;
	const u8 *blob;
	u32 blob_bytes;

	if (msg->head.type != WIRE_WINDOW || wire_get_window(msg, &answer, &blob, &blob_bytes) ||
	    blob_bytes)
		return -EPROTO;
	if (answer.kind == kind) {
		session->deadline_ns = 0;
		session->state = SESSION_READY;
		return 0;
	}
	if (answer.kind != WINDOW_NONE || kind != WINDOW_DEVICE)
		return -EPROTO;
	window_close(&session->window);
	return offer_window(server, session, WINDOW_SHARED);
}

/* ---- the offer ---- */

static void drop_intake(struct session *session)
{
	intake_free(session->intake);
	session->intake = NULL;
	session->dropping = false;
}

static bool is_about(const struct intake *intake, const struct wire_msg *msg)
{
	return intake->gen == msg->head.gen && wire_id_equal(&intake->id, &msg->head.id);
}

static int hear_offer(struct kvmm_migrate_server *server, struct session *session,
		      const struct wire_msg *msg)
{
	int err;

	if (session->intake && is_about(session->intake, msg)) {
		err = intake_more(session->intake, msg);
		if (!err || err == -EPROTO)
			return err;
		answer_accept(session, &msg->head.id, msg->head.gen, WIRE_GO, err);
		server->stat.failed++;
		session->dropping = true;
		return 0;
	}
	if (session->intake || !msg->head.id.half[1])
		return -EPROTO;
	server->stat.offers++;
	session->idle = server_knows(server, &msg->head.id);
	if (session->idle) {
		server->stat.repeated++;
		answer_accept(session, &msg->head.id, msg->head.gen, WIRE_COMMITTED, 0);
		return 0;
	}
	err = intake_make(server->pool, msg, &session->intake);
	if (err && err != -EPROTO)
		answer_accept(session, &msg->head.id, msg->head.gen, WIRE_GO, err);
	return err == -EPROTO ? err : 0;
}

static void send_accept(struct session *session)
{
	const struct intake *intake = session->intake;
	const struct store *store = &intake->store;
	const struct wire_accept accept = { 0, WIRE_GO, intake->nr_done, store->nr_refs };
	u8 bits[KVMM_MIGRATE_MAX_BLOCKS / 8] = { 0 };

	for (u32 i = 0; i < store->nr_refs; i++)
		bits[i / 8] |= store->present[i] << i % 8;
	conn_send(&session->conn, &(struct conn_out){
		.type = WIRE_ACCEPT, .gen = intake->gen, .id = &intake->id, .fixed = &accept,
		.fixed_bytes = sizeof(accept), .more = bits,
		.more_bytes = (accept.nr_refs + 7) / 8, .fd = -1 });
}

static void settle(struct kvmm_migrate_server *server, struct session *session)
{
	struct intake *intake = session->intake;
	int err = intake->state == INTAKE_SETTLE ? intake_settle(intake) : 0;

	if (err == -EINPROGRESS)
		return;
	if (!err) {
		send_accept(session);
		return;
	}
	answer_accept(session, &intake->id, intake->gen, WIRE_GO, err);
	server->stat.failed++;
	drop_intake(session);
}

static int hear_part(struct kvmm_migrate_server *server, struct session *session,
		     const struct wire_msg *msg)
{
	struct intake *intake = session->intake, *before;
	int err;

	/* The rest of an offer that was answered before its end. */
	if (!intake || !is_about(intake, msg))
		return 0;
	if (intake->state != INTAKE_GATHER)
		return -EPROTO;
	err = intake_part(intake, msg);
	if (err || !intake_is_whole(intake))
		return err;
	intake->state = INTAKE_SETTLE;
	/* All is known: is there something of it from before? */
	before = server_resume(server, intake);
	if (before) {
		before->gen = intake->gen;
		before->next = NULL;
		before->next_fill = before->nr_done;
		before->nr_checked = 0;
		before->state = INTAKE_POUR;
		intake_free(intake);
		session->intake = before;
	}
	settle(server, session);
	return 0;
}

/* ---- content ---- */

static int hear_fill(struct kvmm_migrate_server *server, struct session *session,
		     const struct wire_msg *msg)
{
	struct intake *intake = session->intake;
	struct window *window = &session->window;
	struct wire_fill fill;
	int err;

	if (intake->state != INTAKE_POUR || wire_get_fill(msg, &fill) ||
	    window->copy[fill.slot].busy || fill.nr > window->shape.slot_blocks ||
	    fill.first != intake->next_fill || fill.nr > intake->nr - fill.first)
		return -EPROTO;
	err = window_copy(window, fill.slot, intake->to, fill.first, fill.nr, true);
	if (!err) {
		intake->next_fill += fill.nr;
		return 0;
	}
	fill.status = err;
	answer(session, WIRE_DRAIN, &fill, sizeof(fill));
	server->stat.failed++;
	session->dropping = true;
	return 0;
}

/* In order: all parts up to there are done. */
static bool drain_next(struct kvmm_migrate_server *server, struct session *session)
{
	struct intake *intake = session->intake;
	struct window *window = &session->window;
	struct wire_fill drain = { 0 };

	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		struct copy *copy = &window->copy[i];

		if (!copy->busy || copy->first != intake->nr_done)
			continue;
		drain = (struct wire_fill){ i, copy->first, copy->nr, copy_poll(&window->copy[i]) };
		break;
	}
	if (!drain.nr || drain.status == -EINPROGRESS)
		return false;
	answer(session, WIRE_DRAIN, &drain, sizeof(drain));
	if (drain.status) {
		kv_pool_device_failed(intake->store.pool);
		server->stat.failed++;
		session->dropping = true;
		return false;
	}
	intake->nr_done += drain.nr;
	server->stat.bytes += drain.nr * server->view.block_bytes;
	return true;
}

static void pour(struct kvmm_migrate_server *server, struct session *session)
{
	struct intake *intake = session->intake;

	while (conn_has_room(&session->conn) && drain_next(server, session))
		;
	if (!session->dropping && intake->nr_done == intake->nr)
		intake->state = INTAKE_CHECK;
}

/* ---- the end ---- */

static int hear_commit(struct kvmm_migrate_server *server, struct session *session,
		       const struct wire_msg *msg)
{
	struct intake *intake = session->intake;
	int err;

	if (msg->head.bytes || intake->state != INTAKE_CHECKED || !intake_is_last(intake))
		return -EPROTO;
	err = store_publish(&intake->store);
	if (!err)
		server_committed(server, intake);
	else
		server->stat.failed++;
	answer_status(session, WIRE_ACK, &intake->id, intake->gen, err);
	drop_intake(session);
	session->idle = true;
	return 0;
}

static int hear_of_intake(struct kvmm_migrate_server *server, struct session *session,
			  const struct wire_msg *msg)
{
	const struct intake *intake = session->intake;
	s32 status;

	/* Of one that was given up, or refused, while this was on its way. */
	if (!intake || !is_about(intake, msg)) {
		if (msg->head.type == WIRE_COMMIT)
			answer_status(session, WIRE_ABORT, &msg->head.id, msg->head.gen,
				      -ECANCELED);
		return 0;
	}
	switch (msg->head.type) {
	case WIRE_FILL:
		return hear_fill(server, session, msg);
	case WIRE_COMMIT:
		return hear_commit(server, session, msg);
	case WIRE_ABORT:
		if (wire_get_status(msg, &status))
			return -EPROTO;
		server->stat.failed++;
		session->dropping = true;
		return 0;
	}
	return -EPROTO;
}

static int hear(struct kvmm_migrate_server *server, struct session *session,
		const struct wire_msg *msg)
{
	if (session->state == SESSION_GREETING)
		return greet(server, session, msg);
	if (session->state == SESSION_WINDOW)
		return hear_window(server, session, msg);
	switch (msg->head.type) {
	case WIRE_OFFER:
		return hear_offer(server, session, msg);
	case WIRE_NAMES:
	case WIRE_SUMS:
		return hear_part(server, session, msg);
	}
	return hear_of_intake(server, session, msg);
}

/* ---- ticking ---- */

static void check(struct kvmm_migrate_server *server, struct session *session)
{
	struct intake *intake = session->intake;
	int err = intake_check(intake);

	if (err == -EINPROGRESS)
		return;
	answer_status(session, WIRE_VERIFIED, &intake->id, intake->gen, err);
	server->stat.failed += !!err;
	session->dropping = err;
}

/* Work of the record that no message asks for. */
static void step_intake(struct kvmm_migrate_server *server, struct session *session)
{
	struct intake *intake = session->intake;

	if (!intake || session->dropping || !conn_has_room(&session->conn))
		return;
	session->conn.held = true;
	if (intake->state == INTAKE_SETTLE)
		settle(server, session);
	if (session->intake && intake->state == INTAKE_POUR)
		pour(server, session);
	if (session->intake && intake->state == INTAKE_CHECK && !session->dropping)
		check(server, session);
	conn_release(&session->conn);
}

/* Why the link is over; 0 it is not. */
static int hear_all(struct kvmm_migrate_server *server, struct session *session)
{
	struct wire_msg msg;
	int ret = 0;

	/* Messages before the end are still heard. */
	while (!session->dropping && (session->conn.err || conn_has_room(&session->conn)) &&
	       (ret = conn_next(&session->conn, &msg)) > 0) {
		ret = hear(server, session, &msg);
		if (ret)
			break;
	}
	return ret;
}

static void end(struct kvmm_migrate_server *server, struct session *session, int err)
{
	if (err == -EPROTO || err == -EACCES || err == -ETIMEDOUT)
		server->stat.refused++;
	if (err != -ECONNRESET && !session->conn.err)
		answer_status(session, WIRE_ABORT, NULL, 0, err);
	conn_break(&session->conn, err);
	session->over = true;
}

bool session_tick(struct kvmm_migrate_server *server, struct session *session)
{
	int err = 0;

	conn_pump(&session->conn);
	window_progress(&session->window);
	step_intake(server, session);
	if (session->dropping && !window_is_busy(&session->window))
		drop_intake(session);
	if (!session->over)
		err = hear_all(server, session);
	if (!err && session->deadline_ns && kv_clock_ns() >= session->deadline_ns)
		err = -ETIMEDOUT;
	if (err)
		end(server, session, err);
	step_intake(server, session);
	for (u32 i = 0; i < WINDOW_SLOTS && (session->dropping || session->over); i++)
		copy_poll(&session->window.copy[i]);
	return session->over && !window_is_busy(&session->window);
}

void session_free(struct kvmm_migrate_server *server, struct session *session)
{
	window_wait(&session->window);
	/* Where more may come the giver begins anew. */
	if (session->intake && session->intake->state >= INTAKE_POUR && !session->dropping &&
	    !(session->intake->offer.flags & KVMM_MIGRATE_PRECOPY))
		server_keep(server, session->intake);
	else
		intake_free(session->intake);
	window_close(&session->window);
	conn_exit(&session->conn);
	kv_free(session);
}
