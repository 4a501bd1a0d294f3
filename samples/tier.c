// SPDX-License-Identifier: Apache-2.0
/*
 * A pool that is too small for its prompts, with host memory below it.
 *
 *	samples/tier [DEVICE]		"soft:0", "cuda:0"; "host" if there is none
 *
 * Two prompts take turns in a pool that holds one of them. Without the tier each would be computed
 * anew each time; with it the second round is loaded.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <kvmm/kvmm.h>

#define NR_BLOCKS	8u		/* of the device: one prompt */
#define BLOCK_BYTES	65536u
#define SECOND_NS	1000000000ull

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;

static int set_up(const char *device)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	host.device = device;
	host.block_bytes = BLOCK_BYTES;
	host.capacity_bytes = 64 * BLOCK_BYTES;
	err = kvmm_tier_host_create(&host, &tier);
	if (err)
		return err;
	config.write = KVMM_TIER_THROUGH;	/* each prompt comes twice only */
	client.layout_id = 0x6d6f64656c2d31;	/* whatever names the model and its layout */
	client.flags = KVMM_TIER_COMPLETE;	/* blocks are written by kvmm_block_write() here */
	client.config = &config;
	attr.device = device;
	attr.policy = "lru";
	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = BLOCK_BYTES;
	attr.host = tier;
	attr.host_attr = &client;
	return kvmm_pool_create(&attr, &pool);
}

/* Block @i of prompt @p: as long as a model would take for it. */
static int compute(unsigned char p, uint32_t i, kvmm_mut_t mut)
{
	static unsigned char content[BLOCK_BYTES];

	memset(content, p * 16 + i, sizeof(content));
	return kvmm_block_write(pool, kvmm_block_of_mut(pool, mut), 0, content, sizeof(content));
}

static int load(const struct kvmm_prefix *rest, kvmm_ref_t *refs)
{
	struct kvmm_tier_load load = { .size = sizeof(load), .prefix = rest };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = rest->nr, .refs = refs };
	struct pollfd fd = { .events = POLLIN };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(pool, &load, &op);

	if (err)
		return err;
	/* An engine goes on with other requests, and polls once a step, or sleeps until one is over. */
	fd.fd = kvmm_tier_eventfd(pool);
	while (kvmm_tier_poll(pool) > 0)
		poll(&fd, fd.fd >= 0, 1);
	err = kvmm_tier_wait(pool, op, SECOND_NS);
	return err ? err : kvmm_tier_result(pool, op, &result);
}

/* References on all blocks of the prompt, from wherever they are. */
static int serve(unsigned char p, const struct kvmm_prefix *prompt)
{
	kvmm_ref_t refs[NR_BLOCKS];
	struct kvmm_tier_match match = { .size = sizeof(match), .prefix = prompt, .refs = refs };
	struct kvmm_prefix rest = *prompt;
	kvmm_mut_t muts[NR_BLOCKS];
	uint32_t have;
	int err = kvmm_tier_match(pool, &match);

	if (err < 0)
		return err;
	have = match.nr_device;
	rest.keys += have;
	rest.position = have;
	rest.nr = match.nr_lower;
	if (rest.nr && !load(&rest, refs + have))
		have += rest.nr;
	printf("prompt %u: %u in the device, %u loaded, %u computed\n", p, match.nr_device,
	       have - match.nr_device, prompt->nr - have);
	rest = *prompt;
	rest.keys += have;
	rest.position = have;
	rest.parent = have ? &prompt->keys[have - 1] : NULL;
	rest.nr = prompt->nr - have;
	err = kvmm_alloc(pool, rest.nr, muts);
	for (uint32_t i = 0; i < rest.nr && !err; i++)
		err = compute(p, have + i, muts[i]);
	if (!err)
		err = kvmm_prefix_register(pool, &rest, muts, refs + have);
	if (err)
		return err;
	while (kvmm_tier_poll(pool) > 0)	/* what is new goes down */
		;
	return kvmm_put_many(pool, refs, prompt->nr);
}

int main(int argc, char **argv)
{
	kvmm_key_t keys[2][NR_BLOCKS];
	int err = set_up(argc > 1 ? argv[1] : "host");

	for (uint32_t turn = 0; turn < 4 && !err; turn++) {
		struct kvmm_prefix prompt = { keys[turn % 2], NR_BLOCKS, 0, NULL, { 0, 0, 0 } };

		memset(keys[turn % 2], 0, sizeof(keys[0]));
		for (uint32_t i = 0; i < NR_BLOCKS; i++) {
			keys[turn % 2][i].byte[0] = 1 + turn % 2;
			keys[turn % 2][i].byte[1] = i;
		}
		err = serve(turn % 2, &prompt);
	}
	if (err)
		fprintf(stderr, "tier: %s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	return err != 0;
}
