// SPDX-License-Identifier: Apache-2.0
/* Device, host, server; and a disk in between: what goes down comes up again, or is a miss. */
#define _GNU_SOURCE
#include <string.h>

#include <kv/env.h>
#include <kv/remote.h>
#include <kv/tier.h>

#include "remote/internal.h"
#include "tests/pool/request_util.h"
#include "tests/remote/fake_server.h"
#include "tests/support/fake_env.h"
#include "tests/support/flip.h"
#include "tests/support/sim_store.h"
#include "tests/tier/util.h"
#include "tier/below.h"

#define BYTES		4096u
#define MS		1000000ull
#define EPOCH_ANSWER	12u		/* bytes of it: ":268435456\r\n" */

struct chain {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
};

static struct fake_server fake;
static struct fake_env env;
static struct kvmm_tier_remote_attr attr;
static bool has_disk;
static u32 block_bytes;

static void begin(void)
{
	fake_env_install(&env);
	fake_server_begin(&fake);
	attr = (struct kvmm_tier_remote_attr)KVMM_TIER_REMOTE_ATTR_INIT;
	attr.address = "127.0.0.1:6379";
	attr.model = "toy";
	begin_store(16, 64 << 10);
	has_disk = false;
	block_bytes = BYTES;
}

static void end(void)
{
	end_store();
	fake_server_end(&fake);
	fake_env_remove(&env);
}

TestSuite(remote, .init = begin, .fini = end);

static void make_chain(struct chain *c, u64 layout)
{
	struct both both = both_of(8, 4);

	both.attr.block_bytes = both.host.block_bytes = block_bytes;
	both.client.layout_id = layout;
	both.host.remote = &attr;
	if (has_disk) {
		open_store();
		both.host.disk = disk;
	}
	both_make(&both);
	*c = (struct chain){ both.pool, both.tier };
}

static struct remote *remote_of(struct chain *c)
{
	return c->tier->below->store;
}

static struct kvmm_tier_stat stat_now(struct chain *c)
{
	return tier_of(c->tier);
}

static void settle(struct chain *c)
{
	for (u32 i = 0; i < 20; i++)
		kvmm_tier_tick(c->tier);
	cr_expect_eq(kv_tier_check(c->tier), 0);
}

static void later(struct chain *c, u64 ns)
{
	settle(c);
	fake_env_advance(&env, ns);
	settle(c);
}

/* The first answer to names that it has not heard of is to ask again. */
static const char *find(struct chain *c, u32 first, u32 nr)
{
	const char *line = answers(c->pool, first, nr);

	for (u32 i = 0; i < 10 && strchr(line, 't'); i++) {
		settle(c);
		line = answers(c->pool, first, nr);
	}
	return line;
}

static void expect_gone(struct chain *c, u32 first, u32 nr)
{
	for (u32 n = first; n < first + nr; n++)
		cr_expect_str_eq(find(c, n, 1), "-", "key %u", n);
}

/* Keys 1 to 8 go down, four at a time; the host has room for four. */
static void fill(struct chain *c)
{
	cache_blocks(c->pool, 1, 8);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	settle(c);
	offload_keys(c->pool, 5, 4, KVMM_TIER_DROP);
	settle(c);
}

/* As in another process. */
static void restart(struct chain *c, u64 layout)
{
	end_both(c->pool, c->tier);
	make_chain(c, layout);
}

#define REMOTE_TEST(name, ...)						\
	TEST_ON(struct chain, c, make_chain(c, 1); __VA_ARGS__,		\
		end_both(c->pool, c->tier), remote, name)

REMOTE_TEST(what_has_to_go_from_the_host_is_found_on_the_server_and_loaded, fill(c))
{
	cr_expect_eq(fake_server_nr(&fake), 8);
	cr_expect_eq(tier_of(c->tier).lost, 0);
	cr_expect_str_eq(find(c, 1, 9), "22221111-");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_eq(stat_now(c).remote_got, 4);
	cr_expect_eq(stat_now(c).remote_stored, 8);
	cr_expect_eq(stat_now(c).remote_wrong, 0);
}

REMOTE_TEST(another_process_finds_it_and_another_model_or_layout_does_not, fill(c))
{
	restart(c, 1);
	cr_expect_str_eq(answers(c->pool, 1, 8), "t-------", "it cannot know yet");
	settle(c);
	cr_expect_str_eq(answers(c->pool, 1, 8), "22222222", "and has asked for all at once");
	cr_expect_eq(load_keys(c->pool, 5, 4), 0);
	restart(c, 2);
	expect_gone(c, 1, 8);
	attr.model = "other";
	restart(c, 1);
	expect_gone(c, 1, 8);
}

