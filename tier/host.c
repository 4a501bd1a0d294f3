// SPDX-License-Identifier: Apache-2.0
/*
 * A host tier's birth and death, and its memory, which comes in portions.
 *
 * Pinning is slow, so a tier is there with its first portion, and grows by one whenever a thread
 * has the time for it. Each portion is a zone of its own: portions do not lie behind one another,
 * so no block may lie across their borders.
 */
#include <stdio.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "below.h"

#define DEFAULT_CHUNK_BYTES	(256ull << 20)
#define TIER_FLAGS		KVMM_TIER_TOLD_CLOCK

static u32 next_tier_id;	/* kv_fetch_add(); order among locks of tiers */

/* Behind those of the pools, which may be held; before those of stores on disk. */
#define FIRST_ID		BIT(29)

/* ---- portions ---- */

static int make_chunk(struct kvmm_tier *tier, u32 i, struct chunk *chunk)
{
	struct kv_zone_attr attr = { .nr_blocks = chunk_nr(tier, i) };
	int err = kv_zone_create(&attr, &chunk->zone);

	if (err || !tier->unit_bytes)
		return err;
	err = tier->parts.dev->host_alloc(tier->dev, attr.nr_blocks * tier->unit_bytes, tier->node,
					  &chunk->mem);
	if (err)
		kv_zone_destroy(chunk->zone);
	return err;
}

/* 1; 0 all of it is there; -ENOMEM, -EIO. By one thread at a time: grow_lock, or the creator. */
static int grow(struct kvmm_tier *tier)
{
	struct chunk new = { 0 };
	u32 i = READ_ONCE(tier->nr_chunks);
	int err;

	if (i == tier->max_chunks)
		return 0;
	err = make_chunk(tier, i, &new);
	if (err)
		return err;
	kv_lock(&tier->lock);
	kv_assert(tier->nr_chunks == i);
	tier->chunk[i] = new;
	tier->metadata_bytes += new.zone->metadata_bytes;
	/* Pairs with tier_fill_stat(): the portion is made. */
	smp_store_release(&tier->nr_chunks, i + 1);
	kv_unlock(&tier->lock);
	return 1;
}

int kvmm_tier_tick(struct kvmm_tier *tier)
{
	bool worked;
	int ret;

	if (!tier)
		return -EINVAL;
	if (kv_inherited(tier))
		return -ECHILD;
	/* Where ranks are told, nothing begins or ends but by calls of the pool. */
	worked = alike_of(tier) ? below_poll(tier) : kv_tier_work(tier);
	if (READ_ONCE(tier->nr_chunks) == tier->max_chunks || !kv_trylock(&tier->grow_lock))
		return worked;
	ret = grow(tier);
	kv_unlock(&tier->grow_lock);
	return ret ? ret : worked;
}

/* ---- the clock ---- */

bool kv_tier_is_told(const struct kvmm_tier *tier)
{
	return tier->is_told;
}

u64 kv_tier_now(struct kvmm_tier *tier)
{
	return tier->is_told ? READ_ONCE(tier->told_ns) : kv_clock_ns();
}

int kvmm_tier_clock(struct kvmm_tier *tier, uint64_t now_ns)
{
	u64 old;

	if (kv_inherited(tier))
		return -ECHILD;
	if (!tier)
		return -EINVAL;
	if (!tier->is_told)
		return -EOPNOTSUPP;
	old = READ_ONCE(tier->told_ns);
	do {
		if (now_ns < old)
			return -EINVAL;
	} while (!kv_cas(&tier->told_ns, &old, now_ns));
	return 0;
}

/* ---- set-up ---- */

/* Units in the end and of a portion, from the attributes; 0 units: they make no sense. */
static void measure(struct kvmm_tier *tier, const struct kvmm_tier_attr *attr)
{
	u64 nr = attr->capacity_blocks, chunk_bytes = attr->chunk_bytes;

	tier->unit_bytes = attr->block_bytes;
	if (!nr && attr->block_bytes)
		nr = attr->capacity_bytes / attr->block_bytes;
	nr = nr <= KVMM_MAX_BLOCKS ? nr : 0;
	tier->nr_units = nr;
	if (!chunk_bytes)
		chunk_bytes = DEFAULT_CHUNK_BYTES;
	tier->chunk_units = tier->nr_units;
	if (tier->unit_bytes)
		tier->chunk_units = min(max(chunk_bytes / tier->unit_bytes, 1ull), nr);
	if (tier->chunk_units)
		tier->max_chunks = (nr + tier->chunk_units - 1) / tier->chunk_units;
	tier->nr_buckets = 1u << kv_order(nr);
}

static int check_attr(const struct kvmm_tier_attr *attr, const struct kv_evict_ops *evict)
{
	u64 bytes;

	if (attr->flags & ~TIER_FLAGS || attr->numa_node < -1 || attr->reserved)
		return kv_refuse(-EINVAL, "kvmm: tier: flags 0x%x or node %d is none", attr->flags,
				 attr->numa_node);
	if (attr->capacity_bytes && (attr->capacity_blocks || !attr->block_bytes))
		return kv_refuse(-EINVAL, "kvmm: tier: @capacity_bytes goes with @block_bytes, and "
				 "without @capacity_blocks");
	if (kv_mul_overflows(attr->block_bytes, (u64)KVMM_MAX_BLOCKS, &bytes))
		return kv_refuse(-EINVAL, "kvmm: tier: @block_bytes are more than there can be");
	if (evict->keeps_unnamed)
		return kv_refuse(-EINVAL, "kvmm: tier: \"%s\" is a policy of pools only",
				 evict->name);
	return attr->name && !kv_name_is_good("tier", attr->name, 32) ? -EINVAL : 0;
}

