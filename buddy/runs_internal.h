/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the run index: words and windows of the map, the ends
 * of runs, classes and the groups of their rows. Nothing in here writes.
 */
#ifndef BUDDY_RUNS_INTERNAL_H
#define BUDDY_RUNS_INTERNAL_H

#include <string.h>

#include <kv/err.h>

#include "runs.h"

#define WINDOW_BITS	56u	/* blocks that one load at any position shows */

/* The bit of a position, within its word. */
static __always_inline u64 bit_in_word(u32 pos)
{
	return BIT64(pos & 63);
}

/* ---- windows: 64 bits of the map from any byte on, bit 0 first ---- */

static __always_inline u64 load_window(const u64 *map, s64 byte)
{
	u64 x;

	memcpy(&x, (const char *)map + byte, sizeof(x));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the map needs its words byte-swapped on big-endian machines"
#endif
	return x;
}

static __always_inline void store_window(u64 *map, s64 byte, u64 x)
{
	memcpy((char *)map + byte, &x, sizeof(x));
}

/* ---- ranges of bits ---- */

static __always_inline u64 mask_from(u32 first)
{
	return ~0ull << (first & 63);
}

/* Bits up to and including last. */
static __always_inline u64 mask_upto(u32 last)
{
	return ~0ull >> (63 - (last & 63));
}

/* True if any bit of [first, last] is set. */
static inline bool bits_any(const u64 *bits, u32 first, u32 last)
{
	u32 w = first >> 6, end = last >> 6;
	u64 seen;

	kv_assert(first <= last);
	if (w == end)
		return bits[w] & mask_from(first) & mask_upto(last);
	seen = bits[w] & mask_from(first);
	while (!seen && ++w < end)
		seen = bits[w];
	return seen || (bits[end] & mask_upto(last));
}

/* ---- ends of runs ---- */

u32 kv_runs_next_used(const struct kv_runs *runs, u32 pos);
u32 kv_runs_free_before_far(const struct kv_runs *runs, u32 pos);

static __always_inline u32 free_before(const struct kv_runs *runs, u32 pos)
{
	u64 x = load_window(runs->map, (s64)(pos >> 3) - 7) << (8 - (pos & 7));
	u32 len = 63 - kv_highest64(~x);

	kv_assert(pos <= runs->nr_blocks);
	return likely(len < WINDOW_BITS) ? len : kv_runs_free_before_far(runs, pos);
}

static __always_inline u32 free_after(const struct kv_runs *runs, u32 pos)
{
	u64 x = load_window(runs->map, pos >> 3) >> (pos & 7);
	u32 len = kv_lowest64(~x | bit_in_word(63));

	kv_assert(pos <= runs->nr_blocks);
	return likely(len < WINDOW_BITS) ? len : kv_runs_next_used(runs, pos) - pos;
}

static __always_inline bool overlaps_free(const struct kv_runs *runs, u32 start, u32 n)
{
	kv_assert(n && start + n <= runs->nr_blocks);
	if (likely(n <= WINDOW_BITS))
		return load_window(runs->map, start >> 3) & (bit_in_word(n) - 1) << (start & 7);
	return bits_any(runs->map, start, start + n - 1);
}

/* ---- classes ---- */

static inline u32 bin_of(u32 len)
{
	u32 k = kv_highest64(len);

	kv_assert(len >= KV_RUNS_EXACT);
	return KV_RUNS_EXACT + (k - 10) * KV_RUNS_BINS + ((len >> (k - 6)) & 63);
}

static __always_inline u32 class_of(u32 len)
{
	return likely(len < KV_RUNS_EXACT) ? len : bin_of(len);
}

/* log2 of the group size of a class. */
static inline u32 class_shift(u32 c)
{
	kv_assert(c && c < KV_RUNS_CLASSES);
	return c < KV_RUNS_EXACT ? kv_highest64(c) : 10 + (c - KV_RUNS_EXACT) / KV_RUNS_BINS;
}

