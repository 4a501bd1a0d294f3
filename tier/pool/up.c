// SPDX-License-Identifier: Apache-2.0
/*
 * Up: blocks that are found below, into private blocks that are registered when they are right.
 *
 * In this order: under ->lock each key is looked for in the device, among the blocks on their way,
 * and below, where a reader keeps it; the items to be loaded are named, so the next caller waits
 * for them. Then blocks are allocated, without the lock. Then they are ready, and a batch takes
 * them. A block that arrived and is right is published, and only then the name is given up: no
 * caller can look in between and load it twice.
 */
#include <limits.h>

#include <cache/cache.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/sort.h>
#include <kv/sys.h>

#include "tier.h"

/* ---- blocks to be loaded ---- */

/* A load that is being put together. */
struct loading {
	struct kvmm_pool *pool;
	struct lower *lower;
	const struct kvmm_prefix *prefix;
	struct tier_op *op;	/* NULL: for no caller */
	u32 first;		/* item, through ->next; KV_NONE */
	u32 last;
	u32 nr_new;		/* of those */
	u32 nr_shared;
	bool is_first;		/* of the queue; see kv_tier_load() */
};

/* Blocks of the host tier are held on to before room is made there for those that lie below. */
enum pass { HOST_ONLY, ALL_TIERS };

/* From the host tier, or from below that. */
static int find_source(struct loading *loading, struct item *item, enum pass pass)
{
	struct kv_tier_client *client = loading->lower->client;
	const struct kv_tier_name *name = &item->name;
	int err;

	kv_assert_held(&loading->lower->lock);
	if (kv_tier_find(client, &name->key, name->domain, KV_TIER_READ, &item->slot) ==
	    KVMM_TIER_HIT)
		return 0;
	item->slot = (struct kv_tier_slot){ 0 };
	if (pass == HOST_ONLY)
		return -ENOENT;
	if (kv_tier_find_below(client, &name->key, name->domain) != KVMM_TIER_HIT)
		return -ENOENT;
	err = kv_tier_fetch(client, name, &item->fetch);
	if (err)
		item->fetch.io = NULL;
	item->is_fetched = true;
	return err == -EEXIST || err == -EALREADY ? -EAGAIN : err;
}

static int add_item(struct loading *loading, u32 i, enum pass pass)
{
	const struct kvmm_prefix *prefix = loading->prefix;
	const kvmm_key_t *parent = i ? &prefix->keys[i - 1] : prefix->parent;
	struct lower *lower = loading->lower;
	u32 index = item_take(lower, true);
	struct item *item;
	int err;

	kv_assert_held(&lower->lock);
	kv_assert(i < prefix->nr);
	if (index == KV_NONE)
		return -EAGAIN;
	item = &lower->item[index];
	item->name = (struct kv_tier_name){
		.key = prefix->keys[i], .domain = prefix->domain, .layout = lower->layout,
		.position = prefix->position + i, .has_parent = parent != NULL,
	};
	if (parent)
		item->name.parent = *parent;
	err = find_source(loading, item, pass);
	if (err) {
		item_free(lower, index);
		return err;
	}
	item_hash(lower, index);
	item->is_kept = !loading->op;
	if (loading->op)
		op_hang(loading->op, i, &item->wants);
	if (loading->first == KV_NONE)
		loading->first = index;
	else
		lower->item[loading->last].next = index;
	loading->last = index;
	loading->nr_new++;
	return 0;
}

/* The device has it, another operation loads it, or it is loaded now. */
static int want_key(struct loading *loading, u32 i, enum pass pass)
{
	const struct kvmm_prefix *prefix = loading->prefix;
	u32 index;

	kv_assert_held(&loading->lower->lock);
	if (loading->op && loading->op->ref[i].gen)
		return 0;
	index = item_find(loading->lower, &prefix->keys[i], prefix->domain);
	if (index == KV_NONE)
		return add_item(loading, i, pass);
	if (!loading->op || loading->op->want[i].at)
		return 0;
	op_hang(loading->op, i, &loading->lower->item[index].wants);
	loading->nr_shared++;
	return 0;
}

