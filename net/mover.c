// SPDX-License-Identifier: Apache-2.0
/*
 * Copies in bounded parts, directly or by way of pinned host memory.
 *
 * On any failure, nothing is reported before all that was submitted has ended: a caller that is
 * told of an error may give the destination to another owner.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/mem.h>

#include "mover.h"

#define STAGE_ALIGN	256ull		/* enough for any kernel's pieces */

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
	return (struct end){ .planes = { lane->plane, mover->from.planes.nr } };
}

static int alloc_lane(struct mover *mover, struct lane *lane)
{
	const struct kv_planes *planes = &mover->from.planes;
	int err;

	lane->plane = kv_alloc_array(planes->nr, sizeof(*lane->plane));
	if (!lane->plane)
		return -ENOMEM;
	err = mover->stage_ops->host_alloc(mover->stage_dev, stage_bytes(planes, mover->chunk), -1,
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
	mover->stage_ops = mover->from.ops;
	mover->stage_dev = mover->from.dev;
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

static struct route route_of(const struct end *end, u32 dir)
{
	return (struct route){ .ops = end->ops, .dev = end->dev, .dir = dir };
}

u32 route_find(const struct end *from, const struct end *to, struct route *route)
{
	if (is_host(from) && is_host(to)) {
		*route = route_of(from->ops ? from : to, KV_COPY_LOCAL);
		return KVMM_MIGRATE_PATH_LOCAL;
	}
	if (is_host(from)) {
		*route = route_of(to, KV_COPY_TO_DEVICE);
		return KVMM_MIGRATE_PATH_HOST;
	}
	if (is_host(to)) {
		*route = route_of(from, KV_COPY_TO_HOST);
		return KVMM_MIGRATE_PATH_HOST;
	}
	if (from->ops != to->ops)
		return KVMM_MIGRATE_PATH_STAGED;
	*route = route_of(from, KV_COPY_LOCAL);
	if (from->dev_number == to->dev_number)
		return KVMM_MIGRATE_PATH_LOCAL;
	route->dir = KV_COPY_TO_PEER;
	route->peer = to->dev;
	return KVMM_MIGRATE_PATH_PEER;
}

/* ---- one copy ---- */

u32 moves_make(const u32 *src, const u32 *dst, u32 first, u32 nr, struct kv_move *move)
{
	u32 nr_moves = 0;

	for (u32 i = 0; i < nr; i++) {
		u32 from = src ? src[first + i] : i, to = dst ? dst[first + i] : i;
		struct kv_move *last = nr_moves ? &move[nr_moves - 1] : NULL;

		if (last && from == last->src + last->nr && to == last->dst + last->nr)
			last->nr++;
		else
			move[nr_moves++] = (struct kv_move){ from, to, 1 };
	}
	return nr_moves;
}

static int submit(struct mover *mover, struct lane *lane, const struct end *from,
		  const struct end *to)
{
	/* Memory of a lane is ours, and no other driver's, which may not be able to address it. */
	bool is_mapped = lane->mem.is_mapped && lane->route.dev == mover->stage_dev;
	struct kv_copy copy = {
		.src = from->planes, .dst = to->planes, .moves = mover->move,
		.dir = lane->route.dir, .peer = lane->route.peer,
		.flags = mover->flags | (is_mapped ? KV_COPY_MAPPED : 0),
	};
	int err;

	copy.nr = moves_make(from->block, to->block, lane->first, lane->nr, mover->move);
	err = lane->route.ops->copy_blocks(lane->route.dev, &copy, &lane->fence);
	if (!err)
		mover->nr_descriptors += copy.nr;
	return err;
}

/* ---- lanes ---- */

static int submit_out(struct mover *mover, struct lane *lane)
{
	struct end stage;
	int err;

	if (mover->path == KVMM_MIGRATE_PATH_STAGED) {
		stage = stage_of(mover, lane);
		route_find(&mover->from, &stage, &lane->route);
		return submit(mover, lane, &mover->from, &stage);
	}
	mover->path = route_find(&mover->from, &mover->to, &lane->route);
	err = mover->path == KVMM_MIGRATE_PATH_STAGED ? -EOPNOTSUPP :
	      submit(mover, lane, &mover->from, &mover->to);
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
	lane->first = mover->next;
	lane->nr = min(mover->nr - mover->next, mover->chunk);
	err = submit_out(mover, lane);
	if (err) {
		mover_stop(mover, err);
		return;
	}
	mover->next += lane->nr;
	lane->state = LANE_OUT;
}

/* The content that was read is where it was; the caller does not want it any more. */
static void pass_on(struct mover *mover, struct lane *lane)
{
	struct end stage = stage_of(mover, lane);
	int err = mover->err;

	if (!err) {
		route_find(&stage, &mover->to, &lane->route);
		err = submit(mover, lane, &stage, &mover->to);
	}
	lane->state = err ? LANE_IDLE : LANE_IN;
	if (err)
		mover_stop(mover, err);
}

static void poll_lane(struct mover *mover, struct lane *lane)
{
	int err = lane->route.ops->poll(lane->route.dev, lane->fence);

	if (err == -EAGAIN)
		return;
	if (err) {
		lane->state = LANE_IDLE;
		mover_stop(mover, err);
	} else if (lane->state == LANE_OUT && mover->path == KVMM_MIGRATE_PATH_STAGED) {
		lane->state = LANE_FULL;
	} else {
		mover->nr_done += lane->nr;
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

int mover_init(struct mover *mover, const struct mover_attr *attr)
{
	u64 chunk;

	*mover = (struct mover){ .from = attr->from, .to = attr->to, .nr = attr->nr,
				 .flags = attr->flags };
	for (u32 i = 0; i < attr->from.planes.nr; i++)
		mover->block_bytes += attr->from.planes.plane[i].bytes;
	chunk = mover->block_bytes ? attr->chunk_bytes / mover->block_bytes : attr->nr;
	mover->chunk = max(min(chunk, (u64)attr->nr), (u64)1);
	if (!mover->block_bytes)	/* ids only: there is nothing to copy */
		mover->next = mover->nr_done = attr->nr;
	mover->move = kv_alloc_array(mover->chunk, sizeof(*mover->move));
	return mover->move ? 0 : -ENOMEM;
}

void mover_exit(struct mover *mover)
{
	mover_stop(mover, -ECANCELED);
	for (u32 i = 0; i < NR_LANES; i++) {
		struct lane *lane = &mover->lane[i];

		if (lane->state == LANE_OUT || lane->state == LANE_IN)
			lane->route.ops->wait(lane->route.dev, lane->fence);
		if (lane->mem.ptr)
			mover->stage_ops->host_free(mover->stage_dev, &lane->mem);
		kv_free(lane->plane);
	}
	kv_free(mover->move);
	*mover = (struct mover){ 0 };
}
