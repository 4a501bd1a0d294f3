// SPDX-License-Identifier: Apache-2.0
/*
 * Owners of blocks: a walk over ranges, private and staged blocks, and holds; and those of them
 * that may have been forgotten.
 *
 * The walk goes over things, not leases: so it sees those without an owner, too, and no lease of
 * things that are gone. Slots want pool->lock, for some of them at a time; entries want none.
 */
#include <limits.h>

#include <kv/env.h>
#include <pool/arena.h>
#include <pool/determ.h>
#include <pool/lease.h>

#define WALK_SLOTS	128u	/* that are looked at in one hold of pool->lock */
#define WALK_ENTRIES	512u	/* in one read section */
#define WALK_ROWS	16u

enum stage { WALK_RANGES, WALK_BLOCKS, WALK_HOLDS };

/* The place of a walk, and its findings: cursor = stage, index. */
struct walk {
	struct kvmm_pool	*pool;
	u64			now_ns;
	u64			cursor;
	struct kvmm_owned	*rows;
	u32			max;
	u32			nr;
};

static u64 make_cursor(enum stage stage, u32 index)
{
	return (u64)stage << 32 | index;
}

static void set_age(struct kvmm_owned *row, u64 now_ns)
{
	row->age_ns = now_ns - min(row->since_ns, now_ns);
}

/* The row of a lease, if there is one. */
static void add_lease(const struct walk *walk, enum lease_kind kind, struct kvmm_owned *row)
{
	struct lease lease = lease_look(walk->pool, kind, row->index, row->gen);

	if (lease.owner) {
		row->owner = lease.owner;
		row->since_ns = lease.since_ns;
		row->deadline_ns = lease.deadline_ns;
		row->flags = lease.flags;
	}
	set_age(row, walk->now_ns);
}

static void add_range(struct walk *walk, const struct slot *slot, u32 index)
{
	struct kvmm_owned *row = &walk->rows[walk->nr++];

	*row = (struct kvmm_owned){
		.since_ns = slot->last_access_ns, .bytes = slot->nr * walk->pool->block_bytes,
		.kind = KVMM_OWNED_RANGE, .index = index, .gen = slot->gen,
		.nr = slot->nr, .refs = slot->refs, .pins = slot->pins,
	};
	add_lease(walk, LEASE_RANGE, row);
}

static int walk_ranges(struct walk *walk)
{
	struct kvmm_pool *pool = walk->pool;
	u32 at = (u32)walk->cursor, nr, to;
	int err = pool_enter(pool);

	if (err)
		return err;
	nr = pool->slots ? dir_nr_slots(pool->slots) : 0;
	to = nr - min(at, nr) > WALK_SLOTS ? at + WALK_SLOTS : nr;
	arenas_lock(pool);
	for (; at < to && walk->nr < walk->max; at++)
		if (slot_at(pool, at)->nr_ext)
			add_range(walk, slot_at(pool, at), at);
	arenas_unlock(pool);
	pool_leave(pool);
	walk->cursor = at < nr ? make_cursor(WALK_RANGES, at) : make_cursor(WALK_BLOCKS, 0);
	return 0;
}

/* Without an owner: claimed by the thread that frees it. */
static bool is_owned(u64 word)
{
	return (kv_word_is(word, KV_ENTRY_PRIVATE) || kv_word_is(word, KV_ENTRY_STAGED)) &&
	       !(word & KV_ENTRY_MARK);
}

static void add_block(struct walk *walk, u64 word, u32 index)
{
	struct kvmm_owned *row = &walk->rows[walk->nr++];

	*row = (struct kvmm_owned){
		/* To a tick, and nothing looks older than it is. */
		.since_ns = min(ns_of_tick(READ_ONCE(entry_at(walk->pool, index)->vtime)) +
				BIT64(TICK_SHIFT), walk->now_ns),
		.bytes = walk->pool->block_bytes,
		.kind = kv_word_is(word, KV_ENTRY_STAGED) ? KVMM_OWNED_STAGED : KVMM_OWNED_PRIVATE,
		.index = index, .gen = kv_word_gen(word), .nr = 1, .refs = 1,
	};
	add_lease(walk, LEASE_BLOCK, row);
}

static int walk_blocks(struct walk *walk)
{
	struct kvmm_pool *pool = walk->pool;
	u32 at = (u32)walk->cursor, to;
	int err;

	if (!pool->caches || at >= pool->nr_blocks) {
		walk->cursor = make_cursor(WALK_HOLDS, 0);
		return 0;
	}
	err = cache_begin(pool);
	if (err)
		return err;
	to = min(pool->nr_blocks, at + WALK_ENTRIES);
	for (; at < to && walk->nr < walk->max; at++) {
		u64 word = READ_ONCE(entry_at(pool, at)->word);

		if (is_owned(word))
			add_block(walk, word, at);
	}
	cache_end(pool);
	walk->cursor = make_cursor(WALK_BLOCKS, at);
	return 0;
}

static void add_hold(struct walk *walk, const struct kvmm_hold_info *info)
{
	struct kvmm_owned *row = &walk->rows[walk->nr++];

	*row = (struct kvmm_owned){
		.owner = info->owner, .since_ns = info->since_ns,
		.deadline_ns = info->deadline_ns,
		.bytes = info->nr * walk->pool->block_bytes,
		.kind = info->flags & KVMM_HOLD_PIN ? KVMM_OWNED_PIN : KVMM_OWNED_HOLD,
		.index = info->hold.index, .gen = info->hold.gen, .nr = info->nr,
		.flags = info->flags, .reason = info->reason,
	};
	set_age(row, walk->now_ns);
	memcpy(row->text, info->text, sizeof(row->text));
}

