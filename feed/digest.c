// SPDX-License-Identifier: Apache-2.0
/*
 * Digests of a pool; see <kvmm/ext/inspect.h>.
 *
 * The walk looks at state that decides on later calls and at state that callers can see, and at
 * nothing else: generations count from the first one of their table, which may be random, and
 * tables that are hashed with a secret are walked by index.
 *
 * The order of eviction is known to policies only, so all blocks are picked, and given back newest
 * first, which is to leave no trace. They are chained through ->chain meanwhile: the world has
 * stopped, so no evictor needs it.
 */

#include <kv/buf.h>
#include <kv/registry_free.h>
#include <kv/zone.h>
#include <kvmm/ext/inspect.h>
#include <order/digest.h>
#include <pool/determ.h>
#include <pool/local.h>
#include <lease/lease.h>

#include "internal.h"

static_assert(KV_POOL_NAME <= KVMM_DIGEST_NAME, "a name fits");

/* ---- how it was made ---- */

static void sum_text(struct sum *sum, const char *text)
{
	sum_add(sum, strlen(text));
	sum_add_bytes(sum, text, strlen(text));
}

static void sum_shape(struct sum *sum, struct kvmm_pool *pool)
{
	const struct classes *classes = pool->order.classes;

	kv_assert_held(&pool->lock);
	sum_add_two(sum, pool->nr_blocks, pool->block_tokens);
	sum_add(sum, pool->block_bytes);
	sum_add_two(sum, pool->has_null | pool->resets << 1 | pool->prefix_closed << 2 |
			 pool->deterministic << 3 | pool->as_put << 4, pool->compact_max_blocks);
	sum_add_two(sum, pool->dup, pool->zero);
	sum_add(sum, pool->deterministic ? pool->seed : 0);
	sum_text(sum, pool->zone->ops->name);
	sum_text(sum, pool->parts.planner ? pool->parts.planner->name : "");
	if (!pool->caches)
		return;
	sum_text(sum, pool->parts.evict->name);
	sum_add(sum, pool->window.nr);
	if (pool->window.size)
		sum_add(sum, pool->window.size);
	if (pool->pins.max)
		sum_add(sum, pool->pins.max);
	if (!classes)
		return;
	sum_add_two(sum, classes->nr, classes->by_default);
	sum_add_two(sum, classes->protect_above, classes->max_protected);
	sum_add(sum, classes->aggressive);
	for (u32 i = 0; i < classes->nr; i++)
		sum_add_two(sum, classes->class[i].quota, classes->class[i].flags);
}

/* ---- the zone ---- */

static void sum_free(struct sum *sum, struct kvmm_pool *pool)
{
	const struct door *door = &pool->door;
	struct kvmm_extent run;

	kv_assert_held(&pool->lock);
	for (u32 at = 0; !kv_zone_next_free(pool->zone, at, &run); at = run.start + run.nr)
		sum_add_two(sum, run.start, run.nr);
	elastic_sum(sum, pool);
	/* How many of them a request may have. */
	if (door->marks.high) {
		sum_add_two(sum, door->marks.min, door->marks.low);
		sum_add(sum, door->marks.high);
	}
	for (u32 i = 0; door->nr_promised && i < door->nr_promises; i++)
		if (door->promise[i].left)
			sum_add_two(sum, i, door->promise[i].left);
}

/* ---- ranges ---- */

static void sum_slot(struct sum *sum, const struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);
	const struct grow *grow;

	kv_assert_held(&pool->lock);
	sum_add_two(sum, index, slot->gen - pool->gen_base);
	sum_add_two(sum, slot->refs, slot->pins);
	sum_add(sum, slot->seq);
	sum_add_two(sum, slot_attrs(slot), slot->tenant);
	sum_add_two(sum, slot_sealed(slot), slot->flags);
	for (u32 i = 0; i < slot->nr_ext; i++)
		sum_add_two(sum, slot_ext(slot, i)->start, slot_ext(slot, i)->nr);
	if (!(slot->flags & SLOT_GREW))
		return;
	/* The blocks it keeps behind its end, and its next reservation. */
	grow = slot_grow(slot);
	sum_add_two(sum, grow->res.start, grow->res.nr);
	sum_add_two(sum, grow->chunk, grow->expect);
	sum_add(sum, grow->res.nr ? pool->grow.clock - grow->used : 0);
}

