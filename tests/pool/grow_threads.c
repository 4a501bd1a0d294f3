// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that let ranges grow, one by one and in batches, others that take the room away, and
 * readers without a lock that see ranges of many extents.
 *
 * Extents of a range that nobody is about to shrink never overlap each other or leave the pool.
 * Blocks never run out: who asks for one that must be free gets it. Exit code 0: nothing contradicted
 * that, and the pool is valid and empty in the end.
 */
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	512u
#define NR_GROWERS	2u
#define NR_RANGES	6u	/* of each */
#define MOST		32u	/* blocks of each range: all of them together leave some free */
#define NR_ROUNDS	20000u

static struct kvmm_pool *pool;
static u64 shared[NR_GROWERS * NR_RANGES];	/* atomic: handles that come and go */
static u32 stop;				/* atomic */

static void look(u64 word)
{
	kvmm_range_t range = { (u32)word, word >> 32 };
	struct kvmm_extent ext[NR_BLOCKS];
	u8 seen[NR_BLOCKS] = { 0 };
	int nr = kvmm_range_extents(pool, range, ext, NR_BLOCKS);
	u32 sum = 0;

	if (nr < 0) {
		expect(nr == -ESTALE || nr == -EINVAL);
		return;
	}
	for (int i = 0; i < nr; i++) {
		expect(ext[i].nr && ext[i].start + ext[i].nr <= NR_BLOCKS);
		for (u32 b = 0; b < ext[i].nr && ext[i].start + b < NR_BLOCKS; b++)
			expect(!seen[ext[i].start + b]++);
		sum += ext[i].nr;
	}
	expect(sum && sum <= MOST);
}

static void *read_extents(void *arg)
{
	u64 random = (uintptr_t)arg * 77 + 1;

	while (!READ_ONCE(stop))
		look(READ_ONCE(shared[any_of(&random, NR_GROWERS * NR_RANGES)]));
	return NULL;
}

static kvmm_range_t begin(u64 *random, u64 *word)
{
	kvmm_range_t range = { 0, 0 };
	u32 flags = any_of(random, 2) ? KVMM_ALLOC_GROWS : 0;

	expect(!kvmm_range_alloc(pool, 1, flags | KVMM_ALLOC_NO_COMPACT, &range));
	WRITE_ONCE(*word, (u64)range.gen << 32 | range.index);
	return range;
}

/* A few steps of all, then some end and others begin. */
static void *let_grow(void *arg)
{
	u64 random = (uintptr_t)arg * 977 + 5, *word = &shared[(uintptr_t)arg * NR_RANGES];
	kvmm_range_t range[NR_RANGES];
	u32 nr[NR_RANGES];

	for (u32 i = 0; i < NR_RANGES; i++, word++) {
		range[i] = begin(&random, word);
		nr[i] = 1;
	}
	word -= NR_RANGES;
	for (u32 round = 0; round < NR_ROUNDS; round++) {
		u32 i = any_of(&random, NR_RANGES);

		for (u32 k = 0; k < NR_RANGES; k++) {
			if (nr[k] < MOST)
				continue;
			expect(!kvmm_range_shrink(pool, range[k], 20));
			nr[k] -= 20;
		}
		expect(!kvmm_range_grow_many(pool, range, NR_RANGES, 1));
		for (u32 k = 0; k < NR_RANGES; k++)
			nr[k]++;
		if (any_of(&random, 4) || nr[i] == MOST)
			continue;
		expect(!kvmm_range_free(pool, range[i]));
		range[i] = begin(&random, &word[i]);
		nr[i] = 1;
		expect(!kvmm_range_grow(pool, range[i], 2));
		nr[i] += 2;
		if (any_of(&random, 2) && !kvmm_range_shrink_front(pool, range[i], 1))
			nr[i]--;
	}
	for (u32 i = 0; i < NR_RANGES; i++)
		expect(!kvmm_range_free(pool, range[i]));
	return NULL;
}

/* What growers cannot have: more than that is never held, so it must be there. */
#define LEFT	(NR_BLOCKS - NR_GROWERS * NR_RANGES * MOST)

static void *steal(void *arg)
{
	u64 random = (uintptr_t)arg * 31 + 7;
	kvmm_mut_t muts[LEFT];
	struct kvmm_growth_stat stat = { .size = sizeof(stat) };

	while (!READ_ONCE(stop)) {
		u32 nr = 1 + any_of(&random, LEFT / 2);

		expect(!kvmm_alloc(pool, nr, muts));
		expect(!kvmm_growth_get_stat(pool, &stat));
		expect(stat.nr_reserved <= NR_BLOCKS);
		expect(!kvmm_free(pool, muts, nr));
		if (!any_of(&random, 64))
			expect(!kvmm_validate(pool));
	}
	return NULL;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };
	pthread_t grower[NR_GROWERS], other[3];
	struct kvmm_pool_stat stat;

	expect(!kvmm_pool_create(&attr, &pool));
	for (uintptr_t i = 0; i < NR_GROWERS; i++)
		expect(!pthread_create(&grower[i], NULL, let_grow, (void *)i));
	expect(!pthread_create(&other[0], NULL, read_extents, (void *)1));
	expect(!pthread_create(&other[1], NULL, steal, (void *)1));
	expect(!pthread_create(&other[2], NULL, steal, (void *)2));
	threads_join(grower, NR_GROWERS);
	WRITE_ONCE(stop, 1);
	threads_join(other, 3);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_free == NR_BLOCKS);
	kvmm_pool_destroy(pool);
	return nr_bad != 0;
}
