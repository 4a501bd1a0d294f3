// SPDX-License-Identifier: Apache-2.0
/* The binary heap of heap.h. */
#include <stdlib.h>
#include <string.h>

#include "heap.h"

static bool before(struct event a, struct event b)
{
	return a.time < b.time || (a.time == b.time && a.index < b.index);
}

void heap_push(struct heap *heap, u64 time, u32 index)
{
	struct event event = { time, index };
	u32 i, parent;

	if (heap->nr == heap->cap) {
		heap->cap = heap->cap ? heap->cap * 2 : 256;
		heap->event = must_resize(heap->event, heap->cap * sizeof(event));
	}
	for (i = heap->nr++; i; i = parent) {
		parent = (i - 1) / 2;
		if (!before(event, heap->event[parent]))
			break;
		heap->event[i] = heap->event[parent];
	}
	heap->event[i] = event;
}

struct event heap_pop(struct heap *heap)
{
	struct event top = heap->event[0], last = heap->event[--heap->nr];
	u32 i = 0, child;

	for (child = 1; child < heap->nr; child = 2 * i + 1) {
		if (child + 1 < heap->nr && before(heap->event[child + 1], heap->event[child]))
			child++;
		if (!before(heap->event[child], last))
			break;
		heap->event[i] = heap->event[child];
		i = child;
	}
	heap->event[i] = last;
	return top;
}

void heap_exit(struct heap *heap)
{
	free(heap->event);
	memset(heap, 0, sizeof(*heap));
}
