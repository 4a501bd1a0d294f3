// SPDX-License-Identifier: Apache-2.0
/* The checker: what is unordered is reported, what is ordered is not; runs repeat themselves. */
#include "tests/swcuda/driver.h"

#define BYTES	10000

/* Two streams, two pieces of memory, an event. */
static kcu_stream one, two;
static kcu_deviceptr a, b;
static kcu_event event;

static void setup(const char *options)
{
	start(options);
	one = stream_new();
	two = stream_new();
	a = dev_alloc(BYTES);
	b = dev_alloc(BYTES);
	event = event_new();
}

static void finish_both(void)
{
	finish(one);
	finish(two);
}

Test(race, write_and_write)
{
	setup("");
	fill(a, 1, BYTES, one);
	fill(a, 1, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 1, "equal bytes do not make it right");
}

Test(race, write_and_read)
{
	setup("");
	fill(a, 1, BYTES, one);
	copy(b, a, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 1);
}

Test(race, read_and_write)
{
	setup("");
	copy(b, a, BYTES, one);
	finish(one);
	/* The host has seen the first; the second stream has not, but is queued after that. */
	fill(a, 1, BYTES, two);
	finish(two);
	cr_expect_eq(races(), 0);
	copy(b, a, 10, one);
	fill(a, 1, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 1);
}

Test(race, reads_do_not_race)
{
	setup("");
	copy(b, a, 5000, one);
	copy(b + 5000, a, 5000, two);
	finish_both();
	cr_expect_eq(races(), 0);
}

Test(race, a_write_must_be_after_every_read)
{
	setup("");
	copy(b, a, 5000, one);
	copy(b + 5000, a, 5000, two);
	record(event, two);
	wait_for(one, event);
	fill(a, 1, BYTES, one);
	finish_both();
	cr_expect_eq(races(), 0);
	copy(b, a, 5000, one);
	copy(b + 5000, a, 5000, two);
	fill(a, 1, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 1, "of three accesses two are in one stream");
}

Test(race, neighbours_do_not_race)
{
	setup("");
	fill(a, 1, 777, one);
	fill(a + 777, 1, 1, two);
	fill(a + 778, 1, 1000, one);
	finish_both();
	cr_expect_eq(races(), 0);
	fill(a, 1, 778, one);
	fill(a + 777, 1, 1, two);
	finish_both();
	cr_expect_eq(races(), 1, "one byte is enough");
}

Test(race, an_event_orders)
{
	setup("");
	fill(a, 1, BYTES, one);
	record(event, one);
	wait_for(two, event);
	copy(b, a, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 0);
}

Test(race, an_event_recorded_too_early_does_not)
{
	setup("");
	record(event, one);
	fill(a, 1, BYTES, one);
	wait_for(two, event);
	copy(b, a, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 1);
}

Test(race, a_wait_after_the_read_does_not)
{
	setup("");
	fill(a, 1, BYTES, one);
	record(event, one);
	copy(b, a, BYTES, two);
	wait_for(two, event);
	finish_both();
	cr_expect_eq(races(), 1);
}

Test(race, order_is_passed_on)
{
	kcu_stream three;
	kcu_event next;

	setup("");
	three = stream_new();
	next = event_new();
	fill(a, 1, BYTES, one);
	record(event, one);
	wait_for(two, event);
	record(next, two);
	wait_for(three, next);
	fill(a, 2, BYTES, three);
	finish_both();
	finish(three);
	cr_expect_eq(races(), 0);
}

/* A stream that the host has waited for is before all that the host queues then. */
Test(race, the_host_orders_by_waiting)
{
	setup("");
	fill(a, 1, BYTES, one);
	record(event, one);
	ok(cu.event_synchronize(event));
	fill(a, 2, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 0);
	fill(a, 3, BYTES, one);
	while (cu.stream_query(one))
		;
	fill(a, 4, BYTES, two);
	finish_both();
	cr_expect_eq(races(), 0);
}

/* Work that was queued before the host waited for another is not after that. */
Test(race, waiting_later_does_not_order_what_is_queued)
{
	setup("");
	fill(a, 1, BYTES, one);
	fill(a, 2, BYTES, two);
	finish(one);
	finish(two);
	cr_expect_eq(races(), 1);
}

