// SPDX-License-Identifier: Apache-2.0
/*
 * Modules and launches, by the kernels that the library brings along. What they do is compared
 * with the same moves made by memcpy(); which grid does it must not matter.
 */
#include <cuda/kernel/launch.h>

#include "check.h"

#define NR_BLOCKS	64u
#define NR_PLANES	3u

static void unload(u64 module)
{
	cu->module_unload((kcu_module)module);
}

static kcu_module embedded_module(void)
{
	kcu_module module;

	must(cu->module_load_data_ex(&module, kv_kernel_ptx, 0, NULL, NULL));
	at_end(unload, (u64)module);
	return module;
}

static kcu_function kernel(const char *name)
{
	kcu_function fn;

	must(cu->module_get_function(&fn, embedded_module(), name));
	return fn;
}

static void launch(kcu_function fn, u32 groups, u32 threads, void *args, kcu_stream stream)
{
	void *params[] = { args };

	must(cu->launch_kernel(fn, groups, 1, 1, threads, 1, 1, 0, stream, params, NULL));
}

/* One piece at @src to @dst. */
static int one_piece(struct kv_move_args *args, kcu_deviceptr dst, kcu_deviceptr src, u32 bytes)
{
	struct kvmm_plane from = { src, bytes, bytes }, to = { dst, bytes, bytes };
	struct kv_launch_planes source = { &from, 1, 0 }, target = { &to, 1, 0 };
	struct kv_move move = { 0, 0, 1 };
	int threads = kv_launch_head(&args->head, &source, &target, true);

	that(threads > 0);
	that(kv_launch_moves(args, &source, &target, &move, 1) == 1);
	return threads;
}

kcu_result kernel_copy(kcu_deviceptr dst, kcu_deviceptr src, u32 bytes)
{
	kcu_stream stream = new_stream();
	struct kv_move_args args;
	int threads = one_piece(&args, dst, src, bytes);

	launch(kernel("kv_move16"), 4, threads, &args, stream);
	return cu->stream_synchronize(stream);
}

/* ---- loading ---- */

static void embedded_text_loads(void)
{
	static const char *const names[] = {
		"kv_move16", "kv_move16_list", "kv_move1", "kv_move1_list", "kv_sum",
		"kv_move_sum",
	};
	kcu_module module = embedded_module();
	kcu_function fn[ARRAY_SIZE(names)];

	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		must(cu->module_get_function(&fn[i], module, names[i]));
		for (u32 j = 0; j < i; j++)
			that(fn[i] != fn[j]);
	}
}

static void function_that_there_is_not(void)
{
	kcu_function fn;

	answers(cu->module_get_function(&fn, embedded_module(), "kv_no_such_kernel"), NOT_FOUND);
}

static kcu_result load_text(const char *text, char *log, size_t bytes)
{
	kcu_jit_option options[] = { KCU_JIT_ERROR_LOG, KCU_JIT_ERROR_LOG_BYTES };
	void *values[] = { log, (void *)bytes };
	kcu_module module;
	kcu_result result;

	log[0] = '\0';
	result = cu->module_load_data_ex(&module, text, ARRAY_SIZE(options), options, values);
	if (!result)
		cu->module_unload(module);
	return result;
}

/* Newer than any driver: what a text made by too new a toolkit runs into. */
static void text_of_a_future_version(void)
{
	char log[4096];

	answers(load_text(".version 9.9\n.target sm_70\n.address_size 64\n"
			  ".visible .entry f()\n{\n\tret;\n}\n", log, sizeof(log)),
		UNSUPPORTED_PTX_VERSION);
}

static void text_that_is_wrong_is_explained(void)
{
	char log[4096];
	kcu_result result = load_text(".version 6.0\n.target sm_70\n.address_size 64\n"
				      ".visible .entry f()\n{\n\tno.such.instruction %r1;\n}\n",
				      log, sizeof(log));

	that(!result || memchr(log, '\0', sizeof(log)));
	that(!result || strlen(log) > 10);
	answers(result, INVALID_PTX);
}

static void text_that_is_none(void)
{
	char log[4096];

	answers(load_text("This is not the text of a kernel.\n", log, sizeof(log)), INVALID_PTX);
}

/* ---- moving ---- */

struct arena {
	kcu_deviceptr base;
	size_t bytes;
	u8 *content;			/* what it should hold */
	u8 *seen;
	struct kvmm_plane plane[NR_PLANES];
	struct kv_launch_planes planes;
};

