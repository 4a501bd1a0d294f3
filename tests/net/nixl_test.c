// SPDX-License-Identifier: Apache-2.0
/*
 * Migration as between two machines, by NIXL: over a stand-in each call of which fails once, and
 * over the library itself where it is (KVMM_NIXL_LIBRARY).
 *
 * What is not the transport's is in ucx_test: KVMM_TEST_TRANSPORT=nixl runs it over NIXL.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <kv/env.h>

#include "net/conn.h"
#include "net/transport.h"
#include "tests/net/fake_nixl.h"
#include "tests/net/pair.h"
#include "tests/support/test.h"

static struct pair pair;

static bool have_pair(void)
{
	bool have = pair_init_far(&pair, "nixl", 8 * NET_BLOCK_BYTES);

	if (!have)
		fprintf(stderr, "SKIPPED: %s\n", kvmm_why());
	return have;
}

/* The stand-in needs the library of the link's alone. */
static bool have_fake_pair(void)
{
	fake_nixl_install();
	return have_pair();
}

static void end_fake_pair(void)
{
	pair_exit(&pair);
	cr_expect_eq(fake_nixl.nr_open, 0);
	fake_nixl_remove();
}

static void expect_range_goes(void)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 40);

	cr_expect_eq(pair_run(&pair, job), 0);
	cr_expect_eq(net_status(job).path, KVMM_MIGRATE_PATH_REMOTE);
	cr_expect_eq(net_status(job).nr_verified, 40);
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect(pair_range_is_there(&pair, 'a', 40));
}

Test(nixl, a_range_goes_and_neither_side_leaves_anything_in_the_library)
{
	if (!have_fake_pair())
		return;
	expect_range_goes();
	cr_expect_eq(fake_nixl.nr_open, 0);
	end_fake_pair();
}

Test(nixl, a_range_goes_by_the_library_itself)
{
	if (!have_pair())
		return;
	expect_range_goes();
	pair_exit(&pair);
}

/* Whether that call came. */
static bool run_failing(u32 nth)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 20);
	bool failed;
	int err;

	fake_nixl.nr_calls = 0;
	fake_nixl.fail_at = nth;
	err = pair_run(&pair, job);
	failed = fake_nixl.nr_calls >= nth;
	fake_nixl.fail_at = 0;
	cr_expect(failed ? err == -EIO || err == -ECONNRESET : !err, "%u: %d", nth, err);
	if (err) {
		cr_expect_eq(kvmm_range_find_seq(pair.src, 'a', NULL, 0), 1, "%u: lost", nth);
		cr_expect_eq(kvmm_validate(pair.src), 0);
		cr_assert_eq(kvmm_migrate_resume(job), 0, "%u", nth);
		cr_assert_eq(pair_run(&pair, job), 0, "%u", nth);
	}
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect(pair_range_is_there(&pair, 'a', 20));
	cr_expect_eq(net_nr_free(pair.dst), 64, "%u", nth);
	cr_expect_eq(fake_nixl.nr_open, 0, "%u: %u left", nth, fake_nixl.nr_open);
	return failed;
}

Test(nixl, each_call_may_fail_and_costs_the_job_alone)
{
	u32 nth = 0;

	if (!have_fake_pair())
		return;
	while (run_failing(++nth) && nth < 200)
		;
	cr_expect_gt(nth, 30);
	cr_expect_lt(nth, 200);
	end_fake_pair();
}

Test(nixl, a_put_that_does_not_end_does_not_hold_a_cancelled_job)
{
	struct kvmm_migrate *job;
	u64 begin;

	if (!have_fake_pair())
		return;
	job = pair_begin_range(&pair, 'a', 20);
	while (net_status(job).phase == KVMM_MIGRATE_PREPARE) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	fake_nixl.nr_polls = ~0u;
	for (u32 i = 0; i < 1000; i++) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	cr_expect_eq(net_status(job).nr_copied, 0);
	begin = kv_clock_ns();
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(kvmm_migrate_poll(job), -EINPROGRESS, "no call waits for it");
	cr_expect_eq(kvmm_migrate_wait(job, 20000000000), -ECANCELED);
	cr_expect_geq(kv_ns_since(begin), 200000000ull);
	kvmm_migrate_free(job);
	cr_expect_lt(kv_ns_since(begin), 2000000000ull);
	pair_settle(&pair);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	end_fake_pair();
}

Test(nixl, a_put_that_ends_soon_after_a_cancel_leaves_the_link_whole)
{
	struct kvmm_migrate *job;

	if (!have_fake_pair())
		return;
	job = pair_begin_range(&pair, 'a', 20);
	while (net_status(job).phase == KVMM_MIGRATE_PREPARE) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	fake_nixl.nr_polls = 100;
	for (u32 i = 0; i < 30; i++) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(pair_run(&pair, job), -ECANCELED);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	cr_expect_eq(pair_stat(&pair).failed, 1, "told of it once");
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	end_fake_pair();
}

