// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes that tiers have got and lost, and holds on nodes.
 *
 * Batches are worked on in chunks: hash all names of one and ask for their lines, look them up
 * without a lock, then do one after the other. The look without a lock is a guess at how many
 * stripes it takes: one if the node is there and stays, three if it comes or goes. Under the locks
 * everything is looked up again.
 *
 * All is told and buried after the read section: hooks and destructors may do anything.
 */
#include <kv/env.h>
#include <kv/err.h>

#include "radix.h"

/* In place of a tier: it is about holds. */
#define NO_TIER		KVMM_MAX_TIERS

/*
 * Nodes in graves that are worth a grace period: a fraction of all, but not a few, since it may
 * take milliseconds if readers lose their cores; nor so many that slots come back cold.
 */
#define MIN_GRAVES	1024u
#define MAX_GRAVES	16384u
#define GRAVES_SHIFT	3

struct call {
	struct kvmm_registry *reg;
	u32 tier;		/* or NO_TIER */
	u32 to;			/* of a transfer, or NO_TIER */
	struct batch batch;
	kvmm_node_t *nodes;	/* NO_TIER: handles of the nodes held now */
	u32 nr_done;
	int err;		/* of NO_TIER: -EOVERFLOW */
	struct dead dead;
	struct news news;	/* of ->tier */
	struct news news_to;	/* of ->to */
};

/* ---- memory first ---- */

/* A name may need two records: for the children of its parent, and for its position. */
int kv_radix_reserve(struct kvmm_registry *reg, u32 nr)
{
	u32 enough = max(READ_ONCE(reg->slab[NODE].capacity) >> GRAVES_SHIFT, MIN_GRAVES);
	u32 nr_segments, unused;

	kv_assert_not_reading();
	if (nr > INT32_MAX / 2)
		return -ENOMEM;
	if (READ_ONCE(reg->in_graves) >= min(enough, MAX_GRAVES))
		kv_rcu_barrier();
	else
		kv_rcu_reap();
	if (radix_slab_reserve(&reg->slab[NODE], nr, &nr_segments))
		return -ENOMEM;
	if (radix_slab_reserve(&reg->slab[RECORD], 2 * nr, &unused)) {
		radix_slab_unreserve(&reg->slab[NODE], nr, nr_segments);
		return -ENOMEM;
	}
	radix_table_grow(reg);
	return 0;
}

void kv_radix_unreserve(struct kvmm_registry *reg, u32 nr)
{
	radix_slab_unreserve(&reg->slab[NODE], nr, NR_SEGMENTS);
	radix_slab_unreserve(&reg->slab[RECORD], 2 * nr, NR_SEGMENTS);
}

static void supply_fill(struct kvmm_registry *reg, struct supply *supply, u32 nr)
{
	kv_assert(nr <= CHUNK);
	supply->nr[NODE] = nr;
	supply->nr[RECORD] = 2 * nr;
	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
		radix_slab_take(&reg->slab[kind], supply->nr[kind], supply->slot[kind]);
	for (u32 i = 0; i < nr; i++) {
		struct node *node = node_at(reg, supply->slot[NODE][i]);

		kv_prefetch_write(node);
		kv_prefetch_write(&node->prev[PEERS]);
		kv_prefetch_write(record_at(reg, supply->slot[RECORD][nr + i]));
	}
}

/* ---- tiers of a node; its stripe is held ---- */

static void set_tiers(struct kvmm_registry *reg, struct node *node, u64 hash, u32 tiers)
{
	struct stripe *stripe = stripe_of(reg, hash);
	u32 changed = tiers ^ node->name.mask;

	kv_assert_held(&stripe->lock);
	WRITE_ONCE(node->name.mask, tiers);
	for (; changed; changed &= changed - 1) {
		u32 tier = kv_lowest64(changed);

		stripe->nr_names[tier] += tiers & BIT(tier) ? 1 : -1;
	}
}

