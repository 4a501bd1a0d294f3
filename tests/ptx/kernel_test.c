// SPDX-License-Identifier: Apache-2.0
/* The kernels as the host's compiler makes them: every byte in its place and no other touched. */
#include "arena_expect.h"
#include "tests/support/length.h"

#define NR_RANDOM	300

static void expect_moves(const struct arena_shape *shape)
{
	expect_right(arena_run, shape, arena_launch_host);
}

Test(kernel, moves_random_shapes)
{
	u64 seed = arena_seed();

	for (u32 i = 0; i < test_length(NULL, NR_RANDOM); i++) {
		struct arena_shape shape = arena_random_shape(seed + i, i % 8);

		expect_moves(&shape);
	}
}

Test(kernel, sums_random_shapes)
{
	u64 seed = arena_seed();

	for (u32 i = 0; i < test_length(NULL, NR_RANDOM); i++) {
		struct arena_shape shape = arena_random_shape(seed + i, i % 8);

		expect_sums(shape, arena_launch_host);
	}
}

/* Each kernel by value and by list, each way of holding planes, each kind of move. */
Test(kernel, moves_in_every_combination_of_options)
{
	for (u32 bits = 0; bits < ARENA_NR_ACTS * 64; bits++) {
		struct arena_shape shape = {
			.seed		= bits,
			.act		= bits / 64,
			.list		= bits & 1,
			.tables		= bits & 2,
			.two_sides	= bits & 4,
			.interleaved	= bits & 8,
			.runs		= bits & 16,
			.backwards	= bits & 32,
			.nr_planes	= 3,
			.nr_moves	= 20,
			.max_bytes	= 5000,
		};

		expect_moves(&shape);
	}
}

/* One thread does it all, and so do more threads than there are bytes. */
Test(kernel, any_grid_gives_the_same_bytes)
{
	static const u32 count[] = { 1, 2, 3, 7, 32, 33, 256, 1024 };

	for (u32 i = 0; i < ARRAY_SIZE(count) * ARRAY_SIZE(count); i++)
		for (u32 act = 0; act < ARENA_NR_ACTS; act++) {
			struct arena_shape shape = {
				.seed		= i,
				.act		= act,
				.runs		= i % 2,
				.nr_planes	= 2,
				.nr_moves	= 5,
				.max_bytes	= 900,
				.chunk_bytes	= 16 * (1 + i % 9),
				.nr_groups	= count[i / ARRAY_SIZE(count)],
				.nr_threads	= count[i % ARRAY_SIZE(count)],
			};

			expect_moves(&shape);
			expect_sums(shape, arena_launch_host);
		}
}

Test(kernel, more_moves_than_a_launch_holds_take_several)
{
	struct arena_shape shape = { .seed = 1, .nr_planes = 4, .nr_moves = 2000,
				     .max_bytes = 64, .nr_groups = 3, .nr_threads = 8 };
	struct arena *arena = arena_create(&shape);
	char error[ARENA_ERROR];

	cr_expect(arena_run(arena, arena_launch_host, error), "%s", error);
	cr_expect_eq(arena->nr_launches, 5);	/* (1008 - 4 * 6) / 2 = 492 each */
	arena_destroy(arena);
}

/* Whoever compares images must see the byte that a kernel did not write, or should not have. */
static bool launch_and_spoil(const struct arena *arena, const struct arena_grid *grid,
			     const void *args, char error[ARENA_ERROR])
{
	bool ret = arena_launch_host(arena, grid, args, error);

	arena->mem[arena->shape.seed % arena->bytes] ^= 1;
	return ret;
}

Test(kernel, the_comparison_sees_one_bit)
{
	struct arena_shape shape = { .act = ARENA_MOVE16, .nr_planes = 2, .nr_moves = 3,
				     .max_bytes = 100 };

	for (shape.seed = 1; shape.seed < 2000; shape.seed += 7) {
		struct arena *arena = arena_create(&shape);
		char error[ARENA_ERROR];

		cr_expect_not(arena_run(arena, launch_and_spoil, error));
		arena_destroy(arena);
	}
}

/* ------------------------------------------------------------------------- */
/* The checksum's definition; the constants were worked out with other tools. */

Test(sum, is_what_it_was)
{
	static const char text[] = "The quick brown fox jumps over the lazy dog";

	cr_expect_eq(kv_sum_piece("", 0, 0), 0);
	cr_expect_eq(kv_sum_piece("\0", 1, 0), 0xe220a8397b1dcdafull);
	cr_expect_eq(kv_sum_piece(text, 43, 0), 0x56b68ad83e3a3f55ull);
	cr_expect_eq(kv_sum_piece(text, 43, 1000), 0x512138334c32ef28ull);
}

