// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam to other machines, and the secrets that they know each other by.
 *
 * Addresses are numbers: a name may lead to another machine today than yesterday, and a look-up
 * waits. All clients that reach a socket get in; they have to prove what they know, elsewhere.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kv/sock.h>
#include <kv/sys.h>

#include "internal.h"

#define BACKLOG		128

/* A machine that has died, or cannot be reached, is gone after 10 s. */
#define GONE_MS		10000
#define IDLE_S		5
#define PROBE_S		1
#define NR_PROBES	5

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t length_of(const union address *addr)
{
	return addr->any.sa_family == AF_INET ? sizeof(addr->v4) : sizeof(addr->v6);
}

static int parse_port(const char *text, in_port_t *port)
{
	u32 nr = 0, len = 0;

	for (; text[len] >= '0' && text[len] <= '9' && len < 5; len++)
		nr = 10 * nr + (text[len] - '0');
	if (!len || text[len] || nr > UINT16_MAX)
		return -EINVAL;
	*port = htons(nr);
	return 0;
}

/* "1.2.3.4:80", "[::1]:80" */
static int parse(const char *text, union address *addr)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char host[INET6_ADDRSTRLEN];

	*addr = (union address){ 0 };
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		addr->any.sa_family = AF_INET6;
		text++;
		len -= 2;
	} else {
		addr->any.sa_family = AF_INET;
	}
	if (!len || len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (addr->any.sa_family == AF_INET)
		return inet_pton(AF_INET, host, &addr->v4.sin_addr) == 1 ?
		       parse_port(colon + 1, &addr->v4.sin_port) : -EINVAL;
	return inet_pton(AF_INET6, host, &addr->v6.sin6_addr) == 1 ?
	       parse_port(colon + 1, &addr->v6.sin6_port) : -EINVAL;
}

bool kv_tcp_is_address(const char *text)
{
	union address addr;

	return !parse(text, &addr);
}

static void close_fd(int fd)
{
	guarded(close(fd));
}

static int set(int fd, int level, int name, int value)
{
	return guarded(setsockopt(fd, level, name, &value, sizeof(value)));
}

/* Small messages go at once, and a silent end of the other machine is noticed. */
static int tune(int fd)
{
	int err = set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	err = err ? err : set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	err = err ? err : set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	err = err ? err : set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
	err = err ? err : set(fd, IPPROTO_TCP, TCP_KEEPCNT, NR_PROBES);
	return err ? err : set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, GONE_MS);
}

static int new_socket(const union address *addr)
{
	return guarded(socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int port_of(int fd, u16 *port)
{
	union address addr;
	socklen_t len = sizeof(addr);
	int err = guarded(getsockname(fd, &addr.any, &len));

	if (!err)
		*port = ntohs(addr.any.sa_family == AF_INET ? addr.v4.sin_port : addr.v6.sin6_port);
	return err;
}

static int listen_at(int fd, const union address *addr, u16 *port)
{
	int err = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err && addr->any.sa_family == AF_INET6)
		err = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!err)
		err = guarded(bind(fd, &addr->any, length_of(addr)));
	if (!err)
		err = guarded(listen(fd, BACKLOG));
	return err ? err : port_of(fd, port);
}

int kv_tcp_listen(void *ctx, const char *text, u16 *port)
{
	union address addr;
	int fd = parse(text, &addr), err;

	if (!fd)
		fd = new_socket(&addr);
	if (fd < 0)
		return fd;
	err = listen_at(fd, &addr, port);
	if (!err)
		return fd;
	close_fd(fd);
	return err;
}

int kv_tcp_connect(void *ctx, const char *text)
{
	union address addr;
	int fd = parse(text, &addr), err;

	if (!fd)
		fd = new_socket(&addr);
	if (fd < 0)
		return fd;
	err = tune(fd);
	if (!err)
		err = guarded(connect(fd, &addr.any, length_of(&addr)));
	if (!err || err == -EINPROGRESS || err == -EINTR)
		return fd;
	close_fd(fd);
	return err;
}

int kv_tcp_accept(void *ctx, int fd)
{
	int ret;

	do {
		ret = guarded(accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	} while (ret == -EINTR || ret == -ECONNABORTED);
	if (ret < 0 || !tune(ret))
		return ret;
	close_fd(ret);
	return -EPERM;
}

/* Nothing is read of a file that is not the user's alone, or that a read could wait for. */
s64 kv_read_secret(void *ctx, const char *path, void *buf, size_t bytes)
{
	int fd = guarded(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	struct stat stat;
	s64 ret;

	if (fd < 0)
		return fd == -ELOOP ? -EPERM : fd;
	ret = guarded(fstat(fd, &stat));
	if (!ret && (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid() || stat.st_mode & 077))
		ret = -EPERM;
	if (!ret)
		ret = stat.st_size > (s64)bytes ? -E2BIG : guarded(read(fd, buf, bytes));
	close_fd(fd);
	return ret;
}
