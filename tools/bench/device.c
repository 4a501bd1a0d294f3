// SPDX-License-Identifier: Apache-2.0
/*
 * Pools on a device. Blocks of several sizes are scattered, compacted, and read back: what has
 * moved must hold what was written before. Beside it, in the same run and by the same calls, one
 * long run of blocks moves, which is the best that the device can do for a pool.
 */
#include "pools.h"

struct size {
	u32 block_bytes;
	u32 nr_blocks;
};

enum { MOVE_RATE, RUN_RATE, COMPACT_US, PLAN_US };

static const struct metric metrics[] = {
	[MOVE_RATE]	= { "move_rate", "GB/s", "run", RUN_RATE },
	[RUN_RATE]	= { "run_rate", "GB/s", ALONE },
	[COMPACT_US]	= { "compact_us", "us", ALONE },
	[PLAN_US]	= { "plan_us", "us", "compact", COMPACT_US },
};

static u64 word_of(u32 number, u32 i)
{
	u64 state = (u64)number << 32 | i;

	return rng_next(&state);
}

/* Memory that was never used is slower once, on every kind of device. */
static int write_all(struct kvmm_pool *pool, const struct size *size, const u64 *block)
{
	int err = 0;

	for (u32 i = 0; !err && i < size->nr_blocks; i++)
		err = kvmm_block_write(pool, i, 0, block, size->block_bytes);
	return err;
}

/* Each range of one block is full of its number: written, or read again. */
static int go_through(struct scattered *s, u64 *block, u32 bytes, bool verify)
{
	int err = 0;

	for (u32 i = 0; !err && i < s->nr_ranges; i++) {
		struct kvmm_extent ext = { 0, 0 };
		int nr = kvmm_range_extents(s->pool, s->ranges[i], &ext, 1);

		err = nr < 0 ? nr : 0;
		if (!err && verify)
			err = kvmm_block_read(s->pool, ext.start, 0, block, bytes);
		for (u32 w = 0; !err && w < bytes / sizeof(u64); w++) {
			if (verify && block[w] != word_of(i, w)) {
				fprintf(stderr, "kvmm-bench: device: block %u holds wrong bytes\n",
					ext.start);
				err = -EUCLEAN;
			}
			block[w] = word_of(i, w);
		}
		if (!err && !verify)
			err = kvmm_block_write(s->pool, ext.start, 0, block, bytes);
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
		err = go_through(&s, block, size->block_bytes, false);
	if (!err)
		err = kvmm_pool_compact(s.pool, &compact);
	if (!err)
		err = go_through(&s, block, size->block_bytes, true);
	scatter_close(&s);
	if (err || !compact.moved)
		return err;
	series_add(&bench->series[PLAN_US], compact.plan_ns / 1e3);
	series_add(&bench->series[COMPACT_US], (compact.plan_ns + compact.copy_ns) / 1e3);
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

static int turn(struct bench *bench, void *arg)
{
	const struct size *size = arg;
	u64 *block = must_alloc(size->block_bytes);
	int err = move_scattered(bench, size, block);

	err = err ? err : move_one_run(bench, size, block);
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

/* ---- shrink: a part of a pool, half of whose blocks are in use here and there, is given back ---- */

#define UNIT_BYTES	(2ull << 20)

/* Milliseconds for each GiB; of copying alone, too, which is what the rest is held against. */
enum { GIVEN, COPIED, PLAN, COPY, UNMAP, SHRINK, GROW };

static const struct metric shrink_metrics[] = {
	[GIVEN] = { "given_back", "%", ALONE }, [COPIED] = { "copied", "bytes/byte", ALONE },
	[PLAN] = { "plan", "ms/GiB", ALONE }, [COPY] = { "copy", "ms/GiB", ALONE },
	[UNMAP] = { "unmap", "ms/GiB", ALONE }, [SHRINK] = { "shrink", "ms/GiB", "copy", COPY },
	[GROW] = { "grow", "ms/GiB", ALONE },
};

static const struct size shrinking = { 65536, 2048 };

static int give_back(struct kvmm_pool *pool, u32 percent, struct series *series)
{
	const double all = (double)shrinking.nr_blocks * shrinking.block_bytes;
	u64 units = (u64)(all * percent / 100 + UNIT_BYTES - 1) / UNIT_BYTES;
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = units * UNIT_BYTES };
	struct kvmm_regain back = { .size = sizeof(back) };
	u64 begin = now_ns(), middle;
	int err = kvmm_pool_shrink(pool, &req);
	double gib = (double)req.given_bytes / (1 << 30);

	if (err)
		return err;
	middle = now_ns();
	err = kvmm_pool_grow(pool, &back);
	series_add_all(series, (double[]){
		[GIVEN] = 100 * req.given_bytes / all,
		[COPIED] = (double)req.moved * shrinking.block_bytes / req.given_bytes,
		[PLAN] = req.plan_ns / 1e6 / gib, [COPY] = req.copy_ns / 1e6 / gib,
		[UNMAP] = req.unmap_ns / 1e6 / gib, [SHRINK] = (middle - begin) / 1e6 / gib,
		[GROW] = (now_ns() - middle) / 1e6 / gib,
	}, ARRAY_SIZE(shrink_metrics));
	return err;
}

static int shrink_turn(struct bench *bench, void *percent)
{
	struct kvmm_pool_attr attr = attr_of(bench, &shrinking);
	u64 *block = must_alloc(shrinking.block_bytes);
	struct scattered s;
	int err;

	attr.flags = KVMM_POOL_ELASTIC;
	attr.unit_bytes = UNIT_BYTES;
	err = scatter_open(&s, &attr, 1, bench->seed + bench->run);
	if (!err) {
		err = write_all(s.pool, &shrinking, block);
		err = err ? err : give_back(s.pool, *(u32 *)percent, bench->series);
		scatter_close(&s);
	}
	free(block);
	return err;
}

int bench_shrink(struct bench *bench)
{
	u32 percents[] = { 10, 25, 45 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(percents); i++) {
		bench_set(bench, SET(shrink_metrics), "device=%s wanted=%u", bench->device,
			  percents[i]);
		err = bench_turns(bench, shrink_turn, &percents[i]);
	}
	return bench_device_result(bench, err, "no such device here, or memory that stays");
}
