// SPDX-License-Identifier: Apache-2.0
/* Any bytes as settings: they are applied as a whole, within range, or not at all and with a message. */
#include "fuzz.h"
#include "init/config.h"

struct all {
	struct kvmm_tier_attr host;
	struct kvmm_tier_client_attr client;
	struct kvmm_tier_config knobs;
	struct kvmm_disk_attr disk;
	struct kvmm_tier_disk_attr disk_use;
	struct kvmm_tier_remote_attr remote;
};

static bool is_name(const struct kvmm_config *config, const char *name)
{
	if (!name)
		return true;
	return name >= config->names && name < config->names + config->names_bytes &&
	       memchr(name, '\0', (size_t)(config->names + config->names_bytes - name)) && *name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct all all = { KVMM_TIER_ATTR_INIT, KVMM_TIER_CLIENT_ATTR_INIT, KVMM_TIER_CONFIG_INIT,
			   KVMM_DISK_ATTR_INIT, KVMM_TIER_DISK_ATTR_INIT,
			   KVMM_TIER_REMOTE_ATTR_INIT }, before = all;
	struct kvmm_config config = KVMM_CONFIG_INIT;
	int err;

	fuzz_begin(data, bytes);
	config.host = &all.host;
	config.client = &all.client;
	config.knobs = &all.knobs;
	config.disk = &all.disk;
	config.disk_use = &all.disk_use;
	config.remote = &all.remote;
	err = config_parse(&config, "fuzz", (const char *)data, bytes);
	expect(err, 0, -EINVAL);
	require(!err == !config.error[0] && memchr(config.error, '\0', sizeof(config.error)));
	if (err)
		require(!memcmp(&all, &before, sizeof(all)) && !config.nr_set && !config.names_bytes);
	require(all.knobs.touches >= 1 && all.knobs.touches <= 15);
	require(all.knobs.high_pm <= 1000 && all.knobs.low_pm <= all.knobs.high_pm);
	require(all.knobs.write < KVMM_NR_TIER_WRITES && all.disk.io < KVMM_DISK_NR_IOS);
	require(all.host.numa_node >= -1 && all.disk_use.high_pm <= 1000);
	require(is_name(&config, all.host.name) && is_name(&config, all.host.device));
	require(is_name(&config, all.host.policy) && is_name(&config, all.disk.path));
	require(is_name(&config, all.remote.address) && is_name(&config, all.remote.password));
	fuzz_end();
	return 0;
}
