// SPDX-License-Identifier: Apache-2.0
/*
 * Groups over pools. Keys are numbers: granule j of prompt p is 1000 * p + j, and prompts that
 * share a prefix share its numbers. The rules themselves are tested in group_rule_test.c.
 */
#include "group/internal.h"
#include "tests/pool/util.h"

#define MAX_KEYS	256u

static struct kvmm_groups *make_groups(const struct kvmm_group_attr *group, u32 nr)
{
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group, .nr = nr };
	struct kvmm_groups *groups = NULL;

	cr_assert_eq(kvmm_groups_create(&attr, &groups), 0);
	return groups;
}

/* Full attention of blocks of 4 tokens, and one group more. */
static struct kvmm_groups *make_hybrid(struct kvmm_pool *pool, u32 kind, u32 block_tokens,
				       u32 span)
{
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 4 },
		{ .pool = pool, .kind = kind, .block_tokens = block_tokens, .span = span },
	};

	return make_groups(group, 2);
}

static struct kvmm_groups *groups;

static struct kvmm_pool *begin_hybrid(u32 nr_blocks, u32 kind, u32 block_tokens, u32 span)
{
	struct kvmm_pool *pool = make_cache(nr_blocks, "lru");

	groups = make_hybrid(pool, kind, block_tokens, span);
	return pool;
}

static void end_hybrid(struct kvmm_pool *pool)
{
	kvmm_groups_destroy(groups);
	end_pool(pool);
}

/* A test with @groups in a @pool; what follows @name is for begin_hybrid(). */
#define HYBRID_TEST(name, ...) \
	TEST_WITH(struct kvmm_pool *pool, begin_hybrid(__VA_ARGS__), end_hybrid, group, name)

/* Prompt @a; from granule @at on it is prompt @b. */
static const struct kvmm_prefix *prompt(u32 a, u32 at, u32 b)
{
	static kvmm_key_t keys[4][MAX_KEYS];
	static struct kvmm_prefix prefix[4];
	static u32 n;
	u32 i = n++ % 4;

	for (u32 k = 0; k < MAX_KEYS; k++)
		keys[i][k] = key_of(1000 * (k < at ? a : b) + k);
	prefix[i] = (struct kvmm_prefix){ .keys = keys[i], .nr = MAX_KEYS };
	return &prefix[i];
}

static const struct kvmm_prefix *plain(u32 a)
{
	return prompt(a, MAX_KEYS, a);
}

static int acquire(const struct kvmm_groups *groups, const struct kvmm_prefix *prefix,
		   u32 nr_tokens, struct kvmm_tables **tables)
{
	struct kvmm_groups_acquire_args req = { .prompt = *prefix, .max_hit_tokens = nr_tokens - 1,
						.nr_tokens = nr_tokens };

	return kvmm_groups_acquire(groups, &req, tables);
}

static struct kvmm_tables *start(const struct kvmm_groups *groups,
				 const struct kvmm_prefix *prefix, u32 nr_tokens)
{
	struct kvmm_tables *tables = NULL;

	cr_assert_eq(acquire(groups, prefix, nr_tokens, &tables), 0);
	return tables;
}

/* A whole request in one step; returns how much of it was a hit. */
static u32 serve(const struct kvmm_groups *groups, const struct kvmm_prefix *prefix, u32 nr_tokens)
{
	struct kvmm_tables *tables = start(groups, prefix, nr_tokens);
	u32 hit = tables->hit_tokens;

	cr_assert_eq(kvmm_groups_commit(tables, prefix, nr_tokens), 0);
	kvmm_groups_release(tables);
	return hit;
}

/* One letter a block: '-' none, 'r' registered, 'p' private; checked against ids and references. */
static const char *table_picture(const struct kvmm_tables *tables, u32 group, struct kvmm_pool *pool)
{
	static char line[MAX_KEYS + 1];
	kvmm_ref_t refs[MAX_KEYS];
	u32 ids[MAX_KEYS];
	int nr = kvmm_groups_block_table(tables, group, ids, MAX_KEYS);

	cr_assert(nr >= 0 && nr <= MAX_KEYS);
	cr_assert_eq(kvmm_groups_refs(tables, group, refs, MAX_KEYS), nr);
	for (int i = 0; i < nr; i++) {
		struct kvmm_block_info info = { .state = KVMM_BLOCK_NULL };

		if (ids[i] != KVMM_BLOCK_NONE)
			cr_assert_eq(kvmm_block_get_info(pool, ids[i], &info), 0);
		line[i] = info.state == KVMM_BLOCK_NULL ? '-' :
			  info.state == KVMM_BLOCK_ACTIVE ? 'r' : 'p';
		cr_assert_eq(refs[i].gen != 0, line[i] == 'r');
	}
	line[nr] = '\0';
	return line;
}

