/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's side of its tiers: blocks queued to go down, blocks on their way, and their waiters.
 *
 * An *item* is a block on its way: pinned in the device and written below, or read below and
 * private in the device. Items travel in *batches*, one copy each. An *operation* is what a caller
 * waits for: for each of its blocks there is a *want*, which hangs at what has to happen first.
 *
 *	op.want[0] ---> item (up): key, slot below, private block, batch
 *	op.want[1] ---> below[entry]: QUEUED, then FLYING with an item (down)
 *	op.ref[2]	had already
 *
 * Invariants, recomputed by lower_check():
 *
 *  1. An item is free, or in exactly one of: the list of those that are ready, that of those that
 *     the store below reads, one batch, the hands of one thread (state TAKEN).
 *  2. Items on their way up are in the table of names, each name once, until their end is decided.
 *     Each reads a slot below, or waits for one; those that are ready or in a batch have a private
 *     block that is marked as being written.
 *  3. An item on its way down writes a slot below, and its entry is pinned once for it;
 *     below[entry] is FLYING, of that generation.
 *  4. below[i] is in the heap if and only if it is QUEUED; the heap is one.
 *  5. An operation is over if and only if none of its wants hangs anywhere. nr_left counts those
 *     that do.
 *  6. Every count equals a recount.
 *
 * Locks: ->lock guards all fields that name no other guard. Read sections and steps->lock are
 * outside, order.lock and the tier's inside; pool->lock is not taken under it. A batch that is
 * FILLING or ENDING belongs, with its content, to one thread, which holds no lock while it speaks
 * to the device.
 */
#ifndef POOL_TIER_H
#define POOL_TIER_H

#include <kv/latency.h>
#include <kv/tier.h>
#include <pool/internal.h>

#include "thrash.h"

/* ---- an entry's copy below ---- */

enum below_state {
	BELOW_NONE,
	BELOW_QUEUED,		/* to go down */
	BELOW_FLYING,		/* on its way */
	BELOW_CLEAN,		/* it has a copy, unless that has been evicted */
};

/* By entry, of one generation; of another one it is BELOW_NONE. Guard: ->lock. */
struct below {
	u64			rank;	/* QUEUED: the lowest goes first */
	struct want		*wants;	/* QUEUED, FLYING */
	struct kv_tier_slot	copy;	/* CLEAN */
	u32			gen;
	u32			pos;	/* QUEUED: in the heap */
	u32			name;	/* QUEUED, FLYING: of this added name; 0: of the first */
	u8			state;	/* enum below_state */
	u8			drop;	/* KVMM_TIER_DROP */
	u8			renamed; /* FLYING: the copy is of the name before */
	u8			again;	/* renamed: a copy of the name of now is wanted, too */
};

/* ---- operations ---- */

/* Guard: ->lock. */
struct want {
	struct tier_op	*op;		/* fixed */
	struct want	*next;		/* the next one that waits for the same */
	struct want	**at;		/* in that list: the pointer to here; NULL: hangs nowhere */
};

struct tier_op {
	u32		index;		/* fixed; of its place in the table */
	u32		nr;		/* fixed */
	bool		is_load;	/* fixed */
	bool		is_busy;	/* ->lock; its maker is not done yet: no other thread's */
	u32		nr_left;	/* ->lock */
	u32		nr_failed;	/* ->lock */
	s32		error;		/* ->lock; of the first block that failed */
	struct want	*want;		/* ours; by block */
	struct kv_handle *ref;		/* ours; loads: one each where there is a gen; ->lock */
	s32		*block_error;	/* ours; ->lock */
};

struct op_place {
	struct tier_op	*op;		/* ->lock; NULL: free */
	u32		gen;		/* ->lock; of it, or of the next one */
};

/* ---- blocks on their way ---- */

enum item_state { ITEM_FREE, ITEM_TAKEN, ITEM_READY, ITEM_BATCH, ITEM_FETCH };

/* Guard: ->lock; but TAKEN or in a batch: that thread, except ->wants, ->next_name. */
struct item {
	struct kv_tier_name	name;
	struct kv_tier_slot	slot;		/* gen 0: none yet */
	struct kv_tier_fetch	fetch;		/* up: from the store below; .io NULL: no */
	struct kv_handle	entry;		/* down: pinned; up: private; gen 0: none yet */
	struct want		*wants;		/* up */
	u64			sum;		/* up: the block's sum when it went down */
	u32			next;		/* free, or ready */
	u32			next_name;	/* up: in its chain */
	u8			state;		/* enum item_state */
	bool			is_up;		/* fixed */
	bool			is_named;	/* up: in the table of names */
	bool			is_kept;	/* up: to be cached though no caller waits */
	bool			has_sum;	/* its checksum is to be kept, or compared */
	bool			is_fetched;	/* up: the store below had it, not the host tier */
	bool			is_publishing;	/* up: right, wanted and being registered */
};

