/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pageblocks that leave the pool, and units of memory behind them.
 *
 *	HERE --choose--> LEAVING --empty--> AWAY --every step is through--> units are given back
 *	  ^		    |		      |
 *	  +----give up------+------grow-------+
 *
 * Their blocks: see pool/pageblock.h.
 *
 * Planes are merged into *spans*: stretches of memory in which every byte is a block's. Units are
 * numbered by span.
 *
 * Invariants, recomputed by elastic_check():
 *
 *  1. A block of a pageblock that is HERE is not away; all blocks of an AWAY one are OWNER_AWAY.
 *  2. nr_away and pool->nr_leaving equal a recount; so does nr_units.
 *  3. A unit that is not OURS lies in pageblocks that are AWAY and read by no step.
 *
 * Guard: compact_lock, but for what is fixed.
 */
#ifndef POOL_LEAVE_H
#define POOL_LEAVE_H

#include <kv/defrag_cheapest.h>
#include <kv/dev.h>
#include <kvmm/ext/moves.h>
#include <pool/local.h>

/* Of a pageblock, as long as one shrink or grow takes: bits. */
enum leave_mark {
	MARK_NONE,
	MARK_BARRED = 1,	/* cannot be emptied */
	MARK_FRESH = 2,		/* goes with this call */
	MARK_BACK = 4,		/* comes with this call: units there, though still AWAY */
};

/* Of a pageblock that is AWAY: read by no step; empty; an epoch has begun since. */
enum wait_state { WAIT_NO, WAIT_EMPTY, WAIT_EPOCH };

/* Of a unit of memory; one that is not OURS holds no block of the pool. */
enum unit_state {
	UNIT_OURS,
	UNIT_UNTOLD,	/* the caller's next, see units_tell() */
	UNIT_GONE,	/* unmapped, or the caller was told of it */
	UNIT_STUCK,	/* the driver would neither unmap nor map it */
	NR_UNIT_STATES,
};

struct span {
	/* Fixed at creation. */
	u64 base;		/* of block 0 */
	u64 stride;
	u64 first;		/* address of unit 0 */
	u32 nr_units;

	u8 *unit;		/* ours; enum unit_state: compact_lock */
};

/* A shrink beside steps. Guard: compact_lock. */
struct leave_job {
	bool active;
	bool balloon;		/* no caller waits for its end */
	u32 mode;
	u32 flags;
	bool in_blocks;		/* the next three count blocks; else units */
	u64 want;
	u64 least;
	u64 got;		/* chosen, and not given up */
	u64 done;		/* of it: given back */
	u32 max_moved;
	int end;		/* a poll's result for the last one */
	struct kvmm_shrink out;
};

/* Pageblocks that are empty, and that a step may still read. Guard: compact_lock. */
struct leave_wait {
	bool on;		/* some are WAIT_EPOCH */
	u64 epoch;
	u32 nr;			/* that are not WAIT_NO */
};

struct elastic {
	/* Fixed at creation. */
	u64 unit_bytes;		/* 0: ids only */
	u32 nr_spans;
	struct span *span;	/* ours */

	/* compact_lock. */
	u64 nr_units[NR_UNIT_STATES];
	struct leave_job job;
	struct leave_wait wait;
	u8 *waiting;		/* ours; by pageblock: AWAY, still read; enum wait_state */
	u64 target;		/* of the balloon, in bytes */
	bool balloon_on;	/* it has not come near that yet */
	u32 nr_deferred;	/* ticks that are left out */
	u32 defer_shift;
	u64 nr_relents;
	u64 shrunk_bytes;
	u64 grown_bytes;
	u64 moved;
	u64 evicted;
	u64 nr_failed;

	/* Scratch of a choice; compact_lock. */
	struct kv_group *heap;	/* ours; as many as pageblocks */
	u8 *mark;		/* ours; by pageblock; enum leave_mark */
	struct kv_move *move;	/* ours; LEAVE_MOVES */
};

#define DEFAULT_UNIT	(2ull << 20)

/* Most moves that are planned at a time. */
#define LEAVE_MOVES	1024u

static inline struct elastic *elastic_of(const struct kvmm_pool *pool)
{
	/* Pairs with elastic_make(): the struct behind the pointer is complete. */
	return smp_load_acquire(&pool->elastic);
}

/* ---- leave.c ---- */

/* It is there from now on: 0, -ENOMEM, -EOPNOTSUPP. compact_lock held. */
int elastic_get(struct kvmm_pool *pool, struct elastic **el);

/* ---- leave_unit.c: memory ---- */

