// SPDX-License-Identifier: Apache-2.0
/*
 * Windows: slots, and copies between them and a pool. The memory is the transport's.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "transport.h"

#define MIN_RUN_BYTES	16384u
#define MAX_SLOT_BYTES	(2ull << 30)	/* some devices register less than 4 GiB at once */
#define CLOSE_NS	200000000ull

const struct transport_ops *transport_of(u32 kind)
{
	static const struct transport_ops *const all[WINDOW_NR_KINDS] = {
		[WINDOW_SHARED] = &transport_shared, [WINDOW_DEVICE] = &transport_device,
		[WINDOW_UCX] = &transport_ucx, [WINDOW_NIXL] = &transport_nixl,
	};

	return all[kind];
}

int transport_find(const char *target, const char **addr)
{
	const char *colon = strstr(target, "://");
	int err;

	if (!colon)
		return WINDOW_NONE;
	for (u32 kind = WINDOW_NONE + 1; kind < WINDOW_NR_KINDS; kind++) {
		const struct transport_ops *ops = transport_of(kind);
		size_t len = strlen(ops->name);

		if (!ops->is_far || (size_t)(colon - target) != len ||
		    memcmp(target, ops->name, len))
			continue;
		*addr = colon + strlen("://");
		err = ops->probe();
		return err ? err : (int)kind;
	}
	return kv_refuse(-EINVAL, "migrate: no such transport: %.32s", target);
}

static struct end slot_end_of(const struct window *window, u32 slot)
{
	struct end end = window->ops->in_device ? end_of(&window->view, NULL) :
							  (struct end){ 0 };

	end.planes = (struct kv_planes){ window->plane[slot], window->view.planes.nr };
	return end;
}

static int place_slots(struct window *window)
{
	const struct wire_window *shape = &window->shape;

	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		window->plane[i] = kv_alloc_array(max(window->view.planes.nr, 1u),
						  sizeof(*window->plane[i]));
		if (!window->plane[i])
			return -ENOMEM;
		stage_planes(&window->view.planes, window->at[i], shape->slot_blocks,
			     window->plane[i]);
	}
	window->move = kv_alloc_array(shape->slot_blocks, sizeof(*window->move));
	window->extent = kv_alloc_array((u64)max(window->view.planes.nr, 1u) * shape->slot_blocks,
					sizeof(*window->extent));
	return window->move && window->extent ? 0 : -ENOMEM;
}

/* ---- birth and death ---- */

int window_make(struct window *window, const struct kv_pool_view *view, u32 kind, u64 bytes)
{
	struct wire_window *shape = &window->shape;
	u64 nr;
	int err;

	*window = (struct window){ .view = *view, .fd = -1, .ops = transport_of(kind) };
	if (!view->dev)
		return -EOPNOTSUPP;
	shape->kind = kind;
	/* As many blocks a slot as fit into @bytes for all; at least one. */
	bytes = min(bytes / WINDOW_SLOTS, MAX_SLOT_BYTES);
	nr = view->block_bytes ? bytes / view->block_bytes : 1;
	shape->slot_blocks = min(max(nr, (u64)1), (u64)KVMM_MIGRATE_MAX_BLOCKS);
	shape->slot_bytes = stage_bytes(&view->planes, shape->slot_blocks);
	shape->bytes = WINDOW_SLOTS * shape->slot_bytes;
	err = window->ops->make(window);
	if (!err)
		err = place_slots(window);
	if (err)
		window_close(window);
	return err;
}

int window_open(struct window *window, const struct kv_pool_view *view,
		const struct window_offer *offer)
{
	const struct wire_window *shape = &offer->shape;
	int err = view->dev ? 0 : -EOPNOTSUPP;

	*window = (struct window){ .view = *view, .fd = offer->fd, .shape = *shape,
				   .blob = (u8 *)offer->blob, .blob_bytes = offer->blob_bytes,
				   .conn = offer->conn, .ops = transport_of(shape->kind) };
	/* It must hold all that this side will write. */
	if (!err && (shape->slot_bytes < stage_bytes(&view->planes, shape->slot_blocks) ||
		     shape->bytes / WINDOW_SLOTS < shape->slot_bytes))
		err = -EPROTO;
	if (!err)
		err = window->ops->open(window);
	window->blob = NULL;
	window->conn = NULL;
	if (!err)
		err = place_slots(window);
	if (err)
		window_close(window);
	return err;
}