enum batch_state { BATCH_FREE, BATCH_FILLING, BATCH_COPYING, BATCH_ENDING };

#define NR_BATCHES	16u
/* Copies down leave so many to copies up. */
#define NR_BATCHES_UP	4u

struct batch {
	u32			state;		/* ->lock; enum batch_state */
	bool			is_up;		/* the thread that has it, as of all that follows */
	bool			is_summed;	/* ->sum is filled */
	struct completion	completion;
	u32			nr;
	u32			nr_copy;	/* the first so many are copied */
	struct kv_xfer		xfer;
	u32			*item;		/* ours; room for batch_blocks, as of the others */
	u32			*block;		/* ours */
	struct kv_tier_slot	*slot;		/* ours */
	struct kv_move		*move;		/* ours */
	struct kvmm_plane	*plane;		/* ours; room for those of a block */
	u64			*sum;		/* in lower->sums */
	s32			*error;		/* ours */
};

/* At the next victims. */
struct look {
	u64			stamp;		/* of the order, at the last one */
	u64			long_stamp;	/* at the last long one */
	u32			nr;		/* victims that went through; 0: next is long too */
	u32			max;		/* that were wanted then */
};

struct lower {
	/* Fixed at creation. */
	struct kv_tier_client	*client;
	struct kvmm_tier	*tier;
	u32			flags;		/* KVMM_TIER_COMPLETE */
	u32			registry_tier;	/* or KVMM_TIER_UNTOLD */
	u64			block_bytes;
	u64			layout;
	u32			max_up;
	u32			max_down;
	u32			nr_items;
	u32			batch_blocks;
	u32			nr_names;	/* buckets, a power of two */
	u64			secret;
	u64			metadata_bytes;
	bool			has_streams;	/* the device works beside us */

	struct kv_lock		lock;
	struct kvmm_tier_config	config;		/* ->lock */
	struct item		*item;		/* ours */
	u32			free_item[2];	/* ->lock; down, up; KV_NONE */
	u32			nr_used[2];	/* ->lock; READ_ONCE() as a hint */
	u32			*name;		/* ->lock; by hash: an item, or KV_NONE */
	u32			first_ready;	/* ->lock; KV_NONE */
	u32			last_ready;	/* ->lock */
	u32			first_fetch;	/* ->lock; items in ITEM_FETCH; KV_NONE */
	struct batch		batch[NR_BATCHES];
	struct kv_host_mem	sums;		/* ours; of all batches; .ptr fixed at creation */
	struct below		*below;		/* ->lock; by entry */
	u32			*heap;		/* ->lock; entries */
	u32			*seen;		/* ours; atomic; by entry: generation and uses */
	u32			nr_heap;	/* ->lock; READ_ONCE() as a hint */
	u64			nr_queued;	/* ->lock; since the creation: order of arrival */
	struct op_place		*op;		/* ->lock */
	u32			nr_ops;		/* ->lock */
	u32			nr_over;	/* ->lock; operations to be fetched */
	int			event;		/* ->lock; descriptor, or -1 */
	/* ->lock, but for refaults and raised, which have none; events only. */
	struct kvmm_tier_client_stat stat;
	struct thrash		thrash;		/* see there */
	struct look		look;		/* order.lock; the last one */
};

static inline struct lower *lower_of(struct kvmm_pool *pool)
{
	/* Pairs with kvmm_tier_attach(): the struct behind the pointer is complete. */
	return smp_load_acquire(&pool->lower);
}

/* A pool that has tiers, and is open: 0, or an error. */
static inline int lower_enter(struct kvmm_pool *pool, struct lower **lower)
{
	int err;

	if (!pool)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	*lower = lower_of(pool);
	return *lower ? 0 : -EOPNOTSUPP;
}

/* ---- op.c; ->lock held where not said otherwise ---- */

/* An operation on @nr blocks, not in the table, or NULL. No lock held; so for op_free(). */
struct tier_op *op_make(u32 nr, bool is_load);
void op_free(struct tier_op *op);
/* 0 or -EAGAIN. */
int op_publish(struct lower *lower, struct tier_op *op, kvmm_tier_op_t *handle);
/* Out of the table; a caller that has the handle is refused from then on. */
void op_unpublish(struct lower *lower, struct tier_op *op);
/* Block @i waits at @list. */
void op_hang(struct tier_op *op, u32 i, struct want **list);
/* No block of it waits any more. */
void op_unhang(struct tier_op *op);
/* The event that this want waited for has happened. */
void want_end(struct lower *lower, struct want *want, int error);
void wants_end(struct lower *lower, struct want **list, int error);
/* It is complete: others may find it from now on; it may be over already. */
void op_open(struct lower *lower, struct tier_op *op);
/* Put its references, and free it. */
void op_drop(struct kvmm_pool *pool, struct tier_op *op);

