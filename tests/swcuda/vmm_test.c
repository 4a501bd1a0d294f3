// SPDX-License-Identifier: Apache-2.0
/* Virtual memory: what may be mapped where, and what faults. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/swcuda/driver.h"

#define G	(2 * MIB)

static const kcu_mem_prop plain = {
	.type = KCU_ALLOCATION_PINNED, .location = { KCU_LOCATION_DEVICE, 0 },
};
static const kcu_mem_prop shared = {
	.type = KCU_ALLOCATION_PINNED, .location = { KCU_LOCATION_DEVICE, 0 },
	.handle_types = KCU_HANDLE_POSIX_FD,
};

static kcu_deviceptr reserve(size_t bytes)
{
	kcu_deviceptr addr = 0;

	ok(cu.mem_address_reserve(&addr, bytes, 0, 0, 0));
	return addr;
}

static kcu_mem_handle create(size_t bytes)
{
	kcu_mem_handle handle = 0;

	ok(cu.mem_create(&handle, bytes, &plain, 0));
	return handle;
}

static kcu_result access_of(kcu_deviceptr addr, size_t bytes, u32 flags)
{
	kcu_mem_access desc = { { KCU_LOCATION_DEVICE, 0 }, flags };

	return cu.mem_set_access(addr, bytes, &desc, 1);
}

static kcu_deviceptr mapped(size_t bytes)
{
	kcu_deviceptr addr = reserve(bytes);
	kcu_mem_handle handle = create(bytes);

	ok(cu.mem_map(addr, bytes, 0, handle, 0));
	ok(access_of(addr, bytes, KCU_ACCESS_READWRITE));
	ok(cu.mem_release(handle));
	return addr;
}

/* The signal that ends a child which reads, or writes, that byte; 0: it lives. */
static int touch(kcu_deviceptr addr, bool write)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		volatile u8 *at = (u8 *)addr;

		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		if (write)
			*at = 1;
		(void)*at;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Test(vmm, granularity_is_two_megabytes)
{
	kcu_mem_prop bad = plain;
	size_t bytes = 0;

	start("devices=1");
	ok(cu.mem_get_granularity(&bytes, &plain, KCU_GRANULARITY_MINIMUM));
	cr_expect_eq(bytes, G);
	ok(cu.mem_get_granularity(&bytes, &plain, KCU_GRANULARITY_RECOMMENDED));
	cr_expect_eq(bytes, G);
	is(KCU_E_INVALID_VALUE, cu.mem_get_granularity(&bytes, &plain, 2));
	bad.type = 0;
	is(KCU_E_INVALID_VALUE, cu.mem_get_granularity(&bytes, &bad, 0));
	bad = plain;
	bad.location.id = 1;
	is(KCU_E_INVALID_DEVICE, cu.mem_get_granularity(&bytes, &bad, 0));
	bad.location.type = KCU_LOCATION_HOST;
	is(KCU_E_NOT_SUPPORTED, cu.mem_get_granularity(&bytes, &bad, 0));
}

