// SPDX-License-Identifier: Apache-2.0
/*
 * Cached blocks under the pool's lock: where they come from and where they go.
 *
 *	(zone) -> PRIVATE -> STAGED -> REGISTERED -> EVICTING: PRIVATE again, or back to the zone
 *	             |          |                        ^
 *	             +----------+-> the zone, or PARKED -+
 *
 * Everything between PRIVATE and EVICTING happens without that lock; see match.c, ref.c, name.c.
 *
 * Policy and map know entries by index and never see a block id, so a block may be moved without
 * them. Victims are claimed before anything else is done: a block referenced meanwhile is none, and
 * if there are too few, those that were claimed are put back.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/pool.h>

#include "determ.h"
#include "local.h"

/* ---- set-up ---- */

/* A policy that hands free blocks out itself has them in its order: they are of no class. */
static int evict_init(struct kvmm_pool *pool, const struct kvmm_evict_attr *attr)
{
	struct kvmm_evict_attr known = { .size = sizeof(known) };
	u32 size;
	int err = attr ? kv_copy_attr(&known, sizeof(known), attr) : 0;

	if (err)
		return err;
	if (known.run_window)
		pool->window.nr = known.run_window == KVMM_RUN_WINDOW_NONE ? 0 : known.run_window;
	else
		pool->window.nr = pool->parts.evict->keeps_unnamed ? 0 : WINDOW_SORTS;
	/* Choosing victims by pageblock needs a window of several to choose from. */
	size = known.pageblock_blocks;
	if (size && (size < 2 || !kv_is_pow2(size) || pool->window.nr <= WINDOW_SORTS))
		return -EINVAL;
	pool->window.size = size;
	pool->pins.max = known.max_pins;
	err = classes_create(&known, pool->nr_blocks, &pool->order.classes);
	if (!err && pool->order.classes && pool->parts.evict->keeps_unnamed)
		err = -EINVAL;
	return err ? err : window_init(&pool->window, pool->nr_blocks);
}

static int cache_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *whole)
{
	const struct kvmm_evict_attr *evict = whole->evict;
	struct kv_entries_attr attr = { .nr = pool->nr_blocks };
	struct kv_map_attr map_attr = { &pool->entries, pool->nr_blocks, kv_random(),
					pool->prefix_closed };
	int err;

	account_init(&pool->order.rest, KVMM_TENANT_REST);
	if (!pool->parts.evict)
		return evict ? -EINVAL : 0;
	pool->tally = kv_alloc_lines(KV_TALLY_ROWS, sizeof(*pool->tally));
	if (!pool->tally)
		return -ENOMEM;
	if (unlikely(pool->deterministic))	/* else at random */
		attr.gen_first = 1 + pool_random(pool) % KV_ENTRY_GEN_MASK;
	err = kv_entries_init(&pool->entries, &attr);
	if (!err)
		err = pool->parts.map->create(&map_attr, &pool->map);
	if (!err && whole->flags & KVMM_POOL_LIFO) {
		pool->freed.block = kv_alloc_array(pool->nr_blocks, sizeof(*pool->freed.block));
		pool->metadata_bytes += pool->nr_blocks * sizeof(*pool->freed.block);
		err = pool->freed.block ? 0 : -ENOMEM;
	}
	if (!err)
		err = evict_init(pool, evict);
	if (!err)
		err = order_init(&pool->order, pool->parts.evict, pool->parts.evict_args,
				 &pool->entries, pool->lock.id);
	if (err)
		return err;
	pool->order.deterministic = pool->deterministic;
	pool->count.entry_gens = (u64)pool->entries.gen_first * pool->nr_blocks;
	pool->metadata_bytes += pool->map->ops->bytes(pool->map) +
				kv_entries_bytes(&pool->entries) +
				order_bytes(&pool->order) + window_bytes(&pool->window) +
				KV_TALLY_ROWS * sizeof(struct tally_row);
	pool->caches = true;
	return 0;
}

static void cache_exit(struct kvmm_pool *pool)
{
	order_exit(&pool->order);
	window_exit(&pool->window);
	kv_free(pool->freed.block);
	if (pool->map)
		pool->map->ops->destroy(pool->map);
	if (pool->entries.entry)
		kv_entries_exit(&pool->entries);
	kv_free(pool->tally);
}

int cache_enter(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	if (unlikely(!pool->caches))
		return -EOPNOTSUPP;
	return pool_enter(pool);
}

