// SPDX-License-Identifier: Apache-2.0
/*
 * Credit: blocks that an account is charged with before an arena's ranges have them.
 *
 * What an account has beyond its blocks is ->left of its credits. So it is never charged with less
 * than it has, and its limits hold; before it is refused anything, loses a block to others, or is
 * shown, its credits are recalled, and it is charged with what it has.
 */
#include "arena.h"

#define CREDIT_NR	256u	/* blocks at a time */

/* Both locks held. */
static void credit_end(struct kvmm_pool *pool, struct credit *credit)
{
	kv_assert_held(&pool->lock);
	quota_credit_end(pool->order.quotas, credit->account, credit->least, credit->left);
	pool->arenas->nr_credits--;
	*credit = (struct credit){ 0 };
}

/* Not where the arenas together could make a tenant feel a limit that it has not reached. */
bool credit_lend(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena, u32 tenant)
{
	struct quotas *quotas = pool->order.quotas;
	struct credit *credit = credit_at(arena, tenant);
	u32 id = find_account(quotas, tenant);
	const struct account *account = quotas->account[id];
	u32 limit = min(account->limit.high, account->limit.max);

	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	if (account->usage + (u64)CREDIT_NR * arenas->nr > limit)
		return false;
	if (credit->on && (credit->tenant != tenant || credit->account != id))
		credit_end(pool, credit);
	arenas->nr_credits += !credit->on;
	quota_credit(quotas, id, CREDIT_NR, !credit->on);
	*credit = (struct credit){ tenant, credit->left + CREDIT_NR, credit->least + CREDIT_NR,
				   id, true };
	return true;
}

/* Both locks held. */
void arena_end_credits(struct kvmm_pool *pool, struct arena *arena)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	for (u32 i = 0; i < ARENA_CREDITS; i++)
		if (arena->credit[i].on)
			credit_end(pool, &arena->credit[i]);
}

void arenas_recall(struct kvmm_pool *pool)
{
	struct arenas *arenas = pool->arenas;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; arenas->nr_credits && i < arenas->nr; i++) {
		kv_lock(&arenas->arena[i].lock);
		arena_end_credits(pool, &arenas->arena[i]);
		kv_unlock(&arenas->arena[i].lock);
	}
}
