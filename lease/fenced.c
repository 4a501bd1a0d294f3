// SPDX-License-Identifier: Apache-2.0
/*
 * Content by handle: a late writer is refused, and never hits the block's new owner.
 *
 * In this order: compact_lock, so that nothing moves; then the generation is looked at in the very
 * step that keeps the block from being given to another owner; then the copy; then that ends. A
 * range is kept by a reference and a pin (its owner's last put is not the last one, and one put too
 * many is refused), a private block by a writer's mark in its word (neither freed nor staged), and
 * a registered one by a reference.
 */
#include <cache/cache.h>
#include <cache/content.h>
#include <kv/sys.h>
#include <kvmm/ext/lease.h>
#include <pool/internal.h>
#include <lease/lease.h>

/* ---- ranges ---- */

static u32 block_at(struct slot *slot, u32 at)
{
	for (u32 i = 0; i < slot->nr_ext; at -= slot_ext(slot, i++)->nr)
		if (at < slot_ext(slot, i)->nr)
			return slot_ext(slot, i)->start + at;
	return KV_NONE;
}

static int keep_range(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block)
{
	struct slot *slot;
	int err = range_enter(pool, (kvmm_range_t){ where->index, where->gen }, &slot);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	*block = block_at(slot, where->at);
	if (*block == KV_NONE)
		err = -EINVAL;
	else if (slot->lost)
		err = -EIO;
	else if (slot->pins == UINT32_MAX || slot->refs == UINT32_MAX)
		err = -EOVERFLOW;
	else
		slot_hold(pool, slot);
	pool_leave(pool);
	return err;
}

/* No other caller can have dropped ours: the last reference was pinned. */
static void let_range_go(struct kvmm_pool *pool, const struct kvmm_content *where)
{
	struct slot *slot;

	kv_assert_held(&pool->compact_lock);
	if (range_enter(pool, (kvmm_range_t){ where->index, where->gen }, &slot))
		return;
	slot_unpin_own(pool, slot);
	if (!last_put_is_barred(slot))
		put_slot(pool, slot, where->index);
	pool_leave(pool);
}

/* ---- private blocks ---- */

static int keep_mut(struct kvmm_pool *pool, const struct kvmm_content *where, kv_edge edge,
		    u32 *block)
{
	struct kv_handle handle = { where->index, where->gen };
	int err = pool->caches ? own_share_blocks(pool) : -EOPNOTSUPP;

	kv_assert_held(&pool->compact_lock);
	if (!err)
		err = cache_begin(pool);
	if (err)
		return err;
	err = lost_check(pool, &handle, 1);
	if (!err)
		err = kv_handle_step(&pool->entries, handle, edge);
	cache_end(pool);
	if (err)
		kv_count(KV_EV_BAD_HANDLE);
	else
		*block = entry_block(entry_at(pool, where->index));
	return err;
}

static int keep_to_read(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block)
{
	return keep_mut(pool, where, kv_edge_read, block);
}

static int keep_to_write(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block)
{
	return keep_mut(pool, where, kv_edge_write, block);
}

static void let_mut_go(struct kvmm_pool *pool, const struct kvmm_content *where)
{
	kv_assert_held(&pool->compact_lock);
	kv_handle_step(&pool->entries, (struct kv_handle){ where->index, where->gen },
		       kv_edge_written);
}

/* ---- registered blocks, and those by number ---- */

/* The caller holds it. */
static int place_of_ref(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block)
{
	return kvmm_blocks_of_refs(pool, &(kvmm_ref_t){ where->index, where->gen }, 1, block);
}

static int place_of_block(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block)
{
	*block = where->index;
	if (where->index >= pool->nr_blocks)
		return -EINVAL;
	return elastic_is_away(pool, where->index) ? -ENXIO : 0;
}

/* ---- the calls ---- */

static int access_kept(struct kvmm_pool *pool, const struct kvmm_content *where,
		       const struct content *content)
{
	const struct {
		int (*keep)(struct kvmm_pool *pool, const struct kvmm_content *where, u32 *block);
		void (*let_go)(struct kvmm_pool *pool, const struct kvmm_content *where);
	} kinds[] = {
		[KVMM_CONTENT_BLOCK] = { place_of_block, NULL },
		[KVMM_CONTENT_RANGE] = { keep_range, let_range_go },
		[KVMM_CONTENT_MUT] = { content->is_write ? keep_to_write : keep_to_read,
					 let_mut_go },
		[KVMM_CONTENT_REF] = { place_of_ref, NULL },
	};
	int cancel = content_begin(pool), err;
	u32 block;

	err = kinds[where->of].keep(pool, where, &block);
	if (!err) {
		err = content_copy(pool, block, content);
		if (kinds[where->of].let_go)
			kinds[where->of].let_go(pool, where);
	}
	content_end(pool, cancel);
	return err;
}

/* Of a registered block the reference is a second one: the caller's last put is not the last. */
static int access_content(struct kvmm_pool *pool, const struct kvmm_content *where,
			  const struct content *content)
{
	kvmm_ref_t ref;
	int err, cancel;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!where || where->of > KVMM_CONTENT_REF)
		return -EINVAL;
	if (where->of == KVMM_CONTENT_REF && content->is_write)
		return -EINVAL;
	err = content_check(pool, content);
	if (err)
		return err;
	if (where->of != KVMM_CONTENT_REF)
		return access_kept(pool, where, content);
	ref = (kvmm_ref_t){ where->index, where->gen };
	cancel = kv_cancel_off();
	err = kvmm_get_many(pool, &ref, 1);
	if (!err) {
		err = access_kept(pool, where, content);
		kvmm_put_many(pool, &ref, 1);
	}
	kv_cancel_restore(cancel);
	return err;
}

int kvmm_content_write(struct kvmm_pool *pool, const struct kvmm_content *where, const void *buf,
		       size_t bytes)
{
	struct content content = { (void *)buf, where ? where->offset : 0, bytes, true };

	return access_content(pool, where, &content);
}

int kvmm_content_read(struct kvmm_pool *pool, const struct kvmm_content *where, void *buf,
		      size_t bytes)
{
	struct content content = { buf, where ? where->offset : 0, bytes, false };

	return access_content(pool, where, &content);
}
