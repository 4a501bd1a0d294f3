// SPDX-License-Identifier: Apache-2.0
/*
 * Names of registered blocks change while the blocks are held.
 *
 * Back to private: the holder's reference becomes a claim, as an evictor's, for all blocks of the
 * call; from then on no look-up finds them, and nothing can fail. A refused call puts the
 * references back.
 *
 * Other names: a first name that goes leaves the map, and its entry is marked; it is written when
 * all readers that may have seen it without the mark have gone. So no reader takes half of a name
 * for another one, and look-ups cost what they did. The call holds the blocks and compact_lock
 * meanwhile: they are not evicted, and the world does not stop. Added names are records of their
 * own that never change.
 *
 * A block that waits for its name is REGISTERED and in no list of the map.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/registry_alias.h>
#include <kvmm/ext/name.h>

#include "cache.h"

int kvmm_unpublish(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr,
		   kvmm_mut_t *blocks)
{
	const struct kv_handle *handles = as_handles(refs);
	u32 i, nr_elders = 0;
	int err;

	if (nr && (!refs || !blocks))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = lost_check(pool, handles, nr);
	for (i = 0; i < nr && likely(!err); i++) {
		err = kv_handle_step(&pool->entries, handles[i], kv_edge_unpublish);
		if (unlikely(!err && handles[i].gen == pool->entries.gen_last)) {
			kv_handle_step(&pool->entries, handles[i], kv_edge_republish);
			err = -ENOSPC;
		}
	}
	if (unlikely(err))
		goto out_republish;
	order_enter(&pool->order);
	tally_add(pool, TALLY_REFS, -(u64)nr);
	tally_add(pool, TALLY_ACTIVE, -(u64)nr);
	for (i = 0; i < nr; i++) {
		nr_elders += entry_holds_elder(entry_at(pool, handles[i].index));
		entry_unpublish(pool, handles[i], &blocks[i]);
	}
	order_leave(&pool->order);
	release_post(pool, nr_elders);	/* they may be evicted now */
	cache_leave(pool);
	return 0;

out_republish:
	/* The last one that was looked at was refused, and may stand in the batch before. */
	for (u32 k = 0; k + 1 < i; k++) {
		if (err == -ESTALE && handles[k].index == handles[i - 1].index &&
		    handles[k].gen == handles[i - 1].gen)
			err = -EINVAL;
		kv_handle_step(&pool->entries, handles[k], kv_edge_republish);
	}
	cache_leave(pool);
	if (err == -ESTALE || err == -EINVAL)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}

/* ---- names change ---- */

/* One call: what it was given, and records of names to be added, in a list through ->next. */
struct change {
	const struct kvmm_name *names;
	const struct kv_handle *handles;
	u32 nr;
	u32 op;				/* enum kvmm_name_op */
	struct kv_alias *alias;
};

/* It has its first name no more, and gets another one, or none, when readers have gone. */
static bool is_unlinked(const struct kvmm_pool *pool, struct kv_handle handle)
{
	return READ_ONCE(entry_at(pool, handle.index)->dup_prev) == KV_NONE;
}

/* The name of the change, if it is an added one of the block. */
static struct kv_alias *added_name(const struct kvmm_pool *pool, const struct change *change, u32 i)
{
	u64 key[2];

	kv_assert_held(&pool->lock);
	kv_key_words(&change->names[i].key, key);
	return kv_alias_of(pool->map->aliases, change->handles[i].index, key,
			   kv_domain_word(change->names[i].domain));
}

/*
 * Of one block, unless it cannot be done: a name that goes is marked, or out of the map; one that
 * comes is the block's, but not found yet. A name that stands in the batch twice is met as such
 * here. Nothing is told but to consumers of events.
 */
static int begin_one(struct kvmm_pool *pool, struct change *change, u32 i)
{
	const struct kv_name_ops *ops = pool->map->ops->names;
	struct kv_handle handle = change->handles[i];
	struct kv_entry *entry = entry_at(pool, handle.index);
	struct kv_alias *added = added_name(pool, change, i);
	bool is_first;
	u64 key[2];

	kv_assert_held(&pool->lock);
	kv_key_words(&change->names[i].key, key);
	is_first = !is_unlinked(pool, handle) &&
		   kv_entry_has_name(entry, key, kv_domain_word(change->names[i].domain));
	if (READ_ONCE(entry->word) & KV_ENTRY_HIDDEN)
		return -ESTALE;
	if (change->op == KVMM_NAME_REMOVE) {
		if (!added || added->going)
			return is_first ? ops->unlink(pool->map, handle) : -ENOENT;
		added->going = true;
		return 0;
	}
	if (added || is_first)
		return -EEXIST;
	if (change->op == KVMM_NAME_RENAME)
		return ops->unlink(pool->map, handle);
	added = change->alias;
	change->alias = added->next;
	added->next = NULL;
	kv_alias_give(pool->map->aliases, added);
	return 0;
}

