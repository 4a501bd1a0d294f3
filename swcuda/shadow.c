// SPDX-License-Identifier: Apache-2.0
/*
 * Shadow memory: exact to the byte, so that neighbours never look like a race.
 *
 * Memory is cut into pages of 64 KiB; each keeps a sorted list of cells, of which one covers all
 * bytes with the same past. An access makes new cells of those that it touches.
 */
#include "shadow.h"

#define PAGE_SHIFT	16
#define NR_BUCKETS	BIT(15)

struct page {
	u64 number;
	struct page *next;		/* in the same bucket */
	struct sw_cell *cell;
	u32 nr, room;
};

static struct page *buckets[NR_BUCKETS];

static struct page **bucket_of(u64 number)
{
	return &buckets[(number * 0x9e3779b97f4a7c15ull) >> 49];
}

static struct page *find_page(u64 number)
{
	struct page *page = *bucket_of(number);

	while (page && page->number != number)
		page = page->next;
	return page;
}

static struct page *get_page(u64 number)
{
	struct page **bucket = bucket_of(number);
	struct page *page = find_page(number);

	if (page)
		return page;
	page = calloc(1, sizeof(*page));
	if (!page)
		return NULL;
	page->number = number;
	page->next = *bucket;
	*bucket = page;
	return page;
}

/* ---- Lists of cells ---- */

struct list {
	struct sw_cell *cell;
	u32 nr;
};

static bool same_past(const struct sw_cell *a, const struct sw_cell *b)
{
	return a->nr_reads == b->nr_reads &&
	       a->write.seq == b->write.seq && a->write.slot == b->write.slot &&
	       a->write.time == b->write.time && a->write.what == b->write.what &&
	       !memcmp(a->read, b->read, a->nr_reads * sizeof(*a->read));
}

/* Bytes [start, end) with the past of @cell. */
static void add(struct list *list, const struct sw_cell *cell, u32 start, u32 end)
{
	struct sw_cell *last = list->nr ? &list->cell[list->nr - 1] : NULL;

	if (start >= end)
		return;
	if (last && last->end == start && same_past(last, cell)) {
		last->end = end;
		return;
	}
	list->cell[list->nr] = *cell;
	list->cell[list->nr].start = start;
	list->cell[list->nr].end = end;
	list->nr++;
}

/* The same with the access on top. */
static void add_new(struct list *list, const struct sw_cell *cell, u32 start, u32 end,
		    const struct sw_look *look)
{
	struct sw_cell fresh = *cell;

	sw_race_note(&fresh, look);
	add(list, &fresh, start, end);
}

static const struct sw_cell blank;

/* Goes over the old cells [first, last) once; @look NULL: forget instead. */
static void rebuild(const struct page *page, u32 first, u32 last, struct list *list, u32 from,
		    u32 to, const struct sw_look *look)
{
	u32 done = from;		/* bytes of [from, to) that are dealt with */

	for (u32 i = first; i < last; i++) {
		const struct sw_cell *cell = &page->cell[i];
		u32 start = max(cell->start, from), end = min(cell->end, to);

		add(list, cell, cell->start, min(cell->end, from));
		if (start < end && look) {
			struct sw_cell part = *cell;

			part.start = start;
			part.end = end;
			add_new(list, &blank, done, start, look);
			sw_race_check(&part, look, (page->number << PAGE_SHIFT) + start);
			add_new(list, cell, start, end, look);
			done = end;
		}
		if (cell->end > to) {
			if (look && done < to)
				add_new(list, &blank, done, to, look);
			done = to;
			add(list, cell, max(cell->start, to), cell->end);
		}
	}
	if (look)
		add_new(list, &blank, done, to, look);
}

/* The first cell that ends at @from or behind it. */
static u32 first_touched(const struct page *page, u32 from)
{
	u32 low = 0, high = page->nr;

	while (low < high) {
		u32 mid = (low + high) / 2;

		if (page->cell[mid].end < from)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool make_room(struct sw_cell **cell, u32 *room, u32 nr)
{
	struct sw_cell *new;

	if (nr <= *room)
		return true;
	new = realloc(*cell, 2 * nr * sizeof(*new));
	if (!new)
		return false;
	*cell = new;
	*room = 2 * nr;
	return true;
}

static struct sw_cell *scratch;
static u32 scratch_room;

/* Puts the list in the place of [first, last). */
static void splice(struct page *page, u32 first, u32 last, const struct list *list)
{
	u32 nr = page->nr - (last - first) + list->nr;

	if (!make_room(&page->cell, &page->room, nr))
		return;
	memmove(page->cell + first + list->nr, page->cell + last,
		(page->nr - last) * sizeof(*page->cell));
	memcpy(page->cell + first, list->cell, list->nr * sizeof(*page->cell));
	page->nr = nr;
}

/* Without memory for the list the access is not remembered: a race may be missed. */
static void change(struct page *page, u32 from, u32 to, const struct sw_look *look)
{
	u32 first = first_touched(page, from), last = first;
	struct list list = { 0 };

	while (last < page->nr && page->cell[last].start <= to)
		last++;
	if (!make_room(&scratch, &scratch_room, 2 * (last - first) + 3))
		return;
	list.cell = scratch;
	rebuild(page, first, last, &list, from, to, look);
	splice(page, first, last, &list);
}

static void for_each_page(u64 place, u64 bytes, const struct sw_look *look)
{
	u64 size = 1ull << PAGE_SHIFT;

	while (bytes) {
		u32 from = place & (size - 1), nr = min(bytes, size - from);
		struct page *page = look ? get_page(place >> PAGE_SHIFT) :
				    find_page(place >> PAGE_SHIFT);

		if (page)
			change(page, from, from + nr, look);
		place += nr;
		bytes -= nr;
	}
}

void sw_shadow_look(u64 place, u64 bytes, const struct sw_look *look)
{
	for_each_page(place, bytes, look);
}

void sw_race_forget(u64 place, u64 bytes)
{
	for_each_page(place, bytes, NULL);
}

void sw_shadow_exit(void)
{
	free(scratch);
	scratch = NULL;
	scratch_room = 0;
	for (u32 i = 0; i < NR_BUCKETS; i++) {
		while (buckets[i]) {
			struct page *page = buckets[i];

			buckets[i] = page->next;
			free(page->cell);
			free(page);
		}
	}
}
