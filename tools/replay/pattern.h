/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content of blocks for --verify: each block is filled with words made from its name, and looked
 * at again wherever it is found later. A block that shows up with somebody else's content, or with
 * half of its own, is noticed.
 */
#ifndef REPLAY_PATTERN_H
#define REPLAY_PATTERN_H

#include <kvmm/kvmm.h>

#include "replay.h"

/* Without --verify @want is NULL and all calls do nothing. */
struct pattern {
	struct kvmm_pool *pool;
	u64 *want;
	u64 *got;
	u64 seed;
	u64 nr_checked;
	u32 bytes;
};

/* Names of blocks: of a key, or of block @ordinal of request @q. */
static inline u64 pattern_of_key(u64 key)
{
	return mix64(key);
}

static inline u64 pattern_of_request(u32 q, u32 ordinal)
{
	return mix64(~((u64)q << 32 | ordinal));
}

void pattern_init(struct pattern *pattern, const struct options *opt, struct kvmm_pool *pool);

void pattern_exit(struct pattern *pattern);

/** pattern_write() - Return: EXIT_GOOD; EXIT_WRONG: said why. */
enum exit_code pattern_write(struct pattern *pattern, u32 block, u64 name);

/** pattern_check() - @q and @when are for the message; same returns */
enum exit_code pattern_check(struct pattern *pattern, u32 block, u64 name, u32 q,
			     const char *when);

#endif /* REPLAY_PATTERN_H */