Test(vmm, reservations_are_aligned_and_whole)
{
	kcu_deviceptr a, b;

	start("");
	a = reserve(10 * G);
	ok(cu.mem_address_reserve(&b, G, 64 * MIB, 0, 0));
	cr_expect_eq(a % G, 0);
	cr_expect_eq(b % (64 * MIB), 0);
	cr_expect(b >= a + 10 * G || b + G <= a);
	is(KCU_E_INVALID_VALUE, cu.mem_address_reserve(&b, G, 3, 0, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_address_reserve(&b, 100, 0, 0, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_address_reserve(&b, 0, 0, 0, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_address_reserve(&b, G, 0, 0, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_address_free(a, G));
	is(KCU_E_INVALID_VALUE, cu.mem_address_free(a + G, 9 * G));
	ok(cu.mem_address_free(a, 10 * G));
	is(KCU_E_INVALID_VALUE, cu.mem_address_free(a, 10 * G));
}

Test(vmm, reserving_costs_no_memory)
{
	size_t before, after, total;

	start("mem=8M");
	ok(cu.mem_get_info(&before, &total));
	reserve(4096 * MIB);
	ok(cu.mem_get_info(&after, &total));
	cr_expect_eq(after, before);
}

Test(vmm, physical_memory_is_accounted_until_the_last_user_is_gone)
{
	size_t before, now, total;
	kcu_deviceptr addr;
	kcu_mem_handle handle;

	start("mem=8M");
	ok(cu.mem_get_info(&before, &total));
	addr = reserve(G);
	handle = create(G);
	ok(cu.mem_get_info(&now, &total));
	cr_expect_eq(now, before - G);
	ok(cu.mem_map(addr, G, 0, handle, 0));
	ok(cu.mem_release(handle));
	is(KCU_E_INVALID_VALUE, cu.mem_release(handle));
	ok(cu.mem_get_info(&now, &total));
	cr_expect_eq(now, before - G);
	ok(cu.mem_unmap(addr, G));
	ok(cu.mem_get_info(&now, &total));
	cr_expect_eq(now, before);
	is(KCU_E_OUT_OF_MEMORY, cu.mem_create(&handle, 10 * MIB, &plain, 0));
}

Test(vmm, create_checks_what_it_is_asked)
{
	kcu_mem_prop bad = plain;
	kcu_mem_handle handle;

	start("");
	is(KCU_E_INVALID_VALUE, cu.mem_create(&handle, MIB, &plain, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_create(&handle, 0, &plain, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_create(&handle, G, &plain, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_create(&handle, G, NULL, 0));
	bad.handle_types = KCU_HANDLE_FABRIC;
	is(KCU_E_NOT_SUPPORTED, cu.mem_create(&handle, G, &bad, 0));
}

Test(vmm, map_checks_what_it_is_asked)
{
	kcu_deviceptr addr;
	kcu_mem_handle handle;

	start("");
	addr = reserve(4 * G);
	handle = create(2 * G);
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, 2 * G, G, handle, 0));		/* offset */
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr + MIB, G, 0, handle, 0));	/* unaligned */
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, MIB, 0, handle, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, 3 * G, 0, handle, 0));		/* too long */
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr + 3 * G, 2 * G, 0, handle, 0));	/* sticks out */
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, G, 0, handle + 1, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, G, 0, handle, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_map(G, G, 0, handle, 0));		/* not reserved */
	ok(cu.mem_map(addr, G, 0, handle, 0));					/* part of it */
	is(KCU_E_INVALID_VALUE, cu.mem_map(addr, G, 0, handle, 0));		/* twice */
	is(KCU_E_INVALID_VALUE, cu.mem_address_free(addr, 4 * G));		/* still mapped */
}

Test(vmm, access_is_set_for_whole_runs)
{
	kcu_mem_access desc = { { KCU_LOCATION_DEVICE, 0 }, KCU_ACCESS_READWRITE };
	kcu_deviceptr addr;
	kcu_mem_handle handle;

	start("devices=1");
	addr = reserve(4 * G);
	handle = create(G);
	ok(cu.mem_map(addr, G, 0, handle, 0));
	ok(cu.mem_map(addr + G, G, 0, handle, 0));
	ok(cu.mem_map(addr + 3 * G, G, 0, handle, 0));
	ok(cu.mem_set_access(addr, 2 * G, &desc, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_set_access(addr, 3 * G, &desc, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_set_access(addr, 4 * G, &desc, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_set_access(addr, MIB, &desc, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_set_access(addr, G, &desc, 0));
	desc.flags = 2;
	is(KCU_E_INVALID_VALUE, cu.mem_set_access(addr, G, &desc, 1));
	desc.location.id = 1;
	is(KCU_E_INVALID_DEVICE, cu.mem_set_access(addr, G, &desc, 1));
}

Test(vmm, nothing_is_in_reach_until_access_is_set_nor_after_unmap)
{
	kcu_deviceptr addr;
	kcu_mem_handle handle;

	start("");
	addr = reserve(G);
	handle = create(G);
	cr_expect_eq(touch(addr, false), SIGSEGV);
	ok(cu.mem_map(addr, G, 0, handle, 0));
	cr_expect_eq(touch(addr, false), SIGSEGV);
	ok(access_of(addr, G, KCU_ACCESS_READ));
	cr_expect_eq(touch(addr, false), 0);
	cr_expect_eq(touch(addr, true), SIGSEGV);
	ok(access_of(addr, G, KCU_ACCESS_READWRITE));
	cr_expect_eq(touch(addr + G - 1, true), 0);
	cr_expect_eq(touch(addr + G, false), SIGSEGV);
	ok(cu.mem_unmap(addr, G));
	cr_expect_eq(touch(addr, false), SIGSEGV);
}

Test(vmm, work_without_access_takes_the_context_down)
{
	kcu_deviceptr addr, other;
	kcu_stream stream;

	start("");
	stream = stream_new();
	other = dev_alloc(100);
	addr = mapped(G);
	ok(access_of(addr, G, KCU_ACCESS_READ));
	copy(other, addr, 100, stream);
	finish(stream);
	copy(addr, other, 100, stream);
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
	is(KCU_E_ILLEGAL_ADDRESS, cu.mem_alloc(&other, 1));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_ILLEGAL), 1);
}

Test(vmm, unmapping_under_queued_work_is_caught)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = mapped(G);
	fill(addr, 1, G, stream);
	ok(cu.mem_unmap(addr, G));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_IN_USE), 1);
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

