// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket in bad company: no descriptors left, forked children that live on, engines of the
 * same name, folders that go away.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ctl/control.h"
#include "tests/ctl/control_util.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

static struct kvmm_control *control;
static struct fake_env fake;

static void set_up(void)
{
	fake_env_install(&fake);
	folder_make();
	control = control_in_folder(NULL);
}

static void tear_down(void)
{
	kv_sock_set(NULL);
	kvmm_control_close(control);
	folder_remove();
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

TestSuite(hostile, .init = set_up, .fini = tear_down);

static int open_named(const char *dir, const char *name, struct kvmm_control **other)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.dir = dir;
	attr.name = name;
	return kvmm_control_open(&attr, other);
}

/* ---- want of descriptors ---- */

static int no_descriptors(void *ctx, int fd, bool root_too)
{
	return -EMFILE;
}

static bool calls_for_a_poll(void)
{
	struct pollfd fd = { .fd = kvmm_control_fd(control), .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* Whoever comes stays at the door, and a door at which somebody stands is ready at once, for ever. */
Test(hostile, want_of_descriptors_is_waited_out)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };
	struct kv_sock_ops poor = kv_sock_system;
	int fd = connect_to(control);

	poor.accept = no_descriptors;
	kv_sock_set(&poor);
	cr_expect(calls_for_a_poll());
	cr_expect_leq(kvmm_control_poll(control), 100);
	cr_expect_not(calls_for_a_poll());
	fake_env_advance(&fake, 100 * 1000000ull);
	kvmm_control_poll(control);
	kvmm_control_poll(control);
	cr_expect_not(calls_for_a_poll());
	cr_expect_eq(kvmm_control_get_stat(control, &stat), 0);
	cr_expect_eq(stat.shut, 2);
	kv_sock_set(NULL);
	fake_env_advance(&fake, 100 * 1000000ull);
	control_settle(control);
	cr_expect_str_eq(hear(fd), "kvmm-control 1 test\n");
	close(fd);
}

/* ---- forked children ---- */

/* One that keeps all that it has until it is killed. */
static pid_t have_child(void)
{
	int pair[2];
	char byte = 0;
	pid_t pid;

	cr_assert_eq(pipe(pair), 0);
	pid = fork();
	if (!pid) {
		if (write(pair[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	cr_assert_eq(read(pair[0], &byte, 1), 1);
	close(pair[0]);
	close(pair[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(hostile, a_child_does_not_listen_in_its_parents_place)
{
	struct kvmm_control *other = NULL;
	pid_t pid = have_child();

	/* As after a crash: nobody listens, and the file is there. */
	close(control->fd);
	control->fd = dup(control->watch);
	cr_expect_eq(open_named(folder, "test", &other), 0);
	kvmm_control_close(other);
	end_child(pid);
}

Test(hostile, who_is_closed_hears_of_it_though_a_child_has_his_socket)
{
	int fd = visitor(control);
	pid_t pid = have_child();

	fake_env_advance(&fake, 60001 * 1000000ull);
	control_settle(control);
	cr_expect(is_closed(fd));
	close(fd);
	end_child(pid);
}

/* ---- names ---- */

Test(hostile, a_pool_has_a_name_that_can_be_said)
{
	static const char *const bad[] = { "", "-", "a b", "a\tb", "a\nb", "\x1b[2J", "\xff", ("\xc2\x9b" "2J"),
					   "a\xe6\xbc", "\xed\xa0\x80", "a\x7f", ("a\xe2\x80\xae" "b") };
	static const char *const good[] = { "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "</script>", "a\"b" };
	struct kvmm_pool *pool = make_pool(8);

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(kvmm_control_add_pool(control, bad[i], pool), -EINVAL, "%u", i);
	for (u32 i = 0; i < ARRAY_SIZE(good); i++) {
		cr_expect_eq(kvmm_control_add_pool(control, good[i], pool), 0, "%u", i);
		cr_expect_eq(kvmm_control_remove_pool(control, pool), 0);
	}
	end_pool(pool);
}

/* ---- who else is there ---- */

/* The folder was emptied, and another engine has begun anew. */
Test(hostile, a_socket_that_is_anothers_by_now_stays)
{
	struct kvmm_control *other = NULL;
	char path[108];
	int fd;

	strcpy(path, kvmm_control_path(control));
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(open_named(folder, "test", &other), 0);
	kvmm_control_close(control);
	control = other;
	cr_expect_eq(access(path, F_OK), 0);
	fd = visitor(control);
	close(fd);
}

Test(hostile, a_folder_that_has_gone_is_no_matter)
{
	char path[108];

	strcpy(path, kvmm_control_path(control));
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(folder), 0);
	kvmm_control_close(control);
	control = NULL;
	cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(hostile, a_link_is_none_the_less_one_with_a_slash_behind_it)
{
	char path[80], slash[96];
	struct kvmm_control *other = NULL;

	snprintf(path, sizeof(path), "%s.link", folder);
	snprintf(slash, sizeof(slash), "%s//", path);
	cr_assert_eq(symlink(folder, path), 0);
	cr_expect_eq(open_named(slash, "other", &other), -EPERM);
	cr_assert_eq(unlink(path), 0);
	snprintf(slash, sizeof(slash), "%s/", folder);
	cr_expect_eq(open_named(slash, "other", &other), 0);
	kvmm_control_close(other);
}

#define NR_ENGINES	6
#define NR_ROUNDS	40

/* At @start; says whether it serves, and does so until @end. */
static void be_engine(int start, int said, int end)
{
	struct kvmm_control *mine = NULL;
	char byte;

	if (read(start, &byte, 1) < 0)
		_exit(1);
	byte = open_named(folder, "one", &mine) ? 'n' : 'y';
	if (write(said, &byte, 1) < 0 || read(end, &byte, 1) < 0)
		_exit(1);
	_exit(0);		/* without a word: the socket stays */
}

/* What a dead one has left is there each time but the first. */
static u32 race(void)
{
	int start[2], said[2], end[2];
	u32 nr = 0;
	char byte;

	cr_assert(!pipe(start) && !pipe(said) && !pipe(end));
	for (u32 i = 0; i < NR_ENGINES; i++)
		if (!fork()) {
			close(start[1]);
			close(end[1]);
			be_engine(start[0], said[1], end[0]);
		}
	close(start[1]);
	for (u32 i = 0; i < NR_ENGINES; i++) {
		cr_assert_eq(read(said[0], &byte, 1), 1);
		nr += byte == 'y';
	}
	close(end[1]);
	while (wait(NULL) > 0)
		;
	close(start[0]);
	close(end[0]);
	close(said[0]);
	close(said[1]);
	return nr;
}

Test(hostile, of_engines_of_one_name_that_begin_at_once_one_serves)
{
	char path[108];

	for (u32 i = 0; i < NR_ROUNDS; i++)
		cr_expect_eq(race(), 1, "round %u", i);
	snprintf(path, sizeof(path), "%s/one.sock", folder);
	cr_expect_eq(unlink(path), 0);
}
