/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached blocks by block id, for engines with block tables of int32_t: vLLM, SGLang, TensorRT-LLM.
 *
 * The calls of <kvmm/cache.h>, on arrays of ids. The pool looks up which entry has the block, and
 * of which generation, so a binding needs no table of its own. Blocks must not move: the pool has
 * the compactor "off"; the answer is -EOPNOTSUPP otherwise.
 *
 * An id says less than a handle: one kept too long names the next owner's block. The calls refuse
 * ids that are no blocks (-EINVAL), blocks that are free, evicted or not referenced any more
 * (-ESTALE), and blocks in another state (-EINVAL).
 *
 * Calls do all of their batch or nothing, without a lock of their own and, up to 512 ids, without
 * host memory: longer batches may say -ENOMEM.
 */
#ifndef KVMM_EXT_IDS_H
#define KVMM_EXT_IDS_H

#include <kvmm/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/** No block. */
#define KVMM_NO_ID		(-1)

/** kvmm_ids_get(): blocks without references, too, as kvmm_upgrade_many() does. */
#define KVMM_IDS_INACTIVE	(1u << 0)

/** kvmm_ids_put(): the first of @ids is the first to be evicted; else the last, as in
 * kvmm_put_many(). */
#define KVMM_IDS_FIRST_OUT	(1u << 1)

/** kvmm_ids_put(): private blocks go as by kvmm_park(), behind the others. */
#define KVMM_IDS_PARK		(1u << 2)

/** kvmm_ids_take(): parked blocks only, as by kvmm_unpark(). */
#define KVMM_IDS_PARKED		(1u << 3)

/**
 * kvmm_ids_alloc() - kvmm_alloc_for(): @nr private blocks
 * @ids: room for @nr; not changed on failure
 *
 * Return: 0; errors of kvmm_alloc_for(); -EOPNOTSUPP, -ENOMEM see above.
 */
KVMM_API int kvmm_ids_alloc(struct kvmm_pool *pool, uint32_t nr, uint32_t tenant, int32_t *ids);

/**
 * kvmm_ids_register() - kvmm_prefix_register(): names for private blocks, and a reference on each
 * @ids: one for each key of @prefix. Out: the block with the reference, which is the older one of
 *	the name with KVMM_DUP_REJECT, and else the same
 * @flags: 0
 *
 * Return: 0; errors of kvmm_prefix_register(); -EOPNOTSUPP.
 */
KVMM_API int kvmm_ids_register(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			       int32_t *ids, uint32_t flags);

/**
 * kvmm_ids_find() - kvmm_prefix_find(): a reference on each block that is cached
 * @ids: room for @prefix->nr; with KVMM_FIND_ALL KVMM_NO_ID where a key is not cached
 * @flags: KVMM_FIND_*
 *
 * Return: number of hits; -EINVAL; -EOPNOTSUPP; -ENOMEM.
 */
KVMM_API int kvmm_ids_find(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, int32_t *ids,
			   uint32_t flags);

/**
 * kvmm_ids_get() - one more reference on registered blocks
 * @ids: one may stand there several times
 * @flags: KVMM_IDS_INACTIVE: by callers that know what is in them: no other thread evicts, or the
 *	key in struct kvmm_id_info is compared afterwards. If one is gone the others were used
 *
 * Return: 0; -ESTALE, -EINVAL, -EOVERFLOW (none); -EOPNOTSUPP; -ENOMEM.
 */
KVMM_API int kvmm_ids_get(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags);

/**
 * kvmm_ids_touch() - kvmm_touch_weak(): use registered blocks, held or not, without a reference
 *
 * Return: 0; -ESTALE one was evicted meanwhile (the others were used); -EINVAL; -EOPNOTSUPP;
 * -ENOMEM.
 */
KVMM_API int kvmm_ids_touch(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr);

