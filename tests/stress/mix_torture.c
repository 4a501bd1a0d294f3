// SPDX-License-Identifier: Apache-2.0
/*
 * Everything at once under threads: three of them call whatever a pool can do, each with handles of its
 * own, move blocks for goals, give memory back and have it again, while a fourth begins and ends steps,
 * moves blocks beside them, and validates. Pools have magazines, arenas, limits, background compaction
 * by a thread of kvmm's. Each private block and each range carries a mark that nobody else may write
 * over. Two more look, without a lock, where ranges lie that keep their length: the places add up to it
 * whatever moves, or the range is refused. Other pools come and go. In the end everything is given
 * back: the pool is valid, counts are 0, and all of it is free.
 *
 * usage: mix_torture [SEED]
 */
#include <kv/pool.h>

#include "tests/support/lease.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	768u
#define BLOCK_BYTES	64u
#define NR_THREADS	3u
#define NR_LOOKERS	3u	/* the first one has steps, too */
#define NR_ROUNDS	4u
#define NR_CALLS	20000u
#define NR_HELD		24u
#define NR_KEYS		96u
#define NR_TENANTS	4u
#define BATCH		8u
#define FIXED_NR	8u	/* a range of so many blocks stays as long */
#define NR_SHARED	16u

static struct kvmm_pool *pool;
static u32 stop;		/* atomic */
static u64 nr_done;		/* atomic */
static u64 shared[NR_SHARED];	/* atomic: handles of ranges of FIXED_NR blocks, which come and go */

struct thread {
	pthread_t id;
	u64 random;
	u32 nr_muts, nr_refs, nr_ranges;
	kvmm_mut_t mut[NR_HELD];
	u64 mut_mark[NR_HELD];
	kvmm_ref_t ref[NR_HELD];
	u32 ref_key[NR_HELD];
	kvmm_range_t range[NR_HELD];
	u64 range_mark[NR_HELD];
	u32 range_nr[NR_HELD];
};

static u64 new_mark(struct thread *t)
{
	return (t->random << 8) | 1;
}

/* ---- private blocks ---- */

static void mark_mut(struct thread *t, kvmm_mut_t mut)
{
	u64 mark = new_mark(t) ^ t->nr_muts;

	expect(!kvmm_mut_write(pool, mut, 0, &mark, sizeof(mark)));
	t->mut[t->nr_muts] = mut;
	t->mut_mark[t->nr_muts++] = mark;
}

static kvmm_mut_t pull_mut(struct thread *t)
{
	u32 at = any_of(&t->random, t->nr_muts);
	kvmm_mut_t mut = t->mut[at];
	u64 mark = 0;

	expect(!kvmm_mut_read(pool, mut, 0, &mark, sizeof(mark)));
	expect(mark == t->mut_mark[at]);
	t->nr_muts--;
	t->mut[at] = t->mut[t->nr_muts];
	t->mut_mark[at] = t->mut_mark[t->nr_muts];
	return mut;
}

static bool is_want_of_room(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EAGAIN;
}

static void alloc(struct thread *t)
{
	static const u32 flags[] = { 0, 0, KVMM_ALLOC_PINNED, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_NO_EVICT,
				     KVMM_ALLOC_NOWAIT, KVMM_ALLOC_CONTIG };
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_mut_t mut[BATCH];
	int err;

	ctl.nr = 1 + any_of(&t->random, 4);
	ctl.tenant = any_of(&t->random, NR_TENANTS);
	ctl.flags = flags[any_of(&t->random, 7)];
	if (t->nr_muts + ctl.nr > NR_HELD)
		return;
	err = any_of(&t->random, 2) ? kvmm_alloc_for(pool, ctl.nr, ctl.tenant, mut) : kvmm_alloc_as(pool, &ctl, mut);
	expect(!err || is_want_of_room(err));
	for (u32 i = 0; !err && i < ctl.nr; i++)
		mark_mut(t, mut[i]);
}

static void free_mut(struct thread *t)
{
	kvmm_mut_t mut;

	if (!t->nr_muts)
		return;
	mut = pull_mut(t);
	expect(!kvmm_free(pool, &mut, 1));
}

