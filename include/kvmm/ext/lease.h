/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a block, why and until when: holds, owners and pins. */
#ifndef KVMM_EXT_LEASE_H
#define KVMM_EXT_LEASE_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Holds: references on cached blocks that have an owner, a reason and a time.
 *
 * A reference says no more than that a block is in use. A hold is references on the blocks of a
 * prefix that calls can list, with owner, reason, beginning and deadline.
 *
 *	struct kvmm_hold_attr attr = KVMM_HOLD_ATTR_INIT;
 *
 *	attr.prefix   = &prefix;		// blocks, by key
 *	attr.reason   = KVMM_HOLD_TRANSFER;
 *	attr.owner    = request_id;
 *	attr.text     = "decode-7";
 *	attr.lease_ns = 30 * SECOND;
 *	attr.flags    = KVMM_HOLD_PIN;		// they must not move, either
 *	nr = kvmm_hold(pool, &attr, &hold);
 *	...
 *	kvmm_hold_release(pool, hold);		// or, if that never comes:
 *	kvmm_hold_expire(pool, 0);		// now and then
 *
 * A *lease* is a deadline that the owner has promised to keep. kvmm never drops a hold by itself:
 * the engine calls kvmm_hold_expire() once late owners can do no harm. Leases run by kvmm's
 * monotonic clock.
 *
 * Blocks held with KVMM_HOLD_PIN stay where they are and have *addresses* (struct kvmm_pin_addr)
 * for other components, which can check them later: an address is good exactly as long as a pin on
 * that very block is held.
 *
 * Any thread. A hold counts in the order of eviction as a match does. Finding, renewing and
 * releasing a hold takes one short lock of its own, and time independent of the number of holds.
 */

/** Most bytes of a hold's text, without the NUL. */
#define KVMM_HOLD_TEXT	31u

/** A hold. It goes stale when the hold is released or expires. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_hold_t;

/**
 * enum kvmm_hold_reason - what blocks are held for
 * @KVMM_HOLD_USER: anything else
 * @KVMM_HOLD_REQUEST: a request that runs, or is about to
 * @KVMM_HOLD_TRANSFER: to be sent, or received, by the engine
 * @KVMM_HOLD_RDMA: a remote side may read or write them at any time
 * @KVMM_HOLD_GDS: storage does, directly
 * @KVMM_HOLD_IPC: another process has them mapped
 * @KVMM_HOLD_COPY: copies to another tier or device are under way
 * @KVMM_HOLD_GRAPH: a captured graph has their addresses in it
 */
enum kvmm_hold_reason {
	KVMM_HOLD_USER,
	KVMM_HOLD_REQUEST,
	KVMM_HOLD_TRANSFER,
	KVMM_HOLD_RDMA,
	KVMM_HOLD_GDS,
	KVMM_HOLD_IPC,
	KVMM_HOLD_COPY,
	KVMM_HOLD_GRAPH,
	KVMM_NR_HOLD_REASONS,
};

/** kvmm_hold_reason_name() - "user", "request", ...; "?" if there is no such reason. */
static inline const char *kvmm_hold_reason_name(uint32_t reason)
{
	return kvmm_enum_name(KVMM_NAME_HOLD_REASON, reason);
}

#define KVMM_HOLD_PIN		(1u << 0)	/* the blocks stay where they are, too */
#define KVMM_HOLD_PARTIAL	(1u << 1)	/* those that are cached, if at least one is */
#define KVMM_HOLD_RECLAIM	(1u << 2)	/* kvmm_lease_expire() may drop it (owner.h) */

/**
 * struct kvmm_hold_attr - what to hold, and for which owner
 * @size: sizeof(struct kvmm_hold_attr); set by KVMM_HOLD_ATTR_INIT
 * @prefix: of kvmm_hold(): the blocks; any keys, in any order; a key given twice is held twice
 * @owner: the engine's name of the owner
 * @text: NULL, or up to KVMM_HOLD_TEXT bytes more about it; copied
 * @lease_ns: the owner is done within that time; 0 = no lease
 * @reason: enum kvmm_hold_reason
 * @flags: KVMM_HOLD_*
 */
