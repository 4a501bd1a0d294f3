// SPDX-License-Identifier: Apache-2.0
/*
 * Any call of the driver may fail, once or from then on, in every way: nothing is lost, nothing is
 * believed that is not so, and nothing stays behind.
 *
 * The scenario goes through all there is. A model follows it: a call that fails has done nothing, a
 * fence that fails leaves its destination unknown. In the end what is known must be there.
 */
#include "soft.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"

#define NR	24
#define LIST	400

static const struct kv_dev_ops *const ops = &kv_dev_soft;
static const struct kv_fence none;

/* Two pools, on the device and on the host; content by block. */
struct scene {
	struct kv_dev *dev;
	u64 addr;
	struct kv_host_mem host;
	struct kvmm_plane plane[2], host_plane[2];
	struct kv_planes planes, host_planes;
	bool known[NR], host_known[NR];
	u8 byte[NR], host_byte[NR];
	u32 nr_failed;
};

#define BYTES	256u

static void failed(struct scene *scene, int err)
{
	static const int expected[] = { -EIO, -EINVAL, -ENOMEM, -EOPNOTSUPP, -EBUSY, -ENODEV,
					-EAGAIN, -ENOBUFS, -EFAULT, -EEXIST };
	bool found = false;

	scene->nr_failed++;
	for (u32 i = 0; i < ARRAY_SIZE(expected); i++)
		found |= err == expected[i];
	cr_expect(found, "%d", err);
}

static void set_planes(struct kvmm_plane *plane, u64 base)
{
	plane[0] = (struct kvmm_plane){ base, BYTES, BYTES };
	plane[1] = (struct kvmm_plane){ base + NR * BYTES, BYTES, BYTES };
}

static int scene_init(struct scene *scene)
{
	int err;

	*scene = (struct scene){ .planes = { scene->plane, 2 },
				 .host_planes = { scene->host_plane, 2 } };
	err = ops->open(0, &scene->dev);
	if (err)
		return err;
	err = ops->alloc(scene->dev, 2 * NR * BYTES, &scene->addr);
	if (err)
		return err;
	set_planes(scene->plane, scene->addr);
	err = ops->host_alloc(scene->dev, 2 * NR * BYTES + sizeof(u64), -1, &scene->host);
	set_planes(scene->host_plane, (uintptr_t)scene->host.ptr);
	return err;
}

static void scene_exit(struct scene *scene)
{
	if (!scene->dev)
		return;
	ops->host_free(scene->dev, &scene->host);
	if (scene->addr)
		ops->free(scene->dev, scene->addr, 2 * NR * BYTES);
	ops->close(scene->dev);
}

static void write_block(struct scene *scene, u32 block, u8 byte)
{
	u8 buf[BYTES];

	memset(buf, byte, BYTES);
	scene->known[block] = true;
	scene->byte[block] = byte;
	for (u32 p = 0; p < 2; p++) {
		int err = ops->write(scene->dev, scene->plane[p].base + block * BYTES, buf, BYTES);

		if (!err)
			continue;
		failed(scene, err);
		scene->known[block] = false;
	}
}

/* What the model knows of a destination after @err, and then @status. */
static void know(struct scene *scene, bool *known, u8 *byte, bool is_known, u8 is, int status)
{
	if (status)
		failed(scene, status);
	*known = !status && is_known;
	*byte = is;
}

/* By way of @moves, of which all but the last move nothing. */
static void move(struct scene *scene, const struct kv_move *moves, u32 nr)
{
	const struct kv_move last = moves[nr - 1];
	struct kv_fence fence;
	int err = dev_move(ops, scene->dev, &scene->planes, moves, nr, none, &fence);

	if (err)
		failed(scene, err);
	else
		know(scene, &scene->known[last.dst], &scene->byte[last.dst], scene->known[last.src],
		     scene->byte[last.src], ops->wait(scene->dev, fence));
}

static void move_one(struct scene *scene, u32 src, u32 dst, u32 path)
{
	ops->tune(scene->dev, KV_KNOB_PATH, path);
	move(scene, &(struct kv_move){ src, dst, 1 }, 1);
}

