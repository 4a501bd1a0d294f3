/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of pool/: the pool, its tables, and which lock guards what.
 *
 * Invariants, recomputed by kvmm_validate():
 *
 *  1. owner[] is a partition: each block is free, the null block, in exactly one extent of one
 *     live slot, or the block of exactly one entry.
 *  2. A block has an owner if and only if it is taken in the zone. Engines that round requests up
 *     hold more blocks than have owners.
 *  3. A slot is live if and only if it has extents; otherwise it is on the free list. Its
 *     generation is never used twice.
 *  4. An entry has a block if and only if it is neither FREE nor RETIRED. It is in the map if it is
 *     REGISTERED, and in the order of eviction, once the log is applied, if it is REGISTERED
 *     without references, or PARKED. It is in the policy of its class; see class.h for what is
 *     known of classes.
 *  5. Every count in struct pool_count, and every sum of struct tally, equals a recount.
 *
 * Locks, outermost first: compact_lock (to move blocks, or touch their content), lock (everything
 * else here), order.lock, order.log_lock, those of arenas, then those of zone, map and device. The
 * content of blocks is copied with compact_lock held and lock not.
 *
 * Lookups and references of cached blocks take none of these: cache_begin() opens a read section
 * if the gate is open. The thread that closes the gate waits for a grace period: from then on the
 * world has stopped, all of it.
 */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include <string.h>

#include <kv/alloc.h>
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/dev.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/fork.h>
#include <kv/hash.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/pool_completion.h>
#include <kv/pool_part.h>
#include <kv/pool_request.h>
#include <kv/probe.h>
#include <kv/rcu.h>
#include <kv/registry_name.h>
#include <kv/registry_radix.h>
#include <kv/stat.h>
#include <kv/types.h>
#include <kv/zone.h>
#include <order/order.h>

#include "alloc_ctx.h"
#include "door.h"
#include "grow.h"
#include "pin.h"
#include "transit.h"
#include "unseen.h"
#include "victim.h"

/* ---- owners of blocks ---- */

/* An owner is its kind and, for slots and entries, an index. */
#define OWNER_INDEX_BITS	24u
#define OWNER_INDEX_MASK	(BIT(OWNER_INDEX_BITS) - 1)

enum owner_kind {
	OWNER_FREE,		/* 0, so that freeing is a memset() */
	OWNER_NULL,
	OWNER_SLOT,
	OWNER_ENTRY,
	OWNER_RESERVED,		/* behind the end of a slot's range; counts as free */
	OWNER_MOVE,		/* taken by a compaction under way, or left by one of its moves */
	OWNER_AWAY,		/* given back, or about to be; see leave.h */
	OWNER_LEFT,		/* free, and not written since an entry lost it */
	OWNER_UNSEEN,		/* given back as a run from the index on; see unseen.h */
	OWNER_LEFT_AWAY,	/* as OWNER_LEFT, but about to be given back */
	NR_OWNERS,
};

/* Compaction's marks, only between isolate and commit. */
#define OWNER_IS_SRC		BIT(30)
#define OWNER_IS_DST		BIT(31)

static_assert(KVMM_MAX_BLOCKS <= BIT(OWNER_INDEX_BITS), "an index fits an owner");

static inline u32 make_owner(enum owner_kind kind, u32 index)
{
	return (u32)kind << OWNER_INDEX_BITS | index;
}

static inline enum owner_kind owner_kind(u32 owner)
{
	return owner >> OWNER_INDEX_BITS;
}

static inline u32 owner_index(u32 owner)
{
	return owner & OWNER_INDEX_MASK;
}

static inline bool owner_is_free(u32 owner)
{
	return owner == OWNER_FREE || owner_kind(owner) == OWNER_LEFT;
}

static inline bool owner_is_away(u32 owner)
{
	return owner_kind(owner) == OWNER_AWAY || owner_kind(owner) == OWNER_LEFT_AWAY;
}

