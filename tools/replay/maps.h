/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of times and a map of names. */
#ifndef REPLAY_MAPS_H
#define REPLAY_MAPS_H

#include "common.h"

/* ---- a binary heap of (time, index): earliest first, lowest index among equals ---- */

struct event {
	u64 time;
	u32 index;
};

struct heap {
	struct event *event;
	u32 nr;
	u32 cap;
};

void heap_push(struct heap *heap, u64 time, u32 index);

/** heap_pop() - remove the first; there must be one */
struct event heap_pop(struct heap *heap);

void heap_exit(struct heap *heap);

/* ---- a hash map from a 64-bit name to a number below 2^32 - 1; nothing is ever removed ---- */

struct idmap_slot {
	u64 name;
	u32 value;
	bool used;
};

struct idmap {
	struct idmap_slot *slot;
	u64 mask;
	u64 nr;
};

/**
 * idmap_get() - where the value of @name is kept, until the next call
 * @found: was it there? If not it is now, with value 0.
 */
u32 *idmap_get(struct idmap *map, u64 name, bool *found);

/* The value of @name, or 0. */
u32 idmap_find(const struct idmap *map, u64 name);

void idmap_exit(struct idmap *map);

#endif /* REPLAY_MAPS_H */
