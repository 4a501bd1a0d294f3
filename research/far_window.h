/* SPDX-License-Identifier: Apache-2.0 */
/* Content through a window to another machine, without the job around it: what kvmm-bench measures. */
#ifndef RESEARCH_FAR_WINDOW_H
#define RESEARCH_FAR_WINDOW_H

#include <kv/pool.h>

struct far_window;

/* Whether there is what @name says, "ucx" or "nixl": 0 or -EOPNOTSUPP. */
int far_window_probe(const char *name);

/* By that, a taker's window of @bytes, and the giver's way to it, in this process: 0; -errno. */
int far_window_open(const char *name, struct kvmm_pool *src, struct kvmm_pool *dst, u64 bytes,
		    struct far_window **result);
void far_window_close(struct far_window *far);

/* Blocks of the source, until they are all in slots of the taker: copies and puts; or -errno. */
int far_window_send(struct far_window *far, const u32 *block, u32 nr);

#endif /* RESEARCH_FAR_WINDOW_H */
