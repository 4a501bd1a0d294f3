// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that are hit and put, over and over, by several holders: which ones go is what it would
 * be if each had left the order with its first reference and come back with its last put.
 */
#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	96u
#define NR_HOLDERS	6u
#define NR_CHAINS	24u
#define MAX_CHAIN	20u
#define NR_STEPS	4000u

/* The first blocks of a chain are those of others, too. */
static u32 node_of(u32 chain, u32 position)
{
	u32 shared = position < 2 ? chain % 2 : position < 6 ? chain % 6 : chain;

	return 1 + position * NR_CHAINS + shared;
}

struct holder {
	u32 nr;
	kvmm_ref_t ref[MAX_CHAIN];
	u32 node[MAX_CHAIN];
};

struct load {
	struct kvmm_pool *pool;
	struct holder holder[NR_HOLDERS];
	u64 random;
	u32 nr_hits;
	u32 nr_gone;
	u32 gone[NR_BLOCKS];		/* those that went in the last step */
};

static void name_chain(u32 chain, kvmm_key_t *keys, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(node_of(chain, i));
}

/* From @from on, each block is named, and put before the next one is. */
static void pass(struct load *load, const kvmm_key_t *keys, u32 from, u32 nr,
		 const kvmm_mut_t *fresh)
{
	for (u32 i = from; i < nr; i++) {
		struct kvmm_prefix one = { .keys = keys + i, .nr = 1, .position = i,
					   .parent = i ? &keys[i - 1] : NULL };
		kvmm_ref_t ref;

		cr_assert_eq(kvmm_prefix_register(load->pool, &one, fresh + i - from, &ref), 0);
		cr_assert_eq(kvmm_put(load->pool, ref), 0);
	}
}

/* The whole chain, as far as there is room, or only what is there of it. */
static void use_chain(struct load *load, struct holder *holder)
{
	u32 chain = any_of(&load->random, any_of(&load->random, NR_CHAINS) + 1), nr_hits;
	u32 nr = 1 + any_of(&load->random, MAX_CHAIN);
	kvmm_key_t keys[MAX_CHAIN], evicted[MAX_CHAIN];
	kvmm_mut_t fresh[MAX_CHAIN];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = nr, .max_hits = nr,
					 .nr_blocks = nr, .hits = holder->ref, .fresh = fresh,
					 .evicted = evicted };
	struct kvmm_prefix rest;

	name_chain(chain, keys, nr);
	for (u32 i = 0; i < nr; i++)
		holder->node[i] = number_of(&keys[i]);
	if (any_of(&load->random, 4)) {
		nr_hits = kvmm_match(load->pool, keys, nr, holder->ref);
		holder->nr = nr_hits;
		load->nr_hits += nr_hits;
		return;
	}
	if (kvmm_acquire(load->pool, &req))
		return;
	nr_hits = req.nr_hits;
	rest = (struct kvmm_prefix){ .keys = keys + nr_hits, .nr = nr - nr_hits,
				     .position = nr_hits,
				     .parent = nr_hits ? &keys[nr_hits - 1] : NULL };
	holder->nr = any_of(&load->random, 3) ? nr : nr_hits;
	if (holder->nr == nr_hits)
		pass(load, keys, nr_hits, nr, fresh);
	else
		cr_assert_eq(kvmm_prefix_register(load->pool, &rest, fresh, holder->ref + nr_hits),
			     0);
	for (u32 i = 0; i < req.nr_evicted; i++)
		load->gone[load->nr_gone++] = number_of(&evicted[i]);
}

/* All of it, or only its end. */
static void put_chain(struct load *load, struct holder *holder)
{
	u32 from = any_of(&load->random, 4) ? 0 : any_of(&load->random, holder->nr);

	cr_assert_eq(kvmm_put_many(load->pool, holder->ref + from, holder->nr - from), 0);
	holder->nr = from;
}

static void touch_chain(struct load *load)
{
	u32 chain = any_of(&load->random, NR_CHAINS), nr = 1 + any_of(&load->random, MAX_CHAIN);
	kvmm_key_t keys[MAX_CHAIN];
	kvmm_weak_t weak[MAX_CHAIN];
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr };

	name_chain(chain, keys, nr);
	nr = kvmm_prefix_peek(load->pool, &prefix, weak, NULL, 0);
	cr_assert_eq(kvmm_touch_weak(load->pool, weak, nr), (int)nr);
}

