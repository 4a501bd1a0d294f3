/* SPDX-License-Identifier: Apache-2.0 */
/* What requests ask of the pool's events. */
#ifndef POOL_EVENTS_HOOK_H
#define POOL_EVENTS_HOOK_H

#include <kv/types.h>

struct kvmm_pool;

/* Does a consumer read what is said of requests? A note is made for those only. */
bool events_want_requests(struct kvmm_pool *pool);

#endif /* POOL_EVENTS_HOOK_H */
