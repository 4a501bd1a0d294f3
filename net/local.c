// SPDX-License-Identifier: Apache-2.0
/*
 * The carrier inside one process: a store in the other pool, a mover in between.
 *
 * Nothing of the destination is found before the checksums of both sides agree.
 */
#include <kv/mem.h>

#include "job.h"
#include "mover.h"
#include "store.h"

struct local {
	struct store store;
	struct mover mover;
	bool moving;			/* mover is there */
	u32 nr_listed;			/* blocks of the store's list that those below are of */
	u32 nr;				/* blocks that are copied */
	u32 *from;			/* ours; the source's */
	u32 *to;			/* ours; the destination's */
	u64 *sum;			/* ours; room for a portion of both */
	u32 portion;
	u32 nr_verified;
	u32 path;
	u32 nr_descriptors;
	struct kv_fence fence;		/* of the destination's streams */
	bool has_fence;
	bool seen;			/* let_see() has */
};

int views_match(const struct kv_pool_view *a, const struct kv_pool_view *b)
{
	if (a->planes.nr != b->planes.nr || a->block_tokens != b->block_tokens)
		return -EMEDIUMTYPE;
	for (u32 i = 0; i < a->planes.nr; i++)
		if (a->planes.plane[i].bytes != b->planes.plane[i].bytes)
			return -EMEDIUMTYPE;
	return 0;
}

struct store *local_store(struct kvmm_migrate *job)
{
	return &job->local->store;
}

/* ---- prepare ---- */

static void free_lists(struct local *local)
{
	kv_free(local->from);
	kv_free(local->to);
	kv_free(local->sum);
	local->from = local->to = NULL;
	local->sum = NULL;
}

static int alloc_lists(struct kvmm_migrate *job, struct local *local)
{
	u32 nr = job->goods.list.nr;

	free_lists(local);
	local->portion = min(sum_portion(job->goods.view.block_bytes), nr);
	local->from = kv_alloc_array(nr, sizeof(*local->from));
	local->to = kv_alloc_array(nr, sizeof(*local->to));
	local->sum = kv_alloc_array(2 * local->portion, sizeof(*local->sum));
	return local->from && local->to && local->sum ? 0 : -ENOMEM;
}

static int local_prepare(struct kvmm_migrate *job)
{
	const struct goods *goods = &job->goods;
	struct local *local = job->local;
	struct store *store = &local->store;
	int err = store->list.block ? 0 : store_init(store, goods->nr_refs, goods->name,
						goods->nr_ranges, goods->kind);

	local->nr_verified = local->nr_descriptors = local->nr_listed = local->nr = 0;
	local->has_fence = local->seen = false;
	if (!err)
		err = store_reserve(store);
	if (err)
		return err;
	local->mover = (struct mover){
		.from = end_of(&goods->view, NULL), .to = end_of(&store->view, NULL),
		.nr = goods->nr_refs - store->nr_present, .flags = job->copy_flags,
	};
	for (u32 i = 0; i < goods->nr_ranges; i++)
		local->mover.nr += goods->kind[i].nr;
	err = mover_init(&local->mover, job->chunk_bytes);
	local->moving = !err;
	return err;
}

/*
 * A device that could not see the end of its work may not be done with these blocks. It looks again
 * before it gives memory of the host back, and begins nothing until it has.
 */
static int let_see(const struct kv_pool_view *view)
{
	struct kv_host_mem mem;
	int err = view->dev ? view->ops->host_alloc(view->dev, 1, -1, &mem) : 0;

	if (!err && view->dev)
		view->ops->host_free(view->dev, &mem);
	return err;
}

static int settle(struct local *local)
{
	return quiet_poll(local->store.pool, &local->store.view, &local->fence, &local->has_fence);
}

static int local_wait(struct kvmm_migrate *job)
{
	struct local *local = job->local;
	int err = settle(local);

	if (err || job->attempts == 1 || local->seen)
		return err;
	err = let_see(&job->goods.view);
	if (!err)
		err = let_see(&local->store.view);
	local->seen = !err;
	return err;
}

/* ---- copy, verify, commit ---- */

/* Both sides' lists have become longer: none is copied from, or to. New blocks may have had work of
 * other owners since, that streams are not through with. */
static int list_more(struct kvmm_migrate *job, struct local *local)
{
	struct store *store = &local->store;
	int err = store_list(store);

	local->nr = 0;
	local->has_fence &= !(job->goods.flags & KVMM_MIGRATE_PRECOPY);
	if (!err)
		err = alloc_lists(job, local);
	if (err)
		return err;
	for_each_absent(store, i) {
		local->from[local->nr] = job->goods.list.block[i];
		local->to[local->nr++] = store->list.block[i];
	}
	local->nr_listed = store->list.nr;
	mover_list(&local->mover, local->from, local->to, local->nr);
	return 0;
}

