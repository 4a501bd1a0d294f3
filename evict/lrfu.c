// SPDX-License-Identifier: Apache-2.0
/*
 * lrfu: recency and frequency in one number, and no setting.
 *
 * A block's place in virtual time is that of its last use, and later by one half-life for each
 * doubling of its uses, recent ones counting most (credit.h). Time passes as blocks are filled, so
 * it is measured in sizes of the pool: plain LRU evicts what is one size old. Evicted blocks leave
 * ghosts, so that a block that comes back has its credit. With a short half-life the order is that
 * of LRU, with a long one nearly that of LFU; trials (trial.h) tell which one this load wants.
 *
 * When that changes, blocks that wait are given their new places four at a time.
 *
 * A child's uses are uses of its parent, too, and a parent is put back behind its child: so no
 * parent is evicted before its child.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kv/hash.h>

#include "credit.h"
#include "ghost.h"
#include "trial.h"
#include "vtime.h"

/* Buckets of the past in the window: blocks older than that are all the same. */
#define PAST_BUCKETS	(VTIME_BUCKETS / 4)
/* Blocks that get a new place at each fill, while there are such. */
#define SWEEP		4u
/* The same in each run: who chooses keys to fit it makes the order worse, no more. */
#define SEED		0x5bd1e9955bd1e995ull

struct lrfu_block {
	u64 hash;		/* of the key; 0: never filled */
	u32 last;		/* tick of the last use */
	u8 credit;
	bool unnamed;		/* in the order, without key */
};

struct lrfu {
	/* Fixed at creation. */
	u32 nr_blocks;
	u32 shift;			/* ticks a bucket, as a power of two */
	struct lrfu_block *block;	/* these four behind this */
	struct vtime *order;
	struct ghosts *ghosts;
	struct trial *trial;

	u64 now;		/* blocks filled so far */
	u32 sweep;		/* next block that gets a new place; nr_blocks: there are none */
};

static size_t aligned(size_t bytes)
{
	return kv_align_up(bytes, KV_CACHELINE);
}

static size_t lrfu_bytes(u32 nr_blocks)
{
	return aligned(sizeof(struct lrfu)) + aligned(nr_blocks * sizeof(struct lrfu_block)) +
	       aligned(vtime_bytes(nr_blocks)) + aligned(ghosts_bytes(nr_blocks)) +
	       trial_bytes(nr_blocks);
}

static void lrfu_init(void *policy, u32 nr_blocks)
{
	struct lrfu *lrfu = policy;
	char *at = (char *)policy + aligned(sizeof(*lrfu));

	lrfu->nr_blocks = nr_blocks;
	lrfu->shift = kv_log2(max(nr_blocks / 32, 1u));
	lrfu->sweep = nr_blocks;
	lrfu->block = (struct lrfu_block *)at;
	at += aligned(nr_blocks * sizeof(struct lrfu_block));
	lrfu->order = (struct vtime *)at;
	at += aligned(vtime_bytes(nr_blocks));
	lrfu->ghosts = (struct ghosts *)at;
	at += aligned(ghosts_bytes(nr_blocks));
	lrfu->trial = (struct trial *)at;
	vtime_init(lrfu->order, nr_blocks);
	ghosts_init(lrfu->ghosts, nr_blocks);
	trial_init(lrfu->trial, nr_blocks);
}

static bool block_is_bad(const struct lrfu *lrfu, u32 block)
{
	return KV_BUG_ON(block >= lrfu->nr_blocks);
}

static u64 last_use(const struct lrfu *lrfu, const struct lrfu_block *state)
{
	return lrfu->now - (u32)((u32)lrfu->now - state->last);
}

static u64 bucket_of(const struct lrfu *lrfu, const struct lrfu_block *state)
{
	return (last_use(lrfu, state) + credit_ticks(state->credit, trial_best(lrfu->trial))) >>
	       lrfu->shift;
}

/* ---- time ---- */

