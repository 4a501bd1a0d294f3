// SPDX-License-Identifier: Apache-2.0
/*
 * Victims that lie together, or empty pageblocks; see victim.h.
 *
 * Bits by block say which are looked at, so runs are found in the order of addresses without
 * sorting anything. A run ends at the first block that is neither looked at, nor taken in any case,
 * nor free: when anything is evicted at all, everything that is free is taken, too. The number to
 * be taken of runs of each length is a sum over all runs; then they are walked again, and taken.
 *
 * A block is never evicted before one that follows it in its chain, so a pageblock costs more than
 * the entries that lie there. The window has them all: entries are looked at in the order of
 * eviction, and those that follow one came before it. While a pageblock is priced, an entry wanted
 * for it is neither seen nor chosen, so it is counted once.
 */
#include <kv/bits.h>
#include <kv/mem.h>
#include <kv/sort.h>

#include "internal.h"

/* A longer run than this, or one that continues blocks taken anyhow. */
#define LONGEST		(WINDOW_LENGTHS - 1)

static inline u32 nr_pageblocks(const struct window *window)
{
	/* The part of a size at the end is none. */
	return window->size ? window->nr_blocks / window->size : 0;
}

int window_init(struct window *window, u32 nr_blocks)
{
	if (!window->nr)
		return 0;
	window->nr_blocks = nr_blocks;
	window->nr = min(window->nr, max(nr_blocks / 4, 1u));
	window->chosen = kv_alloc_array(KV_WORDS(nr_blocks), sizeof(*window->chosen));
	if (!window->chosen)
		return -ENOMEM;
	if (window->nr <= WINDOW_SORTS)
		return 0;
	window->index = kv_alloc_array(nr_blocks, sizeof(*window->index));
	window->seen = kv_alloc_array(KV_WORDS(nr_blocks), sizeof(*window->seen));
	if (!window->index || !window->seen)
		return -ENOMEM;
	if (!window->size)
		return 0;
	window->heap = kv_alloc_array((size_t)nr_pageblocks(window) + 1, sizeof(*window->heap));
	window->wanted = kv_alloc_array(nr_blocks, sizeof(*window->wanted));
	return window->heap && window->wanted ? 0 : -ENOMEM;
}

void window_exit(struct window *window)
{
	kv_free(window->index);
	kv_free(window->seen);
	kv_free(window->chosen);
	kv_free(window->heap);
	kv_free(window->wanted);
}

u64 window_bytes(const struct window *window)
{
	u64 bitmap_bytes = KV_WORDS(window->nr_blocks) * sizeof(u64);
	u64 nr_indices = window->size ? 2 : 1;

	if (window->nr <= WINDOW_SORTS)
		return window->nr ? bitmap_bytes : 0;
	return window->nr_blocks * nr_indices * sizeof(u32) + 2 * bitmap_bytes +
	       nr_pageblocks(window) * sizeof(*window->heap);
}

static inline bool is_taken_anyhow(const struct kvmm_pool *pool, u32 block)
{
	kv_assert(block < pool->nr_blocks);
	/* Relaxed: blocks that an arena takes or frees meanwhile are missed, or not. */
	return owner_is_free(READ_ONCE(pool->owner[block])) ||
	       kv_has_bit(pool->window.chosen, block);
}

static inline u32 block_at(const struct kvmm_pool *pool, u32 index)
{
	return entry_block(entry_at(pool, index));
}

/* ---- runs ---- */

struct run {
	u32 start;
	u32 end;
	u32 nr;		/* blocks that are looked at */
	u32 length;	/* as in ->quota */
};

/* The first run from @at on in which a block is looked at. */
static bool next_run(const struct kvmm_pool *pool, u32 at, struct run *run)
{
	const struct window *window = &pool->window;
	bool more;

	at = kv_next_bit(window->seen, window->nr_blocks, at);
	if (at == KV_NONE)
		return false;
	*run = (struct run){ .start = at };
	more = at && is_taken_anyhow(pool, at - 1);
	for (; at < window->nr_blocks; at++) {
		bool seen = kv_has_bit(window->seen, at);

		if (!seen && !is_taken_anyhow(pool, at))
			break;
		more |= !seen;
		run->nr += seen;
	}
	run->end = at;
	run->length = more ? LONGEST : min(run->nr, LONGEST - 1);
	return true;
}

