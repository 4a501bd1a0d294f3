// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier, from front to end: records put and got again, with a few MiB under way at a time,
 * against a plain file of the same size on the same file system in the same run. Writes end in a
 * flush.
 *
 * In the folder that KVMM_BENCH_DIR names, else TMPDIR, else /var/tmp; half a GiB is needed there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "pools.h"

/*
 * ---- the baseline ----
 *
 * A preallocated file, written or read from front to end in large pieces, several at a time. As a
 * benchmark of disks does it, and with nothing else to do.
 */

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

#define MAX_THREADS	16u

static int raw_open(struct raw *raw)
{
	int how = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (raw->direct ? O_DIRECT : 0);

	raw->file = open(raw->path, how, 0600);
	if (raw->file < 0)
		return -errno;
	return -posix_fallocate(raw->file, 0, raw->bytes);
}

static void one_chunk(struct raw *raw, u64 chunk, char *memory)
{
	u64 offset = chunk * raw->chunk;
	ssize_t done = raw->write ? pwrite(raw->file, memory, raw->chunk, offset) :
				    pread(raw->file, memory, raw->chunk, offset);

	if (done != raw->chunk)
		__atomic_store_n(&raw->err, done < 0 ? -errno : -EIO, __ATOMIC_RELAXED);
}

struct raw_thread {
	struct raw *raw;
	char *memory;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct raw_thread *worker = arg;
	struct raw *raw = worker->raw;
	u64 chunk;

	while ((chunk = __atomic_fetch_add(&raw->next, 1,
					   __ATOMIC_RELAXED)) < raw->bytes / raw->chunk)
		one_chunk(raw, chunk, worker->memory);
	return NULL;
}

/* All of the file, and if @write a flush: nanoseconds; -errno. */
static int64_t raw_run(struct raw *raw, bool write)
{
	struct raw_thread worker[MAX_THREADS];
	u64 start = now_ns();
	u32 nr = 0;

	raw->write = write;
	raw->next = 0;
	raw->err = 0;
	for (; nr < raw->depth && nr < MAX_THREADS; nr++) {
		worker[nr] = (struct raw_thread){ raw, raw->memory + (size_t)nr * raw->chunk, 0 };
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

/* ---- the store ---- */

#define TOTAL_BYTES	(128ull << 20)
#define SEGMENT_BYTES	(64u << 20)
#define MAX_BYTES	(4ull * SEGMENT_BYTES + 16384)
#define IN_FLIGHT	(8u << 20)
#define NR_GROUPS	4u		/* submissions that share it */
#define MAX_GROUP	64u
#define MIB		1048576.0

struct place {
	char root[4096];
	char store[4200];
	char raw[4200];
	char file[4300];
};

struct run {
	struct place place;
	struct kvmm_disk *disk;
	char *memory;		/* IN_FLIGHT */
	u32 bytes;		/* of a record */
	u32 nr;			/* records */
	u32 group;		/* records of a submission */
	int err;
};

static int make_place(struct place *place)
{
	const char *dir = getenv("KVMM_BENCH_DIR");
	int err;

	dir = dir ? dir : getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	err = make_folder(place->root, sizeof(place->root), dir);
	if (err)
		return err;
	snprintf(place->store, sizeof(place->store), "%s/store", place->root);
	snprintf(place->raw, sizeof(place->raw), "%s/raw", place->root);
	snprintf(place->file, sizeof(place->file), "%s/store", place->store);
	return 0;
}

static void remove_place(const struct place *place)
{
	unlink(place->file);
	rmdir(place->store);
	unlink(place->raw);
	rmdir(place->root);
}

static struct kvmm_disk_name name_of(u32 n)
{
	struct kvmm_disk_name name = { .key_bytes = 16 };

	memcpy(name.key, &n, sizeof(n));
	return name;
}

static char *memory_of(const struct run *run, u32 group, u32 i)
{
	return run->memory + (size_t)(group * run->group + i) * run->bytes;
}

/* Records [first, first + group) from or to the memory of that group. */
static void submit(struct run *run, u32 group, u32 first, bool put)
{
	static struct kvmm_disk_put_args puts[MAX_GROUP];
	static struct kvmm_disk_get_args gets[MAX_GROUP];
	int err;

	for (u32 i = 0; i < run->group; i++) {
		char *data = memory_of(run, group, i);

		puts[i] = (struct kvmm_disk_put_args){ .name = name_of(first + i), .data = data,
						       .bytes = run->bytes };
		gets[i] = (struct kvmm_disk_get_args){ name_of(first + i), data, run->bytes };
	}
	err = put ? kvmm_disk_submit_put(run->disk, puts, run->group, 0, group) :
		    kvmm_disk_submit_get(run->disk, gets, run->group, group);
	run->err = err ? err : run->err;
}

/* Keep all groups busy until all records are through. */
static double go_through(struct run *run, bool put)
{
	u32 left[NR_GROUPS], next = 0, nr_done = 0;
	struct kvmm_disk_done done[MAX_GROUP];
	u64 start = now_ns();

	for (u32 g = 0; g < NR_GROUPS; g++, next += run->group) {
		left[g] = run->group;
		submit(run, g, next, put);
	}
	while (nr_done < run->nr && !run->err) {
		int nr = kvmm_disk_poll(run->disk, done, MAX_GROUP);

		for (int i = 0; i < nr; i++) {
			u32 g = done[i].tag;

			run->err = done[i].status ? done[i].status : run->err;
			nr_done++;
			if (--left[g] || next >= run->nr)
				continue;
			left[g] = run->group;
			submit(run, g, next, put);
			next += run->group;
		}
	}
	if (put && !run->err)
		run->err = kvmm_disk_sync(run->disk);
	return (now_ns() - start) / 1e9;
}

static int open_store(struct run *run)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = run->place.store, .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT_BYTES };

	attr.flags |= KVMM_DISK_RESET;
	return kvmm_disk_open(&attr, &run->disk);
}

