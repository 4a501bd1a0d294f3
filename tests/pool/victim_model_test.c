// SPDX-License-Identifier: Apache-2.0
/*
 * Run-aware victims against a list: whoever was evicted stood among the first of the plain order,
 * as many as were needed and as the window has; the others kept their places; and what was handed
 * out lies in no more runs, but one, than what plain order would have given. With the goal of
 * emptying pageblocks, those that the cheapest ones need are among the victims, and no fewer are
 * emptied than plain order would have. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	160u
#define WINDOW		12u
#define MAX_NEW		24u
#define PAGEBLOCK	4u
#define NR_PAGEBLOCKS	(NR_BLOCKS / PAGEBLOCK)

static struct model {
	struct kvmm_pool *pool;
	u32 next_key;
	u32 order[NR_BLOCKS];		/* keys that nobody holds, in plain order */
	u32 nr_idle;
	u32 where[1u << 20];		/* block by key */
	kvmm_ref_t held[NR_BLOCKS];
	u32 key[NR_BLOCKS];		/* of those */
	u32 nr_held;
	u64 nr_runs, nr_plain_runs, nr_evicted, nr_emptied, nr_plain_emptied;
	bool empties;
} m;

static u32 count_runs(const bool *is_in)
{
	u32 runs = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		runs += is_in[i] && (!i || !is_in[i - 1]);
	return runs;
}

/* Runs of all that is free and of the first @nr of the order. */
static u32 plain_runs(u32 nr)
{
	bool is_in[NR_BLOCKS];
	const char *now = picture(m.pool);

	for (u32 i = 0; i < NR_BLOCKS; i++)
		is_in[i] = now[i] == '.';
	for (u32 i = 0; i < nr; i++)
		is_in[m.where[m.order[i]]] = true;
	return count_runs(is_in);
}

static u32 runs_of(const kvmm_mut_t *mut, u32 nr)
{
	bool is_in[NR_BLOCKS] = { false };
	int last = -1;

	for (u32 i = 0; i < nr; i++) {
		int block = kvmm_block_of_mut(m.pool, mut[i]);

		cr_assert_gt(block, last);
		is_in[last = block] = true;
	}
	return count_runs(is_in);
}

static u32 nr_in(const bool *is_in, u32 pageblock)
{
	u32 nr = 0;

	for (u32 i = 0; i < PAGEBLOCK; i++)
		nr += is_in[pageblock * PAGEBLOCK + i];
	return nr;
}

static u32 count_whole(const bool *is_in)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_PAGEBLOCKS; i++)
		nr += nr_in(is_in, i) == PAGEBLOCK;
	return nr;
}

/* What plain order would free, or what the window sees; and in @is_free what is free now. */
static void mark_first(u32 nr, bool *is_in, bool *is_free)
{
	const char *now = picture(m.pool);

	for (u32 i = 0; i < NR_BLOCKS; i++)
		is_in[i] = is_free[i] = now[i] == '.';
	for (u32 i = 0; i < nr && i < m.nr_idle; i++)
		is_in[m.where[m.order[i]]] = true;
}

/* The cheapest first, of the same price the lowest, as long as there are victims for them. */
static void mark_pageblocks(u32 nr_missing, bool *must_go)
{
	bool is_in[NR_BLOCKS], is_free[NR_BLOCKS];

	memset(must_go, 0, NR_BLOCKS * sizeof(*must_go));
	mark_first(nr_missing + WINDOW, is_in, is_free);
	for (u32 price = 1; price <= PAGEBLOCK; price++) {
		for (u32 i = 0; i < NR_PAGEBLOCKS && nr_missing >= price; i++) {
			if (nr_in(is_in, i) < PAGEBLOCK || nr_in(is_free, i) + price != PAGEBLOCK)
				continue;
			memset(must_go + i * PAGEBLOCK, true, PAGEBLOCK);
			nr_missing -= price;
		}
	}
}

static void expect_pageblocks(const kvmm_mut_t *mut, u32 nr, u32 nr_plain, const bool *must_go)
{
	bool is_in[NR_BLOCKS] = { false };

	for (u32 i = 0; i < nr; i++)
		is_in[kvmm_block_of_mut(m.pool, mut[i])] = true;
	for (u32 i = 0; i < NR_BLOCKS; i++)
		cr_assert(!must_go[i] || is_in[i], "block %u stays", i);
	cr_assert_geq(count_whole(is_in), nr_plain);
	m.nr_emptied += count_whole(is_in);
	m.nr_plain_emptied += nr_plain;
}

