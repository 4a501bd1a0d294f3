// SPDX-License-Identifier: Apache-2.0
/*
 * Pools that share a host tier: how they come, are told of changes, and go.
 *
 * A client that is told of names that are gone takes them from a list of its own, when it calls
 * next. There is room for each unit once, and for what its threads commit while one of them
 * fetches: a thread that commits fetches first, so nothing else can have come since.
 */
#include <kv/mem.h>

#include "below.h"

/* ---- coming ---- */

/* The pieces of a block lie behind one another. */
static int make_planes(struct kv_tier_client *client, const struct kv_tier_client_attr *attr)
{
	u64 at = 0;

	if (!attr->nr_planes)
		return 0;
	client->host = kv_alloc_array(attr->nr_planes, sizeof(*client->host));
	if (!client->host)
		return -ENOMEM;
	for (u32 i = 0; i < attr->nr_planes; i++) {
		client->host[i] = (struct kvmm_plane){
			.base = at, .bytes = attr->plane[i].bytes,
			.stride = client->block_units * client->tier->unit_bytes,
		};
		at += attr->plane[i].bytes;
	}
	return 0;
}

u64 kv_tier_record_bytes(const struct kvmm_tier *tier, u64 block_bytes)
{
	u64 unit = tier->unit_bytes;

	return unit ? (block_bytes + unit - 1) / unit * unit : block_bytes;
}

static void free_parts(const struct kvmm_tier *tier, struct kv_tier_client *client)
{
	kv_free(client->gone);
	kv_free(client->host);
	age_free(tier, client->order);
}

static int make_parts(struct kv_tier_client *client, const struct kv_tier_client_attr *attr)
{
	struct kvmm_tier *tier = client->tier;
	u64 nr = 1;
	int err;

	if (tier->unit_bytes)
		nr = kv_tier_record_bytes(tier, attr->block_bytes) / tier->unit_bytes;
	if (!nr || nr > tier->chunk_units || nr > UINT16_MAX)
		return -EINVAL;
	client->block_units = nr;
	err = make_planes(client, attr);
	if (err)
		return err;
	if (attr->is_told) {
		client->gone_room = tier->nr_units + attr->nr_late;
		client->gone = kv_alloc_array(client->gone_room, sizeof(*client->gone));
		if (!client->gone)
			return -ENOMEM;
	}
	client->order = age_make(tier);
	if (!IS_ERR(client->order))
		return 0;
	err = PTR_ERR(client->order);
	client->order = NULL;
	return err;
}

static u64 parts_bytes(const struct kv_tier_client *client)
{
	return age_bytes(client->tier) + client->nr_planes * sizeof(*client->host) +
	       (u64)client->gone_room * sizeof(*client->gone);
}

/*
 * Ranks that are told what the store has done are alone above it: nothing is up to others then.
 * *@alike is the tier's then, unless it has one: of those that were there before.
 */
static int begin_alike(struct kvmm_tier *tier, struct completions *completions,
		       struct alike **alike)
{
	struct below *below = tier->below;

	kv_assert_held(&tier->lock);
	if (!completions)
		return alike_of(tier) ? -EOPNOTSUPP : 0;
	for (u32 i = NOBODY + 1; i < NR_OWNERS; i++)
		if (tier->owner[i].number)
			return -EUSERS;
	if (below->nr_used[BELOW_PUT] || below->nr_used[BELOW_GET])
		return -EBUSY;
	if (!below->alike) {
		tier->metadata_bytes += alike_bytes(*alike);
		/* Pairs with alike_of(): it is made. */
		smp_store_release(&below->alike, *alike);
		*alike = NULL;
	}
	below->alike->all = completions;
	return 0;
}

/* A place for @new, which is whole. */
static int take_place(struct kvmm_tier *tier, struct kv_tier_client *new,
		      struct kv_tier_client **client)
{
	kv_assert_held(&tier->lock);
	for (u32 i = NOBODY + 1; i < NR_OWNERS; i++) {
		if (tier->owner[i].number)
			continue;
		kv_assert(!tier->owner[i].order && !tier->owner[i].units);
		new->number = i;
		tier->owner[i] = *new;
		kv_fetch_add(&tier->nr_users, 1);
		tier->metadata_bytes += parts_bytes(new);
		*client = &tier->owner[i];
		return 0;
	}
	return -EUSERS;
}

int kv_tier_join(struct kvmm_tier *tier, const struct kv_tier_client_attr *attr,
		 struct kv_tier_client **client)
{
	struct kv_tier_client new = {
		.tier = tier, .plane = attr->plane, .nr_planes = attr->nr_planes,
		.block_bytes = attr->block_bytes, .layout = attr->layout,
		.min_units = attr->min_units, .max_units = attr->max_units,
	};
	struct completions *completions = tier->below ? attr->completions : NULL;
	struct alike *alike = NULL;
	int err;

	if (kv_inherited(tier))
		return -ECHILD;
	if (!attr->nr_planes != !tier->unit_bytes)
		return -EOPNOTSUPP;
	err = make_parts(&new, attr);
	if (!err && completions) {
		alike = alike_make(tier, attr->seed,
				   kv_tier_record_bytes(tier, attr->block_bytes));
		err = alike ? 0 : -ENOMEM;
	}
	if (!err) {
		kv_lock(&tier->lock);
		err = begin_alike(tier, completions, &alike);
		if (!err)
			err = take_place(tier, &new, client);
		kv_unlock(&tier->lock);
	}
	alike_free(alike);
	if (err)
		free_parts(tier, &new);
	return err;
}

