/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool: the blocks of one KV group on one device, their owners, their content, their life.
 *
 * Two ways to hold blocks, which share one zone:
 *
 * - a *range* is the memory of one request: 1 to KVMM_MAX_RUNS runs, or more once it has grown. It
 *   grows and shrinks in place; compaction may move it between steps;
 * - a *cached block* has a key once it is full. All requests with the same prefix can share it, and
 *   it stays a hit after its last reference is gone, until the pool needs the memory.
 *
 * Calls are thread safe. Each is all or nothing: a call that fails has changed nothing. Calls
 * refuse stale handles (-ESTALE) and made-up ones (-EINVAL). A pool that finds a contradiction in
 * its own state refuses every further call with -EUCLEAN.
 *
 * A pool belongs to the process that made it, and so does everything else that kvmm makes. In a
 * child made by fork() each call about such an object says -ECHILD at once and touches nothing, no
 * matter what other threads were doing at the fork; so do calls of handlers of pthread_atfork(), in
 * any order. A pool has no name there; calls that end an object do nothing, and numbers that are no
 * errno are 0 or what they were. Key contexts and views of disk stores never change and work as
 * ever. The child may make objects of its own. A program may load kvmm several times, and may
 * bracket its forks for liburcu.
 *
 * Unless a call says otherwise, any thread may make it, and it may allocate host memory. It holds
 * no kvmm lock on return, and never sleeps longer than another caller's compaction takes.
 */
#ifndef KVMM_POOL_H
#define KVMM_POOL_H

#include <kvmm/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_registry;

struct kvmm_evict_attr;
struct kvmm_tier;
struct kvmm_tier_client_attr;
struct kvmm_alloc_attr;

/**
 * struct kvmm_plane - where piece p of every block lies
 * @base: device address of the piece of block 0
 * @stride: bytes from one block to the next
 * @bytes: bytes of the piece, at most @stride
 *
 * A block is 1, L or 2L pieces (L layers), as the engine lays its tensors out. Pieces must not
 * share memory; kvmm_pool_create() checks that for planes of one stride.
 *
 * Fixed: an address, a length and a distance.
 */
struct kvmm_plane {
	uint64_t base;
	uint64_t stride;
	uint64_t bytes;
};

/** Block 0 is never handed out, evicted or counted as used: engines pad block tables with it. */
#define KVMM_POOL_NULL_BLOCK	(1u << 0)

/** No caching: the last reference frees a block, unless kvmm_set_reset() says otherwise. */
#define KVMM_POOL_RESET_ON_RELEASE	(1u << 1)

/**
 * The engine registers a block only after the one before it, puts prompts as kvmm_put_many() wants
 * them, and never forgets keys by block id. kvmm_prefix_len() then uses bisection; if the engine
 * breaks the rule, it may return too large a number.
 */
#define KVMM_POOL_PREFIX_CLOSED		(1u << 2)

/**
 * Two pools that are made alike and called alike decide alike: blocks, handles, victims, and the
 * order of eviction are the same, in any process, on any machine, at any speed. For engines with
 * ranks that must agree without asking each other; <kvmm/ext/group.h> tells how they find out
 * whether they still do.
 *
 * Made alike: same attributes, &struct kvmm_pool_attr.seed included. Called alike: the same calls
 * one after the other, as by one thread; calls that change nothing (statistics, listings, lookups
 * without references) may come from others at any time. A pool that runs out of host memory counts
 * as called differently.
 *
 * Off, or otherwise, in such a pool:
 *
 * - blocks that threads keep aside for themselves, and what else depends on which thread calls;
 * - hits and puts enter the order of eviction at once, under its lock, not in batches;
 * - on a device with streams copies, moves, verifications, and what a disk below its tier reads
 *   and writes, take effect when kvmm_completions_set() of <kvmm/ext/group.h> says so, on all
 *   ranks alike; on "host" a tier above a disk is refused;
 * - budgets of time are counts of blocks: see @max_us of struct kvmm_compact and kvmm_reclaim();
 * - kvmm_background_set() refuses a thread;
 * - generations of handles start from the seed; the pool may take handles of another pool of that
 *   seed for its own. With seed 0 they start from the number of such pools that the process made
 *   before: these take no handles of each other, and processes that make them in one order agree;
 * - deadlines and intervals run by the clock that kvmm_lease_expire() and kvmm_completions_set()
 *   are told, not by kvmm's; only tickets (kvmm_alloc_submit()) and sequences wait.
 */
#define KVMM_POOL_DETERMINISTIC		(1u << 3)

/**
 * No thread keeps free blocks aside: single blocks come from, and go to, the zone itself, under the
 * pool's lock. See Documentation/magazines.rst.
 */
#define KVMM_POOL_NO_MAGAZINES		(1u << 4)

/** With @block_bytes of its own: parts of its memory can be given back: <kvmm/ext/moves.h>. */
#define KVMM_POOL_ELASTIC		(1u << 5)

/**
 * No block waits for the blocks that follow it: the policy's order is that of eviction. With "lru",
 * what was put first goes first. Without this flag that is so for groups that need the last blocks
 * of a prompt only (<kvmm/ext/group.h>), and for blocks that kvmm_register_as() is told of; of all
 * others a block is evicted after those that follow it. Not with KVMM_POOL_PREFIX_CLOSED.
 */
