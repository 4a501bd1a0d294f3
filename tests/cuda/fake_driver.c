// SPDX-License-Identifier: Apache-2.0
/* A driver that does nothing but keep books: see fake_driver.h. */
#include <stdio.h>
#include <string.h>

#include <kv/atomic.h>

#include "fake_driver.h"

static struct fake_driver *fake;

/* Every entry goes through here: count, and fail if it is this call's turn. */
static kcu_result enter(enum kcu_call call)
{
	u64 nth = kv_fetch_add(&fake->nr_calls, 1) + 1;

	kv_fetch_add(&fake->calls[call], 1);
	if (!fake->fail_at || (fake->fail_on ? nth < fake->fail_at : nth != fake->fail_at))
		return KCU_E_SUCCESS;
	kv_fetch_add(&fake->nr_failed, 1);
	WRITE_ONCE(fake->last_failed, call);
	if (fake->together)
		pthread_barrier_wait(fake->together);
	return fake->fail_with;
}

#define ENTER(field)								\
	do {									\
		kcu_result __result = enter(KCU_CALL_##field);			\
		if (__result)							\
			return __result;					\
	} while (0)

/* For calls that a capture in global mode, of any thread, would not survive. */
static void unsafe_in_captures(void)
{
	fake->nr_unrelaxed += fake->mode != KCU_CAPTURE_MODE_RELAXED;
}

/* Calls without a result but success. */
#define PLAIN(field, name, type, version)					\
	static kcu_result plain_##field(void)					\
	{									\
		ENTER(field);							\
		return KCU_E_SUCCESS;						\
	}
KCU_ALL(PLAIN)

static kcu_result driver_get_version(int *version)
{
	ENTER(driver_get_version);
	*version = fake->version;
	return KCU_E_SUCCESS;
}

static kcu_result device_get_count(int *nr)
{
	ENTER(device_get_count);
	*nr = fake->nr_devices;
	return KCU_E_SUCCESS;
}

/* Not the ordinal, so that mixing them up shows. */
static kcu_result device_get(kcu_device *dev, int ordinal)
{
	ENTER(device_get);
	if (ordinal < 0 || ordinal >= fake->nr_devices)
		return KCU_E_INVALID_DEVICE;
	*dev = ordinal + 10;
	return KCU_E_SUCCESS;
}

static kcu_result device_get_name(char *name, int bytes, kcu_device dev)
{
	ENTER(device_get_name);
	snprintf(name, bytes, "Fake %d", dev);
	return KCU_E_SUCCESS;
}

static kcu_result device_get_uuid(kcu_uuid *uuid, kcu_device dev)
{
	ENTER(device_get_uuid);
	memset(uuid, dev, sizeof(*uuid));
	return KCU_E_SUCCESS;
}

static kcu_result device_total_mem(size_t *bytes, kcu_device dev)
{
	ENTER(device_total_mem);
	*bytes = 80ull << 30;
	return KCU_E_SUCCESS;
}

static kcu_result device_get_attribute(int *value, kcu_device_attr attr, kcu_device dev)
{
	ENTER(device_get_attribute);
	if (attr >= FAKE_NR_ATTRS || fake->attr[attr] < 0)
		return KCU_E_INVALID_VALUE;
	*value = fake->attr[attr];
	return KCU_E_SUCCESS;
}

static kcu_result device_get_pci_bus_id(char *id, int bytes, kcu_device dev)
{
	ENTER(device_get_pci_bus_id);
	snprintf(id, bytes, "0000:%02X:00.0", dev);
	return KCU_E_SUCCESS;
}

static kcu_result primary_ctx_retain(kcu_context *ctx, kcu_device dev)
{
	unsafe_in_captures();
	ENTER(primary_ctx_retain);
	fake->nr_primary++;
	*ctx = FAKE_PRIMARY(dev - 10);
	return KCU_E_SUCCESS;
}

static kcu_result primary_ctx_release(kcu_device dev)
{
	unsafe_in_captures();
	ENTER(primary_ctx_release);
	fake->nr_primary--;
	return KCU_E_SUCCESS;
}

/*
 * A fatal result is that of earlier work: the call itself, which only concerns the thread, is done.
 * Any other one is its own, and it is not.
 */
static bool is_done(kcu_result result)
{
	return !result || kcu_class_of(result) == KCU_FATAL;
}

static kcu_result ctx_get_current(kcu_context *ctx)
{
	kcu_result result = enter(KCU_CALL_ctx_get_current);

	if (is_done(result))
		*ctx = fake->depth ? fake->stack[fake->depth - 1] : NULL;
	return result;
}

static kcu_result ctx_push_current(kcu_context ctx)
{
	kcu_result result = enter(KCU_CALL_ctx_push_current);

	if (fake->depth == FAKE_DEPTH)
		return KCU_E_OUT_OF_MEMORY;
	if (is_done(result))
		fake->stack[fake->depth++] = ctx;
	return result;
}

static kcu_result ctx_pop_current(kcu_context *ctx)
{
	kcu_result result = enter(KCU_CALL_ctx_pop_current);

	if (!fake->depth)
		return KCU_E_INVALID_CONTEXT;
	if (is_done(result))
		*ctx = fake->stack[--fake->depth];
	return result;
}

static kcu_result ctx_get_device(kcu_device *dev)
{
	kcu_context ctx = fake->depth ? fake->stack[fake->depth - 1] : NULL;

	ENTER(ctx_get_device);
	if (!ctx)
		return KCU_E_INVALID_CONTEXT;
	*dev = ctx == FAKE_ENGINE_CTX ? 10 : (int)(uintptr_t)ctx - 0x1000 + 10;
	return KCU_E_SUCCESS;
}

static kcu_result stream_create_with_priority(kcu_stream *stream, unsigned int flags,
					      int priority)
{
	unsafe_in_captures();
	ENTER(stream_create_with_priority);
	if (!fake->depth)
		return KCU_E_INVALID_CONTEXT;
	fake->nr_streams++;
	fake->stream_flags = flags;
	fake->priority = priority;
	*stream = (kcu_stream)(uintptr_t)(0x3000 + fake->nr_streams);
	return KCU_E_SUCCESS;
}

static kcu_result stream_destroy(kcu_stream stream)
{
	unsafe_in_captures();
	ENTER(stream_destroy);
	if (!fake->depth)
		return KCU_E_INVALID_CONTEXT;
	fake->nr_streams--;
	return KCU_E_SUCCESS;
}

static kcu_result stream_is_capturing(kcu_stream stream, kcu_capture_status *status)
{
	ENTER(stream_is_capturing);
	*status = fake->capture;
	return KCU_E_SUCCESS;
}

static kcu_result thread_exchange_capture_mode(kcu_capture_mode *mode)
{
	kcu_result result = enter(KCU_CALL_thread_exchange_capture_mode);
	kcu_capture_mode before = fake->mode;

	if (!is_done(result))
		return result;
	fake->mode = *mode;
	*mode = before;
	return result;
}

static kcu_result mem_get_granularity(size_t *bytes, const kcu_mem_prop *prop,
				      kcu_granularity option)
{
	ENTER(mem_get_granularity);
	*bytes = fake->granule << (option == KCU_GRANULARITY_RECOMMENDED);
	return KCU_E_SUCCESS;
}

struct named {
	const char *name;
	void *fn;
};

/* The first entry of a name counts. */
static const struct named exports[] = {
	{ "cuDriverGetVersion", driver_get_version },
	{ "cuDeviceGetCount", device_get_count },
	{ "cuDeviceGet", device_get },
	{ "cuDeviceGetName", device_get_name },
	{ "cuDeviceGetUuid_v2", device_get_uuid },
	{ "cuDeviceTotalMem_v2", device_total_mem },
	{ "cuDeviceGetAttribute", device_get_attribute },
	{ "cuDeviceGetPCIBusId", device_get_pci_bus_id },
	{ "cuDevicePrimaryCtxRetain", primary_ctx_retain },
	{ "cuDevicePrimaryCtxRelease_v2", primary_ctx_release },
	{ "cuCtxGetCurrent", ctx_get_current },
	{ "cuCtxPushCurrent_v2", ctx_push_current },
	{ "cuCtxPopCurrent_v2", ctx_pop_current },
	{ "cuCtxGetDevice", ctx_get_device },
	{ "cuStreamCreateWithPriority", stream_create_with_priority },
	{ "cuStreamDestroy_v2", stream_destroy },
	{ "cuStreamIsCapturing", stream_is_capturing },
	{ "cuThreadExchangeStreamCaptureMode", thread_exchange_capture_mode },
	{ "cuMemGetAllocationGranularity", mem_get_granularity },
#define EXPORT(field, name, type, version)	{ #name, plain_##field },
	KCU_ALL(EXPORT)
};

static void *find_export(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(exports); i++)
		if (!strcmp(exports[i].name, name))
			return exports[i].fn;
	return NULL;
}

