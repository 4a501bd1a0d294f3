/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between host memory and a block's content, for callers that keep it where it is. */
#ifndef CACHE_CONTENT_H
#define CACHE_CONTENT_H

#include <pool/internal.h>

/* A part of a block's content, and where it is copied from or to. */
struct content {
	void	*buf;		/* the caller's; only read if @is_write */
	u64	offset;
	u64	bytes;
	bool	is_write;
};

/* 0; -EINVAL no part of a block, or the pool has none; -EUCLEAN, -ECHILD. */
int content_check(const struct kvmm_pool *pool, const struct content *content);

/*
 * Before the block is looked up: takes compact_lock, and no copy that would change it is under way.
 * Returns the argument of content_end().
 */
int content_begin(struct kvmm_pool *pool);
void content_end(struct kvmm_pool *pool, int cancel);

/* 0 or -EIO. Between the two; the block is kept from being given to another owner. */
int content_copy(struct kvmm_pool *pool, u32 block, const struct content *content);

#endif /* CACHE_CONTENT_H */
