// SPDX-License-Identifier: Apache-2.0
/* Locks of what lies below a pool, apart from child_test.c for the sake of names that headers share. */
#include "tests/init/child_below.h"

#include "registry/radix.h"
#include "disk/internal.h"
#include "tier/internal.h"

void child_locks_below(struct kvmm_tier *tier, struct kvmm_disk *disk, struct kvmm_registry *reg,
		       void (*add)(struct kv_lock *lock))
{
	add(&tier->grow_lock);
	add(&tier->lock);
	add(&disk->lock);
	add(&disk->queue_lock);
	for (u32 i = 0; i < NR_STRIPES; i++)
		add(&reg->stripe[i].lock);
	for (u32 i = 0; i < NR_ATTACH_LOCKS; i++)
		add(&reg->attach_lock[i]);
	add(&reg->config_lock);
}
