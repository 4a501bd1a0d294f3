// SPDX-License-Identifier: Apache-2.0
/*
 * Migration between pools of plain memory: bytes a second of whole jobs, against one memcpy() of as many
 * bytes between the same two buffers in the same run; and runs given to the device, a job.
 *
 * A job reads the source twice and the destination once more than the copy does: for the checksums of
 * both sides. Over a link, both ends are in this thread, and content goes through the window: one copy
 * more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u
#define RANGE_BLOCKS	1024u
#define SEQ		1u

struct two {
	unsigned char *memory[2];
	struct kvmm_pool *pool[2];
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
		attr.planes = &plane;
		attr.nr_planes = 1;
		attr.nr_blocks = NR_BLOCKS;
		err = kvmm_pool_create(&attr, &two->pool[i]);
		if (err)
			return err;
	}
	return 0;
}

static void close_two(struct two *two)
{
	for (u32 i = 0; i < 2; i++) {
		kvmm_pool_destroy(two->pool[i]);
		free(two->memory[i]);
	}
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

struct figures {
	struct series *gbps, *memcpy_gbps, *descriptors;
};

static double gbps(u64 ns)
{
	return (double)RANGE_BLOCKS * BLOCK_BYTES / ns;
}

static void copy_plainly(struct two *two, struct figures *f)
{
	u64 begin = now_ns();

	memcpy(two->memory[1], two->memory[0], (size_t)RANGE_BLOCKS * BLOCK_BYTES);
	series_add(f->memcpy_gbps, gbps(now_ns() - begin));
}

static int end_job(struct kvmm_migrate *job, struct figures *f, u64 begin)
{
	struct kvmm_migrate_status status;

	series_add(f->gbps, gbps(now_ns() - begin));
	kvmm_migrate_status(job, &status);
	series_add(f->descriptors, status.nr_descriptors);
	kvmm_migrate_free(job);
	return 0;
}

static int local_once(struct two *two, struct figures *f, u32 runs)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate *job;
	u64 begin;
	int err = take(two->pool[0], runs, &attr.range);

	if (err)
		return err;
	copy_plainly(two, f);
	attr.src = two->pool[0];
	attr.dst = two->pool[1];
	begin = now_ns();
	err = kvmm_migrate_start(&attr, &job);
	if (err)
		return err;
	while ((err = kvmm_migrate_poll(job)) == -EINPROGRESS)
		;
	return err ? err : end_job(job, f, begin);
}

/* Its giver and its taker take turns. */
static int linked_once(struct two *two, struct figures *f, const char *path)
{
	struct kvmm_migrate_serve_attr serve = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate_server *server;
	struct kvmm_migrate *job;
	u64 begin;
	int err = take(two->pool[0], 1, &attr.range);

	serve.pool = two->pool[1];
	serve.path = path;
	if (!err)
		err = kvmm_migrate_serve(&serve, &server);
	if (!err)
		err = kvmm_migrate_connect(two->pool[0], path, &attr.link);
	if (err)
		return err;
	copy_plainly(two, f);
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
		end_job(job, f, begin);
	kvmm_migrate_disconnect(attr.link);
	kvmm_migrate_serve_end(server);
	return err;
}

static struct figures make_figures(struct bench *bench, const char *how, u32 runs)
{
	struct figures f = {
		.memcpy_gbps = bench_series(bench, "memcpy", "GB/s", "how=%s runs=%u", how, runs),
		.gbps = bench_series(bench, "migrate", "GB/s", "how=%s runs=%u", how, runs),
		.descriptors = bench_series(bench, "descriptors", "copies", "how=%s runs=%u", how, runs),
	};

	series_against(f.gbps, "memcpy", f.memcpy_gbps);
	return f;
}

static int run_local(struct bench *bench, u32 runs)
{
	struct figures f = make_figures(bench, "local", runs);
	int err = 0;

	for (u32 i = 0; i < bench->nr_runs && !err; i++) {
		struct two two;

		err = open_two(&two);
		if (!err)
			err = local_once(&two, &f, runs);
		close_two(&two);
	}
	bench_report(bench);
	return err;
}

static int run_linked(struct bench *bench)
{
	struct figures f = make_figures(bench, "link", 1);
	char folder[] = "/tmp/kvmm-bench-XXXXXX", path[64];
	int err = mkdtemp(folder) ? 0 : -errno;

	snprintf(path, sizeof(path), "%s/s", folder);
	for (u32 i = 0; i < bench->nr_runs && !err; i++) {
		struct two two;

		err = open_two(&two);
		if (!err)
			err = linked_once(&two, &f, path);
		close_two(&two);
	}
	rmdir(folder);
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	int err = run_local(bench, 1);

	if (!err)
		err = run_local(bench, 64);
	return err ? err : run_linked(bench);
}

const struct bench_kind bench_migrate = {
	.name	= "migrate",
	.what	= "from pool to pool: bytes a second, descriptors a job",
	.run	= run,
};
