// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences that grow block by block, as decoding makes them: a prompt, then one block a step
 * until a random end. How many pieces is a finished one in, and what does a step cost?
 *
 * Ways to hold them: ranges of a pool that have said that they will grow, without and with
 * compaction, one by one and a batch at once; ranges that have not said so; single blocks, the next
 * one taken if it is free; a stack of free blocks, as paged allocators have it. The load is what
 * sequences hold of the zone when one is admitted.
 */
#include <math.h>

#include "pools.h"

#define NR_BLOCKS	(1u << 14)
#define MAX_DECODE	1000u
#define MEAN_DECODE	56.0
#define MAX_SEQUENCE	(SIZES_MAX + MAX_DECODE)
#define NR_LIVE		(NR_BLOCKS / 16)	/* more than ever are */
#define NR_DRAWN	8192u
#define FINISHED	3000u			/* sequences a run */

struct sequence {
	u32 nr;			/* blocks filled or about to be */
	u32 left;		/* steps to go */
	kvmm_range_t range;
	u32 *ids;		/* of single blocks, room for MAX_SEQUENCE */
};

struct holder;
struct kind;

/* One way to hold sequences; grow() and start() return 0 or -ENOSPC and change nothing then. */
struct way {
	int (*start)(struct holder *holder, struct sequence *seq, u32 nr);
	int (*grow)(struct holder *holder, struct sequence *seq);
	void (*end)(struct holder *holder, struct sequence *seq);
	u32 (*extents)(struct holder *holder, const struct sequence *seq);
};

/* Each way takes its blocks from one of these. */
struct holder {
	const struct kind *kind;
	struct kvmm_pool *pool;
	struct kv_zone *zone;		/* the pool's */
	u32 stack[NR_BLOCKS];		/* free ids */
	u32 nr_stack;
};

/* A way as it is measured. */
struct kind {
	const char *name;
	const struct way *way;
	u32 flags;		/* of ranges */
	bool batch;		/* all that run grow at once */
};

/* ---- ranges ---- */

static int range_start(struct holder *holder, struct sequence *seq, u32 nr)
{
	return kvmm_range_alloc(holder->pool, nr, KVMM_RUNS(KVMM_MAX_RUNS) | holder->kind->flags,
				&seq->range);
}

static int range_grow(struct holder *holder, struct sequence *seq)
{
	return kvmm_range_grow(holder->pool, seq->range, 1);
}

static void range_end(struct holder *holder, struct sequence *seq)
{
	kvmm_range_free(holder->pool, seq->range);
}

static u32 range_extents(struct holder *holder, const struct sequence *seq)
{
	return kvmm_range_extents(holder->pool, seq->range, NULL, 0);
}

/* ---- single blocks: the next one if it is free ---- */

static int next_start(struct holder *holder, struct sequence *seq, u32 nr)
{
	if (kv_zone_alloc(holder->zone, nr, seq->ids))
		return kv_zone_alloc_many(holder->zone, nr, seq->ids);
	for (u32 i = 1; i < nr; i++)
		seq->ids[i] = seq->ids[0] + i;
	return 0;
}

static int next_grow(struct holder *holder, struct sequence *seq)
{
	u32 next = seq->ids[seq->nr - 1] + 1;

	if (kv_zone_alloc_at(holder->zone, next, 1))
		return kv_zone_alloc(holder->zone, 1, &seq->ids[seq->nr]);
	seq->ids[seq->nr] = next;
	return 0;
}

static void next_end(struct holder *holder, struct sequence *seq)
{
	kv_zone_free_many(holder->zone, seq->ids, seq->nr);
}

static u32 ids_extents(struct holder *holder, const struct sequence *seq)
{
	u32 nr = 1;

	for (u32 i = 1; i < seq->nr; i++)
		nr += seq->ids[i] != seq->ids[i - 1] + 1;
	return nr;
}

/* ---- single blocks: a stack ---- */

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

static const struct way
	ranges = { range_start, range_grow, range_end, range_extents },
	next_if_free = { next_start, next_grow, next_end, ids_extents },
	stack = { stack_start, stack_grow, stack_end, ids_extents };

