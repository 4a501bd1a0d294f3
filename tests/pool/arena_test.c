// SPDX-License-Identifier: Apache-2.0
/*
 * Arenas: whose what is, who gets it, and that nobody is refused for it.
 *
 * The tests say which processor they are on, and have arenas from the beginning where the chance meeting
 * of threads is not what is tested.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/rcu.h>
#include <kvmm/ext/lease.h>

#include "tests/pool/arena.h"
#include "tests/support/fake_env.h"
#include "tests/support/lease.h"
#include "tests/support/random.h"

#define NR_BLOCKS	512u	/* 8 regions of 64 */
#define REGION		64u

TestSuite(arena, .init = set_up, .fini = tear_down);

static struct kvmm_pool *pool_with_arenas(u32 nr)
{
	struct kvmm_pool *pool = make_pool(NR_BLOCKS);

	cr_assert_eq(kv_pool_force_arenas(pool, nr), 0);
	return pool;
}

static char letter_of(const struct kvmm_pool *pool, u32 block)
{
	u32 owner = pool->owner[block];

	if (owner_kind(owner) == OWNER_SLOT)
		return "#ab"[slot_at(pool, owner_index(owner))->arena];
	for (u32 i = 0; i < pool->arenas->nr; i++)
		if (pool->arenas->arena[i].zone &&
		    kv_zone_is_free(pool->arenas->arena[i].zone, block))
			return '0' + i;
	return '.';
}

/*
 * Eight letters a region, one for each eight blocks: '.' free in the zone, '0' and '1' in an arena; 'a'
 * and 'b' a range of one, '#' one of the pool.
 */
static const char *regions(const struct kvmm_pool *pool)
{
	static char line[NR_BLOCKS / 8 + NR_BLOCKS / REGION + 1];
	char *at = line;

	for (u32 b = 0; b < NR_BLOCKS; b += 8) {
		if (b && b % REGION == 0)
			*at++ = ' ';
		*at++ = letter_of(pool, b);
	}
	*at = '\0';
	return line;
}

/* ---- whose what is ---- */

POOL_TEST(arena, ranges_of_two_processors_lie_in_regions_of_their_own, pool_with_arenas(2))
{
	take_on(0, pool, 8);
	take_on(1, pool, 16);
	take_on(0, pool, 8);
	cr_expect_str_eq(regions(pool), "aa000000 00000000 00000000 00000000 "
					"bb111111 11111111 11111111 11111111");
}

POOL_TEST(arena, what_is_freed_joins_what_is_free_beside_it, pool_with_arenas(2))
{
	kvmm_range_t low = take_on(0, pool, 32), high = take_on(0, pool, 32), all;
	struct kvmm_extent ext;

	/* Wherever it is freed. */
	cpu = 1;
	cr_assert_eq(kvmm_range_free(pool, low), 0);
	cr_assert_eq(kvmm_range_free(pool, high), 0);
	all = take_on(0, pool, 64);
	cr_expect_eq(kvmm_range_extents(pool, all, &ext, 1), 1);
	cr_expect_eq(ext.start, 0);
}

POOL_TEST(arena, a_range_of_the_pool_is_freed_to_whom_its_region_is_lent, make_pool(NR_BLOCKS))
{
	kvmm_range_t early = take(pool, 16, KVMM_RUNS(1)), late;

	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	late = take_on(0, pool, 8);
	cr_expect_eq(strncmp(regions(pool), "##a00000", 8), 0, "%s", regions(pool));
	cr_assert_eq(kvmm_range_free(pool, early), 0);
	cr_expect_eq(strncmp(regions(pool), "00a00000", 8), 0, "%s", regions(pool));
	cr_assert_eq(kvmm_range_free(pool, late), 0);
}

