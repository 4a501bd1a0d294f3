// SPDX-License-Identifier: Apache-2.0
/*
 * The table of leases: its memory, the leases themselves, chains by owner, and what holds and pins
 * keep of ranges. Calls about leases are in lease/.
 *
 * Memory for leases beside slots and entries comes in pieces of LEASE_CHUNK where there are
 * owners, is taken before the lock, and stays: a slot or an entry comes back sooner or later.
 */
#include <kv/env.h>
#include <kv/mem.h>

#include "local.h"
#include "determ.h"
#include "lease.h"

#define MIN_BUCKETS		16u
#define MAX_BUCKETS		BIT(16)
#define BLOCKS_PER_BUCKET	8u
#define MAX_KEYS		BIT(18)
#define BLOCKS_PER_KEY		4u

static u64 next_table = 1;	/* kv_fetch_add(); low bits of ids */

/* ---- the table ---- */

u64 leases_fixed_sum(const struct lease_table *table)
{
	u64 sum = lease_mix(table->id, table->secret);

	sum = lease_mix(sum, (u64)table->gen_base << 32 | table->nr_keys);
	return lease_mix(sum, (u64)table->nr_chunks << 32 | table->nr_buckets);
}

int leases_enter(struct kvmm_pool *pool, struct lease_table **table)
{
	if (unlikely(!pool))
		return -EINVAL;
	*table = leases_of(pool);
	return pool_refusal(pool);
}

u32 leases_chunks_for(const struct kvmm_pool *pool)
{
	/* As many slots in use as blocks; they come CHUNK_SLOTS at a time, and some retire. */
	return (pool->nr_blocks + 2 * CHUNK_SLOTS + MAX_STOCK) / LEASE_CHUNK + 1;
}

static u32 nr_chains(const struct kvmm_pool *pool, u32 blocks_each, u32 most)
{
	return min(BIT(kv_order(max(pool->nr_blocks / blocks_each, MIN_BUCKETS))), most);
}

/* Without the leases and holds. */
u64 leases_bare_bytes(const struct lease_table *table)
{
	return sizeof(*table) + NR_LEASES_BESIDE * table->nr_chunks * sizeof(table->chunk[0]) +
	       table->nr_keys * sizeof(table->by_key[0]) +
	       table->nr_buckets * sizeof(table->bucket[0]);
}

static struct lease_table *new_table(struct kvmm_pool *pool)
{
	struct lease_table *table, want = {
		.id = kv_random() << 32 | (u32)kv_fetch_add(&next_table, 1),
		.secret = kv_random(),
		.gen_base = (u32)pool_random(pool) | 1,
		.nr_buckets = nr_chains(pool, BLOCKS_PER_BUCKET, MAX_BUCKETS),
		.nr_keys = nr_chains(pool, BLOCKS_PER_KEY, MAX_KEYS),
		.nr_chunks = leases_chunks_for(pool),
		.free = KV_NONE,
	};

	want.bytes = leases_bare_bytes(&want);
	want.fixed_sum = leases_fixed_sum(&want);
	table = kv_alloc_lines(1, want.bytes);
	if (!table)
		return NULL;
	*table = want;
	memset(table->chunk, 0, NR_LEASES_BESIDE * want.nr_chunks * sizeof(table->chunk[0]));
	table->by_key = (struct held **)&table->chunk[NR_LEASES_BESIDE * table->nr_chunks];
	table->bucket = (u32 *)&table->by_key[table->nr_keys];
	memset(table->bucket, 0xff, table->nr_buckets * sizeof(table->bucket[0]));
	kv_lock_init(&table->lock, KV_RANK_LEAF, 0);
	return table;
}

int leases_get(struct kvmm_pool *pool, struct lease_table **result)
{
	struct lease_table *table, *old = NULL;
	int err = leases_enter(pool, result);

	if (err || *result)
		return err;
	table = new_table(pool);
	if (!table)
		return -ENOMEM;
	/*
	 * Pairs with leases_of(). Two threads may both be first: the slower one's table goes.
	 */
	if (!kv_cas(&pool->leases, &old, table)) {
		kv_free(table);
		table = old;
	}
	*result = table;
	return 0;
}

