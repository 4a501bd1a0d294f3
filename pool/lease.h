/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: which owner has which block or range, its purpose, since when, and until when at most.
 *
 * A lease is about a range (it stands beside the slot of the same index), about a private or
 * staged block (beside the entry), or it is a hold: references and pins on cached blocks, or on a
 * range, which only the lease knows of. The pool has one table of them. The table comes with the
 * first lease and stays.
 *
 *	bucket[hash(owner)] -> lease <-> lease <-> lease	of several owners; live or dead
 *
 * Blocks have buckets of their own, as an owner may have many, and only the others are looked
 * through again and again.
 *
 * A lease beside a slot or an entry is for one generation of it. The calls that free a range or a
 * block do not tell the table: the generation moves on, and the lease is dead from then on. A
 * dead lease goes when the next owner of that index is named, or when a walk meets it. So freeing
 * costs nothing, and there are never more of these leases than slots and entries.
 *
 * A hold is one piece of memory with everything in it but its lease. A call makes it, and takes
 * its references, before the table knows it; it has left the table before they are dropped.
 *
 * Invariants, recomputed by leases_check():
 *
 *  1. A lease with an owner is in the chain of the owner's bucket, once; nothing else is there. A
 *     lease beside a slot or an entry that neither has an owner nor is kept is all zero.
 *  2. A live lease of a range stands for one reference, which no hold has, and counts the holds
 *     on that generation of the range, and its pins by type.
 *  3. The lease of a hold has a hold, or is on the free list, or is reserved for a hold that is
 *     being made, or is out of generations. Each of its generations is used once.
 *  4. Each block of a hold is in the chain of its key, once, and nothing else is there.
 *  5. It is a block of the pool. Unless a caller has put or unpinned more than its own, it is
 *     REGISTERED, of the generation of its reference, and referenced; if the hold is pinned the
 *     block is pinned, at the place that the hold has noted. The check cannot tell which caller
 *     made the mistake, so it does not recompute this.
 *  6. A hold on a range has no blocks; the range is live, referenced, and pinned if the hold is,
 *     with the same exception. Such a hold enters and leaves the table with pool->lock held, for
 *     only then is it known whether it may.
 *  7. The counts, and the sum over all that leases and holds say, equal a recount.
 *
 * Lock: ->lock is a leaf; pool->lock may be held around it. Under it there is no call of the pool
 * and no allocation. Threads write leases of ranges with pool->lock held as well. A thread writes
 * a lease after it has found the handle live with ->lock held: the next owner of that index is
 * named later, under the same lock, so a late writer does not overwrite the lease of a successor.
 */
#ifndef POOL_LEASE_H
#define POOL_LEASE_H

#include <kv/lock.h>
#include <kvmm/ext/lease.h>

#include "internal.h"

enum lease_kind {
	LEASE_RANGE,		/* by slot */
	LEASE_BLOCK,		/* by entry */
	NR_LEASES_BESIDE,	/* kinds that stand beside something */
	LEASE_HOLD = NR_LEASES_BESIDE,	/* by handle */
};

/* A lease by number: kind and index. KV_NONE is none. */
#define LEASE_INDEX_BITS	30u

static inline u32 lease_id(enum lease_kind kind, u32 index)
{
	return (u32)kind << LEASE_INDEX_BITS | index;
}

static inline enum lease_kind lease_id_kind(u32 id)
{
	return id >> LEASE_INDEX_BITS;
}

static inline u32 lease_id_index(u32 id)
{
	return id & (BIT(LEASE_INDEX_BITS) - 1);
}

struct held;
struct hold;
struct lease_watch;

/*
 * Guard: ->lock of the table. Fixed for a hold that the table has, but for the deadline and
 * links.
 */
struct lease {
	u64	owner;		/* 0: in no chain */
	u64	since_ns;
	u64	deadline_ns;	/* 0: no end */
	u32	gen;		/* of the slot, entry or hold; of a free hold the next one */
	u32	flags;		/* KVMM_LEASE_* */
	u32	next;		/* in the chain, or the free list: an id, or KV_NONE */
	u32	prev;		/* an id, or LEASE_FIRST */
	union {
		struct hold	*hold;		/* LEASE_HOLD; ours; NULL: there is none */
		u64		kept;		/* otherwise; of a range: KEPT_HOLDS and pins */
	};
};

/*
 * References to a generation of a range besides its owner's: the number of holds, and above it that
 * of pins by type, but for those of KVMM_PIN_USER (pin.c).
 */
#define KEPT_HOLDS		(BIT64(PIN_GEN_BITS + PIN_TYPE_BITS) - 1)

#define LEASE_FIRST		(KV_NONE - 1)
#define LEASE_CHUNK_ORDER	7u	/* of those beside something */
#define LEASE_CHUNK		BIT(LEASE_CHUNK_ORDER)
#define HOLD_CHUNK_ORDER	6u	/* of the first holds; each further one is twice as long */
#define HOLD_CHUNK		BIT(HOLD_CHUNK_ORDER)
#define MAX_HOLD_CHUNKS		(LEASE_INDEX_BITS - HOLD_CHUNK_ORDER)

#define LEASE_WATCH_BUCKETS	64u

struct lease_table {
	/* Fixed at creation. */
	u64			id;		/* of the pool, in addresses; not 0 */
	u64			secret;		/* of the hashes */
	u32			gen_base;	/* first generation of holds */
	u32			nr_buckets;	/* a power of two */
	u32			nr_keys;	/* a power of two */
	u32			nr_chunks;	/* of each kind beside something */
	u64			fixed_sum;	/* of the six */
	struct held		**by_key;	/* nr_keys; ->lock; by hash of the key */
	u32			*bucket;	/* nr_buckets; ->lock; ids by hash of the owner */