/* One end of it in a region that is lent, the other one in one that is not. */
POOL_TEST(arena, a_range_across_the_border_goes_to_both_sides, make_pool(NR_BLOCKS))
{
	kvmm_range_t all = take(pool, NR_BLOCKS, KVMM_RUNS(1)), across, above, low;
	struct arena *arena;

	cr_assert_eq(kvmm_range_split(pool, all, 128 + 32, &above), 0);
	cr_assert_eq(kvmm_range_split(pool, all, 128 - 32, &across), 0);
	cr_assert_eq(kvmm_range_split(pool, all, 64, &low), 0);
	cr_assert_eq(kvmm_range_free(pool, low), 0);
	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	take_on(0, pool, 8);
	arena = &pool->arenas->arena[0];
	kv_lock(&pool->lock);
	kv_lock(&arena->lock);
	arena_pass_region(pool, pool->arenas, arena, 2, false);
	kv_unlock(&arena->lock);
	kv_unlock(&pool->lock);
	cr_expect_str_eq(regions(pool), "######## a000#### ######## ######## "
					"######## ######## ######## ########");
	cr_assert_eq(kvmm_range_free(pool, across), 0);
	cr_expect_str_eq(regions(pool), "######## a0000000 ....#### ######## "
					"######## ######## ######## ########");
}

POOL_TEST(arena, what_asks_for_more_than_blocks_is_the_pools, pool_with_arenas(2))
{
	struct kvmm_alloc_report report;
	const struct kvmm_range_attr attr[] = {
		{ .nr = ARENA_MAX_NR + 1 },		     { .nr = 1, .prio = KVMM_PRIO_HIGH },
		{ .nr = 1, .flags = KVMM_ALLOC_PINNED },     { .nr = 1, .flags = KVMM_ALLOC_ZERO },
		{ .nr = 1, .flags = KVMM_ALLOC_TOPDOWN },    { .nr = 1, .report = &report },
	};

	for (u32 i = 0; i < ARRAY_SIZE(attr); i++) {
		struct kvmm_range_attr copy = attr[i];
		kvmm_range_t range;

		copy.size = sizeof(copy);
		cr_assert_eq(kvmm_range_alloc_attr(pool, &copy, &range), 0, "%u", i);
		cr_expect_eq(arena_with(pool, range), 0, "%u", i);
		cr_expect_eq(kvmm_range_free(pool, range), 0);
	}
}

POOL_TEST(arena, ranges_of_a_tenant_without_limits_are_an_arenas, pool_with_arenas(2))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 3, .tenant = 7 };
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_neq(arena_with(pool, range), 0);
	cr_expect_eq(slot_at(pool, range.index)->tenant, 7);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

/* ---- sequences ---- */

static kvmm_range_t take_seq_on(u32 number, struct kvmm_pool *pool, u32 nr, u64 seq)
{
	kvmm_range_t range;

	cpu = number;
	range = take_seq(pool, nr, 0, seq);
	cr_assert_eq(arena_with(pool, range), number + 1);
	return range;
}

POOL_TEST(arena, a_sequence_has_its_ranges_change_over_newest_first, pool_with_arenas(2))
{
	kvmm_range_t found[8], other, range[3];

	range[0] = take_seq_on(0, pool, 2, 's');
	other = take_seq_on(0, pool, 2, 't');
	range[1] = take_seq_on(0, pool, 3, 's');
	cr_assert_eq(kvmm_validate(pool), 0);
	range[2] = take_seq_on(1, pool, 4, 's');
	cr_assert_eq(kvmm_ranges_of_seq(pool, 's', 0, found, 8), 3);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(found[i].index, range[2 - i].index, "%u", i);
	cr_expect_eq(arena_with(pool, range[0]), 0);
	cr_expect_eq(arena_with(pool, other), 1);
	cr_expect_eq(kvmm_ranges_of_seq(pool, 's', 1, found, 8), 3);
	cr_expect_eq(kvmm_ranges_of_seq(pool, 's', 0, found, 8), 0);
	cr_expect_eq(kvmm_ranges_of_seq(pool, 't', 1, found, 8), 1);
	cr_expect_eq(stat_of(pool).nr_free, NR_BLOCKS);
}

