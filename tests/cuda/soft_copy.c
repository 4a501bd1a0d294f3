// SPDX-License-Identifier: Apache-2.0
/* The copy engine: every layout, every direction, every path, and what happens without one. */
#include "soft.h"
#include "tests/support/length.h"

#define NR	96
#define MOVES	40

static const struct kv_dev_ops *const ops = &kv_dev_soft;
static const struct kv_fence none;

static const char *const path_name[] = { "auto", "kernel", "batch", "single" };

static void force(struct kv_dev *dev, u32 path)
{
	cr_assert_eq(ops->tune(dev, KV_KNOB_PATH, path), 0);
}

static u64 used(struct kv_dev *dev, u32 path)
{
	struct kv_dev_stat stat;

	ops->stat(dev, &stat);
	return stat.path[path].nr;
}

static u64 fell(struct kv_dev *dev, u32 why)
{
	struct kv_dev_stat stat;

	ops->stat(dev, &stat);
	return stat.fallback[why];
}

static void move(struct blocks *pool, const struct kv_move *moves, u32 nr)
{
	struct kv_fence fence;

	cr_assert_eq(dev_move(ops, pool->dev, &pool->planes, moves, nr, none, &fence), 0);
	blocks_expect_moves(pool, pool, moves, nr);
	cr_assert_eq(ops->wait(pool->dev, fence), 0);
}

static void move_randomly(struct blocks *pool, u32 nr, u32 longest, bool is_free)
{
	struct kv_move moves[MOVES];
	u32 n = random_moves(moves, nr, longest, pool->nr, pool->nr, is_free);

	move(pool, moves, n);
}

/* Free lists are what planners make, others are chains, permutations and overlaps. */
static void try_layout(struct kv_dev *dev, const struct layout *layout, u32 path)
{
	struct blocks pool;
	u64 before = used(dev, path);

	force(dev, path);
	blocks_init(&pool, ops, dev, layout, NR);
	move_randomly(&pool, MOVES, 1, true);
	move_randomly(&pool, MOVES, 5, true);
	move_randomly(&pool, 8, 6, false);
	cr_expect(blocks_are_right(&pool), "%s by %s", layout->name, path_name[path]);
	cr_expect_geq(used(dev, path), before + 3, "%s by %s", layout->name, path_name[path]);
	blocks_exit(&pool, dev);
}

static void try_layouts(const char *options, u32 path)
{
	struct kv_dev *dev = soft_open(options);

	for (u32 i = 0; i < nr_layouts; i++)
		try_layout(dev, &layouts[i], path);
	soft_close(dev);
}

TEST_CALL(copy, every_layout_by_kernel, try_layouts("", KV_PATH_KERNEL))
TEST_CALL(copy, every_layout_by_kernel_as_many_threads, try_layouts("slow=1", KV_PATH_KERNEL))
TEST_CALL(copy, every_layout_by_batch, try_layouts("", KV_PATH_BATCH))
TEST_CALL(copy, every_layout_by_the_older_batch,
	  try_layouts("driver=12080,missing=cuMemcpyBatchAsync_v2", KV_PATH_BATCH))

/* A driver of 13.0 by its version that lacks the call of 13.0: the two signatures differ. */
TEST_CALL(copy, every_layout_by_the_older_batch_of_a_newer_driver,
	  try_layouts("missing=cuMemcpyBatchAsync_v2", KV_PATH_BATCH))
TEST_CALL(copy, every_layout_by_single_copies, try_layouts("", KV_PATH_SINGLE))

/* ---- other directions ---- */

struct trip {
	u32 path;
	bool is_pinned;
	bool is_mapped;
};

static void copy_once(struct kv_dev *dev, struct blocks *dst, struct blocks *src, u32 dir,
		      u32 flags)
{
	struct kv_move moves[MOVES];
	u32 nr = random_moves(moves, MOVES, 4, src->nr, dst->nr, true);
	struct kv_copy copy = {
		.src = src->planes, .dst = dst->planes, .moves = moves, .nr = nr, .dir = dir,
		.flags = flags,
	};
	struct kv_fence fence;

	cr_assert_eq(ops->copy_blocks(dev, &copy, &fence), 0);
	cr_assert_eq(ops->wait(dev, fence), 0);
	blocks_expect_moves(dst, src, moves, nr);
}

