// SPDX-License-Identifier: Apache-2.0
/*
 * Cached blocks, one by one: entries, their life, and what frees and evicts them.
 *
 *	(zone) -> PRIVATE -> ACTIVE <-> INACTIVE -> evicted: PRIVATE again, or back to the zone
 *	             |
 *	             +-> back to the zone, or UNNAMED in the order of eviction (keeps_unnamed)
 *
 * Policy and registry know entries by index and never see a block id, so a block may be moved
 * without them. A batch is checked as a whole before anything is done; a private block that stands
 * in it twice gives itself away by the state BATCH that it got the first time.
 */
#include <kv/env.h>
#include <kv/mem.h>

#include "internal.h"

/* ---- set-up ---- */

static void link_free_entries(struct kvmm_pool *pool)
{
	for (u32 i = pool->nr_blocks; i-- > 0;) {
		struct entry *entry = &pool->entry[i];

		entry->gen = pool->gen_base;
		entry->link = pool->free_entry;
		pool->free_entry = i;
	}
	pool->count.nr_entries[ENTRY_FREE] = pool->nr_blocks;
}

int cache_init(struct kvmm_pool *pool)
{
	const struct kv_registry_ops *registry = pool->parts.registry;
	const struct kv_evict_ops *evict = pool->parts.evict;
	u32 nr = pool->nr_blocks;
	size_t registry_bytes, policy_bytes;

	if (!evict)
		return 0;
	registry_bytes = registry->bytes(nr);
	policy_bytes = evict->bytes(nr);
	pool->registry = kv_alloc_lines(1, registry_bytes);
	pool->policy = kv_alloc_lines(1, policy_bytes);
	pool->entry = kv_alloc_lines(nr, sizeof(*pool->entry));
	if (!pool->registry || !pool->policy || !pool->entry) {
		kv_free(pool->policy);
		pool->policy = NULL;
		return -ENOMEM;
	}
	registry->init(pool->registry, nr, kv_random());
	evict->init(pool->policy, nr);
	link_free_entries(pool);
	pool->metadata_bytes += registry_bytes + policy_bytes + nr * sizeof(*pool->entry);
	return 0;
}

void cache_exit(struct kvmm_pool *pool)
{
	if (pool->policy && pool->parts.evict->exit)
		pool->parts.evict->exit(pool->policy);
	kv_free(pool->entry);
	kv_free(pool->policy);
	kv_free(pool->registry);
}

int cache_enter(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	if (unlikely(!pool->parts.evict))
		return -EOPNOTSUPP;
	return pool_enter(pool);
}

/* ---- entries ---- */

void entry_new_gen(struct kvmm_pool *pool, struct entry *entry)
{
	u32 old = entry->gen - pool->gen_base;

	entry->gen = next_gen(entry->gen);
	pool->count.entry_gens += (entry->gen - pool->gen_base) - (u64)old;
}

static struct entry *entry_take(struct kvmm_pool *pool, u32 block)
{
	u32 index = pool->free_entry;
	struct entry *entry = &pool->entry[index];

	pool->free_entry = entry->link;
	entry->block = block;
	entry_set_state(pool, entry, ENTRY_PRIVATE);
	owner_fill(pool, block, 1, make_owner(OWNER_ENTRY, index));
	return entry;
}

void entry_put(struct kvmm_pool *pool, struct entry *entry)
{
	entry_set_state(pool, entry, ENTRY_FREE);
	entry->link = pool->free_entry;
	pool->free_entry = entry_index(pool, entry);
}

bool entry_forget(struct kvmm_pool *pool, struct entry *entry)
{
	bool is_named = entry->state == ENTRY_INACTIVE;

	if (is_named) {
		POOL_BUG_ON(pool, pool->parts.registry->del(pool->registry,
							    entry_index(pool, entry)));
		pool->count.entry_keys -= key_sum(&entry->key);
	}
	entry_new_gen(pool, entry);
	return is_named;
}

/* The entry gives its block back; it is in no order. */
static void entry_free(struct kvmm_pool *pool, struct entry *entry)
{
	u32 block = entry->block;

	entry_put(pool, entry);
	block_free(pool, block);
}

