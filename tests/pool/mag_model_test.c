// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls of several threads, one at a time, against a model that knows no magazines: how many
 * blocks are free, which handles are good, which names are cached, and who is evicted next.
 *
 * Whatever threads keep aside, a call must succeed if and only if so many blocks are free or can be
 * evicted, evict exactly the shortfall and in a large pool a few more, leave what watermarks want,
 * and hand no thread a block that another one has. Threads die with full magazines and others are
 * born. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include <pthread.h>

#include "percpu/mag.h"
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	1024u
#define NR_MANY		8192u		/* with some to spare, which stay aside */
#define NR_THREADS	4u		/* the test's own is number 0 */
#define MAX_BATCH	80u
#define MAX_RANGE	4u		/* a run for each block: it cannot fail for want of one */
#define MAX_RANGES	32u
#define MAX_NAMES	(1u << 20)

struct range {
	kvmm_range_t range;
	u32 nr;
};

static struct model {
	struct kvmm_pool *pool;
	u32 nr_held;
	u32 nr_blocks;
	u32 low;			/* watermark */
	kvmm_mut_t held[NR_MANY];
	bool is_held[NR_MANY];		/* by block */
	u32 nr_ranges;
	struct range range[MAX_RANGES];
	u32 range_blocks;
	u32 first_name, next_name;	/* cached, oldest first: all between them */
	u64 allocs, alloc_blocks, frees, evictions;
	u64 nr_local_seen;		/* how often something was aside */
	u64 nr_extra;			/* evicted beyond what was missing */
} m;

/* ---- threads that do what they are told, one at a time ---- */

struct hand {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int (*call)(void *arg);		/* ->lock; NULL: done */
	void *arg;
	int ret;
	bool ends;
};

static struct hand hands[NR_THREADS];

static void *obey(void *arg)
{
	struct hand *hand = arg;

	pthread_mutex_lock(&hand->lock);
	while (!hand->ends) {
		if (hand->call) {
			hand->ret = hand->call(hand->arg);
			hand->call = NULL;
			pthread_cond_broadcast(&hand->cond);
		}
		if (!hand->ends)
			pthread_cond_wait(&hand->cond, &hand->lock);
	}
	pthread_mutex_unlock(&hand->lock);
	return NULL;
}

static void start_hand(struct hand *hand)
{
	*hand = (struct hand){ .lock = PTHREAD_MUTEX_INITIALIZER,
			       .cond = PTHREAD_COND_INITIALIZER };
	cr_assert_eq(pthread_create(&hand->thread, NULL, obey, hand), 0);
}

static void end_hand(struct hand *hand)
{
	pthread_mutex_lock(&hand->lock);
	hand->ends = true;
	pthread_cond_broadcast(&hand->cond);
	pthread_mutex_unlock(&hand->lock);
	pthread_join(hand->thread, NULL);
}

/* @call by some thread. */
static int somebody(int (*call)(void *arg), void *arg)
{
	u32 who = any(NR_THREADS);
	struct hand *hand = &hands[who];

	if (!who)
		return call(arg);
	pthread_mutex_lock(&hand->lock);
	hand->call = call;
	hand->arg = arg;
	pthread_cond_broadcast(&hand->cond);
	while (hand->call)
		pthread_cond_wait(&hand->cond, &hand->lock);
	pthread_mutex_unlock(&hand->lock);
	return hand->ret;
}

/* ---- the model ---- */

static u32 nr_cached(void)
{
	return m.next_name - m.first_name;
}

static u32 nr_free(void)
{
	return m.nr_blocks - m.nr_held - m.range_blocks - nr_cached();
}

/* So many blocks are to be handed out: may they, and who goes for them? */
static bool model_take(u32 nr)
{
	u32 shortfall = nr && nr + m.low > nr_free() ? nr + m.low - nr_free() : 0;

	if (shortfall > nr_cached())
		return false;
	m.first_name += shortfall;
	m.evictions += shortfall;
	m.allocs += nr > 0;
	m.alloc_blocks += nr;
	return true;
}

/* More may be evicted than is missing, while those in the zone are less than a batch. */
static void expect_few_extra(u64 evictions)
{
	u64 extra = evictions - m.evictions;

	m.nr_extra += extra;
	m.first_name += extra;
	m.evictions = evictions;
	cr_assert_leq(extra, m.pool->spare);
	cr_assert(!extra || nr_free() < m.pool->spare + m.low + MAG_ROUNDS);
}

