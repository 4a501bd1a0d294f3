// SPDX-License-Identifier: Apache-2.0
/* A pool gets a tier, has it configured, goes on with work under way, and lets go of it. */
#include <limits.h>

#include <kv/env.h>
#include <kv/file.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "tier.h"

#define DEFAULT_MAX		1024u
#define DEFAULT_BATCH		64u
#define MAX_ITEMS		(1u << 20)
#define MAX_BATCH		4096u
#define MAX_TOUCHES		15u

/* ---- configuration ---- */

static int read_config(const struct kvmm_tier_config *from, struct kvmm_tier_config *config)
{
	const struct kvmm_tier_config preset = KVMM_TIER_CONFIG_INIT;
	int err = kv_copy_attr(config, sizeof(*config), from ? from : &preset);

	if (err)
		return err;
	if (config->write >= KVMM_NR_TIER_WRITES || !config->touches ||
	    config->touches > MAX_TOUCHES || config->low_pm > config->high_pm ||
	    config->high_pm > 1000 || config->flags & ~KVMM_TIER_FIXED)
		return -EINVAL;
	return 0;
}

int tier_configure(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_tier_config *config = value;
	struct kvmm_tier_config new;
	struct lower *lower;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (!config)
		return -EINVAL;
	err = read_config(config, &new);
	if (err)
		return err;
	kv_lock(&lower->lock);
	lower->config = new;
	kv_unlock(&lower->lock);
	return 0;
}

int tier_config_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_tier_config *config = out;
	struct lower *lower;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	kv_lock(&lower->lock);
	*config = lower->config;
	kv_unlock(&lower->lock);
	return 0;
}

/* ---- attaching ---- */

static int read_attr(const struct kvmm_pool *pool, const struct kvmm_tier_client_attr *from,
		     struct kvmm_tier_client_attr *attr)
{
	const struct kvmm_tier_client_attr preset = KVMM_TIER_CLIENT_ATTR_INIT;
	const struct pool_presence *presence = &pool->presence;
	int err = kv_copy_attr(attr, sizeof(*attr), from ? from : &preset);

	if (err)
		return err;
	attr->max_down = attr->max_down ? attr->max_down : DEFAULT_MAX;
	attr->max_up = attr->max_up ? attr->max_up : DEFAULT_MAX;
	attr->batch_blocks = attr->batch_blocks ? attr->batch_blocks : DEFAULT_BATCH;
	if (pool->nr_planes)
		attr->block_bytes = pool->block_bytes;
	if (attr->flags & ~KVMM_TIER_COMPLETE || attr->max_down > MAX_ITEMS || attr->reserved ||
	    attr->max_up > MAX_ITEMS || attr->batch_blocks > MAX_BATCH ||
	    (attr->max_units && attr->min_units > attr->max_units))
		return -EINVAL;
	if (attr->registry_tier != KVMM_TIER_UNTOLD &&
	    (!presence->reg || attr->registry_tier == presence->tier ||
	     !kv_radix_has_tier(presence->reg, attr->registry_tier)))
		return -EINVAL;
	return 0;
}

static void free_lower(struct kvmm_pool *pool, struct lower *lower)
{
	if (pool->dev)
		pool->parts.dev->host_free(pool->dev, &lower->sums);
	for (u32 i = 0; i < NR_BATCHES; i++) {
		struct batch *batch = &lower->batch[i];

		kv_free(batch->error);
		kv_free(batch->plane);
		kv_free(batch->move);
		kv_free(batch->slot);
		kv_free(batch->block);
		kv_free(batch->item);
	}
	thrash_exit(lower);
	kv_free(lower->op);
	kv_free(lower->seen);
	kv_free(lower->heap);
	kv_free(lower->below);
	kv_free(lower->name);
	kv_free(lower->item);
	kv_free(lower);
}

