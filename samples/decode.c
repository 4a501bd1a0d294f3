// SPDX-License-Identifier: Apache-2.0
/* A request that is decoded with drafts: each step is scheduled, run, and applied or reverted. */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_PROMPT	40
#define NR_DRAFTS	3

static uint32_t show(const struct kvmm_seq *seq, const char *what)
{
	struct kvmm_seq_info info;

	kvmm_seq_get_info(seq, &info);
	printf("%-10s %2u tokens, %2u computed, %u blocks, %u published\n", what, info.nr_tokens,
	       info.nr_computed, info.nr_blocks, info.nr_published);
	return info.nr_remaining;
}

/* The model says 1000, 1001, ...; the smaller one, which makes the drafts, errs at times. */
static int decode(struct kvmm_seq *seq, uint32_t at)
{
	uint32_t drafts[NR_DRAFTS], i, ok = 0;
	int nr;

	for (i = 0; i < NR_DRAFTS; i++)
		drafts[i] = (at + i) % 5 ? 1000 + at + i : 7;
	nr = kvmm_seq_schedule_speculative(seq, drafts, NR_DRAFTS);
	if (nr < 0)
		return nr;	/* -ENOSPC: nothing was taken; release this request or another */
	/* ... one pass over the newest token and nr drafts, by kvmm_seq_block_table() ... */
	while ((int)ok < nr && drafts[ok] == 1000 + at + ok)
		ok++;
	return kvmm_seq_accept(seq, ok, 1000 + at + ok);
}

static int serve(struct kvmm_seq *seq)
{
	const uint32_t first = 1000 + NR_PROMPT;
	int err = kvmm_seq_schedule_prefill(seq, NR_PROMPT);

	show(seq, "scheduled");
	if (!err)
		err = kvmm_seq_revert(seq);	/* the scheduler has changed its mind */
	show(seq, "reverted");
	if (!err)
		err = kvmm_seq_schedule_prefill(seq, NR_PROMPT);
	if (!err)
		err = kvmm_seq_apply(seq, &first, 1);
	while (err >= 0 && show(seq, "decoded"))
		err = decode(seq, kvmm_seq_tokens(seq, 0, NULL, 0));
	return err < 0 ? err : 0;
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

	pool_attr.nr_blocks = 64;	/* of 16 tokens */
	if (kvmm_key_ctx_create(&key_attr, &keys) || kvmm_pool_create(&pool_attr, &pool))
		return 1;
	attr.keys = keys;
	attr.prompt = prompt;
	attr.nr_prompt = NR_PROMPT;
	attr.max_output = 12;
	if (kvmm_seq_create(pool, &attr, &seq) || serve(seq))
		return 1;
	kvmm_seq_destroy(seq);
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(keys);
	return 0;
}
