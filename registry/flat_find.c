// SPDX-License-Identifier: Apache-2.0
/*
 * The flat map: its readers. No lock, and nothing written but references; only a reader that has
 * found nothing in a bucket that changed each time, PATIENCE times over, takes its lock.
 *
 * To find a block in memory much larger than the caches takes two lines: the bucket and
 * the entry. The time goes into waiting for them, so keys go through a line of three steps: hash
 * the key and ask for the bucket; compare tags and ask for the entry; compare the name and take the
 * reference. Each turn of the loop does one step for each of three keys, DISTANCE apart.
 *
 * A compare-and-swap takes 20 cycles in any case. Work of the other steps disappears in its
 * shadow as far as the processor looks ahead, but only work that does not wait for it: nothing on
 * the fast path may go through memory that was written after the last swap, so its inputs are
 * passed by value and stay in registers. With everything in the second-level cache a block takes
 * 8 ns, of which 4.7 are the swap; doing one step for a group of keys, then the next, took 12.
 *
 * Each key goes down one of two paths. The fast one looks at the first slot with the right tag, in
 * the home bucket, and takes the entry if it has the name; nothing can be wrong with that, however
 * old what the table said. All else is the slow path's: another slot with that tag, an overflow
 * bucket, younger blocks of the name, a table that is being replaced, and misses, which count only
 * if the bucket's version did not change meanwhile. One hit in fifty is found there.
 */
#include "flat.h"

/* Times that a reader looks before it takes the lock, so that there is an end to it. */
#define PATIENCE	8u

/* ---- one key ---- */

/* REGISTERED, not HIDDEN, and its name is not being written. */
#define FOUND_MASK		(KV_ENTRY_STATE | KV_ENTRY_HIDDEN | KV_ENTRY_MARK)

/* State and generation: another block, or one that is no longer there, has others. */
#define WORD_IDENTITY		(~0ull << KV_ENTRY_STATE_SHIFT)

/* The name that is looked for, and how it is taken. */
struct wanted {
	struct table *table;	/* the one to begin with, and what is needed of it: */
	struct bucket *bucket;
	struct kv_entry *entry;
	u32 nr_homes;
	u32 nr;			/* of keys */
	u64 seed;		/* of the table, for the domain */
	u64 key_seed;
	u64 domain;
	const kvmm_key_t *keys;	/* every @step-th from this one on */
	u32 step;
	bool take;		/* a reference, or just look? */
	struct asked *asked;	/* not NULL: why is it missed? See tells() */
};

struct asked {
	u64 domain;		/* in which the name was not found */
	u32 told;		/* a bit for each enum kv_miss */
};

/*
 * Is the block to which this added name leads there? It had the name at a moment of the call; that
 * it still is the same one its generation says, and its own name does not matter.
 */
static noinline bool try_added(const struct wanted *wanted, const struct kv_entry *name,
			       const u64 key[2], struct found *found)
{
	struct kv_entries *entries = wanted->table->entries;
	u64 old = smp_load_acquire(&name->word), word;
	struct kv_handle block = kv_name_block(entries, name - entries->entry);
	const u64 state = KV_ENTRY_STATE | KV_ENTRY_HIDDEN;

	if ((old & FOUND_MASK) != KV_STATE_WORD(KV_ENTRY_NAME) ||
	    !kv_entry_has_name(name, key, wanted->domain) ||
	    !kv_is_still(&name->word, old, WORD_IDENTITY))
		return false;
	word = smp_load_acquire(&entries->entry[block.index].word);
	while ((word & state) == KV_STATE_WORD(KV_ENTRY_REGISTERED) &&
	       kv_word_gen(word) == block.gen) {
		*found = (struct found){ word, block.index };
		if (!wanted->take)
			return true;
		if (unlikely(kv_word_refs(word) == KV_ENTRY_REFS)) {
			kv_entries_note_full(entries);
			return false;
		}
		if (likely(kv_cas(&entries->entry[block.index].word, &word, word + KV_ENTRY_REF)))
			return true;
	}
	return false;
}

/*
 * Is the entry registered under this name? Take a reference, if one is wanted.
 *
 * The acquire load of the word pairs with the swap that made it REGISTERED (kv_edge_publish): the
 * name is visible. The swap, or the second look, succeeds only on the word that was loaded before
 * the name was read.
 */
