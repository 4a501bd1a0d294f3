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

/* KVMM_SEED, or @seed; printed. */
u32 picture_seed(u32 seed);
/*
 * Letters A.. of up to @longest blocks, with gaps. One in @pinned_in cannot move; one in @lost_in is
 * a single block from Q on, see goal_util.h. 0: none is.
 */
void picture_random(char *cells, u32 nr, u32 longest, u32 lost_in, u32 pinned_in, u32 *rng);
/* The longest free run. */
u32 picture_longest(const char *cells);

#endif /* DEFRAG_PICTURE_H */
