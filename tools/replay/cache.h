/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests as the users of a prefix cache: what seq and conc have in common. All blocks, keys and
 * orders of eviction are the library's; this only asks and counts.
 */
#ifndef REPLAY_CACHE_H
#define REPLAY_CACHE_H

#include <kvmm/kvmm.h>

#include "pattern.h"
#include "shape.h"

/**
 * struct future - for each key of each request, the next request with that key
 * @next: all keys, request after request; "never" is the number of requests
 * @first: index of each request's first key
 */
struct future {
	u32 *next;
	u64 *first;
};

/* What a running request has: hits and registered blocks, then blocks without key. */
struct held {
	kvmm_ref_t *refs;	/* in the same memory as the struct */
	kvmm_mut_t *muts;
	u32 q;
	u32 nr_hits;
	u32 nr_refs;
	u32 nr_muts;

	/* With tiers: */
	u32 nr_device;		/* of the hits, those that the device had; */
	u32 nr_lower;		/* those behind, which are loaded; */
	u32 nr_disk;		/* of these, those that the disk alone had */
	bool is_loaded;		/* ->refs has these */
	kvmm_tier_op_t op;	/* until then */
	u64 since_ns;
	u64 waited_us;		/* for them */
};

struct tell;
struct tiers;

/**
 * struct cache - the pool and what was counted
 * @filled_by: for the report: the request that filled each block; else NULL
 * @future: for "min" only
 * @in_pageblock: for --pageblock: new blocks of the request there; 0 in between; else NULL
 * @keys: keys of request @keys_of
 * @sent: for --transfers: blocks of the prompt of one request; else NULL
 * @tiers: for --host-blocks: see tiers.h; else NULL
 * @tell: for --events: see tell.c; else NULL
 * @done: for --grow and --answers: by request: tokens of the answer that have been said; else NULL
 * @next: for --answers: by request, the one that goes on with it, or U32_NONE; else NULL
 * @resumed: the request that is being admitted was preempted before, so it counts for the two below:
 * @resumed_hits, @resumed_blocks: of hits and accesses
 * @lookups: keys of admitted requests: accesses, but for blocks without a key
 * @registered: blocks that got a key
 * @evicted: for ages: keys that lost their block to the request that is being admitted; else NULL
 */
struct cache {
	const struct run *run;
	struct kvmm_pool *pool;
	struct pattern pattern;
	struct future future;
	struct tiers *tiers;
	struct tell *tell;
	u32 *filled_by;
	u32 *in_pageblock;
	u32 *sent;
	u32 *done;
	u32 *next;
	bool resumed;
	kvmm_key_t *keys;
	kvmm_key_t *evicted;
	u64 *when;
	u32 keys_of;
	u32 nr_keys;	/* most of a request */
	bool hints;

	u64 fp;
	u64 hits;
	u64 accesses;
	u64 lookups;
	u64 evictions;
	u64 registered;
	u64 resumed_hits;
	u64 resumed_blocks;
	u64 fresh_blocks;
	u64 fresh_runs;		/* neighbours, in the order of the request, are one run */
	u64 fresh_allocs;		/* that got any */
	u64 fresh_pageblocks;	/* that one request got as a whole, when some were evicted for it */
	u64 hit_tokens;
	u64 input_tokens;
	u32 admitted;
	u32 rejected;
	u32 full_hits;
	u32 resident;
	u32 peak_resident;
	u32 peak_held;

	u64 answer_blocks;	/* that answers took */

	/*
	 * For --transfers: if the blocks of each prompt, hits and new ones, were sent somewhere once it
	 * is computed, how many descriptors would that take? One for each run of consecutive blocks, in
	 * the order of the prompt; *sorted*: in any order, as where the other side takes them by number.
	 */
	u64 sent_blocks;
	u64 descriptors;
	u64 descriptors_sorted;
	u32 descriptors_most;	/* of one request, in order */
};

/** cache_init() - Return: EXIT_GOOD, or it was said why not. */
enum exit_code cache_init(struct cache *cache, const struct run *run, const char *time_unit);

/* It is @now, in that unit. */
void cache_time(struct cache *cache, u64 now);

void cache_exit(struct cache *cache);

/* Keys of request @q, until another one's are asked for, or that is admitted. */
const kvmm_key_t *cache_keys(struct cache *cache, u32 q, u32 *nr_keys);

/**
 * cache_admit() - take @nr_blocks for request @q
 * @held: set to what it has; to NULL if it does not fit now
 */
enum exit_code cache_admit(struct cache *cache, u32 q, u32 nr_blocks, struct held **held);

/* ---- requests whose answers have blocks; else the first two are as traced ---- */

/* With what it has said so far as part of the prompt, and with all that it will say. */
struct shape cache_shape(const struct cache *cache, u32 q);
struct shape cache_last_shape(const struct cache *cache, u32 q);

/* One block more, if it can be had: *@got. */
enum exit_code cache_grow(struct cache *cache, struct held *held, bool *got);
/* Blocks that have been filled by now get their keys. */
enum exit_code cache_keep(struct cache *cache, struct held *held);
/*
 * All of the answer is said: it takes its blocks, which have room beside all that the request has, and
 * each gets its key when it is full. The last token is never computed.
 */
enum exit_code cache_answer(struct cache *cache, struct held *held);
/* All that it has is given up, having been offered to the tiers below; takes @held. */
enum exit_code cache_preempt(struct cache *cache, struct held *held);

/* What an admitted request takes from when its hits are there: for the rest of its prompt, and in all. */
u64 cache_prefill_us(const struct cache *cache, const struct held *held);
u64 cache_service_us(const struct cache *cache, const struct held *held);

/** cache_release() - the request is over; takes @held */
enum exit_code cache_release(struct cache *cache, struct held *held);

/** cache_finish() - do the library's own counts agree with what was seen from here? */
enum exit_code cache_finish(struct cache *cache);

/** cache_record_begin() - for the report; @timed: mode conc */
enum exit_code cache_record_begin(struct cache *cache, bool timed);

/* Request @q has brought these blocks into the device. */
void cache_own(struct cache *cache, u32 q, const kvmm_ref_t *refs, u32 nr);

/** cache_record() - keep this moment for the report; the run has come to request @q */
void cache_record(struct cache *cache, u64 x, u32 q, u32 nr_running);

/* Blocks that can be had now: free ones and those that may be evicted. */
u32 cache_available(struct cache *cache);

/* Fields and lines that both modes print. */
void cache_report(const struct cache *cache, const char *kind);

/*
 * ---- tell.c ----
 *
 * Requests are noted for a tool that makes traces of a pool's events; and with --events FILE all
 * events of the run are written down, none is lost.
 */

/** tell_begin() - the pool is there. Return: EXIT_GOOD, or it was said why not. */
enum exit_code tell_begin(struct cache *cache);

/** tell_request() - request @q has come. */
enum exit_code tell_request(struct cache *cache, u32 q);

/** tell_over() - it is over, after @nr_hits hits; the same returns. */
enum exit_code tell_over(struct cache *cache, u32 q, u32 nr_hits);

/** tell_end() - no more comes; the same returns. The pool is still there. */
enum exit_code tell_end(struct cache *cache);

#endif /* REPLAY_CACHE_H */