static bool try_entry(const struct wanted *wanted, struct kv_entry *entry, const u64 key[2],
		      u64 *word)
{
	u64 old = smp_load_acquire(&entry->word);

	do {
		if (unlikely((old & FOUND_MASK) != KV_STATE_WORD(KV_ENTRY_REGISTERED) ||
			     !kv_entry_has_name(entry, key, wanted->domain)))
			return false;
		*word = old;
		if (!wanted->take)
			return kv_is_still(&entry->word, old, WORD_IDENTITY);
		if (unlikely(kv_word_refs(old) == KV_ENTRY_REFS)) {
			kv_entries_note_full(wanted->table->entries);
			return false;
		}
	} while (unlikely(!kv_cas(&entry->word, &old, old + KV_ENTRY_REF)));
	return true;
}

/* ---- the slow path ---- */

/* One answer is enough: a name may have many blocks. Those that are seen are found first. */
static noinline bool tells(const struct wanted *wanted, const struct kv_entry *entry,
			   const u64 key[2])
{
	enum kv_miss why = trace_told_by(entry, key, wanted->asked->domain);

	wanted->asked->told |= BIT(why);
	return why != KV_MISS_NEVER;
}

/*
 * The oldest registered block of this name among @entry and those younger. Links may be of another
 * list by now; then names do not match, or do, and the block is as good as any.
 */
static bool try_with_dups(const struct wanted *wanted, u32 index, const u64 key[2],
			  struct found *found)
{
	const struct kv_entries *entries = wanted->table->entries;

	for (u32 steps = 0; index < entries->nr_all && steps < entries->nr_all; steps++) {
		struct kv_entry *entry = &entries->entry[index];

		found->index = index;
		if (try_entry(wanted, entry, key, &found->word))
			return true;
		if (!kv_entry_has_name(entry, key, wanted->domain))
			return false;
		if (unlikely(wanted->asked) ? tells(wanted, entry, key) :
		    kv_name_is_added(entries, index) && try_added(wanted, entry, key, found))
			return true;
		index = READ_ONCE(entry->dup_next);
	}
	return false;
}

/* Chains change under us: the count of steps is there to end. */
static bool try_chain(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	const struct bucket *bucket = spot.home;

	for (u32 steps = 0; bucket && steps < spot.table->nr_buckets; steps++) {
		for_each_tagged(bucket, spot.tag, nr)
			if (try_with_dups(wanted, READ_ONCE(bucket->index[nr]), key, found))
				return true;
		bucket = next_of(spot.table, bucket);
	}
	return false;
}

/* In one table: found, or not at any moment of the call. */
static bool try_table(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	bool hit;

	for (u32 tries = 0; tries < PATIENCE; tries++) {
		/* Pairs with spot_unlock(): earlier writers' changes are visible. */
		u32 seq = kv_seq_read_begin(&spot.home->seq);

		if (try_chain(wanted, spot, key, found))
			return true;
		/* Pairs with kv_seq_trylock(): if we saw half of a change, it has changed. */
		if (!kv_seq_read_retry(&spot.home->seq, seq))
			return false;
	}
	/* It was busy each time: with the lock it stands still, or it has moved, too. */
	spot_lock(spot);
	hit = try_chain(wanted, spot, key, found);
	spot_unlock(spot);
	return hit;
}

/* The entry did not have the name, or changed meanwhile. Not found: a word of 0. */
static noinline struct found __find_slowly(const struct wanted *wanted, const kvmm_key_t *key)
{
	struct table *table = wanted->table;
	u64 seed = wanted->seed, words[2] = { 0 }, mix;
	struct found found;

	kv_key_words(key, words);
	mix = kv_mix_key(words, wanted->key_seed);
	for (;;) {
		struct spot spot = spot_of(table, mix_hash(mix, seed));

		if (try_table(wanted, spot, words, &found))
			return found;
		/* Pairs with move_bucket(): the successor and the copies there are visible. */
		if (smp_load_acquire(&spot.home->next) != NEXT_MOVED)
			break;
		table = kv_rcu_dereference(table->successor);
		seed = domain_seed(table->seed, wanted->domain);
	}
	return (struct found){ 0 };
}

