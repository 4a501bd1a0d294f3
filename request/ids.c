// SPDX-License-Identifier: Apache-2.0
/*
 * Calls by block id, where blocks never move: ids become handles, and the calls by handle do it.
 *
 * The block map says which entry has a block, and the entry's word says of which generation. Both
 * are read without a lock. The map is read once more behind the word: an entry leaves its block in
 * the map before it gets the generation of its next one, so a word that goes with the same map is
 * of this block. From there on the handle protects the caller: the step by handle is refused if the
 * block is gone by then.
 */
#include <limits.h>

#include <cache/cache.h>
#include <kv/mem.h>
#include <kvmm/ext/ids.h>
#include <pool/local.h>

/* Ids that need no host memory. */
#define FEW	512u

/* Handles of a batch. */
struct batch {
	struct kv_handle *handles;	/* ->few, or memory of ours */
	u32 nr_private;			/* of those to be put */
	struct kv_handle few[FEW];
};

/* ---- from ids to handles ---- */

/*
 * Pools of other kinds, and batches that do not fit. A pool that is closed, or a forked child's,
 * says so before anything else, as it does in the calls by handle.
 */
static noinline int batch_begin_slow(struct kvmm_pool *pool, u32 nr, struct batch *batch)
{
	int err = pool_refusal(pool);

	if (err)
		return err;
	if (!pool->caches || pool->parts.planner)
		return -EOPNOTSUPP;
	if (nr > INT_MAX)
		return -EINVAL;
	batch->handles = kv_alloc_array(nr, sizeof(*batch->handles));
	return batch->handles ? 0 : -ENOMEM;
}

/* Before anything is looked up. To be ended by batch_end(), also after an error. */
static __always_inline int batch_begin(struct kvmm_pool *pool, const void *ids, u32 nr,
				       struct batch *batch)
{
	batch->handles = batch->few;
	if (unlikely(!pool || (nr && !ids)))
		return -EINVAL;
	if (likely(nr <= FEW && pool->caches && !pool->parts.planner))
		return 0;
	return batch_begin_slow(pool, nr, batch);
}

static __always_inline void batch_end(struct batch *batch)
{
	if (unlikely(batch->handles != batch->few))
		kv_free(batch->handles);
}

/* The word of the entry that has the block, and *@index is its; 0: none has it. */
static __always_inline u64 find_word(const struct kvmm_pool *pool, int32_t id, u32 *index)
{
	const u32 *owners = pool->owner;
	u32 owner, nr = pool->nr_blocks;
	u64 word;

	if (unlikely((u32)id >= nr))
		return 0;
	owner = READ_ONCE(owners[id]);
	*index = owner - make_owner(OWNER_ENTRY, 0);
	if (unlikely(*index >= nr))
		return 0;
	/* Pairs with the swap to this generation: the map without the block of the last is seen. */
	word = smp_load_acquire(&entry_at(pool, *index)->word);
	return likely(READ_ONCE(owners[id]) == owner) ? word : 0;
}

/* Why @word of the block is none that is wanted. */
static noinline int refuse(const struct kvmm_pool *pool, int32_t id, u64 word)
{
	int err = pool_refusal(pool);
	u32 kind;

	if (err)
		return err;
	kv_count(KV_EV_BAD_HANDLE);
	if ((u32)id >= pool->nr_blocks)
		return -EINVAL;
	kind = owner_kind(READ_ONCE(pool->owner[id]));
	if (kind == OWNER_NULL || kind == OWNER_SLOT)
		return -EINVAL;
	return kv_word_is(word, KV_ENTRY_PRIVATE) || kv_word_is(word, KV_ENTRY_STAGED) ||
	       kv_word_is(word, KV_ENTRY_REGISTERED) ? -EINVAL : -ESTALE;
}