/* It waits for the store below, with or without a block to go to. */
static void wait_for_fetch(struct lower *lower, u32 index)
{
	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	lower->item[index].state = ITEM_FETCH;
	lower->item[index].next = lower->first_fetch;
	WRITE_ONCE(lower->first_fetch, index);
}

/* It has no name any more, and no block: only the slot that it reads is left. */
static void let_go(struct lower *lower, u32 index)
{
	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	if (lower->item[index].fetch.io) {
		wait_for_fetch(lower, index);
		return;
	}
	kv_tier_put(lower->client, lower->item[index].slot);
	item_free(lower, index);
}

/*
 * It has failed before it began: references and slots taken for it go back. Others may have come to
 * wait for the same items, and wait in vain.
 */
static void unwant(struct loading *loading, int error)
{
	struct lower *lower = loading->lower;

	kv_assert_held(&lower->lock);
	kv_assert(error);
	if (loading->op)
		op_unhang(loading->op);
	for (u32 index = loading->first, next; index != KV_NONE; index = next) {
		next = lower->item[index].next;
		item_unhash(lower, index);
		wants_end(lower, &lower->item[index].wants, error);
		let_go(lower, index);
	}
}

static int want_all(struct loading *loading, kvmm_tier_op_t *handle)
{
	const struct kvmm_prefix *prefix = loading->prefix;
	struct kv_query query = query_of(prefix);
	struct kvmm_pool *pool = loading->pool;
	struct lower *lower = loading->lower;
	struct kv_lookup lookup = { .refs = loading->op->ref, .through = true };
	int err = cache_begin(pool);

	if (err)
		return err;
	kv_lock(&lower->lock);
	/* References on blocks in the device; the order is told. */
	pool->map->ops->lookup(pool->map, &query, &lookup);
	note_found(pool, lookup.refs, prefix->nr, lookup.nr_first);
	/* With a tier below the host tier, keys that the host lacks are looked for there later. */
	for (u32 i = 0; i < prefix->nr && !err && kv_tier_has_below(lower->tier); i++) {
		err = want_key(loading, i, HOST_ONLY);
		err = err == -ENOENT ? 0 : err;
	}
	for (u32 i = 0; i < prefix->nr && !err; i++)
		err = want_key(loading, i, ALL_TIERS);
	if (!err && loading->nr_new && loading->nr_new < lower->config.min_load)
		err = -ERANGE;
	if (!err)
		err = op_publish(lower, loading->op, handle);
	if (err)
		unwant(loading, err);
	else
		lower->stat.shared += loading->nr_shared;
	if (!err && !loading->nr_new)
		op_open(lower, loading->op);
	lower->stat.refused += err == -EAGAIN || err == -ERANGE || err == -ENOSPC || err == -EDQUOT;
	kv_unlock(&lower->lock);
	cache_end(pool);
	return err;
}

/* ---- blocks for it ---- */

static bool lies_behind(const kvmm_mut_t *a, const kvmm_mut_t *b, struct kvmm_pool *pool)
{
	return entry_block(entry_at(pool, a->index)) > entry_block(entry_at(pool, b->index));
}

/* From here on the blocks are written, by us. */
static int give_blocks(struct loading *loading, kvmm_mut_t *muts)
{
	struct kvmm_pool *pool = loading->pool;
	struct lower *lower = loading->lower;
	int err = cache_begin(pool);
	u32 i = 0;

	if (err)
		return err;
	/* In the order of places, so that neighbours below come to be neighbours. */
	kv_sort(muts, loading->nr_new, lies_behind, pool);
	kv_lock(&lower->lock);
	for (u32 index = loading->first, next; index != KV_NONE; index = next) {
		struct kv_handle handle = mut_handle(muts[i++]);

		next = lower->item[index].next;
		KV_BUG_ON(kv_entry_write_begin(&pool->entries, handle));
		lower->item[index].entry = handle;
		if (lower->item[index].fetch.io)
			wait_for_fetch(lower, index);
		else
			item_ready(lower, index);
	}
	if (loading->op)
		op_open(lower, loading->op);
	kv_unlock(&lower->lock);
	cache_end(pool);
	return 0;
}

