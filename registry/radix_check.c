// SPDX-License-Identifier: Apache-2.0
/*
 * The check of the registry of prefixes: all that is kept twice is recomputed; no thread writes.
 *
 * Each slot that was ever used is in the table, in a grave, or free. The slots in the table are
 * found by going through all chains; lists are followed from their records, and each node must be
 * met in just the lists that it should be in.
 */
#include <kv/bits.h>
#include <kv/err.h>

#include "radix.h"

/* Where a slot has been met. */
#define IN_TABLE	BIT(0)
#define IS_FREE		BIT(1)
#define IN_FAMILY	BIT(2)
#define IN_POSITION	BIT(3)

struct check {
	struct kvmm_registry *reg;
	u8 *seen[NR_SLOT_KINDS];	/* by slot */
	u32 nr[NR_SLOT_KINDS];		/* in the table */
	u32 nr_positions;
	u32 nr_names[KVMM_MAX_TIERS];
};

/* Set; true if it was not and the slot exists. */
static bool see(struct check *check, enum slot_kind kind, u32 index, u8 what)
{
	if (!index || index > check->reg->slab[kind].top || check->seen[kind][index] & what)
		return false;
	check->seen[kind][index] |= what;
	return true;
}

static bool has_seen(const struct check *check, enum slot_kind kind, u32 index, u8 what)
{
	return index && index <= check->reg->slab[kind].top && check->seen[kind][index] & what;
}

/* ---- places of slots ---- */

static bool see_free(struct check *check, enum slot_kind kind)
{
	const struct slab *slab = &check->reg->slab[kind];

	if (slab->top > slab->capacity || slab->nr_free > slab->top)
		return false;
	for (u32 i = 0; i < slab->nr_free; i++)
		if (!see(check, kind, radix_slab_free_at(slab, i), IS_FREE))
			return false;
	return true;
}

static u64 hash_of(struct kvmm_registry *reg, enum slot_kind kind, u32 index)
{
	const struct named *name = named_at(reg, kind, index);

	if (kind == RECORD && name->mask == POSITION)
		return position_hash(reg, name->position);
	return named_hash(reg, name);
}

static bool see_chain(struct check *check, enum slot_kind kind, u32 chain)
{
	struct kvmm_registry *reg = check->reg;
	const struct table *table = reg->table;
	u32 index = table->chains[chain].first[kind];

	kv_assert_reading();
	for (; index; index = named_at(reg, kind, index)->hash_next[table->parity]) {
		if (!see(check, kind, index, IN_TABLE) ||
		    chains_of(table, hash_of(reg, kind, index)) != &table->chains[chain])
			return false;
		check->nr[kind]++;
	}
	return true;
}

static bool see_table(struct check *check)
{
	for (u32 i = 0; i < NR_STRIPES; i++)
		if (check->reg->stripe[i].table != check->reg->table || check->reg->stripe[i].next)
			return false;
	for (u32 chain = 0; chain < check->reg->table->nr_chains; chain++)
		if (!see_chain(check, NODE, chain) || !see_chain(check, RECORD, chain))
			return false;
	return true;
}

/* ---- records ---- */

static bool list_is_sound(struct check *check, u32 index)
{
	struct record *record = record_at(check->reg, index);
	enum list list = list_of(record);
	u32 nr = 0, prev = 0, at = record->first;

	kv_assert_reading();
	kv_assert(has_seen(check, RECORD, index, IN_TABLE));
	for (; at; nr++) {
		const struct node *node;

		if (!has_seen(check, NODE, at, IN_TABLE) ||
		    !see(check, NODE, at, list == SIBLINGS ? IN_FAMILY : IN_POSITION))
			return false;
		node = node_at(check->reg, at);
		if (node->prev[list] != prev ||
		    (list == SIBLINGS ? node->up != index :
					node->name.position != record->name.position))
			return false;
		prev = at;
		at = node->next[list];
	}
	return nr && nr == record->nr;
}

/* ->last and ->down agree with the table's entry for the name. */
static bool parent_is_sound(struct check *check, u32 index)
{
	struct kvmm_registry *reg = check->reg;
	const struct record *family = record_at(reg, index);
	const struct named *name = &family->name;
	u32 node = radix_find_node(reg, NULL, family->hash, name->key, name->domain,
				   name->position);

	if (!node)
		return !family->last || (family->last & DEAD &&
					 (family->last & ~DEAD) <= reg->slab[NODE].top);
	return family->last == node && node_at(reg, node)->down == index;
}

static bool record_is_sound(struct check *check, u32 index)
{
	struct record *record = record_at(check->reg, index);

	if (record->hash != hash_of(check->reg, RECORD, index) || !list_is_sound(check, index))
		return false;
	if (record->name.mask == FAMILY)
		return parent_is_sound(check, index);
	check->nr_positions++;
	return record->name.mask == POSITION && !record->name.domain && !record->last;
}

