// SPDX-License-Identifier: Apache-2.0
/*
 * Leases of an owner, one after the other, and holds in the table.
 *
 * Leases of holds come in chunks that double, and stay; a call that needs one takes memory before
 * the lock, and gives it back if another call was faster. There are a quarter as many chains by key
 * as the pool has blocks, so a chain is about as long as there are holds on one block.
 */
#include <kv/mem.h>
#include <lease/lease.h>

#define HOLD_LOOK		64u	/* blocks of a chain, where the rest may be anything */

/* ---- leases ---- */

void lease_set_deadline(struct lease_table *table, u32 id, u64 deadline_ns)
{
	struct lease lease = *lease_at(table, id);

	lease.deadline_ns = deadline_ns;
	lease_replace(table, id, lease);
}

bool lease_is_live(const struct kvmm_pool *pool, u32 id, u32 gen)
{
	u32 index = lease_id_index(id);
	const struct slot *slot;
	u64 word;

	switch (lease_id_kind(id)) {
	case LEASE_RANGE:
		slot = slot_peek(pool, index);
		return slot && READ_ONCE(slot->gen) == gen && READ_ONCE(slot->nr_ext);
	case LEASE_BLOCK:
		if (!pool->caches || index >= pool->nr_blocks)
			return false;
		word = READ_ONCE(entry_at(pool, index)->word);
		return kv_word_gen(word) == gen && kv_word_is_owned(word);
	default:
		return true;	/* holds end their lease themselves */
	}
}

u32 lease_next(const struct kvmm_pool *pool, struct lease_table *table, u64 owner, u32 id)
{
	bool is_block = id != KV_NONE && lease_id_kind(id) == LEASE_BLOCK;
	u32 next = id != KV_NONE ? lease_at(table, id)->next :
				   *lease_bucket(table, owner, LEASE_RANGE);

	kv_assert_held(&table->lock);
	for (;;) {
		const struct lease *lease;

		if (next == KV_NONE && !is_block) {
			is_block = true;
			next = *lease_bucket(table, owner, LEASE_BLOCK);
		}
		if (next == KV_NONE)
			return KV_NONE;
		/* The two may be one bucket: each pass takes its own kinds. */
		id = next;
		lease = lease_at(table, id);
		next = lease->next;
		if (!lease_is_live(pool, id, lease->gen))
			lease_clear(table, id);
		else if (lease->owner == owner && (lease_id_kind(id) == LEASE_BLOCK) == is_block)
			return id;
	}
}

struct lease lease_look(struct kvmm_pool *pool, enum lease_kind kind, u32 index, u32 gen)
{
	struct lease_table *table = leases_of(pool);
	const struct lease *at = table ? lease_at(table, lease_id(kind, index)) : NULL;
	struct lease lease = { 0 };

	if (!at)
		return lease;
	kv_lock(&table->lock);
	if (at->gen == gen)
		lease = *at;
	kv_unlock(&table->lock);
	return lease;
}

/* ---- places for holds ---- */

static void push_free(struct lease_table *table, u32 index)
{
	kv_assert_held(&table->lock);
	kv_assert(!hold_lease(table, index)->hold);
	hold_lease(table, index)->next = table->free;
	table->free = index;
	table->nr_free++;
}

static void add_chunk(struct lease_table *table, struct lease *chunk)
{
	u32 first = nr_hold_slots(table), nr = HOLD_CHUNK << table->nr_hold_chunks;

	kv_assert_held(&table->lock);
	table->holds[table->nr_hold_chunks++] = chunk;
	kv_fetch_add(&table->bytes, nr * sizeof(*chunk));
	for (u32 i = first + nr; i-- > first;) {
		chunk[i - first].gen = table->gen_base;
		table->sum += lease_sum(&chunk[i - first], lease_id(LEASE_HOLD, i));
		push_free(table, i);
	}
}

