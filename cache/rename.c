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
 * for another one, and look-ups cost what they did. Meanwhile the block is found by the name that
 * comes next, which is an added one until then. The call holds the blocks and compact_lock: they
 * are not evicted, and the world does not stop.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/sort.h>
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
	/* The order hears of their use while they are registered. */
	order_enter(&pool->order);
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
	order_leave(&pool->order);
	cache_leave(pool);
	if (err == -ESTALE || err == -EINVAL)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}

/* ---- names change ---- */

/* Names of a call that are changed without host memory. */
#define CHANGE_FEW	32u

/* One call: what it was given, and memory for it. */
struct change {
	const struct kvmm_name *names;
	const struct kv_handle *handles;
	u32 nr;
	u32 op;				/* enum kvmm_name_op */
	u32 *entries;			/* of these names */
	u32 *sorted;			/* numbers of them */
};

static int check_one(struct kvmm_pool *pool, const struct change *change, u32 i)
{
	bool removes = change->op == KVMM_NAME_REMOVE;

	kv_assert_held(&pool->lock);
	if (READ_ONCE(entry_at(pool, change->handles[i].index)->word) & KV_ENTRY_HIDDEN)
		return -ESTALE;
	change->sorted[i] = i;
	change->entries[i] = name_find(pool, change->handles[i].index, &change->names[i]);
	if ((change->entries[i] != KV_NONE) == removes)
		return 0;
	return removes ? -ENOENT : -EEXIST;
}

/* By block, and by name unless each block may be there once only. */
static int compare(const struct change *change, u32 a, u32 b)
{
	const struct kvmm_name *name = change->names;
	int diff = memcmp(&change->handles[a].index, &change->handles[b].index, sizeof(u32));

	if (!diff && change->op != KVMM_NAME_RENAME)
		diff = memcmp(&name[a].key, &name[b].key, sizeof(name->key));
	if (!diff && change->op != KVMM_NAME_RENAME)
		diff = memcmp(&name[a].domain, &name[b].domain, sizeof(name->domain));
	return diff;
}

static bool is_later(const u32 *a, const u32 *b, const struct change *change)
{
	return compare(change, *a, *b) > 0;
}

/* Does the same stand there twice? What that is: see kvmm_names_change(). */
static int check_twice(const struct change *change)
{
	static const int err[KVMM_NR_NAME_OPS] = {
		[KVMM_NAME_ADD] = -EEXIST, [KVMM_NAME_RENAME] = -EINVAL,
		[KVMM_NAME_REMOVE] = -ENOENT,
	};

	kv_sort(change->sorted, change->nr, is_later, change);
	for (u32 i = 1; i < change->nr; i++)
		if (!compare(change, change->sorted[i - 1], change->sorted[i]))
			return err[change->op];
	return 0;
}

/* Can all of it be done? */
static int check_all(struct kvmm_pool *pool, const struct change *change)
{
	const struct kv_entries *entries = &pool->entries;
	int err = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < change->nr && !err; i++)
		err = check_one(pool, change, i);
	if (!err)
		err = check_twice(change);
	if (!err && change->op != KVMM_NAME_REMOVE &&
	    change->nr > entries->nr_all - entries->nr - entries->nr_names)
		err = -ENOSPC;
	return err;
}

/*
 * A name that goes is out of the map, one that is added is not yet in it, and one that replaces
 * another is in it first. Nothing is told but to consumers of events.
 */
static void begin_one(struct kvmm_pool *pool, const struct change *change, u32 i)
{
	const struct kv_name_ops *ops = pool->map->ops->names;
	const struct kvmm_name *to = &change->names[i];
	struct kv_handle handle = change->handles[i];
	struct kv_name fresh = { to->key, to->domain, KV_NONE, to->position };

	kv_assert_held(&pool->lock);
	if (change->op == KVMM_NAME_REMOVE) {
		ops->unlink(pool->map, change->entries[i]);
		return;
	}
	change->entries[i] = kv_name_take(&pool->entries, handle, &fresh);
	if (change->op == KVMM_NAME_RENAME) {
		ops->link(pool->map, change->entries[i]);
		ops->unlink(pool->map, handle.index);
	}
}

/* Of what grows with names that are added; that of the map by its table, too: see make_room(). */
static u64 names_bytes(const struct kvmm_pool *pool)
{
	return kv_entries_bytes(&pool->entries) + pool->map->ops->bytes(pool->map);
}