/* Against a list: what is held, of which sequence. */
POOL_TEST(arena, sequences_are_those_of_a_list_whatever_holds_their_ranges, pool_with_arenas(2))
{
	struct { kvmm_range_t range; u64 seq; } held[64];
	u64 r = 20261128;	/* the seed */
	u32 nr = 0;

	for (u32 step = 0; step < 4000; step++) {
		u32 kind = any_of(&r, 8), at = nr ? any_of(&r, nr) : 0;
		kvmm_range_t found[64];
		u64 seq = any_of(&r, 6);

		cpu = any_of(&r, 2);
		if (kind < 4 && nr < 64) {
			held[nr].seq = seq;
			held[nr++].range = take_seq(pool, 1 + any_of(&r, 4), 0, seq);
		} else if (kind < 6 && nr) {
			cr_assert_eq(kvmm_range_free(pool, held[at].range), 0, "step %u", step);
			held[at] = held[--nr];
		} else if (kind == 6 && nr) {
			cr_assert_eq(kvmm_range_get(pool, held[at].range), 0);
			cr_assert_eq(kvmm_range_free(pool, held[at].range), 0);
		} else if (seq) {
			int want = 0, drop = !any_of(&r, 4);

			for (u32 i = 0; i < nr; i++)
				want += held[i].seq == seq;
			cr_assert_eq(kvmm_ranges_of_seq(pool, seq, drop, found, 64), want,
				     "step %u", step);
			for (u32 i = nr; drop && i-- > 0;)
				if (held[i].seq == seq)
					held[i] = held[--nr];
		}
		if (step % 64 == 0)
			cr_assert_eq(kvmm_validate(pool), 0, "step %u", step);
	}
}

/* ---- ranges change over ---- */

static int get_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_get(pool, range);
}

static int pin_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_pin(pool, range);
}

static int grow_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_grow(pool, range, 3);
}

static int shrink_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	return kvmm_range_shrink(pool, range, 3);
}

static int split_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	kvmm_range_t tail;

	return kvmm_range_split(pool, range, 3, &tail);
}

static int ask_for_it(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct kvmm_range_info info;
	int err = kvmm_range_get_info(pool, range, &info);

	return err ? err : info.nr == 8 && info.refs == 1 && !info.pins ? 0 : -EINVAL;
}

Test(arena, whoever_wants_more_of_a_range_gets_it)
{
	int (*const want[])(struct kvmm_pool *, kvmm_range_t) = { get_it, pin_it, grow_it,
								  shrink_it, split_it, ask_for_it };

	for (u32 i = 0; i < ARRAY_SIZE(want); i++) {
		struct kvmm_pool *pool __cleanup(end_pool) = pool_with_arenas(2);
		kvmm_range_t range = take_on(1, pool, 8);

		cr_assert_eq(arena_with(pool, range), 2);
		cr_expect_eq(want[i](pool, range), 0, "%u", i);
		cr_expect_eq(arena_with(pool, range), 0, "%u", i);
		cr_expect_eq(pool->arenas->arena[1].count.nr_ranges, 0);
	}
}

POOL_TEST(arena, handles_of_what_is_gone_are_refused, pool_with_arenas(2))
{
	kvmm_range_t range = take_on(0, pool, 8);
	struct kvmm_extent ext;

	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), -ESTALE);
	cr_expect_eq(kvmm_range_get(pool, range), -ESTALE);
	cr_expect_eq(kvmm_range_extents(pool, range, &ext, 1), -ESTALE);
	range.gen += 2;
	cr_expect_eq(kvmm_range_free(pool, range), -EINVAL);
	range.index = 1u << 20;
	cr_expect_eq(kvmm_range_free(pool, range), -EINVAL);
}

POOL_TEST(arena, walks_see_ranges_of_arenas, pool_with_arenas(2))
{
	struct kvmm_range_info info;
	u32 cursor = 0, nr = 0, blocks = 0;

	take_on(0, pool, 3);
	take_on(1, pool, 4);
	take_seq(pool, 5, 0, 's');
	for (; !kvmm_range_next(pool, &cursor, &info); nr++)
		blocks += info.nr;
	cr_expect_eq(nr, 3);
	cr_expect_eq(blocks, 12);
}

/* ---- nobody is refused ---- */

POOL_TEST(arena, nobody_is_refused_for_what_an_arena_keeps, pool_with_arenas(2))
{
	kvmm_range_t one = take_on(0, pool, 1), rest;

	cr_expect_gt(pool->arenas->arena[0].nr_free, 0);
	cpu = 1;
	rest = take(pool, NR_BLOCKS - 1, KVMM_RUNS(1));
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_assert_eq(kvmm_range_free(pool, one), 0);
	take_on(1, pool, 1);
	cr_assert_eq(kvmm_range_free(pool, rest), 0);
}

