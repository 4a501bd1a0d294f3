// SPDX-License-Identifier: Apache-2.0
/*
 * A match that goes on below: device first, then all blocks that can be loaded.
 *
 * Below the device keys are asked for up to the first that cannot be had, one kind of place after
 * the other: those that are on their way, then the device again, where blocks behind a hole may
 * be, then the host tier. Each answer is true at some moment of the call.
 */
#include <limits.h>

#include <cache/cache.h>

#include "tier.h"

/* A server has so many questions under way at most. */
#define MAX_AHEAD	1024u

static enum kvmm_tier_answer ask_below(struct kvmm_pool *pool, struct lower *lower,
				       const struct kvmm_prefix *prefix, u32 i, u8 *level)
{
	struct kv_query query = { &prefix->keys[i], 1, prefix->domain };
	enum kvmm_tier_answer answer;
	struct kv_tier_slot slot;

	kv_assert_held(&lower->lock);
	*level = KVMM_TIER_DEVICE;
	if (item_find(lower, &prefix->keys[i], prefix->domain) != KV_NONE)
		return KVMM_TIER_PENDING;
	if (kv_map_length(pool->map, &query))
		return KVMM_TIER_HIT;
	*level = KVMM_TIER_HOST;
	answer = kv_tier_find(lower->client, &prefix->keys[i], prefix->domain, KV_TIER_PEEK, &slot);
	if (answer != KVMM_TIER_MISS)
		return answer;
	*level = KVMM_TIER_DISK;
	return kv_tier_find_below(lower->client, &prefix->keys[i], prefix->domain);
}

static void note(const struct kvmm_tier_match_args *match, u32 i, enum kvmm_tier_answer answer,
		 u8 level)
{
	if (match->answers)
		match->answers[i] = answer;
	if (match->levels)
		match->levels[i] = level;
}

/* A server that cannot tell now is asked for the keys behind that one too, for the next time. */
static void ask_ahead(struct lower *lower, const struct kvmm_prefix *prefix, u32 from)
{
	u32 end = min(prefix->nr, from + MAX_AHEAD);

	for (u32 i = from; i < end && kv_tier_has_server(lower->tier); i++)
		kv_tier_find_below(lower->client, &prefix->keys[i], prefix->domain);
}

static void match_below(struct kvmm_pool *pool, struct lower *lower,
			struct kvmm_tier_match_args *match)
{
	const struct kvmm_prefix *prefix = match->prefix;

	kv_assert_reading();
	kv_lock(&lower->lock);
	for (u32 i = match->nr_device; i < prefix->nr; i++) {
		u8 level;
		enum kvmm_tier_answer answer = ask_below(pool, lower, prefix, i, &level);

		if (!(match->flags & KVMM_TIER_AGAIN)) {
			lower->stat.misses += answer == KVMM_TIER_MISS;
			lower->stat.pendings += answer == KVMM_TIER_PENDING;
			lower->stat.retries += answer == KVMM_TIER_RETRY;
		}
		note(match, i, answer, level);
		if (answer == KVMM_TIER_RETRY && level == KVMM_TIER_DISK)
			ask_ahead(lower, prefix, i + 1);
		if (answer == KVMM_TIER_MISS || answer == KVMM_TIER_RETRY) {
			match->stop = answer;
			break;
		}
		match->nr_lower++;
	}
	lower_split(pool, lower, match);
	kv_unlock(&lower->lock);
}

static int match_all(struct kvmm_pool *pool, struct kvmm_tier_match_args *match)
{
	const struct kvmm_prefix *prefix = match->prefix;
	struct kv_query query = query_of(prefix);
	struct kv_handle *found = (struct kv_handle *)match->refs;
	u32 nr = prefix->nr, nr_first;
	struct lower *lower;
	int err = cache_begin(pool);

	if (err)
		return err;
	lower = match->flags & KVMM_TIER_HERE ? NULL : lower_of(pool);
	for (u32 i = 0; i < nr; i++)
		note(match, i, KVMM_TIER_MISS, KVMM_TIER_DEVICE);
	/* As kvmm_prefix_match(). */
	match->nr_device = match_refs(pool, &query, found, &nr_first);
	order_note_seen(&pool->order, prefix->domain.tenant, prefix->keys, nr);
	note_refs(pool, found, match->nr_device, nr_first);
	pool_tell(pool, hit, found, match->nr_device);
	if (!match->flags)
		kv_lookup_end(pool, &query, nr, match->nr_device, KV_LOOKUP_UNTOLD);
	for (u32 i = 0; i < match->nr_device; i++)
		note(match, i, KVMM_TIER_HIT, KVMM_TIER_DEVICE);
	match->stop = match->nr_device < nr ? KVMM_TIER_MISS : KVMM_TIER_HIT;
	if (lower && match->nr_device < nr) {
		match->stop = KVMM_TIER_HIT;
		match_below(pool, lower, match);
	}
	cache_end(pool);
	pool_tell(pool, touched, found, match->nr_device);
	return match->nr_device + match->nr_lower;
}

int kvmm_tier_match(struct kvmm_pool *pool, struct kvmm_tier_match_args *match)
{
	const struct kvmm_prefix *prefix;
	struct kvmm_tier_match_args known;
	int nr;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !match || kv_copy_attr(&known, sizeof(known), match))
		return -EINVAL;
	prefix = known.prefix;
	if (!prefix || prefix->nr > INT_MAX || known.reserved ||
	    known.flags & ~(KVMM_TIER_ACQUIRED | KVMM_TIER_AGAIN | KVMM_TIER_HERE) ||
	    (prefix->nr && (!prefix->keys || !known.refs)))
		return -EINVAL;
	known.nr_device = known.nr_lower = known.stop = known.nr_load = 0;
	known.load_ns = known.compute_ns = 0;
	nr = match_all(pool, &known);
	if (nr >= 0)
		kv_give_sized(match, &known, sizeof(known));
	return nr;
}

int kvmm_tier_forget(struct kvmm_pool *pool, const struct kvmm_prefix *prefix)
{
	struct lower *lower;
	int ret = lower_enter(pool, &lower);

	if (ret)
		return ret;
	if (!prefix || (prefix->nr && !prefix->keys) || prefix->nr > INT_MAX)
		return -EINVAL;
	up_forget(lower, prefix);
	ret = kv_tier_forget(lower->client, prefix);
	/* Loads that found it before it was gone. */
	up_forget(lower, prefix);
	told_flush(pool, lower);
	return ret;
}

int tier_recall(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_prefix *prefix = value;
	struct lower *lower;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (!prefix || (prefix->nr && !prefix->keys) || prefix->nr > INT_MAX)
		return -EINVAL;
	return kv_tier_recall(lower->client, prefix);
}

int lower_reset(struct kvmm_pool *pool)
{
	struct lower *lower = lower_of(pool);
	int err;

	if (!lower)
		return 0;
	err = kv_tier_reset(lower->client);
	up_forget_all(lower);
	told_flush(pool, lower);
	return err;
}