/* Even in the middle of a copy. */
static void unmap_under_work(bool is_source)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = mapped(G);
	if (is_source)
		copy(dev_alloc(G), addr, G, stream);
	else
		fill(addr, 1, G, stream);
	cr_assert(ctl->step());
	ok(cu.mem_unmap(addr, G));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

TEST_CALL(vmm, unmapping_under_running_work_is_caught, unmap_under_work(false))
TEST_CALL(vmm, unmapping_a_source_under_running_work_is_caught, unmap_under_work(true))

/* Done, but nobody has waited: it was luck. */
Test(vmm, unmapping_wants_order)
{
	kcu_deviceptr addr, other;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = mapped(G);
	other = mapped(G);
	fill(addr, 1, G, stream);
	fill(other, 1, G, stream);
	ctl->run();
	ok(cu.mem_unmap(addr, G));
	cr_expect_eq(races(), 1);
	finish(stream);
	ok(cu.mem_unmap(other, G));
	cr_expect_eq(races(), 1);
}

/* One handle at two addresses, one behind the other. */
static kcu_deviceptr aliased(void)
{
	kcu_deviceptr addr = reserve(2 * G);
	kcu_mem_handle handle = create(G);

	ok(cu.mem_map(addr, G, 0, handle, 0));
	ok(cu.mem_map(addr + G, G, 0, handle, 0));
	ok(access_of(addr, 2 * G, KCU_ACCESS_READWRITE));
	return addr;
}

/* Work that goes through one alias does not mind that another goes away. */
Test(vmm, only_the_last_alias_wants_order)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = aliased();
	fill(addr, 1, G, stream);
	ctl->run();
	ok(cu.mem_unmap(addr + G, G));
	cr_expect_eq(races(), 0);
	ok(cu.mem_unmap(addr, G));
	cr_expect_eq(races(), 1);
}

Test(vmm, a_device_may_lack_it)
{
	kcu_mem_handle handle;

	start("vmm=0");
	is(KCU_E_NOT_SUPPORTED, cu.mem_create(&handle, G, &plain, 0));
}

Test(vmm, races_are_seen_through_aliases)
{
	kcu_deviceptr addr;
	kcu_stream one, two;

	start("");
	one = stream_new();
	two = stream_new();
	addr = aliased();
	fill(addr, 1, 100, one);
	fill(addr + G, 2, 100, two);
	finish(one);
	finish(two);
	cr_expect_eq(races(), 1);
}

Test(vmm, handles_can_be_had_back_from_an_address)
{
	kcu_mem_handle handle = 0, again = 0;
	kcu_deviceptr addr;

	start("");
	addr = mapped(G);
	ok(cu.mem_retain_handle(&handle, (void *)(addr + 5)));
	ok(cu.mem_retain_handle(&again, (void *)addr));
	cr_expect_eq(handle, again);
	ok(cu.mem_release(handle));
	ok(cu.mem_release(handle));
	is(KCU_E_INVALID_VALUE, cu.mem_release(handle));
	is(KCU_E_INVALID_VALUE, cu.mem_retain_handle(&handle, (void *)dev_alloc(10)));
}

