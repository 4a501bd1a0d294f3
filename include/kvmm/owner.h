/* SPDX-License-Identifier: Apache-2.0 */
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
 * references and pins with an owner (<kvmm/hold.h>). A range or a block has one owner at a time; a
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
#ifndef KVMM_OWNER_H
#define KVMM_OWNER_H

#include <kvmm/hold.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif /* KVMM_OWNER_H */
