// SPDX-License-Identifier: Apache-2.0
/*
 * Names of registered blocks change while the blocks are held.
 *
 * Back to private: the holder's reference becomes a claim, as an evictor's, for all blocks of the
 * call; from then on no look-up finds them, and nothing can fail. A refused call puts the
 * references back.
 */
#include <kvmm/ext/name.h>

#include "cache.h"

int kvmm_unpublish(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
		   kvmm_mut_t *blocks)
{
	const struct kv_handle *handles = as_handles(refs);
	u32 i;
	int err;

	if (nr && (!refs || !blocks))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = lost_check(pool, handles, nr);
	for (i = 0; i < nr && likely(!err); i++) {
		err = kv_handle_step(&pool->entries, handles[i], kv_edge_unpublish);
		if (unlikely(!err && handles[i].gen == pool->entries.gen_last)) {
			kv_handle_step(&pool->entries, handles[i], kv_edge_republish);
			err = -ENOSPC;
		}
	}
	if (unlikely(err))
		goto out_republish;
	order_enter(&pool->order);
	tally_add(pool, TALLY_REFS, -(u64)nr);
	tally_add(pool, TALLY_ACTIVE, -(u64)nr);
	for (i = 0; i < nr; i++)
		entry_unpublish(pool, handles[i], &blocks[i]);
	order_leave(&pool->order);
	cache_leave(pool);
	return 0;

out_republish:
	/* The last one that was looked at was refused, and may stand in the batch before. */
	for (u32 k = 0; k + 1 < i; k++) {
		if (err == -ESTALE && handles[k].index == handles[i - 1].index &&
		    handles[k].gen == handles[i - 1].gen)
			err = -EINVAL;
		kv_handle_step(&pool->entries, handles[k], kv_edge_republish);
	}
	cache_leave(pool);
	if (err == -ESTALE || err == -EINVAL)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}
