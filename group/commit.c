// SPDX-License-Identifier: Apache-2.0
/*
 * Commit: tokens are computed, so blocks that are full get their names and can be hit.
 *
 * First all blocks of all groups are staged, which can be undone; then those of one pool are
 * published in one call, which is all or nothing. A block is registered if a hit can ever need it,
 * and a state if it was computed up to the very end of its block: the engine overwrites a state at
 * each step, so a block that a step went past holds a state that no request asked for.
 */
#include <cache/cache.h>
#include <kv/mem.h>
#include <pool/internal.h>

#include "internal.h"

/**
 * struct batch - blocks to be registered, in ->order of their groups
 * @staged: handles
 * @end: by position in ->order: where the group's end
 * @nr: in all
 */
struct batch {
	kvmm_staged_t *staged;
	u32 end[KVMM_MAX_GROUPS];
	u32 nr;
};

/* ---- which blocks ---- */

static bool is_registrable(const struct kvmm_tables *tables, u32 group, u32 block, u32 nr_tokens)
{
	const struct group_rule *rule = &tables->groups->group[group].rule;
	kvmm_mut_t slot = *table_slot(tables, group, block);

	kv_assert(group < tables->groups->nr);
	if (!slot_is_held(slot) || slot_is_ref(slot))
		return false;
	if (rule->kind == KVMM_GROUP_LAST && (block + 1) * rule->block_tokens != nr_tokens)
		return false;
	return rule_is_useful(rule, tables->groups->align, block);
}

/* The next one of a group from @block on, or where its full ones end. */
static u32 next_registrable(const struct kvmm_tables *tables, u32 group, u32 block, u32 nr_tokens)
{
	u32 end = nr_tokens / tables->groups->group[group].rule.block_tokens;

	kv_assert(group < tables->groups->nr);
	while (block < end && !is_registrable(tables, group, block, nr_tokens))
		block++;
	return block;
}

/* Of each in turn, also when those before have got a name: they are not looked at again. */
#define for_each_registrable(tables, g, nr_tokens, block)					\
	for (u32 block = next_registrable(tables, g, (tables)->table[g].done, nr_tokens);	\
	     block < (nr_tokens) / (tables)->groups->group[g].rule.block_tokens;		\
	     block = next_registrable(tables, g, block + 1, nr_tokens))

/* ---- staging ---- */

/* Back to private: those of the groups from @i on in ->order, as far as they are staged. */
static void unstage(struct kvmm_tables *tables, struct batch *batch, u32 i, u32 nr_tokens)
{
	const struct kvmm_groups *groups = tables->groups;
	u32 from = i ? batch->end[i - 1] : 0;

	kv_assert(from <= batch->nr);
	for (; i < groups->nr; i++)
		for_each_registrable(tables, groups->order[i], nr_tokens, block)
			if (from < batch->end[i])
				kvmm_unstage(group_in_order(groups, i)->pool,
					     &batch->staged[from++], 1,
					     table_slot(tables, groups->order[i], block));
}

static int stage_group(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 group,
		       u32 nr_tokens, struct batch *batch)
{
	const struct group *g = &tables->groups->group[group];
	u32 block = next_registrable(tables, group, tables->table[group].done, nr_tokens);
	u32 end = nr_tokens / g->rule.block_tokens;

	kv_assert(group < tables->groups->nr);
	while (block < end) {
		kvmm_mut_t *slot = table_slot(tables, group, block);
		struct kvmm_prefix prefix;
		struct group_keys keys;
		u32 nr = 1;	/* blocks with successive names */
		int err;

		while (nr < GROUP_BATCH && block + nr < end &&
		       is_registrable(tables, group, block + nr, nr_tokens))
			nr++;
		prefix = group_prefix(g, prompt, block, nr, &keys);
		err = stage_uncounted(g->pool, &prefix, slot, batch->staged + batch->nr);
		if (err)
			return err;
		batch->nr += nr;
		block = next_registrable(tables, group, block + nr, nr_tokens);
	}
	return 0;
}

static int stage_all(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 nr_tokens,
		     struct batch *batch)
{
	const struct kvmm_groups *groups = tables->groups;
	int err = 0;

