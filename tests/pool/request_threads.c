// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads, each with several sequences, over one pool that is too small for all of them, while a
 * third one compacts, validates, and copies blocks to and from a tier below.
 *
 * Each thread plays the engine and its device: the K/V of a token is a hash of all tokens up to it,
 * written by each step to the blocks that the table names, drafts included, and what is computed must
 * be found there at each look. Tables are true until the next compaction, so the device holds a lock
 * that the compaction takes: the step boundary of a real engine. Exit code 0: nothing contradicted
 * that, and nothing is left behind.
 */
#include <kvmm/ext/seq.h>

#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	48u
#define BLOCK_TOKENS	4u
#define BLOCK_BYTES	(BLOCK_TOKENS * sizeof(u64))
#define NR_SEQS		4u
#define MAX_TOKENS	64u
#define NR_ROUNDS	60000u
#define NR_UNITS	64u
#define WAIT_NS		200000u

static struct kvmm_tier *tier;
static struct kvmm_pool *pool;
static struct kvmm_key_ctx *ctx;
static pthread_rwlock_t step_boundary = PTHREAD_RWLOCK_INITIALIZER;
static u32 stop;	/* atomic */

static u64 kv_next(u64 hash, u32 token)
{
	return (hash ^ token) * 0xff51afd7ed558ccdull + (hash >> 29);
}

/* Write, or look for, the K/V of tokens @from to @to - 1. */
static void touch_kv(struct kvmm_seq *seq, const u32 *token, u32 from, u32 to, bool write)
{
	u32 ids[MAX_TOKENS];
	u64 hash = 1, kv;

	pthread_rwlock_rdlock(&step_boundary);
	expect(kvmm_seq_block_table(seq, ids, MAX_TOKENS) >= 0);
	for (u32 i = 0; i < to; i++) {
		u32 block = ids[i / BLOCK_TOKENS], at = i % BLOCK_TOKENS * sizeof(kv);

		hash = kv_next(hash, token[i]);
		if (i < from)
			continue;
		if (write) {
			expect(!kvmm_block_write(pool, block, at, &hash, sizeof(hash)));
			continue;
		}
		expect(!kvmm_block_read(pool, block, at, &kv, sizeof(kv)));
		expect(kv == hash);
	}
	pthread_rwlock_unlock(&step_boundary);
}

static struct kvmm_seq *new_seq(u64 *r)
{
	struct kvmm_seq *seq = NULL;
	u32 token[MAX_TOKENS], root = any_of(r, 3);
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = ctx, .prompt = token };

	attr.nr_prompt = 1 + any_of(r, MAX_TOKENS / 2);
	attr.max_output = any_of(r, MAX_TOKENS / 2);
	attr.wait_ns = any_of(r, 3) ? WAIT_NS : 0;
	for (u32 i = 0; i < attr.nr_prompt; i++)
		token[i] = any_of(r, 30) ? root * 100 + i : any_of(r, 5);
	expect(!kvmm_seq_create(pool, &attr, &seq));
	return seq;
}

/* A step with K/V written by the "device", drafts included; then some of them are accepted. */
static void speculate(u64 *r, struct kvmm_seq *seq, u32 *token,
		      const struct kvmm_seq_info *info)
{
	u32 draft[4] = { any_of(r, 5), any_of(r, 5), any_of(r, 5), any_of(r, 5) };
	int nr = kvmm_seq_schedule_speculative(seq, draft, any_of(r, 5));

	if (nr == -ENOSPC) {
		expect(!kvmm_seq_release(seq));
		return;
	}
	expect(nr >= 0);
	memcpy(token + info->nr_tokens, draft, sizeof(draft));
	touch_kv(seq, token, info->nr_computed, info->nr_tokens + nr, true);
	if (!any_of(r, 8))
		expect(!kvmm_seq_revert(seq));
	else
		expect(kvmm_seq_accept(seq, any_of(r, nr + 1), any_of(r, 5)) >= 0);
}

