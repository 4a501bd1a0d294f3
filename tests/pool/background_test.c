// SPDX-License-Identifier: Apache-2.0
/* Background compaction: when it looks, when it moves, and that it stops. */
#include <unistd.h>

#include <kv/sys.h>

#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

#define MS	1000000ull
#define TWELVE	"a.b.c.d.e.f.g.h.i.j.k.l."

static struct fake_env fake;
static kvmm_range_t range[26];

/* Every second block is free: no hole is longer than one. */
static struct kvmm_pool *full_of_holes(void)
{
	struct kvmm_pool *pool = make_pool(24);

	paint(pool, TWELVE, range);
	for (u32 i = 0; i < 12; i++)
		cr_assert_eq(kvmm_range_seal(pool, range[i], 1), 0);
	return pool;
}

static struct kvmm_background every_second(u32 request_blocks)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;

	how.interval_ms = 1000;
	how.request_blocks = request_blocks;
	return how;
}

static struct kvmm_background_stat stat_of_background(struct kvmm_pool *pool)
{
	struct kvmm_background_stat stat;

	cr_assert_eq(kvmm_background_get_stat(pool, &stat), 0);
	return stat;
}

static void end(struct kvmm_pool *pool)
{
	kvmm_background_set(pool, NULL);
	end_pool(pool);
	fake_env_remove(&fake);
}

/* A test with a @pool that @make makes, at a time that the test advances. */
#define FAKE_TIME_TEST(name, make) \
	TEST_WITH(struct kvmm_pool *pool, (fake_env_install(&fake), make), end, background, name)

FAKE_TIME_TEST(holes_grow_until_the_index_is_half_of_the_threshold, full_of_holes())
{
	struct kvmm_background how = every_second(4);
	u32 nr = 0;

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	while (kvmm_background_tick(pool) == 1)
		cr_assert_lt(++nr, 100);
	cr_expect_gt(nr, 1);
	cr_expect_leq(stat_of_background(pool).score_pm, 100);
	cr_expect_eq(stat_of_background(pool).is_active, 0);
	cr_expect_eq(stat_of_background(pool).starts, nr);
}

FAKE_TIME_TEST(it_looks_once_an_interval, full_of_holes())
{
	struct kvmm_background how = every_second(1);

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 10; i++)
		cr_expect_eq(kvmm_background_tick(pool), 0);
	cr_expect_eq(stat_of_background(pool).checks, 1);
	fake_env_advance(&fake, 999 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).checks, 1);
	fake_env_advance(&fake, 1 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).checks, 2);
	cr_expect_eq(stat_of_background(pool).score_pm, 0, "single blocks can be had everywhere");
}

FAKE_TIME_TEST(useless_looks_are_left_out, full_of_holes())
{
	struct kvmm_background how = every_second(4);

	for (u32 i = 0; i < 12; i++)
		kvmm_range_pin(pool, range[i]);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 1000; i++) {
		kvmm_background_tick(pool);
		fake_env_advance(&fake, 1000 * MS);
	}
	/* After 2, 4, 8, 16, 32 and then every 64 seconds. */
	cr_expect_eq(stat_of_background(pool).useless, 6 + (1000 - 62) / 64);
	cr_expect_eq(stat_of_background(pool).nr_deferred, 64);
	for (u32 i = 0; i < 12; i++)
		kvmm_range_unpin(pool, range[i]);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 1, "a change makes it look at once");
	cr_expect_eq(stat_of_background(pool).nr_deferred, 0);
}

FAKE_TIME_TEST(the_median_of_requests_is_what_it_looks_at, make_pool(4096))
{
	struct kvmm_background how = every_second(0);

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 9; i++)
		take(pool, 1 + i, 0);
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).request_blocks, 5);
	for (u32 i = 0; i < 20; i++)
		take(pool, 100, 0);
	fake_env_advance(&fake, 1000 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).request_blocks, 128, "long ones by powers of two");
}

FAKE_TIME_TEST(what_was_asked_for_long_ago_counts_less, make_pool(64))
{
	struct kvmm_background how = every_second(0);
	kvmm_range_t range;

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 8000; i++) {
		range = take(pool, i < 4000 ? 20 : 3, 0);
		kvmm_range_free(pool, range);
	}
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).request_blocks, 3);
}

FAKE_TIME_TEST(an_idle_worker_leaves_steps_alone, full_of_holes())
{
	struct kvmm_background how = every_second(4);
	kvmm_stream_t id;
	uint64_t epoch;

	how.flags = KVMM_BACKGROUND_IDLE_ONLY;
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	cr_expect_eq(stat_of_background(pool).busy, 1);
	cr_expect_str_eq(picture(pool), TWELVE);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	cr_expect_eq(kvmm_background_tick(pool), 1);
}

