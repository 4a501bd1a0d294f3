// SPDX-License-Identifier: Apache-2.0
/*
 * lrfu: recency and frequency in one number, and no setting.
 *
 * A block's place in virtual time is that of its last use, and later by one half-life for each
 * doubling of its uses, recent ones counting most (credit.h). Time passes as blocks are filled, so
 * it is measured in sizes of the pool: plain LRU evicts blocks one size old. Evicted blocks leave
 * ghosts, so that a block that comes back has its credit. With a short half-life the order is that
 * of LRU, with a long one nearly that of LFU; trials (trial.h) tell which one this load wants.
 *
 * When that changes, blocks that wait are given their new places twenty at a time.
 *
 * The last block of a prompt is often not full, and a prompt that goes on from there has another
 * one in its place. So if ends of chains come back far less often than other blocks do, a new one
 * goes before all others. An end is what was filled last when it is put back.
 *
 * A child's uses are uses of its parent, too, and a parent is put back behind its child: so no
 * parent is evicted before its child.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kv/hash.h>

#include "credit.h"
#include "duel.h"
#include "ghost.h"
#include "trial.h"
#include "vtime.h"

/* Buckets of the past in the window: blocks older than that are all the same. */
#define PAST_BUCKETS	(VTIME_BUCKETS / 4)
/* Blocks that get a new place at each fill, while there are such. */
#define SWEEP		20u
/* Ghosts of a block are asked for so many blocks before it is filled. */
#define GHOSTS_AHEAD	8u
/* Keys seen, at which older ones count half. */
#define MAX_SEEN	8192u
/* Ends of chains are dead if they come back with so small a part of the chance of all keys... */
#define DEAD_PARTS	4u
/* ...and would have so many times more, so that it is not by chance. */
#define DEAD_BACK	4u
/* Hits that may be lost by that, and as many more that were won from LRU. */
#define DEAD_MAY_LOSE	16
/* Credit of a block not used since it was filled, and that of an end; other blocks: AGAIN more. */
#define NEW		0u
#define END		2u
#define AGAIN		4u
/* The same in each run: a tenant that chooses keys to fit it makes the order worse, no more. */
#define SEED		0x5bd1e9955bd1e995ull

/* Of keys: used once, and again later. */
struct seen {
	u32 nr_new;
	u32 nr_back;
};

struct lrfu_block {
	u64 hash	: 48;	/* of the key; 0: never filled */
	u64 credit	: 8;	/* NEW, END, or AGAIN and that of credit.h */
	u64 counted	: 1;	/* of ->nr_named: filled, and not picked since */
	u64 waited	: 1;	/* has been in the order since it was used */
	u32 last;		/* tick of the last use */
	u32 turn;		/* the last one, in the duel */
};

static_assert(sizeof(struct lrfu_block) == 16, "a block is on one cache line");

struct lrfu {
	struct vtime order;

	/* Fixed at creation. */
	u32 shift;			/* ticks a bucket, as a power of two */
	struct lrfu_block *block;	/* these four behind this, and the links */
	struct ghosts *ghosts;
	struct trial *trial;
	struct duel *duel;

	u32 newest;		/* the block that was filled last */
	struct seen all;
	struct seen ends;	/* of chains; among all */
	s32 gain;		/* hits won from LRU less ends that it would have had */

	u32 nr_named;		/* blocks with content */
	u64 now;		/* blocks filled so far */
	u32 sweep;		/* next block that gets a new place; their number: none does */
};

static size_t lrfu_bytes(u32 nr_blocks)
{
	return line_up(sizeof(struct lrfu)) + line_up(nr_blocks * sizeof(struct lrfu_block)) +
	       line_up(vtime_bytes(nr_blocks)) + line_up(ghosts_bytes(nr_blocks)) +
	       line_up(trial_bytes(nr_blocks)) + sizeof(struct duel);
}

static void lrfu_init(void *policy, u32 nr_blocks)
{
	struct lrfu *lrfu = policy;
	char *at = (char *)policy + line_up(sizeof(*lrfu));

	lrfu->shift = kv_log2(max(nr_blocks / 32, 1u));
	lrfu->sweep = nr_blocks;
	lrfu->block = (struct lrfu_block *)at;
	at += line_up(nr_blocks * sizeof(struct lrfu_block));
	vtime_init(&lrfu->order, nr_blocks, at);
	at += line_up(vtime_bytes(nr_blocks));
	lrfu->ghosts = (struct ghosts *)at;
	at += line_up(ghosts_bytes(nr_blocks));
	lrfu->trial = (struct trial *)at;
	at += line_up(trial_bytes(nr_blocks));
	lrfu->duel = (struct duel *)at;
	ghosts_init(lrfu->ghosts, nr_blocks);
	trial_init(lrfu->trial, nr_blocks);
	duel_init(lrfu->duel, nr_blocks);
}

