// SPDX-License-Identifier: Apache-2.0
/* A hybrid model: full attention in some layers, a sliding window of 256 tokens in the others. */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_TOKENS	2000	/* of a prompt; 1600 are the same for all users */
#define NR_BLOCKS	(NR_TOKENS / 16)

/* Compute the rest in steps of 512 tokens; what has left the window goes back after each. */
static int compute(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, uint32_t done)
{
	uint32_t ids[NR_BLOCKS], nr, i;
	int err = 0;

	while (done < NR_TOKENS && !err) {
		done = done + 512 < NR_TOKENS ? done + 512 : NR_TOKENS;
		err = kvmm_groups_reserve(tables, done, 0);
		if (err)
			break;		/* -ENOSPC: nothing was taken */
		kvmm_groups_block_table(tables, 1, ids, NR_BLOCKS);
		for (nr = 0, i = 0; i < NR_BLOCKS && i < (done + 15) / 16; i++)
			nr += ids[i] != 0;	/* 0: the null block */
		printf("  step to token %u: %u blocks of the window held\n", done, nr);
		/* ... the step itself ... */
		err = kvmm_groups_commit(tables, prompt, done);
		if (!err)
			err = kvmm_groups_trim(tables, done);
	}
	return err;
}

static int serve(const struct kvmm_groups *groups, uint32_t user)
{
	kvmm_key_t keys[NR_BLOCKS] = { { { 0 } } };
	struct kvmm_groups_acquire_args req = { .prompt = { .keys = keys, .nr = NR_BLOCKS },
						.nr_tokens = NR_TOKENS, .step_tokens = 512,
						.max_hit_tokens = NR_TOKENS - 1 };
	struct kvmm_tables *tables;
	int err, i;

	for (i = 0; i < NR_BLOCKS; i++) {	/* engines hash tokens: kvmm_key_hash() */
		keys[i].byte[0] = i;
		keys[i].byte[1] = i < 1600 / 16 ? 0 : user + 1;
	}
	err = kvmm_groups_acquire(groups, &req, &tables);	/* in both groups, or in none */
	if (err)
		return err;
	printf("user %u: %u of %u tokens reused\n", user, req.hit_tokens, NR_TOKENS);
	err = compute(tables, &req.prompt, req.hit_tokens);
	kvmm_groups_release(tables);				/* what is full stays cached */
	return err;
}

int main(void)
{
	struct kvmm_pool_attr pool_attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_group_attr group[2] = { { .kind = KVMM_GROUP_FULL },
					    { .kind = KVMM_GROUP_WINDOW, .span = 256 } };
	struct kvmm_groups *groups = NULL;
	struct kvmm_pool *pool = NULL;
	int err;

	pool_attr.nr_blocks = 400;	/* of 16 tokens, shared by both groups */
	pool_attr.flags = KVMM_POOL_NULL_BLOCK;
	err = kvmm_pool_create(&pool_attr, &pool);
	group[0].pool = group[1].pool = pool;
	attr.group = group;
	attr.nr = 2;
	err = err ? err : kvmm_groups_create(&attr, &groups);
	err = err ? err : serve(groups, 0);
	err = err ? err : serve(groups, 1);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_groups_destroy(groups);
	kvmm_pool_destroy(pool);
	return err ? 1 : 0;
}
