// SPDX-License-Identifier: Apache-2.0
/*
 * The room outside a window: an index of the slice's holes, and the parts that a trial takes.
 *
 * Hundreds of windows are tried for one plan. So the index is sorted once and never changed; a
 * trial notes which holes it has used and the rest of them, and forgetting those two short lists
 * undoes it.
 */
#include "window.h"

#define DIGIT_BITS	8
#define NR_DIGITS	BIT(DIGIT_BITS)

/* One pass of a radix sort; returns with the two arrays swapped. */
static void sort_by_digit(struct search *s, unsigned int shift)
{
	u32 at[NR_DIGITS + 1] = { 0 }, k;
	struct hole *sorted = s->spare_holes;

	for (k = 0; k < s->nr_holes; k++)
		at[(s->holes[k].nr >> shift) % NR_DIGITS + 1]++;
	for (k = 1; k < NR_DIGITS; k++)
		at[k] += at[k - 1];
	for (k = 0; k < s->nr_holes; k++)
		sorted[at[(s->holes[k].nr >> shift) % NR_DIGITS]++] = s->holes[k];
	s->spare_holes = s->holes;
	s->holes = sorted;
}

/* By length, then address: the passes are stable and holes come in by address. */
void holes_index(struct search *s)
{
	u32 i, longest = 0;
	unsigned int shift;

	s->nr_holes = 0;
	for (i = s->from; i <= s->to; i++) {
		u32 nr = hole_nr(s->req, i);

		if (nr)
			s->holes[s->nr_holes++] = (struct hole){ nr, i };
		longest = max(longest, nr);
	}
	for (shift = 0; shift < 32 && longest >> shift; shift += DIGIT_BITS)
		sort_by_digit(s, shift);
}

/*
 * The later worth of a hole. Ten holes of three blocks serve no request where requests take a
 * hundred, so it is convex: near nothing for one much shorter than a usual item, near its length
 * for a much longer one.
 */
s64 hole_worth(const struct search *s, u64 nr)
{
	return SCORE_BLOCK * nr * nr / (nr + s->mean);
}

bool hole_is_taken(const struct search *s, u32 hole)
{
	u32 k;

	if (hole >= s->window.first && hole <= s->window.last + 1)
		return true;
	for (k = 0; k < s->nr_taken; k++)
		if (s->taken[k] == hole)
			return true;
	return false;
}

void hole_take(struct search *s, u32 hole)
{
	s->taken[s->nr_taken++] = hole;
}

/* The longest that could still be placed outside the window being tried. */
u32 longest_room(const struct search *s)
{
	u32 k = s->nr_holes, longest;

	while (k && hole_is_taken(s, s->holes[k - 1].idx))
		k--;
	longest = k ? s->holes[k - 1].nr : 0;
	for (k = 0; k < s->nr_rests; k++)
		longest = max(longest, s->rest[k].nr);
	return longest;
}

/* Where in the index the holes of at least @nr blocks begin. */
static u32 first_of_length(const struct search *s, u32 nr)
{
	u32 first = 0, left = s->nr_holes;

	while (left) {
		u32 half = left / 2;

		if (s->holes[first + half].nr < nr) {
			first += half + 1;
			left -= half + 1;
		} else {
			left = half;
		}
	}
	return first;
}

/* Best fit; the lowest address of equal holes, and a hole rather than an equal rest. */
struct room room_find(const struct search *s, u32 nr)
{
	struct room room = { KV_NONE, KV_NONE, KV_NONE };
	u32 k = first_of_length(s, nr);

	while (k < s->nr_holes && hole_is_taken(s, s->holes[k].idx))
		k++;
	if (k < s->nr_holes)
		room = (struct room){ s->holes[k].nr, s->holes[k].idx, KV_NONE };
	for (k = 0; k < s->nr_rests; k++)
		if (s->rest[k].nr >= nr && s->rest[k].nr < room.nr)
			room = (struct room){ s->rest[k].nr, KV_NONE, k };
	return room;
}

/* Room that no hole of the picture is: only something that moves away leaves it. */
struct room room_open(struct search *s, struct rest rest)
{
	s->rest[s->nr_rests] = rest;
	return (struct room){ rest.nr, KV_NONE, s->nr_rests++ };
}

static struct room open_hole(struct search *s, u32 hole)
{
	const struct kv_plan_req *req = s->req;

	hole_take(s, hole);
	return room_open(s, (struct rest){ hole_start(req, hole), hole_nr(req, hole),
					   below_hole(req, hole), neighbour_nr(req, hole) });
}

/*
 * Take @nr blocks of the room and return their address. They go beside the longer neighbour, so
 * that the rest lies beside the shorter one: that is the one which is cheaper to move when the rest
 * is to grow.
 */
u32 room_take(struct search *s, struct room room, u32 nr)
{
	struct rest *rest;

	if (room.rest == KV_NONE)
		room = open_hole(s, room.hole);
	rest = &s->rest[room.rest];
	rest->nr -= nr;
	s->worth += hole_worth(s, rest->nr) - hole_worth(s, rest->nr + nr);
	if (rest->below < rest->above) {
		rest->above = nr;
		return rest->start + rest->nr;
	}
	rest->below = nr;
	rest->start += nr;
	return rest->start - nr;
}
