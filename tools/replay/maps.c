// SPDX-License-Identifier: Apache-2.0
/* The heap of maps.h, and its map: open addressing, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "maps.h"

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

/* ---- the map ---- */

static struct idmap_slot *probe(struct idmap_slot *slot, u64 mask, u64 name)
{
	u64 i = mix64(name) & mask;

	while (slot[i].used && slot[i].name != name)
		i = (i + 1) & mask;
	return &slot[i];
}

static void idmap_grow(struct idmap *map)
{
	u64 cap = map->slot ? (map->mask + 1) * 2 : 1024;
	struct idmap_slot *slot = must_alloc(cap * sizeof(*slot));

	for (u64 i = 0; map->slot && i <= map->mask; i++)
		if (map->slot[i].used)
			*probe(slot, cap - 1, map->slot[i].name) = map->slot[i];
	free(map->slot);
	map->slot = slot;
	map->mask = cap - 1;
}

u32 *idmap_get(struct idmap *map, u64 name, bool *found)
{
	struct idmap_slot *slot;

	if (!map->slot || map->nr * 2 > map->mask)
		idmap_grow(map);
	slot = probe(map->slot, map->mask, name);
	*found = slot->used;
	if (!slot->used) {
		slot->name = name;
		slot->used = true;
		map->nr++;
	}
	return &slot->value;
}

u32 idmap_find(const struct idmap *map, u64 name)
{
	return map->slot ? probe(map->slot, map->mask, name)->value : 0;
}

void idmap_exit(struct idmap *map)
{
	free(map->slot);
	memset(map, 0, sizeof(*map));
}
