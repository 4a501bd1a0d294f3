// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket from a client's side: what it answers, what it refuses, and that whoever is stuck
 * holds up nobody else. The engine's loop polls here, so each step is one step.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <kv/sys.h>

#include "ctl/control.h"
#include "tests/ctl/one_pool.h"

TestSuite(control, .init = set_up, .fini = tear_down);

/* ---- answers ---- */

Test(control, a_request_is_a_line_and_an_answer_says_its_length)
{
	int fd = visitor(control);

	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	cr_expect_str_eq(ask(control, fd, "  pools\t"), "ok 14\n#pool:s\nalpha\n");
	cr_expect_str_eq(ask(control, fd, "pools\r"), "ok 14\n#pool:s\nalpha\n");
	close(fd);
}

Test(control, numbers_of_a_pool_are_those_of_the_pool)
{
	int fd = visitor(control);
	const char *answer;

	cache_keys(pool, 1, 3);
	answer = ask(control, fd, "stat alpha");
	cr_expect_not_null(strstr(answer, "\nalpha\t8\t5\t3\t8\t0\t0\t0\t0\t0\t0\t5\t"), "%s", answer);
	close(fd);
}

Test(control, help_lists_each_command_once)
{
	int fd = visitor(control);
	const char *answer = ask(control, fd, "help"), *at = strchr(answer, '\n') + 1;

	cr_expect_not_null(strstr(at, "#command\targs\tsteers\thelp\nhelp\t[COMMAND]\t0\t"));
	cr_expect_not_null(strstr(ask(control, fd, "help pools"), "\npools\t-\t0\t"));
	close(fd);
}

Test(control, what_is_no_request_is_refused_in_words)
{
	int fd = visitor(control);

	cr_expect_str_eq(ask(control, fd, "open sesame"),
			 "err 2 36\nthere is no command 'open'; try help");
	cr_expect_str_eq(ask(control, fd, ""), "err 22 10\nno command");
	cr_expect_str_eq(ask(control, fd, "pools alpha"), "err 22 13\nusage: pools ");
	cr_expect_str_eq(ask(control, fd, "stat beta"), "err 2 23\nthere is no pool 'beta'");
	cr_expect_str_eq(ask(control, fd, "pools\x01"), "err 22 15\nthat is no text");
	cr_expect_str_eq(ask(control, fd, "pools\x7f"), "err 22 15\nthat is no text");
	cr_expect_eq(counts().errors, 6);
	close(fd);
}

Test(control, lines_that_come_together_are_answered_in_order)
{
	int fd = visitor(control);
	char version[64], want[256];

	snprintf(version, sizeof(version), "#protocol\tversion:s\n1\t%s\n", kvmm_version());
	snprintf(want, sizeof(want), "ok 14\n#pool:s\nalpha\n"
		 "err 2 37\nthere is no command 'bogus'; try help"
		 "ok %zu\n%s", strlen(version), version);
	cr_expect_str_eq(ask(control, fd, "pools\nbogus\nversion"), want);
	close(fd);
}

Test(control, a_last_line_is_answered_though_nothing_more_will_come)
{
	int fd = visitor(control);

	say(fd, "pools\n");
	shutdown(fd, SHUT_WR);
	control_settle(control);
	cr_expect_str_eq(hear(fd), "ok 14\n#pool:s\nalpha\n");
	cr_expect(is_closed(fd));
	cr_expect_eq(counts().clients, 0);
	close(fd);
}

/* ---- pools ---- */

Test(control, pools_come_and_go)
{
	struct kvmm_pool *other = make_pool(4);
	char name[KVMM_CONTROL_NAME + 1];
	int fd = visitor(control);

	cr_expect_eq(kvmm_control_add_pool(control, "alpha", other), -EEXIST);
	cr_expect_eq(kvmm_control_add_pool(control, "beta", pool), -EEXIST);
	memset(name, 'n', sizeof(name));
	name[KVMM_CONTROL_NAME] = '\0';
	cr_expect_eq(kvmm_control_add_pool(control, name, other), -EINVAL);
	name[KVMM_CONTROL_NAME - 1] = '\0';
	cr_expect_eq(kvmm_control_add_pool(control, name, other), 0);
	cr_expect_eq(kvmm_control_remove_pool(control, other), 0);
	cr_expect_eq(kvmm_control_add_pool(control, "Aleph", other), 0);
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 20\n#pool:s\nAleph\nalpha\n");
	cr_expect_eq(kvmm_control_remove_pool(control, other), 0);
	cr_expect_eq(kvmm_control_remove_pool(control, other), -ENOENT);
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	end_pool(other);
	close(fd);
}

