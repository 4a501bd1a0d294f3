// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier, from front to end: records put and got again, with a few MiB under way at a time,
 * against a plain file of the same size on the same file system in the same run. Writes end in a flush.
 *
 * In the folder that KVMM_BENCH_DIR names, else TMPDIR, else /var/tmp; half a GiB is needed there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvmm/kvmm.h>

#include "disk_raw.h"
#include "harness.h"

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

	dir = dir ? dir : getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	snprintf(place->root, sizeof(place->root), "%s/kvmm-bench-XXXXXX", dir);
	if (!mkdtemp(place->root))
		return -errno;
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
	static struct kvmm_disk_put puts[MAX_GROUP];
	static struct kvmm_disk_get gets[MAX_GROUP];
	int err;

	for (u32 i = 0; i < run->group; i++) {
		char *data = memory_of(run, group, i);

		puts[i] = (struct kvmm_disk_put){ .name = name_of(first + i), .data = data,
						  .bytes = run->bytes };
		gets[i] = (struct kvmm_disk_get){ name_of(first + i), data, run->bytes };
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

static int open_store(struct run *run, const struct place *place, bool reset)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;

	attr.path = place->store;
	attr.max_bytes = MAX_BYTES;
	attr.segment_bytes = SEGMENT_BYTES;
	attr.flags |= reset ? KVMM_DISK_RESET : 0;
	return kvmm_disk_open(&attr, &run->disk);
}

struct figures {
	struct series *put, *get, *raw_write, *raw_read;
};

static int measure_raw(struct bench *bench, const struct place *place, bool direct, char *memory,
		       const struct figures *figures)
{
	struct raw raw = { .path = place->raw, .bytes = TOTAL_BYTES, .chunk = 1 << 20, .depth = 8,
			   .direct = direct, .memory = memory };
	int64_t ns = raw_open(&raw);

	for (u32 write = 1; ns >= 0 && write < 2; write--) {
		ns = raw_run(&raw, write);
		if (ns > 0)
			series_add(write ? figures->raw_write : figures->raw_read,
				   TOTAL_BYTES / MIB / (ns / 1e9));
	}
	raw_close(&raw);
	return ns < 0 ? ns : 0;
}

static int measure_store(struct run *run, const struct figures *figures)
{
	double total = (double)run->nr * run->bytes / MIB;

	series_add(figures->put, total / go_through(run, true));
	if (!run->err)
		series_add(figures->get, total / go_through(run, false));
	return run->err;
}

static int measure(struct bench *bench, const struct place *place, struct run *run,
		   const struct figures *figures)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };
	int err = open_store(run, place, true);

	if (err)
		return err;
	kvmm_disk_stat(run->disk, &stat);
	err = measure_store(run, figures);
	kvmm_disk_close(run->disk);
	unlink(place->file);
	return err ? err : measure_raw(bench, place, stat.is_direct, run->memory, figures);
}

static int run_size(struct bench *bench, const struct place *place, char *memory, u32 bytes)
{
	struct run run = { .memory = memory, .bytes = bytes, .nr = TOTAL_BYTES / bytes,
			   .group = IN_FLIGHT / NR_GROUPS / bytes };
	struct figures figures = {
		bench_series(bench, "put", "MiB/s", "record_kib=%u", bytes >> 10),
		bench_series(bench, "get", "MiB/s", "record_kib=%u", bytes >> 10),
		bench_series(bench, "raw_write", "MiB/s", "record_kib=%u", bytes >> 10),
		bench_series(bench, "raw_read", "MiB/s", "record_kib=%u", bytes >> 10),
	};
	int err = 0;

	for (u32 i = 0; !err && i < bench->nr_runs; i++)
		err = measure(bench, place, &run, &figures);
	series_against(figures.put, "raw_write", figures.raw_write);
	series_against(figures.get, "raw_read", figures.raw_read);
	if (!err)
		bench_report(bench);
	return err;
}

static int run_all(struct bench *bench)
{
	static const u32 sizes[] = { 256 << 10, 1 << 20 };
	char *memory = aligned_alloc(4096, IN_FLIGHT);
	struct place place;
	int err = memory ? make_place(&place) : -ENOMEM;

	if (err) {
		free(memory);
		return err;
	}
	memset(memory, 'k', IN_FLIGHT);
	for (u32 i = 0; !err && i < ARRAY_SIZE(sizes); i++)
		err = run_size(bench, &place, memory, sizes[i]);
	remove_place(&place);
	free(memory);
	return err;
}

const struct bench_kind bench_disk = {
	.name = "disk",
	.what = "disk tier: records put and got, against a plain file, MiB/s",
	.run = run_all,
};
