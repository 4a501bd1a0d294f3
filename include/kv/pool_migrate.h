/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carriers of content between pools need these calls, besides those that <kvmm/...> offers to all.
 *
 * Blocks of ranges and cached blocks are named as callers name them; that no thread changes or
 * moves them meanwhile is a matter of references and pins, taken here and by kvmm_pin_many().
 */
#ifndef KV_POOL_MIGRATE_H
#define KV_POOL_MIGRATE_H

#include <kv/dev.h>
#include <kvmm/pool.h>

/**
 * struct kv_pool_view - the parts of a pool; all fixed at creation and borrowed
 * @ops: its device's
 * @dev: NULL: ids only
 * @dev_number: as it was opened
 * @planes: where blocks lie; none: ids only
 * @block_bytes: over all planes
 * @block_tokens: tokens a block
 * @nr_usable: blocks, without the null block
 * @caches: has a policy, and so cached blocks
 */
struct kv_pool_view {
	const struct kv_dev_ops *ops;
	struct kv_dev *dev;
	unsigned int dev_number;
	struct kv_planes planes;
	u64 block_bytes;
	u32 block_tokens;
	u32 nr_usable;
	bool caches;
};

void kv_pool_view(const struct kvmm_pool *pool, struct kv_pool_view *view);

/* Work on its device has failed: call it before its destination is given back, which the pool gives
 * to no caller as long as the device may still be at it. No lock held. */
void kv_pool_device_failed(struct kvmm_pool *pool);

/* 0; -EUCLEAN, -ECHILD: no caller gets in any more. */
int kv_pool_refusal(const struct kvmm_pool *pool);

/* The name of a cached block, and its place in a prompt, as far as known. */
struct kv_block_name {
	kvmm_key_t key;
	kvmm_key_t parent;	/* all 0 without one */
	kvmm_domain_t domain;
	u32 position;
	u32 has_parent;
};

/* Of registered blocks that the caller has references on. */
void kv_pool_names(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr,
		   struct kv_block_name *names);

/* Private blocks of the caller stay where they are, and private, until they are let: they are being
 * written. 0; -ESTALE, -EINVAL, -EOVERFLOW (none is kept). */
int kv_pool_keep_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr);
void kv_pool_let_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr);

/* All that must be known of a range to make one like it. */
struct kv_range_kind {
	u64 seq;
	u32 nr;
	u32 tenant;
	u32 prio;
	u32 flags;		/* KVMM_ALLOC_KEPT of it */
	u32 sealed;		/* blocks that are not written any more */
	u32 listed;		/* blocks that go now, or have gone: the migration's */
};

/*
 * One more reference on a range that one caller alone has, and a pin. 0; -EBUSY another caller has
 * a reference or a pin, or the range may not move; -EIO its content is lost; -ESTALE, -EINVAL.
 */
int kv_pool_hold_range(struct kvmm_pool *pool, kvmm_range_t range, struct kv_range_kind *kind);

/* Its kind by now. 0; -EIO its content is lost; -ESTALE. */
int kv_pool_range_kind(struct kvmm_pool *pool, kvmm_range_t range, struct kv_range_kind *kind);

/* Undo that. */
void kv_pool_drop_range(struct kvmm_pool *pool, kvmm_range_t range);

/* The range is gone: both references and the pin. 0; -EBUSY others have come to hold it meanwhile,
 * and nothing was done. */
int kv_pool_end_range(struct kvmm_pool *pool, kvmm_range_t range);

/* A range that was allocated without a sequence gets one, and its sealed part; that, only if there
 * is memory for it. */
int kv_pool_name_range(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 sealed);

/*
 * Steps that begin from now on are not of the epochs before the one that is returned: 0 if there
 * are no steps, else an epoch to ask for.
 */
u64 kv_pool_epoch_begin(struct kvmm_pool *pool);

/* Are all steps of earlier epochs through on the device? Never waits. */
bool kv_pool_epoch_passed(struct kvmm_pool *pool, u64 epoch);
/* Are all steps that began before it? Ones to come may be of earlier epochs: of tables not read. */
bool kv_pool_steps_passed(struct kvmm_pool *pool, u64 epoch);

/* *@fence := all work that the engine's streams have been given so far. 0; -EBUSY one is capturing;
 * -EIO, -ENOMEM. */
int kv_pool_signal(struct kvmm_pool *pool, struct kv_fence *fence);

/*
 * The cached blocks that would be evicted next, the first one last, without references: at most
 * @nr of them. Nothing changes. How many, or why none can be told.
 */
int kv_pool_coldest(struct kvmm_pool *pool, u32 nr, kvmm_weak_t *weak);

#endif /* KV_POOL_MIGRATE_H */