/* All but the first two: compact_lock held, no lock below it. */
int units_init(struct kvmm_pool *pool, struct elastic *el);
void units_exit(struct elastic *el);
/* Units that can be given back once this pageblock is AWAY, too, and all that are LEAVING are. */
u64 units_of_leaving(const struct kvmm_pool *pool, const struct elastic *el, u32 pb);
/*
 * Units that no step can touch any more go back to the device: how many, and *@err says if some did
 * not. Memory of the caller stays until it is told. @pb has come to be AWAY.
 */
u64 units_release(struct kvmm_pool *pool, struct elastic *el, u32 pb, int *err);
/* All units of the pageblock are there: 0, how many came; or as before, -ENOMEM, -ENOSPC, -EIO. */
int units_regain(struct kvmm_pool *pool, struct elastic *el, u32 pb, u64 *nr);
/* Ranges that the caller was not told of; how many. */
u32 units_tell(struct elastic *el, struct kvmm_mem_range *ranges, u32 max);
/* 0, or -EINVAL not all of that is whole units that he was told of. */
int units_take_back(struct elastic *el, const struct kvmm_mem_range *ranges, u32 nr);
/* All that @el says of units, recounted: 0 or -EUCLEAN. */
int units_check(const struct kvmm_pool *pool, const struct elastic *el);

/* ---- leave_pick.c: which, and where to ---- */

/**
 * struct leave_pick - pageblocks to be chosen
 * @mode: enum kvmm_move_mode, or MOVE_STOPPED
 * @flags: KVMM_SHRINK_*
 * @in_blocks: @want and @got are blocks, else units
 * @want: in the end; no more pageblocks than that takes
 * @max_room: so many free blocks may be used up, at most; see leave_room()
 * @max_moved: so many may be copied, at most
 * @got, @nr_room, @nr_moved: in; and out, with the chosen pageblocks
 */
struct leave_pick {
	u32 mode;
	u32 flags;
	bool in_blocks;
	u64 want;
	u64 max_room;
	u64 max_moved;
	u64 got;
	u64 nr_room;
	u64 nr_moved;
};

/* Those that were chosen are LEAVING, or, if @dry, HERE as before. Both locks held. */
void leave_choose(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, bool dry);
/*
 * Moves of runs in pageblocks that are LEAVING to free places elsewhere, into el->move: how many.
 * *@bad := a pageblock that cannot be emptied, or KV_NONE. Both locks held.
 */
u32 leave_plan(struct kvmm_pool *pool, struct elastic *el, u32 mode, u32 *bad);
/* Blocks in pageblocks that are LEAVING which still have to go. ->lock held. */
u64 leave_nr_held(struct kvmm_pool *pool);
/*
 * Free blocks that may be used up: not the @keep that have to stay free, nor one for each block
 * that still has to leave a pageblock. Less than 0: so many are missing. Both locks held.
 */
s64 leave_room(struct kvmm_pool *pool, u32 keep);
/* It cannot be emptied after all: HERE again, and barred. Both locks held. */
void leave_give_up(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u32 pb);
/*
 * leave_choose() with the room that there is now; then blocks that cost less to lose than to copy
 * are claimed, and free. 0; -ENOSPC @pick->got is below @least. Both locks held, and where the pool
 * caches, its order.
 */
int leave_choose_and_drop(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick,
			  u64 least, struct victims *victims);

/* ---- leave_stat.c ---- */

/* What elastic_stat_read() reads; without its locks each number is of its own moment. */
void elastic_stat_peek(struct kvmm_pool *pool, struct kvmm_elastic_stat *stat);

/* ---- leave_stop.c ---- */

int shrink_read(const struct kvmm_pool *pool, const struct kvmm_shrink *src,
		struct kvmm_shrink *req);
/* -EINVAL or -EOPNOTSUPP where it says nothing that can be done. */
int shrink_goal(const struct elastic *el, const struct kvmm_shrink *req, struct leave_pick *pick,
		u64 *least);
/*
 * leave_choose_and_drop() in the pool's order; if @is_first, victims make way for @pick before,
 * and it may be -EAGAIN, too. Both locks held.
 */
int shrink_choose(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u64 least,
		  struct victims *victims, bool is_first);
/* Pageblocks that are LEAVING are HERE again. Both locks held. */
void shrink_undo(struct kvmm_pool *pool);

/* ---- leave_beside.c ---- */

/* compact_lock held, for all of these. */
int job_start(struct kvmm_pool *pool, struct elastic *el, const struct kvmm_shrink *req, u32 mode);
void job_advance(struct kvmm_pool *pool, struct elastic *el);
void job_cancel(struct kvmm_pool *pool, struct elastic *el);
void job_due(struct kvmm_pool *pool, const struct elastic *el);

/* ---- leave_grow.c ---- */

/* What is due of a job, or of the balloon: is there more? No lock held. */
int elastic_work(struct kvmm_pool *pool);

int regain(struct kvmm_pool *pool, struct elastic *el, struct kvmm_regain *req);

#endif /* POOL_LEAVE_H */
