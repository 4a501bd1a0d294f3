// SPDX-License-Identifier: Apache-2.0
/* The blocks of a hold, and the addresses of pinned ones. */
#include <lease/lease.h>

static_assert(sizeof(struct kvmm_lease_addr) == 40, "an address has no gaps");

/* A pinned block does not move: unless one pin was undone that was the hold's, it lies there. */
static bool is_pinned(const struct kvmm_pool *pool, const struct held *held)
{
	kvmm_ref_t ref = held_ref(held);
	const struct kv_entry *entry = entry_at(pool, ref.index);
	u64 word = smp_load_acquire(&entry->word);
	u32 block = entry_block(entry);

	return kv_word_is(word, KV_ENTRY_REGISTERED) && kv_word_gen(word) == ref.gen &&
	       kv_word_pins(word) && block == held->block;
}

int kvmm_lease_addrs(struct kvmm_pool *pool, kvmm_lease_t handle, struct kvmm_lease_addr *addrs,
		     uint32_t max)
{
	struct lease_table *table;
	const struct hold *hold;
	struct lease *lease;
	bool pins;
	int nr, err;

	if (max && !addrs)
		return -EINVAL;
	err = hold_enter(pool, handle, &table, &lease);
	if (err)
		return err;
	hold = lease->hold;
	pins = hold->flags & KVMM_LEASE_PIN;
	nr = hold->nr;
	for (u32 i = 0; pins && i < hold->nr; i++)
		if (!is_pinned(pool, &hold->block[i]))
			nr = -ESTALE;
	for (int i = 0; i < nr && i < max; i++)
		addrs[i] = (struct kvmm_lease_addr){
			.pool_id = pins ? table->id : 0, .key = hold->block[i].key,
			.block = pins ? hold->block[i].block : KV_NONE,
			.index = hold->ref[i].index, .gen = hold->ref[i].gen,
		};
	kv_unlock(&table->lock);
	return nr;
}

int kvmm_lease_check(struct kvmm_pool *pool, const struct kvmm_lease_addr *addr)
{
	struct lease_table *table;
	const struct held *at;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!addr || !addr->pool_id || !addr->gen || addr->reserved)
		return -EINVAL;
	err = leases_enter(pool, &table);
	if (err)
		return err;
	if (!table || table->id != addr->pool_id)
		return -EXDEV;
	kv_lock(&table->lock);
	for (at = hold_chain(table, &addr->key); at; at = at->next) {
		kvmm_ref_t ref = held_ref(at);

		if (at->hold->flags & KVMM_LEASE_PIN && ref.index == addr->index &&
		    ref.gen == addr->gen && at->block == addr->block &&
		    kv_key_equal(&at->key, &addr->key) && is_pinned(pool, at))
			break;
	}
	kv_unlock(&table->lock);
	return at ? 0 : -ESTALE;
}
