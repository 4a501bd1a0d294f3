// SPDX-License-Identifier: Apache-2.0
/*
 * Groups without host memory: each call that allocates fails at its n-th allocation, n = 1, 2, ...
 * until it succeeds. Each time pools and tables are as they were, and nothing is left behind.
 */
#include "group/internal.h"
#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/between.h"
#include "tests/support/fault.h"

#define NR_KEYS	128u

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
	fault_begin();
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
	fault_end();
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
		pic->stat[i].fail_nospc = 0;	/* what did not fit is counted */
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
		bool failed;
		int err = fault_at(n, call(), &failed);

		if (!failed) {
			cr_assert_eq(err, 0, "%d", err);
			return n - 1;
		}
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
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = w.attr, .nr = 3 };

	return kvmm_groups_create(&attr, &w.groups);
}

static int acquire(void)
{
	struct kvmm_groups_acquire_args req = { .prompt = w.prompt, .nr_tokens = w.nr_tokens,
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
	struct kvmm_groups_acquire_args need = { .prompt = w.prompt, .nr_tokens = 400,
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
	cr_expect_eq(w.tables->hit_tokens, 400);
	w.nr_tokens = 500;
	cr_expect_eq(expect_all_or_nothing(reserve), 1);
	release();
	cr_expect_eq(expect_all_or_nothing(acquire), 2);
	cr_expect_eq(w.tables->hit_tokens, 400);
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

/* ---- other failures ---- */

static int insert_fails(struct kv_map *map, struct kv_insert *insert)
{
	return -ENOMEM;
}

/* Registering needs memory so rarely that it is made to fail here; returns how it was. */
static const struct kv_map_ops *fail_inserts(struct kvmm_pool *pool)
{
	static struct kv_map_ops ops[2];
	static u32 n;
	const struct kv_map_ops *real = pool->map->ops;
	u32 i = n++ % 2;

	ops[i] = *real;
	ops[i].insert = insert_fails;
	pool->map->ops = &ops[i];
	return real;
}

static void start_request(u32 nr_tokens)
{
	cr_assert_eq(create(), 0);
	w.nr_tokens = nr_tokens;
	cr_assert_eq(acquire(), 0);
}

Test(group_fault, a_commit_that_fails_leaves_all_blocks_private)
{
	static struct picture before, after;
	const struct kv_map_ops *real;

	start_request(400);
	real = fail_inserts(w.pool[0]);
	take_picture(&before);
	cr_expect_eq(commit(), -ENOMEM);
	take_picture(&after);
	cr_expect_arr_eq(&after, &before, sizeof(after));
	w.pool[0]->map->ops = real;
	cr_expect_eq(commit(), 0);
	release();
	cr_expect_eq(kvmm_groups_hit_len(w.groups, &w.prompt, 400), 400);
}

Test(group_fault, a_commit_in_several_pools_goes_on_where_it_failed)
{
	const struct kv_map_ops *real;

	start_request(40);
	real = fail_inserts(w.pool[1]);
	cr_expect_eq(commit(), -ENOMEM);
	cr_expect_eq(w.tables->committed, 0);
	cr_expect_eq(stat_of(w.pool[0]).nr_state[KVMM_BLOCK_ACTIVE], 20);
	cr_expect_eq(stat_of(w.pool[1]).nr_state[KVMM_BLOCK_PRIVATE], 1);
	w.pool[1]->map->ops = real;
	cr_expect_eq(commit(), 0);
	cr_expect_eq(stat_of(w.pool[1]).nr_state[KVMM_BLOCK_ACTIVE], 1);
	release();
	cr_expect_eq(kvmm_groups_hit_len(w.groups, &w.prompt, 40), 40);
}

/* 40 tokens are cached, and 24 more computed, in 6 + 6 blocks of the first pool. */
Test(group_fault, a_pool_that_is_closed_says_so_in_each_call)
{
	struct kvmm_groups_acquire_args req = { .prompt = w.prompt, .nr_tokens = 40,
						.max_hit_tokens = 40 };
	struct kvmm_tables *other;
	u32 ids[64];

	start_request(40);
	cr_assert_eq(commit(), 0);
	w.nr_tokens = 64;
	cr_assert_eq(reserve(), 0);
	kv_lock(&w.pool[1]->lock);
	pool_poison(w.pool[1]);
	kv_unlock(&w.pool[1]->lock);

	cr_expect_eq(commit(), -EUCLEAN);
	cr_expect_eq(stat_of(w.pool[0]).nr_state[KVMM_BLOCK_PRIVATE], 12);	/* again */
	cr_expect_eq(kvmm_groups_block_table(w.tables, 0, ids, 64), 16);
	cr_expect_eq(kvmm_groups_block_table(w.tables, 2, ids, 64), -EUCLEAN);
	cr_expect_eq(kvmm_groups_reserve(w.tables, 80, 0), -EUCLEAN);
	cr_expect_eq(stat_of(w.pool[0]).nr_state[KVMM_BLOCK_PRIVATE], 12);
	cr_expect_eq(kvmm_groups_hit_len(w.groups, &w.prompt, 40), -EUCLEAN);
	cr_expect_eq(kvmm_groups_match(w.groups, &w.prompt, 40, &other), -EUCLEAN);
	cr_expect_eq(kvmm_groups_blocks_needed(w.groups, &req), -EUCLEAN);
	cr_expect_eq(kvmm_groups_trim(w.tables, 40), 0);		/* gives nothing back there */
	cr_expect_eq(kvmm_groups_abort(w.tables), -EUCLEAN);
	release();
	cr_expect_eq(stat_of(w.pool[0]).nr_available, 512);
	w.nr_tokens = 41;
	cr_expect_eq(acquire(), -EUCLEAN);
	cr_expect_eq(stat_of(w.pool[0]).nr_available, 512);
	kvmm_pool_destroy(w.pool[1]);
	w.pool[1] = make_cache(8, "lru");
}

/* It is cached, so it is seen; but it has as many references as there can be. */
Test(group_fault, a_block_that_cannot_be_referenced_is_in_no_hit)
{
	static kvmm_ref_t same[4096];
	struct kvmm_tables *holder;
	kvmm_ref_t refs[50];
	u32 nr = 0;

	start_request(200);
	cr_assert_eq(commit(), 0);
	cr_assert_eq(kvmm_groups_refs(w.tables, 0, refs, 50), 50);
	for (u32 i = 0; i < ARRAY_SIZE(same); i++)
		same[i] = refs[30];
	while (!kvmm_get_many(w.pool[0], same, ARRAY_SIZE(same)))
		nr += ARRAY_SIZE(same);
	while (!kvmm_get_many(w.pool[0], same, 1))
		nr++;
	holder = w.tables;
	cr_expect_eq(kvmm_groups_hit_len(w.groups, &w.prompt, 200), 200);

	/* Steps of 8 and 200, but there is a state of token 200 only: it looks in vain, and ends. */
	cr_expect_eq(kvmm_groups_match(w.groups, &w.prompt, 200, &w.tables), 0);
	release();
	w.tables = holder;
	for (; nr >= ARRAY_SIZE(same); nr -= ARRAY_SIZE(same))
		cr_assert_eq(kvmm_put_many(w.pool[0], same, ARRAY_SIZE(same)), 0);
	cr_assert_eq(kvmm_put_many(w.pool[0], same, nr), 0);
	release();
	cr_expect_eq(stat_of(w.pool[0]).nr_state[KVMM_BLOCK_ACTIVE], 0);
}

/* Somebody else is faster: the n-th pool that is asked for blocks has none (linked with --wrap). */
static u32 robbed_at;

int __wrap_acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req, bool inside);
int __real_acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req, bool inside);

int __wrap_acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req, bool inside)
{
	if (robbed_at && !--robbed_at)
		return -ENOSPC;
	return __real_acquire_uncounted(pool, req, inside);
}

