// SPDX-License-Identifier: Apache-2.0
/*
 * Policies that are one function from a block to a moment: lru, fifo, priority and ttl.
 *
 *	lru		its put-back, which is the order of blocks of one bucket; lru-classic is the
 *			same, and has blocks without key as well
 *	fifo		the block's fill
 *	priority	its put-back, and 8 sizes of the pool later at priority 100 than at 0
 *	ttl		the end of its time to live; without one, its put-back
 *
 * No advice keeps a block for ever: time goes on, and a block that is not used again has its turn.
 * Advice is forgotten with the content.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "keyed.h"

/* ---- lru ---- */

static size_t lru_bytes(u32 nr_blocks)
{
	return line_up(sizeof(struct vtime)) + vtime_bytes(nr_blocks);
}

static void lru_init(void *policy, u32 nr_blocks)
{
	vtime_init(policy, nr_blocks, (char *)policy + line_up(sizeof(struct vtime)));
}

static void lru_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	vtime_enter(policy, block, 0);
}

static void lru_enter_many(void *policy, const u32 *blocks, u32 nr)
{
	vtime_enter_many(policy, blocks, nr, 0);
}

/* ---- fifo ---- */

/* Nothing is later than now, so most of the window is past; buckets of one tick in small pools. */
static void fifo_init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;

	keyed_init(policy, nr_blocks);
	keyed->shift = kv_log2(max(nr_blocks / (VTIME_BUCKETS / 4), 1u));
	keyed->nr_past = VTIME_BUCKETS - 2;
}

static void fifo_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);
	u64 filled;

	if (!state)
		return;
	filled = keyed->now - (u32)((u32)keyed->now - state->filled);
	vtime_enter(&keyed->order, block, keyed_bucket(keyed, filled));
}

/* ---- priority ---- */

#define PRIORITY_SIZES	8u	/* of the pool, between priority 0 and 100 */

static u64 priority_bucket(const struct keyed *keyed, const struct keyed_block *state)
{
	u32 priority = state->value ? state->value - 1 : KV_NO_PRIORITY;
	u64 later = (u64)keyed->order.nr_blocks * PRIORITY_SIZES * priority / KV_MAX_PRIORITY;

	return keyed_bucket(keyed, keyed->now + later);
}

static void priority_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		vtime_enter(&keyed->order, block, priority_bucket(keyed, state));
}

static int priority_advise(void *policy, u32 block, enum kv_evict_advice what, u64 value)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);

	if (what != KV_ADVISE_PRIORITY)
		return -EOPNOTSUPP;
	if (!state || value > KV_MAX_PRIORITY)
		return -EINVAL;
	state->value = value + 1;
	keyed_move(keyed, block, priority_bucket(keyed, state));
	return 0;
}

/* ---- ttl ---- */

/* ->value is the tick at which it ends, and ->level is 1. */
static u64 ttl_bucket(const struct keyed *keyed, const struct keyed_block *state)
{
	s32 left = state->level ? (s32)(state->value - (u32)keyed->now) : 0;

	/* Blocks that outlived their limit go before those without one: both before their time. */
	return keyed_bucket(keyed, left < 0 ? keyed->now - min((u64)-left, keyed->now) :
					      keyed->now + (u32)left);
}

static void ttl_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		vtime_enter(&keyed->order, block, ttl_bucket(keyed, state));
}

static int ttl_advise(void *policy, u32 block, enum kv_evict_advice what, u64 value)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);

	if (what != KV_ADVISE_TTL)
		return -EOPNOTSUPP;
	if (!state)
		return -EINVAL;
	state->value = (u32)keyed->now + (u32)min(value, (u64)INT32_MAX);
	state->level = 1;
	keyed_move(keyed, block, ttl_bucket(keyed, state));
	return 0;
}

/* The next use is expected at that tick: the same as to live until then. */
static void ttl_hint(void *policy, u32 block, u64 when)
{
	struct keyed *keyed = policy;

	ttl_advise(policy, block, KV_ADVISE_TTL, when > keyed->now ? when - keyed->now : 0);
}

#define LRU_OPS									\
	VTIME_OPS, .bytes = lru_bytes, .init = lru_init, .enter = lru_enter,		\
	.enter_many = lru_enter_many, .pick_many = vtime_pick_many,			\
	.expect = vtime_expect, .check = vtime_check

const struct kv_evict_ops kv_evict_lru = {
	.name = "lru",
	LRU_OPS,
};

const struct kv_evict_ops kv_evict_lru_classic = {
	.name = "lru-classic",
	.keeps_unnamed = true,
	LRU_OPS,
};

const struct kv_evict_ops kv_evict_fifo = {
	.name = "fifo",
	.bytes = keyed_bytes,
	.init = fifo_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.enter = fifo_enter,
};

const struct kv_evict_ops kv_evict_priority = {
	.name = "priority",
	.bytes = keyed_bytes,
	.init = keyed_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.enter = priority_enter,
	.advise = priority_advise,
};

const struct kv_evict_ops kv_evict_ttl = {
	.name = "ttl",
	.bytes = keyed_bytes,
	.init = keyed_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.enter = ttl_enter,
	.hint = ttl_hint,
	.advise = ttl_advise,
};
