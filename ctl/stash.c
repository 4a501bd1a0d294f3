// SPDX-License-Identifier: Apache-2.0
/* Places in a ring by age, found by a chained hash over their keys; see stash.h. */
#include <errno.h>
#include <string.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/hash.h>
#include <kv/mem.h>

#include "stash.h"

#define MAX_PLACES	(1u << 26)
#define NO_PLACE	UINT32_MAX

struct stash_place {
	kvmm_key_t	key;
	u32		next;		/* in the chain of its bucket */
	u32		older;		/* in the ring; of the oldest: the newest */
	u32		newer;
	u32		is_used;
};

int stash_init(struct stash *stash, u32 nr_places, u32 block_tokens)
{
	*stash = (struct stash){ .nr_places = nr_places, .block_tokens = block_tokens };
	if (!nr_places)
		return 0;
	if (nr_places > MAX_PLACES || !block_tokens)
		return -EINVAL;
	kv_lock_init(&stash->lock, KV_RANK_LEAF, 0);
	stash->secret = kv_random();
	for (stash->nr_buckets = 1; stash->nr_buckets < nr_places;)
		stash->nr_buckets *= 2;
	stash->place = kv_alloc_array(nr_places, sizeof(*stash->place));
	stash->token = kv_alloc_array(nr_places, (size_t)block_tokens * sizeof(*stash->token));
	stash->bucket = kv_alloc_array(stash->nr_buckets, sizeof(*stash->bucket));
	if (!stash->place || !stash->token || !stash->bucket) {
		stash_exit(stash);
		return -ENOMEM;
	}
	memset(stash->bucket, 0xff, stash->nr_buckets * sizeof(*stash->bucket));
	for (u32 i = 0; i < nr_places; i++) {
		stash->place[i].older = i ? i - 1 : nr_places - 1;
		stash->place[i].newer = i + 1 < nr_places ? i + 1 : 0;
	}
	return 0;
}

void stash_exit(struct stash *stash)
{
	kv_free(stash->place);
	kv_free(stash->token);
	kv_free(stash->bucket);
	*stash = (struct stash){ 0 };
}

static u32 *bucket_of(struct stash *stash, const kvmm_key_t *key)
{
	return &stash->bucket[kv_hash_key(key, stash->secret) & (stash->nr_buckets - 1)];
}

static u32 *token_at(struct stash *stash, u32 place)
{
	return &stash->token[(size_t)place * stash->block_tokens];
}

/* Where the link to the place of @key is, or to nothing. */
static u32 *find(struct stash *stash, const kvmm_key_t *key)
{
	u32 *at = bucket_of(stash, key);

	kv_assert_held(&stash->lock);
	while (*at != NO_PLACE && memcmp(&stash->place[*at].key, key, sizeof(*key)))
		at = &stash->place[*at].next;
	return at;
}

/* Behind the newest. */
static void make_newest(struct stash *stash, u32 index)
{
	struct stash_place *place = &stash->place[index], *oldest;
	u32 newest;

	if (index == stash->oldest) {
		stash->oldest = place->newer;
		return;
	}
	stash->place[place->older].newer = place->newer;
	stash->place[place->newer].older = place->older;
	oldest = &stash->place[stash->oldest];
	newest = oldest->older;
	stash->place[newest].newer = index;
	place->older = newest;
	place->newer = stash->oldest;
	oldest->older = index;
}

static u32 place_for(struct stash *stash, const kvmm_key_t *key)
{
	u32 index = *find(stash, key), *at;
	struct stash_place *place;

	if (index != NO_PLACE)
		return index;
	index = stash->oldest;
	place = &stash->place[index];
	if (place->is_used)
		*find(stash, &stash->place[index].key) = stash->place[index].next;
	at = bucket_of(stash, key);
	place->key = *key;
	place->next = *at;
	place->is_used = 1;
	*at = index;
	return index;
}

void stash_put(struct stash *stash, const kvmm_key_t *keys, u32 nr, const u32 *token)
{
	for (u32 i = 0; stash->nr_places && i < nr; i++) {
		u32 index;

		kv_lock(&stash->lock);
		index = place_for(stash, &keys[i]);
		make_newest(stash, index);	/* a block that is told again, too */
		memcpy(token_at(stash, index), token + (size_t)i * stash->block_tokens,
		       stash->block_tokens * sizeof(*token));
		kv_unlock(&stash->lock);
	}
}

bool stash_get(struct stash *stash, const kvmm_key_t *key, u32 *to)
{
	u32 index = NO_PLACE;

	if (!stash->nr_places)
		return false;
	kv_lock(&stash->lock);
	index = *find(stash, key);
	if (index != NO_PLACE)
		memcpy(to, token_at(stash, index), stash->block_tokens * sizeof(*to));
	kv_unlock(&stash->lock);
	return index != NO_PLACE;
}
