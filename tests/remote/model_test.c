// SPDX-License-Identifier: Apache-2.0
/*
 * A server that closes after any byte, that spoils any byte, and one with which all is done at
 * random: what is loaded is right, what was deleted is not found, and nothing stays held.
 *
 * KVMM_REMOTE_SEED and KVMM_REMOTE_OPS: where the random one begins, and how long it is.
 */
#include <stdio.h>
#include <string.h>

#include <kv/remote.h>
#include <kv/tier.h>

#include "tests/remote/fake_server.h"
#include "tests/support/fake_env.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/support/sim_store.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"

#define BYTES		4096u
#define MS		1000000ull
#define NR_KEYS		12u

static struct fake_server fake;
static struct fake_env env;
static struct kvmm_tier_remote_attr attr;
static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static u64 seed, first_seed;

static void begin(void)
{
	fake_env_install(&env);
	fake_server_begin(&fake);
	attr = (struct kvmm_tier_remote_attr)KVMM_TIER_REMOTE_ATTR_INIT;
	attr.address = "127.0.0.1:6379";
	attr.model = "toy";
}

static void end(void)
{
	fake_server_end(&fake);
	fake_env_remove(&env);
}

TestSuite(remote_model, .init = begin, .fini = end, .timeout = 240);

static void make_chain(struct kvmm_disk *with)
{
	struct both both = both_of(8, 4);

	both.attr.block_bytes = both.host.block_bytes = BYTES;
	both.client.layout_id = 1;
	both.host.remote = &attr;
	both.host.disk = with;
	both_make(&both);
	pool = both.pool;
	tier = both.tier;
}

static void settle(u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		kvmm_tier_poll(pool);
		kvmm_tier_tick(tier);
	}
}

static void store(u32 first, u32 nr)
{
	cache_blocks(pool, first, nr);
	send_down(pool, first, nr);
	settle(8);
	kvmm_reset_inactive(pool);
}

/* It compares the content: 0, or it was not to be had. */
static int load(u32 key)
{
	int err;

	answers(pool, key, 1);
	settle(4);
	err = load_keys(pool, key, 1);
	kvmm_reset_inactive(pool);
	return err;
}

static u32 down_and_up(void)
{
	u32 nr = 0;

	make_chain(NULL);
	store(1, 4);
	store(5, 4);
	end_both(pool, tier);
	make_chain(NULL);
	for (u32 key = 1; key <= 8; key++)
		nr += !load(key);
	fake_env_advance(&env, 1000 * MS);
	settle(8);
	cr_expect_eq(tier_of(tier).writing, 0);
	cr_expect_eq(tier_of(tier).pinned, 0);
	end_both(pool, tier);
	return nr;
}

/* Where the server does not fail any more. */
static void harm_each_byte(u32 *countdown, u32 step)
{
	u32 n, nr_hurt = 0, nr = 0;

	for (n = 1; n < 100000; n += step) {
		*countdown = n;
		nr = down_and_up();
		nr_hurt += nr < 8;
		fake_server_die(&fake, true);
		if (*countdown)
			break;
	}
	cr_expect_eq(nr, 8, "a server that did not fail");
	cr_expect_gt(nr_hurt, 20);
	*countdown = 0;
}

Test(remote_model, a_server_that_closes_after_any_byte_costs_misses_and_no_more)
{
	harm_each_byte(&fake.close_in, 97 * test_stride());
}

Test(remote_model, a_server_that_spoils_any_byte_costs_misses_and_no_more)
{
	fake.piece = 1000;
	harm_each_byte(&fake.flip_in, 61 * test_stride());
}

/* ---- the model of tiers, above a server ---- */

static void with_server(struct kvmm_tier *made)
{
	cr_assert_eq(kv_tier_set_remote(made, &attr, NULL), 0);
}

static void harm_server(struct kvmm_tier *made, u32 dice)
{
	static const char *const error[] = { NULL, NULL, NULL, "-OOM full\r\n", "-LOADING\r\n" };

	fake_env_advance(&env, (dice % 3) * 300 * MS);
	fake.piece = dice / 4 % 3 ? 0 : 1 + dice / 16 % 5000;
	fake.close_in = dice / 64 % 4 ? 0 : 1 + dice / 256 % 3000;
	fake.flip_in = dice / 8 % 4 ? 0 : 1 + dice / 128 % 3000;
	fake.error = error[dice / 32 % 5];
	fake.is_down = dice / 1024 % 8 == 0;
	if (dice / 2048 % 16 == 0)
		fake_server_die(&fake, dice / 4096 % 2);
}

static void stop_harm(void)
{
	fake.piece = fake.close_in = fake.flip_in = 0;
	fake.error = NULL;
	fake.is_down = false;
}

