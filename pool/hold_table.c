// SPDX-License-Identifier: Apache-2.0
/*
 * The table of holds: slots for their handles, chains for their keys, and the check of both.
 *
 * Chains are as many as a quarter of the pool's blocks, so a chain is about as long as there are
 * holds on one block. Slots come in chunks that stay where they are; only the list of chunks is
 * replaced when it is full. Memory is taken before the lock, and given back if somebody else was
 * faster.
 */
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "determ.h"
#include "hold.h"

#define MIN_BUCKETS		16u
#define MAX_BUCKETS		BIT(18)
#define BLOCKS_PER_BUCKET	4u
#define MIN_CHUNKS		8u

static u64 next_table = 1;	/* kv_fetch_add(); low bits of ids */

static u64 mix(u64 sum, u64 word)
{
	return kv_mul_fold(sum ^ word, 0xa0761d6478bd642full) + word;
}

/* ---- the table itself ---- */

static u64 fixed_sum(const struct hold_table *table)
{
	return mix(mix(table->id, table->secret), (u64)table->gen_base << 32 | table->nr_buckets);
}

int holds_enter(struct kvmm_pool *pool, struct hold_table **table)
{
	if (unlikely(!pool))
		return -EINVAL;
	/* Pairs with the swap in holds_get(): who sees the table sees it made. */
	*table = smp_load_acquire(pool_hold_table(pool));
	return pool_refusal(pool);
}

static struct hold_table *new_table(struct kvmm_pool *pool)
{
	u32 nr_buckets = BIT(kv_order(max(pool->nr_blocks / BLOCKS_PER_BUCKET, MIN_BUCKETS)));
	struct hold_table *table;
	size_t bytes;

	nr_buckets = min(nr_buckets, MAX_BUCKETS);
	bytes = sizeof(*table) + nr_buckets * sizeof(table->bucket[0]);
	table = kv_alloc_lines(1, bytes);
	if (!table)
		return NULL;
	table->bytes = bytes;
	table->id = kv_random() << 32 | (u32)kv_fetch_add(&next_table, 1);
	table->secret = kv_random();
	table->gen_base = (u32)pool_random(pool) | 1;
	table->nr_buckets = nr_buckets;
	table->fixed_sum = fixed_sum(table);
	table->free = KV_NONE;
	kv_lock_init(&table->lock, KV_RANK_LEAF, 0);
	return table;
}

/* Two threads may both be first: the table of the slower one goes. */
int holds_get(struct kvmm_pool *pool, struct hold_table **result)
{
	struct hold_table *table, *old = NULL;
	int err = holds_enter(pool, result);

	if (err || *result)
		return err;
	table = new_table(pool);
	if (!table)
		return -ENOMEM;
	/* Pairs with holds_enter(): the table is whole before anybody sees it. */
	if (!kv_cas(pool_hold_table(pool), &old, table)) {
		kv_free(table);
		table = old;
	}
	*result = table;
	return 0;
}

static u64 holds_bytes(struct kvmm_pool *pool)
{
	struct hold_table *table;

	return holds_enter(pool, &table) || !table ? 0 : READ_ONCE(table->bytes);
}

static void holds_exit(struct kvmm_pool *pool)
{
	struct hold_table *table = *pool_hold_table(pool);

	if (!table)
		return;
	for (u32 i = 0; i < table->nr_slots; i++)
		kv_free(hold_slot(table, i)->hold);
	for (u32 i = 0; i < table->nr_slots; i += HOLD_CHUNK)
		kv_free(table->chunk[i >> HOLD_CHUNK_ORDER]);
	kv_free(table->chunk);
	kv_free(table);
	*pool_hold_table(pool) = NULL;
}

/* Statistics read it without the lock. */
static void add_bytes(struct hold_table *table, s64 bytes)
{
	WRITE_ONCE(table->bytes, table->bytes + bytes);
}

/* ---- slots ---- */

static void push_slot(struct hold_table *table, u32 index)
{
	struct hold_slot *slot = hold_slot(table, index);

	slot->next = table->free;
	table->free = index;
	table->nr_free++;
}

/* Memory that a table may need to grow by one chunk. */
struct growth {
	struct hold_slot *chunk;	/* ours until it is used */
	struct hold_slot **list;	/* the same */
	u32 max_chunks;
};

