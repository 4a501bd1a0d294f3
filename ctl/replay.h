/* SPDX-License-Identifier: Apache-2.0 */
/* Batches published, for subscribers that missed some: the last, bounded by number and bytes. */
#ifndef CTL_REPLAY_H
#define CTL_REPLAY_H

#include <kv/types.h>

struct replay_batch {
	u64 seq;
	u64 at;		/* in the bytes that were ever kept */
	u32 nr;		/* bytes */
};

/* Guard of all of it: the publisher. */
struct replay {
	struct replay_batch *batch;	/* ours; a ring */
	u8 *bytes;			/* ours; a ring, in which no batch is broken in two */
	u32 max_batches;		/* fixed */
	u64 max_bytes;			/* fixed */
	u32 first;			/* the oldest */
	u32 nr;
	u64 end;			/* where the next one goes */
};

/* 0 or -ENOMEM. @max_batches 0: nothing is kept. */
int replay_init(struct replay *replay, u32 max_batches, u64 max_bytes);
void replay_exit(struct replay *replay);
/* A batch larger than all of it is not kept. */
void replay_keep(struct replay *replay, u64 seq, const void *bytes, u32 nr);
/* Batch @i, the oldest is 0; its bytes. */
const struct replay_batch *replay_at(const struct replay *replay, u32 i, const void **bytes);

#endif /* CTL_REPLAY_H */
