// SPDX-License-Identifier: Apache-2.0
/*
 * Events. Each recording is an object of its own, so that whoever waits for one is not confused
 * when the event is recorded again. An event that was never recorded is complete.
 */
#include "internal.h"

static void sw_record_put(struct sw_record *record)
{
	if (record && !--record->refs)
		free(record);
}

static struct sw_event *event_of(kcu_event handle)
{
	return sw_object(SW_T_EVENT, (u64)handle);
}

static kcu_result create(kcu_event *handle, unsigned int flags)
{
	struct sw_event *event;

	if (!handle || flags & ~7u ||
	    (flags & KCU_EVENT_INTERPROCESS && !(flags & KCU_EVENT_DISABLE_TIMING)))
		return KCU_E_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return KCU_E_OUT_OF_MEMORY;
	*event = (struct sw_event){ .dev = sw_current(), .flags = flags };
	event->handle = sw_object_add(SW_T_EVENT, event);
	if (!event->handle) {
		free(event);
		return KCU_E_OUT_OF_MEMORY;
	}
	sw.live.nr_events++;
	*handle = (kcu_event)event->handle;
	return KCU_E_SUCCESS;
}

kcu_result cuEventCreate(kcu_event *event, unsigned int flags)
{
	return SW_RUN(cuEventCreate, SW_INIT | SW_CTX, create(event, flags));
}

static void event_free(struct sw_event *event)
{
	sw_object_del(event->handle);
	sw_record_put(event->record);
	free(event);
	sw.live.nr_events--;
}

static kcu_result destroy(kcu_event handle)
{
	struct sw_event *event = event_of(handle);

	if (!event)
		return KCU_E_INVALID_HANDLE;
	event_free(event);
	return KCU_E_SUCCESS;
}

kcu_result cuEventDestroy_v2(kcu_event event)
{
	return SW_RUN(cuEventDestroy_v2, SW_INIT | SW_CTX, destroy(event));
}

/* ---- Recording and waiting on a stream ---- */

struct record_op {
	struct sw_op op;
	struct sw_record *record;
};

static bool record_step(struct sw_op *op)
{
	struct sw_record *record = container_of(op, struct record_op, op)->record;

	record->clock = op->stream->clock;
	record->ns = op->stream->ns;
	record->done = true;
	return true;
}

/* Done in any case: nobody may hang on a stream that failed. */
static void record_drop(struct sw_op *op)
{
	struct sw_record *record = container_of(op, struct record_op, op)->record;

	record->done = true;
	sw_record_put(record);
}

static const struct sw_op_ops record_ops = {
	.name	= "event record",
	.step	= record_step,
	.drop	= record_drop,
};

static bool wait_ready(struct sw_op *op)
{
	return container_of(op, struct record_op, op)->record->done;
}

static bool wait_step(struct sw_op *op)
{
	struct sw_record *record = container_of(op, struct record_op, op)->record;
	struct sw_stream *stream = op->stream;

	sw_clock_join(&stream->clock, &record->clock);
	stream->ns = max(stream->ns, record->ns);
	return true;
}

static void wait_drop(struct sw_op *op)
{
	sw_record_put(container_of(op, struct record_op, op)->record);
}

static const struct sw_op_ops wait_ops = {
	.name	= "event wait",
	.ready	= wait_ready,
	.step	= wait_step,
	.drop	= wait_drop,
};

static struct record_op *new_op(const struct sw_op_ops *ops, struct sw_record *record)
{
	struct record_op *op = sw_op_new(ops, sizeof(*op));

	if (!op)
		return NULL;
	op->record = record;
	record->refs++;
	return op;
}

static kcu_result queue_record(struct sw_event *event, struct sw_stream *stream)
{
	struct sw_record *record = calloc(1, sizeof(*record));
	struct record_op *op = record ? new_op(&record_ops, record) : NULL;

	if (!op) {
		free(record);
		return KCU_E_OUT_OF_MEMORY;
	}
	sw_record_put(event->record);
	event->record = record;
	record->refs++;
	return sw_queue(stream, &op->op, SW_cuEventRecord);
}

static kcu_result record(kcu_event handle, kcu_stream stream_handle)
{
	struct sw_event *event = event_of(handle);
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(stream_handle, &stream);

	if (rc)
		return rc;
	if (!event || event->dev != stream->dev)
		return KCU_E_INVALID_HANDLE;
	event->captured = stream->capture == KCU_CAPTURE_ACTIVE;
	return queue_record(event, stream);
}

kcu_result cuEventRecord(kcu_event event, kcu_stream stream)
{
	return SW_RUN(cuEventRecord, SW_INIT | SW_CTX, record(event, stream));
}

kcu_result cuEventRecordWithFlags(kcu_event event, kcu_stream stream, unsigned int flags)
{
	return SW_RUN(cuEventRecordWithFlags, SW_INIT | SW_CTX,
		      flags & ~1u ? KCU_E_INVALID_VALUE : record(event, stream));
}

