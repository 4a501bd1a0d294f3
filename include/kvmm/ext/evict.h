/* SPDX-License-Identifier: Apache-2.0 */
/* What is evicted first: classes, advice, and limits of tenants. */
#ifndef KVMM_EXT_EVICT_H
#define KVMM_EXT_EVICT_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which cached blocks go first: classes above the policy, advice to the policy, and which of the
 * next victims are taken so that new blocks lie together.
 *
 * Classes are ordered. While a lower class has an unreferenced block, no block of a higher one is
 * evicted. Inside a class the pool's policy decides; each class has an instance of it. A block has
 * the pool's default class when it is registered. kvmm_class_set() sets its class once; from then
 * on it only goes down, and use changes nothing. It ends with the block's content.
 *
 * In a pool made without classes their calls say -EOPNOTSUPP, and cost neither memory nor time.
 */

#define KVMM_MAX_CLASSES	8u

/** Owners of blocks of this class can learn which were evicted: kvmm_class_events(). */
#define KVMM_CLASS_TELL		(1u << 0)
/** This class shares the quota of the class before it, as do further such classes. */
#define KVMM_CLASS_JOINED	(1u << 1)
/** The pool refuses what would exceed the quota even if all its inactive blocks were evicted, with
 * -EDQUOT: an allocation in this class, growth of a range, a promise, or kvmm_class_set(). */
#define KVMM_CLASS_REFUSE	(1u << 2)

/** A class as an allocation names it; 0: none. */
#define KVMM_IN_CLASS(cls)	((cls) + 1u)

/**
 * struct kvmm_class - one class; the first of an array is evicted first
 * @name: for tools; borrowed as long as the pool lives
 * @quota_blocks: most blocks of this class, referenced ones included, and private ones and those of
 *	ranges that were allocated in it; 0 = @quota_permille
 * @quota_permille: the same as a part of the pool; 0 = no quota
 * @flags: KVMM_CLASS_TELL, KVMM_CLASS_JOINED (then without a quota of its own), KVMM_CLASS_REFUSE
 *
 * The pool evicts what a class has beyond its quota before anything else, and at the end of a call
 * that allocates in it, or registers or demotes blocks into it. Without KVMM_CLASS_REFUSE it
 * refuses nothing: blocks in use may exceed the quota.
 *
 * struct kvmm_alloc_ctl and struct kvmm_range_attr name a class (@cls). A private block keeps it
 * when it is registered; the blocks of a range are of it until they are given back.
 */
struct kvmm_class {
	const char *name;
	uint32_t quota_blocks;
	uint32_t quota_permille;
	uint32_t flags;
	uint32_t reserved;
};

/** Phases of a request that thinks before it answers. */
enum kvmm_phase {
	KVMM_PHASE_FINISHED_THOUGHT,
	KVMM_PHASE_ACTIVE_THOUGHT,
	KVMM_PHASE_OUTPUT_CRITICAL,
	KVMM_NR_PHASES,
};

/** Part of the pool that thoughts get by default. */
#define KVMM_THOUGHT_PERMILLE	400u

/** Initialises an array of KVMM_NR_PHASES classes; all thoughts together get at most that much. */
#define KVMM_PHASES(thought_permille) {						\
	{ "finished-thought", 0, (thought_permille), 0, 0 },			\
	{ "active-thought", 0, 0, KVMM_CLASS_JOINED, 0 },			\
	{ "output-critical", 0, 0, KVMM_CLASS_TELL, 0 } }

/** The same, and thoughts that would exceed it are refused: see KVMM_CLASS_REFUSE. */
#define KVMM_PHASES_REFUSE(thought_permille) {					\
	{ "finished-thought", 0, (thought_permille), KVMM_CLASS_REFUSE, 0 },	\
	{ "active-thought", 0, 0, KVMM_CLASS_JOINED | KVMM_CLASS_REFUSE, 0 },	\
	{ "output-critical", 0, 0, KVMM_CLASS_TELL, 0 } }

