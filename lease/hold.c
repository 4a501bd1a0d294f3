// SPDX-License-Identifier: Apache-2.0
/*
 * Holds are made: on cached blocks by key, of references that a caller has, on ranges.
 *
 * A hold is made in this order: memory, a place in the table, references, and then the table
 * hears of it. Each step can be undone without a trace, and nothing is ever taken with the
 * table's lock held. It goes in the opposite order (lease_end.c), so between its leaving the
 * table and the drop of its references no lease tells of them.
 *
 * The hard part is that a failure must not cost the blocks a touch: whether all is cached, and
 * may be pinned, is asked first, which takes nothing. A change between that and the scan
 * makes the difference of one touch, and nothing else: hits and misses are counted once the hold
 * is made.
 */
#include <limits.h>

#include <kv/mem.h>
#include <pool/determ.h>
#include <pool/lease.h>

/* A hold that is being made: its memory, and its place in the table. */
struct making {
	struct hold		*hold;		/* ours */
	struct lease_table	*table;		/* NULL: no place yet */
	struct lease		lease;
	kvmm_hold_t		handle;
};

/* 0 or -EINVAL; all but the prefix. @flags: KVMM_HOLD_* that it may have. */
static int check_common(const struct kvmm_hold_attr *attr, u32 flags)
{
	if (attr->flags & ~flags || attr->reason >= KVMM_NR_HOLD_REASONS)
		return -EINVAL;
	return attr->text && strnlen(attr->text, KVMM_HOLD_TEXT + 1) > KVMM_HOLD_TEXT ? -EINVAL : 0;
}

/* References have no place in it yet: there may be fewer. 0 or -ENOMEM. */
static int making_init(struct making *making, struct kvmm_pool *pool,
		       const struct kvmm_hold_attr *attr, u32 nr)
{
	struct hold *hold = kv_alloc(sizeof(*hold) +
				     nr * (sizeof(struct held) + sizeof(kvmm_ref_t)));
	u64 now_ns = pool_clock_ns(pool);

	*making = (struct making){ .hold = hold, .lease = {
		.owner = attr->owner, .since_ns = now_ns,
		.deadline_ns = lease_deadline(now_ns, attr->lease_ns),
		.flags = attr->flags & KVMM_HOLD_RECLAIM ? KVMM_OWN_RECLAIM : 0,
	} };
	if (!hold)
		return -ENOMEM;
	hold->nr = nr;
	hold->reason = attr->reason;
	hold->flags = attr->flags;
	if (attr->prefix)
		hold->domain = kv_domain_word(attr->prefix->domain);
	if (attr->text)
		strncpy(hold->text, attr->text, KVMM_HOLD_TEXT);
	hold->ref = (kvmm_ref_t *)&hold->block[nr];
	return 0;
}

