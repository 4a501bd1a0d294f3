// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls on zones of random size, each answer compared with the plain bitmap's.
 *
 *	KVMM_SEED=n		repeat a run (it is printed)
 *	KVMM_MODEL_OPS=n	calls for each engine, 2000000 if not set
 *	KVMM_MODEL_ENGINE=name	this engine only
 *
 * Calls pick blocks at random and do not follow allocations: what is free is asked for, what is
 * used is given back in parts that need not be what was taken, and one call in a few is wrong on
 * purpose. Starts must be exactly the model's, so engines of one kind agree with each other.
 */
#include <inttypes.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/stat.h>
#include <kv/zone.h>

#include "tests/support/length.h"
#include "tests/support/zone_steps.h"

#define MAX_ENGINES	16u
#define MAX_BATCH	24u
#define OPS_PER_ZONE	20000u
#define OPS_PER_CHECK	2048u		/* whole map, all counts, kv_zone_check() */

struct run {
	struct zone_pair p;	/* ->at: calls so far */
	u64 random;
	u32 max_len;		/* of this zone's requests */
	u32 load;		/* this zone's aim, of 256 */
};

static u32 next_random(struct run *run)
{
	run->random ^= run->random << 13;
	run->random ^= run->random >> 7;
	run->random ^= run->random << 17;
	return run->random >> 32;
}

/* Uniform in [0, nr), without a division. */
static u32 below(struct run *run, u32 nr)
{
	return (u64)next_random(run) * nr >> 32;
}

static void do_alloc(struct run *run)
{
	struct kv_zone_req req = { .nr = 1 + below(run, run->max_len), .align = 1,
				     .hi = run->p.model.nr };
	u32 got = KV_NONE;
	int err = kv_zone_alloc(run->p.zone, req.nr, &got);

	zone_expect(&run->p, err == (got == KV_NONE ? -ENOSPC : 0), "alloc is %d", err);
	zone_step_placed(&run->p, &req, got);
}

static void do_alloc_req(struct run *run)
{
	u32 dice = next_random(run);
	struct kv_zone_req req = {
		.nr = 1 + below(run, run->max_len),
		.align = BIT(dice & dice >> 2 & 3),
		.fit = dice >> 4 & 1,
		.topdown = dice >> 5 & 1,
		.mobility = (dice >> 8 & 255) % KVMM_NR_MOBILITY,
		.hi = run->p.model.nr,
	};

	if (dice >> 6 & 1) {
		req.lo = below(run, run->p.model.nr);
		req.hi = req.lo + 1 + below(run, run->p.model.nr - req.lo);
	}
	zone_step_req(&run->p, &req);
}

static void do_alloc_order(struct run *run)
{
	unsigned int order = below(run, kv_log2(run->max_len) + 1);
	struct kv_zone_req req = { .nr = BIT(order), .align = BIT(order), .hi = run->p.model.nr };

	zone_step_req(&run->p, &req);
}

/* Often right behind or before something used: that is how ranges grow. */
static void do_alloc_at(struct run *run)
{
	u32 start = below(run, run->p.model.nr);

	zone_step_at(&run->p, start, 1 + below(run, min(run->max_len, run->p.model.nr - start)));
}

/* Head of the classic buddy's allocation around a used block. */
static u32 buddy_head(const struct run *run, u32 block)
{
	while (!run->p.model.held[block])
		block--;
	return block;
}

static void do_free(struct run *run)
{
	u32 start = below(run, run->p.model.nr), max_nr, nr;

	if (run->p.model.kind == ZONE_BUDDY && !zone_model_is_free(&run->p.model, start)) {
		start = buddy_head(run, start);
		zone_step_free(&run->p, start, BIT(run->p.model.held[start] - 1));
		return;
	}
	max_nr = min(run->max_len, run->p.model.nr - start);
	nr = 1 + below(run, max_nr);
	/* Long ranges mostly hit something free: shorten them, but not always. */
	while (nr > 1 && next_random(run) & 7 && !zone_model_none_free(&run->p.model, start, nr))
		nr /= 2;
	zone_step_free(&run->p, start, nr);
}

static void do_bad_free(struct run *run)
{
	u32 start = below(run, run->p.model.nr);

	zone_step_free(&run->p, start, 1 + below(run, run->p.model.nr - start));
}

static void do_alloc_runs(struct run *run)
{
	u32 nr = 1 + below(run, min(2 * run->max_len, run->p.model.nr));

	zone_step_runs(&run->p, nr, 1 + below(run, KVMM_MAX_RUNS));
}

static void do_alloc_many(struct run *run)
{
	zone_step_many(&run->p, 1 + below(run, min(MAX_BATCH, run->p.model.nr)));
}