/** For @run_window: new blocks come in plain order, not lowest first. */
#define KVMM_RUN_WINDOW_NONE	UINT32_MAX

/** Blocks that are demoted go at once, those that are referenced with their last reference. */
#define KVMM_EVICT_AGGRESSIVE	(1u << 0)

/**
 * struct kvmm_class_event - blocks of a class with KVMM_CLASS_TELL were evicted
 * @owner: their owner, see kvmm_set_owner(); 0 = none, or shared
 * @cls: of which class
 * @nr: how many, since the owner was told last
 *
 * Fixed: of which owner and class, and how many.
 */
struct kvmm_class_event {
	uint64_t owner;
	uint32_t cls;
	uint32_t nr;
};

/**
 * struct kvmm_evict_attr - how a pool evicts, beyond its policy
 * @size: sizeof(struct kvmm_evict_attr)
 * @classes: lowest first; copied, but for names; NULL = no classes
 * @nr_classes: at most KVMM_MAX_CLASSES
 * @default_class: of blocks that are registered
 * @flags: KVMM_EVICT_*
 * @run_window: 0 = the default, in pools without this struct, too: 1, but KVMM_RUN_WINDOW_NONE
 *	for a policy that orders free blocks ("lru-classic"). 1 = plain order of victims, and the
 *	new blocks of a call are handed out lowest first. KVMM_RUN_WINDOW_NONE = plain order of
 *	these, too. Else how many blocks beyond those needed are looked at, too, to find victims
 *	that lie together, at most a fourth of the pool; not for one block alone, unless
 *	@pageblock_blocks is set. See Documentation/classes.rst for what it is good for
 * @protect_above: blocks with a priority above this are protected
 * @protect_permille: most of the pool that may be; 0 = no limit. Beyond it the block protected
 *	longest loses its protection
 * @pageblock_blocks: of the blocks that @run_window looks at, those go first that empty an aligned
 *	group of so many blocks, a power of two from 2; 0 = none do. Needs a window of 2 or more
 * @max_pins: most pins on cached blocks at a time, by kvmm_pin_many() and by holds with
 *	KVMM_LEASE_PIN; 0 = no limit. A block that is pinned twice counts twice
 */
struct kvmm_evict_attr {
	size_t size;
	const struct kvmm_class *classes;
	uint32_t nr_classes;
	uint32_t default_class;
	uint32_t flags;
	uint32_t run_window;
	uint32_t protect_above;
	uint32_t protect_permille;
	uint32_t pageblock_blocks;
	uint32_t max_pins;
};

/* ---- classes ---- */

/**
 * kvmm_class_tag() - set the class of blocks, or name their owner, or both
 * @refs: referenced by the caller
 * @in_class: KVMM_IN_CLASS(), or 0: they keep theirs
 * @owner: any number, or 0: none is named. Not both 0
 *
 * A block that two owners claim is shared: it has no owner until its content is forgotten.
 *
 * Return: 0; -EPERM one of them was set or demoted to a lower class before; -EDQUOT with these,
 * which are in use, a class with KVMM_CLASS_REFUSE would exceed its quota; -ESTALE; -EINVAL;
 * -EOPNOTSUPP. Then none was changed.
 */
KVMM_API int kvmm_class_tag(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			    uint32_t in_class, uint64_t owner);

/** kvmm_class_set() - kvmm_class_tag() with a class only. */
static inline int kvmm_class_set(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				 uint32_t cls)
{
	return kvmm_class_tag(pool, refs, nr, KVMM_IN_CLASS(cls), 0);
}

/** kvmm_set_owner() - kvmm_class_tag() with an owner only. */
static inline int kvmm_set_owner(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				 uint64_t owner)
{
	return kvmm_class_tag(pool, refs, nr, 0, owner);
}

