// SPDX-License-Identifier: Apache-2.0
/* The system behind the seam to other processes: who gets in, what is passed on, what is refused. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kv/sock.h>

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
	*there = ops->accept(NULL, fd);
	cr_assert_geq(*there, 0);
	cr_expect_eq(ops->accept(NULL, fd), -EAGAIN);
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
	cr_expect_eq(ops->watch_add(NULL, watch, there), 0);
	cr_expect_eq(ops->watch_add(NULL, watch, there), -EEXIST);
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
