// SPDX-License-Identifier: Apache-2.0
/*
 * Two lists, of new blocks and of proven ones: slru, and with ghosts arc and s3fifo.
 *
 *	slru	proven is what was used again: at most floor(4N/5) blocks, then the oldest of them goes
 *		behind the new ones
 *	arc	proven is what was used again. How many new blocks are kept is learned: more when a key
 *		comes back that was evicted while it was new, fewer when it was proven
 *	s3fifo	proven is what was used three times, or came back. A tenth of the pool is for new blocks
 *
 * Both as far as a cache of referenced blocks goes: a block that is used leaves the order, and is put
 * back at the end of its list; so what s3fifo would give a second chance has had it by then. A
 * victim becomes a ghost when its place is filled again; ghosts of the last nr_blocks fills count.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "evict/credit.h"
#include "evict/ghost.h"
#include "evict/keyed.h"
#include "research/research.h"

enum { NEW, PROVEN, NR_LISTS, NEITHER = NR_LISTS };

/* No time passes: buckets are lists. */
#define FOREVER_SHIFT	31u
#define ARC_USES	2u	/* slru's too */
#define S3_USES		3u
#define S3_SHARE	10u

struct lists {
	u32 nr[NR_LISTS];	/* blocks in each */
	u32 target;		/* new blocks to be kept */
	u32 max_proven;		/* fixed at creation */
	u32 nr_gone[2];		/* evicted lately, from each list */
	struct ghosts ghosts;	/* the last: its memory is behind it */
};

static size_t twolist_bytes(u32 nr_blocks)
{
	return keyed_bytes_with(nr_blocks, sizeof(struct lists) + ghosts_bytes(nr_blocks));
}

static struct lists *init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;
	struct lists *lists;

	keyed_init(policy, nr_blocks);
	keyed->shift = FOREVER_SHIFT;
	lists = keyed->extra;
	lists->max_proven = nr_blocks;
	ghosts_init(&lists->ghosts, nr_blocks);
	return lists;
}

static void arc_init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;

	keyed->param[0] = ARC_USES;
	init(policy, nr_blocks);
}

static void slru_init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;

	keyed->param[0] = ARC_USES;
	init(policy, nr_blocks)->max_proven = (u64)nr_blocks * 4 / 5;
}

static void s3fifo_init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;

	keyed->param[0] = S3_USES;
	init(policy, nr_blocks)->target = nr_blocks / S3_SHARE;
}

/* ---- ghosts ---- */

/* What was there is evicted now; recent ones weigh more. */
static void bury(struct keyed *keyed, const struct keyed_block *state)
{
	struct ghost_past past = { state->level * CREDIT_ONE, keyed->now, 0 };
	struct lists *lists = keyed->extra;

	if (!state->filled)
		return;
	ghost_put(&lists->ghosts, state->hash, &past, keyed->now);
	lists->nr_gone[state->level]++;
	if (lists->nr_gone[NEW] + lists->nr_gone[PROVEN] <= keyed->order.nr_blocks)
		return;
	lists->nr_gone[NEW] /= 2;
	lists->nr_gone[PROVEN] /= 2;
}

/* The list that the key was evicted from lately, or NEITHER. */
static u32 list_of_ghost(struct keyed *keyed, u64 hash)
{
	struct ghost_past past = { .last = keyed->now };
	struct lists *lists = keyed->extra;

	if (!ghost_take(&lists->ghosts, hash, &past) ||
	    keyed->now - past.last > keyed->order.nr_blocks)
		return NEITHER;
	return past.credit / CREDIT_ONE;
}

/* One more new block is worth as many misses as the others' ghosts outnumber its own. */
static void learn(struct keyed *keyed, u32 list)
{
	struct lists *lists = keyed->extra;
	u32 own = max(lists->nr_gone[list], 1u), step = max(lists->nr_gone[!list] / own, 1u);

	if (list == NEW)
		lists->target = min(lists->target + step, keyed->order.nr_blocks);
	else
		lists->target -= min(step, lists->target);
}

/* Returns what the key was when it was evicted, or NEITHER. */
static u32 fill(struct keyed *keyed, u32 block, const kvmm_key_t *key)
{
	struct keyed_block *state = keyed_block(keyed, block);
	u32 list;

	if (!state)
		return NEITHER;
	bury(keyed, state);
	keyed_fill(keyed, block, key);
	list = list_of_ghost(keyed, state->hash);
	state->uses = list == NEITHER ? 1 : keyed->param[0];
	return list;
}

