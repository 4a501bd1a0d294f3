// SPDX-License-Identifier: Apache-2.0
/*
 * One GPU: finding out its properties, entering its context, and what happens when it fails.
 *
 * An engine shares the device with us. It has contexts current on its threads, captures graphs,
 * forks helpers, and is the likelier cause of a fault that we are the first to see. The rules that
 * follow from that stand in internal.h; this file keeps them.
 *
 * No locks: a device is fixed once created, but for the latch and the list of lines told, which
 * are atomic.
 */
#include <stdio.h>
#include <string.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "internal.h"

/* ---- failures ---- */

/*
 * By ordinal: pools open a device each for itself, and share its context. Devices with ordinals
 * that share a number doubt each other's work. A failure is not seen that a call of the engine was
 * told, nor, for the moment until it is counted, one that a call was told which may sleep
 * (kv_gpu_call_sleeps()).
 */
static struct {
	u64	nr_doubts;	/* atomic */
	u32	now;		/* atomic; 0 or 1: where calls that begin are counted */
	u32	nr_calls[2];	/* atomic; those under way */
} told[KV_GPU_DOUBTS] __cacheline_aligned;

/* A call takes microseconds, unless its thread has lost its core. */
#define CALL_SPINS	200u
#define CALL_SLEEP_NS	20000ull

static u64 *doubts_of(const struct kv_gpu *gpu)
{
	return &told[gpu->ordinal % KV_GPU_DOUBTS].nr_doubts;
}

u64 kv_gpu_doubts(const struct kv_gpu *gpu)
{
	return READ_ONCE(*doubts_of(gpu));
}

u32 *kv_gpu_enter_call(const struct kv_gpu *gpu)
{
	u32 i = gpu->ordinal % KV_GPU_DOUBTS, *nr = &told[i].nr_calls[READ_ONCE(told[i].now)];

	/* Seen by threads not told of a failure because this call was: the driver has a lock. */
	kv_fetch_add(nr, 1);
	return nr;
}

/* Each of the two counts comes to its end while new calls are counted in the other one. */
void kv_gpu_settle_calls(const struct kv_gpu *gpu)
{
	u32 i = gpu->ordinal % KV_GPU_DOUBTS, word = 0;

	for (u32 at = 0; at < 2; at++) {
		/* Acquire pairs with kv_gpu_leave_call(). */
		for (u32 spins = 0; smp_load_acquire(&told[i].nr_calls[at]); spins++) {
			WRITE_ONCE(told[i].now, !at);
			if (spins >= CALL_SPINS)
				kv_env()->wait(kv_env()->ctx, &word, 0, CALL_SLEEP_NS);
		}
	}
}

/*
 * Is it about this call, in spite of other work? NOT_READY is the answer of queries. Work that
 * runs fails with codes of its own (launches, addresses, hardware): want of memory is found out by
 * the call that asks for some. Of other calls it may be their work's, so it counts as any code.
 */
static bool is_own(enum kcu_call call, kcu_result result)
{
	switch (call) {
	case KCU_CALL_event_query:
	case KCU_CALL_stream_query:
		return result == KCU_E_NOT_READY;
	case KCU_CALL_mem_alloc:
	case KCU_CALL_mem_host_alloc:
	case KCU_CALL_mem_host_register:
		return result == KCU_E_OUT_OF_MEMORY;
	default:
		return call >= KCU_CALL_mem_address_reserve && call <= KCU_CALL_mem_retain_handle;
	}
}

static void doubt(struct kv_gpu *gpu, enum kcu_call call, kcu_result result)
{
	if (!is_own(call, result))
		kv_fetch_add(doubts_of(gpu), 1);
}

/* Streams run behind the host: the culprit may be any work in the context, the engine's too. */
static void latch(struct kv_gpu *gpu, enum kcu_call call, kcu_result result)
{
	/* At exit the driver goes before us, which is no reason for alarm. */
	int level = result == KCU_E_DEINITIALIZED ? KV_LOG_INFO : KV_LOG_ERR;

	/* Acquire is more than needed: the code is all there is, and it says itself that it is. */
	if (kv_xchg_acquire(&gpu->latching, 1))
		return;
	WRITE_ONCE(gpu->fatal, result);
	kv_log_why(level, "kvmm: gpu %d: %s (%d) observed at %s, device is lost", gpu->ordinal,
		   kcu_error_name(result), result, kcu_call_name(call));
}

