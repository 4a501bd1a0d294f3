// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that is given back and comes again, told from the ranges that its owner is told of; and a pool that
 * looks at its own holes now and then, told from where its free blocks lie when it does.
 */
#include "metrics_run.h"

#define NR_RANGES	12u

struct owner {
	struct kvmm_pool *pool;
	kvmm_range_t range[NR_RANGES];
	u32 nr_ranges;
	u32 pinned_of;		/* so many of @pinned_of + 1 never move */
};

/* Ranges that come and go, and leave holes. */
static void use_ranges(struct owner *owner)
{
	u32 pinned = any(owner->pinned_of + 1) ? KVMM_ALLOC_PINNED : 0, i;

	if (any(2) && owner->nr_ranges < NR_RANGES) {
		if (!kvmm_range_alloc(owner->pool, 1 + any(6), pinned | KVMM_ALLOC_NO_COMPACT | KVMM_RUNS(2),
				      &owner->range[owner->nr_ranges]))
			owner->nr_ranges++;
	} else if (owner->nr_ranges) {
		i = any(owner->nr_ranges);
		must(kvmm_range_free(owner->pool, owner->range[i]), "range_free");
		owner->range[i] = owner->range[--owner->nr_ranges];
	}
}

/* ---- memory of the test's own, in units ---- */

#define UNIT		4096u
#define BYTES		1024u
#define NR_UNITS	16u
#define NR_BLOCKS	(NR_UNITS * UNIT / BYTES)

static struct owner lent;
static u8 memory[NR_UNITS * UNIT] __attribute__((aligned(UNIT)));
static bool is_away[NR_UNITS];
static u64 shrunk_units, regained_units, target;

/* What nobody has told of yet. */
static void see_freed(void)
{
	struct kvmm_mem_range range[NR_UNITS];
	int nr = kvmm_pool_freed(lent.pool, range, NR_UNITS);

	must(nr, "freed");
	for (int i = 0; i < nr; i++)
		for (u64 at = range[i].addr; at < range[i].addr + range[i].bytes; at += UNIT) {
			is_away[(at - (u64)(uintptr_t)memory) / UNIT] = true;
			shrunk_units++;
		}
}

static void shrink(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = (1 + any(5)) * UNIT, .min_bytes = UNIT };
	int err = kvmm_pool_shrink(lent.pool, &req);
	u64 before = shrunk_units;

	if (err && err != -ENOSPC && err != -EBUSY)
		must(err, "shrink");
	see_freed();
	if (!err && (shrunk_units - before) * UNIT != req.given_bytes)
		must(-1, "what a shrink gives");
}

static void regain(void)
{
	struct kvmm_mem_range range[NR_UNITS];
	struct kvmm_regain req = { .size = sizeof(req), .ranges = range };
	int err;

	for (u32 i = 0; i < NR_UNITS; i++)
		if (is_away[i] && any(2))
			range[req.nr_ranges++] = (struct kvmm_mem_range){
				(u64)(uintptr_t)memory + i * UNIT, UNIT };
	if (!req.nr_ranges || target)
		return;
	err = kvmm_pool_grow(lent.pool, &req);
	if (err == -EBUSY)
		return;
	must(err, "grow");
	for (u32 i = 0; i < req.nr_ranges; i++)
		is_away[(range[i].addr - (u64)(uintptr_t)memory) / UNIT] = false;
	regained_units += req.nr_ranges;
}

static void blow_up(u64 bytes)
{
	target = bytes;
	must(kvmm_balloon_set(lent.pool, target), "balloon");
	for (u32 i = 0; i < 8; i++) {
		must(kv_balloon_tick(lent.pool), "tick");
		see_freed();
	}
}

static void lend_use(void)
{
	u32 what = any(6);

	if (what == 0)
		shrink();
	else if (what == 1)
		regain();
	else if (what == 2)
		blow_up(any(2) ? any(6) * UNIT : 0);
	else
		use_ranges(&lent);
	see_freed();
}

static void lend_expect(void)
{
	struct kvmm_block_info info;
	u32 nr_away = 0, nr_units = 0;

	blow_up(run_seed % 2 * 3 * UNIT);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		must(kvmm_block_get_info(lent.pool, i, &info), "block_info");
		nr_away += info.state == KVMM_BLOCK_AWAY;
	}
	for (u32 i = 0; i < NR_UNITS; i++)
		nr_units += is_away[i];
	expect("kvmm_away_blocks", "lent", "", nr_away);
	expect("kvmm_elastic_bytes", "lent", "", sizeof(memory));
	expect("kvmm_given_bytes", "lent", "", nr_units * UNIT);
	expect("kvmm_balloon_bytes", "lent", "", target);
	expect("kvmm_shrunk_bytes_total", "lent", "", shrunk_units * UNIT);
	expect("kvmm_regained_bytes_total", "lent", "", regained_units * UNIT);
}

