// SPDX-License-Identifier: Apache-2.0
/* Virtual memory: reservations, handles, mappings, access; and which mistakes are refused how. */
#include "vmm.h"

kcu_mem_prop device_prop(u32 handle_types)
{
	return (kcu_mem_prop){
		.type = KCU_ALLOCATION_PINNED,
		.handle_types = handle_types,
		.location = { KCU_LOCATION_DEVICE, device },
	};
}

size_t granule(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t bytes = 0;

	if (device_attribute(KCU_ATTR_VMM) != 1)
		check_skip("the device has no virtual memory management");
	must(cu->mem_get_granularity(&bytes, &prop, KCU_GRANULARITY_MINIMUM));
	that(kv_is_pow2(bytes));
	return bytes;
}

/* ---- things ---- */

struct range {
	kcu_deviceptr addr;
	size_t bytes;
};

static struct range *keep_range(kcu_deviceptr addr, size_t bytes)
{
	struct range *range = malloc(sizeof(*range));

	that(range);
	*range = (struct range){ addr, bytes };
	return range;
}

static void unreserve(u64 arg)
{
	struct range *range = (struct range *)arg;

	cu->mem_address_free(range->addr, range->bytes);
	free(range);
}

static void unmap(u64 arg)
{
	struct range *range = (struct range *)arg;

	cu->mem_unmap(range->addr, range->bytes);
	free(range);
}

static void release(u64 mem)
{
	cu->mem_release(mem);
}

kcu_deviceptr reserved(size_t bytes)
{
	kcu_deviceptr addr;

	must(cu->mem_address_reserve(&addr, bytes, 0, 0, 0));
	at_end(unreserve, (u64)keep_range(addr, bytes));
	return addr;
}

kcu_mem_handle handle(size_t bytes, u32 handle_types)
{
	kcu_mem_prop prop = device_prop(handle_types);
	kcu_mem_handle mem;

	must(cu->mem_create(&mem, bytes, &prop, 0));
	at_end(release, mem);
	return mem;
}

void mapped(kcu_deviceptr addr, kcu_mem_handle mem, size_t bytes)
{
	must(cu->mem_map(addr, bytes, 0, mem, 0));
	at_end(unmap, (u64)keep_range(addr, bytes));
}

kcu_result allow(kcu_deviceptr addr, size_t bytes, u32 access)
{
	kcu_mem_access desc = { { KCU_LOCATION_DEVICE, device }, access };

	return cu->mem_set_access(addr, bytes, &desc, 1);
}

/* Reserved, mapped and usable. */
static kcu_deviceptr usable(kcu_mem_handle mem, size_t bytes)
{
	kcu_deviceptr addr = reserved(bytes);

	mapped(addr, mem, bytes);
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	return addr;
}

/* ---- what works ---- */

static void granules_are_sane(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t good = 0, least = granule();

	must(cu->mem_get_granularity(&good, &prop, KCU_GRANULARITY_RECOMMENDED));
	that(good >= least && kv_is_pow2(good));
	that(least >= 4096 && least <= 1u << 30);
}

static void reservations_do_not_overlap(void)
{
	size_t bytes = 4 * granule();
	kcu_deviceptr addr[8];

	for (u32 i = 0; i < ARRAY_SIZE(addr); i++) {
		addr[i] = reserved(bytes);
		that(!(addr[i] % 4096));
		for (u32 j = 0; j < i; j++)
			that(addr[i] + bytes <= addr[j] || addr[j] + bytes <= addr[i]);
	}
}

static void mapped_memory_is_memory(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = usable(handle(bytes, 0), bytes);

	put_pattern(addr, bytes, 1);
	that(has_pattern(addr, bytes, 1));
}

static void one_handle_at_two_addresses_is_one_memory(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(bytes, 0);
	kcu_deviceptr one = usable(mem, bytes), two = usable(mem, bytes);

	that(one != two);
	put_pattern(one, bytes, 2);
	that(has_pattern(two, bytes, 2));
	put_pattern(two, bytes, 3);
	that(has_pattern(one, bytes, 3));
}

static void content_outlives_the_mapping(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(bytes, 0);
	kcu_deviceptr addr = reserved(bytes);

	must(cu->mem_map(addr, bytes, 0, mem, 0));
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, bytes, 4);
	must(cu->mem_unmap(addr, bytes));
	that(has_pattern(usable(mem, bytes), bytes, 4));
}

