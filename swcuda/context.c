// SPDX-License-Identifier: Apache-2.0
/* Primary contexts, and the stack of current ones that each thread has. */
#include "internal.h"

#define STACK_DEPTH	64

static __thread u64 stack[STACK_DEPTH];		/* handles: they may go stale */
static __thread u32 depth;

static u64 top(void)
{
	return depth ? stack[depth - 1] : 0;
}

struct sw_dev *sw_current(void)
{
	return sw_object(SW_T_CONTEXT, top());
}

static struct sw_dev *device_of(kcu_device dev)
{
	return (u32)dev < sw.opt.nr_devices ? &sw.dev[dev] : NULL;
}

static kcu_result create(struct sw_dev *dev)
{
	kcu_result rc = sw_dev_open(dev);

	if (rc)
		return rc;
	dev->context = sw_object_add(SW_T_CONTEXT, dev);
	if (!dev->context)
		return KCU_E_OUT_OF_MEMORY;
	sw.live.nr_contexts++;
	return KCU_E_SUCCESS;
}

static kcu_result retain(kcu_context *ctx, kcu_device ordinal)
{
	struct sw_dev *dev = device_of(ordinal);
	kcu_result rc = KCU_E_SUCCESS;

	if (!dev)
		return KCU_E_INVALID_DEVICE;
	if (!ctx)
		return KCU_E_INVALID_VALUE;
	if (dev->sticky)
		return dev->sticky;
	if (!dev->context)
		rc = create(dev);
	if (rc)
		return rc;
	dev->nr_retained++;
	*ctx = (kcu_context)dev->context;
	return KCU_E_SUCCESS;
}

kcu_result cuDevicePrimaryCtxRetain(kcu_context *ctx, kcu_device dev)
{
	return SW_RUN(cuDevicePrimaryCtxRetain, SW_INIT | SW_UNSAFE, retain(ctx, dev));
}

/* The last one ends the context. What was made in it and not destroyed stays, as a leak. */
static kcu_result release(kcu_device ordinal)
{
	struct sw_dev *dev = device_of(ordinal);

	if (!dev)
		return KCU_E_INVALID_DEVICE;
	if (!dev->nr_retained)
		return KCU_E_INVALID_CONTEXT;
	if (--dev->nr_retained)
		return KCU_E_SUCCESS;
	sw_object_del(dev->context);
	dev->context = 0;
	sw.live.nr_contexts--;
	return KCU_E_SUCCESS;
}

kcu_result cuDevicePrimaryCtxRelease_v2(kcu_device dev)
{
	return SW_RUN(cuDevicePrimaryCtxRelease_v2, SW_INIT | SW_UNSAFE, release(dev));
}

static kcu_result get_state(kcu_device ordinal, unsigned int *flags, int *active)
{
	struct sw_dev *dev = device_of(ordinal);

	if (!dev)
		return KCU_E_INVALID_DEVICE;
	if (!flags || !active)
		return KCU_E_INVALID_VALUE;
	*flags = 0;
	*active = dev->context != 0;
	return KCU_E_SUCCESS;
}

kcu_result cuDevicePrimaryCtxGetState(kcu_device dev, unsigned int *flags, int *active)
{
	return SW_RUN(cuDevicePrimaryCtxGetState, SW_INIT, get_state(dev, flags, active));
}

static kcu_result get_current(kcu_context *ctx)
{
	if (!ctx)
		return KCU_E_INVALID_VALUE;
	*ctx = (kcu_context)top();
	return KCU_E_SUCCESS;
}

kcu_result cuCtxGetCurrent(kcu_context *ctx)
{
	return SW_RUN(cuCtxGetCurrent, SW_INIT, get_current(ctx));
}

static kcu_result push(kcu_context ctx)
{
	if (!sw_object(SW_T_CONTEXT, (u64)ctx) || depth == STACK_DEPTH)
		return KCU_E_INVALID_CONTEXT;
	stack[depth++] = (u64)ctx;
	return KCU_E_SUCCESS;
}

kcu_result cuCtxPushCurrent_v2(kcu_context ctx)
{
	return SW_RUN(cuCtxPushCurrent_v2, SW_INIT, push(ctx));
}

static kcu_result pop(kcu_context *ctx)
{
	if (!depth)
		return KCU_E_INVALID_CONTEXT;
	if (ctx)
		*ctx = (kcu_context)top();
	depth--;
	return KCU_E_SUCCESS;
}

kcu_result cuCtxPopCurrent_v2(kcu_context *ctx)
{
	return SW_RUN(cuCtxPopCurrent_v2, SW_INIT, pop(ctx));
}

/* In the place of the current one; none: that is gone. */
static kcu_result set_current(kcu_context ctx)
{
	if (ctx && !sw_object(SW_T_CONTEXT, (u64)ctx))
		return KCU_E_INVALID_CONTEXT;
	depth -= depth > 0;
	return ctx ? push(ctx) : KCU_E_SUCCESS;
}

kcu_result cuCtxSetCurrent(kcu_context ctx)
{
	return SW_RUN(cuCtxSetCurrent, SW_INIT, set_current(ctx));
}

/* There is one context a device, the primary one: its maker holds a reference of it. */
static kcu_result create_current(kcu_context *ctx, unsigned int flags, kcu_device dev)
{
	kcu_result rc = flags & ~0xffu || depth == STACK_DEPTH ? KCU_E_INVALID_VALUE : retain(ctx, dev);

	return rc ?: push(*ctx);
}

kcu_result cuCtxCreate_v2(kcu_context *ctx, unsigned int flags, kcu_device dev)
{
	return SW_RUN(cuCtxCreate_v2, SW_INIT | SW_UNSAFE, create_current(ctx, flags, dev));
}

kcu_result cuCtxCreate_v4(kcu_context *ctx, void *params, unsigned int flags, kcu_device dev)
{
	return SW_RUN(cuCtxCreate_v4, SW_INIT | SW_UNSAFE,
		      params ? KCU_E_NOT_SUPPORTED : create_current(ctx, flags, dev));
}

static kcu_result destroy(kcu_context ctx)
{
	struct sw_dev *dev = sw_object(SW_T_CONTEXT, (u64)ctx);

	if (!dev)
		return KCU_E_INVALID_CONTEXT;
	depth -= top() == (u64)ctx;
	return release(dev->ordinal);
}

kcu_result cuCtxDestroy_v2(kcu_context ctx)
{
	return SW_RUN(cuCtxDestroy_v2, SW_INIT | SW_UNSAFE, destroy(ctx));
}

static kcu_result get_device(kcu_device *ordinal)
{
	struct sw_dev *dev = sw_current();

	if (!ordinal)
		return KCU_E_INVALID_VALUE;
	if (!dev)
		return KCU_E_INVALID_CONTEXT;
	*ordinal = dev->ordinal;
	return KCU_E_SUCCESS;
}

kcu_result cuCtxGetDevice(kcu_device *dev)
{
	return SW_RUN(cuCtxGetDevice, SW_INIT, get_device(dev));
}

void sw_contexts_forget(void)
{
	depth = 0;
}