/* ---- choosing ---- */

/*
 * Of ->quota, the blocks in runs of each length, @nr: the longest runs go first. The rest then
 * comes from the shortest run that has so many: cutting a longer one would leave another piece.
 */
static void ration(struct window *window, u32 nr)
{
	u32 length = LONGEST, rest = 0, shorter;

	while (length && window->quota[length] <= nr)
		nr -= window->quota[length--];
	if (length && length < LONGEST - 1)
		rest = nr % length;
	for (shorter = rest; shorter < length && !window->quota[shorter]; shorter++)
		;
	memset(window->quota, 0, length * sizeof(*window->quota));
	if (rest && shorter < length) {
		window->quota[shorter] = rest;
		nr -= rest;
	}
	window->quota[length] = nr;
}

/*
 * A run that has to be cut is cut from its end: that is mostly the end of a chain, too. But a run
 * of blocks that are taken anyhow is continued.
 */
static void choose_in(struct kvmm_pool *pool, const struct run *run)
{
	struct window *window = &pool->window;
	u32 *quota = &window->quota[run->length], length = run->end - run->start;
	bool goes_on = run->start && is_taken_anyhow(pool, run->start - 1);

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < length && *quota; i++) {
		u32 at = goes_on ? run->start + i : run->end - 1 - i;

		if (!kv_has_bit(window->seen, at))
			continue;
		kv_set_bit(window->chosen, at);
		kv_clear_bit(window->seen, at);
		--*quota;
	}
}

static void choose(struct kvmm_pool *pool, u32 nr)
{
	struct window *window = &pool->window;
	struct run run;

	kv_assert_held(&pool->order.lock);
	if (!nr)
		return;
	memset(window->quota, 0, sizeof(window->quota));
	for (u32 at = 0; next_run(pool, at, &run); at = run.end)
		window->quota[run.length] += run.nr;
	ration(window, nr);
	for (u32 at = 0; next_run(pool, at, &run); at = run.end)
		choose_in(pool, &run);
}

/* ---- pageblocks ---- */

static void want(struct window *window, u32 index, u32 block, u32 *nr)
{
	kv_clear_bit(window->seen, block);
	window->wanted[(*nr)++] = index;
}

/* Children of @parent in its chain. False: these are more than @max. */
static bool want_children(struct kvmm_pool *pool, u32 parent, u32 max, u32 *nr)
{
	struct window *window = &pool->window;
	const struct order *order = &pool->order;
	u32 kid = order_child(order, parent, KV_NONE);

	kv_assert_held(&pool->order.lock);
	for (; kid != KV_NONE; kid = order_child(order, parent, kid)) {
		u32 block = block_at(pool, kid);

		if (!kv_has_bit(window->seen, block))
			continue;	/* chosen, or wanted already */
		if (*nr == max)
			return false;
		want(window, kid, block, nr);
	}
	return true;
}

static void settle(struct kvmm_pool *pool, u32 nr, u64 *bits)
{
	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr; i++)
		kv_set_bit(bits, block_at(pool, pool->window.wanted[i]));
}

/* All that has to go for the pageblock at @start. How many; 0: it cannot be, or more than @max. */
static u32 want_all(struct kvmm_pool *pool, u32 start, u32 max)
{
	struct window *window = &pool->window;
	u32 nr_there = 0, nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 at = start; at < start + window->size; at++) {
		bool seen = kv_has_bit(window->seen, at);

		if (!seen && !is_taken_anyhow(pool, at))
			return 0;
		nr_there += seen;
	}
	if (!nr_there || nr_there > max)
		return 0;
	for (u32 at = start; nr < nr_there; at++)
		if (kv_has_bit(window->seen, at))
			want(window, owner_index(pool->owner[at]), at, &nr);
	for (u32 i = 0; i < nr; i++) {
		if (want_children(pool, window->wanted[i], max, &nr))
			continue;
		settle(pool, nr, window->seen);
		return 0;
	}
	return nr;
}

/* The cheapest one comes first, of equal ones the lowest: its number in the heap is the last. */
static u32 start_of(const struct window *window, u32 group)
{
	return (nr_pageblocks(window) - 1 - group) * window->size;
}

