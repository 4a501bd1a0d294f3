// SPDX-License-Identifier: Apache-2.0
/*
 * Recompute everything: the numbered invariants of tier.h.
 *
 * Threads may be in the middle of filling or ending batches: their items are counted, and not
 * looked into.
 */
#include "tier.h"

/* ---- items ---- */

static int check_free(const struct kvmm_pool *pool, const struct lower *lower, bool is_up)
{
	u32 nr = 0, max = is_up ? lower->max_up : lower->max_down;

	kv_assert_held(&lower->lock);
	for (u32 i = lower->free_item[is_up]; i != KV_NONE; i = lower->item[i].next) {
		if (i >= lower->nr_items || lower->item[i].state != ITEM_FREE ||
		    lower->item[i].is_up != is_up || ++nr > max)
			return pool_complain(pool, "free items of tiers", i);
	}
	return nr + lower->nr_used[is_up] == max ? 0 :
	       pool_complain(pool, "items of tiers lost", nr);
}

/* Blocks that the store below reads are written to the slot of the fetch. */
static bool slot_is_held(const struct lower *lower, const struct item *item)
{
	kv_assert_held(&lower->lock);
	if (item->state == ITEM_FETCH)
		return kv_tier_may_hold(lower->client, item->fetch.slot, &item->name,
					KV_TIER_WRITES);
	return kv_tier_may_hold(lower->client, item->slot, &item->name,
				item->is_up ? KV_TIER_READS : KV_TIER_WRITES);
}

/* Items that are ready, or that the store below reads. */
static int check_list(const struct kvmm_pool *pool, const struct lower *lower, u32 first,
		      enum item_state state)
{
	const char *what = state == ITEM_READY ? "items that are ready" : "items that are fetched";
	u32 nr = 0, nr_all = 0;

	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < lower->nr_items; i++)
		nr_all += lower->item[i].state == state;
	for (u32 i = first; i != KV_NONE; i = lower->item[i].next)
		if (i >= lower->nr_items || lower->item[i].state != state || ++nr > nr_all ||
		    (state == ITEM_FETCH && !lower->item[i].fetch.io) ||
		    !slot_is_held(lower, &lower->item[i]))
			return pool_complain(pool, what, i);
	return nr == nr_all ? 0 : pool_complain(pool, what, nr);
}

static int check_names(const struct kvmm_pool *pool, struct lower *lower)
{
	u32 nr = 0, nr_named = 0;

	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < lower->nr_items; i++)
		nr_named += lower->item[i].state != ITEM_FREE && lower->item[i].is_named;
	for (u32 b = 0; b < lower->nr_names; b++)
		for (u32 i = lower->name[b]; i != KV_NONE; i = lower->item[i].next_name)
			if (i >= lower->nr_items || ++nr > nr_named)
				return pool_complain(pool, "chain of names goes astray", b);
	if (nr != nr_named)
		return pool_complain(pool, "names of tiers lost", nr);
	/* Now that the chains can be gone along. */
	for (u32 i = 0; i < lower->nr_items; i++) {
		const struct item *item = &lower->item[i];

		if (item->state == ITEM_FREE || !item->is_named)
			continue;
		if (!item->is_up || item_find(lower, &item->name.key, item->name.domain) != i)
			return pool_complain(pool, "name on its way twice", i);
	}
	return 0;
}

/* ---- batches ---- */

static bool entry_is_kept(const struct kvmm_pool *pool, const struct lower *lower,
			  const struct item *item)
{
	u64 word;

	kv_assert_held(&lower->lock);
	if (item->entry.index >= pool->nr_blocks)
		return false;
	word = READ_ONCE(entry_at(pool, item->entry.index)->word);
	if (kv_word_gen(word) != item->entry.gen || !kv_word_pins(word))
		return false;
	if (item->is_up)
		return kv_word_is(word, KV_ENTRY_PRIVATE);
	return kv_word_is(word, KV_ENTRY_REGISTERED) &&
	       lower->below[item->entry.index].state == BELOW_FLYING &&
	       lower->below[item->entry.index].gen == item->entry.gen;
}