static const struct kind kinds[] = {
	{ "grows", &ranges, KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_GROWS, false },
	{ "grows-batch", &ranges, KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_GROWS, true },
	{ "grows+compact", &ranges, KVMM_ALLOC_GROWS, false },
	{ "unsaid", &ranges, KVMM_ALLOC_NO_COMPACT, false },
	{ "next-if-free", &next_if_free, 0, false },
	{ "stack", &stack, 0, false },
};

#define NR_KINDS	ARRAY_SIZE(kinds)
#define STACK		(NR_KINDS - 1)

/* ---- the engine around it ---- */

struct engine {
	struct holder holder;
	struct sequence *live[NR_LIVE];		/* then those that are over */
	u32 nr_live;
	const struct sizes *prompts;
	const u16 *decodes;			/* NR_DRAWN */
	u32 at;					/* next of both */
	u32 used;
	u32 limit;				/* of it when one is admitted */
	u64 finished, preempted, extents, longest;
	u64 steps, held;			/* occupancy is held / steps */
};

static int engine_init(struct engine *engine, const struct kind *kind, u32 percent)
{
	struct holder *holder = &engine->holder;
	int err = open_pool(&holder->pool, NR_BLOCKS, NULL, 0);

	if (err)
		return err;
	holder->kind = kind;
	holder->zone = kv_pool_zone(holder->pool);
	while (holder->nr_stack < NR_BLOCKS) {
		holder->stack[holder->nr_stack] = NR_BLOCKS - 1 - holder->nr_stack;
		holder->nr_stack++;
	}
	engine->limit = (u64)NR_BLOCKS * percent / 100;
	for (u32 i = 0; i < NR_LIVE; i++) {
		engine->live[i] = must_alloc(sizeof(struct sequence));
		engine->live[i]->ids = must_alloc(MAX_SEQUENCE * sizeof(u32));
	}
	return 0;
}

static void remove_sequence(struct engine *engine, u32 i)
{
	struct sequence *seq = engine->live[i];

	engine->holder.kind->way->end(&engine->holder, seq);
	engine->used -= seq->nr;
	engine->live[i] = engine->live[--engine->nr_live];
	engine->live[engine->nr_live] = seq;
}

static void engine_exit(struct engine *engine)
{
	while (engine->nr_live)
		remove_sequence(engine, engine->nr_live - 1);
	for (u32 i = 0; i < NR_LIVE; i++) {
		free(engine->live[i]->ids);
		free(engine->live[i]);
	}
	kvmm_pool_destroy(engine->holder.pool);
}

static void admit(struct engine *engine)
{
	while (engine->nr_live < NR_LIVE) {
		u32 nr = engine->prompts->at[engine->at & (engine->prompts->nr - 1)];
		struct sequence *seq = engine->live[engine->nr_live];

		if (engine->used + nr > engine->limit ||
		    engine->holder.kind->way->start(&engine->holder, seq, nr))
			return;
		seq->nr = nr;
		seq->left = engine->decodes[engine->at++ & (NR_DRAWN - 1)];
		engine->used += nr;
		engine->nr_live++;
	}
}

/* All of them at once, or if there are too few blocks none. */
static int grow_batch(struct engine *engine)
{
	kvmm_range_t ranges[NR_LIVE];
	u32 nr = 0;

	for (u32 i = 0; i < engine->nr_live; i++)
		if (engine->live[i]->left)
			ranges[nr++] = engine->live[i]->range;
	return kvmm_range_grow_many(engine->holder.pool, ranges, nr, 1);
}

/* One block more for each; those that get none have a mark left for the sweep. */
static void grow_all(struct engine *engine)
{
	const struct kind *kind = engine->holder.kind;
	int err = kind->batch ? grow_batch(engine) : 0;

	for (u32 i = 0; i < engine->nr_live; i++) {
		struct sequence *seq = engine->live[i];

		if (!seq->left)
			continue;
		if (!kind->batch)
			err = kind->way->grow(&engine->holder, seq);
		seq->nr += !err;
		seq->left = err ? UINT32_MAX : seq->left - 1;
		engine->used += !err;
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
			u32 nr = engine->holder.kind->way->extents(&engine->holder, seq);

			engine->finished++;
			engine->extents += nr;
			if (nr > engine->longest)
				engine->longest = nr;
		}
		remove_sequence(engine, i);
	}
}

