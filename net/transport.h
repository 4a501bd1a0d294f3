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

/**
 * struct transport_ops - one kind of window
 * @name: for people
 * @path: enum kvmm_migrate_path of what goes through it
 * @in_device: slots are memory of the pool's device; else the host's
 * @make: the taker's slots, for its shape, which it may enlarge; and a descriptor to be sent. 0 and
 *	where they begin; -EOPNOTSUPP; -ENOMEM; -errno. What it has got goes with @close, in any case
 * @open: the giver's way to them, by the descriptor that came: as @make
 * @close: nothing is on its way; the descriptor is the window's
 */
struct transport_ops {
	const char *name;
	u32 path;
	bool in_device;
	int (*make)(struct window *window, u64 *base);
	int (*open)(struct window *window, u64 *base);
	void (*close)(struct window *window);
};

/* enum window_kind that is not WINDOW_NONE. */
const struct transport_ops *transport_of(u32 kind);

/* Inside a machine: memory that both processes map. */
extern const struct transport_ops transport_shared;	/* of the host */
extern const struct transport_ops transport_device;	/* of a device, which may be another one */

#endif /* NET_TRANSPORT_H */
