/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences: the tokens of one request, and the blocks that hold their K/V.
 *
 * A sequence knows its tokens, names its blocks by them, and keeps a block table: registered
 * blocks at the front, which others may share, and private ones behind. Each step of the model is
 * done in two phases, so that a step that is not run costs nothing:
 *
 *	           schedule_prefill(n)       apply(no token, or the first one behind the last chunk)
 *	      +--> PREFILL_SCHEDULED -------------+
 *	      |    schedule_decode()         apply(1 token)
 *	IDLE -+--> DECODE_SCHEDULED  -------------+--> IDLE
 *	      |    schedule_speculative(k)   apply(1 to k + 1 tokens), or accept(n, token)
 *	      +--> SPECULATIVE_SCHEDULED ---------+
 *	             |
 *	             +-- revert() --> IDLE
 *
 * Arrows are kvmm_seq_schedule() and kvmm_seq_apply_drafts(), in short forms.
 *
 * Before the first step an idle sequence may take what is cached of it: see kvmm_seq_take().
 *
 * schedule takes the blocks that the step will write to, all or none; apply says what came out of
 * it; revert gives the blocks back. A token has K/V only after the step that it was the *input*
 * of: the newest token of a sequence that decodes has none yet. A block is published, that is,
 * found by others, once all of its tokens have K/V and are verified; drafts never are before.
 *
 * A call that fails has changed nothing: a scheduled step stays scheduled. Each refusal has its
 * errno.
 *
 * A sequence belongs to one thread at a time; the pool may be used by any number of others. All
 * sequences of a pool are destroyed before it.
 */
#ifndef KVMM_EXT_SEQ_H
#define KVMM_EXT_SEQ_H

#include <kvmm/key.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_seq;

enum kvmm_seq_state {
	KVMM_SEQ_IDLE,
	KVMM_SEQ_PREFILL_SCHEDULED,
	KVMM_SEQ_DECODE_SCHEDULED,
	KVMM_SEQ_SPECULATIVE_SCHEDULED,
	KVMM_SEQ_TAKING,	/* kvmm_seq_take() has returned -EINPROGRESS */
	KVMM_NR_SEQ_STATES,
};

/**
 * enum kvmm_seq_error - why a call was refused
 * @KVMM_SEQ_OK: none was
 * @KVMM_SEQ_NOT_IDLE: -EBUSY: a step is scheduled: apply or revert it first; or blocks are on
 *	their way: go on with kvmm_seq_take(), or release
 * @KVMM_SEQ_NOT_SCHEDULED: -EPERM: no step to apply or to revert
 * @KVMM_SEQ_HOLDS_BLOCKS: -EEXIST: blocks can be matched only where there are none; release first
 * @KVMM_SEQ_NO_BLOCKS: -ENOSPC: the pool has not so many blocks; &kvmm_seq_info.nr_missing
 * @KVMM_SEQ_PREFILL_OVERRUN: -ERANGE: more tokens than are waiting for a prefill
 * @KVMM_SEQ_PREFILL_COMPLETE: -EALREADY: nothing waits for a prefill; decode
 * @KVMM_SEQ_PREFILL_INCOMPLETE: -EAGAIN: tokens wait for a prefill first
 * @KVMM_SEQ_EARLY_TOKEN: -EPROTO: a token on a chunk that is not the last
 * @KVMM_SEQ_MISSING_TOKEN: -ENODATA: no token from a step that yields at least one
 * @KVMM_SEQ_TOO_MANY_TOKENS: -E2BIG: more tokens than the step can have yielded
 * @KVMM_SEQ_COMPLETE: -EOVERFLOW: all of max_output has been generated, or would be exceeded
 * @KVMM_SEQ_NO_DRAFT: -ENOMSG: accepted drafts that kvmm_seq_schedule() was not told
 * @KVMM_SEQ_OTHER_DRAFT: -EILSEQ: a token that is not the draft with computed K/V
 * @KVMM_SEQ_NO_QUOTA: -EDQUOT: its tenant may not have so many blocks, see <kvmm/ext/evict.h>;
 *	&kvmm_seq_info.nr_missing
 */
