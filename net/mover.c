// SPDX-License-Identifier: Apache-2.0
/*
 * Copies in bounded parts, directly or by way of pinned host memory; and checksums of both ends.
 *
 * On any failure, nothing is reported before all that was submitted has ended: a caller that is
 * told of an error may give the destination to another owner.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/mem.h>

#include "mover.h"

#define STAGE_ALIGN	256ull		/* enough for any kernel's pieces */
#define SUM_BYTES	(16ull << 20)

/* ---- memory to stage in ---- */

u64 stage_bytes(const struct kv_planes *planes, u32 nr_blocks)
{
	u64 bytes = 0;

	for (u32 i = 0; i < planes->nr; i++)
		bytes += kv_align_up(planes->plane[i].bytes * nr_blocks, STAGE_ALIGN);
	return bytes;
}

void stage_planes(const struct kv_planes *like, u64 base, u32 nr_blocks, struct kvmm_plane *planes)
{
	for (u32 i = 0; i < like->nr; i++) {
		u64 bytes = like->plane[i].bytes;

		planes[i] = (struct kvmm_plane){ base, bytes, bytes };
		base += kv_align_up(bytes * nr_blocks, STAGE_ALIGN);
	}
}

static struct end stage_of(const struct mover *mover, const struct lane *lane)
{
	/* Memory of a lane is ours, and no other driver's, which may not be able to address it. */
	return (struct end){ .planes = { lane->plane, mover->from.planes.nr },
			     .mapped = lane->mem.is_mapped ? mover->from.dev : NULL };
}

static int alloc_lane(struct mover *mover, struct lane *lane)
{
	const struct kv_planes *planes = &mover->from.planes;
	int err;

	lane->plane = kv_alloc_array(planes->nr, sizeof(*lane->plane));
	if (!lane->plane)
		return -ENOMEM;
	err = mover->from.ops->host_alloc(mover->from.dev, stage_bytes(planes, mover->chunk), -1,
					   &lane->mem);
	if (err)
		return err;
	stage_planes(planes, (uintptr_t)lane->mem.ptr, mover->chunk, lane->plane);
	return 0;
}

/* A second lane is not worth failing for. */
static int alloc_lanes(struct mover *mover)
{
	int err;

	mover->path = KVMM_MIGRATE_PATH_STAGED;
	err = alloc_lane(mover, &mover->lane[0]);
	if (!err && mover->nr > mover->chunk)
		alloc_lane(mover, &mover->lane[1]);
	return err;
}

/* ---- routes ---- */

static bool is_host(const struct end *end)
{
	return !end->ops || !strcmp(end->ops->name, "host");
}

/* Which device copies, and how. */
static u32 find_route(struct copy *copy, const struct end *from, const struct end *to,
		      struct kv_copy *what)
{
	const struct end *by = is_host(from) && (!is_host(to) || !from->ops) ? to : from;

	copy->ops = by->ops;
	copy->dev = by->dev;
	what->dir = KV_COPY_LOCAL;
	if (is_host(from) && is_host(to))
		return KVMM_MIGRATE_PATH_LOCAL;
	if (is_host(from) || is_host(to)) {
		what->dir = is_host(from) ? KV_COPY_TO_DEVICE : KV_COPY_TO_HOST;
		return KVMM_MIGRATE_PATH_HOST;
	}
	if (from->ops != to->ops)
		return KVMM_MIGRATE_PATH_STAGED;
	if (from->dev_number == to->dev_number)
		return KVMM_MIGRATE_PATH_LOCAL;
	what->dir = KV_COPY_TO_PEER;
	what->peer = to->dev;
	return KVMM_MIGRATE_PATH_PEER;
}

/* ---- one copy ---- */

/* Runs that are consecutive on both sides: how many. */
static u32 make_moves(const u32 *src, const u32 *dst, const struct copy *copy, struct kv_move *move)
{
	u32 nr_moves = 0;

	for (u32 i = 0; i < copy->nr; i++) {
		u32 from = src ? src[copy->first + i] : i, to = dst ? dst[copy->first + i] : i;
		struct kv_move *last = nr_moves ? &move[nr_moves - 1] : NULL;

		if (last && from == last->src + last->nr && to == last->dst + last->nr)
			last->nr++;
		else
			move[nr_moves++] = (struct kv_move){ from, to, 1 };
	}
	return nr_moves;
}

int copy_begin(struct copy *copy, const struct end *from, const struct end *to,
	       struct kv_move *move, u32 flags)
{
	const struct kv_dev *mapped = from->mapped ? from->mapped : to->mapped;
	struct kv_copy what = { .src = from->planes, .dst = to->planes, .moves = move,
				.flags = flags };
	int err;

	copy->path = find_route(copy, from, to, &what);
	if (copy->path == KVMM_MIGRATE_PATH_STAGED)
		return -EOPNOTSUPP;
	if (mapped && mapped == copy->dev)
		what.flags |= KV_COPY_MAPPED;
	what.nr = make_moves(from->block, to->block, copy, move);
	err = copy->ops->copy_blocks(copy->dev, &what, &copy->fence);
	copy->busy = !err;
	return err ? err : (int)what.nr;
}

int copy_poll(struct copy *copy)
{
	int err = copy->busy ? copy->ops->poll(copy->dev, copy->fence) : 0;

	copy->busy = err == -EAGAIN;
	return copy->busy ? -EINPROGRESS : err;
}

