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
 * Before the first step an idle sequence may take what is cached of it: see kvmm_seq_take().
 *
 * schedule takes the blocks that the step will write to, all or none; apply says what came out of
 * it; revert gives the blocks back. A token has K/V only after the step that it was the *input*
 * of: the newest token of a sequence that decodes has none yet. A block is published, that is,
 * found by others, once all of its tokens have K/V and are verified; drafts never are before.
 *
 * A call that fails has changed nothing: a scheduled step stays scheduled. Each refusal has its
 * errno; kvmm_seq_strerror() says it in words.
 *
 * A sequence belongs to one thread at a time; the pool may be used by any number of others. All
 * sequences of a pool are destroyed before it.
 */
#ifndef KVMM_SEQ_H
#define KVMM_SEQ_H

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
 * @KVMM_SEQ_NO_DRAFT: -ENOMSG: accept() of drafts that schedule_speculative() was not told
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
 * kvmm_seq_strerror() - one line of English for what a kvmm_seq_ call returned
 *
 * Knows the refusals above; all else is kvmm_strerror()'s. Return: a static string; never NULL.
 */
KVMM_API const char *kvmm_seq_strerror(int err);

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
 *	tiers below the pool, and queues for those that it lacks. 0: it takes what is there.
 *	-EINVAL in pools with KVMM_POOL_DETERMINISTIC
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
};

#define KVMM_SEQ_ATTR_INIT \
	{ sizeof(struct kvmm_seq_attr), NULL, NULL, 0, 0, NULL, 0, { 0, 0, 0 }, 0, 0 }

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
 * there is loaded. What cannot be loaded, fails, or takes too long is left to compute. @whole
 * queues for private blocks as kvmm_alloc_submit() does, and keeps the prefix meanwhile. Neither
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

/**
 * kvmm_seq_drop_unassigned() - give back up to @nr private blocks that hold nothing, last first
 *
 * Return: how many; -EBUSY refused.
 */
KVMM_API int kvmm_seq_drop_unassigned(struct kvmm_seq *seq, uint32_t nr);

/* ---- steps ---- */

/**
 * kvmm_seq_schedule_prefill() - a step that computes the next @nr known tokens
 * @nr: at least 1; all that wait, or a chunk of them
 *
 * Context: allocates host memory.
 * Return: 0; -EINVAL @nr is 0; -ENOMEM; -EBUSY, -EALREADY, -ERANGE, -ENOSPC, -EDQUOT refused.
 */
KVMM_API int kvmm_seq_schedule_prefill(struct kvmm_seq *seq, uint32_t nr);

/**
 * kvmm_seq_schedule_decode() - a step that computes the newest token, and so yields another
 *
 * Context: allocates host memory.
 * Return: 0; -ENOMEM; -EBUSY, -EAGAIN, -EOVERFLOW, -ENOSPC, -EDQUOT refused.
 */
KVMM_API int kvmm_seq_schedule_decode(struct kvmm_seq *seq);

/**
 * kvmm_seq_schedule_speculative() - a step that computes the newest token and drafts behind it
 * @drafts: their tokens, copied, or NULL if they are not known yet
 * @nr: how many; no more are taken than output is left for, besides the model's own token
 *
 * The drafts' K/V goes into blocks of the table, behind the tokens that are verified.
 *
 * Context: allocates host memory.
 * Return: number of drafts taken, which may be 0; -ENOMEM; -EBUSY, -EAGAIN, -EOVERFLOW, -ENOSPC,
 * -EDQUOT refused.
 */
KVMM_API int kvmm_seq_schedule_speculative(struct kvmm_seq *seq, const uint32_t *drafts,
					   uint32_t nr);

/**
 * kvmm_seq_apply() - end a step: K/V of its tokens lies in their blocks
 * @tokens: verified tokens that it yielded, in order
 * @nr: how many. Prefill: 1 behind the last chunk, unless all output is there, else 0. Decode: 1.
 *	Speculative: the accepted drafts, and the one token that the model itself gave
 *
 * Publishes full blocks, and gives back blocks that no token needs: those of rejected drafts. With
 * KVMM_DUP_REJECT the table may name another block afterwards, of the same content.
 *
 * Return: number of blocks published; -ENOMEM (the step is still scheduled: try again); -EPERM,
 * -EPROTO, -ENODATA, -E2BIG, -EOVERFLOW, -EILSEQ refused.
 */
KVMM_API int kvmm_seq_apply(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr);

/**
 * kvmm_seq_accept() - kvmm_seq_apply() of the first @nr drafts and @token, the model's own
 *
 * @nr = 0 rejects them all. Return: as kvmm_seq_apply(); -ENOMSG refused.
 */
KVMM_API int kvmm_seq_accept(struct kvmm_seq *seq, uint32_t nr, uint32_t token);

/**
 * kvmm_seq_revert() - give up a step: give back the blocks that it had taken
 *
 * Table and tokens are as before the step. Blocks evicted for it stay evicted.
 *
 * Return: 0; -EPERM refused.
 */
KVMM_API int kvmm_seq_revert(struct kvmm_seq *seq);

/* ---- tokens ---- */

/**
 * kvmm_seq_append() - tokens that no step yielded: forced ones, or another turn
 *
 * They count as output, and wait for a prefill.
 *
 * Context: allocates host memory.
 * Return: 0; -EINVAL; -ENOMEM; -EBUSY, -EOVERFLOW refused.
 */
KVMM_API int kvmm_seq_append(struct kvmm_seq *seq, const uint32_t *tokens, uint32_t nr);

/**
 * kvmm_seq_truncate() - forget all tokens behind the first @nr
 * @nr: 1 to the number of tokens
 *
 * With @nr of all tokens nothing changes. Else at least the last token left waits for a prefill;
 * after a cut inside a published block, which is read-only, so do all of that block.
 *
 * Return: 0; -EINVAL; -EBUSY refused.
 */
KVMM_API int kvmm_seq_truncate(struct kvmm_seq *seq, uint32_t nr);

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

/**
 * kvmm_seq_refs() - the published blocks
 * @refs: NULL, or room for @max; the references stay the sequence's
 * @keys: NULL, or room for @max: their names
 *
 * Return: how many, maybe more than @max; -EINVAL.
 */
KVMM_API int kvmm_seq_refs(const struct kvmm_seq *seq, kvmm_ref_t *refs, kvmm_key_t *keys,
			   uint32_t max);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_SEQ_H */
