/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slab caches: objects of another size than the blocks of the memory they live in.
 *
 * Hybrid models keep several things of unlike size: windows and full attention, states, latent
 * vectors, draft models. A cache serves one such size. It takes runs of base blocks ("slabs"),
 * carves them into objects, and gives a slab back when nothing lives in it any more. Several caches
 * may share their blocks, so that memory goes where it is needed:
 *
 *	block	0       1       2       3       4       5       6       7
 *		[a a a a a a a a a|- ][b       b     |- ][.......................]
 *
 * Blocks are numbers, from 0 on, of memory that no pool has: nothing here touches it. They last as
 * long as a cache has them.
 *
 * All calls are thread safe (one lock a cache) and all or nothing: a call that fails has changed
 * nothing. If a cache ever finds that it contradicts itself it refuses further calls with
 * -EUCLEAN.
 */
#ifndef KVMM_EXT_SLAB_H
#define KVMM_EXT_SLAB_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_slab_cache;

/** Longest slab, in base blocks. */
#define KVMM_SLAB_MAX_BLOCKS	64u

/** Most objects a slab may have. */
#define KVMM_SLAB_MAX_OBJECTS	4096u

/** Bytes of a cache's name, NUL included. */
#define KVMM_SLAB_NAME_BYTES	32u

/** Largest base block. */
#define KVMM_SLAB_MAX_BYTES	(1ull << 36)

/** An object of a cache. Stale from the moment it is freed; all zeros is never one. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_slab_obj_t;

/**
 * struct kvmm_slab_attr - how to make a cache
 * @size: sizeof(struct kvmm_slab_attr); set by KVMM_SLAB_ATTR_INIT
 * @name: not empty, of letters that can be seen; no other cache of these blocks has it; copied
 * @object_bytes: bytes of an object, 1 or more
 * @align: each object begins at a multiple of this power of two, counted from block 0
 *	(so that address must be aligned as well); 0 = 1
 * @base_block_bytes: bytes of a block, the same for all caches that share blocks
 * @colour_bytes: slabs begin with 0, 1, 2, ... times so many unused bytes, as far as there are any
 *	to spare, so that equal objects of different slabs fall on different channels and cache sets
 *	of a device; a multiple of @align; 0 = no colouring
 * @max_waste_pm: most bytes of a slab outside all objects, per mille; 0 = nothing is wasted
 * @keep_empty: so many slabs are kept when nothing lives in them, until a cache of these blocks
 *	would fail for want of them; 0 = each is returned at once
 * @nr_blocks: of the memory, 1 to KVMM_MAX_BLOCKS; 0 with @beside
 * @beside: a cache whose blocks this one shares; or NULL
 */
struct kvmm_slab_attr {
	size_t size;
	const char *name;
	uint64_t object_bytes;
	uint64_t align;
	uint64_t base_block_bytes;
	uint64_t colour_bytes;
	uint32_t max_waste_pm;
	uint32_t keep_empty;
	uint32_t nr_blocks;
	uint32_t reserved;
	struct kvmm_slab_cache *beside;
};

#define KVMM_SLAB_ATTR_INIT { sizeof(struct kvmm_slab_attr), NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL }

/**
 * kvmm_slab_cache_create() - make a cache; it has no slab yet
 * @attr: borrowed during the call
 * @cache: set on success only
 *
 * Slabs are as short as @max_waste_pm lets them be.
 *
 * Return: 0; -EINVAL bad attribute, or another size of base blocks than @attr->beside has; -ERANGE
 * no slab of at most KVMM_SLAB_MAX_BLOCKS blocks and KVMM_SLAB_MAX_OBJECTS objects is good enough,
 * see kvmm_why(); -EEXIST a cache of these blocks has that name; -ENOMEM.
 */
KVMM_API int kvmm_slab_cache_create(const struct kvmm_slab_attr *attr,
				    struct kvmm_slab_cache **cache);

