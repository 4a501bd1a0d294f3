// SPDX-License-Identifier: Apache-2.0
/*
 * What can go wrong all the way down and up again: a bit of the tier's metadata flips, the process forks,
 * the thread is cancelled, a file or an allocation fails. And what a codec between two tiers has to do.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/cuda.h>
#include <kv/rcu.h>

#include "tests/support/fake_env.h"
#include "tests/support/flip.h"
#include "tests/support/sim_store.h"
#include "tests/tier/util.h"
#include "tier/below.h"

#define NR_BLOCKS	8u
#define NR_UNITS	4u
#define BYTES		4096u

static struct both c;

/* All of it, or nothing. */
static int make_chain(void)
{
	int err = kvmm_disk_open(&store_attr, &disk);

	c = both_of(NR_BLOCKS, NR_UNITS);
	c.attr.block_bytes = c.host.block_bytes = BYTES;
	c.client.flags = KVMM_TIER_COMPLETE;
	c.client.config = &c.config;
	c.attr.host_attr = &c.client;
	if (!err)
		err = kvmm_tier_host_create(&c.host, &c.tier);
	if (!err)
		err = kv_tier_set_disk(c.tier, disk, &c.below);
	c.attr.host = c.tier;
	return err ? err : kvmm_pool_create(&c.attr, &c.pool);
}

static void end_chain(void)
{
	if (c.pool)
		cr_expect_eq(kvmm_validate(c.pool), 0);
	kvmm_pool_destroy(c.pool);
	if (c.tier)
		cr_expect_eq(kv_tier_check(c.tier), 0);
	kvmm_tier_destroy(c.tier);
	if (disk)
		cr_expect_eq(kv_disk_check(disk), 0);
	kvmm_disk_close(disk);
	disk = NULL;
	memset(&c, 0, sizeof(c));
}

static void begin(void)
{
	begin_store(16, 64 << 10);
}

TestSuite(tier_proof, .init = begin, .fini = end_store);

static void settle(void)
{
	for (u32 i = 0; i < 60; i++) {
		kvmm_tier_poll(c.pool);
		kvmm_tier_tick(c.tier);
	}
}

/* ---- flips ---- */

#define FLIP_CHECK	kv_tier_check(c.tier)

static void two_below(void)
{
	cr_assert_eq(make_chain(), 0);
	cache_blocks(c.pool, 1, 2);
	offload_keys(c.pool, 1, 2, 0);
	cr_assert_str_eq(tier_picture(c.tier), "rr..");
}

Test(tier_proof, a_flip_in_a_slot_is_noticed)
{
	two_below();
	for (u32 i = 0; i < 2; i++) {
		struct tslot *slot = slot_at(c.tier, i);

		flip(slot, state);
		flip(slot, owner);
		flip(slot, readers);
		flip(slot, nr_units);
		flip(slot, next);
		slot->flags ^= SLOT_BUSY;
		cr_expect_eq(kv_tier_check(c.tier), -EUCLEAN);
		slot->flags ^= SLOT_BUSY;
		slot->key[0] ^= 1;
		slot->gen ^= slot->gen;
		cr_expect_eq(kv_tier_check(c.tier), -EUCLEAN);
		slot->key[0] ^= 1;
		slot->gen = 1;
	}
	slot_at(c.tier, 3)->readers = 1;
	cr_expect_eq(kv_tier_check(c.tier), -EUCLEAN);
	slot_at(c.tier, 3)->readers = 0;
	cr_expect_eq(kv_tier_check(c.tier), 0);
	end_chain();
}

Test(tier_proof, a_flip_in_a_count_is_noticed)
{
	struct kv_tier_client *owner;

	two_below();
	flip(c.tier, units_used);
	flip(c.tier, blocks);
	flip(c.tier, writing);
	flip(c.tier, pinned);
	owner = &c.tier->owner[1];
	cr_assert_eq(owner->blocks, 2);
	flip(owner, blocks);
	flip(owner, units);
	flip(owner, writing);
	flip(owner, number);
	flip(&c.tier->owner[0], units);
	flip_each_bit("put", &c.tier->below->nr_used[BELOW_PUT], sizeof(u32));
	for (u32 i = 0; i < c.tier->nr_buckets; i++)
		flip_each_bit("bucket", &c.tier->bucket[i], sizeof(u32));
	end_chain();
}

/* ---- forks and cancellation ---- */

