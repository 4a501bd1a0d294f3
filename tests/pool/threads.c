// SPDX-License-Identifier: Apache-2.0
/*
 * Threads on one pool: allocation, compaction, cached blocks, and readers without a lock.
 *
 * All ranges have RANGE_NR blocks, so whatever a reader sees while others allocate, free and move
 * must add up to that, or be a refusal. A pinned range stays where it is: its owner checks its
 * content then. Exit code 0: nothing contradicted that, and the pool is valid in the end.
 */
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	256u
#define RANGE_NR	8u
#define BLOCK_BYTES	32u
#define NR_SHARED	16u
#define NR_HELD		8u
#define NR_ROUNDS	20000u

static struct kvmm_pool *pool;
static u64 shared[NR_SHARED];		/* atomic: handles that come and go */
static u32 stop;			/* atomic */
static u32 all_seen;			/* atomic; blocks have been moved, evicted and hit */

static u64 pack(kvmm_range_t range)
{
	return (u64)range.gen << 32 | range.index;
}

static kvmm_range_t unpack(u64 word)
{
	return (kvmm_range_t){ (u32)word, word >> 32 };
}

/* Extents of a range of the right length, inside the pool, or a refusal. */
static void look(kvmm_range_t range)
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	int nr = kvmm_range_extents(pool, range, ext, KVMM_MAX_RUNS);
	u32 sum = 0;

	if (nr < 0) {
		expect(nr == -ESTALE || nr == -EINVAL);
		return;
	}
	expect(nr <= KVMM_MAX_RUNS);
	for (int i = 0; i < nr; i++) {
		sum += ext[i].nr;
		expect(ext[i].start + ext[i].nr <= NR_BLOCKS);
	}
	expect(sum == RANGE_NR);
}

static void *read_extents(void *arg)
{
	u64 r = (uintptr_t)arg * 77 + 1;

	while (!READ_ONCE(stop)) {
		look(unpack(READ_ONCE(shared[any_of(&r, NR_SHARED)])));
	}
	return NULL;
}

/* What this thread writes into block @i of its range number @n. */
static u8 pattern(const u64 *r, u32 n, u32 i)
{
	return (uintptr_t)r * 3 + n * 17 + i;
}

static void check_or_write(u64 *r, kvmm_range_t range, u32 n, bool write)
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u8 want[BLOCK_BYTES], buf[BLOCK_BYTES];
	u32 block = 0;
	int nr;

	expect(!kvmm_range_pin(pool, range));
	nr = kvmm_range_extents(pool, range, ext, KVMM_MAX_RUNS);
	for (int e = 0; e < nr; e++) {
		for (u32 i = 0; i < ext[e].nr; i++) {
			memset(want, pattern(r, n, block++), sizeof(want));
			if (write) {
				expect(!kvmm_block_write(pool, ext[e].start + i, 0, want,
							 sizeof(want)));
				continue;
			}
			expect(!kvmm_block_read(pool, ext[e].start + i, 0, buf, sizeof(buf)));
			expect(!memcmp(buf, want, sizeof(buf)));
		}
	}
	expect(block == RANGE_NR);
	expect(!kvmm_range_unpin(pool, range));
}

/* So long that blocks have been moved, evicted and hit: on one processor disturb() may come late. */
static bool goes_on(u32 round)
{
	return round < NR_ROUNDS || (!READ_ONCE(all_seen) && round < 1000 * NR_ROUNDS);
}

static void *use_ranges(void *arg)
{
	u64 r = (uintptr_t)arg * 1234567 + 1;
	kvmm_range_t held[NR_HELD];
	bool has[NR_HELD] = { false };

	for (u32 round = 0; goes_on(round); round++) {
		u32 n = any_of(&r, NR_HELD);

		if (has[n]) {
			check_or_write(&r, held[n], n, false);
			expect(!kvmm_range_free(pool, held[n]));
			has[n] = false;
			continue;
		}
		has[n] = !kvmm_range_alloc(pool, RANGE_NR, KVMM_RUNS(1 + any_of(&r, 3)), &held[n]);
		if (!has[n])
			continue;
		WRITE_ONCE(shared[any_of(&r, NR_SHARED)], pack(held[n]));
		check_or_write(&r, held[n], n, true);
	}
	for (u32 n = 0; n < NR_HELD; n++)
		if (has[n])
			expect(!kvmm_range_free(pool, held[n]));
	return NULL;
}

static void *use_cache(void *arg)
{
	u64 r = (uintptr_t)arg * 7654321 + 1;
	kvmm_key_t key[6];
	kvmm_mut_t fresh[6];
	kvmm_ref_t ref[6];

	for (u32 round = 0; goes_on(round); round++) {
		struct kvmm_acquire_args req = { .keys = key, .nr_keys = 6, .max_hits = 6,
						 .nr_blocks = 6, .hits = ref, .fresh = fresh };
		u32 root = any_of(&r, 40);

		memset(key, 0, sizeof(key));
		for (u32 i = 0; i < 6; i++) {
			key[i].byte[0] = root;
			key[i].byte[1] = i;
		}
		if (kvmm_acquire(pool, &req))
			continue;
		expect(!kvmm_register(pool, fresh, key + req.nr_hits, req.nr_fresh,
				      ref + req.nr_hits));
		expect(kvmm_block_of_ref(pool, ref[0]) >= 0);
		expect(!kvmm_put_many(pool, ref, 6));
	}
	return NULL;
}

static void *disturb(void *arg)
{
	u64 r = 99;

	while (!READ_ONCE(stop)) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any_of(&r, 64) };
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
		struct kvmm_pool *other;
		struct kvmm_pool_stat stat;
		u32 sum = 0;

		kvmm_pool_compact(pool, &goal);
		expect(!kvmm_pool_get_stat(pool, &stat));
		for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++)
			sum += stat.nr_state[i];
		expect(sum == NR_BLOCKS);
		if (stat.moved_blocks && stat.evictions && stat.hit_blocks)
			WRITE_ONCE(all_seen, 1);
		expect(!kvmm_validate(pool));
		expect(!kvmm_pool_create(&attr, &other));
		kvmm_pool_destroy(other);
	}
	return NULL;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "threads",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BLOCK_BYTES,
				       .policy = "lru" };
	pthread_t worker[4], helper[3];
	struct kvmm_pool_stat stat;

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&worker[i], NULL, i < 3 ? use_ranges : use_cache, (void *)(i + 1));
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&helper[i], NULL, i < 2 ? read_extents : disturb, (void *)(i + 1));
	threads_join(worker, 4);
	WRITE_ONCE(stop, 1);
	threads_join(helper, 3);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.moved_blocks && stat.evictions && stat.hit_blocks);
	kvmm_pool_destroy(pool);
	return nr_bad ? 1 : 0;
}
