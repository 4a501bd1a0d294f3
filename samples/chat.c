// SPDX-License-Identifier: Apache-2.0
/*
 * A conversation as one sequence: admitted as a whole, decoded token by token, preempted while memory is
 * short, taken up again with what is still cached, edited, and continued with another turn.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_PROMPT	40
#define NR_TURN		20

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, kvmm_strerror(err));
	return err < 0 ? err : -EPROTO;
}

/* All that waits, in one step; the model's answer to it is @token. */
static int prefill(struct kvmm_seq *seq, uint32_t token)
{
	struct kvmm_seq_info info;
	uint32_t ids[8];
	int err = kvmm_seq_get_info(seq, &info);

	if (!err)
		err = kvmm_seq_schedule_prefill(seq, info.nr_waiting);
	if (err)
		return err;
	printf("prefill of %u tokens into %d blocks, %u of them reused\n", info.nr_waiting,
	       kvmm_seq_block_table(seq, ids, 8), info.nr_hits);
	/* ... the step itself, by ids ... */
	return kvmm_seq_apply(seq, &token, 1);
}

static int decode(struct kvmm_seq *seq, uint32_t nr)
{
	int err = 0;

	for (uint32_t token = 2000; nr && err >= 0; nr--, token++) {
		err = kvmm_seq_schedule_decode(seq);
		/* ... the step itself ... */
		if (!err)
			err = kvmm_seq_apply(seq, &token, 1);
	}
	return err;
}

/* Another request is more urgent: all blocks go. Later the longest cached prefix is taken again. */
static int preempt(struct kvmm_seq *seq)
{
	int nr, err = kvmm_seq_release(seq);

	if (err)
		return err;
	nr = kvmm_seq_match(seq);
	printf("after a pause %d blocks are still there\n", nr);
	return nr < 0 ? nr : prefill(seq, 3000);
}

/* The user takes the last answer back and asks something else. */
static int next_turn(struct kvmm_seq *seq)
{
	uint32_t turn[NR_TURN] = { 11, 12, 13 };
	int err = kvmm_seq_truncate(seq, NR_PROMPT);

	if (!err)
		err = kvmm_seq_append(seq, turn, NR_TURN);
	return err ? err : prefill(seq, 4000);
}

static int serve(struct kvmm_seq *seq)
{
	kvmm_ref_t refs[8];
	kvmm_key_t keys[8];
	int err = kvmm_seq_acquire(seq);	/* room for the whole prompt, or nothing */

	if (err < 0)
		return fail("acquire", err);
	/* The router was wrong: blocks that nothing was written to are given back, and taken again. */
	err = kvmm_seq_truncate(seq, NR_PROMPT);
	if (err < 0)
		return fail("truncate", err);
	err = prefill(seq, 1000);
	if (err >= 0)
		err = decode(seq, 10);
	if (err >= 0)
		err = preempt(seq);
	if (err >= 0)
		err = next_turn(seq);
	if (err < 0)
		return fail("step", err);
	printf("%d blocks are named, for others to find\n", kvmm_seq_refs(seq, refs, keys, 8));
	err = kvmm_seq_truncate(seq, 1000);
	return err == -EINVAL ? 0 : fail("a cut behind the end", err);
}

int main(void)
{
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	uint32_t prompt[NR_PROMPT] = { 5, 6, 7 };
	struct kvmm_key_ctx *keys;
	struct kvmm_pool *pool;
	struct kvmm_seq *seq;
	int err;

	pool_attr.nr_blocks = 64;	/* of 16 tokens */
	if (kvmm_key_ctx_create(&key_attr, &keys) || kvmm_pool_create(&pool_attr, &pool))
		return 1;
	attr.keys = keys;
	attr.prompt = prompt;
	attr.nr_prompt = NR_PROMPT;
	attr.max_output = 64;
	if (kvmm_seq_create(pool, &attr, &seq))
		return 1;
	err = serve(seq);
	kvmm_seq_destroy(seq);
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(keys);
	return err != 0;
}
