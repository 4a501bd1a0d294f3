// SPDX-License-Identifier: Apache-2.0
/*
 * An engine of several streams whose blocks move while it reads and writes them, on the software
 * driver: no two accesses race, and whatever is read is what was written. And each rule is needed:
 * with any one of them broken the race checker complains, or the content is wrong.
 */
#include <kv/sys.h>

#include "soft.h"

#define NR_BLOCKS	64u
#define BYTES		1024u
#define NR_STREAMS	3u
#define NR_SEQS		20u
#define MAX_LEN		8u
#define NR_OUTS		256u
#define NR_OPS		12000u
#define NR_SEEDS	30u

/* What is broken; NOTHING is not. */
enum rule {
	NOTHING,
	NO_WAITS,	/* streams do not wait for events, neither the mover's nor the engine's for it */
	NO_POLLS,	/* every event has passed */
	NO_STEPS,	/* the engine works on blocks after it has ended the step */
	NO_SEALS,	/* it writes what it has sealed */
	NR_RULES,
};

static enum rule broken;

static struct {
	KCU_FN(cuStreamWaitEvent, 3020) stream_wait;
	KCU_FN(cuEventQuery, 2000) event_query;
} real;

static kcu_result stream_wait(kcu_stream stream, kcu_event event, unsigned int flags)
{
	return broken == NO_WAITS ? KCU_E_SUCCESS : real.stream_wait(stream, event, flags);
}

static kcu_result event_query(kcu_event event)
{
	return broken == NO_POLLS ? KCU_E_SUCCESS : real.event_query(event);
}

/* The library's calls only: those of the engine go by the table `cu`. */
static void *find_hooked(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	if (!strcmp(name, "cuStreamWaitEvent")) {
		memcpy(&real.stream_wait, &found, sizeof(found));
		return (void *)stream_wait;
	}
	if (!strcmp(name, "cuEventQuery")) {
		memcpy(&real.event_query, &found, sizeof(found));
		return (void *)event_query;
	}
	return found;
}

/* ---- the engine ---- */

struct seq {
	bool live;
	u32 owner;			/* the stream that writes it */
	u32 nr, sealed;
	u32 gap;			/* blocks that were cut off in front */
	kvmm_range_t range;
	u8 value[MAX_LEN];		/* 0: never written */
};

/* Where blocks lay when the step began. */
struct told {
	u32 nr;
	u32 block[MAX_LEN];
	bool dead;
};

struct lane {
	kcu_stream stream;
	kvmm_stream_t id;
	bool open;
	bool ended;			/* too early, by NO_STEPS */
	uint64_t epoch;
	struct told told[NR_SEQS];
};

struct engine {
	struct kvmm_pool *pool;
	kcu_deviceptr base;
	struct lane lane[NR_STREAMS];
	struct seq seq[NR_SEQS];
	u8 *out;
	u8 expected[NR_OUTS];
	u32 nr_out;
	u32 nr_wrong;
	u8 next_value;
};

static void engine_init(struct engine *e)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0" };
	struct kvmm_plane plane;

	memset(e, 0, sizeof(*e));
	e->base = dev_alloc(NR_BLOCKS * BYTES);
	plane = (struct kvmm_plane){ e->base, BYTES, BYTES };
	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.nr_blocks = NR_BLOCKS;
	cr_assert_eq(kvmm_pool_create(&attr, &e->pool), 0);
	e->out = host_alloc(NR_OUTS * BYTES);
	for (u32 i = 0; i < NR_STREAMS; i++) {
		e->lane[i].stream = stream_new();
		cr_assert_eq(kvmm_stream_add(e->pool, e->lane[i].stream, 0, &e->lane[i].id), 0);
	}
}

static void check_outs(struct engine *e)
{
	for (u32 i = 0; i < NR_STREAMS; i++)
		finish(e->lane[i].stream);
	for (u32 i = 0; i < e->nr_out; i++)
		e->nr_wrong += !all_bytes(e->out + i * BYTES, e->expected[i], BYTES);
	e->nr_out = 0;
}

static void end_step(struct engine *e, struct lane *lane)
{
	if (lane->open && !lane->ended)
		cr_assert_eq(kvmm_step_end(e->pool, lane->id, lane->epoch), 0);
	lane->open = false;
}

