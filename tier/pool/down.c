// SPDX-License-Identifier: Apache-2.0
/*
 * Down: from the queue to a copy below.
 *
 * A block is pinned while it is copied, so it is neither evicted nor moved; it keeps its place in
 * the order of eviction, unless a caller that wanted to evict it has met it meanwhile.
 */
#include <limits.h>
#include <move/step.h>

#include "tier.h"

/* ---- pins ---- */

/* Copies may be under way when types come into being, and are adopted as this one. */
static void count_type(struct kvmm_pool *pool, struct kv_handle handle, bool more)
{
	struct pin_types *types = pin_types_of(pool);

	if (likely(!types))
		return;
	if (more)
		pin_types_add(types, &handle, 1, KVMM_PIN_USER);
	else
		pin_types_del(types, &handle, 1, KVMM_PIN_USER);
}

/* The order is not told: a copy is no use. 0, or it is not there, or is being moved. */
static int pin(struct kvmm_pool *pool, struct kv_handle handle)
{
	u64 word = smp_load_acquire(&entry_at(pool, handle.index)->word);
	int ret;

	kv_assert_reading();
	/* Its name is being written; if that begins from here on, it waits for us. */
	if (unlikely(kv_word_is(word, KV_ENTRY_REGISTERED) && word & KV_ENTRY_MARK))
		return -EBUSY;
	ret = kv_handle_step(&pool->entries, handle, kv_edge_pin);
	if (ret < 0)
		return ret;
	count_type(pool, handle, true);
	pins_restore(&pool->pins, 1);
	tally_add(pool, TALLY_REFS, 1);
	tally_add(pool, TALLY_PINS, 1);
	tally_add(pool, TALLY_ACTIVE, ret);
	return 0;
}

/* It was the last reference. An entry in the order is where it was. */
static void let_go(struct kvmm_pool *pool, struct kv_handle handle, int ret, bool drop)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (ret == 1 && drop) {
		if (kv_handle_step(&pool->entries, handle, kv_edge_claim))
			return;
		order_forget(&pool->order, handle.index);
		count_evictions(pool, entry_forget(pool, handle.index));
		entry_release(pool, handle);
	} else if (ret == 1) {
		order_catch_up(&pool->order);
		if (!order_has(&pool->order, handle.index))
			order_apply(&pool->order, NOTE_PUT, handle);
	} else if (ret == 2) {
		order_forget(&pool->order, handle.index);
		entry_forget(pool, handle.index);
		entry_release(pool, handle);
	}
}

/* Under ->lock no thread stops the world, as in a read section. */
static void unpin(struct kvmm_pool *pool, struct kv_handle handle, bool drop)
{
	int ret;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	count_type(pool, handle, false);
	ret = kv_handle_step(&pool->entries, handle, kv_edge_unpin);
	if (unlikely(ret < 0))	/* a caller has dropped a reference it did not own */
		return;
	pins_give_back(&pool->pins, 1);
	tally_add(pool, TALLY_REFS, -1);
	tally_add(pool, TALLY_PINS, -1);
	tally_add(pool, TALLY_ACTIVE, ret > 0 ? -1 : 0);
	let_go(pool, handle, ret, drop);
}

/* ---- beginning ---- */

/* Each gets a copy: the block's next added name after @name, or 0. A guess, without a lock. */
static u32 next_name(const struct kvmm_pool *pool, struct kv_handle handle, u32 name)
{
	u32 next = name ? READ_ONCE(entry_at(pool, name)->chain) :
			  kv_name_first(&pool->entries, handle.index);
	struct kv_handle block;

	if (likely(!next) || !kv_word_is(READ_ONCE(entry_at(pool, next)->word), KV_ENTRY_NAME))
		return 0;
	block = kv_name_block(&pool->entries, next);
	return block.index == handle.index && block.gen == handle.gen ? next : 0;
}

/* The added @name, or if that is 0, or the block has it no more, the first one. */
static struct kv_tier_name name_of(const struct kvmm_pool *pool, const struct lower *lower,
				   struct kv_handle handle, u32 name)
{
	const struct kv_entry *entry = entry_at(pool, name ? name : handle.index);
	struct kv_handle block = kv_name_block(&pool->entries, name ? name : handle.index);
	const struct pool_presence *presence = &pool->presence;
	u64 word = smp_load_acquire(&entry->word);
	struct kv_tier_name known = { .key = kv_entry_key(entry), .domain = kv_entry_domain(entry),
				      .layout = lower->layout,
				      .position = READ_ONCE(entry->position) };

