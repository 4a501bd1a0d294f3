// SPDX-License-Identifier: Apache-2.0
/*
 * Run index: recompute everything from the map and compare. Written bit by bit
 * and apart from the code it checks wherever that is possible.
 */
#include "runs_internal.h"

/* I1, I2: padding is clear, and each level tells the truth about the one below. */
static bool map_is_sound(const struct kv_runs *runs)
{
	const u64 *below = runs->map;
	u32 nr_below = runs->nr_blocks / 64 + 1, level, w;

	if (runs->map[-1] || runs->map[nr_below] ||
	    runs->map[nr_below - 1] & mask_from(runs->nr_blocks))
		return false;
	for (level = 0; level < runs->nr_full; level++) {
		const u64 *full = runs->full[level];

		for (w = 0; w < (nr_below / 64 + 1) * 64; w++) {
			bool is_full = w < nr_below && below[w] == ~0ull;

			if (is_full != !!(full[w >> 6] & bit_in_word(w)))
				return false;
		}
		below = full;
		nr_below = nr_below / 64 + 1;
	}
	return true;
}

/* I3, one half: each run has its bit. I7. */
static bool runs_are_indexed(const struct kv_runs *runs)
{
	u32 nr_runs = 0, nr_free = 0, pos = 0;

	while (pos < runs->nr_blocks) {
		const struct kv_runs_class *class;
		u32 end = pos, g;

		while (runs->map[end >> 6] & bit_in_word(end))
			end++;
		if (end > pos) {
			class = &runs->class[class_of(end - pos)];
			g = pos >> geo_shift(class);
			if (!(class_row(runs, class)[g >> 6] & bit_in_word(g)))
				return false;
			nr_runs++;
			nr_free += end - pos;
		}
		pos = end + 1;
	}
	return nr_runs == runs->nr_runs && nr_free == runs->nr_free;
}

/* I4: the summaries of one row; returns the number of bits in it, or -1. */
static s64 count_row(const struct kv_runs *runs, const struct kv_runs_class *class)
{
	const u64 *row = class_row(runs, class);
	u32 last = (runs->nr_blocks - 1) >> geo_shift(class), w;
	u32 nr_words = (last >> 6) + 1, nr_sums = (last >> 12) + 1;
	u64 top = 0;
	s64 nr = 0;

	for (w = 0; w < nr_sums * 64; w++) {
		u64 bits = w < nr_words ? row[w] : 0;

		if (!!bits != !!(row[-1 - (s64)(w >> 6)] & bit_in_word(w)))
			return -1;
		if (bits)
			top |= bit_in_word(w >> 6 >> geo_top_shift(class));
		nr += __builtin_popcountll(bits);
	}
	if (row[nr_words - 1] & ~mask_upto(last))
		return -1;
	return top == class->top ? nr : -1;
}

/* I3, the other half: as many bits as runs, and each run has one. I4, I5, I6. */
static bool classes_are_sound(const struct kv_runs *runs)
{
	u32 c, nr_runs = 0, sum = 0;
	struct kv_run run;

	if (runs->nonempty[0] & 1)
		return false;	/* class 0 is no class */
	for (c = 1; c < KV_RUNS_CLASSES; c++) {
		const struct kv_runs_class *class = &runs->class[c];
		bool nonempty = runs->nonempty[c >> 6] & bit_in_word(c);
		u32 blocks = 0, pos = 0;

		if (c >= runs->nr_classes) {
			if (nonempty)
				return false;
			continue;
		}
		if (count_row(runs, class) != class->nr || nonempty != !!class->nr)
			return false;
		nr_runs += class->nr;
		if (c < KV_RUNS_EXACT)
			continue;
		for (; kv_runs_next_of_class(runs, c, pos, &run); pos = run.start + run.len)
			blocks += run.len;
		if (blocks != runs->bin_blocks[c - KV_RUNS_EXACT])
			return false;	/* I6 */
	}
	for (c = 0; c < KV_RUNS_CLASS_WORDS; c++)
		sum |= (u32)!!runs->nonempty[c] << c;
	return nr_runs == runs->nr_runs && sum == runs->nonempty_sum;
}

/**
 * kv_runs_check() - recompute everything from the map
 * @runs: the index
 *
 * Context: the lock of the zone is held; takes time linear in the memory.
 * Return: 0; -EUCLEAN if an invariant of runs.h is broken.
 */
int kv_runs_check(const struct kv_runs *runs)
{
	struct kv_run big = runs->big;

	if (!map_is_sound(runs) || !runs_are_indexed(runs) || !classes_are_sound(runs))
		return -EUCLEAN;
	if (!big.len)
		return 0;
	if (big.start >= runs->nr_blocks || big.len < KV_RUNS_EXACT)
		return -EUCLEAN;	/* I8 */
	return !free_before(runs, big.start) && free_after(runs, big.start) == big.len ?
	       0 : -EUCLEAN;
}