/* ---- cached blocks: a key has the same content whoever fills it ---- */

static kvmm_key_t key_of(u32 number)
{
	return (kvmm_key_t){ { number, 7 } };
}

static void keep_ref(struct thread *t, kvmm_ref_t ref, u32 number)
{
	u64 word = 0;

	expect(!kvmm_ref_read(pool, ref, 0, &word, sizeof(word)));
	expect(word == number + 1000000);
	if (t->nr_refs == NR_HELD) {
		expect(!kvmm_put(pool, ref));
		return;
	}
	t->ref_key[t->nr_refs] = number;
	t->ref[t->nr_refs++] = ref;
}

static void publish(struct thread *t)
{
	u32 number = any_of(&t->random, NR_KEYS);
	u64 word = number + 1000000;
	kvmm_key_t key = key_of(number);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .position = number % BATCH };
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (!t->nr_muts)
		return;
	mut = pull_mut(t);
	expect(!kvmm_mut_write(pool, mut, 0, &word, sizeof(word)));
	expect(!kvmm_prefix_register(pool, &prefix, &mut, &ref));
	keep_ref(t, ref, number);
}

static void match(struct thread *t)
{
	u32 first = any_of(&t->random, NR_KEYS / BATCH) * BATCH;
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	int nr;

	for (u32 i = 0; i < BATCH; i++)
		key[i] = key_of(first + i);
	nr = kvmm_match(pool, key, BATCH, ref);
	expect(nr >= 0);
	for (int i = 0; i < nr; i++)
		keep_ref(t, ref[i], first + i);
}

static void put(struct thread *t)
{
	u32 at;
	u64 word = 0;

	if (!t->nr_refs)
		return;
	at = any_of(&t->random, t->nr_refs);
	expect(!kvmm_ref_read(pool, t->ref[at], 0, &word, sizeof(word)));
	expect(word == t->ref_key[at] + 1000000);
	expect(!kvmm_touch(pool, t->ref[at]));
	expect(!kvmm_put(pool, t->ref[at]));
	t->nr_refs--;
	t->ref[at] = t->ref[t->nr_refs];
	t->ref_key[at] = t->ref_key[t->nr_refs];
}

static void hold(struct thread *t)
{
	kvmm_key_t key = key_of(any_of(&t->random, NR_KEYS));
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix };
	kvmm_lease_t handle;
	int nr;

	attr.owner = 1 + any_of(&t->random, 3);
	attr.flags = any_of(&t->random, 2) ? KVMM_LEASE_PIN : 0;
	nr = kvmm_lease_take(pool, &attr, &handle);
	expect(nr == 1 || nr == -ENOENT || nr == -EBUSY);
	if (nr == 1)
		expect(!drop_lease(pool, handle));
}

/* ---- ranges ---- */

static void check_range(struct thread *t, u32 at)
{
	u64 word = 0;
	u32 i = any_of(&t->random, t->range_nr[at]);

	expect(!kvmm_range_read(pool, t->range[at], i, 0, &word, sizeof(word)));
	expect(word == t->range_mark[at] + i);
}

static void mark_range(struct thread *t, u32 at, u32 from)
{
	for (u32 i = from; i < t->range_nr[at]; i++) {
		u64 word = t->range_mark[at] + i;

		expect(!kvmm_range_write(pool, t->range[at], i, 0, &word, sizeof(word)));
	}
}

static void take_range(struct thread *t)
{
	u32 at = t->nr_ranges;
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any_of(&t->random, 16),
					.max_runs = 1 + any_of(&t->random, 4), .tenant = any_of(&t->random, NR_TENANTS),
					.flags = any_of(&t->random, 3) ? 0 : KVMM_ALLOC_GROWS };
	int err;

	if (at == NR_HELD)
		return;
	err = kvmm_range_alloc_attr(pool, &attr, &t->range[at]);
	expect(!err || is_want_of_room(err));
	if (err)
		return;
	t->range_mark[at] = new_mark(t);
	t->range_nr[at] = attr.nr;
	t->nr_ranges++;
	mark_range(t, at, 0);
	if (attr.nr == FIXED_NR)
		WRITE_ONCE(shared[any_of(&t->random, NR_SHARED)],
			   (u64)t->range[at].gen << 32 | t->range[at].index);
}

