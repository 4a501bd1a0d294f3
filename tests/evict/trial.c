// SPDX-License-Identifier: Apache-2.0
/* Trials and what they lead to: the half-life that a load wants, and blocks that move when it changes. */
#include <kv/hash.h>

#include "evict/lrfu.c"
#include "tests/evict/order.h"

#define NR	256u

struct load {
	struct order order;
	u32 key[NR];		/* by block */
	u32 block[4096];	/* by key, or KV_NONE */
	u64 random;
	u32 nr_hits;
	u32 nr_named;		/* blocks that ask() has filled */
};

static u32 below(struct load *load, u32 limit)
{
	load->random = load->random * 6364136223846793005ull + 1442695040888963407ull;
	return (load->random >> 33) % limit;
}

static void load_init(struct load *load, const struct kv_evict_ops *ops)
{
	*load = (struct load){ .random = 1 };
	order_init(&load->order, ops, NR);
	for (u32 i = 0; i < 4096; i++)
		load->block[i] = KV_NONE;
	for (u32 i = 0; i < NR; i++)
		load->key[i] = KV_NONE;
}

static void hit(struct load *load, u32 block, const kvmm_key_t *key)
{
	const struct kv_evict_ops *ops = load->order.ops;

	load->nr_hits++;
	ops->leave(load->order.policy, block);
	if (ops->hit)
		ops->hit(load->order.policy, block);
	ops->enter(load->order.policy, block, key);
}

static void use(struct load *load, u32 number)
{
	const struct kv_evict_ops *ops = load->order.ops;
	u32 nr = ops->nr(load->order.policy), block = load->block[number];
	kvmm_key_t key = order_key(number);

	if (block != KV_NONE)
		return hit(load, block, &key);
	block = nr < NR ? nr : ops->pick(load->order.policy);
	if (load->key[block] != KV_NONE)
		load->block[load->key[block]] = KV_NONE;
	load->key[block] = number;
	load->block[number] = block;
	if (ops->fill)
		ops->fill(load->order.policy, block, &key);
	ops->enter(load->order.policy, block, &key);
}

/* A few keys are used all the time, among many that are used once in a while. */
static void use_by_frequency(struct load *load, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		use(load, below(load, 3) ? below(load, 3000) : 3000 + below(load, 200));
}

/* Whatever was used lately is used again, and then no more. */
static void use_by_recency(struct load *load, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		use(load, (i / 4 + below(load, 400)) % 4096);
}

static const struct trial *trial_of(const struct load *load)
{
	return ((const struct lrfu *)load->order.policy)->trial;
}

static u32 hits_of(const struct kv_evict_ops *ops, void (*load)(struct load *, u32))
{
	struct load run;

	load_init(&run, ops);
	load(&run, 60000);
	order_exit(&run.order);
	return run.nr_hits;
}

Test(evict_trial, finds_the_half_life_and_follows_the_load)
{
	struct load load;

	load_init(&load, &kv_evict_lrfu);
	cr_expect_eq(trial_of(&load)->best, 0, "it begins as LRU");
	use_by_frequency(&load, 40000);
	cr_expect_geq(trial_of(&load)->best, 3);
	use_by_recency(&load, 40000);
	cr_expect_leq(trial_of(&load)->best, 2);
	use_by_frequency(&load, 40000);
	cr_expect_geq(trial_of(&load)->best, 3);
	order_exit(&load.order);
}

Test(evict_trial, begins_with_credit_only_where_lru_hits_next_to_nothing)
{
	struct load poor, rich;

	load_init(&poor, &kv_evict_lrfu);
	for (u32 i = 0; i < 3000; i++)
		use(&poor, i % 32 ? i : 4095);
	cr_expect_gt(trial_of(&poor)->best, 0, "all candidates hit the same: one of 32");
	order_exit(&poor.order);
	load_init(&rich, &kv_evict_lrfu);
	for (u32 i = 0; i < 3000; i++)
		use(&rich, i % 8 ? i : 4095);
	cr_expect_eq(trial_of(&rich)->best, 0, "all hit the same: one of 8");
	order_exit(&rich.order);
}

Test(evict_trial, is_as_good_as_lru_where_that_is_good_and_better_where_not)
{
	cr_expect_geq(hits_of(&kv_evict_lrfu, use_by_recency) * 1000,
		      hits_of(&kv_evict_lru, use_by_recency) * 990);
	cr_expect_gt(hits_of(&kv_evict_lrfu, use_by_frequency) * 100,
		     hits_of(&kv_evict_lru, use_by_frequency) * 125);
}

