// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges that grow, as pictures: a letter is a range, a dot is free, and the letter's capital is what
 * is reserved for it.
 */
#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/growth.h"

/* picture(), and what is reserved in it. */
static const char *rooms(struct kvmm_pool *pool)
{
	static char text[4096];
	u32 cursor = 0;
	struct kvmm_range_info info;

	strncpy(text, picture(pool), sizeof(text) - 1);
	while (!kvmm_range_next(pool, &cursor, &info)) {
		struct growth growth = growth_of_range(pool, info.range);

		for (u32 i = 0; i < growth.reserved.nr; i++) {
			char *at = &text[growth.reserved.start + i];

			cr_assert_eq(*at, '.', "reserved, but not free");
			*at = 'A' + info.seq - 'a';
		}
	}
	cr_assert_eq(kvmm_validate(pool), 0);
	return text;
}

static kvmm_range_t take_growing(struct kvmm_pool *pool, u32 nr, u64 seq, u32 expect)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .seq = seq,
					.flags = KVMM_ALLOC_GROWS, .expect = expect };
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	return range;
}

static void grow(struct kvmm_pool *pool, kvmm_range_t range, u32 nr)
{
	cr_assert_eq(kvmm_range_grow(pool, range, nr), 0);
}

static struct kvmm_growth_stat growth_of(struct kvmm_pool *pool)
{
	struct kvmm_growth_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_growth_get_stat(pool, &stat), 0);
	return stat;
}

POOL_TEST(grow, the_second_time_room_is_kept, make_pool(32))
{
	kvmm_range_t a = take_seq(pool, 3, 0, 'a');

	grow(pool, a, 1);
	cr_expect_str_eq(rooms(pool), "aaaa............................");
	grow(pool, a, 1);
	cr_expect_str_eq(rooms(pool), "aaaaaAAAAAAAA...................");
	cr_expect_eq(stat_of(pool).nr_free, 27);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_FREE], 27);
	grow(pool, a, 7);
	cr_expect_str_eq(rooms(pool), "aaaaaaaaaaaaA...................");
}

POOL_TEST(grow, room_that_is_used_up_is_made_twice_as_long, make_pool(48))
{
	kvmm_range_t a = take_seq(pool, 1, 0, 'a');

	for (u32 i = 0; i < 11; i++)
		grow(pool, a, 1);
	cr_expect_str_eq(rooms(pool), "aaaaaaaaaaaaAAAAAAAAAAAAAAAA....................");
}

POOL_TEST(grow, who_says_so_has_room_from_the_start, make_pool(32))
{
	take_growing(pool, 4, 'a', 0);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAA............");
	take_growing(pool, 2, 'b', 6);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAAbbBBBB......");
}

POOL_TEST(grow, neighbours_stay_out_while_they_have_other_places, make_pool(32))
{
	kvmm_range_t a = take_growing(pool, 4, 'a', 0);

	take_seq(pool, 8, 0, 'b');
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAAbbbbbbbb....");
	grow(pool, a, 16);
	cr_expect_str_eq(rooms(pool), "aaaaaaaaaaaaaaaaaaaabbbbbbbb....");
	cr_expect_eq(kvmm_range_extents(pool, a, NULL, 0), 1);
}

/* Rather than in two pieces; and the grower keeps what is next to it. */
POOL_TEST(grow, who_would_be_scattered_takes_the_far_end, make_pool(32))
{
	take_growing(pool, 4, 'a', 0);
	take_seq(pool, 6, 0, 'b');
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAAbbbbbb......");
	take_seq(pool, 8, 0, 'c');
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAccccccccbbbbbb......");
	cr_expect_eq(growth_of(pool).stolen_blocks, 8);
}

POOL_TEST(grow, nobody_fails_for_want_of_reserved_blocks, make_pool(32))
{
	take_growing(pool, 4, 'a', 0);
	take_seq(pool, 28, KVMM_RUNS(1), 'b');
	cr_expect_str_eq(rooms(pool), "aaaabbbbbbbbbbbbbbbbbbbbbbbbbbbb");
}