static const struct {
	const char *name;
	int version;
} versions[] = {
#define VERSION(field, name, type, version)	{ #name, version },
	KCU_ALL(VERSION)
};

static bool is_of_base(const char *name, const char *base)
{
	size_t len = strlen(base);

	return !strncmp(name, base, len) && (!name[len] || !strcmp(name + len, "_v2"));
}

static kcu_result older_abi(void)
{
	return KCU_E_SUCCESS;
}

/* Knows calls by their base name: the newest that was there in @version. */
static void *find_version(const char *base, int version)
{
	const char *name = NULL;
	int best = 0;

	if (fake->older_for_get_proc)
		return older_abi;
	for (u32 i = 0; i < ARRAY_SIZE(versions); i++)
		if (is_of_base(versions[i].name, base) && versions[i].version <= version &&
		    versions[i].version > best) {
			best = versions[i].version;
			name = versions[i].name;
		}
	return name ? find_export(name) : NULL;
}

static kcu_result get_proc(const char *base, void **fn, int version, u64 flags,
			   kcu_proc_status *status)
{
	void *found;

	snprintf(fake->asked, sizeof(fake->asked), "%s", base);
	fake->asked_version = version;
	*fn = (void *)1;		/* whoever looks at it without the status is lost */
	*status = KCU_PROC_NOT_FOUND;
	if (version > fake->version)
		return KCU_E_INVALID_VALUE;
	if (fake->absent_for_get_proc)
		return KCU_E_SUCCESS;
	found = find_version(base, version);
	if (found) {
		*fn = found;
		*status = KCU_PROC_OK;
	}
	return KCU_E_SUCCESS;
}

