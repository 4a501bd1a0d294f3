// SPDX-License-Identifier: Apache-2.0
/*
 * Policies that are one function from a block to a moment: fifo, priority, ttl, cost and t-lru.
 *
 *	fifo		the block's fill
 *	priority	its put-back, and 8 sizes of the pool later at priority 100 than at 0
 *	ttl		the end of its time to live; without one, its put-back
 *	cost		its put-back, and one size of the pool later for each doubling of its cost
 *	t-lru		its put-back; but the ends of chains, which cost a request little, before all
 *
 * Nothing is kept for ever by what it was advised: time goes on, and what is not used again has its
 * turn. Advice is forgotten with the content.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "args.h"
#include "keyed.h"

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
	keyed_enter(keyed, block, key, keyed_bucket(keyed, filled));
}

/* ---- priority ---- */

#define PRIORITY_SIZES	8u	/* of the pool, between priority 0 and 100 */

static u64 priority_bucket(const struct keyed *keyed, const struct keyed_block *state)
{
	u32 priority = state->value ? state->value - 1 : KV_NO_PRIORITY;
	u64 later = (u64)keyed->nr_blocks * PRIORITY_SIZES * priority / KV_MAX_PRIORITY;

	return keyed_bucket(keyed, keyed->now + later);
}

static void priority_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		keyed_enter(keyed, block, key, priority_bucket(keyed, state));
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

	/* What has lived too long goes before what never had a limit: both before their time. */
	return keyed_bucket(keyed, left < 0 ? keyed->now - min((u64)-left, keyed->now) :
					      keyed->now + (u32)left);
}

static void ttl_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		keyed_enter(keyed, block, key, ttl_bucket(keyed, state));
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

/* ---- cost ---- */

#define COST_ONE	16u		/* ->value is in sixteenths of a doubling */

/* 16 * log2(cost), by the highest bit and the four below it. */
static u32 log_of(u64 cost)
{
	u32 high = kv_log2(max(cost, 1ull));
	u64 next = high >= 4 ? cost >> (high - 4) : max(cost, 1ull) << (4 - high);

	return high * COST_ONE + (next & (COST_ONE - 1));
}

static u64 cost_bucket(const struct keyed *keyed, const struct keyed_block *state)
{
	return keyed_bucket(keyed, keyed->now +
			    (u64)keyed->nr_blocks * state->value / COST_ONE);
}

static void cost_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		keyed_enter(keyed, block, key, cost_bucket(keyed, state));
}

static int cost_advise(void *policy, u32 block, enum kv_evict_advice what, u64 value)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);

	if (what != KV_ADVISE_COST)
		return -EOPNOTSUPP;
	if (!state)
		return -EINVAL;
	state->value = log_of(value);
	keyed_move(keyed, block, cost_bucket(keyed, state));
	return 0;
}

/* ---- t-lru ---- */

/* Blocks at the end of a chain that may be made again without anybody's noticing. */
#define SAFE_BLOCKS	4u
#define MAX_SAFE	BIT(20)

static int tlru_setup(void *policy, const char *args)
{
	struct keyed *keyed = policy;

	keyed->param[0] = SAFE_BLOCKS;
	return args ? args_numbers(args, keyed->param, 1, MAX_SAFE) : 0;
}

static void tlru_place(void *policy, u32 block, u32 position, u32 parent)
{
	struct keyed_block *state = keyed_block(policy, block);

	if (state)
		state->position = position;
}

/*
 * A chain is put back end first, one call after the other: the first of such a row of positions
 * says how long it is. The first block of a chain is never among the safe ones: many begin with it,
 * and it is what a block counts as whose position nobody has told.
 */
static void tlru_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);
	bool is_safe;

	if (!state)
		return;
	if (state->position + 1 != keyed->last_position)
		keyed->chain = state->position;
	keyed->last_position = state->position;
	is_safe = state->position && state->position + keyed->param[0] > keyed->chain;
	keyed_enter(keyed, block, key, is_safe ? 0 : keyed_bucket(keyed, keyed->now));
}

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

const struct kv_evict_ops kv_evict_cost = {
	.name = "cost",
	.bytes = keyed_bytes,
	.init = keyed_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.enter = cost_enter,
	.advise = cost_advise,
};

const struct kv_evict_ops kv_evict_tlru = {
	.name = "t-lru",
	.bytes = keyed_bytes,
	.init = keyed_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.setup = tlru_setup,
	.place = tlru_place,
	.enter = tlru_enter,
};
