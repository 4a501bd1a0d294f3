// SPDX-License-Identifier: Apache-2.0
/*
 * Loads that thrash, with what adapts and without: fewer bytes must move, and no fewer blocks hit. The
 * engine here is one that loads what is below, computes the rest, and gives it all back; a request
 * takes a second by the clock that it turns.
 */
#include "tier/pool/tier.h"
#include "util.h"

#define SECOND		1000000000ull
#define BLOCK_BYTES	1000u
#define MAX_NR		256u
#define MAX_UP		100u

struct engine {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	u64 now_ns;
	u64 hits;
};

static struct engine make_engine(u32 nr_device, u32 nr_host, u32 write, u32 flags)
{
	struct both both = both_of_ids(nr_device, nr_host, BLOCK_BYTES);

	both.host.down = both.host.up = (struct kvmm_tier_link){ 7000, 1000000000 };
	both.client.batch_blocks = MAX_NR;
	both.client.max_up = MAX_UP;
	both.config.write = write;
	both.config.flags = flags;
	both_make(&both);
	return (struct engine){ .pool = both.pool, .tier = both.tier };
}

static void end_engine(struct engine *engine)
{
	cr_expect_eq(kvmm_validate(engine->pool), 0);
	end_both(engine->pool, engine->tier);
}

static void turn_clock(struct engine *engine, u64 now_ns)
{
	u64 due = 0;

	cr_assert_geq(kvmm_tier_poll(engine->pool), 0);
	while (!kvmm_tier_due(engine->pool, &due) && due <= now_ns) {
		cr_assert_eq(kvmm_tier_clock(engine->tier, due), 0);
		cr_assert_geq(kvmm_tier_poll(engine->pool), 0);
	}
	cr_assert_eq(kvmm_tier_clock(engine->tier, now_ns), 0);
	cr_assert_geq(kvmm_tier_poll(engine->pool), 0);
	engine->now_ns = now_ns;
}

/* The first so many of it, from wherever they are; their references. */
static void load(struct engine *engine, const struct kvmm_prefix *prefix, u32 nr, kvmm_ref_t *refs)
{
	struct kvmm_prefix part = *prefix;
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &part };
	kvmm_tier_op_t op;
	u64 due = 0;
	int err;

	part.nr = nr;
	err = kvmm_tier_load(engine->pool, &req, &op);
	cr_assert_eq(err, 0, "%d", err);
	while ((err = result_of(engine->pool, op, nr, refs)) == -EAGAIN) {
		cr_assert_eq(kvmm_tier_due(engine->pool, &due), 0);
		turn_clock(engine, max(due, engine->now_ns));
	}
	cr_assert_eq(err, 0, "%d", err);
}

static void compute(struct engine *engine, const struct kvmm_prefix *prefix, u32 nr_have,
		    kvmm_ref_t *refs)
{
	struct kvmm_prefix rest = {
		.keys = prefix->keys + nr_have, .nr = prefix->nr - nr_have,
		.position = prefix->position + nr_have,
		.parent = nr_have ? &prefix->keys[nr_have - 1] : prefix->parent,
	};
	kvmm_mut_t muts[MAX_NR];

	if (!rest.nr)
		return;
	cr_assert_eq(kvmm_alloc(engine->pool, rest.nr, muts), 0);
	cr_assert_eq(kvmm_prefix_register(engine->pool, &rest, muts, refs + nr_have), 0);
}

/* Keys from @first on. */
static void request(struct engine *engine, u32 first, u32 nr)
{
	const struct kvmm_prefix *prefix = prefix_of(first, nr);
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = prefix,
					      .refs = refs };
	int nr_found = kvmm_tier_match(engine->pool, &match);

	cr_assert_geq(nr_found, 0);
	if (match.nr_lower) {
		cr_assert_eq(kvmm_put_many(engine->pool, refs, match.nr_device), 0);
		load(engine, prefix, nr_found, refs);
	}
	compute(engine, prefix, nr_found, refs);
	cr_assert_eq(kvmm_put_many(engine->pool, refs, nr), 0);
	engine->hits += nr_found;
	turn_clock(engine, engine->now_ns + SECOND);
}

static u64 bytes_moved(struct engine *engine)
{
	struct kvmm_tier_client_stat stat = client_of(engine->pool);

	return stat.offload_bytes + stat.load_bytes;
}

/* ---- time ---- */

Test(tier_time, copies_take_latency_and_bytes_and_are_told_once)
{
	struct engine engine = make_engine(8, 16, KVMM_TIER_THROUGH, 0);
	u64 due = 0, ns, taken = 0;

	cr_expect_eq(kvmm_tier_due(engine.pool, &due), -ENOENT);
	request(&engine, 0, 8);
	request(&engine, 100, 8);
	cr_expect_eq(kvmm_tier_take_latency(engine.pool, &taken, &ns), 0);
	cr_expect_eq(ns, 0);
	/* 7 us, and 8 blocks of 1000 bytes at a byte a nanosecond. */
	request(&engine, 0, 8);
	cr_expect_eq(kvmm_tier_take_latency(engine.pool, &taken, &ns), 0);
	cr_expect_eq(ns, 7000 + 8 * 1000);
	cr_expect_eq(kvmm_tier_take_latency(engine.pool, &taken, &ns), 0);
	cr_expect_eq(ns, 0);
	cr_expect_eq(kvmm_tier_get_time(engine.pool, NULL), -EINVAL);
	end_engine(&engine);
}

