/* SPDX-License-Identifier: Apache-2.0 */
/* A pool, seen in passing; see <kv/feed.h>. */
#ifndef FEED_INTERNAL_H
#define FEED_INTERNAL_H

#include <kv/feed.h>
#include <pool/internal.h>

/* kvmm_pool_peek() of a pool with its zone looked at already. */
int pool_peek(struct kvmm_pool *pool, const struct kv_zone_glance *zone,
	      struct kvmm_pool_stat *stat);

void glance_residency(const struct kvmm_pool *pool, struct kv_pool_glance *glance);

/* Between 0 and @most: counts that are kept without the lock may lag behind those under it. */
static inline u32 as_counted(u64 nr, u32 most)
{
	return (s64)nr < 0 ? 0 : min(nr, (u64)most);
}

/*
 * The pool's counts, with those of arenas and magazines, without a lock; how many free blocks the
 * latter keep.
 */
u32 counts_peek(const struct kvmm_pool *pool, struct pool_count *count);

int counts_read(struct kvmm_pool *pool, void *stat);
int pool_stat_read(struct kvmm_pool *pool, void *stat);
int peek_stat_read(struct kvmm_pool *pool, void *stat);
int residency_stat_read(struct kvmm_pool *pool, void *stat);
int residency_set(struct kvmm_pool *pool, const void *value);
int history_read(struct kvmm_pool *pool, void *stat);
/* completions.c */
int completions_read(struct kvmm_pool *pool, void *stat);
int completions_set(struct kvmm_pool *pool, const void *value);

/** kv_residency_sampled() - is this name sampled at @ppm? Return: 1 or 0; -EINVAL. */
int kv_residency_sampled(const kvmm_key_t *key, u32 ppm);

/* "free blocks", "order of eviction", ...; "?" if there is no such part. */
const char *kv_digest_part_name(u32 part);

#endif /* FEED_INTERNAL_H */