/**
 * kvmm_demote_many() - lower blocks to class @cls; blocks there, or below, stay
 * @refs: registered blocks; the caller need not hold references any more. NULL: @owner's
 * @owner: without @refs: all unshared blocks of it, in time proportional to their number; not
 *	looked at with @refs
 *
 * Of an owner's it passes over what a reserved gang is about to evict: that keeps its class if the
 * gang is aborted.
 *
 * Return: how many were demoted; -ESTALE one is gone (none was demoted); -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_demote_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			      uint64_t owner, uint32_t cls);

/** kvmm_demote() - kvmm_demote_many() of @refs. */
static inline int kvmm_demote(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			      uint32_t cls)
{
	return kvmm_demote_many(pool, refs, nr, 0, cls);
}

/** kvmm_demote_owner() - kvmm_demote_many() of @owner's. */
static inline int kvmm_demote_owner(struct kvmm_pool *pool, uint64_t owner, uint32_t cls)
{
	return owner ? kvmm_demote_many(pool, NULL, 0, owner, cls) : -22 /* EINVAL */;
}

/**
 * kvmm_class_events() - fetch evictions that owners want to know
 * @events: room for @max; oldest first
 * @nr_lost: NULL, or out: evictions not recorded, since no call asked for long
 *
 * Return: how many; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_class_events(struct kvmm_pool *pool, struct kvmm_class_event *events,
			       uint32_t max, uint64_t *nr_lost);

/**
 * struct kvmm_class_stat - one class; counts of events are since the pool's creation
 * @name: as created
 * @nr: cached blocks, referenced ones included
 * @nr_inactive: of these, evictable
 * @quota: in blocks, with KVMM_CLASS_JOINED that of all of them; UINT32_MAX = none
 * @nr_outside: private blocks and blocks of ranges that were allocated in it
 * @evicted: blocks
 * @demoted: blocks that came down from it
 * @reached: calls that evicted from it
 * @bytes: of @nr and @nr_outside; 0 in a pool of ids only
 */
struct kvmm_class_stat {
	const char *name;
	uint32_t nr;
	uint32_t nr_inactive;
	uint32_t quota;
	uint32_t nr_outside;
	uint64_t evicted;
	uint64_t demoted;
	uint64_t reached;
	uint64_t bytes;
};

KVMM_API int kvmm_class_get_stat_sized(struct kvmm_pool *pool, uint32_t cls,
				       struct kvmm_class_stat *stat, size_t size);

/** kvmm_class_get_stat() - Return: 0; -EINVAL there is no such class; -EOPNOTSUPP. */
static inline int kvmm_class_get_stat(struct kvmm_pool *pool, uint32_t cls,
				      struct kvmm_class_stat *stat)
{
	return kvmm_class_get_stat_sized(pool, cls, stat, sizeof(*stat));
}

/* ---- room ---- */

/**
 * struct kvmm_victim - a cached block that is evicted, or will be
 * @key: its name
 * @domain: likewise
 * @weak: a weak reference: stale from the eviction on
 * @block: where it lies, in blocks
 * @cls: its class; 0 in a pool without classes
 */
struct kvmm_victim {
	kvmm_key_t key;
	kvmm_domain_t domain;
	kvmm_weak_t weak;
	uint32_t block;
	uint32_t cls;
};

/** Most that kvmm_evict_next() tells at a time. */
#define KVMM_MAX_VICTIMS	1024u

KVMM_API int kvmm_evict_next_sized(struct kvmm_pool *pool, struct kvmm_victim *victims,
				   uint32_t max, size_t size);

