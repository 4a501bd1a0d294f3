// SPDX-License-Identifier: Apache-2.0
/* What leaves a pool by itself when its memory gets low, and comes to light again. */
#include <unistd.h>

#include <kv/env.h>

#include "tests/net/pair.h"
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

/* Another watch of the same marks, to the process that serves there. */
static void watch_pair(const struct pair *pair, struct kvmm_migrate_auto **far)
{
	struct kvmm_migrate_auto_attr attr = KVMM_MIGRATE_AUTO_INIT;

	attr.src = pair->src;
	attr.target = pair->path;
	attr.key_file = *pair->key_file ? pair->key_file : NULL;
	attr.low = 30;
	attr.high = 40;
	attr.interval_ms = 1;
	cr_assert_eq(kvmm_migrate_auto_start(&attr, far), 0);
}

static bool goes(struct pair *pair, struct kvmm_migrate_auto *far, u32 nr_free)
{
	for (u32 i = 0; i < 200000 && stat_of(pair->src).nr_free < nr_free; i++) {
		cr_assert_geq(kvmm_migrate_auto_tick(far, NULL), 0);
		if (pair->server)
			kvmm_migrate_serve_tick(pair->server);
	}
	return stat_of(pair->src).nr_free >= nr_free;
}

/* Cached blocks first, then what is idle, by one link. */
static void leaves_for_another_process(struct pair *pair)
{
	struct kvmm_migrate_auto *far;
	struct kvmm_migrate_auto_stat stat;
	kvmm_range_t there;

	net_cache(pair->src, 0, 15);
	net_range(pair->src, 'a', 20, 1);
	watch_pair(pair, &far);
	cr_expect_eq(kvmm_migrate_auto_idle(far, 'x'), 0, "there is none");
	cr_expect_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
	cr_expect(goes(pair, far, 40));
	cr_expect_eq(net_cached(pair->dst, 4, 11), 11);
	cr_expect_eq(kvmm_migrate_auto_busy(far, 'a'), 0);
	cr_expect_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
	net_range(pair->src, 'b', 24, 1);
	cr_expect(goes(pair, far, 40));
	cr_expect_eq(kvmm_migrate_auto_busy(far, 'a'), 1);
	cr_expect_eq(kvmm_migrate_auto_busy(far, 'a'), -ENOENT);
	cr_expect_eq(kvmm_range_find_seq(pair->dst, 'a', &there, 1), 1);
	cr_expect(net_range_is(pair->dst, there, 'a', 20));
	cr_expect_geq(kvmm_migrate_auto_tick(far, &stat), 0);
	cr_expect_eq(stat.seqs, 1);
	cr_expect_eq(stat.failed, 0);
	cr_expect_eq(pair_stat(pair).nr_links, 1);
	kvmm_migrate_auto_stop(far);
	pair_exit(pair);
}

Test(migrate_auto, what_is_too_much_goes_to_another_process)
{
	struct pair pair;

	pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
	leaves_for_another_process(&pair);
}

Test(migrate_auto, what_is_too_much_goes_to_another_machine)
{
	struct pair pair;

	if (pair_init_far(&pair, "ucx", 8 * NET_BLOCK_BYTES))
		leaves_for_another_process(&pair);
	else
		cr_skip("without UCX or OpenSSL");
}

