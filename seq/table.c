// SPDX-License-Identifier: Apache-2.0
/*
 * The block table of a sequence: filled, emptied, asked.
 *
 * Blocks leave it from its end only, so that of a prompt that is given back the tail is the first
 * to be evicted. The pool refuses handles of ours only if it has found that it contradicts itself;
 * such an error is passed on, with the table as far as it got.
 */
#include <limits.h>
#include <string.h>

#include "internal.h"

/* ---- for the steps ---- */

/* @err of the pool, in the words of a sequence. */
static int refuse_blocks(struct kvmm_seq *seq, int err, u32 nr_missing)
{
	if (err != -ENOSPC && err != -EDQUOT)
		return err;
	seq->nr_missing = nr_missing;
	return request_refuse(seq, err == -EDQUOT ? KVMM_SEQ_NO_QUOTA : KVMM_SEQ_NO_BLOCKS);
}

int request_take(struct kvmm_seq *seq, u32 nr)
{
	int err;

	if (!nr)
		return 0;
	err = kvmm_alloc_for(seq->pool, nr, seq->domain.tenant, seq->room.muts + seq->nr_muts);
	if (err)
		return refuse_blocks(seq, err, nr);
	seq->nr_muts += nr;
	return 0;
}

int request_keep_blocks(struct kvmm_seq *seq, u32 nr)
{
	u32 refs = min(nr, seq->nr_refs), muts = nr - refs;
	int err = 0;

	if (seq->nr_muts > muts) {
		err = kvmm_free(seq->pool, seq->room.muts + muts, seq->nr_muts - muts);
		seq->nr_muts = muts;
	}
	if (seq->nr_refs > refs && !err) {
		err = kvmm_put_many(seq->pool, seq->room.refs + refs, seq->nr_refs - refs);
		seq->nr_refs = refs;
		seq->nr_hits = min(seq->nr_hits, refs);
	}
	return err;
}

int request_publish(struct kvmm_seq *seq, u32 nr)
{
	struct seq_room *room = &seq->room;
	u32 from = seq->nr_refs, nr_keys = seq->nr_keys, more = nr - from;
	struct kvmm_prefix prefix = { .keys = room->keys + from, .nr = more, .position = from,
				      .parent = from ? &room->keys[from - 1] : NULL,
				      .domain = seq->domain };
	int err;

	if (!more)
		return 0;
	err = request_extend_keys(seq, nr);
	if (!err)
		err = kvmm_prefix_register(seq->pool, &prefix, room->muts, room->refs + from);
	if (err) {
		seq->nr_keys = nr_keys;		/* other tokens may come next time */
		return err;
	}
	seq->nr_refs = nr;
	seq->nr_muts -= more;
	memmove(room->muts, room->muts + more, seq->nr_muts * sizeof(*room->muts));
	return more;
}

/* ---- cached prefixes ---- */

/* The last token's answer is wanted, so it is never a hit. */
static u32 most_hits(const struct kvmm_seq *seq)
{
	return (seq->nr_tokens - 1) / seq->block_tokens;
}

static int begin_match(struct kvmm_seq *seq)
{
	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	if (seq_nr_blocks(seq))
		return request_refuse(seq, KVMM_SEQ_HOLDS_BLOCKS);
	return request_extend_keys(seq, most_hits(seq));
}

static int take_hits(struct kvmm_seq *seq, u32 nr)
{
	seq->nr_refs = nr;
	seq->nr_hits = nr;
	if (seq->nr_first_hits == KV_NONE)
		seq->nr_first_hits = nr;
	seq->nr_computed = nr * seq->block_tokens;
	return nr;
}

static int take_cached(struct kvmm_seq *seq)
{
	struct kvmm_prefix prefix;
	int nr;

	prefix = (struct kvmm_prefix){ .keys = seq->room.keys, .nr = most_hits(seq),
				       .domain = seq->domain };
	nr = kv_match_uncounted(seq->pool, &prefix, seq->room.refs);
	if (nr < 0)
		return nr;
	seq->is_counted = false;
	return take_hits(seq, nr);
}

/* The resource that was missing, as near as can be said: others may come and go. */
static int refuse_acquire(struct kvmm_seq *seq, int err, const struct kvmm_acquire *req)
{
	struct kvmm_prefix prefix = { .keys = req->keys, .nr = req->nr_keys,
				      .domain = seq->domain };
	int nr = kvmm_prefix_len(seq->pool, &prefix);

	return refuse_blocks(seq, err, req->nr_blocks - max(nr, 0));
}

static int take_whole(struct kvmm_seq *seq)
{
	struct kvmm_acquire req = { 0 };
	int err;

	req.keys = seq->room.keys;
	req.nr_keys = req.max_hits = most_hits(seq);
	req.nr_blocks = seq_blocks_of(seq, seq->nr_tokens);
	req.hits = seq->room.refs;
	req.fresh = seq->room.muts;
	req.domain = seq->domain;
	err = kvmm_acquire(seq->pool, &req);
	if (err)
		return refuse_acquire(seq, err, &req);
	seq->nr_muts = req.nr_fresh;
	seq->is_counted = true;
	return take_hits(seq, req.nr_hits);
}

int kvmm_seq_take(struct kvmm_seq *seq, int whole)
{
	int err = begin_match(seq);

	if (err)
		return err;
	return whole ? take_whole(seq) : take_cached(seq);
}

/* ---- giving back ---- */

int kvmm_seq_release(struct kvmm_seq *seq)
{
	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	seq->nr_computed = 0;
	seq->is_prefilled = false;
	seq->is_counted = true;		/* a match that was given back was no admission */
	return request_keep_blocks(seq, 0);
}

int kvmm_seq_drop_unassigned(struct kvmm_seq *seq, uint32_t nr)
{
	u32 used;
	int err;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	used = seq_blocks_of(seq, seq->nr_computed);
	nr = min(nr, seq_nr_blocks(seq) - used);
	nr = min(nr, (u32)INT_MAX);
	err = request_keep_blocks(seq, seq_nr_blocks(seq) - nr);
	return err ? err : (int)nr;
}

/* Tokens left to compute are never in a published block: no thread may write there. */
int kvmm_seq_truncate(struct kvmm_seq *seq, uint32_t nr)
{
	u32 keep, block;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || !nr || nr > seq->nr_tokens)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	if (nr == seq->nr_tokens)
		return 0;
	keep = min(seq->nr_computed, nr - 1);
	block = keep / seq->block_tokens;
	if (block < seq->nr_refs)
		keep = block * seq->block_tokens;
	seq->nr_tokens = nr;
	seq->nr_prompt = min(seq->nr_prompt, nr);
	seq->nr_keys = min(seq->nr_keys, nr / seq->block_tokens);
	seq->nr_computed = keep;
	seq->is_prefilled = false;
	return request_keep_blocks(seq, seq_blocks_of(seq, keep));
}

/* ---- the table ---- */

int kvmm_seq_block_table(struct kvmm_seq *seq, uint32_t *ids, uint32_t max)
{
	u32 refs, muts;
	int err;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || (!ids && max))
		return -EINVAL;
	refs = min(seq->nr_refs, max);
	muts = min(seq->nr_muts, max - refs);
	err = refs ? kvmm_blocks_of_refs(seq->pool, seq->room.refs, refs, ids) : 0;
	if (!err && muts)
		err = kvmm_blocks_of_muts(seq->pool, seq->room.muts, muts, ids + refs);
	return err ? err : (int)seq_nr_blocks(seq);
}