/**
 * kvmm_evict_next() - the cached blocks that are evicted next, first to last
 * @victims: room for @max
 * @max: at most KVMM_MAX_VICTIMS are told
 *
 * Those that kvmm_evict_for() would evict now, exactly, if no other call comes before it: classes,
 * their quotas and limits of tenants included. In a pool with a run_window of 2 or more this is the
 * order that the window looks at; it may pass over some for others up to that far behind. A request
 * of a tenant at its own limit takes that tenant's blocks first. Nothing is changed: the blocks may
 * be hit meanwhile, or used otherwise, as soon as the call returns, and then do not go.
 *
 * Context: takes the pool's lock, for a quarter of the time that it takes to evict as many, and
 * looks at KVMM_MAX_VICTIMS blocks at most.
 * Return: how many; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
static inline int kvmm_evict_next(struct kvmm_pool *pool, struct kvmm_victim *victims,
				  uint32_t max)
{
	return kvmm_evict_next_sized(pool, victims, max, sizeof(*victims));
}

/**
 * struct kvmm_evict_for_args - room to be made
 * @size: sizeof(struct kvmm_evict_for_args)
 * @bytes: so many are to be free afterwards, in whole blocks
 * @nr_blocks: the same in blocks; the larger one counts
 * @nr_free: out: blocks free now
 * @nr_evicted: out: exactly those that were missing
 * @evicted_of: out: by class
 * @victims: NULL, or room for @max_victims: the blocks that went, first to last
 * @max_victims: further ones are not told; 0 without @victims
 * @nr_victims: out: how many are in @victims; not changed on failure, as they
 */
struct kvmm_evict_for_args {
	size_t size;
	uint64_t bytes;
	uint32_t nr_blocks;
	uint32_t nr_free;
	uint32_t nr_evicted;
	uint32_t evicted_of[KVMM_MAX_CLASSES];
	uint32_t reserved;
	struct kvmm_victim *victims;
	uint32_t max_victims;
	uint32_t nr_victims;
};

/**
 * kvmm_evict_for() - evict until so much is free
 *
 * Parked blocks (kvmm_park()) are free, and stay readable.
 *
 * Return: 0; -ENOSPC there is not so much to be evicted: nothing was; -EINVAL; -EOPNOTSUPP the pool
 * has no policy, or @req->bytes is asked of a pool of ids only.
 */
KVMM_API int kvmm_evict_for(struct kvmm_pool *pool, struct kvmm_evict_for_args *req);

/* ---- advice ---- */

/**
 * enum kvmm_advice - what can be said of a block
 * @KVMM_ADVISE_PRIORITY: 0 to 100, higher is kept longer; 50 is the default
 * @KVMM_ADVISE_TTL: worth keeping for so long from now, in the policy's time: blocks filled
 * @KVMM_ADVISE_COST: what it would cost to make it again, in any unit; 1 is the usual. No policy of
 *	the library uses it
 * @KVMM_ADVISE_NEXT_USE: when it is expected to be used next, in any unit that grows with time;
 *	read when the block's last reference is dropped
 */
enum kvmm_advice {
	KVMM_ADVISE_PRIORITY,
	KVMM_ADVISE_TTL,
	KVMM_ADVISE_COST,
	KVMM_ADVISE_NEXT_USE,
	KVMM_NR_ADVICES,
};

/**
 * kvmm_advise_many() - tell the policy something of each block
 * @refs: referenced by the caller
 * @what: enum kvmm_advice
 * @values: one a block
 *
 * Forgotten with the content; a block that is demoted keeps its priority only.
 *
 * Return: 0; -EOPNOTSUPP the policy has no use for it; -EINVAL, also for a value that makes no
 * sense; -ESTALE. Then nothing was said.
 */
KVMM_API int kvmm_advise_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t what,
			      const uint64_t *values, uint32_t nr);

/*
 * How much of a pool each tenant may have, as a memory cgroup says it of processes.
 *
 * A block is charged to the tenant that it was handed out to (struct kvmm_acquire_args,
 * kvmm_alloc_for(), struct kvmm_range_attr), from then on until it is free again or handed out
 * anew: while it is private, cached (referenced or not), or part of a range. Other tenants cannot
 * hit it, so they share nothing.
 *
 *	max	never exceeded: what does not fit is made room for among the tenant's own inactive
 *		blocks, without those being copied or verified now, else the call is refused with
 *		-EDQUOT
 *	high	exceeded only by blocks in use: allocation beyond it takes the tenant's own inactive
 *		blocks, and when others need room it is the first to lose some
 *	low	at or below, it loses inactive blocks to others only when these have none left
 *	min	at or below, it loses none to others, even if that means that they are refused
 *
 * Tenants without limits of their own are one together, KVMM_TENANT_REST, which can be given
 * limits, too. So the memory of a pool for tenants grows with the tenants named here, not with the
 * identifiers that come along. A pool where this was never called has no memory or time for it.
 *
 * Documentation/tenants.rst has the rules, and what they cost.
 */