u64 tally_sum(const struct kvmm_pool *pool, enum tally what)
{
	u64 sum = 0;

	for (u32 i = 0; pool->tally && i < KV_TALLY_ROWS; i++)
		sum += READ_ONCE(pool->tally[i].nr[what]);
	return sum;
}

noinline int __cache_begin_slow(struct kvmm_pool *pool)
{
	int err;

	/* Pairs with pool_resume(), as in cache_begin(). */
	while ((smp_load_acquire(&pool->gate) & (GATE_STOPPED | GATE_FORKED)) == GATE_STOPPED) {
		kv_rcu_read_unlock();
		kv_lock(&pool->compact_lock);
		kv_unlock(&pool->compact_lock);
		kv_rcu_read_lock();
	}
	err = pool_refusal(pool);
	if (err)
		kv_rcu_read_unlock();
	return err;
}

/* ---- entries and their blocks ---- */

static void count_gen(struct kvmm_pool *pool, struct kv_handle old)
{
	kv_assert_held(&pool->lock);
	pool->count.entry_gens += (u64)entry_handle(pool, old.index).gen - old.gen;
}

static void entries_free(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		quota_uncharge_entry(pool->order.quotas, handles[i].index);
		class_ungiven(pool->order.classes, handles[i].index);
	}
	POOL_BUG_ON(pool, kv_entries_free(&pool->entries, handles, nr));
	for (u32 i = 0; i < nr; i++)
		count_gen(pool, handles[i]);
	pool->count.nr_held -= nr;
}

void entry_free(struct kvmm_pool *pool, struct kv_handle handle)
{
	entries_free(pool, &handle, 1);
}

static void entry_vacate(struct kvmm_pool *pool, struct kv_handle handle)
{
	u32 block = entry_block(entry_at(pool, handle.index));

	kv_assert_held(&pool->lock);
	kv_assert(handle.index < pool->entries.nr);
	entry_free(pool, handle);
	block_free(pool, block);
}

void entry_park(struct kvmm_pool *pool, struct kv_handle handle)
{
	struct kvmm_extent run = { entry_block(entry_at(pool, handle.index)), 1 };

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	/* What a device that does not answer has written there is not known. */
	if (unlikely(pool->blind) || elastic_is_leaving(pool, run)) {
		pool_tell(pool, reused, run.start);
		entry_vacate(pool, handle);
		return;
	}
	POOL_BUG_ON(pool, kv_handle_step(&pool->entries, handle, kv_edge_park));
	pool->count.nr_parked++;
	order_park(&pool->order, handle.index);
	release_post(pool, 1);
}

/* Its memory is about to be used for something else. */
static void unparked(struct kvmm_pool *pool, u32 index)
{
	kv_assert_held(&pool->lock);
	pool->count.nr_parked--;
	pool_tell(pool, reused, entry_block(entry_at(pool, index)));
}

/* A policy with keeps_unnamed orders free blocks, too: it gets the entry without a name. */
void entry_release(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	kv_assert(handle.index < pool->entries.nr);
	/* Weak references know a block that had a name: it is not to come back by their handle. */
	bool was_named = kv_word_is(READ_ONCE(entry_at(pool, handle.index)->word),
				    KV_ENTRY_EVICTING);

	if (!pool->parts.evict->keeps_unnamed ||
	    (was_named && handle.gen == pool->entries.gen_last)) {
		entry_vacate(pool, handle);
		return;
	}
	if (was_named) {
		struct kv_handle old = handle;

		POOL_BUG_ON(pool, kv_entry_recycle(&pool->entries, old, &handle));
		count_gen(pool, old);
	}
	entry_park(pool, handle);
}

/* ---- names are forgotten ---- */

#define FORGET_BATCH	64u

/* @nr of them, at most FORGET_BATCH. Room for as many elders that they held references on. */
static void forget_names(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr,
			 u32 *elders)
{
	u32 nr_removed = nr;

	kv_assert_held(&pool->lock);
	pool_tell(pool, removed, handles, nr);
	pool->count.nr_forgotten += nr;
	for (u32 i = 0; i < nr; i++) {
		const struct kv_entry *entry = entry_at(pool, handles[i].index);

		for (u32 name = kv_name_first(&pool->entries, handles[i].index); name;
		     name = entry_at(pool, name)->chain)
			pool_tell(pool, unnamed, name);
		elders[i] = entry_elder(entry);
		pool->count.names_forgotten += name_sum(entry);
	}
	POOL_BUG_ON(pool, pool->map->ops->remove(pool->map, handles, &nr_removed));
	for (u32 i = 0; i < nr && unlikely(pool->order.classes != NULL); i++)
		class_gone(pool->order.classes, handles[i].index);
}

