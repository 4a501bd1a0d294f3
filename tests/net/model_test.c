// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs in both directions between two pools, at random: begun, polled, cancelled, resumed, told that
 * the sequence has stopped, freed, beside steps, evictions and allocations. Each range is in one place, and each block that is found is right.
 *
 * The model knows which ranges there are, and nothing of jobs: whatever those do, a range is there, once
 * at rest and at least once on the way, and its bytes are its own.
 */
#include "tests/net/util.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#define NR_POOLS	2u
#define NR_BLOCKS	96u
#define NR_JOBS		4u
#define NR_SEQS		12u
#define NR_KEYS		60u
#define OPS		6000u

static struct model {
	struct kvmm_pool *pool[NR_POOLS];
	struct kvmm_migrate *job[NR_JOBS];
	u32 seq_len[NR_SEQS];		/* 0: there is none */
	kvmm_stream_t stream[NR_POOLS];
	uint64_t epoch[NR_POOLS];
	bool open[NR_POOLS];
	u32 nr_done, nr_cancelled, nr_failed;
} m;

static u32 nr_ranges(u32 seq)
{
	return kvmm_range_find_seq(m.pool[0], seq + 1, NULL, 0) +
	       kvmm_range_find_seq(m.pool[1], seq + 1, NULL, 0);
}

static void new_range(void)
{
	u32 seq = any(NR_SEQS), len = 1 + any(9);
	struct kvmm_pool *pool = m.pool[any(NR_POOLS)];
	struct kvmm_pool_stat stat;
	kvmm_range_t range;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	if (m.seq_len[seq] || stat.nr_available < len + 8 || stat.largest < len)
		return;
	range = net_range(pool, seq + 1, len, 0);
	if (any(2))
		cr_assert_eq(kvmm_range_seal(pool, range, any(len + 1)), 0);
	m.seq_len[seq] = len;
}

static void drop_range(void)
{
	u32 seq = any(NR_SEQS);

	for (u32 i = 0; i < NR_JOBS; i++)	/* whose it is, is the jobs' to say */
		if (m.job[i])
			return;
	if (!m.seq_len[seq])
		return;
	cr_assert_eq(kvmm_range_free_seq(m.pool[0], seq + 1) +
		     kvmm_range_free_seq(m.pool[1], seq + 1), 1);
	m.seq_len[seq] = 0;
}

static void new_keys(void)
{
	struct kvmm_pool *pool = m.pool[any(NR_POOLS)];
	u32 first = any(NR_KEYS), nr = 1 + any(4);
	struct kvmm_pool_stat stat;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	if (stat.nr_available > nr + 30 && !net_cached(pool, first, nr))
		net_cache(pool, first, nr);
}

static void start_job(void)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	u32 i = any(NR_JOBS), from = any(NR_POOLS), key = any(NR_KEYS);
	kvmm_key_t keys[8];
	struct kvmm_prefix prefix = { keys, 8, 0, NULL, { 0, 0, 0 } };
	int err;

	if (m.job[i])
		return;
	attr.src = m.pool[from];
	attr.dst = m.pool[!from];
	attr.what = any(2) ? KVMM_MIGRATE_SEQ : KVMM_MIGRATE_KEYS;
	attr.seq = 1 + any(NR_SEQS);
	attr.prefix = &prefix;
	for (u32 k = 0; k < 8; k++)
		keys[k] = net_key(key + k);
	attr.flags = (any(2) ? KVMM_MIGRATE_NO_EVICT : 0) | (any(3) ? 0 : KVMM_MIGRATE_IDLE_ONLY);
	if (attr.what == KVMM_MIGRATE_KEYS && !any(3))
		attr.flags |= KVMM_MIGRATE_COPY;
	if (attr.what == KVMM_MIGRATE_SEQ && !any(3))
		attr.flags |= KVMM_MIGRATE_PRECOPY;
	attr.chunk_bytes = NET_BLOCK_BYTES * (1 + any(4));
	err = kvmm_migrate_start(&attr, &m.job[i]);
	cr_assert(!err || err == -ENOENT || err == -EBUSY, "%d", err);
	if (err)
		m.job[i] = NULL;
}

static void end_job(u32 i)
{
	kvmm_migrate_free(m.job[i]);
	m.job[i] = NULL;
}

static void poll_job(void)
{
	u32 i = any(NR_JOBS);
	int err;

	if (!m.job[i])
		return;
	err = kvmm_migrate_poll(m.job[i]);
	cr_assert(!err || err == -EINPROGRESS || err == -ECANCELED || err == -ENOSPC, "%d", err);
	if (err == -ENOSPC && any(2)) {
		err = kvmm_migrate_resume(m.job[i]);
		cr_assert(!err || err == -ESTALE || err == -EBUSY, "%d", err);
		m.nr_failed++;
		if (!err)
			return;
	}
	if (err == -EINPROGRESS)
		return;
	m.nr_done += !err;
	end_job(i);
}

/* Not in the grace: steps may read the source. */
static void stop_job(void)
{
	u32 i = any(NR_JOBS);

	if (!m.job[i] || any(3))
		return;
	if (any(2)) {
		m.nr_cancelled += !kvmm_migrate_cancel(m.job[i]);
		return;
	}
	if (net_status(m.job[i]).phase != KVMM_MIGRATE_GRACE)
		end_job(i);
}