static void round_trip(struct kv_dev *dev, const struct layout *layout, const struct trip *trip)
{
	u32 flags = trip->is_mapped ? KV_COPY_MAPPED : 0;
	struct layout other = *layout;
	struct blocks device, host;

	/* The tier's own layout: all of a block in a row. */
	other.is_crossed = true;
	force(dev, trip->path);
	blocks_init(&device, ops, dev, layout, NR);
	blocks_init_host(&host, ops, dev, &other, NR / 2, trip->is_pinned);
	copy_once(dev, &host, &device, KV_COPY_TO_HOST, flags);
	cr_expect(blocks_are_right(&host), "%s out by %s", layout->name, path_name[trip->path]);
	copy_once(dev, &device, &host, KV_COPY_TO_DEVICE, flags);
	cr_expect(blocks_are_right(&device), "%s in by %s", layout->name, path_name[trip->path]);
	blocks_exit(&host, dev);
	blocks_exit(&device, dev);
}

static void round_trips(const struct trip *trip)
{
	struct kv_dev *dev = soft_open("");

	for (u32 i = 0; i < nr_layouts; i++)
		round_trip(dev, &layouts[i], trip);
	cr_expect_gt(used(dev, trip->path), nr_layouts);
	soft_close(dev);
}

Test(copy, to_host_and_back_by_kernel)
{
	round_trips(&(const struct trip){ KV_PATH_KERNEL, true, true });
}

Test(copy, to_host_and_back_by_batch)
{
	round_trips(&(const struct trip){ KV_PATH_BATCH, true, true });
}

Test(copy, to_host_and_back_by_single_copies)
{
	round_trips(&(const struct trip){ KV_PATH_SINGLE, true, true });
}

DEV_TEST(copy, pageable_memory_goes_by_single_copies, soft_open(""))
{
	const struct trip trip = { KV_PATH_KERNEL, false, false };

	for (u32 i = 0; i < nr_layouts; i++)
		round_trip(dev, &layouts[i], &trip);
	cr_expect_eq(used(dev, KV_PATH_KERNEL), 0);
	cr_expect_gt(used(dev, KV_PATH_SINGLE), 0);
	cr_expect_gt(fell(dev, KV_FALL_UNMAPPED), 0);
}

/* ---- copies that sum ---- */

static void expect_sums(struct kv_dev *dev, const struct blocks *src, const struct kv_move *moves,
			u32 nr, const u64 *sums)
{
	u64 sum;

	for (u32 i = 0; i < nr; i++)
		for (u32 k = 0; k < moves[i].nr; k++, sums++) {
			cr_assert_eq(ops->sum_blocks(dev, &src->planes, moves[i].src + k, 1, none,
						     &sum), 0);
			cr_expect_eq(*sums, sum, "block %u of move %u", k, i);
		}
}

/* False: it cannot be had, and nothing was done. */
static bool copy_and_sum(struct kv_dev *dev, struct blocks *dst, struct blocks *src, u32 dir)
{
	struct kv_host_mem sums;
	struct kv_move moves[MOVES];
	struct kv_copy copy = {
		.src = src->planes, .dst = dst->planes, .moves = moves, .dir = dir,
		.nr = random_moves(moves, MOVES, 4, src->nr, dst->nr, true),
		.flags = KV_COPY_MAPPED,
	};
	struct kv_fence fence;
	int err;

	cr_assert_eq(ops->host_alloc(dev, 4 * MOVES * sizeof(u64), -1, &sums), 0);
	copy.sums = sums.ptr;
	err = ops->copy_blocks(dev, &copy, &fence);
	cr_assert(!err || err == -EOPNOTSUPP);
	if (!err) {
		cr_assert_eq(ops->wait(dev, fence), 0);
		/* Where the host's memory is the source, what has arrived is as good. */
		blocks_expect_moves(dst, src, moves, copy.nr);
		if (dir == KV_COPY_TO_HOST)
			expect_sums(dev, src, moves, copy.nr, sums.ptr);
		for (u32 i = 0; i < copy.nr; i++)
			moves[i].src = moves[i].dst;
		if (dir == KV_COPY_TO_DEVICE)
			expect_sums(dev, dst, moves, copy.nr, sums.ptr);
	}
	cr_expect(blocks_are_right(dst));
	ops->host_free(dev, &sums);
	return !err;
}

