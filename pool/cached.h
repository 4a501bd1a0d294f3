/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files about cached blocks: entries, references, names, victims.
 *
 * Part of internal.h, and included by that alone.
 */
#ifndef POOL_CACHED_H
#define POOL_CACHED_H

#include "observer.h"

/* ---- quota.c ---- */

/* Cached blocks of classes that exceed their quota go. How many. Both locks held. */
u32 class_trim_held(struct kvmm_pool *pool);
void __class_trim(struct kvmm_pool *pool);

/* Is KVMM_IN_CLASS() @cls no class of the pool? */
bool class_is_none(const struct kvmm_pool *pool, u32 cls);
int __class_admit(struct kvmm_pool *pool, u32 cls, u32 nr);
u32 __class_take(struct kvmm_pool *pool, u32 cls, const kvmm_mut_t *blocks, u32 nr);

/* May @nr blocks more be of class @cls, or 0? 0 or -EDQUOT. */
static inline int class_admit(struct kvmm_pool *pool, u32 cls, u32 nr)
{
	kv_assert_held(&pool->lock);
	return unlikely(cls) ? __class_admit(pool, cls, nr) : 0;
}

/* These private blocks are of class @cls, or 0; how many cached ones beyond the quota went. */
static inline u32 class_take(struct kvmm_pool *pool, u32 cls, const kvmm_mut_t *blocks, u32 nr)
{
	kv_assert_held(&pool->lock);
	return unlikely(cls) ? __class_take(pool, cls, blocks, nr) : 0;
}

/* The same when a range was charged. */
static inline u32 class_took(struct kvmm_pool *pool, u32 cls)
{
	return class_take(pool, cls, NULL, 0);
}

/* Blocks were registered: trim the classes that exceed their quota now. */
static inline void class_trim(struct kvmm_pool *pool)
{
	kv_assert_not_held(&pool->lock);
	if (unlikely(pool->order.classes && pool->order.classes->has_quotas))
		__class_trim(pool);
}

/* To be called after an eviction, when no lock is held any more. */
static inline void cache_after(struct kvmm_pool *pool)
{
	pool_tell(pool, settle);
	kv_rcu_reap();
}

static inline void cache_leave(struct kvmm_pool *pool)
{
	pool_leave(pool);
	cache_after(pool);
}

/* ---- counts that are kept without ->lock; see enum tally ---- */

/* @row: kv_tally_row(). */
static __always_inline void tally_add_in(struct kvmm_pool *pool, u32 row, enum tally what, u64 nr)
{
	if (nr && (KV_STATS || what < TALLY_HITS))
		kv_tally_add(&pool->tally[row].nr[what], row, nr);
}

static inline void tally_add(struct kvmm_pool *pool, enum tally what, u64 nr)
{
	tally_add_in(pool, kv_tally_row(), what, nr);
}

u64 tally_sum(const struct kvmm_pool *pool, enum tally what);

/* Any flipped bit of a name changes its sum. */
static inline u64 name_sum(const struct kv_entry *entry)
{
	return READ_ONCE(entry->key[0]) + 3 * READ_ONCE(entry->key[1]) +
	       5 * READ_ONCE(entry->domain);
}

/* The entry by which a block has this name, or KV_NONE. */
static inline u32 name_find(const struct kvmm_pool *pool, u32 index, const struct kvmm_name *name)
{
	struct kv_entry wanted = { .domain = kv_domain_word(name->domain) };

	kv_assert_held(&pool->lock);
	kv_key_words(&name->key, wanted.key);
	return pool->map->ops->names->find(pool->map, index, &wanted);
}

/* ---- cache.c ---- */

/* pool_enter(), but -EOPNOTSUPP without a policy. */
int cache_enter(struct kvmm_pool *pool);
int __cache_begin_slow(struct kvmm_pool *pool);

/* A read section, while the gate is open. */
static __always_inline int cache_begin(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	if (unlikely(!pool->caches))
		return -EOPNOTSUPP;
	kv_rcu_read_lock();
	/*
	 * Pairs with the grace period of pool_stop(): a thread that misses the closed gate is
	 * waited for. Acquire pairs with pool_resume(): a thread that finds it open again sees what
	 * was done meanwhile.
	 */
	if (likely(!smp_load_acquire(&pool->gate)))
		return 0;
	return __cache_begin_slow(pool);
}

