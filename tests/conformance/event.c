// SPDX-License-Identifier: Apache-2.0
/* Events: the only order between streams, and the only time that a device tells. */
#include "check.h"

#define BYTES	65536u

static void unrecorded_event_is_complete(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);

	must(cu->event_synchronize(event));
	answers(cu->event_query(event), SUCCESS);
}

static void unrecorded_event_holds_nobody_up(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_deviceptr addr = device_memory(BYTES);
	kcu_stream stream = new_stream();

	put_byte(addr, BYTES, 1);
	must(cu->stream_wait_event(stream, event, 0));
	must(cu->memset_d8_async(addr, 2, BYTES, stream));
	must(cu->stream_synchronize(stream));
	that(has_byte(addr, BYTES, 2));
}

static void event_is_complete_when_the_work_before_it_is(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_deviceptr addr = device_memory(BYTES);
	kcu_stream stream = new_stream();
	struct gate gate;

	put_byte(addr, BYTES, 1);
	gate = closed_gate(stream);
	must(cu->memset_d8_async(addr, 2, BYTES, stream));
	must(cu->event_record(event, stream));
	for (u32 i = 0; i < 50; i++)
		that(cu->event_query(event) == KCU_E_NOT_READY);
	open_gate(gate);
	must(cu->event_synchronize(event));
	must(cu->event_query(event));
	that(has_byte(addr, BYTES, 2));
}

static void event_does_not_wait_for_later_work(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_stream stream = new_stream();
	struct gate gate;

	must(cu->event_record(event, stream));
	gate = closed_gate(stream);
	must(cu->event_synchronize(event));
	that(cu->stream_query(stream) == KCU_E_NOT_READY);
	open_gate(gate);
	must(cu->stream_synchronize(stream));
}

/* The bug behind most silent corruption: without the edge the copy reads too early. */
static void waiting_stream_sees_what_came_before_the_event(void)
{
	kcu_deviceptr from = device_memory(BYTES), to = device_memory(BYTES);
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_stream writer = new_stream(), reader = new_stream();
	struct gate gate;

	put_byte(from, BYTES, 1);
	put_byte(to, BYTES, 0);
	gate = closed_gate(writer);
	must(cu->memset_d8_async(from, 2, BYTES, writer));
	must(cu->event_record(event, writer));
	must(cu->stream_wait_event(reader, event, 0));
	must(cu->memcpy_dtod_async(to, from, BYTES, reader));
	for (u32 i = 0; i < 50; i++)
		that(cu->stream_query(reader) == KCU_E_NOT_READY);
	open_gate(gate);
	must(cu->stream_synchronize(reader));
	that(has_byte(to, BYTES, 2));
}

/* Recorded again, the event stands for something else; who waited before waits for the first. */
static void waiter_keeps_the_record_it_waits_for(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_stream first = new_stream(), second = new_stream(), waiter = new_stream();
	struct gate first_gate = closed_gate(first), second_gate = closed_gate(second);

	must(cu->event_record(event, first));
	must(cu->stream_wait_event(waiter, event, 0));
	must(cu->event_record(event, second));
	that(cu->stream_query(waiter) == KCU_E_NOT_READY);
	open_gate(first_gate);
	must(cu->stream_synchronize(waiter));
	that(cu->event_query(event) == KCU_E_NOT_READY);
	open_gate(second_gate);
	must(cu->event_synchronize(event));
}

static void destroyed_event_still_holds_its_waiters(void)
{
	kcu_stream first = new_stream(), waiter = new_stream();
	struct gate gate = closed_gate(first);
	kcu_event event;

	must(cu->event_create(&event, KCU_EVENT_DISABLE_TIMING));
	must(cu->event_record(event, first));
	must(cu->stream_wait_event(waiter, event, 0));
	must(cu->event_destroy(event));
	that(cu->stream_query(waiter) == KCU_E_NOT_READY);
	open_gate(gate);
	must(cu->stream_synchronize(waiter));
}

static void create_with_unknown_flags(void)
{
	kcu_event event;

	answers(cu->event_create(&event, 0x100), INVALID_VALUE);
}

static void interprocess_event_must_have_no_time(void)
{
	kcu_event event;

	answers(cu->event_create(&event, KCU_EVENT_INTERPROCESS), INVALID_VALUE);
}

/* ---- time ---- */

static void time_passes_between_events(void)
{
	kcu_event start = new_event(0), end = new_event(0);
	kcu_deviceptr from = device_memory(1u << 24), to = device_memory(1u << 24);
	kcu_stream stream = new_stream();
	float there = -1, back = 1;

	must(cu->event_record(start, stream));
	for (u32 i = 0; i < 10; i++)
		must(cu->memcpy_dtod_async(to, from, 1u << 24, stream));
	must(cu->event_record(end, stream));
	must(cu->event_synchronize(end));
	must(cu->event_elapsed_time(&there, start, end));
	must(cu->event_elapsed_time(&back, end, start));
	that(there > 0 && there < 60000);
	that(back < 0);
}

static void time_to_an_unfinished_event(void)
{
	kcu_event start = new_event(0), end = new_event(0);
	kcu_stream stream = new_stream();
	kcu_result result;
	struct gate gate;
	float ms;

	must(cu->event_record(start, stream));
	gate = closed_gate(stream);
	must(cu->event_record(end, stream));
	result = cu->event_elapsed_time(&ms, start, end);
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	answers(result, NOT_READY);
}

static void time_of_an_unrecorded_event(void)
{
	kcu_event start = new_event(0), end = new_event(0);
	kcu_stream stream = new_stream();
	float ms;

	must(cu->event_record(end, stream));
	must(cu->event_synchronize(end));
	answers(cu->event_elapsed_time(&ms, start, end), INVALID_HANDLE);
}

static void time_of_an_event_without(void)
{
	kcu_event start = new_event(0), end = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_stream stream = new_stream();
	float ms;

	must(cu->event_record(start, stream));
	must(cu->event_record(end, stream));
	must(cu->stream_synchronize(stream));
	answers(cu->event_elapsed_time(&ms, start, end), INVALID_HANDLE);
}

#define CHECK(name)	{ "event." #name, name, 0, 0 }
const struct check checks_event[] = {
	CHECK(unrecorded_event_is_complete),
	CHECK(unrecorded_event_holds_nobody_up),
	CHECK(event_is_complete_when_the_work_before_it_is),
	CHECK(event_does_not_wait_for_later_work),
	CHECK(waiting_stream_sees_what_came_before_the_event),
	CHECK(waiter_keeps_the_record_it_waits_for),
	CHECK(destroyed_event_still_holds_its_waiters),
	CHECK(create_with_unknown_flags),
	CHECK(interprocess_event_must_have_no_time),
	CHECK(time_passes_between_events),
	CHECK(time_to_an_unfinished_event),
	CHECK(time_of_an_unrecorded_event),
	CHECK(time_of_an_event_without),
	{ NULL, NULL, 0, 0 },
};
