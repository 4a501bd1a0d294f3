// SPDX-License-Identifier: Apache-2.0
/* Device memory: taking it, giving it back, fills, and what the driver knows of an address. */
#include "check.h"

#define KIB	1024ull
#define MIB	(1024 * KIB)

static void alloc_is_memory_of_the_device(void)
{
	kcu_deviceptr addr = device_memory(MIB);

	put_pattern(addr, MIB, 1);
	that(has_pattern(addr, MIB, 1));
}

static void allocs_do_not_overlap(void)
{
	kcu_deviceptr addr[16];

	for (u32 i = 0; i < ARRAY_SIZE(addr); i++) {
		addr[i] = device_memory(1000 + i);
		put_pattern(addr[i], 1000 + i, i);
	}
	for (u32 i = 0; i < ARRAY_SIZE(addr); i++)
		that(has_pattern(addr[i], 1000 + i, i));
}

static void allocs_are_aligned(void)
{
	for (u32 i = 0; i < 8; i++)
		that(!(device_memory(1 + 3 * i) % 256));
}

static void alloc_of_nothing(void)
{
	kcu_deviceptr addr;

	answers(cu->mem_alloc(&addr, 0), INVALID_VALUE);
}

static void alloc_into_null(void)
{
	answers(cu->mem_alloc(NULL, 4096), INVALID_VALUE);
}

static void alloc_of_more_than_there_is(void)
{
	kcu_deviceptr addr;
	size_t total = 0;

	must(cu->device_total_mem(&total, device));
	answers(cu->mem_alloc(&addr, 2 * total), OUT_OF_MEMORY);
}

static void free_gives_it_back(void)
{
	size_t before = 0, during = 0, after = 0, total;
	kcu_deviceptr addr;

	must(cu->mem_get_info(&before, &total));
	must(cu->mem_alloc(&addr, 16 * MIB));
	must(cu->mem_get_info(&during, &total));
	must(cu->mem_free(addr));
	must(cu->mem_get_info(&after, &total));
	that(during + 16 * MIB <= before);
	that(after > during);
}

static void free_twice(void)
{
	kcu_deviceptr addr;

	must(cu->mem_alloc(&addr, MIB));
	must(cu->mem_free(addr));
	answers(cu->mem_free(addr), INVALID_VALUE);
}

static void free_of_the_middle(void)
{
	answers(cu->mem_free(device_memory(MIB) + 4096), INVALID_VALUE);
}

static void free_of_no_address(void)
{
	answers(cu->mem_free(0x1000), INVALID_VALUE);
}

/*
 * A GPU's driver waits for the work and then frees, so there the work must be able to end. The
 * software driver must not have done all of it by then.
 */
static void free_with_queued_work(void)
{
	kcu_stream stream = new_stream();
	kcu_deviceptr other = device_memory(MIB), addr;
	struct gate gate = { NULL };
	kcu_result result;

	if (driver_is_soft)
		gate = closed_gate(stream);
	must(cu->mem_alloc(&addr, MIB));
	put_pattern(addr, MIB, 5);
	for (u32 i = 0; i < 64; i++)
		must(cu->memcpy_dtod_async(other, addr, MIB, stream));
	result = cu->mem_free(addr);
	if (gate.word)
		open_gate(gate);
	must(cu->stream_synchronize(stream));
	if (result)
		must(cu->mem_free(addr));
	else
		that(has_pattern(other, MIB, 5));
	answers(result, SUCCESS);
}

static void fill_writes_exactly_its_range(void)
{
	kcu_deviceptr addr = device_memory(64 * KIB);
	kcu_stream stream = new_stream();
	u8 *buf = pageable_memory(64 * KIB), *wanted = pageable_memory(64 * KIB);

	fill_pattern(wanted, 64 * KIB, 2);
	put(addr, wanted, 64 * KIB);
	must(cu->memset_d8_async(addr + 4097, 0x5a, 8191, stream));
	must(cu->stream_synchronize(stream));
	get(buf, addr, 64 * KIB);
	memset(wanted + 4097, 0x5a, 8191);
	that(!memcmp(buf, wanted, 64 * KIB));
}

static void fill_of_no_address(void)
{
	kcu_stream stream = new_stream();

	answers(cu->memset_d8_async(0x1000, 1, 4096, stream), INVALID_VALUE);
}

/* ---- what an address is ---- */

struct facts {
	kcu_context ctx;
	u32 type;
	int ordinal;
	u64 start;
	size_t bytes;
};

static struct facts facts_of(kcu_deviceptr addr)
{
	struct facts facts = { .type = 99, .ordinal = 99, .start = 99, .bytes = 99 };
	kcu_pointer_attr attrs[] = {
		KCU_POINTER_CONTEXT, KCU_POINTER_MEMORY_TYPE, KCU_POINTER_ORDINAL,
		KCU_POINTER_RANGE_START, KCU_POINTER_RANGE_SIZE,
	};
	void *data[] = {
		&facts.ctx, &facts.type, &facts.ordinal, &facts.start, &facts.bytes,
	};

	must(cu->pointer_get_attributes(ARRAY_SIZE(attrs), attrs, data, addr));
	return facts;
}

static void address_of_device_memory(void)
{
	kcu_deviceptr addr = device_memory(MIB);
	struct facts facts = facts_of(addr + 12345);

	that(facts.type == KCU_MEMORY_DEVICE);
	that(facts.ctx == context && facts.ordinal == device);
	that(facts.start == addr && facts.bytes == MIB);
}

static void address_of_pinned_memory(void)
{
	void *ptr = pinned_memory(64 * KIB);
	struct facts facts = facts_of((u64)ptr + 4096);

	that(facts.type == KCU_MEMORY_HOST);
	that(facts.start == (u64)ptr && facts.bytes >= 64 * KIB);
}

static void address_that_nobody_told_the_driver_of(void)
{
	struct facts facts = facts_of((u64)pageable_memory(4096));

	that(!facts.type && !facts.start && !facts.bytes);
}

#define CHECK(name)	{ "memory." #name, name, 0, 0 }
const struct check checks_memory[] = {
	CHECK(alloc_is_memory_of_the_device),
	CHECK(allocs_do_not_overlap),
	CHECK(allocs_are_aligned),
	CHECK(alloc_of_nothing),
	CHECK(alloc_into_null),
	CHECK(alloc_of_more_than_there_is),
	CHECK(free_gives_it_back),
	CHECK(free_twice),
	CHECK(free_of_the_middle),
	CHECK(free_of_no_address),
	CHECK(free_with_queued_work),
	CHECK(fill_writes_exactly_its_range),
	CHECK(fill_of_no_address),
	CHECK(address_of_device_memory),
	CHECK(address_of_pinned_memory),
	CHECK(address_that_nobody_told_the_driver_of),
	{ NULL, NULL, 0, 0 },
};
