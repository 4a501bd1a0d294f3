// SPDX-License-Identifier: Apache-2.0
/*
 * The table of ranges.
 *
 * Readers look slots up without a lock while the table grows. Slots sit in chunks that stay where
 * they are, as long as the pool; so do directories of chunks. All writers hold pool->lock.
 */
#include <kv/mem.h>

#include "local.h"

#define FIRST_ROOM	6u	/* chunks of the first directory: 64 bytes */
#define MAX_CHUNKS	(KVMM_MAX_BLOCKS >> CHUNK_ORDER)

static_assert((u64)MAX_CHUNKS << CHUNK_ORDER <= BIT(OWNER_INDEX_BITS), "an index fits an owner");

static size_t dir_bytes(u32 nr_room)
{
	return sizeof(struct slot_dir) + nr_room * sizeof(struct slot_chunk *);
}

/* @old, if it has room for a chunk more, or a copy that has; NULL: no memory. */
static struct slot_dir *roomy_dir(struct slot_dir *old)
{
	u32 nr = old ? old->nr_chunks : 0, nr_room = nr ? 2 * nr : FIRST_ROOM;
	struct slot_dir *dir;

	if (old && nr < old->nr_room)
		return old;
	dir = kv_alloc(dir_bytes(nr_room));
	if (!dir)
		return NULL;
	dir->older = old;
	dir->nr_room = nr_room;
	dir->nr_chunks = nr;
	if (old)
		memcpy(dir->chunk, old->chunk, nr * sizeof(old->chunk[0]));
	return dir;
}

static void publish_chunk(struct kvmm_pool *pool, struct slot_dir *dir, struct slot_chunk *chunk)
{
	u32 nr = dir->nr_chunks, first = nr << CHUNK_ORDER;

	kv_assert_held(&pool->lock);
	chunk->first = first;
	/* Lowest index last, so that it is the first to be handed out. */
	for (u32 i = CHUNK_SLOTS; i-- > 0;) {
		struct slot *slot = &chunk->slot[i];

		slot->gen = pool->gen_base;
		slot->number = i;
		slot->next = pool->free_slot;
		pool->free_slot = first + i;
	}
	pool->metadata_bytes += sizeof(*chunk);
	dir->chunk[nr] = chunk;
	/* Pairs with dir_nr_slots(): the chunk is filled, and in its place. */
	smp_store_release(&dir->nr_chunks, nr + 1);
	if (dir == pool->slots)
		return;
	pool->metadata_bytes += dir_bytes(dir->nr_room);
	/* Pairs with slot_peek(): what was in the older one is here. */
	smp_store_release(&pool->slots, dir);
}

/* As many buckets as slots, or more. */
static int grow_buckets(struct kvmm_pool *pool, u32 nr_slots)
{
	u32 nr = pool->seqs.nr;
	u32 *bucket;

	kv_assert_held(&pool->lock);
	if (nr >= nr_slots)
		return 0;
	nr = max(CHUNK_SLOTS, 2 * nr);
	bucket = kv_alloc_array(nr, sizeof(*bucket));
	if (!bucket)
		return -ENOMEM;
	pool->metadata_bytes += (nr - pool->seqs.nr) * sizeof(*bucket);
	kv_free(seq_rehash(pool, bucket, nr));
	return 0;
}

static noinline int __slots_reserve_slow(struct kvmm_pool *pool)
{
	struct slot_chunk *chunk;
	struct slot_dir *dir;

	kv_assert_held(&pool->lock);
	/* So slots are made only where all but MAX_STOCK are in use. */
	if (pool->arenas && pool->local->return_slots(pool))
		return 0;
	if (pool->slots && pool->slots->nr_chunks == MAX_CHUNKS)
		return -ENOMEM;
	dir = roomy_dir(pool->slots);
	chunk = dir ? kv_alloc_lines(1, sizeof(*chunk)) : NULL;
	if (chunk && !grow_buckets(pool, dir_nr_slots(dir) + CHUNK_SLOTS)) {
		publish_chunk(pool, dir, chunk);
		return 0;
	}
	kv_free(chunk);
	if (dir != pool->slots)
		kv_free(dir);
	return -ENOMEM;
}

int slots_reserve(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return likely(pool->free_slot != KV_NONE) ? 0 : __slots_reserve_slow(pool);
}

u32 slot_take(struct kvmm_pool *pool)
{
	u32 index = pool->free_slot;

	kv_assert_held(&pool->lock);
	pool->free_slot = slot_at(pool, index)->next;
	return index;
}

