// SPDX-License-Identifier: Apache-2.0
/*
 * The table of owners: records, chains, and the check of both.
 *
 * Memory comes in pieces of OWN_CHUNK records where there are owners, is taken before the lock, and
 * stays: what a record is about comes back sooner or later.
 */
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "determ.h"
#include "hold.h"
#include "mag.h"
#include "lease.h"

#define MIN_BUCKETS		16u
#define MAX_BUCKETS		BIT(16)
#define BLOCKS_PER_BUCKET	8u

/* ---- the table ---- */

static u32 chunks_for(const struct kvmm_pool *pool)
{
	/* As many slots as blocks, all in use; they come CHUNK_SLOTS at a time, and some retire. */
	return (pool->nr_blocks + 2 * CHUNK_SLOTS) / OWN_CHUNK + 1;
}

static struct own_table *new_table(struct kvmm_pool *pool)
{
	u32 nr_buckets = BIT(kv_order(max(pool->nr_blocks / BLOCKS_PER_BUCKET, MIN_BUCKETS)));
	u32 nr_chunks = chunks_for(pool);
	struct own_table *table;
	size_t bytes;

	nr_buckets = min(nr_buckets, MAX_BUCKETS);
	bytes = sizeof(*table) + nr_buckets * sizeof(table->bucket[0]);
	table = kv_alloc_lines(1, bytes);
	if (!table)
		return NULL;
	table->chunk[0] = kv_alloc_array(NR_OWN_KINDS * (size_t)nr_chunks, sizeof(table->chunk[0][0]));
	if (!table->chunk[0]) {
		kv_free(table);
		return NULL;
	}
	for (u32 i = 1; i < NR_OWN_KINDS; i++)
		table->chunk[i] = table->chunk[0] + i * nr_chunks;
	table->nr_buckets = nr_buckets;
	table->nr_chunks = nr_chunks;
	table->secret = kv_random();
	table->bytes = bytes + NR_OWN_KINDS * nr_chunks * sizeof(table->chunk[0][0]);
	for (u32 i = 0; i < nr_buckets; i++)
		table->bucket[i] = KV_NONE;
	kv_lock_init(&table->lock, KV_RANK_LEAF, 1);
	return table;
}

static void free_table(struct own_table *table)
{
	own_free_watches(table);
	for (u32 i = 0; i < NR_OWN_KINDS * table->nr_chunks; i++)
		kv_free(table->chunk[0][i]);
	kv_free(table->chunk[0]);
	kv_free(table);
}

struct own_table *own_table_get(struct kvmm_pool *pool)
{
	struct own_table *table = own_table_of(pool), *old = NULL;

	if (likely(table))
		return table;
	table = new_table(pool);
	if (!table)
		return NULL;
	/* Pairs with own_table_of(). Two threads may both be first: the slower one's goes. */
	if (kv_cas(&pool->owned, &old, table))
		return table;
	free_table(table);
	return old;
}

static void owned_exit(struct kvmm_pool *pool)
{
	if (pool->owned)
		free_table(pool->owned);
	pool->owned = NULL;
}

static u64 owned_bytes(struct kvmm_pool *pool)
{
	/* Pairs with the swap in own_table_get(), as in own_table_of(). */
	struct own_table *table = smp_load_acquire(&pool->owned);

	return table ? READ_ONCE(table->bytes) : 0;
}

