// SPDX-License-Identifier: Apache-2.0
/*
 * References on cached blocks, by handle: taken, dropped, upgraded, and pins. No lock is taken but
 * for blocks that go with their last reference.
 *
 * Batches are all or nothing: steps that cannot be undone are checked before, the others undone.
 */
#include <limits.h>

#include <kv/env.h>
#include <pool/local.h>

#include "cache.h"

#define PUT_BATCH	128u

/* ---- to be told to other parts ---- */

/* By their holders. */
static void note_hits(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr)
{
	kv_assert_reading();
	if (nr && pool->parts.evict->hit)
		order_note(&pool->order, NOTE_HIT, refs, nr);
}

void note_refs(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 nr_first)
{
	kv_assert_reading();
	tally_add(pool, TALLY_REFS, nr);
	tally_add(pool, TALLY_ACTIVE, nr_first);
	if (nr && (nr_first || pool->parts.evict->hit))
		order_note(&pool->order, NOTE_HIT, refs, nr);
}

void note_found(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 nr_first)
{
	struct kv_handle found[PUT_BATCH];
	u32 nr_found = 0;

	kv_assert_reading();
	for (u32 i = 0; i < nr; i++) {
		if (refs[i].gen)
			found[nr_found++] = refs[i];
		if (nr_found < PUT_BATCH && i + 1 < nr)
			continue;
		note_refs(pool, found, nr_found, nr_first);
		nr_found = nr_first = 0;
	}
}

static int refuse(int err)
{
	kv_count(KV_EV_BAD_HANDLE);
	return err;
}

/* ---- dropping ---- */

/* Blocks that were held until now are used for the last time now. */
static void stamp(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	u32 now = nr ? pool_tick(pool) : 0;

	kv_assert_reading();
	for (u32 i = 0; i < nr; i++)
		WRITE_ONCE(entry_at(pool, handles[i].index)->vtime, now);
}

/* Blocks that are EVICTING with their last reference, in the order of dropping, through ->chain. */
struct gone {
	u32 first;
	u32 newest;
};

#define NOTHING_GONE	((struct gone){ KV_NONE, KV_NONE })

static void gone_add(struct kvmm_pool *pool, struct gone *gone, const struct kv_put *put)
{
	kv_assert_reading();
	for (u32 i = 1; i <= put->nr_gone; i++) {
		u32 index = put->last[put->nr - i].index;

		WRITE_ONCE(entry_at(pool, index)->chain, KV_NONE);
		if (gone->newest == KV_NONE)
			gone->first = index;
		else
			WRITE_ONCE(entry_at(pool, gone->newest)->chain, index);
		gone->newest = index;
	}
}

/* The types of pins are undone before them, and are there again if the pins could not be undone. */
static int put_pins(struct kvmm_pool *pool, struct kv_put *put, u32 type)
{
	struct pin_types *types = pin_types_of(pool);
	int err = kv_entries_check_put(&pool->entries, put);

	kv_assert_reading();
	if (err)
		return err;
	if (!pin_types_del(types, put->refs, put->nr, type))
		return -EINVAL;
	err = kv_entries_put(&pool->entries, put);
	if (err)
		pin_types_add(types, put->refs, put->nr, type);
	return err;
}

/* At most PUT_BATCH. */
static int put_batch(struct kvmm_pool *pool, struct kv_put *put, u32 type, struct gone *gone)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	if (unlikely(put->unpin && pin_types_of(pool)))
		err = put_pins(pool, put, type);
	else if (likely(!put->unpin || type == KVMM_PIN_USER))
		err = kv_entries_put(&pool->entries, put);
	else
		err = -EINVAL;
	/* Those dropped, or, on an error, that could not be taken again. */
	tally_add(pool, TALLY_REFS, -(u64)put->nr_dropped);
	tally_add(pool, TALLY_PINS, put->unpin ? -(u64)put->nr_dropped : 0);
	pins_give_back(&pool->pins, put->unpin ? put->nr_dropped : 0);
	tally_add(pool, TALLY_ACTIVE, (u64)put->nr_first - put->nr_last - put->nr_gone);
	if (likely(!err)) {
		stamp(pool, put->last, put->nr_last);
		if (put->nr_last)
			order_note(&pool->order, NOTE_PUT, put->last, put->nr_last);
		gone_add(pool, gone, put);
	}
	cache_end(pool);
	return likely(!err) ? 0 : refuse(err);
}

/* As many as could be: with their types, one by one, where there are any. */
static u32 take_again(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, bool unpin,
		      u32 type, u32 *nr_first)
{
	struct pin_types *types = pin_types_of(pool);
	u32 nr_taken = 0;

	kv_assert_reading();
	if (likely(!unpin || !types))
		return kv_entries_take_again(&pool->entries, refs, nr, unpin, nr_first);
	for (u32 i = 0; i < nr; i++) {
		if (!kv_entries_take_again(&pool->entries, &refs[i], 1, unpin, nr_first))
			continue;
		pin_types_add(types, &refs[i], 1, type);
		nr_taken++;
	}
	return nr_taken;
}

