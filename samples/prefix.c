// SPDX-License-Identifier: Apache-2.0
/* Two requests with the same system prompt: the second one computes only what is new. */
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <string.h>

#define NR_BLOCKS 6	/* a prompt of 6 full blocks, of which 4 are shared */

/* Engines use a strong hash of the tokens and of the key before; names will do here. */
static void name_blocks(kvmm_key_t *keys, const char *request)
{
	int i;

	memset(keys, 0, NR_BLOCKS * sizeof(*keys));
	for (i = 0; i < NR_BLOCKS; i++)
		snprintf((char *)keys[i].byte, KVMM_KEY_BYTES, "%s/%d", i < 4 ? "system" : request, i);
}

static int serve(struct kvmm_pool *pool, const char *request)
{
	kvmm_key_t keys[NR_BLOCKS];
	kvmm_mut_t fresh[NR_BLOCKS];
	kvmm_ref_t refs[NR_BLOCKS];
	struct kvmm_acquire req = { .keys = keys, .nr_keys = NR_BLOCKS, .max_hits = NR_BLOCKS,
				    .nr_blocks = NR_BLOCKS, .hits = refs, .fresh = fresh };
	int err;

	name_blocks(keys, request);
	err = kvmm_acquire(pool, &req);
	if (err)
		return err;		/* -ENOSPC: wait for another request to end */
	printf("%s: %u blocks reused, %u to compute\n", request, req.nr_hits, req.nr_fresh);

	/* ... compute the fresh blocks; then they can be shared ... */
	err = kvmm_register(pool, fresh, keys + req.nr_hits, req.nr_fresh, refs + req.nr_hits);
	if (err)
		return err;
	return kvmm_put_many(pool, refs, NR_BLOCKS);	/* done; still cached */
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;
	int err;

	attr.nr_blocks = 1024;
	attr.policy = "lru";
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = serve(pool, "alice");
	if (!err)
		err = serve(pool, "bob");
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(err ? NULL : pool);
	return err ? 1 : 0;
}
