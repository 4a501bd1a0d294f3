// SPDX-License-Identifier: Apache-2.0
/*
 * Run-aware victims. Pictures have the letter of the key that each block holds; '.' free, '*'
 * private or referenced.
 */
#include "tests/pool/class_util.h"

static u32 of_block[64];	/* letter that lies there last */

static struct kvmm_pool *make_goal(u32 nr_blocks, u32 window, u32 pageblock, bool classed)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "mid" },
					{ .name = "high" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = window,
					 .pageblock_blocks = pageblock,
					 .classes = classed ? classes : NULL,
					 .nr_classes = classed ? 3 : 0,
					 .default_class = classed ? HIGH : 0 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .evict = &evict };

	return make_pool_of(&attr);
}

static struct kvmm_pool *make_window(u32 nr_blocks, u32 window, bool classed)
{
	return make_goal(nr_blocks, window, 0, classed);
}

/* Blocks 0, 1, ... get the letters of @line and are put back in the order of @order. */
static void lay_out(struct kvmm_pool *pool, const char *line, const char *order, kvmm_ref_t *ref)
{
	u32 nr = strlen(line);

	for (u32 i = 0; i < nr; i++) {
		ref[i] = fill(pool, line[i], HIGH);
		of_block[kvmm_block_of_ref(pool, ref[i])] = line[i];
	}
	for (; *order; order++)
		drop(pool, ref[strchr(line, *order) - line]);
}

static const char *layout(struct kvmm_pool *pool)
{
	static char line[65];
	const char *now = picture(pool);
	u32 i;

	for (i = 0; now[i]; i++)
		line[i] = now[i] == '.' ? '.' : now[i] == 'I' ? of_block[i] : '*';
	line[i] = '\0';
	return line;
}

static u32 nr_runs(struct kvmm_pool *pool, const kvmm_mut_t *mut, u32 nr)
{
	int last = -2;
	u32 runs = 0;

	for (u32 i = 0; i < nr; i++) {
		int block = kvmm_block_of_mut(pool, mut[i]);

		runs += block != last + 1;
		last = block;
	}
	return runs;
}

static void give_back(struct kvmm_pool *pool, kvmm_mut_t *mut, u32 nr)
{
	cr_assert_eq(kvmm_free(pool, mut, nr), 0);
}

/* The blocks that are had are the ones marked in @after, by address. */
static void expect_taken(struct kvmm_pool *pool, u32 nr, const char *after)
{
	kvmm_mut_t mut[32];
	u32 runs = 0;

	for (u32 i = 0; after[i]; i++)
		runs += after[i] == '*' && after[i + 1] != '*';
	cr_assert_eq(kvmm_alloc(pool, nr, mut), 0);
	cr_expect_str_eq(layout(pool), after);
	cr_expect_eq(nr_runs(pool, mut, nr), runs);
	cr_expect_eq(kvmm_validate(pool), 0);
	give_back(pool, mut, nr);
}

POOL_TEST(victim, neighbours_go_together, make_window(16, 4, false))
{
	kvmm_ref_t ref[16];

	/* Looked at are a i c e b d m: a to e are one run. */
	lay_out(pool, "abcdefghijklmnop", "aicebdmpgkfhjlno", ref);
	expect_taken(pool, 3, "ab***fghijklmnop");
}

POOL_TEST(victim, the_longest_run_goes_first_and_the_rest_is_cut_from_the_shortest_that_fits,
	  make_window(20, 5, false))
{
	kvmm_ref_t ref[20];

	/* Looked at are f, h, klm, opqr and t, and one more. */
	lay_out(pool, "abcdefghijklmnopqrst", "fhklmopqrtabcdegijns", ref);
	expect_taken(pool, 5, "abcde*ghijklmn****st");
}

POOL_TEST(victim, who_is_beyond_the_window_stays, make_window(12, 2, false))
{
	kvmm_ref_t ref[12];

	lay_out(pool, "abcdefghijkl", "adgjefhikbcl", ref);	/* e and f are fifth and sixth */
	expect_taken(pool, 2, "*bc*efghijkl");
}

POOL_TEST(victim, a_block_alone_is_the_first_of_the_order, make_window(12, 3, false))
{
	kvmm_ref_t ref[12];

	/* Looked at for more would be a to c and h, which is the shortest. */
	lay_out(pool, "abcdefghijkl", "bcahdefgijkl", ref);
	expect_taken(pool, 1, "a*cdefghijkl");
}

