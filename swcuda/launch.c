// SPDX-License-Identifier: Apache-2.0
/*
 * Launches: a kernel is a function that is called once for each thread.
 *
 * Parameters are copied at the call. A launch runs in two to eight parts with other work in
 * between: of its own threads in order; with slow=1 in random order; or, if the kernel takes any
 * grid, of as many single threads as there are parts.
 */
#include "internal.h"

#define MAX_PARTS	8
#define MAX_GROUP	1024u
#define MAX_GRID_YZ	65535u
#define MAX_SHARED	(48u << 10)

struct launch {
	struct sw_op op;
	const struct sw_kernel *kernel;
	struct sw_grid grid;
	u64 nr_threads, next, part;
	u64 stride, start;		/* thread n is number (start + n * stride) % nr_threads */
	void **params;			/* followed by what they point at */
};

static void launch_touch(struct sw_op *op, struct sw_access_list *list)
{
	struct launch *launch = container_of(op, struct launch, op);

	if (launch->kernel->access)
		launch->kernel->access(launch->kernel, launch->params, list, sw_touch);
}

static void run_threads(struct launch *launch, u64 from, u64 to)
{
	u64 nr = launch->start + from * launch->stride % launch->nr_threads;

	for (u64 i = from; i < to; i++) {
		nr %= launch->nr_threads;
		launch->kernel->run(launch->kernel, &launch->grid, nr, launch->params);
		nr += launch->stride;
	}
}

/* Memory may have been unmapped since it began. */
static bool still_there(struct sw_op *op)
{
	struct sw_access_list list = { .op = op, .recheck = true };

	launch_touch(op, &list);
	op->fault = list.rc;
	return !list.rc;
}

static bool launch_step(struct sw_op *op)
{
	struct launch *launch = container_of(op, struct launch, op);
	u64 from = launch->next, to = min(from + launch->part, launch->nr_threads);

	if (from && !still_there(op))
		return true;
	launch->next = to;
	if (sw.opt.threads)
		sw_unlock();
	run_threads(launch, from, to);
	if (sw.opt.threads)
		sw_lock();
	return to == launch->nr_threads;
}

static void launch_drop(struct sw_op *op)
{
	free(container_of(op, struct launch, op)->params);
}

static const struct sw_op_ops launch_ops = {
	.name	= "kernel",
	.touch	= launch_touch,
	.step	= launch_step,
	.drop	= launch_drop,
};

static int copy_params(struct launch *launch, const struct sw_function *fn, void **params)
{
	size_t bytes = fn->nr_params * sizeof(void *);
	u8 *at;

	for (u32 i = 0; i < fn->nr_params; i++)
		bytes += kv_align_up(fn->param_bytes[i], 16);
	launch->params = aligned_alloc(16, kv_align_up(bytes + 16, 16));
	if (!launch->params)
		return -ENOMEM;
	at = (u8 *)kv_align_up((u64)(launch->params + fn->nr_params), 16);
	for (u32 i = 0; i < fn->nr_params; i++) {
		memcpy(at, params[i], fn->param_bytes[i]);
		launch->params[i] = at;
		at += kv_align_up(fn->param_bytes[i], 16);
	}
	return 0;
}

static u64 gcd(u64 a, u64 b)
{
	return b ? gcd(b, a % b) : a;
}

static void plan_order(struct launch *launch)
{
	launch->stride = 1;
	if (sw.opt.slow) {
		launch->start = sw_random() % launch->nr_threads;
		launch->stride = 1 + sw_random() % launch->nr_threads;
		while (gcd(launch->stride, launch->nr_threads) != 1)
			launch->stride++;
	} else if (launch->kernel->any_grid) {
		launch->nr_threads = min(launch->nr_threads, 2 + sw_below(MAX_PARTS - 1));
		launch->grid = (struct sw_grid){ { launch->nr_threads, 1, 1 }, { 1, 1, 1 } };
	}
	launch->part = launch->nr_threads / (2 + sw_below(MAX_PARTS - 1)) + 1;
}

static struct launch *new_launch(const struct sw_function *fn, const struct sw_grid *grid,
				 void **params)
{
	struct launch *launch = sw_op_new(&launch_ops, sizeof(*launch));

	if (!launch)
		return NULL;
	launch->kernel = fn->kernel;
	launch->op.what = fn->kernel->name;
	launch->op.engine = 0;
	launch->op.cost_ns = sw.opt.latency_us * 1000ull;
	launch->op.cost_by_bytes = true;
	launch->grid = *grid;
	launch->nr_threads = 1;
	for (u32 i = 0; i < 3; i++)
		launch->nr_threads *= (u64)grid->grid[i] * grid->block[i];
	plan_order(launch);
	if (copy_params(launch, fn, params)) {
		sw_op_free(&launch->op);
		return NULL;
	}
	return launch;
}

static bool grid_is_good(const struct sw_grid *grid)
{
	u64 group = (u64)grid->block[0] * grid->block[1] * grid->block[2];

	for (u32 i = 0; i < 3; i++)
		if (!grid->grid[i] || !grid->block[i])
			return false;
	return grid->grid[0] <= INT32_MAX && grid->grid[1] <= MAX_GRID_YZ &&
	       grid->grid[2] <= MAX_GRID_YZ && grid->block[0] <= MAX_GROUP &&
	       grid->block[1] <= MAX_GROUP && grid->block[2] <= 64 && group <= MAX_GROUP;
}

static kcu_result launch(kcu_function handle, const struct sw_grid *grid, unsigned int shared,
			 kcu_stream stream_handle, void **params, void **extra)
{
	struct sw_function *fn = sw_object(SW_T_FUNCTION, (u64)handle);
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(stream_handle, &stream);
	struct launch *launch;

	if (rc)
		return rc;
	if (!fn || !fn->kernel)
		return KCU_E_INVALID_HANDLE;
	if (!grid_is_good(grid) || shared > MAX_SHARED || (fn->nr_params && !params))
		return KCU_E_INVALID_VALUE;
	if (extra)
		return KCU_E_NOT_SUPPORTED;
	launch = new_launch(fn, grid, params);
	if (!launch)
		return KCU_E_OUT_OF_MEMORY;
	if (++sw.count.nr_launches == sw.opt.illegal)
		launch->op.fault = KCU_E_ILLEGAL_ADDRESS;
	return sw_queue(stream, &launch->op, SW_cuLaunchKernel);
}

kcu_result cuLaunchKernel(kcu_function fn, unsigned int grid_x, unsigned int grid_y,
			  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			  unsigned int block_z, unsigned int shared_bytes, kcu_stream stream,
			  void **params, void **extra)
{
	struct sw_grid grid = { { grid_x, grid_y, grid_z }, { block_x, block_y, block_z } };

	return SW_RUN(cuLaunchKernel, SW_INIT | SW_CTX,
		      launch(fn, &grid, shared_bytes, stream, params, extra));
}