static void arc_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	u32 list = fill(policy, block, key);

	if (list != NEITHER)
		learn(policy, list);
}

static void s3fifo_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	fill(policy, block, key);
}

/* ---- the order ---- */

static void twolist_hit(void *policy, u32 block)
{
	struct keyed_block *state = keyed_block(policy, block);

	if (state && state->uses < 255)
		state->uses++;
}

static void twolist_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);
	struct lists *lists = keyed->extra;

	if (!state || KV_BUG_ON(vtime_has(keyed, block)))
		return;
	state->level = state->uses < keyed->param[0] ? NEW : PROVEN;
	lists->nr[state->level]++;
	vtime_enter(&keyed->order, block, state->level);
	if (lists->nr[PROVEN] <= lists->max_proven)
		return;
	block = vtime_first_in(&keyed->order, PROVEN);
	keyed->block[block].level = NEW;
	lists->nr[PROVEN]--;
	lists->nr[NEW]++;
	keyed_move(keyed, block, NEW);
}

static void uncount(struct keyed *keyed, u32 block)
{
	struct lists *lists = keyed->extra;

	lists->nr[keyed->block[block].level]--;
}

static void twolist_leave(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	if (KV_BUG_ON(!vtime_has(keyed, block)))
		return;
	uncount(keyed, block);
	vtime_leave(keyed, block);
}

static void twolist_take(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	if (KV_BUG_ON(!vtime_has(keyed, block)))
		return;
	uncount(keyed, block);
	vtime_take(keyed, block);
}

static u32 twolist_pick(void *policy)
{
	struct keyed *keyed = policy;
	const struct lists *lists = keyed->extra;
	u32 victim = vtime_first(&keyed->order);

	if (victim == KV_NONE)
		return KV_NONE;
	if (victim == vtime_first_in(&keyed->order, NEW) && lists->nr[NEW] <= lists->target &&
	    lists->nr[PROVEN])
		victim = vtime_first_in(&keyed->order, PROVEN);
	twolist_take(policy, victim);
	return victim;
}

static void twolist_unpick(void *policy, u32 block)
{
	struct keyed *keyed = policy;
	struct lists *lists = keyed->extra;

	if (!keyed_block(keyed, block) || KV_BUG_ON(vtime_has(keyed, block)))
		return;
	/* It goes before all others then, and those are the new ones. */
	if (!keyed->order.nr_picked)
		keyed->block[block].level = NEW;
	lists->nr[keyed->block[block].level]++;
	vtime_unpick(keyed, block);
}

static int twolist_check(const void *policy)
{
	const struct keyed *keyed = policy;
	const struct lists *lists = keyed->extra;
	u32 nr[NR_LISTS] = { 0 };

	for (u32 block = 0; block < keyed->order.nr_blocks; block++)
		if (vtime_has(keyed, block))
			nr[keyed->block[block].level]++;
	for (u32 list = 0; list < NR_LISTS; list++)
		if (nr[list] != lists->nr[list])
			return -EUCLEAN;
	return lists->target <= keyed->order.nr_blocks && lists->nr[PROVEN] <= lists->max_proven ?
	       vtime_check(policy) : -EUCLEAN;
}

#define TWOLIST_OPS									\
	.bytes = twolist_bytes, .hit = twolist_hit, .enter = twolist_enter,		\
	.leave = twolist_leave, .pick = twolist_pick, .take = twolist_take,		\
	.unpick = twolist_unpick, .has = vtime_has, .nr = vtime_nr,			\
	.check = twolist_check

const struct kv_evict_ops kv_evict_slru = {
	.name	= "slru",
	.init	= slru_init,
	.fill	= keyed_fill,
	TWOLIST_OPS,
};

const struct kv_evict_ops kv_evict_arc = {
	.name	= "arc",
	.init	= arc_init,
	.fill	= arc_fill,
	TWOLIST_OPS,
};

const struct kv_evict_ops kv_evict_s3fifo = {
	.name	= "s3fifo",
	.init	= s3fifo_init,
	.fill	= s3fifo_fill,
	TWOLIST_OPS,
};