#define KVMM_POOL_ORDER_AS_PUT		(1u << 6)

/**
 * Single blocks are taken from those that were freed last, which caches of the device may still
 * have, and not from the shortest free runs: the last one freed first, while some have been. The
 * new blocks of one call come lowest first all the same (@run_window of struct
 * kvmm_evict_attr). No thread keeps free blocks aside. Costs 4 bytes a block.
 */
#define KVMM_POOL_LIFO			(1u << 7)

/**
 * enum kvmm_zero - when the pool zeroes the content of private blocks and ranges
 * @KVMM_ZERO_NEVER: only by KVMM_ALLOC_ZERO
 * @KVMM_ZERO_TENANT: when a block goes to another tenant than the one before
 * @KVMM_ZERO_ALWAYS: each time that a block is handed out
 *
 * Zeroing costs a fill of the block on the device, before the call returns.
 */
enum kvmm_zero { KVMM_ZERO_NEVER, KVMM_ZERO_TENANT, KVMM_ZERO_ALWAYS, KVMM_NR_ZEROS };

/**
 * struct kvmm_pool_attr - how to make a pool
 * @size: sizeof(struct kvmm_pool_attr); set by KVMM_POOL_ATTR_INIT
 * @name: shown by tools: printable UTF-8; copied; "pool" if NULL
 * @device: "host" (the default, if NULL): plain memory; "cuda:0" a GPU; "soft:0" a GPU in software
 * @allocator: how free blocks are kept: "zone" (if NULL), exact lengths, best fit; "buddy", the
 *	classic power-of-two buddy; "buddy-trim", which gives back what such a block has beyond the
 *	request
 * @policy: eviction policy, see kvmm_policies(), with its arguments behind a colon:
 *	"multilru:3,8,15"; "default" (KVMM_POOL_ATTR_INIT) is the first one; NULL = a pool of ranges
 *	alone, without cached blocks: it needs less memory
 * @compactor: "window" (the default, if NULL), "slide", or "off"
 * @planes: memory of the caller that holds the blocks ("adopted"); NULL = see @block_bytes
 * @nr_planes: length of @planes, at most KVMM_MAX_PLANES; copied
 * @block_bytes: without @planes: bytes a block, allocated by the pool; 0 = ids only, no memory
 * @nr_blocks: blocks, the null block included; 1 to KVMM_MAX_BLOCKS
 * @block_tokens: tokens a block, 1 to KVMM_MAX_BLOCK_TOKENS; 16 if 0
 * @flags: KVMM_POOL_*
 * @compact_max_blocks: most blocks that one allocation may move to make room; 0 = no limit
 * @dup_policy: enum kvmm_dup for blocks with a name that is taken; KVMM_DUP_ALLOW if 0
 * @zero: enum kvmm_zero
 * @index: index of cached blocks: "flat", or NULL for it: a table of a cache line a bucket, made
 *	for all blocks of the pool
 * @registry: registry of prefixes that the pool reports its blocks to, or NULL; see
 *	<kvmm/ext/registry.h>. Outlives the pool
 * @tier: which tier of @registry this pool is
 * @evict: classes of blocks, their quotas, and more on what is evicted: <kvmm/ext/evict.h>; NULL:
 *	the policy alone says
 * @seed: KVMM_POOL_DETERMINISTIC: start of what would be random, 0 see there; else ignored
 * @alloc: watermarks, and what the slow path weighs; see <kvmm/ext/admission.h>; NULL: no
 *	watermarks
 * @unit_bytes: KVMM_POOL_ELASTIC: the unit of giving back, a power of two; 0: the device's choice
 * @host: a tier that is below the pool from the start, see <kvmm/tier.h>; NULL: the pool is alone
 * @host_attr: how it uses that; NULL: KVMM_TIER_CLIENT_ATTR_INIT
 */
struct kvmm_pool_attr {
	size_t size;
	const char *name;
	const char *device;
	const char *allocator;
	const char *policy;
	const char *compactor;
	const struct kvmm_plane *planes;
	uint32_t nr_planes;
	uint64_t block_bytes;
	uint32_t nr_blocks;
	uint32_t block_tokens;
	uint32_t flags;
	uint32_t compact_max_blocks;
	uint32_t dup_policy;
	uint32_t zero;
	const char *index;
	struct kvmm_registry *registry;
	uint32_t tier;
	const struct kvmm_evict_attr *evict;
	uint64_t seed;
	const struct kvmm_alloc_attr *alloc;
	uint64_t unit_bytes;
	struct kvmm_tier *host;
	const struct kvmm_tier_client_attr *host_attr;
};

#define KVMM_POOL_ATTR_INIT { sizeof(struct kvmm_pool_attr), NULL, NULL, NULL, "default", NULL, \
			      NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, 0, NULL, 0, \
			      NULL, NULL }

/**
 * kvmm_pool_create() - make a pool, all of its blocks free
 * @attr: what to make; borrowed during the call
 * @pool: set on success only
 *
 * Return: 0; -EINVAL a bad attribute; -ENOENT no device, engine, policy, compactor or index of
 * that name; -ENODEV no driver for it, or no device of that number; -ENOMEM; -EEXIST a pool of that
 * name exists (unnamed pools are numbered); -EIO the device is lost; -ECHILD this is a forked
 * child, and the device stayed with its parent.
 */
