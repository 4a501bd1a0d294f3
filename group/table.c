// SPDX-License-Identifier: Apache-2.0
/*
 * Tables: the blocks of one request in all groups, by position.
 *
 * All slots are one piece of memory, so that growing either happens or does not. A slot is the
 * handle itself, and one bit of it says of which kind: a table of a million tokens is 512 KiB a
 * group of 16-token blocks.
 */
#include <string.h>

#include <cache/cache.h>
#include <kv/mem.h>
#include <pool/internal.h>

#include "internal.h"

/* ---- memory ---- */

static int tables_resize(struct kvmm_tables *tables, u32 nr_tokens)
{
	u32 base[KVMM_MAX_GROUPS];
	kvmm_mut_t *slot;
	u64 nr = 0;

	kv_assert(nr_tokens >= tables->max_tokens);
	for (u32 i = 0; i < tables->groups->nr; i++) {
		base[i] = nr;
		nr += rule_end(&tables->groups->group[i].rule, nr_tokens);
	}
	if (nr > UINT32_MAX)
		return -ENOMEM;
	slot = kv_alloc_array(nr, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (u32 i = 0; i < tables->groups->nr; i++) {
		if (tables->table[i].nr)
			memcpy(slot + base[i], table_slot(tables, i, 0),
			       tables->table[i].nr * sizeof(*slot));
		tables->table[i].base = base[i];
	}
	kv_free(tables->slot);
	tables->slot = slot;
	tables->max_tokens = nr_tokens;
	return 0;
}

int tables_grow(struct kvmm_tables *tables, u32 nr_tokens)
{
	u32 twice = min(2 * tables->max_tokens, KVMM_GROUPS_MAX_TOKENS);

	if (likely(nr_tokens <= tables->max_tokens))
		return 0;
	return tables_resize(tables, max(nr_tokens, twice));
}

struct kvmm_tables *tables_create(const struct kvmm_groups *groups,
				  const struct kvmm_prefix *prompt, u32 nr_tokens)
{
	struct kvmm_tables *tables = kv_alloc(sizeof(*tables));

	if (!tables)
		return NULL;
	tables->groups = groups;
	tables->domain = prompt->domain;
	if (tables_resize(tables, max(nr_tokens, 1u))) {
		kv_free(tables);
		return NULL;
	}
	return tables;
}

/* ---- giving back ---- */

/* Up to GROUP_BATCH blocks; handles of one kind keep their order, or go first to last. */
static int drop_batch(struct kvmm_tables *tables, u32 group, u32 from, u32 to, bool first_first)
{
	struct kvmm_pool *pool = tables->groups->group[group].pool;
	kvmm_ref_t refs[GROUP_BATCH];
	kvmm_mut_t muts[GROUP_BATCH];
	u32 nr_refs = 0, nr_muts = 0;
	int err = 0, ret = 0;

	kv_assert(group < tables->groups->nr);
	for (u32 i = 0; i < to - from; i++) {
		kvmm_mut_t *slot = table_slot(tables, group, first_first ? to - 1 - i : from + i);

		if (slot_is_held(*slot) && slot_is_ref(*slot))
			refs[nr_refs++] = ref_of_slot(*slot);
		else if (slot_is_held(*slot))
			muts[nr_muts++] = *slot;
		*slot = (kvmm_mut_t){ 0, 0 };
	}
	if (nr_muts)
		err = kvmm_free(pool, muts, nr_muts);
	if (nr_refs)
		ret = kvmm_put_many(pool, refs, nr_refs);
	return err ? : ret;
}

int table_drop(struct kvmm_tables *tables, u32 group, u32 from, u32 to)
{
	int err = 0;

	kv_assert(group < tables->groups->nr);
	while (to > from) {
		u32 start = to - min(to - from, GROUP_BATCH);
		int ret = drop_batch(tables, group, start, to, false);

		err = err ? : ret;
		to = start;
	}
	return err;
}

/* What lies before a window is the more useful the later it is: the first one goes first. */
static int drop_head(struct kvmm_tables *tables, u32 group, u32 from, u32 to)
{
	int err = 0;

	kv_assert(group < tables->groups->nr);
	while (from < to) {
		u32 end = from + min(to - from, GROUP_BATCH);
		int ret = drop_batch(tables, group, from, end, true);

		err = err ? : ret;
		from = end;
	}
	return err;
}

void tables_clear(struct kvmm_tables *tables)
{
	for (u32 i = 0; i < tables->groups->nr; i++) {
		struct table *table = &tables->table[i];

		memset(table_slot(tables, i, 0), 0, table->nr * sizeof(kvmm_mut_t));
		*table = (struct table){ .base = table->base };
	}
}

void kvmm_groups_release(struct kvmm_tables *tables)
{
	if (!tables || kv_inherited(tables))
		return;
	/* A pool that is poisoned says so to its next caller. */
	kvmm_groups_trim(tables, tables->committed);
	for (u32 i = 0; i < tables->groups->nr; i++)
		table_drop(tables, i, tables->table[i].low, tables->table[i].nr);
	kv_free(tables->slot);
	kv_free(tables);
}

int kvmm_groups_cut(struct kvmm_tables *tables, uint32_t from, uint32_t to)
{
	int err = 0;

	if (kv_inherited(tables))
		return -ECHILD;
	if (!tables || from > tables->committed)
		return -EINVAL;
	to = min(max(to, tables->committed), KVMM_GROUPS_MAX_TOKENS);
	for (u32 i = 0; i < tables->groups->nr; i++) {
		const struct group_rule *rule = &tables->groups->group[i].rule;
		struct table *table = &tables->table[i];
		u32 first = max(rule_first(rule, from), table->low);
		u32 end = min(rule_end(rule, to), table->nr);
		int head = drop_head(tables, i, table->low, first);
		int tail = table_drop(tables, i, end, table->nr);

		err = err ? : head ? : tail;
		table->low = first;
		table->nr = end;
	}
	return err;
}

/* ---- asking ---- */

static int write_ids(const struct kvmm_tables *tables, u32 group, u32 nr, u32 *ids)
{
	struct kvmm_pool *pool = tables->groups->group[group].pool;
	int err = cache_begin(pool);

	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++) {
		kvmm_mut_t slot = *table_slot(tables, group, i);
		struct kv_handle handle = { slot.index & ~SLOT_REF, slot.gen };

		ids[i] = tables->groups->group[group].pad;
		if (!slot_is_held(slot))
			continue;
		err = entry_check(pool, handle, slot_is_ref(slot) ? KV_ENTRY_REGISTERED :
								    KV_ENTRY_PRIVATE, true);
		if (!err)
			err = lost_check(pool, &handle, 1);
		if (!err)
			ids[i] = entry_block_told(entry_at(pool, handle.index));
	}
	cache_end(pool);
	return err;
}

