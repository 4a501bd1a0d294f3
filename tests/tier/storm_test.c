// SPDX-License-Identifier: Apache-2.0
/*
 * An abort storm: for a minute of simulated time nine of ten operations are given up, most of them
 * while their copies are under way. Then everything is as if nothing had been. The same above a disk, whose
 * calls fail now and then.
 */
#include "tests/support/random.h"
#include "tests/support/sim_store.h"
#include "tests/tier/util.h"

#define MINUTE_NS	60000000000ull
#define STEP_NS		2000000ull	/* of the engine */
#define NR_BLOCKS	128u
#define NR_UNITS	256u
#define NR_KEYS		512u
#define RUN		8u

static u64 dice;
#define below(n)	lcg_of(&dice, n)

struct storm {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_tier_op_t op[64];
	u32 nr[64];
	bool is_load[64];
	u32 nr_ops;
	u64 nr_begun, nr_aborted;
};

static void submit(struct storm *s)
{
	struct kvmm_tier_load_args load = { .size = sizeof(load) };
	u32 first = below(NR_KEYS / RUN) * RUN, i = s->nr_ops, nr;
	kvmm_ref_t refs[RUN];
	kvmm_mut_t mut[RUN];

	if (i == 64)
		return;
	load.prefix = prefix_of(first, RUN);
	s->is_load[i] = !kvmm_tier_load(s->pool, &load, &s->op[i]);
	s->nr[i] = RUN;
	if (!s->is_load[i]) {
		nr = kvmm_prefix_match(s->pool, prefix_of(first, RUN), refs);
		cr_assert_eq(kvmm_put_many(s->pool, refs, nr), 0);
		if (!nr && kvmm_alloc(s->pool, RUN, mut))
			return;
		if (!nr) {
			cr_assert_eq(kvmm_prefix_register(s->pool, prefix_of(first, RUN), mut, refs), 0);
			cr_assert_eq(kvmm_put_many(s->pool, refs, RUN), 0);
			nr = RUN;
		}
		s->nr[i] = nr;
		s->op[i] = begin_offload(s->pool, refs, nr, KVMM_TIER_DROP);
	}
	s->nr_ops++;
	s->nr_begun++;
}

static void drop_op(struct storm *s, u32 i)
{
	s->nr_ops--;
	s->op[i] = s->op[s->nr_ops];
	s->nr[i] = s->nr[s->nr_ops];
	s->is_load[i] = s->is_load[s->nr_ops];
}

/* Nine of ten are given up, whenever; the others are fetched when they are over. */
static void end_some(struct storm *s)
{
	for (u32 i = s->nr_ops; i-- > 0;) {
		kvmm_ref_t refs[RUN];
		int err;

		if (s->op[i].gen * 7 % 10 != 0) {
			if (below(3))
				continue;
			cr_assert_eq(kvmm_tier_abort(s->pool, s->op[i]), 0);
			s->nr_aborted++;
			drop_op(s, i);
			continue;
		}
		err = result_of(s->pool, s->op[i], s->nr[i], refs);
		if (err == -EAGAIN)
			continue;
		if (!err && s->is_load[i])
			cr_assert_eq(kvmm_put_many(s->pool, refs, s->nr[i]), 0);
		drop_op(s, i);
	}
}