enum kvmm_seq_error {
	KVMM_SEQ_OK,
	KVMM_SEQ_NOT_IDLE,
	KVMM_SEQ_NOT_SCHEDULED,
	KVMM_SEQ_HOLDS_BLOCKS,
	KVMM_SEQ_NO_BLOCKS,
	KVMM_SEQ_PREFILL_OVERRUN,
	KVMM_SEQ_PREFILL_COMPLETE,
	KVMM_SEQ_PREFILL_INCOMPLETE,
	KVMM_SEQ_EARLY_TOKEN,
	KVMM_SEQ_MISSING_TOKEN,
	KVMM_SEQ_TOO_MANY_TOKENS,
	KVMM_SEQ_COMPLETE,
	KVMM_SEQ_NO_DRAFT,
	KVMM_SEQ_OTHER_DRAFT,
	KVMM_SEQ_NO_QUOTA,
	KVMM_NR_SEQ_ERRORS,
};

/**
 * struct kvmm_seq_attr - what a sequence is made of
 * @size: sizeof(struct kvmm_seq_attr); set by KVMM_SEQ_ATTR_INIT
 * @keys: how its blocks are named, for blocks of as many tokens as the pool's; borrowed until the
 *	sequence is destroyed
 * @prompt: tokens; copied
 * @nr_prompt: at least 1
 * @max_output: most tokens behind the prompt. Together they are less than 2^31
 * @extras: what prompt or output depend on besides tokens, sorted as in &kvmm_key_seq.extras, with
 *	starts from 0 on; copied. They keep their places when tokens are truncated
 * @nr_extras: length of @extras
 * @domain: tenant, layout and group of its blocks
 * @request: a number that no other request has at the same time: kvmm_note_request() tells its
 *	birth and death, for traces. 0: not told
 * @wait_ns: how long kvmm_seq_take() may be under way, from its first call on: it loads blocks from
 *	tiers below the pool, and queues for those that it lacks. 0: it takes what is there. By the
 *	clock that pools with KVMM_POOL_DETERMINISTIC are told
 * @prompt_keys: keys of the prompt's first blocks, by kvmm_key_hash() of the same @keys, @prompt
 *	and @extras, say in the thread that made tokens of the text; copied, and believed. NULL:
 *	they are computed here, when they are wanted
 * @prompt_digests: the same of "vllm-sha256-cbor", a chain of all 32 bytes; instead of
 *	@prompt_keys
 * @nr_prompt_keys: length of either, at most the full blocks of the prompt
 */
struct kvmm_seq_attr {
	size_t size;
	const struct kvmm_key_ctx *keys;
	const uint32_t *prompt;
	uint32_t nr_prompt;
	uint32_t max_output;
	const struct kvmm_key_extra *extras;
	size_t nr_extras;
	kvmm_domain_t domain;
	uint64_t request;
	uint64_t wait_ns;
	const kvmm_key_t *prompt_keys;
	const kvmm_digest_t *prompt_digests;
	size_t nr_prompt_keys;
};

#define KVMM_SEQ_ATTR_INIT \
	{ sizeof(struct kvmm_seq_attr), NULL, NULL, 0, 0, NULL, 0, { 0, 0, 0 }, 0, 0, NULL, NULL, \
	  0 }

/**
 * kvmm_seq_create() - make a sequence that has no blocks yet
 * @attr: borrowed during the call
 * @seq: set on success only
 *
 * Return: 0; -EINVAL a bad attribute, or @attr->keys has blocks of another length than the pool;
 * -EOPNOTSUPP the pool has no policy; -ENOMEM.
 */
KVMM_API int kvmm_seq_create(struct kvmm_pool *pool, const struct kvmm_seq_attr *attr,
			     struct kvmm_seq **seq);

/** kvmm_seq_destroy() - give all back and free a sequence, or NULL, in any state. Cannot fail. */
KVMM_API void kvmm_seq_destroy(struct kvmm_seq *seq);

/* ---- blocks for what is known ---- */

