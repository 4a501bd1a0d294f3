// SPDX-License-Identifier: Apache-2.0
/*
 * What is left of a hit when blocks are taken from a pool that is full: a window, chunk or state
 * needs the last blocks only, so what lies before them has to go first.
 *
 * A prompt of 40 blocks of 16 tokens, cached, in a pool of 100; blocks that are held leave 40 free.
 */
#include "cache/cache.h"
#include "group/internal.h"
#include "tests/pool/util.h"

#define NR_BLOCKS	100u
#define NR_FREE		40u
#define PROMPT		40u
#define TOKENS		(PROMPT * 16)

/* How the pool orders the blocks. */
enum order_of { BY_RULE, LEAF_FIRST, AS_PUT };

struct load {
	u32 kind;
	u32 span;
	bool with_full;
	bool in_steps;		/* of a block, trimmed after each; else one step for all */
	u32 nr_less;		/* tokens of the hit asked for, less than all */
};

static kvmm_key_t keys[PROMPT];

static struct kvmm_prefix prompt(void)
{
	for (u32 i = 0; i < PROMPT; i++)
		keys[i] = key_of(i);
	return (struct kvmm_prefix){ .keys = keys, .nr = PROMPT };
}

static struct kvmm_groups *make_groups(struct kvmm_pool *pool, const struct load *load)
{
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = load->kind, .span = load->span },
		{ .pool = pool, .kind = KVMM_GROUP_FULL },
	};
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group,
					 .nr = 1 + load->with_full };
	struct kvmm_groups *groups = NULL;

	cr_assert_eq(kvmm_groups_create(&attr, &groups), 0);
	return groups;
}

static void serve(const struct kvmm_groups *groups, u32 step)
{
	struct kvmm_groups_acquire_args req = { .prompt = prompt(), .max_hit_tokens = TOKENS,
						.nr_tokens = TOKENS, .step_tokens = step };
	struct kvmm_tables *tables;
	u32 done;

	cr_assert_eq(kvmm_groups_acquire(groups, &req, &tables), 0);
	for (done = req.hit_tokens; done < TOKENS;) {
		done = min(done + step, TOKENS);
		cr_assert_eq(kvmm_groups_reserve(tables, done, 0), 0);
		cr_assert_eq(kvmm_groups_commit(tables, &req.prompt, done), 0);
		if (done < TOKENS)
			cr_assert_eq(kvmm_groups_trim(tables, done), 0);
	}
	kvmm_groups_release(tables);
}

/* Tokens that still hit when @nr_taken blocks were taken. */
static u32 hit_after(const struct load *load, enum order_of order, u32 nr_taken)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS, .policy = "lru" };
	struct kvmm_prefix asked = prompt();
	kvmm_mut_t held[NR_BLOCKS];
	struct kvmm_groups *groups;
	struct kvmm_pool *pool;
	u32 nr_cached;
	int hit;

	attr.flags = order == AS_PUT ? KVMM_POOL_ORDER_AS_PUT : 0;
	pool = make_pool_of(&attr);
	groups = make_groups(pool, load);
	if (order == LEAF_FIRST)
		group_set_as_put(pool, 0, false);
	serve(groups, load->in_steps ? 16 : TOKENS);
	nr_cached = stat_of(pool).nr_state[KVMM_BLOCK_INACTIVE];
	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS - nr_cached - NR_FREE * !load->with_full, held), 0);
	cr_assert_eq(kvmm_alloc(pool, nr_taken, held), 0);
	hit = kvmm_groups_hit_len(groups, &asked, TOKENS - load->nr_less);
	cr_assert_geq(hit, 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	kvmm_groups_destroy(groups);
	kvmm_pool_destroy(pool);
	return hit;
}

static const struct load window = { .kind = KVMM_GROUP_WINDOW, .span = 64 };

Test(group_order, a_window_keeps_its_hit_where_leaf_first_loses_it)
{
	cr_expect_eq(hit_after(&window, BY_RULE, 50), 640);
	cr_expect_eq(hit_after(&window, BY_RULE, 60), 640);
	cr_expect_eq(hit_after(&window, LEAF_FIRST, 50), 480);
	cr_expect_eq(hit_after(&window, LEAF_FIRST, 60), 320);
}

/* @nr_before go one by one, and no hit is shorter for it; then those that are needed. */
static void keeps_until(const struct load *load, u32 nr_before, u32 nr_needed)
{
	u32 most = (load->with_full ? 0 : NR_FREE) + nr_before;

	for (u32 nr = 0; nr <= most; nr += 5)
		cr_expect_eq(hit_after(load, BY_RULE, nr), 640, "%u taken", nr);
	cr_expect_eq(hit_after(load, BY_RULE, most), 640);
	cr_expect_lt(hit_after(load, BY_RULE, most + 1), 640);
	for (u32 nr = 0; nr <= most + nr_needed; nr += 3)
		cr_expect_geq(hit_after(load, BY_RULE, nr), hit_after(load, AS_PUT, nr),
			      "%u taken", nr);
}

Test(group_order, what_lies_before_a_window_goes_first)
{
	struct load steps = window;

	steps.in_steps = true;
	keeps_until(&window, 36, 4);
	keeps_until(&steps, 36, 4);
}

