// SPDX-License-Identifier: Apache-2.0
/* A cache of names behind one mutex; see lru.h. */
#include <errno.h>
#include <pthread.h>

#include <kv/bits.h>
#include <kv/hash.h>

#include "lru.h"
#include "pools.h"

#define NONE	UINT32_MAX

struct block {
	kvmm_key_t key;
	u32 older, newer;	/* in the list; the last one is its head */
	u32 chain;		/* of names with this hash */
	bool named;
} __attribute__((aligned(64)));

struct lru {
	pthread_mutex_t mutex;
	u32 nr;			/* block @nr is the list's head: ->older the newest */
	u32 mask;
	u32 *bucket;
	struct block *block;
};

static u32 *bucket_of(const struct lru *lru, const kvmm_key_t *key)
{
	return &lru->bucket[kv_hash_key(key, 1) & lru->mask];
}

static void list_add(struct lru *lru, u32 id)
{
	struct block *head = &lru->block[lru->nr];

	lru->block[id].older = head->older;
	lru->block[id].newer = lru->nr;
	lru->block[head->older].newer = id;
	head->older = id;
}

static void list_del(struct lru *lru, u32 id)
{
	const struct block *block = &lru->block[id];

	lru->block[block->older].newer = block->newer;
	lru->block[block->newer].older = block->older;
}

struct lru *lru_open(u32 nr)
{
	struct lru *lru = must_alloc(sizeof(*lru));

	*lru = (struct lru){ .nr = nr, .mask = (1u << kv_order(nr)) - 1 };
	pthread_mutex_init(&lru->mutex, NULL);
	lru->block = large_alloc((nr + 1ul) * sizeof(*lru->block));
	lru->bucket = large_alloc((lru->mask + 1ul) * sizeof(*lru->bucket));
	memset(lru->bucket, 0xff, (lru->mask + 1ul) * sizeof(*lru->bucket));
	lru->block[nr].older = lru->block[nr].newer = nr;
	for (u32 i = 0; i < nr; i++)
		list_add(lru, i);
	return lru;
}

void lru_close(struct lru *lru)
{
	if (!lru)
		return;
	free(lru->block);
	free(lru->bucket);
	free(lru);
}

static void forget(struct lru *lru, u32 id)
{
	u32 *link = bucket_of(lru, &lru->block[id].key);

	while (*link != id)
		link = &lru->block[*link].chain;
	*link = lru->block[id].chain;
	lru->block[id].named = false;
}

int lru_take(struct lru *lru, u32 nr, u32 *ids)
{
	u32 i;

	pthread_mutex_lock(&lru->mutex);
	for (i = 0; i < nr; i++) {
		ids[i] = lru->block[lru->nr].newer;
		if (ids[i] == lru->nr)
			break;
		list_del(lru, ids[i]);
		if (lru->block[ids[i]].named)
			forget(lru, ids[i]);
	}
	pthread_mutex_unlock(&lru->mutex);
	return i < nr ? -ENOSPC : 0;
}

static int name_one(struct lru *lru, u32 id, const kvmm_key_t *key)
{
	u32 *bucket = bucket_of(lru, key);

	for (u32 at = *bucket; at != NONE; at = lru->block[at].chain)
		if (!memcmp(&lru->block[at].key, key, sizeof(*key)))
			return -EEXIST;
	lru->block[id].key = *key;
	lru->block[id].chain = *bucket;
	lru->block[id].named = true;
	*bucket = id;
	return 0;
}

int lru_name(struct lru *lru, const u32 *ids, const kvmm_key_t *keys, u32 nr)
{
	int err = 0;

	pthread_mutex_lock(&lru->mutex);
	for (u32 i = 0; !err && i < nr; i++)
		err = name_one(lru, ids[i], &keys[i]);
	pthread_mutex_unlock(&lru->mutex);
	return err;
}

void lru_put(struct lru *lru, const u32 *ids, u32 nr)
{
	pthread_mutex_lock(&lru->mutex);
	for (u32 i = 0; i < nr; i++)
		list_add(lru, ids[i]);
	pthread_mutex_unlock(&lru->mutex);
}
