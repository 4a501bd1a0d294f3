// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam to other processes.
 *
 * A socket in the file system is as private as the folder that it is in, with any umask; so the
 * folder is looked at, and the user at the other end, too. Memory is sealed: a process that shares
 * it cannot take it away from under us.
 */
#define _GNU_SOURCE
#include <errno.h>
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

/* The result of the last call, and errno as it was before. */
static int result(int ret, int saved)
{
	int err = ret < 0 ? -errno : ret;

	errno = saved;
	return err;
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
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -EPERM : -errno;
	if (!fstat(fd, &stat) && stat.st_uid == geteuid() && !(stat.st_mode & 077))
		return fd;
	close(fd);
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
	int fd = open_folder(addr), cancel;

	cancel = kv_cancel_off();
	for (u32 i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (i < 200) {
			nanosleep(&pause, NULL);
			continue;
		}
		close(fd);
		fd = -EAGAIN;
	}
	kv_cancel_restore(cancel);
	return fd;
}

static int check_user(int fd, bool root_too)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	return cred.uid == geteuid() || (root_too && !cred.uid) ? 0 : -EPERM;
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int connect_to(const struct sockaddr_un *addr)
{
	int fd = new_socket(), err;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		err = -errno;
	else
		err = check_user(fd, false);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* A socket without a listener is left by a process that died. */
static bool is_dead(const struct sockaddr_un *addr)
{
	int other = connect_to(addr);
	struct stat stat;

	if (other >= 0)
		close(other);
	return other == -ECONNREFUSED && !lstat(addr->sun_path, &stat) && S_ISSOCK(stat.st_mode);
}

static int bind_to(int fd, const struct sockaddr_un *addr)
{
	if (!bind(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!is_dead(addr))
		return -EADDRINUSE;
	if (unlink(addr->sun_path) || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		return -errno;
	return 0;
}

static int listen_at(const struct sockaddr_un *addr)
{
	int folder = lock_folder(addr), fd, err;

	if (folder < 0)
		return folder;
	fd = new_socket();
	err = fd < 0 ? -errno : bind_to(fd, addr);
	if (!err && listen(fd, BACKLOG))
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	close(folder);
	return err ? err : fd;
}

static int system_listen(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int saved = errno, ret = address_of(path, &addr);

	if (!ret)
		ret = listen_at(&addr);
	errno = saved;
	return ret;
}

static void system_unlink(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int saved = errno, folder = address_of(path, &addr);

	if (!folder)
		folder = lock_folder(&addr);
	if (folder >= 0) {
		if (is_dead(&addr))
			unlink(path);
		close(folder);
	}
	errno = saved;
}

static int accept_one(int fd, bool root_too)
{
	int saved = errno, ret, err;

	do
		ret = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (ret < 0 && (errno == EINTR || errno == ECONNABORTED));
	ret = result(ret, saved);
	err = ret < 0 ? 0 : check_user(ret, root_too);
	if (!err)
		return ret;
	close(ret);
	errno = saved;
	return err;
}

static int system_accept(void *ctx, int fd)
{
	return accept_one(fd, false);
}

static int system_admit(void *ctx, int fd)
{
	return accept_one(fd, true);
}

/* Its owner and its access rights are looked at when a server listens there. */
static int system_folder(void *ctx, const char *path)
{
	int saved = errno, err = 0;

	if (mkdir(path, 0700) && errno != EEXIST)
		err = -errno;
	errno = saved;
	return err;
}

static int system_connect(void *ctx, const char *path)
{
	struct sockaddr_un addr;
	int saved = errno, ret = address_of(path, &addr);

	if (!ret)
		ret = open_folder(&addr);
	if (ret >= 0) {
		close(ret);
		ret = connect_to(&addr);
	}
	errno = saved;
	return ret;
}

static void system_close(void *ctx, int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
}

static void system_hang_up(void *ctx, int fd)
{
	int saved = errno;

	shutdown(fd, SHUT_RDWR);
	errno = saved;
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
	int saved = errno;
	ssize_t ret;

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
		ret = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (ret < 0 && errno == EINTR);
	if (ret < 0)
		ret = -errno;
	errno = saved;
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
				close(fd);
		}
	}
}

static s64 system_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	struct iovec iov = { buf, bytes };
	union control control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	int saved = errno;
	ssize_t ret;

	*nr_fds = 0;
	do
		ret = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (ret < 0 && errno == EINTR);
	if (ret < 0) {
		ret = -errno;
	} else {
		take_fds(&msg, fds, nr_fds);
		if (msg.msg_flags & MSG_CTRUNC) {
			while (*nr_fds)
				close(fds[--*nr_fds]);
			ret = -EPROTO;
		}
	}
	errno = saved;
	return ret;
}

