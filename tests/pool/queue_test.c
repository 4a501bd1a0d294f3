// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting: who gets blocks when, and who does not. One thread; see door_util.h for the others.
 */
#include <sys/mman.h>

#include "pool/internal.h"
#include "tests/pool/door_util.h"
#include "tests/pool/life_util.h"
#include "tests/support/between.h"

extern const struct pool_part door_part;

TestSuite(queue, .init = door_set_up, .fini = door_tear_down);

#define US	1000ull

static kvmm_mut_t held[16];

static void free_one(struct kvmm_pool *pool, void *at)
{
	cr_expect_eq(kvmm_free(pool, at, 1), 0);
}

static void put_one(struct kvmm_pool *pool, void *ref)
{
	cr_expect_eq(kvmm_put_many(pool, ref, 1), 0);
}

static void cancel(struct kvmm_pool *pool, void *seq)
{
	cr_expect_eq(kvmm_alloc_cancel(pool, (uintptr_t)seq), 1);
}

/* All blocks are held. */
static struct kvmm_pool *make_full(u32 nr)
{
	struct kvmm_pool *pool = make_door(nr, NULL);

	cr_assert_eq(kvmm_alloc(pool, nr, held), 0);
	return pool;
}

POOL_TEST(queue, a_request_waits_until_enough_is_freed, make_full(8))
{
	const struct deed deeds[] = {
		{ 5 * US, free_one, &held[0] }, { 9 * US, free_one, &held[1] },
		{ 12 * US, free_one, &held[2] },
	};
	struct kvmm_alloc_report report;
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 3, .deadline_ns = 20 * US,
				      .report = &report };
	kvmm_mut_t mut[3];

	others_do(pool, deeds, 3);
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
	cr_expect_eq(fake.now_ns, 12 * US);
	cr_expect_eq(report.waited_ns, 11 * US);
	cr_expect_eq(report.time_ns, 11 * US);
	cr_expect_eq(door_stat(pool).saved[KVMM_STEP_WAIT], 1);
	cr_expect_eq(stat_of(pool).fail_nospc, 0);
	/* Two of three did not suffice, and woke nobody. */
	cr_expect_eq(fake.nr_wakes, 1);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

POOL_TEST(queue, at_the_deadline_nothing_was_taken, make_full(8))
{
	const struct deed deeds[] = { { 5 * US, free_one, &held[0] } };
	kvmm_mut_t mut[2];

	others_do(pool, deeds, 1);
	cr_expect_eq(ask_for(pool, 2, KVMM_ALLOC_RELATIVE, 10 * US, mut), -ETIMEDOUT);
	cr_expect_eq(fake.now_ns, 11 * US);
	cr_expect_eq(stat_of(pool).nr_free, 1);
	cr_expect_eq(door_stat(pool).nr_timed_out, 1);
	cr_expect_eq(door_stat(pool).nr_waiting, 0);
	cr_expect_eq(pool->guard, 0);
	cr_expect_eq(ask_for(pool, 1, 0, 1, mut), 0, "a deadline in the past is no obstacle");
	cr_expect_eq(ask_for(pool, 1, 0, 1, mut + 1), -ETIMEDOUT);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
}

Test(queue, who_can_never_fit_does_not_wait)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door), .marks = { 1, 2, 2 } };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(8, &door);
	kvmm_mut_t mut[8];

	cr_expect_eq(ask_for(pool, 7, KVMM_ALLOC_RELATIVE, 10 * US, mut), -ENOSPC);
	cr_expect_eq(fake.now_ns, 1 * US);
}

/* No lock of the pool is taken to put a reference, and yet the sleeper hears of it. */
POOL_TEST(queue, a_block_that_can_be_evicted_will_do, make_door(4, NULL))
{
	kvmm_mut_t mut[1];
	kvmm_ref_t ref[4];
	const struct deed deeds[] = { { 7 * US, put_one, &ref[2] } };

	make_active(pool, 0, 4, ref);
	others_do(pool, deeds, 1);
	cr_expect_eq(ask_for(pool, 1, 0, 20 * US, mut), 0);
	cr_expect_eq(fake.now_ns, 7 * US);
	cr_expect_eq(stat_of(pool).evictions, 1);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, ref + 3, 1), 0);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
}