Test(tier_time, pools_without_a_tier_or_with_memory_have_none)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_tier *tier = make_tier(8);
	u64 ns = 0;

	cr_expect_eq(kvmm_tier_due(pool, &ns), -EOPNOTSUPP);
	cr_expect_eq(kvmm_tier_take_latency(pool, &ns, &ns), -EOPNOTSUPP);
	end_both(pool, tier);
}

/* ---- ghosts ---- */

Test(tier_ghosts, a_second_use_counts_though_the_first_was_evicted)
{
	struct engine engine = make_engine(8, 64, KVMM_TIER_SELECTIVE, 0);

	request(&engine, 0, 8);
	request(&engine, 100, 8);	/* the first ones are gone, without a copy */
	cr_expect_eq(client_of(engine.pool).offloads, 0);
	request(&engine, 0, 8);		/* computed again, and worth a copy from now on */
	cr_expect_eq(client_of(engine.pool).offloads, 8);
	request(&engine, 200, 8);
	request(&engine, 0, 8);
	cr_expect_eq(client_of(engine.pool).loads, 8);
	cr_expect_eq(engine.hits, 8);
	end_engine(&engine);
}

Test(tier_ghosts, what_is_loaded_needs_no_other_copy)
{
	struct engine engine = make_engine(8, 64, KVMM_TIER_SELECTIVE, 0);

	for (u32 i = 0; i < 12; i++)
		request(&engine, i % 2 * 100, 8);
	cr_expect_eq(client_of(engine.pool).offloads, 16);
	cr_expect_eq(client_of(engine.pool).present, 0);
	end_engine(&engine);
}

Test(tier_ghosts, refaults_are_told_by_the_tier_that_would_have_kept_them)
{
	struct engine engine = make_engine(8, 32, KVMM_TIER_EXPLICIT, 0);
	struct kvmm_tier_client_stat stat;

	request(&engine, 0, 8);
	request(&engine, 100, 8);
	request(&engine, 0, 8);		/* 16 blocks since, or 8: the host tier has 32 */
	stat = client_of(engine.pool);
	cr_expect_eq(stat.refaults[KVMM_TIER_DEVICE], 0);
	cr_expect_eq(stat.refaults[KVMM_TIER_HOST], 8);
	for (u32 i = 2; i < 8; i++)
		request(&engine, i * 100, 8);
	request(&engine, 0, 8);		/* 56 */
	stat = client_of(engine.pool);
	cr_expect_eq(stat.refaults[KVMM_TIER_HOST], 8);
	cr_expect_eq(stat.refaults[KVMM_TIER_DISK], 8);
	end_engine(&engine);
}

Test(tier_ghosts, validation_notices_what_cannot_be)
{
	for (u32 i = 0; i < 4; i++) {
		struct engine engine = make_engine(8, 32, KVMM_TIER_SELECTIVE, 0);
		struct thrash *thrash = &lower_of(engine.pool)->thrash;

		request(&engine, 0, 8);
		cr_assert_eq(kvmm_validate(engine.pool), 0);
		if (i == 0)
			thrash->ghost[3] = 5;		/* no uses */
		else if (i == 1)
			thrash->is_thrashing = true;	/* and there was no episode */
		else if (i == 2)
			thrash->more = 2;
		else
			thrash->nr_leaving = LEAVING_MAX + 1;
		cr_expect_eq(kvmm_validate(engine.pool), -EUCLEAN, "%u", i);
		kvmm_pool_destroy(engine.pool);
		kvmm_tier_destroy(engine.tier);
	}
}

/* ---- drops ---- */

/* Requests of 50 blocks, again and again. */
static struct engine run_loop(u32 nr_requests, u32 flags)
{
	struct engine engine = make_engine(1000, 4000, KVMM_TIER_THRESHOLD, flags);

	for (u32 round = 0; round < 40; round++)
		for (u32 i = 0; i < nr_requests; i++)
			request(&engine, i * 1000, 50);
	return engine;
}

/* What adapts hits no less, and moves @times less. */
static void expect_better(struct engine *adapts, struct engine *fixed, u32 times)
{
	cr_log_info("moved %llu, %llu; hits %llu, %llu", (unsigned long long)bytes_moved(adapts),
		    (unsigned long long)bytes_moved(fixed), (unsigned long long)adapts->hits,
		    (unsigned long long)fixed->hits);
	cr_expect_geq(adapts->hits, fixed->hits);
	cr_expect_leq(bytes_moved(adapts) * times, bytes_moved(fixed));
	end_engine(adapts);
	end_engine(fixed);
}

