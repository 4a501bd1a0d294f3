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

/* An array of @nr in the place of @before, with the first @nr_kept of that; NULL: no memory. */
void *longer_array(void *before, u32 nr_kept, u32 nr, u32 size);

/* Blocks that go, or come: cached ones first, then those of ranges, as they were listed. */
struct block_list {
	u32 nr;
	u32 *block;				/* ours */
	u32 listed[KVMM_MIGRATE_MAX_RANGES];	/* of each range, the first ones */
};

/* Ranges of @pool, held: so they cannot move. */
struct range_set {
	struct kvmm_pool *pool;
	const kvmm_range_t *range;
	const struct kv_range_kind *kind;	/* @listed: how far they are to be listed */
	u32 nr;
};

/* What of them is not on the list yet: 0, -ENOMEM, -E2BIG or why there are none. */
int list_ranges(struct block_list *list, const struct range_set *set);

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
	u32 range_nr[KVMM_MIGRATE_MAX_RANGES];	/* RESERVED: blocks */

	struct block_list list;			/* in the order of the source's */
};

/* Blocks that are to be copied. */
#define for_each_absent(store, i)						\
	for (u32 i = 0; i < (store)->list.nr; i++)				\
		if (i >= (store)->nr_refs || !(store)->present[i])

/* The blocks to come; @name and @kind live as long as the store. 0, -ENOMEM. */
int store_init(struct store *store, u32 nr_refs, const struct kv_block_name *name, u32 nr_ranges,
	       const struct kv_range_kind *kind);
void store_exit(struct store *store);

/* 0; -ENOSPC, -EDQUOT, -ENOMEM, -EIO: nothing was taken. */
int store_reserve(struct store *store);
/* Its ranges have become longer, and more of them is listed: as store_reserve(), but what was
 * taken before stays. */
int store_list(struct store *store);
/* Nothing writes there any more: it is free again. */
void store_release(struct store *store);
/* A copy may write there, and no thread will be told of the end: its blocks stay unused. */
void store_abandon(struct store *store);
/* Its content is good: found from here on. 0, or nothing was published: -ENOMEM, -EUCLEAN. */
int store_publish(struct store *store);

#endif /* NET_STORE_H */
