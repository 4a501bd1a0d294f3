// SPDX-License-Identifier: Apache-2.0
/*
 * Run index: exact best fit over maximal free runs, see runs.h.
 *
 * It is hard because a whole pair of calls has about 100 cycles, as
 * much as a handful of mispredicted branches or one miss of the cache. Best fit
 * refills its holes, so "no free neighbour" and "no remainder" are predictable
 * and branch; "the class got empty", for it eats small classes up all the time,
 * is not, and is computed. An allocation walks four dependent loads down to the
 * first run of a class; a short free sees both neighbours in two.
 *
 * The map is read and written 64 bits from any byte on. A store and a load that
 * overlap in part would stall, so each operation loads first and stores last.
 */
#include "runs_internal.h"

/* ---- ranges of bits ---- */

/* Ranges are a few words: a loop wins over the memset() that gcc sees in it. */
static __always_inline void keep_loop(void)
{
	__asm__ volatile("" : : : "memory");
}

static void bits_set(u64 *bits, u32 first, u32 last)
{
	u32 w = first >> 6, end = last >> 6;

	kv_assert(first <= last);
	if (w == end) {
		bits[w] |= mask_from(first) & mask_upto(last);
		return;
	}
	bits[w] |= mask_from(first);
	while (++w < end) {
		bits[w] = ~0ull;
		keep_loop();
	}
	bits[end] |= mask_upto(last);
}

static void bits_clear(u64 *bits, u32 first, u32 last)
{
	u32 w = first >> 6, end = last >> 6;

	kv_assert(first <= last);
	if (w == end) {
		bits[w] &= ~(mask_from(first) & mask_upto(last));
		return;
	}
	bits[w] &= ~mask_from(first);
	while (++w < end) {
		bits[w] = 0;
		keep_loop();
	}
	bits[end] &= ~mask_upto(last);
}

/* ---- ends of runs ---- */

/* The next used block at or after pos; there always is one (I1, I2). */
u32 kv_runs_next_used(const struct kv_runs *runs, u32 pos)
{
	u64 x = ~runs->map[pos >> 6] & mask_from(pos);
	u32 i = (pos >> 6) + 1, level = 0;

	kv_assert(pos <= runs->nr_blocks);
	if (x)
		return (pos & ~63u) + kv_lowest64(x);
	for (;; level++) {
		x = ~runs->full[level][i >> 6] & mask_from(i);
		if (x)
			break;
		i = (i >> 6) + 1;
	}
	i = (i & ~63u) + kv_lowest64(x);
	while (level--)
		i = i * 64 + kv_lowest64(~runs->full[level][i]);
	return i * 64 + kv_lowest64(~runs->map[i]);
}

/* Blocks between the last used block before pos and pos. */
u32 kv_runs_free_before_far(const struct kv_runs *runs, u32 pos)
{
	u64 x = ~runs->map[(s32)((pos - 1) >> 6)] & mask_upto(pos - 1);
	u32 i = (pos - 1) >> 6, level;

	kv_assert(pos && pos <= runs->nr_blocks);
	if (x)
		return pos - (i * 64 + kv_highest64(x)) - 1;
	for (level = 0; ; level++) {
		if (!i)
			return pos;	/* free from block 0 on */
		x = ~runs->full[level][(i - 1) >> 6] & mask_upto(i - 1);
		i = (i - 1) >> 6;
		if (x)
			break;
	}
	i = i * 64 + kv_highest64(x);
	while (level--)
		i = i * 64 + kv_highest64(~runs->full[level][i]);
	return pos - (i * 64 + kv_highest64(~runs->map[i])) - 1;
}

/* ---- summaries of full words (I2) ---- */

