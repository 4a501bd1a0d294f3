// SPDX-License-Identifier: Apache-2.0
/* A pool's birth and death. */
#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "determ.h"
#include "local.h"

#define DEFAULT_BLOCK_TOKENS	16u
#define POOL_FLAGS		(KVMM_POOL_NULL_BLOCK | KVMM_POOL_RESET_ON_RELEASE | \
				 KVMM_POOL_PREFIX_CLOSED | KVMM_POOL_DETERMINISTIC | \
				 KVMM_POOL_NO_MAGAZINES | KVMM_POOL_ELASTIC | KVMM_POOL_LIFO | \
				 KVMM_POOL_ORDER_AS_PUT)

static u32 next_pool_id;	/* kv_fetch_add(); lock order among pools */
static u32 nr_unseeded;	/* kv_fetch_add(); deterministic pools made with seed 0 */

/*
 * Do pieces of two planes of one stride share a byte? Planes may well be interleaved. Those of
 * different strides are not compared.
 */
static bool planes_overlap(const struct kvmm_plane *a, const struct kvmm_plane *b, u32 nr_blocks)
{
	u64 ahead, rest;

	if (a->stride != b->stride)
		return false;
	if (a->base > b->base)
		return planes_overlap(b, a, nr_blocks);
	ahead = (b->base - a->base) / a->stride;
	rest = (b->base - a->base) % a->stride;
	return (ahead < nr_blocks && rest < a->bytes) ||
	       (ahead + 1 < nr_blocks && rest + b->bytes > a->stride);
}

static int check_memory(const struct kvmm_pool_attr *attr)
{
	u64 bytes, end, sum = 0;

	if (!attr->planes != !attr->nr_planes || attr->nr_planes > KVMM_MAX_PLANES)
		return kv_refuse(-EINVAL, "kvmm: pool: %u planes, not 1 to %u, or none",
				 attr->nr_planes, KVMM_MAX_PLANES);
	if (!attr->planes && kv_mul_overflows(attr->block_bytes, (u64)attr->nr_blocks, &bytes))
		return kv_refuse(-EINVAL, "kvmm: pool: @block_bytes are more than there can be");
	if (!attr->planes)
		return 0;
	for (u32 i = 0; i < attr->nr_planes; i++) {
		const struct kvmm_plane *plane = &attr->planes[i];

		/* The last piece ends within 64 bits of address. */
		if (!plane->base || !plane->bytes || plane->bytes > plane->stride ||
		    kv_mul_overflows(plane->stride, (u64)attr->nr_blocks, &bytes) ||
		    kv_add_overflows(plane->base, bytes, &end) ||
		    kv_add_overflows(sum, plane->bytes, &sum))
			return kv_refuse(-EINVAL, "kvmm: pool: plane %u is empty, longer than its "
					 "stride, or beyond the last address", i);
		for (u32 j = 0; j < i; j++)
			if (planes_overlap(plane, &attr->planes[j], attr->nr_blocks))
				return kv_refuse(-EINVAL, "kvmm: pool: two planes share memory");
	}
	if (attr->block_bytes && attr->block_bytes != sum)
		return kv_refuse(-EINVAL, "kvmm: pool: the planes have %llu bytes, not "
				 "@block_bytes", (unsigned long long)sum);
	return 0;
}

static int check_attr(const struct kvmm_pool_attr *attr)
{
	u32 tokens = attr->block_tokens;

	if (!attr->nr_blocks || attr->nr_blocks > KVMM_MAX_BLOCKS)
		return kv_refuse(-EINVAL, "kvmm: pool: %u blocks, not 1 to %u", attr->nr_blocks,
				 KVMM_MAX_BLOCKS);
	if (tokens > KVMM_MAX_BLOCK_TOKENS)
		return kv_refuse(-EINVAL, "kvmm: pool: %u tokens a block, not 1 to %u", tokens,
				 KVMM_MAX_BLOCK_TOKENS);
	if (attr->flags & KVMM_POOL_ELASTIC ? attr->planes || !attr->block_bytes : attr->unit_bytes)
		return kv_refuse(-EINVAL, "kvmm: pool: KVMM_POOL_ELASTIC goes with @block_bytes, "
				 "@unit_bytes with KVMM_POOL_ELASTIC");
	if (attr->flags & ~POOL_FLAGS || attr->dup_policy >= KVMM_NR_DUPS ||
	    attr->zero >= KVMM_NR_ZEROS)
		return kv_refuse(-EINVAL, "kvmm: pool: flags 0x%x, dup_policy %u or zero %u is "
				 "none", attr->flags, attr->dup_policy, attr->zero);
	if (attr->flags & KVMM_POOL_PREFIX_CLOSED && attr->flags & KVMM_POOL_ORDER_AS_PUT)
		return kv_refuse(-EINVAL, "kvmm: pool: KVMM_POOL_PREFIX_CLOSED needs chains to go "
				 "from their end");
	if (attr->name && !kv_name_is_good("pool", attr->name, KV_POOL_NAME))
		return -EINVAL;
	return check_memory(attr);
}