static u64 lower_bytes(const struct kvmm_pool *pool, const struct lower *lower)
{
	const struct batch *batch = lower->batch;
	u64 of_batch = lower->batch_blocks *
		       (sizeof(*batch->item) + sizeof(*batch->block) + sizeof(*batch->slot) +
			sizeof(*batch->move) + sizeof(*batch->sum) + sizeof(*batch->error)) +
		       max(pool->nr_planes, 1u) * sizeof(*batch->plane);

	return sizeof(*lower) + NR_BATCHES * of_batch + thrash_bytes(&lower->thrash) +
	       lower->nr_items * sizeof(*lower->item) + lower->nr_names * sizeof(*lower->name) +
	       KVMM_TIER_OPS * sizeof(*lower->op) +
	       (u64)pool->nr_blocks * (sizeof(*lower->below) + sizeof(*lower->heap) +
				       sizeof(*lower->seen));
}

static int make_tables(struct kvmm_pool *pool, struct lower *lower)
{
	int err;

	lower->item = kv_alloc_array(lower->nr_items, sizeof(*lower->item));
	lower->name = kv_alloc_array(lower->nr_names, sizeof(*lower->name));
	lower->below = kv_alloc_array(pool->nr_blocks, sizeof(*lower->below));
	lower->heap = kv_alloc_array(pool->nr_blocks, sizeof(*lower->heap));
	lower->seen = kv_alloc_array(pool->nr_blocks, sizeof(*lower->seen));
	lower->op = kv_alloc_array(KVMM_TIER_OPS, sizeof(*lower->op));
	if (!lower->item || !lower->name || !lower->below || !lower->heap || !lower->seen ||
	    !lower->op)
		return -ENOMEM;
	memset(lower->name, 0xff, lower->nr_names * sizeof(*lower->name));
	lower->free_item[false] = lower->free_item[true] = KV_NONE;
	/* The last one of either kind is the first to be used. */
	for (u32 i = lower->nr_items; i-- > 0;) {
		bool is_up = i >= lower->max_down;

		lower->item[i].is_up = is_up;
		lower->item[i].next = lower->free_item[is_up];
		lower->free_item[is_up] = i;
	}
	for (u32 i = 0; i < KVMM_TIER_OPS; i++)
		lower->op[i].gen = 1;
	for (u32 i = 0, nr = lower->batch_blocks; i < NR_BATCHES; i++) {
		struct batch *batch = &lower->batch[i];

		batch->item = kv_alloc_array(nr, sizeof(*batch->item));
		batch->block = kv_alloc_array(nr, sizeof(*batch->block));
		batch->slot = kv_alloc_array(nr, sizeof(*batch->slot));
		batch->move = kv_alloc_array(nr, sizeof(*batch->move));
		batch->error = kv_alloc_array(nr, sizeof(*batch->error));
		batch->plane = kv_alloc_array(max(pool->nr_planes, 1u), sizeof(*batch->plane));
		if (!batch->item || !batch->block || !batch->slot || !batch->move ||
		    !batch->error || !batch->plane)
			return -ENOMEM;
	}
	if (!pool->dev)
		return 0;
	/* Checksums: where the device can write to on its own. */
	err = pool->parts.dev->host_alloc(pool->dev, NR_BATCHES * lower->batch_blocks * sizeof(u64),
					  -1, &lower->sums);
	for (u32 i = 0; i < NR_BATCHES && !err; i++)
		lower->batch[i].sum = (u64 *)lower->sums.ptr + i * lower->batch_blocks;
	return err;
}

static struct lower *make_lower(struct kvmm_pool *pool, struct kvmm_tier *tier,
				const struct kvmm_tier_client_attr *attr)
{
	struct lower *lower = kv_alloc_lines(1, sizeof(*lower));
	u64 layout;

	if (!lower)
		return NULL;
	/* All that makes the same key stand for other bytes, or for more of them. */
	layout = kv_mul_fold(attr->layout_id ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull);
	layout = kv_mul_fold(layout ^ pool->block_tokens, 0xa0761d6478bd642full);
	layout = kv_mul_fold(layout ^ kv_tier_record_bytes(tier, attr->block_bytes),
			     0xe7037ed1a0b428dbull);
	for (u32 i = 0; i < pool->nr_planes; i++)
		layout = kv_mul_fold(layout ^ pool->plane[i].bytes, 0x8ebc6af09c88c6e3ull);
	lower->layout = layout ^ attr->layout_id;
	lower->tier = tier;
	lower->flags = attr->flags;
	lower->registry_tier = attr->registry_tier;
	lower->block_bytes = attr->block_bytes;
	lower->max_up = attr->max_up;
	lower->max_down = attr->max_down;
	lower->nr_items = attr->max_up + attr->max_down;
	lower->batch_blocks = attr->batch_blocks;
	lower->nr_names = 1u << kv_order(attr->max_up);
	lower->secret = kv_random();
	lower->has_streams = pool->dev && strcmp(pool->parts.dev->name, "host");
	lower->first_ready = lower->last_ready = lower->first_fetch = KV_NONE;
	lower->event = -1;
	kv_lock_init(&lower->lock, KV_RANK_TIER, pool->lock.id);
	if (make_tables(pool, lower) || thrash_init(pool, lower)) {
		free_lower(pool, lower);
		return NULL;
	}
	lower->metadata_bytes = lower_bytes(pool, lower);
	return lower;
}