/* ---- the feed that is told at once ---- */

static void tell_below(const struct kv_tier_client *client, struct kv_feed *feed)
{
	const struct below *below = client->tier->below;

	kv_assert_not_held(&client->tier->lock);
	if (below && below->ops->tell)
		below->ops->tell(below->store, client->number, client->layout, feed);
}

void kv_tier_tell(struct kv_tier_client *client, struct kv_feed *feed)
{
	kv_lock(&client->tier->lock);
	client->feed = feed;
	kv_unlock(&client->tier->lock);
	tell_below(client, feed);
}

bool kv_tier_next_below(struct kv_tier_client *client, u64 *cursor, struct kv_tier_name *name)
{
	const struct below *below = client->tier->below;

	return below && below->ops->next_name &&
	       below->ops->next_name(below->store, client->layout, cursor, name);
}

void client_tell(struct kvmm_tier *tier, const struct tslot *slot, u32 kind)
{
	struct kv_feed *feed = kv_feed_of(&tier->owner[slot->owner].feed);
	struct kv_feed_name name = { .key = { slot->key[0], slot->key[1] },
				     .domain = slot->domain, .position = slot->position };

	kv_assert_held(&tier->lock);
	if (unlikely(feed))
		kv_feed_name(feed, kind, KVMM_MEDIUM_HOST, &name);
}

/* ---- going ---- */

void kv_tier_leave(struct kv_tier_client *client)
{
	struct kvmm_tier *tier = client->tier;
	struct kv_tier_client old;

	if (kv_inherited(tier))
		return;
	kv_tier_untell(tier);
	tell_below(client, NULL);
	kv_lock(&tier->lock);
	KV_BUG_ON(client->writing);
	/* A thread that begins to write a block sums it up, by these planes. */
	below_wait_given(tier, client->number);
	/* Its names leave with it, as far as its own listeners are concerned. */
	for (u32 i = 0; i < tier->nr_units && kv_feed_of(&client->feed); i++)
		if (slot_at(tier, i)->state == SLOT_READY &&
		    slot_at(tier, i)->owner == client->number)
			client_tell(tier, slot_at(tier, i), KVMM_EVENT_REMOVED);
	age_disown(tier, client);
	tier->owner[NOBODY].blocks += client->blocks;
	tier->owner[NOBODY].units += client->units;
	kv_assert(tier->metadata_bytes >= parts_bytes(client));
	tier->metadata_bytes -= parts_bytes(client);
	old = *client;
	*client = (struct kv_tier_client){ .number = NOBODY };
	kv_unlock(&tier->lock);
	free_parts(tier, &old);
	tier_unuse(tier);
}

/* ---- asking ---- */

void kv_tier_client_glance(const struct kv_tier_client *client, struct kvmm_tier_client_stat *stat)
{
	stat->blocks = kv_peek(&client->blocks);
	stat->units = kv_peek(&client->units);
	stat->bytes = stat->units * client->tier->unit_bytes;
	stat->writing = kv_peek(&client->writing);
	stat->evicted = kv_peek(&client->evicted);
}

/* ---- names that are gone ---- */

void client_lost(struct kvmm_tier *tier, const struct tslot *slot)
{
	struct kv_tier_client *owner = &tier->owner[slot->owner];
	struct gone_name *gone;

	kv_assert_held(&tier->lock);
	client_tell(tier, slot, KVMM_EVENT_REMOVED);
	if (!owner->gone || KV_BUG_ON(owner->nr_gone == owner->gone_room))
		return;
	gone = &owner->gone[owner->nr_gone++];
	memcpy(&gone->key, slot->key, sizeof(gone->key));
	gone->domain = tslot_domain(slot);
	gone->position = slot->position;
}

u32 kv_tier_take_gone(struct kv_tier_client *client, struct kv_tier_name *names, u32 max)
{
	struct kvmm_tier *tier = client->tier;
	u32 nr;

	if (!client->gone || !READ_ONCE(client->nr_gone))
		return 0;
	kv_lock(&tier->lock);
	for (nr = 0; nr < max && client->nr_gone; nr++) {
		const struct gone_name *gone = &client->gone[--client->nr_gone];

		names[nr] = (struct kv_tier_name){ .key = gone->key, .domain = gone->domain,
						   .position = gone->position,
						   .layout = client->layout };
	}
	kv_unlock(&tier->lock);
	return nr;
}

bool kv_tier_next_name(struct kv_tier_client *client, u32 *at, struct kv_tier_name *name)
{
	struct kvmm_tier *tier = client->tier;
	bool found = false;

	kv_lock(&tier->lock);
	for (; *at < tier->nr_units && !found; ++*at) {
		const struct tslot *slot = slot_at(tier, *at);

		found = slot->state == SLOT_READY && slot->owner == client->number;
		if (!found)
			continue;
		*name = (struct kv_tier_name){ .layout = slot->layout, .position = slot->position,
					       .domain = tslot_domain(slot) };
		memcpy(&name->key, slot->key, sizeof(name->key));
	}
	kv_unlock(&tier->lock);
	return found;
}
