// SPDX-License-Identifier: Apache-2.0
/* Calls that the library does not make, and programs do: swcuda/everyday.h. */
#include <dlfcn.h>

#include "swcuda/everyday.h"
#include "tests/swcuda/driver.h"

#define BYTES	4096u

#define DECLARE(field, name, type, version)	static type name;
SW_EVERYDAY(DECLARE)

static void begin(const char *options)
{
	void *library;

	start(options);
	library = dlopen("./libkvmm-swcuda.so", RTLD_NOW | RTLD_NOLOAD);
#define FIND(field, name, type, version)			\
	name = (type)dlsym(library, #name);			\
	cr_assert_not_null(name, "%s", #name);
	SW_EVERYDAY(FIND)
#undef FIND
}

/* ---- copies and fills without a stream ---- */

Test(everyday, what_goes_to_a_device_and_back_is_what_it_was)
{
	u8 from[BYTES], to[BYTES] = { 0 };
	kcu_deviceptr one, two;

	for (u32 i = 0; i < BYTES; i++)
		from[i] = i * 7;
	begin("");
	one = dev_alloc(BYTES);
	two = dev_alloc(BYTES);
	ok(cuMemcpyHtoD_v2(one, from, BYTES));
	ok(cuMemcpyDtoD_v2(two, one, BYTES));
	ok(cuMemcpyDtoH_v2(to, two, BYTES));
	cr_expect_arr_eq(from, to, BYTES);
	memset(to, 0, BYTES);
	ok(cuMemcpy((kcu_deviceptr)(uintptr_t)to, one, BYTES));
	cr_expect_arr_eq(from, to, BYTES);
	cr_expect_eq(races(), 0);
	cr_expect_eq(ctl->nr_reports(SW_REPORT_MISUSE), 0);
}

Test(everyday, what_stays_on_the_device_is_not_waited_for)
{
	kcu_deviceptr one, two;

	begin("");
	one = dev_alloc(BYTES);
	two = dev_alloc(BYTES);
	ok(cuMemsetD8_v2(one, 1, BYTES));
	ok(cuMemcpyDtoD_v2(two, one, BYTES));
	cr_expect(all_bytes((void *)one, 0xc5, BYTES), "nothing runs before it is asked for");
	cr_expect(all_bytes((void *)two, 0xc5, BYTES));
	ok(cuCtxSynchronize());
	cr_expect(all_bytes((void *)two, 1, BYTES));
}

Test(everyday, pinned_memory_is_free_again_when_a_copy_of_it_returns)
{
	kcu_deviceptr addr;
	void *pinned = NULL;

	begin("");
	addr = dev_alloc(BYTES);
	ok(cuMemAllocHost_v2(&pinned, BYTES));
	ok(cuMemsetD8_v2((kcu_deviceptr)(uintptr_t)pinned, 9, BYTES));
	cr_expect(all_bytes(pinned, 9, BYTES), "a fill of host memory is waited for");
	ok(cuMemcpyHtoD_v2(addr, pinned, BYTES));
	memset(pinned, 0, BYTES);
	cr_expect(dev_bytes(addr, 9, BYTES));
	ok(cu.mem_free_host(pinned));
}

Test(everyday, copies_refuse_what_is_on_the_wrong_side)
{
	kcu_deviceptr addr;
	u8 host[16];

	begin("");
	addr = dev_alloc(16);
	is(KCU_E_INVALID_VALUE, cuMemcpyHtoD_v2((kcu_deviceptr)(uintptr_t)host, host, 16));
	is(KCU_E_INVALID_VALUE, cuMemcpyDtoH_v2((void *)(uintptr_t)addr, addr, 16));
	is(KCU_E_INVALID_VALUE, cuMemcpyDtoD_v2(addr, addr + 8, 16));
	is(KCU_E_INVALID_VALUE, cuMemcpyHtoD_v2(0, host, 16));
	ok(cuMemcpyHtoD_v2(addr, host, 0));
}

Test(everyday, fills_repeat_their_value)
{
	u16 half[100];
	u32 word[100];
	kcu_deviceptr addr;
	kcu_stream stream;

	begin("");
	addr = dev_alloc(sizeof(word));
	stream = stream_new();
	for (u32 round = 0; round < 50; round++) {
		ok(cuMemsetD32Async(addr, 0x01020304 + round, ARRAY_SIZE(word), stream));
		ok(cu.memcpy_dtoh_async(word, addr, sizeof(word), stream));
		ok(cuMemsetD16Async(addr + 2, 0xabcd - round, ARRAY_SIZE(half), stream));
		ok(cu.memcpy_dtoh_async(half, addr + 2, sizeof(half), stream));
		finish(stream);
		for (u32 i = 0; i < ARRAY_SIZE(word); i++) {
			cr_assert_eq(word[i], 0x01020304 + round);
			cr_assert_eq(half[i], 0xabcd - round);
		}
	}
	ok(cuMemsetD32_v2(addr, 5, 1));
	ok(cuMemsetD16_v2(addr + 4, 6, 2));
	ok(cuCtxSynchronize());
	cr_expect_eq(*(u32 *)addr, 5);
	cr_expect_eq(*(u32 *)(addr + 4), 0x60006);
}

Test(everyday, fills_are_aligned_and_lie_in_one_allocation)
{
	kcu_deviceptr addr;

	begin("");
	addr = dev_alloc(64);
	is(KCU_E_INVALID_VALUE, cuMemsetD16_v2(addr + 1, 0, 1));
	is(KCU_E_INVALID_VALUE, cuMemsetD32_v2(addr + 2, 0, 1));
	is(KCU_E_INVALID_VALUE, cuMemsetD32_v2(addr, 0, 17));
	is(KCU_E_INVALID_VALUE, cuMemsetD32_v2(addr, 0, SIZE_MAX / 2));
	ok(cuMemsetD32_v2(addr, 0, 0));
	ok(cuMemsetD32_v2(addr, 0, 16));
}

/* ---- the NULL stream ---- */

/* A chain over three streams, which nothing but the rule of the NULL stream orders. */
static void run_chain(u32 seed, unsigned int flags)
{
	kcu_deviceptr a = dev_alloc(BYTES), b = dev_alloc(BYTES), c = dev_alloc(BYTES);
	kcu_stream one, two;

	ctl->set_seed(seed);
	ok(cuStreamCreate(&one, flags));
	ok(cuStreamCreate(&two, flags));
	fill(a, seed, BYTES, one);
	copy(b, a, BYTES, NULL);
	copy(c, b, BYTES, two);
	ok(cu.stream_synchronize(two));
	cr_expect(flags || all_bytes((void *)c, seed, BYTES), "seed %u", seed);
	ok(cuCtxSynchronize());
	cr_expect_eq(ctl->nr_reports(SW_REPORT_MISUSE), 0);
}

Test(everyday, blocking_streams_and_the_null_stream_wait_for_each_other)
{
	begin("default_stream=1");
	for (u32 seed = 1; seed <= 20; seed++) {
		run_chain(seed, 0);
		cr_assert_eq(races(), 0, "seed %u: %s", seed, ctl->report(0));
	}
}

Test(everyday, streams_that_do_not_block_race_with_the_null_stream)
{
	begin("default_stream=1");
	run_chain(1, KCU_STREAM_NON_BLOCKING);
	cr_expect_gt(races(), 0);
	ctl->clear_reports();
}

Test(everyday, a_wait_for_the_null_stream_is_one_for_the_blocking_ones)
{
	kcu_deviceptr addr;
	kcu_stream stream;
	kcu_event event;

	begin("default_stream=1");
	addr = dev_alloc(BYTES);
	ok(cuStreamCreate(&stream, 0));
	event = event_new();
	fill(addr, 4, BYTES, stream);
	ok(cu.stream_synchronize(NULL));
	cr_expect(all_bytes((void *)addr, 4, BYTES));
	fill(addr, 5, BYTES, stream);
	ok(cuEventRecordWithFlags(event, NULL, 0));
	ok(cu.event_synchronize(event));
	cr_expect(all_bytes((void *)addr, 5, BYTES));
	is(KCU_E_INVALID_HANDLE, cu.stream_destroy(NULL));
	is(KCU_E_INVALID_HANDLE, cu.stream_synchronize(KCU_STREAM_PER_THREAD));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_MISUSE), 1, "that one there is not");
}

