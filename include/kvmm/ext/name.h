/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of registered blocks change: taken back, so that the content may be written again; replaced
 * by others, as when a partial block got more tokens; or more than one.
 *
 * A block's *first* name is the one that it was registered with, or that replaced it. *Added* names
 * are hits as well, for every look-up; a block that is published under one is a duplicate. A name
 * may be that of several blocks, as with KVMM_DUP_ALLOW: the one that has had it longest is found.
 * Eviction, kvmm_evict_blocks() and resets forget all names of a block, and there is room for as
 * many others at once; one that it shares with duplicates that hold it counts as long as these do.
 *
 * Events and registries of prefixes know all names; added ones have no parent there. Tiers below
 * get a copy of the block under each of its names, one after the other, and under one that is added
 * when they have the others. Arrays of evicted keys, maps and leases of references have its first
 * name.
 */
#ifndef KVMM_EXT_NAME_H
#define KVMM_EXT_NAME_H

#include <kvmm/ext/registry.h>
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

/**
 * enum kvmm_name_op - what becomes of names
 * @KVMM_NAME_ADD: the block has the name, too
 * @KVMM_NAME_RENAME: it replaces the block's first name, which is forgotten; references, handle and
 *	place in the order of eviction stay; so do added names. With another position it follows no
 *	block there
 * @KVMM_NAME_REMOVE: the block loses the name. If it is the first, the oldest added one takes its
 *	place; without one the block is as after kvmm_evict_blocks()
 *
 * To move a name from one block to another without a moment in which it is missed, add it to the
 * one and then remove it from the other.
 */
enum kvmm_name_op { KVMM_NAME_ADD, KVMM_NAME_RENAME, KVMM_NAME_REMOVE, KVMM_NR_NAME_OPS };

/**
 * kvmm_names_change() - give held blocks other names
 * @names: one for each block
 * @refs: the blocks; the caller holds a reference of each, and keeps it
 * @op: enum kvmm_name_op
 *
 * A block that is renamed is found under the new name before it is not under the old one. A look-up
 * that overlaps the call may find the block by a name that it had at some moment between the
 * look-up's call and return. The content is not looked at: rename for more of the same, as when
 * tokens were appended. Else kvmm_unpublish() first, so that no other request reads what is being
 * written.
 *
 * Duplicates that hold the block by a name that goes (KVMM_DUP_HOLD) hold it no more. They keep
 * that name: look-ups find the oldest block that has it, and the last reference of each duplicate
 * frees it, as before. One that is renamed itself holds no block, and is cached as any.
 *
 * A pool has room for 2 added names a block in the mean, and for 256 in any case; one block may
 * have any part of it. A block that is renamed needs room for one more meanwhile. A name takes
 * about 80 bytes.
 *
 * Context: waits for compaction under way and, but for KVMM_NAME_ADD, for a grace period, once for
 * all @nr; no kvmm lock held.
 * Return: 0; -EEXIST ADD, RENAME: a block has that name already; -ENOENT REMOVE: it has not;
 * -ENOSPC no room for so many added names: some have to go first; -ENOMEM; -ESTALE, also if the
 * names of one were forgotten;
 * -EINVAL, also if one is renamed twice; -EOVERFLOW; -EOPNOTSUPP the pool's index has no such
 * names; -ECHILD: all names are as they were.
 */
KVMM_API int kvmm_names_change(struct kvmm_pool *pool, const struct kvmm_name *names,
			       const kvmm_ref_t *refs, uint32_t nr, uint32_t op);

/** kvmm_names_add() - kvmm_names_change() by KVMM_NAME_ADD. */
static inline int kvmm_names_add(struct kvmm_pool *pool, const struct kvmm_name *names,
				 const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_names_change(pool, names, refs, nr, KVMM_NAME_ADD);
}

/** kvmm_names_rename() - kvmm_names_change() by KVMM_NAME_RENAME. */
static inline int kvmm_names_rename(struct kvmm_pool *pool, const struct kvmm_name *names,
				    const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_names_change(pool, names, refs, nr, KVMM_NAME_RENAME);
}

/** kvmm_names_remove() - kvmm_names_change() by KVMM_NAME_REMOVE. */
static inline int kvmm_names_remove(struct kvmm_pool *pool, const struct kvmm_name *names,
				    const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_names_change(pool, names, refs, nr, KVMM_NAME_REMOVE);
}

/**
 * kvmm_names_get() - the names of a held block
 * @names: room for @max: the first one, then added ones, oldest first
 *
 * Return: how many it has, which may be more than @max, 0 if they were forgotten; -ESTALE; -EINVAL;
 * -EOPNOTSUPP; -ECHILD.
 */
KVMM_API int kvmm_names_get(struct kvmm_pool *pool, kvmm_ref_t ref, struct kvmm_name *names,
			    uint32_t max);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_NAME_H */
