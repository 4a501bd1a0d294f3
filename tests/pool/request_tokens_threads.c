// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens of private blocks, while another thread looks at blocks that go away under its hands.
 *
 * An owner takes a block, says which, fills it token by token and frees it, over and over; the entry
 * is soon used again. The others ask for the tokens of the block they heard of last. They may be told
 * any number up to a full block, or -ESTALE; but the owner must always find all of its own.
 * Exit code 0: it did.
 */
#include <kvmm/cache.h>

#include "tests/support/threads.h"

#define BLOCK_TOKENS	4u
#define NR_ROUNDS	150000u

static struct kvmm_pool *pool;
static u64 heard;	/* atomic: a handle */
static u32 stop;	/* atomic */

static void use_block(u32 round)
{
	u32 got[BLOCK_TOKENS];
	kvmm_mut_t block;

	expect(!kvmm_alloc(pool, 1, &block));
	WRITE_ONCE(heard, (u64)block.gen << 32 | block.index);
	for (u32 i = 0; i < BLOCK_TOKENS; i++) {
		u32 token = round + i;

		expect(kvmm_block_append_tokens(pool, block, &token, 1) == (int)i + 1);
	}
	expect(kvmm_block_tokens(pool, block, got, BLOCK_TOKENS) == BLOCK_TOKENS);
	expect(got[0] == round && got[BLOCK_TOKENS - 1] == round + BLOCK_TOKENS - 1);
	expect(!kvmm_free(pool, &block, 1));
}

static void *own(void *arg)
{
	for (u32 round = 0; round < NR_ROUNDS; round++)
		use_block(round);
	return NULL;
}

static void *look(void *arg)
{
	while (!READ_ONCE(stop)) {
		u64 word = READ_ONCE(heard);
		kvmm_mut_t block = { (u32)word, word >> 32 };
		int nr = kvmm_block_nr_tokens(pool, block);

		expect(nr == -ESTALE || (!word && nr == -EINVAL) ||
		       (nr >= 0 && nr <= (int)BLOCK_TOKENS));
	}
	return NULL;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2,
				       .block_tokens = BLOCK_TOKENS, .policy = "lru" };
	pthread_t owner, looker[2];

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	pthread_create(&owner, NULL, own, NULL);
	for (u32 i = 0; i < 2; i++)
		pthread_create(&looker[i], NULL, look, NULL);
	pthread_join(owner, NULL);
	WRITE_ONCE(stop, 1);
	threads_join(looker, 2);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
	return nr_bad ? 1 : 0;
}
