// SPDX-License-Identifier: Apache-2.0
/*
 * What is held: a walk over ranges, private and staged blocks, and holds, and those of them that
 * may have been forgotten.
 *
 * The walk goes over things, not leases: so it sees those without an owner, too, and no lease of
 * things that are gone. Slots want pool->lock, for some of them at a time; entries want none.
 */
#include <limits.h>

#include <kv/env.h>
#include <pool/local.h>
#include <lease/lease.h>

#define WALK_SLOTS	128u	/* that are looked at in one hold of pool->lock */
#define WALK_ENTRIES	512u	/* in one read section */
#define WALK_HOLDS	256u	/* in one hold of the table's lock */
#define WALK_ROWS	16u

enum stage { OF_RANGES, OF_BLOCKS, OF_HOLDS, OF_NOTHING };

/* The place of a walk, and its findings: cursor = stage, index; by key: place in the chain. */
struct walk {
	struct kvmm_pool		*pool;
	struct kvmm_lease_filter	want;
	u64				round;		/* lease_owner_is_dead() */
	u64				cursor;
	struct kvmm_lease_info		rows[WALK_ROWS];
	u32				max;
	u32				nr;
};

static u64 make_cursor(enum stage stage, u32 index)
{
	return (u64)stage << 32 | index;
}

static void set_age(struct kvmm_lease_info *row, u64 now_ns)
{
	row->age_ns = now_ns - min(row->since_ns, now_ns);
}

/* The row of a lease, if there is one. */
static void add_lease(const struct walk *walk, enum lease_kind kind, struct kvmm_lease_info *row)
{
	struct lease lease = lease_look(walk->pool, kind, row->index, row->gen);

	if (lease.owner) {
		row->owner = lease.owner;
		row->since_ns = lease.since_ns;
		row->deadline_ns = lease.deadline_ns;
		row->flags = lease.flags;
	}
	set_age(row, walk->want.now_ns);
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
	for (; at < to && walk->nr < walk->max; at++) {
		const struct slot *slot = slot_at(pool, at);

		if (!slot->nr_ext)
			continue;
		walk->rows[walk->nr] = (struct kvmm_lease_info){
			.since_ns = ns_of_tick(slot->tick), .bytes = slot->nr * pool->block_bytes,
			.kind = KVMM_LEASED_RANGE, .index = at, .gen = slot->gen,
			.nr = slot->nr, .refs = slot->refs, .pins = slot->pins,
		};
		add_lease(walk, LEASE_RANGE, &walk->rows[walk->nr++]);
	}
	arenas_unlock(pool);
	pool_leave(pool);
	walk->cursor = at < nr ? make_cursor(OF_RANGES, at) : make_cursor(OF_BLOCKS, 0);
	return 0;
}

static int walk_blocks(struct walk *walk)
{
	struct kvmm_pool *pool = walk->pool;
	u32 at = (u32)walk->cursor, to;
	int err;

	if (!pool->caches || at >= pool->nr_blocks) {
		walk->cursor = make_cursor(OF_HOLDS, 0);
		return 0;
	}
	err = cache_begin(pool);
	if (err)
		return err;
	to = min(pool->nr_blocks, at + WALK_ENTRIES);
	for (; at < to && walk->nr < walk->max; at++) {
		const struct kv_entry *entry = entry_at(pool, at);
		u64 word = READ_ONCE(entry->word);
		bool is_staged = kv_word_is(word, KV_ENTRY_STAGED);

		/* A marked one has no owner any more: a thread is about to free it. */
		if ((!is_staged && !kv_word_is(word, KV_ENTRY_PRIVATE)) || word & KV_ENTRY_MARK)
			continue;
		walk->rows[walk->nr] = (struct kvmm_lease_info){
			/* To a tick, and nothing looks older than it is. */
			.since_ns = min(ns_of_tick(READ_ONCE(entry->vtime)) + BIT64(TICK_SHIFT),
					walk->want.now_ns),
			.bytes = pool->block_bytes,
			.kind = is_staged ? KVMM_LEASED_STAGED : KVMM_LEASED_PRIVATE,
			.index = at, .gen = kv_word_gen(word), .nr = 1, .refs = kv_word_refs(word),
		};
		add_lease(walk, LEASE_BLOCK, &walk->rows[walk->nr++]);
	}
	cache_end(pool);
	walk->cursor = make_cursor(OF_BLOCKS, at);
	return 0;
}

