/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs: memory of several pools, all of it or none, for ranks that must decide alike.
 *
 * A request of a model spread over devices needs blocks on each of them, and of a hybrid model
 * blocks of each group. A *gang* is a set of such wants. It is taken in two phases:
 *
 *	reserve	 all blocks are taken out of the pools, or none; no call shows them yet
 *	commit	 handles are given out, and what was evicted for it is gone
 *	abort	 instead of that: all pools are as before, the order of eviction included
 *
 * In between ranks can agree. Each rank has a *set* of pools, with the same pools under the same
 * numbers, calls alike, and exchanges one digest a gang:
 *
 *	err = kvmm_gang_reserve(set, &attr, &gang, &digest);
 *	all_gather(&digest, sizeof(digest));		// the engine's
 *	if (all are equal)
 *		err = err ? err : kvmm_gang_commit(set, gang, blocks, ranges);
 *	else if (!err)
 *		kvmm_gang_abort(set, gang);
 *
 * The digest covers the number of the gang, its name, what is wanted, how it ended, and in pools
 * with KVMM_POOL_DETERMINISTIC also which blocks it got and all that these pools have decided
 * before. So ranks whose digests are equal do the same, whether that is success or failure. A rank
 * that fails alone, for want of host memory say, has a digest unlike all others; then all ranks
 * abort, and are alike again, if no other call to these pools came in between.
 *
 * A gang may have a lease: an engine that reserves and dies does not keep the memory for ever.
 */
#ifndef KVMM_GANG_H
#define KVMM_GANG_H

#include <kvmm/digest.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most pools of a set, and most wants of a gang. */
#define KVMM_GANG_MAX_POOLS	32u
#define KVMM_GANG_MAX_WANTS	64u

struct kvmm_gangs;

/** A gang that is reserved. Stale once it is committed, aborted or expired. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_gang_t;

/**
 * struct kvmm_gangs_attr - a set of pools
 * @size: sizeof(struct kvmm_gangs_attr); set by KVMM_GANGS_ATTR_INIT
 * @pools: copied; each once. They outlive the set
 * @nr_pools: 1 to KVMM_GANG_MAX_POOLS
 * @max_gangs: most that may be reserved at a time, up to 65536; 0 = 256
 */
struct kvmm_gangs_attr {
	size_t size;
	struct kvmm_pool *const *pools;
	uint32_t nr_pools;
	uint32_t max_gangs;
};

#define KVMM_GANGS_ATTR_INIT { sizeof(struct kvmm_gangs_attr), NULL, 0, 0 }

/** kvmm_gangs_create() - @gangs is set on success only. Return: 0; -EINVAL; -ENOMEM. */
KVMM_API int kvmm_gangs_create(const struct kvmm_gangs_attr *attr, struct kvmm_gangs **gangs);

/** kvmm_gangs_destroy() - takes NULL. Aborts what is reserved. No other thread uses @gangs. */
KVMM_API void kvmm_gangs_destroy(struct kvmm_gangs *gangs);

/**
 * enum kvmm_gang_kind - what is wanted of a pool
 * @KVMM_GANG_BLOCKS: private blocks, as by kvmm_alloc_for()
 * @KVMM_GANG_RANGE: one range, as by kvmm_range_alloc_attr()
 */
enum kvmm_gang_kind { KVMM_GANG_BLOCKS, KVMM_GANG_RANGE, KVMM_NR_GANG_KINDS };

/**
 * struct kvmm_gang_want - one part of a gang
 * @pool: number of the pool in the set
 * @kind: enum kvmm_gang_kind
 * @nr: blocks, at least 1
 * @reserve: KVMM_GANG_BLOCKS: blocks that must stay available in the pool besides
 * @max_runs, @prio, @flags, @seq: KVMM_GANG_RANGE: as in struct kvmm_range_attr, but without
 *	KVMM_ALLOC_GROWS; else 0
 * @tenant: the tenant that is charged
 */