void slot_close(struct kvmm_pool *pool, struct slot *slot, struct pool_count *count)
{
	u32 old = slot->gen - pool->gen_base;

	slot_write_begin(slot);
	WRITE_ONCE(slot->gen, next_gen(slot->gen));
	WRITE_ONCE(slot->nr_ext, 0);
	WRITE_ONCE(slot->lost, 0);
	slot_write_end(slot);
	slot->refs = slot->nr = 0;
	count->range_gens += (slot->gen - pool->gen_base) - (u64)old;
}

/*
 * A slot that has used up its generations retires: the oldest of its handles would come to life
 * again. That is a line lost every four billion frees.
 */
void slot_put(struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	slot_close(pool, slot, &pool->count);
	if (unlikely(slot->gen == pool->gen_base)) {
		pool->nr_retired++;
		return;
	}
	slot->next = pool->free_slot;
	pool->free_slot = index;
}

struct slot *slot_peek(const struct kvmm_pool *pool, u32 index)
{
	/* Pairs with publish_chunk(): the chunks that it names are filled. */
	const struct slot_dir *dir = smp_load_acquire(&pool->slots);

	return likely(dir && index < dir_nr_slots(dir)) ? dir_slot(dir, index) : NULL;
}

void slot_unput(struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	slot_write_begin(slot);
	WRITE_ONCE(slot->nr_ext, 0);
	WRITE_ONCE(slot->lost, 0);
	slot_write_end(slot);
	slot->refs = slot->pins = slot->nr = 0;
	slot->next = pool->free_slot;
	pool->free_slot = index;
}

int slot_find(struct kvmm_pool *pool, kvmm_range_t range, struct slot **result)
{
	struct slot *slot;
	u32 gen = range.gen;

	kv_assert_held(&pool->lock);
	if (unlikely(!pool->slots || range.index >= dir_nr_slots(pool->slots)))
		return refuse_handle(pool, pool->gen_base, range.gen);
	slot = slot_at(pool, range.index);
	if (unlikely(READ_ONCE(slot->arena)) && !pool->local->adopt(pool, slot, &gen))
		return refuse_handle(pool, gen, range.gen);
	if (unlikely(slot->gen != range.gen || !slot->nr_ext))
		return refuse_handle(pool, slot->gen, range.gen);
	*result = slot;
	return 0;
}

/* ---- extents ---- */

int __slot_reserve_side(struct kvmm_pool *pool, struct slot *slot)
{
	struct slot_chunk *chunk = slot_chunk(slot);
	struct slot_side *side = kv_alloc_lines(CHUNK_SLOTS, sizeof(*side));

	kv_assert_held(&pool->lock);
	if (!side)
		return -ENOMEM;
	for (u32 i = 0; i < CHUNK_SLOTS; i++)
		side[i].grow.index = chunk->first + i;
	pool->metadata_bytes += CHUNK_SLOTS * sizeof(*side);
	/* Pairs with copy_side(): the records are zeroed. */
	kv_rcu_assign(chunk->side, side);
	return 0;
}

static void free_more(struct kv_rcu_head *head)
{
	kv_free(container_of(head, struct more_extents, rcu));
}

static size_t more_bytes(u32 nr_room)
{
	return sizeof(struct more_extents) + nr_room * sizeof(struct kvmm_extent);
}

static noinline int __slot_reserve_more(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	struct grow *grow = slot_grow(slot);
	struct more_extents *old = grow->more, *more;
	u32 nr_room = KVMM_MAX_RUNS;

	kv_assert_held(&pool->lock);
	if (old && old->nr_room >= nr)
		return 0;
	while (nr_room < nr)
		nr_room *= 2;
	more = kv_alloc(more_bytes(nr_room));
	if (!more)
		return -ENOMEM;
	more->nr_room = nr_room;
	if (old)
		memcpy(more->ext, old->ext, old->nr_room * sizeof(old->ext[0]));
	pool->metadata_bytes += more_bytes(nr_room) - (old ? more_bytes(old->nr_room) : 0);
	/* Pairs with copy_side(): the copied extents are there. */
	kv_rcu_assign(grow->more, more);
	if (old)
		kv_rcu_defer(&old->rcu, free_more);
	return 0;
}

