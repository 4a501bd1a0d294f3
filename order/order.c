// SPDX-License-Identifier: Apache-2.0
/* The order of eviction and its log; see order.h. */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/mem.h>

#include "order.h"

/* Notes that are heard together: their lines are asked for two batches before, in two steps. */
#define BATCH		KV_EVICT_MANY

/* So few notes are applied sooner than it takes to ask for their lines. */
#define FEW		4u

/* How often a hit tries to get at the log before it is forgotten. */
#define HIT_TRIES	16u

/* ---- notes: | generation, where the word of an entry has it | what | index | ---- */

#define NOTE_INDEX_BITS	24u
#define NOTE_WHAT_MASK	3u

static_assert(KVMM_MAX_BLOCKS <= BIT(NOTE_INDEX_BITS), "an index fits a note");

static u64 note_make(enum order_note note, struct kv_handle handle)
{
	return (u64)handle.gen << KV_ENTRY_GEN_SHIFT | note << NOTE_INDEX_BITS | handle.index;
}

static u32 note_index(u64 note)
{
	return note & (BIT(NOTE_INDEX_BITS) - 1);
}

static enum order_note note_what(u64 note)
{
	return note >> NOTE_INDEX_BITS & NOTE_WHAT_MASK;
}

static struct kv_handle note_handle(u64 note)
{
	return (struct kv_handle){ note_index(note), note >> KV_ENTRY_GEN_SHIFT };
}

/* ---- applying them ---- */

static struct kv_entry *entry_at(const struct order *order, u32 index)
{
	return &order->entries->entry[index];
}

/* The block before, if it still is that block. */
static __always_inline u32 parent_of(const struct order *order, u32 index)
{
	const struct kv_entry *entry = entry_at(order, index), *parent;
	u32 link = READ_ONCE(entry->parent);

	kv_assert(index < order->entries->nr);
	if (likely(link == KV_NONE))
		return KV_NONE;
	kv_assert(kv_link_index(link) < order->entries->nr);
	parent = entry_at(order, kv_link_index(link));
	if (!kv_link_is(link, READ_ONCE(parent->word)) ||
	    READ_ONCE(parent->position) + 1 != READ_ONCE(entry->position))
		return KV_NONE;
	return kv_link_index(link);
}

/* It leaves the order, and was there. */
static void drop(struct order *order, void *policy, u32 index)
{
	kv_assert_held(&order->lock);
	order->ops->leave(policy, index);
	family_del(&order->family, index);
}

void order_forget(struct order *order, u32 index)
{
	kv_assert_held(&order->lock);
	if (!order_has(order, index))
		return;
	order_changed(order);
	drop(order, order_policy(order, index), index);
}

static void fill_in(struct order *order, void *policy, u32 index)
{
	kvmm_key_t key = kv_entry_key(entry_at(order, index));

	kv_assert_held(&order->lock);
	kv_assert(index < order->entries->nr);
	if (order->ops->fill)
		order->ops->fill(policy, index, &key);
	if (unlikely(order->ops->place != NULL))
		order->ops->place(policy, index, READ_ONCE(entry_at(order, index)->position),
				  parent_of(order, index));
}

static void enter(struct order *order, void *policy, u32 index)
{
	kvmm_key_t key = kv_entry_key(entry_at(order, index));

	kv_assert_held(&order->lock);
	kv_assert(index < order->entries->nr);
	order->ops->enter(policy, index, &key);
	quota_entered(order->quotas, index);
}

void order_reclass(struct order *order, u32 index, u32 class)
{
	bool has = order_has(order, index);

	kv_assert(index < order->entries->nr);
	order_history(order, HISTORY_RECLASSED, index, class);
	order_changed(order);
	if (has)
		order->ops->leave(order_policy(order, index), index);
	class_change(order->classes, index, class);
	fill_in(order, order_policy(order, index), index);
	if (has)
		enter(order, order_policy(order, index), index);
}

static noinline void record_note(struct order *order, enum order_note note,
				 struct kv_handle handle)
{
	const struct kv_entry *entry = entry_at(order, handle.index);

