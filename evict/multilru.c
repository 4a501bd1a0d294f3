// SPDX-License-Identifier: Apache-2.0
/*
 * multilru: four lists by how often a key was used lately, the coldest first, LRU in each.
 *
 * Uses are counted by a sketch (sketch.h), so they outlive the block. Thresholds are 3, 8 and 15
 * uses, or three others behind the colon of the name: "multilru:2,4,8". The sketch forgets, and a
 * block that waits is looked at again each time that as many blocks were filled as there are: it
 * moves to the list where it belongs by then.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "keyed.h"
#include "sketch.h"

#define NR_THRESHOLDS	3u
#define KEYS_A_BLOCK	8u
/* No time passes: buckets are levels. */
#define FOREVER_SHIFT	31u

static u32 capacity(u32 nr_blocks)
{
	return max(nr_blocks, 128u) * KEYS_A_BLOCK;
}

static size_t multilru_bytes(u32 nr_blocks)
{
	return keyed_bytes_with(nr_blocks, KV_CACHELINE + sketch_bytes(capacity(nr_blocks)));
}

static void multilru_init(void *policy, u32 nr_blocks)
{
	static const u32 thresholds[NR_THRESHOLDS] = { 3, 8, 15 };
	struct keyed *keyed = policy;

	keyed_init(policy, nr_blocks);
	keyed->shift = FOREVER_SHIFT;
	keyed->extra = (void *)(uintptr_t)kv_align_up((uintptr_t)keyed->extra, KV_CACHELINE);
	for (u32 i = 0; i < NR_THRESHOLDS; i++)
		keyed->param[i] = thresholds[i];
	sketch_init(keyed->extra, capacity(nr_blocks));
}

static int multilru_setup(void *policy, const char *args)
{
	struct keyed *keyed = policy;
	u32 *at = keyed->param;
	int err = args ? keyed_params(keyed, args, NR_THRESHOLDS, SKETCH_MAX) : 0;

	return err || at[0] < 1 || at[0] >= at[1] || at[1] >= at[2] ? -EINVAL : 0;
}

static u32 level_of(struct keyed *keyed, u32 block)
{
	u32 level = 0, nr = sketch_estimate(keyed->extra, keyed->block[block].hash);

	kv_assert(block < keyed->order.nr_blocks);
	while (level < NR_THRESHOLDS && nr >= keyed->param[level])
		level++;
	return level;
}

/* One block a fill. */
static void look_again(struct keyed *keyed)
{
	u32 block = keyed->hand, level;

	keyed->hand = block + 1 < keyed->order.nr_blocks ? block + 1 : 0;
	if (!vtime_has(keyed, block))
		return;
	level = level_of(keyed, block);
	if (level == keyed->block[block].level)
		return;
	keyed->block[block].level = level;
	keyed_move(keyed, block, level);
}

static void multilru_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;

	if (!keyed_block(keyed, block))
		return;
	keyed_fill(policy, block, key);
	sketch_add(keyed->extra, keyed->block[block].hash);
	look_again(keyed);
}

static void multilru_hit(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	if (keyed_block(keyed, block))
		sketch_add(keyed->extra, keyed->block[block].hash);
}

static void multilru_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);

	if (!state)
		return;
	state->level = level_of(keyed, block);
	vtime_enter(&keyed->order, block, state->level);
}

const struct kv_evict_ops kv_evict_multilru = {
	.name = "multilru",
	.bytes = multilru_bytes,
	.init = multilru_init,
	.setup = multilru_setup,
	.fill = multilru_fill,
	.hit = multilru_hit,
	.enter = multilru_enter,
	KEYED_OPS,
};
