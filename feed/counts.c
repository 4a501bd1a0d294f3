// SPDX-License-Identifier: Apache-2.0
/*
 * What an engine asks at each step: how many blocks it could have, and counts. No lock, and nothing
 * that grows with the pool: sums over rows of counters, and over magazines that threads have.
 *
 * Each number is of its own moment, so a block on its way may be seen twice or not at all. Two
 * things are told as one all the same: what is available and what is used, of which the one is made
 * from the other; and blocks that go from the zone or the cache to a magazine or back, 64 at a
 * time, or from reservations to the zone and back, all at once, which would make a pool look full:
 * that happens inside ->mag_seq.
 */
#include <percpu/arena.h>
#include <percpu/mag.h>

#include "internal.h"

/* Looks at free blocks while some go to a magazine; a writer may have lost its core. */
#define PATIENCE	8u

static u32 nr_aside(const struct kvmm_pool *pool)
{
	const struct arenas *arenas = pool_arenas(pool);
	u32 nr = mags_peek_nr(pool);

	for (u32 i = 0; unlikely(arenas != NULL) && i < arenas->nr; i++)
		nr += READ_ONCE(arenas->arena[i].nr_free);
	return nr;
}

u32 counts_peek(const struct kvmm_pool *pool, struct pool_count *count)
{
	const struct arenas *arenas = pool_arenas(pool);
	struct pool_count part;
	u32 seq, nr_mags;

	/* Counts of magazines come to the pool's own counts now and then: never seen in both. */
	do {
		seq = kv_seq_read_begin(&pool->fold_seq);
		kv_peek_copy(count, &pool->count, sizeof(*count));
		nr_mags = mags_peek(pool, count);
	} while (kv_seq_read_retry(&pool->fold_seq, seq));
	for (u32 i = 0; unlikely(arenas != NULL) && i < arenas->nr; i++) {
		kv_peek_copy(&part, &arenas->arena[i].count, sizeof(part));
		arena_count_add(&part, count);
	}
	return nr_mags;
}

/* Registered entries that have not lost their name; @registered: since the beginning. */
static u64 nr_named(const struct kvmm_pool *pool, u64 registered)
{
	return registered - kv_peek(&pool->count.nr_forgotten) - kv_peek(&pool->claims.nr_named);
}

/* Free blocks that are in the order of eviction. */
static u32 nr_parked(const struct kvmm_pool *pool)
{
	return kv_peek(&pool->count.nr_parked) -
	       (kv_peek(&pool->claims.nr) - kv_peek(&pool->claims.nr_named));
}

/*
 * Blocks that hold nothing, and are not in the order of eviction; and *@named. Some of these are
 * evicted to fill a magazine.
 */
static u32 nr_free_of(const struct kvmm_pool *pool, u64 registered, u64 *named)
{
	u32 seq, tries = 0, nr;

	do {
		seq = kv_seq_read_begin(&pool->mag_seq);
		nr = kv_zone_nr_free(pool->zone) + nr_aside(pool) +
		     kv_peek(&pool->grow.nr_reserved);
		*named = nr_named(pool, registered);
	} while (kv_seq_read_retry(&pool->mag_seq, seq) && ++tries < PATIENCE);
	return nr;
}

/* All that there is, and its division in free, inactive and used blocks. */
static void count_room(const struct kvmm_pool *pool, struct kvmm_counts *counts)
{
	const struct tally_row *tally = pool->tally;
	u64 registered = 0, active = 0, named;
	u32 nr_free;

	for (u32 i = 0; tally && i < KV_TALLY_ROWS; i++) {
		registered += READ_ONCE(tally[i].nr[TALLY_REGISTERED]);
		active += READ_ONCE(tally[i].nr[TALLY_ACTIVE]);
	}
	counts->nr_active = as_counted(active, pool->nr_usable);
	counts->nr_blocks = pool->nr_usable - kv_peek(&pool->pb.nr_away);
	nr_free = nr_free_of(pool, registered, &named);
	counts->nr_free = as_counted((s32)(nr_free + nr_parked(pool)), counts->nr_blocks);
	counts->nr_inactive = as_counted(named - active, counts->nr_blocks - counts->nr_free);
	counts->nr_available = counts->nr_free + counts->nr_inactive;
	kv_assert(counts->nr_available <= counts->nr_blocks);
	counts->nr_used = counts->nr_blocks - counts->nr_available;
}

int kvmm_pool_available(struct kvmm_pool *pool, uint32_t *total)
{
	struct kvmm_counts counts;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	err = pool ? pool_refusal(pool) : -EINVAL;
	if (err)
		return err;
	count_room(pool, &counts);
	if (total)
		*total = counts.nr_blocks;
	return counts.nr_available;
}

/* Each is at most what the ones before it leave of those in use. */
static void count_used(const struct kvmm_pool *pool, const struct pool_count *count, u32 nr_mags,
		       struct kvmm_counts *counts)
{
	u64 named = nr_named(pool, tally_sum(pool, TALLY_REGISTERED));
	u64 staged = tally_sum(pool, TALLY_STAGED);
	u32 left = counts->nr_used;

	kv_assert(left <= counts->nr_blocks);
	counts->range_blocks = min(count->range_blocks, left);
	left -= counts->range_blocks;
	counts->nr_active = min(counts->nr_active, left);
	left -= counts->nr_active;
	counts->nr_staged = as_counted(staged, left);
	left -= counts->nr_staged;
	counts->nr_private = as_counted((u64)count->nr_held - nr_mags - nr_parked(pool) - named -
					staged, left);
}

int counts_read(struct kvmm_pool *pool, void *stat)
{
	struct kvmm_counts *counts = stat;
	struct kvmm_watermarks marks;
	struct pool_count count;
	u32 nr_mags = counts_peek(pool, &count);

	kv_peek_copy(&marks, &pool->door.marks, sizeof(marks));
	*counts = (struct kvmm_counts){
		.nr_ranges = count.nr_ranges, .mark_min = marks.min, .mark_low = marks.low,
		.mark_high = marks.high, .nr_promised = kv_peek(&pool->door.nr_promised),
		.nr_waiting = kv_peek(&pool->door.nr_waiting), .allocs = count.allocs,
		.alloc_blocks = count.alloc_blocks, .frees = count.frees,
		.fail_nospc = count.fail_nospc, .fail_frag = count.fail_frag,
		.evictions = count.evictions, .hit_blocks = tally_sum(pool, TALLY_HITS),
		.miss_blocks = tally_sum(pool, TALLY_MISSES),
		.registered = tally_sum(pool, TALLY_NEW),
		.duplicates = tally_sum(pool, TALLY_DUPS),
	};
	count_room(pool, counts);
	count_used(pool, &count, nr_mags, counts);
	return 0;
}
