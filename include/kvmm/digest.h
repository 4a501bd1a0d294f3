/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests: whether pools that were called alike still agree, and if not, in what.
 *
 * There are two, for pools with KVMM_POOL_DETERMINISTIC:
 *
 *	kvmm_pool_history()	of all that the pool has decided so far. Cheap enough for each step
 *	kvmm_pool_digest()	of all that the pool is now, by parts, in a walk; for any pool
 *
 * Ranks exchange the former, 16 bytes, and the latter once those differ: kvmm_digest_compare() then
 * names the pool and the part. Neither depends on addresses, time, secrets, threads or host memory.
 *
 * They detect accidents, not forgery: two histories of one digest are easy to make.
 *
 *	kvmm_pool_history(pool, &mine);
 *	all_gather(&mine, sizeof(mine));		// the engine's
 *	if (any differs) {
 *		kvmm_pool_digest(pool, &info);
 *		all_gather(&info, sizeof(info));
 *		if (kvmm_digest_compare(&infos[0], &infos[rank], 1, &diff) == 1)
 *			kvmm_digest_text(&diff, text, sizeof(text));	// "pool 0 'kv': ranges"
 *	}
 */
#ifndef KVMM_DIGEST_H
#define KVMM_DIGEST_H

#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 128 bits that differ when what they are of differs, but for one in 2^64 accidents. */
typedef struct {
	uint64_t word[2];
} kvmm_sum_t;

/**
 * enum kvmm_digest_part - parts of a pool, in the order in which kvmm_digest_compare() compares
 * them
 * @KVMM_DIGEST_SHAPE: how it was made: lengths, policy, engine, flags, seed, classes
 * @KVMM_DIGEST_FREE: which blocks are free in the zone; watermarks and promises
 * @KVMM_DIGEST_RANGES: ranges: where they lie, tenants, references, pins
 * @KVMM_DIGEST_BLOCKS: cached and private blocks: state, key, place, references
 * @KVMM_DIGEST_ORDER: order of eviction: each victim in its turn, classes, chains of blocks
 * @KVMM_DIGEST_HOLDS: holds and their leases
 * @KVMM_DIGEST_TENANTS: the tenant of the content of each block, where known
 * @KVMM_DIGEST_HANDLES: which handles will be given out next
 * @KVMM_DIGEST_HISTORY: kvmm_pool_history(), 0 in other pools. If it alone differs, the pools were
 *	called differently, and have come to the same; or a policy counts differently
 */
enum kvmm_digest_part {
	KVMM_DIGEST_SHAPE,
	KVMM_DIGEST_FREE,
	KVMM_DIGEST_RANGES,
	KVMM_DIGEST_BLOCKS,
	KVMM_DIGEST_ORDER,
	KVMM_DIGEST_HOLDS,
	KVMM_DIGEST_TENANTS,
	KVMM_DIGEST_HANDLES,
	KVMM_DIGEST_HISTORY,
	KVMM_NR_DIGEST_PARTS,
};

/** Room for a pool's name in a digest, NUL included. */
#define KVMM_DIGEST_NAME	64u

/**
 * struct kvmm_digest_info - one pool; plain bytes, fit to send to machines of this byte order
 * @size: sizeof(struct kvmm_digest_info), set by the caller
 * @part: out: by enum kvmm_digest_part
 * @all: out: of all parts
 * @name: out: the pool's; not part of any digest
 */
struct kvmm_digest_info {
	size_t size;
	kvmm_sum_t part[KVMM_NR_DIGEST_PARTS];
	kvmm_sum_t all;
	char name[KVMM_DIGEST_NAME];
};

/**
 * kvmm_pool_digest() - sum up the state of a pool
 *
 * Stops the world as kvmm_validate() does, and takes some ten nanoseconds a block. Changes nothing.
 * What a policy knows beyond its order (how often evicted blocks were used, say) is not looked at;
 * see KVMM_DIGEST_HISTORY.
 *
 * Return: 0; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_pool_digest(struct kvmm_pool *pool, struct kvmm_digest_info *info);

/**
 * kvmm_pool_history() - sum up each decision so far, and all that the order of eviction learned
 *
 * Two short locks. Failed calls count as far as they were noticed: ranks that fail alike agree.
 *
 * Return: 0; -EOPNOTSUPP the pool has no KVMM_POOL_DETERMINISTIC; -EINVAL; -EUCLEAN.
 */
static inline int kvmm_pool_history(struct kvmm_pool *pool, kvmm_sum_t *digest)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_HISTORY, digest, sizeof(*digest));
}

static inline int kvmm_sum_equal(const kvmm_sum_t *a, const kvmm_sum_t *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/**
 * struct kvmm_digest_diff - the first difference
 * @pool: which pool, by its place in the arrays
 * @part: enum kvmm_digest_part
 * @name: of the pool, where the first one is
 *
 * Fixed: where; the two digests have the rest.
 */
struct kvmm_digest_diff {
	uint32_t pool;
	uint32_t part;
	char name[KVMM_DIGEST_NAME];
};

/**
 * kvmm_digest_compare() - find the first difference between pools
 * @a, @b: @nr pools each, in the same order
 * @diff: set if they do
 *
 * Return: 1 they do; 0 they are alike; -EINVAL.
 */
KVMM_API int kvmm_digest_compare(const struct kvmm_digest_info *a, const struct kvmm_digest_info *b,
				 uint32_t nr, struct kvmm_digest_diff *diff);

/**
 * kvmm_digest_text() - "pool 2 'kv1': order of eviction"
 * @buf: room for @bytes, NUL included; always terminated if there is any
 *
 * Return: length of the whole text without NUL (it was cut if that is @bytes or more); -EINVAL.
 */
KVMM_API int kvmm_digest_text(const struct kvmm_digest_diff *diff, char *buf, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_DIGEST_H */