/* ---- ranges ---- */

/*
 * One range, or none: one line. Type-stable: the memory stays a slot until the pool is destroyed,
 * so a reader without the lock may look at it at any time; it believes what it saw if the version
 * says that no thread wrote meanwhile. What few ranges have is in struct slot_side.
 *
 * Guard: pool->lock, or the lock of the arena that has it (percpu/arena.h). Those marked * are read
 * without it and written inside version only.
 */
struct slot {
	u32			version;	/* sequence counter of the fields marked * */
	u32			gen;		/* * of the range, or of the next one if free */
	u32			refs;
	u32			pins;
	u64			seq;
	u32			nr;		/* blocks in all extents */
	u16			nr_ext;		/* * 0: free */
	u8			lost;		/* * a failed copy destroyed the content */
	u8			prio;
	u32			next;		/* in the chain of its sequence, or in free list */
	u32			prev;		/* in the chain; KV_NONE: the first */
	u32			tick;		/* when it was allocated; see ns_of_tick() */
	u32			tenant;
	u16			account;	/* of @tenant, when it was allocated */
	u16			flags;		/* KVMM_ALLOC_*, SLOT_GREW */
	u8			cls;		/* KVMM_IN_CLASS() */
	u8			arena;		/* arena + 1, or 0: the pool's; write: both locks */
	u8			seals;		/* sealed blocks are in the side record; else 0 */
	u8			number;		/* in its chunk; fixed at creation */
	struct kvmm_extent	first;		/* * extent number 0; see slot_ext() */
} __cacheline_aligned;

/* Of a range with more extents than one, sealed blocks, or SLOT_GREW. Guard: that of the slot. */
struct slot_side {
	struct kvmm_extent	ext[KVMM_MAX_RUNS - 1];	/* * from number 1 on */
	u32			sealed;		/* see slot_sealed() */
	struct grow		grow __cacheline_aligned;	/* see there */
} __cacheline_aligned;

/* Ticks of the clock, for when something was used last: about a millisecond each. */
#define TICK_SHIFT	20u

/* Chains of ranges by hash of their sequence; see seq.c. Guard: that of the slots in it. */
struct seq_table {
	u32	*bucket;	/* ours; slot, KV_NONE */
	u32	nr;		/* a power of two; 0: none yet */
};

#define SLOT_MAX_EXT	UINT16_MAX

/* Has grown, or has said that it will: ->grow is about this range. Not a caller's flag. */
#define SLOT_GREW	((u16)BIT(15))

static_assert(MAX_ACCOUNTS <= UINT16_MAX, "an account fits a slot");
static_assert(sizeof(struct slot) == KV_CACHELINE, "a range is one line");
static_assert(sizeof(struct slot_side) == 2 * KV_CACHELINE, "growth has a line of its own");

#define CHUNK_ORDER	8u
#define CHUNK_SLOTS	BIT(CHUNK_ORDER)

static_assert(CHUNK_SLOTS - 1 <= UINT8_MAX, "a slot knows its number in the chunk");

/* Slots that follow each other, and their side records: none until one of them needs its own. */
struct slot_chunk {
	u32			first;		/* number of slot[0]; fixed at creation */
	struct slot_side	*side;		/* CHUNK_SLOTS; ->lock; RCU; once set, it stays */
	struct slot		slot[CHUNK_SLOTS];
};

static inline struct slot_chunk *slot_chunk(const struct slot *slot)
{
	return container_of(slot - slot->number, struct slot_chunk, slot);
}

static inline u32 slot_index(const struct slot *slot)
{
	return slot_chunk(slot)->first + slot->number;
}

/* NULL: its chunk has none. ->lock held, as for the next two. */
static inline struct slot_side *slot_side(const struct slot *slot)
{
	struct slot_side *side = slot_chunk(slot)->side;

	return likely(side != NULL) ? &side[slot->number] : NULL;
}

