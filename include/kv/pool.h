/* SPDX-License-Identifier: Apache-2.0 */
/* Pools inside the tree: built from parts by the composition root. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include <kv/defrag.h>
#include <kv/dev.h>
#include <kv/evict.h>
#include <kv/mem.h>
#include <kv/pool_part.h>
#include <kv/registry_map.h>
#include <kvmm/compact.h>
#include <kvmm/ext/group.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>

struct kv_zone;

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

/* The time by which leases and deadlines run: kvmm's, or the latest that the pool was told. */
u64 kv_pool_clock_ns(const struct kvmm_pool *pool);

/* Set it before others can see the pool. */
void kv_pool_set_name(struct kvmm_pool *pool, const char *name);
const char *kv_pool_name(const struct kvmm_pool *pool);

/* The link of the list of all pools, and its owner's. */
struct kvmm_pool **kv_pool_next(struct kvmm_pool *pool);

/** kv_pool_nr_blocks() - how many blocks it has, the null block included; 0 if NULL. Lock-free. */
u32 kv_pool_nr_blocks(const struct kvmm_pool *pool);

/** kv_pool_zone() - its zone, to look at: do not allocate or free there. */
struct kv_zone *kv_pool_zone(struct kvmm_pool *pool);

/** kv_pool_registry() - the registry that it was made with, or NULL; it stays its creator's. */
struct kvmm_registry *kv_pool_registry(const struct kvmm_pool *pool);

/* As it was set; @how->size is the caller's. -ENOENT it is off; -EINVAL. */
int kv_background_get(struct kvmm_pool *pool, struct kvmm_background *how);

/** kv_free_staged() - as kvmm_free(). */
int kv_free_staged(struct kvmm_pool *pool, const kvmm_staged_t *staged, u32 nr);

/** kv_balloon_tick() - a portion. Return: 1 there is more to do; 0; -EINVAL. */
int kv_balloon_tick(struct kvmm_pool *pool);

#endif /* KV_POOL_H */
