// SPDX-License-Identifier: Apache-2.0
/*
 * Holds on ranges, and holds made of references that somebody has.
 *
 * The last reference of a range cannot be dropped while somebody else pins it. So whether a hold on a
 * range may go is seen under pool->lock, and it leaves the table there: the table's lock is taken
 * inside. Holds on blocks never meet that case.
 */
#include <kv/mem.h>

#include "determ.h"
#include "hold.h"

/* ---- ranges ---- */

static int get_range(struct kvmm_pool *pool, kvmm_range_t range, const struct hold *hold)
{
	bool pin = hold->flags & KVMM_HOLD_PIN;
	struct slot *slot;
	int err = pin ? pin_types_need(pool, hold_pin_type(hold)) : 0;

	if (!err)
		err = range_enter(pool, range, &slot);
	if (err)
		return err;
	if (slot->refs == UINT32_MAX)
		err = -EOVERFLOW;
	else if (pin)
		err = slot_pin(pool, slot, hold_pin_type(hold));
	if (!err) {
		slot->refs++;
		pool->count.range_refs++;
	}
	pool_leave(pool);
	return err;
}

/* A caller may have dropped, or unpinned, what was the hold's: then there is less to do. */
int hold_drop_range(struct kvmm_pool *pool, const struct hold *hold)
{
	struct slot *slot;
	int err;

	kv_assert_held(&pool->lock);
	err = slot_find(pool, hold->range, &slot);
	if (err)
		return err;
	if (hold->flags & KVMM_HOLD_PIN)
		err = slot_unpin(pool, slot, hold_pin_type(hold));
	put_slot(pool, slot, hold->range.index);
	return err;
}

bool share_is_barred(const struct slot *slot, struct range_share share, u32 extra)
{
	return (u64)share.refs + extra >= slot->refs && slot->pins > share.pins;
}

static int insert(struct hold_table *table, struct hold *hold, kvmm_hold_t *handle)
{
	*handle = hold->handle;
	hold_insert(table, hold);
	return 0;
}

/* The attributes, a hold for @nr references, and its place in the table. */
static int prepare(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, u32 nr,
		   struct hold_table **table, struct hold **hold)
{
	struct kvmm_hold_attr known;
	int err = kv_copy_attr(&known, sizeof(known), attr);

	if (!err)
		err = known.prefix ? -EINVAL :
				     hold_check_attr(&known, KVMM_HOLD_PIN | KVMM_HOLD_RECLAIM);
	if (!err)
		err = holds_get(pool, table);
	if (err)
		return err;
	*hold = hold_new(pool, &known, nr);
	if (!*hold)
		return -ENOMEM;
	err = hold_reserve(*table, &(*hold)->handle);
	if (err)
		kv_free(*hold);
	return err;
}

int kvmm_hold_range(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, kvmm_range_t range,
		    kvmm_hold_t *handle)
{
	struct hold_table *table;
	struct hold *hold;
	int err;

	if (!pool || !attr || !handle)
		return -EINVAL;
	err = prepare(pool, attr, 0, &table, &hold);
	if (err)
		return err;
	err = get_range(pool, range, hold);
	if (err) {
		hold_unreserve(table, hold->handle);
		kv_free(hold);
		return err;
	}
	hold->range = range;
	return insert(table, hold, handle);
}

/* The hold leaves the table, or says why it does not. pool->lock held. */
static int take_out(struct kvmm_pool *pool, kvmm_hold_t handle, u64 now_ns, struct hold **hold)
{
	struct hold_table *table;
	struct range_share share = { .refs = 1 };
	struct slot *slot;
	int err = hold_enter(pool, handle, &table, hold);

	if (err)
		return err;
	share.pins = !!((*hold)->flags & KVMM_HOLD_PIN);
	if (now_ns && (!(*hold)->deadline_ns || (*hold)->deadline_ns > now_ns))
		err = -EAGAIN;
	else if (!slot_find(pool, (*hold)->range, &slot) && share_is_barred(slot, share, 0))
		err = -EBUSY;
	else
		hold_remove(table, *hold);
	kv_unlock(&table->lock);
	return err;
}

int hold_release_range(struct kvmm_pool *pool, kvmm_hold_t handle, u64 now_ns)
{
	struct hold *hold;
	int lost = 0, err = pool_enter(pool);

	if (err)
		return err;
	err = take_out(pool, handle, now_ns, &hold);
	if (!err)
		lost = hold_drop_range(pool, hold);
	pool_leave(pool);
	if (!err)
		kv_free(hold);
	return err || now_ns ? err : lost;
}

struct range_share holds_share(struct hold_table *table, u64 owner, kvmm_range_t range)
{
	struct range_share share = { 0 };

	for (const struct hold *at = *hold_owner_chain(table, owner); at; at = at->owner_next) {
		if (at->owner != owner || at->range.index != range.index ||
		    at->range.gen != range.gen)
			continue;
		share.refs++;
		share.pins += !!(at->flags & KVMM_HOLD_PIN);
	}
	return share;
}

/* ---- references that somebody has ---- */

/* Names of what is held do not change, and references keep it. */
static int name_refs(struct kvmm_pool *pool, struct hold *hold)
{
	u64 domain = READ_ONCE(entry_at(pool, hold->ref[0].index)->domain);

	for (u32 i = 0; i < hold->nr; i++) {
		const struct kv_entry *entry = entry_at(pool, hold->ref[i].index);

		if (READ_ONCE(entry->domain) != domain)
			return -EINVAL;
		hold->block[i].hold = hold;
		hold->block[i].key = kv_entry_key(entry);
	}
	hold->domain.tenant = (u32)domain;
	hold->domain.layout = (u16)(domain >> 32);
	hold->domain.group = (u16)(domain >> 48);
	return 0;
}

/* Are they references at all? While it is being asked they are the caller's. */
static int check_refs(struct kvmm_pool *pool, const struct hold *hold)
{
	u32 block;
	int err = 0;

	for (u32 i = 0; i < hold->nr && !err; i++)
		err = kvmm_blocks_of_refs(pool, &hold->ref[i], 1, &block);
	return err;
}

int kvmm_hold_take(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
		   const kvmm_ref_t *refs, uint32_t nr, kvmm_hold_t *handle)
{
	struct hold_table *table;
	struct hold *hold;
	int err;

	if (!pool || !attr || !handle || !refs || !nr || nr > INT32_MAX)
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	err = prepare(pool, attr, nr, &table, &hold);
	if (err)
		return err;
	memcpy(hold->ref, refs, nr * sizeof(*refs));
	err = check_refs(pool, hold);
	if (!err)
		err = name_refs(pool, hold);
	if (!err && !hold_has_refs(pool, table, hold))
		err = -EINVAL;
	if (!err && hold->flags & KVMM_HOLD_PIN)
		err = hold_pin_refs(pool, hold);
	if (!err)
		return insert(table, hold, handle);
	hold_unreserve(table, hold->handle);
	kv_free(hold);
	return err;
}
