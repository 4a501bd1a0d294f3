// SPDX-License-Identifier: Apache-2.0
/* Devices: what they say about themselves, and how they fail. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define NR_SMS		132

static kcu_result init(unsigned int flags)
{
	if (sw.opt_error[0]) {
		sw_log("%s", sw.opt_error);
		return KCU_E_INVALID_VALUE;
	}
	if (flags)
		return KCU_E_INVALID_VALUE;
	if (!sw.opt.nr_devices)
		return KCU_E_NO_DEVICE;
	__atomic_store_n(&sw.pid, getpid(), __ATOMIC_RELAXED);
	return KCU_E_SUCCESS;
}

kcu_result cuInit(unsigned int flags)
{
	return SW_RUN(cuInit, SW_ANYTIME, init(flags));
}

static kcu_result put_int(int *to, int value)
{
	if (!to)
		return KCU_E_INVALID_VALUE;
	*to = value;
	return KCU_E_SUCCESS;
}

kcu_result cuDriverGetVersion(int *version)
{
	return SW_RUN(cuDriverGetVersion, SW_ANYTIME, put_int(version, sw.opt.driver));
}

kcu_result cuDeviceGetCount(int *count)
{
	return SW_RUN(cuDeviceGetCount, SW_INIT, put_int(count, sw.opt.nr_devices));
}

static bool is_device(kcu_device dev)
{
	return (u32)dev < sw.opt.nr_devices;
}

static kcu_result device_get(kcu_device *dev, int ordinal)
{
	if (!is_device(ordinal))
		return KCU_E_INVALID_DEVICE;
	return put_int(dev, ordinal);
}

kcu_result cuDeviceGet(kcu_device *dev, int ordinal)
{
	return SW_RUN(cuDeviceGet, SW_INIT, device_get(dev, ordinal));
}

static kcu_result device_name(char *name, int bytes, kcu_device dev)
{
	if (!is_device(dev))
		return KCU_E_INVALID_DEVICE;
	if (!name || bytes < 1)
		return KCU_E_INVALID_VALUE;
	snprintf(name, bytes, "kvmm software device %d", dev);
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceGetName(char *name, int bytes, kcu_device dev)
{
	return SW_RUN(cuDeviceGetName, SW_INIT, device_name(name, bytes, dev));
}

static kcu_result device_uuid(kcu_uuid *uuid, kcu_device dev)
{
	static const char text[] = "kvmm-swcuda-dev";

	static_assert(sizeof(text) == sizeof(uuid->bytes), "uuid");
	if (!is_device(dev))
		return KCU_E_INVALID_DEVICE;
	if (!uuid)
		return KCU_E_INVALID_VALUE;
	memcpy(uuid->bytes, text, sizeof(text));
	uuid->bytes[sizeof(text) - 1] = '0' + dev;
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceGetUuid_v2(kcu_uuid *uuid, kcu_device dev)
{
	return SW_RUN(cuDeviceGetUuid_v2, SW_INIT, device_uuid(uuid, dev));
}

static kcu_result total_mem(size_t *bytes, kcu_device dev)
{
	if (!is_device(dev))
		return KCU_E_INVALID_DEVICE;
	if (!bytes)
		return KCU_E_INVALID_VALUE;
	*bytes = sw.opt.mem_bytes;
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceTotalMem_v2(size_t *bytes, kcu_device dev)
{
	return SW_RUN(cuDeviceTotalMem_v2, SW_INIT, total_mem(bytes, dev));
}

kcu_result cuDeviceGetUuid(kcu_uuid *uuid, kcu_device dev)
{
	return SW_RUN(cuDeviceGetUuid, SW_INIT, device_uuid(uuid, dev));
}

/* What is not listed is 0: not there. */
static int attribute(kcu_device_attr attr, kcu_device dev)
{
	switch (attr) {
	case KCU_ATTR_SM_COUNT:
		return NR_SMS;
	case KCU_ATTR_PCI_BUS:
		return dev + 1;
	case KCU_ATTR_L2_BYTES:
		return 50 << 20;
	case KCU_ATTR_ASYNC_ENGINES:
		return 3;
	case KCU_ATTR_CC_MAJOR:
		return sw.opt.cc / 10;
	case KCU_ATTR_CC_MINOR:
		return sw.opt.cc % 10;
	case KCU_ATTR_SMEM_OPTIN:
		return 227 << 10;
	case KCU_ATTR_VMM:
	case KCU_ATTR_HANDLE_POSIX_FD:
		return sw.opt.vmm;
	case KCU_ATTR_UVA:
		return 1;
	case KCU_ATTR_NUMA_ID:
	case KCU_ATTR_HOST_NUMA_ID:
		return -1;
	default:
		return 0;
	}
}