extern const struct pool_part lower_part;

static int publish(struct kvmm_pool *pool, struct lower *lower)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	if (pool->lower) {
		err = -EBUSY;
	} else {
		pool->metadata_bytes += lower->metadata_bytes;
		/* Pairs with lower_of(): all of it is there. */
		smp_store_release(&pool->lower, lower);
		pool_observe(pool, &lower_part);
	}
	pool_leave(pool);
	return err;
}

/* ---- going on ---- */

static u32 nr_under_way(struct lower *lower)
{
	u32 nr;

	kv_assert_not_held(&lower->lock);
	kv_lock(&lower->lock);
	nr = lower->nr_used[false] + lower->nr_used[true] + lower->nr_heap;
	kv_unlock(&lower->lock);
	return nr;
}

/* A copy that a device does at once is over at once. */
int kvmm_tier_poll(struct kvmm_pool *pool)
{
	struct lower *lower;
	int err = lower_enter(pool, &lower), cancel;

	if (err)
		return err;
	cancel = kv_cancel_off();
	kv_tier_end_below(lower->tier);
	batches_poll(pool, lower);
	up_fetched(pool, lower);
	up_begin(pool, lower);
	policy_look(pool, lower);
	down_begin(pool, lower);
	batches_poll(pool, lower);
	kv_tier_begin_below(lower->tier);	/* blocks that came just now may go on at once */
	told_flush(pool, lower);
	kv_cancel_restore(cancel);
	return min(nr_under_way(lower), (u32)INT_MAX);
}

/* ---- letting go ---- */

static void let_go(struct kvmm_pool *pool, struct lower *lower)
{
	told_exit(pool, lower);
	if (lower->event >= 0)
		kv_file()->close(kv_file()->ctx, lower->event);
	kv_tier_leave(lower->client);
	free_lower(pool, lower);
}

static int detach(struct kvmm_pool *pool)
{
	struct lower *lower;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (nr_under_way(lower) || lower->nr_ops)
		return -EBUSY;
	err = pool_enter(pool);
	if (err)
		return err;
	kv_assert(pool->metadata_bytes >= lower->metadata_bytes);
	pool->metadata_bytes -= lower->metadata_bytes;
	WRITE_ONCE(pool->lower, NULL);
	pool_leave(pool);
	/* A reader that has found it in a read section is through then. */
	kv_rcu_synchronize();
	let_go(pool, lower);
	return 0;
}

int kvmm_tier_attach(struct kvmm_pool *pool, struct kvmm_tier *tier,
		     const struct kvmm_tier_client_attr *attr)
{
	struct kvmm_tier_client_attr known;
	struct kv_tier_client_attr client;
	struct lower *lower;
	bool is_determined;
	int err;

	if (!tier)
		return attr ? -EINVAL : detach(pool);
	if (!pool)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	/* When copies are complete must not be up to the system's clock, a device, or a disk. */
	is_determined = pool->completions.are_told || !pool->dev ? kv_tier_is_told(tier) :
								    !kv_tier_has_below(tier);
	if (!pool->caches || (pool->deterministic && !is_determined))
		return -EOPNOTSUPP;
	err = read_attr(pool, attr, &known);
	if (err)
		return err;
	lower = make_lower(pool, tier, &known);
	if (!lower)
		return -ENOMEM;
	client = (struct kv_tier_client_attr){
		.plane = pool->plane, .nr_planes = pool->nr_planes,
		.block_bytes = lower->block_bytes, .layout = lower->layout,
		.min_units = known.min_units, .max_units = known.max_units,
		.is_told = known.registry_tier != KVMM_TIER_UNTOLD,
		.nr_late = NR_BATCHES * lower->batch_blocks,
		.completions = pool->completions.are_told ? &pool->completions : NULL,
		.seed = pool->seed,
	};
	err = read_config(known.config, &lower->config);
	if (!err)
		err = kv_tier_join(tier, &client, &lower->client);
	if (!err) {
		err = publish(pool, lower);
		if (err)
			kv_tier_leave(lower->client);
	}
	if (err)
		free_lower(pool, lower);
	else
		pool_tell(pool, attached);
	return err;
}

