// SPDX-License-Identifier: Apache-2.0
/*
 * A registry of chains: buckets of doubly linked entries, all in side memory.
 *
 * Each entry's copy of its key lies beside its links, in half a cache line, so a lookup touches
 * one line for the bucket and one for each entry that it passes. New entries go to the end of
 * their chain: that is what keeps duplicates of one key in the order of their arrival. The head's
 * ->prev is the end of the chain, so add and del take constant time.
 *
 * Everything is guarded by the owner's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/hash.h>
#include <kv/registry.h>

/* Tests compile this file with few buckets, so that chains get long. */
#ifndef KV_REGISTRY_MAX_BUCKETS
#define KV_REGISTRY_MAX_BUCKETS	KVMM_MAX_BLOCKS
#endif

struct node {
	kvmm_key_t key;
	u32 next;		/* or KV_NONE at the end */
	u32 prev;		/* of the head: the end */
	u32 bucket;		/* the chain it is in */
	u32 in;			/* 1 while it is in a chain, else 0 */
};

static_assert(sizeof(struct node) == KV_CACHELINE / 2, "an entry is within one line");

struct chains {
	u64 seed;		/* fixed at creation */
	u32 nr_entries;		/* fixed at creation */
	u32 nr_buckets;		/* fixed at creation; a power of two */
	u32 nr;			/* entries in all chains */
	u32 *head;		/* fixed pointer: by bucket, an entry or KV_NONE */
	struct node *node;	/* fixed pointer: by entry */
};

static u32 nr_buckets_for(u32 nr_entries)
{
	return min(BIT(kv_order(nr_entries)), (u32)KV_REGISTRY_MAX_BUCKETS);
}

static size_t chains_bytes(u32 nr_entries)
{
	return sizeof(struct chains) + KV_CACHELINE + nr_entries * sizeof(struct node) +
	       nr_buckets_for(nr_entries) * sizeof(u32);
}

static void chains_init(void *registry, u32 nr_entries, u64 seed)
{
	struct chains *chains = registry;
	u64 nodes = kv_align_up((uintptr_t)(chains + 1), KV_CACHELINE);

	chains->seed = seed;
	chains->nr_entries = nr_entries;
	chains->nr_buckets = nr_buckets_for(nr_entries);
	chains->node = (struct node *)(uintptr_t)nodes;
	chains->head = (u32 *)(chains->node + nr_entries);
	memset(chains->head, 0xff, chains->nr_buckets * sizeof(u32));
}

static u32 bucket_of(const struct chains *chains, const kvmm_key_t *key)
{
	return kv_hash_key(key, chains->seed) & (chains->nr_buckets - 1);
}

static void link_last(struct chains *chains, u32 *head, u32 entry)
{
	struct node *node = chains->node;

	node[entry].next = KV_NONE;
	if (*head == KV_NONE) {
		node[entry].prev = entry;
		*head = entry;
		return;
	}
	node[entry].prev = node[*head].prev;
	node[node[*head].prev].next = entry;
	node[*head].prev = entry;
}

static void unlink_entry(struct chains *chains, u32 *head, u32 entry)
{
	struct node *node = chains->node;
	u32 next = node[entry].next, prev = node[entry].prev;

	if (entry != *head)
		node[prev].next = next;
	if (next != KV_NONE)
		node[next].prev = prev;
	else if (entry != *head)
		node[*head].prev = prev;
	if (entry == *head)
		*head = next;
}

static void chains_add(void *registry, u32 entry, const kvmm_key_t *key)
{
	struct chains *chains = registry;
	struct node *node = &chains->node[entry];

	if (KV_BUG_ON(entry >= chains->nr_entries) || KV_BUG_ON(node->in))
		return;
	node->key = *key;
	node->bucket = bucket_of(chains, key);
	node->in = 1;
	link_last(chains, &chains->head[node->bucket], entry);
	chains->nr++;
}

static int chains_del(void *registry, u32 entry)
{
	struct chains *chains = registry;
	struct node *node = &chains->node[entry];

	if (entry >= chains->nr_entries || !node->in)
		return -ENOENT;
	unlink_entry(chains, &chains->head[node->bucket], entry);
	node->in = 0;
	chains->nr--;
	return 0;
}

static u32 chains_find(const void *registry, const kvmm_key_t *key)
{
	const struct chains *chains = registry;
	u32 entry = chains->head[bucket_of(chains, key)];

	while (entry != KV_NONE && !kv_key_equal(&chains->node[entry].key, key))
		entry = chains->node[entry].next;
	return entry;
}

static bool node_is_sound(const struct chains *chains, u32 bucket, u32 entry)
{
	const struct node *node = &chains->node[entry];

	return node->in == 1 && node->bucket == bucket && bucket_of(chains, &node->key) == bucket;
}

/* Walks one chain. Adds its length to *@nr, which never gets beyond what was counted. */
static bool chain_is_sound(const struct chains *chains, u32 bucket, u32 *nr)
{
	u32 head = chains->head[bucket], prev = KV_NONE, entry;

	for (entry = head; entry != KV_NONE; entry = chains->node[entry].next) {
		if (entry >= chains->nr_entries || ++*nr > chains->nr ||
		    !node_is_sound(chains, bucket, entry) ||
		    (entry != head && chains->node[entry].prev != prev))
			return false;
		prev = entry;
	}
	return head == KV_NONE || chains->node[head].prev == prev;
}

static int chains_check(const void *registry, u32 *nr)
{
	const struct chains *chains = registry;
	u32 nr_linked = 0, nr_in = 0;

	*nr = chains->nr;
	for (u32 bucket = 0; bucket < chains->nr_buckets; bucket++)
		if (!chain_is_sound(chains, bucket, &nr_linked))
			return -EUCLEAN;
	for (u32 entry = 0; entry < chains->nr_entries; entry++)
		nr_in += chains->node[entry].in != 0;
	return nr_linked == chains->nr && nr_in == chains->nr ? 0 : -EUCLEAN;
}

const struct kv_registry_ops kv_registry_chained = {
	.name	= "chained",
	.bytes	= chains_bytes,
	.init	= chains_init,
	.add	= chains_add,
	.del	= chains_del,
	.find	= chains_find,
	.check	= chains_check,
};
