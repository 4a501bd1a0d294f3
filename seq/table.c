// SPDX-License-Identifier: Apache-2.0
/*
 * The block table of a sequence: filled, emptied, asked.
 *
 * Blocks leave it from its end only, so that of a prompt that is given back the tail is the first
 * to be evicted. The pool refuses handles of ours only if it has found that it contradicts itself;
 * such an error is passed on, with the table as far as it got.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/tier.h>
#include <kvmm/ext/disk.h>

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

/* @nr blocks from block @from on, by the names of their tokens. */
static struct kvmm_prefix prefix_from(const struct kvmm_seq *seq, u32 from, u32 nr)
{
	const kvmm_key_t *keys = seq->room.keys;

	return (struct kvmm_prefix){ .keys = keys + from, .nr = nr, .position = from,
				     .parent = from ? &keys[from - 1] : NULL,
				     .domain = seq->domain };
}

int request_publish(struct kvmm_seq *seq, u32 nr)
{
	struct seq_room *room = &seq->room;
	u32 from = seq->nr_refs, nr_keys = seq->nr_keys, more = nr - from;
	struct kvmm_prefix prefix = prefix_from(seq, from, more);
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

static int begin_take(struct kvmm_seq *seq)
{
	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	if (seq->state == KVMM_SEQ_TAKING)
		return 0;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	if (seq_nr_blocks(seq))
		return request_refuse(seq, KVMM_SEQ_HOLDS_BLOCKS);
	seq->deadline_ns = 0;
	if (seq->wait_ns)
		seq->deadline_ns = kv_ns_after(kv_pool_clock_ns(seq->pool), seq->wait_ns);
	return request_extend_keys(seq, most_hits(seq));
}

/* The next @nr blocks are in the device. */
static void add_hits(struct kvmm_seq *seq, u32 nr)
{
	seq->nr_refs += nr;
	seq->nr_hits = seq->nr_refs;
	seq->nr_computed = seq->nr_refs * seq->block_tokens;
}

/* The resource that was missing, as near as can be said: others may come and go. */
static int refuse_acquire(struct kvmm_seq *seq, int err, const struct kvmm_acquire_args *req)
{
	struct kvmm_prefix prefix = prefix_from(seq, 0, req->nr_keys);
	int nr = kvmm_prefix_len(seq->pool, &prefix);

	return refuse_blocks(seq, err, req->nr_blocks - max(nr, 0));
}

static int take_whole(struct kvmm_seq *seq)
{
	struct kvmm_acquire_args req = { 0 };
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
	add_hits(seq, req.nr_hits);
	return 0;
}

/* ---- the same, step by step: hits of the device, hits below it, then blocks for the rest ---- */

/* Up to @nr blocks behind the hits: -EINPROGRESS, or 0: the engine computes them. */
static int begin_load(struct kvmm_seq *seq, u32 nr)
{
	struct kvmm_prefix prefix = prefix_from(seq, seq->nr_refs, nr);
	struct kvmm_tier_load_args load = { .size = sizeof(load), .prefix = &prefix };
	kvmm_tier_op_t op;
	int err;

	kv_assert(!seq->op.gen);
	while ((err = kv_tier_load(seq->pool, &load, seq->ticket.id, &op)) == -E2BIG &&
	       prefix.nr > 1)
		prefix.nr /= 2;		/* the next load brings more */
	if (!err) {
		seq->op = op;
		seq->nr_loading = prefix.nr;
	}
	/* -EAGAIN: other loads have to end first. */
	return !err || err == -EAGAIN ? -EINPROGRESS : 0;
}

static int look_up(struct kvmm_seq *seq)
{
	struct kvmm_prefix prefix = prefix_from(seq, seq->nr_refs, most_hits(seq) - seq->nr_refs);
	bool is_first = seq->state == KVMM_SEQ_IDLE;
	struct kvmm_tier_match_args match = {
		.size = sizeof(match), .prefix = &prefix, .refs = seq->room.refs + seq->nr_refs,
		.flags = !seq->wait_ns ? KVMM_TIER_HERE :
			 is_first ? KVMM_TIER_ACQUIRED : KVMM_TIER_AGAIN,
	};
	int err = kvmm_tier_match(seq->pool, &match);

	if (err < 0)
		return err;
	if (is_first) {
		seq->nr_loading = 0;
		seq->is_counted = false;
	}
	/* What was loaded and given back again is no hit of the device. */
	if (is_first || (seq->ticket.id && !seq->nr_refs && !seq->nr_loading))
		seq->nr_found = match.nr_device;
	add_hits(seq, match.nr_device);
	if (kv_pool_clock_ns(seq->pool) >= seq->deadline_ns)
		return 0;
	if (match.nr_lower)
		return begin_load(seq, match.nr_lower);
	if (match.stop != KVMM_TIER_RETRY)
		return 0;
	kvmm_tier_poll(seq->pool);	/* a tier that cannot tell yet may ask elsewhere */
	return -EINPROGRESS;
}

/* 0; -EINPROGRESS; else it has failed, or takes too long: what it was to bring is computed. */
static int end_load(struct kvmm_seq *seq)
{
	struct kvmm_tier_result result = {
		.size = sizeof(result), .refs = seq->room.refs + seq->nr_refs,
		.nr = seq->nr_loading,
	};
	int err;

	kv_assert(seq->state == KVMM_SEQ_TAKING);
	kvmm_tier_poll(seq->pool);
	err = kvmm_tier_get_result(seq->pool, seq->op, &result);
	if (err == -EAGAIN && kv_pool_clock_ns(seq->pool) < seq->deadline_ns)
		return -EINPROGRESS;
	if (err == -EAGAIN)
		kvmm_tier_abort(seq->pool, seq->op);
	else if (!err)
		add_hits(seq, seq->nr_loading);
	seq->op.gen = 0;
	return err;
}

static int take_hits(struct kvmm_seq *seq)
{
	int err = seq->op.gen ? end_load(seq) : 0;

	/* A load of another sequence, which this one shared, found no room; this one's is tried. */
	if (err && !(err == -ENOSPC && seq->ticket.id))
		return err == -EINPROGRESS ? err : 0;
	return look_up(seq);
}

static u32 nr_rest(const struct kvmm_seq *seq)
{
	return seq_blocks_of(seq, seq->nr_tokens) - seq->nr_refs;
}

/* The wait for blocks has ended with @err. */
static int end_wait(struct kvmm_seq *seq, int err)
{
	seq->ticket.id = 0;
	return refuse_blocks(seq, err == -ETIMEDOUT ? -ENOSPC : err, nr_rest(seq));
}

/*
 * 0: it is the first of the queue, and blocks have come since it tried. Those behind keep no blocks
 * meanwhile, which the first may lack; they stay cached, and are looked for again at their turn.
 */
static int take_turn(struct kvmm_seq *seq)
{
	int err = kv_alloc_poll(seq->pool, seq->ticket, 0);

	if (err >= 0)
		return err ? 0 : -EINPROGRESS;
	if (err != -EINPROGRESS)
		return end_wait(seq, err);
	seq->nr_computed = 0;
	return request_keep_blocks(seq, 0) ?: err;
}

static int take_rest(struct kvmm_seq *seq)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	bool is_queued = seq->ticket.id;
	int err;

	kv_assert(!seq->op.gen && !seq->nr_muts);
	ctl.nr = nr_rest(seq);
	ctl.tenant = seq->domain.tenant;
	ctl.deadline_ns = seq->deadline_ns;
	err = is_queued ? kv_alloc_poll(seq->pool, seq->ticket, ctl.nr) :
	      kvmm_alloc_submit(seq->pool, &ctl, seq->room.muts, &seq->ticket);
	if (err == -EINPROGRESS)
		return is_queued ? err : take_turn(seq) ?: err;
	if (err)
		return end_wait(seq, err);
	seq->ticket.id = 0;
	seq->nr_muts = ctl.nr;
	return 0;
}

