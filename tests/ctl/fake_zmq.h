/* SPDX-License-Identifier: Apache-2.0 */
/* A libzmq that sends nowhere, behind the seam to the system: it counts, and fails when told to. */
#ifndef FAKE_ZMQ_H
#define FAKE_ZMQ_H

#include <kv/sys.h>

struct fake_zmq {
	struct kv_sys_ops sys;
	bool no_library;
	const char *no_symbol;	/* NULL: all are there */
	u32 fail_at;		/* the n-th call that can fail, does; 0: none */
	u32 nr_calls;
	u32 nr_open;		/* contexts and sockets */
	u32 nr_sent;		/* messages; atomic */
	bool no_thread;
	int type;		/* of the last socket */
	int pub_water;		/* messages that are kept for who does not read */
	int router_water;
};

extern struct fake_zmq fake_zmq;

void fake_zmq_install(void);
void fake_zmq_remove(void);

#endif /* FAKE_ZMQ_H */
