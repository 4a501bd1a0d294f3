/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Magazines: free blocks, with entries, that each thread keeps aside for single private blocks.
 *
 *	  kvmm_alloc            mag->entry[]                     the zone, under ->lock
 *	 <----------- [nr - 1] ............ [0] <-- 64 when empty, 64 of the oldest when full -->
 *	 ----------->
 *	  kvmm_free
 *
 * Two magazines of 64, one behind the other: a thread that has just come from the lock can allocate
 * 64 blocks, or free 64, before it needs that again. A block in there is free: its entry is FREE
 * with KV_ENTRY_MARK and the magazine's tag (kv_pocket_stamp()), it is in no free list, and the
 * zone believes it taken. No line of another thread is touched, and a free has one locked
 * instruction.
 *
 * A magazine is its thread's while it is *armed*. That begins and ends under ->lock; from then on
 * the owner needs the lock, too. Another thread may disarm it, so the owner says when it is inside:
 *
 *	owner: mag_enter()			mags_drain()
 *
 *	busy = 1				armed = 0
 *	kv_fence_light()			kv_fence_all()
 *	armed? (acquire)			wait until busy is 0 (acquire)
 *	... the content ...			... the content ...
 *	busy = 0 (release)
 *
 * One of the two sees what the other one wrote: either the owner finds itself disarmed, or it is
 * waited for. Where the system has no kv_fence_all() both have a full fence instead.
 *
 * Where few blocks are free, those aside are at most pool->spare in all: they stay there while
 * others are evicted, and a request that has to evict has a batch evicted besides. So a full cache
 * gives single blocks without the lock, too, and the order of eviction is ahead by a few blocks.
 * Small pools have none to spare: single blocks then go through the lock, and nothing has to be
 * drained.
 *
 * Blocks that have to stay free, for watermarks and promises, are in the zone as long as a magazine
 * is armed; see __release_settle(). Nothing is aside while a request waits. Off altogether where
 * pool->mags is NULL.
 *
 * Errors in a call are found before anything is written, and such a call is left to the path with
 * the lock: it refuses as ever. A free swaps the entry's word, so of two frees of one handle at the
 * same moment one is refused. An entry without the magazine's tag is therefore a contradiction: it
 * is not handed out, and the pool is closed.
 */
#ifndef PERCPU_MAG_H
#define PERCPU_MAG_H

#include <kv/thread.h>

#include <pool/local.h>

#define MAG_ROUNDS	64u			/* taken and given back at a time */
#define MAG_ENTRIES	(2 * MAG_ROUNDS)
#define MAG_MIN_BLOCKS	(8 * MAG_ROUNDS)	/* of a pool that has magazines */
#define MAG_EVICTS	8u			/* larger batches evict what they need, no more */
#define MAG_TICKS	128u			/* allocations between two looks at the clock */

/* mag->armed. */
enum {
	MAG_DISARMED,
	MAG_ARMED,		/* owners go the shortest way */
	MAG_ARMED_CALL,		/* there is more to do: a full fence, or content to be zeroed */
};

/* Guard, where none is named: ->lock or, while armed, the owner, which is busy then. */
struct mag {
	u32		busy;		/* owner thread */
	u32		armed;		/* ->lock; owner: acquire; MAG_* */
	u32		nr;		/* READ_ONCE() as a hint */
	u32		patience;	/* ->lock, of the owner: calls until it asks again */
	u64		stamp;		/* fixed at creation: of the words of entries here */
	struct mag	*next;		/* ->lock; armed, too */

	/* To be added to pool->count, by fold(). READ_ONCE() as a hint. */
	u64		allocs;
	u64		allocs_more;	/* blocks beyond the first of each */
	u64		frees;
	u64		frees_more;

	u32		entry[MAG_ENTRIES];	/* oldest first */
} __cacheline_aligned;

static_assert(offsetof(struct mag, entry) == KV_CACHELINE, "all but the entries on one line");

struct mags {
	/* Fixed at creation; read without a lock. */
	struct kvmm_pool	*pool;
	u32			floor;		/* with fewer free blocks, few are free */

	u32			fenced;		/* owners have a full fence; never 0 again */
	u32			nr_slots;	/* atomic; one more than the highest in ->mag */

	struct mags		*next;		/* list lock; all there are */

	struct mag		*mag[KV_THREAD_SLOTS] __cacheline_aligned;	/* that thread */
};

u32 mags_nr(const struct kvmm_pool *pool);
void __mag_make(struct kvmm_pool *pool);
u32 __mag_fill(struct kvmm_pool *pool, bool may_evict);
void __mag_spill(struct kvmm_pool *pool);
/*
 * The number of free blocks, and counts that the magazines have not told yet; ->lock held, or
 * inside a read of pool->fold_seq.
 */
u32 mags_peek(const struct kvmm_pool *pool, struct pool_count *count);

/* Free blocks in magazines, without a lock: of any time; exact inside a read of pool->mag_seq. */
u32 mags_peek_nr(const struct kvmm_pool *pool);

/* Of struct local_ops. ->lock held. */
void mags_disarm(struct kvmm_pool *pool);
/* All blocks go back to the zone; how many. ->lock held. */
u32 mags_drain(struct kvmm_pool *pool);

/* @nr blocks are to be allocated, or freed: give the thread a magazine, if there is memory. No lock
 * held. */