static void stop_seq(void)
{
	u32 i = any(NR_JOBS);

	if (m.job[i])
		kvmm_migrate_finish(m.job[i]);
}

static void toggle_step(void)
{
	u32 p = any(NR_POOLS);

	if (m.open[p])
		cr_assert_eq(kvmm_step_end(m.pool[p], m.stream[p], m.epoch[p]), 0);
	else
		cr_assert_eq(kvmm_step_begin(m.pool[p], m.stream[p], &m.epoch[p]), 0);
	m.open[p] = !m.open[p];
}

static void evict(void)
{
	u32 block = any(NR_BLOCKS);

	cr_assert_geq(kvmm_evict_blocks(m.pool[any(NR_POOLS)], &block, 1), 0);
}

static void compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + any(20) };

	kvmm_compact_start(m.pool[any(NR_POOLS)], &goal, any(KVMM_NR_MOVE_MODES));
	kvmm_compact_poll(m.pool[0]);
	kvmm_compact_poll(m.pool[1]);
}

/* All that may move does, at once. */
static void pack(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(2) ? 0 : 30 };

	kvmm_pool_compact(m.pool[any(NR_POOLS)], &goal);
}

static void check_ranges(bool at_rest)
{
	for (u32 seq = 0; seq < NR_SEQS; seq++) {
		u32 nr = nr_ranges(seq);

		cr_assert(m.seq_len[seq] ? nr >= 1 : nr == 0, "sequence %u: %u", seq, nr);
		cr_assert(!at_rest || nr == !!m.seq_len[seq], "sequence %u: %u", seq, nr);
		for (u32 p = 0; p < NR_POOLS; p++) {
			kvmm_range_t range;

			if (kvmm_range_find_seq(m.pool[p], seq + 1, &range, 1) == 1)
				cr_assert(net_range_is(m.pool[p], range, seq + 1, m.seq_len[seq]),
					  "sequence %u", seq);
		}
	}
}

static void check(bool at_rest)
{
	check_ranges(at_rest);
	for (u32 p = 0; p < NR_POOLS; p++) {
		cr_assert_eq(kvmm_validate(m.pool[p]), 0);
		cr_assert_geq(net_cached(m.pool[p], 0, NR_KEYS + 8), 0, "a name with other content");
	}
}

static void (*const ops[])(void) = {
	new_range, drop_range, new_keys, start_job, start_job, poll_job, poll_job, poll_job, poll_job,
	stop_job, stop_seq, toggle_step, toggle_step, evict, compact, pack,
};

/* All jobs end, and everything that they had goes back. */
static void finish(void)
{
	for (u32 p = 0; p < NR_POOLS; p++)
		if (m.open[p])
			cr_assert_eq(kvmm_step_end(m.pool[p], m.stream[p], m.epoch[p]), 0);
	for (u32 i = 0; i < NR_JOBS; i++) {
		if (m.job[i]) {
			kvmm_migrate_finish(m.job[i]);
			kvmm_migrate_wait(m.job[i], 1000000000);
		}
		end_job(i);
	}
	check(true);
	for (u32 p = 0; p < NR_POOLS; p++) {
		struct kvmm_pool_stat stat;

		for (u32 seq = 0; seq < NR_SEQS; seq++)
			kvmm_range_free_seq(m.pool[p], seq + 1);
		kvmm_compact_cancel(m.pool[p]);
		kvmm_reset_inactive(m.pool[p]);
		cr_assert_eq(kvmm_stream_del(m.pool[p], m.stream[p]), 0);
		kvmm_compact_poll(m.pool[p]);
		cr_assert_eq(kvmm_pool_get_stat(m.pool[p], &stat), 0);
		cr_expect_eq(stat.nr_free, NR_BLOCKS, "%u held", NR_BLOCKS - stat.nr_free);
		kvmm_pool_destroy(m.pool[p]);
	}
}

static void run(u64 seed)
{
	m = (struct model){ .nr_done = 0 };
	any_state = seed;
	for (u32 p = 0; p < NR_POOLS; p++) {
		m.pool[p] = net_pool("host", NR_BLOCKS);
		cr_assert_eq(kvmm_stream_add(m.pool[p], NULL, 0, &m.stream[p]), 0);
	}
	for (u32 i = 0; i < OPS; i++) {
		ops[any(ARRAY_SIZE(ops))]();
		if (i % 16 == 0)
			check(false);
	}
	finish();
	cr_expect_gt(m.nr_done, 100);
	cr_expect_gt(m.nr_cancelled, 2);
}

Test(migrate_model, ranges_and_names_survive_whatever_jobs_do)
{
	const char *env = getenv("KVMM_MODEL_SEED");
	u64 seed = env ? strtoull(env, NULL, 0) : 1;

	for (u64 i = 0; i < 4; i++) {
		fprintf(stderr, "KVMM_MODEL_SEED=%llu\n", (unsigned long long)(seed + i));
		run(seed + i);
	}
}
