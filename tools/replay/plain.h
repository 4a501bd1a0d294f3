/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain pool of blocks, to compare with: one queue of free blocks in the order of their last use,
 * a table of names, and nothing that looks at where blocks lie. It follows the rules of policy lru
 * of the replay's contract, as vLLM's pool does; so its hits are those of kvmm's lru, request by
 * request, and what differs is the places.
 */
#ifndef REPLAY_PLAIN_H
#define REPLAY_PLAIN_H

#include "common.h"

struct plain_block {
	u64 name;
	u32 next_of_name;	/* younger blocks in the same bucket */
	u32 prev, next;		/* in the free queue, while @refs is 0 */
	u32 refs;
	bool named;
};

struct plain {
	struct plain_block *block;	/* the last one is the ends of the queue */
	u32 *bucket;
	u32 mask;
	u32 nr;
	u32 nr_free;
};

/**
 * struct plain_ask - blocks of one request
 * @names, @nr_names: of its blocks that get one
 * @max_hits: at most so many of them may hit
 * @nr: blocks in all
 * @blocks: out: room for @nr
 * @nr_hits: out
 */
struct plain_ask {
	const u64 *names;
	u32 nr_names;
	u32 max_hits;
	u32 nr;
	u32 *blocks;
	u32 nr_hits;
};

/** plain_init() - Return: 0; -ENOMEM. */
int plain_init(struct plain *plain, u32 nr);

void plain_exit(struct plain *plain);

/** plain_admit() - Return: 0; -ENOSPC it does not fit now. */
int plain_admit(struct plain *plain, struct plain_ask *ask);

/** plain_release() - the request that has these blocks is over */
void plain_release(struct plain *plain, const u32 *blocks, u32 nr);

#endif /* REPLAY_PLAIN_H */
