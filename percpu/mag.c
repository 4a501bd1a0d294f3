// SPDX-License-Identifier: Apache-2.0
/*
 * Magazines, as seen from under the pool's lock: filled, emptied, given back by threads that end.
 * Their owners' way without a lock is in mag.h.
 *
 * A magazine belongs to a thread's number (kv/thread.h), so the next thread of that number finds it
 * made. Pools that have some are in one list, for threads that end; list_lock guards it, and comes
 * before any pool's lock.
 */
#include <kv/err.h>
#include <kv/fork.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "mag.h"

/* Fewer free blocks are few: one in so many, but two magazines at least. */
#define FLOOR_PART	8u

/* Then one block in so many may be aside, in all; where that is less than a magazine, none. */
#define SPARE_PART	64u

/* With fewer cached blocks none is evicted to be kept aside. */
#define CACHED_MIN	(8 * MAG_ROUNDS)

/* Calls that go through the lock before the zone is asked again whether it has enough. */
#define PATIENCE	32u

/* An owner is inside for tens of instructions, unless it lost its core there. */
#define OWNER_SPINS	200u
#define OWNER_SLEEP_NS	50000ull

/* For owners in flight when the system has taken kv_fence_all() away. */
#define FENCE_LOST_NS	10000000ull

static struct kv_lock list_lock = { .rank = KV_RANK_CONFIG, .id = 3 };
static struct mags *all_mags;		/* list_lock; of this process */
static u32 all_epoch;			/* list_lock */

static void list_enter(void)
{
	kv_lock(&list_lock);
	if (kv_fork_passed(&all_epoch))
		all_mags = NULL;
}

/* ---- keeping owners out ---- */

static void sleep_on(u32 *word, u32 old, u64 ns)
{
	const struct kv_env_ops *env = kv_env();

	env->wait(env->ctx, word, old, ns);
}

/* A system that refuses now may have agreed before; owners use a full fence from here on. */
static noinline void lose_fence(struct mags *mags)
{
	u64 until = kv_clock_ns() + FENCE_LOST_NS;

	WRITE_ONCE(mags->fenced, 1);
	kv_fence_full();
	while (kv_clock_ns() < until)
		sleep_on(&mags->fenced, 1, FENCE_LOST_NS);
}

/* Pairs with mag_enter() and enter(): an owner inside is seen, one that comes sees it disarmed. */
static void fence_owners(struct mags *mags)
{
	if (mags->fenced)
		kv_fence_full();
	else if (kv_fence_all())
		lose_fence(mags);
}

static void wait_for_owner(struct mag *mag)
{
	/* Acquire pairs with mag_leave(): the owner's changes of the content are visible. */
	for (u32 i = 0; smp_load_acquire(&mag->busy); i++)
		if (i >= OWNER_SPINS)
			sleep_on(&mag->busy, 1, OWNER_SLEEP_NS);
}

static struct mag *own_mag(const struct mags *mags)
{
	u32 slot = kv_thread_slot();

	return slot == KV_NONE ? NULL : mags->mag[slot];
}

static void arm(struct mags *mags, struct mag *mag)
{
	kv_assert_held(&mags->pool->lock);
	/* A pool that was closed a moment ago has it in the list, disarmed: there it stays. */
	if (mag->armed || pool_refusal(mags->pool))
		return;
	mag->next = mags->pool->armed;
	mags->pool->armed = mag;
	/* Pairs with mag_enter() and enter(): the blocks in there, and where they lie. */
	smp_store_release(&mag->armed, mags->fenced || mags->pool->zero ? MAG_ARMED_CALL :
									  MAG_ARMED);
}

/* ---- batches, by their owner ---- */

/* mag_enter() in every case, for @nr blocks. */
static struct mag *enter(struct mags *mags, u32 nr)
{
	struct mag *mag = nr - 1 < MAG_ROUNDS ? mag_of_thread(mags) : NULL;