/* ---- how far a match asks ahead ---- */

#define NR_LONG		3000u

static struct kv_tier_ops counting;
static u32 nr_lookups;

static enum kvmm_tier_answer count_lookup(void *store, const struct kv_tier_name *name)
{
	nr_lookups++;
	return KVMM_TIER_RETRY;
}

/* Look-ups of one match of a prompt that the store below can tell nothing of as yet. */
static u32 lookups_of_long_match(struct chain *c)
{
	static kvmm_key_t keys[NR_LONG];
	static kvmm_ref_t refs[NR_LONG];
	const struct kvmm_prefix prefix = { .keys = keys, .nr = NR_LONG };
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = refs };
	const struct kv_tier_ops *ops = c->tier->below->ops;

	for (u32 i = 0; i < NR_LONG; i++)
		keys[i] = key_of(1 + i);
	nr_lookups = 0;
	c->tier->below->ops = &counting;
	cr_expect_eq(kvmm_tier_match(c->pool, &match), 0);
	cr_expect_eq(match.stop, KVMM_TIER_RETRY);
	c->tier->below->ops = ops;
	return nr_lookups;
}

REMOTE_TEST(a_long_prompt_asks_ahead_no_further_than_the_server_is_asked_at_once, )
{
	counting = *c->tier->below->ops;
	counting.lookup = count_lookup;
	cr_expect_eq(lookups_of_long_match(c), 1 + 1024);
}

REMOTE_TEST(a_store_that_is_no_server_is_not_asked_ahead, )
{
	counting = *c->tier->below->ops;
	counting.lookup = count_lookup;
	counting.remote_glance = NULL;
	cr_expect_eq(lookups_of_long_match(c), 1);
}

REMOTE_TEST(a_byte_at_a_time_is_as_good, fake.piece = 1; fill(c))
{
	for (u32 i = 0; i < 4000; i++)
		kvmm_tier_tick(c->tier);
	restart(c, 1);
	find(c, 1, 8);
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_eq(stat_now(c).remote_got, 4);
}

/* Most of such a block does not come by the buffer that its head comes by. */
REMOTE_TEST(large_blocks_come_whole_however_they_are_cut, block_bytes = 128 << 10; restart(c, 1);
	    fill(c))
{
	for (u32 piece = 0; piece < 3000; piece += 100 + piece / 4) {
		fake.piece = piece;
		restart(c, 1);
		cr_assert_str_eq(find(c, 1, 4), "2222");
		cr_expect_eq(load_keys(c->pool, 1, 4), 0, "in pieces of %u", piece);
		cr_expect_eq(stat_now(c).remote_got, 4);
		cr_expect_eq(stat_now(c).remote_wrong, 0);
	}
}

/* Each value is spoilt in another way. */
REMOTE_TEST(a_value_that_is_not_the_one_that_was_asked_for_is_a_miss, fill(c))
{
	struct fake_value *value = NULL;
	u32 nr = 0;

	restart(c, 1);
	cr_assert_str_eq(find(c, 1, 8), "22222222");
	for (u32 i = 0; i < FAKE_KEYS; i++) {
		value = &fake.value[i];
		if (!value->key || strstr(value->key, ":epoch"))
			continue;
		if (nr % 4 == 0)
			value->value[nr * 16] ^= 1;			/* of the head */
		else if (nr % 4 == 1)
			value->value[value->value_bytes - 1] ^= 0x80;	/* of the block */
		else if (nr % 4 == 2)
			value->value_bytes -= 1 + nr;			/* too short */
		else
			memcpy(value->value, fake.value[i - 1].value, 128);
		nr++;
	}
	for (u32 n = 1; n <= 8; n++)
		cr_expect_lt(load_keys(c->pool, n, 1), 0, "key %u", n);
	cr_expect_eq(stat_now(c).remote_wrong, 8);
	cr_expect_eq(stat_now(c).remote_got, 0);
	expect_gone(c, 1, 8);
}

