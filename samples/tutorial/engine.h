/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of steps 5 to 10: requests with prompts, and a model that writes and reads blocks. */
#ifndef ENGINE_H
#define ENGINE_H

#include "tutorial.h"

#define NR_PROMPT	60	/* tokens; with NR_OUTPUT four blocks */
#define NR_OUTPUT	4
#define BLOCK_BYTES	4096
#define MAX_REQUESTS	8

struct engine {
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *keys;
	kvmm_stream_t lane;
	struct kvmm_seq *waiting[MAX_REQUESTS], *running[MAX_REQUESTS];
	uint32_t prompt[MAX_REQUESTS];
	uint32_t tenant;
};

static inline void open_engine(struct engine *e, struct kvmm_pool_attr *attr)
{
	struct kvmm_key_attr names = KVMM_KEY_ATTR_INIT;

	attr->block_bytes = BLOCK_BYTES;
	MUST(kvmm_pool_create(attr, &e->pool));
	MUST(kvmm_key_ctx_create(&names, &e->keys));
	MUST(kvmm_stream_add(e->pool, new_stream(attr->device), 0, &e->lane));
}

/* A request for prompt number @prompt comes in; it waits a minute for memory at most. */
static inline void submit(struct engine *e, int i, uint32_t prompt)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	uint32_t tokens[NR_PROMPT] = { prompt };

	attr.keys = e->keys;
	attr.prompt = tokens;
	attr.nr_prompt = NR_PROMPT;
	attr.max_output = NR_OUTPUT;
	attr.wait_ns = 60000000000;
	attr.domain.tenant = e->tenant;
	e->prompt[i] = prompt;
	MUST(kvmm_seq_create(e->pool, &attr, &e->waiting[i]));
}

/* Tokens before @from were computed: their blocks are read; the others are written. */
static inline void model(struct engine *e, const uint32_t *ids, uint32_t prompt,
			 uint32_t from, uint32_t to)
{
	for (uint32_t i = 0, word, right; i * 16 < to; i++) {
		right = prompt << 8 | i;
		if (i * 16 >= from)
			MUST(kvmm_block_write(e->pool, ids[i], 0, &right, 4));
		else if (MUST(kvmm_block_read(e->pool, ids[i], 0, &word, 4)), word != right)
			MUST(-EBADMSG);
	}
}

/* A step of one request: its whole prompt, or one token more. */
static inline uint32_t step(struct engine *e, struct kvmm_seq *seq, uint32_t prompt)
{
	uint32_t ids[8], token = 7;
	struct kvmm_seq_info info;
	uint64_t epoch;

	MUST(kvmm_seq_get_info(seq, &info));
	MUST(info.nr_waiting ? kvmm_seq_schedule_prefill(seq, info.nr_waiting) :
			       kvmm_seq_schedule_decode(seq));
	MUST(kvmm_step_begin(e->pool, e->lane, &epoch));
	MUST(kvmm_seq_block_table(seq, ids, 8));	/* asked for in each step: blocks move */
	model(e, ids, prompt, info.nr_computed, info.nr_tokens);
	MUST(kvmm_step_end(e->pool, e->lane, epoch));
	MUST(kvmm_seq_apply(seq, &token, 1));		/* full blocks are shared from here on */
	return info.nr_remaining - 1;
}

/* One that waits asks; it may have its blocks now. */
static inline void admit(struct engine *e, int i)
{
	int hits = e->waiting[i] ? kvmm_seq_acquire(e->waiting[i]) : -EINPROGRESS;

	if (hits == -EINPROGRESS)
		return;
	printf("request %d: %d blocks were there\n", i, MUST(hits));
	e->running[i] = e->waiting[i];
	e->waiting[i] = NULL;
}

/* All that run make a step. Return: how many requests there are. */
static inline int turn(struct engine *e)
{
	int nr = 0;

	for (int i = 0; i < MAX_REQUESTS; i++)
		admit(e, i);
	for (int i = 0; i < MAX_REQUESTS; i++) {
		nr += e->waiting[i] || e->running[i];
		if (!e->running[i] || step(e, e->running[i], e->prompt[i]))
			continue;
		printf("request %d: done\n", i);
		kvmm_seq_destroy(e->running[i]);
		e->running[i] = NULL;
	}
	return nr;
}

static inline void close_engine(struct engine *e)
{
	MUST(kvmm_stream_del(e->pool, e->lane));
	MUST(kvmm_validate(e->pool));
	kvmm_pool_destroy(e->pool);
	kvmm_key_ctx_destroy(e->keys);
}

#endif