static void sum_ranges(struct sum *sum, struct kvmm_pool *pool)
{
	u32 nr = pool->slots ? dir_nr_slots(pool->slots) : 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++)
		if (slot_at(pool, i)->nr_ext)
			sum_slot(sum, pool, i);
}

/* ---- cached and private blocks ---- */

static u32 gen_of(const struct kvmm_pool *pool, u32 gen)
{
	return (gen - pool->entries.gen_first) & KV_ENTRY_GEN_MASK;
}

static void sum_entry(struct sum *sum, const struct kvmm_pool *pool, u32 index)
{
	const struct kv_entry *entry = entry_at(pool, index);
	enum kv_entry_state state = kv_word_state(entry->word);

	kv_assert_held(&pool->lock);
	if (state == KV_ENTRY_FREE || state == KV_ENTRY_RETIRED)
		return;
	sum_add_two(sum, index, gen_of(pool, kv_word_gen(entry->word)));
	sum_add(sum, entry->word & (BIT64(KV_ENTRY_GEN_SHIFT) - 1));
	sum_add(sum, entry->place);
	if (state != KV_ENTRY_STAGED && state != KV_ENTRY_REGISTERED && entry->dup_prev == KV_NONE)
		return;
	sum_add(sum, entry->key[0]);
	sum_add(sum, entry->key[1]);
	sum_add(sum, entry->domain);
	sum_add_two(sum, kv_link_index(entry->parent), entry->position);
	sum_add_two(sum, entry->dup_next, entry->dup_prev);
	sum_add(sum, entry->link);
}

/* Whether one that is free was ever used is no difference. */
static void sum_added(struct sum *sum, const struct kv_entry *entry)
{
	if (!kv_word_is(entry->word, KV_ENTRY_NAME))
		return;
	sum_add(sum, entry->word & (BIT64(KV_ENTRY_GEN_SHIFT) - 1));
	sum_add(sum, entry->key[0]);
	sum_add(sum, entry->key[1]);
	sum_add(sum, entry->domain);
	sum_add_two(sum, entry->link, entry->position);
	sum_add_two(sum, entry->dup_next, entry->dup_prev);
	sum_add(sum, entry->chain);
}

static void sum_blocks(struct sum *sum, struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; pool->caches && i < pool->nr_blocks; i++)
		sum_entry(sum, pool, i);
	for (u32 i = pool->nr_blocks; pool->caches && i < pool->entries.top_name; i++)
		sum_added(sum, entry_at(pool, i));
}

/* ---- the order of eviction ---- */

static void sum_policy(struct sum *sum, struct kvmm_pool *pool, void *policy)
{
	const struct kv_evict_ops *ops = pool->order.ops;
	u32 newest = KV_NONE, index;

	kv_assert_held(&pool->order.lock);
	sum_add(sum, ops->nr(policy));
	while ((index = ops->pick(policy)) < pool->nr_blocks) {
		sum_add(sum, index);
		WRITE_ONCE(entry_at(pool, index)->chain, newest);
		newest = index;
	}
	for (; newest != KV_NONE; newest = index) {
		index = entry_at(pool, newest)->chain;
		ops->unpick(policy, newest);
	}
}

/* The tenants with limits, how near to them, and since when each block waits. */
static void sum_quotas(struct sum *sum, struct kvmm_pool *pool)
{
	const struct quotas *quotas = pool->order.quotas;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < MAX_ACCOUNTS; i++) {
		const struct account *account = quotas->account[i];

		if (!account)
			continue;
		sum_add_two(sum, i, account->tenant);
		sum_add_two(sum, account->usage, account->limit.min);
		sum_add_two(sum, account->limit.low, account->limit.high);
		sum_add(sum, account->limit.max);
		for (u32 class = 0; i != QUOTA_REST && class < pool->order.nr_policies; class++)
			sum_policy(sum, pool, account->policy[class]);
	}
	for (u32 i = 0; i < quotas->nr_blocks; i++)
		if (quotas->of && order_has(&pool->order, i))
			sum_add_two(sum, quotas->of[i], quotas->clock - quotas->entered[i]);
}

/* Parents and children: they decide which leaf goes instead of its parent. */
static void sum_families(struct sum *sum, const struct kvmm_pool *pool)
{
	const struct order *order = &pool->order;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < pool->nr_blocks; i++) {
		if (family_first(&order->family, i) != KV_NONE)
			sum_add_two(sum, i, family_first(&order->family, i));
		if (family_has(&order->family, i))
			sum_add_two(sum, i, family_next(&order->family, i));
	}
	sum_add_two(sum, order->mark.top, order->mark.above);
}