KVMM_API int kvmm_pool_create(const struct kvmm_pool_attr *attr, struct kvmm_pool **pool);

/**
 * kvmm_pool_destroy() - free a pool, or NULL, with all that is still held in it
 *
 * No other call on the pool may run or start. Cannot fail; a second call does nothing, unless a new
 * pool lies at that address. Does nothing in a forked child.
 */
KVMM_API void kvmm_pool_destroy(struct kvmm_pool *pool);

/** kvmm_policies() - kvmm_enum_names() of the eviction policies. */
static inline unsigned int kvmm_policies(const char **names, unsigned int max)
{
	return kvmm_enum_names(KVMM_NAME_POLICY, names, max);
}

/* ---- ranges: the memory of a request ---- */

#define KVMM_ALLOC_PINNED	(1u << 0)	/* never moved; placed from the bottom */
#define KVMM_ALLOC_TOPDOWN	(1u << 1)	/* short-lived; placed from the top */
#define KVMM_ALLOC_NO_COMPACT	(1u << 2)	/* rather fail than move blocks */
#define KVMM_ALLOC_NO_EVICT	(1u << 3)	/* rather fail than evict cached blocks */
#define KVMM_ALLOC_ZERO		(1u << 4)	/* content is zero on return */
#define KVMM_ALLOC_GROWS	(1u << 5)	/* will grow: try to keep room behind it free */
#define KVMM_ALLOC_NOWAIT	(1u << 8)	/* only what is free now; see allocation.rst */
#define KVMM_ALLOC_HIGH		(1u << 9)	/* KVMM_PRIO_HIGH: below the low watermark, too */
#define KVMM_ALLOC_URGENT	(1u << 10)	/* KVMM_PRIO_URGENT: below the min watermark, too */
#define KVMM_ALLOC_MOVABLE	(1u << 11)	/* neither pinned nor topdown: the default */
#define KVMM_ALLOC_CONTIG	(1u << 12)	/* one run */
#define KVMM_ALLOC_RELATIVE	(1u << 13)	/* the deadline counts from the call */

/** Flags that a range keeps, see struct kvmm_range_info. */
#define KVMM_ALLOC_KEPT		0xffu

enum kvmm_priority { KVMM_PRIO_NORMAL, KVMM_PRIO_HIGH, KVMM_PRIO_URGENT };

/**
 * struct kvmm_alloc_report - what one allocation took
 * @time_ns: from call to return
 * @evicted: cached blocks that lost their key
 * @moved: blocks that compaction moved
 * @fragmentation_ppm: part of the free blocks in runs shorter than this length, just before
 * @waited_ns: of @time_ns: in the queue. Not written for requests without a deadline field
 */
struct kvmm_alloc_report {
	uint64_t time_ns;
	uint32_t evicted;
	uint32_t moved;
	uint32_t fragmentation_ppm;
	uint32_t reserved;
	uint64_t waited_ns;
};

/**
 * struct kvmm_range_attr - one request for a range
 * @size: sizeof(struct kvmm_range_attr)
 * @nr: blocks, 1 to those of the pool
 * @max_runs: most extents, 1 to KVMM_MAX_RUNS; 0 = 4
 * @seq: the engine's name of the sequence; 0 = none
 * @prio: enum kvmm_priority, kept with the range; how far below the watermarks it may go
 * @flags: KVMM_ALLOC_*
 * @tenant: the tenant that is charged for the blocks; see enum kvmm_zero
 * @owner, @lease_ns, @own_flags: as in struct kvmm_lease_attr of <kvmm/ext/lease.h>; 0 = none
 * @report: filled on success and on -ENOSPC if not NULL (costs two clock reads)
 * @expect: with KVMM_ALLOC_GROWS: blocks that it is expected to have in the end; 0 = unknown
 * @deadline_ns, @promise, @cls: as in struct kvmm_alloc_ctl, with its errors
 */
struct kvmm_range_attr {
	size_t size;
	uint32_t nr;
	uint32_t max_runs;
	uint64_t seq;
	uint32_t prio;
	uint32_t flags;
	struct kvmm_alloc_report *report;
	uint32_t tenant;
	uint32_t expect;
	uint64_t deadline_ns;
	kvmm_promise_t promise;
	uint64_t owner;
	uint64_t lease_ns;
	uint32_t own_flags;
	uint32_t cls;
};

/**
 * kvmm_range_alloc_attr() - take the blocks of one request
 *
 * Takes one run if there is one, else up to @attr->max_runs. If enough are free but too scattered,
 * it moves blocks, unless KVMM_ALLOC_NO_COMPACT, or evicts some where moving costs more. If too few
 * are free, it evicts what is missing first; from 8192 blocks on, up to 64 more.
 *
 * While a step is open (<kvmm/step.h>) the pool cannot move blocks at once. A request that fails
 * for that begins moves beside the step that make such a run, if there are any: a later call finds
 * the run, and a call with a deadline waits for it.
 *
 * Return: 0; -EINVAL; -ENOSPC too few blocks, or too scattered: nothing was taken, nothing was
 * evicted; -EDQUOT @attr->tenant may not have so many, see <kvmm/ext/evict.h> (likewise); -EAGAIN
 * it would have to wait, with KVMM_ALLOC_NOWAIT (likewise); -ENOMEM no host memory for the handle;
 * -EIO a copy failed. Blocks moved before -ENOMEM or -EIO stay moved, and blocks evicted before
 * -EIO stay evicted.
 */
