// SPDX-License-Identifier: Apache-2.0
/*
 * Costs of making room; see cost.h.
 *
 * An answer about a run is one pass over the owners of all blocks: a request asks for it only once
 * the zone has refused, and before anything is copied.
 */
#include "cost.h"
#include "stay.h"

static const struct cost_terms copies = { .mode = MOVE_STOPPED, .copies = true };

static u64 drop_ns(const struct kvmm_pool *pool, u32 index, const struct cost_terms *terms)
{
	kv_assert(index < pool->entries.nr);
	if (kv_word_is(READ_ONCE(entry_at(pool, index)->word), KV_ENTRY_PARKED))
		return 0;	/* nothing is lost */
	/* Where tenants have limits the block may be protected. */
	if (!terms->drops || pool->order.quotas || !entry_is_inactive(pool, index))
		return KV_STAYS;
	return pool->door.costs.drop_block_ns;
}

struct cost cost_of(struct kvmm_pool *pool, struct kvmm_extent run, const struct cost_terms *terms)
{
	u32 owner = pool->owner[run.start];
	struct cost cost = { KV_STAYS, KV_STAYS };

	kv_assert_held(&pool->lock);
	if (owner_is_free(owner) || owner_kind(owner) == OWNER_RESERVED)
		return (struct cost){ 0 };
	if (terms->copies && run_verdict(pool, owner, run, terms->mode).nr == run.nr)
		cost.copy_ns = run.nr * pool->door.costs.copy_block_ns;
	if (owner_kind(owner) == OWNER_ENTRY)
		cost.drop_ns = drop_ns(pool, owner_index(owner), terms);
	return cost;
}

/* What lies in memory that is being given back makes no room. A move takes empty blocks along. */
static u64 price_of(struct kvmm_pool *pool, u32 block, const struct cost_terms *terms)
{
	struct kvmm_extent run = { block, 1 };
	struct cost cost = cost_of(pool, run, terms);

	kv_assert_held(&pool->lock);
	if (elastic_is_leaving(pool, run))
		return KV_STAYS;
	return terms->drops ? min(cost.copy_ns, cost.drop_ns) : cost.copy_ns;
}

struct look {
	struct kvmm_pool *pool;
	const struct cost_terms *terms;
};

static struct kv_priced block_item(const void *arg, u32 block)
{
	const struct look *look = arg;

	return (struct kv_priced){ block, 1, price_of(look->pool, block, look->terms) };
}

/* The cheapest one of @nr blocks; its price is KV_STAYS if something stays in each. */
static struct cost_window cheapest(struct kvmm_pool *pool, u32 nr, const struct cost_terms *terms)
{
	const struct look look = { pool, terms };
	struct kv_window window = { .item = block_item, .arg = &look,
				    .nr_items = pool->nr_blocks, .want = nr };
	struct cost_window best = { .nr = nr, .ns = KV_STAYS, .terms = *terms };

	kv_assert_held(&pool->lock);
	for (u32 start = 0; start + nr <= pool->nr_blocks; start++) {
		u64 ns = kv_window_slide(&window, start);

		if (ns >= best.ns)
			continue;
		best.start = start;
		best.ns = ns;
	}
	return best;
}

u64 cost_of_run(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	return cheapest(pool, nr, &copies).ns;
}

bool cost_prefers_drop(struct kvmm_pool *pool, const struct alloc_ctx *room,
		       struct cost_window *window)
{
	const struct kvmm_alloc_costs *costs = &pool->door.costs;
	const struct cost_terms terms = { .mode = MOVE_STOPPED, .drops = true,
					  .copies = !(room->flags & KVMM_ALLOC_NO_COMPACT) };

	kv_assert_held(&pool->lock);
	if (costs->drop_block_ns >= costs->copy_block_ns || pool->order.quotas)
		return false;
	*window = cheapest(pool, room->nr, &terms);
	return window->ns && window->ns != KV_STAYS;
}

static bool drop_is_cheaper(struct kvmm_pool *pool, u32 block, const struct cost_terms *terms)
{
	struct cost cost = cost_of(pool, (struct kvmm_extent){ block, 1 }, terms);

	kv_assert_held(&pool->lock);
	return cost.drop_ns < cost.copy_ns;
}

bool cost_any_to_drop(struct kvmm_pool *pool, const struct cost_window *window)
{
	kv_assert_held(&pool->lock);
	for (u32 block = window->start; block < window->start + window->nr; block++)
		if (drop_is_cheaper(pool, block, &window->terms))
			return true;
	return false;
}

/* From the end: children tend to lie behind their parents. */
void __cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims)
{
	u32 nr = victims->nr;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (!nr)
		victims->before = pool->order.mark;
	for (u32 block = window->start + window->nr; block-- > window->start;) {
		u32 index = owner_index(pool->owner[block]);

		if (drop_is_cheaper(pool, block, &window->terms) &&
		    order_has(&pool->order, index) && order_take(&pool->order, index))
			victims_add(pool, victims, index);
	}
	victims_free_blocks(pool, victims, victims->nr - nr);
}

void cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims)
{
	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	__cost_drop(pool, window, victims);
	order_leave(&pool->order);
}
