// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam to other processes.
 *
 * A socket in the file system is as private as the folder that it is in, with any umask; so the
 * folder is looked at, and the user at the other end, too. Memory is sealed: a process that shares
 * it cannot take it away from under us.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/sock.h>
#include <kv/sys.h>

#include "internal.h"

#define BACKLOG		128
#define SEALS		(F_SEAL_SHRINK | F_SEAL_GROW)

static void system_close(void *ctx, int fd)
{
	guarded(close(fd));
}

static int address_of(const char *path, struct sockaddr_un *addr)
{
	size_t len = strlen(path);

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (!len || len >= sizeof(addr->sun_path))
		return -ENAMETOOLONG;
	memcpy(addr->sun_path, path, len + 1);
	return 0;
}

/*
 * The folder of it: open, or -EPERM: it is not the user's, or others get in, or it is a link, which
 * one with a slash behind it is no less.
 */
static int open_folder(const struct sockaddr_un *addr)
{
	char folder[sizeof(addr->sun_path)];
	struct stat stat;
	char *end;
	int fd;

	memcpy(folder, addr->sun_path, sizeof(folder));
	end = strrchr(folder, '/');
	while (end && end > folder && end[-1] == '/')
		end--;
	if (!end)
		memcpy(folder, ".", 2);
	else if (end == folder)
		end[1] = '\0';
	else
		*end = '\0';
	fd = guarded(open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0)
		return fd == -ENOTDIR || fd == -ELOOP ? -EPERM : fd;
	if (!guarded(fstat(fd, &stat)) && stat.st_uid == geteuid() && !(stat.st_mode & 077))
		return fd;
	system_close(NULL, fd);
	return -EPERM;
}

/*
 * For as long as it is open, no other process puts a socket there, or takes one away: two that find
 * the remains of a dead one would each take the place of the other. A process has it for no longer
 * than some calls, so one that has to wait for a second waits for another that was stopped.
 */
static int lock_folder(const struct sockaddr_un *addr)
{
	static const struct timespec pause = { .tv_nsec = 5000000 };
	int fd = open_folder(addr);

	for (u32 i = 0; fd >= 0 && guarded(flock(fd, LOCK_EX | LOCK_NB)); i++) {
		if (i < 200) {
			guarded(nanosleep(&pause, NULL));
			continue;
		}
		system_close(NULL, fd);
		fd = -EAGAIN;
	}
	return fd;
}

static int check_user(int fd, bool root_too)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int err = guarded(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len));

	if (err)
		return err;
	return cred.uid == geteuid() || (root_too && !cred.uid) ? 0 : -EPERM;
}

static int new_socket(void)
{
	return guarded(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int connect_to(const struct sockaddr_un *addr)
{
	int fd = new_socket(), err;

	if (fd < 0)
		return fd;
	err = guarded(connect(fd, (const struct sockaddr *)addr, sizeof(*addr)));
	if (!err)
		err = check_user(fd, false);
	if (!err)
		return fd;
	system_close(NULL, fd);
	return err;
}

/* A socket without a listener is left by a process that died. */
static bool is_dead(const struct sockaddr_un *addr)
{
	int other = connect_to(addr);
	struct stat stat;

	if (other >= 0)
		system_close(NULL, other);
	return other == -ECONNREFUSED && !guarded(lstat(addr->sun_path, &stat)) &&
	       S_ISSOCK(stat.st_mode);
}

static int bind_to(int fd, const struct sockaddr_un *addr)
{
	int err = guarded(bind(fd, (const struct sockaddr *)addr, sizeof(*addr)));

	if (err != -EADDRINUSE || !is_dead(addr))
		return err;
	err = guarded(unlink(addr->sun_path));
	return err ? err : guarded(bind(fd, (const struct sockaddr *)addr, sizeof(*addr)));
}

static int system_listen(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int folder = address_of(path, &addr), fd, err;

	if (!folder)
		folder = lock_folder(&addr);
	if (folder < 0)
		return folder;
	fd = err = new_socket();
	if (fd >= 0)
		err = bind_to(fd, &addr);
	if (!err)
		err = guarded(listen(fd, BACKLOG));
	if (err && fd >= 0)
		system_close(NULL, fd);
	system_close(NULL, folder);
	return err ? err : fd;
}

static void system_unlink(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int folder = address_of(path, &addr);

	if (!folder)
		folder = lock_folder(&addr);
	if (folder < 0)
		return;
	if (is_dead(&addr))
		guarded(unlink(path));
	system_close(NULL, folder);
}

static int system_accept(void *ctx, int fd, bool root_too)
{
	int ret, err;

	do
		ret = guarded(accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	while (ret == -EINTR || ret == -ECONNABORTED);
	err = ret < 0 ? 0 : check_user(ret, root_too);
	if (!err)
		return ret;
	system_close(NULL, ret);
	return err;
}

/* Its owner and its access rights are looked at when a server listens there. */
static int system_folder(void *ctx, const char *path)
{
	int err = guarded(mkdir(path, 0700));

	return err == -EEXIST ? 0 : err;
}

static int system_connect(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int ret = address_of(path, &addr);

	if (!ret)
		ret = open_folder(&addr);
	if (ret < 0)
		return ret;
	system_close(NULL, ret);
	return connect_to(&addr);
}

static void system_hang_up(void *ctx, int fd)
{
	guarded(shutdown(fd, SHUT_RDWR));
}

union control {
	char buf[CMSG_SPACE(KV_SOCK_FDS * sizeof(int))];
	struct cmsghdr align;
};

static s64 system_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	struct iovec iov = { (void *)buf, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control = { 0 };
	s64 ret;

	if (nr_fds > KV_SOCK_FDS)
		return -EINVAL;
	if (nr_fds) {
		struct cmsghdr *head = &control.align;

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(head), fds, nr_fds * sizeof(int));
	}
	do
		ret = guarded(sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT));
	while (ret == -EINTR);
	return ret;
}

/* All that came are ours to close, wanted or not. */
static void take_fds(struct msghdr *msg, int *fds, u32 *nr_fds)
{
	for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head; head = CMSG_NXTHDR(msg, head)) {
		u32 nr = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (u32 i = 0; i < nr; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
			if (*nr_fds < KV_SOCK_FDS)
				fds[(*nr_fds)++] = fd;
			else
				system_close(NULL, fd);
		}
	}
}

