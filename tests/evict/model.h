/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policies are defined as, without any care for time: each question is answered by
 * looking at all blocks. Written from the definitions, sharing nothing with the library.
 */
#ifndef TESTS_EVICT_MODEL_H
#define TESTS_EVICT_MODEL_H

#include <kv/evict.h>

#define MODEL_BLOCKS	48
#define MODEL_KEYS	96

struct model_block {
	bool in;
	bool named;		/* it has a key */
	bool protected;
	u32 key;
	u32 uses;
	u32 position;
	u32 parent;		/* block, or KV_NONE */
	u32 parent_life;
	u32 life;		/* fills so far */
	u64 filled;		/* tick */
	u64 used;		/* tick of the last use */
	u32 credit;
	u32 level;
	u64 advice;
	bool advised;
	u64 when;
	s64 place;		/* larger comes later in its queue */
	u64 rank;		/* what the policy says, smallest first */
};

/* What is known of a key that was evicted. */
struct model_ghost {
	bool known;
	u32 credit;
	u32 list;
	u64 step;
};

struct model {
	const char *name;
	u32 nr_blocks;
	u32 half_life;		/* lrfu: in ticks; set by the test */
	s64 tail;		/* places in use so far */
	u64 now;		/* fills so far; lineage: puts */
	u32 hand;		/* multilru */
	u32 target;		/* arc, s3fifo */
	u32 gone[2];		/* arc */
	u32 last_position;	/* t-lru */
	u32 chain;		/* t-lru */
	struct model_block block[MODEL_BLOCKS];
	u32 requests[MODEL_KEYS];
	u32 counts[MODEL_KEYS];
	struct model_ghost ghost[MODEL_KEYS];
};

void model_init(struct model *model, const char *name, u32 nr_blocks);
void model_fill(struct model *model, u32 block, u32 key);
void model_place(struct model *model, u32 block, u32 position, u32 parent);
void model_hit(struct model *model, u32 block);
void model_hint(struct model *model, u32 block, u64 when);
int model_advise(struct model *model, u32 block, enum kv_evict_advice what, u64 value);
void model_seen(struct model *model, const u32 *keys, u32 nr);
void model_free(struct model *model, const u32 *blocks, u32 nr);	/* one batch */
void model_leave(struct model *model, u32 block);

/* All blocks in the order in which they are to be evicted; returns how many. */
u32 model_read(const struct model *model, u32 *victims);

#endif /* TESTS_EVICT_MODEL_H */
