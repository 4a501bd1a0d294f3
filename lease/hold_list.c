// SPDX-License-Identifier: Apache-2.0
/* Answers about holds: which there are, of which blocks, and the addresses of pinned ones. */
#include <limits.h>

#include <kv/env.h>
#include <pool/determ.h>
#include <pool/lease.h>

#define HOLD_WALK	256u	/* leases that are looked at in one go */

/* ---- one hold ---- */

static void tell(const struct lease *lease, u64 now_ns, void *info, size_t size)
{
	const struct hold *hold = lease->hold;
	struct kvmm_hold_info now = {
		.owner = lease->owner,
		.since_ns = lease->since_ns,
		.age_ns = now_ns - min(lease->since_ns, now_ns),
		.deadline_ns = lease->deadline_ns,
		.reason = hold->reason,
		.flags = hold->flags,
		.nr = hold->nr,
		.hold = { hold->index, lease->gen },
		.range = hold->range,
	};

	memcpy(now.text, hold->text, sizeof(now.text));
	kv_give(info, size, &now, sizeof(now));
}

int kvmm_hold_get_info_sized(struct kvmm_pool *pool, kvmm_hold_t handle,
			     struct kvmm_hold_info *info,
			     size_t size)
{
	u64 now_ns = pool ? pool_clock_ns(pool) : 0;
	struct lease_table *table;
	struct lease *lease;
	int err;

	if (kv_size_is_bad(info, size))
		return -EINVAL;
	err = hold_enter(pool, handle, &table, &lease);
	if (err)
		return err;
	tell(lease, now_ns, info, size);
	kv_unlock(&table->lock);
	return 0;
}

int kvmm_hold_refs(struct kvmm_pool *pool, kvmm_hold_t handle, kvmm_ref_t *refs, kvmm_key_t *keys,
		   uint32_t max)
{
	struct lease_table *table;
	struct lease *lease;
	const struct hold *hold;
	int nr, err = hold_enter(pool, handle, &table, &lease);

	if (err)
		return err;
	hold = lease->hold;
	nr = hold->nr;
	for (u32 i = 0; i < min(hold->nr, max); i++) {
		if (refs)
			refs[i] = hold->ref[i];
		if (keys)
			keys[i] = hold->block[i].key;
	}
	kv_unlock(&table->lock);
	return nr;
}

/* ---- all of them ---- */

int kvmm_hold_next_sized(struct kvmm_pool *pool, uint32_t *cursor, struct kvmm_hold_info *info,
			 size_t size)
{
	u64 now_ns = pool ? pool_clock_ns(pool) : 0;
	struct lease_table *table;
	bool is_end, has = false;
	int err = cursor && !kv_size_is_bad(info, size) ? leases_enter(pool, &table) : -EINVAL;

	if (err)
		return err;
	for (is_end = !table; !has && !is_end;) {
		kv_lock(&table->lock);
		for (u32 left = HOLD_WALK; left && !has && *cursor < nr_hold_slots(table); left--) {
			const struct lease *lease;

			lease = lease_at(table, lease_id(LEASE_HOLD, (*cursor)++));
			has = lease->hold;
			if (has)
				tell(lease, now_ns, info, size);
		}
		is_end = *cursor >= nr_hold_slots(table);
		kv_unlock(&table->lock);
	}
	return has ? 0 : -ENOENT;
}

int kvmm_block_holds_sized(struct kvmm_pool *pool, const kvmm_key_t *key,
			   const kvmm_domain_t *domain, struct kvmm_hold_info *infos, uint32_t max,
			   size_t size)
{
	u64 word = domain ? kv_domain_word(*domain) : 0;
	struct lease_table *table;
	u64 now_ns = pool ? pool_clock_ns(pool) : 0;
	u32 nr = 0;
	int err = !key || (max && kv_size_is_bad(infos, size)) ? -EINVAL :
								leases_enter(pool, &table);

	if (err || !table)
		return err;
	kv_lock(&table->lock);
	for (const struct held *at = hold_chain(table, key); at; at = at->next) {
		if (at->hold->domain != word || !kv_key_equal(&at->key, key))
			continue;
		if (nr < max)
			tell(lease_at(table, lease_id(LEASE_HOLD, at->hold->index)), now_ns,
			     (u8 *)infos + nr * size, size);
		nr++;
	}
	kv_unlock(&table->lock);
	return nr;
}

/* ---- addresses ---- */

static_assert(sizeof(struct kvmm_pin_addr) == 40, "an address has no gaps");

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

static int nr_pinned(const struct kvmm_pool *pool, const struct hold *hold)
{
	if (!(hold->flags & KVMM_HOLD_PIN))
		return -EPERM;
	for (u32 i = 0; i < hold->nr; i++)
		if (!is_pinned(pool, &hold->block[i]))
			return -ESTALE;
	return hold->nr;
}

int kvmm_pin_addrs(struct kvmm_pool *pool, kvmm_hold_t handle, struct kvmm_pin_addr *addrs,
		   uint32_t max)
{
	struct lease_table *table;
	const struct hold *hold;
	struct lease *lease;
	int nr, err;

	if (max && !addrs)
		return -EINVAL;
	err = hold_enter(pool, handle, &table, &lease);
	if (err)
		return err;
	hold = lease->hold;
	nr = nr_pinned(pool, hold);
	for (int i = 0; i < nr && i < max; i++)
		addrs[i] = (struct kvmm_pin_addr){
			.pool_id = table->id, .key = hold->block[i].key,
			.block = hold->block[i].block,
			.index = hold->ref[i].index, .gen = hold->ref[i].gen,
		};
	kv_unlock(&table->lock);
	return nr;
}

static bool is_pinned_there(const struct held *held, const struct kvmm_pin_addr *addr)
{
	kvmm_ref_t ref = held_ref(held);

	return held->hold->flags & KVMM_HOLD_PIN && ref.index == addr->index &&
	       ref.gen == addr->gen && held->block == addr->block &&
	       kv_key_equal(&held->key, &addr->key);
}

int kvmm_pin_check(struct kvmm_pool *pool, const struct kvmm_pin_addr *addr)
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
	at = hold_chain(table, &addr->key);
	while (at && !(is_pinned_there(at, addr) && is_pinned(pool, at)))
		at = at->next;
	kv_unlock(&table->lock);
	return at ? 0 : -ESTALE;
}
