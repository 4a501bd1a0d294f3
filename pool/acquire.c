// SPDX-License-Identifier: Apache-2.0
/*
 * References on cached blocks: match, acquire, drop.
 *
 * Matching takes references first and asks questions later: a block that is hit twice is then
 * counted once, and undoing is counting down again. Until a match is final no hit has left the
 * order of eviction, so undoing leaves no trace there. Dropping works the same way round: count
 * down with checks, then let those that reached 0 enter the order, in the order they did.
 */
#include <limits.h>

#include <kv/env.h>

#include "internal.h"

struct match {
	u32 nr;		/* hits */
	u32 nr_idle;	/* blocks among them that nobody referenced */
};

static struct match take_hits(struct kvmm_pool *pool, const kvmm_key_t *keys, u32 max,
			      kvmm_ref_t *hits)
{
	const struct kv_registry_ops *registry = pool->parts.registry;
	struct match match = { 0 };

	while (match.nr < max) {
		u32 index = registry->find(pool->registry, &keys[match.nr]);
		struct entry *entry;

		if (index == KV_NONE)
			break;
		entry = &pool->entry[index];
		if (unlikely(entry->refs == UINT32_MAX))
			break;
		match.nr_idle += !entry->refs++;
		hits[match.nr++] = (kvmm_ref_t){ index, entry->gen };
	}
	return match;
}

static void undo_hits(struct kvmm_pool *pool, const kvmm_ref_t *hits, u32 nr)
{
	while (nr--)
		pool->entry[hits[nr].index].refs--;
}

static void keep_hits(struct kvmm_pool *pool, const kvmm_ref_t *hits, u32 nr)
{
	const struct kv_evict_ops *evict = pool->parts.evict;
	u64 now_ns = nr ? kv_clock_ns() : 0;

	for (u32 i = 0; i < nr; i++) {
		struct entry *entry = &pool->entry[hits[i].index];

		if (entry->state == ENTRY_INACTIVE) {
			evict->leave(pool->policy, hits[i].index);
			entry_set_state(pool, entry, ENTRY_ACTIVE);
		}
		if (evict->hit)
			evict->hit(pool->policy, hits[i].index);
		entry->last_access_ns = now_ns;
	}
	pool->count.entry_refs += nr;
}

static void tell_seen(struct kvmm_pool *pool, const kvmm_key_t *keys, u32 nr)
{
	if (pool->parts.evict->seen)
		pool->parts.evict->seen(pool->policy, keys, nr);
}

static void count_match(struct kvmm_pool *pool, u32 nr_hits, u32 nr_misses)
{
	pool->count.hit_blocks += nr_hits;
	pool->count.miss_blocks += nr_misses;
	kv_count_add(KV_EV_HIT_BLOCKS, nr_hits);
	kv_count_add(KV_EV_MISS_BLOCKS, nr_misses);
}

/* ---- acquire ---- */

static bool acquire_is_bad(const struct kvmm_acquire *req)
{
	u32 max_hits;

	if (!req)
		return true;
	max_hits = min(req->nr_keys, req->max_hits);
	return (req->nr_keys && !req->keys) || (max_hits && !req->hits) ||
	       (req->nr_blocks && !req->fresh);
}

/* What is left besides the hits, once they have left the order. */
static int check_fit(struct kvmm_pool *pool, const struct kvmm_acquire *req,
		     const struct match *match)
{
	if (req->nr_blocks < match->nr)
		return -EINVAL;
	if (req->nr_blocks - match->nr + match->nr_idle <= cache_nr_available(pool))
		return 0;
	pool->count.fail_nospc++;
	return -ENOSPC;
}

static int acquire(struct kvmm_pool *pool, struct kvmm_acquire *req)
{
	struct match match;
	int err;

	match = take_hits(pool, req->keys, min(req->nr_keys, req->max_hits), req->hits);
	err = check_fit(pool, req, &match);
	if (err) {
		undo_hits(pool, req->hits, match.nr);
		return err;
	}
	tell_seen(pool, req->keys, req->nr_keys);
	keep_hits(pool, req->hits, match.nr);
	req->nr_hits = match.nr;
	req->nr_fresh = req->nr_blocks - match.nr;
	count_match(pool, req->nr_hits, req->nr_fresh);
	err = cache_take(pool, req->nr_fresh, req->fresh, req->evicted);
	req->nr_evicted = max(err, 0);
	return min(err, 0);
}

