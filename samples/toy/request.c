// SPDX-License-Identifier: Apache-2.0
/* Requests and their blocks: what an engine asks of kvmm. */
#include <string.h>

#include "engine.h"

#define PATIENCE_NS	1000000000ull	/* with tiers: for what is there, and for blocks */

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

/*
 * What a pool does not see of a request in runs, for who makes traces; a sequence tells of itself.
 * Nothing depends on it.
 */
static void note(struct engine *engine, const struct request *request, int is_end)
{
	kvmm_key_t keys[MAX_BLOCKS];
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	struct kvmm_request_note note = {
		.size = sizeof(note), .request = number_of(engine, request), .time_us = KVMM_NOTE_NOW,
		.input = request->nr_prompt, .output = request->nr_wanted - request->nr_prompt,
		.is_end = is_end, .keys = keys,
	};
	int nr_keys;

	seq.tokens = request->tokens;
	seq.nr_tokens = request->nr_prompt;
	nr_keys = is_end ? 0 : kvmm_key_chain(engine->keys, &seq, keys, MAX_BLOCKS);
	note.nr_keys = nr_keys < 0 ? 0 : nr_keys;
	kvmm_note_request(engine->pool, &note);
}

static int make_seq(struct engine *engine, struct request *request)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;

	attr.keys = engine->keys;
	attr.prompt = request->tokens;
	attr.nr_prompt = request->nr_prompt;
	attr.max_output = request->nr_wanted - request->nr_prompt;
	attr.request = number_of(engine, request);
	attr.wait_ns = engine->tier ? PATIENCE_NS : 0;
	return kvmm_seq_create(engine->pool, &attr, &request->seq);
}

/* Reuse what is cached of the prompt. -EINPROGRESS: it is being loaded; ask again the next turn. */
static int open_pages(struct engine *engine, struct request *request)
{
	int err = request->seq ? 0 : make_seq(engine, request), nr;

	if (err)
		return err;
	nr = kvmm_seq_acquire(request->seq);
	if (nr < 0)
		return nr;
	request->nr_written = nr * TOY_BLOCK_TOKENS;
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
	if (!err && !request->is_paged && !request->is_noted) {
		note(engine, request, 0);
		request->is_noted = 1;
	}
	return err;
}

void request_finish(struct engine *engine, struct request *request)
{
	request->is_live = 0;
	if (request->is_paged) {
		kvmm_seq_destroy(request->seq);
		request->seq = NULL;
	} else {
		kvmm_range_free(engine->pool, request->range);
		note(engine, request, 1);
	}
}

void request_restart(struct engine *engine, struct request *request)
{
	if (request->is_paged) {
		kvmm_seq_release(request->seq);
		kvmm_seq_truncate(request->seq, request->nr_prompt);
	} else {
		kvmm_range_free(engine->pool, request->range);
	}
	request->nr_tokens = request->nr_prompt;
	request->nr_written = request->nr_table = 0;
	request->is_live = 0;
}

/* Room for the tokens of the next step. -ENOSPC: not now. */
int request_grow(struct engine *engine, struct request *request)
{
	struct kvmm_seq_info info;
	int err = 0;

	if (request->is_paged) {
		err = kvmm_seq_get_info(request->seq, &info);
		if (err)
			return err;
		return info.nr_waiting ? kvmm_seq_schedule_prefill(request->seq, info.nr_waiting) :
		       kvmm_seq_schedule_decode(request->seq);
	}
	if (nr_blocks_of(request->nr_tokens + 1) > request->nr_range) {
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
	int nr, n = 0;

	if (request->is_paged)
		return kvmm_seq_block_table(request->seq, words, MAX_BLOCKS);
	nr = kvmm_range_extents(engine->pool, request->range, ext, MAX_BLOCKS);
	for (int i = 0; i < nr; i++)
		for (uint32_t b = 0; b < ext[i].nr; b++)
			words[n++] = ext[i].start + b;
	return nr < 0 ? nr : n;
}

/*
 * Full blocks are not written any more: others may hit them, and all of them may move. Their last
 * write has ended, since the host has read what the step said: so a hit on another stream finds it.
 */
int request_end_step(struct engine *engine, struct request *request)
{
	int ret;

	if (request->is_paged)
		ret = kvmm_seq_apply(request->seq, &request->tokens[request->nr_tokens - 1], 1);
	else
		ret = kvmm_range_seal(engine->pool, request->range,
				      request->nr_written / TOY_BLOCK_TOKENS);
	return ret < 0 ? ret : 0;
}
