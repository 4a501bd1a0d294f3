// SPDX-License-Identifier: Apache-2.0
/* Host memory that devices reach: made by the driver, or registered with it. */
#include "check.h"

#define KIB	1024u

static void unregister(u64 ptr)
{
	cu->mem_host_unregister((void *)ptr);
}

static void free_pinned(u64 ptr)
{
	cu->mem_free_host((void *)ptr);
}

static void *registered_memory(size_t bytes)
{
	void *ptr = pageable_memory(bytes);
	kcu_result result = cu->mem_host_register(ptr, bytes, KCU_HOST_REGISTER_PORTABLE |
						  KCU_HOST_REGISTER_DEVICEMAP);

	if (kcu_class_of(result) == KCU_UNSUPPORTED)
		check_skip("this system registers no host memory");
	must(result);
	at_end(unregister, (u64)ptr);
	return ptr;
}

/* Both ways, by its address for the device. */
static void is_reached(void *ptr, u32 bytes)
{
	kcu_deviceptr addr = device_memory(bytes), host;

	must(cu->mem_host_get_device_pointer(&host, ptr, 0));
	fill_pattern(ptr, bytes, 3);
	must(kernel_copy(addr, host, bytes));
	that(has_pattern(addr, bytes, 3));
	put_pattern(addr, bytes, 4);
	must(kernel_copy(host, addr, bytes));
	that(is_pattern(ptr, bytes, 4));
}

static void pinned_memory_is_reached(void)
{
	is_reached(pinned_memory(64 * KIB), 64 * KIB);
}

static void write_combined_memory_is_reached(void)
{
	void *ptr;
	kcu_result result = cu->mem_host_alloc(&ptr, 64 * KIB, KCU_HOST_ALLOC_WRITECOMBINED);

	if (kcu_class_of(result) == KCU_UNSUPPORTED)
		check_skip("this system has no write-combined memory");
	must(result);
	at_end(free_pinned, (u64)ptr);
	is_reached(ptr, 64 * KIB);
}

static void registered_memory_is_reached(void)
{
	is_reached(registered_memory(64 * KIB), 64 * KIB);
}

static void alloc_with_unknown_flags(void)
{
	void *ptr;

	answers(cu->mem_host_alloc(&ptr, 4096, 0x100), INVALID_VALUE);
}

static void alloc_of_nothing(void)
{
	void *ptr;

	answers(cu->mem_host_alloc(&ptr, 0, 0), INVALID_VALUE);
}

static void free_twice(void)
{
	void *ptr;

	must(cu->mem_host_alloc(&ptr, 64 * KIB, 0));
	must(cu->mem_free_host(ptr));
	answers(cu->mem_free_host(ptr), INVALID_VALUE);
}

static void free_of_pageable_memory(void)
{
	answers(cu->mem_free_host(pageable_memory(4096)), INVALID_VALUE);
}

static void register_twice(void)
{
	void *ptr = registered_memory(64 * KIB);

	answers(cu->mem_host_register(ptr, 64 * KIB, 0), HOST_MEMORY_ALREADY_REGISTERED);
}

static void register_of_a_part(void)
{
	u8 *ptr = registered_memory(64 * KIB);

	answers(cu->mem_host_register(ptr + 4096, 4096, 0), HOST_MEMORY_ALREADY_REGISTERED);
}

static void register_of_nothing(void)
{
	answers(cu->mem_host_register(pageable_memory(4096), 0, 0), INVALID_VALUE);
}

static void register_null(void)
{
	answers(cu->mem_host_register(NULL, 4096, 0), INVALID_VALUE);
}

static void unregister_twice(void)
{
	void *ptr = pageable_memory(64 * KIB);

	must(cu->mem_host_register(ptr, 64 * KIB, 0));
	must(cu->mem_host_unregister(ptr));
	answers(cu->mem_host_unregister(ptr), HOST_MEMORY_NOT_REGISTERED);
}

static void unregister_of_pinned_memory(void)
{
	answers(cu->mem_host_unregister(pinned_memory(4096)), HOST_MEMORY_NOT_REGISTERED);
}

static void registered_memory_may_be_registered_again(void)
{
	void *ptr = pageable_memory(64 * KIB);

	for (u32 i = 0; i < 3; i++) {
		must(cu->mem_host_register(ptr, 64 * KIB, 0));
		must(cu->mem_host_unregister(ptr));
	}
	is_reached(registered_memory(64 * KIB), 64 * KIB);
}

static void device_pointer_of_pageable_memory(void)
{
	kcu_deviceptr addr;

	answers(cu->mem_host_get_device_pointer(&addr, pageable_memory(4096), 0), INVALID_VALUE);
}

static void device_pointer_with_flags(void)
{
	kcu_deviceptr addr;

	answers(cu->mem_host_get_device_pointer(&addr, pinned_memory(4096), 1), INVALID_VALUE);
}

#define CHECK(name)	{ "host." #name, name, 0, 0 }
const struct check checks_host[] = {
	CHECK(pinned_memory_is_reached),
	CHECK(write_combined_memory_is_reached),
	CHECK(registered_memory_is_reached),
	CHECK(alloc_with_unknown_flags),
	CHECK(alloc_of_nothing),
	{ "host.free_twice", free_twice, CHECK_ISOLATED, 0 },
	CHECK(free_of_pageable_memory),
	CHECK(register_twice),
	CHECK(register_of_a_part),
	CHECK(register_of_nothing),
	CHECK(register_null),
	CHECK(unregister_twice),
	CHECK(unregister_of_pinned_memory),
	CHECK(registered_memory_may_be_registered_again),
	CHECK(device_pointer_of_pageable_memory),
	CHECK(device_pointer_with_flags),
	{ NULL, NULL, 0, 0 },
};