int own_reserve(struct own_table *table, u32 id)
{
	u32 at = own_id_index(id) >> OWN_CHUNK_ORDER;
	struct own_rec **place = &table->chunk[own_id_kind(id)][at], *fresh, *old = NULL;

	if (at >= table->nr_chunks)
		return -ENOMEM;
	if (smp_load_acquire(place))
		return 0;
	fresh = kv_alloc_array(OWN_CHUNK, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	/* Pairs with own_rec(). */
	if (kv_cas(place, &old, fresh))
		kv_fetch_add(&table->bytes, OWN_CHUNK * sizeof(*fresh));
	else
		kv_free(fresh);
	return 0;
}

/* ---- records ---- */

static u64 mix(u64 sum, u64 word)
{
	return kv_mul_fold(sum ^ word, 0xa0761d6478bd642full) + word;
}

/* All that a record says: any flipped bit changes it. */
static u64 rec_sum(const struct own_rec *rec, u32 id)
{
	u64 sum = mix(mix(rec->owner, rec->since_ns), rec->deadline_ns);

	return mix(mix(sum, (u64)rec->gen << 32 | rec->flags), id);
}

static u32 *bucket_of(struct own_table *table, u64 owner)
{
	u64 hash = kv_mul_fold(owner ^ table->secret, 0xe7037ed1a0b428dbull);

	return &table->bucket[hash & (table->nr_buckets - 1)];
}

static void link_rec(struct own_table *table, u32 id)
{
	struct own_rec *rec = own_rec(table, id);
	u32 *head = bucket_of(table, rec->owner);

	rec->next = *head;
	rec->prev = OWN_FIRST;
	if (rec->next != KV_NONE)
		own_rec(table, rec->next)->prev = id;
	*head = id;
	table->nr++;
	table->sum += rec_sum(rec, id);
}

static void unlink_rec(struct own_table *table, u32 id)
{
	const struct own_rec *rec = own_rec(table, id);

	table->nr--;
	table->sum -= rec_sum(rec, id);
	if (rec->prev == OWN_FIRST)
		*bucket_of(table, rec->owner) = rec->next;
	else
		own_rec(table, rec->prev)->next = rec->next;
	if (rec->next != KV_NONE)
		own_rec(table, rec->next)->prev = rec->prev;
}

/* It says @rec from here on, or nothing if that has no owner. ->lock held, memory reserved. */
static void own_write(struct own_table *table, u32 id, struct own_rec rec)
{
	struct own_rec *at = own_rec(table, id);

	kv_assert_held(&table->lock);
	if (at->owner)
		unlink_rec(table, id);
	if (!rec.owner) {
		*at = (struct own_rec){ 0 };
		return;
	}
	*at = rec;
	link_rec(table, id);
}

void own_clear(struct own_table *table, u32 id)
{
	own_write(table, id, (struct own_rec){ 0 });
}

void own_set_deadline(struct own_table *table, u32 id, u64 deadline_ns)
{
	struct own_rec *rec = own_rec(table, id);

	kv_assert_held(&table->lock);
	table->sum -= rec_sum(rec, id);
	rec->deadline_ns = deadline_ns;
	table->sum += rec_sum(rec, id);
}

static bool range_is_live(const struct kvmm_pool *pool, u32 index, u32 gen)
{
	const struct slot_dir *dir;
	const struct slot *slot;
	bool is_live = false;

	kv_rcu_read_lock();
	/* Pairs with publish_dir(): the chunks that the directory names are filled. */
	dir = kv_rcu_dereference(pool->slots);
	if (dir && index < dir_nr_slots(dir)) {
		slot = dir_slot(dir, index);
		is_live = READ_ONCE(slot->gen) == gen && READ_ONCE(slot->nr_ext);
	}
	kv_rcu_read_unlock();
	return is_live;
}

static bool block_is_live(const struct kvmm_pool *pool, u32 index, u32 gen)
{
	u64 word;

	if (!pool->caches || index >= pool->nr_blocks)
		return false;
	word = READ_ONCE(entry_at(pool, index)->word);
	return kv_word_gen(word) == gen && (kv_word_is(word, KV_ENTRY_PRIVATE) ||
					    kv_word_is(word, KV_ENTRY_STAGED));
}

bool own_is_live(const struct kvmm_pool *pool, u32 id, u32 gen)
{
	return own_id_kind(id) == OWN_RANGE ? range_is_live(pool, own_id_index(id), gen) :
					      block_is_live(pool, own_id_index(id), gen);
}

u32 own_next(const struct kvmm_pool *pool, struct own_table *table, u64 owner, u32 id)
{
	u32 next;

	kv_assert_held(&table->lock);
	id = id == KV_NONE ? *bucket_of(table, owner) : own_rec(table, id)->next;
	for (; id != KV_NONE; id = next) {
		const struct own_rec *rec = own_rec(table, id);

		next = rec->next;
		if (!own_is_live(pool, id, rec->gen))
			own_clear(table, id);
		else if (rec->owner == owner)
			return id;
	}
	return KV_NONE;
}

struct own_rec own_look(struct kvmm_pool *pool, enum own_kind kind, u32 index, u32 gen)
{
	struct own_table *table = own_table_of(pool);
	const struct own_rec *at = table ? own_rec(table, own_id(kind, index)) : NULL;
	struct own_rec rec = { 0 };

	if (!at)
		return rec;
	kv_lock(&table->lock);
	if (at->owner && at->gen == gen)
		rec = *at;
	kv_unlock(&table->lock);
	return rec;
}

u64 own_deadline(u64 now_ns, u64 lease_ns)
{
	return lease_ns ? kv_ns_after(now_ns, lease_ns) : 0;
}

/* ---- naming owners ---- */

int own_reserve_slot(struct kvmm_pool *pool)
{
	struct own_table *table = own_table_get(pool);

	kv_assert_held(&pool->lock);
	return table ? own_reserve(table, own_id(OWN_RANGE, pool->free_slot)) : -ENOMEM;
}

void own_new_range(struct kvmm_pool *pool, kvmm_range_t range, const struct kvmm_range_attr *attr)
{
	struct own_table *table = own_table_of(pool);
	u64 now_ns = pool_clock_ns(pool);
	struct own_rec rec = { .owner = attr->owner, .since_ns = now_ns, .gen = range.gen,
			       .deadline_ns = own_deadline(now_ns, attr->lease_ns),
			       .flags = attr->own_flags };

	kv_lock(&table->lock);
	own_write(table, own_id(OWN_RANGE, range.index), rec);
	kv_unlock(&table->lock);
}

/* The slot that is taken next is the tail's. */
int __own_reserve_split(struct kvmm_pool *pool)
{
	return own_reserve(pool->owned, own_id(OWN_RANGE, pool->free_slot));
}

void __own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail)
{
	struct own_rec rec = own_look(pool, OWN_RANGE, range.index, range.gen);

	if (!rec.owner)
		return;
	rec.gen = tail.gen;
	kv_lock(&pool->owned->lock);
	own_write(pool->owned, own_id(OWN_RANGE, tail.index), rec);
	kv_unlock(&pool->owned->lock);
}

