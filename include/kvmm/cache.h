/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached blocks: blocks with a key, shared by all requests with the same prefix.
 *
 * The life of a block, and the type of the handle that stands for it:
 *
 *	(free) --alloc--> kvmm_mut_t --stage--> kvmm_staged_t --publish--> kvmm_ref_t
 *	  ^                   |                      |                  | get, put, match
 *	  +-------free--------+----------------------+                  v
 *	  +-------------------evict------------------------ no references: a hit, or evictable
 *
 * - *mutable* (kvmm_mut_t): the caller's alone, has no key;
 * - *complete* (kvmm_staged_t): full and named, but no look-up finds it yet;
 * - *immutable* (kvmm_ref_t): registered; one reference. *Active* with references, *inactive*
 *   without: still a hit, until its memory is needed;
 * - *weak* (kvmm_weak_t): no reference. Does not keep the block; can be upgraded while it exists.
 *
 * All are 8 bytes, passed by value, and carry a generation. A call with a handle of a block that is
 * gone says -ESTALE for ever; with a made-up handle, or one of another state, -EINVAL. Each type is
 * a struct of its own, so that the compiler refuses the wrong one.
 *
 * Calls work on batches. A call does all of its batch or nothing, unless it returns how many.
 *
 * Lookups (match, scan, probe, length), references (get, upgrade, touch) and pins take no lock and
 * allocate nothing. A put takes only the lock of the order of eviction, briefly, when its log is
 * full. All go on while other threads allocate, evict and compact.
 */
#ifndef KVMM_CACHE_H
#define KVMM_CACHE_H

#include <kvmm/key.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kvmm_prefix - names of consecutive blocks of a prompt
 * @keys: first to last
 * @nr: how many
 * @position: of the first, in blocks from the start of the prompt; with @nr below 2^32
 * @parent: key of the block before the first; NULL if it is the first, or unknown
 * @domain: tenant, layout and group of the blocks: a block is a hit only if all are equal
 *
 * Lookups ignore @position and @parent. Registries of prefixes and tools learn from them which
 * block follows which; see <kvmm/ext/registry.h>.
 *
 * Fixed: keys, their place, and what they are looked up in; calls have arguments for the rest.
 */
struct kvmm_prefix {
	const kvmm_key_t *keys;
	uint32_t nr;
	uint32_t position;
	const kvmm_key_t *parent;
	kvmm_domain_t domain;
};

/* ---- looking up ---- */

/**
 * kvmm_prefix_match() - reference the longest cached prefix of @prefix
 * @refs: room for @prefix->nr; one reference each
 *
 * Stops at the first miss. Returns the oldest of several blocks with one name. Lock-free. Each call
 * counts as a look-up: a request that waits for blocks asks kvmm_acquire(), which counts when it
 * succeeds, or kvmm_prefix_len(), which never does.
 *
 * Return: number of hits; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_prefix_match(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			       kvmm_ref_t *refs);

/**
 * kvmm_prefix_scan() - reference all blocks of @prefix that are cached, wherever misses are
 * @refs: room for @prefix->nr; @refs[i].gen is 0 where key i is not cached. A key that stands there
 *	twice is referenced twice
 *
 * Not one view: each key is looked up at its own moment between call and return. A key that is
 * cached all that time is found, one that is not at any time is not; of two that are never cached
 * together both may be found. The same holds for kvmm_prefix_probe().
 *
 * Return: number of hits; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_prefix_scan(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			      kvmm_ref_t *refs);

/**
 * kvmm_prefix_probe() - which keys are cached; takes nothing, changes nothing
 * @present: room for (@prefix->nr + 63) / 64 words; bit i % 64 of word i / 64 is key i. NULL: stops
 *	at the first one that is not
 *
 * Return: how many; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_prefix_probe(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			       uint64_t *present);

/** kvmm_prefix_len() - how many leading keys are cached; takes nothing, changes nothing. */
static inline int kvmm_prefix_len(struct kvmm_pool *pool, const struct kvmm_prefix *prefix)
{
	return kvmm_prefix_probe(pool, prefix, NULL);
}

