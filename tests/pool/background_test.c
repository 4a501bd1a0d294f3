// SPDX-License-Identifier: Apache-2.0
/* Background compaction: when it looks, when it moves, and that it stops. */
#include <unistd.h>

#include <kv/sys.h>

#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

#define MS	1000000ull
#define TWELVE	"a.b.c.d.e.f.g.h.i.j.k.l."

static struct fake_env fake;

static void fake_time(void)
{
	fake_env_install(&fake);
}

/* Every second block is free: no hole is longer than one. */
static struct kvmm_pool *full_of_holes(kvmm_range_t *range)
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

Test(background, holes_grow_until_the_index_is_half_of_the_threshold)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(4);
	struct kvmm_pool *pool;
	u32 nr = 0;

	fake_time();
	pool = full_of_holes(range);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	while (kvmm_background_tick(pool) == 1)
		cr_assert_lt(++nr, 100);
	cr_expect_gt(nr, 1);
	cr_expect_leq(stat_of_background(pool).score_pm, 100);
	cr_expect_eq(stat_of_background(pool).is_active, 0);
	cr_expect_eq(stat_of_background(pool).starts, nr);
	end(pool);
}

Test(background, it_looks_once_an_interval)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(1);
	struct kvmm_pool *pool;

	fake_time();
	pool = full_of_holes(range);
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
	end(pool);
}

Test(background, useless_looks_are_left_out)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(4);
	struct kvmm_pool *pool;

	fake_time();
	pool = full_of_holes(range);
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
	end(pool);
}

Test(background, the_median_of_requests_is_what_it_looks_at)
{
	struct kvmm_background how = every_second(0);
	struct kvmm_pool *pool;

	fake_time();
	pool = make_pool(4096);
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
	end(pool);
}

Test(background, what_was_asked_for_long_ago_counts_less)
{
	struct kvmm_background how = every_second(0);
	struct kvmm_pool *pool;
	kvmm_range_t range;

	fake_time();
	pool = make_pool(64);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 8000; i++) {
		range = take(pool, i < 4000 ? 20 : 3, 0);
		kvmm_range_free(pool, range);
	}
	kvmm_background_tick(pool);
	cr_expect_eq(stat_of_background(pool).request_blocks, 3);
	end(pool);
}

Test(background, an_idle_worker_leaves_steps_alone)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(4);
	struct kvmm_pool *pool;
	kvmm_stream_t id;
	uint64_t epoch;

	fake_time();
	pool = full_of_holes(range);
	how.flags = KVMM_BACKGROUND_IDLE_ONLY;
	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	cr_expect_eq(stat_of_background(pool).busy, 1);
	cr_expect_str_eq(picture(pool), TWELVE);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	cr_expect_eq(kvmm_background_tick(pool), 1);
	end(pool);
}

Test(background, so_much_is_on_its_way_at_a_time_and_no_more)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(3);
	struct kvmm_pool *pool;
	kvmm_stream_t id;
	uint64_t epoch;
	struct kvmm_step_stat steps;

	fake_time();
	pool = full_of_holes(range);
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
	end(pool);
}

/* Holes are long enough; so there is time for joining extents, one plan an interval. */
Test(background, extents_are_joined_while_holes_are_long_enough)
{
	struct kvmm_background how = every_second(2);
	struct kvmm_pool *pool = NULL;
	kvmm_range_t range[26];

	fake_time();
	pool = make_pool(24);
	paint(pool, "aabaaccdcc..............", range);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_seal(pool, range[i], i % 2 ? 1 : 4), 0);
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
	end(pool);
}

Test(background, what_is_joined_does_not_move_again_at_once)
{
	struct kvmm_background how = every_second(2);
	struct kvmm_pool *pool;
	kvmm_range_t range[26];
	struct kvmm_step_stat steps;

	fake_time();
	pool = make_pool(24);
	paint(pool, "aabaaccdcc..............", range);
	how.flags = KVMM_BACKGROUND_SHORTEN;
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_seal(pool, range[i], i % 2 ? 1 : 4), 0);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 100; i++) {
		kvmm_background_tick(pool);
		fake_env_advance(&fake, 1000 * MS);
	}
	kvmm_compact_poll(pool);
	cr_expect_eq(kvmm_step_get_stat(pool, &steps), 0);
	cr_expect_leq(steps.published_blocks, 8, "%u: each range once", (u32)steps.published_blocks);
	end(pool);
}