static void backing_can_be_swapped_at_an_address(void)
{
	size_t bytes = granule();
	kcu_mem_handle one = handle(bytes, 0), two = handle(bytes, 0);
	kcu_deviceptr addr = reserved(bytes);

	must(cu->mem_map(addr, bytes, 0, one, 0));
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, bytes, 5);
	must(cu->mem_unmap(addr, bytes));
	mapped(addr, two, bytes);
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, bytes, 6);
	that(has_pattern(addr, bytes, 6) && has_pattern(usable(one, bytes), bytes, 5));
}

static void mapping_outlives_its_handle(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(bytes);
	kcu_mem_handle mem;

	must(cu->mem_create(&mem, bytes, &prop, 0));
	mapped(addr, mem, bytes);
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, bytes, 7);
	must(cu->mem_release(mem));
	that(has_pattern(addr, bytes, 7));
}

static void access_is_given_to_a_run_of_mappings(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(4 * bytes);

	for (u32 i = 0; i < 4; i++)
		mapped(addr + i * bytes, handle(bytes, 0), bytes);
	must(allow(addr, 4 * bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, 4 * bytes, 8);
	that(has_pattern(addr, 4 * bytes, 8));
}

static void part_of_a_handle_can_be_mapped(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(4 * bytes, 0);
	kcu_deviceptr part = usable(mem, bytes), whole = usable(mem, 4 * bytes);

	put_pattern(whole, 4 * bytes, 9);
	that(has_pattern(part, bytes, 9));
}

static void handles_take_memory_and_give_it_back(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t bytes = 8 * granule(), before, during, after, total;
	kcu_mem_handle mem;

	must(cu->mem_get_info(&before, &total));
	must(cu->mem_create(&mem, bytes, &prop, 0));
	must(cu->mem_get_info(&during, &total));
	must(cu->mem_release(mem));
	must(cu->mem_get_info(&after, &total));
	that(during + bytes <= before && after >= during + bytes);
}

static void retained_handle_keeps_the_memory(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(bytes);
	kcu_mem_handle mem, again;

	must(cu->mem_create(&mem, bytes, &prop, 0));
	must(cu->mem_map(addr, bytes, 0, mem, 0));
	must(cu->mem_retain_handle(&again, (void *)addr));
	at_end(release, again);
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	put_pattern(addr, bytes, 10);
	must(cu->mem_unmap(addr, bytes));
	must(cu->mem_release(mem));
	that(has_pattern(usable(again, bytes), bytes, 10));
}

/* ---- mistakes ---- */

static void reserve_of_nothing(void)
{
	kcu_deviceptr addr;

	granule();
	answers(cu->mem_address_reserve(&addr, 0, 0, 0, 0), INVALID_VALUE);
}

static void unreserve_twice(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr;

	must(cu->mem_address_reserve(&addr, bytes, 0, 0, 0));
	must(cu->mem_address_free(addr, bytes));
	answers(cu->mem_address_free(addr, bytes), INVALID_VALUE);
}

static void unreserve_a_part(void)
{
	size_t bytes = granule();

	answers(cu->mem_address_free(reserved(2 * bytes), bytes), INVALID_VALUE);
}

static void unreserve_what_is_mapped(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = usable(handle(bytes, 0), bytes);
	kcu_result result;

	put_pattern(addr, bytes, 1);
	result = cu->mem_address_free(addr, bytes);
	that(has_pattern(addr, bytes, 1));
	answers(result, INVALID_VALUE);
}

static void create_of_a_bit_of_a_granule(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	kcu_mem_handle mem;

	answers(cu->mem_create(&mem, granule() / 2, &prop, 0), INVALID_VALUE);
}

static void create_of_more_than_there_is(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t total, bytes = granule();
	kcu_mem_handle mem;

	must(cu->device_total_mem(&total, device));
	answers(cu->mem_create(&mem, kv_align_up(2 * total, bytes), &prop, 0), OUT_OF_MEMORY);
}

static void create_on_no_device(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	size_t bytes = granule();
	kcu_mem_handle mem;

	prop.location.id = cu->nr_devices;
	answers(cu->mem_create(&mem, bytes, &prop, 0), INVALID_DEVICE);
}

static void release_twice(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_NONE);
	kcu_mem_handle mem;

	must(cu->mem_create(&mem, granule(), &prop, 0));
	must(cu->mem_release(mem));
	answers(cu->mem_release(mem), INVALID_VALUE);
}

static void map_at_an_offset(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(2 * bytes, 0);

	answers(cu->mem_map(reserved(bytes), bytes, bytes, mem, 0), INVALID_VALUE);
}

