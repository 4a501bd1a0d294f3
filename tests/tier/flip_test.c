// SPDX-License-Identifier: Apache-2.0
/* A bit of what a pool knows of its tiers flips: the check notices, and the pool closes. */
#include "tier/pool/tier.h"
#include "research/sim_disk.h"
#include "tests/support/flip.h"
#include "tests/support/tier_wait.h"
#include "tests/tier/util.h"

static struct kvmm_pool *pool;
static struct lower *lower;

static int validate_open(void)
{
	int err = kvmm_validate(pool);

	if (err)
		cr_expect_eq(kvmm_tier_poll(pool), -EUCLEAN);
	pool->gate &= ~GATE_POISONED;
	return err;
}

#define FLIP_CHECK	validate_open()

/* Keys 1 and 2 are below alone, 3 is clean, 4 is to go down, and somebody waits for that. */
static kvmm_tier_op_t all_kinds(struct kvmm_tier *tier)
{
	kvmm_ref_t ref;
	kvmm_tier_op_t op;

	pool = make_cache(8, "lru");
	attach(pool, tier);
	lower = pool->lower;
	cache_blocks(pool, 1, 4);
	offload_keys(pool, 1, 2, KVMM_TIER_DROP);
	offload_keys(pool, 3, 1, 0);
	cr_assert_eq(kvmm_prefix_match(pool, prefix_of(4, 1), &ref), 1);
	op = begin_offload(pool, &ref, 1, 0);
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_assert_eq(lower->nr_heap, 1);
	cr_assert_eq(kvmm_validate(pool), 0);
	return op;
}

Test(tier_flip, of_what_the_pool_knows_is_noticed_and_closes_it)
{
	struct kvmm_tier *tier = make_tier(8);
	kvmm_tier_op_t op = all_kinds(tier);

	flip(lower, nr_used[false]);
	flip(lower, nr_used[true]);
	flip(lower, nr_heap);
	flip(lower, nr_ops);
	flip(lower, nr_over);
	flip(lower, free_item[false]);
	flip(lower, free_item[true]);
	flip(lower, first_fetch);
	flip(lower, first_ready);
	for (u32 i = 0; i < lower->nr_names; i++)
		flip_each_bit("bucket", &lower->name[i], sizeof(u32));
	flip(&lower->below[lower->heap[0]], state);
	flip(&lower->below[lower->heap[0]], pos);
	flip_each_bit("heap", &lower->heap[0], sizeof(u32));
	flip(lower->op[op.index].op, nr_left);
	flip(lower->op[op.index].op, index);
	for (u32 i = 0; i < 10; i++)
		cr_expect_geq(kvmm_tier_poll(pool), 0);
	cr_assert_eq(result_of(pool, op, 1, NULL), 0);
	end_both(pool, tier);
}

/* Alone on its way: with a neighbour, a bit of its entry may say that it is the neighbour's. */
static struct item *the_one_on_its_way(void)
{
	u32 index = 0;

	while (lower->item[index].state == ITEM_FREE)
		index++;
	return &lower->item[index];
}

Test(tier_flip, of_a_block_on_its_way_up_is_noticed_and_it_arrives)
{
	struct kvmm_tier *tier = make_tier(8);
	struct item *item;
	kvmm_tier_op_t up;
	kvmm_ref_t ref;

	all_kinds(tier);
	up = begin_load(pool, 1, 1);
	cr_assert_eq(lower->nr_used[true], 1);
	item = the_one_on_its_way();
	cr_assert_eq(item->state, ITEM_BATCH);
	flip(item, state);
	flip(item, entry);
	flip(item, slot);
	cr_assert_eq(lower->nr_used[true], 1, "no poll got through");
	cr_assert_eq(tier_wait(pool, up, 60000000000ull), 0);
	cr_assert_eq(result_of(pool, up, 1, &ref), 0);
	cr_expect(has_content(pool, ref, 1));
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	end_both(pool, tier);
}

/* Keys first ... first + nr - 1 are copied down, to the end, and gone from the device. */
static void sink(struct kvmm_tier *tier, u32 first, u32 nr)
{
	u64 due = 0;

	cache_blocks(pool, first, nr);
	send_down(pool, first, nr);
	cr_assert_geq(kvmm_tier_poll(pool), 0);
	while (!kvmm_tier_due(pool, &due)) {
		cr_assert_eq(kvmm_tier_clock(tier, due), 0);
		cr_assert_geq(kvmm_tier_poll(pool), 0);
	}
	cr_assert_eq(kvmm_reset_inactive(pool), (int)nr);
}

/* The disk is only simulated, and takes 50 ns for any transfer. */
Test(tier_flip, of_where_the_disk_reads_a_block_to_is_noticed_and_it_arrives)
{
	struct kvmm_tier_sim_attr sim = KVMM_TIER_SIM_ATTR_INIT;
	struct both both = both_of_ids(8, 2, 1000);
	kvmm_tier_op_t up;
	kvmm_ref_t ref;
	u64 due = 0;

	both.tier = make_tier_of(&both.host);
	sim.capacity_blocks = 8;
	sim.read.latency_ns = sim.write.latency_ns = 50;
	cr_assert_eq(kvmm_tier_simulate_disk(both.tier, &sim, &both.below), 0);
	both_make(&both);
	pool = both.pool;
	lower = pool->lower;
	sink(both.tier, 1, 2);
	sink(both.tier, 3, 2);
	up = begin_load(pool, 1, 1);
	cr_assert_neq(lower->first_fetch, KV_NONE);
	flip(&lower->item[lower->first_fetch].fetch, slot);
	cr_assert_eq(kvmm_tier_due(pool, &due), 0);
	cr_assert_eq(kvmm_tier_clock(both.tier, due), 0);
	cr_assert_geq(kvmm_tier_poll(pool), 0);
	cr_assert_eq(result_of(pool, up, 1, &ref), 0);
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	end_both(pool, both.tier);
}
