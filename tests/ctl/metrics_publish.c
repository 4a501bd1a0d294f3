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

#include "ctl/zmq.h"
#include "fake_zmq.h"
#include "metrics_run.h"
#include "tools/events/wire_read.h"

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
	u32 nr_quiet;		/* times that it has asked since it sent something */
	enum ask ask;
	u32 part;		/* of the message that it is asked with */
	u32 at;			/* of the message that it sends */
	u64 seq, want_seq;
	u64 batches, events, bytes, unsent, gaps, ends;
} wire = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static struct {
	u64 happened, lost, replays, snapshots, refused;
} count;

/* ---- messages ---- */

/* Each name is an event, and so is the end of all. */
static u64 nr_events_in(const void *bytes, size_t nr)
{
	static struct wire_event event[1024];
	static u64 hash[4096];
	static u32 token[4096];
	struct wire_batch batch = { .event = event, .hash = hash,
					 .token = token, .max_events = ARRAY_SIZE(event),
					 .max_hashes = ARRAY_SIZE(hash),
					 .max_tokens = ARRAY_SIZE(token) };
	u64 nr_events;

	if (wire_read(bytes, nr, &batch) != (s64)nr)
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
		wire.unsent += fake_zmq.refuses;
	}
}

static void hear(int type, const void *bytes, size_t nr, bool more)
{
	pthread_mutex_lock(&wire.lock);
	if (type == ZMQ_PUB)
		take_batch(wire.at, bytes, nr);
	else if (!more)
		wire.ends += !nr;
	wire.at = more ? wire.at + 1 : 0;
	pthread_mutex_unlock(&wire.lock);
}

static int part_of_request(void *bytes)
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

static int ask(void *bytes, size_t room, bool *more)
{
	int ret = -1;

	pthread_mutex_lock(&wire.lock);
	wire.nr_quiet++;
	if (wire.is_open)
		pthread_cond_broadcast(&wire.cond);
	while (!wire.is_open) {
		wire.is_held = true;
		pthread_cond_broadcast(&wire.cond);
		pthread_cond_wait(&wire.cond, &wire.lock);
	}
	wire.is_held = false;
	if (wire.ask) {
		ret = part_of_request(bytes);
		wire.part = (wire.part + 1) % 3;
		*more = wire.part;
		wire.ask = *more ? wire.ask : ASK_NOTHING;
	}
	pthread_mutex_unlock(&wire.lock);
	return ret;
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
	for (u32 i = 0; i < nr_times; i++) {
		struct prompt prompt = { .nr = 1 + any(MAX_NR) };

		prompt.number = any(NR_PROMPTS);
		must(use_prompt(pool, &prompt, NULL), "acquire");
		put_prompt(pool, &prompt);
		count.happened += prompt.nr_evicted + prompt.nr_fresh;
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
	fake_zmq.refuses = !any(5);
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
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;

	fake_zmq_install();
	fake_zmq.hears = hear;
	fake_zmq.asks = ask;
	pool = make_pool(NAME, NR_BLOCKS, 0, "lru");
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
	fake_zmq_remove();
}

const struct part metrics_publish = { publish_make, publish_use, publish_expect, publish_end };
