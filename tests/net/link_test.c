// SPDX-License-Identifier: Apache-2.0
/* Migration over a link: what both sides have after each end of it, good or bad. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <kv/env.h>

#include "net/conn.h"
#include "net/window.h"
#include "tests/net/pair.h"
#include "tests/support/test.h"

static struct pair pair;

static void set_up(void)
{
	pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
}

static void tear_down(void)
{
	pair_exit(&pair);
}

TestSuite(link, .init = set_up, .fini = tear_down);

static struct kvmm_migrate *begin_keys(u32 first, u32 nr)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job = NULL;
	kvmm_ref_t refs[64];

	net_cache(pair.src, first, nr);
	net_match(pair.src, first, nr, refs);
	attr.what = KVMM_MIGRATE_REFS;
	attr.refs = refs;
	attr.nr_refs = nr;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_assert_eq(kvmm_put_many(pair.src, refs, nr), 0);
	return job;
}

/* As an engine would: how many ticks in @ms milliseconds, or until there is a link. */
static u32 ticks_in(u32 ms)
{
	struct pollfd fd = { .fd = kvmm_migrate_serve_fd(pair.server), .events = POLLIN };
	u64 until = kv_clock_ns() + ms * 1000000ull, now;
	u32 nr = 0;

	while ((now = kv_clock_ns()) < until && !pair_stat(&pair).nr_links)
		if (poll(&fd, 1, (until - now) / 1000000 + 1) > 0) {
			kvmm_migrate_serve_tick(pair.server);
			nr++;
		}
	return nr;
}

/* What is sealed goes while the rest is written, and only what is left has to be waited for. */
Test(link, a_sequence_goes_while_it_decodes)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate_status status;
	struct kvmm_migrate *job = NULL;
	u64 whole = 0;

	attr.range = net_range(pair.src, 'a', 1, 1);
	attr.flags = KVMM_MIGRATE_PRECOPY;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	for (u32 nr = 2; nr <= 30; nr++) {
		net_decode(pair.src, attr.range, 'a', nr);
		cr_assert_eq(pair_turn(&pair, job), -EINPROGRESS);
		cr_expect_eq(net_status(job).nr_verified, nr - 1);
	}
	cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), 0);
	net_decoded(pair.src, attr.range, 'a', 30);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	status = net_status(job);
	for (u32 i = 0; i < KVMM_NR_MIGRATE_PHASES; i++)
		whole += status.phase_ns[i];
	cr_expect_eq(status.nr_stop, 1);
	cr_expect_eq(status.nr_copied, 30);
	cr_expect(status.stop_ns && status.stop_ns < whole, "%llu of %llu",
		  (unsigned long long)status.stop_ns, (unsigned long long)whole);
	kvmm_migrate_free(job);
	cr_expect(pair_range_is_there(&pair, 'a', 30));
	cr_expect_eq(pair_stat(&pair).offers, 1);
}

/* At each call, and all that was sent is sent again. */
Test(link, a_sequence_whose_link_breaks_while_it_decodes_goes_by_another)
{
	struct spoil how = { .cut_at = 0 };
	u32 nr_calls;

	do {
		struct kvmm_migrate_attr attr = pair_attr(&pair);
		struct kvmm_migrate *job = NULL;
		u32 nr = 1;
		int err = -EINPROGRESS;

		how.cut_at++;
		attr.range = net_range(pair.src, 'a', 1, 1);
		attr.flags = KVMM_MIGRATE_PRECOPY;
		cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
		spoil_begin(&how);
		while (nr < 5 && err == -EINPROGRESS) {
			net_decode(pair.src, attr.range, 'a', ++nr);
			err = pair_turn(&pair, job);
		}
		net_decoded(pair.src, attr.range, 'a', nr);
		if (err == -EINPROGRESS && !kvmm_migrate_finish(job))
			err = pair_run(&pair, job);
		nr_calls = spoil.nr_calls;
		spoil_end();
		pair_settle(&pair);
		cr_assert(!err || err == -ECONNRESET, "%u: %d", how.cut_at, err);
		if (err) {
			cr_assert_eq(kvmm_migrate_resume(job), 0, "%u", how.cut_at);
			cr_expect_eq(kvmm_migrate_finish(job), 0);
			cr_expect_eq(pair_run(&pair, job), 0, "%u", how.cut_at);
		}
		kvmm_migrate_free(job);
		pair_settle(&pair);
		cr_assert(pair_range_is_there(&pair, 'a', nr), "%u", how.cut_at);
		cr_assert_eq(pair_stat(&pair).nr_waiting, 0);
	} while (nr_calls >= how.cut_at);
	cr_expect_gt(how.cut_at, 40);
}

