// SPDX-License-Identifier: Apache-2.0
/*
 * Cutting a list of moves into waves: moves that may run in any order, and at the same time.
 *
 * The work of a launch has no order, but a list of moves has one. Moves depend on each other where
 * a block that one writes is read or written by another. Lists of planners mostly have no such
 * pair, so that is checked first, by sorting: as many moves as fit, and only if that fails the
 * longest start of them that has none, by bisection.
 *
 * A run that is moved by less than its length depends on itself. It goes in steps of that distance,
 * away from the end that is written first.
 *
 * No locks, no driver; the caller brings the room.
 */
#include <string.h>

#include "engine.h"

#define DIGIT_BITS	8u
#define NR_DIGITS	BIT(DIGIT_BITS)
#define START_SHIFT	32u		/* of a key: first block ... */
#define INDEX_SHIFT	1u		/* ... move ... */
#define KEY_IS_DST	1u		/* ... and side */

/* ---- sorting ---- */

/* Counting sort by one digit: true if it did anything. */
static bool sort_by_digit(const u64 *from, u64 *to, u32 nr, u32 shift)
{
	u32 count[NR_DIGITS] = { 0 }, sum = 0;

	for (u32 i = 0; i < nr; i++)
		count[from[i] >> shift & (NR_DIGITS - 1)]++;
	if (count[from[0] >> shift & (NR_DIGITS - 1)] == nr)
		return false;
	for (u32 d = 0; d < NR_DIGITS; d++) {
		u32 here = count[d];

		count[d] = sum;
		sum += here;
	}
	for (u32 i = 0; i < nr; i++)
		to[count[from[i] >> shift & (NR_DIGITS - 1)]++] = from[i];
	return true;
}

/* By first block. Returns which of the two arrays holds the result. */
static const u64 *sort_keys(u64 (*key)[2 * KV_WAVE_MOVES], u32 nr)
{
	u32 in = 0;

	for (u32 shift = START_SHIFT; shift < 64; shift += DIGIT_BITS)
		in ^= sort_by_digit(key[in], key[in ^ 1], nr, shift);
	return key[in];
}

/* ---- dependences ---- */

static u64 key_of(u32 start, u32 index, u32 side)
{
	return (u64)start << START_SHIFT | index << INDEX_SHIFT | side;
}

static u32 fill_keys(struct wave_room *room, u32 nr, bool is_one_space)
{
	u32 nr_keys = 0;

	for (u32 i = 0; i < nr; i++) {
		room->key[0][nr_keys++] = key_of(room->move[i].dst, i, KEY_IS_DST);
		if (is_one_space)
			room->key[0][nr_keys++] = key_of(room->move[i].src, i, 0);
	}
	return nr_keys;
}

/*
 * In the order of their starts, a range overlaps one before it if and only if one of those ends
 * behind its start. Two that are read may overlap.
 */
static bool is_independent(struct wave_room *room, u32 nr, bool is_one_space)
{
	u32 nr_keys = fill_keys(room, nr, is_one_space);
	const u64 *key = sort_keys(room->key, nr_keys);
	u64 end[2] = { 0, 0 };		/* of those that are read, written */

	for (u32 i = 0; i < nr_keys; i++) {
		u64 start = key[i] >> START_SHIFT;
		u32 side = key[i] & KEY_IS_DST;
		u32 index = (u32)key[i] >> INDEX_SHIFT;

		if (start < end[KEY_IS_DST] || (side && start < end[0]))
			return false;
		end[side] = max(end[side], start + room->move[index].nr);
	}
	return true;
}

/* A single move that does not overlap itself is independent. */
static u32 longest_start(struct wave_room *room, u32 nr, bool is_one_space)
{
	u32 good = 1, bad = nr;

	if (nr <= 1 || is_independent(room, nr, is_one_space))
		return nr;
	while (bad - good > 1) {
		u32 mid = (good + bad) / 2;

		if (is_independent(room, mid, is_one_space))
			good = mid;
		else
			bad = mid;
	}
	return good;
}

/* ---- moves ---- */

static u32 distance(const struct kv_move *move)
{
	return max(move->src, move->dst) - min(move->src, move->dst);
}

static bool overlaps_itself(const struct wave_cursor *at, const struct kv_move *move)
{
	return at->is_one_space && distance(move) < move->nr;
}

static bool is_nothing(const struct wave_cursor *at, const struct kv_move *move)
{
	return !move->nr || (at->is_one_space && move->src == move->dst);
}

static u32 step(struct wave_room *room, struct wave_cursor *at)
{
	const struct kv_move *move = &at->moves[at->next];
	u32 nr = min(distance(move), move->nr - at->done);
	u32 first = move->dst < move->src ? at->done : move->nr - at->done - nr;

	room->move[0] = (struct kv_move){ move->src + first, move->dst + first, nr };
	at->done += nr;
	if (at->done == move->nr) {
		at->done = 0;
		at->next++;
	}
	return 1;
}

/* As many as fit and do not overlap themselves. */
static u32 collect(struct wave_room *room, const struct wave_cursor *at)
{
	u32 nr = 0;

	for (u32 i = at->next; i < at->nr && nr < KV_WAVE_MOVES; i++) {
		if (is_nothing(at, &at->moves[i]))
			continue;
		if (overlaps_itself(at, &at->moves[i]))
			break;
		room->move[nr++] = at->moves[i];
	}
	return nr;
}

/* Past @nr moves that are something, and nothings between them. */
static void skip(struct wave_cursor *at, u32 nr)
{
	for (; nr; at->next++)
		nr -= !is_nothing(at, &at->moves[at->next]);
}

u32 kv_wave_next(struct wave_room *room, struct wave_cursor *at)
{
	u32 nr;

	while (at->next < at->nr && is_nothing(at, &at->moves[at->next]))
		at->next++;
	if (at->next == at->nr)
		return 0;
	if (overlaps_itself(at, &at->moves[at->next]))
		return step(room, at);
	nr = longest_start(room, collect(room, at), at->is_one_space);
	skip(at, nr);
	return nr;
}
