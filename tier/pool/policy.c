// SPDX-License-Identifier: Apache-2.0
/*
 * When a block is copied down without being asked for, and whether loading is worth its time.
 *
 * Uses are counted where blocks are hit, without a lock and so that a count may be lost: a hit that
 * misses the moment at which a block becomes worth a copy leaves it to the next use. The same line
 * remembers blocks with copies that may have been evicted meanwhile: they are looked at again every
 * few uses.
 */
#include <pool/local.h>

#include "tier.h"

/* ---- uses ---- */

#define SEEN_BITS	5u
#define SEEN_LOADED	16u	/* and not used since */
#define SEEN_MAX	15u
#define SEEN_AGAIN	8u	/* of SEEN_MAX: so many uses from one look to the next */

/* One use more, the registration being the first: how many there are now. */
static u32 seen_more(u32 *word, u32 gen, bool *was_loaded)
{
	u32 old = READ_ONCE(*word);	/* relaxed: a statistic, which may lose */
	bool is_same = old >> SEEN_BITS == (gen & (UINT32_MAX >> SEEN_BITS));
	u32 nr = is_same ? old & SEEN_MAX : 1;

	*was_loaded = is_same && old & SEEN_LOADED;
	nr = nr < SEEN_MAX ? nr + 1 : SEEN_AGAIN;
	WRITE_ONCE(*word, gen << SEEN_BITS | nr);
	return nr;
}

static void want_copy(struct lower *lower, struct kv_handle handle)
{
	struct below *below = below_of(lower, handle);

	kv_assert_held(&lower->lock);
	if (below->state == BELOW_CLEAN && kv_tier_has(lower->client, below->copy))
		return;
	if (below->state == BELOW_NONE || below->state == BELOW_CLEAN)
		below_queue(lower, handle, 0);
	else if (below->state == BELOW_FLYING)
		below->again = below->renamed;
}

static void touch(struct kvmm_pool *pool, struct lower *lower, const struct kv_handle *refs, u32 nr)
{
	bool copies = READ_ONCE(lower->config.write) == KVMM_TIER_SELECTIVE;
	u32 touches = thrash_touches(lower);

	kv_assert_reading();
	for (u32 i = 0; i < nr; i++) {
		u32 *word = &lower->seen[refs[i].index], now;
		bool was_loaded;

		if (!refs[i].gen)
			continue;
		now = seen_more(word, refs[i].gen, &was_loaded);
		if (was_loaded || now <= READ_ONCE(lower->config.touches) + 1) {
			/* It is the caller's; a ghost has to know its worth. */
			const struct kv_entry *entry = entry_at(pool, refs[i].index);
			kvmm_key_t key = kv_entry_key(entry);

			thrash_used(lower, &key, kv_entry_domain(entry), now);
		}
		if (!copies || (now != touches && now != SEEN_AGAIN))
			continue;
		if (!kv_trylock(&lower->lock)) {
			/* No hit waits: the next use does it. */
			WRITE_ONCE(*word, READ_ONCE(*word) - 1);
			continue;
		}
		want_copy(lower, refs[i]);
		kv_unlock(&lower->lock);
	}
}

void lower_touched(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr)
{
	struct lower *lower;

	kv_rcu_read_lock();
	lower = lower_of(pool);
	if (lower)
		touch(pool, lower, refs, nr);
	kv_rcu_read_unlock();
}

/* Until it has been delivered it has a name among those on their way. */
static bool is_loaded(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain)
{
	bool found;

	kv_assert_reading();
	if (!READ_ONCE(lower->nr_used[true]))	/* its own item is there, if it is */
		return false;
	kv_lock(&lower->lock);
	found = item_find(lower, key, domain) != KV_NONE;
	kv_unlock(&lower->lock);
	return found;
}

/* Its uses so far, before it was evicted, too: is it worth a copy? The caller has a reference. */
static bool is_wanted(struct kvmm_pool *pool, struct lower *lower, struct kv_handle handle,
		      u32 write)
{
	const struct kv_entry *entry = entry_at(pool, handle.index);
	kvmm_key_t key = kv_entry_key(entry);
	bool is_load = is_loaded(lower, &key, kv_entry_domain(entry));
	u32 uses = thrash_filled(lower, &key, kv_entry_domain(entry), is_load);

	kv_assert(handle.index < pool->entries.nr);
	WRITE_ONCE(lower->seen[handle.index],
		   handle.gen << SEEN_BITS | (is_load ? SEEN_LOADED : 0) | uses);
	if (is_load)
		return false;	/* it has its copy */
	return write == KVMM_TIER_THROUGH ||
	       (write == KVMM_TIER_SELECTIVE && uses >= thrash_touches(lower));
}

void lower_filled(struct kvmm_pool *pool, const struct kv_handle *handles,
		  const struct kv_handle *found, u32 nr)
{
	struct lower *lower;
	u32 write;

	kv_rcu_read_lock();
	lower = lower_of(pool);
	write = lower ? READ_ONCE(lower->config.write) : KVMM_TIER_EXPLICIT;
	for (u32 i = 0; i < nr && lower; i++) {
		if (handles[i].index != found[i].index || handles[i].gen != found[i].gen)
			continue;
		if (!is_wanted(pool, lower, handles[i], write))
			continue;
		kv_lock(&lower->lock);
		want_copy(lower, handles[i]);
		kv_unlock(&lower->lock);
	}
	kv_rcu_read_unlock();
}

