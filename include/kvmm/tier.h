/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers: cached blocks with a copy below the device, in host memory and behind that on disk.
 *
 *	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
 *	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
 *
 *	host.device	    = "cuda:0";			// its driver pins the memory
 *	host.capacity_bytes = 64ull << 30;
 *	host.block_bytes    = block_bytes;
 *	err = kvmm_tier_host_create(&host, &tier);
 *	client.layout_id    = fingerprint_of_the_model;
 *	err = kvmm_tier_attach(pool, tier, &client);	// from here on copies go down by themselves
 *
 *	nr  = kvmm_tier_match(pool, &match);		// device first, then the tiers below
 *	err = kvmm_tier_load(pool, &load, &op);		// all of it, or an error and nothing
 *	...						// steps go on; each calls kvmm_tier_poll()
 *	err = kvmm_tier_get_result(pool, op, &result);	// -EAGAIN, or a reference on each block
 *
 * Rules that hold for every tier:
 *
 *  1. What is found below had the same key, tenant, layout id and group, compared in full, and its
 *     copy was complete. A loaded block is registered only after its content has arrived with the
 *     checksum that it had when it went. Else it is a miss, and its copy is never read again.
 *  2. A copy waits for the work that the engine has given its streams before (<kvmm/step.h>).
 *  3. While a block is copied, the copy alone has both ends of it, even after an abort: no block
 *     is evicted while it is loaded, and a late write hits no other block.
 *  4. A name is on its way once in each direction: a second caller waits for the same copy.
 *  5. Nothing here waits for a device, but where it says so.
 *
 * The host tier is inclusive: a block that is loaded stays there. A device block with a finished
 * copy is *clean*: evicting it costs nothing, and its name is found below.
 *
 * Up to KVMM_TIER_CLIENTS pools (its *clients*) share a host tier, from any threads. A block takes
 * as many units of @block_bytes as it needs, in one run, so blocks of different sizes share the
 * tier. Clients with the same layout id and the same lengths of pieces find each other's blocks.
 *
 * Pools of ids only have no content to copy: their copies end when a simulated link says so, by the
 * system's clock or by one that the caller turns (kvmm_tier_clock()). All else is the same code.
 */
#ifndef KVMM_TIER_H
#define KVMM_TIER_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_tier;

/** Most pools that share a host tier. */
#define KVMM_TIER_CLIENTS	16u

/** Most operations of a pool that are not over, or have an unfetched result. */
#define KVMM_TIER_OPS		1024u

/** Numbers of tiers in answers. */
enum kvmm_tier_level { KVMM_TIER_DEVICE, KVMM_TIER_HOST, KVMM_TIER_DISK, KVMM_NR_TIER_LEVELS };

/* ---- the host tier ---- */

/** Simulated links run by the time that kvmm_tier_clock() was told last, which starts at 0. */
#define KVMM_TIER_TOLD_CLOCK	(1u << 0)

/**
 * struct kvmm_tier_link - how long a simulated copy takes
 * @latency_ns: nanoseconds of each copy
 * @bytes_per_s: bandwidth, on top; 0 = unlimited. Copies of one direction follow one another
 */
struct kvmm_tier_link {
	uint64_t latency_ns;
	uint64_t bytes_per_s;
};

struct kvmm_disk;
struct kvmm_tier_remote_attr;

/**
 * struct kvmm_tier_disk_attr - how a host tier uses a disk
 * @size: sizeof(struct kvmm_tier_disk_attr); set by KVMM_TIER_DISK_ATTR_INIT
 * @high_pm: fullness of the host tier, per mille, above which the next victims go to the disk
 * @max_put, @max_get: most blocks on their way; 0 = 64
 */
struct kvmm_tier_disk_attr {
	size_t size;
	uint32_t high_pm;
	uint32_t max_put;
	uint32_t max_get;
	uint32_t reserved;
};

#define KVMM_TIER_DISK_ATTR_INIT { sizeof(struct kvmm_tier_disk_attr), 800, 0, 0, 0 }

