// SPDX-License-Identifier: Apache-2.0
/*
 * References that leave no trace if they are dropped again.
 *
 * kvmm_prefix_match() tells the order of eviction at once; a block that is put back is then the
 * youngest. Here the order hears of a reference when it is kept. Until then the block is in the
 * order while it is referenced, as after a note that was lost (see order.h): a pick that meets it
 * there drops it from the order, and quiet_put() brings it back.
 */
#include <cache/cache.h>
#include <pool/internal.h>

#include "internal.h"

void quiet_put(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr)
{
	kv_assert_not_held(&pool->lock);
	if (!nr || pool_enter(pool))
		return;
	order_enter(&pool->order);
	for (u32 i = nr; i-- > 0;)
		undo_hit(pool, as_handles(refs)[i]);
	order_leave(&pool->order);
	cache_leave(pool);
}

int quiet_get(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs)
{
	struct kv_query query = query_of(prefix);
	u32 nr, nr_idle;
	int err = cache_begin(pool);

	kv_assert_not_held(&pool->lock);
	if (err)
		return err;
	nr = match_refs(pool, &query, (struct kv_handle *)refs, &nr_idle);
	tally_add(pool, TALLY_REFS, nr);
	tally_add(pool, TALLY_ACTIVE, nr_idle);
	cache_end(pool);
	if (likely(nr == prefix->nr))
		return nr_idle;
	quiet_put(pool, refs, nr);
	return -EAGAIN;
}

void quiet_keep(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, bool was_idle)
{
	kv_assert_not_held(&pool->lock);
	if (was_idle || pool->parts.evict->hit)
		order_note(&pool->order, NOTE_HIT, as_handles(refs), nr);
	pool_tell(pool, hit, as_handles(refs), nr);
}

void quiet_seen(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt, u32 max_tokens)
{
	u32 nr = min(max_tokens / groups->granule, prompt->nr);

	for (u32 i = 0; i < groups->nr; i = groups_end_of_pool(groups, i))
		order_note_seen(&group_in_order(groups, i)->pool->order, prompt->domain.tenant,
				prompt->keys, nr);
}
