/* SPDX-License-Identifier: Apache-2.0 */
/* May a block move, and if not why. */
#ifndef POOL_STAY_H
#define POOL_STAY_H

#include <pool/internal.h>

/* As kvmm_pool_compact() moves: the world has stopped. */
#define MOVE_STOPPED	((u32)KVMM_NR_MOVE_MODES)

/* Of one run: its first @nr blocks may move, the others stay for that reason. */
struct verdict {
	u32 nr;
	enum kvmm_stay_reason why;
};

/* @run: a whole extent, an entry's block, or one of others that are not free. ->lock held. */
struct verdict run_verdict(struct kvmm_pool *pool, u32 owner, struct kvmm_extent run, u32 mode);

/* The same, counted. */
struct verdict stay_look(struct kvmm_pool *pool, struct kvmm_stay *stay, u32 owner,
			 struct kvmm_extent run, u32 mode);

/* A compaction's findings, now the last ones. @goal: to be told, or NULL. compact_lock held. */
void stay_report(struct kvmm_pool *pool, const struct kvmm_stay *stay, struct kvmm_compact *goal);

#endif /* POOL_STAY_H */