static inline void mag_make(struct kvmm_pool *pool, u32 nr)
{
	if (nr - 1 < MAG_ROUNDS && pool && pool->mags)
		__mag_make(pool);
}

/* They were, under ->lock: without it next time. */
static inline void mag_fill(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	if (ctx->nr - 1 < MAG_ROUNDS && pool->mags)
		ctx->evicted += __mag_fill(pool, ctx->nr_missing && ctx->nr <= MAG_EVICTS &&
						 !(ctx->flags & KVMM_ALLOC_NO_EVICT));
}

static inline void mag_spill(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (nr - 1 < MAG_ROUNDS && pool->mags)
		__mag_spill(pool);
}

/* ---- the owner ---- */

static __always_inline void mag_leave(struct mag *mag)
{
	/* Pairs with wait_for_owner(): a thread that drains sees what we did. */
	smp_store_release(&mag->busy, 0);
}

/* The thread's magazine, or NULL. */
static __always_inline struct mag *mag_of_thread(const struct mags *mags)
{
	struct kv_stat_row *row = kv_stat_row;

	return likely(mags && row) ? READ_ONCE(mags->mag[row->slot]) : NULL;
}

/* To be inside, if it is MAG_ARMED; the same if it is MAG_ARMED_CALL. */
static __always_inline bool mag_enter(struct mag *mag)
{
	WRITE_ONCE(mag->busy, 1);
	/* Pairs with fence_owners(): one of us sees the other's word. */
	kv_fence_light();
	/* Acquire pairs with arm(): changes of the content by others are visible. */
	if (likely(smp_load_acquire(&mag->armed) == MAG_ARMED))
		return true;
	mag_leave(mag);
	return false;
}

/* Pocketed by this magazine -> PRIVATE. False: it is not, which is a bug of ours. */
static __always_inline bool mag_take_entry(struct kvmm_pool *pool, const struct mag *mag, u32 index,
					   u32 tick, kvmm_mut_t *mut)
{
	struct kv_entry *entry = entry_at(pool, index);
	u64 word = READ_ONCE(entry->word);

	kv_assert(index < pool->entries.nr);
	if (unlikely(kv_word_life(word) != mag->stamp))
		return false;
	WRITE_ONCE(entry->vtime, tick);
	/* No other thread changes the word of our entry; release as any step of it. */
	smp_store_release(&entry->word, word - mag->stamp + KV_WORD_PRIVATE);
	/* One by one: packed in a vector they come late to a caller that reads them at once. */
	WRITE_ONCE(mut->index, index);
	WRITE_ONCE(mut->gen, kv_word_gen(word));
	return true;
}

/* A block without a lock; false: nothing was done. Looking at the clock is left to others. */
static __always_inline bool mag_alloc_one(struct kvmm_pool *pool, kvmm_mut_t *mut)
{
	struct mags *mags = pool->mags;
	struct mag *mag = mag_of_thread(mags);
	bool done = false;
	u32 nr;

	if (unlikely(!mag || !mag_enter(mag)))
		return false;
	nr = mag->nr;
	if (likely(nr) && likely(mag->allocs % MAG_TICKS) &&
	    likely(mag_take_entry(pool, mag, mag->entry[nr - 1], READ_ONCE(pool->tick), mut))) {
		WRITE_ONCE(mag->nr, nr - 1);
		WRITE_ONCE(mag->allocs, mag->allocs + 1);
		done = true;
	}
	mag_leave(mag);
	return done;
}

/* PRIVATE -> pocketed, of the next generation. False: not PRIVATE, or to rest or be retired. */
static __always_inline bool mag_give_entry(struct kvmm_pool *pool, const struct mag *mag,
					   u32 index, u32 gen)
{
	struct kv_entry *entry;
	u64 word = kv_word_make(gen, 0, KV_WORD_PRIVATE), next;

	if (unlikely(index >= pool->nr_blocks || gen >= KV_ENTRY_GEN_MASK))
		return false;
	entry = entry_at(pool, index);
	if (unlikely(kv_entry_tires(&pool->entries, gen)))
		return false;
	next = word + KV_WORD_GEN - KV_WORD_PRIVATE + mag->stamp;
	/* A swap: another thread may free, stage or register the same handle at this moment. */
	return likely(kv_cas(&entry->word, &word, next));
}

/* As kvmm_free() of one block without a lock; false: nothing was done. */
static __always_inline bool mag_free_one(struct kvmm_pool *pool, const kvmm_mut_t *mut)
{
	struct mag *mag = mag_of_thread(pool->mags);
	u32 nr, index = mut->index;
	bool done = false;

	if (unlikely(!mag || !mag_enter(mag)))
		return false;
	nr = mag->nr;
	if (likely(nr < MAG_ENTRIES) && likely(mag_give_entry(pool, mag, index, mut->gen))) {
		WRITE_ONCE(mag->entry[nr], index);
		WRITE_ONCE(mag->nr, nr + 1);
		WRITE_ONCE(mag->frees, mag->frees + 1);
		done = true;
	}
	mag_leave(mag);
	return done;
}

/* The same for up to MAG_ROUNDS blocks. */
bool mag_alloc_some(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *blocks);
bool mag_free_some(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr);

#endif /* PERCPU_MAG_H */
