// SPDX-License-Identifier: Apache-2.0
/*
 * Slots of the registry of prefixes: memory that never moves and is never given back before the
 * end, so that a number leads to a slot in any hands, and however old it is.
 *
 * A writer that needs slots reserves them first, where failure does no harm, and takes them later,
 * where it would. It reserves a number, not slots: free ones are the last that became free, with
 * lines that may still be in the cache. The stack of free slots lies in the segments themselves,
 * so that freeing needs no memory, and one allocation is all that growth takes.
 */
#include <kv/bits.h>
#include <kv/err.h>

#include "radix.h"

/* Below that, segments would be smaller than the allocator's own data. */
#define MIN_SHIFT	4u

static u32 segment_octave(u32 segment)
{
	return max(segment / 4, 1u) - 1;
}

static u32 segment_size(const struct slab *slab, u32 segment)
{
	return BIT(slab->shift + segment_octave(segment));
}

/* Number of its first slot, from 0. */
static u32 segment_base(const struct slab *slab, u32 segment)
{
	return (segment - 4 * segment_octave(segment)) << (slab->shift + segment_octave(segment));
}

static u64 segment_bytes(const struct slab *slab, u32 segment)
{
	return (u64)segment_size(slab, segment) * (slab->stride + sizeof(u32));
}

static u8 *segment_memory(const struct slab *slab, u32 segment)
{
	u64 before = segment_base(slab, segment) + 1;

	return (u8 *)(slab->bias[bias_of(slab, before - 1)] + before * slab->stride);
}

static u32 *free_at(const struct slab *slab, u32 nr)
{
	u32 segment = segment_of(slab, nr);

	return &slab->free[segment][nr - segment_base(slab, segment)];
}

u32 radix_slab_free_at(const struct slab *slab, u32 nr)
{
	return *free_at(slab, nr);
}

/* ---- growth ---- */

/* One segment more than @nr_segments, by us or by another thread. */
static int grow(struct slab *slab, u32 nr_segments)
{
	u32 base = segment_base(slab, nr_segments), size = segment_size(slab, nr_segments);
	u64 bytes = segment_bytes(slab, nr_segments);
	u8 *memory;

	kv_assert_not_held(&slab->lock);
	if (nr_segments == NR_SEGMENTS || (u64)base + size > MAX_SLOTS)
		return -ENOMEM;
	memory = registry_alloc(bytes);
	if (!memory)
		return -ENOMEM;
	kv_lock(&slab->lock);
	if (slab->nr_segments == nr_segments) {
		WRITE_ONCE(slab->bias[bias_of(slab, base)],
			   (uintptr_t)memory - (base + 1ull) * slab->stride);
		slab->free[nr_segments] = (u32 *)(void *)(memory + (u64)size * slab->stride);
		slab->nr_segments++;
		WRITE_ONCE(slab->capacity, slab->capacity + size);
		memory = NULL;
	}
	kv_unlock(&slab->lock);
	registry_free(memory, bytes);
	return 0;
}

/*
 * The segments above @nr_segments are not needed after all. Those that have ever been used stay,
 * and so do slots that others have reserved meanwhile.
 */
static void trim(struct slab *slab, u32 nr_segments)
{
	for (;;) {
		u8 *memory = NULL;
		u32 last, base;

		kv_lock(&slab->lock);
		last = slab->nr_segments - 1;
		base = segment_base(slab, last);
		if (last >= nr_segments && slab->top <= base &&
		    slab->reserved <= base - slab->top + slab->nr_free) {
			memory = segment_memory(slab, last);
			kv_assert(slab->nr_segments);
			slab->nr_segments--;
			WRITE_ONCE(slab->capacity, base);
		}
		kv_unlock(&slab->lock);
		if (!memory)
			return;
		registry_free(memory, segment_bytes(slab, last));
	}
}

/* ---- reserving ---- */

static bool try_reserve(struct slab *slab, u32 nr, u32 *nr_segments)
{
	bool ok;

	kv_lock(&slab->lock);
	ok = nr <= slab->capacity - slab->top + slab->nr_free - slab->reserved;
	if (ok)
		slab->reserved += nr;
	*nr_segments = slab->nr_segments;
	kv_unlock(&slab->lock);
	return ok;
}

int radix_slab_reserve(struct slab *slab, u32 nr, u32 *nr_segments)
{
	u32 now;

	if (likely(try_reserve(slab, nr, nr_segments)))
		return 0;
	now = *nr_segments;
	do {
		if (grow(slab, now)) {
			trim(slab, *nr_segments);
			return -ENOMEM;
		}
	} while (!try_reserve(slab, nr, &now));
	return 0;
}

void radix_slab_unreserve(struct slab *slab, u32 nr, u32 nr_segments)
{
	kv_lock(&slab->lock);
	KV_BUG_ON(nr > slab->reserved);
	slab->reserved -= nr;
	kv_unlock(&slab->lock);
	trim(slab, nr_segments);
}

void radix_slab_take(struct slab *slab, u32 nr, u32 *slots)
{
	kv_lock(&slab->lock);
	KV_BUG_ON(nr > slab->reserved);
	slab->reserved -= nr;
	for (u32 i = 0; i < nr; i++) {
		if (slab->nr_free) {
			slots[i] = *free_at(slab, --slab->nr_free);
		} else {
			slots[i] = slab->top + 1;
			WRITE_ONCE(slab->top, slots[i]);
		}
	}
	kv_unlock(&slab->lock);
}

void radix_slab_free(struct slab *slab, u32 nr, const u32 *slots)
{
	kv_lock(&slab->lock);
	kv_assert(slab->nr_free + nr <= slab->top);
	for (u32 i = 0; i < nr; i++)
		*free_at(slab, slab->nr_free++) = slots[i];
	kv_unlock(&slab->lock);
}

/* ---- set-up ---- */

void radix_slab_exit(struct slab *slab)
{
	for (u32 segment = 0; segment < slab->nr_segments; segment++)
		registry_free(segment_memory(slab, segment), segment_bytes(slab, segment));
	slab->nr_segments = 0;
}

int radix_slab_init(struct slab *slab, u32 nr, u32 stride, u32 id)
{
	slab->stride = stride;
	slab->shift = max(kv_order(nr), MIN_SHIFT + 2) - 2;
	slab->nr_first = BIT(slab->shift + 2);
	kv_lock_init(&slab->lock, KV_RANK_LEAF, id);
	do {
		if (grow(slab, slab->nr_segments)) {
			radix_slab_exit(slab);
			return -ENOMEM;
		}
	} while (slab->capacity < nr);
	return 0;
}

u64 radix_slab_bytes(struct slab *slab)
{
	return (u64)READ_ONCE(slab->capacity) * (slab->stride + sizeof(u32));
}

u32 radix_slab_claimed(struct slab *slab)
{
	u32 nr;

	kv_lock(&slab->lock);
	nr = slab->top - slab->nr_free + slab->reserved;
	kv_unlock(&slab->lock);
	return nr;
}
