// SPDX-License-Identifier: Apache-2.0
/*
 * How nodes of the registry of prefixes come and go: names, families, positions.
 *
 * All of this runs under the locks of three stripes: of the node, of its family, of its position.
 * The family of a node's children has the node's own name, hence its stripe.
 */
#include <kv/env.h>
#include <kv/err.h>

#include "radix.h"

/* The parent is known, of the same domain and one position before. */
static void item_set_parent(struct item *item, const kvmm_key_t *parent, u64 seed)
{
	item->has_parent = true;
	kv_key_words(parent, item->parent);
	item->parent_hash = hash_words(item->parent, item->position - 1, seed);
}

static void item_hash(const struct kvmm_registry *reg, struct item *item, u64 seed)
{
	item->hash = hash_words(item->key, item->position, seed);
	item->position_hash = position_hash(reg, item->position);
	item->parent_hash = item->hash;
	item->has_parent = false;
}

/* Name @i of a prefix; the item before it is that of the name before it, unless @i is @first. */
static void item_of_key(const struct kvmm_registry *reg, const struct kvmm_prefix *prefix, u64 seed,
			u32 i, u32 first, struct item *item)
{
	item->domain = kv_domain_word(prefix->domain);
	item->position = prefix->position + i;
	kv_key_words(&prefix->keys[i], item->key);
	item_hash(reg, item, seed);
	if (i > first) {
		item->has_parent = true;
		item->parent[0] = item[-1].key[0];
		item->parent[1] = item[-1].key[1];
		item->parent_hash = item[-1].hash;
	} else if (i) {
		item_set_parent(item, &prefix->keys[i - 1], seed);
	} else if (prefix->parent && item->position) {
		item_set_parent(item, prefix->parent, seed);
	}
}

static void item_of_name(const struct kvmm_registry *reg, const struct kv_radix_name *name,
			 struct item *item)
{
	u64 seed;

	item->domain = kv_domain_word(name->domain);
	item->position = name->position;
	kv_key_words(&name->key, item->key);
	seed = domain_seed(reg->seed, item->domain);
	item_hash(reg, item, seed);
	if (name->has_parent && item->position)
		item_set_parent(item, &name->parent, seed);
}

void radix_items(const struct kvmm_registry *reg, const struct batch *batch, u32 first, u32 nr,
		 struct item *items)
{
	const struct kvmm_prefix *prefix = batch->prefix;
	u64 seed = prefix ? domain_seed(reg->seed, kv_domain_word(prefix->domain)) : 0;

	for (u32 i = 0; i < nr; i++) {
		if (prefix)
			item_of_key(reg, prefix, seed, first + i, first, &items[i]);
		else
			item_of_name(reg, &batch->names[first + i], &items[i]);
	}
}

int radix_batch_of(const struct kvmm_prefix *prefix, struct batch *batch)
{
	if (!prefix || (!prefix->keys && prefix->nr) || prefix->nr > INT32_MAX ||
	    prefix->position > UINT32_MAX - prefix->nr)
		return -EINVAL;
	*batch = (struct batch){ .prefix = prefix, .nr = prefix->nr };
	return 0;
}

struct kvmm_name radix_name_of(const struct named *named)
{
	struct kvmm_name name = {
		.domain = { named->domain, named->domain >> 32, named->domain >> 48 },
		.position = named->position,
	};

	memcpy(&name.key, named->key, sizeof(name.key));
	return name;
}

/* ---- records ---- */

static u32 supply_take(struct supply *supply, enum slot_kind kind)
{
	kv_assert(supply->nr[kind]);
	return supply->slot[kind][--supply->nr[kind]];
}

static u32 record_add(struct kvmm_registry *reg, const struct record *fresh, struct supply *supply)
{
	u32 index = supply_take(supply, RECORD);

	*record_at(reg, index) = *fresh;
	radix_chain_add(reg, RECORD, fresh->hash, index);
	return index;
}

/* No look-up finds it any more; a reader that is in it already goes on. */
static void record_del(struct kvmm_registry *reg, u32 index, struct dead *dead)
{
	struct record *record = record_at(reg, index);

	kv_assert(!record->nr && !record->first);
	radix_chain_del(reg, RECORD, record->hash, index);
	record->grave_next = dead->record;
	dead->record = index;
}

/* ---- lists of nodes, from their record ---- */

static void list_enter(struct kvmm_registry *reg, struct record *record, u32 index)
{
	struct node *node = node_at(reg, index);
	enum list list = list_of(record);

	kv_assert_held(&stripe_of(reg, record->hash)->lock);
	node->prev[list] = 0;
	WRITE_ONCE(node->next[list], record->first);
	if (record->first)
		node_at(reg, record->first)->prev[list] = index;
	/* Pairs with the walkers' loads of ->first, and kv_radix_at()'s: the node is visible. */
	smp_store_release(&record->first, index);
	WRITE_ONCE(record->nr, record->nr + 1);
}

