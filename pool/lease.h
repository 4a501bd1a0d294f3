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

/* One block of a hold. Guard: ->lock of the table, for the links; the rest is fixed. */
struct held {
	kvmm_key_t	key;
	struct held	*next;		/* in the chain of the key */
	struct held	**prev;		/* the pointer to it */
	struct hold	*hold;
	u32		block;		/* place, if the hold is pinned */
};

/* Fixed once the table has it. */
struct hold {
	u64		sum;		/* hold_sum() */
	struct hold	*next;		/* of those that are being dropped; the dropping thread's */
	kvmm_range_t	range;		/* gen 0: none, it is one on blocks */
	u32		index;		/* of its lease */
	u32		nr;
	u32		reason;
	u32		flags;		/* KVMM_HOLD_* */
	u64		domain;		/* kv_domain_word() */
	char		text[KVMM_HOLD_TEXT + 1];
	kvmm_ref_t	*ref;		/* nr; behind the blocks, in the same memory */
	struct held	block[];	/* nr */
};

/*
 * Guard: ->lock of the table. Fixed for a hold that the table has, but for the deadline and
 * links.
 */
struct lease {
	u64	owner;		/* 0: in no chain */
	u64	since_ns;
	u64	deadline_ns;	/* 0: no end */
	u32	gen;		/* of the slot, entry or hold; of a free hold the next one */
	u32	flags;		/* KVMM_OWN_* */
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

/*
 * A process or thread that an owner is. Guard: ->lock of the table; fixed, but for dead and next.
 */
struct lease_watch {
	u64			owner;
	u64			start;	/* when it was started, as numbers are reused */
	s32			pid;
	s32			tid;
	bool			dead;
	struct lease_watch	*next;
};

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

/* Its thing has that generation, and is something that has an owner. Any lock. */
bool lease_is_live(const struct kvmm_pool *pool, u32 id, u32 gen);

/*
 * It says @lease from here on, in place of a former one; in the chain it stays where it is as long
 * as the owner does. ->lock held, memory reserved.
 */
void lease_replace(struct lease_table *table, u32 id, struct lease lease);
/* The same beside a range or a block: references to a generation besides the owner's stay. */
void lease_write(struct lease_table *table, u32 id, struct lease lease);
/* The same has no owner. */
void lease_clear(struct lease_table *table, u32 id);
void lease_set_deadline(struct lease_table *table, u32 id, u64 deadline_ns);

/*
 * The first live lease of @owner behind @id, or of all if that is KV_NONE; else KV_NONE. Dead ones
 * on the way go. Blocks come last. ->lock held.
 */
u32 lease_next(const struct kvmm_pool *pool, struct lease_table *table, u64 owner, u32 id);

/* A copy of the lease beside {index, gen}; all zero if there is none. No leaf lock held. */
struct lease lease_look(struct kvmm_pool *pool, enum lease_kind kind, u32 index, u32 gen);

static inline u64 lease_deadline(u64 now_ns, u64 lease_ns)
{
	return lease_ns ? kv_ns_after(now_ns, lease_ns) : 0;
}

/* Memory for the count of a range, and for its owner: 0; -ENOMEM, or why the pool refuses. */
int range_reserve(struct kvmm_pool *pool, u32 index);

/* Its count besides the owner's goes up by @by, modulo 2^64. It is reserved; pool->lock held. */
void range_keep(struct kvmm_pool *pool, kvmm_range_t range, u64 by);

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

/* ---- lease.c: holds in it ---- */

/* Of holds, free ones included. ->lock held. */
static inline u32 nr_hold_slots(const struct lease_table *table)
{
	return (HOLD_CHUNK << table->nr_hold_chunks) - HOLD_CHUNK;
}

/* A place for the hold to come: 0 or -ENOMEM. No other call gets it, or its generation. */
int hold_reserve(struct lease_table *table, kvmm_hold_t *handle);
/* It was not needed. */
void hold_unreserve(struct lease_table *table, kvmm_hold_t handle);
/*
 * From here on it is found; but for its deadline @lease stays. pool->lock held, if it is on a
 * range.
 */
void hold_insert(struct lease_table *table, struct hold *hold, struct lease lease);
/* It is found no longer, its handle is stale. ->lock held, and pool->lock if it is on a range. */
void hold_remove(struct lease_table *table, struct hold *hold);

/* leases_enter() and ->lock, if it returns 0 and *@lease. Else -ESTALE, -EINVAL, -EUCLEAN. */
int hold_enter(struct kvmm_pool *pool, kvmm_hold_t handle, struct lease_table **table,
	       struct lease **lease);

/* First of the chain in which all blocks of that key are. ->lock held. */
struct held *hold_chain(const struct lease_table *table, const kvmm_key_t *key);

/*
 * Are there references for @hold beside those of the holds that the table has? No lock held. A
 * short look: false is certain, unless a caller has put more than its own.
 */
bool hold_has_refs(struct kvmm_pool *pool, struct lease_table *table, struct hold *hold);

static inline bool hold_is_of_range(const struct hold *hold)
{
	return hold->range.gen != 0;
}

static inline kvmm_ref_t held_ref(const struct held *held)
{
	return held->hold->ref[held - held->hold->block];
}

/* The type of its pins, if it has any. */
static inline u32 hold_pin_type(const struct hold *hold)
{
	static const u8 type[KVMM_NR_HOLD_REASONS] = {
		[KVMM_HOLD_RDMA] = KVMM_PIN_RDMA, [KVMM_HOLD_GDS] = KVMM_PIN_GDS,
		[KVMM_HOLD_IPC] = KVMM_PIN_IPC, [KVMM_HOLD_COPY] = KVMM_PIN_COPY,
		[KVMM_HOLD_GRAPH] = KVMM_PIN_GRAPH,
	};

	return type[hold->reason];	/* KVMM_PIN_USER otherwise */
}

/* ---- lease_own.c: range.c asks this where an owner is named at allocation ---- */

static inline bool own_attr_is_bad(const struct kvmm_range_attr *attr)
{
	return !attr->owner || attr->own_flags & ~KVMM_OWN_RECLAIM;
}

/* Room for the lease of the slot that is taken next: 0 or -ENOMEM. pool->lock held. */
int own_reserve_slot(struct kvmm_pool *pool);
/* pool->lock held. */
void own_new_range(struct kvmm_pool *pool, kvmm_range_t range, const struct kvmm_range_attr *attr);

void __own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail);
void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index);

