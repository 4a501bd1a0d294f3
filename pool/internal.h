/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of pool/ share: the pool, its tables, and who may touch what.
 *
 * Invariants, recomputed by kvmm_validate():
 *
 *  1. owner[] is a partition: each block is free, the null block, in exactly one extent of one
 *     live slot, or the block of exactly one entry.
 *  2. A block has an owner if and only if it is taken in the zone. Engines that round requests up
 *     hold more blocks than have owners.
 *  3. A slot is live if and only if it has extents; otherwise it is on the free list. Its
 *     generation is never used twice.
 *  4. An entry is in the registry if and only if it is ACTIVE or INACTIVE; in the order of
 *     eviction if and only if it is INACTIVE or UNNAMED; it has references if and only if it is
 *     ACTIVE.
 *  5. Every count in struct pool_count equals a recount.
 *
 * Locks, outermost first: compact_lock (whoever moves blocks, or touches their content), lock
 * (everything else here), then those of zone and device. The content of blocks is copied with
 * compact_lock held and lock not.
 */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include <string.h>

#include <kv/alloc.h>
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/hash.h>
#include <kv/lock.h>
#include <kv/pool.h>
#include <kv/rcu.h>
#include <kv/stat.h>
#include <kv/types.h>
#include <kv/zone.h>

/* ---- owners of blocks ---- */

/* An owner is its kind and, for slots and entries, an index. */
#define OWNER_INDEX_BITS	24u
#define OWNER_INDEX_MASK	(BIT(OWNER_INDEX_BITS) - 1)

enum owner_kind {
	OWNER_FREE,		/* 0, so that freeing is a memset() */
	OWNER_NULL,
	OWNER_SLOT,
	OWNER_ENTRY,
	OWNER_MOVE,		/* taken by a compaction under way, or left by one of its moves */
};

/* Compaction's marks, only between isolate and commit. */
#define OWNER_IS_SRC		BIT(30)
#define OWNER_IS_DST		BIT(31)

static_assert(KVMM_MAX_BLOCKS <= BIT(OWNER_INDEX_BITS), "an index fits an owner");

static inline u32 make_owner(enum owner_kind kind, u32 index)
{
	return (u32)kind << OWNER_INDEX_BITS | index;
}

static inline enum owner_kind owner_kind(u32 owner)
{
	return owner >> OWNER_INDEX_BITS;
}

static inline u32 owner_index(u32 owner)
{
	return owner & OWNER_INDEX_MASK;
}

/* ---- ranges ---- */

/*
 * One range, or none. Type-stable: the memory stays a slot until the pool is destroyed, so a
 * reader without the lock may look at it at any time; it believes what it saw if the version
 * says that nobody wrote meanwhile. What it needs of an ordinary range is on the first line.
 *
 * Guard: pool->lock. Those marked * are read without it and written inside version only.
 */
struct slot {
	u32			version;	/* sequence counter of the fields marked * */
	u32			gen;		/* * of the range, or of the next one if free */
	u32			refs;
	u32			pins;
	u64			seq;
	u64			last_access_ns;
	u32			nr;		/* blocks in all extents */
	u8			nr_ext;		/* * 0: free */
	u8			lost;		/* * a failed copy destroyed the content */
	u8			prio;
	u8			flags;		/* KVMM_ALLOC_* */
	u32			next;		/* in the chain of its sequence, or in the free list */
	u32			prev;		/* in the chain; KV_NONE: the first */
	struct kvmm_extent	ext[KVMM_MAX_RUNS];	/* * */
} __cacheline_aligned;

static_assert(offsetof(struct slot, ext[2]) == KV_CACHELINE, "two extents on the first line");
static_assert(sizeof(struct slot) == 2 * KV_CACHELINE, "a slot is two lines");

#define CHUNK_ORDER	8u
#define CHUNK_SLOTS	BIT(CHUNK_ORDER)

/* All slots. Replaced as a whole when it grows; chunks never move. */
struct slot_dir {
	struct kv_rcu_head	rcu;
	u32			nr_chunks;	/* fixed at creation */
	struct slot		*chunk[];	/* fixed at creation */
};

static inline u32 dir_nr_slots(const struct slot_dir *dir)
{
	return dir->nr_chunks << CHUNK_ORDER;
}

