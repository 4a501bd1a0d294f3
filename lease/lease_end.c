// SPDX-License-Identifier: Apache-2.0
/*
 * Leases end: a hold is released, an owner loses all that it has, or time has run out. And they
 * are renewed.
 *
 * The owner may well be alive and use its handles at this moment. So each thing is taken by a
 * step that only one thread can take: a range under pool->lock, a block by its mark, which bars
 * staging, freeing and writing by others, a hold by leaving the table. The leaf lock is held over
 * the looking, not over the giving back.
 *
 * The last reference of a range cannot be dropped while a pin of another lease or call keeps it.
 * So whether the lease of a range, or a hold on one, may end is seen under pool->lock, and it
 * leaves the table there. Holds on blocks never meet that case.
 */
#include <limits.h>

#include <kv/mem.h>
#include <lease/lease.h>

#define EXPIRE_BATCH	64u	/* leases that are looked at in one go */
#define EXPIRE_BLOCKS	1024u	/* of holds, that leave the table in one go */

/* Leases that have left the table, and are to be given back. */
struct ended_leases {
	u32		blocks;		/* claimed, through ->chain */
	struct hold	*of_ranges;	/* through ->next, as the others */
	struct hold	*of_blocks;
	u32		nr;
};

#define NOTHING_ENDED	{ .blocks = KV_NONE }

/* ---- one lease leaves the table; pool->lock and ->lock held ---- */

/* References and pins on a range. */
struct range_share {
	u32 refs;
	u32 pins;
};

/* The range that it is about; gen 0: none. */
static kvmm_range_t range_of(u32 id, const struct lease *lease)
{
	if (lease_id_kind(id) == LEASE_HOLD)
		return lease->hold->range;
	return (kvmm_range_t){ lease_id_index(id),
			       lease_id_kind(id) == LEASE_RANGE ? lease->gen : 0 };
}

static void add_share(struct range_share *share, u32 id, const struct lease *lease)
{
	share->refs++;
	share->pins += lease_id_kind(id) == LEASE_HOLD && lease->hold->flags & KVMM_LEASE_PIN;
}

static struct range_share share_of(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
				   kvmm_range_t range)
{
	struct range_share share = { 0 };

	kv_assert_held(&table->lock);
	for (u32 id = KV_NONE; (id = lease_next(pool, table, owner, id)) != KV_NONE;) {
		kvmm_range_t own = range_of(id, lease_at(table, id));

		if (lease_id_kind(id) == LEASE_BLOCK)
			break;
		if (own.index == range.index && own.gen == range.gen)
			add_share(&share, id, lease_at(table, id));
	}
	return share;
}

/*
 * May it end, with all of @owner's leases, or alone if that is 0? 0: it may, and a block is ours
 * from here on. -EBUSY: a range would go that others pin; or a thread writes to the block, stages
 * or publishes it. -ESTALE: the block is neither private nor staged (now). A lease of a range that
 * is gone may end.
 */
static int prepare_end(struct kvmm_pool *pool, struct lease_table *table, u32 id, u64 owner,
		       struct ended_leases *ended)
{
	const struct lease *lease = lease_at(table, id);
	struct kv_handle block = { lease_id_index(id), lease->gen };
	struct range_share share = { 0 };
	kvmm_range_t range = range_of(id, lease);
	struct slot *slot;

	kv_assert_held(&pool->lock);
	kv_assert_held(&table->lock);
	if (lease_id_kind(id) == LEASE_BLOCK) {
		int err = kv_handle_step(&pool->entries, block, kv_edge_take);

		if (err)
			return err;
		WRITE_ONCE(entry_at(pool, block.index)->chain, ended->blocks);
		ended->blocks = block.index;
		return 0;
	}
	if (!range.gen || slot_find(pool, range, &slot) || !slot->pins)
		return 0;
	if (owner && range_kept(pool, range) & KEPT_HOLDS)
		share = share_of(pool, table, owner, range);
	else
		add_share(&share, id, lease);
	return share.refs >= slot->refs && slot->pins > share.pins ? -EBUSY : 0;
}

/* pool->lock may be missing for a hold on blocks. */
static void take_out(struct kvmm_pool *pool, struct lease_table *table, u32 id,
		     struct ended_leases *ended)
{
	struct hold *hold = lease_at(table, id)->hold;

