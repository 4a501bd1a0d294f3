// SPDX-License-Identifier: Apache-2.0
/*
 * Private blocks copied to others, for holders that go different ways from here on.
 *
 * compact_lock is held, so that nothing moves, and each block is kept by a mark in its word: it is
 * neither freed nor staged meanwhile. The copy begins behind all that the engine's streams were
 * given, and what they are given once the call has returned begins behind the copy.
 */
#include <cache/cache.h>
#include <cache/content.h>
#include <kv/fork.h>
#include <kvmm/ext/seq.h>

#include "step.h"

#define COPY_BATCH	64u

struct copies {
	const kvmm_mut_t *from;
	const kvmm_mut_t *to;
	u32 nr;
};

static void let_go(struct kvmm_pool *pool, const struct copies *copies, u32 nr)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert(nr <= copies->nr);
	for (u32 i = 0; i < nr; i++) {
		kv_handle_step(&pool->entries, mut_handle(copies->from[i]), kv_edge_written);
		kv_handle_step(&pool->entries, mut_handle(copies->to[i]), kv_edge_written);
	}
}

/* All of them, or none. */
static int keep(struct kvmm_pool *pool, const struct copies *copies)
{
	int err = cache_begin(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	for (u32 i = 0; i < copies->nr && !err; i++) {
		struct kv_handle src = mut_handle(copies->from[i]);
		struct kv_handle dst = mut_handle(copies->to[i]);

		err = src.index == dst.index ? -EINVAL : lost_check(pool, &src, 1);
		if (!err)
			err = kv_handle_step(&pool->entries, src, kv_edge_read);
		if (!err) {
			err = kv_handle_step(&pool->entries, dst, kv_edge_write);
			if (err)
				kv_handle_step(&pool->entries, src, kv_edge_written);
		}
		if (err)
			let_go(pool, copies, i);
	}
	cache_end(pool);
	if (err)
		kv_count(KV_EV_BAD_HANDLE);
	return err;
}

static u32 place_of(const struct kvmm_pool *pool, kvmm_mut_t mut)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert(mut.index < pool->entries.nr);
	return entry_block(entry_at(pool, mut.index));
}

static int copy_all(struct kvmm_pool *pool, const struct copies *copies)
{
	const struct kv_dev_ops *dev = pool->parts.dev;
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	struct kv_move moves[COPY_BATCH] = { 0 };
	struct kv_copy copy = { .src = planes, .dst = planes, .moves = moves };
	struct steps *steps = steps_of(pool);
	struct kv_fence fence;
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	if (steps) {
		kv_lock(&steps->lock);
		err = steps_signal(pool, steps, &copy.after);
		kv_unlock(&steps->lock);
		if (err && err != -EBUSY && err != -ENOMEM)
			err = -EIO;
	}
	for (u32 i = 0; i < copies->nr && !err; i += copy.nr) {
		copy.nr = min(copies->nr - i, COPY_BATCH);
		for (u32 k = 0; k < copy.nr; k++)
			moves[k] = (struct kv_move){ place_of(pool, copies->from[i + k]),
						     place_of(pool, copies->to[i + k]), 1 };
		if (!dev->copy_blocks(pool->dev, &copy, &fence) && !dev->wait(pool->dev, fence))
			continue;
		device_failed(pool);
		err = -EIO;
	}
	return err;
}

int kvmm_copy_muts(struct kvmm_pool *pool, const kvmm_mut_t *from, const kvmm_mut_t *to,
		   uint32_t nr)
{
	struct copies copies = { from, to, nr };
	int err, cancel;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || (nr && (!from || !to)))
		return -EINVAL;
	if (!pool->caches || !pool->nr_planes)
		return -EOPNOTSUPP;
	cancel = content_begin(pool);
	err = keep(pool, &copies);
	if (!err) {
		err = copy_all(pool, &copies);
		let_go(pool, &copies, nr);
	}
	content_end(pool, cancel);
	return err;
}