/* The index must be below dir_nr_slots(). */
static inline struct slot *dir_slot(const struct slot_dir *dir, u32 index)
{
	return &dir->chunk[index >> CHUNK_ORDER][index & (CHUNK_SLOTS - 1)];
}

/* ---- cached blocks ---- */

enum entry_state {
	ENTRY_FREE,		/* on the free list; no block */
	ENTRY_PRIVATE,		/* a mut handle names it */
	ENTRY_ACTIVE,		/* registered, referenced */
	ENTRY_INACTIVE,		/* registered, in the order of eviction */
	ENTRY_UNNAMED,		/* a free block that waits in the order (keeps_unnamed) */
	ENTRY_BATCH,		/* private, seen in the batch that is being checked */
	NR_ENTRY_STATES,
};

/* One cached block. Entries outlive places: compaction changes ->block and nothing else. */
struct entry {
	kvmm_key_t	key;		/* ->lock; while registered */
	u64		last_access_ns;	/* ->lock */
	u32		gen;		/* ->lock; changes when the block loses its owner or key */
	u32		refs;		/* ->lock */
	u32		block;		/* ->lock; but FREE */
	u32		link;		/* ->lock; free list, victims, or batch of dropped entries */
	u8		state;		/* ->lock; enum entry_state */
} __cacheline_aligned;

static_assert(sizeof(struct entry) == KV_CACHELINE, "an entry is one line");

/* ---- the pool ---- */

/* Counts, all under pool->lock. Sums of what has no second copy let a recount find a flip. */
struct pool_count {
	/* State. */
	u32 nr_ranges;
	u32 range_blocks;
	u64 range_refs;
	u64 range_pins;
	u64 range_gens;		/* sum over all slots of gen - gen_base */
	u64 range_seqs;		/* sum of seq */
	u64 range_attrs;	/* sum of slot_attrs() */
	u32 nr_entries[NR_ENTRY_STATES];
	u64 entry_refs;
	u64 entry_gens;
	u64 entry_keys;		/* sum of key_sum() over all registered */

	/* Events. */
	u64 allocs;
	u64 alloc_blocks;
	u64 frees;
	u64 fail_nospc;
	u64 fail_frag;
	u64 evictions;
	u64 hit_blocks;
	u64 miss_blocks;
	u64 registered;
	u64 compactions;
	u64 moved_blocks;
	u64 moves;
};

/* Why pool->gate is closed to callers. */
#define GATE_STOPPED	BIT(0)	/* blocks are being moved: wait for compact_lock */
#define GATE_POISONED	BIT(1)	/* for ever */

struct kvmm_pool {
	/* Fixed at creation; read without a lock. */
	struct kv_pool_parts		parts;
	struct kvmm_zone		*zone;		/* ours */
	struct kv_dev			*dev;		/* ours; NULL = ids only */
	struct kvmm_plane		*plane;		/* ours; the memory they name may not be */
	u32				nr_planes;	/* 0 = ids only */
	u32				nr_blocks;	/* null block included */
	u32				nr_usable;
	u32				block_tokens;
	u32				compact_max_blocks;
	u32				gen_base;	/* first generation of everything here */
	bool				has_null;
	bool				rounds;		/* the engine holds more than was asked for */
	u64				block_bytes;
	u64				own_addr;	/* device memory of ours, or 0 */
	u64				own_bytes;
	u32				*owner;		/* by block; the content: ->lock */
	struct entry			*entry;		/* nr_blocks; NULL without policy */
	void				*registry;	/* the content: ->lock */
	void				*policy;	/* the content: ->lock */
	char				name[KV_POOL_NAME];
	struct kv_rcu_head		rcu;		/* kv_pool_destroy() */

	/* Whoever moves blocks or touches their content. */
	struct kv_lock			compact_lock __cacheline_aligned;