struct kvmm_pool;

/** All tenants that have no limits of their own, together. No tenant should have this
 * identifier. */
#define KVMM_TENANT_REST	UINT32_MAX

/** So many tenants of a pool can have limits, besides KVMM_TENANT_REST. */
#define KVMM_MAX_TENANTS	1023u

/** No limit, for @high and @max. */
#define KVMM_TENANT_NO_LIMIT	UINT32_MAX

/**
 * struct kvmm_tenant_attr - limits of one tenant, in blocks
 * @size: sizeof(struct kvmm_tenant_attr)
 * @min: always protected from others
 * @low: protected while others have inactive blocks
 * @high: wished
 * @max: most it may have
 *
 * Any combination is taken: @max rules @high, and @min rules @low and, against others, @high.
 */
struct kvmm_tenant_attr {
	size_t size;
	uint32_t min;
	uint32_t low;
	uint32_t high;
	uint32_t max;
};

#define KVMM_TENANT_ATTR_INIT { sizeof(struct kvmm_tenant_attr), 0, 0, KVMM_TENANT_NO_LIMIT, \
				KVMM_TENANT_NO_LIMIT }

/**
 * struct kvmm_tenant_stat - one tenant
 * @size: sizeof(struct kvmm_tenant_stat), by the caller
 * @tenant: its number
 * @min, @low, @high, @max: its limits, in blocks
 * @usage: blocks charged to it
 * @peak: the most there were after any allocation
 * @nr_inactive: of @usage: cached, and without known references
 * @nr_low: blocks it lost to others though it was at or below @low
 * @nr_high: allocations that went beyond @high, or would have
 * @nr_max: allocations that would have gone beyond @max
 * @nr_oom: of @nr_max: refused
 * @nr_reclaimed: blocks it lost for its own limits
 * @nr_evicted: blocks it lost in all
 */
struct kvmm_tenant_stat {
	size_t size;
	uint32_t tenant;
	uint32_t min;
	uint32_t low;
	uint32_t high;
	uint32_t max;
	uint32_t usage;
	uint32_t peak;
	uint32_t nr_inactive;
	uint64_t nr_low;
	uint64_t nr_high;
	uint64_t nr_max;
	uint64_t nr_oom;
	uint64_t nr_reclaimed;
	uint64_t nr_evicted;
};

/**
 * kvmm_tenant_set_many() - give tenants limits, or change them
 * @tenants: their numbers
 * @attrs: limits, one for each; NULL, of one tenant only: see kvmm_tenant_del()
 *
 * What a tenant has beyond its new @high or @max is reclaimed at once, as far as it is not in use.
 * A @max below its use is allowed: then the pool refuses it everything until it has given enough
 * back. A tenant that is named here for the first time is charged for what it is given from now on;
 * what it had before stays with KVMM_TENANT_REST until it is given back.
 *
 * The first call on a pool waits until no other call is under way in it. Each tenant with limits of
 * its own has its own instance of the pool's policy: host memory by the size of the pool.
 *
 * Context: takes locks that are held while blocks are moved. Allocates host memory.
 * Return: 0; -EINVAL; -ENOMEM; -EUSERS more than KVMM_MAX_TENANTS; -EOPNOTSUPP the policy keeps
 * free blocks itself ("lru-classic"). Then nothing was changed.
 */
KVMM_API int kvmm_tenant_set_many(struct kvmm_pool *pool, const uint32_t *tenants,
				  const struct kvmm_tenant_attr *attrs, uint32_t nr);