/*
 * Earlier batches of a call that is refused after all. No thread has evicted them yet, but for
 * callers that came in between.
 */
static void take_back(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, bool unpin,
		      u32 type, const struct gone *gone)
{
	u32 nr_first = 0, nr_taken;

	if (!nr || cache_begin(pool))
		return;
	for (u32 index = gone->first, next; index != KV_NONE; index = next) {
		next = READ_ONCE(entry_at(pool, index)->chain);
		kv_handle_step(&pool->entries, entry_handle(pool, index), kv_edge_undrop);
	}
	nr_taken = take_again(pool, refs, nr, unpin, type, &nr_first);
	tally_add(pool, TALLY_REFS, nr_taken);
	tally_add(pool, TALLY_PINS, unpin ? nr_taken : 0);
	pins_restore(&pool->pins, unpin ? nr_taken : 0);
	tally_add(pool, TALLY_ACTIVE, nr_first);
	order_note(&pool->order, NOTE_HELD, refs, nr);
	cache_end(pool);
}

/* All of @all, or none; those that are EVICTING now are in @gone. */
static int drop_all(struct kvmm_pool *pool, const struct kv_put *all, u32 type, struct gone *gone)
{
	u32 nr = all->nr, left = nr;
	int err = 0;

	if ((nr > PUT_BATCH && !all->is_checked) || !nr) {
		err = cache_begin(pool);
		if (err)
			return err;
		err = kv_entries_check_put(&pool->entries, all);
		cache_end(pool);
		if (unlikely(err))
			return refuse(err);
	}
	while (left && !err) {
		struct kv_handle last[PUT_BATCH];
		u32 batch = min(left, PUT_BATCH);
		struct kv_put put = { .refs = all->refs + left - batch, .nr = batch,
				      .unpin = all->unpin, .is_checked = all->is_checked,
				      .last = last };

		err = put_batch(pool, &put, type, gone);
		left -= err ? 0 : batch;
	}
	if (likely(!err))
		return 0;
	take_back(pool, all->refs + left, nr - left, all->unpin, type, gone);
	return left < nr && err == -ESTALE ? -EINVAL : err;
}

static int drop_many(struct kvmm_pool *pool, const void *refs, u32 nr, bool unpin, u32 type)
{
	struct kv_put all = { .refs = refs, .nr = nr, .unpin = unpin };
	struct gone gone = NOTHING_GONE;
	int err;

	if (!refs && nr)
		return -EINVAL;
	err = drop_all(pool, &all, type, &gone);
	if (unlikely(err))
		return err;
	release_put(pool, nr);
	return evict_gone(pool, gone.first);
}

int drop_checked(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 *first)
{
	struct kv_put all = { .refs = refs, .nr = nr, .is_checked = true };
	struct gone gone = NOTHING_GONE;
	int err = drop_all(pool, &all, 0, &gone);

	*first = gone.first;
	return err;
}

int kvmm_put_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return drop_many(pool, refs, nr, false, 0);
}

/* ---- taking, and pins ---- */

/* A reference more each, and a pin if @pin has its type; or nothing is done. */
static int ref_many(struct kvmm_pool *pool, const void *refs, u32 nr, const u32 *pin)
{
	const struct kv_handle *handles = refs;
	struct pin_types *types;
	u32 nr_done = 0;
	int err;

	if (!refs && nr)
		return -EINVAL;
	err = cache_begin(pool);
	if (err)
		return err;
	err = pin ? pins_reserve(&pool->pins, nr) : 0;
	if (unlikely(err)) {
		cache_end(pool);
		return err;
	}
	while (nr_done < nr) {
		err = pin ? kv_handle_step(&pool->entries, handles[nr_done], kv_edge_pin_held) :
			    kv_handle_step(&pool->entries, handles[nr_done], kv_edge_get);
		if (unlikely(err < 0))
			break;
		nr_done++;
	}
	pins_give_back(&pool->pins, pin ? nr - nr_done : 0);
	tally_add(pool, TALLY_REFS, nr_done);
	tally_add(pool, TALLY_PINS, pin ? nr_done : 0);
	/* In the read section in which the pins were made. */
	types = pin_types_of(pool);
	if (unlikely(pin && types && nr_done))
		pin_types_add(types, handles, nr_done, *pin);
	if (likely(!err))
		note_hits(pool, handles, nr_done);
	cache_end(pool);
	if (likely(!err))
		return 0;
	if (nr_done)
		drop_many(pool, refs, nr_done, pin != NULL, pin ? *pin : 0);
	return refuse(err);
}

int kvmm_get_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return ref_many(pool, refs, nr, NULL);
}

int kvmm_refs_set_pin(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint32_t type,
		      int on)
{
	int err;

	if (!pool || type >= KVMM_NR_PIN_TYPES)
		return -EINVAL;
	if (!on)
		return drop_many(pool, refs, nr, true, type);
	if (unlikely(!pool->caches))
		return -EOPNOTSUPP;
	err = pin_types_need(pool, type);
	return err ? err : ref_many(pool, refs, nr, &type);
}

