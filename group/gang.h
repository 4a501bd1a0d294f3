/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs inside pool/: the parts of a gang, each in one pool.
 *
 * All pools of a gang are locked at once, in the order of their ids, so a gang is taken as a whole
 * before another one looks. A gang belongs to one thread.
 */
#ifndef GROUP_GANG_H
#define GROUP_GANG_H

#include <kvmm/ext/group.h>
#include <order/digest.h>
#include <pool/internal.h>

/* One want, and its blocks. Guard: the pool's lock, while it is taken. */
struct part {
	/* Fixed. */
	struct kvmm_pool	*pool;		/* borrowed */
	struct kvmm_gang_want	want;

	u32			forgets;	/* of the pool, when it was taken */
	struct range_request	req;		/* ->ctx of blocks as well; blocks: the gang's */
};

/* All fixed once it is reserved. */
struct kvmm_gang {
	u64			id;
	u32			nr_pools;
	u32			nr;
	/* Borrowed; in the order of locks. */
	struct kvmm_pool	*pool[KVMM_GANG_MAX_POOLS];
	struct part		part[];		/* and then blocks */
};

/* ---- gang_take.c; the pool's lock is held ---- */

/* 0, or the errno of calls of that kind; and nothing has changed. */
int part_take(const struct kvmm_gang *gang, struct part *part);
/* As if it had not been. Those behind it in @gang are undone. */
void part_undo(const struct kvmm_gang *gang, struct part *part);
/* 0, or -ENOSPC and it is undone, but for evicted blocks. */
int part_commit(struct part *part);
/* Would it fit if free blocks were moved? */
bool part_is_scattered(const struct part *part);
/* Its handles, into @sum. */
void part_sum(const struct part *part, struct sum *sum);

#endif /* GROUP_GANG_H */