struct kvmm_hold_attr {
	size_t size;
	const struct kvmm_prefix *prefix;
	uint64_t owner;
	const char *text;
	uint64_t lease_ns;
	uint32_t reason;
	uint32_t flags;
};

#define KVMM_HOLD_ATTR_INIT { sizeof(struct kvmm_hold_attr), NULL, 0, NULL, 0, 0, 0 }

/**
 * kvmm_hold() - hold cached blocks by key
 * @hold: set on success only
 *
 * Holds all blocks of the prefix, or with KVMM_HOLD_PARTIAL those that are cached. Allocates memory
 * before the first reference, so that a failure leaves no trace.
 *
 * Return: number of blocks held, at least 1; -ENOENT one is not cached, or with KVMM_HOLD_PARTIAL
 * none; -EBUSY KVMM_HOLD_PIN, and one is being moved; -E2BIG KVMM_HOLD_PIN, and the pool would have
 * more pins than it may; -ENOMEM; -EINVAL; -EOVERFLOW a block has all
 * the references, or pins, it can have; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_hold(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
		       kvmm_hold_t *hold);

/**
 * kvmm_hold_take() - make a hold of references that have no owner
 * @attr: its prefix is NULL
 * @refs: @nr references of the caller, of blocks of one domain: the hold's from then on
 * @hold: set on success only
 *
 * A hold does not take references of another: the call refuses more references than there are
 * beside those of holds, as far as the latest 64 holds of each block tell.
 *
 * Return: 0; -EBUSY, -E2BIG as kvmm_hold(); -ESTALE; -ENOMEM; -EINVAL; -EOVERFLOW;
 * -EOPNOTSUPP the pool has no policy. On failure the references are still the caller's.
 */
KVMM_API int kvmm_hold_take(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
			    const kvmm_ref_t *refs, uint32_t nr, kvmm_hold_t *hold);

/**
 * kvmm_hold_range() - one more reference on a range, with an owner; with KVMM_HOLD_PIN a pin, too
 * @attr: its prefix is NULL
 * @hold: set on success only
 *
 * It is released as others are; -EBUSY if the range would go with it while others pin it.
 *
 * Return: 0; -ESTALE; -ENOMEM; -EINVAL; -EOVERFLOW.
 */
KVMM_API int kvmm_hold_range(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
			     kvmm_range_t range, kvmm_hold_t *hold);

/**
 * kvmm_hold_release() - drop a hold and its references
 *
 * If surplus puts or unpins took what the hold had of a block, the call drops what is left, makes
 * the handle stale, and returns an error.
 *
 * Return: 0; -ESTALE it was released, or has expired, or lost a block; -EINVAL it is none, or lost
 * a reference or a pin; -EBUSY see kvmm_hold_range().
 */
KVMM_API int kvmm_hold_release(struct kvmm_pool *pool, kvmm_hold_t hold);

/**
 * kvmm_hold_renew() - the lease ends @lease_ns from now; 0 = no lease any more
 *
 * An expired hold can be renewed until a call drops it.
 *
 * Return: 0; -ESTALE; -EINVAL.
 */
KVMM_API int kvmm_hold_renew(struct kvmm_pool *pool, kvmm_hold_t hold, uint64_t lease_ns);

/**
 * kvmm_hold_expire() - drop the holds with a lease that has run out
 * @now_ns: by which time, on kvmm's clock; 0 = now
 *
 * A pool with KVMM_POOL_DETERMINISTIC has no clock but @now_ns: "now" is the latest one so far, 0
 * at first, and leases count from there. All ranks must give the same.
 *
 * Walks all holds, with the lock held for some hundred at a time. For a timer, or for when memory
 * is short.
 *
 * Return: how many; -EINVAL.
 */
KVMM_API int kvmm_hold_expire(struct kvmm_pool *pool, uint64_t now_ns);

/* ---- looking ---- */

/**
 * struct kvmm_hold_info - one hold, as of one moment
 * @owner, @reason, @flags, @text: as asked for
 * @since_ns: kvmm's clock when it was made
 * @age_ns: since then
 * @deadline_ns: end of the lease on that clock; 0 = no lease
 * @nr: blocks
 * @reserved: 0
 * @hold: its handle
 * @range: of a hold on a range, which has no blocks here; else all zero
 */