	kv_assert_held(&order->lock);
	kv_assert(handle.index < order->entries->nr);
	sum_add(&order->history, history_word(note, 0, handle.index));
	if (note != NOTE_FILL)
		return;
	sum_add(&order->history, READ_ONCE(entry->key[0]));
	sum_add(&order->history, READ_ONCE(entry->key[1]));
	sum_add(&order->history, READ_ONCE(entry->domain));
	/* Generations are not the same in each run. */
	sum_add_two(&order->history, kv_link_index(READ_ONCE(entry->parent)),
		    READ_ONCE(entry->position));
}

/* An entry that was claimed since has left the order, or is about to. */
static inline bool note_holds(const struct kv_entry *entries, u64 note)
{
	u64 word = smp_load_acquire(&entries[note_index(note)].word);
	u64 wanted = (note & ~0ull << KV_ENTRY_GEN_SHIFT) | KV_STATE_WORD(KV_ENTRY_REGISTERED);

	return likely(!((word ^ wanted) >> KV_ENTRY_STATE_SHIFT));
}

/* Else: a block that is going with its last reference was filled and used before. */
static noinline bool note_held(const struct kv_entry *entries, u64 note)
{
	u64 word = smp_load_acquire(&entries[note_index(note)].word);

	return kv_word_gen(word) == note_handle(note).gen && kv_word_is_going(word) &&
	       (note_what(note) == NOTE_HIT || note_what(note) == NOTE_FILL);
}

/* Is all of it one instance of the policy? */
static bool is_one(const struct order *order)
{
	return likely(!order->classes && !order->quotas);
}

/* Are notes of one kind that follow each other applied as one? */
static bool has_runs(const struct order *order)
{
	return is_one(order) && !order->deterministic;
}

/*
 * Most blocks that are hit are put before a thread looks at the order. So a hit only marks its
 * block as one that has left, and the put moves it; what is still marked at the next look leaves,
 * if it was in. With runs only, and policies that move blocks.
 */
static bool stays(const struct order *order, u32 index)
{
	return order->stays[index / 64] & BIT64(index % 64);
}

static u64 stays_bytes(u32 nr)
{
	return (nr / 64 + 1) * sizeof(u64);
}

/* Was it marked? */
static bool end_stay(struct order *order, u32 index)
{
	bool stayed = stays(order, index);

	kv_assert_held(&order->lock);
	order->stays[index / 64] &= ~BIT64(index % 64);
	order->nr_stays -= stayed;
	return stayed;
}

static void mark(struct order *order, const u32 *blocks, u32 nr)
{
	u32 nr_new = 0;

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr; i++) {
		order->stayed[order->nr_stayed + nr_new] = blocks[i];
		nr_new += !stays(order, blocks[i]);
		order->stays[blocks[i] / 64] |= BIT64(blocks[i] % 64);
	}
	order->nr_stayed += nr_new;
	order->nr_stays += nr_new;
}

/* They leave. */
static void end_stays(struct order *order)
{
	void *policy = order->rest.policy[0];

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < order->nr_stayed && order->nr_stays; i++)
		if (end_stay(order, order->stayed[i]) &&
		    order->ops->has(policy, order->stayed[i]))
			drop(order, policy, order->stayed[i]);
	order->nr_stayed = 0;
}

/* Without those that were put since; if that would help little, without all. */
static noinline void make_room_to_stay(struct order *order)
{
	u32 nr = 0;

	kv_assert_held(&order->lock);
	if (order->nr_stays > ORDER_STAYS / 2) {
		end_stays(order);
		return;
	}
	/* A block that was put and hit again is in the list twice. */
	for (u32 i = 0; i < order->nr_stayed; i++)
		if (end_stay(order, order->stayed[i]))
			order->stayed[nr++] = order->stayed[i];
	order->nr_stayed = 0;
	mark(order, order->stayed, nr);
}

/*
 * A thread that lands a move, or puts a reference that another one owns, may note the last put
 * before the fill: so that puts it again.
 */
static void hear(struct order *order, void *policy, enum order_note note, u32 index, bool fills)
{
	bool stayed = end_stay(order, index), was_in = order->ops->has(policy, index);

	kv_assert_held(&order->lock);
	if (was_in)
		drop(order, policy, index);
	was_in &= !stayed;
	if (fills)
		fill_in(order, policy, index);
	if (note == NOTE_PUT || (note == NOTE_FILL && unlikely(was_in))) {
		enter(order, policy, index);
		family_add(&order->family, index, parent_of(order, index));
	} else if (note == NOTE_HIT && order->ops->hit) {
		order->ops->hit(policy, index);
	}
}

