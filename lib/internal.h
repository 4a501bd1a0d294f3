/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of lib/. */
#ifndef LIB_INTERNAL_H
#define LIB_INTERNAL_H

#include <errno.h>

#include <kv/stat.h>
#include <kv/sys.h>

struct kv_file_io;

/* For fork.c, in a child that begins: no reader is there, and rows of other threads are free. */
void rcu_forked(void);
void stat_forked(void);
void sys_forked(void);

/* The thread that forks has no row meanwhile: see kv/fork.h. It takes it back, but in the child. */
void stat_set_aside(void);
void stat_take_back(void);
void stat_drop_aside(void);

/* Rows that have been claimed so far; a thread's sections come after it is counted here. */
u32 stat_nr_rows(void);
struct kv_stat_row *stat_row(u32 slot);

u32 kv_system_cpu(void *ctx);
void kv_system_log(void *ctx, int level, const char *line);

/* The table of a seam that is in force: the system's, unless a test has put another in place. */
#define DEFINE_SEAM(name)								\
	static const struct kv_##name##_ops *in_force = &kv_##name##_system;		\
											\
	const struct kv_##name##_ops *kv_##name(void)					\
	{										\
		/* Pairs with the release below: a reader of the table sees its contents. */ \
		return smp_load_acquire(&in_force);					\
	}										\
											\
	void kv_##name##_set(const struct kv_##name##_ops *ops)				\
	{										\
		/* Pairs with the acquire above. */					\
		smp_store_release(&in_force, ops ? ops : &kv_##name##_system);		\
	}

/*
 * Most calls of the system are points of cancellation, and callers may hold locks and requests: so
 * none has an effect between these two. errno stays as it was, too.
 */
struct guard {
	int	err;
	int	cancel;
};

static inline struct guard guard_enter(void)
{
	return (struct guard){ errno, kv_cancel_off() };
}

/* The result of a system call, as the library says it. */
static inline s64 guard_leave(struct guard before, s64 ret)
{
	if (ret < 0)
		ret = -errno;
	kv_cancel_restore(before.cancel);
	errno = before.err;
	return ret;
}

#define guarded(call)	({ struct guard __before = guard_enter(); guard_leave(__before, call); })

/* A queue as in struct kv_file_ops. */
int kv_uring_open(void *ctx, u32 depth, void **queue);
int kv_uring_submit(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr);
int kv_uring_reap(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait);
void kv_uring_close(void *ctx, void *queue);

/* As in struct kv_sock_ops. */
int kv_tcp_listen(void *ctx, const char *text, u16 *port);
int kv_tcp_connect(void *ctx, const char *text);
int kv_tcp_accept(void *ctx, int fd);
s64 kv_read_secret(void *ctx, const char *path, void *buf, size_t bytes);

#endif /* LIB_INTERNAL_H */