#define expect_tables(tables, pool, first, second)				\
	do {									\
		cr_expect_str_eq(table_picture(tables, 0, pool), first);	\
		cr_expect_str_eq(table_picture(tables, 1, pool), second);	\
	} while (0)

static u32 nr_active(struct kvmm_pool *pool)
{
	return stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE];
}

/* ---- what groups are ---- */

POOL_TEST(group, lengths_follow_from_the_groups, make_cache(8, "lru"))
{
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 12 },
		{ .pool = pool, .kind = KVMM_GROUP_LAST, .block_tokens = 18, .span = 1 },
		{ .pool = pool, .kind = KVMM_GROUP_WINDOW, .span = 100 },
	};
	struct kvmm_groups *groups = make_groups(group, 2);

	cr_expect_eq(kvmm_groups_granule(groups), 6);
	cr_expect_eq(kvmm_groups_alignment(groups), 36);
	kvmm_groups_destroy(groups);
	groups = make_groups(group, 3);
	cr_expect_eq(kvmm_groups_granule(groups), 2);	/* the pool's blocks have 16 */
	cr_expect_eq(kvmm_groups_alignment(groups), 144);
	kvmm_groups_destroy(groups);
	kvmm_groups_destroy(NULL);
}

static int try_create(struct kvmm_group_attr *group, u32 nr, u32 first_id)
{
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group, .nr = nr,
					 .first_id = first_id };
	struct kvmm_groups *groups __cleanup(kvmm_groups_destroy) = NULL;
	int err = kvmm_groups_create(&attr, &groups);

	cr_expect_eq(!err, !!groups);
	return err;
}

Test(group, bad_attributes_are_refused)
{
	struct kvmm_pool *pool = make_cache(8, "lru"), *plain_pool = make_pool(8);
	struct kvmm_group_attr good = { .pool = pool, .kind = KVMM_GROUP_WINDOW, .span = 8 };
	struct kvmm_group_attr bad[9], many[KVMM_MAX_GROUPS];
	struct {
		struct kvmm_groups_attr attr;
		u64 more;
	} newer = { .attr = { sizeof(newer), &good, 1, 0 }, .more = 1 };
	struct kvmm_pool_attr closed_attr = { .size = sizeof(closed_attr), .nr_blocks = 8,
					      .policy = "lru", .flags = KVMM_POOL_PREFIX_CLOSED };
	struct kvmm_groups *groups;
	struct kvmm_pool *closed = make_pool_of(&closed_attr);

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	for (u32 i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = good;
	cr_expect_eq(try_create(many, KVMM_MAX_GROUPS, 0), 0);
	cr_expect_eq(try_create(&good, 1, 0), 0);
	cr_expect_eq(try_create(&good, 1, 65535), 0);
	cr_expect_eq(try_create(&good, 1, 65536), -EINVAL);
	cr_expect_eq(try_create(&good, 0, 0), -EINVAL);
	cr_expect_eq(try_create(NULL, 1, 0), -EINVAL);
	cr_expect_eq(try_create(bad, KVMM_MAX_GROUPS + 1, 0), -EINVAL);
	bad[0].pool = NULL;
	bad[1].kind = KVMM_NR_GROUP_KINDS;
	bad[2].flags = ~0u;
	bad[3].span = 0;
	bad[4].kind = KVMM_GROUP_FULL;		/* has a span */
	bad[5].span = KVMM_GROUPS_MAX_TOKENS + 1;
	bad[6].block_tokens = 65537;
	for (u32 i = 0; i < 7; i++)
		cr_expect_eq(try_create(&bad[i], 1, 0), -EINVAL, "%u", i);
	many[0].block_tokens = 65536;
	cr_expect_eq(try_create(many, 1, 0), 0);
	bad[7].block_tokens = 65535;
	bad[8].block_tokens = 65534;
	cr_expect_eq(try_create(&bad[7], 2, 0), -EINVAL);	/* alignment 2^32 */
	good.pool = closed;
	cr_expect_eq(try_create(&good, 1, 0), -EINVAL);	/* would leave gaps there */
	good.kind = KVMM_GROUP_FULL;
	good.span = 0;
	cr_expect_eq(try_create(&good, 1, 0), 0);
	good.pool = plain_pool;
	cr_expect_eq(try_create(&good, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_groups_create(&newer.attr, &groups), -EINVAL);
	cr_expect_eq(kvmm_groups_create(NULL, &groups), -EINVAL);
	end_pool(closed);
	end_pool(plain_pool);
	end_pool(pool);
}

HYBRID_TEST(bad_calls_are_refused, 64, KVMM_GROUP_WINDOW, 8, 9)
{
	struct kvmm_prefix bad = *plain(1), few = *plain(1), other = *plain(1);
	struct kvmm_groups_acquire_args req = { .prompt = bad,
						.nr_tokens = KVMM_GROUPS_MAX_TOKENS + 1 };
	struct kvmm_groups_acquire_args need = { .nr_tokens = KVMM_GROUPS_MAX_TOKENS + 1 };
	struct kvmm_tables *tables;
	u32 id;

	bad.position = 1;
	few.nr = 3;
	other.domain.tenant = 1;
	cr_expect_eq(kvmm_groups_hit_len(groups, &bad, 16), -EINVAL);
	cr_expect_eq(kvmm_groups_hit_len(NULL, plain(1), 16), -EINVAL);
	cr_expect_eq(kvmm_groups_hit_len(groups, NULL, 16), -EINVAL);
	cr_expect_eq(kvmm_groups_match(groups, &bad, 16, &tables), -EINVAL);
	cr_expect_eq(kvmm_groups_acquire(groups, &req, &tables), -EINVAL);
	cr_expect_eq(kvmm_groups_acquire(groups, NULL, &tables), -EINVAL);
	req.nr_tokens = need.nr_tokens = 16;
	req.prompt = need.prompt = bad;
	cr_expect_eq(kvmm_groups_acquire(groups, &req, &tables), -EINVAL);
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -EINVAL);
	need.nr_tokens = KVMM_GROUPS_MAX_TOKENS + 1;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -EINVAL);

	tables = start(groups, plain(1), 16);
	cr_expect_eq(kvmm_groups_block_table(tables, 2, &id, 1), -EINVAL);
	cr_expect_eq(kvmm_groups_block_table(tables, 0, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_groups_block_table(tables, 0, NULL, 0), 4);
	cr_expect_eq(kvmm_groups_refs(tables, 2, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 17), -EINVAL);	/* no memory */
	cr_expect_eq(kvmm_groups_abort(tables), 0);
	cr_expect_eq(kvmm_groups_abort(NULL), -EINVAL);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 13), -EINVAL);	/* no blocks */
	cr_expect_eq(kvmm_groups_reserve(tables, 16, 0), 0);
	cr_expect_eq(kvmm_groups_commit(tables, &few, 16), -EINVAL);
	cr_expect_eq(kvmm_groups_commit(tables, &other, 16), -EINVAL);
	cr_expect_eq(kvmm_groups_trim(tables, 1), -EINVAL);	/* nothing is committed */
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 12), 0);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 11), -EINVAL);
	cr_expect_eq(kvmm_groups_reserve(tables, KVMM_GROUPS_MAX_TOKENS + 1, 0), -EINVAL);
	kvmm_groups_release(tables);
	kvmm_groups_release(NULL);
	cr_expect_eq(nr_active(pool), 0);
}

