// SPDX-License-Identifier: Apache-2.0
/*
 * A pool above a host tier: single blocks with names, ranges, moves beside and between steps, loads.
 *
 * Beside all refusals, content that can be read has the content of its name, or that was written to it.
 */
#include <string.h>

#include <kvmm/kvmm.h>

#include "rates.h"
#include "tests/support/tier_wait.h"

#define NR_BLOCKS	24u
#define NR_UNITS	32u
#define NR_KEYS		20u
#define NR_RANGES	5u
#define BYTES		512u
#define NR_OPS		60u
#define PATIENCE_NS	1000000000ull

struct scene {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	struct dice *dice;
	kcu_stream stream;
	kvmm_stream_t id;
	bool has_stream;
	uint64_t epoch;
	bool is_open;			/* a step is */
	struct {
		kvmm_range_t range;
		u32 content;
		bool is_there, is_known;
	} range[NR_RANGES];
};

struct name {
	kvmm_key_t key;
	struct kvmm_prefix prefix;
	u32 content;
};

static void name_one(struct scene *s, struct name *name)
{
	*name = (struct name){ .content = 1 + below(s->dice, NR_KEYS) };
	memcpy(name->key.byte, &name->content, sizeof(name->content));
	name->prefix = (struct kvmm_prefix){ .keys = &name->key, .nr = 1 };
}

static void check_ref(struct scene *s, kvmm_ref_t ref, u32 content, const char *how)
{
	u8 buf[BYTES];

	if (!kvmm_ref_read(s->pool, ref, 0, buf, BYTES) && !has_bytes(buf, BYTES, content))
		wrong("block %u that was %s", content, how);
}

static void put(struct scene *s, kvmm_ref_t ref)
{
	if (kvmm_put_many(s->pool, &ref, 1))
		wrong("a reference is not taken back");
}

/* ---- single blocks ---- */

static void compute(struct scene *s)
{
	struct name name;
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u8 buf[BYTES];

	name_one(s, &name);
	if (kvmm_alloc(s->pool, 1, &mut))
		return;
	fill_bytes(buf, BYTES, name.content);
	if (kvmm_mut_write(s->pool, mut, 0, buf, BYTES) ||
	    kvmm_prefix_register(s->pool, &name.prefix, &mut, &ref)) {
		kvmm_free(s->pool, &mut, 1);
		return;
	}
	check_ref(s, ref, name.content, "computed");
	put(s, ref);
}

static void look_up(struct scene *s)
{
	struct name name;
	kvmm_ref_t ref;

	name_one(s, &name);
	if (kvmm_prefix_match(s->pool, &name.prefix, &ref) != 1)
		return;
	check_ref(s, ref, name.content, "found");
	put(s, ref);
}

static void send_down(struct scene *s)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .nr = 1 };
	struct name name;
	kvmm_tier_op_t op;
	kvmm_ref_t ref;

	name_one(s, &name);
	if (kvmm_prefix_match(s->pool, &name.prefix, &ref) != 1)
		return;
	req.refs = &ref;
	req.flags = below(s->dice, 2) ? KVMM_TIER_DROP : 0;
	if (!kvmm_tier_offload(s->pool, &req, &op)) {
		struct kvmm_tier_result result = { .size = sizeof(result), .nr = 1 };

		if (below(s->dice, 3) && !tier_wait(s->pool, op, PATIENCE_NS))
			kvmm_tier_get_result(s->pool, op, &result);
		else
			kvmm_tier_abort(s->pool, op);
	}
	put(s, ref);
}

static void load(struct scene *s)
{
	struct kvmm_tier_load_args req = { .size = sizeof(req) };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = 1 };
	struct name name;
	kvmm_tier_op_t op;
	kvmm_ref_t ref;

	name_one(s, &name);
	req.prefix = &name.prefix;
	result.refs = &ref;
	if (kvmm_tier_load(s->pool, &req, &op))
		return;
	if (tier_wait(s->pool, op, PATIENCE_NS) ||
	    kvmm_tier_get_result(s->pool, op, &result)) {
		kvmm_tier_abort(s->pool, op);
		return;
	}
	check_ref(s, ref, name.content, "loaded");
	put(s, ref);
}

/* ---- ranges ---- */

