// SPDX-License-Identifier: Apache-2.0
/* A host tier, and the disk below it, as seen in passing: without their locks. */
#include <kv/atomic.h>

#include "below.h"

void tier_fill_stat(const struct kvmm_tier *tier, struct kvmm_tier_stat *stat)
{
	const struct below *below;

	kv_peek_copy(stat, &tier->stat, sizeof(*stat));
	stat->units = tier->nr_units;
	stat->unit_bytes = tier->unit_bytes;
	stat->units_used = kv_peek(&tier->units_used);
	stat->blocks = kv_peek(&tier->blocks);
	stat->writing = kv_peek(&tier->writing);
	stat->pinned = kv_peek(&tier->pinned);
	stat->metadata_bytes = kv_peek(&tier->metadata_bytes);
	for (u32 i = NOBODY + 1; i < NR_OWNERS; i++)
		stat->clients += kv_peek(&tier->owner[i].number) != NOBODY;
	/* Pairs with grow(): portions below nr_chunks are made, and fixed. */
	stat->chunks = smp_load_acquire(&tier->nr_chunks);
	stat->units_ready = min(tier->nr_units, stat->chunks * tier->chunk_units);
	for (u32 i = 0; i < stat->chunks; i++)
		if (tier->chunk[i].mem.is_pinned)
			stat->bytes_pinned += tier->chunk[i].mem.bytes;
	/* Pairs with kv_tier_set_below(): it is made. */
	below = smp_load_acquire(&tier->below);
	if (below && below->ops->remote_glance)
		below->ops->remote_glance(below->store, stat);
}

int kv_tier_glance(const struct kvmm_tier *tier, struct kv_tier_glance *glance)
{
	const struct below *below;

	if (kv_inherited(tier))
		return -ECHILD;
	*glance = (struct kv_tier_glance){ .name = tier->name };
	tier_fill_stat(tier, &glance->stat);
	/* Pairs with kv_tier_set_below(): it is made. */
	below = smp_load_acquire(&tier->below);
	glance->has_disk = below && below->ops->glance;
	if (glance->has_disk)
		below->ops->glance(below->store, &glance->disk);
	return 0;
}