KVMM_API int kvmm_range_alloc_attr(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
				   kvmm_range_t *range);

/* Most runs, for the short form below. */
#define KVMM_RUNS(n)		((uint32_t)(n) << 16)

/** kvmm_range_alloc() - the short form: @flags are KVMM_ALLOC_* and KVMM_RUNS(). */
static inline int kvmm_range_alloc(struct kvmm_pool *pool, uint32_t nr, uint32_t flags,
				   kvmm_range_t *range)
{
	struct kvmm_range_attr attr = { sizeof(attr), nr, flags >> 16, 0, KVMM_PRIO_NORMAL,
					flags & 0xffffu, NULL, 0, 0, 0, { 0, 0 }, 0, 0, 0, 0 };

	return kvmm_range_alloc_attr(pool, &attr, range);
}

/** kvmm_range_get() - one more reference. Return: 0; -ESTALE; -EINVAL; -EOVERFLOW. */
KVMM_API int kvmm_range_get(struct kvmm_pool *pool, kvmm_range_t range);

/**
 * kvmm_range_free() - drop one reference; the last one gives the blocks back
 *
 * Return: 0; -ESTALE it is gone already (a double free); -EINVAL; -EBUSY it is the last
 * reference and a pin is held.
 */
KVMM_API int kvmm_range_free(struct kvmm_pool *pool, kvmm_range_t range);

/**
 * kvmm_range_extents() - where the range lies now
 * @ext: room for @max extents, in the order of the range's blocks
 *
 * Lock-free. The answer holds until the next compaction: ask at each step.
 *
 * Return: number of extents, which may be more than @max; -ESTALE; -EINVAL; -EIO a failed copy
 * has destroyed the content.
 */
KVMM_API int kvmm_range_extents(struct kvmm_pool *pool, kvmm_range_t range,
				struct kvmm_extent *ext, unsigned int max);

/** kvmm_range_cut() - give the first @front, or the last @back blocks back. Return: 0; -EINVAL not
 * less than the range's length, or not exactly one of them is 0; -ESTALE; -EBUSY pinned or shared:
 * other owners may use them; -EOPNOTSUPP allocator "buddy" cannot cut. */
KVMM_API int kvmm_range_cut(struct kvmm_pool *pool, kvmm_range_t range, uint32_t front,
			    uint32_t back);

/** kvmm_range_shrink() - give the last @nr blocks back. */
static inline int kvmm_range_shrink(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	return kvmm_range_cut(pool, range, 0, nr);
}

/** kvmm_range_shrink_front() - the same with the first @nr blocks (sliding windows). */
static inline int kvmm_range_shrink_front(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	return kvmm_range_cut(pool, range, nr, 0);
}

/** kvmm_range_split() - blocks from @at on become a range of their own, @tail, same sequence.
 * Return: 0; -EINVAL @at is 0 or not inside; -ESTALE; -EBUSY pinned or shared; -ENOMEM;
 * -EOPNOTSUPP allocator "buddy" cannot cut. */
KVMM_API int kvmm_range_split(struct kvmm_pool *pool, kvmm_range_t range, uint32_t at,
			      kvmm_range_t *tail);

/** kvmm_range_set_pin() - keep the blocks where they are, or (@on is 0) undo one call. Counted;
 * at most 255 of a @type (enum kvmm_pin_type) other than KVMM_PIN_USER. Return: 0; -ESTALE;
 * -EINVAL, also if no pin of @type is held; -EOVERFLOW; -ENOMEM. */
KVMM_API int kvmm_range_set_pin(struct kvmm_pool *pool, kvmm_range_t range, uint32_t type, int on);

/** kvmm_range_pin_as() - kvmm_range_set_pin() on. */
static inline int kvmm_range_pin_as(struct kvmm_pool *pool, kvmm_range_t range, uint32_t type)
{
	return kvmm_range_set_pin(pool, range, type, 1);
}

/** kvmm_range_unpin_as() - kvmm_range_set_pin() off. */
static inline int kvmm_range_unpin_as(struct kvmm_pool *pool, kvmm_range_t range, uint32_t type)
{
	return kvmm_range_set_pin(pool, range, type, 0);
}

/** kvmm_range_pin() - kvmm_range_set_pin() of KVMM_PIN_USER. */
static inline int kvmm_range_pin(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_set_pin(pool, range, KVMM_PIN_USER, 1);
}

/** kvmm_range_unpin() - undo one. */
static inline int kvmm_range_unpin(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_set_pin(pool, range, KVMM_PIN_USER, 0);
}

