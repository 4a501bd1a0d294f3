// SPDX-License-Identifier: Apache-2.0
/* What every device promises: the same tests on the host and on a soft device. */
#include <kv/env.h>
#include <kv/sys.h>

#include "soft.h"
#include "tests/support/fake_env.h"

#define NR	48

static const struct kv_fence none;

typedef void (*suite_fn)(const struct kv_dev_ops *ops, struct kv_dev *dev);

static void on_both(suite_fn fn)
{
	struct kv_dev *dev = NULL;

	cr_assert_eq(kv_dev_host.open(0, &dev), 0);
	fn(&kv_dev_host, dev);
	kv_dev_host.close(dev);
	dev = soft_open("");
	fn(&kv_dev_soft, dev);
	soft_close(dev);
}

static void number(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	struct kv_dev *other = NULL;

	cr_expect_eq(ops->open(7, &other), -ENODEV);
	cr_expect_null(other);
	cr_expect_eq(ops->open(0, &other), 0, "as often as one likes");
	ops->close(other);
	ops->close(NULL);
}

TEST_CALL(dev, opens_by_number, on_both(number))

static void memory(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	u8 in[1000], out[1000];
	u64 addr = 0;

	for (u32 i = 0; i < sizeof(in); i++)
		in[i] = i * 7;
	cr_expect_eq(ops->alloc(dev, 0, &addr), -EINVAL);
	cr_assert_eq(ops->alloc(dev, 3000, &addr), 0);
	cr_expect_eq(addr % 64, 0);
	cr_expect_eq(ops->write(dev, addr + 1, in, sizeof(in)), 0);
	cr_expect_eq(ops->read(dev, addr + 1, out, sizeof(out)), 0);
	cr_expect(!memcmp(in, out, sizeof(in)));
	cr_expect_eq(ops->fill(dev, addr + 11, 0x5a, 900), 0);
	cr_expect_eq(ops->read(dev, addr + 1, out, sizeof(out)), 0);
	memset(in + 10, 0x5a, 900);
	cr_expect(!memcmp(in, out, sizeof(in)));
	cr_expect_eq(ops->write(dev, 0, in, 1), -EINVAL);
	cr_expect_eq(ops->read(dev, addr, NULL, 1), -EINVAL);
	cr_expect_eq(ops->read(dev, 0, NULL, 0), 0);
	cr_expect_eq(ops->fill(dev, addr, 0, UINT64_MAX), -EINVAL);
	ops->free(dev, addr, 3000);
	ops->free(dev, 0, 0);
}

TEST_CALL(dev, keeps_what_is_written, on_both(memory))

static void in_order(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	const struct kv_move moves[] = {
		{ 0, 10, 3 }, { 10, 20, 3 }, { 30, 33, 9 }, { 5, 4, 7 }, { 1, 1, 3 }, { 2, 7, 0 },
	};
	struct kv_fence fence;
	struct blocks pool;

	for (u32 i = 0; i < nr_layouts; i++) {
		blocks_init(&pool, ops, dev, &layouts[i], NR);
		cr_expect_eq(dev_move(ops, dev, &pool.planes, moves, ARRAY_SIZE(moves), none,
				      &fence), 0);
		cr_expect_eq(ops->wait(dev, fence), 0);
		blocks_expect_moves(&pool, &pool, moves, ARRAY_SIZE(moves));
		cr_expect(blocks_are_right(&pool), "%s: %s", ops->name, layouts[i].name);
		blocks_exit(&pool, dev);
	}
}

TEST_CALL(dev, moves_as_if_one_after_the_other, on_both(in_order))

