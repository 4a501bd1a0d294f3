// SPDX-License-Identifier: Apache-2.0
/*
 * Settings that can be changed while the engine runs: a table, and nothing that is not in it.
 *
 * Settings that are set together by one call are a group: to change one its group is read, changed
 * and set. That may undo what a thread inside of the process sets of the group at the same time.
 */
#include <string.h>

#include <kv/pool.h>
#include <kvmm/alloc.h>
#include <kvmm/background.h>
#include <kvmm/compact.h>
#include <kvmm/elastic.h>
#include <kvmm/step.h>
#include <kvmm/tier.h>
#include <kvmm/verify.h>

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

/**
 * struct group_ops - one group
 * @load: how it is: 0, or -errno: this pool has none of it. @glance is of this moment
 * @store: 0 or -errno, and nothing has changed
 */
struct group_ops {
	int (*load)(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		    union group *group);
	int (*store)(struct kvmm_pool *pool, const union group *group);
};

static int load_marks(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	group->marks = glance->alloc.marks;
	return 0;
}

static int store_marks(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_watermarks_set(pool, &group->marks);
}

static const struct group_ops marks_ops = { load_marks, store_marks };

/* Off is a threshold of 0; the rest are initial values. */
static int load_background(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	const struct kvmm_background preset = KVMM_BACKGROUND_INIT;
	int err;

	group->background = preset;
	err = kv_background_get(pool, &group->background);
	if (err == -ENOENT)
		group->background.threshold_pm = 0;
	return err == -ENOENT ? 0 : err;
}

static int store_background(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_background_set(pool, group->background.threshold_pm ? &group->background :
									  NULL);
}

static const struct group_ops background_ops = { load_background, store_background };

static int load_pace(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	group->pace = (struct kvmm_pace){ sizeof(group->pace), glance->pace.bytes_per_ms,
					  glance->pace.bytes_per_step, 0, 0 };
	return 0;
}

static int store_pace(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_pace_set(pool, &group->pace);
}

static const struct group_ops pace_ops = { load_pace, store_pace };

static int load_balloon(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	group->balloon = glance->elastic.target_bytes;
	return 0;
}

static int store_balloon(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_balloon_set(pool, group->balloon);
}

static const struct group_ops balloon_ops = { load_balloon, store_balloon };

static int load_verify(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	group->verify = (struct kvmm_verify_attr){ sizeof(group->verify), glance->verify.sample_pm,
						   0 };
	return 0;
}

static int store_verify(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_verify_set(pool, &group->verify);
}

static const struct group_ops verify_ops = { load_verify, store_verify };

static int load_tier(struct kvmm_pool *pool, const struct kv_pool_glance *glance,
		union group *group)
{
	group->tier.size = sizeof(group->tier);
	return kvmm_tier_config(pool, &group->tier);
}

static int store_tier(struct kvmm_pool *pool, const union group *group)
{
	return kvmm_tier_configure(pool, &group->tier);
}

static const struct group_ops tier_ops = { load_tier, store_tier };

/**
 * struct setting - one of them; constant
 * @name: a word
 * @help: with the unit
 * @ops: its group
 * @offset, @bytes: of it in the group: 4 or 8
 * @min, @max: the values accepted; calls may refuse more
 */
struct setting {
	const char *name;
	const char *help;
	const struct group_ops *ops;
	u32 offset;
	u32 bytes;
	u64 min;
	u64 max;
};

#define SETTING(name, ops, field, min, max, help)				\
	{ name, help, &ops, offsetof(union group, field),			\
	  sizeof(((union group *)NULL)->field), min, max }

#define MAX_MS		86400000u
#define MAX_BYTES	(1ull << 48)