static void step(struct load *load)
{
	struct holder *holder = &load->holder[any_of(&load->random, NR_HOLDERS)];

	load->nr_gone = 0;
	if (holder->nr)
		put_chain(load, holder);
	else if (any_of(&load->random, 16))
		use_chain(load, holder);
	else
		touch_chain(load);
}

static void end_load(struct load *load)
{
	for (u32 i = 0; i < NR_HOLDERS; i++)
		cr_assert_eq(kvmm_put_many(load->pool, load->holder[i].ref, load->holder[i].nr), 0);
	load->nr_gone = eviction_order(load->pool, load->gone, NR_BLOCKS);
	end_pool(load->pool);
}

/* The same load in two pools, of which one hears of each note at once. */
static void compare_policy(const char *policy, u64 seed)
{
	struct load late = { .pool = make_cache(NR_BLOCKS, policy), .random = seed }, prompt = late;

	prompt.pool = make_cache(NR_BLOCKS, policy);
	prompt.pool->order.deterministic = true;
	for (u32 i = 0; i < NR_STEPS; i++) {
		step(&late);
		step(&prompt);
		cr_assert_eq(late.nr_gone, prompt.nr_gone);
		cr_assert_arr_eq(late.gone, prompt.gone, late.nr_gone * sizeof(u32),
				 "%s, seed %llu, step %u", policy, (unsigned long long)seed, i);
		if (i % 64 == 0)
			cr_assert_eq(kvmm_validate(late.pool), 0);
	}
	cr_assert_gt(late.nr_hits, NR_STEPS);
	end_load(&late);
	end_load(&prompt);
	cr_assert_eq(late.nr_gone, prompt.nr_gone);
	cr_assert_arr_eq(late.gone, prompt.gone, late.nr_gone * sizeof(u32));
}

Test(hit, order_is_the_same_whether_notes_are_heard_one_by_one_or_together)
{
	for_each_policy(policy)
		for (u64 seed = 1; seed <= (test_is_short() ? 2 : 8); seed++)
			compare_policy(policy, seed);
}

/* ---- more than the order remembers ---- */

#define NR_LONG		90u		/* chains, all of them cached */
#define LONG		20u

struct many {
	struct kvmm_pool *pool;
	u64 random;
	bool held[NR_LONG];
	kvmm_ref_t ref[NR_LONG][LONG];
};

static void match_or_put(struct many *many, u32 chain)
{
	kvmm_key_t keys[LONG];

	if (many->held[chain]) {
		cr_assert_eq(kvmm_put_many(many->pool, many->ref[chain], LONG), 0);
	} else {
		for (u32 i = 0; i < LONG; i++)
			keys[i] = key_of(1 + chain * LONG + i);
		cr_assert_eq(kvmm_match(many->pool, keys, LONG, many->ref[chain]), LONG);
	}
	many->held[chain] ^= true;
}

/* Chains that are hot, and others that are held for long; now and then a look. */
static void hold_many(struct many *many, u32 nr_steps)
{
	for (u32 i = 0; i < nr_steps; i++) {
		u32 hot = any_of(&many->random, 4);

		if (any_of(&many->random, 8)) {
			match_or_put(many, hot);
			match_or_put(many, hot);
		} else {
			match_or_put(many, any_of(&many->random, NR_LONG));
		}
		if (!any_of(&many->random, 400))
			cr_assert_eq(kvmm_validate(many->pool), 0);
	}
	for (u32 chain = 0; chain < NR_LONG; chain++)
		if (many->held[chain])
			match_or_put(many, chain);
}

static void make_many(struct many *many, const char *policy, u64 seed)
{
	*many = (struct many){ .pool = make_cache(NR_LONG * LONG, policy), .random = seed };
	for (u32 chain = 0; chain < NR_LONG; chain++)
		cache_keys(many->pool, 1 + chain * LONG, LONG);
}

