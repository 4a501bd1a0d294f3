// SPDX-License-Identifier: Apache-2.0
/* Leases of all kinds when host memory runs out, and when a bit of them flips. */
#include <pthread.h>
#include <unistd.h>

#include "lease/lease.h"
#include "tests/pool/lease_util.h"
#include "tests/support/fault.h"
#include "tests/support/flip.h"

extern const struct pool_part leases_part;

static struct kvmm_pool *pool;

static void set_up(void)
{
	fault_begin();
	pool = make_cache(12, "lru");
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(owner_fault, .init = set_up, .fini = tear_down);

static void set_up_cached(void)
{
	fault_begin();
	pool = make_cache(8, "lru");
	cache_keys(pool, 0, 6);
}

TestSuite(hold_fault, .init = set_up_cached, .fini = tear_down);

/* What is tried: 0 or -ENOMEM. */
typedef int (*attempt)(void);

static kvmm_range_t range;
static kvmm_mut_t muts[2];
static kvmm_ref_t refs[2];
static kvmm_lease_t hold;

/* Returns after how many failures it succeeded; each left everything as it was. */
static u32 until_it_succeeds(attempt try)
{
	char before[16], owners[4096];

	strcpy(before, picture(pool));
	strcpy(owners, owned(pool));
	for (u32 n = 1;; n++) {
		bool failed;
		int ret = fault_at(n, try(), &failed);

		if (!failed) {
			cr_assert_eq(ret, 0);
			return n - 1;
		}
		cr_assert_eq(ret, -ENOMEM);
		cr_expect_str_eq(picture(pool), before);
		cr_expect_str_eq(owned(pool), owners);
		cr_assert_eq(kvmm_validate(pool), 0);
	}
}

static int try_range(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 3, .owner = 5 };

	return kvmm_range_alloc_attr(pool, &attr, &range);
}

static int try_own(void)
{
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 6 };

	return kvmm_lease_own_muts(pool, &own, muts, 2);
}

static int try_split(void)
{
	kvmm_range_t tail;

	return kvmm_range_split(pool, range, 1, &tail);
}

static int try_hold_range(void)
{
	struct kvmm_lease_attr attr = hold_attr_of(5, 0, KVMM_LEASE_PIN);

	return lease_range(pool, &attr, range, &hold);
}

static int try_hold_refs(void)
{
	struct kvmm_lease_attr attr = hold_attr_of(5, 0, KVMM_LEASE_PIN);

	return lease_refs(pool, &attr, refs, 2, &hold);
}

static int try_keys(u32 flags)
{
	int ret = try_hold(pool, 1, 4, flags, &hold);

	return ret == 4 ? 0 : ret;
}

static int try_hold_keys(void)
{
	return try_keys(0);
}

static int try_pin_keys(void)
{
	return try_keys(KVMM_LEASE_PIN);
}

static int try_watch(void)
{
	return kvmm_lease_watch(pool, 5, getpid(), 0);
}

Test(owner_fault, a_range_with_an_owner_is_taken_as_a_whole)
{
	cr_expect_geq(until_it_succeeds(try_range), 3, "slots, the table, a piece");
	cr_expect_str_eq(owned(pool), "r5");
	cr_expect_eq(until_it_succeeds(try_split), 0, "the piece is there");
	cr_expect_str_eq(owned(pool), "r5 r5");
}

Test(owner_fault, blocks_are_named_together)
{
	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	cr_expect_eq(until_it_succeeds(try_own), 2, "the table and a piece");
	cr_expect_str_eq(owned(pool), "p6 p6");
	cr_expect_eq(until_it_succeeds(try_own), 0);
}

Test(owner_fault, holds_take_nothing_if_they_fail)
{
	range = take_seq(pool, 2, 0, 'a');
	cr_expect_geq(until_it_succeeds(try_hold_range), 3);
	cr_expect_str_eq(owned(pool), "r0 P5");
	register_keys(pool, 1, 2, refs);
	cr_expect_eq(until_it_succeeds(try_hold_refs), 1);
	cr_expect_str_eq(owned(pool), "r0 P5 P5");
}

Test(owner_fault, watching)
{
	cr_expect_eq(until_it_succeeds(try_watch), 2, "the table and the watch");
	cr_expect_eq(kvmm_lease_watch(pool, 5, 0, 0), 0);
	cr_expect_eq(until_it_succeeds(try_watch), 1);
}

/* Giving back must work when there is no memory at all. */
Test(owner_fault, release_and_expiry_want_no_memory)
{
	cr_assert_eq(try_range(), 0);
	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	cr_assert_eq(try_own(), 0);
	cr_assert_eq(try_hold_range(), 0);
	register_keys(pool, 1, 2, refs);
	cr_assert_eq(try_hold_refs(), 0);
	cr_assert_eq(kvmm_lease_renew(pool, 6, NULL, 1), 2);
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_lease_release(pool, 5, NULL), 3);
	cr_expect_eq(kvmm_lease_expire(pool, 100, NULL), 0);
	cr_expect_eq(list_leaks(pool, NULL, NULL, 0), 0);
	fake_env_advance(&fake, 1);
	cr_expect_eq(list_leaks(pool, NULL, NULL, 0), 2);
	cr_expect_eq(kvmm_lease_release(pool, 6, NULL), 2);
	cr_expect(!fake_env_failed(&fake), "nothing was asked for");
	fake_env_fail(&fake, 0, false);
	cr_expect_str_eq(owned(pool), "");
}