/* Of a slot that has its side record: with SLOT_GREW it does. */
static inline struct grow *slot_grow(const struct slot *slot)
{
	return &slot_side(slot)->grow;
}

/* Extent number @i, below nr_ext. */
static inline struct kvmm_extent *slot_ext(struct slot *slot, u32 i)
{
	struct slot_side *side;

	if (likely(!i))
		return &slot->first;
	side = slot_side(slot);
	return likely(i < KVMM_MAX_RUNS) ? &side->ext[i - 1] :
	       &side->grow.more->ext[i - KVMM_MAX_RUNS];
}

/*
 * All slots. Chunks never move. A directory that is full gives way to one with twice the room, and
 * stays as long as the pool, so a reader needs neither a lock nor a read section.
 */
struct slot_dir {
	struct slot_dir		*older;		/* ours; all of them are no larger than this */
	u32			nr_room;	/* fixed at creation; chunks */
	u32			nr_chunks;	/* ->lock; lock-free: acquire */
	struct slot_chunk	*chunk[];	/* of the first ->nr_chunks: fixed */
};

static inline u32 dir_nr_slots(const struct slot_dir *dir)
{
	/* Pairs with publish_chunk(): those that are counted are there, and filled. */
	return smp_load_acquire(&dir->nr_chunks) << CHUNK_ORDER;
}

/* The index must be below dir_nr_slots(). */
static inline struct slot *dir_slot(const struct slot_dir *dir, u32 index)
{
	return &dir->chunk[index >> CHUNK_ORDER]->slot[index & (CHUNK_SLOTS - 1)];
}

/* ---- cached blocks ---- */

/* Counted without the pool's lock, in rows as in kv/stat.h. Only sums mean anything. */
enum tally {
	/* State. */
	TALLY_STAGED,
	TALLY_REGISTERED,
	TALLY_ACTIVE,		/* registered, with references */
	TALLY_REFS,		/* of the registered */
	TALLY_PINS,
	TALLY_NAMES,		/* sum of name_sum() over all registered */

	/* Events. */
	TALLY_HITS,
	TALLY_MISSES,
	TALLY_STAGINGS,
	TALLY_NEW,		/* registrations */
	TALLY_DUPS,		/* of names that were taken */
	TALLY_SHORT,		/* requests without a full block */
	NR_TALLIES,
};

struct tally_row {
	u64 nr[NR_TALLIES];	/* kv_tally_add() */
} __cacheline_aligned;

/* ---- the pool ---- */

/* Counts, all under pool->lock. Sums of numbers without a second copy let a recount find a flip. */
struct pool_count {
	/* State. */
	u32 nr_ranges;
	u32 range_blocks;
	u64 range_refs;
	u64 range_pins;
	u64 range_gens;		/* sum over all slots of gen - gen_base */
	u64 range_seqs;		/* sum of seq */
	u64 range_attrs;	/* sum of slot_attrs() */
	u32 nr_held;		/* entries that have a block */
	u32 nr_parked;
	u64 nr_forgotten;	/* of TALLY_REGISTERED, and of TALLY_NAMES */
	u64 names_forgotten;
	u64 entry_gens;		/* sum of gen over all entries */

	/* Events. */
	u64 allocs;
	u64 alloc_blocks;
	u64 frees;
	u64 fail_nospc;
	u64 fail_frag;
	u64 evictions;
	u64 compactions;
	u64 moved_blocks;
	u64 moves;
};

/* Why pool->gate is closed to callers. */
#define GATE_STOPPED	BIT(0)	/* blocks are being moved: wait for compact_lock */
#define GATE_POISONED	BIT(1)	/* for ever */
#define GATE_FORKED	BIT(2)	/* for ever: a child's copy: touch nothing else of it */