static void compare_many(const char *policy, u64 seed)
{
	static struct many late, prompt;

	make_many(&late, policy, seed);
	make_many(&prompt, policy, seed);
	order_enter(&prompt.pool->order);
	prompt.pool->order.deterministic = true;
	order_leave(&prompt.pool->order);
	hold_many(&late, 3000);
	hold_many(&prompt, 3000);
	for (u32 i = 0; i < NR_LONG * LONG; i++) {
		struct kvmm_victim victim[2];

		cr_assert_eq(kvmm_evict_next(late.pool, &victim[0], 1), 1);
		cr_assert_eq(kvmm_evict_next(prompt.pool, &victim[1], 1), 1);
		cr_assert_eq(victim[0].block, victim[1].block, "%s, seed %llu, victim %u", policy,
			     (unsigned long long)seed, i);
		cr_assert_eq(kvmm_evict_blocks(late.pool, &victim[0].block, 1), 1);
		cr_assert_eq(kvmm_evict_blocks(prompt.pool, &victim[0].block, 1), 1);
	}
	end_pool(late.pool);
	end_pool(prompt.pool);
}

Test(hit, order_is_the_same_though_more_blocks_are_held_than_it_remembers)
{
	for (u64 seed = 1; seed <= 4; seed++) {
		compare_many("lru", seed);
		compare_many("lrfu", seed);
	}
}

/* ---- lru, by what it is ---- */

/* When a node was put last; 0: it is not there. */
struct model {
	u32 refs[1 + MAX_CHAIN * NR_CHAINS];
	u64 put[1 + MAX_CHAIN * NR_CHAINS];
	u64 now;
};

#define NR_NODES	NR_CHAINS	/* roots, so each goes in its turn */

static u32 oldest(const struct model *model)
{
	u32 best = 0;

	for (u32 node = 1; node <= NR_NODES; node++)
		if (model->put[node] && !model->refs[node] &&
		    (!best || model->put[node] < model->put[best]))
			best = node;
	return best;
}

static void use_root(struct model *model, struct load *load, struct holder *holder)
{
	u32 node = 1 + any_of(&load->random, NR_NODES);
	kvmm_key_t key = key_of(node);

	holder->nr = kvmm_match(load->pool, &key, 1, holder->ref);
	cr_assert_eq(holder->nr, model->put[node] != 0);
	holder->node[0] = node;
	model->refs[node] += holder->nr;
	load->nr_hits += holder->nr;
}

static void put_root(struct model *model, struct load *load, struct holder *holder)
{
	u32 node = holder->node[0];

	cr_assert_eq(kvmm_put(load->pool, holder->ref[0]), 0);
	holder->nr = 0;
	if (!--model->refs[node])
		model->put[node] = ++model->now;
}

static void fill_root(struct model *model, struct load *load)
{
	u32 node = 1 + any_of(&load->random, NR_NODES), victim = oldest(model);
	kvmm_key_t evicted, key = key_of(node);
	struct kvmm_acquire_args req = { .nr_blocks = 1, .evicted = &evicted };
	kvmm_mut_t fresh;
	kvmm_ref_t ref;

	req.fresh = &fresh;
	if (model->put[node] || kvmm_acquire(load->pool, &req))
		return;
	if (req.nr_evicted) {
		cr_assert_eq(number_of(&evicted), victim);
		model->put[victim] = 0;
		load->nr_gone++;
	}
	cr_assert_eq(kvmm_register(load->pool, &fresh, &key, 1, &ref), 0);
	cr_assert_eq(kvmm_put(load->pool, ref), 0);
	model->put[node] = ++model->now;
}

Test(hit, lru_is_exact_by_the_last_put)
{
	for (u64 seed = 1; seed <= 8; seed++) {
		struct load load = { .pool = make_cache(NR_NODES / 2, "lru"), .random = seed };
		struct model model = { .now = 0 };

		cr_log_info("seed %llu", (unsigned long long)seed);
		for (u32 i = 0; i < NR_STEPS; i++) {
			struct holder *holder = &load.holder[any_of(&load.random, NR_HOLDERS)];

			if (holder->nr)
				put_root(&model, &load, holder);
			else if (any_of(&load.random, 8))
				use_root(&model, &load, holder);
			else
				fill_root(&model, &load);
		}
		cr_assert_gt(load.nr_hits, NR_STEPS / 8);
		cr_assert_gt(load.nr_gone, NR_STEPS / 100);
		end_load(&load);
	}
}
