/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of (time, index): earliest first, lowest index among equals. */
#ifndef REPLAY_HEAP_H
#define REPLAY_HEAP_H

#include "common.h"

struct event {
	u64 time;
	u32 index;
};

struct heap {
	struct event *event;
	u32 nr;
	u32 cap;
};

void heap_push(struct heap *heap, u64 time, u32 index);

/** heap_pop() - remove the first; there must be one */
struct event heap_pop(struct heap *heap);

void heap_exit(struct heap *heap);

#endif /* REPLAY_HEAP_H */
