// SPDX-License-Identifier: Apache-2.0
/*
 * Captures: what the library must notice about a caller's stream, and what it must not upset.
 *
 * The library never captures, so its table has no call for it: the suite takes it from the driver
 * itself, or sets the state by the software driver's controls.
 */
#include <dlfcn.h>

#include <swcuda/control.h>

#include "check.h"

typedef kcu_result (*begin_fn)(kcu_stream stream, u32 mode);
typedef kcu_result (*end_fn)(kcu_stream stream, void **graph);
typedef kcu_result (*destroy_fn)(void *graph);

static void end_capture(u64 stream)
{
	end_fn end = (end_fn)dlsym(driver_library, "cuStreamEndCapture");
	destroy_fn destroy = (destroy_fn)dlsym(driver_library, "cuGraphDestroy");
	const struct kvmm_swcuda_control *soft = dlsym(driver_library, "kvmm_swcuda_control");
	void *graph = NULL;

	if (soft)
		soft->set_capture((kcu_stream)stream, KCU_CAPTURE_NONE);
	if (end && !end((kcu_stream)stream, &graph) && graph && destroy)
		destroy(graph);
}

/* In mode "global", the default of engines: unsafe calls of any thread end it. */
static kcu_stream capturing_stream(void)
{
	begin_fn begin = (begin_fn)dlsym(driver_library, "cuStreamBeginCapture_v2");
	const struct kvmm_swcuda_control *soft = dlsym(driver_library, "kvmm_swcuda_control");
	kcu_stream stream = new_stream();

	if (soft)
		that(!soft->set_capture(stream, KCU_CAPTURE_ACTIVE));
	else if (begin)
		must(begin(stream, KCU_CAPTURE_MODE_GLOBAL));
	else
		check_skip("no way to capture");
	at_end(end_capture, (u64)stream);
	return stream;
}

static kcu_capture_status status_of(kcu_stream stream)
{
	kcu_capture_status status = 99;

	must(cu->stream_is_capturing(stream, &status));
	return status;
}

static void fresh_stream_does_not_capture(void)
{
	that(status_of(new_stream()) == KCU_CAPTURE_NONE);
}

static void capture_is_seen(void)
{
	that(status_of(capturing_stream()) == KCU_CAPTURE_ACTIVE);
}

static void captured_work_is_not_done(void)
{
	kcu_deviceptr addr = device_memory(4096);
	kcu_stream stream;

	put_byte(addr, 4096, 1);
	stream = capturing_stream();
	must(cu->memset_d8_async(addr, 2, 4096, stream));
	end_capture((u64)stream);
	that(has_byte(addr, 4096, 1));
}

static void synchronise_ends_a_capture(void)
{
	kcu_stream stream = capturing_stream();
	kcu_result result = cu->stream_synchronize(stream);

	that(status_of(stream) == KCU_CAPTURE_INVALIDATED);
	answers(result, STREAM_CAPTURE_UNSUPPORTED);
}

static void query_ends_a_capture(void)
{
	kcu_stream stream = capturing_stream();
	kcu_result result = cu->stream_query(stream);

	that(status_of(stream) == KCU_CAPTURE_INVALIDATED);
	answers(result, STREAM_CAPTURE_UNSUPPORTED);
}

static void alloc_ends_a_capture(void)
{
	kcu_stream stream = capturing_stream();
	kcu_deviceptr addr = 0;
	kcu_result result = cu->mem_alloc(&addr, 4096);

	if (!result)
		cu->mem_free(addr);
	that(status_of(stream) == KCU_CAPTURE_INVALIDATED);
	answers(result, STREAM_CAPTURE_UNSUPPORTED);
}

/* What the library does around each of its own allocations. */
static void relaxed_alloc_leaves_it_alone(void)
{
	kcu_capture_mode mode = KCU_CAPTURE_MODE_RELAXED;
	kcu_stream stream = capturing_stream();
	kcu_deviceptr addr = 0;
	kcu_result alloc, release;

	must(cu->thread_exchange_capture_mode(&mode));
	alloc = cu->mem_alloc(&addr, 4096);
	release = alloc ? alloc : cu->mem_free(addr);
	must(cu->thread_exchange_capture_mode(&mode));
	must(alloc);
	must(release);
	that(status_of(stream) == KCU_CAPTURE_ACTIVE);
}

static void event_of_a_capture_has_no_state(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);
	kcu_capture_mode mode = KCU_CAPTURE_MODE_RELAXED;
	kcu_stream stream = capturing_stream();
	kcu_result result;

	must(cu->event_record(event, stream));
	must(cu->thread_exchange_capture_mode(&mode));
	result = cu->event_query(event);
	must(cu->thread_exchange_capture_mode(&mode));
	answers(result, CAPTURED_EVENT);
}

static void mode_is_exchanged(void)
{
	kcu_capture_mode mode = KCU_CAPTURE_MODE_RELAXED;

	must(cu->thread_exchange_capture_mode(&mode));
	that(mode == KCU_CAPTURE_MODE_GLOBAL);
	must(cu->thread_exchange_capture_mode(&mode));
	that(mode == KCU_CAPTURE_MODE_RELAXED);
}

static void mode_that_there_is_not(void)
{
	kcu_capture_mode mode = 77;

	answers(cu->thread_exchange_capture_mode(&mode), INVALID_VALUE);
}

#define CHECK(name)	{ "capture." #name, name, 0, 0 }
const struct check checks_capture[] = {
	CHECK(fresh_stream_does_not_capture),
	CHECK(capture_is_seen),
	CHECK(captured_work_is_not_done),
	CHECK(synchronise_ends_a_capture),
	CHECK(query_ends_a_capture),
	CHECK(alloc_ends_a_capture),
	CHECK(relaxed_alloc_leaves_it_alone),
	CHECK(event_of_a_capture_has_no_state),
	CHECK(mode_is_exchanged),
	CHECK(mode_that_there_is_not),
	{ NULL, NULL, 0, 0 },
};
