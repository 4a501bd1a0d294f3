/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a few blocks, said as plainly as possible: what explore.c compares the code with. */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <kv/entry.h>
#include <kv/registry_map.h>

#define MAX_BLOCKS	3u
#define NR_NAMES	4u		/* two keys of two tenants */

struct block {
	u8 state;			/* enum kv_entry_state */
	u8 name;			/* STAGED and later */
	u8 refs;
	u8 pins;
	bool moving;
	bool hidden;
	bool parked;			/* EVICTING: it was */
	bool reset;
	bool in_map;
};

struct model {
	struct block block[MAX_BLOCKS];
	u8 order[MAX_BLOCKS];		/* blocks in the map, oldest first */
	u8 nr_order;
	u8 free[MAX_BLOCKS];		/* a stack */
	u8 nr_free;
};

enum deed {
	DEED_TAKE,
	DEED_FREE,
	DEED_STAGE,			/* arg: the name */
	DEED_UNSTAGE,
	DEED_INSERT,			/* arg: the policy */
	DEED_FIND,			/* arg: the name */
	DEED_TRY_GET,
	DEED_GET,
	DEED_PUT,
	DEED_PIN,
	DEED_UNPIN,
	DEED_MOVE,
	DEED_MOVED,
	DEED_SET_RESET,
	DEED_CLEAR_RESET,
	DEED_CLAIM,
	DEED_UNCLAIM,
	DEED_HIDE,
	DEED_PARK,
	DEED_REMOVE,
	NR_DEEDS,
};

struct op {
	u8 deed;			/* enum deed */
	u8 block;
	u8 arg;
};

/* Do it: what the call returns; for DEED_TAKE and DEED_FIND the block, or a negative errno. */
int model_do(struct model *model, struct op op);
/* The name's block that a lookup finds, or -ENOENT. */
int model_find(const struct model *model, u8 name);
/* Is this one in the map, and an older one of its name, too? */
bool model_is_dup(const struct model *model, u8 block);

#endif /* EXPLORE_H */
