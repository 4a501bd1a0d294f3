// SPDX-License-Identifier: Apache-2.0
/* A subscriber by libzmq, which is opened when it is needed, as the library does. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

/* Numbers of libzmq 4, which are its interface. */
enum { SUB = 2, SUBSCRIBE = 6, RCVMORE = 13, LINGER = 17, MAXMSGSIZE = 22, RCVHWM = 24,
       RCVTIMEO = 27, NO_MESSAGE = 11 };

#define HIGH_WATER	4096	/* batches that wait to be printed; more are lost, and missing */

static struct {
	void *(*ctx_new)(void);
	int (*ctx_term)(void *context);
	void *(*socket)(void *context, int type);
	int (*close)(void *socket);
	int (*setsockopt)(void *socket, int option, const void *value, size_t bytes);
	int (*getsockopt)(void *socket, int option, void *value, size_t *bytes);
	int (*connect)(void *socket, const char *endpoint);
	int (*recv)(void *socket, void *buf, size_t bytes, int flags);
	int (*get_errno)(void);
	const char *(*strerror)(int error);
} zmq;

static const struct { const char *name; void *at; } symbols[] = {
	{ "zmq_ctx_new", &zmq.ctx_new }, { "zmq_ctx_term", &zmq.ctx_term },
	{ "zmq_socket", &zmq.socket }, { "zmq_close", &zmq.close },
	{ "zmq_setsockopt", &zmq.setsockopt }, { "zmq_getsockopt", &zmq.getsockopt },
	{ "zmq_connect", &zmq.connect }, { "zmq_recv", &zmq.recv },
	{ "zmq_errno", &zmq.get_errno }, { "zmq_strerror", &zmq.strerror },
};

static int fail(struct subscriber *sub, const char *what)
{
	snprintf(sub->why, sizeof(sub->why), "%s: %s", what, zmq.strerror(zmq.get_errno()));
	return -1;
}

static int open_library(struct subscriber *sub)
{
	sub->library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; sub->library && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(sub->library, symbols[i].name);

		if (!symbol) {
			snprintf(sub->why, sizeof(sub->why), "libzmq has no %s", symbols[i].name);
			return -1;
		}
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	if (!sub->library)
		snprintf(sub->why, sizeof(sub->why), "there is no libzmq.so.5");
	return sub->library ? 0 : -1;
}

int subscribe(struct subscriber *sub, const char *endpoint, const char *topic)
{
	int none = 0, wait_ms = 100, high_water = HIGH_WATER;
	int64_t max_bytes = WIRE_MAX_BATCH;

	memset(sub, 0, sizeof(*sub));
	if (open_library(sub))
		return -1;
	sub->buf = malloc(WIRE_MAX_BATCH);
	sub->context = zmq.ctx_new();
	sub->socket = sub->context ? zmq.socket(sub->context, SUB) : NULL;
	if (!sub->buf || !sub->socket)
		return fail(sub, "a socket");
	if (zmq.setsockopt(sub->socket, RCVHWM, &high_water, sizeof(high_water)) ||
	    zmq.setsockopt(sub->socket, MAXMSGSIZE, &max_bytes, sizeof(max_bytes)) ||
	    zmq.setsockopt(sub->socket, LINGER, &none, sizeof(none)) ||
	    zmq.setsockopt(sub->socket, RCVTIMEO, &wait_ms, sizeof(wait_ms)) ||
	    zmq.setsockopt(sub->socket, SUBSCRIBE, topic, strlen(topic)) ||
	    zmq.connect(sub->socket, endpoint))
		return fail(sub, endpoint);
	return 0;
}

void unsubscribe(struct subscriber *sub)
{
	if (sub->socket)
		zmq.close(sub->socket);
	if (sub->context)
		zmq.ctx_term(sub->context);
	if (sub->library)
		dlclose(sub->library);
	free(sub->buf);
	memset(sub, 0, sizeof(*sub));
}

/* The next part of a message: bytes that it had, or -1. */
static int part(struct subscriber *sub, bool *more)
{
	int nr = zmq.recv(sub->socket, sub->buf, WIRE_MAX_BATCH, 0), flag = 0;
	size_t bytes = sizeof(flag);

	if (nr >= 0 && zmq.getsockopt(sub->socket, RCVMORE, &flag, &bytes))
		return -1;
	*more = flag;
	return nr;
}

static uint64_t big_endian(const uint8_t *byte)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | byte[i];
	return number;
}

/* Topic, number, payload; anything else is somebody else's. */
int subscriber_next(struct subscriber *sub)
{
	bool more = true;
	int nr[3] = { 0 }, i;

	for (i = 0; more; i++) {
		int bytes = part(sub, &more);

		if (bytes < 0)
			return zmq.get_errno() == NO_MESSAGE || zmq.get_errno() == 4 ? 0 :
									      fail(sub, "receive");
		if (i == 1 && bytes == 8)
			sub->seq = big_endian(sub->buf);
		if (i < 3)
			nr[i] = bytes;
	}
	if (i != 3 || nr[1] != 8 || (size_t)nr[2] > WIRE_MAX_BATCH) {
		snprintf(sub->why, sizeof(sub->why), "a message that is no batch of events");
		return -1;
	}
	sub->nr = (size_t)nr[2];
	return 1;
}