POOL_TEST(victim, without_a_window_the_order_is_plain,
	  make_window(8, KVMM_RUN_WINDOW_NONE, false))
{
	kvmm_mut_t mut[3];
	kvmm_ref_t ref[8];

	lay_out(pool, "abcdefgh", "hafbcdeg", ref);
	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	cr_expect_str_eq(layout(pool), "*bcde*g*");
	cr_expect_eq(kvmm_block_of_mut(pool, mut[0]), 7);
	give_back(pool, mut, 3);
}

POOL_TEST(victim, by_default_the_plain_victims_are_handed_out_lowest_first,
	  make_window(8, 0, false))
{
	static const u32 lowest_first[] = { 0, 5, 7 };
	kvmm_mut_t mut[3];
	kvmm_ref_t ref[8];

	lay_out(pool, "abcdefgh", "hafbcdeg", ref);
	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	cr_expect_str_eq(layout(pool), "*bcde*g*");
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), (int)lowest_first[i]);
	cr_expect_eq(kvmm_validate(pool), 0);
	give_back(pool, mut, 3);
}

/* Keys 0, 1, ... in all @nr_blocks; every @step-th is evicted, highest first. */
static void expect_sorted_of(u32 nr_blocks, u32 step, const char *policy,
			     const struct kvmm_evict_attr *evict, bool sorted)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .evict = evict };
	struct kvmm_pool *pool = make_pool_of(&attr);
	u32 nr = 0, nr_out_of_order = 0;
	kvmm_mut_t *mut = calloc(nr_blocks / step + 1, sizeof(*mut));
	kvmm_ref_t *ref = calloc(nr_blocks, sizeof(*ref));

	for (u32 i = 0; i < nr_blocks; i++)
		register_keys(pool, i, 1, &ref[i]);
	for (u32 at = (nr_blocks - 1) / step * step + step; at; nr++) {
		at -= step;
		drop(pool, ref[at]);
	}
	cr_assert_eq(kvmm_alloc(pool, nr, mut), 0);
	for (u32 i = 1; i < nr; i++)
		nr_out_of_order += kvmm_block_of_mut(pool, mut[i]) <
				   kvmm_block_of_mut(pool, mut[i - 1]);
	cr_expect_eq(nr_out_of_order == 0, sorted, "%s: %u of %u", policy, nr_out_of_order, nr);
	for (u32 i = 0; i < nr; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]) % step, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	give_back(pool, mut, nr);
	free(mut);
	free(ref);
	kvmm_pool_destroy(pool);
}

static void expect_sorted(const char *policy, const struct kvmm_evict_attr *evict, bool sorted)
{
	expect_sorted_of(4096, 509, policy, evict, sorted);
}

Test(victim, pools_without_attributes_hand_out_the_lowest_first_and_classic_ones_do_not)
{
	struct kvmm_evict_attr plain = { .size = sizeof(plain),
					 .run_window = KVMM_RUN_WINDOW_NONE };
	struct kvmm_evict_attr sorted = { .size = sizeof(sorted), .run_window = 1 };

	expect_sorted("lru", NULL, true);
	expect_sorted("lrfu", NULL, true);
	expect_sorted("lru", &plain, false);
	expect_sorted("lru-classic", NULL, false);
	expect_sorted("lru-classic", &sorted, true);
}

Test(victim, any_number_is_handed_out_lowest_first)
{
	expect_sorted_of(4096, 4095, "lru", NULL, true);	/* 2 */
	expect_sorted_of(4096, 32, "lru", NULL, true);		/* 128, which are few */
	expect_sorted_of(128, 1, "lru", NULL, true);
	expect_sorted_of(4096, 7, "lru", NULL, true);		/* more, close together */
	expect_sorted_of(65536, 300, "lru", NULL, true);	/* and far apart */
}

#define NR_OF_ROWS	96u

