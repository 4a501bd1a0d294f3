// SPDX-License-Identifier: Apache-2.0
/* Requests and their blocks: what an engine asks of kvmm. */
#include <string.h>

#include "engine.h"

uint64_t toy_mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

void request_make(struct request *request, uint32_t number)
{
	uint64_t chance = toy_mix(number + 1000);

	memset(request, 0, sizeof(*request));
	request->is_paged = number / NR_LANES % 2;
	request->nr_prompt = request->nr_tokens = NR_SYSTEM + 4 + chance % 20;
	request->nr_wanted = request->nr_prompt + 8 + chance / 32 % 60;
	for (uint32_t i = 0; i < request->nr_prompt; i++)
		request->tokens[i] = i < NR_SYSTEM ? i :
				     toy_mix(number * 1000 + i) % TOY_VOCABULARY;
}

/* Not 0, which is nobody's. */
static uint64_t number_of(const struct engine *engine, const struct request *request)
{
	return request - engine->request + 1;
}

static int chain(const struct engine *engine, const struct request *request, uint32_t nr_tokens,
		 kvmm_key_t *keys)
{
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;

	seq.tokens = request->tokens;
	seq.nr_tokens = nr_tokens;
	return kvmm_key_chain(engine->keys, &seq, keys, MAX_BLOCKS);
}

/* What a pool does not see of a request: for who makes traces. Nothing depends on it. */
static void note(struct engine *engine, const struct request *request, int is_end)
{
	kvmm_key_t keys[MAX_BLOCKS];
	struct kvmm_request_note note = {
		.size = sizeof(note), .request = number_of(engine, request), .time_us = KVMM_NOTE_NOW,
		.input = request->nr_prompt, .output = request->nr_wanted - request->nr_prompt,
		.is_end = is_end, .keys = keys,
	};
	int nr_keys = is_end ? 0 : chain(engine, request, request->nr_prompt, keys);

	note.nr_keys = nr_keys < 0 ? 0 : nr_keys;
	note.hits = is_end ? request->nr_hits : 0;
	kvmm_note_request(engine->pool, &note);
}

/* The same as below, with tiers below the pool. */
static int open_from_tiers(struct engine *engine, struct request *request, const kvmm_key_t *keys,
			   uint32_t nr_keys)
{
	int nr = tier_fetch(engine, keys, nr_keys, request->ref), err;

	if (nr < 0)
		return nr;
	request->nr_muts = nr_blocks_of(request->nr_prompt) - nr;
	err = kvmm_alloc(engine->pool, request->nr_muts, request->mut);
	if (err) {
		kvmm_put_many(engine->pool, request->ref, nr);
		return err;
	}
	request->nr_refs = request->nr_hits = nr;
	request->nr_written = nr * TOY_BLOCK_TOKENS;
	return 0;
}

/* Reuse what is cached of the prompt; the last token is always computed. */
static int open_pages(struct engine *engine, struct request *request)
{
	kvmm_key_t keys[MAX_BLOCKS];
	int nr_keys = chain(engine, request, request->nr_prompt - 1, keys);
	struct kvmm_acquire acquire = {
		.keys = keys, .nr_keys = nr_keys, .max_hits = nr_keys,
		.nr_blocks = nr_blocks_of(request->nr_prompt), .hits = request->ref,
		.fresh = request->mut,
	};
	int err;

	if (nr_keys >= 0 && engine->tier)
		return open_from_tiers(engine, request, keys, nr_keys);
	err = nr_keys < 0 ? nr_keys : kvmm_acquire(engine->pool, &acquire);
	if (err)
		return err;
	request->nr_refs = request->nr_hits = acquire.nr_hits;
	request->nr_muts = acquire.nr_fresh;
	request->nr_written = acquire.nr_hits * TOY_BLOCK_TOKENS;
	return 0;
}

static int open_range(struct engine *engine, struct request *request)
{
	struct kvmm_range_attr attr = {
		.size = sizeof(attr), .nr = nr_blocks_of(request->nr_prompt), .max_runs = 4,
		.flags = KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_GROWS,
		/* For who looks: which request, and whose. */
		.seq = number_of(engine, request), .owner = 1 + (number_of(engine, request) - 1) % NR_LANES,
	};

	request->nr_range = attr.nr;
	return kvmm_range_alloc_attr(engine->pool, &attr, &request->range);
}

