/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools whose tenants have limits. A cached block is a letter, and the kind of letter says whose it is:
 * small ones are tenant 1's, capitals tenant 2's, digits tenant 3's.
 */
#ifndef QUOTA_TEST_UTIL_H
#define QUOTA_TEST_UTIL_H

#include "tests/pool/class_util.h"

#define NO_LIMIT	KVMM_TENANT_NO_LIMIT

u32 tenant_of(char letter);
kvmm_domain_t domain_of(u32 tenant);

int try_limit(struct kvmm_pool *pool, u32 tenant, u32 min, u32 low, u32 high, u32 max);
void limit(struct kvmm_pool *pool, u32 tenant, u32 min, u32 low, u32 high, u32 max);

/* A block with a reference, registered under that letter. */
kvmm_ref_t hold(struct kvmm_pool *pool, char letter);
/* The same for each letter, and nobody references them any more. */
void cache(struct kvmm_pool *pool, const char *letters);
/* Take a reference on what is cached. */
kvmm_ref_t use(struct kvmm_pool *pool, char letter);

/* Letters that are cached, in the order of the alphabet: digits, capitals, small ones. */
const char *cached(struct kvmm_pool *pool);

/* It loses so many inactive blocks, by a limit that it has for a moment. How many. */
u32 squeeze(struct kvmm_pool *pool, u32 tenant, u32 nr);

struct kvmm_tenant_stat tenant_stat(struct kvmm_pool *pool, u32 tenant);
u32 usage(struct kvmm_pool *pool, u32 tenant);

#endif /* QUOTA_TEST_UTIL_H */
