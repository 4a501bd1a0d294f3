// SPDX-License-Identifier: Apache-2.0
/* Modules and launches: entries of a text, kernels that were compiled for the host. */
#include "cuda/kernel/launch.h"
#include "tests/swcuda/driver.h"

#define HEAD	".version 6.0\n.target sm_70\n.address_size 64\n"

static kcu_result load_text(kcu_module *module, const char *text)
{
	return cu.module_load_data_ex(module, text, 0, NULL, NULL);
}

/* ---- A kernel of our own: each thread adds its number to one word ---- */

#define NR_THREADS	256

static u32 order[NR_THREADS], nr_run;

static void add_run(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
		    void **params)
{
	u32 *words = *(u32 **)params[0];

	words[thread] += thread * *(u32 *)params[1];
	if (nr_run < NR_THREADS)
		order[nr_run++] = thread;
}

static void add_access(const struct sw_kernel *kernel, void **params,
		       struct sw_access_list *list, sw_touch_fn touch)
{
	touch(list, *(u64 *)params[0], NR_THREADS * sizeof(u32), true);
}

static const struct sw_kernel add_kernel = {
	.name = "add", .nr_params = 2, .run = add_run, .access = add_access,
};

static const char add_text[] =
	"// .entry nothing(\n" HEAD
	"/* .entry nothing( */\n"
	".visible .entry add(\n\t.param .u64 add_param_0,\n\t.param .u32 add_param_1\n)\n{ ret; }\n"
	".visible .entry other()\n{ ret; }\n";

static kcu_function add_function(void)
{
	kcu_function fn = NULL;
	kcu_module module;

	cr_assert_eq(ctl->add_kernel(&add_kernel), 0);
	ok(load_text(&module, add_text));
	ok(cu.module_get_function(&fn, module, "add"));
	return fn;
}

static kcu_result launch_add(kcu_function fn, kcu_deviceptr addr, u32 factor, kcu_stream stream)
{
	void *params[] = { &addr, &factor };

	return cu.launch_kernel(fn, 4, 1, 1, 32, 2, 1, 0, stream, params, NULL);
}

Test(module, every_thread_runs_once)
{
	kcu_stream stream;
	kcu_deviceptr addr;
	kcu_function fn;

	start("");
	fn = add_function();
	stream = stream_new();
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	fill(addr, 0, NR_THREADS * sizeof(u32), stream);
	ok(launch_add(fn, addr, 3, stream));
	finish(stream);
	for (u32 i = 0; i < NR_THREADS; i++) {
		cr_assert_eq(((u32 *)addr)[i], 3 * i);
		cr_assert_eq(order[i], i);
	}
}

Test(module, a_launch_costs_what_it_writes)
{
	kcu_event from, to;
	kcu_stream stream;
	kcu_deviceptr addr;
	kcu_function fn;
	float ms = 0;

	start("latency_us=2000,gbps_local=1");
	fn = add_function();
	stream = stream_new();
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	ok(cu.event_create(&from, 0));
	ok(cu.event_create(&to, 0));
	record(from, stream);
	for (int i = 0; i < 1000; i++)
		ok(launch_add(fn, addr, 0, stream));
	record(to, stream);
	finish(stream);
	ok(cu.event_elapsed_time(&ms, from, to));
	cr_expect_float_eq(ms, 1000 * (2 + NR_THREADS * sizeof(u32) / 1e6), 1e-1, "%f", ms);
}

Test(module, slow_mode_is_in_another_order)
{
	u32 nr_moved = 0;
	kcu_stream stream;
	kcu_deviceptr addr;
	kcu_function fn;

	start("slow=1");
	fn = add_function();
	stream = stream_new();
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	fill(addr, 0, NR_THREADS * sizeof(u32), stream);
	ok(launch_add(fn, addr, 1, stream));
	finish(stream);
	for (u32 i = 0; i < NR_THREADS; i++) {
		cr_assert_eq(((u32 *)addr)[i], i);
		nr_moved += order[i] != i;
	}
	cr_expect_gt(nr_moved, NR_THREADS / 2);
}

