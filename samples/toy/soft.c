// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels on the software driver: it calls what gcc made of kernels.c, and its race checker is
 * told what each launch touches.
 */
#include <kvmm/ext/device.h>

#include "device.h"

struct walk {
	kvmm_soft_touch_fn touch;
	void *list;
	const struct toy_args *args;
};

static int touch(const struct walk *walk, uint64_t addr, uint64_t bytes, int is_write)
{
	return walk->touch(walk->list, addr, bytes, is_write);
}

static const struct toy_seq *seq_at(const struct walk *walk, uint32_t nr)
{
	return (const struct toy_seq *)(uintptr_t)walk->args->seqs + nr;
}

static const struct toy_row *row_at(const struct walk *walk, uint32_t nr)
{
	return (const struct toy_row *)(uintptr_t)walk->args->rows + nr;
}

/* Tokens [from, to) of a sequence in one plane; a sequence's rows are consecutive tokens. */
static void touch_tokens(const struct walk *walk, const struct toy_seq *seq, uint64_t plane,
			 uint32_t from, uint32_t to, int is_write)
{
	const uint32_t *word = (const uint32_t *)(uintptr_t)walk->args->table + seq->first;
	uint32_t n = 0, block, nr;	/* tokens before this extent; it, in blocks */

	for (; n < to; n += nr * TOY_BLOCK_TOKENS) {
		uint32_t first, end;

		block = *word++;
		nr = seq->is_paged ? 1 : *word++;
		first = from > n ? from - n : 0;
		end = to - n < nr * TOY_BLOCK_TOKENS ? to - n : nr * TOY_BLOCK_TOKENS;
		if (first < end)
			touch(walk, plane + (uint64_t)block * TOY_PIECE_BYTES +
			      first * TOY_TOKEN_BYTES, (end - first) * TOY_TOKEN_BYTES, is_write);
	}
}

static int table_words(const struct walk *walk, const struct toy_seq *seq)
{
	uint32_t nr = (seq->nr_tokens + TOY_BLOCK_TOKENS - 1) / TOY_BLOCK_TOKENS, n = 0;
	uint64_t at = walk->args->table + seq->first * sizeof(uint32_t);

	if (seq->is_paged)
		return touch(walk, at, nr * sizeof(uint32_t), 0);
	for (; n < nr; at += 2 * sizeof(uint32_t)) {
		if (!touch(walk, at, 2 * sizeof(uint32_t), 0))
			return 0;
		n += ((const uint32_t *)(uintptr_t)at)[1];
	}
	return 1;
}

/* Rows of one sequence lie together, up to its last row. */
static void touch_kv(const struct walk *walk, int is_write)
{
	const struct toy_args *args = walk->args;

	for (uint32_t i = 0; i < args->nr_seqs; i++) {
		const struct toy_seq *seq = seq_at(walk, i);
		uint32_t first = i ? seq_at(walk, i - 1)->last_row + 1 : 0;
		uint32_t from = is_write ? row_at(walk, first)->position : 0;

		if (!table_words(walk, seq))
			return;
		touch_tokens(walk, seq, args->key, from, seq->nr_tokens, is_write);
		touch_tokens(walk, seq, args->value, from, seq->nr_tokens, is_write);
	}
}

static void access_kernel(const struct kvmm_soft_kernel *kernel, void **params,
			  kvmm_soft_touch_fn touch_fn, void *list)
{
	const struct toy_args *args = params[0];
	const struct walk walk = { touch_fn, list, args };
	uint64_t states = (uint64_t)args->nr_rows * TOY_TOKEN_BYTES;
	int is_known = touch(&walk, args->rows, args->nr_rows * sizeof(struct toy_row), 0);

	is_known &= touch(&walk, args->seqs, args->nr_seqs * sizeof(struct toy_seq), 0);
	switch (kernel - toy_soft_kernel(0)) {
	case TOY_EMBED:
		touch(&walk, args->hidden, states, 1);
		break;
	case TOY_PROJECT:
		touch(&walk, args->hidden, states, 0);
		touch(&walk, args->weights, TOY_WEIGHTS * sizeof(int32_t), 0);
		touch(&walk, args->query, states, 1);
		if (is_known)
			touch_kv(&walk, 1);
		break;
	case TOY_ATTEND:
		touch(&walk, args->query, states, 0);
		touch(&walk, args->hidden, states, 1);
		if (is_known)
			touch_kv(&walk, 0);
		break;
	case TOY_SAY:
		touch(&walk, args->hidden, states, 0);
		touch(&walk, args->said, args->nr_seqs * sizeof(uint32_t), 1);
		break;
	}
}

static void run_kernel(const struct kvmm_soft_kernel *kernel,
		       const struct kvmm_soft_thread *thread, void **params)
{
	const struct toy_kernel *toy = kernel->data;
	struct toy_thread self = { thread->nr, thread->grid[0] * thread->block[0] };

	toy->run(&self, params[0]);
}

const struct kvmm_soft_kernel *toy_soft_kernel(enum toy_kernel_id nr)
{
#define SOFT(nr, entry)								\
	[nr] = { sizeof(struct kvmm_soft_kernel), entry, 1, KVMM_SOFT_ANY_GRID, run_kernel, \
		 access_kernel, &toy_kernels[nr] }
	static const struct kvmm_soft_kernel kernels[TOY_KERNELS] = {
		SOFT(TOY_EMBED, "toy_embed"), SOFT(TOY_PROJECT, "toy_project"),
		SOFT(TOY_ATTEND, "toy_attend"), SOFT(TOY_SAY, "toy_say"),
	};
#undef SOFT

	return &kernels[nr];
}
