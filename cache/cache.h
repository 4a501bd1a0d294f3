/* SPDX-License-Identifier: Apache-2.0 */
/* For other rooms, and between files of this one: the life of a cached block. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include <pool/internal.h>

/* ---- match.c ---- */

#define query_of(prefix)		\
	((struct kv_query){ (prefix)->keys, (prefix)->nr, (prefix)->domain })

/* The map's longest match, with references; in a read section. */
static inline u32 match_refs(struct kvmm_pool *pool, const struct kv_query *query,
			     struct kv_handle *refs, u32 *nr_first)
{
	struct kv_lookup lookup = { .refs = refs };
	u32 nr = query->nr ? pool->map->ops->lookup(pool->map, query, &lookup) : 0;

	kv_assert_reading();
	*nr_first = lookup.nr_first;
	return nr;
}

/* kvmm_prefix_scan() of a request that may be refused: kv_lookup_end() when it is admitted. */
int scan_uncounted(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs);

/* ---- ref.c ---- */

/* References that a lookup took, @nr_first of them the first ones: count them, tell the order. */
void note_refs(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 nr_first);
/* The same where there may be holes: their gen is 0. */
void note_found(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 nr_first);

/*
 * kvmm_put_many() of references that a look has just found to be there: 0, or an error and none
 * was dropped. The caller goes on with release_put(), or the like, and evict_gone() of *@first.
 * ->lock may be held.
 */
int drop_checked(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr, u32 *first);

/* ---- name.c ---- */

/* Do blocks of @group that get a name from now on go as they were put, or leaf first? */
void group_set_as_put(struct kvmm_pool *pool, u32 group, bool as_put);

/* kvmm_stage() is both. Callers that may still fail stage first, and count when they have not. */
int stage_uncounted(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		    const kvmm_mut_t *blocks, kvmm_staged_t *staged);
void stage_count(struct kvmm_pool *pool, u32 nr);

/*
 * Memory in the pool's registry for @nr names that come: 0, or an error. Names that wait to be told
 * of are told of first, so that those and the names there are stay few.
 */
static inline int presence_reserve(struct kvmm_pool *pool, u32 nr)
{
	if (likely(!pool->presence.reg))
		return 0;
	pool_tell(pool, settle);
	return kv_radix_reserve(pool->presence.reg, nr);
}

/* ---- tokens.c ---- */

int __tokens_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr);

/* So many tokens were appended to that private block. */
u32 tokens_nr(struct kvmm_pool *pool, struct kv_handle handle);

/* -ENODATA: one of these private blocks is partial, as its owner has said. */
static inline int tokens_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	kv_assert_reading();
	return likely(!READ_ONCE(pool->tokens)) ? 0 : __tokens_check(pool, handles, nr);
}

/* ---- forget.c ---- */

/* Content that was lost: */

int __lost_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr);

/* 0, or -EIO: the content of one of them is no good. In a read section, or ->lock held. */
static inline int lost_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	return likely(!READ_ONCE(pool->any_lost)) ? 0 : __lost_check(pool, handles, nr);
}

/* Both locks, and no thread is inside, between these two; see there. */
bool lose_begin(struct kvmm_pool *pool);
void lose_end(struct kvmm_pool *pool, bool closed);
/* No look-up finds it any more, and its holder is told; no matter if it is gone. Between those. */
void entry_lose(struct kvmm_pool *pool, struct kv_handle handle);

#endif /* CACHE_CACHE_H */
