// SPDX-License-Identifier: Apache-2.0
/*
 * A publisher over a libzmq of the test's own, which counts what goes over its sockets, asks for replays and
 * snapshots, refuses messages, and keeps the publisher waiting until it has lost events.
 *
 * The publisher's thread asks for requests once between any two batches. It is held up there, so while
 * the pool is used nothing is published, and whether it has published everything is known afterwards:
 * it asks twice, and has sent nothing in between.
 */
#include <pthread.h>
#include <stdlib.h>

#include <kv/sys.h>

#include "ctl/zmq.h"
#include "metrics_run.h"

#define NAME		"wire"
#define ENDPOINT	"inproc://recount"
#define NR_BLOCKS	24u
#define NR_PROMPTS	16u
#define MAX_NR		8u
#define RING		64u

static struct kvmm_pool *pool;
static struct kvmm_publisher *publisher;
static struct kvmm_events *watcher;

enum ask { ASK_NOTHING, ASK_REPLAY, ASK_SNAPSHOT, ASK_RUBBISH };

/* Under ->lock. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool is_open;		/* the thread may go on */
	bool is_held;		/* it waits for that */
	bool refuses;
	u32 nr_asked, nr_quiet;	/* quiet: since it sent something */
	enum ask ask;
	u32 part;		/* of the message that it is asked with */
	u32 at;			/* of the message that it sends */
	u64 seq, want_seq;
	u64 batches, events, bytes, unsent, gaps, ends;
} wire = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static struct {
	u64 happened, lost, replays, snapshots, refused;
} count;

/* ---- libzmq ---- */

static int pub_socket, router_socket;

static void *zmq_new(void)
{
	return &wire;
}

static void *zmq_make_socket(void *context, int type)
{
	return type == ZMQ_PUB ? &pub_socket : &router_socket;
}

static int zmq_end(void *what)
{
	return 0;
}

static int zmq_option(void *socket, int option, const void *value, size_t bytes)
{
	return 0;
}

static int zmq_attach(void *socket, const char *endpoint)
{
	return 0;
}

static int zmq_error(void)
{
	return EAGAIN;
}

/* Each name is an event, and so is the end of all. */
static u64 nr_events_in(const void *bytes, size_t nr)
{
	static struct kvmm_wire_event event[1024];
	static u64 hash[4096];
	static u32 token[4096];
	struct kvmm_wire_batch batch = { .size = sizeof(batch), .event = event, .hash = hash,
					 .token = token, .max_events = ARRAY_SIZE(event),
					 .max_hashes = ARRAY_SIZE(hash),
					 .max_tokens = ARRAY_SIZE(token) };
	u64 nr_events;

	if (kvmm_wire_decode(bytes, nr, &batch) != (s64)nr)
		must(-1, "a batch");
	nr_events = batch.nr_hashes;
	for (u32 i = 0; i < batch.nr_events; i++)
		nr_events += event[i].kind == KVMM_EVENT_CLEARED;
	return nr_events;
}

static void take_batch(u32 part, const void *bytes, size_t nr)
{
	wire.nr_quiet = 0;
	if (part == 1) {
		wire.seq = 0;
		for (size_t i = 0; i < nr; i++)
			wire.seq = wire.seq << 8 | ((const u8 *)bytes)[i];
		wire.gaps += wire.seq != wire.want_seq;
		wire.want_seq = wire.seq + 1;
	} else if (part == 2) {
		wire.batches++;
		wire.bytes += nr;
		wire.events += nr_events_in(bytes, nr);
		wire.unsent += wire.refuses;
	}
}

/* Of what is refused the last part is; so its numbers are known. */
static int zmq_take(void *socket, const void *bytes, size_t nr, int flags)
{
	int ret = (int)nr;

	pthread_mutex_lock(&wire.lock);
	if (socket == &pub_socket) {
		take_batch(wire.at, bytes, nr);
		if (wire.refuses && !(flags & ZMQ_SNDMORE))
			ret = -1;
	} else if (!(flags & ZMQ_SNDMORE)) {
		wire.ends += !nr;
	}
	wire.at = flags & ZMQ_SNDMORE ? wire.at + 1 : 0;
	pthread_mutex_unlock(&wire.lock);
	return ret;
}

