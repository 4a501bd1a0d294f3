/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of a deterministic pool: a sum over its decisions, in two parts, each under the lock
 * that the decision is made under.
 *
 *	->history		lock: which blocks went to which owner, and came back
 *	->order.history		order.lock: notes to the order of eviction, and its victims
 *
 * Any choice ends in one of the two: all takes and frees of blocks go through owner_fill() and
 * blocks_free(), all evictions through entry_forget(). Notes to the order are in it as well, since
 * they decide on later victims.
 */
#ifndef POOL_DIGEST_H
#define POOL_DIGEST_H

#include "sum.h"

/* Where words of one kind begin. */
enum history_mark {
	HISTORY_TAKEN = 0x10,
	HISTORY_FREED,
	HISTORY_EVICTED,
	HISTORY_RECLASSED,
	HISTORY_SEEN,
	HISTORY_ADVISED,	/* and the advice */
};

static inline u64 history_word(u32 mark, u32 high, u32 low)
{
	return (u64)mark << 56 | (u64)high << 28 | low;
}

#endif /* POOL_DIGEST_H */
