// SPDX-License-Identifier: Apache-2.0
/*
 * Windows: in device memory where the driver passes that on, else in host memory.
 *
 * A window in device memory is one unit of an area of its own. The other side maps it as far as its
 * driver can: it may be a device that cannot, and then host memory is left.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/mem.h>

#include "window.h"

#define MIN_DEVICE_BYTES	(2ull << 20)

/* ---- shape ---- */

/* As many blocks a slot as fit into @bytes for all; at least one. */
static void shape_for(struct wire_window *shape, const struct kv_pool_view *view, u64 bytes)
{
	u64 nr = view->block_bytes ? bytes / WINDOW_SLOTS / view->block_bytes : 1;

	shape->slot_blocks = min(max(nr, (u64)1), (u64)KVMM_MIGRATE_MAX_BLOCKS);
	shape->slot_bytes = stage_bytes(&view->planes, shape->slot_blocks);
	shape->bytes = WINDOW_SLOTS * shape->slot_bytes;
}

/* The window named by the other side must hold all that this side will write. */
static bool shape_fits(const struct wire_window *shape, const struct kv_pool_view *view)
{
	return shape->slot_bytes >= stage_bytes(&view->planes, shape->slot_blocks) &&
	       shape->bytes / WINDOW_SLOTS >= shape->slot_bytes;
}

static int place_slots(struct window *window, u64 base)
{
	const struct wire_window *shape = &window->shape;

	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		window->plane[i] = kv_alloc_array(max(window->view.planes.nr, 1u),
						  sizeof(*window->plane[i]));
		if (!window->plane[i])
			return -ENOMEM;
		stage_planes(&window->view.planes, base + i * shape->slot_bytes,
			     shape->slot_blocks, window->plane[i]);
	}
	window->move = kv_alloc_array(shape->slot_blocks, sizeof(*window->move));
	return window->move ? 0 : -ENOMEM;
}

static struct end slot_end_of(const struct window *window, u32 slot)
{
	struct end end = { .planes = { window->plane[slot], window->view.planes.nr } };

	if (window->shape.kind != WINDOW_DEVICE)
		return end;
	end.ops = window->view.ops;
	end.dev = window->view.dev;
	end.dev_number = window->view.dev_number;
	return end;
}

/* ---- making ---- */

static int make_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();
	int err;

	window->fd = ops->mem_make(ops->ctx, window->shape.bytes);
	if (window->fd < 0)
		return window->fd;
	err = ops->mem_map(ops->ctx, window->fd, window->shape.bytes, &window->ptr);
	return err ? err : place_slots(window, (uintptr_t)window->ptr);
}

static u64 pow2_above(u64 bytes)
{
	u64 all = MIN_DEVICE_BYTES;

	while (all < bytes)
		all *= 2;
	return all;
}

static int make_device(struct window *window)
{
	const struct kv_dev_ops *ops = window->view.ops;
	struct kv_area_attr attr = { .exports = KV_EXPORT_FD };
	struct kv_area_info info;
	int err;

	window->shape.bytes = attr.max_bytes = attr.handle_bytes = pow2_above(window->shape.bytes);
	err = ops->area_create(window->view.dev, &attr, &window->area);
	if (err)
		return err;
	ops->area_info(window->area, &info);
	if (!(info.exports & KV_EXPORT_FD))
		return -EOPNOTSUPP;
	err = ops->area_grow(window->area, 0, info.unit_bytes);
	if (!err)
		err = ops->area_export(window->area, 0, KV_EXPORT_FD, &window->fd);
	return err ? err : place_slots(window, info.addr);
}

static int init_window(struct window *window, const struct kv_pool_view *view)
{
	*window = (struct window){ .view = *view, .fd = -1 };
	return view->dev ? 0 : -EOPNOTSUPP;
}

