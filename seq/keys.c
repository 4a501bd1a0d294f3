// SPDX-License-Identifier: Apache-2.0
/*
 * All that grows with the tokens of a sequence: their memory, and the names of their blocks.
 *
 * Names are computed once, in order, each from the one before; cutting tokens off forgets those
 * behind. Extras are kept with starts relative to the first token that still has no name, which is
 * right for the calls that compute keys.
 */
#include <string.h>

#include <kv/err.h>
#include <kv/mem.h>

#include "internal.h"

/* ---- memory ---- */

static size_t block_bytes(const struct kvmm_seq *seq)
{
	return seq->block_tokens * sizeof(u32) + sizeof(kvmm_ref_t) + sizeof(kvmm_mut_t) +
	       sizeof(kvmm_key_t) + (seq->has_digests ? sizeof(kvmm_digest_t) : 0);
}

static_assert(_Alignof(kvmm_ref_t) == _Alignof(u32) && _Alignof(kvmm_mut_t) == _Alignof(u32),
	      "the arrays follow each other without gaps");

static int init_room(const struct kvmm_seq *seq, struct seq_room *room, u32 nr_blocks)
{
	room->nr_blocks = nr_blocks;
	room->tokens = kv_alloc_array(nr_blocks, block_bytes(seq));
	if (!room->tokens)
		return -ENOMEM;
	room->refs = (kvmm_ref_t *)(room->tokens + (size_t)nr_blocks * seq->block_tokens);
	room->muts = (kvmm_mut_t *)(room->refs + nr_blocks);
	room->keys = (kvmm_key_t *)(room->muts + nr_blocks);
	room->digests = (kvmm_digest_t *)(room->keys + nr_blocks);
	return 0;
}

static void copy_room(const struct kvmm_seq *seq, struct seq_room *to)
{
	const struct seq_room *from = &seq->room;

	memcpy(to->tokens, from->tokens, seq->nr_tokens * sizeof(*to->tokens));
	memcpy(to->refs, from->refs, seq->nr_refs * sizeof(*to->refs));
	memcpy(to->muts, from->muts, seq->nr_muts * sizeof(*to->muts));
	memcpy(to->keys, from->keys, seq->nr_keys * sizeof(*to->keys));
	if (seq->has_digests)
		memcpy(to->digests, from->digests, seq->nr_keys * sizeof(*to->digests));
}

/* Doubles, so that a token costs the same however many follow; but never beyond the last one. */
int request_reserve(struct kvmm_seq *seq, u32 nr_tokens)
{
	u32 want = seq_blocks_of(seq, nr_tokens);
	u32 most = seq_blocks_of(seq, seq->nr_prompt + seq->max_output);
	u32 twice = min(2 * seq->room.nr_blocks, most);
	struct seq_room room;

	if (want <= seq->room.nr_blocks)
		return 0;
	if (init_room(seq, &room, max(want, twice)))
		return -ENOMEM;
	if (seq->room.nr_blocks)
		copy_room(seq, &room);
	kv_free(seq->room.tokens);
	seq->room = room;
	return 0;
}

void request_free_room(struct kvmm_seq *seq)
{
	kv_free(seq->room.tokens);
	kv_free(seq->extras);
}

static bool extras_are_sound(const struct kvmm_key_extra *extras, size_t nr, size_t *bytes)
{
	*bytes = nr * sizeof(*extras);
	for (size_t i = 0; i < nr; i++) {
		if (!extras[i].data || extras[i].start < 0 ||
		    extras[i].bytes > KVMM_KEY_MAX_BYTES)
			return false;
		*bytes += extras[i].bytes;
	}
	return true;
}

