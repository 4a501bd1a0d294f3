// SPDX-License-Identifier: Apache-2.0
/*
 * The destination of a migration: reserved all or nothing, published all or nothing.
 *
 * Blocks with names that the pool has already are referenced instead of reserved, so that they
 * cannot be evicted before the source is given back. Should a thread register a name after we
 * looked, ours is the newcomer, and is rejected in favour of the one that is there.
 */
#include <string.h>

#include <kv/err.h>
#include <kv/mem.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/group.h>

#include "store.h"

#define RANGE_FLAGS	(KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_GROWS)

void *longer_array(void *before, u32 nr_kept, u32 nr, u32 size)
{
	void *array = kv_alloc_array(nr, size);

	if (array && nr_kept)
		memcpy(array, before, (u64)nr_kept * size);
	kv_free(before);
	return array;
}

int store_init(struct store *store, u32 nr_refs, const struct kv_block_name *name, u32 nr_ranges,
	       const struct kv_range_kind *kind)
{
	store->nr_refs = store->list.nr = nr_refs;
	store->name = name;
	store->nr_ranges = nr_ranges;
	store->kind = kind;
	store->ref = kv_alloc_array(max(nr_refs, 1u), sizeof(*store->ref));
	store->mut = kv_alloc_array(max(nr_refs, 1u), sizeof(*store->mut));
	store->present = kv_alloc_array(max(nr_refs, 1u), sizeof(*store->present));
	store->list.block = kv_alloc_array(max(nr_refs, 1u), sizeof(*store->list.block));
	if (store->ref && store->mut && store->present && store->list.block)
		return 0;
	store_exit(store);
	return -ENOMEM;
}

/* ---- blocks that are there ---- */

static struct kvmm_prefix prefix_of(const struct kv_block_name *name)
{
	return (struct kvmm_prefix){
		.keys = &name->key, .nr = 1, .position = name->position,
		.parent = name->has_parent ? &name->parent : NULL, .domain = name->domain,
	};
}

static void put_present(struct store *store)
{
	for (u32 i = store->nr_refs; i-- > 0;)
		if (store->present[i])
			kvmm_put(store->pool, store->ref[i]);
	for (u32 i = 0; i < store->nr_refs; i++)
		store->present[i] = false;
	store->nr_present = 0;
}

/* ---- blocks that are not ---- */

static u32 alloc_flags(const struct store *store)
{
	return store->flags & KVMM_MIGRATE_NO_EVICT ? KVMM_ALLOC_NO_EVICT : 0;
}

/* Neighbours cost fewer copies; they are not worth evicting or moving anything. */
static int alloc_muts(struct store *store, u32 nr, u32 tenant, u32 flags)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_mut_t *muts = store->mut + store->nr_muts;
	int err = -ENOSPC;

	ctl.nr = nr;
	ctl.tenant = tenant;
	ctl.flags = KVMM_ALLOC_CONTIG | KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT;
	if (nr > 1)
		err = kvmm_alloc_as(store->pool, &ctl, muts);
	ctl.flags = flags | KVMM_ALLOC_NO_COMPACT;
	if (err)
		err = kvmm_alloc_as(store->pool, &ctl, muts);
	store->nr_muts += err ? 0 : nr;
	return err;
}

static void free_muts(struct store *store)
{
	if (store->kept)
		kv_pool_let_muts(store->pool, store->mut, store->nr_muts);
	store->kept = false;
	if (store->nr_muts)
		kvmm_free(store->pool, store->mut, store->nr_muts);
	store->nr_muts = 0;
}

/* At once: all of them, or nothing is evicted. */
static int take_together(struct store *store, const struct kvmm_gang_want *wants, u32 nr)
{
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	struct kvmm_gang *gang;
	int err;

	attr.pools = &store->pool;
	attr.nr_pools = 1;
	attr.wants = wants;
	attr.nr = nr;
	err = kvmm_gang_reserve(&attr, &gang, NULL);
	return err ? err : kvmm_gang_commit(gang, store->mut, store->range);
}

