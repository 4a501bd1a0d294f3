/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two slots that content goes through: memory that giver and taker both have; between machines, one
 * on each side.
 *
 * It is the taker's, and no part of a pool: a giver that writes to it late, or wrongly, can spoil
 * its content, which a checksum finds, and nothing else.
 */
#ifndef NET_WINDOW_H
#define NET_WINDOW_H

#include <kv/sock.h>

#include "mover.h"
#include "wire.h"

struct conn;
struct extent;
struct transport_ops;

struct window {
	const struct transport_ops *ops;	/* NULL: it is not there */
	struct wire_window shape;
	struct kv_pool_view view;		/* of the pool on this side */
	u64 at[WINDOW_SLOTS];			/* where slots are, on this side */
	int fd;					/* ours; -1: sent, or not there */
	u8 *blob;				/* ours if made here; what a far giver gets */
	u32 blob_bytes;
	struct conn *conn;			/* borrowed while it is opened; or NULL */
	void *ptr;				/* mapped, or NULL: its transport's */
	struct kv_area *area;			/* mapped, or NULL: its transport's */
	struct kv_host_mem stage;		/* ours; window_stage() */
	struct ucx *ucx;			/* its transport's */
	struct nixl *nixl;			/* its transport's */
	struct kvmm_plane *plane[WINDOW_SLOTS];	/* ours */
	struct kv_move *move;			/* ours; room for a slot */
	struct extent *extent;			/* ours; room for each block's, of each plane */
	u64 end_ns;				/* until then window_end() waits; 0: not called */
	u32 nr_descriptors;
	u32 flags;				/* KV_COPY_*, of all copies from now on */
	struct copy copy[WINDOW_SLOTS];	/* into, or out of, a slot */
};

/* One of the other side's. */
struct window_offer {
	struct wire_window shape;
	int fd;				/* taken, also on failure; or -1 */
	const u8 *blob;			/* borrowed */
	u32 blob_bytes;
	struct conn *conn;		/* that it came by; or NULL */
};

/* Make one, with a descriptor or a blob to be sent: 0; -EOPNOTSUPP none of that kind; -errno. */
int window_make(struct window *window, const struct kv_pool_view *view, u32 kind, u64 bytes);
/* The other side's: 0; -EPROTO it does not fit the shape; -EOPNOTSUPP, -EPERM, -ENOMEM, -errno. */
int window_open(struct window *window, const struct kv_pool_view *view,
		const struct window_offer *offer);
/* For transports: its slots are host memory of the device: 0; -EPROTO, -ENOMEM, -errno. */
int window_stage(struct window *window);
/* Nothing is put any more. 0 all has come; -EINPROGRESS; -ETIMEDOUT not in 200 ms; -ECONNRESET. */
int window_end(struct window *window);
/* No copy is on its way. What was put has the rest of that time to come. */
void window_close(struct window *window);

/* @nr blocks from @block[@first] on, into the slot, or out of it: 0 and it is busy; or an error. */
int window_copy(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr, bool out);
/* The giver's: the same into the slot, for window_put(); or 1: they are put from where they are. */
int window_fill(struct window *window, u32 slot, const u32 *block, u32 first, u32 nr);
/* The giver's: @nr blocks in the slot go to the taker's, as @put and @poll of its transport. */
int window_put(struct window *window, u32 slot, u32 nr);
int window_poll(struct window *window, u32 slot);
/* The taker's part of that. */
void window_progress(struct window *window);
bool window_is_busy(const struct window *window);
/* Until nothing is on its way. */
void window_wait(struct window *window);

#endif /* NET_WINDOW_H */