/**
 * struct kvmm_range_info - one range, as of one moment
 * @seq, @prio: as asked for
 * @flags: those of KVMM_ALLOC_KEPT that were asked for
 * @nr, @bytes: its length in blocks and bytes
 * @refs, @pins: references and pins held
 * @nr_ext, @ext: where it lies; of more than KVMM_MAX_RUNS extents the first ones
 * @range: its handle
 */
struct kvmm_range_info {
	uint64_t seq;
	uint64_t bytes;
	uint32_t nr;
	uint32_t refs;
	uint32_t pins;
	uint32_t prio;
	uint32_t flags;
	uint32_t nr_ext;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	kvmm_range_t range;
};

/** kvmm_range_get_info_of() - of @range; with @cursor see kvmm_range_next() of inspect.h. */
KVMM_API int kvmm_range_get_info_of(struct kvmm_pool *pool, kvmm_range_t range, uint32_t *cursor,
				    struct kvmm_range_info *info, size_t size);

/** kvmm_range_get_info() - Return: 0; -ESTALE; -EINVAL. */
static inline int kvmm_range_get_info(struct kvmm_pool *pool, kvmm_range_t range,
				      struct kvmm_range_info *info)
{
	return kvmm_range_get_info_of(pool, range, NULL, info, sizeof(*info));
}

/* ---- what a block is, and its content ---- */

enum kvmm_block_state {
	KVMM_BLOCK_FREE,
	KVMM_BLOCK_NULL,	/* reserved block 0 */
	KVMM_BLOCK_RANGE,	/* in a range */
	KVMM_BLOCK_PRIVATE,	/* allocated for the cache, without key; or reserved by a gang */
	KVMM_BLOCK_STAGED,	/* named, but no look-up finds it yet */
	KVMM_BLOCK_ACTIVE,	/* registered, referenced */
	KVMM_BLOCK_INACTIVE,	/* registered, not referenced: a hit, or the next victim */
	KVMM_NR_BLOCK_STATES,	/* of those that the pool has */
	KVMM_BLOCK_AWAY = KVMM_NR_BLOCK_STATES,	/* given back, see <kvmm/ext/moves.h> */
};

/**
 * struct kvmm_block_info - one block
 * @state: enum kvmm_block_state
 * @refs, @pins: of the block or of the range that holds it
 * @seq: sequence of the range
 * @last_access_ns: kvmm's clock, to a millisecond, of ranges to some (a tick of the system's
 *	timer), when the range or the private block was allocated or the cached block was acquired,
 *	touched, or held for the last time
 * @range: the range that holds it, if the state says so
 */
struct kvmm_block_info {
	uint64_t seq;
	uint64_t last_access_ns;
	uint32_t state;
	uint32_t refs;
	uint32_t pins;
	kvmm_range_t range;
};

KVMM_API int kvmm_block_get_info_sized(struct kvmm_pool *pool, uint32_t block,
				       struct kvmm_block_info *info, size_t size);

/** kvmm_block_get_info() - Return: 0; -EINVAL no such block. */
static inline int kvmm_block_get_info(struct kvmm_pool *pool, uint32_t block,
				      struct kvmm_block_info *info)
{
	return kvmm_block_get_info_sized(pool, block, info, sizeof(*info));
}

/** enum kvmm_content_of - what is named by a struct kvmm_content */
enum kvmm_content_of {
	KVMM_CONTENT_BLOCK,	/* a block id (@index) */
	KVMM_CONTENT_RANGE,	/* block @at of a kvmm_range_t */
	KVMM_CONTENT_MUT,	/* a kvmm_mut_t */
	KVMM_CONTENT_REF,	/* a kvmm_ref_t; can be read only */
};

/**
 * struct kvmm_content - bytes of a block
 * @offset: in bytes, counted through the planes one after the other
 * @of: enum kvmm_content_of
 * @index, @gen: its handle, or the id of the block
 * @at: of a range: which of its blocks, from 0 on
 *
 * Fixed: a handle, and a place in what it names.
 */
struct kvmm_content {
	uint64_t offset;
	uint32_t of;
	uint32_t index;
	uint32_t gen;
	uint32_t at;
};

/**
 * kvmm_content_write() - copy from host memory into a block
 *
 * Waits until the copy is done. By handle it never hits a new owner; see kvmm_range_write() and
 * others in <kvmm/ext/lease.h>.
 *
 * Return: 0; -EINVAL outside the block, a pool of ids only, or a registered block; -EBUSY a private
 * one with several holders; -ENXIO the block is away, see <kvmm/ext/moves.h>; -EIO; of handles also
 * -ESTALE, -EOVERFLOW, -EOPNOTSUPP.
 */
KVMM_API int kvmm_content_write(struct kvmm_pool *pool, const struct kvmm_content *where,
				const void *buf, size_t bytes);

/** kvmm_content_read() - the other way round; same returns. */
KVMM_API int kvmm_content_read(struct kvmm_pool *pool, const struct kvmm_content *where, void *buf,
			       size_t bytes);

/** kvmm_block_write() - kvmm_content_write() of a block id. */
static inline int kvmm_block_write(struct kvmm_pool *pool, uint32_t block, uint64_t offset,
				   const void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_BLOCK, block, 0, 0 };

	return kvmm_content_write(pool, &where, buf, bytes);
}

