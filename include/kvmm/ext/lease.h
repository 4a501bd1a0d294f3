/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a block, why and until when: leases and pins. */
#ifndef KVMM_EXT_LEASE_H
#define KVMM_EXT_LEASE_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Leases: which owner has which memory, what for, since when, and until when at most.
 *
 * An engine can lose ranges, private and staged blocks, references and pins: a request aborts on an
 * unforeseen path, a worker dies. An *owner* is 64 bits of the engine's own, not all 0: a request,
 * a worker, a connection. A lease is one of two things:
 *
 * - It names the owner of a range, a private or a staged block that there is (kvmm_lease_own(), or
 *   @owner of struct kvmm_range_attr). Such a thing has one owner at a time, and its own handle.
 * - It has references of its own on cached blocks or a range (kvmm_lease_take()), with
 *   KVMM_LEASE_PIN pins as well. There may be any number of them on a block, and they have handles.
 *
 *	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
 *
 *	attr.prefix   = &prefix;		// blocks, by key
 *	attr.reason   = KVMM_LEASE_TRANSFER;
 *	attr.owner    = request_id;
 *	attr.text     = "decode-7";
 *	attr.lease_ns = 30 * SECOND;
 *	attr.flags    = KVMM_LEASE_PIN | KVMM_LEASE_RECLAIM;
 *	nr = kvmm_lease_take(pool, &attr, &lease);
 *	...
 *	kvmm_lease_renew(pool, request_id, NULL, 30 * SECOND);	// at each step: it is alive
 *	...
 *	kvmm_lease_release(pool, 0, &lease);		// done; or
 *	kvmm_lease_release(pool, request_id, NULL);	// aborted: all that it has, at once; or
 *	kvmm_lease_expire(pool, 0, NULL);		// now and then, if that never comes
 *
 * A deadline is the owner's promise to be done by then. When it runs out nothing happens until the
 * engine calls kvmm_lease_expire(), once late owners can do no harm. Deadlines are by kvmm's
 * monotonic clock.
 *
 * Giving back by force is safe for the next owner, since handles carry generations: all later calls
 * of the former owner say -ESTALE, and writes through kvmm_range_write() and kvmm_mut_write()
 * cannot hit what belongs to another by then. A call on a private or staged block that overlaps the
 * release says -EBUSY while it is open whether the block goes: the same call again tells.
 *
 * Pinned blocks stay where they are and have *addresses* (struct kvmm_lease_addr) for other
 * components, which can check them later: an address is good exactly as long as a lease pins that
 * very block.
 *
 * Any thread. A lease on blocks counts in the order of eviction as a match does. Finding, renewing
 * and releasing one takes one short lock, and time independent of the number of leases. Without
 * owners none of this costs anything. From the first private block on that gets an owner, or that
 * kvmm_mut_write() writes, the pool keeps no blocks aside for its threads, since that relies on one
 * thread having a private block.
 */

/** Most bytes of a lease's text, without the NUL. */
#define KVMM_LEASE_TEXT	31u

/** A lease made by kvmm_lease_take(). It goes stale when that is released or expires. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_lease_t;

/**
 * enum kvmm_lease_reason - what blocks are held for
 * @KVMM_LEASE_USER: anything else
 * @KVMM_LEASE_REQUEST: a request that runs, or is about to
 * @KVMM_LEASE_TRANSFER: to be sent, or received, by the engine
 * @KVMM_LEASE_RDMA: a remote side may read or write them at any time
 * @KVMM_LEASE_GDS: storage does, directly
 * @KVMM_LEASE_IPC: another process has them mapped
 * @KVMM_LEASE_COPY: copies to another tier or device are under way
 * @KVMM_LEASE_GRAPH: a captured graph has their addresses in it
 */
enum kvmm_lease_reason {
	KVMM_LEASE_USER,
	KVMM_LEASE_REQUEST,
	KVMM_LEASE_TRANSFER,
	KVMM_LEASE_RDMA,
	KVMM_LEASE_GDS,
	KVMM_LEASE_IPC,
	KVMM_LEASE_COPY,
	KVMM_LEASE_GRAPH,
	KVMM_NR_LEASE_REASONS,
};

