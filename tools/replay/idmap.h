/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from a 64-bit name to a number below 2^32 - 1; nothing is ever removed. */
#ifndef REPLAY_IDMAP_H
#define REPLAY_IDMAP_H

#include "common.h"

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

#endif /* REPLAY_IDMAP_H */