static void sweep(struct lrfu *lrfu)
{
	for (u32 i = 0; i < SWEEP && lrfu->sweep < lrfu->nr_blocks; i++) {
		u32 block = lrfu->sweep++;

		if (!vtime_has(lrfu->order, block) || lrfu->block[block].unnamed)
			continue;
		vtime_leave(lrfu->order, block);
		vtime_enter(lrfu->order, block, bucket_of(lrfu, &lrfu->block[block]));
	}
}

static void tick(struct lrfu *lrfu)
{
	u64 bucket = ++lrfu->now >> lrfu->shift;

	if (bucket > PAST_BUCKETS)
		vtime_advance(lrfu->order, bucket - PAST_BUCKETS);
	if (unlikely(lrfu->sweep < lrfu->nr_blocks))
		sweep(lrfu);
}

static void count_use(struct lrfu *lrfu, u64 hash)
{
	if (unlikely(trial_use(lrfu->trial, hash, lrfu->now)))
		lrfu->sweep = 0;
}

/* ---- calls ---- */

/* The former content is gone now at the latest: here it becomes a ghost, so picks are easily undone. */
static void lrfu_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lrfu *lrfu = policy;
	struct lrfu_block *state = &lrfu->block[block];
	u32 credit, age;

	if (block_is_bad(lrfu, block))
		return;
	tick(lrfu);
	if (state->hash)
		ghost_put(lrfu->ghosts, state->hash, state->credit, last_use(lrfu, state),
			  lrfu->now);
	state->hash = kv_hash_key(key, SEED) | BIT64(63);
	state->credit = 0;
	if (ghost_take(lrfu->ghosts, state->hash, lrfu->now, &credit, &age))
		state->credit = credit_after(credit, age, trial_best(lrfu->trial));
	state->last = lrfu->now;
	count_use(lrfu, state->hash);
}

static void lrfu_hit(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;
	struct lrfu_block *state = &lrfu->block[block];

	if (block_is_bad(lrfu, block))
		return;
	state->credit = credit_after(state->credit, (u32)lrfu->now - state->last,
				     trial_best(lrfu->trial));
	state->last = lrfu->now;
	count_use(lrfu, state->hash);
}

static void lrfu_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lrfu *lrfu = policy;
	struct lrfu_block *state = &lrfu->block[block];

	if (block_is_bad(lrfu, block))
		return;
	state->unnamed = !key;
	state->last = lrfu->now;
	if (key)
		vtime_enter(lrfu->order, block, bucket_of(lrfu, state));
	else
		vtime_enter_first(lrfu->order, block);
}

static void lrfu_leave(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;

	vtime_leave(lrfu->order, block);
}

static u32 lrfu_pick(void *policy)
{
	struct lrfu *lrfu = policy;

	return vtime_pick(lrfu->order);
}

static void lrfu_take(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;

	vtime_take(lrfu->order, block);
}

static void lrfu_unpick(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;

	vtime_unpick(lrfu->order, block);
}

static void lrfu_expect(const void *policy, u32 block, bool soon)
{
	const struct lrfu *lrfu = policy;

	vtime_expect(lrfu->order, block, soon);
}

static bool lrfu_has(const void *policy, u32 block)
{
	const struct lrfu *lrfu = policy;

	return vtime_has(lrfu->order, block);
}

static u32 lrfu_nr(const void *policy)
{
	const struct lrfu *lrfu = policy;

	return lrfu->order->nr;
}

static int lrfu_check(const void *policy)
{
	const struct lrfu *lrfu = policy;
	int err = vtime_check(lrfu->order);

	return err ? err : trial_check(lrfu->trial);
}

const struct kv_evict_ops kv_evict_lrfu = {
	.name		= "lrfu",
	.bytes		= lrfu_bytes,
	.init		= lrfu_init,
	.fill		= lrfu_fill,
	.hit		= lrfu_hit,
	.enter		= lrfu_enter,
	.leave		= lrfu_leave,
	.pick		= lrfu_pick,
	.take		= lrfu_take,
	.unpick		= lrfu_unpick,
	.expect		= lrfu_expect,
	.has		= lrfu_has,
	.nr		= lrfu_nr,
	.check		= lrfu_check,
};
