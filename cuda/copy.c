// SPDX-License-Identifier: Apache-2.0
/*
 * The copy engine: from a request to work on a stream, and a fence behind it.
 *
 * A request is cut into waves (wave.c); each goes by the path that is expected to take the least
 * time, or if that fails by the next one: the moves of a wave are independent, so a wave that was
 * queued by half may be queued again as a whole. Failure to queue the rest is the request's
 * error as long as nothing of it was queued; after that only its fence can say so.
 */
#include "engine.h"

/* ---- requests ---- */

static bool run_is_memory(const struct kvmm_plane *plane, u32 start, u32 nr)
{
	u64 end;

	return !kv_mul_overflows((u64)start + nr, plane->stride, &end) &&
	       !kv_add_overflows(end, plane->base, &end);
}

static bool planes_are_good(const struct kv_copy *copy)
{
	if (!copy->src.nr || copy->src.nr != copy->dst.nr || copy->src.nr > KVMM_MAX_PLANES)
		return false;
	for (u32 i = 0; i < copy->src.nr; i++) {
		const struct kvmm_plane *src = &copy->src.plane[i], *dst = &copy->dst.plane[i];

		if (!src->base || !dst->base || !src->bytes || src->bytes != dst->bytes ||
		    src->bytes > src->stride || dst->bytes > dst->stride)
			return false;
	}
	return true;
}

static bool move_is_good(const struct kv_copy *copy, const struct kv_move *move)
{
	u32 end;

	if (kv_add_overflows(move->src, move->nr, &end) ||
	    kv_add_overflows(move->dst, move->nr, &end))
		return false;
	for (u32 i = 0; i < copy->src.nr; i++)
		if (!run_is_memory(&copy->src.plane[i], move->src, move->nr) ||
		    !run_is_memory(&copy->dst.plane[i], move->dst, move->nr))
			return false;
	return true;
}

bool kv_copy_is_good(const struct kv_copy *copy)
{
	if (!planes_are_good(copy))
		return false;
	for (u32 i = 0; i < copy->nr; i++)
		if (!move_is_good(copy, &copy->moves[i]))
			return false;
	return true;
}

/* ---- the choice of a path ---- */

static u64 bytes_of(const struct kv_copy *copy, u64 nr_blocks)
{
	u64 bytes = 0;

	for (u32 i = 0; i < copy->src.nr; i++)
		bytes += copy->src.plane[i].bytes;
	return bytes * nr_blocks;
}

/* A launch costs one call, however many pieces there are. */
static u64 expected_ns(const struct job *job, u32 path, u64 bytes)
{
	u64 calls = path == KV_PATH_KERNEL ? 1 : job->nr_pieces;

	return kv_cost_ns(job->dev, job->copy->dir, path, calls, bytes);
}

static u32 cheapest(const struct job *job, u32 tried)
{
	u64 bytes = bytes_of(job->copy, job->nr_blocks), best_ns = UINT64_MAX;
	u32 best = KV_PATH_AUTO;

	for (u32 path = KV_PATH_KERNEL; path < KV_NR_PATHS; path++) {
		u64 ns;

		if (tried & BIT(path) || kv_path_refusal(job, path))
			continue;
		ns = expected_ns(job, path, bytes);
		if (ns < best_ns) {
			best_ns = ns;
			best = path;
		}
	}
	return best;
}

static void count_fallback(struct kv_dev *dev, u32 refusal)
{
	dev->count.fallback[refusal - 1]++;
}

/*
 * The kernel is best for a copy within the device, and a batch for others; that it cannot be
 * had is worth counting.
 */
static void count_missing(const struct job *job)
{
	u32 wanted = job->dev->knob[KV_KNOB_PATH];
	u32 refusal;

	if (!wanted)
		wanted = job->copy->dir == KV_COPY_LOCAL ? KV_PATH_KERNEL : KV_PATH_BATCH;
	refusal = kv_path_refusal(job, wanted);
	if (refusal)
		count_fallback(job->dev, refusal);
}

static u32 choose(const struct job *job, u32 tried)
{
	u32 wanted = job->dev->knob[KV_KNOB_PATH];

	if (wanted && !(tried & BIT(wanted)) && !kv_path_refusal(job, wanted))
		return wanted;
	return cheapest(job, tried);
}

/* ---- submission ---- */

static void count_path(const struct job *job, u32 path)
{
	struct kv_path_stat *stat = &job->dev->count.path[path];

	stat->nr++;
	stat->nr_calls += job->nr_calls;
	stat->nr_pieces += job->nr_pieces;
}

/* On a healthy device an unsupported path is not tried a second time. */
static void count_refusal(struct job *job, u32 path, int err)
{
	if (err == -EOPNOTSUPP && path != KV_PATH_SINGLE)
		job->dev->refused_paths |= BIT(path);
	count_fallback(job->dev, KV_FALL_REFUSED + 1);
}

/*
 * By one path after the other; any stop of the device stops this. A path in @tried that refused
 * a wave is not asked for the next ones: another refusal would put those in doubt.
 */
static int submit_wave(struct job *job, u32 *tried)
{
	int err = -EIO;
	u32 path;

	count_missing(job);
	while ((path = choose(job, *tried)) != KV_PATH_AUTO) {
		job->nr_batch = 0;
		err = kv_path_submit(job, path);
		if (!err) {
			count_path(job, path);
			return 0;
		}
		if (kv_gpu_ready(job->dev->gpu) || kv_dev_is_blind(job->dev))
			return -EIO;
		count_refusal(job, path, err);
		kv_fence_again(job->dev);
		*tried |= BIT(path);
	}
	return err;
}

