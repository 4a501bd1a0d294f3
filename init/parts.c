// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a pool, in the order that they are made; they end in reverse.
 *
 * Those that use another one come behind it.
 */
#include <kv/pool_part.h>

#define PARTS(part)	\
	part(door) \
	part(promises) \
	part(tickets) \
	part(tenant) \
	part(tokens) \
	part(events) \
	part(cache) \
	part(quotas) \
	part(arenas) \
	part(slots) \
	part(presence) \
	part(leases) \
	part(mags) \
	part(elastic) \
	part(pin_types) \
	part(steps) \
	part(residency) \
	part(verify) \
	part(goals) \
	part(lower) \
	part(background) \
	part(flights) \
	part(pace) \
	part(lower_sound) \
	part(unseen) \
	part(grow) \
	part(lost)

#define declare(part)	extern const struct pool_part part##_part;
#define name(part)	&part##_part,

PARTS(declare)

const struct pool_part *const kv_pool_parts_all[] = { PARTS(name) NULL };
