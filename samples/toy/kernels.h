/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model and its kernels: what the host and the device share.
 *
 * A small transformer in whole numbers, so that every device gives the same bits: each layer makes
 * query, key and value of a row (a token that is computed in this step), writes the latter two into
 * the row's block, and attends over all tokens before it. What is said is a hash of the last hidden
 * state: one wrong byte of KV, anywhere before, says something else.
 *
 * Read by clang as OpenCL C, which makes the PTX, and by gcc, for the host and the software driver.
 * Kernels have no barriers and any grid gives the same bytes.
 */
#ifndef TOY_KERNELS_H
#define TOY_KERNELS_H

#ifdef __OPENCL_C_VERSION__
typedef uint	uint32_t;
typedef int	int32_t;
typedef ulong	uint64_t;
typedef long	int64_t;
#else
#include <stdint.h>
#endif

#define TOY_LAYERS		2u
#define TOY_HEADS		2u
#define TOY_HEAD_DIM		8u
#define TOY_DIM			(TOY_HEADS * TOY_HEAD_DIM)
#define TOY_BLOCK_TOKENS	4u
#define TOY_VOCABULARY		50000u

/* One piece of a block: keys, or values, of one layer. */
#define TOY_TOKEN_BYTES		(TOY_DIM * 4u)
#define TOY_PIECE_BYTES		(TOY_BLOCK_TOKENS * TOY_TOKEN_BYTES)

enum toy_matrix { TOY_QUERY, TOY_KEY, TOY_VALUE, TOY_MATRICES };
#define TOY_WEIGHTS		(TOY_LAYERS * TOY_MATRICES * TOY_DIM * TOY_DIM)

/* A token that is computed. */
struct toy_row {
	uint32_t token;
	uint32_t position;
	uint32_t seq;
	uint32_t reserved;
};

/*
 * A sequence of this step. Its blocks are words of the table from @first on: ids, one a block, if
 * @is_paged; else pairs {first block, blocks}, one an extent.
 */
struct toy_seq {
	uint32_t first;
	uint32_t is_paged;
	uint32_t nr_tokens;		/* with those of this step */
	uint32_t last_row;		/* says the next token */
};

/**
 * struct toy_args - parameters of each kernel; addresses of the device
 * @rows, @seqs, @table: of this step
 * @weights: int32_t[TOY_LAYERS][TOY_MATRICES][TOY_DIM][TOY_DIM]
 * @hidden, @query: int32_t[@nr_rows][TOY_DIM]
 * @said: uint32_t[@nr_seqs]
 * @key, @value: planes of @layer: pieces of TOY_PIECE_BYTES, one a block
 */
struct toy_args {
	uint64_t rows;
	uint64_t seqs;
	uint64_t table;
	uint64_t weights;
	uint64_t hidden;
	uint64_t query;
	uint64_t said;
	uint64_t key;
	uint64_t value;
	uint32_t nr_rows;
	uint32_t nr_seqs;
	uint32_t layer;
	uint32_t reserved;
};

enum toy_kernel_id { TOY_EMBED, TOY_PROJECT, TOY_ATTEND, TOY_SAY, TOY_KERNELS };

#ifndef __OPENCL_C_VERSION__

/* Which of the threads this is. */
struct toy_thread {
	uint32_t nr;
	uint32_t nr_threads;		/* of the grid */
};

struct toy_kernel {
	const char *name;
	void (*run)(const struct toy_thread *self, const struct toy_args *args);
	uint32_t row_threads;		/* that have work, for each row; TOY_SAY: for each sequence */
};

extern const struct toy_kernel toy_kernels[TOY_KERNELS];
extern const char toy_ptx[];		/* the same as text for a driver */

#endif /* __OPENCL_C_VERSION__ */

#endif /* TOY_KERNELS_H */
