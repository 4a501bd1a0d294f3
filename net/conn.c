// SPDX-License-Identifier: Apache-2.0
/*
 * Messages over a socket: put together from pieces of any length, sent in pieces of any length.
 *
 * Both buffers are bounded: a peer that does not read is not written to, and one that writes more
 * than is handled waits in its own socket.
 */
#include <string.h>

#include <kv/mem.h>

#include "conn.h"

int conn_init(struct conn *conn, int fd, struct tls *tls)
{
	*conn = (struct conn){ .fd = fd, .tls = tls, .in_fd = -1, .out_fd = -1 };
	conn->in = kv_alloc_array(CONN_BYTES, 1);
	conn->out = kv_alloc_array(2 * CONN_BYTES, 1);
	if (conn->in && conn->out)
		return 0;
	conn_exit(conn);
	return -ENOMEM;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		kv_sock()->close(kv_sock()->ctx, *fd);
	*fd = -1;
}

void conn_exit(struct conn *conn)
{
	close_fd(&conn->in_fd);
	close_fd(&conn->fd);
	tls_free(conn->tls);
	kv_free(conn->in);
	kv_free(conn->out);
	conn->tls = NULL;
	conn->in = conn->out = NULL;
	conn->err = conn->err ? conn->err : -ECONNRESET;
}

/* The socket goes at once, so that the other side knows. */
void conn_break(struct conn *conn, int err)
{
	if (conn->err)
		return;
	conn->err = err;
	close_fd(&conn->in_fd);
	close_fd(&conn->fd);
}

/* ---- out ---- */

void conn_send(struct conn *conn, const struct conn_out *out)
{
	struct wire_head head = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = out->type, .gen = out->gen,
		.bytes = out->fixed_bytes + out->more_bytes,
	};
	u8 *at = conn->out + conn->nr_out + sizeof(head);

	if (!conn->err && sizeof(head) + head.bytes > 2 * CONN_BYTES - conn->nr_out)
		conn_break(conn, -EPROTO);
	if (conn->err)
		return;
	if (out->id)
		head.id = *out->id;
	if (out->fixed_bytes)
		memcpy(at, out->fixed, out->fixed_bytes);
	if (out->more_bytes)
		memcpy(at + out->fixed_bytes, out->more, out->more_bytes);
	head.sum = wire_sum(at, head.bytes);
	memcpy(conn->out + conn->nr_out, &head, sizeof(head));
	conn->nr_out += sizeof(head) + head.bytes;
	if (out->fd >= 0)
		conn->out_fd = out->fd;
	if (!conn->held)
		conn_pump(conn);
}

void conn_release(struct conn *conn)
{
	conn->held = false;
	conn_pump(conn);
}

void conn_say(struct conn *conn, u32 type, const struct wire_id *id, u32 gen, const void *fixed,
	      u32 bytes)
{
	conn_send(conn, &(struct conn_out){ .type = type, .gen = gen, .id = id, .fixed = fixed,
					    .fixed_bytes = bytes, .fd = -1 });
}

static s64 send_some(struct conn *conn)
{
	const struct kv_sock_ops *ops = kv_sock();
	const u8 *from = conn->out + conn->nr_sent;
	u32 nr = conn->nr_out - conn->nr_sent;

	return conn->tls ? tls_send(conn->tls, conn->fd, from, nr) :
	       ops->send(ops->ctx, conn->fd, from, nr, &conn->out_fd, conn->out_fd >= 0);
}

/* What is said of a broken socket: that the other side is not the right one, or is not there. */
static int reason_of(s64 err)
{
	return err == -EACCES || err == -EPROTO ? (int)err : -ECONNRESET;
}

void conn_pump(struct conn *conn)
{
	while (!conn->err && conn->nr_sent < conn->nr_out) {
		s64 sent = send_some(conn);

		if (sent < 0) {
			if (!kv_sock_is_passing(sent))
				conn_break(conn, reason_of(sent));
			break;
		}
		conn->nr_sent += sent;
		if (sent)
			conn->out_fd = -1;
	}
	if (conn->nr_sent) {
		memmove(conn->out, conn->out + conn->nr_sent, conn->nr_out - conn->nr_sent);
		conn->nr_out -= conn->nr_sent;
		conn->nr_sent = 0;
	}
}

/* ---- in ---- */

/* No message has more than one, and each is taken before the next one comes. */
static int keep_fds(struct conn *conn, int *fds, u32 nr)
{
	bool fits = nr <= (conn->in_fd < 0);

	for (u32 i = 0; i < nr && !fits; i++)
		close_fd(&fds[i]);
	if (nr && fits)
		conn->in_fd = fds[0];
	return fits ? 0 : -EPROTO;
}

static s64 recv_some(struct conn *conn, int *fds, u32 *nr_fds)
{
	const struct kv_sock_ops *ops = kv_sock();
	u8 *to = conn->in + conn->nr_in;
	u32 nr = CONN_BYTES - conn->nr_in;

	return conn->tls ? tls_recv(conn->tls, conn->fd, to, nr) :
	       ops->recv(ops->ctx, conn->fd, to, nr, fds, nr_fds);
}

static void pump_in(struct conn *conn)
{
	while (!conn->err && conn->nr_in < CONN_BYTES) {
		int fds[KV_SOCK_FDS];
		u32 nr_fds = 0;
		s64 nr = recv_some(conn, fds, &nr_fds);

		if (kv_sock_is_passing(nr))
			break;
		if (keep_fds(conn, fds, nr < 0 ? 0 : nr_fds) || nr == -EPROTO)
			conn_break(conn, -EPROTO);
		else if (nr <= 0)
			conn->err = reason_of(nr);	/* earlier messages are still handled */
		else
			conn->nr_in += nr;
	}
}

int conn_look(struct conn *conn)
{
	pump_in(conn);
	return conn->err;
}

int conn_next(struct conn *conn, struct wire_msg *msg)
{
	int len;

	if (!conn->in)
		return conn->err;
	if (conn->nr_used) {
		memmove(conn->in, conn->in + conn->nr_used, conn->nr_in - conn->nr_used);
		conn->nr_in -= conn->nr_used;
		conn->nr_used = 0;
	}
	len = wire_parse(conn->in, conn->nr_in, msg);
	if (!len) {
		conn_pump(conn);
		pump_in(conn);
		len = wire_parse(conn->in, conn->nr_in, msg);
	}
	if (len > 0) {
		conn->nr_used = len;
		return 1;
	}
	if (len < 0) {
		conn->nr_in = 0;
		conn_break(conn, len);
		conn->err = conn->err == -ECONNRESET ? len : conn->err;
	}
	return conn->err;
}

int conn_take_fd(struct conn *conn)
{
	int fd = conn->in_fd;

	conn->in_fd = -1;
	return fd < 0 ? -ENOENT : fd;
}
