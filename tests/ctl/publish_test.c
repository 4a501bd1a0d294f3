// SPDX-License-Identifier: Apache-2.0
/*
 * What a publisher says, message by message: numbers, gaps, replays, snapshots, counts. Its thread is held
 * at the end of each round while the test does something, so that each batch is known beforehand.
 */
#include <time.h>

#include "ctl/zmq.h"
#include "tests/ctl/fake_zmq.h"
#include "tests/pool/util.h"
#include "tools/events/wire_read.h"

#define RING	16u

static struct kvmm_pool *pool;
static struct kvmm_publisher *publisher;

/* The publisher's thread, or whoever holds it. */
static char said[4096];
static u64 nr_said_bytes;
static u32 nr_parts;
static u8 seq[8];
static void (*meanwhile)(void);		/* once, when the next message has been said */

static const char *const *request;	/* parts; NULL: none */
static const u32 *lengths;
static u32 nr_request;

static u32 is_held, holds;		/* atomic */

/* ---- messages ---- */

static void add(const char *format, u64 number)
{
	size_t len = strlen(said);

	snprintf(said + len, sizeof(said) - len, format, (unsigned long long)number);
}

static void add_seq(void)
{
	u64 number = 0;

	for (u32 i = 0; i < 8; i++)
		number = number << 8 | seq[i];
	if (number == UINT64_MAX)
		add("end", 0);
	else
		add("%llu:", number);
}

/* SGLang takes the beginning of a key, which has the number. */
static void add_batch(const void *bytes, size_t nr)
{
	struct wire_event event[64];
	u64 hash[64];
	struct wire_batch batch = { .event = event, .hash = hash,
					 .max_events = 64, .max_hashes = 64 };

	cr_expect_eq(wire_read(bytes, nr, &batch), (s64)nr);
	for (u32 i = 0; i < batch.nr_events; i++) {
		if (event[i].kind == KVMM_EVENT_CLEARED)
			add("*", 0);
		for (u32 h = 0; h < event[i].nr_hashes; h++)
			add(event[i].kind == KVMM_EVENT_STORED ? "+%llu" : "-%llu",
			    __builtin_bswap64(hash[event[i].first_hash + h]));
	}
}

static void hear(int type, const void *bytes, size_t nr, bool more)
{
	u32 part = nr_parts++ + (type == ZMQ_PUB);
	void (*next)(void) = meanwhile;

	if (type == ZMQ_ROUTER && (!part || part == 1))
		cr_expect_eq(nr, part ? 0 : 2);
	if (type == ZMQ_ROUTER && !part)
		add("me>", 0);
	if (part == 2) {
		cr_expect_eq(nr, 8);
		memcpy(seq, bytes, 8);
		add_seq();
	}
	if (more)
		return;
	cr_expect_eq(part, 3);
	nr_parts = 0;
	if (nr)
		add_batch(bytes, nr);
	add(" ", 0);
	nr_said_bytes += type == ZMQ_PUB ? nr : 0;
	meanwhile = NULL;
	if (next)
		next();
}

static int ask(void *bytes, size_t room, bool *more)
{
	u32 nr;

	if (request) {
		nr = *lengths++;
		memcpy(bytes, *request++, min((size_t)nr, room));
		*more = --nr_request;
		request = nr_request ? request : NULL;
		return nr;
	}
	while (READ_ONCE(holds)) {
		WRITE_ONCE(is_held, 1);
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	}
	WRITE_ONCE(is_held, 0);
	return -1;
}

static void hold(void)
{
	smp_store_release(&holds, 1);
	while (!smp_load_acquire(&is_held))
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
}

/* Three rounds, in which all that there is to say is said. */
static const char *told(void)
{
	static char text[sizeof(said)];

	for (u32 i = 0; i < 3; i++) {
		smp_store_release(&holds, 0);
		while (smp_load_acquire(&is_held))
			nanosleep(&(struct timespec){ 0, 20000 }, NULL);
		hold();
	}
	strcpy(text, said);
	said[0] = '\0';
	return text;
}

static const char *answer_to(u32 nr, const char *const *parts, const u32 *bytes)
{
	lengths = bytes;
	nr_request = nr;
	request = parts;
	return told();
}

static const char *replay(u8 from)
{
	const char number[8] = { [7] = from }, *const parts[] = { "me", "", number };

	return answer_to(3, parts, (u32[]){ 2, 0, 8 });
}