/* @mid of the blocks are put, and then the others; each row upwards, or from its end. */
static void expect_rows_sorted(u32 mid, bool down, bool then_down)
{
	const bool is_down[] = { down, then_down };
	struct kvmm_pool *pool = make_cache(NR_OF_ROWS, "lru");
	kvmm_ref_t ref[NR_OF_ROWS];
	kvmm_mut_t mut[NR_OF_ROWS];

	for (u32 i = 0; i < NR_OF_ROWS; i++)
		register_keys(pool, i, 1, &ref[i]);
	for (u32 i = 0; i < 2 * NR_OF_ROWS; i++) {
		u32 row = i / NR_OF_ROWS, nr = i % NR_OF_ROWS;
		u32 at = is_down[row] ? NR_OF_ROWS - 1 - nr : nr;

		if ((at * 7 % NR_OF_ROWS >= mid) == row)
			drop(pool, ref[at]);
	}
	cr_assert_eq(kvmm_alloc(pool, NR_OF_ROWS, mut), 0);
	for (u32 i = 0; i < NR_OF_ROWS; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), (int)i, "%u, %d, %d: %u", mid, down,
			     then_down, i);
	give_back(pool, mut, NR_OF_ROWS);
	kvmm_pool_destroy(pool);
}

Test(victim, two_rows_that_went_either_way_are_handed_out_lowest_first)
{
	for (u32 mid = 1; mid < NR_OF_ROWS; mid += 31)
		for (u32 way = 0; way < 4; way++)
			expect_rows_sorted(mid, way & 1, way & 2);
}

Test(victim, the_default_costs_a_bit_a_block)
{
	struct kvmm_evict_attr plain = { .size = sizeof(plain),
					 .run_window = KVMM_RUN_WINDOW_NONE };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4096, .policy = "lru" };
	struct kvmm_pool *pool = make_pool_of(&attr), *without;

	attr.evict = &plain;
	without = make_pool_of(&attr);
	cr_expect_eq(stat_of(pool).metadata_bytes, stat_of(without).metadata_bytes + 4096 / 8);
	kvmm_pool_destroy(pool);
	kvmm_pool_destroy(without);
}

Test(victim, pageblocks_need_a_window)
{
	static const u32 window[] = { 0, 1, KVMM_RUN_WINDOW_NONE };

	for (u32 i = 0; i < ARRAY_SIZE(window); i++) {
		struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = window[i],
						 .pageblock_blocks = 4 };
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64,
					       .policy = "lru", .evict = &evict };
		struct kvmm_pool *pool;

		cr_expect_eq(kvmm_pool_create(&attr, &pool), -EINVAL, "window %u", window[i]);
	}
}

POOL_TEST(victim, a_free_block_draws_its_neighbours, make_window(12, 3, false))
{
	kvmm_ref_t ref[12];
	kvmm_mut_t mut[4], free_one;

	lay_out(pool, "abcdef", "", ref);
	cr_assert_eq(kvmm_alloc(pool, 1, &free_one), 0);
	lay_out(pool, "hijkl", "", ref + 6);
	give_back(pool, &free_one, 1);
	cr_expect_str_eq(layout(pool), "******.*****");
	for (u32 i = 0; i < 12; i++)	/* a d f h k, then others */
		if (strchr("adf", "abcdef.hijkl"[i]))
			drop(pool, ref[i]);
	drop(pool, ref[6]);
	drop(pool, ref[9]);
	cr_expect_str_eq(layout(pool), "a**d*f.h**k*");
	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	cr_expect_str_eq(layout(pool), "a**d******k*");
	cr_expect_eq(nr_runs(pool, mut, 3), 1);
	give_back(pool, mut, 3);
	for (u32 i = 0; i < 11; i++)
		if (i != 0 && i != 3 && i != 5 && i != 6 && i != 9)
			drop(pool, ref[i]);
}

POOL_TEST(victim, new_blocks_are_handed_out_lowest_first, make_window(6, 1, false))
{
	kvmm_mut_t mut[6];
	kvmm_ref_t ref[6];

	lay_out(pool, "abcdef", "fedcba", ref);
	cr_assert_eq(kvmm_alloc(pool, 6, mut), 0);
	cr_expect_eq(nr_runs(pool, mut, 6), 1);
	give_back(pool, mut, 6);
}

POOL_TEST(victim, a_failed_allocation_leaves_the_order_as_it_was, make_window(12, 3, false))
{
	kvmm_mut_t mut[12];
	kvmm_ref_t ref[12];

	lay_out(pool, "abcdefghijkl", "kcaljbifheg", ref);
	cr_expect_eq(kvmm_alloc(pool, 12, mut), -ENOSPC);
	cr_expect_str_eq(layout(pool), "abc*efghijkl");
	cr_expect_str_eq(evicted(pool), "kcaljbifheg");
	drop(pool, ref[3]);
}

/*
 * Of any policy: who was only looked at is where it was. A block that is held makes the allocation
 * fail when all others have been picked.
 */
