// SPDX-License-Identifier: Apache-2.0
/*
 * The hash table of the registry of prefixes: chains, stripes, and how it grows.
 *
 * Everything has two links for chains, of which a table uses one. So while a larger table takes the
 * place of one, all is in both, stripe by stripe: readers go on in the old one, writers change
 * both. Then readers are sent to the new one, then writers leave the old one alone; it is freed
 * after a grace period, and only then may the table grow again: growth takes the link it used.
 *
 * A reader that still looks into the old one may meet a node that has gone from the new one, and
 * misses one that has come: both changes were made while it was under way.
 */
#include <kv/err.h>

#include "radix.h"

/* ---- tables ---- */

static u64 table_bytes(u32 nr_chains)
{
	return (u64)nr_chains * sizeof(struct chains);
}

/*
 * Two for each node, so that a wanted node is the first of its chain as a rule; the table
 * grows when there is less than one. With one, and all in memory, registering takes 25 % longer and
 * a look-up twice as long.
 */
static u32 nr_chains_for(u32 nr)
{
	return max(BIT(min(kv_order(nr) + 1, 31u)), NR_STRIPES);
}

static struct table *table_create(u32 nr_chains, u32 parity)
{
	struct table *table = kv_alloc(sizeof(*table));

	if (!table)
		return NULL;
	table->nr_chains = nr_chains;
	table->parity = parity;
	table->chains = registry_alloc(table_bytes(nr_chains));
	if (!table->chains) {
		kv_free(table);
		return NULL;
	}
	return table;
}

static void table_destroy(struct table *table)
{
	if (!table)
		return;
	registry_free(table->chains, table_bytes(table->nr_chains));
	kv_free(table);
}

static void free_table(struct kv_rcu_head *head)
{
	table_destroy(container_of(head, struct table, rcu));
}

int radix_table_init(struct kvmm_registry *reg, u32 nr)
{
	reg->table = table_create(nr_chains_for(nr), 0);
	if (!reg->table)
		return -ENOMEM;
	for (u32 i = 0; i < NR_STRIPES; i++) {
		kv_lock_init(&reg->stripe[i].lock, KV_RANK_BUCKET, i);
		reg->stripe[i].table = reg->table;
	}
	return 0;
}

void radix_table_exit(struct kvmm_registry *reg)
{
	table_destroy(reg->table);
}

u64 radix_table_bytes(const struct kvmm_registry *reg)
{
	u64 bytes;

	kv_rcu_read_lock();
	bytes = table_bytes(kv_rcu_dereference(reg->table)->nr_chains);
	kv_rcu_read_unlock();
	return bytes + sizeof(struct table);
}

/* ---- chains ---- */

/*
 * At the head, where new nodes are soon looked for; but positions, which are always looked for,
 * stay before families.
 */
static void add_to(struct kvmm_registry *reg, struct table *table, enum slot_kind kind, u64 hash,
		   u32 index)
{
	u32 *link = &chains_of(table, hash)->first[kind];

	kv_assert_held(&stripe_of(reg, hash)->lock);
	if (kind == RECORD && named_at(reg, kind, index)->mask != POSITION)
		while (*link && named_at(reg, kind, *link)->mask == POSITION)
			link = &named_at(reg, kind, *link)->hash_next[table->parity];
	WRITE_ONCE(named_at(reg, kind, index)->hash_next[table->parity], *link);
	/* Pairs with the acquire loads of radix_find_node() and of groups: the name is visible. */
	smp_store_release(link, index);
}

static void del_from(struct kvmm_registry *reg, struct table *table, enum slot_kind kind, u64 hash,
		     u32 index)
{
	u32 *link = &chains_of(table, hash)->first[kind];

	while (*link && *link != index)
		link = &named_at(reg, kind, *link)->hash_next[table->parity];
	if (KV_BUG_ON(!*link))
		return;
	/* The rest of the chain has long been visible. Release as any link that readers follow. */
	smp_store_release(link, named_at(reg, kind, index)->hash_next[table->parity]);
}

void radix_chain_add(struct kvmm_registry *reg, enum slot_kind kind, u64 hash, u32 index)
{
	struct stripe *stripe = stripe_of(reg, hash);

	kv_assert_held(&stripe->lock);
	add_to(reg, stripe->table, kind, hash, index);
	if (unlikely(stripe->next))
		add_to(reg, stripe->next, kind, hash, index);
}

void radix_chain_del(struct kvmm_registry *reg, enum slot_kind kind, u64 hash, u32 index)
{
	struct stripe *stripe = stripe_of(reg, hash);

	kv_assert_held(&stripe->lock);
	del_from(reg, stripe->table, kind, hash, index);
	if (unlikely(stripe->next))
		del_from(reg, stripe->next, kind, hash, index);
}

static const struct table *table_for(const struct kvmm_registry *reg, const struct stripe *stripe)
{
	if (!stripe)
		return kv_rcu_dereference(reg->table);
	kv_assert_held(&stripe->lock);
	return stripe->table;
}