/* ->nr_extras of them; they and their data are so many bytes. */
static int take_extras(struct kvmm_seq *seq, const struct kvmm_key_extra *extras, size_t bytes)
{
	size_t nr = seq->nr_extras;
	u8 *data;

	kv_assert(nr && !seq->extras);
	seq->extras = kv_alloc(bytes);
	if (!seq->extras)
		return -ENOMEM;
	memcpy(seq->extras, extras, nr * sizeof(*extras));
	data = (u8 *)(seq->extras + nr);
	for (size_t i = 0; i < nr; i++) {
		seq->extras[i].data = memcpy(data, extras[i].data, extras[i].bytes);
		data += extras[i].bytes;
	}
	return 0;
}

int request_copy_extras(struct kvmm_seq *seq, const struct kvmm_key_extra *extras, size_t nr)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	size_t bytes;

	if (!nr)
		return 0;
	what.extras = extras;
	what.nr_extras = nr;
	if (!extras || nr > UINT32_MAX || !extras_are_sound(extras, nr, &bytes) ||
	    kvmm_key_chain(seq->ctx, &what, NULL, 0))
		return -EINVAL;
	seq->nr_extras = nr;
	return take_extras(seq, extras, bytes);
}

int request_copy_room(struct kvmm_seq *seq, const struct kvmm_seq *from)
{
	size_t bytes = from->nr_extras * sizeof(*from->extras);
	int err = init_room(from, &seq->room, from->room.nr_blocks);

	kv_assert(seq->block_tokens == from->block_tokens);
	if (err)
		return err;
	copy_room(from, &seq->room);
	for (size_t i = 0; i < from->nr_extras; i++)
		bytes += from->extras[i].bytes;
	return bytes ? take_extras(seq, from->extras, bytes) : 0;
}

/* ---- names ---- */

void request_take_keys(struct kvmm_seq *seq, const struct kvmm_seq_attr *attr)
{
	size_t nr = attr->nr_prompt_keys;

	kv_assert(!seq->nr_keys && nr <= seq->nr_prompt / seq->block_tokens);
	if (nr && !seq->has_digests)
		memcpy(seq->room.keys, attr->prompt_keys, nr * sizeof(*attr->prompt_keys));
	for (size_t i = 0; i < nr && seq->has_digests; i++) {
		seq->room.digests[i] = attr->prompt_digests[i];
		seq->room.keys[i] = kvmm_key_of_digest(&attr->prompt_digests[i]);
	}
	seq->nr_keys = nr;
}

static void rebase_extras(struct kvmm_seq *seq, u32 base)
{
	for (size_t i = 0; i < seq->nr_extras; i++)
		seq->extras[i].start += (s64)seq->extras_base - base;
	seq->extras_base = base;
}

/* The first @nr digests, and the keys that are their halves. */
static int chain_digests(struct kvmm_seq *seq, struct kvmm_key_seq *what, u32 nr)
{
	struct seq_room *room = &seq->room;
	u32 from = seq->nr_keys;

	what->parent_digest = from ? &room->digests[from - 1] : NULL;
	return kvmm_key_hash(seq->ctx, what, room->keys + from, room->digests + from, nr);
}

static int chain_keys(struct kvmm_seq *seq, struct kvmm_key_seq *what, u32 nr)
{
	kvmm_key_t *to = seq->room.keys + seq->nr_keys;

	what->parent = seq->nr_keys ? to - 1 : NULL;
	return kvmm_key_chain(seq->ctx, what, to, nr);
}

int request_extend_keys(struct kvmm_seq *seq, u32 nr)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	u32 from = seq->nr_keys, more;
	int got;

	if (nr <= from)
		return 0;
	more = nr - from;
	rebase_extras(seq, from * seq->block_tokens);
	what.tokens = seq->room.tokens + (size_t)from * seq->block_tokens;
	what.nr_tokens = (size_t)more * seq->block_tokens;
	what.extras = seq->extras;
	what.nr_extras = seq->nr_extras;
	got = seq->has_digests ? chain_digests(seq, &what, more) : chain_keys(seq, &what, more);
	if (KV_BUG_ON(got != (int)more))	/* all was checked at creation */
		return -EINVAL;
	seq->nr_keys = nr;
	return 0;
}