POOL_TEST(arena, the_last_blocks_are_found_one_by_one, pool_with_arenas(4))
{
	kvmm_range_t range;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		take_on(i % 4, pool, 1);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &range), -ENOSPC);
}

POOL_TEST(arena, cached_blocks_get_what_an_arena_keeps, make_cache(NR_BLOCKS, "lru"))
{
	static kvmm_mut_t mut[NR_BLOCKS];

	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	take_on(0, pool, 1);
	cr_expect_eq(kvmm_alloc(pool, NR_BLOCKS, mut), -ENOSPC);
	cr_expect_eq(kvmm_alloc(pool, NR_BLOCKS - 1, mut), 0);
}

/* Nothing is evicted that need not be. */
POOL_TEST(arena, what_an_arena_keeps_is_used_before_anything_is_evicted,
	  make_cache(NR_BLOCKS, "lru"))
{
	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	cache_keys(pool, 0, 60);
	take_on(0, pool, 1);
	take(pool, NR_BLOCKS - 61, KVMM_RUNS(4));
	cr_expect_eq(stat_of(pool).evictions, 0);
}

POOL_TEST(arena, moves_keep_the_content_of_ranges_of_arenas, pool_with_arenas(2))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t gap = take_on(0, pool, 8), low = take_on(0, pool, 8), high = take_on(1, pool, 8);

	write_pattern(pool, low, 1);
	write_pattern(pool, high, 2);
	cr_assert_eq(kvmm_range_free(pool, gap), 0);
	cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_gt(goal.moved, 0);
	cr_expect(has_pattern(pool, low, 1));
	cr_expect(has_pattern(pool, high, 2));
	cr_expect_eq(goal.largest_after, NR_BLOCKS - 16);
	cr_assert_eq(kvmm_range_free(pool, high), 0);
}

/* ---- counts ---- */

POOL_TEST(arena, counts_are_those_of_pool_and_arenas_together, pool_with_arenas(2))
{
	kvmm_range_t a = take_on(0, pool, 8);
	struct kvmm_pool_stat stat;

	take_on(1, pool, 4);
	take_seq(pool, 2, 0, 's');
	cr_assert_eq(kvmm_range_free(pool, a), 0);
	stat = stat_of(pool);
	cr_expect_eq(stat.nr_free, NR_BLOCKS - 6);
	cr_expect_eq(stat.nr_available, NR_BLOCKS - 6);
	cr_expect_eq(stat.nr_state[KVMM_BLOCK_RANGE], 6);
	cr_expect_eq(stat.nr_state[KVMM_BLOCK_FREE], NR_BLOCKS - 6);
	cr_expect_eq(stat.nr_ranges, 2);
	cr_expect_eq(stat.allocs, 3);
	cr_expect_eq(stat.alloc_blocks, 14);
	cr_expect_eq(stat.frees, 1);
}

Test(arena, little_is_kept_aside)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1u << 15 };
	static kvmm_range_t range[512];
	u32 most;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	most = attr.nr_blocks / 8 + 4 * (1u << pool->arenas->region_order);
	for (u32 i = 0; i < 512; i++)
		range[i] = take_on(i % 2, pool, 60);
	for (u32 i = 0; i < 512; i++) {
		cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
		cr_assert_leq(arenas_nr_free(pool), most, "%u", i);
	}
}

/* ---- in use, out of use ---- */

static struct kvmm_pool *large_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1u << 14 };

	return make_pool_of(&attr);
}

/* As if two threads had met at the lock. */
static void meet(struct kvmm_pool *pool)
{
	kv_lock(&pool->lock);
	__arena_warm(pool);
	kv_unlock(&pool->lock);
}