/* ---- hits ---- */

HYBRID_TEST(a_window_keeps_what_the_next_token_reads, 64, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_tables *tables;

	cr_expect_eq(serve(groups, plain(1), 24), 0);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 100), 24);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 23), 20);

	/* 23 are asked for, 20 hit; token 20 reads 15 to 19: blocks 3 and 4. */
	tables = start(groups, plain(1), 24);
	cr_expect_eq(tables->hit_tokens, 20);
	expect_tables(tables, pool, "rrrrrp", "---rrp");
	cr_expect_eq(nr_active(pool), 7);
	cr_expect_eq(stat_of(pool).hit_blocks, 7);
	cr_expect_eq(stat_of(pool).miss_blocks, 12 + 2);
	cr_expect_eq(kvmm_groups_reserve(tables, 40, 0), 0);
	cr_expect_eq(stat_of(pool).miss_blocks, 12 + 2, "room for more tokens is no miss");
	cr_expect_eq(stat_of(pool).nr_missed[KVMM_MISS_SHORT], 0);
	kvmm_groups_release(tables);
}

static void expect_missed(struct kvmm_pool *pool, u64 never, u64 evicted, u64 tenant, u64 group,
			  u64 too_short)
{
	const u64 want[KVMM_NR_MISSES] = { never, evicted, 0, tenant, group, too_short };
	struct kvmm_pool_stat stat = stat_of(pool);

	cr_expect_arr_eq(stat.nr_missed, want, sizeof(want), "%lu %lu %lu %lu %lu",
			 stat.nr_missed[KVMM_MISS_NEVER], stat.nr_missed[KVMM_MISS_EVICTED],
			 stat.nr_missed[KVMM_MISS_TENANT], stat.nr_missed[KVMM_MISS_GROUP],
			 stat.nr_missed[KVMM_MISS_SHORT]);
}