/**
 * kvmm_seq_take() - take the longest cached prefix
 * @whole: not 0: and private blocks for all other tokens that are known, all or nothing
 *
 * The sequence must be idle and without blocks. Leaves at least its last token to compute, for the
 * model's answer. Optional: without this call the engine computes all tokens.
 *
 * With &kvmm_seq_attr.wait_ns the prefix goes on in the tiers below the pool, and what is found
 * there is loaded; a tier that cannot tell yet is asked again. What cannot be loaded, fails, or
 * takes too long is left to compute. @whole queues for blocks as kvmm_alloc_submit() does; the
 * first of the queue alone keeps its prefix, others look for theirs again at their turn. Neither
 * sleeps: the sequence is KVMM_SEQ_TAKING, and each further call looks how far it is, as
 * kvmm_tier_poll() and kvmm_alloc_poll(). kvmm_seq_release() gives it up.
 *
 * Return: number of blocks that were cached; -EINPROGRESS call again, say after a step of the
 * model; -EBUSY, -EEXIST refused; -EUCLEAN; @whole also -ENOSPC (with @wait_ns: not in that time),
 * -EDQUOT, -ENOMEM, and nothing was taken.
 */
KVMM_API int kvmm_seq_take(struct kvmm_seq *seq, int whole);

/** kvmm_seq_match() - kvmm_seq_take() of what is cached. */
static inline int kvmm_seq_match(struct kvmm_seq *seq)
{
	return kvmm_seq_take(seq, 0);
}

/** kvmm_seq_acquire() - kvmm_seq_take() of the whole: for engines that admit a request only if its
 * prompt fits. Later chunks of the prefill find their blocks there. */
static inline int kvmm_seq_acquire(struct kvmm_seq *seq)
{
	return kvmm_seq_take(seq, 1);
}

/**
 * kvmm_seq_release() - give all blocks back, the last first
 *
 * Preemption, or the end. Published blocks stay cached while there is memory; tokens stay known.
 * To go on, match or acquire again, if wanted, and prefill what is missing. Blocks that are on
 * their way do not come any more.
 *
 * Return: 0; -EBUSY refused.
 */
KVMM_API int kvmm_seq_release(struct kvmm_seq *seq);

/* ---- samples, beams, branches ---- */

/**
 * kvmm_seq_fork() - @nr sequences that begin as copies of this one
 * @seq: idle
 * @nr: how many, at least 1
 * @children: room for @nr; set on success only. Each is destroyed on its own. They have no number
 *	for notes
 *
 * Tokens, keys and what is left of the output are the same. All blocks that hold computed tokens
 * are shared. The last one may be partial: the first step that writes to it while others hold it
 * has it copied on the device, see kvmm_seq_schedule(). @seq itself is one of those that share.
 * Ranges are no part of a sequence, and are not forked: kvmm_range_get() shares one as it is.
 *
 * Several samples: fork behind the prompt, and decode each. Beams: fork the ones that go on, see
 * kvmm_seq_adopt() for those that end. A tree of drafts: one child a path, each scheduled with the
 * drafts of its path; accept on the best one, adopt that, destroy the others.
 *
 * Context: allocates host memory, takes no blocks.
 * Return: 0; -EBUSY refused; -ENOMEM; -EOVERFLOW a block has too many holders; -EINVAL.
 */
KVMM_API int kvmm_seq_fork(struct kvmm_seq *seq, uint32_t nr, struct kvmm_seq **children);

/**
 * kvmm_seq_adopt() - @seq goes on as @other, which is gone
 * @seq: idle. Gives its blocks back; keeps its number for notes
 * @other: idle, of the same pool; taken on success
 *
 * Return: 0; -EBUSY one of them is not idle; -EINVAL.
 */
KVMM_API int kvmm_seq_adopt(struct kvmm_seq *seq, struct kvmm_seq *other);

/* ---- steps ---- */