/** kvmm_slab_cache_destroy() - give all slabs back, living objects or not. Takes NULL. The last
 * cache of some blocks takes these with it. */
KVMM_API void kvmm_slab_cache_destroy(struct kvmm_slab_cache *cache);

/**
 * kvmm_slab_alloc() - take objects
 * @cache: where from
 * @nr: how many, at least 1
 * @objs: room for @nr handles; untouched on failure
 *
 * The fullest slab that has room goes first, so that the others drain.
 *
 * Context: may make slabs and allocate host memory under the cache's lock.
 * Return: 0; -EINVAL; -ENOSPC no runs are free for the slabs that it takes; -ENOMEM; -EUCLEAN.
 */
KVMM_API int kvmm_slab_alloc(struct kvmm_slab_cache *cache, uint32_t nr, kvmm_slab_obj_t *objs);

/**
 * kvmm_slab_free() - give objects back
 *
 * Return: 0; -ESTALE one of them is not alive (any more), or stands there twice; -EINVAL one of
 * them never was; -EUCLEAN. On failure nothing was freed.
 */
KVMM_API int kvmm_slab_free(struct kvmm_slab_cache *cache, uint32_t nr,
			    const kvmm_slab_obj_t *objs);

/**
 * struct kvmm_slab_place - where an object lies
 * @offset: of its first byte, counted from block 0
 * @bytes: of the object
 * @run: blocks of its slab; other objects live there as well
 *
 * Fixed: where bytes lie, and in which blocks.
 */
struct kvmm_slab_place {
	uint64_t offset;
	uint64_t bytes;
	struct kvmm_extent run;
};

/**
 * kvmm_slab_places() - where objects lie; they stay there until they are freed
 * @places: room for @nr places; untouched on failure
 *
 * Return: 0; -ESTALE; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_slab_places(struct kvmm_slab_cache *cache, uint32_t nr,
			      const kvmm_slab_obj_t *objs, struct kvmm_slab_place *places);

/**
 * struct kvmm_slab_stat - one coherent snapshot of a cache
 * @slab_objects: objects in a slab; of base blocks it has @nr_blocks / @nr_slabs
 * @nr_objects: living objects
 * @nr_slots: objects that fit into the slabs there are
 * @nr_slabs, @nr_full, @nr_partial, @nr_empty: slabs; by how full they are
 * @nr_blocks: base blocks held
 * @held_bytes: of those blocks
 * @live_bytes: of living objects
 * @slack_bytes: outside all objects, whether they live or not
 * @unused_bytes: of objects that do not live; held = live + slack + unused
 * @waste_pm: (@slack_bytes + @unused_bytes) per mille of @held_bytes, rounded up
 * @allocs, @frees: objects since the cache was made
 * @slabs_made, @slabs_returned: slabs since then
 * @fail_nospc: calls that found no room
 * @metadata_bytes: host memory of the cache
 */
struct kvmm_slab_stat {
	uint32_t slab_objects;
	uint32_t waste_pm;
	uint64_t nr_objects;
	uint64_t nr_slots;
	uint64_t nr_slabs;
	uint64_t nr_full;
	uint64_t nr_partial;
	uint64_t nr_empty;
	uint64_t nr_blocks;
	uint64_t held_bytes;
	uint64_t live_bytes;
	uint64_t slack_bytes;
	uint64_t unused_bytes;
	uint64_t allocs;
	uint64_t frees;
	uint64_t slabs_made;
	uint64_t slabs_returned;
	uint64_t fail_nospc;
	uint64_t metadata_bytes;
};

KVMM_API int kvmm_slab_get_stat_sized(struct kvmm_slab_cache *cache, struct kvmm_slab_stat *stat,
				      size_t size);

/** kvmm_slab_get_stat() - Return: 0; -EINVAL. */
static inline int kvmm_slab_get_stat(struct kvmm_slab_cache *cache, struct kvmm_slab_stat *stat)
{
	return kvmm_slab_get_stat_sized(cache, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_SLAB_H */
