// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks of a pool on a device go down to host memory, and come back: bytes moved in both
 * directions in the time of both, everything included that a pool does for it. Beside it, by turns
 * in the same run, one memcpy() a block moves as many bytes between two buffers of the same sizes,
 * down and up. A run is the median of ROUNDS of either, since other users of the machine's memory
 * use it for longer than one of them takes.
 *
 * With checksums it may be faster than memcpy(): a copy that sums goes past the caches, as memcpy()
 * does with lengths far beyond a block's, and so need not read what it overwrites.
 */
#include "pools.h"

#define BATCH		256u
#define ROUNDS		15u

struct size {
	u32 block_bytes;
	u32 nr_blocks;
	u32 verify_every;
};

struct world {
	const struct size *size;
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_key_t *keys;
	kvmm_ref_t *refs;
	kvmm_mut_t *muts;
	unsigned char *buffer[2];
};

static int make_tier(struct bench *bench, const struct size *size, struct kvmm_tier **tier)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1,
				       .device = bench->device, .block_bytes = size->block_bytes,
				       .capacity_blocks = size->nr_blocks };
	int err = kvmm_tier_host_create(&attr, tier);

	while (!err && kvmm_tier_tick(*tier) == 1)
		;
	return err;
}

static int make_pool(struct bench *bench, const struct size *size, struct kvmm_tier *tier,
		     struct kvmm_pool **pool)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = bench->device,
				       .policy = "lru", .block_bytes = size->block_bytes,
				       .nr_blocks = size->nr_blocks, .host = tier,
				       .host_attr = &client };

	config.write = KVMM_TIER_EXPLICIT;
	config.step_blocks = 0;
	config.verify_every = size->verify_every;
	client.config = &config;
	client.flags = KVMM_TIER_COMPLETE;
	client.max_up = client.max_down = size->nr_blocks;
	client.batch_blocks = BATCH;
	return kvmm_pool_create(&attr, pool);
}

static struct kvmm_prefix prefix_of(const struct world *w)
{
	return (struct kvmm_prefix){ w->keys, w->size->nr_blocks, 0, NULL, { 0, 0, 0 } };
}

/* Memory that was never used is slower once. */
static int fill(struct world *w)
{
	struct kvmm_prefix prefix = prefix_of(w);
	u32 nr = w->size->nr_blocks;
	int err = kvmm_alloc(w->pool, nr, w->muts);

	for (u32 i = 0; i < nr && !err; i++) {
		memset(w->buffer[0] + (size_t)i * w->size->block_bytes, i, w->size->block_bytes);
		memset(w->buffer[1] + (size_t)i * w->size->block_bytes, i, w->size->block_bytes);
		memcpy(w->keys[i].byte, &i, sizeof(i));
		err = kvmm_block_write(w->pool, kvmm_block_of_mut(w->pool, w->muts[i]), 0,
				       w->buffer[0], w->size->block_bytes);
	}
	if (!err)
		err = kvmm_prefix_register(w->pool, &prefix, w->muts, w->refs);
	return err ? err : kvmm_put_many(w->pool, w->refs, nr);
}

static int to_the_end(struct world *w, kvmm_tier_op_t op, struct kvmm_tier_result *result)
{
	int err;

	do {
		err = kvmm_tier_poll(w->pool);
		if (err < 0)
			return err;
		err = kvmm_tier_get_result(w->pool, op, result);
	} while (err == -EAGAIN);
	return err;
}

static int go_down(struct world *w)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .refs = w->refs,
					       .nr = w->size->nr_blocks, .flags = KVMM_TIER_DROP };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = down.nr };
	kvmm_tier_op_t op;
	int err = kvmm_tier_offload(w->pool, &down, &op);

	return err ? err : to_the_end(w, op, &result);
}

static int go_up(struct world *w)
{
	struct kvmm_prefix prefix = prefix_of(w);
	struct kvmm_tier_load_args up = { .size = sizeof(up), .prefix = &prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = prefix.nr,
					   .refs = w->refs };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(w->pool, &up, &op);

	return err ? err : to_the_end(w, op, &result);
}

