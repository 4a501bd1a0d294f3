// SPDX-License-Identifier: Apache-2.0
/*
 * Owners lose what they have: all at once, or what they had leased.
 *
 * The owner may well be alive and use its handles at this moment. So each thing is taken by a step
 * that only one can take: a range under pool->lock, a block by its mark, which bars staging, freeing
 * and writing by others, a hold by leaving its table. Leaf locks are held over the looking, not over
 * the giving back.
 */
#include <limits.h>

#include <kv/mem.h>

#include "determ.h"
#include "hold.h"
#include "lease.h"

#define EXPIRE_BATCH	64u

/* ---- one thing; pool->lock held ---- */

static kvmm_range_t range_of(u32 id, const struct own_rec *rec)
{
	return (kvmm_range_t){ own_id_index(id), rec->gen };
}

/*
 * It is ours from here on: 0. -EBUSY: somebody writes to it, or it is being staged or published. -ESTALE:
 * it is neither private nor staged (now).
 */
static int claim_block(struct kvmm_pool *pool, u32 id, u32 gen)
{
	struct kv_handle handle = { own_id_index(id), gen };

	if (!kv_handle_step(&pool->entries, handle, kv_edge_mark_private) ||
	    !kv_handle_step(&pool->entries, handle, kv_edge_mark))
		return 0;
	return own_is_live(pool, id, gen) ? -EBUSY : -ESTALE;
}

/* A list of blocks that were claimed, through ->chain; the order's lock is taken. */
static void release_blocks(struct kvmm_pool *pool, u32 first)
{
	u32 nr_staged = 0;

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

static void chain_block(struct kvmm_pool *pool, u32 index, u32 *first)
{
	WRITE_ONCE(entry_at(pool, index)->chain, *first);
	*first = index;
}

/* ---- all that an owner has ---- */

struct release {
	u64			owner;
	struct hold_table	*holds;		/* may be NULL, as both */
	struct own_table	*table;
	u32			blocks;		/* claimed, through ->chain */
	struct hold		*of_ranges;	/* have left their table, through ->next */
	struct hold		*of_blocks;
	u32			nr;
};

static int check_range(struct kvmm_pool *pool, const struct release *rel, kvmm_range_t range,
		       bool has_record)
{
	struct range_share share = { 0 };
	struct slot *slot;

	if (slot_find(pool, range, &slot))
		return 0;
	if (rel->holds)
		share = holds_share(rel->holds, rel->owner, range);
	return share_is_barred(slot, share, has_record) ? -EBUSY : 0;
}

/* Ranges may all go, and blocks are ours now; or an error, and then some may be. */
static int claim_records(struct kvmm_pool *pool, struct release *rel)
{
	u32 id = KV_NONE;
	int err = 0;

	while (!err && (id = own_next(pool, rel->table, rel->owner, id)) != KV_NONE) {
		const struct own_rec *rec = own_rec(rel->table, id);

		if (own_id_kind(id) == OWN_RANGE) {
			err = check_range(pool, rel, range_of(id, rec), true);
			continue;
		}
		err = claim_block(pool, id, rec->gen);
		if (!err)
			chain_block(pool, own_id_index(id), &rel->blocks);
		else if (err != -EBUSY)
			err = 0;	/* registered, or freed, just now */
	}
	return err;
}

/* Of ranges that nobody of this name owns otherwise, too. */
static int check_holds(struct kvmm_pool *pool, const struct release *rel)
{
	int err = 0;

	for (struct hold *at = *hold_owner_chain(rel->holds, rel->owner); at && !err;
	     at = at->owner_next) {
		struct own_rec *rec;

		if (at->owner != rel->owner || !hold_is_of_range(at))
			continue;
		rec = rel->table ? own_rec(rel->table, own_id(OWN_RANGE, at->range.index)) : NULL;
		err = check_range(pool, rel, at->range,
				  rec && rec->owner == rel->owner && rec->gen == at->range.gen);
	}
	return err;
}

static void take_holds(struct release *rel)
{
	struct hold *next;

	for (struct hold *at = *hold_owner_chain(rel->holds, rel->owner); at; at = next) {
		struct hold **list = hold_is_of_range(at) ? &rel->of_ranges : &rel->of_blocks;

		next = at->owner_next;
		if (at->owner != rel->owner)
			continue;
		hold_remove(rel->holds, at);
		at->next = *list;
		*list = at;
		rel->nr++;
	}
}

/* Blocks are released by list; their records are dead then. */
static u32 forget_blocks(struct kvmm_pool *pool, struct release *rel)
{
	u32 nr = 0;

	for (u32 index = rel->blocks; index != KV_NONE;
	     index = READ_ONCE(entry_at(pool, index)->chain), nr++)
		own_clear(rel->table, own_id(OWN_BLOCK, index));
	return nr;
}

/* Everything is checked and claimed with both leaf locks held: nobody adds a hold meanwhile. */
static int claim_all(struct kvmm_pool *pool, struct release *rel)
{
	int err = 0;

	if (rel->holds)
		kv_lock(&rel->holds->lock);
	if (rel->table)
		kv_lock(&rel->table->lock);
	if (rel->table)
		err = claim_records(pool, rel);
	if (!err && rel->holds)
		err = check_holds(pool, rel);
	if (!err && rel->holds)
		take_holds(rel);
	if (!err && rel->table)
		rel->nr += forget_blocks(pool, rel);
	if (rel->table)
		kv_unlock(&rel->table->lock);
	if (rel->holds)
		kv_unlock(&rel->holds->lock);
	if (err)
		unclaim_blocks(pool, rel->blocks);
	return err;
}

/* The next range that the owner has; its record goes. */
static bool take_range(struct kvmm_pool *pool, struct release *rel, kvmm_range_t *range)
{
	u32 id = KV_NONE;

	kv_lock(&rel->table->lock);
	do
		id = own_next(pool, rel->table, rel->owner, id);
	while (id != KV_NONE && own_id_kind(id) != OWN_RANGE);
	if (id != KV_NONE) {
		*range = range_of(id, own_rec(rel->table, id));
		own_clear(rel->table, id);
	}
	kv_unlock(&rel->table->lock);
	return id != KV_NONE;
}

/* What was named this owner's after the check, and is pinned, stays. */
static void release_ranges(struct kvmm_pool *pool, struct release *rel)
{
	kvmm_range_t range;
	struct slot *slot;

	while (rel->table && take_range(pool, rel, &range)) {
		if (slot_find(pool, range, &slot) || last_put_is_barred(slot))
			continue;
		put_slot(pool, slot, range.index);
		rel->nr++;
	}
}

static void drop_range_holds(struct kvmm_pool *pool, struct hold *list)
{
	for (struct hold *hold = list; hold; hold = hold->next)
		hold_drop_range(pool, hold);
}

static void free_holds(struct hold *list)
{
	struct hold *hold;

	while ((hold = list)) {
		list = hold->next;
		kv_free(hold);
	}
}

static int release_owner(struct kvmm_pool *pool, struct release *rel)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	err = claim_all(pool, rel);
	if (!err) {
		drop_range_holds(pool, rel->of_ranges);
		release_ranges(pool, rel);
		release_blocks(pool, rel->blocks);
	}
	pool_leave(pool);
	return err;
}