/** kvmm_lease_reason_name() - "user", "request", ...; "?" if there is no such reason. */
static inline const char *kvmm_lease_reason_name(uint32_t reason)
{
	return kvmm_enum_name(KVMM_NAME_LEASE_REASON, reason);
}

enum kvmm_lease_kind {
	KVMM_LEASED_RANGE,
	KVMM_LEASED_PRIVATE,
	KVMM_LEASED_STAGED,
	KVMM_LEASED_REFS,	/* references of kvmm_lease_take() */
	KVMM_LEASED_PINS,	/* references that are pins */
	KVMM_NR_LEASE_KINDS,
};

/** kvmm_lease_kind_name() - "range", "private", ...; "?" if there is no such kind. */
static inline const char *kvmm_lease_kind_name(uint32_t kind)
{
	return kvmm_enum_name(KVMM_NAME_LEASE_KIND, kind);
}

#define KVMM_LEASE_RECLAIM	(1u << 0)	/* kvmm_lease_expire() may give it back */
#define KVMM_LEASE_PIN		(1u << 1)	/* the blocks stay where they are, too */
#define KVMM_LEASE_PARTIAL	(1u << 2)	/* those that are cached, if at least one is */

/**
 * struct kvmm_lease_attr - what to lease, and to which owner
 * @size: sizeof(struct kvmm_lease_attr); set by KVMM_LEASE_ATTR_INIT
 * @prefix: blocks by key; any keys, in any order; a key given twice is held twice
 * @refs: @nr_refs references of the caller, of blocks of one domain: the lease's from then on
 * @range: one more reference on a range
 * @owner: the engine's name of the owner; 0: none
 * @text: NULL, or up to KVMM_LEASE_TEXT bytes more about it; copied
 * @lease_ns: the owner is done within that time; 0 = no deadline
 * @reason: enum kvmm_lease_reason
 * @flags: KVMM_LEASE_*; KVMM_LEASE_PARTIAL with @prefix only
 */
struct kvmm_lease_attr {
	size_t size;
	const struct kvmm_prefix *prefix;
	const kvmm_ref_t *refs;
	kvmm_range_t range;
	uint64_t owner;
	const char *text;
	uint64_t lease_ns;
	uint32_t nr_refs;
	uint32_t reason;
	uint32_t flags;
	uint32_t reserved;
};

#define KVMM_LEASE_ATTR_INIT \
	{ sizeof(struct kvmm_lease_attr), NULL, NULL, { 0, 0 }, 0, NULL, 0, 0, 0, 0, 0 }

/**
 * kvmm_lease_take() - references with an owner: on cached blocks, or on a range
 * @attr: one of @prefix, @refs and @range
 * @lease: set on success only
 *
 * By key it is all blocks of the prefix, or with KVMM_LEASE_PARTIAL those that are cached. Memory
 * is allocated before the first reference, so that a failure leaves no trace. @refs do not become
 * the references of another lease: the call refuses more than there are beside those of leases, as
 * far as the latest 64 leases of each block tell.
 *
 * Return: number of blocks, at least 1; 0 for a range; -ENOENT one is not cached, or with
 * KVMM_LEASE_PARTIAL none; -EBUSY KVMM_LEASE_PIN, and one is being moved; -E2BIG KVMM_LEASE_PIN,
 * and the pool would have more pins than it may; -ESTALE; -ENOMEM; -EINVAL; -EOVERFLOW a block has
 * all the references, or pins, it can have; -EOPNOTSUPP blocks of a pool without policy. On failure
 * @refs are still the caller's.
 */
KVMM_API int kvmm_lease_take(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
			     kvmm_lease_t *lease);

