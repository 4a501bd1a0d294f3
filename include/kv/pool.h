/* SPDX-License-Identifier: Apache-2.0 */
/* Pools inside the tree: built from parts by the composition root. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include <kv/defrag.h>
#include <kv/dev.h>
#include <kv/evict.h>
#include <kv/pool_part.h>
#include <kv/registry_map.h>
#include <kvmm/compact.h>
#include <kvmm/ext/group.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>

/** Room for a pool's name, NUL included. */
#define KV_POOL_NAME	64u

/**
 * struct kv_pool_parts - the parts below a pool; all borrowed for ever
 * @dev, @dev_number: where the blocks lie
 * @map: from names to cached blocks
 * @evict: order of eviction; NULL = no cached blocks
 * @evict_args: the text behind its name's colon, or NULL; looked at by kv_pool_create() only
 * @planner: it chooses moves; NULL = blocks are never moved
 * @all: all that hangs at a pool, up to a NULL
 */
struct kv_pool_parts {
	const struct kv_dev_ops *dev;
	unsigned int dev_number;
	const struct kv_map_ops *map;
	const struct kv_evict_ops *evict;
	const char *evict_args;
	const struct kv_planner_ops *planner;
	const struct pool_part *const *all;
};

/*
 * A pool as @attr says, of @parts; the names in @attr but the zone engine's are not looked at.
 * 0; -EINVAL, -ENOENT, -ENODEV, -ENOMEM, -EOPNOTSUPP.
 */
int kv_pool_create(const struct kvmm_pool_attr *attr, const struct kv_pool_parts *parts,
		   struct kvmm_pool **pool);

/*
 * For tests: @nr arenas, a power of two, which are in use from now on with and without contention,
 * for any size of the pool. 0; -EINVAL; -EOPNOTSUPP not in this pool; -ENOMEM.
 */
int kv_pool_force_arenas(struct kvmm_pool *pool, u32 nr);

/* Frees all of it but the memory that its name is in, and that after a grace period. */
void kv_pool_destroy(struct kvmm_pool *pool);

/* Set it before others can see the pool. */
void kv_pool_set_name(struct kvmm_pool *pool, const char *name);
const char *kv_pool_name(const struct kvmm_pool *pool);

/*
 * Copy @src, with its size in the first field, to @dst of @bytes. Fields that an older caller does
 * not know yet are 0; -EINVAL if a newer one asks for fields that we do not know.
 */
int kv_copy_attr(void *dst, size_t bytes, const void *src);

/** kv_pool_nr_blocks() - how many blocks it has, the null block included; 0 if NULL. Lock-free. */
u32 kv_pool_nr_blocks(const struct kvmm_pool *pool);

/** kv_pool_registry() - the registry that it was made with, or NULL; it stays its creator's. */
struct kvmm_registry *kv_pool_registry(const struct kvmm_pool *pool);

/* As it was set; @how->size is the caller's. -ENOENT it is off; -EINVAL. */
int kv_background_get(struct kvmm_pool *pool, struct kvmm_background *how);

/** kv_free_staged() - as kvmm_free(). */
int kv_free_staged(struct kvmm_pool *pool, const kvmm_staged_t *staged, u32 nr);

/**
 * struct kv_growth - what is known of one range's growth
 * @size: sizeof(struct kv_growth)
 * @reserved: free blocks kept behind its end, maybe none
 * @chunk: how many were asked for the last time
 * @expect: as in struct kvmm_range_attr
 * @in_place: times that it became longer where it was
 * @elsewhere: times that it went on in a further extent
 * @nr_ext: its extents now
 */
struct kv_growth {
	size_t size;
	struct kvmm_extent reserved;
	uint32_t chunk;
	uint32_t expect;
	uint32_t in_place;
	uint32_t elsewhere;
	uint32_t nr_ext;
	uint32_t reserved0;
};

/** kv_range_growth() - Return: 0; -ESTALE; -EINVAL. */
int kv_range_growth(struct kvmm_pool *pool, kvmm_range_t range, struct kv_growth *growth);

/**
 * struct kv_gang_stat - a set, since it was made; digests have @epoch in them
 * @epoch: calls of kvmm_gang_reserve() that were no -EINVAL
 * @committed, @aborted, @expired: gangs
 * @refused: reservations that failed
 * @nr_reserved: gangs now
 */
struct kv_gang_stat {
	uint64_t epoch;
	uint64_t committed;
	uint64_t aborted;
	uint64_t expired;
	uint64_t refused;
	uint32_t nr_reserved;
	uint32_t reserved;
};

/** kv_gang_read_stat() - Return: 0; -EINVAL. */
int kv_gang_read_stat(struct kvmm_gangs *gangs, struct kv_gang_stat *stat);

/** kv_balloon_tick() - a portion. Return: 1 there is more to do; 0; -EINVAL. */
int kv_balloon_tick(struct kvmm_pool *pool);

/** kv_groups_hit_tokens() - how long the hit was that these tables began with. */
u32 kv_groups_hit_tokens(const struct kvmm_tables *tables);

/* kvmm_pool_digest() of each pool of the set: how many there are; -EUCLEAN; -EINVAL. */
int kv_gangs_digest(struct kvmm_gangs *gangs, struct kvmm_digest_info *infos, u32 max);

/** kv_promise_left() - blocks not taken yet. Return: how many; -ESTALE; -EINVAL. */
int kv_promise_left(struct kvmm_pool *pool, kvmm_promise_t promise);

#endif /* KV_POOL_H */