/* All of them, or none. */
static int begin_all(struct kvmm_pool *pool, const struct change *change)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	err = check_all(pool, change);
	pool->metadata_bytes -= names_bytes(pool);
	for (u32 i = 0; i < change->nr && !err; i++)
		begin_one(pool, change, i);
	pool->metadata_bytes += names_bytes(pool);
	pool_leave(pool);
	return err;
}

/* A name that is out for good: duplicates have no references by it any more. */
static void release_name(struct kvmm_pool *pool, u32 name)
{
	struct kv_handle block = kv_name_block(&pool->entries, name);
	u32 nr = pool->map->ops->names->release(pool->map, name);

	kv_assert_held(&pool->lock);
	tally_add(pool, TALLY_REFS, -(u64)nr);
	while (nr--)	/* The call has one, too: it is not the last. */
		kv_handle_step(&pool->entries, block, kv_edge_put);
	if (kv_name_is_added(&pool->entries, name))
		kv_name_put(&pool->entries, name);
}

/*
 * The reference that a duplicate holds on its elder goes with its first name, and it is cached as
 * any, as one is that was let go. Before any name is
 * written: the elder is known by that name, and may lose it by the same call.
 */
static void drop_elders(struct kvmm_pool *pool, const struct change *change)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < change->nr; i++) {
		u32 index = change->handles[i].index;

		if (likely(!kv_name_is_out(&pool->entries, index) ||
			   READ_ONCE(entry_at(pool, index)->link) == KV_NONE))
			continue;
		entry_drop_elder(pool, index);
		if (!pool->resets)
			kv_handle_step(&pool->entries, change->handles[i], kv_edge_clear_reset);
	}
}

/*
 * The added @name is the first one of its block from now on, in place of one that is out. The block
 * follows the same one as before, in the order of eviction, as long as it is at its position.
 */
static void set_first(struct kvmm_pool *pool, struct kv_handle handle, u32 name)
{
	struct kv_entry *entry = entry_at(pool, handle.index), *from = entry_at(pool, name);

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool_tell(pool, removed, &handle, 1);
	pool->count.names_forgotten += name_sum(entry);
	WRITE_ONCE(entry->key[0], from->key[0]);
	WRITE_ONCE(entry->key[1], from->key[1]);
	WRITE_ONCE(entry->domain, from->domain);
	WRITE_ONCE(entry->position, from->position);
	tally_add(pool, TALLY_NAMES, name_sum(entry));
	pool->map->ops->names->swap(pool->map, name);
	kv_name_put(&pool->entries, name);
}

/* The block has lost its first name, and has no other one: it is hidden, under the old one. */
static void hide_nameless(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->lock);
	kv_handle_step(&pool->entries, handle, kv_edge_hide);
	pool->map->ops->names->link(pool->map, handle.index);
}

/* Nothing can fail any more. Readers that have found a block by a name that goes have gone. */
static void end_all(struct kvmm_pool *pool, const struct change *change)
{
	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < change->nr; i++)
		if (kv_name_is_out(&pool->entries, change->handles[i].index))
			pool_tell(pool, renamed, change->handles[i]);
	kv_lock(&pool->lock);
	order_enter(&pool->order);
	drop_elders(pool, change);
	for (u32 i = 0; i < change->nr; i++) {
		u32 name = change->entries[i];

		if (change->op == KVMM_NAME_ADD) {
			pool->map->ops->names->link(pool->map, name);
		} else if (change->op == KVMM_NAME_RENAME) {
			release_name(pool, change->handles[i].index);
			set_first(pool, change->handles[i], name);
		} else if (kv_name_is_added(&pool->entries, name)) {
			pool_tell(pool, unnamed, name);
			release_name(pool, name);
		}
	}
	for (u32 i = 0; i < change->nr; i++) {
		struct kv_handle handle = change->handles[i];
		u32 name = kv_name_first(&pool->entries, handle.index);

		if (unlikely(kv_name_is_out(&pool->entries, handle.index))) {
			release_name(pool, handle.index);
			if (name)
				set_first(pool, handle, name);
			else
				hide_nameless(pool, handle);
		}
		/* Forgotten meanwhile. */
		if (READ_ONCE(entry_at(pool, handle.index)->word) & KV_ENTRY_HIDDEN)
			names_forget(pool, handle.index);
	}
	order_leave(&pool->order);
	pool_leave(pool);
}