/* ---- what it does ---- */

static void look(struct engine *e, struct lane *lane)
{
	for (u32 i = 0; i < NR_SEQS; i++) {
		struct told *told = &lane->told[i];
		struct kvmm_extent ext[KVMM_MAX_RUNS];
		int nr;

		told->nr = 0;
		told->dead = !e->seq[i].live;
		if (told->dead)
			continue;
		nr = kvmm_range_extents(e->pool, e->seq[i].range, ext, KVMM_MAX_RUNS);
		cr_assert_gt(nr, 0);
		for (int k = 0; k < nr; k++)
			for (u32 b = 0; b < ext[k].nr; b++)
				told->block[told->nr++] = ext[k].start + b;
	}
}

static void begin_step(struct engine *e, struct lane *lane)
{
	if (lane->open)
		return;
	cr_assert_eq(kvmm_step_begin(e->pool, lane->id, &lane->epoch), 0);
	lane->open = true;
	look(e, lane);
	lane->ended = broken == NO_STEPS;
	if (lane->ended)
		cr_assert_eq(kvmm_step_end(e->pool, lane->id, lane->epoch), 0);
}

static void read_one(struct engine *e, struct lane *lane, const struct seq *seq, u32 block, u32 i)
{
	if (e->nr_out == NR_OUTS || !seq->value[i])
		return;
	e->expected[e->nr_out] = seq->value[i];
	ok(cu.memcpy_dtoh_async(e->out + e->nr_out++ * BYTES, e->base + block * BYTES, BYTES,
				lane->stream));
}

static void write_one(struct engine *e, struct lane *lane, struct seq *seq, u32 block, u32 i)
{
	e->next_value = e->next_value % 255 + 1;
	seq->value[i] = e->next_value;
	fill(e->base + block * BYTES, e->next_value, BYTES, lane->stream);
}

/* A block of some sequence, where the step was told that it lies. */
static void work(struct engine *e, struct lane *lane)
{
	u32 k = random_below(NR_SEQS), i;
	struct seq *seq = &e->seq[k];
	struct told *told = &lane->told[k];
	bool own = seq->owner == lane - e->lane;

	if (!seq->live || told->dead || !min(told->nr, seq->nr))
		return;
	i = random_below(min(told->nr, seq->nr));
	if (own && (i >= seq->sealed || broken == NO_SEALS) && random_below(3))
		write_one(e, lane, seq, told->block[i], i);
	else if (own || i < seq->sealed)
		read_one(e, lane, seq, told->block[i], i);
}

static void run_step(struct engine *e)
{
	struct lane *lane = &e->lane[random_below(NR_STREAMS)];

	begin_step(e, lane);
	for (u32 n = 1 + random_below(6); n; n--)
		work(e, lane);
	if (random_below(3))
		end_step(e, lane);
}

/* All that any stream was given comes before all that any is given from now on. */
static void order_streams(struct engine *e)
{
	for (u32 i = 0; i < NR_STREAMS; i++) {
		kcu_event event = event_new();

		record(event, e->lane[i].stream);
		for (u32 k = 0; k < NR_STREAMS; k++)
			if (k != i)
				wait_for(e->lane[k].stream, event);
		ok(cu.event_destroy(event));
	}
}

/* Steps that are open go on without it. */
static void make_seq(struct engine *e, u32 k)
{
	struct seq *seq = &e->seq[k];
	u32 nr = 1 + random_below(MAX_LEN);

	if (kvmm_range_alloc(e->pool, nr, KVMM_RUNS(4) | KVMM_ALLOC_NO_COMPACT, &seq->range))
		return;
	*seq = (struct seq){ .live = true, .owner = random_below(NR_STREAMS), .nr = nr,
			     .range = seq->range };
	for (u32 i = 0; i < NR_STREAMS; i++)
		e->lane[i].told[k].dead = true;
}

static void free_seq(struct engine *e, u32 k)
{
	order_streams(e);
	cr_assert_eq(kvmm_range_free(e->pool, e->seq[k].range), 0);
	e->seq[k].live = false;
}

