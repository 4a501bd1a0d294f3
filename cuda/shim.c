// SPDX-License-Identifier: Apache-2.0
/*
 * Finds a CUDA driver at run time and fills the table of its calls.
 *
 * The hard part is to get exactly the ABI that kcu.h declares. Symbols are taken by the full name
 * of the export, which never changes its meaning. Where a driver does not export a name, it is
 * asked for the call as of the version that introduced it: asked as of its own version, it would
 * silently hand out a newer signature. A driver that lacks just that call hands out an older one,
 * which is told by being there a version earlier, too.
 *
 * Machines without a driver, with the toolkit's stub of one, or with a driver that refuses, are
 * normal: one line in the log, and there is no device.
 */
#include <stdio.h>
#include <string.h>

#include <kv/log.h>

#include "internal.h"

#define DEFAULT_DRIVER	"libcuda.so.1"
#define DRIVER_VARIABLE	"KVMM_CUDA_DRIVER"
#define MAX_NAME	64
#define ONE_VERSION	10	/* 12.8 is 12080 */

struct symbol {
	const char	*name;		/* as exported */
	u32		offset;		/* in struct kcu */
	int		version;	/* that introduced it */
};

struct group {
	const char		*name;
	const struct symbol	*symbols;
	u32			nr;
	u32			feature;
};

/* A library that is being loaded. */
struct driver {
	const char				*path;
	void					*library;
	KCU_FN(cuGetProcAddress, 12000)		get_proc;	/* NULL before CUDA 12.0 */
};

#define SYMBOL(field, name, type, version) \
	{ #name, offsetof(struct kcu, field), version },

static const struct symbol required[] = { KCU_REQUIRED(SYMBOL) };

#define SYMBOLS(group)	static const struct symbol symbols_##group[] = { KCU_##group(SYMBOL) };
KCU_OPTIONAL_GROUPS(SYMBOLS)

#define GROUP(group) \
	{ #group, symbols_##group, ARRAY_SIZE(symbols_##group), KCU_F_##group },

static const struct group groups[] = { KCU_OPTIONAL_GROUPS(GROUP) };

static void *export_of(const struct driver *driver, const char *name)
{
	return kv_sys()->find_symbol(kv_sys()->ctx, driver->library, name);
}

/* The newest call of that name up to @version; NULL: there is none. */
static void *newest_until(const struct driver *driver, const char *base, int version)
{
	kcu_proc_status status = KCU_PROC_NOT_FOUND;
	void *fn = NULL;

	if (driver->get_proc(base, &fn, version, 0, &status) || status != KCU_PROC_OK)
		return NULL;
	return fn;
}

/* A function of a version earlier has another signature. */
static void *ask_driver(const struct driver *driver, const struct symbol *symbol)
{
	size_t len = strlen(symbol->name);
	char base[MAX_NAME];
	void *before, *fn;

	/* "cuMemAlloc_v2" is cuMemAlloc to cuGetProcAddress(). */
	snprintf(base, sizeof(base), "%s", symbol->name);
	if (len > 3 && len < MAX_NAME && !memcmp(symbol->name + len - 3, "_v", 2))
		base[len - 3] = '\0';
	before = newest_until(driver, base, symbol->version - ONE_VERSION);
	fn = newest_until(driver, base, symbol->version);
	return fn != before ? fn : NULL;
}

static bool find(const struct driver *driver, const struct symbol *symbol, struct kcu *cu)
{
	void *fn = export_of(driver, symbol->name);

	if (!fn && driver->get_proc)
		fn = ask_driver(driver, symbol);
	memcpy((char *)cu + symbol->offset, &fn, sizeof(fn));
	return fn;
}

/* All of a group or nothing: half of it would have to be checked at each call. */
static void find_group(const struct driver *driver, const struct group *group, struct kcu *cu)
{
	u32 i;

	for (i = 0; i < group->nr; i++)
		if (!find(driver, &group->symbols[i], cu))
			break;
	if (i == group->nr) {
		cu->features |= group->feature;
		return;
	}
	kv_log(KV_LOG_INFO, "kvmm: %s: no symbol %s, going without %s", driver->path,
	       group->symbols[i].name, group->name);
	for (i = 0; i < group->nr; i++)
		memset((char *)cu + group->symbols[i].offset, 0, sizeof(void *));
}

static int open_driver(struct driver *driver, const char *path)
{
	const char *why = "not found";
	void *fn;

	if (!path)
		path = kv_sys()->getenv(kv_sys()->ctx, DRIVER_VARIABLE);
	driver->path = path && *path ? path : DEFAULT_DRIVER;
	driver->library = kv_sys()->open_library(kv_sys()->ctx, driver->path, &why);
	if (!driver->library)
		return kv_refuse(-ENODEV, "kvmm: no CUDA driver: %s", why);
	fn = export_of(driver, "cuGetProcAddress_v2");
	memcpy(&driver->get_proc, &fn, sizeof(fn));
	return 0;
}

/* Results that later only mean that one call is not to be had mean here that there is no device. */
static int refusal(const struct driver *driver, enum kcu_call call, kcu_result result)
{
	kv_log_why(KV_LOG_WARN, "kvmm: %s: %s: %s (%d), no device", driver->path,
		   kcu_call_name(call), kcu_error_name(result), result);
	return kcu_class_of(result) == KCU_UNSUPPORTED ? -ENODEV : kcu_errno(result);
}

static int start_driver(const struct driver *driver, struct kcu *cu)
{
	kcu_result result = cu->init(0);

	if (result)
		return refusal(driver, KCU_CALL_init, result);
	result = cu->driver_get_version(&cu->driver_version);
	if (result)
		return refusal(driver, KCU_CALL_driver_get_version, result);
	result = cu->device_get_count(&cu->nr_devices);
	if (!result && cu->nr_devices <= 0)
		result = KCU_E_NO_DEVICE;
	return result ? refusal(driver, KCU_CALL_device_get_count, result) : 0;
}

int kcu_load(struct kcu *cu, const char *path)
{
	struct driver driver;
	int err;

	*cu = (struct kcu){ 0 };
	if (kv_forked())
		return -ECHILD;
	err = open_driver(&driver, path);
	for (u32 i = 0; !err && i < ARRAY_SIZE(required); i++) {
		if (find(&driver, &required[i], cu))
			continue;
		kv_log_why(KV_LOG_WARN, "kvmm: %s: no symbol %s, no device", driver.path,
			   required[i].name);
		err = -ENODEV;
	}
	for (u32 i = 0; !err && i < ARRAY_SIZE(groups); i++)
		find_group(&driver, &groups[i], cu);
	if (!err) {
		/* From before the driver starts: another thread may fork at any time. */
		kv_fork_watch(true);
		err = start_driver(&driver, cu);
		if (err)
			kv_fork_watch(false);
	}
	if (err)
		*cu = (struct kcu){ 0 };
	return err;
}
