// SPDX-License-Identifier: Apache-2.0
/* The system behind the seam to other machines: which addresses it takes, and which secrets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kv/sock.h>

#include "tests/support/test.h"

static const struct kv_sock_ops *const ops = &kv_sock_system;

static s64 recv_soon(int fd, char *buf, size_t bytes)
{
	struct pollfd ready = { fd, POLLIN, 0 };
	u32 nr_fds;

	poll(&ready, 1, 5000);
	return ops->recv(NULL, fd, buf, bytes, NULL, &nr_fds);
}

static void expect_way(const char *format, const char *any)
{
	char addr[64], buf[8] = { 0 };
	struct pollfd door;
	int here, there, fd;
	u32 nr_fds;
	u16 port = 0;

	fd = ops->tcp_listen(NULL, any, &port);
	cr_assert_geq(fd, 0);
	cr_assert_neq(port, 0);
	cr_expect_eq(ops->tcp_accept(NULL, fd), -EAGAIN);
	snprintf(addr, sizeof(addr), format, port);
	here = ops->tcp_connect(NULL, addr);
	cr_assert_geq(here, 0);
	door = (struct pollfd){ fd, POLLIN, 0 };
	cr_assert_eq(poll(&door, 1, 5000), 1);
	there = ops->tcp_accept(NULL, fd);
	cr_assert_geq(there, 0);
	cr_expect_eq(ops->recv(NULL, here, buf, sizeof(buf), NULL, &nr_fds), -EAGAIN);
	cr_expect_eq(ops->send(NULL, here, "hello", 5, NULL, 0), 5);
	cr_expect_eq(recv_soon(there, buf, sizeof(buf)), 5);
	cr_expect_str_eq(buf, "hello");
	ops->close(NULL, here);
	cr_expect_eq(recv_soon(there, buf, sizeof(buf)), 0);
	ops->close(NULL, there);
	ops->close(NULL, fd);
}

Test(tcp, a_client_gets_in_by_either_kind_of_address)
{
	expect_way("127.0.0.1:%u", "127.0.0.1:0");
	expect_way("[::1]:%u", "[::1]:0");
}

Test(tcp, a_port_that_is_taken_is_not_shared_and_a_free_one_refuses)
{
	char addr[64], buf[8];
	u16 port, other;
	int fd = ops->tcp_listen(NULL, "127.0.0.1:0", &port), here;

	snprintf(addr, sizeof(addr), "127.0.0.1:%u", port);
	cr_expect_eq(ops->tcp_listen(NULL, addr, &other), -EADDRINUSE);
	ops->close(NULL, fd);
	here = ops->tcp_connect(NULL, addr);
	if (here >= 0) {
		cr_expect_eq(recv_soon(here, buf, sizeof(buf)), -ECONNREFUSED);
		ops->close(NULL, here);
	} else {
		cr_expect_eq(here, -ECONNREFUSED);
	}
}

Test(tcp, what_is_no_address_is_refused)
{
	static const char *const bad[] = {
		"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:80x",
		"127.0.0.1:-1", "127.0.0.1:+8", "127.0.0.1: 8", "127.0.0.1:000080", "localhost:80",
		"127.1:80", "::1:80", "[::1]", "[::1]80", "[]:80", "[127.0.0.1]:80", "[::1:80",
		"::1]:80", "1.2.3.4.5:80", "[1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19]:80",
	};
	u16 port;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect_eq(ops->tcp_listen(NULL, bad[i], &port), -EINVAL, "%s", bad[i]);
		cr_expect_eq(ops->tcp_connect(NULL, bad[i]), -EINVAL, "%s", bad[i]);
		cr_expect_not(kv_tcp_is_address(bad[i]), "%s", bad[i]);
	}
	cr_expect(kv_tcp_is_address("127.0.0.1:80"));
	cr_expect(kv_tcp_is_address("[fd00::7]:6379"));
}

Test(tcp, only_a_file_of_the_users_alone_is_a_secret)
{
	char folder[] = "/tmp/kvmm-tcp-XXXXXX", path[64], link[64], buf[8];
	int fd;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	cr_expect_eq(ops->secret(NULL, path, buf, sizeof(buf)), -ENOENT);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	cr_assert_eq(write(fd, "12345678", 8), 8);
	cr_expect_eq(ops->secret(NULL, path, buf, sizeof(buf)), 8);
	cr_expect_eq(ops->secret(NULL, path, buf, 7), -E2BIG);
	cr_assert_eq(symlink(path, link), 0);
	cr_expect_eq(ops->secret(NULL, link, buf, sizeof(buf)), -EPERM);
	cr_expect_eq(ops->secret(NULL, folder, buf, sizeof(buf)), -EPERM);
	for (u32 bit = 1; bit < 0100; bit <<= 1) {
		cr_assert_eq(fchmod(fd, 0600 | bit), 0);
		cr_expect_eq(ops->secret(NULL, path, buf, sizeof(buf)), -EPERM, "mode %o", 0600 | bit);
	}
	close(fd);
	unlink(link);
	unlink(path);
	mkfifo(path, 0600);
	cr_expect_eq(ops->secret(NULL, path, buf, sizeof(buf)), -EPERM);
	unlink(path);
	rmdir(folder);
}