/* ---- limits ---- */

Test(control, half_a_line_holds_up_nobody)
{
	int stuck = visitor(control), fd = visitor(control);

	say(stuck, "pool");
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	cr_expect_eq(control->lock.held, 0);
	cr_expect_str_eq(hear(stuck), "");
	close(stuck);
	close(fd);
}

/* Many answers that nobody reads: the socket is full, and then no more requests are read. */
Test(control, who_never_reads_holds_up_nobody_and_costs_one_answer)
{
	int stuck = visitor(control), fd = visitor(control);
	u64 before = kv_mem_bytes(), requests;

	while (send(stuck, "help\n", 5, MSG_NOSIGNAL) == 5)
		control_settle(control);
	requests = counts().requests;
	control_settle(control);
	cr_expect_eq(counts().requests, requests);
	cr_expect_lt(kv_mem_bytes() - before, 64u << 10);
	cr_expect_eq(control->lock.held, 0);
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	fake_env_advance(&fake, 4999 * 1000000ull);
	control_settle(control);
	cr_expect_eq(counts().clients, 2);
	fake_env_advance(&fake, 2 * 1000000ull);
	control_settle(control);
	cr_expect_eq(counts().clients, 1);
	cr_expect_eq(counts().dropped, 1);
	close(stuck);
	close(fd);
}

Test(control, who_says_nothing_is_closed_after_a_while)
{
	int silent = visitor(control), half = visitor(control), fd = visitor(control);

	say(half, "poo");
	fake_env_advance(&fake, 59999 * 1000000ull);
	say(half, "l");
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	fake_env_advance(&fake, 2 * 1000000ull);
	control_settle(control);
	cr_expect(is_closed(silent));
	cr_expect(is_closed(half));
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	close(silent);
	close(half);
	close(fd);
}

#define CROWD	200u

/* A quarter each: who never reads, who never ends a line, who sends rubbish, and who wants something. */
static void crowd_turn(const int *fd)
{
	static const char *const said[] = { "help\nhelp\nhelp\n", "po", "\xff\x01\n\t\n", "pools\n" };

	for (u32 i = 0; i < CROWD; i++)
		send(fd[i], said[i % 4], strlen(said[i % 4]), MSG_NOSIGNAL);
}

Test(control, in_a_crowd_whoever_asks_is_answered)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	u64 before, nr_answers = 0;
	int fd[CROWD];

	attr.max_clients = CROWD;
	open_anew(&attr);
	before = kv_mem_bytes();
	for (u32 i = 0; i < CROWD; i++)
		fd[i] = visitor(control);
	for (u32 turn = 0; turn < 20; turn++) {
		crowd_turn(fd);
		control_settle(control);
		cr_expect_eq(control->lock.held + control->poll_lock.held, 0);
		for (u32 i = 3; i < CROWD; i += 4)
			nr_answers += !strcmp(hear(fd[i]), "ok 14\n#pool:s\nalpha\n");
	}
	cr_expect_eq(nr_answers, 20 * CROWD / 4);
	/* A request and an answer each, whatever they have said. */
	cr_expect_lt(kv_mem_bytes() - before, CROWD * (u64)(3 * KVMM_CONTROL_REQUEST_BYTES));
	for (u32 i = 0; i < CROWD; i++)
		close(fd[i]);
	control_settle(control);
	cr_expect_eq(counts().clients, 0);
}

Test(control, a_line_may_have_4096_bytes_and_no_more)
{
	char line[KVMM_CONTROL_REQUEST_BYTES + 1];
	int fd = visitor(control);

	memset(line, ' ', sizeof(line));
	memcpy(line, "pools", 5);
	line[KVMM_CONTROL_REQUEST_BYTES - 1] = '\0';
	cr_expect_str_eq(ask(control, fd, line), "ok 14\n#pool:s\nalpha\n");
	line[KVMM_CONTROL_REQUEST_BYTES - 1] = ' ';
	line[KVMM_CONTROL_REQUEST_BYTES] = '\0';
	say(fd, line);
	control_settle(control);
	cr_expect_str_eq(hear(fd), "err 7 21\nthat line is too long");
	cr_expect(is_closed(fd));
	close(fd);
}

