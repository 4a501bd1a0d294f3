// SPDX-License-Identifier: Apache-2.0
/*
 * The map is looked at while threads allocate, register, evict, compact and destroy what it shows.
 *
 * Whatever happens meanwhile: runs come by address, without a gap and without a block told twice; their
 * sum is the pool; a run that has a name has one that was given; what is said of a range belongs together: its
 * tenant and its owner follow from its sequence. In the end, when all stands still, the map equals the statistics.
 */
#include <kv/pool.h>

#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	3000u
#define NR_WORKERS	3u
#define NR_LOOKERS	2u
#define NR_STEPS	2500u
#define NR_FLIPS	1000000u
#define MAX_RUNS	128u
#define MARK		0x6bu	/* first byte of each key */

static struct kvmm_pool *pool;
static u32 stop;		/* atomic */
static u32 nr_maps;		/* atomic */

static kvmm_key_t key_of(u64 *state)
{
	kvmm_key_t key = { { MARK, any_of(state, 256), any_of(state, 8) } };

	return key;
}

static void use_range(u64 *state)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any_of(state, 60),
					.seq = any_of(state, 5) };
	kvmm_range_t range;

	if (attr.seq) {
		attr.tenant = 1000 * attr.seq;
		attr.owner = 1 + attr.seq;
	}
	if (kvmm_range_alloc_attr(pool, &attr, &range))
		return;
	if (!any_of(state, 4))
		kvmm_range_grow(pool, range, 1 + any_of(state, 8));
	kvmm_range_free(pool, range);
}

static void use_blocks(u64 *state)
{
	kvmm_mut_t muts[8];
	kvmm_ref_t refs[8];
	kvmm_key_t keys[8];
	u32 nr = 1 + any_of(state, 8);

	if (kvmm_alloc(pool, nr, muts))
		return;
	for (u32 i = 0; i < nr; i++) {
		keys[i] = key_of(state);
		keys[i].byte[3] = i;
	}
	if (!any_of(state, 4) || kvmm_register(pool, muts, keys, nr, refs))
		kvmm_free(pool, muts, nr);
	else
		kvmm_put_many(pool, refs, nr);
}

static void *work(void *arg)
{
	u64 state = (uintptr_t)arg * 0x9e3779b97f4a7c15ull | 1;

	for (u32 i = 0; i < NR_STEPS; i++) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 200, .max_blocks = 64 };

		if (!any_of(&state, 200))
			kvmm_pool_compact(pool, &goal);
		else if (any_of(&state, 2))
			use_range(&state);
		else
			use_blocks(&state);
	}
	return NULL;
}

/* It is given its owner right after it has come to life. */
static void check_range(const struct kvmm_map_run *run)
{
	expect(run->seq < 5 && run->domain.tenant == 1000 * run->seq);
	expect(!run->owner || run->owner == 1 + run->seq);
}

/* One walk; how many blocks there are of each state. */
static void walk(u32 how, u32 max, u32 *nr_state)
{
	struct kvmm_map_run runs[MAX_RUNS];
	u32 at = 0, next = 0;
	int nr;

	while ((nr = kvmm_map_read(pool, &at, how, runs, max)) > 0)
		for (int i = 0; i < nr; i++) {
			expect(runs[i].first == next && runs[i].nr && runs[i].state < KVMM_NR_MAP_STATES);
			if (runs[i].flags & KVMM_MAP_HAS_KEY)
				expect(runs[i].key.byte[0] == MARK && !runs[i].key.byte[15]);
			if (runs[i].state == KVMM_MAP_RANGE && how != KVMM_MAP_COARSE)
				check_range(&runs[i]);
			next += runs[i].nr;
			nr_state[kvmm_map_block_state(runs[i].state)] += runs[i].nr;
		}
	expect(!nr && next == NR_BLOCKS && at == NR_BLOCKS);
}

static void *look(void *arg)
{
	static const u32 hows[] = { 0, KVMM_MAP_EACH, KVMM_MAP_COARSE };

	for (u32 i = (uintptr_t)arg; !READ_ONCE(stop); i++) {
		u32 nr_state[KVMM_NR_BLOCK_STATES + 1] = { 0 };

		walk(hows[i % 3], i % 2 ? MAX_RUNS : 3, nr_state);
		kv_fetch_add(&nr_maps, 1);
	}
	return NULL;
}

/* One block that is somebody else's all the time: what is seen of it is often of two lives. */
static void *flip(void *arg)
{
	u64 state = 4711;

	for (u32 i = 0; i < NR_FLIPS; i++) {
		struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1, .seq = 1 + any_of(&state, 4) };
		kvmm_range_t range;

		attr.tenant = 1000 * attr.seq;
		attr.owner = 1 + attr.seq;
		expect(!kvmm_range_alloc_attr(pool, &attr, &range));
		expect(!kvmm_range_free(pool, range));
	}
	return NULL;
}

static void *stare(void *arg)
{
	struct kvmm_map_run run;

	while (!READ_ONCE(stop)) {
		u32 at = 0;

		expect(kvmm_map_read(pool, &at, 0, &run, 1) == 1);
		if (run.state == KVMM_MAP_RANGE)
			check_range(&run);
	}
	return NULL;
}

static int make_pool(u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .block_bytes = 64, .policy = "lru" };

	return kvmm_pool_create(&attr, &pool);
}

static int flip_one(void)
{
	pthread_t flipper, looker;

	if (make_pool(1) || pthread_create(&looker, NULL, stare, NULL) ||
	    pthread_create(&flipper, NULL, flip, NULL))
		return -1;
	pthread_join(flipper, NULL);
	WRITE_ONCE(stop, 1);
	pthread_join(looker, NULL);
	kvmm_pool_destroy(pool);
	WRITE_ONCE(stop, 0);
	return 0;
}

static void check_still(void)
{
	u32 nr_state[KVMM_NR_BLOCK_STATES + 1] = { 0 };
	struct kvmm_pool_stat stat;

	walk(0, MAX_RUNS, nr_state);
	expect(!kvmm_validate(pool) && !kvmm_pool_get_stat(pool, &stat));
	expect(!memcmp(nr_state, stat.nr_state, sizeof(stat.nr_state)));
}

int main(void)
{
	pthread_t worker[NR_WORKERS], looker[NR_LOOKERS];

	if (flip_one() || make_pool(NR_BLOCKS))
		return 2;
	for (uintptr_t i = 0; i < NR_WORKERS; i++)
		if (pthread_create(&worker[i], NULL, work, (void *)(i + 1)))
			return 2;
	for (uintptr_t i = 0; i < NR_LOOKERS; i++)
		if (pthread_create(&looker[i], NULL, look, (void *)i))
			return 2;
	threads_join(worker, NR_WORKERS);
	WRITE_ONCE(stop, 1);
	threads_join(looker, NR_LOOKERS);
	check_still();
	kvmm_pool_destroy(pool);
	printf("%u maps\n", nr_maps);
	return nr_bad || !nr_maps;
}
