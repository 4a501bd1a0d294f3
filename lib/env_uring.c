// SPDX-License-Identifier: Apache-2.0
/*
 * A queue of file requests on io_uring.
 *
 * liburing is opened at run time, never linked: engines with an image that lacks it must still load
 * the library, and kernels and containers that forbid io_uring must still get a disk tier. A
 * library built without liburing's header has no queue either. Inline functions of the header are
 * used as they are; the functions that it declares come out of the library.
 *
 * The header's rings are shared with the kernel, so no two threads may be in calls of one queue:
 * its user sees to that.
 */
#include <kv/file.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "internal.h"

/* Checkers that do not know C11's atomics need not read liburing's. */
#if defined(__has_include) && !defined(__CHECKER__)
#if __has_include(<liburing.h>)
#define HAVE_LIBURING
#endif
#endif

#ifdef HAVE_LIBURING
#include <liburing.h>

#include <kv/atomic.h>

struct uring_calls {
	int (*queue_init)(unsigned int entries, struct io_uring *ring, unsigned int flags);
	void (*queue_exit)(struct io_uring *ring);
	int (*submit)(struct io_uring *ring);
	int (*submit_and_wait)(struct io_uring *ring, unsigned int nr);
};

struct uring {
	struct io_uring		ring;	/* its user's lock */
	struct uring_calls	call;	/* fixed at creation */
};

/* Functions come as objects, which C does not convert. */
static bool find_call(void *library, const char *name, void *call)
{
	const struct kv_sys_ops *sys = kv_sys();
	void *symbol = sys->find_symbol(sys->ctx, library, name);

	*(void **)call = symbol;
	return symbol;
}

static int find_calls(struct uring_calls *call)
{
	const struct kv_sys_ops *sys = kv_sys();
	const char *why = NULL;
	void *library = sys->open_library(sys->ctx, "liburing.so.2", &why);

	if (!library)
		return -ENOSYS;
	return find_call(library, "io_uring_queue_init", &call->queue_init) &&
	       find_call(library, "io_uring_queue_exit", &call->queue_exit) &&
	       find_call(library, "io_uring_submit", &call->submit) &&
	       find_call(library, "io_uring_submit_and_wait", &call->submit_and_wait) ?
	       0 : -ENOSYS;
}

int kv_uring_open(void *ctx, u32 depth, void **queue)
{
	struct uring *uring = kv_alloc(sizeof(*uring));
	int err;

	if (!uring)
		return -ENOMEM;
	err = find_calls(&uring->call);
	if (err)
		goto out_free;
	err = uring->call.queue_init(depth, &uring->ring, 0);
	if (err)
		goto out_free;
	*queue = uring;
	return 0;

out_free:
	kv_free(uring);
	return err;
}

static void fill(struct io_uring_sqe *sqe, struct kv_file_io *io)
{
	const struct iovec *iov = (const struct iovec *)io->iov;

	if (io->op == KV_FILE_READV)
		io_uring_prep_readv(sqe, io->file, iov, io->nr_iov, io->offset);
	else if (io->op == KV_FILE_WRITEV)
		io_uring_prep_writev(sqe, io->file, iov, io->nr_iov, io->offset);
	else
		io_uring_prep_fsync(sqe, io->file, IORING_FSYNC_DATASYNC);
	io_uring_sqe_set_data(sqe, io);
}

/*
 * Requests in the ring stay in it even if the system does not take them now: they go along with the
 * next call, and count as taken. So this only fails before anything is put in.
 */
int kv_uring_submit(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr)
{
	struct uring *uring = queue;
	struct io_uring_sqe *sqe;
	u32 i = 0;

	while (i < nr && (sqe = io_uring_get_sqe(&uring->ring)))
		fill(sqe, ios[i++]);
	uring->call.submit(&uring->ring);
	return i ? (int)i : -EAGAIN;
}

int kv_uring_reap(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait)
{
	struct uring *uring = queue;
	struct io_uring_cqe *cqe;
	unsigned int head, nr = 0;

	if (wait || io_uring_sq_ready(&uring->ring))
		uring->call.submit_and_wait(&uring->ring, wait);
	io_uring_for_each_cqe(&uring->ring, head, cqe) {
		if (nr == max)
			break;
		done[nr] = io_uring_cqe_get_data(cqe);
		done[nr++]->result = cqe->res;
	}
	io_uring_cq_advance(&uring->ring, nr);
	return nr;
}

void kv_uring_close(void *ctx, void *queue)
{
	struct uring *uring = queue;

	uring->call.queue_exit(&uring->ring);
	kv_free(uring);
}

#else /* !HAVE_LIBURING */

int kv_uring_open(void *ctx, u32 depth, void **queue)
{
	return -ENOSYS;
}

int kv_uring_submit(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr)
{
	return -ENOSYS;
}

int kv_uring_reap(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait)
{
	return -ENOSYS;
}

void kv_uring_close(void *ctx, void *queue)
{
}

#endif
