// SPDX-License-Identifier: Apache-2.0
/*
 * The calls of an engine's step, for scripts/ratchet to count their instructions under callgrind:
 * each op_*() is one call, or a pair that leaves the pool as it was. Linked with libkvmm.so, as
 * programs of users are.
 */
#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>

#define NR_ROUNDS	200u
#define NR_BLOCKS	4096u
#define NR_PROMPT	64u
#define NR_RANGE	16u

#define OP		static __attribute__((noinline, noclone)) void

static struct kvmm_pool *pool, *empty;	/* full of prefixes; with nothing in it */
static kvmm_key_t keys[NR_PROMPT];
static kvmm_mut_t fresh[NR_PROMPT];
static kvmm_ref_t refs[NR_PROMPT];

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "instructions: %s\n", kvmm_strerror(err));
	exit(1);
}

/* Keys of the prompt that is number @nr. */
static void name_prompt(uint32_t nr)
{
	uint64_t x = nr * 0x9e3779b97f4a7c15ull + 1;

	for (uint32_t i = 0; i < NR_PROMPT; i++)
		for (uint32_t b = 0; b < sizeof(keys[i].byte); b++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			keys[i].byte[b] = x >> 24;
		}
}

OP op_range_pair(void)
{
	kvmm_range_t range;

	must(kvmm_range_alloc(empty, NR_RANGE, 0, &range));
	must(kvmm_range_free(empty, range));
}

OP op_block_pair(void)
{
	must(kvmm_alloc(empty, 1, fresh));
	must(kvmm_free(empty, fresh, 1));
}

OP op_match(void)
{
	must(kvmm_match(pool, keys, NR_PROMPT, refs) == NR_PROMPT ? 0 : -1);
}

OP op_acquire(void)
{
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = NR_PROMPT, .max_hits = NR_PROMPT,
					 .nr_blocks = NR_PROMPT, .hits = refs, .fresh = fresh };

	must(kvmm_acquire(pool, &req));
}

OP op_put_many(void)
{
	must(kvmm_put_many(pool, refs, NR_PROMPT));
}

OP op_register(void)
{
	must(kvmm_register(pool, fresh, keys, NR_PROMPT, refs));
}

OP op_evict(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = NR_PROMPT };

	must(kvmm_evict_for(pool, &req));
}

/* Hash tables have the same collisions in each run. */
static uint64_t same_random(void *ctx)
{
	uint64_t *x = ctx;

	*x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
	return *x;
}

static struct kvmm_pool *make_pool(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *made;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lrfu";
	must(kvmm_pool_create(&attr, &made));
	return made;
}

/* A prompt that is not cached yet: room by eviction, blocks, names, and back into the cache. */
static void serve_new(uint32_t nr)
{
	name_prompt(nr);
	op_evict();
	must(kvmm_alloc(pool, NR_PROMPT, fresh));
	op_register();
	must(kvmm_put_many(pool, refs, NR_PROMPT));
}

static void serve_again(void)
{
	op_match();
	must(kvmm_put_many(pool, refs, NR_PROMPT));
	op_acquire();
	op_put_many();
}

static void fill(void)
{
	for (uint32_t i = 0; i < NR_BLOCKS / NR_PROMPT; i++) {
		name_prompt(i);
		must(kvmm_alloc(pool, NR_PROMPT, fresh));
		must(kvmm_register(pool, fresh, keys, NR_PROMPT, refs));
		must(kvmm_put_many(pool, refs, NR_PROMPT));
	}
}

int main(void)
{
	static uint64_t state = 1;
	static const struct kvmm_testing_host host = { .size = sizeof(host), .ctx = &state,
						       .random = same_random };

	must(kvmm_testing_set_host(&host));
	pool = make_pool();
	empty = make_pool();
	fill();
	for (uint32_t i = 0; i < NR_ROUNDS; i++) {
		serve_new(NR_BLOCKS + i);
		serve_again();
		op_block_pair();
		op_range_pair();
	}
	kvmm_pool_destroy(empty);
	kvmm_pool_destroy(pool);
	printf("%u\n", NR_ROUNDS);
	return 0;
}
