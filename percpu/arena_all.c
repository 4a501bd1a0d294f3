// SPDX-License-Identifier: Apache-2.0
/*
 * All arenas of a pool: when they come into use and go out of it, their sums, and whether that adds
 * up.
 *
 * They cost the blocks they keep aside, so they are in use only while threads would wait for each
 * other. A lock of the pool that was found taken counts WARM, one that was free takes 1 off again,
 * so that one in WARM is where the line is; at HOT they come into use. (One in 32 was too many: a
 * thread that finds it taken may sleep, and the other one gets a thousand calls done meanwhile.)
 * They go out of use when one of them finds that no other was busy in the latest MAX_IDLE looks,
 * of LOOK_EVERY allocations each, or when memory is so short that all of it is asked for before
 * DRAIN_EVERY allocations were served. (After one look was too early: threads that pause for
 * some milliseconds had to meet at the pool's lock for each range of theirs before they had
 * arenas again, which took longer than the pause.)
 */
#include <kv/mem.h>

#include "arena.h"
#include "mag.h"

#define WARM		1024u
#define HOT		(32 * WARM)
#define DRAIN_EVERY	1024u
#define MAX_IDLE	16u	/* looks: some tenths of a second */
#define ARENAS_PART	8u	/* of the pool, at most, is kept aside */
#define MIN_SHARE	2048u	/* blocks of the pool for each arena */
#define REGIONS		1024u	/* in a pool, about */
#define MAX_REGION	1024u	/* blocks */

/* ---- in use, out of use ---- */

static void free_arenas(struct arenas *arenas)
{
	kv_free(arenas->region);
	kv_free(arenas);
}

static struct arenas *make_arenas(const struct kvmm_pool *pool, u32 nr)
{
	struct arenas *arenas = kv_alloc_lines(1, sizeof(*arenas) + nr * sizeof(arenas->arena[0]));
	u32 region = max(pool->nr_blocks / REGIONS, ARENA_MAX_NR);

	if (!arenas)
		return NULL;
	arenas->nr = nr;
	/* Small beside the whole pool, and no range lies across more than two. */
	arenas->region_order = kv_log2(min(region, MAX_REGION));
	arenas->region = kv_alloc(nr_regions(pool, arenas->region_order));
	if (!arenas->region) {
		free_arenas(arenas);
		return NULL;
	}
	for (u32 i = 0; i < nr; i++) {
		kv_lock_init(&arenas->arena[i].lock, KV_RANK_ARENA, i);
		arenas->arena[i].free_slot = KV_NONE;
		/* Each starts at a place of its own. */
		arenas->arena[i].at = (u64)pool->nr_blocks * i / nr;
	}
	return arenas;
}

/*
 * @nr is a power of two. Blocks must not depend on which threads meet, engines must take any part
 * of a run back, content that is made zero is pinned meanwhile, and classes are charged under
 * ->lock. A mover that runs beside allocations looks at ranges under ->lock only.
 */
int arenas_start(struct kvmm_pool *pool, u32 nr)
{
	struct arenas *arenas = pool->arenas;

	kv_assert_held(&pool->lock);
	if (pool->deterministic || pool->rounds || pool->zero || pool->order.classes ||
	    pool->arenas_barred || pool->guard & ~GUARD_FLOORS ||
	    READ_ONCE(pool->transit.nr_flights) || !kv_zone_takes_any_run(pool->zone))
		return -EOPNOTSUPP;
	if (!arenas) {
		arenas = make_arenas(pool, nr);
		if (!arenas)
			return -ENOMEM;
		pool->metadata_bytes += sizeof(*arenas) + nr * sizeof(arenas->arena[0]) +
					nr_regions(pool, arenas->region_order);
		arenas_share(pool, arenas);
		/* Pairs with pool_arenas(): a thread that sees them sees them filled. */
		smp_store_release(&pool->arenas, arenas);
	}
	WRITE_ONCE(arenas->on, true);
	return 0;
}