static void map_twice(void)
{
	size_t bytes = granule();
	kcu_mem_handle other = handle(bytes, 0);
	kcu_deviceptr addr = usable(handle(bytes, 0), bytes);
	kcu_result result;

	put_pattern(addr, bytes, 1);
	result = cu->mem_map(addr, bytes, 0, other, 0);
	that(has_pattern(addr, bytes, 1));
	answers(result, INVALID_VALUE);
}

static void map_without_reservation(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(bytes, 0);

	answers(cu->mem_map(0x7000000000ull, bytes, 0, mem, 0), INVALID_VALUE);
}

static void map_of_more_than_the_handle(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(bytes, 0);

	answers(cu->mem_map(reserved(2 * bytes), 2 * bytes, 0, mem, 0), INVALID_VALUE);
}

static void map_of_a_bit_of_a_granule(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = handle(bytes, 0);

	answers(cu->mem_map(reserved(bytes), bytes / 2, 0, mem, 0), INVALID_VALUE);
}

static void unmap_a_part(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = usable(handle(2 * bytes, 0), 2 * bytes);
	kcu_result result;

	put_pattern(addr, 2 * bytes, 1);
	result = cu->mem_unmap(addr, bytes);
	that(has_pattern(addr, 2 * bytes, 1));
	answers(result, INVALID_VALUE);
}

static void unmap_two_at_once(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(2 * bytes);

	mapped(addr, handle(bytes, 0), bytes);
	mapped(addr + bytes, handle(bytes, 0), bytes);
	answers(cu->mem_unmap(addr, 2 * bytes), INVALID_VALUE);
}

static void unmap_twice(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(bytes);

	must(cu->mem_map(addr, bytes, 0, handle(bytes, 0), 0));
	must(cu->mem_unmap(addr, bytes));
	answers(cu->mem_unmap(addr, bytes), INVALID_VALUE);
}

static void access_to_what_is_not_mapped(void)
{
	size_t bytes = granule();

	answers(allow(reserved(bytes), bytes, KCU_ACCESS_READWRITE), INVALID_VALUE);
}

static void access_across_a_hole(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(3 * bytes);

	mapped(addr, handle(bytes, 0), bytes);
	mapped(addr + 2 * bytes, handle(bytes, 0), bytes);
	answers(allow(addr, 3 * bytes, KCU_ACCESS_READWRITE), INVALID_VALUE);
}

static void retain_of_what_is_not_mapped(void)
{
	kcu_mem_handle mem;

	answers(cu->mem_retain_handle(&mem, (void *)reserved(granule())), INVALID_VALUE);
}

static void free_of_mapped_memory(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = usable(handle(bytes, 0), bytes);
	kcu_result result;

	put_pattern(addr, bytes, 1);
	result = cu->mem_free(addr);
	that(has_pattern(addr, bytes, 1));
	answers(result, INVALID_VALUE);
}

#define CHECK(name)	{ "vmm." #name, name, 0, KCU_F_VMM }
#define ISOLATED(name)	{ "vmm." #name, name, CHECK_ISOLATED, KCU_F_VMM }
const struct check checks_vmm[] = {
	CHECK(granules_are_sane),
	CHECK(reservations_do_not_overlap),
	CHECK(mapped_memory_is_memory),
	CHECK(one_handle_at_two_addresses_is_one_memory),
	CHECK(content_outlives_the_mapping),
	CHECK(backing_can_be_swapped_at_an_address),
	CHECK(mapping_outlives_its_handle),
	CHECK(access_is_given_to_a_run_of_mappings),
	CHECK(part_of_a_handle_can_be_mapped),
	CHECK(handles_take_memory_and_give_it_back),
	CHECK(retained_handle_keeps_the_memory),
	CHECK(reserve_of_nothing),
	CHECK(unreserve_twice),
	CHECK(unreserve_a_part),
	CHECK(unreserve_what_is_mapped),
	CHECK(create_of_a_bit_of_a_granule),
	CHECK(create_of_more_than_there_is),
	CHECK(create_on_no_device),
	ISOLATED(release_twice),
	CHECK(map_at_an_offset),
	CHECK(map_twice),
	CHECK(map_without_reservation),
	CHECK(map_of_more_than_the_handle),
	CHECK(map_of_a_bit_of_a_granule),
	CHECK(unmap_a_part),
	CHECK(unmap_two_at_once),
	CHECK(unmap_twice),
	CHECK(access_to_what_is_not_mapped),
	CHECK(access_across_a_hole),
	CHECK(retain_of_what_is_not_mapped),
	CHECK(free_of_mapped_memory),
	{ NULL, NULL, 0, 0 },
};
