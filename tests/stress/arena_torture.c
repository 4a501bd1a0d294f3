// SPDX-License-Identifier: Apache-2.0
/*
 * Arenas under threads that come and go.
 *
 * Workers take and free ranges of 1 to 40 blocks, each with its mark on the blocks that it holds; some
 * ranges are handed to other threads to be freed there; now and then a worker wants more of one
 * (another reference, a pin, more blocks), and now and then it dies, leaving what it has
 * to whoever comes next. Others look at ranges without a lock, move blocks, validate, read counts, and
 * take so much at once that everything kept aside is needed. In the end all is free, and counts are 0.
 *
 * A block that is in two ranges is seen by its mark. Behind watermarks no thread sees fewer free blocks,
 * and no tenant has more blocks than its limit says. Accounts come and go.
 *
 * usage: arena_torture [SEED]
 */
#include <kv/pool.h>

#include "tests/support/key.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	4096u
#define NR_WORKERS	4u
#define NR_LIVES	6u	/* of each worker */
#define NR_STEPS	3000u	/* in a life */
#define NR_HELD		24u
#define NR_SHARED	64u
#define MAX_EXT		256u	/* of ranges that grow */

static struct kvmm_pool *pool;
static u32 low;				/* what is left free; of the watermarks */
static bool limited;			/* tenants have limits */
static const u32 max_of[] = { KVMM_TENANT_NO_LIMIT, 1400, 400, KVMM_TENANT_NO_LIMIT };
static u64 seed = 1;
static u32 mark[NR_BLOCKS];		/* atomic: who has the block; 0: nobody that is known */
static u64 shared[NR_SHARED];		/* atomic: handles that wait for somebody to free them */
static u32 stop;			/* atomic */
static u32 next_mark = 1;		/* atomic */

/* Nothing moves meanwhile: no request lets others be moved. */
static void set_marks(kvmm_range_t range, u32 from, u32 to)
{
	struct kvmm_extent ext[MAX_EXT];
	int nr = kvmm_range_extents(pool, range, ext, MAX_EXT);

	expect(nr > 0 && nr <= (int)MAX_EXT);
	for (int i = 0; i < nr; i++)
		for (u32 b = ext[i].start; b < ext[i].start + ext[i].nr; b++)
			expect(__atomic_exchange_n(&mark[b], to, __ATOMIC_RELAXED) == from);
}

struct held {
	kvmm_range_t range;
	u32 mark;
};

static bool take_one(u64 *r, struct held *held)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any_of(r, 40),
					.max_runs = 1 + any_of(r, 4), .flags = KVMM_ALLOC_NO_COMPACT };

	if (any_of(r, 2))
		attr.seq = 1 + any_of(r, 100);
	attr.tenant = any_of(r, ARRAY_SIZE(max_of));
	if (kvmm_range_alloc_attr(pool, &attr, &held->range))
		return false;
	held->mark = kv_fetch_add(&next_mark, 1);
	set_marks(held->range, 0, held->mark);
	return true;
}

static void free_one(struct held *held)
{
	set_marks(held->range, held->mark, 0);
	expect(!kvmm_range_free(pool, held->range));
	expect(kvmm_range_free(pool, held->range) == -ESTALE);
}

/* Whoever finds a handle there frees it. Marks are taken off before. */
static void hand_over(u64 *r, struct held *held)
{
	u64 old;

	set_marks(held->range, held->mark, 0);
	old = __atomic_exchange_n(&shared[any_of(r, NR_SHARED)], pack(held->range), __ATOMIC_ACQ_REL);
	if (old)
		expect(!kvmm_range_free(pool, unpack(old)));
}

static void want_more(u64 *r, struct held *held)
{
	struct kvmm_range_info info;

	switch (any_of(r, 4)) {
	case 0:
		expect(!kvmm_range_get(pool, held->range));
		expect(!kvmm_range_free(pool, held->range));
		break;
	case 1:
		expect(!kvmm_range_pin(pool, held->range));
		expect(kvmm_range_free(pool, held->range) == -EBUSY);
		expect(!kvmm_range_unpin(pool, held->range));
		break;
	case 2:
		set_marks(held->range, held->mark, 0);
		kvmm_range_grow(pool, held->range, 1 + any_of(r, 4));
		set_marks(held->range, 0, held->mark);
		break;
	default:
		expect(!kvmm_range_get_info(pool, held->range, &info) && info.refs == 1);
	}
}

static void *live(void *arg)
{
	u64 r = (seed * 100000 + (uintptr_t)arg) * 0x9e3779b97f4a7c15ull | 1;
	struct held held[NR_HELD];
	u32 nr = 0;

	for (u32 i = 0; i < NR_STEPS; i++) {
		u32 at = nr ? any_of(&r, nr) : 0;

		if (nr < NR_HELD && (!nr || any_of(&r, 2))) {
			nr += take_one(&r, &held[nr]);
		} else if (!any_of(&r, 8)) {
			want_more(&r, &held[at]);
		} else {
			if (any_of(&r, 4))
				free_one(&held[at]);
			else
				hand_over(&r, &held[at]);
			held[at] = held[--nr];
		}
	}
	while (nr)
		hand_over(&r, &held[--nr]);
	pthread_exit(NULL);
}

/* Threads die, and others take their place. */
static void *work(void *arg)
{
	for (uintptr_t life = 0; life < NR_LIVES; life++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, live,
				   (void *)((uintptr_t)arg * 1000 + life + 1)))
			abort();
		pthread_join(thread, NULL);
	}
	return NULL;
}