/* All or nothing, like everything that kvmm does. */
int request_open(struct engine *engine, struct request *request)
{
	int err = request->is_paged ? open_pages(engine, request) : open_range(engine, request);

	request->is_live = !err;
	if (!err && !request->is_noted)
		note(engine, request, 0);
	request->is_noted |= !err;
	return err;
}

static void request_close(struct engine *engine, struct request *request)
{
	if (request->is_paged) {
		kvmm_free(engine->pool, request->mut, request->nr_muts);
		kvmm_put_many(engine->pool, request->ref, request->nr_refs);
	} else {
		kvmm_range_free(engine->pool, request->range);
	}
	request->is_live = 0;
}

void request_finish(struct engine *engine, struct request *request)
{
	request_close(engine, request);
	note(engine, request, 1);
}

void request_restart(struct engine *engine, struct request *request)
{
	int is_noted = request->is_noted;

	request_close(engine, request);
	request_make(request, (request - engine->request) % engine->opt->nr_prompts);
	request->is_noted = is_noted;
}

/* Room for one token more. -ENOSPC: not now. */
int request_grow(struct engine *engine, struct request *request)
{
	uint32_t nr = nr_blocks_of(request->nr_tokens + 1);
	int err = 0;

	if (request->is_paged && nr > request->nr_refs + request->nr_muts) {
		err = kvmm_alloc(engine->pool, 1, &request->mut[request->nr_muts]);
		request->nr_muts += !err;
	} else if (!request->is_paged && nr > request->nr_range) {
		err = kvmm_range_grow(engine->pool, request->range, 1);
		request->nr_range += !err;
	}
	return err;
}

int request_extents(struct engine *engine, const struct request *request, uint32_t *words)
{
	struct kvmm_extent ext[MAX_BLOCKS];
	int nr = kvmm_range_extents(engine->pool, request->range, ext, MAX_BLOCKS);

	for (int i = 0; i < nr; i++) {
		words[2 * i] = ext[i].start;
		words[2 * i + 1] = ext[i].nr;
	}
	return nr < 0 ? nr : 2 * nr;
}

int request_blocks(struct engine *engine, const struct request *request, uint32_t *words)
{
	struct kvmm_extent ext[MAX_BLOCKS];
	int nr, err, n = 0;

	if (request->is_paged) {
		err = kvmm_blocks_of_refs(engine->pool, request->ref, request->nr_refs, words);
		if (!err)
			err = kvmm_blocks_of_muts(engine->pool, request->mut, request->nr_muts,
						  words + request->nr_refs);
		return err ? err : (int)(request->nr_refs + request->nr_muts);
	}
	nr = kvmm_range_extents(engine->pool, request->range, ext, MAX_BLOCKS);
	for (int i = 0; i < nr; i++)
		for (uint32_t b = 0; b < ext[i].nr; b++)
			words[n++] = ext[i].start + b;
	return nr < 0 ? nr : n;
}

static int publish_pages(struct engine *engine, struct request *request, uint32_t nr)
{
	kvmm_key_t keys[MAX_BLOCKS];
	struct kvmm_prefix prefix = {
		.keys = keys + request->nr_refs, .nr = nr, .position = request->nr_refs,
		.parent = request->nr_refs ? &keys[request->nr_refs - 1] : NULL,
	};
	int err = chain(engine, request, (request->nr_refs + nr) * TOY_BLOCK_TOKENS, keys);

	if (err < 0)
		return err;
	err = kvmm_prefix_register(engine->pool, &prefix, request->mut,
				   request->ref + request->nr_refs);
	if (err)
		return err;
	request->nr_refs += nr;
	request->nr_muts -= nr;
	memmove(request->mut, request->mut + nr, request->nr_muts * sizeof(request->mut[0]));
	return 0;
}

/*
 * Full blocks are not written any more: others may hit them, and all of them may move. Their last
 * write has ended, since the host has read what the step said: so a hit on another stream finds it.
 */
int request_publish(struct engine *engine, struct request *request)
{
	uint32_t nr_full = request->nr_written / TOY_BLOCK_TOKENS;

	if (!request->is_paged)
		return kvmm_range_seal(engine->pool, request->range, nr_full);
	if (nr_full == request->nr_refs)
		return 0;
	return publish_pages(engine, request, nr_full - request->nr_refs);
}
