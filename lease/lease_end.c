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
#include <pool/determ.h>
#include <pool/lease.h>

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
	share->pins += lease_id_kind(id) == LEASE_HOLD && lease->hold->flags & KVMM_HOLD_PIN;
}

static struct range_share share_of(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
				   kvmm_range_t range)
{
	struct range_share share = { 0 };

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
 * It is ours from here on: 0. -EBUSY: a thread writes to it, or stages or publishes it. -ESTALE:
 * it is neither private nor staged (now).
 */
static int claim_block(struct kvmm_pool *pool, u32 id, u32 gen)
{
	struct kv_handle handle = { lease_id_index(id), gen };

	if (!kv_handle_step(&pool->entries, handle, kv_edge_mark_private) ||
	    !kv_handle_step(&pool->entries, handle, kv_edge_mark))
		return 0;
	return lease_is_live(pool, id, gen) ? -EBUSY : -ESTALE;
}

/*
 * May it end, with all of @owner's leases, or alone if that is 0? A block is claimed then. 0,
 * -EBUSY, -ESTALE as claim_block(). A lease of a thing that is gone may end.
 */
static int prepare_end(struct kvmm_pool *pool, struct lease_table *table, u32 id, u64 owner,
		       struct ended_leases *ended)
{
	const struct lease *lease = lease_at(table, id);
	u32 index = lease_id_index(id);
	struct range_share share = { 0 };
	kvmm_range_t range = range_of(id, lease);
	struct slot *slot;
	int err;

	kv_assert_held(&pool->lock);
	kv_assert_held(&table->lock);
	if (lease_id_kind(id) == LEASE_BLOCK) {
		err = claim_block(pool, id, lease->gen);
		if (!err) {
			WRITE_ONCE(entry_at(pool, index)->chain, ended->blocks);
			ended->blocks = index;
		}
		return err;
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
static void take_out(struct lease_table *table, u32 id, struct ended_leases *ended)
{
	struct hold *hold = lease_at(table, id)->hold;

	kv_assert_held(&table->lock);
	ended->nr++;
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
	if (hold->flags & KVMM_HOLD_PIN)
		err = slot_unpin(pool, slot, hold_pin_type(hold));
	put_slot(pool, slot, hold->range.index);
	return err;
}

static int drop_refs(struct kvmm_pool *pool, const struct hold *hold, u32 from, u32 nr)
{
	if (hold->flags & KVMM_HOLD_PIN)
		return kvmm_unpin_many_as(pool, &hold->ref[from], nr, hold_pin_type(hold));
	return kvmm_put_many(pool, &hold->ref[from], nr);
}

/* If a caller has dropped the hold's reference on one block, the others go all the same. */
static int drop_blocks(struct kvmm_pool *pool, const struct hold *hold)
{
	int err = drop_refs(pool, hold, 0, hold->nr);

	for (u32 i = 0; unlikely(err) && i < hold->nr; i++)
		drop_refs(pool, hold, i, 1);
	return err;
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
		entry_release(pool, kv_handle_of(index, word));
	}
	order_leave(&pool->order);
	pool->count.frees++;
	tally_add(pool, TALLY_STAGED, -(u64)nr_staged);
}

static void unclaim_blocks(struct kvmm_pool *pool, u32 first)
{
	for (u32 index = first; index != KV_NONE; index = READ_ONCE(entry_at(pool, index)->chain))
		kv_handle_step(&pool->entries, entry_handle(pool, index), kv_edge_unmark);
}

/* Ranges and blocks: the part that wants pool->lock, held. 0, or the error of a hold. */
static int give_back(struct kvmm_pool *pool, const struct ended_leases *ended)
{
	int err = 0;

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

	while ((hold = ended->of_blocks)) {
		ended->of_blocks = hold->next;
		err = drop_blocks(pool, hold);
		kv_free(hold);
	}
	while ((hold = ended->of_ranges)) {
		ended->of_ranges = hold->next;
		kv_free(hold);
	}
	return err;
}

/* ---- one hold ---- */

static int release_range(struct kvmm_pool *pool, kvmm_hold_t handle)
{
	struct ended_leases ended = NOTHING_ENDED;
	u32 id = lease_id(LEASE_HOLD, handle.index);
	struct lease_table *table;
	struct lease *lease;
	int lost = 0, err = pool_enter(pool);

	if (err)
		return err;
	err = hold_enter(pool, handle, &table, &lease);
	if (!err) {
		err = prepare_end(pool, table, id, 0, &ended);
		if (!err)
			take_out(table, id, &ended);
		kv_unlock(&table->lock);
	}
	if (!err)
		lost = give_back(pool, &ended);
	pool_leave(pool);
	finish(pool, &ended);
	return err ? err : lost;
}

int kvmm_hold_release(struct kvmm_pool *pool, kvmm_hold_t handle)
{
	struct ended_leases ended = NOTHING_ENDED;
	struct lease_table *table;
	struct lease *lease;
	bool is_of_range;
	int err = hold_enter(pool, handle, &table, &lease);

	if (err)
		return err;
	is_of_range = hold_is_of_range(lease->hold);
	if (!is_of_range)
		take_out(table, lease_id(LEASE_HOLD, handle.index), &ended);
	kv_unlock(&table->lock);
	return is_of_range ? release_range(pool, handle) : finish(pool, &ended);
}

int kvmm_hold_renew(struct kvmm_pool *pool, kvmm_hold_t handle, uint64_t lease_ns)
{
	u64 deadline_ns = lease_deadline(pool ? pool_clock_ns(pool) : 0, lease_ns);
	struct lease_table *table;
	struct lease *lease;
	int err = hold_enter(pool, handle, &table, &lease);

	if (err)
		return err;
	lease_set_deadline(table, lease_id(LEASE_HOLD, handle.index), deadline_ns);
	kv_unlock(&table->lock);
	return 0;
}

/* ---- all that an owner has ---- */

/*
 * Everything is checked, claimed and taken in one hold of the lock: no lease is added meanwhile. An
 * error: nothing is. Ranges stay in the table: pool->lock keeps their leases.
 */
static int claim_all(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
		     struct ended_leases *ended)
{
	u32 id = KV_NONE, next;
	int err = 0;

	while (!err && (id = lease_next(pool, table, owner, id)) != KV_NONE) {
		err = prepare_end(pool, table, id, owner, ended);
		if (err == -ESTALE)
			err = 0;	/* registered, or freed, just now */
	}
	if (err) {
		unclaim_blocks(pool, ended->blocks);
		return err;
	}
	for (u32 at = ended->blocks; at != KV_NONE; at = READ_ONCE(entry_at(pool, at)->chain))
		take_out(table, lease_id(LEASE_BLOCK, at), ended);
	for (id = lease_next(pool, table, owner, KV_NONE); id != KV_NONE; id = next) {
		next = lease_next(pool, table, owner, id);
		if (lease_id_kind(id) == LEASE_HOLD)
			take_out(table, id, ended);
	}
	return 0;
}

/* The next range that the owner has; its lease goes. */
static bool take_range(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
		       kvmm_range_t *range)
{
	u32 id = KV_NONE;

	kv_lock(&table->lock);
	do
		id = lease_next(pool, table, owner, id);
	while (id != KV_NONE && lease_id_kind(id) != LEASE_RANGE);
	if (id != KV_NONE) {
		*range = range_of(id, lease_at(table, id));
		lease_clear(table, id);
	}
	kv_unlock(&table->lock);
	return id != KV_NONE;
}

/* A range that is pinned although all pins of holds went (one was of another type) stays. */
static void release_ranges(struct kvmm_pool *pool, struct lease_table *table, u64 owner,
			   struct ended_leases *ended)
{
	kvmm_range_t range;
	struct slot *slot;

	kv_assert_held(&pool->lock);
	while (take_range(pool, table, owner, &range)) {
		if (slot_find(pool, range, &slot) || last_put_is_barred(slot))
			continue;
		put_slot(pool, slot, range.index);
		ended->nr++;
	}
}

int kvmm_owner_release(struct kvmm_pool *pool, uint64_t owner)
{
	struct ended_leases ended = NOTHING_ENDED;
	struct lease_table *table;
	int err;

	if (!pool || !owner)
		return -EINVAL;
	err = leases_enter(pool, &table);
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

int kvmm_owner_renew(struct kvmm_pool *pool, uint64_t owner, uint64_t lease_ns)
{
	struct lease_table *table;
	u32 nr = 0, id = KV_NONE;
	u64 deadline_ns;
	int err;

	if (!pool || !owner)
		return -EINVAL;
	err = leases_enter(pool, &table);
	if (err || !table)
		return err;
	deadline_ns = lease_deadline(pool_clock_ns(pool), lease_ns);
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
	u64			now_ns;
	u32			flags;	/* KVMM_OWN_*: only those that have them end */
	struct kvmm_expired	found;
};

static bool is_expired(const struct kvmm_pool *pool, const struct lease *lease, u32 id, u64 now_ns)
{
	return lease->deadline_ns && lease->deadline_ns <= now_ns &&
	       lease_is_live(pool, id, lease->gen);
}

/*
 * From *@at to @to: holds on blocks that have expired leave the table, other leases are noted in
 * @ids, as pool->lock has to be taken for them first. How many are. ->lock held.
 */
static u32 find_expired(struct kvmm_pool *pool, struct lease_table *table, u32 *at, u32 to,
			struct expiry *expiry, u32 *ids, struct ended_leases *ended)
{
	u32 nr = 0, nr_blocks = 0;

	kv_assert_held(&table->lock);
	for (; *at < to && nr_blocks < EXPIRE_BLOCKS; ++*at) {
		const struct lease *lease = lease_at(table, *at);

		if (!is_expired(pool, lease, *at, expiry->now_ns))
			continue;
		if ((lease->flags & expiry->flags) != expiry->flags) {
			expiry->found.nr_left++;
		} else if (lease_id_kind(*at) == LEASE_HOLD && !hold_is_of_range(lease->hold)) {
			nr_blocks += lease->hold->nr;
			take_out(table, *at, ended);
		} else {
			ids[nr++] = *at;
		}
	}
	return nr;
}

/* It may have been renewed, released or freed since it was noted. pool->lock held. */
static void end_expired(struct kvmm_pool *pool, struct lease_table *table, u32 id,
			struct expiry *expiry, struct ended_leases *ended)
{
	kvmm_range_t range = { 0, 0 };
	const struct lease *lease;
	int err = -EAGAIN;

	kv_assert_held(&pool->lock);
	kv_lock(&table->lock);
	lease = lease_at(table, id);
	if (is_expired(pool, lease, id, expiry->now_ns) &&
	    (lease->flags & expiry->flags) == expiry->flags)
		err = prepare_end(pool, table, id, 0, ended);
	if (!err) {
		range = range_of(id, lease);
		take_out(table, id, ended);
	}
	kv_unlock(&table->lock);
	expiry->found.nr_busy += err == -EBUSY;
	/* At once: the next one may be about the same range. */
	if (!err && lease_id_kind(id) == LEASE_RANGE)
		put_slot(pool, slot_at(pool, range.index), range.index);
	else if (!err && range.gen)	/* else a hold on blocks has the id by now */
		drop_range(pool, ended->of_ranges);
}

static int end_noted(struct kvmm_pool *pool, struct lease_table *table, const u32 *ids, u32 nr,
		     struct expiry *expiry, struct ended_leases *ended)
{
	int err = nr ? pool_enter(pool) : 0;

	if (err || !nr)
		return err;
	for (u32 i = 0; i < nr; i++)
		end_expired(pool, table, ids[i], expiry, ended);
	release_blocks(pool, ended->blocks);
	pool_leave(pool);
	return 0;
}

/* Some leases of a kind in one go: the lock is not held longer than that. */
static int expire_kind(struct kvmm_pool *pool, struct lease_table *table, enum lease_kind kind,
		       struct expiry *expiry)
{
	u32 at = lease_id(kind, 0), end, ids[EXPIRE_BATCH];
	int err = 0;

	static_assert(LEASE_CHUNK % EXPIRE_BATCH == 0, "a batch is of one chunk");
	do {
		struct ended_leases ended = NOTHING_ENDED;
		u32 nr;

		end = lease_id(kind, table->nr_chunks << LEASE_CHUNK_ORDER);
		if (kind != LEASE_HOLD && !lease_at(table, at)) {
			at += EXPIRE_BATCH;
			continue;
		}
		kv_lock(&table->lock);
		if (kind == LEASE_HOLD)
			end = lease_id(kind, nr_hold_slots(table));
		nr = find_expired(pool, table, &at, min(end, at + EXPIRE_BATCH), expiry, ids,
				  &ended);
		kv_unlock(&table->lock);
		err = end_noted(pool, table, ids, nr, expiry, &ended);
		finish(pool, &ended);
		expiry->found.nr_reclaimed += ended.nr;
	} while (at < end && !err);
	return err;
}

/* Leases of kinds from @kind on. */
static int expire(struct kvmm_pool *pool, enum lease_kind kind, u64 now_ns, struct expiry *expiry)
{
	struct lease_table *table;
	int err = leases_enter(pool, &table);

	if (err)
		return err;
	expiry->now_ns = pool_told_ns(pool, now_ns);
	for (; table && kind <= LEASE_HOLD && !err; kind++)
		err = expire_kind(pool, table, kind, expiry);
	return err;
}

int kvmm_hold_expire(struct kvmm_pool *pool, uint64_t now_ns)
{
	struct expiry expiry = { .flags = 0 };
	int err = expire(pool, LEASE_HOLD, now_ns, &expiry);

	return err ? err : (int)expiry.found.nr_reclaimed;
}

int kvmm_lease_expire_sized(struct kvmm_pool *pool, uint64_t now_ns, struct kvmm_expired *expired,
			    size_t size)
{
	struct expiry expiry = { .flags = KVMM_OWN_RECLAIM };
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (expired && kv_size_is_bad(expired, size))
		return -EINVAL;
	err = expire(pool, LEASE_RANGE, now_ns, &expiry);
	if (expired)
		kv_give(expired, size, &expiry.found, sizeof(expiry.found));
	return err ? err : (int)expiry.found.nr_reclaimed;
}
