// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that store, load, ask, forget and poll, all at the same server below one tier, which
 * fails now and then: what is loaded is right, each transfer ends once, and every count is right.
 *
 * KVMM_REMOTE_SEED and KVMM_REMOTE_OPS, for each thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/tier.h>

#include "tests/remote/fake_server.h"
#include "tests/support/fake_env.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/tier/util.h"
#include "tier/below.h"

#define NR_THREADS	4u
#define NR_SLOTS	8u
#define NR_KEYS		64u
#define BYTES		4096u

struct slot {
	struct kv_tier_io io;
	u32 state;		/* 0: free; 1: the store's, to write; 2: to read; 3: it is back */
	u32 was;
	u32 key;
	u64 word[BYTES / 8];
};

struct worker {
	pthread_t thread;
	u64 seed;
	struct slot slot[NR_SLOTS];
	u64 nr_stored, nr_loaded, nr_failed;
};

static struct fake_server fake;
static struct fake_env env;
static struct kvmm_tier *tier;
static struct worker worker[NR_THREADS];
static u64 harm_seed;

/* Called by one thread at a time, as sockets are. */
static void harm(void)
{
	fake_env_advance(&env, 200000);
	if (lcg_of(&harm_seed, 100))
		return;
	fake.hangs = lcg_of(&harm_seed, 3) == 0;
	fake.close_in = lcg_of(&harm_seed, 2) ? 0 : 1 + lcg_of(&harm_seed, 60000);
	fake.flip_in = lcg_of(&harm_seed, 2) ? 0 : 1 + lcg_of(&harm_seed, 60000);
	fake_env_advance(&env, lcg_of(&harm_seed, 3) * 100000000ull);
}

static struct kv_tier_name name_of(u32 key)
{
	return (struct kv_tier_name){ .key = key_of(key), .layout = 7,
				      .domain = { key % 3, 0, 0 } };
}

static void fill(struct slot *slot)
{
	for (u32 i = 0; i < BYTES / 8; i++)
		slot->word[i] = slot->key * 0x9e3779b97f4a7c15ull + i;
}

static bool is_right(const struct slot *slot)
{
	bool is = true;

	for (u32 i = 0; i < BYTES / 8; i++)
		is &= slot->word[i] == slot->key * 0x9e3779b97f4a7c15ull + i;
	return is;
}

static void poll_some(void)
{
	struct kv_tier_io *done[4];
	u32 nr = tier->below->ops->poll(tier->below->store, done, 4);

	for (u32 i = 0; i < nr; i++) {
		struct slot *slot = container_of(done[i], struct slot, io);

		cr_assert_neq(READ_ONCE(slot->state), 3, "it ended twice");
		smp_store_release(&slot->state, 3);
	}
}

static void take_back(struct worker *w, struct slot *slot)
{
	if (smp_load_acquire(&slot->state) != 3)
		return;
	w->nr_failed += slot->io.error != 0;
	if (!slot->io.error && slot->was == 2)
		cr_expect(is_right(slot), "key %u", slot->key);
	w->nr_loaded += !slot->io.error && slot->was == 2;
	w->nr_stored += !slot->io.error && slot->was == 1;
	slot->state = 0;
}

static void begin_one(struct worker *w, struct slot *slot)
{
	const struct kv_tier_ops *ops = tier->below->ops;
	int err;

	slot->key = 1 + any_of(&w->seed, NR_KEYS);
	slot->io = (struct kv_tier_io){ .name = name_of(slot->key), .buf = slot->word,
					.bytes = BYTES };
	slot->was = 1 + any_of(&w->seed, 2);
	slot->state = slot->was;
	if (slot->was == 1)
		fill(slot);
	else
		memset(slot->word, 0xee, BYTES);
	err = slot->was == 1 ? ops->put(tier->below->store, &slot->io) :
			       ops->get(tier->below->store, &slot->io);
	if (err)
		slot->state = 0;
}

static void step(struct worker *w)
{
	const struct kv_tier_ops *ops = tier->below->ops;
	struct slot *slot = &w->slot[any_of(&w->seed, NR_SLOTS)];
	struct kv_tier_name name[2] = { name_of(1 + any_of(&w->seed, NR_KEYS)),
					name_of(1 + any_of(&w->seed, NR_KEYS)) };

	take_back(w, slot);
	switch (any_of(&w->seed, 8)) {
	case 0:
	case 1:
	case 2:
		if (!slot->state)
			begin_one(w, slot);
		break;
	case 3:
		ops->lookup(tier->below->store, &name[0]);
		break;
	case 4:
		if (any_of(&w->seed, 8) == 0)
			ops->forget(tier->below->store, name, 2, any_of(&w->seed, 2), NULL);
		break;
	case 5:
		if (any_of(&w->seed, 200) == 0)
			ops->reset(tier->below->store);
		break;
	default:
		poll_some();
	}
}

static void *work(void *arg)
{
	u64 nr = test_length("KVMM_REMOTE_OPS", 80000);
	struct worker *w = arg;

	for (u64 i = 0; i < nr; i++) {
		step(w);
		if (i % 1024 == 0)
			cr_expect_eq(tier->below->ops->check(tier->below->store), 0);
	}
	return NULL;
}

static void make_server_tier(void)
{
	struct kvmm_tier_remote_attr attr = KVMM_TIER_REMOTE_ATTR_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;

	fake_env_install(&env);
	fake_server_begin(&fake);
	fake.idle = harm;
	fake.piece = 3000;
	attr.address = "127.0.0.1:6379";
	attr.model = "toy";
	host.capacity_blocks = 4;
	host.block_bytes = BYTES;
	host.remote = &attr;
	cr_assert_eq(kvmm_tier_host_create(&host, &tier), 0);
}

static void end_all(void)
{
	fake.hangs = false;
	fake.close_in = fake.flip_in = 0;
	fake.idle = NULL;
	for (u32 i = 0; i < 100; i++) {
		fake_env_advance(&env, 1000000000);
		poll_some();
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		for (u32 k = 0; k < NR_SLOTS; k++) {
			take_back(&worker[i], &worker[i].slot[k]);
			cr_expect_eq(worker[i].slot[k].state, 0, "it has not ended");
		}
	cr_expect_eq(kv_tier_check(tier), 0);
	kvmm_tier_destroy(tier);
	fake_server_end(&fake);
	fake_env_remove(&env);
}

Test(remote_threads, of_all_that_threads_do_at_once_each_ends_once_and_is_right, .timeout = 240)
{
	u64 nr_loaded = 0, nr_stored = 0, nr_failed = 0, seed = test_number("KVMM_REMOTE_SEED", 1);

	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	harm_seed = seed;
	make_server_tier();
	for (u32 i = 0; i < NR_THREADS; i++) {
		worker[i].seed = seed * 1000 + i + 1;
		cr_assert_eq(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(worker[i].thread, NULL);
	end_all();
	for (u32 i = 0; i < NR_THREADS; i++) {
		nr_loaded += worker[i].nr_loaded;
		nr_stored += worker[i].nr_stored;
		nr_failed += worker[i].nr_failed;
	}
	fprintf(stderr, "%llu stored, %llu loaded, %llu failed\n", (unsigned long long)nr_stored,
		(unsigned long long)nr_loaded, (unsigned long long)nr_failed);
	cr_expect(nr_stored > 50 && nr_loaded > 50 && nr_failed > 50);
}
