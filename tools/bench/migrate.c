// SPDX-License-Identifier: Apache-2.0
/*
 * Migration between pools of plain memory: bytes a second of whole jobs, against one memcpy() of as
 * many bytes between the same two buffers in the same run; and runs given to the device, a job.
 *
 * A job reads the source twice and the destination once more than the copy does: for the checksums
 * of both sides. Over a link, both ends are in this thread, and content goes through the window:
 * one copy more.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "pools.h"

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u
#define RANGE_BLOCKS	1024u
#define SEQ		1u

struct two {
	unsigned char *memory[2];
	struct kvmm_pool *pool[2];
	u32 runs;		/* that the range is in */
	const char *path;	/* of the link; NULL: within the process */
};

enum { MEMCPY, MIGRATE, DESCRIPTORS };

static const struct metric metrics[] = {
	[MEMCPY] = { "memcpy", "GB/s", ALONE }, [MIGRATE] = { "migrate", "GB/s", "memcpy", MEMCPY },
	[DESCRIPTORS] = { "descriptors", "copies", ALONE },
};

static int open_two(struct two *two)
{
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
		struct kvmm_plane plane = { 0, BLOCK_BYTES, BLOCK_BYTES };
		int err;

		two->memory[i] = must_alloc((size_t)NR_BLOCKS * BLOCK_BYTES);
		memset(two->memory[i], 1 + i, (size_t)NR_BLOCKS * BLOCK_BYTES);
		plane.base = (uintptr_t)two->memory[i];
		attr.policy = NULL;
		attr.planes = &plane;
		attr.nr_planes = 1;
		attr.nr_blocks = NR_BLOCKS;
		err = kvmm_pool_create(&attr, &two->pool[i]);
		if (err)
			return err;
	}
	return 0;
}

/* Every second block at worst: @runs of them. */
static int take(struct kvmm_pool *pool, u32 runs, kvmm_range_t *range)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = RANGE_BLOCKS / runs, .seq = SEQ,
					.max_runs = 1 };
	int err = kvmm_range_alloc_attr(pool, &attr, range);
	kvmm_range_t gap;

	for (u32 i = 1; i < runs && !err; i++) {
		err = kvmm_range_alloc(pool, 1, KVMM_RUNS(1), &gap);
		if (!err)
			err = kvmm_range_grow(pool, *range, RANGE_BLOCKS / runs);
	}
	return err;
}

static double gbps(u64 ns)
{
	return (double)RANGE_BLOCKS * BLOCK_BYTES / ns;
}

static void copy_plainly(struct two *two, struct series *series)
{
	u64 begin = now_ns();

	memcpy(two->memory[1], two->memory[0], (size_t)RANGE_BLOCKS * BLOCK_BYTES);
	series_add(&series[MEMCPY], gbps(now_ns() - begin));
}

static int end_job(struct kvmm_migrate *job, struct series *series, u64 begin)
{
	struct kvmm_migrate_status status;

	series_add(&series[MIGRATE], gbps(now_ns() - begin));
	kvmm_migrate_get_status(job, &status);
	series_add(&series[DESCRIPTORS], status.nr_descriptors);
	kvmm_migrate_free(job);
	return 0;
}

static int local_once(struct two *two, struct series *series)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate *job;
	u64 begin;
	int err = take(two->pool[0], two->runs, &attr.range);

	if (err)
		return err;
	copy_plainly(two, series);
	attr.src = two->pool[0];
	attr.dst = two->pool[1];
	begin = now_ns();
	err = kvmm_migrate_start(&attr, &job);
	if (err)
		return err;
	while ((err = kvmm_migrate_poll(job)) == -EINPROGRESS)
		;
	return err ? err : end_job(job, series, begin);
}

/* Its giver and its taker take turns. */
static int linked_once(struct two *two, struct series *series)
{
	struct kvmm_migrate_serve_attr serve = { .size = sizeof(serve), .pool = two->pool[1],
						 .path = two->path };
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate_server *server;
	struct kvmm_migrate *job;
	u64 begin;
	int err = take(two->pool[0], 1, &attr.range);

	if (!err)
		err = kvmm_migrate_serve(&serve, &server);
	if (!err)
		err = kvmm_migrate_connect(two->pool[0], two->path, &attr.link);
	if (err)
		return err;
	copy_plainly(two, series);
	attr.src = two->pool[0];
	begin = now_ns();
	err = kvmm_migrate_start(&attr, &job);
	while (!err && (err = kvmm_migrate_poll(job)) == -EINPROGRESS) {
		kvmm_migrate_serve_tick(server);
		err = 0;
		if (kvmm_migrate_poll(job) == 0)
			break;
	}
	if (!err)
		end_job(job, series, begin);
	kvmm_migrate_disconnect(attr.link);
	kvmm_migrate_serve_end(server);
	return err;
}

static int turn(struct bench *bench, void *arg)
{
	struct two *two = arg;
	int err = open_two(two);

	if (!err)
		err = two->path ? linked_once(two, bench->series) : local_once(two, bench->series);
	for (u32 i = 0; i < 2; i++) {
		kvmm_pool_destroy(two->pool[i]);
		free(two->memory[i]);
	}
	return err;
}

int bench_migrate(struct bench *bench)
{
	static const u32 runs[] = { 1, 64, 1 };
	char folder[32], path[64];
	int err = make_folder(folder, sizeof(folder), "/tmp");

	snprintf(path, sizeof(path), "%s/s", folder);
	for (size_t i = 0; !err && i < ARRAY_SIZE(runs); i++) {
		struct two two = { .runs = runs[i], .path = i < 2 ? NULL : path };

		bench_set(bench, SET(metrics), "how=%s runs=%u", i < 2 ? "local" : "link", runs[i]);
		err = bench_turns(bench, turn, &two);
	}
	rmdir(folder);
	return err;
}