static void be_refused(struct kvmm_pool *pool, struct kvmm_alloc_ctl *ctl)
{
	struct kvmm_growth_stat before = growth_of(pool), after;
	char *picture = strdup(rooms(pool));
	kvmm_range_t range;
	kvmm_mut_t mut[32];

	ctl->flags |= KVMM_ALLOC_CONTIG;
	cr_expect_eq(kvmm_alloc_as(pool, ctl, mut), -ENOSPC);
	cr_expect_str_eq(rooms(pool), picture);
	ctl->flags |= KVMM_ALLOC_NO_COMPACT;
	cr_expect_eq(kvmm_alloc_as(pool, ctl, mut), -ENOSPC);
	cr_expect_str_eq(rooms(pool), picture);
	cr_expect_eq(kvmm_range_alloc(pool, ctl->nr, KVMM_RUNS(1), &range), -ENOSPC);
	cr_expect_str_eq(rooms(pool), picture);
	after = growth_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	free(picture);
}

/* Nothing may move, and there is no run of so many even if all rooms are taken. */
POOL_TEST(grow, who_is_refused_takes_no_room, make_cache(32, "lru"))
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;

	cr_assert_eq(kvmm_range_pin(pool, take_growing(pool, 4, 'a', 8)), 0);
	cr_assert_eq(kvmm_range_pin(pool, take_seq(pool, 3, 0, 'b')), 0);
	cr_assert_eq(kvmm_range_pin(pool, take_growing(pool, 2, 'c', 9)), 0);
	cr_assert_eq(kvmm_range_pin(pool, take_seq(pool, 4, 0, 'd')), 0);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAbbbccCCCCCCCdddd........");
	ctl.nr = 9;
	be_refused(pool, &ctl);
	cr_expect_eq(kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &(kvmm_range_t){ 0 }), 0);
	ctl.nr = 8;
	be_refused(pool, &ctl);
	cr_expect_eq(kvmm_alloc_as(pool, &(struct kvmm_alloc_ctl){ .size = sizeof(ctl), .nr = 7,
				   .flags = KVMM_ALLOC_CONTIG }, (kvmm_mut_t[7]){ 0 }), 0);
}

/* The first piece lies in the other hole, the second would behind the room. */
POOL_TEST(grow, a_room_and_what_is_free_behind_it_are_one_run, make_pool(32))
{
	kvmm_range_t front = take(pool, 6, 0);

	take_seq(pool, 1, 0, 'b');
	take_growing(pool, 2, 'a', 10);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_expect_str_eq(rooms(pool), "......baaAAAAAAAA...............");
	take_seq(pool, 20, 0, 'c');
	cr_expect_str_eq(rooms(pool), "......baaAAAcccccccccccccccccccc");
}

/* Whichever room it is part of. */
POOL_TEST(grow, private_blocks_in_one_run_get_it_where_room_is, make_cache(22, "lru"))
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_range_t front = take(pool, 8, 0);
	kvmm_mut_t muts[6];

	take_seq(pool, 1, 0, 'b');
	take_growing(pool, 3, 'c', 0);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	take_growing(pool, 4, 'a', 0);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAbcccCCCCCCCCCC");
	ctl.nr = 6;
	ctl.flags = KVMM_ALLOC_CONTIG | KVMM_ALLOC_NOWAIT;
	cr_assert_eq(kvmm_alloc_as(pool, &ctl, muts), 0);
	for (u32 i = 0; i < 6; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, muts[i]), 16 + (int)i);
	cr_expect_eq(growth_of(pool).nr_reserved, 8);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(grow, nothing_is_evicted_for_want_of_reserved_blocks, make_cache(32, "lru"))
{
	kvmm_mut_t muts[16];

	cache_keys(pool, 0, 8);
	take_growing(pool, 4, 'a', 0);
	cr_expect_eq(growth_of(pool).nr_reserved, 16);
	cr_assert_eq(kvmm_alloc(pool, 16, muts), 0);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(growth_of(pool).nr_reserved, 4);
}

