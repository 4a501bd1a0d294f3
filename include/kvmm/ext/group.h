/* SPDX-License-Identifier: Apache-2.0 */
/* Several pools as one: groups of layers with hit rules, and gangs, all or nothing. */
#ifndef KVMM_EXT_GROUP_H
#define KVMM_EXT_GROUP_H

#include <kvmm/cache.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * KV cache groups: the layers of one model that keep different things of the same prompt.
 *
 * A hybrid model has layers that read all earlier tokens, layers that read the last few, layers
 * that keep a state instead of tokens. Each kind is a *group*: blocks of its own, of its own
 * length in tokens, needed by its own rule. Groups share one pool, or each has one.
 *
 *	groups			which groups there are; does not change once it is made
 *	tables			the blocks of one request in all groups, by position
 *
 * A prompt is a hit of n tokens if *every* group has what its rule says it needs to go on at token
 * n. n is a multiple of the *alignment*, the least common multiple of all groups' block lengths.
 * The engine gives one key for each *granule*, their greatest common divisor; a block has the key
 * of its last granule.
 *
 * The steps of a request:
 *
 *	kvmm_groups_acquire()	references on the blocks that hit, new blocks for the next step
 *	  kvmm_groups_block_table()	... compute ...
 *	kvmm_groups_commit()	registers the full blocks of computed tokens, if they can ever hit
 *	kvmm_groups_trim()	what no later token reads goes back at once
 *	kvmm_groups_reserve()	blocks for the next step; kvmm_groups_abort() undoes that
 *	kvmm_groups_release()	the end
 *
 * Groups may be used by any number of threads, tables by one at a time. A call that fails has
 * changed nothing, unless it says otherwise.
 */

/** Most groups of one model. */
#define KVMM_MAX_GROUPS		16u

/** Most tokens of a request, of a window and of a chunk; most of an alignment is 2^20. */
#define KVMM_GROUPS_MAX_TOKENS	(1u << 30)

/** What a block table says where no block is needed, in pools without null block. */
#define KVMM_BLOCK_NONE		0xffffffffu

struct kvmm_groups;
struct kvmm_tables;

/**
 * enum kvmm_group_kind - what the layers of a group need, to go on at token n
 * @KVMM_GROUP_FULL: the blocks of all tokens before n
 * @KVMM_GROUP_WINDOW: those of the @span - 1 tokens before n (sliding window; the token itself is
 *	in the window, too)
 * @KVMM_GROUP_CHUNK: those from the last multiple of @span on, n being in the chunk that starts
 *	there (chunked local attention)
 * @KVMM_GROUP_LAST: not tokens but states, one a block: the last @span of them (Mamba: 1). A block
 *	holds the state after its last token
 */
enum kvmm_group_kind {
	KVMM_GROUP_FULL,
	KVMM_GROUP_WINDOW,
	KVMM_GROUP_CHUNK,
	KVMM_GROUP_LAST,
	KVMM_NR_GROUP_KINDS,
};

/**
 * The block behind the hit must be cached as well, and end within max_tokens, since nothing behind
 * that is looked at; it is not used, though. So a hit in such a group is at least a block shorter
 * than max_tokens, as in vLLM. For layers of a drafter (Eagle): what they keep of a token depends
 * on the next one, too.
 */
#define KVMM_GROUP_DROP_LAST	(1u << 0)

/**
 * Blocks of a group of KVMM_GROUP_FULL go by the policy's order, too: see KVMM_POOL_ORDER_AS_PUT.
 * Those of other kinds always do, since a hit needs the last blocks: what comes before the window,
 * chunk or state goes first, as it is put back first.
 */
#define KVMM_GROUP_ORDER_AS_PUT	(1u << 1)

/**
 * struct kvmm_group_attr - one group
 * @pool: where its blocks are; borrowed as long as the groups exist
 * @kind: enum kvmm_group_kind
 * @block_tokens: tokens a block, 1 to KVMM_MAX_BLOCK_TOKENS; 0 = as the pool says
 * @span: see the kinds; 0 for KVMM_GROUP_FULL
 * @flags: KVMM_GROUP_*
 */
struct kvmm_group_attr {
	struct kvmm_pool *pool;
	uint32_t kind;
	uint32_t block_tokens;
	uint32_t span;
	uint32_t flags;
};