static int no_descriptor(void *ctx, int fd, bool root_too)
{
	return -EMFILE;
}

/* A giver at the door that cannot be let in: level-triggered, it would call for ever. */
Test(link, without_descriptors_a_server_looks_again_now_and_then)
{
	struct kv_sock_ops poor = kv_sock_system;
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 1);
	u32 nr;

	poor.accept = no_descriptor;
	kv_sock_set(&poor);
	nr = ticks_in(400);
	cr_expect_leq(nr, 20, "%u ticks", nr);
	cr_expect_geq(pair_stat(&pair).shut, 1);
	cr_expect_leq(pair_stat(&pair).shut, nr);
	kv_sock_set(NULL);
	ticks_in(60000);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
}

Test(link, a_server_without_a_place_is_quiet_until_there_is_one)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate *first, *second;
	struct pollfd fd = { .events = POLLIN };
	u32 nr = 0;

	kvmm_migrate_serve_end(pair.server);
	attr.pool = pair.dst;
	attr.path = pair.path;
	attr.max_links = 1;
	cr_assert_eq(kvmm_migrate_serve(&attr, &pair.server), 0);
	first = pair_begin_range(&pair, 'a', 1);
	second = pair_begin_range(&pair, 'b', 1);
	fd.fd = kvmm_migrate_serve_fd(pair.server);
	while (poll(&fd, 1, 200) > 0 && nr++ < 100)
		kvmm_migrate_serve_tick(pair.server);
	cr_expect_lt(nr, 20, "%u ticks", nr);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	kvmm_migrate_free(first);
	while (poll(&fd, 1, 200) > 0 && nr++ < 100)
		kvmm_migrate_serve_tick(pair.server);
	cr_expect_lt(nr, 40, "%u ticks", nr);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	kvmm_migrate_free(second);
}

/* Exactly one of them has it. */
static void expect_range_there(u64 seq, u32 nr)
{
	struct kvmm_migrate_arrival arrival;

	cr_expect_eq(kvmm_range_find_seq(pair.src, seq, NULL, 0), 0);
	cr_assert_eq(kvmm_migrate_arrived(pair.server, &arrival), 0);
	cr_expect_eq(arrival.seq, seq);
	cr_expect(net_range_is(pair.dst, arrival.range, seq, nr));
	cr_expect_eq(kvmm_range_free(pair.dst, arrival.range), 0);
	cr_expect_eq(kvmm_migrate_arrived(pair.server, &arrival), -ENOENT);
}

Test(link, the_servers_descriptor_says_when_there_is_something_to_do)
{
	struct pollfd watch = { .fd = kvmm_migrate_serve_fd(pair.server), .events = POLLIN };
	struct kvmm_migrate *job;

	cr_expect_eq(poll(&watch, 1, 0), 0);
	job = pair_begin_range(&pair, 1, 2);
	kvmm_migrate_poll(job);
	cr_expect_eq(poll(&watch, 1, 60000), 1);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_migrate_serve_fd(NULL), -EINVAL);
}