/*
 * A failing call can be repeated for ever, as by a poll or by an allocation that is tried smaller
 * and smaller. Each (call, result) speaks once; two that share a slot share one line.
 */
int __kv_gpu_failed(struct kv_gpu *gpu, enum kcu_call call, kcu_result result)
{
	enum kcu_class class = kcu_class_of(result);
	u32 slot = ((u32)result * 71 + call) % KV_GPU_TOLD;

	doubt(gpu, call, result);
	if (class == KCU_FATAL)
		latch(gpu, call, result);
	else if (result != KCU_E_NOT_READY && !kv_xchg_acquire(&gpu->told[slot], 1))
		kv_log_why(class == KCU_SOFT ? KV_LOG_WARN : KV_LOG_INFO,
			   "kvmm: gpu %d: %s: %s (%d)", gpu->ordinal, kcu_call_name(call),
			   kcu_error_name(result), result);
	return kcu_errno(result);
}

/* ---- contexts and captures ---- */

/*
 * Past the latch: what was changed is the caller's thread, which outlives the device. A failure
 * here is no use to the caller, but may be that of earlier work. A child has no driver to tell.
 */
void kv_gpu_leave(struct kv_gpu *gpu, struct kv_gpu_scope *scope)
{
	kcu_context ours;

	if (kv_forked())
		return;
	if (scope->relaxed)
		kv_gpu_call_anyway(gpu, thread_exchange_capture_mode, &scope->mode);
	if (scope->pushed)
		kv_gpu_call_anyway(gpu, ctx_pop_current, &ours);
	*scope = (struct kv_gpu_scope){ 0 };
}

/* Past the latch, as above. */
static bool is_current(struct kv_gpu *gpu)
{
	kcu_context current = NULL;

	if (!kv_forked())
		kv_gpu_call_anyway(gpu, ctx_get_current, &current);
	return current == gpu->ctx;
}

/*
 * Here and in relax(): a call may report the failure of earlier work although it has done its own.
 * Then that has to be undone as well.
 */
int kv_gpu_enter(struct kv_gpu *gpu, struct kv_gpu_scope *scope)
{
	kcu_context current = NULL;
	int err;

	*scope = (struct kv_gpu_scope){ 0 };
	err = kv_gpu_call(gpu, ctx_get_current, &current);
	if (err || current == gpu->ctx)
		return err;
	err = kv_gpu_call(gpu, ctx_push_current, gpu->ctx);
	scope->pushed = !err || is_current(gpu);
	if (err)
		kv_gpu_leave(gpu, scope);
	return err;
}

static int relax(struct kv_gpu *gpu, struct kv_gpu_scope *scope)
{
	int err;

	scope->mode = KCU_CAPTURE_MODE_RELAXED;
	err = kv_gpu_call(gpu, thread_exchange_capture_mode, &scope->mode);
	scope->relaxed = !err || scope->mode != KCU_CAPTURE_MODE_RELAXED;
	if (err)
		kv_gpu_leave(gpu, scope);
	return err;
}

int kv_gpu_enter_relaxed(struct kv_gpu *gpu, struct kv_gpu_scope *scope)
{
	int err = kv_gpu_enter(gpu, scope);

	return err ? err : relax(gpu, scope);
}

/* Invalidated is capturing, too: until its owner ends it, additions to it fail. */
int kv_gpu_check_stream(struct kv_gpu *gpu, kcu_stream stream)
{
	kcu_capture_status status = KCU_CAPTURE_NONE;
	int err;

	if (!stream || stream == KCU_STREAM_LEGACY || stream == KCU_STREAM_PER_THREAD)
		return -EINVAL;
	err = kv_gpu_call(gpu, stream_is_capturing, stream, &status);
	if (err)
		return err;
	return status == KCU_CAPTURE_NONE ? 0 : -EBUSY;
}