u32 radix_find_node(const struct kvmm_registry *reg, const struct stripe *stripe, u64 hash,
		    const u64 key[2], u64 domain, u32 position)
{
	const struct table *table = table_for(reg, stripe);
	/* Pairs with add_to(). */
	u32 index = smp_load_acquire(&chains_of(table, hash)->first[NODE]);

	return chain_find(reg, table->parity, index, key, domain, position);
}

u32 radix_find_record(const struct kvmm_registry *reg, const struct stripe *stripe,
		      enum record_kind kind, u64 hash, const u64 key[2], u64 domain, u32 position)
{
	const struct table *table = table_for(reg, stripe);
	/* Pairs with add_to(), as below. */
	u32 index = smp_load_acquire(&chains_of(table, hash)->first[RECORD]);

	while (index) {
		const struct named *name = named_at(reg, RECORD, index);

		if (has_name(name, key, domain, position) && name->mask == kind)
			break;
		index = smp_load_acquire(&name->hash_next[table->parity]);
	}
	return index;
}

u32 radix_find_position(const struct kvmm_registry *reg, const struct stripe *stripe, u64 hash,
			u32 position)
{
	static const u64 no_key[2];

	return radix_find_record(reg, stripe, POSITION, hash, no_key, 0, position);
}

/* ---- locks ---- */

static void order(u32 *a, u32 *b)
{
	u32 low = min(*a, *b);

	*b = max(*a, *b);
	*a = low;
}

struct held radix_hold(struct kvmm_registry *reg, u64 a, u64 b, u64 c)
{
	u32 nr[3] = { a % NR_STRIPES, b % NR_STRIPES, c % NR_STRIPES };
	struct held held = { { NULL } };

	order(&nr[0], &nr[1]);
	order(&nr[1], &nr[2]);
	order(&nr[0], &nr[1]);
	for (u32 i = 0; i < ARRAY_SIZE(nr); i++) {
		if (i && nr[i] == nr[i - 1])
			continue;
		held.stripe[i] = &reg->stripe[nr[i]];
		kv_lock(&held.stripe[i]->lock);
	}
	return held;
}

void radix_release(struct held held)
{
	for (u32 i = 0; i < ARRAY_SIZE(held.stripe); i++)
		if (held.stripe[i])
			kv_unlock(&held.stripe[i]->lock);
}

/* ---- growth ---- */

static void copy_chain(struct kvmm_registry *reg, enum slot_kind kind, const struct table *from,
		       u32 chain, struct table *to)
{
	u32 index = from->chains[chain].first[kind];

	kv_assert(from->parity != to->parity);
	while (index) {
		struct named *name = named_at(reg, kind, index);
		u64 hash = kind == NODE ? named_hash(reg, name) : record_at(reg, index)->hash;

		add_to(reg, to, kind, hash, index);
		index = name->hash_next[from->parity];
	}
}

static void copy_stripe(struct kvmm_registry *reg, struct stripe *stripe, struct table *to)
{
	const struct table *from;

	kv_lock(&stripe->lock);
	from = stripe->table;
	for (u32 chain = stripe - reg->stripe; chain < from->nr_chains; chain += NR_STRIPES)
		for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
			copy_chain(reg, kind, from, chain, to);
	stripe->next = to;
	kv_unlock(&stripe->lock);
}

static void replace(struct kvmm_registry *reg, struct table *to)
{
	struct table *from = reg->table;

	for (u32 i = 0; i < NR_STRIPES; i++)
		copy_stripe(reg, &reg->stripe[i], to);
	/* Pairs with kv_rcu_dereference() by readers: all chains are there. */
	kv_rcu_assign(reg->table, to);
	for (u32 i = 0; i < NR_STRIPES; i++) {
		struct stripe *stripe = &reg->stripe[i];

		kv_lock(&stripe->lock);
		kv_assert(stripe->table == from && stripe->next == to);
		stripe->table = to;
		stripe->next = NULL;
		kv_unlock(&stripe->lock);
	}
	kv_rcu_defer(&from->rcu, free_table);
	kv_rcu_barrier();
}

/*
 * Before a batch enters: its names would else stand in the few chains of a small table, behind each
 * other. The smaller table is slower, not wrong: no memory is no error. One at a time: ->growing.
 */
void radix_table_grow(struct kvmm_registry *reg)
{
	u32 nr = radix_slab_claimed(&reg->slab[NODE]), idle = 0, nr_chains;
	struct table *to;

	kv_assert_not_reading();
	kv_rcu_read_lock();
	nr_chains = kv_rcu_dereference(reg->table)->nr_chains;
	kv_rcu_read_unlock();
	if (likely(nr <= nr_chains) || !kv_cas(&reg->growing, &idle, 1))
		return;
	to = nr > reg->table->nr_chains ?
		     table_create(nr_chains_for(nr), !reg->table->parity) : NULL;
	if (to)
		replace(reg, to);
	/* Pairs with the swap above: the next one sees our table, and that the old one is gone. */
	smp_store_release(&reg->growing, 0);
}