enum { PUT, GET, RAW_WRITE, RAW_READ };

static const struct metric metrics[] = {
	[PUT] = { "put", "MiB/s", "raw_write", RAW_WRITE },
	[GET] = { "get", "MiB/s", "raw_read", RAW_READ },
	[RAW_WRITE] = { "raw_write", "MiB/s", ALONE }, [RAW_READ] = { "raw_read", "MiB/s", ALONE },
};

static int measure_raw(struct bench *bench, struct run *run, bool direct)
{
	struct raw raw = { .path = run->place.raw, .bytes = TOTAL_BYTES, .chunk = 1 << 20,
			   .depth = 8,
			   .direct = direct, .memory = run->memory };
	int64_t ns = raw_open(&raw);

	for (u32 write = 1; ns >= 0 && write < 2; write--) {
		ns = raw_run(&raw, write);
		if (ns > 0)
			series_add(&bench->series[write ? RAW_WRITE : RAW_READ],
				   TOTAL_BYTES / MIB / (ns / 1e9));
	}
	close(raw.file);
	unlink(raw.path);
	return ns < 0 ? ns : 0;
}

static int turn(struct bench *bench, void *arg)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };
	struct run *run = arg;
	double total = (double)run->nr * run->bytes / MIB;
	int err = open_store(run);

	if (err)
		return err;
	kvmm_disk_get_stat(run->disk, &stat);
	series_add(&bench->series[PUT], total / go_through(run, true));
	if (!run->err)
		series_add(&bench->series[GET], total / go_through(run, false));
	kvmm_disk_close(run->disk);
	unlink(run->place.file);
	return run->err ? run->err : measure_raw(bench, run, stat.is_direct);
}

int bench_disk(struct bench *bench)
{
	static const u32 sizes[] = { 256 << 10, 1 << 20 };
	static struct run run;
	int err;

	run.memory = aligned_alloc(4096, IN_FLIGHT);
	err = run.memory ? make_place(&run.place) : -ENOMEM;
	if (err) {
		free(run.memory);
		return err;
	}
	memset(run.memory, 'k', IN_FLIGHT);
	for (u32 i = 0; !err && i < ARRAY_SIZE(sizes); i++) {
		run.bytes = sizes[i];
		run.nr = TOTAL_BYTES / sizes[i];
		run.group = IN_FLIGHT / NR_GROUPS / sizes[i];
		bench_set(bench, SET(metrics), "record_kib=%u", sizes[i] >> 10);
		err = bench_turns(bench, turn, &run);
	}
	remove_place(&run.place);
	free(run.memory);
	return err;
}
