// SPDX-License-Identifier: Apache-2.0
/*
 * The map of blocks, without a lock.
 *
 * A block is looked at like this: its owner, the record of the owner, and its owner again. If that
 * is the same, and so is the word of the entry, or the version of the slot, all of it was true at
 * one moment between. Otherwise it is looked at again, a few times; then the last look counts,
 * since a thread that allocates without end must not keep a reader here. Either way the block is
 * told of once.
 *
 * Words of ->owner, and fields of slots, classes and records of owners, are written under locks,
 * and read here without: by kv_peek(), each of them whole, but maybe old.
 */
#include <kvmm/ext/inspect.h>
#include <pool/local.h>
#include <pool/determ.h>
#include <pool/lease.h>

#include "events/events.h"

#define LOOKS		8u	/* at a block that changes all the time */
#define SECTION		1024u	/* blocks that one read section looks at */

#define MAP_MODES	(KVMM_MAP_EACH | KVMM_MAP_COARSE)

static_assert(KVMM_MAP_AWAY == (int)KVMM_BLOCK_AWAY &&
	      KVMM_MAP_CACHED == (int)KVMM_BLOCK_INACTIVE, "one number, two names");

/* ---- whose it is ---- */

/*
 * Of a range or a block that is looked at: the reader finds out behind this whether it is the same
 * still. Then the record is its own, since the record of the next one of that index is written
 * later.
 */