int lease_reserve(struct lease_table *table, u32 id)
{
	u32 at = lease_id_index(id) >> LEASE_CHUNK_ORDER;
	struct lease **place, *fresh;

	KV_BUG_ON(lease_id_kind(id) >= NR_LEASES_BESIDE);
	if (at >= table->nr_chunks)
		return -ENOMEM;
	place = &table->chunk[lease_id_kind(id) * table->nr_chunks + at];
	if (smp_load_acquire(place))
		return 0;
	fresh = kv_alloc_array(LEASE_CHUNK, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	kv_lock(&table->lock);
	if (!*place) {
		/* Pairs with lease_at(). The check, under the lock, sees both or neither. */
		smp_store_release(place, fresh);
		kv_fetch_add(&table->bytes, LEASE_CHUNK * sizeof(*fresh));
		fresh = NULL;
	}
	kv_unlock(&table->lock);
	kv_free(fresh);
	return 0;
}

/* ---- leases ---- */

u64 lease_sum(const struct lease *lease, u32 id)
{
	u64 sum = lease_mix(lease_mix(lease->owner, lease->since_ns), lease->deadline_ns);

	if (!lease->gen)
		return 0;
	sum = lease_mix(sum, (u64)lease->gen << 32 | lease->flags);
	return lease_mix(lease_mix(sum, id), lease->kept);
}

u32 *lease_bucket(const struct lease_table *table, u64 owner, enum lease_kind kind)
{
	u64 salt = table->secret + (kind == LEASE_BLOCK);
	u64 hash = kv_mul_fold(owner ^ salt, 0xe7037ed1a0b428dbull);

	return &table->bucket[hash & (table->nr_buckets - 1)];
}

static void link_lease(struct lease_table *table, u32 id)
{
	struct lease *lease = lease_at(table, id);
	u32 *head = lease_bucket(table, lease->owner, lease_id_kind(id));

	kv_assert_held(&table->lock);
	lease->next = *head;
	lease->prev = LEASE_FIRST;
	if (lease->next != KV_NONE)
		lease_at(table, lease->next)->prev = id;
	*head = id;
	table->nr++;
}

static void unlink_lease(struct lease_table *table, u32 id)
{
	const struct lease *lease = lease_at(table, id);

	kv_assert_held(&table->lock);
	table->nr--;
	if (lease->prev == LEASE_FIRST)
		*lease_bucket(table, lease->owner, lease_id_kind(id)) = lease->next;
	else
		lease_at(table, lease->prev)->next = lease->next;
	if (lease->next != KV_NONE)
		lease_at(table, lease->next)->prev = lease->prev;
}

void lease_replace(struct lease_table *table, u32 id, struct lease lease)
{
	struct lease *at = lease_at(table, id);
	bool moves = at->owner != lease.owner;
	u32 gen;

	kv_assert_held(&table->lock);
	if (lease_id_kind(id) != LEASE_HOLD && !lease.owner && !lease.kept)
		lease = (struct lease){ 0 };
	table->sum -= lease_sum(at, id);
	if (moves && at->owner)
		unlink_lease(table, id);
	lease.next = moves ? 0 : at->next;
	lease.prev = moves ? 0 : at->prev;
	gen = lease.gen;
	lease.gen = at->gen == gen ? gen : 0;
	*at = lease;
	/* Pairs with add_owner(): the lease of this generation is all there. */
	smp_store_release(&at->gen, gen);
	if (moves && at->owner)
		link_lease(table, id);
	table->sum += lease_sum(at, id);
}

void lease_write(struct lease_table *table, u32 id, struct lease lease)
{
	const struct lease *at = lease_at(table, id);

	lease.kept = at->gen == lease.gen ? at->kept : 0;
	lease_replace(table, id, lease);
}

void lease_clear(struct lease_table *table, u32 id)
{
	lease_write(table, id, (struct lease){ .gen = lease_at(table, id)->gen });
}

int range_reserve(struct kvmm_pool *pool, u32 index)
{
	struct lease_table *table;
	int err = leases_get(pool, &table);

	return err ? err : lease_reserve(table, lease_id(LEASE_RANGE, index));
}

/* The lease of another generation goes, and nothing is taken from it any more. */
void range_add_kept(struct lease_table *table, kvmm_range_t range, u64 by, bool is_more)
{
	u32 id = lease_id(LEASE_RANGE, range.index);
	struct lease lease = *lease_at(table, id);

	if (lease.gen != range.gen) {
		if (!is_more)
			return;
		lease = (struct lease){ .gen = range.gen };
	}
	lease.kept += by;
	lease_replace(table, id, lease);
}

void range_keep(struct kvmm_pool *pool, kvmm_range_t range, u64 by)
{
	struct lease_table *table = leases_of(pool);

	kv_assert_held(&pool->lock);
	kv_lock(&table->lock);
	range_add_kept(table, range, by, true);
	kv_unlock(&table->lock);
}

/* The range is live and pool->lock held, so its lease stays as it is read. */
void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	struct lease_table *table = leases_of(pool);
	u32 id = lease_id(LEASE_RANGE, index);
	const struct lease *lease = lease_at(table, id);

	kv_assert_held(&pool->lock);
	if (!lease || kv_peek(&lease->gen) != slot->gen || !kv_peek(&lease->owner))
		return;
	if (slot->refs > (kv_peek(&lease->kept) & KEPT_HOLDS))
		return;
	kv_lock(&table->lock);
	lease_clear(table, id);
	kv_unlock(&table->lock);
}