static void expect_counts(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);

	expect_few_extra(stat.evictions);
	cr_assert_eq(stat.nr_free, nr_free());
	cr_assert_eq(stat.nr_available, nr_free() + nr_cached());
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_PRIVATE], m.nr_held);
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_INACTIVE], nr_cached());
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_FREE], nr_free());
	cr_assert_eq(stat.allocs, m.allocs);
	cr_assert_eq(stat.alloc_blocks, m.alloc_blocks);
	cr_assert_eq(stat.frees, m.frees);
	cr_assert_eq(stat.evictions, m.evictions);
	kv_lock(&m.pool->lock);
	m.nr_local_seen += pool_nr_local(m.pool) != 0;
	kv_unlock(&m.pool->lock);
}

/* Cached are exactly those that were not evicted, the oldest of which are gone first. */
static void expect_names(void)
{
	for (u32 i = 0; i < 4; i++) {
		u32 name = any(m.next_name + 1);
		kvmm_key_t key = key_of(name);
		bool is_there = name >= m.first_name && name < m.next_name;

		cr_assert_eq(kvmm_match_len(m.pool, &key, 1), is_there, "%u", name);
	}
}

/* ---- calls ---- */

struct batch {
	u32 nr;
	kvmm_mut_t mut[MAX_BATCH];
};

static int call_alloc(void *arg)
{
	struct batch *batch = arg;

	return kvmm_alloc(m.pool, batch->nr, batch->mut);
}

static int call_acquire(void *arg)
{
	struct batch *batch = arg;
	struct kvmm_acquire_args req = { .nr_blocks = batch->nr, .fresh = batch->mut };

	return kvmm_acquire(m.pool, &req);
}

static void hold(kvmm_mut_t mut)
{
	int block = kvmm_block_of_mut(m.pool, mut);

	cr_assert_geq(block, 0);
	cr_assert(!m.is_held[block], "block %d has an owner", block);
	m.is_held[block] = true;
	m.held[m.nr_held++] = mut;
}

static u32 any_nr(void)
{
	return any(2) ? 1 : 1 + any(MAX_BATCH);
}

static void do_alloc(void)
{
	struct batch batch = { .nr = any_nr() };
	bool fits = model_take(batch.nr);
	int err = somebody(any(8) ? call_alloc : call_acquire, &batch);

	cr_assert_eq(err, fits ? 0 : -ENOSPC, "%u of %u: %d", batch.nr, nr_free(), err);
	for (u32 i = 0; fits && i < batch.nr; i++)
		hold(batch.mut[i]);
}

static int call_free(void *arg)
{
	struct batch *batch = arg;

	return kvmm_free(m.pool, batch->mut, batch->nr);
}

static kvmm_mut_t drop(u32 at)
{
	kvmm_mut_t mut = m.held[at];

	m.is_held[kvmm_block_of_mut(m.pool, mut)] = false;
	m.held[at] = m.held[--m.nr_held];
	return mut;
}

static void do_free(void)
{
	struct batch batch = { .nr = min(any_nr(), m.nr_held) };

	for (u32 i = 0; i < batch.nr; i++)
		batch.mut[i] = drop(any(m.nr_held));
	cr_assert_eq(somebody(call_free, &batch), 0);
	m.frees += batch.nr != 0;
	if (batch.nr)
		cr_assert_eq(somebody(call_free, &batch), -ESTALE);
}

/* One of the batch is no good: none is freed. */
static void do_wrong_free(void)
{
	struct batch batch = { .nr = min(any_nr(), m.nr_held) };
	u32 at = any(max(batch.nr, 1u));

	for (u32 i = 0; i < batch.nr; i++)
		batch.mut[i] = m.held[m.nr_held - 1 - i];
	if (!batch.nr)
		return;
	if (any(2) || batch.nr == 1)
		batch.mut[at].gen++;
	else
		batch.mut[at] = batch.mut[at ? 0 : 1];
	cr_assert_eq(somebody(call_free, &batch), -EINVAL);
}

static int call_register(void *arg)
{
	kvmm_key_t key = key_of(m.next_name);
	kvmm_ref_t ref;
	int err = kvmm_register(m.pool, arg, &key, 1, &ref);

	return err ? err : kvmm_put(m.pool, ref);
}

static void do_register(void)
{
	for (u32 nr = any(16); nr && m.nr_held && m.next_name < MAX_NAMES; nr--) {
		kvmm_mut_t mut = drop(any(m.nr_held));

		cr_assert_eq(somebody(call_register, &mut), 0);
		m.next_name++;
	}
}

static int call_range(void *arg)
{
	struct range *range = arg;

	return kvmm_range_alloc(m.pool, range->nr, 0, &range->range);
}

