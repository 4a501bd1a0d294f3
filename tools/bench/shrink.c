// SPDX-License-Identifier: Apache-2.0
/*
 * Giving memory back: a pool half full of scattered cached blocks of 64 KiB, of which a part is to
 * go.
 *
 * Copies are held against the fewest that any choice of pageblocks takes, which is what lies in the
 * emptiest ones; time against that of all copies alone. On the software driver mapping is mmap(),
 * so a GPU's figures for that are others.
 */
#include "pools.h"

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u
#define UNIT_BYTES	(2ull << 20)
#define PER_UNIT	(UNIT_BYTES / BLOCK_BYTES)
#define BATCH		64u

static const struct metric metrics[] = {
	{ "given_back", "%", ALONE }, { "copied", "bytes/byte", "bound", 2 },
	{ "bound", "bytes/byte", ALONE },
	{ "plan", "ms/GiB", ALONE }, { "copy", "ms/GiB", ALONE }, { "unmap", "ms/GiB", ALONE },
	{ "shrink", "ms/GiB", "copy", 4 }, { "grow", "ms/GiB", ALONE },
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
		u32 k = i + rng_below(&seed, NR_BLOCKS - i), id = ids[k];

		ids[k] = ids[i];
		ids[i] = id;
	}
	if (!err && kvmm_evict_blocks(pool, ids, NR_BLOCKS / 2) != (int)(NR_BLOCKS / 2))
		err = -EIO;
	return err;
}

/* What is in the emptiest @nr pageblocks; the last half of @ids is what is held. */
static u32 lower_bound(const u32 *ids, u32 nr)
{
	u32 held[NR_BLOCKS / PER_UNIT] = { 0 }, sum = 0;

	for (u32 i = NR_BLOCKS / 2; i < NR_BLOCKS; i++)
		held[ids[i] / PER_UNIT]++;
	qsort(held, ARRAY_SIZE(held), sizeof(*held), compare_u32);
	for (u32 i = 0; i < nr; i++)
		sum += held[i];
	return sum;
}

static int give_back(struct kvmm_pool *pool, u32 percent, struct series *series, const u32 *ids)
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
	series_add_all(series, (double[]){
		100.0 * req.given_bytes / all,
		(double)req.moved * BLOCK_BYTES / req.given_bytes,
		(double)lower_bound(ids, nr_units) * BLOCK_BYTES / req.given_bytes,
		req.plan_ns / 1e6 / gib, req.copy_ns / 1e6 / gib, req.unmap_ns / 1e6 / gib,
		(middle - begin) / 1e6 / gib, (now_ns() - middle) / 1e6 / gib,
	}, ARRAY_SIZE(metrics));
	return 0;
}

static int turn(struct bench *bench, void *arg)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = bench->device,
				       .nr_blocks = NR_BLOCKS, .block_bytes = BLOCK_BYTES,
				       .flags = KVMM_POOL_ELASTIC, .unit_bytes = UNIT_BYTES,
				       .policy = "lru" };
	u32 *percent = arg, *ids = must_alloc(NR_BLOCKS * sizeof(*ids));
	void *block = must_alloc(BLOCK_BYTES);
	struct kvmm_pool *pool;
	int err = kvmm_pool_create(&attr, &pool);

	if (!err) {
		err = fill(pool, bench->seed + bench->run, ids, block);
		if (!err)
			err = give_back(pool, *percent, bench->series, ids);
		kvmm_pool_destroy(pool);
	}
	free(block);
	free(ids);
	return err;
}

int bench_shrink(struct bench *bench)
{
	u32 percents[] = { 10, 25, 45, 50 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(percents); i++) {
		bench_set(bench, SET(metrics), "device=%s wanted=%u", bench->device, percents[i]);
		err = bench_turns(bench, turn, &percents[i]);
	}
	return bench_device_result(bench, err, "no such device here, or memory that stays");
}
