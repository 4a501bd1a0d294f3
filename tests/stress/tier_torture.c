// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that do everything at once in two pools above one host tier: compute, look up, load, copy
 * down, abort, poll, evict, validate. Every content says its key, so what a load gives can be checked.
 *
 *	tier_torture [SECONDS]
 */
#include <kv/tier.h>

#include "tests/support/tier_wait.h"
#include "tests/support/torture.h"

#define NR_POOLS	2u
#define NR_THREADS	6u
#define NR_BLOCKS	64u
#define NR_UNITS	96u
#define NR_KEYS		160u
#define RUN		4u
#define BYTES		64u

static struct kvmm_tier *tier;
static struct kvmm_pool *pool[NR_POOLS];
enum { LOADS, DOWNS, NR_COUNTS };

/* Of this thread. */
static struct kvmm_pool *mine(void)
{
	return pool[torturer % NR_POOLS];
}

static void name(kvmm_key_t *keys, struct kvmm_prefix *prefix)
{
	u32 first = any(NR_KEYS / RUN) * RUN;

	memset(keys, 0, RUN * sizeof(*keys));
	for (u32 i = 0; i < RUN; i++) {
		u32 number = first + i;

		memcpy(keys[i].byte, &number, sizeof(number));
	}
	*prefix = (struct kvmm_prefix){ keys, RUN, first, NULL, { 0, 0, 0 } };
}

static void fill(u8 *buf, const kvmm_key_t *key)
{
	for (u32 i = 0; i < BYTES; i++)
		buf[i] = key->byte[i % 4] * 31 + i;
}

static void check(const kvmm_key_t *keys, const kvmm_ref_t *refs, u32 nr)
{
	u8 buf[BYTES], want[BYTES];

	for (u32 i = 0; i < nr; i++) {
		fill(want, &keys[i]);
		expect(!kvmm_ref_read(mine(), refs[i], 0, buf, BYTES) && !memcmp(buf, want, BYTES));
	}
	expect(!kvmm_put_many(mine(), refs, nr));
}

static void compute(void)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_mut_t mut[RUN];
	kvmm_ref_t refs[RUN];
	u8 buf[BYTES];

	name(keys, &prefix);
	if (kvmm_alloc(mine(), RUN, mut))
		return;
	for (u32 i = 0; i < RUN; i++) {
		fill(buf, &keys[i]);
		expect(!kvmm_mut_write(mine(), mut[i], 0, buf, BYTES));
	}
	expect(!kvmm_prefix_register(mine(), &prefix, mut, refs));
	check(keys, refs, RUN);
}

static void look(void)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = refs };

	name(keys, &prefix);
	expect(kvmm_tier_match(mine(), &match) >= 0);
	check(keys, refs, match.nr_device);
}

static void load(void)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = RUN, .refs = refs };
	kvmm_tier_op_t op;
	int err;

	name(keys, &prefix);
	if (kvmm_tier_load(mine(), &req, &op))
		return;
	if (any(3) == 0) {
		expect(!kvmm_tier_abort(mine(), op));
		return;
	}
	expect(!tier_wait(mine(), op, 10000000000ull));
	err = kvmm_tier_get_result(mine(), op, &result);
	if (!err) {
		check(keys, refs, RUN);
		done[LOADS]++;
	} else {
		/* No room for the load that came first, or another thread has forgotten a name. */
		expect(err == -ENOSPC || err == -ESTALE);
	}
}

static void send_down(void)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = refs };
	struct kvmm_tier_result result = { .size = sizeof(result) };
	kvmm_tier_op_t op;
	int nr;

	name(keys, &prefix);
	nr = kvmm_prefix_match(mine(), &prefix, refs);
	expect(nr >= 0);
	check(keys, refs, nr);
	req.nr = result.nr = nr;
	req.flags = any(2) ? KVMM_TIER_DROP : 0;
	expect(!kvmm_tier_offload(mine(), &req, &op));
	if (any(4) == 0) {
		expect(!kvmm_tier_abort(mine(), op));
		return;
	}
	expect(!tier_wait(mine(), op, 10000000000ull));
	kvmm_tier_get_result(mine(), op, &result);
	done[DOWNS]++;
}

static void other(void)
{
	struct kvmm_tier_client_stat client;
	struct kvmm_tier_stat stat;
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];

	name(keys, &prefix);
	switch (any(8)) {
	case 0:
		kvmm_tier_forget(mine(), &prefix);
		break;
	case 1:
		kvmm_tier_prefetch(mine(), &prefix, 8);
		break;
	case 2:
		kvmm_reset_inactive(mine());
		break;
	case 3:
		expect(!kvmm_validate(mine()));
		break;
	case 4:
		expect(!kv_tier_check(tier));
		break;
	case 5:
		expect(!kvmm_tier_get_stat(tier, &stat, sizeof(stat)));
		expect(!kvmm_tier_client_get_stat(mine(), &client, sizeof(client)));
		break;
	default:
		expect(kvmm_tier_poll(mine()) >= 0);
	}
}

static void act(void)
{
	static void (*const deeds[])(void) = { compute, look, load, send_down, other };

	deeds[any(ARRAY_SIZE(deeds))]();
}

static void begin(void)
{
	struct kvmm_tier_attr tier_attr = { .size = sizeof(tier_attr), .numa_node = -1,
					    .capacity_blocks = NR_UNITS, .block_bytes = BYTES };

	expect(!kvmm_tier_host_create(&tier_attr, &tier));
	for (u32 i = 0; i < NR_POOLS; i++) {
		struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
		struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
					       .policy = "lru", .block_bytes = BYTES, .host = tier,
					       .host_attr = &client };

		config.write = i ? KVMM_TIER_BACK : KVMM_TIER_SELECTIVE;
		client.config = &config;
		client.batch_blocks = 3;
		client.max_up = client.max_down = 24;
		expect(!kvmm_pool_create(&attr, &pool[i]));
	}
}

static void end(void)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_stat stat;

	config.write = KVMM_TIER_EXPLICIT;
	for (u32 i = 0; i < NR_POOLS; i++) {
		struct kvmm_pool_stat state;

		expect(!kvmm_tier_configure(pool[i], &config));
		for (u32 n = 0; n < 1000 && kvmm_tier_poll(pool[i]); n++)
			;
		expect(!kvmm_tier_poll(pool[i]));
		expect(!kvmm_validate(pool[i]));
		expect(!kvmm_pool_get_stat(pool[i], &state));
		expect(!state.nr_state[KVMM_BLOCK_ACTIVE] && !state.nr_state[KVMM_BLOCK_PRIVATE]);
		kvmm_pool_destroy(pool[i]);
	}
	expect(!kvmm_tier_get_stat(tier, &stat, sizeof(stat)));
	expect(!stat.pinned && !stat.writing);
	expect(!kv_tier_check(tier));
	kvmm_tier_destroy(tier);
}

int main(int argc, char **argv)
{
	begin();
	for (u32 i = 0; i < NR_THREADS; i++)
		torture_start(act, 0, 1000 + i);
	torture_end((argc > 1 ? atoi(argv[1]) : 2) * NS_PER_SEC);
	end();
	return torture_report("tier_torture", 1000, NR_COUNTS, (const char *const []){ "loads", "copies down" });
}