	kv_assert(handle.index < pool->entries.nr);
	if (unlikely(name)) {
		if (kv_word_is(word, KV_ENTRY_NAME) && block.index == handle.index &&
		    block.gen == handle.gen && kv_is_still(&entry->word, word, ~0ull))
			return known;
		return name_of(pool, lower, handle, 0);
	}
	if (presence->reg && READ_ONCE(presence->mark[handle.index]) & PRESENCE_PARENT) {
		known.has_parent = true;
		known.parent = presence->parent[handle.index];
	}
	return known;
}

/* Pinned, or not to be copied. */
static bool board(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	struct kv_handle handle;
	struct below *below = below_pop(lower, &handle);
	u32 index;
	int err;

	kv_assert_held(&lower->lock);
	kv_assert_reading();
	if (!below)
		return false;
	err = pin(pool, handle);
	if (err) {
		err = err == -EBUSY || err == -EOVERFLOW ? -EBUSY : -ESTALE;
		below->state = BELOW_NONE;
		wants_end(lower, &below->wants, err);
		return true;
	}
	index = item_take(lower, false);
	lower->item[index].state = ITEM_BATCH;
	lower->item[index].entry = handle;
	lower->item[index].name = name_of(pool, lower, handle, below->name);
	batch->item[batch->nr] = index;
	batch->block[batch->nr++] = entry_block(entry_at(pool, handle.index));
	return true;
}

static struct batch *fill(struct kvmm_pool *pool, struct lower *lower, u32 *budget)
{
	struct batch *batch = NULL;
	u32 limit;

	if (cache_begin(pool))
		return NULL;
	kv_lock(&lower->lock);
	limit = min(min(lower->batch_blocks, lower->max_down - lower->nr_used[false]), *budget);
	if (limit && lower->nr_heap)
		batch = batch_get(lower, false);
	while (batch && batch->nr < limit && board(pool, lower, batch))
		;
	if (batch && !batch->nr) {
		batch->state = BATCH_FREE;
		batch = NULL;
	}
	kv_unlock(&lower->lock);
	cache_end(pool);
	*budget -= batch ? batch->nr : 0;
	return batch;
}

/* By place in the device, so that neighbours there are neighbours below. Few: by insertion. */
static void sort_by_block(struct batch *batch)
{
	for (u32 i = 1; i < batch->nr; i++) {
		u32 block = batch->block[i], item = batch->item[i], k;

		for (k = i; k && batch->block[k - 1] > block; k--) {
			batch->block[k] = batch->block[k - 1];
			batch->item[k] = batch->item[k - 1];
		}
		batch->block[k] = block;
		batch->item[k] = item;
	}
}

/* Those for which there is a slot come first, in order; ->error says why the others have none. */
static void reserve_slots(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	kv_assert(batch->state == BATCH_FILLING);
	batch->nr_copy = 0;
	for (u32 i = 0; i < batch->nr; i++) {
		struct item *item = &lower->item[batch->item[i]];
		u32 to = batch->nr_copy, index = batch->item[i], block = batch->block[i];
		const u64 *word = &entry_at(pool, item->entry.index)->word;

		batch->error[i] = kv_tier_reserve(lower->client, &item->name, &item->slot);
		/* A name forgotten on the device, then below, meets the slot, or is hidden. */
		if (!batch->error[i] && smp_load_acquire(word) & KV_ENTRY_HIDDEN) {
			kv_tier_cancel(lower->client, item->slot);
			batch->error[i] = -ESTALE;
		}
		if (batch->error[i])
			continue;
		batch->item[i] = batch->item[to];
		batch->block[i] = batch->block[to];
		batch->error[i] = batch->error[to];
		batch->item[to] = index;
		batch->block[to] = block;
		batch->slot[to] = item->slot;
		batch->error[to] = 0;
		batch->nr_copy++;
	}
}