/* Out of the map. Returns the elder that it held a reference on, or KV_NONE. */
static u32 forget_name(struct kvmm_pool *pool, u32 index)
{
	struct kv_handle handle = entry_handle(pool, index);
	u32 elder;

	kv_assert_held(&pool->order.lock);
	forget_names(pool, &handle, 1, &elder);
	return elder;
}

void names_forget(struct kvmm_pool *pool, u32 index)
{
	struct kv_entries *entries = &pool->entries;
	u32 name = kv_name_first(entries, index), next;

	kv_assert_held(&pool->lock);
	for (; name && !kv_name_is_out(entries, index); name = next) {
		next = entry_at(pool, name)->chain;
		if (kv_name_is_out(entries, name) ||
		    pool->map->ops->names->holders(pool->map, name))
			continue;
		pool_tell(pool, unnamed, name);
		pool->map->ops->names->unlink(pool->map, name);
		kv_name_put(entries, name);
	}
}

/*
 * A reference that duplicate @dup held on @elder. An elder kept by that only goes, too. Hits by
 * references that were dropped before are in the log by now, and come first.
 */
static void release_elder(struct kvmm_pool *pool, u32 elder, u32 dup)
{
	kv_assert_held(&pool->lock);
	while (elder != KV_NONE) {
		const struct kv_entry *entry = entry_at(pool, dup);
		struct kv_handle handle = kv_name_block(&pool->entries, elder);
		int ret;

		/* A caller that puts once too often drops the duplicate's reference. */
		if (!kv_entry_has_name(entry_at(pool, elder), entry->key, entry->domain))
			return;
		ret = kv_handle_step(&pool->entries, handle, kv_edge_put);
		if (unlikely(ret < 0))
			return;
		tally_add(pool, TALLY_REFS, -1);
		tally_add(pool, TALLY_ACTIVE, ret > 0 ? -1 : 0);
		if (ret == 1) {
			order_catch_up(&pool->order);
			order_apply(&pool->order, NOTE_PUT, handle);
		}
		if (ret != 2) {
			if (kv_name_is_added(&pool->entries, elder) &&
			    READ_ONCE(entry_at(pool, elder)->word) & KV_ENTRY_HIDDEN)
				names_forget(pool, handle.index);
			return;
		}
		dup = handle.index;
		order_forget(&pool->order, dup);
		elder = forget_name(pool, dup);
		entry_release(pool, handle);
	}
}

void entry_drop_elder(struct kvmm_pool *pool, u32 index)
{
	struct kv_entry *entry = entry_at(pool, index);
	u32 elder = entry_elder(entry);

	WRITE_ONCE(entry->link, KV_NONE);
	release_elder(pool, elder, index);
}

bool entry_forget(struct kvmm_pool *pool, u32 index)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	kv_assert(index < pool->entries.nr);
	order_history(&pool->order, HISTORY_EVICTED, index, 0);
	if (READ_ONCE(entry_at(pool, index)->word) & KV_ENTRY_MARK) {
		unparked(pool, index);
		return false;
	}
	release_elder(pool, forget_name(pool, index), index);
	return true;
}

void entry_unpublish(struct kvmm_pool *pool, struct kv_handle handle, kvmm_mut_t *mut)
{
	struct kv_handle fresh = handle;

	kv_assert_held(&pool->lock);
	kv_assert(handle.gen != pool->entries.gen_last);
	order_forget(&pool->order, handle.index);
	entry_forget(pool, handle.index);
	POOL_BUG_ON(pool, kv_entry_recycle(&pool->entries, handle, &fresh));
	count_gen(pool, handle);
	*mut = (kvmm_mut_t){ fresh.index, fresh.gen };
}

static void forget_batch(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	u32 elders[FORGET_BATCH];

	kv_assert_held(&pool->lock);
	forget_names(pool, handles, nr, elders);
	for (u32 i = 0; i < nr; i++)
		if (unlikely(elders[i] != KV_NONE))
			release_elder(pool, elders[i], handles[i].index);
}

