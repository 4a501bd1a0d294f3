// SPDX-License-Identifier: Apache-2.0
/*
 * One client of the control socket, and a system that takes what it is given in small portions, or has
 * something against it for a moment; times, and what is told of them.
 */
#define _GNU_SOURCE
#include <dirent.h>

#include "ctl/control.h"
#include "tests/ctl/one_pool.h"

#define MS		1000000ull
#define PORTION		100u

static struct kv_sock_ops doctored;
static u32 nr_room;		/* bytes that a send takes until somebody says otherwise */
static int passing;		/* once, from each call */

static s64 send_some(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr)
{
	s64 err = passing;

	passing = 0;
	if (err || !nr_room)
		return err ? err : -EAGAIN;
	bytes = min(bytes, (size_t)nr_room);
	nr_room -= bytes;
	return kv_sock_system.send(NULL, fd, buf, bytes, fds, nr);
}

static s64 receive_some(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr)
{
	s64 err = passing;

	passing = 0;
	return err ? err : kv_sock_system.recv(NULL, fd, buf, bytes, fds, nr);
}

static int watch_new_only(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	return is_new ? kv_sock_system.watch_set(NULL, watch, fd, events, is_new) : -ENOMEM;
}

static int watch_none(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	return is_new ? -ENOSPC : kv_sock_system.watch_set(NULL, watch, fd, events, is_new);
}

static void doctor(void)
{
	set_up();
	doctored = kv_sock_system;
	doctored.send = send_some;
	doctored.recv = receive_some;
	nr_room = UINT32_MAX;
	kv_sock_set(&doctored);
}

static void let_be(void)
{
	kv_sock_set(NULL);
	tear_down();
}

TestSuite(peer, .init = doctor, .fini = let_be);

/* ---- slowly ---- */

/* What comes of the answer in portions, half a second each. */
static size_t take_slowly(int fd, char *text, size_t room)
{
	size_t len = 0;

	for (u32 i = 0; i < 1000; i++) {
		const char *heard;

		nr_room = PORTION;
		control_settle(control);
		heard = hear(fd);
		if (!*heard)
			break;
		len += snprintf(text + len, room - len, "%s", heard);
		fake_env_advance(&fake, 500 * MS);
	}
	return len;
}

Test(peer, who_takes_his_answer_slowly_is_served_as_long_as_he_takes_some)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	static char text[65536], want[65536];
	int fd;

	attr.idle_ms = attr.output_ms = 1000;
	open_anew(&attr);
	fd = visitor(control);
	strcpy(want, ask(control, fd, "help"));
	cr_assert_gt(strlen(want), 20 * PORTION);
	/* Long ago he was the last to take something; that does not count. */
	fake_env_advance(&fake, 900 * MS);
	nr_room = 0;
	cr_expect_str_eq(ask(control, fd, "help"), "");
	fake_env_advance(&fake, 900 * MS);
	control_settle(control);
	cr_expect_eq(take_slowly(fd, text, sizeof(text)), strlen(want));
	cr_expect_str_eq(text, want);
	/* Nor does the time that it took: what he does now is say nothing. */
	nr_room = UINT32_MAX;
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	cr_expect_eq(counts().dropped, 0);
	close(fd);
}

Test(peer, a_refusal_that_is_taken_slowly_is_said_once)
{
	char line[KVMM_CONTROL_REQUEST_BYTES + 1], text[256] = "";
	int fd = visitor(control);

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	nr_room = 10;
	say(fd, line);
	control_settle(control);
	strcat(text, hear(fd));
	control_settle(control);
	nr_room = UINT32_MAX;
	control_settle(control);
	strcat(text, hear(fd));
	cr_expect_str_eq(text, "err 7 21\nthat line is too long");
	cr_expect_eq(counts().dropped, 1);
	close(fd);
}

Test(peer, many_short_lines_that_fill_the_buffer_are_no_long_one)
{
	char all[KVMM_CONTROL_REQUEST_BYTES + 1];
	int fd = visitor(control);
	u32 nr = 0;

	for (u32 i = 0; i < KVMM_CONTROL_REQUEST_BYTES; i += 8)
		memcpy(all + i, "version\n", 8);
	all[KVMM_CONTROL_REQUEST_BYTES] = '\0';
	say(fd, all);
	control_settle(control);
	for (const char *at = hear(fd); (at = strstr(at, "ok 28\n")); at++)
		nr++;
	cr_expect_gt(nr, 100);
	cr_expect_eq(counts().dropped + counts().errors, 0);
	close(fd);
}

/* ---- what passes, and what does not ---- */

Test(peer, what_passes_costs_a_client_nothing)
{
	static const int errors[] = { -EAGAIN, -EINTR, -ENOMEM, -ENOBUFS };
	int fd = visitor(control);

	for (u32 i = 0; i < ARRAY_SIZE(errors); i++) {
		passing = errors[i];		/* of the recv */
		cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n", "%d", errors[i]);
		nr_room = 0;
		cr_expect_str_eq(ask(control, fd, "pools"), "");
		nr_room = UINT32_MAX;
		passing = errors[i];		/* of the send */
		control_settle(control);
		cr_expect_str_eq(hear(fd), "ok 14\n#pool:s\nalpha\n", "%d", errors[i]);
	}
	passing = -EIO;
	say(fd, "pools\n");
	control_settle(control);
	cr_expect(is_closed(fd));
	close(fd);
}

