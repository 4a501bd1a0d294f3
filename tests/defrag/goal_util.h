/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans for goals on pictures, and what must be true of any of them.
 *
 * Letters as in picture.h, and besides: Q to Z may be lost, one letter one block. Parts of one range
 * are told by the caller.
 */
#ifndef DEFRAG_GOAL_UTIL_H
#define DEFRAG_GOAL_UTIL_H

#include "tests/defrag/picture.h"

struct goal_case {
	struct kv_item items[PICTURE_MAX];
	struct kv_move moves[PICTURE_MAX];
	struct kvmm_extent drops[PICTURE_MAX];
	u32 pageblocks[PICTURE_MAX];
	u32 failed[PICTURE_MAX];
	struct kv_prices prices;
	struct kv_plan_req req;
	struct kv_plan plan;
	char after[PICTURE_MAX + 1];
};

/* A block costs 10 to copy, and @drop_ns to lose; 0: nothing is lost. */
void goal_init(struct goal_case *c, const char *cells, u32 goal, u32 want, u64 drop_ns);
/* They are parts of one owner, in the order of @letters. */
void goal_owner(struct goal_case *c, u32 owner, const char *letters);
/* Descriptors that owners take, before the plan or after it. */
u32 goal_nr_pieces(const struct goal_case *c, bool after);
/* The plan, on scratch that ends where the planner said; then what holds for every plan. */
int goal_run(struct goal_case *c);

/* The least that it costs to clear the blocks of @area, or ~0: tries all there is. */
u64 goal_least(const struct goal_case *c, const char *cells, const bool *area);

#endif /* DEFRAG_GOAL_UTIL_H */
