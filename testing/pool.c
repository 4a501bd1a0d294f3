// SPDX-License-Identifier: Apache-2.0
/* Pools of the bench: made as a test wants them, checked and destroyed in the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define DEFAULT_BLOCKS	16u
#define BATCH		64u

static struct kvmm_pool_attr attr_of(const struct kvmm_testing_pool *spec)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = spec->nr_blocks ? spec->nr_blocks : DEFAULT_BLOCKS;
	if (!spec->nr_blocks && spec->picture)
		attr.nr_blocks = strlen(spec->picture);
	attr.policy = spec->policy ? spec->policy : "lru";
	if (!*attr.policy)
		attr.policy = NULL;
	attr.device = spec->device;
	attr.allocator = spec->allocator;
	attr.block_bytes = spec->block_bytes;
	attr.block_tokens = spec->block_tokens;
	attr.flags = spec->flags;
	if (spec->picture && spec->picture[0] == 'N')
		attr.flags |= KVMM_POOL_NULL_BLOCK;
	return attr;
}

struct made_pool *bench_find_pool(const struct kvmm_testing *t, const struct kvmm_pool *pool)
{
	struct made_pool *made;

	for (made = t->pools; made; made = made->next)
		if (made->pool == pool)
			return made;
	return NULL;
}

static void forget_pool(struct kvmm_testing *t, struct made_pool *made)
{
	struct made_pool **link;

	for (link = &t->pools; *link != made; link = &(*link)->next)
		;
	*link = made->next;
	kvmm_pool_destroy(made->pool);
	free(made);
}

static int fill(struct kvmm_testing *t, const struct kvmm_testing_pool *spec,
		struct kvmm_pool *pool)
{
	if (spec->picture)
		return kvmm_testing_paint(t, pool, spec->picture, NULL);
	return kvmm_testing_cache(t, pool, 0, spec->nr_cached);
}

int kvmm_testing_pool_make(struct kvmm_testing *t, const struct kvmm_testing_pool *spec,
			   struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = attr_of(spec);
	struct made_pool *made = calloc(1, sizeof(*made));
	int err = made ? kvmm_pool_create(&attr, &made->pool) : -ENOMEM;

	if (err) {
		free(made);
		return bench_fail(t, err, "a pool of %u blocks", attr.nr_blocks);
	}
	made->next = t->pools;
	t->pools = made;
	err = fill(t, spec, made->pool);
	if (err)
		forget_pool(t, made);
	else
		*pool = made->pool;
	return err;
}

static int end_pool(struct kvmm_testing *t, struct made_pool *made)
{
	int err = kvmm_testing_validate(t, made->pool);

	if (!err && !made->may_be_held)
		err = kvmm_testing_expect_unheld(t, made->pool);
	forget_pool(t, made);
	return err;
}

int kvmm_testing_pool_end(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	struct made_pool *made = bench_find_pool(t, pool);

	return made ? end_pool(t, made) : -EINVAL;
}

void bench_end_pools(struct kvmm_testing *t)
{
	while (t->pools)
		end_pool(t, t->pools);
}

void kvmm_testing_forget_held(struct kvmm_testing *t, struct kvmm_pool *pool)
{
	struct made_pool *made = bench_find_pool(t, pool);

	if (made)
		made->may_be_held = true;
}

/* ---- cached blocks ---- */

static int reference(struct kvmm_pool *pool, uint32_t first, uint32_t nr, kvmm_ref_t *refs)
{
	kvmm_mut_t muts[BATCH];
	kvmm_key_t keys[BATCH];
	int err;

	kvmm_testing_keys(first, nr, keys);
	err = kvmm_alloc(pool, nr, muts);
	if (err)
		return err;
	err = kvmm_register(pool, muts, keys, nr, refs);
	if (err)
		kvmm_free(pool, muts, nr);
	return err;
}

int kvmm_testing_reference(struct kvmm_testing *t, struct kvmm_pool *pool, uint32_t first,
			   uint32_t nr, kvmm_ref_t *refs)
{
	uint32_t done, batch;
	int err = 0;

	for (done = 0; done < nr && !err; done += err ? 0 : batch) {
		batch = nr - done < BATCH ? nr - done : BATCH;
		err = reference(pool, first + done, batch, refs + done);
	}
	if (!err)
		return 0;
	kvmm_put_many(pool, refs, done);
	return bench_fail(t, err, "keys %u to %u", first, first + nr - 1);
}

int kvmm_testing_cache(struct kvmm_testing *t, struct kvmm_pool *pool, uint32_t first, uint32_t nr)
{
	kvmm_ref_t *refs;
	int err;

	if (!nr)
		return 0;
	refs = calloc(nr, sizeof(*refs));
	if (!refs)
		return bench_fail(t, -ENOMEM, "handles of %u blocks", nr);
	err = kvmm_testing_reference(t, pool, first, nr, refs);
	if (!err)
		err = kvmm_put_many(pool, refs, nr);
	free(refs);
	return err;
}
