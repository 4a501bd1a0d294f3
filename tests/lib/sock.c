// SPDX-License-Identifier: Apache-2.0
/* The system behind the seam to other processes: who gets in, what is passed on, what is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/sock.h>

#include "tests/support/test.h"

static const struct kv_sock_ops *const ops = &kv_sock_system;
static char folder[64], path[80];

static void set_up(void)
{
	strcpy(folder, "/tmp/kvmm-sock-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
}

static void tear_down(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(sock, .init = set_up, .fini = tear_down);

static void meet(int *here, int *there)
{
	int fd = ops->listen(NULL, path);

	cr_assert_geq(fd, 0);
	*here = ops->connect(NULL, path);
	cr_assert_geq(*here, 0);
	*there = ops->accept(NULL, fd, false);
	cr_assert_geq(*there, 0);
	cr_expect_eq(ops->accept(NULL, fd, false), -EAGAIN);
	ops->close(NULL, fd);
}

Test(sock, what_a_dead_process_has_left_is_replaced_and_a_file_is_not)
{
	int fd = ops->listen(NULL, path), file;

	cr_assert_geq(fd, 0);
	cr_expect_eq(ops->listen(NULL, path), -EADDRINUSE);
	ops->close(NULL, fd);
	cr_expect_eq(ops->connect(NULL, path), -ECONNREFUSED);
	fd = ops->listen(NULL, path);
	cr_expect_geq(fd, 0);
	ops->close(NULL, fd);
	ops->unlink(NULL, path);
	cr_expect_eq(ops->connect(NULL, path), -ENOENT);
	file = open(path, O_CREAT | O_WRONLY, 0600);
	close(file);
	cr_expect_eq(ops->listen(NULL, path), -EADDRINUSE);
	cr_expect_eq(access(path, F_OK), 0);
}

Test(sock, folders_of_others_are_refused)
{
	char far[200];

	memset(far, 'x', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	cr_assert_eq(chmod(folder, 0710), 0);
	cr_expect_eq(ops->listen(NULL, path), -EPERM);
	cr_expect_eq(ops->connect(NULL, path), -EPERM);
	cr_assert_eq(chmod(folder, 0700), 0);
	cr_expect_eq(ops->listen(NULL, far), -ENAMETOOLONG);
	cr_expect_eq(ops->listen(NULL, ""), -ENAMETOOLONG);
	cr_expect_eq(ops->listen(NULL, "/"), -EPERM);
}

/* Who is not root cannot try: then nothing is looked at. */
#define OTHER_USER	12345

Test(sock, a_folder_of_another_user_is_refused)
{
	int fd = ops->listen(NULL, path);

	cr_assert_geq(fd, 0);
	ops->close(NULL, fd);
	if (geteuid() || chown(folder, OTHER_USER, -1))
		return;
	cr_expect_eq(ops->listen(NULL, path), -EPERM);
	cr_expect_eq(ops->connect(NULL, path), -EPERM);
	cr_assert_eq(chown(folder, 0, -1), 0);
}

/* As another user: 0 he was connected, else errno. The folder is opened to him, which nobody should do. */
static int come_as_another(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		strcpy(addr.sun_path, path);
		if (setuid(OTHER_USER))
			_exit(1);
		_exit(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ? errno : 0);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

Test(sock, another_user_is_not_let_in_even_where_he_gets_to)
{
	int fd = ops->listen(NULL, path);

	cr_assert_geq(fd, 0);
	if (geteuid() || chmod(folder, 0755) || chmod(path, 0777))
		return;
	cr_assert_eq(come_as_another(), 0);
	cr_expect_eq(ops->accept(NULL, fd, true), -EPERM);
	cr_assert_eq(come_as_another(), 0);
	cr_expect_eq(ops->accept(NULL, fd, false), -EPERM);
	cr_expect_eq(ops->accept(NULL, fd, false), -EAGAIN);
	ops->close(NULL, fd);
}

/* The other's side: root may look, at the door where that is said, and nobody else who is not himself. */
static int serve_as_another(int ready)
{
	int fd, one;

	if (setuid(OTHER_USER))
		return 1;
	fd = ops->listen(NULL, path);
	if (fd < 0 || write(ready, "", 1) != 1)
		return 2;
	do
		one = ops->accept(NULL, fd, true);
	while (one == -EAGAIN);
	if (one < 0)
		return 3;
	do
		one = ops->accept(NULL, fd, false);
	while (one == -EAGAIN);
	return one == -EPERM ? 0 : 4;
}

Test(sock, root_is_let_in_to_look_and_not_to_move_memory)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int ready[2], status, fd[2];
	char byte;
	pid_t pid;

	if (geteuid() || chown(folder, OTHER_USER, -1))
		return;
	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid)
		_exit(serve_as_another(ready[1]));
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	strcpy(addr.sun_path, path);
	for (u32 i = 0; i < 2; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		cr_assert_eq(connect(fd[i], (struct sockaddr *)&addr, sizeof(addr)), 0);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(WEXITSTATUS(status), 0);
	for (u32 i = 0; i < 2; i++) {
		close(fd[i]);
		close(ready[i]);
	}
	cr_assert_eq(chown(folder, 0, -1), 0);
}

