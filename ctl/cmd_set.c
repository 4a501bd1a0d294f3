// SPDX-License-Identifier: Apache-2.0
/*
 * Settings that can be changed while the engine runs: a table, and nothing that is not in it.
 *
 * Settings that are set together by one call are a group: to change one its group is read, changed
 * and set. That may undo what a thread inside of the process sets of the group at the same time.
 */
#include <string.h>

#include <kv/pool.h>
#include <kvmm/compact.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/moves.h>
#include <kvmm/step.h>
#include <kvmm/tier.h>

#include "control.h"

typedef unsigned long long llu;

/* The values of a group. */
union group {
	struct kvmm_watermarks marks;
	struct kvmm_background background;
	struct kvmm_pace pace;
	struct kvmm_verify_attr verify;
	struct kvmm_tier_config tier;
	u64 balloon;
};

enum group_id { MARKS, BACKGROUND, PACE, BALLOON, VERIFY, TIER };

/* How it is: 0, or -errno: this pool has none of it. @glance is of this moment. */
static int load(struct kvmm_pool *pool, const struct kv_pool_glance *glance, enum group_id id,
		union group *group)
{
	int err;

	switch (id) {
	case MARKS:
		group->marks = glance->alloc.marks;
		break;
	case BACKGROUND:	/* off is a threshold of 0; the rest are initial values */
		group->background = (struct kvmm_background)KVMM_BACKGROUND_INIT;
		err = kv_background_get(pool, &group->background);
		if (err == -ENOENT)
			group->background.threshold_pm = 0;
		return err == -ENOENT ? 0 : err;
	case PACE:
		group->pace = (struct kvmm_pace){ sizeof(group->pace), glance->pace.bytes_per_ms,
						  glance->pace.bytes_per_step, 0, 0 };
		break;
	case BALLOON:
		group->balloon = glance->elastic.target_bytes;
		break;
	case VERIFY:
		group->verify = (struct kvmm_verify_attr){ sizeof(group->verify),
							   glance->verify.sample_pm, 0 };
		break;
	case TIER:
		group->tier.size = sizeof(group->tier);
		return kvmm_tier_get_config(pool, &group->tier);
	}
	return 0;
}

/* 0 or -errno, and nothing has changed. */
static int store(struct kvmm_pool *pool, enum group_id id, const union group *group)
{
	switch (id) {
	case MARKS:
		return kvmm_watermarks_set(pool, &group->marks);
	case BACKGROUND:
		return kvmm_background_set(pool, group->background.threshold_pm ?
						 &group->background : NULL);
	case PACE:
		return kvmm_pace_set(pool, &group->pace);
	case BALLOON:
		return kvmm_balloon_set(pool, group->balloon);
	case VERIFY:
		return kvmm_verify_set(pool, &group->verify);
	case TIER:
		return kvmm_tier_configure(pool, &group->tier);
	}
	return -EINVAL;
}

/**
 * struct setting - one of them; constant
 * @column: its name, a word, and where it is in the group
 * @help: with the unit
 * @group: enum group_id
 * @min, @max: the values accepted; calls may refuse more
 */
struct setting {
	struct kv_column column;
	const char *help;
	enum group_id group;
	u64 min;
	u64 max;
};

#define SETTING(name, group_id, field, min, max, help) \
	{ KV_COLUMN(name, NUMBER, union group, field), help, group_id, min, max }

#define MAX_MS		86400000u
#define MAX_BYTES	(1ull << 48)

