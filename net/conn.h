/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: whole messages in and out of a socket that does not wait; encrypted, if it leads to
 * another machine.
 *
 * An error that breaks it is kept, and is the answer to everything from then on. No lock: it
 * belongs to one link, or one session.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include <kv/sock.h>

#include "tls.h"
#include "wire.h"

#define CONN_BYTES	(WIRE_MAX_BYTES + (u32)sizeof(struct wire_head))

struct conn {
	int fd;				/* ours; -1: none */
	struct tls *tls;		/* ours; NULL: a socket of this machine */
	int err;			/* why it is broken; or 0 */
	bool held;			/* messages wait for conn_release(): they go together */
	u8 *in;				/* ours; room for CONN_BYTES */
	u32 nr_in;
	u32 nr_used;			/* of these, of the message given out by conn_next() */
	u8 *out;			/* ours; room for twice CONN_BYTES */
	u32 nr_out;
	u32 nr_sent;
	int out_fd;			/* goes with the first byte left; -1: none; the sender's */
	int in_fd;			/* ours; that came, and is not taken; -1: none */
};

/* Takes @fd and @tls, also on failure. 0 or -ENOMEM. */
int conn_init(struct conn *conn, int fd, struct tls *tls);
void conn_exit(struct conn *conn);
void conn_break(struct conn *conn, int err);

/* Room for a message of any length? */
static inline bool conn_has_room(const struct conn *conn)
{
	return !conn->err && conn->nr_out <= CONN_BYTES;
}

/**
 * struct conn_out - a message to be sent
 * @type: enum wire_type
 * @gen, @id: of the migration; NULL: before there is one
 * @fixed, @fixed_bytes: of the payload the first part, and
 * @more, @more_bytes: the second; may be none
 * @fd: -1, or a descriptor that goes along; it stays the caller's, and open until all has been sent
 */
struct conn_out {
	u32 type;
	u32 gen;
	const struct wire_id *id;
	const void *fixed;
	u32 fixed_bytes;
	const void *more;
	u32 more_bytes;
	int fd;
};

/* conn_has_room() has said so: it will be sent. What finds no room breaks the connection. */
void conn_send(struct conn *conn, const struct conn_out *out);

/* One of one part; @id as there. */
void conn_say(struct conn *conn, u32 type, const struct wire_id *id, u32 gen, const void *fixed,
	      u32 bytes);

void conn_release(struct conn *conn);

/* Send and receive without waiting. */
void conn_pump(struct conn *conn);

/* Whether the other side is there: 0 so far; or why it is broken. A message given out stays. */
int conn_look(struct conn *conn);

/* The next whole message, until the next call: 1; 0 none yet; or why it is broken. */
int conn_next(struct conn *conn, struct wire_msg *msg);
/* A descriptor that has come, which is the caller's from then on; or -ENOENT. */
int conn_take_fd(struct conn *conn);

#endif /* NET_CONN_H */
