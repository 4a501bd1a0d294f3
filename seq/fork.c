// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences that begin as copies of others: samples, beams, branches of speculation.
 *
 * They share all blocks that hold something. Published ones are never written to again, so only the
 * last one can be in the way: it is private, has several holders, and is copied by the first step
 * that would write behind what is in it. Until that step is applied the sequence holds the original
 * as well, to have it back if the step is given up. So of holders that write in one step each makes
 * a copy; one that is left alone writes in place.
 */
#include <string.h>

#include "internal.h"

/* ---- copy on write ---- */

bool request_is_shared(const struct kvmm_seq *seq)
{
	return seq->nr_computed % seq->block_tokens &&
	       kv_mut_is_shared(seq->pool, seq->room.muts[0]);
}

int request_unshare(struct kvmm_seq *seq)
{
	kvmm_mut_t *muts = seq->room.muts, *fresh = &muts[seq->nr_muts - 1];
	int err = kvmm_copy_muts(seq->pool, muts, fresh, 1);

	kv_assert(seq->nr_muts > 1 && !seq->shared.gen);
	seq->is_told = err == -EOPNOTSUPP;	/* a pool of ids: the engine has the content */
	if (err && !seq->is_told)
		return err;
	seq->shared = muts[0];
	muts[0] = *fresh;
	seq->nr_muts--;
	return 0;
}

int request_reshare(struct kvmm_seq *seq)
{
	kvmm_mut_t copy = seq->room.muts[0];

	kv_assert(seq->state == KVMM_SEQ_IDLE);
	if (!seq->shared.gen)
		return 0;
	kv_assert(seq->nr_muts);
	seq->room.muts[0] = seq->shared;
	seq->shared.gen = 0;
	return kvmm_free(seq->pool, &copy, 1);
}

int request_leave_shared(struct kvmm_seq *seq)
{
	kvmm_mut_t block = seq->shared;

	seq->shared.gen = 0;
	return block.gen ? kvmm_free(seq->pool, &block, 1) : 0;
}

/* ---- fork ---- */

/* The same tokens, and no blocks yet. */
static int clone(const struct kvmm_seq *seq, struct kvmm_seq **result)
{
	struct kvmm_seq *child = kv_alloc(sizeof(*child));
	int err;

	if (!child)
		return -ENOMEM;
	kv_assert(!seq->op.gen && !seq->ticket.id && !seq->shared.gen);
	*child = *seq;
	child->number = 0;
	child->is_counted = true;
	child->why = KVMM_SEQ_OK;
	child->nr_refs = child->nr_muts = child->nr_missing = 0;
	child->room.tokens = NULL;
	child->extras = NULL;
	err = request_copy_room(child, seq);
	if (err) {
		request_free_room(child);
		kv_free(child);
		return err;
	}
	*result = child;
	return 0;
}

/* Blocks that hold something; those that its parent has taken for tokens to come are its own. */
static int hold(struct kvmm_seq *child, const struct kvmm_seq *seq)
{
	u32 nr_muts = !!(seq->nr_computed % seq->block_tokens);
	int err = 0;

	kv_assert(seq->nr_muts >= nr_muts);
	kv_assert(!child->nr_refs && !child->nr_muts);
	if (seq->nr_refs)
		err = kvmm_get_many(seq->pool, child->room.refs, seq->nr_refs);
	if (err)
		return err;
	child->nr_refs = seq->nr_refs;
	if (nr_muts)
		err = kvmm_get_muts(seq->pool, child->room.muts, nr_muts);
	if (!err)
		child->nr_muts = nr_muts;
	return err;
}

static void destroy_all(struct kvmm_seq *first)
{
	for (struct kvmm_seq *next; first; first = next) {
		next = first->next;
		kvmm_seq_destroy(first);
	}
}

int kvmm_seq_fork(struct kvmm_seq *seq, uint32_t nr, struct kvmm_seq **children)
{
	struct kvmm_seq *first = NULL, *child;
	int err = 0;

	if (kv_inherited(seq))
		return -ECHILD;
	if (!seq || !nr || !children)
		return -EINVAL;
	if (seq->state != KVMM_SEQ_IDLE)
		return request_refuse(seq, KVMM_SEQ_NOT_IDLE);
	for (u32 i = 0; i < nr && !err; i++) {
		err = clone(seq, &child);
		if (err)
			break;
		child->next = first;
		first = child;
		err = hold(child, seq);
	}
	if (err) {
		destroy_all(first);
		return err;
	}
	for (u32 i = 0; i < nr; i++, first = first->next)
		children[i] = first;
	kv_assert(!first);
	return 0;
}
