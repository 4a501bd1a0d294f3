// SPDX-License-Identifier: Apache-2.0
/* Cutting lists of moves into waves. */
#include "cuda/engine.h"
#include "tests/support/test.h"

#define BLOCKS	512

static struct wave_room room;
static u64 seed;

static u32 below(u32 n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static struct wave_cursor cursor(const struct kv_move *moves, u32 nr, bool is_one_space)
{
	return (struct wave_cursor){ .moves = moves, .nr = nr, .is_one_space = is_one_space };
}

/* "0>4:2 7>3" for the moves of each wave, waves separated by '|'. */
static const char *waves_of(const struct kv_move *moves, u32 nr)
{
	static char text[512];
	struct wave_cursor at = cursor(moves, nr, true);
	size_t len = 0;
	u32 n;

	text[0] = '\0';
	while ((n = kv_wave_next(&room, &at)))
		for (u32 i = 0; i < n; i++)
			len += snprintf(text + len, sizeof(text) - len, "%s%u>%u:%u",
					i ? " " : len ? "|" : "", room.move[i].src,
					room.move[i].dst, room.move[i].nr);
	return text;
}

#define WAVES(...)									\
	waves_of((const struct kv_move[]){ __VA_ARGS__ },				\
		 sizeof((const struct kv_move[]){ __VA_ARGS__ }) / sizeof(struct kv_move))

Test(wave, one_wave_holds_what_does_not_meet)
{
	cr_expect_str_eq(WAVES({ 8, 0, 2 }, { 10, 2, 2 }, { 20, 4, 1 }),
			 "8>0:2 10>2:2 20>4:1");
	cr_expect_str_eq(WAVES({ 8, 0, 4 }, { 9, 4, 2 }), "8>0:4 9>4:2");
}

Test(wave, a_block_written_and_read_ends_the_wave)
{
	cr_expect_str_eq(WAVES({ 0, 1, 1 }, { 1, 2, 1 }), "0>1:1|1>2:1");
	cr_expect_str_eq(WAVES({ 1, 0, 1 }, { 2, 1, 1 }), "1>0:1|2>1:1");
	cr_expect_str_eq(WAVES({ 5, 0, 1 }, { 6, 0, 1 }), "5>0:1|6>0:1");
	cr_expect_str_eq(WAVES({ 9, 0, 4 }, { 20, 30, 1 }, { 3, 40, 2 }),
			 "9>0:4 20>30:1|3>40:2");
}

Test(wave, a_run_that_overlaps_itself_goes_in_steps)
{
	cr_expect_str_eq(WAVES({ 3, 0, 8 }), "3>0:3|6>3:3|9>6:2");
	cr_expect_str_eq(WAVES({ 0, 3, 8 }), "5>8:3|2>5:3|0>3:2");
}

Test(wave, nothings_are_left_out)
{
	cr_expect_str_eq(WAVES({ 3, 3, 8 }, { 1, 2, 0 }), "");
	cr_expect_str_eq(WAVES({ 3, 3, 8 }, { 1, 2, 1 }, { 7, 9, 0 }, { 5, 6, 1 }),
			 "1>2:1 5>6:1");
}

Test(wave, between_two_spaces_only_destinations_matter)
{
	const struct kv_move chain[] = { { 0, 1, 4 }, { 1, 9, 1 }, { 7, 7, 1 } };
	const struct kv_move twice[] = { { 0, 1, 1 }, { 4, 1, 1 } };
	struct wave_cursor at = cursor(chain, 3, false);

	cr_expect_eq(kv_wave_next(&room, &at), 3);
	cr_expect_eq(kv_wave_next(&room, &at), 0);
	at = cursor(twice, 2, false);
	cr_expect_eq(kv_wave_next(&room, &at), 1);
	cr_expect_eq(kv_wave_next(&room, &at), 1);
	cr_expect_eq(kv_wave_next(&room, &at), 0);
}

Test(wave, long_lists_come_in_full_waves)
{
	enum { NR = 2 * KV_WAVE_MOVES + 7 };
	static struct kv_move moves[NR];
	struct wave_cursor at = cursor(moves, NR, true);

	for (u32 i = 0; i < NR; i++)
		moves[i] = (struct kv_move){ 100000 + i, NR - 1 - i, 1 };
	cr_expect_eq(kv_wave_next(&room, &at), KV_WAVE_MOVES);
	cr_expect_eq(kv_wave_next(&room, &at), KV_WAVE_MOVES);
	cr_expect_eq(kv_wave_next(&room, &at), 7);
	cr_expect_eq(kv_wave_next(&room, &at), 0);
}

static void one_after_the_other(u32 *block, const struct kv_move *move)
{
	memmove(block + move->dst, block + move->src, move->nr * sizeof(*block));
}

/* Block by block in random order, each read when it is written. */
static void in_any_order(u32 *block, const struct kv_move *moves, u32 nr)
{
	static struct kv_move single[BLOCKS * 8];
	u32 n = 0;

	for (u32 i = 0; i < nr; i++)
		for (u32 b = 0; b < moves[i].nr; b++)
			single[n++] = (struct kv_move){ moves[i].src + b, moves[i].dst + b, 1 };
	while (n) {
		u32 i = below(n);

		block[single[i].dst] = block[single[i].src];
		single[i] = single[--n];
	}
}

static struct kv_move random_move(u32 blocks, u32 longest)
{
	u32 nr = below(longest + 1);

	return (struct kv_move){ below(blocks - nr), below(blocks - nr), nr };
}

/* Many blocks and short runs: few dependences; few blocks: nothing but. */
Test(wave, waves_in_any_order_are_moves_in_their_order)
{
	for (u32 round = 0; round < 4000; round++) {
		u32 expected[BLOCKS], block[BLOCKS], n, nr_waves = 0;
		u32 blocks, nr;
		struct kv_move moves[40];
		struct wave_cursor at;

		seed = round;
		blocks = 8 + below(BLOCKS - 8);
		nr = 1 + below(40);
		at = cursor(moves, nr, true);
		for (u32 b = 0; b < BLOCKS; b++)
			block[b] = expected[b] = b;
		for (u32 i = 0; i < nr; i++) {
			moves[i] = random_move(blocks, 1 + below(7));
			one_after_the_other(expected, &moves[i]);
		}
		while ((n = kv_wave_next(&room, &at))) {
			in_any_order(block, room.move, n);
			nr_waves++;
		}
		cr_assert(!memcmp(block, expected, sizeof(block)), "seed %u", round);
		cr_assert_leq(nr_waves, nr * 7);
	}
}
