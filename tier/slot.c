// SPDX-License-Identifier: Apache-2.0
/*
 * Slots: found by name, written, read, evicted.
 *
 * A chained hash table over all of them. A reader or writer of one is counted in it, so eviction
 * need not ask: slots that are read are not in the order, nor those that are written.
 */
#include <kv/mem.h>

#include "below.h"

/* ---- names ---- */

u32 tslot_bucket(const struct kvmm_tier *tier, const u64 key[2])
{
	kvmm_key_t bytes;

	memcpy(&bytes, key, sizeof(bytes));
	return kv_hash_key(&bytes, tier->secret) & (tier->nr_buckets - 1);
}

/* The name that is looked for. */
struct wanted {
	u64 key[2];
	u64 domain;
	u64 layout;
};

static struct wanted wanted_of(const struct kv_tier_client *client, const kvmm_key_t *key,
			       kvmm_domain_t domain)
{
	struct wanted wanted = { .domain = kv_domain_word(domain), .layout = client->layout };

	kv_key_words(key, wanted.key);
	return wanted;
}

static bool is_wanted(const struct tslot *slot, const struct wanted *wanted)
{
	return slot->key[0] == wanted->key[0] && slot->key[1] == wanted->key[1] &&
	       slot->domain == wanted->domain && slot->layout == wanted->layout;
}

static u32 find(struct kvmm_tier *tier, const struct wanted *wanted)
{
	u32 index = tier->bucket[tslot_bucket(tier, wanted->key)];

	kv_assert_held(&tier->lock);
	while (index != KV_NONE && !is_wanted(slot_at(tier, index), wanted))
		index = slot_at(tier, index)->next;
	return index;
}

static void unhash(struct kvmm_tier *tier, u32 index)
{
	u32 *at = &tier->bucket[tslot_bucket(tier, slot_at(tier, index)->key)];

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	while (*at != index) {
		if (KV_BUG_ON(*at == KV_NONE))
			return;
		at = &slot_at(tier, *at)->next;
	}
	*at = slot_at(tier, index)->next;
	slot_at(tier, index)->next = KV_NONE;
}

struct tslot *tslot_of(struct kvmm_tier *tier, struct kv_tier_slot slot)
{
	kv_assert_held(&tier->lock);
	if (!slot.gen || slot.index >= tier->nr_units ||
	    slot_at(tier, slot.index)->gen != slot.gen ||
	    slot_at(tier, slot.index)->state == SLOT_FREE)
		return NULL;
	return slot_at(tier, slot.index);
}

/* ---- units ---- */

static u32 take_units(struct kvmm_tier *tier, struct kv_tier_client *client)
{
	u32 nr = client->block_units, at = client->cursor, i, start;

	kv_assert_held(&tier->lock);
	/* Behind the last one, so that blocks that go down together lie together. */
	i = at / tier->chunk_units;
	if (i < tier->nr_chunks && at % tier->chunk_units + nr <= chunk_nr(tier, i) &&
	    !kv_zone_alloc_at(tier->chunk[i].zone, at % tier->chunk_units, nr))
		return at;
	/* The last chunk may be shorter than a block. */
	for (i = 0; i < tier->nr_chunks && nr <= chunk_nr(tier, i); i++) {
		start = kv_zone_try(tier->chunk[i].zone, nr);
		if (start != KV_NONE)
			return i * tier->chunk_units + start;
	}
	return KV_NONE;
}

/* A slot that no look-up can find any more, without writer or readers. */
static void tslot_free(struct kvmm_tier *tier, u32 index)
{
	struct tslot *slot = slot_at(tier, index);
	struct kv_tier_client *owner = &tier->owner[slot->owner];
	struct chunk *chunk = &tier->chunk[index / tier->chunk_units];

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	kv_assert(!slot->readers && !(slot->flags & SLOT_BUSY));
	KV_BUG_ON(kv_zone_free(chunk->zone, index % tier->chunk_units, slot->nr_units));
	kv_assert(tier->units_used >= slot->nr_units);
	kv_assert(owner->units >= slot->nr_units);
	tier->units_used -= slot->nr_units;
	owner->units -= slot->nr_units;
	slot->state = SLOT_FREE;
	slot->gen = slot->gen + 1 ? slot->gen + 1 : 1;
}