static void tell(const struct kvmm_pool *pool, const struct lease *lease, u64 now_ns,
		 struct kvmm_lease_info *row)
{
	const struct hold *hold = lease->hold;

	*row = (struct kvmm_lease_info){
		.owner = lease->owner, .since_ns = lease->since_ns,
		.deadline_ns = lease->deadline_ns, .bytes = hold->nr * pool->block_bytes,
		.kind = hold->flags & KVMM_LEASE_PIN ? KVMM_LEASED_PINS : KVMM_LEASED_REFS,
		.index = hold->index, .gen = lease->gen, .nr = hold->nr,
		.flags = hold->flags, .reason = hold->reason, .range = hold->range,
	};
	set_age(row, now_ns);
	memcpy(row->text, hold->text, sizeof(row->text));
}

static int walk_holds(struct walk *walk)
{
	struct lease_table *table = leases_of(walk->pool);
	u32 at = (u32)walk->cursor, nr, to;

	if (!table)
		return -ENOENT;
	kv_lock(&table->lock);
	nr = nr_hold_slots(table);
	to = nr - min(at, nr) > WALK_HOLDS ? at + WALK_HOLDS : nr;
	for (; at < to && walk->nr < walk->max; at++) {
		const struct lease *lease = lease_at(table, lease_id(LEASE_HOLD, at));

		if (lease->hold)
			tell(walk->pool, lease, walk->want.now_ns, &walk->rows[walk->nr++]);
	}
	kv_unlock(&table->lock);
	walk->cursor = at < nr ? make_cursor(OF_HOLDS, at) : make_cursor(OF_NOTHING, 0);
	return 0;
}

static int walk_key(struct walk *walk)
{
	u64 domain = kv_domain_word(walk->want.domain), seen = 0;
	struct lease_table *table = leases_of(walk->pool);

	if (!table)
		return -ENOENT;
	kv_lock(&table->lock);
	for (const struct held *at = hold_chain(table, walk->want.key); at; at = at->next) {
		if (at->hold->domain != domain || !kv_key_equal(&at->key, walk->want.key) ||
		    seen++ < walk->cursor || walk->nr == walk->max)
			continue;
		tell(walk->pool, lease_at(table, lease_id(LEASE_HOLD, at->hold->index)),
		     walk->want.now_ns, &walk->rows[walk->nr++]);
	}
	kv_unlock(&table->lock);
	walk->cursor += walk->nr;
	return walk->nr ? 0 : -ENOENT;
}

/* Until there is at least one row: 0; -ENOENT that was all. */
static int walk_on(struct walk *walk)
{
	static const struct {
		int (*walk)(struct walk *walk);
		u32 kinds;
	} stages[] = {
		[OF_RANGES] = { walk_ranges, BIT(KVMM_LEASED_RANGE) },
		[OF_BLOCKS] = { walk_blocks, BIT(KVMM_LEASED_PRIVATE) | BIT(KVMM_LEASED_STAGED) },
		[OF_HOLDS] = { walk_holds, BIT(KVMM_LEASED_REFS) | BIT(KVMM_LEASED_PINS) },
	};
	int err = 0;

	walk->nr = 0;
	if (walk->want.key)
		return walk_key(walk);
	while (!walk->nr && !err) {
		u64 stage = walk->cursor >> 32;

		if (stage >= OF_NOTHING)
			return stage == OF_NOTHING ? -ENOENT : -EINVAL;
		if (walk->want.kinds & stages[stage].kinds)
			err = stages[stage].walk(walk);
		else
			walk->cursor = make_cursor(stage + 1, 0);
	}
	return err;
}

/* ---- suspicious leases ---- */

