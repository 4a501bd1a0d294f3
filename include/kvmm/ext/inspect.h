/* SPDX-License-Identifier: Apache-2.0 */
/* A pool seen from outside: digests to compare, maps of its blocks, verification. */
#ifndef KVMM_EXT_INSPECT_H
#define KVMM_EXT_INSPECT_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 *			log(diff.text);				// "pool 0 'kv': ranges"
 *	}
 */

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
 * @text: all of that in words: "pool 2 'kv1': order of eviction"
 *
 * Fixed: where; the two digests have the rest.
 */
struct kvmm_digest_diff {
	uint32_t pool;
	uint32_t part;
	char name[KVMM_DIGEST_NAME];
	char text[2 * KVMM_DIGEST_NAME];
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

/*
 * The map of a pool: what each block is, run by run, while all goes on beside.
 *
 *	struct kvmm_map_run runs[64];
 *	uint32_t at = 0;
 *	int nr;
 *
 *	while ((nr = kvmm_map_read(pool, &at, 0, runs, 64)) > 0)
 *		...
 *
 * How much of that is true at one moment:
 *
 * - each block is told as it was at one moment of the call, all facts together, except that counts
 *   of references and pins of ranges may lag. Of blocks of one range side by side the reader looks
 *   at the first;
 * - each block is in exactly one run, and runs come by address: the sum of their lengths is the
 *   number of blocks, also during changes. A moving block may be met at both places, or at neither;
 * - the map of a pool that stands still is exact: for each block it agrees with
 * kvmm_block_get_info().
 *
 * A reader takes no lock of the pool, waits for nothing and allocates no host memory, so it delays
 * no other thread. Tools look through this.
 */

struct kvmm_registry;

/**
 * enum kvmm_map_state - what a block is
 * @KVMM_MAP_FREE: in the zone, or in an arena
 * @KVMM_MAP_NULL: reserved block 0
 * @KVMM_MAP_RANGE: in a range
 * @KVMM_MAP_PRIVATE, @KVMM_MAP_STAGED: of its owner alone, without and with a name
 * @KVMM_MAP_ACTIVE: registered, with references
 * @KVMM_MAP_CACHED: registered, without: a hit, or the next victim; or going with its last one
 * @KVMM_MAP_AWAY: given back to the device, see <kvmm/ext/moves.h>
 * @KVMM_MAP_RESERVED: free, kept behind the end of a range that grows
 * @KVMM_MAP_ASIDE: free, kept by a thread, or with the entry that it had last
 * @KVMM_MAP_CLAIMED: cached, but promised to a gang, or about to be evicted: no lookup finds it,
 *	and it counts as private
 * @KVMM_MAP_MOVING: destination of a copy, or an old place that a step may still read
 * @KVMM_MAP_LIMBO: given back, and the device may still be writing there
 *
 * Up to @KVMM_MAP_AWAY the same numbers as in enum kvmm_block_state.
 */
enum kvmm_map_state {
	KVMM_MAP_FREE,
	KVMM_MAP_NULL,
	KVMM_MAP_RANGE,
	KVMM_MAP_PRIVATE,
	KVMM_MAP_STAGED,
	KVMM_MAP_ACTIVE,
	KVMM_MAP_CACHED,
	KVMM_MAP_AWAY,
	KVMM_MAP_RESERVED,
	KVMM_MAP_ASIDE,
	KVMM_MAP_CLAIMED,
	KVMM_MAP_MOVING,
	KVMM_MAP_LIMBO,
	KVMM_NR_MAP_STATES,
};

/** kvmm_map_state_name() - "free", "range", "cached", ...; "?" if there is no such state. */
static inline const char *kvmm_map_state_name(uint32_t state)
{
	return kvmm_enum_name(KVMM_NAME_MAP_STATE, state);
}

/** kvmm_map_block_state() - what kvmm_block_get_info() calls that state: enum kvmm_block_state. */
static inline uint32_t kvmm_map_block_state(uint32_t state)
{
	if (state <= KVMM_MAP_AWAY)
		return state;
	return state == KVMM_MAP_CLAIMED ? KVMM_BLOCK_PRIVATE : KVMM_BLOCK_FREE;
}

#define KVMM_MAP_PINNED		(1u << 0)	/* stays where it is */
#define KVMM_MAP_IN_FLIGHT	(1u << 1)	/* is being copied to elsewhere */
#define KVMM_MAP_HIDDEN		(1u << 2)	/* its name is forgotten while it is still held */
#define KVMM_MAP_DUP		(1u << 3)	/* an older block has the same name */
#define KVMM_MAP_LOST		(1u << 4)	/* a failed copy destroyed the range's content */
#define KVMM_MAP_HAS_KEY	(1u << 5)	/* ->key, ->domain, ->position say something */
#define KVMM_MAP_HAS_PARENT	(1u << 6)	/* ->parent does */
#define KVMM_MAP_HAS_CLASS	(1u << 7)	/* ->cls does: the pool has classes */

/**
 * struct kvmm_map_run - blocks side by side that are of one kind
 * @owner: the owner named (<kvmm/ext/lease.h>, kvmm_set_owner()); 0: none
 * @seq: of ranges: their sequence
 * @age_ns: since the last touch of the block untouched for longest; 0 for what is not in use
 * @deadline_ns: end of the owner's lease, on kvmm's clock; 0: no lease
 * @key, @parent: names of the first block, and of the one before it in its prompt
 * @domain: of the first block
 * @first, @nr: where
 * @state: enum kvmm_map_state
 * @flags: KVMM_MAP_*, of the first block
 * @refs, @pins: of each block, or of the range that they are in
 * @position: of the first block in its prompt, in blocks
 * @cls: eviction class
 * @prio: of ranges: enum kvmm_priority
 * @index, @gen: handle of the range at the first block, or of the block, typed by the state; 0, 0:
 *	none
 */
struct kvmm_map_run {
	uint64_t owner;
	uint64_t seq;
	uint64_t age_ns;
	uint64_t deadline_ns;
	kvmm_key_t key;
	kvmm_key_t parent;
	kvmm_domain_t domain;
	uint32_t first;
	uint32_t nr;
	uint32_t state;
	uint32_t flags;
	uint32_t refs;
	uint32_t pins;
	uint32_t position;
	uint32_t cls;
	uint32_t prio;
	uint32_t index;
	uint32_t gen;
};

/* How blocks become runs. */
#define KVMM_MAP_EACH	(1u << 0)	/* each named or private block is a run by itself */
#define KVMM_MAP_COARSE	(1u << 1)	/* only state and KVMM_MAP_PINNED tell runs apart */

/** Most blocks that one call looks at: some ten milliseconds. */
#define KVMM_MAP_PORTION	(1u << 20)

KVMM_API int kvmm_map_read_sized(struct kvmm_pool *pool, uint32_t *at, uint32_t how,
				 struct kvmm_map_run *runs, uint32_t max, size_t size);

/**
 * kvmm_map_read() - the next runs, by address
 * @at: 0, or the block to start with; moved on to the first one that was not told of
 * @how: KVMM_MAP_EACH or KVMM_MAP_COARSE, or 0: runs have one owner, sequence, domain and class,
 *	and the same references and pins
 * @runs: room for @max, at least 1
 *
 * A run ends at the last block that a call looks at, though the next call may find more of it.
 *
 * Context: any thread; lock-free.
 * Return: how many, 0 = that was all; -EINVAL; -ECHILD. A pool that is closed (-EUCLEAN elsewhere)
 * can be read, to see what became of it; blocks with senseless words are "free".
 */
static inline int kvmm_map_read(struct kvmm_pool *pool, uint32_t *at, uint32_t how,
				struct kvmm_map_run *runs, uint32_t max)
{
	return kvmm_map_read_sized(pool, at, how, runs, max, sizeof(*runs));
}

/*
 * Verified content: checksums of registered blocks, kept beside them and compared when they move.
 *
 * Off unless asked for. The name of a block that is registered while it is on decides whether it is
 * sampled: the same ones each time. Registering waits for nothing. The next calls of
 * kvmm_verify_tick() take the checksum on the device, behind all work that the engine's streams had
 * by then (so add them, <kvmm/step.h>): the content counts from that moment. A block that moves
 * before is summed where it comes to lie.
 *
 * It is compared again
 *
 *	- in each copy beside steps, before the new place is published: after a wrong copy the block
 *	  stays where it is, and is checked there as well;
 *	- after other moves, by the next kvmm_verify_tick();
 *	- one block after the other, by kvmm_verify_tick() when there is nothing else to do;
 *	- by kvmm_verify_blocks().
 *
 * A block with wrong content is lost: no look-up finds it any more, and its holders get -EIO.
 *
 * Where completions are told (kvmm_completions_set()) so are verifications, and a block that is
 * wrong on one rank is lost on all of them. One wrong copy keeps those begun with it in place, too.
 */

/**
 * struct kvmm_verify_attr - what is verified
 * @size: sizeof(struct kvmm_verify_attr)
 * @sample_pm: of a thousand names, so many; 0 = none from now on (what is summed stays so)
 * @reserved: 0
 */
struct kvmm_verify_attr {
	size_t size;
	uint32_t sample_pm;
	uint32_t reserved;
};

/** kvmm_verify_set() - for blocks registered from now on. Return: 0; -EINVAL; -ENOMEM; -EOPNOTSUPP
 * the pool has no memory, or no policy. */
static inline int kvmm_verify_set(struct kvmm_pool *pool, const struct kvmm_verify_attr *attr)
{
	return kvmm_pool_set(pool, KVMM_SET_VERIFY, attr);
}

/**
 * kvmm_verify_blocks() - compare checksums of these blocks now; waits for the device
 * @refs: of the caller; blocks without a checksum are left out. NULL: as kvmm_verify_tick()
 *
 * Where completions are told it waits for nothing: the next ticks compare them.
 *
 * Return: how many were compared; -EIO one of them is wrong (all were compared, and those that are
 * wrong are lost), or could not be read; -ESTALE, -EINVAL one of @refs is none (none was compared).
 */
KVMM_API int kvmm_verify_blocks(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/**
 * kvmm_verify_tick() - begin and end verifications of some blocks
 *
 * At most 128 blocks a call. Ends what an earlier call has begun, and begins anew, without waiting
 * for the engine's work. A block being verified cannot be pinned, copied to a tier or evicted until
 * then (-EBUSY, -ENOSPC). kvmm_compact_poll() ends finished verifications; where the device sums on
 * its own, so do each call that publishes moves (<kvmm/step.h>), kvmm_alloc(), kvmm_acquire() and
 * kvmm_tier_offload(). kvmm_migrate_poll() ends those that it waits for. kvmm_reset_cache(),
 * kvmm_reset_inactive() and kvmm_pool_quiesce() leave none under way.
 *
 * Return: blocks with a checksum taken or compared; -EINVAL.
 */
static inline int kvmm_verify_tick(struct kvmm_pool *pool)
{
	return kvmm_verify_blocks(pool, NULL, 0);
}

/**
 * struct kvmm_verify_stat - since the pool's creation, but for the first three
 * @sample_pm: as set
 * @pending: blocks to be summed, or to be checked after a move
 * @summed: blocks that have a checksum
 * @sums, @checks: checksums taken, compared
 * @bad_blocks: blocks that were wrong, and are lost
 * @bad_copies: copies that were wrong, and were not published
 */
struct kvmm_verify_stat {
	uint32_t sample_pm;
	uint32_t pending;
	uint32_t summed;
	uint32_t reserved;
	uint64_t sums;
	uint64_t checks;
	uint64_t bad_blocks;
	uint64_t bad_copies;
};

/** kvmm_verify_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_VERIFY. */
static inline int kvmm_verify_get_stat(struct kvmm_pool *pool, struct kvmm_verify_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_VERIFY, stat, sizeof(*stat));
}

/* What is measured: how long things took, how long blocks stayed, all numbers as text. */

/* How long things took: histograms of durations, always on, of what is slow anyhow. */

/** Upper bounds of a histogram; one more bucket is beyond the last. */
#define KVMM_LATENCY_BOUNDS	21u

/** kvmm_latency_bound_ns() - upper bound of bucket @i, included; UINT64_MAX from
 * KVMM_LATENCY_BOUNDS on. 1, 2 and 5 of each power of ten, from 1 us to 5 s. */
static inline uint64_t kvmm_latency_bound_ns(uint32_t i)
{
	static const uint32_t bound_us[KVMM_LATENCY_BOUNDS] = {
		1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000,
		200000, 500000, 1000000, 2000000, 5000000,
	};

	return i < KVMM_LATENCY_BOUNDS ? bound_us[i] * 1000ull : UINT64_MAX;
}

/**
 * struct kvmm_latency_stat - one histogram
 * @bucket: durations up to kvmm_latency_bound_ns() of this number, above that of the one before
 * @sum_ns: of all of them
 *
 * Fixed: a histogram: the bounds are part of the format of metrics.
 */
struct kvmm_latency_stat {
	uint64_t bucket[KVMM_LATENCY_BOUNDS + 1];
	uint64_t sum_ns;
};

/*
 * Residency: how long cached blocks stay, how long idle before they go, how soon used again.
 *
 * Off unless asked for. The hash of a name that is registered while it is on decides whether it is
 * sampled: the same names in each run, process, tier and engine. An event of a sampled block costs
 * a clock read; of another, a hash of the key.
 */

/** One name in a hundred, in parts per million. */
#define KVMM_RESIDENCY_DEFAULT_PPM	10000u

/**
 * enum kvmm_residency_kind - what is measured of a sampled block
 * @KVMM_RESIDENCY_LIFETIME: from its registration until it loses its name: evicted, or otherwise
 * @KVMM_RESIDENCY_IDLE: from its last use until then; the registration is a use
 * @KVMM_RESIDENCY_REUSE: from one use to the next
 * @KVMM_RESIDENCY_HIT_AGE: from its registration to each hit
 */
enum kvmm_residency_kind {
	KVMM_RESIDENCY_LIFETIME,
	KVMM_RESIDENCY_IDLE,
	KVMM_RESIDENCY_REUSE,
	KVMM_RESIDENCY_HIT_AGE,
	KVMM_NR_RESIDENCY_KINDS,
};

/** Upper bounds of a histogram; one more bucket is beyond the last. */
#define KVMM_RESIDENCY_BOUNDS	21u

/** kvmm_residency_bound_ns() - upper bound of bucket @i, included; UINT64_MAX from
 * KVMM_RESIDENCY_BOUNDS on. From 1 ms to 1800 s: those that other engines use for the same. */
static inline uint64_t kvmm_residency_bound_ns(uint32_t i)
{
	static const uint32_t bound_ms[KVMM_RESIDENCY_BOUNDS] = {
		1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000,
		120000, 300000, 600000, 1200000, 1800000,
	};

	return i < KVMM_RESIDENCY_BOUNDS ? bound_ms[i] * 1000000ull : UINT64_MAX;
}

/**
 * struct kvmm_residency_stat - one histogram
 * @bucket: times up to kvmm_residency_bound_ns() of this number, above that of the one before
 * @sum_ns: of all of them
 *
 * Fixed: a histogram: the bounds are part of the format of metrics.
 */
struct kvmm_residency_stat {
	uint64_t bucket[KVMM_RESIDENCY_BOUNDS + 1];
	uint64_t sum_ns;
};

/**
 * kvmm_residency_set() - sample names from now on
 * @ppm: of a million names, so many, at most 1000000; 0 = none. Running samples go on to their end
 *
 * The first call takes 24 bytes of host memory a block, until the pool is destroyed.
 *
 * Return: 0; -EINVAL; -ENOMEM; -EOPNOTSUPP the pool caches nothing; -EUCLEAN, -ECHILD.
 */
static inline int kvmm_residency_set(struct kvmm_pool *pool, uint32_t ppm)
{
	return kvmm_pool_set(pool, KVMM_SET_RESIDENCY, &ppm);
}

/** kvmm_residency_get_stat() - a histogram, lock-free; all 0 if never on. Return: 0; -EINVAL. */
static inline int kvmm_residency_get_stat(struct kvmm_pool *pool, enum kvmm_residency_kind kind,
					  struct kvmm_residency_stat *stat)
{
	struct kvmm_residency_stat all[KVMM_NR_RESIDENCY_KINDS];
	int err = stat && kind < KVMM_NR_RESIDENCY_KINDS ?
		  kvmm_pool_stat_of(pool, KVMM_STAT_RESIDENCY, all, sizeof(all)) : -22 /* EINVAL */;