/* Each group is a look-up, and the one that lacks a block says why. */
Test(group, says_why_a_hit_ended)
{
	struct kvmm_pool *full = make_cache(64, "lru"), *window = make_cache(64, "lru");
	struct kvmm_group_attr group[] = {
		{ .pool = full, .kind = KVMM_GROUP_FULL, .block_tokens = 4 },
		{ .pool = window, .kind = KVMM_GROUP_WINDOW, .block_tokens = 4, .span = 6 },
	};
	struct kvmm_groups *groups = make_groups(group, 2);
	struct kvmm_prefix other = *plain(1), none = { 0 };
	struct kvmm_tables *tables = start(groups, plain(1), 24);
	u32 ids[6];

	expect_missed(full, 1, 0, 0, 0, 0);
	expect_missed(window, 1, 0, 0, 0, 0);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 24), 0);
	cr_expect_eq(kvmm_groups_block_table(tables, 1, ids, 6), 6);
	kvmm_groups_release(tables);

	/* The limit ended that one. */
	cr_expect_eq(serve(groups, plain(1), 24), 20);
	expect_missed(full, 1, 0, 0, 0, 0);
	expect_missed(window, 1, 0, 0, 0, 0);

	cr_expect_eq(kvmm_evict_blocks(window, &ids[4], 1), 1);
	cr_expect_eq(kvmm_groups_match(groups, plain(1), 24, &tables), 16);
	kvmm_groups_release(tables);
	expect_missed(full, 1, 0, 0, 0, 0);
	expect_missed(window, 1, 1, 0, 0, 0);

	other.domain.tenant = 1;
	tables = start(groups, &other, 8);
	kvmm_groups_release(tables);
	expect_missed(full, 1, 0, 1, 0, 0);
	expect_missed(window, 1, 1, 1, 0, 0);
	tables = start(groups, &none, 3);
	kvmm_groups_release(tables);
	expect_missed(full, 1, 0, 1, 0, 1);
	expect_missed(window, 1, 1, 1, 0, 1);

	/* What may still be refused counts when it is admitted. */
	cr_expect_eq(acquire(groups, plain(2), 1000, &tables), -ENOSPC);
	expect_missed(full, 1, 0, 1, 0, 1);
	kvmm_groups_destroy(groups);
	end_pool(full);
	end_pool(window);
}

HYBRID_TEST(counts_the_full_blocks_of_a_prompt_as_hits_or_misses, 64, KVMM_GROUP_LAST, 8, 2)
{
	struct kvmm_groups_acquire_args req = { .prompt = *plain(1), .max_hit_tokens = 64,
						.nr_tokens = 64, .step_tokens = 8 };
	struct kvmm_tables *tables;

	/* Four full blocks of the one, and the last two states; not the block that is begun. */
	req.prompt.nr = 4;
	cr_assert_eq(kvmm_groups_acquire(groups, &req, &tables), 0);
	cr_expect_eq(stat_of(pool).miss_blocks, 4 + 2);
	cr_expect_eq(kvmm_groups_commit(tables, &req.prompt, 8), 0);
	kvmm_groups_release(tables);

	cr_expect_eq(kvmm_groups_match(groups, &req.prompt, 64, &tables), 8);
	cr_expect_eq(stat_of(pool).hit_blocks, 2 + 1);
	cr_expect_eq(stat_of(pool).miss_blocks, 6 + 2 + 1);
	kvmm_groups_release(tables);
}

HYBRID_TEST(a_hit_is_one_in_all_groups, 64, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_tables *tables = start(groups, plain(1), 24);
	u32 ids[6];

	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 24), 0);
	cr_expect_eq(kvmm_groups_block_table(tables, 1, ids, 6), 6);
	kvmm_groups_release(tables);

	/* Without block 4 of the window neither 24 nor 20 can be gone on from, but 16 can. */
	cr_expect_eq(kvmm_evict_blocks(pool, &ids[4], 1), 1);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 24), 16);
	cr_expect_eq(kvmm_evict_blocks(pool, &ids[2], 1), 1);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 24), 8);
}

HYBRID_TEST(prompts_hit_as_far_as_they_agree, 64, KVMM_GROUP_CHUNK, 4, 16)
{
	struct kvmm_tables *tables;

	serve(groups, plain(1), 40);
	tables = start(groups, prompt(1, 6, 2), 40);
	cr_expect_eq(tables->hit_tokens, 24);
	expect_tables(tables, pool, "rrrrrrpppp", "----rrpppp");	/* chunk 16 to 31 */
	kvmm_groups_release(tables);
	tables = start(groups, prompt(1, 8, 2), 36);
	cr_expect_eq(tables->hit_tokens, 32);
	expect_tables(tables, pool, "rrrrrrrrp", "--------p");	/* a new chunk starts */
	kvmm_groups_release(tables);
}