Test(tier_thrash, a_loop_that_fits_the_device_is_not_dropped_for_ever)
{
	struct engine adapts = run_loop(19, 0), fixed = run_loop(19, KVMM_TIER_FIXED);

	cr_expect_gt(client_of(adapts.pool).episodes, 0);
	expect_better(&adapts, &fixed, 2);
}

Test(tier_thrash, a_loop_larger_than_the_device_keeps_what_fits)
{
	struct engine adapts = run_loop(21, 0), fixed = run_loop(21, KVMM_TIER_FIXED);

	expect_better(&adapts, &fixed, 3);
}

/* Blocks that are below, and not in the device. */
static void put_below(struct engine *engine, u32 first, u32 nr)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .nr = nr,
					      .flags = KVMM_TIER_DROP };
	kvmm_ref_t refs[MAX_NR];

	cr_assert_eq(kvmm_prefix_match(engine->pool, prefix_of(first, nr), refs), nr);
	cr_assert_eq(kvmm_put_many(engine->pool, refs, nr), 0);
	req.refs = refs;
	cr_assert_eq(kvmm_tier_offload(engine->pool, &req, NULL), 0);
	turn_clock(engine, engine->now_ns + SECOND);
	cr_assert_eq(kvmm_prefix_match(engine->pool, prefix_of(first, nr), refs), 0);
}

Test(tier_thrash, prefetches_get_half_while_the_device_needs_all_it_has)
{
	struct engine engine = run_loop(19, 0);
	u32 i;

	for (i = 0; i < 19000 && !client_of(engine.pool).thrashing; i++)
		request(&engine, i % 19 * 1000, 50);
	cr_assert_eq(client_of(engine.pool).thrashing, 1);
	request(&engine, 9000000, MAX_UP);
	put_below(&engine, 9000000, MAX_UP);
	cr_expect_eq(kvmm_tier_prefetch(engine.pool, prefix_of(9000000, MAX_UP), 0), MAX_UP / 2);
	turn_clock(&engine, engine.now_ns + SECOND);
	cr_expect_eq(client_of(engine.pool).loading, 0);

	turn_clock(&engine, engine.now_ns + 10000 * SECOND);
	put_below(&engine, 9000000, MAX_UP / 2);
	cr_expect_eq(client_of(engine.pool).thrashing, 0);
	cr_expect_eq(kvmm_tier_prefetch(engine.pool, prefix_of(9000000, MAX_UP), 0), MAX_UP);
	turn_clock(&engine, engine.now_ns + SECOND);
	end_engine(&engine);
}

Test(tier_thrash, pauses_end_and_drops_go_on_where_nothing_comes_back)
{
	struct engine engine = run_loop(19, 0);
	struct kvmm_tier_client_stat before, after;

	turn_clock(&engine, engine.now_ns + 10000 * SECOND);
	before = client_of(engine.pool);
	for (u32 i = 0; i < 100; i++)
		request(&engine, 1000000 + i * 1000, 50);
	after = client_of(engine.pool);
	cr_expect_eq(after.thrashing, 0);
	cr_expect_leq(after.episodes, before.episodes + 1);
	cr_expect_lt(stat_of(engine.pool).nr_inactive, 1000 - 50);	/* dropped down to a mark */
	end_engine(&engine);
}

/* ---- admission ---- */

/* Documents that are read twice and never again, beside conversations that go on. */
static struct engine run_scans(u32 flags)
{
	struct engine engine = make_engine(400, 800, KVMM_TIER_SELECTIVE, flags);

	for (u32 i = 0; i < 600; i++) {
		request(&engine, 1000000 + i * 1000, 40);
		request(&engine, 1000000 + i * 1000, 40);
		request(&engine, i % 12 * 1000, 50);
	}
	return engine;
}

Test(tier_thrash, what_is_read_twice_and_never_again_is_not_copied)
{
	struct engine adapts = run_scans(0), fixed = run_scans(KVMM_TIER_FIXED);

	cr_expect_eq(client_of(adapts.pool).touches, 3);
	cr_expect_eq(client_of(fixed.pool).touches, 2);
	cr_expect_neq(bytes_moved(&adapts), bytes_moved(&fixed));
	expect_better(&adapts, &fixed, 1);
}

Test(tier_thrash, admission_comes_down_again_when_copies_are_worth_it)
{
	struct engine engine = run_scans(0);

	for (u32 i = 0; i < 3000; i++)
		request(&engine, 5000000 + (i / 100 * 25 + i % 25) * 1000, 40);
	cr_expect_eq(client_of(engine.pool).touches, 2);
	cr_expect_eq(client_of(engine.pool).raised, 1);
	end_engine(&engine);
}

Test(tier_thrash, the_same_load_moves_the_same_in_every_run)
{
	struct engine a = run_scans(0), b = run_scans(0);
	struct kvmm_tier_client_stat stat[2] = { client_of(a.pool), client_of(b.pool) };

	cr_expect_eq(memcmp(&stat[0], &stat[1], sizeof(stat[0])), 0);
	end_engine(&a);
	end_engine(&b);
}