struct kvmm_gang_want {
	uint32_t pool;
	uint32_t kind;
	uint32_t nr;
	uint32_t reserve;
	uint32_t max_runs;
	uint32_t prio;
	uint32_t flags;
	uint32_t tenant;
	uint64_t seq;
};

/**
 * struct kvmm_gang_attr - a gang to be reserved
 * @size: sizeof(struct kvmm_gang_attr); set by KVMM_GANG_ATTR_INIT
 * @wants: taken one after the other
 * @nr: how many, 1 to KVMM_GANG_MAX_WANTS
 * @id: the engine's name of the gang; part of the digest
 * @lease_ns: the gang may be expired after that time; 0 = never
 * @now_ns: the time from which that counts; 0 = kvmm's clock. With pools that are deterministic the
 *	engine has to say it, if there is a lease
 */
struct kvmm_gang_attr {
	size_t size;
	const struct kvmm_gang_want *wants;
	uint32_t nr;
	uint32_t reserved;
	uint64_t id;
	uint64_t lease_ns;
	uint64_t now_ns;
};

#define KVMM_GANG_ATTR_INIT { sizeof(struct kvmm_gang_attr), NULL, 0, 0, 0, 0, 0 }

/**
 * kvmm_gang_reserve() - take all that is wanted, or nothing
 * @gang: set on success only
 * @digest: NULL, or out: to be compared between ranks; also after failures other than -EINVAL
 *
 * Locks all pools of the gang together, so of two gangs that want the same one gets all of it.
 * Evicts as calls of the same kind do: evicted blocks are no longer hits, but not gone before the
 * commit. If a range does not fit with enough blocks free, and may be compacted for, the call
 * compacts its pool and tries all again; moved blocks stay moved.
 *
 * Until the commit, calls on these pools see blocks that are private and ranges that are pinned.
 *
 * Return: 0; -ENOSPC, -EDQUOT as the calls of the same kind, nothing has changed; -ENOMEM; -EBUSY
 * max_gangs are reserved; -EIO as kvmm_range_alloc_attr(); -EINVAL; -EOPNOTSUPP blocks are wanted
 * of a pool without policy; -EUCLEAN.
 */
KVMM_API int kvmm_gang_reserve(struct kvmm_gangs *gangs, const struct kvmm_gang_attr *attr,
			       kvmm_gang_t *gang, kvmm_sum_t *digest);

/**
 * kvmm_gang_commit() - give the gang's memory to the caller
 * @blocks: room for the blocks of all wants of KVMM_GANG_BLOCKS, in their order; may be NULL if
 *	there are none
 * @ranges: the same for the ranges
 *
 * Return: 0; -ESTALE it was committed, aborted or has expired; -EINVAL; -EIO content could not be
 * made zero; -ENOSPC entries are out of generations; -EUCLEAN. After the latter three nothing is
 * the caller's, and what was evicted is gone.
 */
KVMM_API int kvmm_gang_commit(struct kvmm_gangs *gangs, kvmm_gang_t gang, kvmm_mut_t *blocks,
			      kvmm_range_t *ranges);

/**
 * kvmm_gang_abort() - undo a reservation
 *
 * Leaves the pools exactly as before, handles to come and history included, if no other call came
 * in between. Else blocks to be evicted are among the next victims again, unless a call was to
 * forget their key meanwhile: then it is forgotten. Free blocks that growing ranges keep behind
 * them go to the first request, and do not come back.
 *
 * Return: 0; -ESTALE; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_gang_abort(struct kvmm_gangs *gangs, kvmm_gang_t gang);

/**
 * kvmm_gang_expire() - abort the gangs with a lease that has run out
 * @now_ns: by which time; 0 = now, on kvmm's clock
 *
 * In the order of their handles. All ranks have to give the same time.
 *
 * Return: how many; -EINVAL.
 */
KVMM_API int kvmm_gang_expire(struct kvmm_gangs *gangs, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_GANG_H */