/* What is below has another name than it has now. */
void lower_renamed(struct kvmm_pool *pool, struct kv_handle handle)
{
	struct lower *lower;

	kv_rcu_read_lock();
	lower = lower_of(pool);
	if (lower) {
		struct below *below;

		kv_lock(&lower->lock);
		below = below_of(lower, handle);
		below->renamed = below->state == BELOW_FLYING;
		if (below->state == BELOW_CLEAN)
			below->state = BELOW_NONE;
		kv_unlock(&lower->lock);
	}
	kv_rcu_read_unlock();
}

/* ---- ending ---- */

/* ->error[i]: 0, -EEXIST, or why there is no copy; out: is the block to be dropped? */
static void settle(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, u32 i)
{
	struct item *item = &lower->item[batch->item[i]];
	struct below *below = &lower->below[item->entry.index];
	u8 drop = below->drop;
	s32 error = batch->error[i];
	u32 next;

	kv_assert_held(&lower->lock);
	kv_assert(i < batch->nr);
	lower->stat.present += error == -EEXIST;
	batch->error[i] = 0;
	if (unlikely(below->renamed)) {
		below->state = BELOW_NONE;
		below->renamed = false;
		error = error == -EEXIST ? 0 : error;
		/* Operations that wait, wait for the next one. */
		if (below->again) {
			below->again = false;
			below_queue(lower, item->entry, 0)->drop = drop;
			return;
		}
	} else if (error == -EEXIST || !error) {
		if (!below->name)
			below->copy = item->slot;
		next = next_name(pool, item->entry, below->name);
		below->state = BELOW_CLEAN;
		if (unlikely(next)) {
			below_queue(lower, item->entry, 0)->drop = drop;
			below->name = next;
			return;
		}
		batch->error[i] = below->drop;
		if (below->drop)
			thrash_dropped(lower, &item->name.key, item->name.domain);
		error = 0;
	} else {
		below->state = BELOW_NONE;
	}
	wants_end(lower, &below->wants, error);
}

/*
 * While they are pinned, their entries are of the same generation. Those with ->error > 0 then are
 * dropped from the device.
 */
static void leave(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	kv_lock(&lower->lock);
	for (u32 i = 0; i < batch->nr; i++)
		settle(pool, lower, batch, i);
	kv_unlock(&lower->lock);
	if (!pool_enter(pool)) {
		order_enter(&pool->order);
		for (u32 i = 0; i < batch->nr; i++)
			unpin(pool, lower->item[batch->item[i]].entry, batch->error[i] > 0);
		order_leave(&pool->order);
		cache_leave(pool);
		release_put(pool, batch->nr);
	}
	kv_lock(&lower->lock);
	for (u32 i = 0; i < batch->nr; i++)
		item_free(lower, batch->item[i]);
	kv_unlock(&lower->lock);
}

static void cancel_copies(struct lower *lower, struct batch *batch, int error)
{
	kv_assert(!batch->is_up);
	for (u32 i = 0; i < batch->nr_copy; i++) {
		kv_tier_cancel(lower->client, lower->item[batch->item[i]].slot);
		batch->error[i] = error;
	}
	kv_lock(&lower->lock);
	lower->stat.failed += batch->nr_copy;
	kv_unlock(&lower->lock);
}

void down_end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error)
{
	told_flush(pool, lower);
	/* Of the device's blocks: nothing has written these since. */
	if (!error)
		error = batch_sums(pool, lower, batch);
	if (!error)
		error = told_reserve(pool, lower, batch->nr_copy);
	if (error)
		cancel_copies(lower, batch, error);
	/* Readable from now on; it is told first, so that an evictor of it is told later. */
	for (u32 i = 0; i < batch->nr_copy && !error; i++) {
		struct item *item = &lower->item[batch->item[i]];

		told_present(pool, lower, &item->name);
		kv_tier_commit(lower->client, item->slot, item->has_sum ? &batch->sum[i] : NULL);
	}
	if (!error) {
		kv_lock(&lower->lock);
		kv_probe3(offload, lower->client, batch->nr_copy, lower->block_bytes);
		lower->stat.offloads += batch->nr_copy;
		lower->stat.offload_bytes += batch->nr_copy * lower->block_bytes;
		kv_unlock(&lower->lock);
	}
	leave(pool, lower, batch);
}

/* ---- all of it ---- */