/* The named items get their blocks, or are called off: there are none. */
static int get_blocks(struct loading *loading, const struct kvmm_tier_load_args *load)
{
	struct kvmm_acquire_args req = { .nr_blocks = loading->nr_new,
					 .domain = loading->prefix->domain,
					 .reserve = load->reserve };
	struct lower *lower = loading->lower;
	kvmm_mut_t few[64], *muts = few;
	int err;

	kv_assert_not_held(&lower->lock);
	if (loading->nr_new > ARRAY_SIZE(few))
		muts = kv_alloc_array(loading->nr_new, sizeof(*muts));
	req.fresh = muts;
	err = muts ? acquire_uncounted(loading->pool, &req, loading->is_first) : -ENOMEM;
	if (!err)
		err = give_blocks(loading, muts);
	if (err) {
		kv_lock(&lower->lock);
		if (loading->op)
			op_unpublish(lower, loading->op);
		unwant(loading, err);
		lower->stat.refused++;
		kv_unlock(&lower->lock);
	}
	if (muts != few)
		kv_free(muts);
	return err;
}

/* ---- the call ---- */

static int check_load(struct kvmm_pool *pool, const struct lower *lower,
		      const struct kvmm_tier_load_args *req)
{
	const struct kvmm_prefix *prefix = req->prefix;

	if (!prefix || (prefix->nr && !prefix->keys) || prefix->nr > INT_MAX ||
	    req->flags || prefix->position > UINT32_MAX - prefix->nr ||
	    !lower_is_ordered(pool, lower))
		return -EINVAL;
	return prefix->nr > lower->max_up ? -E2BIG : 0;
}

/* For no caller: up to the first that is a miss, or more than may be on its way. */
static int prefetch(struct kvmm_pool *pool, const struct kvmm_tier_load_args *req)
{
	struct loading loading = { .pool = pool, .prefix = req->prefix, .first = KV_NONE,
				   .last = KV_NONE };
	const struct kvmm_prefix *prefix = req->prefix;
	int err = lower_enter(pool, &loading.lower), cancel;

	if (!err)
		err = check_load(pool, loading.lower, req);
	if (err == -E2BIG)
		err = 0;	/* as much as may be */
	if (!err)
		err = cache_begin(pool);
	if (err)
		return err;
	cancel = kv_cancel_off();
	kv_lock(&loading.lower->lock);
	for (u32 i = 0; i < prefix->nr && !err; i++) {
		struct kv_query query = { &prefix->keys[i], 1, prefix->domain };

		if (loading.lower->nr_used[true] >= thrash_max_up(loading.lower))
			break;
		if (!kv_map_length(pool->map, &query))
			err = want_key(&loading, i, ALL_TIERS);
	}
	kv_unlock(&loading.lower->lock);
	cache_end(pool);
	err = loading.nr_new ? get_blocks(&loading, req) : 0;
	if (!err)
		up_begin(pool, loading.lower);
	kv_cancel_restore(cancel);
	return err ? err : (int)loading.nr_new;
}