HYBRID_TEST(blocks_of_different_lengths_hit_together, 64, KVMM_GROUP_WINDOW, 6, 8)
{
	struct kvmm_tables *tables;

	cr_expect_eq(kvmm_groups_granule(groups), 2);
	cr_expect_eq(kvmm_groups_alignment(groups), 12);
	serve(groups, plain(1), 46);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 46), 36);
	tables = start(groups, plain(1), 40);
	expect_tables(tables, pool, "rrrrrrrrrp", "----rrp");
	kvmm_groups_release(tables);
	/* They differ from granule 13 on, in the middle of a block of 6 tokens. */
	cr_expect_eq(kvmm_groups_hit_len(groups, prompt(1, 13, 2), 46), 24);
}

POOL_TEST(group, the_block_behind_a_drafters_hit_must_be_there, make_cache(64, "lru"))
{
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 4 },
		{ .pool = pool, .kind = KVMM_GROUP_WINDOW, .block_tokens = 4, .span = 6,
		  .flags = KVMM_GROUP_DROP_LAST },
	};
	struct kvmm_groups *groups __cleanup(kvmm_groups_destroy) = make_groups(group, 2);
	struct kvmm_tables *tables __cleanup(kvmm_groups_release) = NULL;

	serve(groups, plain(1), 24);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 24), 20);
	/* Block 5 is there, and its key is given, but it ends behind what is looked at. */
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 23), 16);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 20), 16);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 4), 0);
	tables = start(groups, plain(1), 25);
	expect_tables(tables, pool, "rrrrrpp", "---rrpp");	/* asked for, but not held */
}

HYBRID_TEST(tenants_layouts_and_groups_do_not_mix, 64, KVMM_GROUP_FULL, 4, 0)
{
	struct kvmm_group_attr one = { .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 4 };
	struct kvmm_groups_attr attr = { sizeof(attr), &one, 1, 7 };
	struct kvmm_prefix mine = *plain(1), theirs = mine, other = mine;
	struct kvmm_groups *apart;
	struct kvmm_tables *tables;
	u32 a[4], b[4];

	mine.domain.tenant = 5;
	theirs.domain.tenant = 6;
	other.domain.tenant = 5;
	other.domain.layout = 1;
	cr_assert_eq(kvmm_groups_create(&attr, &apart), 0);
	serve(groups, &mine, 16);
	cr_expect_eq(kvmm_groups_hit_len(groups, &mine, 16), 16);
	cr_expect_eq(kvmm_groups_hit_len(groups, &theirs, 16), 0);
	cr_expect_eq(kvmm_groups_hit_len(groups, &other, 16), 0);
	cr_expect_eq(kvmm_groups_hit_len(apart, &mine, 16), 0);

	cr_assert_eq(kvmm_groups_match(groups, &mine, 16, &tables), 16);
	kvmm_groups_block_table(tables, 0, a, 4);
	kvmm_groups_block_table(tables, 1, b, 4);
	for (u32 i = 0; i < 4; i++)
		cr_expect_neq(a[i], b[i]);
	kvmm_groups_release(tables);
	kvmm_groups_destroy(apart);
}

HYBRID_TEST(a_match_takes_nothing_else, 64, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_tables *tables;

	serve(groups, plain(1), 24);
	cr_assert_eq(kvmm_groups_match(groups, plain(1), 17, &tables), 16);
	expect_tables(tables, pool, "rrrr", "--rr");
	cr_expect_eq(nr_active(pool), 6);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], 0);
	cr_expect_eq(kvmm_groups_reserve(tables, 18, 0), 0);
	expect_tables(tables, pool, "rrrrp", "--rrp");
	kvmm_groups_release(tables);
	cr_assert_eq(kvmm_groups_match(groups, plain(2), 17, &tables), 0);
	expect_tables(tables, pool, "", "");
	kvmm_groups_release(tables);
}

/* ---- a request, step by step ---- */

HYBRID_TEST(what_is_out_of_the_window_goes_back_and_still_hits, 64, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_tables *tables = start(groups, plain(1), 8);

	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 8), 0);
	for (u32 n = 9; n <= 24; n++) {
		cr_assert_eq(kvmm_groups_reserve(tables, n, 0), 0);
		cr_assert_eq(kvmm_groups_commit(tables, plain(1), n), 0);
		cr_assert_eq(kvmm_groups_trim(tables, n), 0);
	}
	expect_tables(tables, pool, "rrrrrr", "----rr");	/* token 24 reads 19 to 23 */
	cr_expect_eq(nr_active(pool), 8);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 12), 12);
	kvmm_groups_release(tables);
}

