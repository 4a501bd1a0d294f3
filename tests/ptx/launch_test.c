// SPDX-License-Identifier: Apache-2.0
/* What goes into a launch: parameters, sizes of chunks, grids. */
#include "cuda/kernel/launch.h"
#include "tests/support/test.h"

static struct kvmm_plane plane[200];

static struct kv_launch_planes planes(u32 nr, u64 bytes, u64 table)
{
	for (u32 i = 0; i < nr; i++)
		plane[i] = (struct kvmm_plane) { 0x1000000 * (i + 1), bytes, bytes };
	return (struct kv_launch_planes) { plane, nr, table };
}

static u32 how_many_fit(u32 nr_planes, u64 table, const struct kv_move *moves, u32 nr)
{
	struct kv_launch_planes src = planes(nr_planes, 64, table);
	struct kv_move_args args;

	cr_assert_gt(kv_launch_head(&args.head, &src, &src, true), 0);
	return kv_launch_moves(&args, &src, &src, moves, nr);
}

static struct kv_move *moves_of(u32 nr, u32 length)
{
	struct kv_move *moves = calloc(nr, sizeof(*moves));

	for (u32 i = 0; i < nr; i++)
		moves[i] = (struct kv_move) { 2 * i * length, (2 * i + 1) * length, length };
	return moves;
}

Test(launch, holds_as_many_moves_as_there_is_room_for)
{
	struct kv_move *single = moves_of(2000, 1), *run = moves_of(2000, 2);

	cr_expect_eq(how_many_fit(64, 0x1000, single, 2000), 504);
	cr_expect_eq(how_many_fit(64, 0x1000, run, 2000), 336);
	cr_expect_eq(how_many_fit(64, 0, single, 2000), 312);
	cr_expect_eq(how_many_fit(64, 0, run, 2000), 208);
	cr_expect_eq(how_many_fit(167, 0, run, 2000), 2);
	cr_expect_eq(how_many_fit(168, 0, single, 2000), 0);
	cr_expect_eq(how_many_fit(200, 0, single, 2000), 0);
	cr_expect_eq(how_many_fit(64, 0x1000, single, 3), 3);
	free(single);
	free(run);
}

/* Single blocks before a run: in their own launch if they are many, else with it. */
Test(launch, ends_before_a_run_if_that_takes_more_moves)
{
	struct kv_move *moves = moves_of(600, 1);

	moves[400].nr = 2;
	cr_expect_eq(how_many_fit(4, 0x1000, moves, 600), 400);
	moves[300].nr = 2;
	cr_expect_eq(how_many_fit(4, 0x1000, moves, 600), 336);
	moves[0].nr = 0;
	moves[5].nr = 0;
	cr_expect_eq(how_many_fit(4, 0x1000, moves, 600), 338);
	free(moves);
}

Test(launch, of_empty_moves_only_is_nothing)
{
	struct kv_launch_planes src = planes(1, 64, 0);
	struct kv_move moves[3] = { { 1, 2, 0 }, { 3, 4, 0 }, { 5, 6, 0 } };
	struct kv_move_args args;

	cr_assert_gt(kv_launch_head(&args.head, &src, &src, true), 0);
	cr_expect_eq(kv_launch_moves(&args, &src, &src, moves, 3), 3);
	cr_expect_eq(args.head.nr_blocks, 0);
	cr_expect_eq(kv_launch_groups(&args.head, 100), 0);
}

Test(launch, writes_words_as_the_kernels_read_them)
{
	static const u32 runs[] = { 10, 20, 0, 30, 40, 3 }, singles[] = { 10, 20, 30, 40 };
	struct kv_move moves[] = { { 10, 20, 3 }, { 7, 8, 0 }, { 30, 40, 1 } };
	struct kv_launch_planes src = planes(2, 64, 0x1000);
	struct kv_move_args args;
	u32 list[KV_LAUNCH_LIST_WORDS(3)];

	cr_assert_gt(kv_launch_head(&args.head, &src, &src, true), 0);
	cr_expect_eq(kv_launch_moves(&args, &src, &src, moves, 3), 3);
	cr_expect_eq(args.head.nr_moves, 2);
	cr_expect_eq(args.head.nr_blocks, 4);
	cr_expect_arr_eq(args.word, runs, sizeof(runs));
	cr_expect_eq(kv_launch_list(&args.head, list, moves, 3), 3);
	cr_expect_arr_eq(list, runs, sizeof(runs));
	moves[0].nr = 1;
	cr_expect_eq(kv_launch_list(&args.head, list, moves, 3), 3);
	cr_expect_arr_eq(list, singles, sizeof(singles));
	cr_expect_eq(args.head.move_words, KV_KERNEL_SINGLE);
}

Test(launch, stops_before_blocks_need_more_than_31_bits)
{
	struct kv_move moves[] = { { 0, 0, 0x7ffffff0 }, { 0, 0, 15 }, { 0, 0, 1 } };
	struct kv_launch_planes src = planes(1, 64, 0x1000);
	struct kv_move_head head;
	u32 list[KV_LAUNCH_LIST_WORDS(3)];

	cr_assert_gt(kv_launch_head(&head, &src, &src, true), 0);
	cr_expect_eq(kv_launch_list(&head, list, moves, 3), 2);
	cr_expect_eq(head.nr_blocks, 0x7fffffff);
}