/* ---- the device's properties ---- */

/*
 * @otherwise as well for attributes that this driver does not know, which is not worth a line: a
 * feature that cannot be asked for is absent.
 */
static int attribute(struct kv_gpu *gpu, enum kcu_device_attribute attr, int otherwise)
{
	kcu_result result;
	int value;

	result = gpu->cu->device_get_attribute(&value, attr, gpu->dev);
	if (!result)
		return value;
	doubt(gpu, KCU_CALL_device_get_attribute, result);
	return otherwise;
}

static void read_features(struct kv_gpu *gpu)
{
	gpu->features = gpu->cu->features;
	if (!attribute(gpu, KCU_ATTR_VMM, 0))
		gpu->features &= ~KCU_F_VMM;
	if (!attribute(gpu, KCU_ATTR_DMA_BUF, 0))
		gpu->features &= ~KCU_F_DMABUF;
	if (!(gpu->features & KCU_F_VMM))
		return;
	if (attribute(gpu, KCU_ATTR_HANDLE_POSIX_FD, 0))
		gpu->features |= KCU_F_IPC_FD;
	if (attribute(gpu, KCU_ATTR_HANDLE_FABRIC, 0))
		gpu->features |= KCU_F_FABRIC;
}

static int identify(struct kv_gpu *gpu)
{
	size_t total = 0;
	int err;

	err = kv_gpu_call(gpu, device_get, &gpu->dev, gpu->ordinal);
	if (!err)
		err = kv_gpu_call(gpu, device_get_name, gpu->name, sizeof(gpu->name), gpu->dev);
	if (!err)
		err = kv_gpu_call(gpu, device_get_uuid, &gpu->uuid, gpu->dev);
	if (!err)
		err = kv_gpu_call(gpu, device_get_pci_bus_id, gpu->pci_id, sizeof(gpu->pci_id),
				  gpu->dev);
	if (!err)
		err = kv_gpu_call(gpu, device_total_mem, &total, gpu->dev);
	gpu->total_bytes = total;
	return err;
}

/* A device with an unknown granule, or one that is no power of two, gets no VMM. */
static void read_granules(struct kv_gpu *gpu)
{
	kcu_mem_prop prop = {
		.type = KCU_ALLOCATION_PINNED,
		.location = { .type = KCU_LOCATION_DEVICE, .id = gpu->ordinal },
	};
	size_t least = 0, good = 0;

	if (!(gpu->features & KCU_F_VMM))
		return;
	if (kv_gpu_call(gpu, mem_get_granularity, &least, &prop, KCU_GRANULARITY_MINIMUM) ||
	    kv_gpu_call(gpu, mem_get_granularity, &good, &prop, KCU_GRANULARITY_RECOMMENDED) ||
	    !kv_is_pow2(least) || !kv_is_pow2(good)) {
		gpu->features &= ~(KCU_F_VMM | KCU_F_IPC_FD | KCU_F_FABRIC);
		return;
	}
	gpu->granule_bytes = least;
	gpu->good_granule_bytes = good;
}

static int describe(struct kv_gpu *gpu)
{
	int err = identify(gpu), node = -1;
	char path[64], text[16];

	if (err)
		return err;
	/* The driver writes capitals, the kernel's files are named in lower case. */
	for (char *c = gpu->pci_id; *c; c++)
		if (*c >= 'A' && *c <= 'F')
			*c += 'a' - 'A';
	/* The kernel knows on every driver; the driver's own attribute is of CUDA 12.2. */
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", gpu->pci_id);
	if (kv_sys()->read_file(kv_sys()->ctx, path, text, sizeof(text)) ||
	    sscanf(text, "%d", &node) != 1 || node < 0)
		node = attribute(gpu, KCU_ATTR_HOST_NUMA_ID, -1);
	gpu->numa_node = node;
	gpu->nr_sms = attribute(gpu, KCU_ATTR_SM_COUNT, 0);
	gpu->cc_major = attribute(gpu, KCU_ATTR_CC_MAJOR, 0);
	gpu->cc_minor = attribute(gpu, KCU_ATTR_CC_MINOR, 0);
	gpu->rdma_with_vmm = attribute(gpu, KCU_ATTR_RDMA_WITH_VMM, 0);
	read_features(gpu);
	read_granules(gpu);
	return kv_gpu_ready(gpu);
}

