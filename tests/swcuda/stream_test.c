// SPDX-License-Identifier: Apache-2.0
/* Streams and events: when work happens, and who waits for whom. */
#include <time.h>

#include "tests/swcuda/driver.h"

#define BYTES	10000

Test(stream, work_waits_until_somebody_asks)
{
	kcu_stream stream;
	kcu_deviceptr addr;

	start("");
	stream = stream_new();
	addr = dev_alloc(BYTES);
	fill(addr, 1, BYTES, stream);
	cr_expect_not(all_bytes((void *)addr, 1, 1));
	finish(stream);
	cr_expect(all_bytes((void *)addr, 1, BYTES));
}

/* A source changes between the pieces of a copy if nothing orders the two. */
static bool copy_is_torn(u64 seed)
{
	kcu_stream one, two;
	kcu_deviceptr a, b;
	const u8 *seen;
	bool torn = false;

	ctl->set_seed(seed);
	one = stream_new();
	two = stream_new();
	a = dev_alloc(BYTES);
	b = dev_alloc(BYTES);
	fill(a, 1, BYTES, one);
	finish(one);
	copy(b, a, BYTES, one);
	fill(a, 2, BYTES, two);
	finish(one);
	finish(two);
	seen = (const u8 *)b;
	for (int i = 1; i < BYTES; i++)
		torn |= seen[i] != seen[0];
	return torn;
}

Test(stream, pieces_of_copies_interleave)
{
	u32 nr_torn = 0;

	start("");
	for (u64 seed = 1; seed <= 50; seed++)
		nr_torn += copy_is_torn(seed);
	cr_expect_gt(nr_torn, 5);
	cr_expect_gt(races(), 0);
}

Test(stream, eager_work_may_run_at_once)
{
	struct sw_counters count;
	kcu_deviceptr addr;
	kcu_stream stream;

	start("eager=1");
	stream = stream_new();
	addr = dev_alloc(BYTES);
	for (int i = 0; i < 10; i++)
		fill(addr, 1, BYTES, stream);
	ctl->counters(&count);
	cr_expect(count.nr_steps > 0 && count.nr_done < 10, "%llu steps",
		  (unsigned long long)count.nr_steps);
}

Test(stream, sleeping_takes_the_time_of_the_model)
{
	struct timespec from, to;
	kcu_deviceptr addr;
	kcu_stream stream;

	start("sleep=1,latency_us=20000");
	stream = stream_new();
	addr = dev_alloc(10);
	fill(addr, 1, 10, stream);
	clock_gettime(CLOCK_MONOTONIC, &from);
	finish(stream);
	clock_gettime(CLOCK_MONOTONIC, &to);
	cr_expect_geq((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000, 19);
}

Test(stream, priorities_and_flags_are_checked)
{
	kcu_stream stream = NULL;

	start("");
	is(KCU_E_INVALID_VALUE, cu.stream_create_with_priority(&stream, 2, 0));
	is(KCU_E_INVALID_VALUE, cu.stream_create_with_priority(NULL, 1, 0));
	ok(cu.stream_create_with_priority(&stream, 1, KCU_PRIORITY_LOWEST));
	cr_expect_not_null(stream);
}

Test(stream, default_streams_are_refused)
{
	kcu_stream special[] = { NULL, KCU_STREAM_LEGACY, KCU_STREAM_PER_THREAD };
	kcu_deviceptr addr;

	start("");
	addr = dev_alloc(10);
	for (u32 i = 0; i < ARRAY_SIZE(special); i++) {
		is(KCU_E_INVALID_HANDLE, cu.memset_d8_async(addr, 0, 10, special[i]));
		is(KCU_E_INVALID_HANDLE, cu.stream_synchronize(special[i]));
	}
	cr_expect_eq(ctl->nr_reports(SW_REPORT_MISUSE), 6);
}

Test(stream, a_destroyed_stream_ends_its_work_but_has_no_name)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = dev_alloc(BYTES);
	fill(addr, 5, BYTES, stream);
	ok(cu.stream_destroy(stream));
	is(KCU_E_INVALID_HANDLE, cu.stream_destroy(stream));
	is(KCU_E_INVALID_HANDLE, cu.stream_query(stream));
	cr_expect_gt(ctl->run(), 0);
	cr_expect(all_bytes((void *)addr, 5, BYTES));
}