Test(link, a_range_goes_in_more_parts_than_the_window_has_room_for)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 30);
	kvmm_range_t range;

	cr_expect_eq(pair_run(&pair, job), 0);
	cr_expect_eq(net_status(job).nr_copied, 30);
	cr_expect_eq(net_status(job).path, KVMM_MIGRATE_PATH_SHARED);
	cr_expect_eq(kvmm_migrate_ranges(job, &range, 1), -EREMOTE);
	kvmm_migrate_free(job);
	expect_range_there('a', 30);
	cr_expect_eq(net_nr_free(pair.src), 64);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(pair_stat(&pair).offers, 1);
	cr_expect_eq(pair_stat(&pair).commits, 1);
	cr_expect_eq(pair_stat(&pair).bytes, 30 * NET_BLOCK_BYTES);
}

Test(link, cached_blocks_are_found_there_and_those_that_are_there_are_not_copied)
{
	struct kvmm_migrate *job;

	net_cache(pair.dst, 103, 4);
	job = begin_keys(100, 20);
	cr_expect_eq(pair_run(&pair, job), 0);
	cr_expect_eq(net_status(job).nr_present, 4);
	cr_expect_eq(net_status(job).nr_copied, 16);
	kvmm_migrate_free(job);
	cr_expect_eq(net_cached(pair.src, 100, 20), 0);
	cr_expect_eq(net_cached(pair.dst, 100, 20), 20);
	cr_expect_eq(net_nr_free(pair.src), 64);
}

Test(link, without_room_there_nothing_has_changed_and_it_can_be_resumed)
{
	kvmm_range_t full = net_range(pair.dst, 'z', 60, 1);
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 10);

	cr_expect_eq(pair_run(&pair, job), -ENOSPC);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_FAILED);
	cr_expect_eq(net_nr_free(pair.dst), 4);
	cr_expect_eq(kvmm_range_find_seq(pair.src, 'a', NULL, 0), 1);
	cr_expect_eq(kvmm_range_free(pair.dst, full), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	expect_range_there('a', 10);
}

Test(link, cancelled_it_is_free_there)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 30);

	for (u32 i = 0; net_status(job).phase < KVMM_MIGRATE_COPYING || !net_status(job).nr_copied; i++) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	cr_expect_eq(net_nr_free(pair.dst), 34);
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(pair_run(&pair, job), -ECANCELED);
	pair_settle(&pair);
	kvmm_migrate_free(job);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(net_nr_free(pair.src), 34);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

/* It changes after its checksums were told: the taker does not have what was offered. */
Test(link, what_is_not_what_was_offered_is_never_found)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 30);
	struct kvmm_extent ext;
	kvmm_range_t range;

	while (!net_status(job).nr_copied) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	cr_assert_eq(kvmm_range_find_seq(pair.src, 'a', &range, 1), 1);
	cr_assert_eq(kvmm_range_extents(pair.src, range, &ext, 1), 1);
	cr_assert_eq(net_write(pair.src, ext.start + 29, 'x', 0), 0);
	cr_expect_eq(pair_run(&pair, job), -EBADMSG);
	pair_settle(&pair);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), 0);
	cr_assert_eq(net_write(pair.src, ext.start + 29, 'a', 29), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	expect_range_there('a', 30);
}

Test(link, pools_that_are_not_made_alike_part)
{
	struct kvmm_pool_attr other = { .size = sizeof(other), .nr_blocks = 8,
					.block_bytes = 2 * NET_BLOCK_BYTES };
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job;
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_pool_create(&other, &pool), 0);
	attr.src = pool;
	cr_assert_eq(kvmm_range_alloc(pool, 2, 0, &attr.range), 0);
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(pair_run(&pair, job), -EMEDIUMTYPE);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_destroy(pool);
}

