// SPDX-License-Identifier: Apache-2.0
/*
 * The composition root: the one place that knows every part by name.
 *
 * Pools have names of their own: all are in one list, under list_lock.
 */
#include <stdio.h>
#include <string.h>

#include <kv/defrag.h>
#include <kv/evict.h>
#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/rcu.h>
#include <kv/sys.h>
#include <kvmm/tier.h>

#include "internal.h"

static struct kv_lock list_lock = { .rank = KV_RANK_CONFIG, .id = 1 };
static struct kvmm_pool *pools;			/* list_lock; the latest first */
static struct kv_fork_node fork_node;		/* list_lock; on its list once there was a pool */

/* The first one is the default. */
static const struct kv_planner_ops *const planners[] = {
	&kv_planner_window,
	&kv_planner_slide,
};

/* ---- names ---- */

static int find_planner(const char *name, struct kv_pool_parts *parts)
{
	if (!name)
		parts->planner = planners[0];
	if (!name || !strcmp(name, "off"))
		return 0;
	for (u32 i = 0; i < ARRAY_SIZE(planners); i++) {
		if (strcmp(planners[i]->name, name))
			continue;
		parts->planner = planners[i];
		return 0;
	}
	return kv_refuse(-ENOENT, "kvmm: pool: no compactor \"%s\"", name);
}

static int find_parts(const struct kvmm_pool_attr *attr, struct kv_pool_parts *parts)
{
	int err;

	*parts = (struct kv_pool_parts){ .all = kv_pool_parts_all };
	err = kv_find_device(attr->device ? attr->device : "host", &parts->dev, &parts->dev_number);
	if (!err && attr->policy) {
		parts->evict = kv_evict_find(attr->policy, &parts->evict_args);
		if (!parts->evict)
			err = kv_refuse(-ENOENT, "kvmm: pool: no policy \"%s\"", attr->policy);
	}
	if (!err)
		err = find_planner(attr->compactor, parts);
	if (!err) {
		parts->map = kv_map_find(attr->index);
		if (!parts->map)
			err = kv_refuse(-ENOENT, "kvmm: pool: no index \"%s\"", attr->index);
	}
	return err;
}

/* ---- the list of pools ---- */

static bool is_taken(const char *name)
{
	kv_assert_held(&list_lock);
	for (struct kvmm_pool *pool = pools; pool; pool = *kv_pool_next(pool))
		if (!strcmp(kv_pool_name(pool), name))
			return true;
	return false;
}

/*
 * The parent's pools have no names here, and cannot be destroyed: they may be half changed, and
 * have other references.
 */
static void forget_in_child(struct kv_fork_node *node)
{
	pools = NULL;
}

static int publish_pool(struct kvmm_pool *pool, bool is_named)
{
	char name[KV_POOL_NAME] = "pool";
	int err = 0;

	kv_lock(&list_lock);
	if (!fork_node.in_child)
		kv_fork_add(&fork_node, forget_in_child);
	/* "pool", "pool1", "pool2", ...: the first that no pool has. */
	for (u32 i = 1; !is_named && is_taken(name); i++)
		snprintf(name, sizeof(name), "pool%u", i);
	if (!is_named)
		kv_pool_set_name(pool, name);
	else if (is_taken(kv_pool_name(pool)))
		err = -EEXIST;
	if (!err) {
		*kv_pool_next(pool) = pools;
		pools = pool;
	}
	kv_unlock(&list_lock);
	return err;
}

/* False: there is no such pool, or no longer. */
static bool unpublish_pool(const struct kvmm_pool *pool)
{
	struct kvmm_pool **at = &pools;
	bool found;

	kv_lock(&list_lock);
	while (*at && *at != pool)
		at = kv_pool_next(*at);
	found = *at != NULL;
	if (found)
		*at = *kv_pool_next(*at);
	kv_unlock(&list_lock);
	return found;
}

static int create_pool(const struct kvmm_pool_attr *attr, struct kvmm_pool **result)
{
	struct kvmm_pool_attr known;
	struct kv_pool_parts parts;
	struct kvmm_pool *pool;
	int err;

	kv_why_clear();
	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (err)
		return kv_refuse(err, "kvmm: pool: %zu bytes of attributes, of which %zu are known",
				 attr->size, sizeof(known));
	err = find_parts(&known, &parts);
	if (!err)
		err = kv_pool_create(&known, &parts, &pool);
	if (err)
		return err;
	if (known.host)
		err = kvmm_tier_attach(pool, known.host, known.host_attr);
	if (!err)
		err = publish_pool(pool, known.name);
	if (err) {
		kv_pool_destroy(pool);
		kv_rcu_barrier();
		return err;
	}
	*result = pool;
	return 0;
}

/* Devices are opened and closed by drivers, which may well come by a point of cancellation. */
int kvmm_pool_create(const struct kvmm_pool_attr *attr, struct kvmm_pool **pool)
{
	int cancel = kv_cancel_off();
	int err = create_pool(attr, pool);

	kv_cancel_restore(cancel);
	return err;
}

void kvmm_pool_destroy(struct kvmm_pool *pool)
{
	int cancel = kv_cancel_off();

	if (pool && unpublish_pool(pool)) {
		kv_pool_destroy(pool);
		/* Also for watchers of memory: the pool's is back on return. */
		kv_rcu_barrier();
	}
	kv_cancel_restore(cancel);
}
