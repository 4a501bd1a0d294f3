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
 * - *mutable* (kvmm_mut_t): the caller's alone, or held by several that only read; has no key;
 * - *complete* (kvmm_staged_t): full and named, but no look-up finds it yet;
 * - *immutable* (kvmm_ref_t): registered; one reference. *Active* with references, *inactive*
 *   without: still a hit, until its memory is needed;
 * - *weak* (kvmm_weak_t): no reference. Does not keep the block; can be upgraded while it exists.
 *
 * All are 8 bytes, passed by value, and carry a generation. A call with a handle that its block has
 * left behind (a mutable one that was registered, a reference that was dropped), or of a block that
 * is gone, says -ESTALE for ever; with a made-up handle, or one of a state that the block has not
 * reached, -EINVAL. Each type is a struct of its own, so that the compiler refuses the wrong one.
 *
 * Calls work on batches. A call does all of its batch or nothing, unless it returns how many.
 *
 * Lookups (match, scan, probe, peek, length), references (get, upgrade, touch) and pins take no
 * lock and allocate nothing. A put takes only the lock of the order of eviction, briefly, when its
 * log is full. All go on while other threads allocate, evict and compact.
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

/** All blocks of @prefix that are cached, wherever misses are. */
#define KVMM_FIND_ALL		(1u << 0)

/**
 * kvmm_prefix_find() - reference the longest cached prefix of @prefix
 * @refs: room for @prefix->nr; one reference each. With KVMM_FIND_ALL @refs[i].gen is 0 where key i
 *	is not cached, and a key that stands there twice is referenced twice
 * @flags: KVMM_FIND_*
 *
 * Stops at the first miss, without KVMM_FIND_ALL. Returns the oldest of several blocks with one
 * name. Lock-free. Each call counts as a look-up: a request that waits for blocks asks
 * kvmm_acquire(), which counts when it succeeds, or kvmm_prefix_len(), which never does.
 *
 * KVMM_FIND_ALL is not one view: each key is looked up at its own moment between call and return. A
 * key that is cached all that time is found, one that is not at any time is not; of two that are
 * never cached together both may be found. The same holds for kvmm_prefix_probe().
 *
 * Return: number of hits; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_prefix_find(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			      kvmm_ref_t *refs, uint32_t flags);

/** kvmm_prefix_match() - kvmm_prefix_find() of the longest prefix. */
static inline int kvmm_prefix_match(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
				    kvmm_ref_t *refs)
{
	return kvmm_prefix_find(pool, prefix, refs, 0);
}

/** kvmm_prefix_scan() - kvmm_prefix_find() of all that are cached. */
static inline int kvmm_prefix_scan(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
				   kvmm_ref_t *refs)
{
	return kvmm_prefix_find(pool, prefix, refs, KVMM_FIND_ALL);
}

/**
 * kvmm_prefix_probe() - which keys are cached; takes nothing, changes nothing
 * @present: room for (@prefix->nr + 63) / 64 words; bit i % 64 of word i / 64 is key i. NULL: stops
 *	at the first one that is not
 *
 * Return: how many; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_prefix_probe(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			       uint64_t *present);

/**
 * kvmm_prefix_peek() - which blocks have these keys; takes nothing, changes nothing
 * @weak: room for @prefix->nr: a weak reference each
 * @blocks: NULL, or room for as many: where each lies, in blocks
 * @flags: 0: stops at the first key that is not cached; KVMM_FIND_ALL: @weak[i].gen is 0 and
 *	@blocks[i] is UINT32_MAX where key i is not
 *
 * The order of eviction and the counts of hits stay as they are: kvmm_touch_weak() says that blocks
 * are used, kvmm_upgrade_many() references them. Each block had its key, and lay there, at a moment
 * of its own between call and return; without a reference it may be evicted, or move, from then on.
 *
 * Context: lock-free.
 * Return: number of hits; -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_prefix_peek(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			      kvmm_weak_t *weak, uint32_t *blocks, uint32_t flags);

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
 * @nr_untold: out: evicted keys that @evicted has no room for: a pool may evict more than the call
 *	takes, to restore a watermark, promise or limit; <kvmm/event.h> names them
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
 * The call references its hits first, so it cannot evict them to make room for the rest.
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
 * kvmm_get_muts() - one more holder each, of private blocks
 *
 * All holders have the same handle. While there are several the block cannot be written by a call,
 * staged or registered (-EBUSY), but it can be read. Each holder gives it back by kvmm_free(), and
 * the last one frees it. A lease (<kvmm/ext/lease.h>) is of the block: its end takes it from all.
 *
 * Return: 0; -ESTALE, -EINVAL, -EOPNOTSUPP; -EOVERFLOW; -EBUSY one is being taken from its owner
 * (no block has a holder more).
 */
