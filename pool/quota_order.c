// SPDX-License-Identifier: Apache-2.0
/*
 * Which tenant is the next to lose a block.
 *
 * Rank by rank: a class that exceeds its quota, since that is asked of the pool as a whole; tenants
 * over ->high; those above ->low; those above ->min; and the tenant that asks for room, if it has
 * nothing better to offer than blocks that ->min protects from others. Inside a rank the lowest
 * class, and then the tenant with the block that has waited in the order longest. That costs a look
 * at each account, however many blocks any of them has; then it stays the same one's turn until it
 * comes into another rank, or a block of another tenant has waited longer.
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

static enum level level_of(const struct quotas *quotas, u32 i)
{
	const struct account *account = quotas->account[i];
	u32 usage = account->usage - account->nr_picked;

	if (quotas->mode == QUOTA_ANY)
		return LEVEL_PLAIN;
	if (quotas->mode == QUOTA_OF_WHO)
		return i == quotas->who ? LEVEL_PLAIN : LEVEL_NEVER;
	if (usage <= account->limit.min)
		return i == quotas->who ? LEVEL_OWN : LEVEL_NEVER;
	if (usage > account->limit.high)
		return LEVEL_HIGH;
	return usage > account->limit.low ? LEVEL_PLAIN : LEVEL_LOW;
}

/* ---- the next victim ---- */

#define NO_TURN		((struct turn){ .rank = KV_NONE })

static u32 nr_in(const struct order *order, const struct account *account, u32 class)
{
	return order->ops->nr(account->policy[class]);
}

/* When its next one came into the order. */
static u32 age_of(const struct order *order, const struct turn *turn)
{
	struct account *account = order->quotas->account[turn->account];
	u32 *next = &account->next[turn->class];

	kv_assert_held(&order->lock);
	if (*next == KV_NONE) {
		*next = order->ops->pick(account->policy[turn->class]);
		order->ops->unpick(account->policy[turn->class], *next);
	}
	return order->quotas->entered[*next];
}

static bool is_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static void consider(const struct order *order, const struct turn *turn, struct turn *best)
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
static struct turn over_quota(const struct order *order)
{
	const struct quotas *quotas = order->quotas;
	struct turn best = NO_TURN;

	kv_assert_held(&order->lock);
	for (u32 class = 0; class < order->nr_policies && best.rank == KV_NONE; class++) {
		if (!class_is_over(order->classes, class))
			continue;
		for_each_account(quotas, at, i) {
			struct turn turn = { .account = i, .class = class,
					     .rank = level_of(quotas, i) };

			if ((quotas->mode != QUOTA_OF_WHO || i == quotas->who) &&
			    nr_in(order, quotas->account[i], class))
				consider(order, &turn, &best);
		}
	}
	return best;
}

static struct turn turn_of(const struct order *order, u32 i)
{
	enum level level = level_of(order->quotas, i);
	struct turn turn = { .account = i, .rank = KV_NONE };

	if (level == LEVEL_NEVER)
		return turn;
	while (turn.class < order->nr_policies &&
	       !nr_in(order, order->quotas->account[i], turn.class))
		turn.class++;
	if (turn.class < order->nr_policies)
		turn.rank = (level + 1) << 8 | turn.class;
	return turn;
}

static struct turn by_level(const struct order *order)
{
	const struct quotas *quotas = order->quotas;
	struct turn best = NO_TURN;

	kv_assert_held(&order->lock);
	if (quotas->mode == QUOTA_OF_WHO)
		return turn_of(order, quotas->who);
	for_each_account(quotas, at, i) {
		struct turn turn = turn_of(order, i);

		if (turn.rank != KV_NONE)
			consider(order, &turn, &best);
	}
	return best;
}

static bool is_still_next(const struct order *order)
{
	const struct turn *last = &order->quotas->turn;
	struct turn now;

	if (!order->quotas->goes_on)
		return false;
	now = turn_of(order, last->account);
	return now.rank == last->rank &&
	       (!last->has_rival || is_before(age_of(order, &now), last->rival));
}

static struct turn next_turn(const struct order *order)
{
	struct turn turn = NO_TURN;

	if (order->classes && order->classes->has_quotas)
		turn = over_quota(order);
	else if (is_still_next(order))
		return order->quotas->turn;
	return turn.rank == KV_NONE ? by_level(order) : turn;
}

void *quota_next(struct order *order)
{
	struct quotas *quotas = order->quotas;

	kv_assert_held(&order->lock);
	quotas->turn = next_turn(order);
	if (quotas->turn.rank == KV_NONE)
		return NULL;
	quotas->goes_on = true;
	quotas->account[quotas->turn.account]->next[quotas->turn.class] = KV_NONE;
	return quotas->account[quotas->turn.account]->policy[quotas->turn.class];
}

/* ---- marks ---- */

/* Why it goes is known now, and counted when it has gone. */
void __quota_picked(struct quotas *quotas, u32 index)
{
	u32 i = quota_of(quotas, index), mark = QUOTA_PICKED;

	kv_assert(index < quotas->nr_blocks);
	if (quotas->mode == QUOTA_OF_WHO)
		mark |= QUOTA_OWN;
	if (quotas->mode == QUOTA_FOR_WHO && i != quotas->who && level_of(quotas, i) == LEVEL_LOW)
		mark |= QUOTA_LOW;
	quotas->of[index] |= mark;
	quotas->account[i]->nr_picked++;
}

void __quota_unpicked(struct quotas *quotas, u32 index)
{
	kv_assert(index < quotas->nr_blocks);
	quotas->account[quota_of(quotas, index)]->nr_picked--;
	quotas->of[index] &= QUOTA_ACCOUNT;
}

/* ---- the rest ---- */

u32 quota_order_nr_in(const struct order *order, u32 class)
{
	u32 nr = 0;

	for_each_account(order->quotas, at, i)
		nr += nr_in(order, order->quotas->account[i], class);
	return nr;
}

void quota_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr)
{
	struct account *account = order->quotas->account[find_account(order->quotas, tenant)];

	kv_assert_held(&order->lock);
	for (u32 class = 0; class < order->nr_policies; class++) {
		account->next[class] = KV_NONE;
		order->ops->seen(account->policy[class], keys, nr);
	}
}

int quota_order_check(const struct order *order)
{
	for_each_account(order->quotas, at, i) {
		const struct account *account = order->quotas->account[i];

		for (u32 class = 0; class < order->nr_policies; class++) {
			u32 next = account->next[class];

			if (order->ops->check(account->policy[class]))
				return -EUCLEAN;
			if (next != KV_NONE && (next >= order->quotas->nr_blocks ||
						!order->ops->has(account->policy[class], next)))
				return -EUCLEAN;
		}
	}
	return 0;
}