static u64 blocks_of(const struct kv_move *moves, u32 nr)
{
	u64 sum = 0;

	for (u32 i = 0; i < nr; i++)
		sum += moves[i].nr;
	return sum;
}

/* Returns whether anything was queued, and its error. */
static bool submit_waves(struct kv_dev *dev, const struct kv_copy *copy, kcu_stream stream,
			 int *err)
{
	struct wave_cursor at = {
		.moves = copy->moves, .nr = copy->nr,
		.is_one_space = copy->src.plane == copy->dst.plane,
	};
	u32 nr, tried = 0;
	bool any = false;

	*err = 0;
	while (!*err && (nr = kv_wave_next(dev->waves, &at))) {
		struct job job = {
			.dev = dev, .copy = copy, .moves = dev->waves->move, .nr = nr,
			.nr_blocks = blocks_of(dev->waves->move, nr), .stream = stream,
		};

		job.nr_pieces = kv_job_pieces(&job);
		*err = submit_wave(&job, &tried);
		any |= job.nr_calls > 0;
		dev->is_tied |= any;
	}
	return any;
}

/* ---- copies that sum ---- */

/*
 * A launch that copies and sums reads memory once. But engines for copies may be faster than that
 * by more than it takes to sum the blocks in place, which is at most what a copy of them takes.
 */
static bool is_worth_it(const struct job *job)
{
	struct kv_dev *dev = job->dev;
	u64 bytes = bytes_of(job->copy, job->nr_blocks);

	if (dev->knob[KV_KNOB_PATH])
		return dev->knob[KV_KNOB_PATH] == KV_PATH_KERNEL;
	return expected_ns(job, KV_PATH_KERNEL, bytes) <=
	       expected_ns(job, cheapest(job, 0), bytes) +
	       kv_cost_ns(dev, KV_COPY_LOCAL, KV_PATH_KERNEL, 1, bytes);
}

/* -EOPNOTSUPP: nothing was queued. */
static int sum_copy(struct job *job)
{
	struct kv_dev *dev = job->dev;
	kcu_deviceptr sums = kv_sum_buffer(dev, 2);
	u32 bytes = job->nr_blocks * sizeof(u64);
	int err;

	if (kv_path_refusal(job, KV_PATH_KERNEL) || !kv_kernel_sums(job) || !is_worth_it(job))
		return -EOPNOTSUPP;
	err = kv_gpu_call(dev->gpu, memset_d8_async, sums, 0, bytes, job->stream);
	if (!err)
		err = kv_kernel_move_sum(job, sums);
	if (!err)
		err = kv_gpu_call(dev->gpu, memcpy_dtoh_async, job->copy->sums, sums, bytes,
				  job->stream);
	if (err && !job->nr_calls && !kv_gpu_ready(dev->gpu) && !kv_dev_is_blind(dev))
		return -EOPNOTSUPP;
	return err ? -EIO : 0;
}

/* One launch, or nothing: in the order of the moves, which are independent of each other. */
static int submit_summed(struct kv_dev *dev, const struct kv_copy *copy, kcu_stream stream)
{
	struct job job = {
		.dev = dev, .copy = copy, .moves = copy->moves, .nr = copy->nr,
		.nr_blocks = blocks_of(copy->moves, copy->nr), .stream = stream,
	};
	int err;

	if (!job.nr_blocks)
		return 0;
	job.nr_pieces = kv_job_pieces(&job);
	err = sum_copy(&job);
	if (!err)
		count_path(&job, KV_PATH_KERNEL);
	return err;
}

/* ---- requests, from the check to the fence ---- */

static int submit(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	kcu_stream stream = copy->dir == KV_COPY_LOCAL ? dev->gpu->compact : dev->gpu->transfer;
	struct fence *slot = kv_fence_reserve(dev);
	bool any;
	int err;

	if (!slot)
		return -EIO;
	err = kv_fence_order(dev, stream, copy->after);
	if (err)
		return err;
	if (copy->sums) {
		err = submit_summed(dev, copy, stream);
		any = err != -EOPNOTSUPP;
	} else {
		any = submit_waves(dev, copy, stream, &err);
	}
	if (err && !any)
		return err;
	*fence = kv_fence_commit(dev, slot, stream, err ? -EIO : 0);
	dev->count.nr_copies++;
	return 0;
}

static int check(struct kv_dev *dev, const struct kv_copy *copy)
{
	if (copy->dir >= KV_NR_COPY_DIRS || !kv_copy_is_good(copy) ||
	    (copy->sums && copy->dir == KV_COPY_LOCAL))
		return -EINVAL;
	if (copy->dir != KV_COPY_TO_PEER)
		return 0;
	if (!copy->peer || copy->peer->driver != dev->driver)
		return -EINVAL;
	return dev->gpu->features & KCU_F_PEER ? 0 : -EOPNOTSUPP;
}

int kv_copy_submit(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	struct kv_gpu_scope scope;
	int err = check(dev, copy);

	if (!err)
		err = kv_dev_begin(dev, &scope);
	if (err)
		return err;
	err = submit(dev, copy, fence);
	kv_dev_end(dev, &scope);
	return err;
}