static void sum_copies(const char *options)
{
	struct kv_dev *dev = soft_open(options);
	u32 nr = 0;

	force(dev, KV_PATH_KERNEL);
	for (u32 i = 0; i < nr_layouts; i++) {
		struct layout other = layouts[i];
		struct blocks device, host;
		bool is_summed;

		other.is_crossed = true;
		blocks_init(&device, ops, dev, &layouts[i], NR);
		blocks_init_host(&host, ops, dev, &other, NR / 2, true);
		is_summed = copy_and_sum(dev, &host, &device, KV_COPY_TO_HOST);
		cr_expect_eq(copy_and_sum(dev, &device, &host, KV_COPY_TO_DEVICE), is_summed);
		cr_expect_eq(is_summed, !strstr(layouts[i].name, "for vectors"), "%s",
			     layouts[i].name);
		nr += is_summed;
		blocks_exit(&host, dev);
		blocks_exit(&device, dev);
	}
	cr_expect_eq(nr, nr_layouts - 2);
	soft_close(dev);
}

TEST_CALL(copy, of_vectors_is_summed_as_it_goes, sum_copies(""))
TEST_CALL(copy, is_summed_by_many_threads, sum_copies("slow=1"))

DEV_TEST(copy, is_not_summed_by_other_paths_nor_within_the_device, soft_open(""))
{
	struct blocks device, host;
	struct kv_move move = { 0, 1, 1 };
	struct kv_copy copy = { .moves = &move, .nr = 1, .dir = KV_COPY_LOCAL };
	struct kv_fence fence;
	u64 sum;

	blocks_init(&device, ops, dev, &layouts[0], NR);
	blocks_init_host(&host, ops, dev, &layouts[0], NR, true);
	copy.src = copy.dst = device.planes;
	copy.sums = &sum;
	cr_expect_eq(ops->copy_blocks(dev, &copy, &fence), -EINVAL);
	for (u32 path = KV_PATH_BATCH; path < KV_NR_PATHS; path++) {
		force(dev, path);
		cr_expect_not(copy_and_sum(dev, &host, &device, KV_COPY_TO_HOST));
	}
	blocks_exit(&host, dev);
	blocks_exit(&device, dev);
}

/* ---- between pools ---- */

DEV_TEST(copy, between_pools_of_one_device, soft_open(""))
{
	for (u32 i = 0; i < nr_layouts; i++) {
		struct blocks from, to;

		blocks_init(&from, ops, dev, &layouts[i], NR);
		blocks_init(&to, ops, dev, &layouts[i], NR / 2);
		for (u32 path = KV_PATH_AUTO; path < KV_NR_PATHS; path++) {
			force(dev, path);
			copy_once(dev, &to, &from, KV_COPY_LOCAL, 0);
		}
		cr_expect(blocks_are_right(&to), "%s", layouts[i].name);
		cr_expect(blocks_are_right(&from), "%s", layouts[i].name);
		blocks_exit(&to, dev);
		blocks_exit(&from, dev);
	}
}

Test(copy, to_another_device)
{
	struct kv_dev *dev = soft_open("devices=2"), *peer = NULL;
	struct blocks from, to;
	struct kv_move moves[MOVES];
	struct kv_fence fence;
	struct kv_copy copy = { .moves = moves, .dir = KV_COPY_TO_PEER };

	cr_assert_eq(ops->open(1, &peer), 0);
	blocks_init(&from, ops, dev, &layouts[2], NR);
	blocks_init(&to, ops, peer, &layouts[2], NR);
	copy.src = from.planes;
	copy.dst = to.planes;
	copy.nr = random_moves(moves, MOVES, 4, NR, NR, true);
	cr_expect_eq(ops->copy_blocks(dev, &copy, &fence), -EINVAL, "no peer");
	copy.peer = peer;
	cr_assert_eq(ops->copy_blocks(dev, &copy, &fence), 0);
	cr_assert_eq(ops->wait(dev, fence), 0);
	blocks_expect_moves(&to, &from, moves, copy.nr);
	cr_expect(blocks_are_right(&to));
	blocks_exit(&to, peer);
	blocks_exit(&from, dev);
	ops->close(peer);
	soft_close(dev);
}

/* ---- lists longer than anything ---- */

static void many_moves(u32 path)
{
	enum { BLOCKS = 30000 };
	static const struct layout layout = { "small", 2, 16, 0, 0, false, 0 };
	static struct kv_move moves[BLOCKS / 2];
	struct kv_dev *dev = soft_open("");
	struct blocks pool;

	force(dev, path);
	blocks_init(&pool, ops, dev, &layout, BLOCKS);
	for (u32 i = 0; i < BLOCKS / 2; i++)
		moves[i] = (struct kv_move){ BLOCKS - 1 - i, (i * 7) % (BLOCKS / 2), 1 };
	move(&pool, moves, BLOCKS / 2);
	cr_expect(blocks_are_right(&pool));
	cr_expect_eq(used(dev, path), 4);
	blocks_exit(&pool, dev);
	soft_close(dev);
}

