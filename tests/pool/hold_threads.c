// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that hold, renew, release and expire, while others evict and compact. Exit code 0: a pinned
 * block was where its address said for as long as it was held, nothing was lost, the pool is valid.
 */
#include <kvmm/ext/lease.h>

#include "tests/support/lease.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	128u
#define NR_KEYS		96u
#define HOLD_NR		4u
#define NR_ROUNDS	6000u

static struct kvmm_pool *pool;
static u32 stop;			/* atomic */
static u32 nr_made, nr_expired;		/* atomic */

static void name_keys(kvmm_key_t *keys, u32 first)
{
	memset(keys, 0, HOLD_NR * sizeof(*keys));
	for (u32 i = 0; i < HOLD_NR; i++)
		keys[i].byte[0] = first + i;
}

/* Cached if they are not; then the next hold may find them. */
static void cache(u32 first)
{
	kvmm_key_t keys[HOLD_NR];
	kvmm_mut_t fresh[HOLD_NR];
	kvmm_ref_t refs[HOLD_NR];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = HOLD_NR, .max_hits = HOLD_NR,
					 .nr_blocks = HOLD_NR, .hits = refs, .fresh = fresh };

	name_keys(keys, first);
	if (kvmm_acquire(pool, &req))
		return;
	expect(!kvmm_register(pool, fresh, keys + req.nr_hits, req.nr_fresh, refs + req.nr_hits));
	expect(!kvmm_put_many(pool, refs, HOLD_NR));
}

/* A hold that lasts while it is looked at: nobody else can drop one without lease. */
static void use_pinned(kvmm_lease_t hold, u32 nr)
{
	struct kvmm_lease_addr addrs[HOLD_NR];
	struct kvmm_lease_info info;
	kvmm_ref_t refs[HOLD_NR];
	u32 blocks[HOLD_NR];

	expect(kvmm_lease_addrs(pool, hold, addrs, HOLD_NR) == (int)nr);
	expect(refs_of_lease(pool, hold, refs, HOLD_NR) == (int)nr);
	expect(!kvmm_blocks_of_refs(pool, refs, nr, blocks));
	for (u32 i = 0; i < nr; i++) {
		expect(blocks[i] == addrs[i].block);
		expect(!kvmm_lease_check(pool, &addrs[i]));
		expect(leases_of_key(pool, &addrs[i].key, NULL, &info, 1) > 0);
	}
	expect(!drop_lease(pool, hold));
	expect(drop_lease(pool, hold) == -ESTALE);
}

static void *use_holds(void *arg)
{
	u64 dice = (uintptr_t)arg * 7654321 + 1;

	for (u32 round = 0; round < NR_ROUNDS; round++) {
		kvmm_key_t keys[HOLD_NR];
		struct kvmm_prefix prefix = { .keys = keys, .nr = HOLD_NR };
		struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
		u32 first = any_of(&dice, NR_KEYS), kind = any_of(&dice, 3);
		kvmm_lease_t hold;
		int nr;

		name_keys(keys, first);
		attr.prefix = &prefix;
		attr.flags = any_of(&dice, 2) ? KVMM_LEASE_PARTIAL : 0;
		attr.flags |= KVMM_LEASE_RECLAIM | (kind ? KVMM_LEASE_PIN : 0);
		attr.lease_ns = kind == 1 ? 1 : 0;
		nr = kvmm_lease_take(pool, &attr, &hold);
		expect(nr > 0 || nr == -ENOENT || nr == -EBUSY);
		if (nr < 0) {
			cache(first);
			continue;
		}
		kv_fetch_add(&nr_made, 1);
		if (kind == 2)
			use_pinned(hold, nr);
		else if (kind == 0)
			expect(!renew_lease(pool, hold, 1));	/* no longer ours */
	}
	return NULL;
}

static void *disturb(void *arg)
{
	while (!READ_ONCE(stop)) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 16 };
		struct kvmm_lease_info info;
		u64 cursor = 0;
		int nr;

		kvmm_pool_compact(pool, &goal);
		nr = kvmm_lease_expire(pool, 0, NULL);
		expect(nr >= 0);
		kv_fetch_add(&nr_expired, nr);
		while (!next_hold(pool, &cursor, &info))
			expect(info.nr && info.nr <= HOLD_NR);
		expect(list_leaks(pool, NULL, NULL, 0) >= 0);
		expect(!kvmm_validate(pool));
	}
	return NULL;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .block_bytes = 32, .policy = "lru" };
	struct kvmm_pool_stat stat;
	pthread_t worker[3], helper;

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	pthread_create(&helper, NULL, disturb, NULL);
	threads_start(worker, 3, use_holds);
	threads_join(worker, 3);
	WRITE_ONCE(stop, 1);
	pthread_join(helper, NULL);
	kvmm_lease_expire(pool, UINT64_MAX, NULL);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!stat.nr_state[KVMM_BLOCK_ACTIVE] && stat.nr_state[KVMM_BLOCK_INACTIVE]);
	expect(nr_made > NR_ROUNDS && nr_expired);
	printf("%u holds, %u expired\n", nr_made, nr_expired);
	kvmm_pool_destroy(pool);
	return nr_bad ? 1 : 0;
}
