// SPDX-License-Identifier: Apache-2.0
/*
 * Rules of groups against the plain meaning of what a layer reads, token by token.
 *
 * The oracle knows, for each group and each length, the set of blocks that are needed, and tries
 * all lengths. All patterns of cached blocks are tried where that is feasible; beyond, random ones
 * (KVMM_SEED chooses them). Whatever is looked at, no block may be asked for twice.
 */
#include "group/internal.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#define MAX_BLOCKS	64u
#define MAX_TOKENS	400u

/* ---- what a rule means ---- */

/* Does the layer read token @t, or the state behind it, to go on at token @n? */
static bool reads(const struct group_rule *rule, u32 n, u32 t)
{
	switch (rule->kind) {
	case KVMM_GROUP_FULL:
		return t < n;
	case KVMM_GROUP_WINDOW:
		return t < n && n - t < rule->span;
	case KVMM_GROUP_CHUNK:
		return t < n && t / rule->span == n / rule->span;
	default:	/* states of the last @span blocks that have begun */
		return t < n && (n - 1) / rule->block_tokens - t / rule->block_tokens < rule->span;
	}
}

static bool is_needed(const struct group_rule *rule, u32 n, u32 block)
{
	for (u32 t = block * rule->block_tokens; t < (block + 1) * rule->block_tokens; t++)
		if (reads(rule, n, t))
			return true;
	return false;
}

static u64 needed_by_hit(const struct group_rule *rule, u32 n)
{
	u64 blocks = 0;

	for (u32 i = 0; i < MAX_BLOCKS && n; i++)
		if (is_needed(rule, n, i) ||
		    (rule->nr_ahead && n / rule->block_tokens == i))
			blocks |= BIT64(i);
	return blocks;
}

/* ---- a set of groups, and what it needs for each length ---- */

struct set {
	struct group_rule rule[3];
	u32 nr;
	u32 nr_blocks[3];
	u32 align;
	u32 max_tokens;			/* those of the shortest group */
	u64 needed[3][MAX_TOKENS];	/* by length / align */
	/* While it is being looked at. */
	struct presence presence;
	u64 cached[3];
	u64 asked[3];
};

static u32 lcm(u32 a, u32 b)
{
	u32 n = a;

	while (n % b)
		n += a;
	return n;
}

static u32 run(const struct presence *presence, u32 group, u32 first, u32 nr)
{
	struct set *set = container_of(presence, struct set, presence);
	u32 i;

	cr_assert(nr >= 1 && first + nr <= set->nr_blocks[group]);
	for (i = 0; i < nr; i++) {
		u64 block = BIT64(first + i);

		cr_assert(!(set->asked[group] & block), "asked twice");
		set->asked[group] |= block;
		if (!(set->cached[group] & block))
			break;
	}
	return i;
}

/* @tokens: length of the prompt, in all groups. */
static void set_up(struct set *set, u32 tokens)
{
	set->presence.run = run;
	set->align = 1;
	set->max_tokens = tokens;
	for (u32 g = 0; g < set->nr; g++) {
		set->align = lcm(set->align, set->rule[g].block_tokens);
		set->nr_blocks[g] = tokens / set->rule[g].block_tokens;
		cr_assert_leq(set->nr_blocks[g], MAX_BLOCKS);
	}
	for (u32 g = 0; g < set->nr; g++)
		for (u32 n = 0; n <= tokens; n += set->align)
			set->needed[g][n / set->align] = needed_by_hit(&set->rule[g], n);
}

static u32 want(const struct set *set, u32 max_tokens)
{
	for (u32 n = max_tokens - max_tokens % set->align; n; n -= set->align) {
		bool hit = true;

		for (u32 g = 0; g < set->nr; g++)
			hit &= !(set->needed[g][n / set->align] & ~set->cached[g]) &&
			       n / set->rule[g].block_tokens <= set->nr_blocks[g];
		if (hit)
			return n;
	}
	return 0;
}

static u32 got(struct set *set, u32 max_tokens)
{
	struct look look[3];

	for (u32 g = 0; g < set->nr; g++) {
		look[g] = (struct look){ .rule = &set->rule[g], .presence = &set->presence,
					 .group = g, .nr = set->nr_blocks[g] };
		set->asked[g] = 0;
	}
	return looks_longest(look, set->nr, set->align, max_tokens);
}

