// SPDX-License-Identifier: Apache-2.0
/* A sliding window of 4 blocks: only those that a hit can need are cached, and the last go last. */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR	8u

/* Where prompts may go on: 4 blocks before the eighth and the sixteenth. */
static const uint32_t position[NR] = { 4, 5, 6, 7, 12, 13, 14, 15 };

static int serve(struct kvmm_pool *pool, const kvmm_key_t *keys)
{
	kvmm_mut_t muts[NR];
	kvmm_ref_t refs[NR];
	struct kvmm_register_args req = {
		.prefix = { .keys = keys, .nr = NR }, .positions = position,
		.blocks = muts, .refs = refs, .flags = KVMM_REGISTER_AS_PUT,
	};
	int err = kvmm_alloc(pool, NR, muts);

	if (!err)
		err = kvmm_register_as(pool, &req);
	for (uint32_t i = 0; i < NR && !err; i++)	/* the head leaves the window first */
		err = kvmm_put(pool, refs[i]);
	return err;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_prefix prefix = { .nr = NR };
	struct kvmm_pool *pool = NULL;
	kvmm_key_t keys[NR] = { { { 0 } } };
	kvmm_mut_t muts[4];
	uint64_t present = 0;
	int err;

	attr.nr_blocks = NR;
	attr.policy = "lru";
	for (uint32_t i = 0; i < NR; i++)
		keys[i].byte[0] = i + 1;
	prefix.keys = keys;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = serve(pool, keys);
	if (!err)
		err = kvmm_alloc(pool, 4, muts);	/* another request needs half of the pool */
	if (!err)
		err = kvmm_prefix_probe(pool, &prefix, &present) < 0;
	for (uint32_t i = 0; i < NR; i++)
		printf("block %u: %s\n", position[i], present >> i & 1 ? "cached" : "gone");
	kvmm_pool_destroy(pool);
	return err != 0;
}