	if (!mag)
		return NULL;
	WRITE_ONCE(mag->busy, 1);
	/* Pairs with fence_owners(), as in mag_enter(). */
	if (unlikely(READ_ONCE(mags->fenced)))
		kv_fence_full();
	else
		kv_fence_light();
	/* Acquire pairs with arm(), as in mag_enter(). */
	if (smp_load_acquire(&mag->armed) != MAG_DISARMED)
		return mag;
	mag_leave(mag);
	return NULL;
}

/* As it was, by the caller that has just taken it, or given it. */
static void retake(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u64 life)
{
	for (u32 i = 0; i < nr; i++)
		smp_store_release(&entry_at(pool, muts[i].index)->word,
				  kv_word_make(muts[i].gen, 0, life));
}

static bool take_entries(struct kvmm_pool *pool, struct mag *mag, u32 nr, kvmm_mut_t *blocks)
{
	u32 tick, left = mag->nr;

	if (left < nr)
		return false;
	tick = mag->allocs % MAG_TICKS ? READ_ONCE(pool->tick) : pool_tick(pool);
	for (u32 i = 0; i < nr; i++) {
		if (likely(mag_take_entry(pool, mag, mag->entry[left - 1 - i], tick, &blocks[i])))
			continue;
		retake(pool, blocks, i, mag->stamp);
		return false;
	}
	WRITE_ONCE(mag->nr, left - nr);
	WRITE_ONCE(mag->allocs, mag->allocs + 1);
	WRITE_ONCE(mag->allocs_more, mag->allocs_more + nr - 1);
	return true;
}

bool mag_alloc_some(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *blocks)
{
	struct mag *mag = enter(pool->mags, nr);
	bool done;

	if (!mag)
		return false;
	done = take_entries(pool, mag, nr, blocks);
	mag_leave(mag);
	return done;
}

static bool give_entries(struct kvmm_pool *pool, struct mag *mag, const kvmm_mut_t *blocks, u32 nr)
{
	u32 used = mag->nr;

	if (used + nr > MAG_ENTRIES)
		return false;
	for (u32 i = nr; i-- > 0;) {
		u32 index = blocks[i].index;

		if (likely(mag_give_entry(pool, mag, index, blocks[i].gen))) {
			mag->entry[used++] = index;
			continue;
		}
		retake(pool, blocks + i + 1, nr - i - 1, KV_WORD_PRIVATE);
		return false;
	}
	WRITE_ONCE(mag->nr, used);
	WRITE_ONCE(mag->frees, mag->frees + 1);
	WRITE_ONCE(mag->frees_more, mag->frees_more + nr - 1);
	return true;
}

bool mag_free_some(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr)
{
	struct mag *mag = enter(pool->mags, nr);
	bool done;

	if (!mag)
		return false;
	done = give_entries(pool, mag, blocks, nr);
	mag_leave(mag);
	return done;
}

/* ---- to the zone ---- */

static bool are_few(const struct kvmm_pool *pool, u32 nr_free)
{
	return nr_free < pool->mags->floor + door_floor(pool);
}

/* Numbers counted here count there. */
static void fold(struct kvmm_pool *pool, struct mag *mag)
{
	kv_assert_held(&pool->lock);
	kv_seq_write_begin(&pool->fold_seq);
	pool->count.allocs += mag->allocs;
	pool->count.alloc_blocks += mag->allocs + mag->allocs_more;
	pool->count.frees += mag->frees;
	pool->count.entry_gens += mag->frees + mag->frees_more;
	WRITE_ONCE(mag->allocs, 0);
	WRITE_ONCE(mag->allocs_more, 0);
	WRITE_ONCE(mag->frees, 0);
	WRITE_ONCE(mag->frees_more, 0);
	kv_seq_write_end(&pool->fold_seq);
}

/* One within another would look as if none were under way. */
static void mag_seq_begin(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	kv_assert(!(pool->mag_seq & 1));
	kv_seq_write_begin(&pool->mag_seq);
}