Test(link, a_range_longer_than_the_pool_there_finds_no_room)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_pool *pool = net_pool("host", 128);
	struct kvmm_migrate *job;

	attr.src = pool;
	attr.range = net_range(pool, 'a', 65, 1);
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(pair_run(&pair, job), -ENOSPC);
	kvmm_migrate_free(job);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(kvmm_range_free(pool, attr.range), 0, "it is held no more");
	kvmm_pool_destroy(pool);
}

Test(link, a_folder_that_others_get_into_is_refused)
{
	struct kvmm_migrate_serve_attr attr = { .size = sizeof(attr), .pool = pair.dst,
						.path = pair.path };
	struct kvmm_migrate_attr go = pair_attr(&pair);
	struct kvmm_migrate_server *server;
	struct kvmm_migrate *job;

	go.range = net_range(pair.src, 'a', 1, 1);
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EADDRINUSE);
	cr_assert_eq(chmod(pair.folder, 0755), 0);
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EPERM);
	cr_expect_eq(kvmm_migrate_start(&go, &job), -EPERM);
	cr_assert_eq(chmod(pair.folder, 0700), 0);
	attr.path = "/nowhere/at/all";
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -ENOENT);
	attr.path = "/nowhere/\x1b[2J";
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EINVAL);
	attr.path = NULL;
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EINVAL);
	go.target = "/nowhere/at/all";
	cr_expect_eq(kvmm_migrate_start(&go, &job), -ENOENT);
	go.target = "";
	cr_expect_eq(kvmm_migrate_start(&go, &job), -EINVAL);
	cr_expect_str_eq(kvmm_why(), "name of a target: it is empty");
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

/* Whatever is in doubt ends when both meet again; what was reserved for nobody is free again. */
static void meet_again(struct kvmm_migrate *job, int err)
{
	spoil_end();
	pair_settle(&pair);
	if (err) {
		cr_assert_eq(kvmm_migrate_resume(job), 0);
		cr_assert_eq(pair_run(&pair, job), 0);
	}
	kvmm_migrate_free(job);
	pair_settle(&pair);
}

/* @cut: which call of the socket's breaks it. Whether it came to that. */
static bool run_cut(u32 cut)
{
	const struct spoil how = { .cut_at = cut };
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 20);
	bool in_doubt, came;
	int err;

	spoil_begin(&how);
	err = pair_run(&pair, job);
	came = spoil.nr_calls >= cut;
	in_doubt = net_status(job).in_doubt;
	cr_expect(err == 0 || err == -ECONNRESET, "cut %u: %d", cut, err);
	cr_expect_eq(kvmm_validate(pair.src), 0);
	cr_expect_eq(kvmm_validate(pair.dst), 0);
	cr_expect(!err || kvmm_range_find_seq(pair.src, 'a', NULL, 0) == 1, "cut %u: lost", cut);
	cr_expect(in_doubt || !err || !kvmm_range_find_seq(pair.dst, 'a', NULL, 0), "cut %u", cut);
	meet_again(job, err);
	expect_range_there('a', 20);
	cr_expect_eq(net_nr_free(pair.src), 64, "cut %u", cut);
	cr_expect_eq(net_nr_free(pair.dst), 64, "cut %u", cut);
	return came;
}

Test(link, it_may_break_at_any_call_and_goes_on_where_it_was)
{
	u32 cut = 1;

	while (run_cut(cut))
		cut++;
	cr_expect_gt(cut, 20);
	cr_expect_gt(pair_stat(&pair).resumed, 5);
	cr_expect_gt(pair_stat(&pair).repeated, 0, "no acknowledgement was lost");
	cr_expect_eq(pair_stat(&pair).commits, cut, "each one once");
}

