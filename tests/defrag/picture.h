/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone as a picture, and an owner of what is in it.
 *
 * One character a block: '.' free, a capital letter one movable item (a run of equal letters), a
 * small letter one that cannot move.
 */
#ifndef DEFRAG_PICTURE_H
#define DEFRAG_PICTURE_H

#include <kv/defrag.h>

#define PICTURE_MAX	128

struct picture {
	char cell[PICTURE_MAX + 1];	/* what the owner says lies where */
	char content[PICTURE_MAX + 1];	/* what the memory holds */
	u32 nr;
	bool reserved[PICTURE_MAX];	/* destinations taken by isolate */
	bool moving;
	bool lost;			/* commit reported destroyed content */
	u32 nr_copies;			/* tried so far */
	u32 fail_copy;			/* this one fails; 0 = none */
	u32 nr_stale;			/* so often isolate finds the picture out of date */
};

extern const struct kv_movable_ops picture_ops;

void picture_init(struct picture *pic, const char *cells);

/* The items of a picture; returns how many. */
u32 picture_items(const char *cells, struct kv_item *items, u32 max);

/* Execute a plan on the letters alone, move after move. */
void picture_apply(char *cells, const struct kv_plan *plan);

#endif /* DEFRAG_PICTURE_H */