/**
 * kvmm_ids_put() - drop a reference on registered blocks, free private ones; both may be mixed
 * @ids: a registered block may stand there several times
 * @flags: KVMM_IDS_FIRST_OUT, KVMM_IDS_PARK
 *
 * Return: 0; -ESTALE, -EINVAL, -EBUSY another thread stages, frees or writes a private one, or it
 * has several holders and stands beside registered ones (none was dropped or freed); -EOPNOTSUPP;
 * -ENOMEM.
 */
KVMM_API int kvmm_ids_put(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags);

/** kvmm_ids_free() - kvmm_ids_put(), last first. */
static inline int kvmm_ids_free(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr)
{
	return kvmm_ids_put(pool, ids, nr, 0);
}

/**
 * kvmm_ids_take() - these very blocks become private blocks of the caller: for a state that is
 * restored, or slots that the engine chooses itself
 * @ids: free ones, or cached ones without references, which lose their name
 * @flags: KVMM_IDS_PARKED: their content is as it was. -ESTALE: one is parked no more
 *
 * Return: 0; -EBUSY one is held, or copied; -ENOSPC they are promised, also to a tenant by its min,
 * or below a watermark; -EDQUOT as kvmm_alloc_for(), but no other block is given up; -EINVAL, also
 * if one stands there twice (none was taken, and none evicted); -EIO they could not be zeroed;
 * -EOPNOTSUPP; -ENOMEM.
 */
KVMM_API int kvmm_ids_take(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr,
			   uint32_t tenant, uint32_t flags);

/**
 * kvmm_park() - free private blocks, but keep them readable until their memory is used again
 * @blocks: in any pool without classes and limits of tenants, ids or not; last first
 *
 * They count as free, and have no name. Requests take other free blocks first, and then by the
 * order of eviction, where they stand as blocks that were used now. The content stays until then,
 * as @block of KVMM_EVENT_REUSED says, and so does the handle: -ESTALE afterwards. In memory that
 * is being given back (<kvmm/ext/moves.h>) it does not stay, and such a block is not free.
 *
 * Return: 0; -ESTALE, -EINVAL, -EBUSY as kvmm_free() (none was freed); -EOPNOTSUPP.
 */
KVMM_API int kvmm_park(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr);

/**
 * kvmm_unpark() - take them back, private, with their content and by the same handles
 *
 * Return: 0; -ESTALE one was used otherwise, -EINVAL one is not parked, -ENOSPC they are promised,
 * or below a watermark (none was taken); -EOPNOTSUPP.
 */
KVMM_API int kvmm_unpark(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr);

/**
 * struct kvmm_id_info - one block
 * @key, @domain, @position: its name, if it is staged or registered, else 0
 * @handle: today's handle: a kvmm_mut_t, kvmm_staged_t or kvmm_ref_t by @state, for calls by
 *	handle. Its gen is 0 if it has none; a parked block is KVMM_BLOCK_FREE, and has one
 * @state: enum kvmm_block_state
 * @refs, @pins: of registered blocks; a private or staged one has one reference
 * @tokens: that it holds: all of a staged or registered block, of a private one as many as were
 *	appended (<kvmm/ext/seq.h>)
 */
struct kvmm_id_info {
	kvmm_key_t key;
	kvmm_domain_t domain;
	kvmm_weak_t handle;
	uint32_t position;
	uint32_t state;
	uint32_t refs;
	uint32_t pins;
	uint32_t tokens;
	uint32_t reserved;
};

KVMM_API int kvmm_ids_info_sized(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr,
				 struct kvmm_id_info *info, size_t size);

/**
 * kvmm_ids_info() - what these blocks are, each as of one moment
 * @info: room for @nr; not changed on failure
 *
 * Context: takes the pool's lock.
 * Return: 0; -EINVAL one is no block; -EOPNOTSUPP.
 */
static inline int kvmm_ids_info(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr,
				struct kvmm_id_info *info)
{
	return kvmm_ids_info_sized(pool, ids, nr, info, sizeof(*info));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_IDS_H */
