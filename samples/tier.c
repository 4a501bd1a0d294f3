// SPDX-License-Identifier: Apache-2.0
/*
 * A pool that is too small for its prompts, with host memory below it.
 *
 *	samples/tier [DEVICE]		"soft:0", "cuda:0"; "host" if there is none
 *
 * Two prompts take turns in a pool that holds one of them. Without the tier each would be computed
 * anew each time; with it the second round is loaded.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <kvmm/kvmm.h>

#define NR_BLOCKS	8u		/* of the device: one prompt */
#define BLOCK_TOKENS	16u
#define NR_TOKENS	(NR_BLOCKS * BLOCK_TOKENS)
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
	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = BLOCK_BYTES;
	attr.host = tier;
	attr.host_attr = &client;
	return kvmm_pool_create(&attr, &pool);
}

/* The blocks behind the first @nr: as long as a model would take for them. */
static int compute(struct kvmm_seq *seq, unsigned char p, uint32_t nr)
{
	static unsigned char content[BLOCK_BYTES];
	uint32_t ids[NR_BLOCKS];
	int err = kvmm_seq_schedule_prefill(seq, NR_TOKENS - nr * BLOCK_TOKENS);

	if (!err)
		err = kvmm_seq_block_table(seq, ids, NR_BLOCKS);
	for (; nr < NR_BLOCKS && err >= 0; nr++) {
		memset(content, p * 16 + nr, sizeof(content));
		err = kvmm_block_write(pool, ids[nr], 0, content, sizeof(content));
	}
	return err < 0 ? err : kvmm_seq_apply(seq, NULL, 0);
}

/* What is new goes down by itself, at each kvmm_tier_poll(); here it is waited for. */
static int keep(struct kvmm_seq *seq, struct pollfd *fd)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down) };
	struct kvmm_tier_result result = { .size = sizeof(result) };
	kvmm_ref_t refs[NR_BLOCKS];
	kvmm_tier_op_t op;
	int err;

	down.refs = refs;
	down.nr = result.nr = kvmm_seq_refs(seq, refs, NULL, NR_BLOCKS);
	err = kvmm_tier_offload(pool, &down, &op);
	if (err)
		return err;
	for (int ms = 0; ms < 1000 && kvmm_tier_poll(pool) >= 0; ms++) {
		err = kvmm_tier_get_result(pool, op, &result);
		if (err != -EAGAIN)
			return err;
		poll(fd, 1, 1);			/* until it is over, a millisecond at most */
	}
	return -ETIMEDOUT;
}

static int serve(unsigned char p, struct kvmm_seq *seq)
{
	struct pollfd fd = { .fd = kvmm_tier_eventfd(pool), .events = POLLIN };
	int nr, err;

	/* An engine goes on with other requests, and asks once a step, or sleeps until it is over. */
	while ((nr = kvmm_seq_acquire(seq)) == -EINPROGRESS)
		poll(&fd, 1, 1);
	if (nr < 0)
		return nr;
	printf("prompt %u: %d blocks were there, %u computed\n", p, nr, NR_BLOCKS - nr);
	err = compute(seq, p, nr);
	return err < 0 ? err : keep(seq, &fd);
}

static int run(struct kvmm_key_ctx *keys)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	uint32_t prompt[NR_TOKENS] = { 0 };
	struct kvmm_seq *seq;
	int err = 0;

	attr.keys = keys;
	attr.prompt = prompt;
	attr.nr_prompt = NR_TOKENS;
	attr.wait_ns = SECOND_NS;		/* for what lies below; 0: the device alone is asked */
	for (uint32_t turn = 0; turn < 4 && !err; turn++) {
		prompt[0] = turn % 2;
		err = kvmm_seq_create(pool, &attr, &seq);
		if (err)
			break;
		err = serve(turn % 2, seq);
		kvmm_seq_destroy(seq);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_ctx *keys = NULL;
	int err = kvmm_key_ctx_create(&attr, &keys);

	if (!err)
		err = set_up(argc > 1 ? argv[1] : "host");
	if (!err)
		err = run(keys);
	if (err)
		fprintf(stderr, "tier: %s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	kvmm_key_ctx_destroy(keys);
	return err != 0;
}