Test(remote_model, above_a_server_contents_are_right_and_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host", .made = with_server }, 12000);
}

Test(remote_model, above_a_server_that_fails_contents_are_right_and_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host", .made = with_server,
					.harm = harm_server }, 12000);
	stop_harm();
}

/* ---- deletions ---- */

/* What is true of each key, in the order of the server's commands and of the calls here. */
static struct {
	bool is_gone;		/* not to be found by this process */
	bool is_gone_for_good;	/* nor by the next one */
} key_state[NR_KEYS + 1];

#define any_here(n)	lcg_of(&seed, n)

static void delete_some(void)
{
	u32 first = 1 + any_here(NR_KEYS - 3), nr = 1 + any_here(4);
	int ret = kvmm_tier_forget(pool, prefix_of(first, nr));

	cr_assert(ret >= 0 || ret == -EIO, "%d", ret);
	kvmm_reset_inactive(pool);
	for (u32 i = first; i < first + nr && i <= NR_KEYS; i++) {
		key_state[i].is_gone = true;
		key_state[i].is_gone_for_good = ret >= 0;
	}
}

static void store_some(void)
{
	u32 first = 1 + any_here(NR_KEYS - 3), nr = 1 + any_here(4);

	kvmm_reset_inactive(pool);
	for (u32 i = first; i < first + nr && i <= NR_KEYS; i++)
		key_state[i].is_gone = key_state[i].is_gone_for_good = false;
	cache_blocks(pool, first, nr);
	send_down(pool, first, nr);
	settle(any_here(6));
	kvmm_reset_inactive(pool);
}

static u32 load_some(void)
{
	u32 key = 1 + any_here(NR_KEYS);
	int err;

	settle(any_here(6));
	err = load(key);
	cr_expect(err || !key_state[key].is_gone, "seed %llu: key %u was deleted",
		  (unsigned long long)first_seed, key);
	return !err;
}

static void begin_again(struct kvmm_disk *with)
{
	end_both(pool, tier);
	make_chain(with);
	for (u32 i = 1; i <= NR_KEYS; i++)
		key_state[i].is_gone = key_state[i].is_gone_for_good;
}

/* Time goes by for those that wait for an answer. */
static void wait_a_little(void)
{
	fake_env_advance(&env, 1 * MS);
}

static void change_server(void)
{
	fake.hangs = any_here(4) == 0;
	fake.is_down = any_here(6) == 0;
	fake.close_in = any_here(4) ? 0 : 1 + any_here(9000);
	fake.piece = any_here(3) ? 0 : 1 + any_here(6000);
	if (any_here(3) == 0)
		fake_server_run_late(&fake);
	if (any_here(12) == 0)
		fake_server_die(&fake, false);
	fake_env_advance(&env, any_here(3) * any_here(400) * MS);
}

static u32 run(u32 nr, struct kvmm_disk *with)
{
	u32 nr_loaded = 0;

	make_chain(with);
	memset(key_state, 0, sizeof(key_state));
	fake.is_late = true;
	fake.idle = wait_a_little;
	for (u32 i = 0; i < nr; i++) {
		u32 dice = any_here(24);

		if (dice < 8)
			store_some();
		else if (dice < 12)
			delete_some();
		else if (dice < 18)
			nr_loaded += load_some();
		else if (dice < 22)
			change_server();
		else if (dice < 23)
			settle(20);
		else if (any_here(6) == 0)
			begin_again(with);
		cr_assert_eq(kv_tier_check(tier), 0, "step %u", i);
	}
	stop_harm();
	fake.hangs = fake.is_late = false;
	settle(20);
	end_both(pool, tier);
	fake_server_die(&fake, true);
	return nr_loaded;
}

static void run_seeds(struct kvmm_disk *(*open)(void))
{
	u32 nr = (u32)test_length("KVMM_REMOTE_OPS", 4000), nr_loaded = 0;
	u64 first = test_number("KVMM_REMOTE_SEED", 1);

	for (u64 i = 0; i < nr / 500; i++) {
		fprintf(stderr, "seed %llu\n", (unsigned long long)(first + i));
		seed = first_seed = first + i;
		nr_loaded += run(500, open ? open() : NULL);
	}
	cr_expect_gt(nr_loaded, nr / 100);
}

Test(remote_model, what_was_deleted_is_not_found_whatever_happens)
{
	run_seeds(NULL);
}

static struct kvmm_disk *new_disk(void)
{
	kvmm_disk_close(disk);
	disk = NULL;
	if (sim.content)
		end_store();
	begin_store(16, 64 << 10);
	open_store();
	return disk;
}

Test(remote_model, behind_a_disk_what_was_deleted_is_not_found_whatever_happens)
{
	run_seeds(new_disk);
	end_store();
}