int hold_reserve(struct lease_table *table, kvmm_lease_t *handle)
{
	struct lease *chunk = NULL;
	u32 nr_chunks = 0;
	bool got;

	for (;;) {
		kv_lock(&table->lock);
		if (chunk && table->free == KV_NONE && table->nr_hold_chunks == nr_chunks) {
			add_chunk(table, chunk);
			chunk = NULL;
		}
		got = table->free != KV_NONE;
		if (got) {
			const struct lease *lease = hold_lease(table, table->free);

			*handle = (kvmm_lease_t){ table->free, lease->gen };
			table->free = lease->next;
			table->nr_free--;
			table->nr_reserved++;
		}
		nr_chunks = table->nr_hold_chunks;
		kv_unlock(&table->lock);
		kv_free(chunk);
		if (got)
			return 0;
		chunk = nr_chunks == MAX_HOLD_CHUNKS ? NULL :
			kv_alloc_array(HOLD_CHUNK << nr_chunks, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
	}
}

void hold_unreserve(struct lease_table *table, kvmm_lease_t handle)
{
	kv_lock(&table->lock);
	KV_BUG_ON(!table->nr_reserved);
	table->nr_reserved--;
	push_free(table, handle.index);
	kv_unlock(&table->lock);
}

/* ---- blocks of holds, by key ---- */

struct held *hold_chain(const struct lease_table *table, const kvmm_key_t *key)
{
	kv_assert_held(&table->lock);
	return table->by_key[kv_hash_key(key, table->secret) & (table->nr_keys - 1)];
}

static void chain_add(struct lease_table *table, struct held *held)
{
	u64 hash = kv_hash_key(&held->key, table->secret);
	struct held **head = &table->by_key[hash & (table->nr_keys - 1)];

	kv_assert_held(&table->lock);
	held->next = *head;
	held->prev = head;
	if (held->next)
		held->next->prev = &held->next;
	*head = held;
}

static void chain_del(struct held *held)
{
	kv_assert(*held->prev == held);
	*held->prev = held->next;
	if (held->next)
		held->next->prev = held->prev;
}

/* How often holds have each block is counted among the first HOLD_LOOK of its chain. */
bool hold_has_refs(struct kvmm_pool *pool, struct lease_table *table, struct hold *hold)
{
	bool has = true;

	kv_lock(&table->lock);
	for (u32 i = 0; i < hold->nr; i++)
		chain_add(table, &hold->block[i]);
	for (u32 i = 0; i < hold->nr && has; i++) {
		const struct held *at = hold_chain(table, &hold->block[i].key);
		kvmm_ref_t ref = hold->ref[i];
		u32 nr = 0;

		for (u32 left = HOLD_LOOK; at && left; left--, at = at->next)
			nr += held_ref(at).index == ref.index && held_ref(at).gen == ref.gen;
		has = nr <= kv_word_refs(READ_ONCE(entry_at(pool, ref.index)->word));
	}
	for (u32 i = 0; i < hold->nr; i++)
		chain_del(&hold->block[i]);
	kv_unlock(&table->lock);
	return has;
}

/* ---- holds ---- */

u64 hold_bytes(const struct hold *hold)
{
	return sizeof(*hold) + hold->nr * (sizeof(hold->block[0]) + sizeof(hold->ref[0]));
}

u64 hold_sum(const struct hold *hold)
{
	u64 sum = lease_mix((u64)hold->nr << 32 | hold->index,
			    (u64)hold->reason << 32 | hold->flags);
	u64 word[2];

	sum = lease_mix(sum, (u64)hold->range.gen << 32 | hold->range.index);
	sum = lease_mix(sum, hold->domain);
	for (u32 i = 0; i < sizeof(hold->text); i += sizeof(word[0])) {
		memcpy(word, hold->text + i, sizeof(word[0]));
		sum = lease_mix(sum, word[0]);
	}
	for (u32 i = 0; i < hold->nr; i++) {
		memcpy(word, &hold->block[i].key, sizeof(word));
		sum = lease_mix(lease_mix(sum, word[0]), word[1]);
		sum = lease_mix(sum, (u64)hold->ref[i].gen << 32 | hold->ref[i].index);
		sum = lease_mix(sum, hold->block[i].block);
	}
	return sum;
}

static void count_hold(struct lease_table *table, const struct hold *hold, int sign)
{
	kv_assert_held(&table->lock);
	table->nr_holds += sign;
	table->nr_blocks += sign * (s64)hold->nr;
	kv_fetch_add(&table->bytes, sign * (s64)hold_bytes(hold));
	if (hold_is_of_range(hold))
		range_add_kept(table, hold->range, sign, sign > 0);
}

void hold_insert(struct lease_table *table, struct hold *hold, struct lease lease)
{
	KV_BUG_ON(!lease.gen || !hold->nr != hold_is_of_range(hold));
	hold->sum = hold_sum(hold);
	lease.hold = hold;
	kv_lock(&table->lock);
	KV_BUG_ON(!table->nr_reserved || hold_lease(table, hold->index)->hold);
	table->nr_reserved--;
	lease_replace(table, lease_id(LEASE_HOLD, hold->index), lease);
	for (u32 i = 0; i < hold->nr; i++)
		chain_add(table, &hold->block[i]);
	count_hold(table, hold, 1);
	kv_unlock(&table->lock);
}

/* A lease that comes to the generation before the first one is not used again. */
void hold_remove(struct lease_table *table, struct hold *hold)
{
	u32 gen = next_gen(hold_lease(table, hold->index)->gen);

	kv_assert_held(&table->lock);
	KV_BUG_ON(hold_lease(table, hold->index)->hold != hold);
	for (u32 i = 0; i < hold->nr; i++)
		chain_del(&hold->block[i]);
	count_hold(table, hold, -1);
	lease_replace(table, lease_id(LEASE_HOLD, hold->index), (struct lease){ .gen = gen });
	if (next_gen(gen) == table->gen_base)
		table->nr_retired++;
	else
		push_free(table, hold->index);
}

static int refuse(const struct lease_table *table, u32 now, u32 gen)
{
	kv_count(KV_EV_BAD_HANDLE);
	return gen && gen - table->gen_base < now - table->gen_base ? -ESTALE : -EINVAL;
}

/*
 * The generation of a lease without a hold is the next one's, so a caller that names it made it
 * up.
 */
int hold_enter(struct kvmm_pool *pool, kvmm_lease_t handle, struct lease_table **table,
	       struct lease **lease)
{
	u32 now;
	int err = leases_enter(pool, table);

	if (err || !*table)
		return err ? err : -EINVAL;
	kv_lock(&(*table)->lock);
	now = (*table)->gen_base;
	if (likely(handle.index < nr_hold_slots(*table))) {
		*lease = hold_lease(*table, handle.index);
		now = (*lease)->gen;
		if (likely(now == handle.gen && (*lease)->hold))
			return 0;
	}
	err = refuse(*table, now, handle.gen);
	kv_unlock(&(*table)->lock);
	return err;
}