/* Steps through the zone, so mostly distinct; some batches have a free or a repeated block. */
static void do_free_many(struct run *run)
{
	u32 nr = 1 + below(run, min(MAX_BATCH, run->p.model.nr)), ids[MAX_BATCH];
	u32 block = below(run, run->p.model.nr), dice = next_random(run), have = 0;

	for (u32 i = 0; i < 4 * nr && have < nr; i++, block = (block + 1) % run->p.model.nr) {
		if (dice & 7 && zone_model_can_give(&run->p.model, block, 1))
			continue;
		ids[have++] = block;
	}
	if (!have)
		return;
	if (!(dice >> 3 & 15))
		ids[below(run, have)] = ids[below(run, have)];
	zone_step_free_many(&run->p, ids, have);
}

static void do_reading(struct run *run)
{
	u32 nr = 1 + below(run, run->p.model.nr);

	zone_step_read(&run->p, nr, below(run, run->p.model.nr));
}

/* Frees are as likely as allocations near the load aimed at: the more is used, the more succeed. */
static void do_any(struct run *run)
{
	u32 dice = next_random(run);

	switch (dice & 63) {
	case 0:
		return do_alloc_runs(run);
	case 1:
		return do_alloc_many(run);
	case 2:
		return do_free_many(run);
	case 3:
		return do_bad_free(run);
	case 4:
		return do_reading(run);
	case 5 ... 8:
		return do_alloc_order(run);
	case 9 ... 12:
		return do_alloc_at(run);
	case 13 ... 20:
		return do_alloc_req(run);
	default:
		return (dice >> 6 & 255) < run->load ? do_alloc(run) : do_free(run);
	}
}

/* Mostly small zones, where everything happens often; some of many words and levels. */
static u32 random_size(struct run *run)
{
	u32 dice = below(run, 64);

	if (!dice)
		return 1 + below(run, 70000);
	if (dice < 4)
		return 1 + below(run, 5000);
	if (dice < 24)
		return 1 + below(run, 64);
	return 1 + below(run, 320);
}

static void start_zone(struct run *run, const char *engine)
{
	struct kv_zone_attr attr = { .engine = engine };

	attr.nr_blocks = random_size(run);
	attr.pageblock_order = 1 + below(run, 9);
	cr_assert_eq(kv_zone_create(&attr, &run->p.zone), 0);
	zone_model_init(&run->p.model, zone_kind(engine), attr.nr_blocks);
	run->max_len = 1 + below(run, min(attr.nr_blocks, BIT(below(run, 12))));
	run->load = 64 + below(run, 160);
}

static void read_events(u64 *nr)
{
	for (unsigned int ev = 0; ev < KV_NR_EVENTS; ev++)
		nr[ev] = kv_stat_sum(ev);
}

/* What the calls came to, so that a run which only ever failed would be noticed. */
static void report(const u64 *before)
{
	u64 now[KV_NR_EVENTS], allocs, frees;

	read_events(now);
	allocs = now[KV_EV_ALLOC] - before[KV_EV_ALLOC];
	frees = now[KV_EV_FREE] - before[KV_EV_FREE];
	printf("\t%" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " short, %" PRIu64
	       " scattered\n", allocs, frees, now[KV_EV_FAIL_NOSPC] - before[KV_EV_FAIL_NOSPC],
	       now[KV_EV_FAIL_FRAG] - before[KV_EV_FAIL_FRAG]);
	fflush(stdout);
	cr_expect_gt(allocs, 0);
	cr_expect_gt(frees, 0);
}

static void compare_engine(const char *engine)
{
	u64 seed = test_number("KVMM_SEED", kv_random()) | 1;
	u64 max_ops = test_length("KVMM_MODEL_OPS", 2000000);
	struct run run = { .random = seed };
	u64 before[KV_NR_EVENTS];

	read_events(before);
	printf("%s: KVMM_SEED=%" PRIu64 " KVMM_MODEL_OPS=%" PRIu64 "\n", engine, seed, max_ops);
	fflush(stdout);
	while (run.p.at < max_ops) {
		u32 nr;

		start_zone(&run, engine);
		/* The model walks the whole map, so large zones get fewer calls. */
		nr = OPS_PER_ZONE / (1 + run.p.model.nr / 512);
		for (u32 i = 1; i <= nr; i++, run.p.at++) {
			do_any(&run);
			if (!(i % OPS_PER_CHECK))
				zone_expect(&run.p, zone_model_agrees(&run.p.model, run.p.zone), "check");
		}
		zone_expect(&run.p, zone_model_agrees(&run.p.model, run.p.zone), "at the end");
		zone_model_exit(&run.p.model);
		kv_zone_destroy(run.p.zone);
	}
	report(before);
}

/* All engines, or the one asked for, which must exist. */
Test(model_zone, each_engine_answers_as_the_model)
{
	const char *only = getenv("KVMM_MODEL_ENGINE"), *names[MAX_ENGINES];
	unsigned int nr = kv_zone_engines(names, MAX_ENGINES), done = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (only && strcmp(only, names[i]))
			continue;
		compare_engine(names[i]);
		done++;
	}
	cr_expect_gt(done, 0, "no engine %s", only);
}