/* A slot with memory that a store reads is passed over, and stays where it is: at most max_put. */
static bool evict_one(struct kvmm_tier *tier, struct kv_tier_client *client, bool own_only)
{
	u32 *busy = tier->below ? tier->below->busy : NULL;
	struct tslot *slot;
	u32 nr = 0, index;

	kv_assert_held(&tier->lock);
	for (;;) {
		index = age_pick(tier, client, own_only);
		if (index == KV_NONE || !(slot_at(tier, index)->flags & SLOT_BUSY))
			break;
		busy[nr++] = index;
	}
	while (nr-- > 0)
		age_unpick(tier, busy[nr]);
	if (index == KV_NONE)
		return false;
	/* READY without readers, and out of the order. */
	slot = slot_at(tier, index);
	kv_assert(slot->state == SLOT_READY && !slot->readers);
	unhash(tier, index);
	client_lost(tier, slot);
	kv_assert(tier->blocks && tier->owner[slot->owner].blocks);
	tier->blocks--;
	tier->stat.evicted++;
	kv_age_add(&tier->stat.evict_age, slot->since_ns, kv_tier_now(tier), 1);
	tier->news++;
	tier->stat.lost += !(slot->flags & SLOT_BELOW);
	tier->owner[slot->owner].blocks--;
	tier->owner[slot->owner].evicted++;
	tslot_free(tier, index);
	return true;
}

static int make_room(struct kvmm_tier *tier, struct kv_tier_client *client, u32 *index)
{
	while (client->max_units && client->units + client->block_units > client->max_units)
		if (!evict_one(tier, client, true))
			return -EDQUOT;
	for (;;) {
		*index = take_units(tier, client);
		if (*index != KV_NONE)
			return 0;
		if (!evict_one(tier, client, false))
			return -ENOSPC;
	}
}

/* ---- writing ---- */

static void begin_writing(struct kvmm_tier *tier, struct kv_tier_client *client, u32 index,
			  const struct kv_tier_name *name)
{
	struct tslot *slot = slot_at(tier, index);
	u32 *head;

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	kv_assert(slot->state == SLOT_FREE);
	*slot = (struct tslot){
		.domain = kv_domain_word(name->domain), .layout = name->layout,
		.gen = slot->gen ? slot->gen : 1, .position = name->position,
		.nr_units = client->block_units, .state = SLOT_WRITING, .owner = client->number,
		.flags = name->has_parent ? SLOT_HAS_PARENT : 0,
	};
	kv_key_words(&name->key, slot->key);
	if (name->has_parent)
		kv_key_words(&name->parent, slot->parent);
	head = &tier->bucket[tslot_bucket(tier, slot->key)];
	slot->next = *head;
	*head = index;
	client->cursor = index + slot->nr_units;
	client->units += slot->nr_units;
	client->writing++;
	tier->units_used += slot->nr_units;
	tier->writing++;
}

int kv_tier_reserve(struct kv_tier_client *client, const struct kv_tier_name *name,
		    struct kv_tier_slot *slot)
{
	struct wanted wanted = wanted_of(client, &name->key, name->domain);
	struct kvmm_tier *tier = client->tier;
	u32 index;
	int err;

	kv_lock(&tier->lock);
	index = find(tier, &wanted);
	if (index != KV_NONE) {
		err = slot_at(tier, index)->state == SLOT_READY ? -EEXIST : -EALREADY;
	} else {
		err = make_room(tier, client, &index);
		if (!err)
			begin_writing(tier, client, index, name);
	}
	if (index != KV_NONE)
		*slot = (struct kv_tier_slot){ index, slot_at(tier, index)->gen };
	kv_unlock(&tier->lock);
	return err;
}