/* ---- weak references ---- */

int kvmm_upgrade_many(struct kvmm_pool *pool, const kvmm_weak_t *weak, uint32_t nr,
		      kvmm_ref_t *refs)
{
	const struct kv_handle *handles = as_handles(weak);
	struct kv_handle *found = (struct kv_handle *)refs;
	u32 nr_found = 0, nr_first = 0;
	int err;

	if ((nr && (!weak || !refs)) || nr > INT_MAX)
		return -EINVAL;
	err = cache_begin(pool);
	if (err)
		return err;
	for (u32 i = 0; i < nr; i++) {
		struct kv_handle handle = handles[i];
		int ret = kv_handle_step(&pool->entries, handle, kv_edge_try_get);

		if (unlikely(ret == -EOVERFLOW))
			kv_entries_note_full(&pool->entries);
		found[i] = ret < 0 ? (struct kv_handle){ 0 } : handle;
		nr_found += ret >= 0;
		nr_first += ret == 1;
	}
	note_found(pool, found, nr, nr_first);
	cache_end(pool);
	return nr_found;
}

/* ---- marks of referenced blocks ---- */

/* A read section, in which all of @handles are held; or an error. */
static int begin_held(struct kvmm_pool *pool, const void *handles, u32 nr,
		      enum kv_entry_state state)
{
	int err;

	if (!handles && nr)
		return -EINVAL;
	err = cache_begin(pool);
	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++)
		err = entry_check(pool, as_handles(handles)[i], state, true);
	if (likely(!err))
		return 0;
	cache_end(pool);
	return refuse(err);
}

int kvmm_touch_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	int err = begin_held(pool, refs, nr, KV_ENTRY_REGISTERED);

	if (err)
		return err;
	stamp(pool, as_handles(refs), nr);
	note_hits(pool, as_handles(refs), nr);
	/*
	 * A touch takes no reference: if a caller drops the last one meanwhile, against the rules,
	 * its put may have been noted before our hit, and the order would lose the block.
	 */
	for (u32 i = 0; i < nr && pool->parts.evict->hit; i++)
		if (unlikely(entry_check(pool, as_handles(refs)[i], KV_ENTRY_REGISTERED, true)))
			order_note(&pool->order, NOTE_PUT, &as_handles(refs)[i], 1);
	cache_end(pool);
	pool_tell(pool, touched, as_handles(refs), nr);
	return 0;
}

int kvmm_touch_weak(struct kvmm_pool *pool, const kvmm_weak_t *weak, uint32_t nr)
{
	struct kv_handle there[PUT_BATCH];
	u32 nr_there = 0, nr_found = 0;
	int err;

	if ((nr && !weak) || nr > INT_MAX)
		return -EINVAL;
	err = cache_begin(pool);
	if (err)
		return err;
	/* Batches are as a put has them: the last blocks first, and each in its order. */
	for (u32 left = nr; left; left -= min(left, PUT_BATCH)) {
		nr_there = 0;
		for (u32 i = left - min(left, PUT_BATCH); i < left; i++)
			if (!entry_check(pool, as_handles(weak)[i], KV_ENTRY_REGISTERED, false))
				there[nr_there++] = as_handles(weak)[i];
		stamp(pool, there, nr_there);
		order_touch(&pool->order, there, nr_there);
		nr_found += nr_there;
	}
	cache_end(pool);
	return nr_found;
}

int kvmm_set_reset(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, int on)
{
	int err = begin_held(pool, refs, nr, KV_ENTRY_REGISTERED);

	if (err)
		return err;
	for (u32 i = 0; i < nr; i++) {
		struct kv_handle handle = as_handles(refs)[i];
		bool stays = !on && !entry_holds_elder(entry_at(pool, handle.index));

		kv_handle_step(&pool->entries, handle,
			       stays ? kv_edge_clear_reset : kv_edge_set_reset);
	}
	cache_end(pool);
	return 0;
}

static int blocks_of(struct kvmm_pool *pool, const void *handles, u32 nr,
		     enum kv_entry_state state, uint32_t *blocks)
{
	int err;

	if (nr && !blocks)
		return -EINVAL;
	err = begin_held(pool, handles, nr, state);
	if (err)
		return err;
	err = lost_check(pool, as_handles(handles), nr);
	for (u32 i = 0; i < nr && likely(!err); i++)
		blocks[i] = entry_block_told(entry_at(pool, as_handles(handles)[i].index));
	cache_end(pool);
	return err;
}

int kvmm_blocks_of_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			uint32_t *blocks)
{
	return blocks_of(pool, refs, nr, KV_ENTRY_REGISTERED, blocks);
}

int kvmm_blocks_of_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, uint32_t nr,
			uint32_t *blocks)
{
	return blocks_of(pool, muts, nr, KV_ENTRY_PRIVATE, blocks);
}