	kv_assert_held(&table->lock);
	ended->nr++;
	if (lease_id_kind(id) == LEASE_BLOCK)
		claimed_step(pool, lease_id_index(id), kv_edge_taken);
	if (lease_id_kind(id) != LEASE_HOLD) {
		lease_clear(table, id);
		return;
	}
	hold_remove(table, hold);
	hold->next = hold_is_of_range(hold) ? ended->of_ranges : ended->of_blocks;
	*(hold_is_of_range(hold) ? &ended->of_ranges : &ended->of_blocks) = hold;
}

/* ---- giving back ---- */

/*
 * A caller may have dropped, or unpinned, for the hold: then there is less to do, and it is told.
 */
static int drop_range(struct kvmm_pool *pool, const struct hold *hold)
{
	struct slot *slot;
	int err;

	kv_assert_held(&pool->lock);
	err = slot_find(pool, hold->range, &slot);
	if (err)
		return err;
	if (hold->flags & KVMM_LEASE_PIN)
		err = slot_unpin(pool, slot, hold_pin_type(hold));
	put_slot(pool, slot, hold->range.index);
	return err;
}

static int drop_refs(struct kvmm_pool *pool, const struct hold *hold, u32 from, u32 nr)
{
	if (hold->flags & KVMM_LEASE_PIN)
		return kvmm_unpin_many_as(pool, &hold->ref[from], nr, hold_pin_type(hold));
	return kvmm_put_many(pool, &hold->ref[from], nr);
}

/* The order's lock is taken. */
static void release_blocks(struct kvmm_pool *pool, u32 first)
{
	u32 nr_staged = 0;

	kv_assert_held(&pool->lock);
	if (first == KV_NONE)
		return;
	order_enter(&pool->order);
	for (u32 index = first, next; index != KV_NONE; index = next) {
		u64 word = READ_ONCE(entry_at(pool, index)->word);

		next = READ_ONCE(entry_at(pool, index)->chain);
		nr_staged += kv_word_is(word, KV_ENTRY_STAGED);
		kv_fetch_sub(&pool->entries.nr_shares, kv_word_refs(word) - 1);
		entry_release(pool, kv_handle_of(index, word));
	}
	order_leave(&pool->order);
	pool->count.frees++;
	tally_add(pool, TALLY_STAGED, -(u64)nr_staged);
}

/* Ranges and blocks: the part that wants pool->lock, held. 0, or the error of a hold. */
static int give_back(struct kvmm_pool *pool, const struct ended_leases *ended)
{
	int err = 0;

	kv_assert_held(&pool->lock);
	for (struct hold *hold = ended->of_ranges; hold; hold = hold->next)
		err = drop_range(pool, hold);
	release_blocks(pool, ended->blocks);
	return err;
}

/* The rest, and the memory. No lock held. 0, or the error of a hold. */
static int finish(struct kvmm_pool *pool, struct ended_leases *ended)
{
	struct hold *hold;
	int err = 0;

	kv_assert_not_held(&pool->lock);
	while ((hold = ended->of_blocks)) {
		ended->of_blocks = hold->next;
		err = drop_refs(pool, hold, 0, hold->nr);
		/* If a caller has dropped one of the references, the others go all the same. */
		for (u32 i = 0; unlikely(err) && i < hold->nr; i++)
			drop_refs(pool, hold, i, 1);
		kv_free(hold);
	}
	while ((hold = ended->of_ranges)) {
		ended->of_ranges = hold->next;
		kv_free(hold);
	}
	return err;
}

/* ---- one hold ---- */

/* A hold on blocks needs ->lock alone, and one on a range pool->lock around it. */
static int release_one(struct kvmm_pool *pool, kvmm_lease_t handle)
{
	struct ended_leases ended = NOTHING_ENDED;
	u32 id = lease_id(LEASE_HOLD, handle.index);
	struct lease_table *table;
	struct lease *lease;
	int lost, err = hold_enter(pool, handle, &table, &lease);

	if (err)
		return err;
	if (!hold_is_of_range(lease->hold)) {
		take_out(pool, table, id, &ended);
		kv_unlock(&table->lock);
		lost = finish(pool, &ended);
		return lost ? lost : 1;
	}
	kv_unlock(&table->lock);
	err = pool_enter(pool);
	if (err)
		return err;
	err = hold_enter(pool, handle, &table, &lease);
	if (!err) {
		err = prepare_end(pool, table, id, 0, &ended);
		if (!err)
			take_out(pool, table, id, &ended);
		kv_unlock(&table->lock);
	}
	lost = give_back(pool, &ended);
	pool_leave(pool);
	finish(pool, &ended);
	return err ? err : lost ? lost : 1;
}

