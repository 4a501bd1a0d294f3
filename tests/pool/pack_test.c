// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of one run and of several against all that moving could do, in small pools.
 *
 * What lies between blocks that stay is a stretch. Sliding alone makes one run of what is free in
 * each, so whatever fits into the longest of these is served. Where items go to other stretches as
 * well, more could be served at best; how much of it is had is counted.
 */
#include <kvmm/step.h>

#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#define MOST_BLOCKS	64u

static u64 seed;

#define any(below)	any_of(&seed, below)

/* ---- the state that was refused ---- */

POOL_TEST(pack, what_sliding_alone_makes_room_for_is_not_refused, make_pool(64))
{
	kvmm_range_t range[26], got;

	paint(pool, "aaaaaabbb..ccddddddeeeffffggghii.....jj......h....kkkkklhmmmmmm.", range);
	cr_assert_eq(kvmm_range_pin(pool, range['h' - 'a']), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 18, 0, &got), 0);
}

/* ---- with block tables ---- */

static void read_tables(struct kvmm_pool *pool)
{
	kvmm_stream_t id;

	cr_assert_eq(kvmm_stream_add(pool, NULL, KVMM_STREAM_TABLES, &id), 0);
}

/* One run of 6,000 blocks lies between two holes of 100. */
POOL_TEST(pack, block_tables_do_not_keep_a_long_run_from_sliding, make_pool(6200))
{
	kvmm_range_t front = take(pool, 100, 0), run = take(pool, 6000, 0), got;

	read_tables(pool);
	cr_assert_eq(kvmm_range_free(pool, front), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 200, KVMM_RUNS(1), &got), 0);
	cr_expect_eq(kvmm_range_free(pool, run), 0);
}

/* What is free before the first block that stays is a run of 8 once it has slid. */
POOL_TEST(pack, packing_is_no_worse_than_sliding_with_block_tables, make_pool(27))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[26];

	paint(pool, "....aa....haabbbbccdddbeeeg", range);
	cr_assert_eq(kvmm_range_pin(pool, range['h' - 'a']), 0);
	cr_assert_eq(kvmm_range_pin(pool, range['g' - 'a']), 0);
	read_tables(pool);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_geq(stat_of(pool).largest, 8);
}

/* ---- more than a window can hold ---- */

/* Pinned blocks 200 apart, half of the others free: 100 have to leave the place of a run. */
POOL_TEST(pack, a_run_is_made_across_pins_however_many_blocks_are_in_its_way, make_pool(1000))
{
	kvmm_range_t range[1000], got;

	for (u32 i = 0; i < 1000; i++)
		range[i] = take(pool, 1, 0);
	for (u32 i = 0; i < 1000; i++) {
		if (i % 200 == 199)
			cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
		else if (i % 2)
			cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
		else
			write_pattern(pool, range[i], i);
	}
	cr_expect_eq(kvmm_range_alloc(pool, 199, KVMM_RUNS(1), &got), 0);
	for (u32 i = 0; i < 1000; i += 2)
		cr_assert(has_pattern(pool, range[i], i));
	cr_expect_leq(stat_of(pool).moved_blocks, 100);
	cr_expect_eq(kvmm_range_alloc(pool, 199 + 49, KVMM_RUNS(2), &got), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 100, KVMM_RUNS(1), &got), -ENOSPC);
}

/* 600 holes of one block, one of two, and two blocks that would fit there in front of 10 free. */
POOL_TEST(pack, a_hole_is_found_however_many_are_too_short, make_pool(1216))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[1216], two;

	for (u32 i = 0; i < 1204; i++)
		range[i] = take(pool, 1, 0);
	two = take(pool, 2, 0);
	write_pattern(pool, two, 1);
	for (u32 i = 0; i < 1204; i++) {
		if (i == 1203 || (i % 2 == 0 && i < 1202))
			cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
		else
			cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
	}
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_eq(stat_of(pool).largest, 12);
	cr_expect_eq(goal.moved, 2);
	cr_expect(has_pattern(pool, two, 1));
}