HYBRID_TEST(a_state_is_registered_where_its_block_ends, 64, KVMM_GROUP_LAST, 8, 1)
{
	struct kvmm_tables *tables = start(groups, plain(1), 20);

	expect_tables(tables, pool, "ppppp", "--p");	/* states in between are never written */
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 16), -EINVAL);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 20), 0);
	expect_tables(tables, pool, "rrrrr", "--p");
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 20), 0);

	/* The step goes past token 24: what block 2 holds is the state of token 20 for ever. */
	cr_expect_eq(kvmm_groups_reserve(tables, 32, 0), 0);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 32), 0);
	expect_tables(tables, pool, "rrrrrrrr", "--pr");
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 31), 0);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 32), 32);
	cr_expect_eq(kvmm_groups_trim(tables, 32), 0);
	expect_tables(tables, pool, "rrrrrrrr", "---r");
	kvmm_groups_release(tables);

	/* The state of a hit is read; the next one is written to a block of its own. */
	tables = start(groups, prompt(1, 8, 2), 36);
	cr_expect_eq(tables->hit_tokens, 32);
	expect_tables(tables, pool, "rrrrrrrrp", "---rp");
	kvmm_groups_release(tables);
}

/* Drafted tokens 5 to 8, then 7 to 10, 8 to 11, and so on; one or all of them are accepted. */
HYBRID_TEST(a_step_that_is_no_longer_than_a_block_may_end_anywhere, 64, KVMM_GROUP_LAST, 4, 1)
{
	struct kvmm_tables *tables = start(groups, plain(1), 5);
	u32 n = 5;

	cr_assert_eq(kvmm_groups_commit(tables, plain(1), n), 0);
	while (n < 100) {
		cr_assert_eq(kvmm_groups_reserve(tables, n + 4, 0), 0);
		n += n % 3 ? 1 : 4;
		cr_assert_eq(kvmm_groups_commit(tables, plain(1), n), 0, "%u", n);
		cr_assert_eq(kvmm_groups_abort(tables), 0);
		cr_assert_eq(kvmm_groups_trim(tables, n), 0);
	}
	kvmm_groups_release(tables);
}

POOL_TEST(group, only_blocks_that_can_hit_are_registered, make_cache(64, "lru"))
{
	/* Hits end at multiples of 16 tokens; token 16 reads 13 to 15. */
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 16 },
		{ .pool = pool, .kind = KVMM_GROUP_WINDOW, .block_tokens = 2, .span = 4 },
	};
	struct kvmm_groups *groups __cleanup(kvmm_groups_destroy) = make_groups(group, 2);
	struct kvmm_tables *tables = start(groups, plain(1), 36);

	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 36), 0);
	expect_tables(tables, pool, "rrp", "pppppprrpppppprrpp");
	kvmm_groups_release(tables);
	cr_expect_eq(stat_of(pool).nr_inactive, 6);
	cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 36), 32);
}

HYBRID_TEST(abort_gives_back_what_was_reserved, 64, KVMM_GROUP_LAST, 8, 1)
{
	struct kvmm_tables *tables = start(groups, plain(1), 16);

	cr_expect_eq(kvmm_groups_abort(tables), 0);
	expect_tables(tables, pool, "", "");
	cr_expect_eq(kvmm_groups_reserve(tables, 16, 0), 0);
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 13), 0);
	cr_expect_eq(kvmm_groups_reserve(tables, 24, 0), 0);
	cr_expect_eq(kvmm_groups_reserve(tables, 40, 0), 0);
	expect_tables(tables, pool, "rrrppppppp", "-pp-p");
	cr_expect_eq(kvmm_groups_cut(tables, 14, 20), -EINVAL);
	cr_expect_eq(kvmm_groups_cut(tables, 0, 20), 0);
	expect_tables(tables, pool, "rrrpp", "-pp");
	cr_expect_eq(kvmm_groups_abort(tables), 0);
	expect_tables(tables, pool, "rrrp", "-p");
	cr_expect_eq(kvmm_groups_abort(tables), 0);
	expect_tables(tables, pool, "rrrp", "-p");
	kvmm_groups_release(tables);
	cr_expect_eq(stat_of(pool).nr_inactive, 3);
	cr_expect_eq(stat_of(pool).nr_free, 61);
}

HYBRID_TEST(nothing_is_registered_without_keys, 64, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_tables *tables = start(groups, plain(1), 16);

	cr_expect_eq(kvmm_groups_commit(tables, NULL, 16), 0);
	expect_tables(tables, pool, "pppp", "pppp");
	cr_expect_eq(kvmm_groups_commit(tables, plain(1), 16), 0);	/* thought better of it */
	expect_tables(tables, pool, "rrrr", "rrrr");
	kvmm_groups_release(tables);
}

HYBRID_TEST(more_blocks_than_fit_a_batch, 2048, KVMM_GROUP_WINDOW, 4, 700)
{
	struct kvmm_groups_acquire_args need = { .prompt = *plain(1), .max_hit_tokens = 1000,
						 .nr_tokens = 1004 };
	struct kvmm_tables *tables;

	cr_expect_eq(serve(groups, plain(1), 1000), 0);
	tables = start(groups, plain(1), 1001);
	cr_expect_eq(tables->hit_tokens, 1000);
	cr_expect_eq(nr_active(pool), 250 + 175);
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.total, 2);
	kvmm_groups_release(tables);
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.total, 2 + 250 + 175);
	cr_expect_eq(nr_active(pool), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 500);
}