	/* The hot lines. */
	struct kv_lock			lock __cacheline_aligned;
	u32				gate;		/* ->lock; READ_ONCE() as a hint */
	u32				free_slot;	/* ->lock; last freed first; KV_NONE */
	u32				free_entry;	/* ->lock; the same of entries */
	u32				nr_retired;	/* ->lock; slots out of generations */
	struct slot_dir			*slots;		/* ->lock; RCU */
	u32				*bucket;	/* ->lock; by hash of seq: a slot, or KV_NONE */
	u32				nr_buckets;	/* ->lock; a power of two */
	u64				seq_secret;	/* fixed at creation */
	u64				metadata_bytes;	/* ->lock */
	struct pool_count		count;		/* ->lock */
};

/* ---- pool.c ---- */

int __pool_enter_slow(struct kvmm_pool *pool);
void pool_poison(struct kvmm_pool *pool);

/* As KV_BUG_ON(), and the pool is closed. */
#define POOL_BUG_ON(pool, cond)			\
	({					\
		bool __bad = KV_BUG_ON(cond);	\
		if (__bad)			\
			pool_poison(pool);	\
		__bad;				\
	})

/* Take the lock. Waits while blocks are being moved: whoever is in sees a whole picture. */
static __always_inline int pool_enter(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	kv_lock(&pool->lock);
	if (likely(!pool->gate))
		return 0;
	return __pool_enter_slow(pool);
}

static __always_inline void pool_leave(struct kvmm_pool *pool)
{
	kv_unlock(&pool->lock);
}

/* 1, 2, ...; never 0, so that a zeroed handle is none. */
static inline u32 next_gen(u32 gen)
{
	return gen + 1 ? gen + 1 : 1;
}

/* -ESTALE if @gen was given out before @now, else it is made up, or another pool's. */
int refuse_handle(const struct kvmm_pool *pool, u32 now, u32 gen);

/* ---- slot.c ---- */

static inline struct slot *slot_at(const struct kvmm_pool *pool, u32 index)
{
	return dir_slot(pool->slots, index);
}

/* Make sure that there is a free slot: 0 or -ENOMEM. Drops no lock. */
int slots_reserve(struct kvmm_pool *pool);
/* Take a free slot; slots_reserve() has said that there is one. */
u32 slot_take(struct kvmm_pool *pool);
/* The range is gone: its handles are stale from here on. */
void slot_put(struct kvmm_pool *pool, u32 index);
/* 0 and *@slot, -ESTALE or -EINVAL. */
int slot_find(struct kvmm_pool *pool, kvmm_range_t range, struct slot **slot);
void slots_exit(struct kvmm_pool *pool);

static inline kvmm_range_t slot_handle(const struct slot *slot, u32 index)
{
	return (kvmm_range_t){ index, slot->gen };
}

/* Extents of a slot change between these two only. */
static inline void slot_write_begin(struct slot *slot)
{
	kv_seq_write_begin(&slot->version);
}

static inline void slot_write_end(struct slot *slot)
{
	kv_seq_write_end(&slot->version);
}

static inline void slot_set_ext(struct slot *slot, u32 i, u32 start, u32 nr)
{
	WRITE_ONCE(slot->ext[i].start, start);
	WRITE_ONCE(slot->ext[i].nr, nr);
}

/* What a recount can only find by a sum. */
static inline u64 slot_attrs(const struct slot *slot)
{
	return slot->prio | slot->flags << 8 | slot->lost << 16;
}

/* The content is gone; the range says so from here on. */
static inline void slot_lose(struct kvmm_pool *pool, struct slot *slot)
{
	pool->count.range_attrs -= slot_attrs(slot);
	slot_write_begin(slot);
	WRITE_ONCE(slot->lost, 1);
	slot_write_end(slot);
	pool->count.range_attrs += slot_attrs(slot);
}

static inline bool slot_is_pinned(const struct slot *slot)
{
	return slot->pins || slot->flags & KVMM_ALLOC_PINNED;
}

/* ---- seq.c ---- */

void seq_add(struct kvmm_pool *pool, u32 index);
void seq_del(struct kvmm_pool *pool, u32 index);
/* First, then next slot of sequence @seq, or KV_NONE. */
u32 seq_first(const struct kvmm_pool *pool, u64 seq);
u32 seq_next(const struct kvmm_pool *pool, u32 index);
/* Chains by a table of @nr buckets; takes @bucket and returns the old one. */
u32 *seq_rehash(struct kvmm_pool *pool, u32 *bucket, u32 nr);
u32 seq_bucket(const struct kvmm_pool *pool, u64 seq);