/** kvmm_match() - kvmm_prefix_match() in the domain 0. */
static inline int kvmm_match(struct kvmm_pool *pool, const kvmm_key_t *keys, uint32_t nr,
			     kvmm_ref_t *refs)
{
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };

	return kvmm_prefix_match(pool, &prefix, refs);
}

/** kvmm_match_len() - kvmm_prefix_len() in the domain 0. */
static inline int kvmm_match_len(struct kvmm_pool *pool, const kvmm_key_t *keys, uint32_t nr)
{
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };

	return kvmm_prefix_len(pool, &prefix);
}

/**
 * struct kvmm_acquire_args - the blocks of a prompt: reuse the longest cached prefix, take the rest
 * @keys: keys of the prompt's full blocks, first to last
 * @nr_keys: their number
 * @max_hits: at most so many hits (engines recompute the last token); @nr_keys = no limit
 * @nr_blocks: blocks wanted in all: hits and new ones; at least the hits
 * @hits: room for @max_hits handles; one reference each
 * @nr_hits: out: how many
 * @fresh: room for @nr_blocks handles; private blocks for the rest
 * @nr_fresh: out: @nr_blocks - @nr_hits
 * @evicted: NULL, or room for @nr_blocks keys that lost their block
 * @nr_evicted: out: keys in @evicted; without that how many lost their block
 * @domain: domain of the hits; new blocks are for @domain.tenant
 * @reserve: blocks that must stay available beside these, for requests under way (a watermark)
 * @nr_untold: out: keys that lost their block beyond the room of @evicted, for watermarks,
 *	promises, or limits of the tenant that were lowered; <kvmm/event.h> names them
 */
struct kvmm_acquire_args {
	const kvmm_key_t *keys;
	uint32_t nr_keys;
	uint32_t max_hits;
	uint32_t nr_blocks;
	kvmm_ref_t *hits;
	uint32_t nr_hits;
	kvmm_mut_t *fresh;
	uint32_t nr_fresh;
	kvmm_key_t *evicted;
	uint32_t nr_evicted;
	kvmm_domain_t domain;
	uint32_t reserve;
	uint32_t nr_untold;
};

KVMM_API int kvmm_acquire_sized(struct kvmm_pool *pool, struct kvmm_acquire_args *req, size_t size);

/**
 * kvmm_acquire() - match and allocate in one step
 *
 * Unreferenced hits count as needed: they can no longer be evicted for the rest.
 *
 * Return: 0; -ENOSPC the rest does not fit besides the hits (nothing changed, order of eviction
 * included); -EDQUOT @domain.tenant may not have so many, see <kvmm/ext/evict.h> (likewise);
 * -EINVAL; -EOPNOTSUPP the pool has no policy; -EIO new blocks could not be zeroed (nothing was
 * taken; what was evicted for them is).
 */
static inline int kvmm_acquire(struct kvmm_pool *pool, struct kvmm_acquire_args *req)
{
	return kvmm_acquire_sized(pool, req, sizeof(*req));
}

/* ---- private blocks ---- */

/** kvmm_alloc_for() - @nr private blocks for @tenant: free ones first, then evicted ones; @nr = 0
 * is success. Return: 0; -ENOSPC; -EDQUOT; -EINVAL; -EOPNOTSUPP; -EIO as kvmm_acquire(). */
KVMM_API int kvmm_alloc_for(struct kvmm_pool *pool, uint32_t nr, uint32_t tenant,
			    kvmm_mut_t *blocks);

/** kvmm_alloc() - for tenant 0. */
static inline int kvmm_alloc(struct kvmm_pool *pool, uint32_t nr, kvmm_mut_t *blocks)
{
	return kvmm_alloc_for(pool, nr, 0, blocks);
}

/**
 * kvmm_free() - give private blocks back, last of @blocks first
 *
 * The thread may keep up to 64 of them for its next kvmm_alloc(), without a lock; they stay free
 * for all requests (Documentation/magazines.rst). Of two threads that free, stage or register one
 * handle at the same moment one is refused.
 *
 * Return: 0; -ESTALE, -EINVAL (none was freed).
 */
KVMM_API int kvmm_free(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr);