/* Shortest length of a class. */
static inline u32 class_min_len(u32 c)
{
	u32 k;

	if (c < KV_RUNS_EXACT)
		return c;
	k = class_shift(c);
	return (64 + (c & 63)) << (k - 6);
}

static __always_inline u32 geo_shift(const struct kv_runs_class *class)
{
	return class->geo & 31;
}

/* log2 of the summary words that one bit of top stands for. */
static __always_inline u32 geo_top_shift(const struct kv_runs_class *class)
{
	return class->geo >> 5 & 7;
}

static __always_inline u64 *class_row(const struct kv_runs *runs, const struct kv_runs_class *class)
{
	return runs->rows + (class->geo >> 8);
}

/* The next class at or above c with a run in it, KV_RUNS_NONE if none. */
static inline u32 next_class(const struct kv_runs *runs, u32 c)
{
	u32 w = c >> 6, sum;
	u64 x = runs->nonempty[w] & mask_from(c);

	kv_assert(c < KV_RUNS_CLASSES);
	if (likely(x))
		return (c & ~63u) + kv_lowest64(x);
	sum = runs->nonempty_sum & (~1u << w);
	if (!sum)
		return KV_RUNS_NONE;
	w = kv_lowest64(sum);
	return w * 64 + kv_lowest64(runs->nonempty[w]);
}

/* The last class at or below c with a run in it, 0 if none. */
static inline u32 prev_class(const struct kv_runs *runs, u32 c)
{
	u32 w = c >> 6, sum;
	u64 x = runs->nonempty[w] & mask_upto(c);

	kv_assert(c < KV_RUNS_CLASSES);
	if (x)
		return (c & ~63u) + kv_highest64(x);
	sum = runs->nonempty_sum & ((1u << w) - 1);
	if (!sum)
		return 0;
	w = kv_highest64(sum);
	return w * 64 + kv_highest64(runs->nonempty[w]);
}

/* ---- groups of a row ---- */

/* The first group at or after g, KV_RUNS_NONE if none. */
static inline u32 next_group(const struct kv_runs *runs, const struct kv_runs_class *class, u32 g)
{
	const u64 *row = class_row(runs, class);
	u32 last = (runs->nr_blocks - 1) >> geo_shift(class), i;
	u64 x;

	if (g > last)
		return KV_RUNS_NONE;
	x = row[g >> 6] & mask_from(g);
	if (x)
		return (g & ~63u) + kv_lowest64(x);
	i = g >> 12;
	x = row[-1 - (s64)i] & mask_from(g >> 6) & ~bit_in_word(g >> 6);
	while (!x) {
		if (++i > last >> 12)
			return KV_RUNS_NONE;
		x = row[-1 - (s64)i];
	}
	i = i * 64 + kv_lowest64(x);
	return i * 64 + kv_lowest64(row[i]);
}

/* The last group at or before g, KV_RUNS_NONE if none. */
static inline u32 prev_group(const struct kv_runs *runs, const struct kv_runs_class *class, u32 g)
{
	const u64 *row = class_row(runs, class);
	u32 i = g >> 12;
	u64 x = row[g >> 6] & mask_upto(g);

	if (x)
		return (g & ~63u) + kv_highest64(x);
	x = row[-1 - (s64)i] & mask_upto(g >> 6) & ~bit_in_word(g >> 6);
	while (!x) {
		if (!i--)
			return KV_RUNS_NONE;
		x = row[-1 - (s64)i];
	}
	i = i * 64 + kv_highest64(x);
	return i * 64 + kv_highest64(row[i]);
}

/* The run that group g of a class names: it ends at or after the group does. */
static __always_inline u32 group_start(const struct kv_runs *runs,
				       const struct kv_runs_class *class, u32 g)
{
	u32 end = (g + 1) << geo_shift(class);

	return end - free_before(runs, end);
}

static inline u32 run_len(const struct kv_runs *runs, u32 c, u32 start)
{
	return c < KV_RUNS_EXACT ? c : free_after(runs, start);
}

#endif