/*
 * All of them, or none. What was out of the map is in it again then, under its old name; of blocks
 * with that name it is the youngest now, and consumers of events have seen it go and come.
 */
static int begin_all(struct kvmm_pool *pool, struct change *change)
{
	int err = cache_enter(pool);
	u32 i;

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	for (i = 0; i < change->nr && !err; i++)
		err = begin_one(pool, change, i);
	for (i -= i && err; err && i--;) {
		struct kv_alias *added = added_name(pool, change, i);

		if (is_unlinked(pool, change->handles[i]))
			pool->map->ops->names->link(pool->map, change->handles[i]);
		if (added)
			added->going = false;
		if (!added || change->op != KVMM_NAME_ADD)
			continue;
		kv_alias_take(pool->map->aliases, added);
		added->next = change->alias;
		change->alias = added;
	}
	pool_leave(pool);
	return err;
}

/*
 * The first name of a block that is out of the map is this one from now on. The reference that a
 * duplicate holds on its elder goes with the old name, by which that is known.
 */
static void set_name(struct kvmm_pool *pool, struct kv_handle handle, const u64 key[2], u64 domain,
		     u32 position)
{
	struct kv_entry *entry = entry_at(pool, handle.index);

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	kv_assert(is_unlinked(pool, handle));
	pool_tell(pool, removed, &handle, 1);
	pool->count.names_forgotten += name_sum(entry);
	if (entry_holds_elder(entry)) {
		entry_drop_elder(pool, handle.index);
		if (!pool->resets)
			kv_handle_step(&pool->entries, handle, kv_edge_clear_reset);
	}
	WRITE_ONCE(entry->key[0], key[0]);
	WRITE_ONCE(entry->key[1], key[1]);
	WRITE_ONCE(entry->domain, domain);
	WRITE_ONCE(entry->position, position);
	WRITE_ONCE(entry->parent, KV_NONE);
	tally_add(pool, TALLY_NAMES, name_sum(entry));
	pool->map->ops->names->link(pool->map, handle);
}

/*
 * Nothing can fail any more. Readers that have found a block by the name that it loses go first.
 * An added name takes the place of a first one that was removed, and is found all the time; without
 * one the block is hidden, under its old name.
 */
static void end_all(struct kvmm_pool *pool, struct change *change)
{
	const struct kv_name_ops *ops = pool->map->ops->names;

	kv_assert_held(&pool->compact_lock);
	if (change->op != KVMM_NAME_ADD)
		kv_rcu_synchronize();
	for (u32 i = 0; i < change->nr; i++)
		if (is_unlinked(pool, change->handles[i]))
			pool_tell(pool, renamed, change->handles[i]);
	kv_lock(&pool->lock);
	order_enter(&pool->order);
	for (u32 i = 0; i < change->nr; i++) {
		const struct kvmm_name *name = &change->names[i];
		struct kv_alias *added = added_name(pool, change, i);
		u64 key[2];

		kv_key_words(&name->key, key);
		if (change->op == KVMM_NAME_RENAME) {
			set_name(pool, change->handles[i], key, kv_domain_word(name->domain),
				 name->position);
		} else if (change->op == KVMM_NAME_ADD) {
			ops->add(pool->map, added);
		} else if (added && added->going) {
			pool_tell(pool, unnamed, name);
			ops->del(pool->map, added);
		}
	}
	for (u32 i = 0; i < change->nr; i++) {
		struct kv_handle handle = change->handles[i];
		struct kv_alias *alias = kv_alias_first(pool->map->aliases, handle.index);

		if (likely(!is_unlinked(pool, handle)))
			continue;
		if (alias) {
			set_name(pool, handle, alias->key, alias->domain, alias->position);
			ops->del(pool->map, alias);
		} else {
			/* While the elder is known by that name: it may lose it here, too. */
			if (entry_holds_elder(entry_at(pool, handle.index)))
				entry_drop_elder(pool, handle.index);
			kv_handle_step(&pool->entries, handle, kv_edge_hide);
			ops->link(pool->map, handle);
		}
	}
	order_leave(&pool->order);
	pool_leave(pool);
}