static int make_tables(struct kvmm_tier *tier)
{
	tier->slot = kv_alloc_array(tier->nr_units, sizeof(*tier->slot));
	tier->bucket = kv_alloc_array(tier->nr_buckets, sizeof(*tier->bucket));
	tier->chunk = kv_alloc_array(tier->max_chunks, sizeof(*tier->chunk));
	if (!tier->slot || !tier->bucket || !tier->chunk)
		return -ENOMEM;
	memset(tier->bucket, 0xff, tier->nr_buckets * sizeof(*tier->bucket));
	tier->owner[NOBODY].tier = tier;
	tier->owner[NOBODY].order = age_make(tier);
	if (IS_ERR(tier->owner[NOBODY].order)) {
		int err = PTR_ERR(tier->owner[NOBODY].order);

		tier->owner[NOBODY].order = NULL;
		return err;
	}
	tier->metadata_bytes = sizeof(*tier) + (u64)tier->nr_units * sizeof(*tier->slot) +
			       (u64)tier->nr_buckets * sizeof(*tier->bucket) +
			       (u64)tier->max_chunks * sizeof(*tier->chunk) + age_bytes(tier);
	return 0;
}

/* Parts that were not made yet are 0. */
static void free_tier(struct kvmm_tier *tier)
{
	below_exit(tier);
	for (u32 i = 0; i < tier->nr_chunks; i++) {
		if (tier->dev)
			tier->parts.dev->host_free(tier->dev, &tier->chunk[i].mem);
		kv_zone_destroy(tier->chunk[i].zone);
	}
	if (tier->dev)
		tier->parts.dev->close(tier->dev);
	age_free(tier, tier->owner[NOBODY].order);
	kv_free(tier->chunk);
	kv_free(tier->bucket);
	kv_free(tier->slot);
	kv_free(tier);
}

static void init_fields(struct kvmm_tier *tier, const struct kvmm_tier_attr *attr,
			const struct kv_tier_parts *parts)
{
	u32 id = FIRST_ID + kv_fetch_add(&next_tier_id, 1);

	tier->parts = *parts;
	tier->node = attr->numa_node;
	tier->secret = kv_random();
	tier->is_told = attr->flags & KVMM_TIER_TOLD_CLOCK;
	tier->link[0].how = attr->down;
	tier->link[1].how = attr->up;
	tier->nr_users = 1;
	snprintf(tier->name, sizeof(tier->name), "%s", attr->name ? attr->name : "host");
	kv_lock_init(&tier->lock, KV_RANK_TIER, id);
	kv_lock_init(&tier->grow_lock, KV_RANK_TICK, id);
}

int kv_tier_create(const struct kvmm_tier_attr *attr, const struct kv_tier_parts *parts,
		   struct kvmm_tier **result)
{
	struct kvmm_tier *tier;
	int err = check_attr(attr, parts->evict);

	if (err)
		return err;
	tier = kv_alloc_lines(1, sizeof(*tier));
	if (!tier)
		return -ENOMEM;
	init_fields(tier, attr, parts);
	measure(tier, attr);
	err = tier->nr_units ? make_tables(tier) :
			       kv_refuse(-EINVAL, "kvmm: tier: no block has room in it");
	if (!err && tier->unit_bytes)
		err = parts->dev->open(parts->dev_number, &tier->dev);
	if (!err)
		err = min(grow(tier), 0);
	if (err)
		free_tier(tier);
	else
		*result = tier;
	return err;
}

void tier_unuse(struct kvmm_tier *tier)
{
	u32 nr = READ_ONCE(tier->nr_users);

	kv_assert_not_held(&tier->lock);
	/* Release and acquire: the thread that frees it comes behind the others' work with it. */
	while (!kv_cas(&tier->nr_users, &nr, nr - 1))
		;
	if (nr == 1)
		free_tier(tier);
}

void kvmm_tier_destroy(struct kvmm_tier *tier)
{
	if (tier && !kv_inherited(tier))
		tier_unuse(tier);
}

/* ---- statistics ---- */

int kvmm_tier_get_stat(struct kvmm_tier *tier, struct kvmm_tier_stat *stat, size_t size)
{
	struct kvmm_tier_stat full;

	if (!tier || kv_size_is_bad(stat, size))
		return -EINVAL;
	if (kv_inherited(tier))
		return -ECHILD;
	kv_lock(&tier->lock);
	tier_fill_stat(tier, &full);
	kv_unlock(&tier->lock);
	if (tier->below && tier->below->ops->count)
		tier->below->ops->count(tier->below->store, &full.sim_blocks, &full.sim_dropped);
	kv_give(stat, size, &full, sizeof(full));
	return 0;
}