/* The device does not write any more, so both ends of the copy are free. */
static void end_batch(struct lower *lower, struct batch *batch)
{
	if (batch->state != BATCH_COPYING)
		return;
	kv_xfer_wait(&batch->xfer);
	for (u32 i = 0; i < batch->nr_copy; i++) {
		const struct item *item = &lower->item[batch->item[i]];

		if (batch->is_up)
			kv_tier_put(lower->client, item->slot);
		else
			kv_tier_cancel(lower->client, item->slot);
	}
}

#define LOOK_NS		100000u

/* No operation wants it any more, but the store may still write to its slot. */
static void end_fetch(struct lower *lower, struct item *item)
{
	u32 word = 0;
	int err;

	kv_assert(item->state == ITEM_FETCH && item->is_up);
	if (kv_tier_fetch_leave(lower->client, &item->fetch))
		return;
	while ((err = kv_tier_fetch_poll(lower->client, &item->fetch)) == -EAGAIN)
		if (!kv_tier_work(lower->tier))
			kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
	if (!err)
		kv_tier_cancel(lower->client, item->fetch.slot);
}

/* No other caller is left; references of the pool itself go with it. */
static void lower_exit(struct kvmm_pool *pool)
{
	struct lower *lower = pool->lower;

	if (!lower)
		return;
	kv_assert_not_reading();
	kv_tier_untell(lower->tier);
	for (u32 i = 0; i < NR_BATCHES; i++)
		end_batch(lower, &lower->batch[i]);
	for (u32 i = lower->first_fetch; i != KV_NONE; i = lower->item[i].next)
		end_fetch(lower, &lower->item[i]);
	for (u32 i = lower->first_ready; i != KV_NONE; i = lower->item[i].next)
		kv_tier_put(lower->client, lower->item[i].slot);
	for (u32 i = 0; i < KVMM_TIER_OPS; i++)
		op_free(lower->op[i].op);
	let_go(pool, lower);
	pool->lower = NULL;
}

/* ---- statistics ---- */

#define CLEAN_PORTION	256u

/* Loads and copies down do not wait for all of them to be looked at. */
static u32 count_clean(struct kvmm_pool *pool, struct lower *lower)
{
	u32 nr = 0;

	for (u32 at = 0, end; at < pool->nr_blocks; at = end) {
		end = min(at + CLEAN_PORTION, pool->nr_blocks);
		kv_lock(&lower->lock);
		for (u32 i = at; i < end; i++) {
			const struct below *below = &lower->below[i];
			u64 word = READ_ONCE(entry_at(pool, i)->word);

			nr += below->state == BELOW_CLEAN && kv_word_gen(word) == below->gen &&
			      kv_word_is(word, KV_ENTRY_REGISTERED) &&
			      kv_tier_has(lower->client, below->copy);
		}
		kv_unlock(&lower->lock);
	}
	return nr;
}

int tier_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_tier_client_stat *stat = out;
	struct lower *lower;
	u32 nr_clean;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	nr_clean = count_clean(pool, lower);
	kv_lock(&lower->lock);
	lower_fill_stat(lower, stat);
	stat->clean = nr_clean;
	kv_unlock(&lower->lock);
	return 0;
}

static const struct pool_observer observer = {
	.published	= lower_filled,
	.named		= lower_named,
	.touched	= lower_touched,
	.renamed	= lower_renamed,
	.reset		= lower_reset,
};

POOL_PART(lower) = {
	.name	= "tiers",
	.exit	= lower_exit,
	.observer = &observer,
};
