/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver as this library sees it: own declarations of its ABI and the table of calls.
 *
 * No vendor header is needed to build. Names are exports of libcuda.so.1, each with the version
 * of CUDA that introduced exactly this signature; a plain and a _v2 export are different ABIs,
 * and so are the two batched copies. scripts/cudacheck compares everything here with cuda.h and
 * cudaTypedefs.h where a toolkit is installed.
 */
#ifndef KV_KCU_H
#define KV_KCU_H

#include <kv/bits.h>
#include <kv/types.h>

/* check_sig.c sees the vendor's types under our names, so that signatures can be compared. */
#ifdef KCU_NATIVE
#define KCU_TYPE(own, vendor)	vendor
#else
#define KCU_TYPE(own, vendor)	own
#endif

/* ---- Layouts: x86-64 and aarch64 Linux ---- */

struct kcu_uuid_bytes {
	u8 bytes[16];
};

struct kcu_mem_location {
	u32 type;			/* enum kcu_location */
	s32 id;				/* device ordinal or host node */
};

struct kcu_mem_alloc_prop {
	u32 type;			/* KCU_ALLOCATION_PINNED */
	u32 handle_types;		/* enum kcu_handle_type, chosen at creation for good */
	struct kcu_mem_location location;
	void *win32_meta;		/* NULL */
	struct {
		u8 compression;
		u8 gpu_direct_rdma;	/* 1, or RDMA registration will fail */
		u16 usage;
		u8 reserved[4];
	} flags;
};

struct kcu_mem_access_desc {
	struct kcu_mem_location location;
	u32 flags;			/* enum kcu_access */
};

struct kcu_memcpy_attributes {
	u32 src_access_order;		/* KCU_SRC_ORDER_STREAM, always */
	struct kcu_mem_location src_hint;
	struct kcu_mem_location dst_hint;
	u32 flags;			/* 0, always */
};