/* It is in one place, or, while the other process has not answered, in none that may be used. */
Test(migrate_auto, a_link_that_breaks_anywhere_leaves_a_sequence_where_it_is_said_to_be)
{
	struct spoil how = { .cut_at = 0 };
	u32 nr_calls;

	do {
		struct kvmm_migrate_auto *far;
		struct pair pair;
		int where;

		how.cut_at++;
		how.err = 0;
		pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
		net_range(pair.src, 'a', 36, 1);
		watch_pair(&pair, &far);
		cr_assert_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
		spoil_begin(&how);
		for (u32 i = 0; i < 60; i++) {
			cr_assert_geq(kvmm_migrate_auto_tick(far, NULL), 0);
			kvmm_migrate_serve_tick(pair.server);
		}
		nr_calls = spoil.nr_calls;
		spoil_end();
		for (u32 i = 0; i < 3000 && (where = kvmm_migrate_auto_busy(far, 'a')) == -EINPROGRESS; i++) {
			kvmm_migrate_serve_tick(pair.server);
			usleep(1000);
		}
		cr_assert(where == 0 || where == 1, "%u: %d", how.cut_at, where);
		pair_settle(&pair);
		cr_assert_eq(kvmm_range_find_seq(pair.src, 'a', NULL, 0), !where, "%u", how.cut_at);
		cr_assert_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), where, "%u", how.cut_at);
		kvmm_migrate_auto_stop(far);
		pair_exit(&pair);
	} while (nr_calls >= how.cut_at);
	cr_expect_gt(how.cut_at, 15);
}

/* The engine was told that it is gone: nothing of it is found here, though a step may read it. */
Test(migrate_auto, a_sequence_that_is_said_to_be_gone_is_not_here_any_more)
{
	struct kvmm_migrate_auto *far;
	struct pair pair;
	kvmm_range_t range;
	kvmm_stream_t id;
	uint64_t epoch;

	pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
	range = net_range(pair.src, 'a', 36, 1);
	cr_assert_eq(kvmm_range_seal(pair.src, range, 36), 0);
	cr_assert_eq(kvmm_stream_add(pair.src, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pair.src, id, &epoch), 0);
	watch_pair(&pair, &far);
	cr_assert_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
	for (u32 i = 0; i < 200; i++) {
		cr_assert_eq(kvmm_migrate_auto_tick(far, NULL), 1);
		kvmm_migrate_serve_tick(pair.server);
	}
	cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), 1);
	cr_expect_eq(kvmm_migrate_auto_busy(far, 'a'), 1);
	cr_expect_eq(kvmm_range_find_seq(pair.src, 'a', NULL, 0), 0);
	cr_assert_eq(kvmm_step_end(pair.src, id, epoch), 0);
	cr_assert_eq(kvmm_stream_del(pair.src, id), 0);
	cr_expect(goes(&pair, far, 63));
	kvmm_migrate_auto_stop(far);
	pair_exit(&pair);
}

static u64 ahead_ns;

static u64 clock_ahead(void *ctx)
{
	return kv_env_system.clock_ns(ctx) + ahead_ns;
}

/* In each phase: it is given up, or if it may have been committed, offered again. */
Test(migrate_auto, a_taker_that_hangs_anywhere_is_not_waited_for_for_ever)
{
	struct kv_env_ops env = kv_env_system;
	bool was_gone = false;
	u32 nr_asked = 0;

	env.clock_ns = clock_ahead;
	kv_env_set(&env);
	for (u32 nr = 0; nr < 100 && !was_gone; nr++) {
		struct kvmm_migrate_auto *far;
		struct pair pair;
		bool ended = false;

		pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
		net_range(pair.src, 'a', 36, 1);
		watch_pair(&pair, &far);
		cr_assert_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
		for (u32 i = 0; i < nr; i++) {
			cr_assert_geq(kvmm_migrate_auto_tick(far, NULL), 0);
			kvmm_migrate_serve_tick(pair.server);
		}
		was_gone = !kvmm_range_find_seq(pair.src, 'a', NULL, 0);
		for (u32 i = 0; i < 5; i++)
			cr_assert_geq(kvmm_migrate_auto_tick(far, NULL), 0);
		ahead_ns += 31 * 1000000000ull;
		for (u32 i = 0; i < 5; i++)
			ended |= !kvmm_migrate_auto_tick(far, NULL);
		ahead_ns += 2 * 1000000000ull;
		cr_expect(goes(&pair, far, 63), "%u", nr);
		cr_expect(ended || pair_stat(&pair).repeated == 1, "%u", nr);
		nr_asked += pair_stat(&pair).repeated;
		cr_expect_eq(kvmm_migrate_auto_busy(far, 'a'), 1, "%u", nr);
		cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), 1, "%u", nr);
		kvmm_migrate_auto_stop(far);
		pair_exit(&pair);
	}
	cr_expect(was_gone && nr_asked);
	kv_env_set(NULL);
}

