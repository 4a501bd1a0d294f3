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
#define NR_TAKEN	300u		/* by release, and by expiry, before it is enough */
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
					.own_flags = KVMM_OWN_RECLAIM };
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
	struct kvmm_own own = { sizeof(own), me->owner, me->step % 3 ? 0 : SECOND,
				KVMM_OWN_RECLAIM, 0 };
	kvmm_key_t key = { { me->owner, me->step, me->step >> 8, 1 } };
	u8 mine[BLOCK_BYTES], seen[BLOCK_BYTES];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (kvmm_alloc(pool, 1, &mut) || check(kvmm_own_muts(pool, &own, &mut, 1)))
		return;
	memset(mine, (me->owner << 6 | me->step) & 0xff, sizeof(mine));
	for (u32 i = 0; i < 3; i++) {
		if (check(kvmm_mut_write(pool, mut, 0, mine, sizeof(mine))) ||
		    check(kvmm_mut_read(pool, mut, 0, seen, sizeof(seen))))
			return;
		expect(is_mine(seen, mine[0]));
	}
	if (me->step % 2) {
		int err = kvmm_free(pool, &mut, 1);

		expect(!err || err == -ESTALE || err == -EINVAL);
	} else if (!kvmm_register(pool, &mut, &key, 1, &ref)) {
		expect(!kvmm_ref_read(pool, ref, 0, seen, sizeof(seen)));
		expect(is_mine(seen, mine[0]));
		expect(!kvmm_put_many(pool, &ref, 1));
	}
}

static void *work(void *arg)
{
	struct worker *me = arg;

	for (; me->step < MAX_ROUNDS && !READ_ONCE(nr_bad); me->step++) {
		if (READ_ONCE(nr_released) > NR_TAKEN && READ_ONCE(nr_reaped) > NR_TAKEN)
			break;
		use_range(me);
		use_block(me);
		if (me->step % 16 == 0)
			expect(kvmm_owner_renew(pool, me->owner, SECOND) >= 0);
	}
	return NULL;
}

static void reap_one(u32 step)
{
	struct kvmm_owned rows[4];
	u64 cursor = 0;
	int nr = kvmm_owner_release(pool, 1 + step % NR_WORKERS);

	expect(nr >= 0 || nr == -EBUSY);
	if (nr > 0)
		kv_fetch_add(&nr_released, nr);
	nr = kvmm_lease_expire(pool, UINT64_MAX, NULL);
	expect(nr >= 0);
	kv_fetch_add(&nr_reaped, nr);
	expect(kvmm_leaks(pool, NULL, rows, 4) >= 0);
	while ((nr = kvmm_leaks_next(pool, NULL, &cursor, rows, 4)) == 4)
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
	pthread_t reaper;

	make_pool();
	pthread_create(&reaper, NULL, reap, NULL);
	for (u32 i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){ .owner = i + 1 };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (u32 i = 0; i < NR_WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	WRITE_ONCE(stop, 1);
	pthread_join(reaper, NULL);
	for (u32 i = 0; i < NR_WORKERS; i++)
		expect(kvmm_owner_release(pool, i + 1) >= 0);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_available == NR_BLOCKS);
	printf("released %u, reaped %u, late %u\n", nr_released, nr_reaped, nr_late);
	expect(nr_released && nr_reaped && nr_late);
	kvmm_pool_destroy(pool);
	return !!nr_bad;
}