static __always_inline void cache_end(struct kvmm_pool *pool)
{
	kv_rcu_read_unlock();
}

static inline struct kv_entry *entry_at(const struct kvmm_pool *pool, u32 index)
{
	return &pool->entries.entry[index];
}

/* The name of its elder by which a duplicate has a reference on that, or KV_NONE. */
static inline u32 entry_elder(const struct kv_entry *entry)
{
	u32 link = READ_ONCE(entry->link);

	return likely(link >= KV_LET_GO) ? KV_NONE : link;
}

/* A duplicate registered with a reference on its elder: not cached beyond its own last one. */
static inline bool entry_holds_elder(const struct kv_entry *entry)
{
	return entry_elder(entry) != KV_NONE;
}

static inline u32 entry_block(const struct kv_entry *entry)
{
	return READ_ONCE(entry->place);
}

/*
 * The same for readers without a lock: content that a mover has copied there is seen with the
 * place. Pairs with entry_publish(). Without it a step that is told a place while it is published
 * could find there the content before the copy.
 */
static inline u32 entry_block_told(const struct kv_entry *entry)
{
	return smp_load_acquire(&entry->place);
}

/* A handle of today's generation. */
static inline struct kv_handle entry_handle(const struct kvmm_pool *pool, u32 index)
{
	return kv_handle_of(index, READ_ONCE(entry_at(pool, index)->word));
}

/* A step of a thread that has claimed the entry: to evict it, or to take it from its owner. */
static inline void claimed_step(struct kvmm_pool *pool, u32 index, kv_edge edge)
{
	POOL_BUG_ON(pool, kv_handle_step(&pool->entries, entry_handle(pool, index), edge));
}

static inline struct kv_handle mut_handle(kvmm_mut_t mut)
{
	return (struct kv_handle){ mut.index, mut.gen };
}

/* Arrays of any kind of handle: they differ by their names only, to tell them apart. */
static inline const struct kv_handle *as_handles(const void *array)
{
	return array;
}

static_assert(sizeof(kvmm_ref_t) == sizeof(struct kv_handle) &&
	      offsetof(kvmm_ref_t, gen) == offsetof(struct kv_handle, gen), "one layout");

static inline void count_evictions(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool->count.evictions += nr;
	if (nr)
		kv_probe2(evict, pool, nr);
	kv_count_add(KV_EV_EVICT, nr);
	if (unlikely(pool->order.classes != NULL))
		class_end(pool->order.classes);
}

/* Pick until there are @nr, or no more: the next ones, or those near them that lie together. The
 * order's lock held. */
bool victims_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims);
static inline void victims_add(struct kvmm_pool *pool, struct victims *victims, u32 index)
{
	WRITE_ONCE(entry_at(pool, index)->chain, victims->newest);
	victims->newest = index;
	victims->nr++;
}

/* The newest one is on the list no more. */
static inline u32 victims_pop(struct kvmm_pool *pool, struct victims *victims)
{
	u32 index = victims->newest;

	kv_assert(victims->nr);
	victims->newest = entry_at(pool, index)->chain;
	victims->nr--;
	return index;
}

/* Newest first. */
#define for_each_victim(pool, victims, at, i)						\
	for (u32 i = 0, at = (victims)->newest; i < (victims)->nr;			\
	     i++, at = entry_at(pool, at)->chain)

/* The same of blocks without a name only, which are free; none if there are fewer than @nr. */
bool victims_pick_parked(struct kvmm_pool *pool, u32 nr, struct victims *victims);

/* For good, and their blocks go to the zone. How many had a name. Both locks held. */
u32 victims_evict(struct kvmm_pool *pool, struct victims *victims);
/* Where they were. The order's lock held. */
void victims_unpick(struct kvmm_pool *pool, struct victims *victims);

/* A claimed entry loses its name. Then it may be freed, or recycled. The order's lock held. */
bool entry_forget(struct kvmm_pool *pool, u32 index);
/*
 * A hidden block loses its added names, but for those by which duplicates hold it: no more do so
 * from here on. The call that changes names does the rest. ->lock held.
 */