#define MAX_STEPS	20000u

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
	*p99 = quantile_of(ns, nr, 0.99);
	return quantile_of(ns, nr, 0.5);
}

/* ---- measuring ---- */

enum { EXTENTS, MOST_EXTENTS, GROW, GROW_P99, PREEMPTED, OCCUPANCY };

static const struct metric metrics[] = {
	[EXTENTS]	= { "extents", "/seq", ALONE },
	[MOST_EXTENTS]	= { "most_extents", "", ALONE },
	[GROW]		= { "grow_ns", "ns", VS_MUTEX },
	[GROW_P99]	= { "grow_p99_ns", "ns", VS_MUTEX },
	[PREEMPTED]	= { "preempted", "ppm", ALONE },
	[OCCUPANCY]	= { "occupancy", "%", ALONE },
};

static void measure(struct series *series, struct engine *engine)
{
	double ns, p99;

	run_steps(engine, &p99);
	engine->finished = engine->preempted = engine->extents = engine->longest = 0;
	engine->steps = engine->held = 0;
	ns = run_steps(engine, &p99);
	series_add_all(series, (double[]){
		[EXTENTS]	= (double)engine->extents / engine->finished,
		[MOST_EXTENTS]	= engine->longest,
		[GROW]		= ns,
		[GROW_P99]	= p99,
		[PREEMPTED]	= 1e6 * engine->preempted / engine->finished,
		[OCCUPANCY]	= 100.0 * engine->held / engine->steps / NR_BLOCKS,
	}, ARRAY_SIZE(metrics));
}

/* Geometric: at each step the same chance to be over. */
static void draw_decodes(u16 *decodes, u64 seed)
{
	for (u32 i = 0; i < NR_DRAWN; i++) {
		double steps = 1 + floor(log(rng_unit(&seed)) / log(1 - 1 / MEAN_DECODE));

		decodes[i] = steps > MAX_DECODE ? MAX_DECODE : steps;
	}
}

struct turn {
	struct series *of[NR_KINDS];
	u32 percent;
};

static int turn(struct bench *bench, void *arg)
{
	static u16 decodes[NR_DRAWN];
	struct turn *turn = arg;
	struct sizes prompts;
	int err = 0;

	sizes_open(&prompts, 0, bench->seed + bench->run);
	draw_decodes(decodes, bench->seed + bench->run);
	for (size_t i = 0; !err && i < NR_KINDS; i++) {
		struct engine *engine = must_alloc(sizeof(*engine));

		err = engine_init(engine, &kinds[i], turn->percent);
		engine->prompts = &prompts;
		engine->decodes = decodes;
		if (!err) {
			measure(turn->of[i], engine);
			engine_exit(engine);
		}
		free(engine);
	}
	sizes_exit(&prompts);
	return err;
}

int bench_growth(struct bench *bench)
{
	static const u32 percents[] = { 50, 60, 70, 80, 90, 95 },
		compared[] = { EXTENTS, PREEMPTED, OCCUPANCY };
	int err = 0;

	for (size_t p = 0; !err && p < ARRAY_SIZE(percents); p++) {
		struct turn each = { .percent = percents[p] };

		for (size_t i = 0; i < NR_KINDS; i++)
			each.of[i] = bench_set(bench, SET(metrics), "holder=%s nr=%u load=%u",
					       kinds[i].name,
					       NR_BLOCKS, percents[p]);
		for (size_t i = 0; i < STACK * ARRAY_SIZE(compared); i++) {
			u32 metric = compared[i % ARRAY_SIZE(compared)];

			series_against(&each.of[i / ARRAY_SIZE(compared)][metric], "stack",
				       &each.of[STACK][metric]);
		}
		err = bench_turns(bench, turn, &each);
	}
	return err;
}