/* Planes one behind the other, each block with a gap behind its piece that must stay as it is. */
static void make_arena(struct arena *arena, u64 piece_bytes)
{
	u64 stride = piece_bytes + 48, plane_bytes = stride * NR_BLOCKS;

	arena->bytes = plane_bytes * NR_PLANES;
	arena->base = device_memory(arena->bytes);
	arena->content = pageable_memory(arena->bytes);
	arena->seen = pageable_memory(arena->bytes);
	fill_pattern(arena->content, arena->bytes, piece_bytes);
	put(arena->base, arena->content, arena->bytes);
	for (u32 i = 0; i < NR_PLANES; i++)
		arena->plane[i] = (struct kvmm_plane){ arena->base + i * plane_bytes, stride,
						       piece_bytes };
	arena->planes = (struct kv_launch_planes){ arena->plane, NR_PLANES, 0 };
}

static u8 *piece_of(const struct arena *arena, u32 plane, u32 block)
{
	const struct kvmm_plane *p = &arena->plane[plane];

	return arena->content + (p->base - arena->base) + block * p->stride;
}

static void move_content(struct arena *arena, const struct kv_move *moves, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		for (u32 b = 0; b < moves[i].nr; b++)
			for (u32 p = 0; p < NR_PLANES; p++)
				memcpy(piece_of(arena, p, moves[i].dst + b),
				       piece_of(arena, p, moves[i].src + b),
				       arena->plane[p].bytes);
}

static void compare(struct arena *arena)
{
	get(arena->seen, arena->base, arena->bytes);
	that(!memcmp(arena->seen, arena->content, arena->bytes));
}

/* Blocks 0 to 31 go to 32 to 63 in an order without system; as runs of two or one by one. */
static u32 some_moves(struct kv_move moves[32], bool runs)
{
	u32 nr = runs ? 16 : 32, length = 32 / nr;

	for (u32 i = 0; i < nr; i++)
		moves[i] = (struct kv_move){ length * (i * 7 % nr), 32 + length * (i * 5 % nr),
					     length };
	return nr;
}

static void move_by_value(const char *name, u64 piece_bytes, bool runs, u32 groups)
{
	struct kv_move moves[32];
	u32 nr = some_moves(moves, runs);
	kcu_stream stream = new_stream();
	struct kv_move_args args;
	struct arena arena;
	bool vectors;
	int threads;

	make_arena(&arena, piece_bytes);
	that(kv_launch_alike(arena.plane, arena.plane, NR_PLANES, &vectors) == NR_PLANES);
	threads = kv_launch_head(&args.head, &arena.planes, &arena.planes, vectors);
	that(threads > 0);
	that(kv_launch_moves(&args, &arena.planes, &arena.planes, moves, nr) == nr);
	launch(kernel(name), groups ?: kv_launch_groups(&args.head, 1024), threads, &args,
	       stream);
	must(cu->stream_synchronize(stream));
	move_content(&arena, moves, nr);
	compare(&arena);
}

static void vectors_move(void)
{
	move_by_value("kv_move16", 4096, false, 0);
	move_by_value("kv_move16", 16, true, 0);
	move_by_value("kv_move16", 36864 + 16, true, 0);
}

static void bytes_move(void)
{
	move_by_value("kv_move1", 1001, false, 0);
	move_by_value("kv_move1", 1, true, 0);
	move_by_value("kv_move1", 9999, true, 0);
}

static void any_grid_moves_the_same(void)
{
	static const u32 groups[] = { 1, 2, 7, 132, 1000 };

	for (u32 i = 0; i < ARRAY_SIZE(groups); i++)
		move_by_value("kv_move16", 8192, true, groups[i]);
}

/* Planes and moves in memory of the host, read by the device. */
static void lists_in_pinned_memory_move(void)
{
	struct kvmm_plane *table = pinned_memory(NR_PLANES * sizeof(*table));
	u32 *words = pinned_memory(KV_LAUNCH_LIST_WORDS(32) * sizeof(*words));
	kcu_stream stream = new_stream();
	struct kv_move_head head;
	struct kv_move moves[32];
	u32 nr = some_moves(moves, true);
	struct arena arena;
	int threads;

	make_arena(&arena, 2048);
	memcpy(table, arena.plane, sizeof(arena.plane));
	must(cu->mem_host_get_device_pointer(&arena.planes.table, table, 0));
	threads = kv_launch_head(&head, &arena.planes, &arena.planes, true);
	that(threads > 0);
	that(kv_launch_list(&head, words, moves, nr) == nr);
	must(cu->mem_host_get_device_pointer(&head.moves, words, 0));
	launch(kernel("kv_move16_list"), kv_launch_groups(&head, 64), threads, &head, stream);
	must(cu->stream_synchronize(stream));
	move_content(&arena, moves, nr);
	compare(&arena);
}

