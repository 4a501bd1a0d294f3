// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "tests/swcuda/driver.h"

struct kcu cu;
const struct kvmm_swcuda_control *ctl;
KCU_FN(cuGetProcAddress, 12000) get_proc;

/* Each test is a process of its own, so each loads the library anew, with its own options. */
void load(const char *options)
{
	void *library;

	setenv("KVMM_SWCUDA", options, 1);
	library = dlopen("./libkvmm-swcuda.so", RTLD_NOW | RTLD_LOCAL);
	cr_assert_not_null(library, "%s", dlerror());
#define FIND(field, name, type, version)	cu.field = (type)dlsym(library, #name);
	KCU_ALL(FIND)
	ctl = dlsym(library, "kvmm_swcuda_control");
	cr_assert_not_null(ctl);
	get_proc = (KCU_FN(cuGetProcAddress, 12000))dlsym(library, "cuGetProcAddress_v2");
	cr_assert_eq(ctl->bytes, sizeof(*ctl));
}

void start(const char *options)
{
	kcu_context ctx;

	load(options);
	ok(cu.init(0));
	ok(cu.primary_ctx_retain(&ctx, 0));
	ok(cu.ctx_push_current(ctx));
}

kcu_deviceptr dev_alloc(size_t bytes)
{
	kcu_deviceptr addr = 0;

	ok(cu.mem_alloc(&addr, bytes));
	return addr;
}

void *host_alloc(size_t bytes)
{
	void *ptr = NULL;

	ok(cu.mem_host_alloc(&ptr, bytes, KCU_HOST_ALLOC_PORTABLE));
	return ptr;
}

kcu_stream stream_new(void)
{
	kcu_stream stream = NULL;

	ok(cu.stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, 0));
	return stream;
}

kcu_event event_new(void)
{
	kcu_event event = NULL;

	ok(cu.event_create(&event, KCU_EVENT_DISABLE_TIMING));
	return event;
}

void copy(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes, kcu_stream stream)
{
	ok(cu.memcpy_async(dst, src, bytes, stream));
}

void fill(kcu_deviceptr dst, u8 byte, size_t bytes, kcu_stream stream)
{
	ok(cu.memset_d8_async(dst, byte, bytes, stream));
}

void record(kcu_event event, kcu_stream stream)
{
	ok(cu.event_record(event, stream));
}

void wait_for(kcu_stream stream, kcu_event event)
{
	ok(cu.stream_wait_event(stream, event, 0));
}

void finish(kcu_stream stream)
{
	ok(cu.stream_synchronize(stream));
}

bool all_bytes(const void *mem, u8 byte, size_t bytes)
{
	const u8 *at = mem;

	for (size_t i = 0; i < bytes; i++)
		if (at[i] != byte)
			return false;
	return true;
}

bool dev_bytes(kcu_deviceptr addr, u8 byte, size_t bytes)
{
	kcu_stream stream = stream_new();
	u8 *mem = malloc(bytes);
	bool good;

	memset(mem, ~byte, bytes);
	ok(cu.memcpy_dtoh_async(mem, addr, bytes, stream));
	finish(stream);
	good = all_bytes(mem, byte, bytes);
	free(mem);
	ok(cu.stream_destroy(stream));
	return good;
}

u32 races(void)
{
	return ctl->nr_reports(SW_REPORT_RACE);
}