/* All of them are in that state just now. */
static int find_all(const struct kvmm_pool *pool, const int32_t *ids, u32 nr,
		    enum kv_entry_state state, struct kv_handle *handles)
{
	for (u32 i = 0; i < nr; i++) {
		u32 index = 0;
		u64 word = find_word(pool, ids[i], &index);

		handles[i] = kv_handle_of(index, word);
		if (unlikely(!kv_word_is(word, state)))
			return refuse(pool, ids[i], word);
	}
	return 0;
}

/* Where the blocks of these handles lie, now and for good. The caller holds them. */
static void tell_ids(const struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr,
		     int32_t *ids)
{
	for (u32 i = 0; i < nr; i++)
		ids[i] = entry_block_told(entry_at(pool, handles[i].index));
}

/* ---- taking, naming, looking up ---- */

int kvmm_ids_alloc(struct kvmm_pool *pool, uint32_t nr, uint32_t tenant, int32_t *ids)
{
	struct batch batch;
	int err = batch_begin(pool, ids, nr, &batch);

	if (likely(!err))
		err = kvmm_alloc_for(pool, nr, tenant, (kvmm_mut_t *)batch.handles);
	if (likely(!err))
		tell_ids(pool, batch.handles, nr, ids);
	batch_end(&batch);
	return err;
}

int kvmm_ids_register(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, int32_t *ids,
		      uint32_t flags)
{
	u32 nr = prefix ? prefix->nr : 0;
	struct batch batch;
	int err = batch_begin(pool, ids, nr, &batch);

	if (!err && (!prefix || flags))
		err = -EINVAL;
	if (!err)
		err = find_all(pool, ids, nr, KV_ENTRY_PRIVATE, batch.handles);
	/* Of two threads that name one block the handle lets one through. */
	if (likely(!err))
		err = kvmm_prefix_register(pool, prefix, (kvmm_mut_t *)batch.handles,
					   (kvmm_ref_t *)batch.handles);
	if (likely(!err))
		tell_ids(pool, batch.handles, nr, ids);
	batch_end(&batch);
	return err;
}

int kvmm_ids_find(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, int32_t *ids,
		  uint32_t flags)
{
	struct batch batch;
	int ret = batch_begin(pool, ids, prefix ? prefix->nr : 0, &batch);

	if (!ret)
		ret = kvmm_prefix_find(pool, prefix, (kvmm_ref_t *)batch.handles, flags);
	if (likely(ret > 0 && !flags))
		tell_ids(pool, batch.handles, ret, ids);
	for (u32 i = 0; ret >= 0 && flags && i < prefix->nr; i++) {
		ids[i] = KVMM_NO_ID;
		if (batch.handles[i].gen)
			tell_ids(pool, &batch.handles[i], 1, &ids[i]);
	}
	batch_end(&batch);
	return ret;
}

/* ---- references ---- */

/*
 * How many got a reference more; *@nr_first of them the first. In a read section. The step is taken
 * from the word that was found: by handle it would be read and compared once more.
 */
static __always_inline u32 get_some(struct kvmm_pool *pool, const int32_t *ids, u32 nr,
				    kv_edge edge, struct kv_handle *handles, u32 *nr_first)
{
	for (u32 i = 0; i < nr; i++) {
		u32 index = 0;
		u64 word = find_word(pool, ids[i], &index);
		/* No step leads from the word 0. */
		int ret = kv_entry_step_from(entry_at(pool, index), word, edge);

		if (unlikely(ret < 0))
			return i;
		handles[i] = kv_handle_of(index, word);
		*nr_first += ret;
	}
	return nr;
}

