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

static struct end slot_end_of(const struct window *window, u32 slot)
{
	struct end end = window->shape.kind == WINDOW_DEVICE ? end_of(&window->view, NULL) :
							       (struct end){ 0 };

	end.planes = (struct kv_planes){ window->plane[slot], window->view.planes.nr };
	return end;
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

/* ---- making ---- */

/* Host memory that both sides map; made here unless the other side has sent a descriptor. */
static int map_shared(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();
	int err;

	if (window->fd < 0)
		window->fd = ops->mem_make(ops->ctx, window->shape.bytes);
	if (window->fd < 0)
		return window->fd;
	err = ops->mem_map(ops->ctx, window->fd, window->shape.bytes, &window->ptr);
	return err ? err : place_slots(window, (uintptr_t)window->ptr);
}

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
	err = ops->area_grow(window->area, 0, info.unit_bytes);
	if (!err)
		err = ops->area_export(window->area, 0, &window->fd);
	return err ? err : place_slots(window, info.addr);
}

int window_make(struct window *window, const struct kv_pool_view *view, u32 kind, u64 bytes)
{
	struct wire_window *shape = &window->shape;
	u64 nr;
	int err;

	*window = (struct window){ .view = *view, .fd = -1 };
	if (!view->dev)
		return -EOPNOTSUPP;
	shape->kind = kind;
	/* As many blocks a slot as fit into @bytes for all; at least one. */
	nr = view->block_bytes ? bytes / WINDOW_SLOTS / view->block_bytes : 1;
	shape->slot_blocks = min(max(nr, (u64)1), (u64)KVMM_MIGRATE_MAX_BLOCKS);
	shape->slot_bytes = stage_bytes(&view->planes, shape->slot_blocks);
	shape->bytes = WINDOW_SLOTS * shape->slot_bytes;
	err = kind == WINDOW_DEVICE ? make_device(window) : map_shared(window);
	if (err)
		window_close(window);
	return err < 0 ? err : 0;
}

/* ---- opening ---- */

int window_open(struct window *window, const struct kv_pool_view *view,
		const struct wire_window *shape, int fd)
{
	struct kv_area_info info;
	int err = view->dev ? 0 : -EOPNOTSUPP;

	*window = (struct window){ .view = *view, .fd = fd, .shape = *shape };
	/* It must hold all that this side will write. */
	if (!err && (shape->slot_bytes < stage_bytes(&view->planes, shape->slot_blocks) ||
		     shape->bytes / WINDOW_SLOTS < shape->slot_bytes))
		err = -EPROTO;
	if (!err && shape->kind == WINDOW_DEVICE) {
		err = view->ops->area_import(view->dev, window->fd, shape->bytes, &window->area);
		if (!err) {
			view->ops->area_info(window->area, &info);
			err = place_slots(window, info.addr);
		}
	} else if (!err) {
		err = map_shared(window);
	}
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

int window_copy(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr, bool out)
{
	struct end pool = end_of(&window->view, block), here = slot_end_of(window, slot);
	struct copy *copy = &window->copy[slot];
	int ret;

	copy->first = first;
	copy->nr = nr;
	ret = copy_begin(copy, out ? &here : &pool, out ? &pool : &here, window->move,
			 window->flags);
	window->nr_descriptors += max(ret, 0);
	return min(ret, 0);
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
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		copy_wait(&window->copy[i]);
}