static const struct setting settings[] = {
	SETTING("watermark_min", marks_ops, marks.min, 0, KVMM_MAX_BLOCKS,
		"free blocks that only urgent requests take"),
	SETTING("watermark_low", marks_ops, marks.low, 0, KVMM_MAX_BLOCKS,
		"free blocks that normal requests do not take"),
	SETTING("watermark_high", marks_ops, marks.high, 0, KVMM_MAX_BLOCKS,
		"free blocks up to which is reclaimed"),
	SETTING("background_threshold_pm", background_ops, background.threshold_pm, 0, 1000,
		"unusable share of the free blocks from which on blocks are moved, per mille; "
		"0 = off"),
	SETTING("background_interval_ms", background_ops, background.interval_ms, 1, MAX_MS,
		"milliseconds between two looks"),
	SETTING("background_request_blocks", background_ops, background.request_blocks, 0,
		KVMM_MAX_BLOCKS, "length that the share is about; 0 = the median of requests"),
	SETTING("background_max_blocks", background_ops, background.max_blocks, 1, KVMM_MAX_BLOCKS,
		"most blocks on their way"),
	SETTING("background_mode", background_ops, background.mode, 0, KVMM_NR_MOVE_MODES - 1,
		"0 = beside steps, 1 = between them"),
	SETTING("background_flags", background_ops, background.flags, 0, 15,
		"sum of 1 = a thread, 2 = only when idle, 4 = shorten ranges, 8 = verify"),
	SETTING("pace_bytes_per_ms", pace_ops, pace.bytes_per_ms, 0, 1ull << 40,
		"most bytes copied a millisecond beside steps; 0 = no limit"),
	SETTING("pace_bytes_per_step", pace_ops, pace.bytes_per_step, 0, 1ull << 40,
		"most bytes copied a step; 0 = no limit"),
	SETTING("balloon_bytes", balloon_ops, balloon, 0, MAX_BYTES,
		"bytes that are to be given back to the device"),
	SETTING("verify_sample_pm", verify_ops, verify.sample_pm, 0, 1000,
		"blocks that get a checksum, per mille"),
	SETTING("tier_write", tier_ops, tier.write, 0, KVMM_NR_TIER_WRITES - 1,
		"0 = selective, 1 = explicit, 2 = through, 3 = back, 4 = threshold"),
	SETTING("tier_touches", tier_ops, tier.touches, 1, 15,
		"uses that make a block worth a copy"),
	SETTING("tier_high_pm", tier_ops, tier.high_pm, 0, 1000,
		"fullness from which on blocks go down, per mille"),
	SETTING("tier_low_pm", tier_ops, tier.low_pm, 0, 1000, "down to which, per mille"),
	SETTING("tier_step_blocks", tier_ops, tier.step_blocks, 0, UINT32_MAX,
		"most blocks that one poll begins to copy down; 0 = no limit"),
	SETTING("tier_step_bytes", tier_ops, tier.step_bytes, 0, MAX_BYTES,
		"most bytes that one poll begins to copy down; 0 = no limit"),
	SETTING("tier_min_load", tier_ops, tier.min_load, 0, KVMM_MAX_BLOCKS,
		"blocks that are worth a load; 0 = any"),
	SETTING("tier_verify_every", tier_ops, tier.verify_every, 0, UINT32_MAX,
		"one block in so many gets a checksum; 0 = none"),
	SETTING("tier_reload_ns", tier_ops, tier.reload_ns, 0, UINT64_MAX,
		"what is loaded so soon is thrashing, nanoseconds"),
	SETTING("tier_recompute_ns", tier_ops, tier.recompute_ns, 0, UINT64_MAX,
		"to compute a token, nanoseconds; 0 = unknown"),
};

static u64 get_field(const union group *group, const struct setting *setting)
{
	const char *at = (const char *)group + setting->offset;
	u32 narrow;
	u64 wide;

	if (setting->bytes == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static void set_field(union group *group, const struct setting *setting, u64 value)
{
	char *at = (char *)group + setting->offset;
	u32 narrow = value;

	if (setting->bytes == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &narrow, sizeof(narrow));
}

static void write_setting(struct kv_control_call *call, const struct setting *setting)
{
	union group group = { 0 };
	int err = setting->ops->load(call->pool, &call->entry->glance, &group);

	kv_text_printf(call->text, "%s\t", setting->name);
	if (err)
		kv_text_puts(call->text, "-");
	else
		kv_text_printf(call->text, "%llu", (llu)get_field(&group, setting));
	kv_text_printf(call->text, "\t%llu\t%llu\t%s\n", (llu)setting->min, (llu)setting->max,
		       setting->help);
}

static int cmd_config(struct kv_control_call *call)
{
	int err = kv_control_glance(call->entry);

	if (err)
		return err;
	kv_text_puts(call->text, "#name:s\tvalue\tmin\tmax\thelp:s\n");
	for (u32 i = 0; i < ARRAY_SIZE(settings); i++)
		if (!call->nr_args || !strcmp(call->arg[0], settings[i].name))
			write_setting(call, &settings[i]);
	return 0;
}

static const struct setting *find_setting(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(settings); i++)
		if (!strcmp(settings[i].name, name))
			return &settings[i];
	return NULL;
}

/* The old value, and the new one. */
static int cmd_set(struct kv_control_call *call)
{
	const struct setting *setting = find_setting(call->arg[0]);
	union group group = { 0 };
	u64 value, before;
	int err;

	if (!setting)
		return kv_call_error(call, -ENOENT, "there is no setting '%.64s'; try config",
				     call->arg[0]);
	err = kv_call_number(call, 1, setting->min, setting->max, &value);
	if (!err)
		err = kv_control_glance(call->entry);
	if (err)
		return err;
	err = setting->ops->load(call->pool, &call->entry->glance, &group);
	before = get_field(&group, setting);
	if (!err) {
		set_field(&group, setting, value);
		err = setting->ops->store(call->pool, &group);
	}
	if (err)
		return kv_call_error(call, err, "%s: %s", setting->name, kvmm_strerror(err));
	kv_text_printf(call->text, "#name:s\tbefore\tvalue\n%s\t%llu\t%llu\n", setting->name,
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
