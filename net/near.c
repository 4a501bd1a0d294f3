// SPDX-License-Identifier: Apache-2.0
/*
 * Transports inside a machine: both processes map the slots, and nothing is sent but a descriptor.
 *
 * A window in device memory is one unit of an area of its own. The other side maps it as far as its
 * driver can: it may be a device that cannot, and then host memory is left.
 */
#include "transport.h"

#define MIN_DEVICE_BYTES	(2ull << 20)

/* ---- host memory ---- */

/* One slot behind the other. */
static void place(struct window *window, u64 base)
{
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		window->at[i] = base + i * window->shape.slot_bytes;
}

static int open_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();
	int err = ops->mem_map(ops->ctx, window->fd, window->shape.bytes, &window->ptr);

	place(window, (uintptr_t)window->ptr);
	return err;
}

static int make_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();

	window->fd = ops->mem_make(ops->ctx, window->shape.bytes);
	return window->fd < 0 ? window->fd : open_shared(window);
}

static void close_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();

	if (window->ptr)
		ops->mem_unmap(ops->ctx, window->ptr, window->shape.bytes);
}

const struct transport_ops transport_shared = {
	.name	= "shared",
	.path	= KVMM_MIGRATE_PATH_SHARED,
	.make	= make_shared,
	.open	= open_shared,
	.close	= close_shared,
};

/* ---- device memory ---- */

static int make_device(struct window *window)
{
	const struct kv_dev_ops *ops = window->view.ops;
	struct kv_area_attr attr = { .is_shared = true };
	struct kv_area_info info;
	u64 bytes = MIN_DEVICE_BYTES;
	int err;

	while (bytes < window->shape.bytes)
		bytes *= 2;
	window->shape.bytes = attr.max_bytes = attr.handle_bytes = bytes;
	err = ops->area_create(window->view.dev, &attr, &window->area);
	if (err)
		return err;
	ops->area_info(window->area, &info);
	if (!info.is_shared)
		return -EOPNOTSUPP;
	place(window, info.addr);
	err = ops->area_grow(window->area, 0, info.unit_bytes);
	return err ? err : ops->area_export(window->area, 0, &window->fd);
}

static int open_device(struct window *window)
{
	const struct kv_dev_ops *ops = window->view.ops;
	struct kv_area_info info;
	int err = ops->area_import(window->view.dev, window->fd, window->shape.bytes,
				   &window->area);

	if (err)
		return err;
	ops->area_info(window->area, &info);
	place(window, info.addr);
	return 0;
}

static void close_device(struct window *window)
{
	if (window->area)
		window->view.ops->area_destroy(window->area);
}

const struct transport_ops transport_device = {
	.name		= "device",
	.path		= KVMM_MIGRATE_PATH_DEVICE,
	.in_device	= true,
	.make		= make_device,
	.open		= open_device,
	.close		= close_device,
};