/* ---- range.c ---- */

/* A new range of @attr's kind over @ext; there is a free slot. Returns its handle. */
kvmm_range_t range_add(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
		       const struct kvmm_extent *ext, u32 nr_ext);
/* pool_enter() and slot_find(); on error the lock is not held. */
int range_enter(struct kvmm_pool *pool, kvmm_range_t range, struct slot **slot);
enum kv_placement range_placement(u32 flags);

/* ---- room.c ---- */

/**
 * struct room - an allocation that may have to wait until there is room
 * @take: take the blocks, under the lock: 0, -ENOSPC (then room is made), or another error
 * @nr: blocks
 * @flags: KVMM_ALLOC_*
 * @hopeless: set by @take with -ENOSPC: no room would help
 * @evicted, @moved: out
 */
struct room {
	int (*take)(struct kvmm_pool *pool, struct room *room);
	u32 nr;
	u32 flags;
	bool hopeless;
	u32 evicted;
	u32 moved;
};

/* @room->take() until it succeeds: as it is, after eviction, after compaction. No lock held. */
int pool_get_room(struct kvmm_pool *pool, struct room *room);

/* ---- block.c ---- */

void owner_fill(struct kvmm_pool *pool, u32 start, u32 nr, u32 owner);
void owner_clear(struct kvmm_pool *pool, u32 start, u32 nr);
/* Nobody's from here on, and free in the zone; if that says otherwise the pool is poisoned. */
void blocks_free(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);

static inline void block_free(struct kvmm_pool *pool, u32 block)
{
	blocks_free(pool, &(struct kvmm_extent){ block, 1 }, 1);
}

/* Zero the content: 0 or -EIO. No lock held; the blocks are the caller's and do not move. */
int blocks_zero(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);

/* ---- cache.c ---- */

int cache_init(struct kvmm_pool *pool);
void cache_exit(struct kvmm_pool *pool);
/* pool_enter(), but -EOPNOTSUPP without a policy. */
int cache_enter(struct kvmm_pool *pool);

static inline void entry_set_state(struct kvmm_pool *pool, struct entry *entry,
				   enum entry_state state)
{
	pool->count.nr_entries[entry->state]--;
	pool->count.nr_entries[state]++;
	entry->state = state;
}

/* Any flipped bit of a key changes its sum. */
static inline u64 key_sum(const kvmm_key_t *key)
{
	u64 half[2];

	memcpy(half, key, sizeof(half));
	return half[0] + 3 * half[1];
}

static inline u32 entry_index(const struct kvmm_pool *pool, const struct entry *entry)
{
	return entry - pool->entry;
}

void entry_new_gen(struct kvmm_pool *pool, struct entry *entry);
/* Back to the free list; its block is no longer its own. */
void entry_put(struct kvmm_pool *pool, struct entry *entry);
/* A picked entry loses its key, if it had one (then true). Its gen is a new one. */
bool entry_forget(struct kvmm_pool *pool, struct entry *entry);

static inline void count_evictions(struct kvmm_pool *pool, u32 nr)
{
	pool->count.evictions += nr;
	kv_count_add(KV_EV_EVICT, nr);
}

/* Free blocks and those that could be evicted. */
u32 cache_nr_available(struct kvmm_pool *pool);
/* Next victim, out of the order; NULL: there should have been one, and the pool is poisoned. */
struct entry *cache_pick(struct kvmm_pool *pool);
u32 cache_nr_order(const struct kvmm_pool *pool);
/* @nr private blocks; cache_nr_available() says that there are so many. Returns evictions. */
int cache_take(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *blocks, kvmm_key_t *evicted);
int ref_find(struct kvmm_pool *pool, kvmm_ref_t ref, struct entry **entry);
int mut_find(struct kvmm_pool *pool, kvmm_mut_t mut, struct entry **entry);

/* ---- move.c ---- */

/* Compact with the gate closed. compact_lock and lock held; drops and retakes lock. */
int pool_compact(struct kvmm_pool *pool, struct kvmm_compact *goal);

/* ---- validate.c ---- */

int pool_check(struct kvmm_pool *pool);

#endif /* POOL_INTERNAL_H */