/* Each processor in turn has as many ranges as there are; then any range can be held. */
POOL_TEST(arena, slots_that_arenas_keep_are_used_before_more_are_made, pool_with_arenas(16))
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	kvmm_range_t range[NR_BLOCKS];
	kvmm_lease_t hold[NR_BLOCKS];

	for (u32 i = 0; i < 17; i++) {
		for (u32 k = 0; k < NR_BLOCKS; k++)
			range[k] = take_on(i % 16, pool, 1);
		for (u32 k = 0; k < NR_BLOCKS && i < 16; k++)
			cr_assert_eq(kvmm_range_free(pool, range[k]), 0);
	}
	cr_expect_leq(dir_nr_slots(pool->slots), NR_BLOCKS + MAX_STOCK + CHUNK_SLOTS);
	for (u32 k = 0; k < NR_BLOCKS; k++)
		cr_expect_eq(lease_range(pool, &attr, range[k], &hold[k]), 0, "slot %u",
			     range[k].index);
	for (u32 k = 0; k < NR_BLOCKS; k++)
		cr_expect_eq(drop_lease(pool, hold[k]), 0);
}

POOL_TEST(arena, who_meets_often_gets_arenas, large_pool())
{
	for (u32 i = 0; i < 31; i++)
		meet(pool);
	cr_expect_null(pool->arenas);
	meet(pool);
	cr_assert_not_null(pool->arenas);
	cr_expect(pool->arenas->on);
	cr_expect_eq(arena_with(pool, take_on(1, pool, 8)), 2);
}

POOL_TEST(arena, who_meets_seldom_does_not, large_pool())
{
	for (u32 i = 0; i < 100; i++) {
		meet(pool);
		for (u32 k = 0; k < 1024; k++)
			cr_assert_eq(kvmm_range_free(pool, take(pool, 1, 0)), 0);
	}
	cr_expect_null(pool->arenas);
}

static struct kvmm_pool *warm_pool(void)
{
	struct kvmm_pool *pool = large_pool();

	for (u32 i = 0; i < 32; i++)
		meet(pool);
	cr_assert(pool->arenas && pool->arenas->on);
	return pool;
}