/**
 * kvmm_seq_schedule() - a step: into which state the sequence goes
 * @state: the other state, or KVMM_SEQ_IDLE: give the scheduled step up
 * @drafts: KVMM_SEQ_SPECULATIVE_SCHEDULED: their tokens, copied, or NULL if they are not known yet
 * @nr: KVMM_SEQ_PREFILL_SCHEDULED: tokens that it computes: all that wait, or a chunk of them.
 *	KVMM_SEQ_SPECULATIVE_SCHEDULED: how many drafts; no more are taken than output is left for,
 *	besides the model's own token
 *
 * A step that decodes computes the newest token, and so yields another; a speculative one drafts
 * behind it, too. Their K/V goes into blocks of the table, behind the tokens that are verified.
 * Giving a step up gives back the blocks that it had taken. Table and tokens are as before it;
 * blocks evicted for it stay evicted.
 *
 * A step that would write to a block which others hold (kvmm_seq_fork()) takes one block more, and
 * the call waits until the content is copied there; the block that was shared is held until the
 * step is applied. In pools of ids the engine copies, before the step: &kvmm_seq_info.copy_from.
 *
 * Context: allocates host memory.
 * Return: drafts taken, which may be 0; -EINVAL; -ENOMEM; refused: prefill -EBUSY, -EALREADY,
 * -ERANGE; the others -EBUSY, -EAGAIN, -EOVERFLOW; all -ENOSPC, -EDQUOT; giving up only -EPERM. Of
 * copies -EIO, and -EBUSY where a stream is capturing a graph.
 */
KVMM_API int kvmm_seq_schedule(struct kvmm_seq *seq, enum kvmm_seq_state state,
			       const uint32_t *drafts, uint32_t nr);

/** kvmm_seq_schedule_prefill() - kvmm_seq_schedule() of the next @nr known tokens, at least 1. */
static inline int kvmm_seq_schedule_prefill(struct kvmm_seq *seq, uint32_t nr)
{
	return kvmm_seq_schedule(seq, KVMM_SEQ_PREFILL_SCHEDULED, NULL, nr);
}

/** kvmm_seq_schedule_decode() - kvmm_seq_schedule() of the newest token. */
static inline int kvmm_seq_schedule_decode(struct kvmm_seq *seq)
{
	return kvmm_seq_schedule(seq, KVMM_SEQ_DECODE_SCHEDULED, NULL, 0);
}

/** kvmm_seq_schedule_speculative() - kvmm_seq_schedule() of the newest token and @nr drafts. */
static inline int kvmm_seq_schedule_speculative(struct kvmm_seq *seq, const uint32_t *drafts,
						uint32_t nr)
{
	return kvmm_seq_schedule(seq, KVMM_SEQ_SPECULATIVE_SCHEDULED, drafts, nr);
}

/** kvmm_seq_revert() - give the scheduled step up. */
static inline int kvmm_seq_revert(struct kvmm_seq *seq)
{
	return kvmm_seq_schedule(seq, KVMM_SEQ_IDLE, NULL, 0);
}

/**
 * kvmm_seq_apply_drafts() - end a step: K/V of its tokens lies in their blocks
 * @nr_drafts: of the drafts that kvmm_seq_schedule() was told, so many are accepted
 * @tokens: verified tokens that it yielded behind those, in order
 * @nr: how many. Prefill: 1 behind the last chunk, unless all output is there, else 0. Decode: 1.
 *	Speculative: accepted drafts that are not in @nr_drafts, and the one token that the model
 *	itself gave
 *
 * Publishes full blocks, and gives back blocks that no token needs: those of rejected drafts. With
 * KVMM_DUP_REJECT the table may name another block afterwards, of the same content.
 *
 * Return: number of blocks published; -ENOMEM (the step is still scheduled: try again); -EPERM,
 * -EPROTO, -ENODATA, -E2BIG, -EOVERFLOW, -ENOMSG, -EILSEQ refused.
 */
KVMM_API int kvmm_seq_apply_drafts(struct kvmm_seq *seq, uint32_t nr_drafts,
				   const uint32_t *tokens, uint32_t nr);

/** kvmm_seq_apply() - kvmm_seq_apply_drafts(): @tokens are all that it yielded. */
static inline int kvmm_seq_apply(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr)
{
	return kvmm_seq_apply_drafts(seq, 0, tokens, nr);
}

