// SPDX-License-Identifier: Apache-2.0
/*
 * Two pools above one host tier, everything at once, against a model that knows contents.
 *
 * Every block's content says its key, so whatever a lookup or a load gives can be checked. The
 * model knows what is held, and what each operation asked for; what tiers have it may not know,
 * but what they give has to be right, each operation has to end, and in the end nothing may be
 * held by anybody.
 */
#include <kv/tier.h>

#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"

#define NR_POOLS	2u
#define NR_KEYS		96u
#define NR_BLOCKS	32u
#define NR_UNITS	40u
#define MAX_OPS		24u
#define MAX_HELD	12u
#define MAX_RUN		6u

struct pending {
	kvmm_tier_op_t op;
	bool is_load;
	u32 first, nr;
	bool used;
};

struct held {
	kvmm_ref_t ref;
	u32 number;
};

struct side {
	struct kvmm_pool *pool;
	struct pending op[MAX_OPS];
	struct held held[MAX_HELD];
	u32 nr_held;
};

struct world {
	struct side side[NR_POOLS];
	struct kvmm_tier *tier;
	u64 now_ns;
	u64 random;
	u64 nr_loaded, nr_offloaded, nr_aborted, nr_failed, nr_bad, nr_corrupt;
	bool told;
	const struct model_mode *mode;
};

#define below(w, n)	lcg_of(&(w)->random, n)

static struct both both_of_mode(const struct model_mode *mode)
{
	struct both both = mode->is_ids_only ? both_of_ids(NR_BLOCKS, NR_UNITS, 64) :
					       both_of(NR_BLOCKS, NR_UNITS);

	both.attr.device = both.host.device = mode->device;
	both.host.chunk_bytes = 16 * TEST_BLOCK_BYTES;
	if (mode->is_ids_only) {
		both.host.down = (struct kvmm_tier_link){ 100, 64000000 };
		both.host.up = (struct kvmm_tier_link){ 200, 64000000 };
	}
	return both;
}

static struct kvmm_pool *make_side(struct world *w)
{
	struct both both = both_of_mode(w->mode);

	both.config.write = below(w, KVMM_NR_TIER_WRITES);
	both.config.step_blocks = 1 + below(w, 8);
	both.config.verify_every = 1;
	both.client.batch_blocks = 1 + below(w, 5);
	both.client.max_up = 4 + below(w, 12);
	both.client.max_down = 4 + below(w, 12);
	both.client.max_units = below(w, 2) ? NR_UNITS / 2 : 0;
	both.client.min_units = below(w, NR_UNITS / 4);
	both.attr.policy = below(w, 2) ? "lru" : "lrfu";
	both.tier = w->tier;
	both_make(&both);
	return both.pool;
}

static void begin(struct world *w, u64 seed, const struct model_mode *mode)
{
	struct both both = both_of_mode(mode);

	*w = (struct world){ .random = seed, .told = mode->is_ids_only, .mode = mode };
	w->tier = make_tier_of(&both.host);
	if (mode->made)
		mode->made(w->tier);
	for (u32 i = 0; i < NR_POOLS; i++)
		w->side[i].pool = make_side(w);
	for (u32 i = 0; i < NR_POOLS && mode->begin; i++)
		mode->begin(w->side[i].pool);
}

/* ---- what there is to do ---- */

static u32 run_at(struct world *w, u32 *nr)
{
	*nr = 1 + below(w, MAX_RUN);
	return below(w, NR_KEYS - *nr);
}

static void check(struct world *w, struct side *side, kvmm_ref_t ref, u32 number)
{
	if (w->told)
		return;
	if (!has_content(side->pool, ref, number)) {
		w->nr_bad++;
		cr_expect_fail("key %u has another content", number);
	}
}

static void keep_or_put(struct world *w, struct side *side, kvmm_ref_t ref, u32 number)
{
	check(w, side, ref, number);
	if (side->nr_held < MAX_HELD && below(w, 4) == 0)
		side->held[side->nr_held++] = (struct held){ ref, number };
	else
		cr_assert_eq(kvmm_put(side->pool, ref), 0);
}

static void compute(struct world *w, struct side *side)
{
	kvmm_ref_t refs[MAX_RUN];
	kvmm_mut_t mut[MAX_RUN];
	u32 nr, first = run_at(w, &nr);

	if (kvmm_alloc(side->pool, nr, mut))
		return;
	cr_assert_eq(kvmm_free(side->pool, mut, nr), 0);
	make_blocks(side->pool, first, nr, refs);
	for (u32 i = 0; i < nr; i++)
		keep_or_put(w, side, refs[i], first + i);
}

