// SPDX-License-Identifier: Apache-2.0
/*
 * Holds come and go.
 *
 * A hold is made in this order: memory, a slot, references, and then the table hears of it. Each step
 * can be undone without a trace, and nothing is ever taken with the table's lock held. It goes in the
 * opposite order, so between its leaving the table and the drop of its references the blocks are
 * merely held by nobody in particular.
 *
 * The hard part is that a failure must not cost the blocks a touch: whether all is cached, and may be
 * pinned, is asked first, which takes nothing. What changes between that and the scan makes the
 * difference of one touch, and nothing else: hits and misses are counted once the hold is made.
 */
#include <limits.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "determ.h"
#include "hold.h"
#include "lease.h"

#define EXPIRE_BLOCKS	1024u	/* that leave the table in one go */

/* ---- making one ---- */

int hold_check_attr(const struct kvmm_hold_attr *attr, u32 flags)
{
	if (attr->flags & ~flags || attr->reason >= KVMM_NR_HOLD_REASONS)
		return -EINVAL;
	return attr->text && strnlen(attr->text, KVMM_HOLD_TEXT + 1) > KVMM_HOLD_TEXT ? -EINVAL : 0;
}

static int check_attr(const struct kvmm_hold_attr *attr)
{
	const struct kvmm_prefix *prefix = attr->prefix;

	if (!prefix || !prefix->nr || !prefix->keys || prefix->nr > INT_MAX)
		return -EINVAL;
	return hold_check_attr(attr, KVMM_HOLD_PIN | KVMM_HOLD_PARTIAL | KVMM_HOLD_RECLAIM);
}

/* References have no place in it yet: there may be fewer. NULL: no memory. */
struct hold *hold_new(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, u32 nr)
{
	size_t bytes = nr * (sizeof(struct held) + sizeof(kvmm_ref_t));
	struct hold *hold = kv_alloc(sizeof(*hold) + bytes);

	if (!hold)
		return NULL;
	hold->owner = attr->owner;
	hold->since_ns = pool_clock_ns(pool);
	hold->deadline_ns = own_deadline(hold->since_ns, attr->lease_ns);
	hold->nr = nr;
	hold->reason = attr->reason;
	hold->flags = attr->flags;
	if (attr->prefix)
		hold->domain = attr->prefix->domain;
	if (attr->text)
		strncpy(hold->text, attr->text, KVMM_HOLD_TEXT);
	hold->ref = (kvmm_ref_t *)&hold->block[nr];
	return hold;
}

/* Only what was found stays; the handles move up right behind the blocks. */
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

/* Is there what is wanted, and may it be pinned? Asking takes nothing. @scratch has room for a bit a key. */
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

/* References on what is wanted, in @hold, or an error and none. */
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

/* Pinned, so they stay true. */
static int note_places(struct kvmm_pool *pool, struct hold *hold)
{
	int err = 0;

	for (u32 i = 0; i < hold->nr && !err; i++)
		err = kvmm_blocks_of_refs(pool, &hold->ref[i], 1, &hold->block[i].block);
	return err;
}

int hold_pin_refs(struct kvmm_pool *pool, struct hold *hold)
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
	err = hold_pin_refs(pool, hold);
	if (err)
		kvmm_put_many(pool, hold->ref, hold->nr);
	return err;
}

static int make_hold(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, kvmm_hold_t *handle)
{
	struct hold_table *table;
	struct hold *hold = hold_new(pool, attr, attr->prefix->nr);
	u32 nr;
	int err;

	if (!hold)
		return -ENOMEM;
	err = probe(pool, attr, hold->ref);
	if (!err)
		err = holds_get(pool, &table);
	if (err)
		goto out_free_hold;
	err = hold_reserve(table, &hold->handle);
	if (err)
		goto out_free_hold;
	err = take_blocks(pool, attr, hold);
	if (err)
		goto out_unreserve;
	/* Once it is in the table somebody may drop it. */
	*handle = hold->handle;
	nr = hold->nr;
	hold_insert(table, hold);
	count_lookup(pool, nr, attr->prefix->nr - nr);
	return nr;

out_unreserve:
	hold_unreserve(table, hold->handle);
out_free_hold:
	kv_free(hold);
	return err;
}

int kvmm_hold(struct kvmm_pool *pool, const struct kvmm_hold_attr *attr, kvmm_hold_t *hold)
{
	struct kvmm_hold_attr known;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !attr || !hold)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	return err ? err : make_hold(pool, &known, hold);
}

/* ---- dropping it ---- */

static int drop_refs(struct kvmm_pool *pool, const struct hold *hold, u32 from, u32 nr)
{
	if (hold->flags & KVMM_HOLD_PIN)
		return kvmm_unpin_many_as(pool, &hold->ref[from], nr, hold_pin_type(hold));
	return kvmm_put_many(pool, &hold->ref[from], nr);
}

