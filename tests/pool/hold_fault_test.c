// SPDX-License-Identifier: Apache-2.0
/* Holds when host memory runs out, and when a bit of theirs flips. */
#include <criterion/criterion.h>
#include <string.h>

#include "pool/lease.h"
#include "tests/pool/hold_util.h"
#include "tests/support/fault.h"

extern const struct pool_part leases_part;

static struct kvmm_pool *pool;

static void set_up(void)
{
	fault_begin();
	pool = make_cache(8, "lru");
	cache_keys(pool, 0, 6);
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(hold_fault, .init = set_up, .fini = tear_down);

/* Returns after how many failures it succeeded; each left the pool as it was. */
static u32 hold_until_it_succeeds(u32 flags, kvmm_hold_t *hold)
{
	u32 nr_holds_before = nr_holds(pool);
	char before[16];

	strcpy(before, picture(pool));
	for (u32 n = 1;; n++) {
		int ret;

		fake_env_fail(&fake, n, false);
		ret = try_hold(pool, 1, 4, flags, hold);
		if (!fake_env_failed(&fake)) {
			fake_env_fail(&fake, 0, false);
			cr_assert_eq(ret, 4);
			return n - 1;
		}
		cr_assert_eq(ret, -ENOMEM);
		cr_expect_str_eq(picture(pool), before);
		cr_expect_eq(nr_holds(pool), nr_holds_before);
		cr_assert_eq(kvmm_validate(pool), 0);
		cr_assert_eq(leases_part.check(pool, NULL), 0);
	}
}

Test(hold_fault, the_first_hold_is_made_as_a_whole)
{
	kvmm_hold_t hold;

	cr_expect_eq(hold_until_it_succeeds(KVMM_HOLD_PIN, &hold), 3,
		     "the hold, the table, which stays, and a chunk");
	cr_expect_str_eq(picture(pool), "IAAAAI..");
	cr_expect_eq(kvmm_hold_release(pool, hold), 0);
	cr_expect_eq(hold_until_it_succeeds(0, &hold), 1, "just the hold");
	cr_expect_eq(kvmm_hold_release(pool, hold), 0);
}

Test(hold_fault, a_full_table_grows_or_stays)
{
	kvmm_hold_t hold[7 * HOLD_CHUNK + 1];

	for (u32 i = 0; i < 7 * HOLD_CHUNK; i++)
		hold[i] = hold_keys(pool, 0, 1, 0);
	cr_expect_eq(hold_until_it_succeeds(0, &hold[7 * HOLD_CHUNK]), 2, "the hold and a chunk");
	for (u32 i = 0; i < ARRAY_SIZE(hold); i++)
		cr_expect_eq(kvmm_hold_release(pool, hold[i]), 0);
}

Test(hold_fault, a_failure_is_no_use_of_the_blocks)
{
	u32 order[8];
	kvmm_hold_t hold;

	fake_env_fail(&fake, 1, false);
	cr_expect_eq(try_hold(pool, 5, 1, 0, &hold), -ENOMEM);
	cr_assert_eq(eviction_order(pool, order, 8), 6);
	cr_expect_eq(order[0], 5);
}

/* ---- flipped bits ---- */

static void flip_each_bit(const char *what, void *field, size_t bytes)
{
	u8 *byte = field;

	for (u32 bit = 0; bit < 8 * bytes; bit++) {
		byte[bit / 8] ^= 1u << bit % 8;
		cr_expect_eq(leases_part.check(pool, NULL), -EUCLEAN, "%s, bit %u", what, bit);
		byte[bit / 8] ^= 1u << bit % 8;
	}
	cr_assert_eq(leases_part.check(pool, NULL), 0, "%s", what);
}

#define flip(object, field)	flip_each_bit(#field, &(object)->field, sizeof((object)->field))

/* Some holds of each kind, and free slots between them. */
static kvmm_hold_t some_holds(void)
{
	kvmm_hold_t hold[6];

	for (u32 i = 0; i < 6; i++)
		hold[i] = hold_keys(pool, i / 2, 2, i % 2 ? KVMM_HOLD_PIN : 0);
	kvmm_hold_release(pool, hold[2]);
	lease_keys(pool, 3, 2, 100);
	kvmm_hold_release(pool, hold[4]);
	return hold[3];
}

Test(hold_fault, flips_in_a_hold_are_noticed)
{
	kvmm_hold_t pinned = some_holds();
	struct lease_table *table = pool->leases;

	for (u32 i = 0; i < 4; i++) {
		struct lease *lease = lease_at(table, lease_id(LEASE_HOLD, i));
		struct hold *hold = lease->hold;

		if (!hold)
			continue;
		flip(lease, owner);
		flip(lease, since_ns);
		flip(lease, deadline_ns);
		flip(lease, flags);
		if (lease->owner)
			flip(lease, prev);
		flip(hold, sum);
		flip(hold, index);
		flip(hold, nr);
		flip(hold, reason);
		flip(hold, flags);
		flip(hold, domain);
		flip(hold, text);
		for (u32 b = 0; b < hold->nr; b++) {
			flip(hold, ref[b]);
			flip(&hold->block[b], key);
			flip(&hold->block[b], hold);
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
Test(hold_fault, validation_is_of_holds_too)
{
	kvmm_hold_t hold = hold_keys(pool, 1, 2, 0);
	struct lease_table *table = pool->leases;

	table->nr_holds++;
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN);
	cr_expect_eq(kvmm_hold_release(pool, hold), -EUCLEAN);
	table->nr_holds--;
	pool->gate = 0;
	cr_expect_eq(kvmm_hold_release(pool, hold), 0);
}

Test(hold_fault, metadata_is_of_holds_too)
{
	u64 before = stat_of(pool).metadata_bytes;
	kvmm_hold_t hold = hold_keys(pool, 1, 2, 0);

	cr_expect_eq(stat_of(pool).metadata_bytes, before + leases_part.bytes(pool));
	cr_expect_eq(kvmm_hold_release(pool, hold), 0);
}