/* ---- all that an owner has ---- */

/*
 * Everything is checked, claimed and taken in one hold of the lock: no lease is added meanwhile. An
 * error: nothing is. Ranges stay in the table: pool->lock keeps their leases.
 */
static int claim_all(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
		     struct ended_leases *ended)
{
	u32 id = KV_NONE, next, at;
	int err = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&table->lock);
	while (!err && (id = lease_next(pool, table, owner, id)) != KV_NONE) {
		err = prepare_end(pool, table, id, owner, ended);
		if (err == -ESTALE)
			err = 0;	/* registered, or freed, just now */
	}
	for (at = ended->blocks; err && at != KV_NONE; at = READ_ONCE(entry_at(pool, at)->chain))
		kv_handle_step(&pool->entries, entry_handle(pool, at), kv_edge_unmark);
	if (err)
		return err;
	for (at = ended->blocks; at != KV_NONE; at = READ_ONCE(entry_at(pool, at)->chain))
		take_out(pool, table, lease_id(LEASE_BLOCK, at), ended);
	for (id = lease_next(pool, table, owner, KV_NONE); id != KV_NONE; id = next) {
		next = lease_next(pool, table, owner, id);
		if (lease_id_kind(id) == LEASE_HOLD)
			take_out(pool, table, id, ended);
	}
	return 0;
}

/*
 * The ranges that the owner has, and their leases. A range that is pinned although all pins of
 * holds went (one was of another type) stays. Drops and retakes ->lock for each.
 */
static void release_ranges(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
			   struct ended_leases *ended)
{
	u32 id = KV_NONE;

	kv_assert_held(&pool->lock);
	kv_lock(&table->lock);
	while ((id = lease_next(pool, table, owner, id)) != KV_NONE) {
		kvmm_range_t range = range_of(id, lease_at(table, id));
		struct slot *slot;

		if (lease_id_kind(id) != LEASE_RANGE)
			continue;
		lease_clear(table, id);
		kv_unlock(&table->lock);
		if (!slot_find(pool, range, &slot) && !last_put_is_barred(slot)) {
			put_slot(pool, slot, range.index);
			ended->nr++;
		}
		kv_lock(&table->lock);
		id = KV_NONE;	/* the chain has changed: from its start again */
	}
	kv_unlock(&table->lock);
}

static int release_all(struct kvmm_pool *pool, u64 owner)
{
	struct ended_leases ended = NOTHING_ENDED;
	struct lease_table *table;
	int err = leases_enter(pool, &table);

	if (err || !table)
		return err;
	err = pool_enter(pool);
	if (err)
		return err;
	kv_lock(&table->lock);
	err = claim_all(pool, table, owner, &ended);
	kv_unlock(&table->lock);
	if (!err) {
		give_back(pool, &ended);
		release_ranges(pool, table, owner, &ended);
	}
	pool_leave(pool);
	finish(pool, &ended);
	return err ? err : (int)min(ended.nr, (u32)INT_MAX);
}

int kvmm_lease_release(struct kvmm_pool *pool, uint64_t owner, const kvmm_lease_t *lease)
{
	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !owner == !lease)
		return -EINVAL;
	return lease ? release_one(pool, *lease) : release_all(pool, owner);
}

