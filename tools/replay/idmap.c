// SPDX-License-Identifier: Apache-2.0
/* The map of idmap.h: open addressing, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "idmap.h"

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