/* For names that come, as far as there are entries for them: 0; -ENOMEM. Under this lock only. */
static int make_room(struct kvmm_pool *pool, u32 nr)
{
	u64 nr_names = (u64)pool->nr_blocks + READ_ONCE(pool->entries.nr_names) + nr;
	u64 nr_all = pool->entries.nr_all;
	struct kv_map *map = pool->map;
	u64 before = map->ops->bytes(map);
	int err;

	kv_assert_held(&pool->compact_lock);
	if (min(nr_names, nr_all) <= max(map->nr_fit, pool->nr_blocks))
		return 0;
	/* An eighth more: each name is moved a few times, however many come one by one. */
	nr_names = min(nr_names + nr_names / 8 + 64, nr_all);
	err = pool_ask(pool, room, nr_names);
	if (!err)
		err = map->ops->resize(map, nr_names, kv_random());
	kv_lock(&pool->lock);
	pool->metadata_bytes += map->ops->bytes(map) - before;
	pool_leave(pool);
	return err;
}

static void tell_changed(struct kvmm_pool *pool, const struct change *change)
{
	kv_assert_not_held(&pool->lock);
	if (change->op != KVMM_NAME_REMOVE)
		pool_tell(pool, named, change->handles, change->names, change->nr);
	if (change->op == KVMM_NAME_ADD)
		return;
	kv_rcu_read_lock();
	pool_tell(pool, registered, change->handles, change->handles, change->nr);
	kv_rcu_read_unlock();
}

/* The blocks are held. Parts that must not be told under a lock are told in the end. */
static int change_held(struct kvmm_pool *pool, const struct change *change)
{
	struct kvmm_registry *reg = change->op == KVMM_NAME_REMOVE ? NULL : pool->presence.reg;
	u32 nr = change->nr, nr_fit;
	int err = reg ? presence_reserve(pool, nr) : 0;
	bool resized;

	kv_assert_not_held(&pool->lock);
	if (err)
		return err;
	kv_lock(&pool->compact_lock);
	nr_fit = pool->map->nr_fit;
	err = change->op == KVMM_NAME_REMOVE ? 0 : make_room(pool, nr);
	resized = pool->map->nr_fit != nr_fit;
	if (!err)
		err = begin_all(pool, change);
	if (likely(!err)) {
		if (change->op != KVMM_NAME_ADD)
			kv_rcu_synchronize();
		if (change->op != KVMM_NAME_REMOVE)
			pool_tell(pool, naming, change->handles, change->names, change->nr);
		end_all(pool, change);
		tell_changed(pool, change);
	} else if (reg) {
		kv_radix_unreserve(reg, nr);
	}
	/* Not before: a name that the next call replaces is told to be there first. */
	kv_unlock(&pool->compact_lock);
	if (unlikely(resized))	/* not under a lock of the pool */
		kv_rcu_barrier();
	cache_after(pool);
	return err;
}

static int change_names(struct kvmm_pool *pool, struct change *change)
{
	u32 few[2 * CHANGE_FEW], nr = change->nr;
	int err;

	change->entries = nr > CHANGE_FEW ? kv_alloc_array(2 * (size_t)nr, sizeof(*few)) : few;
	if (!change->entries)
		return -ENOMEM;
	change->sorted = change->entries + nr;
	err = change_held(pool, change);
	if (change->entries != few)
		kv_free(change->entries);
	return err;
}

int kvmm_names_change(struct kvmm_pool *pool, const struct kvmm_name *names, const kvmm_ref_t *refs,
		      uint32_t nr, uint32_t op)
{
	struct change change = { .names = names, .handles = as_handles(refs), .nr = nr, .op = op };
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
	u32 nr = 0, name = ref.index;
	int err;

	if (max && !names)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = entry_check(pool, handle, KV_ENTRY_REGISTERED, true);
	while (!err && !(READ_ONCE(entry_at(pool, ref.index)->word) & KV_ENTRY_HIDDEN)) {
		const struct kv_entry *entry = entry_at(pool, name);

		if (!kv_name_is_out(&pool->entries, name) && nr++ < max)
			names[nr - 1] = (struct kvmm_name){ kv_entry_key(entry),
							    kv_entry_domain(entry),
							    READ_ONCE(entry->position) };
		name = name == ref.index ? kv_name_first(&pool->entries, name) : entry->chain;
		if (!name)
			break;
	}
	pool_leave(pool);
	return err ? err : (int)nr;
}
