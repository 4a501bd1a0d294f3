// SPDX-License-Identifier: Apache-2.0
/*
 * The table of leases: the leases themselves, chains by owner, holds and their chains by key, and
 * the check of all of it.
 *
 * Memory for leases beside slots and entries comes in pieces of LEASE_CHUNK where there are
 * owners, is taken before the lock, and stays: a slot or an entry comes back sooner or later.
 * Leases of holds come in chunks that double and stay as well; a call that needs one takes memory
 * before the lock, and gives it back if another call was faster.
 *
 * There are a quarter as many chains by key as the pool has blocks, so a chain is about as long
 * as there are holds on one block.
 */
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "arena.h"
#include "determ.h"
#include "lease.h"

#define MIN_BUCKETS		16u
#define MAX_BUCKETS		BIT(16)
#define BLOCKS_PER_BUCKET	8u
#define MAX_KEYS		BIT(18)
#define BLOCKS_PER_KEY		4u
#define HOLD_LOOK		64u	/* blocks of a chain, where the rest may be anything */

static u64 next_table = 1;	/* kv_fetch_add(); low bits of ids */

static u64 mix(u64 sum, u64 word)
{
	return kv_mul_fold(sum ^ word, 0xa0761d6478bd642full) + word;
}

/* ---- the table ---- */

static u64 fixed_sum(const struct lease_table *table)
{
	u64 sum = mix(mix(table->id, table->secret), (u64)table->gen_base << 32 | table->nr_keys);

	return mix(sum, (u64)table->nr_chunks << 32 | table->nr_buckets);
}

int leases_enter(struct kvmm_pool *pool, struct lease_table **table)
{
	if (unlikely(!pool))
		return -EINVAL;
	*table = leases_of(pool);
	return pool_refusal(pool);
}

static u32 chunks_for(const struct kvmm_pool *pool)
{
	/* As many slots in use as blocks; they come CHUNK_SLOTS at a time, and some retire. */
	return (pool->nr_blocks + 2 * CHUNK_SLOTS + MAX_STOCK) / LEASE_CHUNK + 1;
}

static u32 nr_chains(const struct kvmm_pool *pool, u32 blocks_each, u32 most)
{
	return min(BIT(kv_order(max(pool->nr_blocks / blocks_each, MIN_BUCKETS))), most);
}

/* Without the leases and holds. */
static u64 bare_bytes(const struct lease_table *table)
{
	return sizeof(*table) + NR_LEASES_BESIDE * table->nr_chunks * sizeof(table->chunk[0]) +
	       table->nr_keys * sizeof(table->by_key[0]) +
	       table->nr_buckets * sizeof(table->bucket[0]);
}

static struct lease_table *new_table(struct kvmm_pool *pool)
{
	struct lease_table *table, want = {
		.id = kv_random() << 32 | (u32)kv_fetch_add(&next_table, 1),
		.secret = kv_random(),
		.gen_base = (u32)pool_random(pool) | 1,
		.nr_buckets = nr_chains(pool, BLOCKS_PER_BUCKET, MAX_BUCKETS),
		.nr_keys = nr_chains(pool, BLOCKS_PER_KEY, MAX_KEYS),
		.nr_chunks = chunks_for(pool),
		.free = KV_NONE,
	};

	want.bytes = bare_bytes(&want);
	want.fixed_sum = fixed_sum(&want);
	table = kv_alloc_lines(1, want.bytes);
	if (!table)
		return NULL;
	*table = want;
	memset(table->chunk, 0, NR_LEASES_BESIDE * want.nr_chunks * sizeof(table->chunk[0]));
	table->by_key = (struct held **)&table->chunk[NR_LEASES_BESIDE * table->nr_chunks];
	table->bucket = (u32 *)&table->by_key[table->nr_keys];
	memset(table->bucket, 0xff, table->nr_buckets * sizeof(table->bucket[0]));
	kv_lock_init(&table->lock, KV_RANK_LEAF, 0);
	return table;
}