/* ---- naming and publishing ---- */

/**
 * kvmm_stage() - name full blocks; no look-up finds them yet
 * @blocks: private blocks, one for each key of @prefix; taken on success
 * @staged: out; may be the memory of @blocks
 *
 * Return: 0; -ESTALE, -EINVAL, -EOPNOTSUPP: the blocks are still private; -ENODATA likewise: one is
 * partial, by the tokens that were appended to it (<kvmm/cache.h>); -EIO likewise, and the content
 * of one is lost (<kvmm/ext/inspect.h>): it can be freed only.
 */
KVMM_API int kvmm_stage(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			const kvmm_mut_t *blocks, kvmm_staged_t *staged);

/** kvmm_unstage() - make blocks private again, without a name. Return: 0; -ESTALE, -EINVAL. */
KVMM_API int kvmm_unstage(struct kvmm_pool *pool, const kvmm_staged_t *staged, uint32_t nr,
			  kvmm_mut_t *blocks);

/**
 * enum kvmm_dup - what becomes of a new block with a name that is taken
 * @KVMM_DUP_POOL: as struct kvmm_pool_attr says
 * @KVMM_DUP_ALLOW: cached as well, and found once older blocks of the name are gone: block tables
 *	stay append-only (vLLM)
 * @KVMM_DUP_HOLD: registered as well, for its holders only: the new block has a reference on the
 *	one that look-ups find. Its own last reference frees it and drops that, so it keeps nothing
 *	in an idle pool (Dynamo's "allow")
 * @KVMM_DUP_REJECT: the new block is freed; the caller gets a reference on the one that look-ups
 *	find
 */
enum kvmm_dup { KVMM_DUP_POOL, KVMM_DUP_ALLOW, KVMM_DUP_HOLD, KVMM_DUP_REJECT, KVMM_NR_DUPS };

/**
 * struct kvmm_publish_args - staged blocks to be registered
 * @staged: taken on success
 * @nr: how many
 * @dup: enum kvmm_dup
 * @refs: one reference for each, on the block itself or, with KVMM_DUP_REJECT, on the older one;
 *	may be the memory of @staged
 * @nr_dups: out: blocks with a name that was taken
 */
struct kvmm_publish_args {
	const kvmm_staged_t *staged;
	uint32_t nr;
	uint32_t dup;
	kvmm_ref_t *refs;
	uint32_t nr_dups;
};

KVMM_API int kvmm_publish_sized(struct kvmm_pool *pool, struct kvmm_publish_args *req, size_t size);

/** kvmm_publish() - register. Return: 0; -ESTALE, -EINVAL, -ENOMEM: the blocks are still staged;
 * -EIO likewise, and the content of one is lost. */
static inline int kvmm_publish(struct kvmm_pool *pool, struct kvmm_publish_args *req)
{
	return kvmm_publish_sized(pool, req, sizeof(*req));
}

/**
 * kvmm_prefix_register() - stage and publish in one step, duplicates as the pool says
 * @blocks: private blocks of the caller; taken on success
 * @refs: one reference for each, on success; may be the memory of @blocks
 *
 * Return: 0; -ESTALE, -EINVAL, -ENOMEM: the blocks are still the caller's, and private; -ENODATA,
 * -EIO as kvmm_stage().
 */
KVMM_API int kvmm_prefix_register(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
				  const kvmm_mut_t *blocks, kvmm_ref_t *refs);

/** kvmm_register() - kvmm_prefix_register() in the domain 0, from the start of a prompt. */
static inline int kvmm_register(struct kvmm_pool *pool, const kvmm_mut_t *blocks,
				const kvmm_key_t *keys, uint32_t nr, kvmm_ref_t *refs)
{
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };

	return kvmm_prefix_register(pool, &prefix, blocks, refs);
}

/* ---- references ---- */

/** kvmm_get_many() - one more reference each. Return: 0; -ESTALE, -EINVAL, -EOVERFLOW (none). */
KVMM_API int kvmm_get_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/**
 * kvmm_put_many() - drop references, last of @refs first
 *
 * Give the blocks of a prompt in order, so that its tail is the first to be evicted. A block
 * without references stays cached until its memory is needed.
 *
 * Return: 0; -ESTALE, -EINVAL (none was dropped).
 */