	if (!err)
		*stat = all[kind];
	return err;
}

/*
 * Metrics of pools, their classes, tenants, tiers and publishers, and of slab caches, as text that
 * Prometheus reads.
 *
 *	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
 *
 *	attr.pools    = &pool;
 *	attr.nr_pools = 1;
 *	len = kvmm_metrics_text(&attr, buf, sizeof(buf));	// once every 15 s, say
 *
 * Takes no lock that a thread which allocates, looks up or moves blocks could wait for, and shows
 * only what pools count anyhow. Shows slab caches and publishers of the process by themselves;
 * holds the lock of each slab cache for the length of a copy. The families are in
 * Documentation/metrics.rst.
 */

/**
 * enum kvmm_metrics_format - which text
 * @KVMM_METRICS_OPENMETRICS: OpenMetrics 1.0: with units, ends with "# EOF"
 * @KVMM_METRICS_PROMETHEUS: text format 0.0.4, as the textfile collector of node-exporter reads it
 */
enum kvmm_metrics_format {
	KVMM_METRICS_OPENMETRICS,
	KVMM_METRICS_PROMETHEUS,
	KVMM_NR_METRICS_FORMATS,
};

/**
 * struct kvmm_metrics_attr - of what, and how
 * @size: sizeof(struct kvmm_metrics_attr); set by KVMM_METRICS_ATTR_INIT
 * @pools: borrowed; they live until the call returns
 * @names: NULL, or what each is called; NULL among them: by its own name. No two alike
 * @nr_pools: up to 1024
 * @format: enum kvmm_metrics_format
 * @max_tenants: so many tenants of each pool are shown, those that got limits first; what others
 *	have is summed up as "others"
 * @reserved: 0
 * @what: NULL: metrics. "table": the families there are, a line each, fields with tabs between
 *	them: name, type, unit or "-", labels, what it is; the first line begins with '#' and names
 *	the columns. Or what the kernel says of its memory, said of pools: "buddyinfo",
 *	"pagetypeinfo", "vmstat", "pressure/memory", or "slabinfo", of the slab caches of all zones
 *
 * Texts of the kernel are in the layouts of Linux, so that what reads /proc reads them. Each pool
 * is a zone of node 0, 1, ... In vmstat, of all pools together, names of the kernel stand where
 * they mean the same. For slabinfo the lock of each slab cache is taken, one at a time.
 */
struct kvmm_metrics_attr {
	size_t size;
	struct kvmm_pool *const *pools;
	const char *const *names;
	uint32_t nr_pools;
	uint32_t format;
	uint32_t max_tenants;
	uint32_t reserved;
	const char *what;
};

#define KVMM_METRICS_ATTR_INIT { sizeof(struct kvmm_metrics_attr), NULL, NULL, 0, 0, 64, 0, NULL }

/**
 * kvmm_metrics_text() - all of it, or the text that @attr->what names
 * @buf: room for @bytes, NUL included; always terminated if there is any
 *
 * Context: may allocate host memory. Reads a bit a block of each pool.
 * Return: length of the whole text without NUL (it was cut if that is @bytes or more); -EINVAL;
 * -ENOENT no such text; -ENOMEM; -EFBIG more than 64 MiB; -ECHILD. A closed pool (-EUCLEAN
 * elsewhere) has only the sample kvmm_pool_closed, and is not in the other texts.
 */
KVMM_API int kvmm_metrics_text(const struct kvmm_metrics_attr *attr, char *buf, size_t bytes);

/* ---- ranges, one by one, and a picture ---- */

/**
 * kvmm_ranges_of_seq() - ranges of a sequence
 * @drop: not 0: drop one reference on each, or none
 * @ranges: room for @max handles
 *
 * Return: how many, even above @max; -EBUSY @drop, and one of them is pinned; -EINVAL @seq is 0.
 */
KVMM_API int kvmm_ranges_of_seq(struct kvmm_pool *pool, uint64_t seq, int drop,
				kvmm_range_t *ranges, unsigned int max);

/** kvmm_range_find_seq() - kvmm_ranges_of_seq(), which stay. */
static inline int kvmm_range_find_seq(struct kvmm_pool *pool, uint64_t seq, kvmm_range_t *ranges,
				      unsigned int max)
{
	return kvmm_ranges_of_seq(pool, seq, 0, ranges, max);
}

/** kvmm_range_free_seq() - kvmm_ranges_of_seq(), dropped. */
static inline int kvmm_range_free_seq(struct kvmm_pool *pool, uint64_t seq)
{
	return kvmm_ranges_of_seq(pool, seq, 1, NULL, 0);
}

/**
 * kvmm_range_next() - walk all ranges
 * @cursor: 0 at first; moved on by each call
 *
 * Ranges that come and go meanwhile may or may not be seen.
 *
 * Return: 0; -ENOENT that was all; -EINVAL.
 */
static inline int kvmm_range_next(struct kvmm_pool *pool, uint32_t *cursor,
				  struct kvmm_range_info *info)
{
	kvmm_range_t none = { 0, 0 };

