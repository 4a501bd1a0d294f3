// SPDX-License-Identifier: Apache-2.0
/*
 * Run-aware victims; see victim.h.
 *
 * Bits by block say who is looked at, so runs are found in the order of addresses without sorting
 * anything. A run ends at the first block that is neither looked at, nor taken in any case, nor
 * free: when anything is evicted at all, everything that is free is taken, too. What is to be taken
 * of runs of each length is a sum over all runs; then they are walked again, and taken.
 */
#include <kv/mem.h>

#include "window.h"

/* A longer run than this, or one that goes on with what is taken anyhow. */
#define LONGEST		(WINDOW_LENGTHS - 1)

int window_init(struct window *window, u32 nr_blocks)
{
	if (!window->nr)
		return 0;
	window->nr_blocks = nr_blocks;
	window->nr = min(window->nr, max(nr_blocks / 4, 1u));
	window->index = kv_alloc_array(nr_blocks, sizeof(*window->index));
	window->seen = kv_alloc_array(KV_WORDS(nr_blocks), sizeof(*window->seen));
	window->chosen = kv_alloc_array(KV_WORDS(nr_blocks), sizeof(*window->chosen));
	if (!window->index || !window->seen || !window->chosen)
		return -ENOMEM;
	return pageblocks_init(&window->pageblocks, nr_blocks);
}

void window_exit(struct window *window)
{
	kv_free(window->index);
	kv_free(window->seen);
	kv_free(window->chosen);
	pageblocks_exit(&window->pageblocks);
}

u64 window_bytes(const struct window *window)
{
	u64 words = KV_WORDS(window->nr_blocks);

	return window->nr_blocks * sizeof(*window->index) + 2 * words * sizeof(*window->seen) +
	       pageblocks_bytes(&window->pageblocks, window->nr_blocks);
}

/* ---- runs ---- */

struct run {
	u32 start;
	u32 end;
	u32 nr;		/* who is looked at */
	u32 length;	/* as in ->quota */
};

