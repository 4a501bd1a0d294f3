/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All statistics of a pool as seen in passing: no lock is taken that an allocation, look-up, move
 * or copy could wait for. Each number is of its own moment, and counts of events never go down.
 */
#ifndef KV_FEED_H
#define KV_FEED_H

#include <kv/types.h>
#include <kv/zone.h>
#include <kvmm/compact.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/disk.h>
#include <kvmm/ext/evict.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <kvmm/ext/moves.h>
#include <kvmm/pool.h>
#include <kvmm/step.h>
#include <kvmm/tier.h>

/**
 * struct kv_pool_glance - one pool
 * @name, @device, @device_number, @policy, @engine: fixed as long as it lives
 * @zone: its free map
 * @growth: without the ranges by their extents
 * @elastic: without @leaving_blocks
 * @verify: without @summed
 * @tier: that it is attached to, or NULL
 * @below: without @clean
 * @class: the first @nr_classes, without @nr_inactive
 * @residency_ppm, @residency: zeroes if nothing was ever sampled
 */
struct kv_pool_glance {
	const char *name;
	const char *device;
	u32 device_number;
	u32 nr_classes;
	const char *policy;
	const char *engine;
	struct kv_zone_glance zone;
	struct kvmm_pool_stat stat;
	struct kvmm_alloc_stat alloc;
	struct kvmm_pressure pressure;
	struct kvmm_growth_stat growth;
	struct kvmm_step_stat step;
	struct kvmm_pace_stat pace;
	struct kvmm_elastic_stat elastic;
	struct kvmm_verify_stat verify;
	struct kvmm_background_stat background;
	struct kvmm_pin_stat pins;
	struct kvmm_tier *tier;
	struct kvmm_tier_client_stat below;
	struct kvmm_class_stat class[KVMM_MAX_CLASSES];
	u32 residency_ppm;
	struct kvmm_residency_stat residency[KVMM_NR_RESIDENCY_KINDS];
};

/*
 * 0, -EUCLEAN or -ECHILD. Of a closed pool there are the fixed numbers, the sizes of @stat
 * included, and no others. The lock of the pool's pressure is taken for some 100 ns, for which only
 * threads that wait for blocks anyhow wait.
 */
int kv_pool_glance(struct kvmm_pool *pool, struct kv_pool_glance *glance);

/*
 * Tenants that have limits, in the order of their accounts, up to @max; how many there are. Without
 * @nr_inactive.
 */
u32 kv_pool_glance_tenants(struct kvmm_pool *pool, struct kvmm_tenant_stat *tenants, u32 max);

/* Does a consumer of events read news of requests? A note is made for those only. */
bool kv_requests_are_read(struct kvmm_pool *pool);

extern const char *const kv_step_names[KVMM_NR_STEPS];	/* of reclaim */

struct kvmm_events;

/* Events that are there are due: reads up to here wait for no window. Later ones do. Context: the
 * thread that reads. */
void kv_events_flush(struct kvmm_events *events);

#endif /* KV_FEED_H */