Test(sum, does_not_depend_on_how_whole_words_are_divided_into_pieces)
{
	u64 rng = 99, cut[] = { 0, 8, 16, 512, 4088, 4096 };
	u8 data[4096];

	for (u32 i = 0; i < sizeof(data); i++)
		data[i] = arena_random(&rng);
	for (u32 i = 0; i < ARRAY_SIZE(cut); i++)
		cr_expect_eq(kv_sum_piece(data, cut[i], 0) +
			     kv_sum_piece(data + cut[i], 4096 - cut[i], kv_sum_words(cut[i])),
			     kv_sum_piece(data, 4096, 0));
}

/* As it is defined, one word after the other. */
static u64 sum_by_words(const u8 *byte, u64 bytes, u64 pos)
{
	u64 sum = 0;

	for (u64 at = 0, word; at < bytes; at += sizeof(word)) {
		word = 0;
		memcpy(&word, byte + at, min(bytes - at, sizeof(word)));
		sum += kv_sum_word(word, pos++);
	}
	return sum;
}

/* All lengths around rounds of vectors, at any address and from any number on. */
Test(sum, is_the_same_however_many_words_at_once)
{
	u64 rng = 7;
	u8 data[2048];

	for (u32 i = 0; i < sizeof(data); i++)
		data[i] = arena_random(&rng);
	for (u64 bytes = 0; bytes < 1100; bytes++) {
		u64 at = arena_random(&rng) % 900, pos = arena_random(&rng);

		cr_expect_eq(kv_sum_piece(data + at, bytes, pos),
			     sum_by_words(data + at, bytes, pos), "%lu bytes", bytes);
	}
}

/* Every byte is there, none beside it is touched, and the sum is that of what was read. */
Test(sum, of_a_copy_is_that_of_what_was_read)
{
	static u8 from[9000], to[9000] __attribute__((aligned(64))), all[9000];
	u64 rng = 9;

	for (u32 i = 0; i < sizeof(from); i++)
		from[i] = arena_random(&rng);
	for (u32 i = 0; i < 600; i++) {
		u64 bytes = arena_random(&rng) % 8500, pos = arena_random(&rng);
		u64 src = arena_random(&rng) % 400, dst = i % 2 ? i % 400 : i % 7 * 64;

		memset(to, 0x5a, sizeof(to));
		memset(all, 0x5a, sizeof(all));
		memcpy(all + dst, from + src, bytes);
		cr_expect_eq(kv_copy_sum_piece(to + dst, from + src, bytes, pos),
			     sum_by_words(from + src, bytes, pos), "%lu bytes", bytes);
		cr_expect_arr_eq(to, all, sizeof(all));
		memset(to, 0x5a, sizeof(to));
		kv_copy_piece(to + dst, from + src, bytes);
		cr_expect_arr_eq(to, all, sizeof(all), "%lu bytes without a sum", bytes);
	}
}

#ifdef __x86_64__

/* What a better processor hides: the vectors of four are asked by themselves. */
Test(sum, is_the_same_by_shorter_vectors)
{
	u64 rng = 8;
	u8 data[1024], copy[1024] __attribute__((aligned(64)));

	if (!__builtin_cpu_supports("avx2"))
		cr_skip_test("no AVX2 here");
	for (u32 i = 0; i < sizeof(data); i++)
		data[i] = arena_random(&rng);
	for (u64 nr = 0; nr <= 128; nr++) {
		u64 sum = 0, pos = arena_random(&rng);
		u64 done = kv_sum_avx2(NULL, data, nr, pos, &sum);

		cr_expect_eq(done, nr / 16 * 16);
		cr_expect_eq(sum, sum_by_words(data, done * 8, pos));
		memset(copy, 0, sizeof(copy));
		cr_expect_eq(kv_stream_avx2(copy, data, nr), done);
		cr_expect_arr_eq(copy, data, done * 8);
		sum = 0;
		memset(copy, 0, sizeof(copy));
		cr_expect_eq(kv_copy_avx2(copy, data, nr, pos, &sum), done);
		cr_expect_eq(sum, sum_by_words(data, done * 8, pos));
		cr_expect_arr_eq(copy, data, done * 8);
	}
}

#endif

Test(sum, sees_flipped_bits_swapped_words_and_missing_zeros)
{
	u8 data[256] = { 0 }, other[256];
	u64 sum;

	for (u32 i = 0; i < 200; i++)
		data[i] = i * 7;
	sum = kv_sum_piece(data, 256, 0);
	for (u32 bit = 0; bit < 256 * 8; bit++) {
		memcpy(other, data, 256);
		other[bit / 8] ^= 1 << bit % 8;
		cr_expect_neq(kv_sum_piece(other, 256, 0), sum);
	}
	for (u32 i = 0; i < 24; i++) {
		memcpy(other, data, 256);
		memcpy(other + 8 * i, data + 8 * i + 8, 8);
		memcpy(other + 8 * i + 8, data + 8 * i, 8);
		cr_expect_neq(kv_sum_piece(other, 256, 0), sum);
	}
	for (u64 bytes = 0; bytes <= 248; bytes += 8)
		cr_expect_neq(kv_sum_piece(data, bytes, 0), sum);
}