/* A value of one name under the key of another, whole. */
REMOTE_TEST(a_value_of_another_name_is_a_miss, fill(c))
{
	struct fake_value *first = fake_server_find(&fake, ":0", 0), *second;
	u8 *value;

	restart(c, 1);
	cr_assert_str_eq(find(c, 1, 8), "22222222");
	second = fake_server_find(&fake, ":0", (u32)(first - fake.value) + 1);
	value = first->value;
	first->value = second->value;
	second->value = value;
	for (u32 n = 1; n <= 8; n++)
		load_keys(c->pool, n, 1);	/* it compares the content */
	cr_expect_eq(stat_now(c).remote_wrong, 2);
	cr_expect_eq(stat_now(c).remote_got, 6);
}

REMOTE_TEST(what_the_server_has_dropped_is_a_miss, fill(c))
{
	restart(c, 1);
	cr_assert_str_eq(find(c, 1, 8), "22222222");
	fake_server_die(&fake, true);
	for (u32 n = 1; n <= 8; n++)
		cr_expect_lt(load_keys(c->pool, n, 1), 0);
	later(c, 10000 * MS);
	expect_gone(c, 1, 8);
	cr_expect_eq(stat_now(c).remote_got, 0);
}

/* ---- a server that is slow, away, or against it ---- */

REMOTE_TEST(a_server_that_hangs_is_a_miss_within_the_deadline, fill(c))
{
	kvmm_tier_op_t op;
	kvmm_ref_t ref;

	restart(c, 1);
	cr_assert_str_eq(find(c, 1, 4), "2222");
	fake.hangs = true;
	op = begin_load(c->pool, 1, 1);
	settle(c);
	cr_expect_eq(tier_of(c->tier).writing, 1, "not yet");
	later(c, 51 * MS);
	poll_all(c->pool);
	cr_expect_eq(tier_of(c->tier).writing, 0);
	cr_expect_lt(result_of(c->pool, op, 1, &ref), 0);
	cr_expect_eq(stat_now(c).remote_late, 1);
	cr_expect_eq(stat_now(c).remote_failed, 1);
	cr_expect_eq(stat_now(c).remote_away, 1);
	cr_expect_str_eq(answers(c->pool, 2, 1), "-", "it is not even asked");
	fake.hangs = false;
	later(c, 200 * MS);
	cr_expect_str_eq(find(c, 2, 3), "222");
	cr_expect_eq(load_keys(c->pool, 2, 3), 0);
	cr_expect_eq(stat_now(c).remote_away, 0);
}

/* Half of a block has come: the rest is not written to memory that may be of another block now. */
REMOTE_TEST(an_answer_that_is_late_is_read_past, fill(c))
{
	kvmm_ref_t refs[2];
	kvmm_tier_op_t op;

	restart(c, 1);
	cr_assert_str_eq(find(c, 1, 4), "2222");
	fake.stall_at = fake.nr_answered + 6000;
	op = begin_load(c->pool, 1, 2);
	settle(c);
	fake_env_advance(&env, 49 * MS);
	fake.stall_at += 100;
	settle(c);
	later(c, 2 * MS);
	poll_all(c->pool);
	cr_expect_lt(result_of(c->pool, op, 2, refs), 0);
	cr_expect_eq(stat_now(c).remote_late, 1, "the first one came in time");
	cr_expect_eq(stat_now(c).remote_got, 1);
	fake.stall_at = 0;
	cache_blocks(c->pool, 20, 2);
	settle(c);
	cr_expect_str_eq(find(c, 3, 2), "22");
	cr_expect_eq(load_keys(c->pool, 3, 2), 0);
	cr_expect_eq(load_keys(c->pool, 1, 2), 0);
	cr_expect_eq(stat_now(c).remote_given_up, 0);
}

/* The system takes what is sent to it for a long time. */
REMOTE_TEST(a_server_that_hangs_is_given_up_though_it_is_asked_ever_more)
{
	find(c, 1, 1);
	fake.hangs = true;
	for (u32 i = 0; i < 8; i++) {
		answers(c->pool, 20 + i, 1);
		kvmm_tier_tick(c->tier);
		fake_env_advance(&env, 10 * MS);
	}
	cr_expect_eq(stat_now(c).remote_given_up, 1);
	fake.hangs = false;
}

/* As many batches as there may be under way ask for the epoch; the next one waits for an answer. */
REMOTE_TEST(no_batch_reads_without_asking_for_the_epoch)
{
	find(c, 1, 1);
	fake.nr_words = fake.nr_exists = 0;
	fake.hangs = true;
	for (u32 i = 0; i < 20; i++) {
		answers(c->pool, 20 + i, 1);
		kvmm_tier_tick(c->tier);
	}
	fake.hangs = false;
	settle(c);
	cr_expect_eq(fake.nr_exists, 20);
	cr_expect_eq(fake.nr_words, 17);
}

