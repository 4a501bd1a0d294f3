/* SPDX-License-Identifier: Apache-2.0 */
/* A pool, seen in passing; see <kv/pool_glance.h>. */
#ifndef POOL_GLANCE_H
#define POOL_GLANCE_H

#include <kv/pool_glance.h>

#include "internal.h"

/* kvmm_pool_peek() of a pool with its zone looked at already. */
int pool_peek(struct kvmm_pool *pool, const struct kv_zone_glance *zone,
	      struct kvmm_pool_stat *stat);

void glance_residency(const struct kvmm_pool *pool, struct kv_pool_glance *glance);

/* Its tier, or NULL. */
struct kvmm_tier *lower_glance(struct kvmm_pool *pool, struct kvmm_tier_client_stat *stat);

#endif /* POOL_GLANCE_H */
