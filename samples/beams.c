// SPDX-License-Identifier: Apache-2.0
/*
 * Two beams, and a tree of drafts behind the better one: blocks are shared, and the partial one at
 * the end is copied by the first that writes to it. Last, the same for engines with own tables.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_PROMPT	20	/* 16 fill a block, 4 are in a partial one */
#define NR_BEAMS	2
#define NR_PATHS	3

static struct kvmm_pool *pool;

static void show(const char *what)
{
	struct kvmm_pool_stat stat = { 0 };

	kvmm_pool_get_stat(pool, &stat);
	printf("%-8s %u blocks\n", what, stat.nr_blocks - stat.nr_free);
}

/* The model says @token; the engine runs the step by kvmm_seq_block_table(). */
static int decode(struct kvmm_seq *seq, uint32_t token)
{
	int err = kvmm_seq_schedule_decode(seq);	/* -ENOSPC: all is as before */

	return err ? err : kvmm_seq_apply(seq, &token, 1);
}

/* Beam 0 has the two best continuations, so beam 1 goes on as a copy of it. */
static int search(struct kvmm_seq **beam)
{
	struct kvmm_seq *second;
	int err = kvmm_seq_fork(beam[0], NR_BEAMS - 1, &beam[1]);

	show("forked");
	for (int i = 0; i < NR_BEAMS && err >= 0; i++)
		err = decode(beam[i], 100 + i);
	show("decoded");
	if (err >= 0)
		err = kvmm_seq_fork(beam[0], 1, &second);
	if (!err)
		err = kvmm_seq_adopt(beam[1], second);
	show("adopted");
	return err;
}

/* The paths of a tree are verified in one step. The model agrees with the first two of path 1. */
static int speculate(struct kvmm_seq *seq)
{
	static const uint32_t path[NR_PATHS][3] = { { 7, 8, 9 }, { 7, 5, 6 }, { 4, 4, 4 } };
	struct kvmm_seq *branch[NR_PATHS];
	int err = kvmm_seq_fork(seq, NR_PATHS, branch), ret = err;

	for (int i = 0; i < NR_PATHS && ret >= 0; i++)
		ret = kvmm_seq_schedule_speculative(branch[i], path[i], 3);
	show("tree");
	if (ret >= 0)
		ret = kvmm_seq_accept(branch[1], 2, 50);
	if (ret >= 0)
		ret = kvmm_seq_adopt(seq, branch[1]);
	for (int i = 0; i < NR_PATHS && !err; i++)
		if (i != 1 || ret < 0)
			kvmm_seq_destroy(branch[i]);
	show("accepted");
	printf("tokens   %d\n", kvmm_seq_tokens(seq, 0, NULL, 0));
	return ret;
}

/* Two tables have a private block in common; the one that writes takes a copy first. */
static int by_hand(void)
{
	kvmm_mut_t block, copy;
	int err = kvmm_alloc(pool, 1, &block);

	if (!err)
		err = kvmm_get_muts(pool, &block, 1);
	if (!err)
		err = kvmm_alloc(pool, 1, &copy);
	if (!err)
		err = kvmm_copy_muts(pool, &block, &copy, 1);
	show("own");
	if (!err)
		err = kvmm_free(pool, &block, 1);	/* it has the other one now */
	if (!err)
		err = kvmm_free(pool, &block, 1);
	return err ? err : kvmm_free(pool, &copy, 1);
}

int main(void)
{
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	uint32_t prompt[NR_PROMPT] = { 5, 6, 7 }, first = 90;
	struct kvmm_seq *beam[NR_BEAMS];
	struct kvmm_key_ctx *keys;
	int err;

	pool_attr.nr_blocks = 64;	/* of 16 tokens */
	pool_attr.block_bytes = 4096;
	if (kvmm_key_ctx_create(&key_attr, &keys) || kvmm_pool_create(&pool_attr, &pool))
		return 1;
	attr.keys = keys;
	attr.prompt = prompt;
	attr.nr_prompt = NR_PROMPT;
	attr.max_output = 20;
	if (kvmm_seq_create(pool, &attr, &beam[0]) ||
	    kvmm_seq_schedule_prefill(beam[0], NR_PROMPT) ||
	    kvmm_seq_apply(beam[0], &first, 1) < 0)
		return 1;
	err = search(beam);
	if (err >= 0)
		err = speculate(beam[0]);
	for (int i = 0; i < NR_BEAMS; i++)
		kvmm_seq_destroy(beam[i]);
	if (err >= 0)
		err = by_hand();
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(keys);
	return err < 0;
}
