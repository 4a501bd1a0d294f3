// SPDX-License-Identifier: Apache-2.0
/*
 * Streams: queues of operations. Calls that have no stream use the NULL stream, which waits for all
 * blocking streams of its context, as they wait for it. By name it is refused, since the library must
 * never use it, unless default_stream=1.
 */
#include "internal.h"

#define MOST_URGENT	-5

/* ---- Operations ---- */

void *sw_op_new(const struct sw_op_ops *ops, size_t bytes)
{
	struct sw_op *op = calloc(1, bytes);

	if (!op)
		return NULL;
	op->ops = ops;
	op->what = ops->name;
	op->engine = -1;
	return op;
}

void sw_op_free(struct sw_op *op)
{
	if (op->ops->drop)
		op->ops->drop(op);
	free(op);
}

u64 sw_copy_ns(u64 bytes, u32 gbps)
{
	return bytes / gbps;		/* 1 GB/s is one byte in a nanosecond */
}

void sw_append(struct sw_stream *stream, struct sw_op *op)
{
	op->stream = stream;
	op->seq = ++sw.count.nr_ops;
	op->queued_ns = sw.count.host_ns;
	/* What the host does from here on is not ordered before the operation. */
	op->host = sw.host;
	sw.host.t[SW_HOST_SLOT]++;
	*stream->last = op;
	stream->last = &op->next;
	stream->ordered = false;
}

/* The NULL stream after all blocking ones, these after the NULL stream. */
static kcu_result order_legacy(struct sw_stream *stream)
{
	struct sw_stream *legacy = stream->dev->legacy;
	int err = 0;

	if (!legacy || stream->flags)
		return KCU_E_SUCCESS;
	if (stream != legacy)
		return sw_order(stream, legacy) ? KCU_E_OUT_OF_MEMORY : KCU_E_SUCCESS;
	for (u32 i = 1; i < SW_NR_SLOTS && !err; i++) {
		struct sw_stream *other = sw.stream[i];

		if (!other || other == legacy || other->dev != stream->dev || other->flags ||
		    other->ordered)
			continue;
		err = sw_order(legacy, other);
		other->ordered = !err;
	}
	return err ? KCU_E_OUT_OF_MEMORY : KCU_E_SUCCESS;
}

kcu_result sw_queue(struct sw_stream *stream, struct sw_op *op, enum sw_call call)
{
	if (stream->capture) {
		sw.count.nr_captured++;
		sw_op_free(op);
		return stream->capture == KCU_CAPTURE_ACTIVE ?
		       KCU_E_SUCCESS : KCU_E_STREAM_CAPTURE_INVALIDATED;
	}
	if (order_legacy(stream)) {
		sw_op_free(op);
		return KCU_E_OUT_OF_MEMORY;
	}
	op->fault = sw_fault_async(call) ?: op->fault;
	sw_append(stream, op);
	sw_changed();
	if (sw.opt.eager)
		sw_steps(sw_below(4));
	return KCU_E_SUCCESS;
}

bool sw_in_use(u64 addr, u64 bytes, char *text, size_t text_bytes)
{
	struct sw_access_list list = { .find_addr = addr, .find_bytes = bytes };

	for (u32 i = 1; i < SW_NR_SLOTS; i++) {
		struct sw_op *op = sw.stream[i] ? sw.stream[i]->first : NULL;

		for (; op; op = op->next) {
			list.op = op;
			if (op->ops->touch)
				op->ops->touch(op, &list);
			if (!list.found)
				continue;
			snprintf(text, text_bytes, "%s #%llu on stream %u", op->what,
				 (unsigned long long)op->seq, op->stream->id);
			return true;
		}
	}
	return false;
}

/* ---- Streams ---- */

static bool is_special(kcu_stream handle)
{
	return !handle || handle == KCU_STREAM_LEGACY || handle == KCU_STREAM_PER_THREAD;
}

kcu_result sw_stream_get(kcu_stream handle, struct sw_stream **stream)
{
	if (sw.opt.default_stream && is_special(handle) && handle != KCU_STREAM_PER_THREAD) {
		*stream = sw_stream_legacy();
		return *stream ? KCU_E_SUCCESS : KCU_E_OUT_OF_MEMORY;
	}
	if (is_special(handle)) {
		sw_report(SW_REPORT_MISUSE, "default stream %p used", (void *)handle);
		return KCU_E_INVALID_HANDLE;
	}
	*stream = sw_object(SW_T_STREAM, (u64)handle);
	return *stream ? KCU_E_SUCCESS : KCU_E_INVALID_HANDLE;
}