static u64 price_of(void *arg, u32 group)
{
	struct kvmm_pool *pool = arg;
	u32 nr = want_all(pool, start_of(&pool->window, group), pool->window.left);

	settle(pool, nr, pool->window.seen);
	return nr ? nr : KV_STAYS;
}

/* From ->seen to ->chosen, at most @nr; how many more are to be chosen. */
static u32 choose_pageblocks(struct kvmm_pool *pool, u32 nr)
{
	struct window *window = &pool->window;
	struct kv_cheapest cheapest = { .price_of = price_of, .arg = pool, .heap = window->heap,
					.max = nr_pageblocks(window) };
	u32 end = nr_pageblocks(window) * window->size, at = 0, group;

	window->left = nr;
	while ((at = kv_next_bit(window->seen, end, at)) != KV_NONE) {
		kv_cheapest_put(&cheapest, nr_pageblocks(window) - 1 - at / window->size);
		at = (at / window->size + 1) * window->size;
	}
	while (window->left && (group = kv_cheapest_pop(&cheapest)) != KV_NONE) {
		nr = want_all(pool, start_of(window, group), window->left);
		settle(pool, nr, window->chosen);
		window->left -= nr;
	}
	return window->left;
}

/* ---- looking ---- */

static u32 rank_of(const struct order *order)
{
	return likely(!order->quotas) ? 0 : order->turn.rank;
}

/*
 * @nr, and more of the class of the last of them, and of tenants of its rank: no entry above is
 * touched for the sake of runs. An entry referenced meanwhile is noticed when it is taken.
 */
static u32 look(struct kvmm_pool *pool, u32 nr)
{
	const struct classes *classes = pool->order.classes;
	struct window *window = &pool->window;
	u32 most = min((u64)nr + window->nr, (u64)window->nr_blocks), i, rank = 0, last = nr - 1;

	kv_assert_held(&pool->order.lock);
	window->from = 0;
	for (i = 0; i < most; i++) {
		u32 index = order_peek(&pool->order);

		if (index == KV_NONE)
			break;
		window->index[i] = index;
		if (i >= nr && (rank_of(&pool->order) != rank ||
				class_of(classes, index) !=
				class_of(classes, window->index[last]))) {
			order_unpeek(&pool->order, index);
			break;
		}
		if (rank_of(&pool->order) != rank)
			window->from = i;
		rank = rank_of(&pool->order);
	}
	for (u32 back = i; back-- > 0;)
		order_unpeek(&pool->order, window->index[back]);
	return i;
}

/* Entries of a class below, or of a tenant with an earlier turn, go in any case. How many. */
static u32 mark(struct kvmm_pool *pool, u32 nr, u32 nr_seen)
{
	const struct classes *classes = pool->order.classes;
	struct window *window = &pool->window;
	u32 class = class_of(classes, window->index[nr - 1]), nr_forced = 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr_seen; i++) {
		bool forced = class_of(classes, window->index[i]) != class || i < window->from;

		kv_set_bit(forced ? window->chosen : window->seen,
			   block_at(pool, window->index[i]));
		nr_forced += forced;
	}
	return nr_forced;
}

/* In the order of eviction, so an entry with children that stay is noticed, and stays. */
static void take_chosen(struct kvmm_pool *pool, u32 nr_seen, struct victims *victims)
{
	struct window *window = &pool->window;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr_seen; i++) {
		u32 block = block_at(pool, window->index[i]);
		bool chosen = kv_has_bit(window->chosen, block);

		kv_clear_bit(window->seen, block);
		kv_clear_bit(window->chosen, block);
		if (chosen && order_take(&pool->order, window->index[i]))
			victims_add(pool, victims, window->index[i]);
	}
}

void window_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	u32 nr_wanted = nr - victims->nr;
	u32 nr_seen = look(pool, nr_wanted), nr_left;

	kv_assert_held(&pool->order.lock);
	if (nr_seen <= nr_wanted)
		return;
	nr_left = nr_wanted - mark(pool, nr_wanted, nr_seen);
	if (pool->window.size)
		nr_left = choose_pageblocks(pool, nr_left);
	choose(pool, nr_left);
	take_chosen(pool, nr_seen, victims);
}

/* ---- sorting ---- */

/* A bit a block costs less than comparisons if there are blocks in so many words. */
#define WORDS_A_BLOCK	4u

#define FEW		128u	/* are sorted on the stack */
#define LEAD_BITS	7u

