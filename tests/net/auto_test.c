// SPDX-License-Identifier: Apache-2.0
/* What leaves a pool by itself when its memory gets low, and comes to light again. */
#include "tests/net/util.h"
#include "tests/pool/util.h"

static struct kvmm_pool *src, *dst;
static struct kvmm_migrate_auto *watch;

static void set_up(void)
{
	struct kvmm_migrate_auto_attr attr = KVMM_MIGRATE_AUTO_INIT;

	src = net_pool("host", 16);
	dst = net_pool("host", 32);
	attr.src = src;
	attr.dst = dst;
	attr.low = 4;
	attr.high = 8;
	attr.max_blocks = 3;
	attr.interval_ms = 1;
	cr_assert_eq(kvmm_migrate_auto_start(&attr, &watch), 0);
}

static void tear_down(void)
{
	kvmm_migrate_auto_stop(watch);
	end_pool(src);
	end_pool(dst);
}

TestSuite(migrate_auto, .init = set_up, .fini = tear_down);

static struct kvmm_migrate_auto_stat stat_now(void)
{
	struct kvmm_migrate_auto_stat stat;

	cr_assert_geq(kvmm_migrate_auto_tick(watch, &stat), 0);
	return stat;
}

/* Some milliseconds of it. */
static void tick(void)
{
	for (u32 i = 0; i < 2000; i++)
		cr_assert_geq(kvmm_migrate_auto_tick(watch, NULL), 0);
}

Test(migrate_auto, nothing_goes_above_the_mark)
{
	net_cache(src, 0, 12);
	tick();
	cr_expect_eq(stat_now().starts, 0);
	cr_expect_str_eq(picture(src), "IIIIIIIIIIII....");
}

Test(migrate_auto, below_it_the_coldest_go_until_the_upper_mark_is_reached)
{
	net_cache(src, 0, 13);
	for (u32 i = 0; i < 1000 && stat_of(src).nr_free < 8; i++)
		tick();
	cr_expect_eq(stat_of(src).nr_free, 8);
	cr_expect_eq(stat_now().blocks, 5);
	cr_expect_eq(stat_now().starts, 2);
	/* A prompt goes from its end. */
	cr_expect_eq(net_cached(src, 0, 8), 8);
	cr_expect_eq(net_cached(dst, 8, 5), 5);
	tick();
	cr_expect_eq(stat_now().is_active, 0);
	cr_expect_eq(stat_now().starts, 2);
}

Test(migrate_auto, idle_sequences_go_when_nothing_is_cached_and_are_told_of_when_wanted)
{
	kvmm_range_t a = net_range(src, 'a', 6, 1), b = net_range(src, 'b', 7, 1), there;

	for (u32 i = 0; i < 20; i++)
		tick();
	cr_expect_str_eq(picture(src), "aaaaaabbbbbbb...");	/* nobody said so */
	cr_expect_eq(kvmm_migrate_auto_idle(watch, 'b'), 0);
	cr_expect_eq(kvmm_migrate_auto_idle(watch, 'a'), 0);
	cr_expect_eq(kvmm_migrate_auto_idle(watch, 'a'), -EEXIST);
	cr_expect_eq(kvmm_migrate_auto_idle(watch, 0), -EINVAL);
	for (u32 i = 0; i < 1000 && stat_of(src).nr_free < 8; i++)
		tick();
	cr_expect_str_eq(picture(src), "aaaaaa..........");
	cr_expect_eq(stat_now().nr_idle, 1);
	cr_expect_eq(kvmm_migrate_auto_busy(watch, 'a'), 0);
	cr_expect_eq(kvmm_migrate_auto_busy(watch, 'a'), -ENOENT);
	cr_expect_eq(kvmm_migrate_auto_busy(watch, 'b'), 1);
	cr_expect(net_range_is(src, a, 'a', 6));
	cr_expect_eq(kvmm_range_find_seq(dst, 'b', &there, 1), 1);
	cr_expect(net_range_is(dst, there, 'b', 7));
	cr_expect_eq(kvmm_range_free(src, b), -ESTALE);
}

Test(migrate_auto, a_full_destination_is_left_alone_for_a_while)
{
	kvmm_range_t full = net_range(dst, 'z', 31, 1);

	net_cache(src, 0, 14);
	for (u32 i = 0; i < 20; i++)
		tick();
	cr_expect_eq(stat_now().failed, 1);
	cr_expect_eq(net_cached(src, 0, 14), 14);
	cr_expect_eq(net_cached(dst, 0, 14), 0);
	cr_expect_eq(kvmm_range_free(dst, full), 0);
}

Test(migrate_auto, arguments_that_make_no_sense_are_refused)
{
	struct kvmm_migrate_auto_attr attr = KVMM_MIGRATE_AUTO_INIT;
	struct kvmm_migrate_auto *other;
	struct kvmm_pool *plain = make_pool(16);

	cr_expect_eq(kvmm_migrate_auto_start(NULL, &other), -EINVAL);
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EINVAL);
	attr.src = src;
	attr.dst = dst;
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EINVAL);
	attr.high = 8;
	attr.dst = src;
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EINVAL);
	attr.dst = plain;
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EOPNOTSUPP);
	cr_expect_eq(kvmm_migrate_auto_tick(NULL, NULL), -EINVAL);
	kvmm_migrate_auto_stop(NULL);
	end_pool(plain);
}
