// SPDX-License-Identifier: Apache-2.0
/*
 * B7: a pool of a real model's blocks, every other one free, is defragmented: 1000 blocks move,
 * from the call to its return, beside one plain copy of so many bytes.
 */
#include <kvmm/kvmm.h>

#include "gpu.h"

#define NR_PLANES	64u
#define PIECE		(32 * KIB)
#define NR_MOVED	1000u
#define BAR_RATIO	1.2

struct defrag {
	struct kvmm_pool *pool;
	struct kvmm_plane plane[NR_PLANES];
	u32 nr_blocks;
	u64 bytes;			/* that move */
	double copy_us;
};

static void must_err(int err, const char *what)
{
	if (err)
		give_up("%s: %s", what, kvmm_strerror(err));
}

static void open_pool(struct defrag *defrag)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	for (u32 i = 0; i < NR_PLANES; i++)
		defrag->plane[i] = (struct kvmm_plane){
			gpu.pool + i * defrag->nr_blocks * PIECE, PIECE, PIECE,
		};
	attr.device = gpu.is_soft ? "soft:0" : "cuda:0";
	attr.planes = defrag->plane;
	attr.nr_planes = NR_PLANES;
	attr.nr_blocks = defrag->nr_blocks;
	must_err(kvmm_pool_create(&attr, &defrag->pool), "kvmm_pool_create");
}

/* One block a range; then every other one goes. */
static void make_holes(struct defrag *defrag)
{
	kvmm_range_t *range = calloc(defrag->nr_blocks, sizeof(*range));
	int err = 0;

	must_be(range, "memory for ranges");
	for (u32 i = 0; i < defrag->nr_blocks && !err; i++)
		err = kvmm_range_alloc(defrag->pool, 1, KVMM_RUNS(1), &range[i]);
	for (u32 i = 0; i < defrag->nr_blocks && !err; i += 2)
		err = kvmm_range_free(defrag->pool, range[i]);
	free(range);
	must_err(err, "ranges");
}

static void submit_copy(void *arg)
{
	CU(memcpy_dtod_async, gpu.pool + gpu.pool_bytes / 2, gpu.pool, *(u64 *)arg, gpu.stream);
}

static void measure_copy(struct defrag *defrag)
{
	struct samples us;

	time_device(&us, submit_copy, &defrag->bytes);
	defrag->copy_us = median(&us);
	report("copy_us", "us", &us, NULL, 0, "bytes=%llu", (unsigned long long)defrag->bytes);
}

/* Half of the pool in one run: half of what is held there moves. */
static void measure_once(struct defrag *defrag, struct samples *us, struct samples *plan_us)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = defrag->nr_blocks / 2 };
	u64 begin;

	open_pool(defrag);
	make_holes(defrag);
	begin = now_ns();
	must_err(kvmm_pool_compact(defrag->pool, &goal), "kvmm_pool_compact");
	add_sample(us, (now_ns() - begin) / 1e3);
	add_sample(plan_us, goal.plan_ns / 1e3);
	if (goal.moved != defrag->nr_blocks / 4)
		report_fact("moved", "%u blocks, not %u", goal.moved, defrag->nr_blocks / 4);
	must_err(kvmm_validate(defrag->pool), "kvmm_validate");
	kvmm_pool_destroy(defrag->pool);
}

static void run(void)
{
	struct samples us = { .nr = 0 }, plan_us = { .nr = 0 };
	struct defrag defrag = {
		.nr_blocks = min(4ull * NR_MOVED, gpu.pool_bytes / (NR_PLANES * PIECE)) & ~3u,
	};
	double ratio;

	must_be(defrag.nr_blocks >= 4, "room for blocks");
	defrag.bytes = defrag.nr_blocks / 4 * NR_PLANES * PIECE;
	gpu_randomise();
	measure_copy(&defrag);
	for (u32 i = 0; i < wanted_runs() && !out_of_time(); i++)
		measure_once(&defrag, &us, &plan_us);
	report("defrag_us", "us", &us, "copy", defrag.copy_us, "blocks=%u moved=%u pieces=%u",
	       defrag.nr_blocks, defrag.nr_blocks / 4, NR_PLANES);
	report("plan_us", "us", &plan_us, "copy", defrag.copy_us, "blocks=%u", defrag.nr_blocks);
	ratio = defrag.copy_us ? median(&us) / defrag.copy_us : 0;
	report_fact("bar", "%u blocks end to end take %.3f of one copy; %.1f is allowed: %s",
		    defrag.nr_blocks / 4, ratio, BAR_RATIO, ratio <= BAR_RATIO ? "met" : "NOT met");
}

const struct experiment experiment_defrag = {
	"B7", "1000 blocks of a pool defragmented, from call to return", run, 2,
};