	for (u32 i = 0; i < groups->nr; i++) {
		if (!err)
			err = stage_group(tables, prompt, groups->order[i], nr_tokens, batch);
		batch->end[i] = batch->nr;
	}
	if (err)
		unstage(tables, batch, 0, nr_tokens);
	return err;
}

/* ---- publishing ---- */

static int publish_all(struct kvmm_tables *tables, struct batch *batch, u32 nr_tokens)
{
	const struct kvmm_groups *groups = tables->groups;
	u32 from = 0, end;

	for (u32 i = 0; i < groups->nr; i = end) {
		struct kvmm_publish_args req = { .staged = batch->staged + from,
						 .refs = (kvmm_ref_t *)(batch->staged + from) };
		int err;

		end = groups_end_of_pool(groups, i);
		req.nr = batch->end[end - 1] - from;
		err = req.nr ? kvmm_publish(group_in_order(groups, i)->pool, &req) : 0;
		if (err) {
			unstage(tables, batch, i, nr_tokens);
			return err;
		}
		stage_count(group_in_order(groups, i)->pool, req.nr);
		for (u32 k = i; k < end; k++)
			for_each_registrable(tables, groups->order[k], nr_tokens, block)
				*table_slot(tables, groups->order[k], block) =
					slot_of_ref(((kvmm_ref_t *)batch->staged)[from++]);
	}
	return 0;
}

/* ---- commit ---- */

/* Was there a block for each token, or one for the state? */
static bool has_room(const struct kvmm_tables *tables, u32 group, u32 nr_tokens)
{
	const struct group_rule *rule = &tables->groups->group[group].rule;
	u32 end = rule_end(rule, nr_tokens);

	kv_assert(group < tables->groups->nr);
	if (end > tables->table[group].nr)
		return false;
	return rule->kind != KVMM_GROUP_LAST || nr_tokens == tables->committed ||
	       slot_is_held(*table_slot(tables, group, end - 1));
}

static bool commit_is_bad(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
			  u32 nr_tokens)
{
	const struct kvmm_groups *groups = tables->groups;

	if (nr_tokens < tables->committed || nr_tokens > tables->max_tokens)
		return true;
	for (u32 i = 0; i < groups->nr; i++)
		if (!has_room(tables, i, nr_tokens))
			return true;
	if (!prompt)
		return false;
	if (prompt_check(groups, prompt) || prompt->domain.tenant != tables->domain.tenant ||
	    prompt->domain.layout != tables->domain.layout)
		return true;
	for (u32 i = 0; i < groups->nr; i++)
		if (nr_tokens / groups->group[i].rule.block_tokens * groups->group[i].stride >
		    prompt->nr)
			return true;
	return false;
}

static int register_blocks(struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
			   u32 nr_tokens)
{
	kvmm_staged_t few[GROUP_BATCH];	/* decode steps fill few blocks: those need no memory */
	struct batch batch = { .staged = few };
	kvmm_staged_t *memory = NULL;
	u32 nr = 0;
	int err;

	kv_assert(nr_tokens >= tables->committed && nr_tokens <= tables->max_tokens);
	for (u32 i = 0; i < tables->groups->nr; i++)
		for_each_registrable(tables, i, nr_tokens, block)
			nr++;
	if (!nr)
		return 0;
	if (nr > GROUP_BATCH) {
		batch.staged = memory = kv_alloc_array(nr, sizeof(*memory));
		if (!memory)
			return -ENOMEM;
	}
	err = stage_all(tables, prompt, nr_tokens, &batch);
	if (!err)
		err = publish_all(tables, &batch, nr_tokens);
	kv_free(memory);
	return err;
}

int kvmm_groups_commit(struct kvmm_tables *tables, const struct kvmm_prefix *prompt,
		       uint32_t nr_tokens)
{
	int err;

	if (kv_inherited(tables))
		return -ECHILD;
	if (!tables || commit_is_bad(tables, prompt, nr_tokens))
		return -EINVAL;
	if (prompt) {
		err = register_blocks(tables, prompt, nr_tokens);
		if (err)
			return err;
		for (u32 i = 0; i < tables->groups->nr; i++)
			tables->table[i].done =
				nr_tokens / tables->groups->group[i].rule.block_tokens;
	}
	tables->committed = nr_tokens;
	return 0;
}