void order_apply(struct order *order, enum order_note note, struct kv_handle handle)
{
	bool fills = note == NOTE_FILL;

	kv_assert_held(&order->lock);
	kv_assert(handle.index < order->entries->nr);
	if (unlikely(!note_holds(order->entries->entry, note_make(note, handle))) &&
	    !note_held(order->entries->entry, note_make(note, handle)))
		return;
	order_changed(order);
	if (unlikely(order->deterministic))
		record_note(order, note, handle);
	if (unlikely(order->classes != NULL))
		fills = note != NOTE_HIT && class_filled(order->classes, handle.index);
	if (note != NOTE_FILL || fills)
		hear(order, order_policy(order, handle.index), note, handle.index, fills);
}

static void hit_many(struct order *order, const u32 *blocks, u32 nr)
{
	kv_assert_held(&order->lock);
	if (unlikely(order->nr_stayed + nr > ORDER_STAYS))
		make_room_to_stay(order);
	mark(order, blocks, nr);
	if (order->ops->hit_many)
		order->ops->hit_many(order->rest.policy[0], blocks, nr);
}

/* The policy has them. Each is the first child of its parent then, as most that stayed are. */
static void entered(struct order *order, const u32 *blocks, u32 nr)
{
	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr && order->nr_stays; i++)
		end_stay(order, blocks[i]);
	if (!order->nr_stays)
		order->nr_stayed = 0;
	for (u32 i = 0; i < nr; i++) {
		if (family_has(&order->family, blocks[i])) {
			if (likely(family_is_first(&order->family, blocks[i])))
				continue;
			family_del(&order->family, blocks[i]);
		}
		family_add(&order->family, blocks[i], parent_of(order, blocks[i]));
	}
}

/* @enter: each is put at once. */
static void fill_many(struct order *order, const u32 *blocks, u32 nr, bool enter)
{
	void *policy = order->rest.policy[0];
	kvmm_key_t keys[BATCH];

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr; i++)
		keys[i] = kv_entry_key(entry_at(order, blocks[i]));
	for (u32 i = 0; i < nr; i++) {
		if (order->ops->fill_many)
			i += order->ops->fill_many(policy, blocks + i, keys + i, nr - i, enter);
		if (unlikely(i < nr))
			hear(order, policy, enter ? NOTE_PUT : NOTE_FILL, blocks[i], true);
	}
	if (enter)
		entered(order, blocks, nr);
}

/* Some do not hold any more. */
static noinline u32 blocks_held(const struct kv_entry *entries, const u64 *notes, u32 nr,
				u32 *blocks)
{
	u32 nr_blocks = 0;

	for (u32 i = 0; i < nr; i++)
		if (note_holds(entries, notes[i]) || note_held(entries, notes[i]))
			blocks[nr_blocks++] = note_index(notes[i]);
	return nr_blocks;
}

/* One names a block, and the next one puts it: a caller that has it for so short. */
static bool are_pair(const u64 *notes, u32 nr)
{
	return nr > 1 && (notes[0] ^ notes[1]) == (u64)(NOTE_FILL ^ NOTE_PUT) << NOTE_INDEX_BITS &&
	       note_what(notes[0]) == NOTE_FILL;
}

/* The first ones, as far as they are pairs that hold: how many notes. */
static noinline u32 apply_pairs(struct order *order, const u64 *notes, u32 nr)
{
	u32 blocks[BATCH], nr_blocks = 0, end = 0;

	kv_assert_held(&order->lock);
	for (; are_pair(notes + end, nr - end) && note_holds(order->entries->entry, notes[end]);
	     end += 2)
		blocks[nr_blocks++] = note_index(notes[end]);
	order_changes(order, nr_blocks);
	fill_many(order, blocks, nr_blocks, true);
	return end;
}

