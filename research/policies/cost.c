// SPDX-License-Identifier: Apache-2.0
/*
 * cost: a block's moment is its put-back, and one size of the pool later for each doubling of what it
 * costs to make it again, as GDSF has it.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "evict/keyed.h"
#include "research/research.h"

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
			    (u64)keyed->order.nr_blocks * state->value / COST_ONE);
}

static void cost_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	const struct keyed_block *state = keyed_block(keyed, block);

	if (state)
		vtime_enter(&keyed->order, block, cost_bucket(keyed, state));
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

const struct kv_evict_ops kv_evict_cost = {
	.name = "cost",
	.bytes = keyed_bytes,
	.init = keyed_init,
	.fill = keyed_fill,
	KEYED_OPS,
	.enter = cost_enter,
	.advise = cost_advise,
};
