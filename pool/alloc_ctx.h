/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for blocks on its way: its demand, how far it has come, its price.
 *
 * Every request is one of these, be it for a range, private blocks, a promise, growth, a part of a
 * gang. Its ->take() takes the blocks as things are; the slow path in room.c makes room for it,
 * step by step, and calls ->take() again after each; wait.c lets it wait for its turn. The answer
 * is counted once, when the request leaves alloc_slow().
 */
#ifndef POOL_ALLOC_CTX_H
#define POOL_ALLOC_CTX_H

#include <kv/types.h>
#include <kvmm/ext/admission.h>
#include <order/order.h>

struct kvmm_pool;
struct ticket;
struct waiter;

/* Entries that were claimed to be used otherwise, newest first, through ->chain. ->lock. */
struct victims {
	u32 newest;
	u32 nr;
	struct order_mark before;	/* the order's, when there was none */
	u64 stamp;			/* the order's, when the newest was picked */
};

#define NO_VICTIMS	((struct victims){ .newest = KV_NONE })

/* Guard: the thread that brings the request on; while it waits, ->lock. */
struct alloc_ctx {
	/* The demand. */
	/* Both with ->lock held. ->reclaim(): NULL, or instead of alloc_reclaim(). */
	int		(*take)(struct kvmm_pool *pool, struct alloc_ctx *ctx);
	int		(*reclaim)(struct kvmm_pool *pool, struct alloc_ctx *ctx);
	u32		nr;		/* blocks */
	u32		flags;		/* KVMM_ALLOC_*; with NOWAIT, NO_EVICT and NO_COMPACT */
	u32		asked;		/* with NOWAIT: as the caller has said */
	u32		max_runs;	/* most runs that it may lie in; 0: one */
	u32		prio;
	kvmm_promise_t	promise;
	u64		deadline_ns;	/* absolute; 0: it does not wait */
	u64		seq;		/* its name in the queue */
	u32		tenant;
	u32		cls;
	struct kvmm_alloc_report *report;	/* the caller's, or NULL */
	kvmm_mut_t	*blocks;	/* out: private blocks, or NULL */
	kvmm_key_t	*keys;		/* out: of evicted blocks, room for all of it; or NULL */
	u32		nr_missing;	/* free blocks, to be taken or left; by alloc_fits() */
	u32		reserve;	/* to stay available besides */
	const struct kv_handle *hits;	/* referenced, and perhaps still in the order */
	u32		(*hit_at)(const struct alloc_ctx *ctx, u32 i);	/* or: entry of the i-th */
	u32		nr_hits;
	u32		nr_idle;	/* of these, or besides: so many that were not referenced */
	struct ticket	*ticket;	/* it waits without a thread; or NULL */
	const kvmm_range_t *grows;	/* NULL, or these do: their blocks stay */
	u32		nr_grows;	/* of ->grows; as it, fixed while the request lasts */

	/* How far it has come. */
	const struct waiter *self;	/* its place in the queue; NULL: none */
	u32		promised;	/* of its promise, to be taken by it */
	u32		account;	/* set by ->take(): it is charged */
	struct victims	victims;	/* picked for it so far; of a take, or the slow path */
	u32		spare;		/* evicted last because moving was dearer, or 0 */
	u64		before;		/* useless_stamp() before any of these were */
	u32		nr_free;	/* the first so many of ->blocks were free */
	u32		report_bytes;	/* of ->report, as far as the caller knows it */

	/* Asked for as well, and then how far it has come: small ones together. */
	bool		aside;		/* for a magazine: counted when they are handed out */
	bool		inside;		/* it has blocks and wants more: past the queue */
	bool		scatters;	/* it may lie in as many pieces as it takes, in the end */
	bool		in_place;	/* any block will do: victims are taken as they are */
	bool		patient;	/* it would rather wait than do what costs more */
	bool		squeezed;	/* its tenant has given up what its limits want */
	bool		scatter;	/* this is the end */
	bool		scattered;	/* enough blocks were free, but not together */
	bool		barred;		/* an open step kept it from moving blocks */
	bool		reaps;		/* a table that readers may look at was replaced */