void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	struct own_rec rec = own_look(pool, OWN_RANGE, index, slot->gen);

	kv_assert_held(&pool->lock);
	if (!rec.owner || slot->refs > holds_of_range(pool, slot_handle(slot, index)))
		return;
	kv_lock(&pool->owned->lock);
	own_clear(pool->owned, own_id(OWN_RANGE, index));
	kv_unlock(&pool->owned->lock);
}

/* What is owned, in a batch; handles of all kinds have one layout. */
struct batch {
	enum own_kind kind;
	enum kv_entry_state state;	/* of blocks */
	const struct kv_handle *handles;
	u32 nr;
};

/* Tells made up handles from stale ones. pool->lock held. */
static int check_ranges(struct kvmm_pool *pool, const struct batch *batch)
{
	struct slot *slot;
	int err = 0;

	for (u32 i = 0; i < batch->nr && !err; i++) {
		kvmm_range_t range = { batch->handles[i].index, batch->handles[i].gen };

		err = slot_find(pool, range, &slot);
		if (!err && slot->refs <= holds_of_range(pool, range))
			err = -EINVAL;
	}
	return err;
}

static int check_block(const struct kvmm_pool *pool, struct kv_handle handle,
		       enum kv_entry_state state)
{
	u64 word;

	if (handle.index >= pool->nr_blocks)
		return -EINVAL;
	word = smp_load_acquire(&entry_at(pool, handle.index)->word);
	if (kv_word_gen(word) != handle.gen)
		return kv_handle_refuse(&pool->entries, kv_word_gen(word), handle.gen);
	return kv_word_is(word, state) ? 0 : kv_word_refuse(word, state);
}