/* b has grown since, a has not; then c, which has just begun, would be next. */
POOL_TEST(grow, the_room_unused_for_longest_is_taken_first, make_pool(64))
{
	kvmm_range_t a = take_growing(pool, 4, 'a', 12), b = take_growing(pool, 4, 'b', 16);

	take_seq(pool, 36, 0, 'x');
	for (u32 i = 0; i < 4; i++)
		grow(pool, b, 1);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAbbbbbbbbBBBBBBBBxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	kv_lock(&pool->lock);
	cr_expect_eq(pool_steal_reserved(pool, 0), 0);
	cr_expect_eq(pool_steal_reserved(pool, 3), 3);
	kv_unlock(&pool->lock);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAA...bbbbbbbbBBBBBBBBxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	grow(pool, a, 1);
	kv_lock(&pool->lock);
	cr_expect_eq(pool_steal_reserved(pool, 4), 4);
	kv_unlock(&pool->lock);
	cr_expect_str_eq(rooms(pool), "aaaaaAAAA...bbbbbbbbBBBB....xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

/* Twice as many growths as there are reservations have gone by: it does not seem to grow any more. */
POOL_TEST(grow, who_has_stopped_growing_loses_everything_first, make_pool(64))
{
	kvmm_range_t b;

	take_growing(pool, 4, 'a', 12);
	b = take_growing(pool, 4, 'b', 20);
	take_seq(pool, 32, 0, 'x');
	for (u32 i = 0; i < 5; i++)
		grow(pool, b, 1);
	kv_lock(&pool->lock);
	cr_expect_eq(pool_steal_reserved(pool, 10), 10);
	kv_unlock(&pool->lock);
	cr_expect_str_eq(rooms(pool), "aaaa........bbbbbbbbbBBBBBBBBB..xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

/* b cannot go on behind its end, and no hole has room to grow into: it gets half of a's. */
POOL_TEST(grow, who_must_go_elsewhere_gets_half_of_the_longest_room, make_pool(64))
{
	kvmm_range_t b;

	take_growing(pool, 4, 'a', 44);
	b = take_seq(pool, 4, 0, 'b');
	take_seq(pool, 14, 0, 'x');
	grow(pool, b, 1);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAbbbbxxxxxxxxxxxxxxb.");
	grow(pool, b, 1);
	grow(pool, b, 1);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAAAAAAAAAAAAAAAAbBBBBBBBBBBBBBBBBbbbbxxxxxxxxxxxxxxbb");
}

POOL_TEST(grow, room_goes_with_the_end_of_the_range, make_pool(32))
{
	kvmm_range_t a = take_growing(pool, 4, 'a', 12), b = take_growing(pool, 4, 'b', 12), tail;

	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAAAbbbbBBBBBBBB........");
	cr_expect_eq(kvmm_range_shrink(pool, a, 1), 0);
	cr_expect_str_eq(rooms(pool), "aaa.........bbbbBBBBBBBB........");
	cr_expect_eq(kvmm_range_split(pool, b, 2, &tail), 0);
	cr_expect_str_eq(rooms(pool), "aaa.........bbbb................");
	grow(pool, tail, 1);
	cr_expect_str_eq(rooms(pool), "aaa.........bbbbbBBBBBBBB.......");
	cr_expect_eq(kvmm_range_free(pool, tail), 0);
	cr_expect_str_eq(rooms(pool), "aaa.........bb..................");
}

POOL_TEST(grow, the_front_may_go_while_the_room_stays, make_pool(32))
{
	kvmm_range_t a = take_growing(pool, 4, 'a', 12);

	cr_expect_eq(kvmm_range_shrink_front(pool, a, 2), 0);
	cr_expect_str_eq(rooms(pool), "..aaAAAAAAAA....................");
}

POOL_TEST(grow, what_is_reserved_is_free_for_compaction, make_pool(32))
{
	struct kvmm_compact all = { .size = sizeof(all) };
	kvmm_range_t a = take_growing(pool, 4, 'a', 12), hole = take_seq(pool, 4, 0, 'h');

	take_seq(pool, 4, 0, 'b');
	cr_expect_eq(kvmm_range_free(pool, hole), 0);
	cr_expect_eq(kvmm_pool_compact(pool, &all), 0);
	cr_expect_str_eq(rooms(pool), "aaaabbbb........................");
	grow(pool, a, 1);
	cr_expect_eq(stat_of(pool).nr_free, 23);
}

Test(grow, engines_that_round_up_reserve_nothing)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 32,
				       .allocator = "buddy" };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	kvmm_range_t a = take_growing(pool, 4, 'a', 0);

	for (u32 i = 0; i < 12; i++)
		grow(pool, a, 1);
	cr_expect_eq(growth_of(pool).nr_reserved, 0);
}

/* ---- many extents ---- */

/* Of 64 blocks every second one is free; 'a' gets them all, one by one and then at once. */
static kvmm_range_t comb(struct kvmm_pool *pool, kvmm_range_t *tooth)
{
	kvmm_range_t hole[32];

	for (u32 i = 0; i < 32; i++) {
		hole[i] = take_seq(pool, 1, 0, 'h');
		tooth[i] = take_seq(pool, 1, KVMM_ALLOC_NO_COMPACT, 't');
	}
	for (u32 i = 0; i < 32; i++)
		cr_assert_eq(kvmm_range_free(pool, hole[i]), 0);
	return take_seq(pool, 1, KVMM_ALLOC_NO_COMPACT, 'a');
}

static const char all_taken[] = "atatatatatatatatatatatatatatatatatatatatatatatatatatatatatatatat";

POOL_TEST(grow, takes_as_many_extents_as_it_needs, make_pool(64))
{
	struct kvmm_extent ext[32];
	kvmm_range_t tooth[32], a = comb(pool, tooth), tail;

	for (u32 i = 0; i < 12; i++)
		grow(pool, a, 1);
	grow(pool, a, 19);
	cr_expect_str_eq(rooms(pool), all_taken);
	cr_expect_eq(kvmm_range_extents(pool, a, ext, 32), 32);
	for (u32 i = 0; i < 32; i++)
		cr_expect(ext[i].nr == 1 && pool->owner[ext[i].start] == pool->owner[0]);
	cr_expect_eq(growth_of(pool).live_max, 32);
	cr_expect_eq(kvmm_range_split(pool, a, 20, &tail), 0);
	cr_expect_eq(kvmm_range_extents(pool, tail, NULL, 0), 12);
	cr_expect_eq(kvmm_range_shrink_front(pool, a, 11), 0);
	cr_expect_eq(kvmm_range_shrink(pool, tail, 11), 0);
	cr_expect_eq(kvmm_range_extents(pool, a, ext + 20, 12), 9);
	for (u32 i = 0; i < 9; i++)
		cr_expect_eq(ext[20 + i].start, ext[11 + i].start);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_free, 22);
}

POOL_TEST(grow, the_last_extents_may_be_moved_together, make_pool(64))
{
	struct kvmm_compact all = { .size = sizeof(all) };
	kvmm_range_t tooth[32], a = comb(pool, tooth);

	grow(pool, a, 23);
	write_pattern(pool, tooth[9], 4);
	for (u32 i = 0; i < 32; i++)
		cr_assert_eq(i == 9 ? 0 : kvmm_range_free(pool, tooth[i]), 0);
	cr_expect_eq(kvmm_pool_compact(pool, &all), 0);
	cr_expect_eq(stat_of(pool).nr_runs, 1);
	cr_expect_leq(kvmm_range_extents(pool, a, NULL, 0), 2);
	cr_expect(has_pattern(pool, tooth[9], 4));
}

POOL_TEST(grow, fails_without_a_trace_if_too_few_blocks_are_free, make_pool(64))
{
	kvmm_range_t tooth[32], a = comb(pool, tooth);
	struct kvmm_pool_stat before, after;
	char text[65];

	grow(pool, a, 2);
	before = stat_of(pool);
	strcpy(text, rooms(pool));
	cr_expect_eq(kvmm_range_grow(pool, a, 30), -ENOSPC);
	cr_expect_str_eq(rooms(pool), text);
	after = stat_of(pool);
	after.fail_nospc = before.fail_nospc;
	after.metadata_bytes = before.metadata_bytes;	/* tables that grew stay so */
	cr_expect_arr_eq(&before, &after, sizeof(before));
}

/* Neither does a refused one know that it has grown, nor has one that grows lost its room for it. */
POOL_TEST(grow, a_refused_growth_leaves_no_hint, make_pool(64))
{
	struct kvmm_digest_info info[2] = { { .size = sizeof(info[0]) }, { .size = sizeof(info[0]) } };
	struct kvmm_range_attr now = { .size = sizeof(now), .nr = 60, .flags = KVMM_ALLOC_NOWAIT };
	kvmm_range_t a = take_seq(pool, 8, 0, 'a'), b = take_growing(pool, 8, 'b', 24), none;

	cr_assert_eq(kvmm_pool_digest(pool, &info[0]), 0);
	cr_expect_eq(kvmm_range_grow(pool, a, 60), -ENOSPC);
	cr_expect_eq(kvmm_range_grow(pool, b, 60), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 60, 0, &none), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &now, &none), -ENOSPC);
	cr_assert_eq(kvmm_pool_digest(pool, &info[1]), 0);
	cr_expect_arr_eq(info[0].part, info[1].part, sizeof(info[0].part));
	grow(pool, a, 1);
	cr_expect_eq(growth_of(pool).nr_reserved, 16, "the first time no room is kept");
}