/* It has left the table. If a caller has dropped what it had of one block, the others go all the same. */
static int drop_hold(struct kvmm_pool *pool, struct hold *hold)
{
	int err = drop_refs(pool, hold, 0, hold->nr);

	for (u32 i = 0; unlikely(err) && i < hold->nr; i++)
		drop_refs(pool, hold, i, 1);
	kv_free(hold);
	return err;
}

int kvmm_hold_release(struct kvmm_pool *pool, kvmm_hold_t handle)
{
	struct hold_table *table;
	struct hold *hold;
	int err = hold_enter(pool, handle, &table, &hold);
	bool is_of_range;

	if (err)
		return err;
	is_of_range = hold_is_of_range(hold);
	if (!is_of_range)
		hold_remove(table, hold);
	kv_unlock(&table->lock);
	return is_of_range ? hold_release_range(pool, handle, 0) : drop_hold(pool, hold);
}

void hold_set_deadline(struct hold_table *table, struct hold *hold, u64 deadline_ns)
{
	kv_assert_held(&table->lock);
	table->deadlines += deadline_ns - hold->deadline_ns;
	hold->deadline_ns = deadline_ns;
}

int kvmm_hold_renew(struct kvmm_pool *pool, kvmm_hold_t handle, uint64_t lease_ns)
{
	u64 deadline_ns = own_deadline(pool ? pool_clock_ns(pool) : 0, lease_ns);
	struct hold_table *table;
	struct hold *hold;
	int err = hold_enter(pool, handle, &table, &hold);

	if (err)
		return err;
	hold_set_deadline(table, hold, deadline_ns);
	kv_unlock(&table->lock);
	return 0;
}

#define EXPIRE_RANGES	64u	/* holds on ranges that are noted in one go */

/* What has left the table, and what the pool's lock has to be taken for first. */
struct expired {
	struct hold	*list;
	kvmm_hold_t	range[EXPIRE_RANGES];
	u32		nr_ranges;
};

/*
 * From slot *@at on, holds whose lease has run out leave the table, or are noted. Some slots and some
 * blocks in one go: the lock is not held longer than that.
 */
static void take_expired(struct hold_table *table, u32 *at, struct hold_expiry *expiry,
			 struct expired *expired)
{
	u32 to = min(*at + HOLD_WALK, table->nr_slots), nr_blocks = 0;

	*expired = (struct expired){ .nr_ranges = 0 };
	for (; *at < to && nr_blocks < EXPIRE_BLOCKS && expired->nr_ranges < EXPIRE_RANGES;
	     (*at)++) {
		struct hold *hold = hold_slot(table, *at)->hold;

		if (!hold || !hold->deadline_ns || hold->deadline_ns > expiry->now_ns)
			continue;
		if ((hold->flags & expiry->flags) != expiry->flags) {
			expiry->nr_left++;
			continue;
		}
		if (hold_is_of_range(hold)) {
			expired->range[expired->nr_ranges++] = hold->handle;
			continue;
		}
		hold_remove(table, hold);
		nr_blocks += hold->nr;
		hold->next = expired->list;
		expired->list = hold;
	}
}

u32 holds_drop(struct kvmm_pool *pool, struct hold *list)
{
	struct hold *hold;
	u32 nr;

	for (nr = 0; (hold = list); nr++) {
		list = hold->next;
		drop_hold(pool, hold);
	}
	return nr;
}

/* Those on ranges may have been renewed, or released, since they were noted. */
static void drop_expired(struct kvmm_pool *pool, const struct expired *expired,
			 struct hold_expiry *expiry)
{
	expiry->nr_dropped += holds_drop(pool, expired->list);
	for (u32 i = 0; i < expired->nr_ranges; i++) {
		int err = hold_release_range(pool, expired->range[i], expiry->now_ns);

		expiry->nr_dropped += !err;
		expiry->nr_busy += err == -EBUSY;
	}
}

int holds_expire(struct kvmm_pool *pool, struct hold_expiry *expiry)
{
	struct hold_table *table;
	struct expired expired;
	u32 at = 0, nr_slots;
	int err = holds_enter(pool, &table);

	if (err || !table)
		return err;
	do {
		kv_lock(&table->lock);
		take_expired(table, &at, expiry, &expired);
		nr_slots = table->nr_slots;
		kv_unlock(&table->lock);
		drop_expired(pool, &expired, expiry);
	} while (at < nr_slots);
	return 0;
}

int kvmm_hold_expire(struct kvmm_pool *pool, uint64_t now_ns)
{
	struct hold_expiry expiry = { .flags = 0 };
	int err;

	if (!pool)
		return -EINVAL;
	expiry.now_ns = pool_told_ns(pool, now_ns);
	err = holds_expire(pool, &expiry);
	return err ? err : (int)expiry.nr_dropped;
}
