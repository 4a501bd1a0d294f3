// SPDX-License-Identifier: Apache-2.0
/* Device, host, disk: what goes down the chain comes up again, or is a miss. */
#include <kv/tier.h>

#include "tests/support/sim_store.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"

#define BYTES		4096u

struct chain {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
};

static void make_chain_above(struct chain *c, u64 layout, u32 high_pm)
{
	struct both both = both_of(8, 4);

	both.attr.block_bytes = both.host.block_bytes = BYTES;
	both.client.layout_id = layout;
	both.below.high_pm = high_pm;
	both.host.disk = disk;
	both_make(&both);
	*c = (struct chain){ both.pool, both.tier };
}

static void make_chain(struct chain *c, u64 layout)
{
	make_chain_above(c, layout, 0);
}

static void begin(void)
{
	begin_store(16, 64 << 10);
	open_store();
}

static void settle(struct chain *c)
{
	for (u32 i = 0; i < 200; i++)
		kvmm_tier_tick(c->tier);
}

static void expect_gone(struct chain *c, u32 first, u32 nr)
{
	for (u32 n = first; n < first + nr; n++)
		cr_expect_str_eq(answers(c->pool, n, 1), "-", "key %u", n);
}

/* Keys 1 to 8 go down, four at a time; the host has room for four. */
static void fill(struct chain *c)
{
	cache_blocks(c->pool, 1, 8);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	settle(c);
	cr_expect_eq(tier_of(c->tier).demoted, 4);
	offload_keys(c->pool, 5, 4, KVMM_TIER_DROP);
	settle(c);
	cr_expect_eq(tier_of(c->tier).evicted, 4);
	cr_expect_eq(tier_of(c->tier).lost, 0);
}

TestSuite(tier_chain, .init = begin, .fini = end_store);

/* With what @... has done to it. */
#define CHAIN_TEST(name, ...)						\
	TEST_ON(struct chain, c, make_chain(c, 1); __VA_ARGS__,			\
		end_both(c->pool, c->tier), tier_chain, name)

CHAIN_TEST(what_has_to_go_from_the_host_is_found_on_disk_and_loaded, fill(c))
{
	cr_expect_str_eq(answers(c->pool, 1, 9), "22221111-");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_eq(tier_of(c->tier).promoted, 4);
	cr_expect_str_eq(answers(c->pool, 1, 9), "00002222-", "they are in the host as well");
	cr_assert_eq(kvmm_reset_inactive(c->pool), 4);
	cr_expect_str_eq(answers(c->pool, 1, 9), "11112222-");
	cr_expect_eq(load_keys(c->pool, 3, 4), 0, "some from here, some from there");
}

CHAIN_TEST(another_process_finds_it_again_and_another_model_does_not, fill(c))
{
	end_both(c->pool, c->tier);
	open_store();
	make_chain(c, 2);
	cr_expect_str_eq(answers(c->pool, 1, 8), "--------");
	end_both(c->pool, c->tier);
	make_chain(c, 1);
	cr_expect_str_eq(answers(c->pool, 1, 8), "22222222");
	cr_expect_eq(load_keys(c->pool, 5, 4), 0);
}

CHAIN_TEST(what_the_disk_has_spoilt_is_a_miss, fill(c))
{
	for (u64 at = 8192; at + 64 < sim.bytes; at += 512)
		sim.content[at + 33] ^= 1;
	cr_expect_lt(load_keys(c->pool, 1, 4), 0);
	settle(c);
	cr_expect_eq(kvmm_tier_poll(c->pool), 0);
	cr_expect_str_eq(answers(c->pool, 1, 4), "----");
	cr_expect_str_eq(picture(c->pool), "........");
	cr_expect_eq(tier_of(c->tier).below_failed, 4);
}

Test(tier_chain, what_the_host_has_spoilt_is_not_written)
{
	struct chain c;

	make_chain_above(&c, 1, 700);
	cache_blocks(c.pool, 1, 3);
	send_down(c.pool, 1, 2);
	cr_assert_eq(kvmm_tier_poll(c.pool), 0);
	tier_flip(c.tier, 0);
	send_down(c.pool, 3, 1);	/* three of four: above the mark */
	cr_assert_eq(kvmm_tier_poll(c.pool), 0);
	settle(&c);
	cr_expect_eq(tier_of(c.tier).demoted, 0, "without it the tier is below the mark again");
	cr_expect_eq(tier_of(c.tier).below_failed, 1);
	cr_expect_str_eq(tier_picture(c.tier), ".rr.");
	cr_assert_eq(kvmm_reset_inactive(c.pool), 3);
	cr_expect_str_eq(answers(c.pool, 2, 1), "1");
	cr_expect_str_eq(answers(c.pool, 1, 1), "-");
	end_both(c.pool, c.tier);
}

