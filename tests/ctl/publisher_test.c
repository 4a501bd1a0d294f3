// SPDX-License-Identifier: Apache-2.0
/*
 * A publisher over a libzmq that is not there, or not whole, or refuses; the host out of memory; and
 * what is kept for replay. What it says on real sockets: subscribe.py.
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include <kv/sock.h>

#include "ctl/replay.h"
#include "tests/ctl/fake_zmq.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"
#include "tools/events/wire_read.h"

static struct kvmm_pool *pool;

static void set_up(void)
{
	struct kvmm_events *first;

	fake_zmq_install();
	pool = make_cache(8, "lru");
	/* The ring is there already, and stays. */
	cr_assert_eq(kvmm_events_open(pool, NULL, &first), 0);
	kvmm_events_close(first);
}

static void tear_down(void)
{
	end_pool(pool);
	fake_zmq_remove();
	cr_expect_eq(fake_zmq.nr_open, 0);
	cr_expect_eq(fake_zmq.nr_waits, 0, "nobody is waited for");
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(publisher, .init = set_up, .fini = tear_down);

static int start(struct kvmm_publisher **publisher)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;

	attr.replay_endpoint = "tcp://*:5558";
	attr.replay_batches = 10;
	attr.replay_bytes = 4096;
	attr.token_blocks = 16;
	return kvmm_publisher_start(pool, &attr, publisher);
}

Test(publisher, endpoints_and_the_topic_can_be_shown)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher *publisher;

	attr.endpoint = "ipc:///tmp/a\nkvmm_lies 1";
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr = (struct kvmm_publisher_attr)KVMM_PUBLISHER_ATTR_INIT;
	attr.replay_endpoint = "ipc:///tmp/\x1b[2J";
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.replay_endpoint = "";
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.replay_endpoint = NULL;
	attr.topic = "kv\xff";
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.topic = "kv@\xc3\xa9";
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	kvmm_publisher_stop(publisher);
}

/* All that is taken has been given back. */
static void expect_refusal(int want)
{
	struct kvmm_publisher *publisher = NULL;
	u64 bytes = kv_mem_bytes();

	cr_expect_eq(start(&publisher), want);
	cr_expect_null(publisher);
	cr_expect_eq(fake_zmq.nr_open, 0);
	cr_expect_eq(kv_mem_bytes(), bytes);
}

/* A process that has so many descriptors left. */
static u32 nr_left, nr_held;	/* atomic */

static int scarce_bell(void *ctx)
{
	if (kv_fetch_add(&nr_held, 1) < READ_ONCE(nr_left))
		return kv_sock_system.bell(ctx);
	kv_fetch_sub(&nr_held, 1);
	return -EMFILE;
}

static void scarce_close(void *ctx, int fd)
{
	kv_fetch_sub(&nr_held, 1);
	kv_sock_system.close(ctx, fd);
}

static void leave(u32 nr)
{
	static struct kv_sock_ops scarce;

	scarce = kv_sock_system;
	scarce.bell = scarce_bell;
	scarce.close = scarce_close;
	nr_left = nr;
	kv_sock_set(&scarce);
}

static void wait_for(const u32 *what, u32 nr)
{
	for (u32 i = 0; i < 20000 && READ_ONCE(*what) != nr; i++)
		usleep(1000);
	cr_expect_eq(*what, nr);
}

/* libzmq would try to accept the next subscriber for ever: it does not listen meanwhile. */
Test(publisher, without_descriptors_it_does_not_listen_for_a_while)
{
	struct kvmm_publisher_stat stat = { .size = sizeof(stat) };
	struct kvmm_publisher *publisher;

	leave(16);
	cr_assert_eq(start(&publisher), 0);
	cr_expect_eq(READ_ONCE(fake_zmq.nr_bound), 2);
	WRITE_ONCE(nr_left, 3);
	wait_for(&fake_zmq.nr_unbound, 2);
	smp_store_release(&fake_zmq.is_taken, 1);
	WRITE_ONCE(nr_left, 16);
	wait_for(&fake_zmq.nr_taken, 4);
	smp_store_release(&fake_zmq.is_taken, 0);
	wait_for(&fake_zmq.nr_bound, 4);
	cr_expect_eq(kvmm_publisher_get_stat(publisher, &stat), 0);
	cr_expect_eq(stat.shut, 1);
	cr_expect_eq(fake_zmq.nr_resolved, 0, "libzmq would abort without a descriptor");
	kvmm_publisher_stop(publisher);
	kv_sock_set(NULL);
	cr_expect_eq(nr_held, 0);
}

