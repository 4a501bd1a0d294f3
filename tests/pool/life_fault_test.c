// SPDX-License-Identifier: Apache-2.0
/*
 * Cached blocks when host memory runs out: at the first allocation, at the second, and so on until
 * the call succeeds. Each time nothing may have changed. Most calls allocate nothing at all.
 */
#include <kv/rcu.h>
#include <kvmm/ext/name.h>

#include "tests/pool/life_util.h"
#include "tests/support/fault.h"

static struct kvmm_pool *pool;

static void begin(const char *index, u32 dup)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = LIFE_MAX,
				       .policy = "lru" };

	fault_begin();
	attr.index = index;
	attr.dup_policy = dup;
	pool = make_pool_of(&attr);
}

static void end(void)
{
	end_pool(pool);
	fault_end();
}

/* What is called until it succeeds, and what it leaves behind on failure. */
static u32 until_it_succeeds(int (*call)(void *arg), void *arg)
{
	static struct life before;
	u64 nr_live;

	kv_rcu_barrier();
	nr_live = fake.nr_live;
	life_take(pool, &before);
	for (u32 n = 1;; n++) {
		bool failed;
		int err = fault_at(n, call(arg), &failed);

		if (!failed) {
			cr_assert_eq(err, 0, "%d", err);
			return n - 1;
		}
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", n, err);
		life_expect_same(pool, &before, __LINE__);
		cr_assert_eq(fake.nr_live, nr_live, "allocation %u left memory", n);
	}
}

static int publish(void *req)
{
	return kvmm_publish(pool, req);
}

/* Half of the names are taken. Returns how often it failed. */
static u32 publish_until(const char *index, u32 dup, u32 nr)
{
	union { kvmm_staged_t staged[LIFE_MAX]; kvmm_ref_t ref[LIFE_MAX]; } block;
	struct kvmm_publish_args req = { block.staged, nr, dup, block.ref, 0 };
	kvmm_ref_t elder[LIFE_MAX];
	u32 nr_failed;

	begin(index, dup);
	make_active(pool, nr / 2, nr / 2, elder);
	make_staged(pool, 0, nr, block.staged);
	nr_failed = until_it_succeeds(publish, &req);
	cr_expect_eq(req.nr_dups, nr / 2);
	cr_expect_eq(kvmm_put_many(pool, block.ref, nr), 0);
	cr_expect_eq(kvmm_put_many(pool, elder, nr / 2), 0);
	cr_expect_eq(kvmm_reset_cache(pool), dup == KVMM_DUP_ALLOW ? nr + nr / 2 : nr);
	end();
	return nr_failed;
}

Test(life_fault, publishing_is_all_or_nothing)
{
	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		/* A node for each block, and a copy of the batch if some may be rejected. */
		cr_expect_eq(publish_until("lfht", dup, 6), 6);
		cr_expect_eq(publish_until("lfht", dup, 100), 100 + (dup == KVMM_DUP_REJECT));
		cr_expect_eq(publish_until("flat", dup, 6), 0);
		cr_expect_eq(publish_until("flat", dup, 100), dup == KVMM_DUP_REJECT);
	}
}

struct registration {
	struct kvmm_prefix prefix;
	kvmm_mut_t *mut;
	kvmm_ref_t *ref;
};

static int prefix_register(void *arg)
{
	struct registration *reg = arg;

	return kvmm_prefix_register(pool, &reg->prefix, reg->mut, reg->ref);
}

/* What was named for it is private again. */
Test(life_fault, registering_is_all_or_nothing)
{
	static const char *const indexes[] = { "flat", "lfht" };

	for (u32 i = 0; i < 2; i++) {
		for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
			kvmm_mut_t mut[80];
			kvmm_ref_t ref[80];
			struct registration reg = { prefix_of(keys_from(0, 80), 80), mut, ref };

			begin(indexes[i], dup);
			cache_keys(pool, 10, 5);
			make_private(pool, 80, mut);
			reg.prefix.keys = keys_from(0, 80);
			cr_expect_eq(until_it_succeeds(prefix_register, &reg),
				     80 * i + (dup == KVMM_DUP_REJECT));
			cr_expect_eq(kvmm_put_many(pool, ref, 80), 0);
			end();
		}
	}
}