Test(race, a_report_says_who_and_where)
{
	const char *text;

	setup("");
	fill(a + 100, 1, 50, one);
	copy(b, a, BYTES, two);
	finish_both();
	text = ctl->report(0);
	cr_assert_not_null(text);
	cr_expect_not_null(strstr(text, "fill #1 on stream 1 writes"), "%s", text);
	cr_expect_not_null(strstr(text, "copy #2 on stream 2 reads"), "%s", text);
	cr_expect_not_null(strstr(text, "device 0 + 0x64, 50 bytes"), "%s", text);
	cr_expect_null(ctl->report(1));
	ctl->clear_reports();
	cr_expect_eq(races(), 0);
	cr_expect_null(ctl->report(0));
}

Test(race, reports_are_counted_beyond_what_is_kept)
{
	u32 nr = 0;

	setup("");
	for (int i = 0; i < 100; i++) {
		fill(a, 1, BYTES, one);
		fill(a, 1, BYTES, two);
		finish_both();
	}
	cr_expect_eq(races(), 100);
	while (ctl->report(nr))
		nr++;
	cr_expect_eq(nr, 64);
}

Test(race, the_host_can_be_part_of_it)
{
	u8 *host;

	setup("");
	host = host_alloc(BYTES);
	ok(cu.memcpy_dtoh_async(host, a, BYTES, one));
	ctl->run();
	ctl->host_access(host, 1, false);
	cr_expect_eq(races(), 1, "done, but nobody has told the host");
	ctl->clear_reports();
	finish(one);
	ctl->host_access(host, 1, false);
	cr_expect_eq(races(), 0);
	ctl->host_access(host, 1, true);
	ok(cu.memcpy_htod_async(a, host, BYTES, one));
	ctl->host_access(host, 1, true);
	finish(one);
	cr_expect_eq(races(), 1, "written after the copy was queued");
}

/* Freed without having been waited for, though the work happens to be done. */
Test(race, free_wants_order_too)
{
	setup("");
	fill(a, 1, BYTES, one);
	ctl->run();
	ok(cu.mem_free(a));
	cr_expect_eq(races(), 1);
	fill(b, 1, BYTES, one);
	finish(one);
	ok(cu.mem_free(b));
	cr_expect_eq(races(), 1);
}

/* New memory at an old place has no past. */
Test(race, freed_memory_is_forgotten)
{
	kcu_deviceptr again;

	setup("");
	fill(a, 1, BYTES, one);
	ctl->run();
	ok(cu.mem_free(a));
	ctl->clear_reports();
	again = dev_alloc(BYTES);
	fill(again, 1, BYTES, two);
	finish(two);
	cr_expect_eq(races(), 0);
}

/* ---- Repeating ---- */

static u64 trace_of(const char *options)
{
	struct sw_counters count;
	kcu_context ctx;

	ctl->reset(options);
	ok(cu.init(0));
	ok(cu.primary_ctx_retain(&ctx, 0));
	ok(cu.ctx_push_current(ctx));
	one = stream_new();
	two = stream_new();
	a = dev_alloc(BYTES);
	b = dev_alloc(BYTES);
	event = event_new();
	for (int i = 0; i < 20; i++) {
		fill(a, i, BYTES, one);
		copy(b, a, BYTES, two);
		if (i % 3 == 0)
			record(event, one);
		if (i % 5 == 0)
			wait_for(two, event);
		ctl->step();
		cu.event_query(event);
	}
	finish_both();
	ctl->counters(&count);
	cr_expect_gt(count.nr_steps, 100);
	cr_expect_eq(count.nr_done, count.nr_ops);
	return count.trace;
}

Test(trace, one_seed_one_run)
{
	u64 first, second;

	load("");
	first = trace_of("seed=5");
	second = trace_of("seed=6");
	cr_expect_neq(first, second);
	cr_expect_eq(trace_of("seed=5"), first);
	cr_expect_eq(trace_of("seed=6"), second);
	cr_expect_eq(trace_of("seed=6,eager=1"), trace_of("seed=6,eager=1"));
}