/**
 * struct kvmm_tier_attr - how to make a host tier
 * @size: sizeof(struct kvmm_tier_attr); set by KVMM_TIER_ATTR_INIT
 * @name: for tools: printable UTF-8; copied; "host" if NULL
 * @device: its driver pins the memory: as in struct kvmm_pool_attr; "host" (the default, if NULL):
 *	not pinned. Pools of other devices may use it as well
 * @capacity_bytes: memory in the end; 0 = @capacity_blocks
 * @block_bytes: bytes of a unit; a block of a pool takes whole units. 0 = ids only: there is no
 *	memory, and only pools without memory may use it
 * @capacity_blocks: units in the end, up to KVMM_MAX_BLOCKS; 0 = @capacity_bytes / @block_bytes
 * @chunk_bytes: bytes of a portion of pinned memory: the first is pinned at creation, each further
 *	one by a call of kvmm_tier_tick(); portions serve once pinned. 0 = 256 MiB
 * @numa_node: NUMA node of its memory; -1 = next to the device
 * @policy: policy of its eviction; see kvmm_policies(); "lru" if NULL
 * @flags: KVMM_TIER_*
 * @down, @up: simulated links, for pools of ids only: from the device, and to it
 * @disk: NULL, or a store below it, see <kvmm/ext/disk.h>: the tier's alone; the caller closes it
 *	when the tier is gone
 * @disk_attr: how it uses that, borrowed; NULL: KVMM_TIER_DISK_ATTR_INIT
 * @remote: NULL, or a server below both, see <kvmm/ext/disk.h>; borrowed during the call
 *
 * kvmm_tier_tick() and kvmm_tier_poll() write blocks to @disk before the host tier evicts them;
 * eviction never waits for that. A block on the disk alone is a hit at level KVMM_TIER_DISK. A load
 * brings it to the host tier first, where it stays; -ENOSPC without room there.
 */
struct kvmm_tier_attr {
	size_t size;
	const char *name;
	const char *device;
	uint64_t capacity_bytes;
	uint64_t block_bytes;
	uint64_t chunk_bytes;
	uint32_t capacity_blocks;
	int32_t numa_node;
	const char *policy;
	uint32_t flags;
	uint32_t reserved;
	struct kvmm_tier_link down;
	struct kvmm_tier_link up;
	struct kvmm_disk *disk;
	const struct kvmm_tier_disk_attr *disk_attr;
	const struct kvmm_tier_remote_attr *remote;
};

#define KVMM_TIER_ATTR_INIT { sizeof(struct kvmm_tier_attr), NULL, NULL, 0, 0, 0, 0, -1, NULL, \
			      0, 0, { 0, 0 }, { 0, 0 }, NULL, NULL, NULL }

/**
 * kvmm_tier_host_create() - make a host tier; empty
 * @attr: borrowed during the call
 * @tier: set on success only
 *
 * Return: 0; -EINVAL; -ENOENT no device or policy of that name; -ENODEV; -ENOMEM; -EIO the device
 * is lost; -EOPNOTSUPP a disk below a tier without memory; -ECHILD as kvmm_pool_create().
 */
KVMM_API int kvmm_tier_host_create(const struct kvmm_tier_attr *attr, struct kvmm_tier **tier);

/**
 * kvmm_tier_destroy() - drop the caller's reference on a tier; NULL does nothing
 *
 * The tier goes once the last pool is detached from it. Does nothing in a forked child.
 */
KVMM_API void kvmm_tier_destroy(struct kvmm_tier *tier);

/**
 * kvmm_tier_tick() - do what is due in the background: disk writes, the next portion of memory
 *
 * Pinning a portion may take tens of milliseconds a GiB: call it from a thread that may wait.
 *
 * Return: 1 something was done, and there may be more; 0; -ENOMEM no more memory to be had (the
 * tier keeps what it has, as its capacity); -EIO; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_tier_tick(struct kvmm_tier *tier);

/* ---- pools and their tiers ---- */

/**
 * enum kvmm_tier_write - when a block is copied down
 * @KVMM_TIER_SELECTIVE: when it is used again, even if it had to be computed again: blocks used
 *	once cost nothing
 * @KVMM_TIER_EXPLICIT: by kvmm_tier_offload() only
 * @KVMM_TIER_THROUGH: when it is registered
 * @KVMM_TIER_BACK: before it would be evicted, while the pool is fuller than @high_pm
 * @KVMM_TIER_THRESHOLD: the same, and its device block is then freed, down to @low_pm
 */
enum kvmm_tier_write {
	KVMM_TIER_SELECTIVE,
	KVMM_TIER_EXPLICIT,
	KVMM_TIER_THROUGH,
	KVMM_TIER_BACK,
	KVMM_TIER_THRESHOLD,
	KVMM_NR_TIER_WRITES,
};

