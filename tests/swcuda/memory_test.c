// SPDX-License-Identifier: Apache-2.0
/* Memory of the device and of the host, and what the driver says about addresses. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/swcuda/driver.h"

#define POISON_NEW	0xc5
#define POISON_FREED	0xdb

Test(memory, info_counts_what_is_taken)
{
	size_t before = 0, after = 0, total = 0;
	kcu_deviceptr addr;

	start("mem=64M");
	ok(cu.mem_get_info(&before, &total));
	cr_expect_eq(total, 64 * MIB);
	cr_expect_eq(before, total);
	addr = dev_alloc(10 * MIB);
	ok(cu.mem_get_info(&after, &total));
	cr_expect_eq(after, before - 10 * MIB);
	ok(cu.mem_free(addr));
	ok(cu.mem_get_info(&after, &total));
	cr_expect_eq(after, before);
}

Test(memory, there_is_an_end_to_it)
{
	kcu_deviceptr addr, again;

	start("mem=8M");
	is(KCU_E_OUT_OF_MEMORY, cu.mem_alloc(&addr, 9 * MIB));
	addr = dev_alloc(8 * MIB);
	is(KCU_E_OUT_OF_MEMORY, cu.mem_alloc(&again, 1));
	ok(cu.mem_free(addr));
	ok(cu.mem_alloc(&again, 8 * MIB));
	is(KCU_E_INVALID_VALUE, cu.mem_alloc(&addr, 0));
}

/* In whichever order the pieces come back. */
Test(memory, free_pieces_become_one_again)
{
	static const u8 orders[][4] = {
		{ 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 0, 2, 1, 3 }, { 2, 0, 3, 1 },
	};
	kcu_deviceptr part[4], whole;

	start("mem=8M,va=32M");
	for (u32 i = 0; i < ARRAY_SIZE(orders); i++) {
		for (u32 j = 0; j < 4; j++)
			part[j] = dev_alloc(2 * MIB);
		for (u32 j = 0; j < 4; j++)
			ok(cu.mem_free(part[orders[i][j]]));
		ok(cu.mem_alloc(&whole, 8 * MIB));
		ok(cu.mem_free(whole));
	}
}

Test(memory, oom_comes_earlier_if_asked_for)
{
	kcu_deviceptr addr;

	start("mem=64M,oom=4M");
	dev_alloc(3 * MIB);
	is(KCU_E_OUT_OF_MEMORY, cu.mem_alloc(&addr, 2 * MIB));
	dev_alloc(MIB);
}

Test(memory, fresh_memory_is_not_zero)
{
	start("");
	cr_expect(dev_bytes(dev_alloc(5000), POISON_NEW, 5000));
	cr_expect(all_bytes(host_alloc(5000), POISON_NEW, 5000));
}

/* How a child that runs @fn ends: the signal, or 0. */
static int signal_of(void (*fn)(volatile u8 *at), volatile u8 *at)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		fn(at);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_it(volatile u8 *at)
{
	(void)*at;
}

Test(memory, freed_memory_faults)
{
	kcu_deviceptr addr;

	start("");
	addr = dev_alloc(100);
	cr_expect_eq(signal_of(read_it, (u8 *)addr), 0);
	cr_expect_eq(signal_of(read_it, (u8 *)addr + 4096), SIGSEGV);
	ok(cu.mem_free(addr));
	cr_expect_eq(signal_of(read_it, (u8 *)addr), SIGSEGV);
}

Test(memory, freeing_what_is_in_use_fails_and_poisons)
{
	kcu_deviceptr addr;
	kcu_stream stream;
	u8 *host;

	start("");
	stream = stream_new();
	addr = dev_alloc(1000);
	host = host_alloc(1000);
	fill(addr, 7, 1000, stream);
	finish(stream);
	ok(cu.memcpy_dtoh_async(host, addr, 1000, stream));
	is(KCU_E_INVALID_VALUE, cu.mem_free(addr));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_IN_USE), 1);
	cr_expect_not_null(strstr(ctl->report(0), "copy #2 on stream 1"), "%s", ctl->report(0));
	is(KCU_E_INVALID_VALUE, cu.mem_free_host(host));
	finish(stream);
	cr_expect(all_bytes(host, POISON_FREED, 1000));
	ok(cu.mem_free(addr));
	ok(cu.mem_free_host(host));
}

