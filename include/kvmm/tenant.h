/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a pool each tenant may have, as a memory cgroup says it of processes.
 *
 * A block is charged to the tenant that it was handed out to (struct kvmm_acquire_args,
 * kvmm_alloc_for(), struct kvmm_range_attr), from then on until it is free again or handed out
 * anew: while it is private, cached (referenced or not), or part of a range. Other tenants cannot
 * hit it, so they share nothing.
 *
 *	max	never exceeded: what does not fit is made room for among the tenant's own inactive
 *		blocks, else the call is refused with -EDQUOT
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
#ifndef KVMM_TENANT_H
#define KVMM_TENANT_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * @nr_reclaimed: blocks it lost for its own limits, and to kvmm_tenant_reclaim()
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
 * Limits below its use are allowed: then the pool refuses it everything until it has given enough
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
 * Return: 0; -EBUSY blocks are charged to it: see kvmm_tenant_reclaim(); or may be again, when a
 * gang is aborted; -ENOENT it has no limits; -EINVAL.
 */
static inline int kvmm_tenant_del(struct kvmm_pool *pool, uint32_t tenant)
{
	return kvmm_tenant_set_many(pool, &tenant, NULL, 1);
}

/**
 * kvmm_tenant_reclaim() - evict so many inactive blocks of a tenant
 * @nr: at most so many; its @min and @low do not matter
 *
 * Passes over what kvmm_reclaim() does.
 *
 * Return: how many were evicted; -ENOENT no limits; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_tenant_reclaim(struct kvmm_pool *pool, uint32_t tenant, uint32_t nr);

/**
 * kvmm_tenant_get_stat() - what one tenant has
 * @stat: @stat->size is set by the caller
 *
 * Return: 0; -ENOENT it has no limits; -EINVAL.
 */
KVMM_API int kvmm_tenant_get_stat(struct kvmm_pool *pool, uint32_t tenant,
				  struct kvmm_tenant_stat *stat);

/**
 * kvmm_tenant_next() - walk over all that have limits, KVMM_TENANT_REST first
 * @cursor: 0 for the first; advanced
 * @stat: as kvmm_tenant_get_stat()
 *
 * A tenant added or deleted meanwhile may be seen or not; none is seen twice.
 *
 * Return: 0; -ENOENT there are no more; -EINVAL.
 */
KVMM_API int kvmm_tenant_next(struct kvmm_pool *pool, uint32_t *cursor,
			      struct kvmm_tenant_stat *stat);

#ifdef __cplusplus
}
#endif

#endif /* KVMM_TENANT_H */
