// SPDX-License-Identifier: Apache-2.0
/* Looking at pools, and at the tiers that they have, each once. */
#include <string.h>

#include <kv/mem.h>
#include <kv/pool.h>

#include "metrics.h"

#define MAX_POOLS	1024u
#define MAX_TENANTS	(KVMM_MAX_TENANTS + 1)

int metrics_attr(const struct kvmm_metrics_attr *from, struct kvmm_metrics_attr *attr)
{
	if (!from || kv_copy_attr(attr, sizeof(*attr), from))
		return -EINVAL;
	if (attr->nr_pools > MAX_POOLS || (attr->nr_pools && !attr->pools) || attr->reserved ||
	    attr->format >= KVMM_NR_METRICS_FORMATS)
		return -EINVAL;
	attr->max_tenants = min(attr->max_tenants, MAX_TENANTS);
	for (u32 i = 0; i < attr->nr_pools; i++)
		if (!attr->pools[i])
			return -EINVAL;
	return 0;
}

static void count_orders(struct pool_view *view)
{
	const struct kv_zone_glance *zone = &view->glance.zone;
	u64 nr_useful = zone->nr_free;

	for (u32 order = 0; order < KVMM_NR_ORDERS; order++) {
		for (u32 class = 0; class < KVMM_NR_MOBILITY; class++)
			view->order_free[order] += zone->free[class * KVMM_NR_ORDERS + order];
		view->unusable_ppm[order] = zone->nr_free ?
			(zone->nr_free - nr_useful) * 1000000 / zone->nr_free : 1000000;
		nr_useful -= min(view->order_free[order] << order, nr_useful);
	}
}

/* Of those that are made meanwhile there may be some too many. */
#define ROOM_FOR_MORE	16u

/* What tenants count adds up to one row; a sum of limits is none. */
static void add_tenant(struct kvmm_tenant_stat *sum, const struct kvmm_tenant_stat *tenant)
{
	for (u32 i = 0; i < kv_nr_metrics; i++) {
		const struct kv_column *column = &kv_metrics[i].column;
		u64 number;

		if (kv_metrics[i].scope != SCOPE_TENANT)
			continue;
		number = kv_column_number(column, sum, 0) + kv_column_number(column, tenant, 0);
		if (column->kind == KV_CELL_LIMIT)
			number = UINT32_MAX;
		kv_column_set(column, sum, number);
	}
}

/* At most @max, and the sum of those beyond. */
static int take_tenants(struct kvmm_pool *pool, u32 max, struct pool_view *view)
{
	u32 nr = kv_pool_glance_tenants(pool, NULL, 0), room = nr + ROOM_FOR_MORE;

	if (!nr)
		return 0;
	view->tenant = kv_alloc_array(room, sizeof(*view->tenant));
	if (!view->tenant)
		return -ENOMEM;
	nr = min(kv_pool_glance_tenants(pool, view->tenant, room), room);
	view->has_others = nr > max;
	view->nr_tenants = min(nr, max) + view->has_others;
	for (u32 i = max + 1; i < nr; i++)
		add_tenant(&view->tenant[max], &view->tenant[i]);
	if (view->has_others)
		add_tenant(&view->tenant[max], &(struct kvmm_tenant_stat){ 0 });
	return 0;
}

/* One that several pools share is looked at once. */
static int take_tier(struct views *views, struct pool_view *view)
{
	int err;

	if (!view->glance.tier)
		return 0;
	for (struct pool_view *at = views->pool; at < view && !view->tier; at++)
		if (at->glance.tier == view->glance.tier)
			view->tier = at->tier;
	if (view->tier)
		return 0;
	err = kv_tier_glance(view->glance.tier, &views->tier[views->nr_tiers]);
	if (!err)
		view->tier = &views->tier[views->nr_tiers++];
	return err;
}

static int take_pool(const struct kvmm_metrics_attr *attr, u32 i, struct views *views)
{
	struct pool_view *view = &views->pool[i];
	int err = kv_pool_glance(attr->pools[i], &view->glance);

	if (err && err != -EUCLEAN)
		return err;
	view->pool = attr->pools[i];
	view->name = attr->names && attr->names[i] ? attr->names[i] : view->glance.name;
	view->is_closed = err == -EUCLEAN;
	if (view->is_closed)
		return 0;
	count_orders(view);
	err = take_tenants(attr->pools[i], attr->max_tenants, view);
	return err ? err : take_tier(views, view);
}

static int take_slabs(struct views *views)
{
	u32 at = 0, room = kv_slab_nr() + ROOM_FOR_MORE;

	views->slab = kv_alloc_array(room, sizeof(*views->slab));
	if (!views->slab)
		return -ENOMEM;
	while (views->nr_slabs < room && !kv_slab_next(&at, &views->slab[views->nr_slabs]))
		views->nr_slabs++;
	return 0;
}

static int take_publishers(struct views *views)
{
	u32 room = publishers_look(NULL, 0) + ROOM_FOR_MORE;

	views->publisher = kv_alloc_array(room, sizeof(*views->publisher));
	if (!views->publisher)
		return -ENOMEM;
	views->nr_publishers = min(publishers_look(views->publisher, room), room);
	return 0;
}

void views_drop(struct views *views)
{
	for (u32 i = 0; views->pool && i < views->nr_pools; i++)
		kv_free(views->pool[i].tenant);
	kv_free(views->pool);
	kv_free(views->tier);
	kv_free(views->slab);
	kv_free(views->publisher);
	*views = (struct views){ 0 };
}

int views_take(const struct kvmm_metrics_attr *attr, struct views *views)
{
	u32 room = max(attr->nr_pools, 1u);
	int err = 0;

	*views = (struct views){ .nr_pools = attr->nr_pools };
	views->pool = kv_alloc_array(room, sizeof(*views->pool));
	views->tier = kv_alloc_array(room, sizeof(*views->tier));
	if (!views->pool || !views->tier)
		err = -ENOMEM;
	for (u32 i = 0; i < attr->nr_pools && !err; i++)
		err = take_pool(attr, i, views);
	err = err ? err : take_slabs(views);
	err = err ? err : take_publishers(views);
	if (err)
		views_drop(views);
	return err;
}