static int making_reserve(struct making *making, struct kvmm_pool *pool)
{
	struct lease_table *table;
	int err = leases_get(pool, &table);

	if (!err)
		err = hold_reserve(table, &making->handle);
	if (err)
		return err;
	making->table = table;
	making->hold->index = making->handle.index;
	making->lease.gen = making->handle.gen;
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

/* Once it is in the table another thread may drop it. */
static void making_done(struct making *making, kvmm_hold_t *handle)
{
	*handle = making->handle;
	hold_insert(making->table, making->hold, making->lease);
}

/* ---- on blocks, by key ---- */

/* Only the blocks found stay; the handles move up right behind the blocks. */
static void keep_found(struct hold *hold, const kvmm_key_t *keys, u32 nr_found)
{
	kvmm_ref_t *ref = (kvmm_ref_t *)&hold->block[nr_found], *from = hold->ref;
	u32 nr = 0;

	for (u32 i = 0; i < hold->nr; i++) {
		if (!from[i].gen)
			continue;
		hold->block[nr].hold = hold;
		hold->block[nr].key = keys[i];
		from[nr++] = from[i];
	}
	memmove(ref, from, nr_found * sizeof(*ref));
	hold->ref = ref;
	hold->nr = nr_found;
}

/*
 * Are the wanted blocks there, and may they be pinned? Asking takes nothing. @scratch has room for
 * a bit a key.
 */
static int probe(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, void *scratch)
{
	int nr = kvmm_prefix_probe(pool, attr->prefix, scratch), err;

	if (nr < 0)
		return nr;
	if (nr < attr->prefix->nr && (!nr || !(attr->flags & KVMM_HOLD_PARTIAL)))
		return -ENOENT;
	if (!(attr->flags & KVMM_HOLD_PIN))
		return 0;
	err = pins_reserve(&pool->pins, nr);
	pins_give_back(&pool->pins, err ? 0 : nr);
	return err;
}

/* References on the wanted blocks, in @hold, or an error and none. */
static int take_refs(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, struct hold *hold)
{
	int err, nr = scan_uncounted(pool, attr->prefix, hold->ref);

	if (nr < 0)
		return nr;
	err = nr == hold->nr || (nr && attr->flags & KVMM_HOLD_PARTIAL) ? 0 : -ENOENT;
	keep_found(hold, attr->prefix->keys, nr);
	if (err)
		kvmm_put_many(pool, hold->ref, nr);
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

static int pin_refs(struct kvmm_pool *pool, struct hold *hold)
{
	int err = kvmm_pin_many_as(pool, hold->ref, hold->nr, hold_pin_type(hold));

	if (!err) {
		err = note_places(pool, hold);
		/* Pins are references as well. */
		if (err)
			kvmm_unpin_many_as(pool, hold->ref, hold->nr, hold_pin_type(hold));
		else
			kvmm_put_many(pool, hold->ref, hold->nr);
	}
	return err;
}

static int take_blocks(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
		       struct hold *hold)
{
	int err = take_refs(pool, attr, hold);

	if (err || !(attr->flags & KVMM_HOLD_PIN))
		return err;
	err = pin_refs(pool, hold);
	if (err)
		kvmm_put_many(pool, hold->ref, hold->nr);
	return err;
}

int kvmm_hold(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, kvmm_hold_t *handle)
{
	struct kvmm_hold_attr known = { .prefix = NULL };
	const struct kvmm_prefix *prefix;
	struct making making;
	u32 nr;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !attr || !handle)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	prefix = known.prefix;
	if (!err)
		err = !prefix || !prefix->nr || !prefix->keys || prefix->nr > INT_MAX ? -EINVAL :
		      check_common(&known, KVMM_HOLD_PIN | KVMM_HOLD_PARTIAL | KVMM_HOLD_RECLAIM);
	if (!err)
		err = making_init(&making, pool, &known, prefix->nr);
	if (err)
		return err;
	err = probe(pool, &known, making.hold->ref);
	if (!err)
		err = making_reserve(&making, pool);
	if (!err)
		err = take_blocks(pool, &known, making.hold);
	if (err)
		return making_exit(&making, err);
	nr = making.hold->nr;
	making_done(&making, handle);
	count_lookup(pool, nr, prefix->nr - nr);
	return nr;
}

/* ---- of references that a caller has, or on a range ---- */

/* The attributes, a hold for @nr references, and its place in the table. */
static int prepare(struct making *making, struct kvmm_pool *pool,
		   const struct kvmm_hold_attr *attr, u32 nr)
{
	struct kvmm_hold_attr known;
	int err = kv_copy_attr(&known, sizeof(known), attr);

	if (!err)
		err = known.prefix ? -EINVAL :
				     check_common(&known, KVMM_HOLD_PIN | KVMM_HOLD_RECLAIM);
	if (!err)
		err = pool_refusal(pool);
	if (!err)
		err = making_init(making, pool, &known, nr);
	if (err)
		return err;
	err = making_reserve(making, pool);
	return err ? making_exit(making, err) : 0;
}

/* Names of held blocks do not change, and references keep them. */
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
	hold->domain = domain;
	return 0;
}

int kvmm_hold_take(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr,
		   const kvmm_ref_t *refs, uint32_t nr, kvmm_hold_t *handle)
{
	struct making making;
	struct hold *hold;
	int err;

	if (!pool || !attr || !handle || !refs || !nr || nr > INT32_MAX)
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	err = prepare(&making, pool, attr, nr);
	if (err)
		return err;
	hold = making.hold;
	memcpy(hold->ref, refs, nr * sizeof(*refs));
	/* Are they references at all? While it is being asked they are the caller's. */
	err = note_places(pool, hold);
	if (!err)
		err = name_refs(pool, hold);
	if (!err && !hold_has_refs(pool, making.table, hold))
		err = -EINVAL;
	if (!err && hold->flags & KVMM_HOLD_PIN)
		err = pin_refs(pool, hold);
	if (err)
		return making_exit(&making, err);
	making_done(&making, handle);
	return 0;
}

/* The reference, and the pin, and the table hears of it. pool->lock held. */
static int get_range(struct kvmm_pool *pool, struct slot *slot, struct making *making,
		     kvmm_hold_t *handle)
{
	struct hold *hold = making->hold;
	int err = range_reserve(pool, hold->range.index);

	kv_assert_held(&pool->lock);
	if (!err && (slot->refs == UINT32_MAX ||
		     (range_kept(pool, hold->range) & KEPT_HOLDS) == KEPT_HOLDS))
		err = -EOVERFLOW;
	if (!err && hold->flags & KVMM_HOLD_PIN)
		err = slot_pin(pool, slot, hold_pin_type(hold));
	if (err)
		return err;
	slot->refs++;
	pool->count.range_refs++;
	making_done(making, handle);
	return 0;
}

int kvmm_hold_range(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, kvmm_range_t range,
		    kvmm_hold_t *handle)
{
	struct making making;
	struct slot *slot;
	int err;

	if (!pool || !attr || !handle)
		return -EINVAL;
	err = prepare(&making, pool, attr, 0);
	if (err)
		return err;
	making.hold->range = range;
	if (making.hold->flags & KVMM_HOLD_PIN)
		err = pin_types_need(pool, hold_pin_type(making.hold));
	if (!err)
		err = range_enter(pool, range, &slot);
	if (err)
		return making_exit(&making, err);
	err = get_range(pool, slot, &making, handle);
	pool_leave(pool);
	return err ? making_exit(&making, err) : 0;
}