/* ---- what a growth moves ---- */

/* One block of 'a' each, KVMM_MAX_RUNS extents: a further one has to be a run. */
static kvmm_range_t scattered_among(struct kvmm_pool *pool, const char *want)
{
	kvmm_range_t range[26];

	paint(pool, want, range);
	cr_assert_eq(kvmm_range_extents(pool, range[0], NULL, 0), KVMM_MAX_RUNS);
	return range[0];
}

static void expect_old_blocks(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct kvmm_extent ext[16];
	int nr = kvmm_range_extents(pool, range, ext, 16);

	for (u32 i = 0; i < KVMM_MAX_RUNS; i++)
		cr_expect_eq(ext[i].start, 2 * i, "block %u is at %u", i, ext[i].start);
	cr_expect_geq(nr, KVMM_MAX_RUNS);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(grow, moves_no_block_of_a_range_that_grows, make_pool(20))
{
	kvmm_range_t a = scattered_among(pool, "a.a.a.a.a.a.a.abcbcb");

	cr_assert_eq(kvmm_range_get(pool, a), 0);
	grow(pool, a, 2);
	expect_old_blocks(pool, a);
	grow(pool, a, 2);
	expect_old_blocks(pool, a);
	cr_expect_eq(kvmm_range_unpin(pool, a), -EINVAL, "no pin is left on it");
	cr_assert_eq(kvmm_range_free(pool, a), 0);
}

POOL_TEST(grow, moves_others_to_make_a_run, make_pool(20))
{
	kvmm_range_t a = scattered_among(pool, "a.a.a.a.a.a.a.a.b.b.");

	grow(pool, a, 1);
	grow(pool, a, 3);
	expect_old_blocks(pool, a);
	cr_expect_eq(stat_of(pool).compactions, 1);
	cr_expect_leq(kvmm_range_extents(pool, a, NULL, 0), KVMM_MAX_RUNS + 1);
}

POOL_TEST(grow_many, moves_no_block_of_ranges_that_grow, make_pool(22))
{
	kvmm_range_t a = scattered_among(pool, "a.a.a.a.a.a.a.a.b.b.cc");
	struct kvmm_extent ext[4];
	kvmm_range_t b;

	cr_assert_eq(kvmm_range_find_seq(pool, 'b', &b, 1), 1);
	cr_assert_eq(kvmm_range_grow_many(pool, (kvmm_range_t[]){ a, b }, 2, 4), 0);
	expect_old_blocks(pool, a);
	cr_expect_gt(kvmm_range_extents(pool, b, ext, 4), 2);
	cr_expect_eq(ext[0].start, 16);
	cr_expect_eq(ext[1].start, 18);
}

/* ---- many ranges ---- */

POOL_TEST(grow_many, one_step_of_a_batch, make_pool(64))
{
	kvmm_range_t range[3] = { take_growing(pool, 2, 'a', 10), take_growing(pool, 2, 'b', 10),
				  take_growing(pool, 2, 'c', 10) };

	cr_expect_eq(kvmm_range_grow_many(pool, range, 3, 2), 0);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAbbbbBBBBBBccccCCCCCC..................................");
	cr_expect_eq(kvmm_range_grow_many(pool, range, 0, 1), 0);
	cr_expect_eq(kvmm_range_grow_many(pool, (kvmm_range_t[]){ range[1], range[1] }, 2, 1), 0);
	cr_expect_str_eq(rooms(pool), "aaaaAAAAAAbbbbbbBBBBccccCCCCCC..................................");
}

POOL_TEST(grow_many, all_or_none, make_pool(16))
{
	kvmm_range_t range[4] = { take_seq(pool, 4, 0, 'a'), take_seq(pool, 4, 0, 'b'),
				  take_seq(pool, 5, 0, 'c'), { 0, 0 } };
	struct kvmm_pool_stat before = stat_of(pool), after;

	cr_expect_eq(kvmm_range_grow_many(pool, range, 3, 2), -ENOSPC);
	cr_expect_str_eq(rooms(pool), "aaaabbbbccccc...");
	cr_expect_eq(kvmm_range_grow_many(pool, range, 4, 1), -EINVAL);
	cr_expect_str_eq(rooms(pool), "aaaabbbbccccc...");
	after = stat_of(pool);
	cr_expect_eq(after.fail_nospc, before.fail_nospc + 1);
	after.fail_nospc = before.fail_nospc;
	after.metadata_bytes = before.metadata_bytes;	/* tables that grew stay so */
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_range_grow_many(pool, range, 3, 1), 0);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 3, 0), -EINVAL);
	cr_expect_eq(kvmm_range_grow_many(pool, NULL, 3, 1), -EINVAL);
	cr_expect_eq(kvmm_range_grow_many(NULL, range, 3, 1), -EINVAL);
	cr_expect_eq(kvmm_range_grow_many(pool, range, UINT32_MAX, UINT32_MAX), -EINVAL);
	cr_expect_eq(kvmm_range_grow_many(pool, range, UINT32_MAX, 3), -ENOSPC);
}

