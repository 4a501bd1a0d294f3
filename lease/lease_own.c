// SPDX-License-Identifier: Apache-2.0
/*
 * Naming the owners of ranges, private and staged blocks.
 *
 * Memory for the leases is reserved before any is written, so a call names all that it was given,
 * or nothing.
 */
#include <lease/lease.h>
#include <pool/local.h>

/* ---- where an owner is named at allocation ---- */

int own_reserve_slot(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return range_reserve(pool, pool->free_slot);
}

static void write_range(struct kvmm_pool *pool, kvmm_range_t range, struct lease lease)
{
	struct lease_table *table = leases_of(pool);

	kv_assert_held(&pool->lock);
	lease.gen = range.gen;
	kv_lock(&table->lock);
	lease_write(table, lease_id(LEASE_RANGE, range.index), lease);
	kv_unlock(&table->lock);
}

void own_new_range(struct kvmm_pool *pool, kvmm_range_t range, const struct kvmm_range_attr *attr)
{
	write_range(pool, range,
		    lease_from_now(pool, attr->owner, attr->lease_ns, attr->own_flags));
}

int own_reserve_split(struct kvmm_pool *pool, kvmm_range_t range)
{
	return lease_look(pool, LEASE_RANGE, range.index, range.gen).owner ?
	       own_reserve_slot(pool) : 0;
}

/* The slot that was taken is the tail's. The holds stay with the head. */
void own_split(struct kvmm_pool *pool, kvmm_range_t range, kvmm_range_t tail)
{
	struct lease lease = lease_look(pool, LEASE_RANGE, range.index, range.gen);

	lease.kept = 0;
	if (lease.owner)
		write_range(pool, tail, lease);
}

/* ---- by handle ---- */

/* The owned things of a batch; handles of all kinds have one layout. */
struct batch {
	enum lease_kind kind;
	enum kv_entry_state state;	/* of blocks */
	const struct kv_handle *handles;
	u32 nr;
};

/* Tells made up handles from stale ones. pool->lock held. */
static int check_ranges(struct kvmm_pool *pool, const struct batch *batch)
{
	struct slot *slot;
	int err = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < batch->nr && !err; i++) {
		kvmm_range_t range = { batch->handles[i].index, batch->handles[i].gen };

		err = slot_find(pool, range, &slot);
		if (!err && slot->refs <= (range_kept(pool, range) & KEPT_HOLDS))
			err = -EINVAL;
	}
	return err;
}

static int check_blocks(struct kvmm_pool *pool, const struct batch *batch)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	for (u32 i = 0; i < batch->nr && !err; i++)
		err = entry_check(pool, batch->handles[i], batch->state, false);
	cache_end(pool);
	return err;
}

static int read_own(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
		    struct lease *lease)
{
	struct kvmm_lease_attr known;
	int err = kv_copy_attr(&known, sizeof(known), attr);

	if (err)
		return err;
	if (known.prefix || known.refs || known.nr_refs || known.range.gen || known.text ||
	    known.reason || known.reserved || known.flags & ~KVMM_LEASE_RECLAIM ||
	    (!known.owner && (known.lease_ns || known.flags)))
		return -EINVAL;
	*lease = lease_from_now(pool, known.owner, known.lease_ns, known.flags);
	return 0;
}

/* Handles may have become stale since they were checked: then not one of them is written. */
static int own_batch(struct kvmm_pool *pool, const struct batch *batch, struct lease lease)
{
	struct lease_table *table;
	u64 now_ns = lease.since_ns;
	int err = leases_get(pool, &table);

	for (u32 i = 0; i < batch->nr && !err; i++)
		err = lease_reserve(table, lease_id(batch->kind, batch->handles[i].index));
	if (err)
		return err;
	kv_lock(&table->lock);
	for (u32 i = 0; i < batch->nr && !err; i++)
		if (!lease_is_live(pool, lease_id(batch->kind, batch->handles[i].index),
				   batch->handles[i].gen))
			err = -ESTALE;
	for (u32 i = 0; i < batch->nr && !err; i++) {
		u32 id = lease_id(batch->kind, batch->handles[i].index);
		const struct lease *old = lease_at(table, id);

		lease.gen = batch->handles[i].gen;
		lease.since_ns = old->gen == lease.gen && old->owner == lease.owner ?
				 old->since_ns : now_ns;
		lease_write(table, id, lease);
	}
	kv_unlock(&table->lock);
	return err;
}

int own_share_blocks(struct kvmm_pool *pool)
{
	int err;

	/* Pairs with the release below: a thread that finds it done finds the magazines empty. */
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

int kvmm_lease_own(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr, uint32_t kind,
		   const void *handles, uint32_t nr)
{
	struct batch batch = { kind == KVMM_LEASED_RANGE ? LEASE_RANGE : LEASE_BLOCK,
			       kind == KVMM_LEASED_STAGED ? KV_ENTRY_STAGED : KV_ENTRY_PRIVATE,
			       as_handles(handles), nr };
	struct lease lease;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !attr || (!handles && nr) || kind > KVMM_LEASED_STAGED)
		return -EINVAL;
	err = read_own(pool, attr, &lease);
	if (err)
		return err;
	if (kind != KVMM_LEASED_RANGE) {
		/* Staged ones have the handle that they had as private ones. */
		err = check_blocks(pool, &batch);
		if (!err)
			err = own_share_blocks(pool);
		return err ? err : own_batch(pool, &batch, lease);
	}
	err = pool_enter(pool);
	if (err)
		return err;
	err = check_ranges(pool, &batch);
	if (!err)
		err = own_batch(pool, &batch, lease);
	pool_leave(pool);
	return err;
}