/** kvmm_block_read() - the other way round. */
static inline int kvmm_block_read(struct kvmm_pool *pool, uint32_t block, uint64_t offset,
				  void *buf, size_t bytes)
{
	struct kvmm_content where = { offset, KVMM_CONTENT_BLOCK, block, 0, 0 };

	return kvmm_content_read(pool, &where, buf, bytes);
}

/* ---- statistics ---- */

/**
 * enum kvmm_miss - why a lookup ended before the end of its keys
 * @KVMM_MISS_NEVER: none of the others: the name was not cached, or long ago
 * @KVMM_MISS_EVICTED: one that was cached: of the names that went last, as many as the pool has
 *	blocks are remembered, but for one in a million
 * @KVMM_MISS_STAGED: one that is about to be published
 * @KVMM_MISS_TENANT: the key is cached for another tenant, after the request's own evictions
 * @KVMM_MISS_GROUP: the tenant has the key cached in another group or layout
 * @KVMM_MISS_SHORT: the request has no full block
 *
 * A name may have several reasons: STAGED comes first, then GROUP, TENANT, EVICTED. One in 2,000
 * that are said to be EVICTED never was cached. Names that other threads register or forget at the
 * same moment may be missing.
 */
enum kvmm_miss {
	KVMM_MISS_NEVER,
	KVMM_MISS_EVICTED,
	KVMM_MISS_STAGED,
	KVMM_MISS_TENANT,
	KVMM_MISS_GROUP,
	KVMM_MISS_SHORT,
	KVMM_NR_MISSES,
};

/**
 * struct kvmm_pool_stat - one coherent snapshot of a pool; counts are since its creation
 * @nr_blocks: blocks that can be used (without the null block)
 * @nr_free: in no extent, holding nothing
 * @nr_inactive: cached, evictable
 * @nr_available: @nr_free + @nr_inactive; of the latter, blocks being copied (<kvmm/step.h>) or
 *	verified (<kvmm/ext/inspect.h>), or protected by a tenant's min, cannot be had now
 * @nr_state: blocks by enum kvmm_block_state
 * @nr_ranges, @largest, @nr_runs: ranges; longest free run; number of free runs. A policy that
 *	orders free blocks, too ("lru-classic"), keeps them itself: they are in no run
 * @block_bytes, @block_tokens: as created
 * @allocs, @alloc_blocks, @frees: successful calls of either kind, and blocks
 * @fail_nospc: requests that failed for want of blocks
 * @fail_frag: requests that did not fit with enough blocks free: failed, or saved by compaction
 * @evictions: cache traffic, in blocks
 * @registered: likewise; blocks that were rejected as duplicates are counted as well
 * @hit_blocks, @miss_blocks: keys that were looked up and found, or not; those of a request for
 *	blocks when it is admitted, not each time it is refused
 * @duplicates: blocks registered, or rejected, under a name that was taken
 * @nr_missed: matches (not blocks) that ended for each enum kvmm_miss, counted likewise; each group
 *	of a request is one
 * @compactions, @moved_blocks, @moves: compactions and shrinks that moved anything, blocks, runs;
 *	with the world stopped, beside steps and between them
 * @metadata_bytes: host memory of the pool
 * @nr_away: of @nr_blocks: given back, in none of @nr_state; see <kvmm/ext/moves.h>
 * @nr_retired: of @nr_blocks: blocks that had all 268,435,455 generations of their handle: ranges
 *	may use them, private and cached blocks never again
 * @stagings: blocks that were staged, by kvmm_stage() or on the way to being registered
 * @nr_full: times that a lookup passed over a cached block which had 1,048,575 references: a miss,
 *	unless there is a younger block of that name
 */
struct kvmm_pool_stat {
	uint32_t nr_blocks;
	uint32_t nr_free;
	uint32_t nr_inactive;
	uint32_t nr_available;
	uint32_t nr_state[KVMM_NR_BLOCK_STATES];
	uint32_t nr_ranges;
	uint32_t largest;
	uint32_t nr_runs;
	uint32_t block_tokens;
	uint64_t block_bytes;
	uint64_t allocs;
	uint64_t alloc_blocks;
	uint64_t frees;
	uint64_t fail_nospc;
	uint64_t fail_frag;
	uint64_t evictions;
	uint64_t hit_blocks;
	uint64_t miss_blocks;
	uint64_t registered;
	uint64_t duplicates;
	uint64_t nr_missed[KVMM_NR_MISSES];
	uint64_t compactions;
	uint64_t moved_blocks;
	uint64_t moves;
	uint64_t metadata_bytes;
	uint32_t nr_away;
	uint32_t nr_retired;
	uint64_t stagings;
	uint64_t nr_full;
};

