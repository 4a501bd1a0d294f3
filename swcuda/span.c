// SPDX-License-Identifier: Apache-2.0
/* Sets of address ranges, and the free space of an address space. */
#include "internal.h"

static u64 end_of(const struct sw_span *span)
{
	return span->addr + span->bytes;
}

u32 sw_span_after(const struct sw_spans *set, u64 addr)
{
	u32 low = 0, high = set->nr;

	while (low < high) {
		u32 mid = (low + high) / 2;

		if (end_of(set->at[mid]) <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct sw_span *sw_span_overlap(const struct sw_spans *set, u64 addr, u64 bytes)
{
	u32 i = sw_span_after(set, addr);

	return i < set->nr && set->at[i]->addr < addr + bytes ? set->at[i] : NULL;
}

struct sw_span *sw_span_at(const struct sw_spans *set, u64 addr)
{
	return sw_span_overlap(set, addr, 1);
}

int sw_span_add(struct sw_spans *set, struct sw_span *span)
{
	u32 i = sw_span_after(set, span->addr);

	if (set->nr == set->room) {
		u32 room = set->room * 2 + 16;
		struct sw_span **at = realloc(set->at, room * sizeof(*at));

		if (!at)
			return -ENOMEM;
		set->at = at;
		set->room = room;
	}
	memmove(set->at + i + 1, set->at + i, (set->nr - i) * sizeof(*set->at));
	set->at[i] = span;
	set->nr++;
	return 0;
}

void sw_span_del(struct sw_spans *set, struct sw_span *span)
{
	u32 i = sw_span_after(set, span->addr);

	set->nr--;
	memmove(set->at + i, set->at + i + 1, (set->nr - i) * sizeof(*set->at));
}

static int add_free(struct sw_space *space, u64 addr, u64 bytes)
{
	struct sw_span *span = malloc(sizeof(*span));

	if (!span)
		return -ENOMEM;
	*span = (struct sw_span){ .addr = addr, .bytes = bytes };
	if (sw_span_add(&space->free, span)) {
		free(span);
		return -ENOMEM;
	}
	return 0;
}

static void del_free(struct sw_space *space, struct sw_span *span)
{
	sw_span_del(&space->free, span);
	free(span);
}

int sw_space_init(struct sw_space *space, u64 addr, u64 bytes)
{
	*space = (struct sw_space){ .nr_free = bytes };
	return add_free(space, addr, bytes);
}

void sw_space_exit(struct sw_space *space)
{
	for (u32 i = 0; i < space->free.nr; i++)
		free(space->free.at[i]);
	free(space->free.at);
	*space = (struct sw_space){ 0 };
}

/* Cuts [addr, addr + bytes) out of a free span that contains it. */
static int cut(struct sw_space *space, struct sw_span *span, u64 addr, u64 bytes)
{
	u64 end = end_of(span), whole = span->bytes;

	if (span->addr == addr && whole == bytes) {
		del_free(space, span);
	} else if (span->addr == addr) {
		span->addr += bytes;
		span->bytes -= bytes;
	} else {
		/* Shorter first: the rest has to find its place behind it. */
		span->bytes = addr - span->addr;
		if (addr + bytes < end && add_free(space, addr + bytes, end - addr - bytes)) {
			span->bytes = whole;
			return -ENOMEM;
		}
	}
	space->nr_free -= bytes;
	return 0;
}

int sw_space_take(struct sw_space *space, u64 bytes, u64 align, u64 *addr)
{
	for (u32 i = 0; i < space->free.nr; i++) {
		struct sw_span *span = space->free.at[i];
		u64 start = kv_align_up(span->addr, align);

		if (start < span->addr || start + bytes < start || start + bytes > end_of(span))
			continue;
		*addr = start;
		return cut(space, span, start, bytes);
	}
	return -ENOSPC;
}

/* Without memory for a span the room is lost: it is address space, there is plenty. */
void sw_space_give(struct sw_space *space, u64 addr, u64 bytes)
{
	u32 i = sw_span_after(&space->free, addr);
	struct sw_span *next = i < space->free.nr ? space->free.at[i] : NULL;
	struct sw_span *prev = i ? space->free.at[i - 1] : NULL;

	space->nr_free += bytes;
	if (next && next->addr == addr + bytes) {
		bytes += next->bytes;
		del_free(space, next);
	}
	if (prev && end_of(prev) == addr)
		prev->bytes += bytes;
	else
		add_free(space, addr, bytes);
}