POOL_TEST(arena, who_is_left_alone_gives_all_of_it_back, warm_pool())
{
	kvmm_range_t range = take_on(1, pool, 8);
	u32 nr = 0;

	for (; pool->arenas->on && nr < 1u << 22; nr++)
		cr_assert_eq(kvmm_range_free(pool, take_on(0, pool, 8)), 0);
	cr_expect_lt(nr, 1u << 22);
	cr_expect_eq(arenas_nr_free(pool), 0);
	cr_expect_eq(pool->arenas->nr_lent, 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(stat_of(pool).nr_runs, 1);
}

POOL_TEST(arena, who_has_company_keeps_his, warm_pool())
{
	for (u32 nr = 0; nr < 1u << 18; nr++)
		cr_assert_eq(kvmm_range_free(pool, take_on(nr % 2, pool, 8)), 0);
	cr_expect(pool->arenas->on);
}

static void *hold_for_a_moment(void *arg)
{
	struct arena *arena = arg;

	kv_lock(&arena->lock);
	kv_env_system.wait(NULL, &arena->lock.held, READ_ONCE(arena->lock.held), 20000000);
	kv_unlock(&arena->lock);
	return NULL;
}

/* The pool would be asked for blocks that it may not have, and take back those of all arenas. */
POOL_TEST(arena, an_arena_that_is_busy_is_waited_for, warm_pool())
{
	struct arena *arena = &pool->arenas->arena[0];
	kvmm_range_t range = take_on(0, pool, 8);
	pthread_t thread;

	cr_assert_eq(arena_with(pool, range), 1);
	pthread_create(&thread, NULL, hold_for_a_moment, arena);
	while (!kv_lock_is_held(&arena->lock))
		sched_yield();
	cr_expect_eq(arena_with(pool, take_on(0, pool, 8)), 1);
	pthread_join(thread, NULL);
}

/* Else each range of the thread would be the pool's business once more when it goes on. */
POOL_TEST(arena, a_thread_that_pauses_finds_its_arena_again, warm_pool())
{
	kvmm_range_t range = take_on(1, pool, 8);

	for (u32 nr = 0; nr < 1u << 18; nr++)
		cr_assert_eq(kvmm_range_free(pool, take_on(0, pool, 8)), 0);
	cr_expect(pool->arenas->on);
	cr_expect_eq(region_of(pool->arenas, slot_at(pool, range.index)->first.start), 2);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(arena_with(pool, take_on(1, pool, 8)), 2);
}

POOL_TEST(arena, arenas_are_of_no_use_where_memory_is_short, warm_pool())
{
	kvmm_range_t range;

	take_on(0, pool, 8);
	cr_expect_eq(kvmm_range_alloc(pool, 1u << 14, KVMM_RUNS(1), &range), -ENOSPC);
	cr_expect_not(pool->arenas->on);
	cr_expect_eq(arena_with(pool, take_on(0, pool, 8)), 0);
}

/* ---- watermarks, promises, requests that wait ---- */

#define LOW	200u

static const struct kvmm_watermarks some_marks = { .min = 100, .low = LOW, .high = 300 };

static struct kvmm_pool *pool_with_marks(void)
{
	struct kvmm_pool *pool = pool_with_arenas(2);

	cr_assert_eq(kvmm_watermarks_set(pool, &some_marks), 0);
	return pool;
}

/* What an arena has may be taken: what has to stay is in the zone. */
static void expect_floor(struct kvmm_pool *pool)
{
	if (arenas_nr_free(pool))
		cr_expect_geq(kv_zone_nr_free(pool->zone), LOW);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(arena, ranges_are_an_arenas_behind_watermarks, pool_with_marks())
{
	cr_expect_eq(arena_with(pool, take_on(1, pool, 8)), 2);
	expect_floor(pool);
}

POOL_TEST(arena, watermarks_are_kept_to_the_block, pool_with_marks())
{
	u32 nr = 0, nr_local = 0;
	kvmm_range_t range;

	for (; !kvmm_range_alloc(pool, 8, 0, &range); nr++) {
		cpu = nr % 2;
		nr_local += arena_with(pool, range) != 0;
		expect_floor(pool);
	}
	cr_expect_gt(nr_local, 0);
	cr_expect_eq(nr, (NR_BLOCKS - LOW) / 8);
	cr_expect_eq(stat_of(pool).nr_free, LOW);
}

POOL_TEST(arena, watermarks_that_rise_take_back_what_has_to_stay, pool_with_arenas(2))
{
	take_on(0, pool, 8);
	take(pool, NR_BLOCKS / 2, KVMM_RUNS(4));
	take_on(0, pool, 8);
	cr_assert_gt(kv_zone_nr_free(pool->zone) + arenas_nr_free(pool), LOW);
	cr_assert_eq(kvmm_watermarks_set(pool, &some_marks), 0);
	expect_floor(pool);
}

/* It goes below the mark; what the others free comes to the zone until that is full again. */
POOL_TEST(arena, a_request_of_priority_takes_what_arenas_keep, pool_with_marks())
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = NR_BLOCKS - 8 - 100,
					.max_runs = 4, .prio = KVMM_PRIO_HIGH };
	kvmm_range_t range = take_on(0, pool, 8), most;

	cr_assert_eq(arena_with(pool, range), 1);
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &most), 0);
	expect_floor(pool);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(arenas_nr_free(pool), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &range), -ENOSPC);
	cr_assert_eq(kvmm_range_free(pool, most), 0);
	cr_expect_eq(arena_with(pool, take_on(0, pool, 8)), 1);
	expect_floor(pool);
}

/* It would not hear of blocks that an arena gives and takes. */
POOL_TEST(arena, nothing_is_aside_while_a_request_waits, make_cache(NR_BLOCKS, "lru"))
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	static kvmm_mut_t mut[NR_BLOCKS];
	kvmm_ticket_t ticket;
	kvmm_range_t range;

	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	range = take_on(0, pool, 8);
	ctl.nr = NR_BLOCKS;
	ctl.flags = KVMM_ALLOC_RELATIVE;
	ctl.deadline_ns = 3600ull * 1000000000;
	cr_assert_eq(kvmm_alloc_submit(pool, &ctl, mut, &ticket), -EINPROGRESS);
	cr_expect_eq(arenas_nr_free(pool), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(arenas_nr_free(pool), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &range), -ENOSPC);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0);
}