/** enum kvmm_stat_kind - statistics of a pool, and their structs */
enum kvmm_stat_kind {
	KVMM_STAT_PEEK,		/* struct kvmm_pool_stat, see kvmm_pool_peek() */
	KVMM_STAT_ALLOC,	/* struct kvmm_alloc_stat */
	KVMM_STAT_PRESSURE,	/* struct kvmm_pressure */
	KVMM_STAT_GROWTH,	/* struct kvmm_growth_stat; walks all ranges under the lock */
	KVMM_STAT_PIN,		/* struct kvmm_pin_stat */
	KVMM_STAT_STAY,		/* struct kvmm_stay, of the last compaction */
	KVMM_STAT_STEP,		/* struct kvmm_step_stat */
	KVMM_STAT_PACE,		/* struct kvmm_pace_stat */
	KVMM_STAT_VERIFY,	/* struct kvmm_verify_stat */
	KVMM_STAT_BACKGROUND,	/* struct kvmm_background_stat */
	KVMM_STAT_ELASTIC,	/* struct kvmm_elastic_stat */
	KVMM_STAT_TIER,		/* struct kvmm_tier_client_stat; -EOPNOTSUPP without a tier */
	KVMM_STAT_TIER_CONFIG,	/* struct kvmm_tier_config; likewise */
	KVMM_STAT_RESIDENCY,	/* struct kvmm_residency_stat, by enum kvmm_residency_kind */
	KVMM_STAT_POOL,		/* struct kvmm_pool_stat, see kvmm_pool_get_stat() */
	KVMM_STAT_HISTORY,	/* kvmm_sum_t, see kvmm_pool_history() */
	KVMM_STAT_TIER_TIME,	/* struct kvmm_tier_time; as KVMM_STAT_TIER */
	KVMM_STAT_COMPLETIONS,	/* struct kvmm_completions, see kvmm_completions_get() */
	KVMM_STAT_COUNTS,	/* struct kvmm_counts, see kvmm_pool_get_counts() */
	KVMM_NR_STATS,
};

/**
 * kvmm_pool_stat_of() - numbers of one kind, as of one moment but for those of KVMM_STAT_PEEK and
 *	KVMM_STAT_COUNTS
 * @stat: the struct of that kind; not changed on failure
 * @size: its size, as the caller knows it: a multiple of 8, at most 4096.
 *	A shorter one is cut, of a longer one the rest is 0
 *
 * Each kind has an inline call of its own, beside its struct.
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP; -EUCLEAN; -ECHILD.
 */
KVMM_API int kvmm_pool_stat_of(struct kvmm_pool *pool, enum kvmm_stat_kind kind, void *stat,
			       size_t size);

/** kvmm_pool_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_POOL. */
static inline int kvmm_pool_get_stat(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_POOL, stat, sizeof(*stat));
}

/**
 * struct kvmm_counts - what an engine asks a pool at each step
 * @nr_blocks: of the pool, without those that are given back
 * @nr_available: @nr_free + @nr_inactive, as in struct kvmm_pool_stat
 * @nr_used: the others: @nr_available + @nr_used is @nr_blocks in each answer
 * @nr_free, @nr_inactive: as there
 * @nr_active, @nr_private, @nr_staged, @range_blocks: blocks in use, by their state
 * @nr_ranges: ranges
 * @mark_min, @mark_low, @mark_high: watermarks, in blocks; 0: there are none
 * @nr_promised, @nr_waiting: free blocks that are promised; requests that wait for blocks
 * @reserved: 0
 * @allocs, @alloc_blocks, @frees, @fail_nospc, @fail_frag, @evictions, @hit_blocks, @miss_blocks,
 *	@registered, @duplicates: as in struct kvmm_pool_stat
 */
struct kvmm_counts {
	uint32_t nr_blocks;
	uint32_t nr_available;
	uint32_t nr_used;
	uint32_t nr_free;
	uint32_t nr_inactive;
	uint32_t nr_active;
	uint32_t nr_private;
	uint32_t nr_staged;
	uint32_t range_blocks;
	uint32_t nr_ranges;
	uint32_t mark_min;
	uint32_t mark_low;
	uint32_t mark_high;
	uint32_t nr_promised;
	uint32_t nr_waiting;
	uint32_t reserved;
	uint64_t allocs;
	uint64_t alloc_blocks;
	uint64_t frees;
	uint64_t fail_nospc;
	uint64_t fail_frag;
	uint64_t evictions;
	uint64_t hit_blocks;
	uint64_t miss_blocks;
	uint64_t registered;
	uint64_t duplicates;
};

/**
 * kvmm_pool_get_counts() - counts of a pool, without any lock
 *
 * Takes as long in a large pool as in a small one, for it walks no blocks: no runs, no largest run;
 * kvmm_pool_peek() has those. Delays no other thread and waits for none. Exact while no call
 * changes the pool; else some calls under way are counted, and others not. Counts of events never
 * go down.
 */
static inline int kvmm_pool_get_counts(struct kvmm_pool *pool, struct kvmm_counts *counts)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_COUNTS, counts, sizeof(*counts));
}

/**
 * kvmm_pool_available() - blocks that a request could have: free ones, and cached ones to evict
 * @total: NULL, or out: blocks of the pool, without those given back, as of the same moment. The
 *	rest of them is in use
 *
 * @nr_available of struct kvmm_counts alone, at some 20 ns: to be asked for each request. Promises,
 * watermarks and limits of tenants may keep a request from having all of them.
 *
 * Context: lock-free; waits for no thread.
 * Return: how many; -EINVAL; -EUCLEAN; -ECHILD.
 */
KVMM_API int kvmm_pool_available(struct kvmm_pool *pool, uint32_t *total);