/* entry_forget() of all of them, which stay claimed: one call of the map for many. */
static u32 victims_forget(struct kvmm_pool *pool, const struct victims *victims)
{
	struct kv_handle handles[FORGET_BATCH];
	u32 nr = 0, nr_names = 0;

	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, index, i) {
		order_history(&pool->order, HISTORY_EVICTED, index, 0);
		if (READ_ONCE(entry_at(pool, index)->word) & KV_ENTRY_MARK) {
			unparked(pool, index);
			continue;
		}
		handles[nr++] = entry_handle(pool, index);
		nr_names++;
		if (nr < FORGET_BATCH)
			continue;
		forget_batch(pool, handles, nr);
		nr = 0;
	}
	if (nr)
		forget_batch(pool, handles, nr);
	return nr_names;
}

void evict_gone_held(struct kvmm_pool *pool, u32 first)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 index = first, next; index != KV_NONE; index = next) {
		next = READ_ONCE(entry_at(pool, index)->chain);
		order_forget(&pool->order, index);
		entry_forget(pool, index);
		entry_release(pool, entry_handle(pool, index));
	}
}

int __evict_gone(struct kvmm_pool *pool, u32 first)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	order_enter(&pool->order);
	evict_gone_held(pool, first);
	order_leave(&pool->order);
	cache_leave(pool);
	return 0;
}

/* ---- victims ---- */

bool victims_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	kv_assert_held(&pool->order.lock);
	credits_recall(pool);	/* they decide which account gives up a block */
	if (!victims->nr)
		victims->before = pool->order.mark;
	if (unlikely(pool->window.nr > WINDOW_SORTS && nr > victims->nr + !pool->window.size))
		window_pick(pool, nr, victims);
	victims->stamp = pool->order.stamp;
	while (victims->nr < nr) {
		u32 picked[ORDER_PICKS];
		u32 nr_picked = order_pick(&pool->order, nr - victims->nr, picked);

		if (!nr_picked && order_is_spent(&pool->order))
			return false;
		for (u32 i = 0; i < nr_picked; i++)
			victims_add(pool, victims, picked[i]);
		victims->stamp = pool->order.stamp;
	}
	return true;
}

/* Entry by entry: the order has them among others, and is asked for its next ones only. */
bool victims_pick_parked(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	u32 want = victims->nr + nr;

	kv_assert_held(&pool->lock);
	if (pool_nr_parked(pool) < nr)
		return false;
	if (!victims->nr)
		victims->before = pool->order.mark;
	for (u32 i = 0; i < pool->nr_blocks && victims->nr < want; i++)
		if (kv_word_is(READ_ONCE(entry_at(pool, i)->word), KV_ENTRY_PARKED) &&
		    order_take(&pool->order, i))
			victims_add(pool, victims, i);
	victims->stamp = pool->order.stamp;
	return victims->nr == want;
}

u32 victims_evict(struct kvmm_pool *pool, struct victims *victims)
{
	u32 nr = victims_forget(pool, victims);

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	while (victims->nr) {
		struct kv_handle handles[FORGET_BATCH];
		u32 blocks[FORGET_BATCH], nr_batch;

		for (nr_batch = 0; nr_batch < FORGET_BATCH && victims->nr; nr_batch++) {
			u32 index = victims_pop(pool, victims);

			handles[nr_batch] = entry_handle(pool, index);
			blocks[nr_batch] = entry_block(entry_at(pool, index));
		}
		entries_free(pool, handles, nr_batch);
		blocks_free_single(pool, blocks, nr_batch);
	}
	count_evictions(pool, nr);
	return nr;
}

void victims_unpick(struct kvmm_pool *pool, struct victims *victims)
{
	kv_assert_held(&pool->order.lock);
	if (!victims->nr)	/* ->before may not be known */
		return;
	while (victims->nr)
		order_unpick(&pool->order, victims_pop(pool, victims));
	pool->order.mark = victims->before;
}

/* ---- taking private blocks ---- */

#define TAKE_BATCH	64u

/* Entries first: there may be fewer of them than blocks, once some are retired. */
static int take_free(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *blocks)
{
	u32 ids[TAKE_BATCH];

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (kv_entries_take(&pool->entries, nr, (struct kv_handle *)blocks))
		return -ENOSPC;
	while (nr) {
		u32 batch = min(nr, TAKE_BATCH), got = 0;

		if (unlikely(pool->freed.block != NULL))
			got = blocks_take_freed(pool, batch, ids);
		if (likely(got < batch) &&
		    POOL_BUG_ON(pool, kv_zone_alloc_many(pool->zone, batch - got, ids + got)))
			return -EUCLEAN;
		for (u32 i = 0; i < batch; i++)
			entry_own(pool, blocks++->index, ids[i]);
		nr -= batch;
	}
	return 0;
}

