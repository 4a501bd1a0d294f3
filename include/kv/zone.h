/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone: the block ids 0 .. nr-1 of one memory, and the runs of them that are allocated.
 *
 * This is the allocator alone: it knows nothing of requests, content or caching. A zone is an
 * engine (it knows which blocks are free) plus what all engines share: argument checks, the lock,
 * pageblock classes, statistics. The engine never sees a bad argument. All calls are thread safe
 * (one lock a zone), allocate no host memory after creation, and are all or nothing.
 */
#ifndef KV_ZONE_H
#define KV_ZONE_H

#include <kv/lock.h>
#include <kv/types.h>
#include <kvmm/types.h>

/** enum kv_fit - which free run to take when several would do */
enum kv_fit {
	KV_FIT_BEST,		/* the shortest that fits; lowest address among equals */
	KV_FIT_FIRST,		/* the lowest address that fits */
};

/**
 * struct kv_zone_req - one request for a run, in full
 * @nr: blocks wanted, at least 1
 * @align: the first block's id is a multiple of this power of two; 0 or 1 = anywhere
 * @lo: first block that may be used
 * @hi: one past the last block that may be used; 0 = the zone's end
 * @fit: enum kv_fit
 * @topdown: non-zero to mirror the search: highest address first, taken from the end of a run
 * @mobility: enum kvmm_mobility; decides the class of a pageblock that was empty so far
 */
struct kv_zone_req {
	uint32_t nr;
	uint32_t align;
	uint32_t lo;
	uint32_t hi;
	uint8_t fit;
	uint8_t topdown;
	uint8_t mobility;
};

/**
 * struct kv_zone_ops - one way of keeping the free blocks of a zone
 *
 * All but metadata_bytes and init are called with zone->lock held, get checked arguments, must
 * not sleep or allocate host memory, and change nothing when they fail. @engine is the memory of
 * metadata_bytes() bytes that init() was given, cache-line aligned and zeroed.
 *
 * @name: in struct kv_zone_attr and struct kvmm_pool_attr
 * @metadata_bytes: host memory for @nr_blocks blocks
 * @init: all blocks free
 * @take: one run of req->nr blocks inside [req->lo, req->hi), req->align >= 1: its start, or
 *	KV_NONE. More may be held (rounding engines)
 * @take_best: take() of so many blocks, best fit from the bottom, nothing else asked: the hot
 *	path. NULL: take()
 * @take_at: exactly [start, start + nr): 0, -EBUSY, or -EOPNOTSUPP
 * @take_many: @nr single blocks, no more than are free. NULL: take() one by one
 * @give: free [start, start + nr): 0, or -EINVAL if a block of it is free already or if the
 *	engine only takes back whole allocations and this is none
 * @give_many: the same for single blocks. NULL: give() one by one after a check of the whole
 * @aligned: pieces are aligned blocks, so a free run may not serve a request of its length
 * @held: blocks that take() holds for a request of @nr. NULL: @nr, nothing is rounded
 * @next_free: first maximal free run that ends after @from, or .nr = 0
 * @is_free: is this block in no extent?
 * @nr_free: blocks in no extent (rounding counts as held); also without the lock, to be looked at
 * @nr_runs: maximal free runs (buddies: free buddy blocks), as @usable counts pieces
 * @largest: longest piece that take() could hand out now
 * @usable: free blocks in pieces that can hold @nr blocks; @pieces gets their number
 * @kth_largest: lengths of the @k longest free pieces, longest first; how many there are
 * @check: recompute everything; 0 or -EUCLEAN
 * @peek: 64 blocks of the free map from block 64 * @word on, as they are just now: called without
 *	the lock, while others write
 */
