// SPDX-License-Identifier: Apache-2.0
/*
 * Owners that are released, or expire, while they use what they have. Exit code 0: no late writer hit
 * what belonged to somebody else by then, nothing was lost, and the pool is valid.
 *
 * Each worker writes its own number into its ranges and blocks, and reads it back; a reaper takes
 * things away from under it. Whatever a worker can read through a live handle is its own number: each
 * write is followed by reads, so a write through a stale handle would be seen by the next owner.
 */
#include <sched.h>

#include "tests/support/threads.h"

#define NR_BLOCKS	24u
#define BLOCK_BYTES	64u
#define NR_WORKERS	3u
#define NR_BATCH	6u
#define NR_REFUSED	64u		/* of each batch */
#define NR_REGISTERED	8u		/* batches a step */
#define NR_TAKEN	150u		/* by release, and by expiry, before it is enough */
#define MAX_ROUNDS	2000000u
#define SECOND		1000000000ull

static struct kvmm_pool *pool;
static u32 stop;				/* atomic */
static u32 nr_released, nr_late, nr_reaped;	/* atomic */

struct worker {
	pthread_t thread;
	u64 owner;
	u32 step;
};

/* 0, or it is not ours any more. */
static int check(int err)
{
	expect(!err || err == -ESTALE);
	if (err)
		kv_fetch_add(&nr_late, 1);
	return err;
}

/* The call, again for as long as a release has not decided whether the block goes. */
#define decided(call) ({			\
	int ___err;				\
						\
	while ((___err = (call)) == -EBUSY)	\
		sched_yield();			\
	___err;					\
})

/* 0: it is private again. */
static int name_for_a_while(kvmm_mut_t mut, const kvmm_key_t *key)
{
	const struct kvmm_prefix prefix = { .keys = key, .nr = 1 };
	kvmm_staged_t staged;
	kvmm_mut_t again;

	return check(decided(kvmm_stage(pool, &prefix, &mut, &staged))) ?:
	       check(decided(kvmm_unstage(pool, &staged, 1, &again)));
}

static bool is_mine(const u8 *seen, u8 mine)
{
	for (u32 i = 0; i < BLOCK_BYTES; i++)
		if (seen[i] != mine)
			return false;
	return true;
}

static void use_range(struct worker *me)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2, .owner = me->owner,
					.lease_ns = me->step % 3 ? 0 : SECOND,
					.own_flags = KVMM_LEASE_RECLAIM };
	u8 mine[BLOCK_BYTES], seen[BLOCK_BYTES];
	kvmm_range_t range;

	if (kvmm_range_alloc_attr(pool, &attr, &range))
		return;
	for (u32 i = 0; i < 4; i++) {
		memset(mine, (me->owner << 6 | (me->step + i)) & 0xff, sizeof(mine));
		if (check(kvmm_range_write(pool, range, i % 2, 0, mine, sizeof(mine))))
			return;
		if (check(kvmm_range_read(pool, range, i % 2, 0, seen, sizeof(seen))))
			return;
		expect(is_mine(seen, mine[0]));
	}
	check(kvmm_range_free(pool, range));
}

static void use_block(struct worker *me)
{
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = me->owner,
				       .lease_ns = me->step % 3 ? 0 : SECOND,
				       .flags = KVMM_LEASE_RECLAIM };
	kvmm_key_t key = { { me->owner, me->step, me->step >> 8, 1 } };
	u8 mine[BLOCK_BYTES], seen[BLOCK_BYTES];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (kvmm_alloc(pool, 1, &mut) || check(kvmm_lease_own_muts(pool, &own, &mut, 1)))
		return;
	memset(mine, (me->owner << 6 | me->step) & 0xff, sizeof(mine));
	for (u32 i = 0; i < 3; i++) {
		if (check(decided(kvmm_mut_write(pool, mut, 0, mine, sizeof(mine)))) ||
		    check(decided(kvmm_mut_read(pool, mut, 0, seen, sizeof(seen)))))
			return;
		expect(is_mine(seen, mine[0]));
	}
	if (name_for_a_while(mut, &key))
		return;
	if (me->step % 2) {
		check(kvmm_free(pool, &mut, 1));
	} else if (!check(decided(kvmm_register(pool, &mut, &key, 1, &ref)))) {
		expect(!kvmm_ref_read(pool, ref, 0, seen, sizeof(seen)));
		expect(is_mine(seen, mine[0]));
		expect(!kvmm_put_many(pool, &ref, 1));
	}
}

/* A call refused all of them: none was left staged, whose owner has it as private. */
static void expect_none_staged(const kvmm_mut_t *muts)
{
	for (u32 i = 0; i < NR_BATCH; i++) {
		kvmm_staged_t staged = { muts[i].index, muts[i].gen };
		kvmm_mut_t back;

		expect(decided(kvmm_unstage(pool, &staged, 1, &back)) != 0);
	}
}

/* Private blocks of the worker's, and names for them; the first one stands there twice. */
struct batch {
	kvmm_mut_t muts[NR_BATCH + 1];
	kvmm_key_t keys[NR_BATCH + 1];
};

