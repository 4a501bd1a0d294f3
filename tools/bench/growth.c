// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences that grow block by block, as decoding makes them: a prompt, then one block a step
 * until a random end. How many pieces is a finished one in, and what does a step cost?
 *
 * Ways to hold them: ranges of a pool that have said that they will grow, without and with compaction,
 * one by one and a batch at once; ranges that have not said so; ranges that the engine lets grow by
 * ever larger chunks, which it pays for; single blocks, the next one taken if it is free; a stack of
 * free blocks, as paged allocators have it. The load is what sequences hold of the zone when one is
 * admitted.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "sizes.h"

#define NR_BLOCKS	(1u << 14)
#define MAX_DECODE	1000u
#define MEAN_DECODE	56.0
#define MAX_SEQUENCE	(SIZES_MAX + MAX_DECODE)
#define MAX_RANGES	256u
#define MAX_CHUNK	64u
#define NR_LIVE		(NR_BLOCKS / 16)	/* more than ever are */
#define NR_DRAWN	8192u
#define FINISHED	3000u			/* sequences a run */

struct sequence {
	u32 nr;			/* blocks filled or about to be */
	u32 left;		/* steps to go */
	u32 spare;		/* held beyond @nr */
	u32 chunk;		/* last growth */
	u32 nr_ranges;
	kvmm_range_t *ranges;	/* room for MAX_RANGES */
	u32 *ids;		/* of single blocks, room for MAX_SEQUENCE */
};

struct holder;

/* One way to hold sequences; grow() and start() return 0 or -ENOSPC and change nothing then. */
struct way {
	const char *name;
	int (*open)(struct holder *holder);
	void (*close)(struct holder *holder);
	int (*start)(struct holder *holder, struct sequence *seq, u32 nr);
	int (*grow)(struct holder *holder, struct sequence *seq);	/* NULL: all at once */
	void (*end)(struct holder *holder, struct sequence *seq);
	u32 (*extents)(struct holder *holder, const struct sequence *seq);
};

struct holder {
	const struct way *way;
	struct kvmm_pool *pool;
	struct kvmm_zone *zone;
	u32 *stack;		/* free ids */
	u32 nr_stack;
	u32 flags;		/* of ranges */
	u32 max_chunk;		/* blocks a range grows by */
};

/* ---- ranges ---- */

static int open_pool(struct holder *holder, u32 flags, u32 max_chunk)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = NR_BLOCKS;
	holder->flags = KVMM_RUNS(KVMM_MAX_RUNS) | flags;
	holder->max_chunk = max_chunk;
	return kvmm_pool_create(&attr, &holder->pool);
}

static int quiet_open(struct holder *holder)
{
	return open_pool(holder, KVMM_ALLOC_NO_COMPACT, 1);
}

static int grows_open(struct holder *holder)
{
	return open_pool(holder, KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_GROWS, 1);
}

static int chunk_open(struct holder *holder)
{
	return open_pool(holder, KVMM_ALLOC_NO_COMPACT, MAX_CHUNK);
}

static int moving_open(struct holder *holder)
{
	return open_pool(holder, KVMM_ALLOC_GROWS, 1);
}

static void range_close(struct holder *holder)
{
	kvmm_pool_destroy(holder->pool);
}

static int range_start(struct holder *holder, struct sequence *seq, u32 nr)
{
	seq->nr_ranges = 1;
	seq->spare = 0;
	seq->chunk = 1;
	return kvmm_range_alloc(holder->pool, nr, holder->flags, &seq->ranges[0]);
}

static int range_extend(struct holder *holder, struct sequence *seq, u32 nr)
{
	int err = kvmm_range_grow(holder->pool, seq->ranges[seq->nr_ranges - 1], nr);

	if (!err || seq->nr_ranges == MAX_RANGES)
		return err;
	err = kvmm_range_alloc(holder->pool, nr, holder->flags, &seq->ranges[seq->nr_ranges]);
	seq->nr_ranges += !err;
	return err;
}

/* Twice as much each time, but one block rather than none. */
static int range_grow(struct holder *holder, struct sequence *seq)
{
	if (seq->spare) {
		seq->spare--;
		return 0;
	}
	if (seq->chunk < holder->max_chunk)
		seq->chunk *= 2;
	if (!range_extend(holder, seq, seq->chunk)) {
		seq->spare = seq->chunk - 1;
		return 0;
	}
	seq->chunk = 1;
	return holder->max_chunk == 1 ? -ENOSPC : range_extend(holder, seq, 1);
}