KVMM_API int kvmm_get_muts(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr);

/**
 * kvmm_free() - give private blocks back, last of @blocks first
 *
 * Of a block with several holders one goes. The thread may keep up to 64 blocks for its next
 * kvmm_alloc(), without a lock; they stay free for all requests (Documentation/magazines.rst). Of
 * two threads that free, stage or register one handle at the same moment one is refused.
 *
 * Return: 0; -ESTALE, -EINVAL (none was freed), also if a block stands there more often than it is
 * held; -EBUSY a call copies from it, or to it (likewise).
 */
KVMM_API int kvmm_free(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr);

/* ---- naming and publishing ---- */

/**
 * kvmm_stage() - name full blocks; no look-up finds them yet
 * @blocks: private blocks, one for each key of @prefix; taken on success
 * @staged: out; may be the memory of @blocks
 *
 * Return: 0; -ESTALE, -EINVAL, -EOPNOTSUPP, -EBUSY one has other holders, or another thread
 * stages or frees it: the blocks are still private; -ENODATA likewise: one is partial, by its
 * appended tokens (<kvmm/ext/seq.h>); -EIO likewise: the content of one is lost
 * (<kvmm/ext/inspect.h>), it can be freed only.
 */
KVMM_API int kvmm_stage(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			const kvmm_mut_t *blocks, kvmm_staged_t *staged);

/** kvmm_unstage() - make blocks private, without a name. Return: 0; -ESTALE, -EINVAL, -EBUSY. */
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
 * Return: 0; -ESTALE, -EINVAL, -ENOMEM: the blocks are still the caller's, and private; -EBUSY,
 * -ENODATA, -EIO as kvmm_stage().
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

/** The blocks go by the policy's order, and wait for none that follows them. Copies that come back
 * from a tier below do as their group does, see <kvmm/ext/group.h>. */
#define KVMM_REGISTER_AS_PUT	(1u << 0)

/**
 * struct kvmm_register_args - blocks to be registered, and what the order of eviction may know
 * @prefix: their names. With @positions its position is 0, and its parent is still the key before
 *	the first block, as far as that is known
 * @positions: NULL: the blocks are consecutive; else the position of each, ascending, below
 *	2^32 - 1, where some are left out (a mask). Only of neighbours one follows the other: it is
 *	evicted before that, and events name that as its parent
 * @blocks: private blocks of the caller, one for each key; taken on success
 * @refs: one reference for each, on success; may be the memory of @blocks
 * @flags: KVMM_REGISTER_*
 * @dup: enum kvmm_dup; with KVMM_DUP_REJECT as in struct kvmm_publish_args
 * @nr_dups: out: blocks with a name that was taken
 */
struct kvmm_register_args {
	struct kvmm_prefix prefix;
	const uint32_t *positions;
	const kvmm_mut_t *blocks;
	kvmm_ref_t *refs;
	uint32_t flags;
	uint32_t dup;
	uint32_t nr_dups;
};

KVMM_API int kvmm_register_sized(struct kvmm_pool *pool, struct kvmm_register_args *req,
				 size_t size);

/**
 * kvmm_register_as() - kvmm_prefix_register() of blocks that need not be a chain
 *
 * Return: as there; -EINVAL also for @req->positions or KVMM_REGISTER_AS_PUT in a pool with
 * KVMM_POOL_PREFIX_CLOSED.
 */
