// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of a sequence: scheduled, then applied or given up.
 *
 * A step computes a row of positions from nr_computed on: known tokens, then drafts. All checks
 * come first; then host memory, then blocks; and what a step has yielded is written down only once
 * its full blocks are published, which is the one thing that may still fail. Until then nothing
 * that the sequence says has changed, so the call can be made again, with other tokens too.
 */
#include <string.h>

#include "internal.h"

/* ---- schedule ---- */

static enum kvmm_seq_error check_prefill(const struct kvmm_seq *seq, u32 nr)
{
	if (seq->state != KVMM_SEQ_IDLE)
		return KVMM_SEQ_NOT_IDLE;
	if (seq->is_prefilled)
		return KVMM_SEQ_PREFILL_COMPLETE;
	if (nr > seq->nr_tokens - seq->nr_computed)
		return KVMM_SEQ_PREFILL_OVERRUN;
	return KVMM_SEQ_OK;
}

static enum kvmm_seq_error check_decode(const struct kvmm_seq *seq)
{
	if (seq->state != KVMM_SEQ_IDLE)
		return KVMM_SEQ_NOT_IDLE;
	if (!seq->is_prefilled)
		return KVMM_SEQ_PREFILL_INCOMPLETE;
	if (!seq_nr_remaining(seq))
		return KVMM_SEQ_COMPLETE;
	return KVMM_SEQ_OK;
}

/*
 * A match counts when its request is admitted: the first step has its blocks. Blocks that were
 * loaded are misses of the device, and the tier has counted them as its hits.
 */
static void count_match(struct kvmm_seq *seq)
{
	u32 max_hits = min((seq->nr_tokens - 1) / seq->block_tokens, seq->nr_keys);
	u32 nr_hits = min(seq->nr_found, seq->nr_refs);
	struct kv_query query = { seq->room.keys, max_hits, seq->domain };

	seq->is_counted = true;
	kv_lookup_end(seq->pool, &query, max_hits, nr_hits, seq_blocks_of(seq, seq->nr_tokens));
}

/* A step over @nr positions that may yield up to @nr_new tokens. */
static int schedule(struct kvmm_seq *seq, enum kvmm_seq_state state, u32 nr, u32 nr_new)
{
	u32 want = seq_blocks_of(seq, seq->nr_computed + nr), have = seq_nr_blocks(seq);
	u32 nr_taken = want > have ? want - have : 0;
	bool copies = request_is_shared(seq);
	int err;

	err = request_reserve(seq, seq->nr_tokens + nr_new + (copies ? seq->block_tokens : 0));
	if (!err)
		err = request_take(seq, nr_taken + copies);
	if (err)
		return err;
	if (copies)
		err = request_unshare(seq);
	if (err) {
		request_keep_blocks(seq, have);
		return err;
	}
	if (!seq->is_counted)
		count_match(seq);
	seq->state = state;
	seq->nr_scheduled = nr;
	seq->nr_taken = nr_taken;
	return 0;
}

static int schedule_prefill(struct kvmm_seq *seq, u32 nr)
{
	enum kvmm_seq_error why = check_prefill(seq, nr);

	if (!nr)
		return -EINVAL;
	if (why)
		return request_refuse(seq, why);
	return schedule(seq, KVMM_SEQ_PREFILL_SCHEDULED, nr, !!seq_nr_remaining(seq));
}

/* The newest token, and @nr drafts behind it: none in a step that decodes. */
static int schedule_drafts(struct kvmm_seq *seq, enum kvmm_seq_state state, const u32 *drafts,
			   u32 nr)
{
	enum kvmm_seq_error why = check_decode(seq);
	int err;

	if (why)
		return request_refuse(seq, why);
	nr = state == KVMM_SEQ_DECODE_SCHEDULED ? 0 : min(nr, seq_nr_remaining(seq) - 1);
	err = schedule(seq, state, nr + 1, nr + 1);
	if (err)
		return err;
	if (drafts && nr) {
		memcpy(seq->room.tokens + seq->nr_tokens, drafts, nr * sizeof(*drafts));
		seq->nr_drafts = nr;
	}
	return nr;
}

static void end_step(struct kvmm_seq *seq)
{
	seq->state = KVMM_SEQ_IDLE;
	seq->nr_scheduled = 0;
	seq->nr_taken = 0;
	seq->nr_drafts = 0;
}

