// SPDX-License-Identifier: Apache-2.0
/*
 * Naming full blocks, and publishing them. Without the pool's lock, but for newcomers that are
 * rejected: their blocks go back.
 */
#include <kv/mem.h>

#include "cache.h"

/* Newcomers that can be rejected without host memory. */
#define REJECT_FEW	64u

/* Entries that are asked for before they are named. */
#define AHEAD		32u

/* Names for blocks, and which of these follow each other: see struct kvmm_register_args. */
struct naming {
	const struct kvmm_prefix *prefix;
	const u32 *positions;
	bool as_put;
	struct kv_handle before;	/* the block before the first one, if that is known */
};

static bool prefix_is_bad(const struct kvmm_prefix *prefix, const void *blocks, const void *out)
{
	return !prefix || (prefix->nr && (!prefix->keys || !blocks || !out)) ||
	       prefix->position > UINT32_MAX - prefix->nr;
}

/* ---- which blocks follow which ---- */

static u32 position_of(const struct naming *naming, u32 i)
{
	return likely(!naming->positions) ? naming->prefix->position + i : naming->positions[i];
}

static bool follows(const struct naming *naming, u32 i)
{
	return i && position_of(naming, i) == position_of(naming, i - 1) + 1;
}

static bool positions_are_bad(const u32 *positions, u32 nr)
{
	for (u32 i = 1; i < nr; i++)
		if (positions[i] <= positions[i - 1])
			return true;
	return nr && positions[nr - 1] == UINT32_MAX;
}

void group_set_as_put(struct kvmm_pool *pool, u32 group, bool as_put)
{
	u64 *word = &pool->group_as_put[group / 64];

	kv_assert(group <= UINT16_MAX);
	kv_lock(&pool->lock);
	WRITE_ONCE(*word, (*word & ~BIT64(group % 64)) | (u64)as_put << group % 64);
	pool_leave(pool);
}

/* Is the order to know that blocks of @naming follow others? Relaxed: groups are made before. */
static bool goes_leaf_first(const struct kvmm_pool *pool, const struct naming *naming)
{
	u32 group = naming->prefix->domain.group;

	return likely(!pool->as_put && !naming->as_put) &&
	       likely(!(READ_ONCE(pool->group_as_put[group / 64]) & BIT64(group % 64)));
}

/* Observers know consecutive blocks only. */
static void tell_staged(struct kvmm_pool *pool, const struct naming *naming,
			const struct kv_handle *handles)
{
	struct kvmm_prefix run = *naming->prefix;
	u32 end;

	kv_assert_reading();
	for (u32 i = 0; i < naming->prefix->nr; i = end) {
		for (end = i + 1; end < naming->prefix->nr && follows(naming, end);)
			end++;
		run.keys = naming->prefix->keys + i;
		run.nr = end - i;
		run.position = position_of(naming, i);
		run.parent = i ? NULL : naming->prefix->parent;
		pool_tell(pool, staged, &run, handles + i);
	}
}

/* ---- stage ---- */

/*
 * How many are PRIVATE again. The others were taken away from their owner meanwhile (lease_end.c),
 * which has counted them as one STAGED less.
 */
static u32 unstage(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr, kv_edge edge)
{
	u32 nr_done = 0;

	for (u32 i = 0; i < nr; i++)
		nr_done += !kv_handle_step(&pool->entries, handles[i], edge);
	return nr_done;
}

/* Its first block follows one that is not of the batch. */
static bool has_parent(const struct kvmm_pool *pool, const struct naming *naming)
{
	return naming->prefix->parent && naming->prefix->nr && position_of(naming, 0) &&
	       goes_leaf_first(pool, naming);
}

/*
 * Tell the first block of a batch which entry has the block before it, for the order of eviction.
 * Mostly the caller that has just matched it holds that; else it counts as put back now. After the
 * batch was found to be good: a refused one leaves the order as it was.
 */
static void link_parent(struct kvmm_pool *pool, const struct naming *naming,
			struct kv_handle first)
{
	const struct kvmm_prefix *prefix = naming->prefix;
	struct kv_query query = { prefix->parent, 1, prefix->domain };
	u32 nr = 0, nr_first = 0;
	struct kv_handle found;