KVMM_API int kvmm_put_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/** kvmm_touch_many() - use the blocks as a match does, for the order of eviction and touch
 * callbacks, without a reference. Return: 0; -ESTALE, -EINVAL (none was touched). */
KVMM_API int kvmm_touch_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/** kvmm_weak_of() - a weak reference: the same handle, of another type. */
static inline kvmm_weak_t kvmm_weak_of(kvmm_ref_t ref)
{
	kvmm_weak_t weak = { ref.index, ref.gen };

	return weak;
}

/**
 * kvmm_upgrade_many() - references for weak ones
 * @refs: room for @nr; @refs[i].gen is 0 where the block is gone
 *
 * Finds active and inactive blocks: one load and one compare-and-swap each.
 *
 * Return: how many; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_upgrade_many(struct kvmm_pool *pool, const kvmm_weak_t *weak, uint32_t nr,
			       kvmm_ref_t *refs);

/**
 * kvmm_pin_many_as() - take references that keep the blocks where they are, too
 * @type: enum kvmm_pin_type: the pin is undone by that type only, see <kvmm/ext/lease.h>
 *
 * Return: 0; -EBUSY one is being moved; -E2BIG the pool would have more pins than it may, see
 * struct kvmm_evict_attr; -ESTALE, -EINVAL, -EOVERFLOW, -ENOMEM (none was pinned).
 */
KVMM_API int kvmm_pin_many_as(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			      uint32_t type);

/** kvmm_unpin_many_as() - undo pins, all or nothing, last of @refs first. Return: 0; -ESTALE;
 * -EINVAL, also if one of them has no pin of @type. */
KVMM_API int kvmm_unpin_many_as(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				uint32_t type);

/** kvmm_pin_many() - kvmm_pin_many_as() of KVMM_PIN_USER. */
static inline int kvmm_pin_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_pin_many_as(pool, refs, nr, KVMM_PIN_USER);
}

/** kvmm_unpin_many() - kvmm_unpin_many_as() of KVMM_PIN_USER. */
static inline int kvmm_unpin_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_unpin_many_as(pool, refs, nr, KVMM_PIN_USER);
}

/**
 * kvmm_set_reset() - free these blocks with their last reference, or keep them cached
 *
 * The last writer wins. A new block starts as KVMM_POOL_RESET_ON_RELEASE says; a duplicate that
 * holds another block (KVMM_DUP_HOLD) goes in any case.
 *
 * Return: 0; -ESTALE, -EINVAL (none was changed).
 */
KVMM_API int kvmm_set_reset(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			    int on);

/**
 * kvmm_hint() - tell a hint-driven policy when each block is expected to be used next
 * @when: any unit that grows with time; read when the block's last reference is dropped
 *
 * Return: 0; -ESTALE, -EINVAL; -EOPNOTSUPP the policy takes no hints.
 */
KVMM_API int kvmm_hint(struct kvmm_pool *pool, const kvmm_ref_t *refs, const uint64_t *when,
		       uint32_t nr);

/* ---- the same of one block ---- */

/** kvmm_get() - as kvmm_get_many(). */
static inline int kvmm_get(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_get_many(pool, &ref, 1);
}

/** kvmm_put() - as kvmm_put_many(). */
static inline int kvmm_put(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_put_many(pool, &ref, 1);
}

/** kvmm_touch() - as kvmm_touch_many(). */
static inline int kvmm_touch(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_touch_many(pool, &ref, 1);
}

/** kvmm_upgrade() - a reference for a weak one. Return: 1; 0 the block is gone; or an error. */
static inline int kvmm_upgrade(struct kvmm_pool *pool, kvmm_weak_t weak, kvmm_ref_t *ref)
{
	return kvmm_upgrade_many(pool, &weak, 1, ref);
}

/** kvmm_pin() - as kvmm_pin_many(). */
static inline int kvmm_pin(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_pin_many(pool, &ref, 1);
}

/** kvmm_unpin() - as kvmm_unpin_many(). */
static inline int kvmm_unpin(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	return kvmm_unpin_many(pool, &ref, 1);
}