	return cursor ? kvmm_range_get_info_of(pool, none, cursor, info, sizeof(*info)) :
			-22 /* EINVAL */;
}

/** Ranges of 1, 2, 3 to 4, 5 to 8, ... 33 to 64, and more extents. */
#define KVMM_GROWTH_HIST	8u

/**
 * struct kvmm_growth_stat - growth in one pool; one coherent snapshot
 * @size: sizeof(struct kvmm_growth_stat)
 * @nr_reserved, @nr_reservations: blocks reserved now, and for how many ranges; the blocks are in
 *	nr_free of struct kvmm_pool_stat
 * @live, @live_ext, @live_max: ranges there are, by their extents; extents of all of them; of the
 *	one that has most
 * @finished, @finished_ext, @finished_max: the same of those freed since the pool was made
 * @in_place, @elsewhere: pieces that ranges grew by, behind their end and as a further extent
 * @steals, @stolen_blocks: times that other requests took reserved blocks, and how many
 */
struct kvmm_growth_stat {
	size_t size;
	uint32_t nr_reserved;
	uint32_t nr_reservations;
	uint64_t live[KVMM_GROWTH_HIST];
	uint64_t live_ext;
	uint64_t finished[KVMM_GROWTH_HIST];
	uint64_t finished_ext;
	uint32_t live_max;
	uint32_t finished_max;
	uint64_t in_place;
	uint64_t elsewhere;
	uint64_t steals;
	uint64_t stolen_blocks;
};

/** kvmm_growth_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_GROWTH. */
static inline int kvmm_growth_get_stat(struct kvmm_pool *pool, struct kvmm_growth_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_GROWTH, stat, stat ? stat->size : 0);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_INSPECT_H */