static int metrics_give(void *bytes)
{
	switch (wire.part) {
	case 0:
		memcpy(bytes, "me", 2);
		return 2;
	case 1:
		return wire.ask == ASK_RUBBISH ? 1 : 0;
	default:
		memset(bytes, 0, 8);
		if (wire.ask != ASK_SNAPSHOT)
			return 8;
		memcpy(bytes, "kvmm-snapshot", 13);
		return 13;
	}
}

static int zmq_ask(void *socket, void *bytes, size_t nr, int flags)
{
	int ret = -1;

	pthread_mutex_lock(&wire.lock);
	wire.nr_asked++;
	wire.nr_quiet++;
	if (wire.is_open)
		pthread_cond_broadcast(&wire.cond);
	while (!wire.is_open) {
		wire.is_held = true;
		pthread_cond_broadcast(&wire.cond);
		pthread_cond_wait(&wire.cond, &wire.lock);
	}
	wire.is_held = false;
	if (wire.ask)
		ret = metrics_give(bytes);
	pthread_mutex_unlock(&wire.lock);
	return ret;
}

static int zmq_more(void *socket, int option, void *value, size_t *bytes)
{
	if (option != ZMQ_RCVMORE)
		return -1;
	pthread_mutex_lock(&wire.lock);
	*(int *)value = ++wire.part < 3;
	if (wire.part == 3) {
		wire.part = 0;
		wire.ask = ASK_NOTHING;
	}
	pthread_mutex_unlock(&wire.lock);
	return 0;
}

static const struct {
	const char *name;
	void *fn;
} symbols[] = {
	{ "zmq_ctx_new", zmq_new }, { "zmq_ctx_term", zmq_end }, { "zmq_socket", zmq_make_socket },
	{ "zmq_close", zmq_end }, { "zmq_setsockopt", zmq_option }, { "zmq_getsockopt", zmq_more },
	{ "zmq_bind", zmq_attach }, { "zmq_unbind", zmq_attach }, { "zmq_connect", zmq_attach }, { "zmq_send", zmq_take },
	{ "zmq_recv", zmq_ask }, { "zmq_errno", zmq_error },
};

static void *open_zmq(void *ctx, const char *path, const char **why)
{
	return strstr(path, "zmq") ? &wire : kv_sys_system.open_library(ctx, path, why);
}

static void *find_zmq(void *ctx, void *library, const char *name)
{
	for (u32 i = 0; library == &wire && i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(name, symbols[i].name))
			return symbols[i].fn;
	return library == &wire ? NULL : kv_sys_system.find_symbol(ctx, library, name);
}

/* ---- the publisher goes on, and stops ---- */

/* ->lock held. It publishes nothing more when that returns. */
static void hold_up(void)
{
	wire.is_open = false;
	while (!wire.is_held)
		pthread_cond_wait(&wire.cond, &wire.lock);
}

/* So many names that come and go that the ring has not room for them, now and then. */
static void change_names(u32 nr_times)
{
	kvmm_key_t key[MAX_NR], evicted[MAX_NR];
	kvmm_ref_t ref[MAX_NR];
	kvmm_mut_t mut[MAX_NR];

	for (u32 i = 0; i < nr_times; i++) {
		u32 nr = 1 + any(MAX_NR);
		struct kvmm_acquire_args req = { .keys = key, .nr_keys = nr, .max_hits = nr, .nr_blocks = nr,
						 .hits = ref, .fresh = mut, .evicted = evicted };

		name_keys(any(NR_PROMPTS), 0, nr, key);
		must(kvmm_acquire(pool, &req), "acquire");
		if (req.nr_fresh)
			must(kvmm_register(pool, mut, key + req.nr_hits, req.nr_fresh,
					   ref + req.nr_hits), "register");
		must(kvmm_put_many(pool, ref, nr), "put");
		count.happened += req.nr_evicted + req.nr_fresh;
	}
}