int kv_tier_load(struct kvmm_pool *pool, const struct kvmm_tier_load_args *load, bool is_first,
		 kvmm_tier_op_t *handle)
{
	struct loading loading = { .pool = pool, .first = KV_NONE, .last = KV_NONE,
				   .is_first = is_first };
	struct kvmm_tier_load_args req;
	struct lower *lower;
	int err = lower_enter(pool, &lower), cancel;

	if (err)
		return err;
	if (!load || kv_copy_attr(&req, sizeof(req), load))
		return -EINVAL;
	if (!handle)
		return prefetch(pool, &req);
	err = check_load(pool, lower, &req);
	if (err == -E2BIG) {
		kv_lock(&lower->lock);
		lower->stat.refused++;
		kv_unlock(&lower->lock);
	}
	if (err)
		return err;
	loading.lower = lower;
	loading.prefix = req.prefix;
	loading.op = op_make(req.prefix->nr, true);
	if (!loading.op)
		return -ENOMEM;
	cancel = kv_cancel_off();
	err = want_all(&loading, handle);
	if (!err && loading.nr_new)
		err = get_blocks(&loading, &req);
	if (err) {
		op_drop(pool, loading.op);
	} else {
		kv_lock(&lower->lock);
		lower->stat.hits += req.prefix->nr;
		kv_unlock(&lower->lock);
		up_begin(pool, lower);
	}
	told_flush(pool, lower);
	kv_cancel_restore(cancel);
	return err;
}

int kvmm_tier_load(struct kvmm_pool *pool, const struct kvmm_tier_load_args *load,
		   kvmm_tier_op_t *handle)
{
	return kv_tier_load(pool, load, false, handle);
}

/* ---- the copy ---- */

static struct batch *fill(struct lower *lower)
{
	struct batch *batch = NULL;
	u32 index;

	kv_lock(&lower->lock);
	if (lower->first_ready != KV_NONE)
		batch = batch_get(lower, true);
	while (batch && batch->nr < lower->batch_blocks &&
	       (index = item_pop_ready(lower)) != KV_NONE)
		batch->item[batch->nr++] = index;
	kv_unlock(&lower->lock);
	return batch;
}

void up_begin(struct kvmm_pool *pool, struct lower *lower)
{
	struct batch *batch;

	while ((batch = fill(lower))) {
		int err;

		for (u32 i = 0; i < batch->nr; i++) {
			struct item *item = &lower->item[batch->item[i]];

			batch->block[i] = entry_block(entry_at(pool, item->entry.index));
			batch->slot[i] = item->slot;
			item->has_sum = kv_tier_sum(lower->client, item->slot, &item->sum) &&
					pool->nr_planes;
		}
		batch->nr_copy = batch->nr;
		err = batch_submit(pool, lower, batch);
		if (!err)
			continue;
		up_end(pool, lower, batch, err);
		batch_put(lower, batch);
	}
}

/* ---- the end of one block ---- */

/* No caller wants it, or none may have it: its name is given up, if that is so. True: it is. */
static bool renounce(struct lower *lower, struct item *item, u32 index, int error)
{
	bool is_over;

	kv_lock(&lower->lock);
	is_over = error || (!item->wants && !item->is_kept);
	if (is_over) {
		item_unhash(lower, index);
		wants_end(lower, &item->wants, error);
	}
	item->is_publishing = !is_over;
	lower->stat.failed += error != 0;
	lower->stat.corrupt += error == -EBADMSG;
	kv_unlock(&lower->lock);
	return is_over;
}

static int publish(struct kvmm_pool *pool, const struct item *item, struct kv_handle *ref)
{
	const struct kv_tier_name *name = &item->name;
	struct kvmm_prefix prefix = { &name->key, 1, name->position,
				      name->has_parent ? &name->parent : NULL, name->domain };
	kvmm_mut_t mut = { item->entry.index, item->entry.gen };
	kvmm_staged_t staged;
	struct kvmm_publish_args req = { .staged = &staged, .nr = 1, .dup = KVMM_DUP_REJECT,
					 .refs = (kvmm_ref_t *)ref };
	int err = kvmm_stage(pool, &prefix, &mut, &staged);

	if (err) {
		kvmm_free(pool, &mut, 1);
		return err;
	}
	err = kvmm_publish(pool, &req);
	if (err)
		kv_free_staged(pool, &staged, 1);
	return err;
}

/* One reference each; the first one is there. In a read section, ->lock held. */
static u32 hand_out(struct kvmm_pool *pool, struct lower *lower, struct item *item,
		    struct kv_handle ref)
{
	u32 nr = 0;

