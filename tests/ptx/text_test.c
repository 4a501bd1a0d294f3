// SPDX-License-Identifier: Apache-2.0
/*
 * The committed PTX text, run by the interpreter: the same bytes as memcpy(), and as the same
 * source compiled for the host.
 */
#include "arena_expect.h"
#include "arena_ptx.h"
#include "tests/support/length.h"

#define NR_RANDOM	150

static struct ptx_module *mod;

static void parse(void)
{
	mod = ptx_parse(kv_kernel_ptx);
	cr_assert_str_empty(mod->error, "%s", mod->error);
	arena_use_ptx(mod);
}

static void done(void)
{
	ptx_free(mod);
}

TestSuite(text, .init = parse, .fini = done);

Test(text, is_the_committed_one_and_wants_an_old_driver_only)
{
	const char *tree = getenv("KVMM_SRCTREE");
	static char text[200000];
	char path[500];
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cuda/kernel/move.sm70.ptx", tree ? tree : ".");
	file = fopen(path, "r");
	cr_assert(file, "%s", path);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	cr_assert_gt(bytes, 1000);
	cr_expect_str_eq(text, kv_kernel_ptx);
	cr_expect_str_eq(mod->version, "6.0");
	cr_expect_str_eq(mod->target, "sm_70");
}

/* The driver copies as many bytes from the host as the text says. */
Test(text, has_the_kernels_of_the_host_with_parameters_of_the_same_size)
{
	u32 nr = 0;

	for (const struct kv_kernel *kernel = kv_kernels; kernel->name; kernel++, nr++) {
		const struct ptx_entry *entry = ptx_find(mod, kernel->name);

		cr_assert(entry, "%s", kernel->name);
		cr_expect_eq(entry->nr_params, 1);
		cr_expect_eq(entry->param_bytes, kernel->args_bytes);
		cr_expect_eq(entry->param_align, 8);
	}
	cr_expect_eq(nr, mod->nr_entries);
	cr_expect_eq(ptx_find(mod, "kv_move16")->param_bytes, sizeof(struct kv_move_args));
	cr_expect_eq(ptx_find(mod, "kv_move16_list")->param_bytes, sizeof(struct kv_move_head));
	cr_expect_eq(ptx_find(mod, "kv_sum")->param_bytes, sizeof(struct kv_sum_args));
	cr_expect_eq(ptx_find(mod, "kv_move_sum")->param_bytes, sizeof(struct kv_move_sum_args));
}

/* The text and the host's kernels leave the same memory, which is the right one. */
static void expect_moves(const struct arena_shape *shape)
{
	struct arena *arena = arena_create(shape);
	char error[ARENA_ERROR];
	u8 *image = malloc(arena->bytes);

	cr_expect(arena_run(arena, arena_launch_ptx, error), "%s: %s", arena_describe(shape),
		  error);
	memcpy(image, arena->mem, arena->bytes);
	arena_reset(arena);
	cr_expect(arena_run(arena, arena_launch_host, error), "%s: %s", arena_describe(shape),
		  error);
	cr_expect_arr_eq(image, arena->mem, arena->bytes);
	free(image);
	arena_destroy(arena);
}

/* 3 moves x 3 planes; chunks that divide nothing; grids smaller and larger than the work. */
Test(text, moves_three_blocks_of_three_planes_on_any_grid)
{
	static const u32 grid[][2] = {
		{ 1, 1 }, { 1, 32 }, { 2, 32 }, { 3, 5 }, { 7, 64 }, { 40, 3 }, { 2, 256 },
	};
	static const u32 chunk[] = { 0, 16, 48, 112, 1040, 4144 };

	for (u32 act = 0; act < ARENA_NR_ACTS; act++)
		for (u32 i = 0; i < ARRAY_SIZE(grid) * ARRAY_SIZE(chunk); i += test_stride()) {
			struct arena_shape shape = {
				.seed		= i,
				.act		= act,
				.list		= i % 2,
				.runs		= i % 3 == 0,
				.nr_planes	= 3,
				.nr_moves	= 3,
				.max_bytes	= 4144,
				.chunk_bytes	= chunk[i / ARRAY_SIZE(grid)],
				.nr_groups	= grid[i % ARRAY_SIZE(grid)][0],
				.nr_threads	= grid[i % ARRAY_SIZE(grid)][1],
			};

			expect_moves(&shape);
			expect_sums(shape, arena_launch_ptx);
		}
}

Test(text, moves_and_sums_random_shapes)
{
	u64 seed = arena_seed();

	for (u32 i = 0; i < NR_RANDOM; i++) {
		struct arena_shape shape = arena_random_shape(seed + i, true);

		expect_moves(&shape);
		expect_sums(shape, arena_launch_ptx);
	}
}

/* As the copy engine would launch it: 504 moves, whole chunks, four vectors a thread. */
Test(text, moves_full_launches_with_the_grid_of_the_launch_helper)
{
	struct arena_shape shape = { .seed = 5, .tables = true, .nr_planes = 2, .nr_moves = 600,
				     .max_bytes = 5000 };

	expect_moves(&shape);
	shape.runs = true;
	shape.list = true;
	expect_moves(&shape);
}
