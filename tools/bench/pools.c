// SPDX-License-Identifier: Apache-2.0
/*
 * Zones, pools, keys; lengths: uniform, from a trace, or from a distribution that was fitted to it.
 */
#include <math.h>
#include <sys/mman.h>

#include "../replay/trace.h"
#include "pools.h"

int open_zone(struct kv_zone **zone, u32 nr_blocks, const char *engine)
{
	struct kv_zone_attr attr = { .nr_blocks = nr_blocks,
				       .engine = engine };

	*zone = NULL;
	return kv_zone_create(&attr, zone);
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

#define PROMPT	64u

int name_blocks(struct kvmm_pool *pool, u32 nr, u64 *seed)
{
	kvmm_key_t keys[PROMPT];
	kvmm_mut_t muts[PROMPT];
	kvmm_ref_t refs[PROMPT];
	int err = 0;

	for (u32 i = 0; !err && i < nr; i += PROMPT) {
		random_keys(keys, PROMPT, seed);
		err = kvmm_alloc(pool, PROMPT, muts);
		err = err ? err : kvmm_register(pool, muts, keys, PROMPT, refs);
		err = err ? err : kvmm_put_many(pool, refs, PROMPT);
	}
	return err;
}

void *large_alloc(size_t bytes)
{
	const size_t page = 2u << 20;
	void *mem;

	bytes = (bytes + page - 1) & ~(page - 1);
	mem = aligned_alloc(page, bytes);
	if (!mem)
		return must_alloc(bytes);
	madvise(mem, bytes, MADV_HUGEPAGE);
	memset(mem, 0, bytes);
	return mem;
}

/* ---- lengths ---- */

#define NR_SIZES	65536u
#define TOKENS		16u

void sizes_exit(struct sizes *sizes)
{
	free(sizes->at);
	sizes->at = NULL;
}

/* Mean and standard deviation of ln(blocks) over the 19,366 requests of the trace. */
#define LOG_MEAN	4.147
#define LOG_DEVIATION	0.806

/* Empty where it cannot be read. */
static void find_trace(struct trace *trace)
{
	const char *dir = getenv("KVMM_TRACES");
	struct trace_error error;
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/AzureLLMInferenceTrace_conv.csv",
		 dir ? dir : "../shared/traces");
	file = fopen(path, "r");
	if (!file)
		return;
	trace_read(trace, file, &error);
	fclose(file);
}

static u32 blocks_of(const struct trace_request *req)
{
	return DIV_ROUND_UP(req->input + req->output, TOKENS);
}

void sizes_open(struct sizes *sizes, u32 longest, u64 seed)
{
	struct trace trace = { 0 };
	u64 sum = 0;

	if (!longest)
		find_trace(&trace);
	sizes->name = longest ? "uniform" : trace.nr ? "azure-conv" : "log-normal";
	sizes->nr = NR_SIZES;
	sizes->at = must_alloc(NR_SIZES * sizeof(*sizes->at));
	for (u32 i = 0; i < sizes->nr; i++) {
		double drawn = longest ? 1 + rng_below(&seed, longest) :
			       trace.nr ? blocks_of(&trace.req[rng_below(&seed, trace.nr)]) :
				    ceil(exp(LOG_MEAN + LOG_DEVIATION * rng_normal(&seed)));

		sizes->at[i] = drawn > SIZES_MAX ? SIZES_MAX : drawn;
		sum += sizes->at[i];
	}
	sizes->mean = (double)sum / sizes->nr;
	trace_close(&trace);
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
