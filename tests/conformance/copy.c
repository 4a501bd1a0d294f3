// SPDX-License-Identifier: Apache-2.0
/* Single copies: which bytes, in which direction, and when the host may touch them again. */
#include "check.h"

#define KIB	1024ull
#define MIB	(1024 * KIB)
#define BYTES	(64 * KIB)

static void dtod_moves_exactly_its_range(void)
{
	kcu_deviceptr src = device_memory(BYTES), dst = device_memory(BYTES);
	u8 *wanted = pageable_memory(BYTES), *source = pageable_memory(BYTES);
	u8 *seen = pageable_memory(BYTES);
	kcu_stream stream = new_stream();

	fill_pattern(source, BYTES, 1);
	fill_pattern(wanted, BYTES, 2);
	put(src, source, BYTES);
	put(dst, wanted, BYTES);
	must(cu->memcpy_dtod_async(dst + 333, src + 7, 40001, stream));
	must(cu->stream_synchronize(stream));
	memcpy(wanted + 333, source + 7, 40001);
	get(seen, dst, BYTES);
	that(!memcmp(seen, wanted, BYTES));
	that(has_pattern(src, BYTES, 1));
}

static void round_trip(u8 *buf, size_t bytes)
{
	kcu_deviceptr addr = device_memory(bytes + 64);
	kcu_stream stream = new_stream();

	put_byte(addr, bytes + 64, 0xee);
	fill_pattern(buf, bytes, bytes);
	must(cu->memcpy_htod_async(addr + 32, buf, bytes, stream));
	must(cu->stream_synchronize(stream));
	memset(buf, 0, bytes);
	must(cu->memcpy_dtoh_async(buf, addr + 32, bytes, stream));
	must(cu->stream_synchronize(stream));
	that(is_pattern(buf, bytes, bytes));
	that(has_byte(addr, 32, 0xee) && has_byte(addr + 32 + bytes, 32, 0xee));
}

static void pinned_memory_makes_the_round(void)
{
	static const size_t sizes[] = { 1, 3, 16, 4095, 4096, 65537, MIB };

	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++)
		round_trip(pinned_memory(sizes[i]), sizes[i]);
}

static void pageable_memory_makes_the_round(void)
{
	static const size_t sizes[] = { 1, 3, 16, 4095, 4096, 65537, MIB };

	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++)
		round_trip(pageable_memory(sizes[i]), sizes[i]);
}

/* One call for all directions: what the addresses are decides. */
static void unified_copy_finds_its_direction(void)
{
	kcu_deviceptr one = device_memory(BYTES), two = device_memory(BYTES);
	void *from = pinned_memory(BYTES), *to = pinned_memory(BYTES);
	kcu_stream stream = new_stream();

	fill_pattern(from, BYTES, 4);
	memset(to, 0, BYTES);
	must(cu->memcpy_async(one, (u64)from, BYTES, stream));
	must(cu->memcpy_async(two, one, BYTES, stream));
	must(cu->memcpy_async((u64)to, two, BYTES, stream));
	must(cu->stream_synchronize(stream));
	that(is_pattern(to, BYTES, 4));
	must(cu->memset_d8_async(one, 0, BYTES, stream));
	must(cu->stream_synchronize(stream));
	memset(from, 9, BYTES);
	must(cu->memcpy_async((u64)to, (u64)from, BYTES, stream));
	must(cu->stream_synchronize(stream));
	that(is_byte(to, BYTES, 9) && has_pattern(two, BYTES, 4));
}

static void copy_of_nothing_touches_nothing(void)
{
	kcu_deviceptr src = device_memory(4096), dst = device_memory(4096);
	kcu_stream stream = new_stream();

	put_byte(src, 4096, 1);
	put_byte(dst, 4096, 2);
	must(cu->memcpy_dtod_async(dst, src, 0, stream));
	must(cu->stream_synchronize(stream));
	that(has_byte(dst, 4096, 2));
}