POOL_TEST(queue, a_range_waits_as_well, make_full(8))
{
	const struct deed deeds[] = {
		{ 5 * US, free_one, &held[3] }, { 6 * US, free_one, &held[6] },
	};
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2, .deadline_ns = 9 * US };
	kvmm_range_t range;

	others_do(pool, deeds, 2);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(fake.now_ns, 6 * US);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(queue, cancelled_requests_have_taken_nothing, make_full(8))
{
	const struct deed deeds[] = { { 5 * US, cancel, (void *)77 } };
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1, .seq = 77,
				      .deadline_ns = 20 * US };
	kvmm_mut_t mut[1];

	others_do(pool, deeds, 1);
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), -ECANCELED);
	cr_expect_eq(fake.now_ns, 5 * US);
	cr_expect_eq(door_stat(pool).nr_cancelled, 1);
	cr_expect_eq(kvmm_alloc_cancel(pool, 77), 0);
	cr_expect_eq(kvmm_alloc_cancel(pool, 0), -EINVAL);
}

/* ---- tickets, which stand in the queue without a thread ---- */

static int submit(struct kvmm_pool *pool, u32 nr, u32 flags, u64 deadline_ns, kvmm_mut_t *blocks,
		  kvmm_ticket_t *ticket)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr, .flags = flags,
				      .deadline_ns = deadline_ns, .seq = 5 };

	return kvmm_alloc_submit(pool, &ctl, blocks, ticket);
}

POOL_TEST(queue, a_ticket_is_served_when_it_is_polled, make_full(8))
{
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[2];

	cr_expect_eq(submit(pool, 2, 0, 0, mut, &ticket), -EINVAL);
	cr_expect_eq(submit(pool, 2, 0, 90 * US, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_free(pool, held, 1), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_free(pool, held + 1, 1), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -ESTALE);
	cr_expect_eq(kv_alloc_withdraw(pool, ticket), -ESTALE);
	cr_expect_str_eq(picture(pool), "PPPPPPPP");
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

static struct kvmm_pool *make_pair_of_duplicates(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2, .policy = "lru",
				       .dup_policy = KVMM_DUP_HOLD };

	return make_pool_of(&attr);
}

POOL_TEST(queue, a_ticket_is_served_by_what_a_duplicate_held, make_pair_of_duplicates())
{
	kvmm_key_t keys[2] = { key_of(1), key_of(1) };
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[2], mine;
	kvmm_ref_t ref[2];

	make_private(pool, 2, mut);
	cr_assert_eq(kvmm_register(pool, mut, keys, 2, ref), 0);
	cr_assert_eq(kvmm_put(pool, ref[0]), 0);
	cr_assert_eq(submit(pool, 1, 0, 90 * US, &mine, &ticket), -EINPROGRESS);
	cr_assert_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_unpublish(pool, &ref[1], 1, mut), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
	cr_expect_eq(kvmm_free(pool, &mine, 1), 0);
}

/* A small one that would fit does not overtake, nor does one that does not wait. */
POOL_TEST(queue, a_large_request_at_the_head_gets_its_turn, make_full(8))
{
	kvmm_ticket_t large, small;
	kvmm_mut_t mut[4], one[1], now[1];
	kvmm_range_t range;

	cr_expect_eq(submit(pool, 4, 0, 90 * US, mut, &large), -EINPROGRESS);
	cr_expect_eq(submit(pool, 1, 0, 90 * US, one, &small), -EINPROGRESS);
	cr_expect_eq(kvmm_free(pool, held, 3), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, small), -EINPROGRESS);
	cr_expect_eq(kvmm_alloc(pool, 1, now), -ENOSPC);
	cr_expect_eq(ask_for(pool, 1, KVMM_ALLOC_NOWAIT, 0, now), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &range), -ENOSPC);
	cr_expect_eq(ask_for(pool, 1, KVMM_ALLOC_HIGH, 0, now), 0, "but a higher one does");
	cr_expect_eq(kvmm_free(pool, now, 1), 0);
	cr_expect_eq(kvmm_free(pool, held + 3, 2), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, large), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, small), 0);
	cr_expect_eq(kvmm_free(pool, one, 1), 0);
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