static void change_range(struct thread *t)
{
	u32 at, nr;
	int err;

	if (!t->nr_ranges)
		return;
	at = any_of(&t->random, t->nr_ranges);
	check_range(t, at);
	nr = t->range_nr[at];
	switch (nr == FIXED_NR ? 2 + any_of(&t->random, 2) : any_of(&t->random, 4)) {
	case 0:
		if (nr > 64)
			return;
		err = kvmm_range_grow(pool, t->range[at], 2);
		expect(!err || is_want_of_room(err));
		t->range_nr[at] += err ? 0 : 2;
		mark_range(t, at, nr);
		break;
	case 1:
		if (nr > 1) {
			expect(!kvmm_range_shrink(pool, t->range[at], 1));
			t->range_nr[at]--;
		}
		break;
	case 2:
		expect(!kvmm_range_seal(pool, t->range[at], 1 + any_of(&t->random, nr)));
		break;
	default:
		expect(!kvmm_range_free(pool, t->range[at]));
		t->nr_ranges--;
		t->range[at] = t->range[t->nr_ranges];
		t->range_mark[at] = t->range_mark[t->nr_ranges];
		t->range_nr[at] = t->range_nr[t->nr_ranges];
	}
}

static void gang(struct thread *t)
{
	struct kvmm_gang_want want[2] = { { .kind = KVMM_GANG_BLOCKS, .nr = 1 + any_of(&t->random, 4) },
					  { .kind = KVMM_GANG_RANGE, .nr = 1 + any_of(&t->random, 6) } };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	kvmm_mut_t mut[4];
	struct kvmm_gang *taken;
	u32 at = t->nr_ranges;
	int err;

	if (t->nr_muts + 4 > NR_HELD || at == NR_HELD)
		return;
	attr.pools = &pool;
	attr.nr_pools = 1;
	attr.wants = want;
	attr.nr = 2;
	err = kvmm_gang_reserve(&attr, &taken, NULL);
	expect(!err || is_want_of_room(err));
	if (err)
		return;
	if (any_of(&t->random, 2)) {
		expect(!kvmm_gang_abort(taken));
		return;
	}
	expect(!kvmm_gang_commit(taken, mut, &t->range[at]));
	for (u32 i = 0; i < want[0].nr; i++)
		mark_mut(t, mut[i]);
	t->range_mark[at] = new_mark(t);
	t->range_nr[at] = want[1].nr;
	t->nr_ranges++;
	mark_range(t, at, 0);
}

/* ---- what concerns all ---- */

static bool is_of_course(int err)
{
	return !err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN;
}

static void move_for_goal(struct thread *t)
{
	struct kvmm_compact_goal goal = KVMM_COMPACT_GOAL_INIT;
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

	goal.goal = any_of(&t->random, KVMM_NR_GOALS);
	goal.mode = any_of(&t->random, KVMM_NR_MOVE_MODES);
	goal.flags = any_of(&t->random, 8);
	goal.want = 1 + any_of(&t->random, 12);
	goal.pageblock_blocks = 1u << any_of(&t->random, 5);
	goal.max_blocks = any_of(&t->random, 60);
	if (goal.goal == KVMM_GOAL_GATHER) {
		if (!t->nr_ranges)
			return;
		goal.range = t->range[any_of(&t->random, t->nr_ranges)];
	}
	if (any_of(&t->random, 3))
		expect(is_of_course(kvmm_compact_goal_start(pool, &goal, &plan)));
	else
		expect(is_of_course(kvmm_compact_get_plan(pool, &goal, &plan)));
}