static const struct setting settings[] = {
	SETTING("watermark_min", MARKS, marks.min, 0, KVMM_MAX_BLOCKS,
		"free blocks that only urgent requests take"),
	SETTING("watermark_low", MARKS, marks.low, 0, KVMM_MAX_BLOCKS,
		"free blocks that normal requests do not take"),
	SETTING("watermark_high", MARKS, marks.high, 0, KVMM_MAX_BLOCKS,
		"free blocks up to which is reclaimed"),
	SETTING("background_threshold_pm", BACKGROUND, background.threshold_pm, 0, 1000,
		"unusable share of the free blocks from which on blocks are moved, per mille; "
		"0 = off"),
	SETTING("background_interval_ms", BACKGROUND, background.interval_ms, 1, MAX_MS,
		"milliseconds between two looks"),
	SETTING("background_request_blocks", BACKGROUND, background.request_blocks, 0,
		KVMM_MAX_BLOCKS, "length that the share is about; 0 = the median of requests"),
	SETTING("background_max_blocks", BACKGROUND, background.max_blocks, 1, KVMM_MAX_BLOCKS,
		"most blocks on their way"),
	SETTING("background_mode", BACKGROUND, background.mode, 0, KVMM_NR_MOVE_MODES - 1,
		"0 = beside steps, 1 = between them"),
	SETTING("background_flags", BACKGROUND, background.flags, 0, 15,
		"sum of 1 = a thread, 2 = only when idle, 4 = shorten ranges, 8 = verify"),
	SETTING("pace_bytes_per_ms", PACE, pace.bytes_per_ms, 0, 1ull << 40,
		"most bytes copied a millisecond beside steps; 0 = no limit"),
	SETTING("pace_bytes_per_step", PACE, pace.bytes_per_step, 0, 1ull << 40,
		"most bytes copied a step; 0 = no limit"),
	SETTING("balloon_bytes", BALLOON, balloon, 0, MAX_BYTES,
		"bytes that are to be given back to the device"),
	SETTING("verify_sample_pm", VERIFY, verify.sample_pm, 0, 1000,
		"blocks that get a checksum, per mille"),
	SETTING("tier_write", TIER, tier.write, 0, KVMM_NR_TIER_WRITES - 1,
		"0 = selective, 1 = explicit, 2 = through, 3 = back, 4 = threshold"),
	SETTING("tier_touches", TIER, tier.touches, 1, 15,
		"uses that make a block worth a copy"),
	SETTING("tier_high_pm", TIER, tier.high_pm, 0, 1000,
		"fullness from which on blocks go down, per mille"),
	SETTING("tier_low_pm", TIER, tier.low_pm, 0, 1000, "down to which, per mille"),
	SETTING("tier_step_blocks", TIER, tier.step_blocks, 0, UINT32_MAX,
		"most blocks that one poll begins to copy down; 0 = no limit"),
	SETTING("tier_step_bytes", TIER, tier.step_bytes, 0, MAX_BYTES,
		"most bytes that one poll begins to copy down; 0 = no limit"),
	SETTING("tier_min_load", TIER, tier.min_load, 0, KVMM_MAX_BLOCKS,
		"blocks that are worth a load; 0 = any"),
	SETTING("tier_verify_every", TIER, tier.verify_every, 0, UINT32_MAX,
		"one block in so many gets a checksum; 0 = none"),
	SETTING("tier_reload_ns", TIER, tier.reload_ns, 0, UINT64_MAX,
		"what is loaded so soon is thrashing, nanoseconds"),
	SETTING("tier_recompute_ns", TIER, tier.recompute_ns, 0, UINT64_MAX,
		"to compute a token, nanoseconds; 0 = unknown"),
};

static int cmd_config(struct kv_control_call *call)
{
	struct views shown;
	int err = control_open_views(call, &shown);

	if (err)
		return err;
	kv_text_puts(call->text, "#name:s\tvalue\tmin\tmax\thelp:s\n");
	for (u32 i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *setting = &settings[i];
		union group group = { 0 };

		if (call->nr_args && strcmp(call->arg[0], setting->column.head))
			continue;
		kv_text_printf(call->text, "%s\t", setting->column.head);
		if (load(call->pool, &shown.pool->glance, setting->group, &group))
			kv_text_puts(call->text, "-");
		else
			kv_text_cell(call->text, &setting->column, &group);
		kv_text_printf(call->text, "\t%llu\t%llu\t%s\n", (llu)setting->min,
			       (llu)setting->max, setting->help);
	}
	return 0;
}

/* The old value, and the new one. */
static int cmd_set(struct kv_control_call *call)
{
	const struct setting *setting = settings, *end = settings + ARRAY_SIZE(settings);
	union group group = { 0 };
	struct views shown;
	u64 value, before;
	int err;

	while (setting < end && strcmp(setting->column.head, call->arg[0]))
		setting++;
	if (setting == end)
		return kv_call_error(call, -ENOENT, "there is no setting '%.64s'; try config",
				     call->arg[0]);
	err = kv_call_number(call, 1, setting->min, setting->max, &value);
	if (!err)
		err = control_open_views(call, &shown);
	if (err)
		return err;
	err = load(call->pool, &shown.pool->glance, setting->group, &group);
	before = kv_column_number(&setting->column, &group, 0);
	kv_column_set(&setting->column, &group, value);
	if (!err)
		err = store(call->pool, setting->group, &group);
	if (err)
		return kv_call_error(call, err, "%s: %s", setting->column.head, kvmm_strerror(err));
	kv_text_printf(call->text, "#name:s\tbefore\tvalue\n%s\t%llu\t%llu\n", setting->column.head,
		       (llu)before, (llu)value);
	return 0;
}

static const struct kv_command commands[] = {
	{ "config", "POOL [NAME]", "settings that can be changed live", KV_COMMAND_POOL, 0, 1,
	  cmd_config },
	{ "set", "POOL NAME VALUE", "change one", KV_COMMAND_POOL | KV_COMMAND_STEERS, 2, 2,
	  cmd_set },
	{ 0 },
};

const struct kv_command_set kv_commands_set = { .commands = commands };
