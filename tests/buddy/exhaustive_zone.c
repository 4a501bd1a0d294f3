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
#include "tests/support/test.h"
#include "tests/support/zone_model.h"

#define MAX_NR		8u
#define MAX_ENGINES	16u
#define MAX_BYTES	65536u

struct run {
	const char *engine;
	struct kvmm_zone *zone;
	struct zone_model model;
	size_t bytes;		/* of the engine's metadata */
	u64 nr_calls;
	u32 map;		/* the state: free blocks */
	char saved[MAX_BYTES];
};

/* Both ways to the same map; the engine may look different inside, but must act the same. */
static void reach(struct run *run, bool by_freeing)
{
	u32 nr = run->zone->nr_blocks;

	memset(run->zone->engine, 0, run->bytes);
	run->zone->ops->init(run->zone->engine, nr);
	if (by_freeing)
		cr_assert_eq(kvmm_zone_alloc_at(run->zone, 0, nr), 0);
	for (u32 at = 0; at < nr; at++) {
		bool is_free = run->map >> at & 1;

		if (by_freeing && is_free)
			cr_assert_eq(kvmm_zone_free(run->zone, at, 1), 0);
		else if (!by_freeing && !is_free)
			cr_assert_eq(kvmm_zone_alloc_at(run->zone, at, 1), 0);
	}
	memcpy(run->saved, run->zone->engine, run->bytes);
	run->model.free[0] = run->map;
	cr_assert(zone_model_agrees(&run->model, run->zone), "%s %x", run->engine, run->map);
}