/* Victims come in the order of eviction: so do those who stay. */
static void expect_victims(const kvmm_key_t *evicted, u32 nr)
{
	u32 nr_left = 0, at = 0;

	for (u32 i = 0; i < m.nr_idle; i++) {
		if (at < nr && m.order[i] == number_of(&evicted[at])) {
			cr_assert_lt(i, nr + WINDOW);
			at++;
		} else {
			m.order[nr_left++] = m.order[i];
		}
	}
	cr_assert_eq(at, nr);
	m.nr_idle = nr_left;
	m.nr_evicted += nr;
}

static void publish(const kvmm_mut_t *mut, u32 nr)
{
	kvmm_key_t key;

	for (u32 i = 0; i < nr; i++) {
		key = key_of(m.next_key);
		m.where[m.next_key] = kvmm_block_of_mut(m.pool, mut[i]);
		m.key[m.nr_held] = m.next_key++;
		cr_assert_eq(kvmm_register(m.pool, &mut[i], &key, 1, &m.held[m.nr_held++]), 0);
	}
}

static void expect_goal(const kvmm_mut_t *mut, u32 nr, u32 plain)
{
	if (!m.empties)
		cr_assert_leq(runs_of(mut, nr), plain + 1);
	m.nr_runs += runs_of(mut, nr);
	m.nr_plain_runs += plain;
}

static void take_some(void)
{
	u32 nr = 1 + any(MAX_NEW), nr_free = stat_of(m.pool).nr_free;
	u32 nr_missing = nr > nr_free ? nr - nr_free : 0, plain, plain_whole;
	kvmm_mut_t mut[MAX_NEW];
	kvmm_key_t evicted[MAX_NEW];
	bool is_in[NR_BLOCKS], is_free[NR_BLOCKS], must_go[NR_BLOCKS];
	struct kvmm_acquire_args req = { .nr_blocks = nr, .fresh = mut, .evicted = evicted };

	if (nr_missing > m.nr_idle) {
		cr_assert_eq(kvmm_acquire(m.pool, &req), -ENOSPC);
		return;
	}
	plain = plain_runs(nr_missing);
	mark_first(nr_missing, is_in, is_free);
	plain_whole = count_whole(is_in);
	mark_pageblocks(nr_missing, must_go);
	cr_assert_eq(kvmm_acquire(m.pool, &req), 0);
	cr_assert_eq(req.nr_evicted, nr_missing);
	expect_victims(evicted, req.nr_evicted);
	if (nr_missing)
		expect_goal(mut, nr, plain);
	if (nr_missing && m.empties)
		expect_pageblocks(mut, nr, plain_whole, must_go);
	publish(mut, nr);
}

/* One that is held, from anywhere; and now and then all of them. */
static void drop_some(void)
{
	for (u32 nr = any(8) ? any(6) : m.nr_held; nr-- && m.nr_held;) {
		u32 at = any(4) ? m.nr_held - 1 : any(m.nr_held);

		m.order[m.nr_idle++] = m.key[at];
		cr_assert_eq(kvmm_put_many(m.pool, &m.held[at], 1), 0);
		m.held[at] = m.held[--m.nr_held];
		m.key[at] = m.key[m.nr_held];
	}
}

static void forget_some(void)
{
	u32 at = m.nr_idle ? any(m.nr_idle) : 0;

	if (!m.nr_idle || any(4))
		return;
	cr_assert_eq(kvmm_evict_blocks(m.pool, &m.where[m.order[at]], 1), 1);
	memmove(m.order + at, m.order + at + 1, (--m.nr_idle - at) * sizeof(*m.order));
}

static void run_model(void)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = WINDOW,
					 .pageblock_blocks = m.empties ? PAGEBLOCK : 0 };
	u64 seed = test_number("KVMM_SEED", 20250311), nr = test_length("KVMM_MODEL_OPS", 3000);
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .evict = &evict };

	any_state = seed | 1;
	m.pool = make_pool_of(&attr);
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	for (u64 i = 0; i < nr && m.next_key + MAX_NEW < ARRAY_SIZE(m.where); i++) {
		take_some();
		drop_some();
		forget_some();
		if (i % 16 == 0)
			cr_assert_eq(kvmm_validate(m.pool), 0);
	}
	cr_expect_gt(m.nr_evicted, nr);
	end_pool(m.pool);
}

Test(victim_model, victims_are_near_the_end_and_nobody_else_moves)
{
	run_model();
	cr_expect_lt(m.nr_runs, m.nr_plain_runs);
	fprintf(stderr, "%llu runs, %llu in plain order\n", (unsigned long long)m.nr_runs,
		(unsigned long long)m.nr_plain_runs);
}

Test(victim_model, pageblocks_are_emptied_cheapest_first_and_nobody_else_moves)
{
	m.empties = true;
	run_model();
	cr_expect_gt(m.nr_emptied, m.nr_plain_emptied);
	fprintf(stderr, "%llu pageblocks, %llu in plain order\n", (unsigned long long)m.nr_emptied,
		(unsigned long long)m.nr_plain_emptied);
}