POOL_TEST(grow_many, that_is_refused_is_counted_however_much_it_asks_for, make_pool(16))
{
	kvmm_range_t range[2] = { take_seq(pool, 3, 0, 'a'), take_seq(pool, 3, 0, 'b') };

	for (u32 by = 6; by <= 16; by++) {
		cr_expect_eq(kvmm_range_grow_many(pool, range, 2, by), -ENOSPC);
		cr_expect_eq(stat_of(pool).fail_nospc, by - 5);
	}
}

POOL_TEST(grow_many, evicts_what_all_of_them_need, make_cache(32, "lru"))
{
	kvmm_range_t range[2] = { take(pool, 8, 0), take(pool, 8, 0) };

	cache_keys(pool, 0, 12);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 8), 0);
	cr_expect_eq(stat_of(pool).evictions, 12);
	cr_expect_eq(stat_of(pool).nr_free, 0);
}

/* The flag is one that a range keeps; of a batch it forbids eviction to all. */
POOL_TEST(grow_many, evicts_nothing_for_a_range_that_was_allocated_without, make_cache(8, "lru"))
{
	kvmm_range_t range[2] = { take(pool, 2, KVMM_ALLOC_NO_EVICT), take(pool, 2, 0) };
	struct kvmm_range_info info;

	cache_keys(pool, 0, 4);
	cr_assert_eq(kvmm_range_get_info(pool, range[0], &info), 0);
	cr_expect_eq(info.flags, KVMM_ALLOC_NO_EVICT);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 1), -ENOSPC);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 1), -ENOSPC);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(kvmm_range_grow(pool, range[1], 1), 0);
	cr_expect_eq(stat_of(pool).evictions, 1);
	cr_assert_eq(kvmm_range_shrink(pool, range[1], 1), 0);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 1), 0);
	cr_expect_eq(stat_of(pool).evictions, 1);
}