static void end_writing(struct kvmm_tier *tier, const struct tslot *slot)
{
	kv_assert_held(&tier->lock);
	kv_assert(tier->owner[slot->owner].writing);
	kv_assert(tier->writing);
	tier->owner[slot->owner].writing--;
	tier->writing--;
}

static void add_reader(struct kvmm_tier *tier, u32 index)
{
	struct tslot *slot = slot_at(tier, index);

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	if (!slot->readers++) {
		age_del(tier, index);
		tier->pinned++;
	}
	age_hit(tier, index);
}

/* @reads: the caller reads it from the start, and it came from the store. */
static void commit(struct kv_tier_client *client, struct kv_tier_slot handle, const u64 *sum,
		   bool reads)
{
	struct kvmm_tier *tier = client->tier;
	u64 now = kv_tier_now(tier);
	struct tslot *slot;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	if (!KV_BUG_ON(!slot || slot->state != SLOT_WRITING)) {
		end_writing(tier, slot);
		slot->state = SLOT_READY;
		slot->since_ns = now;
		slot->flags |= sum ? SLOT_HAS_SUM : 0;
		slot->sum = sum ? *sum : 0;
		tier->blocks++;
		tier->stat.stored++;
		tier->owner[slot->owner].blocks++;
		age_filled(tier, handle.index);
		age_add(tier, handle.index);
		slot->flags |= reads ? SLOT_BELOW : 0;
		if (reads)
			add_reader(tier, handle.index);
		client_tell(tier, slot, KVMM_EVENT_STORED);
		if (unlikely(slot->flags & SLOT_UNWANTED))
			tslot_doom(tier, handle.index);
	}
	kv_unlock(&tier->lock);
}

void kv_tier_commit(struct kv_tier_client *client, struct kv_tier_slot handle, const u64 *sum)
{
	commit(client, handle, sum, false);
}

void kv_tier_commit_read(struct kv_tier_client *client, struct kv_tier_slot handle, const u64 *sum)
{
	commit(client, handle, sum, true);
}

void kv_tier_cancel(struct kv_tier_client *client, struct kv_tier_slot handle)
{
	struct kvmm_tier *tier = client->tier;
	struct tslot *slot;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	if (!KV_BUG_ON(!slot || slot->state != SLOT_WRITING)) {
		end_writing(tier, slot);
		unhash(tier, handle.index);
		tslot_free(tier, handle.index);
	}
	kv_unlock(&tier->lock);
}

/* ---- reading ---- */

enum kvmm_tier_answer kv_tier_find(struct kv_tier_client *client, const kvmm_key_t *key,
				   kvmm_domain_t domain, enum kv_tier_find how,
				   struct kv_tier_slot *slot)
{
	struct wanted wanted = wanted_of(client, key, domain);
	struct kvmm_tier *tier = client->tier;
	enum kvmm_tier_answer answer = KVMM_TIER_MISS;
	u32 index;

	kv_lock(&tier->lock);
	index = find(tier, &wanted);
	if (index != KV_NONE)
		answer = slot_at(tier, index)->state == SLOT_READY ? KVMM_TIER_HIT :
								     KVMM_TIER_RETRY;
	if (answer == KVMM_TIER_HIT) {
		*slot = (struct kv_tier_slot){ index, slot_at(tier, index)->gen };
		if (how == KV_TIER_READ)
			add_reader(tier, index);
	}
	kv_unlock(&tier->lock);
	return answer;
}

void tslot_bury(struct kvmm_tier *tier, u32 index)
{
	kv_assert_held(&tier->lock);
	kv_assert(slot_at(tier, index)->state == SLOT_DOOMED);
	kv_assert(tier->owner[slot_at(tier, index)->owner].blocks);
	tier->owner[slot_at(tier, index)->owner].blocks--;
	tslot_free(tier, index);
}

