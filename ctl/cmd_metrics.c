// SPDX-License-Identifier: Apache-2.0
/* Metrics, and texts in layouts of the kernel: of one pool, or of all that the socket has. */
#include <string.h>

#include "control.h"

static const char *const formats[KVMM_NR_METRICS_FORMATS] = { "openmetrics", "prometheus" };

static int cmd_metrics(struct kv_control_call *call)
{
	const char *format = call->nr_args ? call->arg[0] : formats[0];
	struct views shown;
	u32 i = 0;
	int err;

	while (i < KVMM_NR_METRICS_FORMATS && strcmp(formats[i], format))
		i++;
	if (i == KVMM_NR_METRICS_FORMATS)
		return kv_call_error(call, -EINVAL, "a format is openmetrics or prometheus");
	err = control_views(call, 1, &shown);
	if (!err)
		metrics_write(&shown, i, call->text);
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
	struct views shown;
	int err = control_views(call, 0, &shown);

	if (err)
		return err;
	if (!strcmp(what, "pressure-text"))
		what = "pressure/memory";
	return metrics_write_kernel(&shown, what, call->text);
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