static int take_by_steps(struct kvmm_seq *seq, bool whole)
{
	int err = 0;

	if (seq->ticket.id && !whole) {
		kv_alloc_withdraw(seq->pool, seq->ticket);
		seq->ticket.id = 0;
	}
	if (seq->ticket.id && !seq->op.gen)
		err = take_turn(seq);
	if (!err)
		err = take_hits(seq);
	return err || !whole ? err : take_rest(seq);
}

void request_stop_taking(struct kvmm_seq *seq)
{
	if (seq->op.gen)
		kvmm_tier_abort(seq->pool, seq->op);
	if (seq->ticket.id)
		kv_alloc_withdraw(seq->pool, seq->ticket);
	seq->op.gen = 0;
	seq->ticket.id = 0;
	if (seq->state == KVMM_SEQ_TAKING)
		seq->state = KVMM_SEQ_IDLE;
}

int kvmm_seq_take(struct kvmm_seq *seq, int whole)
{
	int err = begin_take(seq);

	if (err)
		return err;
	err = whole && !seq->wait_ns ? take_whole(seq) : take_by_steps(seq, whole);
	if (err == -EINPROGRESS) {
		seq->state = KVMM_SEQ_TAKING;
		return err;
	}
	request_stop_taking(seq);
	if (err) {
		seq->nr_computed = 0;
		seq->is_counted = true;
		request_keep_blocks(seq, 0);
		return err;
	}
	if (seq->nr_first_hits == KV_NONE)
		seq->nr_first_hits = seq->nr_hits;
	return seq->nr_hits;
}

