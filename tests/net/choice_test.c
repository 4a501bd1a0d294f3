// SPDX-License-Identifier: Apache-2.0
/* Which of several takers a job goes to, and takers that do not keep to the protocol. */
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/mover.h"
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

TestSuite(choice, .init = set_up, .fini = tear_down);

/* A second taker, with more room. */
static struct kvmm_migrate_server *serve_more(struct kvmm_pool *pool, const char *label, char *path)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_server *server = NULL;

	snprintf(path, 80, "%s/t", pair.folder);
	attr.pool = pool;
	attr.path = path;
	attr.label = label;
	cr_assert_eq(kvmm_migrate_serve(&attr, &server), 0);
	return server;
}

static int run_both(struct kvmm_migrate *job, struct kvmm_migrate_server *other)
{
	int err = -EINPROGRESS;

	for (u32 i = 0; i < 20000 && err == -EINPROGRESS; i++) {
		err = kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
		kvmm_migrate_serve_tick(other);
	}
	return err;
}

/*
 * Which of both takes 10 blocks: 1 the other. pair.dst has so many free, and is of @here, as the
 * source is.
 */
static int chosen(u32 nr_free, const char *here, const char *label)
{
	struct kvmm_migrate_serve_attr near = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_pool *pool = net_pool("host", 128);
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	kvmm_range_t full = net_range(pair.dst, 'f', 64 - nr_free, 1);
	struct kvmm_migrate *job = NULL;
	struct kvmm_migrate_server *other;
	char path[80], all[300], said[100];
	int is_other;

	kvmm_migrate_serve_end(pair.server);
	near.label = attr.label = here;
	pair_serve(&pair, &near);
	other = serve_more(pool, label, path);
	snprintf(all, sizeof(all), "%s,%s/nowhere,%s", pair.path, pair.folder, path);
	attr.range = net_range(pair.src, 'a', 10, 1);
	attr.target = all;
	attr.flags = KVMM_MIGRATE_ANY;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(kvmm_migrate_result(job, KVMM_MIGRATE_GOT_TARGET, said, sizeof(said)), -EAGAIN);
	cr_expect_eq(run_both(job, other), 0);
	cr_expect_gt(kvmm_migrate_result(job, KVMM_MIGRATE_GOT_TARGET, said, sizeof(said)), 0);
	kvmm_migrate_free(job);
	is_other = kvmm_range_find_seq(pool, 'a', NULL, 0);
	cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), !is_other);
	cr_expect_str_eq(said, is_other ? path : pair.path);
	kvmm_range_free_seq(pair.dst, 'a');
	kvmm_range_free(pair.dst, full);
	kvmm_migrate_serve_end(other);
	kvmm_pool_destroy(pool);
	return is_other;
}

Test(choice, of_several_takers_one_with_room_that_is_near_and_has_most_is_chosen)
{
	cr_expect_eq(chosen(60, NULL, NULL), 1, "it has more");
	cr_expect_eq(chosen(60, NULL, "rack 7"), 1, "it has more, and none is near");
	cr_expect_eq(chosen(60, "rack 3", "rack 7"), 0, "the other is not near");
	cr_expect_eq(chosen(9, "rack 3", "rack 7"), 1, "it has no room");
}

/* A job for 10 blocks of 'a' that asks pair.server, and another one at @path. */
static struct kvmm_migrate *begin_any(const char *path)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job = NULL;
	char all[300];

	snprintf(all, sizeof(all), "%s,%s", path, pair.path);
	attr.range = net_range(pair.src, 'a', 10, 1);
	attr.target = all;
	attr.flags = KVMM_MIGRATE_ANY;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	return job;
}

/* Until it has chosen one. */
static void let_choose(struct kvmm_migrate *job, struct kvmm_migrate_server *other)
{
	char said[100];

	for (u32 i = 0; i < 20000 && kvmm_migrate_result(job, KVMM_MIGRATE_GOT_TARGET, said,
							 sizeof(said)) == -EAGAIN; i++) {
		kvmm_migrate_serve_tick(pair.server);
		kvmm_migrate_serve_tick(other);
		kvmm_migrate_poll(job);
	}
}

Test(choice, resumed_after_a_refusal_a_job_chooses_again)
{
	struct kvmm_pool *pool = net_pool("host", 128);
	struct kvmm_migrate_server *other;
	struct kvmm_migrate *job;
	char path[80];

	other = serve_more(pool, NULL, path);
	job = begin_any(path);
	let_choose(job, other);
	net_range(pool, 'z', 128, 1);		/* it fills up before the offer comes */
	cr_expect_eq(run_both(job, other), -ENOSPC);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(run_both(job, other), 0);
	kvmm_migrate_free(job);
	kvmm_migrate_serve_end(other);
	kvmm_pool_destroy(pool);
	cr_expect(pair_range_is_there(&pair, 'a', 10));
}