Test(everyday, asking_the_null_stream_again_and_again_comes_to_an_end)
{
	kcu_stream stream[8];
	kcu_deviceptr addr;
	u32 nr = 0;

	begin("default_stream=1");
	addr = dev_alloc(BYTES);
	for (u32 i = 0; i < ARRAY_SIZE(stream); i++)
		ok(cuStreamCreate(&stream[i], 0));
	for (u32 i = 0; i < 4; i++)
		fill(addr, i, BYTES, stream[i]);
	while (cu.stream_query(NULL) == KCU_E_NOT_READY)
		cr_assert_lt(nr++, 10000);
	fill(addr, 9, BYTES, stream[7]);
	for (nr = 0; cu.stream_query(NULL) == KCU_E_NOT_READY; nr++)
		cr_assert_lt(nr, 10000);
	cr_expect(all_bytes((void *)addr, 9, BYTES));
	ctl->clear_reports();	/* the fills race with each other */
}

static void destroy_busy_stream(void)
{
	kcu_deviceptr addr = dev_alloc(BYTES);
	kcu_stream stream = stream_new();

	for (u32 value = 1; value <= 20; value++)
		fill(addr, value, BYTES, stream);
	ok(cu.stream_destroy(stream));
	ok(cuCtxSynchronize());
	cr_expect(all_bytes((void *)addr, 20, BYTES));
	cr_expect(dev_bytes(addr, 20, BYTES));
	cr_expect_eq(races(), 0, "the host knows that it is done: %s", ctl->report(0));
}

