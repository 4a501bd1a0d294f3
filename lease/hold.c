// SPDX-License-Identifier: Apache-2.0
/*
 * Leases with references of their own, which are called holds here, are made: on cached blocks by
 * key, of references that a caller has, on ranges.
 *
 * A hold is made in this order: memory, a look at what is wanted, a place in the table, references,
 * and then the table hears of it. Each step can be undone without a trace, and nothing is ever
 * taken with the table's lock held. It goes in the opposite order (lease_end.c), so between its
 * leaving the table and the drop of its references no lease tells of them.
 *
 * The hard part is that a failure must not cost the blocks a touch: whether all is cached, and
 * may be pinned, is asked first, which takes nothing. A change between that and the scan
 * makes the difference of one touch, and nothing else: hits and misses are counted once the hold
 * is made.
 */
#include <limits.h>

#include <cache/cache.h>
#include <kv/mem.h>
#include <lease/lease.h>

/* A hold that is being made: its memory, and its place in the table. */
struct making {
	struct hold		*hold;		/* ours */
	struct lease_table	*table;		/* NULL: no place yet */
	struct lease		lease;
	kvmm_lease_t		handle;
};

/* One thing to hold, and what goes with it: 0 or -EINVAL. */
static int check_attr(const struct kvmm_lease_attr *attr)
{
	u32 nr = attr->prefix ? attr->prefix->nr : attr->nr_refs;
	u32 flags = KVMM_LEASE_PIN | KVMM_LEASE_RECLAIM;

	if (attr->prefix)
		flags |= KVMM_LEASE_PARTIAL;
	if (!!attr->prefix + !!attr->refs + !!attr->range.gen != 1 || attr->reserved ||
	    attr->flags & ~flags || attr->reason >= KVMM_NR_LEASE_REASONS)
		return -EINVAL;
	if ((attr->prefix && !attr->prefix->keys) || (!attr->refs && attr->nr_refs) ||
	    (!nr && !attr->range.gen) || nr > INT_MAX)
		return -EINVAL;
	return attr->text && strnlen(attr->text, KVMM_LEASE_TEXT + 1) > KVMM_LEASE_TEXT ?
	       -EINVAL : 0;
}

/* References have no place in it yet: there may be fewer. 0 or -ENOMEM. */
static int making_init(struct making *making, struct kvmm_pool *pool,
		       const struct kvmm_lease_attr *attr)
{
	u32 nr = attr->prefix ? attr->prefix->nr : attr->nr_refs;
	struct hold *hold = kv_alloc(sizeof(*hold) +
				     nr * (sizeof(struct held) + sizeof(kvmm_ref_t)));

	*making = (struct making){ .hold = hold,
				   .lease = lease_from_now(pool, attr->owner, attr->lease_ns,
							   attr->flags & KVMM_LEASE_RECLAIM) };
	if (!hold)
		return -ENOMEM;
	hold->nr = nr;
	hold->range = attr->range;
	hold->reason = attr->reason;
	hold->flags = attr->flags;
	if (attr->prefix)
		hold->domain = kv_domain_word(attr->prefix->domain);
	if (attr->text)
		strncpy(hold->text, attr->text, KVMM_LEASE_TEXT);
	hold->ref = (kvmm_ref_t *)&hold->block[nr];
	if (attr->refs)
		memcpy(hold->ref, attr->refs, nr * sizeof(*hold->ref));
	return 0;
}

/* Nothing came of it: @err. */
static int making_exit(struct making *making, int err)
{
	if (making->table)
		hold_unreserve(making->table, making->handle);
	kv_free(making->hold);
	return err;
}

/* ---- what is wanted is looked at ---- */

/*
 * Are the wanted blocks there, and may they be pinned? Asking takes nothing. @scratch has room for
 * a bit a key.
 */
static int look_at_keys(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr, void *scratch)
{
	int nr = kvmm_prefix_probe(pool, attr->prefix, scratch), err;

	if (nr < 0)
		return nr;
	if (nr < attr->prefix->nr && (!nr || !(attr->flags & KVMM_LEASE_PARTIAL)))
		return -ENOENT;
	if (!(attr->flags & KVMM_LEASE_PIN))
		return 0;
	err = pins_reserve(&pool->pins, nr);
	pins_give_back(&pool->pins, err ? 0 : nr);
	return err;
}

/* They stay true for as long as the blocks are pinned. 0, or the error of a reference. */
static int note_places(struct kvmm_pool *pool, struct hold *hold)
{
	int err = 0;

	for (u32 i = 0; i < hold->nr && !err; i++)
		err = kvmm_blocks_of_refs(pool, &hold->ref[i], 1, &hold->block[i].block);
	return err;
}

/*
 * Are they references at all? While it is being asked they are the caller's. Names of held blocks
 * do not change, and references keep them.
 */