/* All of its blocks are in use: what is freed next must not be taken again by the way. */
POOL_TEST(arena, regions_without_free_blocks_go_back_below_the_mark, pool_with_arenas(2))
{
	struct kvmm_watermarks all = { .high = NR_BLOCKS - 8, .low = NR_BLOCKS - 8 };
	kvmm_range_t range, again;

	range = take_on(0, pool, 8);
	while (arenas_nr_free(pool))
		take_on(0, pool, 1);
	cr_assert_gt(pool->arenas->nr_lent, 0);
	cr_assert_eq(kvmm_watermarks_set(pool, &all), 0);
	cr_expect_eq(pool->arenas->nr_lent, 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &again), -ENOSPC);
}

Test(arena, some_pools_never_have_any)
{
	struct kvmm_pool_attr attr[4] = { KVMM_POOL_ATTR_INIT, KVMM_POOL_ATTR_INIT,
					  KVMM_POOL_ATTR_INIT, KVMM_POOL_ATTR_INIT };

	attr[0].flags = KVMM_POOL_DETERMINISTIC;
	attr[1].allocator = "buddy";
	attr[2].zero = KVMM_ZERO_ALWAYS;
	attr[2].block_bytes = 64;
	attr[3].nr_blocks = 1u << 11;	/* small */
	for (u32 i = 0; i < 4; i++) {
		struct kvmm_pool *pool;

		attr[i].nr_blocks = i < 3 ? 1u << 14 : 1u << 11;
		pool = make_pool_of(&attr[i]);
		for (u32 k = 0; k < 100; k++)
			meet(pool);
		cr_expect_null(pool->arenas, "%u", i);
		if (i < 3)
			cr_expect_eq(kv_pool_force_arenas(pool, 2), -EOPNOTSUPP);
		end_pool(pool);
	}
}

/* Who moves blocks while others allocate sees nothing half done. */
POOL_TEST(arena, nobody_has_any_while_they_are_barred, warm_pool())
{
	kvmm_range_t range = take_on(0, pool, 8);

	arenas_bar(pool);
	cr_expect_eq(arenas_nr_free(pool), 0);
	cr_expect_eq(arena_with(pool, take_on(0, pool, 8)), 0);
	for (u32 i = 0; i < 100; i++)
		meet(pool);
	cr_expect_not(pool->arenas->on);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	arenas_unbar(pool);
	for (u32 i = 0; i < 32; i++)
		meet(pool);
	cr_expect(pool->arenas->on);
}

POOL_TEST(arena, tenants_with_limits_are_charged_for_all_they_have, warm_pool())
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	kvmm_range_t range = take_on(0, pool, 8);
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_tenant_set(pool, KVMM_TENANT_REST, &attr), 0);
	cr_expect_not(pool->arenas->on);
	cr_assert_eq(kvmm_tenant_get_stat(pool, KVMM_TENANT_REST, &stat), 0);
	cr_expect_eq(stat.usage, 8);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_assert_eq(kvmm_tenant_get_stat(pool, KVMM_TENANT_REST, &stat), 0);
	cr_expect_eq(stat.usage, 0);
}

