/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the slab caches.
 *
 * Invariants, all checked by tests/alloc/slab_check.c:
 *
 * 1. A record is in use (start != KV_NONE) exactly as long as its run is taken from the zone.
 * 2. The generation of an object is odd while it lives and only ever grows, also over the time
 *    when its record is not in use: so no handle is ever good for a second object.
 * 3. A slab's objects below ->fresh are alive or on its list of free ones; those from there on
 *    have not been touched since the slab was made.
 * 4. Each slab with room but the current one is on the list of its fullness, and no other slab is.
 * 5. The current slab, if it has room, is at least as full as any other was when it was chosen.
 *
 * Lock: cache->lock, of rank KV_RANK_POOL. The zone's lock is taken inside it, and host memory is
 * allocated under it. No thread holds two of them, or one and a pool's: neither knows of the other.
 */
#ifndef ALLOC_SLAB_H
#define ALLOC_SLAB_H

#include <kv/alloc.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/types.h>
#include <kvmm/ext/slab.h>

#define SLAB_FIRST_LOG2		3u	/* records in the first chunk */
#define SLAB_MAX_CHUNKS		22u	/* each twice the one before: 2^24 slabs and more */

/* ->lock of the cache */
struct slab_obj {
	u32	gen;		/* odd: alive */
	u32	next;		/* free ones: the next one of the slab, or KV_NONE */
};

/*
 * A record, type-stable; all by ->lock of the cache, ->index fixed. With up to four objects it is
 * one cache line, so that a call touches no more of a slab than that.
 */
struct slab {
	u32	index;
	u32	start;		/* first block of the run; KV_NONE: not in use */
	u32	used;		/* living objects */
	u32	free;		/* object that was freed last, or KV_NONE */
	u32	fresh;		/* objects from here on were never used since the slab was made */
	u32	colour;		/* it begins with so many times colour_bytes unused ones */
	u32	prev;		/* in the list of its fullness; KV_NONE at the ends */
	u32	next;		/* there, or in the list of records that are not in use */
	struct slab_obj	objs[];	/* nr_objects of them */
};

static_assert(sizeof(struct slab) + 4 * sizeof(struct slab_obj) == KV_CACHELINE,
	      "small slabs are a line");

/* Slabs with room, but the current one, by the number of their living objects. ->lock */
struct slab_order {
	u32	*head;		/* nr_objects lists */
	u32	last_empty;	/* the end of the list of those where nothing lives */
	s32	top;		/* largest number of living objects that has a list, or -1 */
	u64	summary;	/* words that are not 0 */
	u64	words[KVMM_SLAB_MAX_OBJECTS / KV_WORD_BITS];	/* lists that are not empty */
};

struct kvmm_slab_cache {
	/* Fixed at creation. */
	struct kv_zone		*zone;		/* ours, together with the others that have it */
	struct kv_slab_shape	shape;
	u64			object_bytes;
	u64			base_block_bytes;
	u64			colour_bytes;
	u32			keep_empty;
	u32			obj_bits;	/* of an index: the object's number in its slab */
	u32			max_records;
	u32			record_bytes;
	char			name[KVMM_SLAB_NAME_BYTES];
	struct kvmm_slab_cache	*next;		/* in the list of all caches; its lock */

	struct kv_lock		lock __cacheline_aligned;
	bool			broken;		/* ->lock, as all that follows */
	struct slab		*cur;		/* where objects come from; NULL: none */
	u64			nr_live;
	u64			nr_room;	/* objects that fit into the slabs there are */
	u32			nr_slabs;
	u32			nr_empty;
	u64			allocs;
	u64			frees;
	struct slab_order	order;

	char			*chunk[SLAB_MAX_CHUNKS];	/* of records; owner: the cache */
	u32			nr_chunks;
	u32			nr_records;	/* ever in use */
	u32			free_record;	/* list over ->next, or KV_NONE */
	u32			next_colour;
	u64			slabs_made;
	u64			slabs_returned;
	u64			fail_nospc;
	u64			metadata_bytes;
};

static inline u32 chunk_of(u32 index)
{
	kv_assert(index < KV_NONE - BIT(SLAB_FIRST_LOG2));
	return kv_log2(index + BIT(SLAB_FIRST_LOG2)) - SLAB_FIRST_LOG2;
}

static inline struct slab *slab_at(const struct kvmm_slab_cache *cache, u32 index)
{
	u32 at = index + BIT(SLAB_FIRST_LOG2), log2 = kv_log2(at);

	kv_assert(index < BIT(SLAB_FIRST_LOG2 + cache->nr_chunks));
	return (struct slab *)(void *)(cache->chunk[log2 - SLAB_FIRST_LOG2] +
				       (u64)(at - BIT(log2)) * cache->record_bytes);
}

static inline bool slab_is_listed(const struct kvmm_slab_cache *cache, const struct slab *slab)
{
	return slab != cache->cur && slab->used < cache->shape.nr_objects;
}

/* slab.c: a cache of the zone, which is the caches' from then on. */
int slab_cache_make(struct kv_zone *zone, const struct kvmm_slab_attr *attr,
		    struct kvmm_slab_cache **cache);

/* Empty slabs go back to the zone; how many. No lock held. */
u32 slab_shrink(struct kvmm_slab_cache *cache);

/*
 * slab_shape.c: the shortest slab of so many blocks at most with no more waste than allowed: 0;
 * -ERANGE there is none, and @shape is the one that wastes least, or without objects; -EINVAL.
 */
int slab_shape(u32 nr_blocks, const struct kvmm_slab_attr *attr, struct kv_slab_shape *shape);

/* slab_order.c */
void slab_order_add(struct kvmm_slab_cache *cache, struct slab *slab);
void slab_order_del(struct kvmm_slab_cache *cache, struct slab *slab);

/* slab_table.c: a slab more, empty and listed; undone in the reverse order. The lock is held. */
int slab_make(struct kvmm_slab_cache *cache);
void slab_unmake(struct kvmm_slab_cache *cache);
void slab_return(struct kvmm_slab_cache *cache, struct slab *slab);
void slab_drop_chunks(struct kvmm_slab_cache *cache, u32 nr_keep);

/* slab_stat.c: the list of all caches, by a lock of its own. */
/* Empty slabs of all caches of the zone go back to it; how many. No lock held. */
u32 slab_reclaim(const struct kv_zone *zone);
int slab_list_add(struct kvmm_slab_cache *cache);
bool slab_list_del(struct kvmm_slab_cache *cache);	/* true: no other has its zone */

#endif /* ALLOC_SLAB_H */