/* The same as one move, but as a list that does not fit into parameters. */
static void move_many(struct scene *scene, u32 src, u32 dst)
{
	static struct kv_move moves[LIST];

	for (u32 i = 0; i < LIST; i++)
		moves[i] = (struct kv_move){ src, dst, i == LIST - 1 };
	move(scene, moves, LIST);
}

static void save_one(struct scene *scene, u32 src, u32 dst)
{
	const struct kv_move move = { src, dst, 1 };
	const struct kv_copy copy = {
		.src = scene->planes, .dst = scene->host_planes, .moves = &move, .nr = 1,
		.dir = KV_COPY_TO_HOST, .flags = scene->host.is_mapped ? KV_COPY_MAPPED : 0,
	};
	struct kv_fence fence;
	int err = ops->copy_blocks(scene->dev, &copy, &fence);

	if (err)
		failed(scene, err);
	else
		know(scene, &scene->host_known[dst], &scene->host_byte[dst], scene->known[src],
		     scene->byte[src], ops->wait(scene->dev, fence));
}

static u64 sum_of(u8 byte)
{
	u8 buf[BYTES];

	memset(buf, byte, BYTES);
	return kv_sum_piece(buf, BYTES, 0) + kv_sum_piece(buf, BYTES, kv_sum_words(BYTES));
}

/* It may say that it cannot, but is not to do half of it; the last word of host memory has the sum. */
static void save_and_sum(struct scene *scene, u32 src, u32 dst)
{
	const struct kv_move move = { src, dst, 1 };
	u64 *sum = (u64 *)((u8 *)scene->host.ptr + 2 * NR * BYTES);
	const struct kv_copy copy = {
		.src = scene->planes, .dst = scene->host_planes, .moves = &move, .nr = 1,
		.dir = KV_COPY_TO_HOST, .flags = scene->host.is_mapped ? KV_COPY_MAPPED : 0,
		.sums = sum,
	};
	struct kv_fence fence;
	int err;

	ops->tune(scene->dev, KV_KNOB_PATH, KV_PATH_KERNEL);
	err = ops->copy_blocks(scene->dev, &copy, &fence);
	if (err) {
		failed(scene, err);
		return;
	}
	err = ops->wait(scene->dev, fence);
	know(scene, &scene->host_known[dst], &scene->host_byte[dst], scene->known[src],
	     scene->byte[src], err);
	if (!err && scene->known[src])
		cr_expect_eq(*sum, sum_of(scene->byte[src]));
}

static void sum_one(struct scene *scene, u32 block)
{
	u64 sum = 0;
	int err = ops->sum_blocks(scene->dev, &scene->planes, block, 1, none, &sum);

	if (err)
		failed(scene, err);
	else if (scene->known[block])
		cr_expect_eq(sum, sum_of(scene->byte[block]));
}

static void use_area(struct scene *scene)
{
	const struct kv_area_attr attr = { .max_bytes = 8 * MIB, .handle_bytes = 2 * MIB };
	struct kv_area *area = NULL;
	struct kv_area_info info;
	int err = ops->area_create(scene->dev, &attr, &area);

	if (err) {
		if (err != -EOPNOTSUPP)
			failed(scene, err);
		return;
	}
	err = ops->area_grow(area, 2 * MIB, 4 * MIB);
	ops->area_info(area, &info);
	if (err) {
		failed(scene, err);
	} else {
		cr_expect_eq(info.present_bytes, 4 * MIB);
		err = ops->area_shrink(area, 2 * MIB, 4 * MIB);
		if (err)
			failed(scene, err);
	}
	ops->area_destroy(area);
}

static void act(struct scene *scene)
{
	for (u32 b = 0; b < 6; b++)
		write_block(scene, b, 0x10 + b);
	move_one(scene, 0, 10, KV_PATH_KERNEL);
	move_one(scene, 1, 11, KV_PATH_BATCH);
	move_one(scene, 2, 12, KV_PATH_SINGLE);
	move_many(scene, 3, 13);
	save_one(scene, 12, 4);
	save_and_sum(scene, 3, 5);
	sum_one(scene, 10);
	use_area(scene);
}