#define KCU_SIZE(type, size)		static_assert(sizeof(struct type) == (size), #type)
#define KCU_AT(type, field, offset) \
	static_assert(offsetof(struct type, field) == (offset), #type "." #field)

KCU_SIZE(kcu_uuid_bytes, 16);
KCU_SIZE(kcu_mem_location, 8);
KCU_AT(kcu_mem_location, type, 0);
KCU_AT(kcu_mem_location, id, 4);
KCU_SIZE(kcu_mem_alloc_prop, 32);
KCU_AT(kcu_mem_alloc_prop, type, 0);
KCU_AT(kcu_mem_alloc_prop, handle_types, 4);
KCU_AT(kcu_mem_alloc_prop, location, 8);
KCU_AT(kcu_mem_alloc_prop, win32_meta, 16);
KCU_AT(kcu_mem_alloc_prop, flags, 24);
KCU_AT(kcu_mem_alloc_prop, flags.compression, 24);
KCU_AT(kcu_mem_alloc_prop, flags.gpu_direct_rdma, 25);
KCU_AT(kcu_mem_alloc_prop, flags.usage, 26);
KCU_AT(kcu_mem_alloc_prop, flags.reserved, 28);
KCU_SIZE(kcu_mem_access_desc, 12);
KCU_AT(kcu_mem_access_desc, location, 0);
KCU_AT(kcu_mem_access_desc, flags, 8);
KCU_SIZE(kcu_memcpy_attributes, 24);
KCU_AT(kcu_memcpy_attributes, src_access_order, 0);
KCU_AT(kcu_memcpy_attributes, src_hint, 4);
KCU_AT(kcu_memcpy_attributes, dst_hint, 12);
KCU_AT(kcu_memcpy_attributes, flags, 20);

/* ---- Names for them, and the scalar and opaque types ---- */

typedef KCU_TYPE(s32, CUresult)					kcu_result;
typedef KCU_TYPE(s32, CUdevice)					kcu_device;
typedef KCU_TYPE(u64, CUdeviceptr)				kcu_deviceptr;
typedef KCU_TYPE(u64, CUmemGenericAllocationHandle)		kcu_mem_handle;
typedef KCU_TYPE(struct kcu_context_opaque *, CUcontext)	kcu_context;
typedef KCU_TYPE(struct kcu_stream_opaque *, CUstream)		kcu_stream;
typedef KCU_TYPE(struct kcu_event_opaque *, CUevent)		kcu_event;
typedef KCU_TYPE(struct kcu_module_opaque *, CUmodule)		kcu_module;
typedef KCU_TYPE(struct kcu_function_opaque *, CUfunction)	kcu_function;
typedef KCU_TYPE(struct kcu_uuid_bytes, CUuuid)			kcu_uuid;
typedef KCU_TYPE(struct kcu_mem_alloc_prop, CUmemAllocationProp) kcu_mem_prop;
typedef KCU_TYPE(struct kcu_mem_access_desc, CUmemAccessDesc)	kcu_mem_access;
typedef KCU_TYPE(struct kcu_memcpy_attributes, CUmemcpyAttributes) kcu_memcpy_attr;

/* Values of the enums below. */
typedef KCU_TYPE(u32, CUdevice_attribute)			kcu_device_attr;
typedef KCU_TYPE(u32, CUdevice_P2PAttribute)			kcu_p2p_attr;
typedef KCU_TYPE(u32, CUpointer_attribute)			kcu_pointer_attr;
typedef KCU_TYPE(u32, CUjit_option)				kcu_jit_option;
typedef KCU_TYPE(u32, CUstreamCaptureStatus)			kcu_capture_status;
typedef KCU_TYPE(u32, CUstreamCaptureMode)			kcu_capture_mode;
typedef KCU_TYPE(u32, CUmemAllocationGranularity_flags)		kcu_granularity;
typedef KCU_TYPE(u32, CUmemAllocationHandleType)		kcu_handle_kind;
typedef KCU_TYPE(u32, CUmemRangeHandleType)			kcu_range_handle;
typedef KCU_TYPE(u32, CUdriverProcAddressQueryResult)		kcu_proc_status;

typedef void (*kcu_host_fn)(void *user);

/* ---- Values ---- */

enum kcu_allocation	{ KCU_ALLOCATION_PINNED = 1 };
enum kcu_handle_type	{ KCU_HANDLE_NONE = 0, KCU_HANDLE_POSIX_FD = 1, KCU_HANDLE_FABRIC = 8 };
enum kcu_location	{ KCU_LOCATION_DEVICE = 1, KCU_LOCATION_HOST = 2,
			  KCU_LOCATION_HOST_NUMA = 3, KCU_LOCATION_HOST_NUMA_CURRENT = 4 };
enum kcu_access		{ KCU_ACCESS_NONE = 0, KCU_ACCESS_READ = 1, KCU_ACCESS_READWRITE = 3 };
enum kcu_granule	{ KCU_GRANULARITY_MINIMUM = 0, KCU_GRANULARITY_RECOMMENDED = 1 };
enum kcu_src_order	{ KCU_SRC_ORDER_STREAM = 1, KCU_SRC_ORDER_DURING_CALL = 2,
			  KCU_SRC_ORDER_ANY = 3 };
enum kcu_memcpy_flag	{ KCU_MEMCPY_PREFER_OVERLAP = 1 };
enum kcu_memory_type	{ KCU_MEMORY_HOST = 1, KCU_MEMORY_DEVICE = 2, KCU_MEMORY_UNIFIED = 4 };
enum kcu_host_alloc	{ KCU_HOST_ALLOC_PORTABLE = 1, KCU_HOST_ALLOC_DEVICEMAP = 2,
			  KCU_HOST_ALLOC_WRITECOMBINED = 4 };
enum kcu_host_register	{ KCU_HOST_REGISTER_PORTABLE = 1, KCU_HOST_REGISTER_DEVICEMAP = 2,
			  KCU_HOST_REGISTER_IOMEMORY = 4, KCU_HOST_REGISTER_READ_ONLY = 8 };
enum kcu_stream_flag	{ KCU_STREAM_NON_BLOCKING = 1 };
enum kcu_event_flag	{ KCU_EVENT_BLOCKING_SYNC = 1, KCU_EVENT_DISABLE_TIMING = 2,
			  KCU_EVENT_INTERPROCESS = 4 };
enum kcu_capturing	{ KCU_CAPTURE_NONE = 0, KCU_CAPTURE_ACTIVE = 1,
			  KCU_CAPTURE_INVALIDATED = 2 };
enum kcu_capture_kind	{ KCU_CAPTURE_MODE_GLOBAL = 0, KCU_CAPTURE_MODE_THREAD = 1,
			  KCU_CAPTURE_MODE_RELAXED = 2 };
enum kcu_proc		{ KCU_PROC_OK = 0, KCU_PROC_NOT_FOUND = 1, KCU_PROC_TOO_OLD = 2 };
enum kcu_range_kind	{ KCU_RANGE_DMA_BUF_FD = 1 };
enum kcu_range_flag	{ KCU_RANGE_DMA_BUF_PCIE = 1 };

/* Streams that the driver holds special. Never passed by the library. */
#define KCU_STREAM_LEGACY	((kcu_stream)1)
#define KCU_STREAM_PER_THREAD	((kcu_stream)2)

/* Lower is more urgent; the driver takes numbers out of range for its lowest priority. */
#define KCU_PRIORITY_LOWEST	1000

enum kcu_device_attribute {
	KCU_ATTR_SM_COUNT		= 16,
	KCU_ATTR_PCI_BUS		= 33,
	KCU_ATTR_PCI_DEVICE		= 34,
	KCU_ATTR_L2_BYTES		= 38,
	KCU_ATTR_ASYNC_ENGINES		= 40,
	KCU_ATTR_UVA			= 41,
	KCU_ATTR_PCI_DOMAIN		= 50,
	KCU_ATTR_CC_MAJOR		= 75,
	KCU_ATTR_CC_MINOR		= 76,
	KCU_ATTR_SMEM_OPTIN		= 97,
	KCU_ATTR_VMM			= 102,
	KCU_ATTR_HANDLE_POSIX_FD	= 103,
	KCU_ATTR_RDMA_WITH_VMM		= 110,
	KCU_ATTR_DMA_BUF		= 124,
	KCU_ATTR_HANDLE_FABRIC		= 128,
	KCU_ATTR_NUMA_ID		= 131,
	KCU_ATTR_MPS			= 133,
	KCU_ATTR_HOST_NUMA_ID		= 134,
};

enum kcu_p2p_attribute {
	KCU_P2P_PERFORMANCE_RANK	= 1,
	KCU_P2P_ACCESS			= 2,
	KCU_P2P_NATIVE_ATOMICS		= 3,
};

enum kcu_pointer_attribute {
	KCU_POINTER_CONTEXT		= 1,
	KCU_POINTER_MEMORY_TYPE		= 2,
	KCU_POINTER_SYNC_MEMOPS		= 6,
	KCU_POINTER_BUFFER_ID		= 7,
	KCU_POINTER_ORDINAL		= 9,
	KCU_POINTER_RANGE_START		= 11,
	KCU_POINTER_RANGE_SIZE		= 12,
	KCU_POINTER_MAPPED		= 13,
	KCU_POINTER_HANDLE_TYPES	= 14,
};

enum kcu_jit {
	KCU_JIT_INFO_LOG		= 3,
	KCU_JIT_INFO_LOG_BYTES		= 4,
	KCU_JIT_ERROR_LOG		= 5,
	KCU_JIT_ERROR_LOG_BYTES		= 6,
};

/* ---- Results ---- */

/*
 * The meaning of a result for the caller; see kcu_class_of().
 *	OK		done
 *	SOFT		this call failed, the device is as before: a wrong argument, a lost race
 *	RETRY		the same call may succeed later or smaller: not ready, full, capturing
 *	UNSUPPORTED	this driver or device will not do it: go without the feature
 *	FATAL		the context is lost, and mostly the process's use of the device with it
 */
enum kcu_class { KCU_OK, KCU_SOFT, KCU_RETRY, KCU_UNSUPPORTED, KCU_FATAL };

/*
 * X(name, value, class, errno), by value. CUDA_ERROR_<name>, but for CUDA_SUCCESS. -ENODEV in
 * the last column: no device to be had, or none left. A code that is not here counts as fatal. What
 * the driver finds wrong with our arguments is -EIO: -EINVAL is for those of the library's caller.
 */
#define KCU_ERRORS(X)								\
	X(SUCCESS,				0, OK,		0)		\
	X(INVALID_VALUE,			1, SOFT,	-EIO)		\
	X(OUT_OF_MEMORY,			2, RETRY,	-ENOMEM)	\
	X(NOT_INITIALIZED,			3, SOFT,	-ENODEV)	\
	X(DEINITIALIZED,			4, FATAL,	-EIO)		\
	X(PROFILER_DISABLED,			5, SOFT,	-EOPNOTSUPP)	\
	X(PROFILER_NOT_INITIALIZED,		6, SOFT,	-EOPNOTSUPP)	\
	X(PROFILER_ALREADY_STARTED,		7, SOFT,	-EALREADY)	\
	X(PROFILER_ALREADY_STOPPED,		8, SOFT,	-EALREADY)	\
	X(STUB_LIBRARY,				34, UNSUPPORTED, -ENODEV)	\
	X(CALL_REQUIRES_NEWER_DRIVER,		36, UNSUPPORTED, -EOPNOTSUPP)	\
	X(DEVICE_UNAVAILABLE,			46, RETRY,	-ENODEV)	\
	X(NO_DEVICE,				100, UNSUPPORTED, -ENODEV)	\
	X(INVALID_DEVICE,			101, SOFT,	-ENODEV)	\
	X(DEVICE_NOT_LICENSED,			102, UNSUPPORTED, -ENODEV)	\
	X(INVALID_IMAGE,			200, UNSUPPORTED, -EOPNOTSUPP)	\
	X(INVALID_CONTEXT,			201, SOFT,	-EIO)		\
	X(CONTEXT_ALREADY_CURRENT,		202, SOFT,	-EALREADY)	\
	X(MAP_FAILED,				205, SOFT,	-EFAULT)	\
	X(UNMAP_FAILED,				206, SOFT,	-EFAULT)	\
	X(ARRAY_IS_MAPPED,			207, SOFT,	-EBUSY)		\
	X(ALREADY_MAPPED,			208, SOFT,	-EEXIST)	\
	X(NO_BINARY_FOR_GPU,			209, UNSUPPORTED, -EOPNOTSUPP)	\
	X(ALREADY_ACQUIRED,			210, SOFT,	-EBUSY)		\
	X(NOT_MAPPED,				211, SOFT,	-ENXIO)		\
	X(NOT_MAPPED_AS_ARRAY,			212, SOFT,	-ENXIO)		\
	X(NOT_MAPPED_AS_POINTER,		213, SOFT,	-ENXIO)		\
	X(ECC_UNCORRECTABLE,			214, FATAL,	-EIO)		\
	X(UNSUPPORTED_LIMIT,			215, UNSUPPORTED, -EOPNOTSUPP)	\
	X(CONTEXT_ALREADY_IN_USE,		216, SOFT,	-EBUSY)		\
	X(PEER_ACCESS_UNSUPPORTED,		217, UNSUPPORTED, -EOPNOTSUPP)	\
	X(INVALID_PTX,				218, UNSUPPORTED, -EOPNOTSUPP)	\
	X(INVALID_GRAPHICS_CONTEXT,		219, SOFT,	-EIO)		\
	X(NVLINK_UNCORRECTABLE,			220, FATAL,	-EIO)		\
	X(JIT_COMPILER_NOT_FOUND,		221, UNSUPPORTED, -EOPNOTSUPP)	\
	X(UNSUPPORTED_PTX_VERSION,		222, UNSUPPORTED, -EOPNOTSUPP)	\
	X(JIT_COMPILATION_DISABLED,		223, UNSUPPORTED, -EOPNOTSUPP)	\
	X(UNSUPPORTED_EXEC_AFFINITY,		224, UNSUPPORTED, -EOPNOTSUPP)	\
	X(UNSUPPORTED_DEVSIDE_SYNC,		225, UNSUPPORTED, -EOPNOTSUPP)	\
	X(CONTAINED,				226, FATAL,	-EIO)		\
	X(INVALID_SOURCE,			300, UNSUPPORTED, -EOPNOTSUPP)	\
	X(FILE_NOT_FOUND,			301, SOFT,	-ENOENT)	\
	X(SHARED_OBJECT_SYMBOL_NOT_FOUND,	302, UNSUPPORTED, -EOPNOTSUPP)	\
	X(SHARED_OBJECT_INIT_FAILED,		303, UNSUPPORTED, -EOPNOTSUPP)	\
	X(OPERATING_SYSTEM,			304, UNSUPPORTED, -EOPNOTSUPP)	\
	X(INVALID_HANDLE,			400, SOFT,	-EIO)		\
	X(ILLEGAL_STATE,			401, SOFT,	-EIO)		\
	X(LOSSY_QUERY,				402, SOFT,	-EIO)		\
	X(NOT_FOUND,				500, UNSUPPORTED, -EOPNOTSUPP)	\
	X(NOT_READY,				600, RETRY,	-EAGAIN)	\
	X(ILLEGAL_ADDRESS,			700, FATAL,	-EIO)		\
	X(LAUNCH_OUT_OF_RESOURCES,		701, RETRY,	-ENOBUFS)	\
	X(LAUNCH_TIMEOUT,			702, FATAL,	-EIO)		\
	X(LAUNCH_INCOMPATIBLE_TEXTURING,	703, SOFT,	-EIO)		\
	X(PEER_ACCESS_ALREADY_ENABLED,		704, SOFT,	-EALREADY)	\
	X(PEER_ACCESS_NOT_ENABLED,		705, SOFT,	-ENXIO)		\
	X(PRIMARY_CONTEXT_ACTIVE,		708, SOFT,	-EBUSY)		\
	X(CONTEXT_IS_DESTROYED,			709, FATAL,	-EIO)		\
	X(ASSERT,				710, FATAL,	-EIO)		\
	X(TOO_MANY_PEERS,			711, UNSUPPORTED, -EOPNOTSUPP)	\
	X(HOST_MEMORY_ALREADY_REGISTERED,	712, SOFT,	-EALREADY)	\
	X(HOST_MEMORY_NOT_REGISTERED,		713, SOFT,	-ENXIO)		\
	X(HARDWARE_STACK_ERROR,			714, FATAL,	-EIO)		\
	X(ILLEGAL_INSTRUCTION,			715, FATAL,	-EIO)		\
	X(MISALIGNED_ADDRESS,			716, FATAL,	-EIO)		\
	X(INVALID_ADDRESS_SPACE,		717, FATAL,	-EIO)		\
	X(INVALID_PC,				718, FATAL,	-EIO)		\
	X(LAUNCH_FAILED,			719, FATAL,	-EIO)		\
	X(COOPERATIVE_LAUNCH_TOO_LARGE,		720, SOFT,	-EIO)		\
	X(TENSOR_MEMORY_LEAK,			721, FATAL,	-EIO)		\
	X(NOT_PERMITTED,			800, UNSUPPORTED, -EOPNOTSUPP)	\
	X(NOT_SUPPORTED,			801, UNSUPPORTED, -EOPNOTSUPP)	\
	X(SYSTEM_NOT_READY,			802, UNSUPPORTED, -ENODEV)	\
	X(SYSTEM_DRIVER_MISMATCH,		803, UNSUPPORTED, -ENODEV)	\
	X(COMPAT_NOT_SUPPORTED_ON_DEVICE,	804, UNSUPPORTED, -ENODEV)	\
	X(MPS_CONNECTION_FAILED,		805, UNSUPPORTED, -ENODEV)	\
	X(MPS_RPC_FAILURE,			806, UNSUPPORTED, -ENODEV)	\
	X(MPS_SERVER_NOT_READY,			807, RETRY,	-EAGAIN)	\
	X(MPS_MAX_CLIENTS_REACHED,		808, UNSUPPORTED, -ENODEV)	\
	X(MPS_MAX_CONNECTIONS_REACHED,		809, UNSUPPORTED, -ENODEV)	\
	X(MPS_CLIENT_TERMINATED,		810, FATAL,	-EIO)		\
	X(CDP_NOT_SUPPORTED,			811, UNSUPPORTED, -EOPNOTSUPP)	\
	X(CDP_VERSION_MISMATCH,			812, UNSUPPORTED, -EOPNOTSUPP)	\
	X(STREAM_CAPTURE_UNSUPPORTED,		900, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_INVALIDATED,		901, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_MERGE,			902, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_UNMATCHED,		903, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_UNJOINED,		904, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_ISOLATION,		905, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_IMPLICIT,		906, RETRY,	-EBUSY)		\
	X(CAPTURED_EVENT,			907, RETRY,	-EBUSY)		\
	X(STREAM_CAPTURE_WRONG_THREAD,		908, RETRY,	-EBUSY)		\
	X(TIMEOUT,				909, SOFT,	-ETIMEDOUT)	\
	X(GRAPH_EXEC_UPDATE_FAILURE,		910, SOFT,	-EIO)		\
	X(EXTERNAL_DEVICE,			911, FATAL,	-EIO)		\
	X(INVALID_CLUSTER_SIZE,			912, SOFT,	-EIO)		\
	X(FUNCTION_NOT_LOADED,			913, SOFT,	-EIO)		\
	X(INVALID_RESOURCE_TYPE,		914, SOFT,	-EIO)		\
	X(INVALID_RESOURCE_CONFIGURATION,	915, SOFT,	-EIO)		\
	X(KEY_ROTATION,				916, SOFT,	-EIO)		\
	X(UNKNOWN,				999, FATAL,	-EIO)

#define KCU_ERROR_VALUE(name, value, class, err)	KCU_E_##name = (value),
enum kcu_error { KCU_ERRORS(KCU_ERROR_VALUE) };		/* KCU_E_SUCCESS, KCU_E_NOT_READY, ... */
#undef KCU_ERROR_VALUE

/*
 * ---- Calls ----
 *
 * A row says all of a call: R(X, field, base, suffix, version that introduced it, parameters). Its
 * export is "cu", base and suffix; its type is named after the base and the version. For users the
 * groups are X(field, export_name, type, pinned_version).
 */

#define KCU_FN(base, version)	kcu_##base##_v##version

/* Without one of these there is no device. */
#define KCU_REQUIRED_ROWS(R, X)									\
	R(X, init, Init, , 2000, unsigned int flags)						\
	R(X, driver_get_version, DriverGetVersion, , 2020, int *version)			\
	R(X, get_error_name, GetErrorName, , 6000, kcu_result error, const char **name)		\
	R(X, get_error_string, GetErrorString, , 6000, kcu_result error, const char **text)	\
	R(X, device_get_count, DeviceGetCount, , 2000, int *count)				\
	R(X, device_get, DeviceGet, , 2000, kcu_device *dev, int ordinal)			\
	R(X, device_get_name, DeviceGetName, , 2000, char *name, int bytes, kcu_device dev)	\
	R(X, device_get_uuid, DeviceGetUuid, _v2, 11040, kcu_uuid *uuid, kcu_device dev)	\
	R(X, device_total_mem, DeviceTotalMem, _v2, 3020, size_t *bytes, kcu_device dev)	\
	R(X, device_get_attribute, DeviceGetAttribute, , 2000, int *value,			\
	  kcu_device_attr attr, kcu_device dev)							\
	R(X, device_get_pci_bus_id, DeviceGetPCIBusId, , 4010, char *id, int bytes,		\
	  kcu_device dev)									\
	R(X, primary_ctx_retain, DevicePrimaryCtxRetain, , 7000, kcu_context *ctx,		\
	  kcu_device dev)									\
	R(X, primary_ctx_release, DevicePrimaryCtxRelease, _v2, 11000, kcu_device dev)		\
	R(X, primary_ctx_get_state, DevicePrimaryCtxGetState, , 7000, kcu_device dev,		\
	  unsigned int *flags, int *active)							\
	R(X, ctx_get_current, CtxGetCurrent, , 4000, kcu_context *ctx)				\
	R(X, ctx_push_current, CtxPushCurrent, _v2, 4000, kcu_context ctx)			\
	R(X, ctx_pop_current, CtxPopCurrent, _v2, 4000, kcu_context *ctx)			\
	R(X, ctx_get_device, CtxGetDevice, , 2000, kcu_device *dev)				\
	R(X, mem_get_info, MemGetInfo, _v2, 3020, size_t *free, size_t *total)			\
	R(X, mem_alloc, MemAlloc, _v2, 3020, kcu_deviceptr *addr, size_t bytes)			\
	R(X, mem_free, MemFree, _v2, 3020, kcu_deviceptr addr)					\
	R(X, mem_host_alloc, MemHostAlloc, , 2020, void **ptr, size_t bytes,			\
	  unsigned int flags)									\
	R(X, mem_free_host, MemFreeHost, , 2000, void *ptr)					\
	R(X, mem_host_register, MemHostRegister, _v2, 6050, void *ptr, size_t bytes,		\
	  unsigned int flags)									\
	R(X, mem_host_unregister, MemHostUnregister, , 4000, void *ptr)				\
	R(X, mem_host_get_device_pointer, MemHostGetDevicePointer, _v2, 3020,			\
	  kcu_deviceptr *addr, void *ptr, unsigned int flags)					\
	R(X, pointer_get_attributes, PointerGetAttributes, , 7000, unsigned int nr,		\
	  kcu_pointer_attr *attrs, void **data, kcu_deviceptr addr)				\
	R(X, memcpy_async, MemcpyAsync, , 4000, kcu_deviceptr dst, kcu_deviceptr src,		\
	  size_t bytes, kcu_stream stream)							\
	R(X, memcpy_dtod_async, MemcpyDtoDAsync, _v2, 3020, kcu_deviceptr dst,			\
	  kcu_deviceptr src, size_t bytes, kcu_stream stream)					\
	R(X, memcpy_htod_async, MemcpyHtoDAsync, _v2, 3020, kcu_deviceptr dst,			\
	  const void *src, size_t bytes, kcu_stream stream)					\
	R(X, memcpy_dtoh_async, MemcpyDtoHAsync, _v2, 3020, void *dst, kcu_deviceptr src,	\
	  size_t bytes, kcu_stream stream)							\
	R(X, memset_d8_async, MemsetD8Async, , 3020, kcu_deviceptr dst, unsigned char byte,	\
	  size_t bytes, kcu_stream stream)							\
	R(X, stream_create_with_priority, StreamCreateWithPriority, , 5050,			\
	  kcu_stream *stream, unsigned int flags, int priority)					\
	R(X, stream_destroy, StreamDestroy, _v2, 4000, kcu_stream stream)			\
	R(X, stream_synchronize, StreamSynchronize, , 2000, kcu_stream stream)			\
	R(X, stream_query, StreamQuery, , 2000, kcu_stream stream)				\
	R(X, stream_wait_event, StreamWaitEvent, , 3020, kcu_stream stream, kcu_event event,	\
	  unsigned int flags)									\
	R(X, stream_is_capturing, StreamIsCapturing, , 10000, kcu_stream stream,		\
	  kcu_capture_status *status)								\
	R(X, launch_host_func, LaunchHostFunc, , 10000, kcu_stream stream, kcu_host_fn fn,	\
	  void *user)										\
	R(X, event_create, EventCreate, , 2000, kcu_event *event, unsigned int flags)		\
	R(X, event_destroy, EventDestroy, _v2, 4000, kcu_event event)				\
	R(X, event_record, EventRecord, , 2000, kcu_event event, kcu_stream stream)		\
	R(X, event_query, EventQuery, , 2000, kcu_event event)					\
	R(X, event_synchronize, EventSynchronize, , 2000, kcu_event event)			\
	R(X, event_elapsed_time, EventElapsedTime, , 2000, float *ms, kcu_event start,		\
	  kcu_event end)									\
	R(X, module_load_data_ex, ModuleLoadDataEx, , 2010, kcu_module *module,			\
	  const void *image, unsigned int nr, kcu_jit_option *options, void **values)		\
	R(X, module_unload, ModuleUnload, , 2000, kcu_module module)				\
	R(X, module_get_function, ModuleGetFunction, , 2000, kcu_function *fn,			\
	  kcu_module module, const char *name)							\
	R(X, launch_kernel, LaunchKernel, , 4000, kcu_function fn, unsigned int grid_x,		\
	  unsigned int grid_y, unsigned int grid_z, unsigned int block_x,			\
	  unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,		\
	  kcu_stream stream, void **params, void **extra)					\
	R(X, thread_exchange_capture_mode, ThreadExchangeStreamCaptureMode, , 10010,		\
	  kcu_capture_mode *mode)

/* Each group is there as a whole or not at all: then its fields are NULL, its bit is clear. */
#define KCU_VMM_ROWS(R, X)									\
	R(X, mem_address_reserve, MemAddressReserve, , 10020, kcu_deviceptr *addr,		\
	  size_t bytes, size_t align, kcu_deviceptr hint, unsigned long long flags)		\
	R(X, mem_address_free, MemAddressFree, , 10020, kcu_deviceptr addr, size_t bytes)	\
	R(X, mem_create, MemCreate, , 10020, kcu_mem_handle *handle, size_t bytes,		\
	  const kcu_mem_prop *prop, unsigned long long flags)					\
	R(X, mem_release, MemRelease, , 10020, kcu_mem_handle handle)				\
	R(X, mem_map, MemMap, , 10020, kcu_deviceptr addr, size_t bytes, size_t offset,		\
	  kcu_mem_handle handle, unsigned long long flags)					\
	R(X, mem_unmap, MemUnmap, , 10020, kcu_deviceptr addr, size_t bytes)			\
	R(X, mem_set_access, MemSetAccess, , 10020, kcu_deviceptr addr, size_t bytes,		\
	  const kcu_mem_access *desc, size_t nr)						\
	R(X, mem_get_granularity, MemGetAllocationGranularity, , 10020, size_t *bytes,		\
	  const kcu_mem_prop *prop, kcu_granularity option)					\
	R(X, mem_export, MemExportToShareableHandle, , 10020, void *shared,			\
	  kcu_mem_handle handle, kcu_handle_kind kind, unsigned long long flags)		\
	R(X, mem_import, MemImportFromShareableHandle, , 10020, kcu_mem_handle *handle,		\
	  void *shared, kcu_handle_kind kind)							\
	R(X, mem_retain_handle, MemRetainAllocationHandle, , 11000, kcu_mem_handle *handle,	\
	  void *addr)

/* Two ABIs of one name: the first has a pointer where the second has the stream. */
#define KCU_BATCH12_ROWS(R, X)									\
	R(X, memcpy_batch_async_v12, MemcpyBatchAsync, , 12080, kcu_deviceptr *dsts,		\
	  kcu_deviceptr *srcs, size_t *bytes, size_t nr, kcu_memcpy_attr *attrs,		\
	  size_t *attr_from, size_t nr_attrs, size_t *fail_idx, kcu_stream stream)

#define KCU_BATCH13_ROWS(R, X)									\
	R(X, memcpy_batch_async_v13, MemcpyBatchAsync, _v2, 13000, kcu_deviceptr *dsts,		\
	  kcu_deviceptr *srcs, size_t *bytes, size_t nr, kcu_memcpy_attr *attrs,		\
	  size_t *attr_from, size_t nr_attrs, kcu_stream stream)

#define KCU_PEER_ROWS(R, X)									\
	R(X, device_can_access_peer, DeviceCanAccessPeer, , 4000, int *can, kcu_device dev,	\
	  kcu_device peer)									\
	R(X, device_get_p2p_attribute, DeviceGetP2PAttribute, , 8000, int *value,		\
	  kcu_p2p_attr attr, kcu_device src, kcu_device dst)					\
	R(X, ctx_enable_peer_access, CtxEnablePeerAccess, , 4000, kcu_context peer,		\
	  unsigned int flags)									\
	R(X, memcpy_peer_async, MemcpyPeerAsync, , 4000, kcu_deviceptr dst,			\
	  kcu_context dst_ctx, kcu_deviceptr src, kcu_context src_ctx, size_t bytes,		\
	  kcu_stream stream)

#define KCU_DMABUF_ROWS(R, X)									\
	R(X, mem_get_range_handle, MemGetHandleForAddressRange, , 11070, void *handle,		\
	  kcu_deviceptr addr, size_t bytes, kcu_range_handle kind, unsigned long long flags)

#define KCU_MEMOPS_ROWS(R, X)									\
	R(X, stream_write_value64, StreamWriteValue64, _v2, 11070, kcu_stream stream,		\
	  kcu_deviceptr addr, u64 value, unsigned int flags)					\
	R(X, stream_wait_value64, StreamWaitValue64, _v2, 11070, kcu_stream stream,		\
	  kcu_deviceptr addr, u64 value, unsigned int flags)

#define KCU_TYPE_OF(X, field, base, suffix, version, ...) \
	typedef kcu_result (*kcu_cu##base##_v##version)(__VA_ARGS__);

KCU_REQUIRED_ROWS(KCU_TYPE_OF, )
KCU_VMM_ROWS(KCU_TYPE_OF, )
KCU_BATCH12_ROWS(KCU_TYPE_OF, )
KCU_BATCH13_ROWS(KCU_TYPE_OF, )
KCU_PEER_ROWS(KCU_TYPE_OF, )
KCU_DMABUF_ROWS(KCU_TYPE_OF, )
KCU_MEMOPS_ROWS(KCU_TYPE_OF, )
KCU_TYPE_OF(, , GetProcAddress, , 12000, const char *base, void **fn, int version, u64 flags,
	    kcu_proc_status *status)
#undef KCU_TYPE_OF

#define KCU_ROW(X, field, base, suffix, version, ...) \
	X(field, cu##base##suffix, KCU_FN(cu##base, version), version)

#define KCU_REQUIRED(X)	KCU_REQUIRED_ROWS(KCU_ROW, X)
#define KCU_VMM(X)	KCU_VMM_ROWS(KCU_ROW, X)
#define KCU_BATCH12(X)	KCU_BATCH12_ROWS(KCU_ROW, X)
#define KCU_BATCH13(X)	KCU_BATCH13_ROWS(KCU_ROW, X)
#define KCU_PEER(X)	KCU_PEER_ROWS(KCU_ROW, X)
#define KCU_DMABUF(X)	KCU_DMABUF_ROWS(KCU_ROW, X)
#define KCU_MEMOPS(X)	KCU_MEMOPS_ROWS(KCU_ROW, X)

/* G(name): KCU_<name>(X) lists its calls, KCU_F_<name> is its feature bit. */
#define KCU_OPTIONAL_GROUPS(G)	G(VMM) G(BATCH12) G(BATCH13) G(PEER) G(DMABUF) G(MEMOPS)

#define KCU_OPTIONAL(X)									\
	KCU_VMM(X) KCU_BATCH12(X) KCU_BATCH13(X) KCU_PEER(X) KCU_DMABUF(X) KCU_MEMOPS(X)

#define KCU_ALL(X)		KCU_REQUIRED(X) KCU_OPTIONAL(X)

#define KCU_NR_REQUIRED		50
#define KCU_NR_VMM		11
#define KCU_NR_ALL		70

#define KCU_COUNT_ONE(field, name, type, version)	+ 1
static_assert(0 KCU_REQUIRED(KCU_COUNT_ONE) == KCU_NR_REQUIRED, "required calls");
static_assert(0 KCU_VMM(KCU_COUNT_ONE) == KCU_NR_VMM, "calls for virtual memory");
static_assert(0 KCU_ALL(KCU_COUNT_ONE) == KCU_NR_ALL, "all calls");
#undef KCU_COUNT_ONE

/*
 * Abilities beyond the required calls. IPC_FD and FABRIC have no calls of their own: they say
 * that a device can export VMM memory that way, and are found per device.
 */
enum kcu_feature {
	KCU_F_VMM	= BIT(0),
	KCU_F_BATCH12	= BIT(1),
	KCU_F_BATCH13	= BIT(2),
	KCU_F_PEER	= BIT(3),
	KCU_F_DMABUF	= BIT(4),
	KCU_F_MEMOPS	= BIT(5),
	KCU_F_IPC_FD	= BIT(6),
	KCU_F_FABRIC	= BIT(7),
};

/* ---- The table ---- */

#define KCU_FIELD(field, name, type, version)	type field;
struct kcu {
	KCU_ALL(KCU_FIELD)	/* fixed by kcu_load() */
	u32 features;		/* enum kcu_feature, as the symbols allow; fixed by kcu_load() */
	int driver_version;	/* 1000 * major + 10 * minor; fixed by kcu_load() */
	int nr_devices;		/* fixed by kcu_load() */
};
#undef KCU_FIELD

/**
 * kcu_load() - open a driver, fill the table, start the driver
 * @cu: filled on success, zeroed on failure
 * @path: the driver library; NULL: the one KVMM_CUDA_DRIVER names, else libcuda.so.1
 *
 * The library stays loaded for the life of the process. Calls of the table may be made from any
 * thread; the rules about contexts, capture and forks are kept by struct kv_gpu, not here.
 *
 * Context: may sleep, runs the driver's start-up code; not while a stream is capturing.
 * Return: 0; -ENODEV no driver, a call is missing, no device, or the driver refuses; -ECHILD the
 * process has forked since the library was loaded; else the errno of the driver's answer.
 */
int kcu_load(struct kcu *cu, const char *path);

/* "CUDA_ERROR_NO_DEVICE"; never NULL, "unknown CUDA error" for codes that are not in the table. */
const char *kcu_error_name(kcu_result result);
enum kcu_class kcu_class_of(kcu_result result);
int kcu_errno(kcu_result result);		/* 0 or negative; -EIO for unknown codes */

#endif /* KV_KCU_H */
