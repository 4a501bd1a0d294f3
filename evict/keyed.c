// SPDX-License-Identifier: Apache-2.0
/* Shared by policies that are one function; see keyed.h. */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/hash.h>

#include "keyed.h"

/* Hashes only choose places in tables that forget: a fixed seed makes runs repeatable. */
#define SEED	0xa24baed4963ee407ull

size_t keyed_bytes_with(u32 nr_blocks, size_t extra)
{
	return line_up(sizeof(struct keyed)) + line_up(nr_blocks * sizeof(struct keyed_block)) +
	       line_up(vtime_bytes(nr_blocks)) + extra;
}

size_t keyed_bytes(u32 nr_blocks)
{
	return keyed_bytes_with(nr_blocks, 0);
}

/* Buckets of a 32nd to a 64th of the pool: the window is some 64 to 128 sizes of it. */
void keyed_init(void *policy, u32 nr_blocks)
{
	struct keyed *keyed = policy;
	char *at = (char *)policy + line_up(sizeof(*keyed));

	keyed->nr_blocks = nr_blocks;
	keyed->shift = kv_log2(max(nr_blocks / 32, 1u));
	keyed->nr_past = VTIME_BUCKETS / 4;
	keyed->block = (struct keyed_block *)at;
	at += line_up(nr_blocks * sizeof(struct keyed_block));
	keyed->order = (struct vtime *)at;
	keyed->extra = at + line_up(vtime_bytes(nr_blocks));
	vtime_init(keyed->order, nr_blocks);
}

struct keyed_block *keyed_block(struct keyed *keyed, u32 block)
{
	return KV_BUG_ON(block >= keyed->nr_blocks) ? NULL : &keyed->block[block];
}

void keyed_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct keyed *keyed = policy;
	struct keyed_block *state = keyed_block(keyed, block);
	u64 bucket;

	if (!state)
		return;
	bucket = keyed_bucket(keyed, ++keyed->now);
	if (bucket > keyed->nr_past)
		vtime_advance(keyed->order, bucket - keyed->nr_past);
	*state = (struct keyed_block){
		.hash	= kv_hash_key(key, SEED),
		.filled	= keyed->now,
		.uses	= 1,
	};
}

void keyed_enter(struct keyed *keyed, u32 block, const kvmm_key_t *key, u64 bucket)
{
	kv_assert(block < keyed->nr_blocks);
	keyed->block[block].unnamed = !key;
	if (key)
		vtime_enter(keyed->order, block, bucket);
	else
		vtime_enter_first(keyed->order, block);
}

void keyed_move(struct keyed *keyed, u32 block, u64 bucket)
{
	kv_assert(block < keyed->nr_blocks);
	if (!vtime_has(keyed->order, block) || keyed->block[block].unnamed)
		return;
	vtime_leave(keyed->order, block);
	vtime_enter(keyed->order, block, bucket);
}

void keyed_leave(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	vtime_leave(keyed->order, block);
}

u32 keyed_pick(void *policy)
{
	struct keyed *keyed = policy;

	return vtime_pick(keyed->order);
}

void keyed_take(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	vtime_take(keyed->order, block);
}

void keyed_unpick(void *policy, u32 block)
{
	struct keyed *keyed = policy;

	vtime_unpick(keyed->order, block);
}

void keyed_expect(const void *policy, u32 block, bool soon)
{
	const struct keyed *keyed = policy;

	kv_assert(block < keyed->nr_blocks);
	if (!soon)
		kv_prefetch_write(&keyed->block[block]);
	vtime_expect(keyed->order, block, soon);
}

u32 keyed_ahead(const void *policy, u32 block)
{
	const struct keyed *keyed = policy;

	return vtime_ahead(keyed->order, block);
}

bool keyed_has(const void *policy, u32 block)
{
	const struct keyed *keyed = policy;

	return vtime_has(keyed->order, block);
}

u32 keyed_nr(const void *policy)
{
	const struct keyed *keyed = policy;

	return keyed->order->nr;
}

int keyed_check(const void *policy)
{
	const struct keyed *keyed = policy;

	return vtime_check(keyed->order);
}