/** kvmm_tenant_set() - kvmm_tenant_set_many() of one. */
static inline int kvmm_tenant_set(struct kvmm_pool *pool, uint32_t tenant,
				  const struct kvmm_tenant_attr *attr)
{
	return attr ? kvmm_tenant_set_many(pool, &tenant, attr, 1) : -22 /* EINVAL */;
}

/**
 * kvmm_tenant_del() - drop the limits and statistics of a tenant
 *
 * From then on it is part of KVMM_TENANT_REST, which cannot be deleted.
 *
 * Context: as kvmm_tenant_set_many().
 * Return: 0; -EBUSY blocks are charged to it (a @high of 0 takes those that are not in use), or may
 * be again, when a gang is aborted; -ENOENT it has no limits; -EINVAL.
 */
static inline int kvmm_tenant_del(struct kvmm_pool *pool, uint32_t tenant)
{
	return kvmm_tenant_set_many(pool, &tenant, NULL, 1);
}

/**
 * kvmm_tenant_get_stat_of() - what one tenant has
 * @cursor: NULL; else in place of @tenant: 0 for the first, and advanced; see kvmm_tenant_next()
 * @stat: @stat->size is set by the caller
 *
 * Return: 0; -ENOENT it has no limits, or there are no more; -EINVAL.
 */
KVMM_API int kvmm_tenant_get_stat_of(struct kvmm_pool *pool, uint32_t tenant, uint32_t *cursor,
				     struct kvmm_tenant_stat *stat);

/** kvmm_tenant_get_stat() - kvmm_tenant_get_stat_of() one that is named. */
static inline int kvmm_tenant_get_stat(struct kvmm_pool *pool, uint32_t tenant,
				       struct kvmm_tenant_stat *stat)
{
	return kvmm_tenant_get_stat_of(pool, tenant, NULL, stat);
}

/**
 * kvmm_tenant_next() - walk over all that have limits, KVMM_TENANT_REST first
 *
 * A tenant added or deleted meanwhile may be seen or not; none is seen twice.
 */
static inline int kvmm_tenant_next(struct kvmm_pool *pool, uint32_t *cursor,
				   struct kvmm_tenant_stat *stat)
{
	return cursor ? kvmm_tenant_get_stat_of(pool, 0, cursor, stat) : -22 /* EINVAL */;
}

/* ---- the order of eviction, by reference ---- */

/** kvmm_touch_many() - use the blocks as a match does, for the order of eviction and touch
 * callbacks, without a reference. Return: 0; -ESTALE, -EINVAL (none was touched). */
KVMM_API int kvmm_touch_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/**
 * kvmm_touch_weak() - use blocks, as a hit does, and the puts right after it, last first
 * @weak: of blocks with references or without; those that are gone are passed over
 *
 * For what kvmm_prefix_peek() has found, if it is used after all. The blocks do not leave the order
 * in between, so no request finds fewer of them. Counts no hit.
 *
 * Context: takes the lock of the order of eviction, for 128 blocks at a time.
 * Return: how many were there, held ones that have lost their names included; -EINVAL; -EOPNOTSUPP
 * the pool has no policy.
 */
KVMM_API int kvmm_touch_weak(struct kvmm_pool *pool, const kvmm_weak_t *weak, uint32_t nr);

/**
 * kvmm_set_reset() - free these blocks with their last reference, or keep them cached
 *
 * The last writer wins. A new block starts as KVMM_POOL_RESET_ON_RELEASE says; a duplicate that
 * holds another block (KVMM_DUP_HOLD) goes in any case.
 *
 * Return: 0; -ESTALE, -EINVAL (none was changed).
 */
KVMM_API int kvmm_set_reset(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			    int on);

/** kvmm_touch() - as kvmm_touch_many(). */
static inline int kvmm_touch(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_touch_many(pool, &ref, 1);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_EVICT_H */