static u64 last_turn(const struct lrfu *lrfu, const struct lrfu_block *state)
{
	return lrfu->duel->turn - (u32)((u32)lrfu->duel->turn - state->turn);
}

static u64 last_use(const struct lrfu *lrfu, const struct lrfu_block *state)
{
	return lrfu->now - (u32)((u32)lrfu->now - state->last);
}

/* ---- ends of chains ---- */

static void count_new(struct lrfu *lrfu)
{
	if (likely(++lrfu->all.nr_new < MAX_SEEN))
		return;
	lrfu->all = (struct seen){ lrfu->all.nr_new / 2, lrfu->all.nr_back / 2 };
	lrfu->ends = (struct seen){ lrfu->ends.nr_new / 2, lrfu->ends.nr_back / 2 };
}

static bool ends_are_dead(const struct lrfu *lrfu)
{
	const struct seen *all = &lrfu->all, *ends = &lrfu->ends;

	return lrfu->gain > -DEAD_MAY_LOSE &&
	       (ends->nr_back + DEAD_BACK) * DEAD_PARTS * (u64)all->nr_new <
	       (u64)all->nr_back * ends->nr_new;
}

/* The block filled last is put back: it is an end if it is new. Does it go before all others? */
static noinline bool end_is_dead(struct lrfu *lrfu, struct lrfu_block *state)
{
	if (state->credit >= AGAIN)
		return false;
	lrfu->ends.nr_new += state->credit == NEW;
	state->credit = END;
	return ends_are_dead(lrfu);
}

/* A use of a block that had been used once. */
static noinline u32 count_back(struct lrfu *lrfu, u32 credit, bool hit, bool lru_hit)
{
	lrfu->all.nr_back++;
	if (credit != END)
		return AGAIN;
	lrfu->ends.nr_back++;
	if (lru_hit && !hit)
		lrfu->gain = max(lrfu->gain - 1, -DEAD_MAY_LOSE);
	return AGAIN;
}

static inline u32 credit_again(struct lrfu *lrfu, u32 credit, u32 age, bool hit, bool lru_hit)
{
	if (credit < AGAIN)
		credit = count_back(lrfu, credit, hit, lru_hit);
	return AGAIN + credit_after(credit - AGAIN, age, trial_best(lrfu->trial));
}

/* ---- order ---- */

/* While the duel against LRU is lost, the order is LRU. */
static inline u64 bucket_of(const struct lrfu *lrfu, const struct lrfu_block *state)
{
	u64 tick = last_use(lrfu, state);

	if (state->credit > AGAIN && !lrfu->duel->lost)
		tick += credit_ticks(state->credit - AGAIN, trial_best(lrfu->trial));
	return tick >> lrfu->shift;
}

/* ---- time ---- */

static __always_inline void tick(struct lrfu *lrfu)
{
	u64 bucket = ++lrfu->now >> lrfu->shift;

	if (bucket > PAST_BUCKETS)
		vtime_advance(&lrfu->order, bucket - PAST_BUCKETS);
	for (u32 i = 0; i < SWEEP && unlikely(lrfu->sweep < lrfu->order.nr_blocks); i++) {
		u32 block = lrfu->sweep++;

		/* Without credit the place is the same with any half-life. */
		if (!vtime_has(lrfu, block) || lrfu->block[block].credit <= AGAIN)
			continue;
		vtime_leave(lrfu, block);
		vtime_enter(&lrfu->order, block, bucket_of(lrfu, &lrfu->block[block]));
	}
}

static noinline void try_use(struct lrfu *lrfu, u64 hash)
{
	if (trial_use(lrfu->trial, hash, lrfu->now) && !lrfu->duel->lost)
		lrfu->sweep = 0;
	if (trial_has_news(lrfu->trial))
		duel_hope(lrfu->duel, trial_news(lrfu->trial));
}

static noinline void judge(struct lrfu *lrfu)
{
	if (duel_judge(lrfu->duel, trial_promise(lrfu->trial)))
		lrfu->sweep = 0;
}