void names_forget(struct kvmm_pool *pool, u32 index);
/* A claimed entry loses its name and is private under a new handle. Not in its last generation. */
void entry_unpublish(struct kvmm_pool *pool, struct kv_handle handle, kvmm_mut_t *mut);
/* The reference that the entry, held or claimed, has on its elder goes. The order's lock held. */
void entry_drop_elder(struct kvmm_pool *pool, u32 index);
/* A claimed or private entry is given back, but not its block. */
void entry_free(struct kvmm_pool *pool, struct kv_handle handle);
/* Its block is @block from now on. ->lock held. */
static inline void entry_own(struct kvmm_pool *pool, u32 index, u32 block)
{
	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	quota_charge_entry(&pool->order, index);
	WRITE_ONCE(entry_at(pool, index)->place, block);
	owner_fill_one(pool, block, make_owner(OWNER_ENTRY, index));
	pool->count.nr_held++;
}

/*
 * It is free, but waits with its block in the order; not where memory is leaving, or the device
 * does not answer: then it is as any free one. Both locks held.
 */
void entry_park(struct kvmm_pool *pool, struct kv_handle handle);
/* And its block. The order's lock held. */
void entry_release(struct kvmm_pool *pool, struct kv_handle handle);
/*
 * Those that went EVICTING with their last reference, in a list through ->chain that ends in
 * KV_NONE: their blocks are free. No lock held.
 */
int __evict_gone(struct kvmm_pool *pool, u32 first);

static inline int evict_gone(struct kvmm_pool *pool, u32 first)
{
	return likely(first == KV_NONE) ? 0 : __evict_gone(pool, first);
}
void evict_gone_held(struct kvmm_pool *pool, u32 first);	/* both locks held */

/* Free blocks and those that could be evicted. Both locks held. */
static inline u32 cache_nr_available(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	return pool_nr_free(pool) + order_nr(&pool->order);
}

/*
 * Private blocks for @ctx, which become its own as they are: free ones, and victims. alloc_fits()
 * has said that they are there. 0; -ENOSPC, or -EDQUOT, and nothing has changed. Both locks held,
 * as for the next.
 */
int cache_take(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* The first half of it: ->nr_free blocks are private, and ->victims claimed; the same errors. */
int cache_take_begin(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/*
 * The second half: 0, or -ENOSPC an entry has used up its generations; then all of it goes back,
 * and the evicted entries stay evicted.
 */
int cache_take_end(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* Instead: free blocks are free again, exactly. */
void cache_untake_free(struct kvmm_pool *pool, const struct alloc_ctx *ctx);

/* Marks of handles that are in the state they were marked in. */
void entries_unmark(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr);

/* 0 if @state has the block of that handle, and, if @held, there is a reference on it. */
int entry_check(const struct kvmm_pool *pool, struct kv_handle handle, enum kv_entry_state state,
		bool held);

/* ---- moves under way; see transit.h for their locks ---- */

static inline void flights_await(struct kvmm_pool *pool)
{
	const struct transit_ops *ops = transit_ops(&pool->transit);

	if (unlikely(ops != NULL))
		ops->await(pool);
}

/* Before an owner is looked up: one with a failed copy is told. */
static inline void flights_look(struct kvmm_pool *pool)
{
	const struct transit_ops *ops = transit_ops(&pool->transit);

	kv_assert_held(&pool->compact_lock);
	if (unlikely(ops != NULL))
		ops->look(pool);
}

static inline u32 flights_cancel(struct kvmm_pool *pool)
{
	const struct transit_ops *ops = transit_ops(&pool->transit);

	kv_assert_held(&pool->compact_lock);
	return unlikely(ops != NULL) ? ops->cancel(pool) : 0;
}

/* ---- request/acquire.c ---- */

/* kvmm_acquire() of blocks for a request that was counted before. */
int acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req, bool inside);
/* A hit that the order has not been told of is put back without a trace. Both locks held. */
void undo_hit(struct kvmm_pool *pool, struct kv_handle ref);

/* ---- block.c ---- */

/* Time of an entry's last use: about a millisecond a tick, from some moment on. */

u64 ns_of_tick(u32 tick);

#endif /* POOL_CACHED_H */