/* The first block that a thread gives back takes host memory, for all that follow. */
static void make_magazines(void)
{
	for (u32 i = 0; i < 2; i++) {
		kvmm_mut_t mut;

		cr_assert_eq(kvmm_alloc(w.pool[i], 1, &mut), 0);
		cr_assert_eq(kvmm_free(w.pool[i], &mut, 1), 0);
	}
}

Test(group_fault, what_another_takes_in_between_undoes_all)
{
	static struct picture before, after;

	start_request(40);
	cr_assert_eq(commit(), 0);
	make_magazines();
	for (u32 n = 1; n <= 3; n++) {
		struct kvmm_tables *holder = w.tables;

		/* There are 39 more tokens in tables of 400. */
		w.nr_tokens = 400;
		cr_assert_eq(tables_grow(w.tables, w.nr_tokens), 0);
		take_picture(&before);
		robbed_at = n;
		cr_expect_eq(reserve(), -ENOSPC);
		take_picture(&after);
		for (u32 i = 0; i < 2; i++)	/* blocks came and went */
			after.stat[i] = before.stat[i];
		cr_expect_arr_eq(&after, &before, sizeof(after), "%u", n);

		robbed_at = n;
		cr_expect_eq(acquire(), -ENOSPC);
		cr_expect_eq(w.tables, holder);
		take_picture(&after);
		for (u32 i = 0; i < 2; i++)
			after.stat[i] = before.stat[i];
		cr_expect_arr_eq(&after, &before, sizeof(after), "%u", n);
	}
	cr_expect_eq(robbed_at, 0);
	release();
}

