// SPDX-License-Identifier: Apache-2.0
/* Lists: commands, pools, and the numbers of a pool. */
#include <string.h>

#include <kvmm/pool.h>

#include "control.h"

typedef unsigned long long llu;

static int cmd_help(struct kv_control_call *call)
{
	kv_text_puts(call->text, "#command\targs\tsteers\thelp\n");
	for (u32 set = 0; set < kv_nr_command_sets; set++)
		for (const struct kv_command *command = kv_command_sets[set]->commands;
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

static const char stat_head[] =
	"#pool:s\tblocks\tfree\tinactive\tavailable\tnull\tranges_blocks\tprivate\tstaged\tactive\t"
	"ranges\tlargest\truns\tblock_tokens\tblock_bytes\tallocs\talloc_blocks\tfrees\t"
	"fail_nospc\tfail_frag\tevictions\thit_blocks\tmiss_blocks\tregistered\tduplicates\t"
	"compactions\tmoved_blocks\tmoves\tmetadata_bytes\taway\twaiting\tsteps\tpublished_blocks\t"
	"published_moves\tcopying_blocks\tlimbo_blocks\tstagings\treserved_blocks\n";

/* Without a lock: each number is of its own moment. */
static int write_stat(struct kv_control_call *call, struct kv_control_pool *entry)
{
	const struct kv_pool_glance *glance = &entry->glance;
	const struct kvmm_pool_stat *s = &glance->stat;
	int err = kv_control_glance(entry);

	if (err)
		return err;
	kv_text_printf(call->text, "%s\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t", entry->name,
		       s->nr_blocks, s->nr_free, s->nr_inactive, s->nr_available,
		       s->nr_state[KVMM_BLOCK_NULL], s->nr_state[KVMM_BLOCK_RANGE],
		       s->nr_state[KVMM_BLOCK_PRIVATE], s->nr_state[KVMM_BLOCK_STAGED],
		       s->nr_state[KVMM_BLOCK_ACTIVE]);
	kv_text_printf(call->text, "%u\t%u\t%u\t%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t",
		       s->nr_ranges, s->largest, s->nr_runs, s->block_tokens, (llu)s->block_bytes,
		       (llu)s->allocs, (llu)s->alloc_blocks, (llu)s->frees, (llu)s->fail_nospc,
		       (llu)s->fail_frag);
	kv_text_printf(call->text, "%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%u\t",
		       (llu)s->evictions, (llu)s->hit_blocks, (llu)s->miss_blocks,
		       (llu)s->registered, (llu)s->duplicates, (llu)s->compactions,
		       (llu)s->moved_blocks, (llu)s->moves, (llu)s->metadata_bytes, s->nr_away);
	kv_text_printf(call->text, "%u\t%llu\t%llu\t%llu\t%u\t%u\t%llu\t%u\n",
		       glance->alloc.nr_waiting,
		       (llu)glance->step.steps, (llu)glance->step.published_blocks,
		       (llu)glance->step.published_moves, glance->step.copying_blocks,
		       glance->step.limbo_blocks, (llu)s->stagings, glance->growth.nr_reserved);
	return 0;
}

/* One pool, or all of them. */
static int cmd_stat(struct kv_control_call *call)
{
	kv_text_puts(call->text, stat_head);
	return kv_call_each(call, write_stat);
}

static const struct kv_command commands[] = {
	{ "help", "[COMMAND]", "what commands there are", 0, 0, 1, cmd_help },
	{ "version", "", "of the protocol, and of the library", 0, 0, 0, cmd_version },
	{ "pools", "", "names of the pools", 0, 0, 0, cmd_pools },
	{ "stat", "[POOL]", "numbers of a pool, or of all", 0, 0, 1, cmd_stat },
	{ 0 },
};

const struct kv_command_set kv_commands_base = { .commands = commands };