static bool is_all(const u8 *buf, u8 byte)
{
	for (u32 i = 0; i < BYTES; i++)
		if (buf[i] != byte)
			return false;
	return true;
}

/* With a driver that works again, unless the device is lost. */
static void check_content(struct scene *scene)
{
	u8 buf[BYTES];

	for (u32 b = 0; b < NR; b++)
		for (u32 p = 0; p < 2; p++) {
			u64 at = b * BYTES;

			if (scene->host_known[b])
				cr_expect(is_all((u8 *)scene->host_plane[p].base + at,
						 scene->host_byte[b]), "host block %u", b);
			if (scene->known[b] && !ops->read(scene->dev, scene->plane[p].base + at,
							  buf, BYTES))
				cr_expect(is_all(buf, scene->byte[b]), "block %u", b);
		}
}

static void expect_nothing_left(const char *what, u32 nth)
{
	struct sw_live live;

	ctl->live(&live);
	cr_expect(!live.nr_events && !live.nr_modules && !live.nr_allocs && !live.nr_host &&
		  !live.nr_reservations && !live.nr_handles && !live.nr_mappings &&
		  live.nr_streams == 0,
		  "%s %u: %u events, %u modules, %u allocs, %u host, %u reservations, "
		  "%u handles, %u mappings, %u streams", what, nth, live.nr_events,
		  live.nr_modules, live.nr_allocs, live.nr_host, live.nr_reservations,
		  live.nr_handles, live.nr_mappings, live.nr_streams);
}

/* Calls that give back: there is nobody to ask a second time, so what they held is lost. */
static const char *const gives_back[] = {
	"cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuStreamDestroy_v2",
	"cuEventDestroy_v2", "cuModuleUnload", "cuMemRelease", "cuMemUnmap", "cuMemAddressFree",
	"cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
	"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode",
};

static bool is_giving_back(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(gives_back); i++)
		if (!strcmp(name, gives_back[i]))
			return true;
	return false;
}

struct plan {
	const char *name;
	kcu_result code;
	bool is_persistent;
	bool is_async;
};

/* Returns whether the failure came about. */
static bool run(const struct plan *plan, u32 nth)
{
	bool is_fatal = kcu_class_of(plan->code) == KCU_FATAL;
	u64 before = plan->name ? ctl->calls(plan->name) : 0;
	struct scene scene;
	bool struck;

	if (plan->name)
		ctl->fail(plan->name, before + nth, plan->code, plan->is_persistent,
			  plan->is_async);
	if (!scene_init(&scene))
		act(&scene);
	struck = plan->name && ctl->calls(plan->name) >= before + nth;
	ctl->fail_none();
	if (scene.dev)
		check_content(&scene);
	scene_exit(&scene);
	cr_expect_eq(kv_mem_bytes(), 0, "%s %u", plan->name, nth);
	expect_no_races(nth, plan->code);
	if (!is_fatal && !plan->is_persistent && plan->name && !is_giving_back(plan->name))
		expect_nothing_left(plan->name, nth);
	if (!plan->name)
		cr_expect_eq(scene.nr_failed, 0);
	return struck;
}

static const char *const all_calls[] = {
#define NAME(field, name, type, version)	#name,
	KCU_ALL(NAME)
};

/* All of the first few, then ever fewer. */
static u32 next(u32 nth)
{
	return nth + 1 + nth / 4;
}

/* Each on a fresh driver: what a former round could not give back is not this one's. */
static void run_all(struct plan plan)
{
	u32 nr_struck = 0;

	run(&(struct plan){ 0 }, 0);
	for (u32 i = plan.code % test_stride(); i < ARRAY_SIZE(all_calls); i += test_stride()) {
		plan.name = all_calls[i];
		for (u32 nth = 1;; nth = next(nth)) {
			cr_assert_eq(ctl->reset(NULL), 0);
			if (!run(&plan, nth))
				break;
			nr_struck++;
		}
	}
	cr_expect_gt(nr_struck, test_is_short() ? 0 : 100);
}

static void all(kcu_result code, bool is_persistent)
{
	load("mem=64M,va=1G");
	run_all((struct plan){ .code = code, .is_persistent = is_persistent });
}

