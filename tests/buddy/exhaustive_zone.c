// SPDX-License-Identifier: Apache-2.0
/*
 * Every free map of up to eight blocks, every call in each of them, against the plain bitmap.
 *
 * For engines that give out and take back exactly the blocks named every free map can be reached,
 * and is: by claiming what is used, and once more by claiming all and freeing what is free. The
 * classic buddy has other states, see exhaustive_buddy.c. The zone is put back by copying its
 * metadata, so a call that fails is also one that left the metadata alone.
 */
#include <kv/bits.h>
#include <kv/zone.h>

#include "tests/support/length.h"
#include "tests/support/zone_steps.h"

#define MAX_NR		8u
#define MAX_ENGINES	16u
#define MAX_BYTES	65536u

struct run {
	struct zone_pair p;
	size_t bytes;		/* of the engine's metadata */
	u64 nr_calls;
	u32 map;		/* the state: free blocks */
	char saved[MAX_BYTES];
};

/* Both ways to the same map; the engine may look different inside, but must act the same. */
static void reach(struct run *run, bool by_freeing)
{
	struct kv_zone *zone = run->p.zone;
	u32 nr = zone->nr_blocks;

	memset(zone->engine, 0, run->bytes);
	zone->ops->init(zone->engine, nr);
	if (by_freeing)
		cr_assert_eq(kv_zone_alloc_at(zone, 0, nr), 0);
	for (u32 at = 0; at < nr; at++) {
		bool is_free = run->map >> at & 1;

		if (by_freeing && is_free)
			cr_assert_eq(kv_zone_free(zone, at, 1), 0);
		else if (!by_freeing && !is_free)
			cr_assert_eq(kv_zone_alloc_at(zone, at, 1), 0);
	}
	memcpy(run->saved, zone->engine, run->bytes);
	run->p.model.free[0] = run->p.at = run->map;
	zone_expect(&run->p, zone_model_agrees(&run->p.model, zone), "reached");
}

/* After a call: same map as the model; after a failure: same bytes. Then back to the state. */
static void compare(struct run *run, int err, const char *what)
{
	struct kv_zone *zone = run->p.zone;

	run->nr_calls++;
	if (err)
		zone_expect(&run->p, !memcmp(zone->engine, run->saved, run->bytes),
			    "%s failed and left a trace", what);
	else
		zone_expect(&run->p, zone_model_agrees(&run->p.model, zone), "%s", what);
	memcpy(zone->engine, run->saved, run->bytes);
	run->p.model.free[0] = run->map;
}

static void try_windows(struct run *run, struct kv_zone_req req)
{
	u32 nr = run->p.zone->nr_blocks;

	for (req.lo = 0; req.lo < nr; req.lo++)
		for (req.hi = req.lo + 1; req.hi <= nr; req.hi++)
			compare(run, zone_step_req(&run->p, &req), "alloc_req");
}

static void try_all_requests(struct run *run)
{
	struct kv_zone_req req = { 0 };

	for (req.nr = 1; req.nr <= run->p.zone->nr_blocks; req.nr++)
		for (req.align = 1; req.align <= 8; req.align *= 2)
			for (req.fit = KV_FIT_BEST; req.fit <= KV_FIT_FIRST; req.fit++)
				for (req.topdown = 0; req.topdown <= 1; req.topdown++)
					try_windows(run, req);
}

/*
 * All sets of blocks, those with a free one among them included; @twice repeats the lowest. What
 * was undone block by block may look different inside, so only the map is compared here.
 */
static void try_give_set(struct run *run, u32 set, bool twice)
{
	u32 ids[MAX_NR + 1], nr = 0;

	for (u32 left = set; left; left &= left - 1)
		ids[nr++] = kv_lowest64(left);
	if (twice)
		ids[nr++] = ids[0];
	zone_step_free_many(&run->p, ids, nr);
	compare(run, 0, "free_many");
}