/* ---- nodes ---- */

static bool tiers_are_sound(struct check *check, const struct node *node)
{
	u32 tiers = 0;

	for (u32 tier = 0; tier < check->reg->nr_tiers; tier++) {
		if (!node->count[tier])
			continue;
		tiers |= BIT(tier);
		check->nr_names[tier]++;
	}
	return tiers == node->name.mask && (tiers || node->holds);
}

/* The family it belongs to has the name before, the one of its children its own. */
static bool family_above_is_sound(const struct check *check, const struct node *node)
{
	const struct record *up;

	if (!has_seen(check, RECORD, node->up, IN_TABLE))
		return false;
	up = record_at(check->reg, node->up);
	return up->name.mask == FAMILY && up->name.domain == node->name.domain &&
	       up->name.position + 1 == node->name.position;
}

static bool families_are_sound(const struct check *check, u32 index)
{
	const struct node *node = node_at(check->reg, index);

	if (!node->up != !has_seen(check, NODE, index, IN_FAMILY) ||
	    (node->up ? !family_above_is_sound(check, node) :
			node->next[SIBLINGS] || node->prev[SIBLINGS]))
		return false;
	return !node->down || (has_seen(check, RECORD, node->down, IN_TABLE) &&
			       record_at(check->reg, node->down)->last == index);
}

static bool node_is_sound(struct check *check, u32 index)
{
	const struct node *node = node_at(check->reg, index);
	u32 nr_keeps;

	kv_assert(has_seen(check, NODE, index, IN_TABLE));
	return node->gen & 1 && node->gen > check->reg->gen_base && !node->marks &&
	       has_seen(check, NODE, index, IN_POSITION) &&
	       radix_attach_is_sound(check->reg, node, &nr_keeps) && nr_keeps <= node->holds &&
	       tiers_are_sound(check, node) && families_are_sound(check, index);
}

static bool slots_are_sound(struct check *check)
{
	struct kvmm_registry *reg = check->reg;

	for (u32 i = 1; i <= reg->slab[RECORD].top; i++)
		if (has_seen(check, RECORD, i, IN_TABLE) && !record_is_sound(check, i))
			return false;
	for (u32 i = 1; i <= reg->slab[NODE].top; i++) {
		if (has_seen(check, NODE, i, IN_TABLE) && !node_is_sound(check, i))
			return false;
		if (!has_seen(check, NODE, i, IN_TABLE) && node_at(reg, i)->gen & 1)
			return false;
	}
	return true;
}

/* ---- sums ---- */

static bool stripes_add_up(const struct check *check)
{
	u32 nr_nodes = 0, nr_positions = 0, nr_names[KVMM_MAX_TIERS] = { 0 };

	for (u32 i = 0; i < NR_STRIPES; i++) {
		const struct stripe *stripe = &check->reg->stripe[i];

		nr_nodes += stripe->nr_nodes;
		nr_positions += stripe->nr_positions;
		for (u32 tier = 0; tier < KVMM_MAX_TIERS; tier++)
			nr_names[tier] += stripe->nr_names[tier];
	}
	return nr_nodes == check->nr[NODE] && nr_positions == check->nr_positions &&
	       !memcmp(nr_names, check->nr_names, sizeof(nr_names));
}

/* No writer is under way, so nothing is reserved; a slot neither found nor free is in a grave. */
static bool slots_add_up(const struct check *check)
{
	const struct kvmm_registry *reg = check->reg;

	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++) {
		const struct slab *slab = &reg->slab[kind];

		for (u32 i = 1; i <= slab->top; i++)
			if (check->seen[kind][i] & IN_TABLE && check->seen[kind][i] & IS_FREE)
				return false;
		if (check->nr[kind] + slab->nr_free > slab->top)
			return false;
	}
	return check->nr[NODE] + reg->slab[NODE].nr_free + reg->in_graves <= reg->slab[NODE].top;
}

int kv_radix_check(struct kvmm_registry *reg)
{
	struct check check = { .reg = reg };
	int err = -ENOMEM;

	if (kv_inherited(reg))
		return -ECHILD;
	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
		check.seen[kind] = kv_alloc_array((size_t)reg->slab[kind].top + 1, 1);
	if (check.seen[NODE] && check.seen[RECORD]) {
		kv_rcu_read_lock();
		err = see_free(&check, NODE) && see_free(&check, RECORD) && see_table(&check) &&
		      slots_are_sound(&check) && stripes_add_up(&check) && slots_add_up(&check) ?
		      0 : -EUCLEAN;
		kv_rcu_read_unlock();
	}
	kv_free(check.seen[NODE]);
	kv_free(check.seen[RECORD]);
	return err;
}