FAKE_TIME_TEST(so_much_is_on_its_way_at_a_time_and_no_more, full_of_holes())
{
	struct kvmm_background how = every_second(3);
	kvmm_stream_t id;
	uint64_t epoch;
	struct kvmm_step_stat steps;

	how.max_blocks = 2;
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 20; i++)
		kvmm_background_tick(pool);
	kvmm_step_get_stat(pool, &steps);
	cr_expect_leq(steps.copying_blocks + steps.limbo_blocks, 3);
	cr_expect_gt(stat_of_background(pool).busy, 10);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
}

static struct kvmm_pool *in_extents(void)
{
	struct kvmm_pool *pool = make_pool(24);

	paint(pool, "aabaaccdcc..............", range);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_seal(pool, range[i], i % 2 ? 1 : 4), 0);
	return pool;
}

/* Holes are long enough; so there is time for joining extents, one plan an interval. */
FAKE_TIME_TEST(extents_are_joined_while_holes_are_long_enough, in_extents())
{
	struct kvmm_background how = every_second(2);

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 0, "not without being asked");
	how.flags = KVMM_BACKGROUND_SHORTEN;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 1);
	cr_expect_eq(kvmm_background_tick(pool), 0, "the next one after an interval");
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_range_extents(pool, range[0], NULL, 0), 1);
	cr_expect_eq(kvmm_range_extents(pool, range[2], NULL, 0), 1);
	cr_expect_eq(stat_of_background(pool).saved_extents, 2);
	fake_env_advance(&fake, 1000 * MS);
	cr_expect_eq(kvmm_background_tick(pool), 0, "nothing is left to be joined");
	cr_expect_eq(stat_of_background(pool).starts, 1);
}

FAKE_TIME_TEST(what_is_joined_does_not_move_again_at_once, in_extents())
{
	struct kvmm_background how = every_second(2);
	struct kvmm_step_stat steps;

	how.flags = KVMM_BACKGROUND_SHORTEN;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 100; i++) {
		kvmm_background_tick(pool);
		fake_env_advance(&fake, 1000 * MS);
	}
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_step_get_stat(pool, &steps), 0);
	cr_expect_leq(steps.published_blocks, 8, "%u: each range once", (u32)steps.published_blocks);
}

FAKE_TIME_TEST(bad_settings_are_refused_and_change_nothing, full_of_holes())
{
	struct kvmm_background good = every_second(4), bad;

	cr_expect_eq(kvmm_background_set(pool, NULL), 0);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	bad = good, bad.threshold_pm = 0;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.threshold_pm = 1001;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.interval_ms = 0;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.max_blocks = 0;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.mode = KVMM_NR_MOVE_MODES;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.flags = 1u << 30;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	bad = good, bad.request_blocks = 25;
	cr_expect_eq(kvmm_background_set(pool, &bad), -EINVAL);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	fake_env_fail(&fake, 1, false);
	cr_expect_eq(kvmm_background_set(pool, &good), -ENOMEM);
	cr_expect_eq(kvmm_background_set(pool, &good), 0);
	cr_expect_eq(kvmm_background_tick(pool), 1);
}

/* ---- the thread ---- */

static int refuse(void *ctx, void (*fn)(void *arg), void *arg, void **thread)
{
	return -EAGAIN;
}

POOL_TEST(background, without_a_thread_everything_is_as_it_was, full_of_holes())
{
	struct kvmm_background how = every_second(4);
	struct kv_sys_ops sys = kv_sys_system;

	sys.spawn = refuse;
	kv_sys_set(&sys);
	how.flags = KVMM_BACKGROUND_THREAD;
	cr_expect_eq(kvmm_background_set(pool, &how), -EAGAIN);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	kv_sys_set(NULL);
}

/* Real time, and a limit that is there for a broken one only. */
POOL_TEST(background, a_thread_does_it_alone, full_of_holes(), .timeout = 60)
{
	struct kvmm_background how = every_second(4);

	for (u32 i = 0; i < 12; i++)
		write_pattern(pool, range[i], i);
	how.flags = KVMM_BACKGROUND_THREAD;
	how.interval_ms = 1;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	while (stat_of(pool).largest < 4)
		usleep(1000);
	cr_expect_eq(kvmm_background_set(pool, &how), 0, "a second time is a change of settings");
	cr_expect_eq(kvmm_background_set(pool, NULL), 0);
	for (u32 i = 0; i < 12; i++)
		cr_expect(has_pattern(pool, range[i], i));
	how.flags = KVMM_BACKGROUND_THREAD;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
}