static void check(struct set *set, u32 max_tokens)
{
	u32 a = got(set, max_tokens), b = want(set, max_tokens);

	if (a == b)
		return;
	for (u32 g = 0; g < set->nr; g++)
		fprintf(stderr, "kind %u block %u span %u ahead %u nr %u: %#lx\n",
			set->rule[g].kind, set->rule[g].block_tokens, set->rule[g].span,
			set->rule[g].nr_ahead, set->nr_blocks[g], (unsigned long)set->cached[g]);
	cr_assert_eq(a, b, "at most %u: %u, not %u", max_tokens, a, b);
}

/* All patterns, the first group's in the lowest bits. @step: of the limit. */
static void check_all_patterns(struct set *set, u32 step)
{
	u32 nr_bits = 0;

	for (u32 g = 0; g < set->nr; g++)
		nr_bits += set->nr_blocks[g];
	cr_assert_leq(nr_bits, 14);
	for (u64 all = 0; all < BIT64(nr_bits); all++) {
		u64 left = all;

		for (u32 g = 0; g < set->nr; g++) {
			set->cached[g] = left & (BIT64(set->nr_blocks[g]) - 1);
			left >>= set->nr_blocks[g];
		}
		for (u32 n = set->max_tokens + 1; n + step > step; n -= min(n, step))
			check(set, n);
	}
}

/* The @n-th rule of a block's length: all kinds, spans below and above a block, with and without. */
static bool nth_rule(struct group_rule *rule, u32 block_tokens, u32 n)
{
	static const u32 kind_spans[][2] = {
		{ KVMM_GROUP_FULL, 0 },
		{ KVMM_GROUP_WINDOW, 1 }, { KVMM_GROUP_WINDOW, 2 }, { KVMM_GROUP_WINDOW, 3 },
		{ KVMM_GROUP_WINDOW, 4 }, { KVMM_GROUP_WINDOW, 6 }, { KVMM_GROUP_WINDOW, 9 },
		{ KVMM_GROUP_WINDOW, 100 },
		{ KVMM_GROUP_CHUNK, 1 }, { KVMM_GROUP_CHUNK, 2 }, { KVMM_GROUP_CHUNK, 4 },
		{ KVMM_GROUP_CHUNK, 5 }, { KVMM_GROUP_CHUNK, 8 }, { KVMM_GROUP_CHUNK, 100 },
		{ KVMM_GROUP_LAST, 1 }, { KVMM_GROUP_LAST, 2 }, { KVMM_GROUP_LAST, 5 },
	};

	if (n >= 2 * ARRAY_SIZE(kind_spans))
		return false;
	*rule = (struct group_rule){ .kind = kind_spans[n / 2][0], .block_tokens = block_tokens,
				     .span = kind_spans[n / 2][1], .nr_ahead = n & 1 };
	return true;
}

/* ---- tests ---- */

/* And the block that is being filled. */
static bool is_kept(const struct group_rule *rule, u32 n, u32 block)
{
	return is_needed(rule, n, block) ||
	       (n % rule->block_tokens && n / rule->block_tokens == block);
}

Test(group_rule, needed_blocks_are_what_layers_read)
{
	struct group_rule rule;

	for (u32 bt = 1; bt <= 4; bt++)
		for (u32 n = 0; nth_rule(&rule, bt, n); n++)
			for (u32 tokens = 0; tokens <= 60; tokens++)
				for (u32 i = 0; i < 64; i++)
					cr_assert_eq(i >= rule_first(&rule, tokens) &&
						     i < rule_end(&rule, tokens),
						     is_kept(&rule, tokens, i),
						     "kind %u span %u of %u: block %u at %u",
						     rule.kind, rule.span, bt, i, tokens);
}

Test(group_rule, one_group_all_patterns_of_12_blocks)
{
	static struct set set;

	set.nr = 1;
	for (u32 bt = 1; bt <= 3; bt++)
		for (u32 n = 0; nth_rule(&set.rule[0], bt, n); n++) {
			set_up(&set, 12 * bt);
			check_all_patterns(&set, bt);
		}
}

Test(group_rule, two_groups_all_patterns)
{
	static const u32 lengths[][3] = {	/* block, block, tokens */
		{ 1, 1, 5 }, { 1, 2, 7 }, { 2, 1, 6 }, { 2, 3, 12 }, { 3, 1, 7 }, { 3, 2, 12 },
	};
	static struct set set;

	set.nr = 2;
	for (u32 l = 0; l < ARRAY_SIZE(lengths); l++)
		for (u32 a = 0; nth_rule(&set.rule[0], lengths[l][0], a); a++)
			for (u32 b = 0; nth_rule(&set.rule[1], lengths[l][1], b); b++) {
				set_up(&set, lengths[l][2]);
				check_all_patterns(&set, set.max_tokens + 1);
			}
}