/* The oldest @nr. An entry without the tag is not the magazine's: it stays, the pool is closed. */
static u32 spill(struct kvmm_pool *pool, struct mag *mag, u32 nr)
{
	u32 index[MAG_ENTRIES], block[MAG_ENTRIES], nr_good = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		const struct kv_entry *entry = entry_at(pool, mag->entry[i]);

		if (POOL_BUG_ON(pool, kv_word_life(READ_ONCE(entry->word)) != mag->stamp))
			continue;
		index[nr_good] = mag->entry[i];
		block[nr_good] = entry_block(entry);
		owner_clear(pool, block[nr_good], 1);
		nr_good++;
	}
	mag_seq_begin(pool);
	if (nr_good) {
		kv_entries_unpocket(&pool->entries, index, nr_good);
		POOL_BUG_ON(pool, kv_zone_free_many(pool->zone, block, nr_good));
	}
	pool->count.nr_held -= nr_good;
	memmove(mag->entry, mag->entry + nr, (mag->nr - nr) * sizeof(mag->entry[0]));
	WRITE_ONCE(mag->nr, mag->nr - nr);
	kv_seq_write_end(&pool->mag_seq);
	fold(pool, mag);
	return nr_good;
}

void mags_disarm(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	for (struct mag *mag = pool->armed; mag; mag = mag->next)
		WRITE_ONCE(mag->armed, MAG_DISARMED);
}

u32 mags_drain(struct kvmm_pool *pool)
{
	struct mag *mag, *next;
	u32 nr = 0, patience;

	kv_assert_held(&pool->lock);
	if (!pool->armed)
		return 0;
	/* Another one would only drain it again. */
	patience = are_few(pool, kv_zone_nr_free(pool->zone)) ? PATIENCE : 0;
	mags_disarm(pool);
	if (pool->armed != own_mag(pool->mags) || pool->armed->next)
		fence_owners(pool->mags);
	for (mag = pool->armed; mag; mag = next) {
		next = mag->next;
		wait_for_owner(mag);
		nr += spill(pool, mag, mag->nr);
		mag->patience = patience;
	}
	pool->armed = NULL;
	return nr;
}

u32 mags_nr(const struct kvmm_pool *pool)
{
	u32 nr = 0;

	for (const struct mag *mag = pool->armed; mag; mag = mag->next)
		nr += READ_ONCE(mag->nr);
	return nr;
}

/* Few threads have a magazine: readers look no farther. */
static u32 nr_slots_of(const struct kvmm_pool *pool)
{
	u32 nr = pool->mags ? READ_ONCE(pool->mags->nr_slots) : 0;

	kv_assert(nr <= KV_THREAD_SLOTS);
	return nr;
}

u32 mags_peek_nr(const struct kvmm_pool *pool)
{
	u32 nr = 0;

	for (u32 slot = 0; slot < nr_slots_of(pool); slot++) {
		/* Pairs with __mag_make(): the magazine behind the pointer is complete. */
		const struct mag *mag = smp_load_acquire(&pool->mags->mag[slot]);

		nr += mag ? READ_ONCE(mag->nr) : 0;
	}
	return nr;
}

/* Magazines stay where they are as long as the pool lives, armed or not. */
u32 mags_peek(const struct kvmm_pool *pool, struct pool_count *count)
{
	u32 nr = 0;

	for (u32 slot = 0; slot < nr_slots_of(pool); slot++) {
		/* Pairs with __mag_make(): the magazine behind the pointer is complete. */
		const struct mag *mag = smp_load_acquire(&pool->mags->mag[slot]);
		u64 allocs = mag ? READ_ONCE(mag->allocs) : 0;

		if (!mag)
			continue;
		count->allocs += allocs;
		count->alloc_blocks += allocs + READ_ONCE(mag->allocs_more);
		count->frees += READ_ONCE(mag->frees);
		nr += READ_ONCE(mag->nr);
	}
	return nr;
}

/* ---- from the zone ---- */

void __mag_make(struct kvmm_pool *pool)
{
	struct mags *mags = pool->mags;
	u32 slot = kv_thread_claim_slot(), nr = READ_ONCE(mags->nr_slots);
	struct mag *mag;

	kv_assert_not_held(&pool->lock);
	if (slot == KV_NONE || likely(mags->mag[slot] != NULL))
		return;
	mag = kv_alloc_lines(1, sizeof(*mag));
	if (!mag)
		return;
	mag->stamp = kv_pocket_stamp(slot + 1);
	/* Pairs with mags_peek(): a reader that sees it sees that it is empty. */
	smp_store_release(&mags->mag[slot], mag);
	/* A reader that misses it misses no block: it is empty until the pool's lock was taken. */
	while (nr <= slot && !kv_cas(&mags->nr_slots, &nr, slot + 1))
		;
}