/* Blocks that have another first name now, or one more: it goes down, too, if the others have. */
void lower_named(struct kvmm_pool *pool, const struct kv_handle *handles,
		 const struct kvmm_name *names, u32 nr)
{
	struct lower *lower;

	kv_assert_held(&pool->compact_lock);
	kv_rcu_read_lock();
	lower = lower_of(pool);
	for (u32 i = 0; i < nr && lower; i++) {
		u32 name;

		/* It may be forgotten at any time: what is copied is looked at again. */
		kv_lock(&pool->lock);
		name = name_find(pool, handles[i].index, &names[i]);
		pool_leave(pool);
		if (name == handles[i].index) {
			lower_filled(pool, &handles[i], &handles[i], 1);
			continue;
		}
		kv_lock(&lower->lock);
		if (name != KV_NONE && below_of(lower, handles[i])->state == BELOW_CLEAN)
			below_queue(lower, handles[i], 0)->name = name;
		kv_unlock(&lower->lock);
	}
	kv_rcu_read_unlock();
}

/* ---- fullness ---- */

#define LOOK_MAX	1024u	/* victims that one look goes through */
#define LOOK_STEPS	8u	/* for each block that has come or gone since */
#define LEAVE_MAX	256u	/* blocks that one look at those to leave does */

static bool is_inactive(u64 word)
{
	return kv_word_is(word, KV_ENTRY_REGISTERED) && !(word & (KV_ENTRY_REFS | KV_ENTRY_MOVING));
}

/* It goes when it has a copy. */
static void queue_drop(struct lower *lower, struct kv_handle handle)
{
	struct below *below = below_of(lower, handle);

	kv_assert_held(&lower->lock);
	if (below->state != BELOW_FLYING && below->state != BELOW_QUEUED)
		below = below_queue(lower, handle, 0);
	below->drop = true;
}

/* How many blocks have come into the order, or left it, at most, since its stamp was @stamp. */
static u32 news_since(const struct order *order, u64 stamp)
{
	kv_assert_held(&order->lock);
	return (u32)order->stamp - (u32)stamp + (u32)((order->stamp >> 32) - (stamp >> 32));
}

/*
 * How far to look; 0: not at all. Victims of the last long look have their copies, or get them, and
 * those that are left of them are still the first to go, but for blocks that came since. So a long
 * look waits until one in LOOK_STEPS of them may be gone, or as many more are wanted; evictions
 * find the others meanwhile. Before that a short one goes through the first LOOK_STEPS for each of
 * the news: with some policies a newcomer is among the next to go. So either takes a bounded number
 * of steps for each block that has come or gone, however many are clean.
 *
 * With 2 steps, prompts in bursts and "lrfu" find 96 % of what a look through all of them at each
 * poll lets them find; with 4, 98 %; with 8, 99.5 %.
 */
static u32 how_far(const struct order *order, const struct look *last, u32 max)
{
	u64 news = news_since(order, last->long_stamp);

	kv_assert_held(&order->lock);
	news += max > last->max ? max - last->max : 0;
	if (LOOK_STEPS * news >= last->nr)
		return max;
	return min(LOOK_STEPS * (u64)news_since(order, last->stamp), max);
}

/* The next victims, which stay where they are: at most @wanted, in order. */
static u32 peek_victims(struct kvmm_pool *pool, struct look *look, struct kv_handle *handles,
			u32 wanted)
{
	u32 max = how_far(&pool->order, look, wanted);
	struct order_mark mark = pool->order.mark;
	u32 index[LOOK_MAX], nr, nr_good = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	quota_begin(&pool->order, QUOTA_NONE, QUOTA_ANY);
	for (nr = 0; nr < max; nr++) {
		index[nr] = order_peek(&pool->order);
		if (index[nr] == KV_NONE)
			break;
	}
	for (u32 i = nr; i-- > 0;)
		order_unpeek(&pool->order, index[i]);
	quota_end(&pool->order);
	pool->order.mark = mark;
	look->stamp = pool->order.stamp;
	if (max == wanted)
		*look = (struct look){ look->stamp, look->stamp, nr, max };
	for (u32 i = 0; i < nr; i++)
		if (is_inactive(READ_ONCE(entry_at(pool, index[i])->word)))
			handles[nr_good++] = entry_handle(pool, index[i]);
	return nr_good;
}