static const char *snapshot(void)
{
	static const char *const parts[] = { "me", "", "kvmm-snapshot" };

	return answer_to(3, parts, (u32[]){ 2, 0, 13 });
}

/* ---- a publisher ---- */

static void start(u32 nr_ring)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_wire wire = { .size = sizeof(wire), .format = KVMM_WIRE_SGLANG };

	events.ring = nr_ring;
	events.batch_us = 0;
	attr.events = &events;
	attr.wire = &wire;
	attr.topic = "kv";
	attr.replay_endpoint = "inproc://replay";
	attr.replay_batches = 3;
	attr.replay_bytes = 4096;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	hold();
}

static void set_up(void)
{
	fake_zmq_install();
	fake_zmq.hears = hear;
	fake_zmq.asks = ask;
	pool = make_cache(64, "lru");
	start(RING);
}

static void tear_down(void)
{
	WRITE_ONCE(holds, 0);
	kvmm_publisher_stop(publisher);
	end_pool(pool);
	fake_zmq_remove();
	cr_expect_eq(fake_zmq.nr_open, 0);
	cr_expect_eq(fake_zmq.nr_waits, 0, "nobody is waited for");
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(publish, .init = set_up, .fini = tear_down);

static struct kvmm_publisher_stat counts(void)
{
	struct kvmm_publisher_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_publisher_get_stat(publisher, &stat), 0);
	return stat;
}

static void evict(u32 block)
{
	cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
}

Test(publish, batches_have_numbers_that_follow_one_another)
{
	struct kvmm_publisher_stat stat;

	cache_keys(pool, 1, 2);
	cr_expect_str_eq(told(), "0:+1+2 ");
	cache_keys(pool, 3, 1);
	cr_expect_str_eq(told(), "1:+3 ");
	evict(0);
	cr_expect_str_eq(told(), "2:-1 ");
	stat = counts();
	cr_expect_eq(stat.batches, 3);
	cr_expect_eq(stat.events, 4);
	cr_expect_eq(stat.bytes, nr_said_bytes);
	cr_expect_eq(stat.lost + stat.resyncs + stat.replays + stat.snapshots + stat.refused, 0);
}

/* The number of it is left out; then all is told anew. */
Test(publish, what_it_has_missed_is_a_gap_and_all_is_told_anew)
{
	cache_keys(pool, 1, 1);
	cr_expect_str_eq(told(), "0:+1 ");
	for (u32 i = 2; i < 2 + RING; i++)
		cache_keys(pool, i, 1);
	evict(0);
	cr_expect_str_eq(told(), "2:* 3:+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17 ");
	cr_expect_eq(counts().resyncs, 1);
	/* Half a ring ahead of who writes, and what it saw of that is not told a second time. */
	cr_expect_eq(counts().lost, 1 + RING / 2);
	cache_keys(pool, 40, 1);
	cr_expect_str_eq(told(), "4:+40 ");
}

static void evict_told(void)
{
	evict(5);
}

static void wait_for_names(void)
{
	meanwhile = evict_told;
}

/* Its events are those behind the moment at which the snapshot began: here, when it has told of the name. */
Test(publish, what_happens_while_all_is_told_anew_is_told_behind_it)
{
	for (u32 i = 0; i < RING + 1; i++)
		cache_keys(pool, 1 + i, 1);
	meanwhile = wait_for_names;	/* behind the mark that all goes, and then behind the names */
	cr_expect_str_eq(told(), "1:* 2:+1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17 3:-6 ");
}

Test(publish, a_replay_goes_from_the_number_that_was_asked_for_to_the_last)
{
	for (u32 i = 0; i < 5; i++) {
		cache_keys(pool, 10 + i, 1);
		told();
	}
	cr_expect_str_eq(replay(3), "me>3:+13 me>4:+14 me>end ");
	cr_expect_str_eq(replay(0), "me>2:+12 me>3:+13 me>4:+14 me>end ", "three are kept");
	cr_expect_str_eq(replay(5), "me>end ");
	cr_expect_eq(counts().replays, 3);
}

/* The publisher's thread is held: it sees this when it goes on. */
Test(publish, who_does_not_take_an_answer_does_not_get_the_rest_of_it)
{
	cache_keys(pool, 1, 1);
	told();
	fake_zmq.is_full = true;
	cr_expect_str_eq(replay(0), "");
	cr_expect_str_eq(snapshot(), "");
	cr_expect_eq(counts().replays + counts().snapshots, 0);
	fake_zmq.is_full = false;
	cr_expect_str_eq(replay(0), "me>0:+1 me>end ");
}