struct kvmm_hold_info {
	uint64_t owner;
	uint64_t since_ns;
	uint64_t age_ns;
	uint64_t deadline_ns;
	uint32_t reason;
	uint32_t flags;
	uint32_t nr;
	uint32_t reserved;
	kvmm_hold_t hold;
	char text[KVMM_HOLD_TEXT + 1];
	kvmm_range_t range;
};

KVMM_API int kvmm_hold_get_info_sized(struct kvmm_pool *pool, kvmm_hold_t hold,
				      struct kvmm_hold_info *info, size_t size);

/** kvmm_hold_get_info() - Return: 0; -ESTALE; -EINVAL. */
static inline int kvmm_hold_get_info(struct kvmm_pool *pool, kvmm_hold_t hold,
				     struct kvmm_hold_info *info)
{
	return kvmm_hold_get_info_sized(pool, hold, info, sizeof(*info));
}

KVMM_API int kvmm_hold_next_sized(struct kvmm_pool *pool, uint32_t *cursor,
				  struct kvmm_hold_info *info, size_t size);

/**
 * kvmm_hold_next() - walk all holds
 * @cursor: 0 at first; moved on by each call
 *
 * Holds that come and go meanwhile may or may not be seen.
 *
 * Return: 0; -ENOENT that was all; -EINVAL.
 */
static inline int kvmm_hold_next(struct kvmm_pool *pool, uint32_t *cursor,
				 struct kvmm_hold_info *info)
{
	return kvmm_hold_next_sized(pool, cursor, info, sizeof(*info));
}

KVMM_API int kvmm_block_holds_sized(struct kvmm_pool *pool, const kvmm_key_t *key,
				    const kvmm_domain_t *domain, struct kvmm_hold_info *infos,
				    uint32_t max, size_t size);

/**
 * kvmm_block_holds() - list the holds on the block of a key
 * @domain: of the key; NULL = domain 0
 * @infos: room for @max; a hold that has the key twice is there twice
 *
 * Also of a block that look-ups of this key miss by now, as long as it is held under it.
 *
 * Return: how many there are, which may be more than @max; 0 none; -EINVAL.
 */
static inline int kvmm_block_holds(struct kvmm_pool *pool, const kvmm_key_t *key,
				   const kvmm_domain_t *domain, struct kvmm_hold_info *infos,
				   uint32_t max)
{
	return kvmm_block_holds_sized(pool, key, domain, infos, max, sizeof(*infos));
}

/**
 * kvmm_hold_refs() - the blocks of a hold
 * @refs: NULL, or room for @max: its references, borrowed: good until it is released or expires
 * @keys: NULL, or room for @max: their keys
 *
 * Return: number of blocks, which may be more than @max; -ESTALE; -EINVAL.
 */
KVMM_API int kvmm_hold_refs(struct kvmm_pool *pool, kvmm_hold_t hold, kvmm_ref_t *refs,
			    kvmm_key_t *keys, uint32_t max);

/* ---- addresses of pinned blocks ---- */

/**
 * struct kvmm_pin_addr - one pinned block, for a component that knows nothing of pools and holds
 * @pool_id: of the pool; unlike all others, also in other processes and at other times; never 0
 * @key: of the block
 * @block: where it lies
 * @index, @gen: which block that is, of all that ever had the key
 * @reserved: 0
 *
 * Plain bytes, 40 of them, without pointers: may be sent and stored.
 *
 * Fixed: its bytes are sent and stored.
 */
struct kvmm_pin_addr {
	uint64_t pool_id;
	kvmm_key_t key;
	uint32_t block;
	uint32_t index;
	uint32_t gen;
	uint32_t reserved;
};

/**
 * kvmm_pin_addrs() - addresses of the blocks of a hold
 * @addrs: room for @max, in the order of the hold's blocks
 *
 * Return: number of blocks, which may be more than @max; -EPERM it was made without KVMM_HOLD_PIN;
 * -ESTALE, also if an unpin too many has left a block of it without a pin; -EINVAL.
 */