static void seed_random(void)
{
	const char *given = getenv("KVMM_SEED");

	any_state = given ? strtoull(given, NULL, 0) : 20260731;
	printf("KVMM_SEED=%llu\n", (unsigned long long)any_state);
	any_state |= 1;
}

/* Rows of cached blocks of any length, since single bits would seldom fill a window. */
static u64 any_pattern(u32 nr)
{
	u64 bits = 0;

	for (u32 at = 0; at < nr;) {
		u32 run = min(1 + any(1 + any(nr)), nr - at);

		if (any(4))
			bits |= kv_mask64(at, at + run);
		at += run + any(2);
	}
	return bits;
}

static void any_rule(struct group_rule *rule)
{
	rule->kind = any(KVMM_NR_GROUP_KINDS);
	rule->block_tokens = 1 + any(3);
	rule->span = rule->kind == KVMM_GROUP_FULL ? 0 : 1 + any(1 + any(40));
	rule->nr_ahead = any(4) == 0;
}

Test(group_rule, three_groups_random_patterns)
{
	static struct set set;
	u32 nr_hits = 0;

	seed_random();
	for (u32 round = 0; round < test_length(NULL, 20000); round++) {
		set.nr = 1 + any(3);
		for (u32 g = 0; g < set.nr; g++)
			any_rule(&set.rule[g]);
		set_up(&set, 1 + any(60));
		for (u32 i = 0; i < 20; i++) {
			for (u32 g = 0; g < set.nr; g++)
				set.cached[g] = any_pattern(set.nr_blocks[g]);
			check(&set, any(set.max_tokens + 5));
			nr_hits += want(&set, set.max_tokens) > 0;
		}
	}
	cr_expect_gt(nr_hits, test_length(NULL, 50000));
}

/* Keys may be missing at the end of one group only. */
Test(group_rule, groups_with_unequal_numbers_of_keys)
{
	static struct set set;

	seed_random();
	for (u32 round = 0; round < test_length(NULL, 20000); round++) {
		set.nr = 2;
		any_rule(&set.rule[0]);
		any_rule(&set.rule[1]);
		set_up(&set, 40);
		for (u32 g = 0; g < 2; g++) {
			set.nr_blocks[g] -= any(set.nr_blocks[g] + 1) / 2;
			set.cached[g] = any_pattern(set.nr_blocks[g]);
		}
		check(&set, 40);
	}
}

Test(group_rule, a_block_is_useful_if_some_hit_needs_it)
{
	seed_random();
	for (u32 round = 0; round < 2000; round++) {
		struct group_rule rule;
		u32 align;

		any_rule(&rule);
		align = rule.block_tokens * (1 + any(6));
		for (u32 i = 0; i < 40; i++) {
			bool useful = false;

			for (u32 n = align; n <= 200 && !useful; n += align)
				useful = needed_by_hit(&rule, n) >> i & 1;
			cr_assert_eq(rule_is_useful(&rule, align, i), useful,
				     "kind %u span %u of %u ahead %u: block %u at %u", rule.kind,
				     rule.span, rule.block_tokens, rule.nr_ahead, i, align);
		}
	}
}

/* Blocks held while tokens [@from, @to) are computed. */
static u32 nr_held(const struct group_rule *rule, u32 from, u32 to)
{
	u32 nr = 0;

	for (u32 i = rule_first(rule, from); i < rule_end(rule, to); i++)
		nr += rule->kind != KVMM_GROUP_LAST || i < rule_end(rule, from) ||
		      i >= rule_first(rule, to);
	return nr;
}

Test(group_rule, no_request_holds_more_than_the_cap)
{
	struct group_rule rule;

	for (u32 bt = 1; bt <= 4; bt++)
		for (u32 n = 0; nth_rule(&rule, bt, n); n++)
			for (u32 step = 1; step <= 20; step++) {
				u32 cap = rule_cap(&rule, step), most = 0;

				for (u32 from = 0; from < 140; from++)
					for (u32 to = from; to <= from + step; to++)
						most = max(most, nr_held(&rule, from, to));
				cr_assert_leq(most, cap);
				/* And somewhere it holds as many, or, of odd chunks, nearly. */
				if (rule.kind == KVMM_GROUP_CHUNK && rule.span % bt)
					most++;
				if (rule.kind != KVMM_GROUP_FULL)
					cr_assert_geq(most, cap, "kind %u span %u of %u step %u",
						      rule.kind, rule.span, bt, step);
			}
}
