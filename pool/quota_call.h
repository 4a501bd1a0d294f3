/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of quotas, besides quota.h. */
#ifndef POOL_QUOTA_CALL_H
#define POOL_QUOTA_CALL_H

#include "internal.h"

/* Nothing is done with NULL. Fixed at creation: the fields they need of @order. */
struct quotas *quotas_make(const struct kvmm_pool *pool);
void quotas_free(const struct order *order, struct quotas *quotas);
u64 quotas_bytes(const struct quotas *quotas);

/* NULL: no memory. */
struct account *account_make(const struct order *order, u32 tenant);
void account_free(const struct order *order, struct account *account);
u64 account_bytes(const struct order *order);

/* compact_lock and both locks held. There is a place; takes @account. */
void account_add(struct quotas *quotas, struct account *account);
/* Nothing is charged to it. Returns the account to be freed. */
struct account *account_del(struct quotas *quotas, u32 i);
/* ->lock held. */
void account_set(struct quotas *quotas, u32 i, const struct kvmm_tenant_attr *limit);

/* Both locks held. */
u32 account_nr_inactive(const struct kvmm_pool *pool, const struct account *account);

#endif /* POOL_QUOTA_CALL_H */