Test(everyday, the_work_of_a_destroyed_stream_is_waited_for)
{
	begin("");
	destroy_busy_stream();
}

Test(everyday, the_work_of_a_destroyed_stream_is_waited_for_by_threads_too)
{
	begin("threads=1");
	destroy_busy_stream();
}

Test(everyday, streams_say_how_they_were_made)
{
	int least = -9, greatest = 9, priority = 9;
	kcu_context ctx = NULL, current = NULL;
	unsigned int flags = 9;
	kcu_stream stream;

	begin("");
	ok(cuCtxGetStreamPriorityRange(&least, &greatest));
	cr_expect_eq(least, 0);
	cr_expect_lt(greatest, 0);
	ok(cuCtxGetStreamPriorityRange(NULL, NULL));
	ok(cu.stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, greatest - 3));
	ok(cuStreamGetPriority(stream, &priority));
	cr_expect_eq(priority, greatest);
	ok(cuStreamGetFlags(stream, &flags));
	cr_expect_eq(flags, KCU_STREAM_NON_BLOCKING);
	ok(cuStreamGetCtx(stream, &ctx));
	ok(cu.ctx_get_current(&current));
	cr_expect_eq(ctx, current);
	ok(cuStreamCreate(&stream, KCU_STREAM_NON_BLOCKING));
	ok(cuStreamGetPriority(stream, &priority));
	cr_expect_eq(priority, 0);
	is(KCU_E_INVALID_VALUE, cuStreamGetFlags(stream, NULL));
	is(KCU_E_INVALID_VALUE, cuStreamCreate(NULL, 0));
	is(KCU_E_INVALID_VALUE, cuStreamCreate(&stream, 2));
}

/* ---- contexts ---- */

Test(everyday, a_context_is_set_in_the_place_of_the_current_one)
{
	kcu_context first = NULL, second = NULL, now = NULL;
	kcu_deviceptr addr;

	begin("devices=2");
	ok(cu.ctx_get_current(&first));
	ok(cu.primary_ctx_retain(&second, 1));
	ok(cuCtxSetCurrent(second));
	ok(cu.ctx_get_current(&now));
	cr_expect_eq(now, second);
	ok(cu.ctx_pop_current(NULL));
	is(KCU_E_INVALID_CONTEXT, cu.ctx_pop_current(NULL));
	ok(cuCtxSetCurrent(first));
	ok(cuCtxSetCurrent(NULL));
	ok(cuCtxSetCurrent(NULL));
	is(KCU_E_INVALID_CONTEXT, cu.mem_alloc(&addr, 1));
	is(KCU_E_INVALID_CONTEXT, cuCtxSynchronize());
	is(KCU_E_INVALID_CONTEXT, cuCtxSetCurrent((kcu_context)4711));
}

Test(everyday, a_context_that_is_made_is_current_until_it_is_destroyed)
{
	kcu_context made = NULL, now = NULL;

	begin("devices=2");
	is(KCU_E_INVALID_DEVICE, cuCtxCreate_v2(&made, 0, 2));
	is(KCU_E_INVALID_VALUE, cuCtxCreate_v2(NULL, 0, 1));
	is(KCU_E_INVALID_VALUE, cuCtxCreate_v2(&made, 0x100, 1));
	ok(cuCtxCreate_v4(&made, NULL, 0, 1));
	ok(cu.ctx_get_current(&now));
	cr_expect_eq(now, made);
	ok(cuCtxDestroy_v2(made));
	ok(cu.ctx_get_current(&now));
	cr_expect_neq(now, made);
	is(KCU_E_INVALID_CONTEXT, cuCtxDestroy_v2(made));
}