static void sum_order(struct sum *sum, struct kvmm_pool *pool)
{
	struct order *order = &pool->order;
	const struct classes *classes = order->classes;

	kv_assert_held(&pool->lock);
	if (!pool->caches)
		return;
	credits_recall(pool);
	for (u32 class = 0; class < order->nr_policies; class++)
		sum_policy(sum, pool, order->rest.policy[class]);
	if (order->quotas)
		sum_quotas(sum, pool);
	if (classes) {
		kv_assert_held(&order->lock);
		for (u32 i = 0; i < pool->nr_blocks; i++) {
			sum_add_two(sum, classes->mark[i],
				    classes->priority ? classes->priority[i] : 0);
			sum_add(sum, classes->owner ? classes->owner[i] : 0);
		}
		sum_add_two(sum, classes->nr_protected, classes->nr_events);
	}
	sum_families(sum, pool);
}

/* ---- holds ---- */

static void sum_hold(struct sum *sum, const struct kvmm_pool *pool, u32 gen_base,
		     const struct lease *lease)
{
	const struct hold *hold = lease->hold;

	kv_assert_held(&pool->lock);
	sum_add_two(sum, hold->index, lease->gen - gen_base);
	sum_add(sum, lease->owner);
	sum_add_two(sum, hold->reason, hold->flags);
	sum_add(sum, hold->domain);
	sum_add(sum, pool->deterministic ? lease->deadline_ns : !!lease->deadline_ns);
	sum_add_bytes(sum, hold->text, sizeof(hold->text));
	for (u32 i = 0; i < hold->nr; i++) {
		sum_add_bytes(sum, &hold->block[i].key, sizeof(hold->block[i].key));
		sum_add_two(sum, hold->ref[i].index, gen_of(pool, hold->ref[i].gen));
	}
}

static void sum_holds(struct sum *sum, struct kvmm_pool *pool)
{
	struct lease_table *table = leases_of(pool);

	kv_assert_held(&pool->lock);
	sum_add(sum, pool->told_ns);
	if (!table)
		return;
	kv_lock(&table->lock);
	for (u32 i = 0; i < nr_hold_slots(table); i++) {
		const struct lease *lease = lease_at(table, lease_id(LEASE_HOLD, i));

		if (lease->hold)
			sum_hold(sum, pool, table->gen_base, lease);
	}
	kv_unlock(&table->lock);
}

/* ---- the rest ---- */

static void sum_tenants(struct sum *sum, struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (pool->tenant)
		sum_add_bytes(sum, pool->tenant, pool->nr_blocks * sizeof(*pool->tenant));
}

/* Tables grow by slots that follow each other: whether one has grown already is no difference. */
static void sum_free_handle(struct sum *sum, u32 index, u32 age)
{
	if (age)
		sum_add_two(sum, index, age);
}

static void sum_free_entries(struct sum *sum, const struct kvmm_pool *pool, u64 head)
{
	const struct kv_entries *entries = &pool->entries;

	kv_assert_held(&pool->lock);
	for (u32 at = (u32)head; at < entries->nr; at = kv_entries_next(entries, at))
		sum_add_two(sum, at,
			    gen_of(pool, kv_entries_gen(entries, entries->entry[at].word)));
	sum_add(sum, KV_NONE);
}

/* Free lists, each in its order. */
static void sum_handles(struct sum *sum, struct kvmm_pool *pool)
{
	struct lease_table *table = leases_of(pool);
	const struct lease *lease;
	u32 at;

	kv_assert_held(&pool->lock);
	for (at = pool->free_slot; at != KV_NONE; at = slot_at(pool, at)->next)
		sum_free_handle(sum, at, slot_at(pool, at)->gen - pool->gen_base);
	sum_add(sum, KV_NONE);
	if (pool->caches) {
		sum_free_entries(sum, pool, pool->entries.free[pool->entries.turn & 1]);
		sum_free_entries(sum, pool, pool->entries.free[~pool->entries.turn & 1]);
	}
	if (table) {
		kv_lock(&table->lock);
		for (at = table->free; at != KV_NONE; at = lease->next) {
			lease = lease_at(table, lease_id(LEASE_HOLD, at));
			sum_free_handle(sum, at, lease->gen - table->gen_base);
		}
		kv_unlock(&table->lock);
	}
	for (at = pool->door.free_promise; at != KV_NONE; at = pool->door.promise[at].next)
		sum_free_handle(sum, at, pool->door.promise[at].gen - pool->gen_base);
}