int sw_order(struct sw_stream *later, struct sw_stream *earlier)
{
	struct sw_record *record = calloc(1, sizeof(*record));
	struct record_op *from = record ? new_op(&record_ops, record) : NULL;
	struct record_op *to = from ? new_op(&wait_ops, record) : NULL;

	if (!to) {
		if (from)
			sw_op_free(&from->op);
		else
			free(record);
		return -ENOMEM;
	}
	sw_append(earlier, &from->op);
	sw_append(later, &to->op);
	return 0;
}

static kcu_result stream_wait(kcu_stream stream_handle, kcu_event handle, unsigned int flags)
{
	struct sw_event *event = event_of(handle);
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(stream_handle, &stream);
	struct record_op *op;

	if (rc)
		return rc;
	if (!event)
		return KCU_E_INVALID_HANDLE;
	if (flags)
		return KCU_E_INVALID_VALUE;
	/* Who waits for captured work joins the capture. */
	if (event->captured)
		stream->capture = KCU_CAPTURE_ACTIVE;
	if (!event->record)
		return KCU_E_SUCCESS;
	op = new_op(&wait_ops, event->record);
	return op ? sw_queue(stream, &op->op, SW_cuStreamWaitEvent) : KCU_E_OUT_OF_MEMORY;
}

kcu_result cuStreamWaitEvent(kcu_stream stream, kcu_event event, unsigned int flags)
{
	return SW_RUN(cuStreamWaitEvent, SW_INIT | SW_CTX, stream_wait(stream, event, flags));
}

/* ---- Asking from the host ---- */

static kcu_result saw(const struct sw_event *event, const struct sw_record *record)
{
	kcu_result rc = sw_dev_error(event->dev);

	if (!rc && record)
		sw_host_saw(&record->clock, record->ns);
	return rc;
}

static kcu_result query(kcu_event handle)
{
	struct sw_event *event = event_of(handle);

	if (!event)
		return KCU_E_INVALID_HANDLE;
	if (event->captured)
		return KCU_E_CAPTURED_EVENT;
	sw_steps(1 + sw_below(8));
	/* Host functions ran without the lock. */
	event = event_of(handle);
	if (!event)
		return KCU_E_INVALID_HANDLE;
	if (event->record && !event->record->done)
		return sw_dev_error(event->dev) ?: KCU_E_NOT_READY;
	return saw(event, event->record);
}

kcu_result cuEventQuery(kcu_event event)
{
	return SW_RUN(cuEventQuery, SW_INIT | SW_CTX | SW_UNSAFE, query(event));
}

static bool is_done(void *record)
{
	return ((struct sw_record *)record)->done;
}

static kcu_result synchronize(kcu_event handle)
{
	struct sw_event *event = event_of(handle);
	struct sw_record *record;
	kcu_result rc;

	if (!event)
		return KCU_E_INVALID_HANDLE;
	if (event->captured)
		return KCU_E_CAPTURED_EVENT;
	record = event->record;
	if (!record)
		return KCU_E_SUCCESS;
	record->refs++;
	rc = sw_wait(is_done, record);
	event = event_of(handle);
	if (!rc)
		rc = event ? saw(event, record) : KCU_E_INVALID_HANDLE;
	sw_record_put(record);
	return rc;
}

kcu_result cuEventSynchronize(kcu_event event)
{
	return SW_RUN(cuEventSynchronize, SW_INIT | SW_CTX | SW_UNSAFE, synchronize(event));
}

static bool has_time(const struct sw_event *event)
{
	return event && !(event->flags & KCU_EVENT_DISABLE_TIMING) && event->record;
}

static kcu_result elapsed(float *ms, kcu_event from, kcu_event to)
{
	struct sw_event *start = event_of(from), *end = event_of(to);

	if (!ms)
		return KCU_E_INVALID_VALUE;
	if (!has_time(start) || !has_time(end) || start->dev != end->dev)
		return KCU_E_INVALID_HANDLE;
	if (!start->record->done || !end->record->done)
		return KCU_E_NOT_READY;
	*ms = ((double)end->record->ns - (double)start->record->ns) / 1e6;
	return KCU_E_SUCCESS;
}

kcu_result cuEventElapsedTime(float *ms, kcu_event start, kcu_event end)
{
	return SW_RUN(cuEventElapsedTime, SW_INIT | SW_CTX, elapsed(ms, start, end));
}

kcu_result cuEventElapsedTime_v2(float *ms, kcu_event start, kcu_event end)
{
	return SW_RUN(cuEventElapsedTime_v2, SW_INIT | SW_CTX, elapsed(ms, start, end));
}

static void forget_event(enum sw_type type, void *object)
{
	if (type == SW_T_EVENT)
		event_free(object);
}

void sw_events_exit(void)
{
	sw_for_each_object(forget_event);
}
