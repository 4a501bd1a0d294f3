// SPDX-License-Identifier: Apache-2.0
/* Pins by type, and what is said of blocks that do not move. */
#include "move/move.h"
#include "move/stay.h"
#include "tests/pool/util.h"
#include "tests/support/lease.h"

static struct kvmm_pin_stat pins_of(struct kvmm_pool *pool)
{
	struct kvmm_pin_stat stat;

	cr_assert_eq(kvmm_pin_get_stat(pool, &stat), 0);
	return stat;
}

/* As if something were to be moved now. */
static struct kvmm_stay stay_of(struct kvmm_pool *pool, u32 mode)
{
	struct picture look = { .pool = pool, .mode = mode };
	struct kvmm_stay stay;
	u32 sum = 0;

	pool_snapshot(&look, NULL, 0);
	stay = look.stay;
	for (u32 i = 0; i < KVMM_NR_STAY_REASONS; i++)
		sum += stay.blocks[i];
	cr_expect_eq(sum, stay.staying);
	return stay;
}

static kvmm_ref_t ref[300];

/* @nr active blocks from key 0 on. */
static struct kvmm_pool *cached(u32 nr)
{
	struct kvmm_pool *pool = make_cache(nr, "lru");

	register_keys(pool, 0, nr, ref);
	return pool;
}

POOL_TEST(pin, a_pin_is_undone_by_its_type_only, cached(4))
{
	cr_expect_eq(kvmm_pin_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_pin_many_as(pool, ref, 2, KVMM_PIN_RDMA), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_USER], 4, "those before the first type count");
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_RDMA], 2);

	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 2, KVMM_PIN_GDS), -EINVAL);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 4, KVMM_PIN_RDMA), -EINVAL, "the last two have none");
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_RDMA], 2, "nothing has changed");
	cr_expect_eq(kvmm_validate(pool), 0);

	cr_expect_eq(kvmm_unpin_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_unpin_many(pool, ref, 1), -EINVAL, "RDMA's is not the user's");
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 2, KVMM_PIN_RDMA), 0);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 1, KVMM_PIN_RDMA), -EINVAL);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_RDMA], 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
}

/* Two batches: the first one to go is good. */
POOL_TEST(pin, a_long_call_that_is_refused_puts_all_types_back, cached(300))
{
	cr_expect_eq(kvmm_pin_many_as(pool, ref + 1, 299, KVMM_PIN_IPC), 0);
	cr_expect_eq(kvmm_pin_many(pool, ref, 1), 0);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 300, KVMM_PIN_IPC), -EINVAL);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_IPC], 299);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_USER], 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref + 1, 299, KVMM_PIN_IPC), 0);
	cr_expect_eq(kvmm_unpin_many(pool, ref, 1), 0);
}

POOL_TEST(pin, the_next_block_of_an_entry_has_no_types, cached(4))
{
	cr_expect_eq(kvmm_pin_many_as(pool, ref, 4, KVMM_PIN_GRAPH), 0);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 4, KVMM_PIN_GRAPH), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 4);
	cache_keys(pool, 8, 4);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_unpin_many_as(pool, ref, 1, KVMM_PIN_GRAPH), -ESTALE);
}

POOL_TEST(pin, ranges_are_unpinned_by_type, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, 0);

	cr_expect_eq(kvmm_range_pin_as(pool, range, KVMM_PIN_RDMA), 0);
	cr_expect_eq(kvmm_range_unpin(pool, range), -EINVAL);
	cr_expect_eq(kvmm_range_unpin_as(pool, range, KVMM_PIN_COPY), -EINVAL);
	cr_expect_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(pins_of(pool).ranges[KVMM_PIN_RDMA], 1);
	cr_expect_eq(pins_of(pool).ranges[KVMM_PIN_USER], 1);
	cr_expect_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), -EBUSY);
	cr_expect_eq(kvmm_range_unpin_as(pool, range, KVMM_PIN_RDMA), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_pin_as(pool, range, KVMM_PIN_RDMA), -ESTALE);
	cr_expect_eq(kvmm_range_pin_as(pool, range, KVMM_NR_PIN_TYPES), -EINVAL);
}

POOL_TEST(pin, ranges_have_so_many_pins_of_a_type, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, 0);

	for (u32 i = 0; i < 255; i++)
		cr_assert_eq(kvmm_range_pin_as(pool, range, KVMM_PIN_GDS), 0);
	cr_expect_eq(kvmm_range_pin_as(pool, range, KVMM_PIN_GDS), -EOVERFLOW);
	cr_expect_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(pins_of(pool).ranges[KVMM_PIN_GDS], 255);
}

/* Its owner's pin is not to be had by who unpins as somebody else. */
POOL_TEST(pin, a_hold_pins_by_its_reason, cached(4))
{
	kvmm_key_t key = key_of(0);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix,
				       .reason = KVMM_LEASE_RDMA, .flags = KVMM_LEASE_PIN };
	kvmm_range_t range;
	kvmm_lease_t hold;

	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 1);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_RDMA], 1);
	cr_expect_eq(kvmm_unpin(pool, ref[0]), -EINVAL);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(pins_of(pool).blocks[KVMM_PIN_RDMA], 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);

	range = take(pool, 2, 0);
	attr.prefix = NULL;
	attr.reason = KVMM_LEASE_GDS;
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	cr_expect_eq(pins_of(pool).ranges[KVMM_PIN_GDS], 1);
	cr_expect_eq(kvmm_range_unpin(pool, range), -EINVAL);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(pins_of(pool).ranges[KVMM_PIN_GDS], 0);
}