Test(memory, host_memory_comes_and_goes)
{
	struct sw_live live;
	void *ptr;

	start("");
	ptr = host_alloc(100);
	ctl->live(&live);
	cr_expect_eq(live.nr_host, 1);
	is(KCU_E_INVALID_VALUE, cu.mem_free_host((char *)ptr + 1));
	is(KCU_E_HOST_MEMORY_NOT_REGISTERED, cu.mem_host_unregister(ptr));
	ok(cu.mem_free_host(ptr));
	is(KCU_E_INVALID_VALUE, cu.mem_free_host(ptr));
	ctl->live(&live);
	cr_expect_eq(live.nr_host, 0);
	is(KCU_E_INVALID_VALUE, cu.mem_host_alloc(&ptr, 0, 0));
	is(KCU_E_INVALID_VALUE, cu.mem_host_alloc(&ptr, 1, 8));
}

Test(memory, registering_is_once_and_exact)
{
	static char mem[8192];
	kcu_deviceptr addr = 0;

	start("");
	is(KCU_E_INVALID_VALUE, cu.mem_host_get_device_pointer(&addr, mem, 0));
	ok(cu.mem_host_register(mem, 8192, 0));
	is(KCU_E_HOST_MEMORY_ALREADY_REGISTERED, cu.mem_host_register(mem + 4096, 10, 0));
	ok(cu.mem_host_get_device_pointer(&addr, mem, 0));
	cr_expect_eq(addr, (u64)mem);
	is(KCU_E_HOST_MEMORY_NOT_REGISTERED, cu.mem_host_unregister(mem + 4096));
	ok(cu.mem_host_unregister(mem));
	is(KCU_E_HOST_MEMORY_NOT_REGISTERED, cu.mem_host_unregister(mem));
	is(KCU_E_INVALID_VALUE, cu.mem_host_register(mem, 0, 0));
}

struct facts {
	u64 context, id, start;
	size_t bytes;
	u32 type;
	int ordinal;
	bool mapped;
};

static struct facts ask(kcu_deviceptr addr)
{
	struct facts f = { .ordinal = 77, .type = 77 };
	kcu_pointer_attr attrs[] = {
		KCU_POINTER_CONTEXT, KCU_POINTER_BUFFER_ID, KCU_POINTER_RANGE_START,
		KCU_POINTER_RANGE_SIZE, KCU_POINTER_MEMORY_TYPE, KCU_POINTER_ORDINAL,
		KCU_POINTER_MAPPED,
	};
	void *data[] = { &f.context, &f.id, &f.start, &f.bytes, &f.type, &f.ordinal, &f.mapped };

	ok(cu.pointer_get_attributes(ARRAY_SIZE(attrs), attrs, data, addr));
	return f;
}

Test(memory, addresses_are_known)
{
	kcu_deviceptr addr, other;
	kcu_context ctx;
	struct facts f;
	int local;

	start("");
	ok(cu.ctx_get_current(&ctx));
	addr = dev_alloc(1000);
	other = dev_alloc(1000);
	f = ask(addr + 999);
	cr_expect_eq(f.context, (u64)ctx);
	cr_expect_eq(f.start, addr);
	cr_expect_eq(f.bytes, 1000);
	cr_expect_eq(f.type, KCU_MEMORY_DEVICE);
	cr_expect_eq(f.ordinal, 0);
	cr_expect(f.mapped);
	cr_expect_neq(f.id, ask(other).id);

	f = ask((u64)host_alloc(10));
	cr_expect_eq(f.type, KCU_MEMORY_HOST);
	f = ask((u64)&local);
	cr_expect_eq(f.type, 0);
	cr_expect_eq(f.ordinal, -2);
	cr_expect_eq(f.start, 0);
	cr_expect_not(f.mapped);
}

Test(memory, unknown_attributes_are_refused)
{
	kcu_pointer_attr attr = 4000;
	u64 word;
	void *data = &word;

	start("");
	is(KCU_E_INVALID_VALUE, cu.pointer_get_attributes(1, &attr, &data, 1));
	is(KCU_E_INVALID_VALUE, cu.pointer_get_attributes(0, &attr, &data, 1));
}
