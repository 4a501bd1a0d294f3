/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of one range's growth, which only tests ask for. */
#ifndef TESTS_GROWTH_H
#define TESTS_GROWTH_H

#include <stdlib.h>

#include "pool/internal.h"

struct growth {
	struct kvmm_extent reserved;	/* free blocks behind its end, maybe none */
	u32 in_place, elsewhere;	/* times that it became longer there */
	u32 nr_ext;
};

/* Of a range that is there. */
static inline struct growth growth_of_range(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct growth growth = { 0 };
	struct slot *slot;

	if (range_enter(pool, range, &slot))
		abort();
	growth.nr_ext = slot->nr_ext;
	if (slot->flags & SLOT_GREW) {
		growth.in_place = slot_grow(slot)->in_place;
		growth.elsewhere = slot_grow(slot)->elsewhere;
		if (slot_grow(slot)->res.nr)
			growth.reserved = slot_grow(slot)->res;
	}
	pool_leave(pool);
	return growth;
}

#endif /* TESTS_GROWTH_H */