Test(background, bad_settings_are_refused_and_change_nothing)
{
	kvmm_range_t range[26];
	struct kvmm_background good = every_second(4), bad;
	struct kvmm_pool *pool;

	fake_time();
	pool = full_of_holes(range);
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
	end(pool);
}

/* ---- the thread ---- */

static int refuse(void *ctx, void (*fn)(void *arg), void *arg, void **thread)
{
	return -EAGAIN;
}

Test(background, without_a_thread_everything_is_as_it_was)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(4);
	struct kv_sys_ops sys = kv_sys_system;
	struct kvmm_pool *pool __cleanup(end_pool) = full_of_holes(range);

	sys.spawn = refuse;
	kv_sys_set(&sys);
	how.flags = KVMM_BACKGROUND_THREAD;
	cr_expect_eq(kvmm_background_set(pool, &how), -EAGAIN);
	cr_expect_eq(kvmm_background_tick(pool), 0);
	kv_sys_set(NULL);
}

/* Real time, and a limit that is there for a broken one only. */
Test(background, a_thread_does_it_alone, .timeout = 60)
{
	kvmm_range_t range[26];
	struct kvmm_background how = every_second(4);
	struct kvmm_pool *pool __cleanup(end_pool) = full_of_holes(range);

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

static void sum_all(struct kvmm_pool *pool)
{
	const struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 1000 };

	cr_assert_eq(kvmm_verify_set(pool, &attr), 0);
}

static struct kvmm_verify_stat verified(struct kvmm_pool *pool)
{
	struct kvmm_verify_stat stat;

	cr_assert_eq(kvmm_verify_get_stat(pool, &stat), 0);
	return stat;
}

static struct kvmm_background with_checksums(void)
{
	struct kvmm_background how = every_second(1);

	how.flags = KVMM_BACKGROUND_VERIFY;
	return how;
}

Test(background, new_blocks_are_summed_by_the_next_tick)
{
	struct kvmm_background how = with_checksums();
	struct kvmm_pool *pool;

	fake_time();
	pool = make_cache(256, "lru");
	sum_all(pool);
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
	end(pool);
}

Test(background, what_is_summed_is_compared_in_turns_a_batch_an_interval)
{
	struct kvmm_background how = with_checksums();
	struct kvmm_pool *pool;

	fake_time();
	pool = make_cache(256, "lru");
	sum_all(pool);
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
	end(pool);
}

Test(background, content_that_changed_is_found_without_being_asked)
{
	struct kvmm_background how = with_checksums();
	u8 other[TEST_BLOCK_BYTES] = { 1 };
	kvmm_key_t key = key_of(3);
	struct kvmm_pool *pool;
	kvmm_ref_t ref;

	fake_time();
	pool = make_cache(16, "lru");
	sum_all(pool);
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
	end(pool);
}

/* What is pinned cannot be summed: it is tried again later and later, and at the latest after 64 ms. */
Test(background, what_cannot_be_summed_is_not_tried_at_each_tick)
{
	struct kvmm_background how = with_checksums();
	struct kvmm_pool *pool;
	kvmm_key_t key = key_of(0);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	fake_time();
	pool = make_cache(16, "lru");
	sum_all(pool);
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	kvmm_background_tick(pool);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
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
	end(pool);
}

Test(background, nothing_is_verified_unless_it_was_asked_for)
{
	struct kvmm_background how = every_second(1);
	struct kvmm_pool *pool;

	fake_time();
	pool = make_cache(16, "lru");
	sum_all(pool);
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
	end(pool);
}

/* Real time; the interval is so long that only the look for new blocks can be it. */
POOL_TEST(background, a_thread_sums_new_blocks_soon, make_cache(64, "lru"), .timeout = 60)
{
	struct kvmm_background how = with_checksums();

	sum_all(pool);
	how.flags |= KVMM_BACKGROUND_THREAD;
	how.interval_ms = 3600 * 1000;
	cr_expect_eq(kvmm_background_set(pool, &how), 0);
	for (u32 i = 0; i < 5; i++) {
		cache_keys(pool, 8 * i, 8);
		while (verified(pool).summed < 8 * (i + 1))
			usleep(1000);
	}
}
