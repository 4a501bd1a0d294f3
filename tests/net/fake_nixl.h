/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libnixl_capi.so, over memcpy(): both agents are of this process. It holds callers
 * to what NIXL asks of them, as far as tests can tell the difference.
 */
#ifndef NET_TEST_FAKE_NIXL_H
#define NET_TEST_FAKE_NIXL_H

#include <stddef.h>

#include <kv/sys.h>

struct fake_nixl {
	u32 nr_calls;		/* of those that can fail */
	u32 fail_at;		/* that one does; 0: none */
	u32 nr_open;		/* objects */
	u32 nr_loaded;		/* times that what another agent said was read */
	size_t most_bytes;	/* no more is registered in one piece; 0: any */
	u32 nr_polls;		/* a batch is busy for so many */
	size_t blob_bytes;	/* an agent says so much more than it has to */
	const char *variable;	/* of the environment; or NULL */
	const char *path;	/* what was opened */
	bool no_library;
	const char *no_symbol;	/* or NULL */
	struct kv_sys_ops sys;
};

extern struct fake_nixl fake_nixl;

/* The @nth function of it, or NULL. */
const char *fake_nixl_symbol(u32 nth);

void fake_nixl_install(void);
void fake_nixl_remove(void);

#endif /* NET_TEST_FAKE_NIXL_H */
