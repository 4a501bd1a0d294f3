// SPDX-License-Identifier: Apache-2.0
/* The table of commands. */
#include "command.h"

const struct kv_command_set *const kv_command_sets[KV_NR_COMMAND_SETS] = {
	&kv_commands_base,
	&kv_commands_events,
	&kv_commands_metrics,
	&kv_commands_views,
	&kv_commands_show,
	&kv_commands_set,
	&kv_commands_compact,
	&kv_commands_migrate,
	&kv_commands_prefetch,
};