static void seal_seq(struct engine *e, struct seq *seq)
{
	u32 nr = seq->sealed;

	while (nr < seq->nr && seq->value[nr])
		nr++;
	if (nr == seq->sealed)
		return;
	order_streams(e);
	seq->sealed = nr;
	cr_assert_eq(kvmm_range_seal(e->pool, seq->range, nr), 0);
}

static void change_seq(struct engine *e)
{
	u32 k = random_below(NR_SEQS);

	if (!e->seq[k].live)
		make_seq(e, k);
	else if (random_below(6))
		seal_seq(e, &e->seq[k]);
	else
		free_seq(e, k);
}

static void compact(struct engine *e)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 2 + random_below(12) };
	int err = kvmm_compact_start(e->pool, &goal, random_below(2));

	cr_assert(!err || err == -ENOSPC || err == -EBUSY, "%d", err);
}

static void do_something(struct engine *e)
{
	switch (random_below(12)) {
	case 0: case 1: case 2: case 3:
		run_step(e);
		break;
	case 4: case 5: case 6:
		change_seq(e);
		break;
	case 7: case 8:
		compact(e);
		break;
	case 9:
		kvmm_compact_poll(e->pool);
		break;
	case 10:
		for (u32 n = random_below(40); n; n--)
			ctl->step();
		break;
	default:
		if (!random_below(8))
			check_outs(e);
		if (!random_below(4))
			kvmm_compact_cancel(e->pool);
		break;
	}
}

/* Races and wrong bytes in a run of @nr operations; @stat: what moved. */
static u32 run(u64 seed, u32 nr, struct kvmm_step_stat *stat)
{
	struct engine e;
	u32 nr_bad;

	random_seed(seed);
	ctl->set_seed(seed);
	engine_init(&e);
	while (nr--) {
		do_something(&e);
		if (broken == NOTHING && !(nr % 64))
			cr_assert_eq(kvmm_validate(e.pool), 0, "seed %llu", (unsigned long long)seed);
	}
	check_outs(&e);
	cr_assert_eq(kvmm_step_get_stat(e.pool, stat), 0);
	nr_bad = races() + e.nr_wrong;
	broken = NOTHING;
	for (u32 i = 0; i < NR_STREAMS; i++)
		end_step(&e, &e.lane[i]);
	check_outs(&e);
	kvmm_compact_poll(e.pool);
	cr_expect_eq(kvmm_validate(e.pool), 0);
	kvmm_pool_destroy(e.pool);
	for (u32 i = 0; i < NR_STREAMS; i++)
		ok(cu.stream_destroy(e.lane[i].stream));
	ctl->run();
	ok(cu.mem_free(e.base));
	ok(cu.mem_free_host(e.out));
	ctl->clear_reports();
	return nr_bad;
}

static void begin(void)
{
	static struct kv_sys_ops sys;

	sys = kv_sys_system;
	sys.find_symbol = find_hooked;
	kv_sys_set(&sys);
	start("");
}

/* ---- the tests ---- */

Test(steps, blocks_move_under_an_engine_that_never_notices)
{
	struct kvmm_step_stat stat, sum = { 0 };

	begin();
	for (u64 seed = 1; seed <= NR_SEEDS; seed++) {
		cr_assert_eq(run(seed, NR_OPS, &stat), 0, "seed %llu", (unsigned long long)seed);
		sum.published_blocks += stat.published_blocks;
		sum.void_moves += stat.void_moves;
		sum.cancelled_moves += stat.cancelled_moves;
		sum.steps += stat.steps;
	}
	cr_expect_gt(sum.published_blocks, 1000);
	cr_expect_gt(sum.void_moves, 10);
	cr_expect_gt(sum.cancelled_moves, 10);
	cr_expect_gt(sum.steps, 3000);
}

Test(steps, each_rule_is_needed)
{
	begin();
	for (u32 rule = NOTHING + 1; rule < NR_RULES; rule++) {
		struct kvmm_step_stat stat;
		u32 nr_bad = 0;

		for (u64 seed = 1; seed <= NR_SEEDS && !nr_bad; seed++) {
			broken = rule;
			nr_bad = run(seed, NR_OPS, &stat);
		}
		cr_expect_gt(nr_bad, 0, "rule %u can be broken without anybody noticing", rule);
	}
}