/* libzmq ends the process where its resolver finds no descriptor. */
Test(publisher, it_listens_only_with_descriptors_to_spare)
{
	struct kvmm_publisher *publisher;

	leave(15);
	expect_refusal(-EMFILE);
	cr_expect_eq(fake_zmq.nr_calls, 0, "libzmq is not asked");
	WRITE_ONCE(nr_left, 16);
	cr_assert_eq(start(&publisher), 0);
	WRITE_ONCE(nr_left, 4);
	usleep(200000);
	cr_expect_eq(READ_ONCE(fake_zmq.nr_unbound), 0);
	WRITE_ONCE(nr_left, 0);
	wait_for(&fake_zmq.nr_unbound, 2);
	WRITE_ONCE(nr_left, 15);
	usleep(1200000);
	cr_expect_eq(READ_ONCE(fake_zmq.nr_bound), 2);
	kvmm_publisher_stop(publisher);
	kv_sock_set(NULL);
}

Test(publisher, all_that_happened_before_it_stops_is_published)
{
	struct kvmm_events_attr slow = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher_stat stat = { .size = sizeof(stat) };
	struct kvmm_publisher *publisher;

	slow.batch_us = 3600u * 1000000;
	slow.batch_max = 4;
	attr.events = &slow;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	cr_assert_eq(kvmm_publisher_get_stat(publisher, &stat), 0);
	cr_expect_eq(stat.batches, 0);
	cache_keys(pool, 1, 2);
	kvmm_publisher_stop(publisher);
	cr_expect_eq(fake_zmq.nr_sent, 1);
}

Test(publisher, tokens_are_taken_by_who_keeps_them)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	u32 tokens[2 * 16] = { 1, 2, 3 };
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	struct kvmm_publisher *publisher;

	cr_assert_eq(start(&publisher), 0);
	cr_expect_eq(kvmm_publisher_tokens(publisher, keys, 2, tokens), 0);
	cr_expect_eq(kvmm_publisher_tokens(publisher, NULL, 0, NULL), 0);
	cr_expect_eq(kvmm_publisher_tokens(publisher, keys, 2, NULL), -EINVAL);
	cr_expect_eq(kvmm_publisher_tokens(NULL, keys, 2, tokens), -EINVAL);
	kvmm_publisher_stop(publisher);
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	cr_expect_eq(kvmm_publisher_tokens(publisher, keys, 2, tokens), -EOPNOTSUPP);
	kvmm_publisher_stop(publisher);
	attr.token_blocks = UINT32_MAX;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
}

/* Whoever asks without end and never reads has an answer, or so, in our memory. */
Test(publisher, who_asks_and_never_reads_is_kept_one_replay)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher *publisher;

	attr.replay_endpoint = "tcp://*:5558";
	attr.replay_batches = 20000;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	cr_expect_eq(fake_zmq.pub_water, 100000);
	cr_expect_eq(fake_zmq.router_water, 20001);
	kvmm_publisher_stop(publisher);
	attr.replay_batches = 10;
	attr.high_water = 1000;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	cr_expect_eq(fake_zmq.router_water, 1000);
	kvmm_publisher_stop(publisher);
}

