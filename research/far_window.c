// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include <kv/mem.h>
#include <net/transport.h>

#include "far_window.h"

struct far_window {
	struct window giver;
	struct window taker;
};

static u32 kind_of(const char *name)
{
	return strcmp(name, "nixl") ? WINDOW_UCX : WINDOW_NIXL;
}

int far_window_probe(const char *name)
{
	return transport_of(kind_of(name))->probe();
}

static int finish(struct far_window *far, u32 slot)
{
	int err;

	while ((err = window_poll(&far->giver, slot)) == -EINPROGRESS)
		window_progress(&far->taker);
	return err;
}

int far_window_open(const char *name, struct kvmm_pool *src, struct kvmm_pool *dst, u64 bytes,
		    struct far_window **result)
{
	struct far_window *far = kv_alloc(sizeof(*far));
	struct window_offer offer = { .fd = -1 };
	struct kv_pool_view view;
	int err;

	if (!far)
		return -ENOMEM;
	far->giver.fd = far->taker.fd = -1;
	kv_pool_view(dst, &view);
	err = window_make(&far->taker, &view, kind_of(name), bytes);
	offer.shape = far->taker.shape;
	offer.blob = far->taker.blob;
	offer.blob_bytes = far->taker.blob_bytes;
	kv_pool_view(src, &view);
	if (!err)
		err = window_open(&far->giver, &view, &offer);
	if (!err)
		err = finish(far, 0);
	if (err)
		far_window_close(far);
	else
		*result = far;
	return err;
}

void far_window_close(struct far_window *far)
{
	window_close(&far->giver);
	window_close(&far->taker);
	kv_free(far);
}

int far_window_send(struct far_window *far, const u32 *block, u32 nr)
{
	u32 part, slot = 0;
	int err = 0;

	far->giver.nr_descriptors = 0;
	for (u32 at = 0; at < nr && !err; at += part) {
		part = min(nr - at, far->giver.shape.slot_blocks);
		err = finish(far, slot);
		if (!err)
			err = window_fill(&far->giver, slot, block, at, part);
		copy_wait(&far->giver.copy[slot]);
		err = err ? min(err, 0) : window_put(&far->giver, slot, part);
		slot = (slot + 1) % WINDOW_SLOTS;
	}
	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++)
		err = finish(far, i);
	return err ? err : (int)far->giver.nr_descriptors;
}