static int find_entry(struct kvmm_pool *pool, u32 index, u32 gen, struct entry **entry)
{
	if (unlikely(index >= pool->nr_blocks))
		return refuse_handle(pool, pool->gen_base, gen);
	*entry = &pool->entry[index];
	if (unlikely((*entry)->gen != gen))
		return refuse_handle(pool, (*entry)->gen, gen);
	return 0;
}

/* A handle of the right generation that no longer holds what it held. */
static int refuse_state(void)
{
	kv_count(KV_EV_BAD_HANDLE);
	return -ESTALE;
}

int ref_find(struct kvmm_pool *pool, kvmm_ref_t ref, struct entry **entry)
{
	int err = find_entry(pool, ref.index, ref.gen, entry);

	if (unlikely(err))
		return err;
	if (likely((*entry)->state == ENTRY_ACTIVE))
		return 0;
	return (*entry)->state == ENTRY_INACTIVE ? refuse_state() : -EINVAL;
}

int mut_find(struct kvmm_pool *pool, kvmm_mut_t mut, struct entry **entry)
{
	int err = find_entry(pool, mut.index, mut.gen, entry);

	if (unlikely(err))
		return err;
	if (likely((*entry)->state == ENTRY_PRIVATE))
		return 0;
	return (*entry)->state == ENTRY_ACTIVE || (*entry)->state == ENTRY_INACTIVE ?
	       refuse_state() : -EINVAL;
}

/* ---- taking private blocks ---- */

u32 cache_nr_order(const struct kvmm_pool *pool)
{
	return pool->parts.evict ? pool->parts.evict->nr(pool->policy) : 0;
}

u32 cache_nr_available(struct kvmm_pool *pool)
{
	return kv_zone_nr_free(pool->zone) + cache_nr_order(pool);
}

#define TAKE_BATCH	64u

static kvmm_mut_t mut_of(const struct kvmm_pool *pool, const struct entry *entry)
{
	return (kvmm_mut_t){ entry_index(pool, entry), entry->gen };
}

static int take_free(struct kvmm_pool *pool, u32 nr, u64 now_ns, kvmm_mut_t *blocks)
{
	u32 ids[TAKE_BATCH];

	while (nr) {
		u32 batch = min(nr, TAKE_BATCH);

		if (POOL_BUG_ON(pool, kvmm_zone_alloc_many(pool->zone, batch, ids)))
			return -EUCLEAN;
		for (u32 i = 0; i < batch; i++) {
			struct entry *entry = entry_take(pool, ids[i]);

			entry->last_access_ns = now_ns;
			*blocks++ = mut_of(pool, entry);
		}
		nr -= batch;
	}
	return 0;
}

struct entry *cache_pick(struct kvmm_pool *pool)
{
	u32 index = pool->parts.evict->pick(pool->policy);

	return POOL_BUG_ON(pool, index >= pool->nr_blocks) ? NULL : &pool->entry[index];
}

static int take_evicted(struct kvmm_pool *pool, u32 nr, u64 now_ns, kvmm_mut_t *blocks,
			kvmm_key_t *evicted)
{
	u32 nr_evicted = 0;

	for (u32 i = 0; i < nr; i++) {
		struct entry *entry = cache_pick(pool);

		if (unlikely(!entry))
			return -EUCLEAN;
		if (entry_forget(pool, entry)) {
			if (evicted)
				evicted[nr_evicted] = entry->key;
			nr_evicted++;
		}
		entry_set_state(pool, entry, ENTRY_PRIVATE);
		entry->last_access_ns = now_ns;
		blocks[i] = mut_of(pool, entry);
	}
	count_evictions(pool, nr_evicted);
	return nr_evicted;
}

int cache_take(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *blocks, kvmm_key_t *evicted)
{
	u32 nr_free = min(nr, kv_zone_nr_free(pool->zone));
	u64 now_ns;

	if (!nr)
		return 0;
	now_ns = kv_clock_ns();
	pool->count.allocs++;
	pool->count.alloc_blocks += nr;
	if (take_free(pool, nr_free, now_ns, blocks))
		return -EUCLEAN;
	return take_evicted(pool, nr - nr_free, now_ns, blocks + nr_free, evicted);
}

