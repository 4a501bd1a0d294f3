// SPDX-License-Identifier: Apache-2.0
/* Every policy against its definition: random requests, the whole order compared each time. */
#include <kv/env.h>

#include "evict/lrfu.c"
#include "tests/evict/model.h"
#include "tests/evict/order.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

/* Looking at a ring of thousands of lists takes its time. */
#define NR_STEPS	20000u
#define NR_RING_STEPS	6000u
#define NR_HALF_STEPS	3000u

struct walk {
	struct order order;
	struct model model;
	u32 position;
	u64 random;
};

/* Blocks that are in the order, or are not; returns how many. */
static u32 blocks_where(struct walk *walk, bool in, u32 *blocks)
{
	u32 nr = 0;

	for (u32 i = 0; i < walk->model.nr_blocks; i++)
		if (walk->model.block[i].in == in)
			blocks[nr++] = i;
	return nr;
}

static void step_request(struct walk *walk)
{
	u32 keys[6], nr = 1 + any_of(&walk->random, 6);
	kvmm_key_t names[6];

	for (u32 i = 0; i < nr; i++) {
		keys[i] = any_of(&walk->random, any_of(&walk->random, MODEL_KEYS) + 1);
		names[i] = order_key(keys[i]);
	}
	model_seen(&walk->model, keys, nr);
	if (walk->order.ops->seen)
		walk->order.ops->seen(walk->order.policy, names, nr);
}

/* Mostly one row of positions after the other; parents at random, so that chains branch. */
static void step_place(struct walk *walk, u32 block)
{
	u32 parent = any_of(&walk->random, walk->model.nr_blocks);
	u32 position = any_of(&walk->random, 4) ? walk->position-- : any_of(&walk->random, 12);

	if (walk->position > 12)
		walk->position = 12;
	model_place(&walk->model, block, position, parent);
	if (walk->order.ops->place)
		walk->order.ops->place(walk->order.policy, block, position, parent);
}

static void step_fill(struct walk *walk, u32 block)
{
	u32 number = any_of(&walk->random, MODEL_KEYS);
	kvmm_key_t key = order_key(number);

	model_fill(&walk->model, block, number);
	if (walk->order.ops->expect_fill)	/* changes nothing */
		walk->order.ops->expect_fill(walk->order.policy, &block, &key, 1);
	if (walk->order.ops->fill_many && any_of(&walk->random, 2))
		cr_assert_eq(walk->order.ops->fill_many(walk->order.policy, &block, &key, 1, false),
			     1);
	else if (walk->order.ops->fill)
		walk->order.ops->fill(walk->order.policy, block, &key);
	if (any_of(&walk->random, 4))
		step_place(walk, block);
}

static void step_hit(struct walk *walk, u32 block)
{
	model_hit(&walk->model, block);
	if (walk->order.ops->hit_many && any_of(&walk->random, 2))
		walk->order.ops->hit_many(walk->order.policy, &block, 1);
	else if (walk->order.ops->hit)
		walk->order.ops->hit(walk->order.policy, block);
}

static void step_hint(struct walk *walk)
{
	u32 block = any_of(&walk->random, walk->model.nr_blocks);
	u64 when = any_of(&walk->random, 50);

	model_hint(&walk->model, block, when);
	if (walk->order.ops->hint)
		walk->order.ops->hint(walk->order.policy, block, when);
}

static void step_advise(struct walk *walk)
{
	u32 block = any_of(&walk->random, walk->model.nr_blocks);
	enum kv_evict_advice what = any_of(&walk->random, 3);
	u64 value = any_of(&walk->random, what == KV_ADVISE_PRIORITY ? 110 : 3000);
	int expected = model_advise(&walk->model, block, what, value);

	if (walk->order.ops->advise)
		cr_assert_eq(walk->order.ops->advise(walk->order.policy, block, what, value),
			     expected);
	else
		cr_assert_eq(expected, -EOPNOTSUPP);
}

static void enter_one(struct walk *walk, u32 block)
{
	const struct model_block *state = &walk->model.block[block];
	kvmm_key_t key = order_key(state->key);

	walk->order.ops->enter(walk->order.policy, block, state->named ? &key : NULL);
}