/* Ranges that are anybody's: whole, or refused. */
static void *look(void *arg)
{
	u64 r = 4711;

	while (!READ_ONCE(stop)) {
		u64 word = __atomic_load_n(&shared[any_of(&r, NR_SHARED)], __ATOMIC_ACQUIRE);
		struct kvmm_extent ext[KVMM_MAX_RUNS];
		int nr = word ? kvmm_range_extents(pool, unpack(word), ext, KVMM_MAX_RUNS) : 0;

		expect(nr >= 0 || nr == -ESTALE);
		for (int i = 0; i < nr && i < (int)KVMM_MAX_RUNS; i++)
			expect(ext[i].nr && ext[i].start + ext[i].nr <= NR_BLOCKS);
	}
	return NULL;
}

static void limit_tenant(u32 tenant)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	attr.max = max_of[tenant];
	expect(!kvmm_tenant_set(pool, tenant, &attr));
}

/* The last one has an account at times. */
static void look_at_tenants(u64 *r)
{
	u32 tenant = any_of(r, ARRAY_SIZE(max_of));
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	int err = kvmm_tenant_get_stat(pool, tenant, &stat);

	if (tenant < ARRAY_SIZE(max_of) - 1) {
		expect(!err && stat.usage <= max_of[tenant] && stat.usage <= stat.peak);
		return;
	}
	expect(!err || err == -ENOENT);
	if (err)
		limit_tenant(tenant);
	else
		expect((err = kvmm_tenant_del(pool, tenant)) == -EBUSY || !err);
}

static void *disturb(void *arg)
{
	u64 r = 815 + seed;

	while (!READ_ONCE(stop)) {
		struct kvmm_pool_stat stat;
		struct kvmm_block_info info;
		kvmm_range_t range;
		u32 used = 0;

		switch (any_of(&r, 8)) {
		case 0:
			expect(!kvmm_validate(pool));
			break;
		case 1:
			if (!kvmm_range_alloc(pool, 1 + any_of(&r, NR_BLOCKS / 2),
					      KVMM_RUNS(8) | KVMM_ALLOC_NO_COMPACT, &range))
				expect(!kvmm_range_free(pool, range));
			break;
		case 3:
			expect(kvmm_ranges_of_seq(pool, 1 + any_of(&r, 100), 0, &range, 1) >= 0);
			break;
		case 2:
			expect(!kvmm_block_get_info(pool, any_of(&r, NR_BLOCKS), &info));
			break;
		case 4:
			if (limited)
				look_at_tenants(&r);
			break;
		default:
			expect(!kvmm_pool_get_stat(pool, &stat));
			for (u32 i = KVMM_BLOCK_FREE + 1; i < KVMM_NR_BLOCK_STATES; i++)
				used += stat.nr_state[i];
			expect(stat.nr_free + used == NR_BLOCKS);
			expect(stat.nr_free >= low);
		}
	}
	return NULL;
}

static void torture(u32 nr_arenas, u32 nr_left, bool has_limits)
{
	struct kvmm_watermarks marks = { .min = nr_left / 2, .low = nr_left, .high = nr_left };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS };
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_pool_stat stat;
	pthread_t worker[NR_WORKERS], looker, disturber;

	if (kvmm_pool_create(&attr, &pool))
		abort();
	limited = has_limits;
	for (u32 i = 0; limited && i < ARRAY_SIZE(max_of); i++)
		limit_tenant(i);
	if (nr_arenas)
		expect(!kv_pool_force_arenas(pool, nr_arenas));
	stop = 0;
	low = nr_left;
	expect(!kvmm_watermarks_set(pool, &marks));
	pthread_create(&looker, NULL, look, NULL);
	pthread_create(&disturber, NULL, disturb, NULL);
	for (uintptr_t i = 0; i < NR_WORKERS; i++)
		pthread_create(&worker[i], NULL, work, (void *)i);
	threads_join(worker, NR_WORKERS);
	WRITE_ONCE(stop, 1);
	pthread_join(looker, NULL);
	pthread_join(disturber, NULL);
	expect(!kvmm_pool_compact(pool, &goal));
	for (u32 i = 0; i < NR_SHARED; i++) {
		if (shared[i])
			expect(!kvmm_range_free(pool, unpack(shared[i])));
		shared[i] = 0;
	}
	expect(!kvmm_pool_get_stat(pool, &stat) && stat.nr_free == NR_BLOCKS && !stat.nr_ranges);
	expect(!kvmm_validate(pool));
	for (u32 i = 0; limited && i < ARRAY_SIZE(max_of); i++) {
		struct kvmm_tenant_stat tenant = { .size = sizeof(tenant) };

		expect(kvmm_tenant_get_stat(pool, i, &tenant) == -ENOENT || !tenant.usage);
	}
	kvmm_pool_destroy(pool);
	memset(mark, 0, sizeof(mark));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	printf("arena_torture: seed %llu\n", (unsigned long long)seed);
	torture(4, 0, false);
	torture(4, 0, true);
	torture(4, NR_BLOCKS / 4, false);
	torture(4, NR_BLOCKS - 3000, false);	/* it is reached all the time */
	torture(4, NR_BLOCKS - 3000, true);
	torture(1, 0, false);
	torture(0, 0, false);	/* as the threads meet */
	torture(0, NR_BLOCKS / 50, true);
	return nr_bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
