/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libzmq that sends nowhere, behind the seam to the system: it counts, fails when told to, and gives
 * what is sent to whoever wants to hear it.
 */
#ifndef FAKE_ZMQ_H
#define FAKE_ZMQ_H

#include <kv/sys.h>

struct fake_zmq {
	struct kv_sys_ops sys;
	bool no_library;
	const char *no_symbol;	/* NULL: all are there */
	u32 fail_at;		/* the n-th call that can fail, does; 0: none */
	u32 nr_calls;		/* atomic */
	u32 nr_open;		/* contexts and sockets */
	u32 nr_sent;		/* messages; atomic */
	u32 nr_waits;		/* calls that might wait; atomic */
	u32 nr_bound;		/* sockets that were bound, */
	u32 nr_connected;	/* and others */
	u32 nr_resolved;	/* atomic; sockets that were bound to one address */
	u32 nr_unbound;		/* atomic */
	u32 is_taken;		/* atomic; another process has the address, */
	u32 nr_taken;		/* atomic; and was asked for it so often */
	int err;		/* of all failures; 0: EADDRINUSE */
	bool no_thread;
	bool is_full;		/* who asks takes no more; in the publisher's thread */
	bool refuses;		/* batches, by their last part; while the thread is held */
	int pub_water;		/* messages that are kept for who does not read */
	int router_water;

	/* In the publisher's thread; NULL: nobody. @type: of the socket. A part of a message, and more follow? */
	void (*hears)(int type, const void *bytes, size_t nr, bool more);
	/* A part of a request into @bytes, of which there is room for @room: its length, or -1: none. */
	int (*asks)(void *bytes, size_t room, bool *more);
};

extern struct fake_zmq fake_zmq;

void fake_zmq_install(void);
void fake_zmq_remove(void);

#endif /* FAKE_ZMQ_H */