/* Each by a call, or all by one. */
static void enter_all(struct walk *walk, const u32 *blocks, u32 nr)
{
	const struct kv_evict_ops *ops = walk->order.ops;
	bool named = true;

	for (u32 i = 0; i < nr; i++)
		named &= walk->model.block[blocks[i]].named;
	if (named && ops->enter_many && any_of(&walk->random, 2)) {
		ops->enter_many(walk->order.policy, blocks, nr);
		return;
	}
	for (u32 i = 0; i < nr; i++)
		enter_one(walk, blocks[i]);
}

/* Only a policy that keeps them meets blocks without key. */
static void step_free(struct walk *walk)
{
	u32 held[MODEL_BLOCKS], nr_held = blocks_where(walk, false, held);
	u32 nr = min(1 + any_of(&walk->random, 5), nr_held);

	for (u32 i = 0; i < nr; i++) {
		u32 other = i + any_of(&walk->random, nr_held - i), block = held[other];

		held[other] = held[i];
		held[i] = block;
		if (any_of(&walk->random, 3) ||
		    !(walk->model.block[block].named || walk->order.ops->keeps_unnamed))
			step_fill(walk, block);
	}
	enter_all(walk, held, nr);
	model_free(&walk->model, held, nr);
}

static void step_take_back(struct walk *walk)
{
	u32 in[MODEL_BLOCKS], nr = blocks_where(walk, true, in);
	u32 block = nr ? in[any_of(&walk->random, nr)] : 0;

	if (!nr)
		return;
	if (any_of(&walk->random, 2))
		step_hit(walk, block);
	model_leave(&walk->model, block);
	walk->order.ops->leave(walk->order.policy, block);
}

/* Hit where they are, and put: only policies that move blocks meet that. */
static void step_use(struct walk *walk)
{
	u32 in[MODEL_BLOCKS], nr_in = blocks_where(walk, true, in), nr = 0;

	for (u32 i = any_of(&walk->random, nr_in + 1); i < nr_in && nr < KV_EVICT_MANY; i++)
		if (walk->model.block[in[i]].named)
			in[nr++] = in[i];
	if (!walk->order.ops->enter_many)
		return;
	for (u32 i = 0; i < nr; i++) {
		step_hit(walk, in[i]);
		model_leave(&walk->model, in[i]);
	}
	walk->order.ops->enter_many(walk->order.policy, in, nr);
	model_free(&walk->model, in, nr);
}

/* Some victims, of which the last ones go back, as after an allocation that failed. */
static void step_evict(struct walk *walk)
{
	const struct kv_evict_ops *ops = walk->order.ops;
	u32 expected[MODEL_BLOCKS], nr = model_read(&walk->model, expected);
	u32 nr_picks = min(any_of(&walk->random, 8), nr), nr_kept = any_of(&walk->random, nr_picks + 1);
	u32 got[8], nr_got = 0;

	if (ops->pick_many && any_of(&walk->random, 2))
		nr_got = ops->pick_many(walk->order.policy, nr_picks, got);
	else
		while (nr_got < nr_picks)
			got[nr_got++] = ops->pick(walk->order.policy);
	cr_assert_eq(nr_got, nr_picks);
	for (u32 i = 0; i < nr_picks; i++)
		cr_assert_eq(got[i], expected[i]);
	for (u32 i = nr_picks; i-- > nr_kept; )
		ops->unpick(walk->order.policy, expected[i]);
	for (u32 i = 0; i < nr_kept; i++) {
		model_leave(&walk->model, expected[i]);
		walk->model.block[expected[i]].named = false;
	}
}

static void step(struct walk *walk)
{
	switch (any_of(&walk->random, 10)) {
	case 9: return step_use(walk);
	case 0: return step_request(walk);
	case 8: return step_advise(walk);
	case 1: return step_hint(walk);
	case 2:
	case 3: return step_take_back(walk);
	case 4: return step_evict(walk);
	default: return step_free(walk);
	}
}

static void expect_same(struct walk *walk, u64 seed, u32 nr_steps)
{
	u32 got[MODEL_BLOCKS + 1], expected[MODEL_BLOCKS];
	u32 nr = order_read(&walk->order, got);

	cr_assert_eq(nr, model_read(&walk->model, expected), "seed %llu, step %u",
		     (unsigned long long)seed, nr_steps);
	cr_assert(!memcmp(got, expected, nr * sizeof(*got)), "%s: seed %llu, step %u",
		  walk->order.ops->name, (unsigned long long)seed, nr_steps);
}

static void walk_on(struct walk *walk, u64 seed, u32 nr_steps)
{
	for (u32 i = 0; i < nr_steps; i++) {
		step(walk);
		expect_same(walk, seed, i);
	}
	order_exit(&walk->order);
}