/**
 * struct kvmm_groups_attr - the groups of a model
 * @size: sizeof(struct kvmm_groups_attr)
 * @group: copied
 * @nr: how many, 1 to KVMM_MAX_GROUPS
 * @first_id: blocks of group i are registered in the domain of group @first_id + i; models that
 *	share a pool must not share those. From now on all blocks that get a name in such a domain
 *	are evicted leaf first, or not, as the group says, whichever call registers them
 */
struct kvmm_groups_attr {
	size_t size;
	const struct kvmm_group_attr *group;
	uint32_t nr;
	uint32_t first_id;
};

#define KVMM_GROUPS_ATTR_INIT { sizeof(struct kvmm_groups_attr), NULL, 0, 0 }

/**
 * kvmm_groups_create() - make the groups of a model
 * @groups: set on success only
 *
 * Return: 0; -EINVAL a bad attribute, an alignment over 2^20, or a group other than
 * KVMM_GROUP_FULL, or with KVMM_GROUP_ORDER_AS_PUT, in a pool with KVMM_POOL_PREFIX_CLOSED;
 * -EOPNOTSUPP a pool without policy; -ENOMEM.
 */
KVMM_API int kvmm_groups_create(const struct kvmm_groups_attr *attr, struct kvmm_groups **groups);

/** kvmm_groups_destroy() - takes NULL. All tables must have been released; pools stay. */
KVMM_API void kvmm_groups_destroy(struct kvmm_groups *groups);

/** kvmm_groups_tokens() - tokens that a hit is a multiple of, if @of_hit; else tokens a key. */
KVMM_API uint32_t kvmm_groups_tokens(const struct kvmm_groups *groups, int of_hit);

/** kvmm_groups_granule() - tokens a key: one key for each so many tokens of a prompt. */
static inline uint32_t kvmm_groups_granule(const struct kvmm_groups *groups)
{
	return kvmm_groups_tokens(groups, 0);
}

/** kvmm_groups_alignment() - tokens that the length of a hit is a multiple of. */
static inline uint32_t kvmm_groups_alignment(const struct kvmm_groups *groups)
{
	return kvmm_groups_tokens(groups, 1);
}

/* ---- hits ---- */

/**
 * kvmm_groups_match() - the longest prefix that hits in all groups, in tokens
 * @prompt: one key for each full granule, from the start (@prompt->position is 0);
 *	@prompt->domain.group is not looked at
 * @max_tokens: the hit ends here at most; engines give the length less 1, since they have to
 *	compute the last token in any case
 * @tables: set on success, if it is a hit or not, with a reference on each block that is needed,
 *	and on no other; the caller's, until kvmm_groups_release(). NULL: takes no references and
 *	changes nothing, and the answer is true for as long as no block is evicted
 *
 * If a block is evicted between look and reference it looks again; each time after the fourth the
 * hit is at most half as long as what it was about to take.
 *
 * Return: tokens, 0 or more; -EINVAL; -ENOMEM; -EUCLEAN.
 */
KVMM_API int kvmm_groups_match(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt,
			       uint32_t max_tokens, struct kvmm_tables **tables);

/** kvmm_groups_hit_len() - kvmm_groups_match() without references. */
static inline int kvmm_groups_hit_len(const struct kvmm_groups *groups,
				      const struct kvmm_prefix *prompt, uint32_t max_tokens)
{
	return kvmm_groups_match(groups, prompt, max_tokens, NULL);
}

/* ---- blocks of a request ---- */

/**
 * struct kvmm_groups_acquire_args - a request's first step, or its needs in the end
 * @prompt: as for kvmm_groups_match()
 * @max_hit_tokens: the hit ends here at most; the length of the prompt less 1
 * @nr_tokens: tokens of the request; the hit is not longer than that
 * @step_tokens: room for so many of them behind the hit; 0 = for all. Without tables: most tokens
 *	of any step, if kvmm_groups_trim() follows each; 0 = all in one step
 * @reserve: blocks that must stay available in each pool beside these (a watermark)
 * @hit_tokens: out
 * @blocks: out, without tables, by group: blocks that would no longer be available to others: new
 *	ones, and unreferenced hits. For windows, chunks and states not more than are held at a time
 * @total: out, without tables: their sum
 */
