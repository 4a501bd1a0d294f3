// SPDX-License-Identifier: Apache-2.0
/* A host tier, and the disk below it, as seen in passing: without their locks. */
#include <kv/atomic.h>

#include "below.h"
#include "internal.h"

/* Portions below nr_chunks are fixed. */
static void add_chunks(const struct kvmm_tier *tier, struct kvmm_tier_stat *stat)
{
	/* Pairs with the growing of the tier, host.c. */
	stat->chunks = smp_load_acquire(&tier->nr_chunks);
	stat->units_ready = min(tier->nr_units, stat->chunks * tier->chunk_units);
	for (u32 i = 0; i < stat->chunks; i++)
		if (tier->chunk[i].mem.is_pinned)
			stat->bytes_pinned += tier->chunk[i].mem.bytes;
}

static void add_below(const struct kvmm_tier *tier, struct kv_tier_glance *glance)
{
	/* Pairs with kv_tier_set_below(). */
	const struct below *below = smp_load_acquire(&tier->below);

	if (!below)
		return;
	glance->stat.demoted = kv_peek(&below->demoted);
	glance->stat.promoted = kv_peek(&below->promoted);
	glance->stat.below_failed = kv_peek(&below->failed);
	glance->has_disk = below->ops->glance != NULL;
	if (glance->has_disk)
		below->ops->glance(below->store, &glance->disk);
}

int kv_tier_glance(const struct kvmm_tier *tier, struct kv_tier_glance *glance)
{
	if (kv_inherited(tier))
		return -ECHILD;
	*glance = (struct kv_tier_glance){ .name = tier->name };
	glance->stat = (struct kvmm_tier_stat){
		.units = tier->nr_units, .unit_bytes = tier->unit_bytes,
		.units_used = kv_peek(&tier->units_used), .blocks = kv_peek(&tier->blocks),
		.writing = kv_peek(&tier->writing), .pinned = kv_peek(&tier->pinned),
		.metadata_bytes = kv_peek(&tier->metadata_bytes),
		.stored = kv_peek(&tier->stored), .evicted = kv_peek(&tier->evicted),
		.lost = kv_peek(&tier->lost),
	};
	kv_peek_copy(&glance->stat.hit_age, &tier->hit_age, sizeof(tier->hit_age));
	kv_peek_copy(&glance->stat.evict_age, &tier->evict_age, sizeof(tier->evict_age));
	for (u32 i = NOBODY + 1; i < NR_OWNERS; i++)
		glance->stat.clients += kv_peek(&tier->owner[i].number) != NOBODY;
	add_chunks(tier, &glance->stat);
	add_below(tier, glance);
	return 0;
}