POOL_TEST(queue, higher_priority_comes_first_and_equals_in_order, make_full(8))
{
	static const u32 flags[5] = { 0, KVMM_ALLOC_HIGH, 0, KVMM_ALLOC_URGENT, KVMM_ALLOC_HIGH };
	static const u32 order[5] = { 3, 1, 4, 0, 2 };
	kvmm_ticket_t ticket[5];
	kvmm_mut_t mut[5];

	for (u32 i = 0; i < 5; i++)
		cr_expect_eq(submit(pool, 1, flags[i], 90 * US, &mut[i], &ticket[i]), -EINPROGRESS);
	for (u32 i = 0; i < 5; i++) {
		cr_expect_eq(kvmm_free(pool, &held[i], 1), 0);
		for (u32 j = 5; j-- > i + 1;)
			cr_expect_eq(kvmm_alloc_poll(pool, ticket[order[j]]), -EINPROGRESS);
		cr_expect_eq(kvmm_alloc_poll(pool, ticket[order[i]]), 0);
	}
	cr_expect_eq(kvmm_free(pool, mut, 5), 0);
}

/* Nobody polls it, but its deadline is seen by those who are behind. */
POOL_TEST(queue, a_deadline_that_has_passed_holds_up_nobody, make_full(8))
{
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[8], one[1];

	cr_expect_eq(submit(pool, 8, 0, 20 * US, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_free(pool, held, 1), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, one), -ENOSPC);
	fake.now_ns = 20 * US;
	cr_expect_eq(kvmm_alloc(pool, 1, one), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -ETIMEDOUT);
	cr_expect_eq(kvmm_free(pool, one, 1), 0);
}

POOL_TEST(queue, who_withdraws_makes_place_for_the_next, make_full(8))
{
	kvmm_ticket_t first, second;
	kvmm_mut_t mut[8], one[1];

	cr_expect_eq(submit(pool, 8, 0, 90 * US, mut, &first), -EINPROGRESS);
	cr_expect_eq(submit(pool, 1, 0, 90 * US, one, &second), -EINPROGRESS);
	cr_expect_eq(kvmm_free(pool, held, 1), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, second), -EINPROGRESS);
	cr_expect_eq(kv_alloc_withdraw(pool, first), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, second), 0);
	cr_expect_eq(submit(pool, 8, 0, 90 * US, mut, &first), -EINPROGRESS);
	cr_expect_eq(kvmm_alloc_cancel(pool, 5), 1);
	cr_expect_eq(kvmm_alloc_poll(pool, first), -ECANCELED);
	cr_expect_eq(kvmm_free(pool, one, 1), 0);
}

/* Polled or withdrawn: its time had run out for want of blocks. */
POOL_TEST(queue, a_ticket_that_was_too_late_has_failed_however_it_ends, make_full(4))
{
	kvmm_ticket_t ticket[3];
	kvmm_mut_t mut[3];

	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(submit(pool, 1, 0, (20 + 10 * (i == 2)) * US, &mut[i], &ticket[i]),
			     -EINPROGRESS);
	fake.now_ns = 25 * US;
	cr_expect_eq(kvmm_alloc_poll(pool, ticket[0]), -ETIMEDOUT);
	cr_expect_eq(stat_of(pool).fail_nospc, 1);
	cr_expect_eq(kv_alloc_withdraw(pool, ticket[1]), 0);
	cr_expect_eq(kv_alloc_withdraw(pool, ticket[2]), 0);
	cr_expect_eq(door_stat(pool).nr_timed_out, 2);
	cr_expect_eq(stat_of(pool).fail_nospc, 2);
}

POOL_TEST(queue, a_promise_is_past_the_queue, make_door(8, NULL))
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 2 };
	kvmm_mut_t mut[8], one[1];
	kvmm_ticket_t ticket;
	kvmm_promise_t promise;

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	cr_expect_eq(submit(pool, 7, 0, 90 * US, mut, &ticket), -EINPROGRESS);
	ctl.nr = 1;
	ctl.promise = promise;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, one), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_promise_end(pool, promise), 1);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	cr_expect_eq(kvmm_free(pool, one, 1), 0);
	cr_expect_eq(kvmm_free(pool, mut, 7), 0);
}