static void match(struct world *w, struct side *side)
{
	kvmm_ref_t refs[MAX_RUN];
	u8 answer[MAX_RUN], level[MAX_RUN];
	struct kvmm_tier_match_args m = { .size = sizeof(m), .refs = refs, .answers = answer,
					  .levels = level };
	u32 nr, first = run_at(w, &nr);

	m.prefix = prefix_of(first, nr);
	cr_assert_eq(kvmm_tier_match(side->pool, &m), (int)(m.nr_device + m.nr_lower));
	for (u32 i = 0; i < m.nr_device; i++)
		keep_or_put(w, side, refs[i], first + i);
}

static struct pending *free_op(struct side *side)
{
	for (u32 i = 0; i < MAX_OPS; i++)
		if (!side->op[i].used)
			return &side->op[i];
	return NULL;
}

static void load(struct world *w, struct side *side)
{
	struct pending *op = free_op(side);
	struct kvmm_tier_load_args req = { .size = sizeof(req) };
	u32 nr, first = run_at(w, &nr);
	int err;

	if (!op)
		return;
	req.prefix = prefix_of(first, nr);
	err = kvmm_tier_load(side->pool, &req, &op->op);
	cr_assert(!err || err == -ENOENT || err == -EAGAIN || err == -ENOSPC || err == -E2BIG ||
		  err == -EDQUOT, "%d", err);
	if (!err)
		*op = (struct pending){ op->op, true, first, nr, true };
}

static void offload(struct world *w, struct side *side)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .priority = below(w, 3) };
	struct pending *op = free_op(side);
	kvmm_ref_t refs[MAX_RUN];
	u32 nr, first = run_at(w, &nr);

	nr = kvmm_prefix_match(side->pool, prefix_of(first, nr), refs);
	cr_assert_eq(kvmm_put_many(side->pool, refs, nr), 0);
	req.refs = refs;
	req.nr = nr;
	req.flags = below(w, 3) ? 0 : KVMM_TIER_DROP;
	if (!op)
		return;
	cr_assert_eq(kvmm_tier_offload(side->pool, &req, &op->op), 0);
	*op = (struct pending){ op->op, false, first, nr, true };
}

static void fetch(struct world *w, struct side *side, struct pending *op)
{
	kvmm_ref_t refs[MAX_RUN];
	s32 errors[MAX_RUN] = { 0 };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = op->nr, .refs = refs,
					   .errors = errors };
	int err = kvmm_tier_get_result(side->pool, op->op, &result);

	if (err == -EAGAIN)
		return;
	op->used = false;
	if (err) {
		w->nr_failed++;
		cr_expect_gt(result.nr_failed, 0);
		return;
	}
	for (u32 i = 0; i < op->nr && op->is_load; i++)
		keep_or_put(w, side, refs[i], op->first + i);
	*(op->is_load ? &w->nr_loaded : &w->nr_offloaded) += op->nr;
}

static void abort_one(struct world *w, struct side *side, struct pending *op)
{
	cr_assert_eq(kvmm_tier_abort(side->pool, op->op), 0);
	op->used = false;
	w->nr_aborted++;
}

static void put_one(struct world *w, struct side *side)
{
	u32 i;

	if (!side->nr_held)
		return;
	i = below(w, side->nr_held);
	check(w, side, side->held[i].ref, side->held[i].number);
	cr_assert_eq(kvmm_put(side->pool, side->held[i].ref), 0);
	side->held[i] = side->held[--side->nr_held];
}

static void other(struct world *w, struct side *side)
{
	u32 nr, first = run_at(w, &nr), block = below(w, NR_BLOCKS);

	switch (below(w, 8)) {
	case 0:
		kvmm_tier_forget(side->pool, prefix_of(first, nr));
		break;
	case 1:
		kvmm_evict_blocks(side->pool, &block, 1);
		break;
	case 2:
		kvmm_tier_prefetch(side->pool, prefix_of(first, nr), below(w, 8));
		break;
	case 3:
		kvmm_tier_tick(w->tier);
		break;
	case 4:
		if (below(w, 8) == 0)
			kvmm_reset_inactive(side->pool);
		break;
	case 5:
		kvmm_pool_compact(side->pool, &(struct kvmm_compact){
			.size = sizeof(struct kvmm_compact), .want_run = 4 });
		break;
	default:
		break;
	}
}