/* The first run with somebody in it from @at on. */
static bool next_run(const struct kvmm_pool *pool, u32 at, struct run *run)
{
	const struct window *window = &pool->window;
	bool more;

	at = next_bit(window->seen, window->nr_blocks, at);
	if (at == KV_NONE)
		return false;
	*run = (struct run){ .start = at };
	more = at && is_taken_anyhow(pool, at - 1);
	for (; at < window->nr_blocks; at++) {
		bool seen = has_bit(window->seen, at);

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

/* How many blocks there are in runs of each length. */
static void sum_up(struct kvmm_pool *pool)
{
	struct window *window = &pool->window;
	struct run run;

	memset(window->quota, 0, sizeof(window->quota));
	for (u32 at = 0; next_run(pool, at, &run); at = run.end)
		window->quota[run.length] += run.nr;
}

/*
 * Longest first, until @nr are found. What is left then comes from the shortest run that has so
 * many: cutting a longer one would leave another piece.
 */
static void ration(struct window *window, u32 nr)
{
	u32 length = LONGEST, rest, whole;

	while (length && window->quota[length] <= nr)
		nr -= window->quota[length--];
	whole = length < LONGEST - 1 && length ? nr / length * length : nr;
	rest = nr - whole;
	for (u32 shorter = rest; rest && shorter < length; shorter++) {
		if (!window->quota[shorter])
			continue;
		memset(window->quota, 0, length * sizeof(*window->quota));
		window->quota[shorter] = rest;
		window->quota[length] = whole;
		return;
	}
	memset(window->quota, 0, length * sizeof(*window->quota));
	window->quota[length] = nr;
}

static void choose_one(struct window *window, u32 at, u32 *quota)
{
	if (!*quota || !has_bit(window->seen, at))
		return;
	set_bit(window->chosen, at);
	clear_bit(window->seen, at);
	--*quota;
}

/*
 * What has to be cut is cut from its end: that is mostly the end of a chain, too. But what is taken
 * anyhow is continued.
 */
static void choose_in(struct kvmm_pool *pool, const struct run *run)
{
	struct window *window = &pool->window;
	u32 *quota = &window->quota[run->length];
	bool goes_on = run->start && is_taken_anyhow(pool, run->start - 1);

	for (u32 at = run->start; goes_on && at < run->end; at++)
		choose_one(window, at, quota);
	for (u32 at = run->end; !goes_on && at-- > run->start;)
		choose_one(window, at, quota);
}

static void choose(struct kvmm_pool *pool, u32 nr)
{
	struct window *window = &pool->window;
	struct run run;

	if (!nr)
		return;
	sum_up(pool);
	ration(window, nr);
	for (u32 at = 0; next_run(pool, at, &run); at = run.end)
		choose_in(pool, &run);
}

/* ---- looking ---- */

static u32 block_at(const struct kvmm_pool *pool, u32 i)
{
	return entry_block(entry_at(pool, pool->window.index[i]));
}

/* Not of the class of @last, or the turn of other tenants, whose rank is not @rank. */
static bool is_above(const struct kvmm_pool *pool, u32 i, u32 last, u32 rank)
{
	const u32 *index = pool->window.index;

	return class_of(pool->order.classes, index[i]) !=
	       class_of(pool->order.classes, index[last]) ||
	       quota_rank(pool->order.quotas) != rank;
}

/*
 * @nr, and more of the class of the last of them, and of tenants of its rank: nobody above is
 * touched for the sake of runs.
 * Who is referenced meanwhile is noticed when it is taken.
 */
static u32 look(struct kvmm_pool *pool, u32 nr)
{
	struct window *window = &pool->window;
	u32 most = min((u64)nr + window->nr, (u64)window->nr_blocks), i, rank = 0;

	window->from = 0;
	for (i = 0; i < most; i++) {
		u32 index = order_peek(&pool->order);

		if (index == KV_NONE)
			break;
		window->index[i] = index;
		if (i >= nr && is_above(pool, i, nr - 1, rank)) {
			order_unpeek(&pool->order, index);
			break;
		}
		if (quota_rank(pool->order.quotas) != rank)
			window->from = i;
		rank = quota_rank(pool->order.quotas);
	}
	for (u32 back = i; back-- > 0;)
		order_unpeek(&pool->order, window->index[back]);
	return i;
}

/* Who is of a class below, or whose turn comes before, has to go in any case. How many. */
static u32 mark(struct kvmm_pool *pool, u32 nr, u32 nr_seen)
{
	const struct classes *classes = pool->order.classes;
	struct window *window = &pool->window;
	u32 class = class_of(classes, window->index[nr - 1]), nr_forced = 0;

	for (u32 i = 0; i < nr_seen; i++) {
		bool forced = class_of(classes, window->index[i]) != class || i < window->from;

		set_bit(forced ? window->chosen : window->seen, block_at(pool, i));
		nr_forced += forced;
	}
	return nr_forced;
}

/* In the order of eviction, so who has children that stay is noticed, and stays. */
static void take_chosen(struct kvmm_pool *pool, u32 nr_seen, struct victims *victims)
{
	struct window *window = &pool->window;

	for (u32 i = 0; i < nr_seen; i++) {
		u32 block = block_at(pool, i);
		bool chosen = has_bit(window->chosen, block);

		clear_bit(window->seen, block);
		clear_bit(window->chosen, block);
		if (chosen && order_take(&pool->order, window->index[i]))
			victims_add(pool, victims, window->index[i]);
	}
}

void window_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	u32 nr_wanted = nr - victims->nr;
	u32 nr_seen = look(pool, nr_wanted), nr_left;

	if (nr_seen <= nr_wanted)
		return;
	nr_left = nr_wanted - mark(pool, nr_wanted, nr_seen);
	if (pool->window.pageblocks.size)
		nr_left = pageblocks_choose(pool, nr_left);
	choose(pool, nr_left);
	take_chosen(pool, nr_seen, victims);
}

/* ---- sorting ---- */

void window_sort(struct kvmm_pool *pool, kvmm_mut_t *blocks, u32 nr)
{
	struct window *window = &pool->window;
	u32 at = 0;

	for (u32 i = 0; i < nr; i++)
		set_bit(window->chosen, entry_block(entry_at(pool, blocks[i].index)));
	for (u32 i = 0; i < nr; i++, at++) {
		struct kv_handle handle;

		at = next_bit(window->chosen, window->nr_blocks, at);
		handle = entry_handle(pool, owner_index(pool->owner[at]));
		blocks[i] = (kvmm_mut_t){ handle.index, handle.gen };
		clear_bit(window->chosen, at);
	}
}