/* A copy of @wanted, and of it only here: see the head of this file. */
static __always_inline struct found find_slowly(struct wanted wanted, const kvmm_key_t *key)
{
	return __find_slowly(&wanted, key);
}

/* ---- the line ---- */

/*
 * About as many lines as a core can wait for. Nanoseconds a block with 100 Ki entries and prompts
 * of 85, and with 4 Mi and 1024: 12: 8.3, 21.6; 16: 8.3, 19.4; 24: 8.3, 16.8; 32: 8.4, 15.8.
 */
#define DISTANCE	24u
#define RING		64u		/* a power of two, more than 2 * DISTANCE */

/* Keys on their way, by number modulo RING. */
struct line {
	struct bucket *home[RING];
	u64 tags[RING];			/* the tag in each byte */
	u32 index[RING];		/* of the entry to look at */
};

static __always_inline const kvmm_key_t *key_at(struct wanted wanted, u32 j)
{
	return &wanted.keys[j * wanted.step];
}

/* Step 1: where must it be? */
static __always_inline void line_hash(struct wanted wanted, struct line *line, u32 j)
{
	struct bucket *home;
	u64 key[2], hash;

	kv_key_words(key_at(wanted, j), key);
	hash = mix_hash(kv_mix_key(key, wanted.key_seed), wanted.seed);
	home = &wanted.bucket[home_nr(hash, wanted.nr_homes)];
	kv_prefetch(home);
	line->home[j % RING] = home;
	line->tags[j % RING] = tag_of(hash) * EACH_BYTE;
}

/*
 * Step 2. Without the right tag, or in the middle of a change, the index is that of some other
 * entry, or 0: step 3 finds out.
 */
