/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many pins on cached blocks a pool may have.
 *
 * A pin is counted before it is made, all of a call's at once, and given back after it is gone or
 * if it could not be made: so there are never more than are counted, and two calls cannot get the
 * same part of the limit. Both happen in a read section, so a thread that has stopped the pool sees
 * exactly as many as there are. Pins are limited, not blocks: a block that is pinned twice counts
 * twice, and no more blocks are pinned than the limit says. Only where there is a limit, there is a
 * count.
 */
#ifndef POOL_PINS_H
#define POOL_PINS_H

#include <kv/atomic.h>
#include <kv/err.h>
#include <kv/types.h>

struct pin_limit {
	u64 max;	/* fixed at creation; 0: none */
	u64 nr;		/* atomic */
};

/* All or none: 0 or -E2BIG. */
static inline int pins_reserve(struct pin_limit *limit, u32 nr)
{
	u64 now = READ_ONCE(limit->nr);	/* relaxed: a number, nothing comes with it */

	if (likely(!limit->max))
		return 0;
	do {
		if (now + nr > limit->max)
			return -E2BIG;
	} while (!kv_cas(&limit->nr, &now, now + nr));
	return 0;
}

/* A call to unpin is refused after all: these pins were there before, so no limit stops them. */
static inline void pins_restore(struct pin_limit *limit, u64 nr)
{
	if (unlikely(limit->max && nr))
		kv_fetch_add(&limit->nr, nr);
}

static inline void pins_give_back(struct pin_limit *limit, u64 nr)
{
	if (unlikely(limit->max && nr))
		kv_fetch_sub(&limit->nr, nr);
}

#endif /* POOL_PINS_H */
