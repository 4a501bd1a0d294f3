// SPDX-License-Identifier: Apache-2.0
/*
 * t-lru: a block's moment is its put-back; but the ends of chains, which cost a request little, go
 * before all others.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "evict/keyed.h"
#include "research/research.h"

/* Blocks at the end of a chain that may be made again without anybody's noticing. */
#define SAFE_BLOCKS	4u
#define MAX_SAFE	BIT(20)

static int tlru_setup(void *policy, const char *args)
{
	struct keyed *keyed = policy;

	keyed->param[0] = SAFE_BLOCKS;
	return args ? keyed_params(keyed, args, 1, MAX_SAFE) : 0;
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
	vtime_enter(&keyed->order, block, is_safe ? 0 : keyed_bucket(keyed, keyed->now));
}

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
