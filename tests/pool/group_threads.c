// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that serve prompts from pools which hold a few of them only: whatever is looked up may
 * be evicted before its references are taken, and room that was there may be gone.
 *
 * Each block is written with its group, key and length before it is registered, and must say that
 * whenever it is part of a hit. Exit code 0: no hit was wrong, and the pools are whole in the end.
 */
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_THREADS	3u
#define NR_GROUPS	3u
#define NR_TOKENS	64u
#define NR_ROUNDS	20000u

static struct kvmm_pool *pool[2];
static struct kvmm_groups *groups;
static u32 nr_hits, nr_full;		/* atomic */

static const u32 block_tokens[NR_GROUPS] = { 4, 2, 8 };

struct content {
	u32 group;
	kvmm_key_t key;
};

/* A key a granule of 2 tokens. */
static struct content content_of(const struct kvmm_prefix *prompt, u32 group, u32 block)
{
	struct content c;

	memset(&c, 0, sizeof(c));
	c.group = group;
	c.key = prompt->keys[(block + 1) * block_tokens[group] / 2 - 1];
	return c;
}

static u32 get_ids(const struct kvmm_tables *tables, u32 group, u32 *ids)
{
	int nr = kvmm_groups_block_table(tables, group, ids, NR_TOKENS);

	expect(nr >= 0 && nr <= (int)(NR_TOKENS / block_tokens[group]));
	return nr < 0 ? 0 : nr;
}

/* All blocks of the first @tokens tokens that are there say what they should. */
static void check(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 group,
		  u32 tokens)
{
	u32 ids[NR_TOKENS], nr = get_ids(tables, group, ids), end = tokens / block_tokens[group];

	expect(end <= nr);
	for (u32 i = 0; i < end; i++) {
		struct content want = content_of(prompt, group, i), got;

		/* Of full attention all are there, of the others at least the last one. */
		expect(ids[i] || (group && i + 1 < end));
		if (!ids[i])
			continue;
		expect(!kvmm_block_read(pool[group == 2], ids[i], 0, &got, sizeof(got)));
		expect(!memcmp(&got, &want, sizeof(got)));
	}
}

/* Tokens [@from, @to) are computed. */
static void compute(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 group,
		    u32 from, u32 to)
{
	u32 ids[NR_TOKENS], nr = get_ids(tables, group, ids), end = to / block_tokens[group];

	expect(end <= nr);
	for (u32 i = group == 2 ? end - 1 : from / block_tokens[group]; i < end; i++) {
		struct content want = content_of(prompt, group, i);

		expect(ids[i]);
		expect(!kvmm_block_write(pool[group == 2], ids[i], 0, &want, sizeof(want)));
	}
}

/* The rest of a request, in steps; gives up when there is no room. */
static void run(u64 *r, struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
		u32 done, u32 step)
{
	while (done < NR_TOKENS) {
		u32 to = min(done + step, NR_TOKENS);
		int err = kvmm_groups_reserve(tables, to, 0);

		if (err) {
			expect(err == -ENOSPC);
			kv_fetch_add(&nr_full, 1);
			return;
		}
		for (u32 g = 0; g < NR_GROUPS; g++)
			compute(tables, prompt, g, done, to);
		if (any_of(r, 20) == 0) {
			expect(!kvmm_groups_abort(tables));
			return;
		}
		expect(!kvmm_groups_commit(tables, prompt, to));
		expect(!kvmm_groups_trim(tables, to));
		done = to;
	}
	for (u32 g = 0; g < NR_GROUPS; g++)
		check(tables, prompt, g, done);
}

static void serve(u64 *r, const struct kvmm_prefix *prompt)
{
	u32 step = 8 * (1 + any_of(r, 4));
	struct kvmm_groups_acquire_args req = { .prompt = *prompt, .max_hit_tokens = NR_TOKENS - 1,
						.nr_tokens = NR_TOKENS, .step_tokens = step,
						.reserve = any_of(r, 3) };
	struct kvmm_tables *tables;
	int err = kvmm_groups_acquire(groups, &req, &tables);

	if (err) {
		expect(err == -ENOSPC);
		kv_fetch_add(&nr_full, 1);
		return;
	}
	expect(req.hit_tokens % 8 == 0 && req.hit_tokens < NR_TOKENS);
	kv_fetch_add(&nr_hits, req.hit_tokens > 0);
	for (u32 g = 0; g < NR_GROUPS; g++)
		check(tables, prompt, g, req.hit_tokens);
	run(r, tables, prompt, req.hit_tokens, step);
	kvmm_groups_release(tables);
}

static void *worker(void *arg)
{
	u64 r = (uintptr_t)arg * 7654321 + 1;
	kvmm_key_t keys[NR_TOKENS / 2];
	struct kvmm_prefix prompt = { .keys = keys, .nr = NR_TOKENS / 2 };

	for (u32 round = 0; round < NR_ROUNDS; round++) {
		u32 path = 1 + any_of(&r, 4);

		memset(keys, 0, sizeof(keys));
		for (u32 i = 0; i < NR_TOKENS / 2; i++) {
			path = path * 31 + (any_of(&r, 20) == 0);
			memcpy(keys[i].byte, &path, sizeof(path));
		}
		serve(&r, &prompt);
	}
	return NULL;
}

static int make_pools(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .block_bytes = sizeof(struct content),
				       .policy = "lru", .flags = KVMM_POOL_NULL_BLOCK };
	int err;

	attr.nr_blocks = 80;		/* three prompts want more than that at a time */
	err = kvmm_pool_create(&attr, &pool[0]);
	attr.nr_blocks = 10;
	return err ? err : kvmm_pool_create(&attr, &pool[1]);
}

static int make_groups(void)
{
	struct kvmm_group_attr group[NR_GROUPS] = {
		{ pool[0], KVMM_GROUP_FULL, 4, 0, 0 },
		{ pool[0], KVMM_GROUP_WINDOW, 2, 10, 0 },
		{ pool[1], KVMM_GROUP_LAST, 8, 1, 0 },
	};
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group, .nr = NR_GROUPS };

	return kvmm_groups_create(&attr, &groups);
}

int main(void)
{
	pthread_t thread[NR_THREADS];

	if (make_pools() || make_groups())
		return 1;
	threads_start(thread, NR_THREADS, worker);
	threads_join(thread, NR_THREADS);
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool_stat stat;

		expect(!kvmm_validate(pool[i]));
		expect(!kvmm_pool_get_stat(pool[i], &stat));
		expect(stat.nr_available == stat.nr_blocks);
		expect(stat.evictions > 100);
	}
	expect(nr_hits > 100);
	printf("%u hits, %u did not fit\n", nr_hits, nr_full);
	kvmm_groups_destroy(groups);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	return nr_bad ? 1 : 0;
}