/* Every call there is, but those that say otherwise. */
static void use_everything(u32 round)
{
	union { kvmm_mut_t mut[60]; kvmm_staged_t staged[60]; kvmm_ref_t ref[60]; } block;
	struct kvmm_prefix prefix = prefix_of(keys_from(round % 7 * 20, 60), 60);
	struct kvmm_publish_args req = { block.staged, 60, 1 + round % 3, block.ref, 0 };
	struct kvmm_acquire_args acquire = { .keys = prefix.keys, .nr_keys = 60, .max_hits = 60,
					     .nr_blocks = 70 };
	kvmm_ref_t hit[60], up[60];
	kvmm_weak_t weak[60];
	kvmm_mut_t fresh[70];
	u32 blocks[60];
	u64 present;
	int nr;

	cr_assert_eq(kvmm_alloc(pool, 60, block.mut), 0);
	cr_assert_eq(kvmm_blocks_of_muts(pool, block.mut, 60, blocks), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, block.mut, block.staged), 0);
	cr_assert_eq(kvmm_unstage(pool, block.staged, 60, block.mut), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, block.mut, block.staged), 0);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	cr_assert_eq(kvmm_prefix_len(pool, &prefix), 60);
	cr_assert_eq(kvmm_prefix_probe(pool, &prefix, &present), 60);
	nr = kvmm_prefix_scan(pool, &prefix, hit);
	cr_assert_eq(nr, 60);
	for (u32 i = 0; i < 60; i++)
		weak[i] = kvmm_weak_of(hit[i]);
	cr_assert_eq(kvmm_upgrade_many(pool, weak, 60, up), 60);
	cr_assert_eq(kvmm_get_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_touch_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_pin_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_unpin_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_set_reset(pool, up, 30, round % 2), 0);
	cr_assert_eq(kvmm_blocks_of_refs(pool, up, 60, blocks), 0);
	cr_assert_geq(kvmm_evict_blocks(pool, blocks, 2), 0);
	cr_assert_eq(kvmm_put_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_put_many(pool, up, 60), 0);
	cr_assert_eq(kvmm_put_many(pool, hit, 60), 0);
	cr_assert_eq(kvmm_put_many(pool, block.ref, 60), 0);
	acquire.hits = hit;
	acquire.fresh = fresh;
	cr_assert_eq(kvmm_acquire(pool, &acquire), 0);
	cr_assert_eq(kvmm_free(pool, fresh, acquire.nr_fresh), 0);
	cr_assert_eq(kvmm_put_many(pool, hit, acquire.nr_hits), 0);
	if (round % 16 == 0)
		cr_assert_geq(kvmm_reset_inactive(pool), 0);
	if (round % 32 == 0)
		cr_assert_geq(kvmm_reset_cache(pool), 0);
}

Test(life_fault, nothing_else_allocates)
{
	u64 before;

	begin("flat", KVMM_DUP_HOLD);
	before = fake.nr_allocs;
	fake_env_fail(&fake, 1, true);
	for (u32 round = 0; round < 100; round++)
		use_everything(round);
	cr_expect_eq(fake.nr_allocs, before);
	cr_expect_gt(stat_of(pool).evictions, 0);
	fake_env_fail(&fake, 0, false);
	end();
}

/* Nodes that were evicted wait for a grace period, and are not forgotten. */
Test(life_fault, what_the_other_index_puts_aside_is_freed_in_time)
{
	u64 nr_live, most = 0;

	begin("lfht", KVMM_DUP_ALLOW);
	nr_live = fake.nr_live;
	for (u32 round = 0; round < 200; round++) {
		use_everything(round);
		most = most > fake.nr_live ? most : fake.nr_live;
	}
	cr_expect_lt(most, nr_live + 2 * LIFE_MAX + 512);
	end();
}

/* ---- names that change ---- */

static kvmm_ref_t held[8];
static struct kvmm_name names[8];
static u32 op;

static int change_names(void *arg)
{
	return kvmm_names_change(pool, names, held, 8, op);
}

/* Returns how often it failed. */
static u32 change_until(u32 how, u32 first)
{
	op = how;
	for (u32 i = 0; i < 8; i++)
		names[i] = (struct kvmm_name){ .key = *keys_from(first + i, 1) };
	return until_it_succeeds(change_names, NULL);
}

Test(life_fault, names_change_for_all_or_none)
{
	begin("flat", 0);
	make_active(pool, 0, 8, held);
	/* The index grows: a table, and its buckets. */
	cr_expect_eq(change_until(KVMM_NAME_ADD, 20), 2);
	cr_expect_eq(change_until(KVMM_NAME_ADD, 40), 0);
	cr_expect_eq(change_until(KVMM_NAME_RENAME, 60), 0);
	cr_expect_eq(change_until(KVMM_NAME_REMOVE, 60), 0);
	cr_expect_eq(change_until(KVMM_NAME_REMOVE, 40), 0);
	cr_expect_eq(kvmm_match_len(pool, keys_from(20, 8), 8), 8);
	cr_expect_eq(kvmm_put_many(pool, held, 8), 0);
	end();
}

/* More than a call has room for on its stack. */
static int add_many_names(void *many)
{
	static kvmm_ref_t refs[40];

	for (u32 i = 0; i < 40; i++)
		refs[i] = held[0];
	return kvmm_names_add(pool, many, refs, 40);
}

Test(life_fault, many_names_are_added_or_none)
{
	static struct kvmm_name many[40];

	begin("flat", 0);
	make_active(pool, 0, 1, held);
	for (u32 i = 0; i < 40; i++)
		many[i] = (struct kvmm_name){ .key = *keys_from(20 + i, 1) };
	cr_expect_eq(until_it_succeeds(add_many_names, many), 3);
	cr_expect_eq(kvmm_match_len(pool, keys_from(20, 40), 40), 40);
	cr_expect_eq(kvmm_put_many(pool, held, 1), 0);
	end();
}
