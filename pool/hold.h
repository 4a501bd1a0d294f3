/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of holds share: the table of a pool's holds, and their index by key.
 *
 * The table comes with the first hold and stays until the pool goes. A hold is one piece of memory
 * with everything in it: it is made, and its references are taken, before the table hears of it, and
 * it has left the table before they are dropped. So the table's lock is a leaf: under it there is no
 * call of the pool and no allocation.
 *
 * Invariants, recomputed by holds_check():
 *
 *  1. A slot has a hold, or is on the free list, or is reserved by who is making a hold, or is out of
 *     generations. A generation of a slot is used once.
 *  2. Each block of a hold is in the chain of its key, once, and nothing else is there.
 *  3. It is a block of the pool. Unless a caller has put or unpinned more than its own, it is REGISTERED,
 *     of the generation of its reference, and referenced; of a pinned hold it is pinned, at the place
 *     that the hold has noted. That is not recomputed: the check cannot tell whose mistake it finds.
 *  4. Each hold is in the chain of its owner, once, and if it is one on a range in the chain of that;
 *     nothing else is there.
 *  5. A hold on a range has no blocks; the range is live, referenced, and of a pinned hold pinned, with
 *     the same exception. Such a hold leaves the table with pool->lock held, for only then is it known whether it may.
 *  6. The counts, and the sum over all that a hold says, equal a recount.
 */
#ifndef POOL_HOLD_H
#define POOL_HOLD_H

#include <kv/lock.h>
#include <kvmm/hold.h>

#include "internal.h"

/* One block of a hold. Guard: ->lock of the table, for the links; the rest is fixed. */
struct held {
	kvmm_key_t	key;
	struct held	*next;		/* in the chain of the key */
	struct held	**prev;		/* what points to it */
	struct hold	*hold;
	u32		block;		/* place, if the hold is pinned */
};

/* Guard: ->lock of the table for the deadline, the rest is fixed once the table has it. */
struct hold {
	u64		owner;
	u64		since_ns;
	u64		deadline_ns;	/* 0: no lease */
	u64		sum;		/* hold_sum() */
	struct hold	*next;		/* of those that are being dropped; by who drops them */
	struct hold	*owner_next;	/* ->lock; in the chain of the owner */
	struct hold	**owner_prev;	/* ->lock; what points to it */
	struct hold	*range_next;	/* ->lock; in the chain of the range, if it has one */
	struct hold	**range_prev;	/* ->lock; what points to it */
	kvmm_hold_t	handle;
	kvmm_range_t	range;		/* gen 0: none, it is one on blocks */
	u32		nr;
	u32		reason;
	u32		flags;
	kvmm_domain_t	domain;
	char		text[KVMM_HOLD_TEXT + 1];
	kvmm_ref_t	*ref;		/* nr; behind the blocks, in the same memory */
	struct held	block[];	/* nr */
};

/* What its pins are, if it has any. */
static inline u32 hold_pin_type(const struct hold *hold)
{
	static const u8 type[KVMM_NR_HOLD_REASONS] = {
		[KVMM_HOLD_RDMA] = KVMM_PIN_RDMA, [KVMM_HOLD_GDS] = KVMM_PIN_GDS,
		[KVMM_HOLD_IPC] = KVMM_PIN_IPC, [KVMM_HOLD_COPY] = KVMM_PIN_COPY,
		[KVMM_HOLD_GRAPH] = KVMM_PIN_GRAPH,
	};

	return type[hold->reason];	/* KVMM_PIN_USER otherwise */
}

/* Guard: ->lock of the table. */
struct hold_slot {
	struct hold	*hold;		/* ours; NULL: free, reserved or retired */
	u32		gen;		/* of the hold, or of the next one */
	u32		next;		/* in the free list; KV_NONE ends it */
};

#define HOLD_CHUNK_ORDER	6u
#define HOLD_CHUNK		BIT(HOLD_CHUNK_ORDER)
#define HOLD_WALK		256u	/* slots that are looked at in one go */
#define HOLD_LOOK		64u	/* blocks of a chain, where the rest may be anything */
#define HOLD_OWNERS		256u	/* chains by owner */
#define HOLD_RANGES		256u	/* chains by range */

struct hold_table {
	/* Fixed at creation. */
	u64			id;		/* of the pool, to those who have addresses; not 0 */
	u64			secret;		/* of the index */
	u32			gen_base;	/* first generation */
	u32			nr_buckets;	/* a power of two */
	u64			fixed_sum;	/* of the four */

	struct kv_lock		lock __cacheline_aligned;
	u32			free;		/* ->lock; first free slot, KV_NONE */
	u32			nr_slots;	/* ->lock */
	u32			max_chunks;	/* ->lock; room in chunk */
	struct hold_slot	**chunk;	/* ->lock; ours; chunks never move */
	u32			nr_free;	/* ->lock */
	u32			nr_reserved;	/* ->lock */
	u32			nr_retired;	/* ->lock */
	u32			nr_holds;	/* ->lock */
	u64			nr_blocks;	/* ->lock; of all holds */
	u64			sum;		/* ->lock; of ->sum of all holds */
	u64			deadlines;	/* ->lock; sum of all deadlines */
	u64			gen_sum;	/* ->lock; of the generations of all slots */
	u64			bytes;		/* ->lock; of host memory, holds included */

