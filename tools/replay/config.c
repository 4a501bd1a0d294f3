// SPDX-License-Identifier: Apache-2.0
/*
 * --config FILE: what a configuration file of <kvmm/config.h> says of the host tier, as if it stood in the
 * options at that place. Keys that have no meaning in a simulation are checked and passed over.
 */
#include <argp.h>

#include <kvmm/kvmm.h>

#include "replay.h"

#define BYTES_PER_MB	1000000ull
#define NS_PER_MS	1000000ull

static struct kvmm_config config = KVMM_CONFIG_INIT;	/* has the strings */

static void to_attr(const struct options *opt, struct kvmm_tier_attr *host,
		    struct kvmm_tier_config *knobs)
{
	host->capacity_blocks = opt->host_blocks;
	host->policy = opt->host_policy;
	host->up.bytes_per_s = opt->transfer_mb_s * BYTES_PER_MB;
	host->up.latency_ns = opt->transfer_latency_us * 1000ull;
	host->down = host->up;
	knobs->write = opt->write_policy;
	knobs->touches = opt->touches ? opt->touches : knobs->touches;
	knobs->high_pm = opt->offload_pm;
	knobs->low_pm = 0;
	knobs->reload_ns = opt->reload_ms * NS_PER_MS;
	knobs->flags = opt->fixed ? KVMM_TIER_FIXED : 0;
}

static void from_attr(struct options *opt, const struct kvmm_tier_attr *host,
		      const struct kvmm_tier_config *knobs)
{
	opt->host_blocks = host->capacity_blocks;
	opt->host_policy = host->policy;
	opt->transfer_mb_s = (u32)(host->up.bytes_per_s / BYTES_PER_MB);
	opt->transfer_latency_us = (u32)(host->up.latency_ns / 1000);
	opt->write_policy = knobs->write;
	opt->touches = knobs->touches;
	opt->offload_pm = knobs->high_pm;
	opt->reload_ms = (u32)(knobs->reload_ns / NS_PER_MS);
	opt->fixed = knobs->flags & KVMM_TIER_FIXED;
}

/* Options are in whole units, and there is one link for both directions. */
static bool can_be_said(const struct kvmm_tier_attr *host, const struct kvmm_tier_config *knobs)
{
	return host->up.bytes_per_s == host->down.bytes_per_s &&
	       host->up.latency_ns == host->down.latency_ns &&
	       !(host->up.bytes_per_s % BYTES_PER_MB) && !(host->up.latency_ns % 1000) &&
	       !(knobs->reload_ns % NS_PER_MS) && host->up.bytes_per_s / BYTES_PER_MB <= 100000000 &&
	       host->up.latency_ns / 1000 <= 1000000000 && knobs->reload_ns / NS_PER_MS <= 1000000000;
}

void parse_config(struct argp_state *state, struct options *opt, const char *path)
{
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;

	to_attr(opt, &host, &knobs);
	config.host = &host;
	config.knobs = &knobs;
	if (kvmm_config_load(&config, path))
		argp_error(state, "--config: %s", config.error);
	if (!can_be_said(&host, &knobs))
		argp_error(state, "--config: %s: both links alike, in whole MB/s, us and ms", path);
	from_attr(opt, &host, &knobs);
}