int kvmm_groups_blocks(const struct kvmm_tables *tables, uint32_t group, uint32_t *ids,
		       kvmm_ref_t *refs, uint32_t max)
{
	u32 nr;

	if (kv_inherited(tables))
		return -ECHILD;
	if (!tables || group >= tables->groups->nr || (max && !ids && !refs))
		return -EINVAL;
	nr = min(max, tables->table[group].nr);
	for (u32 i = 0; i < nr && refs; i++) {
		kvmm_mut_t slot = *table_slot(tables, group, i);

		refs[i] = slot_is_ref(slot) ? ref_of_slot(slot) : (kvmm_ref_t){ 0, 0 };
	}
	if (ids) {
		int err = write_ids(tables, group, nr, ids);

		if (err)
			return err;
	}
	return tables->table[group].nr;
}

/* ---- checking ---- */

static bool table_is_bad(const struct kvmm_tables *tables, u32 group)
{
	const struct group_rule *rule = &tables->groups->group[group].rule;
	const struct table *table = &tables->table[group];
	u32 end = rule_end(rule, tables->max_tokens);

	kv_assert(group < tables->groups->nr);
	if (table->low > table->nr || table->nr > end ||
	    table->nr < rule_end(rule, tables->committed) ||
	    table->done > tables->committed / rule->block_tokens)
		return true;
	for (u32 i = 0; i < end; i++) {
		kvmm_mut_t slot = *table_slot(tables, group, i);
		bool is_inside = i >= table->low && i < table->nr;

		if (!slot_is_held(slot) ? slot.index : !is_inside)
			return true;
		if (i < table->done && slot_is_held(slot) && !slot_is_ref(slot) &&
		    rule->kind != KVMM_GROUP_LAST &&
		    rule_is_useful(rule, tables->groups->align, i))
			return true;
	}
	return false;
}

int tables_check(const struct kvmm_tables *tables)
{
	for (u32 i = 0; i < tables->groups->nr; i++)
		if (table_is_bad(tables, i))
			return -EUCLEAN;
	return 0;
}