Test(group_fault, giving_states_back_to_a_closed_pool_is_an_error)
{
	start_request(40);
	cr_assert_eq(commit(), 0);
	w.nr_tokens = 64;
	cr_assert_eq(reserve(), 0);
	cr_assert_eq(commit(), 0);
	kv_lock(&w.pool[1]->lock);
	pool_poison(w.pool[1]);
	kv_unlock(&w.pool[1]->lock);
	cr_expect_eq(kvmm_groups_trim(w.tables, 64), -EUCLEAN);
	cr_expect_eq(tables_check(w.tables), 0);
	cr_expect_eq(w.tables->table[1].low, (64 - 29) / 4);		/* the window's did go */
	release();
	kvmm_pool_destroy(w.pool[1]);
	w.pool[1] = make_cache(8, "lru");
}

/* @value instead of what is there: is it noticed? */
static void expect_noticed(u32 *field, u32 value)
{
	u32 old = *field;

	*field = value;
	cr_expect_eq(tables_check(w.tables), -EUCLEAN);
	*field = old;
	cr_expect_eq(tables_check(w.tables), 0);
}

Test(group_fault, tables_that_contradict_themselves_are_noticed)
{
	struct table *table;

	start_request(40);
	cr_assert_eq(commit(), 0);
	w.nr_tokens = 64;
	cr_assert_eq(reserve(), 0);
	cr_assert_eq(kvmm_groups_trim(w.tables, 40), 0);	/* of the window, 2 blocks go */
	table = w.tables->table;
	cr_assert_eq(table[1].low, 2);
	expect_noticed(&table[1].low, 3);			/* block 2 is outside now */
	expect_noticed(&table[0].low, 17);
	expect_noticed(&table[1].nr, 15);			/* so is block 15 */
	expect_noticed(&table[0].nr, 9);
	expect_noticed(&table[0].nr, w.tables->max_tokens);
	expect_noticed(&table[0].done, 11);
	expect_noticed(&w.tables->committed, 65);
	expect_noticed(&table_slot(w.tables, 0, 3)->gen, 0);
	expect_noticed(&table_slot(w.tables, 1, 1)->gen, 1);
	expect_noticed(&table_slot(w.tables, 1, 17 - 1)->index, 1);
	expect_noticed(&table_slot(w.tables, 0, 3)->index, 3);	/* private, below ->done */
	release();
}

/* ---- references that nobody knows of ---- */

/* Keys 0 to 3 in group 0's domain, put back; what a reference on them is asked for by. */
static struct kvmm_prefix cache_four(void)
{
	cache_keys(w.pool[0], 0, 4);
	return (struct kvmm_prefix){ .keys = w.keys, .nr = 4 };
}

Test(group_fault, who_is_met_in_the_order_while_referenced_comes_back)
{
	struct kvmm_prefix four = cache_four();
	kvmm_mut_t muts[512];
	kvmm_ref_t refs[4];

	cr_expect_eq(quiet_get(w.pool[0], &four, refs), 4);
	/* All that is free, and one more: the order offers those that are referenced. */
	cr_expect_eq(kvmm_alloc(w.pool[0], 508, muts), 0);
	cr_expect_eq(kvmm_alloc(w.pool[0], 1, muts + 508), -ENOSPC);
	quiet_put(w.pool[0], refs, 4);
	cr_expect_eq(kvmm_free(w.pool[0], muts, 508), 0);
	cr_expect_eq(stat_of(w.pool[0]).nr_inactive, 4);
	cr_expect_eq(kvmm_alloc(w.pool[0], 512, muts), 0);
	cr_expect_eq(stat_of(w.pool[0]).evictions, 4);
	cr_expect_eq(kvmm_free(w.pool[0], muts, 512), 0);
}

