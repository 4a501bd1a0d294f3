// SPDX-License-Identifier: Apache-2.0
/*
 * --config FILE: what a configuration file of <kvmm/config.h> says of tiers, as if it stood in the options at
 * that place. What a simulation has nothing like is refused, so that nobody believes it was tried.
 */
#include <argp.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "replay.h"

#define NS_PER_MS	1000000ull

static struct kvmm_config config = KVMM_CONFIG_INIT;	/* has the strings */

/* Keys that the replay has no use for, and why. */
static const struct refusal {
	const char *key;
	const char *why;
} refusals[] = {
	{ "host_name", "the tier has no name here" },
	{ "host_device", "no driver pins memory here" },
	{ "host_block_bytes", "a unit is a block, of --block-tokens * --token-bytes" },
	{ "host_chunk_bytes", "there is no memory to be pinned" },
	{ "host_numa_node", "there is no memory to lie anywhere" },
	{ "layout_id", "there is one pool only" },
	{ "complete", "there are no streams" },
	{ "verify_every", "there is no content" },
	{ "disk_path", "the disk is simulated" },
	{ "disk_segment_bytes", "the disk is simulated, block by block" },
	{ "disk_depth", "the disk is simulated; see disk_max_put, disk_max_get" },
	{ "disk_create", "the disk is simulated" },
	{ "disk_buffered", "the disk is simulated" },
	{ "disk_io", "the disk is simulated" },
};

static bool is_set(const char *name)
{
	const char *key;

	for (u32 i = 0; (key = kvmm_config_key(i)); i++)
		if (!strcmp(key, name))
			return config.set >> i & 1;
	return false;
}

static void to_attr(const struct options *opt, struct kvmm_tier_attr *host,
		    struct kvmm_tier_config *knobs)
{
	host->capacity_blocks = opt->host_blocks;
	host->policy = opt->host_policy;
	host->up = opt->up;
	host->down = opt->down;
	*knobs = opt->knobs;
	knobs->write = opt->write_policy;
	knobs->touches = opt->touches ? opt->touches : knobs->touches;
	knobs->high_pm = opt->offload_pm;
	knobs->low_pm = opt->low_pm != U32_NONE ? opt->low_pm : 0;
	knobs->reload_ns = opt->reload_ms * NS_PER_MS;
	knobs->flags = opt->fixed ? KVMM_TIER_FIXED : 0;
}

static void from_attr(struct options *opt, const struct kvmm_tier_attr *host,
		      const struct kvmm_tier_config *knobs)
{
	opt->host_blocks = host->capacity_blocks;
	opt->host_policy = host->policy;
	opt->up = host->up;
	opt->down = host->down;
	opt->knobs = *knobs;
	opt->write_policy = knobs->write;
	opt->touches = knobs->touches;
	opt->offload_pm = knobs->high_pm;
	opt->reload_ms = (u32)(knobs->reload_ns / NS_PER_MS);
	opt->fixed = knobs->flags & KVMM_TIER_FIXED;
	if (is_set("low"))
		opt->low_pm = knobs->low_pm;
	if (is_set("host_bytes"))
		opt->host_bytes = host->capacity_bytes;
	else if (is_set("host_blocks"))
		opt->host_bytes = 0;
}

/* The option is in milliseconds. */
static bool can_be_said(const struct kvmm_tier_config *knobs)
{
	return !(knobs->reload_ns % NS_PER_MS) && knobs->reload_ns / NS_PER_MS <= 1000000000;
}

void parse_config(struct argp_state *state, struct options *opt, const char *path)
{
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;
	struct kvmm_disk_attr disk = KVMM_DISK_ATTR_INIT;

	to_attr(opt, &host, &knobs);
	config.host = &host;
	config.client = &opt->client;
	config.knobs = &knobs;
	config.disk = &disk;
	config.disk_use = &opt->disk_use;
	if (kvmm_config_load(&config, path))
		bad_option(state, "--config: %s", config.error);
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (is_set(refusals[i].key))
			bad_option(state, "--config: %s: %s is of no use in a replay: %s", path,
				   refusals[i].key, refusals[i].why);
	if (is_set("host_bytes") && is_set("host_blocks"))
		bad_option(state, "--config: %s: host_bytes or host_blocks, not both", path);
	if (!can_be_said(&knobs))
		bad_option(state, "--config: %s: reload_time is in whole milliseconds here", path);
	from_attr(opt, &host, &knobs);
	if (is_set("disk_bytes"))
		opt->disk_bytes = disk.max_bytes;
}