/* The first ones, of one kind, in an order that has runs: how many. At most BATCH. */
static noinline u32 apply_run(struct order *order, const u64 *notes, u32 nr)
{
	const struct kv_entry *entries = order->entries->entry;
	enum order_note what = note_what(notes[0]);
	u32 blocks[BATCH], nr_blocks = 0, end = 0;

	kv_assert_held(&order->lock);
	for (; end < nr && note_what(notes[end]) == what; end++) {
		blocks[nr_blocks] = note_index(notes[end]);
		nr_blocks += note_holds(entries, notes[end]);
	}
	if (unlikely(nr_blocks < end))
		nr_blocks = blocks_held(entries, notes, end, blocks);
	order_changes(order, nr_blocks);
	if (what == NOTE_PUT && order->ops->enter_many) {
		order->ops->enter_many(order->rest.policy[0], blocks, nr_blocks);
		entered(order, blocks, nr_blocks);
	} else if (what == NOTE_HIT && order->ops->enter_many)
		hit_many(order, blocks, nr_blocks);
	else if (what == NOTE_FILL)
		fill_many(order, blocks, nr_blocks, false);
	else
		for (u32 i = 0; i < nr_blocks; i++)
			hear(order, order->rest.policy[0], what, blocks[i], false);
	return end;
}

static void apply_notes(struct order *order, const u64 *notes, u32 nr)
{
	u32 i = 0;

	kv_assert_held(&order->lock);
	while (has_runs(order) && i < nr) {
		if (are_pair(notes + i, nr - i))
			i += apply_pairs(order, notes + i, nr - i);
		if (i < nr)
			i += apply_run(order, notes + i, nr - i);
	}
	for (; i < nr; i++)
		order_apply(order, note_what(notes[i]), note_handle(notes[i]));
}

/* Blocks of one policy are of one call. */
static void expect(struct order *order, const u32 *blocks, u32 nr, bool soon)
{
	u32 step = is_one(order) ? nr : 1;

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr && order->ops->expect; i += step)
		order->ops->expect(order_policy(order, blocks[i]), blocks + i, step, soon);
}

static void expect_fills(struct order *order, const u32 *blocks, u32 nr)
{
	u32 step = is_one(order) ? nr : 1;
	kvmm_key_t keys[BATCH];

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr; i++)
		keys[i] = kv_entry_key(entry_at(order, blocks[i]));
	for (u32 i = 0; i < nr; i += step)
		order->ops->expect_fill(order_policy(order, blocks[i]), blocks + i, keys + i, step);
}

/* Puts of blocks that were hit a moment ago: as likely as not all of them, by the ends. */
static bool are_warm(const struct order *order, const u64 *notes, u32 nr)
{
	kv_assert_held(&order->lock);
	return nr && note_what(notes[0]) == NOTE_PUT && stays(order, note_index(notes[0])) &&
	       note_what(notes[nr - 1]) == NOTE_PUT && stays(order, note_index(notes[nr - 1]));
}

/* These notes will be applied after twice BATCH others. */
static void expect_notes(struct order *order, const u64 *notes, u32 nr)
{
	const struct kv_entry *entries = order->entries->entry;
	const struct family family = order->family;
	u32 blocks[BATCH];

	kv_assert_held(&order->lock);
	if (are_warm(order, notes, nr))
		return;
	for (u32 i = 0; i < nr; i++) {
		blocks[i] = note_index(notes[i]);
		kv_prefetch(&entries[blocks[i]]);
		family_prefetch(&family, blocks[i]);
	}
	expect(order, blocks, nr, false);
}

/* After BATCH others: what those lines lead to. A block that is put mostly is in no list yet. */
static void expect_soon(struct order *order, const u64 *notes, u32 nr)
{
	u32 hits[BATCH], fills[BATCH], nr_hits = 0, nr_fills = 0;

	kv_assert_held(&order->lock);
	if (are_warm(order, notes, nr))
		return;
	for (u32 i = 0; i < nr; i++) {
		enum order_note what = note_what(notes[i]);

		if (what == NOTE_HIT)
			hits[nr_hits++] = note_index(notes[i]);
		else if (what == NOTE_FILL)
			fills[nr_fills++] = note_index(notes[i]);
	}
	expect(order, hits, nr_hits, true);
	/* A call that fills many asks itself for all but the first, where policies have runs. */
	if (nr_fills && order->ops->expect_fill)
		expect_fills(order, fills, nr_fills < nr || !has_runs(order) ?
					   nr_fills : min(nr_fills, BATCH / 4));
}

