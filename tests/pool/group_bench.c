// SPDX-License-Identifier: Apache-2.0
/*
 * What groups cost: the length of a hit, a match, its release, and a token of a decode.
 *
 * 32 prompts of 1024 blocks of 16 tokens, all cached, are asked for in turn, in a pool of 2^18
 * blocks; beside that the pool's own calls for the same keys. Prints one line a set of groups.
 */
#include <stdio.h>
#include <string.h>

#include <kv/env.h>
#include <kvmm/kvmm.h>

#define NR_PROMPTS	32u
#define NR_BLOCKS	1024u
#define BLOCK_TOKENS	16u
#define NR_TOKENS	(NR_BLOCKS * BLOCK_TOKENS)
#define STEP		256u
#define NR_ROUNDS	20u
#define NR_DECODES	20000u

static struct kvmm_pool *pool;
static kvmm_key_t keys[NR_PROMPTS][NR_BLOCKS];
static struct kvmm_prefix prompt[NR_PROMPTS];

static void make_prompts(void)
{
	for (uint32_t i = 0; i < NR_PROMPTS; i++) {
		for (uint32_t k = 0; k < NR_BLOCKS; k++) {
			uint32_t name = (i * NR_BLOCKS + k) * 2654435761u;

			memcpy(keys[i][k].byte, &name, sizeof(name));
			memcpy(keys[i][k].byte + 8, &name, sizeof(name));
		}
		prompt[i].keys = keys[i];
		prompt[i].nr = NR_BLOCKS;
	}
}

/* One more token at a time, none of which is cached; so every 16th takes a block a group. */
static int decode(struct kvmm_tables *tables, uint32_t from)
{
	int err = 0;

	for (uint32_t n = from + 1; n <= from + NR_DECODES && !err; n++) {
		err = kvmm_groups_reserve(tables, n, 0);
		if (!err)
			err = kvmm_groups_commit(tables, NULL, n);
		if (!err)
			err = kvmm_groups_trim(tables, n);
	}
	return err;
}

/* In steps, so that there are states at their ends. */
static int fill(const struct kvmm_groups *groups)
{
	for (uint32_t i = 0; i < NR_PROMPTS; i++) {
		struct kvmm_tables *tables;
		int err = kvmm_groups_match(groups, &prompt[i], NR_TOKENS, &tables);

		if (err < 0)
			return err;
		for (uint32_t n = err + STEP, ret = 0; n <= NR_TOKENS && !ret; n += STEP) {
			ret = kvmm_groups_reserve(tables, n, 0);
			if (!ret)
				ret = kvmm_groups_commit(tables, &prompt[i], n);
			if (!ret)
				ret = kvmm_groups_trim(tables, n);
			if (ret)
				return ret;
		}
		kvmm_groups_release(tables);
	}
	return 0;
}

static int measure(const struct kvmm_groups *groups, const char *name)
{
	double start = kv_clock_ns(), len_ns, match_ns = 0, release_ns = 0;
	struct kvmm_tables *tables;
	int err;

	for (uint32_t i = 0; i < NR_ROUNDS * NR_PROMPTS; i++)
		if (kvmm_groups_hit_len(groups, &prompt[i % NR_PROMPTS], NR_TOKENS) != NR_TOKENS)
			return -1;
	len_ns = kv_clock_ns() - start;
	for (uint32_t i = 0; i < NR_ROUNDS * NR_PROMPTS; i++) {
		start = kv_clock_ns();
		if (kvmm_groups_match(groups, &prompt[i % NR_PROMPTS], NR_TOKENS, &tables) < 0)
			return -1;
		match_ns += kv_clock_ns() - start;
		start = kv_clock_ns();
		kvmm_groups_release(tables);
		release_ns += kv_clock_ns() - start;
	}
	err = kvmm_groups_match(groups, &prompt[0], NR_TOKENS, &tables);
	start = kv_clock_ns();
	err = err < 0 ? err : decode(tables, err);
	printf("%-28s %8.2f %8.2f %8.2f us %8.0f ns\n", name,
	       len_ns / NR_ROUNDS / NR_PROMPTS / 1e3, match_ns / NR_ROUNDS / NR_PROMPTS / 1e3,
	       release_ns / NR_ROUNDS / NR_PROMPTS / 1e3, (kv_clock_ns() - start) / NR_DECODES);
	kvmm_groups_release(tables);
	return err;
}

static int run(const struct kvmm_group_attr *group, uint32_t nr, uint32_t id, const char *name)
{
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group, .nr = nr,
					 .first_id = id };
	struct kvmm_groups *groups;
	int err = kvmm_groups_create(&attr, &groups);

	if (err)
		return err;
	err = fill(groups);
	if (!err)
		err = measure(groups, name);
	kvmm_groups_destroy(groups);
	return err;
}

/* The same keys, in the domain of the first group of the first set. */
static int run_pool(void)
{
	static kvmm_ref_t refs[NR_BLOCKS];
	double start = kv_clock_ns(), len_ns, match_ns = 0, put_ns = 0;

	for (uint32_t i = 0; i < NR_ROUNDS * NR_PROMPTS; i++)
		if (kvmm_prefix_len(pool, &prompt[i % NR_PROMPTS]) != NR_BLOCKS)
			return -1;
	len_ns = kv_clock_ns() - start;
	for (uint32_t i = 0; i < NR_ROUNDS * NR_PROMPTS; i++) {
		start = kv_clock_ns();
		if (kvmm_prefix_match(pool, &prompt[i % NR_PROMPTS], refs) != NR_BLOCKS)
			return -1;
		match_ns += kv_clock_ns() - start;
		start = kv_clock_ns();
		if (kvmm_put_many(pool, refs, NR_BLOCKS))
			return -1;
		put_ns += kv_clock_ns() - start;
	}
	printf("%-28s %8.2f %8.2f %8.2f us\n", "the pool's own calls",
	       len_ns / NR_ROUNDS / NR_PROMPTS / 1e3, match_ns / NR_ROUNDS / NR_PROMPTS / 1e3,
	       put_ns / NR_ROUNDS / NR_PROMPTS / 1e3);
	return 0;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1u << 18,
				       .policy = "lru" };
	struct kvmm_group_attr group[3] = {
		{ .kind = KVMM_GROUP_FULL, .block_tokens = BLOCK_TOKENS },
		{ .kind = KVMM_GROUP_WINDOW, .block_tokens = BLOCK_TOKENS, .span = 1024 },
		{ .kind = KVMM_GROUP_LAST, .block_tokens = STEP, .span = 1 },
	};
	int err = kvmm_pool_create(&attr, &pool);

	if (err)
		return 1;
	for (uint32_t i = 0; i < 3; i++)
		group[i].pool = pool;
	make_prompts();
	printf("%-28s %8s %8s %8s    %8s\n", "groups", "length", "match", "release", "decode");
	err = run(group, 1, 0, "full");
	err = err ? err : run(group, 2, 4, "full, window of 1024");
	err = err ? err : run(group, 3, 8, "full, window, states");
	err = err ? err : run(group + 1, 1, 12, "window of 1024 alone");
	err = err ? err : run_pool();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err ? 1 : 0;
}