KVMM_API int kvmm_pin_addrs(struct kvmm_pool *pool, kvmm_hold_t hold, struct kvmm_pin_addr *addrs,
			    uint32_t max);

/**
 * kvmm_pin_check() - check that a block is still pinned at its address
 *
 * It is as long as any hold pins it, not only the one of the address. The call checks the block,
 * too: a surplus unpin may have taken the hold's pin.
 *
 * Return: 0; -ESTALE no longer; -EXDEV it is an address of another pool; -EINVAL.
 */
KVMM_API int kvmm_pin_check(struct kvmm_pool *pool, const struct kvmm_pin_addr *addr);

/*
 * Owners: to which request or worker does memory belong, since when, and until when at most?
 *
 * An engine can lose ranges, private and staged blocks, references and pins: a request aborts on an
 * unforeseen path, a worker dies. What was given an *owner* (64 bits, not all 0: a request, a
 * worker, a connection) can be listed, taken back, and found by its age or its owner's death:
 *
 *	attr.owner    = request_id;			// of struct kvmm_range_attr
 *	attr.lease_ns = 30 * SECOND;
 *	err = kvmm_range_alloc_attr(pool, &attr, &range);
 *	...
 *	kvmm_owner_renew(pool, request_id, 30 * SECOND);	// at each step: it is alive
 *	...
 *	kvmm_owner_release(pool, request_id);		// aborted: everything that it has, at once
 *
 *	nr = kvmm_leaks(pool, &what, rows, 64);		// now and then
 *
 * Three kinds of things have owners: ranges, private and staged blocks (here), and holds, which are
 * references and pins with an owner (above). A range or a block has one owner at a time; a
 * hold is for one owner, and there may be any number of holds on a thing.
 *
 * A *lease* is a deadline that the owner has promised to keep. When it runs out nothing happens
 * until the engine calls kvmm_lease_expire(): that gives back things leased with KVMM_OWN_RECLAIM
 * or KVMM_HOLD_RECLAIM, and only counts the rest.
 *
 * Giving back by force is safe for the next owner, since handles carry generations: all later calls
 * of the former owner say -ESTALE, and writes through kvmm_range_write() and kvmm_mut_write()
 * cannot hit what belongs to another by then.
 *
 * A pool keeps records beside ranges and blocks, in pieces of memory for owned blocks: without
 * owners they cost nothing. From the first private block on that gets an owner, or that
 * kvmm_mut_write() writes, the pool keeps no blocks aside for its threads, since that relies on one
 * thread having a private block. Records say nothing about a thing that is gone, so freeing neither
 * knows nor clears them.
 */

#define KVMM_OWN_RECLAIM	(1u << 0)	/* kvmm_lease_expire() may give it back */

/**
 * struct kvmm_own - an owner to name
 * @size: sizeof(struct kvmm_own); set by KVMM_OWN_INIT
 * @owner: not 0; or 0: no owner any more
 * @lease_ns: the owner is done within that time; 0 = no lease
 * @flags: KVMM_OWN_*
 */
struct kvmm_own {
	size_t size;
	uint64_t owner;
	uint64_t lease_ns;
	uint32_t flags;
	uint32_t reserved;
};

#define KVMM_OWN_INIT { sizeof(struct kvmm_own), 0, 0, 0, 0 }

enum kvmm_owned_kind {
	KVMM_OWNED_RANGE,
	KVMM_OWNED_PRIVATE,
	KVMM_OWNED_STAGED,
	KVMM_OWNED_HOLD,	/* references */
	KVMM_OWNED_PIN,		/* references that are pins */
	KVMM_NR_OWNED_KINDS,
};

/**
 * kvmm_own_many() - name the owner of ranges or blocks, or renew the lease of one's own
 * @own: the same for all of them; replaces what was said before
 * @kind: KVMM_OWNED_RANGE: one reference of each is the owner's from then on, the one that
 *	kvmm_owner_release() drops; KVMM_OWNED_PRIVATE: they remain the owner's when staged; or
 *	KVMM_OWNED_STAGED. Registered blocks have no owner: see kvmm_hold()
 * @handles: @nr of them, of the type that @kind says, see struct kvmm_owned
 *
 * Return: 0; -ESTALE, -EINVAL one of them is no such thing (any more), or there is no such kind;
 * -EOPNOTSUPP blocks of a pool without policy; -ENOMEM. On failure nothing has changed.
 */