/*
 * Blocks that are claimed for longer than a call takes: a gang is reserved, and may be aborted.
 *
 * Such an entry is EVICTING, is in no order, has its name still, and no look-up finds it. Its block
 * is its own, or is *lent* (KV_ENTRY_LENT): one that the gang has got, or, with KV_ENTRY_RESET,
 * left aside, free for others, a later part of the gang among them.
 *
 * While room is made for a request, its victims have given their blocks to the zone. Those with
 * KV_ENTRY_LENT and KV_ENTRY_RESET do not get them back: something was moved to there meanwhile.
 *
 * A caller that forgets names cannot reach those; it counts up ->forgets; the gang lets them go.
 *
 * Guarded by pool->lock.
 */
struct claims {
	u32 nr;
	u32 nr_named;		/* of them: not PARKED before */
	u32 nr_lent;		/* of them */
	u32 nr_due;		/* of them: to be private blocks of their gang */
	u32 forgets;
};

/* See feed/presence.c. */
struct pool_presence {
	struct kvmm_registry	*reg;		/* fixed at creation; borrowed; NULL: none */
	u32			tier;		/* fixed at creation */
	kvmm_key_t		*parent;	/* by entry: the block before; owner, if PRIVATE */
	u8			*mark;		/* by entry; atomic; its own bits, and: */
#define PRESENCE_PARENT	1u			/* ->parent is that of its first name */
	struct gone		*gone;		/* ->lock */
	u64			room;		/* compact_lock and ->lock: of ->gone */
	u32			nr_gone;	/* ->lock; READ_ONCE() as a hint */
};

/* Requests by length: each length of its own up to here, then by powers of two. */
#define ASKED_EXACT	64u
#define NR_ASKED	(ASKED_EXACT + 1 + 32)

/* Lengths of ranges that were asked for; see move/background.h. Guard: ->lock. */
struct asked {
	u32 sum;
	u16 nr[NR_ASKED];
};

/* Compaction that was in vain; see move/useless.h. Guard: ->lock. */
struct useless {
	u64 stamp;		/* of the counts then */
	u32 want;		/* so many blocks */
	u32 max_runs;		/* in so many runs, or fewer */
	bool known;
};

/* See pageblock.h. Guard: written with compact_lock and ->lock held, so one is enough to read. */
struct pageblocks {
	/* Fixed once there. */
	u32 size;		/* of a pageblock, in blocks */
	u32 shift;		/* its log2 */
	u32 nr;			/* the last one may be shorter; 0: none has ever left */

	u32 nr_away;		/* blocks */
	u8 *state;		/* ours; enum pageblock_state */
};

/*
 * KVMM_POOL_LIFO: blocks in the order in which they were freed, the last ones, as many as the pool
 * has. Some have been taken since by other ways: they are looked at when they are taken.
 */
struct freed {
	u32	*block;		/* ours; a ring; NULL without that flag; fixed at creation */
	u32	end;		/* ->lock; behind the last one */
	u32	nr;		/* ->lock */
};