struct kv_zone_ops {
	const char *name;
	bool aligned;
	size_t (*metadata_bytes)(u32 nr_blocks);
	void (*init)(void *engine, u32 nr_blocks);
	u32 (*take)(void *engine, const struct kv_zone_req *req);
	u32 (*take_best)(void *engine, u32 nr);
	int (*take_at)(void *engine, u32 start, u32 nr);
	void (*take_many)(void *engine, u32 nr, u32 *ids);
	int (*give)(void *engine, u32 start, u32 nr);
	int (*give_many)(void *engine, const u32 *ids, u32 nr);
	u32 (*held)(u32 nr);
	struct kvmm_extent (*next_free)(const void *engine, u32 from);
	bool (*is_free)(const void *engine, u32 block);
	u32 (*nr_free)(const void *engine);
	u32 (*nr_runs)(const void *engine);
	u32 (*largest)(const void *engine);
	u32 (*usable)(const void *engine, u32 nr, u32 *pieces);
	unsigned int (*kth_largest)(const void *engine, u32 *len, unsigned int k);
	int (*check)(const void *engine);
	u64 (*peek)(const void *engine, u32 word);
};

extern const struct kv_zone_ops kv_zone_runs;		/* "zone" */
extern const struct kv_zone_ops kv_zone_buddy;		/* "buddy" */
extern const struct kv_zone_ops kv_zone_buddy_trim;	/* "buddy-trim" */

/* One more engine to choose by name. Before the first zone is made: the table has no lock. */
void kv_zone_add_engine(const struct kv_zone_ops *ops);

struct kv_zone {
	/* Fixed at creation; read without a lock. */
	const struct kv_zone_ops	*ops;
	void				*engine;
	u8				*block_class;	/* enum kvmm_mobility a pageblock; ->lock */
	u32				nr_blocks;
	u32				pageblock_order;
	u64				metadata_bytes;

	/* Every allocation writes this line: keep read-mostly fields away. */
	struct kv_lock			lock __cacheline_aligned;
};

/**
 * struct kv_zone_attr - how to make a zone
 * @nr_blocks: blocks in the zone, 1 to KVMM_MAX_BLOCKS; any number, not only powers of two
 * @pageblock_order: log2 of the blocks in a pageblock, the unit of mobility grouping; 9 if 0
 * @engine: "zone" (the default, if NULL) or another engine's name, see kv_zone_engines()
 */
struct kv_zone_attr {
	u32 nr_blocks;
	u32 pageblock_order;
	const char *engine;
};

/**
 * struct kv_zone_stat - one coherent snapshot of a zone
 * @nr_blocks: size of the zone
 * @nr_free: blocks in no extent
 * @nr_runs: maximal runs of free blocks
 * @largest: length of the longest piece the engine can hand out
 */
struct kv_zone_stat {
	u32 nr_blocks;
	u32 nr_free;
	u32 nr_runs;
	u32 largest;
};

/* Names of the engines, static strings: how many there are, which may be more than @max. */
unsigned int kv_zone_engines(const char **names, unsigned int max);

/* A zone, all of it free: 0; -EINVAL bad attribute; -ENOENT no engine of that name; -ENOMEM. */
int kv_zone_create(const struct kv_zone_attr *attr, struct kv_zone **zone);

/* Frees a zone, or NULL; no thread may use it any more. */
void kv_zone_destroy(struct kv_zone *zone);

/*
 * One run of @nr blocks, best fit from the bottom: 0; -EINVAL @nr is 0 or more than the zone holds;
 * -ENOSPC no free run is long enough.
 */
int kv_zone_alloc(struct kv_zone *zone, u32 nr, u32 *start);

/*
 * Exactly the blocks [@start, @start + @nr): 0; -EINVAL outside the zone; -EBUSY one of the blocks
 * is taken; -EOPNOTSUPP the engine cannot hold such a run ("buddy": anything but an aligned power
 * of two). This is how ranges grow in place, to the back and to the front.
 */
int kv_zone_alloc_at(struct kv_zone *zone, u32 start, u32 nr);

/* @nr single blocks, wherever breaking up free runs hurts least: 0; -EINVAL; -ENOSPC. */
int kv_zone_alloc_many(struct kv_zone *zone, u32 nr, u32 *ids);

/*
 * Gives [@start, @start + @nr) back: 0; -EINVAL a block is outside the zone or already free. Any
 * part of what was allocated may be given back: shrinking and splitting are this call.
 */
int kv_zone_free(struct kv_zone *zone, u32 start, u32 nr);

