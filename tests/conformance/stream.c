// SPDX-License-Identifier: Apache-2.0
/* Streams: order inside one, none between two, host functions, waiting. */
#include "check.h"

#define BYTES	65536u

static void work_of_a_stream_runs_in_order(void)
{
	kcu_deviceptr one = device_memory(BYTES), two = device_memory(BYTES);
	void *seen = pinned_memory(BYTES);
	kcu_stream stream = new_stream();

	memset(seen, 0, BYTES);
	for (u32 i = 1; i <= 20; i++) {
		must(cu->memset_d8_async(one, i, BYTES, stream));
		must(cu->memcpy_dtod_async(two, one, BYTES, stream));
		must(cu->memset_d8_async(one, 0xff, BYTES, stream));
	}
	must(cu->memcpy_dtoh_async(seen, two, BYTES, stream));
	must(cu->stream_synchronize(stream));
	that(is_byte(seen, BYTES, 20));
}

static void query_says_whether_work_is_left(void)
{
	kcu_deviceptr addr = device_memory(BYTES);
	kcu_stream stream = new_stream();
	struct gate gate;

	put_byte(addr, BYTES, 1);
	must(cu->stream_query(stream));
	gate = closed_gate(stream);
	must(cu->memset_d8_async(addr, 2, BYTES, stream));
	for (u32 i = 0; i < 50; i++)
		that(cu->stream_query(stream) == KCU_E_NOT_READY);
	that(has_byte(addr, BYTES, 1));
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	must(cu->stream_query(stream));
	that(has_byte(addr, BYTES, 2));
}

static void streams_do_not_wait_for_each_other(void)
{
	kcu_deviceptr one = device_memory(BYTES), two = device_memory(BYTES);
	kcu_stream stuck = new_stream(), free_one = new_stream();
	struct gate gate;

	put_byte(one, BYTES, 1);
	put_byte(two, BYTES, 1);
	gate = closed_gate(stuck);
	must(cu->memset_d8_async(one, 2, BYTES, stuck));
	must(cu->memset_d8_async(two, 2, BYTES, free_one));
	must(cu->stream_synchronize(free_one));
	that(has_byte(two, BYTES, 2) && has_byte(one, BYTES, 1));
	open_gate(gate);
	must(cu->stream_synchronize(stuck));
	that(has_byte(one, BYTES, 2));
}

static void priorities_out_of_range_are_brought_in(void)
{
	kcu_deviceptr addr = device_memory(BYTES);
	kcu_stream stream;

	must(cu->stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING,
					     KCU_PRIORITY_LOWEST));
	must(cu->memset_d8_async(addr, 3, BYTES, stream));
	must(cu->stream_synchronize(stream));
	must(cu->stream_destroy(stream));
	that(has_byte(addr, BYTES, 3));
}

static void create_with_unknown_flags(void)
{
	kcu_stream stream;

	answers(cu->stream_create_with_priority(&stream, 0x100, 0), INVALID_VALUE);
}

static void create_into_null(void)
{
	answers(cu->stream_create_with_priority(NULL, KCU_STREAM_NON_BLOCKING, 0),
		INVALID_VALUE);
}

static void destroyed_stream_finishes_its_work(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_deviceptr addr = device_memory(BYTES);
	kcu_stream stream;

	put_byte(addr, BYTES, 1);
	must(cu->stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, 0));
	for (u32 i = 0; i < 100; i++)
		must(cu->memset_d8_async(addr, i, BYTES, stream));
	must(cu->event_record(event, stream));
	must(cu->stream_destroy(stream));
	must(cu->event_synchronize(event));
	that(has_byte(addr, BYTES, 99));
}

/* ---- host functions ---- */

struct note {
	const u8 *buf;
	u32 nr_calls;
	u8 seen[3];
};

static void take_note(void *arg)
{
	struct note *note = arg;

	if (note->nr_calls < ARRAY_SIZE(note->seen))
		note->seen[note->nr_calls] = note->buf[BYTES - 1];
	note->nr_calls++;
}

static void host_function_runs_between_what_is_around_it(void)
{
	kcu_deviceptr addr = device_memory(BYTES);
	u8 *buf = pinned_memory(BYTES);
	struct note note = { .buf = buf };
	kcu_stream stream = new_stream();

	memset(buf, 0, BYTES);
	for (u32 i = 1; i <= 3; i++) {
		must(cu->memset_d8_async(addr, 10 * i, BYTES, stream));
		must(cu->memcpy_dtoh_async(buf, addr, BYTES, stream));
		must(cu->launch_host_func(stream, take_note, &note));
	}
	must(cu->stream_synchronize(stream));
	that(note.nr_calls == 3);
	that(note.seen[0] == 10 && note.seen[1] == 20 && note.seen[2] == 30);
}

static void host_function_that_is_none(void)
{
	answers(cu->launch_host_func(new_stream(), NULL, NULL), INVALID_VALUE);
}

#define CHECK(name)	{ "stream." #name, name, 0, 0 }
const struct check checks_stream[] = {
	CHECK(work_of_a_stream_runs_in_order),
	CHECK(query_says_whether_work_is_left),
	CHECK(streams_do_not_wait_for_each_other),
	CHECK(priorities_out_of_range_are_brought_in),
	CHECK(create_with_unknown_flags),
	CHECK(create_into_null),
	CHECK(destroyed_stream_finishes_its_work),
	CHECK(host_function_runs_between_what_is_around_it),
	CHECK(host_function_that_is_none),
	{ NULL, NULL, 0, 0 },
};