Test(hold_fault, the_first_hold_is_made_as_a_whole)
{
	cr_expect_eq(until_it_succeeds(try_pin_keys), 3,
		     "the hold, the table, which stays, and a chunk");
	cr_expect_str_eq(picture(pool), "IAAAAI..");
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(until_it_succeeds(try_hold_keys), 1, "just the hold");
	cr_expect_eq(drop_lease(pool, hold), 0);
}

Test(hold_fault, a_full_table_grows_or_stays)
{
	kvmm_lease_t made[7 * HOLD_CHUNK];

	for (u32 i = 0; i < 7 * HOLD_CHUNK; i++)
		made[i] = hold_keys(pool, 0, 1, 0);
	cr_expect_eq(until_it_succeeds(try_hold_keys), 2, "the hold and a chunk");
	cr_expect_eq(drop_lease(pool, hold), 0);
	for (u32 i = 0; i < ARRAY_SIZE(made); i++)
		cr_expect_eq(drop_lease(pool, made[i]), 0);
}

Test(hold_fault, a_failure_is_no_use_of_the_blocks)
{
	u32 order[8];

	fake_env_fail(&fake, 1, false);
	cr_expect_eq(try_hold(pool, 5, 1, 0, &hold), -ENOMEM);
	cr_assert_eq(eviction_order(pool, order, 8), 6);
	cr_expect_eq(order[0], 5);
}

/* ---- flipped bits ---- */

#define FLIP_CHECK	leases_part.check(pool, NULL)

Test(owner_fault, flips_are_noticed)
{
	struct lease_table *table;

	cr_assert_eq(try_range(), 0);
	cr_assert_eq(try_split(), 0);
	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	cr_assert_eq(try_own(), 0);
	table = pool->leases;
	for (u32 i = 0; i < 2; i++) {
		struct lease *lease = lease_at(table, lease_id(LEASE_BLOCK, muts[i].index));

		flip(lease, owner);
		flip(lease, since_ns);
		flip(lease, deadline_ns);
		flip(lease, gen);
		flip(lease, flags);
		flip(lease, prev);
		flip(lease, kept);
	}
	flip(lease_at(table, lease_id(LEASE_BLOCK, 5)), deadline_ns);
	flip(table, nr);
	flip(table, sum);
	flip(table, bytes);
	flip(table, nr_chunks);
}

Test(owner_fault, flips_in_holds_on_ranges_are_noticed)
{
	struct lease *beside;
	struct hold *made;

	range = take_seq(pool, 2, 0, 'a');
	cr_assert_eq(try_hold_range(), 0);
	made = lease_at(pool->leases, lease_id(LEASE_HOLD, hold.index))->hold;
	flip(made, range);
	beside = lease_at(pool->leases, lease_id(LEASE_RANGE, range.index));
	flip(beside, kept);
	flip(beside, gen);
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(leases_part.check(pool, NULL), 0, "an unpin too many costs the hold, not the pool");
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(leases_part.check(pool, NULL), 0);
}

static void keep(kvmm_range_t of, u64 by)
{
	kv_lock(&pool->lock);
	range_keep(pool, of, by);
	kv_unlock(&pool->lock);
}

static void expect_unsound(const char *why)
{
	cr_expect_eq(leases_part.check(pool, NULL), -EUCLEAN, "%s", why);
}

/* Counts that are wrong and agree with each other. */
Test(owner_fault, what_holds_keep_of_each_range_is_counted_again)
{
	kvmm_range_t other = take(pool, 2, 0);
	const u64 pin = KEPT_HOLDS + 1;

	range = take_seq(pool, 2, 0, 'a');
	cr_assert_eq(try_hold_range(), 0);
	cr_assert_eq(try_hold_range(), 0);
	cr_assert_eq(range_reserve(pool, other.index), 0);
	keep(range, -1);
	keep(other, 1);
	expect_unsound("one of two holds on a range is counted for another range");
	keep(other, -1);
	keep(range, 1);
	cr_expect_eq(leases_part.check(pool, NULL), 0);
	keep(other, pin);
	expect_unsound("a pin with a type where no pin has one");
	keep(other, -pin);
	cr_assert_eq(kvmm_range_pin_as(pool, other, KVMM_PIN_RDMA), 0);
	cr_expect_eq(leases_part.check(pool, NULL), 0);
	cr_assert_eq(kvmm_range_unpin_as(pool, other, KVMM_PIN_RDMA), 0);
	cr_assert_eq(kvmm_range_free(pool, other), 0);
	cr_expect_eq(leases_part.check(pool, NULL), 0);
	keep(other, pin);
	expect_unsound("a pin on a range that is gone");
	keep(other, -pin);
	cr_expect_eq(leases_part.check(pool, NULL), 0);
}

