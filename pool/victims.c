// SPDX-License-Identifier: Apache-2.0
/*
 * The victims of a request under way. Their blocks are in the zone, and they keep their entries and
 * keys until the request has succeeded; if it fails they have their blocks again, and their places
 * in the order of eviction. So a request that fails leaves no trace.
 *
 * And those of a call that only makes room: parked blocks are free, and stay readable.
 */
#include "local.h"

/* ---- room is made ---- */

static bool is_parked(const struct kvmm_pool *pool, u32 index)
{
	return READ_ONCE(entry_at(pool, index)->word) & KV_ENTRY_MARK;
}

bool victims_pick_named(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	bool more = true;

	kv_assert_held(&pool->order.lock);
	while (nr && more) {
		u32 nr_known = victims->nr, nr_new;

		more = victims_pick(pool, nr_known + nr, victims);
		nr_new = victims->nr - nr_known;
		for_each_victim(pool, victims, at, i) {
			if (i == nr_new)
				break;
			nr -= !is_parked(pool, at);
		}
	}
	return !nr;
}

/* Once a victim stays picked, picks before it are not undone one by one any more. */
void victims_spare_parked(struct kvmm_pool *pool, struct victims *victims)
{
	struct victims rest = *victims;
	u32 oldest = KV_NONE;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (!pool->count.nr_parked)
		return;
	victims->nr = 0;
	while (rest.nr) {
		u32 index = victims_pop(pool, &rest);

		if (is_parked(pool, index)) {
			if (victims->nr)
				order_unpick_late(&pool->order, index);
			else
				order_unpick(&pool->order, index);
			continue;
		}
		if (victims->nr++)
			WRITE_ONCE(entry_at(pool, oldest)->chain, index);
		else
			victims->newest = index;
		oldest = index;
	}
}

/* ---- a request is under way ---- */

void victim_left(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));

	kv_assert_held(&pool->lock);
	if (pool->owner[block] == OWNER_FREE)
		pool->owner[block] = make_owner(OWNER_LEFT, index);
	else if (unlikely(pool->nr_leaving))
		elastic_victim_left(pool, block, index);
}

/* A thread that takes a block in between writes itself as its owner. */
bool victim_return(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));

	kv_assert_held(&pool->lock);
	if (unlikely(pool->nr_leaving))
		elastic_victim_return(pool, block, index);
	if (pool->owner[block] != make_owner(OWNER_LEFT, index) ||
	    kv_zone_alloc_at(pool->zone, block, 1))
		return false;
	owner_fill_one(pool, block, make_owner(OWNER_ENTRY, index));
	return true;
}

void victims_free_blocks(struct kvmm_pool *pool, const struct victims *victims, u32 nr)
{
	kv_assert_held(&pool->lock);
	kv_assert(nr <= victims->nr);
	for (u32 at = victims->newest, i = 0; i < nr; i++, at = entry_at(pool, at)->chain) {
		block_free(pool, entry_block(entry_at(pool, at)));
		victim_left(pool, at);
	}
}

void victims_join(struct kvmm_pool *pool, struct victims *victims, const struct victims *more)
{
	u32 at = more->newest;

	kv_assert_held(&pool->lock);
	if (!more->nr)
		return;
	if (!victims->nr)
		victims->before = more->before;
	victims->stamp = more->stamp;
	for (u32 i = 1; i < more->nr; i++)
		at = entry_at(pool, at)->chain;
	WRITE_ONCE(entry_at(pool, at)->chain, victims->newest);
	victims->newest = more->newest;
	victims->nr += more->nr;
}

static u32 end_victims(struct kvmm_pool *pool, struct victims *victims, bool restore)
{
	bool lost = false;
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (restore)
		pool->order.mark = victims->before;
	while (victims->nr) {
		u32 index = victims_pop(pool, victims);

		/* Something may have been moved to its place, and on again; then it is gone. */
		if (restore && victim_return(pool, index)) {
			if (lost)
				order_unpick_late(&pool->order, index);
			else
				order_unpick(&pool->order, index);
			continue;
		}
		lost = true;	/* picks are not undone one by one any more */
		nr += entry_forget(pool, index);
		entry_free(pool, entry_handle(pool, index));
	}
	count_evictions(pool, nr);
	return nr;
}

u32 victims_end(struct kvmm_pool *pool, struct victims *victims, bool restore)
{
	u32 nr;

	kv_assert_held(&pool->lock);
	if (!victims->nr)
		return 0;
	order_enter(&pool->order);
	nr = end_victims(pool, victims, restore);
	order_leave(&pool->order);
	return nr;
}

int room_take_entries(struct kvmm_pool *pool, struct alloc_ctx *ctx, struct kv_handle *handles)
{
	u32 nr = pool->entries.nr_free;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (likely(!kv_entries_take(&pool->entries, ctx->nr, handles)))
		return 0;
	/* Those that are not in their last generation can be used again. */
	for_each_victim(pool, &ctx->victims, at, i)
		nr += entry_handle(pool, at).gen != pool->entries.gen_last;
	if (nr < ctx->nr)
		return -ENOSPC;
	ctx->evicted += end_victims(pool, &ctx->victims, false);
	return kv_entries_take(&pool->entries, ctx->nr, handles);
}

void victims_still_left(struct kvmm_pool *pool, const struct victims *victims)
{
	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, at, i)
		if (!kv_word_is_lent(READ_ONCE(entry_at(pool, at)->word)))
			victim_left(pool, at);
}