struct kvmm_groups_acquire_args {
	struct kvmm_prefix prompt;
	uint32_t max_hit_tokens;
	uint32_t nr_tokens;
	uint32_t step_tokens;
	uint32_t reserve;
	uint32_t hit_tokens;
	uint32_t blocks[KVMM_MAX_GROUPS];
	uint32_t total;
};

KVMM_API int kvmm_groups_acquire_sized(const struct kvmm_groups *groups,
				       struct kvmm_groups_acquire_args *req,
				       struct kvmm_tables **tables,
				       size_t size);

/**
 * kvmm_groups_acquire() - match, and private blocks for the rest, in all groups or in none
 * @tables: set on success; the caller's, until kvmm_groups_release(). NULL: takes nothing, see
 *	kvmm_groups_blocks_needed()
 *
 * Of a window or chunk, nothing before the hit is taken but what the next token reads; of states,
 * the last @span of the step: the engine reads the state of the hit, and writes a new one.
 *
 * Return: 0; -ENOSPC it does not fit (nothing was evicted, the order of eviction is as it was; if
 * other threads took blocks at that moment, some may have been evicted, and hits be younger);
 * -EDQUOT the tenant may not have so many, see <kvmm/ext/evict.h> (likewise); -EINVAL; -ENOMEM;
 * -EIO as kvmm_acquire(); -EUCLEAN.
 */
static inline int kvmm_groups_acquire(const struct kvmm_groups *groups,
				      struct kvmm_groups_acquire_args *req,
				      struct kvmm_tables **tables)
{
	return kvmm_groups_acquire_sized(groups, req, tables, sizeof(*req));
}

/**
 * kvmm_groups_blocks_needed() - count the blocks that a request would take, and compare with what
 * there is
 *
 * Engines that admit a request only if the needs of all running ones fit cannot deadlock.
 *
 * Takes references for a moment, without a trace.
 *
 * Return: 0 enough are there; -ENOSPC too few, -EDQUOT (@need is filled in, too); -EINVAL; -ENOMEM;
 * -EUCLEAN.
 */
static inline int kvmm_groups_blocks_needed(const struct kvmm_groups *groups,
					    struct kvmm_groups_acquire_args *need)
{
	return kvmm_groups_acquire_sized(groups, need, NULL, sizeof(*need));
}

/**
 * kvmm_groups_reserve() - private blocks, so that there is room for @nr_tokens in all
 * @reserve: blocks that must stay available in each pool
 *
 * Publishes nothing. Return: 0; -ENOSPC, -ENOMEM, -EIO, -EUCLEAN as kvmm_groups_acquire(); -EINVAL.
 */
KVMM_API int kvmm_groups_reserve(struct kvmm_tables *tables, uint32_t nr_tokens,
				 uint32_t reserve);

/**
 * kvmm_groups_commit() - the first @nr_tokens are computed; register the blocks that are full
 * @prompt: keys from the start, at least those of the blocks that are full now; its domain must be
 *	that of the match. NULL = register nothing
 *
 * Blocks that can never hit stay private. A state is registered only if @nr_tokens is where its
 * block ends: steps of engines that want states to hit end there. If a pool keeps one block of a
 * name only, ids in block tables change.
 *
 * Return: 0; -EINVAL fewer tokens than before, or more than have room, or keys missing, or no
 * block for the state of token @nr_tokens, since room was made for more than that; -ENOMEM,
 * -EUCLEAN. With groups in several pools, those of some pools may have been registered then; call
 * again.
 */
KVMM_API int kvmm_groups_commit(struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
				uint32_t nr_tokens);

/**
 * kvmm_groups_cut() - give back the blocks that no token of [@from, @to) needs
 * @from: not more than are committed; engines that may take tokens back give fewer
 * @to: if it is less than are committed, those
 *
 * What is registered stays a hit until its memory is needed. Return: 0; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_groups_cut(struct kvmm_tables *tables, uint32_t from, uint32_t to);

/** kvmm_groups_abort() - give back blocks reserved since the commit. */
static inline int kvmm_groups_abort(struct kvmm_tables *tables)
{
	return kvmm_groups_cut(tables, 0, 0);
}

/** kvmm_groups_trim() - give back the blocks that no token from @nr_tokens on reads; the first one
 * is the first to be evicted. */