static inline int kvmm_register_as(struct kvmm_pool *pool, struct kvmm_register_args *req)
{
	return kvmm_register_sized(pool, req, sizeof(*req));
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

/** kvmm_weak_of() - a weak reference: the same handle, of another type. */
static inline kvmm_weak_t kvmm_weak_of(kvmm_ref_t ref)
{
	kvmm_weak_t weak = { ref.index, ref.gen };

	return weak;
}

/**
 * kvmm_upgrade_many() - references for weak ones
 * @refs: room for @nr; @refs[i].gen is 0 where the block is gone, or @weak[i] was never one
 *
 * Finds active and inactive blocks: one load and one compare-and-swap each.
 *
 * Return: how many; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_upgrade_many(struct kvmm_pool *pool, const kvmm_weak_t *weak, uint32_t nr,
			       kvmm_ref_t *refs);

/**
 * kvmm_refs_set_pin() - take references that keep the blocks where they are, too; or (@on is 0)
 * drop them, last of @refs first
 * @type: enum kvmm_pin_type: the pin is undone by that type only, see <kvmm/ext/lease.h>
 *
 * Return: 0; -EBUSY one is being moved; -E2BIG the pool would have more pins than it may, see
 * struct kvmm_evict_attr; -ESTALE, -EINVAL, also if one of them has no pin of @type; -EOVERFLOW,
 * -ENOMEM (none was pinned, or unpinned).
 */
KVMM_API int kvmm_refs_set_pin(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
			       uint32_t type, int on);

/** kvmm_pin_many_as() - kvmm_refs_set_pin() on. */
static inline int kvmm_pin_many_as(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				   uint32_t type)
{
	return kvmm_refs_set_pin(pool, refs, nr, type, 1);
}

/** kvmm_unpin_many_as() - kvmm_refs_set_pin() off. */
static inline int kvmm_unpin_many_as(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
				     uint32_t type)
{
	return kvmm_refs_set_pin(pool, refs, nr, type, 0);
}

/** kvmm_pin_many() - kvmm_refs_set_pin() of KVMM_PIN_USER. */
static inline int kvmm_pin_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_refs_set_pin(pool, refs, nr, KVMM_PIN_USER, 1);
}

/** kvmm_unpin_many() - undo that. */
static inline int kvmm_unpin_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	return kvmm_refs_set_pin(pool, refs, nr, KVMM_PIN_USER, 0);
}

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

/** Every cached block, in every tier: for a change of weights. */
#define KVMM_FORGET_ALL		(1u << 0)

/**
 * kvmm_forget_cached() - forget every cached block of the device without references, or, with
 * KVMM_FORGET_ALL, every cached block
 * @nr_held: NULL, or out: blocks in use after that: private, staged or referenced ones, and ranges
 *
 * Cancels moves under way, and ends verifications of kvmm_verify_tick(), so that none keeps a
 * block. Without KVMM_FORGET_ALL copies in tiers below stay.
 *
 * KVMM_FORGET_ALL: the pool has no private, staged and active blocks and no ranges. The engine
 * calls it between the last step with the old weights and the first with the new ones, on each pool
 * that has K/V of them. Afterwards no earlier copy is found or loaded: not on the device; not in
 * the host tier, which drops copies of the pool's layout, of all pools; not on the disk below,
 * which is emptied as a whole, other layouts included, for good. Look-ups do not find copies under
 * way between host tier and disk once these complete.
 *
 * The pool's own copies to and from the host tier hold their blocks: -EBUSY. kvmm_tier_abort_all(),
 * and kvmm_tier_poll() between two attempts until one works. So do a migration that reads the pool,
 * or writes to it, and a gang. Another pool above the same tiers that goes on with old weights, or
 * loads meanwhile, fills the tiers with old content and migrates it: stop all these pools, then
 * reset all of them, the destination of a migration last, before any goes on.
 *
 * Context: waits for the device where it copies, or sums, blocks of the pool; with KVMM_FORGET_ALL
 * and a disk below for two writes and flushes; no kvmm lock held.
 * Return: how many blocks the device had; -EOPNOTSUPP; -EINVAL; KVMM_FORGET_ALL: -EBUSY something
 * is held: nothing was forgotten, in no tier; -EIO, -ENOMEM, ...: of the disk, which alone fails:
 * nothing is found any more, but what the disk has may be after it was opened again. Call it again,
 * or open the disk with KVMM_DISK_RESET.
 */
KVMM_API int kvmm_forget_cached(struct kvmm_pool *pool, uint32_t flags, uint32_t *nr_held);

/** kvmm_reset_inactive() - kvmm_forget_cached() of blocks without references. */
static inline int kvmm_reset_inactive(struct kvmm_pool *pool)
{
	return kvmm_forget_cached(pool, 0, NULL);
}

/** kvmm_reset_cache() - kvmm_forget_cached() of all, in every tier. */
static inline int kvmm_reset_cache(struct kvmm_pool *pool)
{
	return kvmm_forget_cached(pool, KVMM_FORGET_ALL, NULL);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_CACHE_H */
