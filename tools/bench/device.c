// SPDX-License-Identifier: Apache-2.0
/*
 * Pools on a device. Blocks of several sizes are scattered, compacted, and read back: what has
 * moved must hold what was written before. Beside it, in the same run and by the same calls, one
 * long run of blocks moves, which is the best that the device can do for a pool.
 *
 * Also what a call costs that has to wait for the device: a block written, a block read.
 */
#include "pools.h"

#define CALLS		64u

struct size {
	u32 block_bytes;
	u32 nr_blocks;
};

enum { MOVE_RATE, RUN_RATE, COMPACT_US, PLAN_US, MOVE_US, WRITE_US, READ_US };

static const struct metric metrics[] = {
	[MOVE_RATE]	= { "move_rate", "GB/s", "run", RUN_RATE },
	[RUN_RATE]	= { "run_rate", "GB/s", ALONE },
	[COMPACT_US]	= { "compact_us", "us", ALONE },
	[PLAN_US]	= { "plan_us", "us", "compact", COMPACT_US },
	[MOVE_US]	= { "move_us_each", "us", ALONE },
	[WRITE_US]	= { "write_us", "us", ALONE },
	[READ_US]	= { "read_us", "us", ALONE },
};

static u64 word_of(u32 number, u32 i)
{
	u64 state = (u64)number << 32 | i;

	return rng_next(&state);
}

static void fill_block(u64 *block, u32 bytes, u32 number)
{
	for (u32 i = 0; i < bytes / sizeof(u64); i++)
		block[i] = word_of(number, i);
}

static bool is_block(const u64 *block, u32 bytes, u32 number)
{
	for (u32 i = 0; i < bytes / sizeof(u64); i++)
		if (block[i] != word_of(number, i))
			return false;
	return true;
}

/* The block of a range of one block. */
static int block_of(struct kvmm_pool *pool, kvmm_range_t range, u32 *block)
{
	struct kvmm_extent ext;
	int nr = kvmm_range_extents(pool, range, &ext, 1);

	if (nr < 0)
		return nr;
	*block = ext.start;
	return 0;
}

static int write_ranges(struct scattered *s, u64 *block, u32 bytes)
{
	int err = 0;

	for (u32 i = 0; !err && i < s->nr_ranges; i++) {
		u32 at = 0;

		err = block_of(s->pool, s->ranges[i], &at);
		fill_block(block, bytes, i);
		if (!err)
			err = kvmm_block_write(s->pool, at, 0, block, bytes);
	}
	return err;
}

/* Memory that was never used is slower once, on every kind of device. */
static int write_all(struct kvmm_pool *pool, const struct size *size, const u64 *block)
{
	int err = 0;

	for (u32 i = 0; !err && i < size->nr_blocks; i++)
		err = kvmm_block_write(pool, i, 0, block, size->block_bytes);
	return err;
}

static int verify_ranges(struct scattered *s, u64 *block, u32 bytes)
{
	int err = 0;

	for (u32 i = 0; !err && i < s->nr_ranges; i++) {
		u32 at = 0;

		err = block_of(s->pool, s->ranges[i], &at);
		if (!err)
			err = kvmm_block_read(s->pool, at, 0, block, bytes);
		if (!err && !is_block(block, bytes, i)) {
			fprintf(stderr, "kvmm-bench: device: block %u holds wrong bytes\n", at);
			err = -EUCLEAN;
		}
	}
	return err;
}

static struct kvmm_pool_attr attr_of(const struct bench *bench, const struct size *size)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = bench->device,
				       .compactor = "slide", .block_bytes = size->block_bytes,
				       .nr_blocks = size->nr_blocks };

	return attr;
}