static bool take_batch(struct worker *me, struct batch *batch)
{
	const struct kvmm_lease_attr own = { .size = sizeof(own), .owner = me->owner,
					     .lease_ns = me->step % 8 ? 0 : SECOND,
					     .flags = KVMM_LEASE_RECLAIM };

	if (kvmm_alloc(pool, NR_BATCH, batch->muts) ||
	    check(kvmm_lease_own_muts(pool, &own, batch->muts, NR_BATCH)))
		return false;
	batch->muts[NR_BATCH] = batch->muts[0];
	for (u32 i = 0; i <= NR_BATCH; i++)
		batch->keys[i] = (kvmm_key_t){ { me->owner, me->step, me->step >> 8, 2 + i } };
	return true;
}

static void free_batch(const struct batch *batch)
{
	for (u32 i = 0; i < NR_BATCH; i++)
		check(kvmm_free(pool, &batch->muts[i], 1));
}

/* Calls are refused while releases begin that take some blocks of the batch, and put them back. */
static void refuse_batch(struct worker *me)
{
	struct batch batch;
	const struct kvmm_prefix twice = { .keys = batch.keys, .nr = NR_BATCH + 1 };
	const struct kvmm_prefix once = { .keys = batch.keys, .nr = NR_BATCH };
	kvmm_staged_t staged[NR_BATCH + 1];

	if (!take_batch(me, &batch))
		return;
	for (u32 i = 0; i < NR_REFUSED; i++) {
		expect(kvmm_stage(pool, &twice, batch.muts, staged) != 0);
		expect_none_staged(batch.muts);
	}
	if (!kvmm_stage(pool, &once, batch.muts, staged)) {
		staged[NR_BATCH] = staged[0];
		for (u32 i = 0; i < NR_REFUSED; i++)
			expect(kvmm_unstage(pool, staged, NR_BATCH + 1, batch.muts) != 0);
		for (u32 i = 0; i < NR_BATCH; i++)
			check(decided(kvmm_unstage(pool, &staged[i], 1, &batch.muts[i])));
	}
	free_batch(&batch);
}

static void register_batch(struct worker *me)
{
	kvmm_ref_t refs[NR_BATCH];
	struct batch batch;
	int err;

	if (!take_batch(me, &batch))
		return;
	while ((err = kvmm_register(pool, batch.muts, batch.keys, NR_BATCH, refs)) == -EBUSY)
		expect_none_staged(batch.muts);
	if (err)
		free_batch(&batch);
	else
		expect(!kvmm_put_many(pool, refs, NR_BATCH));
}

/* Of the first worker's owner: while a block is being named a release puts the others back. */
static void *name(void *arg)
{
	const struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 1 };
	kvmm_key_t key = { { 0 } };
	kvmm_mut_t mut;

	while (!READ_ONCE(stop)) {
		if (kvmm_alloc(pool, 1, &mut) || check(kvmm_lease_own_muts(pool, &own, &mut, 1)))
			continue;
		for (u32 i = 0; i < NR_REFUSED && !name_for_a_while(mut, &key); i++)
			;
		check(kvmm_free(pool, &mut, 1));
	}
	return NULL;
}

static void *work(void *arg)
{
	struct worker *me = arg;

	for (; me->step < MAX_ROUNDS && !READ_ONCE(nr_bad); me->step++) {
		if (READ_ONCE(nr_released) > NR_TAKEN && READ_ONCE(nr_reaped) > NR_TAKEN)
			break;
		use_range(me);
		use_block(me);
		refuse_batch(me);
		for (u32 i = 0; i < NR_REGISTERED; i++)
			register_batch(me);
		if (me->step % 16 == 0)
			expect(kvmm_lease_renew(pool, me->owner, NULL, SECOND) >= 0);
	}
	return NULL;
}

static void reap_one(u32 step)
{
	const struct kvmm_lease_filter leaks = { .size = sizeof(leaks), .leaks = KVMM_LEAK_ANY };
	struct kvmm_lease_info rows[4];
	u64 cursor = 0;
	int nr = kvmm_lease_release(pool, 1 + step % NR_WORKERS, NULL);

	expect(nr >= 0 || nr == -EBUSY);
	if (nr > 0)
		kv_fetch_add(&nr_released, nr);
	nr = kvmm_lease_expire(pool, UINT64_MAX, NULL);
	expect(nr >= 0);
	kv_fetch_add(&nr_reaped, nr);
	while ((nr = kvmm_lease_list(pool, &leaks, &cursor, rows, 4)) == 4)
		;
	expect(nr >= 0);
	if (step % 512 == 511)
		expect(!kvmm_validate(pool));
}

static void *reap(void *arg)
{
	for (u32 step = 0; !READ_ONCE(stop); step++) {
		reap_one(step);
		sched_yield();
	}
	return NULL;
}

static void make_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .policy = "lru",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BLOCK_BYTES };

	expect(!kvmm_pool_create(&attr, &pool));
}

int main(void)
{
	struct worker workers[NR_WORKERS];
	struct kvmm_pool_stat stat;
	pthread_t reaper, namer;

	make_pool();
	pthread_create(&reaper, NULL, reap, NULL);
	pthread_create(&namer, NULL, name, NULL);
	for (u32 i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){ .owner = i + 1 };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (u32 i = 0; i < NR_WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	WRITE_ONCE(stop, 1);
	pthread_join(reaper, NULL);
	pthread_join(namer, NULL);
	for (u32 i = 0; i < NR_WORKERS; i++)
		expect(kvmm_lease_release(pool, i + 1, NULL) >= 0);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_available == NR_BLOCKS);
	printf("released %u, reaped %u, late %u\n", nr_released, nr_reaped, nr_late);
	expect(nr_released && nr_reaped && nr_late);
	kvmm_pool_destroy(pool);
	return !!nr_bad;
}