/* Goes and comes; what one thread gives back another one may have again. */
static void move_memory(struct thread *t)
{
	struct kvmm_shrink less = { .size = sizeof(less), .nr_blocks = 1 + any_of(&t->random, 64), .min_blocks = 1 };
	struct kvmm_regain more = { .size = sizeof(more) };
	int ret;

	switch (any_of(&t->random, 5)) {
	case 0:
		expect(is_of_course(kvmm_pool_shrink(pool, &less)));
		break;
	case 1:
		expect(is_of_course(kvmm_pool_shrink_start(pool, &less, any_of(&t->random, 2))));
		break;
	case 2:
		ret = kvmm_pool_shrink_poll(pool, NULL);
		expect(ret == 1 || is_of_course(ret));
		break;
	case 3:
		ret = kvmm_pool_shrink_cancel(pool);
		expect(!ret || ret == -EINVAL);
		break;
	default:
		expect(is_of_course(kvmm_pool_grow(pool, &more)));
	}
}

static void others(struct thread *t)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + any_of(&t->random, 20),
				     .max_blocks = any_of(&t->random, 20) };
	struct kvmm_evict_for_args room = { .size = sizeof(room),
					    .nr_blocks = any_of(&t->random, 12) };
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_promise_t promise;
	u32 block = any_of(&t->random, NR_BLOCKS);

	switch (any_of(&t->random, 8)) {
	case 0:
		(void)kvmm_pool_compact(pool, &goal);
		break;
	case 5:
	case 6:
		move_for_goal(t);
		break;
	case 7:
		move_memory(t);
		break;
	case 1:
		(void)kvmm_compact_start(pool, &goal, any_of(&t->random, 2));
		break;
	case 2:
		expect(kvmm_evict_blocks(pool, &block, 1) >= 0);
		break;
	case 3:
		(void)kvmm_evict_for(pool, &room);
		break;
	default:
		ctl.nr = 1 + any_of(&t->random, 8);
		if (!kvmm_promise_make(pool, &ctl, &promise))
			expect(kvmm_promise_end(pool, promise) == (int)ctl.nr);
	}
}

static void give_back(struct thread *t)
{
	while (t->nr_muts)
		free_mut(t);
	while (t->nr_refs)
		put(t);
	for (; t->nr_ranges; t->nr_ranges--)
		expect(!kvmm_range_free(pool, t->range[t->nr_ranges - 1]));
}

static void *call(void *arg)
{
	static void (*const calls[])(struct thread *t) = {
		alloc, alloc, free_mut, publish, publish, match, match, put, put, hold, take_range,
		take_range, change_range, change_range, gang, others,
	};
	struct thread *t = arg;

	for (u32 i = 0; i < NR_CALLS && !READ_ONCE(nr_bad); i++)
		calls[any_of(&t->random, ARRAY_SIZE(calls))](t);
	give_back(t);
	kv_fetch_add(&nr_done, 1);
	return NULL;
}

static void *look_where(void *arg)
{
	u64 random = (uintptr_t)arg * 77 + 1;

	while (!smp_load_acquire(&stop)) {
		u64 word = READ_ONCE(shared[any_of(&random, NR_SHARED)]);
		struct kvmm_extent ext[KVMM_MAX_RUNS];
		int nr = kvmm_range_extents(pool, (kvmm_range_t){ (u32)word, word >> 32 }, ext, KVMM_MAX_RUNS);
		u32 sum = 0;

		expect(nr > 0 ? nr <= KVMM_MAX_RUNS : nr == -ESTALE || nr == -EINVAL);
		for (int i = 0; i < nr; i++) {
			sum += ext[i].nr;
			expect(ext[i].start + ext[i].nr <= NR_BLOCKS);
		}
		expect(nr <= 0 || sum == FIXED_NR);
	}
	return NULL;
}

static void check_pools(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
	struct kvmm_pool_stat stat;
	struct kvmm_pool *other;
	u32 sum;

	expect(!kvmm_pool_get_stat(pool, &stat) && stat.nr_available <= NR_BLOCKS);
	sum = stat.nr_away;
	for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++)
		sum += stat.nr_state[i];
	expect(sum == NR_BLOCKS);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_create(&attr, &other));
	kvmm_pool_destroy(other);
}

