/* SPDX-License-Identifier: Apache-2.0 */
/* Publishers as seen in passing. */
#ifndef CTL_PUBLISHER_H
#define CTL_PUBLISHER_H

#include <kv/types.h>
#include <kvmm/ext/control.h>

#define PUBLISHER_NAME	64u

struct publisher_view {
	const struct kvmm_pool *pool;
	char endpoint[PUBLISHER_NAME];		/* or how it begins */
	struct kvmm_publisher_stat stat;
};

/* Up to @max of those that run in this process; how many there are. Any thread. */
u32 publishers_look(struct publisher_view *views, u32 max);

#endif /* CTL_PUBLISHER_H */
