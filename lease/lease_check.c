// SPDX-License-Identifier: Apache-2.0
/* Leases as a part of the pool: their end, and the check of all of them. */
#include <kv/mem.h>
#include <lease/lease.h>

static void leases_exit(struct kvmm_pool *pool)
{
	struct lease_table *table = pool->leases;
	struct lease_watch *watch;

	if (!table)
		return;
	for (u32 i = 0; i < LEASE_WATCH_BUCKETS; i++)
		while ((watch = table->watch[i])) {
			table->watch[i] = watch->next;
			kv_free(watch);
		}
	for (u32 i = 0; i < nr_hold_slots(table); i++)
		kv_free(hold_lease(table, i)->hold);
	for (u32 i = 0; i < table->nr_hold_chunks; i++)
		kv_free(table->holds[i]);
	for (u32 i = 0; i < NR_LEASES_BESIDE * table->nr_chunks; i++)
		kv_free(table->chunk[i]);
	kv_free(table);
	pool->leases = NULL;
}

static u64 leases_bytes(struct kvmm_pool *pool)
{
	struct lease_table *table = leases_of(pool);

	return table ? READ_ONCE(table->bytes) : 0;
}

/* ---- the check ---- */

struct lease_recount {
	u32 nr;			/* with an owner */
	u32 nr_holds;
	u64 nr_blocks;		/* of holds */
	u64 on_ranges;		/* range_word() by hold, of generations that there is a lease of */
	u64 noted;		/* the same, as these leases count holds */
	u64 sum;
	u64 bytes;
};

/* Sums of these are equal only if each range has as many holds as its lease says. */
static u64 range_word(const struct lease_table *table, u32 index, u32 gen)
{
	return lease_mix(table->secret, (u64)gen << 32 | index);
}

/*
 * A put, or an unpin, too many may have taken a reference or pin of a hold: its caller learns that
 * at release, and it contradicts nothing here.
 */
static int check_hold(const struct kvmm_pool *pool, struct lease_table *table, u32 index,
		      struct lease_recount *re)
{
	const struct hold *hold = hold_lease(table, index)->hold;
	const struct lease *beside = NULL;

	kv_assert_held(&table->lock);
	if (hold->index != index)
		return pool_complain(pool, "a hold has the lease of another one", index);
	if (hold->nr > table->nr_blocks || !hold->nr != hold_is_of_range(hold) ||
	    hold->ref != (const void *)&hold->block[hold->nr])
		return pool_complain(pool, "a hold has another length", index);
	if (hold->sum != hold_sum(hold))
		return pool_complain(pool, "a hold says something else", index);
	for (u32 i = 0; i < hold->nr; i++) {
		const struct held *held = &hold->block[i];

		if (held->hold != hold || *held->prev != held)
			return pool_complain(pool, "a held block is not in its chain", index);
		if (hold->ref[i].index >= pool->nr_blocks)
			return pool_complain(pool, "a hold has no block", hold->ref[i].index);
	}
	if (hold_is_of_range(hold)) {
		if (!pool->slots || hold->range.index >= dir_nr_slots(pool->slots))
			return pool_complain(pool, "a hold has no range", hold->range.index);
		beside = lease_at(table, lease_id(LEASE_RANGE, hold->range.index));
	}
	if (beside && beside->gen == hold->range.gen)
		re->on_ranges += range_word(table, hold->range.index, hold->range.gen);
	re->nr_holds++;
	re->nr_blocks += hold->nr;
	re->bytes += hold_bytes(hold);
	return 0;
}

/*
 * Blocks of holds, which have been checked: if there are as many in the chains, each in that of its
 * key, and each once, nothing else is there.
 */
static int check_chains(const struct kvmm_pool *pool, const struct lease_table *table)
{
	u64 nr = 0;

	kv_assert_held(&table->lock);
	for (u32 i = 0; i < table->nr_keys; i++) {
		struct held *const *prev = &table->by_key[i];

		for (const struct held *at; (at = *prev); prev = &at->next)
			if (at->prev != prev || ++nr > table->nr_blocks ||
			    hold_chain(table, &at->key) != table->by_key[i])
				return pool_complain(pool, "chain of a key goes astray", i);
	}
	return nr == table->nr_blocks ? 0 : pool_complain(pool, "held blocks are lost", (u32)nr);
}

static int check_free(const struct kvmm_pool *pool, const struct lease_table *table)
{
	u32 nr = 0;

	kv_assert_held(&table->lock);
	for (u32 at = table->free; at != KV_NONE; at = hold_lease(table, at)->next, nr++)
		if (at >= nr_hold_slots(table) || hold_lease(table, at)->hold ||
		    nr == table->nr_free)
			return pool_complain(pool, "bad list of free holds", at);
	return nr == table->nr_free ? 0 : pool_complain(pool, "wrong count of free holds", nr);
}

