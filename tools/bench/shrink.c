// SPDX-License-Identifier: Apache-2.0
/*
 * Giving memory back: a pool half full of scattered cached blocks of 64 KiB, of which a part is to go.
 *
 * Copies are held against the fewest that any choice of pageblocks takes, which is what lies in the
 * emptiest ones; time against that of all copies alone. On the software driver mapping is mmap(), so
 * a GPU's figures for that are others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u
#define UNIT_BYTES	(2ull << 20)
#define PER_UNIT	(UNIT_BYTES / BLOCK_BYTES)
#define BATCH		64u

struct figures {
	struct series *given, *moved, *bound, *plan, *copy, *unmap, *total, *map;
};

/* All of them cached, each full of its number; then half, chosen by chance, is evicted. */
static int fill(struct kvmm_pool *pool, u64 seed, u32 *ids, void *block)
{
	int err = 0;

	for (u32 i = 0; !err && i < NR_BLOCKS; i += BATCH) {
		kvmm_mut_t mut[BATCH];
		kvmm_ref_t ref[BATCH];
		kvmm_key_t key[BATCH] = { { { 0 } } };

		for (u32 k = 0; k < BATCH; k++) {
			u32 number = i + k;

			memcpy(key[k].byte, &number, sizeof(number));
		}
		err = kvmm_alloc(pool, BATCH, mut);
		if (!err)
			err = kvmm_register(pool, mut, key, BATCH, ref);
		for (u32 k = 0; !err && k < BATCH; k++) {
			memset(block, i + k, BLOCK_BYTES);
			err = kvmm_block_write(pool, kvmm_block_of_ref(pool, ref[k]), 0, block,
					       BLOCK_BYTES);
		}
		if (!err)
			err = kvmm_put_many(pool, ref, BATCH);
	}
	for (u32 i = 0; i < NR_BLOCKS; i++)
		ids[i] = i;
	for (u32 i = 0; i < NR_BLOCKS / 2; i++) {
		u32 k = i + random_below(&seed, NR_BLOCKS - i), id = ids[k];

		ids[k] = ids[i];
		ids[i] = id;
	}
	if (!err && kvmm_evict_blocks(pool, ids, NR_BLOCKS / 2) != (int)(NR_BLOCKS / 2))
		err = -EIO;
	return err;
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const u32 *)a - (int)*(const u32 *)b;
}

/* What is in the emptiest @nr pageblocks; the last half of @ids is what is held. */
static u32 lower_bound(const u32 *ids, u32 nr)
{
	u32 held[NR_BLOCKS / PER_UNIT] = { 0 }, sum = 0;

	for (u32 i = NR_BLOCKS / 2; i < NR_BLOCKS; i++)
		held[ids[i] / PER_UNIT]++;
	qsort(held, ARRAY_SIZE(held), sizeof(*held), by_number);
	for (u32 i = 0; i < nr; i++)
		sum += held[i];
	return sum;
}

static int give_back(struct kvmm_pool *pool, u32 percent, struct figures *f, const u32 *ids)
{
	const u64 all = (u64)NR_BLOCKS * BLOCK_BYTES;
	u32 nr_units = (NR_BLOCKS / PER_UNIT * percent + 99) / 100;
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = nr_units * UNIT_BYTES };
	struct kvmm_regain back = { .size = sizeof(back) };
	u64 begin = now_ns(), middle;
	double gib;
	int err = kvmm_pool_shrink(pool, &req);

	if (err)
		return err;
	middle = now_ns();
	err = kvmm_pool_grow(pool, &back);
	if (err)
		return err;
	gib = (double)req.given_bytes / (1 << 30);
	series_add(f->given, 100.0 * req.given_bytes / all);
	series_add(f->moved, (double)req.moved * BLOCK_BYTES / req.given_bytes);
	series_add(f->bound, (double)lower_bound(ids, nr_units) * BLOCK_BYTES / req.given_bytes);
	series_add(f->plan, req.plan_ns / 1e6 / gib);
	series_add(f->copy, req.copy_ns / 1e6 / gib);
	series_add(f->unmap, req.unmap_ns / 1e6 / gib);
	series_add(f->total, (middle - begin) / 1e6 / gib);
	series_add(f->map, (now_ns() - middle) / 1e6 / gib);
	return 0;
}

static int once(struct bench *bench, u32 percent, struct figures *f, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	u32 *ids = must_alloc(NR_BLOCKS * sizeof(*ids));
	void *block = must_alloc(BLOCK_BYTES);
	struct kvmm_pool *pool;
	int err;

	attr.device = bench->device;
	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = BLOCK_BYTES;
	attr.flags = KVMM_POOL_ELASTIC;
	attr.unit_bytes = UNIT_BYTES;
	attr.policy = "lru";
	err = kvmm_pool_create(&attr, &pool);
	if (!err) {
		err = fill(pool, seed, ids, block);
		if (!err)
			err = give_back(pool, percent, f, ids);
		kvmm_pool_destroy(pool);
	}
	free(block);
	free(ids);
	return err;
}

static void make_series(struct bench *bench, u32 percent, struct figures *f)
{
#define SHRINK_SERIES(metric, unit)						\
	bench_series(bench, metric, unit, "device=%s wanted=%u", bench->device, percent)
	f->given = SHRINK_SERIES("given_back", "%");
	f->moved = SHRINK_SERIES("copied", "bytes/byte");
	f->bound = SHRINK_SERIES("bound", "bytes/byte");
	f->plan = SHRINK_SERIES("plan", "ms/GiB");
	f->copy = SHRINK_SERIES("copy", "ms/GiB");
	f->unmap = SHRINK_SERIES("unmap", "ms/GiB");
	f->total = SHRINK_SERIES("shrink", "ms/GiB");
	f->map = SHRINK_SERIES("grow", "ms/GiB");
#undef SHRINK_SERIES
	series_against(f->moved, "bound", f->bound);
	series_against(f->total, "copy", f->copy);
}

static int run(struct bench *bench)
{
	static const u32 percents[] = { 10, 25, 45, 50 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(percents); i++) {
		struct figures f;

		make_series(bench, percents[i], &f);
		for (unsigned int n = 0; !err && n < bench->nr_runs; n++)
			err = once(bench, percents[i], &f, bench->seed + n);
		if (!err)
			bench_report(bench);
	}
	if (err == -ENODEV || err == -ENOENT || err == -EOPNOTSUPP) {
		bench_skip(bench, bench->device, "no such device here, or memory that stays");
		err = bench->device_is_chosen ? err : 0;
	}
	return err;
}

const struct bench_kind bench_shrink = {
	.name = "shrink",
	.what = "memory given back by a half full pool (--device), beside the fewest copies",
	.run = run,
};
