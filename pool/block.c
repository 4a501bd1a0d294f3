// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks: their owners, and their way when they lose the owner.
 *
 * The owner array has one word a block. As a rule a block without an owner is free in the zone.
 * Three things may be in the way: a copy still reads it, a blind device may still write it, its
 * memory is about to be given back. blocks_free() looks at all three, under ->lock.
 *
 * A request that waits must not hear of each block: it would wake for the first of many, and for
 * blocks that another request only moves about. So blocks_free() posts how many became free, and
 * pool_leave() settles the sum once. A request that makes room takes back what it posted.
 */
#include <kv/env.h>

#include "local.h"

static noinline void record(struct kvmm_pool *pool, enum history_mark mark, u32 start, u32 nr,
			    u32 owner)
{
	kv_assert_held(&pool->lock);
	sum_add(&pool->history, history_word(mark, start, nr));
	sum_add(&pool->history, owner);
}

void owner_fill(struct kvmm_pool *pool, u32 start, u32 nr, u32 owner)
{
	u32 *at = pool->owner + start;

	kv_assert_held(&pool->lock);
	if (unlikely(pool->deterministic))
		record(pool, HISTORY_TAKEN, start, nr, owner);
	for (u32 i = 0; i < nr; i++)
		at[i] = owner;
}

void owner_clear(struct kvmm_pool *pool, u32 start, u32 nr)
{
	kv_assert_held(&pool->lock);
	static_assert(OWNER_FREE == 0, "a free block's owner is 0");
	if (unlikely(pool->deterministic))
		record(pool, HISTORY_FREED, start, nr, 0);
	if (likely(nr == 1))	/* of an entry: read without the lock, see request/ids.c */
		WRITE_ONCE(pool->owner[start], OWNER_FREE);
	else
		memset(pool->owner + start, 0, nr * sizeof(*pool->owner));
}

/* ---- where a block goes that lost its owner ---- */

enum place {
	PLACE_ZONE,
	PLACE_COPIED,		/* dark until its copy has ended */
	PLACE_UNSEEN,		/* until the device sees again */
	PLACE_OFFLINE,		/* goes with the memory behind it */
};

static enum place place_of(const struct kvmm_pool *pool, u32 block)
{
	kv_assert_held(&pool->lock);
	if (pool->nr_flying && is_flying(&pool->transit, block))
		return PLACE_COPIED;
	if (pool->blind)
		return PLACE_UNSEEN;
	if (elastic_is_leaving(pool, (struct kvmm_extent){ block, 1 }))
		return PLACE_OFFLINE;
	return PLACE_ZONE;
}

/*
 * A block that was freed twice is there twice: once it was taken for the later time, it is not free
 * when the earlier one comes. Each free adds one, so all that are passed over are paid for.
 */
u32 blocks_take_freed(struct kvmm_pool *pool, u32 nr, u32 *ids)
{
	struct freed *freed = &pool->freed;
	u32 nr_taken = 0;

	kv_assert_held(&pool->lock);
	while (nr_taken < nr && freed->nr) {
		freed->end = (freed->end ? freed->end : pool->nr_blocks) - 1;
		freed->nr--;
		if (!kv_zone_alloc_at(pool->zone, freed->block[freed->end], 1))
			ids[nr_taken++] = freed->block[freed->end];
	}
	return nr_taken;
}

static void lose_owner(struct kvmm_pool *pool, u32 start, u32 nr)
{
	struct freed *freed = &pool->freed;

	kv_assert_held(&pool->lock);
	owner_clear(pool, start, nr);
	if (likely(!freed->block) || nr > 1)
		return;
	/* A full ring forgets the oldest: the zone says when that one is taken. */
	freed->block[freed->end] = start;
	freed->end = freed->end + 1 < pool->nr_blocks ? freed->end + 1 : 0;
	freed->nr = min(freed->nr + 1, pool->nr_blocks);
}

static void free_in_zone(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_ext; i++) {
		lose_owner(pool, ext[i].start, ext[i].nr);
		nr += ext[i].nr;
	}
	if (unlikely(kv_free_runs(pool->zone, ext, nr_ext)))
		pool_poison(pool);
	release_post(pool, nr);
}

static void free_run(struct kvmm_pool *pool, struct kvmm_extent run, enum place place)
{
	kv_assert_held(&pool->lock);
	switch (place) {
	case PLACE_ZONE:
		free_in_zone(pool, &run, 1);
		break;
	case PLACE_COPIED:
		for (u32 b = run.start; b < run.start + run.nr; b++)
			pool->owner[b] = make_owner(OWNER_MOVE, 0);
		pool->transit.nr_dark += run.nr;
		break;
	case PLACE_UNSEEN:
		owner_fill(pool, run.start, run.nr, make_owner(OWNER_UNSEEN, run.start));
		WRITE_ONCE(pool->nr_unseen, pool->nr_unseen + run.nr);
		break;
	case PLACE_OFFLINE:
		elastic_free(pool, run);
		break;
	}
}

