// SPDX-License-Identifier: Apache-2.0
/* Host functions: they run without the lock, and may not call the driver. */
#include "internal.h"

struct host_op {
	struct sw_op op;
	kcu_host_fn fn;
	void *user;
};

static bool host_step(struct sw_op *op)
{
	struct host_op *host = container_of(op, struct host_op, op);

	sw_unlock();
	sw_callback_begin();
	host->fn(host->user);
	sw_callback_end();
	sw_lock();
	return true;
}

static const struct sw_op_ops host_ops = {
	.name	= "host function",
	.step	= host_step,
};

static kcu_result launch(kcu_stream handle, kcu_host_fn fn, void *user)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_get(handle, &stream);
	struct host_op *host;

	if (rc)
		return rc;
	if (!fn)
		return KCU_E_INVALID_VALUE;
	host = sw_op_new(&host_ops, sizeof(*host));
	if (!host)
		return KCU_E_OUT_OF_MEMORY;
	host->fn = fn;
	host->user = user;
	return sw_queue(stream, &host->op, SW_cuLaunchHostFunc);
}

kcu_result cuLaunchHostFunc(kcu_stream stream, kcu_host_fn fn, void *user)
{
	return SW_RUN(cuLaunchHostFunc, SW_INIT | SW_CTX, launch(stream, fn, user));
}