	kv_assert_not_held(&pool->lock);
	if (!has_parent(pool, naming) || cache_begin(pool))
		return;
	/* A match that fails would count as a miss. */
	if (kv_map_length(pool->map, &query))
		nr = match_refs(pool, &query, &found, &nr_first);
	if (nr)
		WRITE_ONCE(entry_at(pool, first.index)->parent, kv_link(found));
	tally_add(pool, TALLY_REFS, nr);
	tally_add(pool, TALLY_ACTIVE, nr_first);
	cache_end(pool);
	if (nr)
		kvmm_put_many(pool, (const kvmm_ref_t *)&found, 1);
}

/*
 * The same without a reference, of a block that is held in any case, before the batch is looked at.
 * False: it is not held, or not there. It may go at any time, as it may behind link_parent().
 */
static bool find_parent(struct kvmm_pool *pool, struct naming *naming)
{
	struct kv_query query = { naming->prefix->parent, 1, naming->prefix->domain };
	struct kv_lookup lookup = { .weak = &naming->before };
	bool held = false;
	u64 word;

	if (cache_begin(pool))
		return false;
	if (pool->map->ops->lookup(pool->map, &query, &lookup)) {
		word = READ_ONCE(entry_at(pool, naming->before.index)->word);
		held = kv_word_refs(word) && kv_word_gen(word) == naming->before.gen;
	}
	cache_end(pool);
	return held;
}

/* Their marks stay if @marks. In the same read section. */
static int stage_all(struct kvmm_pool *pool, const struct naming *naming,
		     const struct kv_handle *handles, bool marks)
{
	const struct kvmm_prefix *prefix = naming->prefix;
	struct kv_name name = { .domain = prefix->domain };
	bool linked = goes_leaf_first(pool, naming);
	int bad = lost_check(pool, handles, prefix->nr);

	kv_assert_reading();
	if (likely(!bad))
		bad = tokens_check(pool, handles, prefix->nr);
	if (unlikely(bad))
		return bad;
	for (u32 i = 0; i < min(prefix->nr, AHEAD); i++)
		kv_handle_prefetch(&pool->entries, handles[i]);
	for (u32 i = 0; i < prefix->nr; i++) {
		int err;

		if (i + AHEAD < prefix->nr)
			kv_handle_prefetch(&pool->entries, handles[i + AHEAD]);
		name.key = prefix->keys[i];
		name.position = position_of(naming, i);
		name.parent = linked && follows(naming, i) ? kv_link(handles[i - 1]) :
						       KV_NONE;
		err = kv_entry_stage(&pool->entries, handles[i], &name, marks);
		if (unlikely(err)) {
			tally_add(pool, TALLY_STAGED,
				  i - unstage(pool, handles, i,
					      marks ? kv_edge_unstage_marked : kv_edge_unstage));
			kv_count(KV_EV_BAD_HANDLE);
			/* Refused, and private after all: it stands in the batch twice. */
			if (err != -EBUSY &&
			    !entry_check(pool, handles[i], KV_ENTRY_PRIVATE, false))
				err = -EINVAL;
			return err;
		}
	}
	return 0;
}

/* All of @naming, or nothing. */
static int stage_told(struct kvmm_pool *pool, const struct naming *naming,
		      const struct kv_handle *handles, bool marks)
{
	u32 nr = naming->prefix->nr;
	int err = stage_all(pool, naming, handles, marks);

	kv_assert_reading();
	if (err || !nr)
		return err;
	if (unlikely(READ_ONCE(pool->observed)))
		tell_staged(pool, naming, handles);
	tally_add(pool, TALLY_STAGED, nr);
	return 0;
}

static void expect(struct kvmm_pool *pool, const struct kvmm_prefix *prefix)
{
	kv_assert_reading();
	if (pool->map->ops->expect)
		pool->map->ops->expect(pool->map, &query_of(prefix));
}

/* Only if they are to stay staged do misses learn of them. */
static int stage(struct kvmm_pool *pool, const struct naming *naming,
		 const struct kv_handle *handles, bool stay)
{
	u32 nr = naming->prefix->nr;
	int err = cache_begin(pool);
	bool marks;

	if (err)
		return err;
	if (!stay)
		expect(pool, naming->prefix);
	/*
	 * Where blocks have owners, another thread may take a block away from its owner at any
	 * moment: the batch stays marked until all of it is staged and told.
	 */
	marks = unlikely(READ_ONCE(pool->shares_blocks));
	err = stage_told(pool, naming, handles, marks);
	if (!err && stay)
		pool->map->ops->staged(pool->map, handles, nr);
	if (!err && unlikely(marks))
		entries_unmark(pool, handles, nr);
	cache_end(pool);
	if (!err && nr)
		link_parent(pool, naming, *handles);
	return err;
}

