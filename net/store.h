/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where it goes: blocks of a pool that are reserved, filled, and then published all at once.
 *
 *	EMPTY --reserve--> RESERVED --publish--> PUBLISHED
 *	  ^                   | release              | exit: references are dropped
 *	  +-------------------+
 *
 * Reserved blocks are private: no lookup finds them, and no sequence has them. No lock: a store
 * belongs to one job, or one session.
 */
#ifndef NET_STORE_H
#define NET_STORE_H

#include <kv/pool_migrate.h>
#include <kv/types.h>
#include <kvmm/ext/migrate.h>

/* Blocks of a range that cannot move, in order: 0, -ENOMEM or why there are none. */
int range_blocks(struct kvmm_pool *pool, kvmm_range_t range, u32 *block);

enum store_state { STORE_EMPTY, STORE_RESERVED, STORE_PUBLISHED };

struct store {
	struct kvmm_pool *pool;			/* borrowed */
	struct kv_pool_view view;
	u32 flags;				/* KVMM_MIGRATE_* */
	u32 max_runs;
	enum store_state state;

	u32 nr_refs;
	const struct kv_block_name *name;	/* borrowed */
	kvmm_ref_t *ref;			/* ours; of those present; PUBLISHED: of all */
	bool *present;				/* ours; it was cached already: not to be copied */
	u32 nr_present;
	u32 nr_muts;				/* RESERVED: the others */
	kvmm_mut_t *mut;			/* ours; these, in their order */
	bool kept;				/* they stay in place */
	bool taken;				/* references belong to another owner by now */

	u32 nr_ranges;
	const struct kv_range_kind *kind;	/* borrowed */
	kvmm_range_t range[KVMM_MIGRATE_MAX_RANGES];

	u32 nr;
	u32 *block;				/* ours; in the order of the source's */
};

/* Blocks that are to be copied. */
#define for_each_absent(store, i)						\
	for (u32 i = 0; i < (store)->nr; i++)					\
		if (i >= (store)->nr_refs || !(store)->present[i])

/* The blocks to come; @name and @kind live as long as the store. 0, -ENOMEM. */
int store_init(struct store *store, u32 nr_refs, const struct kv_block_name *name, u32 nr_ranges,
	       const struct kv_range_kind *kind);
void store_exit(struct store *store);

/* 0; -ENOSPC, -EDQUOT, -ENOMEM, -EIO: nothing was taken. */
int store_reserve(struct store *store);
/* Nothing writes there any more: it is free again. */
void store_release(struct store *store);
/* A copy may write there, and no thread will be told of the end: its blocks stay unused. */
void store_abandon(struct store *store);
/* Its content is good: found from here on. 0, or nothing was published: -ENOMEM, -EUCLEAN. */
int store_publish(struct store *store);

#endif /* NET_STORE_H */
