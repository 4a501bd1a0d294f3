/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory and a disk below the pool of @attr, as steps 6 and 7 have them. */
#ifndef TIERS_H
#define TIERS_H

#include "engine.h"

struct tiers {
	struct kvmm_tier *host;
	struct kvmm_disk *disk;
	struct kvmm_tier_config config;
	struct kvmm_tier_client_attr client;
};

static inline void open_tiers(struct tiers *tiers, struct kvmm_pool_attr *attr, const char *path)
{
	struct kvmm_tier_disk_attr below = KVMM_TIER_DISK_ATTR_INIT;
	struct kvmm_disk_attr disk = KVMM_DISK_ATTR_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;

	disk.path = path;
	disk.max_bytes = 64 << 20;
	disk.flags |= KVMM_DISK_NAMES;		/* so that they can be listed */
	MUST(kvmm_disk_open(&disk, &tiers->disk));
	below.high_pm = 0;
	host.device = attr->device;
	host.block_bytes = BLOCK_BYTES;
	host.capacity_blocks = 64;
	host.disk = tiers->disk;
	host.disk_attr = &below;
	MUST(kvmm_tier_host_create(&host, &tiers->host));
	tiers->config = (struct kvmm_tier_config)KVMM_TIER_CONFIG_INIT;
	tiers->config.write = KVMM_TIER_THROUGH;
	tiers->client = (struct kvmm_tier_client_attr)KVMM_TIER_CLIENT_ATTR_INIT;
	tiers->client.layout_id = 0x6d6f64656c2d31;
	tiers->client.config = &tiers->config;
	attr->host = tiers->host;
	attr->host_attr = &tiers->client;
}

/* Behind the pool: it is above them. */
static inline void close_tiers(struct tiers *tiers)
{
	while (MUST(kvmm_tier_tick(tiers->host)))
		;
	kvmm_tier_destroy(tiers->host);
	kvmm_disk_close(tiers->disk);
}

#endif