/** kvmm_seq_accept() - kvmm_seq_apply_drafts() of the first @nr drafts and @token, the model's own;
 * @nr = 0 rejects them all. */
static inline int kvmm_seq_accept(struct kvmm_seq *seq, uint32_t nr, uint32_t token)
{
	return kvmm_seq_apply_drafts(seq, nr, &token, 1);
}

/* ---- tokens ---- */

/** Behind the last token; no tokens there change nothing. */
#define KVMM_TOKENS_END		UINT32_MAX

/**
 * kvmm_seq_set_tokens() - these are its tokens from number @at on, and none behind them
 * @at: 1 to the number of tokens, or KVMM_TOKENS_END
 * @tokens: tokens that no step yielded: forced ones, or another turn. They count as output, and
 *	wait for a prefill
 *
 * If tokens are forgotten at least the last one left waits for a prefill; after a cut inside a
 * published block, which is read-only, so do all of that block. With @at of all tokens and @nr 0
 * only blocks go back that hold nothing yet, as kvmm_seq_acquire() took them.
 *
 * Context: allocates host memory.
 * Return: 0; -EINVAL; -ENOMEM; -EBUSY, -EOVERFLOW refused.
 */
KVMM_API int kvmm_seq_set_tokens(struct kvmm_seq *seq, uint32_t at, const uint32_t *tokens,
				 uint32_t nr);

/** kvmm_seq_truncate() - kvmm_seq_set_tokens(): forget all tokens behind the first @nr. */
static inline int kvmm_seq_truncate(struct kvmm_seq *seq, uint32_t nr)
{
	return kvmm_seq_set_tokens(seq, nr, NULL, 0);
}

/* ---- looking ---- */

/**
 * struct kvmm_seq_info - a sequence
 * @state: enum kvmm_seq_state
 * @why: enum kvmm_seq_error, the last refusal
 * @nr_tokens: known and verified
 * @nr_prompt: of these, the prompt's
 * @nr_computed: of these, those with K/V
 * @nr_remaining: output that is left
 * @nr_waiting: tokens that wait for a prefill; 0: decode, if output is left
 * @nr_scheduled: positions that the scheduled step computes: tokens, and then drafts
 * @nr_blocks: length of the block table
 * @nr_published: of these, registered ones; they come first
 * @nr_hits: of these, those that were found cached
 * @nr_missing: blocks that the last -ENOSPC or -EDQUOT was about
 * @copy_from, @copy_to: of a scheduled step in a pool of ids: block ids; the engine copies the one
 *	to the other before the step. UINT32_MAX: nothing is to be copied
 */
struct kvmm_seq_info {
	uint32_t state;
	uint32_t why;
	uint32_t nr_tokens;
	uint32_t nr_prompt;
	uint32_t nr_computed;
	uint32_t nr_remaining;
	uint32_t nr_waiting;
	uint32_t nr_scheduled;
	uint32_t nr_blocks;
	uint32_t nr_published;
	uint32_t nr_hits;
	uint32_t nr_missing;
	uint32_t copy_from;
	uint32_t copy_to;
};

KVMM_API int kvmm_seq_get_info_sized(const struct kvmm_seq *seq, struct kvmm_seq_info *info,
				     size_t size);

/** kvmm_seq_get_info() - Return: 0; -EINVAL. */
static inline int kvmm_seq_get_info(const struct kvmm_seq *seq, struct kvmm_seq_info *info)
{
	return kvmm_seq_get_info_sized(seq, info, sizeof(*info));
}

/**
 * kvmm_seq_block_table() - ids of the blocks, in the order of their tokens
 * @ids: room for @max
 *
 * True until the next compaction, and until the sequence's next step: ask at each step.
 *
 * Return: length of the table, which may be more than @max; -EINVAL.
 */
KVMM_API int kvmm_seq_block_table(struct kvmm_seq *seq, uint32_t *ids, uint32_t max);

/** kvmm_seq_tokens() - copy tokens from number @from on. Return: how many there are from there,
 * which may be more than @max; -EINVAL. */