static void to_and_fro(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	const struct kv_move moves[] = { { 3, 7, 5 }, { 40, 0, 3 } };
	struct kv_copy copy = { .moves = moves, .nr = 2, .dir = KV_COPY_TO_HOST };
	struct blocks device, host;
	struct kv_fence fence;

	blocks_init(&device, ops, dev, &layouts[2], NR);
	blocks_init_host(&host, ops, dev, &layouts[2], NR, true);
	copy.flags = host.host.is_mapped ? KV_COPY_MAPPED : 0;
	copy.src = device.planes;
	copy.dst = host.planes;
	cr_expect_eq(ops->copy_blocks(dev, &copy, &fence), 0);
	cr_expect_eq(ops->wait(dev, fence), 0);
	blocks_expect_moves(&host, &device, moves, 2);
	cr_expect(blocks_are_right(&host));
	copy.dst.nr--;
	cr_expect_eq(ops->copy_blocks(dev, &copy, &fence), -EINVAL, "fewer planes");
	copy.dst.nr++;
	copy.dir = KV_NR_COPY_DIRS;
	cr_expect_eq(ops->copy_blocks(dev, &copy, &fence), -EINVAL, "no such direction");
	blocks_exit(&host, dev);
	blocks_exit(&device, dev);
}

TEST_CALL(dev, copies_to_the_host, on_both(to_and_fro))

static u64 expected_sum(const struct blocks *pool, u32 block)
{
	u64 sum = 0, pos = 0;

	for (u32 p = 0; p < pool->planes.nr; p++) {
		const struct kvmm_plane *plane = &pool->plane[p];

		sum += kv_sum_piece(pool->expected + (plane->base - pool->base) +
				    block * plane->stride, plane->bytes, pos);
		pos += kv_sum_words(plane->bytes);
	}
	return sum;
}

static void sums(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	struct blocks pool;
	u64 sum[NR];

	for (u32 i = 0; i < nr_layouts; i++) {
		blocks_init(&pool, ops, dev, &layouts[i], NR);
		cr_expect_eq(ops->sum_blocks(dev, &pool.planes, 2, NR - 2, none, sum), 0);
		for (u32 b = 2; b < NR; b++)
			cr_assert_eq(sum[b - 2], expected_sum(&pool, b), "%s: %s, block %u",
				     ops->name, layouts[i].name, b);
		blocks_exit(&pool, dev);
	}
}

TEST_CALL(dev, sums_up_blocks, on_both(sums))

DEV_TEST(dev, sums_up_blocks_without_a_kernel, soft_open("jit=JIT_COMPILER_NOT_FOUND"))
{
	sums(&kv_dev_soft, dev);
}

static void fences(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	const struct kv_fence foreign = { .id = 1ull << 40 };
	struct kv_fence two[2] = { none, none }, fence = foreign;

	cr_expect_eq(ops->poll(dev, none), 0);
	cr_expect_eq(ops->wait(dev, none), 0);
	cr_expect_eq(ops->poll(dev, foreign), -EINVAL);
	cr_expect_eq(ops->wait(dev, foreign), -EINVAL);
	cr_expect_eq(ops->join(dev, two, 2, &fence), 0);
	cr_expect_eq(ops->wait(dev, fence), 0);
	two[1] = foreign;
	cr_expect_eq(ops->join(dev, two, 2, &fence), -EINVAL);
}

TEST_CALL(dev, knows_its_fences, on_both(fences))

static void host_memory(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	struct kv_host_mem mem = { 0 };
	u8 *byte;

	cr_expect_eq(ops->host_alloc(dev, 0, -1, &mem), -EINVAL);
	cr_expect_eq(ops->host_alloc(dev, UINT64_MAX, -1, &mem), -EINVAL);
	cr_assert_eq(ops->host_alloc(dev, 100000, -1, &mem), 0);
	cr_expect_geq(mem.bytes, 100000);
	byte = mem.ptr;
	for (u32 i = 0; i < mem.bytes; i++)
		cr_assert_eq(byte[i], 0);
	memset(byte, 1, mem.bytes);
	ops->host_free(dev, &mem);
	cr_expect_null(mem.ptr);
	ops->host_free(dev, &mem);
}

TEST_CALL(dev, gives_memory_of_the_host, on_both(host_memory))

static void knobs(const struct kv_dev_ops *ops, struct kv_dev *dev)
{
	struct kv_dev_stat stat;

	cr_expect_eq(ops->tune(dev, KV_KNOB_PATH, KV_NR_PATHS), -EINVAL);
	cr_expect_eq(ops->tune(dev, KV_NR_KNOBS, 0), -EINVAL);
	cr_expect_eq(ops->tune(dev, KV_KNOB_PATH, KV_PATH_SINGLE), 0);
	memset(&stat, 0xff, sizeof(stat));
	ops->stat(dev, &stat);
	cr_expect_eq(stat.nr_copies, 0);
	cr_expect_eq(stat.nr_failed, 0);
}