/* It knows nothing of the job, so it has not published, whatever its predecessor did. */
Test(link, the_refusal_of_a_taker_that_was_started_anew_ends_the_doubt)
{
	const struct kvmm_migrate_serve_attr again = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 10);
	kvmm_range_t full, range;

	for (u32 i = 0; i < 1000 && !net_status(job).in_doubt; i++) {
		kvmm_migrate_serve_tick(pair.server);
		kvmm_migrate_poll(job);
	}
	kvmm_migrate_serve_end(pair.server);
	full = net_range(pair.dst, 'z', 60, 1);
	pair_serve(&pair, &again);
	cr_expect_eq(pair_run(&pair, job), -ECONNRESET);
	cr_assert(net_status(job).in_doubt);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(pair_run(&pair, job), -ENOSPC);
	cr_expect_not(net_status(job).in_doubt);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(pair_run(&pair, job), -ECANCELED);
	cr_assert_eq(kvmm_range_find_seq(pair.src, 'a', &range, 1), 1);
	cr_expect(net_range_is(pair.src, range, 'a', 10));
	cr_expect_eq(kvmm_range_free(pair.src, range), 0, "it is held no more");
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect_eq(net_nr_free(pair.src), 64);
	cr_expect_eq(kvmm_range_free(pair.dst, full), 0);
	cr_expect_eq(net_nr_free(pair.dst), 64);
}

/* A range is half there, and its link is gone. */
static void break_with_lease(u64 lease_ns)
{
	const struct spoil how = { .cut_at = 60 };
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate *job;

	kvmm_migrate_serve_end(pair.server);
	attr.pool = pair.dst;
	attr.path = pair.path;
	attr.window_bytes = 8 * NET_BLOCK_BYTES;
	attr.lease_ns = lease_ns;
	cr_assert_eq(kvmm_migrate_serve(&attr, &pair.server), 0);
	job = pair_begin_range(&pair, 'a', 40);
	spoil_begin(&how);
	cr_expect_eq(pair_run(&pair, job), -ECONNRESET);
	spoil_end();
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_waiting, 1);
	cr_expect_eq(net_nr_free(pair.dst), 24);
}

