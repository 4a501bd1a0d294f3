// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of prefixes: from node to node. No lock, nothing written, no memory, no recursion.
 *
 * Everything that a list has ever led to stays readable for the length of a read section, with its
 * own links as they were (see radix.h). So going down and sideways is plain. Going up is not: the
 * parent that a walk came by may have gone, its name may have been registered anew, and the new
 * node stands at another place in its own list. Nodes that come to a family which has had another
 * one before are numbered, by one counter. A walk notes the counter when it begins; it came by the
 * last life of the parent that is not younger than that, and each life leads to the one before.
 *
 *	walker                          writers
 *	start = births                  ...
 *	descends through P (life 1)     P goes: family.last = P | DEAD
 *	visits P's children             P' comes: P'.last_life = P, P'.birth = ++births > start
 *	climbs: family.last = P',       ...
 *	  too young, so P, and on to
 *	  P's next sibling
 */
#include <kv/err.h>
#include <kv/registry_radix.h>

#include "radix.h"

/* ---- steps ---- */

/* The life of the parent by which a walk came that began at @start. */
static u32 climb(const struct kvmm_registry *reg, u32 index, u64 start)
{
	const struct record *family = record_at(reg, node_at(reg, index)->up);
	u32 parent = smp_load_acquire(&family->last) & ~DEAD;

	kv_assert_reading();
	kv_assert(parent);
	while (node_at(reg, parent)->birth > start)
		parent = node_at(reg, parent)->last_life;
	return parent;
}

/* ---- questions about one node ---- */

int kvmm_node_get_info_sized(struct kvmm_registry *reg, kvmm_node_t handle,
			     struct kvmm_node_info *info,
			     size_t size)
{
	struct kvmm_node_info now;
	const struct node *node;

	if (kv_inherited(reg))
		return -ECHILD;
	if (kv_size_is_bad(info, size))
		return -EINVAL;
	kv_rcu_read_lock();
	node = node_of(reg, handle);
	if (node) {
		/* Pair with family_enter(), family_adopt(), family_of(): families are visible. */
		u32 down = smp_load_acquire(&node->down), up = smp_load_acquire(&node->up);
		u32 last = up ? smp_load_acquire(&record_at(reg, up)->last) : DEAD;

		now.name = radix_name_of(&node->name);
		now.tiers = READ_ONCE(node->name.mask);
		now.children = down ? READ_ONCE(record_at(reg, down)->nr) : 0;
		now.parent = last & DEAD || !last ? (kvmm_node_t){ 0, 0 } : handle_of(reg, last);
		kv_give(info, size, &now, sizeof(now));
	}
	kv_rcu_read_unlock();
	return node ? 0 : radix_refuse(reg, handle);
}

/* ---- subtrees ---- */

struct walk {
	const struct kvmm_registry *reg;
	u64 start;
	u32 index;		/* 0: the end */
	u32 depth;		/* below the root */
};

/* Down if there is anything, else to the next sibling, of the next one above that has any. */
static void walk_on(struct walk *walk)
{
	/* Pair with family_of() and list_enter(): family and node are visible. */
	u32 down = smp_load_acquire(&node_at(walk->reg, walk->index)->down);
	u32 child = down ? smp_load_acquire(&record_at(walk->reg, down)->first) : 0;

	kv_assert_reading();
	if (child) {
		walk->index = child;
		walk->depth++;
		return;
	}
	for (; walk->depth; walk->depth--) {
		/* Pairs with list_enter() and list_leave(): the node is visible. */
		u32 next = smp_load_acquire(&node_at(walk->reg, walk->index)->next[SIBLINGS]);

		if (next) {
			walk->index = next;
			return;
		}
		walk->index = climb(walk->reg, walk->index, walk->start);
	}
	walk->index = 0;
}

int kvmm_node_walk(struct kvmm_registry *reg, kvmm_node_t handle, kvmm_walk_fn *fn, void *ctx)
{
	struct walk walk = { .reg = reg };
	int ret = 0;
	bool there;

	if (!fn)
		return -EINVAL;
	kv_rcu_read_lock();
	there = node_of(reg, handle);
	if (there) {
		walk.index = handle.index;
		/* Pairs with family_adopt(): of all numbered so far, the life before has gone. */
		walk.start = smp_load_acquire(&reg->births);
	}
	for (; walk.index && !ret; walk_on(&walk)) {
		kvmm_node_t at = handle_of(reg, walk.index);

		if (at.gen)
			ret = fn(ctx, at, walk.depth);
	}
	kv_rcu_read_unlock();
	return there ? ret : radix_refuse(reg, handle);
}

/* ---- positions ---- */

int kv_radix_at(struct kvmm_registry *reg, u32 position, kvmm_node_t *nodes, u32 max)
{
	u32 record, nr = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || max > INT32_MAX || (!nodes && max))
		return -EINVAL;
	kv_rcu_read_lock();
	record = radix_find_position(reg, NULL, position_hash(reg, position), position);
	/* Pair with list_enter() and list_leave(): the node is visible. */
	for (u32 i = record ? smp_load_acquire(&record_at(reg, record)->first) : 0; i && nr < max;
	     i = smp_load_acquire(&node_at(reg, i)->next[PEERS])) {
		nodes[nr] = handle_of(reg, i);
		nr += nodes[nr].gen != 0;
	}
	kv_rcu_read_unlock();
	return nr;
}