/** Nothing adapts: @touches are enough, also if copies are never loaded, and KVMM_TIER_THRESHOLD
 * goes on dropping what comes back at once. */
#define KVMM_TIER_FIXED		(1u << 0)

/**
 * struct kvmm_tier_config - knobs that may be turned at any time
 * @size: sizeof(struct kvmm_tier_config); set by KVMM_TIER_CONFIG_INIT
 * @write: enum kvmm_tier_write
 * @touches: KVMM_TIER_SELECTIVE: a block is worth a copy from so many uses on, its registration
 *	included; 1 to 15
 * @high_pm, @low_pm: KVMM_TIER_BACK and _THRESHOLD: blocks in use or cached, of all, per mille
 * @step_blocks, @step_bytes: most that one kvmm_tier_poll() begins to copy down; 0 = no limit
 * @min_load: fewer blocks than this are not worth a load; 0 = any
 * @verify_every: one block in so many gets a checksum, compared at each load; 1 = each; 0 = none.
 *	Keys decide which ones
 * @flags: KVMM_TIER_FIXED
 * @reload_ns: a load so soon after the copy was made, of a block evicted from the device, counts as
 *	thrashing
 * @recompute_ns: what the engine takes to compute a token; 0 = unknown: all that is found is loaded
 * @up: expected link for loads; 0, 0 = as measured
 */
struct kvmm_tier_config {
	size_t size;
	uint32_t write;
	uint32_t touches;
	uint32_t high_pm;
	uint32_t low_pm;
	uint32_t step_blocks;
	uint32_t min_load;
	uint64_t step_bytes;
	uint32_t verify_every;
	uint32_t flags;
	uint64_t reload_ns;
	uint64_t recompute_ns;
	struct kvmm_tier_link up;
};

#define KVMM_TIER_CONFIG_INIT { sizeof(struct kvmm_tier_config), KVMM_TIER_SELECTIVE, 2, 900, 800, \
				256, 0, 0, 1, 0, 10000000000ull, 0, { 0, 0 } }

/** All work that writes a block has ended on the device when the block is registered, and all that
 * uses it when it is freed. Without this, and without streams of <kvmm/step.h>, nothing is copied
 * on a device that has streams: kvmm cannot know when it may. */
#define KVMM_TIER_COMPLETE	(1u << 0)

/** Not a tier of the pool's registry. */
#define KVMM_TIER_UNTOLD	0xffffffffu

/**
 * struct kvmm_tier_client_attr - how a pool uses a host tier
 * @size: sizeof(struct kvmm_tier_client_attr); set by KVMM_TIER_CLIENT_ATTR_INIT
 * @layout_id: all that gives the bytes of a block another meaning: model, data type, order of
 *	dimensions, rank. The lengths of the block's pieces need not be in it. A store below has
 *	blocks in whole units of the host tier: a tier with units of another size may not find them
 * @block_bytes: pools of ids only: bytes that a block would have
 * @registry_tier: which tier of the pool's registry the host tier is for it, or KVMM_TIER_UNTOLD
 * @flags: KVMM_TIER_COMPLETE
 * @max_units: most units that blocks of this pool may take; 0 = no limit
 * @min_units: units of this pool that others never get
 * @max_down, @max_up: most blocks on their way down, and up (the load quota); 0 = 1024
 * @batch_blocks: most blocks of one copy; 0 = 64
 * @config: borrowed; NULL = KVMM_TIER_CONFIG_INIT
 */
struct kvmm_tier_client_attr {
	size_t size;
	uint64_t layout_id;
	uint64_t block_bytes;
	uint32_t registry_tier;
	uint32_t flags;
	uint32_t max_units;
	uint32_t min_units;
	uint32_t max_down;
	uint32_t max_up;
	uint32_t batch_blocks;
	uint32_t reserved;
	const struct kvmm_tier_config *config;
};

#define KVMM_TIER_CLIENT_ATTR_INIT { sizeof(struct kvmm_tier_client_attr), 0, 0, KVMM_TIER_UNTOLD, \
				     0, 0, 0, 0, 0, 0, 0, NULL }

/**
 * kvmm_tier_attach() - @tier is below @pool from now on
 * @tier: NULL: see kvmm_tier_detach()
 * @attr: borrowed during the call
 *
 * A pool without a tier pays nothing for tiers. Destroying a pool detaches it.
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP the pool has no policy, or only one of pool and tier has memory,
 * or the pool is deterministic, and its tier has no KVMM_TIER_TOLD_CLOCK, or the pool is on "host"
 * and there is a disk, or @pool is not deterministic and one was attached to this tier above its
 * disk before; -EBUSY it has a tier, or its disk still writes for others; -EUSERS the tier has
 * KVMM_TIER_CLIENTS pools, or any where a deterministic pool is to be above a disk; -ENOMEM;
 * -ECHILD; -EUCLEAN.
 */