static int local_copy(struct kvmm_migrate *job)
{
	struct local *local = job->local;
	int err = local->nr_listed < job->goods.list.nr ? list_more(job, local) : 0;

	if (!err)
		err = settle(local);
	if (!err)
		err = mover_step(&local->mover);
	local->path = local->mover.path;
	local->nr_descriptors = local->mover.nr_descriptors;
	return err;
}

static int local_verify(struct kvmm_migrate *job)
{
	struct local *local = job->local;
	struct end from = end_of(&job->goods.view, local->from);
	struct end to = end_of(&local->store.view, local->to);
	u32 at = local->nr_verified, nr = min(local->nr - at, local->portion);
	u64 *theirs = local->sum + local->portion;
	int err = sum_list(&from, at, nr, local->sum);

	if (!err)
		err = sum_list(&to, at, nr, theirs);
	for (u32 i = 0; i < nr && !err; i++)
		if (local->sum[i] != theirs[i])
			err = -EBADMSG;
	if (err)
		return err;
	local->nr_verified += nr;
	return local->nr_verified == local->nr ? 0 : -EINPROGRESS;
}

static int local_commit(struct kvmm_migrate *job)
{
	return store_publish(&job->local->store);
}

/* ---- the way back ---- */

/*
 * It may be either side's device that writes. The destination's own keeps the blocks as its pool
 * does; for the other one's sake they stay ours, until it sees.
 */
static bool may_be_written(struct kvmm_migrate *job)
{
	const struct kv_pool_view *view = &job->goods.view;

	kv_pool_device_failed(job->local->store.pool);
	return view->dev && view->ops->sees_end && view->ops->sees_end(view->dev) == -EAGAIN;
}

static int local_undo(struct kvmm_migrate *job)
{
	struct local *local = job->local;

	if (local->moving) {
		mover_stop(&local->mover, -ECANCELED);
		if (mover_step(&local->mover) == -EINPROGRESS)
			return -EINPROGRESS;
		mover_exit(&local->mover);
		local->moving = false;
	}
	if (may_be_written(job))
		return -EINPROGRESS;
	store_release(&local->store);
	return 0;
}

static void local_free(struct kvmm_migrate *job)
{
	struct local *local = job->local;

	if (local->moving)
		mover_exit(&local->mover);
	if (local->store.state == STORE_RESERVED && may_be_written(job))
		store_abandon(&local->store);
	store_exit(&local->store);
	free_lists(local);
	kv_free(local);
	job->local = NULL;
}

static void local_status(const struct kvmm_migrate *job, struct kvmm_migrate_status *status)
{
	const struct local *local = job->local;
	bool over = job->phase > KVMM_MIGRATE_COPYING && job->phase < KVMM_MIGRATE_CANCELLING;

	status->path = local->path;
	status->nr_present = local->store.nr_present;
	status->nr_copied = over ? local->nr : local->moving ? local->mover.nr_done : 0;
	status->nr_verified = local->nr_verified;
	status->nr_descriptors = local->nr_descriptors;
	for (u32 i = 0; i < local->nr && local->from; i++) {
		status->nr_src_runs += !i || local->from[i] != local->from[i - 1] + 1;
		status->nr_dst_runs += !i || local->to[i] != local->to[i - 1] + 1;
	}
}

static const struct carrier_ops local_ops = {
	.prepare	= local_prepare,
	.wait		= local_wait,
	.copy		= local_copy,
	.verify		= local_verify,
	.commit		= local_commit,
	.undo		= local_undo,
	.free		= local_free,
	.status		= local_status,
};

int local_init(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr)
{
	struct kv_pool_view src, dst;
	int err;

	if (attr->dst == attr->src)
		return -EINVAL;
	kv_pool_view(attr->src, &src);
	kv_pool_view(attr->dst, &dst);
	err = views_match(&src, &dst);
	if (!err && attr->what >= KVMM_MIGRATE_REFS && !dst.caches)
		err = -EOPNOTSUPP;
	if (err)
		return err;
	job->local = kv_alloc(sizeof(*job->local));
	if (!job->local)
		return -ENOMEM;
	job->local->store = (struct store){ .pool = attr->dst, .view = dst, .flags = attr->flags,
					    .max_runs = attr->max_runs };
	job->ops = &local_ops;
	return 0;
}
