/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of llama.cpp's interface as samples/llama_state.c calls, over a model that knows its tokens
 * and nothing else: a byte of text is a token, and the state of a sequence is its tokens, with
 * FAKE_TOKEN_BYTES each. The token that follows is the sum of all so far.
 */
#ifndef TESTS_SUPPORT_LLAMA_H
#define TESTS_SUPPORT_LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAKE_TOKEN_BYTES	32768u
#define FAKE_TOKENS		8192u
#define FAKE_VOCAB		128

typedef int32_t llama_token, llama_pos, llama_seq_id;

struct llama_vocab {
	int unused;
};

struct llama_model {
	struct llama_vocab vocab;
};

struct llama_model_params {
	int32_t n_gpu_layers;
};

struct llama_context_params {
	uint32_t n_ctx;
	uint32_t n_batch;
};

struct llama_batch {
	int32_t n_tokens;
	llama_token *token;
};

struct llama_context {
	llama_token tokens[FAKE_TOKENS];
	uint32_t nr;
	uint32_t nr_decoded;
	float logits[FAKE_VOCAB];
};

typedef struct llama_context *llama_memory_t;

static struct llama_model fake_model;
static struct llama_context fake_context;	/* what it was when it was freed, too */

static inline void llama_backend_init(void)
{
}

static inline void llama_backend_free(void)
{
}

static inline struct llama_model_params llama_model_default_params(void)
{
	return (struct llama_model_params){ 0 };
}

static inline struct llama_context_params llama_context_default_params(void)
{
	return (struct llama_context_params){ 512, 50 };
}

static inline struct llama_model *llama_model_load_from_file(const char *path,
							     struct llama_model_params params)
{
	return &fake_model;
}

static inline void llama_model_free(struct llama_model *model)
{
}

static inline const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model)
{
	return &model->vocab;
}

static inline struct llama_context *llama_init_from_model(struct llama_model *model,
							  struct llama_context_params params)
{
	memset(&fake_context, 0, sizeof(fake_context));
	return &fake_context;
}

static inline void llama_free(struct llama_context *ctx)
{
}

static inline uint32_t llama_n_batch(const struct llama_context *ctx)
{
	return llama_context_default_params().n_batch;
}

static inline int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text, int32_t bytes,
				     llama_token *tokens, int32_t max, bool special, bool parse)
{
	for (int32_t i = 0; i < bytes && i < max; i++)
		tokens[i] = text[i];
	return bytes <= max ? bytes : -bytes;
}

static inline struct llama_batch llama_batch_get_one(llama_token *tokens, int32_t nr)
{
	return (struct llama_batch){ nr, tokens };
}

static inline int32_t llama_decode(struct llama_context *ctx, struct llama_batch batch)
{
	if ((uint32_t)batch.n_tokens > llama_n_batch(ctx))
		return -1;
	memcpy(ctx->tokens + ctx->nr, batch.token, (size_t)batch.n_tokens * sizeof(*batch.token));
	ctx->nr += (uint32_t)batch.n_tokens;
	ctx->nr_decoded += (uint32_t)batch.n_tokens;
	return 0;
}

static inline int32_t llama_vocab_n_tokens(const struct llama_vocab *vocab)
{
	return FAKE_VOCAB;
}

static inline float *llama_get_logits_ith(struct llama_context *ctx, int32_t at)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < ctx->nr; i++)
		sum += (uint32_t)ctx->tokens[i];
	for (uint32_t i = 0; i < FAKE_VOCAB; i++)
		ctx->logits[i] = i == sum % FAKE_VOCAB;
	return at == -1 ? ctx->logits : NULL;
}

static inline llama_memory_t llama_get_memory(struct llama_context *ctx)
{
	return ctx;
}

static inline bool llama_memory_seq_rm(llama_memory_t memory, llama_seq_id seq, llama_pos from,
				       llama_pos to)
{
	memory->nr = 0;
	return from < 0 && to < 0;
}

static inline size_t llama_state_seq_get_size(struct llama_context *ctx, llama_seq_id seq)
{
	return (size_t)ctx->nr * FAKE_TOKEN_BYTES;
}

static inline size_t llama_state_seq_get_data(struct llama_context *ctx, uint8_t *to, size_t bytes,
					      llama_seq_id seq)
{
	for (uint32_t i = 0; i < ctx->nr; i++) {
		memset(to, ctx->tokens[i], FAKE_TOKEN_BYTES);
		to += FAKE_TOKEN_BYTES;
	}
	return (size_t)ctx->nr * FAKE_TOKEN_BYTES;
}

static inline size_t llama_state_seq_set_data(struct llama_context *ctx, const uint8_t *from,
					      size_t bytes, llama_seq_id seq)
{
	for (ctx->nr = 0; ctx->nr < bytes / FAKE_TOKEN_BYTES; ctx->nr++) {
		ctx->tokens[ctx->nr] = from[FAKE_TOKEN_BYTES - 1];
		from += FAKE_TOKEN_BYTES;
	}
	return bytes;
}

#endif /* TESTS_SUPPORT_LLAMA_H */