int kvmm_alloc(struct kvmm_pool *pool, uint32_t nr, kvmm_mut_t *blocks)
{
	int err;

	if (!blocks && nr)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	if (nr <= cache_nr_available(pool)) {
		err = min(cache_take(pool, nr, blocks, NULL), 0);
	} else {
		pool->count.fail_nospc++;
		err = -ENOSPC;
	}
	pool_leave(pool);
	return err;
}

/* ---- giving private blocks back, or naming them ---- */

static void unmark_batch(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		entry_set_state(pool, &pool->entry[blocks[i].index], ENTRY_PRIVATE);
}

/* All of @blocks are private and none stands there twice; they are BATCH now. Or nothing is. */
static int mark_batch(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		struct entry *entry;
		int err = mut_find(pool, blocks[i], &entry);

		if (unlikely(err)) {
			unmark_batch(pool, blocks, i);
			return err;
		}
		entry_set_state(pool, entry, ENTRY_BATCH);
	}
	return 0;
}

/* Without key, but still in the order: such policies hand free blocks out themselves. */
static void keep_unnamed(struct kvmm_pool *pool, struct entry *entry)
{
	entry_set_state(pool, entry, ENTRY_UNNAMED);
	pool->parts.evict->enter(pool->policy, entry_index(pool, entry), NULL);
}

static void free_private(struct kvmm_pool *pool, struct entry *entry)
{
	entry_new_gen(pool, entry);
	if (pool->parts.evict->keeps_unnamed)
		keep_unnamed(pool, entry);
	else
		entry_free(pool, entry);
}

int kvmm_free(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr)
{
	int err;

	if (!blocks && nr)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = mark_batch(pool, blocks, nr);
	if (!err) {
		for (u32 i = nr; i-- > 0;)
			free_private(pool, &pool->entry[blocks[i].index]);
		pool->count.frees += !!nr;
	}
	pool_leave(pool);
	return err;
}

static void name_entry(struct kvmm_pool *pool, struct entry *entry, const kvmm_key_t *key)
{
	const struct kv_evict_ops *evict = pool->parts.evict;
	u32 index = entry_index(pool, entry);

	entry->key = *key;
	entry->refs = 1;
	pool->count.entry_refs++;
	pool->count.entry_keys += key_sum(key);
	entry_set_state(pool, entry, ENTRY_ACTIVE);
	pool->parts.registry->add(pool->registry, index, key);
	if (evict->fill)
		evict->fill(pool->policy, index, key);
}

int kvmm_register(struct kvmm_pool *pool, const kvmm_mut_t *blocks, const kvmm_key_t *keys,
		  uint32_t nr, kvmm_ref_t *refs)
{
	int err;

	if (nr && (!blocks || !keys || !refs))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = mark_batch(pool, blocks, nr);
	for (u32 i = 0; i < nr && !err; i++) {
		/* May be the same memory: read before it is written. */
		kvmm_mut_t mut = blocks[i];

		name_entry(pool, &pool->entry[mut.index], &keys[i]);
		refs[i] = (kvmm_ref_t){ mut.index, mut.gen };
	}
	if (!err)
		pool->count.registered += nr;
	pool_leave(pool);
	return err;
}

/* ---- forgetting ---- */

/* Picked in order, and entered in order: blocks without key keep theirs. */
int kvmm_reset_inactive(struct kvmm_pool *pool)
{
	int err, nr = 0;

	err = cache_enter(pool);
	if (err)
		return err;
	for (u32 left = cache_nr_order(pool); left; left--) {
		struct entry *entry = cache_pick(pool);

		if (unlikely(!entry)) {
			nr = -EUCLEAN;
			break;
		}
		nr += entry_forget(pool, entry);
		if (pool->parts.evict->keeps_unnamed)
			keep_unnamed(pool, entry);
		else
			entry_free(pool, entry);
	}
	pool_leave(pool);
	return nr;
}