/* What a candidate would have hit is what a pool with that half-life hits: within a tenth. */
Test(evict_trial, counts_what_a_pool_would_hit)
{
	for (u32 i = 0; i < NR_TRIALS; i++) {
		struct load load;
		struct trial *trial;
		u32 guessed;

		load_init(&load, &kv_evict_lrfu);
		trial = ((struct lrfu *)load.order.policy)->trial;
		trial->epoch = ~0u;
		trial->best = i;
		((struct lrfu *)load.order.policy)->duel->hope = ~0ull >> 2;
		use_by_frequency(&load, 60000);
		guessed = trial->candidate[i].score / 16;
		cr_expect_leq(abs((int)guessed - (int)load.nr_hits) * 10, (int)load.nr_hits,
			      "half-life %u: %u guessed, %u hit", i, guessed, load.nr_hits);
		order_exit(&load.order);
	}
}

static void follow(struct lrfu *lrfu, u32 candidate)
{
	lrfu->trial->epoch = ~0u;
	lrfu->trial->best = candidate;
}

static struct lrfu *order_of_8(struct order *order)
{
	order_init(order, &kv_evict_lrfu, 8);
	follow(order->policy, NR_TRIALS - 1);
	return order->policy;
}

/* Credit counts for nothing once the half-life is 0, without the block's being touched. */
Test(evict_lrfu, blocks_that_wait_get_new_places_when_the_half_life_changes)
{
	struct order order;
	struct lrfu *lrfu = order_of_8(&order);

	order_fill(&order, "abcde");
	order_hit(&order, "a");
	order_enter(&order, "abcd");
	order_fill(&order, "fg");
	order_enter(&order, "f");
	order_expect(&order, "bcdfa");
	lrfu->trial->best = 0;
	lrfu->sweep = 0;
	order_fill(&order, "h");
	cr_expect_eq(lrfu->sweep, 8, "all have been looked at");
	order_expect(&order, "bcdaf");
	order_exit(&order);
}

Test(evict_lrfu, a_block_that_comes_back_has_its_credit)
{
	kvmm_key_t key = order_key(0), other = order_key(20);
	struct order order;
	struct lrfu *lrfu = order_of_8(&order);

	order_fill(&order, "a");
	order_hit(&order, "a");
	cr_expect_eq(lrfu->block[0].credit, AGAIN + CREDIT_ONE);
	kv_evict_lrfu.fill(order.policy, 0, &other);
	cr_expect_eq(lrfu->block[0].credit, NEW);
	kv_evict_lrfu.fill(order.policy, 3, &key);
	cr_expect_eq(lrfu->block[3].credit, AGAIN + 25, "16 * log2(1 + 2)");
	order_exit(&order);
}

/* Blocks that were used once are in the same order with any half-life. */
Test(evict_lrfu, blocks_without_credit_stay_where_they_are_when_the_half_life_changes)
{
	struct order order;
	struct lrfu *lrfu = order_of_8(&order);

	order_fill(&order, "abcde");
	order_hit(&order, "b");
	order_enter(&order, "dcba");
	lrfu->trial->best = 0;
	lrfu->sweep = 0;
	order_fill(&order, "e");
	order_expect(&order, "dcab");
	order_exit(&order);
}

/* ---- ends of chains ---- */

/* The first blocks of a prompt. */
#define NR_STEM	3u

static u32 take(struct load *load, u32 number)
{
	const struct kv_evict_ops *ops = load->order.ops;
	u32 nr = load->nr_named, block = load->block[number];
	kvmm_key_t key = order_key(number);

	if (block != KV_NONE) {
		load->nr_hits++;
		ops->leave(load->order.policy, block);
		ops->hit ? ops->hit(load->order.policy, block) : (void)0;
		return block;
	}
	block = nr < NR ? load->nr_named++ : ops->pick(load->order.policy);
	if (load->key[block] != KV_NONE)
		load->block[load->key[block]] = KV_NONE;
	load->key[block] = number;
	load->block[number] = block;
	ops->fill ? ops->fill(load->order.policy, block, &key) : (void)0;
	return block;
}

/* A prompt: a stem, and one more block. */
static void ask(struct load *load, u32 stem, u32 end)
{
	u32 block[NR_STEM + 1];

	for (u32 i = 0; i <= NR_STEM; i++)
		block[i] = take(load, i < NR_STEM ? stem * NR_STEM + i : end);
	for (u32 i = NR_STEM + 1; i-- > 0;) {
		kvmm_key_t key = order_key(load->key[block[i]]);

		load->order.ops->enter(load->order.policy, block[i], &key);
	}
}

/* Stems that just fit, and each prompt ends with a block of its own. */
static void ask_with_new_ends(struct load *load, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		ask(load, below(load, (NR - 8) / NR_STEM), 1000 + i % 3000);
}

/* Whole prompts come back. */
static void ask_the_same(struct load *load, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		u32 stem = below(load, (NR + 64) / NR_STEM);

		ask(load, stem, 1000 + stem);
	}
}