static inline int kvmm_groups_trim(struct kvmm_tables *tables, uint32_t nr_tokens)
{
	return kvmm_groups_cut(tables, nr_tokens, UINT32_MAX);
}

/** kvmm_groups_release() - kvmm_groups_trim() to what is committed; then give all blocks back, by
 * group, last first, and the tables. Takes NULL. Registered blocks stay cached. */
KVMM_API void kvmm_groups_release(struct kvmm_tables *tables);

/**
 * kvmm_groups_blocks() - blocks of a group, by position
 * @ids: NULL, or room for @max; 0 where no block is needed and the pool has a null block, else
 *	KVMM_BLOCK_NONE. True until the next compaction: ask at each step
 * @refs: NULL, or room for @max: registered blocks, to be hinted, pinned and so on; @refs[i].gen is
 *	0 where there is none. The references stay the tables'
 *
 * Return: length of the table, which may be more than @max; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_groups_blocks(const struct kvmm_tables *tables, uint32_t group, uint32_t *ids,
				kvmm_ref_t *refs, uint32_t max);

/** kvmm_groups_block_table() - their ids. */
static inline int kvmm_groups_block_table(const struct kvmm_tables *tables, uint32_t group,
					  uint32_t *ids, uint32_t max)
{
	return kvmm_groups_blocks(tables, group, ids, NULL, max);
}

/** kvmm_groups_refs() - their references. */
static inline int kvmm_groups_refs(const struct kvmm_tables *tables, uint32_t group,
				   kvmm_ref_t *refs, uint32_t max)
{
	return kvmm_groups_blocks(tables, group, NULL, refs, max);
}

/*
 * Gangs: memory of several pools, all of it or none, for ranks that must decide alike.
 *
 * A request of a model spread over devices needs blocks on each of them, and of a hybrid model
 * blocks of each group. A *gang* is a list of such wants. It is taken in two phases:
 *
 *	reserve	 all blocks are taken out of the pools, or none; no call shows them yet
 *	commit	 handles are given out, and what was evicted for it is gone
 *	abort	 instead of that: all pools are as before, the order of eviction included
 *
 * In between ranks can agree. Each rank has the same pools under the same numbers, calls alike, and
 * exchanges one digest a gang:
 *
 *	err = kvmm_gang_reserve(&attr, &gang, &digest);
 *	all_gather(&digest, sizeof(digest));		// the engine's
 *	if (all are equal)
 *		err = err ? err : kvmm_gang_commit(gang, blocks, ranges);
 *	else if (!err)
 *		kvmm_gang_abort(gang);
 *
 * The digest covers the name of the gang, its wants, how it ended, and in pools with
 * KVMM_POOL_DETERMINISTIC also which blocks it got and all that these pools have decided before. So
 * ranks with equal digests do the same, whether that is success or failure. A rank that fails
 * alone, for want of host memory say, has a digest unlike all others; then all ranks abort, and are
 * alike again, if no other call to these pools came in between.
 */

/** Most pools of a gang, and most wants. */
#define KVMM_GANG_MAX_POOLS	32u
#define KVMM_GANG_MAX_WANTS	64u

/** A gang that is reserved. One thread at a time uses it; its pools outlive it. */
struct kvmm_gang;

/**
 * enum kvmm_gang_kind - what is wanted of a pool
 * @KVMM_GANG_BLOCKS: private blocks, as by kvmm_alloc_for()
 * @KVMM_GANG_RANGE: one range, as by kvmm_range_alloc_attr()
 */
enum kvmm_gang_kind { KVMM_GANG_BLOCKS, KVMM_GANG_RANGE, KVMM_NR_GANG_KINDS };

/**
 * struct kvmm_gang_want - one part of a gang
 * @pool: number of the pool in &kvmm_gang_attr.pools
 * @kind: enum kvmm_gang_kind
 * @nr: blocks, 1 to those of the pool, of either kind
 * @reserve: KVMM_GANG_BLOCKS: blocks that must stay available in the pool besides
 * @max_runs, @prio, @flags, @seq: KVMM_GANG_RANGE: as in struct kvmm_range_attr; else 0
 * @tenant: the tenant that is charged
 */
