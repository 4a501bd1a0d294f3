// SPDX-License-Identifier: Apache-2.0
/*
 * The flat map: who looks for blocks. No lock, and nothing written but references; only who has
 * found nothing in a bucket that changed each time, PATIENCE times over, takes its lock.
 *
 * What it takes to find a block in memory much larger than the caches is two lines: the bucket and
 * the entry. The time goes into waiting for them, so keys are worked on in groups, and a group in
 * four steps, each for all of its keys: hash them and ask for the buckets; compare tags and ask for
 * the entries; compare names; take the references. Between the first two steps and between the next
 * two lies the work on another group, so that the lines are there when they are needed.
 *
 * References come last and alone because a compare-and-swap lets nothing overlap with it: between
 * two of them the processor would have to wait for every load of a step to end (16 ns a block with
 * everything in the second-level cache when keys were taken one by one).
 *
 * Each key goes down one of two paths. The fast one looks at the first slot with the right tag, in
 * the home bucket, and takes the entry if it has the name; nothing can be wrong with that, however
 * old what the table said. All else is the slow path's: another slot with that tag, an overflow
 * bucket, younger blocks of the name, a table that is being replaced, and misses, which count only
 * if the bucket's version did not change meanwhile.
 */
#include "flat.h"

/* Times that a reader looks before it takes the lock, so that there is an end to it. */
#define PATIENCE	8u

/* ---- one key ---- */

/* REGISTERED, and not HIDDEN. */
#define FOUND_MASK		(KV_ENTRY_STATE | KV_ENTRY_HIDDEN)

/* What is looked for, and what is to be done with it. */
struct wanted {
	struct table *table;	/* the one to begin with */
	u64 seed;		/* of the table, for the domain */
	u64 domain;
	const struct kv_query *query;
	bool take;		/* a reference, or just look? For the slow path */
};

/*
 * Take a reference if the entry is registered under this name, and has none of @flags.
 *
 * The acquire load of the word pairs with the swap that made it REGISTERED (kv_edge_publish): the
 * name is visible. The swap succeeds only on the word that was loaded before the name was read.
 */
static __always_inline bool try_take(struct kv_entry *entry, const u64 key[2], u64 domain,
				     u64 flags, u64 *word)
{
	u64 wanted = KV_STATE_WORD(KV_ENTRY_REGISTERED), mask = FOUND_MASK | flags;
	u64 old = smp_load_acquire(&entry->word);

	do {
		if (unlikely((old & mask) != wanted || !kv_entry_has_name(entry, key, domain) ||
			     kv_word_refs(old) == KV_ENTRY_REFS))
			return false;
	} while (unlikely(!kv_cas(&entry->word, &old, old + KV_ENTRY_REF)));
	*word = old;
	return true;
}

/* The same without a reference. */
static __always_inline bool try_look(struct kv_entry *entry, const u64 key[2], u64 domain,
				     u64 flags, u64 *word)
{
	u64 wanted = KV_STATE_WORD(KV_ENTRY_REGISTERED), mask = FOUND_MASK | flags;

	/* Acquire and the second look pair with the swaps, as in try_take(). */
	*word = smp_load_acquire(&entry->word);
	return likely((*word & mask) == wanted && kv_entry_has_name(entry, key, domain)) &&
	       kv_is_still(&entry->word, *word, ~KV_ENTRY_FLAGS & ~(KV_ENTRY_REFS | KV_ENTRY_PINS));
}

static __always_inline bool try_entry(const struct wanted *wanted, struct kv_entry *entry,
				      const u64 key[2], u64 flags, u64 *word)
{
	return wanted->take ? try_take(entry, key, wanted->domain, flags, word) :
			      try_look(entry, key, wanted->domain, flags, word);
}

static inline struct found found_at(const struct wanted *wanted, const struct kv_entry *entry,
				    u64 word)
{
	u32 index = entry - wanted->table->entries->entry;

	return (struct found){ kv_handle_of(index, word), !kv_word_refs(word) };
}

/* ---- the slow path ---- */

/*
 * The oldest registered block of this name among @entry and those younger. Links may be of another
 * list by now; then names do not match, or do, and the block is as good as any.
 */
static bool try_with_dups(const struct wanted *wanted, u32 index, const u64 key[2],
			  struct found *found)
{
	const struct kv_entries *entries = wanted->table->entries;
	u64 word;

	for (u32 steps = 0; index < entries->nr && steps < entries->nr; steps++) {
		struct kv_entry *entry = &entries->entry[index];

		if (try_entry(wanted, entry, key, 0, &word)) {
			*found = found_at(wanted, entry, word);
			return true;
		}
		if (!kv_entry_has_name(entry, key, wanted->domain))
			return false;
		index = READ_ONCE(entry->dup_next);
	}
	return false;
}