Test(group_fault, who_is_forgotten_while_referenced_is_free_afterwards)
{
	struct kvmm_prefix four = cache_four(), five = four;
	kvmm_ref_t refs[5];
	u32 ids[4];

	cr_expect_eq(quiet_get(w.pool[0], &four, refs), 4);
	cr_assert_eq(kvmm_blocks_of_refs(w.pool[0], refs, 4, ids), 0);
	cr_expect_eq(kvmm_evict_blocks(w.pool[0], ids, 2), 2);
	quiet_put(w.pool[0], refs, 4);
	cr_expect_eq(stat_of(w.pool[0]).nr_inactive, 2);
	cr_expect_eq(stat_of(w.pool[0]).nr_free, 510);
	five.nr = 5;
	cr_expect_eq(quiet_get(w.pool[0], &five, refs), -EAGAIN);
	cr_expect_eq(kvmm_prefix_len(w.pool[0], &four), 0);
	cr_expect_eq(stat_of(w.pool[0]).nr_state[KVMM_BLOCK_ACTIVE], 0);
}

/* ---- what policies hear ---- */

static u32 nr_seen;

static void count_seen(void *policy, const kvmm_key_t *keys, u32 nr)
{
	nr_seen += nr;
}

/* Once a pool and request, however many groups there are; not when it is only looked at. */
Test(group_fault, policies_hear_of_all_keys_asked_for)
{
	static struct kv_evict_ops ops[2];	/* outlive the test: pools are ended later */

	for (u32 i = 0; i < 2; i++) {
		ops[i] = *w.pool[i]->order.ops;
		ops[i].seen = count_seen;
		w.pool[i]->order.ops = &ops[i];
	}
	start_request(40);
	cr_expect_eq(nr_seen, 2 * 9);		/* 39 tokens may hit: 9 granules */
	cr_assert_eq(need(), 0);
	cr_expect_eq(kvmm_groups_hit_len(w.groups, &w.prompt, 40), 0);
	cr_expect_eq(nr_seen, 2 * 9);
	release();
	w.prompt.nr = 5;
	cr_assert_eq(match(), 0);
	cr_expect_eq(nr_seen, 2 * (9 + 5));
	release();
	w.nr_tokens = 4000;			/* do not fit */
	cr_expect_eq(acquire(), -ENOSPC);
	cr_expect_eq(nr_seen, 2 * (9 + 5));
}

/* ---- another thread looks for victims ---- */

/* The hits are referenced, and the order of eviction hears of that by a pick in vain. */
static bool pick_in_vain(void *arg)
{
	struct kvmm_pool *pool = arg;
	kvmm_mut_t mut[5];

	if (stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE] != 4)
		return false;
	cr_expect_eq(kvmm_alloc(pool, 5, mut), -ENOSPC);
	return true;
}

/* Two pools of 16: the request hits 4 blocks of each, and wants 3 that are free, and 1 cached. */
static void expect_room_beside_hits(const struct kvmm_tenant_attr *limits)
{
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_groups_acquire_args req = { .prompt = w.prompt, .max_hit_tokens = 16 };
	struct kvmm_pool *pool[2];
	struct kvmm_group_attr group[2];
	struct kvmm_groups *groups;
	struct kvmm_tables *tables;
	kvmm_mut_t mut[8];

	for (u32 i = 0; i < 2; i++) {
		pool[i] = make_cache(16, "lru");
		group[i] = (struct kvmm_group_attr){ pool[i], KVMM_GROUP_FULL, 4, 0, 0 };
		if (limits)
			cr_assert_eq(kvmm_tenant_set(pool[i], 0, limits), 0);
	}
	attr.group = group;
	attr.nr = 2;
	cr_assert_eq(kvmm_groups_create(&attr, &groups), 0);
	req.nr_tokens = 16;
	cr_assert_eq(kvmm_groups_acquire(groups, &req, &tables), 0);
	cr_assert_eq(kvmm_groups_commit(tables, &w.prompt, 16), 0);
	kvmm_groups_release(tables);
	cr_assert_eq(kvmm_alloc(pool[1], 8, mut), 0);
	cache_keys(pool[1], 1000, 1);
	between_arm(&fake, &pool[0]->lock, pick_in_vain, pool[1]);
	req.nr_tokens = 32;
	cr_expect_eq(kvmm_groups_acquire(groups, &req, &tables), 0);
	cr_expect(between_is_done());
	cr_expect_eq(req.hit_tokens, 16);
	cr_expect_eq(stat_of(pool[1]).nr_free, 0);
	kvmm_groups_release(tables);
	kvmm_groups_destroy(groups);
	end_pool(pool[0]);
	end_pool(pool[1]);
}

Test(group_fault, hits_that_the_order_has_lost_leave_no_less_room)
{
	expect_room_beside_hits(NULL);
}

Test(group_fault, nor_where_tenants_have_limits)
{
	struct kvmm_tenant_attr limits = KVMM_TENANT_ATTR_INIT;

	limits.max = 20;
	expect_room_beside_hits(&limits);
}