int leases_get(struct kvmm_pool *pool, struct lease_table **result)
{
	struct lease_table *table, *old = NULL;
	int err = leases_enter(pool, result);

	if (err || *result)
		return err;
	table = new_table(pool);
	if (!table)
		return -ENOMEM;
	/*
	 * Pairs with leases_of(). Two threads may both be first: the slower one's table goes.
	 */
	if (!kv_cas(&pool->leases, &old, table)) {
		kv_free(table);
		table = old;
	}
	*result = table;
	return 0;
}

static void free_watches(struct lease_table *table)
{
	for (u32 i = 0; i < LEASE_WATCH_BUCKETS; i++) {
		struct lease_watch *next;

		for (struct lease_watch *at = table->watch[i]; at; at = next) {
			next = at->next;
			kv_free(at);
		}
	}
}

static void leases_exit(struct kvmm_pool *pool)
{
	struct lease_table *table = pool->leases;

	if (!table)
		return;
	free_watches(table);
	for (u32 i = 0; i < nr_hold_slots(table); i++)
		kv_free(lease_at(table, lease_id(LEASE_HOLD, i))->hold);
	for (u32 i = 0; i < table->nr_hold_chunks; i++)
		kv_free(table->holds[i]);
	for (u32 i = 0; i < NR_LEASES_BESIDE * table->nr_chunks; i++)
		kv_free(table->chunk[i]);
	kv_free(table);
	pool->leases = NULL;
}

static u64 leases_bytes(struct kvmm_pool *pool)
{
	struct lease_table *table = leases_of(pool);

	return table ? READ_ONCE(table->bytes) : 0;
}

