/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that the library has no use for, and programs make every day: rows as in <kv/kcu.h>. What they
 * answer is what a GPU's driver answers.
 */
#ifndef SWCUDA_EVERYDAY_H
#define SWCUDA_EVERYDAY_H

#include <kv/kcu.h>

#define SW_EVERYDAY_ROWS(R, X)								\
	R(X, , DeviceGetUuid, , 9020, kcu_uuid *uuid, kcu_device dev)				\
	R(X, , DeviceComputeCapability, , 2000, int *major, int *minor, kcu_device dev)		\
	R(X, , CtxCreate, _v2, 3020, kcu_context *ctx, unsigned int flags, kcu_device dev)	\
	R(X, , CtxCreate, _v4, 12050, kcu_context *ctx, void *params, unsigned int flags,	\
	  kcu_device dev)									\
	R(X, , CtxDestroy, _v2, 4000, kcu_context ctx)						\
	R(X, , CtxSetCurrent, , 4000, kcu_context ctx)						\
	R(X, , CtxSynchronize, , 2000, void)							\
	R(X, , CtxGetStreamPriorityRange, , 5050, int *least, int *greatest)			\
	R(X, , MemAllocHost, _v2, 3020, void **ptr, size_t bytes)				\
	R(X, , MemHostGetFlags, , 2030, unsigned int *flags, void *ptr)				\
	R(X, , MemGetAddressRange, _v2, 3020, kcu_deviceptr *base, size_t *bytes,		\
	  kcu_deviceptr addr)									\
	R(X, , PointerGetAttribute, , 4000, void *data, kcu_pointer_attr attr,			\
	  kcu_deviceptr addr)									\
	R(X, , Memcpy, , 4000, kcu_deviceptr dst, kcu_deviceptr src, size_t bytes)		\
	R(X, , MemcpyHtoD, _v2, 3020, kcu_deviceptr dst, const void *src, size_t bytes)		\
	R(X, , MemcpyDtoH, _v2, 3020, void *dst, kcu_deviceptr src, size_t bytes)		\
	R(X, , MemcpyDtoD, _v2, 3020, kcu_deviceptr dst, kcu_deviceptr src, size_t bytes)	\
	R(X, , MemsetD8, _v2, 3020, kcu_deviceptr dst, unsigned char value, size_t nr)		\
	R(X, , MemsetD16, _v2, 3020, kcu_deviceptr dst, unsigned short value, size_t nr)	\
	R(X, , MemsetD32, _v2, 3020, kcu_deviceptr dst, unsigned int value, size_t nr)		\
	R(X, , MemsetD16Async, , 3020, kcu_deviceptr dst, unsigned short value, size_t nr,	\
	  kcu_stream stream)									\
	R(X, , MemsetD32Async, , 3020, kcu_deviceptr dst, unsigned int value, size_t nr,	\
	  kcu_stream stream)									\
	R(X, , StreamCreate, , 2000, kcu_stream *stream, unsigned int flags)			\
	R(X, , StreamGetFlags, , 5050, kcu_stream stream, unsigned int *flags)			\
	R(X, , StreamGetPriority, , 5050, kcu_stream stream, int *priority)			\
	R(X, , StreamGetCtx, , 9020, kcu_stream stream, kcu_context *ctx)			\
	R(X, , EventRecordWithFlags, , 11010, kcu_event event, kcu_stream stream,		\
	  unsigned int flags)									\
	R(X, , EventElapsedTime, _v2, 12080, float *ms, kcu_event start, kcu_event end)		\
	R(X, , ModuleLoadData, , 2000, kcu_module *module, const void *image)			\
	R(X, , GetProcAddress, , 11030, const char *base, void **fn, int version, u64 flags)	\
	R(X, , GetProcAddress, _v2, 12000, const char *base, void **fn, int version, u64 flags,	\
	  kcu_proc_status *status)

#define SW_TYPE_OF(X, field, base, suffix, version, ...) \
	typedef kcu_result (*kcu_cu##base##_v##version)(__VA_ARGS__);
SW_EVERYDAY_ROWS(SW_TYPE_OF, )
#undef SW_TYPE_OF

#define SW_EVERYDAY(X)	SW_EVERYDAY_ROWS(KCU_ROW, X)
#define SW_ALL(X)	KCU_ALL(X) SW_EVERYDAY(X)

#endif /* SWCUDA_EVERYDAY_H */
