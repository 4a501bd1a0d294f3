// SPDX-License-Identifier: Apache-2.0
/* Owners by number: an open table that is at most half full. */
#include <stdlib.h>
#include <string.h>

#include "owners.h"

static u32 *bucket_of(const struct owners *owners, enum owner_kind kind, u64 id)
{
	u32 mask = owners->nr_buckets - 1, at = (u32)mix64(id * 2 + kind) & mask;

	while (owners->bucket[at]) {
		const struct owner_key *key = &owners->key[owners->bucket[at] - 1];

		if (key->id == id && key->kind == kind)
			break;
		at = (at + 1) & mask;
	}
	return &owners->bucket[at];
}

/* Room for twice as many. */
static bool grow(struct owners *owners)
{
	u32 room = owners->room ? owners->room * 2 : 256;
	u32 *bucket = calloc((size_t)room * 2, sizeof(*bucket));
	struct owner_key *key = realloc(owners->key, room * sizeof(*key));

	if (key)
		owners->key = key;
	if (!key || !bucket) {
		free(bucket);
		return false;
	}
	free(owners->bucket);
	owners->bucket = bucket;
	owners->nr_buckets = room * 2;
	owners->room = room;
	for (u32 i = 0; i < owners->nr; i++)
		*bucket_of(owners, key[i].kind, key[i].id) = i + 1;
	return true;
}

u32 owners_find(struct owners *owners, enum owner_kind kind, u64 id, bool *is_new)
{
	u32 *bucket = owners->nr_buckets ? bucket_of(owners, kind, id) : NULL;

	*is_new = !bucket || !*bucket;
	if (!*is_new)
		return *bucket - 1;
	if (owners->nr == OWNERS_MAX || (owners->nr == owners->room && !grow(owners)))
		return U32_NONE;
	owners->key[owners->nr] = (struct owner_key){ id, kind };
	*bucket_of(owners, kind, id) = ++owners->nr;
	return owners->nr - 1;
}

void owners_exit(struct owners *owners)
{
	free(owners->key);
	free(owners->bucket);
}