static u32 suspect(struct walk *walk, const struct kvmm_lease_info *row)
{
	const struct kvmm_lease_filter *want = &walk->want;
	struct lease_table *table = leases_of(walk->pool);
	u32 why = 0, id;

	/* What has an owner has a table, which may have come while the walk went on. */
	KV_BUG_ON(row->owner && !table);
	if (want->leaks & KVMM_LEAK_DEAD && row->owner &&
	    lease_owner_is_dead(table, row->owner, walk->round))
		why |= KVMM_LEAK_DEAD;
	if (row->deadline_ns)
		return row->deadline_ns <= want->now_ns ? why | KVMM_LEAK_EXPIRED : why;
	if (want->older_ns && row->age_ns >= want->older_ns)
		why |= KVMM_LEAK_OLD;
	if (!want->lone_ns || !row->owner || row->age_ns < want->lone_ns)
		return why;
	kv_lock(&table->lock);
	id = lease_next(walk->pool, table, row->owner, KV_NONE);
	if (id != KV_NONE && lease_next(walk->pool, table, row->owner, id) == KV_NONE)
		why |= KVMM_LEAK_LONE;
	kv_unlock(&table->lock);
	return why;
}

static bool is_wanted(struct walk *walk, struct kvmm_lease_info *row)
{
	const struct kvmm_lease_filter *want = &walk->want;

	if ((want->owner && row->owner != want->owner) || !(want->kinds & BIT(row->kind)))
		return false;
	row->leak = want->leaks ? suspect(walk, row) & want->leaks : 0;
	return row->leak || !want->leaks;
}

static int walk_init(struct walk *walk, struct kvmm_pool *pool,
		     const struct kvmm_lease_filter *filter, u64 cursor)
{
	static const struct kvmm_lease_filter all = KVMM_LEASE_FILTER_INIT;
	static u64 rounds;	/* kv_fetch_add() */
	struct kvmm_lease_filter *want = &walk->want;
	int err = kv_copy_attr(want, sizeof(*want), filter ? filter : &all);

	if (!err && (want->kinds >= BIT(KVMM_NR_LEASE_KINDS) || want->leaks > KVMM_LEAK_ANY))
		err = -EINVAL;
	if (!err)
		err = pool_refusal(pool);
	if (err)
		return err;
	if (!want->kinds)
		want->kinds = BIT(KVMM_NR_LEASE_KINDS) - 1;
	if (!want->now_ns)
		want->now_ns = pool_clock_ns(pool);
	walk->pool = pool;
	walk->cursor = cursor;
	walk->round = kv_fetch_add(&rounds, 1) + 1;
	return 0;
}

int kvmm_lease_list_sized(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
			  uint64_t *cursor, struct kvmm_lease_info *rows, uint32_t max, size_t size)
{
	struct walk walk;
	u32 nr = 0;
	int err;

	if (!pool || !cursor || !max || max > INT_MAX || kv_size_is_bad(rows, size))
		return -EINVAL;
	err = walk_init(&walk, pool, filter, *cursor);
	while (!err && nr < max) {
		walk.max = min(max - nr, WALK_ROWS);
		err = walk_on(&walk);
		for (u32 i = 0; !err && i < walk.nr; i++)
			if (is_wanted(&walk, &walk.rows[i]))
				kv_give((u8 *)rows + nr++ * size, size, &walk.rows[i],
					sizeof(walk.rows[i]));
	}
	if (err && err != -ENOENT)
		return err;
	*cursor = walk.cursor;
	return nr;
}

int kvmm_lease_get_info_sized(struct kvmm_pool *pool, kvmm_lease_t handle,
			      struct kvmm_lease_info *info, size_t size)
{
	u64 now_ns = pool ? pool_clock_ns(pool) : 0;
	struct kvmm_lease_info now;
	struct lease_table *table;
	struct lease *lease;
	int err;

	if (kv_size_is_bad(info, size))
		return -EINVAL;
	err = hold_enter(pool, handle, &table, &lease);
	if (err)
		return err;
	tell(pool, lease, now_ns, &now);
	kv_unlock(&table->lock);
	kv_give(info, size, &now, sizeof(now));
	return 0;
}