static int growth_init(struct growth *growth, u32 max_chunks)
{
	growth->max_chunks = max(2 * max_chunks, MIN_CHUNKS);
	growth->chunk = kv_alloc_array(HOLD_CHUNK, sizeof(*growth->chunk));
	growth->list = kv_alloc_array(growth->max_chunks, sizeof(*growth->list));
	return growth->chunk && growth->list ? 0 : -ENOMEM;
}

/* What was not used, or what was there before. */
static void growth_exit(struct growth *growth)
{
	kv_free(growth->chunk);
	kv_free(growth->list);
}

/* No more chunks than the list has room for, unless @growth brings a longer one. */
static void add_chunk(struct hold_table *table, struct growth *growth)
{
	u32 nr_chunks = table->nr_slots >> HOLD_CHUNK_ORDER, first = table->nr_slots;

	if (nr_chunks == table->max_chunks) {
		struct hold_slot **old = table->chunk;

		if (nr_chunks >= growth->max_chunks)
			return;		/* others have grown it twice meanwhile */
		if (nr_chunks)
			memcpy(growth->list, old, nr_chunks * sizeof(*old));
		add_bytes(table, (growth->max_chunks - nr_chunks) * sizeof(*old));
		table->chunk = growth->list;
		table->max_chunks = growth->max_chunks;
		growth->list = old;
	}
	table->chunk[nr_chunks] = growth->chunk;
	growth->chunk = NULL;
	add_bytes(table, HOLD_CHUNK * sizeof(struct hold_slot));
	table->nr_slots += HOLD_CHUNK;
	for (u32 i = HOLD_CHUNK; i-- > 0;) {
		hold_slot(table, first + i)->gen = table->gen_base;
		table->gen_sum += table->gen_base;
		push_slot(table, first + i);
	}
}

static bool pop_slot(struct hold_table *table, kvmm_hold_t *handle)
{
	struct hold_slot *slot;

	if (table->free == KV_NONE)
		return false;
	slot = hold_slot(table, table->free);
	*handle = (kvmm_hold_t){ table->free, slot->gen };
	table->free = slot->next;
	table->nr_free--;
	table->nr_reserved++;
	return true;
}

int hold_reserve(struct hold_table *table, kvmm_hold_t *handle)
{
	u32 max_chunks;
	bool got;

	kv_lock(&table->lock);
	got = pop_slot(table, handle);
	max_chunks = table->max_chunks;
	kv_unlock(&table->lock);

	while (!got) {
		struct growth growth;
		int err = growth_init(&growth, max_chunks);

		if (!err) {
			kv_lock(&table->lock);
			if (table->free == KV_NONE)
				add_chunk(table, &growth);
			got = pop_slot(table, handle);
			max_chunks = table->max_chunks;
			kv_unlock(&table->lock);
		}
		growth_exit(&growth);
		if (err)
			return err;
	}
	return 0;
}

void hold_unreserve(struct hold_table *table, kvmm_hold_t handle)
{
	kv_lock(&table->lock);
	table->nr_reserved--;
	push_slot(table, handle.index);
	kv_unlock(&table->lock);
}

/* A slot that comes to the generation before the first one is not used again. */
static void retire_or_push(struct hold_table *table, u32 index)
{
	struct hold_slot *slot = hold_slot(table, index);
	u32 gen = next_gen(slot->gen);

	table->gen_sum += (s64)gen - slot->gen;
	slot->gen = gen;
	if (next_gen(gen) == table->gen_base)
		table->nr_retired++;
	else
		push_slot(table, index);
}

/* ---- by key ---- */

static struct held **bucket_of(const struct hold_table *table, const kvmm_key_t *key)
{
	u64 hash = kv_hash_key(key, table->secret);

	return (struct held **)&table->bucket[hash & (table->nr_buckets - 1)];
}

struct held *hold_chain(const struct hold_table *table, const kvmm_key_t *key)
{
	kv_assert_held(&table->lock);
	return *bucket_of(table, key);
}

