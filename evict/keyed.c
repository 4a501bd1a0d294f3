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

	keyed->shift = kv_log2(max(nr_blocks / 32, 1u));
	keyed->nr_past = VTIME_BUCKETS / 4;
	keyed->block = (struct keyed_block *)at;
	at += line_up(nr_blocks * sizeof(struct keyed_block));
	vtime_init(&keyed->order, nr_blocks, at);
	keyed->extra = at + line_up(vtime_bytes(nr_blocks));
}

struct keyed_block *keyed_block(struct keyed *keyed, u32 block)
{
	return KV_BUG_ON(block >= keyed->order.nr_blocks) ? NULL : &keyed->block[block];
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
		vtime_advance(&keyed->order, bucket - keyed->nr_past);
	*state = (struct keyed_block){
		.hash	= kv_hash_key(key, SEED),
		.filled	= keyed->now,
		.uses	= 1,
	};
}

int keyed_params(struct keyed *keyed, const char *args, u32 nr, u32 limit)
{
	for (u32 i = 0; i < nr; i++) {
		char end = i + 1 < nr ? ',' : '\0';
		const char *first = args;
		u64 number = 0;

		for (; *args >= '0' && *args <= '9' && number <= limit; args++)
			number = number * 10 + (u32)(*args - '0');
		if (args == first || number > limit || *args != end)
			return -EINVAL;
		keyed->param[i] = number;
		args += end == ',';
	}
	return 0;
}

void keyed_move(struct keyed *keyed, u32 block, u64 bucket)
{
	if (!vtime_has(keyed, block))
		return;
	vtime_leave(keyed, block);
	vtime_enter(&keyed->order, block, bucket);
}

void keyed_expect(const void *policy, const u32 *blocks, u32 nr, bool soon)
{
	const struct keyed *keyed = policy;

	for (u32 i = 0; i < nr && !soon; i++)
		kv_prefetch_write(&keyed->block[blocks[i]]);
	vtime_expect(keyed, blocks, nr, soon);
}