/* One block more. True: the first. A count that has reached its end stays there. */
static bool count_up(struct node *node, u32 tier)
{
	if (KV_BUG_ON(node->count[tier] == UINT32_MAX))
		return false;
	return !node->count[tier]++;
}

/* ---- present, hold ---- */

static void enter_locked(struct call *call, const struct item *item, u32 i, u32 index)
{
	struct node *node = node_at(call->reg, index);

	kv_assert_held(&stripe_of(call->reg, item->hash)->lock);
	if (call->tier == NO_TIER && node->holds == UINT32_MAX) {
		call->nodes[i] = (kvmm_node_t){ 0, 0 };
		call->err = -EOVERFLOW;
	} else if (call->tier == NO_TIER) {
		call->nodes[i] = (kvmm_node_t){ index, node->gen };
		node->holds++;
	} else if (count_up(node, call->tier)) {
		set_tiers(call->reg, node, item->hash, node->name.mask | BIT(call->tier));
		if (has_hooks(call->reg, PRESENCE_HOOK))
			news_add(&call->news, node);
	}
}

/* There, and nothing new is said of its parent. */
static bool is_settled(const struct kvmm_registry *reg, const struct item *item, u32 index)
{
	return index && (!item->has_parent || READ_ONCE(node_at(reg, index)->up));
}

static bool enter_settled(struct call *call, const struct item *item, u32 i)
{
	struct held held = hold_one(call->reg, item->hash);
	u32 index = radix_find_node(call->reg, held.stripe[0], item->hash, item->key, item->domain,
				    item->position);
	bool ok = is_settled(call->reg, item, index);

	kv_assert_reading();
	if (ok)
		enter_locked(call, item, i, index);
	radix_release(held);
	return ok;
}

static void enter_new(struct call *call, const struct item *item, u32 i, struct supply *supply)
{
	struct kvmm_registry *reg = call->reg;
	struct held held = hold_item(reg, item);
	u32 index = radix_find_node(reg, stripe_of(reg, item->hash), item->hash, item->key,
				    item->domain, item->position);

	if (!index)
		index = radix_node_add(reg, item, supply);
	else if (!is_settled(reg, item, index))
		radix_node_link(reg, item, index, supply);
	enter_locked(call, item, i, index);
	radix_release(held);
}

static void enter_one(struct call *call, const struct item *item, u32 i, struct supply *supply)
{
	u32 index = radix_find_node(call->reg, NULL, item->hash, item->key, item->domain,
				    item->position);

	if (!is_settled(call->reg, item, index) || !enter_settled(call, item, i))
		enter_new(call, item, i, supply);
}

/* Items of a chunk from name @first on; their chains are on the way. */
static void items_fill(const struct call *call, struct item *items, u32 first, u32 nr)
{
	const struct table *table = kv_rcu_dereference(call->reg->table);

	kv_assert_reading();
	kv_assert(nr <= CHUNK && first + nr <= call->batch.nr);
	radix_items(call->reg, &call->batch, first, nr, items);
	for (u32 i = 0; i < nr; i++)
		kv_prefetch_write(chains_of(table, items[i].hash));
}

/*
 * Asks for the first node of each chain, which as a rule is the right one; the nodes come back in
 * @index. A record is looked for in any case: a hook may wait for a new name.
 */
static void ask_for_slots(const struct call *call, const struct item *items, u32 nr, u32 *index)
{
	const struct table *table = kv_rcu_dereference(call->reg->table);

	kv_assert_reading();
	for (u32 i = 0; i < nr; i++) {
		const struct chains *chains = chains_of(table, items[i].hash);
		u32 record = READ_ONCE(chains->first[RECORD]);

		if (record)
			kv_prefetch_write(record_at(call->reg, record));
		/* Pairs with radix_chain_add(). */
		index[i] = smp_load_acquire(&chains->first[NODE]);
		if (index[i]) {
			kv_prefetch_write(node_at(call->reg, index[i]));
			kv_prefetch_write(&node_at(call->reg, index[i])->prev[PEERS]);
		}
	}
}