int stage_uncounted(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		    const kvmm_mut_t *blocks, kvmm_staged_t *staged)
{
	int err;

	if (prefix_is_bad(prefix, blocks, staged))
		return -EINVAL;
	err = stage(pool, &(struct naming){ .prefix = prefix }, as_handles(blocks), true);
	if (!err && prefix->nr)
		memmove(staged, blocks, prefix->nr * sizeof(*staged));
	return err;
}

void stage_count(struct kvmm_pool *pool, u32 nr)
{
	tally_add(pool, TALLY_STAGINGS, nr);
}

int kvmm_stage(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
	       const kvmm_mut_t *blocks, kvmm_staged_t *staged)
{
	int err = stage_uncounted(pool, prefix, blocks, staged);

	if (!err)
		stage_count(pool, prefix->nr);
	return err;
}

int kvmm_unstage(struct kvmm_pool *pool, const kvmm_staged_t *staged, uint32_t nr,
		 kvmm_mut_t *blocks)
{
	const struct kv_handle *handles = as_handles(staged);
	int err;
	u32 i;

	if (nr && (!staged || !blocks))
		return -EINVAL;
	err = cache_begin(pool);
	if (err)
		return err;
	for (i = 0; i < nr && !err; i++)
		err = kv_handle_step(&pool->entries, handles[i], kv_edge_unstage);
	if (unlikely(err)) {
		/* Their names are still there. */
		for (i--; i-- > 0;)
			if (kv_handle_step(&pool->entries, handles[i], kv_edge_restage))
				tally_add(pool, TALLY_STAGED, -1);	/* as in unstage() */
		kv_count(KV_EV_BAD_HANDLE);
	} else if (nr) {
		tally_add(pool, TALLY_STAGED, -(u64)nr);
		memmove(blocks, staged, nr * sizeof(*blocks));
	}
	cache_end(pool);
	return err;
}

/* ---- publish ---- */

static bool same(struct kv_handle a, struct kv_handle b)
{
	return a.index == b.index && a.gen == b.gen;
}

/* The block by which @handle's name is found: @found, or the elder that it holds. */
static struct kv_handle elder_of(struct kvmm_pool *pool, struct kv_handle handle,
				 struct kv_handle found)
{
	const struct kv_entry *entry = entry_at(pool, handle.index);

	kv_assert_reading();
	if (same(handle, found) && entry_holds_elder(entry))
		return kv_name_block(&pool->entries, entry_elder(entry));
	return found;
}

/*
 * An elder was hit, and the block behind follows it: a duplicate is freed by its last reference.
 * The caller holds that block, and the order has not heard of it.
 */
static void tell_elder(struct kvmm_pool *pool, const struct kv_insert *insert, u32 i)
{
	struct kv_handle handle = insert->handles[i], elder;
	struct kv_entry *behind;

	kv_assert_reading();
	elder = elder_of(pool, handle, insert->found[i]);
	if (same(handle, elder))
		return;
	order_note(&pool->order, NOTE_HIT, &elder, 1);
	if (++i == insert->nr || !same(insert->handles[i], insert->found[i]))
		return;
	behind = entry_at(pool, insert->handles[i].index);
	if (READ_ONCE(behind->parent) == kv_link(handle))
		WRITE_ONCE(behind->parent, kv_link(elder));
}