/* Loaded blocks that are to leave do so when they have been used. */
static void look_at_leaving(struct kvmm_pool *pool, struct lower *lower)
{
	struct kv_handle handles[LEAVE_MAX];
	u32 nr = READ_ONCE(lower->thrash.nr_leaving) ? thrash_leave(lower, handles, LEAVE_MAX) : 0;

	kv_assert_not_held(&lower->lock);
	kv_lock(&lower->lock);
	for (u32 i = 0; i < nr; i++) {
		u64 word = READ_ONCE(entry_at(pool, handles[i].index)->word);

		if (kv_word_gen(word) != handles[i].gen)
			continue;
		if (is_inactive(word))
			queue_drop(lower, handles[i]);
		else
			thrash_stay(lower, handles[i]);
	}
	kv_unlock(&lower->lock);
}

/* Those that should go down now, so that the pool comes down to the low mark. */
static u32 find_victims(struct kvmm_pool *pool, struct look *look,
			const struct kvmm_tier_config *config, struct kv_handle *handles)
{
	u32 used, low, nr_parked, nr = 0;

	kv_assert(config->low_pm <= config->high_pm && config->high_pm <= 1000);
	if (cache_enter(pool))
		return 0;
	nr_parked = pool_nr_parked(pool);
	used = pool->nr_usable - min(pool_nr_free(pool) + nr_parked, pool->nr_usable);
	low = (u64)pool->nr_usable * config->low_pm / 1000;
	if ((u64)used * 1000 > (u64)pool->nr_usable * config->high_pm && used > low) {
		order_enter(&pool->order);
		/* Parked blocks may be among the next ones, and have no content to be copied. */
		nr = peek_victims(pool, look, handles, min(used - low + nr_parked, LOOK_MAX));
		nr = min(nr, used - low);
		order_leave(&pool->order);
	}
	cache_leave(pool);
	return nr;
}

void policy_look(struct kvmm_pool *pool, struct lower *lower)
{
	struct kv_handle handles[LOOK_MAX];
	struct kvmm_tier_config config;
	bool drop;
	u32 nr;

	kv_assert_not_held(&lower->lock);
	look_at_leaving(pool, lower);
	kv_lock(&lower->lock);
	config = lower->config;
	kv_unlock(&lower->lock);
	if (config.write != KVMM_TIER_BACK && config.write != KVMM_TIER_THRESHOLD)
		return;
	if (READ_ONCE(lower->nr_heap) >= LOOK_MAX)	/* the last look has not been dealt with */
		return;
	nr = find_victims(pool, &lower->look, &config, handles);
	if (!nr)
		return;
	kv_lock(&lower->lock);
	drop = config.write == KVMM_TIER_THRESHOLD && !thrash_spares(lower);
	for (u32 i = 0; i < nr; i++) {
		const struct kv_entry *entry = entry_at(pool, handles[i].index);

		/* Chosen without this lock: what is there now may be queued, or on its way. */
		if (kv_word_gen(READ_ONCE(entry->word)) != handles[i].gen)
			continue;
		if (drop)
			queue_drop(lower, handles[i]);
		else
			want_copy(lower, handles[i]);
	}
	kv_unlock(&lower->lock);
}

/* ---- load, or compute? ---- */

#define NS_PER_S	1000000000ull

struct costs {
	u64 wait_ns;		/* for blocks already on their way */
	u64 latency_ns;
	u64 block_ns;		/* to load one */
	u64 compute_ns;		/* one */
};

static struct costs costs_of(const struct kvmm_pool *pool, const struct lower *lower)
{
	const struct kvmm_tier_config *config = &lower->config;
	const struct kvmm_tier_client_stat *stat = &lower->stat;
	struct costs costs = {
		.latency_ns = config->up.latency_ns,
		.compute_ns = config->recompute_ns * pool->block_tokens,
	};

	kv_assert_held(&lower->lock);
	if (config->up.bytes_per_s)
		costs.block_ns = (unsigned __int128)lower->block_bytes * NS_PER_S /
				 config->up.bytes_per_s;
	else if (!config->up.latency_ns && stat->loads)
		costs.block_ns = stat->load_ns / stat->loads;
	costs.wait_ns = lower->nr_used[true] * costs.block_ns;
	return costs;
}

static u64 load_time(const struct costs *costs, u32 nr)
{
	return nr ? costs->wait_ns + costs->latency_ns + nr * costs->block_ns : 0;
}

/* Loading grows with its part, computing the rest shrinks: the best is where they meet. */
static u32 best_split(const struct costs *costs, u32 nr)
{
	u32 low = 0, high = nr;

	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (load_time(costs, mid) >= (nr - mid) * costs->compute_ns)
			high = mid;
		else
			low = mid + 1;
	}
	/* At @low loading takes as long or longer; one block less is the other side. */
	if (low && (nr - low + 1) * costs->compute_ns <= load_time(costs, low))
		low--;
	return low;
}

void lower_split(const struct kvmm_pool *pool, const struct lower *lower,
		 struct kvmm_tier_match_args *match)
{
	struct costs costs = costs_of(pool, lower);
	u32 nr = match->nr_lower, nr_load = costs.compute_ns ? best_split(&costs, nr) : nr;

	kv_assert_held(&lower->lock);
	match->nr_load = nr_load < lower->config.min_load ? 0 : nr_load;
	match->load_ns = load_time(&costs, match->nr_load);
	match->compute_ns = (nr - match->nr_load) * costs.compute_ns;
}
