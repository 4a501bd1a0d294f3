// SPDX-License-Identifier: Apache-2.0
/* What is common to all exported calls: counting, faults, who may call what and when. */
#include <unistd.h>

#include "internal.h"

#define CALL_NS		500		/* of the virtual clock; about what a cheap call costs */

static const struct call {
	const char *name;
	int version;
} calls[SW_NR_CALLS] = {
#define NAME(field, name, type, version)	[SW_##name] = { #name, version },
	SW_ALL(NAME)
};

static __thread bool in_callback;
static __thread kcu_capture_mode capture_mode = KCU_CAPTURE_MODE_GLOBAL;

int sw_call_version(u32 call)
{
	return calls[call].version;
}

int sw_call_find(const char *name, u32 len)
{
	for (u32 i = 0; i < SW_NR_CALLS; i++)
		if (strlen(calls[i].name) == len && !memcmp(calls[i].name, name, len))
			return i;
	return -ENOENT;
}

void sw_callback_begin(void)
{
	in_callback = true;
}

void sw_callback_end(void)
{
	in_callback = false;
}

/* Calls that may upset a capture invalidate it, whichever thread makes them. */
static kcu_result capture_refuses(void)
{
	struct sw_stream *stream = sw_capturing();

	if (!stream || capture_mode == KCU_CAPTURE_MODE_RELAXED)
		return KCU_E_SUCCESS;
	stream->capture = KCU_CAPTURE_INVALIDATED;
	return KCU_E_STREAM_CAPTURE_UNSUPPORTED;
}

/* What work failed with is told to the call that comes next, unless there it would say something else. */
static bool would_mean_itself(enum sw_call call, kcu_result pending)
{
	return pending == KCU_E_OUT_OF_MEMORY &&
	       (call == SW_cuMemAlloc_v2 || call == SW_cuMemHostAlloc || call == SW_cuMemAllocHost_v2 ||
		call == SW_cuMemHostRegister_v2);
}

static kcu_result context_refuses(enum sw_call call)
{
	struct sw_dev *dev = sw_current();

	if (!dev)
		return KCU_E_INVALID_CONTEXT;
	return !dev->sticky && would_mean_itself(call, dev->pending) ? KCU_E_SUCCESS : sw_dev_error(dev);
}

static kcu_result refusal(enum sw_call call, u32 need)
{
	kcu_result rc = sw_fault_now(call);

	/* Only a fatal one stays: what is said to be lost is, whichever call was to say so. */
	if (rc && need)
		return sw_lose(need & SW_CTX ? sw_current() : NULL, rc);
	if (!rc && need && !sw.pid)
		rc = KCU_E_NOT_INITIALIZED;
	if (!rc && need & SW_CTX)
		rc = context_refuses(call);
	if (!rc && need & SW_UNSAFE)
		rc = capture_refuses();
	return rc;
}

static bool forked(void)
{
	int pid = __atomic_load_n(&sw.pid, __ATOMIC_RELAXED);

	return pid && pid != getpid();
}

/* Takes the lock unless it refuses. A forked child has no driver, and a lock of unknown state. */
kcu_result sw_enter(enum sw_call call, u32 need)
{
	kcu_result rc;

	if (in_callback) {
		sw_report(SW_REPORT_MISUSE, "%s() called by a host function", calls[call].name);
		return KCU_E_NOT_PERMITTED;
	}
	if (need && forked())
		return KCU_E_NOT_INITIALIZED;
	sw_lock();
	sw.count.host_ns += CALL_NS;
	rc = refusal(call, need);
	if (rc)
		sw_unlock();
	return rc;
}

kcu_result sw_leave(kcu_result rc)
{
	sw_unlock();
	return rc;
}

kcu_result cuThreadExchangeStreamCaptureMode(kcu_capture_mode *mode)
{
	kcu_capture_mode old = capture_mode;
	kcu_result rc = sw_enter(SW_cuThreadExchangeStreamCaptureMode, SW_INIT);

	if (rc)
		return rc;
	if (!mode || *mode > KCU_CAPTURE_MODE_RELAXED)
		return sw_leave(KCU_E_INVALID_VALUE);
	capture_mode = *mode;
	*mode = old;
	return sw_leave(KCU_E_SUCCESS);
}