Test(tier_storm, after_a_minute_of_aborts_all_capacity_is_back)
{
	struct both both = both_of_ids(NR_BLOCKS, NR_UNITS, 4096);
	struct storm s = { 0 };
	u64 now;

	dice = 7;
	both.host.down = both.host.up = (struct kvmm_tier_link){ 3000000, 20000000 };
	both_make(&both);
	s.pool = both.pool;
	s.tier = both.tier;
	for (now = 0; now < MINUTE_NS; now += STEP_NS) {
		cr_assert_eq(kvmm_tier_clock(s.tier, now), 0);
		submit(&s);
		end_some(&s);
		cr_assert_geq(kvmm_tier_poll(s.pool), 0);
		if (now % 1000000000 == 0)
			cr_assert_eq(kvmm_validate(s.pool), 0);
	}
	cr_expect_gt(s.nr_begun, 10000);
	cr_expect_geq(s.nr_aborted * 100, s.nr_begun * 85, "%llu of %llu",
		      (unsigned long long)s.nr_aborted, (unsigned long long)s.nr_begun);
	kvmm_tier_abort_all(s.pool);
	for (u32 i = 0; i < 1000 && kvmm_tier_poll(s.pool); i++, now += STEP_NS)
		cr_assert_eq(kvmm_tier_clock(s.tier, now), 0);
	cr_expect_eq(kvmm_tier_poll(s.pool), 0);
	cr_expect_eq(client_of(s.pool).nr_ops, 0);
	cr_expect_eq(tier_of(s.tier).pinned, 0);
	cr_expect_eq(tier_of(s.tier).writing, 0);
	kvmm_reset_inactive(s.pool);
	cr_expect_eq(stat_of(s.pool).nr_free, NR_BLOCKS, "all of the device");
	for (u32 i = 0; i < NR_UNITS; i += RUN) {
		cr_assert_eq(kvmm_tier_clock(s.tier, now += 1000000000), 0);
		cache_blocks(s.pool, 1000 + i, RUN);
		send_down(s.pool, 1000 + i, RUN);
		kvmm_tier_poll(s.pool);
		cr_assert_eq(kvmm_tier_clock(s.tier, now += 1000000000), 0);
		cr_expect_eq(kvmm_tier_poll(s.pool), 0);
	}
	cr_expect_eq(tier_of(s.tier).blocks, NR_UNITS, "and all of the host");
	cr_expect_eq(tier_of(s.tier).units_used, NR_UNITS);
	end_both(s.pool, s.tier);
}

/* ---- above a disk ---- */

Test(tier_storm, above_a_disk_that_fails_nothing_is_held_either)
{
	struct both both = both_of(NR_BLOCKS, NR_UNITS / 2);
	struct storm s = { 0 };

	begin_store(8, 256 << 10);
	open_store();
	dice = 11;
	both.attr.block_bytes = both.host.block_bytes = 4096;
	both.client.layout_id = 1;
	both.host.disk = disk;
	both_make(&both);
	s.pool = both.pool;
	s.tier = both.tier;
	for (u32 i = 0; i < 6000; i++) {
		if (i % 100 == 99)
			sim_disk_fail(&sim, 1 + below(5), below(SIM_NR_FAULTS), !below(8));
		submit(&s);
		end_some(&s);
		if (below(2))
			cr_assert_geq(kvmm_tier_poll(s.pool), 0);
		if (!below(3))
			cr_assert_geq(kvmm_tier_tick(s.tier), 0);
		if (i % 1000 == 0)
			cr_assert_eq(kvmm_validate(s.pool), 0);
	}
	cr_expect_gt(client_of(s.pool).disk_loads, 0);
	cr_expect_geq(s.nr_aborted * 100, s.nr_begun * 80);
	sim_disk_fail(&sim, 0, SIM_EIO, false);
	kvmm_tier_abort_all(s.pool);
	for (u32 i = 0; i < 1000 && kvmm_tier_poll(s.pool); i++)
		kvmm_tier_tick(s.tier);
	cr_expect_eq(client_of(s.pool).nr_ops, 0);
	cr_expect_eq(tier_of(s.tier).pinned, 0);
	cr_expect_eq(tier_of(s.tier).writing, 0);
	cr_expect_geq(kvmm_reset_cache(s.pool), 0);
	cr_expect_eq(stat_of(s.pool).nr_free, NR_BLOCKS, "all of the device");
	/* The disk reads what it was given before. */
	for (u32 i = 0; i < 200 && tier_of(s.tier).units_used; i++)
		kvmm_tier_tick(s.tier);
	cr_expect_eq(tier_of(s.tier).units_used, 0, "and all of the host");
	end_both(s.pool, s.tier);
	end_store();
}
