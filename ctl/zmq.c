// SPDX-License-Identifier: Apache-2.0
/* ZeroMQ; see zmq.h. */
#include <errno.h>
#include <string.h>

#include <kv/log.h>
#include <kv/sys.h>

#include "zmq.h"

#define LIBRARY	"libzmq.so.5"
#define ANY	"tcp://0.0.0.0:"

static const struct {
	const char *name;
	size_t at;
} symbols[] = {
	{ "zmq_ctx_new", offsetof(struct zmq, ctx_new) },
	{ "zmq_ctx_term", offsetof(struct zmq, ctx_term) },
	{ "zmq_socket", offsetof(struct zmq, socket) },
	{ "zmq_close", offsetof(struct zmq, close) },
	{ "zmq_setsockopt", offsetof(struct zmq, setsockopt) },
	{ "zmq_getsockopt", offsetof(struct zmq, getsockopt) },
	{ "zmq_bind", offsetof(struct zmq, bind) },
	{ "zmq_unbind", offsetof(struct zmq, unbind) },
	{ "zmq_connect", offsetof(struct zmq, connect) },
	{ "zmq_send", offsetof(struct zmq, send) },
	{ "zmq_recv", offsetof(struct zmq, recv) },
	{ "zmq_errno", offsetof(struct zmq, err) },
};

int zmq_open(struct zmq *zmq)
{
	const struct kv_sys_ops *sys = kv_sys();
	const char *why = "there is no " LIBRARY;
	void *library = sys->open_library(sys->ctx, LIBRARY, &why);

	if (!library)
		return kv_refuse(-ENOENT, "kvmm: publisher: %s", why);
	for (u32 i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *symbol = sys->find_symbol(sys->ctx, library, symbols[i].name);

		if (!symbol)
			return kv_refuse(-ENOENT, "kvmm: publisher: " LIBRARY " has no %s",
					 symbols[i].name);
		memcpy((char *)zmq + symbols[i].at, &symbol, sizeof(symbol));
	}
	return 0;
}

/* Its own numbers, from 156384712 on, are of no use to callers. */
static int error_of(const struct zmq *zmq)
{
	int err = zmq->err();

	return err > 0 && err < 4096 ? -err : -EIO;
}

static bool is_bound(int type, const char *endpoint)
{
	return type == ZMQ_ROUTER || strchr(endpoint, '*') || strstr(endpoint, "::") ||
	       !strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "inproc://", 9) ||
	       !strncmp(endpoint, "tcp://127.", 10);
}

int zmq_start(const struct zmq *zmq, void *context, int type, const char *endpoint, u32 high_water,
	      void **result)
{
	int linger = 100, water = high_water, err = 0;
	s64 max_bytes = 4096;
	void *socket = zmq->socket(context, type);

	if (!socket)
		return error_of(zmq);
	if (zmq->setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)) ||
	    zmq->setsockopt(socket, ZMQ_SNDHWM, &water, sizeof(water)) ||
	    zmq->setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof(max_bytes)))
		err = error_of(zmq);
	else if (is_bound(type, endpoint) ? zmq->bind(socket, endpoint) :
					    zmq->connect(socket, endpoint))
		err = error_of(zmq);
	if (err) {
		zmq->close(socket);
		return err;
	}
	*result = socket;
	return 0;
}

void zmq_door(const struct zmq *zmq, void *socket, int type, const char *endpoint,
	      char door[ZMQ_ENDPOINT_BYTES])
{
	size_t bytes = ZMQ_ENDPOINT_BYTES;

	memset(door, 0, ZMQ_ENDPOINT_BYTES);
	if (!is_bound(type, endpoint) || zmq->getsockopt(socket, ZMQ_LAST_ENDPOINT, door, &bytes) ||
	    (strncmp(door, ANY, strlen(ANY)) && strncmp(door, "ipc://", 6)))
		door[0] = '\0';
}

int zmq_bind_door(const struct zmq *zmq, void *socket, const char *door)
{
	char name[ZMQ_ENDPOINT_BYTES] = "tcp://*:";

	if (strncmp(door, ANY, strlen(ANY)))
		return zmq->bind(socket, door);
	strcpy(name + strlen(name), door + strlen(ANY));
	return zmq->bind(socket, name);
}

int zmq_send_parts(const struct zmq *zmq, void *socket, const struct zmq_part *parts, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		int flags = ZMQ_DONTWAIT | (i + 1 < nr ? ZMQ_SNDMORE : 0);

		if (zmq->send(socket, parts[i].bytes, parts[i].nr, flags) < 0)
			return error_of(zmq);
	}
	return 0;
}

int zmq_receive(const struct zmq *zmq, void *socket, struct zmq_request *request)
{
	int more = 1;

	for (request->nr = 0; more; request->nr++) {
		u32 i = min(request->nr, ZMQ_MAX_PARTS - 1);
		size_t bytes = sizeof(more);
		int nr = zmq->recv(socket, request->part[i], ZMQ_PART_BYTES, ZMQ_DONTWAIT);

		if (nr < 0)
			return error_of(zmq);
		request->bytes[i] = nr;
		if (zmq->getsockopt(socket, ZMQ_RCVMORE, &more, &bytes))
			return error_of(zmq);
	}
	return 0;
}
