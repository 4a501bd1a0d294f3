/* SPDX-License-Identifier: Apache-2.0 */
/* Which hole wins, and ranges of a flat bitmap. Lock rules: the zone's lock guards everything. */
#ifndef RESEARCH_ZONES_HOLES_H
#define RESEARCH_ZONES_HOLES_H

#include <kv/zone.h>
#include "buddy/internal.h"
#include "buddy/map.h"

/**
 * struct pick - the best place seen so far, holes being shown in any order
 * @start: KV_NONE as long as nothing fitted
 * @hole: length of the whole hole, whatever part of it the window shows
 */
struct pick {
	u32 start;
	u32 hole;
};

#define PICK_NONE ((struct pick){ KV_NONE, 0 })

static inline void pick_offer(struct pick *best, struct kvmm_extent hole,
			      const struct kv_zone_req *req)
{
	u32 start = place_in_hole(hole, req);
	bool better;

	if (start == KV_NONE)
		return;
	if (best->start == KV_NONE)
		better = true;
	else if (req->fit == KV_FIT_BEST && hole.nr != best->hole)
		better = hole.nr < best->hole;
	else
		better = req->topdown ? start > best->start : start < best->start;
	if (better)
		*best = (struct pick){ start, hole.nr };
}

/* Puts @nr into the @k longest seen so far, longest first; returns how many there are now. */
static inline unsigned int keep_longest(u32 *len, unsigned int k, unsigned int have, u32 nr)
{
	unsigned int i;

	if (have < k)
		len[have++] = 0;
	else if (!k || len[k - 1] >= nr)
		return have;
	for (i = have - 1; i > 0 && len[i - 1] < nr; i--)
		len[i] = len[i - 1];
	len[i] = nr;
	return have;
}

static inline void map_set(u64 *map, u32 lo, u32 hi)
{
	u64 mask;
	u32 word;

	for_each_map_word(word, mask, lo, hi)
		map[word] |= mask;
}

static inline void map_clear(u64 *map, u32 lo, u32 hi)
{
	u64 mask;
	u32 word;

	for_each_map_word(word, mask, lo, hi)
		map[word] &= ~mask;
}

static inline bool map_is_set(const u64 *map, u32 lo, u32 hi)
{
	u64 mask;
	u32 word;

	for_each_map_word(word, mask, lo, hi)
		if (~map[word] & mask)
			return false;
	return true;
}

/* First bit in [lo, hi) that equals @value, or @hi. */
static inline u32 map_next(const u64 *map, u32 lo, u32 hi, bool value)
{
	u64 flip = value ? 0 : ~0ull, mask, hit;
	u32 word;

	for_each_map_word(word, mask, lo, hi) {
		hit = (map[word] ^ flip) & mask;
		if (hit)
			return word * KV_WORD_BITS + kv_lowest64(hit);
	}
	return hi;
}

/* First bit of the set bits that end at @bit, which is set itself. */
static inline u32 map_run_start(const u64 *map, u32 bit)
{
	u32 word = bit / KV_WORD_BITS;
	u64 gap = ~map[word] & kv_mask64(0, bit % KV_WORD_BITS + 1);

	while (!gap) {
		if (!word)
			return 0;
		gap = ~map[--word];
	}
	return word * KV_WORD_BITS + kv_highest64(gap) + 1;
}

#endif /* RESEARCH_ZONES_HOLES_H */