static bool try_bucket(const struct wanted *wanted, const struct bucket *bucket, u8 tag,
		       const u64 key[2], struct found *found)
{
	struct slots slots = slots_with_tag(bucket, tag);

	for (; slots_left(slots); slots_pop(&slots)) {
		u32 index = READ_ONCE(bucket->index[slots_first(slots)]);

		if (try_with_dups(wanted, index, key, found))
			return true;
	}
	return false;
}

/* Chains change under us: the count of steps is there to end. */
static bool try_chain(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	const struct bucket *bucket = spot.home;

	for (u32 steps = 0; bucket && steps < spot.table->nr_buckets; steps++) {
		if (try_bucket(wanted, bucket, spot.tag, key, found))
			return true;
		bucket = next_of(spot.table, bucket);
	}
	return false;
}

/* The bucket was busy each time: with the lock it stands still. False: it has moved, too. */
static bool try_locked(const struct wanted *wanted, struct spot spot, const u64 key[2],
		       struct found *found)
{
	bool hit;

	spot_lock(spot);
	hit = try_chain(wanted, spot, key, found);
	spot_unlock(spot);
	return hit;
}

/* In one table: found, or not at any moment of the call. */
static bool try_table(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	for (u32 tries = 0; tries < PATIENCE; tries++) {
		/* Pairs with spot_unlock(): what writers did before is visible. */
		u32 seq = kv_seq_read_begin(&spot.home->seq);

		if (try_chain(wanted, spot, key, found))
			return true;
		/* Pairs with kv_seq_trylock(): if we saw half of a change, it has changed. */
		if (!kv_seq_read_retry(&spot.home->seq, seq))
			return false;
	}
	return try_locked(wanted, spot, key, found);
}

static noinline bool find_slowly(const struct wanted *wanted, u32 i, struct found *found)
{
	const kvmm_key_t *key = &wanted->query->keys[i];
	struct table *table = wanted->table;
	u64 words[2];

	kv_key_words(key, words);
	for (;;) {
		u64 hash = key_hash(key, domain_seed(table->seed, wanted->domain));
		struct spot spot = spot_of(table, hash);

		if (try_table(wanted, spot, words, found))
			return true;
		/* Pairs with move_bucket(): the successor is visible, and what was copied there. */
		if (smp_load_acquire(&spot.home->next) != NEXT_MOVED)
			return false;
		table = kv_rcu_dereference(table->successor);
	}
}

/* ---- groups ---- */

/*
 * About as many lines as a core can wait for. Nanoseconds a block with 100 Ki and with 4 Mi entries,
 * prompts of 85 and of 1024 blocks: 8: 17, 40; 16: 19, 29; 24: 15, 26; 32: 19, 23, and more than
 * that for short prompts.
 */
#define GROUP		24u

/* Some keys of a query on their way: @first and every @step-th after it. */
struct group {
	u32 nr;
	u32 first;
	u32 step;			/* 1 but in a bisection */
	struct bucket *home[GROUP];
	u8 tag[GROUP];
	struct kv_entry *entry[GROUP];	/* the one to look at */
	u64 word[GROUP];		/* of an entry that has the name; 0: it has not */
};

static __always_inline u32 key_at(const struct group *group, u32 j)
{
	return group->first + j * group->step;
}

/* Step 1 of one key. */
static __always_inline void group_hash_one(const struct wanted *wanted, struct group *group, u32 j,
					   const kvmm_key_t *key)
{
	u64 hash = key_hash(key, wanted->seed);

	group->home[j] = home_of(wanted->table, hash);
	group->tag[j] = tag_of(hash);
	kv_prefetch(group->home[j]);
}

static __always_inline void group_hash(const struct wanted *wanted, struct group *group)
{
	const kvmm_key_t *key = &wanted->query->keys[group->first];

	for (u32 j = 0; j < group->nr; j++, key += group->step)
		group_hash_one(wanted, group, j, key);
}

/*
 * Step 2. Without the right tag, or in the middle of a change, the index is that of some other
 * entry, or 0: step 3 finds out.
 */
static __always_inline void group_compare_tags(const struct wanted *wanted, struct group *group)
{
	struct kv_entry *entries = wanted->table->entries->entry;

	for (u32 j = 0; j < group->nr; j++) {
		const struct bucket *home = group->home[j];
		struct slots slots = slots_like_tag(home, group->tag[j]);
		u32 nr = likely(slots_left(slots)) ? slots_first(slots) : 0;

		group->entry[j] = &entries[READ_ONCE(home->index[nr])];
		kv_prefetch_write(group->entry[j]);
	}
}