static void expect_as_before(const char *policy, u32 pageblock)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = 6,
					 .pageblock_blocks = pageblock };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 24, .policy = policy };
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 24 };
	struct kvmm_pool *plain, *windowed;
	kvmm_ref_t held;
	char order[32];

	plain = make_pool_of(&attr);
	attr.evict = &evict;
	windowed = make_pool_of(&attr);
	fill_all(plain, "abcdefghijklmnopqrstuvw", HIGH);
	fill_all(windowed, "abcdefghijklmnopqrstuvw", HIGH);
	held = fill(windowed, 'x', HIGH);
	cr_expect_eq(kvmm_evict_for(windowed, &req), -ENOSPC);
	drop(windowed, held);
	fill_all(plain, "x", HIGH);
	strcpy(order, evicted(plain));
	cr_expect_str_eq(evicted(windowed), order, "%s", policy);
	end_pool(plain);
	end_pool(windowed);
}

Test(victim, every_policy_takes_back_whom_it_was_asked_for)
{
	for_each_policy(policy) {
		expect_as_before(policy, 0);
		expect_as_before(policy, 4);
	}
}

POOL_TEST(victim, a_range_too_is_cut_from_neighbours, make_window(12, 3, false))
{
	kvmm_range_t range = { 0 };
	kvmm_ref_t ref[12];

	lay_out(pool, "abcdefghijkl", "aekghibcdfjl", ref);
	cr_assert_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &range), 0);
	cr_expect_str_eq(layout(pool), "abcdef***jkl");
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(victim, no_higher_class_is_touched_for_a_run, make_window(8, 2, true))
{
	kvmm_ref_t ref[8];

	lay_out(pool, "abcdefgh", "", ref);
	cr_assert_eq(kvmm_class_set(pool, &ref[0], 1, LOW), 0);
	cr_assert_eq(kvmm_class_set(pool, &ref[4], 1, LOW), 0);
	for (u32 i = 0; i < 8; i++)
		drop(pool, ref[i]);
	expect_taken(pool, 2, "*bcd*fgh");
}

/* All of the class below has to go; runs are looked for in the one above. */
POOL_TEST(victim, what_is_left_of_a_class_is_completed_by_its_neighbours, make_window(8, 2, true))
{
	kvmm_ref_t ref[8];

	lay_out(pool, "abcdefgh", "", ref);
	cr_assert_eq(kvmm_class_set(pool, &ref[4], 1, LOW), 0);
	for (u32 i = 0; i < 8; i++)
		drop(pool, ref[(i * 3) % 8]);	/* a d g b(e) h c f */
	expect_taken(pool, 2, "abc**fgh");
}

/* Its beginning lies next to a free block, but is not evicted before its end. */
POOL_TEST(victim, a_chain_still_loses_its_end_first, make_window(12, 3, false))
{
	kvmm_ref_t ref[3], other[8];
	kvmm_mut_t hole;

	lay_out(pool, "ab", "", other);
	cr_assert_eq(kvmm_alloc(pool, 1, &hole), 0);
	register_keys(pool, 'x', 3, ref);
	for (u32 i = 0; i < 3; i++)
		of_block[kvmm_block_of_ref(pool, ref[i])] = "xyz"[i];
	lay_out(pool, "cdefgh", "", other + 2);
	give_back(pool, &hole, 1);
	cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(layout(pool), "**.xyz******");
	cr_expect_str_eq(evicted_for(pool, 2), "z");
	cr_expect_str_eq(evicted(pool), "yx");
	cr_assert_eq(kvmm_put_many(pool, other, 8), 0);
}

/* ---- pageblocks, of four blocks ---- */

#define ALPHABET	"abcdefghijklmnopqrstuvwxyzABCDEF"

/* Blocks in the order of @first are the next victims, then all others. */
static void lay_out_alphabet(struct kvmm_pool *pool, const char *first)
{
	char order[sizeof(ALPHABET)] = "";
	kvmm_ref_t ref[32];
	u32 nr = strlen(first);

	strcpy(order, first);
	for (const char *c = ALPHABET; *c; c++)
		if (!strchr(first, *c))
			order[nr++] = *c;
	order[nr] = '\0';
	lay_out(pool, ALPHABET, order, ref);
}

static void make_free(struct kvmm_pool *pool, const char *letters)
{
	for (; *letters; letters++) {
		u32 block = strchr(ALPHABET, *letters) - ALPHABET;

		cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	}
}