REMOTE_TEST(stores_are_dropped_and_counted_while_it_is_away, fake.is_down = true)
{
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 0);
	cr_expect_gt(stat_now(c).remote_dropped, 0);
	cr_expect_eq(stat_now(c).remote_away, 1);
	cr_expect_str_eq(answers(c->pool, 5, 4), "1111");
	cr_expect_str_eq(answers(c->pool, 1, 4), "----");
}

/* How long apart the tries are: from 50 to 100 ms at first, at most 25.6 s. */
REMOTE_TEST(tries_to_connect_are_ever_rarer, fake.is_down = true; fill(c))
{
	u32 nr_early, nr_late;

	for (u32 i = 0; i < 100; i++)
		later(c, 10 * MS), answers(c->pool, 1, 1);
	nr_early = fake.nr_connects;
	cr_expect_geq(nr_early, 3);
	cr_expect_leq(nr_early, 8);
	for (u32 i = 0; i < 600; i++)
		later(c, 100 * MS), answers(c->pool, 1, 1);
	nr_late = fake.nr_connects - nr_early;
	cr_expect_geq(nr_late, 5);
	cr_expect_leq(nr_late, 12);
	fake.is_down = false;
	later(c, 30000 * MS);
	find(c, 1, 1);
	cr_expect_eq(stat_now(c).remote_away, 0);
}

REMOTE_TEST(a_server_that_wants_a_password_gets_it, fake.password = "secret")
{
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 0);
	attr.password = "secret";
	restart(c, 1);
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 8);
}

static void (*free_before)(void *ctx, void *ptr, size_t bytes);
static u32 nr_leaks;

static void look_and_free(void *ctx, void *ptr, size_t bytes)
{
	nr_leaks += memmem(ptr, bytes, "secret", 6) != NULL;
	free_before(ctx, ptr, bytes);
}

static void expect_no_password(struct chain *c)
{
	const struct remote_wire *wire = &remote_of(c)->wire;

	cr_expect_null(memmem(wire, sizeof(*wire), "secret", 6));
}

/* It is sent whole, in part, and not at all. */
REMOTE_TEST(a_password_is_not_left_in_memory, fake.password = attr.password = "secret")
{
	fill(c);
	expect_no_password(c);
	for (u32 i = 0; i < 2; i++) {
		fake.piece = i ? 0 : 30;
		fake.hangs = true;
		fake_server_die(&fake, false);
		later(c, 60000 * MS);
		answers(c->pool, 1, 1);
		later(c, 60 * MS);
		expect_no_password(c);
		fake.hangs = false;
	}
	fake.close_in = 20;
	later(c, 60000 * MS);
	answers(c->pool, 1, 1);
	settle(c);
	expect_no_password(c);
	free_before = env.ops.free;
	env.ops.free = look_and_free;
	restart(c, 1);
	env.ops.free = free_before;
	cr_expect_eq(nr_leaks, 0);
}

REMOTE_TEST(a_server_full_up_drops_what_it_is_given)
{
	settle(c);
	find(c, 1, 1);
	fake.error = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
	cache_blocks(c->pool, 1, 4);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	settle(c);
	cr_expect_eq(stat_now(c).remote_stored, 0);
	cr_expect_geq(stat_now(c).remote_dropped, 4);
	cr_expect_str_eq(answers(c->pool, 1, 4), "1111");
}

REMOTE_TEST(a_server_full_up_is_given_nothing_for_a_second)
{
	u32 nr;

	find(c, 1, 1);
	fake.error = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
	cache_blocks(c->pool, 1, 4);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	settle(c);
	nr = fake.nr_commands;
	for (u32 i = 0; i < 9; i++)
		later(c, 100 * MS);
	cr_expect_eq(fake.nr_commands, nr);
	fake.error = NULL;
	later(c, 100 * MS);
	cr_expect_eq(stat_now(c).remote_stored, 4);
}