/* Registered under this name, the oldest that is, and with room for one more reference. */
static __always_inline bool is_good(u64 word)
{
	u64 mask = FOUND_MASK | KV_ENTRY_DUP;

	return (word & mask) == KV_STATE_WORD(KV_ENTRY_REGISTERED) &&
	       kv_word_refs(word) != KV_ENTRY_REFS;
}

/*
 * Step 3. The acquire load of the word pairs with the swap that made it REGISTERED
 * (kv_edge_publish): the name is visible. What was read of it is confirmed in step 4.
 */
static __always_inline void group_compare_names(const struct wanted *wanted, struct group *group)
{
	const kvmm_key_t *key = &wanted->query->keys[group->first];

	for (u32 j = 0; j < group->nr; j++, key += group->step) {
		struct kv_entry *entry = group->entry[j];
		u64 word = smp_load_acquire(&entry->word), key_words[2];

		kv_key_words(key, key_words);
		if (unlikely(!is_good(word) ||
			     !kv_entry_has_name(entry, key_words, wanted->domain)))
			word = 0;
		group->word[j] = word;
	}
}

/* The word has changed since step 3, or was not good. */
static noinline bool group_retry(const struct wanted *wanted, const struct group *group, u32 j,
				 struct found *found)
{
	u64 key[2], word;

	kv_key_words(&wanted->query->keys[key_at(group, j)], key);
	if (group->word[j] && try_take(group->entry[j], key, wanted->domain, KV_ENTRY_DUP, &word)) {
		*found = found_at(wanted, group->entry[j], word);
		return true;
	}
	return find_slowly(wanted, key_at(group, j), found);
}

/* Step 4: the swap succeeds only on the word that was there before the name was read. */
static __always_inline bool group_take(const struct wanted *wanted, struct group *group, u32 j,
				       struct found *found)
{
	u64 word = group->word[j];

	if (unlikely(!word || !kv_cas(&group->entry[j]->word, &word, word + KV_ENTRY_REF)))
		return group_retry(wanted, group, j, found);
	*found = found_at(wanted, group->entry[j], word);
	return true;
}

/* Step 4 of who takes nothing: the word that was there before the name was read still is. */
static __always_inline bool group_look(const struct wanted *wanted, struct group *group, u32 j)
{
	u64 word = group->word[j], mask = ~0ull << KV_ENTRY_STATE_SHIFT;
	struct found found;

	if (likely(word && kv_is_still(&group->entry[j]->word, word, mask)))
		return true;
	return find_slowly(wanted, key_at(group, j), &found);
}

/* ---- a line of groups ---- */

/* Group g is in the middle of it: g + 2 is hashed and g + 1 has its tags compared. */
#define NR_GROUPS	4u

struct line {
	struct group group[NR_GROUPS];
};

static __always_inline struct group *line_at(struct line *line, u32 g)
{
	return &line->group[g % NR_GROUPS];
}

static __always_inline struct group *line_place(const struct wanted *wanted, struct line *line,
						u32 g)
{
	struct group *group = line_at(line, g);

	group->first = min(g * GROUP, wanted->query->nr);
	group->nr = min(wanted->query->nr - group->first, GROUP);
	group->step = 1;
	return group;
}

static __always_inline void line_start(const struct wanted *wanted, struct line *line)
{
	group_hash(wanted, line_place(wanted, line, 0));
	group_hash(wanted, line_place(wanted, line, 1));
	group_compare_tags(wanted, line_at(line, 0));
}

/* Steps 2 and 3. */
static __always_inline struct group *line_step(const struct wanted *wanted, struct line *line,
					       u32 g)
{
	struct group *group = line_at(line, g);

	group_compare_tags(wanted, line_at(line, g + 1));
	group_compare_names(wanted, group);
	return group;
}

static __always_inline struct wanted wanted_of(struct kv_map *map, const struct kv_query *query,
					       bool take)
{
	struct table *table = kv_rcu_dereference(flat_of(map)->table);
	u64 domain = kv_domain_word(query->domain);

	return (struct wanted){ table, domain_seed(table->seed, domain), domain, query, take };
}

/* ---- match, scan ---- */

/*
 * Step 4 of one group, with step 1 of a later one in its shadow: the key is loaded before the swap
 * and hashed while that goes on, which is free. A group is never shorter than one after it; beyond
 * the last key that key is hashed again.
 */
