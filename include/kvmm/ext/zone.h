/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone: the block ids 0 .. nr-1 of one memory, and the runs of them that are allocated.
 *
 * This is the allocator alone, for engines that keep their own tables. It knows nothing of
 * requests, content or caching: see <kvmm/pool.h> for those. All calls are thread safe (one lock
 * a zone), allocate no host memory after creation, and are all or nothing: a call that fails has
 * changed nothing.
 */
#ifndef KVMM_EXT_ZONE_H
#define KVMM_EXT_ZONE_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kvmm_zone_attr - how to make a zone
 * @size: sizeof(struct kvmm_zone_attr); set by KVMM_ZONE_ATTR_INIT
 * @nr_blocks: blocks in the zone, 1 to KVMM_MAX_BLOCKS; any number, not only powers of two
 * @pageblock_order: log2 of the blocks in a pageblock, the unit of mobility grouping; 9 if 0
 * @engine: "zone" (the default, if NULL) or another engine's name, see kvmm_zone_engines()
 */
struct kvmm_zone_attr {
	size_t size;
	uint32_t nr_blocks;
	uint32_t pageblock_order;
	const char *engine;
};

#define KVMM_ZONE_ATTR_INIT { sizeof(struct kvmm_zone_attr), 0, 0, NULL }

/**
 * struct kvmm_zone_stat - one coherent snapshot of a zone
 * @nr_blocks: size of the zone
 * @nr_free: blocks in no extent
 * @nr_runs: maximal runs of free blocks
 * @largest: length of the longest piece the engine can hand out
 * @metadata_bytes: host memory that the zone holds
 */
struct kvmm_zone_stat {
	uint32_t nr_blocks;
	uint32_t nr_free;
	uint32_t nr_runs;
	uint32_t largest;
	uint64_t metadata_bytes;
};

/**
 * kvmm_zone_engines() - names of the engines that can be chosen
 * @names: room for @max pointers to static strings
 * @max: length of @names
 *
 * "zone" is the default. "buddy" is the classic power-of-two buddy, fastest where only powers of
 * two are asked for; "buddy-trim" gives back what such a block has beyond the request.
 *
 * Return: how many engines there are, which may be more than @max.
 */
KVMM_API unsigned int kvmm_zone_engines(const char **names, unsigned int max);

/**
 * kvmm_zone_create() - make a zone, all of it free
 * @attr: what to make; borrowed during the call
 * @zone: set on success only
 *
 * Context: may allocate host memory.
 * Return: 0; -EINVAL bad attribute; -ENOENT no engine of that name; -ENOMEM.
 */
KVMM_API int kvmm_zone_create(const struct kvmm_zone_attr *attr, struct kvmm_zone **zone);

/** kvmm_zone_destroy() - free a zone, or NULL; no thread may use it any more. Cannot fail. */
KVMM_API void kvmm_zone_destroy(struct kvmm_zone *zone);

/**
 * kvmm_zone_alloc() - take one run of @nr blocks, best fit from the bottom
 * @zone: where from
 * @nr: blocks wanted
 * @start: first block of the run; set on success only
 *
 * Return: 0; -EINVAL @nr is 0 or more than the zone holds; -ENOSPC no free run is long enough.
 */
KVMM_API int kvmm_zone_alloc(struct kvmm_zone *zone, uint32_t nr, uint32_t *start);

/**
 * kvmm_zone_alloc_at() - claim exactly the blocks [@start, @start + @nr)
 *
 * This is how ranges grow in place, to the back and to the front.
 *
 * Return: 0; -EINVAL outside the zone; -EBUSY one of the blocks is taken; -EOPNOTSUPP the engine
 * cannot hold such a run ("buddy": anything but an aligned power of two).
 */
KVMM_API int kvmm_zone_alloc_at(struct kvmm_zone *zone, uint32_t start, uint32_t nr);

/**
 * kvmm_zone_alloc_many() - take @nr single blocks, wherever breaking up free runs hurts least
 * @ids: room for @nr block ids; untouched on failure
 *
 * Return: 0; -EINVAL; -ENOSPC fewer than @nr blocks are free.
 */
KVMM_API int kvmm_zone_alloc_many(struct kvmm_zone *zone, uint32_t nr, uint32_t *ids);

/**
 * kvmm_zone_free() - give [@start, @start + @nr) back
 *
 * Any part of what was allocated may be given back: shrinking and splitting are this call.
 *
 * Return: 0; -EINVAL a block is outside the zone or already free (nothing was freed).
 */
KVMM_API int kvmm_zone_free(struct kvmm_zone *zone, uint32_t start, uint32_t nr);

/** kvmm_zone_free_many() - give single blocks back; -EINVAL also if an id stands there twice. */
KVMM_API int kvmm_zone_free_many(struct kvmm_zone *zone, const uint32_t *ids, uint32_t nr);

KVMM_API int kvmm_zone_get_stat_sized(struct kvmm_zone *zone, struct kvmm_zone_stat *stat,
				      size_t size);

/** kvmm_zone_get_stat() - counts as of one moment. Return: 0; -EINVAL. */
static inline int kvmm_zone_get_stat(struct kvmm_zone *zone, struct kvmm_zone_stat *stat)
{
	return kvmm_zone_get_stat_sized(zone, stat, sizeof(*stat));
}

/**
 * kvmm_zone_unusable() - share of the free blocks that cannot serve a request of @nr blocks
 *
 * Linux's unusable free index for any length: (free - free in runs of at least @nr) * 10^6 / free,
 * rounded down. No free memory counts as 10^6.
 *
 * Return: parts per million; -EINVAL.
 */
KVMM_API int kvmm_zone_unusable(struct kvmm_zone *zone, uint32_t nr);

/**
 * kvmm_zone_fragmentation() - why a request of @nr blocks would fail
 *
 * Linux's fragmentation index in parts per million: towards 0 memory is short, towards 10^6 it is
 * scattered. -1000000 means that the request would not fail.
 */
KVMM_API int kvmm_zone_fragmentation(struct kvmm_zone *zone, uint32_t nr);

/**
 * kvmm_zone_next_free() - the first maximal free run that ends after block @from
 * @run: where it lies, whole (it may begin before @from)
 *
 * Walk: start with 0, go on with run.start + run.nr. The zone may change in between.
 *
 * Return: 0; -ENOENT no free block at or after @from; -EINVAL.
 */
KVMM_API int kvmm_zone_next_free(struct kvmm_zone *zone, uint32_t from, struct kvmm_extent *run);

/**
 * kvmm_zone_buddyinfo() - free aligned power-of-two blocks by order and mobility class
 * @counts: maximal free blocks of order o in pageblocks of class m, at [m * KVMM_NR_ORDERS + o]
 *
 * What a buddy allocator would hold on its lists for the same free map. Read from the map, since
 * keeping these counts would make each allocation dearer (see Documentation/zone.rst): takes time
 * in proportion to the free runs. Exact if the zone does not change meanwhile; it is looked at in
 * slices of 32768 blocks, each as of one moment, so that allocation never waits long.
 */
KVMM_API int kvmm_zone_buddyinfo(struct kvmm_zone *zone,
				 uint64_t counts[KVMM_NR_MOBILITY * KVMM_NR_ORDERS]);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_ZONE_H */
