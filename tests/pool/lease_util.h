/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of leases share: holds on keys by number, things with owners, pictures of them. */
#ifndef POOL_TEST_LEASE_UTIL_H
#define POOL_TEST_LEASE_UTIL_H

#include "tests/pool/util.h"
#include "tests/support/lease.h"

#define RECLAIM		KVMM_LEASE_RECLAIM

struct kvmm_lease_attr hold_attr_of(u64 owner, u64 lease_ns, u32 flags);

/* A hold on keys @first to @first + @nr - 1, for owner @first; what kvmm_lease_take() returns. */
int try_hold(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags, kvmm_lease_t *hold);
/* The same, which must succeed; with a deadline, and RECLAIM. */
kvmm_lease_t hold_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags);
kvmm_lease_t lease_keys(struct kvmm_pool *pool, u32 first, u32 nr, u64 lease_ns, u32 flags);

struct kvmm_lease_info info_of(struct kvmm_pool *pool, kvmm_lease_t hold);
u32 nr_holds(struct kvmm_pool *pool);

/* A range of a sequence named 'a' to 'z', with an owner. */
kvmm_range_t take_owned(struct kvmm_pool *pool, u32 nr, char seq, u64 owner, u64 lease_ns,
			u32 flags);
/* Private blocks with an owner. */
void alloc_owned(struct kvmm_pool *pool, kvmm_mut_t *muts, u32 nr, u64 owner, u64 lease_ns,
		 u32 flags);
/* Staged under keys from @first on. */
void stage_keys(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u32 first,
		kvmm_staged_t *staged);

/*
 * All that is owned, in the order of the walk: "r1 p1 p0 s2 h3 P3" is a range of owner 1, private
 * blocks of 1 and without an owner, a staged one of 2, a hold and a pin of 3. Valid until the next call.
 */
const char *owned(struct kvmm_pool *pool);

/* What is suspicious, in the same way; behind each E(xpired), O(ld), L(one), D(ead): "r1E h3OD". */
const char *leaked(struct kvmm_pool *pool, u64 older_ns, u64 lone_ns);

#endif /* POOL_TEST_LEASE_UTIL_H */
