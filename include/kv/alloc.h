/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks are taken from: one place for the choice of direction, fit and class.
 *
 * All calls are all or nothing, take the zone's lock and no other, and allocate no host memory.
 */
#ifndef KV_ALLOC_H
#define KV_ALLOC_H

#include <kv/types.h>
#include <kvmm/ext/slab.h>
#include <kvmm/types.h>

/* How long the blocks are expected to stay where they are, and so where they go. */
enum kv_placement {
	KV_PLACE_MOVABLE,	/* best fit, bottom-up */
	KV_PLACE_PINNED,	/* first fit from the bottom: immovable blocks stay together */
	KV_PLACE_TOPDOWN,	/* best fit from the top: short-lived blocks stay apart */
	KV_NR_PLACEMENTS,
};

/* @nr blocks in at most @max_runs runs: number of extents in @ext, -ENOSPC or -EINVAL. */
int kv_alloc_runs(struct kvmm_zone *zone, enum kv_placement place, u32 nr, u32 max_runs,
		  struct kvmm_extent *ext);

/* Give @nr_ext extents back, all of them: 0, or -EUCLEAN if the zone says that one was free. */
int kv_free_runs(struct kvmm_zone *zone, const struct kvmm_extent *ext, u32 nr_ext);

/* ---- reserve.c: set aside, neither allocated nor freed ---- */

/* Length of the free run that begins at @end. */
u32 kv_free_behind(struct kvmm_zone *zone, u32 end);

/* As many of the blocks behind @end as are free, at least @nr and at most @most: how many, or 0. */
u32 kv_reserve_behind(struct kvmm_zone *zone, u32 end, u32 nr, u32 most);

/* One run of at least @nr blocks, of @most if there is such a run: its length, or 0. */
u32 kv_reserve_run(struct kvmm_zone *zone, enum kv_placement place, u32 nr, u32 most, u32 *start);

/* Give some back: 0, or -EUCLEAN if the zone says that one was free. */
int kv_unreserve(struct kvmm_zone *zone, u32 start, u32 nr);

/* @nr that were set aside are allocated now. */
void kv_reserved_used(u32 nr);

/* ---- lend.c ---- */

/*
 * Blocks that are free in [lo, hi) of one zone are free in another one from now on, in which they
 * were held: parts of a pool may be looked after elsewhere. No events are counted. Returns how many
 * blocks. If the zones contradict each other a block may be free in neither: a recount finds it.
 */
u32 kv_pass_free(struct kvmm_zone *from, struct kvmm_zone *to, u32 lo, u32 hi);

/* The first @nr blocks in a run from @lo on that are free at this moment, or KV_NONE. */
u32 kv_find_free(struct kvmm_zone *zone, u32 nr, u32 lo);

/* Blocks in no extent, as of one moment. */
u32 kv_zone_nr_free(struct kvmm_zone *zone);

/* Engines that round requests up take back whole allocations only. */
bool kv_zone_rounds(const struct kvmm_zone *zone);

/* Does a free run of @nr blocks serve any request of so many, wherever it lies? */
bool kv_zone_takes_any_run(const struct kvmm_zone *zone);

/* ---- slab_stat.c ---- */

/**
 * struct kv_slab_row - one cache, with its name
 * @name: ends with a NUL
 * @stat, @shape: of one moment
 */
struct kv_slab_row {
	char name[KVMM_SLAB_NAME_BYTES];
	struct kvmm_slab_stat stat;
	struct kvmm_slab_shape shape;
};

/**
 * kv_slab_next() - walk the caches of a zone, or all if it is NULL
 * @cursor: 0 at first; moved on by each call
 *
 * Caches that are made or destroyed meanwhile may be missed, or shift others into being missed.
 *
 * Return: 0; -ENOENT that was all; -EINVAL.
 */
int kv_slab_next(const struct kvmm_zone *zone, u32 *cursor, struct kv_slab_row *row);

/* Recompute everything: 0; -EUCLEAN it refuses further calls; -ENOMEM; -EINVAL. */
int kv_slab_cache_check(struct kvmm_slab_cache *cache);

/*
 * The caches of a zone, or all if it is NULL, as /proc/slabinfo has them; "pages" are base blocks.
 * Of zones that have caches of one name the second is "name#1". Length of the whole text; -EINVAL.
 */
int kv_slab_info(const struct kvmm_zone *zone, char *buf, size_t bytes);

#endif /* KV_ALLOC_H */
