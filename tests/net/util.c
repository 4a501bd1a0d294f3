// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/net/util.h"

#define MAX_NR	4096u

static void must_at(bool good, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: a step of the test failed\n", __FILE__, line);
	abort();
}

#define must(good)	must_at(good, __LINE__)

struct kvmm_pool *net_pool_on(const char *device, const struct kvmm_plane *plane, u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = device,
				       .nr_blocks = nr_blocks, .planes = plane,
				       .nr_planes = plane != NULL, .block_bytes = NET_BLOCK_BYTES,
				       .policy = "lru" };
	struct kvmm_pool *pool;
	int err = kvmm_pool_create(&attr, &pool);

	if (err)
		fprintf(stderr, "%s: %d\n", device, err);
	must(!err);
	return pool;
}

struct kvmm_pool *net_pool(const char *device, u32 nr_blocks)
{
	return net_pool_on(device, NULL, nr_blocks);
}

static void fill(u32 *words, u32 content, u32 i)
{
	for (u32 w = 0; w < NET_BLOCK_BYTES / sizeof(u32); w++)
		words[w] = content * 2654435761u + i * 40503u + w * 97u;
}

int net_write(struct kvmm_pool *pool, u32 block, u32 content, u32 i)
{
	u32 words[NET_BLOCK_BYTES / sizeof(u32)];

	fill(words, content, i);
	return kvmm_block_write(pool, block, 0, words, sizeof(words));
}

int net_is(struct kvmm_pool *pool, u32 block, u32 content, u32 i)
{
	u32 words[NET_BLOCK_BYTES / sizeof(u32)], want[NET_BLOCK_BYTES / sizeof(u32)];
	int err = kvmm_block_read(pool, block, 0, words, sizeof(words));

	fill(want, content, i);
	return err ? err : !memcmp(words, want, sizeof(want));
}

struct kvmm_migrate_status net_status(const struct kvmm_migrate *job)
{
	struct kvmm_migrate_status status;

	must(!kvmm_migrate_get_status(job, &status));
	return status;
}

u32 net_nr_free(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat;

	must(!kvmm_pool_get_stat(pool, &stat));
	return stat.nr_free;
}

kvmm_key_t net_key(u32 number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &number, sizeof(number));
	memcpy(key.byte + 8, "key", 3);
	return key;
}

void net_cache(struct kvmm_pool *pool, u32 first, u32 nr)
{
	static __thread kvmm_key_t keys[MAX_NR];
	static __thread kvmm_mut_t muts[MAX_NR];
	static __thread kvmm_ref_t refs[MAX_NR];

	must(nr <= MAX_NR && !kvmm_alloc(pool, nr, muts));
	for (u32 i = 0; i < nr; i++) {
		keys[i] = net_key(first + i);
		must(!net_write(pool, kvmm_block_of_mut(pool, muts[i]), first + i, 0));
	}
	must(!kvmm_register(pool, muts, keys, nr, refs));
	must(!kvmm_put_many(pool, refs, nr));
}

void net_match(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs)
{
	for (u32 i = 0; i < nr; i++) {
		kvmm_key_t k = net_key(first + i);

		must(kvmm_match(pool, &k, 1, &refs[i]) == 1);
	}
}

int net_cached(struct kvmm_pool *pool, u32 first, u32 nr)
{
	int found = 0;

	for (u32 i = 0; i < nr; i++) {
		kvmm_key_t k = net_key(first + i);
		kvmm_ref_t ref;
		int is;

		if (kvmm_match(pool, &k, 1, &ref) != 1)
			continue;
		is = net_is(pool, kvmm_block_of_ref(pool, ref), first + i, 0);
		kvmm_put(pool, ref);
		if (is != 1)
			return -1;
		found++;
	}
	return found;
}

kvmm_range_t net_range(struct kvmm_pool *pool, u64 seq, u32 nr, u32 max_runs)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .seq = seq,
					.max_runs = max_runs };
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	kvmm_range_t range;
	u32 i = 0;
	int nr_ext;

	must(!kvmm_range_alloc_attr(pool, &attr, &range));
	nr_ext = kvmm_range_extents(pool, range, ext, KVMM_MAX_RUNS);
	for (int k = 0; k < nr_ext; k++)
		for (u32 b = 0; b < ext[k].nr; b++)
			must(!net_write(pool, ext[k].start + b, seq, i++));
	return range;
}

static u32 block_of(struct kvmm_pool *pool, kvmm_range_t range, u32 i)
{
	struct kvmm_extent ext[64];
	int nr = kvmm_range_extents(pool, range, ext, 64);

	for (int k = 0; k < nr && k < 64; k++) {
		if (i < ext[k].nr)
			return ext[k].start + i;
		i -= ext[k].nr;
	}
	must(false);
	return 0;
}

void net_decoded(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr)
{
	must(!net_write(pool, block_of(pool, range, nr - 1), seq, nr - 1));
}

void net_decode(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr)
{
	must(!kvmm_range_grow(pool, range, 1));
	net_decoded(pool, range, seq, nr - 1);
	must(!kvmm_range_seal(pool, range, nr - 1));
	must(!net_write(pool, block_of(pool, range, nr - 1), seq + 1, 0));
}

bool net_range_is(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr)
{
	struct kvmm_extent ext[64];
	u32 i = 0;
	int nr_ext = kvmm_range_extents(pool, range, ext, 64);

	for (int k = 0; k < nr_ext; k++)
		for (u32 b = 0; b < ext[k].nr; b++)
			if (net_is(pool, ext[k].start + b, seq, i++) != 1)
				return false;
	return i == nr;
}