HYBRID_TEST(more_blocks_of_several_keys_than_fit_a_batch, 2048, KVMM_GROUP_FULL, 8, 0)
{
	struct kvmm_tables *tables;

	cr_expect_eq(serve(groups, plain(1), 1000), 0);
	tables = start(groups, plain(1), 1001);
	cr_expect_eq(tables->hit_tokens, 1000);
	cr_expect_eq(nr_active(pool), 250 + 125);
	kvmm_groups_release(tables);
	cr_expect_eq(kvmm_groups_hit_len(groups, prompt(1, 181, 2), 1000), 720);
}

/* ---- null block, order, room ---- */

static struct kvmm_pool *make_null_cache(u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .flags = KVMM_POOL_NULL_BLOCK };

	return make_pool_of(&attr);
}

Test(group, tables_are_padded_with_the_null_block)
{
	struct kvmm_pool *pool = make_null_cache(65), *other = make_cache(64, "lru");
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_WINDOW, .block_tokens = 4, .span = 5 },
		{ .pool = other, .kind = KVMM_GROUP_WINDOW, .block_tokens = 4, .span = 5 },
	};
	struct kvmm_groups *groups = make_groups(group, 2);
	struct kvmm_tables *tables;
	u32 ids[8];

	serve(groups, plain(1), 16);
	tables = start(groups, plain(1), 17);
	cr_expect_eq(kvmm_groups_block_table(tables, 0, ids, 8), 5);
	cr_expect(ids[0] == 0 && ids[1] == 0 && ids[2] == 0);
	cr_expect(ids[3] && ids[4] && ids[3] != ids[4]);
	cr_expect_eq(kvmm_groups_block_table(tables, 1, ids, 8), 5);
	cr_expect(ids[0] == KVMM_BLOCK_NONE && ids[2] == KVMM_BLOCK_NONE);
	cr_expect(ids[3] < 64 && ids[4] < 64);
	cr_expect_eq(kvmm_groups_block_table(tables, 1, ids, 2), 5);
	kvmm_groups_release(tables);
	kvmm_groups_destroy(groups);
	end_pool(pool);
	end_pool(other);
}

HYBRID_TEST(the_tail_of_each_group_is_evicted_first, 16, KVMM_GROUP_FULL, 4, 0)
{
	u32 order[16];

	serve(groups, plain(1), 12);
	cr_assert_eq(eviction_order(pool, order, 16), 6);
	for (u32 i = 0; i < 6; i++)
		cr_expect_eq(order[i], 1000 + 2 - i % 3, "%u: %u", i, order[i]);
}

/* Keys in the order of their eviction, after looking, or not. */
static u32 order_after(const char *policy, bool looks, u32 *order)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(16, policy);
	struct kvmm_groups *groups = make_hybrid(pool, KVMM_GROUP_WINDOW, 4, 6);
	struct kvmm_groups_acquire_args need = { .prompt = *plain(1), .max_hit_tokens = 16,
						 .nr_tokens = 40 };
	struct kvmm_tables *tables = NULL;
	u32 nr;

	serve(groups, plain(1), 16);	/* 4 blocks a group */
	serve(groups, plain(2), 16);
	if (looks) {
		/* 3 and 2 hits, 7 new blocks a group: there is room for those, but for the hits. */
		cr_expect_eq(acquire(groups, prompt(1, 3, 3), 40, &tables), -ENOSPC);
		cr_expect_null(tables);
		cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -ENOSPC);
		cr_expect_eq(kvmm_groups_hit_len(groups, plain(1), 16), 16);
	}
	nr = eviction_order(pool, order, 16);
	kvmm_groups_destroy(groups);
	return nr;
}

Test(group, what_does_not_fit_leaves_no_trace)
{
	for_each_policy(policy) {
		u32 want[16], got[16];

		cr_assert_eq(order_after(policy, false, want), 16);
		cr_assert_eq(order_after(policy, true, got), 16);
		cr_expect_arr_eq(got, want, sizeof(want), "%s", policy);
	}
}