static int check_batch(const struct kvmm_pool *pool, const struct lower *lower,
		       const struct batch *batch)
{
	kv_assert_held(&lower->lock);
	if (batch->state != BATCH_COPYING)
		return 0;
	if (!completion_is_sound(&pool->completions, &batch->completion))
		return pool_complain(pool, "number of a copy", batch->completion.number);
	for (u32 i = 0; i < batch->nr; i++) {
		const struct item *item = &lower->item[batch->item[i]];

		if (item->state != ITEM_BATCH || item->is_up != batch->is_up ||
		    !entry_is_kept(pool, lower, item) ||
		    (i < batch->nr_copy && !slot_is_held(lower, item)))
			return pool_complain(pool, "block that is copied", batch->item[i]);
	}
	return 0;
}

/* ---- operations ---- */

static bool op_is_sound(const struct tier_op *op)
{
	u32 nr = 0;

	for (u32 i = 0; i < op->nr; i++) {
		const struct want *want = &op->want[i];

		if (!want->at)
			continue;
		nr++;
		if (want->op != op || *want->at != want ||
		    (want->next && want->next->at != &want->next))
			return false;
	}
	return nr == op->nr_left;
}

static int check_ops(const struct kvmm_pool *pool, const struct lower *lower)
{
	u32 nr = 0, nr_over = 0;

	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < KVMM_TIER_OPS; i++) {
		const struct tier_op *op = lower->op[i].op;

		if (!op)
			continue;
		if (op->index != i || !op_is_sound(op))
			return pool_complain(pool, "operation of tiers", i);
		nr++;
		nr_over += !op->nr_left && !op->is_busy;
	}
	if (nr != lower->nr_ops || nr_over != lower->nr_over)
		return pool_complain(pool, "operations of tiers lost", nr);
	return 0;
}

static int check_queue(const struct kvmm_pool *pool, const struct lower *lower)
{
	u32 nr = 0;

	for (u32 i = 0; i < min(lower->nr_heap, pool->nr_blocks); i++)
		nr += lower->heap[i] >= pool->nr_blocks;
	if (nr || lower->nr_heap > pool->nr_blocks || !heap_is_sound(lower))
		return pool_complain(pool, "queue of tiers", lower->nr_heap);
	for (u32 i = 0; i < pool->nr_blocks; i++) {
		const struct below *below = &lower->below[i];

		if (below->state > BELOW_CLEAN ||
		    (below->wants && below->state != BELOW_QUEUED && below->state != BELOW_FLYING))
			return pool_complain(pool, "copy between tiers in no state", i);
		nr += below->state == BELOW_QUEUED;
	}
	return nr == lower->nr_heap ? 0 : pool_complain(pool, "queue of tiers lost some", nr);
}

static int lower_check(struct kvmm_pool *pool)
{
	struct lower *lower = lower_of(pool);
	const struct kvmm_tier_client_stat *stat;
	u64 nr_timed = 0;
	int err;

	if (!lower)
		return 0;
	stat = &lower->stat;
	kv_lock(&lower->lock);
	err = check_free(pool, lower, false);
	if (!err)
		err = check_free(pool, lower, true);
	if (!err)
		err = check_list(pool, lower, lower->first_ready, ITEM_READY);
	if (!err)
		err = check_list(pool, lower, lower->first_fetch, ITEM_FETCH);
	if (!err)
		err = check_names(pool, lower);
	for (u32 i = 0; i < NR_BATCHES && !err; i++)
		err = check_batch(pool, lower, &lower->batch[i]);
	if (!err)
		err = check_ops(pool, lower);
	if (!err)
		err = check_queue(pool, lower);
	for (u32 i = 0; i <= KVMM_LATENCY_BOUNDS; i++)
		nr_timed += stat->disk_took.bucket[i];
	if (!err && (nr_timed != stat->disk_loads || stat->disk_took.sum_ns != stat->disk_load_ns ||
		     stat->load_took.sum_ns != stat->load_ns ||
		     stat->offload_took.sum_ns != stat->offload_ns))
		err = pool_complain(pool, "times of tiers", 0);
	if (!err && !thrash_is_sound(lower))
		err = pool_complain(pool, "ghosts of tiers", 0);
	if (!err)
		err = kv_tier_check(lower->tier);
	kv_unlock(&lower->lock);
	return err;
}

POOL_PART(lower_sound) = {
	.name		= "copies to and from tiers",
	.check_apart	= lower_check,
};