Test(fault, without_one_all_is_well)
{
	load("mem=64M,va=1G");
	run(&(struct plan){ 0 }, 0);
	expect_nothing_left("", 0);
}

TEST_CALL(fault, any_call_is_refused_once, all(KCU_E_INVALID_VALUE, false))
TEST_CALL(fault, any_call_finds_no_memory_once, all(KCU_E_OUT_OF_MEMORY, false))
TEST_CALL(fault, any_call_is_not_supported_once, all(KCU_E_NOT_SUPPORTED, false))
TEST_CALL(fault, any_call_sees_a_capture_once, all(KCU_E_STREAM_CAPTURE_UNSUPPORTED, false))
TEST_CALL(fault, any_call_loses_the_device, all(KCU_E_ILLEGAL_ADDRESS, true))
TEST_CALL(fault, any_call_is_refused_from_then_on, all(KCU_E_INVALID_VALUE, true))
TEST_CALL(fault, any_call_finds_no_memory_from_then_on, all(KCU_E_OUT_OF_MEMORY, true))
TEST_CALL(fault, any_call_is_not_supported_from_then_on, all(KCU_E_NOT_SUPPORTED, true))

static const char *const work[] = {
	"cuLaunchKernel", "cuMemcpyBatchAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent",
};

/* The call succeeds, and what it queued brings the device down. */
Test(fault, any_work_loses_the_device)
{
	load("mem=64M,va=1G");
	run(&(struct plan){ 0 }, 0);
	for (u32 i = 0; i < 6; i++) {		/* those that write */
		struct plan plan = { work[i], KCU_E_ILLEGAL_ADDRESS, false, true };
		u32 nth = 0;

		do
			cr_assert_eq(ctl->reset(NULL), 0);
		while (run(&plan, ++nth));
		cr_expect_gt(nth, 1, "%s", work[i]);
	}
}

/* ---- at rates ---- */

/* Moves of one block each, all under way before the first is asked about; every second one is joined. */
static void move_together(struct scene *scene)
{
	struct kv_fence fence[4], both[2], joined;
	int err[ARRAY_SIZE(fence)], status;

	for (u32 i = 0; i < ARRAY_SIZE(fence); i++) {
		const struct kv_move move = { i, 16 + i, 1 };

		ops->tune(scene->dev, KV_KNOB_PATH, i % KV_NR_PATHS);
		err[i] = dev_move(ops, scene->dev, &scene->planes, &move, 1, none, &fence[i]);
	}
	for (u32 i = 0; i < ARRAY_SIZE(fence); i += 2) {
		both[0] = fence[i];
		both[1] = fence[i + 1];
		status = err[i] || err[i + 1] || ops->join(scene->dev, both, 2, &joined) ?
			 -EIO : ops->wait(scene->dev, joined);
		for (u32 j = i; j < i + 2; j++)
			if (!err[j])
				know(scene, &scene->known[16 + j], &scene->byte[16 + j],
				     scene->known[j], scene->byte[j],
				     status ? ops->wait(scene->dev, fence[j]) : 0);
	}
}

/* The copy goes behind a move that it does not wait for; a source that failed is not copied as good. */
static void save_behind_move(struct scene *scene)
{
	const struct kv_move move = { 5, 21, 1 }, save = { 21, 7, 1 };
	struct kv_copy copy = {
		.src = scene->planes, .dst = scene->host_planes, .moves = &save, .nr = 1,
		.dir = KV_COPY_TO_HOST, .flags = scene->host.is_mapped ? KV_COPY_MAPPED : 0,
	};
	struct kv_fence fence;

	if (dev_move(ops, scene->dev, &scene->planes, &move, 1, none, &copy.after))
		return;
	if (!ops->copy_blocks(scene->dev, &copy, &fence))
		know(scene, &scene->host_known[7], &scene->host_byte[7], scene->known[5],
		     scene->byte[5], ops->wait(scene->dev, fence));
	know(scene, &scene->known[21], &scene->byte[21], scene->known[5], scene->byte[5],
	     ops->wait(scene->dev, copy.after));
}