static int child_is_refused(void)
{
	struct kvmm_tier_config config = { .size = sizeof(config) };
	struct kvmm_tier_stat stat;
	struct kvmm_tier_load_args load = { .size = sizeof(load), .prefix = prefix_of(1, 1) };
	kvmm_tier_op_t op;

	if (kvmm_tier_tick(c.tier) != -ECHILD ||
	    kvmm_tier_get_stat(c.tier, &stat, sizeof(stat)) != -ECHILD || kvmm_tier_poll(c.pool) != -ECHILD ||
	    kvmm_tier_load(c.pool, &load, &op) != -ECHILD ||
	    kvmm_tier_get_config(c.pool, &config) != -ECHILD ||
	    kvmm_tier_detach(c.pool) != -ECHILD ||
	    kv_disk_lookup(disk, &(struct kvmm_disk_name){ .key_bytes = 8 }) != KV_DISK_MISS)
		return 1;
	kvmm_pool_destroy(c.pool);
	kvmm_tier_destroy(c.tier);
	kvmm_disk_close(disk);
	return 0;
}

Test(tier_proof, a_forked_child_is_refused_and_does_no_harm)
{
	int status;
	pid_t pid;

	two_below();
	send_down(c.pool, 1, 2);
	pid = fork();
	if (!pid)
		_exit(child_is_refused());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
	settle();
	cr_assert_eq(kvmm_reset_inactive(c.pool), 2);
	cr_expect_eq(load_keys(c.pool, 1, 2), 0);
	end_chain();
}

/* A cancellation that is pending takes effect behind the calls, never in one. */
static void *cancelled(void *arg)
{
	u32 *nr_calls = arg;

	pthread_cancel(pthread_self());
	cr_assert_eq(make_chain(), 0);
	++*nr_calls;
	cache_blocks(c.pool, 1, 8);
	for (u32 first = 1; first <= 5; first += 4) {
		offload_keys(c.pool, first, 4, KVMM_TIER_DROP);
		settle();
	}
	++*nr_calls;
	cr_expect_eq(load_keys(c.pool, 1, 4), 0);
	end_chain();
	++*nr_calls;
	pthread_testcancel();
	++*nr_calls;
	return NULL;
}

/* Unwinding a cancelled thread leaves AddressSanitizer's marks on its stack. */
#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN	true
#else
#define UNDER_ASAN	false
#endif

Test(tier_proof, a_cancellation_comes_behind_the_calls, .disabled = UNDER_ASAN)
{
	pthread_t thread;
	u32 nr_calls = 0;
	void *end;

	cr_assert_eq(pthread_create(&thread, NULL, cancelled, &nr_calls), 0);
	cr_assert_eq(pthread_join(thread, &end), 0);
	cr_expect_eq(end, PTHREAD_CANCELED);
	cr_expect_eq(nr_calls, 3);
}

/* ---- the chain, with everything that fails ---- */

/* Down to the disk and up again: what is loaded is right, all else may be an error. How many came up. */
static u32 down_and_up(void)
{
	u32 nr = 0;

	for (u32 first = 1; first <= 5; first += 4) {
		send_down(c.pool, first, 4);
		settle();
	}
	kvmm_reset_inactive(c.pool);
	for (u32 key = 1; key <= 8; key++) {
		nr += !load_keys(c.pool, key, 1);	/* it compares the content */
		settle();
	}
	return nr;
}

static void expect_nothing_held(void)
{
	struct kvmm_tier_stat stat;

	settle();
	stat = tier_of(c.tier);
	cr_expect_eq(stat.pinned, 0);
	cr_expect_eq(stat.writing, 0);
	cr_expect_eq(kvmm_tier_poll(c.pool), 0);
	cr_expect_eq(kvmm_validate(c.pool), 0);
	kvmm_reset_inactive(c.pool);
	cr_expect_str_eq(picture(c.pool), "........");
}

static void file_calls_fail(u32 fault, bool on)
{
	u32 n, nr_failures = 0;
	u64 failed;

	for (n = 1;; n++) {
		end_store();
		begin();
		cr_assert_eq(make_chain(), 0);
		cache_blocks(c.pool, 1, 8);
		failed = sim.nr_failed;
		sim_disk_fail(&sim, n, fault, on);
		down_and_up();
		failed = sim.nr_failed - failed;
		sim_disk_fail(&sim, 0, fault, false);
		expect_nothing_held();
		end_chain();
		if (!failed)
			break;
		nr_failures++;
	}
	cr_expect_gt(nr_failures, 8, "fault %u: only %u calls", fault, nr_failures);
}