static noinline void full_set(struct kv_runs *runs, u32 first, u32 last)
{
	u32 level;

	kv_assert(first <= last);
	for (level = 0; level < runs->nr_full; level++) {
		u64 *full = runs->full[level];

		bits_set(full, first, last);
		first = full[first >> 6] == ~0ull ? first >> 6 : (first >> 6) + 1;
		last = full[last >> 6] == ~0ull ? (last >> 6) + 1 : last >> 6;
		if (first >= last)
			return;
		last--;
	}
}

/* Blocks [start, start + n) joined the free run: which words got full? */
static noinline void full_set_range(struct kv_runs *runs, struct kv_run run, u32 start, u32 n)
{
	u32 first = max((run.start + 63) >> 6, start >> 6);
	u32 end = min((run.start + run.len) >> 6, ((start + n - 1) >> 6) + 1);

	kv_assert(run.start <= start && start + n <= run.start + run.len);
	if (first < end)
		full_set(runs, first, end - 1);
}

/* Blocks [start, start + n) were taken. */
static noinline void full_clear_range(struct kv_runs *runs, u32 start, u32 n)
{
	u32 first = start >> 6, last = (start + n - 1) >> 6, level;

	kv_assert(n && start + n <= runs->nr_blocks);
	for (level = 0; level < runs->nr_full; level++) {
		u64 *full = runs->full[level];

		/* A word that was not full says nothing to the levels above. */
		if (first == last && !(full[first >> 6] & bit_in_word(first)))
			return;
		bits_clear(full, first, last);
		first >>= 6;
		last >>= 6;
	}
}

/* ---- classes ---- */

/* Summary word i of the class got empty: so may its top bit, and the class. */
static noinline void class_del_summary(struct kv_runs *runs, u32 c, u32 i)
{
	struct kv_runs_class *class = &runs->class[c];
	const u64 *row = class_row(runs, class);
	u32 t = geo_top_shift(class), bit = i >> t, end;

	kv_assert(c < runs->nr_classes);
	i = bit << t;
	end = min((bit + 1) << t, ((runs->nr_blocks - 1) >> geo_shift(class) >> 12) + 1);
	for (; i < end; i++)
		if (row[-1 - (s64)i])
			return;
	class->top &= ~bit_in_word(bit);
	if (class->top)
		return;
	runs->nonempty[c >> 6] &= ~bit_in_word(c);
	if (!runs->nonempty[c >> 6])
		runs->nonempty_sum &= ~(1u << (c >> 6));
}

static __always_inline void class_del(struct kv_runs *runs, u32 c, u32 start)
{
	struct kv_runs_class *class = &runs->class[c];
	u32 g = start >> geo_shift(class);
	u64 *row = class_row(runs, class);
	u64 *word = row + (g >> 6), *sum = row - 1 - (g >> 12);
	u64 left = *word & ~bit_in_word(g);
	u64 left_sum = *sum & ~((u64)!left << ((g >> 6) & 63));

	kv_assert(c < runs->nr_classes);
	*word = left;
	*sum = left_sum;
	kv_assert(class->nr);
	class->nr--;
	if (unlikely(!left_sum))
		class_del_summary(runs, c, g >> 12);
}

static __always_inline void class_add(struct kv_runs *runs, u32 c, u32 start)
{
	struct kv_runs_class *class = &runs->class[c];
	u32 g = start >> geo_shift(class);
	u64 *row = class_row(runs, class), nonempty = runs->nonempty[c >> 6];

	kv_assert(c < runs->nr_classes);
	row[g >> 6] |= bit_in_word(g);
	row[-1 - (s64)(g >> 12)] |= bit_in_word(g >> 6);
	class->top |= bit_in_word(g >> 12 >> geo_top_shift(class));
	class->nr++;
	runs->nonempty[c >> 6] = nonempty | bit_in_word(c);
	if (unlikely(!nonempty))
		runs->nonempty_sum |= 1u << (c >> 6);
}

static __always_inline void run_del(struct kv_runs *runs, u32 start, u32 len)
{
	u32 c = class_of(len);

	kv_assert(len && start + len <= runs->nr_blocks);
	if (unlikely(len >= KV_RUNS_EXACT))
		runs->bin_blocks[c - KV_RUNS_EXACT] -= len;
	class_del(runs, c, start);
}