Test(control, too_many_clients_are_told_so)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	int fd[3], late;

	attr.max_clients = 3;
	open_anew(&attr);
	for (u32 i = 0; i < 3; i++) {
		fd[i] = visitor(control);
		fake_env_advance(&fake, 1000000);
	}
	late = connect_to(control);
	control_settle(control);
	cr_expect_str_eq(hear(late), "err 11 17\ntoo many clients\n");
	cr_expect(is_closed(late));
	close(late);
	cr_expect_eq(counts().refused, 1);

	/* Places are for those who ask for something: the oldest of the others goes. */
	ask(control, fd[0], "pools");
	fake_env_advance(&fake, 1001 * 1000000ull);
	late = visitor(control);
	cr_expect(is_closed(fd[1]));
	cr_expect_eq(counts().dropped, 1);
	cr_expect_str_eq(ask(control, fd[2], "pools"), "ok 14\n#pool:s\nalpha\n");
	for (u32 i = 0; i < 3; i++)
		close(fd[i]);
	close(late);
}

Test(control, who_asks_too_often_waits)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	int fd, other;

	attr.max_rate = 2;
	open_anew(&attr);
	fd = visitor(control);
	other = visitor(control);
	ask(control, fd, "pools\npools\npools\npools\npools");
	cr_expect_eq(counts().requests, 3);
	cr_expect_str_eq(ask(control, other, "pools"), "ok 14\n#pool:s\nalpha\n");
	fake_env_advance(&fake, 500 * 1000000ull);
	control_settle(control);
	cr_expect_eq(counts().requests, 5);
	fake_env_advance(&fake, 500 * 1000000ull);
	control_settle(control);
	cr_expect_eq(counts().requests, 6);
	close(fd);
	close(other);
}

Test(control, descriptors_that_come_along_are_closed)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } head = { 0 };
	struct iovec iov = { (void *)"pools\n", 6 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = head.buf,
			      .msg_controllen = sizeof(head.buf) };
	int fd = visitor(control), pair[2], byte;

	cr_assert_eq(pipe(pair), 0);
	head.align.cmsg_level = SOL_SOCKET;
	head.align.cmsg_type = SCM_RIGHTS;
	head.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&head.align), &pair[1], sizeof(int));
	cr_assert_eq(sendmsg(fd, &msg, 0), 6);
	close(pair[1]);
	control_settle(control);
	cr_expect_str_eq(hear(fd), "ok 14\n#pool:s\nalpha\n");
	cr_expect_eq(read(pair[0], &byte, 1), 0);	/* nobody has the other end */
	close(pair[0]);
	close(fd);
}

/* ---- who may ---- */

static int open_in(const char *dir)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control *other;
	int err;

	attr.dir = dir;
	attr.name = "other";
	err = kvmm_control_open(&attr, &other);
	if (!err)
		kvmm_control_close(other);
	return err;
}

Test(control, a_folder_that_others_get_into_is_refused)
{
	char path[80];

	cr_assert_eq(chmod(folder, 0750), 0);
	cr_expect_eq(open_in(folder), -EPERM);
	cr_assert_eq(chmod(folder, 0700), 0);
	snprintf(path, sizeof(path), "%s.link", folder);
	cr_assert_eq(symlink(folder, path), 0);
	cr_expect_eq(open_in(path), -EPERM);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(open_in(path), 0);		/* made */
	cr_assert_eq(rmdir(path), 0);
	cr_expect_eq(open_in(folder), 0);
}

Test(control, a_live_socket_stays_and_a_dead_one_is_replaced)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control *other;
	int fd = visitor(control);

	attr.dir = folder;
	attr.name = "test";
	cr_expect_eq(kvmm_control_open(&attr, &other), -EADDRINUSE);
	cr_expect_str_eq(ask(control, fd, "pools"), "ok 14\n#pool:s\nalpha\n");
	close(fd);
	/* As after a crash: nobody listens, and the file is there. */
	kv_sock()->close(kv_sock()->ctx, control->fd);
	control->fd = dup(control->watch);
	cr_assert_eq(kvmm_control_open(&attr, &other), 0);
	kvmm_control_close(other);
}

