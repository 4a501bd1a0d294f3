// SPDX-License-Identifier: Apache-2.0
/*
 * An engine that speaks block ids: its block tables are arrays of int32_t, as in torch, and it
 * keeps nothing of the pool's beside them. Blocks must not move under such tables.
 */
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <string.h>

#define NR_BLOCKS	6	/* of a prompt */
#define NR_REQUESTS	8

/* Keys are the engine's: here the prompt's number, shared by the first blocks of all. */
static void name(kvmm_key_t *keys, uint32_t prompt)
{
	memset(keys, 0, NR_BLOCKS * sizeof(*keys));
	for (uint32_t i = 0; i < NR_BLOCKS; i++) {
		keys[i].byte[0] = i + 1;
		keys[i].byte[1] = i < 3 ? 0 : prompt + 1;
	}
}

/* The blocks that are cached, and private ones for the rest; then all are cached. */
static int serve(struct kvmm_pool *pool, uint32_t prompt)
{
	kvmm_key_t keys[NR_BLOCKS];
	struct kvmm_prefix prefix = { keys, NR_BLOCKS, 0, NULL, { 0, 0, 0 } };
	int32_t table[NR_BLOCKS];
	int nr_hits, err;

	name(keys, prompt);
	nr_hits = kvmm_ids_find(pool, &prefix, table, 0);
	if (nr_hits < 0)
		return nr_hits;
	err = kvmm_ids_alloc(pool, NR_BLOCKS - nr_hits, 0, table + nr_hits);
	if (err)		/* -ENOSPC: the request waits for another one to end */
		goto out_put;
	printf("prompt %u: %d blocks reused, table", prompt, nr_hits);
	for (uint32_t i = 0; i < NR_BLOCKS; i++)
		printf(" %d", table[i]);
	printf("\n");
	/* ... compute, for which the kernels get the table ... */
	prefix.keys = keys + nr_hits;
	prefix.nr = NR_BLOCKS - nr_hits;
	prefix.position = nr_hits;
	prefix.parent = nr_hits ? &keys[nr_hits - 1] : NULL;
	err = kvmm_ids_register(pool, &prefix, table + nr_hits, 0);
	/* Full blocks stay cached, others are free: the table says no more than ids. */
	if (!err)
		return kvmm_ids_put(pool, table, NR_BLOCKS, 0);
	kvmm_ids_put(pool, table + nr_hits, NR_BLOCKS - nr_hits, 0);
out_put:
	kvmm_ids_put(pool, table, nr_hits, 0);
	return err;
}

/* Another request holds a block while this one ends, and blocks tell what is in them. */
static int look(struct kvmm_pool *pool)
{
	struct kvmm_id_info info;
	kvmm_key_t keys[NR_BLOCKS];
	struct kvmm_prefix prefix = { keys, 1, 0, NULL, { 0, 0, 0 } };
	int32_t id;
	int err;

	name(keys, 0);
	if (kvmm_ids_find(pool, &prefix, &id, 0) != 1)
		return -1;
	err = kvmm_ids_get(pool, &id, 1, 0);
	if (!err)
		err = kvmm_ids_info(pool, &id, 1, &info);
	if (err)
		return err;
	printf("block %d: %u references, %u tokens\n", id, info.refs, info.tokens);
	return kvmm_ids_put(pool, (const int32_t[]){ id, id }, 2, KVMM_IDS_FIRST_OUT);
}

/* A request of an earlier run is restored where its table says, if nothing is in use there. */
static int restore(struct kvmm_pool *pool)
{
	const int32_t table[] = { 12, 13, 14 }, used = 0;
	int err = kvmm_ids_touch(pool, &used, 1);

	if (!err)
		err = kvmm_ids_take(pool, table, 3, 0, 0);
	if (err)
		return err;
	printf("blocks 12 to 14 are private\n");
	/* Free, but the next one may ask for what is in there; one that was used since is gone. */
	err = kvmm_ids_put(pool, table, 3, KVMM_IDS_PARK);
	if (!err)
		err = kvmm_ids_take(pool, table, 3, 0, KVMM_IDS_PARKED);
	return err ? err : kvmm_ids_free(pool, table, 3);
}

/* The same by handle, which pools have that move blocks, too. */
static int park(struct kvmm_pool *pool)
{
	kvmm_mut_t block;
	int err = kvmm_alloc(pool, 1, &block);

	if (!err)
		err = kvmm_park(pool, &block, 1);
	if (!err)
		err = kvmm_unpark(pool, &block, 1);
	return err ? err : kvmm_free(pool, &block, 1);
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool = NULL;
	int err;

	attr.nr_blocks = 16;
	attr.policy = "lru";
	attr.compactor = "off";
	err = kvmm_pool_create(&attr, &pool);
	for (uint32_t i = 0; i < NR_REQUESTS && !err; i++)
		err = serve(pool, i % 5);
	if (!err)
		err = look(pool);
	if (!err)
		err = restore(pool);
	if (!err)
		err = park(pool);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err ? 1 : 0;
}
