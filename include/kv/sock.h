/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to other processes: of this machine, by sockets with a path, descriptors that are passed
 * on, memory that several processes have; and of others, by TCP and files with secrets.
 *
 * Nothing here waits but watch_wait(), and listen() and unlink() for others that do the same in
 * that folder. Descriptors are the system's, and closed over exec(). Tests put their own table in
 * place, which passes on to the system's the calls that it does not spoil.
 */
#ifndef KV_SOCK_H
#define KV_SOCK_H

#include <kv/types.h>

/** Most descriptors that come with one message. */
#define KV_SOCK_FDS	4u

/** Events that a descriptor is watched for, and is ready for. */
#define KV_SOCK_IN	(1u << 0)
#define KV_SOCK_OUT	(1u << 1)
#define KV_SOCK_GONE	(1u << 2)	/* the other end is gone; told whether asked for or not */

struct kv_sock_ready {
	int fd;
	u32 events;
};

/**
 * struct kv_sock_ops - the calls that are needed of the system
 * @listen: a socket at @path: it, or -EPERM the folder is not the user's alone (mode 0700, and
 *	his); -EADDRINUSE a process listens there; -ENAMETOOLONG; -EAGAIN another has had the folder
 *	locked for a second; -errno. The remains of a process that has died there are replaced
 * @unlink: the path again, unless a process listens there: close yours first
 * @accept: the next client: a socket; -EAGAIN none; -EPERM one of another user was sent away, but
 *	for root if @root_too; -errno
 * @connect: a socket to the listener there: it, or -EAGAIN too many want to; -EPERM another user
 *	does, or the folder is not the user's alone; -ECONNREFUSED, -ENOENT; -errno
 * @close: also of memory
 * @send: how many of @bytes were sent, @fds with the first of them; -EAGAIN; -EPIPE; -errno
 * @recv: how many came, 0 no more will; and *@nr_fds descriptors, of at most KV_SOCK_FDS. -EAGAIN;
 *	-errno. With -EPROTO descriptors were too many, and have been closed
 * @watch: one descriptor that can be read when one of others is ready, which watch_set() names. It,
 *	or -errno. A descriptor that is closed is no longer watched
 * @mem_make: memory of that size, all zero, that cannot be made smaller; a descriptor or -errno
 * @mem_map: where it is: 0 and *@ptr, or -EPERM it can be made smaller, or is; -errno
 * @mem_unmap: no longer
 * @folder: there is a folder at @path, or one of the user's alone is made: 0 or -errno
 * @watch_set: from now on @fd is watched for KV_SOCK_*, maybe for none; @is_new: for the first
 *	time. 0 or -errno
 * @watch_del: no longer; before it is closed, since a forked child may have it open for ever
 * @watch_wait: which are ready, of those that watch_set() was told of, at most @max; it waits at
 *	most @timeout_ms for the first of them. How many, 0 also if a signal came; -errno
 * @bell: something that can be watched, and that is ready for ever once it was rung; or -errno
 * @ring: ring it
 * @timer: something that can be watched, and that is ready @ns from now, once; 0: never. @timer:
 *	which, or -1: a new one. It, or -errno
 * @hang_up: the other end hears that it is over, though a forked child may have @fd open for ever
 * @tcp_listen: a socket at "1.2.3.4:80" or "[::1]:80", numbers only; port 0: any that is free. It
 *	and its *@port, or -EINVAL no address; -EADDRINUSE; -EADDRNOTAVAIL; -errno
 * @tcp_connect: a socket to there; it is not through yet: until then send and recv say -EAGAIN. It,
 *	or -EINVAL; -errno
 * @tcp_accept: the next client, any at all: a socket; -EAGAIN none; -EPERM one was gone; -errno
 * @secret: the content of a small file: its length; -EPERM it is not the user's alone (mode 0600);
 *	-E2BIG; -errno
 */
struct kv_sock_ops {
	int (*listen)(void *ctx, const char *path);
	void (*unlink)(void *ctx, const char *path);
	int (*accept)(void *ctx, int fd, bool root_too);
	int (*connect)(void *ctx, const char *path);
	void (*close)(void *ctx, int fd);
	s64 (*send)(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds);
	s64 (*recv)(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds);
	int (*watch)(void *ctx);
	int (*mem_make)(void *ctx, u64 bytes);
	int (*mem_map)(void *ctx, int fd, u64 bytes, void **ptr);
	void (*mem_unmap)(void *ctx, void *ptr, u64 bytes);
	int (*folder)(void *ctx, const char *path);
	int (*watch_set)(void *ctx, int watch, int fd, u32 events, bool is_new);
	void (*watch_del)(void *ctx, int watch, int fd);
	int (*watch_wait)(void *ctx, int watch, struct kv_sock_ready *ready, u32 max,
			  int timeout_ms);
	int (*bell)(void *ctx);
	void (*ring)(void *ctx, int bell);
	int (*timer)(void *ctx, int timer, u64 ns);
	void (*hang_up)(void *ctx, int fd);
	int (*tcp_listen)(void *ctx, const char *addr, u16 *port);
	int (*tcp_connect)(void *ctx, const char *addr);
	int (*tcp_accept)(void *ctx, int fd);
	s64 (*secret)(void *ctx, const char *path, void *buf, size_t bytes);
	void *ctx;
};

extern const struct kv_sock_ops kv_sock_system;

/* The table in force; never NULL. Set it before the first link is made, or between tests. */
const struct kv_sock_ops *kv_sock(void);
void kv_sock_set(const struct kv_sock_ops *ops);	/* NULL: back to kv_sock_system */

/* Else tcp_connect() says -EINVAL. */
bool kv_tcp_is_address(const char *text);

/* Of send and recv: a system that has no time or no room now may have some later. */
static inline bool kv_sock_is_passing(s64 err)
{
	return err == -EAGAIN || err == -EINTR || err == -ENOMEM || err == -ENOBUFS;
}

#endif /* KV_SOCK_H */