/* The same prompt again: its last token is computed anew, so it hits a block less. */
Test(group_order, before_a_window_the_first_block_goes_first)
{
	struct load again = window;

	again.nr_less = 1;
	for (u32 nr = NR_FREE; nr <= NR_FREE + 35; nr += 5)
		cr_expect_eq(hit_after(&again, BY_RULE, nr), 624, "%u taken", nr);
	cr_expect_lt(hit_after(&again, BY_RULE, NR_FREE + 36), 624);
}

/* Where a chunk starts nothing before it is needed, nor computed: 576 tokens hit without a block. */
Test(group_order, a_chunk_alone_has_no_other_blocks_than_its_own)
{
	struct load chunk = { .kind = KVMM_GROUP_CHUNK, .span = 96 };

	keeps_until(&chunk, 0, 4);
	chunk.in_steps = true;
	keeps_until(&chunk, 0, 4);
	cr_expect_eq(hit_after(&chunk, BY_RULE, 44), 576);
}

Test(group_order, states_before_the_last_go_first)
{
	struct load state = { .kind = KVMM_GROUP_LAST, .span = 1, .in_steps = true };

	keeps_until(&state, 39, 1);
	state.span = 3;
	keeps_until(&state, 37, 3);
}

/* The last block of each of six chunks is needed by no hit, and not cached. */
Test(group_order, beside_full_attention_what_no_hit_needs_goes_first)
{
	struct load both = { .kind = KVMM_GROUP_WINDOW, .span = 64, .with_full = true };

	keeps_until(&both, 36, 4);
	both.in_steps = true;
	keeps_until(&both, 36, 4);
	both = (struct load){ .kind = KVMM_GROUP_CHUNK, .span = 96, .with_full = true };
	keeps_until(&both, 30, 4);
	both.in_steps = true;
	keeps_until(&both, 30, 4);
	both = (struct load){ .kind = KVMM_GROUP_LAST, .span = 1, .with_full = true, .in_steps = true };
	keeps_until(&both, 39, 1);
}

/* ---- which groups ---- */

/* Blocks of a domain's group, put back first to last. */
static void expect_group_order(struct kvmm_pool *pool, u32 group, const char *want)
{
	struct kvmm_prefix prefix = prompt();
	kvmm_mut_t muts[4];
	kvmm_ref_t refs[4];

	prefix.nr = 4;
	prefix.domain.group = group;
	cr_assert_eq(kvmm_alloc(pool, 4, muts), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, muts, refs), 0);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_put(pool, refs[i]), 0);
	expect_order(pool, want);
}

static struct kvmm_groups *groups_from(struct kvmm_pool *pool, u32 kind, u32 flags, u32 first_id)
{
	struct kvmm_group_attr group[] = {
		{ .pool = pool, .kind = KVMM_GROUP_FULL },
		{ .pool = pool, .kind = kind, .span = kind == KVMM_GROUP_FULL ? 0 : 64,
		  .flags = flags },
	};
	struct kvmm_groups_attr attr = { sizeof(attr), group, 2, first_id };
	struct kvmm_groups *groups = NULL;

	cr_assert_eq(kvmm_groups_create(&attr, &groups), 0);
	return groups;
}

/* Also those that a tier or another engine brings: the domain says it, not the call. */
POOL_TEST(group_order, groups_of_one_pool_choose_by_their_rule, make_cache(8, "lru"))
{
	struct kvmm_groups *groups = groups_from(pool, KVMM_GROUP_WINDOW, 0, 62);

	expect_group_order(pool, 0, "3 2 1 0 ");
	expect_group_order(pool, 62, "3 2 1 0 ");
	expect_group_order(pool, 63, "0 1 2 3 ");
	expect_group_order(pool, 64, "3 2 1 0 ");
	kvmm_groups_destroy(groups);
	groups = groups_from(pool, KVMM_GROUP_CHUNK, 0, 63);	/* another model's ids */
	expect_group_order(pool, 63, "3 2 1 0 ");
	expect_group_order(pool, 64, "0 1 2 3 ");
	kvmm_groups_destroy(groups);
}

POOL_TEST(group_order, a_group_of_full_attention_may_go_as_put, make_cache(8, "lru"))
{
	struct kvmm_groups *groups = groups_from(pool, KVMM_GROUP_FULL, KVMM_GROUP_ORDER_AS_PUT, 0);

	expect_group_order(pool, 0, "3 2 1 0 ");
	expect_group_order(pool, 1, "0 1 2 3 ");
	kvmm_groups_destroy(groups);
}

Test(group_order, a_closed_prefix_needs_leaf_first)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .flags = KVMM_POOL_PREFIX_CLOSED };
	struct kvmm_pool *pool = make_pool_of(&attr);
	struct kvmm_group_attr group = { .pool = pool, .kind = KVMM_GROUP_FULL,
					 .flags = KVMM_GROUP_ORDER_AS_PUT };
	struct kvmm_groups_attr groups_attr = { sizeof(groups_attr), &group, 1, 0 };
	struct kvmm_groups *groups;

	cr_expect_eq(kvmm_groups_create(&groups_attr, &groups), -EINVAL);
	end_pool(pool);
}