static void range_end(struct holder *holder, struct sequence *seq)
{
	for (u32 i = 0; i < seq->nr_ranges; i++)
		kvmm_range_free(holder->pool, seq->ranges[i]);
}

static u32 range_extents(struct holder *holder, const struct sequence *seq)
{
	u32 nr = 0;

	for (u32 i = 0; i < seq->nr_ranges; i++)
		nr += kvmm_range_extents(holder->pool, seq->ranges[i], NULL, 0);
	return nr;
}

/* ---- single blocks: the next one if it is free ---- */

static int next_open(struct holder *holder)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;

	attr.nr_blocks = NR_BLOCKS;
	return kvmm_zone_create(&attr, &holder->zone);
}

static void next_close(struct holder *holder)
{
	kvmm_zone_destroy(holder->zone);
}

static int next_start(struct holder *holder, struct sequence *seq, u32 nr)
{
	if (kvmm_zone_alloc(holder->zone, nr, seq->ids))
		return kvmm_zone_alloc_many(holder->zone, nr, seq->ids);
	for (u32 i = 1; i < nr; i++)
		seq->ids[i] = seq->ids[0] + i;
	return 0;
}

static int next_grow(struct holder *holder, struct sequence *seq)
{
	u32 next = seq->ids[seq->nr - 1] + 1;

	if (kvmm_zone_alloc_at(holder->zone, next, 1))
		return kvmm_zone_alloc(holder->zone, 1, &seq->ids[seq->nr]);
	seq->ids[seq->nr] = next;
	return 0;
}

static void next_end(struct holder *holder, struct sequence *seq)
{
	kvmm_zone_free_many(holder->zone, seq->ids, seq->nr);
}

static u32 ids_extents(struct holder *holder, const struct sequence *seq)
{
	u32 nr = 1;

	for (u32 i = 1; i < seq->nr; i++)
		nr += seq->ids[i] != seq->ids[i - 1] + 1;
	return nr;
}

/* ---- single blocks: a stack ---- */

static int stack_open(struct holder *holder)
{
	holder->stack = must_alloc(NR_BLOCKS * sizeof(*holder->stack));
	for (u32 i = 0; i < NR_BLOCKS; i++)
		holder->stack[i] = NR_BLOCKS - 1 - i;
	holder->nr_stack = NR_BLOCKS;
	return 0;
}

static void stack_close(struct holder *holder)
{
	free(holder->stack);
}

static int stack_start(struct holder *holder, struct sequence *seq, u32 nr)
{
	if (nr > holder->nr_stack)
		return -ENOSPC;
	for (u32 i = 0; i < nr; i++)
		seq->ids[i] = holder->stack[--holder->nr_stack];
	return 0;
}

static int stack_grow(struct holder *holder, struct sequence *seq)
{
	if (!holder->nr_stack)
		return -ENOSPC;
	seq->ids[seq->nr] = holder->stack[--holder->nr_stack];
	return 0;
}

static void stack_end(struct holder *holder, struct sequence *seq)
{
	for (u32 i = seq->nr; i > 0; i--)
		holder->stack[holder->nr_stack++] = seq->ids[i - 1];
}

static const struct way ways[] = {
	{ "grows", grows_open, range_close, range_start, range_grow, range_end, range_extents },
	{ "grows-batch", grows_open, range_close, range_start, NULL, range_end, range_extents },
	{ "grows+compact", moving_open, range_close, range_start, range_grow, range_end,
	  range_extents },
	{ "unsaid", quiet_open, range_close, range_start, range_grow, range_end, range_extents },
	{ "chunks", chunk_open, range_close, range_start, range_grow, range_end, range_extents },
	{ "next-if-free", next_open, next_close, next_start, next_grow, next_end, ids_extents },
	{ "stack", stack_open, stack_close, stack_start, stack_grow, stack_end, ids_extents },
};

#define NR_WAYS		ARRAY_SIZE(ways)
#define STACK		(NR_WAYS - 1)

/* ---- the engine around it ---- */

