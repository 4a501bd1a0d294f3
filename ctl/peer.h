/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the control socket.
 *
 *	         request            answer ready
 *	LISTENS ---------> (run) -----------------> TALKS
 *	   ^                                          |
 *	   +------------------------------------------+ all sent
 *
 * While it talks nothing is read: a client that does not take its answer is not asked for more. So
 * a client costs a request, an answer, and its place in the table, at most.
 */
#ifndef CTL_PEER_H
#define CTL_PEER_H

#include <kv/types.h>
#include <kvmm/ext/control.h>

#include "text.h"

#define PEER_HEAD	128u

struct kv_peer {
	int		fd;			/* ours */
	u32		wants;			/* KV_SOCK_* that it is watched for */
	u32		ready;			/* KV_SOCK_* of this round */
	bool		is_last;		/* close it when all is sent */

	char		in[KVMM_CONTROL_REQUEST_BYTES];
	u32		nr_in;
	u32		nr_line;		/* of these, the first line with its end; 0: none */

	char		head[PEER_HEAD];	/* of the answer, or the greeting */
	u32		nr_head;
	struct kv_text	body;			/* ours */
	u32		nr_sent;		/* of head and body; all: it listens */

	u64		nr_requests;
	u64		came_ns;
	u64		heard_ns;		/* when it came, or of the end of the last answer */
	u64		took_ns;		/* when it last took something of an answer */
	u64		due_ns;			/* next request may come, less a second's worth */
};

/* Takes @fd. NULL: no memory, and the caller's. */
struct kv_peer *peer_make(int fd, u64 now_ns, u32 max_answer);
void peer_free(struct kv_peer *peer);

static inline bool peer_talks(const struct kv_peer *peer)
{
	return peer->nr_sent < peer->nr_head + peer->body.len;
}

/* Read and write without waiting. 0, or -errno: it is to be closed. */
int peer_move(struct kv_peer *peer, u64 now_ns, u64 *nr_bytes);

/* Head and body of an answer; @peer->body is there. */
void peer_answer(struct kv_peer *peer, int err, u64 now_ns);

/* A whole line waits, and the one before is answered. */
static inline bool peer_asks(const struct kv_peer *peer)
{
	return peer->nr_line && !peer_talks(peer);
}

/* The line as a string; it is no longer in the buffer. NULL: it is no text. */
char *peer_take_line(struct kv_peer *peer, char line[KVMM_CONTROL_REQUEST_BYTES]);

/* The events it should be watched for. */
u32 peer_wants(const struct kv_peer *peer);

#endif /* CTL_PEER_H */
