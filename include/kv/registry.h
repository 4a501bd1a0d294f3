/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry: from a key to the blocks that hold it, oldest first.
 *
 * Works on indexes into a table of entries that its owner keeps; links live in side memory sized
 * at creation, so that nothing is allocated on the way.
 */
#ifndef KV_REGISTRY_H
#define KV_REGISTRY_H

#include <kv/types.h>
#include <kvmm/types.h>

/**
 * struct kv_registry_ops - one kind of registry
 * @name: for the log
 * @bytes: memory for @nr_entries entries
 * @init: zeroed memory of that size; @seed makes the choice of buckets unpredictable
 * @add: the entry holds @key from now on; it must not be in the registry
 * @del: forget the entry; -ENOENT it was not there
 * @find: the oldest entry of @key, or KV_NONE
 * @check: 0 or -EUCLEAN; *@nr gets the number of entries
 */
struct kv_registry_ops {
	const char *name;
	size_t (*bytes)(u32 nr_entries);
	void (*init)(void *registry, u32 nr_entries, u64 seed);
	void (*add)(void *registry, u32 entry, const kvmm_key_t *key);
	int (*del)(void *registry, u32 entry);
	u32 (*find)(const void *registry, const kvmm_key_t *key);
	int (*check)(const void *registry, u32 *nr);
};

extern const struct kv_registry_ops kv_registry_chained;	/* under its owner's lock */

#endif /* KV_REGISTRY_H */
