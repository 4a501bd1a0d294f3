// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory below the pool, and a disk below that: what of a prompt is in neither of them, nor in the
 * pool, is computed. Blocks go down as they are published; polling is the engine's business, once a turn.
 * Sequences ask for what is there (request.c).
 */
#include <kvmm/ext/disk.h>

#include "engine.h"

#define BLOCK_BYTES	(NR_PLANES * TOY_PIECE_BYTES)
#define DISK_BYTES	(8u << 20)
#define LAYOUT_ID	0x746f792d6b7600ull	/* whatever tells this model from others */

static int open_disk(struct engine *engine)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;

	attr.path = engine->opt->disk_tier;
	attr.max_bytes = DISK_BYTES;
	attr.flags |= KVMM_DISK_NAMES;		/* for who looks */
	return kvmm_disk_open(&attr, &engine->disk);
}

/* Before the pool is made. */
int tier_open(struct engine *engine)
{
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;
	int err = 0;

	if (!engine->opt->host_tier)
		return 0;
	if (engine->opt->disk_tier)
		err = open_disk(engine);
	if (err)
		return err;
	attr.disk = engine->disk;
	attr.device = engine->opt->device;
	attr.block_bytes = BLOCK_BYTES;
	attr.capacity_blocks = engine->opt->host_tier;
	return kvmm_tier_host_create(&attr, &engine->tier);
}

int tier_attach(struct engine *engine)
{
	struct kvmm_tier_client_attr attr = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	if (!engine->tier)
		return 0;
	config.write = KVMM_TIER_THROUGH;
	attr.layout_id = LAYOUT_ID;
	attr.config = &config;
	return kvmm_tier_attach(engine->pool, engine->tier, &attr);
}

/* Once the pool has gone. */
void tier_close(struct engine *engine)
{
	kvmm_tier_destroy(engine->tier);
	kvmm_disk_close(engine->disk);
}

void tier_turn(struct engine *engine)
{
	if (!engine->tier)
		return;
	kvmm_tier_poll(engine->pool);
	kvmm_tier_tick(engine->tier);
}