static int check_blocks(struct kvmm_pool *pool, const struct batch *batch)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	for (u32 i = 0; i < batch->nr && !err; i++)
		err = check_block(pool, batch->handles[i], batch->state);
	cache_end(pool);
	return err;
}

static int reserve_all(struct own_table *table, const struct batch *batch)
{
	int err = 0;

	for (u32 i = 0; i < batch->nr && !err; i++)
		err = own_reserve(table, own_id(batch->kind, batch->handles[i].index));
	return err;
}

/* Handles may have become stale since they were checked: then not one of them is written. */
static int write_all(struct kvmm_pool *pool, struct own_table *table, const struct batch *batch,
		     struct own_rec rec)
{
	for (u32 i = 0; i < batch->nr; i++)
		if (!own_is_live(pool, own_id(batch->kind, batch->handles[i].index),
				 batch->handles[i].gen))
			return -ESTALE;
	for (u32 i = 0; i < batch->nr; i++) {
		u32 id = own_id(batch->kind, batch->handles[i].index);
		const struct own_rec *old = own_rec(table, id);
		struct own_rec new = rec;

		new.gen = batch->handles[i].gen;
		if (old->gen == new.gen && old->owner == new.owner)
			new.since_ns = old->since_ns;
		own_write(table, id, new);
	}
	return 0;
}

static int read_own(struct kvmm_pool *pool, const struct kvmm_own *own, struct own_rec *rec)
{
	u64 now_ns = pool_clock_ns(pool);
	struct kvmm_own known;
	int err = kv_copy_attr(&known, sizeof(known), own);

	if (err)
		return err;
	if (known.flags & ~KVMM_OWN_RECLAIM || known.reserved ||
	    (!known.owner && (known.lease_ns || known.flags)))
		return -EINVAL;
	*rec = (struct own_rec){ .owner = known.owner, .since_ns = now_ns, .flags = known.flags,
				 .deadline_ns = own_deadline(now_ns, known.lease_ns) };
	return 0;
}

static int own_batch(struct kvmm_pool *pool, const struct batch *batch, struct own_rec rec)
{
	struct own_table *table = own_table_get(pool);
	int err;

	if (!table || reserve_all(table, batch))
		return -ENOMEM;
	kv_lock(&table->lock);
	err = write_all(pool, table, batch, rec);
	kv_unlock(&table->lock);
	return err;
}

int kvmm_own_ranges(struct kvmm_pool *pool, const struct kvmm_own *own,
		    const kvmm_range_t *ranges, uint32_t nr)
{
	struct batch batch = { .kind = OWN_RANGE, .handles = as_handles(ranges), .nr = nr };
	struct own_rec rec;
	int err;

	if (!pool || !own || (!ranges && nr))
		return -EINVAL;
	err = read_own(pool, own, &rec);
	if (!err)
		err = pool_enter(pool);
	if (err)
		return err;
	err = check_ranges(pool, &batch);
	if (!err)
		err = own_batch(pool, &batch, rec);
	pool_leave(pool);
	return err;
}

int own_share_blocks(struct kvmm_pool *pool)
{
	int err;

	/* Pairs with the release below: who finds it done finds the magazines empty. */
	if (likely(smp_load_acquire(&pool->shares_blocks)))
		return 0;
	err = pool_enter(pool);
	if (err)
		return err;
	mags_off(pool);
	/* Pairs with the acquire above. */
	smp_store_release(&pool->shares_blocks, true);
	pool_leave(pool);
	return 0;
}

/* Staged ones have the handle that they had as private ones. */
static int own_blocks(struct kvmm_pool *pool, const struct kvmm_own *own,
		      const struct batch *batch)
{
	struct own_rec rec;
	int err;

	if (!pool || !own || (!batch->handles && batch->nr))
		return -EINVAL;
	err = read_own(pool, own, &rec);
	if (!err)
		err = check_blocks(pool, batch);
	if (!err)
		err = own_share_blocks(pool);
	return err ? err : own_batch(pool, batch, rec);
}