/* ---- why ---- */

POOL_TEST(stay, each_block_that_does_not_move_has_a_reason, make_cache(24, "lru"))
{
	kvmm_key_t key = key_of(2);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_range_t range[3] = { take(pool, 3, 0), take(pool, 2, KVMM_ALLOC_PINNED),
				  take(pool, 4, KVMM_ALLOC_GROWS) };
	kvmm_staged_t staged;
	kvmm_mut_t mut[2];
	struct kvmm_stay stay;

	cr_assert_eq(kvmm_range_seal(pool, range[2], 1), 0);
	cr_assert_eq(kvmm_range_pin_as(pool, range[0], KVMM_PIN_IPC), 0);
	register_keys(pool, 0, 2, ref);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, mut, &staged), 0);
	cr_assert_eq(kvmm_pin(pool, ref[0]), 0);

	stay = stay_of(pool, KVMM_MOVE_BESIDE);
	cr_expect_eq(stay.movable, 2, "a registered block, and what is sealed: %u", stay.movable);
	cr_expect_eq(stay.blocks[KVMM_STAY_PIN_IPC], 3);
	cr_expect_eq(stay.blocks[KVMM_STAY_FIXED], 2);
	cr_expect_eq(stay.blocks[KVMM_STAY_GROWING], 3);
	cr_expect_eq(stay.blocks[KVMM_STAY_PIN_USER], 1);
	cr_expect_eq(stay.blocks[KVMM_STAY_PRIVATE], 1);
	cr_expect_eq(stay.blocks[KVMM_STAY_STAGED], 1);
	stay = stay_of(pool, KVMM_MOVE_BETWEEN);
	cr_expect_eq(stay.movable, 1 + 4 + 2);
	cr_expect_eq(stay.staying, 3 + 2 + 1);
	stay = stay_of(pool, MOVE_STOPPED);
	cr_expect_eq(stay.blocks[KVMM_STAY_HELD], 1);
}

POOL_TEST(stay, compaction_reports_what_it_met, make_pool(16))
{
	struct kvmm_stay stay, last;
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 5, .stay = &stay };
	kvmm_range_t range[26];

	paint(pool, "aa..bb..cc..dd..", range);
	cr_assert_eq(kvmm_range_pin_as(pool, range[1], KVMM_PIN_GRAPH), 0);
	cr_expect_eq(kvmm_stay_last(pool, &last), 0);
	cr_expect_eq(last.staying, 0);
	goal.largest_before = 99;
	cr_expect_eq(kvmm_compact_start(pool, &goal, KVMM_MOVE_BESIDE), -ENOSPC);
	cr_expect_eq(goal.largest_before, 99, "an error leaves it as it was");
	goal.size--;
	cr_expect_eq(kvmm_compact_start(pool, &goal, KVMM_MOVE_BESIDE), -EINVAL);
	goal.size++;
	cr_expect_eq(kvmm_stay_last(pool, &last), 0);
	cr_expect_eq(last.blocks[KVMM_STAY_PIN_GRAPH], 2);
	cr_expect_eq(last.blocks[KVMM_STAY_UNSEALED], 6);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(stay.movable, 6);
	cr_expect_eq(kvmm_stay_last(pool, &last), 0);
	cr_expect_eq(memcmp(&stay, &last, sizeof(stay)), 0);
}

Test(stay, reasons_have_names)
{
	cr_expect_str_eq(kvmm_stay_reason_name(KVMM_STAY_PIN_RDMA), "pin_rdma");
	cr_expect_str_eq(kvmm_stay_reason_name(KVMM_STAY_RECENT), "recent");
	cr_expect_str_eq(kvmm_stay_reason_name(KVMM_NR_STAY_REASONS), "?");
}

/* ---- packing ---- */

#define NR_WIDE		10000u
#define EACH_PINNED	610u

/*
 * Half full of single blocks, 16 of them pinned: what packing can do is to free whole stretches
 * between pins, at half a stretch of copies each.
 */
POOL_TEST(stay, packing_carries_blocks_over_pins, make_pool(NR_WIDE))
{
	static kvmm_range_t range[NR_WIDE];
	struct kvmm_compact goal = { .size = sizeof(goal) };
	u32 nr_free = 0;

	for (u32 i = 0; i < NR_WIDE; i++)
		range[i] = take(pool, 1, 0);
	for (u32 i = 0; i < NR_WIDE; i++) {
		if (i % EACH_PINNED == EACH_PINNED - 1) {
			cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
		} else if (i % 2) {
			cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
			nr_free++;
		} else {
			write_pattern(pool, range[i], i);
		}
	}
	cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(goal.largest_after, EACH_PINNED - 1);
	cr_expect_leq(goal.moved, nr_free / 2 + EACH_PINNED, "%u", goal.moved);
	cr_expect_leq(stat_of(pool).nr_runs, nr_free / (EACH_PINNED - 1) + 2);
	for (u32 i = 0; i < NR_WIDE; i += 2)
		cr_assert(i % EACH_PINNED == EACH_PINNED - 1 || has_pattern(pool, range[i], i));
	cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(goal.moved, 0);
}