/* Of one tenant, as many as stand together from name *@at on. None: there are no more. */
static struct kvmm_gang_want next_absent(const struct store *store, u32 *at)
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_BLOCKS };

	for (; *at < store->nr_refs; ++*at) {
		u32 tenant = store->name[*at].domain.tenant;

		if (store->present[*at])
			continue;
		if (want.nr && tenant != want.tenant)
			break;
		want.tenant = tenant;
		want.nr++;
	}
	return want;
}

static int absent_in_turn(struct store *store, u32 flags)
{
	struct kvmm_gang_want want;
	u32 at = 0;
	int err = 0;

	while (!err && (want = next_absent(store, &at)).nr)
		err = alloc_muts(store, want.nr, want.tenant, flags);
	if (err)
		free_muts(store);
	return err;
}

static int absent_together(struct store *store)
{
	struct kvmm_gang_want want[KVMM_GANG_MAX_WANTS], next;
	u32 at = 0, nr = 0, nr_muts = 0;
	int err;

	while ((next = next_absent(store, &at)).nr) {
		if (nr == KVMM_GANG_MAX_WANTS)
			return -ENOSPC;
		want[nr++] = next;
		nr_muts += next.nr;
	}
	err = take_together(store, want, nr);
	store->nr_muts = err ? 0 : nr_muts;
	return err;
}

/* Of several tenants at once, if blocks are evicted for them: all of them, or none is. */
static int alloc_absent(struct store *store)
{
	u32 at = 0, flags = alloc_flags(store);
	bool several = next_absent(store, &at).nr && next_absent(store, &at).nr;
	int err = absent_in_turn(store, several ? KVMM_ALLOC_NO_EVICT : flags);

	if (!several || flags || (err != -ENOSPC && err != -EDQUOT))
		return err;
	return absent_together(store);
}

/* Copies go to where they lie; from here on that does not change. */
static int keep_muts(struct store *store)
{
	u32 k = store->nr_muts;
	int err = kv_pool_keep_muts(store->pool, store->mut, k);

	store->kept = !err;
	if (!err)
		err = kvmm_blocks_of_muts(store->pool, store->mut, k, store->list.block);
	/* From one behind the other to their places. */
	for (u32 i = store->nr_refs; i-- > 0 && !err;)
		if (!store->present[i])
			store->list.block[i] = store->list.block[--k];
	return err;
}

static int reserve_refs(struct store *store)
{
	int err = 0;

	store->nr_present = 0;
	for (u32 i = 0; i < store->nr_refs && !err; i++) {
		struct kvmm_prefix prefix = prefix_of(&store->name[i]);
		int found = kvmm_prefix_scan(store->pool, &prefix, &store->ref[i]);

		err = min(found, 0);
		store->present[i] = found > 0;
		store->nr_present += found > 0;
	}
	if (!err)
		err = alloc_absent(store);
	if (!err && store->nr_muts)
		err = keep_muts(store);
	if (err) {
		free_muts(store);
		put_present(store);
	}
	return err;
}

/* ---- ranges ---- */

static void free_ranges(struct store *store, u32 nr_pinned)
{
	store->list.nr = store->nr_refs;
	memset(store->list.listed, 0, sizeof(store->list.listed));
	for (u32 i = store->nr_ranges; i-- > 0;) {
		if (i < nr_pinned)
			kvmm_range_unpin(store->pool, store->range[i]);
		kvmm_range_free(store->pool, store->range[i]);
	}
}

/* Blocks [@first, @end) of a range, which may become longer meanwhile. */
static int range_blocks(struct kvmm_pool *pool, kvmm_range_t range, u32 first, u32 end, u32 *block)
{
	int max = kvmm_range_extents(pool, range, NULL, 0), nr;
	struct kvmm_extent *ext;
	u32 at = 0;

	if (max < 0)
		return max;
	ext = kv_alloc_array(max, sizeof(*ext));
	if (!ext)
		return -ENOMEM;
	nr = kvmm_range_extents(pool, range, ext, max);
	for (int k = 0; k < min(nr, max); k++)
		for (u32 b = 0; b < ext[k].nr; b++, at++)
			if (at >= first && at < end)
				block[at - first] = ext[k].start + b;
	kv_free(ext);
	return nr < 0 ? nr : at < end ? -ESTALE : 0;
}