/* @lru_hit: LRU would have had it. It had its turn. */
static inline void count_use(struct lrfu *lrfu, u64 hash, bool hit, bool lru_hit)
{
	duel_fit(lrfu->duel, lrfu->nr_named);
	lrfu->gain += hit && !lru_hit && lrfu->gain < DEAD_MAY_LOSE;
	if (unlikely(trial_samples(lrfu->trial, hash)))
		try_use(lrfu, hash);
	if (duel_score(lrfu->duel, hit, lru_hit))
		judge(lrfu);
}

/* ---- calls ---- */

/* The former content is gone now at the latest: here it becomes a ghost, so picks undo easily. */
static __always_inline void bury(struct lrfu *lrfu, struct lrfu_block *state)
{
	struct ghost_past past = { state->credit, last_use(lrfu, state), last_turn(lrfu, state) };

	if (state->hash)
		ghost_put(lrfu->ghosts, state->hash, &past, lrfu->now);
	lrfu->nr_named += !state->counted;
	state->counted = true;
	state->waited = false;
	state->credit = NEW;
}

static u64 hash_of(const kvmm_key_t *key)
{
	return (kv_hash_key(key, SEED) & (BIT64(GHOST_HASH_BITS) - 1)) |
	       BIT64(GHOST_HASH_BITS - 1);
}

static __always_inline void fill(struct lrfu *lrfu, u32 block, u64 hash)
{
	struct lrfu_block *state = &lrfu->block[block];
	struct ghost_past past;
	bool lru_hit = false;

	if (KV_BUG_ON(block >= lrfu->order.nr_blocks))
		return;
	tick(lrfu);
	bury(lrfu, state);
	state->hash = hash;
	state->last = lrfu->now;
	past = (struct ghost_past){ .last = lrfu->now, .turn = lrfu->duel->turn };
	if (ghost_take(lrfu->ghosts, hash, &past)) {
		lru_hit = duel_lru_has(lrfu->duel, past.turn);
		state->credit = credit_again(lrfu, past.credit, lrfu->now - past.last, false,
					     lru_hit);
		state->turn = duel_move(lrfu->duel, past.turn);
	} else {
		state->turn = duel_add(lrfu->duel);
		count_new(lrfu);
	}
	lrfu->newest = block;
	count_use(lrfu, hash, false, lru_hit);
}

static void lrfu_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	fill(policy, block, hash_of(key));
}

/* It is put back now. Returns its bucket. */
static inline u64 put(struct lrfu *lrfu, u32 block)
{
	struct lrfu_block *state = &lrfu->block[block];

	kv_assert(block < lrfu->order.nr_blocks);
	state->last = lrfu->now;
	state->waited = true;
	state->turn = duel_move(lrfu->duel, last_turn(lrfu, state));
	if (unlikely(block == lrfu->newest) && end_is_dead(lrfu, state))
		return 0;
	return bucket_of(lrfu, state);
}

static u32 lrfu_fill_many(void *policy, const u32 *blocks, const kvmm_key_t *keys, u32 nr,
			  bool enter)
{
	struct lrfu *lrfu = policy;
	u64 hash[KV_EVICT_MANY];

	kv_assert(nr <= KV_EVICT_MANY);
	for (u32 i = 0; i < nr + GHOSTS_AHEAD; i++) {
		u32 at = i - GHOSTS_AHEAD;

		if (i < nr) {
			hash[i] = hash_of(&keys[i]);
			ghost_expect(lrfu->ghosts, lrfu->block[blocks[i]].hash);
			ghost_expect(lrfu->ghosts, hash[i]);
		}
		if (i < GHOSTS_AHEAD)
			continue;
		if (unlikely(vtime_has(policy, blocks[at])))
			return at;
		fill(policy, blocks[at], hash[at]);
		if (enter)
			vtime_enter(&lrfu->order, blocks[at], put(lrfu, blocks[at]));
	}
	return nr;
}

/* Hits on blocks that were held all the time: any order would have them. */
static inline void hit_one(struct lrfu *lrfu, u32 block)
{
	struct lrfu_block *state = &lrfu->block[block];
	u64 turn = last_turn(lrfu, state);
	bool lru_hit;

	kv_assert(block < lrfu->order.nr_blocks);
	lru_hit = !state->waited || duel_lru_has(lrfu->duel, turn);
	state->turn = duel_move(lrfu->duel, turn);
	state->credit = credit_again(lrfu, state->credit, (u32)lrfu->now - state->last, true,
				     lru_hit);
	state->last = lrfu->now;
	state->waited = false;
	count_use(lrfu, state->hash, true, lru_hit);
}