/**
 * kvmm_lease_own() - name the owner of ranges or blocks, or renew the lease of one's own
 * @attr: @owner, @lease_ns and KVMM_LEASE_RECLAIM, and nothing else: the same for all of them;
 *	replaces what was said before. @owner 0: no owner any more
 * @kind: KVMM_LEASED_RANGE: one reference of each is the owner's from then on, the one that
 *	kvmm_lease_release() drops; KVMM_LEASED_PRIVATE: they remain the owner's when staged; or
 *	KVMM_LEASED_STAGED. Registered blocks have no owner: see kvmm_lease_take()
 * @handles: @nr of them, of the type that @kind says, see struct kvmm_lease_info
 *
 * Return: 0; -ESTALE, -EINVAL one of them is no such thing (any more), or there is no such kind;
 * -EOPNOTSUPP blocks of a pool without policy; -ENOMEM. On failure nothing has changed.
 */
KVMM_API int kvmm_lease_own(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
			    uint32_t kind, const void *handles, uint32_t nr);

/** kvmm_lease_own_ranges() - kvmm_lease_own() of ranges. */
static inline int kvmm_lease_own_ranges(struct kvmm_pool *pool,
					const struct kvmm_lease_attr *attr,
					const kvmm_range_t *ranges, uint32_t nr)
{
	return kvmm_lease_own(pool, attr, KVMM_LEASED_RANGE, ranges, nr);
}

/** kvmm_lease_own_muts() - kvmm_lease_own() of private blocks. */
static inline int kvmm_lease_own_muts(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
				      const kvmm_mut_t *muts, uint32_t nr)
{
	return kvmm_lease_own(pool, attr, KVMM_LEASED_PRIVATE, muts, nr);
}

/** kvmm_lease_own_staged() - kvmm_lease_own() of staged blocks. */
static inline int kvmm_lease_own_staged(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
					const kvmm_staged_t *staged, uint32_t nr)
{
	return kvmm_lease_own(pool, attr, KVMM_LEASED_STAGED, staged, nr);
}

/**
 * kvmm_lease_renew() - the lease, or all of an owner, ends @lease_ns from now; 0 = no deadline
 * @owner: all of that owner, of all kinds; 0 if there is @lease
 * @lease: NULL, or this one alone
 *
 * A lease that has run out can be renewed until a call gives it back. Takes time for what the owner
 * has, not for the pool.
 *
 * Return: number of ranges, blocks and leases; -ESTALE; -EINVAL not one of @owner and @lease.
 */
KVMM_API int kvmm_lease_renew(struct kvmm_pool *pool, uint64_t owner, const kvmm_lease_t *lease,
			      uint64_t lease_ns);

/**
 * kvmm_lease_release() - give back a lease, or everything that an owner has
 * @owner, @lease: as in kvmm_lease_renew()
 *
 * Of an owner it drops its leases and one reference of each of its ranges, and frees its private
 * and staged blocks: in one go, so that no call sees half of it. -EBUSY, and nothing has changed:
 * others pin a range that would have to go, or a block is being written to, staged or published at
 * this moment.
 *
 * If surplus puts or unpins took what @lease had of a block, the call drops what is left, makes the
 * handle stale, and returns an error.
 *
 * Return: number of ranges, blocks and leases that were given back; -EBUSY; -ESTALE @lease was
 * released, or has expired, or lost a block; -EINVAL it is none, or lost a reference or a pin; or
 * not one of @owner and @lease.
 */
KVMM_API int kvmm_lease_release(struct kvmm_pool *pool, uint64_t owner, const kvmm_lease_t *lease);

/**
 * struct kvmm_lease_expired - what kvmm_lease_expire() has found and done
 * @nr_reclaimed: ranges, blocks and leases that were given back
 * @nr_busy: the same, but pinned by others: left for the next call
 * @nr_left: without KVMM_LEASE_RECLAIM: only counted
 * @reserved: 0
 */
struct kvmm_lease_expired {
	uint32_t nr_reclaimed;
	uint32_t nr_busy;
	uint32_t nr_left;
	uint32_t reserved;
};

KVMM_API int kvmm_lease_expire_sized(struct kvmm_pool *pool, uint64_t now_ns,
				     struct kvmm_lease_expired *expired, size_t size);