/* ---- any state ---- */

/* One of a picture: 'h' stays, '.' is free, of all others equal neighbours are one item. */
struct state {
	struct kvmm_pool *pool;
	char cell[MOST_BLOCKS + 1];
	u32 nr;
	kvmm_range_t range[MOST_BLOCKS];
	u32 nr_ranges;
	u32 nr_free;
};

static void hold_private(struct state *s, u32 at)
{
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(s->pool, 1, &mut), 0);
	cr_assert_eq(kvmm_block_of_mut(s->pool, mut), (int)at);
	s->cell[at] = 'h';
}

/* One in eight is private, one pinned; some ranges would not have had others moved for them. */
static void fill(struct state *s, u32 pinned_in)
{
	char letter = 'A';

	for (u32 at = 0, nr; at < s->nr; at += nr) {
		u32 kind = any(pinned_in), flags = any(2) ? KVMM_ALLOC_NO_COMPACT : 0;

		nr = kind ? min(1 + any(6), s->nr - at) : 1;
		if (!kind && any(2)) {
			hold_private(s, at);
			continue;
		}
		letter = letter == 'Z' ? 'A' : letter + 1;
		memset(s->cell + at, kind ? letter : 'h', nr);
		s->range[s->nr_ranges] = take(s->pool, nr, KVMM_RUNS(1) | flags);
		if (!kind)
			cr_assert_eq(kvmm_range_pin(s->pool, s->range[s->nr_ranges]), 0);
		s->nr_ranges++;
	}
}

static void free_some(struct state *s)
{
	struct kvmm_extent ext;

	for (u32 i = 0; i < s->nr_ranges; i++) {
		cr_assert_eq(kvmm_range_extents(s->pool, s->range[i], &ext, 1), 1);
		if (s->cell[ext.start] == 'h' || any(3))
			continue;
		cr_assert_eq(kvmm_range_free(s->pool, s->range[i]), 0);
		memset(s->cell + ext.start, '.', ext.nr);
		s->nr_free += ext.nr;
	}
}

static void make_state(struct state *s, u32 most)
{
	*s = (struct state){ .nr = 16 + any(most - 15) };
	s->pool = make_cache(s->nr, "lru");
	fill(s, 3 + any(12));
	free_some(s);
}

static u32 sum_of_longest(u32 *free, u32 nr, u32 runs)
{
	u32 sum = 0;

	for (u32 r = 0; r < runs; r++) {
		u32 best = 0;

		for (u32 i = 1; i < nr; i++)
			best = free[i] > free[best] ? i : best;
		sum += free[best];
		free[best] = 0;
	}
	return sum;
}

static u32 after_sliding(const struct state *s, u32 runs)
{
	u32 free[MOST_BLOCKS + 1] = { 0 }, nr = 1;

	for (u32 at = 0; at < s->nr; at++) {
		free[nr - 1] += s->cell[at] == '.';
		nr += s->cell[at] == 'h';
	}
	return sum_of_longest(free, nr, runs);
}

Test(pack, whatever_fits_once_all_has_slid_is_served)
{
	seed = test_number("KVMM_SEED", 20261129);
	printf("seed %lu\n", seed);
	for (u32 round = 0; round < test_length(NULL, 4000); round++) {
		u32 runs = 1 + any(KVMM_MAX_RUNS), nr;
		kvmm_range_t got;
		struct state s;

		make_state(&s, MOST_BLOCKS);
		nr = after_sliding(&s, runs);
		if (nr)
			cr_assert_eq(kvmm_range_alloc(s.pool, nr, KVMM_RUNS(runs), &got), 0,
				     "round %u: %u in %u runs of %s", round, nr, runs, s.cell);
		end_pool(s.pool);
	}
}

/* ---- a pool that lives ---- */

#define NR_HELD		24u
#define NR_CALLS	600u