Test(stream, slots_are_used_again)
{
	start("");
	for (int i = 0; i < 1000; i++) {
		kcu_stream stream = stream_new();

		ok(cu.stream_destroy(stream));
	}
}

Test(stream, of_another_context_is_refused)
{
	kcu_context other;
	kcu_deviceptr addr;
	kcu_stream stream;

	start("devices=2");
	stream = stream_new();
	ok(cu.primary_ctx_retain(&other, 1));
	ok(cu.ctx_push_current(other));
	addr = dev_alloc(10);
	is(KCU_E_INVALID_CONTEXT, cu.memset_d8_async(addr, 0, 10, stream));
	finish(stream);
}

/* ---- Events ---- */

Test(event, times_come_from_the_model)
{
	kcu_event from, to, plain;
	kcu_deviceptr a, b;
	kcu_stream stream;
	float ms = -1;

	start("latency_us=5,gbps_local=10");
	stream = stream_new();
	a = dev_alloc(10 * MIB);
	b = dev_alloc(10 * MIB);
	plain = event_new();
	ok(cu.event_create(&from, 0));
	ok(cu.event_create(&to, 0));
	is(KCU_E_INVALID_HANDLE, cu.event_elapsed_time(&ms, from, to));
	record(from, stream);
	copy(b, a, 10 * MIB, stream);
	record(to, stream);
	is(KCU_E_NOT_READY, cu.event_elapsed_time(&ms, from, to));
	finish(stream);
	ok(cu.event_elapsed_time(&ms, from, to));
	cr_expect_float_eq(ms, 10 * MIB / 10e6 + 0.005, 0.01, "%f", ms);
	record(plain, stream);
	finish(stream);
	is(KCU_E_INVALID_HANDLE, cu.event_elapsed_time(&ms, from, plain));
}

static float ms_between(kcu_event from, kcu_event to)
{
	float ms = -1;

	ok(cu.event_elapsed_time(&ms, from, to));
	return ms;
}

/* Two copies of one millisecond each: they share an engine, or wait for each other, or neither. */
Test(event, times_know_engines_and_waits)
{
	kcu_stream one, two;
	kcu_event from, mid, to;
	kcu_deviceptr a, b;
	void *host;

	start("latency_us=0,gbps_local=10,gbps=10");
	one = stream_new();
	two = stream_new();
	a = dev_alloc(20 * MIB);
	b = a + 10 * MIB;
	host = host_alloc(10 * MIB);
	ok(cu.event_create(&from, 0));
	ok(cu.event_create(&mid, 0));
	ok(cu.event_create(&to, 0));

	record(from, one);
	ok(cu.memcpy_htod_async(a, host, 10000000, one));
	ok(cu.memcpy_htod_async(b, host, 10000000, two));
	record(mid, one);
	record(to, two);
	finish(one);
	finish(two);
	cr_expect_float_eq(max(ms_between(from, mid), ms_between(from, to)), 2, 0.1);

	record(from, one);
	ok(cu.memcpy_htod_async(a, host, 10000000, one));
	fill(b, 1, 10000000, two);
	record(to, two);
	finish(one);
	finish(two);
	cr_expect_float_eq(ms_between(from, to), 1, 0.1);

	record(from, one);
	ok(cu.memcpy_htod_async(a, host, 10000000, one));
	record(mid, one);
	wait_for(two, mid);
	fill(b, 1, 10000000, two);
	record(to, two);
	finish(one);
	finish(two);
	cr_expect_float_eq(ms_between(from, to), 2, 0.1);
}