static __always_inline void run_add(struct kv_runs *runs, u32 start, u32 len)
{
	u32 c = class_of(len);

	if (unlikely(len >= KV_RUNS_EXACT))
		runs->bin_blocks[c - KV_RUNS_EXACT] += len;
	class_add(runs, c, start);
}

/* A run got longer or shorter; most of the time its class bit stays where it is. */
static void run_resize(struct kv_runs *runs, struct kv_run old, struct kv_run new)
{
	u32 c = class_of(old.len), k;

	kv_assert(old.len && new.len);
	if (old.len >= KV_RUNS_EXACT && class_of(new.len) == c) {
		k = class_shift(c);
		if (old.start >> k == new.start >> k) {
			runs->bin_blocks[c - KV_RUNS_EXACT] += new.len - old.len;
			return;
		}
	}
	run_del(runs, old.start, old.len);
	run_add(runs, new.start, new.len);
}

/* ---- groups of a row ---- */

static __always_inline u32 first_group(const struct kv_runs *runs,
				       const struct kv_runs_class *class)
{
	const u64 *row = class_row(runs, class);
	u32 i = kv_lowest64(class->top) << geo_top_shift(class);

	kv_assert(class->nr);
	while (unlikely(!row[-1 - (s64)i]))
		i++;
	i = i * 64 + kv_lowest64(row[-1 - (s64)i]);
	return i * 64 + kv_lowest64(row[i]);
}

/*
 * Remove the first run of class c, which has one, and return its start. As
 * class_del(), but all bits are the lowest of their words, and no branch asks
 * whether the class got empty: best fit eats small classes up all the time.
 */
static __always_inline u32 class_pop(struct kv_runs *runs, u32 c)
{
	struct kv_runs_class *class = &runs->class[c];
	u64 *row = class_row(runs, class), *sum, *word;
	u64 top = class->top, left, left_sum, left_top;
	u32 t = geo_top_shift(class), i = kv_lowest64(top) << t, g;

	kv_assert(c && c < runs->nr_classes);
	while (unlikely(!row[-1 - (s64)i]))
		i++;
	sum = row - 1 - i;
	g = i * 64 + kv_lowest64(*sum);
	word = row + g;
	g = g * 64 + kv_lowest64(*word);
	left = *word & (*word - 1);
	*word = left;
	left_sum = left ? *sum : *sum & (*sum - 1);
	*sum = left_sum;
	kv_assert(class->nr);
	class->nr--;
	if (unlikely(t)) {
		if (unlikely(!left_sum))
			class_del_summary(runs, c, i);
	} else {
		left_top = left_sum ? top : top & (top - 1);
		class->top = left_top;
		left = runs->nonempty[c >> 6] & ~((u64)!left_top << (c & 63));
		runs->nonempty[c >> 6] = left;
		if (unlikely(!left))
			runs->nonempty_sum &= ~(1u << (c >> 6));
	}
	return c == 1 ? g : group_start(runs, class, g);
}

/* ---- taking and giving back ---- */

static __always_inline void map_clear(struct kv_runs *runs, u32 start, u32 n)
{
	s64 byte = start >> 3;

	kv_assert(n && start + n <= runs->nr_blocks);
	if (likely(n <= WINDOW_BITS))
		store_window(runs->map, byte, load_window(runs->map, byte) &
			     ~((bit_in_word(n) - 1) << (start & 7)));
	else
		bits_clear(runs->map, start, start + n - 1);
}