/* Each stem comes back soon, for the last time; each eighth prompt does so as a whole. */
static void ask_twice(struct load *load, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		ask(load, i, 2000 + i);
		if (i >= 10)
			ask(load, i - 10, i % 8 ? 2800 + i : 2000 + i - 10);
	}
}

static u32 hits_of_asking(const struct kv_evict_ops *ops, void (*load)(struct load *, u32), u32 nr)
{
	struct load run;

	load_init(&run, ops);
	load(&run, nr);
	order_exit(&run.order);
	return run.nr_hits;
}

Test(evict_lrfu, ends_of_chains_that_never_come_back_give_room_to_others)
{
	u32 hits = hits_of_asking(&kv_evict_lrfu, ask_with_new_ends, 3000);

	cr_expect_gt(hits * 100, 3000 * NR_STEM * 95);
	cr_expect_gt(hits * 100, hits_of_asking(&kv_evict_lru, ask_with_new_ends, 3000) * 120);
}

Test(evict_lrfu, ends_of_chains_that_come_back_as_others_do_are_kept_as_others)
{
	cr_expect_geq(hits_of_asking(&kv_evict_lrfu, ask_the_same, 3000) * 100,
		      hits_of_asking(&kv_evict_lru, ask_the_same, 3000) * 99);
}

/* Where all that comes back is still there, nothing is won by that. */
Test(evict_lrfu, ends_of_chains_are_given_up_only_while_that_wins_more_than_it_loses)
{
	u32 lru = hits_of_asking(&kv_evict_lru, ask_twice, 600);
	u32 own = hits_of_asking(&kv_evict_lrfu, ask_twice, 600);

	/* And those that were on their way when it was given up. */
	cr_expect_leq(lru, own + DEAD_MAY_LOSE + 4, "%u of %u", own, lru);
	cr_expect_eq(hits_of_asking(&kv_evict_lru, ask_twice, 600), 590 * NR_STEM + 590 / 8);
}

/* ---- the duel ---- */

/* Whatever order the blocks are in: what LRU would have hit is known, use by use. */
Test(evict_duel, counts_exactly_what_lru_would_have_hit)
{
	static void (*const loads[])(struct load *, u32) = { use_by_recency, use_by_frequency };

	for (u32 i = 0; i < NR_TRIALS * 2; i++) {
		struct load load;
		struct duel *duel;

		load_init(&load, &kv_evict_lrfu);
		follow(load.order.policy, i / 2);
		duel = ((struct lrfu *)load.order.policy)->duel;
		duel->hope = ~0ull >> 2;
		loads[i % 2](&load, 60000);
		cr_expect_eq(duel->lru_hits, hits_of(&kv_evict_lru, loads[i % 2]),
			     "half-life %u, load %u", i / 2, i % 2);
		cr_expect(!kv_evict_lrfu.check(load.order.policy));
		order_exit(&load.order);
	}
}

/* A half-life that is wrong for the load costs some hits, once. */
Test(evict_duel, who_has_lost_follows_lru)
{
	u32 lru = hits_of(&kv_evict_lru, use_by_recency);
	struct load load;

	load_init(&load, &kv_evict_lrfu);
	follow(load.order.policy, NR_TRIALS - 1);
	use_by_recency(&load, 60000);
	cr_expect(((struct lrfu *)load.order.policy)->duel->lost);
	cr_expect_geq(load.nr_hits + NR / 2 + lru / 1000, lru);
	order_exit(&load.order);
}

/* What has been promised all the time is tried again, and then pays. */
Test(evict_duel, who_has_lost_gets_another_chance)
{
	struct load load;

	load_init(&load, &kv_evict_lrfu);
	use_by_recency(&load, 4000);
	((struct lrfu *)load.order.policy)->duel->lead = -200;
	((struct lrfu *)load.order.policy)->duel->lost = true;
	use_by_frequency(&load, 60000);
	cr_expect_not(((struct lrfu *)load.order.policy)->duel->lost);
	cr_expect_gt(((struct lrfu *)load.order.policy)->duel->lead, 0);
	order_exit(&load.order);
}

Test(evict_duel, a_check_finds_a_count_that_is_wrong)
{
	struct load load;
	struct lrfu *lrfu;

	load_init(&load, &kv_evict_lrfu);
	use_by_recency(&load, 1000);
	lrfu = load.order.policy;
	cr_expect_eq(kv_evict_lrfu.check(lrfu), 0);
	lrfu->duel->count[lrfu->duel->now][5]++;
	cr_expect_eq(kv_evict_lrfu.check(lrfu), -EUCLEAN);
	lrfu->duel->count[lrfu->duel->now][5]--;
	lrfu->nr_named++;
	cr_expect_eq(kv_evict_lrfu.check(lrfu), -EUCLEAN);
	lrfu->nr_named--;
	order_exit(&load.order);
}