KVMM_API int kvmm_own_many(struct kvmm_pool *pool, const struct kvmm_own *own, uint32_t kind,
			   const void *handles, uint32_t nr);

/** kvmm_own_ranges() - kvmm_own_many() of ranges. */
static inline int kvmm_own_ranges(struct kvmm_pool *pool, const struct kvmm_own *own,
				  const kvmm_range_t *ranges, uint32_t nr)
{
	return kvmm_own_many(pool, own, KVMM_OWNED_RANGE, ranges, nr);
}

/** kvmm_own_muts() - kvmm_own_many() of private blocks. */
static inline int kvmm_own_muts(struct kvmm_pool *pool, const struct kvmm_own *own,
				const kvmm_mut_t *muts, uint32_t nr)
{
	return kvmm_own_many(pool, own, KVMM_OWNED_PRIVATE, muts, nr);
}

/** kvmm_own_staged() - kvmm_own_many() of staged blocks. */
static inline int kvmm_own_staged(struct kvmm_pool *pool, const struct kvmm_own *own,
				  const kvmm_staged_t *staged, uint32_t nr)
{
	return kvmm_own_many(pool, own, KVMM_OWNED_STAGED, staged, nr);
}

/**
 * kvmm_owner_renew() - all leases of an owner end @lease_ns from now; 0 = no lease any more
 *
 * Things without a lease get one, holds included. Takes time for what the owner has, not for the
 * pool.
 *
 * Return: number of ranges, blocks and holds; -EINVAL @owner is 0.
 */
KVMM_API int kvmm_owner_renew(struct kvmm_pool *pool, uint64_t owner, uint64_t lease_ns);

/**
 * kvmm_owner_release() - give back everything that an owner has
 *
 * Drops its holds and one reference of each of its ranges, and frees its private and staged blocks:
 * in one go, so that no call sees half of it. Does nothing if others pin a range that would have to
 * go, or a block is being written to, staged or published at this moment.
 *
 * Return: number of ranges, blocks and holds; -EBUSY; -EINVAL @owner is 0.
 */
KVMM_API int kvmm_owner_release(struct kvmm_pool *pool, uint64_t owner);

/**
 * struct kvmm_expired - what kvmm_lease_expire() has found and done
 * @nr_reclaimed: ranges, blocks and holds that were given back
 * @nr_busy: the same, but pinned by others: left for the next call
 * @nr_left: expired without a RECLAIM flag: only counted
 * @reserved: 0
 */
struct kvmm_expired {
	uint32_t nr_reclaimed;
	uint32_t nr_busy;
	uint32_t nr_left;
	uint32_t reserved;
};

KVMM_API int kvmm_lease_expire_sized(struct kvmm_pool *pool, uint64_t now_ns,
				     struct kvmm_expired *expired, size_t size);

/**
 * kvmm_lease_expire() - give back or count things with a lease that has run out
 * @now_ns: by which time, on kvmm's clock; 0 = now
 * @expired: NULL, or out: counts
 *
 * Walks all leases; holds a lock for some dozens of things at a time.
 *
 * Return: number of things that were given back; -EINVAL.
 */
static inline int kvmm_lease_expire(struct kvmm_pool *pool, uint64_t now_ns,
				    struct kvmm_expired *expired)
{
	return kvmm_lease_expire_sized(pool, now_ns, expired, sizeof(*expired));
}

/**
 * kvmm_owner_watch() - an owner lives as long as a process, or a thread, does
 * @pid: process, as this process numbers it
 * @tid: 0 = all of the process; else the thread
 *
 * kvmm_leaks() lists what a dead owner left behind, and asks the system whether it lives. Another
 * process that got the same number meanwhile does not pass for it.
 *
 * Return: 0; -ESRCH there is no such process or thread; -EOPNOTSUPP the system does not tell (no
 * /proc); -EEXIST the owner is watched already; -ENOMEM; -EINVAL.
 */