static void do_range(void)
{
	struct range range = { .nr = 1 + any(MAX_RANGE) };
	bool fits;

	if (m.nr_ranges == MAX_RANGES)
		return;
	fits = model_take(range.nr);
	cr_assert_eq(somebody(call_range, &range), fits ? 0 : -ENOSPC);
	if (!fits)
		return;
	m.range[m.nr_ranges++] = range;
	m.range_blocks += range.nr;
}

static int call_range_free(void *arg)
{
	return kvmm_range_free(m.pool, ((struct range *)arg)->range);
}

static void do_range_free(void)
{
	u32 at;

	if (!m.nr_ranges)
		return;
	at = any(m.nr_ranges);
	cr_assert_eq(somebody(call_range_free, &m.range[at]), 0);
	m.range_blocks -= m.range[at].nr;
	m.range[at] = m.range[--m.nr_ranges];
	m.frees++;
}

static int call_compact(void *arg)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = *(u32 *)arg };

	return kvmm_pool_compact(m.pool, &goal);
}

/* What is private stays where it is. */
static void do_compact(void)
{
	u32 run = any(64);
	int err = somebody(call_compact, &run);

	cr_assert(!err || err == -ENOSPC, "%d", err);
	for (u32 i = 0; i < m.nr_held; i++)
		cr_assert(m.is_held[kvmm_block_of_mut(m.pool, m.held[i])]);
}

static int call_validate(void *arg)
{
	return kvmm_validate(m.pool);
}

static int call_reset(void *arg)
{
	return kvmm_reset_inactive(m.pool);
}

static void do_reset(void)
{
	cr_assert_eq(somebody(call_reset, NULL), (int)nr_cached());
	m.first_name = m.next_name;
}

static void do_death(void)
{
	struct hand *hand = &hands[1 + any(NR_THREADS - 1)];

	end_hand(hand);
	start_hand(hand);
}

static void step(void)
{
	static const struct {
		u32 weight;
		void (*call)(void);
	} calls[] = {
		{ 40, do_alloc }, { 37, do_free }, { 4, do_wrong_free }, { 8, do_register },
		{ 4, do_range }, { 4, do_range_free }, { 1, do_compact }, { 1, do_death },
	};
	u32 pick = any(99);

	if (!any(100))
		cr_assert_eq(somebody(call_validate, NULL), 0);
	if (!any(1000))
		do_reset();
	for (u32 i = 0; i < ARRAY_SIZE(calls); i++) {
		if (pick < calls[i].weight) {
			calls[i].call();
			return;
		}
		pick -= calls[i].weight;
	}
}

/* Random calls alone do not fill a pool of many blocks. */
static void fill(void)
{
	while (m.nr_blocks == NR_MANY && nr_free() > 64) {
		do_alloc();
		for (u32 i = 0; i < 4; i++)
			do_register();
	}
}

static void run(u32 flags, u32 nr_blocks, u32 low, u64 seed, u64 nr_ops)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door), .marks = { low / 2, low, 2 * low } };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .alloc = &door };

	memset(&m, 0, sizeof(m));
	m.nr_blocks = nr_blocks;
	m.low = low;
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	attr.flags = flags;
	m.pool = make_pool_of(&attr);
	for (u32 i = 1; i < NR_THREADS; i++)
		start_hand(&hands[i]);
	fill();
	for (u64 i = 0; i < nr_ops; i++) {
		step();
		expect_counts();
		expect_names();
	}
	for (u32 i = 1; i < NR_THREADS; i++)
		end_hand(&hands[i]);
	cr_expect_eq(kvmm_validate(m.pool), 0);
	kvmm_pool_destroy(m.pool);
}

Test(mag_model, what_threads_keep_aside_is_free_for_all, .timeout = 600)
{
	u64 seed = test_number("KVMM_SEED", 1), nr_ops = test_length("KVMM_MODEL_OPS", 20000);

	cr_log_info("seed %llu", (unsigned long long)seed);
	for (u32 i = 0; i < 4; i++) {
		run(0, i % 2 ? NR_MANY : NR_BLOCKS, i / 2 * 20, seed + i, nr_ops / 2);
		cr_expect_gt(m.nr_local_seen, nr_ops / 20);	/* else nothing was tried */
		cr_expect_eq(m.nr_extra != 0, i % 2);
	}
	run(KVMM_POOL_NO_MAGAZINES, NR_BLOCKS, 0, seed, nr_ops / 4);
	cr_expect_eq(m.nr_local_seen, 0);
}