/* Nor is one that may only be read from. */
REMOTE_TEST(a_server_full_up_is_read_and_deleted_from, fill(c))
{
	fake.is_full = true;
	restart(c, 1);
	cr_expect_str_eq(find(c, 1, 4), "2222");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 1)), 1);
	cr_expect_eq(stat_now(c).remote_given_up, 0);
	restart(c, 1);
	cr_expect_str_eq(find(c, 2, 4), "2222");
	expect_gone(c, 1, 1);
	cr_expect_eq(kv_tier_reset(c->tier->owner + 1), 0);
	expect_gone(c, 1, 8);
}

/* ---- deleting ---- */

REMOTE_TEST(what_is_forgotten_is_gone_from_the_server_when_the_call_returns, fill(c))
{
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(3, 4)), 2, "that the host had, too");
	cr_expect_eq(fake_server_nr(&fake), 4);
	expect_gone(c, 3, 4);
	restart(c, 1);
	expect_gone(c, 3, 4);
	cr_expect_str_eq(find(c, 1, 2), "22");
}

REMOTE_TEST(a_deletion_that_is_not_delivered_is_an_error_and_is_delivered_later, fill(c))
{
	cr_assert_str_eq(find(c, 1, 4), "2222");
	fake.is_down = true;
	fake_server_die(&fake, false);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), -EIO);
	cr_expect_eq(fake_server_nr(&fake), 8);
	cr_expect_eq(stat_now(c).remote_deleting, 4);
	fake.is_down = false;
	fake_env_advance(&env, 30000 * MS);
	cr_expect_str_eq(answers(c->pool, 1, 1), "-", "not before it was told");
	later(c, 1000 * MS);
	cr_expect_eq(stat_now(c).remote_deleting, 0);
	cr_expect_eq(fake_server_nr(&fake), 4);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), 0);
	cr_expect_eq(stat_now(c).remote_fences, 0);
}

REMOTE_TEST(more_deletions_than_are_remembered_begin_a_new_epoch, fill(c))
{
	fake.is_down = true;
	fake_server_die(&fake, false);
	for (u32 n = 100; n < 100 + 3000; n += 50)
		cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(n, 50)), -EIO);
	cr_expect_eq(kv_tier_check(c->tier), 0);
	fake.is_down = false;
	later(c, 60000 * MS);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 1)), 0);
	later(c, 1000 * MS);
	cr_expect_geq(stat_now(c).remote_fences, 1);
	cr_expect_eq(stat_now(c).remote_deleting, 0);
	expect_gone(c, 1, 4);
	restart(c, 1);
	expect_gone(c, 1, 8);
}

REMOTE_TEST(a_reset_is_a_new_epoch_for_all_that_share_the_server, fill(c))
{
	struct chain other;

	make_chain(&other, 1);
	cr_assert_str_eq(find(&other, 1, 4), "2222");
	cr_expect_eq(kv_tier_reset(c->tier->owner + 1), 0);
	cr_expect_eq(stat_now(c).remote_fences, 1);
	expect_gone(c, 1, 8);
	cr_expect_lt(load_keys(other.pool, 1, 1), 0, "it was told that it was there");
	expect_gone(&other, 1, 8);
	cache_blocks(other.pool, 1, 4);
	offload_keys(other.pool, 1, 4, KVMM_TIER_DROP);
	later(&other, 1001 * MS);
	cr_expect_str_eq(find(c, 1, 4), "2222", "a second later it is asked for again");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	end_both(other.pool, other.tier);
}

/* One for all of them, as each costs a connection. */
REMOTE_TEST(deletions_that_the_server_refuses_are_done_by_a_fence, fill(c))
{
	cr_assert_str_eq(find(c, 1, 4), "2222");
	fake.del_error = "-NOPERM this user has no permissions to run the 'del' command\r\n";
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 8)), 4);
	cr_expect_eq(stat_now(c).remote_fences, 1);
	cr_expect_eq(stat_now(c).remote_deleted, 0);
	cr_expect_eq(stat_now(c).remote_deleting, 0);
	cr_expect_eq(stat_now(c).remote_given_up, 0);
	expect_gone(c, 1, 8);
	restart(c, 1);
	expect_gone(c, 1, 8);
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 8);
	cr_expect_str_eq(find(c, 1, 4), "2222");
}

static void wake(void)
{
	fake.hangs = false;
}