/* Growing ranges hold what others wait for: who has blocks may finish. */
POOL_TEST(queue, growth_is_past_the_queue, make_door(8, NULL))
{
	kvmm_range_t range = take(pool, 4, 0);
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[6];

	cr_expect_eq(submit(pool, 6, 0, 90 * US, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_range_grow(pool, range, 2), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	cr_expect_eq(kvmm_free(pool, mut, 6), 0);
}

/* ---- waiting against evicting ---- */

static const struct kvmm_alloc_attr cheap_wait = {
	.size = sizeof(cheap_wait), .costs = { 100, 1000, 400 },
};

POOL_TEST(queue, who_finds_waiting_cheaper_waits_before_it_evicts, make_door(8, &cheap_wait))
{
	kvmm_mut_t mut[2], hold[4];

	cr_assert_eq(kvmm_alloc(pool, 4, hold), 0);
	cache_keys(pool, 0, 4);
	/* Two blocks: 800 ns of waiting against 2,000 of computing again. */
	cr_expect_eq(ask_for(pool, 2, KVMM_ALLOC_RELATIVE, 10 * US, mut), 0);
	cr_expect_eq(fake.now_ns, 1800);
	cr_expect_eq(stat_of(pool).evictions, 2);
	cr_expect_geq(door_stat(pool).skipped[KVMM_STEP_EVICT], 1);
	cr_expect_eq(kvmm_free(pool, hold, 4), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

POOL_TEST(queue, what_comes_while_it_waits_spares_the_cache, make_door(8, &cheap_wait))
{
	const struct deed deeds[] = {
		{ 1200, free_one, &held[0] }, { 1500, free_one, &held[1] },
	};
	kvmm_mut_t mut[2];

	cr_assert_eq(kvmm_alloc(pool, 4, held), 0);
	cache_keys(pool, 0, 4);
	others_do(pool, deeds, 2);
	cr_expect_eq(ask_for(pool, 2, KVMM_ALLOC_RELATIVE, 10 * US, mut), 0);
	cr_expect_eq(fake.now_ns, 1500);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

/* ---- the end ---- */

static void destroy(struct kvmm_pool *pool, void *arg)
{
	/* What kvmm_pool_destroy() does first; the rest would wait for us. */
	kv_lock(&pool->lock);
	queue_refuse(pool, -ESHUTDOWN);
	kv_unlock(&pool->lock);
}

static void close_for_good(struct kvmm_pool *pool, void *arg)
{
	kv_lock(&pool->lock);
	pool_poison(pool);
	kv_unlock(&pool->lock);
}

Test(queue, a_pool_that_is_closed_lets_waiters_go)
{
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_full(8);
	const struct deed deeds[] = { { 5 * US, close_for_good, NULL } };
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[2];

	cr_expect_eq(submit(pool, 1, 0, 90 * US, mut + 1, &ticket), -EINPROGRESS);
	others_do(pool, deeds, 1);
	cr_expect_eq(ask_for(pool, 1, 0, 20 * US, mut), -EUCLEAN);
	cr_expect_eq(fake.now_ns, 5 * US);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EUCLEAN);
}

POOL_TEST(queue, who_waits_for_a_pool_that_goes_is_told, make_full(8))
{
	const struct deed deeds[] = { { 5 * US, destroy, NULL } };
	kvmm_mut_t mut[1];

	others_do(pool, deeds, 1);
	cr_expect_eq(ask_for(pool, 1, 0, 20 * US, mut), -ESHUTDOWN);
	cr_expect_eq(fake.now_ns, 5 * US);
}

/* ---- what the head lacks ---- */

/* A thread that has stopped the world frees blocks, and lets go of the lock in between. */
POOL_TEST(queue, one_that_comes_takes_nothing_from_the_news_of_the_head, make_full(4))
{
	kvmm_ticket_t first, second;
	kvmm_mut_t mut[2];

	cr_assert_eq(submit(pool, 1, 0, 90 * US, &mut[0], &first), -EINPROGRESS);
	cr_assert_eq(kvmm_alloc_poll(pool, first), -EINPROGRESS);
	cr_expect_eq(READ_ONCE(pool->door.head->word), 0);
	kv_lock(&pool->lock);
	release_post(pool, 1);
	kv_unlock(&pool->lock);
	cr_assert_eq(submit(pool, 1, 0, 90 * US, &mut[1], &second), -EINPROGRESS);
	cr_expect_eq(READ_ONCE(pool->door.head->word), 1);
	cr_expect_eq(kv_alloc_withdraw(pool, second), 0);
	cr_expect_eq(kv_alloc_withdraw(pool, first), 0);
}

/* One is parked already: with the second there are enough. */
POOL_TEST(queue, a_request_that_may_not_evict_waits_for_parked_blocks, make_door(8, NULL))
{
	kvmm_mut_t mut[2];
	kvmm_ticket_t ticket;

	cr_assert_eq(kvmm_alloc(pool, 8, held), 0);
	cr_assert_eq(kvmm_park(pool, held, 1), 0);
	cr_assert_eq(submit(pool, 2, KVMM_ALLOC_NO_EVICT, 90 * US, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_assert_eq(kvmm_park(pool, held + 1, 1), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

/*
 * A request of a higher priority evicts 3 blocks, takes 1 and leaves 2: these were in reach of most
 * requests before, but not of one that may not evict.
 */
static void expect_heard(void (*request)(struct kvmm_pool *pool))
{
	const struct kvmm_watermarks marks = { 2, 2, 2 };
	struct kvmm_pool *pool = make_door(8, NULL);
	kvmm_ticket_t ticket;
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(pool, 4, held), 0);
	cache_keys(pool, 0, 4);
	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_assert_eq(submit(pool, 1, KVMM_ALLOC_NO_EVICT, 90 * US, &mut, &ticket), -EINPROGRESS);
	cr_assert_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	request(pool);
	cr_expect_eq(stat_of(pool).nr_free, 2);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_assert_eq(kvmm_free(pool, held, 1), 0);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
	free_one(pool, &mut);
	end_pool(pool);
}

static void take_at_the_top(struct kvmm_pool *pool)
{
	kvmm_mut_t mut;

	cr_assert_eq(ask_for(pool, 1, KVMM_ALLOC_HIGH | KVMM_ALLOC_TOPDOWN, 0, &mut), 0);
}

TEST_CALL(queue, one_that_may_not_evict_hears_of_what_is_evicted, expect_heard(take_at_the_top))

static void take_in_a_gang(struct kvmm_pool *pool)
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_RANGE, .nr = 1, .seq = 1, .max_runs = 1,
				       .prio = KVMM_PRIO_HIGH };
	struct kvmm_gang_attr attr = { .size = sizeof(attr), .pools = &pool, .nr_pools = 1,
				       .wants = &want, .nr = 1 };
	struct kvmm_gang *gang;
	kvmm_range_t range;

	cr_assert_eq(kvmm_gang_reserve(&attr, &gang, NULL), 0);
	cr_assert_eq(kvmm_gang_commit(gang, NULL, &range), 0);
}

TEST_CALL(queue, and_of_what_a_gang_has_evicted, expect_heard(take_in_a_gang))

/*
 * Work that stops the world has the free block for now; giving that back is no news. One thread plays
 * both: a debug build, which knows the thread of a lock, refuses that.
 */
#ifndef KVMM_DEBUG
static u32 borrowed;

static bool stop_world(void *arg)
{
	struct kvmm_pool *pool = arg;

	if (!pool->door.head)
		return false;
	kv_lock(&pool->compact_lock);
	kv_lock(&pool->lock);
	pool_stop(pool);
	kv_lock(&pool->lock);
	cr_assert_eq(kv_zone_alloc_many(pool->zone, 1, &borrowed), 0);
	kv_unlock(&pool->lock);
	return true;
}

static void resume_world(struct kvmm_pool *pool, void *none)
{
	kv_lock(&pool->lock);
	cr_assert_eq(kv_zone_free(pool->zone, borrowed, 1), 0);
	pool_resume(pool);
	pool_leave(pool);
	kv_unlock(&pool->compact_lock);
}

POOL_TEST(queue, the_head_counts_what_it_lacks_when_the_world_goes_on, make_full(4))
{
	const struct deed deeds[] = {
		{ 10 * US, resume_world, NULL }, { 20 * US, free_one, &held[1] },
	};
	struct kvmm_range_attr want = { .size = sizeof(want), .nr = 2, .max_runs = 2,
					.deadline_ns = 90 * US };
	kvmm_range_t range;

	free_one(pool, &held[0]);
	others_do(pool, deeds, 2);
	between_arm(&fake, &pool->compact_lock, stop_world, pool);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &want, &range), 0);
	cr_expect(between_is_done());
	cr_expect_eq(fake.now_ns, 20 * US);
}
#endif

#define TICKET_ROOM	4096u

static struct {
	void *(*alloc)(void *ctx, size_t bytes, size_t align);
	void (*free)(void *ctx, void *ptr, size_t bytes);
	void *room;		/* of the first object, which has pages of its own */
	bool is_gone;		/* they cannot be touched any more */
} ticket_memory;

static void *alloc_ticket(void *ctx, size_t bytes, size_t align)
{
	if (ticket_memory.room)
		return ticket_memory.alloc(ctx, bytes, align);
	cr_assert_leq(bytes, TICKET_ROOM);
	ticket_memory.room = mmap(NULL, TICKET_ROOM, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(ticket_memory.room, MAP_FAILED);
	return ticket_memory.room;
}

static void free_ticket(void *ctx, void *ptr, size_t bytes)
{
	if (ptr != ticket_memory.room) {
		ticket_memory.free(ctx, ptr, bytes);
		return;
	}
	cr_assert_eq(mprotect(ptr, TICKET_ROOM, PROT_NONE), 0);
	ticket_memory.is_gone = true;
}

struct submitted {
	struct kvmm_pool *pool;
	kvmm_ticket_t ticket;	/* none until it is in the queue */
	int (*end)(struct kvmm_pool *pool, kvmm_ticket_t ticket);
};

static bool end_ticket(void *arg)
{
	struct submitted *s = arg;

	if (!s->ticket.id)
		return false;
	free_one(s->pool, held);
	cr_expect_eq(s->end(s->pool, s->ticket), 0);
	return true;
}

/* The lock is free before the submitter has returned: its ticket may be gone by then. */
static void expect_submitter_looks_away(int (*end)(struct kvmm_pool *pool, kvmm_ticket_t ticket))
{
	struct submitted s = { .pool = make_full(4), .end = end };
	kvmm_mut_t mut;

	ticket_memory.alloc = fake.ops.alloc;
	ticket_memory.free = fake.ops.free;
	fake.ops.alloc = alloc_ticket;
	fake.ops.free = free_ticket;
	between_arm(&fake, &s.pool->lock, end_ticket, &s);
	cr_expect_eq(submit(s.pool, 1, 0, 90 * US, &mut, &s.ticket), -EINPROGRESS);
	cr_expect(between_is_done() && ticket_memory.is_gone);
	cr_expect_eq(kvmm_alloc_poll(s.pool, s.ticket), -ESTALE);
	if (end == kvmm_alloc_poll)
		free_one(s.pool, &mut);
	end_pool(s.pool);
}

TEST_CALL(queue, a_ticket_may_be_served_before_its_submitter_returns,
	  expect_submitter_looks_away(kvmm_alloc_poll))
TEST_CALL(queue, a_ticket_may_be_withdrawn_before_its_submitter_returns,
	  expect_submitter_looks_away(kv_alloc_withdraw))

POOL_TEST(queue, tickets_go_with_their_pool, make_full(8))
{
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[1];

	cr_expect_eq(submit(pool, 1, 0, 90 * US, mut, &ticket), -EINPROGRESS);
}

/* ---- what validation sees ---- */

#define expect_seen(pool, change, undo)				\
	do {							\
		change;						\
		kv_lock(&(pool)->lock);				\
		cr_expect_eq(door_part.check(pool, NULL), -EUCLEAN, #change);	\
		kv_unlock(&(pool)->lock);			\
		undo;						\
	} while (0)

POOL_TEST(queue, whatever_contradicts_itself_is_found, make_full(8))
{
	struct door *door = &pool->door;
	kvmm_ticket_t ticket[2];
	kvmm_mut_t mut[2];

	cr_expect_eq(submit(pool, 1, 0, 90 * US, mut, &ticket[0]), -EINPROGRESS);
	cr_expect_eq(submit(pool, 1, 0, 90 * US, mut + 1, &ticket[1]), -EINPROGRESS);
	expect_seen(pool, pool->guard = 0, pool->guard = GUARD_QUEUE);
	expect_seen(pool, pool->guard |= GUARD_MARKS, pool->guard = GUARD_QUEUE);
	expect_seen(pool, door->nr_waiting++, door->nr_waiting--);
	expect_seen(pool, door->head->result = -1, door->head->result = 0);
	expect_seen(pool, door->tail->prio = 2, door->tail->prio = 0);
	expect_seen(pool, door->tail->prev = NULL, door->tail->prev = door->head);
	expect_seen(pool, door->tail->queued = false, door->tail->queued = true);
	expect_seen(pool, door->marks.high = 9, door->marks.high = 0);
	expect_seen(pool, door->costs.copy_block_ns = 0, door->costs.copy_block_ns = 1);
	expect_seen(pool, door->nr_promised = 1, door->nr_promised = 0);
}
