// SPDX-License-Identifier: Apache-2.0
/*
 * Batches are checked before anything is done: every block is marked as seen, and one that is not
 * STAGED, or marked already, ends it. The owner alone steps STAGED words, so what was marked
 * stays as it is until the batch is through.
 */
#include "internal.h"

void batch_unmark(const struct kv_map *map, const struct kv_insert *insert, u32 nr)
{
	while (nr--)
		kv_handle_step(map->entries, insert->handles[nr], kv_edge_unmark);
}

/* Lines that are asked for at once. */
#define AHEAD	64u

int batch_mark(const struct kv_map *map, const struct kv_insert *insert)
{
	if (likely(insert->is_marked))
		return 0;
	for (u32 i = 0; i < min(insert->nr, AHEAD); i++)
		kv_handle_prefetch(map->entries, insert->handles[i]);
	for (u32 i = 0; i < insert->nr; i++) {
		int err;

		if (i + AHEAD < insert->nr)
			kv_handle_prefetch(map->entries, insert->handles[i + AHEAD]);
		err = kv_handle_step(map->entries, insert->handles[i], kv_edge_mark);
		if (unlikely(err)) {
			batch_unmark(map, insert, i);
			return err;
		}
	}
	return 0;
}