struct kvmm_pool {
	/* Fixed at creation; read without a lock. */
	struct kv_pool_parts		parts;
	struct kv_zone			*zone;		/* ours */
	struct kv_dev			*dev;		/* ours; NULL = ids only */
	struct kvmm_plane		*plane;		/* ours; the memory they name may not be */
	u32				nr_planes;	/* 0 = ids only */
	u32				nr_blocks;	/* null block included */
	u32				nr_usable;
	u32				block_tokens;
	u32				compact_max_blocks;
	u32				gen_base;	/* first generation of everything here */
	bool				deterministic;	/* KVMM_POOL_DETERMINISTIC; see determ.h */
	bool				has_null;
	bool				rounds;		/* the engine holds more than requested */
	u64				seed;		/* of random choices, if deterministic */
	u32				nth_unseeded;	/* number with seed 0; pool_random() */
	u64				block_bytes;
	u64				own_addr;	/* device memory of ours, or 0 */
	u64				own_bytes;
	struct kv_area			*area;		/* ours; the area it is part of, or NULL */
	u32				*owner;		/* by block; the content: ->lock */
	u32				zero;		/* enum kvmm_zero */
	u32				*tenant;	/* by block: of its content; see tenant.c */
	bool				caches;		/* has a policy, and so entries and a map */
	bool				prefix_closed;
	bool				resets;		/* KVMM_POOL_RESET_ON_RELEASE */
	bool				as_put;		/* KVMM_POOL_ORDER_AS_PUT */
	u32				dup;		/* enum kvmm_dup, not KVMM_DUP_POOL */
	struct kv_map			*map;		/* ours */
	struct tally_row		*tally;		/* KV_TALLY_ROWS */
	struct mags			*mags;		/* ours; NULL: there are none */
	const struct local_ops		*local;		/* see local.h */
	struct arenas			*arenas;	/* ours; set once, ->lock; pool_arenas() */
	char				name[KV_POOL_NAME];
	struct kvmm_pool		*next;		/* in the list of all; its owner's lock */
	struct kv_rcu_head		rcu;		/* kv_pool_destroy() */

	u32				tick __cacheline_aligned;	/* any thread; the latest */

	/* To move blocks or touch their content. */
	struct kv_lock			compact_lock __cacheline_aligned;

	/* The hot lines. */
	struct kv_lock			lock __cacheline_aligned;
	u32				gate;		/* ->lock; READ_ONCE() as a hint */
	u32				guard;		/* the same; see door.h */
	u32				free_slot;	/* ->lock; last freed first; KV_NONE */
	u32				nr_retired;	/* ->lock; slots out of generations */
	u32				nr_flying;	/* ->lock; runs of ranges that are copied */
	u32				nr_leaving;	/* ->lock; pageblocks; see leave.h */
	u32				blind;		/* ->lock; READ_ONCE() hint; unseen.h */
	u32				nr_unseen;	/* ->lock; blocks of OWNER_UNSEEN */
	u32				posted;		/* ->lock; freed since taken; block.c */
	struct slot_dir			*slots;		/* ->lock; lock-free: acquire */
	struct seq_table		seqs;		/* ->lock; without those of arenas */
	u64				seq_secret;	/* fixed at creation */
	u64				metadata_bytes;	/* ->lock */
	struct pool_count		count;		/* ->lock; see pool_counts() */
	struct pool_grow		grow;		/* ->lock */
	u32				arena_heat;	/* ->lock; see __arena_warm() */
	u32				fold_seq;	/* counter, ->lock; see counts_peek() */
	u32				mag_seq;	/* the same; see feed/counts.c */
	u32				arenas_barred;	/* ->lock; not 0: none may come into use */
	struct mag			*armed;		/* ->lock; magazines in use */
	u32				spare;		/* fixed at creation; see percpu/mag.h */
	bool				no_mags;	/* ->lock; once set, it stays */
	struct freed			freed;		/* see there */

