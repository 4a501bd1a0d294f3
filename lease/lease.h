/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds: leases with references and pins of their own; and all that is done with leases besides
 * writing them. The table, its invariants and its lock are in <pool/lease.h>.
 */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include <pool/determ.h>
#include <pool/lease.h>

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
	u32		flags;		/* KVMM_LEASE_* */
	u64		domain;		/* kv_domain_word() */
	char		text[KVMM_LEASE_TEXT + 1];
	kvmm_ref_t	*ref;		/* nr; behind the blocks, in the same memory */
	struct held	block[];	/* nr */
};

/*
 * A process or thread that an owner is. Guard: ->lock of the table; fixed, but for the last three.
 */
struct lease_watch {
	u64			owner;
	u64			start;	/* when it was started, as numbers are reused */
	s32			pid;
	s32			tid;
	bool			dead;
	u64			round;	/* of looks at leases, in which the system was asked last */
	struct lease_watch	*next;
};

/* ---- lease_table.c ---- */

/* Its thing has that generation, and is something that has an owner. Any lock. */
bool lease_is_live(const struct kvmm_pool *pool, u32 id, u32 gen);

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

/* Of @owner from now on. */
static inline struct lease lease_from_now(struct kvmm_pool *pool, u64 owner, u64 lease_ns,
					  u32 flags)
{
	u64 now_ns = pool_clock_ns(pool);

	return (struct lease){ .owner = owner, .since_ns = now_ns, .flags = flags,
			       .deadline_ns = lease_deadline(now_ns, lease_ns) };
}

static inline struct lease *hold_lease(const struct lease_table *table, u32 index)
{
	return lease_at(table, lease_id(LEASE_HOLD, index));
}

/* A place for the hold to come: 0 or -ENOMEM. No other call gets it, or its generation. */
int hold_reserve(struct lease_table *table, kvmm_lease_t *handle);
/* It was not needed. */
void hold_unreserve(struct lease_table *table, kvmm_lease_t handle);
/*
 * From here on it is found; but for its deadline @lease stays. pool->lock held, if it is on a
 * range.
 */
void hold_insert(struct lease_table *table, struct hold *hold, struct lease lease);
/* It is found no longer, its handle is stale. ->lock held, and pool->lock if it is on a range. */
void hold_remove(struct lease_table *table, struct hold *hold);

/* leases_enter() and ->lock, if it returns 0 and *@lease. Else -ESTALE, -EINVAL, -EUCLEAN. */
int hold_enter(struct kvmm_pool *pool, kvmm_lease_t handle, struct lease_table **table,
	       struct lease **lease);

/* First of the chain in which all blocks of that key are. ->lock held. */
struct held *hold_chain(const struct lease_table *table, const kvmm_key_t *key);

/*
 * Are there references for @hold beside those of the holds that the table has? No lock held. A
 * short look: false is certain, unless a caller has put more than its own.
 */
bool hold_has_refs(struct kvmm_pool *pool, struct lease_table *table, struct hold *hold);

u64 hold_bytes(const struct hold *hold);
/* All that a hold says: any flipped bit changes it. */
u64 hold_sum(const struct hold *hold);

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
	static const u8 type[KVMM_NR_LEASE_REASONS] = {
		[KVMM_LEASE_RDMA] = KVMM_PIN_RDMA, [KVMM_LEASE_GDS] = KVMM_PIN_GDS,
		[KVMM_LEASE_IPC] = KVMM_PIN_IPC, [KVMM_LEASE_COPY] = KVMM_PIN_COPY,
		[KVMM_LEASE_GRAPH] = KVMM_PIN_GRAPH,
	};

	return type[hold->reason];	/* KVMM_PIN_USER otherwise */
}

/* ---- lease_own.c: range.c asks this where an owner is named at allocation ---- */

static inline bool own_attr_is_bad(const struct kvmm_range_attr *attr)
{
	return !attr->owner || attr->own_flags & ~KVMM_LEASE_RECLAIM;
}

/* Room for the lease of the slot that is taken next: 0 or -ENOMEM. pool->lock held. */
int own_reserve_slot(struct kvmm_pool *pool);
/* pool->lock held. */
void own_new_range(struct kvmm_pool *pool, kvmm_range_t range, const struct kvmm_range_attr *attr);

/* A range is to be split, and was: the new one has its owner. pool->lock held. */
int own_reserve_split(struct kvmm_pool *pool, kvmm_range_t range);
void own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail);

/*
 * A thread that allocates and frees through a magazine takes it for granted that a private block
 * is its alone. From here on others may take it away, or write to it, so there are none in this
 * pool any more. 0, or why the pool is closed. No lock held but compact_lock.
 */
int own_share_blocks(struct kvmm_pool *pool);

/* ---- lease_watch.c ---- */

/* Is its process or thread gone? The system is asked once in each @round. No lock held. */
bool lease_owner_is_dead(struct lease_table *table, u64 owner, u64 round);

#endif /* LEASE_LEASE_H */
