// SPDX-License-Identifier: Apache-2.0
/*
 * The three paths: which can do a job, what it costs, and doing it.
 *
 * Single and batched copies see pieces: the stretches of memory that one move touches in one
 * plane. Where the blocks of a plane follow each other without gaps, that is the whole run at once.
 * Batches are in stream order and without flags: all else may read a source before the work that
 * writes it is done, or after the call's buffer is gone.
 */
#include "engine.h"

typedef int (*piece_fn)(struct job *job, u64 dst, u64 src, u64 bytes);

static bool is_dense(const struct kvmm_plane *plane)
{
	return plane->stride == plane->bytes;
}

static bool is_dense_pair(const struct job *job, u32 plane)
{
	return is_dense(&job->copy->src.plane[plane]) && is_dense(&job->copy->dst.plane[plane]);
}

u64 kv_job_pieces(const struct job *job)
{
	u64 nr = 0;

	for (u32 i = 0; i < job->copy->src.nr; i++)
		nr += is_dense_pair(job, i) ? job->nr : job->nr_blocks;
	return nr;
}

static int move_in_plane(struct job *job, u32 plane, const struct kv_move *move, piece_fn fn)
{
	const struct kvmm_plane *src = &job->copy->src.plane[plane];
	const struct kvmm_plane *dst = &job->copy->dst.plane[plane];

	int err = 0;

	if (is_dense_pair(job, plane))
		return fn(job, dst->base + move->dst * dst->stride,
			  src->base + move->src * src->stride, move->nr * src->stride);
	for (u64 i = 0; i < move->nr && !err; i++)
		err = fn(job, dst->base + (move->dst + i) * dst->stride,
			 src->base + (move->src + i) * src->stride, src->bytes);
	return err;
}

static int for_each_piece(struct job *job, piece_fn fn)
{
	int err = 0;

	for (u32 i = 0; i < job->nr && !err; i++)
		for (u32 p = 0; p < job->copy->src.nr && !err; p++)
			err = move_in_plane(job, p, &job->moves[i], fn);
	return err;
}

/* ---- one call a piece ---- */

static int copy_piece(struct job *job, u64 dst, u64 src, u64 bytes)
{
	struct kv_gpu *gpu = job->dev->gpu;

	switch (job->copy->dir) {
	case KV_COPY_TO_DEVICE:
		return kv_gpu_call(gpu, memcpy_htod_async, dst, (void *)(uintptr_t)src, bytes,
				   job->stream);
	case KV_COPY_TO_HOST:
		return kv_gpu_call(gpu, memcpy_dtoh_async, (void *)(uintptr_t)dst, src, bytes,
				   job->stream);
	case KV_COPY_TO_PEER:
		return kv_gpu_call(gpu, memcpy_peer_async, dst, job->copy->peer->gpu->ctx, src,
				   gpu->ctx, bytes, job->stream);
	default:
		return kv_gpu_call(gpu, memcpy_dtod_async, dst, src, bytes, job->stream);
	}
}

static int single_piece(struct job *job, u64 dst, u64 src, u64 bytes)
{
	int err = copy_piece(job, dst, src, bytes);

	job->nr_calls += !err;
	return err;
}

/* ---- batches ---- */

static int flush(struct job *job)
{
	struct kv_gpu *gpu = job->dev->gpu;
	struct batch_room *room = job->dev->batch;
	kcu_memcpy_attr attr = { .src_access_order = KCU_SRC_ORDER_STREAM };
	size_t from = 0, fail_idx;
	u32 nr = job->nr_batch;
	int err;

	job->nr_batch = 0;
	if (!nr)
		return 0;
	if (gpu->features & KCU_F_BATCH13)
		err = kv_gpu_call(gpu, memcpy_batch_async_v13, room->dst, room->src, room->bytes,
				  nr, &attr, &from, 1, job->stream);
	else
		err = kv_gpu_call(gpu, memcpy_batch_async_v12, room->dst, room->src, room->bytes,
				  nr, &attr, &from, 1, &fail_idx, job->stream);
	/* Some may have been queued all the same. */
	job->nr_calls++;
	return err;
}

static int batch_piece(struct job *job, u64 dst, u64 src, u64 bytes)
{
	struct batch_room *room = job->dev->batch;

	room->dst[job->nr_batch] = dst;
	room->src[job->nr_batch] = src;
	room->bytes[job->nr_batch] = bytes;
	return ++job->nr_batch < KV_BATCH_PIECES ? 0 : flush(job);
}

/* ---- which ---- */

u64 kv_cost_ns(const struct kv_dev *dev, u32 dir, u32 path, u64 calls, u64 bytes)
{
	const struct cost *cost = &dev->costs.cost[dir][path];
	u64 kib_per_ms = cost->mib_per_s * 1024ull / 1000 + 1;

	return calls * cost->call_ns + (bytes >> 10) * 1000000 / kib_per_ms;
}

u32 kv_path_refusal(const struct job *job, u32 path)
{
	const struct kv_copy *copy = job->copy;
	bool is_addressable = copy->dir == KV_COPY_LOCAL || copy->flags & KV_COPY_MAPPED;

	if (job->dev->refused_paths & BIT(path))
		return KV_FALL_REFUSED + 1;
	if (path == KV_PATH_SINGLE)
		return 0;
	if (path == KV_PATH_KERNEL && !job->dev->module)
		return KV_FALL_NO_KERNEL + 1;
	if (path == KV_PATH_BATCH && !(job->dev->gpu->features & (KCU_F_BATCH12 | KCU_F_BATCH13)))
		return KV_FALL_NO_BATCH + 1;
	if (!is_addressable || (path == KV_PATH_KERNEL && copy->dir == KV_COPY_TO_PEER))
		return KV_FALL_UNMAPPED + 1;
	return path == KV_PATH_BATCH || kv_kernel_serves(&copy->src, &copy->dst) ?
	       0 : KV_FALL_SHAPE + 1;
}

int kv_path_submit(struct job *job, u32 path)
{
	int err;

	if (path == KV_PATH_KERNEL)
		return kv_kernel_submit(job);
	if (path == KV_PATH_SINGLE)
		return for_each_piece(job, single_piece);
	err = for_each_piece(job, batch_piece);
	return err ? err : flush(job);
}