/* ---- checksums ---- */

/* All that is cached has a sum. */
static struct kvmm_pool *make_summed(u32 nr_blocks)
{
	const struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 1000 };
	struct kvmm_pool *pool = make_cache(nr_blocks, "lru");

	cr_assert_eq(kvmm_verify_set(pool, &attr), 0);
	return pool;
}

static struct kvmm_background with_checksums(void)
{
	struct kvmm_background how = every_second(1);

	how.flags = KVMM_BACKGROUND_VERIFY;
	return how;
}

FAKE_TIME_TEST(new_blocks_are_summed_by_the_next_tick, make_summed(256))
{
	struct kvmm_background how = with_checksums();

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	cache_keys(pool, 0, 50);
	cache_keys(pool, 50, 50);
	cr_expect_eq(verified(pool).pending, 100);
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(kvmm_background_tick(pool), 0, "no moves");
	cr_expect_eq(verified(pool).pending, 0, "64 a batch");
	cr_expect_eq(verified(pool).summed, 100);
	cr_expect_eq(stat_of_background(pool).verified, 100);
	cr_expect_eq(stat_of_background(pool).checks, 1, "the index is looked at once an interval");
}

FAKE_TIME_TEST(what_is_summed_is_compared_in_turns_a_batch_an_interval, make_summed(256))
{
	struct kvmm_background how = with_checksums();

	cache_keys(pool, 0, 50);
	cache_keys(pool, 50, 50);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 50; i++)
		kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).checks, 0, "a tick that need not look does not");
	fake_env_advance(&fake, 1000 * MS);
	for (u32 i = 0; i < 50; i++)
		kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).checks, 64);
	fake_env_advance(&fake, 1000 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).checks, 128, "from where it was");
}

FAKE_TIME_TEST(content_that_changed_is_found_without_being_asked, make_summed(16))
{
	struct kvmm_background how = with_checksums();
	u8 other[TEST_BLOCK_BYTES] = { 1 };
	kvmm_key_t key = key_of(3);
	kvmm_ref_t ref;

	cache_keys(pool, 0, 8);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	kvmm_background_tick(pool);
	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_assert_eq(kvmm_block_write(pool, kvmm_block_of_ref(pool, ref), 0, other, sizeof(other)), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(verified(pool).bad_blocks, 0);
	fake_env_advance(&fake, 1000 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).bad_blocks, 1);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 0);
}

/* What is pinned cannot be summed: it is tried again later and later, and at the latest after 64 ms. */
FAKE_TIME_TEST(what_cannot_be_summed_is_not_tried_at_each_tick, make_summed(16))
{
	struct kvmm_background how = with_checksums();
	kvmm_ref_t ref;

	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	kvmm_background_tick(pool);
	register_keys(pool, 0, 1, &ref);
	cr_assert_eq(kvmm_pin_many(pool, &ref, 1), 0);
	for (u32 i = 0; i < 10; i++, fake_env_advance(&fake, 64 * MS))
		kvmm_background_tick(pool);
	kvmm_background_tick(pool);
	cr_assert_eq(kvmm_unpin_many(pool, &ref, 1), 0);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).pending, 1, "it was tried just now");
	fake_env_advance(&fake, 64 * MS);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).pending, 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
}

FAKE_TIME_TEST(nothing_is_verified_unless_it_was_asked_for, make_summed(16))
{
	struct kvmm_background how = every_second(1);

	cache_keys(pool, 0, 8);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).pending, 8);
	how.flags = KVMM_BACKGROUND_VERIFY;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).pending, 0);
	cr_expect_eq(kvmm_background_set(pool, NULL), 0);
	cache_keys(pool, 8, 4);
	kvmm_background_tick(pool);
	cr_expect_eq(verified(pool).pending, 4, "off is off");
}

/* Real time; the interval is so long that only the look for new blocks can be it. */
POOL_TEST(background, a_thread_sums_new_blocks_soon, make_summed(64), .timeout = 60)
{
	struct kvmm_background how = with_checksums();

	how.flags |= KVMM_BACKGROUND_THREAD;
	how.interval_ms = 3600 * 1000;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 5; i++) {
		cache_keys(pool, 8 * i, 8);
		while (verified(pool).summed < 8 * (i + 1))
			usleep(1000);
	}
}