/* May the thread keep blocks aside? Asked seldom while the answer is no. */
static bool may_keep(struct kvmm_pool *pool, struct mag *mag)
{
	u32 nr_free;

	kv_assert_held(&pool->lock);
	if (mag->armed)
		return true;
	/* See unseen.h and door.h: a request that waits is to hear of each block. */
	if (pool->no_mags || pool->blind || pool->guard & ~GUARD_FLOORS)
		return false;
	if (mag->patience) {
		mag->patience--;
		return false;
	}
	nr_free = kv_zone_nr_free(pool->zone);
	if (!are_few(pool, nr_free))
		return true;
	if (nr_free >= door_floor(pool) && mags_nr(pool) + MAG_ROUNDS <= pool->spare)
		return true;
	mag->patience = PATIENCE;
	return false;
}

/* A batch from the zone: those that it named first are the first to be handed out. */
static bool take_free(struct kvmm_pool *pool, struct kv_handle *handles)
{
	u32 ids[MAG_ROUNDS];

	kv_assert_held(&pool->lock);
	if (kv_zone_nr_free(pool->zone) < door_floor(pool) + MAG_ROUNDS ||
	    kv_zone_alloc_many(pool->zone, MAG_ROUNDS, ids))
		return false;
	if (kv_entries_take(&pool->entries, MAG_ROUNDS, handles)) {
		POOL_BUG_ON(pool, kv_zone_free_many(pool->zone, ids, MAG_ROUNDS));
		return false;
	}
	for (u32 i = 0; i < MAG_ROUNDS; i++) {
		WRITE_ONCE(entry_at(pool, handles[i].index)->place, ids[i]);
		owner_fill_one(pool, ids[i], make_owner(OWNER_ENTRY, handles[i].index));
	}
	pool->count.nr_held += MAG_ROUNDS;
	return true;
}

/*
 * A batch that is evicted, with its entries, where so much is cached that it is not missed. The
 * number of cached blocks that went.
 */
static u32 take_cached(struct kvmm_pool *pool, struct kv_handle *handles, bool *taken)
{
	struct alloc_ctx ctx = { .nr = MAG_ROUNDS, .nr_missing = MAG_ROUNDS, .aside = true,
				 .blocks = (kvmm_mut_t *)handles };

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	*taken = order_nr(&pool->order) >= CACHED_MIN && !cache_take(pool, &ctx);
	order_leave(&pool->order);
	return ctx.evicted;
}

/* In a write of ->mag_seq. How many cached blocks went. */
static u32 load(struct kvmm_pool *pool, struct mag *mag, bool may_evict)
{
	struct kv_handle handles[MAG_ROUNDS];
	u32 nr_evicted = 0;
	bool taken;

	kv_assert_held(&pool->lock);
	if (are_few(pool, kv_zone_nr_free(pool->zone)) && mags_nr(pool) + MAG_ROUNDS > pool->spare)
		return 0;
	taken = take_free(pool, handles);
	if (!taken && may_evict)
		nr_evicted = take_cached(pool, handles, &taken);
	if (!taken)
		return nr_evicted;
	for (u32 i = 0; i < MAG_ROUNDS; i++)
		mag->entry[mag->nr + MAG_ROUNDS - 1 - i] = handles[i].index;
	kv_entries_pocket(&pool->entries, handles, MAG_ROUNDS, mag->stamp);
	WRITE_ONCE(mag->nr, mag->nr + MAG_ROUNDS);
	return nr_evicted;
}