#define expect(run, cond, fmt, ...)							\
	cr_assert(cond, "%s, %u blocks, free %x: " fmt, (run)->engine,			\
		  (run)->zone->nr_blocks, (run)->map, ##__VA_ARGS__)

/* After a call: same map as the model; after a failure: same bytes. Then back to the state. */
static void compare(struct run *run, int err, const char *what)
{
	run->nr_calls++;
	if (err)
		expect(run, !memcmp(run->zone->engine, run->saved, run->bytes),
		       "%s failed and left a trace", what);
	else
		expect(run, zone_model_agrees(&run->model, run->zone), "%s", what);
	memcpy(run->zone->engine, run->saved, run->bytes);
	run->model.free[0] = run->map;
}

static void try_req(struct run *run, const struct kv_zone_req *req)
{
	u32 want = zone_model_place(&run->model, req), got = KV_NONE;
	int err = kv_zone_alloc_req(run->zone, req, &got);

	expect(run, err == (want == KV_NONE ? -ENOSPC : 0),
	       "nr %u align %u [%u, %u) fit %u topdown %u is %d", req->nr, req->align, req->lo,
	       req->hi, req->fit, req->topdown, err);
	if (run->model.kind == ZONE_ANY_FIT && !err)
		expect(run, zone_model_serves(&run->model, req, got), "nr %u at %u", req->nr, got);
	else
		expect(run, got == want, "nr %u align %u [%u, %u) fit %u topdown %u: %u, not %u",
		       req->nr, req->align, req->lo, req->hi, req->fit, req->topdown, got, want);
	if (!err)
		zone_model_take(&run->model, got, req->nr);
	compare(run, err, "alloc_req");
}

static void try_windows(struct run *run, struct kv_zone_req req)
{
	u32 nr = run->zone->nr_blocks;

	for (req.lo = 0; req.lo < nr; req.lo++)
		for (req.hi = req.lo + 1; req.hi <= nr; req.hi++)
			try_req(run, &req);
}

static void try_all_requests(struct run *run)
{
	struct kv_zone_req req = { 0 };

	for (req.nr = 1; req.nr <= run->zone->nr_blocks; req.nr++)
		for (req.align = 1; req.align <= 8; req.align *= 2)
			for (req.fit = KV_FIT_BEST; req.fit <= KV_FIT_FIRST; req.fit++)
				for (req.topdown = 0; req.topdown <= 1; req.topdown++)
					try_windows(run, req);
}

static void try_range(struct run *run, u32 start, u32 nr)
{
	int err = kvmm_zone_free(run->zone, start, nr);

	expect(run, err == zone_model_can_give(&run->model, start, nr), "free %u+%u is %d", start,
	       nr, err);
	if (!err)
		zone_model_give(&run->model, start, nr);
	compare(run, err, "free");

	err = kvmm_zone_alloc_at(run->zone, start, nr);
	expect(run, err == zone_model_can_take_at(&run->model, start, nr), "claim %u+%u is %d",
	       start, nr, err);
	if (!err)
		zone_model_take(&run->model, start, nr);
	compare(run, err, "alloc_at");
}

/* The k longest pieces decide; what is taken is taken in that order, the last by the usual rule. */
static void try_runs(struct run *run, u32 nr, unsigned int max_runs)
{
	u32 len[KVMM_MAX_RUNS], sum = 0, left = nr;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	unsigned int have = zone_model_longest(&run->model, len, max_runs);
	int nr_ext = kv_zone_alloc_runs(run->zone, nr, max_runs, ext);

	for (unsigned int i = 0; i < have; i++)
		sum += len[i];
	expect(run, (nr_ext == -ENOSPC) == (sum < nr), "%u in %u runs is %d", nr, max_runs, nr_ext);
	for (int i = 0; i < nr_ext; i++) {
		u32 longest = zone_model_count(&run->model, 1).largest;
		struct kv_zone_req req = { .nr = min(left, longest), .align = 1,
					     .hi = run->zone->nr_blocks };

		expect(run, ext[i].nr == req.nr, "%u in %u runs: %u+%u", nr, max_runs,
		       ext[i].start, ext[i].nr);
		if (run->model.kind == ZONE_ANY_FIT)
			expect(run, zone_model_serves(&run->model, &req, ext[i].start), "runs");
		else
			expect(run, zone_model_place(&run->model, &req) == ext[i].start, "runs");
		zone_model_take(&run->model, ext[i].start, ext[i].nr);
		left -= ext[i].nr;
	}
	if (nr_ext > 0)
		expect(run, !left, "%u in %u runs, %u missing", nr, max_runs, left);
	compare(run, min(nr_ext, 0), "alloc_runs");
}

static void try_singles(struct run *run, u32 nr)
{
	u32 nr_free = zone_model_count(&run->model, 1).nr_free, ids[MAX_NR];
	int err = kvmm_zone_alloc_many(run->zone, nr, ids);

	expect(run, err == (nr_free < nr ? -ENOSPC : 0), "%u singles are %d", nr, err);
	for (u32 i = 0; !err && i < nr; i++) {
		expect(run, ids[i] < run->zone->nr_blocks &&
		       zone_model_is_free(&run->model, ids[i]), "single %u", ids[i]);
		zone_model_take(&run->model, ids[i], 1);
	}
	compare(run, err, "alloc_many");
}

/*
 * All sets of blocks, those with a free one among them included; @twice repeats the lowest. What
 * was undone block by block may look different inside, so only the map is compared here.
 */
static void try_give_set(struct run *run, u32 set, bool twice)
{
	u32 ids[MAX_NR + 1], nr = 0;
	int err, want = set & run->map || twice ? -EINVAL : 0;

	for (u32 left = set; left; left &= left - 1)
		ids[nr++] = kv_lowest64(left);
	if (twice)
		ids[nr++] = ids[0];
	err = kvmm_zone_free_many(run->zone, ids, nr);
	expect(run, err == want, "free set %x is %d", set, err);
	if (!err)
		run->model.free[0] |= set;
	compare(run, 0, "free_many");
}

static void try_reading(struct run *run)
{
	u64 counts[KVMM_NR_MOBILITY * KVMM_NR_ORDERS], orders[KVMM_NR_ORDERS] = { 0 };
	struct zone_model trim = run->model;
	struct kvmm_extent got, want;

	for (u32 nr = 1; nr <= run->zone->nr_blocks; nr++) {
		struct zone_model_counts c = zone_model_count(&run->model, nr);
		u64 ppm = c.nr_free ? (c.nr_free - c.usable) * 1000000ull / c.nr_free : 1000000;

		expect(run, kvmm_zone_unusable(run->zone, nr) == ppm, "unusable(%u)", nr);
		expect(run, (kvmm_zone_fragmentation(run->zone, nr) == -1000000) == !!c.nr_usable,
		       "fragmentation(%u)", nr);
	}
	for (u32 from = 0; from < run->zone->nr_blocks; from++) {
		want = zone_model_next(&run->model, from);
		if (kvmm_zone_next_free(run->zone, from, &got))
			got = (struct kvmm_extent){ run->zone->nr_blocks, 0 };
		expect(run, got.start == want.start && got.nr == want.nr, "next_free(%u)", from);
	}
	/* The pieces of a buddy on the same map, counted by order. */
	trim.kind = ZONE_TRIM;
	for (unsigned int order = 0; order < 4 && BIT(order) <= trim.nr; order++) {
		orders[order] = zone_model_count(&trim, BIT(order)).nr_usable;
		if (order)
			orders[order - 1] -= orders[order];
	}
	cr_assert_eq(kvmm_zone_buddyinfo(run->zone, counts), 0);
	expect(run, !memcmp(counts, orders, sizeof(orders)), "buddyinfo");
}

static void try_everything(struct run *run)
{
	u32 nr_blocks = run->zone->nr_blocks;

	try_reading(run);
	try_all_requests(run);
	for (u32 nr = 1; nr <= nr_blocks; nr++) {
		for (u32 start = 0; start + nr <= nr_blocks; start++)
			try_range(run, start, nr);
		for (unsigned int max_runs = 1; max_runs <= 4; max_runs++)
			try_runs(run, nr, max_runs);
		try_singles(run, nr);
	}
	for (u32 set = 1; set < BIT(nr_blocks); set++) {
		try_give_set(run, set, false);
		if (set != BIT(nr_blocks) - 1)
			try_give_set(run, set, true);
	}
}

static u64 visit_all(const char *engine, u32 nr_blocks)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	static struct run run;

	run = (struct run){ .engine = engine };
	attr.engine = engine;
	attr.nr_blocks = nr_blocks;
	cr_assert_eq(kvmm_zone_create(&attr, &run.zone), 0);
	run.bytes = run.zone->ops->metadata_bytes(nr_blocks);
	cr_assert_leq(run.bytes, MAX_BYTES);
	zone_model_init(&run.model, zone_kind(engine), nr_blocks);
	for (run.map = 0; run.map < BIT(nr_blocks); run.map++) {
		reach(&run, true);
		try_everything(&run);
		reach(&run, false);
		if (nr_blocks < MAX_NR)
			try_everything(&run);
	}
	zone_model_exit(&run.model);
	kvmm_zone_destroy(run.zone);
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
	unsigned int nr = kvmm_zone_engines(names, MAX_ENGINES);

	while (nr--)
		if (!strcmp(names[nr], engine))
			return true;
	return false;
}

Test(exhaustive_zone, default_engine_is_the_model)
{
	const char *names[MAX_ENGINES];

	kvmm_zone_engines(names, MAX_ENGINES);
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
