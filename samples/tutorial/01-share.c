// SPDX-License-Identifier: Apache-2.0
#include <kvmm/kvmm.h>
#include <stdio.h>

int main(void)
{
	uint32_t prompt[100] = { 3, 1, 4, 1, 5 };
	struct kvmm_pool_attr attr = { sizeof(attr), .policy = "default", .nr_blocks = 64 };
	struct kvmm_seq_attr ask = { sizeof(ask), .prompt = prompt, .nr_prompt = 100 };
	struct kvmm_key_attr names = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_ctx *keys;
	struct kvmm_pool *pool;
	struct kvmm_seq *seq;
	int hits;

	if (kvmm_pool_create(&attr, &pool) || kvmm_key_ctx_create(&names, &keys))
		return 1;
	ask.keys = keys;
	for (prompt[99] = 0; prompt[99] < 2; prompt[99]++) {	/* two users, one question */
		kvmm_seq_create(pool, &ask, &seq);
		hits = kvmm_seq_acquire(seq);		/* blocks of 16 tokens; room for the rest */
		kvmm_seq_schedule_prefill(seq, 100 - 16 * hits);	/* the model works ... */
		kvmm_seq_apply(seq, NULL, 0);		/* ... and others find it from here on */
		printf("%d tokens were there, %d are computed\n", 16 * hits, 100 - 16 * hits);
		kvmm_seq_destroy(seq);
	}
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(keys);
}