/* Another process may have stored it in the new epoch. */
REMOTE_TEST(a_deletion_that_is_wanted_after_a_fence_was_asked_for_is_sent, fill(c))
{
	fake.hangs = true;
	remote_of(c)->fences++;		/* as a reset does, which waits for it */
	kvmm_tier_tick(c->tier);
	cr_assert_eq(remote_of(c)->wire.state, WIRE_GREETING);
	fake.idle = wake;
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), 0);
	cr_expect_eq(stat_now(c).remote_fences, 1);
	cr_expect_eq(fake.nr_dels, 4);
	cr_expect_eq(stat_now(c).remote_deleting, 0);
	fake.idle = NULL;
}

/* Scripts of the server would see another number. */
REMOTE_TEST(a_word_that_is_too_large_is_not_adopted)
{
	cr_assert_str_eq(find(c, 1, 1), "-");
	fake_server_set(&fake, "kvmm:toy:epoch", "9007199254740992");
	find(c, 2, 1);
	cr_expect_eq(stat_now(c).remote_given_up, 1);
	fake_server_set(&fake, "kvmm:toy:epoch", "9007199254740991");
	later(c, 60000 * MS);
	find(c, 3, 1);
	cr_expect_eq(remote_of(c)->word, 9007199254740991);
	cr_expect_eq(stat_now(c).remote_away, 0);
}

/* What hung is done after the deletion, and leaves nothing, for the next process either. */
static void expect_late_stores_are_void(struct chain *c)
{
	cr_expect_geq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), 0);
	fake_server_run_late(&fake);
	cr_expect_eq(fake_server_nr(&fake), 0);
	expect_gone(c, 1, 4);
	restart(c, 1);
	expect_gone(c, 1, 4);
}

/* The server reads what a connection had brought when that was given up long ago. */
REMOTE_TEST(a_store_that_the_server_does_after_its_deletion_is_not_found)
{
	find(c, 9, 1);
	fake.hangs = fake.is_late = true;
	cache_blocks(c->pool, 1, 4);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	later(c, 60 * MS);
	cr_expect_eq(stat_now(c).remote_given_up, 1);
	fake_env_advance(&env, 1000 * MS);
	fake.hangs = false;
	expect_late_stores_are_void(c);
}

/* The same with the deletion sent over the connection that is given up. */
REMOTE_TEST(a_store_and_its_deletion_that_are_given_up_together_leave_nothing)
{
	find(c, 9, 1);
	fake.hangs = fake.is_late = true;
	cache_blocks(c->pool, 1, 4);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	kvmm_tier_tick(c->tier);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), -EIO);
	later(c, 60 * MS);
	fake_env_advance(&env, 1000 * MS);
	fake.hangs = false;
	settle(c);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 4)), 0);
	fake_server_run_late(&fake);
	expect_gone(c, 1, 4);
	restart(c, 1);
	expect_gone(c, 1, 4);
}

/* That process has ended, and nothing is known of it. */
REMOTE_TEST(a_store_that_the_server_does_after_the_next_process_has_deleted_the_name_is_void)
{
	find(c, 9, 1);
	fake.hangs = fake.is_late = true;
	cache_blocks(c->pool, 1, 4);
	offload_keys(c->pool, 1, 4, KVMM_TIER_DROP);
	kvmm_tier_tick(c->tier);
	end_both(c->pool, c->tier);
	fake.hangs = false;
	make_chain(c, 1);
	expect_late_stores_are_void(c);
}

/* The first is told so, and has what it stores stored with the next try. */
REMOTE_TEST(what_is_stored_while_another_process_deletes_something_else_is_stored)
{
	struct chain other;

	make_chain(&other, 1);
	find(c, 9, 1);
	find(&other, 9, 1);
	cr_expect_geq(kvmm_tier_forget(other.pool, prefix_of(7, 1)), 0);
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 8);
	cr_expect_eq(stat_now(c).remote_dropped, 0);
	cr_expect_eq(fake_server_nr(&fake), 8);
	end_both(other.pool, other.tier);
}

static struct remote *deleting;

static void delete_another(void)
{
	const struct kv_tier_name name = { .key = key_of(8), .layout = 1 };

	fake.idle = NULL;
	fake.stall_at = 0;
	remote_forget(deleting, &name, 1, false);
}