int list_ranges(struct block_list *list, const struct range_set *set)
{
	u64 nr = list->nr, at = nr;
	u32 *block;
	int err = 0;

	for (u32 i = 0; i < set->nr; i++)
		nr += set->kind[i].listed - list->listed[i];
	if (nr > KVMM_MIGRATE_MAX_BLOCKS)
		return -E2BIG;
	if (nr == at)
		return 0;
	block = kv_alloc_array(nr, sizeof(*block));
	if (!block)
		return -ENOMEM;
	if (at)
		memcpy(block, list->block, at * sizeof(*block));
	for (u32 i = 0; i < set->nr && !err; i++) {
		u32 first = list->listed[i], end = set->kind[i].listed;

		err = range_blocks(set->pool, set->range[i], first, end, block + at);
		at += end - first;
	}
	if (err) {
		kv_free(block);
		return err;
	}
	for (u32 i = 0; i < set->nr; i++)
		list->listed[i] = set->kind[i].listed;
	kv_free(list->block);
	list->block = block;
	list->nr = nr;
	return 0;
}

/* Of no sequence yet. */
static struct kvmm_gang_want want_of(const struct store *store, u32 i)
{
	const struct kv_range_kind *kind = &store->kind[i];

	return (struct kvmm_gang_want){
		.kind = KVMM_GANG_RANGE, .nr = kind->nr, .prio = kind->prio, .tenant = kind->tenant,
		.max_runs = store->max_runs ? store->max_runs : KVMM_MAX_RUNS,
		.flags = (kind->flags & RANGE_FLAGS) | alloc_flags(store),
	};
}

/* One after the other: what was evicted for the first ones would be lost if a later one fails. */
static int alloc_in_turn(struct store *store, u32 flags)
{
	int err = 0;
	u32 i;

	for (i = 0; i < store->nr_ranges && !err; i++) {
		struct kvmm_gang_want want = want_of(store, i);
		struct kvmm_range_attr attr = {
			.size = sizeof(attr), .nr = want.nr, .prio = want.prio,
			.tenant = want.tenant, .max_runs = want.max_runs,
			.flags = want.flags | flags,
		};

		err = kvmm_range_alloc_attr(store->pool, &attr, &store->range[i]);
	}
	for (i = err ? i - 1 : 0; i-- > 0;)
		kvmm_range_free(store->pool, store->range[i]);
	return err;
}

static int ranges_together(struct store *store)
{
	struct kvmm_gang_want want[KVMM_MIGRATE_MAX_RANGES];

	static_assert(KVMM_MIGRATE_MAX_RANGES <= KVMM_GANG_MAX_WANTS, "a gang takes them all");
	for (u32 i = 0; i < store->nr_ranges; i++)
		want[i] = want_of(store, i);
	return take_together(store, want, store->nr_ranges);
}

static int alloc_ranges(struct store *store)
{
	int err;

	for (u32 i = 0; i < store->nr_ranges; i++)
		if (store->kind[i].nr > store->view.nr_usable)
			return -ENOSPC;
	if (store->nr_ranges <= 1)
		return alloc_in_turn(store, 0);
	err = ranges_together(store);
	/* Blocks move in more ways for a single range, also beside steps. */
	return err == -ENOSPC ? alloc_in_turn(store, KVMM_ALLOC_NO_EVICT) : err;
}

/* No thread moves them. */
static int reserve_ranges(struct store *store)
{
	u32 i;
	int err = alloc_ranges(store);

	if (err)
		return err;
	for (i = 0; i < store->nr_ranges; i++) {
		store->range_nr[i] = store->kind[i].nr;
		err = kvmm_range_pin(store->pool, store->range[i]);
		if (err)
			break;
	}
	if (!err)
		err = store_list(store);
	if (err)
		free_ranges(store, i);
	return err;
}