int kvmm_own_muts(struct kvmm_pool *pool, const struct kvmm_own *own, const kvmm_mut_t *muts,
		  uint32_t nr)
{
	struct batch batch = { OWN_BLOCK, KV_ENTRY_PRIVATE, as_handles(muts), nr };

	return own_blocks(pool, own, &batch);
}

int kvmm_own_staged(struct kvmm_pool *pool, const struct kvmm_own *own,
		    const kvmm_staged_t *staged, uint32_t nr)
{
	struct batch batch = { OWN_BLOCK, KV_ENTRY_STAGED, as_handles(staged), nr };

	return own_blocks(pool, own, &batch);
}

/* ---- the check ---- */

static int complain(const struct kvmm_pool *pool, const char *what, u32 index)
{
	kv_log(KV_LOG_ERR, "kvmm: pool %s: %s (%u)", pool->name, what, index);
	return -EUCLEAN;
}

static int check_chain(const struct kvmm_pool *pool, struct own_table *table, u32 bucket, u32 *nr)
{
	u32 id, prev = OWN_FIRST;

	for (id = table->bucket[bucket]; id != KV_NONE; prev = id, id = own_rec(table, id)->next) {
		const struct own_rec *rec = own_id_kind(id) < NR_OWN_KINDS ?
					    own_rec(table, id) : NULL;

		if (!rec || !rec->owner || rec->prev != prev || ++*nr > table->nr ||
		    bucket_of(table, rec->owner) != &table->bucket[bucket])
			return complain(pool, "chain of an owner goes astray", id);
	}
	return 0;
}

static bool is_zero(const struct own_rec *rec)
{
	static const struct own_rec zero;

	return !memcmp(rec, &zero, sizeof(zero));
}

/* Sum over the records of one piece; *@nr grows by those in use. False: one is half zero. */
static bool add_chunk(const struct own_table *table, u32 first, u32 *nr, u64 *sum)
{
	for (u32 id = first; id < first + OWN_CHUNK; id++) {
		const struct own_rec *rec = own_rec(table, id);

		if (!rec->owner && !is_zero(rec))
			return false;
		*nr += rec->owner != 0;
		*sum += rec->owner ? rec_sum(rec, id) : 0;
	}
	return true;
}

static int check_table(const struct kvmm_pool *pool, struct own_table *table)
{
	u32 nr = 0, nr_linked = 0, nr_chunks = 0;
	u64 sum = 0, bytes;
	int err = 0;

	if (table->nr_chunks != chunks_for(pool) || !kv_is_pow2(table->nr_buckets))
		return complain(pool, "bad table of owners", table->nr_chunks);
	for (u32 i = 0; i < NR_OWN_KINDS * table->nr_chunks; i++) {
		u32 first = own_id(i / table->nr_chunks, i % table->nr_chunks * OWN_CHUNK);

		if (!table->chunk[0][i])
			continue;
		nr_chunks++;
		if (!add_chunk(table, first, &nr, &sum))
			return complain(pool, "record of no owner", first);
	}
	for (u32 i = 0; i < table->nr_buckets && !err; i++)
		err = check_chain(pool, table, i, &nr_linked);
	if (err)
		return err;
	bytes = sizeof(*table) + table->nr_buckets * sizeof(table->bucket[0]) +
		NR_OWN_KINDS * table->nr_chunks * sizeof(table->chunk[0][0]) +
		nr_chunks * OWN_CHUNK * sizeof(struct own_rec) +
		table->nr_watches * sizeof(struct own_watch);
	if (nr != table->nr || nr_linked != nr || sum != table->sum || bytes != table->bytes)
		return complain(pool, "counts of owners", nr);
	return 0;
}

static int owned_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	int err;

	if (!pool->owned)
		return 0;
	kv_lock(&pool->owned->lock);
	err = check_table(pool, pool->owned);
	kv_unlock(&pool->owned->lock);
	return err;
}

POOL_PART(owned) = {
	.name	= "owners",
	.exit	= owned_exit,
	.bytes	= owned_bytes,
	.check	= owned_check,
};
