// SPDX-License-Identifier: Apache-2.0
/*
 * Migration between pools of plain memory: bytes a second of whole jobs, against one memcpy() of as
 * many bytes between the same two buffers in the same run; and runs given to the device, a job.
 *
 * A job reads the source twice and the destination once more than the copy does: for the checksums
 * of both sides.
 */
#include "pools.h"

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u
#define RANGE_BLOCKS	1024u
#define SEQ		1u

struct two {
	unsigned char *memory[2];
	struct kvmm_pool *pool[2];
	u32 runs;		/* that the range is in */
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

static int migrate_once(struct two *two, struct series *series)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate_status status;
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
	if (err)
		return err;
	series_add(&series[MIGRATE], gbps(now_ns() - begin));
	kvmm_migrate_get_status(job, &status);
	series_add(&series[DESCRIPTORS], status.nr_descriptors);
	kvmm_migrate_free(job);
	return 0;
}

static int turn(struct bench *bench, void *arg)
{
	struct two *two = arg;
	int err = open_two(two);

	if (!err)
		err = migrate_once(two, bench->series);
	for (u32 i = 0; i < 2; i++) {
		kvmm_pool_destroy(two->pool[i]);
		free(two->memory[i]);
	}
	return err;
}

int bench_migrate(struct bench *bench)
{
	static const u32 runs[] = { 1, 64 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(runs); i++) {
		struct two two = { .runs = runs[i] };

		bench_set(bench, SET(metrics), "how=local runs=%u", runs[i]);
		err = bench_turns(bench, turn, &two);
	}
	return err;
}
