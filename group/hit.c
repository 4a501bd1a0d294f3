// SPDX-License-Identifier: Apache-2.0
/*
 * Hits over pools: how long one is, and references on exactly the blocks that it needs.
 *
 * Looking takes no reference, so that blocks which turn out not to be needed keep their place in
 * the order of eviction. A block that was seen may be gone by the time the references are taken:
 * each is taken by name, and one that misses means looking again. The order hears of the references
 * when it is sure that they stay.
 */
#include <string.h>

#include <cache/cache.h>
#include <kv/err.h>
#include <pool/internal.h>

#include "internal.h"

/* After so many the hit gets shorter each time, so that it ends. */
#define NR_TRIES	4u

/* ---- looking ---- */

/* A prompt, seen by the rules; @err is the errno of a pool that cannot answer. */
struct prompt_presence {
	struct presence presence;
	const struct kvmm_groups *groups;
	const struct kvmm_prefix *prompt;
	int *err;
};

/* A block's keys are apart if there are several: then a batch at a time is copied. */
static int run_of(const struct group *group, const struct kvmm_prefix *prompt, u32 first, u32 nr)
{
	u32 batch = group->stride > 1 ? GROUP_BATCH : nr, run = 0;
	struct group_keys keys;

	while (run < nr) {
		struct kvmm_prefix prefix = group_prefix(group, prompt, first + run,
							 min(batch, nr - run), &keys);
		int len = kvmm_prefix_len(group->pool, &prefix);

		if (len < 0)
			return len;
		run += len;
		if (len < (int)prefix.nr)
			break;
	}
	return run;
}

static u32 run_in_pool(const struct presence *presence, u32 group, u32 first, u32 nr)
{
	const struct prompt_presence *p = container_of(presence, const struct prompt_presence,
						       presence);
	int ret = run_of(&p->groups->group[group], p->prompt, first, nr);

	kv_assert(group < p->groups->nr);
	if (likely(ret >= 0))
		return ret;
	*p->err = ret;
	return 0;
}

/* Length of the hit, or -EUCLEAN and so on, if a pool says that. */
static int groups_look(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt,
		       u32 max_tokens)
{
	int err = 0;
	struct prompt_presence p = { .presence.run = run_in_pool, .groups = groups,
				   .prompt = prompt, .err = &err };
	struct look look[KVMM_MAX_GROUPS];
	u32 tokens = min(max_tokens, prompt->nr * groups->granule);

	for (u32 i = 0; i < groups->nr; i++) {
		const struct group *group = &groups->group[i];

		look[i] = (struct look){ .rule = &group->rule, .presence = &p.presence, .group = i,
					 .nr = tokens / group->rule.block_tokens };
	}
	tokens = looks_longest(look, groups->nr, groups->align, tokens);
	return err ? : (int)tokens;
}

/* ---- taking references ---- */

/* Blocks [@from, @to) of a group, all of them: 0, -EAGAIN one is gone, or the pool's errno. */
static int get_group(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 group,
		     u32 from, u32 to)
{
	const struct group *g = &tables->groups->group[group];
	u32 batch = g->stride > 1 ? GROUP_BATCH : to;
	struct table *table = &tables->table[group];

	kv_assert(group < tables->groups->nr);
	table->low = table->nr = from;
	while (table->nr < to) {
		kvmm_mut_t *slot = table_slot(tables, group, table->nr);
		u32 nr = min(to - table->nr, batch);
		struct group_keys keys;
		struct kvmm_prefix prefix = group_prefix(g, prompt, table->nr, nr, &keys);
		int idle = quiet_get(g->pool, &prefix, (kvmm_ref_t *)slot);

		if (idle < 0) {
			memset(slot, 0, nr * sizeof(*slot));
			return idle;
		}
		for (u32 i = 0; i < nr; i++)
			slot[i].index |= SLOT_REF;
		table->nr_idle += idle;
		table->nr += nr;
	}
	table->done = table->nr;
	return 0;
}

/* Calls @fn for all hits, a batch at a time. @was_idle: some of the group's were. */
static void for_each_hit(struct kvmm_tables *tables,
			 void (*fn)(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr,
				    bool was_idle))
{
	for (u32 g = 0; g < tables->groups->nr; g++) {
		struct table *table = &tables->table[g];
		kvmm_ref_t refs[GROUP_BATCH];
		u32 nr;

		for (u32 i = table->low; i < table->nr; i += nr) {
			nr = min(table->nr - i, GROUP_BATCH);
			for (u32 k = 0; k < nr; k++)
				refs[k] = ref_of_slot(*table_slot(tables, g, i + k));
			fn(tables->groups->group[g].pool, refs, nr, table->nr_idle);
		}
		table->nr_idle = 0;
	}
}