KVMM_API int kvmm_seq_tokens(const struct kvmm_seq *seq, uint32_t from, uint32_t *tokens,
			     uint32_t max);

/** kvmm_seq_append() - kvmm_seq_set_tokens() behind those that are there; none changes nothing. */
static inline int kvmm_seq_append(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr)
{
	return kvmm_seq_set_tokens(seq, KVMM_TOKENS_END, tokens, nr);
}

/**
 * kvmm_seq_refs() - the published blocks
 * @refs: NULL, or room for @max; the references stay the sequence's
 * @keys: NULL, or room for @max: their names
 *
 * Return: how many, maybe more than @max; -EINVAL.
 */
KVMM_API int kvmm_seq_refs(const struct kvmm_seq *seq, kvmm_ref_t *refs, kvmm_key_t *keys,
			   uint32_t max);

/*
 * Partial blocks: the tokens of private blocks, and blocks that are named by their own tokens.
 *
 * For engines that fill blocks one by one and have no sequence of <kvmm/ext/seq.h>. The pool
 * remembers what is in a private block until the block is freed, or has become a cached one; then
 * nothing has to be cleared. Memory for it is taken at first use, for 256 blocks at a time.
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
 * kvmm_block_set_tokens() - these are in the block from token number @at on, and none behind them
 * @at: at most as many as are in it, or KVMM_TOKENS_END
 *
 * Context: allocates host memory.
 * Return: how many are in it now; -ENOSPC they do not all fit; -ERANGE @at; -EBUSY it has several
 * holders; -ENOMEM; -ESTALE, -EINVAL; -EOPNOTSUPP the pool has no policy. Nothing has changed then.
 */
KVMM_API int kvmm_block_set_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t at,
				   const uint32_t *tokens, uint32_t nr);

/** kvmm_block_tokens() - what is in the block. Return: how many, which may be more than @max;
 * -ESTALE, -EINVAL. */
KVMM_API int kvmm_block_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t *tokens,
			       uint32_t max);

/** kvmm_block_nr_tokens() - how many. Return: as kvmm_block_tokens(). */
static inline int kvmm_block_nr_tokens(struct kvmm_pool *pool, kvmm_mut_t block)
{
	return kvmm_block_tokens(pool, block, NULL, 0);
}

/** kvmm_block_append_tokens() - kvmm_block_set_tokens(): these come next in the block. */
static inline int kvmm_block_append_tokens(struct kvmm_pool *pool, kvmm_mut_t block,
					   const uint32_t *tokens, uint32_t nr)
{
	return kvmm_block_set_tokens(pool, block, KVMM_TOKENS_END, tokens, nr);
}

/** kvmm_block_pop_tokens() - kvmm_block_set_tokens(): forget the last @nr. One thread at a time. */
static inline int kvmm_block_pop_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t nr)
{
	int have = kvmm_block_nr_tokens(pool, block);

	if (have < 0 || (uint32_t)have < nr)
		return have < 0 ? have : -34 /* ERANGE */;
	return kvmm_block_set_tokens(pool, block, (uint32_t)have - nr, NULL, 0);
}

/**
 * kvmm_copy_muts() - copy the content of private blocks, on the device
 * @from: any holder's, see kvmm_get_muts()
 * @to: as many others; the caller is their only holder
 *
 * Done as if one after the other, without kvmm_block_tokens(). The copies begin behind all that the
 * streams of the pool (<kvmm/step.h>) were given, and the call waits until they are done.
 *
 * Context: waits for the device; no block moves meanwhile.
 * Return: 0; -EIO the copy failed, and what is in @to is undefined, or the content of one of @from
 * is lost; -EBUSY one of @to has other holders, or is written to, or a stream is capturing a graph;
 * -EOPNOTSUPP a pool of ids only, or without a policy; -ESTALE, -EINVAL, -EOVERFLOW, -ENOMEM.
 */
KVMM_API int kvmm_copy_muts(struct kvmm_pool *pool, const kvmm_mut_t *from, const kvmm_mut_t *to,
			    uint32_t nr);

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
#endif /* KVMM_EXT_SEQ_H */