/* The first @nr of ->applied. */
static void apply_log(struct order *order, u32 nr)
{
	const u64 *notes = order->applied;

	kv_assert_held(&order->lock);
	if (nr <= FEW) {
		apply_notes(order, notes, nr);
		return;
	}
	expect_notes(order, notes, min(nr, BATCH));
	for (u32 at = 0, next = BATCH; at < nr + BATCH; at = next, next += BATCH) {
		expect_notes(order, notes + next, min(nr - min(nr, next), BATCH));
		expect_soon(order, notes + at, min(nr - min(nr, at), BATCH));
		if (at)
			apply_notes(order, notes + at - BATCH, min(nr + BATCH - at, BATCH));
	}
}

static void apply_all(struct order *order)
{
	u32 nr;

	kv_assert_held(&order->lock);
	kv_lock(&order->log_lock);
	nr = order->nr_log;
	memcpy(order->applied, order->log, nr * sizeof(*order->log));
	order->nr_log = 0;
	kv_unlock(&order->log_lock);
	apply_log(order, nr);
}

void order_catch_up(struct order *order)
{
	apply_all(order);
	end_stays(order);
}

void order_enter(struct order *order)
{
	kv_lock(&order->lock);
	order_catch_up(order);
}

/* ---- making them ---- */

/* False: it is busy, and there is no waiting for it. */
static __always_inline bool lock_soon(struct kv_lock *lock, bool may_wait)
{
	if (may_wait) {
		kv_lock(lock);
		return true;
	}
	for (u32 i = 0; i < HIT_TRIES; i++)
		if (kv_trylock(lock))
			return true;
	return false;
}

/* How many of them fit. */
static u32 append(struct order *order, enum order_note note, const struct kv_handle *handles,
		  u32 nr, bool may_wait)
{
	if (!lock_soon(&order->log_lock, may_wait))
		return 0;
	nr = min(nr, ORDER_LOG - order->nr_log);
	for (u32 i = 0; i < nr; i++)
		order->log[order->nr_log + i] = note_make(note, handles[i]);
	order->nr_log += nr;
	kv_unlock(&order->log_lock);
	return nr;
}

/* The time of applying a log depends on the threads that look, and blocks change until then. */
static noinline void apply_now(struct order *order, enum order_note note,
			       const struct kv_handle *handles, u32 nr)
{
	kv_lock(&order->lock);
	for (u32 i = 0; i < nr; i++)
		order_apply(order, note, handles[i]);
	kv_unlock(&order->lock);
}

void order_note(struct order *order, enum order_note note, const struct kv_handle *handles,
		u32 nr)
{
	bool may_wait = note != NOTE_HIT;

	if (unlikely(order->deterministic)) {
		apply_now(order, note, handles, nr);
		return;
	}
	for (;;) {
		u32 nr_done = append(order, note, handles, nr, may_wait);

		nr -= nr_done;
		if (likely(!nr))	/* @handles may be NULL then */
			return;
		handles += nr_done;
		/* The log is full, or busy: apply it, unless that would mean to wait. */
		if (!may_wait && !kv_trylock(&order->lock))
			return;
		if (may_wait)
			kv_lock(&order->lock);
		apply_all(order);
		kv_unlock(&order->lock);
	}
}

void order_touch(struct order *order, const struct kv_handle *handles, u32 nr)
{
	u32 nr_notes = nr;

	kv_assert(nr <= ORDER_LOG / 2);
	order_enter(order);
	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr; i++)
		order->applied[i] = note_make(NOTE_HIT, handles[i]);
	/*
	 * A holder that drops the last reference from here on notes that later, and so puts the
	 * block behind us.
	 */
	for (u32 i = nr; i-- > 0;)
		if (!kv_word_refs(READ_ONCE(entry_at(order, handles[i].index)->word)))
			order->applied[nr_notes++] = note_make(NOTE_PUT, handles[i]);
	apply_log(order, nr_notes);
	order_leave(order);
}

void __order_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr)
{
	struct account *account = &order->rest;

	kv_assert_held(&order->lock);
	if (order->deterministic) {
		sum_add(&order->history, history_word(HISTORY_SEEN, 0, nr));
		sum_add_bytes(&order->history, keys, nr * sizeof(*keys));
	}
	if (unlikely(order->quotas != NULL))
		account = order->quotas->account[find_account(order->quotas, tenant)];
	for (u32 class = 0; class < order->nr_policies; class++) {
		account->next[class] = KV_NONE;
		order->ops->seen(account->policy[class], keys, nr);
	}
}