Test(vmm, exported_memory_is_the_same_memory)
{
	kcu_mem_handle handle, import = 0;
	kcu_deviceptr a, b;
	kcu_stream stream, other;
	int fd = -1;

	start("");
	stream = stream_new();
	other = stream_new();
	a = reserve(G);
	b = reserve(G);
	ok(cu.mem_create(&handle, G, &shared, 0));
	ok(cu.mem_export(&fd, handle, KCU_HANDLE_POSIX_FD, 0));
	ok(cu.mem_import(&import, (void *)(intptr_t)fd, KCU_HANDLE_POSIX_FD));
	cr_expect_neq(import, handle);
	close(fd);
	ok(cu.mem_map(a, G, 0, handle, 0));
	ok(cu.mem_map(b, G, 0, import, 0));
	ok(access_of(a, G, KCU_ACCESS_READWRITE));
	ok(access_of(b, G, KCU_ACCESS_READWRITE));
	fill(a, 6, G, stream);
	finish(stream);
	cr_expect(all_bytes((void *)b, 6, G));
	fill(a, 6, 10, stream);
	fill(b, 6, 10, other);
	finish(stream);
	finish(other);
	cr_expect_eq(races(), 1, "the checker knows that it is the same");
	ok(cu.mem_release(import));
	is(KCU_E_INVALID_VALUE, cu.mem_release(import));
	ok(cu.mem_release(handle));
}

