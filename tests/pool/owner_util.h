/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of owners share. */
#ifndef POOL_TEST_OWNER_UTIL_H
#define POOL_TEST_OWNER_UTIL_H

#include <kvmm/ext/lease.h>

#include "tests/pool/util.h"

#define RECLAIM		KVMM_OWN_RECLAIM

/* A range of a sequence named 'a' to 'z', with an owner. */
kvmm_range_t take_owned(struct kvmm_pool *pool, u32 nr, char seq, u64 owner, u64 lease_ns,
			u32 flags);
/* Private blocks with an owner. */
void alloc_owned(struct kvmm_pool *pool, kvmm_mut_t *muts, u32 nr, u64 owner, u64 lease_ns,
		 u32 flags);
/* Staged under keys from @first on. */
void stage_keys(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u32 first,
		kvmm_staged_t *staged);
/* Registered under keys from @first on; a reference each. */
void register_keys(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs);

struct kvmm_hold_attr hold_attr_of(u64 owner, u64 lease_ns, u32 flags);

/*
 * All that is owned, in the order of the walk: "r1 p1 p0 s2 h3 P3" is a range of owner 1, private
 * blocks of 1 and of nobody, a staged one of 2, a hold and a pin of 3. Valid until the next call.
 */
const char *owned(struct kvmm_pool *pool);

/* What is suspicious, in the same way; behind each E(xpired), O(ld), L(one), D(ead): "r1E h3OD". */
const char *leaked(struct kvmm_pool *pool, u64 older_ns, u64 lone_ns);

#endif /* POOL_TEST_OWNER_UTIL_H */