struct engine {
	struct holder holder;
	struct sequence *live[NR_LIVE];		/* then those that are over */
	u32 nr_live;
	const struct sizes *prompts;
	const u16 *decodes;			/* NR_DRAWN */
	u32 at;					/* next of both */
	u32 used;
	u32 spare;				/* held beyond @used by ranges that grow ahead */
	u32 limit;				/* of both when one is admitted */
	u64 finished, preempted, extents, longest;
	u64 steps, held;			/* occupancy is held / steps */
};

static void engine_init(struct engine *engine, const struct way *way, u32 percent)
{
	engine->holder.way = way;
	engine->limit = (u64)NR_BLOCKS * percent / 100;
	for (u32 i = 0; i < NR_LIVE; i++) {
		engine->live[i] = must_alloc(sizeof(struct sequence));
		engine->live[i]->ids = must_alloc(MAX_SEQUENCE * sizeof(u32));
		engine->live[i]->ranges = must_alloc(MAX_RANGES * sizeof(kvmm_range_t));
	}
}

static void engine_exit(struct engine *engine)
{
	for (u32 i = 0; i < NR_LIVE; i++) {
		free(engine->live[i]->ids);
		free(engine->live[i]->ranges);
		free(engine->live[i]);
	}
	free(engine);
}

static void remove_sequence(struct engine *engine, u32 i)
{
	struct sequence *seq = engine->live[i];

	engine->holder.way->end(&engine->holder, seq);
	engine->used -= seq->nr;
	engine->spare -= seq->spare;
	engine->live[i] = engine->live[--engine->nr_live];
	engine->live[engine->nr_live] = seq;
}

static void admit(struct engine *engine)
{
	while (engine->nr_live < NR_LIVE) {
		u32 nr = engine->prompts->at[engine->at & (engine->prompts->nr - 1)];
		struct sequence *seq = engine->live[engine->nr_live];

		if (engine->used + engine->spare + nr > engine->limit ||
		    engine->holder.way->start(&engine->holder, seq, nr))
			return;
		seq->nr = nr;
		seq->left = engine->decodes[engine->at++ & (NR_DRAWN - 1)];
		engine->used += nr;
		engine->nr_live++;
	}
}

/* All of them, or if there are too few blocks none. */
static void grow_batch(struct engine *engine)
{
	kvmm_range_t ranges[NR_LIVE];
	u32 nr = 0;
	int err;

	for (u32 i = 0; i < engine->nr_live; i++)
		if (engine->live[i]->left)
			ranges[nr++] = engine->live[i]->ranges[0];
	err = kvmm_range_grow_many(engine->holder.pool, ranges, nr, 1);
	for (u32 i = 0; i < engine->nr_live; i++) {
		struct sequence *seq = engine->live[i];

		if (!seq->left)
			continue;
		seq->nr += !err;
		seq->left = err ? UINT32_MAX : seq->left - 1;
		engine->used += !err;
	}
}

/* One block more for each; those that get none have a mark left for the sweep. */
static void grow_all(struct engine *engine)
{
	const struct way *way = engine->holder.way;

	if (!way->grow) {
		grow_batch(engine);
		return;
	}
	for (u32 i = 0; i < engine->nr_live; i++) {
		struct sequence *seq = engine->live[i];

		if (!seq->left)
			continue;
		engine->spare -= seq->spare;
		if (!way->grow(&engine->holder, seq)) {
			seq->nr++;
			seq->left--;
			engine->used++;
		} else {
			seq->left = UINT32_MAX;
		}
		engine->spare += seq->spare;
	}
}

static void sweep(struct engine *engine)
{
	for (u32 i = engine->nr_live; i-- > 0;) {
		struct sequence *seq = engine->live[i];

		if (seq->left && seq->left != UINT32_MAX)
			continue;
		if (seq->left) {
			engine->preempted++;
		} else {
			u32 nr = engine->holder.way->extents(&engine->holder, seq);

			engine->finished++;
			engine->extents += nr;
			if (nr > engine->longest)
				engine->longest = nr;
		}
		remove_sequence(engine, i);
	}
}

#define MAX_STEPS	20000u

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Until enough have finished; the nanoseconds of one growth, median over the steps, and of the step
 * that only one in a hundred exceeds: a mean of the batch each.
 */