/** enum kvmm_setting - what can be set of a pool while it is used, and by which type */
enum kvmm_setting {
	KVMM_SET_WATERMARKS,	/* struct kvmm_watermarks */
	KVMM_SET_PACE,		/* struct kvmm_pace */
	KVMM_SET_BACKGROUND,	/* struct kvmm_background; NULL: off */
	KVMM_SET_VERIFY,	/* struct kvmm_verify_attr */
	KVMM_SET_RESIDENCY,	/* uint32_t: names of a million that are sampled */
	KVMM_SET_BALLOON,	/* uint64_t: bytes that are to be away */
	KVMM_SET_TIER,		/* struct kvmm_tier_config */
	KVMM_SET_ELASTIC,	/* struct kvmm_elastic_attr, once */
	KVMM_SET_QUIESCENT,	/* uint32_t: not 0: no block moves, counted; 0 undoes one */
	KVMM_SET_COMPLETIONS,	/* struct kvmm_completions, see kvmm_completions_set() */
	KVMM_SET_RECALLED,	/* struct kvmm_prefix, see kvmm_tier_recall() */
	KVMM_NR_SETTINGS,
};

/**
 * kvmm_pool_set() - from now on
 * @value: borrowed during the call; structs that have a size of their own begin with it
 *
 * Each setting has an inline call of its own, beside its type, which says more.
 *
 * Return: 0; errors of that call; -EINVAL no such setting; -EUCLEAN; -ECHILD.
 */
KVMM_API int kvmm_pool_set(struct kvmm_pool *pool, enum kvmm_setting what, const void *value);

/**
 * kvmm_pool_peek() - struct kvmm_pool_stat in passing: without any lock
 *
 * For monitoring: the call delays no other thread and waits for none, nor for blocks that move.
 * Each number is of its own moment; all are exact while no call changes the pool. Counts of events
 * never go down. @nr_runs and @largest are of maximal runs, whatever the engine. Reads the map of
 * the zone, a bit a block: kvmm_pool_get_counts() does not.
 */
static inline int kvmm_pool_peek(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PEEK, stat, sizeof(*stat));
}

/**
 * kvmm_validate() - walk everything and recompute every count, in the tiers below, too
 *
 * Return: 0; -EUCLEAN something contradicts itself (the log says what, and the pool refuses
 * further calls); -EINVAL.
 */
KVMM_API int kvmm_validate(struct kvmm_pool *pool);

/*
 * Ranges that grow as a sequence decodes.
 *
 * The pool keeps a run of free blocks behind a range that grows, so that the next blocks lie where
 * the last ones end. Such a reservation is soft. Its blocks count as free; a request that would
 * otherwise fail, evict, move or scatter gets them. It ends when the range is freed, shrunk at its
 * end, split or moved. It begins with the second kvmm_range_grow(), or with the range if that was
 * allocated with KVMM_ALLOC_GROWS, and is made twice as long each time that it is used up.
 *
 * A range that grows may have more extents than KVMM_MAX_RUNS: kvmm_range_extents() says how many.
 * So growing fails with -ENOSPC only if too few blocks are free or evictable; of a range allocated
 * with KVMM_ALLOC_NO_EVICT, too few free ones. That flag and KVMM_ALLOC_NO_COMPACT hold for growth,
 * too; those of one range hold for the whole of a batch.
 *
 * Documentation/allocation.rst has pictures and figures.
 */

/**
 * kvmm_range_grow_many() - @by more blocks at the end of each of @nr ranges: a step of a batch
 * @ranges: a range may stand there more than once
 *
 * In place if the blocks behind a range are free, else as a further extent, or as several. The
 * ranges' blocks stay where they are, so a range with several owners may grow, too; to make a run
 * the pool may move blocks of others. But where blocks are missing the call publishes moves that
 * were begun beside steps before, also of these ranges: their old places become free. With
 * KVMM_ALLOC_NO_COMPACT it does so only where it would be refused otherwise. From the second call
 * on it keeps free blocks behind the range for the next.
 *
 * All or nothing: if one of them cannot grow none does, and -ENOSPC or -EDQUOT has evicted nothing.
 * One lock hold where blocks are free. For several ranges in a pool with limits of tenants or a
 * zero policy memory is allocated for each call, and nothing is moved to make a run. Within a call
 * that fails kvmm_range_extents() may see a range longer for a moment; after -EIO for good if
 * another owner has let it grow in that moment (then its content counts as destroyed).
 *
 * Return: 0, also for no ranges; -ENOSPC too few blocks are free or evictable, see above; -EDQUOT a
 * tenant's limit, or the quota of a class with KVMM_CLASS_REFUSE, over the whole batch; -ESTALE or
 * -EINVAL one of the handles; -EINVAL; -ENOMEM no host memory, as for an extent beyond
 * KVMM_MAX_RUNS; -EIO new blocks could not be zeroed.
 */
KVMM_API int kvmm_range_grow_many(struct kvmm_pool *pool, const kvmm_range_t *ranges, uint32_t nr,
				  uint32_t by);

/** kvmm_range_grow() - kvmm_range_grow_many() of one range. */
static inline int kvmm_range_grow(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	return kvmm_range_grow_many(pool, &range, 1, nr);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_POOL_H */