void __order_note_seen(struct order *order, u32 tenant, const kvmm_key_t *keys, u32 nr)
{
	if (!nr || !lock_soon(&order->lock, order->deterministic))
		return;
	order_catch_up(order);
	__order_seen(order, tenant, keys, nr);
	kv_unlock(&order->lock);
}

/* ---- the rest ---- */

/* It follows no block, though it may have followed one when it had a name. */
void order_park(struct order *order, u32 index)
{
	struct kv_handle handle = kv_handle_of(index, READ_ONCE(entry_at(order, index)->word));
	kvmm_key_t key = { { 0 } };

	kv_assert_held(&order->lock);
	order_changed(order);
	/* What a policy knows of it is of earlier content. No other block is of this name. */
	memcpy(&key, &handle, sizeof(handle));
	if (order->ops->fill && !order->ops->keeps_unnamed)
		order->ops->fill(order_policy(order, index), index, &key);
	order->ops->enter(order_policy(order, index), index, NULL);
	family_add(&order->family, index, KV_NONE);
}

/* An earlier entry's children do not count, nor do those of another class, or account. */
static bool is_child(const struct order *order, u32 parent, u32 kid)
{
	u64 word = READ_ONCE(entry_at(order, parent)->word);

	kv_assert(kid < order->entries->nr);
	kv_assert(parent < order->entries->nr);
	return READ_ONCE(entry_at(order, kid)->parent) == kv_link(kv_handle_of(parent, word)) &&
	       READ_ONCE(entry_at(order, kid)->position) ==
	       READ_ONCE(entry_at(order, parent)->position) + 1 &&
	       class_of(order->classes, kid) == class_of(order->classes, parent) &&
	       (likely(!order->quotas) ||
		quota_of(order->quotas, kid) == quota_of(order->quotas, parent));
}

u32 order_child(const struct order *order, u32 parent, u32 after)
{
	u32 kid = after == KV_NONE ? family_first(&order->family, parent) :
				     family_next(&order->family, after);

	kv_assert_held(&order->lock);
	while (kid != KV_NONE && !is_child(order, parent, kid))
		kid = family_next(&order->family, kid);
	return kid;
}

/* Instead of @top, which has children: a leaf below, from where the last one was on. */
static u32 take_leaf(struct order *order, u32 top)
{
	void *policy = order_policy(order, top);
	u32 leaf = top, kid;

	kv_assert_held(&order->lock);
	if (order->mark.top == top && order->ops->has(policy, order->mark.above))
		leaf = order->mark.above;
	order->mark.top = top;
	while ((kid = order_child(order, leaf, KV_NONE)) != KV_NONE) {
		order->mark.above = leaf;
		leaf = kid;
	}
	if (leaf == top)
		return top;
	order->ops->unpick(policy, top);
	order->ops->take(policy, leaf);
	if (leaf == order->mark.above)
		order->mark.above = parent_of(order, leaf);
	return leaf;
}

/* Victims that the policy is asked for ahead, while their data come into the cache. */
struct picked {
	u32 nr;
	u32 index[ORDER_PICKS];
};

static void picked_out(struct order *order, u32 index)
{
	kv_assert_held(&order->lock);
	if (unlikely(order->classes != NULL))
		class_picked(order->classes, index);
	if (unlikely(order->quotas != NULL))
		quota_picked(order, index);
}

static void picked_back(struct order *order, u32 index)
{
	kv_assert_held(&order->lock);
	if (unlikely(order->quotas != NULL))
		quota_unpicked(order->quotas, index);
	if (unlikely(order->classes != NULL))
		class_unpicked(order->classes, index);
}

/*
 * All that will be touched of a victim is asked for some picks before it is picked, so that many
 * misses are under way at once; if that was wrong, when it is.
 */
static void look_ahead(const struct order *order, const void *policy, const u32 *victims, u32 nr)
{
	u32 ahead[ORDER_PICKS];

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < nr; i++) {
		kv_prefetch_write(entry_at(order, victims[i]));
		family_prefetch(&order->family, victims[i]);
	}
	if (!order->ops->ahead)
		return;
	order->ops->ahead(policy, victims, nr, ahead);
	for (u32 i = 0; i < nr; i++) {
		kv_prefetch_write(entry_at(order, ahead[i]));
		family_prefetch(&order->family, ahead[i]);
	}
	order->ops->expect(policy, ahead, nr, false);
}

