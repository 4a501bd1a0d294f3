// SPDX-License-Identifier: Apache-2.0
/* The host as a device. */
#include <kv/cuda.h>

#include "dev_move.h"
#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static const struct kv_dev_ops *const ops = &kv_dev_host;
static const struct kv_fence no_fence;

static struct kv_dev *host(void)
{
	struct kv_dev *dev = NULL;

	cr_assert_eq(ops->open(0, &dev), 0);
	cr_assert(dev);
	return dev;
}

static u64 addr_of(const void *ptr)
{
	return (uintptr_t)ptr;
}

Test(host, there_is_only_number_zero)
{
	struct kv_dev *dev = NULL;

	cr_expect_eq(ops->open(1, &dev), -ENODEV);
	cr_expect_null(dev);
	ops->close(NULL);
	ops->close(host());
}

Test(host, gives_back_all_it_allocates)
{
	struct fake_env fake;
	u64 addr[70];

	fake_env_install(&fake);
	for (u64 bytes = 1; bytes < 70; bytes++) {
		cr_assert_eq(ops->alloc(host(), bytes, &addr[bytes]), 0);
		cr_expect_eq(addr[bytes] % KV_CACHELINE, 0);
		cr_expect_eq(ops->fill(host(), addr[bytes], 0xa5, bytes), 0);
	}
	for (u64 bytes = 1; bytes < 70; bytes++)
		ops->free(host(), addr[bytes], bytes);
	ops->free(host(), 0, 0);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

Test(host, says_so_when_there_is_no_memory)
{
	struct fake_env fake;
	u64 addr = 42;

	fake_env_install(&fake);
	fake_env_fail(&fake, 1, false);
	cr_expect_eq(ops->alloc(host(), 100, &addr), -ENOMEM);
	cr_expect_eq(ops->alloc(host(), UINT64_MAX, &addr), -ENOMEM);
	cr_expect_eq(ops->alloc(host(), UINT64_MAX - 100, &addr), -ENOMEM);
	cr_expect_eq(ops->alloc(host(), 0, &addr), -EINVAL);
	cr_expect_eq(addr, 42);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

static u64 resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long long size = 0, resident = 0;

	cr_assert(file);
	cr_assert_eq(fscanf(file, "%llu %llu", &size, &resident), 2);
	fclose(file);
	return resident;
}

Test(host, does_not_touch_a_large_pool_before_its_user_does)
{
	const u64 bytes = 1ull << 30;
	u64 before = resident_pages(), addr;

	cr_assert_eq(ops->alloc(host(), bytes, &addr), 0);
	cr_expect_lt(resident_pages() - before, bytes / 4096 / 4);
	ops->free(host(), addr, bytes);
}

Test(host, reads_what_was_written)
{
	char memory[16] = "................", back[8] = "";

	cr_expect_eq(ops->write(host(), addr_of(memory) + 4, "abcdef", 6), 0);
	cr_expect(!memcmp(memory, "....abcdef......", 16));
	cr_expect_eq(ops->read(host(), addr_of(memory) + 5, back, 4), 0);
	cr_expect_str_eq(back, "bcde");
	cr_expect_eq(ops->fill(host(), addr_of(memory) + 1, 'x', 2), 0);
	cr_expect(!memcmp(memory, ".xx.abcdef......", 16));
}

Test(host, refuses_addresses_that_are_no_memory)
{
	char buf[8] = "untouch";

	cr_expect_eq(ops->write(host(), 0, buf, 8), -EINVAL);
	cr_expect_eq(ops->read(host(), 0, buf, 8), -EINVAL);
	cr_expect_eq(ops->fill(host(), 0, 1, 8), -EINVAL);
	cr_expect_eq(ops->write(host(), addr_of(buf), NULL, 8), -EINVAL);
	cr_expect_eq(ops->read(host(), addr_of(buf), NULL, 8), -EINVAL);
	cr_expect_eq(ops->write(host(), addr_of(buf), "12345678", UINT64_MAX), -EINVAL);
	cr_expect_eq(ops->read(host(), addr_of(buf), buf, UINT64_MAX), -EINVAL);
	cr_expect_eq(ops->fill(host(), addr_of(buf), 1, UINT64_MAX), -EINVAL);
	cr_expect_str_eq(buf, "untouch");
	cr_expect_eq(ops->write(host(), 0, NULL, 0), 0);
	cr_expect_eq(ops->read(host(), 0, NULL, 0), 0);
	cr_expect_eq(ops->fill(host(), 0, 0, 0), 0);
}

Test(host, is_done_with_everything_at_once)
{
	const struct kv_fence foreign = { .id = 7 };

	cr_expect_eq(ops->wait(host(), no_fence), 0);
	cr_expect_eq(ops->wait(host(), foreign), -EINVAL);
}

/* Blocks of two pieces: in the first plane they touch, in the second there is a gap ('-'). */
struct pool {
	char dense[9];
	char gappy[17];
	struct kvmm_plane plane[2];
	struct kv_planes planes;
};

static void pool_init(struct pool *pool)
{
	memcpy(pool->dense, "abcdefgh", 9);
	memcpy(pool->gappy, "A-B-C-D-E-F-G-H-", 17);
	pool->plane[0] = (struct kvmm_plane){ addr_of(pool->dense), 1, 1 };
	pool->plane[1] = (struct kvmm_plane){ addr_of(pool->gappy), 2, 1 };
	pool->planes = (struct kv_planes){ pool->plane, 2 };
}

static int move(struct pool *pool, const struct kv_move *moves, u32 nr)
{
	struct kv_fence fence = { .id = 99 };
	int err = dev_move(ops, host(), &pool->planes, moves, nr, no_fence, &fence);

	cr_expect_eq(fence.id, err ? 99 : 0);
	return err;
}

Test(host, moves_blocks_in_all_planes_and_leaves_gaps_alone)
{
	const struct kv_move moves[] = { { 0, 4, 2 }, { 7, 3, 1 } };
	struct pool pool;

	pool_init(&pool);
	cr_expect_eq(move(&pool, moves, 2), 0);
	cr_expect_str_eq(pool.dense, "abchabgh");
	cr_expect_str_eq(pool.gappy, "A-B-C-H-A-B-G-H-");
}

Test(host, moves_blocks_onto_themselves_either_way)
{
	const struct kv_move up = { 0, 2, 5 }, down = { 2, 1, 5 }, nowhere = { 3, 3, 4 };
	struct pool pool;

	pool_init(&pool);
	cr_expect_eq(move(&pool, &up, 1), 0);
	cr_expect_str_eq(pool.dense, "ababcdeh");
	cr_expect_str_eq(pool.gappy, "A-B-A-B-C-D-E-H-");
	cr_expect_eq(move(&pool, &down, 1), 0);
	cr_expect_str_eq(pool.dense, "aabcdeeh");
	cr_expect_str_eq(pool.gappy, "A-A-B-C-D-E-E-H-");
	cr_expect_eq(move(&pool, &nowhere, 1), 0);
	cr_expect_str_eq(pool.dense, "aabcdeeh");
	cr_expect_str_eq(pool.gappy, "A-A-B-C-D-E-E-H-");
}

Test(host, does_one_move_after_the_other)
{
	const struct kv_move moves[] = { { 0, 1, 1 }, { 1, 2, 1 }, { 5, 6, 0 } };
	struct pool pool;

	pool_init(&pool);
	cr_expect_eq(move(&pool, moves, 3), 0);
	cr_expect_str_eq(pool.dense, "aaadefgh");
}

/* The good move in front of the bad one is not made either. */
Test(host, moves_nothing_if_one_move_cannot_be)
{
	const struct kv_move moves[] = { { 0, 1, 1 }, { 2, 3, 1 } };
	struct pool pool;

	pool_init(&pool);
	pool.plane[1].base = 0;
	cr_expect_eq(move(&pool, moves, 2), -EINVAL);
	pool_init(&pool);
	pool.plane[1].base = UINT64_MAX - 6;
	cr_expect_eq(move(&pool, moves, 2), -EINVAL);
	pool_init(&pool);
	pool.plane[1].stride = UINT64_MAX / 2;
	cr_expect_eq(move(&pool, moves, 2), -EINVAL);
	pool_init(&pool);
	pool.plane[1].bytes = 3;
	cr_expect_eq(move(&pool, moves, 2), -EINVAL, "pieces overlap");
	cr_expect_str_eq(pool.dense, "abcdefgh");
	cr_expect_str_eq(pool.gappy, "A-B-C-D-E-F-G-H-");
}

/* Each byte of 100 random blocks, moved up and down by any distance. */
Test(host, keeps_every_byte_of_long_overlapping_moves)
{
	enum { BLOCKS = 100, BYTES = 1000, STRIDE = 1024 };
	static char memory[BLOCKS * STRIDE], expected[BLOCKS * STRIDE];
	struct kvmm_plane plane = { addr_of(memory), STRIDE, BYTES };
	const struct kv_planes planes = { &plane, 1 };
	struct kv_fence fence;

	for (u32 dst = 0; dst < 40; dst++) {
		const struct kv_move down_or_up = { 20, dst, 60 };

		for (u32 i = 0; i < sizeof(memory); i++)
			memory[i] = expected[i] = (i * 2654435761u) >> 24;
		for (u32 b = 0; b < 60; b++)
			for (u32 i = 0; i < BYTES; i++)
				expected[(dst + b) * STRIDE + i] = memory[(20 + b) * STRIDE + i];
		cr_assert_eq(dev_move(ops, host(), &planes, &down_or_up, 1, no_fence, &fence), 0);
		cr_expect(!memcmp(memory, expected, sizeof(memory)), "to block %u", dst);
	}
}

/* In the order of the moves; nothing of it within one pool. */
Test(host, sums_what_it_copies)
{
	enum { BLOCKS = 8, BYTES = 9000 };
	static char from[BLOCKS * BYTES], to[BLOCKS * BYTES];
	struct kvmm_plane src[2] = { { addr_of(from), BYTES, 8192 },
				     { addr_of(from) + 8192, BYTES, 100 } };
	struct kvmm_plane dst[2] = { { addr_of(to), BYTES, 8192 }, { addr_of(to) + 8192, BYTES, 100 } };
	const struct kv_move moves[] = { { 5, 0, 2 }, { 1, 7, 1 } };
	u64 sums[3], sum;
	struct kv_copy copy = { .src = { src, 2 }, .dst = { dst, 2 }, .moves = moves, .nr = 2,
				.dir = KV_COPY_TO_HOST, .sums = sums };
	struct kv_fence fence;

	for (u32 i = 0; i < sizeof(from); i++)
		from[i] = (i * 2654435761u) >> 24;
	cr_assert_eq(ops->copy_blocks(host(), &copy, &fence), 0);
	for (u32 i = 0; i < 3; i++) {
		u32 is = i < 2 ? 5 + i : 1, at = i < 2 ? i : 7;

		cr_assert_eq(ops->sum_blocks(host(), &copy.src, is, 1, no_fence, &sum), 0);
		cr_expect_eq(sums[i], sum);
		cr_expect(!memcmp(to + at * BYTES, from + is * BYTES, 8292));
	}
	copy.dir = KV_COPY_LOCAL;
	cr_expect_eq(ops->copy_blocks(host(), &copy, &fence), -EINVAL);
}