	kv_assert_held(&lower->lock);
	kv_assert_reading();
	while (item->wants) {
		struct want *want = item->wants;
		struct tier_op *op = want->op;

		if (nr && kv_handle_step(&pool->entries, ref, kv_edge_get) < 0) {
			want_end(lower, want, -ESTALE);
			continue;
		}
		tally_add(pool, TALLY_REFS, nr ? 1 : 0);
		op->ref[want - op->want] = ref;
		want_end(lower, want, 0);
		nr++;
	}
	return nr;
}

/* It is registered, with a reference of ours. */
static void deliver(struct kvmm_pool *pool, struct lower *lower, u32 index, struct kv_handle ref)
{
	struct item *item = &lower->item[index];
	bool is_open = !cache_begin(pool);
	struct below *below;
	u32 nr = 0;

	kv_assert(index < lower->nr_items);
	kv_lock(&lower->lock);
	item_unhash(lower, index);
	item->is_publishing = false;
	if (is_open)
		nr = hand_out(pool, lower, item, ref);
	wants_end(lower, &item->wants, -EUCLEAN);
	below = below_of(lower, ref);
	if (below->state == BELOW_NONE) {
		below->state = BELOW_CLEAN;
		below->copy = item->slot;
	}
	kv_probe3(load, lower->client, 1u, lower->block_bytes);
	lower->stat.loads++;
	lower->stat.load_bytes += lower->block_bytes;
	/* A block from further below has been in the host tier for a moment only. */
	if (!item->is_fetched)
		lower->stat.reloads += kv_tier_hit(lower->client, item->slot) <
				       lower->config.reload_ns;
	thrash_loaded(lower, ref);
	kv_unlock(&lower->lock);
	if (is_open)
		cache_end(pool);
	if (!nr)
		kvmm_put_many(pool, (const kvmm_ref_t *)&ref, 1);
}

static void end_one(struct kvmm_pool *pool, struct lower *lower, u32 index, int error)
{
	struct item *item = &lower->item[index];
	kvmm_mut_t mut = { item->entry.index, item->entry.gen };
	struct kv_handle ref;
	int err = error;

	kv_assert(index < lower->nr_items);
	kv_assert_not_held(&lower->lock);
	kv_assert(item->state == ITEM_BATCH || item->state == ITEM_TAKEN);
	if (!cache_begin(pool)) {	/* in a closed pool nothing matters any more */
		kv_entry_write_end(&pool->entries, item->entry);
		cache_end(pool);
	}
	if (renounce(lower, item, index, error)) {
		kvmm_free(pool, &mut, 1);
	} else {
		err = publish(pool, item, &ref);
		if (err)
			renounce(lower, item, index, err);
		else
			deliver(pool, lower, index, ref);
	}
	if (error == -EBADMSG && item->slot.gen)
		kv_tier_put_bad(lower->client, item->slot, &item->name);
	else if (item->slot.gen)
		kv_tier_put(lower->client, item->slot);
	kv_lock(&lower->lock);
	item_free(lower, index);
	kv_unlock(&lower->lock);
}

static bool is_bad(const struct lower *lower, const struct batch *batch, u32 i)
{
	const struct item *item = &lower->item[batch->item[i]];

	return item->has_sum && item->sum != batch->sum[i];
}

int up_compare(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	int err = batch_sums(pool, lower, batch);

	kv_assert(batch->is_up);
	for (u32 i = 0; i < batch->nr && !err; i++)
		err = is_bad(lower, batch, i) ? -EBADMSG : 0;
	return err;
}

void up_end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error)
{
	int sum_error = error ? 0 : batch_sums(pool, lower, batch);

	kv_assert(batch->is_up);
	for (u32 i = 0; i < batch->nr; i++) {
		const struct item *item = &lower->item[batch->item[i]];
		int err = error;

		if (!error && item->has_sum && sum_error)
			err = sum_error;
		else if (!error && is_bad(lower, batch, i))
			err = -EBADMSG;
		end_one(pool, lower, batch->item[i], err);
	}
}