static int refuse_user(void *ctx, int fd, bool root_too)
{
	int got = kv_sock_system.accept(NULL, fd, root_too);

	if (got < 0)
		return got;
	kv_sock_system.close(NULL, got);
	return -EPERM;
}

Test(control, another_user_is_sent_away)
{
	struct kv_sock_ops strict = kv_sock_system;
	int fd;

	strict.accept = refuse_user;
	kv_sock_set(&strict);
	fd = connect_to(control);
	control_settle(control);
	cr_expect(is_closed(fd));
	cr_expect_eq(counts().refused, 1);
	cr_expect_eq(counts().accepted, 0);
	kv_sock_set(NULL);
	close(fd);
}

/* ---- forks ---- */

/* A child has all descriptors of its parent, and may keep them; nobody is woken for those that are closed. */
Test(control, a_client_that_has_gone_is_forgotten_though_a_child_has_its_socket)
{
	struct kv_sock_ready ready[4];
	int fd = visitor(control), pair[2];
	char byte = 0;
	pid_t pid;

	cr_assert_eq(pipe(pair), 0);
	pid = fork();
	if (!pid) {
		close(fd);		/* the client's end; it keeps the server's */
		cr_assert_eq(write(pair[1], &byte, 1), 1);
		pause();
		_exit(1);
	}
	cr_assert_eq(read(pair[0], &byte, 1), 1);
	close(fd);
	control_settle(control);
	cr_expect_eq(counts().clients, 0);
	cr_expect_eq(kv_sock()->watch_wait(NULL, control->watch, ready, 4, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pair[0]);
	close(pair[1]);
}

Test(control, a_forked_child_has_nothing_to_do_with_it)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		bool inert = kvmm_control_poll(control) == -ECHILD &&
			     kvmm_control_add_pool(control, "x", pool) == -ECHILD &&
			     kvmm_control_remove_pool(control, pool) == -ECHILD;

		kvmm_control_close(control);
		_exit(!inert);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_eq(access(kvmm_control_path(control), F_OK), 0);
}

/* ---- bad calls ---- */

static int open_bad(struct kvmm_control_attr attr)
{
	struct kvmm_control *other;
	int err;

	attr.dir = attr.dir ? attr.dir : folder;
	attr.name = attr.name ? attr.name : "other";
	err = kvmm_control_open(&attr, &other);
	if (!err)
		kvmm_control_close(other);
	return err;
}

Test(control, numbers_out_of_range_are_refused)
{
	static const struct { u32 at; u32 good; u32 bad; } rows[] = {
#define ROW(field, good, bad) { offsetof(struct kvmm_control_attr, field), good, bad }
		ROW(max_clients, 1, 0), ROW(max_clients, 1024, 1025),
		ROW(max_rate, 1, 0), ROW(max_rate, 1000000, 1000001),
		ROW(idle_ms, 1, 0), ROW(output_ms, 1, 0),
		ROW(max_answer_bytes, 4096, 4095), ROW(max_answer_bytes, 1u << 30, (1u << 30) + 1),
		ROW(reserved, 0, 1), ROW(flags, KVMM_CONTROL_READ_ONLY, 4),
#undef ROW
	};
	const struct kvmm_control_attr preset = KVMM_CONTROL_ATTR_INIT;

	for (u32 i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kvmm_control_attr attr = preset;

		memcpy((char *)&attr + rows[i].at, &rows[i].good, sizeof(u32));
		cr_expect_eq(open_bad(attr), 0, "%u", i);
		memcpy((char *)&attr + rows[i].at, &rows[i].bad, sizeof(u32));
		cr_expect_eq(open_bad(attr), -EINVAL, "%u", i);
	}
}

Test(control, a_name_is_the_name_of_a_file_and_nothing_else)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	char name[KVMM_CONTROL_NAME + 1];
	const char *const bad[] = { "a b", "a/b", "", "../x", ".x", name };

	memset(name, 'n', sizeof(name));
	name[KVMM_CONTROL_NAME] = '\0';
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		attr.name = bad[i];
		cr_expect_eq(open_bad(attr), -EINVAL, "%u", i);
	}
}