Test(tier_proof, any_call_of_the_disk_fails_and_contents_are_right_or_a_miss)
{
	for (u32 fault = 0; fault < SIM_NR_FAULTS; fault++)
		file_calls_fail(fault, false);
}

Test(tier_proof, the_disk_fails_from_any_call_on)
{
	file_calls_fail(SIM_EIO, true);
	file_calls_fail(SIM_ENOSPC, true);
}

static void expect_level(u32 key, const char *level)
{
	cr_expect_str_eq(answers(c.pool, key, 1), level, "key %u", key);
}

/* A call of the disk fails while names are wiped: it says so, and the next one wipes them. */
Test(tier_proof, names_that_could_not_be_wiped_are_not_found_and_are_wiped_by_the_next_call)
{
	u32 nr_refused = 0;
	u64 failed = 1;

	for (u32 n = 1; failed; n++) {
		int ret;

		end_store();
		begin();
		cr_assert_eq(make_chain(), 0);
		cache_blocks(c.pool, 1, 4);
		send_down(c.pool, 1, 4);
		settle();
		cr_assert_eq(kvmm_reset_inactive(c.pool), 4);
		failed = sim.nr_failed;
		sim_disk_fail(&sim, n, SIM_EIO, false);
		ret = kvmm_tier_forget(c.pool, prefix_of(1, 3));
		failed = sim.nr_failed - failed;
		sim_disk_fail(&sim, 0, SIM_EIO, false);
		cr_expect(ret == 3 || (failed && ret == -EIO), "call %u: %d", n, ret);
		expect_level(1, "-");
		expect_level(3, "-");
		expect_level(4, "1");
		nr_refused += ret < 0;
		if (ret < 0)
			cr_expect_eq(kvmm_tier_forget(c.pool, prefix_of(1, 3)), 0);
		end_chain();
		cr_assert_eq(make_chain(), 0);
		expect_level(1, "-");
		expect_level(3, "-");
		expect_level(4, "2");
		end_chain();
	}
	cr_expect_gt(nr_refused, 2);
}