	struct hold		*by_owner[HOLD_OWNERS];	/* ->lock; by hash of the owner */
	struct hold		*by_range[HOLD_RANGES];	/* ->lock; by index of the range */
	struct held		*bucket[];	/* ->lock; nr_buckets, by hash of the key */
};

/* ---- for the pool: hold_table.c ---- */

/* How many holds, and so how many of its references, there are on a range. No leaf lock held. */
u32 holds_of_range(struct kvmm_pool *pool, kvmm_range_t range);

/* ---- hold_table.c ---- */

/* 0 and the pool's table, NULL if there never was a hold; -EINVAL no pool; -EUCLEAN. */
int holds_enter(struct kvmm_pool *pool, struct hold_table **table);
/* The same, but without a table one is made, or -ENOMEM. */
int holds_get(struct kvmm_pool *pool, struct hold_table **table);

static inline struct hold_slot *hold_slot(const struct hold_table *table, u32 index)
{
	return &table->chunk[index >> HOLD_CHUNK_ORDER][index & (HOLD_CHUNK - 1)];
}

/* A slot for the hold to come: 0 or -ENOMEM. Neither it nor its generation is anybody else's. */
int hold_reserve(struct hold_table *table, kvmm_hold_t *handle);
/* It was not needed. */
void hold_unreserve(struct hold_table *table, kvmm_hold_t handle);
/*
 * Are there references for @hold beside those of the holds that the table has? No lock held. A short look:
 * false is certain, unless a caller has put more than its own.
 */
bool hold_has_refs(struct kvmm_pool *pool, struct hold_table *table, struct hold *hold);
/* From here on it is found. Nothing but its deadline changes any more. */
void hold_insert(struct hold_table *table, struct hold *hold);
/* It is found no longer, its handle is stale. The lock is held. */
void hold_remove(struct hold_table *table, struct hold *hold);

/* holds_enter() and the lock, if it returns 0 and *@hold. Else -ESTALE, -EINVAL, -EUCLEAN. */
int hold_enter(struct kvmm_pool *pool, kvmm_hold_t handle, struct hold_table **table,
	       struct hold **hold);

/* First of the chain in which all blocks of that key are. The lock is held. */
struct held *hold_chain(const struct hold_table *table, const kvmm_key_t *key);

/* First of the chain in which all holds of that owner are. The lock is held. */
struct hold **hold_owner_chain(struct hold_table *table, u64 owner);

/* ---- hold.c ---- */

/* 0 or -EINVAL; all but the prefix. @flags: KVMM_HOLD_* that it may have. */
int hold_check_attr(const struct kvmm_hold_attr *attr, u32 flags);
/* A hold without blocks or references in it yet, for @nr of them at most; NULL: no memory. */
struct hold *hold_new(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, u32 nr);
/* References in ->ref[] become pins; on error they are still references. */
int hold_pin_refs(struct kvmm_pool *pool, struct hold *hold);
/* The lock is held. */
void hold_set_deadline(struct hold_table *table, struct hold *hold, u64 deadline_ns);
/* Those in the list have left the table; they are of blocks. How many. No lock held. */
u32 holds_drop(struct kvmm_pool *pool, struct hold *list);

/**
 * struct hold_expiry - holds whose lease has run out
 * @now_ns: by which time
 * @flags: only those that have these are dropped
 * @nr_dropped, @nr_busy, @nr_left: out: dropped; somebody else has a pin; without @flags
 */
struct hold_expiry {
	u64 now_ns;
	u32 flags;
	u32 nr_dropped;
	u32 nr_busy;
	u32 nr_left;
};

int holds_expire(struct kvmm_pool *pool, struct hold_expiry *expiry);

/* ---- hold_range.c ---- */

/* Drop a hold on a range: 0, -EBUSY somebody else pins what would go, -ESTALE, -EINVAL, ... If @now_ns
 * is not 0, only if its lease has run out by then, else -EAGAIN. No lock held. */
int hold_release_range(struct kvmm_pool *pool, kvmm_hold_t handle, u64 now_ns);

static inline bool hold_is_of_range(const struct hold *hold)
{
	return hold->range.gen != 0;
}

/* What the holds of an owner have of a range. The lock is held, and pool->lock. */
struct range_share {
	u32 refs;
	u32 pins;
};

struct range_share holds_share(struct hold_table *table, u64 owner, kvmm_range_t range);
/* With that, and @extra references more, gone: would the range go although somebody pins it? */
bool share_is_barred(const struct slot *slot, struct range_share share, u32 extra);
/* Drop the reference, and the pin, of a hold that has left the table: 0, or -ESTALE, -EINVAL a caller has
 * taken the range, or the pin. pool->lock held. */
int hold_drop_range(struct kvmm_pool *pool, const struct hold *hold);

static inline u64 hold_bytes(const struct hold *hold)
{
	return sizeof(*hold) + hold->nr * (sizeof(hold->block[0]) + sizeof(hold->ref[0]));
}

static inline bool held_is(const struct held *held, const kvmm_key_t *key,
			   const kvmm_domain_t *domain)
{
	const kvmm_domain_t *own = &held->hold->domain;

	return kv_key_equal(&held->key, key) && own->tenant == domain->tenant &&
	       own->layout == domain->layout && own->group == domain->group;
}

static inline kvmm_ref_t held_ref(const struct held *held)
{
	return held->hold->ref[held - held->hold->block];
}

#endif /* POOL_HOLD_H */