/* ---- names forgotten meanwhile ---- */

/* As if no caller had asked for it. */
static void void_item(struct lower *lower, u32 index)
{
	struct item *item = &lower->item[index];

	kv_assert_held(&lower->lock);
	kv_assert(index < lower->nr_items);
	item_unhash(lower, index);
	item->is_kept = false;
	wants_end(lower, &item->wants, -ESTALE);
}

/* False: it is too late for that. */
static bool void_name(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain)
{
	bool is_late = false;
	u32 index;

	kv_lock(&lower->lock);
	index = item_find(lower, key, domain);
	if (index != KV_NONE)
		is_late = lower->item[index].is_publishing;
	if (index != KV_NONE && !is_late)
		void_item(lower, index);
	kv_unlock(&lower->lock);
	return !is_late;
}

#define LOOK_NS		100000u

void up_forget(struct lower *lower, const struct kvmm_prefix *prefix)
{
	u32 word = 0;

	for (u32 i = 0; i < prefix->nr; i++)
		while (!void_name(lower, &prefix->keys[i], prefix->domain))
			kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
}

void up_forget_all(struct lower *lower)
{
	kv_lock(&lower->lock);
	for (u32 i = 0; i < lower->nr_names; i++)
		while (lower->name[i] != KV_NONE)
			void_item(lower, lower->name[i]);
	kv_unlock(&lower->lock);
}

/* ---- from the store below ---- */

/* One that the store is through with, out of the list; *@error: how it went. */
static u32 take_fetched(struct lower *lower, int *error)
{
	u32 *at, found = KV_NONE;

	kv_lock(&lower->lock);
	for (at = &lower->first_fetch; *at != KV_NONE; at = &lower->item[*at].next) {
		*error = kv_tier_fetch_poll(lower->client, &lower->item[*at].fetch);
		if (*error == -EAGAIN)
			continue;
		found = *at;
		if (!*error) {
			u64 took_ns = lower->item[found].fetch.took_ns;

			lower->stat.disk_loads++;
			lower->stat.disk_load_bytes += lower->block_bytes;
			lower->stat.disk_load_ns += took_ns;
			kv_latency_add(&lower->stat.disk_took, took_ns);
		}
		WRITE_ONCE(*at, lower->item[found].next);
		lower->item[found].state = ITEM_TAKEN;
		lower->item[found].fetch.io = NULL;
		break;
	}
	kv_unlock(&lower->lock);
	return found;
}

/* It is in the host tier now, and read by us. */
static int keep(struct kvmm_pool *pool, struct lower *lower, struct item *item)
{
	const struct kv_tier_fetch *fetch = &item->fetch;
	int err;

	told_flush(pool, lower);
	err = told_reserve(pool, lower, 1);
	if (err) {
		kv_tier_cancel(lower->client, fetch->slot);
		return err;
	}
	told_present(pool, lower, &item->name);
	kv_tier_commit_read(lower->client, fetch->slot, fetch->has_sum ? &fetch->sum : NULL);
	item->slot = fetch->slot;
	return 0;
}

static void end_fetched(struct kvmm_pool *pool, struct lower *lower, u32 index, int error)
{
	struct item *item = &lower->item[index];

	kv_assert(index < lower->nr_items);
	kv_assert(item->state == ITEM_TAKEN && !item->fetch.io);
	if (!error)
		error = keep(pool, lower, item);
	if (error && item->entry.gen) {
		end_one(pool, lower, index, error);
		return;
	}
	kv_lock(&lower->lock);
	if (item->entry.gen)
		item_ready(lower, index);
	else if (error)
		item_free(lower, index);
	else
		let_go(lower, index);
	kv_unlock(&lower->lock);
}

void up_fetched(struct kvmm_pool *pool, struct lower *lower)
{
	u32 index;
	int error;

	if (READ_ONCE(lower->first_fetch) == KV_NONE)
		return;
	while ((index = take_fetched(lower, &error)) != KV_NONE)
		end_fetched(pool, lower, index, error);
}