/* Ranges, private blocks and references; at most one of them at an index. */
struct life {
	kvmm_range_t range[NR_HELD];
	kvmm_mut_t mut[NR_HELD];
	kvmm_ref_t ref[NR_HELD];
	char kind[NR_HELD];	/* 0: none, 'r', 'p' a pinned range, 'm', 'R' */
	u32 next_key;
	u32 nr_evicting;	/* requests that fit once cached blocks are evicted, or moved */
	u32 nr_served;		/* of these */
};

static void let_go(struct kvmm_pool *pool, struct life *life, u32 i)
{
	if (life->kind[i] == 'p')
		cr_assert_eq(kvmm_range_unpin(pool, life->range[i]), 0);
	if (life->kind[i] == 'p' || life->kind[i] == 'r')
		cr_assert_eq(kvmm_range_free(pool, life->range[i]), 0);
	if (life->kind[i] == 'm')
		cr_assert_eq(kvmm_free(pool, &life->mut[i], 1), 0);
	if (life->kind[i] == 'R')
		cr_assert_eq(kvmm_put(pool, life->ref[i]), 0);
	life->kind[i] = 0;
}

static void hold_block(struct kvmm_pool *pool, struct life *life, u32 i)
{
	if (!stat_of(pool).nr_free)
		return;
	life->kind[i] = any(2) ? 'm' : 'R';
	if (life->kind[i] == 'R')
		register_keys(pool, life->next_key++, 1, &life->ref[i]);
	else
		cr_assert_eq(kvmm_alloc(pool, 1, &life->mut[i]), 0);
}

/* A pin is taken or given up, or a range grows: it may be in any number of extents. */
static void change_range(struct kvmm_pool *pool, struct life *life, u32 i)
{
	if (any(3) == 0 && stat_of(pool).nr_free) {
		cr_assert_eq(kvmm_range_grow(pool, life->range[i], 1), 0);
	} else if (life->kind[i] == 'r') {
		cr_assert_eq(kvmm_range_pin(pool, life->range[i]), 0);
		life->kind[i] = 'p';
	} else {
		cr_assert_eq(kvmm_range_unpin(pool, life->range[i]), 0);
		life->kind[i] = 'r';
	}
}

static void look_at_pool(struct kvmm_pool *pool, const struct life *life, struct state *s)
{
	struct kvmm_extent ext[MOST_BLOCKS];

	strcpy(s->cell, picture(pool));
	for (u32 at = 0; at < s->nr; at++)
		if (s->cell[at] == 'P' || s->cell[at] == 'A')
			s->cell[at] = 'h';
	for (u32 i = 0; i < NR_HELD; i++) {
		int nr = life->kind[i] == 'p' ? kvmm_range_extents(pool, life->range[i], ext,
								   MOST_BLOCKS) : 0;

		for (int e = 0; e < nr; e++)
			memset(s->cell + ext[e].start, 'h', ext[e].nr);
	}
}

static u32 after_evicting(const struct state *s, u32 runs)
{
	struct state empty = *s;

	for (char *cell = empty.cell; *cell; cell++)
		*cell = *cell == 'I' ? '.' : *cell;
	return after_sliding(&empty, runs);
}

/* What fits is served, whatever was refused before; of all that is free, or less, or more. */
static void ask(struct kvmm_pool *pool, struct life *life, u32 i, struct state *s)
{
	u32 runs = 1 + any(3), nr_free = stat_of(pool).nr_free, most, all, nr;
	int err;

	look_at_pool(pool, life, s);
	most = after_sliding(s, runs);
	all = after_evicting(s, runs);
	nr = any(4) ? 1 + any(min(nr_free + 1, 6u)) : any(2) ? most : any(2) ? all : nr_free;
	if (!nr)
		return;
	err = kvmm_range_alloc(pool, nr, KVMM_RUNS(runs), &life->range[i]);
	if (nr <= most)
		cr_assert_eq(err, 0, "%u blocks in %u runs of %s", nr, runs, s->cell);
	if (!err)
		life->kind[i] = 'r';
	life->nr_evicting += nr > most && nr <= all;
	life->nr_served += nr > most && nr <= all && !err;
}