static void init_fields(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr,
			const struct kv_pool_parts *parts)
{
	u32 id = kv_fetch_add(&next_pool_id, 1);
	u64 random;

	pool->parts = *parts;
	pool->deterministic = attr->flags & KVMM_POOL_DETERMINISTIC;
	pool->no_mags = attr->flags & (KVMM_POOL_NO_MAGAZINES | KVMM_POOL_LIFO);
	pool->seed = attr->seed;
	if (pool->deterministic && !attr->seed)
		pool->nth_unseeded = kv_fetch_add(&nr_unseeded, 1);
	random = pool_random(pool);
	pool->nr_blocks = attr->nr_blocks;
	pool->has_null = attr->flags & KVMM_POOL_NULL_BLOCK;
	pool->resets = attr->flags & KVMM_POOL_RESET_ON_RELEASE;
	pool->prefix_closed = attr->flags & KVMM_POOL_PREFIX_CLOSED;
	pool->as_put = attr->flags & KVMM_POOL_ORDER_AS_PUT;
	pool->dup = attr->dup_policy ? attr->dup_policy : KVMM_DUP_ALLOW;
	pool->nr_usable = pool->nr_blocks - pool->has_null;
	pool->block_tokens = attr->block_tokens ? attr->block_tokens : DEFAULT_BLOCK_TOKENS;
	pool->compact_max_blocks = attr->compact_max_blocks;
	pool->gen_base = (u32)random ? (u32)random : 1;
	pool->seq_secret = random | 1;
	pool->free_slot = KV_NONE;
	pool->metadata_bytes = sizeof(*pool);
	kv_pool_set_name(pool, attr->name ? attr->name : "pool");
	kv_lock_init(&pool->compact_lock, KV_RANK_COMPACT, id);
	kv_lock_init(&pool->lock, KV_RANK_POOL, id);
}

static int init_blocks(struct kvmm_pool *pool, const char *engine)
{
	struct kv_zone_attr attr = { .nr_blocks = pool->nr_blocks, .engine = engine };
	int err = kv_zone_create(&attr, &pool->zone);

	if (err)
		return err;
	pool->metadata_bytes += pool->zone->metadata_bytes;
	pool->rounds = kv_zone_rounds(pool->zone);
	pool->owner = kv_alloc_array(pool->nr_blocks, sizeof(*pool->owner));
	if (!pool->owner)
		return -ENOMEM;
	pool->metadata_bytes += (u64)pool->nr_blocks * sizeof(*pool->owner);
	if (!pool->has_null)
		return 0;
	/* Block 0 is the lowest of an empty zone, so any engine can take it. */
	pool->owner[0] = make_owner(OWNER_NULL, 0);
	return kv_zone_alloc_at(pool->zone, 0, 1);
}

static int adopt_planes(struct kvmm_pool *pool, const struct kvmm_plane *planes, u32 nr)
{
	pool->plane = kv_alloc_array(nr, sizeof(*planes));
	if (!pool->plane)
		return -ENOMEM;
	memcpy(pool->plane, planes, nr * sizeof(*planes));
	pool->metadata_bytes += nr * sizeof(*planes);
	pool->nr_planes = nr;
	for (u32 i = 0; i < nr; i++)
		pool->block_bytes += planes[i].bytes;
	return 0;
}

static int init_memory(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	const struct kv_dev_ops *ops = pool->parts.dev;
	struct kvmm_plane own = { .stride = attr->block_bytes, .bytes = attr->block_bytes };
	struct kv_area_attr area = { .handle_bytes = attr->unit_bytes };
	struct kv_area_info info;
	int err;

	if (!attr->planes && !attr->block_bytes)
		return 0;
	err = ops->open(pool->parts.dev_number, &pool->dev);
	if (err)
		return err;
	if (attr->planes)
		return adopt_planes(pool, attr->planes, attr->nr_planes);
	pool->own_bytes = attr->block_bytes * attr->nr_blocks;
	area.max_bytes = pool->own_bytes;
	err = attr->flags & KVMM_POOL_ELASTIC ? ops->area_create(pool->dev, &area, &pool->area) :
						-EOPNOTSUPP;
	if (!err) {
		/* It can be given back; all of it is there at first. */
		ops->area_info(pool->area, &info);
		pool->own_addr = info.addr;
		err = ops->area_grow(pool->area, 0, info.max_bytes);
	} else if (err == -EOPNOTSUPP) {
		err = ops->alloc(pool->dev, pool->own_bytes, &pool->own_addr);
	}
	if (err)
		return err;
	own.base = pool->own_addr;
	return adopt_planes(pool, &own, 1);
}