static int look_at_refs(struct kvmm_pool *pool, struct hold *hold)
{
	int err = pool->caches ? note_places(pool, hold) : -EOPNOTSUPP;

	if (err)
		return err;
	hold->domain = READ_ONCE(entry_at(pool, hold->ref[0].index)->domain);
	for (u32 i = 0; i < hold->nr; i++) {
		const struct kv_entry *entry = entry_at(pool, hold->ref[i].index);

		if (READ_ONCE(entry->domain) != hold->domain)
			return -EINVAL;
		hold->block[i].hold = hold;
		hold->block[i].key = kv_entry_key(entry);
	}
	return 0;
}

/* ---- and taken ---- */

/* The references of @hold become pins, which are references as well. */
static int pin_refs(struct kvmm_pool *pool, struct hold *hold)
{
	int err = kvmm_pin_many_as(pool, hold->ref, hold->nr, hold_pin_type(hold));

	kv_assert(hold->flags & KVMM_LEASE_PIN);
	if (err)
		return err;
	err = note_places(pool, hold);
	if (err)
		kvmm_unpin_many_as(pool, hold->ref, hold->nr, hold_pin_type(hold));
	else
		kvmm_put_many(pool, hold->ref, hold->nr);
	return err;
}

/*
 * References on the wanted blocks, in @hold, or an error and none. Only the blocks found stay; the
 * handles move up right behind the blocks.
 */
static int take_keys(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr, struct hold *hold)
{
	int err, nr = scan_uncounted(pool, attr->prefix, hold->ref);
	kvmm_ref_t *from = hold->ref;
	u32 to = 0;

	if (nr < 0)
		return nr;
	err = nr == hold->nr || (nr && attr->flags & KVMM_LEASE_PARTIAL) ? 0 : -ENOENT;
	for (u32 i = 0; i < hold->nr; i++) {
		if (!from[i].gen)
			continue;
		hold->block[to].hold = hold;
		hold->block[to].key = attr->prefix->keys[i];
		from[to++] = from[i];
	}
	KV_BUG_ON(to != nr);
	hold->ref = memmove(&hold->block[nr], from, nr * sizeof(*from));
	hold->nr = nr;
	if (!err && attr->flags & KVMM_LEASE_PIN)
		err = pin_refs(pool, hold);
	if (err)
		kvmm_put_many(pool, hold->ref, hold->nr);
	return err;
}

/* The reference, and the pin, and the table hears of it, in one hold of pool->lock. */
static int take_range(struct kvmm_pool *pool, struct making *making)
{
	struct hold *hold = making->hold;
	struct slot *slot;
	int err = range_enter(pool, hold->range, &slot);

	if (err)
		return err;
	err = range_reserve(pool, hold->range.index);
	if (!err && (slot->refs == UINT32_MAX ||
		     (range_kept(pool, hold->range) & KEPT_HOLDS) == KEPT_HOLDS))
		err = -EOVERFLOW;
	if (!err && hold->flags & KVMM_LEASE_PIN)
		err = slot_pin(pool, slot, hold_pin_type(hold));
	if (!err) {
		slot->refs++;
		pool->count.range_refs++;
		hold_insert(making->table, hold, making->lease);
	}
	pool_leave(pool);
	return err;
}

/* The number of blocks, or an error. Once it is in the table another thread may drop it. */
static int take(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr, struct making *making)
{
	struct hold *hold = making->hold;
	struct lease_table *table;
	int nr, err = 0;

	if (attr->prefix)
		err = look_at_keys(pool, attr, hold->ref);
	else if (attr->refs)
		err = look_at_refs(pool, hold);
	else if (hold->flags & KVMM_LEASE_PIN)
		err = pin_types_need(pool, hold_pin_type(hold));
	if (!err)
		err = leases_get(pool, &table);
	if (!err)
		err = hold_reserve(table, &making->handle);
	if (err)
		return err;
	making->table = table;
	hold->index = making->handle.index;
	making->lease.gen = making->handle.gen;
	if (attr->range.gen)
		return take_range(pool, making);
	if (attr->prefix)
		err = take_keys(pool, attr, hold);
	else if (!hold_has_refs(pool, table, hold))
		err = -EINVAL;
	else if (hold->flags & KVMM_LEASE_PIN)
		err = pin_refs(pool, hold);
	if (err)
		return err;
	nr = hold->nr;
	hold_insert(making->table, hold, making->lease);
	if (attr->prefix)
		kv_lookup_end(pool, &query_of(attr->prefix), 0, nr, KV_LOOKUP_UNTOLD);
	return nr;
}

int kvmm_lease_take(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
		    kvmm_lease_t *lease)
{
	struct kvmm_lease_attr known;
	struct making making;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !attr || !lease)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	if (!err)
		err = pool_refusal(pool);
	if (!err)
		err = making_init(&making, pool, &known);
	if (err)
		return err;
	err = take(pool, &known, &making);
	if (err < 0)
		return making_exit(&making, err);
	*lease = making.handle;
	return err;
}