/* Up to @nr victims of one instance. */
static u32 pick_some(struct order *order, void *policy, u32 nr, u32 *victims)
{
	u32 nr_done;

	kv_assert_held(&order->lock);
	if (order->ops->pick_many) {
		nr_done = order->ops->pick_many(policy, nr, victims);
	} else {
		*victims = order->ops->pick(policy);
		nr_done = *victims < order->entries->nr;
	}
	look_ahead(order, policy, victims, nr_done);
	order->stamp += nr_done;
	for (u32 i = 0; i < nr_done; i++)
		picked_out(order, victims[i]);
	return nr_done;
}

static void pick_ahead(struct order *order, struct picked *picked, u32 nr)
{
	u32 most = is_one(order) ? nr : 1;

	kv_assert_held(&order->lock);
	order->goes_on = false;
	for (picked->nr = 0; picked->nr < nr;) {
		void *policy = turn_next(order);
		u32 nr_new = likely(policy != NULL) ?
			     pick_some(order, policy, min(nr - picked->nr, most),
				       picked->index + picked->nr) : 0;

		picked->nr += nr_new;
		if (!nr_new)
			return;
	}
}

static void unpick(struct order *order, u32 index)
{
	kv_assert_held(&order->lock);
	order->stamp--;
	picked_back(order, index);
	order->ops->unpick(order_policy(order, index), index);
}

/* It has children, so a leaf below goes first: victims picked behind it are to be picked again. */
static void replace(struct order *order, struct picked *picked, u32 at)
{
	u32 top = picked->index[at];

	kv_assert_held(&order->lock);
	while (picked->nr > at + 1)
		unpick(order, picked->index[--picked->nr]);
	picked_back(order, top);
	picked->index[at] = take_leaf(order, top);
	picked_out(order, picked->index[at]);
}

/*
 * A referenced block is out of the order now, for good, and comes back with its last put. Then the
 * policy cannot put back what it picked before to where it was.
 */
static bool claim(struct order *order, u32 index)
{
	struct kv_entry *entry = entry_at(order, index);
	u64 word = smp_load_acquire(&entry->word);

	kv_assert_held(&order->lock);
	kv_assert(index < order->entries->nr);
	if (likely(!kv_entry_step_from(entry, word, kv_edge_claim)))
		return true;
	unpick(order, index);
	order_changed(order);
	order->ops->leave(order_policy(order, index), index);
	return false;
}

u32 order_pick(struct order *order, u32 nr, u32 *victims)
{
	struct picked picked;
	u32 nr_victims = 0;

	kv_assert_held(&order->lock);
	pick_ahead(order, &picked, min(nr, ORDER_PICKS));
	for (u32 i = 0; i < picked.nr; i++) {
		if (unlikely(family_first(&order->family, picked.index[i]) != KV_NONE))
			replace(order, &picked, i);
		family_del(&order->family, picked.index[i]);
		victims[nr_victims] = picked.index[i];
		nr_victims += claim(order, picked.index[i]);
	}
	if (likely(nr_victims))
		order->nr_vain = 0;
	return nr_victims;
}

u32 order_peek(struct order *order)
{
	struct picked picked;

	kv_assert_held(&order->lock);
	pick_ahead(order, &picked, 1);
	if (!picked.nr)
		return KV_NONE;
	if (unlikely(family_first(&order->family, picked.index[0]) != KV_NONE))
		replace(order, &picked, 0);
	family_del(&order->family, picked.index[0]);
	return picked.index[0];
}

/* Of the block before, or of what is there since. It may have got another name, and have none. */
static u32 parent_entry(const struct order *order, u32 index)
{
	u32 link = READ_ONCE(entry_at(order, index)->parent);

	return link == KV_NONE ? KV_NONE : kv_link_index(link);
}

void order_unpeek(struct order *order, u32 index)
{
	u32 parent = parent_entry(order, index), elder;

	kv_assert_held(&order->lock);
	unpick(order, index);
	if (likely(!family_was_in(&order->family, index)))
		return;
	/* To its place among the children of its parent, or of the entry that is there since. */
	elder = family_elder(&order->family, index);
	family_undel(&order->family, index, parent,
		     elder != KV_NONE && family_has(&order->family, elder) &&
		     parent_entry(order, elder) == parent);
}