int kvmm_ids_get(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags)
{
	u32 nr_done, nr_first = 0;
	struct batch batch;
	int err = batch_begin(pool, ids, nr, &batch);

	if (!err && flags & ~KVMM_IDS_INACTIVE)
		err = -EINVAL;
	if (!err)
		err = cache_begin(pool);
	if (unlikely(err))
		goto out;
	nr_done = likely(!flags) ?
		get_some(pool, ids, nr, kv_edge_get, batch.handles, &nr_first) :
		get_some(pool, ids, nr, kv_edge_try_get, batch.handles, &nr_first);
	if (likely(nr_done == nr)) {
		note_refs(pool, batch.handles, nr, nr_first);
	} else {
		/* A registered block has no references, is forgotten, or has all there can be. */
		u32 index = 0;
		u64 word = find_word(pool, ids[nr_done], &index);

		err = !kv_word_is(word, KV_ENTRY_REGISTERED) ? refuse(pool, ids[nr_done], word) :
		      kv_word_refs(word) == KV_ENTRY_REFS ? -EOVERFLOW : -ESTALE;
		tally_add(pool, TALLY_REFS, nr_done);
		tally_add(pool, TALLY_ACTIVE, nr_first);
	}
	cache_end(pool);
	if (unlikely(err))
		kvmm_put_many(pool, (kvmm_ref_t *)batch.handles, nr_done);
out:
	batch_end(&batch);
	return err;
}

int kvmm_ids_touch(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr)
{
	struct batch batch;
	int ret = batch_begin(pool, ids, nr, &batch);

	if (!ret)
		ret = find_all(pool, ids, nr, KV_ENTRY_REGISTERED, batch.handles);
	if (likely(!ret))
		ret = kvmm_touch_weak(pool, (kvmm_weak_t *)batch.handles, nr);
	if (likely(ret >= 0))
		ret = ret == (int)nr ? 0 : -ESTALE;
	batch_end(&batch);
	return ret;
}

/* ---- dropping references, and freeing ---- */

/* Registered ones with references, and private ones. Those without a lock are looked at only. */
static __always_inline int find_held(struct kvmm_pool *pool, const int32_t *ids, u32 nr,
				     bool turned, struct batch *batch)
{
	batch->nr_private = 0;
	for (u32 i = 0; i < nr; i++) {
		int32_t id = ids[turned ? nr - 1 - i : i];
		u32 index = 0;
		u64 word = find_word(pool, id, &index), new;

		batch->handles[i] = kv_handle_of(index, word);
		if (likely(kv_word_is(word, KV_ENTRY_REGISTERED))) {
			if (unlikely(kv_edge_put(word, &new) < 0))
				return kv_word_refuse_put(word);
		} else if (likely(kv_word_is(word, KV_ENTRY_PRIVATE))) {
			batch->nr_private++;
		} else {
			return refuse(pool, id, word);
		}
	}
	return 0;
}

/*
 * Registered ones go to the front of ->handles, private ones to its end, last first. These are
 * marked: no other thread frees or names one of them from then on, so what comes behind the dropped
 * references cannot fail any more. Without the lock a recount could meet the marks.
 */
static int put_mixed(struct kvmm_pool *pool, const int32_t *ids, u32 nr, u32 flags,
		     struct batch *batch)
{
	bool turned = flags & KVMM_IDS_FIRST_OUT;
	u32 gone = KV_NONE, nr_refs = 0, nr_private = 0;
	struct kv_handle *handles = batch->handles;
	int err = cache_enter(pool);

	if (err)
		return err;
	if (flags & KVMM_IDS_PARK && (pool->order.classes || pool->order.quotas))
		err = -EOPNOTSUPP;
	for (u32 i = 0; i < nr && likely(!err); i++) {
		int32_t id = ids[turned ? nr - 1 - i : i];
		u32 index = 0;
		u64 word = find_word(pool, id, &index);
		struct kv_handle handle = kv_handle_of(index, word);

		if (kv_word_is(word, KV_ENTRY_REGISTERED)) {
			handles[nr_refs++] = handle;
			continue;
		}
		err = !word ? refuse(pool, id, word) :
			      kv_handle_step(&pool->entries, handle, kv_edge_mark_private);
		if (!err)
			handles[nr - ++nr_private] = handle;
	}
	if (likely(!err))
		err = drop_checked(pool, handles, nr_refs, &gone);
	if (unlikely(err)) {
		entries_unmark(pool, handles + nr - nr_private, nr_private);
		kv_count(KV_EV_BAD_HANDLE);
	} else {
		order_enter(&pool->order);
		evict_gone_held(pool, gone);
		for (u32 i = nr_refs; i < nr; i++) {
			if (flags & KVMM_IDS_PARK)
				entry_park(pool, handles[i]);
			else
				entry_release(pool, handles[i]);
		}
		order_leave(&pool->order);
		release_post(pool, nr_refs);
		pool->count.frees++;
	}
	cache_leave(pool);
	return err;
}