KVMM_API int kvmm_owner_watch(struct kvmm_pool *pool, uint64_t owner, int32_t pid, int32_t tid);

/** kvmm_owner_unwatch() - no longer. Return: 0; -ENOENT it was not watched; -EINVAL. */
KVMM_API int kvmm_owner_unwatch(struct kvmm_pool *pool, uint64_t owner);

/* ---- looking ---- */

/** kvmm_owned_kind_name() - "range", "private", ...; "?" if there is no such kind. */
static inline const char *kvmm_owned_kind_name(uint32_t kind)
{
	return kvmm_enum_name(KVMM_NAME_OWNED_KIND, kind);
}

#define KVMM_LEAK_EXPIRED	(1u << 0)	/* its lease has run out */
#define KVMM_LEAK_OLD		(1u << 1)	/* it has no lease and is older than asked for */
#define KVMM_LEAK_LONE		(1u << 2)	/* it has no lease and is all that its owner has */
#define KVMM_LEAK_DEAD		(1u << 3)	/* its owner's process or thread is gone */

/**
 * struct kvmm_owned - one thing that is held, as of one moment
 * @owner: 0 = none named
 * @since_ns: kvmm's clock when it was given that owner; without one, when it was allocated
 * @age_ns: since then
 * @deadline_ns: end of the lease on that clock; 0 = no lease
 * @bytes: of its blocks
 * @kind: enum kvmm_owned_kind
 * @index, @gen: its handle, typed by @kind: kvmm_range_t, kvmm_mut_t, kvmm_staged_t, kvmm_hold_t
 * @nr: blocks; of a hold on a range 0
 * @refs, @pins: of ranges: of all owners
 * @flags: KVMM_OWN_*, or KVMM_HOLD_*
 * @reason: of holds: enum kvmm_hold_reason
 * @suspect: why it is listed by kvmm_leaks(): KVMM_LEAK_*
 * @text: of holds
 */
struct kvmm_owned {
	uint64_t owner;
	uint64_t since_ns;
	uint64_t age_ns;
	uint64_t deadline_ns;
	uint64_t bytes;
	uint32_t kind;
	uint32_t index;
	uint32_t gen;
	uint32_t nr;
	uint32_t refs;
	uint32_t pins;
	uint32_t flags;
	uint32_t reason;
	uint32_t suspect;
	uint32_t reserved;
	char text[KVMM_HOLD_TEXT + 1];
};

KVMM_API int kvmm_owned_next_sized(struct kvmm_pool *pool, uint64_t *cursor, struct kvmm_owned *row,
				   size_t size);

/**
 * kvmm_owned_next() - walk everything that is held, owners named or not
 * @cursor: 0 at first; moved on by each call
 *
 * First ranges, then private and staged blocks, then holds. What comes and goes meanwhile may or
 * may not be seen. The pool's lock is held for some hundred ranges at a time, and for nothing else.
 *
 * Return: 0; -ENOENT that was all; -EINVAL.
 */
static inline int kvmm_owned_next(struct kvmm_pool *pool, uint64_t *cursor, struct kvmm_owned *row)
{
	return kvmm_owned_next_sized(pool, cursor, row, sizeof(*row));
}

/**
 * struct kvmm_leak_attr - what is suspicious
 * @size: sizeof(struct kvmm_leak_attr); set by KVMM_LEAK_ATTR_INIT
 * @older_ns: list what has no lease and is of that age; 0 = do not
 * @lone_ns: list what has no lease, is of that age, and is all that its owner still has; 0 = do
 *	not. A hint only: an owner of one thing may well be alive
 * @now_ns: on kvmm's clock; 0 = now
 * @owner: things of that owner only; 0 = of all
 * @kinds: BIT(enum kvmm_owned_kind) of those that are wanted; 0 = all
 * @reserved: 0
 *
 * Leases that have run out and things of owners that have died are always suspicious.
 */
struct kvmm_leak_attr {
	size_t size;
	uint64_t older_ns;
	uint64_t lone_ns;
	uint64_t now_ns;
	uint64_t owner;
	uint32_t kinds;
	uint32_t reserved;
};

#define KVMM_LEAK_ATTR_INIT { sizeof(struct kvmm_leak_attr), 0, 0, 0, 0, 0, 0 }