/* It has to be told again, as there is a new epoch; the other one was asked for in that. */
REMOTE_TEST(a_deletion_is_not_over_because_another_one_is, fill(c))
{
	struct chain other;
	u32 nr;

	make_chain(&other, 1);
	cr_expect_eq(kv_tier_reset(other.tier->owner + 1), 0);
	fill(&other);
	nr = fake_server_nr(&fake);
	deleting = remote_of(c);
	fake.idle = delete_another;
	fake.stall_at = fake.nr_answered + EPOCH_ANSWER;
	cr_expect_geq(kvmm_tier_forget(c->pool, prefix_of(1, 1)), 0);
	cr_expect_null(fake.idle, "it was called");
	cr_expect_eq(fake_server_nr(&fake), nr - 2);
	end_both(other.pool, other.tier);
}

/* As a server does that begins anew from a file of yesterday. */
REMOTE_TEST(a_server_that_has_gone_back_in_time_is_fenced, fill(c))
{
	cr_expect_eq(kv_tier_reset(c->tier->owner + 1), 0);
	fake_server_set(&fake, "kvmm:toy:epoch", "0");
	fake_server_die(&fake, false);
	find(c, 9, 1);
	later(c, 60000 * MS);
	expect_gone(c, 1, 8);
	find(c, 9, 1);
	cr_expect_eq(remote_epoch(remote_of(c)->word), 2);
	restart(c, 1);
	expect_gone(c, 1, 8);
}

/* Each of these would be answered with a command, of which not so many fit. */
REMOTE_TEST(epochs_that_are_too_low_again_and_again_end_the_connection)
{
	static const u32 piece[] = { 0, 1, 7, 4096 };

	fake.unasked = ":0\r\n";
	fake.nr_unasked = 20000;
	for (u32 i = 0; i < sizeof(piece) / sizeof(piece[0]); i++) {
		fake.piece = piece[i];
		cr_expect_eq(kv_tier_reset(c->tier->owner + 1), -EIO);
		later(c, 60000 * MS);
		cr_expect_eq(stat_now(c).remote_fences, 0);
		cr_expect_geq(stat_now(c).remote_given_up, 1 + i);
		cr_expect_eq(remote_of(c)->wire.state, WIRE_DOWN);
		fake_env_advance(&env, 60000 * MS);
	}
	fake.unasked = NULL;
	fake.piece = 0;
	cr_expect_eq(kv_tier_reset(c->tier->owner + 1), 0);
	find(c, 1, 1);
	fill(c);
	cr_expect_eq(stat_now(c).remote_stored, 8);
}

/* ---- sequences ---- */

static int take_all(struct kvmm_seq *seq, u32 *nr_calls)
{
	int ret;

	for (*nr_calls = 0; (ret = kvmm_seq_match(seq)) == -EINPROGRESS; ++*nr_calls)
		fake_env_advance(&env, 1 * MS);
	return ret;
}

/* A pool with keys of tokens, and a prompt of 4 blocks and 2 tokens. */
static struct kvmm_seq *make_prompt(struct chain *c, struct kvmm_key_ctx *ctx)
{
	struct both both = both_of(8, 4);

	both.attr.block_tokens = BLOCK_TOKENS;
	both.host.remote = &attr;
	both.client.layout_id = 1;
	both_make(&both);
	*c = (struct chain){ both.pool, both.tier };
	return make_waiting_seq(c->pool, ctx, 0, 4 * BLOCK_TOKENS + 2, 8, 200 * MS);
}

static void compute_and_store(struct chain *c, struct kvmm_seq *seq)
{
	struct kvmm_tier_offload_args req = { .size = sizeof(req) };
	u32 token = 1000;
	kvmm_ref_t refs[8];

	cr_assert_eq(kvmm_seq_schedule_prefill(seq, 4 * BLOCK_TOKENS + 2), 0);
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
	req.nr = kvmm_seq_refs(seq, refs, NULL, 8);
	req.refs = refs;
	cr_assert_eq(kvmm_tier_offload(c->pool, &req, NULL), 0);
	cr_assert_eq(kvmm_seq_release(seq), 0);
	poll_all(c->pool);
	settle(c);
}