int window_make(struct window *window, const struct kv_pool_view *view, u32 kind, u64 bytes)
{
	int err = init_window(window, view);

	if (err)
		return err;
	window->shape.kind = kind;
	shape_for(&window->shape, view, bytes);
	err = kind == WINDOW_DEVICE ? make_device(window) : make_shared(window);
	if (err)
		window_close(window);
	return err < 0 ? err : 0;
}

/* ---- opening ---- */

static int open_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();
	int err = ops->mem_map(ops->ctx, window->fd, window->shape.bytes, &window->ptr);

	return err ? err : place_slots(window, (uintptr_t)window->ptr);
}

static int open_device(struct window *window)
{
	const struct kv_dev_ops *ops = window->view.ops;
	struct kv_area_info info;
	int err = ops->area_import(window->view.dev, KV_EXPORT_FD, &window->fd,
				   window->shape.bytes, &window->area);

	if (err)
		return err;
	ops->area_info(window->area, &info);
	return place_slots(window, info.addr);
}

int window_open(struct window *window, const struct kv_pool_view *view,
		const struct wire_window *shape, int fd)
{
	int err = init_window(window, view);

	window->fd = fd;
	window->shape = *shape;
	if (!err && !shape_fits(shape, view))
		err = -EPROTO;
	if (!err)
		err = shape->kind == WINDOW_DEVICE ? open_device(window) : open_shared(window);
	if (err)
		window_close(window);
	return err;
}

void window_close(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();

	if (window->ptr)
		ops->mem_unmap(ops->ctx, window->ptr, window->shape.bytes);
	if (window->area)
		window->view.ops->area_destroy(window->area);
	if (window->fd >= 0)
		ops->close(ops->ctx, window->fd);
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		kv_free(window->plane[i]);
	kv_free(window->move);
	*window = (struct window){ .fd = -1 };
}

/* ---- copies ---- */

static int submit(struct window *window, u32 slot, const struct end *from, const struct end *to)
{
	struct slot_copy *copy = &window->copy[slot];
	struct kv_copy what = { .src = from->planes, .dst = to->planes, .moves = window->move,
				.flags = window->flags };
	int err;

	if (route_find(from, to, &copy->route) == KVMM_MIGRATE_PATH_STAGED)
		return -EOPNOTSUPP;
	what.dir = copy->route.dir;
	what.peer = copy->route.peer;
	what.nr = moves_make(from->block, to->block, copy->first, copy->nr, window->move);
	err = copy->route.ops->copy_blocks(copy->route.dev, &what, &copy->fence);
	copy->busy = !err;
	if (!err)
		window->nr_descriptors += what.nr;
	return err;
}

static struct end pool_end_of(const struct window *window, const u32 *block)
{
	const struct kv_pool_view *view = &window->view;

	return (struct end){ view->ops, view->dev, view->dev_number, view->planes, block };
}

int window_fill(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr)
{
	struct end from = pool_end_of(window, block), to = slot_end_of(window, slot);

	window->copy[slot].first = first;
	window->copy[slot].nr = nr;
	return submit(window, slot, &from, &to);
}

int window_drain(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr)
{
	struct end from = slot_end_of(window, slot), to = pool_end_of(window, block);

	window->copy[slot].first = first;
	window->copy[slot].nr = nr;
	return submit(window, slot, &from, &to);
}

int window_poll(struct window *window, u32 slot)
{
	struct slot_copy *copy = &window->copy[slot];
	int err;

	if (!copy->busy)
		return 0;
	err = copy->route.ops->poll(copy->route.dev, copy->fence);
	if (err == -EAGAIN)
		return -EINPROGRESS;
	copy->busy = false;
	return err;
}

bool window_is_busy(const struct window *window)
{
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		if (window->copy[i].busy)
			return true;
	return false;
}

void window_wait(struct window *window)
{
	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		struct slot_copy *copy = &window->copy[i];

		if (copy->busy)
			copy->route.ops->wait(copy->route.dev, copy->fence);
		copy->busy = false;
	}
}