Test(event, stale_handles_stay_stale)
{
	kcu_event old, fresh;

	start("");
	old = event_new();
	ok(cu.event_destroy(old));
	fresh = event_new();
	cr_expect_neq(old, fresh);
	is(KCU_E_INVALID_HANDLE, cu.event_query(old));
	is(KCU_E_INVALID_HANDLE, cu.stream_query((kcu_stream)fresh));
}

Test(event, flags_are_checked)
{
	kcu_event event;

	start("");
	is(KCU_E_INVALID_VALUE, cu.event_create(&event, 8));
	is(KCU_E_INVALID_VALUE, cu.event_create(&event, KCU_EVENT_INTERPROCESS));
	ok(cu.event_create(&event, KCU_EVENT_INTERPROCESS | KCU_EVENT_DISABLE_TIMING));
}

/* ---- Host functions ---- */

static int nr_calls;
static kcu_result inner;

static void host_fn(void *user)
{
	nr_calls += *(int *)user;
	inner = cu.driver_get_version(&(int){ 0 });
}

Test(stream, host_functions_run_in_order_and_may_not_call_back)
{
	kcu_stream stream;
	int user = 3;

	start("");
	stream = stream_new();
	ok(cu.launch_host_func(stream, host_fn, &user));
	cr_expect_eq(nr_calls, 0);
	finish(stream);
	cr_expect_eq(nr_calls, 3);
	cr_expect_eq(inner, KCU_E_NOT_PERMITTED);
	is(KCU_E_INVALID_VALUE, cu.launch_host_func(stream, NULL, NULL));
}

/* ---- Words in memory ---- */

Test(stream, words_are_written_and_waited_for)
{
	kcu_deviceptr addr;
	kcu_stream one, two;

	start("");
	one = stream_new();
	two = stream_new();
	addr = dev_alloc(4096);
	fill(addr, 0, 4096, one);
	finish(one);
	ok(cu.stream_wait_value64(two, addr, 5, 0));
	ok(cu.memset_d8_async(addr + 64, 9, 64, two));
	cr_expect_eq(ctl->run(), 0);
	ok(cu.stream_write_value64(one, addr, 6, 0));
	finish(two);
	cr_expect_eq(*(u64 *)addr, 6);
	cr_expect(all_bytes((void *)(addr + 64), 9, 64));
	is(KCU_E_INVALID_VALUE, cu.stream_wait_value64(two, addr + 1, 5, 0));
}

/* Does a wait for @value end while the word is 6? */
static bool ends(kcu_stream one, kcu_stream two, kcu_deviceptr word, u64 value, u32 how)
{
	struct sw_counters before, after;

	ok(cu.stream_write_value64(one, word, 6, 0));
	finish(one);
	ok(cu.stream_wait_value64(two, word, value, how));
	ctl->counters(&before);
	ctl->run();
	ctl->counters(&after);
	/* Satisfies all of them. */
	ok(cu.stream_write_value64(one, word, how == 3 ? 0 : value, 0));
	finish(two);
	return after.nr_done > before.nr_done;
}

Test(stream, words_are_compared_in_four_ways)
{
	kcu_deviceptr word;
	kcu_stream one, two;

	start("");
	one = stream_new();
	two = stream_new();
	word = dev_alloc(8);
	cr_expect(ends(one, two, word, 6, 0) && ends(one, two, word, 5, 0));
	cr_expect_not(ends(one, two, word, 7, 0));
	cr_expect(ends(one, two, word, 6, 1));
	cr_expect_not(ends(one, two, word, 5, 1));
	cr_expect(ends(one, two, word, 2, 2));
	cr_expect_not(ends(one, two, word, 9, 2));
	cr_expect(ends(one, two, word, 1, 3));
	cr_expect_not(ends(one, two, word, ~6ull, 3));
	is(KCU_E_INVALID_VALUE, cu.stream_wait_value64(two, word, 0, 4));
}