Test(remote, a_sequence_waits_for_the_server_and_no_longer_than_it_may)
{
	struct kvmm_key_ctx *ctx = make_ctx(NULL);
	struct kvmm_seq *seq;
	struct chain c;
	u32 nr_calls;

	seq = make_prompt(&c, ctx);
	cr_expect_eq(take_all(seq, &nr_calls), 0, "nothing is there");
	compute_and_store(&c, seq);
	cr_expect_eq(stat_now(&c).remote_stored, 4);
	kvmm_seq_destroy(seq);
	end_both(c.pool, c.tier);
	seq = make_prompt(&c, ctx);
	cr_expect_eq(take_all(seq, &nr_calls), 4);
	cr_expect_leq(nr_calls, 6);
	cr_expect_eq(stat_now(&c).remote_got, 4);
	kvmm_seq_destroy(seq);
	end_both(c.pool, c.tier);
	fake.hangs = true;
	seq = make_prompt(&c, ctx);
	cr_expect_eq(take_all(seq, &nr_calls), 0);
	cr_expect_leq(nr_calls, 60, "a little more than the deadline");
	fake.hangs = false;
	kvmm_seq_destroy(seq);
	end_both(c.pool, c.tier);
	kvmm_key_ctx_destroy(ctx);
}

/* ---- behind a disk ---- */

REMOTE_TEST(behind_a_disk_what_the_disk_has_is_read_there, has_disk = true; restart(c, 1); fill(c))
{
	cr_expect_eq(fake_server_nr(&fake), 8);
	cr_expect_str_eq(find(c, 1, 4), "2222");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
	cr_expect_eq(stat_now(c).remote_got, 0);
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 2)), 2);
	cr_expect_eq(fake_server_nr(&fake), 6);
	end_both(c->pool, c->tier);
	end_store();
	begin_store(16, 64 << 10);
	make_chain(c, 1);
	expect_gone(c, 1, 2);
	cr_expect_str_eq(find(c, 3, 4), "2222", "of the server");
	cr_expect_eq(load_keys(c->pool, 3, 4), 0);
	cr_expect_eq(stat_now(c).remote_got, 4);
}

REMOTE_TEST(behind_a_disk_a_server_that_is_away_is_not_missed, has_disk = true; restart(c, 1);
	    fake.is_down = true; fill(c))
{
	cr_expect_eq(tier_of(c->tier).below_failed, 0);
	cr_expect_geq(stat_now(c).remote_dropped, 8);
	cr_expect_str_eq(find(c, 1, 4), "2222");
	cr_expect_eq(load_keys(c->pool, 1, 4), 0);
}

/* ---- invariants ---- */

#define FLIP_CHECK	kv_tier_check(c->tier)

/* Each kind of request is under way, or waits. */
REMOTE_TEST(a_flip_in_a_count_is_noticed, fill(c))
{
	struct remote *remote = remote_of(c);
	struct known_name *gone = remote->known.name;

	cr_assert_str_eq(find(c, 1, 4), "2222");
	fake.hangs = true;
	cr_expect_eq(kvmm_tier_forget(c->pool, prefix_of(1, 2)), -EIO);
	answers(c->pool, 20, 3);
	cr_assert_eq(kv_tier_check(c->tier), 0);
	flip(remote, known.nr_gone);
	flip(remote, nr_used[REQ_DEL]);
	flip(remote, nr_used[REQ_ASK]);
	flip(remote, free.nr);
	flip(remote, waiting.nr);
	flip(remote, sent.nr);
	while (gone->state != KNOWN_GONE)
		gone++;
	flip(gone, key[0]);
	fake.hangs = false;
	later(c, 1000 * MS);
}

/* ---- making one ---- */

Test(remote, what_makes_no_key_is_refused)
{
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	static const char *const bad[] = { NULL, "", "a:b", "a b", "a\nb" };
	struct kvmm_tier *tier;

	host.capacity_blocks = 4;
	host.block_bytes = BYTES;
	host.remote = &attr;
	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr.model = bad[i];
		cr_expect_eq(kvmm_tier_host_create(&host, &tier), -EINVAL, "%u", i);
	}
	attr.model = "toy";
	attr.user = "me";
	cr_expect_eq(kvmm_tier_host_create(&host, &tier), -EINVAL, "no password");
	attr.user = NULL;
	host.block_bytes = 0;
	cr_expect_eq(kvmm_tier_host_create(&host, &tier), -EOPNOTSUPP);
}

Test(remote, what_is_no_address_is_refused)
{
	static const char *const bad[] = { "localhost:6379", "127.0.0.1", "[::1]", "" };
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_tier *tier;

	host.capacity_blocks = 4;
	host.block_bytes = BYTES;
	host.remote = &attr;
	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr.address = bad[i];
		cr_expect_eq(kvmm_tier_host_create(&host, &tier), -EINVAL, "%u", i);
		cr_expect(strstr(kvmm_why(), i < 3 ? bad[i] : "server"), "%s", kvmm_why());
	}
}