Test(link, a_lease_without_end_outlives_its_link)
{
	break_with_lease(UINT64_MAX);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

Test(link, what_was_reserved_for_who_does_not_come_back_is_free_in_the_end)
{
	u32 i;

	break_with_lease(20000000);
	for (i = 0; i < 100000000 && pair_stat(&pair).nr_waiting; i++)
		kvmm_migrate_serve_tick(pair.server);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

Test(link, pieces_of_any_length_make_the_same_messages)
{
	static const u32 lengths[] = { 1, 3, 39, 40, 41, 1000 };

	for (u32 i = 0; i < ARRAY_SIZE(lengths); i++) {
		const struct spoil how = { .short_bytes = lengths[i], .eintr_every = 5 };
		struct kvmm_migrate *job = begin_keys(1000 * i, 8);

		spoil_begin(&how);
		cr_expect_eq(pair_run(&pair, job), 0);
		spoil_end();
		kvmm_migrate_free(job);
		cr_expect_eq(net_cached(pair.dst, 1000 * i, 8), 8);
		cr_assert_eq(kvmm_reset_inactive(pair.dst), 8);
	}
}

/* A giver of a few lines, which has the window, and has not opened it. */
static void greet(struct conn *conn)
{
	struct kv_pool_view view;
	struct wire_hello hello;
	struct wire_msg msg = { 0 };
	int fd = kv_sock()->connect(NULL, pair.path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(conn_init(conn, fd, NULL), 0);
	kv_pool_view(pair.src, &view);
	hello = wire_hello_of(&view);
	conn_say(conn, WIRE_HELLO, NULL, 0, &hello, sizeof(hello));
	for (u32 i = 0; i < 1000 && msg.head.type != WIRE_WINDOW; i++) {
		kvmm_migrate_serve_tick(pair.server);
		conn_next(conn, &msg);
	}
	cr_assert_eq(msg.head.type, WIRE_WINDOW);
	kv_sock()->close(NULL, conn_take_fd(conn));
	conn_say(conn, WIRE_WINDOW, NULL, 0, msg.payload, sizeof(struct wire_window));
}

Test(link, answers_that_a_giver_is_slow_to_read_come_all_of_them)
{
	const struct wire_id id = { { 4, 7 } };
	u32 nr_asked = 0, nr_answers = 0;
	struct conn conn;
	struct wire_msg msg;

	greet(&conn);
	for (; conn_has_room(&conn); nr_asked++) {
		cr_assert_lt(nr_asked, 1000000);
		conn_say(&conn, WIRE_COMMIT, &id, 1, NULL, 0);
		kvmm_migrate_serve_tick(pair.server);
	}
	for (u32 i = 0; i < 10 * nr_asked && nr_answers < nr_asked; i++) {
		kvmm_migrate_serve_tick(pair.server);
		while (conn_next(&conn, &msg) > 0)
			nr_answers += msg.head.type == WIRE_ABORT;
	}
	cr_expect_eq(nr_answers, nr_asked);
	conn_exit(&conn);
	pair_settle(&pair);
}

Test(link, memory_that_the_system_lacks_for_a_moment_is_waited_for)
{
	for (u32 cut = 1; cut < 40; cut++) {
		const struct spoil how = { .cut_at = cut, .err = -ENOMEM };
		struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 10);

		spoil_begin(&how);
		cr_expect_eq(pair_run(&pair, job), 0, "cut %u", cut);
		spoil_end();
		kvmm_migrate_free(job);
		expect_range_there('a', 10);
	}
}

Test(link, a_job_whose_link_goes_is_resumed_on_another_one)
{
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 30);

	kvmm_migrate_poll(job);
	kvmm_migrate_serve_tick(pair.server);
	kvmm_migrate_poll(job);
	cr_assert_eq(shutdown(net_status(job).fd, SHUT_RDWR), 0);
	cr_expect_eq(pair_run(&pair, job), -ECONNRESET);
	cr_expect_eq(net_status(job).fd, -1);
	cr_assert_eq(chmod(pair.folder, 0755), 0);
	cr_expect_eq(kvmm_migrate_resume(job), -EPERM);
	cr_assert_eq(chmod(pair.folder, 0700), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_geq(net_status(job).fd, 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	expect_range_there('a', 30);
}

/* ---- one link for many jobs ---- */

/* A link of its own could not be ready before the server has looked. */
static bool is_ready_at_once(struct kvmm_migrate *job)
{
	kvmm_migrate_poll(job);
	return net_status(job).phase > KVMM_MIGRATE_PREPARE;
}

static struct kvmm_migrate *run_after(u64 seq, struct kvmm_migrate *before, bool at_once)
{
	struct kvmm_migrate *job = pair_begin_after(&pair, seq, 20, before);

	cr_expect_eq(is_ready_at_once(job), at_once, "%c", (char)seq);
	kvmm_migrate_free(before);
	cr_expect_eq(pair_run(&pair, job), 0);
	cr_expect_eq(net_status(job).nr_copied, 20);
	cr_expect_eq(net_status(job).fd, -1);
	expect_range_there(seq, 20);
	return job;
}

Test(link, a_job_takes_over_the_link_of_the_one_before)
{
	struct kvmm_migrate *job = run_after('a', NULL, false);
	u32 nr_descriptors = net_status(job).nr_descriptors;

	for (u64 seq = 'b'; seq < 'f'; seq++) {
		job = run_after(seq, job, true);
		cr_expect_eq(net_status(job).nr_descriptors, nr_descriptors);
		cr_expect_eq(pair_stat(&pair).nr_links, 1);
	}
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 0);
	cr_expect_eq(pair_stat(&pair).commits, 5);
}

Test(link, what_cannot_be_taken_over_is_made_anew)
{
	const struct kvmm_migrate_serve_attr again = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate *job = run_after('a', NULL, false), *other;

	/* The server it led to has ended. */
	kvmm_migrate_serve_end(pair.server);
	pair_serve(&pair, &again);
	job = run_after('b', job, false);
	/* Another one has it already; and one that is not committed needs its own. */
	other = pair_begin_after(&pair, 'c', 20, job);
	cr_expect(is_ready_at_once(other));
	job = run_after('d', job, false);
	kvmm_migrate_free(run_after('e', other, false));
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'c'), 1);
	kvmm_migrate_free(job);
}