static void sum_history(struct sum *sum, struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (!pool->deterministic)
		return;
	sum_add_sum(sum, &pool->history);
	sum_add_sum(sum, &pool->order.history);
}

/* ---- calls ---- */

static const struct {
	const char *name;
	void (*add)(struct sum *sum, struct kvmm_pool *pool);
} parts[] = {
	[KVMM_DIGEST_SHAPE]	= { "how it was made",		sum_shape },
	[KVMM_DIGEST_FREE]	= { "free blocks",		sum_free },
	[KVMM_DIGEST_RANGES]	= { "ranges",			sum_ranges },
	[KVMM_DIGEST_BLOCKS]	= { "cached blocks",		sum_blocks },
	[KVMM_DIGEST_ORDER]	= { "order of eviction",	sum_order },
	[KVMM_DIGEST_HOLDS]	= { "holds",			sum_holds },
	[KVMM_DIGEST_TENANTS]	= { "tenants of content",	sum_tenants },
	[KVMM_DIGEST_HANDLES]	= { "handles to come",		sum_handles },
	[KVMM_DIGEST_HISTORY]	= { "history",			sum_history },
};

static_assert(sizeof(parts) / sizeof(parts[0]) == KVMM_NR_DIGEST_PARTS, "each part has its sum");

const char *kv_digest_part_name(uint32_t part)
{
	return part < KVMM_NR_DIGEST_PARTS ? parts[part].name : "?";
}

static kvmm_sum_t digest_of(const struct sum *sum)
{
	return (kvmm_sum_t){ { sum->lane[0], sum->lane[1] } };
}

/* The world has stopped, and the order knows all that has happened. */
static void fill_info(struct kvmm_pool *pool, struct kvmm_digest_info *info)
{
	struct sum all = { { 0 } };

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < KVMM_NR_DIGEST_PARTS; i++) {
		struct sum sum = { { 0 } };

		parts[i].add(&sum, pool);
		sum_add_sum(&all, &sum);
		info->part[i] = digest_of(&sum);
	}
	info->all = digest_of(&all);
	memcpy(info->name, pool->name, sizeof(pool->name));
}

int kvmm_pool_digest(struct kvmm_pool *pool, struct kvmm_digest_info *info)
{
	struct kvmm_digest_info made = { .size = sizeof(made) };
	int err;

	if (!pool || !info || info->size != sizeof(*info))
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	err = pool_enter(pool);
	if (!err) {
		pool_stop(pool);
		kv_lock(&pool->lock);
		if (pool->caches)
			order_enter(&pool->order);
		fill_info(pool, &made);
		if (pool->caches)
			order_leave(&pool->order);
		pool_resume(pool);
		pool_leave(pool);
	}
	kv_unlock(&pool->compact_lock);
	if (!err)
		*info = made;
	return err;
}

int history_read(struct kvmm_pool *pool, void *out)
{
	kvmm_sum_t *digest = out;
	struct sum sum = { { 0 } };
	int err = pool_enter(pool);

	if (err)
		return err;
	if (pool->caches)
		order_enter(&pool->order);
	sum_history(&sum, pool);
	if (pool->caches)
		order_leave(&pool->order);
	pool_leave(pool);
	*digest = digest_of(&sum);
	return pool->deterministic ? 0 : -EOPNOTSUPP;
}

/* ---- differences ---- */

int kvmm_digest_compare(const struct kvmm_digest_info *a, const struct kvmm_digest_info *b,
			uint32_t nr, struct kvmm_digest_diff *diff)
{
	if ((nr && (!a || !b)) || !diff)
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (a[i].size != sizeof(a[i]) || b[i].size != sizeof(b[i]))
			return -EINVAL;
	for (u32 i = 0; i < nr; i++) {
		u32 part = 0;

		while (part < KVMM_NR_DIGEST_PARTS &&
		       kvmm_sum_equal(&a[i].part[part], &b[i].part[part]))
			part++;
		if (part == KVMM_NR_DIGEST_PARTS)
			continue;
		*diff = (struct kvmm_digest_diff){ .pool = i, .part = part };
		memcpy(diff->name, a[i].name, sizeof(diff->name) - 1);
		kv_buf_printf(&(struct kv_buf){ diff->text, sizeof(diff->text), 0 },
			      "pool %u '%s': %s", i, diff->name, kv_digest_part_name(part));
		return 1;
	}
	return 0;
}
