/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the pool has to do with its tiers: hooks that cost a branch where there are none. */
#ifndef POOL_LOWER_H
#define POOL_LOWER_H

struct kvmm_pool;

/* Copies under way are waited for. */
void lower_exit(struct kvmm_pool *pool);
/* 0 or -EUCLEAN. compact_lock held, none below it. */
int lower_check(struct kvmm_pool *pool);

#endif /* POOL_LOWER_H */