int kvmm_ids_put(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t flags)
{
	bool turned = flags & KVMM_IDS_FIRST_OUT;
	u32 gone = KV_NONE;
	struct batch batch;
	int err = batch_begin(pool, ids, nr, &batch);

	if (!err && flags & ~(KVMM_IDS_FIRST_OUT | KVMM_IDS_PARK))
		err = -EINVAL;
	if (!err)
		err = likely(!turned) ? find_held(pool, ids, nr, false, &batch) :
					find_held(pool, ids, nr, true, &batch);
	if (unlikely(err))
		goto out;
	if (unlikely(batch.nr_private)) {
		err = batch.nr_private == nr && !(flags & KVMM_IDS_PARK) ?
			kvmm_free(pool, (kvmm_mut_t *)batch.handles, nr) :
			put_mixed(pool, ids, nr, flags, &batch);
		goto out;
	}
	/* They were found to have references just now: that is not looked at again. */
	err = drop_checked(pool, batch.handles, nr, &gone);
	if (likely(!err)) {
		release_put(pool, nr);
		err = evict_gone(pool, gone);
	}
out:
	batch_end(&batch);
	return err;
}

/* ---- what they are ---- */

int kvmm_ids_info_sized(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr,
			struct kvmm_id_info *info, size_t size)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	if ((nr && !ids) || kv_size_is_bad(info, size))
		err = -EINVAL;
	else if (pool->parts.planner)
		err = -EOPNOTSUPP;
	for (u32 i = 0; i < nr && !err; i++)
		err = (u32)ids[i] < pool->nr_blocks ? 0 : -EINVAL;
	arenas_lock(pool);
	for (u32 i = 0; i < nr && !err; i++) {
		u32 owner = pool->owner[ids[i]], index = owner_index(owner);
		bool has = owner_kind(owner) == OWNER_ENTRY;
		const struct kv_entry *entry = has ? entry_at(pool, index) : NULL;
		u64 word = has ? smp_load_acquire(&entry->word) : 0;
		struct kvmm_block_info known = block_info(pool, ids[i]);
		struct kvmm_id_info now = { .state = known.state, .refs = known.refs,
					    .pins = known.pins };

		if (kv_word_is(word, KV_ENTRY_PRIVATE)) {
			now.tokens = tokens_nr(pool, kv_handle_of(index, word));
		} else if (kv_word_is(word, KV_ENTRY_PARKED)) {
			now.tokens = tokens_nr(pool, kv_handle_of(index, word));
		} else if (kv_word_is(word, KV_ENTRY_STAGED) ||
			   kv_word_is(word, KV_ENTRY_REGISTERED)) {
			now.key = kv_entry_key(entry);
			now.domain = kv_entry_domain(entry);
			now.position = READ_ONCE(entry->position);
			now.tokens = pool->block_tokens;	/* only full blocks have names */
		} else {
			has = false;
		}
		if (has) {
			now.refs = kv_word_refs(word);
			now.handle = (kvmm_weak_t){ index, kv_word_gen(word) };
		}
		/* Steps without the lock came in between: once more. */
		if (unlikely(entry && READ_ONCE(entry->word) != word)) {
			i--;
			continue;
		}
		kv_give((char *)info + i * size, size, &now, sizeof(now));
	}
	arenas_unlock(pool);
	pool_leave(pool);
	return err;
}
