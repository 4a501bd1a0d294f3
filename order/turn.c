// SPDX-License-Identifier: Apache-2.0
/*
 * Which account, and which class there, is the next to lose a block.
 *
 * Rank by rank: a class that exceeds its quota, since that is asked of the pool as a whole; tenants
 * over ->high; those above ->low; those above ->min; and the tenant that asks for room, if it has
 * nothing better to offer than blocks that ->min protects from others. Inside a rank the lowest
 * class, and then the tenant with the block that has waited in the order longest. That costs a look
 * at each account, however many blocks any of them has; then it stays the same one's turn until it
 * comes into another rank, or a block of another tenant has waited longer. Where no tenant has
 * limits there is one account, of plain rank.
 *
 * To compare ages one must know the next victim of each. Policies only tell by picking, which is
 * undone at once; their answer is remembered until something is changed in that instance.
 */
#include <kv/err.h>

#include "order.h"

enum level {
	LEVEL_HIGH,	/* over ->high */
	LEVEL_PLAIN,
	LEVEL_LOW,	/* ->low would rather not */
	LEVEL_OWN,	/* ->min forbids it but for its own sake */
	LEVEL_NEVER,
};

static enum level level_of(const struct order *order, const struct account *account)
{
	u32 usage = account->usage - account->nr_picked;
	bool asks = account->id == order->asking;

	if (order->mode == QUOTA_ANY)
		return LEVEL_PLAIN;
	if (order->mode == QUOTA_OF_ONE)
		return asks ? LEVEL_PLAIN : LEVEL_NEVER;
	if (usage <= account->limit.min)
		return asks ? LEVEL_OWN : LEVEL_NEVER;
	if (usage > account->limit.high)
		return LEVEL_HIGH;
	return usage > account->limit.low ? LEVEL_PLAIN : LEVEL_LOW;
}

/* ---- the next victim ---- */

#define NO_TURN		((struct turn){ .rank = KV_NONE })

/* A level, and in it the lowest class that has blocks. */
#define RANK_SHIFT	3u

static_assert(BIT(RANK_SHIFT) == KVMM_MAX_CLASSES, "a class fits a rank");

/* When its next one came into the order. */
static u32 age_of(struct order *order, const struct turn *turn)
{
	u32 *next = &turn->account->next[turn->class];

	kv_assert_held(&order->lock);
	if (*next == KV_NONE) {
		*next = order->ops->pick(turn->account->policy[turn->class]);
		order->ops->unpick(turn->account->policy[turn->class], *next);
	}
	return order->quotas->entered[*next];
}

static bool is_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static void consider(struct order *order, const struct turn *turn, struct turn *best)
{
	u32 age, best_age;

	kv_assert_held(&order->lock);
	if (turn->rank > best->rank)
		return;
	if (turn->rank < best->rank) {
		*best = *turn;
		return;
	}
	age = age_of(order, turn);
	best_age = age_of(order, best);
	if (is_before(age, best_age)) {
		*best = *turn;
		best->rival = best_age;
	} else if (!best->has_rival || is_before(age, best->rival)) {
		best->rival = age;
	}
	best->has_rival = true;
}

/* Quotas of classes are no wish of another tenant: they rule ->min. */
static struct turn over_quota(struct order *order)
{
	struct turn best = NO_TURN;
	struct account *account;

	kv_assert_held(&order->lock);
	for (u32 class = 0; class < order->nr_policies && best.rank == KV_NONE; class++) {
		if (!class_is_over(order->classes, class))
			continue;
		for_each_account(order, account) {
			struct turn turn = { .account = account, .class = class,
					     .rank = level_of(order, account) };

			if ((order->mode != QUOTA_OF_ONE || account->id == order->asking) &&
			    order->ops->nr(account->policy[class]))
				consider(order, &turn, &best);
		}
	}
	return best;
}

static u32 rank_of(const struct order *order, const struct account *account)
{
	enum level level = level_of(order, account);
	u32 class = 0;

	if (level == LEVEL_NEVER)
		return KV_NONE;
	while (class < order->nr_policies && !order->ops->nr(account->policy[class]))
		class++;
	return class < order->nr_policies ? (level + 1) << RANK_SHIFT | class : KV_NONE;
}

static struct turn turn_of(const struct order *order, struct account *account)
{
	u32 rank = rank_of(order, account);

	return (struct turn){ .account = account, .class = rank % KVMM_MAX_CLASSES, .rank = rank };
}

static struct turn by_level(struct order *order)
{
	struct turn best = NO_TURN;
	struct account *account;

	kv_assert_held(&order->lock);
	if (order->mode == QUOTA_OF_ONE)
		return turn_of(order, order->quotas->account[order->asking]);
	for_each_account(order, account) {
		struct turn turn = turn_of(order, account);

		if (turn.rank != KV_NONE)
			consider(order, &turn, &best);
	}
	return best;
}

static bool is_still_next(struct order *order)
{
	const struct turn *last = &order->turn;

	kv_assert_held(&order->lock);
	return order->goes_on && rank_of(order, last->account) == last->rank &&
	       (!last->has_rival || is_before(age_of(order, last), last->rival));
}

void *turn_find(struct order *order)
{
	struct turn *turn = &order->turn;
	bool over = order->classes && order->classes->has_quotas;

	kv_assert_held(&order->lock);
	if (over)
		*turn = over_quota(order);
	if (over ? turn->rank == KV_NONE : !is_still_next(order))
		*turn = by_level(order);
	order->goes_on = turn->rank != KV_NONE;
	if (!order->goes_on)
		return NULL;
	turn->account->next[turn->class] = KV_NONE;
	return turn->account->policy[turn->class];
}

/* ---- quotas of classes ---- */

bool order_is_over(struct order *order)
{
	const struct classes *classes = order->classes;

	kv_assert_held(&order->lock);
	for (u32 class = 0; classes->has_quotas && class < classes->nr; class++)
		if (class_is_over(classes, class) && order_nr_in(order, class))
			return true;
	return false;
}

int order_admit(struct order *order, const struct class *class, u32 nr)
{
	u64 total = class_total(order->classes, class->first) + nr;

	kv_assert_held(&order->lock);
	for (u32 i = class->first; i <= class->last; i++)
		total -= order_nr_in(order, i);
	return total > class->quota ? -EDQUOT : 0;
}

/* ---- marks ---- */

bool quota_spares(struct order *order, u32 index)
{
	return level_of(order, account_of(order, index)) != LEVEL_NEVER;
}

/* Why it goes is known now, and counted when it has gone. */
void quota_picked(struct order *order, u32 index)
{
	struct account *account = account_of(order, index);
	u32 mark = QUOTA_PICKED;

	kv_assert_held(&order->lock);
	if (order->mode == QUOTA_OF_ONE)
		mark |= QUOTA_OWN;
	if (order->mode == QUOTA_FOR_ONE && account->id != order->asking &&
	    level_of(order, account) == LEVEL_LOW)
		mark |= QUOTA_LOW;
	order->quotas->of[index] |= mark;
	account->nr_picked++;
}

void quota_unpicked(struct quotas *quotas, u32 index)
{
	kv_assert(index < quotas->nr_blocks);
	quotas->account[quota_of(quotas, index)]->nr_picked--;
	quotas->of[index] &= QUOTA_ACCOUNT;
}