Test(vmm, only_what_was_made_for_it_is_exported)
{
	kcu_mem_handle handle, import;
	int fd = -1, pipes[2];

	start("");
	handle = create(G);
	is(KCU_E_INVALID_VALUE, cu.mem_export(&fd, handle, KCU_HANDLE_POSIX_FD, 0));
	ok(cu.mem_create(&handle, G, &shared, 0));
	is(KCU_E_NOT_SUPPORTED, cu.mem_export(&fd, handle, KCU_HANDLE_FABRIC, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_export(&fd, handle, KCU_HANDLE_POSIX_FD, 1));
	is(KCU_E_INVALID_VALUE, cu.mem_import(&import, (void *)(intptr_t)-1, KCU_HANDLE_POSIX_FD));
	cr_assert_eq(pipe(pipes), 0);
	is(KCU_E_INVALID_VALUE,
	   cu.mem_import(&import, (void *)(intptr_t)pipes[0], KCU_HANDLE_POSIX_FD));
}

/* A process of its own: the descriptor is inherited, the driver is not. */
static void import_and_write(int fd)
{
	kcu_deviceptr addr = 0;
	kcu_mem_handle handle;
	kcu_context ctx;

	ctl->reset("");
	if (cu.init(0) || cu.primary_ctx_retain(&ctx, 0) || cu.ctx_push_current(ctx) ||
	    cu.mem_import(&handle, (void *)(intptr_t)fd, KCU_HANDLE_POSIX_FD) ||
	    cu.mem_address_reserve(&addr, G, 0, 0, 0) || cu.mem_map(addr, G, 0, handle, 0) ||
	    access_of(addr, G, KCU_ACCESS_READWRITE))
		_exit(1);
	memset((void *)addr, 8, G);
	_exit(0);
}

Test(vmm, memory_is_shared_between_processes)
{
	kcu_mem_handle handle;
	kcu_deviceptr addr;
	int fd, status;
	pid_t pid;

	start("");
	addr = reserve(G);
	ok(cu.mem_create(&handle, G, &shared, 0));
	ok(cu.mem_map(addr, G, 0, handle, 0));
	ok(access_of(addr, G, KCU_ACCESS_READWRITE));
	ok(cu.mem_export(&fd, handle, KCU_HANDLE_POSIX_FD, 0));
	pid = fork();
	if (!pid)
		import_and_write(fd);
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
	cr_expect(all_bytes((void *)addr, 8, G));
}

Test(vmm, a_mapping_answers_for_its_part_of_the_reservation)
{
	kcu_pointer_attr attrs[] = { KCU_POINTER_RANGE_START, KCU_POINTER_MAPPED };
	u64 begin = 0;
	bool is_mapped = false;
	void *data[] = { &begin, &is_mapped };
	kcu_deviceptr addr;
	kcu_mem_handle handle;

	start("");
	addr = reserve(4 * G);
	handle = create(G);
	ok(cu.mem_map(addr + G, G, 0, handle, 0));
	ok(cu.pointer_get_attributes(2, attrs, data, addr + G + 5));
	cr_expect_eq(begin, addr + G);
	cr_expect(is_mapped);
	ok(cu.pointer_get_attributes(2, attrs, data, addr));
	cr_expect_not(is_mapped);
}

/* ---- Between devices ---- */

Test(peer, devices_say_whether_they_reach_each_other)
{
	int value = -1;

	start("devices=2");
	ok(cu.device_can_access_peer(&value, 0, 1));
	cr_expect_eq(value, 1);
	ok(cu.device_can_access_peer(&value, 0, 0));
	cr_expect_eq(value, 0);
	ok(cu.device_get_p2p_attribute(&value, KCU_P2P_ACCESS, 0, 1));
	cr_expect_eq(value, 1);
	is(KCU_E_INVALID_DEVICE, cu.device_can_access_peer(&value, 0, 2));
	is(KCU_E_INVALID_VALUE, cu.device_get_p2p_attribute(&value, 9, 0, 1));
	ctl->reset("devices=2,peers=0");
	ok(cu.init(0));
	ok(cu.device_can_access_peer(&value, 0, 1));
	cr_expect_eq(value, 0);
}

Test(peer, access_is_per_device)
{
	kcu_mem_access both[] = {
		{ { KCU_LOCATION_DEVICE, 0 }, KCU_ACCESS_READWRITE },
		{ { KCU_LOCATION_DEVICE, 1 }, KCU_ACCESS_READ },
	};
	kcu_deviceptr addr, other;
	kcu_context peer;
	kcu_stream stream;

	start("devices=2");
	addr = mapped(G);
	ok(cu.primary_ctx_retain(&peer, 1));
	ok(cu.ctx_push_current(peer));
	other = dev_alloc(100);
	stream = stream_new();
	ok(cu.mem_set_access(addr, G, both, 2));
	copy(other, addr, 100, stream);
	finish(stream);
	copy(addr, other, 100, stream);
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
	ok(cu.ctx_pop_current(NULL));
	dev_alloc(1);			/* the other device is as before */
}

Test(peer, copies_between_contexts)
{
	kcu_context here, there;
	kcu_deviceptr a, b;
	kcu_stream stream;

	start("devices=2");
	ok(cu.ctx_get_current(&here));
	ok(cu.primary_ctx_retain(&there, 1));
	ok(cu.ctx_push_current(there));
	b = dev_alloc(1000);
	ok(cu.ctx_pop_current(NULL));
	a = dev_alloc(1000);
	stream = stream_new();
	fill(a, 3, 1000, stream);
	ok(cu.memcpy_peer_async(b, there, a, here, 1000, stream));
	finish(stream);
	cr_expect(all_bytes((void *)b, 3, 1000));
	/* A wrong owner is found when it runs. */
	ok(cu.memcpy_peer_async(b, here, a, here, 1000, stream));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

Test(peer, enabling_is_once_and_for_the_current_context)
{
	kcu_context here, there;

	start("devices=2");
	ok(cu.ctx_get_current(&here));
	ok(cu.primary_ctx_retain(&there, 1));
	ok(cu.ctx_enable_peer_access(there, 0));
	is(KCU_E_PEER_ACCESS_ALREADY_ENABLED, cu.ctx_enable_peer_access(there, 0));
	is(KCU_E_INVALID_CONTEXT, cu.ctx_enable_peer_access(here, 0));
	is(KCU_E_INVALID_VALUE, cu.ctx_enable_peer_access(there, 1));
}

Test(peer, dma_buf_is_not_supported)
{
	int fd = -1;

	start("");
	is(KCU_E_NOT_SUPPORTED, cu.mem_get_range_handle(&fd, dev_alloc(4096), 4096,
							KCU_RANGE_DMA_BUF_FD, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_get_range_handle(&fd, 4096, 4096, KCU_RANGE_DMA_BUF_FD, 0));
}