/* Asks for the neighbours of the nodes that go. */
static void ask_for_neighbours(const struct kvmm_registry *reg, const u32 *index, u32 nr)
{
	kv_assert_reading();
	for (u32 i = 0; i < nr; i++) {
		const struct node *node = index[i] ? node_at(reg, index[i]) : NULL;
		u32 up = node ? READ_ONCE(node->up) : 0;
		u32 next = node ? READ_ONCE(node->next[PEERS]) : 0;

		if (up)
			kv_prefetch_write(record_at(reg, up));
		if (next)
			kv_prefetch_write(&node_at(reg, next)->prev[PEERS]);
	}
}

static void enter_chunk(struct call *call, u32 first, u32 nr)
{
	struct item items[CHUNK];
	struct supply supply;
	u32 index[CHUNK];

	kv_rcu_read_lock();
	items_fill(call, items, first, nr);
	supply_fill(call->reg, &supply, nr);
	ask_for_slots(call, items, nr, index);
	for (u32 i = 0; i < nr; i++)
		enter_one(call, &items[i], first + i, &supply);
	kv_rcu_read_unlock();
	/* Slots that were not needed go back: the reservation is used up. */
	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
		if (supply.nr[kind])
			radix_slab_free(&call->reg->slab[kind], supply.nr[kind],
					supply.slot[kind]);
}

static void enter_all(struct call *call)
{
	for (u32 first = 0; first < call->batch.nr; first += CHUNK) {
		if (call->news.nr + CHUNK > KVMM_REGISTRY_BATCH)
			radix_tell(call->reg, NEWS_PRESENT, call->tier, &call->news);
		enter_chunk(call, first, min(call->batch.nr - first, CHUNK));
	}
	radix_tell(call->reg, NEWS_PRESENT, call->tier, &call->news);
}

/* ---- absent, put, transfer ---- */

static void lose(struct call *call, struct node *node, u64 hash)
{
	u32 tiers = node->name.mask;

	kv_assert_held(&stripe_of(call->reg, hash)->lock);
	kv_assert(node->count[call->tier]);
	if (!--node->count[call->tier]) {
		tiers &= ~BIT(call->tier);
		if (has_hooks(call->reg, PRESENCE_HOOK))
			news_add(&call->news, node);
	}
	if (call->to != NO_TIER && count_up(node, call->to)) {
		tiers |= BIT(call->to);
		if (has_hooks(call->reg, PRESENCE_HOOK))
			news_add(&call->news_to, node);
	}
	set_tiers(call->reg, node, hash, tiers);
}

/* The tiers of a node that may end with this. */
static u32 last_tiers(const struct call *call)
{
	return call->tier == NO_TIER ? 0 : BIT(call->tier);
}

static int leave_locked(struct call *call, u32 index, u64 hash, bool all_held)
{
	struct node *node = node_at(call->reg, index);
	u32 nr = call->tier == NO_TIER ? node->holds : node->count[call->tier];
	bool ends;

	kv_assert_held(&stripe_of(call->reg, hash)->lock);
	if (!nr)
		return 0;
	/* Would it have nothing left without one block of the tier, or one hold? */
	ends = call->to == NO_TIER && nr == 1 && node->name.mask == last_tiers(call) &&
	       (call->tier == NO_TIER || !node->holds);
	if (ends && !all_held)
		return -EAGAIN;
	if (call->tier == NO_TIER) {
		kv_assert(node->marks);
		node->holds--;
		node->marks--;
	} else {
		lose(call, node, hash);
	}
	if (ends)
		radix_node_del(call->reg, index, hash, &call->dead);
	return 1;
}