TEST_CALL(copy, fifteen_thousand_moves_by_kernel, many_moves(KV_PATH_KERNEL))
TEST_CALL(copy, fifteen_thousand_moves_by_batch, many_moves(KV_PATH_BATCH))
TEST_CALL(copy, fifteen_thousand_moves_by_single_copies, many_moves(KV_PATH_SINGLE))

/* More submissions than fences and lists, none of them waited for until the end. */
Test(copy, submissions_wait_for_room_in_the_rings)
{
	enum { ROUNDS = 3 * KV_NR_FENCES, LONG = 700 };
	const u32 every = test_is_short() ? 12 : 3;	/* submission is long */
	static const struct layout layout = { "small", 2, 16, 0, 0, false, 0 };
	static struct kv_move moves[LONG];
	struct kv_dev *dev = soft_open("");
	struct kv_fence fence[ROUNDS];
	struct kv_dev_stat stat;
	struct blocks pool;

	force(dev, KV_PATH_KERNEL);
	blocks_init(&pool, ops, dev, &layout, 2 * LONG);
	for (u32 i = 0; i < ROUNDS; i++) {
		u32 nr = i % every ? 3 : random_moves(moves, LONG, 1, 2 * LONG, 2 * LONG, true);

		cr_assert_eq(dev_move(ops, dev, &pool.planes, moves, nr, none, &fence[i]), 0);
		blocks_expect_moves(&pool, &pool, moves, nr);
	}
	cr_expect_eq(ops->wait(dev, fence[ROUNDS - 1]), 0);
	for (u32 i = 0; i < ROUNDS; i++)
		cr_expect_eq(ops->poll(dev, fence[i]), 0);
	cr_expect(blocks_are_right(&pool));
	ops->stat(dev, &stat);
	cr_expect_gt(stat.nr_stalls, 0);
	blocks_exit(&pool, dev);
	soft_close(dev);
}

/* Nothing runs before the driver is asked: the place of a fence is taken again when its work is done. */
DEV_TEST(copy, a_fence_that_leaves_the_ring_is_complete, soft_open(""))
{
	const struct kv_move one = { 0, 1, 1 };
	struct sw_counters before, after;
	struct kv_fence fence;
	struct blocks pool;

	blocks_init(&pool, ops, dev, &layouts[0], 2);
	ctl->counters(&before);
	for (u32 i = 0; i <= KV_NR_FENCES; i++)
		cr_assert_eq(dev_move(ops, dev, &pool.planes, &one, 1, none, &fence), 0);
	ctl->counters(&after);
	cr_expect_gt(after.nr_done, before.nr_done);
	cr_expect_eq(ops->wait(dev, fence), 0);
	blocks_exit(&pool, dev);
}

/* ---- without this and that ---- */

static void without(const char *options, u32 wanted, u32 got, u32 why)
{
	struct kv_dev *dev = soft_open(options);
	u64 before = fell(dev, why);

	for (u32 i = 0; i < nr_layouts; i++) {
		struct blocks pool;

		force(dev, wanted);
		blocks_init(&pool, ops, dev, &layouts[i], NR);
		move_randomly(&pool, MOVES, 3, true);
		move_randomly(&pool, 8, 6, false);
		cr_expect(blocks_are_right(&pool), "%s", layouts[i].name);
		blocks_exit(&pool, dev);
	}
	cr_expect_eq(used(dev, wanted), 0, "%s", options);
	cr_expect_gt(used(dev, got), 0, "%s", options);
	cr_expect_gt(fell(dev, why), before, "%s", options);
	soft_close(dev);
}

Test(copy, without_a_compiler_in_the_driver)
{
	without("jit=JIT_COMPILER_NOT_FOUND,missing=cuMemcpyBatchAsync,"
		"missing=cuMemcpyBatchAsync_v2",
		KV_PATH_KERNEL, KV_PATH_SINGLE, KV_FALL_NO_KERNEL);
}

