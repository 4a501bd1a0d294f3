// SPDX-License-Identifier: Apache-2.0
/* Holes by length; see bins.h. */
#include "bins.h"

static u32 bin_of(u32 nr)
{
	u32 log = kv_log2(nr);

	kv_assert(nr);
	return nr <= BIN_EXACT ? nr - 1 : BIN_EXACT + 8 * (log - 6) + (nr >> (log - 3) & 7);
}

void bins_init(struct bins *bins, struct bin_hole *room)
{
	*bins = (struct bins){ .hole = room };
}

/* It is back, with as much as is left of it. */
static void bins_put(struct bins *bins, u32 at)
{
	u32 bin;
	u64 *word, bit;

	kv_assert(at < bins->nr_holes);
	if (!bins->hole[at].nr)
		return;
	bin = bin_of(bins->hole[at].nr);
	word = &bins->full[bin / KV_WORD_BITS];
	bit = BIT64(bin % KV_WORD_BITS);
	bins->hole[at].next = *word & bit ? bins->first[bin] : KV_NONE;
	bins->first[bin] = at;
	*word |= bit;
}

void bins_add(struct bins *bins, u32 start, u32 nr)
{
	bins->hole[bins->nr_holes] = (struct bin_hole){ .start = start, .nr = nr };
	bins_put(bins, bins->nr_holes++);
}

/* The first bin with a hole from @bin on, or KV_NONE. */
static u32 next_full(const struct bins *bins, u32 bin)
{
	u32 i = bin / KV_WORD_BITS;
	u64 word;

	if (bin >= NR_BINS)
		return KV_NONE;
	word = bins->full[i] & ~0ull << bin % KV_WORD_BITS;
	while (!word && ++i < KV_WORDS(NR_BINS))
		word = bins->full[i];
	return word ? i * KV_WORD_BITS + kv_lowest64(word) : KV_NONE;
}

/* One of at least @nr blocks leaves its bin; KV_NONE: no hole there is so long. */
static u32 pop_from(struct bins *bins, u32 bin, u32 nr)
{
	u32 before = KV_NONE, at;

	kv_assert(bin < NR_BINS && bins->full[bin / KV_WORD_BITS] & BIT64(bin % KV_WORD_BITS));
	for (at = bins->first[bin]; at != KV_NONE; before = at, at = bins->hole[at].next)
		if (bins->hole[at].nr >= nr)
			break;
	if (at == KV_NONE)
		return KV_NONE;
	if (before != KV_NONE)
		bins->hole[before].next = bins->hole[at].next;
	else
		bins->first[bin] = bins->hole[at].next;
	if (bins->first[bin] == KV_NONE)
		bins->full[bin / KV_WORD_BITS] &= ~BIT64(bin % KV_WORD_BITS);
	return at;
}

u32 bins_take(struct bins *bins, u32 nr)
{
	u32 at = KV_NONE, start;

	for (u32 bin = next_full(bins, bin_of(nr)); bin != KV_NONE && at == KV_NONE;
	     bin = next_full(bins, bin + 1))
		at = pop_from(bins, bin, nr);
	if (at == KV_NONE)
		return KV_NONE;
	start = bins->hole[at].start;
	bins->hole[at].start += nr;
	kv_assert(bins->hole[at].nr >= nr);
	bins->hole[at].nr -= nr;
	bins_put(bins, at);
	return start;
}
