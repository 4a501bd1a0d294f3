/* SPDX-License-Identifier: Apache-2.0 */
/* A server for keys and values below a host tier, and below the disk of one. */
#ifndef KV_REMOTE_H
#define KV_REMOTE_H

struct kvmm_tier;
struct kvmm_tier_disk_attr;
struct kvmm_tier_remote_attr;

/*
 * Once, behind kv_tier_set_disk(), and before there are clients. @how: as there. 0; -EINVAL,
 * -EOPNOTSUPP, -ENOMEM. The server need not be there yet.
 */
int kv_tier_set_remote(struct kvmm_tier *tier, const struct kvmm_tier_remote_attr *attr,
		       const struct kvmm_tier_disk_attr *how);

#endif /* KV_REMOTE_H */