/* ---- giving back ---- */

int kvmm_seq_release(struct kvmm_seq *seq)
{
	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq)
		return -EINVAL;
	if (seq->nr_scheduled)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	request_stop_taking(seq);
	seq->nr_computed = 0;
	seq->is_prefilled = false;
	seq->is_counted = true;		/* a match that was given back was no admission */
	return request_keep_blocks(seq, 0);
}

/* Tokens left to compute are never in a published block: no thread may write there. */
static int forget_tokens(struct kvmm_seq *seq, u32 nr)
{
	u32 keep = min(seq->nr_computed, nr - 1), block = keep / seq->block_tokens;

	kv_assert(nr && nr < seq->nr_tokens);
	if (block < seq->nr_refs)
		keep = block * seq->block_tokens;
	seq->nr_tokens = nr;
	seq->nr_prompt = min(seq->nr_prompt, nr);
	seq->nr_keys = min(seq->nr_keys, nr / seq->block_tokens);
	seq->nr_computed = keep;
	seq->is_prefilled = false;
	return request_keep_blocks(seq, seq_blocks_of(seq, keep));
}

int kvmm_seq_set_tokens(struct kvmm_seq *seq, uint32_t at, const uint32_t *tokens, uint32_t nr)
{
	bool appends = at == KVMM_TOKENS_END;
	int err;

	if (kv_inherited(seq))
		return -ECHILD;
	if (seq && appends)
		at = seq->nr_tokens;
	if (!seq || !at || at > seq->nr_tokens || (!tokens && nr))
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	if (nr > min(seq->nr_prompt, at) + seq->max_output - at)
		return request_refuse(seq, KVMM_SEQ_COMPLETE);
	err = request_reserve(seq, at + nr);
	if (!err && at < seq->nr_tokens)
		err = forget_tokens(seq, at);
	else if (!err && !nr && !appends)	/* blocks taken for tokens to come go back */
		err = request_keep_blocks(seq, seq_blocks_of(seq, seq->nr_computed));
	if (err || !nr)
		return err;
	memcpy(seq->room.tokens + at, tokens, nr * sizeof(*tokens));
	seq->nr_tokens += nr;
	seq->is_prefilled = false;
	return 0;
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