Test(tier_proof, any_allocation_fails_and_nothing_is_left)
{
	struct fake_env fake;
	bool failed = true;
	u32 n;

	fake_env_install(&fake);
	for (n = 1; failed; n++) {
		int err;

		fake_env_fail(&fake, n, false);
		err = make_chain();
		failed = fake_env_failed(&fake);
		fake_env_fail(&fake, 0, false);
		cr_expect_eq(!err, !failed, "allocation %u: %d", n, err);
		end_chain();
		kv_rcu_barrier();
		cr_expect_eq(fake.nr_live, 0, "allocation %u", n);
	}
	cr_expect_gt(n, 40);
	failed = true;
	for (n = 1; failed; n++) {
		cr_assert_eq(make_chain(), 0);
		cache_blocks(c.pool, 1, 8);
		for (u32 first = 1; first <= 5; first += 4) {
			offload_keys(c.pool, first, 4, KVMM_TIER_DROP);
			settle();
		}
		fake_env_fail(&fake, n, false);
		for (u32 key = 1; key <= 8; key++) {
			load_keys(c.pool, key, 1);
			settle();
		}
		failed = fake_env_failed(&fake);
		fake_env_fail(&fake, 0, false);
		expect_nothing_held();
		end_chain();
		kv_rcu_barrier();
		cr_expect_eq(fake.nr_live, 0, "allocation %u", n);
	}
	cr_expect_gt(n, 8);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

/* ---- a pool that goes while another thread sums up a block of its ---- */

#define LINGER_NS	100000000u

static struct kv_dev_ops slow_host;
static u32 is_summing, has_left, left_meanwhile;

/* The first one takes as long as the pool needs to go, if it does. */
static int slow_sum(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		    struct kv_fence after, u64 *sums)
{
	if (!kv_xchg_acquire(&is_summing, 1)) {
		u64 until = kv_clock_ns() + LINGER_NS;

		while (!smp_load_acquire(&has_left) && kv_clock_ns() < until)
			sched_yield();
		left_meanwhile = smp_load_acquire(&has_left);
	}
	return kv_dev_host.sum_blocks(dev, planes, first, nr, after, sums);
}

static void *tick(void *tier)
{
	cr_expect_geq(kvmm_tier_tick(tier), 0);
	return NULL;
}

Test(tier_proof, a_pool_does_not_go_while_a_block_of_its_is_summed_up_for_the_disk)
{
	pthread_t thread;

	is_summing = has_left = left_meanwhile = 0;
	cr_assert_eq(make_chain(), 0);
	slow_host = kv_dev_host;
	slow_host.sum_blocks = slow_sum;
	c.tier->parts.host = &slow_host;
	c.tier->below->high_pm = 1000;
	cache_blocks(c.pool, 1, 4);
	offload_keys(c.pool, 1, 4, KVMM_TIER_DROP);
	cr_assert_not(is_summing);
	c.tier->below->high_pm = 0;
	cr_assert_eq(pthread_create(&thread, NULL, tick, c.tier), 0);
	while (!smp_load_acquire(&is_summing))
		sched_yield();
	cr_assert_eq(kvmm_tier_detach(c.pool), 0);
	smp_store_release(&has_left, 1);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_not(left_meanwhile);
	c.tier->parts.host = &kv_dev_host;
	end_chain();
}

/* ---- a codec: a store that has another one below it ---- */

#define NR_CODED	16u

struct coded {
	struct kv_tier_io io;		/* the inner store's */
	struct kv_tier_io *outer;	/* NULL: free */
	bool is_put;
	u8 *buf;
};

static struct codec {
	const struct kv_tier_ops *inner;
	void *store;
	struct coded coded[NR_CODED];
	u8 page[NR_CODED][BYTES] __attribute__((aligned(4096)));
	u32 nr_coded;
	u32 nr_decoded;
} codec;

static void invert(void *to, const void *from, u64 bytes)
{
	for (u64 i = 0; i < bytes; i++)
		((u8 *)to)[i] = (u8)~((const u8 *)from)[i];
}

static int coded_begin(struct kv_tier_io *outer, bool is_put)
{
	struct coded *coded = codec.coded;
	int err;

	while (coded < codec.coded + NR_CODED && coded->outer)
		coded++;
	if (coded == codec.coded + NR_CODED)
		return -EAGAIN;
	coded->io = *outer;
	coded->io.buf = codec.page[coded - codec.coded];
	if (is_put)
		invert(coded->io.buf, outer->buf, outer->bytes);
	err = is_put ? codec.inner->put(codec.store, &coded->io) :
		       codec.inner->get(codec.store, &coded->io);
	if (!err) {
		coded->outer = outer;
		coded->is_put = is_put;
	}
	return err;
}

static int coded_put(void *store, struct kv_tier_io *io)
{
	return coded_begin(io, true);
}

static int coded_get(void *store, struct kv_tier_io *io)
{
	return coded_begin(io, false);
}

static u32 coded_poll(void *store, struct kv_tier_io **done, u32 max)
{
	u32 nr = codec.inner->poll(codec.store, done, max);

	for (u32 i = 0; i < nr; i++) {
		struct coded *coded = (struct coded *)done[i];

		done[i] = coded->outer;
		done[i]->error = coded->io.error;
		if (!coded->is_put && !coded->io.error)
			invert(done[i]->buf, coded->io.buf, coded->io.bytes);
		codec.nr_coded += coded->is_put;
		codec.nr_decoded += !coded->is_put;
		coded->outer = NULL;
	}
	return nr;
}

static bool disk_has(const u8 *bytes, u32 nr)
{
	for (u64 at = 0; at + nr <= sim.bytes; at += 4096)
		if (!memcmp(sim.content + at, bytes, nr))
			return true;
	return false;
}

Test(tier_proof, a_codec_stands_between_the_host_and_the_store)
{
	static struct kv_tier_ops ops;
	u8 plain[BYTES], coded[BYTES];
	kvmm_ref_t ref;

	cr_assert_eq(make_chain(), 0);
	codec.inner = c.tier->below->ops;
	codec.store = c.tier->below->store;
	ops = *codec.inner;
	ops.put = coded_put;
	ops.get = coded_get;
	ops.poll = coded_poll;
	c.tier->below->ops = &ops;
	make_blocks(c.pool, 1, 1, &ref);
	cr_assert_eq(kvmm_block_read(c.pool, kvmm_block_of_ref(c.pool, ref), 0, plain, BYTES), 0);
	cr_assert_eq(kvmm_put(c.pool, ref), 0);
	invert(coded, plain, BYTES);
	cache_blocks(c.pool, 2, 7);
	cr_expect_eq(down_and_up(), 8);
	cr_expect_eq(codec.nr_coded, 8);
	cr_expect_geq(codec.nr_decoded, 4);
	cr_expect_not(disk_has(plain, BYTES));
	cr_expect(disk_has(coded, BYTES));
	c.tier->below->ops = codec.inner;
	end_chain();
}