/* Two threads met at the pool's lock, which is held now. */
noinline void __arena_warm(struct kvmm_pool *pool)
{
	u32 nr;

	kv_assert_held(&pool->lock);
	pool->arena_heat += WARM;
	if (pool->arena_heat < HOT)
		return;
	pool->arena_heat = 0;
	nr = min(pool->nr_usable / MIN_SHARE, MAX_ARENAS);
	if (nr > 1)
		arenas_start(pool, BIT(kv_log2(nr)));	/* if it fails: later, maybe */
}

int kv_pool_force_arenas(struct kvmm_pool *pool, u32 nr)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	if (!kv_is_pow2(nr) || nr > MAX_ARENAS || pool->arenas)
		err = -EINVAL;
	else
		err = arenas_start(pool, nr);
	if (!err)
		pool->arenas->forced = true;
	pool_leave(pool);
	return err;
}

static void arenas_exit(struct kvmm_pool *pool)
{
	if (!pool->arenas)
		return;
	for (u32 i = 0; i < pool->arenas->nr; i++) {
		kv_zone_destroy(pool->arenas->arena[i].zone);
		kv_free(pool->arenas->arena[i].seqs.bucket);
	}
	free_arenas(pool->arenas);
}

static void arenas_forked(struct kvmm_pool *pool)
{
	if (pool->arenas)
		WRITE_ONCE(pool->arenas->on, false);
}

/* Those that have a zone share the blocks that may be kept aside. */
void arenas_share(struct kvmm_pool *pool, struct arenas *arenas)
{
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < arenas->nr; i++)
		nr += arenas->arena[i].zone != NULL;
	WRITE_ONCE(arenas->limit, pool->nr_usable / ARENAS_PART / max(nr, 1u));
}

/* ---- blocks kept aside go back ---- */

static void lock_all(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < pool->arenas->nr; i++)
		kv_lock(&pool->arenas->arena[i].lock);
}

static void unlock_all(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	for (u32 i = pool->arenas->nr; i-- > 0;)
		kv_unlock(&pool->arenas->arena[i].lock);
}

/* Both locks held. */
static void return_slots(struct kvmm_pool *pool, struct arena *arena)
{
	u32 index;

	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	while ((index = arena->free_slot) != KV_NONE) {
		struct slot *slot = slot_at(pool, index);

		arena->free_slot = slot->next;
		kv_assert(arena->nr_stock);
		arena->nr_stock--;
		WRITE_ONCE(slot->arena, 0);
		slot->next = pool->free_slot;
		pool->free_slot = index;
	}
}

/* All of them, if they are more than MAX_STOCK. */
static bool return_all_slots(struct kvmm_pool *pool)
{
	struct arenas *arenas = pool->arenas;
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	lock_all(pool);
	for (u32 i = 0; i < arenas->nr; i++)
		nr += arenas->arena[i].nr_stock;
	for (u32 i = 0; nr > MAX_STOCK && i < arenas->nr; i++)
		return_slots(pool, &arenas->arena[i]);
	unlock_all(pool);
	return nr > MAX_STOCK;
}

/* Regions, free slots and credits; how many blocks. Both locks held. */
static u32 drain(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena)
{
	u32 id = arena - arenas->arena + 1, nr = arena->nr_free;

	for (u32 i = 0; arenas->nr_lent && i < nr_regions(pool, arenas->region_order); i++)
		if (arenas->region[i] == id)
			arena_pass_region(pool, arenas, arena, i, false);
	return_slots(pool, arena);
	arena_end_credits(pool, arena);
	return nr;
}

/* *@allocs: those of all arenas so far. */
static u32 drain_all(struct kvmm_pool *pool, struct arenas *arenas, u64 *allocs)
{
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	*allocs = 0;
	for (u32 i = 0; i < arenas->nr; i++) {
		struct arena *arena = &arenas->arena[i];

		kv_lock(&arena->lock);
		nr += drain(pool, arenas, arena);
		*allocs += arena->count.allocs;
		kv_unlock(&arena->lock);
	}
	return nr;
}

/* All that is left of them from here on are ranges, which are changed under ->lock only. */
static void turn_off(struct kvmm_pool *pool, struct arenas *arenas)
{
	u64 allocs;

	kv_assert_held(&pool->lock);
	WRITE_ONCE(arenas->on, false);
	pool->arena_heat = 0;
	drain_all(pool, arenas, &allocs);
}