int kvmm_owner_release(struct kvmm_pool *pool, uint64_t owner)
{
	struct release rel = { .owner = owner, .blocks = KV_NONE };
	int err;

	if (!pool || !owner)
		return -EINVAL;
	err = holds_enter(pool, &rel.holds);
	if (err)
		return err;
	rel.table = own_table_of(pool);
	if (!rel.holds && !rel.table)
		return 0;
	err = release_owner(pool, &rel);
	if (err)
		return err;
	free_holds(rel.of_ranges);
	holds_drop(pool, rel.of_blocks);
	return min(rel.nr, (u32)INT_MAX);
}

/* ---- leases ---- */

static u32 renew_records(struct kvmm_pool *pool, u64 owner, u64 deadline_ns)
{
	struct own_table *table = own_table_of(pool);
	u32 nr = 0, id = KV_NONE;

	if (!table)
		return 0;
	kv_lock(&table->lock);
	while ((id = own_next(pool, table, owner, id)) != KV_NONE) {
		own_set_deadline(table, id, deadline_ns);
		nr++;
	}
	kv_unlock(&table->lock);
	return nr;
}

static u32 renew_holds(struct hold_table *table, u64 owner, u64 deadline_ns)
{
	u32 nr = 0;

	kv_lock(&table->lock);
	for (struct hold *at = *hold_owner_chain(table, owner); at; at = at->owner_next) {
		if (at->owner != owner)
			continue;
		hold_set_deadline(table, at, deadline_ns);
		nr++;
	}
	kv_unlock(&table->lock);
	return nr;
}

int kvmm_owner_renew(struct kvmm_pool *pool, uint64_t owner, uint64_t lease_ns)
{
	struct hold_table *holds;
	u64 deadline_ns;
	u32 nr;
	int err;

	if (!pool || !owner)
		return -EINVAL;
	err = holds_enter(pool, &holds);
	if (err)
		return err;
	deadline_ns = own_deadline(pool_clock_ns(pool), lease_ns);
	nr = renew_records(pool, owner, deadline_ns);
	if (holds)
		nr += renew_holds(holds, owner, deadline_ns);
	return min(nr, (u32)INT_MAX);
}

