// SPDX-License-Identifier: Apache-2.0
/*
 * A zone as seen in passing: everything that the free map says, read word by word without the lock.
 *
 * A watcher must keep no thread waiting: one that loses its core while it has the lock would stop
 * all that allocate. So the glance is made from the map alone, which has a fixed place, and not
 * from the engine's index, in which a reader without the lock could get lost.
 */
#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>

#include "internal.h"

struct walk {
	const struct kv_zone *zone;
	struct kv_zone_glance *glance;
	u32 start;		/* of the run that goes on, or KV_NONE */
};

static void end_run(struct walk *walk, u32 end)
{
	struct kvmm_extent run = { walk->start, end - walk->start };

	if (walk->start == KV_NONE)
		return;
	walk->start = KV_NONE;
	walk->glance->nr_runs++;
	walk->glance->nr_free += run.nr;
	walk->glance->largest = max(walk->glance->largest, run.nr);
	kv_zone_count_run(walk->zone, run, walk->glance->free);
}

static void see_word(struct walk *walk, u32 word, u64 bits)
{
	u32 at = 0, base = word * KV_WORD_BITS;

	kv_assert(word < KV_WORDS(walk->zone->nr_blocks));
	while (at < KV_WORD_BITS) {
		bool free = bits >> at & 1;
		u64 rest = (free ? ~bits : bits) >> at;
		u32 next = rest ? at + kv_lowest64(rest) : KV_WORD_BITS;

		if (free && walk->start == KV_NONE)
			walk->start = base + at;
		else if (!free)
			end_run(walk, base + at);
		at = next;
	}
}

void kv_zone_glance(struct kv_zone *zone, struct kv_zone_glance *glance)
{
	struct walk walk = { .zone = zone, .glance = glance, .start = KV_NONE };
	u32 nr = KV_WORDS(zone->nr_blocks);

	memset(glance, 0, sizeof(*glance));
	glance->pageblock_order = zone->pageblock_order;
	for (u32 word = 0; word < nr; word++) {
		u32 left = min(zone->nr_blocks - word * KV_WORD_BITS, KV_WORD_BITS);

		/* Blocks behind the end of the zone are not free. */
		see_word(&walk, word, zone->ops->peek(zone->engine, word) & kv_mask64(0, left));
	}
	end_run(&walk, zone->nr_blocks);
	for (u32 i = 0; i < nr_pageblocks(zone); i++)
		glance->nr_pageblocks[kv_peek(&zone->block_class[i])]++;
}