static u64 sum_of(const struct arena *arena, u32 block)
{
	u64 sum = 0, pos = 0;

	for (u32 p = 0; p < NR_PLANES; p++) {
		sum += kv_sum_piece(piece_of(arena, p, block), arena->plane[p].bytes, pos);
		pos += kv_sum_words(arena->plane[p].bytes);
	}
	return sum;
}

static void sum_kernel_sums(void)
{
	struct kvmm_plane *table = pinned_memory(NR_PLANES * sizeof(*table));
	struct kv_sum_args args = { .nr_planes = NR_PLANES, .nr_blocks = NR_BLOCKS };
	kcu_deviceptr sums = device_memory(NR_BLOCKS * sizeof(u64));
	kcu_stream stream = new_stream();
	struct arena arena;
	u64 seen[NR_BLOCKS];

	make_arena(&arena, 4104);
	memcpy(table, arena.plane, sizeof(arena.plane));
	must(cu->mem_host_get_device_pointer(&args.planes, table, 0));
	args.sums = sums;
	args.nr_parts = kv_launch_sum_parts(NR_BLOCKS, NR_PLANES, 128);
	must(cu->memset_d8_async(sums, 0, sizeof(seen), stream));
	launch(kernel("kv_sum"), kv_launch_sum_groups(&args, 128), 256, &args, stream);
	must(cu->stream_synchronize(stream));
	get(seen, sums, sizeof(seen));
	for (u32 i = 0; i < NR_BLOCKS; i++)
		that(seen[i] == sum_of(&arena, i));
}

/* ---- launching ---- */

/* The caller may reuse what he passed once the call is back. */
static void parameters_are_read_by_the_call(void)
{
	kcu_deviceptr src = device_memory(4096), dst = device_memory(4096);
	kcu_stream stream = new_stream();
	struct kv_move_args args;
	kcu_function fn = kernel("kv_move16");
	struct gate gate;

	put_pattern(src, 4096, 1);
	put_byte(dst, 4096, 0);
	one_piece(&args, dst, src, 4096);
	gate = closed_gate(stream);
	launch(fn, 1, 64, &args, stream);
	memset(&args, 0, sizeof(args));
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	that(has_pattern(dst, 4096, 1));
}

static void launches_keep_the_order_of_their_stream(void)
{
	kcu_deviceptr src = device_memory(4096), mid = device_memory(4096);
	kcu_deviceptr dst = device_memory(4096);
	struct kv_move_args first, second;
	kcu_stream stream = new_stream();
	kcu_function fn = kernel("kv_move16");

	put_byte(src, 4096, 0);
	one_piece(&first, mid, src, 4096);
	one_piece(&second, dst, mid, 4096);
	for (u32 i = 1; i <= 20; i++) {
		must(cu->memset_d8_async(src, i, 4096, stream));
		launch(fn, 1, 64, &first, stream);
		launch(fn, 1, 64, &second, stream);
		must(cu->memset_d8_async(mid, 0xff, 4096, stream));
	}
	must(cu->stream_synchronize(stream));
	that(has_byte(dst, 4096, 20));
}

static kcu_result launch_shape(u32 groups, u32 threads)
{
	kcu_deviceptr addr = device_memory(8192);
	struct kv_move_args args;
	void *params[] = { &args };
	kcu_function fn = kernel("kv_move16");

	one_piece(&args, addr + 4096, addr, 4096);
	return cu->launch_kernel(fn, groups, 1, 1, threads, 1, 1, 0, new_stream(), params, NULL);
}

static void launch_of_no_group(void)
{
	answers(launch_shape(0, 64), INVALID_VALUE);
}

static void launch_of_too_large_groups(void)
{
	answers(launch_shape(1, 2048), INVALID_VALUE);
}

#define CHECK(name)	{ "kernel." #name, name, 0, 0 }
const struct check checks_kernel[] = {
	CHECK(embedded_text_loads),
	CHECK(function_that_there_is_not),
	CHECK(text_of_a_future_version),
	CHECK(text_that_is_wrong_is_explained),
	CHECK(text_that_is_none),
	CHECK(vectors_move),
	CHECK(bytes_move),
	CHECK(any_grid_moves_the_same),
	CHECK(lists_in_pinned_memory_move),
	CHECK(sum_kernel_sums),
	CHECK(parameters_are_read_by_the_call),
	CHECK(launches_keep_the_order_of_their_stream),
	CHECK(launch_of_no_group),
	CHECK(launch_of_too_large_groups),
	{ NULL, NULL, 0, 0 },
};