Test(tier_chain, a_load_may_be_aborted_while_the_disk_reads)
{
	struct chain c;
	kvmm_tier_op_t op;

	make_chain(&c, 1);
	fill(&c);
	op = begin_load(c.pool, 1, 3);
	cr_expect_str_eq(picture(c.pool), "PPP.....");
	cr_expect_eq(kvmm_validate(c.pool), 0);
	cr_expect_eq(kvmm_tier_abort(c.pool, op), 0);
	poll_all(c.pool);
	cr_expect_str_eq(picture(c.pool), "........");
	cr_expect_eq(tier_of(c.tier).pinned, 0);
	cr_expect_eq(tier_of(c.tier).writing, 0);
	begin_load(c.pool, 1, 3);
	kvmm_pool_destroy(c.pool);
	cr_expect_eq(kv_tier_check(c.tier), 0);
	cr_expect_eq(tier_of(c.tier).writing, 0);
	kvmm_tier_destroy(c.tier);
}

CHAIN_TEST(what_finds_no_blocks_leaves_the_disk_alone, fill(c))
{
	kvmm_ref_t refs[6];

	make_blocks(c->pool, 20, 6, refs);
	cr_expect_eq(load_keys(c->pool, 1, 4), -ENOSPC);
	poll_all(c->pool);
	cr_expect_eq(tier_of(c->tier).writing, 0);
	cr_expect_eq(tier_of(c->tier).pinned, 0);
	cr_expect_eq(kvmm_tier_poll(c->pool), 0);
	cr_expect_eq(load_keys(c->pool, 1, 2), 0);
}

static void with_disk(struct kvmm_tier *tier)
{
	cr_assert_eq(kv_tier_set_disk(tier, disk, NULL), 0);
}

Test(tier_chain, whatever_happens_contents_are_right_and_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host", .made = with_disk }, 12000);
}

/* Of the next calls of the system one fails, or all of them do for a while. */
static void fail_some(struct kvmm_tier *tier, u32 dice)
{
	sim_disk_fail(&sim, 1 + dice % 7, dice / 8 % SIM_NR_FAULTS, dice / 64 % 4 == 0);
}

Test(tier_chain, whatever_fails_below_contents_are_right_and_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host", .made = with_disk, .harm = fail_some }, 12000);
	sim_disk_fail(&sim, 0, SIM_EIO, false);
}

/* ---- forgetting, and resetting ---- */

/* As after a change of process: nothing but the file is left. */
static void restart(struct chain *c)
{
	end_both(c->pool, c->tier);
	open_store();
	make_chain(c, 1);
}

CHAIN_TEST(what_is_forgotten_is_counted_and_does_not_come_back_after_a_restart, fill(c))
{
	cr_expect_str_eq(answers(c->pool, 1, 9), "22221111-");
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(3, 4)), 4, "two of the host's, two of the disk's");
	cr_expect_str_eq(answers(c->pool, 1, 2), "22");
	expect_gone(c, 3, 4);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(3, 4)), 0);
	settle(c);
	restart(c);
	for (u32 n = 1; n < 9; n++)
		cr_expect_str_eq(answers(c->pool, n, 1), n < 3 || n > 6 ? "2" : "-", "key %u", n);
}

/* The disk has 1 to 8, the host 5 to 8 as well. */
CHAIN_TEST(a_name_that_stands_twice_is_counted_once, fill(c))
{
	const u32 number[] = { 1, 5, 1, 7, 5, 9, 1, 9 };
	kvmm_key_t key[8];
	struct kvmm_prefix names = { key, 8, 0, NULL, { 0, 0, 0 } };

	settle(c);
	for (u32 i = 0; i < 8; i++)
		key[i] = key_of(number[i]);
	cr_expect_eq(kvmm_tier_forget(c->pool, &names), 3, "1, 5 and 7");
}

/* Power goes as soon as the call is over; nothing was closed. */
Test(tier_chain, what_is_forgotten_is_gone_for_good_when_the_call_says_so)
{
	struct sim_disk after;
	struct chain c;
	u32 nr_steps;

	sim.keeps_log = true;
	make_chain(&c, 1);
	fill(&c);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	cr_expect_eq(kvmm_tier_forget(c.pool, prefix_of(1, 8)), 8);
	nr_steps = sim.nr_steps;
	sim_disk_init(&after, sim.max_bytes);
	for (u64 seed = 1; seed < 9; seed++) {
		end_both(c.pool, c.tier);
		kvmm_disk_close(disk);
		disk = NULL;
		sim_disk_crash(&after, &sim, &(struct sim_crash){ nr_steps, 512, seed });
		memcpy(sim.content, after.content, sim.max_bytes);
		sim.bytes = after.bytes;
		open_store();
		make_chain(&c, 1);
		expect_gone(&c, 1, 8);
	}
	sim_disk_exit(&after);
	end_both(c.pool, c.tier);
}