Test(everyday, all_work_of_the_context_is_waited_for)
{
	kcu_deviceptr addr;

	begin("");
	addr = dev_alloc(8 * BYTES);
	for (u32 i = 0; i < 8; i++)
		fill(addr + i * BYTES, i, BYTES, stream_new());
	ok(cuCtxSynchronize());
	for (u32 i = 0; i < 8; i++)
		cr_expect(all_bytes((void *)(addr + i * BYTES), i, BYTES));
	fill(addr, 1, BYTES, stream_new());
	cr_expect_eq(races(), 0, "the host has seen it");
}

/* ---- what is known of memory, of devices, of calls ---- */

Test(everyday, memory_is_known_by_any_address_in_it)
{
	kcu_deviceptr addr, base = 0;
	unsigned int flags = 0;
	size_t bytes = 0;
	u32 type = 0;
	void *pinned;

	begin("");
	addr = dev_alloc(BYTES);
	pinned = host_alloc(16);
	ok(cuMemGetAddressRange_v2(&base, &bytes, addr + 100));
	cr_expect_eq(base, addr);
	cr_expect_eq(bytes, BYTES);
	ok(cuMemGetAddressRange_v2(NULL, NULL, addr));
	is(KCU_E_NOT_FOUND, cuMemGetAddressRange_v2(&base, &bytes, 4711));
	ok(cuPointerGetAttribute(&type, KCU_POINTER_MEMORY_TYPE, addr + 1));
	cr_expect_eq(type, KCU_MEMORY_DEVICE);
	is(KCU_E_INVALID_VALUE, cuPointerGetAttribute(&type, KCU_POINTER_MEMORY_TYPE, 4711));
	ok(cuMemHostGetFlags(&flags, pinned));
	cr_expect_eq(flags, KCU_HOST_ALLOC_PORTABLE | KCU_HOST_ALLOC_DEVICEMAP);
	is(KCU_E_INVALID_VALUE, cuMemHostGetFlags(&flags, (void *)addr));
}

Test(everyday, devices_events_and_modules_answer_the_older_and_the_newer_call_alike)
{
	int major = 0, minor = 9;
	kcu_uuid one, two;
	kcu_module module;
	kcu_event event[2];
	float ms[2];

	begin("");
	ok(cuDeviceComputeCapability(&major, &minor, 0));
	cr_expect(major == 9 && minor == 0);
	ok(cuDeviceGetUuid(&one, 0));
	ok(cu.device_get_uuid(&two, 0));
	cr_expect_arr_eq(&one, &two, sizeof(one));
	for (u32 i = 0; i < 2; i++) {
		kcu_stream stream = stream_new();

		ok(cu.event_create(&event[i], 0));
		ok(cuEventRecordWithFlags(event[i], stream, 0));
		finish(stream);
	}
	is(KCU_E_INVALID_VALUE, cuEventRecordWithFlags(event[0], stream_new(), 2));
	ok(cu.event_elapsed_time(&ms[0], event[0], event[1]));
	ok(cuEventElapsedTime_v2(&ms[1], event[0], event[1]));
	cr_expect_eq(ms[0], ms[1]);
	is(KCU_E_INVALID_VALUE, cuModuleLoadData(&module, NULL));
}

Test(everyday, each_is_found_by_the_version_that_brought_it)
{
	void *fn = NULL;

	begin("");
	ok(cuGetProcAddress("cuCtxCreate", &fn, 12000, 0));
	cr_expect_eq(fn, (void *)cuCtxCreate_v2);
	ok(cuGetProcAddress_v2("cuCtxCreate", &fn, 13000, 0, NULL));
	cr_expect_eq(fn, (void *)cuCtxCreate_v4);
	ok(cuGetProcAddress("cuGetProcAddress", &fn, 13000, 0));
	cr_expect_eq(fn, (void *)cuGetProcAddress_v2);
	is(KCU_E_NOT_FOUND, cuGetProcAddress("cuMemcpyHtoD", &fn, 3000, 0));
}

Test(everyday, each_can_be_made_to_fail)
{
	u8 byte = 0;

	begin("fail=cuMemcpyHtoD_v2:1:OUT_OF_MEMORY,async=cuMemsetD8_v2:1:UNKNOWN");
	is(KCU_E_OUT_OF_MEMORY, cuMemcpyHtoD_v2(dev_alloc(1), &byte, 1));
	ok(cuMemsetD8_v2(dev_alloc(1), 0, 1));
	is(KCU_E_UNKNOWN, cuCtxSynchronize());
}
