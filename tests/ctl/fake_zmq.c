// SPDX-License-Identifier: Apache-2.0
/* See fake_zmq.h. */
#include <errno.h>
#include <string.h>

#include "ctl/zmq.h"
#include "tests/ctl/fake_zmq.h"

struct fake_zmq fake_zmq;

/* By type: what a socket is. */
static char sockets[ZMQ_ROUTER + 1];

/* Of the part that was received last. */
static __thread bool more_follow;

static bool fails(void)
{
	return kv_fetch_add(&fake_zmq.nr_calls, 1) + 1 == fake_zmq.fail_at;
}

static void *make(void *what)
{
	if (fails())
		return NULL;
	fake_zmq.nr_open++;
	return what;
}

static void *fake_ctx_new(void)
{
	return make(&fake_zmq);
}

static void *fake_socket(void *context, int type)
{
	return make(&sockets[type]);
}

static int fake_close(void *what)
{
	fake_zmq.nr_open--;
	return 0;
}

static int fake_setsockopt(void *socket, int option, const void *value, size_t bytes)
{
	if (option == ZMQ_SNDHWM)
		memcpy(socket == &sockets[ZMQ_ROUTER] ? &fake_zmq.router_water : &fake_zmq.pub_water,
		       value, bytes);
	return fails() ? -1 : 0;
}

static int fake_getsockopt(void *socket, int option, void *value, size_t *bytes)
{
	int more = more_follow;

	if (option == ZMQ_LAST_ENDPOINT) {
		strcpy(value, "tcp://0.0.0.0:5557");
		return 0;
	}
	memcpy(value, &more, sizeof(more));
	return fails() ? -1 : 0;
}

static int fake_bind(void *socket, const char *endpoint)
{
	if (READ_ONCE(fake_zmq.is_taken))
		return kv_fetch_add(&fake_zmq.nr_taken, 1), -1;
	kv_fetch_add(&fake_zmq.nr_resolved, !strstr(endpoint, "//*:"));
	kv_fetch_add(&fake_zmq.nr_bound, 1);
	return fails() ? -1 : 0;
}

static int fake_unbind(void *socket, const char *endpoint)
{
	kv_fetch_add(&fake_zmq.nr_unbound, !strcmp(endpoint, "tcp://0.0.0.0:5557"));
	return fails() ? -1 : 0;
}

static int fake_connect(void *socket, const char *endpoint)
{
	fake_zmq.nr_connected++;
	return fails() ? -1 : 0;
}

static int fake_send(void *socket, const void *bytes, size_t nr, int flags)
{
	bool more = flags & ZMQ_SNDMORE;

	if (fake_zmq.is_full && socket == &sockets[ZMQ_ROUTER])
		return -1;
	kv_fetch_add(&fake_zmq.nr_sent, !more);
	kv_fetch_add(&fake_zmq.nr_waits, !(flags & ZMQ_DONTWAIT));
	if (fake_zmq.hears)
		fake_zmq.hears((char *)socket - sockets, bytes, nr, more);
	return fake_zmq.refuses && socket == &sockets[ZMQ_PUB] && !more ? -1 : (int)nr;
}

static int fake_recv(void *socket, void *bytes, size_t nr, int flags)
{
	kv_fetch_add(&fake_zmq.nr_waits, !(flags & ZMQ_DONTWAIT));
	return fake_zmq.asks ? fake_zmq.asks(bytes, nr, &more_follow) : -1;
}

static int fake_errno(void)
{
	return fake_zmq.err ? fake_zmq.err : EADDRINUSE;
}

static const struct {
	const char *name;
	void *fn;
} symbols[] = {
	{ "zmq_ctx_new", fake_ctx_new }, { "zmq_ctx_term", fake_close },
	{ "zmq_socket", fake_socket }, { "zmq_close", fake_close },
	{ "zmq_setsockopt", fake_setsockopt }, { "zmq_getsockopt", fake_getsockopt },
	{ "zmq_bind", fake_bind }, { "zmq_unbind", fake_unbind },
	{ "zmq_connect", fake_connect }, { "zmq_send", fake_send },
	{ "zmq_recv", fake_recv }, { "zmq_errno", fake_errno },
};

static void *fake_open(void *ctx, const char *path, const char **why)
{
	*why = "not there";
	return fake_zmq.no_library ? NULL : &fake_zmq;
}

static void *fake_find(void *ctx, void *library, const char *name)
{
	if (fake_zmq.no_symbol && !strcmp(name, fake_zmq.no_symbol))
		return NULL;
	for (u32 i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(name, symbols[i].name))
			return symbols[i].fn;
	return NULL;
}

static int fake_spawn(void *ctx, void (*fn)(void *arg), void *arg, void **thread)
{
	return fake_zmq.no_thread ? -EAGAIN : kv_sys_system.spawn(ctx, fn, arg, thread);
}

void fake_zmq_install(void)
{
	memset(&fake_zmq, 0, sizeof(fake_zmq));
	fake_zmq.sys = kv_sys_system;
	fake_zmq.sys.open_library = fake_open;
	fake_zmq.sys.find_symbol = fake_find;
	fake_zmq.sys.spawn = fake_spawn;
	kv_sys_set(&fake_zmq.sys);
}

void fake_zmq_remove(void)
{
	kv_sys_set(NULL);
}