	u64				observed;	/* atomic; parts that are told, by number */
	struct pool_presence		presence;	/* see there */
	u64				told_ns;	/* atomic; see pool_clock_ns() */
	struct completions		completions;	/* see there */
	struct asked			asked;		/* see there */
	struct background		*background;	/* atomic; fixed once it is there */
	struct steps			*steps;		/* atomic; fixed once there; see step.h */
	struct transit			transit;	/* see transit.h */
	struct useless			useless[2];	/* for one run, and for several */
	struct goals			*goals;		/* compact_lock; fixed once there; goal.h */
	struct elastic			*elastic;	/* atomic; fixed once there; see leave.h */
	struct pageblocks		pb;		/* see pageblock.h */
	int	(*elastic_tick)(struct kvmm_pool *pool);	/* see elastic_tick() */
	struct sum			history;	/* ->lock; see digest.h */
	struct claims			claims;		/* ->lock; see claims.h */
	struct lease_table		*leases;	/* see lease.h; kv_cas() from NULL, once */
	bool				shares_blocks;	/* ->lock; acquire; own_share_blocks() */
	struct lower			*lower;		/* ->lock; acquire; tier/pool/; or NULL */
	struct token_dir		*tokens;	/* see tokens.c */
	struct kv_entries		entries;	/* see there */
	struct order			order;		/* see there */
	struct window			window;		/* see victim.h */
	struct pin_limit		pins;		/* see pin.h */
	struct verify			*verify;	/* atomic; fixed once there; see verify.h */
	bool				any_lost;	/* ->lock; READ_ONCE() as a hint; cache/ */
	struct kvmm_stay		stay;		/* compact_lock; see kvmm_stay_last() */
	struct pin_types		*pin_types;	/* atomic; fixed once there; see pin.h */
	struct residency		*residency;	/* atomic; fixed once there; feed/ */
	struct pool_events		*events;	/* atomic; fixed once there; feed/ */
	struct kv_fork_node		fork_node;	/* its list's */
	struct door			door;		/* see there */
	u64				group_as_put[BIT(16) / 64];	/* ->lock; READ_ONCE() */
};

/* ---- door.c ---- */

/* Free blocks that a request leaves behind, or DOOR_SHUT. */
static __always_inline u32 door_keep(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return likely(!pool->guard) ? 0 : __door_keep(pool, ctx);
}

/* Free blocks that a plain request has to leave behind in any case. */
static inline u32 door_floor(const struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return pool->door.nr_promised + pool->door.marks.low;
}

/* Evicting helps, and is allowed. Blocks of a blind device are not free once they are evicted. */
static inline bool flags_let_evict(const struct kvmm_pool *pool, u32 flags)
{
	kv_assert_held(&pool->lock);
	return pool->caches && !(flags & KVMM_ALLOC_NO_EVICT) && likely(!pool->blind);
}

static inline bool alloc_may_evict(const struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	return flags_let_evict(pool, ctx->flags);
}

/* May it take @nr of the free blocks? */
static __always_inline bool door_lets(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr)
{
	kv_assert_held(&pool->lock);
	return likely(!pool->guard) || __door_lets(pool, ctx, nr);
}

/* ---- feed/validate.c ---- */

/* Sums of pool->owner[], slots and entries, for the checks of parts. */
struct pool_recount {
	u32 nr_slots;			/* in the table */
	u32 nr_free_slots;
	u32 nr_in_seqs;			/* live slots with a sequence, no arena's */
	u32 nr_owned[NR_OWNERS];	/* blocks by kind of owner */
	u32 nr_in_order;
	u32 nr_claimed;
	u32 nr_lent;			/* of those */
	u32 nr_moving;			/* entries */
	u64 tally[NR_TALLIES];
	struct pool_count count;
};

/* ---- gate.c ---- */

int __pool_enter_slow(struct kvmm_pool *pool);
void pool_poison(struct kvmm_pool *pool);
/* Log what is wrong. Returns -EUCLEAN. */
int pool_complain(const struct kvmm_pool *pool, const char *what, u32 nr);

/*
 * Close the gate and wait until no thread is inside; open it again. compact_lock and lock held; the
 * former drops lock, the latter wants it.
 */
void pool_stop(struct kvmm_pool *pool);
void pool_resume(struct kvmm_pool *pool);

/* For callers that do not wait at the gate: 0, or why it lets no thread in any more. */
static inline int gate_refusal(u32 gate)
{
	if (likely(!(gate & (GATE_POISONED | GATE_FORKED))))
		return 0;
	return gate & GATE_FORKED ? -ECHILD : -EUCLEAN;
}

static inline int pool_refusal(const struct kvmm_pool *pool)
{
	kv_fork_look();
	return gate_refusal(READ_ONCE(pool->gate));
}