KVMM_API int kvmm_leaks_sized(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
			      struct kvmm_owned *rows, uint32_t max, size_t size);

/**
 * kvmm_leaks() - list what may have been forgotten
 * @attr: NULL: leases that have run out, and what dead owners have left
 * @rows: room for @max
 *
 * Walks as kvmm_owned_next() does, and gives nothing back.
 *
 * Return: how many there are, which may be more than @max; -EINVAL.
 */
static inline int kvmm_leaks(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
			     struct kvmm_owned *rows, uint32_t max)
{
	return kvmm_leaks_sized(pool, attr, rows, max, sizeof(*rows));
}

KVMM_API int kvmm_leaks_next_sized(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
				   uint64_t *cursor, struct kvmm_owned *rows, uint32_t max,
				   size_t size);

/**
 * kvmm_leaks_next() - the same in parts
 * @cursor: 0 at first; moved on by each call
 *
 * Return: how many of @rows were filled: fewer than @max if that was all; -EINVAL.
 */
static inline int kvmm_leaks_next(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
				  uint64_t *cursor, struct kvmm_owned *rows, uint32_t max)
{
	return kvmm_leaks_next_sized(pool, attr, cursor, rows, max, sizeof(*rows));
}

/* ---- content, by handle ---- */

/**
 * kvmm_range_write() - copy from host memory into a block of a range
 * @at: which of its blocks, from 0 on
 * @offset: in bytes, counted through the planes one after the other
 *
 * The call looks at the generation once the range can neither move nor change its owner, and that
 * lasts until the copy is done: a late writer gets -ESTALE, and never hits a new owner. A range
 * freed meanwhile goes when the copy is done.
 *
 * Return: 0; -ESTALE; -EINVAL no such block, outside it, or a pool of ids only; -EIO; -EOVERFLOW.
 */
static inline int kvmm_range_write(struct kvmm_pool *pool, kvmm_range_t range, uint32_t at,
				   uint64_t offset, const void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_RANGE, range.index, range.gen, at };

	return kvmm_content_write(pool, &where, buf, bytes);
}

/** kvmm_range_read() - the other way round; same returns. */
static inline int kvmm_range_read(struct kvmm_pool *pool, kvmm_range_t range, uint32_t at,
				  uint64_t offset, void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_RANGE, range.index, range.gen, at };

	return kvmm_content_read(pool, &where, buf, bytes);
}

/**
 * kvmm_mut_write() - the same with a private block
 *
 * While the copy runs the block can neither be freed nor staged: those calls say -EBUSY. A staged
 * or registered block is complete, and not written any more.
 *
 * Return: 0; -ESTALE it was freed, or staged; -EINVAL; -EIO; -EOVERFLOW too many writers;
 * -EOPNOTSUPP the pool has no policy.
 */
static inline int kvmm_mut_write(struct kvmm_pool *pool, kvmm_mut_t mut, uint64_t offset,
				 const void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_MUT, mut.index, mut.gen, 0 };

	return kvmm_content_write(pool, &where, buf, bytes);
}

/** kvmm_mut_read() - the other way round; same returns. */
static inline int kvmm_mut_read(struct kvmm_pool *pool, kvmm_mut_t mut, uint64_t offset,
				void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_MUT, mut.index, mut.gen, 0 };

	return kvmm_content_read(pool, &where, buf, bytes);
}

/** kvmm_ref_read() - content of a registered block, for holders of a reference. Returns as
 * kvmm_mut_write(). */
static inline int kvmm_ref_read(struct kvmm_pool *pool, kvmm_ref_t ref, uint64_t offset,
				void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_REF, ref.index, ref.gen, 0 };

	return kvmm_content_read(pool, &where, buf, bytes);
}

/*
 * What does not move, and why: pins by type, and the reasons that a compaction met.
 *
 * A pin says which part of the engine knows an address. It is taken and undone by type, so that a
 * caller cannot undo pins of another type. Pins without a type (kvmm_pin_many(), kvmm_range_pin())
 * are of KVMM_PIN_USER; the calls are in <kvmm/cache.h> and <kvmm/pool.h>. Holds with KVMM_HOLD_PIN
 * pin by their reason (<kvmm/ext/lease.h>).
 *
 * By rule: an engine that keeps a bare block id beyond a step, without asking again and without
 * relocations, pins the block first. kvmm cannot know of it.
 */