static s64 system_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	struct iovec iov = { buf, bytes };
	union control control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	s64 ret;

	*nr_fds = 0;
	do
		ret = guarded(recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
	while (ret == -EINTR);
	if (ret < 0)
		return ret;
	take_fds(&msg, fds, nr_fds);
	if (!(msg.msg_flags & MSG_CTRUNC))
		return ret;
	while (*nr_fds)
		system_close(NULL, fds[--*nr_fds]);
	return -EPROTO;
}

static int system_watch(void *ctx)
{
	return guarded(epoll_create1(EPOLL_CLOEXEC));
}

static int system_watch_set(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	struct epoll_event event = { .data.fd = fd };

	event.events = (events & KV_SOCK_IN ? EPOLLIN : 0) | (events & KV_SOCK_OUT ? EPOLLOUT : 0);
	return guarded(epoll_ctl(watch, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event));
}

static void system_watch_del(void *ctx, int watch, int fd)
{
	guarded(epoll_ctl(watch, EPOLL_CTL_DEL, fd, NULL));
}

#define MAX_READY	64u

static int system_watch_wait(void *ctx, int watch, struct kv_sock_ready *ready, u32 max,
			     int timeout_ms)
{
	struct epoll_event event[MAX_READY];
	int nr = guarded(epoll_wait(watch, event, min(max, MAX_READY), timeout_ms));

	for (int i = 0; i < nr; i++) {
		u32 bits = event[i].events;

		ready[i] = (struct kv_sock_ready){ event[i].data.fd, 0 };
		ready[i].events = (bits & EPOLLIN ? KV_SOCK_IN : 0) |
				  (bits & EPOLLOUT ? KV_SOCK_OUT : 0) |
				  (bits & (EPOLLHUP | EPOLLERR) ? KV_SOCK_GONE : 0);
	}
	return nr == -EINTR ? 0 : nr;
}

static int system_bell(void *ctx)
{
	return guarded(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

static void system_ring(void *ctx, int bell)
{
	guarded(eventfd_write(bell, 1));
}

static int system_timer(void *ctx, int timer, u64 ns)
{
	struct itimerspec at = { .it_value = { ns / 1000000000, ns % 1000000000 } };

	if (timer < 0)
		timer = guarded(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (timer >= 0)
		guarded(timerfd_settime(timer, 0, &at, NULL));
	return timer;
}

static int system_mem_make(void *ctx, u64 bytes)
{
	int fd = guarded(memfd_create("kvmm-window", MFD_CLOEXEC | MFD_ALLOW_SEALING)), err;

	if (fd < 0)
		return fd;
	err = guarded(ftruncate(fd, bytes));
	if (!err)
		err = guarded(fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL));
	if (!err)
		return fd;
	system_close(NULL, fd);
	return err;
}

static int system_mem_map(void *ctx, int fd, u64 bytes, void **result)
{
	int seals = guarded(fcntl(fd, F_GET_SEALS)), err;
	struct stat stat;
	void *ptr;

	/* A page that is not there kills the reader: no process may be able to take it away. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPERM;
	err = guarded(fstat(fd, &stat));
	if (err)
		return err;
	if (stat.st_size < 0 || (u64)stat.st_size < bytes)
		return -EPERM;
	err = guarded((ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
		      MAP_FAILED ? -1 : 0);
	if (!err)
		*result = ptr;
	return err;
}

static void system_mem_unmap(void *ctx, void *ptr, u64 bytes)
{
	guarded(munmap(ptr, bytes));
}

const struct kv_sock_ops kv_sock_system = {
	.listen		= system_listen,
	.unlink		= system_unlink,
	.accept		= system_accept,
	.connect	= system_connect,
	.close		= system_close,
	.send		= system_send,
	.recv		= system_recv,
	.watch		= system_watch,
	.mem_make	= system_mem_make,
	.mem_map	= system_mem_map,
	.mem_unmap	= system_mem_unmap,
	.folder		= system_folder,
	.watch_set	= system_watch_set,
	.watch_del	= system_watch_del,
	.watch_wait	= system_watch_wait,
	.bell		= system_bell,
	.ring		= system_ring,
	.timer		= system_timer,
	.hang_up	= system_hang_up,
	.tcp_listen	= kv_tcp_listen,
	.tcp_connect	= kv_tcp_connect,
	.tcp_accept	= kv_tcp_accept,
	.secret		= kv_read_secret,
};

DEFINE_SEAM(sock)
