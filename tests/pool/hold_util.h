/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of holds share: holds on keys by number. */
#ifndef POOL_TEST_HOLD_UTIL_H
#define POOL_TEST_HOLD_UTIL_H

#include <kvmm/ext/lease.h>

#include "tests/pool/util.h"

/* A hold on keys @first to @first + @nr - 1, for owner @first; what kvmm_hold() returns. */
int try_hold(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags, kvmm_hold_t *hold);
/* The same, which must succeed; a lease. */
kvmm_hold_t hold_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags);
kvmm_hold_t lease_keys(struct kvmm_pool *pool, u32 first, u32 nr, u64 lease_ns);

struct kvmm_hold_info info_of(struct kvmm_pool *pool, kvmm_hold_t hold);
u32 nr_holds(struct kvmm_pool *pool);
/* What has no lease is suspicious from that age on; 0: at none. */
int leaks(struct kvmm_pool *pool, u64 older_ns, struct kvmm_owned *rows, u32 max);

#endif /* POOL_TEST_HOLD_UTIL_H */
