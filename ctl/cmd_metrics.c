// SPDX-License-Identifier: Apache-2.0
/* Metrics, and texts in layouts of the kernel: of one pool, or of all that the socket has. */
#include <string.h>

#include <kv/mem.h>

#include "command.h"
#include "metrics.h"

/* The pools of the call, by the names that the socket has for them. */
struct chosen {
	struct kvmm_pool **pool;	/* ours */
	const char **name;		/* ours */
	u32 nr;
};

static void forget(struct chosen *chosen)
{
	kv_free(chosen->pool);
	kv_free(chosen->name);
}

static void choose_all(struct kv_control_call *call, struct chosen *chosen)
{
	for (struct kv_control_pool *entry = kv_control_pools(call->control); entry;
	     entry = entry->next) {
		chosen->pool[chosen->nr] = entry->pool;
		chosen->name[chosen->nr++] = entry->name;
	}
}

static int choose(struct kv_control_call *call, const char *name, struct chosen *chosen)
{
	struct kv_control_pool *one = name ? kv_control_find(call->control, name) : NULL;
	u32 nr = 1;

	if (name && !one)
		return kv_call_error(call, -ENOENT, "there is no pool '%.64s'", name);
	for (struct kv_control_pool *at = kv_control_pools(call->control); at; at = at->next)
		nr++;
	*chosen = (struct chosen){ .pool = kv_alloc_array(nr, sizeof(*chosen->pool)),
				   .name = kv_alloc_array(nr, sizeof(*chosen->name)) };
	if (!chosen->pool || !chosen->name) {
		forget(chosen);
		return -ENOMEM;
	}
	if (!one) {
		choose_all(call, chosen);
	} else {
		chosen->pool[0] = one->pool;
		chosen->name[chosen->nr++] = one->name;
	}
	return 0;
}

static int look(struct kv_control_call *call, const char *name, struct views *views,
		struct chosen *chosen)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	int err = choose(call, name, chosen);

	if (err)
		return err;
	attr.pools = chosen->pool;
	attr.names = chosen->name;
	attr.nr_pools = chosen->nr;
	err = views_take(&attr, views);
	if (err)
		forget(chosen);
	return err;
}

static const char *const formats[KVMM_NR_METRICS_FORMATS] = { "openmetrics", "prometheus" };

static int cmd_metrics(struct kv_control_call *call)
{
	const char *format = call->nr_args ? call->arg[0] : formats[0];
	struct chosen chosen;
	struct views views;
	u32 i = 0;
	int err;

	while (i < KVMM_NR_METRICS_FORMATS && strcmp(formats[i], format))
		i++;
	if (i == KVMM_NR_METRICS_FORMATS)
		return kv_call_error(call, -EINVAL, "a format is openmetrics or prometheus");
	err = look(call, call->nr_args > 1 ? call->arg[1] : NULL, &views, &chosen);
	if (err)
		return err;
	metrics_write(&views, i, call->text);
	views_drop(&views);
	forget(&chosen);
	return 0;
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
	struct chosen chosen;
	struct views views;
	int err = look(call, call->nr_args ? call->arg[0] : NULL, &views, &chosen);

	if (err)
		return err;
	err = metrics_write_kernel(&views, strcmp(what, "pressure-text") ? what : "pressure/memory",
				   call->text);
	views_drop(&views);
	forget(&chosen);
	return err;
}

static const struct kv_command commands[] = {
	{ "metrics", "[openmetrics|prometheus [POOL]]",
	  "what Prometheus scrapes, of all pools or of one; no table", 0, 0, 2, cmd_metrics },
	{ "metrics-families", "", "the families there are", 0, 0, 0, cmd_families },
	{ "buddyinfo", "[POOL]", "free blocks by order, in the layout of Linux", 0, 0, 1, cmd_kernel },
	{ "pagetypeinfo", "[POOL]", "the same by class, in the layout of Linux", 0, 0, 1, cmd_kernel },
	{ "slabinfo", "", "slab caches, in the layout of Linux", 0, 0, 0, cmd_kernel },
	{ "vmstat", "[POOL]", "counts, in the layout of Linux", 0, 0, 1, cmd_kernel },
	{ "pressure-text", "[POOL]", "pressure stall information, in the layout of Linux", 0, 0, 1,
	  cmd_kernel },
	{ 0 },
};

const struct kv_command_set kv_commands_metrics = { .commands = commands };