int store_list(struct store *store)
{
	const struct range_set set = { store->pool, store->range, store->kind, store->nr_ranges };
	int err = 0;

	for (u32 i = 0; i < store->nr_ranges && !err; i++) {
		u32 by = store->kind[i].nr - store->range_nr[i];

		err = by > store->view.nr_usable ? -ENOSPC :
		      by ? kvmm_range_grow(store->pool, store->range[i], by) : 0;
		if (!err)
			store->range_nr[i] += by;
	}
	return err ? err : list_ranges(&store->list, &set);
}

int store_reserve(struct store *store)
{
	int err;

	if (KV_BUG_ON(store->state != STORE_EMPTY))
		return -EINVAL;
	err = reserve_ranges(store);
	if (err)
		return err;
	err = store->nr_refs ? reserve_refs(store) : 0;
	if (err)
		free_ranges(store, store->nr_ranges);
	else
		store->state = STORE_RESERVED;
	return err;
}

void store_release(struct store *store)
{
	if (store->state != STORE_RESERVED)
		return;
	free_muts(store);
	put_present(store);
	free_ranges(store, store->nr_ranges);
	store->state = STORE_EMPTY;
}

void store_abandon(struct store *store)
{
	put_present(store);
	store->state = STORE_EMPTY;
}

/* ---- publishing ---- */

/* All of them, or on failure they are private again, under the handles that they get. */
static int publish_refs(struct store *store)
{
	kvmm_staged_t *staged = kv_alloc_array(store->nr_refs, sizeof(*staged));
	struct kvmm_publish_args req = {
		.staged = staged, .dup = KVMM_DUP_REJECT, .refs = (kvmm_ref_t *)staged,
	};
	u32 k = 0;
	int err = 0;

	if (!staged)
		return -ENOMEM;
	if (store->kept)
		kv_pool_let_muts(store->pool, store->mut, store->nr_muts);
	store->kept = false;
	for (u32 i = 0; i < store->nr_refs && !err; i++) {
		struct kvmm_prefix prefix = prefix_of(&store->name[i]);

		if (store->present[i])
			continue;
		err = kvmm_stage(store->pool, &prefix, &store->mut[req.nr], &staged[req.nr]);
		req.nr += !err;
	}
	if (!err)
		err = kvmm_publish(store->pool, &req);
	for (u32 i = 0; i < store->nr_refs && !err; i++)
		if (!store->present[i])
			store->ref[i] = req.refs[k++];
	if (err && req.nr)
		kvmm_unstage(store->pool, staged, req.nr, store->mut);
	kv_free(staged);
	return err;
}

/* Steps that can fail come first. A range released by force meanwhile is its owner's loss alone. */
int store_publish(struct store *store)
{
	int err = store->nr_refs ? publish_refs(store) : kv_pool_refusal(store->pool);

	if (err)
		return err;
	store->state = STORE_PUBLISHED;
	for (u32 i = 0; i < store->nr_ranges; i++) {
		const struct kv_range_kind *kind = &store->kind[i];

		kv_pool_name_range(store->pool, store->range[i], kind->seq, kind->sealed);
		kvmm_range_unpin(store->pool, store->range[i]);
	}
	if (store->nr_refs)
		/* Blocks that were rejected for an elder lie elsewhere. */
		kvmm_blocks_of_refs(store->pool, store->ref, store->nr_refs, store->list.block);
	return 0;
}

void store_exit(struct store *store)
{
	store_release(store);
	if (store->state == STORE_PUBLISHED && store->nr_refs && !store->taken)
		kvmm_put_many(store->pool, store->ref, store->nr_refs);
	kv_free(store->ref);
	kv_free(store->mut);
	kv_free(store->present);
	kv_free(store->list.block);
	*store = (struct store){ .pool = store->pool, .view = store->view, .flags = store->flags,
				 .max_runs = store->max_runs };
}
