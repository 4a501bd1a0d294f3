// SPDX-License-Identifier: Apache-2.0
/* Metrics, and texts in layouts of the kernel: of one pool, or of all that the socket has. */
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "command.h"
#include "control.h"
#include "metrics.h"

/* All pools, by the names that the socket has for them. */
static int view_all(struct kvmm_control *control)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	struct views *views = kv_alloc(sizeof(*views));
	struct kvmm_pool **pools;
	const char **names;
	int err = -ENOMEM;
	u32 room = 1;

	for (struct kv_control_pool *at = kv_control_pools(control); at; at = at->next)
		room++;
	pools = kv_alloc_array(room, sizeof(*pools));
	names = kv_alloc_array(room, sizeof(*names));
	if (views && pools && names) {
		for (struct kv_control_pool *at = control->pools; at; at = at->next) {
			pools[attr.nr_pools] = at->pool;
			names[attr.nr_pools++] = at->name;
		}
		attr.pools = pools;
		attr.names = names;
		err = views_take(&attr, views);
	}
	kv_free(pools);
	kv_free(names);
	if (err)
		kv_free(views);
	else
		control->views = views;
	return err;
}

void control_forget_views(struct kvmm_control *control)
{
	if (control->views)
		views_drop(control->views);
	kv_free(control->views);
	control->views = NULL;
}

/* Views that a client is shown: the control's, and if it wants one pool, that one alone. */
struct shown {
	struct views views;
	struct pool_view pool;
};

static int show_one(struct kv_control_call *call, const char *name, struct shown *shown)
{
	const struct kv_control_pool *entry = kv_control_find(call->control, name);
	struct views *views = &shown->views;
	u32 i = 0;

	if (!entry)
		return kv_call_error(call, -ENOENT, "there is no pool '%.64s'", name);
	while (i < views->nr_pools && views->pool[i].pool != entry->pool)
		i++;
	if (i == views->nr_pools)
		return -EUCLEAN;
	shown->pool = views->pool[i];
	views->pool = &shown->pool;
	views->nr_pools = 1;
	views->nr_tiers = shown->pool.tier != KV_NONE;
	if (views->nr_tiers) {
		views->tier += shown->pool.tier;
		shown->pool.tier = 0;
	}
	return 0;
}

/* Lines that allocators write are read no more often, however many clients ask. */
static int look(struct kv_control_call *call, const char *name, struct shown *shown)
{
	struct kvmm_control *control = call->control;
	u64 now = kv_clock_ns();
	int err = 0;

	kv_assert_held(&control->lock);
	if (!control->views || now - control->viewed_ns >= CONTROL_GLANCE_NS) {
		control_forget_views(control);
		err = view_all(control);
		control->viewed_ns = now;
	}
	if (err)
		return err;
	shown->views = *control->views;
	return name ? show_one(call, name, shown) : 0;
}

static const char *const formats[KVMM_NR_METRICS_FORMATS] = { "openmetrics", "prometheus" };

static int cmd_metrics(struct kv_control_call *call)
{
	const char *format = call->nr_args ? call->arg[0] : formats[0];
	struct shown shown;
	u32 i = 0;
	int err;

	while (i < KVMM_NR_METRICS_FORMATS && strcmp(formats[i], format))
		i++;
	if (i == KVMM_NR_METRICS_FORMATS)
		return kv_call_error(call, -EINVAL, "a format is openmetrics or prometheus");
	err = look(call, call->nr_args > 1 ? call->arg[1] : NULL, &shown);
	if (!err)
		metrics_write(&shown.views, i, call->text);
	return err;
}

static int cmd_families(struct kv_control_call *call)
{
	metrics_write_table(call->text);
	return 0;
}

/* The command is the name of the file. */
static int cmd_kernel(struct kv_control_call *call)
{
	const char *what = call->command->name;
	struct shown shown;
	int err = look(call, call->nr_args ? call->arg[0] : NULL, &shown);

	if (err)
		return err;
	return metrics_write_kernel(&shown.views,
				    strcmp(what, "pressure-text") ? what : "pressure/memory",
				    call->text);
}

static const struct kv_command commands[] = {
	{ "metrics", "[openmetrics|prometheus [POOL]]",
	  "what Prometheus scrapes, of all pools or of one; no table", 0, 0, 2, cmd_metrics },
	{ "metrics-families", "", "the families there are", 0, 0, 0, cmd_families },
	{ "buddyinfo", "[POOL]", "free blocks by order, in the layout of Linux", 0, 0, 1,
	  cmd_kernel },
	{ "pagetypeinfo", "[POOL]", "the same by class, in the layout of Linux", 0, 0, 1,
	  cmd_kernel },
	{ "slabinfo", "", "slab caches, in the layout of Linux", 0, 0, 0, cmd_kernel },
	{ "vmstat", "[POOL]", "counts, in the layout of Linux", 0, 0, 1, cmd_kernel },
	{ "pressure-text", "[POOL]", "pressure stall information, in the layout of Linux", 0, 0, 1,
	  cmd_kernel },
	{ 0 },
};

const struct kv_command_set kv_commands_metrics = { .commands = commands };