static void walk_along(const struct kv_evict_ops *ops, u32 nr_blocks, u64 seed)
{
	bool is_ring = ops->bytes(nr_blocks) > VTIME_BUCKETS * sizeof(u64);
	struct walk walk = { .random = seed };

	order_init(&walk.order, ops, nr_blocks);
	model_init(&walk.model, ops->name, nr_blocks);
	walk_on(&walk, seed, test_length(NULL, is_ring ? NR_RING_STEPS : NR_STEPS));
}

static u64 chosen_seed(void)
{
	u64 seed = test_number("KVMM_SEED", kv_random() | 1);

	fprintf(stderr, "KVMM_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

Test(evict_random, every_policy_is_what_it_is_defined_as)
{
	u64 seed = chosen_seed();

	for (u32 i = 0; kv_evict_policies[i]; i++) {
		if (kv_evict_policies[i] == &kv_evict_lrfu)
			continue;
		walk_along(kv_evict_policies[i], MODEL_BLOCKS, seed);
		walk_along(kv_evict_policies[i], 5, seed);
	}
}

/* Trials and the duel have tests of their own: here they have decided once and for all. */
Test(evict_random, lrfu_is_what_it_is_defined_as_with_each_half_life)
{
	u64 seed = chosen_seed();

	for (u32 i = 0; i < NR_TRIALS; i++) {
		struct walk walk = { .random = seed + i };
		struct lrfu *lrfu;

		order_init(&walk.order, &kv_evict_lrfu, MODEL_BLOCKS);
		model_init(&walk.model, "lrfu", MODEL_BLOCKS);
		lrfu = walk.order.policy;
		lrfu->trial->epoch = ~0u;
		lrfu->trial->best = i;
		lrfu->duel->hope = ~0ull >> 2;
		walk.model.half_life = trial_best(lrfu->trial)->ticks;
		walk_on(&walk, seed + i, test_length(NULL, NR_HALF_STEPS));
	}
}

/* Some are picked, one block comes or goes, and those that were picked come back behind it. */
static void return_late(struct order *order, u64 *random, bool *in)
{
	const struct kv_evict_ops *ops = order->ops;
	u32 block = any_of(random, MODEL_BLOCKS), victim[3], nr = any_of(random, 4);
	kvmm_key_t key = order_key(any_of(random, MODEL_KEYS));
	bool is_picked = false;

	nr = min(nr, ops->nr(order->policy));
	for (u32 i = 0; i < nr; i++) {
		victim[i] = ops->pick(order->policy);
		is_picked |= victim[i] == block;
	}
	if (!is_picked && in[block]) {
		ops->leave(order->policy, block);
	} else if (!is_picked) {
		if (ops->fill)
			ops->fill(order->policy, block, &key);
		for (u32 hits = any_of(random, 4); hits && ops->hit; hits--)
			ops->hit(order->policy, block);
		ops->enter(order->policy, block, &key);
	}
	in[block] ^= !is_picked;
	while (nr)
		ops->unpick(order->policy, victim[--nr]);
	cr_assert_eq(ops->check(order->policy), 0, "%s", ops->name);
}

Test(evict_random, victims_that_come_back_behind_a_change_are_evicted_once)
{
	u64 random = chosen_seed();

	for (u32 i = 0; kv_evict_policies[i]; i++) {
		bool in[MODEL_BLOCKS] = { false };
		u32 victims[MODEL_BLOCKS], nr = 0;
		struct order order;

		order_init(&order, kv_evict_policies[i], MODEL_BLOCKS);
		for (u32 step = 0; step < 1000; step++)
			return_late(&order, &random, in);
		for (u32 block = 0; block < MODEL_BLOCKS; block++)
			nr += in[block];
		cr_expect_eq(order_read(&order, victims), nr);
		for (u32 k = 0; k < nr; k++) {
			cr_expect(in[victims[k]], "%s", order.ops->name);
			in[victims[k]] = false;
		}
		order_exit(&order);
	}
}

Test(evict_random, an_empty_order_has_no_victim)
{
	for (u32 i = 0; kv_evict_policies[i]; i++) {
		struct order order;

		order_init(&order, kv_evict_policies[i], 3);
		cr_expect_eq(order.ops->pick(order.policy), KV_NONE);
		cr_expect_eq(order.ops->nr(order.policy), 0);
		order_exit(&order);
	}
}
