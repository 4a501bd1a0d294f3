// SPDX-License-Identifier: Apache-2.0
/*
 * Single private blocks by many threads, with magazines, while others need every free block: own
 * main(), exit code 0 if all is well.
 *
 * usage: mag_torture [SECONDS [SEED]]
 *
 * Who has a block writes into it, in plain memory on purpose, and finds that again before he gives
 * it back or hands it on: ThreadSanitizer has to find that blocks change hands only with an order.
 * Handles go from thread to thread, so blocks end up where they were not taken. Threads die in
 * between, with full magazines, others outlive pools; one thread needs all that is free, one looks
 * at the whole picture, one moves and evicts. Every other pool has owners with a full fence. When
 * all is given back nothing may be held, lost or miscounted.
 */
#include <unistd.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/sys.h>

#include "tests/support/threads.h"
#include "tests/support/random.h"

#define NR_BLOCKS	2048u
#define NR_WORKERS	4u
#define MAX_HELD	384u
#define MAX_BATCH	70u
#define NR_BOXES	16u
#define NR_NAMES	256u
#define NR_ROUNDS	600u		/* of a worker in one life */
#define NS_PER_SEC	1000000000ull

struct content {
	u64 owner;			/* a number of its own for each holding */
	u64 copy;
};

struct worker {
	pthread_t thread;
	u32 number;
	u64 random;
	u64 nr_done;
	u32 nr_held;
	kvmm_mut_t held[MAX_HELD];
	u64 stamp[MAX_HELD];
};

static struct kvmm_pool *pool;
static struct content memory[NR_BLOCKS];
static u64 box[NR_BOXES];		/* atomic; handles on their way: generation | index */
static u64 next_stamp;			/* atomic */
static u64 nr_calls;			/* atomic */
static u32 stop;			/* atomic */

#define any(worker, below)	lcg_of(&(worker)->random, below)

static bool is_over(void)
{
	return READ_ONCE(stop);
}

/* ---- what a holder does ---- */

static struct content *content_of(kvmm_mut_t mut)
{
	int block = kvmm_block_of_mut(pool, mut);

	expect(block >= 0);
	return &memory[block >= 0 ? block : 0];
}

static void hold(struct worker *worker, kvmm_mut_t mut)
{
	u64 stamp = kv_fetch_add(&next_stamp, 1) + 1;

	*content_of(mut) = (struct content){ stamp, stamp };
	worker->held[worker->nr_held] = mut;
	worker->stamp[worker->nr_held] = stamp;
	worker->nr_held++;
}

/* Nobody else had it in the meantime. */
static kvmm_mut_t let_go(struct worker *worker, u32 at)
{
	kvmm_mut_t mut = worker->held[at];
	struct content *content = content_of(mut);

	expect(content->owner == worker->stamp[at] && content->copy == worker->stamp[at]);
	worker->nr_held--;
	worker->held[at] = worker->held[worker->nr_held];
	worker->stamp[at] = worker->stamp[worker->nr_held];
	return mut;
}

static u32 batch_size(struct worker *worker)
{
	return any(worker, 4) ? 1 : 1 + any(worker, MAX_BATCH);
}

static void take_some(struct worker *worker)
{
	kvmm_mut_t muts[MAX_BATCH];
	u32 nr = batch_size(worker);
	int err;

	if (worker->nr_held + nr > MAX_HELD)
		return;
	err = kvmm_alloc(pool, nr, muts);
	expect(!err || err == -ENOSPC);
	for (u32 i = 0; !err && i < nr; i++)
		hold(worker, muts[i]);
}

static void give_some(struct worker *worker, u32 nr)
{
	kvmm_mut_t muts[MAX_BATCH];

	nr = nr < worker->nr_held ? nr : worker->nr_held;
	if (!nr)
		return;
	for (u32 i = 0; i < nr; i++)
		muts[i] = let_go(worker, any(worker, worker->nr_held));
	expect(!kvmm_free(pool, muts, nr));
	expect(kvmm_free(pool, muts, nr) == -ESTALE);
}

static u64 pack(kvmm_mut_t mut)
{
	return (u64)mut.gen << 32 | mut.index;
}

/* Put one into a box, and whatever was there is ours. */
static void pass_on(struct worker *worker)
{
	u64 *at = &box[any(worker, NR_BOXES)], old;

	if (!worker->nr_held || worker->nr_held == MAX_HELD)
		return;
	old = READ_ONCE(*at);
	/* Release and acquire: what is in the block goes with the handle. */
	while (!kv_cas(at, &old, ~0ull))
		;
	if (old && old != ~0ull)
		hold(worker, (kvmm_mut_t){ (u32)old, old >> 32 });
	if (old != ~0ull)
		smp_store_release(at, pack(let_go(worker, any(worker, worker->nr_held))));
}

static void name_one(struct worker *worker)
{
	kvmm_key_t key = { { 0 } };
	u32 name = any(worker, NR_NAMES);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (!worker->nr_held)
		return;
	memcpy(key.byte, &name, sizeof(name));
	mut = let_go(worker, any(worker, worker->nr_held));
	expect(!kvmm_register(pool, &mut, &key, 1, &ref));
	expect(!kvmm_put(pool, ref));
}

static void *live(void *arg)
{
	struct worker *worker = arg;
	u32 rounds = NR_ROUNDS / 2 + any(worker, NR_ROUNDS);

	for (u32 i = 0; i < rounds && !is_over(); i++) {
		switch (any(worker, 8)) {
		case 0 ... 2:
			take_some(worker);
			break;
		case 3 ... 5:
			give_some(worker, batch_size(worker));
			break;
		case 6:
			pass_on(worker);
			break;
		case 7:
			name_one(worker);
			break;
		}
		kv_fetch_add(&nr_calls, 1);
	}
	while (worker->nr_held)
		give_some(worker, MAX_BATCH);
	return NULL;	/* with a magazine that is not empty */
}