static noinline void free_by_place(struct kvmm_pool *pool, struct kvmm_extent ext)
{
	u32 at = ext.start, end = at + ext.nr;

	kv_assert_held(&pool->lock);
	for (u32 nr; at < end; at += nr) {
		enum place place = place_of(pool, at);

		for (nr = 1; at + nr < end && place_of(pool, at + nr) == place; nr++)
			;
		free_run(pool, (struct kvmm_extent){ at, nr }, place);
	}
}

void blocks_free(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	if (likely(!(pool->nr_flying | pool->blind | pool->nr_leaving))) {
		free_in_zone(pool, ext, nr_ext);
		return;
	}
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_ext; i++)
		free_by_place(pool, ext[i]);
}

void blocks_free_single(struct kvmm_pool *pool, const u32 *blocks, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->nr_flying | pool->blind | pool->nr_leaving)) {
		for (u32 i = 0; i < nr; i++)
			block_free(pool, blocks[i]);
		return;
	}
	for (u32 i = 0; i < nr; i++)
		lose_owner(pool, blocks[i], 1);
	POOL_BUG_ON(pool, kv_zone_free_many(pool->zone, blocks, nr));
	release_post(pool, nr);
}

u32 blocks_free_of(struct kvmm_pool *pool, enum owner_kind kind, struct kvmm_extent within)
{
	u32 end = within.start + within.nr, sum = 0;

	kv_assert_held(&pool->lock);
	for (u32 b = within.start, nr; b < end; b += max(nr, 1u)) {
		u32 owner = pool->owner[b];

		for (nr = 0; owner_kind(owner) == kind && b + nr < end &&
			     pool->owner[b + nr] == owner; nr++)
			;
		if (nr)
			blocks_free(pool, &(struct kvmm_extent){ b, nr }, 1);
		sum += nr;
	}
	return sum;
}

/* ---- what is known of a block ---- */

/* The clock has gone on by less than a lap of ticks since. If it has gone back, that was now. */
u64 ns_of_tick(u32 tick)
{
	u64 now = kv_clock_ns() >> TICK_SHIFT;
	u32 age = (u32)now - tick;

	return (age <= now ? now - age : now) << TICK_SHIFT;
}

/* As count_states(): a claimed entry is its gang's, one going with its last put is not gone. */
static void entry_info(const struct kvmm_pool *pool, u32 index, struct kvmm_block_info *info)
{
	static const u8 state_of[KV_NR_ENTRY_STATES] = {
		[KV_ENTRY_PRIVATE]  = KVMM_BLOCK_PRIVATE,  [KV_ENTRY_STAGED]   = KVMM_BLOCK_STAGED,
		[KV_ENTRY_EVICTING] = KVMM_BLOCK_PRIVATE,  [KV_ENTRY_PARKED]   = KVMM_BLOCK_FREE,
		[KV_ENTRY_FREE]	    = KVMM_BLOCK_FREE,	   [KV_ENTRY_RETIRED]  = KVMM_BLOCK_FREE,
	};
	const struct kv_entry *entry = entry_at(pool, index);
	u64 word = smp_load_acquire(&entry->word);

	kv_assert(index < pool->entries.nr);
	info->state = state_of[kv_word_state(word)];
	if (kv_word_is(word, KV_ENTRY_REGISTERED)) {
		info->refs = kv_word_refs(word);
		info->pins = kv_word_pins(word);
		info->state = info->refs ? KVMM_BLOCK_ACTIVE : KVMM_BLOCK_INACTIVE;
	} else if (kv_word_is(word, KV_ENTRY_PRIVATE)) {
		info->refs = kv_word_refs(word);
	} else if (kv_word_is_going(word)) {
		info->state = KVMM_BLOCK_INACTIVE;
	}
	if (info->state != KVMM_BLOCK_FREE)
		info->last_access_ns = ns_of_tick(READ_ONCE(entry->vtime));
}

struct kvmm_block_info block_info(struct kvmm_pool *pool, u32 block)
{
	struct kvmm_block_info info = { .state = KVMM_BLOCK_FREE };
	u32 owner = pool->owner[block];
	const struct slot *slot = NULL;

	kv_assert_held(&pool->lock);
	if (owner_kind(owner) == OWNER_SLOT)
		slot = slot_at(pool, owner_index(owner));
	if (owner_kind(owner) == OWNER_NULL)
		info.state = KVMM_BLOCK_NULL;
	else if (owner_is_away(owner))
		info.state = KVMM_BLOCK_AWAY;
	else if (slot)
		info = (struct kvmm_block_info){
			.state = KVMM_BLOCK_RANGE, .seq = slot->seq, .refs = slot->refs,
			.pins = slot->pins, .last_access_ns = ns_of_tick(slot->tick),
			.range = slot_handle(slot, owner_index(owner)),
		};
	else if (owner_kind(owner) == OWNER_ENTRY)
		entry_info(pool, owner_index(owner), &info);
	return info;
}

int kvmm_block_get_info_sized(struct kvmm_pool *pool, uint32_t block, struct kvmm_block_info *info,
			      size_t size)
{
	struct kvmm_block_info now;
	int err;

	if (!pool || kv_size_is_bad(info, size) || block >= pool->nr_blocks)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	arenas_lock(pool);
	now = block_info(pool, block);
	arenas_unlock(pool);
	pool_leave(pool);
	kv_give(info, size, &now, sizeof(now));
	return 0;
}
