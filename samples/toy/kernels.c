// SPDX-License-Identifier: Apache-2.0
/* The kernels; see kernels.h. "make ptx" makes kernels.sm70.ptx of this file. */
#include "kernels.h"

#ifdef __OPENCL_C_VERSION__

#define GLOBAL		__global
#define INLINE		static inline __attribute__((always_inline))

struct toy_thread {
	uint32_t nr;
	uint32_t nr_threads;
};

#define KERNEL(name)								\
	__kernel void toy_##name(const struct toy_args args)			\
	{									\
		struct toy_thread self;						\
										\
		self.nr_threads = __nvvm_read_ptx_sreg_ntid_x();		\
		self.nr = __nvvm_read_ptx_sreg_ctaid_x() * self.nr_threads +	\
			  __nvvm_read_ptx_sreg_tid_x();				\
		self.nr_threads *= __nvvm_read_ptx_sreg_nctaid_x();		\
		name(&self, &args);						\
	}

#else

#define GLOBAL
#define INLINE		static inline
#define KERNEL(name)

#endif

/* Memory of the device at an address; "of" a type. */
#define AT(type, addr)	((GLOBAL type *)(uintptr_t)(addr))
#define AT_CONST(type, addr)	((const GLOBAL type *)(uintptr_t)(addr))

INLINE uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* Into 12 bits with sign, so that no sum below can overflow; what is cut off is not lost. */
INLINE int32_t fold(int32_t x)
{
	uint32_t low = (uint32_t)x ^ (uint32_t)x >> 12 ^ (uint32_t)x >> 24;

	return (int32_t)(low & 0xfffu) - 2048;
}

/* The block with tokens [n, n + 1) * TOY_BLOCK_TOKENS of the sequence. */
INLINE uint32_t block_of(const struct toy_args *args, uint32_t seq_nr, uint32_t n)
{
	const GLOBAL struct toy_seq *seq = AT_CONST(struct toy_seq, args->seqs) + seq_nr;
	const GLOBAL uint32_t *word = AT_CONST(uint32_t, args->table) + seq->first;

	if (seq->is_paged)
		return word[n];
	for (; n >= word[1]; word += 2)
		n -= word[1];
	return word[0] + n;
}

/* Where the key of a token is, counted in bytes from the plane's beginning; its value likewise. */
INLINE uint64_t place_of(const struct toy_args *args, uint32_t seq, uint32_t position)
{
	uint64_t block = block_of(args, seq, position / TOY_BLOCK_TOKENS);

	return block * TOY_PIECE_BYTES + position % TOY_BLOCK_TOKENS * TOY_TOKEN_BYTES;
}

INLINE void embed(const struct toy_thread *self, const struct toy_args *args)
{
	const GLOBAL struct toy_row *rows = AT_CONST(struct toy_row, args->rows);
	uint32_t nr = args->nr_rows * TOY_DIM;

	for (uint32_t i = self->nr; i < nr; i += self->nr_threads) {
		uint32_t d = i % TOY_DIM;
		uint32_t of_token = mix(rows[i / TOY_DIM].token * TOY_DIM + d);
		uint32_t of_place = mix(~(rows[i / TOY_DIM].position * TOY_DIM + d));

		AT(int32_t, args->hidden)[i] = fold(of_token + of_place);
	}
}

/* Query, key and value of each row; the last two go where its block lies. */
INLINE void project(const struct toy_thread *self, const struct toy_args *args)
{
	uint32_t width = TOY_MATRICES * TOY_DIM, nr = args->nr_rows * width;

	for (uint32_t i = self->nr; i < nr; i += self->nr_threads) {
		uint32_t row_nr = i / width, line = i % width, d = line % TOY_DIM;
		const GLOBAL struct toy_row *row = AT_CONST(struct toy_row, args->rows) + row_nr;
		const GLOBAL int32_t *weight = AT_CONST(int32_t, args->weights) +
					       (args->layer * width + line) * TOY_DIM;
		const GLOBAL int32_t *x = AT_CONST(int32_t, args->hidden) + row_nr * TOY_DIM;
		uint64_t to = args->query + (uint64_t)row_nr * TOY_TOKEN_BYTES;
		int32_t sum = 0;

		for (uint32_t j = 0; j < TOY_DIM; j++)
			sum += weight[j] * x[j];
		if (line >= TOY_DIM)
			to = (line / TOY_DIM == TOY_KEY ? args->key : args->value) +
			     place_of(args, row->seq, row->position);
		AT(int32_t, to)[d] = fold(sum);
	}
}