static int system_watch(void *ctx)
{
	int saved = errno;

	return result(epoll_create1(EPOLL_CLOEXEC), saved);
}

static int system_watch_add(void *ctx, int watch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int saved = errno;

	return result(epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event), saved);
}

static int system_watch_set(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	struct epoll_event event = { .data.fd = fd };
	int saved = errno;

	event.events = (events & KV_SOCK_IN ? EPOLLIN : 0) | (events & KV_SOCK_OUT ? EPOLLOUT : 0);
	return result(epoll_ctl(watch, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event), saved);
}

static void system_watch_del(void *ctx, int watch, int fd)
{
	int saved = errno;

	epoll_ctl(watch, EPOLL_CTL_DEL, fd, NULL);
	errno = saved;
}

#define MAX_READY	64u

static int system_watch_wait(void *ctx, int watch, struct kv_sock_ready *ready, u32 max,
			     int timeout_ms)
{
	struct epoll_event event[MAX_READY];
	int saved = errno, cancel = kv_cancel_off(), nr;

	nr = epoll_wait(watch, event, min(max, MAX_READY), timeout_ms);
	if (nr < 0)
		nr = errno == EINTR ? 0 : -errno;
	for (int i = 0; i < nr; i++) {
		u32 bits = event[i].events;

		ready[i] = (struct kv_sock_ready){ event[i].data.fd, 0 };
		ready[i].events = (bits & EPOLLIN ? KV_SOCK_IN : 0) |
				  (bits & EPOLLOUT ? KV_SOCK_OUT : 0) |
				  (bits & (EPOLLHUP | EPOLLERR) ? KV_SOCK_GONE : 0);
	}
	kv_cancel_restore(cancel);
	errno = saved;
	return nr;
}

static int system_bell(void *ctx)
{
	int saved = errno;

	return result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), saved);
}

static void system_ring(void *ctx, int bell)
{
	int saved = errno;

	eventfd_write(bell, 1);
	errno = saved;
}

static int system_timer(void *ctx, int timer, u64 ns)
{
	struct itimerspec at = { .it_value = { ns / 1000000000, ns % 1000000000 } };
	int saved = errno;

	if (timer < 0)
		timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (timer >= 0)
		timerfd_settime(timer, 0, &at, NULL);
	return result(timer, saved);
}

static int system_mem_make(void *ctx, u64 bytes)
{
	int saved = errno, fd = memfd_create("kvmm-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = 0;

	if (fd < 0)
		return result(fd, saved);
	if (ftruncate(fd, bytes) || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		err = -errno;
	if (err)
		close(fd);
	errno = saved;
	return err ? err : fd;
}

static int system_mem_map(void *ctx, int fd, u64 bytes, void **result)
{
	int saved = errno, seals = fcntl(fd, F_GET_SEALS), err = 0;
	struct stat stat;
	void *ptr;

	/* A page that is not there kills the reader: no process may be able to take it away. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		err = -EPERM;
	else if (fstat(fd, &stat))
		err = -errno;
	else if (stat.st_size < 0 || (u64)stat.st_size < bytes)
		err = -EPERM;
	if (!err) {
		ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ptr == MAP_FAILED)
			err = -errno;
		else
			*result = ptr;
	}
	errno = saved;
	return err;
}

static void system_mem_unmap(void *ctx, void *ptr, u64 bytes)
{
	int saved = errno;

	munmap(ptr, bytes);
	errno = saved;
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
	.watch_add	= system_watch_add,
	.mem_make	= system_mem_make,
	.mem_map	= system_mem_map,
	.mem_unmap	= system_mem_unmap,
	.admit		= system_admit,
	.folder		= system_folder,
	.watch_set	= system_watch_set,
	.watch_del	= system_watch_del,
	.watch_wait	= system_watch_wait,
	.bell		= system_bell,
	.ring		= system_ring,
	.timer		= system_timer,
	.hang_up	= system_hang_up,
};

DEFINE_SEAM(sock)