	/* The price. */
	u32		evicted;
	u32		moved;
	u32		fragmentation_ppm;	/* before, if there is a report */
	u64		begin_ns;		/* the same */
	u64		waited_ns;
};

static inline u32 alloc_hit(const struct alloc_ctx *ctx, u32 i)
{
	return ctx->hit_at ? ctx->hit_at(ctx, i) : ctx->hits[i].index;
}

/* ---- request/room.c ---- */

/* The rest of a request: its ->take() has said -ENOSPC. ->lock held; it is not on return. */
int alloc_slow(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* The way of a request: 0, or how it ends. No lock held. */
int alloc_enter(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/*
 * All reclaimers in turn, with ->take() again after each: 0, or why not. ->lock held; without
 * KVMM_ALLOC_NO_COMPACT compact_lock, too, and ->lock is dropped and retaken. Victims are in
 * ->victims: their blocks are in the zone then, or taken from there.
 */
int alloc_reclaim(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/*
 * Will there be so many, once hits have left the order? 0, and ->nr_missing is set; -ENOSPC,
 * -EDQUOT. Both locks held. If there will not, reclaimers that work in place are used, as
 * alloc_reclaim() uses all of them: so a row of the table in room.c serves each kind of request.
 */
int alloc_fits(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* The question: the same of a pool that is asked before anything is taken. No lock held. */
int pool_fits(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* One try of a request that waits: -ENOSPC, or its end. ->lock held; dropped and retaken. */
int alloc_try(struct kvmm_pool *pool, struct alloc_ctx *ctx);

/* Count the answer @err, which is the last one. ->lock held. */
void alloc_count(struct kvmm_pool *pool, const struct alloc_ctx *ctx, int err);

/* Read the clock and the zone, if there is a report. @nr: in one run. No lock held. */
void alloc_report_begin(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr);
/* It has ended with @err. */
void alloc_report_end(const struct alloc_ctx *ctx, int err);

/* ---- request/private.c ---- */

/* The request in @ctl, and all else from zero: 0 or -EINVAL. */
int alloc_read_ctl(const struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
		   struct alloc_ctx *ctx);

/* ---- victims.c ---- */

/* victims_pick() until @nr more have a name: those without are to be spared, if the others go. */
bool victims_pick_named(struct kvmm_pool *pool, u32 nr, struct victims *victims);
/* They stay where they are, parked. Both locks held. */
void victims_spare_parked(struct kvmm_pool *pool, struct victims *victims);
/*
 * As kv_entries_take(). Victims keep their entries until it is sure that they go: if there are too
 * few others, it is now, and nothing else may be missing. Both locks held.
 */
int room_take_entries(struct kvmm_pool *pool, struct alloc_ctx *ctx, struct kv_handle *handles);
/* They go for good, or back to where they were. How many had a name and went. ->lock held. */
u32 victims_end(struct kvmm_pool *pool, struct victims *victims, bool restore);
/* They were picked later than those that are there. */
void victims_join(struct kvmm_pool *pool, struct victims *victims, const struct victims *more);
/* Blocks taken in vain have not been written to. */
void victims_still_left(struct kvmm_pool *pool, const struct victims *victims);
/* Blocks of the @nr newest go to the zone, but they keep their entries. ->lock held. */
void victims_free_blocks(struct kvmm_pool *pool, const struct victims *victims, u32 nr);
/* Its block is free now, and may become its own again, as long as nothing has written there. */
void victim_left(struct kvmm_pool *pool, u32 index);
/* It has it again; false: another owner has, or had it, and there may be anything. */
bool victim_return(struct kvmm_pool *pool, u32 index);

#endif /* POOL_ALLOC_CTX_H */