struct kvmm_gang_want {
	uint32_t pool;
	uint32_t kind;
	uint32_t nr;
	uint32_t reserve;
	uint32_t max_runs;
	uint32_t prio;
	uint32_t flags;
	uint32_t tenant;
	uint64_t seq;
};

/**
 * struct kvmm_gang_attr - a gang to be reserved; all that it points to is borrowed during the call
 * @size: sizeof(struct kvmm_gang_attr); set by KVMM_GANG_ATTR_INIT
 * @pools: each once
 * @wants: taken one after the other
 * @nr_pools: 1 to KVMM_GANG_MAX_POOLS
 * @nr: wants, 1 to KVMM_GANG_MAX_WANTS
 * @id: the engine's name of the gang, a number of the step say; part of the digest
 */
struct kvmm_gang_attr {
	size_t size;
	struct kvmm_pool *const *pools;
	const struct kvmm_gang_want *wants;
	uint32_t nr_pools;
	uint32_t nr;
	uint64_t id;
};

#define KVMM_GANG_ATTR_INIT { sizeof(struct kvmm_gang_attr), NULL, NULL, 0, 0, 0 }

/**
 * kvmm_gang_reserve() - take all that is wanted, or nothing
 * @gang: set on success only
 * @digest: NULL, or out: to be compared between ranks; also after failures other than -EINVAL
 *
 * Locks all pools of the gang together, so of two gangs that want the same one gets all of it.
 * Evicts as calls of the same kind do: evicted blocks are no longer hits, but not gone before the
 * commit. If a range does not fit with enough blocks free, and may be compacted for, the call
 * compacts its pool and tries all again; moved blocks stay moved.
 *
 * Until the commit, calls on these pools see blocks that are private and ranges that are pinned.
 *
 * Return: 0; -ENOSPC, -EDQUOT as the calls of the same kind, nothing has changed; -ENOMEM; -EIO as
 * kvmm_range_alloc_attr(); -EINVAL; -EOPNOTSUPP blocks are wanted of a pool without policy;
 * -EUCLEAN.
 */
KVMM_API int kvmm_gang_reserve(const struct kvmm_gang_attr *attr, struct kvmm_gang **gang,
			       kvmm_sum_t *digest);

/**
 * kvmm_gang_commit() - give the gang's memory to the caller; takes the gang
 * @blocks: room for the blocks of all wants of KVMM_GANG_BLOCKS, in their order; may be NULL if
 *	there are none
 * @ranges: the same for the ranges
 *
 * Return: 0; -EINVAL room is missing, and the gang is still reserved; -EIO content could not be
 * made zero; -ENOSPC entries are out of generations; -EUCLEAN. After the latter three nothing is
 * the caller's, and what was evicted is gone.
 */
KVMM_API int kvmm_gang_commit(struct kvmm_gang *gang, kvmm_mut_t *blocks, kvmm_range_t *ranges);

/**
 * kvmm_gang_abort() - undo a reservation; takes the gang
 *
 * Leaves the pools exactly as before, handles to come and history included, if no other call came
 * in between. Else blocks to be evicted are among the next victims again, unless a call was to
 * forget their key meanwhile: then it is forgotten. Free blocks that growing ranges keep behind
 * them go to the first request, and do not come back.
 *
 * Return: 0; -EINVAL; -EUCLEAN.
 */
KVMM_API int kvmm_gang_abort(struct kvmm_gang *gang);

/*
 * Completions: what devices have done, as an input of ranks that agree.
 *
 * When a copy is complete is up to a device, and each rank has its own. So in a pool with
 * KVMM_POOL_DETERMINISTIC on a device with streams no copy to or from a tier or its disk, no move
 * beside or between steps, no end of a step and no verification takes effect when the device is
 * through, but once kvmm_completions_set() has said that it is over. Operations have numbers, in
 * the order in which they begin: ranks that are called alike give them alike. Each step, or less
 * often:
 *
 *	kvmm_completions_get(pool, &mine);
 *	all_gather(&mine, sizeof(mine));		// the engine's, with the history
 *	all = of[0];
 *	for (each other rank)
 *		kvmm_completions_join(&all, &of[rank]);
 *	kvmm_completions_set(pool, &all);		// the same on each rank
 *
 * Or the leader alone sends what it got. Each rank gets until it has come so far, joins a copy of
 * that with its own, and says whether @failed is as it was. If all say so all set what the leader
 * got, else they join as above. What is set cannot be joined any more: of ranks that set before all
 * have said so, one where a copy failed that did not fail on the leader is answered -EIO, for good.
 *
 * A copy that fails on one rank has failed on all. A load fails as a whole batch then, with
 * -EBADMSG, and its copies in the tier are not found any more. A block that is wrong on one rank is
 * lost on all. A block that one disk could not write stays in the tiers of all; one that it could
 * not read, because it failed or has lost it, fails its load with -EBADMSG and is a miss. What one
 * disk could not wipe (kvmm_tier_forget(), kvmm_reset_cache()) is found on no rank, but the error
 * is that rank's alone: make the call again, on all, before any of them is started again.
 *
 * Time and budgets are told as well: @now_ns is the clock of leases and deadlines, and @block_ns
 * turns @max_us of struct kvmm_compact and of a goal into a number of blocks.
 */