static void run_rate(const char *name, u32 per_mille, kcu_result code, bool is_async)
{
	struct scene scene;

	cr_assert_eq(ctl->reset(NULL), 0);
	ctl->set_seed(random_below(UINT32_MAX));
	cr_assert_eq(scene_init(&scene), 0);
	ctl->fail_rate(name, per_mille, code, is_async);
	for (u32 i = 0; i < 3; i++) {
		act(&scene);
		move_together(&scene);
		save_behind_move(&scene);
	}
	ctl->fail_none();
	for (u32 i = 0; i < 4 && ops->sees_end(scene.dev); i++)
		;
	check_content(&scene);
	scene_exit(&scene);
	cr_expect_eq(kv_mem_bytes(), 0, "%s", name);
	/* Work is not ordered behind an event that was not waited for. */
	if (!is_async)
		expect_no_races(per_mille, code);
}

static void at_rates(const char *const *calls, u32 nr, bool is_async)
{
	static const kcu_result codes[] = {
		KCU_E_OUT_OF_MEMORY, KCU_E_INVALID_VALUE, KCU_E_LAUNCH_OUT_OF_RESOURCES,
		KCU_E_NOT_SUPPORTED, KCU_E_ALREADY_MAPPED, KCU_E_LAUNCH_FAILED,
	};
	static const u32 rates[] = { 10, 70, 280, 500 };

	load("mem=64M,va=1G");
	run(&(struct plan){ 0 }, 0);
	for (u32 i = 0; i < nr; i += test_stride())
		for (u32 c = i % 2; c < ARRAY_SIZE(codes); c += 2)
			run_rate(calls[i], rates[(i + c) % ARRAY_SIZE(rates)], codes[c], is_async);
	for (u32 c = 0; c < ARRAY_SIZE(codes); c++)
		for (u32 r = 0; r < ARRAY_SIZE(rates); r++)
			run_rate("*", rates[r], codes[c], is_async);
}

TEST_CALL(fault, any_call_fails_at_a_rate, at_rates(all_calls, ARRAY_SIZE(all_calls), false))

/* The failure is told once, to whichever call comes next. */
TEST_CALL(fault, any_work_fails_at_a_rate, at_rates(work, ARRAY_SIZE(work), true))

/* It is the answer about that allocation alone: what is under way is not in doubt. */
Test(fault, an_allocation_that_finds_no_memory_fails_no_copy)
{
	const struct kv_move move = { 0, 1, 1 };
	struct kv_host_mem host;
	struct kv_fence fence;
	struct scene scene;
	u64 addr;

	load("mem=64M,va=1G");
	cr_assert_eq(scene_init(&scene), 0);
	write_block(&scene, 0, 0x77);
	cr_assert_eq(dev_move(ops, scene.dev, &scene.planes, &move, 1, none, &fence), 0);
	ctl->fail("cuMemAlloc_v2", 1, KCU_E_OUT_OF_MEMORY, false, false);
	ctl->fail("cuMemHostRegister_v2", 1, KCU_E_OUT_OF_MEMORY, false, false);
	cr_expect_eq(ops->alloc(scene.dev, BYTES, &addr), -ENOMEM);
	cr_assert_eq(ops->host_alloc(scene.dev, BYTES, -1, &host), 0, "it is not registered then");
	cr_expect_eq(ops->wait(scene.dev, fence), 0);
	ops->host_free(scene.dev, &host);
	ctl->fail_none();

	/* Any other failure may be the copy's. */
	cr_assert_eq(dev_move(ops, scene.dev, &scene.planes, &move, 1, none, &fence), 0);
	ctl->fail("cuMemAlloc_v2", 1, KCU_E_LAUNCH_OUT_OF_RESOURCES, false, false);
	cr_expect_lt(ops->alloc(scene.dev, BYTES, &addr), 0);
	cr_expect_eq(ops->wait(scene.dev, fence), -EIO);
	scene_exit(&scene);
}