int lease_reserve(struct lease_table *table, u32 id)
{
	u32 at = lease_id_index(id) >> LEASE_CHUNK_ORDER;
	struct lease **place, *fresh;

	KV_BUG_ON(lease_id_kind(id) >= NR_LEASES_BESIDE);
	if (at >= table->nr_chunks)
		return -ENOMEM;
	place = &table->chunk[lease_id_kind(id) * table->nr_chunks + at];
	if (smp_load_acquire(place))
		return 0;
	fresh = kv_alloc_array(LEASE_CHUNK, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	kv_lock(&table->lock);
	if (!*place) {
		/* Pairs with lease_at(). The check, under the lock, sees both or neither. */
		smp_store_release(place, fresh);
		kv_fetch_add(&table->bytes, LEASE_CHUNK * sizeof(*fresh));
		fresh = NULL;
	}
	kv_unlock(&table->lock);
	kv_free(fresh);
	return 0;
}

/* ---- leases ---- */

/* All that a lease says: any flipped bit changes it. */
static u64 lease_sum(const struct lease *lease, u32 id)
{
	u64 sum = mix(mix(lease->owner, lease->since_ns), lease->deadline_ns);

	if (!lease->gen)
		return 0;
	sum = mix(mix(sum, (u64)lease->gen << 32 | lease->flags), id);
	if (lease_id_kind(id) == LEASE_HOLD)
		return mix(sum, lease->hold ? lease->hold->sum : 0);
	return mix(sum, lease->kept);
}

static u32 *bucket_of(const struct lease_table *table, u64 owner, enum lease_kind kind)
{
	u64 salt = table->secret + (kind == LEASE_BLOCK);
	u64 hash = kv_mul_fold(owner ^ salt, 0xe7037ed1a0b428dbull);

	return &table->bucket[hash & (table->nr_buckets - 1)];
}

static void link_lease(struct lease_table *table, u32 id)
{
	struct lease *lease = lease_at(table, id);
	u32 *head = bucket_of(table, lease->owner, lease_id_kind(id));

	kv_assert_held(&table->lock);
	lease->next = *head;
	lease->prev = LEASE_FIRST;
	if (lease->next != KV_NONE)
		lease_at(table, lease->next)->prev = id;
	*head = id;
	table->nr++;
}

static void unlink_lease(struct lease_table *table, u32 id)
{
	const struct lease *lease = lease_at(table, id);

	kv_assert_held(&table->lock);
	table->nr--;
	if (lease->prev == LEASE_FIRST)
		*bucket_of(table, lease->owner, lease_id_kind(id)) = lease->next;
	else
		lease_at(table, lease->prev)->next = lease->next;
	if (lease->next != KV_NONE)
		lease_at(table, lease->next)->prev = lease->prev;
}

void lease_replace(struct lease_table *table, u32 id, struct lease lease)
{
	struct lease *at = lease_at(table, id);
	bool moves = at->owner != lease.owner;

	kv_assert_held(&table->lock);
	if (lease_id_kind(id) != LEASE_HOLD && !lease.owner && !lease.kept)
		lease = (struct lease){ 0 };
	table->sum -= lease_sum(at, id);
	if (moves && at->owner)
		unlink_lease(table, id);
	lease.next = moves ? 0 : at->next;
	lease.prev = moves ? 0 : at->prev;
	*at = lease;
	if (moves && at->owner)
		link_lease(table, id);
	table->sum += lease_sum(at, id);
}

void lease_write(struct lease_table *table, u32 id, struct lease lease)
{
	const struct lease *at = lease_at(table, id);

	lease.kept = at->gen == lease.gen ? at->kept : 0;
	lease_replace(table, id, lease);
}

void lease_clear(struct lease_table *table, u32 id)
{
	lease_write(table, id, (struct lease){ .gen = lease_at(table, id)->gen });
}

void lease_set_deadline(struct lease_table *table, u32 id, u64 deadline_ns)
{
	struct lease lease = *lease_at(table, id);

	lease.deadline_ns = deadline_ns;
	lease_replace(table, id, lease);
}

static bool range_is_live(const struct kvmm_pool *pool, u32 index, u32 gen)
{
	const struct slot_dir *dir;
	const struct slot *slot;
	bool is_live = false;

	kv_rcu_read_lock();
	/* Pairs with publish_dir(): the chunks that the directory names are filled. */
	dir = kv_rcu_dereference(pool->slots);
	if (dir && index < dir_nr_slots(dir)) {
		slot = dir_slot(dir, index);
		is_live = READ_ONCE(slot->gen) == gen && READ_ONCE(slot->nr_ext);
	}
	kv_rcu_read_unlock();
	return is_live;
}

static bool block_is_live(const struct kvmm_pool *pool, u32 index, u32 gen)
{
	u64 word;

	if (!pool->caches || index >= pool->nr_blocks)
		return false;
	word = READ_ONCE(entry_at(pool, index)->word);
	return kv_word_gen(word) == gen && (kv_word_is(word, KV_ENTRY_PRIVATE) ||
					    kv_word_is(word, KV_ENTRY_STAGED));
}

bool lease_is_live(const struct kvmm_pool *pool, u32 id, u32 gen)
{
	switch (lease_id_kind(id)) {
	case LEASE_RANGE:
		return range_is_live(pool, lease_id_index(id), gen);
	case LEASE_BLOCK:
		return block_is_live(pool, lease_id_index(id), gen);
	default:
		return true;	/* holds end their lease themselves */
	}
}

u32 lease_next(const struct kvmm_pool *pool, struct lease_table *table, u64 owner, u32 id)
{
	bool is_block = id != KV_NONE && lease_id_kind(id) == LEASE_BLOCK;
	u32 next = id != KV_NONE ? lease_at(table, id)->next :
				   *bucket_of(table, owner, LEASE_RANGE);

	kv_assert_held(&table->lock);
	for (;;) {
		const struct lease *lease;

		if (next == KV_NONE && !is_block) {
			is_block = true;
			next = *bucket_of(table, owner, LEASE_BLOCK);
		}
		if (next == KV_NONE)
			return KV_NONE;
		/* The two may be one bucket: each pass takes its own kinds. */
		id = next;
		lease = lease_at(table, id);
		next = lease->next;
		if (!lease_is_live(pool, id, lease->gen))
			lease_clear(table, id);
		else if (lease->owner == owner && (lease_id_kind(id) == LEASE_BLOCK) == is_block)
			return id;
	}
}

struct lease lease_look(struct kvmm_pool *pool, enum lease_kind kind, u32 index, u32 gen)
{
	struct lease_table *table = leases_of(pool);
	const struct lease *at = table ? lease_at(table, lease_id(kind, index)) : NULL;
	struct lease lease = { 0 };

	if (!at)
		return lease;
	kv_lock(&table->lock);
	if (at->gen == gen)
		lease = *at;
	kv_unlock(&table->lock);
	return lease;
}

int range_reserve(struct kvmm_pool *pool, u32 index)
{
	struct lease_table *table;
	int err = leases_get(pool, &table);

	return err ? err : lease_reserve(table, lease_id(LEASE_RANGE, index));
}

/* The lease of another generation goes, and nothing is taken from it any more. */
static void add_kept(struct lease_table *table, kvmm_range_t range, u64 by, bool is_more)
{
	u32 id = lease_id(LEASE_RANGE, range.index);
	struct lease lease = *lease_at(table, id);

	if (lease.gen != range.gen) {
		if (!is_more)
			return;
		lease = (struct lease){ .gen = range.gen };
	}
	lease.kept += by;
	lease_replace(table, id, lease);
}

void range_keep(struct kvmm_pool *pool, kvmm_range_t range, u64 by)
{
	struct lease_table *table = leases_of(pool);

	kv_assert_held(&pool->lock);
	kv_lock(&table->lock);
	add_kept(table, range, by, true);
	kv_unlock(&table->lock);
}

/* The range is live and pool->lock held, so its lease stays as it is read. */
void __own_put_range(struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	struct lease_table *table = leases_of(pool);
	u32 id = lease_id(LEASE_RANGE, index);
	const struct lease *lease = lease_at(table, id);

	kv_assert_held(&pool->lock);
	if (!lease || kv_peek(&lease->gen) != slot->gen || !kv_peek(&lease->owner))
		return;
	if (slot->refs > (kv_peek(&lease->kept) & KEPT_HOLDS))
		return;
	kv_lock(&table->lock);
	lease_clear(table, id);
	kv_unlock(&table->lock);
}

/* ---- places for holds ---- */

static struct lease *hold_lease(const struct lease_table *table, u32 index)
{
	return lease_at(table, lease_id(LEASE_HOLD, index));
}

static void push_free(struct lease_table *table, u32 index)
{
	kv_assert_held(&table->lock);
	hold_lease(table, index)->next = table->free;
	table->free = index;
	table->nr_free++;
}

static void add_chunk(struct lease_table *table, struct lease *chunk)
{
	u32 first = nr_hold_slots(table), nr = HOLD_CHUNK << table->nr_hold_chunks;

	kv_assert_held(&table->lock);
	table->holds[table->nr_hold_chunks++] = chunk;
	kv_fetch_add(&table->bytes, nr * sizeof(*chunk));
	for (u32 i = first + nr; i-- > first;) {
		chunk[i - first].gen = table->gen_base;
		table->sum += lease_sum(&chunk[i - first], lease_id(LEASE_HOLD, i));
		push_free(table, i);
	}
}

static bool pop_free(struct lease_table *table, kvmm_hold_t *handle)
{
	const struct lease *lease;

	kv_assert_held(&table->lock);
	if (table->free == KV_NONE)
		return false;
	lease = hold_lease(table, table->free);
	*handle = (kvmm_hold_t){ table->free, lease->gen };
	table->free = lease->next;
	table->nr_free--;
	table->nr_reserved++;
	return true;
}

int hold_reserve(struct lease_table *table, kvmm_hold_t *handle)
{
	struct lease *chunk = NULL;
	u32 nr_chunks = 0;
	bool got;

	for (;;) {
		kv_lock(&table->lock);
		if (chunk && table->free == KV_NONE && table->nr_hold_chunks == nr_chunks) {
			add_chunk(table, chunk);
			chunk = NULL;
		}
		got = pop_free(table, handle);
		nr_chunks = table->nr_hold_chunks;
		kv_unlock(&table->lock);
		kv_free(chunk);
		if (got)
			return 0;
		chunk = nr_chunks == MAX_HOLD_CHUNKS ? NULL :
			kv_alloc_array(HOLD_CHUNK << nr_chunks, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
	}
}

void hold_unreserve(struct lease_table *table, kvmm_hold_t handle)
{
	kv_lock(&table->lock);
	table->nr_reserved--;
	push_free(table, handle.index);
	kv_unlock(&table->lock);
}

/* ---- blocks of holds, by key ---- */

struct held *hold_chain(const struct lease_table *table, const kvmm_key_t *key)
{
	kv_assert_held(&table->lock);
	return table->by_key[kv_hash_key(key, table->secret) & (table->nr_keys - 1)];
}

static void chain_add(struct lease_table *table, struct held *held)
{
	u64 hash = kv_hash_key(&held->key, table->secret);
	struct held **head = &table->by_key[hash & (table->nr_keys - 1)];

	kv_assert_held(&table->lock);
	held->next = *head;
	held->prev = head;
	if (held->next)
		held->next->prev = &held->next;
	*head = held;
}

static void chain_del(struct held *held)
{
	*held->prev = held->next;
	if (held->next)
		held->next->prev = held->prev;
}

/* How often holds have the block of @held, among the first HOLD_LOOK of its chain. */
static u32 nr_taken(const struct lease_table *table, const struct held *held)
{
	const struct held *at = hold_chain(table, &held->key);
	kvmm_ref_t ref = held_ref(held), own;
	u32 nr = 0;

	for (u32 left = HOLD_LOOK; at && left; left--, at = at->next) {
		own = held_ref(at);
		nr += own.index == ref.index && own.gen == ref.gen;
	}
	return nr;
}

bool hold_has_refs(struct kvmm_pool *pool, struct lease_table *table, struct hold *hold)
{
	bool has = true;

	kv_lock(&table->lock);
	for (u32 i = 0; i < hold->nr; i++)
		chain_add(table, &hold->block[i]);
	for (u32 i = 0; i < hold->nr && has; i++)
		has = nr_taken(table, &hold->block[i]) <=
		      kv_word_refs(READ_ONCE(entry_at(pool, hold->ref[i].index)->word));
	for (u32 i = 0; i < hold->nr; i++)
		chain_del(&hold->block[i]);
	kv_unlock(&table->lock);
	return has;
}

/* ---- holds ---- */

static u64 hold_bytes(const struct hold *hold)
{
	return sizeof(*hold) + hold->nr * (sizeof(hold->block[0]) + sizeof(hold->ref[0]));
}

/* All that a hold says: any flipped bit changes it. */
static u64 hold_sum(const struct hold *hold)
{
	u64 sum = mix((u64)hold->nr << 32 | hold->index, (u64)hold->reason << 32 | hold->flags);
	u64 word[2];

	sum = mix(sum, (u64)hold->range.gen << 32 | hold->range.index);
	sum = mix(sum, hold->domain);
	for (u32 i = 0; i < sizeof(hold->text); i += sizeof(word[0])) {
		memcpy(word, hold->text + i, sizeof(word[0]));
		sum = mix(sum, word[0]);
	}
	for (u32 i = 0; i < hold->nr; i++) {
		memcpy(word, &hold->block[i].key, sizeof(word));
		sum = mix(mix(sum, word[0]), word[1]);
		sum = mix(sum, (u64)hold->ref[i].gen << 32 | hold->ref[i].index);
		sum = mix(sum, hold->block[i].block);
	}
	return sum;
}

static void count_hold(struct lease_table *table, const struct hold *hold, int sign)
{
	kv_assert_held(&table->lock);
	table->nr_holds += sign;
	table->nr_blocks += sign * (s64)hold->nr;
	kv_fetch_add(&table->bytes, sign * (s64)hold_bytes(hold));
	if (hold_is_of_range(hold))
		add_kept(table, hold->range, sign, sign > 0);
}

void hold_insert(struct lease_table *table, struct hold *hold, struct lease lease)
{
	KV_BUG_ON(!lease.gen || !hold->nr != hold_is_of_range(hold));
	hold->sum = hold_sum(hold);
	lease.hold = hold;
	kv_lock(&table->lock);
	table->nr_reserved--;
	lease_replace(table, lease_id(LEASE_HOLD, hold->index), lease);
	for (u32 i = 0; i < hold->nr; i++)
		chain_add(table, &hold->block[i]);
	count_hold(table, hold, 1);
	kv_unlock(&table->lock);
}

/* A lease that comes to the generation before the first one is not used again. */
void hold_remove(struct lease_table *table, struct hold *hold)
{
	u32 gen = next_gen(hold_lease(table, hold->index)->gen);

	kv_assert_held(&table->lock);
	for (u32 i = 0; i < hold->nr; i++)
		chain_del(&hold->block[i]);
	count_hold(table, hold, -1);
	lease_replace(table, lease_id(LEASE_HOLD, hold->index), (struct lease){ .gen = gen });
	if (next_gen(gen) == table->gen_base)
		table->nr_retired++;
	else
		push_free(table, hold->index);
}

static int refuse(const struct lease_table *table, u32 now, u32 gen)
{
	kv_count(KV_EV_BAD_HANDLE);
	return gen && gen - table->gen_base < now - table->gen_base ? -ESTALE : -EINVAL;
}

/*
 * The generation of a lease without a hold is the next one's, so a caller that names it made it
 * up.
 */
static int find_hold(const struct lease_table *table, kvmm_hold_t handle, struct lease **lease)
{
	kv_assert_held(&table->lock);
	if (unlikely(handle.index >= nr_hold_slots(table)))
		return refuse(table, table->gen_base, handle.gen);
	*lease = hold_lease(table, handle.index);
	if (likely((*lease)->gen == handle.gen && (*lease)->hold))
		return 0;
	return refuse(table, (*lease)->gen, handle.gen);
}

int hold_enter(struct kvmm_pool *pool, kvmm_hold_t handle, struct lease_table **table,
	       struct lease **lease)
{
	int err = leases_enter(pool, table);

	if (err || !*table)
		return err ? err : -EINVAL;
	kv_lock(&(*table)->lock);
	err = find_hold(*table, handle, lease);
	if (err)
		kv_unlock(&(*table)->lock);
	return err;
}

/* ---- the check ---- */

struct lease_recount {
	u32 nr;			/* with an owner */
	u32 nr_holds;
	u64 nr_blocks;		/* of holds */
	u64 on_ranges;		/* range_word() by hold, of generations that there is a lease of */
	u64 noted;		/* the same, as these leases count holds */
	u64 sum;
	u64 bytes;
};

/* Sums of these are equal only if each range has as many holds as its lease says. */
static u64 range_word(const struct lease_table *table, u32 index, u32 gen)
{
	return mix(table->secret, (u64)gen << 32 | index);
}

static int complain(const struct kvmm_pool *pool, const char *what, u32 index)
{
	kv_log(KV_LOG_ERR, "kvmm: pool %s: %s (%u)", pool->name, what, index);
	return -EUCLEAN;
}

static bool is_in_chain(const struct lease_table *table, const struct held *held)
{
	const struct held *at = hold_chain(table, &held->key);

	for (u64 left = table->nr_blocks; at && left; left--, at = at->next)
		if (at == held)
			return *at->prev == at;
	return false;
}

/*
 * A put, or an unpin, too many may have taken a reference or pin of a hold: its caller learns that
 * at release, and it contradicts nothing here.
 */
static int check_things(const struct kvmm_pool *pool, const struct hold *hold)
{
	if (hold_is_of_range(hold) &&
	    (!pool->slots || hold->range.index >= dir_nr_slots(pool->slots)))
		return complain(pool, "a hold has no range", hold->range.index);
	for (u32 i = 0; i < hold->nr; i++)
		if (hold->ref[i].index >= pool->nr_blocks)
			return complain(pool, "a hold has no block", hold->ref[i].index);
	return 0;
}

static int check_hold(const struct kvmm_pool *pool, struct lease_table *table, u32 index,
		      struct lease_recount *re)
{
	const struct hold *hold = hold_lease(table, index)->hold;
	const struct lease *beside = NULL;

	if (hold->index != index)
		return complain(pool, "a hold has the lease of another one", index);
	if (hold->nr > table->nr_blocks || !hold->nr != hold_is_of_range(hold) ||
	    hold->ref != (const void *)&hold->block[hold->nr])
		return complain(pool, "a hold has another length", index);
	if (hold->sum != hold_sum(hold))
		return complain(pool, "a hold says something else", index);
	for (u32 i = 0; i < hold->nr; i++)
		if (hold->block[i].hold != hold || !is_in_chain(table, &hold->block[i]))
			return complain(pool, "a held block is not in its chain", index);
	if (hold_is_of_range(hold))
		beside = lease_at(table, lease_id(LEASE_RANGE, hold->range.index));
	if (beside && beside->gen == hold->range.gen)
		re->on_ranges += range_word(table, hold->range.index, hold->range.gen);
	re->nr_holds++;
	re->nr_blocks += hold->nr;
	re->bytes += hold_bytes(hold);
	return check_things(pool, hold);
}

static int check_free(const struct kvmm_pool *pool, const struct lease_table *table)
{
	u32 nr = 0;

	for (u32 at = table->free; at != KV_NONE; at = hold_lease(table, at)->next, nr++)
		if (at >= nr_hold_slots(table) || hold_lease(table, at)->hold ||
		    nr == table->nr_free)
			return complain(pool, "bad list of free holds", at);
	return nr == table->nr_free ? 0 : complain(pool, "wrong count of free holds", nr);
}

/* Each block is in its chain; if there are as many in the chains, nothing else is. */
static u64 nr_in_chains(const struct lease_table *table)
{
	u64 nr = 0;

	for (u32 i = 0; i < table->nr_keys; i++)
		for (const struct held *at = table->by_key[i]; at; at = at->next)
			if (nr++ > table->nr_blocks)
				return nr;
	return nr;
}

static int check_bucket(const struct kvmm_pool *pool, const struct lease_table *table, u32 *head,
			u32 *nr)
{
	u32 prev = LEASE_FIRST, id;

	for (id = *head; id != KV_NONE; prev = id, id = lease_at(table, id)->next) {
		const struct lease *lease = lease_id_kind(id) <= LEASE_HOLD ?
					    lease_at(table, id) : NULL;

		if (!lease || !lease->owner || lease->prev != prev || ++*nr > table->nr ||
		    bucket_of(table, lease->owner, lease_id_kind(id)) != head)
			return complain(pool, "chain of an owner goes astray", id);
	}
	return 0;
}

/* Leases @first to @first + @nr, of one chunk. */
static int check_chunk(const struct kvmm_pool *pool, struct lease_table *table, u32 first, u32 nr,
		       struct lease_recount *re)
{
	static const struct lease none;
	bool is_of_holds = lease_id_kind(first) == LEASE_HOLD;
	int err = 0;

	re->bytes += nr * sizeof(none);
	for (u32 id = first; id < first + nr && !err; id++) {
		const struct lease *lease = lease_at(table, id);

		re->nr += lease->owner != 0;
		re->sum += lease_sum(lease, id);
		if (is_of_holds) {
			err = lease->hold ? check_hold(pool, table, lease_id_index(id), re) : 0;
			continue;
		}
		re->noted += (lease->kept & KEPT_HOLDS) *
			     range_word(table, lease_id_index(id), lease->gen);
		if (!lease->owner && !lease->kept && memcmp(lease, &none, sizeof(none)))
			err = complain(pool, "lease of no owner", id);
		if (lease->kept > KEPT_HOLDS &&
		    (lease_id_kind(id) != LEASE_RANGE || !pool->pin_types ||
		     !lease_is_live(pool, id, lease->gen)))
			err = complain(pool, "pins that no range has", id);
	}
	return err;
}

static int check_counts(const struct kvmm_pool *pool, const struct lease_table *table,
			const struct lease_recount *re)
{
	if (re->nr != table->nr || re->sum != table->sum || re->on_ranges != re->noted)
		return complain(pool, "wrong count or sum of leases", re->nr);
	if (re->nr_holds != table->nr_holds || re->nr_blocks != table->nr_blocks ||
	    re->nr_blocks != nr_in_chains(table))
		return complain(pool, "wrong count of holds", re->nr_holds);
	if (re->nr_holds + table->nr_free + table->nr_reserved + table->nr_retired !=
	    nr_hold_slots(table))
		return complain(pool, "the lease of a hold is lost", table->nr_free);
	return re->bytes == table->bytes ? 0 :
	       complain(pool, "wrong memory of leases", re->nr);
}

static bool chunks_are_there(const struct kvmm_pool *pool, const struct lease_table *table)
{
	if (table->fixed_sum != fixed_sum(table) || table->nr_chunks != chunks_for(pool) ||
	    table->nr_hold_chunks > MAX_HOLD_CHUNKS)
		return false;
	for (u32 i = 0; i < MAX_HOLD_CHUNKS; i++)
		if (!table->holds[i] != (i >= table->nr_hold_chunks))
			return false;
	return true;
}

static int check_table(const struct kvmm_pool *pool, struct lease_table *table)
{
	struct lease_recount re = {
		.bytes = bare_bytes(table) + table->nr_watches * sizeof(struct lease_watch),
	};
	u32 nr_linked = 0;
	int err = 0;

	kv_assert_held(&table->lock);
	for (u32 i = 0; i < NR_LEASES_BESIDE * table->nr_chunks && !err; i++) {
		u32 id = lease_id(i / table->nr_chunks, i % table->nr_chunks * LEASE_CHUNK);

		err = table->chunk[i] ? check_chunk(pool, table, id, LEASE_CHUNK, &re) : 0;
	}
	if (!err)
		err = check_chunk(pool, table, lease_id(LEASE_HOLD, 0), nr_hold_slots(table), &re);
	if (!err)
		err = check_free(pool, table);
	for (u32 i = 0; i < table->nr_buckets && !err; i++)
		err = check_bucket(pool, table, &table->bucket[i], &nr_linked);
	if (!err && nr_linked != table->nr)
		err = complain(pool, "a lease is not with its owner", nr_linked);
	return err ? err : check_counts(pool, table, &re);
}

static int leases_check(struct kvmm_pool *pool, const struct pool_recount *none)
{
	struct lease_table *table = leases_of(pool);
	int err;

	if (!table)
		return 0;
	kv_lock(&table->lock);
	err = chunks_are_there(pool, table) ? check_table(pool, table) :
	      complain(pool, "bad table of leases", table->nr_chunks);
	kv_unlock(&table->lock);
	return err;
}

POOL_PART(leases) = {
	.name	= "leases",
	.exit	= leases_exit,
	.bytes	= leases_bytes,
	.check	= leases_check,
};