/* ->handles were inserted; ->found serve the names now. */
static void account(struct kvmm_pool *pool, const struct kv_insert *insert)
{
	const struct kv_handle *handles = insert->handles, *found = insert->found;
	bool plain = !insert->nr_dups && !pool->resets;
	u32 nr_new = plain ? insert->nr : 0, nr_refs = 0;	/* references taken on elders */
	u32 row = kv_tally_row();
	u64 names = 0;

	kv_assert_reading();
	for (u32 i = 0; i < insert->nr && likely(plain); i++)
		names += name_sum(entry_at(pool, handles[i].index));
	for (u32 i = 0; i < insert->nr && unlikely(!plain); i++) {
		const struct kv_entry *entry = entry_at(pool, handles[i].index);
		bool is_new = same(handles[i], found[i]), holds = entry_holds_elder(entry);

		nr_new += is_new;
		names += is_new ? name_sum(entry) : 0;
		nr_refs += !is_new || holds;
		if (is_new && (pool->resets || holds))
			kv_handle_step(&pool->entries, handles[i], kv_edge_set_reset);
		if (insert->nr_dups && insert->policy != KV_DUP_ALLOW)
			tell_elder(pool, insert, i);
	}
	kv_probe3(register, pool, insert->nr, insert->nr_dups);
	tally_add_in(pool, row, TALLY_STAGED, -(u64)nr_new);
	tally_add_in(pool, row, TALLY_REGISTERED, nr_new);
	tally_add_in(pool, row, TALLY_NEW, insert->nr);
	tally_add_in(pool, row, TALLY_DUPS, insert->nr_dups);
	tally_add_in(pool, row, TALLY_NAMES, names);
	tally_add_in(pool, row, TALLY_ACTIVE, nr_new + insert->nr_first);
	tally_add_in(pool, row, TALLY_REFS, nr_new + nr_refs);
	if (!order_wants_fill(&pool->order))
		return;
	if (nr_new == insert->nr)
		order_note(&pool->order, NOTE_FILL, handles, insert->nr);
	for (u32 i = 0; nr_new < insert->nr && i < insert->nr; i++)
		if (same(handles[i], found[i]))
			order_note(&pool->order, NOTE_FILL, &handles[i], 1);
}

/* They are STAGED, or, with @naming, PRIVATE: named in the same pass. */
static int publish_all(struct kvmm_pool *pool, const struct naming *naming,
		       struct kv_insert *insert)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	if (naming) {
		expect(pool, naming->prefix);
		err = stage_told(pool, naming, insert->handles, true);
		insert->is_marked = !err;
		if (!err && naming->before.gen)
			WRITE_ONCE(entry_at(pool, insert->handles->index)->parent,
				   kv_link(naming->before));
	} else {
		err = lost_check(pool, insert->handles, insert->nr);
	}
	if (likely(!err))
		err = pool->map->ops->insert(pool->map, insert);
	if (likely(!err)) {
		account(pool, insert);
		pool_tell(pool, registered, insert->handles, insert->found, insert->nr);
	}
	cache_end(pool);
	if (likely(!err))
		pool_tell(pool, published, insert->handles, insert->found, insert->nr);
	return err;
}

/* ---- newcomers that are rejected ---- */

/* They are still STAGED, and counted so, unless they were taken away: their blocks go back. */
static void free_rejected(struct kvmm_pool *pool, const struct kv_handle *handles,
			  const struct kv_handle *found, u32 nr)
{
	u32 nr_rejected = 0;

	kv_assert_not_held(&pool->lock);
	if (pool_enter(pool))
		return;
	order_enter(&pool->order);
	for (u32 i = nr; i-- > 0;) {
		if (same(handles[i], found[i]) ||
		    kv_handle_step(&pool->entries, handles[i], kv_edge_mark))
			continue;
		entry_release(pool, handles[i]);
		nr_rejected++;
	}
	order_leave(&pool->order);
	tally_add(pool, TALLY_STAGED, -(u64)nr_rejected);
	pool_leave(pool);
}