Test(publish, a_snapshot_has_the_number_of_the_next_batch)
{
	cr_expect_str_eq(snapshot(), "me>end ");
	cache_keys(pool, 1, 2);
	cr_expect_str_eq(told(), "0:+1+2 ");
	cr_expect_str_eq(snapshot(), "me>1:+1+2 me>end ");
	cache_keys(pool, 3, 1);
	cr_expect_str_eq(told(), "1:+3 ");
	cr_expect_eq(counts().snapshots, 2);
}

Test(publish, a_request_that_is_none_is_counted_and_not_answered)
{
	static const char name[300] = "me", *const parts[] = { "me", "", "kvmm-snapshot", "", "", "", "", "",
							       "", "" };
	const char *const filled[] = { "me", "x", "12345678" }, *const longer[] = { name, "", "12345678" };

	cache_keys(pool, 1, 1);
	told();
	cr_expect_str_eq(answer_to(1, parts, (u32[]){ 2 }), "");
	cr_expect_str_eq(answer_to(2, parts, (u32[]){ 2, 0 }), "");
	cr_expect_str_eq(answer_to(4, parts, (u32[]){ 2, 0, 13, 0 }), "");
	cr_expect_str_eq(answer_to(10, parts, (u32[]){ 2, 0, 13, 0, 0, 0, 0, 0, 0, 0 }), "");
	cr_expect_str_eq(answer_to(3, parts, (u32[]){ 2, 0, 12 }), "");
	cr_expect_str_eq(answer_to(3, filled, (u32[]){ 2, 1, 8 }), "");
	cr_expect_str_eq(answer_to(3, longer, (u32[]){ 300, 0, 8 }), "");
	cr_expect_str_eq(answer_to(3, longer, (u32[]){ 2, 0, 7 }), "");
	cr_expect_str_eq(answer_to(3, longer, (u32[]){ 2, 0, 0 }), "");
	cr_expect_eq(counts().refused, 9);
	cr_expect_eq(counts().replays + counts().snapshots, 0);
}

Test(publish, an_older_caller_gets_what_he_has_room_for)
{
	u64 room[3] = { 2 * sizeof(u64), 7, 7 };

	cr_expect_eq(kvmm_publisher_get_stat(publisher, (void *)room), 0);
	cr_expect_eq(room[1], 0);
	cr_expect_eq(room[2], 7);
	room[0] = 7;
	cr_expect_eq(kvmm_publisher_get_stat(publisher, (void *)room), -EINVAL);
}

/* ---- endpoints ---- */

Test(publish, endpoints_of_ones_own_are_bound_and_others_connected_to)
{
	static const struct { int type; const char *endpoint; u32 is_bound; } rows[] = {
		{ ZMQ_PUB, "tcp://*:5557", 1 }, { ZMQ_PUB, "tcp://127.0.0.1:5557", 1 },
		{ ZMQ_PUB, "tcp://[::]:5557", 1 }, { ZMQ_PUB, "ipc:///run/x", 1 },
		{ ZMQ_PUB, "inproc://x", 1 }, { ZMQ_PUB, "tcp://router:5557", 0 },
		{ ZMQ_PUB, "tcp://10.127.0.1:5557", 0 }, { ZMQ_ROUTER, "tcp://router:5557", 1 },
	};
	struct zmq zmq;

	cr_assert_eq(zmq_open(&zmq), 0);
	for (u32 i = 0; i < ARRAY_SIZE(rows); i++) {
		void *socket;

		fake_zmq.nr_bound = fake_zmq.nr_connected = 0;
		cr_assert_eq(zmq_start(&zmq, NULL, rows[i].type, rows[i].endpoint, 1, &socket), 0);
		cr_expect_eq(fake_zmq.nr_bound, rows[i].is_bound, "%s", rows[i].endpoint);
		cr_expect_eq(fake_zmq.nr_connected, !rows[i].is_bound, "%s", rows[i].endpoint);
		zmq.close(socket);
	}
}

/* ETERM and its like have numbers that no errno has. */
Test(publish, errors_of_the_librarys_own_are_one_errno)
{
	struct zmq zmq;
	void *socket;

	cr_assert_eq(zmq_open(&zmq), 0);
	fake_zmq.err = 156384765;
	fake_zmq.fail_at = fake_zmq.nr_calls + 1;
	cr_expect_eq(zmq_start(&zmq, NULL, ZMQ_PUB, "tcp://*:1", 1, &socket), -EIO);
}
