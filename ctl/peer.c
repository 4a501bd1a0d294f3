// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of a client: lines in, answers out, and never more of either than there is room for.
 */
#include <stdio.h>
#include <string.h>

#include <kv/mem.h>
#include <kv/sock.h>

#include "peer.h"

struct kv_peer *peer_make(int fd, u64 now_ns, u32 max_answer)
{
	struct kv_peer *peer = kv_alloc(sizeof(*peer));

	if (!peer)
		return NULL;
	peer->fd = fd;
	peer->came_ns = peer->heard_ns = peer->took_ns = now_ns;
	kv_text_init(&peer->body, max_answer);
	return peer;
}

void peer_free(struct kv_peer *peer)
{
	kv_sock()->close(kv_sock()->ctx, peer->fd);
	kv_text_exit(&peer->body);
	kv_free(peer);
}

static void find_line(struct kv_peer *peer)
{
	const char *end = memchr(peer->in, '\n', peer->nr_in);

	peer->nr_line = end ? end - peer->in + 1 : 0;
}

static int receive(struct kv_peer *peer)
{
	const struct kv_sock_ops *ops = kv_sock();
	int fds[KV_SOCK_FDS];
	u32 nr_fds = 0;
	s64 nr;

	if (peer->nr_in == sizeof(peer->in))
		return 0;
	nr = ops->recv(ops->ctx, peer->fd, peer->in + peer->nr_in, sizeof(peer->in) - peer->nr_in,
		       fds, &nr_fds);
	/* No client has anything to pass on to us: it is closed again. */
	while (nr_fds)
		ops->close(ops->ctx, fds[--nr_fds]);
	if (kv_sock_is_passing(nr))
		return 0;
	if (nr <= 0)
		return nr ? nr : -ECONNRESET;
	peer->nr_in += nr;
	find_line(peer);
	return 0;
}

static int send_all(struct kv_peer *peer, u64 now_ns, u64 *nr_bytes)
{
	const struct kv_sock_ops *ops = kv_sock();

	while (peer_talks(peer)) {
		bool in_head = peer->nr_sent < peer->nr_head;
		u32 at = peer->nr_sent - (in_head ? 0 : peer->nr_head);
		s64 nr = ops->send(ops->ctx, peer->fd, (in_head ? peer->head : peer->body.buf) + at,
				   (in_head ? peer->nr_head : peer->body.len) - at, NULL, 0);

		if (kv_sock_is_passing(nr) || !nr)
			return 0;
		if (nr < 0)
			return nr;
		peer->nr_sent += nr;
		peer->took_ns = now_ns;
		*nr_bytes += nr;
	}
	peer->nr_sent = peer->nr_head = 0;
	kv_text_exit(&peer->body);
	peer->heard_ns = now_ns;
	return peer->is_last ? -ESHUTDOWN : 0;
}

int peer_move(struct kv_peer *peer, u64 now_ns, u64 *nr_bytes)
{
	int err = 0;

	if (peer->ready & KV_SOCK_GONE)
		return -ECONNRESET;
	if (peer_talks(peer))
		err = send_all(peer, now_ns, nr_bytes);
	if (!err && peer->ready & KV_SOCK_IN && !peer_talks(peer))
		err = receive(peer);
	return err;
}

void peer_answer(struct kv_peer *peer, int err, u64 now_ns)
{
	if (err)
		peer->nr_head = snprintf(peer->head, sizeof(peer->head), "err %d %u\n", -err,
					 peer->body.len);
	else
		peer->nr_head = snprintf(peer->head, sizeof(peer->head), "ok %u\n", peer->body.len);
	peer->nr_sent = 0;
	peer->took_ns = now_ns;
}

char *peer_take_line(struct kv_peer *peer, char line[KVMM_CONTROL_REQUEST_BYTES])
{
	u32 nr = peer->nr_line - 1;

	memcpy(line, peer->in, nr);
	peer->nr_in -= peer->nr_line;
	memmove(peer->in, peer->in + peer->nr_line, peer->nr_in);
	find_line(peer);
	if (nr && line[nr - 1] == '\r')
		nr--;
	line[nr] = '\0';
	for (u32 i = 0; i < nr; i++)
		if (((u8)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
			return NULL;
	return line;
}

u32 peer_wants(const struct kv_peer *peer)
{
	if (peer_talks(peer))
		return KV_SOCK_OUT;
	return peer->nr_line ? 0 : KV_SOCK_IN;
}
