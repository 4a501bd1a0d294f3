// SPDX-License-Identifier: Apache-2.0
/* Blocks on their way: where they are kept, and which of those on their way up has a name. */
#include "tier.h"

u32 item_take(struct lower *lower, bool is_up)
{
	u32 index = lower->free_item[is_up];

	kv_assert_held(&lower->lock);
	if (index == KV_NONE)
		return KV_NONE;
	lower->free_item[is_up] = lower->item[index].next;
	WRITE_ONCE(lower->nr_used[is_up], lower->nr_used[is_up] + 1);
	lower->item[index] = (struct item){ .state = ITEM_TAKEN, .is_up = is_up, .next = KV_NONE,
					    .next_name = KV_NONE };
	return index;
}

void item_free(struct lower *lower, u32 index)
{
	struct item *item = &lower->item[index];

	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	KV_BUG_ON(item->is_named || item->wants);
	item->state = ITEM_FREE;
	item->next = lower->free_item[item->is_up];
	lower->free_item[item->is_up] = index;
	WRITE_ONCE(lower->nr_used[item->is_up], lower->nr_used[item->is_up] - 1);
}

/* ---- names ---- */

static u32 *bucket_of(struct lower *lower, const kvmm_key_t *key)
{
	kv_assert_held(&lower->lock);
	return &lower->name[kv_hash_key(key, lower->secret) & (lower->nr_names - 1)];
}

u32 item_find(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain)
{
	u32 index;

	kv_assert_held(&lower->lock);
	for (index = *bucket_of(lower, key); index != KV_NONE;
	     index = lower->item[index].next_name) {
		const struct kv_tier_name *name = &lower->item[index].name;

		if (kv_key_equal(&name->key, key) &&
		    kv_domain_word(name->domain) == kv_domain_word(domain))
			break;
	}
	return index;
}

void item_hash(struct lower *lower, u32 index)
{
	struct item *item = &lower->item[index];
	u32 *head = bucket_of(lower, &item->name.key);

	kv_assert(index < lower->nr_items);
	item->next_name = *head;
	item->is_named = true;
	*head = index;
}

void item_unhash(struct lower *lower, u32 index)
{
	struct item *item = &lower->item[index];
	u32 *at = bucket_of(lower, &item->name.key);

	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	if (!item->is_named)
		return;
	while (*at != index) {
		if (KV_BUG_ON(*at == KV_NONE))
			return;
		at = &lower->item[*at].next_name;
	}
	*at = item->next_name;
	item->next_name = KV_NONE;
	item->is_named = false;
}

/* ---- ready for a batch ---- */

void item_ready(struct lower *lower, u32 index)
{
	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	lower->item[index].state = ITEM_READY;
	lower->item[index].next = KV_NONE;
	if (lower->first_ready == KV_NONE)
		lower->first_ready = index;
	else
		lower->item[lower->last_ready].next = index;
	lower->last_ready = index;
}

u32 item_pop_ready(struct lower *lower)
{
	u32 index = lower->first_ready;

	kv_assert_held(&lower->lock);
	if (index == KV_NONE)
		return KV_NONE;
	lower->first_ready = lower->item[index].next;
	lower->item[index].state = ITEM_BATCH;
	return index;
}
