// SPDX-License-Identifier: Apache-2.0
/*
 * Two pools above host tiers without a disk. Of one more blocks go down than the tier has room for: which of
 * them are there still is asked of it. The other one drops blocks that come back at once; how often that
 * is seen depends on what is remembered of names, so there are bounds only: none without 64 blocks that
 * were dropped.
 */
#include "metrics_run.h"

#define NR_BLOCKS	8u
#define NR_UNITS	24u
#define BYTES		512u

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static u32 nr_names;

static kvmm_key_t key_of(u32 number, u32 of)
{
	kvmm_key_t key = { 0 };

	memcpy(key.byte, &number, sizeof(number));
	key.byte[12] = of;
	return key;
}

/* ---- more than there is room for ---- */

static void flood_use(void)
{
	kvmm_key_t key = key_of(nr_names++, 1);
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = &ref, .nr = 1 };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = 1 };
	kvmm_tier_op_t op;

	must(kvmm_alloc(pool, 1, &mut), "alloc");
	must(kvmm_register(pool, &mut, &key, 1, &ref), "register");
	must(kvmm_tier_offload(pool, &req, &op), "offload");
	for (u32 i = 0; i < 8; i++)
		must(kvmm_tier_poll(pool), "poll");
	must(kvmm_tier_get_result(pool, op, &result), "result");
	must(kvmm_put(pool, ref), "put");
}

static u32 nr_there(void)
{
	u32 nr = 0;

	must(kvmm_reset_inactive(pool), "reset");
	for (u32 i = 0; i < nr_names; i++) {
		kvmm_key_t key = key_of(i, 1);
		struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
		kvmm_ref_t ref;
		struct kvmm_tier_match_args req = { .size = sizeof(req), .prefix = &prefix, .refs = &ref };

		must(kvmm_tier_match(pool, &req), "match");
		nr += req.nr_lower;
	}
	return nr;
}

static void flood_expect(void)
{
	u32 nr = nr_there();

	expect_tier("kvmm_tier_stored_blocks_total", "flood", nr_names);
	expect_tier("kvmm_tier_blocks", "flood", nr);
	expect_tier("kvmm_tier_evicted_blocks_total", "flood", nr_names - nr);
	expect_tier("kvmm_tier_lost_blocks_total", "flood", nr_names - nr);
	expect("kvmm_below_evicted_blocks_total", "flood", ",tier=\"flood\"", nr_names - nr);
}

static struct kvmm_pool *flood_make(const char *dir)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;

	pool = make_pool("flood", NR_BLOCKS, BYTES, "lru");
	tier = make_tier("flood", NR_UNITS, BYTES, 0);
	knobs.write = KVMM_TIER_EXPLICIT;
	client.config = &knobs;
	client.flags = KVMM_TIER_COMPLETE;
	must(kvmm_tier_attach(pool, tier, &client), "attach");
	return pool;
}

static void flood_end(void)
{
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
}

const struct part metrics_flood = { flood_make, flood_use, flood_expect, flood_end };

/* ---- what comes back at once ---- */

#define NR_LOOP		1000u
#define NR_PROMPTS	19u
#define NR_KEYS		50u

static struct kvmm_pool *loop;
static struct kvmm_tier *loop_tier;
static u64 loop_ns;
static u32 next_prompt;

static void turn_clock(u64 ns)
{
	u64 due = 0;

	must(kvmm_tier_poll(loop), "poll");
	while (!kvmm_tier_due(loop, &due) && due <= loop_ns + ns) {
		must(kvmm_tier_clock(loop_tier, due), "clock");
		must(kvmm_tier_poll(loop), "poll");
	}
	loop_ns += ns;
	must(kvmm_tier_clock(loop_tier, loop_ns), "clock");
	must(kvmm_tier_poll(loop), "poll");
}

static void load(const struct kvmm_prefix *prefix, u32 nr, kvmm_ref_t *refs)
{
	struct kvmm_prefix part = *prefix;
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &part };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = nr, .refs = refs };
	kvmm_tier_op_t op;
	int err;

	part.nr = nr;
	must(kvmm_tier_load(loop, &req, &op), "load");
	while ((err = kvmm_tier_get_result(loop, op, &result)) == -EAGAIN)
		turn_clock(100000);
	must(err, "result");
}

/* What is somewhere is loaded, the rest computed, and all of it given back. */
static void loop_use(void)
{
	kvmm_key_t keys[NR_KEYS];
	kvmm_ref_t refs[NR_KEYS];
	kvmm_mut_t mut[NR_KEYS];
	struct kvmm_prefix prefix = { .keys = keys, .nr = NR_KEYS }, rest;
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = refs };
	u32 nr;

	for (u32 i = 0; i < NR_KEYS; i++)
		keys[i] = key_of(next_prompt * NR_KEYS + i, 2);
	next_prompt = (next_prompt + 1) % NR_PROMPTS;
	must(kvmm_tier_match(loop, &match), "match");
	nr = match.nr_device + match.nr_lower;
	if (match.nr_lower) {
		must(kvmm_put_many(loop, refs, match.nr_device), "put");
		load(&prefix, nr, refs);
	}
	rest = (struct kvmm_prefix){ .keys = keys + nr, .nr = NR_KEYS - nr, .position = nr,
				     .parent = nr ? &keys[nr - 1] : NULL };
	if (rest.nr) {
		must(kvmm_alloc(loop, rest.nr, mut), "alloc");
		must(kvmm_prefix_register(loop, &rest, mut, refs + nr), "register");
	}
	must(kvmm_put_many(loop, refs, NR_KEYS), "put");
	turn_clock(1000000000);
}

/* Thrashing ends by itself; it is to be seen here. */
static void loop_expect(void)
{
	struct kvmm_tier_client_stat stat;

	for (u32 i = 0; i < 2000; i++) {
		must(kvmm_tier_client_get_stat(loop, &stat, sizeof(stat)), "tier_client_stat");
		if (stat.thrashing)
			break;
		loop_use();
	}
	expect_between("kvmm_below_thrashing", "loop", ",tier=\"loop\"", 1, 1);
	expect_between("kvmm_below_thrashing_episodes_total", "loop", ",tier=\"loop\"", 1,
		       stat.offloads / 64 + stat.present / 64);
}

static struct kvmm_pool *loop_make(const char *dir)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;

	loop = make_pool("loop", NR_LOOP, 0, "lru");
	loop_tier = make_tier("loop", 4 * NR_LOOP, 0, KVMM_TIER_TOLD_CLOCK);
	knobs.write = KVMM_TIER_THRESHOLD;
	client.config = &knobs;
	client.block_bytes = BYTES;
	client.batch_blocks = 256;
	must(kvmm_tier_attach(loop, loop_tier, &client), "attach");
	return loop;
}

static void loop_end(void)
{
	kvmm_pool_destroy(loop);
	kvmm_tier_destroy(loop_tier);
}

const struct part metrics_loop = { loop_make, loop_use, loop_expect, loop_end };