Test(sock, bytes_and_descriptors_arrive_together)
{
	int here, there, fds[KV_SOCK_FDS], pipes[2];
	char buf[16];
	u32 nr_fds;

	meet(&here, &there);
	cr_expect_eq(ops->recv(NULL, there, buf, sizeof(buf), fds, &nr_fds), -EAGAIN);
	cr_assert_eq(pipe(pipes), 0);
	cr_expect_eq(ops->send(NULL, here, "hello", 5, &pipes[0], 1), 5);
	cr_expect_eq(ops->recv(NULL, there, buf, sizeof(buf), fds, &nr_fds), 5);
	cr_assert_eq(nr_fds, 1);
	cr_expect_eq(write(pipes[1], "x", 1), 1);
	cr_expect_eq(read(fds[0], buf, 1), 1);
	cr_expect_eq(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	cr_expect_eq(ops->send(NULL, here, "x", 1, fds, KV_SOCK_FDS + 1), -EINVAL);
	ops->close(NULL, here);
	cr_expect_eq(ops->recv(NULL, there, buf, sizeof(buf), fds, &nr_fds), 0);
	cr_expect_eq(ops->send(NULL, there, "x", 1, NULL, 0), -EPIPE);
	ops->close(NULL, there);
}

Test(sock, one_descriptor_tells_of_all)
{
	int here, there, watch = ops->watch(NULL), fds[KV_SOCK_FDS];
	u32 nr_fds;
	char buf;

	meet(&here, &there);
	cr_assert_geq(watch, 0);
	cr_expect_eq(ops->watch_set(NULL, watch, there, KV_SOCK_IN, true), 0);
	cr_expect_eq(ops->watch_set(NULL, watch, there, KV_SOCK_IN, true), -EEXIST);
	cr_expect_eq(ops->send(NULL, here, "x", 1, NULL, 0), 1);
	cr_expect_eq(ops->recv(NULL, there, &buf, 1, fds, &nr_fds), 1);
	ops->close(NULL, here);
	ops->close(NULL, there);
	ops->close(NULL, watch);
}

Test(sock, shared_memory_cannot_be_taken_away)
{
	int fd = ops->mem_make(NULL, 8192), loose = memfd_create("loose", 0);
	char *here, *there;

	cr_assert_geq(fd, 0);
	cr_expect_neq(ftruncate(fd, 4096), 0);
	cr_assert_eq(ops->mem_map(NULL, fd, 8192, (void **)&here), 0);
	cr_assert_eq(ops->mem_map(NULL, fd, 4096, (void **)&there), 0);
	here[7] = 'x';
	cr_expect_eq(there[7], 'x');
	ops->mem_unmap(NULL, here, 8192);
	ops->mem_unmap(NULL, there, 4096);
	cr_expect_eq(ops->mem_map(NULL, fd, 1 << 20, (void **)&here), -EPERM);
	cr_assert_eq(ftruncate(loose, 8192), 0);
	cr_expect_eq(ops->mem_map(NULL, loose, 8192, (void **)&here), -EPERM);
	ops->close(NULL, fd);
	close(loose);
}