static double copy_ns(struct world *w)
{
	size_t bytes = w->size->block_bytes;
	u64 begin = now_ns();

	for (u32 i = 0; i < w->size->nr_blocks; i++)
		memcpy(w->buffer[1] + i * bytes, w->buffer[0] + i * bytes, bytes);
	for (u32 i = 0; i < w->size->nr_blocks; i++)
		memcpy(w->buffer[0] + i * bytes, w->buffer[1] + i * bytes, bytes);
	return now_ns() - begin;
}

/* Down and up, beside the same copies; below there is nothing any more. Bytes a nanosecond. */
static int round_trip(struct world *w, double *rate, double *plain)
{
	double bytes = 2.0 * w->size->nr_blocks * w->size->block_bytes;
	struct kvmm_prefix prefix = prefix_of(w);
	u64 begin;
	int err;

	*plain = bytes / copy_ns(w);
	begin = now_ns();
	err = go_down(w);
	if (!err)
		err = go_up(w);
	*rate = bytes / (now_ns() - begin);
	if (!err)
		err = kvmm_put_many(w->pool, w->refs, w->size->nr_blocks);
	if (!err && kvmm_tier_forget(w->pool, &prefix) != (int)w->size->nr_blocks)
		err = -EUCLEAN;
	return err;
}

static int measure(struct bench *bench, struct world *w)
{
	double rates[ROUNDS], plains[ROUNDS];
	int err = fill(w);

	/* Each to the other end once, so that all memory has been used; then the copies count. */
	if (!err)
		err = round_trip(w, &rates[0], &plains[0]);
	for (u32 i = 0; i < ROUNDS && !err; i++)
		err = round_trip(w, &rates[i], &plains[i]);
	if (err)
		return err;
	series_add(&bench->series[0], median_of(rates, ROUNDS));
	series_add(&bench->series[1], median_of(plains, ROUNDS));
	return 0;
}

static int turn(struct bench *bench, void *arg)
{
	struct world *w = arg;
	int err = make_tier(bench, w->size, &w->tier);

	if (err)
		return err;
	err = make_pool(bench, w->size, w->tier, &w->pool);
	if (!err) {
		err = measure(bench, w);
		kvmm_pool_destroy(w->pool);
	}
	kvmm_tier_destroy(w->tier);
	return err;
}

static int run_size(struct bench *bench, const struct size *size)
{
	static const struct metric metrics[] = {
		{ "down_up_rate", "GB/s", "memcpy", 1 }, { "memcpy_rate", "GB/s", ALONE },
	};
	struct world w = { .size = size };
	int err;

	w.keys = must_alloc(size->nr_blocks * sizeof(*w.keys));
	w.refs = must_alloc(size->nr_blocks * sizeof(*w.refs));
	w.muts = must_alloc(size->nr_blocks * sizeof(*w.muts));
	for (u32 i = 0; i < 2; i++)
		w.buffer[i] = must_alloc((size_t)size->block_bytes * size->nr_blocks);
	bench_set(bench, SET(metrics), "device=%s block_bytes=%u nr=%u verify=%u", bench->device,
		  size->block_bytes, size->nr_blocks, size->verify_every);
	err = bench_turns(bench, turn, &w);
	for (u32 i = 0; i < 2; i++)
		free(w.buffer[i]);
	free(w.muts);
	free(w.refs);
	free(w.keys);
	return err;
}

int bench_tier(struct bench *bench)
{
	static const struct size sizes[] = {
		{ 65536, 1024, 0 }, { 65536, 1024, 16 }, { 65536, 1024, 1 },
		{ 262144, 256, 0 }, { 262144, 256, 1 }, { 2097152, 32, 0 }, { 2097152, 32, 1 },
	};
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++)
		err = run_size(bench, &sizes[i]);
	return bench_device_result(bench, err, "no such device here");
}
