// SPDX-License-Identifier: Apache-2.0
/* A unit test of an engine: does it give back the memory of sequences that were idle for 30 s? */
#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define MSEC	1000000ull
#define SECOND	(1000 * MSEC)

/* ---- the engine ---- */

#define IDLE_NS	(30 * SECOND)

/* Everything but the clock is a plain argument; @now_ns is kvmm's. Returns how many ranges went. */
static int drop_idle(struct kvmm_pool *pool, uint64_t now_ns)
{
	struct kvmm_range_info range;
	struct kvmm_block_info block;
	uint32_t cursor = 0;
	int nr = 0;

	while (!kvmm_range_next(pool, &cursor, &range)) {
		if (kvmm_block_get_info(pool, range.ext[0].start, &block) ||
		    now_ns - block.last_access_ns < IDLE_NS)
			continue;
		nr += !kvmm_range_free(pool, range.range);
	}
	return nr;
}

/* ---- its test ---- */

static void test_idle(struct kvmm_testing *t)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 8 };
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 3, .seq = 'a' };
	struct kvmm_pool *pool;
	kvmm_range_t range;

	if (kvmm_testing_pool_make(t, &spec, &pool))
		return;
	KVMM_TESTING_EXPECT(t, !kvmm_range_alloc_attr(pool, &attr, &range));
	kvmm_testing_advance(t, 20 * SECOND);
	attr.seq = 'b';
	KVMM_TESTING_EXPECT(t, !kvmm_range_alloc_attr(pool, &attr, &range));
	kvmm_testing_expect_picture(t, pool, "aaabbb..");

	kvmm_testing_advance(t, 10 * SECOND - MSEC);
	KVMM_TESTING_EXPECT(t, drop_idle(pool, kvmm_testing_now(t)) == 0);
	kvmm_testing_advance(t, MSEC);
	KVMM_TESTING_EXPECT(t, drop_idle(pool, kvmm_testing_now(t)) == 1);
	kvmm_testing_expect_picture(t, pool, "...bbb..");
	kvmm_testing_advance(t, IDLE_NS);
	KVMM_TESTING_EXPECT(t, drop_idle(pool, kvmm_testing_now(t)) == 1);
}

int main(void)
{
	char why[KVMM_TESTING_WHY];
	struct kvmm_testing *t;
	int err = kvmm_testing_begin(&t);

	if (err)
		return 1;
	test_idle(t);
	err = kvmm_testing_end(t, why, sizeof(why));	/* and nothing is left behind */
	printf("%s%s\n", why, err ? "failed" : "passed");
	return err ? 1 : 0;
}
