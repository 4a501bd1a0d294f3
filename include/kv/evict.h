/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction order of the blocks without references.
 *
 * A policy sees block indexes and keeps any order it likes in its own side memory, sized at
 * creation. It is told of hits and puts in their order, but late: so it may pick a block that has
 * been referenced since, which is then simply out of the order.
 */
#ifndef KV_EVICT_H
#define KV_EVICT_H

#include <kv/types.h>
#include <kvmm/types.h>

/* Advice of a block's owner. Each is forgotten with the block's content. */
enum kv_evict_advice {
	KV_ADVISE_PRIORITY,	/* 0 to KV_MAX_PRIORITY, more is kept longer; or KV_NO_PRIORITY */
	KV_ADVISE_TTL,		/* worth keeping for so long from now, in the policy's time */
	KV_ADVISE_COST,		/* the cost to make it again, in any unit; 1 if unsaid */
};

#define KV_MAX_PRIORITY		100u
#define KV_NO_PRIORITY		50u

/* Blocks in one call of any of those that take many, at most. */
#define KV_EVICT_MANY		16u

/**
 * struct kv_evict_ops - one policy
 *
 * All but bytes, init and exit are called with the order's lock held and must not sleep or
 * allocate, except @seen, which may allocate and fail silently (it then knows less).
 *
 * @name: as in struct kvmm_pool_attr, up to the colon if there is one
 * @keeps_unnamed: blocks without key wait in this order too (vLLM's classic free queue) instead
 *	of going back to the zone; any other policy meets those that kvmm_park() gives it
 * @bytes: side memory for @nr_blocks blocks
 * @init: zeroed memory of that size; nothing is in the order
 * @setup: the text behind the colon of the name, or NULL: 0, or -EINVAL. Once, after @init.
 *	NULL: nothing may stand there
 * @exit: free memory of @seen; may be NULL
 * @seen: a request named these keys, resident or not; once a request; may be NULL
 * @fill: the block got content and a key; may be NULL
 * @fill_many: of blocks one after the other, until one is in the order: how many; may be NULL. Not
 *	with @place. @enter: each enters before the next one is filled
 * @place: after @fill: the block's position in its chain, and the block before it if that is known,
 *	else KV_NONE; may be NULL
 * @hit: the block was hit; may be NULL
 * @hit_many: of blocks one after the other, which may still be in the order: each leaves, or enters
 *	again by @enter_many, before anything is asked but @fill and these two of others. With both
 *	@hit and @enter_many only, and then never NULL
 * @hint: expected next use of the block; may be NULL
 * @advise: enum kv_evict_advice; 0, or -EOPNOTSUPP if this policy has no use for it; may be NULL
 * @enter: the last reference is gone; @key is NULL for a block without key, see @keeps_unnamed
 * @enter_many: of blocks with a key, one after the other: @leave if it is in the order, and @enter;
 *	may be NULL
 * @leave: the block was hit again or freed
 * @pick: next victim, already out of the order, or KV_NONE
 * @pick_many: up to @nr picks: how many; may be NULL
 * @take: this block out of the order, as if it had been picked
 * @unpick: undo the last pick or take exactly (a failed allocation); victims come back newest
 *	first. If others have come or gone since, the block is among the first to be picked again
 * @expect: the blocks are about to enter or leave, and then once more, @soon: ask for the memory
 *	that it takes. Changes nothing; may be NULL
 * @expect_fill: they are about to be filled with content of these keys; after @expect. Changes
 *	nothing; may be NULL
 * @ahead: for each block which one may be picked some picks after it: a guess, so that its memory
 *	can be asked for in time; with @expect; may be NULL
 * @has: is the block in the order?
 * @nr: blocks in the order
 * @check: 0 or -EUCLEAN; recomputes everything
 */
struct kv_evict_ops {
	const char *name;
	bool keeps_unnamed;
	size_t (*bytes)(u32 nr_blocks);
	void (*init)(void *policy, u32 nr_blocks);
	int (*setup)(void *policy, const char *args);
	void (*exit)(void *policy);
	void (*seen)(void *policy, const kvmm_key_t *keys, u32 nr);
	void (*fill)(void *policy, u32 block, const kvmm_key_t *key);
	u32 (*fill_many)(void *policy, const u32 *blocks, const kvmm_key_t *keys, u32 nr,
			 bool enter);
	void (*place)(void *policy, u32 block, u32 position, u32 parent);
	void (*hit)(void *policy, u32 block);
	void (*hit_many)(void *policy, const u32 *blocks, u32 nr);
	void (*hint)(void *policy, u32 block, u64 when);
	int (*advise)(void *policy, u32 block, enum kv_evict_advice what, u64 value);
	void (*enter)(void *policy, u32 block, const kvmm_key_t *key);
	void (*enter_many)(void *policy, const u32 *blocks, u32 nr);
	void (*leave)(void *policy, u32 block);
	u32 (*pick)(void *policy);
	u32 (*pick_many)(void *policy, u32 nr, u32 *victims);
	void (*take)(void *policy, u32 block);
	void (*unpick)(void *policy, u32 block);
	void (*expect)(const void *policy, const u32 *blocks, u32 nr, bool soon);
	void (*expect_fill)(const void *policy, const u32 *blocks, const kvmm_key_t *keys, u32 nr);
	void (*ahead)(const void *policy, const u32 *blocks, u32 nr, u32 *ahead);
	bool (*has)(const void *policy, u32 block);
	u32 (*nr)(const void *policy);
	int (*check)(const void *policy);
};

extern const struct kv_evict_ops kv_evict_lrfu;		/* "lrfu": between LRU and LFU, by load */
extern const struct kv_evict_ops kv_evict_lru;		/* "lru": vLLM's order of today */
extern const struct kv_evict_ops kv_evict_lru_classic;	/* "lru-classic": its older order */
extern const struct kv_evict_ops kv_evict_fifo;		/* "fifo" */
extern const struct kv_evict_ops kv_evict_multilru;	/* "multilru", "multilru:2,4,8" */
extern const struct kv_evict_ops kv_evict_lineage;	/* "lineage": leaves only, oldest first */
extern const struct kv_evict_ops kv_evict_lineage_fifo;	/* "lineage-fifo": since they are leaves */
extern const struct kv_evict_ops kv_evict_priority;	/* "priority" */
extern const struct kv_evict_ops kv_evict_ttl;		/* "ttl": time to live, next use */

/*
 * The policy of a name, and in @args the text behind its colon, or NULL; NULL if there is none.
 * @args are checked by ->setup only.
 */
const struct kv_evict_ops *kv_evict_find(const char *name, const char **args);

#define KV_MAX_POLICIES		32u

/* All of them; NULL at the end. */
extern const struct kv_evict_ops *kv_evict_policies[KV_MAX_POLICIES + 1];

/* One more policy to choose by name. Before the first pool is made: the table has no lock. */
void kv_evict_add(const struct kv_evict_ops *ops);

#endif /* KV_EVICT_H */
