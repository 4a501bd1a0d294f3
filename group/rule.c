// SPDX-License-Identifier: Apache-2.0
/*
 * Rules of groups: which blocks are needed to go on at some token, and so how long a hit is.
 *
 * The longest hit in all groups is a fixed point. A group takes the length that the others allow,
 * and if it misses a block in the interval that it needs there, no length does between that and the
 * one with the interval that ends before the block: intervals do not move left as lengths grow, so
 * all lengths between need that very block. So each miss makes the length smaller, no hit is jumped
 * over, and it ends at 0, which needs nothing.
 *
 * Intervals are asked for from the left: the first miss is the one that makes the length smallest.
 */
#include "internal.h"

u32 rule_first(const struct group_rule *rule, u32 tokens)
{
	u32 end = rule_end(rule, tokens);

	kv_assert(rule->block_tokens);
	switch (rule->kind) {
	case KVMM_GROUP_WINDOW:
		return tokens < rule->span ? 0 : (tokens - rule->span + 1) / rule->block_tokens;
	case KVMM_GROUP_CHUNK:
		return (tokens - tokens % rule->span) / rule->block_tokens;
	case KVMM_GROUP_LAST:
		return end - min(end, rule->span);
	default:
		return 0;
	}
}

/* The next hit behind the block is the one that needs least before it. */
bool rule_is_useful(const struct group_rule *rule, u32 align, u32 block)
{
	u32 start = block * rule->block_tokens;
	u32 end = start + rule->block_tokens;
	u32 hit = (end + align - 1) / align * align;

	kv_assert(align % rule->block_tokens == 0);
	return rule_first(rule, hit) <= block || (rule->nr_ahead && block && start % align == 0);
}

/* Most blocks that so many tokens lie in; @aligned: the first one starts a block. */
static u32 nr_touched(u32 tokens, u32 block_tokens, bool aligned)
{
	u32 before = aligned ? 0 : block_tokens - 1;

	return tokens ? (tokens - 1 + before) / block_tokens + 1 : 0;
}

u32 rule_cap(const struct group_rule *rule, u32 step)
{
	u32 bt = rule->block_tokens;

	switch (rule->kind) {
	case KVMM_GROUP_WINDOW:
		return nr_touched(rule->span - 1 + step, bt, false);
	case KVMM_GROUP_CHUNK:
		return nr_touched(rule->span - 1 + step, bt, rule->span % bt == 0);
	case KVMM_GROUP_LAST:
		return rule->span + min(rule->span, rule_end(rule, step));
	default:
		return KV_NONE;
	}
}

/* ---- looking ---- */

/*
 * First block of [@first, @end) that is not cached, or @end. From call to call @first does not
 * grow, and @end is at most the miss. So of the blocks asked for before, [->low, @end) is cached.
 */
static u32 first_miss(struct look *look, u32 first, u32 end)
{
	u32 ask_end = min(look->low, end), run = 0;

	if (first < ask_end)
		run = look->presence->run(look->presence, look->group, first, ask_end - first);
	look->low = min(look->low, first);
	return first + run < ask_end ? first + run : end;
}

static u32 look_longest(struct look *look, u32 align, u32 tokens)
{
	const struct group_rule *rule = look->rule;

	kv_assert(look->rule->nr_ahead <= 1);
	for (tokens -= tokens % align; tokens; tokens -= tokens % align) {
		u32 end = tokens / rule->block_tokens + rule->nr_ahead;
		u32 miss = look->nr;

		if (end <= look->nr)
			miss = first_miss(look, rule_first(rule, tokens), end);
		if (miss == end)
			break;
		tokens = (miss - min(miss, rule->nr_ahead)) * rule->block_tokens;
	}
	return tokens;
}

u32 looks_longest(struct look *look, u32 nr, u32 align, u32 tokens)
{
	u32 before;

	/* A shorter length hits there, too: once is enough. */
	for (u32 i = 0; i < nr; i++) {
		look[i].low = KV_NONE;
		if (look[i].rule->kind == KVMM_GROUP_FULL)
			tokens = look_longest(&look[i], align, tokens);
	}
	do {
		before = tokens;
		for (u32 i = 0; i < nr; i++)
			if (look[i].rule->kind != KVMM_GROUP_FULL)
				tokens = look_longest(&look[i], align, tokens);
	} while (tokens < before);
	return tokens;
}
