// SPDX-License-Identifier: Apache-2.0
/*
 * A hybrid model caches its state at 96 tokens, and goes on from there: the block of the state that
 * it alone holds is taken back from the cache, written again, and cached under its new name. A
 * partial block that gets more tokens is renamed while it is cached; it is a hit under its old
 * name, too, if that is added.
 */
#include <kvmm/kvmm.h>
#include <stdio.h>

static struct kvmm_pool *pool;

static void tell(const char *when, const kvmm_key_t *key)
{
	printf("%-14s at 96: %-6s  at 112: %s\n", when,
	       kvmm_match_len(pool, &key[0], 1) ? "cached" : "-",
	       kvmm_match_len(pool, &key[1], 1) ? "cached" : "-");
}

/* What is at 112 tokens begins with what is at 96. */
static int more_names(const kvmm_key_t *key, kvmm_ref_t ref)
{
	struct kvmm_name name[2] = { { .key = key[0], .position = 6 },
				     { .key = key[1], .position = 7 } };
	int err = kvmm_names_rename(pool, &name[0], &ref, 1);

	if (err)
		return err;
	tell("renamed", key);
	err = kvmm_names_add(pool, &name[1], &ref, 1);
	if (err)
		return err;
	tell("another name", key);
	printf("%d names\n", kvmm_names_get(pool, ref, NULL, 0));
	return kvmm_names_remove(pool, &name[0], &ref, 1);
}

static int run(void)
{
	kvmm_key_t key[2] = { { { 96 } }, { { 112 } } };
	kvmm_mut_t block;
	kvmm_ref_t ref;
	int err = kvmm_alloc(pool, 1, &block);

	if (!err)
		err = kvmm_register(pool, &block, &key[0], 1, &ref);
	if (err)
		return err;
	tell("registered", key);
	err = kvmm_unpublish(pool, &ref, 1, &block);	/* -EBUSY: another request uses it */
	if (err)
		return err;
	tell("written again", key);
	err = kvmm_register(pool, &block, &key[1], 1, &ref);
	if (err)
		return err;
	tell("named again", key);
	err = more_names(key, ref);
	kvmm_put(pool, ref);
	return err;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = 16;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = run();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