/* Single blocks without system, packed. */
static int move_scattered(struct bench *bench, const struct size *size, u64 *block)
{
	struct kvmm_compact compact = { .size = sizeof(compact) };
	struct kvmm_pool_attr attr = attr_of(bench, size);
	struct scattered s;
	int err = scatter_open(&s, &attr, 1, bench->seed + bench->run);

	if (err)
		return err;
	err = write_all(s.pool, size, block);
	if (!err)
		err = write_ranges(&s, block, size->block_bytes);
	if (!err)
		err = kvmm_pool_compact(s.pool, &compact);
	if (!err)
		err = verify_ranges(&s, block, size->block_bytes);
	scatter_close(&s);
	if (err || !compact.moved)
		return err;
	series_add(&bench->series[PLAN_US], compact.plan_ns / 1e3);
	series_add(&bench->series[COMPACT_US], (compact.plan_ns + compact.copy_ns) / 1e3);
	series_add(&bench->series[MOVE_US], compact.copy_ns / 1e3 / compact.nr_moves);
	series_add(&bench->series[MOVE_RATE],
		   (double)compact.moved * size->block_bytes / compact.copy_ns);
	return 0;
}

/* The upper half of a pool goes to the lower one, all in one piece. */
static int move_one_run(struct bench *bench, const struct size *size, const u64 *block)
{
	struct kvmm_compact compact = { .size = sizeof(compact) };
	struct kvmm_pool_attr attr = attr_of(bench, size);
	u32 flags = KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT;
	kvmm_range_t low, high;
	struct kvmm_pool *pool;
	int err = kvmm_pool_create(&attr, &pool);

	if (err)
		return err;
	err = kvmm_range_alloc(pool, size->nr_blocks / 2, flags, &low);
	if (!err)
		err = kvmm_range_alloc(pool, size->nr_blocks / 2, flags, &high);
	if (!err)
		err = kvmm_range_free(pool, low);
	if (!err)
		err = write_all(pool, size, block);
	if (!err)
		err = kvmm_pool_compact(pool, &compact);
	kvmm_pool_destroy(pool);
	if (!err && compact.moved)
		series_add(&bench->series[RUN_RATE],
			   (double)compact.moved * size->block_bytes / compact.copy_ns);
	return err;
}

static int time_calls(struct bench *bench, const struct size *size, u64 *block)
{
	struct kvmm_pool_attr attr = attr_of(bench, size);
	struct kvmm_pool *pool;
	int err = kvmm_pool_create(&attr, &pool);
	u64 begin, middle;

	if (err)
		return err;
	err = write_all(pool, size, block);
	begin = now_ns();
	for (u32 i = 0; !err && i < CALLS; i++)
		err = kvmm_block_write(pool, i % size->nr_blocks, 0, block, size->block_bytes);
	middle = now_ns();
	for (u32 i = 0; !err && i < CALLS; i++)
		err = kvmm_block_read(pool, i % size->nr_blocks, 0, block, size->block_bytes);
	if (!err) {
		series_add(&bench->series[WRITE_US], (middle - begin) / 1e3 / CALLS);
		series_add(&bench->series[READ_US], (now_ns() - middle) / 1e3 / CALLS);
	}
	kvmm_pool_destroy(pool);
	return err;
}

static int turn(struct bench *bench, void *arg)
{
	const struct size *size = arg;
	u64 *block = must_alloc(size->block_bytes);
	int err = move_scattered(bench, size, block);

	err = err ? err : move_one_run(bench, size, block);
	err = err ? err : time_calls(bench, size, block);
	free(block);
	return err;
}

/* What a GPU moves in less time than a call takes would say nothing about its memory. */
static bool wants_large(const struct bench *bench)
{
	return !strncmp(bench->device, "cuda", 4) && bench->nr_runs == BENCH_MAX_RUNS;
}

int bench_device(struct bench *bench)
{
	static struct size sizes[] = {
		{ 4096, 2048 }, { 16384, 2048 }, { 65536, 2048 }, { 262144, 512 }, { 2097152, 64 },
		{ 65536, 256 }, { 65536, 64 },
		/* the large ones */
		{ 16384, 32768 }, { 65536, 16384 }, { 2097152, 1024 },
	};
	size_t nr = wants_large(bench) ? ARRAY_SIZE(sizes) : ARRAY_SIZE(sizes) - 3;
	int err = 0;

	for (size_t i = 0; !err && i < nr; i++) {
		bench_set(bench, SET(metrics), "device=%s block_bytes=%u nr=%u", bench->device,
			  sizes[i].block_bytes, sizes[i].nr_blocks);
		err = bench_turns(bench, turn, &sizes[i]);
	}
	return bench_device_result(bench, err, "no such device here");
}