/*
 * Three cached blocks, one free one, and two ranges that are to grow by @by each: refused, and then by
 * as much as there is. Content, order of eviction and tenants are as before.
 */
static void refused_batch_evicts_nothing(struct kvmm_pool *pool, u32 by, int why)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 3, .max_runs = 4, .tenant = 9 };
	struct kvmm_digest_info info[2] = { { .size = sizeof(info[0]) }, { .size = sizeof(info[0]) } };
	struct kvmm_pool_stat before, after;
	kvmm_range_t range[2], none;

	cache_keys(pool, 0, 3);
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range[i]), 0);
	before = stat_of(pool);
	cr_assert_eq(kvmm_pool_digest(pool, &info[0]), 0);
	attr.flags = KVMM_ALLOC_NO_EVICT;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &none), -ENOSPC);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, by), why);
	after = stat_of(pool);
	after.fail_nospc = before.fail_nospc;
	after.metadata_bytes = before.metadata_bytes;	/* tables that grew stay so */
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_assert_eq(kvmm_pool_digest(pool, &info[1]), 0);
	for (u32 part = KVMM_DIGEST_RANGES; part <= KVMM_DIGEST_TENANTS; part++)
		cr_expect(kvmm_sum_equal(&info[0].part[part], &info[1].part[part]), "%u", part);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 2), 0);
	cr_expect_eq(stat_of(pool).evictions, 3);
	cr_expect_eq(kvmm_validate(pool), 0);
	end_pool(pool);
}

