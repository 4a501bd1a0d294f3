// SPDX-License-Identifier: Apache-2.0
/*
 * E5: moves as the library makes them, from the call to the end of the wait: blocks of real models,
 * through the engine behind every pool.
 */
#include "gpu.h"
#include "tests/cuda/dev_move.h"

#define MAX_PLANES	192u

struct shape {
	const char *model;
	u32 nr_planes;
	u64 piece;
	u32 nr_moves;
};

static const struct shape shapes[] = {
	{ "llama-8b", 64, 32 * KIB, 1000 },
	{ "llama-70b", 160, 32 * KIB, 1000 },
	{ "llama-70b-tp4", 160, 8 * KIB, 1000 },
	{ "deepseek-mla", 61, 72 * KIB, 1000 },
	{ "llama-8b-few", 64, 32 * KIB, 32 },
	{ "cross-layer", 1, 2 * MIB, 1000 },
};

struct job {
	const struct shape *shape;
	struct kv_dev *dev;
	struct kvmm_plane plane[MAX_PLANES];
	struct kv_planes planes;
	struct kv_move *moves;
	u32 nr_moves;			/* what the pool has room for */
	u32 nr_blocks;
	u64 *sums;
};

static void must_err(int err, const char *what)
{
	if (err)
		give_up("%s: %s", what, strerror(-err));
}

/* At most that many, and no multiple of 7 or 11: else two moves would have one destination. */
static u32 usable_number(u64 nr)
{
	while (nr > 1 && (nr % 7 == 0 || nr % 11 == 0))
		nr--;
	return nr;
}

static void job_open(struct job *job, const struct shape *shape)
{
	u64 block_bytes = shape->nr_planes * shape->piece;
	u64 room = gpu.pool_bytes / block_bytes;

	job->shape = shape;
	job->nr_moves = usable_number(min((u64)shape->nr_moves, room / 2));
	must_be(job->nr_moves > 0, "room for a block");
	job->nr_blocks = 2 * job->nr_moves;
	for (u32 i = 0; i < shape->nr_planes; i++)
		job->plane[i] = (struct kvmm_plane){
			gpu.pool + i * job->nr_blocks * shape->piece, shape->piece, shape->piece,
		};
	job->planes = (struct kv_planes){ job->plane, shape->nr_planes };
	job->moves = malloc(job->nr_moves * sizeof(*job->moves));
	job->sums = malloc(job->nr_blocks * sizeof(*job->sums));
	must_be(job->moves && job->sums, "memory");
	/* From the low half to the high one; no two moves are next to each other on both sides. */
	for (u32 i = 0; i < job->nr_moves; i++)
		job->moves[i] = (struct kv_move){
			i * 11 % job->nr_moves, job->nr_moves + i * 7 % job->nr_moves, 1,
		};
}

static void verify(struct job *job)
{
	struct kv_fence none = { 0 };

	must_err(gpu.ops->sum_blocks(job->dev, &job->planes, 0, job->nr_blocks, none, job->sums),
		 "sum_blocks");
	for (u32 i = 0; i < job->nr_moves; i++)
		if (job->sums[job->moves[i].src] != job->sums[job->moves[i].dst])
			give_up("%s: block %u is wrong after the move", job->shape->model, i);
}

static void measure(struct job *job)
{
	struct samples submit = { .nr = 0 }, total = { .nr = 0 }, gbs = { .nr = 0 };
	u64 bytes = job->nr_moves * job->shape->nr_planes * job->shape->piece;

	for (u32 i = 0; i <= wanted_runs(); i++) {
		struct kv_fence none = { 0 }, fence;
		u64 begin = now_ns(), queued;

		must_err(dev_move(gpu.ops, job->dev, &job->planes, job->moves, job->nr_moves,
				  none, &fence), "copy_blocks");
		queued = now_ns();
		must_err(gpu.ops->wait(job->dev, fence), "wait");
		if (!i)
			continue;
		add_sample(&submit, (queued - begin) / 1e3);
		add_sample(&total, (now_ns() - begin) / 1e3);
		add_sample(&gbs, rate(bytes, total.value[total.nr - 1]));
	}
#define ROW(metric, unit, samples)							\
	report(metric, unit, samples, NULL, 0, "model=%s pieces=%u piece=%llu moves=%u",	\
	       job->shape->model, job->shape->nr_planes,					\
	       (unsigned long long)job->shape->piece, job->nr_moves)
	ROW("submit_us", "us", &submit);
	ROW("move_us", "us", &total);
	ROW("move_rate", "GB/s", &gbs);
#undef ROW
}

static void report_paths(struct kv_dev *dev)
{
	static const char *const names[KV_NR_PATHS] = { "auto", "kernel", "batch", "single" };
	struct kv_dev_stat stat;

	gpu.ops->stat(dev, &stat);
	for (u32 i = 0; i < KV_NR_PATHS; i++)
		if (stat.path[i].nr)
			report_fact(names[i], "%llu submissions, %llu calls, %llu pieces",
				    (unsigned long long)stat.path[i].nr,
				    (unsigned long long)stat.path[i].nr_calls,
				    (unsigned long long)stat.path[i].nr_pieces);
}

static void measure_shape(struct kv_dev *dev, const struct shape *shape)
{
	struct job job = { .dev = dev };

	job_open(&job, shape);
	gpu_randomise();
	measure(&job);
	verify(&job);
	free(job.moves);
	free(job.sums);
}

/* What a decision costs that is taken at every step: has it ended? */
static void measure_poll(struct kv_dev *dev)
{
	struct kvmm_plane plane = { gpu.pool, 4096, 4096 };
	struct kv_planes planes = { &plane, 1 };
	struct kv_fence none = { 0 }, fence;
	struct kv_move move = { 0, 1, 1 };
	struct samples ns = { .nr = 0 };

	must_err(dev_move(gpu.ops, dev, &planes, &move, 1, none, &fence), "copy_blocks");
	must_err(gpu.ops->wait(dev, fence), "wait");
	for (u32 i = 0; i < wanted_runs(); i++) {
		u64 begin = now_ns();

		for (u32 n = 0; n < 1000; n++)
			must_err(gpu.ops->poll(dev, fence), "poll");
		add_sample(&ns, (now_ns() - begin) / 1e3);
	}
	report("poll_ns", "ns", &ns, NULL, 0, "fence=complete");
}

static void run(void)
{
	struct kv_dev *dev;

	must_err(gpu.ops->open(0, &dev), "open");
	for (u32 i = 0; i < ARRAY_SIZE(shapes) && !out_of_time(); i++)
		measure_shape(dev, &shapes[i]);
	if (!out_of_time())
		measure_poll(dev);
	report_paths(dev);
	gpu.ops->close(dev);
}

const struct experiment experiment_end_to_end = {
	"E5", "blocks of models through the library's engine: submit and wait", run, 4,
};
