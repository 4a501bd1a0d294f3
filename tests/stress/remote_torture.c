// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that store, load, ask, forget and poll, all at the same server below one tier, which
 * fails now and then: what is loaded is right, each transfer ends once, and every count is right.
 */
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/tier.h>

#include "tests/remote/fake_server.h"
#include "tests/support/fake_env.h"
#include "tests/support/torture.h"
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

static struct fake_server fake;
static struct fake_env env;
static struct kvmm_tier *tier;
static struct slot slots[NR_THREADS][NR_SLOTS];
static u64 harm_seed;

enum { STORED, LOADED, FAILED, NR_COUNTS };

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
	struct kv_tier_name name = { .layout = 7, .domain = { key % 3, 0, 0 } };

	memcpy(&name.key, &key, sizeof(key));
	return name;
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

		expect(READ_ONCE(slot->state) != 3);
		smp_store_release(&slot->state, 3);
	}
}

static void take_back(struct slot *slot)
{
	if (smp_load_acquire(&slot->state) != 3)
		return;
	if (slot->io.error)
		done[FAILED]++;
	else
		done[slot->was == 1 ? STORED : LOADED]++;
	expect(slot->io.error || is_right(slot));
	slot->state = 0;
}

static void begin_one(struct slot *slot)
{
	const struct kv_tier_ops *ops = tier->below->ops;
	int err;

	slot->key = 1 + any(NR_KEYS);
	slot->io = (struct kv_tier_io){ .name = name_of(slot->key), .buf = slot->word,
					.bytes = BYTES };
	slot->was = 1 + any(2);
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

static void act(void)
{
	const struct kv_tier_ops *ops = tier->below->ops;
	struct slot *slot = &slots[torturer][any(NR_SLOTS)];
	struct kv_tier_name name[2] = { name_of(1 + any(NR_KEYS)),
					name_of(1 + any(NR_KEYS)) };

	take_back(slot);
	switch (any(8)) {
	case 0:
	case 1:
	case 2:
		if (!READ_ONCE(slot->state))
			begin_one(slot);
		break;
	case 3:
		ops->lookup(tier->below->store, &name[0]);
		break;
	case 4:
		if (any(8) == 0)
			ops->forget(tier->below->store, name, 2, any(2), NULL);
		break;
	case 5:
		if (any(200) == 0)
			ops->reset(tier->below->store);
		break;
	case 6:
		if (any(1000) == 0)
			expect(!ops->check(tier->below->store));
		break;
	default:
		poll_some();
	}
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
	expect(!kvmm_tier_host_create(&host, &tier));
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
			take_back(&slots[i][k]);
			expect(!slots[i][k].state);
		}
	expect(!kv_tier_check(tier));
	kvmm_tier_destroy(tier);
	fake_server_end(&fake);
	fake_env_remove(&env);
}

int main(int argc, char **argv)
{
	u64 seed = (argc > 2 ? atoi(argv[2]) : 1) * 1000;

	make_server_tier();
	harm_seed = seed;
	for (u32 i = 0; i < NR_THREADS; i++)
		torture_start(act, 0, seed + i);
	torture_end((argc > 1 ? atoi(argv[1]) : 2) * NS_PER_SEC);
	end_all();
	return torture_report("remote_torture", seed, NR_COUNTS,
			      (const char *const []){ "stores", "loads", "failures" });
}