/* The same block under a fresh handle; another entry if this one has used up its generations. */
static int reuse_entry(struct kvmm_pool *pool, u32 index, kvmm_mut_t *mut)
{
	struct kv_handle old = entry_handle(pool, index), fresh;
	u32 block = entry_block(entry_at(pool, index));
	int err = kv_entry_recycle(&pool->entries, old, &fresh);

	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	quota_uncharge_entry(pool->order.quotas, index);
	if (likely(!err)) {
		quota_charge_entry(&pool->order, index);
	} else {
		pool->count.nr_held--;
		err = kv_entries_take(&pool->entries, 1, &fresh);
		if (err)
			block_free(pool, block);
		else
			entry_own(pool, fresh.index, block);
	}
	count_gen(pool, old);
	if (!err)
		*mut = (kvmm_mut_t){ fresh.index, fresh.gen };
	return err;
}

/* Keys of all victims that have one, oldest first. */
static void tell_keys(const struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	const struct victims *victims = &ctx->victims;
	u32 left = 0, max = ctx->nr + ctx->nr_hits;

	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, at, i)
		left += !(READ_ONCE(entry_at(pool, at)->word) & KV_ENTRY_MARK);
	for (u32 at = victims->newest; left; at = entry_at(pool, at)->chain) {
		const struct kv_entry *entry = entry_at(pool, at);

		if (!(READ_ONCE(entry->word) & KV_ENTRY_MARK) && --left < max)
			ctx->keys[left] = kv_entry_key(entry);
	}
}

/*
 * Victims are used again from the newest to the oldest, so that after an error the others can be
 * put back. If no error is possible, all names are forgotten beforehand, in batches.
 */
static int take_victims(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct victims *victims = &ctx->victims;
	bool forgotten = true;
	u32 nr = 0, at = 0;
	int err = 0;

	kv_assert_held(&pool->order.lock);
	kv_assert_held(&pool->lock);
	/* An entry in its last generation cannot be used again, and taking it fails. */
	for_each_victim(pool, victims, index, i)
		forgotten &= entry_handle(pool, index).gen != pool->entries.gen_last;
	if (likely(forgotten))
		nr = victims_forget(pool, victims);
	while (victims->nr && likely(!err)) {
		u32 index = victims_pop(pool, victims);

		if (unlikely(!forgotten))
			nr += entry_forget(pool, index);
		at = ctx->nr_free + victims->nr;
		err = reuse_entry(pool, index, &ctx->blocks[at]);
	}
	count_evictions(pool, nr);
	ctx->evicted += nr;
	return unlikely(err) ? (int)(at + 1) : 0;
}

static int pick_for(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr)
{
	bool parked = ctx->flags & KVMM_ALLOC_NO_EVICT;

	kv_assert_held(&pool->lock);
	if (parked && nr > pool_nr_parked(pool))
		return -ENOSPC;
	if (unlikely(pool->order.quotas != NULL))
		return quota_pick(pool, ctx, nr);
	if (likely(!parked) ? victims_pick(pool, nr, &ctx->victims) :
			      victims_pick_parked(pool, nr, &ctx->victims))
		return 0;
	victims_unpick(pool, &ctx->victims);
	return -ENOSPC;
}

/* Blocks that threads keep aside, for those that are missing; a few may stay while others go. */
static u32 drain_for(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr_missing)
{
	u32 nr;

	kv_assert_held(&pool->lock);
	if (!(ctx->flags & KVMM_ALLOC_NO_EVICT) && pool->spare && !pool->order.quotas &&
	    pool_nr_local(pool) <= pool->spare)
		return 0;
	nr = pool_drain_local(pool);
	step_count(&pool->door, KVMM_STEP_DRAIN, nr, nr >= nr_missing);
	return min(nr, nr_missing);
}

/*
 * Victims make up for what the request misses and for what has to stay free, @nr_refill. Its tenant
 * may have to give up more than that: then the request takes fewer blocks from the zone.
 */