Test(publisher, a_forked_child_has_nothing_to_do_with_it)
{
	u32 tokens[16] = { 0 };
	kvmm_key_t key = key_of(1);
	struct kvmm_publisher *publisher;
	int status;
	pid_t pid;

	cr_assert_eq(start(&publisher), 0);
	pid = fork();
	if (!pid) {
		u32 nr_open = fake_zmq.nr_open;
		bool inert = kvmm_publisher_tokens(publisher, &key, 1, tokens) == -ECHILD;

		kvmm_publisher_stop(publisher);
		_exit(!inert || fake_zmq.nr_open != nr_open);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	kvmm_publisher_stop(publisher);
}

Test(publisher, without_libzmq_there_is_none)
{
	static const char *const symbols[] = {
		"zmq_ctx_new", "zmq_ctx_term", "zmq_socket", "zmq_close", "zmq_setsockopt",
		"zmq_getsockopt", "zmq_bind", "zmq_connect", "zmq_send", "zmq_recv", "zmq_errno",
	};

	fake_zmq.no_library = true;
	expect_refusal(-ENOENT);
	fake_zmq.no_library = false;
	for (u32 i = 0; i < ARRAY_SIZE(symbols); i++) {
		fake_zmq.no_symbol = symbols[i];
		expect_refusal(-ENOENT);
	}
}

Test(publisher, refusal_of_any_call_leaves_nothing_behind)
{
	struct kvmm_publisher *publisher;

	for (fake_zmq.fail_at = 1; fake_zmq.fail_at <= 11; fake_zmq.fail_at++) {
		fake_zmq.nr_calls = 0;
		expect_refusal(fake_zmq.fail_at == 1 ? -ENOMEM : -EADDRINUSE);
	}
	fake_zmq.nr_calls = 0;
	cr_assert_eq(start(&publisher), 0);
	cr_expect_lt(fake_zmq.nr_calls, fake_zmq.fail_at);
	kvmm_publisher_stop(publisher);
}

Test(publisher, no_thread_no_publisher)
{
	fake_zmq.no_thread = true;
	expect_refusal(-EAGAIN);
}

Test(publisher, want_of_memory_leaves_nothing_behind)
{
	struct kvmm_publisher *publisher;
	struct fake_env fake;
	int err = -ENOMEM;

	end_pool(pool);
	fake_env_install(&fake);
	pool = make_cache(8, "lru");
	for (u64 n = 1; err; n++) {
		fake_env_fail(&fake, n, false);
		err = start(&publisher);
		cr_assert(!err || err == -ENOMEM || err == -EAGAIN, "%d", err);
		cr_assert_lt(n, 30);
		cr_expect(!err || !fake_zmq.nr_open);
	}
	kvmm_publisher_stop(publisher);
	end_pool(pool);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
	pool = make_cache(8, "lru");
}

Test(publisher, bad_attributes_are_refused)
{
	const struct kvmm_publisher_attr good = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher_attr attr = good;
	struct kvmm_publisher *publisher;
	char topic[300];

	memset(topic, 't', sizeof(topic) - 1);
	topic[299] = '\0';
	attr.topic = topic;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.topic = NULL;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.topic = "";
	attr.endpoint = NULL;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr = good;
	attr.high_water = 0;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr.high_water = (1u << 30) + 1;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	attr = good;
	attr.note_bytes = KVMM_NOTE_MAX_BYTES + 1;
	cr_expect_eq(kvmm_publisher_start(pool, &attr, &publisher), -EINVAL);
	cr_expect_eq(kvmm_publisher_start(NULL, NULL, &publisher), -EINVAL);
	kvmm_publisher_stop(NULL);
}

/* ---- replay ---- */

static void expect_kept(const struct replay *replay, u64 first, u64 last)
{
	const void *bytes;

	cr_assert_eq(replay->nr, last - first + 1);
	for (u32 i = 0; i < replay->nr; i++) {
		const struct replay_batch *batch = replay_at(replay, i, &bytes);

		cr_assert_eq(batch->seq, first + i);
		for (u32 b = 0; b < batch->nr; b++)
			cr_assert_eq(((const u8 *)bytes)[b], (u8)batch->seq);
	}
}

static void keep(struct replay *replay, u64 seq, u32 nr)
{
	u8 bytes[128];

	memset(bytes, seq, sizeof(bytes));
	replay_keep(replay, seq, bytes, nr);
}

Test(publisher, no_memory_no_replay)
{
	struct replay replay;
	struct fake_env fake;

	fake_env_install(&fake);
	for (u64 n = 1; n <= 2; n++) {
		fake_env_fail(&fake, n, false);
		cr_expect_eq(replay_init(&replay, 4, 4096), -ENOMEM);
		cr_expect_eq(fake.nr_live, 0);
	}
	fake_env_remove(&fake);
}

static bool said_early;

static void look_for_early(int type, const void *bytes, size_t nr, bool more)
{
	said_early |= memmem(bytes, nr, "early", 5) != NULL;
}

/* Strings of the caller's are not looked at again; a batch is not longer than there is room for. */
Test(publisher, attributes_are_copied_and_bounded)
{
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher *publisher;
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	char kind[8] = "early";

	fake_zmq.hears = look_for_early;
	wire.spec_kind = kind;
	events.batch_max = UINT32_MAX;
	attr.wire = &wire;
	attr.events = &events;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	strcpy(kind, "late");
	cache_keys(pool, 1, 1);
	kvmm_publisher_stop(publisher);
	cr_expect(said_early);
}

static u32 nr_tokens_said;

static void count_tokens(int type, const void *bytes, size_t nr, bool more)
{
	static u64 hash[8];
	static u32 token[512];
	struct wire_event event[8];
	struct wire_batch batch = {
		.event = event, .hash = hash, .token = token,
		.max_events = 8, .max_hashes = 8, .max_tokens = 512,
	};

	if (!more && wire_read(bytes, nr, &batch) == (s64)nr)
		nr_tokens_said += batch.nr_tokens;
}

/* Many more bytes than the rest of an event has. */
Test(publisher, there_is_room_for_tokens_of_large_blocks)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_pool_attr large = { .size = sizeof(large), .nr_blocks = 8, .policy = "lru",
					.block_tokens = 256 };
	struct kvmm_publisher *publisher;
	kvmm_key_t key = key_of(1);
	static u32 token[256];

	memset(token, 0xff, sizeof(token));
	end_pool(pool);
	pool = make_pool_of(&large);
	fake_zmq.hears = count_tokens;
	events.batch_max = 1;
	attr.events = &events;
	attr.token_blocks = 4;
	cr_assert_eq(kvmm_publisher_start(pool, &attr, &publisher), 0);
	cr_assert_eq(kvmm_publisher_tokens(publisher, &key, 1, token), 0);
	cache_keys(pool, 1, 1);
	kvmm_publisher_stop(publisher);
	cr_expect_eq(nr_tokens_said, 256);
}