/* Blocks so large that each look of this side takes the sums of a few. */
static void make_large_pair(struct pair *pair)
{
	struct kvmm_migrate_serve_attr serve = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "host", .nr_blocks = 64,
				       .block_bytes = 4 << 20, .policy = "lru" };

	pair_init(pair, "host", "host", 0, 0);
	kvmm_migrate_serve_end(pair->server);
	kvmm_pool_destroy(pair->src);
	kvmm_pool_destroy(pair->dst);
	cr_assert_eq(kvmm_pool_create(&attr, &pair->src), 0);
	cr_assert_eq(kvmm_pool_create(&attr, &pair->dst), 0);
	serve.window_bytes = 8 * attr.block_bytes;
	pair_serve(pair, &serve);
}

static u64 clock_still(void *ctx)
{
	return 1000000000ull + ahead_ns;
}

/* The taker has nothing to say until it has them. A slow machine is no part of it. */
Test(migrate_auto, sums_that_take_long_here_are_no_hang_of_the_taker)
{
	struct kv_env_ops env = kv_env_system;
	struct kvmm_migrate_auto_stat stat;
	struct kvmm_migrate_auto *far;
	struct pair pair;
	u64 since;

	env.clock_ns = clock_still;
	kv_env_set(&env);
	make_large_pair(&pair);
	net_range(pair.src, 'a', 36, 1);
	watch_pair(&pair, &far);
	cr_assert_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
	since = ahead_ns;
	for (u32 i = 0; i < 100 && !pair_stat(&pair).offers; i++) {
		cr_assert_eq(kvmm_migrate_auto_tick(far, &stat), 1, "tick %u", i);
		kvmm_migrate_serve_tick(pair.server);
		ahead_ns += 5 * 1000000000ull;
	}
	cr_expect_gt(ahead_ns - since, 45 * 1000000000ull);
	cr_expect(goes(&pair, far, 63));
	cr_assert_geq(kvmm_migrate_auto_tick(far, &stat), 0);
	cr_expect_eq(stat.failed, 0);
	cr_expect_eq(stat.starts, 1);
	cr_expect_eq(kvmm_range_find_seq(pair.dst, 'a', NULL, 0), 1);
	kvmm_migrate_auto_stop(far);
	pair_exit(&pair);
	kv_env_set(NULL);
}

Test(migrate_auto, without_a_taker_nothing_goes)
{
	struct kvmm_migrate_auto *far;
	struct pair pair;

	pair_init(&pair, "host", "host", 0, 8 * NET_BLOCK_BYTES);
	kvmm_migrate_serve_end(pair.server);
	pair.server = NULL;
	net_cache(pair.src, 0, 40);
	watch_pair(&pair, &far);
	cr_expect_eq(kvmm_migrate_auto_idle(far, 'a'), 0);
	for (u32 i = 0; i < 100; i++)
		cr_assert_geq(kvmm_migrate_auto_tick(far, NULL), 0);
	cr_expect_eq(net_cached(pair.src, 0, 40), 40);
	kvmm_migrate_auto_stop(far);
	pair_exit(&pair);
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
	attr.target = "/nowhere/s";
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EINVAL, "two destinations");
	attr.dst = NULL;
	attr.target = "carrier://127.0.0.1:1";
	cr_expect_eq(kvmm_migrate_auto_start(&attr, &other), -EINVAL);
	cr_expect_eq(kvmm_migrate_auto_tick(NULL, NULL), -EINVAL);
	kvmm_migrate_auto_stop(NULL);
	end_pool(plain);
}