static void chain_add(struct hold_table *table, struct held *held)
{
	struct held **head = bucket_of(table, &held->key);

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
static u32 nr_taken(const struct hold_table *table, const struct held *held)
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

bool hold_has_refs(struct kvmm_pool *pool, struct hold_table *table, struct hold *hold)
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

/* ---- by owner ---- */

struct hold **hold_owner_chain(struct hold_table *table, u64 owner)
{
	u64 hash = kv_mul_fold(owner ^ table->secret, 0xe7037ed1a0b428dbull);

	return &table->by_owner[hash % HOLD_OWNERS];
}

static void owner_add(struct hold_table *table, struct hold *hold)
{
	struct hold **head = hold_owner_chain(table, hold->owner);

	hold->owner_next = *head;
	hold->owner_prev = head;
	if (hold->owner_next)
		hold->owner_next->owner_prev = &hold->owner_next;
	*head = hold;
}

static void owner_del(struct hold *hold)
{
	*hold->owner_prev = hold->owner_next;
	if (hold->owner_next)
		hold->owner_next->owner_prev = hold->owner_prev;
}

/* ---- by range ---- */

static void range_add_hold(struct hold_table *table, struct hold *hold)
{
	struct hold **head = &table->by_range[hold->range.index % HOLD_RANGES];

	hold->range_next = *head;
	hold->range_prev = head;
	if (hold->range_next)
		hold->range_next->range_prev = &hold->range_next;
	*head = hold;
}

static void range_del_hold(struct hold *hold)
{
	*hold->range_prev = hold->range_next;
	if (hold->range_next)
		hold->range_next->range_prev = hold->range_prev;
}

u32 holds_of_range(struct kvmm_pool *pool, kvmm_range_t range)
{
	/* Pairs with the swap in holds_get(), as in holds_enter(). */
	struct hold_table *table = smp_load_acquire(pool_hold_table(pool));
	const struct hold *at;
	u32 nr = 0;

	if (!table)
		return 0;
	kv_lock(&table->lock);
	for (at = table->by_range[range.index % HOLD_RANGES]; at; at = at->range_next)
		nr += at->range.index == range.index && at->range.gen == range.gen;
	kv_unlock(&table->lock);
	return nr;
}

/* ---- holds ---- */

/* All that a hold says but its deadline: any flipped bit changes it. */
static u64 hold_sum(const struct hold *hold)
{
	u64 sum = mix(hold->owner, hold->since_ns), word[2];

	sum = mix(sum, (u64)hold->reason << 32 | hold->flags);
	sum = mix(sum, (u64)hold->range.gen << 32 | hold->range.index);
	sum = mix(sum, (u64)hold->domain.tenant << 32 | (u32)hold->domain.layout << 16 |
		       hold->domain.group);
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

static void count_hold(struct hold_table *table, const struct hold *hold, int sign)
{
	table->nr_holds += sign;
	table->nr_blocks += sign * (s64)hold->nr;
	table->sum += sign * hold->sum;
	table->deadlines += sign * hold->deadline_ns;
	add_bytes(table, sign * (s64)hold_bytes(hold));
}

void hold_insert(struct hold_table *table, struct hold *hold)
{
	hold->sum = hold_sum(hold);
	kv_lock(&table->lock);
	hold_slot(table, hold->handle.index)->hold = hold;
	table->nr_reserved--;
	for (u32 i = 0; i < hold->nr; i++)
		chain_add(table, &hold->block[i]);
	owner_add(table, hold);
	if (hold_is_of_range(hold))
		range_add_hold(table, hold);
	count_hold(table, hold, 1);
	kv_unlock(&table->lock);
}

void hold_remove(struct hold_table *table, struct hold *hold)
{
	kv_assert_held(&table->lock);
	for (u32 i = 0; i < hold->nr; i++)
		chain_del(&hold->block[i]);
	owner_del(hold);
	if (hold_is_of_range(hold))
		range_del_hold(hold);
	count_hold(table, hold, -1);
	hold_slot(table, hold->handle.index)->hold = NULL;
	retire_or_push(table, hold->handle.index);
}

static int refuse(const struct hold_table *table, u32 now, u32 gen)
{
	kv_count(KV_EV_BAD_HANDLE);
	return gen && gen - table->gen_base < now - table->gen_base ? -ESTALE : -EINVAL;
}

/* The generation of a slot without a hold is the next one's, so whoever names it made it up. */
static int find_hold(const struct hold_table *table, kvmm_hold_t handle, struct hold **hold)
{
	const struct hold_slot *slot;

	if (unlikely(handle.index >= table->nr_slots))
		return refuse(table, table->gen_base, handle.gen);
	slot = hold_slot(table, handle.index);
	*hold = slot->hold;
	if (likely(slot->gen == handle.gen && slot->hold))
		return 0;
	return refuse(table, slot->gen, handle.gen);
}

int hold_enter(struct kvmm_pool *pool, kvmm_hold_t handle, struct hold_table **table,
	       struct hold **hold)
{
	int err = holds_enter(pool, table);

	if (err || !*table)
		return err ? err : -EINVAL;
	kv_lock(&(*table)->lock);
	err = find_hold(*table, handle, hold);
	if (err)
		kv_unlock(&(*table)->lock);
	return err;
}

/* ---- the check ---- */

struct hold_recount {
	u32 nr_holds;
	u32 nr_of_ranges;
	u32 nr_free;
	u64 nr_blocks;
	u64 sum;
	u64 deadlines;
	u64 gen_sum;
	u64 bytes;
};

static int complain(const struct kvmm_pool *pool, const char *what, u32 index)
{
	kv_log(KV_LOG_ERR, "kvmm: pool %s: %s (%u)", pool->name, what, index);
	return -EUCLEAN;
}

static bool is_in_chain(const struct hold_table *table, const struct held *held)
{
	const struct held *at = hold_chain(table, &held->key);

	for (u64 left = table->nr_blocks; at && left; left--, at = at->next)
		if (at == held)
			return *at->prev == at;
	return false;
}

/*
 * A put, or an unpin, too many may have taken what a hold has: that is told to its caller at release,
 * and contradicts nothing here.
 */
static int check_what(const struct kvmm_pool *pool, const struct hold *hold)
{
	if (hold_is_of_range(hold) &&
	    (!pool->slots || hold->range.index >= dir_nr_slots(pool->slots)))
		return complain(pool, "a hold has no range", hold->range.index);
	for (u32 i = 0; i < hold->nr; i++)
		if (hold->ref[i].index >= pool->nr_blocks)
			return complain(pool, "a hold has no block", hold->ref[i].index);
	return 0;
}

static bool is_with_owner(struct hold_table *table, const struct hold *hold)
{
	const struct hold *at = *hold_owner_chain(table, hold->owner);

	for (u32 left = table->nr_holds; at && left; left--, at = at->owner_next)
		if (at == hold)
			return *at->owner_prev == at;
	return false;
}

/* Chains of ranges: so many as there should be, each where it belongs. */
static bool ranges_are_sound(const struct hold_table *table, u32 nr_of_ranges)
{
	u32 nr = 0;

	for (u32 i = 0; i < HOLD_RANGES; i++) {
		struct hold *const *prev = &table->by_range[i];

		for (const struct hold *at = *prev; at; prev = &at->range_next, at = *prev)
			if (!hold_is_of_range(at) || at->range.index % HOLD_RANGES != i ||
			    at->range_prev != prev || nr++ == nr_of_ranges)
				return false;
	}
	return nr == nr_of_ranges;
}

static u32 nr_with_owners(const struct hold_table *table)
{
	u32 nr = 0;

	for (u32 i = 0; i < HOLD_OWNERS; i++)
		for (const struct hold *at = table->by_owner[i]; at; at = at->owner_next)
			if (nr++ > table->nr_holds)
				return nr;
	return nr;
}

static int check_hold(const struct kvmm_pool *pool, struct hold_table *table, u32 index,
		      struct hold_recount *re)
{
	const struct hold *hold = hold_slot(table, index)->hold;

	if (hold->handle.index != index || hold->handle.gen != hold_slot(table, index)->gen)
		return complain(pool, "a hold is in another slot", index);
	if (hold->nr > table->nr_blocks || !hold->nr != hold_is_of_range(hold) ||
	    hold->ref != (const void *)&hold->block[hold->nr])
		return complain(pool, "a hold has another length", index);
	if (hold->sum != hold_sum(hold))
		return complain(pool, "a hold says something else", index);
	if (!is_with_owner(table, hold))
		return complain(pool, "a hold is not with its owner", index);
	for (u32 i = 0; i < hold->nr; i++)
		if (hold->block[i].hold != hold || !is_in_chain(table, &hold->block[i]))
			return complain(pool, "a held block is not in its chain", index);
	re->nr_holds++;
	re->nr_of_ranges += hold_is_of_range(hold);
	re->nr_blocks += hold->nr;
	re->sum += hold->sum;
	re->deadlines += hold->deadline_ns;
	re->bytes += hold_bytes(hold);
	return check_what(pool, hold);
}

static int check_free_slots(const struct kvmm_pool *pool, const struct hold_table *table,
			    struct hold_recount *re)
{
	for (u32 at = table->free; at != KV_NONE; at = hold_slot(table, at)->next) {
		if (at >= table->nr_slots || hold_slot(table, at)->hold ||
		    re->nr_free++ >= table->nr_free)
			return complain(pool, "bad list of free slots of holds", at);
	}
	return 0;
}

/* Each block is in its chain; if there are as many in the chains, nothing else is. */
static u64 nr_in_chains(const struct hold_table *table)
{
	u64 nr = 0;

	for (u32 i = 0; i < table->nr_buckets; i++)
		for (const struct held *at = table->bucket[i]; at; at = at->next)
			if (nr++ > table->nr_blocks)
				return nr;
	return nr;
}

/* But for the holds themselves. */
static u64 table_bytes(const struct hold_table *table)
{
	return sizeof(*table) + table->nr_buckets * sizeof(table->bucket[0]) +
	       table->max_chunks * sizeof(table->chunk[0]) +
	       table->nr_slots * sizeof(struct hold_slot);
}

static int check_counts(const struct kvmm_pool *pool, const struct hold_table *table,
			const struct hold_recount *re)
{
	if (re->nr_holds != table->nr_holds || re->nr_free != table->nr_free ||
	    re->nr_blocks != table->nr_blocks || re->nr_blocks != nr_in_chains(table) ||
	    re->nr_holds != nr_with_owners(table) || !ranges_are_sound(table, re->nr_of_ranges))
		return complain(pool, "wrong count of holds", re->nr_holds);
	if (re->nr_holds + re->nr_free + table->nr_reserved + table->nr_retired != table->nr_slots)
		return complain(pool, "a slot of holds is lost", table->nr_slots);
	if (re->sum != table->sum || re->deadlines != table->deadlines ||
	    re->gen_sum != table->gen_sum)
		return complain(pool, "wrong sum of holds", re->nr_holds);
	return re->bytes + table_bytes(table) != table->bytes ?
	       complain(pool, "wrong memory of holds", re->nr_holds) : 0;
}

static bool slots_are_there(const struct hold_table *table)
{
	u32 nr_chunks = table->nr_slots >> HOLD_CHUNK_ORDER;

	if (table->fixed_sum != fixed_sum(table) || table->nr_slots & (HOLD_CHUNK - 1) ||
	    nr_chunks > table->max_chunks)
		return false;
	for (u32 i = 0; i < nr_chunks; i++)
		if (!table->chunk[i])
			return false;
	return true;
}

static int check_table(const struct kvmm_pool *pool, struct hold_table *table)
{
	struct hold_recount re = { 0 };
	int err;

	if (!slots_are_there(table))
		return complain(pool, "bad table of holds", table->nr_slots);
	err = check_free_slots(pool, table, &re);
	for (u32 i = 0; i < table->nr_slots && !err; i++) {
		re.gen_sum += hold_slot(table, i)->gen;
		if (hold_slot(table, i)->hold)
			err = check_hold(pool, table, i, &re);
	}
	return err ? err : check_counts(pool, table, &re);
}

static int holds_check(struct kvmm_pool *pool, const struct pool_recount *none)
{
	struct hold_table *table;
	int err = holds_enter(pool, &table);

	if (err || !table)
		return err;
	kv_lock(&table->lock);
	err = check_table(pool, table);
	kv_unlock(&table->lock);
	return err;
}

POOL_PART(holds) = {
	.name	= "holds",
	.exit	= holds_exit,
	.bytes	= holds_bytes,
	.check	= holds_check,
};