Test(module, launches_take_part_in_races_and_bounds)
{
	kcu_stream one, two;
	kcu_deviceptr addr;
	kcu_function fn;

	start("");
	fn = add_function();
	one = stream_new();
	two = stream_new();
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	ok(launch_add(fn, addr, 1, one));
	fill(addr, 0, 4, two);
	finish(one);
	finish(two);
	cr_expect_eq(races(), 1);
	cr_expect_not_null(strstr(ctl->report(0), "add #1 on stream 1"), "%s", ctl->report(0));
	ok(launch_add(fn, addr + 4, 1, one));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(one));
}

Test(module, a_launch_counts_as_use)
{
	kcu_deviceptr addr;
	kcu_stream stream;
	kcu_function fn;

	start("");
	fn = add_function();
	stream = stream_new();
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	ok(launch_add(fn, addr, 1, stream));
	is(KCU_E_INVALID_VALUE, cu.mem_free(addr));
	finish(stream);
	ok(cu.mem_free(addr));
}

/* It would fault, since its threads touch the memory themselves. */
Test(module, memory_that_goes_away_under_a_launch_is_caught)
{
	kcu_mem_prop prop = {
		.type = KCU_ALLOCATION_PINNED, .location = { KCU_LOCATION_DEVICE, 0 },
	};
	kcu_mem_access desc = { { KCU_LOCATION_DEVICE, 0 }, KCU_ACCESS_READWRITE };
	kcu_mem_handle handle;
	kcu_deviceptr addr;
	kcu_stream stream;
	kcu_function fn;

	start("");
	fn = add_function();
	stream = stream_new();
	ok(cu.mem_address_reserve(&addr, 2 * MIB, 0, 0, 0));
	ok(cu.mem_create(&handle, 2 * MIB, &prop, 0));
	ok(cu.mem_map(addr, 2 * MIB, 0, handle, 0));
	ok(cu.mem_set_access(addr, 2 * MIB, &desc, 1));
	ok(launch_add(fn, addr, 1, stream));
	cr_assert(ctl->step());
	cr_assert(nr_run > 0 && nr_run < NR_THREADS);
	ok(cu.mem_unmap(addr, 2 * MIB));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

/* ---- A kernel that finds an address in memory ---- */

static void through_run(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
			void **params)
{
	**(u64 **)*(u64 **)params[0] = 1;
}

static void through_access(const struct sw_kernel *kernel, void **params,
			   struct sw_access_list *list, sw_touch_fn touch)
{
	u64 *word = *(u64 **)params[0];

	if (touch(list, (u64)word, sizeof(*word), false))
		touch(list, *word, sizeof(u64), true);
}

static const struct sw_kernel through_kernel = {
	.name = "through", .nr_params = 1, .run = through_run, .access = through_access,
};

/* What the word says before the copy ahead of the launch has run means nothing. */
Test(module, addresses_in_memory_count_when_the_launch_runs)
{
	kcu_deviceptr old, fresh, word;
	void *params[] = { &word };
	kcu_module module;
	kcu_stream stream;
	kcu_function fn;

	start("");
	ctl->add_kernel(&through_kernel);
	ok(load_text(&module, HEAD ".entry through(.param .u64 a) {}"));
	ok(cu.module_get_function(&fn, module, "through"));
	stream = stream_new();
	old = dev_alloc(8);
	fresh = dev_alloc(8);
	word = dev_alloc(8);
	ok(cu.memcpy_htod_async(word, &old, 8, stream));
	finish(stream);
	ok(cu.memcpy_htod_async(word, &fresh, 8, stream));
	ok(cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ok(cu.mem_free(old));
	finish(stream);
	cr_expect_eq(*(u64 *)fresh, 1);
}

Test(module, launches_are_checked)
{
	void *params[2] = { &(u64){ 0 }, &(u32){ 0 } };
	kcu_stream s;
	kcu_function fn;

	start("");
	fn = add_function();
	s = stream_new();
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 1, 1, 1, 1025, 1, 1, 0, s, params, NULL));
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 1, 1, 1, 64, 32, 1, 0, s, params, NULL));
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 1, 65536, 1, 1, 1, 1, 0, s, params, NULL));
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 1 << 20, s, params, NULL));
	is(KCU_E_INVALID_VALUE, cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	is(KCU_E_NOT_SUPPORTED, cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, s, params, params));
	is(KCU_E_INVALID_HANDLE, cu.launch_kernel(NULL, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	is(KCU_E_INVALID_HANDLE, cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* ---- Loading ---- */

Test(module, functions_are_found_by_name)
{
	kcu_module module = NULL;
	kcu_function fn = NULL;

	start("");
	ctl->add_kernel(&add_kernel);
	ok(load_text(&module, add_text));
	ok(cu.module_get_function(&fn, module, "add"));
	cr_expect_not_null(fn);
	is(KCU_E_NOT_FOUND, cu.module_get_function(&fn, module, "nothing"));
	is(KCU_E_NOT_FOUND, cu.module_get_function(&fn, module, "other"));
	is(KCU_E_NOT_FOUND, cu.module_get_function(&fn, module, "ad"));
	ok(cu.module_unload(module));
	is(KCU_E_INVALID_HANDLE, cu.module_unload(module));
	is(KCU_E_INVALID_HANDLE, cu.module_get_function(&fn, module, "add"));
}

Test(module, other_texts_are_refused)
{
	static const char *const bad[] = {
		"", "\x7f" "ELF", "hello", HEAD, HEAD ".visible .entry",
		HEAD ".visible .entry add(.param .u64 a", HEAD ".visible .entry add(.param a)",
		HEAD ".visible .entry add(.param .u64 a)",	/* one parameter, not two */
	};
	kcu_module module;

	start("");
	ctl->add_kernel(&add_kernel);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		is(KCU_E_INVALID_PTX, load_text(&module, bad[i]));
	is(KCU_E_INVALID_VALUE, load_text(NULL, add_text));
	is(KCU_E_INVALID_VALUE, load_text(&module, NULL));
}

Test(module, refusals_say_why)
{
	kcu_jit_option options[] = { KCU_JIT_ERROR_LOG, KCU_JIT_ERROR_LOG_BYTES };
	char log[100] = "";
	void *values[] = { log, (void *)sizeof(log) };
	kcu_module module;

	start("jit=JIT_COMPILER_NOT_FOUND");
	is(KCU_E_JIT_COMPILER_NOT_FOUND,
	   cu.module_load_data_ex(&module, add_text, 2, options, values));
	cr_expect_not_null(strstr(log, "jit=221"), "%s", log);
}

Test(module, text_may_be_too_new_for_the_driver)
{
	kcu_module module;

	start("driver=12080");
	ok(load_text(&module, ".version 8.7\n.target sm_70\n.entry a() {}"));
	is(KCU_E_UNSUPPORTED_PTX_VERSION,
	   load_text(&module, ".version 9.0\n.target sm_70\n.entry a() {}"));
}

/* ---- The library's own ---- */

#define PIECE	512
#define BLOCKS	16

/* One plane, moves by value: block i to block 15 - i, for i below @nr. */
static void move_args(struct kv_move_args *args, kcu_deviceptr pool, u32 nr)
{
	*args = (struct kv_move_args){
		.head = {
			.nr_planes = 1, .nr_moves = nr, .nr_blocks = nr,
			.move_words = KV_KERNEL_SINGLE, .nr_chunks = 1, .chunk_bytes = PIECE,
			.first_word = sizeof(struct kv_kernel_plane) / sizeof(u32),
		},
	};
	args->plane[0] = (struct kv_kernel_plane){ pool, PIECE, PIECE };
	for (u32 i = 0; i < nr; i++) {
		args->word[args->head.first_word + 2 * i] = i;
		args->word[args->head.first_word + 2 * i + 1] = BLOCKS - 1 - i;
	}
}

static void move_blocks(const char *options)
{
	struct kv_move_args args;
	void *params[] = { &args };
	kcu_deviceptr pool;
	kcu_function fn;
	kcu_module module;
	kcu_stream stream;

	start(options);
	ok(load_text(&module, kv_kernel_ptx));
	ok(cu.module_get_function(&fn, module, "kv_move16"));
	stream = stream_new();
	pool = dev_alloc(BLOCKS * PIECE);
	for (u32 i = 0; i < BLOCKS; i++)
		fill(pool + i * PIECE, i, PIECE, stream);
	move_args(&args, pool, 5);
	ok(cu.launch_kernel(fn, 5, 1, 1, 64, 1, 1, 0, stream, params, NULL));
	memset(&args, 0xff, sizeof(args));		/* it has its own copy */
	finish(stream);
	for (u32 i = 0; i < BLOCKS; i++)
		cr_expect(all_bytes((void *)(pool + i * PIECE),
				    i > 10 ? BLOCKS - 1 - i : i, PIECE), "block %u", i);
	cr_expect_eq(races(), 0);
}

TEST_CALL(module, the_move_kernel_moves, move_blocks(""))
TEST_CALL(module, the_move_kernel_moves_thread_by_thread, move_blocks("slow=1"))

/* Exactly the moved blocks are in use; a chain of moves in one launch is a race with itself. */
Test(module, what_moves_touch_is_known)
{
	struct kv_move_args args;
	void *params[] = { &args };
	kcu_stream one, two;
	kcu_deviceptr pool;
	kcu_function fn;
	kcu_module module;

	start("");
	ok(load_text(&module, kv_kernel_ptx));
	ok(cu.module_get_function(&fn, module, "kv_move16"));
	one = stream_new();
	two = stream_new();
	pool = dev_alloc(BLOCKS * PIECE);
	move_args(&args, pool, 5);
	ok(cu.launch_kernel(fn, 5, 1, 1, 64, 1, 1, 0, one, params, NULL));
	fill(pool + 5 * PIECE, 1, 6 * PIECE, two);
	finish(one);
	finish(two);
	cr_expect_eq(races(), 0);
	fill(pool + 15 * PIECE, 1, PIECE, two);
	ok(cu.launch_kernel(fn, 5, 1, 1, 64, 1, 1, 0, one, params, NULL));
	finish(one);
	finish(two);
	cr_expect_eq(races(), 1);

	ctl->clear_reports();
	args.word[args.head.first_word + 2] = BLOCKS - 1;	/* read what move 0 writes */
	ok(cu.launch_kernel(fn, 5, 1, 1, 64, 1, 1, 0, one, params, NULL));
	finish(one);
	cr_expect_eq(races(), 1);
}

Test(module, the_sum_kernel_sums)
{
	struct kv_kernel_plane plane;
	struct kv_sum_args args = { .nr_planes = 1, .nr_blocks = 2, .first = 3, .nr_parts = 1 };
	void *params[] = { &args };
	kcu_deviceptr pool, planes, sums;
	u8 bytes[PIECE];
	kcu_function fn;
	kcu_module module;
	kcu_stream stream, other;

	start("");
	ok(load_text(&module, kv_kernel_ptx));
	ok(cu.module_get_function(&fn, module, "kv_sum"));
	stream = stream_new();
	other = stream_new();
	pool = dev_alloc(BLOCKS * PIECE);
	planes = dev_alloc(sizeof(plane));
	sums = dev_alloc(16);
	plane = (struct kv_kernel_plane){ pool, PIECE, PIECE };
	ok(cu.memcpy_htod_async(planes, &plane, sizeof(plane), stream));
	fill(sums, 0, 16, stream);
	fill(pool + 3 * PIECE, 1, PIECE, stream);
	fill(pool + 4 * PIECE, 2, PIECE, stream);
	args.planes = planes;
	args.sums = sums;
	ok(cu.launch_kernel(fn, 2, 1, 1, 64, 1, 1, 0, stream, params, NULL));
	finish(stream);
	for (u32 i = 0; i < 2; i++) {
		memset(bytes, i + 1, PIECE);
		cr_expect_eq(((u64 *)sums)[i], kv_sum_piece(bytes, PIECE, 0));
	}
	cr_expect_eq(races(), 0);
	ok(cu.launch_kernel(fn, 2, 1, 1, 64, 1, 1, 0, stream, params, NULL));
	copy(pool, sums, 16, other);
	finish(stream);
	finish(other);
	cr_expect_eq(races(), 1);
}