KVMM_API int kvmm_tier_attach(struct kvmm_pool *pool, struct kvmm_tier *tier,
			      const struct kvmm_tier_client_attr *attr);

/**
 * kvmm_tier_detach() - take the tier from a pool; its copies there stay until they are evicted
 *
 * No other call on the pool's tiers may run or start.
 *
 * Return: 0; -EBUSY copies are under way: poll, or abort, and try again; -EOPNOTSUPP it has none;
 * -EINVAL, -ECHILD.
 */
static inline int kvmm_tier_detach(struct kvmm_pool *pool)
{
	return kvmm_tier_attach(pool, NULL, NULL);
}

/** kvmm_tier_configure() - turn knobs; what is under way is not changed. Return: 0; -EINVAL;
 * -EOPNOTSUPP the pool has no tier. */
static inline int kvmm_tier_configure(struct kvmm_pool *pool, const struct kvmm_tier_config *config)
{
	return kvmm_pool_set(pool, KVMM_SET_TIER, config);
}

/** kvmm_tier_get_config() - read the knobs; the caller sets @config->size. Return: as before. */
static inline int kvmm_tier_get_config(struct kvmm_pool *pool, struct kvmm_tier_config *config)
{
	size_t size = config ? config->size : 0;
	int err = size > sizeof(*config) ? -22 /* EINVAL */ :
		  kvmm_pool_stat_of(pool, KVMM_STAT_TIER_CONFIG, config, size);

	if (!err)
		config->size = size;
	return err;
}

/* ---- looking up ---- */

/**
 * enum kvmm_tier_answer - what is known of a key
 * @KVMM_TIER_MISS: no tier has it
 * @KVMM_TIER_HIT: it is there, at the level that is told
 * @KVMM_TIER_PENDING: a load of it is under way; another load of it waits for that
 * @KVMM_TIER_RETRY: it is on its way down and nowhere else, or a tier cannot tell now: ask again
 */
enum kvmm_tier_answer {
	KVMM_TIER_MISS,
	KVMM_TIER_HIT,
	KVMM_TIER_PENDING,
	KVMM_TIER_RETRY,
	KVMM_NR_TIER_ANSWERS,
};

/** kvmm_acquire() has asked the device, and has counted hits and misses there. */
#define KVMM_TIER_ACQUIRED	(1u << 0)
/** The same request asks again, because it waits: nothing is counted. */
#define KVMM_TIER_AGAIN		(1u << 1)
/** Only the device is asked, and nothing is counted: as if no tier were below. */
#define KVMM_TIER_HERE		(1u << 2)

/**
 * struct kvmm_tier_match_args - the longest prefix over all tiers
 * @size: sizeof(struct kvmm_tier_match_args)
 * @prefix: borrowed
 * @refs: room for @prefix->nr; one reference each on the first @nr_device
 * @answers: NULL, or room for @prefix->nr: enum kvmm_tier_answer
 * @levels: NULL, or room for @prefix->nr: enum kvmm_tier_level of each hit
 * @nr_device: out: keys from the first one on that the device has
 * @nr_lower: out: keys behind those that can be loaded: each is a hit or pending
 * @stop: out: the answer to the key behind these: KVMM_TIER_MISS or _RETRY; _HIT if there is none
 * @flags: KVMM_TIER_ACQUIRED, KVMM_TIER_AGAIN, KVMM_TIER_HERE
 * @nr_load: out: of @nr_lower, so many, from the first on, are worth loading while the engine
 *	computes the rest, so that both are there as early as possible
 * @load_ns, @compute_ns: out: what either is expected to take
 *
 * Keys behind @nr_device + @nr_lower are answered KVMM_TIER_MISS but for the first: no look-up is
 * made.
 *
 * Loading s of m blocks takes what is on its way already, and latency and bandwidth of @up;
 * computing the rest, @recompute_ns a token. @nr_load is the s with the smallest max(load(s),
 * compute(m - s)), of two the smaller one; m if @recompute_ns is 0; 0 if it is below @min_load.
 */