int kvmm_lease_renew(struct kvmm_pool *pool, uint64_t owner, const kvmm_lease_t *lease,
		     uint64_t lease_ns)
{
	struct lease_table *table;
	struct lease *one;
	u64 deadline_ns;
	u32 nr = 0, id = KV_NONE;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !owner == !lease)
		return -EINVAL;
	deadline_ns = lease_deadline(pool_clock_ns(pool), lease_ns);
	err = lease ? hold_enter(pool, *lease, &table, &one) : leases_enter(pool, &table);
	if (err || !table)
		return err;
	if (lease) {
		lease_set_deadline(table, lease_id(LEASE_HOLD, lease->index), deadline_ns);
		kv_unlock(&table->lock);
		return 1;
	}
	kv_lock(&table->lock);
	while ((id = lease_next(pool, table, owner, id)) != KV_NONE) {
		lease_set_deadline(table, id, deadline_ns);
		nr++;
	}
	kv_unlock(&table->lock);
	return min(nr, (u32)INT_MAX);
}

/* ---- expired leases ---- */

struct expiry {
	struct kvmm_pool		*pool;
	struct lease_table		*table;
	u64				now_ns;
	struct kvmm_lease_expired	found;
};

/* Of leases *@at to @to those that have expired. Drops and retakes ->lock for each range. */
static void end_expired(struct expiry *expiry, u32 *at, u32 to, struct ended_leases *ended)
{
	struct lease_table *table = expiry->table;
	struct kvmm_pool *pool = expiry->pool;
	u32 nr_blocks = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&table->lock);
	for (; *at < to && nr_blocks < EXPIRE_BLOCKS; ++*at) {
		const struct lease *lease = lease_at(table, *at);
		kvmm_range_t range;
		int err;

		if (!lease->deadline_ns || lease->deadline_ns > expiry->now_ns ||
		    !lease_is_live(pool, *at, lease->gen))
			continue;
		if (!(lease->flags & KVMM_LEASE_RECLAIM)) {
			expiry->found.nr_left++;
			continue;
		}
		err = prepare_end(pool, table, *at, 0, ended);
		if (err) {
			expiry->found.nr_busy += err == -EBUSY;
			continue;
		}
		range = range_of(*at, lease);
		if (lease_id_kind(*at) == LEASE_HOLD)
			nr_blocks += lease->hold->nr;
		take_out(pool, table, *at, ended);
		if (!range.gen)
			continue;
		/* At once: the next one may be about the same range. */
		kv_unlock(&table->lock);
		if (lease_id_kind(*at) == LEASE_RANGE)
			put_slot(pool, slot_at(pool, range.index), range.index);
		else
			drop_range(pool, ended->of_ranges);
		kv_lock(&table->lock);
	}
}

/* Some leases of a kind in one go: the locks are not held longer than that. */
static int expire_kind(struct expiry *expiry, enum lease_kind kind)
{
	struct lease_table *table = expiry->table;
	struct kvmm_pool *pool = expiry->pool;
	u32 at = lease_id(kind, 0), end = lease_id(kind, table->nr_chunks << LEASE_CHUNK_ORDER);

	static_assert(LEASE_CHUNK % EXPIRE_BATCH == 0, "a batch is of one chunk");
	do {
		struct ended_leases ended = NOTHING_ENDED;
		int err;

		if (kind != LEASE_HOLD && !lease_at(table, at)) {
			at += EXPIRE_BATCH;
			continue;
		}
		err = pool_enter(pool);
		if (err)
			return err;
		kv_lock(&table->lock);
		if (kind == LEASE_HOLD)
			end = lease_id(kind, nr_hold_slots(table));
		end_expired(expiry, &at, min(end, at + EXPIRE_BATCH), &ended);
		kv_unlock(&table->lock);
		release_blocks(pool, ended.blocks);
		pool_leave(pool);
		finish(pool, &ended);
		expiry->found.nr_reclaimed += ended.nr;
	} while (at < end);
	return 0;
}

int kvmm_lease_expire_sized(struct kvmm_pool *pool, uint64_t now_ns,
			    struct kvmm_lease_expired *expired, size_t size)
{
	struct expiry expiry = { .pool = pool };
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (expired && kv_size_is_bad(expired, size))
		return -EINVAL;
	err = leases_enter(pool, &expiry.table);
	if (err)
		return err;
	expiry.now_ns = pool_told_ns(pool, now_ns);
	for (enum lease_kind kind = LEASE_RANGE; expiry.table && kind <= LEASE_HOLD && !err; kind++)
		err = expire_kind(&expiry, kind);
	if (expired)
		kv_give(expired, size, &expiry.found, sizeof(expiry.found));
	return err ? err : (int)expiry.found.nr_reclaimed;
}