Test(control, an_older_caller_gets_the_counts_he_has_room_for)
{
	u64 room[3] = { 2 * sizeof(u64), 7, 7 };

	cr_expect_eq(kvmm_control_get_stat(control, (void *)room), 0);
	cr_expect_eq(room[1], 0);
	cr_expect_eq(room[2], 7);
	room[0] = 7;
	cr_expect_eq(kvmm_control_get_stat(control, (void *)room), -EINVAL);
	room[0] = 1 << 20;	/* garbage, and no version's */
	cr_expect_eq(kvmm_control_get_stat(control, (void *)room), -EINVAL);
}

/* ---- where it is ---- */

static const char *given, *mine;

static const char *fake_getenv(void *ctx, const char *name)
{
	return !strcmp(name, "KVMM_SOCKET_DIR") ? given : !strcmp(name, "XDG_RUNTIME_DIR") ? mine : NULL;
}

static int fake_spawn(void *ctx, void (*fn)(void *arg), void *arg, void **thread)
{
	return -EAGAIN;
}

/* Opened there; the folder that was made for it is removed. */
static void expect_path(const char *dir, const char *name)
{
	const struct kvmm_control_attr preset = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control_attr attr = preset;
	struct kvmm_control *other;
	char want[160];

	cr_assert_eq(kvmm_control_open(&attr, &other), 0);
	snprintf(want, sizeof(want), "%s/%s", dir, name);
	cr_expect_str_eq(kvmm_control_path(other), want);
	kvmm_control_close(other);
}

static char made[128];

static int note_folder(void *ctx, const char *path)
{
	snprintf(made, sizeof(made), "%s", path);
	return -EACCES;
}

Test(control, nothing_is_as_good_as_no_folder)
{
	const struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kv_sock_ops ops = kv_sock_system;
	struct kv_sys_ops sys = kv_sys_system;
	struct kvmm_control *other;

	ops.folder = note_folder;
	sys.getenv = fake_getenv;
	given = mine = "";
	kv_sock_set(&ops);
	kv_sys_set(&sys);
	cr_expect_eq(kvmm_control_open(&attr, &other), -EACCES);
	cr_expect_str_eq(made, "/run/kvmm");
	kv_sys_set(NULL);
	kv_sock_set(NULL);
}

Test(control, the_environment_says_where_if_nobody_else_does)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kv_sys_ops sys = kv_sys_system;
	struct kvmm_control *other;
	char below[80], name[32], far[200];

	sys.getenv = fake_getenv;
	sys.spawn = fake_spawn;
	kv_sys_set(&sys);
	snprintf(name, sizeof(name), "kvmm-%d.sock", getpid());
	snprintf(below, sizeof(below), "%s/kvmm", folder);
	given = folder;
	mine = "/nowhere";
	expect_path(folder, name);
	given = "";
	mine = folder;
	expect_path(below, name);
	given = NULL;
	expect_path(below, name);
	cr_expect_eq(rmdir(below), 0);
	memset(far, 'x', sizeof(far));
	far[sizeof(far) - 1] = '\0';
	given = far;
	cr_expect_eq(kvmm_control_open(&attr, &other), -ENAMETOOLONG);
	far[100] = '\0';
	cr_expect_eq(kvmm_control_open(&attr, &other), -ENAMETOOLONG);
	attr.flags = KVMM_CONTROL_THREAD;
	attr.dir = folder;
	cr_expect_eq(kvmm_control_open(&attr, &other), -EAGAIN, "no thread");
	kv_sys_set(NULL);
}

Test(control, bad_calls_are_refused)
{
	const struct kvmm_control_attr good = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control_attr attr = good;

	attr.dir = "/tmp/a\nb";
	cr_expect_eq(open_bad(attr), -EINVAL);
	cr_expect_eq(kvmm_control_open(&good, NULL), -EINVAL);
	cr_expect_eq(kvmm_control_add_pool(NULL, "x", pool), -EINVAL);
	cr_expect_eq(kvmm_control_add_pool(control, "x", NULL), -EINVAL);
	cr_expect_eq(kvmm_control_poll(NULL), -EINVAL);
	cr_expect_eq(kvmm_control_fd(NULL), -EINVAL);
	kvmm_control_close(NULL);
}