static int walk_holds(struct walk *walk)
{
	struct kvmm_hold_info info;
	u32 at = (u32)walk->cursor;
	int err = kvmm_hold_next(walk->pool, &at, &info);

	if (err)
		return err;
	walk->cursor = make_cursor(WALK_HOLDS, at);
	add_hold(walk, &info);
	return 0;
}

/* Until there is at least one row: 0; -ENOENT that was all. */
static int walk_on(struct walk *walk)
{
	int err = 0;

	for (walk->nr = 0; !walk->nr && !err;) {
		switch (walk->cursor >> 32) {
		case WALK_RANGES:
			err = walk_ranges(walk);
			break;
		case WALK_BLOCKS:
			err = walk_blocks(walk);
			break;
		case WALK_HOLDS:
			err = walk_holds(walk);
			break;
		default:
			err = -EINVAL;
		}
	}
	return err;
}

int kvmm_owned_next_sized(struct kvmm_pool *pool, uint64_t *cursor, struct kvmm_owned *row,
			  size_t size)
{
	struct kvmm_owned now;
	struct walk walk = { .pool = pool, .rows = &now, .max = 1 };
	int err;

	if (!pool || !cursor || kv_size_is_bad(row, size))
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	walk.now_ns = pool_clock_ns(pool);
	walk.cursor = *cursor;
	err = walk_on(&walk);
	if (err)
		return err;
	*cursor = walk.cursor;
	kv_give(row, size, &now, sizeof(now));
	return 0;
}

/* ---- suspicious leases ---- */

static bool has_one_lease(struct kvmm_pool *pool, u64 owner)
{
	struct lease_table *table = leases_of(pool);
	bool is_one;
	u32 id;

	kv_lock(&table->lock);
	id = lease_next(pool, table, owner, KV_NONE);
	is_one = id != KV_NONE && lease_next(pool, table, owner, id) == KV_NONE;
	kv_unlock(&table->lock);
	return is_one;
}

static u32 suspect(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
		   const struct kvmm_owned *row)
{
	struct lease_table *table = leases_of(pool);
	u32 why = 0;

	if (row->owner && table && lease_owner_is_dead(table, row->owner))
		why |= KVMM_LEAK_DEAD;
	if (row->deadline_ns)
		return row->deadline_ns <= attr->now_ns ? why | KVMM_LEAK_EXPIRED : why;
	if (attr->older_ns && row->age_ns >= attr->older_ns)
		why |= KVMM_LEAK_OLD;
	if (attr->lone_ns && row->owner && row->age_ns >= attr->lone_ns &&
	    has_one_lease(pool, row->owner))
		why |= KVMM_LEAK_LONE;
	return why;
}

static bool is_wanted(const struct kvmm_leak_attr *attr, const struct kvmm_owned *row)
{
	return (!attr->owner || row->owner == attr->owner) &&
	       (!attr->kinds || attr->kinds & BIT(row->kind));
}

static int read_attr(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
		     struct kvmm_leak_attr *known)
{
	static const struct kvmm_leak_attr usual = KVMM_LEAK_ATTR_INIT;
	struct lease_table *table;
	int err;

	if (!pool)
		return -EINVAL;
	err = kv_copy_attr(known, sizeof(*known), attr ? attr : &usual);
	if (!err && (known->kinds >= BIT(KVMM_NR_OWNED_KINDS) || known->reserved))
		err = -EINVAL;
	if (!err)
		err = pool_refusal(pool);
	if (err)
		return err;
	if (!known->now_ns)
		known->now_ns = pool_clock_ns(pool);
	table = leases_of(pool);
	if (table)
		leases_ask(table);
	return 0;
}

/* From @cursor on, until @max are found if @stops, else to the end: how many were. */
static int find_leaks(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr, u64 *cursor,
		      u8 *rows, size_t size, u32 max, bool stops)
{
	struct kvmm_owned batch[WALK_ROWS];
	struct walk walk = { .pool = pool, .now_ns = attr->now_ns, .cursor = *cursor,
			     .rows = batch };
	u32 nr = 0;
	int err;

	for (;;) {
		walk.max = stops ? min(max - nr, WALK_ROWS) : WALK_ROWS;
		err = walk.max ? walk_on(&walk) : -ENOENT;
		if (err)
			break;
		for (u32 i = 0; i < walk.nr; i++) {
			batch[i].suspect = suspect(pool, attr, &batch[i]);
			if (!batch[i].suspect || !is_wanted(attr, &batch[i]))
				continue;
			if (nr < max)
				kv_give(rows + nr * size, size, &batch[i], sizeof(batch[i]));
			nr++;
		}
	}
	*cursor = walk.cursor;
	return err == -ENOENT ? (int)nr : err;
}

int kvmm_leaks_sized(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
		     struct kvmm_owned *rows, uint32_t max, size_t size)
{
	struct kvmm_leak_attr known;
	u64 cursor = 0;
	int err = max && kv_size_is_bad(rows, size) ? -EINVAL : read_attr(pool, attr, &known);

	return err ? err : find_leaks(pool, &known, &cursor, (u8 *)rows, size, max, false);
}

int kvmm_leaks_next_sized(struct kvmm_pool *pool, const struct kvmm_leak_attr *attr,
			  uint64_t *cursor, struct kvmm_owned *rows, uint32_t max, size_t size)
{
	struct kvmm_leak_attr known;
	bool is_bad = !cursor || kv_size_is_bad(rows, size) || !max || max > INT_MAX;
	int err = is_bad ? -EINVAL : read_attr(pool, attr, &known);

	return err ? err : find_leaks(pool, &known, cursor, (u8 *)rows, size, max, true);
}