Test(launch, cuts_pieces_into_chunks_of_a_group)
{
	static const struct {
		u64 bytes;
		bool vectors;
		int nr_threads;
		u32 chunk;
		u32 nr_chunks;
	} want[] = {
		{ 16, true, 64, 4096, 1 },		{ 4096, true, 64, 4096, 1 },
		{ 4112, true, 128, 8192, 1 },		{ 8208, true, 256, 16384, 1 },
		{ 16384, true, 256, 16384, 1 },		{ 73728, true, 256, 16384, 5 },
		{ 0x7ffffff0, true, 256, 16384, 131072 },
		{ 1, false, 64, 4096, 1 },		{ 10001, false, 256, 4096, 3 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(want); i++) {
		struct kv_launch_planes src = planes(3, want[i].bytes, 0);
		struct kv_move_head head;

		cr_expect_eq(kv_launch_head(&head, &src, &src, want[i].vectors),
			     want[i].nr_threads);
		cr_expect_eq(head.chunk_bytes, want[i].chunk);
		cr_expect_eq(head.nr_chunks, want[i].nr_chunks);
	}
}

Test(launch, refuses_planes_that_no_kernel_can_serve)
{
	struct kvmm_plane good[2] = { { 4096, 64, 64 }, { 8192, 64, 64 } }, other[2];
	struct kv_launch_planes src = { good, 2, 0 }, dst = { other, 2, 0 };
	struct kv_move_head head;
	const struct kvmm_plane bad[] = {
		{ 4096, 64, 0 }, { 4096, 64, 48 }, { 4096, 63, 64 },
		{ 4096, 0x80000000, 0x80000000 },
	};

	memcpy(other, good, sizeof(good));
	cr_expect_eq(kv_launch_head(&head, &src, &dst, true), 64);
	dst.nr = 1;
	cr_expect_eq(kv_launch_head(&head, &src, &dst, true), -EINVAL);
	dst.nr = 2;
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		other[1] = bad[i];
		cr_expect_eq(kv_launch_head(&head, &src, &dst, true), -EINVAL);
		cr_expect_eq(kv_launch_head(&head, &dst, &src, true), -EINVAL);
	}
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		other[1] = bad[i];
		cr_expect_eq(kv_launch_head(&head, &dst, &dst, true), i == 1 ? 64 : -EINVAL);
	}
}

Test(launch, sides_by_value_and_by_table_find_their_place)
{
	struct kvmm_plane here[3], there[3];
	struct kv_launch_planes src = { here, 3, 0 }, dst = { there, 3, 0 };
	struct kv_move move = { 1, 2, 1 };
	struct kv_move_args args;

	for (u32 i = 0; i < 3; i++) {
		here[i] = (struct kvmm_plane) { 4096 * i + 16, 64, 64 };
		there[i] = (struct kvmm_plane) { 4096 * i + 32, 128, 64 };
	}
	for (u32 bits = 0; bits < 4; bits++) {
		src.table = bits & 1 ? 0x1000 : 0;
		dst.table = bits & 2 ? 0x2000 : 0;
		cr_assert_gt(kv_launch_head(&args.head, &src, &dst, true), 0);
		cr_expect_eq(kv_launch_moves(&args, &src, &dst, &move, 1), 1);
		cr_expect_eq(args.head.src_planes, src.table);
		cr_expect_eq(args.head.dst_planes, dst.table);
		cr_expect_eq(args.head.first_word, 18 * (2 - (bits & 1) - (bits >> 1)));
		if (!src.table)
			cr_expect_arr_eq(args.plane, here, sizeof(here));
		if (!dst.table)
			cr_expect_arr_eq(args.plane + args.head.dst_plane, there,
					 sizeof(there));
		cr_expect_eq(args.word[args.head.first_word], 1);
		cr_expect_eq(args.word[args.head.first_word + 1], 2);
	}
}

Test(launch, groups_follow_the_work_up_to_the_cap)
{
	struct kv_move_head head = { .nr_blocks = 10, .nr_planes = 3, .nr_chunks = 2 };

	cr_expect_eq(kv_launch_groups(&head, 1000), 60);
	cr_expect_eq(kv_launch_groups(&head, 16), 16);
	head = (struct kv_move_head) { .nr_blocks = 0x7fffffff, .nr_planes = 0x7fffffff,
				       .nr_chunks = 0x7fffffff };
	cr_expect_eq(kv_launch_groups(&head, 528), 528);
}

Test(launch, few_blocks_to_sum_up_are_shared_by_groups)
{
	struct kv_sum_args args = { .nr_blocks = 4, .nr_parts = 32 };

	cr_expect_eq(kv_launch_sum_parts(4, 64, 128), 32);
	cr_expect_eq(kv_launch_sum_parts(4, 10, 128), 10);
	cr_expect_eq(kv_launch_sum_parts(4000, 64, 128), 1);
	cr_expect_eq(kv_launch_sum_parts(0, 64, 128), 1);
	cr_expect_eq(kv_launch_sum_groups(&args, 1000), 128);
	cr_expect_eq(kv_launch_sum_groups(&args, 100), 100);
}

Test(launch, tells_which_planes_go_together)
{
	const struct kvmm_plane mixed[] = {
		{ 4096, 64, 64 }, { 8192, 64, 48 }, { 8193, 64, 64 }, { 8192, 65, 64 },
		{ 8192, 64, 63 }, { 8192, 64, 64 },
	};
	bool vectors;

	cr_expect_eq(kv_launch_alike(mixed, mixed, 6, &vectors), 2);
	cr_expect(vectors);
	cr_expect_eq(kv_launch_alike(mixed + 2, mixed + 2, 4, &vectors), 3);
	cr_expect_not(vectors);
	cr_expect_eq(kv_launch_alike(mixed + 5, mixed + 5, 1, &vectors), 1);
	cr_expect(vectors);
	cr_expect_eq(kv_launch_alike(mixed, mixed + 2, 1, &vectors), 1);
	cr_expect_not(vectors);
}
