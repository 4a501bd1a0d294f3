// SPDX-License-Identifier: Apache-2.0
/*
 * The room outside a window: an index of the slice's holes, and the parts that a trial takes.
 *
 * Hundreds of windows are tried for one plan. So the index is sorted once and never changed; a
 * trial notes which holes it has used and the rest of them, and forgetting those two short lists
 * undoes it.
 */
#include "goal.h"
#include "window.h"

static u32 length_of(u64 hole)
{
	return hole >> 32;
}

/* By length, then address: the order of equal ones stays, and holes come in by address. */
void holes_index(struct search *s)
{
	s->nr_holes = 0;
	for (u32 i = s->from; i <= s->to; i++)
		if (hole_nr(s->req, i))
			s->holes[s->nr_holes++] = (u64)hole_nr(s->req, i) << 32 | i;
	plan_sort(s->holes, s->spare_holes, s->nr_holes);
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

	kv_assert(hole <= s->req->nr_items);
	if (hole >= s->window.first && hole <= s->window.last + 1)
		return true;
	for (k = 0; k < s->nr_taken; k++)
		if (s->taken[k] == hole)
			return true;
	return false;
}

void hole_take(struct search *s, u32 hole)
{
	kv_assert(s->nr_taken < MAX_TAKEN);
	s->taken[s->nr_taken++] = hole;
}

/* The longest that could still be placed outside the window being tried. */
u32 longest_room(const struct search *s)
{
	u32 k = s->nr_holes, longest;

	while (k && hole_is_taken(s, (u32)s->holes[k - 1]))
		k--;
	longest = k ? length_of(s->holes[k - 1]) : 0;
	for (k = 0; k < s->nr_rests; k++)
		longest = max(longest, s->rest[k].nr);
	return longest;
}

/* Where in the index the holes of at least @nr blocks begin. */
static u32 first_of_length(const struct search *s, u32 nr)
{
	u32 first = 0, left = s->nr_holes;

	kv_assert(nr);
	while (left) {
		u32 half = left / 2;

		if (length_of(s->holes[first + half]) < nr) {
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

	while (k < s->nr_holes && hole_is_taken(s, (u32)s->holes[k]))
		k++;
	if (k < s->nr_holes)
		room = (struct room){ length_of(s->holes[k]), (u32)s->holes[k], KV_NONE };
	for (k = 0; k < s->nr_rests; k++)
		if (s->rest[k].nr >= nr && s->rest[k].nr < room.nr)
			room = (struct room){ s->rest[k].nr, KV_NONE, k };
	return room;
}

/* Room that no hole of the picture is: only something that moves away leaves it. */
struct room room_open(struct search *s, struct rest rest)
{
	kv_assert(s->nr_rests < MAX_RESTS);
	s->rest[s->nr_rests] = rest;
	return (struct room){ rest.nr, KV_NONE, s->nr_rests++ };
}

/*
 * Take @nr blocks of the room and return their address. They go beside the longer neighbour, so
 * that the rest lies beside the shorter one: that is the one which is cheaper to move when the rest
 * is to grow.
 */
u32 room_take(struct search *s, struct room room, u32 nr)
{
	const struct kv_plan_req *req = s->req;
	struct rest *rest;

	kv_assert(nr && nr <= room.nr);
	if (room.rest == KV_NONE) {
		hole_take(s, room.hole);
		room = room_open(s, (struct rest){
			hole_start(req, room.hole), hole_nr(req, room.hole),
			below_hole(req, room.hole), neighbour_nr(req, room.hole) });
	}
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