/* Another thread may have held the lock of an arena when the process forked. */
POOL_TEST(arena, children_are_refused, pool_with_arenas(2))
{
	kvmm_range_t range = take_on(0, pool, 8), more;
	int status;
	pid_t child;

	WRITE_ONCE(pool->arenas->arena[0].lock.held, 1);	/* as another thread would */
	child = fork();
	if (!child) {
		alarm(10);
		_exit(kvmm_range_free(pool, range) == -ECHILD &&
		      kvmm_range_alloc(pool, 1, 0, &more) == -ECHILD ? 0 : 1);
	}
	WRITE_ONCE(pool->arenas->arena[0].lock.held, 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

/* ---- memory that runs out ---- */

/* Arenas are not made, or cannot have a zone, or there are no slots: the pool serves, or nobody. */
static u32 use_until_it_succeeds(struct fake_env *fake)
{
	bool failed = true;
	u32 n;

	for (n = 1; failed; n++) {
		struct kvmm_pool *pool = large_pool();
		kvmm_range_t range;
		int err;

		fake_env_fail(fake, n, false);
		for (u32 i = 0; i < 64; i++)
			meet(pool);
		cpu = 1;
		err = kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &range);
		cr_assert(!err || err == -ENOMEM, "allocation %u: %d", n, err);
		cr_assert_eq(stat_of(pool).nr_free, (1u << 14) - (err ? 0 : 8));
		if (!err)
			cr_assert_eq(kvmm_range_free(pool, range), 0);
		failed = fake_env_failed(fake);
		cr_assert(failed || pool->arenas->arena[1].count.allocs);
		fake_env_fail(fake, 0, false);
		end_pool(pool);
		kv_rcu_barrier();
		cr_assert_eq(fake->nr_live, 0, "allocation %u", n);
	}
	return n - 2;
}

Test(arena, host_memory_may_run_out_anywhere)
{
	struct fake_env fake;

	fake_env_install(&fake);
	fake.ops.cpu = test_cpu;
	cr_expect_geq(use_until_it_succeeds(&fake), 6);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

/* ---- what goes wrong is noticed ---- */

static void expect_noticed(struct kvmm_pool *pool, const char *what)
{
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN, "%s", what);
	pool->gate = 0;
}

#define flip(pool, field)						\
	do {								\
		for (u32 __i = 0; __i < 8 * sizeof(field); __i++) {	\
			(field) ^= (__typeof__(field))1 << __i;		\
			expect_noticed(pool, #field);			\
			(field) ^= (__typeof__(field))1 << __i;		\
		}							\
	} while (0)

POOL_TEST(arena, a_bit_that_flips_is_noticed, pool_with_arenas(2))
{
	kvmm_range_t range[2] = { take_on(0, pool, 8), take_on(0, pool, 4) };
	struct slot *pools = slot_at(pool, take_seq(pool, 2, 0, 7).index);
	struct arena *arena = &pool->arenas->arena[0];
	struct slot *slot = slot_at(pool, range[0].index);

	cr_assert_eq(kvmm_range_free(pool, range[1]), 0);
	flip(pool, arena->nr_free);
	flip(pool, arena->count.nr_ranges);
	flip(pool, arena->count.range_blocks);
	flip(pool, arena->count.range_refs);
	flip(pool, arena->count.range_pins);
	flip(pool, arena->count.range_seqs);
	flip(pool, arena->count.range_attrs);
	flip(pool, arena->free_slot);
	flip(pool, slot->arena);
	flip(pool, pools->arena);
	flip(pool, slot->refs);
	flip(pool, slot->pins);
	flip(pool, slot->seq);
	flip(pool, slot->nr);
	flip(pool, slot->nr_ext);
	for (u32 i = 2; i < 8; i++) {
		pool->arenas->region[7] ^= BIT(i);
		expect_noticed(pool, "region");
		pool->arenas->region[7] ^= BIT(i);
	}
}

POOL_TEST(arena, a_block_that_is_free_twice_is_noticed, pool_with_arenas(2))
{
	kvmm_range_t range[2] = { take_on(0, pool, 8), take_on(1, pool, 8) };
	struct kv_zone *zone[2] = { pool->arenas->arena[0].zone, pool->arenas->arena[1].zone };

	cr_assert_eq(kv_zone_free(pool->zone, 32, 1), 0);
	expect_noticed(pool, "free in the zone and in an arena");
	cr_assert_eq(kv_zone_alloc_at(pool->zone, 32, 1), 0);

	cr_assert_eq(kv_zone_free(zone[1], 32, 1), 0);
	pool->arenas->arena[1].nr_free++;
	expect_noticed(pool, "free in two arenas");
	pool->arenas->arena[1].nr_free--;
	cr_assert_eq(kv_zone_alloc_at(zone[1], 32, 1), 0);

	cr_assert_eq(kv_zone_free(zone[0], 2, 1), 0);
	pool->arenas->arena[0].nr_free++;
	expect_noticed(pool, "owned, and free");
	pool->arenas->arena[0].nr_free--;
	cr_assert_eq(kv_zone_alloc_at(zone[0], 2, 1), 0);

	cr_assert_eq(kv_zone_alloc_at(zone[0], 32, 1), 0);
	pool->arenas->arena[0].nr_free--;
	expect_noticed(pool, "nowhere");
	pool->arenas->arena[0].nr_free++;
	cr_assert_eq(kv_zone_free(pool->zone, 32, 1), 0);
	pool->arenas->arena[0].nr_free--;

	cr_assert_eq(kvmm_range_free(pool, range[0]), 0);
	cr_assert_eq(kvmm_range_free(pool, range[1]), 0);
}