static void prefill(u64 *r, struct kvmm_seq *seq, const u32 *token,
		    const struct kvmm_seq_info *info)
{
	u32 nr = 1 + any_of(r, info->nr_waiting), next = any_of(r, 5);
	bool yields = nr == info->nr_waiting && info->nr_remaining;
	int err = kvmm_seq_schedule_prefill(seq, nr);

	if (err == -ENOSPC) {
		expect(!kvmm_seq_release(seq));
		return;
	}
	expect(!err);
	touch_kv(seq, token, info->nr_computed, info->nr_computed + nr, true);
	expect(kvmm_seq_apply(seq, &next, yields) >= 0);
}

/* False: the request has ended. */
static bool go_on(u64 *r, struct kvmm_seq *seq)
{
	u32 token[MAX_TOKENS + 8];
	struct kvmm_seq_info info;
	int err;

	expect(!kvmm_seq_get_info(seq, &info));
	expect(kvmm_seq_tokens(seq, 0, token, MAX_TOKENS) == (int)info.nr_tokens);
	touch_kv(seq, token, 0, info.nr_computed, false);
	if (info.state == KVMM_SEQ_TAKING && !any_of(r, 8)) {
		expect(!kvmm_seq_release(seq));
	} else if (info.state == KVMM_SEQ_TAKING || (!info.nr_blocks && any_of(r, 4))) {
		err = any_of(r, 2) ? kvmm_seq_match(seq) : kvmm_seq_acquire(seq);
		expect(err >= 0 || err == -ENOSPC || err == -EINPROGRESS);
	} else if (info.nr_waiting) {
		prefill(r, seq, token, &info);
	} else if (info.nr_remaining) {
		speculate(r, seq, token, &info);
	}
	return info.nr_waiting || info.nr_remaining;
}

static void *serve(void *arg)
{
	u64 r = (uintptr_t)arg * 1234567 + 1;
	struct kvmm_seq *seq[NR_SEQS];

	for (u32 i = 0; i < NR_SEQS; i++)
		seq[i] = new_seq(&r);
	for (u32 round = 0; round < NR_ROUNDS; round++) {
		u32 i = any_of(&r, NR_SEQS);

		if (go_on(&r, seq[i]))
			continue;
		kvmm_seq_destroy(seq[i]);
		seq[i] = new_seq(&r);
	}
	for (u32 i = 0; i < NR_SEQS; i++)
		kvmm_seq_destroy(seq[i]);
	return NULL;
}

static void *disturb(void *arg)
{
	while (!READ_ONCE(stop)) {
		struct kvmm_compact goal = { .size = sizeof(goal) };

		pthread_rwlock_wrlock(&step_boundary);
		kvmm_pool_compact(pool, &goal);
		pthread_rwlock_unlock(&step_boundary);
		kvmm_tier_poll(pool);
		expect(!kvmm_validate(pool));
	}
	return NULL;
}

static int set_up(void)
{
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_key_attr key_attr = { .size = sizeof(key_attr), .block_tokens = BLOCK_TOKENS };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .block_bytes = BLOCK_BYTES, .block_tokens = BLOCK_TOKENS,
				       .policy = "lru", .host_attr = &client };
	int err;

	client.config = &config;
	host.capacity_blocks = NR_UNITS;
	host.block_bytes = BLOCK_BYTES;
	err = kvmm_tier_host_create(&host, &tier);
	attr.host = tier;
	config.write = KVMM_TIER_THROUGH;
	if (!err)
		err = kvmm_key_ctx_create(&key_attr, &ctx);
	return err ? err : kvmm_pool_create(&attr, &pool);
}

int main(void)
{
	pthread_t server[2], disturber;
	struct kvmm_tier_client_stat below;
	struct kvmm_pool_stat stat;

	if (set_up())
		return 1;
	threads_start(server, 2, serve);
	pthread_create(&disturber, NULL, disturb, NULL);
	threads_join(server, 2);
	WRITE_ONCE(stop, 1);
	pthread_join(disturber, NULL);
	while (kvmm_tier_poll(pool) > 0)
		;
	expect(!kvmm_validate(pool));
	expect(!kvmm_tier_client_get_stat(pool, &below, sizeof(below)));
	expect(below.loads && !below.nr_ops);
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_available == stat.nr_blocks);
	expect(stat.evictions && stat.hit_blocks && stat.fail_nospc);
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	kvmm_key_ctx_destroy(ctx);
	return nr_bad ? 1 : 0;
}