static struct kvmm_pool *lend_make(const char *dir)
{
	static struct kvmm_plane plane;
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "lent",
				       .nr_blocks = NR_BLOCKS };

	plane = (struct kvmm_plane){ (u64)(uintptr_t)memory, BYTES, BYTES };
	attr.planes = &plane;
	attr.nr_planes = 1;
	must(kvmm_pool_create(&attr, &lent.pool), "pool");
	must(kvmm_pool_elastic_setup(lent.pool, &elastic), "elastic");
	return lent.pool;
}

static void lend_end(void)
{
	kvmm_pool_destroy(lent.pool);
}

const struct part metrics_lend = { lend_make, lend_use, lend_expect, lend_end };

/* ---- compaction that nobody asks for ---- */

#define NR_TIDY		56u
#define WANTED		12u
#define THRESHOLD_PM	300u
#define INTERVAL_NS	(100 * 1000000ull)
#define MOST_DEFERRED	6u

static struct owner tidy;
static u64 clock_ns, next_ns, score_pm, checks, starts, useless;
static u32 defer_shift;
static bool is_active;

/* Of the free blocks, those in runs shorter than what is wanted, per mille; 0: nothing could be done. */
static u32 count_score(void)
{
	struct kvmm_block_info info;
	u32 nr_free = 0, nr_useful = 0, run = 0;

	for (u32 i = 0; i <= NR_TIDY; i++) {
		info.state = KVMM_BLOCK_RANGE;
		if (i < NR_TIDY)
			must(kvmm_block_get_info(tidy.pool, i, &info), "block_info");
		if (info.state == KVMM_BLOCK_FREE) {
			run++;
			continue;
		}
		nr_free += run;
		nr_useful += run >= WANTED ? run : 0;
		run = 0;
	}
	return nr_free < WANTED ? 0 : (nr_free - nr_useful) * 1000000ull / nr_free / 1000;
}

/* Above the threshold it goes on until half of it; what is of no use is left for 2, 4, ... intervals. */
static void look(void)
{
	int ret;

	kvmm_compact_poll(tidy.pool);
	score_pm = clock_ns >= next_ns ? count_score() : score_pm;
	ret = kvmm_background_tick(tidy.pool);
	must(ret, "background_tick");
	if (clock_ns < next_ns) {
		if (ret)
			must(-1, "not due");
		return;
	}
	checks++;
	is_active = is_active ? score_pm > THRESHOLD_PM / 2 : score_pm >= THRESHOLD_PM;
	starts += ret;
	if (is_active && ret) {
		defer_shift = 0;
		return;
	}
	next_ns = clock_ns + INTERVAL_NS;
	if (!is_active)
		return;
	useless++;
	is_active = false;
	defer_shift = min(defer_shift + 1, MOST_DEFERRED);
	next_ns = clock_ns + (INTERVAL_NS << defer_shift);
}

static void tidy_use(void)
{
	u64 ns = any(3) ? 0 : any(3) * INTERVAL_NS / 2;

	use_ranges(&tidy);
	pass(ns);
	clock_ns += ns;
	look();
}

static void tidy_expect(void)
{
	expect_between("kvmm_background_score_ratio", "tidy", "", score_pm / 1e3, score_pm / 1e3);
	expect("kvmm_background_checks_total", "tidy", "", checks);
	expect("kvmm_background_starts_total", "tidy", "", starts);
	expect("kvmm_background_useless_total", "tidy", "", useless);
}

static struct kvmm_pool *tidy_make(const char *dir)
{
	struct kvmm_background how = { .size = sizeof(how), .max_blocks = 1024,
				       .threshold_pm = THRESHOLD_PM,
				       .interval_ms = INTERVAL_NS / 1000000,
				       .request_blocks = WANTED, .mode = KVMM_MOVE_BETWEEN };

	tidy.pinned_of = 2;
	tidy.pool = make_pool("tidy", NR_TIDY, 0, NULL);
	must(kvmm_background_set(tidy.pool, &how), "background");
	return tidy.pool;
}

static void tidy_end(void)
{
	kvmm_pool_destroy(tidy.pool);
}

const struct part metrics_tidy = { tidy_make, tidy_use, tidy_expect, tidy_end };
