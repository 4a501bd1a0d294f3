// SPDX-License-Identifier: Apache-2.0
/*
 * Transfers: waiting, under way, done.
 *
 * With a queue of the system's, any caller hands on transfers that wait and finishes those that are
 * done. Without one, or if it takes nothing, callers that poll do the transfers, one each at a
 * time. They hold no lock of the store's, but for the one that serialises calls of the queue. A
 * thread that waits for the medium has that lock meanwhile, so no other one waits for it: what a
 * medium that hangs holds up is what was asked of it, and the threads that wait for that.
 */
#include <kv/env.h>

#include "internal.h"

#define BATCH		32u
#define MAX_RETRIES	64u
#define NAP_NS		100000u		/* while another thread finishes the transfer */

void disk_io_queue(struct kvmm_disk *disk, struct disk_io *io)
{
	io->next = NULL;
	*disk->waiting_end = io;
	disk->waiting_end = &io->next;
	disk->nr_active++;
}

static u32 take_waiting(struct kvmm_disk *disk, struct kv_file_io **ios, u32 max)
{
	u32 nr = 0;

	kv_lock(&disk->lock);
	while (disk->waiting && nr < max) {
		ios[nr++] = &disk->waiting->io;
		disk->waiting = disk->waiting->next;
	}
	if (!disk->waiting)
		disk->waiting_end = &disk->waiting;
	kv_unlock(&disk->lock);
	return nr;
}

static struct disk_io *io_of(struct kv_file_io *io)
{
	return container_of(io, struct disk_io, io);
}

/* Back to the front, in order. */
static void put_back(struct kvmm_disk *disk, struct kv_file_io **ios, u32 nr)
{
	kv_lock(&disk->lock);
	while (nr--) {
		struct disk_io *io = io_of(ios[nr]);

		io->next = disk->waiting;
		if (!disk->waiting)
			disk->waiting_end = &io->next;
		disk->waiting = io;
	}
	kv_unlock(&disk->lock);
}

static bool queue_enter(struct kvmm_disk *disk, bool wait)
{
	if (!wait)
		return kv_trylock(&disk->queue_lock);
	kv_lock(&disk->queue_lock);
	return true;
}

/* How many of those that wait the queue takes. */
static u32 submit(struct kvmm_disk *disk)
{
	struct kv_file_io *ios[BATCH];
	int taken = 0;
	u32 nr;

	kv_assert_held(&disk->queue_lock);
	kv_assert(disk->nr_queued <= disk->depth);
	nr = take_waiting(disk, ios, min(BATCH, disk->depth - disk->nr_queued));
	if (nr)
		taken = disk->ops->queue_submit(disk->ops->ctx, disk->queue, ios, nr);
	taken = max(taken, 0);
	put_back(disk, ios + taken, nr - taken);
	WRITE_ONCE(disk->nr_queued, disk->nr_queued + taken);
	return taken;
}

static bool is_waiting(struct kvmm_disk *disk)
{
	bool waits;

	kv_lock(&disk->lock);
	waits = disk->waiting;
	kv_unlock(&disk->lock);
	return waits;
}

/*
 * A thread that finds another one at the queue goes: that one looks again for transfers that wait
 * once it has left the queue, or, if it waits for the medium, then.
 */
static void pump(struct kvmm_disk *disk, bool wait)
{
	u32 taken = 1;

	kv_assert_not_held(&disk->lock);
	while (disk->queue && taken && is_waiting(disk) && queue_enter(disk, wait)) {
		taken = submit(disk);
		kv_unlock(&disk->queue_lock);
	}
}

void disk_io_pump(struct kvmm_disk *disk)
{
	pump(disk, false);
}

/* Is it done, one way or the other? If not, the rest of it is to be done. */
static bool is_over(struct disk_io *io)
{
	s64 result = io->io.result;

	io->err = 0;
	if ((result == -EINTR || result == -EAGAIN) && io->nr_retries++ < MAX_RETRIES)
		return false;
	if (result < 0 || io->io.op == KV_FILE_DATASYNC) {
		io->err = result;
		return true;
	}
	if (!result || result > io->bytes) {
		io->err = -EIO;
		return true;
	}
	io->bytes -= result;
	io->io.offset += result;
	io->io.nr_iov = kv_iov_advance(&io->io.iov, io->io.nr_iov, result);
	return !io->bytes;
}

static void finish(struct kvmm_disk *disk, struct disk_io *io)
{
	const struct kv_env_ops *env = kv_env();
	bool over = is_over(io);

	kv_assert_not_held(&disk->lock);
	if (over)
		disk_io_over(disk, io);
	kv_lock(&disk->lock);
	if (!over)
		disk_io_queue(disk, io);
	kv_assert(disk->nr_active);
	disk->nr_active--;
	kv_unlock(&disk->lock);
	/* Statistic-like: waiters look at the lists under the lock, and sleep for a moment only. */
	kv_fetch_add(&disk->tick, 1);
	env->wake(env->ctx, &disk->tick);
}

static bool is_active(struct kvmm_disk *disk)
{
	bool active;

	kv_lock(&disk->lock);
	active = disk->nr_active;
	kv_unlock(&disk->lock);
	return active;
}

/* One that waits, done here and now. */
static bool do_one(struct kvmm_disk *disk)
{
	const struct kv_file_ops *ops = disk->ops;
	struct kv_file_io *io;

	if (!take_waiting(disk, &io, 1))
		return false;
	if (io->op == KV_FILE_READV)
		io->result = ops->preadv(ops->ctx, io->file, io->iov, io->nr_iov, io->offset);
	else if (io->op == KV_FILE_WRITEV)
		io->result = ops->pwritev(ops->ctx, io->file, io->iov, io->nr_iov, io->offset);
	else
		io->result = ops->datasync(ops->ctx, io->file);
	finish(disk, io_of(io));
	return true;
}

static bool finish_some(struct kvmm_disk *disk, bool wait)
{
	struct kv_file_io *ios[BATCH];
	int nr = 0;

	if (!disk->queue)
		return do_one(disk);
	pump(disk, wait);
	if (!queue_enter(disk, wait))
		return false;
	if (disk->nr_queued)
		nr = disk->ops->queue_reap(disk->ops->ctx, disk->queue, ios, BATCH, wait);
	nr = max(nr, 0);
	kv_assert((u32)nr <= disk->nr_queued);
	WRITE_ONCE(disk->nr_queued, disk->nr_queued - nr);
	kv_unlock(&disk->queue_lock);
	for (int i = 0; i < nr; i++)
		finish(disk, io_of(ios[i]));
	pump(disk, wait);
	/* A queue that has nothing, and takes nothing, is none. */
	return nr || (!READ_ONCE(disk->nr_queued) && do_one(disk));
}

bool disk_io_progress(struct kvmm_disk *disk, bool wait)
{
	const struct kv_env_ops *env = kv_env();
	u32 tick = READ_ONCE(disk->tick);

	kv_assert_not_held(&disk->lock);
	disk_drain_step(disk);
	if (finish_some(disk, wait))
		return true;
	if (wait && is_active(disk))
		env->wait(env->ctx, &disk->tick, tick, NAP_NS);
	return false;
}

void disk_io_nap(struct kvmm_disk *disk)
{
	const struct kv_env_ops *env = kv_env();

	kv_assert_not_held(&disk->lock);
	env->wait(env->ctx, &disk->tick, READ_ONCE(disk->tick), NAP_NS);
}

void disk_io_drain(struct kvmm_disk *disk)
{
	kv_assert_not_held(&disk->lock);
	while (is_active(disk))
		disk_io_progress(disk, true);
}