kcu_result sw_stream_here(kcu_stream handle, struct sw_stream **stream)
{
	kcu_result rc = sw_stream_get(handle, stream);

	if (!rc && (*stream)->dev != sw_current())
		rc = KCU_E_INVALID_CONTEXT;
	return rc;
}

/*
 * The slot that was free for the longest time: what a stream did before it was destroyed counts
 * as ordered before all that the next owner of its slot does.
 */
static u32 free_slot(void)
{
	for (u32 i = 0; i < SW_NR_SLOTS; i++) {
		sw.last_slot = sw.last_slot % (SW_NR_SLOTS - 1) + 1;
		if (!sw.stream[sw.last_slot])
			return sw.last_slot;
	}
	return 0;
}

static struct sw_stream *new_stream(unsigned int flags, int priority)
{
	u32 slot = free_slot();
	struct sw_stream *stream = slot ? calloc(1, sizeof(*stream)) : NULL;

	if (!stream)
		return NULL;
	*stream = (struct sw_stream){
		.dev = sw_current(), .slot = slot, .flags = flags, .priority = priority,
	};
	stream->id = ++sw.nr_streams_made;
	stream->last = &stream->first;
	stream->clock = sw.host;
	stream->handle = sw_object_add(SW_T_STREAM, stream);
	if (!stream->handle || sw_worker_start(stream)) {
		if (stream->handle)
			sw_object_del(stream->handle);
		free(stream);
		return NULL;
	}
	sw.stream[slot] = stream;
	return stream;
}

struct sw_stream *sw_stream_legacy(void)
{
	struct sw_dev *dev = sw_current();

	if (!dev->legacy)
		dev->legacy = new_stream(0, 0);
	return dev->legacy;
}

/* A number out of range is taken for the lowest priority, or for the most urgent one. */
static kcu_result create(kcu_stream *handle, unsigned int flags, int priority)
{
	struct sw_stream *stream;

	if (!handle || flags & ~KCU_STREAM_NON_BLOCKING)
		return KCU_E_INVALID_VALUE;
	if (!flags && !sw.opt.default_stream)
		sw_report(SW_REPORT_MISUSE, "stream that waits for the NULL stream");
	stream = new_stream(flags, max(min(priority, 0), MOST_URGENT));
	if (!stream)
		return KCU_E_OUT_OF_MEMORY;
	sw.live.nr_streams++;
	*handle = (kcu_stream)stream->handle;
	return KCU_E_SUCCESS;
}

kcu_result cuStreamCreateWithPriority(kcu_stream *stream, unsigned int flags, int priority)
{
	return SW_RUN(cuStreamCreateWithPriority, SW_INIT | SW_CTX, create(stream, flags, priority));
}

kcu_result cuStreamCreate(kcu_stream *stream, unsigned int flags)
{
	return SW_RUN(cuStreamCreate, SW_INIT | SW_CTX, create(stream, flags, 0));
}

static kcu_result priorities(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = MOST_URGENT;
	return KCU_E_SUCCESS;
}

kcu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	return SW_RUN(cuCtxGetStreamPriorityRange, SW_INIT | SW_CTX, priorities(least, greatest));
}

/* What is known of a stream: to those of the three that are there. */
static kcu_result tell(kcu_stream handle, unsigned int *flags, int *priority, kcu_context *ctx)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);

	if (rc)
		return rc;
	if (!flags && !priority && !ctx)
		return KCU_E_INVALID_VALUE;
	if (flags)
		*flags = stream->flags;
	if (priority)
		*priority = stream->priority;
	if (ctx)
		*ctx = (kcu_context)stream->dev->context;
	return KCU_E_SUCCESS;
}

kcu_result cuStreamGetFlags(kcu_stream stream, unsigned int *flags)
{
	return SW_RUN(cuStreamGetFlags, SW_INIT | SW_CTX, tell(stream, flags, NULL, NULL));
}

kcu_result cuStreamGetPriority(kcu_stream stream, int *priority)
{
	return SW_RUN(cuStreamGetPriority, SW_INIT | SW_CTX, tell(stream, NULL, priority, NULL));
}

kcu_result cuStreamGetCtx(kcu_stream stream, kcu_context *ctx)
{
	return SW_RUN(cuStreamGetCtx, SW_INIT | SW_CTX, tell(stream, NULL, NULL, ctx));
}