void hit_keep(struct kvmm_tables *tables)
{
	kv_assert(tables->hit_tokens <= tables->max_tokens);
	for_each_hit(tables, quiet_keep);
}

static void put_batch(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, bool was_idle)
{
	quiet_put(pool, refs, nr);
}

void hit_put(struct kvmm_tables *tables)
{
	kv_assert(tables->hit_tokens <= tables->max_tokens);
	for_each_hit(tables, put_batch);
	tables_clear(tables);
}

/* All that a hit of @tokens needs, or nothing. */
static int get_all(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 tokens)
{
	const struct kvmm_groups *groups = tables->groups;
	int err = 0;

	for (u32 i = 0; i < groups->nr && !err; i++) {
		const struct group_rule *rule = &groups->group[i].rule;

		err = get_group(tables, prompt, i, rule_first(rule, tokens),
				rule_end(rule, tokens));
	}
	if (err)
		hit_put(tables);
	else
		tables->hit_tokens = tables->committed = tokens;
	return err;
}

int hit_get(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 max_tokens)
{
	kv_assert(!tables->committed);
	for (u32 tries = 1;; tries++) {
		int tokens = groups_look(tables->groups, prompt, max_tokens);
		int err = tokens < 0 ? tokens : get_all(tables, prompt, tokens);

		if (err != -EAGAIN)
			return err;
		if (tries >= NR_TRIES)
			max_tokens = tokens / 2;
	}
}

/* ---- counting ---- */

/* One step of the alignment more would have been a hit, but for a block of this group? */
static void count_reason(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
			 u32 group, u32 tokens)
{
	const struct group *g = &tables->groups->group[group];
	u32 next = tables->hit_tokens + tables->groups->align, end, at;
	struct kvmm_prefix block;
	struct group_keys keys;
	struct kv_query query;
	int run;

	kv_assert(group < tables->groups->nr);
	end = next / g->rule.block_tokens + g->rule.nr_ahead;
	if (next > tokens || end > prompt->nr / g->stride)
		return;
	at = rule_first(&g->rule, next);
	run = run_of(g, prompt, at, end - at);
	if (run < 0 || run == (int)(end - at))
		return;
	block = group_prefix(g, prompt, at + run, 1, &keys);
	query = (struct kv_query){ block.keys, 1, block.domain };
	g->pool->map->ops->missed(g->pool->map, &query, 0);
}

void hit_count(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 max_tokens,
	       u32 nr_tokens)
{
	const struct kvmm_groups *groups = tables->groups;
	u32 tokens = min((u64)prompt->nr * groups->granule, (u64)max_tokens);

	kv_assert(tables->hit_tokens <= tables->max_tokens);
	/* Blocks in the hit, and those that would have been among the prompt's first @nr blocks. */
	for (u32 i = 0; i < groups->nr; i++) {
		const struct group *g = &groups->group[i];
		u32 nr = min(prompt->nr / g->stride, nr_tokens / g->rule.block_tokens);
		u32 first = rule_first(&g->rule, tables->hit_tokens);
		u32 at = rule_end(&g->rule, tables->hit_tokens), from = at;
		struct kv_query query = { .domain = group_domain(g, tables->domain) };

		if (g->rule.kind == KVMM_GROUP_LAST)
			from = max(at, nr - min(nr, g->rule.span));
		query.nr = at - first + max(nr, from) - from;
		kv_lookup_end(g->pool, &query, 0, at - first, KV_LOOKUP_UNTOLD);
		count_reason(tables, prompt, i, tokens);
	}
}

int kvmm_groups_match(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt,
		      uint32_t max_tokens, struct kvmm_tables **tables)
{
	struct kvmm_tables *made;
	int err = prompt_check(groups, prompt);

	if (kv_inherited(groups))
		return -ECHILD;
	if (err)
		return err;
	if (!tables)
		return groups_look(groups, prompt, max_tokens);
	made = tables_create(groups, prompt, min(max_tokens, prompt->nr * groups->granule));
	if (!made)
		return -ENOMEM;
	err = hit_get(made, prompt, max_tokens);
	if (err) {
		kvmm_groups_release(made);
		return err;
	}
	quiet_seen(groups, prompt, max_tokens);
	hit_keep(made);
	hit_count(made, prompt, max_tokens, UINT32_MAX);
	*tables = made;
	return made->hit_tokens;
}
