// SPDX-License-Identifier: Apache-2.0
/*
 * Windows: slots, and copies between them and a pool. The memory is the transport's.
 */
#include <kv/mem.h>

#include "transport.h"

const struct transport_ops *transport_of(u32 kind)
{
	static const struct transport_ops *const all[WINDOW_NR_KINDS] = {
		[WINDOW_SHARED] = &transport_shared, [WINDOW_DEVICE] = &transport_device,
	};

	return all[kind];
}

static struct end slot_end_of(const struct window *window, u32 slot)
{
	struct end end = window->ops->in_device ? end_of(&window->view, NULL) :
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

/* ---- birth and death ---- */

int window_make(struct window *window, const struct kv_pool_view *view, u32 kind, u64 bytes)
{
	struct wire_window *shape = &window->shape;
	u64 nr, base;
	int err;

	*window = (struct window){ .view = *view, .fd = -1, .ops = transport_of(kind) };
	if (!view->dev)
		return -EOPNOTSUPP;
	shape->kind = kind;
	/* As many blocks a slot as fit into @bytes for all; at least one. */
	nr = view->block_bytes ? bytes / WINDOW_SLOTS / view->block_bytes : 1;
	shape->slot_blocks = min(max(nr, (u64)1), (u64)KVMM_MIGRATE_MAX_BLOCKS);
	shape->slot_bytes = stage_bytes(&view->planes, shape->slot_blocks);
	shape->bytes = WINDOW_SLOTS * shape->slot_bytes;
	err = window->ops->make(window, &base);
	if (!err)
		err = place_slots(window, base);
	if (err)
		window_close(window);
	return err;
}

int window_open(struct window *window, const struct kv_pool_view *view,
		const struct wire_window *shape, int fd)
{
	int err = view->dev ? 0 : -EOPNOTSUPP;
	u64 base;

	*window = (struct window){ .view = *view, .fd = fd, .shape = *shape,
				   .ops = transport_of(shape->kind) };
	/* It must hold all that this side will write. */
	if (!err && (shape->slot_bytes < stage_bytes(&view->planes, shape->slot_blocks) ||
		     shape->bytes / WINDOW_SLOTS < shape->slot_bytes))
		err = -EPROTO;
	if (!err)
		err = window->ops->open(window, &base);
	if (!err)
		err = place_slots(window, base);
	if (err)
		window_close(window);
	return err;
}

void window_close(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();

	if (window->ops)
		window->ops->close(window);
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