/* The blocks are held. Parts that must not be told under a lock are told in the end. */
static int change_names(struct kvmm_pool *pool, struct change *change)
{
	struct kvmm_registry *reg = change->op == KVMM_NAME_REMOVE ? NULL : pool->presence.reg;
	struct kv_alias **at = &change->alias;
	struct kv_aliases *made = NULL;
	int err = reg ? kv_radix_reserve(reg, change->nr) : 0;

	kv_assert_not_held(&pool->lock);
	if (err)
		return err;
	kv_lock(&pool->compact_lock);
	/* All memory that the change takes; a table that was made stays for later calls. */
	for (u32 i = 0; i < change->nr && change->op == KVMM_NAME_ADD && !err; i++) {
		const struct kvmm_name *name = &change->names[i];

		*at = kv_alias_create(change->handles[i], &name->key, name->domain,
				      name->position);
		err = *at ? 0 : -ENOMEM;
		at = *at ? &(*at)->next : at;
	}
	if (change->op == KVMM_NAME_ADD && !pool->map->aliases && !err) {
		made = kv_aliases_create(pool->nr_blocks, kv_random());
		err = made ? 0 : -ENOMEM;
	}
	if (made) {
		kv_lock(&pool->lock);
		pool->metadata_bytes += kv_aliases_bytes(made);
		pool_leave(pool);
		/* Pairs with kv_rcu_dereference() by readers: the table is whole. */
		kv_rcu_assign(pool->map->aliases, made);
	}
	if (!err)
		err = begin_all(pool, change);
	if (!err)
		end_all(pool, change);
	for (struct kv_alias *next; change->alias; change->alias = next) {
		next = change->alias->next;
		kv_free(change->alias);
	}
	if (unlikely(err)) {
		if (reg)
			kv_radix_unreserve(reg, change->nr);
	} else if (change->op == KVMM_NAME_ADD) {
		pool_tell(pool, named, change->names, change->nr);
	} else {
		kv_rcu_read_lock();
		pool_tell(pool, registered, change->handles, change->handles, change->nr);
		kv_rcu_read_unlock();
		if (change->op == KVMM_NAME_RENAME)
			pool_tell(pool, published, change->handles, change->handles, change->nr);
	}
	/* Not before: a name that the next call replaces is told to be there first. */
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return err;
}

int kvmm_names_change(struct kvmm_pool *pool, const struct kvmm_name *names, const kvmm_ref_t *refs,
		      uint32_t nr, uint32_t op)
{
	struct change change = { names, as_handles(refs), nr, op, NULL };
	u32 i;
	int err;

	if (!pool || (nr && (!names || !refs)) || op >= KVMM_NR_NAME_OPS)
		return -EINVAL;
	if (!pool->caches || !pool->map->ops->names)
		return -EOPNOTSUPP;
	err = cache_begin(pool);
	if (err)
		return err;
	/* References of the call's own, so that no block goes before it ends. */
	for (i = 0; i < nr && !err; i++)
		err = kv_handle_step(&pool->entries, change.handles[i], kv_edge_get);
	i -= err != 0;
	tally_add(pool, TALLY_REFS, i);
	cache_end(pool);
	if (err == -ESTALE || err == -EINVAL)
		kv_count(KV_EV_BAD_HANDLE);
	if (!err && nr)
		err = change_names(pool, &change);
	kvmm_put_many(pool, refs, i);
	return err;
}

int kvmm_names_get(struct kvmm_pool *pool, kvmm_ref_t ref, struct kvmm_name *names, uint32_t max)
{
	struct kv_handle handle = { ref.index, ref.gen };
	const struct kv_alias *alias;
	const struct kv_entry *entry;
	u32 nr = 0;
	int err;

	if (max && !names)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = entry_check(pool, handle, KV_ENTRY_REGISTERED, true);
	entry = err ? NULL : entry_at(pool, handle.index);
	if (!err && !(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN)) {
		if (nr++ < max)
			names[0] = (struct kvmm_name){ kv_entry_key(entry), kv_entry_domain(entry),
						       READ_ONCE(entry->position) };
		for (alias = kv_alias_first(pool->map->aliases, ref.index); alias;
		     alias = alias->more) {
			if (nr < max) {
				memcpy(&names[nr].key, alias->key, sizeof(alias->key));
				names[nr].domain = kv_word_domain(alias->domain);
				names[nr].position = alias->position;
			}
			nr++;
		}
	}
	pool_leave(pool);
	return err ? err : (int)nr;
}
