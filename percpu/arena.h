/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas: ranges of few blocks for threads that would wait for the pool's lock.
 *
 * An arena is a lock, a zone over the pool's blocks in which only those are free that the pool has
 * lent it, and a stock of slots. A block is free in the pool's zone, or free in that of one arena,
 * or in use; its owner does not matter to the zones, so nothing has to be moved when a range
 * changes over from an arena to the pool.
 *
 * The pool lends regions: blocks that are free there, and those that will be freed there. Free
 * blocks next to each other are thus in one zone, and become one run, whichever owner had them.
 * (Lending the longest free runs was tried: blocks freed beside them stayed behind, and at a load
 * of 90 % no arena had a run of 32 blocks after some thousand calls.)
 *
 * A slot names its arena (slot->arena). That is read under either lock and written under both.
 * Ranges of an arena are the plain ones: no pins, one reference, one extent. A caller that wants
 * more of one enters the pool, and slot_find() has it change over first ("adopted"); a caller that
 * looks for the ranges of a sequence has all of them change over.
 *
 * Arenas come into use when threads meet at the pool's lock, and go out of use when only one of
 * them is busy, or when what they keep aside is asked for too often: see arena_all.c.
 *
 * Blocks that have to stay free, for watermarks and promises, are in the pool's zone as long as a
 * region is lent; see __release_settle(). So all that an arena has may be taken.
 *
 * Where tenants have limits an arena has credit, which their accounts are charged with already; see
 * credit.c.
 *
 * Locks go pool->lock, order.lock, arena->lock by number, zone->lock.
 */
#ifndef PERCPU_ARENA_H
#define PERCPU_ARENA_H

#include <pool/local.h>

#define ARENA_MAX_NR	64u	/* blocks of a range */
#define MAX_ARENAS	16u
#define LEND_SLOTS	64u	/* to an arena that has none */
#define ARENA_CREDITS	32u	/* tenants that an arena serves at a time */

static_assert(MAX_ARENAS * LEND_SLOTS == MAX_STOCK, "a stock for each");
static_assert(MAX_ARENAS < UINT8_MAX, "a number + 1 fits arenas->region[]");

/* Of one tenant; without @on all of it is 0. @left, @least: arena->lock; the rest: both locks. */
struct credit {
	u32 tenant;
	u32 left;			/* blocks more that its account is charged with */
	u32 least;			/* that ->left has been, as if all had been lent at once */
	u16 account;			/* has_account(), since it is recalled before that goes */
	bool on;
};

struct arena {
	struct kv_lock lock __cacheline_aligned;
	u32 free_slot;			/* ->lock; last freed first; KV_NONE */
	u32 nr_free;			/* ->lock; READ_ONCE() as a hint */
	u32 nr_stock;			/* ->lock; free slots */
	struct kv_zone *zone;		/* ours; set once, under both locks; the content: ->lock */
	struct seq_table seqs;		/* as ->zone: of its ranges */
	struct pool_count count;	/* ->lock; to be added to the pool's */
	u64 seen_allocs;		/* both locks; at the latest look around */
	u32 nr_idle;			/* both locks; looks in a row without allocations */
	u32 at;				/* pool->lock; where it looks for the next region */
	struct credit credit[ARENA_CREDITS];	/* by tenant */
};

struct arenas {
	/* Read by all, seldom written. */
	u32 nr;				/* fixed at creation; a power of two */
	u32 region_order;		/* fixed at creation; log2 of blocks, >= ARENA_MAX_NR */
	u8 *region;			/* ours; arena's number + 1, or 0; both locks */
	u32 on;				/* pool->lock; READ_ONCE() as a hint */
	u32 limit;			/* pool->lock; READ_ONCE() as a hint: free blocks of each */
	u32 nr_lent;			/* pool->lock; regions */
	u32 nr_credits;			/* pool->lock; of all arenas */
	bool forced;			/* pool->lock; for tests: they stay in use */
	u64 drained_allocs;		/* pool->lock; when all of it was asked for */

	struct arena arena[];
};

/* ---- arena.c ---- */