static bool is_expired(const struct own_rec *rec, u64 now_ns)
{
	return rec->owner && rec->deadline_ns && rec->deadline_ns <= now_ns;
}

/* Records of one piece that have expired and may be reclaimed; others are counted. */
static u32 find_expired(struct kvmm_pool *pool, struct own_table *table, u32 first, u64 now_ns,
			u32 *ids, u32 *nr_left)
{
	u32 nr = 0;

	kv_lock(&table->lock);
	for (u32 id = first; id < first + EXPIRE_BATCH; id++) {
		const struct own_rec *rec = own_rec(table, id);

		if (!is_expired(rec, now_ns) || !own_is_live(pool, id, rec->gen))
			continue;
		if (rec->flags & KVMM_OWN_RECLAIM)
			ids[nr++] = id;
		else
			++*nr_left;
	}
	kv_unlock(&table->lock);
	return nr;
}

/* It may have been renewed, or freed, since it was found. Claimed: 0; else -EBUSY or -EAGAIN. */
static int claim_expired(struct kvmm_pool *pool, struct own_table *table, u32 id, u64 now_ns,
			 kvmm_range_t *range)
{
	const struct own_rec *rec = own_rec(table, id);
	struct slot *slot;
	int err = -EAGAIN;

	kv_lock(&table->lock);
	if (!is_expired(rec, now_ns) || !(rec->flags & KVMM_OWN_RECLAIM) ||
	    !own_is_live(pool, id, rec->gen))
		goto out_unlock;
	*range = range_of(id, rec);
	if (own_id_kind(id) == OWN_BLOCK)
		err = claim_block(pool, id, rec->gen);
	else if (!slot_find(pool, *range, &slot))
		err = last_put_is_barred(slot) ? -EBUSY : 0;
	if (!err)
		own_clear(table, id);
out_unlock:
	kv_unlock(&table->lock);
	return err;
}

static int reclaim(struct kvmm_pool *pool, struct own_table *table, const u32 *ids, u32 nr,
		   u64 now_ns, struct kvmm_expired *expired)
{
	u32 blocks = KV_NONE;
	int err = nr ? pool_enter(pool) : 0;

	if (err || !nr)
		return err;
	for (u32 i = 0; i < nr; i++) {
		kvmm_range_t range;

		err = claim_expired(pool, table, ids[i], now_ns, &range);
		expired->nr_reclaimed += !err;
		expired->nr_busy += err == -EBUSY;
		if (err)
			continue;
		if (own_id_kind(ids[i]) == OWN_BLOCK)
			chain_block(pool, range.index, &blocks);
		else
			put_slot(pool, slot_at(pool, range.index), range.index);
	}
	release_blocks(pool, blocks);
	pool_leave(pool);
	return 0;
}

static int expire_records(struct kvmm_pool *pool, struct own_table *table, u64 now_ns,
			  struct kvmm_expired *expired)
{
	u32 nr_ids = table->nr_chunks << OWN_CHUNK_ORDER, ids[EXPIRE_BATCH];
	int err = 0;

	static_assert(OWN_CHUNK % EXPIRE_BATCH == 0, "a batch is of one piece");
	for (u32 kind = 0; kind < NR_OWN_KINDS; kind++)
		for (u32 i = 0; i < nr_ids && !err; i += EXPIRE_BATCH) {
			u32 first = own_id(kind, i), nr;

			if (!own_rec(table, first))
				continue;
			nr = find_expired(pool, table, first, now_ns, ids, &expired->nr_left);
			err = reclaim(pool, table, ids, nr, now_ns, expired);
		}
	return err;
}

int kvmm_lease_expire(struct kvmm_pool *pool, uint64_t now_ns, struct kvmm_expired *expired)
{
	struct hold_expiry holds = { .flags = KVMM_HOLD_RECLAIM };
	struct kvmm_expired found = { 0 };
	struct own_table *table;
	int err;

	if (!pool)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	holds.now_ns = pool_told_ns(pool, now_ns);
	table = own_table_of(pool);
	if (table)
		err = expire_records(pool, table, holds.now_ns, &found);
	if (!err)
		err = holds_expire(pool, &holds);
	found.nr_reclaimed += holds.nr_dropped;
	found.nr_busy += holds.nr_busy;
	found.nr_left += holds.nr_left;
	if (expired)
		*expired = found;
	return err ? err : (int)found.nr_reclaimed;
}