/**
 * struct kvmm_pin_stat - pins held at present, by enum kvmm_pin_type
 * @blocks: on cached blocks
 * @ranges: on ranges
 */
struct kvmm_pin_stat {
	uint64_t blocks[KVMM_NR_PIN_TYPES];
	uint64_t ranges[KVMM_NR_PIN_TYPES];
};

/** kvmm_pin_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_PIN. */
static inline int kvmm_pin_get_stat(struct kvmm_pool *pool, struct kvmm_pin_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PIN, stat, sizeof(*stat));
}

/**
 * enum kvmm_stay_reason - why a block does not move
 * @KVMM_STAY_PIN_USER: pinned; likewise up to @KVMM_STAY_PIN_GRAPH. Of several types, the last of
 *	enum kvmm_pin_type
 * @KVMM_STAY_FIXED: null block; range of KVMM_ALLOC_PINNED
 * @KVMM_STAY_PRIVATE: a private block, which its owner may be writing
 * @KVMM_STAY_STAGED: named, but not published
 * @KVMM_STAY_UNSEALED: part of a range that is not sealed
 * @KVMM_STAY_GROWING: the same, behind what is sealed of a range that grows
 * @KVMM_STAY_WRITTEN: a write by handle is under way, or a call has claimed the block
 * @KVMM_STAY_FLYING: it is being copied, or is an old or a new place of a move under way
 * @KVMM_STAY_HELD: referenced, and the world has stopped: there references keep a block in place
 * @KVMM_STAY_GOING: waits to be used, is being evicted, or its memory is about to be given back
 * @KVMM_STAY_LOST: a failed copy has destroyed the content
 * @KVMM_STAY_QUIESCENT: kvmm_pool_quiesce()
 * @KVMM_STAY_RECENT: it has moved lately
 */
enum kvmm_stay_reason {
	KVMM_STAY_PIN_USER,
	KVMM_STAY_PIN_RDMA,
	KVMM_STAY_PIN_GDS,
	KVMM_STAY_PIN_IPC,
	KVMM_STAY_PIN_COPY,
	KVMM_STAY_PIN_GRAPH,
	KVMM_STAY_FIXED,
	KVMM_STAY_PRIVATE,
	KVMM_STAY_STAGED,
	KVMM_STAY_UNSEALED,
	KVMM_STAY_GROWING,
	KVMM_STAY_WRITTEN,
	KVMM_STAY_FLYING,
	KVMM_STAY_HELD,
	KVMM_STAY_GOING,
	KVMM_STAY_LOST,
	KVMM_STAY_QUIESCENT,
	KVMM_STAY_RECENT,
	KVMM_NR_STAY_REASONS,
};

/**
 * struct kvmm_stay - one look at all blocks that are not free
 * @movable: blocks that might move
 * @staying: blocks that do not: the sum of @blocks
 * @blocks: those, by enum kvmm_stay_reason
 */
struct kvmm_stay {
	uint32_t movable;
	uint32_t staying;
	uint32_t blocks[KVMM_NR_STAY_REASONS];
};

/** kvmm_stay_last() - as the last compaction saw it; zeros before the first. */
static inline int kvmm_stay_last(struct kvmm_pool *pool, struct kvmm_stay *stay)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_STAY, stay, sizeof(*stay));
}

KVMM_API int kvmm_stay_text_sized(const struct kvmm_stay *stay, char *buf, size_t bytes,
				  size_t size);

/**
 * kvmm_stay_text() - a line "name blocks" for movable and for each reason that was met
 * @buf: room for @bytes, NUL included; always terminated if there is any
 *
 * Return: length of the whole text without NUL (it was cut if that is @bytes or more); -EINVAL.
 */
static inline int kvmm_stay_text(const struct kvmm_stay *stay, char *buf, size_t bytes)
{
	return kvmm_stay_text_sized(stay, buf, bytes, sizeof(*stay));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_LEASE_H */
