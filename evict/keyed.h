/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by policies that are one function: from the record of a block to a bucket of virtual
 * time (vtime.h). Time passes as blocks are filled.
 *
 * Everything is guarded by the order's lock.
 */
#ifndef EVICT_KEYED_H
#define EVICT_KEYED_H

#include <kv/evict.h>

#include "vtime.h"

/* The policy's record of a block. */
struct keyed_block {
	u64 hash;		/* of its key */
	u32 filled;		/* tick of its fill */
	u32 position;		/* in its chain */
	u32 value;		/* the advice, 0 if none */
	u8 uses;		/* since it was filled, up to 255 */
	u8 level;		/* list that it belongs to */
};

struct keyed {
	struct vtime order;

	/* Fixed at creation. */
	u32 shift;			/* ticks a bucket, as a power of two */
	u32 nr_past;			/* buckets of the past in the window */
	u32 param[3];			/* the policy's */
	struct keyed_block *block;	/* behind this, as are the links, and */
	void *extra;			/* the policy's; aligned to a cache line */

	u64 now;			/* blocks filled so far */
	u32 hand;			/* the policy's: next block to look at */
	u32 last_position;		/* the policy's: of the block that came last... */
	u32 chain;			/* ...and the end of its chain */
};

/* The table for kv_evict_ops, as far as it is the same for all. */
size_t keyed_bytes(u32 nr_blocks);
void keyed_init(void *policy, u32 nr_blocks);
void keyed_fill(void *policy, u32 block, const kvmm_key_t *key);
void keyed_expect(const void *policy, const u32 *blocks, u32 nr, bool soon);

/* The same with @extra bytes behind it. */
size_t keyed_bytes_with(u32 nr_blocks, size_t extra);

/* Exactly @nr numbers up to @limit, with commas between them, into ->param: 0, or -EINVAL. */
int keyed_params(struct keyed *keyed, const char *args, u32 nr, u32 limit);

/* From one bucket to another, if it is in any. */
void keyed_move(struct keyed *keyed, u32 block, u64 bucket);

/* The state of a block, or NULL: there is none of that number. */
struct keyed_block *keyed_block(struct keyed *keyed, u32 block);

/* The bucket of a moment. */
static inline u64 keyed_bucket(const struct keyed *keyed, u64 tick)
{
	return tick >> keyed->shift;
}

#define KEYED_OPS	VTIME_OPS, .expect = keyed_expect, .check = vtime_check

#endif /* EVICT_KEYED_H */