static void change_range(struct scene *s, u32 i)
{
	u8 buf[BYTES];

	if (s->range[i].is_there) {
		s->range[i].is_there = kvmm_range_free(s->pool, s->range[i].range);
		return;
	}
	if (kvmm_range_alloc(s->pool, 1, KVMM_RUNS(1), &s->range[i].range))
		return;
	s->range[i].content = 100 + below(s->dice, 1000);
	fill_bytes(buf, BYTES, s->range[i].content);
	s->range[i].is_there = true;
	s->range[i].is_known = !kvmm_range_write(s->pool, s->range[i].range, 0, 0, buf, BYTES);
	kvmm_range_seal(s->pool, s->range[i].range, 1);
}

static void read_range(struct scene *s, u32 i)
{
	u8 buf[BYTES];

	if (s->range[i].is_there && s->range[i].is_known &&
	    !kvmm_range_read(s->pool, s->range[i].range, 0, 0, buf, BYTES) &&
	    !has_bytes(buf, BYTES, s->range[i].content))
		wrong("range %u", i);
}

/* ---- steps and moves ---- */

static void step(struct scene *s)
{
	if (!s->has_stream)
		return;
	if (s->is_open)
		s->is_open = kvmm_step_end(s->pool, s->id, s->epoch);
	else
		s->is_open = !kvmm_step_begin(s->pool, s->id, &s->epoch);
}

static void compact(struct scene *s)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 2 + below(s->dice, 12) };

	if (below(s->dice, 3) == 0)
		kvmm_pool_compact(s->pool, &goal);
	else
		kvmm_compact_start(s->pool, &goal, below(s->dice, 2) ? KVMM_MOVE_BESIDE :
				   KVMM_MOVE_BETWEEN);
}

static void act(struct scene *s)
{
	u32 range = below(s->dice, NR_RANGES);

	switch (below(s->dice, 16)) {
	case 0: case 1: case 2:
		compute(s);
		break;
	case 3: case 4:
		look_up(s);
		break;
	case 5: case 6:
		send_down(s);
		break;
	case 7: case 8:
		load(s);
		break;
	case 9:
		change_range(s, range);
		break;
	case 10:
		read_range(s, range);
		break;
	case 11:
		step(s);
		break;
	case 12:
		kvmm_compact_poll(s->pool);
		kvmm_tier_poll(s->pool);
		break;
	case 13:
		if (below(s->dice, 4) == 0)
			kvmm_reset_inactive(s->pool);
		break;
	default:
		compact(s);
	}
}

/* ---- the scene ---- */

static bool make(struct scene *s)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_attr below_it = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	kcu_context ctx;

	if (cu.primary_ctx_retain(&ctx, 0) || cu.ctx_push_current(ctx) ||
	    cu.stream_create_with_priority(&s->stream, KCU_STREAM_NON_BLOCKING, 0))
		return false;
	below_it.device = attr.device = "soft:0";
	below_it.block_bytes = attr.block_bytes = BYTES;
	below_it.capacity_blocks = NR_UNITS;
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	return !kvmm_tier_host_create(&below_it, &s->tier) && !kvmm_pool_create(&attr, &s->pool) &&
	       !kvmm_tier_attach(s->pool, s->tier, &client) &&
	       !kvmm_stream_add(s->pool, s->stream, 0, &s->id);
}

static void end(struct scene *s)
{
	kcu_context ctx;

	if (s->is_open)
		kvmm_step_end(s->pool, s->id, s->epoch);
	for (u32 i = 0; i < 100 && kvmm_compact_poll(s->pool) > 0; i++)
		ctl->run();
	/* All that is still known, with a driver that works again. */
	for (u32 i = 0; i < NR_RANGES; i++) {
		read_range(s, i);
		if (s->range[i].is_there)
			kvmm_range_free(s->pool, s->range[i].range);
	}
	for (u32 i = 0; i < 2 * NR_KEYS; i++)
		look_up(s);
	kvmm_reset_inactive(s->pool);
	for (u32 i = 0; i < 2 * NR_KEYS; i++)
		load(s);
	if (kvmm_validate(s->pool))
		wrong("the pool is not valid");
	kvmm_stream_del(s->pool, s->id);
	kvmm_pool_destroy(s->pool);
	kvmm_tier_destroy(s->tier);
	cu.stream_destroy(s->stream);
	cu.ctx_pop_current(&ctx);
	cu.primary_ctx_release(0);
}

void pool_scene(struct dice *dice)
{
	struct scene s = { .dice = dice };

	if (!make(&s)) {
		wrong("pool and tier are not made");
		return;
	}
	s.has_stream = true;
	attack();
	for (u32 i = 0; i < NR_OPS; i++)
		act(&s);
	relent();
	end(&s);
}