/* Take [start, start + n) out of a free run. */
static void take(struct kv_runs *runs, struct kv_run run, u32 start, u32 n)
{
	const struct kv_run low = { run.start, start - run.start };
	const struct kv_run high = { start + n, run.len - low.len - n };

	kv_assert(start >= run.start && start + n <= run.start + run.len);
	if (high.len)
		run_resize(runs, run, high);
	else
		run_del(runs, run.start, run.len);
	if (low.len)
		run_add(runs, low.start, low.len);
	map_clear(runs, start, n);
	if (run.len >= 64)
		full_clear_range(runs, start, n);
	/* I8 after the run was cut in two, one of which may be empty. */
	if (high.len >= KV_RUNS_EXACT)
		runs->big = high;
	else if (low.len >= KV_RUNS_EXACT)
		runs->big = low;
	else if (runs->big.start == run.start)
		runs->big.len = 0;
	kv_assert(runs->nr_free >= n);
	runs->nr_free -= n;
	runs->nr_runs += (low.len != 0) + (high.len != 0) - 1;
}

/* Give back a range that is known to be used. */
static noinline void give(struct kv_runs *runs, u32 start, u32 n)
{
	struct kv_run run, big = runs->big;
	u32 left, right;

	kv_assert(n && start + n <= runs->nr_blocks);
	left = big.len && big.start + big.len == start ? big.len : free_before(runs, start);
	right = big.len && big.start == start + n ? big.len : free_after(runs, start + n);
	run = (struct kv_run){ start - left, left + n + right };
	bits_set(runs->map, start, start + n - 1);
	if (left)
		run_del(runs, run.start, left);
	if (right)
		run_resize(runs, (struct kv_run){ start + n, right }, run);
	else
		run_add(runs, run.start, run.len);
	if (run.len >= 64)
		full_set_range(runs, run, start, n);
	if (run.len >= KV_RUNS_EXACT)
		runs->big = run;
	runs->nr_free += n;
	runs->nr_runs += 1 - (left != 0) - (right != 0);
}

/* ---- best fit ---- */

/* The best run of a bin for n blocks; lowest among equals. */
static struct kv_run best_of_bin(const struct kv_runs *runs, u32 c, u32 n)
{
	struct kv_run run, best = { 0, 0 };
	u32 pos = 0;

	kv_assert(c < runs->nr_classes);
	if (runs->class[c].nr == 1 && runs->big.len && class_of(runs->big.len) == c)
		return runs->big.len >= n ? runs->big : best;
	for (; kv_runs_next_of_class(runs, c, pos, &run); pos = run.start + run.len) {
		if (run.len < n)
			continue;
		if (!best.len || run.len < best.len)
			best = run;
	}
	return best;
}

/* Best fit where the class of the answer has no closed form for its length. */
static noinline int best_fit_far(const struct kv_runs *runs, u32 n, struct kv_run *run)
{
	const struct kv_runs_class *class;
	u32 c = next_class(runs, class_of(n));

	kv_assert(n && n <= runs->nr_blocks);
	for (; c != KV_RUNS_NONE; c = next_class(runs, c + 1)) {
		class = &runs->class[c];
		if (c < KV_RUNS_EXACT) {
			*run = (struct kv_run){
				group_start(runs, class, first_group(runs, class)), c };
			return 0;
		}
		*run = best_of_bin(runs, c, n);
		if (run->len)
			return 0;
	}
	return -ENOSPC;
}

static noinline u32 alloc_far(struct kv_runs *runs, u32 n)
{
	struct kv_run run;

	if (!n || n > runs->nr_free || best_fit_far(runs, n, &run))
		return KV_RUNS_NONE;
	take(runs, run, run.start, n);
	return run.start;
}

/* Best fit in a class of exact length, which kv_runs_alloc() found. */
static noinline u32 alloc_near(struct kv_runs *runs, u32 n, u32 c)
{
	u32 at = class_pop(runs, c);

	kv_assert(n <= c && c < KV_RUNS_EXACT);
	if (c != n)
		class_add(runs, c - n, at + n);
	map_clear(runs, at, n);
	if (c >= 64)
		full_clear_range(runs, at, n);
	kv_assert(runs->nr_free >= n);
	runs->nr_free -= n;
	runs->nr_runs -= c == n;
	return at;
}