/* Takes a pool that is half made, too: fields that were not made yet are 0. */
static void exit_fields(struct kvmm_pool *pool)
{
	const struct pool_part *const *part = pool->parts.all;
	const struct kv_dev_ops *ops = pool->parts.dev;

	while (*part)
		part++;
	while (part-- > pool->parts.all)
		if ((*part)->exit)
			(*part)->exit(pool);
	kv_free(pool->plane);
	if (pool->area)
		ops->area_destroy(pool->area);
	else if (pool->own_addr)
		ops->free(pool->dev, pool->own_addr, pool->own_bytes);
	if (pool->dev)
		ops->close(pool->dev);
	kv_free(pool->owner);
	kv_zone_destroy(pool->zone);
}

void pool_observe(struct kvmm_pool *pool, const struct pool_part *part)
{
	u32 i = 0;

	while (pool->parts.all[i] != part)
		i++;
	/* Pairs with pool_tell(): a release, or it would be told before its own state is seen. */
	if (!(READ_ONCE(pool->observed) & BIT64(i)))
		kv_fetch_add_release(&pool->observed, BIT64(i));
}

/* Changes of other threads may be half done: no call gets past the gate to look at them. */
static void close_in_child(struct kv_fork_node *node)
{
	struct kvmm_pool *pool = container_of(node, struct kvmm_pool, fork_node);

	WRITE_ONCE(pool->gate, pool->gate | GATE_FORKED);
	for (const struct pool_part *const *part = pool->parts.all; *part; part++)
		if ((*part)->forked)
			(*part)->forked(pool);
}

int kv_pool_create(const struct kvmm_pool_attr *attr, const struct kv_pool_parts *parts,
		   struct kvmm_pool **result)
{
	struct kvmm_pool *pool;
	int err;

	err = check_attr(attr);
	if (err)
		return err;
	pool = kv_alloc_lines(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	init_fields(pool, attr, parts);
	err = init_blocks(pool, attr->allocator);
	if (!err)
		err = init_memory(pool, attr);
	/* "host" copies within the call. */
	pool->completions.are_told = pool->deterministic && pool->dev &&
				     strcmp(parts->dev->name, "host");
	for (const struct pool_part *const *part = parts->all; *part && !err; part++)
		if ((*part)->init)
			err = (*part)->init(pool, attr);
	if (err) {
		exit_fields(pool);
		kv_free(pool);
		return err;
	}
	kv_fork_add(&pool->fork_node, close_in_child);
	*result = pool;
	return 0;
}

u64 kv_pool_clock_ns(const struct kvmm_pool *pool)
{
	return pool_clock_ns(pool);
}

static void free_pool(struct kv_rcu_head *head)
{
	kv_free(container_of(head, struct kvmm_pool, rcu));
}

void kv_pool_destroy(struct kvmm_pool *pool)
{
	door_close(pool);
	kv_fork_del(&pool->fork_node);
	exit_fields(pool);
	kv_rcu_defer(&pool->rcu, free_pool);
}

void kv_pool_set_name(struct kvmm_pool *pool, const char *name)
{
	strncpy(pool->name, name, sizeof(pool->name) - 1);
}

const char *kv_pool_name(const struct kvmm_pool *pool)
{
	return pool->name;
}

struct kvmm_pool **kv_pool_next(struct kvmm_pool *pool)
{
	return &pool->next;
}

u32 kv_pool_block_tokens(const struct kvmm_pool *pool)
{
	return pool->block_tokens;
}

u32 kv_pool_nr_blocks(const struct kvmm_pool *pool)
{
	return pool ? pool->nr_blocks : 0;
}

struct kvmm_registry *kv_pool_registry(const struct kvmm_pool *pool)
{
	return pool ? pool->presence.reg : NULL;
}

struct kv_zone *kv_pool_zone(struct kvmm_pool *pool)
{
	return pool->zone;
}