/* Hits that nobody references cannot be evicted for the rest: 4 + 2 of them, and 10 others. */
HYBRID_TEST(idle_hits_are_counted_as_needed, 16, KVMM_GROUP_WINDOW, 4, 6)
{
	struct kvmm_groups_acquire_args need = { .prompt = *plain(1), .max_hit_tokens = 16 };
	struct kvmm_tables *tables, *second;

	serve(groups, plain(1), 16);
	need.nr_tokens = 36;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.hit_tokens, 16);
	cr_expect_eq(need.blocks[0], 9);
	cr_expect_eq(need.blocks[1], 7);
	cr_expect_eq(need.total, 16);
	need.reserve = 1;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -ENOSPC);
	need.reserve = 0;
	need.max_hit_tokens = 15;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -ENOSPC);	/* 17 */
	cr_expect_eq(need.hit_tokens, 12);
	need.max_hit_tokens = 16;
	need.nr_tokens = 10;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.hit_tokens, 8);
	need.nr_tokens = 37;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -ENOSPC);
	cr_expect_eq(acquire(groups, plain(1), 37, &tables), -ENOSPC);
	cr_expect_eq(acquire(groups, plain(1), 36, &tables), 0);

	/* Held by the first request, they cost the second one nothing. */
	cr_expect_eq(kvmm_groups_abort(tables), 0);
	need.nr_tokens = 36;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.total, 10);
	second = start(groups, plain(1), 36);
	need.nr_tokens = 17;
	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), -ENOSPC);
	kvmm_groups_release(second);
	kvmm_groups_release(tables);
}

HYBRID_TEST(in_steps_a_window_needs_no_more_than_it_holds, 2048, KVMM_GROUP_WINDOW, 4, 9)
{
	struct kvmm_groups_acquire_args need = { .prompt = *plain(1), .max_hit_tokens = 1000,
						 .nr_tokens = 1001, .step_tokens = 8 };
	struct kvmm_tables *tables;
	u32 most = 0;

	cr_expect_eq(kvmm_groups_blocks_needed(groups, &need), 0);
	cr_expect_eq(need.blocks[0], 251);
	cr_expect_eq(need.blocks[1], 5);	/* 8 tokens before and 8 of the step, anywhere */
	tables = start(groups, plain(1), 3);
	for (u32 n = 3; n < 1000; n += 8) {
		u32 full = (n + 8 + 3) / 4;

		cr_assert_eq(kvmm_groups_commit(tables, plain(1), n), 0);
		cr_assert_eq(kvmm_groups_trim(tables, n), 0);
		cr_assert_eq(kvmm_groups_reserve(tables, n + 8, 0), 0);
		most = max(most, nr_active(pool) + stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE] -
				 full);
	}
	cr_expect_eq(most, 5);
	kvmm_groups_release(tables);
}

HYBRID_TEST(a_watermark_stays_available, 16, KVMM_GROUP_FULL, 4, 0)
{
	struct kvmm_groups_acquire_args req = { .prompt = *plain(1), .nr_tokens = 28,
						.reserve = 3 };
	struct kvmm_tables *tables;

	cr_expect_eq(kvmm_groups_acquire(groups, &req, &tables), -ENOSPC);
	req.reserve = 2;
	cr_expect_eq(kvmm_groups_acquire(groups, &req, &tables), 0);
	cr_expect_eq(kvmm_groups_reserve(tables, 29, 1), -ENOSPC);
	cr_expect_eq(kvmm_groups_reserve(tables, 28, 10), 0);	/* takes nothing */
	cr_expect_eq(kvmm_groups_reserve(tables, 29, 0), 0);
	cr_expect_eq(kvmm_groups_reserve(tables, 33, 0), -ENOSPC);
	expect_tables(tables, pool, "pppppppp", "pppppppp");
	kvmm_groups_release(tables);
}

/* The first pool has room, the second has not. */
Test(group, several_pools_give_all_or_nothing)
{
	struct kvmm_pool *big = make_cache(64, "lru"), *small = make_cache(4, "lru");
	struct kvmm_group_attr group[] = {
		{ .pool = big, .kind = KVMM_GROUP_FULL, .block_tokens = 4 },
		{ .pool = small, .kind = KVMM_GROUP_WINDOW, .block_tokens = 4, .span = 6 },
		{ .pool = big, .kind = KVMM_GROUP_CHUNK, .block_tokens = 4, .span = 8 },
	};
	struct kvmm_groups *groups = make_groups(group, 3);
	struct kvmm_tables *tables;

	cr_expect_eq(acquire(groups, plain(1), 20, &tables), -ENOSPC);
	cr_expect_eq(stat_of(big).nr_free, 64);
	cr_expect_eq(serve(groups, plain(1), 16), 0);
	cr_expect_eq(stat_of(big).nr_inactive, 8 - 2);	/* of a chunk, its first block only */
	cr_expect_eq(stat_of(small).nr_inactive, 4);
	tables = start(groups, plain(1), 17);
	cr_expect_eq(tables->hit_tokens, 16);
	cr_expect_eq(nr_active(big), 4);
	cr_expect_eq(nr_active(small), 2);
	kvmm_groups_release(tables);
	kvmm_groups_destroy(groups);
	end_pool(big);
	end_pool(small);
}