/**
 * kvmm_lease_expire() - give back or count what has a deadline that is over
 * @now_ns: by which time, on kvmm's clock; 0 = now
 * @expired: NULL, or out: counts
 *
 * A pool with KVMM_POOL_DETERMINISTIC has no clock but @now_ns: "now" is the latest one so far, 0
 * at first, and leases count from there. All ranks must give the same.
 *
 * Walks all leases; holds locks for some dozens of things at a time. For a timer, or for when
 * memory is short.
 *
 * Context: waits while blocks are moved with the world stopped.
 *
 * Return: number of things that were given back; -EINVAL.
 */
static inline int kvmm_lease_expire(struct kvmm_pool *pool, uint64_t now_ns,
				    struct kvmm_lease_expired *expired)
{
	return kvmm_lease_expire_sized(pool, now_ns, expired, sizeof(*expired));
}

/**
 * kvmm_lease_watch() - an owner lives as long as a process, or a thread, does
 * @pid: process, as this process numbers it; replaces the former one; 0: it is not watched
 * @tid: 0 = all of the process; else the thread
 *
 * kvmm_lease_list() can tell what a dead owner has left, and asks the system whether it lives.
 * Another process that got the same number meanwhile does not pass for it.
 *
 * Return: 0; -ESRCH there is no such process or thread; -EOPNOTSUPP the system does not tell (no
 * /proc); -ENOMEM; -EINVAL.
 */
KVMM_API int kvmm_lease_watch(struct kvmm_pool *pool, uint64_t owner, int32_t pid, int32_t tid);

/* ---- looking ---- */

#define KVMM_LEAK_EXPIRED	(1u << 0)	/* its deadline is over */
#define KVMM_LEAK_OLD		(1u << 1)	/* it has none and is older than asked for */
#define KVMM_LEAK_LONE		(1u << 2)	/* it has none and is all that its owner has */
#define KVMM_LEAK_DEAD		(1u << 3)	/* its owner's process or thread is gone */
#define KVMM_LEAK_ANY		15u

/**
 * struct kvmm_lease_info - one thing that is held, as of one moment
 * @owner: 0 = none named
 * @since_ns: kvmm's clock when it was given that owner; without one, when it was allocated
 * @age_ns: since then
 * @deadline_ns: on that clock; 0 = none
 * @bytes: of its blocks
 * @kind: enum kvmm_lease_kind
 * @index, @gen: its handle, typed by @kind: kvmm_range_t, kvmm_mut_t, kvmm_staged_t, kvmm_lease_t
 * @nr: blocks; of a lease on a range 0
 * @refs, @pins: of ranges: of all owners
 * @flags: KVMM_LEASE_*
 * @reason: of leases with references: enum kvmm_lease_reason
 * @leak: why it is listed, if only suspicious things are: KVMM_LEAK_*
 * @range: of a lease on a range; else all zero
 * @text: of leases with references
 */
struct kvmm_lease_info {
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
	uint32_t leak;
	kvmm_range_t range;
	uint32_t reserved;
	char text[KVMM_LEASE_TEXT + 1];
};

KVMM_API int kvmm_lease_get_info_sized(struct kvmm_pool *pool, kvmm_lease_t lease,
				       struct kvmm_lease_info *info, size_t size);

/** kvmm_lease_get_info() - Return: 0; -ESTALE; -EINVAL. */
static inline int kvmm_lease_get_info(struct kvmm_pool *pool, kvmm_lease_t lease,
				      struct kvmm_lease_info *info)
{
	return kvmm_lease_get_info_sized(pool, lease, info, sizeof(*info));
}

/**
 * struct kvmm_lease_filter - what to list
 * @size: sizeof(struct kvmm_lease_filter); set by KVMM_LEASE_FILTER_INIT
 * @owner: what that owner has; 0 = all, owners named or not
 * @key, @domain: NULL, or leases on the block of that key alone; one that has the key twice is
 *	there twice. Also of a block that look-ups miss by now, as long as it is held under that key
 * @kinds: BIT(enum kvmm_lease_kind) of those that are wanted; 0 = all
 * @leaks: 0, or only what may have been forgotten, for one of these reasons: KVMM_LEAK_*
 * @older_ns: of KVMM_LEAK_OLD; 0 = nothing is
 * @lone_ns: of KVMM_LEAK_LONE: from that age on; 0 = nothing is. A hint only: an owner of one thing
 *	may well be alive
 * @now_ns: on kvmm's clock; 0 = now
 */