bool __arena_alloc(struct kvmm_pool *pool, struct arenas *arenas,
		   const struct kvmm_range_attr *attr, kvmm_range_t *range);
bool __arena_free(struct kvmm_pool *pool, struct arenas *arenas, kvmm_range_t range);
/* Of struct local_ops. */
void arena_blocks_free(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);
bool arena_adopt(struct kvmm_pool *pool, struct slot *slot, u32 *gen);
void arenas_adopt_seq(struct kvmm_pool *pool, u64 seq);
void arena_pass_region(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena,
		       u32 region, bool lend);

/* ---- arena_all.c ---- */

int arenas_start(struct kvmm_pool *pool, u32 nr);
void arenas_share(struct kvmm_pool *pool, struct arenas *arenas);
void __arena_warm(struct kvmm_pool *pool);
void arenas_look(struct kvmm_pool *pool, struct arenas *arenas);
u32 arenas_nr_free(const struct kvmm_pool *pool);
/* Of one of them. */
void arena_count_add(const struct pool_count *count, struct pool_count *sum);

/* ---- credit.c ---- */

/* CREDIT_NR blocks more for a tenant's ranges; false: its limits are near. Both locks held. */
bool credit_lend(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena, u32 tenant);
void arena_end_credits(struct kvmm_pool *pool, struct arena *arena);
/* Of struct local_ops. */
void arenas_recall(struct kvmm_pool *pool);

static inline struct credit *credit_at(struct arena *arena, u32 tenant)
{
	return &arena->credit[tenant % ARENA_CREDITS];
}

/* ---- arena_check.c ---- */

/* 0 or -EUCLEAN. ->lock held; no arena's. */
int arenas_check(struct kvmm_pool *pool);

/* ---- for all files of pool/ ---- */

static inline struct arenas *pool_arenas(const struct kvmm_pool *pool)
{
	/* Pairs with arenas_start(): a thread that sees them sees them filled. */
	return smp_load_acquire(&pool->arenas);
}

static inline u32 nr_regions(const struct kvmm_pool *pool, u32 region_order)
{
	return ((pool->nr_blocks - 1) >> region_order) + 1;
}

/* Number + 1 of the arena that the block's region is lent to. */
static inline u32 region_of(const struct arenas *arenas, u32 block)
{
	return READ_ONCE(arenas->region[block >> arenas->region_order]);
}

/* NULL unless they are in use. No lock needed: a late reader does it the other way. */
static inline struct arenas *arenas_in_use(const struct kvmm_pool *pool)
{
	struct arenas *arenas = pool_arenas(pool);

	return unlikely(arenas && READ_ONCE(arenas->on)) ? arenas : NULL;
}

/* pool_enter() where threads may meet: they are counted. */
static __always_inline int arena_pool_enter(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	if (unlikely(!kv_trylock(&pool->lock))) {
		kv_lock(&pool->lock);
		__arena_warm(pool);
	} else if (unlikely(pool->arena_heat)) {
		pool->arena_heat--;
	}
	if (likely(!pool->gate))
		return 0;
	return __pool_enter_slow(pool);
}

/* For few blocks: a range of an arena; or false: ask the pool. */
static inline bool arena_alloc(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			       kvmm_range_t *range)
{
	struct arenas *arenas = arenas_in_use(pool);

	kv_assert_not_held(&pool->lock);
	return unlikely(arenas != NULL) && attr->nr <= ARENA_MAX_NR &&
	       __arena_alloc(pool, arenas, attr, range);
}

/* The range was an arena's and is gone, or false: ask the pool. */
static inline bool arena_free(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct arenas *arenas = arenas_in_use(pool);

	kv_assert_not_held(&pool->lock);
	return unlikely(arenas != NULL) && __arena_free(pool, arenas, range);
}

static inline void stock_add(struct arena *arena, struct slot *slot, u32 index)
{
	kv_assert_held(&arena->lock);
	slot->next = arena->free_slot;
	arena->free_slot = index;
	arena->nr_stock++;
}

#endif /* PERCPU_ARENA_H */
