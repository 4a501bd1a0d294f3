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
	follow(order->policy, 7);
	return order->policy;
}

/* Credit counts for nothing once the half-life is 0, without the block's being touched. */
Test(evict_lrfu, blocks_that_wait_get_new_places_when_the_half_life_changes)
{
	struct order order;
	struct lrfu *lrfu = order_of_8(&order);

	order_fill(&order, "abcd");
	order_hit(&order, "a");
	order_enter(&order, "abcd");
	order_expect(&order, "bcda");
	lrfu->trial->best = 0;
	lrfu->sweep = 0;
	order_fill(&order, "ef");
	cr_expect_eq(lrfu->sweep, 8, "all have been looked at");
	order_expect(&order, "abcd");
	order_exit(&order);
}

Test(evict_lrfu, a_block_that_comes_back_has_its_credit)
{
	kvmm_key_t key = order_key(0), other = order_key(20);
	struct order order;
	struct lrfu *lrfu = order_of_8(&order);

	order_fill(&order, "a");
	order_hit(&order, "a");
	cr_expect_eq(lrfu->block[0].credit, CREDIT_ONE);
	kv_evict_lrfu.fill(order.policy, 0, &other);
	cr_expect_eq(lrfu->block[0].credit, 0);
	kv_evict_lrfu.fill(order.policy, 3, &key);
	cr_expect_eq(lrfu->block[3].credit, 25, "16 * log2(1 + 2)");
	order_exit(&order);
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
	follow(load.order.policy, 7);
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