struct kvmm_tier_match_args {
	size_t size;
	const struct kvmm_prefix *prefix;
	kvmm_ref_t *refs;
	uint8_t *answers;
	uint8_t *levels;
	uint32_t nr_device;
	uint32_t nr_lower;
	uint32_t stop;
	uint32_t flags;
	uint32_t nr_load;
	uint32_t reserved;
	uint64_t load_ns;
	uint64_t compute_ns;
};

/**
 * kvmm_tier_match() - kvmm_prefix_match() that goes on in the tiers below
 *
 * Serves pools without a tier, too. What it says of lower tiers holds at that moment; only
 * kvmm_tier_load() keeps blocks there.
 *
 * Return: @nr_device + @nr_lower; -EINVAL; -EOPNOTSUPP the pool has no policy; -EUCLEAN, -ECHILD.
 */
KVMM_API int kvmm_tier_match(struct kvmm_pool *pool, struct kvmm_tier_match_args *match);

/* ---- operations: submit, poll, fetch the result ---- */

/** Blocks on their way. Stale when the result was fetched or the operation aborted. */
typedef struct {
	uint32_t index;
	uint32_t gen;
} kvmm_tier_op_t;

/**
 * struct kvmm_tier_load_args - blocks to bring into the device
 * @size: sizeof(struct kvmm_tier_load_args)
 * @prefix: borrowed; not only keys: @position and @parent are what the blocks are registered with
 * @flags: none yet; 0
 * @reserve: blocks that must stay available beside these
 */
struct kvmm_tier_load_args {
	size_t size;
	const struct kvmm_prefix *prefix;
	uint32_t flags;
	uint32_t reserve;
};

/**
 * kvmm_tier_load() - begin to bring all of @load->prefix into the device, or nothing
 * @op: set on success only; NULL: see kvmm_tier_prefetch()
 *
 * The operation references keys that the device has, waits for those that others load, and copies
 * the rest into new blocks, as of kvmm_alloc_for(). It owns the references until its result is
 * fetched.
 *
 * Return: 0; -ENOENT a key is a miss, or to be retried; -EINVAL also if no streams are known, see
 * KVMM_TIER_COMPLETE; -ERANGE fewer blocks than @min_load are to be loaded; -EAGAIN too much is on
 * its way (@max_up, KVMM_TIER_OPS); -E2BIG more than @max_up; -ENOSPC they do not fit what is free
 * or can be evicted: compute them; -EDQUOT a limit, of the tenant in the device or of the pool in
 * the host tier; -ENOMEM, -EIO as kvmm_alloc_for(); -EINVAL; -EOPNOTSUPP; -EUCLEAN, -ECHILD.
 */
KVMM_API int kvmm_tier_load(struct kvmm_pool *pool, const struct kvmm_tier_load_args *load,
			    kvmm_tier_op_t *op);

/**
 * kvmm_tier_prefetch() - begin to load what can be, from the first key on, before a request asks
 * @reserve: blocks that must stay available: a prefetch has no right to what requests need
 *
 * For hints and for prompts that wait in a queue. Stops at the first key that is a miss below; keys
 * that the device has, or that are on their way, are passed over. What arrives is cached, inactive.
 *
 * Return: how many blocks are on their way because of it, no more than @max_up lets; -ENOSPC and
 * other errors as kvmm_tier_load().
 */
static inline int kvmm_tier_prefetch(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
				     uint32_t reserve)
{
	struct kvmm_tier_load_args load = { sizeof(load), prefix, 0, reserve };

	return kvmm_tier_load(pool, &load, NULL);
}

/** The device blocks are free when they have been copied, unless they are referenced. */
#define KVMM_TIER_DROP		(1u << 0)

/** Most priorities of copies down. */
#define KVMM_TIER_PRIORITIES	256u

/**
 * struct kvmm_tier_offload_args - blocks to be copied down
 * @size: sizeof(struct kvmm_tier_offload_args)
 * @refs: registered blocks; no references are needed
 * @nr: how many
 * @flags: KVMM_TIER_DROP
 * @priority: below KVMM_TIER_PRIORITIES; those of higher ones first, then first come, first served
 */
struct kvmm_tier_offload_args {
	size_t size;
	const kvmm_ref_t *refs;
	uint32_t nr;
	uint32_t flags;
	uint32_t priority;
	uint32_t reserved;
};