static void lrfu_hit_many(void *policy, const u32 *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		hit_one(policy, blocks[i]);
}

static void lrfu_hit(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;

	if (!KV_BUG_ON(block >= lrfu->order.nr_blocks))
		lrfu_hit_many(policy, &block, 1);
}

static void lrfu_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lrfu *lrfu = policy;

	if (KV_BUG_ON(block >= lrfu->order.nr_blocks))
		return;
	if (!key)	/* a parked block is the end of no chain */
		lrfu->newest = KV_NONE;
	vtime_enter(&lrfu->order, block, put(lrfu, block));
}

/* Neighbours mostly come into one bucket. */
static void lrfu_enter_many(void *policy, const u32 *blocks, u32 nr)
{
	struct lrfu *lrfu = policy;
	u64 bucket = 0, next;
	u32 from = 0;

	for (u32 i = 0; i < nr; i++, bucket = next) {
		next = put(lrfu, blocks[i]);
		if (likely(next == bucket || !i))
			continue;
		vtime_enter_many(&lrfu->order, blocks + from, i - from, bucket);
		from = i;
	}
	vtime_enter_many(&lrfu->order, blocks + from, nr - from, bucket);
}

static void uncount(struct lrfu *lrfu, u32 block)
{
	kv_assert(block < lrfu->order.nr_blocks);
	lrfu->nr_named -= lrfu->block[block].counted;
	lrfu->block[block].counted = false;
}

static u32 lrfu_pick_many(void *policy, u32 nr, u32 *victims)
{
	u32 nr_done = vtime_pick_many(policy, nr, victims);

	for (u32 i = 0; i < nr_done; i++)
		uncount(policy, victims[i]);
	return nr_done;
}

static u32 lrfu_pick(void *policy)
{
	u32 block;

	return lrfu_pick_many(policy, 1, &block) ? block : KV_NONE;
}

static void lrfu_take(void *policy, u32 block)
{
	vtime_take(policy, block);
	uncount(policy, block);
}

static void lrfu_unpick(void *policy, u32 block)
{
	struct lrfu *lrfu = policy;
	struct lrfu_block *state = &lrfu->block[block];

	kv_assert(block < lrfu->order.nr_blocks);
	vtime_unpick(lrfu, block);
	state->counted = state->hash != 0;
	lrfu->nr_named += state->counted;
}

static void lrfu_expect(const void *policy, const u32 *blocks, u32 nr, bool soon)
{
	const struct lrfu *lrfu = policy;

	for (u32 i = 0; i < nr && !soon; i++)
		kv_prefetch_write(&lrfu->block[blocks[i]]);
	vtime_expect(lrfu, blocks, nr, soon);
}

static void lrfu_expect_fill(const void *policy, const u32 *blocks, const kvmm_key_t *keys, u32 nr)
{
	const struct lrfu *lrfu = policy;

	for (u32 i = 0; i < nr; i++) {
		ghost_expect(lrfu->ghosts, lrfu->block[blocks[i]].hash);
		ghost_expect(lrfu->ghosts, hash_of(&keys[i]));
	}
}

static int lrfu_check(const void *policy)
{
	const struct lrfu *lrfu = policy;
	int err = vtime_check(lrfu);
	u32 nr_named = 0;

	for (u32 block = 0; block < lrfu->order.nr_blocks; block++)
		nr_named += lrfu->block[block].counted;
	if (nr_named != lrfu->nr_named)
		return -EUCLEAN;
	err = err ? err : trial_check(lrfu->trial);
	return err ? err : duel_check(lrfu->duel);
}

const struct kv_evict_ops kv_evict_lrfu = {
	.name		= "lrfu",
	.bytes		= lrfu_bytes,
	.init		= lrfu_init,
	.fill		= lrfu_fill,
	.fill_many	= lrfu_fill_many,
	.hit		= lrfu_hit,
	.hit_many	= lrfu_hit_many,
	.enter		= lrfu_enter,
	.enter_many	= lrfu_enter_many,
	.leave		= vtime_leave,
	.pick		= lrfu_pick,
	.pick_many	= lrfu_pick_many,
	.take		= lrfu_take,
	.unpick		= lrfu_unpick,
	.expect		= lrfu_expect,
	.expect_fill	= lrfu_expect_fill,
	.ahead		= vtime_ahead,
	.has		= vtime_has,
	.nr		= vtime_nr,
	.check		= lrfu_check,
};