int kvmm_seq_schedule(struct kvmm_seq *seq, enum kvmm_seq_state state, const uint32_t *drafts,
		      uint32_t nr)
{
	u32 nr_kept;
	int err;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	switch (state) {
	case KVMM_SEQ_IDLE:
		if (!seq->nr_scheduled)
			return request_refuse(seq, KVMM_SEQ_NOT_SCHEDULED);
		nr_kept = seq_nr_blocks(seq) - seq->nr_taken;
		end_step(seq);
		err = request_keep_blocks(seq, nr_kept);
		return err ? err : request_reshare(seq);
	case KVMM_SEQ_PREFILL_SCHEDULED:
		return schedule_prefill(seq, nr);
	case KVMM_SEQ_DECODE_SCHEDULED:
	case KVMM_SEQ_SPECULATIVE_SCHEDULED:
		return schedule_drafts(seq, state, drafts, nr);
	default:
		return -EINVAL;
	}
}

/* ---- apply ---- */

static bool is_last_chunk(const struct kvmm_seq *seq)
{
	return seq->nr_computed + seq->nr_scheduled == seq->nr_tokens;
}

static enum kvmm_seq_error check_chunk(const struct kvmm_seq *seq, u32 nr)
{
	if (!nr)
		return is_last_chunk(seq) && seq_nr_remaining(seq) ? KVMM_SEQ_MISSING_TOKEN :
								     KVMM_SEQ_OK;
	if (!is_last_chunk(seq))
		return KVMM_SEQ_EARLY_TOKEN;
	if (!seq_nr_remaining(seq))
		return KVMM_SEQ_COMPLETE;
	return nr > 1 ? KVMM_SEQ_TOO_MANY_TOKENS : KVMM_SEQ_OK;
}

/* All but the last one are inputs of the step: their K/V is that of the drafts from @from on. */
static bool are_drafts(const struct kvmm_seq *seq, u32 from, const u32 *tokens, u32 nr)
{
	u32 known = min(nr, seq->nr_drafts - min(from, seq->nr_drafts));

	return !memcmp(seq->room.tokens + seq->nr_tokens + from, tokens, known * sizeof(*tokens));
}

static enum kvmm_seq_error check_apply(const struct kvmm_seq *seq, u32 nr_drafts,
				       const u32 *tokens, u32 nr)
{
	bool is_chunk = seq->state == KVMM_SEQ_PREFILL_SCHEDULED;

	if (!seq->nr_scheduled || (is_chunk && nr_drafts))
		return KVMM_SEQ_NOT_SCHEDULED;
	if (is_chunk)
		return check_chunk(seq, nr);
	if (!nr)
		return KVMM_SEQ_MISSING_TOKEN;
	if (nr_drafts >= seq->nr_scheduled || nr > seq->nr_scheduled - nr_drafts)
		return KVMM_SEQ_TOO_MANY_TOKENS;
	if (nr_drafts > seq->nr_drafts)
		return KVMM_SEQ_NO_DRAFT;
	return are_drafts(seq, nr_drafts, tokens, nr - 1) ? KVMM_SEQ_OK : KVMM_SEQ_OTHER_DRAFT;
}

/* The step yielded @nr tokens: those behind nr_tokens already, and @last. */
static int commit(struct kvmm_seq *seq, u32 nr, u32 last)
{
	bool is_chunk = seq->state == KVMM_SEQ_PREFILL_SCHEDULED;
	u32 computed = seq->nr_computed + (is_chunk ? seq->nr_scheduled : nr);
	int err, published;

	published = request_publish(seq, computed / seq->block_tokens);
	if (published < 0)
		return published;
	seq->is_prefilled = !is_chunk || is_last_chunk(seq);
	seq->nr_computed = computed;
	if (nr)
		seq->room.tokens[seq->nr_tokens + nr - 1] = last;
	seq->nr_tokens += nr;
	end_step(seq);
	err = request_leave_shared(seq);
	if (!err)
		err = request_keep_blocks(seq, min(seq_nr_blocks(seq),
						   seq_blocks_of(seq, seq->nr_tokens)));
	return err ? err : published;
}

int kvmm_seq_apply_drafts(struct kvmm_seq *seq, uint32_t nr_drafts, const uint32_t *tokens,
			  uint32_t nr)
{
	enum kvmm_seq_error why;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || (!tokens && nr))
		return -EINVAL;
	why = check_apply(seq, nr_drafts, tokens, nr);
	if (why)
		return request_refuse(seq, why);
	if (nr > 1 && !seq->nr_drafts)
		memcpy(seq->room.tokens + seq->nr_tokens, tokens, (nr - 1) * sizeof(*tokens));
	return commit(seq, nr_drafts + nr, nr ? tokens[nr - 1] : 0);
}