struct kvmm_lease_filter {
	size_t size;
	uint64_t owner;
	const kvmm_key_t *key;
	kvmm_domain_t domain;
	uint32_t kinds;
	uint32_t leaks;
	uint64_t older_ns;
	uint64_t lone_ns;
	uint64_t now_ns;
};

#define KVMM_LEASE_FILTER_INIT \
	{ sizeof(struct kvmm_lease_filter), 0, NULL, { 0, 0, 0 }, 0, 0, 0, 0, 0 }

KVMM_API int kvmm_lease_list_sized(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
				   uint64_t *cursor, struct kvmm_lease_info *rows, uint32_t max,
				   size_t size);

/**
 * kvmm_lease_list() - walk what is held
 * @filter: NULL: everything
 * @cursor: 0 at first; moved on by each call
 * @rows: room for @max, at least 1
 *
 * First ranges, then private and staged blocks, then leases with references. What comes and goes
 * meanwhile may or may not be seen, and by key be seen twice. The pool's lock is held for some
 * hundred ranges at a time, and for nothing else. Gives nothing back.
 *
 * Return: how many of @rows were filled: fewer than @max if that was all; -EINVAL.
 */
static inline int kvmm_lease_list(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
				  uint64_t *cursor, struct kvmm_lease_info *rows, uint32_t max)
{
	return kvmm_lease_list_sized(pool, filter, cursor, rows, max, sizeof(*rows));
}

/**
 * struct kvmm_lease_addr - one block of a lease
 * @pool_id: of the pool; unlike all others, also in other processes and at other times; 0: it is
 *	not pinned, so this is no address
 * @key: of the block
 * @block: where it lies, if it is pinned
 * @index, @gen: which block that is, of all that ever had the key: the lease's reference
 *	(kvmm_ref_t), borrowed: good until the lease is released or expires
 * @reserved: 0
 *
 * An address is for a component that knows nothing of pools and leases. Plain bytes, 40 of them,
 * without pointers.
 *
 * Fixed: its bytes are sent and stored.
 */
struct kvmm_lease_addr {
	uint64_t pool_id;
	kvmm_key_t key;
	uint32_t block;
	uint32_t index;
	uint32_t gen;
	uint32_t reserved;
};

/**
 * kvmm_lease_addrs() - the blocks of a lease, and their addresses if they are pinned
 * @addrs: room for @max
 *
 * Return: number of blocks, which may be more than @max; -ESTALE, also if an unpin too many has
 * left a block of it without a pin; -EINVAL.
 */
KVMM_API int kvmm_lease_addrs(struct kvmm_pool *pool, kvmm_lease_t lease,
			      struct kvmm_lease_addr *addrs, uint32_t max);

/**
 * kvmm_lease_check() - check that a block is still pinned at its address
 *
 * It is as long as any lease pins it, not only the one of the address. The call checks the block,
 * too: a surplus unpin may have taken the lease's pin.
 *
 * Return: 0; -ESTALE no longer; -EXDEV it is an address of another pool; -EINVAL.
 */
KVMM_API int kvmm_lease_check(struct kvmm_pool *pool, const struct kvmm_lease_addr *addr);

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
 * are of KVMM_PIN_USER; the calls are in <kvmm/cache.h> and <kvmm/pool.h>. Leases with
 * KVMM_LEASE_PIN pin by their reason.
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

/** kvmm_stay_reason_name() - "pin_user", "private", ...; "?" if there is no such reason. */
static inline const char *kvmm_stay_reason_name(uint32_t reason)
{
	return kvmm_enum_name(KVMM_NAME_STAY_REASON, reason);
}

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

/** kvmm_stay_last() - as the last compaction saw it, maybe of a part; zeros before the first. */
static inline int kvmm_stay_last(struct kvmm_pool *pool, struct kvmm_stay *stay)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_STAY, stay, sizeof(*stay));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_LEASE_H */
