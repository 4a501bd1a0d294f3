// SPDX-License-Identifier: Apache-2.0
/* Planned faults: the n-th call, errors that come late, errors that stay, and the end of a run. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/swcuda/driver.h"

#define BYTES	10000

Test(fault, the_nth_call_fails_once)
{
	kcu_deviceptr addr;

	start("fail=cuMemAlloc_v2:3:2");
	dev_alloc(1);
	dev_alloc(1);
	is(KCU_E_OUT_OF_MEMORY, cu.mem_alloc(&addr, 1));
	dev_alloc(1);
	cr_expect_eq(ctl->calls("cuMemAlloc_v2"), 4);
}

Test(fault, or_from_then_on)
{
	kcu_deviceptr addr;

	start("fail=cuMemAlloc_v2:2+:NOT_SUPPORTED");
	dev_alloc(1);
	is(KCU_E_NOT_SUPPORTED, cu.mem_alloc(&addr, 1));
	is(KCU_E_NOT_SUPPORTED, cu.mem_alloc(&addr, 1));
	ctl->fail_none();
	dev_alloc(1);
	ctl->fail("cuMemAlloc_v2", 1, KCU_E_UNKNOWN, false, false);
	for (u32 i = 0; i < 2; i++)
		is(KCU_E_UNKNOWN, cu.mem_alloc(&addr, 1));	/* it is fatal: the device is lost */
}

Test(fault, or_by_chance)
{
	kcu_deviceptr addr;
	u32 nr = 0;

	start("fail=cuMemAlloc_v2:250%:2");
	for (int i = 0; i < 1000; i++)
		nr += cu.mem_alloc(&addr, 1) == KCU_E_OUT_OF_MEMORY;
	cr_expect(nr > 200 && nr < 300, "%u of 1000", nr);
}

Test(fault, any_call_can_be_the_nth)
{
	size_t bytes;
	int count;

	start("");
	ctl->fail("*", 3, KCU_E_NOT_PERMITTED, false, false);
	ok(cu.device_get_count(&count));
	ok(cu.mem_get_info(&bytes, &bytes));
	is(KCU_E_NOT_PERMITTED, cu.ctx_get_device(&count));
	ok(cu.ctx_get_device(&count));
	cr_expect_eq(ctl->reset("fail=*:2+:DEINITIALIZED"), 0);
	ok(cu.init(0));
	is(KCU_E_DEINITIALIZED, cu.device_get_count(&count));
	is(KCU_E_DEINITIALIZED, cu.mem_get_info(&bytes, &bytes));
}

/* A failed call has done nothing. */
Test(fault, failed_calls_leave_nothing)
{
	struct sw_live before, after;
	kcu_deviceptr addr = 77;
	kcu_stream stream;

	start("fail=cuStreamCreateWithPriority:1:2,fail=cuMemAlloc_v2:1:2");
	ctl->live(&before);
	is(KCU_E_OUT_OF_MEMORY, cu.mem_alloc(&addr, 1));
	is(KCU_E_OUT_OF_MEMORY, cu.stream_create_with_priority(&stream, 1, 0));
	ctl->live(&after);
	cr_expect_eq(memcmp(&before, &after, sizeof(before)), 0);
	cr_expect_eq(addr, 77);
}