Test(publisher, replay_is_bounded_by_number)
{
	struct replay replay;

	cr_assert_eq(replay_init(&replay, 4, 4096), 0);
	for (u64 seq = 0; seq < 10; seq++)
		keep(&replay, seq, 10);
	expect_kept(&replay, 6, 9);
	replay_exit(&replay);
}

/* 100 bytes: two of 40, and never one across the end. */
Test(publisher, replay_is_bounded_by_bytes)
{
	struct replay replay;

	cr_assert_eq(replay_init(&replay, 50, 100), 0);
	for (u64 seq = 0; seq < 30; seq++) {
		keep(&replay, seq, 40);
		if (seq)
			expect_kept(&replay, seq - 1, seq);
	}
	keep(&replay, 30, 100);
	expect_kept(&replay, 30, 30);
	keep(&replay, 31, 101);
	expect_kept(&replay, 30, 30);
	for (u64 seq = 31; seq < 200; seq++)
		keep(&replay, seq, 1 + seq * 7 % 60);
	replay_exit(&replay);
	cr_assert_eq(replay_init(&replay, 4, 0), 0);
	keep(&replay, 1, 0);
	cr_expect_eq(replay.nr, 0);
	cr_assert_eq(replay_init(&replay, 0, 100), 0);
	keep(&replay, 1, 10);
	cr_expect_eq(replay.nr, 0);
	replay_exit(&replay);
}