/* The node keeps its own links, for readers that are there. How many are left. */
static u32 list_leave(struct kvmm_registry *reg, struct record *record, const struct node *node)
{
	enum list list = list_of(record);
	u32 next = node->next[list], prev = node->prev[list];

	kv_assert_held(&stripe_of(reg, record->hash)->lock);
	kv_assert(record->nr);
	smp_store_release(prev ? &node_at(reg, prev)->next[list] : &record->first, next);
	if (next)
		node_at(reg, next)->prev[list] = prev;
	WRITE_ONCE(record->nr, record->nr - 1);
	return record->nr;
}

/* ---- positions ---- */

static u32 position_of(struct kvmm_registry *reg, const struct item *item, struct supply *supply)
{
	u64 hash = item->position_hash;
	struct stripe *stripe = stripe_of(reg, hash);
	u32 index = radix_find_position(reg, stripe, hash, item->position);
	struct record fresh = {
		.name = { .position = item->position, .mask = POSITION }, .hash = hash,
	};

	if (index)
		return index;
	stripe->nr_positions++;
	return record_add(reg, &fresh, supply);
}

static void position_leave(struct kvmm_registry *reg, const struct node *node, struct dead *dead)
{
	u64 hash = position_hash(reg, node->name.position);
	struct stripe *stripe = stripe_of(reg, hash);
	u32 index = radix_find_position(reg, stripe, hash, node->name.position);

	kv_assert_held(&stripe->lock);
	if (list_leave(reg, record_at(reg, index), node))
		return;
	kv_assert(stripe->nr_positions);
	stripe->nr_positions--;
	record_del(reg, index, dead);
}

/* ---- families ---- */

/* That of the item's parent. A parent that is registered learns that it has children. */
static u32 family_of(struct kvmm_registry *reg, const struct item *item, struct supply *supply)
{
	u64 hash = item->parent_hash;
	struct stripe *stripe = stripe_of(reg, hash);
	u32 position = item->position - 1;
	u32 index = radix_find_record(reg, stripe, FAMILY, hash, item->parent, item->domain,
				      position);
	struct record fresh = {
		.name = { { item->parent[0], item->parent[1] }, item->domain, position,
			  { 0, 0 }, FAMILY },
		.hash = hash,
	};

	if (index)
		return index;
	fresh.last = radix_find_node(reg, stripe, hash, item->parent, item->domain, position);
	index = record_add(reg, &fresh, supply);
	if (fresh.last)
		/* Pairs with the walkers' loads of ->down: the family is visible. */
		smp_store_release(&node_at(reg, fresh.last)->down, index);
	return index;
}

static void family_enter(struct kvmm_registry *reg, u32 family, u32 index)
{
	kv_assert(!node_at(reg, index)->up);
	/* Pairs with loads of ->up by threads that look for a parent: the family is visible. */
	smp_store_release(&node_at(reg, index)->up, family);
	list_enter(reg, record_at(reg, family), index);
}

static void family_leave(struct kvmm_registry *reg, const struct node *node, struct dead *dead)
{
	struct record *family = record_at(reg, node->up);

	kv_assert_held(&stripe_of(reg, family->hash)->lock);
	if (list_leave(reg, family, node))
		return;
	if (family->last && !(family->last & DEAD))
		WRITE_ONCE(node_at(reg, family->last)->down, 0);
	record_del(reg, node->up, dead);
}

/*
 * The children that wait for this name find it. If it was registered before while they were, the
 * node gets a number, so that walkers can tell the two: see climb().
 */
static void family_adopt(struct kvmm_registry *reg, const struct item *item, u32 index)
{
	struct node *node = node_at(reg, index);
	u32 down = radix_find_record(reg, stripe_of(reg, item->hash), FAMILY, item->hash, item->key,
				     item->domain, item->position);
	struct record *family;

	node->down = down;
	if (likely(!down))
		return;
	family = record_at(reg, down);
	if (family->last) {
		u64 births = READ_ONCE(reg->births);

		node->last_life = family->last & ~DEAD;
		/*
		 * A number larger than any before. The swap is a release: a thread that has read
		 * it, or a later one, also sees that the life before has gone; pairs with
		 * kvmm_node_walk().
		 */
		while (!kv_cas(&reg->births, &births, births + 1))
			;
		node->birth = births + 1;
	}
	/* Pairs with climb() and with threads that look for a parent: the node is visible. */
	smp_store_release(&family->last, index);
}

/* ---- nodes ---- */

