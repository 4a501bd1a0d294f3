// SPDX-License-Identifier: Apache-2.0
/* Sequences: their birth and death, their tokens, their refusals. */
#include <limits.h>
#include <string.h>

#include <kv/feed.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kvmm/event.h>
#include <kvmm/ext/control.h>

#include "internal.h"

/* ---- refusals ---- */

static const int errnos[KVMM_NR_SEQ_ERRORS] = {
	[KVMM_SEQ_NOT_IDLE]	      = -EBUSY,	    [KVMM_SEQ_NOT_SCHEDULED]   = -EPERM,
	[KVMM_SEQ_HOLDS_BLOCKS]	      = -EEXIST,    [KVMM_SEQ_NO_BLOCKS]       = -ENOSPC,
	[KVMM_SEQ_PREFILL_OVERRUN]    = -ERANGE,    [KVMM_SEQ_PREFILL_COMPLETE] = -EALREADY,
	[KVMM_SEQ_PREFILL_INCOMPLETE] = -EAGAIN,    [KVMM_SEQ_EARLY_TOKEN]     = -EPROTO,
	[KVMM_SEQ_MISSING_TOKEN]      = -ENODATA,   [KVMM_SEQ_TOO_MANY_TOKENS] = -E2BIG,
	[KVMM_SEQ_COMPLETE]	      = -EOVERFLOW, [KVMM_SEQ_NO_DRAFT]	       = -ENOMSG,
	[KVMM_SEQ_OTHER_DRAFT]	      = -EILSEQ,    [KVMM_SEQ_NO_QUOTA]	       = -EDQUOT,
};

int kv_seq_errno(enum kvmm_seq_error why)
{
	return (unsigned int)why < KVMM_NR_SEQ_ERRORS ? errnos[why] : 0;
}

/* ---- birth and death ---- */

/* As its chain goes on: from keys, or from digests. */
static int check_prompt_keys(const struct kvmm_seq_attr *attr, u32 block_tokens)
{
	bool whole = kv_key_has_digests(attr->keys);
	const void *keys = attr->prompt_keys, *digests = attr->prompt_digests;

	if ((whole ? keys : digests) || (attr->nr_prompt_keys && !(whole ? digests : keys)))
		return -EINVAL;
	return attr->nr_prompt_keys <= attr->nr_prompt / block_tokens ? 0 : -EINVAL;
}

static int check_attr(struct kvmm_pool *pool, const struct kvmm_seq_attr *attr)
{
	if (!attr->keys || !attr->prompt || !attr->nr_prompt || attr->nr_prompt > INT_MAX ||
	    attr->max_output > INT_MAX - attr->nr_prompt)
		return -EINVAL;
	if (kv_key_block_tokens(attr->keys) != kv_pool_block_tokens(pool))
		return -EINVAL;
	return check_prompt_keys(attr, kv_pool_block_tokens(pool));
}

static int init_seq(struct kvmm_seq *seq, struct kvmm_pool *pool, const struct kvmm_seq_attr *attr)
{
	int err;

	seq->pool = pool;
	seq->ctx = attr->keys;
	seq->domain = attr->domain;
	seq->number = attr->request;
	seq->wait_ns = attr->wait_ns;
	seq->nr_first_hits = KV_NONE;
	seq->is_counted = true;
	seq->block_tokens = kv_pool_block_tokens(pool);
	seq->max_output = attr->max_output;
	seq->nr_prompt = attr->nr_prompt;
	seq->has_digests = kv_key_has_digests(attr->keys);
	err = request_copy_extras(seq, attr->extras, attr->nr_extras);
	if (!err)
		err = request_reserve(seq, seq->nr_prompt + !!seq->max_output);
	if (err)
		return err;
	memcpy(seq->room.tokens, attr->prompt, seq->nr_prompt * sizeof(*attr->prompt));
	seq->nr_tokens = seq->nr_prompt;
	request_take_keys(seq, attr);
	return 0;
}

/* The trace's part of it. Without its keys it is of no use for one. */
static void note(struct kvmm_seq *seq, bool is_end)
{
	u32 nr_output = seq->nr_tokens - min(seq->nr_tokens, seq->nr_prompt);
	struct kvmm_request_note what = {
		.size = sizeof(what), .request = seq->number, .time_us = KVMM_NOTE_NOW,
		.input = seq->nr_prompt, .output = is_end ? nr_output : seq->max_output,
		.domain = seq->domain, .is_end = is_end, .keys = seq->room.keys,
	};

	if (!seq->number || !kv_requests_are_read(seq->pool))
		return;
	if (is_end)
		what.hits = seq->nr_first_hits == KV_NONE ? 0 : seq->nr_first_hits;
	else
		what.nr_keys = seq->nr_prompt / seq->block_tokens;
	if (!request_extend_keys(seq, what.nr_keys))
		kvmm_note_request(seq->pool, &what);
}

