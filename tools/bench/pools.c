// SPDX-License-Identifier: Apache-2.0
/*
 * Zones, pools, keys; lengths: uniform, from a trace, or from a distribution that was fitted to it.
 */
#include <math.h>

#include "pools.h"

int open_zone(struct kvmm_zone **zone, u32 nr_blocks, const char *engine)
{
	struct kvmm_zone_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .engine = engine };

	*zone = NULL;
	return kvmm_zone_create(&attr, zone);
}

int open_pool(struct kvmm_pool **pool, u32 nr_blocks, const char *policy, u32 flags)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .flags = flags };

	*pool = NULL;
	return kvmm_pool_create(&attr, pool);
}

void random_keys(kvmm_key_t *keys, u32 nr, u64 *seed)
{
	for (u32 i = 0; i < nr; i++) {
		u64 word[2] = { rng_next(seed), rng_next(seed) };

		memcpy(&keys[i], word, sizeof(word));
	}
}

/* ---- lengths ---- */

#define NR_SIZES	65536u
#define TOKENS		16u

static void sizes_init(struct sizes *sizes, const char *name)
{
	sizes->name = name;
	sizes->nr = NR_SIZES;
	sizes->at = must_alloc(NR_SIZES * sizeof(*sizes->at));
}

static void set_mean(struct sizes *sizes)
{
	u64 sum = 0;

	for (u32 i = 0; i < sizes->nr; i++)
		sum += sizes->at[i];
	sizes->mean = (double)sum / sizes->nr;
}

void sizes_exit(struct sizes *sizes)
{
	free(sizes->at);
	sizes->at = NULL;
}

void sizes_uniform(struct sizes *sizes, u32 max, u64 seed)
{
	sizes_init(sizes, "uniform");
	for (u32 i = 0; i < sizes->nr; i++)
		sizes->at[i] = 1 + rng_below(&seed, max);
	set_mean(sizes);
}

/* Mean and standard deviation of ln(blocks) over the 19,366 requests of the trace. */
#define LOG_MEAN	4.147
#define LOG_DEVIATION	0.806

static void draw_requests(struct sizes *sizes, u64 seed)
{
	for (u32 i = 0; i < sizes->nr; i++) {
		double blocks = ceil(exp(LOG_MEAN + LOG_DEVIATION * rng_normal(&seed)));

		sizes->at[i] = blocks > SIZES_MAX ? SIZES_MAX : blocks;
	}
}

static FILE *open_trace(void)
{
	const char *dir = getenv("KVMM_TRACES");
	char path[4096];

	snprintf(path, sizeof(path), "%s/AzureLLMInferenceTrace_conv.csv",
		 dir ? dir : "../shared/traces");
	return fopen(path, "r");
}

/* Blocks of each request in file order; how many. */
static u32 read_trace(FILE *file, u16 *blocks, u32 max)
{
	unsigned int input, output;
	char line[256];
	u32 nr = 0;

	while (nr < max && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*[^,],%u,%u", &input, &output) != 2 || input > 1u << 20 ||
		    output > 1u << 20 || input + output == 0)
			continue;
		input = (input + output + TOKENS - 1) / TOKENS;
		blocks[nr++] = input > SIZES_MAX ? SIZES_MAX : input;
	}
	return nr;
}

void sizes_requests(struct sizes *sizes, u64 seed)
{
	static u16 blocks[NR_SIZES];
	FILE *file = open_trace();
	u32 nr = file ? read_trace(file, blocks, NR_SIZES) : 0;

	if (file)
		fclose(file);
	sizes_init(sizes, nr ? "azure-conv" : "log-normal");
	if (nr) {
		for (u32 i = 0; i < sizes->nr; i++)
			sizes->at[i] = blocks[rng_below(&seed, nr)];
	} else {
		draw_requests(sizes, seed);
	}
	set_mean(sizes);
}

/* ---- in pieces ---- */

#define FLAGS	(KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT)

/* Until not even one block is left. */
static int fill(struct scattered *s, u32 max_nr, u64 *seed)
{
	int err;

	do {
		err = kvmm_range_alloc(s->pool, 1 + rng_below(seed, max_nr), FLAGS,
				       &s->ranges[s->nr_ranges]);
		if (err == -ENOSPC)
			err = kvmm_range_alloc(s->pool, 1, FLAGS, &s->ranges[s->nr_ranges]);
		s->nr_ranges += !err;
	} while (!err);
	return err == -ENOSPC ? 0 : err;
}

int scatter_open(struct scattered *s, const struct kvmm_pool_attr *attr, u32 max_nr, u64 seed)
{
	u32 kept;
	int err = kvmm_pool_create(attr, &s->pool);

	s->nr_ranges = 0;
	s->ranges = NULL;
	if (err)
		return err;
	s->ranges = must_alloc((attr->nr_blocks + 1) * sizeof(*s->ranges));
	err = fill(s, max_nr, &seed);
	shuffle(s->ranges, s->nr_ranges, sizeof(*s->ranges), &seed);
	kept = s->nr_ranges / 2;
	while (!err && s->nr_ranges > kept)
		err = kvmm_range_free(s->pool, s->ranges[--s->nr_ranges]);
	if (err)
		scatter_close(s);
	return err;
}

void scatter_close(struct scattered *s)
{
	kvmm_pool_destroy(s->pool);
	free(s->ranges);
}