/* Of this life of the node: 1 done, 0 it has nothing of that, -ESTALE. */
static int leave(struct call *call, u32 index, u32 gen, u64 hash)
{
	struct kvmm_registry *reg = call->reg;
	struct node *node = node_at(reg, index);
	/* A guess, without a lock. */
	bool all = call->to == NO_TIER && READ_ONCE(node->name.mask) == last_tiers(call);
	int ret;

	kv_assert_reading();
	do {
		u32 up = smp_load_acquire(&node->up);
		struct held held = !all ? hold_one(reg, hash) :
			radix_hold(reg, hash, up ? record_at(reg, up)->hash : hash,
				   position_hash(reg, node->name.position));

		if (node->gen != gen)
			ret = -ESTALE;
		else if (all && node->up != up)
			ret = -EAGAIN;
		else
			ret = leave_locked(call, index, hash, all);
		radix_release(held);
		all = true;
	} while (ret == -EAGAIN);
	return ret;
}

/* The name may go and come while we wait for its lock: then it is another node. */
static void leave_by_name(struct call *call, const struct item *item)
{
	kvmm_node_t handle;
	int ret;

	kv_assert_reading();
	do {
		handle.index = radix_find_node(call->reg, NULL, item->hash, item->key,
					       item->domain, item->position);
		if (!handle.index)
			return;
		handle = handle_of(call->reg, handle.index);
		ret = handle.gen ? leave(call, handle.index, handle.gen, item->hash) : -ESTALE;
	} while (ret == -ESTALE);
	call->nr_done += ret;
}

/* A transfer's arrivals are told before its departures: at no time neither has it. */
static void tell_loss(struct call *call, u32 room)
{
	if (max(call->news.nr, call->news_to.nr) + room <= KVMM_REGISTRY_BATCH)
		return;
	radix_tell(call->reg, NEWS_PRESENT, call->to, &call->news_to);
	radix_tell(call->reg, NEWS_ABSENT, call->tier, &call->news);
}

static u32 leave_all(struct call *call)
{
	struct item items[CHUNK];
	u32 index[CHUNK];

	for (u32 end = call->batch.nr, nr; end; end -= nr) {
		nr = min(end, CHUNK);
		tell_loss(call, CHUNK);
		kv_rcu_read_lock();
		items_fill(call, items, end - nr, nr);
		ask_for_slots(call, items, nr, index);
		ask_for_neighbours(call->reg, index, nr);
		for (u32 i = nr; i-- > 0;)
			leave_by_name(call, &items[i]);
		kv_rcu_read_unlock();
	}
	tell_loss(call, KVMM_REGISTRY_BATCH + 1);
	radix_bury(call->reg, &call->dead);
	return call->nr_done;
}

/* ---- the calls of pools ---- */

/* Field by field: the room for news is large, and left as it is. */
static void call_init(struct call *call, struct kvmm_registry *reg, u32 tier, u32 to,
		      struct batch batch)
{
	call->reg = reg;
	call->tier = tier;
	call->to = to;
	call->batch = batch;
	call->nodes = NULL;
	call->nr_done = 0;
	call->err = 0;
	call->dead = (struct dead){ 0 };
	call->news.nr = 0;
	call->news_to.nr = 0;
}

static void enter_batch(struct kvmm_registry *reg, u32 tier, struct batch batch)
{
	struct call call;

	call_init(&call, reg, tier, NO_TIER, batch);
	enter_all(&call);
}

static u32 leave_batch(struct kvmm_registry *reg, u32 tier, u32 to, struct batch batch)
{
	struct call call;

	call_init(&call, reg, tier, to, batch);
	return leave_all(&call);
}

static struct batch batch_of_names(const struct kv_radix_name *names, u32 nr)
{
	return (struct batch){ .names = names, .nr = nr };
}

bool kv_radix_has_tier(const struct kvmm_registry *reg, u32 tier)
{
	return tier < reg->nr_tiers;
}

void kv_radix_present(struct kvmm_registry *reg, u32 tier, const struct kv_radix_name *names,
		      u32 nr)
{
	if (!KV_BUG_ON(tier >= reg->nr_tiers))
		enter_batch(reg, tier, batch_of_names(names, nr));
}

