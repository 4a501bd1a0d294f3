// SPDX-License-Identifier: Apache-2.0
/*
 * A scheduler before a hybrid model: what would a prompt reuse, how many blocks does it need in the end,
 * and which blocks of a window are part of the hit?
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_TOKENS	640
#define NR_BLOCKS	(NR_TOKENS / 16)

static struct kvmm_groups *groups;
static kvmm_key_t keys[NR_BLOCKS];
static const struct kvmm_prefix prompt = { .keys = keys, .nr = NR_BLOCKS };

static int serve(void)
{
	struct kvmm_groups_acquire_args req = { .prompt = prompt, .nr_tokens = NR_TOKENS,
						.max_hit_tokens = NR_TOKENS - 1 };
	struct kvmm_tables *tables;
	int err = kvmm_groups_acquire(groups, &req, &tables);

	if (err)
		return err;
	err = kvmm_groups_commit(tables, &prompt, NR_TOKENS);
	if (!err)
		err = kvmm_groups_reserve(tables, NR_TOKENS + 64, 0);	/* to decode into */
	if (!err)
		err = kvmm_groups_abort(tables);			/* it has ended at once */
	kvmm_groups_release(tables);
	return err;
}

static int admit(void)
{
	struct kvmm_groups_acquire_args need = { .prompt = prompt, .max_hit_tokens = NR_TOKENS - 1,
						 .nr_tokens = NR_TOKENS, .step_tokens = 128 };
	int err = kvmm_groups_blocks_needed(groups, &need);

	printf("%u tokens reused; %u blocks of full attention, %u of the window: %s\n", need.hit_tokens,
	       need.blocks[0], need.blocks[1], err ? "wait" : "go");
	return err;
}

/* References on what is needed of the hit: to be pinned, hinted, or sent elsewhere. */
static int look(void)
{
	struct kvmm_tables *tables;
	kvmm_ref_t refs[NR_BLOCKS];
	int nr, held = 0, tokens = kvmm_groups_match(groups, &prompt, NR_TOKENS - 1, &tables);

	if (tokens < 0)
		return tokens;
	nr = kvmm_groups_refs(tables, 1, refs, NR_BLOCKS);
	for (int i = 0; i < nr && i < NR_BLOCKS; i++)
		held += refs[i].gen != 0;
	printf("a hit of %d tokens holds %d blocks of the window\n", tokens, held);
	kvmm_groups_release(tables);
	return 0;
}

int main(void)
{
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_group_attr group[2] = { { .kind = KVMM_GROUP_FULL, .block_tokens = 64 },
					    { .kind = KVMM_GROUP_WINDOW, .span = 32 } };
	struct kvmm_pool *pool = NULL;
	int err;

	for (int i = 0; i < NR_BLOCKS; i++)
		keys[i].byte[0] = i + 1;	/* engines hash tokens: kvmm_key_hash() */
	pool_attr.nr_blocks = 400;
	err = kvmm_pool_create(&pool_attr, &pool);
	group[0].pool = group[1].pool = pool;
	attr.group = group;
	attr.nr = 2;
	err = err ? err : kvmm_groups_create(&attr, &groups);
	if (!err)
		printf("a key for each %u tokens, hits of multiples of %u\n",
		       kvmm_groups_granule(groups), kvmm_groups_alignment(groups));
	err = err ? err : admit();
	err = err ? err : serve();
	err = err ? err : admit();
	err = err ? err : look();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_groups_destroy(groups);
	kvmm_pool_destroy(pool);
	return err != 0;
}
