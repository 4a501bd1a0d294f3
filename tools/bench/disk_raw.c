// SPDX-License-Identifier: Apache-2.0
/*
 * The baseline of the disk tier: a preallocated file, written or read from front to end in large pieces,
 * several at a time. As a benchmark of disks does it, and with nothing else to do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "disk_raw.h"

#define MAX_THREADS	16u

int raw_open(struct raw *raw)
{
	int how = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;

	raw->file = raw->direct ? open(raw->path, how | O_DIRECT, 0600) : open(raw->path, how, 0600);
	if (raw->file < 0)
		return -errno;
	return -posix_fallocate(raw->file, 0, raw->bytes);
}

void raw_close(struct raw *raw)
{
	close(raw->file);
	unlink(raw->path);
}

static void one_chunk(struct raw *raw, u64 chunk, char *memory)
{
	u64 offset = chunk * raw->chunk;
	ssize_t done = raw->write ? pwrite(raw->file, memory, raw->chunk, offset) :
				    pread(raw->file, memory, raw->chunk, offset);

	if (done != raw->chunk)
		__atomic_store_n(&raw->err, done < 0 ? -errno : -EIO, __ATOMIC_RELAXED);
}

struct worker {
	struct raw *raw;
	char *memory;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct raw *raw = worker->raw;
	u64 chunk;

	while ((chunk = __atomic_fetch_add(&raw->next, 1, __ATOMIC_RELAXED)) < raw->bytes / raw->chunk)
		one_chunk(raw, chunk, worker->memory);
	return NULL;
}

int64_t raw_run(struct raw *raw, bool write)
{
	struct worker worker[MAX_THREADS];
	u64 start = now_ns();
	u32 nr = 0;

	raw->write = write;
	raw->next = 0;
	raw->err = 0;
	for (; nr < raw->depth && nr < MAX_THREADS; nr++) {
		worker[nr] = (struct worker){ raw, raw->memory + (size_t)nr * raw->chunk, 0 };
		if (pthread_create(&worker[nr].thread, NULL, work, &worker[nr]))
			break;
	}
	if (!nr)
		return -EAGAIN;
	while (nr)
		pthread_join(worker[--nr].thread, NULL);
	if (write && fdatasync(raw->file))
		raw->err = -errno;
	return raw->err ? raw->err : (int64_t)(now_ns() - start);
}
