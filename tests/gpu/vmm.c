// SPDX-License-Identifier: Apache-2.0
/* E6: what virtual memory management costs, with the device idle and with it busy. */
#include "gpu.h"

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, NR_STEPS };

static const char *const step_names[NR_STEPS] = {
	"create_us", "map_us", "set_access_us", "unmap_us", "release_us",
};

static kcu_mem_access read_write;

/* One handle through its life, checked by one word at either end. */
static void one_life(kcu_deviceptr addr, u64 bytes, struct samples samples[NR_STEPS])
{
	kcu_mem_prop prop = { .type = KCU_ALLOCATION_PINNED, .location = read_write.location };
	u64 at[NR_STEPS + 1], wrote[2] = { now_ns(), ~now_ns() }, seen[2] = { 0 };
	kcu_mem_handle mem;

	at[CREATE] = now_ns();
	CU(mem_create, &mem, bytes, &prop, 0);
	at[MAP] = now_ns();
	CU(mem_map, addr, bytes, 0, mem, 0);
	at[ACCESS] = now_ns();
	CU(mem_set_access, addr, bytes, &read_write, 1);
	add_sample(&samples[ACCESS], (now_ns() - at[ACCESS]) / 1e3);
	CU(memcpy_htod_async, addr, &wrote[0], sizeof(u64), gpu.stream);
	CU(memcpy_htod_async, addr + bytes - sizeof(u64), &wrote[1], sizeof(u64), gpu.stream);
	CU(memcpy_dtoh_async, &seen[0], addr, sizeof(u64), gpu.stream);
	CU(memcpy_dtoh_async, &seen[1], addr + bytes - sizeof(u64), sizeof(u64), gpu.stream);
	CU(stream_synchronize, gpu.stream);
	must_be(!memcmp(wrote, seen, sizeof(seen)), "mapped memory that keeps what is written");
	at[UNMAP] = now_ns();
	CU(mem_unmap, addr, bytes);
	at[RELEASE] = now_ns();
	CU(mem_release, mem);
	at[NR_STEPS] = now_ns();
	add_sample(&samples[CREATE], (at[MAP] - at[CREATE]) / 1e3);
	add_sample(&samples[MAP], (at[ACCESS] - at[MAP]) / 1e3);
	add_sample(&samples[UNMAP], (at[RELEASE] - at[UNMAP]) / 1e3);
	add_sample(&samples[RELEASE], (at[NR_STEPS] - at[RELEASE]) / 1e3);
}

static void measure_size(u64 bytes)
{
	struct samples samples[NR_STEPS] = { 0 };
	kcu_deviceptr addr;

	CU(mem_address_reserve, &addr, bytes, 0, 0, 0);
	for (u32 i = 0; i < wanted_runs(); i++)
		one_life(addr, bytes, samples);
	CU(mem_address_free, addr, bytes);
	for (u32 i = 0; i < NR_STEPS; i++)
		report(step_names[i], "us", &samples[i], NULL, 0, "bytes=%llu",
		       (unsigned long long)bytes);
}

/* One handle at all of the addresses: what is measured is the mapping, not the memory. */
static void map_run(kcu_deviceptr addr, kcu_mem_handle mem, u64 bytes, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		CU(mem_map, addr + i * bytes, bytes, 0, mem, 0);
}

static double unmap_run(kcu_deviceptr addr, u64 bytes, u32 nr)
{
	u64 begin = now_ns();

	for (u32 i = 0; i < nr; i++)
		CU(mem_unmap, addr + i * bytes, bytes);
	return (now_ns() - begin) / 1e3;
}