noinline u32 __mag_fill(struct kvmm_pool *pool, bool may_evict)
{
	const struct kv_entry *top;
	struct mag *mag = own_mag(pool->mags);
	u32 nr_evicted = 0;

	kv_assert_held(&pool->lock);
	if (!mag || !may_keep(pool, mag))
		return 0;
	/* The block to be handed out next is the magazine's. */
	top = mag->nr ? entry_at(pool, mag->entry[mag->nr - 1]) : NULL;
	if (POOL_BUG_ON(pool, top && kv_word_life(READ_ONCE(top->word)) != mag->stamp))
		return 0;
	mag_seq_begin(pool);
	if (mag->nr < MAG_ROUNDS)
		nr_evicted = load(pool, mag, may_evict);
	kv_seq_write_end(&pool->mag_seq);
	arm(pool->mags, mag);
	return nr_evicted;
}

noinline void __mag_spill(struct kvmm_pool *pool)
{
	struct mag *mag = own_mag(pool->mags);

	kv_assert_held(&pool->lock);
	if (!mag || !may_keep(pool, mag))
		return;
	if (mag->nr > MAG_ROUNDS)
		spill(pool, mag, mag->nr - MAG_ROUNDS);
	arm(pool->mags, mag);
}

/* ---- threads that end, and forks ---- */

/* It is in no other hands any more but ours. */
static void give_back(struct kvmm_pool *pool, struct mag *mag)
{
	struct mag **at = &pool->armed;

	kv_lock(&pool->lock);
	if (mag->armed && !gate_refusal(pool->gate)) {
		WRITE_ONCE(mag->armed, MAG_DISARMED);
		while (*at && *at != mag)
			at = &(*at)->next;
		if (*at)
			*at = mag->next;
		spill(pool, mag, mag->nr);
	}
	mag->patience = 0;
	pool_leave(pool);
}

static void thread_exit(u32 slot)
{
	list_enter();
	for (struct mags *mags = all_mags; mags; mags = mags->next)
		if (mags->mag[slot])
			give_back(mags->pool, mags->mag[slot]);
	kv_unlock(&list_lock);
}

/* No thread gets past the gate of a child's pool, nor round it. */
static void mags_forked(struct kvmm_pool *pool)
{
	for (u32 slot = 0; pool->mags && slot < KV_THREAD_SLOTS; slot++)
		if (pool->mags->mag[slot])
			WRITE_ONCE(pool->mags->mag[slot]->armed, MAG_DISARMED);
}

/* ---- set-up ---- */

static int mags_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	struct mags *mags;

	/* Where the next block matters the zone alone says it; classes count private blocks. */
	if (!pool->caches || pool->no_mags || pool->deterministic ||
	    pool->window.nr > WINDOW_SORTS ||
	    pool->rounds || pool->order.classes || pool->parts.evict->keeps_unnamed ||
	    pool->nr_blocks < MAG_MIN_BLOCKS)
		return 0;
	mags = kv_alloc_lines(1, sizeof(*mags));
	if (!mags)
		return -ENOMEM;
	mags->pool = pool;
	mags->floor = max(pool->nr_usable / FLOOR_PART, 2 * MAG_ENTRIES);
	if (pool->nr_usable / SPARE_PART >= MAG_ENTRIES)
		pool->spare = pool->nr_usable / SPARE_PART;
	mags->fenced = kv_fence_all() != 0;
	pool->metadata_bytes += sizeof(*mags);
	pool->mags = mags;
	kv_thread_at_exit(thread_exit);
	list_enter();
	mags->next = all_mags;
	all_mags = mags;
	kv_unlock(&list_lock);
	return 0;
}

static void mags_exit(struct kvmm_pool *pool)
{
	struct mags *mags = pool->mags, **at = &all_mags;

	if (!mags)
		return;
	list_enter();
	while (*at && *at != mags)	/* not those from before a fork */
		at = &(*at)->next;
	if (*at)
		*at = mags->next;
	kv_unlock(&list_lock);
	for (u32 slot = 0; slot < KV_THREAD_SLOTS; slot++)
		kv_free(mags->mag[slot]);
	kv_free(mags);
	pool->mags = NULL;
}

POOL_PART(mags) = {
	.name	= "magazines",
	.init	= mags_init,
	.exit	= mags_exit,
	.forked	= mags_forked,
};
