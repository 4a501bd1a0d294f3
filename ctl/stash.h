/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of the blocks that were told of last, by key: routers that hash tokens themselves want
 * them in events, and a pool knows keys only.
 *
 * Bounded: the newest take the places of the oldest. Threads that register put, the publisher's
 * gets; one lock, which no thread holds for more than the copy of a block.
 */
#ifndef CTL_STASH_H
#define CTL_STASH_H

#include <kv/lock.h>
#include <kvmm/types.h>

struct stash {
	/* Fixed at creation. */
	u32		nr_places;	/* 0: none are kept */
	u32		block_tokens;
	u32		nr_buckets;	/* a power of two */
	u64		secret;

	struct kv_lock	lock;
	struct stash_place *place;	/* ->lock */
	u32		*token;		/* ->lock; block_tokens a place */
	u32		*bucket;	/* ->lock */
	u32		oldest;		/* ->lock; in a ring by age: before it is the newest */
};

/* @nr_places 0: none are kept, and none of these calls does anything. 0; -EINVAL, -ENOMEM. */
int stash_init(struct stash *stash, u32 nr_places, u32 block_tokens);
void stash_exit(struct stash *stash);
/* @token: block_tokens of each of @nr blocks. */
void stash_put(struct stash *stash, const kvmm_key_t *keys, u32 nr, const u32 *token);
/* A copy into @to: false: not known, or not any more. */
bool stash_get(struct stash *stash, const kvmm_key_t *key, u32 *to);

#endif /* CTL_STASH_H */