POOL_TEST(victim, a_pageblock_is_emptied_rather_than_a_longer_run, make_goal(32, 8, 4, false))
{
	lay_out_alphabet(pool, "bcdefmnoprvxz");
	expect_taken(pool, 5, "abcdefghijkl****q*stuvwxyzABCDEF");
}

POOL_TEST(victim, without_that_goal_the_longer_run_goes, make_goal(32, 8, 0, false))
{
	lay_out_alphabet(pool, "bcdefmnoprvxz");
	expect_taken(pool, 5, "a*****ghijklmnopqrstuvwxyzABCDEF");
}

/* One that is half free, not the neighbours of a free block that have somebody else beside them. */
POOL_TEST(victim, free_blocks_of_a_pageblock_need_not_go, make_goal(32, 8, 4, false))
{
	lay_out_alphabet(pool, "bcghdmruxD");
	make_free(pool, "aef");
	cr_expect_str_eq(layout(pool), ".bcd..ghijklmnopqrstuvwxyzABCDEF");
	expect_taken(pool, 5, "*bcd****ijklmnopqrstuvwxyzABCDEF");
}

POOL_TEST(victim, the_pageblock_with_the_fewest_victims_goes_first, make_goal(32, 8, 4, false))
{
	lay_out_alphabet(pool, "abcdmnorvxzB");
	make_free(pool, "p");
	cr_expect_str_eq(layout(pool), "abcdefghijklmno.qrstuvwxyzABCDEF");
	expect_taken(pool, 4, "abcdefghijkl****qrstuvwxyzABCDEF");
}

/* Two, and one more is needed: it is chosen as for runs, and goes on with what is taken. */
POOL_TEST(victim, as_many_pageblocks_are_emptied_as_there_are_victims_for,
	  make_goal(32, 8, 4, false))
{
	lay_out_alphabet(pool, "abcdmnorvxzBCD");
	make_free(pool, "p");
	expect_taken(pool, 9, "*****fghijkl****qrstuvwxyzABCDEF");
}

POOL_TEST(victim, blocks_that_merely_follow_each_other_are_no_pageblock, make_goal(32, 8, 4, false))
{
	lay_out_alphabet(pool, "cdefkmoqsuwy");
	expect_taken(pool, 4, "ab****ghijklmnopqrstuvwxyzABCDEF");
}

/* ---- pageblocks and chains ---- */

/* x, the first of a chain of three, lies in the pageblock of a, b and c; the others behind it. */
static void lay_out_chain(struct kvmm_pool *pool)
{
	static const char line[] = "abcxdefgyzhijklmnopqrstuvwABCDEF", order[] = "opqrstACE";
	kvmm_key_t key[3] = { key_of('x'), key_of('y'), key_of('z') };
	kvmm_mut_t mut[32], chained[3];
	kvmm_ref_t ref[32], chain[3];

	cr_assert_eq(kvmm_alloc(pool, 32, mut), 0);
	for (u32 i = 0, nr = 0; i < 32; i++) {
		kvmm_key_t own = key_of(line[i]);

		of_block[i] = line[i];
		if (line[i] >= 'x' && line[i] <= 'z')
			chained[nr++] = mut[i];
		else
			cr_assert_eq(kvmm_register(pool, &mut[i], &own, 1, &ref[i]), 0);
	}
	cr_assert_eq(kvmm_register(pool, chained, key, 3, chain), 0);
	for (u32 i = 0; i < 3; i++)
		drop(pool, ref[i]);
	cr_assert_eq(kvmm_put_many(pool, chain, 3), 0);
	for (const char *c = order; *c; c++)
		drop(pool, ref[strchr(line, *c) - line]);
	for (u32 i = 4; i < 32; i++)
		if (line[i] != 'y' && line[i] != 'z' && !strchr(order, line[i]))
			drop(pool, ref[i]);
	cr_expect_str_eq(layout(pool), line);
}

POOL_TEST(victim, what_follows_in_the_chain_goes_with_the_pageblock, make_goal(32, 8, 4, false))
{
	lay_out_chain(pool);
	expect_taken(pool, 6, "****defg**hijklmnopqrstuvwABCDEF");
}

POOL_TEST(victim, a_pageblock_is_too_dear_with_what_follows_in_the_chain,
	  make_goal(32, 8, 4, false))
{
	lay_out_chain(pool);
	expect_taken(pool, 5, "abcxdefgyzhijklmno*****uvwABCDEF");
}