u32 kv_radix_absent(struct kvmm_registry *reg, u32 tier, const struct kv_radix_name *names, u32 nr)
{
	if (KV_BUG_ON(tier >= reg->nr_tiers))
		return 0;
	return leave_batch(reg, tier, NO_TIER, batch_of_names(names, nr));
}

/* ---- the public calls ---- */

int kvmm_registry_transfer(struct kvmm_registry *reg, uint32_t from, uint32_t to,
			   const struct kvmm_prefix *prefix)
{
	struct batch batch;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || from == to || (from >= reg->nr_tiers && from != KVMM_NO_TIER) ||
	    (to >= reg->nr_tiers && to != KVMM_NO_TIER) || radix_batch_of(prefix, &batch))
		return -EINVAL;
	if (from != KVMM_NO_TIER)
		return leave_batch(reg, from, min(to, NO_TIER), batch);
	if (kv_radix_reserve(reg, batch.nr))
		return -ENOMEM;
	enter_batch(reg, to, batch);
	return 0;
}

/* ---- holds ---- */

int kvmm_registry_hold(struct kvmm_registry *reg, const struct kvmm_prefix *prefix,
		       kvmm_node_t *nodes)
{
	struct batch batch;
	struct call call;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || radix_batch_of(prefix, &batch) || (!nodes && batch.nr))
		return -EINVAL;
	if (kv_radix_reserve(reg, batch.nr))
		return -ENOMEM;
	call_init(&call, reg, NO_TIER, NO_TIER, batch);
	call.nodes = nodes;
	enter_all(&call);
	for (u32 i = 0; unlikely(call.err) && i < batch.nr; i++)
		if (nodes[i].gen)
			kvmm_node_put(reg, &nodes[i], 1);
	return call.err;
}

/* What is done with a node under its lock. MARK: a hold is about to be put; it stays until then. */
enum node_op { HOLD_GET, HOLD_MARK, HOLD_UNMARK };

static int node_do(struct kvmm_registry *reg, kvmm_node_t handle, enum node_op op)
{
	struct node *node;
	struct held held;
	int ret = 0;

	kv_rcu_read_lock();
	node = node_of(reg, handle);
	if (!node)
		goto out;
	held = hold_one(reg, named_hash(reg, &node->name));
	if (node->gen != handle.gen)
		node = NULL;
	else if (op == HOLD_GET && node->holds == UINT32_MAX)
		ret = -EOVERFLOW;
	else if (op == HOLD_GET)
		node->holds++;
	else if (op == HOLD_MARK && node->marks >= node->holds)
		ret = -EINVAL;
	else if (op == HOLD_MARK)
		node->marks++;
	else if (op == HOLD_UNMARK && !KV_BUG_ON(!node->marks))
		node->marks--;
	radix_release(held);
out:
	kv_rcu_read_unlock();
	return node ? ret : radix_refuse(reg, handle);
}

int radix_node_get(struct kvmm_registry *reg, kvmm_node_t node)
{
	return node_do(reg, node, HOLD_GET);
}

int kvmm_node_put(struct kvmm_registry *reg, const kvmm_node_t *nodes, uint32_t nr)
{
	struct call call;

	for (u32 i = 0; i < nr; i++) {
		int err = node_do(reg, nodes[i], HOLD_MARK);

		while (err && i--)
			node_do(reg, nodes[i], HOLD_UNMARK);
		if (err)
			return err;
	}
	/* These holds are marked now. */
	call_init(&call, reg, NO_TIER, NO_TIER, (struct batch){ 0 });
	kv_rcu_read_lock();
	while (nr--) {
		struct node *node = node_of(reg, nodes[nr]);

		if (node)
			leave(&call, nodes[nr].index, nodes[nr].gen, named_hash(reg, &node->name));
	}
	kv_rcu_read_unlock();
	radix_bury(reg, &call.dead);
	return 0;
}
