/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_DISK_RAW_H
#define BENCH_DISK_RAW_H

#include "harness.h"

/**
 * struct raw - what a disk does by itself: one file from front to end
 * @path: of the file; made anew, and allocated, by raw_open()
 * @bytes: of the file
 * @chunk: bytes of a transfer
 * @depth: transfers at a time, each of a thread
 * @direct: past the page cache
 * @memory: @depth * @chunk bytes, aligned to pages
 */
struct raw {
	const char *path;
	u64 bytes;
	u32 chunk;
	u32 depth;
	bool direct;
	char *memory;
	int file;
	u64 next;	/* chunk; atomic */
	int err;	/* atomic */
	bool write;
};

/** raw_open() - make the file. Return: 0; -errno. */
int raw_open(struct raw *raw);

/** raw_close() - and remove it */
void raw_close(struct raw *raw);

/** raw_run() - all of the file, and if @write a flush. Return: nanoseconds; -errno. */
int64_t raw_run(struct raw *raw, bool write);

#endif /* BENCH_DISK_RAW_H */
