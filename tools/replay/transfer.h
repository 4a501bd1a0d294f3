/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modes seq and conc with --transfers: if the blocks of each prompt, hits and new ones, were sent
 * somewhere once it is computed, how many descriptors would that take? One for each run of
 * consecutive blocks, in the order of the prompt; *sorted*: in any order, as where the other side
 * takes blocks by number.
 *
 * The same requests go to a plain pool of the same size. It must hit as the library does.
 */
#ifndef REPLAY_TRANSFER_H
#define REPLAY_TRANSFER_H

#include "cache.h"

/*
 * A plain pool of blocks, to compare with: one queue of free blocks in the order of their last use,
 * a table of names, and nothing that looks at where blocks lie. It follows the rules of policy lru
 * of the replay's contract, as vLLM's pool does; so its hits are those of kvmm's lru, request by
 * request, and what differs is the places.
 */
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

struct descriptors {
	u64 in_order;
	u64 sorted;
	u32 most;	/* of one request, in order */
};

struct transfer {
	struct plain plain;
	u64 *names;		/* of one request */
	u32 *blocks;
	u32 *sorted;
	u64 nr_blocks;
	u64 plain_hits;
	struct descriptors ours;
	struct descriptors theirs;
};

/** transfer_begin() - nothing without --transfers */
void transfer_begin(struct cache *cache);

void transfer_end(struct cache *cache);

/** transfer_note() - the request has been admitted, with @nr_blocks in all */
enum exit_code transfer_note(struct cache *cache, struct held *held, const struct shape *shape,
			     u32 nr_blocks);

/** transfer_forget() - it is over */
void transfer_forget(struct cache *cache, struct held *held);

void transfer_describe(const struct cache *cache);
void transfer_say(const struct cache *cache);

#endif /* REPLAY_TRANSFER_H */