/* Singles mostly meet singles: no remainder, and the group is the block. */
static __always_inline u32 alloc_one(struct kv_runs *runs)
{
	u32 at = class_pop(runs, 1);

	map_clear(runs, at, 1);
	kv_assert(runs->nr_free);
	kv_assert(runs->nr_runs);
	runs->nr_free--;
	runs->nr_runs--;
	return at;
}

/**
 * kv_runs_alloc() - take n blocks from the start of the shortest run they fit
 * @index: the index, untyped as the table of engines wants it: the hot path
 * @n:     blocks wanted, at least 1
 *
 * Lowest address among runs of equal length. Nothing is rounded.
 * Context: the lock of the zone is held.
 * Return: first block; KV_RUNS_NONE if no run is long enough or n is 0.
 */
u32 kv_runs_alloc(void *index, u32 n)
{
	struct kv_runs *runs = index;
	u64 fits;

	if (n == 1 && likely(runs->nonempty[0] & bit_in_word(1)))
		return alloc_one(runs);
	if (unlikely(n - 1 >= KV_RUNS_EXACT - 1))
		return alloc_far(runs, n);
	fits = runs->nonempty[n >> 6] & mask_from(n);
	if (unlikely(!fits))
		return alloc_far(runs, n);
	return alloc_near(runs, n, (n & ~63u) + kv_lowest64(fits));
}

/**
 * kv_runs_alloc_at() - claim an exact place
 * @runs:  the index
 * @start: first block
 * @n:     blocks
 *
 * Used to grow a range in place (its own end, or n blocks before its start).
 * Context: the lock of the zone is held.
 * Return: 0; -EBUSY if a block is used; -EINVAL if the range is not inside.
 */
int kv_runs_alloc_at(struct kv_runs *runs, u32 start, u32 n)
{
	struct kv_run run;
	u32 before;

	if (!n || start >= runs->nr_blocks || n > runs->nr_blocks - start)
		return -EINVAL;
	run.len = free_after(runs, start);
	if (run.len < n)
		return -EBUSY;
	before = free_before(runs, start);
	run.start = start - before;
	run.len += before;
	take(runs, run, start, n);
	return 0;
}

static noinline int free_far(struct kv_runs *runs, u32 start, u32 n)
{
	kv_assert(n && start + n <= runs->nr_blocks);
	if (overlaps_free(runs, start, n))
		return -EINVAL;
	give(runs, start, n);
	return 0;
}

/* Add [start, start + n) to the index together with its free neighbours. */
static noinline int join_near(struct kv_runs *runs, u32 start, u32 n, u32 left, u32 right)
{
	const u32 len = left + n + right;

	kv_assert(left <= start && start + n + right <= runs->nr_blocks);
	if (left)
		class_del(runs, left, start - left);
	if (right)
		class_del(runs, right, start + n);
	class_add(runs, len, start - left);
	runs->nr_runs += 1 - (left != 0) - (right != 0);
	if (len >= 64)
		full_set_range(runs, (struct kv_run){ start - left, len }, start, n);
	return 0;
}

/*
 * Free a range that one load of the map shows, if its neighbours end within
 * sight as well. Most ranges have none.
 */
static __always_inline int free_near(struct kv_runs *runs, u32 start, u32 n)
{
	const u64 here = load_window(runs->map, start >> 3);
	const u64 mask = (bit_in_word(n) - 1) << (start & 7);
	const u64 behind = load_window(runs->map, (s64)(start >> 3) - 7) << (8 - (start & 7));
	const u32 left = 63 - kv_highest64(~behind);
	const u32 right = kv_lowest64(~(here >> (start & 7) >> n) | bit_in_word(63));

	kv_assert(n && n <= WINDOW_BITS);
	if (unlikely(here & mask))
		return -EINVAL;
	if (unlikely(left >= WINDOW_BITS || n + right >= WINDOW_BITS))
		return free_far(runs, start, n);
	store_window(runs->map, start >> 3, here | mask);
	runs->nr_free += n;
	if (left + right)
		return join_near(runs, start, n, left, right);
	class_add(runs, n, start);
	runs->nr_runs++;
	return 0;
}