/* ---- context and streams of a new device ---- */

/* A caller's context must be of this device: work would silently go to another one. */
static int check_context(struct kv_gpu *gpu)
{
	struct kv_gpu_scope scope;
	kcu_device dev;
	int err = kv_gpu_enter(gpu, &scope);

	if (err)
		return err;
	err = kv_gpu_call(gpu, ctx_get_device, &dev);
	kv_gpu_leave(gpu, &scope);
	if (err)
		return err;
	return dev == gpu->dev ? 0 : -EINVAL;
}

static void destroy_stream(struct kv_gpu *gpu, kcu_stream stream)
{
	if (stream)
		kv_gpu_call(gpu, stream_destroy, stream);
}

static int create_streams(struct kv_gpu *gpu)
{
	struct kv_gpu_scope scope;
	int err = kv_gpu_enter(gpu, &scope);

	if (err)
		return err;
	err = kv_gpu_call(gpu, stream_create_with_priority, &gpu->compact, KCU_STREAM_NON_BLOCKING,
			  KCU_PRIORITY_LOWEST);
	if (!err)
		err = kv_gpu_call(gpu, stream_create_with_priority, &gpu->transfer,
				  KCU_STREAM_NON_BLOCKING, KCU_PRIORITY_LOWEST);
	if (err)
		destroy_stream(gpu, gpu->compact);
	kv_gpu_leave(gpu, &scope);
	return err;
}

static void drop_context(struct kv_gpu *gpu)
{
	if (gpu->ctx_is_primary)
		kv_gpu_call(gpu, primary_ctx_release, gpu->dev);
}

/* Relaxed from the first call on: a primary context may have to be started. */
static int open_gpu(struct kv_gpu *gpu, kcu_context ctx)
{
	struct kv_gpu_scope scope = { 0 };
	int err = relax(gpu, &scope);

	if (err)
		return err;
	gpu->ctx = ctx;
	err = describe(gpu);
	if (!err && ctx) {
		err = check_context(gpu);
	} else if (!err) {
		err = kv_gpu_call(gpu, primary_ctx_retain, &gpu->ctx, gpu->dev);
		gpu->ctx_is_primary = !err;
	}
	if (!err) {
		err = create_streams(gpu);
		if (err)
			drop_context(gpu);
	}
	kv_gpu_leave(gpu, &scope);
	return err;
}

int kv_gpu_create(const struct kcu *cu, int ordinal, kcu_context ctx, struct kv_gpu **gpu)
{
	struct kv_gpu *new;
	int err;

	if (ordinal < 0 || ordinal >= cu->nr_devices)
		return kv_refuse(-ENODEV, "kvmm: gpu %d: the driver has %d, counted from 0",
				 ordinal, cu->nr_devices);
	new = kv_alloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->cu = cu;
	new->ordinal = ordinal;
	err = open_gpu(new, ctx);
	if (err) {
		kv_free(new);
		return err;
	}
	kv_log(KV_LOG_INFO, "kvmm: gpu %d: %s, %d SMs, %llu MiB, node %d, features 0x%x", ordinal,
	       new->name, new->nr_sms, (unsigned long long)new->total_bytes >> 20,
	       new->numa_node, new->features);
	*gpu = new;
	return 0;
}

void kv_gpu_destroy(struct kv_gpu *gpu)
{
	struct kv_gpu_scope scope = { 0 }, inner;

	if (!gpu)
		return;
	if (!relax(gpu, &scope)) {
		if (!kv_gpu_enter(gpu, &inner)) {
			destroy_stream(gpu, gpu->transfer);
			destroy_stream(gpu, gpu->compact);
			kv_gpu_leave(gpu, &inner);
		}
		drop_context(gpu);
		kv_gpu_leave(gpu, &scope);
	}
	kv_free(gpu);
}
