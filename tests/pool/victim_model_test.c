// SPDX-License-Identifier: Apache-2.0
/*
 * Run-aware victims against a list: whoever was evicted stood among the first of the plain order, as
 * many as were needed and as the window has; the others kept their places; and what was handed out lies
 * in no more runs, but one, than what plain order would have given. KVMM_SEED and KVMM_MODEL_OPS choose
 * the run.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pool/util.h"

#define NR_BLOCKS	160u
#define WINDOW		12u
#define MAX_NEW		24u

static struct model {
	struct kvmm_pool *pool;
	u64 random;
	u32 next_key;
	u32 order[NR_BLOCKS];		/* keys that nobody holds, in plain order */
	u32 nr_idle;
	u32 where[1u << 20];		/* block by key */
	kvmm_ref_t held[NR_BLOCKS];
	u32 key[NR_BLOCKS];		/* of those */
	u32 nr_held;
	u64 nr_runs, nr_plain_runs, nr_evicted;
} m;

static u32 any(u32 below)
{
	m.random ^= m.random << 13;
	m.random ^= m.random >> 7;
	m.random ^= m.random << 17;
	return (m.random >> 20) % below;
}

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

static void take_some(void)
{
	u32 nr = 1 + any(MAX_NEW), nr_free = stat_of(m.pool).nr_free;
	u32 nr_missing = nr > nr_free ? nr - nr_free : 0, plain;
	kvmm_mut_t mut[MAX_NEW];
	kvmm_key_t evicted[MAX_NEW];
	struct kvmm_acquire req = { .nr_blocks = nr, .fresh = mut, .evicted = evicted };

	if (nr_missing > m.nr_idle) {
		cr_assert_eq(kvmm_acquire(m.pool, &req), -ENOSPC);
		return;
	}
	plain = plain_runs(nr_missing);
	cr_assert_eq(kvmm_acquire(m.pool, &req), 0);
	cr_assert_eq(req.nr_evicted, nr_missing);
	expect_victims(evicted, req.nr_evicted);
	if (nr_missing) {
		cr_assert_leq(runs_of(mut, nr), plain + 1);
		m.nr_runs += runs_of(mut, nr);
		m.nr_plain_runs += plain;
	}
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

static u64 number_from(const char *name, u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

Test(victim_model, victims_are_near_the_end_and_nobody_else_moves)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = WINDOW };
	u64 seed = number_from("KVMM_SEED", 20250311), nr = number_from("KVMM_MODEL_OPS", 3000);
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.evict = &evict;
	m.random = seed | 1;
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
	cr_expect_lt(m.nr_runs, m.nr_plain_runs);
	fprintf(stderr, "%llu runs, %llu in plain order\n", (unsigned long long)m.nr_runs,
		(unsigned long long)m.nr_plain_runs);
	end_pool(m.pool);
}