static void try_reading(struct run *run)
{
	u32 nr_blocks = run->p.zone->nr_blocks;
	u64 orders[KVMM_NR_ORDERS] = { 0 };
	struct zone_model trim = run->p.model;
	struct kv_zone_glance glance;

	for (u32 nr = 1; nr <= nr_blocks; nr++)
		zone_step_read(&run->p, nr, nr - 1);
	/* The pieces of a buddy on the same map, counted by order. */
	trim.kind = ZONE_TRIM;
	for (unsigned int order = 0; order < 4 && BIT(order) <= trim.nr; order++) {
		orders[order] = zone_model_count(&trim, BIT(order)).nr_usable;
		if (order)
			orders[order - 1] -= orders[order];
	}
	kv_zone_glance(run->p.zone, &glance);
	zone_expect(&run->p, !memcmp(glance.free, orders, sizeof(orders)), "buddyinfo");
}

static void try_everything(struct run *run)
{
	u32 nr_blocks = run->p.zone->nr_blocks;

	try_reading(run);
	try_all_requests(run);
	for (u32 nr = 1; nr <= nr_blocks; nr++) {
		for (u32 start = 0; start + nr <= nr_blocks; start++) {
			compare(run, zone_step_free(&run->p, start, nr), "free");
			compare(run, zone_step_at(&run->p, start, nr), "alloc_at");
		}
		for (unsigned int max_runs = 1; max_runs <= 4; max_runs++)
			compare(run, zone_step_runs(&run->p, nr, max_runs), "alloc_runs");
		compare(run, zone_step_many(&run->p, nr), "alloc_many");
	}
	for (u32 set = 1; set < BIT(nr_blocks); set++) {
		try_give_set(run, set, false);
		if (set != BIT(nr_blocks) - 1)
			try_give_set(run, set, true);
	}
}

static u64 visit_all(const char *engine, u32 nr_blocks)
{
	struct kv_zone_attr attr = { 0 };
	static struct run run;

	run = (struct run){ .nr_calls = 0 };
	attr.engine = engine;
	attr.nr_blocks = nr_blocks;
	cr_assert_eq(kv_zone_create(&attr, &run.p.zone), 0);
	run.bytes = run.p.zone->ops->metadata_bytes(nr_blocks);
	cr_assert_leq(run.bytes, MAX_BYTES);
	zone_model_init(&run.p.model, zone_kind(engine), nr_blocks);
	for (run.map = 0; run.map < BIT(nr_blocks); run.map++) {
		reach(&run, true);
		try_everything(&run);
		reach(&run, false);
		if (nr_blocks < MAX_NR)
			try_everything(&run);
	}
	zone_model_exit(&run.p.model);
	kv_zone_destroy(run.p.zone);
	return run.nr_calls;
}

static void visit_engine(const char *engine)
{
	u32 max = test_is_short() ? MAX_NR - 2 : MAX_NR;
	u64 nr_calls = 0;

	for (u32 nr_blocks = 1; nr_blocks <= max; nr_blocks++)
		nr_calls += visit_all(engine, nr_blocks);
	printf("%s: %lu calls\n", engine, nr_calls);
	fflush(stdout);
}

static bool have_engine(const char *engine)
{
	const char *names[MAX_ENGINES];
	unsigned int nr = kv_zone_engines(names, MAX_ENGINES);

	while (nr--)
		if (!strcmp(names[nr], engine))
			return true;
	return false;
}

Test(exhaustive_zone, default_engine_is_the_model)
{
	const char *names[MAX_ENGINES];

	kv_zone_engines(names, MAX_ENGINES);
	visit_engine(names[0]);
}

#define TEST_ENGINE(test, engine)							\
	Test(exhaustive_zone, test)							\
	{										\
		cr_assert(have_engine(engine));						\
		visit_engine(engine);							\
	}

TEST_ENGINE(best_is_the_model, "best")
TEST_ENGINE(first_is_the_model, "first")
TEST_ENGINE(lists_fits_wherever_the_model_does, "lists")
TEST_ENGINE(buddy_trim_is_the_model, "buddy-trim")