/**
 * kv_runs_free() - give a range back
 * @runs:  the index
 * @start: first block
 * @n:     blocks
 *
 * Any part of an allocation may be given back, down to single blocks.
 * Context: the lock of the zone is held.
 * Return: 0; -EINVAL if the range is empty, not inside, or a block is free.
 */
int kv_runs_free(struct kv_runs *runs, u32 start, u32 n)
{
	if (unlikely(n - 1 >= runs->nr_blocks || start > runs->nr_blocks - n))
		return -EINVAL;
	if (likely(n <= WINDOW_BITS))
		return free_near(runs, start, n);
	return free_far(runs, start, n);
}

/* ---- batches ---- */

/* Length of the stretch of consecutive ids, upward or downward, at ids[0]. */
static u32 stretch(const u32 *ids, u32 n, u32 *low)
{
	u32 i = 1, step;

	kv_assert(n);
	*low = ids[0];
	if (n == 1)
		return 1;
	step = ids[1] - ids[0];
	if (step + 1 > 2 || !step)
		return 1;
	while (i < n && ids[i] - ids[i - 1] == step)
		i++;
	if (step != 1)
		*low = ids[i - 1];
	return i;
}

/* Mark or unmark the first n ids in the map alone, not in the index. */
static void unmark(struct kv_runs *runs, const u32 *ids, u32 n)
{
	u32 low, len;

	for (; n; ids += len, n -= len) {
		len = stretch(ids, n, &low);
		bits_clear(runs->map, low, low + len - 1);
	}
}

/**
 * kv_runs_free_many() - give single blocks back, all or nothing
 * @runs: the index
 * @ids:  blocks in any order; consecutive ids, either way, cost one range
 * @n:    number of ids, may be 0
 *
 * A first pass marks the ids in the map, so that an id that is given twice in
 * the batch meets its own mark; the marks go before the index sees anything.
 * Context: the lock of the zone is held.
 * Return: 0; -EINVAL if an id is not inside, is free, or occurs twice.
 */
int kv_runs_free_many(struct kv_runs *runs, const u32 *ids, u32 n)
{
	u32 i, low, len;

	for (i = 0; i < n; i += len) {
		len = stretch(ids + i, n - i, &low);
		if (low >= runs->nr_blocks || len > runs->nr_blocks - low ||
		    bits_any(runs->map, low, low + len - 1)) {
			unmark(runs, ids, i);
			return -EINVAL;
		}
		bits_set(runs->map, low, low + len - 1);
	}
	unmark(runs, ids, n);
	for (i = 0; i < n; i += len) {
		len = stretch(ids + i, n - i, &low);
		give(runs, low, len);
	}
	return 0;
}

/**
 * kv_runs_alloc_scattered() - take single blocks where they hurt least
 * @runs: the index
 * @ids:  out: n blocks
 * @n:    blocks wanted
 *
 * Whole runs, the shortest first, so that long runs stay for calls that need
 * them.
 * Context: the lock of the zone is held.
 * Return: 0; -ENOSPC if fewer than n blocks are free; -EINVAL if n is 0.
 */
int kv_runs_alloc_scattered(struct kv_runs *runs, u32 *ids, u32 n)
{
	u32 c, i, start, len;
	struct kv_run run;

	if (!n)
		return -EINVAL;
	if (n > runs->nr_free)
		return -ENOSPC;
	for (; n; n -= len) {
		c = next_class(runs, 1);
		if (likely(c < KV_RUNS_EXACT)) {
			len = min(c, n);
			start = alloc_near(runs, len, c);
		} else {
			best_fit_far(runs, 1, &run);
			len = min(run.len, n);
			start = run.start;
			take(runs, run, start, len);
		}
		for (i = 0; i < len; i++)
			*ids++ = start + i;
	}
	return 0;
}