/* It is not the start that the second is counted from. */
Test(choice, takers_have_a_second_from_the_first_look_and_then_the_job_fails)
{
	struct kvmm_pool *pool = net_pool("host", 128);
	struct kvmm_migrate_server *other;
	struct kvmm_migrate *job;
	char path[80];

	other = serve_more(pool, NULL, path);
	job = begin_any(path);
	usleep(1100000);
	cr_expect_eq(kvmm_migrate_poll(job), -EINPROGRESS);
	usleep(1100000);
	cr_expect_eq(kvmm_migrate_wait(job, 1000000000), -ETIMEDOUT);
	/* Which leaves no links behind, nor does a job that is cancelled before it has chosen. */
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 1);
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(kvmm_migrate_poll(job), -ECANCELED);
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 0);
	kvmm_migrate_free(job);
	kvmm_migrate_serve_end(other);
	kvmm_pool_destroy(pool);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

Test(choice, a_taker_that_has_answered_and_dies_before_the_choice_is_not_chosen)
{
	struct kvmm_pool *pool = net_pool("host", 128);
	struct kvmm_migrate_server *other;
	struct kvmm_migrate *job;
	char path[80];

	other = serve_more(pool, NULL, path);
	job = begin_any(path);
	for (u32 i = 0; i < 20; i++) {
		kvmm_migrate_serve_tick(other);
		cr_expect_eq(kvmm_migrate_poll(job), -EINPROGRESS);
	}
	kvmm_migrate_serve_end(other);
	kvmm_pool_destroy(pool);
	cr_expect_eq(pair_run(&pair, job), 0);
	kvmm_migrate_free(job);
	cr_expect(pair_range_is_there(&pair, 'a', 10));
}

/* A taker of a few lines, which offers a window that cannot be had, and again. */
Test(choice, a_window_of_a_device_that_was_refused_is_not_offered_again)
{
	const struct kv_sock_ops *ops = kv_sock();
	struct wire_window shape = { .kind = WINDOW_DEVICE, .slot_blocks = 1 };
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job = NULL;
	struct kv_pool_view view;
	struct wire_hello hello;
	struct conn conn;
	char path[80];
	int door, fd;

	snprintf(path, sizeof(path), "%s/t", pair.folder);
	door = ops->listen(ops->ctx, path);
	cr_assert_geq(door, 0);
	attr.range = net_range(pair.src, 'a', 1, 1);
	attr.target = path;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	fd = ops->accept(ops->ctx, door, false);
	cr_assert_geq(fd, 0);
	cr_assert_eq(conn_init(&conn, fd, NULL), 0);
	kv_pool_view(pair.src, &view);
	hello = wire_hello_of(&view);
	shape.slot_bytes = stage_bytes(&view.planes, 1);
	shape.bytes = WINDOW_SLOTS * shape.slot_bytes;
	conn_say(&conn, WIRE_HELLO, NULL, 0, &hello, sizeof(hello));
	for (u32 i = 0; i < 2; i++) {
		conn_send(&conn, &(struct conn_out){ .type = WIRE_WINDOW, .fixed = &shape,
						     .fixed_bytes = sizeof(shape), .fd = door });
		cr_expect_eq(kvmm_migrate_poll(job), i ? -EPROTO : -EINPROGRESS);
	}
	kvmm_migrate_free(job);
	conn_exit(&conn);
	ops->close(ops->ctx, door);
	ops->unlink(ops->ctx, path);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
}

/* To a side that does not read. */
Test(choice, a_message_that_finds_no_room_breaks_the_connection)
{
	static const u8 part[30000];
	struct conn conn;
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(conn_init(&conn, fds[0], NULL), 0);
	conn.held = true;
	for (u32 i = 0; i < 4; i++)
		conn_say(&conn, WIRE_SUMS, NULL, 0, part, sizeof(part));
	cr_expect_eq(conn.err, 0);
	conn_say(&conn, WIRE_SUMS, NULL, 0, part, sizeof(part));
	cr_expect_eq(conn.err, -EPROTO);
	cr_expect_leq(conn.nr_out, 2 * CONN_BYTES);
	conn_exit(&conn);
	close(fds[1]);
}

Test(choice, where_none_of_several_takers_serves_a_job_does_not_begin)
{
	struct kvmm_migrate_auto_attr often = KVMM_MIGRATE_AUTO_INIT;
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate_auto *watch = NULL;
	struct kvmm_migrate *job = NULL;

	often.src = pair.src;
	often.low = 1;
	often.high = 2;
	often.flags = KVMM_MIGRATE_ANY;
	attr.range = net_range(pair.src, 'a', 10, 1);
	attr.target = "/nowhere/a,/nowhere/b";
	attr.flags = KVMM_MIGRATE_ANY;
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -ENOENT);
	attr.target = "/a,/b,/c,/d,/e,/f,/g,/h,/i";
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -E2BIG);
	attr.target = "/a,fax://1.2.3.4:5";
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -EINVAL);
	cr_expect(strstr(kvmm_why(), "fax:"), "%s", kvmm_why());
	often.target = "/a,/b,/c,/d,/e,/f,/g,/h,/i";
	cr_expect_eq(kvmm_migrate_auto_start(&often, &watch), -E2BIG);
	attr.dst = pair.dst;
	attr.target = NULL;
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -EINVAL);
}
