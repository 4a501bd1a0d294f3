// SPDX-License-Identifier: Apache-2.0
/* Host memory below the pool: prompts that had to go from the device come back from there. */
#include "engine.h"
#include <poll.h>

int main(int argc, char **argv)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct pollfd loaded = { .events = POLLIN };
	struct engine engine = { 0 };
	struct kvmm_tier *tier;

	attr.device = host.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 8;
	host.block_bytes = BLOCK_BYTES;
	host.capacity_blocks = 64;
	MUST(kvmm_tier_host_create(&host, &tier));
	config.write = KVMM_TIER_THROUGH;	/* each full block goes down at once */
	client.layout_id = 0x6d6f64656c2d31;	/* what names the model and its layout */
	client.config = &config;
	attr.host = tier;
	attr.host_attr = &client;
	open_engine(&engine, &attr);
	loaded.fd = MUST(kvmm_tier_eventfd(engine.pool));

	for (int i = 0; i < 8; i++) {
		submit(&engine, i, i % 4);	/* four prompts, each of them twice */
		while (turn(&engine) | MUST(kvmm_tier_poll(engine.pool)))
			poll(&loaded, 1, 1);	/* until a load is over, a millisecond at most */
	}
	close_engine(&engine);
	kvmm_tier_destroy(tier);
	return 0;
}
