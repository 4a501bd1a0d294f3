/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef KVMM_HOLD_H
#define KVMM_HOLD_H

#include <kvmm/cache.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif /* KVMM_HOLD_H */
