// SPDX-License-Identifier: Apache-2.0
/*
 * The order in which slots go when a host tier is full.
 *
 * Each client's slots are in an order of their own, an instance of the tier's policy, and so are
 * those that clients have left behind. The next to go is the first one of an order: of those that
 * may be taken from, the order with the first one used longest ago. So without limits LRU is that
 * of the whole tier, and a client that has no more than it is guaranteed keeps that.
 */
#include <kv/mem.h>

#include "internal.h"

size_t age_bytes(const struct kvmm_tier *tier)
{
	return tier->parts.evict->bytes(tier->nr_units);
}

void age_free(const struct kvmm_tier *tier, void *order)
{
	if (order && tier->parts.evict->exit)
		tier->parts.evict->exit(order);
	kv_free(order);
}

void *age_make(const struct kvmm_tier *tier)
{
	const struct kv_evict_ops *ops = tier->parts.evict;
	const char *args = tier->parts.evict_args;
	void *order = kv_alloc_lines(1, age_bytes(tier));
	int err;

	if (!order)
		return ERR_PTR(-ENOMEM);
	ops->init(order, tier->nr_units);
	err = ops->setup ? ops->setup(order, args) : args ? -EINVAL : 0;
	if (!err)
		return order;
	age_free(tier, order);
	return ERR_PTR(err);
}

static void *order_of(struct kvmm_tier *tier, u32 index)
{
	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	return tier->owner[slot_at(tier, index)->owner].order;
}

static kvmm_key_t key_of(const struct tslot *slot)
{
	kvmm_key_t key;

	memcpy(&key, slot->key, sizeof(key));
	return key;
}

void age_add(struct kvmm_tier *tier, u32 index)
{
	kvmm_key_t key = key_of(slot_at(tier, index));

	kv_assert(index < tier->nr_units);
	slot_at(tier, index)->used = ++tier->uses;
	tier->news++;
	tier->parts.evict->enter(order_of(tier, index), index, &key);
}

void age_del(struct kvmm_tier *tier, u32 index)
{
	kv_assert_held(&tier->lock);
	tier->news++;
	tier->parts.evict->leave(order_of(tier, index), index);
}

void age_filled(struct kvmm_tier *tier, u32 index)
{
	const struct kv_evict_ops *ops = tier->parts.evict;
	const struct tslot *slot = slot_at(tier, index);
	kvmm_key_t key = key_of(slot);

	kv_assert(index < tier->nr_units);
	if (ops->fill)
		ops->fill(order_of(tier, index), index, &key);
	if (ops->place)
		ops->place(order_of(tier, index), index, slot->position, KV_NONE);
}

void age_hit(struct kvmm_tier *tier, u32 index)
{
	kv_assert_held(&tier->lock);
	if (tier->parts.evict->hit)
		tier->parts.evict->hit(order_of(tier, index), index);
}

/* ---- the next one ---- */

u32 age_pick(struct kvmm_tier *tier, const struct kv_tier_client *client, bool own_only)
{
	struct kv_tier_client *oldest = NULL;
	const struct kv_evict_ops *ops = tier->parts.evict;
	u64 first = UINT64_MAX;

	kv_assert_held(&tier->lock);
	for (u32 i = 0; i < NR_OWNERS; i++) {
		struct kv_tier_client *from = &tier->owner[i];
		u32 index;

		if (!from->order)
			continue;
		if (from != client && (own_only || from->units <= from->min_units))
			continue;
		index = ops->nr(from->order) ? ops->pick(from->order) : KV_NONE;
		if (index == KV_NONE)
			continue;
		ops->unpick(from->order, index);	/* only its time is looked at */
		if (slot_at(tier, index)->used >= first)
			continue;
		first = slot_at(tier, index)->used;
		oldest = from;
	}
	return oldest ? ops->pick(oldest->order) : KV_NONE;
}

void age_unpick(struct kvmm_tier *tier, u32 index)
{
	kv_assert_held(&tier->lock);
	tier->parts.evict->unpick(order_of(tier, index), index);
}

void age_disown(struct kvmm_tier *tier, struct kv_tier_client *client)
{
	const struct kv_evict_ops *ops = tier->parts.evict;

	kv_assert_held(&tier->lock);
	for (u32 i = 0; i < tier->nr_units; i++) {
		struct tslot *slot = slot_at(tier, i);

		if (slot->state != SLOT_FREE && slot->owner == client->number)
			slot->owner = NOBODY;
	}
	while (ops->nr(client->order)) {
		u32 index = ops->pick(client->order);
		kvmm_key_t key;

		if (KV_BUG_ON(index == KV_NONE))
			break;
		key = key_of(slot_at(tier, index));
		age_filled(tier, index);
		tier->news++;
		ops->enter(tier->owner[NOBODY].order, index, &key);
	}
}
