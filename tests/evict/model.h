/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policies are defined as, without any care for time: each question is answered by
 * looking at all blocks. Written from the definitions, sharing nothing with the library.
 */
#ifndef TESTS_EVICT_MODEL_H
#define TESTS_EVICT_MODEL_H

#include <kv/types.h>

#define MODEL_BLOCKS	48
#define MODEL_KEYS	96

struct model_block {
	bool in;
	bool named;
	bool protected;
	u32 key;
	u32 uses;
	u64 when;
	s64 place;		/* larger comes later in its queue */
	u64 rank;		/* what lfu, glfu or hint says, smallest first */
};

struct model {
	const char *name;
	u32 nr_blocks;
	s64 head, tail;		/* places in use so far */
	struct model_block block[MODEL_BLOCKS];
	u32 requests[MODEL_KEYS];
};

void model_init(struct model *model, const char *name, u32 nr_blocks);
void model_fill(struct model *model, u32 block, u32 key);
void model_hit(struct model *model, u32 block);
void model_hint(struct model *model, u32 block, u64 when);
void model_seen(struct model *model, const u32 *keys, u32 nr);
void model_free(struct model *model, const u32 *blocks, u32 nr);	/* one batch */
void model_leave(struct model *model, u32 block);

/* All blocks in the order in which they are to be evicted; returns how many. */
u32 model_read(const struct model *model, u32 *victims);

#endif /* TESTS_EVICT_MODEL_H */