/* Access for a run of granules: one call, or one a granule. */
static void measure_access(u64 bytes, u32 nr)
{
	kcu_mem_prop prop = { .type = KCU_ALLOCATION_PINNED, .location = read_write.location };
	struct samples once = { 0 }, each = { 0 }, unmap = { 0 };
	kcu_deviceptr addr;
	kcu_mem_handle mem;
	u64 begin;

	CU(mem_address_reserve, &addr, nr * bytes, 0, 0, 0);
	CU(mem_create, &mem, bytes, &prop, 0);
	for (u32 run = 0; run < wanted_runs(); run++) {
		map_run(addr, mem, bytes, nr);
		begin = now_ns();
		CU(mem_set_access, addr, nr * bytes, &read_write, 1);
		add_sample(&once, (now_ns() - begin) / 1e3);
		add_sample(&unmap, unmap_run(addr, bytes, nr));
		map_run(addr, mem, bytes, nr);
		begin = now_ns();
		for (u32 i = 0; i < nr; i++)
			CU(mem_set_access, addr + i * bytes, bytes, &read_write, 1);
		add_sample(&each, (now_ns() - begin) / 1e3);
		unmap_run(addr, bytes, nr);
	}
	CU(mem_release, mem);
	CU(mem_address_free, addr, nr * bytes);
	report("set_access_run_us", "us", &once, "each", median(&each), "bytes=%llu nr=%u",
	       (unsigned long long)bytes, nr);
	report("unmap_run_us", "us", &unmap, NULL, 0, "bytes=%llu nr=%u",
	       (unsigned long long)bytes, nr);
}

static void keep_busy(u32 nr)
{
	u64 half = gpu.pool_bytes / 2;

	for (u32 i = 0; i < nr; i++)
		CU(memcpy_dtod_async, gpu.pool + half, gpu.pool, half, gpu.stream);
}

/*
 * With work on the device that touches other memory: do the calls wait for it? They did if nothing
 * is left of it afterwards.
 */
static void measure_busy(u64 bytes)
{
	kcu_mem_prop prop = { .type = KCU_ALLOCATION_PINNED, .location = read_write.location };
	struct samples map = { 0 }, unmap = { 0 };
	u32 nr_waited = 0, nr_runs = wanted_runs();
	kcu_deviceptr addr;
	kcu_mem_handle mem;

	CU(mem_address_reserve, &addr, bytes, 0, 0, 0);
	CU(mem_create, &mem, bytes, &prop, 0);
	for (u32 i = 0; i < nr_runs; i++) {
		u64 begin;

		keep_busy(gpu.is_quick ? 2 : 8);
		begin = now_ns();
		CU(mem_map, addr, bytes, 0, mem, 0);
		CU(mem_set_access, addr, bytes, &read_write, 1);
		add_sample(&map, (now_ns() - begin) / 1e3);
		begin = now_ns();
		CU(mem_unmap, addr, bytes);
		add_sample(&unmap, (now_ns() - begin) / 1e3);
		nr_waited += gpu.cu->stream_query(gpu.stream) == KCU_E_SUCCESS;
		CU(stream_synchronize, gpu.stream);
	}
	CU(mem_release, mem);
	CU(mem_address_free, addr, bytes);
	report("busy_map_access_us", "us", &map, NULL, 0, "bytes=%llu", (unsigned long long)bytes);
	report("busy_unmap_us", "us", &unmap, NULL, 0, "bytes=%llu", (unsigned long long)bytes);
	report_fact("calls that waited for other work", "%u of %u", nr_waited, nr_runs);
}

static bool fits(u64 bytes)
{
	size_t free_bytes = 0, total;

	gpu.cu->mem_get_info(&free_bytes, &total);
	return bytes < free_bytes / 2;
}

static void run(void)
{
	static const u64 sizes[] = { 2, 16, 64, 512 };
	int has_vmm = 0;

	gpu.cu->device_get_attribute(&has_vmm, KCU_ATTR_VMM, gpu.dev);
	if (!(gpu.cu->features & KCU_F_VMM) || has_vmm != 1) {
		report_fact("virtual memory", "not on this device");
		return;
	}
	read_write = (kcu_mem_access){ { KCU_LOCATION_DEVICE, gpu.dev }, KCU_ACCESS_READWRITE };
	for (u32 i = 0; i < ARRAY_SIZE(sizes) && !out_of_time(); i++)
		if (fits(sizes[i] * MIB) && !(gpu.is_quick && sizes[i] > 16))
			measure_size(sizes[i] * MIB);
	if (!out_of_time())
		measure_access(2 * MIB, gpu.is_quick ? 16 : 512);
	if (!out_of_time())
		measure_busy(2 * MIB);
}

const struct experiment experiment_vmm = {
	"E6", "virtual memory: handles, mappings, access; idle and busy", run, 2,
};
