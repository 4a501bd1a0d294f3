/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a deterministic pool decides without asking the machine it runs on.
 *
 * A *choice* is anything that a caller, or another pool that is fed the same calls, can tell: which
 * block, which handle, which victim, which expiry. Rules for new choices:
 *
 *  1. It depends on the pool's attributes, its calls, and nothing else. Not on time, addresses,
 *     thread or processor numbers, the state of a lock that others may hold, or kv_random().
 *  2. Faster ways that may depend on those all the same are off where ->deterministic is set.
 *  3. Secrets of hash tables stay secret (keys are not to be trusted), and so must not be seen: no
 *     code walks such a table in its own order and chooses by that.
 *  4. Each choice goes into the history: see digest.h.
 */
#ifndef POOL_DETERM_H
#define POOL_DETERM_H

#include <kv/entry.h>
#include <kv/env.h>
#include <kv/hash.h>

#include "internal.h"

/* 64 bits that callers may see in the end. */
static inline u64 pool_random(const struct kvmm_pool *pool)
{
	if (likely(!pool->deterministic))
		return kv_random();
	return kv_mul_fold((pool->seed + pool->nth_unseeded * 0x9e3779b97f4a7c15ull) ^
			   0xd6e8feb86659fd93ull, 0xa0761d6478bd642full);
}

/* The time by which leases run: kvmm's, or the latest that the pool was told. */
static inline u64 pool_clock_ns(const struct kvmm_pool *pool)
{
	return likely(!pool->deterministic) ? kv_clock_ns() : READ_ONCE(pool->told_ns);
}

/* It is @now_ns, or if that is 0 the latest time told. */
static inline u64 pool_told_ns(struct kvmm_pool *pool, u64 now_ns)
{
	if (likely(!pool->deterministic))
		return now_ns ? now_ns : kv_clock_ns();
	/* Relaxed: only callers that follow each other are promised anything. */
	if (now_ns > READ_ONCE(pool->told_ns))
		WRITE_ONCE(pool->told_ns, now_ns);
	return READ_ONCE(pool->told_ns);
}

/* What a block takes to be copied, as ranks were told: budgets of time are counts by it. */
static inline u64 pool_copy_ns(const struct kvmm_pool *pool)
{
	return pool->completions.block_ns ? pool->completions.block_ns :
					    pool->door.costs.copy_block_ns;
}

#endif /* POOL_DETERM_H */
