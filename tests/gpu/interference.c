// SPDX-License-Identifier: Apache-2.0
/*
 * E7: what moving in the background costs whoever reads memory as fast as it goes.
 *
 * The reader sums up memory, a stretch after the other, so that no cache helps; each launch is as
 * long as a step of decoding. The mover's kernel runs beside it on a stream of low priority, with
 * more and more groups of threads, and for longer than the reader.
 */
#include "gpu.h"

#define STEP_BYTES	(64 * MIB)
#define READ_BLOCK	(32 * KIB)
#define NR_STEPS	100u
#define MOVE_BYTES	(256 * MIB)
#define MAX_LAUNCHES	256u
#define BAR_GROUPS	16u
#define BAR_RATIO	1.05

struct scene {
	struct scatter scatter;
	kcu_stream mover;
	kcu_event begin, end;
	kcu_deviceptr plane, sums;
	u32 nr_steps, step_blocks, nr_stretches;
	u32 groups, nr_launches;
	double alone_us;
};

static void scene_open(struct scene *scene)
{
	struct kvmm_plane plane = { gpu.pool, READ_BLOCK, READ_BLOCK };
	u64 half = gpu.pool_bytes / 2, step = min(STEP_BYTES, half / 2);

	*scene = (struct scene){ .nr_steps = gpu.is_quick ? 4 : NR_STEPS };
	scene->step_blocks = step / READ_BLOCK;
	scene->nr_stretches = half / step;
	scatter_open(&scene->scatter, 32 * KIB, min(MOVE_BYTES, half), 8192);
	scene->plane = gpu.tables + gpu.table_bytes - 64 * KIB;
	scene->sums = scene->plane + 4096;
	CU(memcpy_htod_async, scene->plane, &plane, sizeof(plane), gpu.stream);
	CU(stream_synchronize, gpu.stream);
	CU(stream_create_with_priority, &scene->mover, KCU_STREAM_NON_BLOCKING, 0);
	CU(event_create, &scene->begin, 0);
	CU(event_create, &scene->end, 0);
}

static void scene_close(struct scene *scene)
{
	CU(stream_synchronize, scene->mover);
	CU(event_destroy, scene->begin);
	CU(event_destroy, scene->end);
	CU(stream_destroy, scene->mover);
	scatter_close(&scene->scatter);
}

/* ---- the reader ---- */

static void read_stretch(const struct scene *scene, u32 nr)
{
	struct kv_sum_args args = {
		.planes = scene->plane, .nr_planes = 1, .nr_blocks = scene->step_blocks,
		.first = nr % scene->nr_stretches * scene->step_blocks, .sums = scene->sums,
		.nr_parts = 1,
	};
	void *params[] = { &args };

	CU(launch_kernel, gpu.sum, kv_launch_sum_groups(&args, 16 * gpu.nr_sms), 1, 1, 256, 1, 1,
	   0, gpu.stream, params, NULL);
}

static void read_all(void *arg)
{
	const struct scene *scene = arg;

	for (u32 i = 0; i < scene->nr_steps; i++)
		read_stretch(scene, i);
}

/* ---- both ---- */

static void start_mover(const struct scene *scene)
{
	struct kv_move_head head = scene->scatter.head;
	void *params[] = { &head };

	CU(event_record, scene->begin, scene->mover);
	for (u32 i = 0; i < scene->nr_launches; i++)
		CU(launch_kernel, gpu.move16_list, kv_launch_groups(&head, scene->groups), 1, 1,
		   scene->scatter.nr_threads, 1, 1, 0, scene->mover, params, NULL);
	CU(event_record, scene->end, scene->mover);
}

/* A reader beside the mover. False: the mover was through first, so it does not count. */
static bool run_both(const struct scene *scene, struct samples *step, struct samples *gbs)
{
	bool was_beside;
	float ms;

	start_mover(scene);
	CU(event_record, gpu.begin, gpu.stream);
	read_all((void *)scene);
	CU(event_record, gpu.end, gpu.stream);
	CU(event_synchronize, gpu.end);
	was_beside = gpu.cu->event_query(scene->end) == KCU_E_NOT_READY;
	CU(event_synchronize, scene->end);
	CU(event_elapsed_time, &ms, gpu.begin, gpu.end);
	add_sample(step, ms * 1e3 / scene->nr_steps);
	CU(event_elapsed_time, &ms, scene->begin, scene->end);
	add_sample(gbs, rate(scene->nr_launches * scatter_bytes(&scene->scatter), ms * 1e3));
	return was_beside;
}

/* So many launches that the mover outlasts the reader. */
static void find_length(struct scene *scene)
{
	struct samples step, gbs;

	for (scene->nr_launches = 1; scene->nr_launches < MAX_LAUNCHES; scene->nr_launches *= 2) {
		step.nr = gbs.nr = 0;
		if (run_both(scene, &step, &gbs) || (gpu.is_quick && scene->nr_launches >= 4))
			break;
	}
}

static void say_bar(const struct scene *scene, double ratio)
{
	if (scene->groups != BAR_GROUPS)
		return;
	report_fact("bar", "a reader beside %u groups takes %.3f of its time; %.2f is allowed: %s",
		    scene->groups, ratio, BAR_RATIO, ratio <= BAR_RATIO ? "met" : "NOT met");
}

static void measure_beside(struct scene *scene, u32 groups)
{
	struct samples step = { .nr = 0 }, gbs = { .nr = 0 };
	u32 nr_late = 0;

	if (out_of_time())
		return;
	scene->groups = groups;
	scatter_poison(&scene->scatter);
	find_length(scene);
	for (u32 i = 0; i < wanted_runs(); i++)
		nr_late += !run_both(scene, &step, &gbs);
	scatter_verify(&scene->scatter);
	report("step_us", "us", &step, "alone", scene->alone_us, "groups=%u launches=%u", groups,
	       scene->nr_launches);
	report("mover_rate", "GB/s", &gbs, NULL, 0, "groups=%u launches=%u", groups,
	       scene->nr_launches);
	if (nr_late)
		report_fact("too short", "groups=%u: in %u runs the mover was through first", groups,
			    nr_late);
	say_bar(scene, scene->alone_us ? median(&step) / scene->alone_us : 0);
}

static void run(void)
{
	static const u32 groups[] = { 16, 8, 32, 132 };
	struct scene scene;
	struct samples us;

	gpu_randomise();
	scene_open(&scene);
	time_device(&us, read_all, &scene);
	for (u32 i = 0; i < us.nr; i++)
		us.value[i] /= scene.nr_steps;
	scene.alone_us = median(&us);
	report("step_us", "us", &us, NULL, 0, "groups=0 bytes=%llu",
	       scene.step_blocks * READ_BLOCK);
	for (u32 i = 0; i < ARRAY_SIZE(groups); i++)
		measure_beside(&scene, groups[i]);
	scene_close(&scene);
}

const struct experiment experiment_interference = {
	"E7", "a reader that needs all bandwidth, and moves beside it", run, 2,
};
