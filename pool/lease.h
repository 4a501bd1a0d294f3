/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of who owns ranges and private blocks.
 *
 * A record is kept beside the slot or the entry of that index, for one generation of it. What is freed
 * is not told: its generation moves on, and the record is dead from then on. It goes when the next
 * owner of that index is named, or when somebody comes by. So freeing costs nothing, and records are
 * never more than slots and entries.
 *
 *	bucket[hash(owner)] -> record <-> record <-> record	live or dead, of several owners
 *
 * Invariants, recomputed by owned_check():
 *
 *  1. A record with an owner is in the chain of the owner's bucket, once; nothing else is there, and a
 *     record without an owner is all zero.
 *  2. A live record of a range stands for one reference, which no hold has.
 *  3. The counts, and the sum over all that records say, equal a recount.
 *
 * Lock: ->lock is a leaf; pool->lock and the lock of holds may be held around it. What is about ranges
 * is written with pool->lock held as well. A record is written after its handle was found to be
 * live with ->lock held: the next owner of that index is named later, under the same lock, so
 * nobody overwrites the record of a successor.
 */
#ifndef POOL_LEASE_H
#define POOL_LEASE_H

#include <kv/lock.h>
#include <kvmm/owner.h>

#include "internal.h"

enum own_kind {
	OWN_RANGE,		/* by slot */
	OWN_BLOCK,		/* by entry */
	NR_OWN_KINDS,
};

/* A record by number: kind and index. */
#define OWN_INDEX_BITS		24u

static inline u32 own_id(enum own_kind kind, u32 index)
{
	return (u32)kind << OWN_INDEX_BITS | index;
}

static inline enum own_kind own_id_kind(u32 id)
{
	return id >> OWN_INDEX_BITS;
}

static inline u32 own_id_index(u32 id)
{
	return id & (BIT(OWN_INDEX_BITS) - 1);
}

/* Guard: ->lock of the table. */
struct own_rec {
	u64	owner;			/* 0: not in use */
	u64	since_ns;
	u64	deadline_ns;		/* 0: no lease */
	u32	gen;			/* of the slot or entry that it is about */
	u32	flags;			/* KVMM_OWN_* */
	u32	next;			/* in the chain: an id, or KV_NONE */
	u32	prev;			/* an id, or OWN_FIRST */
};

#define OWN_FIRST		(KV_NONE - 1)
#define OWN_CHUNK_ORDER		7u
#define OWN_CHUNK		BIT(OWN_CHUNK_ORDER)

/* A process or thread that an owner is. Guard: ->lock of the table; fixed, but for dead and next. */
struct own_watch {
	u64			owner;
	u64			start;	/* when it was started: its number may be given to another one */
	s32			pid;
	s32			tid;
	bool			dead;
	struct own_watch	*next;
};

#define OWN_WATCH_BUCKETS	64u

struct own_table {
	/* Fixed at creation. */
	u32			nr_buckets;	/* a power of two */
	u32			nr_chunks;	/* of each kind */
	u64			secret;
	struct own_rec		**chunk[NR_OWN_KINDS];	/* ours; from NULL once, kv_cas(), for good */

	struct kv_lock		lock __cacheline_aligned;
	u32			nr;		/* ->lock; records in use */
	u32			nr_watches;	/* ->lock; READ_ONCE() as a hint */
	u64			sum;		/* ->lock; over records in use */
	u64			bytes;		/* atomic; host memory */
	struct own_watch	*watch[OWN_WATCH_BUCKETS];	/* ->lock; ours */
	u32			bucket[];	/* ->lock; ids, or KV_NONE */
};

/*
 * Who allocates and frees through a magazine takes it for granted that a private block is his alone. From
 * here on others may take it away, or write to it, so there are none in this pool any more. 0, or why
 * the pool is closed. No lock held but compact_lock.
 */
int own_share_blocks(struct kvmm_pool *pool);

/* ---- lease.c ---- */

/* NULL: there never was an owner. */
static inline struct own_table *own_table_of(struct kvmm_pool *pool)
{
	/* Pairs with the swap in own_table_get(): who sees the table sees it made. */
	return smp_load_acquire(&pool->owned);
}

/* The same, but one is made; or NULL: no memory. */
struct own_table *own_table_get(struct kvmm_pool *pool);

/* Memory for the record of @id: 0 or -ENOMEM. Any lock but a leaf may be held. */
int own_reserve(struct own_table *table, u32 id);

/* Its record, or NULL if there is no memory for it. */
static inline struct own_rec *own_rec(const struct own_table *table, u32 id)
{
	u32 index = own_id_index(id);
	struct own_rec *chunk;

	if (index >> OWN_CHUNK_ORDER >= table->nr_chunks)
		return NULL;
	/* Pairs with the swap in own_reserve(): it is all zero, or what was written under ->lock. */
	chunk = smp_load_acquire(&table->chunk[own_id_kind(id)][index >> OWN_CHUNK_ORDER]);
	return chunk ? &chunk[index & (OWN_CHUNK - 1)] : NULL;
}

/* The thing of that index has that generation, and is something that has an owner. Any lock. */
bool own_is_live(const struct kvmm_pool *pool, u32 id, u32 gen);

void own_clear(struct own_table *table, u32 id);
void own_set_deadline(struct own_table *table, u32 id, u64 deadline_ns);

/* The first live record of @owner behind @id, or of all if that is KV_NONE; else KV_NONE. Dead ones on
 * the way go. ->lock held. */
u32 own_next(const struct kvmm_pool *pool, struct own_table *table, u64 owner, u32 id);

/* A copy of the live record of {index, gen}; all zero if there is none. No leaf lock held. */
struct own_rec own_look(struct kvmm_pool *pool, enum own_kind kind, u32 index, u32 gen);

u64 own_deadline(u64 now_ns, u64 lease_ns);

/* ---- range.c asks this where an owner is named at allocation ---- */

static inline bool own_attr_is_bad(const struct kvmm_range_attr *attr)
{
	return !attr->owner || attr->own_flags & ~KVMM_OWN_RECLAIM;
}

/* Room for the record of the slot that is taken next: 0 or -ENOMEM. pool->lock held. */
int own_reserve_slot(struct kvmm_pool *pool);
/* pool->lock held. */
void own_new_range(struct kvmm_pool *pool, kvmm_range_t range, const struct kvmm_range_attr *attr);

int __own_reserve_split(struct kvmm_pool *pool);
void __own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail);
void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index);

/* A range is to be split, and was: the new one has the same owner. pool->lock held, as in what follows. */
static inline int own_reserve_split(struct kvmm_pool *pool)
{
	return unlikely(pool->owned != NULL) ? __own_reserve_split(pool) : 0;
}

static inline void own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail)
{
	if (unlikely(pool->owned != NULL))
		__own_split(pool, range, tail);
}

/*
 * A reference was dropped, and not the last one. An owner has one of those that no hold has: when
 * there is none left, the owner has given its range back.
 */
static inline void own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	if (unlikely(pool->owned != NULL))
		__own_put_range(pool, slot, index);
}

/* ---- lease_watch.c ---- */

/* Ask the system about all that are watched. No lock held. */
void own_ask(struct own_table *table);
bool own_is_dead(struct own_table *table, u64 owner);
void own_free_watches(struct own_table *table);

#endif /* POOL_LEASE_H */
