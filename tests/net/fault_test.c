// SPDX-License-Identifier: Apache-2.0
/* Host memory that runs out in the middle of a migration: refused or failed, and nothing has changed. */
#include "tests/net/pair.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

static struct fake_env fake;

/* A range; cached blocks of which some are there already; a range that is written meanwhile. */
enum what { RANGE, KEYS, DECODES, NR_WHATS };

static struct kvmm_migrate_attr make_goods(struct kvmm_pool *src, struct kvmm_pool *dst,
					   enum what what, kvmm_ref_t *refs)
{
	struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = src };

	if (what != KEYS) {
		attr.range = net_range(src, 'a', what == DECODES ? 1 : 6, 1);
		attr.flags = what == DECODES ? KVMM_MIGRATE_PRECOPY : 0;
		return attr;
	}
	net_cache(src, 0, 6);
	net_cache(dst, 2, 2);
	net_match(src, 0, 6, refs);
	attr.what = KVMM_MIGRATE_REFS;
	attr.refs = refs;
	attr.nr_refs = 6;
	return attr;
}

static void expect_moved(struct kvmm_pool *src, struct kvmm_pool *dst, enum what what, u32 n)
{
	kvmm_range_t range;

	if (what == KEYS) {
		cr_expect_eq(net_cached(src, 0, 6), 0, "%u", n);
		cr_expect_eq(net_cached(dst, 0, 6), 6, "%u", n);
		return;
	}
	cr_expect_eq(kvmm_range_find_seq(src, 'a', NULL, 0), 0, "%u", n);
	cr_assert_eq(kvmm_range_find_seq(dst, 'a', &range, 1), 1, "%u", n);
	cr_expect(net_range_is(dst, range, 'a', 6), "%u", n);
}

static void expect_unmoved(struct kvmm_pool *src, struct kvmm_pool *dst, enum what what, u32 n)
{
	cr_expect_eq(kvmm_validate(src), 0, "%u", n);
	cr_expect_eq(kvmm_validate(dst), 0, "%u", n);
	if (what == KEYS) {
		cr_expect_eq(net_cached(src, 0, 6), 6, "%u", n);
		cr_expect_eq(net_cached(dst, 0, 6), 2, "%u", n);
	} else {
		cr_expect_eq(kvmm_range_find_seq(src, 'a', NULL, 0), 1, "%u", n);
		cr_expect_eq(stat_of(dst).nr_free, stat_of(dst).nr_blocks, "%u", n);
	}
}

/* The engine's own calls do not fail. */
static void decode(struct pair *pair, kvmm_range_t range, u32 nr)
{
	u64 at = fake.fail_at, before = fake.nr_allocs;

	fake.fail_at = 0;
	net_decode(pair->src, range, 'a', nr);
	if (nr == 6)
		net_decoded(pair->src, range, 'a', nr);
	fake.fail_at = at > before ? at + fake.nr_allocs - before : 0;
}

/* Its sequence has so many blocks, and six in the end. */
static int go_on(struct pair *pair, struct kvmm_migrate *job, kvmm_range_t range, u32 *nr)
{
	int err = -EINPROGRESS;

	if (!*nr)
		return pair_run(pair, job);
	while (*nr < 6 && err == -EINPROGRESS) {
		decode(pair, range, ++*nr);
		err = pair_turn(pair, job);
	}
	if (err != -EINPROGRESS)
		return err;
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	return pair_run(pair, job);
}

/* Over a link, or within the process: whether it came to the @n-th allocation. */
static bool run(u32 n, enum what what, bool is_linked)
{
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job = NULL;
	kvmm_ref_t refs[6];
	struct pair pair;
	u32 nr = what == DECODES;
	bool failed;
	int err;

	pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
	attr = make_goods(pair.src, pair.dst, what, refs);
	attr.target = is_linked ? pair.path : NULL;
	attr.dst = is_linked ? NULL : pair.dst;
	fake_env_fail(&fake, n, false);
	err = kvmm_migrate_start(&attr, &job);
	if (!err)
		err = go_on(&pair, job, attr.range, &nr);
	failed = fake_env_failed(&fake);
	fake_env_fail(&fake, 0, false);
	pair_settle(&pair);
	if (err) {
		cr_expect(err == -ENOMEM || (is_linked && err == -ECONNRESET), "%u: %d", n, err);
		expect_unmoved(pair.src, pair.dst, what, n);
		err = job ? kvmm_migrate_resume(job) : kvmm_migrate_start(&attr, &job);
		cr_assert_eq(err, 0, "%u: %d", n, err);
		cr_expect_eq(go_on(&pair, job, attr.range, &nr), 0, "%u", n);
	}
	kvmm_migrate_free(job);
	expect_moved(pair.src, pair.dst, what, n);
	if (what == KEYS)
		kvmm_put_many(pair.src, refs, 6);
	pair_exit(&pair);
	return failed;
}

static void each(bool is_linked, u32 at_least)
{
	fake_env_install(&fake);
	for (enum what what = RANGE; what < NR_WHATS; what++) {
		u32 n = 1;

		while (run(n, what, is_linked))
			n++;
		cr_expect_gt(n, at_least, "%u", n);
	}
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

TEST_CALL(migrate_fault, any_allocation_of_a_job_may_fail, each(false, 10))
TEST_CALL(migrate_fault, any_allocation_of_either_side_of_a_link_may_fail, each(true, 25))