/* The same of single blocks; -EINVAL also if an id stands there twice. */
int kv_zone_free_many(struct kv_zone *zone, const u32 *ids, u32 nr);

/* Counts as of one moment. */
void kv_zone_get_stat(struct kv_zone *zone, struct kv_zone_stat *stat);

/*
 * Linux's unusable free index for any length, in parts per million: (free - free in runs of at
 * least @nr) / free, rounded down. No free memory counts as 10^6. -EINVAL.
 */
int kv_zone_unusable(struct kv_zone *zone, u32 nr);

/*
 * The first maximal free run that ends after block @from; it may begin before that. 0; -ENOENT no
 * block at or after @from is free. Walk: start with 0, go on with run.start + run.nr; the zone may
 * change in between.
 */
int kv_zone_next_free(struct kv_zone *zone, u32 from, struct kvmm_extent *run);

/* For callers that hold the zone's lock over several steps (compaction). */
u32 kv_zone_take_locked(struct kv_zone *zone, const struct kv_zone_req *req);
int kv_zone_take_at_locked(struct kv_zone *zone, u32 start, u32 nr);
int kv_zone_give_locked(struct kv_zone *zone, u32 start, u32 nr);

/* kv_zone_alloc() for callers that may ask elsewhere: a refusal is no event. KV_NONE: none. */
u32 kv_zone_try(struct kv_zone *zone, u32 nr);

/**
 * struct kv_zone_glance - a zone as seen in passing
 * @nr_free, @nr_runs, @largest: as in struct kv_zone_stat; runs are maximal, with any engine
 * @free: maximal free aligned blocks of order o in pageblocks of class m, at
 *	[m * KVMM_NR_ORDERS + o]: what a buddy allocator would hold for the same free map
 * @nr_pageblocks: by class
 * @pageblock_order: log2 of the blocks of one
 */
struct kv_zone_glance {
	u32 nr_free;
	u32 nr_runs;
	u32 largest;
	u64 free[KVMM_NR_MOBILITY * KVMM_NR_ORDERS];
	u64 nr_pageblocks[KVMM_NR_MOBILITY];
	u32 pageblock_order;
};

/*
 * Reads the whole map, a bit a block, without the zone's lock: true if nothing changes meanwhile,
 * else of no single moment.
 */
void kv_zone_glance(struct kv_zone *zone, struct kv_zone_glance *glance);

/*
 * Free blocks, without the lock. Exact for the holder of a lock under which alone the zone changes,
 * as that of a pool; else of any time, to be looked at and not to decide by.
 */
static inline u32 kv_zone_nr_free(const struct kv_zone *zone)
{
	return zone->ops->nr_free(zone->engine);
}

/* The name that Linux prints as "Node %d, zone %8s". */
struct kv_zone_label {
	int node;
	const char *name;
};

/*
 * "buddyinfo" or "pagetypeinfo" of that. Length of the whole text without NUL, which may be @len or
 * more (then it was cut), or -ENOENT: there is no such text.
 */
int kv_zone_glance_text(const struct kv_zone_glance *glance, const char *what,
		        struct kv_zone_label label, char *buf, size_t len);

/* Is the block of the zone free at this moment? */
bool kv_zone_is_free(struct kv_zone *zone, u32 block);

/* kv_zone_alloc() with alignment, window, direction and class. */
int kv_zone_alloc_req(struct kv_zone *zone, const struct kv_zone_req *req, u32 *start);

/*
 * @nr blocks in at most @max_runs runs: the best fit if one hole suffices, else the largest hole,
 * and so on with the rest. Number of extents; -EINVAL; -ENOSPC; @ext is untouched then.
 */
int kv_zone_alloc_runs(struct kv_zone *zone, u32 nr, unsigned int max_runs,
		       struct kvmm_extent *ext);

/* Would that find them now? */
bool kv_zone_holds(struct kv_zone *zone, u32 nr, u32 max_runs);

/* Recompute everything: 0; -EUCLEAN the zone contradicts itself. */
int kv_zone_check(struct kv_zone *zone);

#endif /* KV_ZONE_H */
