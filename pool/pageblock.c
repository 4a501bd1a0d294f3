// SPDX-License-Identifier: Apache-2.0
/*
 * Victims that empty pageblocks; see pageblock.h.
 *
 * A block is never evicted before one that follows it in its chain, so a pageblock costs more than
 * who lies there. The window has them all: who is looked at comes in the order of eviction, and
 * whoever follows it came before. Who is wanted for the pageblock under consideration is neither
 * seen nor chosen, so it is counted once; if that is too much, all are seen again.
 */
#include <kv/mem.h>

#include "window.h"

static u32 nr_pageblocks(const struct pageblocks *pageblocks, u32 nr_blocks)
{
	return nr_blocks / pageblocks->size;	/* without what is left at the end */
}

int pageblocks_init(struct pageblocks *pageblocks, u32 nr_blocks)
{
	if (!pageblocks->size)
		return 0;
	pageblocks->next = kv_alloc_array((size_t)nr_pageblocks(pageblocks, nr_blocks) + 1,
					  sizeof(*pageblocks->next));
	pageblocks->wanted = kv_alloc_array(nr_blocks, sizeof(*pageblocks->wanted));
	return pageblocks->next && pageblocks->wanted ? 0 : -ENOMEM;
}

void pageblocks_exit(struct pageblocks *pageblocks)
{
	kv_free(pageblocks->next);
	kv_free(pageblocks->wanted);
}

u64 pageblocks_bytes(const struct pageblocks *pageblocks, u32 nr_blocks)
{
	if (!pageblocks->size)
		return 0;
	return (nr_pageblocks(pageblocks, nr_blocks) + 1ull) * sizeof(*pageblocks->next) +
	       (u64)nr_blocks * sizeof(*pageblocks->wanted);
}

/* ---- what one costs ---- */

/* Who is looked at there; 0: nobody, or somebody else is there, too. */
static u32 nr_in_the_way(const struct kvmm_pool *pool, u32 start)
{
	const struct window *window = &pool->window;
	u32 end = start + window->pageblocks.size, nr = 0;

	for (u32 at = start; at < end; at++) {
		bool seen = has_bit(window->seen, at);

		if (!seen && !is_taken_anyhow(pool, at))
			return 0;
		nr += seen;
	}
	return nr;
}

static void want(struct window *window, u32 index, u32 block, u32 *nr)
{
	clear_bit(window->seen, block);
	window->pageblocks.wanted[(*nr)++] = index;
}

/* What follows @parent in its chain. False: these are more than @max. */
static bool want_children(struct kvmm_pool *pool, u32 parent, u32 max, u32 *nr)
{
	struct window *window = &pool->window;
	const struct order *order = &pool->order;
	u32 kid = order_child(order, parent, KV_NONE);

	for (; kid != KV_NONE; kid = order_child(order, parent, kid)) {
		u32 block = entry_block(entry_at(pool, kid));

		if (!has_bit(window->seen, block))
			continue;	/* chosen, or wanted already */
		if (*nr == max)
			return false;
		want(window, kid, block, nr);
	}
	return true;
}

static void settle(struct kvmm_pool *pool, u32 nr, u64 *bits)
{
	for (u32 i = 0; i < nr; i++)
		set_bit(bits, entry_block(entry_at(pool, pool->window.pageblocks.wanted[i])));
}

/* All that has to go for the pageblock at @start. How many; 0: it cannot be, or more than @max. */
static u32 want_all(struct kvmm_pool *pool, u32 start, u32 max)
{
	struct window *window = &pool->window;
	u32 nr_there = nr_in_the_way(pool, start), nr = 0;

	if (!nr_there || nr_there > max)
		return 0;
	for (u32 at = start; nr < nr_there; at++)
		if (has_bit(window->seen, at))
			want(window, owner_index(pool->owner[at]), at, &nr);
	for (u32 i = 0; i < nr; i++) {
		if (want_children(pool, window->pageblocks.wanted[i], max, &nr))
			continue;
		settle(pool, nr, window->seen);
		return 0;
	}
	return nr;
}

/* ---- cheapest first ---- */

static void line_up(struct pageblocks *pageblocks, u32 pageblock, u32 price)
{
	price = min(price, PAGEBLOCK_PRICES - 1);
	pageblocks->next[pageblock] = KV_NONE;
	if (pageblocks->first[price] == KV_NONE)
		pageblocks->first[price] = pageblock;
	else
		pageblocks->next[pageblocks->last[price]] = pageblock;
	pageblocks->last[price] = pageblock;
}

static void line_up_all(struct kvmm_pool *pool, u32 max)
{
	struct window *window = &pool->window;
	struct pageblocks *pageblocks = &window->pageblocks;
	u32 nr = nr_pageblocks(pageblocks, window->nr_blocks) * pageblocks->size, at = 0;

	memset(pageblocks->first, 0xff, sizeof(pageblocks->first));	/* KV_NONE */
	while ((at = next_bit(window->seen, nr, at)) != KV_NONE) {
		u32 start = at & ~(pageblocks->size - 1), price = want_all(pool, start, max);

		settle(pool, price, window->seen);
		if (price)
			line_up(pageblocks, start / pageblocks->size, price);
		at = start + pageblocks->size;
	}
}

u32 pageblocks_choose(struct kvmm_pool *pool, u32 nr)
{
	struct window *window = &pool->window;
	struct pageblocks *pageblocks = &window->pageblocks;

	line_up_all(pool, nr);
	for (u32 price = 1; nr && price < PAGEBLOCK_PRICES; price++) {
		u32 at = pageblocks->first[price];

		for (; nr && at != KV_NONE; at = pageblocks->next[at]) {
			u32 nr_wanted = want_all(pool, at * pageblocks->size, nr);

			settle(pool, nr_wanted, window->chosen);
			nr -= nr_wanted;
		}
	}
	return nr;
}