Test(fault, every_call_can_fail)
{
	start("");
#define PLAN(field, name, type, version) \
	cr_expect_eq(ctl->fail(#name, 1, KCU_E_UNKNOWN, false, false), 0, "%s", #name);	\
	ctl->fail_none();
	KCU_ALL(PLAN)
	cr_expect_eq(ctl->fail("cuNothing", 1, KCU_E_UNKNOWN, false, false), -ENOENT);
}

Test(fault, counts_from_the_next_call_on)
{
	kcu_deviceptr addr;

	start("");
	dev_alloc(1);
	cr_expect_eq(ctl->fail("cuMemAlloc_v2", 2, KCU_E_NOT_PERMITTED, false, false), 0);
	dev_alloc(1);
	is(KCU_E_NOT_PERMITTED, cu.mem_alloc(&addr, 1));
	dev_alloc(1);
}

Test(fault, fails_at_a_rate)
{
	u32 nr_failed = 0;
	int count;

	start("");
	cr_expect_eq(ctl->fail_rate("cuDeviceGetCount", 250, KCU_E_NOT_PERMITTED, false), 0);
	for (u32 i = 0; i < 4000; i++)
		nr_failed += cu.device_get_count(&count) == KCU_E_NOT_PERMITTED;
	cr_expect(nr_failed > 800 && nr_failed < 1200, "%u of 4000", nr_failed);
	ctl->fail_none();
	ok(cu.device_get_count(&count));
	cr_expect_eq(ctl->fail_rate("cuNothing", 1, KCU_E_UNKNOWN, false), -ENOENT);
}

/* A query that is told of it would say that the work goes on. */
Test(fault, work_does_not_fail_with_not_ready)
{
	start("");
	cr_expect_eq(ctl->fail_rate("*", 1, KCU_E_NOT_READY, true), -EINVAL);
	cr_expect_eq(ctl->fail("*", 1, KCU_E_NOT_READY, false, true), -EINVAL);
	cr_expect_eq(ctl->fail_rate("cuEventQuery", 1, KCU_E_NOT_READY, false), 0);
	cr_expect_eq(ctl->reset("async=cuMemsetD8Async:1:NOT_READY"), -EINVAL);
}

/* The call is fine; what it queued is not, and whoever comes next hears of it. */
Test(fault, late_errors_come_once_unless_fatal)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("async=cuMemsetD8Async:2:LAUNCH_OUT_OF_RESOURCES");
	stream = stream_new();
	addr = dev_alloc(BYTES);
	fill(addr, 1, BYTES, stream);
	fill(addr, 2, BYTES, stream);
	ctl->run();
	is(KCU_E_LAUNCH_OUT_OF_RESOURCES, cu.mem_alloc(&addr, 1));
	finish(stream);
	cr_expect(all_bytes((void *)addr, 1, BYTES));
}

Test(fault, fatal_errors_stay)
{
	kcu_deviceptr addr;
	kcu_context ctx;
	kcu_stream stream;
	kcu_event event;
	size_t bytes;

	start("async=cuMemsetD8Async:1:ECC_UNCORRECTABLE");
	stream = stream_new();
	event = event_new();
	addr = dev_alloc(BYTES);
	fill(addr, 1, BYTES, stream);
	record(event, stream);
	fill(addr, 2, BYTES, stream);
	is(KCU_E_ECC_UNCORRECTABLE, cu.stream_synchronize(stream));
	is(KCU_E_ECC_UNCORRECTABLE, cu.stream_query(stream));
	is(KCU_E_ECC_UNCORRECTABLE, cu.event_query(event));
	is(KCU_E_ECC_UNCORRECTABLE, cu.mem_free(addr));
	is(KCU_E_ECC_UNCORRECTABLE, cu.mem_get_info(&bytes, &bytes));
	is(KCU_E_ECC_UNCORRECTABLE, cu.primary_ctx_retain(&ctx, 0));
	cr_expect_not(all_bytes((void *)addr, 2, 1), "nothing runs any more");
}

/* A call that is about no device says it of each that is in use. */
Test(fault, what_is_said_to_be_lost_is)
{
	kcu_context ctx;
	kcu_stream stream;

	start("");
	stream = stream_new();
	ctl->fail("cuCtxGetCurrent", 1, KCU_E_OUT_OF_MEMORY, false, false);
	is(KCU_E_OUT_OF_MEMORY, cu.ctx_get_current(&ctx));
	ok(cu.stream_query(stream));
	ctl->fail("cuCtxGetCurrent", 1, KCU_E_ASSERT, false, false);
	is(KCU_E_ASSERT, cu.ctx_get_current(&ctx));
	is(KCU_E_ASSERT, cu.stream_query(stream));
}

Test(fault, one_lost_device_is_not_all)
{
	kcu_context other;
	kcu_deviceptr addr;
	kcu_stream stream;

	start("devices=2,async=cuMemsetD8Async:1:LAUNCH_FAILED");
	stream = stream_new();
	fill(dev_alloc(10), 1, 10, stream);
	is(KCU_E_LAUNCH_FAILED, cu.stream_synchronize(stream));
	ok(cu.primary_ctx_retain(&other, 1));
	ok(cu.ctx_push_current(other));
	addr = dev_alloc(10);
	cr_expect_neq(addr, 0);
}

/* Nobody hangs on an event of a device that is lost. */
Test(fault, events_of_a_lost_device_complete)
{
	kcu_stream lost, waits;
	kcu_context other;
	kcu_event event;

	start("devices=2,async=cuMemsetD8Async:1:LAUNCH_FAILED");
	lost = stream_new();
	event = event_new();
	fill(dev_alloc(10), 1, 10, lost);
	record(event, lost);
	ok(cu.primary_ctx_retain(&other, 1));
	ok(cu.ctx_push_current(other));
	waits = stream_new();
	wait_for(waits, event);
	finish(waits);
}

Test(fault, device_loss_as_at_exit)
{
	int count;

	start("");
	ctl->fail("cuDeviceGetCount", 1, KCU_E_DEINITIALIZED, true, false);
	is(KCU_E_DEINITIALIZED, cu.device_get_count(&count));
	is(KCU_E_DEINITIALIZED, cu.device_get_count(&count));
}

static void nothing(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
		    void **params)
{
}

static const struct sw_kernel empty = { .name = "empty", .run = nothing };

Test(fault, the_mth_launch_is_the_last)
{
	kcu_function fn;
	kcu_module module;
	kcu_stream stream;

	start("illegal=2");
	ctl->add_kernel(&empty);
	ok(cu.module_load_data_ex(&module, ".version 6.0\n.target sm_70\n.entry empty() {}", 0,
				  NULL, NULL));
	ok(cu.module_get_function(&fn, module, "empty"));
	stream = stream_new();
	ok(cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	finish(stream);
	ok(cu.launch_kernel(fn, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

/* ---- What is left at exit ---- */

/* Exit code of a process that does some work, and what it says. */
static int exit_of(void (*fn)(void), char *said, size_t bytes)
{
	int pipes[2], status;
	size_t nr = 0;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		dup2(pipes[1], 2);
		close(pipes[1]);
		start("check_exit=1");
		fn();
		exit(0);
	}
	close(pipes[1]);
	while ((n = read(pipes[0], said + nr, bytes - 1 - nr)) > 0)
		nr += n;
	said[nr] = 0;
	close(pipes[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void leave_clean(void)
{
	kcu_stream stream = stream_new();

	fill(dev_alloc(10), 1, 10, stream);
	finish(stream);
	ctl->reset("");
}

static void leave_a_stream(void)
{
	stream_new();
}

static void leave_a_race(void)
{
	kcu_stream one = stream_new(), two = stream_new();
	kcu_deviceptr addr = dev_alloc(10);

	fill(addr, 1, 10, one);
	fill(addr, 1, 10, two);
	finish(one);
	finish(two);
}

Test(leak, what_is_left_at_exit_is_named)
{
	char said[1000];

	cr_expect_eq(exit_of(leave_clean, said, sizeof(said)), 0);
	cr_expect_eq(exit_of(leave_a_stream, said, sizeof(said)), 86);
	cr_expect_not_null(strstr(said, "1 contexts, 1 streams, 0 events"), "%s", said);
	cr_expect_eq(exit_of(leave_a_race, said, sizeof(said)), 86);
	cr_expect_not_null(strstr(said, "race: fill #"), "%s", said);
}

Test(leak, counters_come_back_to_nothing)
{
	static const struct sw_live none;
	struct sw_live live;
	kcu_deviceptr addr;
	kcu_stream stream;
	kcu_event event;
	void *host;

	start("");
	stream = stream_new();
	event = event_new();
	addr = dev_alloc(100);
	host = host_alloc(100);
	ctl->live(&live);
	cr_expect_eq(live.nr_streams, 1);
	cr_expect_eq(live.nr_events, 1);
	cr_expect_eq(live.nr_allocs, 1);
	cr_expect_eq(live.nr_host, 1);
	cr_expect_eq(live.device_bytes, 4096);
	ok(cu.event_destroy(event));
	ok(cu.stream_destroy(stream));
	ok(cu.mem_free(addr));
	ok(cu.mem_free_host(host));
	ok(cu.primary_ctx_release(0));
	ctl->live(&live);
	cr_expect_eq(memcmp(&live, &none, sizeof(live)), 0);
}