TEST_CALL(dev, can_be_tuned, on_both(knobs))

/* ---- what only a device with streams can show ---- */

static const struct kv_dev_ops *const ops = &kv_dev_soft;

DEV_TEST(dev, a_capturing_stream_is_left_alone, soft_open(""))
{
	kcu_stream stream = stream_new();
	struct kv_fence fence = { .id = 5 };
	kcu_capture_status status;

	cr_assert_eq(ctl->set_capture(stream, KCU_CAPTURE_ACTIVE), 0);
	cr_expect_eq(ops->signal(dev, stream, &fence), -EBUSY);
	cr_expect_eq(ops->stall(dev, stream, none), -EBUSY);
	cr_expect_eq(fence.id, 5);
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_ACTIVE, "it goes on");
	cr_expect_eq(ops->signal(dev, NULL, &fence), -EINVAL);
	cr_expect_eq(ops->stall(dev, KCU_STREAM_LEGACY, none), -EINVAL);
	cr_assert_eq(ctl->set_capture(stream, KCU_CAPTURE_NONE), 0);
	cr_expect_eq(ops->signal(dev, stream, &fence), 0);
	cr_expect_eq(ops->wait(dev, fence), 0);
	ok(cu.stream_destroy(stream));
}

/* Whatever we do, all of it, while an engine captures on another stream. */
DEV_TEST(dev, work_beside_a_capture_does_not_end_it, soft_open(""))
{
	const struct kv_area_attr attr = { .max_bytes = 4 * MIB };
	kcu_stream stream = stream_new();
	kcu_capture_status status;
	struct kv_area *area;

	cr_assert_eq(ctl->set_capture(stream, KCU_CAPTURE_ACTIVE), 0);
	in_order(ops, dev);
	to_and_fro(ops, dev);
	sums(ops, dev);
	cr_assert_eq(ops->area_create(dev, &attr, &area), 0);
	cr_expect_eq(ops->area_grow(area, 0, 4 * MIB), 0);
	ops->area_destroy(area);
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_ACTIVE);
	cr_assert_eq(ctl->set_capture(stream, KCU_CAPTURE_NONE), 0);
	ok(cu.stream_destroy(stream));
}

Test(dev, gives_back_all_host_memory_when_one_allocation_fails)
{
	struct fake_env fake;
	struct kv_dev *dev = soft_open("");
	u32 nr = 0;
	int err;

	soft_close(dev);
	fake_env_install(&fake);
	do {
		fake_env_fail(&fake, ++nr, false);
		err = ops->open(0, &dev);
		if (!err)
			ops->close(dev);
		else
			cr_expect_eq(err, -ENOMEM);
		cr_expect_eq(fake.nr_live, 0);
	} while (fake_env_failed(&fake));
	cr_expect_eq(err, 0);
	cr_expect_gt(nr, 3);
	fake_env_remove(&fake);
}

/* ---- no driver ---- */

static void *no_library(void *ctx, const char *path, const char **why)
{
	*why = "there is none";
	return NULL;
}

Test(dev, without_a_driver_there_is_no_device_and_one_line_says_so)
{
	struct kv_sys_ops sys = kv_sys_system;
	struct fake_env fake;
	struct kv_dev *dev = NULL;

	sys.open_library = no_library;
	kv_sys_set(&sys);
	fake_env_install(&fake);
	cr_expect_eq(kv_dev_cuda.open(0, &dev), -ENODEV);
	cr_expect_eq(fake.nr_lines, 1);
	cr_expect(strstr(fake.line, "there is none"));
	cr_expect_eq(kv_dev_soft.open(0, &dev), -ENODEV);
	cr_expect_eq(fake.nr_lines, 2);
	cr_expect_null(dev);
	fake_env_remove(&fake);
	kv_sys_set(NULL);
}