static kcu_result get_attribute(int *value, kcu_device_attr attr, kcu_device dev)
{
	if (!is_device(dev))
		return KCU_E_INVALID_DEVICE;
	if (!attr || attr > 4095)
		return KCU_E_INVALID_VALUE;
	return put_int(value, attribute(attr, dev));
}

kcu_result cuDeviceGetAttribute(int *value, kcu_device_attr attr, kcu_device dev)
{
	return SW_RUN(cuDeviceGetAttribute, SW_INIT, get_attribute(value, attr, dev));
}

static kcu_result capability(int *major, int *minor, kcu_device dev)
{
	kcu_result rc = get_attribute(major, KCU_ATTR_CC_MAJOR, dev);

	return rc ?: get_attribute(minor, KCU_ATTR_CC_MINOR, dev);
}

kcu_result cuDeviceComputeCapability(int *major, int *minor, kcu_device dev)
{
	return SW_RUN(cuDeviceComputeCapability, SW_INIT, capability(major, minor, dev));
}

static kcu_result pci_bus_id(char *id, int bytes, kcu_device dev)
{
	if (!is_device(dev))
		return KCU_E_INVALID_DEVICE;
	if (!id || snprintf(id, bytes, "0000:%02x:00.0", dev + 1) >= bytes)
		return KCU_E_INVALID_VALUE;
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceGetPCIBusId(char *id, int bytes, kcu_device dev)
{
	return SW_RUN(cuDeviceGetPCIBusId, SW_INIT, pci_bus_id(id, bytes, dev));
}

/* ---- Its memory ---- */

kcu_result sw_dev_open(struct sw_dev *dev)
{
	char name[32];

	if (dev->memfd >= 0)
		return KCU_E_SUCCESS;
	snprintf(name, sizeof(name), "swcuda-device-%d", dev->ordinal);
	dev->memfd = memfd_create(name, MFD_CLOEXEC);
	if (dev->memfd < 0)
		return KCU_E_OPERATING_SYSTEM;
	if (ftruncate(dev->memfd, sw.opt.mem_bytes) ||
	    sw_space_init(&dev->phys, 0, sw.opt.mem_bytes)) {
		sw_dev_close(dev);
		return KCU_E_OUT_OF_MEMORY;
	}
	return KCU_E_SUCCESS;
}

void sw_dev_close(struct sw_dev *dev)
{
	if (dev->memfd >= 0)
		close(dev->memfd);
	dev->memfd = -1;
	sw_space_exit(&dev->phys);
}

/* ---- Its errors ---- */

/*
 * Fatal ones stay. Others are told once, by whichever call comes next, and the first of several
 * wins: the caller cannot know whose they were.
 */
static bool is_fatal(kcu_result code)
{
	switch (code) {
#define FATAL_OK		false
#define FATAL_SOFT		false
#define FATAL_RETRY		false
#define FATAL_UNSUPPORTED	false
#define FATAL_FATAL		true
#define CASE(name, value, class, err)	case value: return FATAL_##class;
	KCU_ERRORS(CASE)
#undef CASE
	default:
		return true;
	}
}

void sw_dev_fail(struct sw_dev *dev, kcu_result code)
{
	if (is_fatal(code) && !dev->sticky)
		dev->sticky = code;
	else if (!is_fatal(code) && !dev->pending)
		dev->pending = code;
}

static bool is_moving(const struct sw_dev *dev)
{
	for (u32 i = 1; i < SW_NR_SLOTS; i++)
		if (sw.stream[i] && sw.stream[i]->dev == dev && sw.stream[i]->busy)
			return true;
	return false;
}

/* A device that is said to be lost writes nothing any more, so that its callers may free memory. */
static void stand_still(const struct sw_dev *dev)
{
	while (dev->sticky && is_moving(dev))
		pthread_cond_wait(&sw.changed, &sw.lock);
}

/* Said of no device in particular it is true of each that is in use. */
kcu_result sw_lose(struct sw_dev *dev, kcu_result code)
{
	for (u32 i = 0; i < sw.opt.nr_devices && is_fatal(code); i++) {
		struct sw_dev *each = &sw.dev[i];

		if (!each->context || (dev && each != dev))
			continue;
		sw_dev_fail(each, code);
		stand_still(each);
	}
	return code;
}

kcu_result sw_dev_error(struct sw_dev *dev)
{
	kcu_result rc;

	stand_still(dev);
	rc = dev->sticky ?: dev->pending;
	dev->pending = KCU_E_SUCCESS;
	return rc;
}