/* A range is to be split, and was: the new one has its owner. pool->lock held, as below. */
static inline int own_reserve_split(struct kvmm_pool *pool, kvmm_range_t range)
{
	if (likely(!leases_of(pool)) ||
	    !lease_look(pool, LEASE_RANGE, range.index, range.gen).owner)
		return 0;
	return own_reserve_slot(pool);
}

static inline void own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail)
{
	if (unlikely(leases_of(pool) != NULL))
		__own_split(pool, range, tail);
}

/*
 * A reference was dropped, and not the last one. An owner has one of those that no hold has: when
 * there is none left, the owner has given its range back.
 */
static inline void own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	if (unlikely(leases_of(pool) != NULL))
		__own_put_range(pool, slot, index);
}

/*
 * A thread that allocates and frees through a magazine takes it for granted that a private block
 * is its alone. From here on others may take it away, or write to it, so there are none in this
 * pool any more. 0, or why the pool is closed. No lock held but compact_lock.
 */
int own_share_blocks(struct kvmm_pool *pool);

/* ---- lease_watch.c ---- */

/* Ask the system about all that are watched. No lock held. */
void leases_ask(struct lease_table *table);
bool lease_owner_is_dead(struct lease_table *table, u64 owner);

#endif /* POOL_LEASE_H */