/** Words of &kvmm_completions.failed; so many times 64 operations are told at a time at most. */
#define KVMM_COMPLETIONS_WORDS	4u

/**
 * struct kvmm_completions - which operations are over; plain bytes, as a digest
 * @size: sizeof(struct kvmm_completions); set by KVMM_COMPLETIONS_INIT
 * @base: up to this number they were told before; the rest is of later ones
 * @upto: up to this number they are over
 * @failed: bit i: number @base + 1 + i has failed; 0 beyond @upto
 * @now_ns: kvmm's clock, or the engine's own if it puts it here; one behind the latest is ignored
 * @block_ns: copying a block takes so long here; 0: it is not known, and the last one holds
 */
struct kvmm_completions {
	size_t size;
	uint64_t base;
	uint64_t upto;
	uint64_t failed[KVMM_COMPLETIONS_WORDS];
	uint64_t now_ns;
	uint64_t block_ns;
};

#define KVMM_COMPLETIONS_INIT { sizeof(struct kvmm_completions), 0, 0, { 0 }, 0, 0 }

/**
 * kvmm_completions_get() - what this rank's device has done
 *
 * Changes nothing that a caller can see. Where checksums are to be made of copies from or to a tier
 * it waits for the device to do that. Pools of ids, and those on "host", have nothing to tell but
 * the time: their copies are complete at once, or by the clock of the tier.
 *
 * Return: 0; -EOPNOTSUPP the pool has no KVMM_POOL_DETERMINISTIC; -EINVAL; -EUCLEAN; -ECHILD.
 */
static inline int kvmm_completions_get(struct kvmm_pool *pool, struct kvmm_completions *completions)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_COMPLETIONS, completions, sizeof(*completions));
}

/**
 * kvmm_completions_join() - @all is what both ranks say
 *
 * As far as either has come; failed if it failed on either; the later time, the longer copy.
 */
static inline void kvmm_completions_join(struct kvmm_completions *all,
					 const struct kvmm_completions *one)
{
	if (all->upto > one->upto)
		all->upto = one->upto;
	for (uint32_t i = 0; i < KVMM_COMPLETIONS_WORDS; i++) {
		uint64_t first = all->base + 64u * i;
		uint64_t nr = all->upto > first ? all->upto - first : 0;

		all->failed[i] |= one->failed[i];
		if (nr < 64)
			all->failed[i] &= (1ull << nr) - 1;
	}
	if (all->now_ns < one->now_ns)
		all->now_ns = one->now_ns;
	if (all->block_ns < one->block_ns)
		all->block_ns = one->block_ns;
}

/**
 * kvmm_completions_set() - these operations are over, on all ranks
 *
 * They take effect with the next calls that look for what is complete: kvmm_tier_poll(), and those
 * that publish moves. On failure nothing has changed.
 *
 * Return: 0; -EAGAIN some are not complete on this rank's device; -EIO one failed here that
 * @completions do not know as failed; -ESTALE @base is not up to where it was told before: the
 * ranks were called differently; -EINVAL; -EOPNOTSUPP the pool has no KVMM_POOL_DETERMINISTIC;
 * -EUCLEAN; -ECHILD.
 */
static inline int kvmm_completions_set(struct kvmm_pool *pool,
				       const struct kvmm_completions *completions)
{
	return kvmm_pool_set(pool, KVMM_SET_COMPLETIONS, completions);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_GROUP_H */