/* ---- block ids, for block tables ---- */

/**
 * kvmm_blocks_of_refs() - block ids behind handles
 * @blocks: room for @nr
 *
 * Lock-free. True until the next compaction: ask at each step.
 *
 * Return: 0; -ESTALE; -EINVAL; -EIO the content of one is lost (<kvmm/ext/inspect.h>).
 */
KVMM_API int kvmm_blocks_of_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				 uint32_t *blocks);
/** kvmm_blocks_of_muts() - the same of private blocks; same returns, but -EIO. */
KVMM_API int kvmm_blocks_of_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, uint32_t nr,
				 uint32_t *blocks);

/** kvmm_block_of_ref() - the single form. Return: id; -ESTALE; -EINVAL. */
static inline int kvmm_block_of_ref(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	uint32_t block;
	int err = kvmm_blocks_of_refs(pool, &ref, 1, &block);

	return err ? err : (int)block;
}

/** kvmm_block_of_mut() - the same of a private block. */
static inline int kvmm_block_of_mut(struct kvmm_pool *pool, kvmm_mut_t mut)
{
	uint32_t block;
	int err = kvmm_blocks_of_muts(pool, &mut, 1, &block);

	return err ? err : (int)block;
}

/* ---- forgetting ---- */

/**
 * kvmm_evict_blocks() - forget the keys of these blocks
 * @blocks: block ids
 *
 * References stay valid, but no look-up finds the block any more; its last reference frees it.
 * Inactive blocks are free at once. Blocks without a key stay as they are.
 *
 * Return: how many lost their key; -EINVAL one of them is no block (none did).
 */
KVMM_API int kvmm_evict_blocks(struct kvmm_pool *pool, const uint32_t *blocks, uint32_t nr);

/**
 * kvmm_reset_inactive_held() - forget every cached block of the device without references
 * @nr_held: NULL, or out: blocks in use after that: private, staged or referenced ones, and ranges
 *
 * Copies in tiers below stay. Cancels moves under way, and ends verifications of
 * kvmm_verify_tick(), so that none keeps a block.
 *
 * Context: waits for the device where it copies, or sums, blocks of the pool.
 * Return: how many were forgotten; -EOPNOTSUPP; -EINVAL.
 */
KVMM_API int kvmm_reset_inactive_held(struct kvmm_pool *pool, uint32_t *nr_held);

/** kvmm_reset_inactive() - the same, and does not say what is held. */
static inline int kvmm_reset_inactive(struct kvmm_pool *pool)
{
	return kvmm_reset_inactive_held(pool, NULL);
}

/**
 * kvmm_reset_cache() - forget every cached block, in every tier: for a change of weights
 * @pool: a pool without private, staged and active blocks and without ranges
 *
 * The engine calls it between the last step with the old weights and the first with the new ones,
 * on each pool that has K/V of them. Afterwards no earlier copy is found or loaded: not on the
 * device; not in the host tier, which drops copies of the pool's layout, of all pools; not on the
 * disk below, which is emptied as a whole, other layouts included, for good. Look-ups do not find
 * copies under way between host tier and disk once these complete. Moves and verifications end
 * first, as in kvmm_reset_inactive_held().
 *
 * The pool's own copies to and from the host tier hold their blocks: -EBUSY. kvmm_tier_abort_all(),
 * and kvmm_tier_poll() between two attempts until one works. So do a migration that reads the pool,
 * or writes to it, and a gang. Another pool above the same tiers that goes on with old weights, or
 * loads meanwhile, fills the tiers with old content and migrates it: stop all these pools, then
 * reset all of them, the destination of a migration last, before any goes on.
 *
 * Context: with a disk below it waits for two writes and flushes, and for the device where it
 * copies, or sums, blocks of the pool; no kvmm lock held.
 * Return: how many blocks the device had; -EBUSY something is held: nothing was forgotten, in no
 * tier; -EIO, -ENOMEM, ...: of the disk, which is the only one that can fail: nothing is found any
 * more, but what the disk has may be after it was opened again. Call it again, or open the disk
 * with KVMM_DISK_RESET.
 */