static __always_inline u32 take_group(const struct wanted *wanted, struct group *group,
				      struct group *later, struct kv_handle *refs, u32 *nr_first)
{
	const kvmm_key_t *keys = wanted->query->keys;
	u32 j, last = wanted->query->nr - 1;

	for (j = 0; j < group->nr; j++) {
		kvmm_key_t key = keys[min(later->first + j, last)];
		struct found found;

		if (unlikely(!group_take(wanted, group, j, &found)))
			break;
		group_hash_one(wanted, later, j, &key);
		refs[j] = found.handle;
		*nr_first += found.is_first;
	}
	return j;
}

u32 flat_match(struct kv_map *map, const struct kv_query *query, struct kv_handle *refs,
	       u32 *nr_first)
{
	u32 nr = 0, first_refs = 0, g;
	struct wanted wanted;
	struct line line;

	kv_rcu_read_lock();
	wanted = wanted_of(map, query, true);
	line_start(&wanted, &line);
	for (g = 0; nr == g * GROUP && nr < query->nr; g++) {
		struct group *group = line_step(&wanted, &line, g);

		nr += take_group(&wanted, group, line_place(&wanted, &line, g + 2), refs + nr,
				 &first_refs);
	}
	kv_rcu_read_unlock();
	*nr_first = first_refs;
	if (nr < query->nr)
		trace_miss(&flat_of(map)->trace, query, nr);
	return nr;
}

static __always_inline u32 scan_group(const struct wanted *wanted, struct group *group,
				      struct kv_handle *refs, u32 *nr_first)
{
	u32 nr = 0;

	for (u32 j = 0; j < group->nr; j++) {
		struct found found = { 0 };

		nr += group_take(wanted, group, j, &found);
		refs[j] = found.handle;
		*nr_first += found.is_first;
	}
	return nr;
}

u32 flat_scan(struct kv_map *map, const struct kv_query *query, struct kv_handle *refs,
	      u32 *nr_first)
{
	struct wanted wanted;
	struct line line;
	u32 nr = 0;

	*nr_first = 0;
	kv_rcu_read_lock();
	wanted = wanted_of(map, query, true);
	line_start(&wanted, &line);
	for (u32 g = 0; g * GROUP < query->nr; g++) {
		struct group *group = line_step(&wanted, &line, g);

		group_hash(&wanted, line_place(&wanted, &line, g + 2));
		nr += scan_group(&wanted, group, refs + g * GROUP, nr_first);
	}
	kv_rcu_read_unlock();
	return nr;
}

/* ---- length ---- */

/* How many of the group, from the first on, are there. */
static __always_inline u32 look_at_group(const struct wanted *wanted, struct group *group)
{
	u32 j;

	for (j = 0; j < group->nr; j++)
		if (!group_look(wanted, group, j))
			break;
	return j;
}

static u32 length_linear(const struct wanted *wanted)
{
	struct line line;
	u32 nr = 0;

	line_start(wanted, &line);
	for (u32 g = 0; nr == g * GROUP && nr < wanted->query->nr; g++) {
		group_hash(wanted, line_place(wanted, &line, g + 2));
		nr += look_at_group(wanted, line_step(wanted, &line, g));
	}
	return nr;
}

/* One round of a bisection: at most GROUP keys at even distances in [lo, hi), ends included. */
static void group_spread(struct group *group, u32 lo, u32 hi)
{
	group->step = (hi - lo + GROUP - 1) / GROUP;
	group->nr = (hi - lo + group->step - 1) / group->step;
	group->first = hi - 1 - (group->nr - 1) * group->step;
}

/*
 * Keys before @lo are there, the one at @hi is not. Where the map is closed under prefixes, a key
 * that is there says the same of all before it; so a round divides what is left by GROUP, and a
 * prompt of 1024 that is all there takes one round of two misses, any other one three.
 */
static u32 length_bisect(const struct wanted *wanted)
{
	u32 lo = 0, hi = wanted->query->nr;
	struct group group;

	while (lo < hi) {
		u32 hits;

		group_spread(&group, lo, hi);
		group_hash(wanted, &group);
		group_compare_tags(wanted, &group);
		group_compare_names(wanted, &group);
		hits = look_at_group(wanted, &group);
		if (hits < group.nr)
			hi = key_at(&group, hits);
		if (hits)
			lo = key_at(&group, hits - 1) + 1;
	}
	return lo;
}

u32 flat_length(struct kv_map *map, const struct kv_query *query)
{
	struct wanted wanted;
	u32 length;

	kv_rcu_read_lock();
	wanted = wanted_of(map, query, false);
	length = map->prefix_closed ? length_bisect(&wanted) : length_linear(&wanted);
	kv_rcu_read_unlock();
	return length;
}
