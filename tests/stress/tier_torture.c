// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that do everything at once in two pools above one host tier: compute, look up, load, copy
 * down, abort, poll, evict, validate. Every content says its key, so what a load gives can be checked.
 *
 *	tier_torture [SECONDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kv/atomic.h>
#include <kvmm/kvmm.h>

#define NR_POOLS	2u
#define NR_THREADS	6u
#define NR_BLOCKS	64u
#define NR_UNITS	96u
#define NR_KEYS		160u
#define RUN		4u
#define BYTES		64u

static struct kvmm_tier *tier;
static struct kvmm_pool *pool[NR_POOLS];
static u32 stop;		/* atomic */
static u64 nr_bad, nr_loads, nr_downs;	/* atomic */

#define MUST(cond)									\
	do {										\
		if (!(cond)) {								\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);	\
			kv_fetch_add(&nr_bad, 1);					\
		}									\
	} while (0)

struct actor {
	struct kvmm_pool *pool;
	u64 random;
};

static u32 below(struct actor *a, u32 n)
{
	a->random = a->random * 6364136223846793005ull + 1442695040888963407ull;
	return (a->random >> 33) % n;
}

static void name(struct actor *a, kvmm_key_t *keys, struct kvmm_prefix *prefix)
{
	u32 first = below(a, NR_KEYS / RUN) * RUN;

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

static void check(struct actor *a, const kvmm_key_t *keys, const kvmm_ref_t *refs, u32 nr)
{
	u8 buf[BYTES], want[BYTES];

	for (u32 i = 0; i < nr; i++) {
		fill(want, &keys[i]);
		MUST(!kvmm_ref_read(a->pool, refs[i], 0, buf, BYTES) && !memcmp(buf, want, BYTES));
	}
	MUST(!kvmm_put_many(a->pool, refs, nr));
}

static void compute(struct actor *a)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_mut_t mut[RUN];
	kvmm_ref_t refs[RUN];
	u8 buf[BYTES];

	name(a, keys, &prefix);
	if (kvmm_alloc(a->pool, RUN, mut))
		return;
	for (u32 i = 0; i < RUN; i++) {
		fill(buf, &keys[i]);
		MUST(!kvmm_mut_write(a->pool, mut[i], 0, buf, BYTES));
	}
	MUST(!kvmm_prefix_register(a->pool, &prefix, mut, refs));
	check(a, keys, refs, RUN);
}

static void look(struct actor *a)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = refs };

	name(a, keys, &prefix);
	MUST(kvmm_tier_match(a->pool, &match) >= 0);
	check(a, keys, refs, match.nr_device);
}

static void load(struct actor *a)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = RUN, .refs = refs };
	kvmm_tier_op_t op;
	int err;

	name(a, keys, &prefix);
	if (kvmm_tier_load(a->pool, &req, &op))
		return;
	if (below(a, 3) == 0) {
		MUST(!kvmm_tier_abort(a->pool, op));
		return;
	}
	MUST(!kvmm_tier_wait(a->pool, op, 10000000000ull));
	err = kvmm_tier_get_result(a->pool, op, &result);
	if (!err) {
		check(a, keys, refs, RUN);
		kv_fetch_add(&nr_loads, 1);
	} else {
		/* No room for the load that came first, or another thread has forgotten a name. */
		MUST(err == -ENOSPC || err == -ESTALE);
	}
}

static void send_down(struct actor *a)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = refs };
	struct kvmm_tier_result result = { .size = sizeof(result) };
	kvmm_tier_op_t op;
	int nr;

	name(a, keys, &prefix);
	nr = kvmm_prefix_match(a->pool, &prefix, refs);
	MUST(nr >= 0);
	check(a, keys, refs, nr);
	req.nr = result.nr = nr;
	req.flags = below(a, 2) ? KVMM_TIER_DROP : 0;
	MUST(!kvmm_tier_offload(a->pool, &req, &op));
	if (below(a, 4) == 0) {
		MUST(!kvmm_tier_abort(a->pool, op));
		return;
	}
	MUST(!kvmm_tier_wait(a->pool, op, 10000000000ull));
	kvmm_tier_get_result(a->pool, op, &result);
	kv_fetch_add(&nr_downs, 1);
}

static void other(struct actor *a)
{
	struct kvmm_tier_client_stat client;
	struct kvmm_tier_stat stat;
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];

	name(a, keys, &prefix);
	switch (below(a, 8)) {
	case 0:
		kvmm_tier_forget(a->pool, &prefix);
		break;
	case 1:
		kvmm_tier_prefetch(a->pool, &prefix, 8);
		break;
	case 2:
		kvmm_reset_inactive(a->pool);
		break;
	case 3:
		MUST(!kvmm_validate(a->pool));
		break;
	case 4:
		MUST(!kvmm_tier_validate(tier));
		break;
	case 5:
		MUST(!kvmm_tier_get_stat(tier, &stat, sizeof(stat)));
		MUST(!kvmm_tier_client_get_stat(a->pool, &client, sizeof(client)));
		break;
	default:
		MUST(kvmm_tier_poll(a->pool) >= 0);
	}
}

static void *run(void *arg)
{
	struct actor *a = arg;

	while (!READ_ONCE(stop)) {
		switch (below(a, 5)) {
		case 0:
			compute(a);
			break;
		case 1:
			look(a);
			break;
		case 2:
			load(a);
			break;
		case 3:
			send_down(a);
			break;
		default:
			other(a);
		}
	}
	return NULL;
}

static void begin(void)
{
	struct kvmm_tier_attr tier_attr = { .size = sizeof(tier_attr), .numa_node = -1,
					    .capacity_blocks = NR_UNITS, .block_bytes = BYTES };

	MUST(!kvmm_tier_host_create(&tier_attr, &tier));
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
		MUST(!kvmm_pool_create(&attr, &pool[i]));
	}
}

static void end(void)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_stat stat;

	config.write = KVMM_TIER_EXPLICIT;
	for (u32 i = 0; i < NR_POOLS; i++) {
		struct kvmm_pool_stat state;

		MUST(!kvmm_tier_configure(pool[i], &config));
		for (u32 n = 0; n < 1000 && kvmm_tier_poll(pool[i]); n++)
			;
		MUST(!kvmm_tier_poll(pool[i]));
		MUST(!kvmm_validate(pool[i]));
		MUST(!kvmm_pool_get_stat(pool[i], &state));
		MUST(!state.nr_state[KVMM_BLOCK_ACTIVE] && !state.nr_state[KVMM_BLOCK_PRIVATE]);
		kvmm_pool_destroy(pool[i]);
	}
	MUST(!kvmm_tier_get_stat(tier, &stat, sizeof(stat)));
	MUST(!stat.pinned && !stat.writing);
	MUST(!kvmm_tier_validate(tier));
	kvmm_tier_destroy(tier);
}

int main(int argc, char **argv)
{
	struct timespec time = { .tv_sec = argc > 1 ? atoi(argv[1]) : 2 };
	struct actor actor[NR_THREADS];
	pthread_t thread[NR_THREADS];

	begin();
	for (u32 i = 0; i < NR_THREADS; i++) {
		actor[i] = (struct actor){ pool[i % NR_POOLS], 1000 + i };
		MUST(!pthread_create(&thread[i], NULL, run, &actor[i]));
	}
	nanosleep(&time, NULL);
	WRITE_ONCE(stop, 1);
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	end();
	MUST(nr_loads && nr_downs);
	printf("%llu loads, %llu copies down, %llu errors\n", (unsigned long long)nr_loads,
	       (unsigned long long)nr_downs, (unsigned long long)nr_bad);
	return nr_bad != 0;
}