/* 2^(score / 2^22), in steps and with straight lines between them: 2^8 to 2^24. */
INLINE uint32_t exp_of(int32_t score)
{
	uint32_t x = (uint32_t)((score >> 14) + 2048);

	return (256 + x % 256) << x / 256;
}

/* One head of one row, over all tokens up to it. */
INLINE void attend_head(const struct toy_args *args, uint32_t row_nr, uint32_t head)
{
	const GLOBAL struct toy_row *row = AT_CONST(struct toy_row, args->rows) + row_nr;
	uint64_t offset = head * TOY_HEAD_DIM * sizeof(int32_t);
	const GLOBAL int32_t *query = AT_CONST(int32_t, args->query + offset) + row_nr * TOY_DIM;
	GLOBAL int32_t *hidden = AT(int32_t, args->hidden + offset) + row_nr * TOY_DIM;
	int64_t out[TOY_HEAD_DIM] = { 0 }, sum = 0;

	for (uint32_t n = 0; n <= row->position; n++) {
		uint64_t place = place_of(args, row->seq, n) + offset;
		const GLOBAL int32_t *key = AT_CONST(int32_t, args->key + place);
		const GLOBAL int32_t *value = AT_CONST(int32_t, args->value + place);
		int32_t score = 0;
		uint32_t weight;

		for (uint32_t i = 0; i < TOY_HEAD_DIM; i++)
			score += query[i] * key[i];
		weight = exp_of(score);
		sum += weight;
		for (uint32_t i = 0; i < TOY_HEAD_DIM; i++)
			out[i] += (int64_t)weight * value[i];
	}
	for (uint32_t i = 0; i < TOY_HEAD_DIM; i++)
		hidden[i] = fold(hidden[i] * 31 + (int32_t)(out[i] * 16 / sum));
}

INLINE void attend(const struct toy_thread *self, const struct toy_args *args)
{
	uint32_t nr = args->nr_rows * TOY_HEADS;

	for (uint32_t i = self->nr; i < nr; i += self->nr_threads)
		attend_head(args, i / TOY_HEADS, i % TOY_HEADS);
}

/* The next token of each sequence. */
INLINE void say(const struct toy_thread *self, const struct toy_args *args)
{
	const GLOBAL struct toy_seq *seqs = AT_CONST(struct toy_seq, args->seqs);

	for (uint32_t i = self->nr; i < args->nr_seqs; i += self->nr_threads) {
		const GLOBAL int32_t *x = AT_CONST(int32_t, args->hidden) +
					  seqs[i].last_row * TOY_DIM;
		uint32_t hash = 0;

		for (uint32_t d = 0; d < TOY_DIM; d++)
			hash = mix(hash + (uint32_t)x[d]);
		AT(uint32_t, args->said)[i] = hash % TOY_VOCABULARY;
	}
}

KERNEL(embed)
KERNEL(project)
KERNEL(attend)
KERNEL(say)

#ifndef __OPENCL_C_VERSION__
const struct toy_kernel toy_kernels[TOY_KERNELS] = {
	[TOY_EMBED]	= { "toy_embed",	embed,		TOY_DIM },
	[TOY_PROJECT]	= { "toy_project",	project,	TOY_MATRICES * TOY_DIM },
	[TOY_ATTEND]	= { "toy_attend",	attend,		TOY_HEADS },
	[TOY_SAY]	= { "toy_say",		say,		1 },
};
#endif