u32 radix_node_add(struct kvmm_registry *reg, const struct item *item, struct supply *supply)
{
	struct stripe *stripe = stripe_of(reg, item->hash);
	u32 index = supply_take(supply, NODE);
	struct node *node = node_at(reg, index);

	kv_assert_held(&stripe->lock);
	kv_assert(!(node->gen & 1));
	/* The slot's record of its last life is overwritten, but for the count of its lives. */
	node->name = (struct named){
		.key = { item->key[0], item->key[1] },
		.domain = item->domain,
		.position = item->position,
	};
	node->up = 0;
	node->next[SIBLINGS] = 0;
	node->prev[SIBLINGS] = 0;
	node->holds = 0;
	node->marks = 0;
	node->last_life = 0;
	node->birth = 0;
	node->attached = NULL;
	memset(node->count, 0, sizeof(u32) * MIN_COUNTS);
	for (u32 tier = MIN_COUNTS; tier < reg->nr_tiers; tier++)
		node->count[tier] = 0;
	/* Pairs with node_lives(): a holder of a handle of this life sees its contents. */
	smp_store_release(&node->gen, (node->gen ? node->gen : reg->gen_base) + 1);
	family_adopt(reg, item, index);
	radix_chain_add(reg, NODE, item->hash, index);
	list_enter(reg, record_at(reg, position_of(reg, item, supply)), index);
	if (item->has_parent)
		family_enter(reg, family_of(reg, item, supply), index);
	stripe->nr_nodes++;
	return index;
}

void radix_node_link(struct kvmm_registry *reg, const struct item *item, u32 index,
		     struct supply *supply)
{
	family_enter(reg, family_of(reg, item, supply), index);
}

/* Children stay, as orphans. */
void radix_node_del(struct kvmm_registry *reg, u32 index, u64 hash, struct dead *dead)
{
	struct node *node = node_at(reg, index);

	kv_assert_held(&stripe_of(reg, hash)->lock);
	kv_assert(node->gen & 1 && !node->holds && !node->name.mask);
	smp_store_release(&node->gen, node->gen + 1);
	radix_chain_del(reg, NODE, hash, index);
	position_leave(reg, node, dead);
	if (node->up)
		family_leave(reg, node, dead);
	if (node->down)
		WRITE_ONCE(record_at(reg, node->down)->last, index | DEAD);
	stripe_of(reg, hash)->nr_nodes--;
	node->marks = dead->node;
	dead->node = index;
	dead->nr++;
}

/* ---- graves ---- */

/* Slots of one chain become free, so many at a time. */
static void free_chain(struct kvmm_registry *reg, enum slot_kind kind, u32 index)
{
	u32 slot[64], nr = 0;

	while (index) {
		slot[nr++] = index;
		index = kind == NODE ? node_at(reg, index)->marks :
				       record_at(reg, index)->grave_next;
		if (nr == ARRAY_SIZE(slot) || !index) {
			radix_slab_free(&reg->slab[kind], nr, slot);
			nr = 0;
		}
	}
}

static void open_grave(struct kv_rcu_head *head)
{
	const struct node *holder = container_of(head, struct node, grave.rcu);
	struct grave grave = holder->grave;
	u32 nr = holder->holds;

	free_chain(grave.reg, NODE, grave.node);
	free_chain(grave.reg, RECORD, grave.record);
	kv_fetch_sub(&grave.reg->in_graves, nr);
}

/* The grave is on one of those in it, in place of the count of a node in use. */
void radix_bury(struct kvmm_registry *reg, struct dead *dead)
{
	struct node *holder;
	u32 first = dead->node, *link = &first;

	kv_assert_not_reading();
	if (!dead->node)
		return;
	for (u32 index = dead->node; index; index = node_at(reg, index)->marks)
		if (node_at(reg, index)->attached)
			radix_attach_destroy(reg, index);
	/* Slots that are used up are lost: they leave their chain. */
	while (*link) {
		struct node *node = node_at(reg, *link);

		if (unlikely(node->gen == LAST_GEN))
			*link = node->marks;
		else
			link = &node->marks;
	}
	holder = node_at(reg, dead->node);
	holder->holds = dead->nr;
	holder->grave = (struct grave){ .reg = reg, .node = first, .record = dead->record };
	kv_fetch_add(&reg->in_graves, dead->nr);
	kv_rcu_defer(&holder->grave.rcu, open_grave);
}

int radix_refuse(const struct kvmm_registry *reg, kvmm_node_t handle)
{
	u32 gen;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!handle.index || !(handle.gen & 1) ||
	    handle.index > READ_ONCE(reg->slab[NODE].top))
		return -EINVAL;
	gen = READ_ONCE(node_at(reg, handle.index)->gen);
	/* Lives count up from the base: one that has not been is made up. */
	return gen > handle.gen && handle.gen > reg->gen_base ? -ESTALE : -EINVAL;
}