Test(stream, a_wait_that_cannot_end_is_reported)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = dev_alloc(4096);
	ok(cu.stream_wait_value64(stream, addr, 1, 1));
	is(KCU_E_LAUNCH_TIMEOUT, cu.stream_synchronize(stream));
	cr_expect_eq(ctl->nr_reports(SW_REPORT_DEADLOCK), 1);
}

/* ---- Captures ---- */

Test(capture, streams_say_so_and_execute_nothing)
{
	kcu_capture_status status = 77;
	struct sw_counters count;
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	stream = stream_new();
	addr = dev_alloc(BYTES);
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_NONE);
	ctl->set_capture(stream, KCU_CAPTURE_ACTIVE);
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_ACTIVE);
	fill(addr, 1, BYTES, stream);
	cr_expect_eq(ctl->run(), 0);
	ctl->counters(&count);
	cr_expect_eq(count.nr_captured, 1);
}

Test(capture, unsafe_calls_of_anybody_end_it)
{
	kcu_capture_status status;
	kcu_deviceptr addr;
	kcu_stream stream, other;

	start("");
	stream = stream_new();
	other = stream_new();
	ctl->set_capture(stream, KCU_CAPTURE_ACTIVE);
	is(KCU_E_STREAM_CAPTURE_UNSUPPORTED, cu.mem_alloc(&addr, 1));
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_INVALIDATED);
	is(KCU_E_STREAM_CAPTURE_INVALIDATED, cu.launch_host_func(stream, host_fn, NULL));

	ctl->set_capture(stream, KCU_CAPTURE_ACTIVE);
	is(KCU_E_STREAM_CAPTURE_UNSUPPORTED, cu.stream_query(other));
	ctl->set_capture(stream, KCU_CAPTURE_NONE);
	finish(other);
}

Test(capture, relaxed_mode_lets_unsafe_calls_pass)
{
	kcu_capture_mode mode = KCU_CAPTURE_MODE_RELAXED;
	kcu_capture_status status;
	kcu_stream stream;

	start("");
	stream = stream_new();
	ctl->set_capture(stream, KCU_CAPTURE_ACTIVE);
	ok(cu.thread_exchange_capture_mode(&mode));
	cr_expect_eq(mode, KCU_CAPTURE_MODE_GLOBAL);
	dev_alloc(1);
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_ACTIVE);
	/* The capturing stream itself cannot be waited for in any mode. */
	is(KCU_E_STREAM_CAPTURE_UNSUPPORTED, cu.stream_synchronize(stream));
	ok(cu.stream_is_capturing(stream, &status));
	cr_expect_eq(status, KCU_CAPTURE_INVALIDATED);
	ok(cu.thread_exchange_capture_mode(&mode));
	cr_expect_eq(mode, KCU_CAPTURE_MODE_RELAXED);
	mode = 3;
	is(KCU_E_INVALID_VALUE, cu.thread_exchange_capture_mode(&mode));
}

Test(capture, who_waits_for_captured_work_joins)
{
	kcu_capture_mode mode = KCU_CAPTURE_MODE_RELAXED;
	kcu_capture_status status;
	kcu_stream one, two;
	kcu_event event;

	start("");
	ok(cu.thread_exchange_capture_mode(&mode));
	one = stream_new();
	two = stream_new();
	event = event_new();
	ctl->set_capture(one, KCU_CAPTURE_ACTIVE);
	record(event, one);
	is(KCU_E_CAPTURED_EVENT, cu.event_query(event));
	is(KCU_E_CAPTURED_EVENT, cu.event_synchronize(event));
	wait_for(two, event);
	ok(cu.stream_is_capturing(two, &status));
	cr_expect_eq(status, KCU_CAPTURE_ACTIVE);
}