Test(copy, without_a_driver_that_knows_our_ptx)
{
	without("jit=UNSUPPORTED_PTX_VERSION,missing=cuMemcpyBatchAsync,"
		"missing=cuMemcpyBatchAsync_v2",
		KV_PATH_KERNEL, KV_PATH_SINGLE, KV_FALL_NO_KERNEL);
}

Test(copy, without_batches)
{
	without("jit=JIT_COMPILATION_DISABLED,missing=cuMemcpyBatchAsync,"
		"missing=cuMemcpyBatchAsync_v2",
		KV_PATH_BATCH, KV_PATH_SINGLE, KV_FALL_NO_BATCH);
}

Test(copy, with_batches_that_are_not_supported)
{
	without("jit=JIT_COMPILATION_DISABLED,fail=cuMemcpyBatchAsync_v2:1+:NOT_SUPPORTED",
		KV_PATH_BATCH, KV_PATH_SINGLE, KV_FALL_REFUSED);
}

Test(copy, with_launches_that_need_too_much)
{
	without("fail=cuLaunchKernel:1+:LAUNCH_OUT_OF_RESOURCES,missing=cuMemcpyBatchAsync,"
		"missing=cuMemcpyBatchAsync_v2",
		KV_PATH_KERNEL, KV_PATH_SINGLE, KV_FALL_REFUSED);
}

/* All by value: in many launches, and for many planes in several passes. */
DEV_TEST(copy, without_memory_for_lists, soft_open("fail=cuMemHostAlloc:1+:OUT_OF_MEMORY"))
{
	cr_expect_gt(fell(dev, KV_FALL_NO_MEMORY), 0);
	for (u32 i = 0; i < nr_layouts; i++)
		try_layout(dev, &layouts[i], KV_PATH_KERNEL);
}

DEV_TEST(copy, a_background_copy_is_small_launches, soft_open("slow=1"))
{
	struct kv_move moves[MOVES];
	struct blocks pool;
	struct kv_copy copy = { .moves = moves, .flags = KV_COPY_BACKGROUND };
	struct kv_fence fence;

	force(dev, KV_PATH_KERNEL);
	blocks_init(&pool, ops, dev, &layouts[9], NR);
	cr_expect_eq(ops->tune(dev, KV_KNOB_BACKGROUND_GROUPS, 3), 0);
	copy.src = copy.dst = pool.planes;
	copy.nr = random_moves(moves, MOVES, 4, NR, NR, true);
	cr_assert_eq(ops->copy_blocks(dev, &copy, &fence), 0);
	cr_expect_eq(ops->wait(dev, fence), 0);
	blocks_expect_moves(&pool, &pool, moves, copy.nr);
	cr_expect(blocks_are_right(&pool));
	blocks_exit(&pool, dev);
}

/* ---- what is refused ---- */

DEV_TEST(copy, refuses_what_is_no_memory, soft_open(""))
{
	struct kv_fence fence = { .id = 77 };
	struct kvmm_plane plane = { 0, 64, 64 };
	const struct kv_planes planes = { &plane, 1 };
	struct kv_move one = { 0, 1, 1 };

	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EINVAL, "base");
	plane = (struct kvmm_plane){ 4096, 64, 65 };
	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EINVAL, "stride");
	plane = (struct kvmm_plane){ UINT64_MAX - 100, 64, 64 };
	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EINVAL, "end");
	plane = (struct kvmm_plane){ 4096, UINT64_MAX / 2, 64 };
	one.src = 9;
	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EINVAL, "product");
	plane = (struct kvmm_plane){ 4096, 64, 64 };
	one = (struct kv_move){ UINT32_MAX, 0, 2 };
	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EINVAL, "sum");
	cr_expect_eq(fence.id, 77);
}

Test(copy, an_address_that_is_not_the_devices_loses_it)
{
	struct kv_dev *dev = soft_open("");
	struct kvmm_plane plane = { 0x1000, 4096, 4096 };
	const struct kv_planes planes = { &plane, 1 };
	const struct kv_move one = { 0, 1, 1 };
	struct kv_fence fence;

	force(dev, KV_PATH_KERNEL);
	cr_assert_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), 0);
	cr_expect_eq(ops->wait(dev, fence), -EIO);
	cr_expect_eq(ops->poll(dev, fence), -EIO);
	cr_expect_eq(dev_move(ops, dev, &planes, &one, 1, none, &fence), -EIO);
	ops->close(dev);
	cr_expect_eq(ctl->nr_reports(SW_REPORT_ILLEGAL), 1);
}