void copy_wait(struct copy *copy)
{
	if (copy->busy)
		copy->ops->wait(copy->dev, copy->fence);
	copy->busy = false;
}

/* ---- lanes ---- */

static int submit(struct mover *mover, struct lane *lane, const struct end *from,
		  const struct end *to)
{
	int ret = copy_begin(&lane->copy, from, to, mover->move, mover->flags);

	mover->nr_descriptors += max(ret, 0);
	return min(ret, 0);
}

static int submit_out(struct mover *mover, struct lane *lane)
{
	struct end stage;
	int err;

	if (mover->path == KVMM_MIGRATE_PATH_STAGED) {
		stage = stage_of(mover, lane);
		return submit(mover, lane, &mover->from, &stage);
	}
	err = submit(mover, lane, &mover->from, &mover->to);
	mover->path = lane->copy.path;
	if (err != -EOPNOTSUPP || mover->next)
		return err;
	err = alloc_lanes(mover);
	return err ? err : submit_out(mover, lane);
}

static void begin(struct mover *mover, struct lane *lane)
{
	int err;

	if (mover->next == mover->nr || mover->err)
		return;
	/* The other lane has no memory, and the first one is busy. */
	if (mover->path == KVMM_MIGRATE_PATH_STAGED && !lane->mem.ptr)
		return;
	lane->copy.first = mover->next;
	lane->copy.nr = min(mover->nr - mover->next, mover->chunk);
	err = submit_out(mover, lane);
	if (err) {
		mover_stop(mover, err);
		return;
	}
	mover->next += lane->copy.nr;
	lane->state = LANE_OUT;
}

/* The content that was read is where it was; the caller does not want it any more. */
static void pass_on(struct mover *mover, struct lane *lane)
{
	struct end stage = stage_of(mover, lane);
	int err = mover->err ? mover->err : submit(mover, lane, &stage, &mover->to);

	lane->state = err ? LANE_IDLE : LANE_IN;
	if (err)
		mover_stop(mover, err);
}

static void poll_lane(struct mover *mover, struct lane *lane)
{
	int err = copy_poll(&lane->copy);

	if (err == -EINPROGRESS)
		return;
	if (err) {
		lane->state = LANE_IDLE;
		mover_stop(mover, err);
	} else if (lane->state == LANE_OUT && mover->path == KVMM_MIGRATE_PATH_STAGED) {
		lane->state = LANE_FULL;
	} else {
		mover->nr_done += lane->copy.nr;
		lane->state = LANE_IDLE;
	}
}

/* Each lane once: where copies are done at once, a step is a chunk or two. */
int mover_step(struct mover *mover)
{
	bool is_idle = true;

	for (u32 i = 0; i < NR_LANES; i++) {
		struct lane *lane = &mover->lane[i];

		if (lane->state == LANE_OUT || lane->state == LANE_IN)
			poll_lane(mover, lane);
		if (lane->state == LANE_FULL)
			pass_on(mover, lane);
		if (lane->state == LANE_IDLE)
			begin(mover, lane);
		is_idle &= lane->state == LANE_IDLE;
	}
	if (!is_idle)
		return -EINPROGRESS;
	if (mover->err)
		return mover->err;
	return mover->nr_done == mover->nr ? 0 : -EINPROGRESS;
}

void mover_stop(struct mover *mover, int err)
{
	if (!mover->err)
		mover->err = err;
}

/* ---- birth and death ---- */

int mover_init(struct mover *mover, u64 chunk_bytes)
{
	u64 chunk;

	for (u32 i = 0; i < mover->from.planes.nr; i++)
		mover->block_bytes += mover->from.planes.plane[i].bytes;
	chunk = mover->block_bytes ? chunk_bytes / mover->block_bytes : mover->nr;
	mover->chunk = max(min(chunk, (u64)mover->nr), (u64)1);
	mover->move = kv_alloc_array(mover->chunk, sizeof(*mover->move));
	return mover->move ? 0 : -ENOMEM;
}

void mover_list(struct mover *mover, const u32 *from, const u32 *to, u32 nr)
{
	mover->from.block = from;
	mover->to.block = to;
	mover->nr = nr;
	if (!mover->block_bytes)	/* ids only: there is nothing to copy */
		mover->next = mover->nr_done = nr;
}

void mover_exit(struct mover *mover)
{
	mover_stop(mover, -ECANCELED);
	for (u32 i = 0; i < NR_LANES; i++) {
		struct lane *lane = &mover->lane[i];

		copy_wait(&lane->copy);
		if (lane->mem.ptr)
			mover->from.ops->host_free(mover->from.dev, &lane->mem);
		kv_free(lane->plane);
	}
	kv_free(mover->move);
	*mover = (struct mover){ 0 };
}

/* ---- checksums ---- */

u32 sum_portion(u64 block_bytes)
{
	return block_bytes ? max(SUM_BYTES / block_bytes, (u64)1) : UINT32_MAX;
}

int sum_list(const struct end *end, u32 first, u32 nr, u64 *sums)
{
	const struct kv_fence at_once = { 0 };
	int err = 0;

	if (!end->planes.nr) {
		memset(sums, 0, nr * sizeof(*sums));
		return 0;
	}
	for (u32 i = 0, run; i < nr && !err; i += run) {
		const u32 *block = end->block + first + i;

		for (run = 1; i + run < nr && block[run] == block[0] + run;)
			run++;
		err = end->ops->sum_blocks(end->dev, &end->planes, block[0], run, at_once,
					   sums + i);
	}
	return err;
}
