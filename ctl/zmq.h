/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ, by the library that is there: opened when the first publisher starts, through the seam to
 * the system, so that tests can put another in its place. Declarations are ours.
 */
#ifndef CTL_ZMQ_H
#define CTL_ZMQ_H

#include <kv/types.h>

/* Numbers of libzmq's. */
#define ZMQ_PUB		1
#define ZMQ_ROUTER	6
#define ZMQ_DONTWAIT	1
#define ZMQ_SNDMORE	2
#define ZMQ_RCVMORE	13
#define ZMQ_LINGER	17
#define ZMQ_MAXMSGSIZE	22
#define ZMQ_SNDHWM	23
#define ZMQ_LAST_ENDPOINT	32

struct zmq {
	void *(*ctx_new)(void);
	int (*ctx_term)(void *context);
	void *(*socket)(void *context, int type);
	int (*close)(void *socket);
	int (*setsockopt)(void *socket, int option, const void *value, size_t bytes);
	int (*getsockopt)(void *socket, int option, void *value, size_t *bytes);
	int (*bind)(void *socket, const char *endpoint);
	int (*unbind)(void *socket, const char *endpoint);
	int (*connect)(void *socket, const char *endpoint);
	int (*send)(void *socket, const void *bytes, size_t nr, int flags);
	int (*recv)(void *socket, void *bytes, size_t nr, int flags);
	int (*err)(void);
};

/* One part of a message. */
struct zmq_part {
	const void *bytes;
	size_t nr;
};

/* 0; -ENOENT there is none, or something is missing in it. */
int zmq_open(struct zmq *zmq);
/* A socket, on the endpoint: 0 or -errno. */
int zmq_start(const struct zmq *zmq, void *context, int type, const char *endpoint, u32 high_water,
	      void **socket);
#define ZMQ_ENDPOINT_BYTES	256u

/*
 * Where a socket of zmq_start() listens, as zmq_unbind() wants to hear it; "": nowhere, or where it
 * must stay. libzmq tries to accept for ever while descriptors are short: it is unbound meanwhile.
 * That takes no descriptor. To bind takes some, and libzmq aborts without one to look for an
 * interface of that name: it looks for none for ipc:// and all addresses, and answers -EMFILE.
 */
void zmq_door(const struct zmq *zmq, void *socket, int type, const char *endpoint,
	      char door[ZMQ_ENDPOINT_BYTES]);
/* 0, or another number: it does not listen again. */
int zmq_bind_door(const struct zmq *zmq, void *socket, const char *door);
/* All parts, without waiting. 0, or -errno: none of it was sent. */
int zmq_send_parts(const struct zmq *zmq, void *socket, const struct zmq_part *parts, u32 nr);

#define ZMQ_MAX_PARTS	8u
#define ZMQ_PART_BYTES	256u

struct zmq_request {
	u32 nr;				/* parts, more than ZMQ_MAX_PARTS are counted only */
	u32 bytes[ZMQ_MAX_PARTS];	/* may be more than fit */
	u8 part[ZMQ_MAX_PARTS][ZMQ_PART_BYTES];
};

/* The next message, without waiting: 0; -EAGAIN none. */
int zmq_receive(const struct zmq *zmq, void *socket, struct zmq_request *request);

#endif /* CTL_ZMQ_H */