KVMM_API int kvmm_reset_cache(struct kvmm_pool *pool);

/*
 * Partial blocks: the tokens of private blocks, and blocks that are named by their own tokens.
 *
 * For engines that fill blocks one by one and have no sequence of <kvmm/seq.h>. The pool remembers
 * what is in a private block until the block is freed, or has become a cached one; then nothing has
 * to be cleared. Memory for it is taken at first use, for 256 blocks at a time.
 *
 *	kvmm_block_append_tokens(pool, block, &token, 1);	// how many are in it now
 *	...
 *	kvmm_stage_tokens(pool, &req);				// full: name it; else -ENODATA
 *	kvmm_publish(pool, &publish);
 *
 * A block to which tokens were appended can be named only while it is full, by any call: else
 * kvmm_stage() and kvmm_register() say -ENODATA, too. Of others the pool knows nothing, and takes
 * the engine's word.
 *
 * A block's tokens are its owner's, as the block is. Any thread; no lock is held on return.
 */

/**
 * kvmm_block_append_tokens() - these come next in the block
 *
 * Context: allocates host memory.
 * Return: how many are in it now; -ENOSPC they do not all fit, and none was appended; -ENOMEM;
 * -ESTALE, -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_block_append_tokens(struct kvmm_pool *pool, kvmm_mut_t block,
				      const uint32_t *tokens, uint32_t nr);

/** kvmm_block_pop_tokens() - forget the last @nr. Return: how many are left; -ERANGE there are not
 * so many, and none was forgotten; -ESTALE, -EINVAL. */
KVMM_API int kvmm_block_pop_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t nr);

/** kvmm_block_tokens() - what is in the block. Return: how many, which may be more than @max;
 * -ESTALE, -EINVAL. */
KVMM_API int kvmm_block_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t *tokens,
			       uint32_t max);

/** kvmm_block_nr_tokens() - how many. Return: as kvmm_block_tokens(). */
static inline int kvmm_block_nr_tokens(struct kvmm_pool *pool, kvmm_mut_t block)
{
	return kvmm_block_tokens(pool, block, NULL, 0);
}

/**
 * struct kvmm_stage_tokens_args - full blocks to be named by their tokens
 * @blocks: private blocks that follow each other; taken on success
 * @nr: how many, at least 1
 * @ctx: how they are named, for blocks of as many tokens as the pool's
 * @parent, @parent_digest: name of the block before, as in struct kvmm_key_seq
 * @extras, @nr_extras: the same; starts count from the first token of the first block
 * @position: of the first, in blocks from the start of the prompt
 * @domain: their tenant, layout and group
 * @staged: room for @nr; may be the memory of @blocks
 * @keys: room for @nr: their names; untouched on failure
 * @digests: NULL, or room for @nr: the same in full, for the next @parent_digest; likewise
 */
struct kvmm_stage_tokens_args {
	const kvmm_mut_t *blocks;
	uint32_t nr;
	const struct kvmm_key_ctx *ctx;
	const kvmm_key_t *parent;
	const kvmm_digest_t *parent_digest;
	const struct kvmm_key_extra *extras;
	size_t nr_extras;
	uint32_t position;
	kvmm_domain_t domain;
	kvmm_staged_t *staged;
	kvmm_key_t *keys;
	kvmm_digest_t *digests;
};

KVMM_API int kvmm_stage_tokens_sized(struct kvmm_pool *pool,
				     const struct kvmm_stage_tokens_args *req,
				     size_t size);

/**
 * kvmm_stage_tokens() - kvmm_stage(), with names that are computed from the blocks' own tokens
 *
 * Context: allocates host memory.
 * Return: 0; -ENODATA one of them is not full; -ENOMEM; -EOPNOTSUPP @digests of an algorithm that
 * has none; -ESTALE, -EINVAL. On failure all are still private, their tokens as they were.
 */
static inline int kvmm_stage_tokens(struct kvmm_pool *pool,
				    const struct kvmm_stage_tokens_args *req)
{
	return kvmm_stage_tokens_sized(pool, req, sizeof(*req));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_CACHE_H */
