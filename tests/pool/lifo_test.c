// SPDX-License-Identifier: Apache-2.0
/* Pools that hand out the blocks that were freed last. */
#include <kvmm/ext/ids.h>

#include "tests/pool/util.h"
#include "tests/support/fault.h"
#include "tests/support/random.h"

#define NR	64u

static struct kvmm_pool_attr lifo_attr(void)
{
	return (struct kvmm_pool_attr){ .size = sizeof(struct kvmm_pool_attr), .nr_blocks = NR,
					.policy = "lru", .flags = KVMM_POOL_LIFO };
}

static struct kvmm_pool *make_lifo(void)
{
	struct kvmm_pool_attr attr = lifo_attr();

	return make_pool_of(&attr);
}

static kvmm_mut_t take_one(struct kvmm_pool *pool, int want)
{
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_block_of_mut(pool, mut), want);
	return mut;
}

static void free_one(struct kvmm_pool *pool, kvmm_mut_t mut)
{
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(lifo, the_block_that_was_freed_last_is_taken_first, make_lifo())
{
	kvmm_mut_t mut[4];

	for (int i = 0; i < 4; i++)
		mut[i] = take_one(pool, i);
	free_one(pool, mut[2]);
	free_one(pool, mut[0]);
	free_one(pool, mut[3]);
	take_one(pool, 3);
	take_one(pool, 0);
	take_one(pool, 2);
	take_one(pool, 4);
}

POOL_TEST(lifo, without_it_the_shortest_free_run_is_taken_first, make_cache(NR, "lru"))
{
	kvmm_mut_t mut[6];

	for (int i = 0; i < 6; i++)
		mut[i] = take_one(pool, i);
	free_one(pool, mut[0]);
	free_one(pool, mut[2]);
	free_one(pool, mut[3]);
	take_one(pool, 0);
}

/* Blocks 1 to 3 were freed one by one, and are a range now. */
POOL_TEST(lifo, a_freed_block_that_a_range_has_taken_is_passed_over, make_lifo())
{
	kvmm_mut_t mut[5];
	kvmm_range_t range;

	for (int i = 0; i < 5; i++)
		mut[i] = take_one(pool, i);
	for (int i = 1; i < 4; i++)
		free_one(pool, mut[i]);
	range = take(pool, 3, 0);
	take_one(pool, 5);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(lifo, an_evicted_block_was_freed_too, make_lifo())
{
	kvmm_mut_t mut[2];
	kvmm_key_t key = key_of(1);
	kvmm_ref_t ref;

	mut[0] = take_one(pool, 0);
	mut[1] = take_one(pool, 1);
	cr_assert_eq(kvmm_register(pool, &mut[1], &key, 1, &ref), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	free_one(pool, mut[0]);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	take_one(pool, 1);
	take_one(pool, 0);
}

/* A stack of what was freed; below it the lowest block that was never taken. */
POOL_TEST(lifo, single_blocks_are_a_stack, make_lifo())
{
	u64 seed = 77;
	kvmm_mut_t held[NR];
	u32 stack[NR], nr_stack = 0, nr_held = 0, nr_new = 0;

	for (u32 i = 0; i < 20000; i++) {
		if (nr_held < NR && (!nr_held || any_of(&seed, 2))) {
			int want = nr_stack ? (int)stack[--nr_stack] : (int)nr_new++;

			held[nr_held++] = take_one(pool, want);
		} else {
			u32 at = any_of(&seed, nr_held);

			stack[nr_stack++] = kvmm_block_of_mut(pool, held[at]);
			free_one(pool, held[at]);
			held[at] = held[--nr_held];
		}
	}
	cr_expect_eq(kvmm_validate(pool), 0);
}

static struct kvmm_pool *make_lifo_ids(void)
{
	struct kvmm_pool_attr attr = lifo_attr();

	attr.compactor = "off";
	return make_pool_of(&attr);
}

static void expect_ids(struct kvmm_pool *pool, const int32_t *want, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		int32_t id;

		cr_assert_eq(kvmm_ids_alloc(pool, 1, 0, &id), 0);
		cr_expect_eq(id, want[i], "%u: %d, not %d", i, id, want[i]);
	}
}

/* A list is put last first, so its first one was freed last; turned round, its last one. */
POOL_TEST(lifo, ids_are_a_stack_too, make_lifo_ids())
{
	int32_t ids[6], list[4] = { 4, 1, 3, 2 };

	cr_assert_eq(kvmm_ids_alloc(pool, 6, 0, ids), 0);
	cr_assert_eq(kvmm_ids_free(pool, list, 4), 0);
	expect_ids(pool, (int32_t[]){ 4, 1, 3, 2 }, 4);
	cr_assert_eq(kvmm_ids_put(pool, list, 4, KVMM_IDS_FIRST_OUT), 0);
	expect_ids(pool, (int32_t[]){ 2, 3, 1, 4 }, 4);
}

/* One that is taken by its id leaves the stack where it is. */
POOL_TEST(lifo, a_freed_block_that_is_taken_by_id_is_passed_over, make_lifo_ids())
{
	int32_t ids[6], list[4] = { 4, 1, 3, 2 };

	cr_assert_eq(kvmm_ids_alloc(pool, 6, 0, ids), 0);
	cr_assert_eq(kvmm_ids_free(pool, list, 4), 0);
	cr_assert_eq(kvmm_ids_take(pool, (int32_t[]){ 1, 2 }, 2, 0, 0), 0);
	cr_assert_eq(kvmm_ids_free(pool, (int32_t[]){ 2 }, 1), 0);
	expect_ids(pool, (int32_t[]){ 2, 4, 3, 6 }, 4);
	cr_expect_eq(kvmm_validate(pool), 0);
}

Test(lifo, it_costs_four_bytes_a_block)
{
	struct kvmm_pool_attr attr = lifo_attr();
	struct kvmm_pool *pool = make_pool_of(&attr), *plain;

	attr.flags = 0;
	plain = make_pool_of(&attr);
	cr_expect_eq(stat_of(pool).metadata_bytes, stat_of(plain).metadata_bytes + 4 * NR);
	end_pool(pool);
	end_pool(plain);
}

TestSuite(lifo_fault, .init = fault_begin, .fini = fault_end);

Test(lifo_fault, a_pool_that_has_no_memory_is_not_made)
{
	struct kvmm_pool_attr attr = lifo_attr();
	struct kvmm_pool *pool = NULL;
	bool failed = true;

	for (u32 nth = 1; failed; nth++) {
		int err = fault_at(nth, kvmm_pool_create(&attr, &pool), &failed);

		cr_assert_eq(err, failed ? -ENOMEM : 0, "allocation %u", nth);
	}
	kvmm_pool_destroy(pool);
}