static void serve_one_link(void)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;

	attr.max_links = 1;
	kvmm_migrate_serve_end(pair.server);
	pair_serve(&pair, &attr);
}

Test(link, a_link_that_is_kept_for_later_gives_way_where_there_is_no_other_place)
{
	struct kvmm_migrate *first, *second;

	serve_one_link();
	first = run_after('a', NULL, false);
	second = run_after('b', NULL, false);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	first = run_after('c', first, false);
	second = run_after('d', second, false);
	second = run_after('e', second, true);
	kvmm_migrate_free(first);
	kvmm_migrate_free(second);
}

Test(link, a_job_that_is_not_told_to_keep_its_link_has_none_when_it_is_done)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job;

	attr.range = net_range(pair.src, 'a', 20, 1);
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 0);
	expect_range_there('a', 20);
	kvmm_migrate_free(run_after('b', job, false));
}

Test(link, a_job_inside_the_process_has_no_link_to_take_over)
{
	struct kvmm_migrate *job = run_after('a', NULL, false), *other;
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;

	attr.src = pair.src;
	attr.dst = pair.dst;
	attr.range = net_range(pair.src, 'b', 4, 1);
	attr.after = job;
	cr_expect_eq(kvmm_migrate_start(&attr, &other), -EINVAL);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'b'), 1);
}

Test(link, a_start_that_fails_leaves_the_link_where_it_was)
{
	struct kvmm_migrate *job = run_after('a', NULL, false), *other;
	struct kvmm_migrate_attr attr = pair_attr(&pair);

	attr.after = job;
	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = 'z';
	cr_expect_eq(kvmm_migrate_start(&attr, &other), -ENOENT);
	kvmm_migrate_free(run_after('b', job, true));
}

Test(link, one_that_learns_that_it_was_committed_before_gives_way_too)
{
	const struct wire_offer offer = { 0 };
	struct kvmm_migrate_arrival arrival;
	struct kvmm_migrate *job;
	struct conn conn;
	struct wire_id id;

	serve_one_link();
	job = pair_begin_range(&pair, 'a', 20);
	cr_assert_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	cr_assert_eq(kvmm_migrate_arrived(pair.server, &arrival), 0);
	memcpy(&id, arrival.id, sizeof(id));
	greet(&conn);
	conn_say(&conn, WIRE_OFFER, &id, 2, &offer, sizeof(offer));
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).repeated, 1);
	kvmm_migrate_free(run_after('b', NULL, false));
	conn_exit(&conn);
}

Test(link, a_link_with_an_offer_that_was_not_read_yet_does_not_give_way)
{
	struct kvmm_migrate *first, *second, *other;

	serve_one_link();
	first = run_after('a', NULL, false);
	second = pair_begin_after(&pair, 'b', 20, first);
	for (u32 i = 0; i < 10; i++)
		kvmm_migrate_poll(second);
	other = pair_begin_range(&pair, 'c', 20);
	kvmm_migrate_serve_tick(pair.server);
	cr_expect_eq(pair_stat(&pair).offers, 2);
	cr_expect_eq(pair_run(&pair, second), 0);
	expect_range_there('b', 20);
	cr_expect_eq(pair_run(&pair, other), 0);
	expect_range_there('c', 20);
	kvmm_migrate_free(first);
	kvmm_migrate_free(second);
	kvmm_migrate_free(other);
}

