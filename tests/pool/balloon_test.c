// SPDX-License-Identifier: Apache-2.0
/* The balloon, and flips in what a pool knows of memory that is away; part of shrink_test. */
#include "offline/leave.h"
#include "tests/pool/shrink_util.h"

static void tick_until_done(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 256 && kv_balloon_tick(pool) == 1; i++)
		;
}

POOL_TEST(shrink, a_balloon_comes_near_its_target_in_both_directions, adopt(64, NULL, NULL))
{
	cr_expect_eq(kvmm_balloon_set(pool, 10 * UNIT + UNIT / 2), 0);
	tick_until_done(pool);
	cr_expect_eq(stat_of(pool).nr_away, 40);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_balloon_set(pool, 3 * UNIT), 0);
	tick_until_done(pool);
	cr_expect_eq(stat_of(pool).nr_away, 12);
	cr_expect_eq(kvmm_balloon_set(pool, 0), 0);
	tick_until_done(pool);
	cr_expect_eq(stat_of(pool).nr_away, 0);
}

POOL_TEST(shrink, steps_tick_the_balloon, adopt(64, NULL, NULL))
{
	kvmm_stream_t id = add_stream(pool);
	uint64_t epoch;

	cr_expect_eq(kvmm_balloon_set(pool, 12 * UNIT), 0);
	for (u32 i = 0; i < 16; i++) {
		cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
		cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	}
	cr_expect_eq(stat_of(pool).nr_away, 48);
}

POOL_TEST(shrink, a_request_of_priority_is_served_from_the_balloon, adopt(16, "lru", NULL))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 6, .max_runs = 8 };
	kvmm_range_t range;

	cache_keys(pool, 0, 4);
	cr_expect_eq(kvmm_balloon_set(pool, 2 * UNIT), 0);
	tick_until_done(pool);
	cr_expect_eq(stat_of(pool).nr_away, 8);
	attr.prio = KVMM_PRIO_HIGH;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 4, "nothing was evicted for it");
	cr_expect_eq(stat_of(pool).nr_away, 4);
	cr_expect_eq(elastic_of_pool(pool).nr_relents, 1);
	cr_expect_eq(elastic_of_pool(pool).target_bytes, UNIT);
	tick_until_done(pool);
	cr_expect_eq(stat_of(pool).nr_away, 4);
}

/* Of 16 blocks 8 are the balloon's, and 6 of the others are pinned: the free ones are in several runs. */
static struct kvmm_pool *with_balloon(const char *policy)
{
	struct kvmm_pool *pool = adopt(16, policy, NULL);
	struct kvmm_tenant_attr tenant = KVMM_TENANT_ATTR_INIT;
	kvmm_range_t range[7];

	tenant.max = 3;
	cr_assert_eq(kvmm_tenant_set(pool, 7, &tenant), 0);
	for (u32 i = 0; i < 7; i++)
		cr_assert_eq(kvmm_range_alloc(pool, 1, KVMM_ALLOC_PINNED, &range[i]), 0);
	cr_assert_eq(kvmm_range_free(pool, range[3]), 0);
	cr_expect_eq(kvmm_balloon_set(pool, 2 * UNIT), 0);
	tick_until_done(pool);
	cr_assert_eq(stat_of(pool).nr_away, 8);
	return pool;
}

static void expect_balloon(struct kvmm_pool *pool)
{
	cr_expect_eq(stat_of(pool).nr_away, 8);
	cr_expect_eq(elastic_of_pool(pool).target_bytes, 2 * UNIT);
	cr_expect_eq(elastic_of_pool(pool).nr_relents, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(shrink, a_request_of_priority_that_is_refused_leaves_the_balloon_as_it_was,
	  with_balloon("lru"))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 11, .max_runs = 8,
					.flags = KVMM_ALLOC_HIGH };
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 11,
				      .flags = KVMM_ALLOC_HIGH | KVMM_ALLOC_CONTIG };
	kvmm_range_t range;
	kvmm_mut_t mut[16];

	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -ENOSPC);
	expect_balloon(pool);
	attr.nr = 4;
	attr.tenant = 7;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -EDQUOT);
	expect_balloon(pool);
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), -ENOSPC);
	expect_balloon(pool);
	attr.tenant = 0;
	attr.max_runs = 1;
	attr.nr = 10;		/* as many as there are, but in more than one run */
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -ENOSPC);
	tick_until_done(pool);
	expect_balloon(pool);
	attr.nr = attr.max_runs = 8;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(elastic_of_pool(pool).nr_relents, 1);
}

POOL_TEST(shrink, a_request_of_priority_has_the_balloon_of_a_pool_without_policy,
	  with_balloon(NULL))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 4, .max_runs = 8,
					.flags = KVMM_ALLOC_HIGH, .tenant = 7 };
	kvmm_range_t range;

	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -EDQUOT);
	expect_balloon(pool);
	attr.tenant = 0;
	attr.nr = 8;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(elastic_of_pool(pool).nr_relents, 1);
}

POOL_TEST(shrink, an_ordinary_request_is_not, adopt(16, NULL, NULL))
{
	kvmm_range_t range;

	cr_expect_eq(kvmm_balloon_set(pool, 2 * UNIT), 0);
	tick_until_done(pool);
	cr_expect_eq(kvmm_range_alloc(pool, 9, KVMM_RUNS(8), &range), -ENOSPC);
	cr_expect_eq(stat_of(pool).nr_away, 8);
}

/* ---- what is wrong is noticed ---- */

static void expect_noticed(struct kvmm_pool *pool, const char *what, u32 bit)
{
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN, "%s, bit %u", what, bit);
	pool->gate = 0;
}

#define flip(pool, field)							\
	do {									\
		u8 *byte = (u8 *)&(field);					\
		for (u32 bit = 0; bit < 8 * sizeof(field); bit++) {		\
			byte[bit / 8] ^= 1u << bit % 8;				\
			expect_noticed(pool, #field, bit);			\
			byte[bit / 8] ^= 1u << bit % 8;				\
		}								\
		cr_assert_eq(kvmm_validate(pool), 0, #field);			\
	} while (0)

POOL_TEST(shrink, a_bit_that_flips_is_noticed, adopt(32, NULL, NULL))
{
	struct kvmm_mem_range freed;
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 2 * UNIT };
	struct elastic *el;

	cr_assert_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_assert_eq(kvmm_pool_freed(pool, &freed, 1), 1);
	cr_assert_eq(kvmm_pool_shrink(pool, &req), 0);
	el = pool->elastic;
	flip(pool, pool->nr_leaving);
	flip(pool, pool->pb.nr_away);
	for (u32 state = 0; state < NR_UNIT_STATES; state++)
		flip(pool, el->nr_units[state]);
	flip(pool, el->wait.nr);
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		flip(pool, pool->pb.state[pb]);
		flip(pool, el->waiting[pb]);
	}
	for (u32 i = 0; i < el->span[0].nr_units; i++)
		flip(pool, el->span[0].unit[i]);
}