/* ---- those who need the whole picture ---- */

static void *need(void *arg)
{
	struct worker *worker = arg;
	static kvmm_mut_t fresh[NR_BLOCKS];

	while (!is_over()) {
		struct kvmm_acquire_args req = { .nr_blocks = 1 + any(worker, NR_BLOCKS / 2),
						 .fresh = fresh };
		kvmm_range_t range;
		int err = kvmm_acquire(pool, &req);

		expect(!err || err == -ENOSPC);
		if (!err)
			expect(!kvmm_free(pool, fresh, req.nr_fresh));
		err = kvmm_range_alloc(pool, 1 + any(worker, NR_BLOCKS / 2), 0, &range);
		expect(!err || err == -ENOSPC);
		if (!err)
			expect(!kvmm_range_free(pool, range));
	}
	return NULL;
}

static void *look(void *arg)
{
	struct worker *worker = arg;

	while (!is_over()) {
		struct kvmm_pool_stat stat;
		struct kvmm_block_info info;

		expect(!kvmm_pool_get_stat(pool, &stat));
		expect(stat.nr_free <= NR_BLOCKS);
		expect(!kvmm_block_get_info(pool, any(worker, NR_BLOCKS), &info));
		if (!any(worker, 16))
			expect(!kvmm_validate(pool));
		if (!any(worker, 64))
			expect(kvmm_reset_inactive(pool) >= 0);
		usleep(200);
	}
	return NULL;
}

static void *move(void *arg)
{
	struct worker *worker = arg;

	while (!is_over()) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 64 };
		u32 block = any(worker, NR_BLOCKS);
		int err = kvmm_pool_compact(pool, &goal);

		expect(!err || err == -ENOSPC);
		expect(kvmm_evict_blocks(pool, &block, 1) >= 0);
		usleep(500);
	}
	return NULL;
}

/* ---- the whole ---- */

static struct worker workers[NR_WORKERS], others[3];

static void start(struct worker *worker, void *(*fn)(void *arg), u64 seed)
{
	worker->random = seed;
	if (pthread_create(&worker->thread, NULL, fn, worker)) {
		fprintf(stderr, "mag_torture: no thread\n");
		exit(1);
	}
}

static int no_fence(void *ctx)
{
	return -ENOSYS;
}

static void open_pool(bool fenced)
{
	static struct kv_sys_ops ops;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	ops = kv_sys_system;
	ops.fence_all = no_fence;
	kv_sys_set(fenced ? &ops : NULL);
	if (kvmm_pool_create(&attr, &pool)) {
		fprintf(stderr, "mag_torture: no pool\n");
		exit(1);
	}
	kv_sys_set(NULL);
}

static void empty_boxes(void)
{
	for (u32 i = 0; i < NR_BOXES; i++) {
		kvmm_mut_t mut = { (u32)box[i], box[i] >> 32 };

		if (box[i])
			expect(!kvmm_free(pool, &mut, 1));
		box[i] = 0;
	}
}

/* This thread outlives every pool and has a magazine in each. */
static void close_pool(void)
{
	struct kvmm_pool_stat stat;

	empty_boxes();
	expect(kvmm_reset_cache(pool) >= 0);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_free == NR_BLOCKS && stat.nr_state[KVMM_BLOCK_PRIVATE] == 0);
	kvmm_pool_destroy(pool);
}

/* Workers die and are born; the others stay till the end of the pool. */
static void run_pool(u64 seed, u64 until_ns, bool fenced)
{
	static void *(*const jobs[])(void *arg) = { need, look, move };

	open_pool(fenced);
	WRITE_ONCE(stop, 0);
	for (u32 i = 0; i < 3; i++)
		start(&others[i], jobs[i], seed + 100 + i);
	for (u32 i = 0; i < NR_WORKERS; i++)
		start(&workers[i], live, seed + i);
	for (u32 born = NR_WORKERS; kv_clock_ns() < until_ns && !READ_ONCE(nr_bad); born++) {
		struct worker *worker = &workers[born % NR_WORKERS];

		pthread_join(worker->thread, NULL);
		start(worker, live, seed + born);
	}
	WRITE_ONCE(stop, 1);
	for (u32 i = 0; i < NR_WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (u32 i = 0; i < 3; i++)
		pthread_join(others[i].thread, NULL);
	close_pool();
}

/* It has a magazine in each pool, and ends after the last one is gone. */
static void *outlive(void *arg)
{
	u64 seconds = *(u64 *)arg, seed = ((u64 *)arg)[1];
	u64 begin_ns = kv_clock_ns(), end_ns = begin_ns + seconds * NS_PER_SEC;

	for (u32 i = 0; kv_clock_ns() < end_ns && !READ_ONCE(nr_bad); i++)
		run_pool(seed + 1000 * i, kv_clock_ns() + NS_PER_SEC / 2, i % 2);
	return NULL;
}

int main(int argc, char **argv)
{
	u64 args[2] = { argc > 1 ? strtoull(argv[1], NULL, 0) : 4,
			argc > 2 ? strtoull(argv[2], NULL, 0) : 1 };
	pthread_t thread;

	printf("mag_torture: seed %llu\n", (unsigned long long)args[1]);
	if (pthread_create(&thread, NULL, outlive, args))
		return 1;
	pthread_join(thread, NULL);
	kv_rcu_barrier();
	expect(!kv_mem_bytes());
	printf("mag_torture: %llu calls\n", (unsigned long long)nr_calls);
	return nr_bad != 0;
}