static void publish_use(void)
{
	static const enum ask asks[] = { ASK_NOTHING, ASK_REPLAY, ASK_SNAPSHOT, ASK_RUBBISH };
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	enum ask ask = asks[any(4)];
	u64 before = count.happened, nr;

	change_names(any(3) ? any(3) : 12 + any(12));
	nr = count.happened - before;
	kvmm_events_get_stat(watcher, &stat);
	if (stat.happened != count.happened)
		must(-1, "as many events as names came and went");
	/* Who was lapped goes on with the younger half of the ring. */
	count.lost += nr > RING ? nr - RING / 2 : 0;
	wire.refuses = !any(5);
	pthread_mutex_lock(&wire.lock);
	wire.ask = ask;
	wire.is_open = true;
	wire.is_held = false;
	wire.nr_quiet = 0;
	pthread_cond_broadcast(&wire.cond);
	while (wire.nr_quiet < 3 || wire.ask)
		pthread_cond_wait(&wire.cond, &wire.lock);
	hold_up();
	pthread_mutex_unlock(&wire.lock);
	count.replays += ask == ASK_REPLAY;
	count.snapshots += ask == ASK_SNAPSHOT;
	count.refused += ask == ASK_RUBBISH;
}

static void publish_expect(void)
{
	const struct {
		const char *name;
		u64 number;
	} rows[] = {
		{ "kvmm_publisher_batches_total", wire.batches },
		{ "kvmm_publisher_events_total", wire.events },
		{ "kvmm_publisher_bytes_total", wire.bytes },
		{ "kvmm_publisher_unsent_batches_total", wire.unsent },
		{ "kvmm_publisher_lost_events_total", count.lost },
		{ "kvmm_publisher_resyncs_total", wire.gaps },
		{ "kvmm_publisher_replays_total", count.replays },
		{ "kvmm_publisher_snapshots_total", count.snapshots },
		{ "kvmm_publisher_refused_total", count.refused },
	};

	if (wire.ends != count.replays + count.snapshots)
		must(-1, "an end of each answer");
	for (u32 i = 0; i < ARRAY_SIZE(rows); i++)
		expect(rows[i].name, NAME, ",endpoint=\"" ENDPOINT "\"", rows[i].number);
}

static struct kvmm_pool *publish_make(const char *dir)
{
	static struct kv_sys_ops sys;
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_pool_attr pool_attr = { .size = sizeof(pool_attr), .name = NAME,
					    .nr_blocks = NR_BLOCKS, .policy = "lru" };

	sys = kv_sys_system;
	sys.open_library = open_zmq;
	sys.find_symbol = find_zmq;
	kv_sys_set(&sys);
	must(kvmm_pool_create(&pool_attr, &pool), "pool");
	events.ring = RING;
	must(kvmm_events_open(pool, &events, &watcher), "events");
	attr.endpoint = ENDPOINT;
	attr.replay_endpoint = "inproc://replay";
	attr.events = &events;
	must(kvmm_publisher_start(pool, &attr, &publisher), "publisher");
	pthread_mutex_lock(&wire.lock);
	hold_up();
	pthread_mutex_unlock(&wire.lock);
	return pool;
}

static void publish_end(void)
{
	pthread_mutex_lock(&wire.lock);
	wire.is_open = true;
	pthread_cond_broadcast(&wire.cond);
	pthread_mutex_unlock(&wire.lock);
	kvmm_publisher_stop(publisher);
	kvmm_events_close(watcher);
	kvmm_pool_destroy(pool);
	kv_sys_set(NULL);
}

const struct part metrics_publish = { publish_make, publish_use, publish_expect, publish_end };