Test(peer, who_cannot_be_watched_is_sent_away)
{
	int fd, late;

	fd = visitor(control);
	doctored.watch_set = watch_new_only;
	nr_room = 5;
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14");
	cr_expect_eq(counts().clients, 0, "nobody would be told that he takes the rest");
	doctored.watch_set = watch_none;
	late = connect_to(control);
	control_settle(control);
	cr_expect(is_closed(late));
	cr_expect_eq(counts().refused, 1);
	cr_expect_eq(counts().accepted, 1);
	close(fd);
	close(late);
}

/* ---- what is left ---- */

Test(peer, an_answer_that_was_taken_costs_nothing)
{
	int fd = visitor(control);
	u64 bytes;

	ask(control, fd, "pools");
	bytes = kv_mem_bytes();
	ask(control, fd, "help");
	cr_expect_eq(kv_mem_bytes(), bytes);
	close(fd);
}

Test(peer, bytes_are_those_that_were_sent)
{
	u64 want = strlen("kvmm-control 1 test\n") + strlen("ok 14\n#pool:s\nalpha\n");
	int fd = visitor(control);

	ask(control, fd, "pools");
	cr_expect_eq(counts().bytes, want);
	close(fd);
}

static u32 nr_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	u32 nr = 0;

	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

static u32 nr_rings;

static void count_ring(void *ctx, int bell)
{
	nr_rings++;
	kv_sock_system.ring(NULL, bell);
}

Test(peer, closing_gives_all_descriptors_back_and_wakes_who_waits)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	u32 before = nr_descriptors();
	struct kvmm_control *other;

	doctored.ring = count_ring;
	attr.dir = folder;
	attr.name = "other";
	attr.flags = KVMM_CONTROL_THREAD;
	for (u32 i = 0; i < 3; i++) {
		cr_assert_eq(kvmm_control_open(&attr, &other), 0);
		cr_expect_eq(kvmm_control_fd(other), -EBUSY, "its thread polls");
		cr_expect_eq(kvmm_control_poll(other), -EBUSY);
		kvmm_control_close(other);
	}
	cr_expect_eq(nr_descriptors(), before);
	cr_expect_eq(nr_rings, 3);
	cr_expect_geq(kvmm_control_fd(control), 0);
}

/* ---- when to come again ---- */

Test(peer, whoever_polls_is_told_when_to_come_again)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	int fd, ret;

	cr_expect_eq(kvmm_control_poll(control), 1000, "nobody is there");
	attr.max_rate = 2;
	open_anew(&attr);
	fd = visitor(control);
	ask(control, fd, "pools\npools\npools\npools");
	cr_expect_eq(counts().requests, 3);
	cr_expect_eq(kvmm_control_poll(control), 500, "the fourth is due then");
	fake_env_advance(&fake, 499 * MS + MS / 2);
	cr_expect_eq(kvmm_control_poll(control), 1, "half a millisecond is not none");
	fake_env_advance(&fake, MS);
	cr_expect_eq(kvmm_control_poll(control), 1000);
	cr_expect_eq(counts().requests, 4);
	/* Until it is time to close him. */
	fake_env_advance(&fake, (attr.idle_ms - 300) * MS);
	ret = kvmm_control_poll(control);
	cr_expect(ret > 290 && ret <= 300, "%d", ret);
	close(fd);
}

static u32 high_mark(void)
{
	struct kvmm_alloc_stat stat = { 0 };

	cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
	return stat.marks.high;
}

/* The last one wins; that is not always the same. */
Test(peer, whoever_came_first_is_not_served_first_each_time)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	u32 nr_won[2] = { 0 };
	int fd[2];

	attr.max_clients = 2;
	open_anew(&attr);
	fd[0] = visitor(control);
	fd[1] = visitor(control);
	for (u32 round = 0; round < 6; round++) {
		say(fd[0], "set alpha watermark_high 3\n");
		say(fd[1], "set alpha watermark_high 4\n");
		cr_assert_geq(kvmm_control_poll(control), 0);
		nr_won[high_mark() - 3]++;
		hear(fd[0]);
		hear(fd[1]);
	}
	cr_expect_eq(nr_won[0], 3);
	cr_expect_eq(nr_won[1], 3);
	close(fd[0]);
	close(fd[1]);
}

/* ---- how much of its thread ---- */

static u64 answer_ns;		/* that looking at a pool takes */
static u64 (*true_clock)(void *ctx);

static u64 slow_clock(void *ctx)
{
	if (control->lock.held)
		fake_env_advance(&fake, answer_ns);
	return true_clock(ctx);
}

static void slow_down(u64 ns)
{
	true_clock = fake.ops.clock_ns;
	fake.ops.clock_ns = slow_clock;
	answer_ns = ns;
}

/* An eighth of the time is his: each costs 160 ms at least of the second that may come at once. */
Test(peer, who_asks_for_what_takes_long_may_ask_less_often)
{
	int fd = visitor(control);

	slow_down(20 * MS);
	ask(control, fd, "stat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat\nstat");
	cr_expect(counts().requests > 2 && counts().requests < 8, "%llu",
		  (unsigned long long)counts().requests);
	close(fd);
}

Test(peer, nobody_pays_for_long_for_what_the_thread_did_not_run)
{
	int fd = visitor(control);

	slow_down(10000 * MS);
	ask(control, fd, "stat");
	answer_ns = 0;
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	close(fd);
}