int kvmm_acquire(struct kvmm_pool *pool, struct kvmm_acquire *req)
{
	int err;

	if (acquire_is_bad(req))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = acquire(pool, req);
	pool_leave(pool);
	return err;
}

/* ---- match ---- */

int kvmm_match_len(struct kvmm_pool *pool, const kvmm_key_t *keys, uint32_t nr)
{
	u32 len;
	int err;

	if ((!keys && nr) || nr > INT_MAX)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	for (len = 0; len < nr; len++)
		if (pool->parts.registry->find(pool->registry, &keys[len]) == KV_NONE)
			break;
	pool_leave(pool);
	return len;
}

int kvmm_match(struct kvmm_pool *pool, const kvmm_key_t *keys, uint32_t nr, kvmm_ref_t *hits)
{
	struct match match;
	int err;

	if ((nr && (!keys || !hits)) || nr > INT_MAX)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	match = take_hits(pool, keys, nr, hits);
	tell_seen(pool, keys, nr);
	keep_hits(pool, hits, match.nr);
	count_match(pool, match.nr, nr - match.nr);
	pool_leave(pool);
	return match.nr;
}

/* ---- drop ---- */

/* Entries whose last reference was dropped, first to last, through entry->link. */
struct dropped {
	u32 first;
	u32 last;
};

static void dropped_add(struct kvmm_pool *pool, struct dropped *dropped, u32 index)
{
	pool->entry[index].link = KV_NONE;
	if (dropped->first == KV_NONE)
		dropped->first = index;
	else
		pool->entry[dropped->last].link = index;
	dropped->last = index;
}

/* Count down, last of @refs first. More drops than references: -EINVAL, and nothing is dropped. */
static int drop_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr,
		     struct dropped *dropped)
{
	u32 i;
	int err = 0;

	for (i = nr; i > 0; i--) {
		struct entry *entry;

		err = ref_find(pool, refs[i - 1], &entry);
		if (unlikely(!err && !entry->refs))
			err = -EINVAL;
		if (unlikely(err))
			break;
		if (!--entry->refs)
			dropped_add(pool, dropped, refs[i - 1].index);
	}
	for (; err && i < nr; i++)
		pool->entry[refs[i].index].refs++;
	return err;
}

static void enter_dropped(struct kvmm_pool *pool, const struct dropped *dropped)
{
	u32 index, next;

	for (index = dropped->first; index != KV_NONE; index = next) {
		struct entry *entry = &pool->entry[index];

		next = entry->link;
		entry_set_state(pool, entry, ENTRY_INACTIVE);
		pool->parts.evict->enter(pool->policy, index, &entry->key);
	}
}

int kvmm_put_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	struct dropped dropped = { .first = KV_NONE };
	int err;

	if (!refs && nr)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = drop_refs(pool, refs, nr, &dropped);
	if (!err) {
		pool->count.entry_refs -= nr;
		enter_dropped(pool, &dropped);
	}
	pool_leave(pool);
	return err;
}

/* ---- single answers ---- */

static int check_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr)
{
	struct entry *entry;
	int err = 0;

	for (u32 i = 0; i < nr && !err; i++)
		err = ref_find(pool, refs[i], &entry);
	return err;
}

int kvmm_hint(struct kvmm_pool *pool, const kvmm_ref_t *refs, const uint64_t *when, uint32_t nr)
{
	int err;

	if (nr && (!refs || !when))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = pool->parts.evict->hint ? check_refs(pool, refs, nr) : -EOPNOTSUPP;
	for (u32 i = 0; i < nr && !err; i++)
		pool->parts.evict->hint(pool->policy, refs[i].index, when[i]);
	pool_leave(pool);
	return err;
}

int kvmm_block_of_ref(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	struct entry *entry;
	int err;

	err = cache_enter(pool);
	if (err)
		return err;
	err = ref_find(pool, ref, &entry);
	if (!err)
		err = entry->block;
	pool_leave(pool);
	return err;
}

int kvmm_block_of_mut(struct kvmm_pool *pool, kvmm_mut_t mut)
{
	struct entry *entry;
	int err;

	err = cache_enter(pool);
	if (err)
		return err;
	err = mut_find(pool, mut, &entry);
	if (!err)
		err = entry->block;
	pool_leave(pool);
	return err;
}