static int check_owners(const struct kvmm_pool *pool, const struct lease_table *table)
{
	u32 nr = 0;

	kv_assert_held(&table->lock);
	for (u32 i = 0; i < table->nr_buckets; i++) {
		u32 prev = LEASE_FIRST;

		for (u32 id = table->bucket[i], next; id != KV_NONE; prev = id, id = next) {
			const struct lease *lease = lease_id_kind(id) <= LEASE_HOLD ?
						    lease_at(table, id) : NULL;

			if (!lease || !lease->owner || lease->prev != prev || ++nr > table->nr ||
			    lease_bucket(table, lease->owner, lease_id_kind(id)) !=
			    &table->bucket[i])
				return pool_complain(pool, "chain of an owner goes astray", id);
			next = lease->next;
		}
	}
	return nr == table->nr ? 0 : pool_complain(pool, "a lease is not with its owner", nr);
}

/* Leases @first to @first + @nr, of one chunk. */
static int check_chunk(const struct kvmm_pool *pool, struct lease_table *table, u32 first, u32 nr,
		       struct lease_recount *re)
{
	static const struct lease none;
	int err = 0;

	kv_assert_held(&table->lock);
	re->bytes += nr * sizeof(none);
	for (u32 id = first; id < first + nr && !err; id++) {
		const struct lease *lease = lease_at(table, id);

		re->nr += lease->owner != 0;
		re->sum += lease_sum(lease, id);
		if (lease_id_kind(id) == LEASE_HOLD) {
			err = lease->hold ? check_hold(pool, table, lease_id_index(id), re) : 0;
			continue;
		}
		re->noted += (lease->kept & KEPT_HOLDS) *
			     range_word(table, lease_id_index(id), lease->gen);
		if (!lease->owner && !lease->kept && memcmp(lease, &none, sizeof(none)))
			err = pool_complain(pool, "lease of no owner", id);
		if (lease->kept > KEPT_HOLDS &&
		    (lease_id_kind(id) != LEASE_RANGE || !pool->pin_types ||
		     !lease_is_live(pool, id, lease->gen)))
			err = pool_complain(pool, "pins that no range has", id);
	}
	return err;
}

static int check_table(const struct kvmm_pool *pool, struct lease_table *table)
{
	struct lease_recount re = {
		.bytes = leases_bare_bytes(table) + table->nr_watches * sizeof(struct lease_watch),
	};
	int err = 0;

	kv_assert_held(&table->lock);
	if (table->fixed_sum != leases_fixed_sum(table) ||
	    table->nr_chunks != leases_chunks_for(pool) || table->nr_hold_chunks > MAX_HOLD_CHUNKS)
		return pool_complain(pool, "bad table of leases", table->nr_chunks);
	for (u32 i = 0; i < MAX_HOLD_CHUNKS; i++)
		if (!table->holds[i] != (i >= table->nr_hold_chunks))
			return pool_complain(pool, "bad chunk of holds", i);
	for (u32 i = 0; i < NR_LEASES_BESIDE * table->nr_chunks && !err; i++) {
		u32 id = lease_id(i / table->nr_chunks, i % table->nr_chunks * LEASE_CHUNK);

		err = table->chunk[i] ? check_chunk(pool, table, id, LEASE_CHUNK, &re) : 0;
	}
	if (!err)
		err = check_chunk(pool, table, lease_id(LEASE_HOLD, 0), nr_hold_slots(table), &re);
	if (!err)
		err = check_free(pool, table);
	if (!err)
		err = check_owners(pool, table);
	if (!err)
		err = check_chains(pool, table);
	if (err)
		return err;
	if (re.nr != table->nr || re.sum != table->sum || re.on_ranges != re.noted)
		return pool_complain(pool, "wrong count or sum of leases", re.nr);
	if (re.nr_holds != table->nr_holds || re.nr_blocks != table->nr_blocks)
		return pool_complain(pool, "wrong count of holds", re.nr_holds);
	if (re.nr_holds + table->nr_free + table->nr_reserved + table->nr_retired !=
	    nr_hold_slots(table))
		return pool_complain(pool, "the lease of a hold is lost", table->nr_free);
	return re.bytes == table->bytes ? 0 : pool_complain(pool, "wrong memory of leases", re.nr);
}

static int leases_check(struct kvmm_pool *pool, const struct pool_recount *none)
{
	struct lease_table *table = leases_of(pool);
	int err;

	if (!table)
		return 0;
	kv_lock(&table->lock);
	err = check_table(pool, table);
	kv_unlock(&table->lock);
	return err;
}

POOL_PART(leases) = {
	.name	= "leases",
	.exit	= leases_exit,
	.bytes	= leases_bytes,
	.check	= leases_check,
};
