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
#include <kv/sys.h>
#include <kvmm/ext/lease.h>
#include <pool/content.h>
#include <pool/internal.h>
#include <pool/lease.h>

/* ---- ranges ---- */

static u32 block_at(struct slot *slot, u32 at)
{
	for (u32 i = 0; i < slot->nr_ext; at -= slot_ext(slot, i++)->nr)
		if (at < slot_ext(slot, i)->nr)
			return slot_ext(slot, i)->start + at;
	return KV_NONE;
}

static int keep_range(struct kvmm_pool *pool, kvmm_range_t range, u32 at, u32 *block)
{
	struct slot *slot;
	int err = range_enter(pool, range, &slot);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	*block = block_at(slot, at);
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
static void let_range_go(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot;

	kv_assert_held(&pool->compact_lock);
	if (range_enter(pool, range, &slot))
		return;
	slot_unpin_own(pool, slot);
	if (!last_put_is_barred(slot))
		put_slot(pool, slot, range.index);
	pool_leave(pool);
}

static int range_access(struct kvmm_pool *pool, kvmm_range_t range, u32 at,
			const struct content *content)
{
	int err = content_check(pool, content), cancel;
	u32 block;

	if (err)
		return err;
	cancel = content_begin(pool);
	err = keep_range(pool, range, at, &block);
	if (!err) {
		err = content_copy(pool, block, content);
		let_range_go(pool, range);
	}
	content_end(pool, cancel);
	return err;
}

/* ---- private blocks ---- */

static int keep_mut(struct kvmm_pool *pool, struct kv_handle handle)
{
	int err = cache_begin(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	err = lost_check(pool, &handle, 1);
	if (!err)
		err = kv_handle_step(&pool->entries, handle, kv_edge_write);
	cache_end(pool);
	if (err)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}

static int mut_access(struct kvmm_pool *pool, kvmm_mut_t mut, const struct content *content)
{
	int err = content_check(pool, content), cancel;

	if (err)
		return err;
	err = pool->caches ? own_share_blocks(pool) : -EOPNOTSUPP;
	if (err)
		return err;
	cancel = content_begin(pool);
	err = keep_mut(pool, mut_handle(mut));
	if (!err) {
		err = content_copy(pool, entry_block(entry_at(pool, mut.index)), content);
		kv_handle_step(&pool->entries, mut_handle(mut), kv_edge_written);
	}
	content_end(pool, cancel);
	return err;
}

/* ---- registered blocks ---- */

/* The reference is a second one, so the caller's last put meanwhile is not the last. */
static int ref_access(struct kvmm_pool *pool, kvmm_ref_t ref, const struct content *content)
{
	int err = content_check(pool, content), cancel;
	u32 block;

	if (err)
		return err;
	cancel = kv_cancel_off();
	err = kvmm_get_many(pool, &ref, 1);
	if (!err) {
		int inner = content_begin(pool);

		err = kvmm_blocks_of_refs(pool, &ref, 1, &block);
		if (!err)
			err = content_copy(pool, block, content);
		content_end(pool, inner);
		kvmm_put_many(pool, &ref, 1);
	}
	kv_cancel_restore(cancel);
	return err;
}

/* ---- the calls ---- */

static int access_content(struct kvmm_pool *pool, const struct kvmm_content *where,
			  const struct content *content)
{
	if (kv_inherited(pool))
		return -ECHILD;
	if (!where)
		return -EINVAL;
	switch (where->of) {
	case KVMM_CONTENT_BLOCK:
		return block_access(pool, where->index, content);
	case KVMM_CONTENT_RANGE:
		return range_access(pool, (kvmm_range_t){ where->index, where->gen }, where->at,
				    content);
	case KVMM_CONTENT_MUT:
		return mut_access(pool, (kvmm_mut_t){ where->index, where->gen }, content);
	case KVMM_CONTENT_REF:
		return content->is_write ? -EINVAL :
		       ref_access(pool, (kvmm_ref_t){ where->index, where->gen }, content);
	}
	return -EINVAL;
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
