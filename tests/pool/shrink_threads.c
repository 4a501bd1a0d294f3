// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that take and give back blocks while memory goes and comes, with the world stopped, beside
 * steps, and by a balloon.
 *
 * The caller writes on what he was told of until he hands it back; blocks that somebody holds keep what
 * was written there. Exit code 0: nothing contradicted that, and in the end all memory is there.
 */
#include <kv/pool.h>

#include "tests/support/key.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	1024u
#define BYTES		64u
#define UNIT		(16ull * BYTES)
#define NR_USERS	3u
#define NR_ROUNDS	6000u
#define MOST		16u	/* blocks of each user at a time */

static struct kvmm_pool *pool;
static u8 *mem;
static u32 nr_running;	/* atomic */

/* Registered blocks are held for a while, and must keep their content wherever they go. */
static void use_cache(u64 *random, u64 *next)
{
	kvmm_mut_t mut[MOST];
	kvmm_ref_t ref[MOST];
	kvmm_key_t key[MOST];
	u32 nr = 1 + any_of(random, MOST);
	u8 buf[BYTES];

	if (kvmm_alloc(pool, nr, mut))
		return;
	for (u32 i = 0; i < nr; i++)
		key[i] = key_of((*next)++);
	expect(!kvmm_register(pool, mut, key, nr, ref));
	for (u32 i = 0; i < nr; i++)
		expect(kvmm_block_of_ref(pool, ref[i]) >= 0);
	if (any_of(random, 4))
		sched_yield();
	for (u32 i = 0; i < nr; i++) {
		int block = kvmm_block_of_ref(pool, ref[i]);
		int err = kvmm_block_read(pool, block, 0, buf, BYTES);

		expect(!err || err == -ENXIO);	/* it may have moved since we asked */
	}
	expect(!kvmm_put_many(pool, ref, nr));
}

static void use_range(u64 *random)
{
	kvmm_range_t range;

	if (kvmm_range_alloc(pool, 1 + any_of(random, MOST), KVMM_RUNS(4), &range))
		return;
	if (any_of(random, 2))
		expect(!kvmm_range_pin(pool, range) && !kvmm_range_unpin(pool, range));
	expect(!kvmm_range_free(pool, range));
}

static void *use(void *arg)
{
	u64 random = (uintptr_t)arg * 77 + 1, next = (uintptr_t)arg << 32;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		if (any_of(&random, 2))
			use_cache(&random, &next);
		else
			use_range(&random);
	}
	kv_fetch_add(&nr_running, -1);
	return NULL;
}

static void *make_steps(void *arg)
{
	kvmm_stream_t id;
	uint64_t epoch;

	expect(!kvmm_stream_add(pool, NULL, 0, &id));
	while (READ_ONCE(nr_running)) {
		expect(!kvmm_step_begin(pool, id, &epoch));
		sched_yield();
		expect(!kvmm_step_end(pool, id, epoch));
	}
	expect(!kvmm_stream_del(pool, id));
	return NULL;
}

static struct kvmm_mem_range told[NR_BLOCKS];

/* The caller's: nobody else touches it. */
static u32 hear(void)
{
	int nr = kvmm_pool_freed(pool, told, NR_BLOCKS);

	expect(nr >= 0);
	for (int i = 0; i < nr; i++)
		memset((void *)(uintptr_t)told[i].addr, 0xee, told[i].bytes);
	return nr;
}

static void hand_back(u32 nr)
{
	struct kvmm_regain req = { .size = sizeof(req), .ranges = told, .nr_ranges = nr };

	for (u32 i = 0; i < nr; i++)
		for (u64 b = 0; b < told[i].bytes; b++)
			expect(((u8 *)(uintptr_t)told[i].addr)[b] == 0xee);
	while (kvmm_pool_grow(pool, &req) == -EBUSY)
		kvmm_pool_shrink_cancel(pool);
}

static void go_and_come(u64 *random)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = UNIT * (1 + any_of(random, 24)),
				   .min_bytes = UNIT };

	switch (any_of(random, 3)) {
	case 0:
		kvmm_pool_shrink(pool, &req);
		break;
	case 1:
		if (kvmm_pool_shrink_start(pool, &req, KVMM_MOVE_BESIDE))
			break;
		for (u32 i = 0; i < 50 && kvmm_pool_shrink_poll(pool, NULL) == 1; i++)
			sched_yield();
		break;
	default:
		kvmm_balloon_set(pool, any_of(random, 32 * UNIT));
		for (u32 i = 0; i < 50 && kv_balloon_tick(pool) == 1; i++)
			sched_yield();
		kvmm_balloon_set(pool, 0);
	}
	if (any_of(random, 4))
		hand_back(hear());
	expect(any_of(random, 16) || !kvmm_validate(pool));
}

static void make(void)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };
	struct kvmm_plane plane = { .stride = BYTES, .bytes = BYTES };

	mem = aligned_alloc(UNIT, NR_BLOCKS * BYTES);
	plane.base = (uintptr_t)mem;
	attr.planes = &plane;
	attr.nr_planes = 1;
	expect(!kvmm_pool_create(&attr, &pool));
	expect(!kvmm_pool_elastic_setup(pool, &elastic));
}

int main(void)
{
	pthread_t thread[NR_USERS + 1];
	u64 random = 99;
	struct kvmm_pool_stat stat;

	make();
	nr_running = NR_USERS;
	threads_start(thread, NR_USERS, use);
	pthread_create(&thread[NR_USERS], NULL, make_steps, NULL);
	while (READ_ONCE(nr_running))
		go_and_come(&random);
	for (u32 i = 0; i <= NR_USERS; i++)
		pthread_join(thread[i], NULL);
	kvmm_pool_shrink_cancel(pool);
	for (u32 i = 0; i < 8; i++)
		kvmm_compact_poll(pool);
	hand_back(hear());
	hand_back(0);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!stat.nr_away && stat.nr_free + stat.nr_inactive == NR_BLOCKS);
	kvmm_pool_destroy(pool);
	free(mem);
	if (nr_bad)
		fprintf(stderr, "%u contradictions\n", nr_bad);
	return nr_bad != 0;
}