/* Only what was staged can still be right: the host has overwritten the source. */
static void pageable_source_is_read_by_the_call(void)
{
	kcu_deviceptr addr = device_memory(MIB);
	void *buf = pageable_memory(MIB);
	kcu_stream stream = new_stream();

	fill_pattern(buf, MIB, 6);
	must(cu->memcpy_htod_async(addr, buf, MIB, stream));
	memset(buf, 0, MIB);
	must(cu->stream_synchronize(stream));
	that(has_pattern(addr, MIB, 6));
}

static void pageable_destination_is_written_on_return(void)
{
	kcu_deviceptr addr = device_memory(MIB);
	void *buf = pageable_memory(MIB);
	kcu_stream stream = new_stream();

	put_pattern(addr, MIB, 7);
	memset(buf, 0, MIB);
	must(cu->memcpy_dtoh_async(buf, addr, MIB, stream));
	that(is_pattern(buf, MIB, 7));
}

/* The reason why a pinned buffer is the caller's again only after an event. */
static void pinned_source_is_read_when_the_copy_runs(void)
{
	kcu_deviceptr addr = device_memory(BYTES);
	void *buf = pinned_memory(BYTES);
	kcu_stream stream = new_stream();
	struct gate gate = closed_gate(stream);

	fill_pattern(buf, BYTES, 8);
	must(cu->memcpy_htod_async(addr, buf, BYTES, stream));
	fill_pattern(buf, BYTES, 9);
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	that(has_pattern(addr, BYTES, 9));
}

static void pinned_destination_is_written_when_the_copy_runs(void)
{
	kcu_deviceptr addr = device_memory(BYTES);
	void *buf = pinned_memory(BYTES);
	kcu_stream stream = new_stream();
	struct gate gate;

	put_pattern(addr, BYTES, 10);
	memset(buf, 0, BYTES);
	gate = closed_gate(stream);
	must(cu->memcpy_dtoh_async(buf, addr, BYTES, stream));
	that(cu->stream_query(stream) == KCU_E_NOT_READY);
	that(is_byte(buf, BYTES, 0));
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	that(is_pattern(buf, BYTES, 10));
}

static void copy_from_no_address(void)
{
	kcu_deviceptr addr = device_memory(4096);
	kcu_stream stream = new_stream();

	answers(cu->memcpy_dtod_async(addr, 0x1000, 4096, stream), INVALID_VALUE);
}

static void copy_to_null(void)
{
	kcu_deviceptr addr = device_memory(4096);
	kcu_stream stream = new_stream();

	answers(cu->memcpy_dtoh_async(NULL, addr, 4096, stream), INVALID_VALUE);
}

/* The address is known to the driver, the length leads beyond it. */
static void copy_beyond_the_end(void)
{
	kcu_deviceptr addr = device_memory(4096), other = device_memory(64 * MIB);
	kcu_stream stream = new_stream();

	answers(cu->memcpy_dtod_async(other, addr, 64 * MIB, stream), INVALID_VALUE);
}

#define CHECK(name)	{ "copy." #name, name, 0, 0 }
const struct check checks_copy[] = {
	CHECK(dtod_moves_exactly_its_range),
	CHECK(pinned_memory_makes_the_round),
	CHECK(pageable_memory_makes_the_round),
	CHECK(unified_copy_finds_its_direction),
	CHECK(copy_of_nothing_touches_nothing),
	CHECK(pageable_source_is_read_by_the_call),
	CHECK(pageable_destination_is_written_on_return),
	CHECK(pinned_source_is_read_when_the_copy_runs),
	CHECK(pinned_destination_is_written_when_the_copy_runs),
	CHECK(copy_from_no_address),
	CHECK(copy_to_null),
	{ "copy.copy_beyond_the_end", copy_beyond_the_end, CHECK_ISOLATED, 0 },
	{ NULL, NULL, 0, 0 },
};