/* An engine's steps, moves between them, and somebody who looks whether all is well. */
static void *look(void *arg)
{
	kvmm_stream_t stream;
	uint64_t epoch;
	u32 i = 0;

	(void)arg;
	expect(!kvmm_stream_add(pool, NULL, 0, &stream));
	while (!smp_load_acquire(&stop)) {
		expect(!kvmm_step_begin(pool, stream, &epoch));
		expect(kvmm_background_tick(pool) >= 0);
		expect(!kvmm_step_end(pool, stream, epoch));
		expect(kvmm_compact_poll(pool) >= 0);
		if (++i % 16 == 0)
			check_pools();
	}
	expect(!kvmm_stream_del(pool, stream));
	return NULL;
}

/* ---- rounds ---- */

static u8 memory[NR_BLOCKS * BLOCK_BYTES] __attribute__((aligned(4096)));

static void make_pool(u32 round)
{
	const struct kvmm_plane plane = { (uintptr_t)memory, BLOCK_BYTES, BLOCK_BYTES };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = 8 * BLOCK_BYTES };
	static const char *const policy[] = { "lru", "default", "s3fifo", "lru-classic" };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = policy[round % 4], .planes = &plane,
				       .nr_planes = 1,
				       .zero = round % 2 ? KVMM_ZERO_TENANT : KVMM_ZERO_NEVER };
	struct kvmm_background how = { .size = sizeof(how), .max_blocks = 1024, .interval_ms = 1,
				       .threshold_pm = 50, .flags = KVMM_BACKGROUND_THREAD };
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;

	memset(shared, 0, sizeof(shared));
	expect(!kvmm_pool_create(&attr, &pool));
	expect(!kvmm_pool_elastic_setup(pool, &elastic));
	expect(!kvmm_background_set(pool, &how));
	limit.max = NR_BLOCKS / 3;
	if (round % 4 == 1 || round % 4 == 2)
		expect(!kvmm_tenant_set(pool, 1, &limit));
	if (round % 4 != 1)
		(void)kv_pool_force_arenas(pool, 2);
}

static void end_pool(void)
{
	struct kvmm_regain all = { .size = sizeof(all) };
	struct kvmm_pool_stat stat;

	expect(!kvmm_background_set(pool, NULL));
	(void)kvmm_pool_shrink_cancel(pool);
	expect(kvmm_compact_cancel(pool) >= 0);
	expect(!kvmm_compact_poll(pool));
	(void)kvmm_pool_grow(pool, &all);
	expect(!kvmm_validate(pool));
	expect(kvmm_reset_cache(pool) >= 0);
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.allocs > NR_CALLS / 4 && stat.evictions && stat.hit_blocks && stat.registered &&
	       stat.moved_blocks);
	expect(stat.nr_free == NR_BLOCKS && !stat.nr_ranges);
	for (u32 i = KVMM_BLOCK_FREE + 1; i < KVMM_NR_BLOCK_STATES; i++)
		expect(!stat.nr_state[i]);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
}

static void one_round(u32 round, u64 seed)
{
	struct thread thread[NR_THREADS];
	pthread_t looker[NR_LOOKERS];

	make_pool(round);
	smp_store_release(&stop, 0);
	for (uintptr_t i = 0; i < NR_LOOKERS; i++)
		expect(!pthread_create(&looker[i], NULL, i ? look_where : look, (void *)i));
	for (u32 i = 0; i < NR_THREADS; i++) {
		memset(&thread[i], 0, sizeof(thread[i]));
		thread[i].random = (seed * NR_ROUNDS * NR_THREADS + round * NR_THREADS + i + 1) *
				   0x9e3779b97f4a7c15ull | 1;
		expect(!pthread_create(&thread[i].id, NULL, call, &thread[i]));
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i].id, NULL);
	smp_store_release(&stop, 1);
	threads_join(looker, NR_LOOKERS);
	end_pool();
}

int main(int argc, char **argv)
{
	u64 seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;

	printf("mix_torture: seed %llu\n", (unsigned long long)seed);
	for (u32 round = 0; round < NR_ROUNDS && !nr_bad; round++)
		one_round(round, seed);
	expect(nr_done == NR_ROUNDS * NR_THREADS);
	return nr_bad != 0;
}