static void add_owner(struct kvmm_pool *pool, enum lease_kind kind, struct kvmm_map_run *run)
{
	const struct lease_table *table = leases_of(pool);
	const struct lease *lease = table ? lease_at(table, lease_id(kind, run->index)) : NULL;

	kv_assert_reading();
	if (likely(!lease) || kv_peek(&lease->gen) != run->gen)
		return;
	/* Pairs with lease_replace(): the rest is of that generation, too, or a later one. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	run->owner = kv_peek(&lease->owner);
	if (run->owner)
		run->deadline_ns = kv_peek(&lease->deadline_ns);
}

/* ---- the record of a slot ---- */

/* Fields not marked in the slot were written before it came to life, or will be after its death. */
static bool look_at_slot(struct kvmm_pool *pool, u32 index, u64 now_ns, struct kvmm_map_run *run)
{
	const struct slot *slot = slot_peek(pool, index);
	u32 version, flags;
	bool lives;
	u64 since;

	kv_assert_reading();
	run->state = KVMM_MAP_RANGE;
	if (unlikely(!slot))
		return false;
	version = kv_seq_read_begin(&slot->version);
	lives = READ_ONCE(slot->nr_ext);
	since = ns_of_tick(kv_peek(&slot->tick));
	flags = kv_peek(&slot->flags);
	run->seq = kv_peek(&slot->seq);
	run->refs = kv_peek(&slot->refs);
	run->pins = kv_peek(&slot->pins);
	run->prio = kv_peek(&slot->prio);
	run->domain.tenant = kv_peek(&slot->tenant);
	run->age_ns = now_ns - min(since, now_ns);
	run->index = index;
	run->gen = READ_ONCE(slot->gen);
	if (run->pins || flags & KVMM_ALLOC_PINNED)
		run->flags |= KVMM_MAP_PINNED;
	if (READ_ONCE(slot->lost))
		run->flags |= KVMM_MAP_LOST;
	add_owner(pool, LEASE_RANGE, run);
	return !kv_seq_read_retry(&slot->version, version) && lives;
}

/* ---- the record of an entry ---- */

static const u8 state_of[KV_NR_ENTRY_STATES] = {
	[KV_ENTRY_FREE]	      = KVMM_MAP_ASIDE,	  [KV_ENTRY_PARKED]  = KVMM_MAP_ASIDE,
	[KV_ENTRY_PRIVATE]    = KVMM_MAP_PRIVATE, [KV_ENTRY_STAGED]  = KVMM_MAP_STAGED,
	[KV_ENTRY_REGISTERED] = KVMM_MAP_CACHED,  [KV_ENTRY_RETIRED] = KVMM_MAP_ASIDE,
	[KV_ENTRY_EVICTING]   = KVMM_MAP_CLAIMED,
};

/* By keepers of the names of parents: a stream of events, or a registry of prefixes. */
static bool parent_kept(struct kvmm_pool *pool, u32 index, kvmm_key_t *key)
{
	const struct pool_events *events = smp_load_acquire(&pool->events);

	kv_assert_reading();
	if (events) {
		const struct kv_feed_parent *parent = &events->feed.parent[index];
		u64 word[2] = { READ_ONCE(parent->key[0]), READ_ONCE(parent->key[1]) };

		memcpy(key, word, sizeof(*key));
		return READ_ONCE(parent->known);
	}
	if (!pool->presence.reg || !(kv_peek(&pool->presence.mark[index]) & PRESENCE_PARENT))
		return false;
	/* Plain memory, which does not change while the block has its name. */
	for (u32 i = 0; i < sizeof(key->byte); i++)
		key->byte[i] = kv_peek(&pool->presence.parent[index].byte[i]);
	return true;
}

/* Or the entry that was its parent's, if it is still that block's. */
static bool parent_near(const struct kvmm_pool *pool, const struct kv_entry *entry, kvmm_key_t *key)
{
	u32 link = READ_ONCE(entry->parent);
	const struct kv_entry *parent;
	u64 word;

	kv_assert_reading();
	if (link == KV_NONE || kv_link_index(link) >= pool->nr_blocks)
		return false;
	parent = entry_at(pool, kv_link_index(link));
	word = smp_load_acquire(&parent->word);
	if (!kv_word_is(word, KV_ENTRY_REGISTERED) || !kv_link_is(link, word) ||
	    READ_ONCE(parent->domain) != READ_ONCE(entry->domain) ||
	    READ_ONCE(parent->position) + 1 != READ_ONCE(entry->position))
		return false;
	*key = kv_entry_key(parent);
	return kv_is_still(&parent->word, word, (u64)KV_ENTRY_GEN_MASK << KV_ENTRY_GEN_SHIFT);
}

static void add_class(const struct kvmm_pool *pool, u32 index, struct kvmm_map_run *run)
{
	const struct classes *classes = pool->order.classes;
	u64 owner;

	kv_assert(index < pool->entries.nr);
	if (likely(!classes))
		return;
	run->cls = kv_peek(&classes->mark[index]) & CLASS_MASK;
	run->flags |= KVMM_MAP_HAS_CLASS;
	owner = kv_peek(&classes->owner[index]);
	run->owner = owner == OWNER_SHARED ? 0 : owner;
}

static bool look_at_entry(struct kvmm_pool *pool, u32 index, u64 now_ns, struct kvmm_map_run *run)
{
	const struct kv_entry *entry = entry_at(pool, index);
	u64 word = smp_load_acquire(&entry->word), since;

	kv_assert_reading();
	run->state = kv_word_is_going(word) ? KVMM_MAP_CACHED : state_of[kv_word_state(word)];
	if (run->state == KVMM_MAP_ASIDE)
		return kv_is_still(&entry->word, word, UINT64_MAX);
	run->index = index;
	run->gen = kv_word_gen(word);
	since = ns_of_tick(READ_ONCE(entry->vtime));
	run->age_ns = now_ns - min(since, now_ns);
	if (kv_word_is(word, KV_ENTRY_REGISTERED)) {
		run->refs = kv_word_refs(word);
		run->pins = kv_word_pins(word);
		if (run->refs)
			run->state = KVMM_MAP_ACTIVE;
		run->flags |= (run->pins ? KVMM_MAP_PINNED : 0) |
			      (word & KV_ENTRY_MOVING ? KVMM_MAP_IN_FLIGHT : 0) |
			      (word & KV_ENTRY_HIDDEN ? KVMM_MAP_HIDDEN : 0) |
			      (word & KV_ENTRY_DUP ? KVMM_MAP_DUP : 0);
	}
	if (kv_word_is(word, KV_ENTRY_PRIVATE))
		run->refs = kv_word_refs(word);
	if (run->state != KVMM_MAP_PRIVATE) {
		kv_assert(index < pool->entries.nr);
		run->key = kv_entry_key(entry);
		run->domain = kv_entry_domain(entry);
		run->position = READ_ONCE(entry->position);
		run->flags |= KVMM_MAP_HAS_KEY;
		if (run->position && (parent_kept(pool, index, &run->parent) ||
				      parent_near(pool, entry, &run->parent)))
			run->flags |= KVMM_MAP_HAS_PARENT;
	}
	if (kv_word_is(word, KV_ENTRY_REGISTERED))
		add_class(pool, index, run);
	else if (!kv_word_is(word, KV_ENTRY_EVICTING))
		add_owner(pool, LEASE_BLOCK, run);
	return kv_is_still(&entry->word, word, UINT64_MAX);
}

/* ---- a block ---- */

static const u8 state_of_kind[NR_OWNERS] = {
	[OWNER_FREE] = KVMM_MAP_FREE,	      [OWNER_NULL]   = KVMM_MAP_NULL,
	[OWNER_SLOT] = KVMM_MAP_RANGE,	      [OWNER_ENTRY]  = KVMM_MAP_ASIDE,
	[OWNER_RESERVED] = KVMM_MAP_RESERVED, [OWNER_MOVE]   = KVMM_MAP_MOVING,
	[OWNER_AWAY] = KVMM_MAP_AWAY,	      [OWNER_LEFT]   = KVMM_MAP_FREE,
	[OWNER_UNSEEN] = KVMM_MAP_LIMBO,      [OWNER_LEFT_AWAY] = KVMM_MAP_AWAY,
};

/* Compaction's marks on the owner do not count. */
static u32 owner_of(const struct kvmm_pool *pool, u32 block)
{
	kv_assert(block < pool->nr_blocks);
	return kv_peek(&pool->owner[block]) & ~(OWNER_IS_SRC | OWNER_IS_DST);
}

/* True: that is how it was, but for the owner, which is to be looked at again. */
static bool look_once(struct kvmm_pool *pool, u32 owner, u64 now_ns, struct kvmm_map_run *run)
{
	u32 index = owner_index(owner);

	kv_assert_reading();
	/* A closed pool is read, too: there a word may say anything. */
	if (unlikely(index >= pool->nr_blocks && owner_kind(owner) == OWNER_ENTRY))
		return false;
	switch (owner_kind(owner)) {
	case OWNER_SLOT:
		return look_at_slot(pool, index, now_ns, run);
	case OWNER_ENTRY:
		return look_at_entry(pool, index, now_ns, run);
	default:
		run->state = state_of_kind[min(owner_kind(owner), (u32)NR_OWNERS - 1)];
		return true;
	}
}

/* The owner, as last seen. */
static u32 look_at(struct kvmm_pool *pool, u32 block, u64 now_ns, struct kvmm_map_run *run)
{
	u32 owner;

	kv_assert_reading();
	for (u32 i = 0; i < LOOKS; i++) {
		bool whole;

		owner = owner_of(pool, block);

		*run = (struct kvmm_map_run){ .first = block, .nr = 1 };
		whole = look_once(pool, owner, now_ns, run);
		/* Reads above stay there: as in kv_is_still(). */
		if (likely(whole && owner_of(pool, block) == owner))
			break;
	}
	return owner;
}

/* ---- runs ---- */

/* @next is right behind @run: may it be the end of it? */
static bool joins(const struct kvmm_map_run *run, const struct kvmm_map_run *next, u32 how)
{
	const u32 flags = ~KVMM_MAP_HAS_PARENT;

	if (run->state != next->state)
		return false;
	if (how & KVMM_MAP_COARSE)
		return !((run->flags ^ next->flags) & KVMM_MAP_PINNED);
	if (how & KVMM_MAP_EACH &&
	    (run->flags & KVMM_MAP_HAS_KEY || run->state == KVMM_MAP_PRIVATE))
		return false;
	if (run->state == KVMM_MAP_RANGE)
		return run->index == next->index && run->gen == next->gen;
	return run->owner == next->owner && (run->flags & flags) == (next->flags & flags) &&
	       kv_domain_word(run->domain) == kv_domain_word(next->domain) &&
	       run->refs == next->refs && run->pins == next->pins && run->cls == next->cls;
}

struct walk {
	struct kvmm_pool	*pool;
	u64			now_ns;
	u32			how;
	u8			*runs;		/* of @size bytes each, as the caller knows them */
	size_t			size;
	struct kvmm_map_run	last;		/* of them, whole */
	u32			max;
	u32			nr;
	u32			owner;		/* of the last block */
};

static void give_last(const struct walk *walk)
{
	if (walk->nr)
		kv_give(walk->runs + (walk->nr - 1) * walk->size, walk->size, &walk->last,
			sizeof(walk->last));
}

/* False: there is no room for the run that begins here. */
static bool add_block(struct walk *walk, u32 block)
{
	struct kvmm_map_run here, *last = &walk->last;

	kv_assert_reading();
	/* More of the same range, or of blocks without an owner: nothing more to say of it. */
	if (walk->nr && owner_kind(walk->owner) != OWNER_ENTRY &&
	    owner_of(walk->pool, block) == walk->owner) {
		last->nr++;
		return true;
	}
	walk->owner = look_at(walk->pool, block, walk->now_ns, &here);
	if (walk->nr && joins(last, &here, walk->how)) {
		last->nr++;
		last->age_ns = max(last->age_ns, here.age_ns);
		return true;
	}
	if (walk->nr == walk->max)
		return false;
	give_last(walk);
	*last = here;
	walk->nr++;
	return true;
}

int kvmm_map_read_sized(struct kvmm_pool *pool, uint32_t *at, uint32_t how,
			struct kvmm_map_run *runs, uint32_t max, size_t size)
{
	struct walk walk = {
		.pool = pool, .how = how, .runs = (u8 *)runs, .size = size, .max = max,
	};
	u32 block, end, next;
	int err;

	if (!pool || !at || kv_size_is_bad(runs, size) || !max || max > INT32_MAX ||
	    how & ~MAP_MODES || how == MAP_MODES)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err == -ECHILD)
		return err;
	walk.now_ns = kv_clock_ns();
	next = min(*at, pool->nr_blocks);
	end = pool->nr_blocks - next > KVMM_MAP_PORTION ? next + KVMM_MAP_PORTION : pool->nr_blocks;
	do {	/* as much as one read section may see */
		block = next;
		kv_rcu_read_lock();
		while (next < min(end, block + SECTION) && add_block(&walk, next))
			next++;
		kv_rcu_read_unlock();
	} while (next == block + SECTION && next < end);
	give_last(&walk);
	*at = next;
	return walk.nr;
}