/* As KV_BUG_ON(), and the pool is closed. */
#define POOL_BUG_ON(pool, cond)			\
	({					\
		bool __bad = KV_BUG_ON(cond);	\
		if (__bad)			\
			pool_poison(pool);	\
		__bad;				\
	})

/* -ESTALE if @gen was given out before @now, else it is made up, or another pool's. */
int refuse_handle(const struct kvmm_pool *pool, u32 now, u32 gen);

/* Take the lock. Waits while blocks are being moved: a thread inside sees a whole picture. */
static __always_inline int pool_enter(struct kvmm_pool *pool)
{
	if (unlikely(!pool))
		return -EINVAL;
	kv_lock(&pool->lock);
	if (likely(!pool->gate))
		return 0;
	return __pool_enter_slow(pool);
}

/* ---- block.c, queue.c and door.c: release ---- */

/* @nr blocks have become free, or may be for others. ->lock held; order.lock may be. */
static __always_inline void release_post(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	pool->posted += nr;
}

void __release_settle(struct kvmm_pool *pool);

/* Work that frees blocks to take them is no news: as @posted was; @evicted: but these are. */
void release_take_back(struct kvmm_pool *pool, u32 posted, bool evicted);

/*
 * Drop the lock, and settle posted blocks and those that threads keep aside. A plain kv_unlock() is
 * for the middle of work with the gate closed: the lock is taken again, and left later.
 */
static __always_inline void pool_leave(struct kvmm_pool *pool)
{
	if (unlikely(pool->guard))
		__release_settle(pool);
	kv_unlock(&pool->lock);
}

void __release_put(struct kvmm_pool *pool, u32 nr);

/* @nr blocks can be evicted from now on; the order has been told. No lock held, no read section. */
static inline void release_put(struct kvmm_pool *pool, u32 nr)
{
	/* Pairs with door_set_guard() through the lock of the log: see ordering.rst. */
	if (unlikely(READ_ONCE(pool->guard) & GUARD_QUEUE))
		__release_put(pool, nr);
}

/* They lose their owner, and are free as soon as nothing is in the way of that. ->lock held. */
void blocks_free(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);
/* The same of single ones, @nr > 0, in any order. */
void blocks_free_single(struct kvmm_pool *pool, const u32 *blocks, u32 nr);
/* Up to @nr that were freed last, of those that are free; how many. */
u32 blocks_take_freed(struct kvmm_pool *pool, u32 nr, u32 *ids);

/* The same of all blocks in a place with owners of that kind, by owner. How many. ->lock held. */
u32 blocks_free_of(struct kvmm_pool *pool, enum owner_kind kind, struct kvmm_extent within);

static inline void block_free(struct kvmm_pool *pool, u32 block)
{
	blocks_free(pool, &(struct kvmm_extent){ block, 1 }, 1);
}

/* 1, 2, ...; never 0, so that a zeroed handle is none. */
static inline u32 next_gen(u32 gen)
{
	return gen + 1 ? gen + 1 : 1;
}

#include "ranges.h"

/* ---- quotas ---- */

#include "quota.h"

/* ---- request/grow.c ---- */

/* Flags of a range's allocation that hold for its growth as well: not NOWAIT, not a place. */
#define GROWTH_FLAGS	(KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT)

/* One range that grows, alone or in a batch. */
struct range_growth {
	struct alloc_ctx ctx;
	kvmm_range_t	range;
	u32		from;		/* blocks that the range had */
	u32		in_batch;	/* 0: alone; else flags of all: grow_took() comes later */
	bool		zeroed;
};

