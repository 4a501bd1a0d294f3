/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of registered blocks change: taken back, so that the content may be written again.
 *
 *	ref  --kvmm_unpublish-->  mut		the holder of the only reference writes it again
 */
#ifndef KVMM_EXT_NAME_H
#define KVMM_EXT_NAME_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kvmm_unpublish() - make registered blocks private again
 * @refs: the only reference on each; taken on success
 * @blocks: out: the same blocks under new handles; may be the memory of @refs
 *
 * The names are forgotten as those of evicted blocks: no look-up finds them, events, registries of
 * prefixes and weak references learn of it. Where the content was copied to tiers below before,
 * the copies stay, under these names. Content and block ids stay as they are.
 *
 * Context: no kvmm lock held.
 * Return: 0; -EBUSY one has another reference or a pin, or is being moved or copied; -ESTALE;
 * -EINVAL, also if a block stands there twice; -EIO the content of one is lost; -ENOSPC the handles
 * of one are used up, after 2^28 lives; -EOPNOTSUPP; -ECHILD: all blocks are as they were.
 */
KVMM_API int kvmm_unpublish(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			    kvmm_mut_t *blocks);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_NAME_H */