static double run_steps(struct engine *engine, double *p99)
{
	static double ns[MAX_STEPS];
	u64 until = engine->finished + FINISHED;
	u32 nr = 0;

	while (engine->finished < until && nr < MAX_STEPS) {
		u64 begin;

		admit(engine);
		begin = now_ns();
		grow_all(engine);
		ns[nr++] = (double)(now_ns() - begin) / engine->nr_live;
		engine->held += engine->used;
		engine->steps++;
		sweep(engine);
	}
	qsort(ns, nr, sizeof(ns[0]), compare_double);
	*p99 = ns[nr * 99 / 100];
	return ns[nr / 2];
}

/* ---- measuring ---- */

struct figures {
	struct series *extents, *longest, *grow, *p99, *preempted, *occupancy;
};

static void make_series(struct bench *bench, struct figures *f, const char *name, u32 percent)
{
#define GROWTH_SERIES(metric, unit)						\
	bench_series(bench, metric, unit, "holder=%s nr=%u load=%u", name, NR_BLOCKS, percent)
	f->extents = GROWTH_SERIES("extents", "/seq");
	f->longest = GROWTH_SERIES("most_extents", "");
	f->grow = GROWTH_SERIES("grow_ns", "ns");
	f->p99 = GROWTH_SERIES("grow_p99_ns", "ns");
	f->preempted = GROWTH_SERIES("preempted", "ppm");
	f->occupancy = GROWTH_SERIES("occupancy", "%");
#undef GROWTH_SERIES
}

static int measure(struct bench *bench, struct figures *f, const struct way *way,
		   struct engine *engine)
{
	int err = way->open(&engine->holder);
	double ns, p99;

	if (err)
		return err;
	run_steps(engine, &p99);
	engine->finished = engine->preempted = engine->extents = engine->longest = 0;
	engine->steps = engine->held = 0;
	ns = run_steps(engine, &p99);
	series_add(f->grow, ns);
	series_add(f->p99, p99);
	series_add(f->longest, engine->longest);
	series_add(f->extents, (double)engine->extents / engine->finished);
	series_add(f->preempted, 1e6 * engine->preempted / engine->finished);
	series_add(f->occupancy, 100.0 * engine->held / engine->steps / NR_BLOCKS);
	while (engine->nr_live)
		remove_sequence(engine, engine->nr_live - 1);
	way->close(&engine->holder);
	return 0;
}

/* Geometric: at each step the same chance to be over. */
static void draw_decodes(u16 *decodes, u64 seed)
{
	for (u32 i = 0; i < NR_DRAWN; i++) {
		double unit = ((random_next(&seed) >> 11) + 0.5) / 9007199254740992.0;
		double steps = 1 + floor(log(unit) / log(1 - 1 / MEAN_DECODE));

		decodes[i] = steps > MAX_DECODE ? MAX_DECODE : steps;
	}
}

static int measure_ways(struct bench *bench, struct figures *f, u32 percent, u64 seed)
{
	static u16 decodes[NR_DRAWN];
	struct sizes prompts;
	int err = 0;

	sizes_requests(&prompts, seed);
	draw_decodes(decodes, seed);
	for (size_t i = 0; !err && i < NR_WAYS; i++) {
		struct engine *engine = must_alloc(sizeof(*engine));

		engine_init(engine, &ways[i], percent);
		engine->prompts = &prompts;
		engine->decodes = decodes;
		err = measure(bench, &f[i], &ways[i], engine);
		engine_exit(engine);
	}
	sizes_exit(&prompts);
	return err;
}

static int run_load(struct bench *bench, u32 percent)
{
	struct figures f[NR_WAYS];
	int err = 0;

	for (size_t i = 0; i < NR_WAYS; i++)
		make_series(bench, &f[i], ways[i].name, percent);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		err = measure_ways(bench, f, percent, bench->seed + run);
		for (size_t i = 0; i < NR_WAYS; i++) {
			series_against(f[i].grow, "mutex_pair", mutex_pair);
			series_against(f[i].p99, "mutex_pair", mutex_pair);
		}
	}
	for (size_t i = 0; i < STACK; i++) {
		series_against(f[i].extents, "stack", f[STACK].extents);
		series_against(f[i].preempted, "stack", f[STACK].preempted);
		series_against(f[i].occupancy, "stack", f[STACK].occupancy);
	}
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	static const u32 percent[] = { 50, 60, 70, 80, 90, 95 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(percent); i++)
		err = run_load(bench, percent[i]);
	return err;
}

const struct bench_kind bench_growth = {
	.name = "growth",
	.what = "sequences that grow block by block: pieces when finished, cost of a step",
	.run = run,
};