int slot_reserve_ext(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (likely(nr <= 1))
		return 0;
	if (nr > SLOT_MAX_EXT || slot_reserve_side(pool, slot))
		return -ENOMEM;
	return nr <= KVMM_MAX_RUNS ? 0 : __slot_reserve_more(pool, slot, nr - KVMM_MAX_RUNS);
}

/* Some may be in regions that are lent to arenas. */
static void free_extents(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	kv_assert_held(&pool->lock);
	if (likely(!pool->arenas))
		blocks_free(pool, ext, nr_ext);
	else
		pool->local->free(pool, ext, nr_ext);
}

void slot_free_blocks(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	free_extents(pool, &slot->first, 1);
	if (unlikely(slot->nr_ext > 1))
		free_extents(pool, slot_ext(slot, 1), min(slot->nr_ext, (u16)KVMM_MAX_RUNS) - 1);
	if (unlikely(slot->nr_ext > KVMM_MAX_RUNS))
		free_extents(pool, slot_ext(slot, KVMM_MAX_RUNS), slot->nr_ext - KVMM_MAX_RUNS);
}

static void copy_some(const struct kvmm_extent *from, struct kvmm_extent *ext, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		ext[i].start = READ_ONCE(from[i].start);
		ext[i].nr = READ_ONCE(from[i].nr);
	}
}

/*
 * An extent missing here was added to a slot that has changed since its version was read: the
 * reader will try again.
 */
static noinline void copy_side(const struct slot *slot, struct kvmm_extent *ext, u32 nr)
{
	/* Pairs with __slot_reserve_side(). */
	const struct slot_side *side = kv_rcu_dereference(slot_chunk(slot)->side);
	const struct more_extents *more;
	u32 nr_side = min(nr, KVMM_MAX_RUNS - 1);

	if (!side)
		return;
	side += slot->number;
	copy_some(side->ext, ext, nr_side);
	kv_rcu_read_lock();
	/* Pairs with __slot_reserve_more(): nr_room is set, and earlier extents are there. */
	more = kv_rcu_dereference(side->grow.more);
	if (more)
		copy_some(more->ext, ext + nr_side, min(nr - nr_side, more->nr_room));
	kv_rcu_read_unlock();
}

/* Copy the fields a reader wants; the version says later whether it was one moment's. */
static int copy_extents(const struct slot *slot, u32 gen, struct kvmm_extent *ext, u32 max)
{
	u32 nr = READ_ONCE(slot->nr_ext);

	if (READ_ONCE(slot->gen) != gen || !nr)
		return -ESTALE;
	if (READ_ONCE(slot->lost))
		return -EIO;
	copy_some(&slot->first, ext, min(max, 1u));
	if (unlikely(nr > 1 && max > 1))
		copy_side(slot, ext + 1, min(nr, max) - 1);
	return nr;
}

static int read_extents(const struct kvmm_pool *pool, kvmm_range_t range,
			struct kvmm_extent *ext, u32 max)
{
	const struct slot *slot = slot_peek(pool, range.index);
	u32 version, gen;
	int nr;

	if (!slot)
		return refuse_handle(pool, pool->gen_base, range.gen);
	do {
		version = kv_seq_read_begin(&slot->version);
		nr = copy_extents(slot, range.gen, ext, max);
		gen = READ_ONCE(slot->gen);
	} while (unlikely(kv_seq_read_retry(&slot->version, version)));
	return nr == -ESTALE ? refuse_handle(pool, gen, range.gen) : nr;
}

int kvmm_range_extents(struct kvmm_pool *pool, kvmm_range_t range, struct kvmm_extent *ext,
		       unsigned int max)
{
	int nr;

	if (!pool || (!ext && max))
		return -EINVAL;
	nr = pool_refusal(pool);
	if (unlikely(nr))
		return nr;
	return read_extents(pool, range, ext, max);
}

static void chunk_free(struct slot_chunk *chunk)
{
	for (u32 i = 0; chunk->side && i < CHUNK_SLOTS; i++)
		kv_free(chunk->side[i].grow.more);
	kv_free(chunk->side);
	kv_free(chunk);
}

static void slots_exit(struct kvmm_pool *pool)
{
	struct slot_dir *dir = pool->slots, *older;

	for (u32 i = 0; dir && i < dir->nr_chunks; i++)
		chunk_free(dir->chunk[i]);
	for (; dir; dir = older) {
		older = dir->older;
		kv_free(dir);
	}
	kv_free(pool->seqs.bucket);
}

POOL_PART(slots) = {
	.name	= "ranges",
	.exit	= slots_exit,
};