static const char *fake_getenv(void *ctx, const char *name)
{
	return strcmp(name, "KVMM_CUDA_DRIVER") ? NULL : fake->env;
}

static void *fake_open(void *ctx, const char *path, const char **why)
{
	snprintf(fake->opened, sizeof(fake->opened), "%s", path);
	*why = "no such file, says the test";
	return fake->no_library ? NULL : fake;
}

static void *fake_symbol(void *ctx, void *library, const char *name)
{
	if (fake->absent && !strcmp(name, fake->absent))
		return NULL;
	if (!strcmp(name, "cuGetProcAddress_v2"))
		return fake->no_get_proc ? NULL : get_proc;
	return find_export(name);
}

static int fake_read(void *ctx, const char *path, char *text, size_t bytes)
{
	snprintf(fake->numa_path, sizeof(fake->numa_path), "%s", path);
	if (!fake->numa_text)
		return -ENOENT;
	snprintf(text, bytes, "%s", fake->numa_text);
	return 0;
}

void fake_driver_install(struct fake_driver *drv)
{
	*drv = (struct fake_driver){
		.sys = { .getenv = fake_getenv, .open_library = fake_open,
			 .find_symbol = fake_symbol, .read_file = fake_read,
			 .map_pages = kv_sys_system.map_pages,
			 .unmap_pages = kv_sys_system.unmap_pages },
		.version = 13000,
		.nr_devices = 2,
		.granule = 2 << 20,
		.numa_text = "1\n",
		.attr = {
			[KCU_ATTR_SM_COUNT] = 132, [KCU_ATTR_VMM] = 1,
			[KCU_ATTR_HANDLE_POSIX_FD] = 1, [KCU_ATTR_DMA_BUF] = 1,
			[KCU_ATTR_HOST_NUMA_ID] = 3, [KCU_ATTR_CC_MAJOR] = 9,
		},
	};
	fake = drv;
	kv_sys_set(&drv->sys);
}

void fake_driver_remove(struct fake_driver *drv)
{
	kv_sys_set(NULL);
	fake = NULL;
}

void fake_driver_fail(struct fake_driver *drv, u64 nth, kcu_result result, bool on)
{
	drv->fail_at = nth ? drv->nr_calls + nth : 0;
	drv->fail_on = on;
	drv->fail_with = result;
	drv->nr_failed = 0;
}

bool fake_driver_is_idle(const struct fake_driver *drv)
{
	return !drv->nr_streams && !drv->nr_primary && !drv->depth &&
	       drv->mode == KCU_CAPTURE_MODE_GLOBAL;
}