static void rest(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (pool->arenas->on)
		turn_off(pool, pool->arenas);
}

/*
 * With the gate closed, or the door, each arena's lock is taken, even if nothing is lent, to wait
 * for the threads that are still inside.
 */
static u32 drain_local(struct kvmm_pool *pool)
{
	struct arenas *arenas = pool->arenas;
	bool is_closed = pool->gate || pool->guard & ~GUARD_FLOORS;
	u32 nr = mags_drain(pool);
	u64 allocs;

	kv_assert_held(&pool->lock);
	if (!arenas || (!is_closed && !(arenas->nr_lent | arenas->nr_credits)))
		return nr;
	nr += drain_all(pool, arenas, &allocs);
	if (!is_closed && !arenas->forced &&
	    allocs - arenas->drained_allocs < DRAIN_EVERY)
		turn_off(pool, arenas);
	arenas->drained_allocs = allocs;
	return nr;
}

/*
 * An arena without allocations for a while keeps nothing. Nor does the only one that has had some,
 * from then on: its thread meets no other.
 */
noinline void arenas_look(struct kvmm_pool *pool, struct arenas *arenas)
{
	u32 nr_busy = 0;

	kv_assert_not_held(&pool->lock);
	if (pool_enter(pool))
		return;
	for (u32 i = 0; i < arenas->nr; i++) {
		struct arena *arena = &arenas->arena[i];

		kv_lock(&arena->lock);
		if (arena->count.allocs != arena->seen_allocs)
			arena->nr_idle = 0;
		else if (arena->nr_idle < MAX_IDLE && ++arena->nr_idle == MAX_IDLE)
			drain(pool, arenas, arena);
		nr_busy += arena->zone && arena->nr_idle < MAX_IDLE;
		arena->seen_allocs = arena->count.allocs;
		kv_unlock(&arena->lock);
	}
	if (nr_busy < 2 && !arenas->forced)
		turn_off(pool, arenas);
	pool_leave(pool);
}

/* ---- all of them ---- */

u32 arenas_nr_free(const struct kvmm_pool *pool)
{
	const struct arenas *arenas = pool_arenas(pool);
	u32 nr = 0;

	for (u32 i = 0; arenas && i < arenas->nr; i++)
		nr += READ_ONCE(arenas->arena[i].nr_free);
	return nr;
}

/* No range there has a pin. */
void arena_count_add(const struct pool_count *count, struct pool_count *sum)
{
	sum->nr_ranges += count->nr_ranges;
	sum->range_blocks += count->range_blocks;
	sum->range_refs += count->range_refs;
	sum->range_gens += count->range_gens;
	sum->range_seqs += count->range_seqs;
	sum->range_attrs += count->range_attrs;
	sum->allocs += count->allocs;
	sum->alloc_blocks += count->alloc_blocks;
	sum->frees += count->frees;
}

static void add_counts(const struct kvmm_pool *pool, struct pool_count *sum)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < pool->arenas->nr; i++)
		arena_count_add(&pool->arenas->arena[i].count, sum);
}

/* ---- for the pool: arenas and magazines ---- */

static u32 nr_local(const struct kvmm_pool *pool)
{
	return arenas_nr_free(pool) + mags_nr(pool);
}

static const struct local_ops local_ops = {
	.drain		= drain_local,
	.rest		= rest,
	.disarm		= mags_disarm,
	.nr		= nr_local,
	.count		= add_counts,
	.lock		= lock_all,
	.unlock		= unlock_all,
	.adopt		= arena_adopt,
	.adopt_seq	= arenas_adopt_seq,
	.free		= arena_blocks_free,
	.recall		= arenas_recall,
	.return_slots	= return_all_slots,
};

static int arenas_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	pool->local = &local_ops;
	return 0;
}

POOL_PART(arenas) = {
	.name		= "arenas",
	.init		= arenas_init,
	.exit		= arenas_exit,
	.forked		= arenas_forked,
	.check_open	= arenas_check,
	.check_base	= arenas_check,
};
