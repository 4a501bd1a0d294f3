/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CHILD_BELOW_H
#define TEST_CHILD_BELOW_H

#include <kv/lock.h>

struct kvmm_disk;
struct kvmm_registry;
struct kvmm_tier;

void child_locks_below(struct kvmm_tier *tier, struct kvmm_disk *disk, struct kvmm_registry *reg,
		       void (*add)(struct kv_lock *lock));

#endif /* TEST_CHILD_BELOW_H */