/* ---- layout ---- */

struct layout {
	size_t map, bins, rows, bytes;
	size_t full[KV_RUNS_FULL_LEVELS];
	u32 nr_full;
	u32 nr_classes;
};

static size_t row_words(u32 nr_blocks, u32 k, size_t *sums)
{
	u32 last = (nr_blocks - 1) >> k;

	kv_assert(nr_blocks && nr_blocks <= KV_RUNS_MAX_BLOCKS);
	*sums = (last >> 12) + 1;
	return *sums + (last >> 6) + 1;
}

static void layout_compute(struct layout *l, u32 nr_blocks)
{
	size_t at = sizeof(struct kv_runs), bits = nr_blocks / 64 + 1, sums;
	u32 c;

	memset(l, 0, sizeof(*l));
	l->nr_classes = class_of(nr_blocks) + 1;
	at += l->nr_classes * sizeof(struct kv_runs_class);
	l->bins = at;
	if (l->nr_classes > KV_RUNS_EXACT)
		at += (l->nr_classes - KV_RUNS_EXACT + 1) / 2 * 8;
	l->map = at + 8;
	at += (nr_blocks / 64 + 3) * (size_t)8;
	do {
		bits = bits / 64 + 1;
		l->full[l->nr_full++] = at;
		at += bits * 8;
	} while (bits > 1);
	l->rows = at;
	for (c = 1; c < l->nr_classes; c++)
		at += row_words(nr_blocks, class_shift(c), &sums) * 8;
	l->bytes = at;
}

/**
 * kv_runs_bytes() - memory that an index needs
 * @nr_blocks: 1 to KV_RUNS_MAX_BLOCKS
 *
 * Return: bytes, 0 if nr_blocks is out of bounds.
 */
size_t kv_runs_bytes(u32 nr_blocks)
{
	struct layout l;

	if (!nr_blocks || nr_blocks > KV_RUNS_MAX_BLOCKS)
		return 0;
	layout_compute(&l, nr_blocks);
	return l.bytes;
}

/* The layout keeps parts aligned to their words. */
static void *part_at(struct kv_runs *runs, size_t offset)
{
	return (char *)runs + offset;
}

/**
 * kv_runs_init() - make an index in which every block is used
 * @runs:      kv_runs_bytes(nr_blocks) bytes, aligned to 64; the caller's to free
 * @nr_blocks: 1 to KV_RUNS_MAX_BLOCKS
 *
 * Blocks come in by kv_runs_free(), so reserved ones are simply never freed.
 * Return: 0; -EINVAL if nr_blocks is out of bounds.
 */
int kv_runs_init(struct kv_runs *runs, u32 nr_blocks)
{
	size_t at, sums, words;
	struct layout l;
	u32 i, c;

	if (!nr_blocks || nr_blocks > KV_RUNS_MAX_BLOCKS)
		return -EINVAL;
	layout_compute(&l, nr_blocks);
	memset(runs, 0, l.bytes);
	runs->nr_blocks = nr_blocks;
	runs->nr_classes = l.nr_classes;
	runs->bytes = l.bytes;
	runs->map = part_at(runs, l.map);
	runs->rows = part_at(runs, l.rows);
	runs->bin_blocks = part_at(runs, l.bins);
	runs->nr_full = l.nr_full;
	for (i = 0; i < l.nr_full; i++)
		runs->full[i] = part_at(runs, l.full[i]);
	for (at = 0, c = 1; c < runs->nr_classes; c++, at += words) {
		u32 k = class_shift(c), t = 0;

		words = row_words(nr_blocks, k, &sums);
		while ((sums - 1) >> 6 >> t)
			t++;
		runs->class[c].geo = (u32)(at + sums) << 8 | t << 5 | k;
	}
	return 0;
}