/* Nobody can name it from here on; it goes away when its work is done. */
static kcu_result destroy(kcu_stream handle)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);

	if (rc)
		return rc;
	if (stream == stream->dev->legacy)
		return KCU_E_INVALID_HANDLE;
	sw_object_del(stream->handle);
	stream->dying = true;
	stream->capture = KCU_CAPTURE_NONE;
	sw.live.nr_streams--;
	sw_stream_reap(stream);
	sw_changed();
	return KCU_E_SUCCESS;
}

kcu_result cuStreamDestroy_v2(kcu_stream stream)
{
	return SW_RUN(cuStreamDestroy_v2, SW_INIT | SW_CTX, destroy(stream));
}

/* In threaded mode the worker does it, last of all. */
void sw_stream_reap(struct sw_stream *stream)
{
	if (!stream->dying || stream->first || stream->busy || stream->has_thread || stream->nr_waiters)
		return;
	if (sw.stream[stream->slot] == stream)
		sw.stream[stream->slot] = NULL;
	free(stream);
}

/* ---- Waiting for them ---- */

static bool is_idle(void *stream)
{
	return !((struct sw_stream *)stream)->first;
}

/* No longer waited for. Without an error, the host knows now that all is done. */
static kcu_result saw(struct sw_stream *stream, kcu_result rc)
{
	stream->nr_waiters--;
	sw_changed();
	if (!rc) {
		sw_host_saw(&stream->clock, stream->ns);
		rc = sw_dev_error(stream->dev);
	}
	sw_stream_reap(stream);
	return rc;
}

/* It may be destroyed meanwhile, or have been before. */
static kcu_result finish(struct sw_stream *stream)
{
	stream->nr_waiters++;
	return saw(stream, sw_wait(is_idle, stream));
}

/* Can it be asked? The NULL stream has done all when the blocking ones have, too. */
static kcu_result may_ask(struct sw_stream *stream)
{
	if (stream == stream->dev->legacy)
		return order_legacy(stream);
	if (!stream->capture)
		return KCU_E_SUCCESS;
	stream->capture = KCU_CAPTURE_INVALIDATED;
	return KCU_E_STREAM_CAPTURE_UNSUPPORTED;
}

kcu_result sw_stream_finish(kcu_stream handle)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);

	if (!rc)
		rc = may_ask(stream);
	if (!rc)
		rc = sw_dev_error(stream->dev);
	return rc ?: finish(stream);
}

kcu_result cuStreamSynchronize(kcu_stream stream)
{
	return SW_RUN(cuStreamSynchronize, SW_INIT | SW_CTX | SW_UNSAFE, sw_stream_finish(stream));
}

static kcu_result query(kcu_stream handle)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);

	if (!rc)
		rc = may_ask(stream);
	if (rc)
		return rc;
	stream->nr_waiters++;
	sw_steps(1 + sw_below(8));
	rc = sw_dev_error(stream->dev);
	if (!rc && stream->first)
		rc = KCU_E_NOT_READY;
	return saw(stream, rc);
}

kcu_result cuStreamQuery(kcu_stream stream)
{
	return SW_RUN(cuStreamQuery, SW_INIT | SW_CTX | SW_UNSAFE, query(stream));
}

/* Only what is queued now: the streams one after the other. */
static kcu_result finish_all(void)
{
	struct sw_dev *dev = sw_current();
	kcu_result rc = sw_dev_error(dev);

	for (u32 i = 1; i < SW_NR_SLOTS && !rc; i++) {
		struct sw_stream *stream = sw.stream[i];

		if (stream && stream->dev == dev)
			rc = stream->dying ? finish(stream) : sw_stream_finish((kcu_stream)stream->handle);
	}
	return rc;
}

kcu_result cuCtxSynchronize(void)
{
	return SW_RUN(cuCtxSynchronize, SW_INIT | SW_CTX | SW_UNSAFE, finish_all());
}

/* ---- Capture: only its effects on others; nothing is ever replayed ---- */

struct sw_stream *sw_capturing(void)
{
	for (u32 i = 1; i < SW_NR_SLOTS; i++)
		if (sw.stream[i] && sw.stream[i]->capture == KCU_CAPTURE_ACTIVE)
			return sw.stream[i];
	return NULL;
}

static kcu_result is_capturing(kcu_stream handle, kcu_capture_status *status)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);

	if (rc)
		return rc;
	if (!status)
		return KCU_E_INVALID_VALUE;
	*status = stream->capture;
	return KCU_E_SUCCESS;
}

kcu_result cuStreamIsCapturing(kcu_stream stream, kcu_capture_status *status)
{
	return SW_RUN(cuStreamIsCapturing, SW_INIT | SW_CTX, is_capturing(stream, status));
}