/* ->take() of it. With a zero policy the range is pinned until growth_end(). */
int growth_take(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* 0 or -EIO. No lock held, as for the next. */
int growth_zero(struct kvmm_pool *pool, struct range_growth *growth);
int growth_end(struct kvmm_pool *pool, const struct range_growth *growth, bool undo);
/* @nr more blocks, room made for them; no lock held. */
int grow_one(struct kvmm_pool *pool, kvmm_range_t range, u32 nr);

/* ---- block.c ---- */

void owner_fill(struct kvmm_pool *pool, u32 start, u32 nr, u32 owner);

static inline void owner_fill_one(struct kvmm_pool *pool, u32 block, u32 owner)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->deterministic))
		owner_fill(pool, block, 1, owner);	/* and into the history */
	else
		WRITE_ONCE(pool->owner[block], owner);	/* as in owner_clear() */
}

void owner_clear(struct kvmm_pool *pool, u32 start, u32 nr);
/* Its state and owner, as kvmm_block_get_info() says. ->lock held, and arenas_lock(). */
struct kvmm_block_info block_info(struct kvmm_pool *pool, u32 block);

/* ---- cache/content.c ---- */

/* Zero the content: 0 or -EIO. No lock held; the blocks are the caller's and do not move. */
int blocks_zero(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);
int __tenant_take_run(struct kvmm_pool *pool, struct kvmm_extent run, u32 tenant);
int __tenant_take_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u32 tenant);

/* ---- tenant.c ---- */

/* No tenant's: the content is of unknown origin, and zeroed for each. */
#define TENANT_UNKNOWN	KV_NONE

/* A copy to there has failed: there may be anything. */
void tenant_forget(struct kvmm_pool *pool, u32 start, u32 nr);
/* Content has been copied. */
void tenant_move(struct kvmm_pool *pool, u32 src, u32 dst, u32 nr);

/*
 * Blocks are handed out: zero those that have to be. 0 or -EIO. No lock held; they are the
 * caller's, and do not move.
 */
static inline int tenant_take_run(struct kvmm_pool *pool, struct kvmm_extent run, u32 tenant)
{
	kv_assert_not_held(&pool->lock);
	return likely(!pool->zero) ? 0 : __tenant_take_run(pool, run, tenant);
}

static inline int tenant_take_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr,
				   u32 tenant)
{
	return likely(!pool->zero) ? 0 : __tenant_take_muts(pool, muts, nr, tenant);
}

#include "cached.h"

/* ---- kvmm_pool_stat_of(), by kind: *@stat is zeroed ---- */

int alloc_stat_read(struct kvmm_pool *pool, void *stat);
int pressure_stat_read(struct kvmm_pool *pool, void *stat);
int growth_stat_read(struct kvmm_pool *pool, void *stat);
int pin_stat_read(struct kvmm_pool *pool, void *stat);
int stay_stat_read(struct kvmm_pool *pool, void *stat);
int step_stat_read(struct kvmm_pool *pool, void *stat);
int pace_stat_read(struct kvmm_pool *pool, void *stat);
int verify_stat_read(struct kvmm_pool *pool, void *stat);
int background_stat_read(struct kvmm_pool *pool, void *stat);
int elastic_stat_read(struct kvmm_pool *pool, void *stat);
int tier_stat_read(struct kvmm_pool *pool, void *stat);
int tier_time_read(struct kvmm_pool *pool, void *stat);
int tier_config_read(struct kvmm_pool *pool, void *stat);

/* The same without the lock: each number is of its own moment. */
void alloc_stat_peek(struct kvmm_pool *pool, struct kvmm_alloc_stat *stat);

/* ---- kvmm_pool_set(), by setting ---- */

int watermarks_set(struct kvmm_pool *pool, const void *value);
int pace_set(struct kvmm_pool *pool, const void *value);
int background_set(struct kvmm_pool *pool, const void *value);
int verify_set(struct kvmm_pool *pool, const void *value);
int balloon_set_bytes(struct kvmm_pool *pool, const void *value);
int tier_configure(struct kvmm_pool *pool, const void *value);
int elastic_setup(struct kvmm_pool *pool, const void *value);
int quiescent_set(struct kvmm_pool *pool, const void *value);

#include "pageblock.h"

#endif /* POOL_INTERNAL_H */