static void live(struct kvmm_pool *pool, struct state *s, struct life *life)
{
	for (u32 call = 0; call < NR_CALLS; call++) {
		u32 i = any(NR_HELD), what = any(8);

		if (life->kind[i] && what < 4)
			let_go(pool, life, i);
		else if (life->kind[i] == 'r' || life->kind[i] == 'p')
			change_range(pool, life, i);
		else if (!life->kind[i] && what < 2)
			hold_block(pool, life, i);
		else if (!life->kind[i])
			ask(pool, life, i, s);
	}
	cr_assert_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < NR_HELD; i++)
		let_go(pool, life, i);
}

Test(pack, whatever_fits_is_served_after_any_calls)
{
	struct life life = { .next_key = 1 };

	seed = test_number("KVMM_SEED", 20261129);
	printf("seed %lu\n", seed);
	for (u32 round = 0; round < test_length(NULL, 200); round++) {
		struct state s = { .nr = 16 + any(MOST_BLOCKS - 15) };

		s.pool = make_cache(s.nr, "lru");
		live(s.pool, &s, &life);
		end_pool(s.pool);
	}
	printf("%u of %u that need evictions\n", life.nr_served, life.nr_evicting);
	cr_assert_gt(life.nr_evicting, 0);
	cr_expect_geq(life.nr_served * 100, life.nr_evicting * 97);
}

/* ---- with items on the other side of what stays ---- */

#define FEW_BLOCKS	32u

struct search {
	u32 item[FEW_BLOCKS];
	u32 nr_items;
	u32 room[FEW_BLOCKS + 1];
	u32 nr_stretches;
	u32 runs;
	u32 most;
};

static void look(struct search *s, u32 i)
{
	u32 free[FEW_BLOCKS + 1];

	if (i == s->nr_items) {
		memcpy(free, s->room, sizeof(free));
		s->most = max(s->most, sum_of_longest(free, s->nr_stretches, s->runs));
		return;
	}
	for (u32 k = 0; k < s->nr_stretches; k++) {
		if (s->room[k] < s->item[i])
			continue;
		s->room[k] -= s->item[i];
		look(s, i + 1);
		s->room[k] += s->item[i];
	}
}

/* The most blocks in @runs, whichever stretch each item lies in. */
static u32 at_best(const struct state *s, u32 runs)
{
	struct search search = { .nr_stretches = 1, .runs = runs };

	for (u32 at = 0, nr; at < s->nr; at += nr) {
		nr = strspn(s->cell + at, (char[]){ s->cell[at], '\0' });
		if (s->cell[at] == 'h') {
			search.nr_stretches += nr;
			continue;
		}
		search.room[search.nr_stretches - 1] += nr;
		if (s->cell[at] != '.')
			search.item[search.nr_items++] = nr;
	}
	look(&search, 0);
	return search.most;
}

Test(pack, most_of_what_fits_with_items_elsewhere_is_served)
{
	u32 nr_more = 0, nr_had = 0;

	seed = test_number("KVMM_SEED", 20261129);
	printf("seed %lu\n", seed);
	for (u32 round = 0; round < test_length(NULL, 4000); round++) {
		u32 runs = 1 + any(4), nr;
		kvmm_range_t got;
		struct state s;

		make_state(&s, FEW_BLOCKS);
		nr = at_best(&s, runs);
		if (nr && nr > after_sliding(&s, runs)) {
			nr_more++;
			nr_had += !kvmm_range_alloc(s.pool, nr, KVMM_RUNS(runs), &got);
		}
		end_pool(s.pool);
	}
	printf("%u of %u\n", nr_had, nr_more);
	cr_assert_gt(nr_more, 0);
	cr_expect_geq(nr_had * 2, nr_more);
}