static void step(struct world *w)
{
	struct side *side = &w->side[below(w, NR_POOLS)];
	struct pending *op = &side->op[below(w, MAX_OPS)];

	switch (below(w, 10)) {
	case 0:
		compute(w, side);
		break;
	case 1:
		match(w, side);
		break;
	case 2:
		load(w, side);
		break;
	case 3:
		offload(w, side);
		break;
	case 4:
	case 5:
		cr_assert_geq(kvmm_tier_poll(side->pool), 0);
		break;
	case 6:
		put_one(w, side);
		break;
	case 7:
		if (op->used && below(w, 3) == 0)
			abort_one(w, side, op);
		break;
	case 8:
		if (op->used)
			fetch(w, side, op);
		break;
	default:
		other(w, side);
	}
	if (w->mode->work)
		w->mode->work(below(w, 16));
	if (w->mode->harm && below(w, 50) == 0)
		w->mode->harm(w->tier, below(w, INT32_MAX));
	if (w->told) {
		w->now_ns += below(w, 2000);
		kvmm_tier_clock(w->tier, w->now_ns);
	}
}

/* ---- the end ---- */

static void poll_to_the_end(struct world *w)
{
	for (u32 n = 0; n < 1000; n++) {
		int nr = 0;

		for (u32 i = 0; i < NR_POOLS; i++)
			nr += kvmm_tier_poll(w->side[i].pool);
		if (!nr)
			return;
		if (w->mode->work)
			w->mode->work(UINT32_MAX);
		w->now_ns += 1000000;
		if (w->told)
			kvmm_tier_clock(w->tier, w->now_ns);
	}
	cr_expect_fail("something never ends");
}

static void explicit_only(struct side *side)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	config.write = KVMM_TIER_EXPLICIT;
	config.step_blocks = 0;
	cr_assert_eq(kvmm_tier_configure(side->pool, &config), 0);
}

static void end(struct world *w)
{
	struct kvmm_tier_stat stat;

	for (u32 i = 0; i < NR_POOLS; i++)
		explicit_only(&w->side[i]);
	poll_to_the_end(w);
	for (u32 i = 0; i < NR_POOLS; i++) {
		struct side *side = &w->side[i];

		for (u32 k = 0; k < MAX_OPS; k++) {
			if (side->op[k].used)
				fetch(w, side, &side->op[k]);
			cr_expect_not(side->op[k].used, "an operation is not over");
		}
		while (side->nr_held)
			put_one(w, side);
		cr_expect_eq(client_of(side->pool).nr_ops, 0);
		cr_expect_eq(stat_of(side->pool).nr_state[KVMM_BLOCK_ACTIVE], 0);
		cr_expect_eq(stat_of(side->pool).nr_state[KVMM_BLOCK_PRIVATE], 0);
		w->nr_corrupt += client_of(side->pool).corrupt;
	}
	stat = tier_of(w->tier);
	cr_expect_eq(stat.writing, 0);
	cr_expect_eq(stat.pinned, 0);
	cr_expect_eq(w->nr_bad, 0);
	cr_expect(w->mode->harm || !w->nr_corrupt, "%llu loads met a flip",
		  (unsigned long long)w->nr_corrupt);
	for (u32 i = 0; i < NR_POOLS; i++) {
		cr_expect_eq(kvmm_validate(w->side[i].pool), 0);
		cr_expect_eq(kvmm_tier_detach(w->side[i].pool), 0);
		end_pool(w->side[i].pool);
	}
	cr_expect_eq(kv_tier_check(w->tier), 0);
	kvmm_tier_destroy(w->tier);
}

static void run(u64 seed, u32 nr, const struct model_mode *mode)
{
	struct world w;

	begin(&w, seed, mode);
	for (u32 i = 0; i < nr; i++) {
		step(&w);
		if (i % 64 == 0 || nr <= 4096)
			for (u32 k = 0; k < NR_POOLS; k++)
				cr_assert_eq(kvmm_validate(w.side[k].pool), 0, "seed %llu, step %u",
					     (unsigned long long)seed, i);
	}
	cr_expect(w.nr_loaded && w.nr_offloaded && w.nr_aborted, "seed %llu: %llu %llu %llu",
		  (unsigned long long)seed, (unsigned long long)w.nr_loaded,
		  (unsigned long long)w.nr_offloaded, (unsigned long long)w.nr_aborted);
	end(&w);
}

void model_run(const struct model_mode *mode, u32 preset)
{
	u64 nr = test_number("KVMM_TIER_MODEL_OPS", preset);
	u64 seed = test_number("KVMM_TIER_MODEL_SEED", 1);
	u32 nr_worlds = nr <= 24000 ? 4 : nr / 20000;

	/* One world is not cut short: it takes its time until all has happened in it. */
	for (u32 i = 0; i < (test_is_short() ? 1 : nr_worlds); i++) {
		fprintf(stderr, "seed %llu\n", (unsigned long long)(seed + i));
		run(seed + i, nr / nr_worlds, mode);
	}
}
