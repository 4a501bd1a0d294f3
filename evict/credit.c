// SPDX-License-Identifier: Apache-2.0
/* Sums of powers of two, by their logarithms. */
#include <kv/types.h>

#include "credit.h"

/* 16 * log2(1 + 2^(-i / 16)), rounded; 0 from the end on. */
static const u8 gain[] = {
	16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 12, 11, 11, 10, 10, 10,
	 9,  9,  9,  8,  8,  8,  8,  7,  7,  7,  6,  6,  6,  6,  6,  5,
	 5,  5,  5,  5,  4,  4,  4,  4,  4,  4,  3,  3,  3,  3,  3,  3,
	 3,  3,  3,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  1,
	 1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,
	 1,  1,  1,  1,  1,  1,  1,  1,  1,
};

struct half_life half_life_of(u64 ticks)
{
	return (struct half_life){ ticks, ticks ? ((u64)CREDIT_ONE << 32) / ticks : 0 };
}

u32 credit_after(u32 credit, u32 age, const struct half_life *half)
{
	u64 melted = age * half->per_tick >> 32;
	u32 apart;

	if (!half->ticks || melted >= credit + ARRAY_SIZE(gain))
		return 0;
	apart = melted > credit ? melted - credit : credit - melted;
	if (apart >= ARRAY_SIZE(gain))
		return min(credit - (u32)melted, CREDIT_MAX);
	return min((melted > credit ? 0 : credit - (u32)melted) + gain[apart], CREDIT_MAX);
}