/* They were begun before, and end after it. */
CHAIN_TEST(copies_under_way_do_not_outlive_being_forgotten)
{
	kvmm_tier_op_t op;

	cache_blocks(c->pool, 1, 2);
	send_down(c->pool, 1, 2);
	cr_assert_geq(kvmm_tier_poll(c->pool), 0);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 2)), 2, "their copies are complete");
	cr_assert_eq(kvmm_reset_inactive(c->pool), 2);
	settle(c);
	expect_gone(c, 1, 2);
	fill(c);
	op = begin_load(c->pool, 1, 2);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 2)), 2);
	cr_assert_eq(kvmm_tier_abort(c->pool, op), 0);
	poll_all(c->pool);
	expect_gone(c, 1, 2);
	cr_expect_eq(kv_tier_check(c->tier), 0);
	restart(c);
	cr_expect_str_eq(answers(c->pool, 1, 1), "-");
	cr_expect_str_eq(answers(c->pool, 3, 1), "2");
}

CHAIN_TEST(a_reset_reaches_every_tier, fill(c))
{
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_str_eq(answers(c->pool, 1, 8), "00002222");
	cr_expect_eq(kvmm_reset_cache(c->pool), 4);
	expect_gone(c, 1, 8);
	cr_expect_eq(tier_of(c->tier).blocks, 0);
	settle(c);
	restart(c);
	expect_gone(c, 1, 8);
	fill(c);
	restart(c);
	cr_expect_str_eq(answers(c->pool, 1, 4), "2222", "what came afterwards stays");
}

/* Held blocks are why nothing is forgotten anywhere; the disk is why what it has may come back. */
CHAIN_TEST(a_reset_says_what_it_could_not_reach, fill(c))
{
	kvmm_tier_op_t op;
	kvmm_ref_t ref;

	op = begin_load(c->pool, 1, 2);
	cr_expect_eq(kvmm_reset_cache(c->pool), -EBUSY, "blocks wait for the disk");
	cr_assert_eq(kvmm_tier_abort(c->pool, op), 0);
	poll_all(c->pool);
	cr_expect_str_eq(answers(c->pool, 1, 2), "11");
	make_blocks(c->pool, 20, 1, &ref);
	cr_expect_eq(kvmm_reset_cache(c->pool), -EBUSY);
	cr_expect_str_eq(answers(c->pool, 1, 8), "11222211");
	cr_assert_eq(kvmm_put(c->pool, ref), 0);
	settle(c);
	sim_disk_fail(&sim, 1, SIM_EIO, true);
	cr_expect_eq(kvmm_reset_cache(c->pool), -EIO);
	expect_gone(c, 1, 8);
	sim_disk_fail(&sim, 0, SIM_EIO, false);
	cr_expect_eq(kvmm_reset_cache(c->pool), 0);
	restart(c);
	expect_gone(c, 1, 8);
}

/* Nor to a load that is begun afterwards, while the first one is not over. */
CHAIN_TEST(a_load_under_way_brings_nothing_of_what_is_forgotten, fill(c))
{
	kvmm_ref_t refs[3];
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = refs, .nr = 3 };
	kvmm_tier_op_t op;

	op = begin_load(c->pool, 1, 3);
	cr_expect_str_eq(answers(c->pool, 1, 3), "ppp");
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 2)), 2);
	cr_expect_eq(load_keys(c->pool, 1, 1), -ENOENT);
	poll_all(c->pool);
	cr_expect_eq(kvmm_tier_get_result(c->pool, op, &result), -ESTALE);
	cr_expect_eq(result.nr_failed, 2);
	expect_gone(c, 1, 2);
	cr_expect_str_eq(answers(c->pool, 3, 1), "0", "what arrived stays cached");
	cr_expect_eq(tier_of(c->tier).pinned, 0);
}

/*
 * The pool goes while two of its blocks are in host memory alone, and a bit of one flips there. The
 * next pool's blocks push both out.
 */
Test(tier_chain, bits_that_flip_while_no_pool_is_there_are_not_written_as_good)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct chain c;

	make_chain_above(&c, 1, 700);
	cache_blocks(c.pool, 1, 2);
	offload_keys(c.pool, 1, 2, KVMM_TIER_DROP);
	settle(&c);
	cr_assert_eq(tier_of(c.tier).demoted, 0);
	cr_assert_eq(kvmm_tier_detach(c.pool), 0);
	tier_flip(c.tier, 0);
	config.write = KVMM_TIER_EXPLICIT;
	client.config = &config;
	client.layout_id = 1;
	attach_as(c.pool, c.tier, &client);
	for (u32 first = 11; first < 31; first += 10) {
		cache_blocks(c.pool, first, 2);
		offload_keys(c.pool, first, 2, KVMM_TIER_DROP);
		settle(&c);
	}
	cr_expect_neq(load_keys(c.pool, 1, 1), 0);
	end_both(c.pool, c.tier);
}
