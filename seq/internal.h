/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of sequences; see <kvmm/ext/seq.h> for what a sequence is.
 *
 * Invariants, between calls:
 *
 *  1. nr_refs == nr_computed / block_tokens: exactly the blocks that are full of computed tokens
 *     are published.
 *  2. All computed tokens have a block: nr_computed <= (nr_refs + nr_muts) * block_tokens.
 *  3. nr_computed <= nr_tokens <= nr_prompt + max_output.
 *  4. If is_prefilled, exactly one token waits for its K/V, or none and no output is left;
 *     otherwise at least one does.
 *  5. keys[] are right for the first nr_keys blocks, all with verified tokens only.
 *  6. A sequence without a step has nr_scheduled, nr_taken and nr_drafts 0.
 *  7. A sequence without a step has no ->shared. With one that is what ->muts[0] is a copy of: held
 *     until the step is applied or given up.
 *  8. Only one that takes blocks has a load (op) or a place in the queue (ticket). With a ticket it
 *     has blocks, or a load, only once it has been the first of the queue: else several that wait
 *     could keep all the blocks that each of them waits for.
 *
 * A sequence knows the pool by its public calls only, and has no lock: it is one thread's at a
 * time. Host memory is taken when a step is scheduled, so that applying it needs none of its own.
 */
#ifndef SEQ_INTERNAL_H
#define SEQ_INTERNAL_H

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/fork.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/pool_request.h>
#include <kv/key.h>
#include <kv/types.h>
#include <kvmm/cache.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/seq.h>
#include <kvmm/tier.h>

/* All that grows with the tokens, in one allocation that begins at ->tokens. */
struct seq_room {
	u32		nr_blocks;	/* so many of each */
	u32		*tokens;	/* nr_blocks * block_tokens; drafts behind nr_tokens */
	kvmm_ref_t	*refs;
	kvmm_mut_t	*muts;
	kvmm_key_t	*keys;
	kvmm_digest_t	*digests;	/* room for none unless has_digests */
};

/* Guard: the owner's thread, but for fields fixed at creation. */
struct kvmm_seq {
	/* Fixed at creation. */
	struct kvmm_pool		*pool;		/* borrowed */
	const struct kvmm_key_ctx	*ctx;		/* borrowed */
	kvmm_domain_t			domain;
	u32				block_tokens;
	u32				max_output;
	u64				wait_ns;
	bool				has_digests;	/* chained by more than the key */

	u64				number;		/* of the request, for notes; 0: none */

	bool				is_prefilled;
	bool				is_counted;	/* its last match is, as a look-up */
	enum kvmm_seq_state		state;
	enum kvmm_seq_error		why;
	u32				nr_tokens;
	u32				nr_prompt;
	u32				nr_computed;
	u32				nr_keys;
	u32				nr_refs;	/* table: refs, then muts */
	u32				nr_muts;
	u32				nr_hits;
	u32				nr_missing;
	u32				nr_first_hits;	/* of the first match; KV_NONE before */
	u32				nr_found;	/* hits of the last match, without loads */

	/* Blocks that are on their way. */
	u64				deadline_ns;	/* 0: it does not wait */
	kvmm_tier_op_t			op;		/* a load; gen 0: none */
	u32				nr_loading;	/* blocks of it */
	kvmm_ticket_t			ticket;		/* for ->room.muts; id 0: none */

	/* The scheduled step. */
	u32				nr_scheduled;	/* positions */
	u32				nr_taken;	/* of muts, the last ones */
	u32				nr_drafts;	/* known ones */
	kvmm_mut_t			shared;		/* copied by it; gen 0: none */
	bool				is_told;	/* the engine copies it */

	struct kvmm_seq			*next;		/* while a fork is made */
	struct seq_room			room;
	struct kvmm_key_extra		*extras;	/* ours, and the data behind them */
	size_t				nr_extras;
	u32				extras_base;	/* token that their starts count from */
};

static inline u32 seq_blocks_of(const struct kvmm_seq *seq, u32 nr_tokens)
{
	return nr_tokens / seq->block_tokens + !!(nr_tokens % seq->block_tokens);
}

static inline u32 seq_nr_blocks(const struct kvmm_seq *seq)
{
	return seq->nr_refs + seq->nr_muts;
}

static inline u32 seq_nr_remaining(const struct kvmm_seq *seq)
{
	return seq->nr_prompt + seq->max_output - seq->nr_tokens;
}

/** kv_seq_errno() - the errno of a refusal, negative; 0 for KVMM_SEQ_OK and what is no refusal. */
int kv_seq_errno(enum kvmm_seq_error why);

/* Remember the refusal; returns its errno. */
static inline int request_refuse(struct kvmm_seq *seq, enum kvmm_seq_error why)
{
	seq->why = why;
	return kv_seq_errno(why);
}

/* ---- keys.c: memory that grows with the tokens ---- */

/* Room for so many tokens, and for their blocks. 0, or -ENOMEM and nothing has changed. */
int request_reserve(struct kvmm_seq *seq, u32 nr_tokens);
void request_free_room(struct kvmm_seq *seq);
/* All that @from has, to @seq that has the same numbers. 0; -ENOMEM, and some may be there. */
int request_copy_room(struct kvmm_seq *seq, const struct kvmm_seq *from);
/* Deep copies. 0; -EINVAL; -ENOMEM. */
int request_copy_extras(struct kvmm_seq *seq, const struct kvmm_key_extra *extras, size_t nr);
/* Those of the prompt that its caller has computed. */
void request_take_keys(struct kvmm_seq *seq, const struct kvmm_seq_attr *attr);
/* Compute the keys of the first @nr blocks, if they are not there yet. 0; -EINVAL. */
int request_extend_keys(struct kvmm_seq *seq, u32 nr);

/* ---- table.c: the block table ---- */

/* @nr private blocks at the end. 0; -ENOSPC refused; other errors of the pool. */
int request_take(struct kvmm_seq *seq, u32 nr);
/* No block is on its way to it any more. It keeps those that it has. */
void request_stop_taking(struct kvmm_seq *seq);
/* Give blocks back, last first, until @nr are left. */
int request_keep_blocks(struct kvmm_seq *seq, u32 nr);
/* Publish the front of the private blocks until @nr are published: how many it were. */
int request_publish(struct kvmm_seq *seq, u32 nr);

/* ---- fork.c: blocks that are shared until they are written to ---- */

/* Would the next step write to a block that others hold? */
bool request_is_shared(const struct kvmm_seq *seq);
/* The last block that was taken is a copy of that one, and takes its place. 0, or an error. */
int request_unshare(struct kvmm_seq *seq);
/* The step is given up: the copy goes, if there is one, and the block has its place again. */
int request_reshare(struct kvmm_seq *seq);
/* The step is applied: the block that was copied goes, if there is one. */
int request_leave_shared(struct kvmm_seq *seq);

#endif /* SEQ_INTERNAL_H */