/* Items that need no copy are done; so are those that get none. */
static void start(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	u32 every;
	int err = 0;

	sort_by_block(batch);
	reserve_slots(pool, lower, batch);
	kv_assert(batch->nr_copy <= batch->nr);
	/* Of one in so many there is a checksum to be kept, always of the same ones. */
	every = pool->nr_planes ? READ_ONCE(lower->config.verify_every) : 0;
	for (u32 i = 0; i < batch->nr_copy; i++) {
		struct item *item = &lower->item[batch->item[i]];

		item->has_sum = every && !(kv_hash_key(&item->name.key, lower->secret) % every);
	}
	if (batch->nr_copy) {
		err = batch_submit(pool, lower, batch);
		if (!err)	/* another thread may have ended it by now: not ours */
			return;
	}
	if (err)
		cancel_copies(lower, batch, err);
	leave(pool, lower, batch);
	batch_put(lower, batch);
}

void down_begin(struct kvmm_pool *pool, struct lower *lower)
{
	const struct kvmm_tier_config *config = &lower->config;
	struct batch *batch;
	u32 budget;

	kv_assert_not_held(&lower->lock);
	if (!READ_ONCE(lower->nr_heap) || !lower_is_ordered(pool, lower))
		return;
	kv_lock(&lower->lock);
	budget = config->step_blocks ? config->step_blocks : UINT32_MAX;
	if (config->step_bytes)
		budget = min((u64)budget,
			     max(config->step_bytes / max(lower->block_bytes, 1ull), 1ull));
	kv_unlock(&lower->lock);
	while ((batch = fill(pool, lower, &budget)))
		start(pool, lower, batch);
}

/* ---- by request ---- */

/* Its copy is there, or it is queued, or on its way. */
static void queue_one(struct kvmm_pool *pool, struct lower *lower,
		      const struct kvmm_tier_offload_args *req, u32 i, struct tier_op *op)
{
	struct kv_handle handle = as_handles(req->refs)[i];
	struct below *below;
	u64 word;

	kv_assert_held(&lower->lock);
	kv_assert_reading();
	word = smp_load_acquire(&entry_at(pool, handle.index)->word);
	if (kv_word_gen(word) != handle.gen || !kv_word_is(word, KV_ENTRY_REGISTERED)) {
		if (op)
			op->block_error[i] = -ESTALE;
		if (op && !op->nr_failed++)
			op->error = -ESTALE;
		return;
	}
	below = below_of(lower, handle);
	if (below->state == BELOW_CLEAN && kv_tier_has(lower->client, below->copy) &&
	    !(req->flags & KVMM_TIER_DROP)) {
		lower->stat.present++;
		return;
	}
	if (below->state != BELOW_FLYING)
		below = below_queue(lower, handle, req->priority);
	else
		below->again = below->renamed;
	below->drop |= !!(req->flags & KVMM_TIER_DROP);
	if (op)
		op_hang(op, i, &below->wants);
}

static int queue_all(struct kvmm_pool *pool, struct lower *lower,
		     const struct kvmm_tier_offload_args *req, struct tier_op *op,
		     kvmm_tier_op_t *handle)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	kv_lock(&lower->lock);
	if (op)
		err = op_publish(lower, op, handle);
	for (u32 i = 0; i < req->nr && !err; i++)
		queue_one(pool, lower, req, i, op);
	if (op && !err)
		op_open(lower, op);
	kv_unlock(&lower->lock);
	cache_end(pool);
	return err;
}

int kvmm_tier_offload(struct kvmm_pool *pool, const struct kvmm_tier_offload_args *offload,
		      kvmm_tier_op_t *handle)
{
	struct kvmm_tier_offload_args req;
	struct tier_op *op = NULL;
	struct lower *lower;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (!offload || kv_copy_attr(&req, sizeof(req), offload))
		return -EINVAL;
	if ((req.nr && !req.refs) || req.flags & ~KVMM_TIER_DROP || req.nr > INT_MAX ||
	    req.reserved || req.priority >= KVMM_TIER_PRIORITIES || !lower_is_ordered(pool, lower))
		return -EINVAL;
	for (u32 i = 0; i < req.nr; i++)
		if (req.refs[i].index >= pool->nr_blocks || !req.refs[i].gen)
			return -EINVAL;
	steps_settle(pool);
	if (handle) {
		op = op_make(req.nr, false);
		if (!op)
			return -ENOMEM;
	}
	err = queue_all(pool, lower, &req, op, handle);
	if (err)
		op_free(op);
	return err;
}
