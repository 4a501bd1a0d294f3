/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit: the logarithm of how often a block was used, where a use counts half as much after each
 * half-life. In sixteenths, 0 after the first use: log2(1 + 2^(credit - age / half-life)).
 */
#ifndef EVICT_CREDIT_H
#define EVICT_CREDIT_H

#include <kv/types.h>

#define CREDIT_ONE	16u
#define CREDIT_MAX	(4 * CREDIT_ONE)	/* 16 uses at once: then a block only gets older */

/**
 * struct half_life - how fast credit melts
 * @ticks: half-life; 0 = at once, which makes the order that of LRU
 * @per_tick: CREDIT_ONE / ticks, times 2^32
 */
struct half_life {
	u64 ticks;
	u64 per_tick;
};

struct half_life half_life_of(u64 ticks);

/* Credit after one more use, @age ticks after the last one. */
u32 credit_after(u32 credit, u32 age, const struct half_life *half);

/* Ticks that a block stays longer than one used once, as long ago. */
static inline u64 credit_ticks(u32 credit, const struct half_life *half)
{
	return half->ticks * credit / CREDIT_ONE;
}

#endif /* EVICT_CREDIT_H */
