// SPDX-License-Identifier: Apache-2.0
/*
 * Groups without host memory: each call that allocates fails at its n-th allocation, n = 1, 2, ...
 * until it succeeds. Each time pools and tables are as they were, and nothing is left behind.
 */
#include <criterion/criterion.h>
#include <string.h>

#include <kv/mem.h>
#include <kv/rcu.h>

#include "pool/group.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

#define NR_KEYS	128u

static struct fake_env fake;

/* One of everything that the calls below want. */
static struct world {
	struct kvmm_pool *pool[2];
	struct kvmm_group_attr attr[3];
	struct kvmm_groups *groups;
	struct kvmm_tables *tables;
	kvmm_key_t keys[NR_KEYS];
	struct kvmm_prefix prompt;
	u32 nr_tokens;
} w;

static void make_world(void)
{
	fake_env_install(&fake);
	for (u32 i = 0; i < 2; i++)
		w.pool[i] = make_cache(512, "lru");
	w.attr[0] = (struct kvmm_group_attr){ w.pool[0], KVMM_GROUP_FULL, 4, 0, 0 };
	w.attr[1] = (struct kvmm_group_attr){ w.pool[0], KVMM_GROUP_WINDOW, 4, 30, 0 };
	w.attr[2] = (struct kvmm_group_attr){ w.pool[1], KVMM_GROUP_LAST, 8, 1, 0 };
	for (u32 i = 0; i < NR_KEYS; i++)
		w.keys[i] = key_of(i);
	w.prompt = (struct kvmm_prefix){ .keys = w.keys, .nr = NR_KEYS };
}

static void end_world(void)
{
	kvmm_groups_destroy(w.groups);
	end_pool(w.pool[0]);
	end_pool(w.pool[1]);
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

TestSuite(group_fault, .init = make_world, .fini = end_world);

/* Everything that a failed call might have changed. */
struct picture {
	struct kvmm_pool_stat stat[2];
	char map[2][513];
	kvmm_mut_t slot[3][256];
	struct table table[3];
	u32 committed;
	u64 bytes;
	u64 nr_live;
};

static void take_picture(struct picture *pic)
{
	memset(pic, 0, sizeof(*pic));
	for (u32 i = 0; i < 2; i++) {
		cr_assert_eq(kvmm_validate(w.pool[i]), 0);
		pic->stat[i] = stat_of(w.pool[i]);
		/* Lookups are counted, fitting or not; so is what did not fit. */
		pic->stat[i].hit_blocks = pic->stat[i].miss_blocks = 0;
		pic->stat[i].fail_nospc = 0;
		strcpy(pic->map[i], picture(w.pool[i]));
	}
	for (u32 i = 0; w.tables && i < 3; i++) {
		pic->table[i] = w.tables->table[i];
		memcpy(pic->slot[i], table_slot(w.tables, i, 0),
		       pic->table[i].nr * sizeof(kvmm_mut_t));
	}
	pic->committed = w.tables ? w.tables->committed : 0;
	pic->bytes = kv_mem_bytes();
	pic->nr_live = fake.nr_live;
}

/* Returns after how many failures it succeeded. */
static u32 expect_all_or_nothing(int (*call)(void))
{
	static struct picture before, after;

	kv_rcu_barrier();
	take_picture(&before);
	for (u32 n = 1;; n++) {
		int err;

		fake_env_fail(&fake, n, false);
		err = call();
		if (!fake_env_failed(&fake)) {
			fake_env_fail(&fake, 0, false);
			cr_assert_eq(err, 0, "%d", err);
			return n - 1;
		}
		fake_env_fail(&fake, 0, false);
		if (!err)	/* it could do without */
			return n;
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", n, err);
		take_picture(&after);
		cr_assert_arr_eq(&after, &before, sizeof(after), "allocation %u left a trace", n);
	}
}

/* ---- the calls ---- */

static int create(void)
{
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;

	attr.group = w.attr;
	attr.nr = 3;
	return kvmm_groups_create(&attr, &w.groups);
}

static int acquire(void)
{
	struct kvmm_groups_acquire req = { .prompt = w.prompt, .nr_tokens = w.nr_tokens,
					   .max_hit_tokens = w.nr_tokens - 1 };

	return kvmm_groups_acquire(w.groups, &req, &w.tables);
}

static int match(void)
{
	int ret = kvmm_groups_match(w.groups, &w.prompt, w.nr_tokens, &w.tables);

	return min(ret, 0);
}

static int reserve(void)
{
	return kvmm_groups_reserve(w.tables, w.nr_tokens, 0);
}

static int commit(void)
{
	return kvmm_groups_commit(w.tables, &w.prompt, w.nr_tokens);
}

static int need(void)
{
	struct kvmm_groups_need need = { .prompt = w.prompt, .nr_tokens = 400,
					 .max_hit_tokens = 399 };

	return kvmm_groups_blocks_needed(w.groups, &need);
}

static void release(void)
{
	kvmm_groups_release(w.tables);
	w.tables = NULL;
}

Test(group_fault, groups_are_made_or_not)
{
	cr_expect_eq(expect_all_or_nothing(create), 1);
}

Test(group_fault, a_request_goes_on_or_is_as_it_was)
{
	cr_assert_eq(create(), 0);
	w.nr_tokens = 40;
	cr_expect_eq(expect_all_or_nothing(acquire), 2);
	cr_expect_eq(expect_all_or_nothing(commit), 0);		/* few blocks */
	w.nr_tokens = 400;
	cr_expect_eq(expect_all_or_nothing(reserve), 1);
	cr_expect_eq(expect_all_or_nothing(commit), 1);		/* many of them */
	release();

	/* Now there are hits, which must be put back. */
	w.nr_tokens = 420;
	cr_expect_eq(expect_all_or_nothing(need), 2);
	cr_expect_eq(expect_all_or_nothing(match), 2);
	cr_expect_eq(kvmm_groups_hit_tokens(w.tables), 400);
	w.nr_tokens = 500;
	cr_expect_eq(expect_all_or_nothing(reserve), 1);
	release();
	cr_expect_eq(expect_all_or_nothing(acquire), 2);
	cr_expect_eq(kvmm_groups_hit_tokens(w.tables), 400);
	release();
}

Test(group_fault, memory_of_tables_doubles_and_decoding_takes_no_other)
{
	u64 before;

	cr_assert_eq(create(), 0);
	w.nr_tokens = 200;
	cr_assert_eq(acquire(), 0);
	cr_assert_eq(commit(), 0);
	before = fake.nr_allocs;
	for (w.nr_tokens = 201; w.nr_tokens <= 400; w.nr_tokens++) {
		cr_assert_eq(reserve(), 0);
		cr_assert_eq(commit(), 0);
		cr_assert_eq(kvmm_groups_trim(w.tables, w.nr_tokens), 0);
	}
	cr_expect_eq(fake.nr_allocs, before + 1);
	release();
}