	struct kv_lock		lock __cacheline_aligned;
	u32			nr;		/* ->lock; leases with an owner */
	u32			nr_watches;	/* ->lock; READ_ONCE() as a hint */
	u32			nr_holds;	/* ->lock */
	u64			nr_blocks;	/* ->lock; of all holds */
	u64			sum;		/* ->lock; over all leases */
	u64			bytes;		/* ->lock; READ_ONCE() as a hint; host memory */
	u32			free;		/* ->lock; first free hold, KV_NONE */
	u32			nr_free;	/* ->lock; of holds, as the next ones */
	u32			nr_reserved;	/* ->lock */
	u32			nr_retired;	/* ->lock */
	u32			nr_hold_chunks;	/* ->lock */
	struct lease		*holds[MAX_HOLD_CHUNKS];	/* ->lock; ours; never move */
	struct lease_watch	*watch[LEASE_WATCH_BUCKETS];	/* ->lock; ours */
	struct lease		*chunk[];	/* ours; from NULL once, under ->lock, for good */
};

/* ---- lease.c: the table ---- */

/* NULL: there never was a lease. */
static inline struct lease_table *leases_of(struct kvmm_pool *pool)
{
	/* Pairs with the swap in leases_get(): a thread that sees the table sees it made. */
	return smp_load_acquire(&pool->leases);
}

/* The same, but one is made: 0; -ENOMEM, or why the pool refuses. */
int leases_get(struct kvmm_pool *pool, struct lease_table **table);
/* 0 and leases_of(); -EINVAL no pool, or why it refuses. */
int leases_enter(struct kvmm_pool *pool, struct lease_table **table);

/* Memory for the lease of @id beside something: 0 or -ENOMEM. Any lock but a leaf may be held. */
int lease_reserve(struct lease_table *table, u32 id);

/* NULL if there is no memory for it. ->lock held, if it is one of a hold. */
static inline struct lease *lease_at(const struct lease_table *table, u32 id)
{
	u32 index = lease_id_index(id), order, at;
	struct lease *chunk;

	if (lease_id_kind(id) == LEASE_HOLD) {
		order = kv_log2((index >> HOLD_CHUNK_ORDER) + 1);
		chunk = order < MAX_HOLD_CHUNKS ? table->holds[order] : NULL;
		return chunk ? &chunk[index + HOLD_CHUNK - (HOLD_CHUNK << order)] : NULL;
	}
	at = lease_id_kind(id) * table->nr_chunks + (index >> LEASE_CHUNK_ORDER);
	if (index >> LEASE_CHUNK_ORDER >= table->nr_chunks)
		return NULL;
	/* Pairs with the release in lease_reserve(): all zero, or as written under ->lock. */
	chunk = smp_load_acquire(&table->chunk[at]);
	return chunk ? &chunk[index & (LEASE_CHUNK - 1)] : NULL;
}

static inline u64 lease_mix(u64 sum, u64 word)
{
	return kv_mul_fold(sum ^ word, 0xa0761d6478bd642full) + word;
}

/* All that a lease says: any flipped bit changes it. A hold has a sum of its own. */
u64 lease_sum(const struct lease *lease, u32 id);
/* The fields that are fixed; host memory without leases and holds; chunks that a table has. */
u64 leases_fixed_sum(const struct lease_table *table);
u64 leases_bare_bytes(const struct lease_table *table);
u32 leases_chunks_for(const struct kvmm_pool *pool);
/* The chain that leases of the owner are in. */
u32 *lease_bucket(const struct lease_table *table, u64 owner, enum lease_kind kind);

/*
 * It says @lease from here on, in place of a former one; in the chain it stays where it is as long
 * as the owner does. ->lock held, memory reserved.
 */
void lease_replace(struct lease_table *table, u32 id, struct lease lease);
/* The same beside a range or a block: references to a generation besides the owner's stay. */
void lease_write(struct lease_table *table, u32 id, struct lease lease);
/* The same has no owner. */
void lease_clear(struct lease_table *table, u32 id);

/* Memory for the count of a range, and for its owner: 0; -ENOMEM, or why the pool refuses. */
int range_reserve(struct kvmm_pool *pool, u32 index);

/* Its count besides the owner's goes up by @by, modulo 2^64. It is reserved; pool->lock held. */
void range_keep(struct kvmm_pool *pool, kvmm_range_t range, u64 by);

/* The same with ->lock held; the lease of another generation goes, if it is more, or stays. */
void range_add_kept(struct lease_table *table, kvmm_range_t range, u64 by, bool is_more);

/* The range is live and pool->lock held, so it stays as it is read. */
static inline u64 range_kept(struct kvmm_pool *pool, kvmm_range_t range)
{
	const struct lease_table *table = leases_of(pool);
	const struct lease *lease = NULL;

	kv_assert_held(&pool->lock);
	if (table)
		lease = lease_at(table, lease_id(LEASE_RANGE, range.index));
	return lease && kv_peek(&lease->gen) == range.gen ? kv_peek(&lease->kept) : 0;
}

/* Of holds, free ones included. ->lock held. */
static inline u32 nr_hold_slots(const struct lease_table *table)
{
	return (HOLD_CHUNK << table->nr_hold_chunks) - HOLD_CHUNK;
}

void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index);

/*
 * A reference was dropped, and not the last one. An owner has one of those that no hold has: when
 * there is none left, the owner has given its range back.
 */
static inline void own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	if (unlikely(leases_of(pool) != NULL))
		__own_put_range(pool, slot, index);
}

#endif /* POOL_LEASE_H */
