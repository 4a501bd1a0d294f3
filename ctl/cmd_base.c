// SPDX-License-Identifier: Apache-2.0
/* Lists: commands, pools, and the numbers of a pool. */
#include <string.h>

#include <kvmm/pool.h>

#include "control.h"

static int cmd_help(struct kv_control_call *call)
{
	kv_text_puts(call->text, "#command\targs\tsteers\thelp\n");
	for (u32 set = 0; set < KV_NR_COMMAND_SETS; set++)
		for (const struct kv_command *command = call->control->sets[set]->commands;
		     command->name; command++)
			if (!call->nr_args || !strcmp(call->arg[0], command->name))
				kv_text_printf(call->text, "%s\t%s\t%u\t%s\n", command->name,
					       *command->args ? command->args : "-",
					       !!(command->flags & KV_COMMAND_STEERS),
					       command->help);
	return 0;
}

static int cmd_version(struct kv_control_call *call)
{
	kv_text_printf(call->text, "#protocol\tversion:s\n1\t%s\n", kvmm_version());
	return 0;
}

static int cmd_pools(struct kv_control_call *call)
{
	kv_text_puts(call->text, "#pool:s\n");
	for (const struct kv_control_pool *entry = kv_control_pools(call->control); entry;
	     entry = entry->next)
		kv_text_printf(call->text, "%s\n", entry->name);
	return 0;
}

/* The command is the name of the table. Without a lock: each number is of its own moment. */
static int cmd_numbers(struct kv_control_call *call)
{
	struct views shown;
	int err = control_open_views(call, &shown);

	return err ? err : metrics_write_rows(&shown, call->command->name, call->text);
}

static const struct kv_command commands[] = {
	{ "help", "[COMMAND]", "what commands there are", 0, 0, 1, cmd_help },
	{ "version", "", "of the protocol, and of the library", 0, 0, 0, cmd_version },
	{ "pools", "", "names of the pools", 0, 0, 0, cmd_pools },
	{ "stat", "[POOL]", "numbers of a pool, or of all", 0, 0, 1, cmd_numbers },
	{ "tenants", "[POOL]", "the same of tenants with limits", 0, 0, 1, cmd_numbers },
	{ "classes", "[POOL]", "the same of classes", 0, 0, 1, cmd_numbers },
	{ "slabs", "", "slab caches of the process", 0, 0, 0, cmd_numbers },
	{ 0 },
};

const struct kv_command_set kv_commands_base = { .commands = commands };