static struct kvmm_pool *make_small(u32 zero)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .policy = "lru", .nr_blocks = 10,
				       .block_bytes = TEST_BLOCK_BYTES, .zero = zero };

	return make_pool_of(&attr);
}

Test(grow_many, a_refused_batch_evicts_nothing_whatever_the_pool_is_made_for)
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	struct kvmm_pool *pool;

	refused_batch_evicts_nothing(make_small(0), 3, -ENOSPC);
	refused_batch_evicts_nothing(make_small(KVMM_ZERO_ALWAYS), 3, -ENOSPC);
	pool = make_small(0);
	cr_assert_eq(kvmm_tenant_set(pool, 9, &limit), 0);
	refused_batch_evicts_nothing(pool, 3, -ENOSPC);
	pool = make_small(KVMM_ZERO_ALWAYS);
	limit.max = 10;
	cr_assert_eq(kvmm_tenant_set(pool, 9, &limit), 0);
	refused_batch_evicts_nothing(pool, 3, -EDQUOT);
}

struct pieces {
	u64 in_place, elsewhere;
};

/* Of the range, if it has grown, and then of the pool. */
static void pieces_of(struct kvmm_pool *pool, kvmm_range_t range, struct pieces pieces[2])
{
	struct growth growth = growth_of_range(pool, range);
	struct kvmm_growth_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_growth_get_stat(pool, &stat), 0);
	pieces[0] = (struct pieces){ growth.in_place, growth.elsewhere };
	pieces[1] = (struct pieces){ stat.in_place, stat.elsewhere };
}