int kvmm_seq_create(struct kvmm_pool *pool, const struct kvmm_seq_attr *attr,
		    struct kvmm_seq **result)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct kvmm_seq_attr full;
	struct kvmm_seq *seq;
	int err;

	if (!pool || !attr || !result || kv_copy_attr(&full, sizeof(full), attr))
		return -EINVAL;
	ctl.deadline_ns = full.wait_ns;
	err = kvmm_alloc_as(pool, &ctl, NULL);	/* a pool that caches, and may wait? */
	if (!err)
		err = check_attr(pool, &full);
	if (err)
		return err;
	seq = kv_alloc(sizeof(*seq));
	if (!seq)
		return -ENOMEM;
	err = init_seq(seq, pool, &full);
	if (err) {
		request_free_room(seq);
		kv_free(seq);
		return err;
	}
	note(seq, false);
	*result = seq;
	return 0;
}

void kvmm_seq_destroy(struct kvmm_seq *seq)
{
	if (!seq || kv_inherited(seq))
		return;
	note(seq, true);
	request_stop_taking(seq);
	request_leave_shared(seq);
	request_keep_blocks(seq, 0);
	request_free_room(seq);
	kv_free(seq);
}

int kvmm_seq_adopt(struct kvmm_seq *seq, struct kvmm_seq *other)
{
	struct kvmm_seq old;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || !other || seq == other || seq->pool != other->pool)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE || other->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	note(other, true);
	kv_assert(!seq->shared.gen && !other->shared.gen);
	old = *seq;
	*seq = *other;
	seq->number = old.number;
	seq->nr_first_hits = old.nr_first_hits;
	*other = old;
	other->number = 0;
	kvmm_seq_destroy(other);
	return 0;
}

/* ---- tokens ---- */

int kvmm_seq_tokens(const struct kvmm_seq *seq, uint32_t from, uint32_t *tokens, uint32_t max)
{
	u32 nr;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || from > seq->nr_tokens || (!tokens && max))
		return -EINVAL;
	nr = seq->nr_tokens - from;
	if (max)
		memcpy(tokens, seq->room.tokens + from, min(nr, max) * sizeof(*tokens));
	return nr;
}

/* ---- looking ---- */

int kvmm_seq_get_info_sized(const struct kvmm_seq *seq, struct kvmm_seq_info *info, size_t size)
{
	struct kvmm_seq_info now;
	u32 from = UINT32_MAX, to = UINT32_MAX;
	int err = 0;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || kv_size_is_bad(info, size))
		return -EINVAL;
	if (seq->shared.gen && seq->is_told) {
		err = kvmm_blocks_of_muts(seq->pool, &seq->shared, 1, &from);
		if (!err)
			err = kvmm_blocks_of_muts(seq->pool, seq->room.muts, 1, &to);
	}
	if (err)
		return err;
	now = (struct kvmm_seq_info){
		.state = seq->state,
		.why = seq->why,
		.nr_tokens = seq->nr_tokens,
		.nr_prompt = seq->nr_prompt,
		.nr_computed = seq->nr_computed,
		.nr_remaining = seq_nr_remaining(seq),
		.nr_waiting = seq->is_prefilled ? 0 : seq->nr_tokens - seq->nr_computed,
		.nr_scheduled = seq->nr_scheduled,
		.nr_blocks = seq_nr_blocks(seq),
		.nr_published = seq->nr_refs,
		.nr_hits = seq->nr_hits,
		.nr_missing = seq->nr_missing,
		.copy_from = from,
		.copy_to = to,
	};
	kv_give(info, size, &now, sizeof(now));
	return 0;
}

int kvmm_seq_refs(const struct kvmm_seq *seq, kvmm_ref_t *refs, kvmm_key_t *keys, uint32_t max)
{
	u32 nr;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || (!refs && !keys && max))
		return -EINVAL;
	nr = min(seq->nr_refs, max);
	if (nr && refs)
		memcpy(refs, seq->room.refs, nr * sizeof(*refs));
	if (nr && keys)
		memcpy(keys, seq->room.keys, nr * sizeof(*keys));
	return seq->nr_refs;
}