/* Only the copy of its list is under way then, and the list goes with the device. */
Test(fault, a_device_whose_last_launch_was_refused_waits_for_what_went_before)
{
	struct scene scene;

	load("mem=64M,va=1G");
	cr_assert_eq(scene_init(&scene), 0);
	ctl->fail("cuLaunchKernel", 1, KCU_E_OUT_OF_MEMORY, false, false);
	save_and_sum(&scene, 0, 1);
	cr_expect_eq(scene.nr_failed, 1);
	scene_exit(&scene);
	expect_no_races(1, KCU_E_OUT_OF_MEMORY);
}

/* Where it should be, the list is that has been there before, which must not be gone through again. */
Test(fault, a_list_that_did_not_arrive_moves_nothing)
{
	struct scene scene;
	u8 *kept;

	load("mem=64M,va=1G");
	cr_assert_eq(scene_init(&scene), 0);
	kept = (u8 *)scene.host.ptr + BYTES;
	write_block(&scene, 0, 0x77);
	write_block(&scene, 2, 0x22);
	for (u32 i = 0; i < 2 * KV_NR_LISTS; i++)
		save_and_sum(&scene, 0, 1);
	memset(kept, 0x11, BYTES);
	ctl->fail("cuMemcpyHtoDAsync_v2", 1, KCU_E_OUT_OF_MEMORY, false, true);
	save_and_sum(&scene, 2, 3);
	cr_expect_not(scene.host_known[3]);
	cr_expect(is_all(kept, 0x11));
	scene_exit(&scene);
}

/* The driver tells of the move when the copy is queued, and the copy may go on all the same. */
Test(fault, nothing_is_written_into_a_buffer_after_its_read_has_failed)
{
	u8 buf[BYTES], want[BYTES];
	u32 nr_failed = 0;

	memset(want, 0x33, BYTES);
	load("mem=64M,va=1G,eager=1");
	for (u32 seed = 0; seed < 40; seed++) {
		const struct kv_move move = { 2, 1, 1 };
		struct kv_planes one;
		struct kv_fence fence;
		struct scene scene;

		cr_assert_eq(ctl->reset(NULL), 0);
		ctl->set_seed(seed);
		cr_assert_eq(scene_init(&scene), 0);
		write_block(&scene, 0, 0x77);
		ctl->fail_rate("cuMemcpyDtoDAsync_v2", 1000, KCU_E_OUT_OF_MEMORY, true);
		ops->tune(scene.dev, KV_KNOB_PATH, KV_PATH_SINGLE);
		one = (struct kv_planes){ scene.plane, 1 };
		cr_assert_eq(dev_move(ops, scene.dev, &one, &move, 1, none, &fence), 0);
		memset(buf, 0x33, BYTES);
		if (ops->read(scene.dev, scene.addr, buf, BYTES)) {
			nr_failed++;
			memset(buf, 0x33, BYTES);
			ctl->run();
			cr_expect(!memcmp(buf, want, BYTES), "seed %u", seed);
		}
		ctl->fail_none();
		cr_expect_eq(ops->wait(scene.dev, fence), -EIO, "seed %u", seed);
		scene_exit(&scene);
	}
	cr_expect_gt(nr_failed, 0);
}

/*
 * The first device of a kind is measured, others are not: so each is one with a driver of another
 * version. Far into that most calls are the same, hence the strides.
 */
static void while_measuring(const char *code, bool is_fatal)
{
	load("mem=64M,va=1G");
	for (u32 nth = 1, stride = 1; nth < 3000; nth += stride, stride += 1 + stride / 3) {
		struct kv_dev *dev = NULL;
		char options[96];
		int err;

		snprintf(options, sizeof(options), "mem=64M,va=1G,driver=%u,fail=*:%u%s:%s",
			 20000 + 10 * nth, nth, is_fatal ? "+" : "", code);
		cr_assert_eq(ctl->reset(options), 0);
		err = ops->open(0, &dev);
		ctl->fail_none();
		if (!err)
			ops->close(dev);
		cr_expect_eq(kv_mem_bytes(), 0, "call %u", nth);
		expect_no_races(nth, 0);
	}
}

TEST_CALL(fault, a_call_is_refused_while_the_device_is_measured,
	  while_measuring("INVALID_VALUE", false))
TEST_CALL(fault, the_device_is_lost_while_it_is_measured, while_measuring("LAUNCH_FAILED", true))