Test(link, a_job_whose_link_gave_way_before_its_offer_makes_another_one)
{
	struct kvmm_migrate *first, *second, *other;

	serve_one_link();
	first = run_after('a', NULL, false);
	second = pair_begin_after(&pair, 'b', 20, first);
	other = pair_begin_range(&pair, 'c', 20);
	kvmm_migrate_serve_tick(pair.server);
	kvmm_migrate_poll(second);
	cr_expect_eq(pair_run(&pair, other), 0);
	expect_range_there('c', 20);
	cr_expect_eq(pair_run(&pair, second), 0);
	cr_expect_eq(net_status(second).attempts, 1);
	expect_range_there('b', 20);
	kvmm_migrate_free(first);
	kvmm_migrate_free(second);
	kvmm_migrate_free(other);
}

/* A taker of a few lines, that a job of sequence 'a' has found, with a window. */
struct liar {
	struct window window;
	struct conn conn;
	struct wire_id id;
};

static void hear(struct liar *liar, struct kvmm_migrate *job, u32 type, struct wire_msg *msg)
{
	u32 i = 0;

	for (msg->head.type = 0; msg->head.type != type; i++) {
		cr_assert_lt(i, 1000);
		cr_assert_eq(kvmm_migrate_poll(job), -EINPROGRESS);
		conn_next(&liar->conn, msg);
	}
}

static struct kvmm_migrate *find_liar(struct liar *liar, kvmm_range_t range)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job = NULL;
	struct kv_pool_view view;
	struct wire_hello hello;
	struct wire_msg msg;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/liar", pair.folder);
	fd = kv_sock()->listen(NULL, path);
	cr_assert_geq(fd, 0);
	attr.target = path;
	attr.range = range;
	attr.flags = KVMM_MIGRATE_PRECOPY;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_assert_eq(conn_init(&liar->conn, kv_sock()->accept(NULL, fd, false), NULL), 0);
	kv_sock()->close(NULL, fd);
	kv_sock()->unlink(NULL, path);
	kv_pool_view(pair.dst, &view);
	hello = wire_hello_of(&view);
	conn_say(&liar->conn, WIRE_HELLO, NULL, 0, &hello, sizeof(hello));
	cr_assert_eq(window_make(&liar->window, &view, WINDOW_SHARED, 8 * NET_BLOCK_BYTES), 0);
	conn_send(&liar->conn, &(struct conn_out){
		.type = WIRE_WINDOW, .fixed = &liar->window.shape,
		.fixed_bytes = sizeof(liar->window.shape), .fd = liar->window.fd });
	net_decode(pair.src, range, 'a', 2);
	hear(liar, job, WIRE_SUMS, &msg);
	liar->id = msg.head.id;
	return job;
}

static void say_accept(struct liar *liar, u32 answer)
{
	const struct wire_accept accept = { .answer = answer };

	conn_say(&liar->conn, WIRE_ACCEPT, &liar->id, 1, &accept, sizeof(accept));
}

/* Of a sequence that decodes no taker has all, and what it says next would be of a longer list. */
Test(link, a_taker_that_says_too_early_that_it_has_all_is_not_believed)
{
	struct liar liar = { .window.fd = -1 };
	kvmm_range_t range = net_range(pair.src, 'a', 1, 1);
	struct kvmm_migrate *job = find_liar(&liar, range);
	int err;

	say_accept(&liar, WIRE_COMMITTED);
	err = kvmm_migrate_poll(job);
	cr_expect_eq(err, -EPROTO, "%d", err);
	for (u32 nr = 3; nr < 30 && err == -EINPROGRESS; nr++) {
		net_decode(pair.src, range, 'a', nr);
		kvmm_migrate_poll(job);
		say_accept(&liar, WIRE_GO);
		err = kvmm_migrate_poll(job);
	}
	kvmm_migrate_free(job);
	conn_exit(&liar.conn);
	window_close(&liar.window);
	cr_expect_eq(kvmm_range_free(pair.src, range), 0);
}
