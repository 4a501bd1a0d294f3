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

struct kv_zone;

/* How long the blocks are expected to stay where they are, and so where they go. */
enum kv_placement {
	KV_PLACE_MOVABLE,	/* best fit, bottom-up */
	KV_PLACE_PINNED,	/* first fit from the bottom: immovable blocks stay together */
	KV_PLACE_TOPDOWN,	/* best fit from the top: short-lived blocks stay apart */
	KV_NR_PLACEMENTS,
};

/* @nr blocks in at most @max_runs runs: number of extents in @ext, -ENOSPC or -EINVAL. */
int kv_alloc_runs(struct kv_zone *zone, enum kv_placement place, u32 nr, u32 max_runs,
		  struct kvmm_extent *ext);

/* Give @nr_ext extents back, all of them: 0, or -EUCLEAN if the zone says that one was free. */
int kv_free_runs(struct kv_zone *zone, const struct kvmm_extent *ext, u32 nr_ext);

/* ---- reserve.c, alloc.c: set aside, neither allocated nor freed ---- */

/* Length of the free run that begins at @end. */
u32 kv_free_behind(struct kv_zone *zone, u32 end);

/* As many of the blocks behind @end as are free, at least @nr and at most @most: how many, or 0. */
u32 kv_reserve_behind(struct kv_zone *zone, u32 end, u32 nr, u32 most);

/* One run of at least @nr blocks, of @most if there is such a run: its length, or 0. */
u32 kv_reserve_run(struct kv_zone *zone, enum kv_placement place, u32 nr, u32 most, u32 *start);

/* Give some back: 0, or -EUCLEAN if the zone says that one was free. */
int kv_unreserve(struct kv_zone *zone, u32 start, u32 nr);

/* @nr that were set aside are allocated now. */
void kv_reserved_used(u32 nr);

/* ---- lend.c ---- */

/*
 * Blocks that are free in [lo, hi) of one zone are free in another one from now on, in which they
 * were held: parts of a pool may be looked after elsewhere. No events are counted. Returns how many
 * blocks. If the zones contradict each other a block may be free in neither: a recount finds it.
 */
u32 kv_pass_free(struct kv_zone *from, struct kv_zone *to, u32 lo, u32 hi);

/* The first @nr blocks in a run from @lo on that are free at this moment, or KV_NONE. */
u32 kv_find_free(struct kv_zone *zone, u32 nr, u32 lo);

/* ---- alloc.c ---- */

/* Engines that round requests up take back whole allocations only. */
bool kv_zone_rounds(const struct kv_zone *zone);

/* Does a free run of @nr blocks serve any request of so many, wherever it lies? */
bool kv_zone_takes_any_run(const struct kv_zone *zone);

/* ---- slab_stat.c, slab_check.c ---- */

/**
 * struct kv_slab_shape - what a slab looks like
 * @stride: bytes from one object to the next: its size, rounded up to the alignment
 * @slab_bytes: of all its blocks
 * @waste_bytes: of those outside all objects: gaps between objects, and what is over at the end
 * @nr_blocks: base blocks in a slab
 * @nr_objects: objects in a slab
 * @block_align: its first block is a multiple of this power of two
 * @nr_colours: different beginnings
 * @waste_pm: @waste_bytes per mille of @slab_bytes, rounded up
 */
struct kv_slab_shape {
	u64 stride;
	u64 slab_bytes;
	u64 waste_bytes;
	u32 nr_blocks;
	u32 nr_objects;
	u32 block_align;
	u32 nr_colours;
	u32 waste_pm;
};

/**
 * struct kv_slab_row - one cache, with its name
 * @name: ends with a NUL
 * @stat, @shape: of one moment
 */
struct kv_slab_row {
	char name[KVMM_SLAB_NAME_BYTES];
	struct kvmm_slab_stat stat;
	struct kv_slab_shape shape;
};

/* Caches of the process. */
u32 kv_slab_nr(void);

/**
 * kv_slab_next() - walk the caches of the process
 * @cursor: 0 at first; moved on by each call
 *
 * Caches that are made or destroyed meanwhile may be missed, or shift others into being missed.
 *
 * Return: 0; -ENOENT that was all.
 */
int kv_slab_next(u32 *cursor, struct kv_slab_row *row);

/*
 * The caches of the process, as /proc/slabinfo has them; "pages" are base blocks. The second cache
 * of one name is "name#1". Length of the whole text.
 */
int kv_slab_info(char *buf, size_t bytes);

#endif /* KV_ALLOC_H */
