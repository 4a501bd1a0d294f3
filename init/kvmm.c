// SPDX-License-Identifier: Apache-2.0
/*
 * The composition root: the one place that knows every part by name.
 *
 * Pools have names of their own: all are in one table, under table_lock.
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

#define MIN_POOLS	8u

struct pool_table {
	u32			nr;		/* fixed at creation */
	struct kvmm_pool	*pool[];	/* NULL or there; table_lock */
};

static struct kv_lock table_lock = { .rank = KV_RANK_CONFIG, .id = 1 };
static struct pool_table *table;		/* table_lock */
static struct kv_fork_node fork_node;		/* table_lock; on its list once there was a pool */

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

unsigned int kvmm_policies(const char **names, unsigned int max)
{
	u32 nr;

	for (nr = 0; kv_evict_policies[nr]; nr++)
		if (names && nr < max)
			names[nr] = kv_evict_policies[nr]->name;
	return nr;
}

/* ---- the table of pools ---- */

static struct kvmm_pool *find_in(const struct pool_table *in, const char *name)
{
	for (u32 i = 0; in && i < in->nr; i++) {
		if (in->pool[i] && !strcmp(kv_pool_name(in->pool[i]), name))
			return in->pool[i];
	}
	return NULL;
}

/* A place in the table, which may have to grow for it; NULL if there is no memory. */
static struct kvmm_pool **free_place(void)
{
	struct pool_table *old = table, *new;
	u32 i, nr = old ? old->nr : 0;

	for (i = 0; i < nr; i++)
		if (!old->pool[i])
			return &old->pool[i];
	new = kv_alloc(sizeof(*new) + max(2 * nr, MIN_POOLS) * sizeof(new->pool[0]));
	if (!new)
		return NULL;
	new->nr = max(2 * nr, MIN_POOLS);
	if (old) {
		memcpy(new->pool, old->pool, nr * sizeof(old->pool[0]));
		kv_free(old);
	}
	table = new;
	return &new->pool[nr];
}

/*
 * The parent's pools have no names here, and cannot be destroyed: they may be half changed, and
 * have other references. The table stays behind with them.
 */
static void forget_in_child(struct kv_fork_node *node)
{
	table = NULL;
}

static int publish_pool(struct kvmm_pool *pool, bool is_named)
{
	char name[KV_POOL_NAME] = "pool";
	struct kvmm_pool **place;
	int err = 0;

	kv_lock(&table_lock);
	if (!fork_node.in_child)
		kv_fork_add(&fork_node, forget_in_child);
	/* "pool", "pool1", "pool2", ...: the first that no pool has. */
	for (u32 i = 1; !is_named && find_in(table, name); i++)
		snprintf(name, sizeof(name), "pool%u", i);
	if (!is_named)
		kv_pool_set_name(pool, name);
	else if (find_in(table, kv_pool_name(pool)))
		err = -EEXIST;
	place = err ? NULL : free_place();
	if (place)
		*place = pool;
	else if (!err)
		err = -ENOMEM;
	kv_unlock(&table_lock);
	return err;
}

/*
 * Needs no memory: the place stays, empty; the last one takes the table along. False: there is no
 * such pool, or no longer.
 */
static bool unpublish_pool(const struct kvmm_pool *pool)
{
	struct pool_table *in;
	u32 nr_left = 0;
	bool found = false;

	kv_lock(&table_lock);
	in = table;
	for (u32 i = 0; in && i < in->nr; i++) {
		if (in->pool[i] == pool) {
			in->pool[i] = NULL;
			found = true;
		}
		nr_left += in->pool[i] != NULL;
	}
	if (found && !nr_left) {
		table = NULL;
		kv_free(in);
	}
	kv_unlock(&table_lock);
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