int cache_take_begin(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u32 nr_missing = ctx->nr_missing, nr_refill, nr;
	int err = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	ctx->victims = NO_VICTIMS;
	if (nr_missing && !ctx->aside)
		nr_missing -= drain_for(pool, ctx, nr_missing);
	if (nr_missing || unlikely(pool->order.quotas != NULL))
		err = pick_for(pool, ctx, nr_missing);
	/* They are referenced again: nothing is refused for want of blocks that are aside. */
	while (unlikely(err == -ENOSPC) && nr_missing && !ctx->aside &&
	       (nr = pool_drain_local(pool))) {
		nr_missing -= min(nr_missing, nr);
		err = nr_missing ? pick_for(pool, ctx, nr_missing) : 0;
	}
	if (err)
		return err;
	nr_refill = nr_missing - min(nr_missing, ctx->nr);
	ctx->nr_free = ctx->nr - min(ctx->nr, ctx->victims.nr - nr_refill);
	pool_steal_shortfall(pool, ctx->nr_free);
	if (!take_free(pool, ctx->nr_free, ctx->blocks))
		return 0;
	victims_unpick(pool, &ctx->victims);
	return -ENOSPC;
}

/*
 * All victims of a request, told of and counted. Those that the tenant has to give up beyond it,
 * and those for what has to stay free, are evicted.
 */
static int use_victims(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct victims extra = NO_VICTIMS;
	u32 nr = ctx->nr - ctx->nr_free;
	int err;

	kv_assert_held(&pool->lock);
	kv_assert(ctx->victims.nr >= nr);
	if (ctx->keys)
		tell_keys(pool, ctx);
	step_count(&pool->door, KVMM_STEP_EVICT, ctx->victims.nr, true);
	while (unlikely(ctx->victims.nr > nr))
		victims_add(pool, &extra, victims_pop(pool, &ctx->victims));
	if (unlikely(extra.nr))
		ctx->evicted += victims_evict(pool, &extra);
	err = take_victims(pool, ctx);
	if (likely(!err))
		return 0;
	/* An entry could not be used again: blocks taken are freed, names stay gone. */
	for (u32 i = err; i < ctx->nr; i++)
		entry_release(pool, mut_handle(ctx->blocks[i]));
	for (u32 i = 0; i < ctx->nr_free; i++)
		entry_release(pool, mut_handle(ctx->blocks[i]));
	victims_unpick(pool, &ctx->victims);
	return -ENOSPC;
}

int cache_take_end(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = ctx->victims.nr ? use_victims(pool, ctx) : 0;

	kv_assert_held(&pool->lock);
	if (unlikely(err))
		return err;
	if (pool->window.nr && ctx->nr > 1)
		window_sort(pool, ctx->blocks, ctx->nr);
	for (u32 i = 0, now = pool_tick(pool); i < ctx->nr; i++)
		WRITE_ONCE(entry_at(pool, ctx->blocks[i].index)->vtime, now);
	pool->count.allocs += !ctx->aside;
	pool->count.alloc_blocks += ctx->aside ? 0 : ctx->nr;
	return 0;
}

void cache_untake_free(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < ctx->nr_free; i++) {
		u32 index = ctx->blocks[i].index;

		block_free(pool, entry_block(entry_at(pool, index)));
		quota_uncharge_entry(pool->order.quotas, index);
		pool->count.nr_held--;
	}
	kv_entries_untake(&pool->entries, ctx->nr_free, (struct kv_handle *)ctx->blocks);
}

int cache_take(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct quotas *quotas = pool->order.quotas;
	int err;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (!ctx->nr)
		return 0;
	err = cache_take_begin(pool, ctx);
	if (likely(!err))
		err = cache_take_end(pool, ctx);
	if (unlikely(quotas != NULL)) {
		if (!err)
			quota_took(quotas, pool->order.asking);
		quota_end(&pool->order);
	}
	return err;
}

void entries_unmark(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		kv_handle_step(&pool->entries, handles[i], kv_edge_unmark);
}

int entry_check(const struct kvmm_pool *pool, struct kv_handle handle, enum kv_entry_state state,
		bool held)
{
	u64 word;

	if (unlikely(handle.index >= pool->nr_blocks))
		return -EINVAL;
	word = smp_load_acquire(&entry_at(pool, handle.index)->word);
	if (unlikely(kv_word_gen(word) != handle.gen))
		return kv_handle_refuse(&pool->entries, kv_word_gen(word), handle.gen);
	if (unlikely(!kv_word_is(word, state)))
		return kv_word_refuse(word, state);
	if (likely(held))
		return likely(kv_word_refs(word)) ? 0 : -ESTALE;
	return state < KV_ENTRY_REGISTERED && !kv_word_is_owned(word) ? -ESTALE : 0;
}

POOL_PART(cache) = {
	.name	= "cache",
	.init	= cache_init,
	.exit	= cache_exit,
};