static __always_inline void line_compare_tags(struct wanted wanted, struct line *line, u32 j)
{
	const struct bucket *home = line->home[j % RING];
	u32 index = READ_ONCE(home->index[slot_like_tag(home, line->tags[j % RING])]);

	kv_prefetch_write(&wanted.entry[index]);
	line->index[j % RING] = index;
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
 * (kv_edge_publish): the name is visible. The swap succeeds only on the word that was there before
 * the name was read; a reader that takes nothing looks whether the word still is that one.
 */
static __always_inline struct found line_take(struct wanted wanted, const struct line *line, u32 j)
{
	u32 index = line->index[j % RING];
	struct kv_entry *entry = &wanted.entry[index];
	u64 word = smp_load_acquire(&entry->word), old, key[2];

	kv_key_words(key_at(wanted, j), key);
	if (unlikely(!is_good(word) || !kv_entry_has_name(entry, key, wanted.domain)))
		return find_slowly(wanted, key_at(wanted, j));
	old = word;
	if (unlikely(wanted.take ? !kv_cas(&entry->word, &old, word + KV_ENTRY_REF) :
				   !kv_is_still(&entry->word, word, WORD_IDENTITY)))
		return find_slowly(wanted, key_at(wanted, j));
	return (struct found){ word, index };
}

static __always_inline void line_start(struct wanted wanted, struct line *line)
{
	for (u32 j = 0; j < min(wanted.nr, 2 * DISTANCE); j++)
		line_hash(wanted, line, j);
	for (u32 j = 0; j < min(wanted.nr, DISTANCE); j++)
		line_compare_tags(wanted, line, j);
}

/* One turn: key @j is through. */
static __always_inline struct found line_turn(struct wanted wanted, struct line *line, u32 j)
{
	if (j + DISTANCE < wanted.nr)
		line_compare_tags(wanted, line, j + DISTANCE);
	if (j + 2 * DISTANCE < wanted.nr)
		line_hash(wanted, line, j + 2 * DISTANCE);
	return line_take(wanted, line, j);
}

/*
 * All keys, or those up to the first miss, unless @through. References and bits of those found go
 * to @refs and @present, if there are any. Returns how many.
 */
static __always_inline u32 line_run(struct wanted wanted, struct kv_handle *refs, u64 *present,
				    u32 *nr_first, bool through)
{
	u32 hits = 0, first = 0;
	struct line line;

	line_start(wanted, &line);
	for (u32 j = 0; j < wanted.nr; j++) {
		struct found found = line_turn(wanted, &line, j);
		bool hit = found.word;

		if (!through && unlikely(!hit))
			break;
		if (refs)
			refs[j] = kv_handle_of(found.index, found.word);
		if (present)
			present[j / 64] |= (u64)hit << j % 64;
		hits += hit;
		first += hit && found_is_first(found);
	}
	if (nr_first)
		*nr_first = first;
	return hits;
}

static __always_inline struct wanted wanted_of(const struct kv_map *map,
					       const struct kv_query *query, bool take)
{
	const struct flat *flat = container_of(map, const struct flat, map);
	struct table *table = kv_rcu_dereference(flat->table);
	u64 domain = kv_domain_word(query->domain);

	return (struct wanted){
		.table		= table,
		.bucket		= table->bucket,
		.entry		= table->entries->entry,
		.nr_homes	= table->nr_homes,
		.seed		= domain_seed(table->seed, domain),
		.key_seed	= table->key_seed,
		.domain		= domain,
		.keys		= query->keys,
		.nr		= query->nr,
		.step		= 1,
		.take		= take,
	};
}

/* ---- what is asked for ---- */

/*
 * Keys before @lo are there, the one at @hi is not. Where the map is closed under prefixes, a key
 * that is there says the same of all before it; so a round, DISTANCE keys spread evenly, the last
 * one among them, divides the rest by DISTANCE: a prompt of 1024 that is all there takes one
 * round of two misses, any other one three.
 */
static noinline u32 length_bisect(struct wanted wanted)
{
	const kvmm_key_t *keys = wanted.keys;
	u32 lo = 0, hi = wanted.nr;

	while (lo < hi) {
		u32 hits, first;

		wanted.step = (hi - lo + DISTANCE - 1) / DISTANCE;
		wanted.nr = (hi - lo + wanted.step - 1) / wanted.step;
		first = hi - 1 - (wanted.nr - 1) * wanted.step;
		wanted.keys = keys + first;
		hits = line_run(wanted, NULL, NULL, NULL, false);
		if (hits < wanted.nr)
			hi = first + hits * wanted.step;
		if (hits)
			lo = first + (hits - 1) * wanted.step + 1;
	}
	return lo;
}

/* No references: other threads may take the blocks meanwhile. */
static noinline u32 look(struct kv_map *map, const struct kv_query *query, struct kv_lookup *lookup)
{
	struct wanted wanted = wanted_of(map, query, false);

	if (lookup->present)
		memset(lookup->present, 0, (query->nr + 63) / 64 * sizeof(*lookup->present));
	if (lookup->through || lookup->weak || !map->prefix_closed)
		return line_run(wanted, lookup->weak, lookup->present, NULL, lookup->through);
	return length_bisect(wanted);
}

u32 flat_lookup(struct kv_map *map, const struct kv_query *query, struct kv_lookup *lookup)
{
	u32 nr;

	kv_rcu_read_lock();
	if (unlikely(!lookup->refs))
		nr = look(map, query, lookup);
	else if (unlikely(lookup->through))
		nr = line_run(wanted_of(map, query, true), lookup->refs, NULL, &lookup->nr_first,
			      true);
	else
		nr = line_run(wanted_of(map, query, true), lookup->refs, NULL, &lookup->nr_first,
			      false);
	kv_rcu_read_unlock();
	return nr;
}

void flat_missed(const struct kv_map *map, const struct kv_query *query, u32 at)
{
	const struct flat *flat = container_of(map, const struct flat, map);
	struct asked asked = { .domain = kv_domain_word(query->domain) };
	u64 key[2] = { 0 };

	kv_key_words(&query->keys[at], key);
	kv_rcu_read_lock();
	for (u32 i = 0; i < NR_KNOWN && READ_ONCE(flat->known[i]); i++) {
		struct kv_query name = { &query->keys[at], 1,
					 kv_word_domain(~READ_ONCE(flat->known[i])) };
		struct wanted wanted = wanted_of(map, &name, false);
		struct found found;

		wanted.asked = &asked;
		found = __find_slowly(&wanted, name.keys);
		if (found.word)
			tells(&wanted, &wanted.entry[found.index], key);
	}
	kv_rcu_read_unlock();
	trace_miss(&flat->trace, query, at, asked.told);
}
