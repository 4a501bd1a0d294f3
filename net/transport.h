/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is below a window: how the two sides get at its slots.
 *
 * The taker makes a window and offers it with its kind; a giver that cannot open one of that kind
 * is offered the next. A kind of the protocol is a row of this table. No lock: a window belongs to
 * one link, or one session.
 */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include "window.h"

/* A part of a slot, and where its content is on the giver's side. */
struct extent {
	u64 from;
	u64 offset;
	u64 bytes;
};

/**
 * struct transport_ops - one kind of window
 * @name: for people, and what addresses of the other side begin with
 * @path: enum kvmm_migrate_path of what goes through it
 * @is_far: it leads to other machines: links are TLS, and a blob goes along; else a descriptor
 * @slots_only: @put takes what is in slots alone, as memory has to be made known to it before
 * @in_device: slots are memory of the pool's device; else the host's
 * @probe: whether there is such a thing here: 0; -EOPNOTSUPP and why; may be NULL
 * @make: the taker's slots, for its shape, which it may enlarge; and a descriptor, or a blob, to be
 *	sent. 0; -EOPNOTSUPP; -ENOMEM; -errno. What it has got goes with @close, in any case
 * @open: the giver's way to them, by the descriptor or the blob that came: as @make. The blob
 *	is there for this call alone
 * @close: no copy is on its way; what was put is given up. The descriptor is the window's
 * @put: content of the giver's, in its slot or elsewhere in the host's memory, goes to the taker's
 *	slot, in parts. 0 all are on their way; -ECONNRESET. NULL: both sides have the same slots
 * @poll: 0 all have come; -EINPROGRESS; -ECONNRESET no side knows which, and the window is over
 * @progress: the taker's part of that; may be NULL
 */
struct transport_ops {
	const char *name;
	u32 path;
	bool is_far;
	bool slots_only;
	bool in_device;
	int (*probe)(void);
	int (*make)(struct window *window);
	int (*open)(struct window *window);
	void (*close)(struct window *window);
	int (*put)(struct window *window, u32 slot, const struct extent *extent, u32 nr);
	int (*poll)(struct window *window, u32 slot);
	void (*progress)(struct window *window);
};

/* enum window_kind that is not WINDOW_NONE. */
const struct transport_ops *transport_of(u32 kind);

/*
 * What a target says: the kind of its window and *@addr, its numeric host and port; or WINDOW_NONE:
 * it is the path of a socket, and what is offered there depends. -EINVAL no such transport;
 * -EOPNOTSUPP not here: kvmm_why().
 */
int transport_find(const char *target, const char **addr);

/* Between machines. */
extern const struct transport_ops transport_ucx;
extern const struct transport_ops transport_nixl;

/* Inside a machine: memory that both processes map. */
extern const struct transport_ops transport_shared;	/* of the host */
extern const struct transport_ops transport_device;	/* of a device, which may be another one */

#endif /* NET_TRANSPORT_H */