bool order_take(struct order *order, u32 index)
{
	kv_assert_held(&order->lock);
	if (!order_has(order, index) || order_child(order, index, KV_NONE) != KV_NONE)
		return false;
	order->ops->take(order_policy(order, index), index);
	order->stamp++;
	family_del(&order->family, index);
	picked_out(order, index);
	return claim(order, index);
}

void order_unpick(struct order *order, u32 index)
{
	struct kv_entry *entry = entry_at(order, index);

	kv_assert_held(&order->lock);
	kv_assert(index < order->entries->nr);
	KV_BUG_ON(kv_entry_step(entry, kv_word_gen(READ_ONCE(entry->word)), kv_edge_unclaim));
	order_unpeek(order, index);
}

/* An entry that comes and goes makes the policy forget how to undo exactly. */
void order_unpick_late(struct order *order, u32 index)
{
	const struct kv_entry *entry = entry_at(order, index);
	bool has_key = !(READ_ONCE(entry->word) & KV_ENTRY_MARK);
	kvmm_key_t key = kv_entry_key(entry);
	void *policy = order_policy(order, index);

	kv_assert_held(&order->lock);
	kv_assert(index < order->entries->nr);
	order->ops->enter(policy, index, has_key ? &key : NULL);
	order->ops->leave(policy, index);
	order_changed(order);
	order_unpick(order, index);
}

/* Children in the list of an entry have links to it. */
static bool kids_are_sound(const struct order *order, u32 parent)
{
	u32 kid = family_first(&order->family, parent), left = order->entries->nr, link;

	kv_assert_held(&order->lock);
	for (; kid != KV_NONE; kid = family_next(&order->family, kid)) {
		if (kid >= order->entries->nr || !left--)
			return false;
		link = READ_ONCE(entry_at(order, kid)->parent);
		if (link == KV_NONE || kv_link_index(link) != parent)
			return false;
	}
	return true;
}

int order_check(struct order *order)
{
	struct account *account;
	u64 marks = order->nr_stays | order->nr_stayed;

	kv_assert_held(&order->lock);
	for (u32 i = 0; i < stays_bytes(order->entries->nr) / sizeof(marks); i++)
		marks |= order->stays[i];
	if (marks)
		return -EUCLEAN;
	for (u32 i = 0; i < order->entries->nr; i++)
		if (!kids_are_sound(order, i))
			return -EUCLEAN;
	for_each_account(order, account)
		for (u32 class = 0; class < order->nr_policies; class++) {
			u32 next = order->quotas ? account->next[class] : KV_NONE;

			if (order->ops->check(account->policy[class]))
				return -EUCLEAN;
			if (next != KV_NONE && (next >= order->entries->nr ||
						!order->ops->has(account->policy[class], next)))
				return -EUCLEAN;
		}
	return 0;
}

int order_init(struct order *order, const struct kv_evict_ops *ops, const char *args,
	       struct kv_entries *entries, u32 id)
{
	u32 nr = order->classes ? order->classes->nr : 1;
	int err;

	kv_lock_init(&order->lock, KV_RANK_EVICT, id);
	kv_lock_init(&order->log_lock, KV_RANK_LEAF, id);
	order->entries = entries;
	order->mark = (struct order_mark){ KV_NONE, KV_NONE };
	order->ops = ops;
	if (args) {	/* the caller's go with its call; more policies may be made later */
		order->args = kv_alloc(strlen(args) + 1);
		if (!order->args)
			return -ENOMEM;
		memcpy(order->args, args, strlen(args));
	}
	order->stays = kv_alloc(stays_bytes(entries->nr));
	err = order->stays ? family_init(&order->family, entries->nr) : -ENOMEM;
	for (u32 class = 0; class < nr && !err; class++) {
		err = order_make_policy(order, &order->rest.policy[class]);
		order->nr_policies += order->rest.policy[class] != NULL;
	}
	return err;
}

u64 order_bytes(const struct order *order)
{
	return order->nr_policies * order_policy_bytes(order) +
	       family_bytes(order->entries->nr) + stays_bytes(order->entries->nr) +
	       classes_bytes(order->classes);
}

void order_exit(struct order *order)
{
	account_exit(order, &order->rest);
	kv_free(order->args);
	kv_free(order->stays);
	family_exit(&order->family);
	classes_destroy(order->classes);
}