/* Nothing listens, and kvmm_why() has @what. */
static void expect_refused(const char *what)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_server *server;

	attr.pool = pair.dst;
	attr.path = "nixl://127.0.0.1:0";
	attr.key_file = pair.key_file;
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EOPNOTSUPP);
	cr_expect_not_null(strstr(kvmm_why(), what), "%s: %s", what, kvmm_why());
}

Test(nixl, without_the_library_or_a_function_of_it_nothing_listens)
{
	if (!have_fake_pair())
		return;
	cr_expect_str_eq(fake_nixl.path, "libnixl_capi.so");
	fake_nixl.variable = "/opt/nixl/lib/libnixl_capi.so";
	fake_nixl.no_library = true;
	expect_refused("KVMM_NIXL_LIBRARY");
	cr_expect_str_eq(fake_nixl.path, fake_nixl.variable);
	fake_nixl.no_library = false;
	for (u32 i = 0; fake_nixl_symbol(i); i++) {
		fake_nixl.no_symbol = fake_nixl_symbol(i);
		expect_refused(fake_nixl.no_symbol);
	}
	end_fake_pair();
}

Test(nixl, what_a_taker_says_is_refused_if_it_does_not_add_up)
{
	struct window taker, giver;
	struct window_offer offer;
	struct kv_pool_view view;

	if (!have_fake_pair())
		return;
	kv_pool_view(pair.src, &view);
	cr_assert_eq(window_make(&taker, &view, WINDOW_NIXL, 8 * NET_BLOCK_BYTES), 0);
	offer = (struct window_offer){ .shape = taker.shape, .fd = -1, .blob = taker.blob,
				       .blob_bytes = taker.blob_bytes };
	for (u32 i = 0; i < taker.blob_bytes; i++) {
		offer.blob_bytes = i;
		cr_expect_eq(window_open(&giver, &view, &offer),
			     i <= sizeof(taker.at) ? -EPROTO : -ECONNRESET, "%u", i);
	}
	/* Slots elsewhere: the library does not let it put there. */
	offer.blob_bytes = taker.blob_bytes;
	taker.blob[1] ^= 0xff;
	cr_expect_eq(window_open(&giver, &view, &offer), -ECONNRESET);
	/* A number of bytes that blocks do not need. */
	taker.blob[1] ^= 0xff;
	offer.shape.slot_bytes *= 2;
	offer.shape.bytes *= 2;
	cr_expect_eq(window_open(&giver, &view, &offer), -EPROTO);
	window_close(&taker);

	fake_nixl.blob_bytes = WINDOW_BLOB_BYTES;
	cr_expect_eq(window_make(&taker, &view, WINDOW_NIXL, 8 * NET_BLOCK_BYTES), -EOPNOTSUPP);
	end_fake_pair();
}

/* UCX below the library does not get over it. */
Test(nixl, what_a_taker_said_is_not_used_if_its_link_has_ended_since)
{
	struct window taker, giver;
	struct window_offer offer;
	struct kv_pool_view view;
	struct conn conn;
	int fds[2];

	if (!have_fake_pair())
		return;
	kv_pool_view(pair.src, &view);
	cr_assert_eq(window_make(&taker, &view, WINDOW_NIXL, 8 * NET_BLOCK_BYTES), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	cr_assert_eq(conn_init(&conn, fds[0], NULL), 0);
	offer = (struct window_offer){ .shape = taker.shape, .fd = -1, .blob = taker.blob,
				       .blob_bytes = taker.blob_bytes, .conn = &conn };
	cr_expect_eq(window_open(&giver, &view, &offer), 0);
	window_close(&giver);
	cr_expect_eq(fake_nixl.nr_loaded, 1);
	close(fds[1]);
	cr_expect_eq(window_open(&giver, &view, &offer), -ECONNRESET);
	cr_expect_eq(fake_nixl.nr_loaded, 1);
	conn_exit(&conn);
	window_close(&taker);
	end_fake_pair();
}

Test(nixl, a_device_has_to_take_no_more_than_a_slot_at_once)
{
	struct window taker;
	struct kv_pool_view view;

	if (!have_fake_pair())
		return;
	kv_pool_view(pair.src, &view);
	cr_assert_eq(window_make(&taker, &view, WINDOW_NIXL, 8 * NET_BLOCK_BYTES), 0);
	fake_nixl.most_bytes = taker.shape.slot_bytes;
	window_close(&taker);
	cr_expect_eq(window_make(&taker, &view, WINDOW_NIXL, 8 * NET_BLOCK_BYTES), 0);
	window_close(&taker);
	expect_range_goes();
	end_fake_pair();
}