/**
 * kvmm_tier_offload() - queue blocks to be copied down
 * @op: NULL: the result is of no interest; else set on success only
 *
 * A block with a copy is done at once; one queued or on its way is not queued again. A block gone
 * before its turn ends with -ESTALE, one without room below with -ENOSPC.
 *
 * Return: 0; -EAGAIN KVMM_TIER_OPS; -ENOMEM; -EINVAL, also as kvmm_tier_load(); -EOPNOTSUPP;
 * -EUCLEAN, -ECHILD.
 */
KVMM_API int kvmm_tier_offload(struct kvmm_pool *pool, const struct kvmm_tier_offload_args *offload,
			       kvmm_tier_op_t *op);

/**
 * kvmm_tier_poll() - end copies that are complete, begin others
 *
 * Once a step. Where a checksum is to be made it waits for the device to do that.
 *
 * Return: blocks on their way or queued; -EINVAL; -EOPNOTSUPP; -EUCLEAN, -ECHILD.
 */
KVMM_API int kvmm_tier_poll(struct kvmm_pool *pool);

/**
 * struct kvmm_tier_result - what has become of an operation
 * @size: sizeof(struct kvmm_tier_result)
 * @refs: loads: room for @nr; on success one reference each. Else not looked at
 * @errors: NULL, or room for @nr: 0 or an error for each block, also if the operation failed
 * @nr: blocks of the operation
 * @nr_failed: out
 */
struct kvmm_tier_result {
	size_t size;
	kvmm_ref_t *refs;
	int32_t *errors;
	uint32_t nr;
	uint32_t nr_failed;
};

/**
 * kvmm_tier_get_result() - fetch the result of an operation; @op is stale then
 * @result: NULL: @op stays, and the call says only whether it is over
 *
 * If a block of a load fails, the load gives no references; blocks that arrived stay cached. A
 * block with bad content is a miss below from then on.
 *
 * Return: 0; -EAGAIN it is not over (@op stays); the error of the first block that failed: -EIO the
 * copy, -EBADMSG the content, -ENOSPC, -EDQUOT no room below, -ESTALE it is gone, -EBUSY it is
 * being moved, or written by another pool, -ENOMEM, -ECANCELED; -EINVAL @nr, no such operation, or
 * no room for references (@op stays); -ESTALE; -EOPNOTSUPP.
 */
KVMM_API int kvmm_tier_get_result(struct kvmm_pool *pool, kvmm_tier_op_t op,
				  struct kvmm_tier_result *result);

/**
 * kvmm_tier_recall() - the disks of all ranks have these names
 * @prefix: names, as one rank found them when its process began again: kvmm_snapshot_read() tells
 *	those on a disk with KVMM_DISK_NAMES
 *
 * Deterministic pools look for what their ranks were told was written, not at their own disks, and
 * so begin without names. All ranks are told the same ones here. One that a disk does not have
 * fails its load on all ranks, and is a miss from then on.
 *
 * Return: 0; -EOPNOTSUPP the pool has no tier, or is not told of completions, or there is no disk;
 * -EINVAL; -EUCLEAN; -ECHILD.
 */
static inline int kvmm_tier_recall(struct kvmm_pool *pool, const struct kvmm_prefix *prefix)
{
	return kvmm_pool_set(pool, KVMM_SET_RECALLED, prefix);
}

/* ---- forgetting ---- */

/**
 * kvmm_tier_forget() - delete the copies of these names below the device, for good
 * @prefix: the names
 *
 * When the call is over look-ups miss these names in the host tier and on the disk, also after the
 * disk was opened again, even if the process, the power or any page of the file failed. Copies that
 * are under way are not found when they are complete, and loads of this pool that are end with
 * -ESTALE. What the device has stays, and may be copied down again: kvmm_evict_blocks() first. So
 * does what another pool above the same tier has, or is loading: it does the same.
 *
 * A server below has deleted them, too, when the call says so; one that does not answer is told
 * later, and does not give them to this tier any more.
 *
 * Context: waits for the disk below, three times for each 1024 names, and for the server at most
 * its deadline for as many; no kvmm lock held.
 * Return: how many of the names, each counted once, had a copy in either tier; -EINVAL;
 * -EOPNOTSUPP; -EUCLEAN, -ECHILD; -ENOMEM, -EIO, ...: not all are gone for good. Call it again; of
 * ranks that decide alike the one that was answered so may do that alone, at once.
 */
KVMM_API int kvmm_tier_forget(struct kvmm_pool *pool, const struct kvmm_prefix *prefix);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_TIER_H */
