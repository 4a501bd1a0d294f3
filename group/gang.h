/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs inside pool/: the parts of a gang, each in one pool, and the set that gangs are of.
 *
 * All pools of a gang are locked at once, in the order of their ids, so a gang is taken as a whole
 * before another one looks. A gang belongs to one thread from when it has left the set's table,
 * under the set's lock, which is a leaf; only then its pools are locked.
 */
#ifndef GROUP_GANG_H
#define GROUP_GANG_H

#include <kv/lock.h>
#include <kvmm/ext/group.h>
#include <pool/internal.h>
#include <pool/sum.h>

/* One want, and its blocks. Guard: the pool's lock, while it is taken. */
struct part {
	/* Fixed. */
	struct kvmm_pool	*pool;		/* borrowed */
	struct kvmm_gang_want	want;

	u32			forgets;	/* of the pool, when it was taken */
	struct range_request	req;		/* ->ctx of blocks as well; blocks: the gang's */
};

struct gang {
	u64			id;
	u64			deadline_ns;	/* 0: no lease */
	u32			pools;		/* a bit a number of the set */
	u32			nr;
	struct part		part[];		/* and then blocks */
};

static_assert(KVMM_GANG_MAX_POOLS <= 32, "a pool fits a bit");

/* ---- gang_take.c; the pool's lock is held ---- */

/* 0, or the errno of calls of that kind; and nothing has changed. */
int part_take(const struct gang *gang, struct part *part);
/* As if it had not been. Those behind it in @gang are undone. */
void part_undo(const struct gang *gang, struct part *part);
/* 0, or -ENOSPC and it is undone, but for evicted blocks. */
int part_commit(struct part *part);
/* Would it fit if free blocks were moved? */
bool part_is_scattered(const struct part *part);
/* Its handles, into @sum. */
void part_sum(const struct part *part, struct sum *sum);

#endif /* GROUP_GANG_H */
