// SPDX-License-Identifier: Apache-2.0
/* Flights, recounted: their places, the owners of these, and how many. */
#include "flight.h"
#include "verify.h"

static bool leg_is_sound(const struct kvmm_pool *pool, const struct flight *flight, u32 i)
{
	const struct kv_move *move = &flight->move[i];
	u32 start = flight->state == FLIGHT_COPYING ? move->dst : move->src;

	if (flight->state == FLIGHT_PUBLISHED && !flight->leg[i].done)
		return true;
	for (u32 b = start; b < start + move->nr; b++)
		if (pool->owner[b] != dark)
			return false;
	return true;
}

struct flight_recount {
	u32 flying;		/* blocks of ranges: in one flight each, or they would be more */
	u32 nr_legs;		/* of ranges */
	u32 nr_moving;
	u32 copying;		/* blocks */
	u32 limbo;
};

static bool recount(const struct kvmm_pool *pool, const struct flight *flight,
		    struct flight_recount *re)
{
	for (u32 i = 0; i < flight->nr; i++) {
		bool is_slot = owner_kind(flight->leg[i].owner) == OWNER_SLOT;

		if (!leg_is_sound(pool, flight, i))
			return false;
		if (flight->state == FLIGHT_PUBLISHED) {
			re->limbo += flight->leg[i].done ? flight->move[i].nr : 0;
			continue;
		}
		re->copying += flight->move[i].nr;
		re->nr_legs += is_slot;
		re->flying += is_slot ? flight->move[i].nr : 0;
		re->nr_moving += flight->leg[i].marked;
	}
	return true;
}

static int flights_check(struct kvmm_pool *pool, const struct pool_recount *real)
{
	const struct steps *steps = steps_of(pool);
	u32 nr_moving = real->nr_moving, nr_dark = real->nr_owned[OWNER_MOVE];
	struct flight_recount re = { 0 };
	u32 nr_flying = 0, nr_given_back = 0;

	if (!steps)
		return nr_moving || nr_dark ? -EUCLEAN : 0;
	for (const struct flight *flight = steps->oldest; flight; flight = flight->next)
		if (!recount(pool, flight, &re) ||
		    !completion_is_sound(&pool->completions, &flight->completion))
			return -EUCLEAN;
	for (u32 b = 0; b < pool->nr_blocks; b++) {
		nr_flying += is_flying(&pool->transit, b);
		nr_given_back += is_flying(&pool->transit, b) && pool->owner[b] == dark;
	}
	if (re.flying != nr_flying)
		return -EUCLEAN;
	re.nr_moving += verify_nr_moving(pool);
	if (re.nr_legs != pool->nr_flying || re.nr_moving != steps->nr_moving ||
	    re.copying != steps->stat.copying_blocks || re.limbo != steps->stat.limbo_blocks)
		return -EUCLEAN;
	return nr_moving == steps->nr_moving && nr_dark == pool->transit.nr_dark &&
	       nr_dark == re.copying + re.limbo + nr_given_back ? 0 : -EUCLEAN;
}

POOL_PART(flights) = {
	.name	= "blocks on the move",
	.check	= flights_check,
};