/* Rejected blocks must be known after the found ones have taken their places. */
static int publish_rejecting(struct kvmm_pool *pool, struct kv_insert *insert)
{
	struct kv_handle few[REJECT_FEW], *copy = few;
	int err;

	if (insert->nr > REJECT_FEW)
		copy = kv_alloc_array(insert->nr, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (insert->nr)
		memcpy(copy, insert->handles, insert->nr * sizeof(*copy));
	insert->handles = copy;
	err = publish_all(pool, NULL, insert);
	if (!err && insert->nr_dups)
		free_rejected(pool, copy, insert->found, insert->nr);
	if (copy != few)
		kv_free(copy);
	return err;
}

/* ---- entry ---- */

static int publish(struct kvmm_pool *pool, const struct naming *naming, struct kv_insert *insert)
{
	struct kvmm_registry *reg = pool->presence.reg;
	u32 nr = insert->nr;
	int err = presence_reserve(pool, nr);

	if (unlikely(err))
		return err;
	if (insert->policy == KV_DUP_REJECT)
		err = publish_rejecting(pool, insert);
	else
		err = publish_all(pool, naming, insert);
	if (unlikely(err)) {
		if (reg)
			kv_radix_unreserve(reg, nr);
		return err;
	}
	class_trim(pool);
	return 0;
}

static enum kv_dup_policy policy_of(const struct kvmm_pool *pool, u32 dup)
{
	static const u8 policy[KVMM_NR_DUPS] = {
		[KVMM_DUP_ALLOW] = KV_DUP_ALLOW, [KVMM_DUP_HOLD] = KV_DUP_HOLD,
		[KVMM_DUP_REJECT] = KV_DUP_REJECT,
	};

	return policy[dup == KVMM_DUP_POOL ? pool->dup : dup];
}

int kvmm_publish_sized(struct kvmm_pool *pool, struct kvmm_publish_args *req, size_t size)
{
	struct kv_insert insert;
	int err;

	if (!pool || !kv_args_are_known(req, size, sizeof(*req)) ||
	    (req->nr && (!req->staged || !req->refs)) || req->dup >= KVMM_NR_DUPS)
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	insert = (struct kv_insert){ .handles = as_handles(req->staged), .nr = req->nr,
				     .policy = policy_of(pool, req->dup),
				     .found = (struct kv_handle *)req->refs };
	err = publish(pool, NULL, &insert);
	req->nr_dups = err ? 0 : insert.nr_dups;
	if (err == -ESTALE || err == -EINVAL)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}

/* They are good but for the handles. */
static int register_blocks(struct kvmm_pool *pool, struct naming *naming,
			   const struct kv_handle *handles, enum kv_dup_policy policy,
			   struct kvmm_register_args *out)
{
	u32 nr = naming->prefix->nr;
	struct kv_insert insert = { .handles = handles, .nr = nr, .policy = policy,
				    .found = (struct kv_handle *)out->refs };
	/* A block before that is not held is put in between; what is rejected is kept aside. */
	bool apart = policy == KV_DUP_REJECT ||
		     (has_parent(pool, naming) && !find_parent(pool, naming));
	int err = apart ? stage(pool, naming, handles, false) : 0;

	if (err)
		return err;
	err = publish(pool, apart ? NULL : naming, &insert);
	out->nr_dups = err ? 0 : insert.nr_dups;
	if (likely(!err)) {
		stage_count(pool, nr);
	} else if ((apart || insert.is_marked) && !cache_enter(pool)) {
		/* Staged here, and private again: no release is undecided under the lock. */
		tally_add(pool, TALLY_STAGED, -(u64)unstage(pool, handles, nr, kv_edge_unstage));
		cache_leave(pool);
	}
	return err;
}

int kvmm_prefix_register(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			 const kvmm_mut_t *blocks, kvmm_ref_t *refs)
{
	struct kvmm_register_args out = { .refs = refs };

	if (!pool || prefix_is_bad(prefix, blocks, refs))
		return -EINVAL;
	return register_blocks(pool, &(struct naming){ .prefix = prefix }, as_handles(blocks),
			       policy_of(pool, KVMM_DUP_POOL), &out);
}

int kvmm_register_sized(struct kvmm_pool *pool, struct kvmm_register_args *req, size_t size)
{
	struct naming naming = { 0 };

	if (!pool || !kv_args_are_known(req, size, sizeof(*req)) ||
	    prefix_is_bad(&req->prefix, req->blocks, req->refs) ||
	    req->flags & ~KVMM_REGISTER_AS_PUT || req->dup >= KVMM_NR_DUPS ||
	    (req->positions && (req->prefix.position ||
				positions_are_bad(req->positions, req->prefix.nr))))
		return -EINVAL;
	naming.prefix = &req->prefix;
	naming.positions = req->positions;
	naming.as_put = req->flags & KVMM_REGISTER_AS_PUT;
	if (pool->prefix_closed && (naming.positions || naming.as_put))
		return -EINVAL;
	return register_blocks(pool, &naming, as_handles(req->blocks), policy_of(pool, req->dup),
			       req);
}