/* ---- item.c; ->lock held ---- */

u32 item_take(struct lower *lower, bool is_up);
void item_free(struct lower *lower, u32 index);
u32 item_find(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain);
void item_hash(struct lower *lower, u32 index);
void item_unhash(struct lower *lower, u32 index);
void item_ready(struct lower *lower, u32 index);
u32 item_pop_ready(struct lower *lower);

/* ---- queue.c; ->lock held ---- */

/* Of this generation. */
struct below *below_of(struct lower *lower, struct kv_handle handle);
/* To go down; a block already queued keeps the higher priority of the two. */
struct below *below_queue(struct lower *lower, struct kv_handle handle, u32 priority);
/* The first one, out of the queue, and FLYING; or NULL. */
struct below *below_pop(struct lower *lower, struct kv_handle *handle);
/* None is queued; waiters are told. */
void below_clear(struct lower *lower, int error);
bool heap_is_sound(const struct lower *lower);

/* ---- batch.c; no lock held ---- */

/* Is it known which work the engine's streams were given so far? */
bool lower_is_ordered(struct kvmm_pool *pool, const struct lower *lower);
struct batch *batch_get(struct lower *lower, bool is_up);
void batch_put(struct lower *lower, struct batch *batch);
/* Fill in ->block and ->slot, and begin the copy: 0 and it is COPYING, or an error. */
int batch_submit(struct kvmm_pool *pool, struct lower *lower, struct batch *batch);
/* Ends all that are complete. */
void batches_poll(struct kvmm_pool *pool, struct lower *lower);
/* Each transfer meets the walk; sums are made of those from or to the device that are complete. */
void batches_walk(struct kvmm_pool *pool, struct lower *lower, struct completion_walk *walk);
/* Checksums of those of its items that want one, in ->sum; the copy is complete: 0 or -EIO. */
int batch_sums(struct kvmm_pool *pool, struct lower *lower, struct batch *batch);

/* ---- down.c, up.c; no lock held ---- */

void down_begin(struct kvmm_pool *pool, struct lower *lower);
void down_end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error);
void up_begin(struct kvmm_pool *pool, struct lower *lower);
void up_end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error);
/* Whether the content is what went down: 0, -EBADMSG, or the sums' error. ->sum is filled then. */
int up_compare(struct kvmm_pool *pool, struct lower *lower, struct batch *batch);
/* Reads of the store below that ended are ready, or have failed. */
void up_fetched(struct kvmm_pool *pool, struct lower *lower);
/* Loads of these names under way bring nothing; those being registered are waited for. */
void up_forget(struct lower *lower, const struct kvmm_prefix *prefix);
/* The same of all names, of a stopped pool that holds no block: none is being registered. */
void up_forget_all(struct lower *lower);

/* ---- policy.c; no lock held ---- */

/* Queue the blocks that the fullness of the pool calls for. */
void policy_look(struct kvmm_pool *pool, struct lower *lower);
/* How many of the blocks below are worth loading. ->lock held. */
void lower_split(const struct kvmm_pool *pool, const struct lower *lower,
		 struct kvmm_tier_match_args *match);

/* ---- told.c; no lock held ---- */

/* Memory to tell of @nr copies: 0 or -ENOMEM. */
int told_reserve(struct kvmm_pool *pool, struct lower *lower, u32 nr);
/* Uses up a reservation of one. */
void told_present(struct kvmm_pool *pool, struct lower *lower, const struct kv_tier_name *name);
/* Names that have gone below. */
void told_flush(struct kvmm_pool *pool, struct lower *lower);
void told_exit(struct kvmm_pool *pool, struct lower *lower);

/* ---- policy.c, match.c, down.c: told by the pool; see observer.h ---- */

void lower_renamed(struct kvmm_pool *pool, struct kv_handle handle);
void lower_named(struct kvmm_pool *pool, const struct kv_handle *handles,
		 const struct kvmm_name *names, u32 nr);
void lower_touched(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr);
void lower_filled(struct kvmm_pool *pool, const struct kv_handle *handles,
		  const struct kv_handle *found, u32 nr);
int lower_reset(struct kvmm_pool *pool);

/* ---- match.c: as kvmm_tier_recall() ---- */

int tier_recall(struct kvmm_pool *pool, const void *value);

/* ---- glance.c ---- */

/* All but ->clean: each of its own moment; events are of one if ->lock is held. */
void lower_fill_stat(const struct lower *lower, struct kvmm_tier_client_stat *stat);
/* Its tier, seen in passing, or NULL. */
struct kvmm_tier *lower_glance(struct kvmm_pool *pool, struct kvmm_tier_client_stat *stat);

#endif /* POOL_TIER_H */