static void hide(struct kvmm_tier *tier, u32 index)
{
	struct tslot *slot = slot_at(tier, index);

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	unhash(tier, index);
	client_lost(tier, slot);
	slot->state = SLOT_DOOMED;
	kv_assert(tier->blocks);
	tier->blocks--;
}

void tslot_doom(struct kvmm_tier *tier, u32 index)
{
	struct tslot *slot = slot_at(tier, index);

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	if (!slot->readers)
		age_del(tier, index);
	hide(tier, index);
	if (!slot->readers && !(slot->flags & SLOT_BUSY))
		tslot_bury(tier, index);
}

/* A reader less; @doom: no look-up finds it any more. */
static void put(struct kv_tier_client *client, struct kv_tier_slot handle, bool doom)
{
	struct kvmm_tier *tier = client->tier;
	struct tslot *slot;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	if (KV_BUG_ON(!slot || slot->state == SLOT_WRITING || !slot->readers))
		goto out;
	if (doom && slot->state == SLOT_READY)
		hide(tier, handle.index);
	if (--slot->readers)
		goto out;
	kv_assert(tier->pinned);
	tier->pinned--;
	if (slot->state == SLOT_READY)
		age_add(tier, handle.index);
	else if (!(slot->flags & SLOT_BUSY))
		tslot_bury(tier, handle.index);
out:
	kv_unlock(&tier->lock);
}

void kv_tier_put(struct kv_tier_client *client, struct kv_tier_slot slot)
{
	put(client, slot, false);
}

void kv_tier_put_bad(struct kv_tier_client *client, struct kv_tier_slot slot,
		     const struct kv_tier_name *name)
{
	const struct below *below = client->tier->below;

	put(client, slot, true);
	if (below && below->alike)
		alike_drop(client->tier, name);
	if (below)
		below->ops->forget(below->store, name, 1, false, NULL);
}

/* ---- forgetting ---- */

/* Was there anything new? */
static bool forget_slot(struct kvmm_tier *tier, u32 index)
{
	struct tslot *slot = slot_at(tier, index);

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	if (slot->state == SLOT_READY) {
		tslot_doom(tier, index);
		return true;
	}
	if (slot->state != SLOT_WRITING || slot->flags & SLOT_UNWANTED)
		return false;
	slot->flags |= SLOT_UNWANTED;
	return true;
}

static bool forget_names(struct kv_tier_client *client, const struct kv_tier_name *names, u32 nr,
			 u8 *had)
{
	struct kvmm_tier *tier = client->tier;
	bool any = false;

	kv_lock(&tier->lock);
	for (u32 i = 0; i < nr; i++) {
		struct wanted wanted = wanted_of(client, &names[i].key, names[i].domain);
		u32 index = find(tier, &wanted);

		if (index == KV_NONE)
			continue;
		had[i] |= slot_at(tier, index)->state == SLOT_READY;
		any |= forget_slot(tier, index);
	}
	below_wait_given(tier, NOBODY);
	kv_unlock(&tier->lock);
	return any;
}

static bool forget_layout(struct kv_tier_client *client)
{
	struct kvmm_tier *tier = client->tier;
	bool any = false;

	kv_lock(&tier->lock);
	for (u32 i = 0; i < tier->nr_units; i++)
		if (slot_at(tier, i)->layout == client->layout)
			any |= forget_slot(tier, i);
	below_wait_given(tier, NOBODY);
	kv_unlock(&tier->lock);
	return any;
}

/*
 * Here first, or the store would get it again; and here again, for names that came from the store
 * meanwhile. The store does not find names any more that it was given before. Where ranks are told,
 * all but the error is the same on each: one that cannot wipe has to say so, as its store will take
 * a record that is still there for the one that comes under that name next.
 */