Test(owner_fault, metadata_is_of_records_too)
{
	u64 before = stat_of(pool).metadata_bytes;

	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	cr_assert_eq(try_own(), 0);
	cr_assert_eq(try_watch(), 0);
	cr_expect_eq(stat_of(pool).metadata_bytes, before + leases_part.bytes(pool));
	pool->leases->nr++;
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN, "the pool asks for them, and closes");
	cr_expect_eq(kvmm_lease_release(pool, 6, NULL), -EUCLEAN);
	pool->leases->nr--;
	pool->gate = 0;
}

/* Some holds of each kind, and free slots between them. */
static kvmm_lease_t some_holds(void)
{
	kvmm_lease_t made[6];

	for (u32 i = 0; i < 6; i++)
		made[i] = hold_keys(pool, i / 2, 2, i % 2 ? KVMM_LEASE_PIN : 0);
	drop_lease(pool, made[2]);
	lease_keys(pool, 3, 2, 100, 0);
	drop_lease(pool, made[4]);
	return made[3];
}

Test(hold_fault, flips_in_a_hold_are_noticed)
{
	kvmm_lease_t pinned = some_holds();
	struct lease_table *table = pool->leases;

	for (u32 i = 0; i < 4; i++) {
		struct lease *lease = lease_at(table, lease_id(LEASE_HOLD, i));
		struct hold *of = lease->hold;

		if (!of)
			continue;
		flip(lease, owner);
		flip(lease, since_ns);
		flip(lease, deadline_ns);
		flip(lease, flags);
		if (lease->owner)
			flip(lease, prev);
		flip(of, sum);
		flip(of, index);
		flip(of, nr);
		flip(of, reason);
		flip(of, flags);
		flip(of, domain);
		flip(of, text);
		for (u32 b = 0; b < of->nr; b++) {
			flip(of, ref[b]);
			flip(&of->block[b], key);
			flip(&of->block[b], hold);
		}
	}
	flip(&lease_at(table, lease_id(LEASE_HOLD, pinned.index))->hold->block[1], block);
}

Test(hold_fault, flips_in_the_table_are_noticed)
{
	struct lease_table *table;

	some_holds();
	table = pool->leases;
	flip(table, id);
	flip(table, secret);
	flip(table, gen_base);
	flip(table, nr_buckets);
	flip(table, nr_keys);
	flip(table, nr_chunks);
	flip(table, fixed_sum);
	flip(table, free);
	flip(table, nr_hold_chunks);
	flip(table, nr_free);
	flip(table, nr_reserved);
	flip(table, nr_retired);
	flip(table, nr_holds);
	flip(table, nr_blocks);
	flip(table, sum);
	flip(table, nr);
	flip(table, bytes);
	for (u32 i = 0; i < HOLD_CHUNK; i++) {
		struct lease *lease = lease_at(table, lease_id(LEASE_HOLD, i));

		flip(lease, gen);
		if (!lease->hold)
			flip(lease, next);
	}
}

/* The pool asks its holds, and closes. */
Test(hold_fault, validation_and_metadata_are_of_holds_too)
{
	u64 before = stat_of(pool).metadata_bytes;

	hold = hold_keys(pool, 1, 2, 0);
	cr_expect_eq(stat_of(pool).metadata_bytes, before + leases_part.bytes(pool));
	pool->leases->nr_holds++;
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN);
	cr_expect_eq(drop_lease(pool, hold), -EUCLEAN);
	pool->leases->nr_holds--;
	pool->gate = 0;
	cr_expect_eq(drop_lease(pool, hold), 0);
}

/* ---- another thread looks ---- */

#define NR_CHUNKS	64u

struct naming {
	struct kvmm_pool *pool;
	kvmm_mut_t muts[NR_CHUNKS * LEASE_CHUNK];
	bool is_done;		/* atomic */
};

/* Each block is in a chunk of its own, so that memory is taken for it. */
static void *name_blocks(void *arg)
{
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 7 };
	struct naming *naming = arg;

	for (u32 i = 0; i < NR_CHUNKS; i++)
		cr_expect_eq(kvmm_lease_own_muts(naming->pool, &own,
						 &naming->muts[i * LEASE_CHUNK], 1), 0);
	WRITE_ONCE(naming->is_done, true);
	return NULL;
}

Test(owner_fault, the_table_is_sound_while_memory_for_more_of_it_is_taken)
{
	static struct naming naming;
	u32 nr_bad = 0;

	for (u32 round = 0; round < 10; round++) {
		pthread_t thread;

		naming.pool = make_cache(ARRAY_SIZE(naming.muts), "lru");
		naming.is_done = false;
		cr_assert_eq(kvmm_alloc(naming.pool, ARRAY_SIZE(naming.muts), naming.muts), 0);
		pthread_create(&thread, NULL, name_blocks, &naming);
		while (!READ_ONCE(naming.is_done))
			nr_bad += leases_part.check(naming.pool, NULL) != 0;
		pthread_join(thread, NULL);
		end_pool(naming.pool);
	}
	cr_expect_eq(nr_bad, 0, "%u", nr_bad);
}