/* Two ranges of three blocks, in a pool of ten: both can grow by two, but not one of them twice. */
static void refused_growth_is_not_counted(u32 zero, const struct kvmm_tenant_attr *limit, int why)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_small(zero);
	kvmm_range_t range[3];
	struct pieces before[2], after[2];

	if (limit)
		cr_assert_eq(kvmm_tenant_set(pool, 0, limit), 0);
	for (u32 i = 0; i < 2; i++)
		range[i] = take(pool, 2, 0);
	range[2] = range[0];
	cr_assert_eq(kvmm_range_grow_many(pool, range, 2, 1), 0);
	pieces_of(pool, range[0], before);
	cr_expect_eq(before[1].in_place + before[1].elsewhere, 2);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 3, 2), why);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 6), why);
	pieces_of(pool, range[0], after);
	cr_expect_arr_eq(before, after, sizeof(before));
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 1), 0);
	pieces_of(pool, range[0], after);
	cr_expect_eq(after[1].in_place + after[1].elsewhere, 4);
}

Test(grow_many, refused_growth_is_not_counted)
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;

	refused_growth_is_not_counted(0, NULL, -ENOSPC);
	refused_growth_is_not_counted(KVMM_ZERO_ALWAYS, NULL, -ENOSPC);
	limit.max = 10;
	refused_growth_is_not_counted(0, &limit, -EDQUOT);
	refused_growth_is_not_counted(KVMM_ZERO_ALWAYS, &limit, -EDQUOT);
}

/* ---- what is told ---- */

POOL_TEST(grow, statistics_count_extents_of_the_living_and_the_dead, make_pool(64))
{
	kvmm_range_t tooth[32], a = comb(pool, tooth);
	struct kvmm_growth_stat stat;

	grow(pool, a, 1);
	grow(pool, a, 4);
	cr_expect_eq(growth_of_range(pool, a).nr_ext, 6);
	cr_expect_eq(growth_of_range(pool, a).elsewhere, 5);
	stat = growth_of(pool);
	cr_expect_eq(stat.live[0], 32);
	cr_expect_eq(stat.live[3], 1);
	cr_expect_eq(stat.live_ext, 38);
	cr_expect_eq(stat.live_max, 6);
	cr_expect_eq(stat.finished[0], 32);
	cr_expect_eq(kvmm_range_free(pool, a), 0);
	stat = growth_of(pool);
	cr_expect_eq(stat.finished[3], 1);
	cr_expect_eq(stat.finished_ext, 38);
	cr_expect_eq(stat.finished_max, 6);
	cr_expect_eq(kvmm_growth_get_stat(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_growth_get_stat(NULL, &stat), -EINVAL);
}

/* ---- sliding windows ---- */

/* The window walks through the zone many times, round what stands there for ever. */
POOL_TEST(grow, a_sliding_window_stays_in_few_pieces, make_pool(1024))
{
	kvmm_range_t window, rock[4];
	u32 most = 0;

	for (u32 i = 0; i < 4; i++) {
		kvmm_range_t gap = take(pool, 200, 0);

		rock[i] = take(pool, 1, 0);
		cr_assert_eq(kvmm_range_free(pool, gap), 0);
		if (i < 3)
			take(pool, 200, 0);
	}
	(void)rock;
	window = take_growing(pool, 64, 'w', 0);
	for (u32 i = 0; i < 100000; i++) {
		int nr;

		grow(pool, window, 1);
		cr_assert_eq(kvmm_range_shrink_front(pool, window, 1), 0);
		nr = kvmm_range_extents(pool, window, NULL, 0);
		most = max(most, (u32)nr);
	}
	cr_expect_leq(most, 3);
}