static bool lies_later(const kvmm_mut_t *one, const kvmm_mut_t *next, const struct kvmm_pool *pool)
{
	return block_at(pool, one->index) > block_at(pool, next->index);
}

static void turn(u64 *place, u32 nr)
{
	for (u32 i = 0; i < nr / 2; i++) {
		u64 moved = place[i];

		place[i] = place[nr - 1 - i];
		place[nr - 1 - i] = moved;
	}
}

/* How many are in order, if need be once they are turned: chains are evicted from their ends. */
static u32 put_row(u64 *place, u32 nr)
{
	bool turned = nr > 1 && place[1] < place[0];
	u32 end = 1;

	while (end < nr && (place[end] < place[end - 1]) == turned)
		end++;
	if (turned)
		turn(place, end);
	return end;
}

/* Two rows, of which the second begins at @mid: the rest of one chain, and the start of another. */
static void merge(u64 *to, const u64 *from, u32 mid, u32 nr)
{
	u32 one = 0, two = mid;

	for (u32 i = 0; i < nr; i++) {
		bool first = two == nr || (one < mid && from[one] < from[two]);

		to[i] = from[first ? one++ : two++];
	}
}

/* By leading bits; then neighbours are compared, of which few are the wrong way round. */
static void sort_wild(u64 *to, const u64 *from, u32 nr)
{
	u64 first = from[0], last = first;
	u8 end[BIT(LEAD_BITS)] = { 0 };
	u32 shift, k;

	for (u32 i = 1; i < nr; i++) {
		first = min(first, from[i]);
		last = max(last, from[i]);
	}
	shift = kv_log2(last - first);
	shift -= min(shift, LEAD_BITS - 1);
	for (u32 i = 0; i < nr; i++)
		end[(from[i] - first) >> shift]++;
	for (u32 lead = 1; lead < BIT(LEAD_BITS); lead++)
		end[lead] += end[lead - 1];
	for (u32 i = nr; i-- > 0;)
		to[--end[(from[i] - first) >> shift]] = from[i];
	for (u32 i = 1; i < nr; i++) {
		u64 moved = to[i];

		for (k = i; k && to[k - 1] > moved; k--)
			to[k] = to[k - 1];
		to[k] = moved;
	}
}

static void sort_few(const struct kvmm_pool *pool, kvmm_mut_t *blocks, u32 nr)
{
	u64 place[2][FEW];	/* | block | number in @was | */
	kvmm_mut_t was[FEW];
	u32 mid;

	kv_assert(nr && nr <= FEW);
	for (u32 i = 0; i < nr; i++) {
		was[i] = blocks[i];
		place[0][i] = (u64)block_at(pool, was[i].index) << 32 | i;
	}
	mid = put_row(place[0], nr);
	if (mid == nr)
		memcpy(place[1], place[0], nr * sizeof(place[0][0]));
	else if (mid + put_row(place[0] + mid, nr - mid) == nr)
		merge(place[1], place[0], mid, nr);
	else
		sort_wild(place[1], place[0], nr);
	for (u32 i = 0; i < nr; i++)
		blocks[i] = was[(u32)place[1][i]];
}

void window_sort(struct kvmm_pool *pool, kvmm_mut_t *blocks, u32 nr)
{
	struct window *window = &pool->window;
	u32 first = KV_NONE, last = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (likely(nr <= FEW)) {
		sort_few(pool, blocks, nr);
		return;
	}
	for (u32 i = 0; i < nr; i++) {
		u32 block = block_at(pool, blocks[i].index);

		first = min(first, block);
		last = max(last, block);
	}
	if ((last - first) / KV_WORD_BITS > (u64)nr * WORDS_A_BLOCK) {
		kv_sort(blocks, nr, lies_later, pool);
		return;
	}
	for (u32 i = 0; i < nr; i++)
		kv_set_bit(window->chosen, block_at(pool, blocks[i].index));
	for (u32 i = 0, at = first; i < nr; i++, at++) {
		struct kv_handle handle;

		at = kv_next_bit(window->chosen, window->nr_blocks, at);
		handle = entry_handle(pool, owner_index(pool->owner[at]));
		blocks[i] = (kvmm_mut_t){ handle.index, handle.gen };
		kv_clear_bit(window->chosen, at);
	}
}