static int forget_some(struct kv_tier_client *client, const struct kv_tier_name *names, u32 nr,
		       u8 *had)
{
	const struct below *below = client->tier->below;
	int err = 0;

	kv_assert_not_held(&client->tier->lock);
	forget_names(client, names, nr, had);
	for (u32 i = 0; i < nr && alike_of(client->tier); i++)
		had[i] |= alike_drop(client->tier, &names[i]);
	do {
		if (below)
			err = below->ops->forget(below->store, names, nr, true,
						 below->alike ? NULL : had);
	} while (forget_names(client, names, nr, had) && !err && below);
	return err;
}

int kv_tier_reset(struct kv_tier_client *client)
{
	const struct below *below = client->tier->below;
	int err = 0;

	forget_layout(client);
	if (alike_of(client->tier))
		alike_clear(client->tier);
	do {
		if (below)
			err = below->ops->reset(below->store);
	} while (forget_layout(client) && !err && below);
	return err;
}

#define FORGET_BATCH	1024u

/* From the end: children before their parents. */
int kv_tier_forget(struct kv_tier_client *client, const struct kvmm_prefix *prefix)
{
	u32 max_nr = min(max(prefix->nr, 1u), FORGET_BATCH), nr_found = 0;
	struct kv_tier_name *names = kv_alloc_array(max_nr, sizeof(*names));
	u8 *had = kv_alloc_array(max_nr, sizeof(*had));
	int ret, err = names && had ? 0 : -ENOMEM;

	for (u32 left = err ? 0 : prefix->nr, nr; left; left -= nr) {
		nr = min(left, max_nr);
		memset(had, 0, nr);
		for (u32 i = 0; i < nr; i++)
			names[i] = (struct kv_tier_name){ .key = prefix->keys[left - 1 - i],
							  .domain = prefix->domain,
							  .layout = client->layout };
		ret = forget_some(client, names, nr, had);
		err = err ? err : ret;
		for (u32 i = 0; i < nr; i++)
			nr_found += had[i];
	}
	kv_free(names);
	kv_free(had);
	return err ? err : (int)nr_found;
}

/* ---- asking ---- */

bool kv_tier_may_hold(struct kv_tier_client *client, struct kv_tier_slot handle,
		      const struct kv_tier_name *name, enum kv_tier_holds how)
{
	struct wanted wanted = wanted_of(client, &name->key, name->domain);
	struct kvmm_tier *tier = client->tier;
	const struct tslot *slot;
	bool may;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	may = slot && is_wanted(slot, &wanted) &&
	      (slot->state == SLOT_WRITING) == (how == KV_TIER_WRITES) &&
	      (how == KV_TIER_WRITES || slot->readers);
	kv_unlock(&tier->lock);
	return may;
}

bool kv_tier_has(struct kv_tier_client *client, struct kv_tier_slot handle)
{
	struct kvmm_tier *tier = client->tier;
	const struct tslot *slot;
	bool has;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	has = slot && slot->state == SLOT_READY;
	kv_unlock(&tier->lock);
	return has;
}

bool kv_tier_sum(struct kv_tier_client *client, struct kv_tier_slot handle, u64 *sum)
{
	struct kvmm_tier *tier = client->tier;
	const struct tslot *slot;
	bool has;

	kv_lock(&tier->lock);
	slot = tslot_of(tier, handle);
	has = slot && slot->flags & SLOT_HAS_SUM;
	*sum = has ? slot->sum : 0;
	kv_unlock(&tier->lock);
	return has;
}

u64 kv_tier_hit(struct kv_tier_client *client, struct kv_tier_slot handle)
{
	struct kvmm_tier *tier = client->tier;
	const struct tslot *slot;
	u64 now, since;

	kv_lock(&tier->lock);
	now = kv_tier_now(tier);
	slot = tslot_of(tier, handle);
	since = slot ? slot->since_ns : now;
	kv_age_add(&tier->stat.hit_age, since, now, 1);
	kv_unlock(&tier->lock);
	return now - min(now, since);
}