int window_stage(struct window *window)
{
	const struct wire_window *shape = &window->shape;
	int err;

	/* The taker's number sizes memory of ours: it is what so many blocks take, no more. */
	if (shape->slot_bytes != stage_bytes(&window->view.planes, shape->slot_blocks))
		return -EPROTO;
	err = window->view.ops->host_alloc(window->view.dev, WINDOW_SLOTS * shape->slot_bytes, -1,
					   &window->stage);
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		window->at[i] = (uintptr_t)window->stage.ptr + i * shape->slot_bytes;
	return err;
}

int window_end(struct window *window)
{
	u64 now = kv_clock_ns();
	bool busy = false;

	if (!window->end_ns)
		window->end_ns = kv_ns_after(now, CLOSE_NS);
	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		int err = window_poll(window, i);

		if (err && err != -EINPROGRESS)
			return err;
		busy |= err;
	}
	if (busy)
		return now < window->end_ns ? -EINPROGRESS : -ETIMEDOUT;
	window->end_ns = 0;
	return 0;
}

void window_close(struct window *window)
{
	const struct kv_sock_ops *ops = kv_sock();

	/* The other side gets over the end of a put best if it is not on its way. */
	while (window_end(window) == -EINPROGRESS)
		;
	if (window->ops)
		window->ops->close(window);
	if (window->stage.ptr)
		window->view.ops->host_free(window->view.dev, &window->stage);
	if (window->fd >= 0)
		ops->close(ops->ctx, window->fd);
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		kv_free(window->plane[i]);
	kv_free(window->move);
	kv_free(window->extent);
	kv_free(window->blob);
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

/* One more; neighbours on both sides are one. */
static u32 add_extent(struct extent *extent, u32 nr, const struct extent *next)
{
	struct extent *last = nr ? &extent[nr - 1] : NULL;

	if (last && last->offset + last->bytes == next->offset &&
	    last->from + last->bytes == next->from)
		last->bytes += next->bytes;
	else
		extent[nr++] = *next;
	return nr;
}

/* Of each plane the part that is used. */
static u32 find_extents(const struct window *window, u32 slot, u32 nr)
{
	u32 nr_extents = 0;

	for (u32 i = 0; i < window->view.planes.nr; i++) {
		const struct kvmm_plane *plane = &window->plane[slot][i];
		const struct extent next = { plane->base, plane->base - window->at[slot],
					     plane->bytes * nr };

		nr_extents = add_extent(window->extent, nr_extents, &next);
	}
	return nr_extents;
}

/* The same, from where the blocks are. */
static u32 find_runs(const struct window *window, u32 slot, const u32 *block, u32 nr)
{
	u32 nr_extents = 0;

	for (u32 i = 0; i < window->view.planes.nr; i++) {
		const struct kvmm_plane *here = &window->view.planes.plane[i];
		u64 offset = window->plane[slot][i].base - window->at[slot];

		for (u32 b = 0; b < nr; b++) {
			const struct extent next = { here->base + block[b] * here->stride,
						     offset + b * here->bytes, here->bytes };

			nr_extents = add_extent(window->extent, nr_extents, &next);
		}
	}
	return nr_extents;
}

/* 0: they are many and short, which takes longer than a copy, and a put a plane. */
static u32 find_long_runs(const struct window *window, u32 slot, const u32 *block, u32 nr)
{
	u32 nr_extents;

	if (!window->ops->put || window->ops->slots_only || strcmp(window->view.ops->name, "host"))
		return 0;
	nr_extents = find_runs(window, slot, block, nr);
	return nr_extents <= window->view.planes.nr ||
	       nr * window->view.block_bytes / nr_extents >= MIN_RUN_BYTES ? nr_extents : 0;
}

int window_fill(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr)
{
	u32 nr_extents = find_long_runs(window, slot, block + first, nr);
	int err;

	if (!nr_extents)
		return window_copy(window, slot, block, first, nr, false);
	window->copy[slot] = (struct copy){ .first = first, .nr = nr };
	window->nr_descriptors += nr_extents;
	err = window->ops->put(window, slot, window->extent, nr_extents);
	return err ? err : 1;
}

int window_put(struct window *window, u32 slot, u32 nr)
{
	return window->ops->put ?
	       window->ops->put(window, slot, window->extent, find_extents(window, slot, nr)) : 0;
}

int window_poll(struct window *window, u32 slot)
{
	return window->ops && window->ops->poll ? window->ops->poll(window, slot) : 0;
}

void window_progress(struct window *window)
{
	if (window->ops && window->ops->progress)
		window->ops->progress(window);
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