/* ---- what a pool is not made with ---- */

static int try_goal(u32 window, u32 pageblock)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = window,
					 .pageblock_blocks = pageblock };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64, .policy = "lru",
				       .evict = &evict };
	struct kvmm_pool *other;
	int err = kvmm_pool_create(&attr, &other);

	if (!err)
		end_pool(other);
	return err;
}

POOL_TEST(victim, pageblocks_are_a_power_of_two_and_need_a_window, make_window(4, 0, false))
{
	cr_expect_eq(try_goal(8, 16), 0);
	cr_expect_eq(try_goal(8, 128), 0);	/* there is none */
	cr_expect_eq(try_goal(8, 1), -EINVAL);
	cr_expect_eq(try_goal(8, 12), -EINVAL);
	cr_expect_eq(try_goal(0, 16), -EINVAL);
	cr_expect_eq(try_goal(1, 16), -EINVAL);
}

/* ---- what cannot be undone ---- */

struct wall {
	struct kvmm_pool *pool;
	kvmm_range_t at[64];	/* by block: a range of one */
};

/* "########", and all above is pinned. One block is moved at most for a request. */
static void build_wall(struct wall *wall, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64, .policy = policy,
				       .block_bytes = TEST_BLOCK_BYTES, .compact_max_blocks = 1 };
	kvmm_range_t range;
	struct kvmm_extent ext;

	wall->pool = make_pool_of(&attr);
	for (u32 i = 0; i < 64; i++) {
		range = take(wall->pool, 1, KVMM_RUNS(1));
		cr_assert_eq(kvmm_range_extents(wall->pool, range, &ext, 1), 1);
		wall->at[ext.start] = range;
	}
	for (u32 i = 8; i < 64; i++)
		cr_assert_eq(kvmm_range_pin(wall->pool, wall->at[i]), 0);
}

static void open_wall(struct wall *wall, u32 block)
{
	cr_assert_eq(kvmm_range_free(wall->pool, wall->at[block]), 0);
}

static void cache_at(struct wall *wall, u32 block, u32 number)
{
	kvmm_key_t key = key_of(number);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	open_wall(wall, block);
	cr_assert_eq(kvmm_alloc(wall->pool, 1, &mut), 0);
	cr_assert_eq(kvmm_block_of_mut(wall->pool, mut), (int)block);
	cr_assert_eq(kvmm_register(wall->pool, &mut, &key, 1, &ref), 0);
	cr_assert_eq(kvmm_put(wall->pool, ref), 0);
}

/*
 * Two are evicted, from blocks 0 and 2, and still five blocks lie in more than two runs. One more may
 * move, to where a victim was, and that would not help: so it does not, and both victims come back.
 */
static void refuse_wall(const char *policy, u32 nr_before, u32 elder)
{
	static const u32 holes[] = { 4, 6, 7 };
	struct kvmm_pool_stat before;
	struct wall wall;
	kvmm_range_t range;

	build_wall(&wall, policy);
	for (u32 i = 0; i < nr_before; i++) {	/* time passes */
		cache_at(&wall, 2, i);
		wall.at[2] = take(wall.pool, 1, KVMM_RUNS(1));
	}
	cache_at(&wall, elder, 100);
	cache_at(&wall, 2 - elder, 101);
	for (u32 i = 0; i < ARRAY_SIZE(holes); i++)
		open_wall(&wall, holes[i]);
	before = stat_of(wall.pool);
	cr_expect_eq(kvmm_range_alloc(wall.pool, 5, KVMM_RUNS(2), &range), -ENOSPC);
	cr_expect_eq(kvmm_validate(wall.pool), 0, "%s after %u", policy, nr_before);
	cr_expect_eq(stat_of(wall.pool).evictions, before.evictions, "%s", policy);
	cr_expect_eq(stat_of(wall.pool).moved_blocks, before.moved_blocks, "%s", policy);
	cr_expect_eq(kvmm_reset_inactive(wall.pool), 2);
	end_pool(wall.pool);
}

Test(victim_undo, nothing_moves_to_where_a_victim_was_if_that_does_not_help)
{
	for_each_policy(policy)
		for (u32 nr_before = 0; nr_before < 6; nr_before++)
			for (u32 elder = 0; elder <= 2; elder += 2)
				refuse_wall(policy, nr_before, elder);
}
