// SPDX-License-Identifier: Apache-2.0
/* The two minutes that kvmm-top remembers. */
#include "tests/support/test.h"
#include "tools/top/history.c"

#define SEC	1000000000ull
#define START	(1000 * SEC)

static struct history history;

static void add(u64 from, u64 to, double value)
{
	history_add(&history, HISTORY_MOVES, START + from, START + to, value);
}

/* Of one of the 120 seconds; 119 is the last one. */
static double second(unsigned int nr)
{
	return history_most(&history, HISTORY_MOVES, nr, nr + 1, HISTORY_SECONDS);
}

Test(history, nothing_is_known_at_first)
{
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 0, 1, 1), -1);
	add(0, 0, 7);
	cr_expect_eq(second(119), 7);
	cr_expect_eq(second(118), -1);
	cr_expect_eq(history_most(&history, HISTORY_USED, 0, 1, 1), -1, "of another row");
}

Test(history, a_look_is_about_the_time_since_the_one_before)
{
	add(0, 10 * SEC, 5);
	for (unsigned int i = 109; i < 120; i++)
		cr_expect_eq(second(i), 5);
	cr_expect_eq(second(108), -1);
}

Test(history, of_a_second_the_largest_is_kept)
{
	add(SEC, SEC + 1, 3);
	add(SEC + 1, SEC + 2, 9);
	add(SEC + 2, SEC + 3, 4);
	cr_expect_eq(second(119), 9);
}

Test(history, what_is_older_than_two_minutes_is_forgotten)
{
	add(0, 0, 100);
	add(119 * SEC, 119 * SEC, 1);
	cr_expect_eq(second(0), 100);
	add(120 * SEC, 120 * SEC, 1);
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 0, 1, 1), 1);
	cr_expect_eq(second(50), -1, "nothing was seen then");
}

Test(history, a_long_silence_is_a_look_about_all_of_it)
{
	add(0, 0, 100);
	add(0, 100000 * SEC, 2);
	for (unsigned int i = 0; i < 120; i++)
		cr_expect_eq(second(i), 2);
}

Test(history, parts_are_as_large_as_their_largest_second)
{
	add(60 * SEC, 60 * SEC, 8);
	add(119 * SEC, 119 * SEC, 3);
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 0, 1, 4), -1);
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 2, 3, 4), 8);
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 3, 4, 4), 3);
	cr_expect_eq(history_most(&history, HISTORY_MOVES, 239, 240, 240), 3, "two parts a second");
}
